//! `rupor db copy`: a whole database into an empty one, between SQLite and PostgreSQL or any two of them.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use store::copy::{Copied, CopyProgress, copy};
use store::{Address, StoreError};

use super::database::key_path;
use super::desk::{block_on, say};
use super::migrate::roles_script;

/// Look after whole databases
#[derive(Debug, Args)]
pub struct Db {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Copy(CopyArgs),
}

/// Copy everything from one database into another that is empty
///
/// Moves a set-up from SQLite to PostgreSQL, or back, or to another file or server. Stop every node first: a database
/// that a node works on is refused. Either everything arrives, counted table by table, or nothing changes. The copy goes
/// on where the source stood, with the same key file; the source is held afterwards, because two that send would say
/// everything twice. On PostgreSQL both addresses name the user that ran `rupor migrate`; an empty database gets the
/// schema by itself.
#[derive(Debug, Args)]
struct CopyArgs {
    /// The database to read: sqlite:FILE or postgres://USER@HOST/DATABASE
    from: String,
    /// The empty database to fill
    to: String,
    /// File with the key that seals tokens; only named in the answer, never read
    #[arg(long, value_name = "FILE", env = "RUPOR_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Db) -> anyhow::Result<()> {
    match &args.what {
        What::Copy(args) => block_on(copy_all(args)),
    }
}

async fn copy_all(args: &CopyArgs) -> anyhow::Result<()> {
    let (from, to) = (Address::parse(&args.from)?, Address::parse(&args.to)?);
    let bar = bar();
    let copied = copy(&from, &to, |progress| show(&bar, progress)).await;
    bar.finish_and_clear();
    let copied = copied.map_err(|error| {
        let undone = !matches!(error, StoreError::CommitUnknown { .. });
        let context = if undone { "nothing was changed" } else { "look at the target before you go on" };
        anyhow::Error::new(error).context(context)
    })?;
    let keys =
        Keys { from: key_path(args.key_file.as_deref(), &from), to: key_path(args.key_file.as_deref(), &to) };
    match args.json {
        true => say(&as_json(&copied, &keys).to_string()),
        false => say(&told(&copied, &from, &to, &keys)),
    }
}

/// Where a node on either database looks for the key.
struct Keys {
    from: PathBuf,
    to: PathBuf,
}

fn as_json(copied: &Copied, keys: &Keys) -> Value {
    let tables: serde_json::Map<String, Value> =
        copied.tables.iter().map(|(name, rows)| ((*name).to_owned(), json!(rows))).collect();
    json!({
        "rows": copied.rows(),
        "tables": tables,
        "media_missing": copied.media_missing,
        "source_held": copied.source_not_held.is_none(),
        "key_file": keys.to.display().to_string(),
    })
}

fn told(copied: &Copied, from: &Address, to: &Address, keys: &Keys) -> String {
    let mut lines = Vec::new();
    for (name, rows) in copied.tables.iter().filter(|(_, rows)| *rows > 0) {
        lines.push(format!("{rows:>10}  {name}"));
    }
    lines.push(format!("{:>10}  rows copied from {from} to {to}, counted on both sides", copied.rows()));
    if copied.media_missing > 0 {
        lines.push(format!(
            "{} media files were not in the folder of the source; posts with them go out without",
            copied.media_missing
        ));
    }
    lines.push(match &copied.source_not_held {
        None => format!("{from} is held now, so that a node started there by mistake says nothing twice"),
        Some(problem) => format!("{from} could not be held: {problem}; do not start a node there again"),
    });
    lines.push(key_words(&keys.from, &keys.to));
    lines.push(format!("next: RUPOR_DB={to} rupor status, then rupor run"));
    if let Some(problem) = &copied.roles_refused {
        lines.push(roles_script(problem));
    }
    lines.join("\n")
}

/// The key is never copied behind anybody's back.
fn key_words(from: &Path, to: &Path) -> String {
    let (from_shown, to_shown) = (from.display(), to.display());
    if from == to {
        return format!("the tokens stay sealed with {from_shown}, which a node on the copy uses too");
    }
    let (from_note, to_note) = (from.with_extension("epoch"), to.with_extension("epoch"));
    format!(
        "the tokens stay sealed with {from_shown}; a node on the copy looks for {to_shown}:\n\
         $ cp -p {from_shown} {to_shown} && cp -p {} {}\n\
         or set RUPOR_KEY_FILE={from_shown}",
        from_note.display(),
        to_note.display()
    )
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{msg:20} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: CopyProgress) {
    bar.set_message(progress.table);
    bar.set_length(progress.of);
    bar.set_position(progress.rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_named_and_never_taken_along_silently() {
        let words = key_words(Path::new("/a/rupor.key"), Path::new("rupor.key"));
        assert!(
            words.contains("cp -p /a/rupor.key rupor.key && cp -p /a/rupor.epoch rupor.epoch"),
            "{words}"
        );
        assert!(words.contains("or set RUPOR_KEY_FILE=/a/rupor.key"), "{words}");
        let same = key_words(Path::new("k"), Path::new("k"));
        assert!(same.contains("which a node on the copy uses too"), "{same}");
    }
}
