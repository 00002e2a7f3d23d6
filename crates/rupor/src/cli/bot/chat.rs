//! `rupor bot chat`: a dialogue in the terminal.

use std::io::BufRead;
use std::path::PathBuf;

use clap::Args;
use domain::dialogue::transcript::{Shown, Stage, doing};

use super::super::operator::say;
use crate::bot;

/// Talk to the bot in the terminal
///
/// Write as a person would; `[title]` presses a button, `@ +31m` lets time pass, `operator> text` answers as a human,
/// `! photo` sends a picture. End with Ctrl-D. Needs no database and sends nothing.
#[derive(Debug, Args)]
pub(super) struct Chat {
    /// The rules file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Chat) -> anyhow::Result<()> {
    let rules = bot::sound(&args.file)?;
    let mut stage = Stage::new(&rules);
    say("Write to the bot; begin with /start. Ctrl-D ends.")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match doing(&line).and_then(|doing| stage.perform(&doing)) {
            Ok(shown) => print(&shown)?,
            Err(wrong) => say(&wrong)?,
        }
    }
    Ok(())
}

fn print(shown: &Shown) -> anyhow::Result<()> {
    for reply in &shown.replies {
        say(&format!("‹ {}", reply.text.replace('\n', "\n  ")))?;
        if let Some(photo) = &reply.photo {
            say(&format!("  (photo {photo})"))?;
        }
        for row in &reply.buttons {
            let titles: Vec<&str> = row.iter().map(|button| button.text.as_str()).collect();
            say(&format!("  [{}]", titles.join("] [")))?;
        }
    }
    let facts = ["rule", "state", "mode", "handoff", "toast", "call"];
    let told = facts.iter().filter_map(|key| Some(format!("{key} {}", shown.facts.get(key)?)));
    say(&format!("= {}", told.collect::<Vec<_>>().join("; ")))?;
    Ok(())
}
