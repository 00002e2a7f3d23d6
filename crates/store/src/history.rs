//! Which history of a database this is: keys that no other one repeats, and what is done when commits are lost.
//!
//! A standby that is promoted may not have the last commits, and gives their ids again. A node finds out by what it was
//! told: the last batch that was acknowledged is offered again over every new connection (`engine::dispatch`), and the
//! boot epoch is compared (`engine::epoch`).

use domain::ids::{DeliveryId, WorkspaceId};
use domain::time::{Span, Timestamp};

use crate::error::Result;
use crate::facade::Store;
use crate::queue::Parts;

/// The key that platforms recognise repeats by: this history of this database, the delivery, the words it stands for.
/// Platforms remember keys for an hour, and ids begin again in a new file and after a failover that lost commits.
pub(crate) fn delivery_key(history: &str, delivery_id: i64, wording: &str) -> String {
    format!("{history}.{delivery_id}.{wording}")
}

/// What a message says of itself, in a few characters.
pub(crate) fn wording(request_hash: &str, content_hash: &str, revision: i32) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(request_hash.as_bytes()).update(content_hash.as_bytes()).update(&revision.to_le_bytes());
    hasher.finalize().to_hex()[..12].to_owned()
}

/// Which history of a database this is, and who serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Part of every key; new when commits were lost or a backup was restored.
    pub id: String,
    /// Changes when another server takes over (the timeline of PostgreSQL); empty where it cannot be asked for.
    pub server: String,
}

/// The first words of a hold after commits were lost.
pub const HISTORY_LOST: &str = "history was lost";

/// A success that a node remembers, offered to a ledger that may have lost it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub workspace_id: WorkspaceId,
    pub delivery_id: DeliveryId,
    /// The same id with another key is another delivery.
    pub idempotency_key: String,
    pub provider_message_id: Option<String>,
    pub parts: Parts,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// The ledger knew.
    Known,
    /// It still waited; now it is sent.
    Adopted,
    /// There is no such delivery any more.
    Gone,
    /// It ended another way.
    Elsewhere,
}

/// A node that sends, as it said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    pub run_id: String,
    pub seen_at: Timestamp,
    /// What it acts on: all that it knew of what was sent before is in there.
    pub history: History,
}

/// A node that said nothing for so long is forgotten.
pub(crate) const NODE_FORGOTTEN_AFTER: Span = Span::from_secs(24 * 3_600);

impl Replayed {
    pub(crate) fn parse(word: &str) -> Option<Replayed> {
        Some(match word {
            "known" => Replayed::Known,
            "adopted" => Replayed::Adopted,
            "gone" => Replayed::Gone,
            "elsewhere" => Replayed::Elsewhere,
            _ => return None,
        })
    }
}

impl Store {
    /// Whether the last message that was accepted here is still there. A file has nobody to lose it to.
    pub async fn accepted_is_known(&self) -> Result<bool> {
        match self {
            Store::Sqlite(_) => Ok(true),
            Store::Postgres(db) => db.accepted_is_known().await,
        }
    }

    pub async fn history(&self) -> Result<History> {
        match self {
            Store::Sqlite(db) => db.history().await,
            Store::Postgres(db) => db.history().await,
        }
    }

    /// Connections made so far: whoever sees another number talks to the database over a new one, and has to look
    /// whether it is still the history he knows. A file is never left.
    pub fn connections(&self) -> u64 {
        match self {
            Store::Sqlite(_) => 0,
            Store::Postgres(db) => db.connections(),
        }
    }

    /// Commits are gone: holds everything and begins a history of its own. Whoever finds the same afterwards adds what
    /// he knows.
    pub async fn lose_history(&self, why: &str) -> Result<()> {
        match self {
            Store::Sqlite(db) => db.lose_history(why).await,
            Store::Postgres(db) => db.lose_history(why).await,
        }
    }

    /// Adds to the hold of a lost history; where somebody has released it, nothing changes.
    pub async fn tell_of_lost_history(&self, what: &str) -> Result<()> {
        match self {
            Store::Sqlite(db) => db.tell_of_lost_history(what).await,
            Store::Postgres(db) => db.tell_of_lost_history(what).await,
        }
    }

    /// Everybody who sends, or did lately.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>> {
        match self {
            Store::Sqlite(db) => db.nodes().await,
            Store::Postgres(db) => db.nodes().await,
        }
    }

    /// This node acts on this history and has told all it knew; `false` when it is another one by now.
    pub async fn sign_on(&self, run_id: &str, history: &History) -> Result<bool> {
        match self {
            Store::Sqlite(db) => db.sign_on(run_id, history).await,
            Store::Postgres(db) => db.sign_on(run_id, history).await,
        }
    }

    /// This node has stopped in good order: nobody waits for it.
    pub async fn sign_off(&self, run_id: &str) -> Result<()> {
        match self {
            Store::Sqlite(db) => db.sign_off(run_id).await,
            Store::Postgres(db) => db.sign_off(run_id).await,
        }
    }

    /// Successes that a node remembers, offered again after commits were lost.
    pub async fn replay(&self, batch: Vec<Remembered>) -> Result<Vec<Replayed>> {
        match self {
            Store::Sqlite(db) => db.replay(batch).await,
            Store::Postgres(db) => db.replay(batch).await,
        }
    }

    /// How far the clock of this machine was set back since the last question, told to everybody as an alert. `None`
    /// where the clock is the server's.
    pub async fn clock_stepped(&self) -> Result<Option<Span>> {
        match self {
            Store::Sqlite(db) => db.clock_stepped().await,
            Store::Postgres(_) => Ok(None),
        }
    }
}
