//! WHAT MOVES: the loops of a node. Each is a folder or a file, none calls another; they meet only in the store.
//!
//! ```text
//! sources ─► ingest ─► store ─► dispatch ─► platforms          monitor: what stands still, what grew old
//! campaigns ─► store (deliveries for many people)              vitals: whether the database is well
//! bot (hears people, takes turns) ─► store (replies)
//! callbacks ─► store (what became of deliveries, for programs)
//! ```
//!
//! Nothing here knows a configuration file, a command line or an HTTP server: who starts a loop gives it values.
//! Start reading at `dispatch`, then `ingest` and `sources`.

pub mod addresses;
pub mod bot;
pub mod callbacks;
pub mod campaigns;
pub mod dispatch;
pub mod epoch;
pub mod ingest;
pub mod lanes;
pub mod monitor;
pub mod opening;
pub mod shelf;
pub mod sources;
pub use domain::span;
pub mod upkeep;
pub mod vitals;
