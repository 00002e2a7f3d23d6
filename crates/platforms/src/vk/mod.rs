//! VK: walls and conversations.

pub mod errors;
