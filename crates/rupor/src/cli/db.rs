//! `rupor db`: a whole database copied into an empty one, looked through for damage, or saved from it.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use store::copy::{Copied, CopyProgress, copy};
use store::{Address, Store, StoreError};

use super::database::{Database, key_path};
use super::migrate::roles_script;
use super::operator::{block_on, say};

/// Look after whole databases
#[derive(Debug, Args)]
pub(super) struct Db {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Copy(CopyArgs),
    Check(CheckArgs),
    Repair(RepairArgs),
}

/// Look through a whole database for damage
///
/// Works beside a running node. On SQLite every page, row and index is read; on both databases the queue is compared with
/// the deliveries. Ends with 1 if anything is wrong.
#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    database: Database,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// Save what can be read of a damaged SQLite file into a new one
///
/// A backup is better where there is one. The damaged file is not changed; stop its node first. The new one is held until
/// `rupor release`: what was sent or queued last may be missing in it.
#[derive(Debug, Args)]
struct RepairArgs {
    /// The file to write
    #[arg(value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    database: Database,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
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

pub(super) fn run(args: &Db) -> anyhow::Result<()> {
    match &args.what {
        What::Copy(args) => block_on(copy_all(args)),
        What::Check(args) => block_on(check(args)),
        What::Repair(args) => block_on(repair(args)),
    }
}

async fn check(args: &CheckArgs) -> anyhow::Result<()> {
    let address = args.database.address()?;
    let mut wrong = match &address {
        Address::Sqlite(path) => store::sqlite::damage::check(path).await?,
        Address::Postgres(_) => Vec::new(),
    };
    if wrong.is_empty() {
        let store = Store::open_reading(&address, args.database.keyring(&address)?).await?;
        for workspace in store.workspaces().await? {
            let found = store.audit(workspace.workspace_id).await?;
            wrong.extend(found.into_iter().map(|line| format!("workspace {}: {line}", workspace.name)));
        }
    }
    match args.json {
        true => say(&json!({"wrong": wrong}).to_string())?,
        false if wrong.is_empty() => say(&format!("{address} is sound"))?,
        false => say(&wrong.join("\n"))?,
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(
        "{address} is damaged; stop the node, keep a copy, and put a backup back, or save what can be read with \
         `rupor db repair NEW.db`"
    )
}

async fn repair(args: &RepairArgs) -> anyhow::Result<()> {
    let address = args.database.address()?;
    let Address::Sqlite(path) = &address else {
        bail!("{address}: rupor repairs SQLite files; for PostgreSQL restore a backup of the server");
    };
    let done = store::sqlite::damage::repair(path, &args.to).await?;
    if args.json {
        let tables: serde_json::Map<String, Value> =
            done.tables.iter().map(|(name, rows)| ((*name).to_owned(), json!(rows))).collect();
        return say(&json!({"tables": tables, "broken": done.broken, "orphans": done.orphans}).to_string());
    }
    let mut lines: Vec<String> = done
        .tables
        .iter()
        .filter(|(_, rows)| *rows > 0)
        .map(|(name, rows)| format!("{rows:>10}  {name}"))
        .collect();
    if !done.broken.is_empty() {
        lines.push(format!("could not be read whole: {}", done.broken.join(", ")));
    }
    if done.orphans > 0 {
        lines.push(format!("{} rows were left out, because what they refer to is lost", done.orphans));
    }
    let (to, key) = (args.to.display(), args.database.key_path(&address));
    lines.push(format!("{to} is held until you have looked; its media lie in the folder of the old file"));
    lines.push(format!(
        "next: rupor db check --db sqlite:{to} --key-file {}, put it in place of the old file, rupor run, rupor release",
        key.display()
    ));
    say(&lines.join("\n"))
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
        false => say(&summary(&copied, &from, &to, &keys)),
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

fn summary(copied: &Copied, from: &Address, to: &Address, keys: &Keys) -> String {
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
