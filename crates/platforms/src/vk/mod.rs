//! VK: walls and conversations.

pub mod errors;
pub mod render;

#[cfg(test)]
mod render_tests;
