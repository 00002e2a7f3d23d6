//! MAX: the Bot API.

pub mod render;

mod markdown;

#[cfg(test)]
pub(crate) use markdown::{Markdown, by_line};

#[cfg(test)]
mod render_tests;
