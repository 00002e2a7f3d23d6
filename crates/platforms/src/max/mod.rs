//! MAX: the Bot API.
