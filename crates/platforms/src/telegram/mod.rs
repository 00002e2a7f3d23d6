//! Telegram: the Bot API.

pub mod render;

mod markdown;

#[cfg(test)]
pub(crate) use markdown::MarkdownV2;

#[cfg(test)]
mod render_tests;
