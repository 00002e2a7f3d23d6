//! The three logs the checker reads, in plain numbers and words: what went in, what the ledger says in the end,
//! and what the platforms received. Beside them stands what the simulator itself did to the nodes.

use std::collections::BTreeMap;

/// Microseconds of virtual time since the start of the run.
pub(crate) type Micros = i64;

#[derive(Debug, Clone, Default)]
pub(crate) struct Logs {
    pub world: WorldLog,
    pub client: Vec<Post>,
    pub platform: Vec<Request>,
    pub nodes: Vec<RunLog>,
    pub operator: Vec<OperatorAct>,
    pub ledger: LedgerLog,
    /// Jumps of the ledger's clock: when, and by how much.
    pub jumps: Vec<(Micros, i64)>,
    /// When the troubles were over, and when everything had ended.
    pub calm_at: Micros,
    pub drained_at: Option<Micros>,
}

/// What the operator configured.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorldLog {
    pub accounts: BTreeMap<i64, AccountLog>,
    pub channels: BTreeMap<i64, ChannelLog>,
    pub people: BTreeMap<i64, PersonLog>,
    /// The lanes of dialogues, and whose they are.
    pub dialogues: BTreeMap<i64, i64>,
}

#[derive(Debug, Clone)]
pub(crate) struct AccountLog {
    pub workspace: i64,
    pub interval_us: i64,
    pub burst: i64,
    pub max_parallel: usize,
    /// How many of them may be retries.
    pub retry_parallel: usize,
}

/// Somebody on a bot.
#[derive(Debug, Clone)]
pub(crate) struct PersonLog {
    pub workspace: i64,
    pub account: i64,
    pub target: String,
    /// Of their platform: nobody sets it person by person.
    pub policy: &'static str,
    pub keyed: bool,
    pub zone: &'static str,
    /// The same for all their bots of a platform.
    pub user: String,
}

#[derive(Debug, Clone)]
pub(crate) struct ChannelLog {
    pub workspace: i64,
    pub account: i64,
    pub target: String,
    pub policy: &'static str,
    /// One at a time: what was accepted first is said first.
    pub ordered: bool,
    /// The platform recognises repeats by their key.
    pub keyed: bool,
    /// Long texts go out in several parts instead of being cut.
    pub split: bool,
    /// What vanishes at its source is taken back here.
    pub takes_back: bool,
    pub removed_at: Option<Micros>,
}

/// One message that a client wanted to enqueue, and what it heard.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub workspace: i64,
    pub marker: String,
    pub number: usize,
    /// Numbered words that every reader must find.
    pub words: usize,
    pub channels: Vec<i64>,
    /// People who should hear it, instead of channels.
    pub people: Vec<i64>,
    pub content_hash: String,
    pub poison: bool,
    pub heard: Vec<Heard>,
    pub life: Life,
}

/// What became of a post at its source after it was taken in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life {
    /// Revisions that were taken in; 0: it came through the door and has no source.
    pub revision: usize,
    /// The ledger's clock when its disappearance had been taken in.
    pub gone_at: Option<i64>,
    /// The number of the search whose story it ends.
    pub answers: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    /// Stored under this id, with these deliveries (id, channel or person); these channels were not eligible.
    Ok { message: i64, deliveries: Vec<(i64, i64)>, skipped: Vec<i64> },
    /// Refused for good: nothing is stored.
    Fail,
    /// Nobody knows.
    Info,
}

/// One request at a platform.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub at: Micros,
    /// The ledger's clock when it arrived.
    pub ledger_at: i64,
    pub kind: RequestKind,
    pub run: String,
    pub account: i64,
    /// When the request was over, as the platform sees it.
    pub over_at: Option<Micros>,
    /// The simulator itself held the request up after the node had let it go.
    pub delayed: bool,
    pub send: Option<SendLog>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Send,
    Probe,
    Reconcile,
}

#[derive(Debug, Clone)]
pub(crate) struct SendLog {
    pub delivery: i64,
    pub part: usize,
    pub attempt: i32,
    pub key: String,
    pub target: String,
    pub act: Act,
    pub text: String,
    pub accepted_at: Option<Micros>,
    /// The ids a reader sees; a repeated key shows the earlier ones again.
    pub visible: Vec<String>,
    /// The same key had been accepted before.
    pub repeated: bool,
    /// What the node was told, if it lived to hear it.
    pub answer: Option<Answer>,
    pub answered_at: Option<Micros>,
}

/// What a request does to what readers see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Something new, perhaps as an answer to what is there.
    Say {
        reply_to: Option<String>,
    },
    /// Other words in the place of these.
    Change(String),
    Remove(Vec<String>),
    Pin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Sent,
    Unknown,
    Flood {
        retry_after_us: i64,
        of: Whole,
    },
    NotSent,
    /// For good: this delivery or this chat.
    Permanent,
    /// The person blocked us or left.
    Gone,
}

