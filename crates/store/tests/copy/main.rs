//! What goes from one database into another: `rupor db copy` and `rupor backup`. It needs both databases at once, which
//! the promises in `tests/it` never do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../it/world.rs"]
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the world of the contract suite; not all of it is needed here"
)]
mod world;

mod copying;
