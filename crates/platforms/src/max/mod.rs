//! MAX: the Bot API.

pub mod render;

mod markdown;
