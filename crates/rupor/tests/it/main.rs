//! The product as a whole: its documents and its command line.

mod bot;
mod bot_page;
mod callbacks;
mod operating;
mod promises;
mod readme;
mod security;
