//! MAX: the Bot API.

pub mod errors;
pub mod render;

pub(crate) mod markdown;

#[cfg(test)]
mod render_tests;
