//! VK: walls and conversations.

pub mod errors;
pub mod render;
