//! What all operator commands share: which database, which workspace, how to look and how to change things.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use domain::shown;
use domain::time::{Span, Timestamp};
use serde_json::Value;
use store::{Address, Clock, SchemaError, Store, StoreError};
use tokio::time::Instant;

use super::database::Database;
use crate::operate::facts::{Ailment, a_node_signs};
use crate::operate::search::Words;
use crate::operate::{Verb, perform, socket, socket_path, style, who};

#[derive(Debug, Args)]
pub(super) struct OperatorArgs {
    #[command(flatten)]
    pub database: Database,
    /// Workspace by name; needed only where there are several
    #[arg(long, value_name = "NAME", env = "RUPOR_WORKSPACE")]
    pub workspace: Option<String>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
    /// Why you change something; it stands in the events, beside your name
    #[arg(long, value_name = "TEXT", alias = "why")]
    pub reason: Option<String>,
}

/// Which ones a command for several means: by name, by pattern, by tag.
#[derive(Debug, Args)]
pub(super) struct Several {
    /// Name, or a pattern: `*` fits any text
    #[arg(value_name = "NAME", required_unless_present = "tag")]
    pub name: Option<String>,
    #[command(flatten)]
    pub tagged: Tagged,
}

#[derive(Debug, Args)]
pub(super) struct Tagged {
    /// Only those with this tag (`tags = ["cats"]` in rupor.toml)
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
}

impl Several {
    /// Whether exactly one is meant.
    pub(super) fn only(&self) -> Option<&str> {
        self.name.as_deref().filter(|name| self.tagged.tag.is_none() && !name.contains('*'))
    }

    pub(super) fn fit(&self, name: &str, settings: &Value) -> bool {
        self.name.as_deref().is_none_or(|pattern| fits(pattern, name)) && self.tagged.fit(settings)
    }
}

impl Tagged {
    pub(super) fn fit(&self, settings: &Value) -> bool {
        let tags = || settings["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.tag.as_deref().is_none_or(|tag| tags().any(|one| one == tag))
    }
}

impl std::fmt::Display for Several {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.name, &self.tagged.tag) {
            (Some(name), Some(tag)) => write!(f, "{name:?} with the tag {tag:?}"),
            (Some(name), None) => write!(f, "{name:?}"),
            (None, tag) => write!(f, "the tag {:?}", tag.as_deref().unwrap_or_default()),
        }
    }
}

/// How much of a listing, the newest first.
#[derive(Debug, Args)]
pub(super) struct Newest {
    /// Show at most this many
    #[arg(long, visible_alias = "limit", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub last: u32,
    /// Only what is younger than this, such as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = super::channel::time)]
    pub since: Option<Span>,
    /// Only what has all these words, in any order
    #[arg(long, value_name = "WORDS")]
    pub search: Option<String>,
}

impl Newest {
    pub(super) fn last(&self) -> usize {
        self.last as usize
    }

    /// The oldest time that is shown.
    pub(super) async fn begin(&self, store: &Store) -> anyhow::Result<Timestamp> {
        Ok(match self.since {
            Some(span) => store.now().await? - span,
            None => Timestamp(i64::MIN),
        })
    }

    pub(super) fn words(&self) -> Option<Words> {
        Words::of(self.search.as_deref().unwrap_or_default())
    }
}

/// An open look at a database.
#[derive(Debug)]
pub(super) struct Look {
    pub store: Store,
    /// Whether a node runs; `None` where nobody can know.
    pub node: Option<bool>,
    /// What is wrong with the database: as its node says, or as the server shows.
    pub database: Option<Ailment>,
}

/// One step of a schema on an empty database.
const MIGRATING_MAX: Duration = Duration::from_secs(1);
/// How long a command waits for a node that is just starting.
const STARTING_MAX: Duration = Duration::from_secs(5);

/// Who makes the changes.
#[derive(Debug)]
pub(super) enum Hand {
    /// The running node, over its socket, with the reason for what is asked.
    Node(PathBuf, Option<String>),
    Own(Box<Store>),
}

impl Hand {
    pub(super) async fn perform(&self, verb: Verb) -> anyhow::Result<Value> {
        match self {
            Hand::Own(store) => perform(store, verb).await,
            Hand::Node(path, reason) => {
                let answer = socket::send(path, &verb, reason.as_deref()).await?;
                answer.context("the node went away; run it again: nothing is done twice")
            }
        }
    }
}

