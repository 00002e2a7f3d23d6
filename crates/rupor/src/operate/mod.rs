//! What operators do: the verbs that change things, the way to the running node, and the words that explain.
//!
//! On SQLite the running node has the file, so a command sends its verb over a private socket beside it; when no node
//! runs, or on PostgreSQL, the command performs it itself. `verb` says what can be done, `socket` how it gets there,
//! `facts` gathers what is known, `words` says it in sentences (also for the board and `rupor why`).

pub mod alerts;
pub mod bots;
pub mod campaigns;
pub mod check;
pub mod facts;
pub mod quiet;
pub mod socket;
pub mod status;
pub mod trouble;
pub mod verb;
pub mod who;
pub mod words;

#[cfg(test)]
pub mod tests;

pub use socket::{serve, socket_path};
pub use verb::{Verb, perform};
