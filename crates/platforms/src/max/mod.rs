//! MAX: the Bot API.

pub mod errors;