impl OperatorArgs {
    /// Opens the database for reading, beside the node that may have it.
    pub(super) async fn look(&self) -> anyhow::Result<Look> {
        let address = self.database.address()?;
        if let Address::Sqlite(store::address::SqlitePath::File(file)) = &address
            && !file.exists()
        {
            bail!(
                "there is no database at {address} yet; `rupor run` or `rupor apply` makes it, --db names another"
            );
        }
        let store = self.open_reading(&address).await?;
        let (node, database) = match socket_path(&address) {
            Some(path) if socket::is_served(&path).await => {
                let told = socket::send(&path, &Verb::Health, None).await.ok().flatten();
                (Some(true), told.and_then(|told| serde_json::from_value(told).ok()).flatten())
            }
            Some(_) => (Some(false), None),
            None => {
                let ill = |words| Ailment { words, ..Ailment::default() };
                let ailment = store.ailment().await.map(ill);
                let told = if ailment.is_some() { ailment } else { Ailment::told_by_nodes(&store).await? };
                (a_node_signs(&store).await, told)
            }
        };
        Ok(Look { store, node, database })
    }

    /// A node that is just starting brings the schema up to date, step by step: it is waited for as long as it does.
    async fn open_reading(&self, address: &Address) -> anyhow::Result<Store> {
        let (mut moved, mut version) = (Instant::now(), 0);
        loop {
            match Store::open_reading(address, self.database.keyring(address)?).await {
                Err(StoreError::Schema(SchemaError::Older { found, .. })) if found > version => {
                    (moved, version) = (Instant::now(), found);
                }
                Err(StoreError::Schema(SchemaError::Older { .. })) if moved.elapsed() < MIGRATING_MAX => {}
                opened => return Ok(opened?),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Has the running node make a change, or makes it where none runs.
    pub(super) async fn perform(&self, verb: Verb) -> anyhow::Result<Value> {
        self.hand().await?.perform(verb).await
    }

    /// The way to make changes, for commands that make several. A node that is just starting has the file before it listens.
    pub(super) async fn hand(&self) -> anyhow::Result<Hand> {
        let address = self.database.address()?;
        let began = Instant::now();
        loop {
            if let Some(path) = socket_path(&address)
                && socket::is_served(&path).await
            {
                return Ok(Hand::Node(path, self.reason.clone()));
            }
            match Store::open(&address, self.database.keyring(&address)?, Clock::system()).await {
                Err(StoreError::InUse { .. }) if began.elapsed() < STARTING_MAX => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                opened => return Ok(Hand::Own(Box::new(opened?.by(who::own(self.reason.clone()))))),
            }
        }
    }

    /// The reason that was given, or what is said without one.
    pub(super) fn why(&self, usual: &str) -> String {
        self.reason.clone().unwrap_or_else(|| usual.to_owned())
    }

    /// The workspace that is meant: the named one, the only one, or `default`.
    pub(super) async fn workspace(&self, store: &Store) -> anyhow::Result<String> {
        if let Some(name) = &self.workspace {
            return Ok(name.clone());
        }
        let known = store.workspaces().await?;
        match known.as_slice() {
            [] => bail!("there is no workspace yet; write rupor.toml and run `rupor apply`"),
            [only] => Ok(only.name.clone()),
            several => {
                let names: Vec<&str> = several.iter().map(|workspace| workspace.name.as_str()).collect();
                let default = names.iter().find(|name| **name == "default");
                let named = || {
                    format!("there are several workspaces; name one with --workspace: {}", names.join(", "))
                };
                default.map(|name| (*name).to_owned()).with_context(named)
            }
        }
    }

    /// Prints a value for programs, or its text for people.
    pub(super) fn print(
        &self,
        value: &impl serde::Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self.json {
            true => say(&style::styled(value)?.to_string()),
            false => say(text().trim_end()),
        }
    }
}

/// Runs an operator command to its end.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(work)
}

/// One text or JSON on standard output, with nothing in it that acts on a terminal. A reader that went away (`| head`)
/// is no failure.
pub(super) fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", shown::page(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether a name is what a pattern means: `*` fits any text, everything else itself.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, rest)) => name.strip_prefix(begin).is_some_and(|after| {
            let ends = after.char_indices().map(|(at, _)| at).chain([after.len()]);
            ends.into_iter().any(|at| fits(rest, &after[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_fits_any_text() {
        for (pattern, name, expected) in [
            ("tg-*", "tg-lost", true),
            ("tg-*", "vk-lost", false),
            ("*лост*", "тг-лост-1", true),
            ("*", "", true),
            ("lost", "lost", true),
            ("lost", "lost2", false),
            ("a*b*c", "a-b-b-c", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
