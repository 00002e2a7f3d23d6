//! The product as a whole: its documents and its command line.

mod bot;
mod bot_page;
mod callbacks;
mod campaign_input;
mod campaign_words;
mod operating;
mod promises;
mod readme;
mod security;
