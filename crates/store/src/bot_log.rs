//! What the bot wrote down: a line for each thing that was decided, and what no dialogue heard.

use domain::ids::{AccountId, RecipientId, WorkspaceId};
use domain::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::error::Result;
use crate::facade::{Store, each};

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BotLog {
    pub log_id: i64,
    pub account_id: AccountId,
    pub recipient_id: RecipientId,
    pub inbox_id: i64,
    pub at: Timestamp,
    pub version: i32,
    pub rule: Option<String>,
    pub verdict: String,
    pub detail: Value,
    /// What was answered to; `None` once it is forgotten.
    pub event: Option<Value>,
    pub happened_at: Option<Timestamp>,
}

/// An update that waits in no dialogue, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BotSkipped {
    pub inbox_id: i64,
    pub account_id: AccountId,
    pub at: Timestamp,
    pub kind: String,
    pub why: String,
}

impl Store {
    /// Lines of the log from `since` on, of one dialogue or of all, oldest first; continue after the last one.
    pub async fn bot_logs(
        &self,
        workspace: WorkspaceId,
        of: Option<RecipientId>,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> Result<Vec<BotLog>> {
        each!(self, db => db.bot_logs(workspace, of, since, after, limit))
    }

    /// What no dialogue heard, oldest first; continue after the last one.
    pub async fn bot_skipped(
        &self,
        workspace: WorkspaceId,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> Result<Vec<BotSkipped>> {
        each!(self, db => db.bot_skipped(workspace, since, after, limit))
    }
}
