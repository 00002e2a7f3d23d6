//! The bot's rules as people meet them: a file, what they say, what they hear.

mod lint;
mod odd;
mod people;
mod phrases;
mod properties;
mod slots;
mod steps;
mod words;
