//! VK: walls and conversations.
