//! VK: walls and conversations.

pub mod render;

#[cfg(test)]
mod render_tests;
