//! VK: walls and conversations.

pub mod render;
