//! Configuration as people write it: a file, or a few variables.

pub mod span;
