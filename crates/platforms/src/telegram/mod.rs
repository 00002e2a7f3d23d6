//! Telegram: the Bot API.
