//! What is wrong, what was told of it, and who may ask: troubles, a picture of the moment, tokens of the API.

use domain::campaign::CampaignStatus;
use domain::ids::{AccountId, CampaignId, ChannelId, DeliveryId, LaneId, WorkspaceId};
use domain::time::{Span, Timestamp};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bot::BotSnapshot;
use crate::error::{Result, StoreError};
use crate::facade::{Store, each};

/// The tier of accounts that speak of trouble: stop-all and holds do not stop them.
pub const TIER_ALERTS: &str = "alerts";

/// The tier of accounts that tell programs what became of deliveries. What became of those calls is told to nobody.
pub const TIER_CALLBACKS: &str = "callbacks";

/// Ended troubles are kept for so long.
pub(crate) const ALERTS_KEEP: Span = Span::from_hours(24 * 90);

/// A node tells of its own trouble at every look, seconds apart. One that has said nothing for so long is gone, or well
/// under another name: whoever still works ends it.
pub const NODE_SILENT: Span = Span::from_secs(120);

/// Whether somebody has to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It ends by itself.
    Heals,
    Act,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Heals => "heals",
            Severity::Act => "act",
        }
    }

    pub fn parse(text: &str) -> Option<Severity> {
        [Severity::Heals, Severity::Act].into_iter().find(|severity| severity.as_str() == text)
    }
}

/// A trouble as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewAlert {
    /// What it is about, by ids. One of a node alone ends with `@` and the name of its machine.
    pub key: String,
    pub kind: String,
    pub severity: Severity,
    pub words: Value,
    /// It was told without the ledger already.
    pub told: bool,
}

/// A trouble with what was told of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alert {
    pub alert_id: i64,
    pub key: String,
    pub kind: String,
    pub severity: Severity,
    pub words: Value,
    pub opened_at: Timestamp,
    /// When somebody last found it so.
    pub seen_at: Timestamp,
    pub told_at: Option<Timestamp>,
    pub n_told: i32,
    pub ended_at: Option<Timestamp>,
    pub cleared_at: Option<Timestamp>,
}

/// What a workspace looks like at one moment; the same from both databases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub at: Timestamp,
    /// Deliveries of channels and campaigns by status; alerts and callbacks are none.
    pub counts: StatusCounts,
    /// Since when the first delivery that may go has been due.
    pub oldest_due: Option<Timestamp>,
    pub in_flight: i64,
    /// Claims whose lease has ended and that nobody has taken up yet.
    pub expired_leases: i64,
    /// Deliveries that ended unsent and were not queued again.
    pub failures_10min: i64,
    pub failures_24h: i64,
    /// Attempts that failed and are made again.
    pub retries_10min: i64,
    /// Claims that were taken up because nobody came back.
    pub lost_leases_10min: i64,
    pub channels: i64,
    pub paused_channels: i64,
    pub disabled_channels: i64,
    pub accounts: i64,
    pub paused_accounts: i64,
    pub cooling_accounts: i64,
    pub sources: i64,
    pub failing_sources: i64,
    pub open_alerts: i64,
    pub campaigns: CampaignStates,
    /// Of the last hour, where something is counted over time.
    pub bots: BotSnapshot,
    pub lanes: Vec<LaneSnapshot>,
    pub accounts_eta: Vec<AccountSnapshot>,
    /// Channels with failures of the last day.
    pub failures: Vec<ChannelFailures>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCounts {
    pub queued: i64,
    pub retry: i64,
    pub sending: i64,
    pub sent: i64,
    pub deduped: i64,
    pub failed_permanent: i64,
    pub dead: i64,
}

/// Campaigns by what they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignStates {
    pub draft: i64,
    pub scheduled: i64,
    pub preparing: i64,
    pub running: i64,
    pub paused: i64,
    pub finishing: i64,
    pub finished: i64,
    pub cancelling: i64,
    pub cancelled: i64,
    pub aborted: i64,
    /// Of the paused and the running those that a guard has stopped, wholly or on an account.
    pub guarded: i64,
}

impl CampaignStates {
    pub(crate) fn of(&mut self, status: CampaignStatus) -> &mut i64 {
        match status {
            CampaignStatus::Draft => &mut self.draft,
            CampaignStatus::Scheduled => &mut self.scheduled,
            CampaignStatus::Preparing => &mut self.preparing,
            CampaignStatus::Running => &mut self.running,
            CampaignStatus::Paused => &mut self.paused,
            CampaignStatus::Finishing => &mut self.finishing,
            CampaignStatus::Finished => &mut self.finished,
            CampaignStatus::Cancelling => &mut self.cancelling,
            CampaignStatus::Cancelled => &mut self.cancelled,
            CampaignStatus::Aborted => &mut self.aborted,
        }
    }
}