/// What a trouble is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    Chat,
    Account,
}

/// One life of one node.
#[derive(Debug, Clone)]
pub(crate) struct RunLog {
    pub run: String,
    pub started_at: Micros,
    pub crashed_at: Option<Micros>,
    /// Stretches in which it stood still.
    pub pauses: Vec<(Micros, Micros)>,
    /// Answers of the ledger that it did not get, or got so late that a lease may have ended meanwhile.
    pub ledger_trouble: Vec<Micros>,
    /// Claims that brought nothing.
    pub empty_claims: u64,
    pub calls: u64,
    /// An orderly stop: when it was asked for, when it was over, and whether all was written down.
    pub stop: Option<StopLog>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct StopLog {
    pub asked_at: Micros,
    pub over_at: Option<Micros>,
    pub drained: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct OperatorAct {
    pub at: Micros,
    /// By the ledger's clock.
    pub ledger_at: i64,
    pub verb: Verb,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verb {
    PauseChannel(i64),
    ResumeChannel(i64),
    PauseAccount(i64),
    ResumeAccount(i64),
    RemoveChannel(i64),
    Cancel(i64),
    Requeue(i64),
    /// A person said stop.
    Stop(i64),
    /// A person came back.
    Return(i64),
    HoldAll,
    ReleaseAll,
    /// Nothing of a campaign was on its way when its pause returned.
    CampaignRests(i64),
    ResumeCampaign(i64),
    /// A new wave, also for those of whom nobody knows whether they got it.
    RetryCampaign {
        campaign: i64,
        unknown: bool,
    },
}

/// The ledger as it stands in the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct LedgerLog {
    pub deliveries: BTreeMap<i64, DeliveryLog>,
    pub events: Vec<EventLog>,
    /// The text of every message that has a delivery.
    pub messages: BTreeMap<i64, String>,
    /// What the store's own audit found wrong, in the end and on the way.
    pub audit: Vec<String>,
    pub campaigns: BTreeMap<i64, CampaignLog>,
}

/// A campaign as it stands in the end.
#[derive(Debug, Clone)]
pub(crate) struct CampaignLog {
    pub seed: String,
    pub status: domain::campaign::CampaignStatus,
    pub ended_at: Option<i64>,
    pub window: Option<String>,
    /// How long after the start of each wave it ends.
    pub deadline_us: Option<i64>,
    pub total: i64,
    pub members: Vec<MemberLog>,
}

#[derive(Debug, Clone)]
pub(crate) struct MemberLog {
    /// Platform and user id: one person, whatever bot.
    pub who: (String, String),
    pub account: i64,
    pub state: String,
    pub variant: i32,
}

#[derive(Debug, Clone)]
pub(crate) struct DeliveryLog {
    pub id: i64,
    pub workspace: i64,
    pub account: i64,
    pub lane: i64,
    /// Of which it is a part.
    pub campaign: Option<i64>,
    /// 0: it goes to a person.
    pub channel: i64,
    /// 0: it goes to a channel.
    pub person: i64,
    pub message: i64,
    /// `send`, `edit`, `reply` or `delete`.
    pub action: &'static str,
    pub generation: i32,
    pub parent: Option<i64>,
    pub bulk: bool,
    pub status: String,
    pub reason: String,
    pub claim_seq: i64,
    pub attempt: i32,
    pub charged: i32,
    pub flood_waits: i32,
    pub not_ready_waits: i32,
    pub unknowns: i32,
    pub lost_claims: i32,
    pub lost_requests: i32,
    pub provider_id: Option<String>,
    pub parts: BTreeMap<u32, String>,
    pub queued_at: i64,
    pub ended_at: Option<i64>,
    pub attempts: Vec<AttemptLog>,
}

#[derive(Debug, Clone)]
pub(crate) struct AttemptLog {
    pub attempt: i32,
    pub claim_seq: i64,
    pub run: String,
    pub started_at: i64,
    pub requested_at: Option<i64>,
    pub finished_at: i64,
    pub outcome: String,
    pub error: Option<ErrorLog>,
    pub provider_id: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct ErrorLog {
    pub transient: bool,
    pub scope: String,
    pub code: String,
    pub unknown: bool,
    pub retry_after_ms: Option<i64>,
}

#[derive(Debug, Clone)]
pub(crate) struct EventLog {
    pub at: i64,
    pub name: String,
    pub delivery: Option<i64>,
    pub account: Option<i64>,
    pub person: Option<i64>,
    /// A campaign, and what it became.
    pub became: Option<(i64, domain::campaign::CampaignStatus)>,
}
