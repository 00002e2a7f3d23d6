//! Telegram: the Bot API.

pub mod errors;
