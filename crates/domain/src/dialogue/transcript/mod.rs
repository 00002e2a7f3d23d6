//! Transcripts: dialogues written down, played against rules without a database or a platform.
//!
//! `> text` the person writes, `> [title]` presses a button, `‹ text` the bot answers, `@ +31m` time passes,
//! `= state menu; rule cancel` facts that must hold, `operator> text` people answer, `! blocked` other things happen.
//! `read` takes a file apart, `play` plays it, `bless` writes it again as it went.

mod bless;
mod play;
mod read;

pub use bless::bless;
pub use play::{Played, Shown, Stage, play};
pub use read::{Block, Doing, Line, Transcript, Wanted, doing, read};

#[cfg(test)]
mod tests;
