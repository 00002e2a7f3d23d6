//! What all operator commands share: which database, which workspace, how to look and how to change things.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use domain::shown;
use serde_json::Value;
use store::{Address, Clock, Store};

use super::database::Database;
use crate::operate::facts::Ailment;
use crate::operate::{Verb, perform, socket, socket_path, who};

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

/// An open look at a database.
#[derive(Debug)]
pub(super) struct Look {
    pub store: Store,
    /// Whether a node runs; `None` where nobody can know.
    pub node: Option<bool>,
    /// What is wrong with the database: as its node says, or as the server shows.
    pub database: Option<Ailment>,
}

/// Nodes that share a server have no socket to ask: what one of them told of itself stands in the rows of alerts.
async fn told_by_nodes(store: &Store) -> anyhow::Result<Option<Ailment>> {
    for workspace in store.workspaces().await? {
        let alerts = store.alerts(workspace.workspace_id, ALERTS_MAX).await?;
        let still = alerts.iter().find(|alert| alert.kind == "standstill" && alert.ended_at.is_none());
        if let Some(alert) = still {
            let (node, cause) = (alert.key.rsplit('@').next().unwrap_or_default(), &alert.words["cause"]);
            let words = format!("node {node}: {}", cause.as_str().unwrap_or_default());
            return Ok(Some(Ailment { words, stands_still: true, ..Ailment::default() }));
        }
    }
    Ok(None)
}

/// Alerts that are looked through for one that is open.
const ALERTS_MAX: usize = 100;

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
                "database {address} does not exist yet; `rupor apply` or `rupor migrate` makes it, --db names another"
            );
        }
        let store = Store::open_reading(&address, self.database.keyring(&address)?).await?;
        let (node, database) = match socket_path(&address) {
            Some(path) if socket::is_served(&path).await => {
                let told = socket::send(&path, &Verb::Health, None).await.ok().flatten();
                (Some(true), told.and_then(|told| serde_json::from_value(told).ok()).flatten())
            }
            Some(_) => (Some(false), None),
            None => {
                let ill = |words| Ailment { words, ..Ailment::default() };
                let ailment = store.ailment().await.map(ill);
                (None, if ailment.is_some() { ailment } else { told_by_nodes(&store).await? })
            }
        };
        Ok(Look { store, node, database })
    }

    /// Has the running node make a change, or makes it where none runs.
    pub(super) async fn perform(&self, verb: Verb) -> anyhow::Result<Value> {
        self.hand().await?.perform(verb).await
    }

    /// The way to make changes, for commands that make several.
    pub(super) async fn hand(&self) -> anyhow::Result<Hand> {
        let address = self.database.address()?;
        if let Some(path) = socket_path(&address)
            && socket::is_served(&path).await
        {
            return Ok(Hand::Node(path, self.reason.clone()));
        }
        let store = Store::open(&address, self.database.keyring(&address)?, Clock::system()).await?;
        Ok(Hand::Own(Box::new(store.by(who::own(self.reason.clone())))))
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
            true => say(&serde_json::to_string(value)?),
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
