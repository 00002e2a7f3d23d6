//! What only PostgreSQL has: roles and row-level security, functions that any client may call, plans, migrations on a
//! server, wires that are cut. The promises that both databases keep are in `tests/it`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../it/world.rs"]
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the world of the contract suite; not all of it is needed here"
)]
mod world;

mod keys;
mod migrations;
mod orchestrate;
mod plans;
mod psql;
mod roles;
mod schema;
mod server;
mod settling;
mod silence;
mod statements;
mod storms;
mod tls;
mod wires;
mod workflows;
