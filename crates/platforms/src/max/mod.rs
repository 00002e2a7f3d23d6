//! MAX: the Bot API.

pub mod errors;
pub mod render;

mod markdown;
