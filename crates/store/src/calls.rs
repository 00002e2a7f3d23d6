//! Calls to a shop's own services as values. A turn asks for one; whoever claims it makes it, and the answer waits in the
//! dialogue like anything else that happened there.

use std::collections::BTreeMap;

use domain::ids::{AccountId, BotId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::error::Result;
use crate::facade::{Store, each};

/// A call that a turn asks for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewCall {
    /// The place of the event that it follows, in the `events` of the turn.
    pub event: usize,
    pub service: String,
    pub fields: BTreeMap<String, String>,
}

/// A call in the hands of one caller until its lease ends.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceCall {
    pub workspace_id: WorkspaceId,
    pub outbox_id: i64,
    pub recipient_id: RecipientId,
    pub platform: String,
    /// `None`: the bot is gone.
    pub bot_id: Option<BotId>,
    /// Has the address and signs. `None`: nobody told where the service is.
    pub account_id: Option<AccountId>,
    pub service: String,
    pub fields: Value,
    /// Which try this is, from 1 on.
    pub tries: i32,
    /// The same for every try, in no other database, so that a service knows a repeat.
    pub key: String,
}

/// How a call went.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEnd {
    /// It is made again after so long.
    Again { after: Span, reason: String },
    /// It is over, and the dialogue hears this event. With a reason: it failed.
    Over { event: Value, failed: Option<String> },
}

/// How the calls of one service went lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceFigures {
    pub bot_id: BotId,
    pub service: String,
    /// When it was last asked for something new.
    pub last_at: Timestamp,
    /// Calls within the span asked for, and how many of them failed in the end.
    pub calls: i64,
    pub failures: i64,
    /// Of any age: not answered yet.
    pub waiting: i64,
    /// Of the newest call that failed, or whose last try did.
    pub reason: Option<String>,
}

impl Store {
    /// How the services of a workspace answered; counted over its newest calls, at most `BOT_COUNTED_MAX`.
    pub async fn bot_services(&self, workspace: WorkspaceId, since: Span) -> Result<Vec<ServiceFigures>> {
        each!(self, db => db.bot_services(workspace, since))
    }

    /// Calls that are due, of every workspace, none of the services in `busy` (`BOT/SERVICE`).
    pub async fn bot_claim_calls(
        &self,
        limit: usize,
        lease: Span,
        busy: Vec<String>,
    ) -> Result<Vec<ServiceCall>> {
        each!(self, db => db.bot_claim_calls(limit, lease, busy))
    }

    /// When the next call is due, to be made or to be made again; nothing is locked or written by the question.
    pub async fn bot_next_call(&self) -> Result<Option<Timestamp>> {
        each!(self, db => db.bot_next_call())
    }

    /// Writes how a call went; `false`: it is another's by now, and nothing was written.
    pub async fn bot_settle_call(&self, call: &ServiceCall, end: CallEnd) -> Result<bool> {
        each!(self, db => db.bot_settle_call(call, end))
    }
}