/// A lane in which something waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneSnapshot {
    pub lane_id: LaneId,
    pub account_id: AccountId,
    pub channel_id: Option<ChannelId>,
    pub campaign_id: Option<CampaignId>,
    pub waiting: i64,
    /// When the first of them could have gone, if nothing but the queue held it back.
    pub due_at: Option<Timestamp>,
    /// What they take at the pace of the lane and its share of the account; `None`: nothing paces them.
    pub eta_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountSnapshot {
    pub account_id: AccountId,
    pub waiting: i64,
    pub eta_ms: Option<i64>,
}

/// What went wrong in a channel within a day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelFailures {
    pub channel_id: ChannelId,
    /// Ended unsent, and not queued again.
    pub failed: i64,
    pub first_at: Option<Timestamp>,
    pub last_at: Option<Timestamp>,
    /// Of the last one: `dead_letter` or `failed_permanent`, and its code or reason.
    pub last_name: Option<String>,
    pub last_code: Option<String>,
    pub retries_10min: i64,
}

/// What a token of the API may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiScope {
    Ingest,
    Read,
    Operate,
    Adapter,
}

impl ApiScope {
    pub const ALL: [ApiScope; 4] = [ApiScope::Ingest, ApiScope::Read, ApiScope::Operate, ApiScope::Adapter];

    pub fn as_str(self) -> &'static str {
        match self {
            ApiScope::Ingest => "ingest",
            ApiScope::Read => "read",
            ApiScope::Operate => "operate",
            ApiScope::Adapter => "adapter",
        }
    }

    pub fn parse(text: &str) -> Option<ApiScope> {
        ApiScope::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// A token of the API, without the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApiToken {
    pub token_id: i64,
    pub workspace_id: WorkspaceId,
    pub name: String,
    pub scopes: Vec<ApiScope>,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

impl Store {
    /// Writes down what is wrong now and returns what is open, and what ended and is not told yet. A trouble that is not
    /// among these ends when nobody has seen it for `patience`; one of another machine than `host` is left to that machine, until
    /// it has said nothing for two minutes.
    pub async fn watch(
        &self,
        workspace: WorkspaceId,
        seen: Vec<NewAlert>,
        host: &str,
        patience: Span,
    ) -> Result<Vec<Alert>> {
        each!(self, db => db.watch(workspace, seen, host, patience))
    }

    /// A trouble was told for the `n`th time, counted from nought. `false`: somebody else was faster.
    pub async fn alert_told(&self, workspace: WorkspaceId, id: i64, n: i32) -> Result<bool> {
        each!(self, db => db.alert_told(workspace, id, n))
    }

    /// The end of a trouble was told, or needs no telling.
    pub async fn alert_cleared(&self, workspace: WorkspaceId, id: i64) -> Result<()> {
        each!(self, db => db.alert_cleared(workspace, id))
    }

    /// The latest troubles, the newest first; `before`: older than this one.
    pub async fn alerts(
        &self,
        workspace: WorkspaceId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Alert>> {
        each!(self, db => db.alerts(workspace, before, limit))
    }

    /// Deliveries to channels that ended and whose callbacks are not queued yet, in the order they ended: the number of the
    /// note, and the delivery. Empty where nobody wants to hear.
    pub async fn outcomes(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<(i64, DeliveryId)>> {
        each!(self, db => db.outcomes(workspace, limit))
    }

    /// Their callbacks are queued.
    pub async fn outcomes_told(&self, workspace: WorkspaceId, notes: Vec<i64>) -> Result<()> {
        each!(self, db => db.outcomes_told(workspace, notes))
    }

    /// `monitor_snapshot`: what a workspace looks like now.
    pub async fn snapshot(&self, workspace: WorkspaceId) -> Result<Snapshot> {
        each!(self, db => db.snapshot(workspace))
    }

    pub async fn create_api_token(
        &self,
        workspace: WorkspaceId,
        name: &str,
        secret: &SecretString,
        scopes: Vec<ApiScope>,
    ) -> Result<i64> {
        if name.trim().is_empty() || name.chars().count() > 200 || name.chars().any(char::is_control) {
            return Err(StoreError::invalid("token", "a name has 1 to 200 characters"));
        }
        if scopes.is_empty() {
            return Err(StoreError::invalid("token", "give at least one scope"));
        }
        each!(self, db => db.create_api_token(workspace, name, secret, &scopes))
    }

    pub async fn api_tokens(&self, workspace: WorkspaceId) -> Result<Vec<ApiToken>> {
        each!(self, db => db.api_tokens(workspace))
    }

    /// It opens nothing from now on. `false`: there is no such token, or it was revoked before.
    pub async fn revoke_api_token(&self, workspace: WorkspaceId, name: &str) -> Result<bool> {
        each!(self, db => db.revoke_api_token(workspace, name))
    }

    /// Whose token this is; the secret is the only way to it.
    pub async fn api_token_by_secret(&self, secret: &SecretString) -> Result<Option<ApiToken>> {
        each!(self, db => db.api_token_by_secret(secret))
    }
}
