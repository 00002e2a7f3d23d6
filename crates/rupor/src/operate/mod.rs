//! What operators do: the verbs that change things, the way to the running node, and the words that explain.
//!
//! On SQLite the running node has the file, so a command sends its verb over a private socket beside it; when no node
//! runs, or on PostgreSQL, the command performs it itself. `verb` says what can be done, `socket` how it gets there,
//! `facts` gathers what is known, `words` says it in sentences (also for the board and `rupor why`).

pub(crate) mod alerts;
pub(crate) mod audiences;
pub(crate) mod bots;
pub(crate) mod campaigns;
mod cases;
pub(crate) mod check;
pub(crate) mod facts;
mod posts;
pub(crate) mod quiet;
pub(crate) mod search;
pub(crate) mod socket;
mod sources;
pub(crate) mod status;
pub(crate) mod style;
pub(crate) mod trouble;
pub(crate) mod verb;
pub(crate) mod who;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use socket::{serve, socket_path};
pub(crate) use verb::{Verb, perform};
