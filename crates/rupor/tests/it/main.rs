//! The product as a whole: its documents and its command line.

mod bot;
mod operating;
mod promises;
mod readme;
mod security;
