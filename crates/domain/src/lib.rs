//! What is true: the rules of Rupor as pure functions and values.
//! This crate knows nothing of databases, networks, clocks or threads; time and chance are arguments.

pub mod content;
