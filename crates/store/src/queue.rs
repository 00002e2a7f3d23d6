//! The verbs of the queue as values: what enqueue, claim, commit and recover take and give.

use std::collections::BTreeMap;

use domain::delivery::{Action, Counters, Priority, Status};
use domain::destination::Destination;
use domain::ids::{
    AccountId, CampaignId, CaseId, ChannelId, ClaimToken, DeliveryId, LaneId, MessageId, WorkspaceId,
};
use domain::outcome::Outcome;
use domain::retry::Chance;
use domain::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whose work: one workspace, or everybody's (the dispatcher).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Workspace(WorkspaceId),
    Everyone,
}

/// One message and the channels that should hear it. The routing is done; the store decides about repeats.
///
/// As JSON this is an item of `enqueue_messages_and_deliveries`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// Where it comes from, e.g. `vk:-123`, `push:door`, `cli`.
    pub source: String,
    /// The source's own id of it; the pair is unique in a workspace.
    pub origin_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    pub payload: Value,
    pub content_hash: String,
    #[serde(default = "one")]
    pub hash_version: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    #[serde(default = "other")]
    pub kind: String,
    #[serde(default = "object")]
    pub facts: Value,
    #[serde(default)]
    pub facts_version: i32,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default = "object")]
    pub origin: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_id: Option<CaseId>,
    /// The frozen set of channels; may be empty, with `skipped` saying why.
    pub channels: Vec<ChannelId>,
    #[serde(default)]
    pub priority: Priority,
    /// Not before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

fn one() -> i32 {
    1
}

fn other() -> String {
    "other".into()
}

fn object() -> Value {
    Value::Object(serde_json::Map::new())
}

impl NewMessage {
    /// A message for nobody yet, of which nothing was recognised; the rest is set field by field.
    pub fn new(
        source: impl Into<String>,
        origin_id: impl Into<String>,
        content_hash: impl Into<String>,
        payload: Value,
    ) -> NewMessage {
        NewMessage {
            source: source.into(),
            origin_id: origin_id.into(),
            idempotency_key: None,
            payload,
            content_hash: content_hash.into(),
            hash_version: one(),
            fingerprint: None,
            kind: other(),
            facts: object(),
            facts_version: 0,
            tags: Vec::new(),
            origin: object(),
            case_id: None,
            channels: Vec::new(),
            priority: Priority::default(),
            run_at: None,
            skipped: None,
        }
    }

    /// The hash that tells a repeated call from a key used twice.
    pub fn request_hash(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&json).to_hex().to_string()
    }
}

/// What became of one message of an enqueue call; the same call again gives the same ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    pub message_id: MessageId,
    /// False: it was here before, and nothing was added.
    pub created: bool,
    pub deliveries: Vec<EnqueuedDelivery>,
    /// Channels an operator has disabled: not eligible.
    #[serde(default)]
    pub skipped: Vec<ChannelId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnqueuedDelivery {
    pub delivery_id: DeliveryId,
    pub channel_id: ChannelId,
    /// `queued` or `deduped` when new; whatever it has become since when repeated.
    pub status: Status,
}

#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub whose: Whose,
    /// Names this process in attempts and logs; new at every start.
    pub run_id: String,
    pub limit: usize,
    /// Account slots may be taken this far ahead.
    pub ahead: Span,
    pub lease: Span,
}

/// A batch of work that is `sending`, leased and slotted, and when there may be more.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claimed {
    pub claims: Vec<Claim>,
    /// Earliest time at which another claim could give anything; `None`: nothing is waiting.
    pub next_at: Option<Timestamp>,
}

/// Messages as the items of `enqueue_messages_and_deliveries`.
pub fn enqueue_items(batch: &[NewMessage]) -> crate::error::Result<Value> {
    crate::postgres::message_items(batch)
}

/// What became of a claim that somebody else made and hands over to be sent.
#[derive(Debug)]
pub enum Begun {
    /// It may be sent now, by whoever holds this.
    Now(Box<Claim>),
    /// Somebody has begun it before: nobody knows whether it was said.
    Before,
    /// It is not the caller's any more.
    Lost,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub delivery_id: DeliveryId,
    pub workspace_id: WorkspaceId,
    pub lane_id: LaneId,
    pub account_id: AccountId,
    pub destination: Destination,
    pub message_id: MessageId,
    pub revision: i32,
    pub action: Action,
    pub target_delivery: Option<DeliveryId>,
    pub claim_token: ClaimToken,
    pub claim_seq: i64,
    pub counters: Counters,
    /// Since when it could have gone, if nothing but the queue held it back.
    pub due_at: Timestamp,
    /// The campaign that it is part of.
    pub campaign_id: Option<CampaignId>,
    /// What it sends may be paid for.
    pub paid: bool,
    pub slot_at: Timestamp,
    pub lease_until: Timestamp,
    /// Provider ids of the parts that are done, by part number.
    pub parts: Parts,
    pub idempotency_key: String,
}

/// Provider ids of the parts of a delivery that are done.
pub type Parts = BTreeMap<u32, String>;

/// The end of one claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    pub claim: ClaimRef,
    pub ending: FinishKind,
    /// Drawn by the caller for the jitter of a backoff.
    pub chance: Chance,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FinishKind {
    Outcome(Outcome),
    /// Wait until then instead of the standard backoff; charged like the outcome itself.
    RetryAt(Outcome, Timestamp),
    /// Handed back unsent.
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// The claim was ours and this is where the delivery went.
    Done(Status),
    /// This very claim was finished before; nothing changed.
    Repeated(Status),
    /// Too late, but nothing had been sent since: the success was adopted.
    Adopted,
    /// The claim is not ours any more; nothing changed.
    LostClaim,
}

/// Names a claim, and where it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRef {
    pub workspace_id: WorkspaceId,
    pub account_id: AccountId,
    pub lane_id: LaneId,
    pub delivery_id: DeliveryId,
    pub claim_token: ClaimToken,
}

impl Claim {
    /// What the row says of the words it stands for: of one message and revision, two that differ here are not the same
    /// message. A database that lost its last commits gives ids a second time.
    pub fn wording(&self) -> &str {
        self.idempotency_key.rsplit_once('.').map_or("", |(_, wording)| wording)
    }

    pub fn reference(&self) -> ClaimRef {
        ClaimRef {
            workspace_id: self.workspace_id,
            account_id: self.account_id,
            lane_id: self.lane_id,
            delivery_id: self.delivery_id,
            claim_token: self.claim_token,
        }
    }
}

/// Progress of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartProgress {
    /// What earlier claims may have sent was looked for and is not there.
    Absent,
    /// A request may leave us from now on: if we die, the outcome is unknown.
    Requested,
    /// The part is visible under these provider ids.
    Done { part: u32, provider_message_id: String },
}

/// Who is taken up again by `recover`, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    pub delivery_id: DeliveryId,
    pub status: Status,
}

/// One row of `deliveries`, as people read it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Delivery {
    pub delivery_id: DeliveryId,
    pub workspace_id: WorkspaceId,
    pub lane_id: LaneId,
    pub account_id: AccountId,
    #[serde(flatten)]
    pub destination: Destination,
    pub message_id: MessageId,
    pub revision: i32,
    pub action: Action,
    pub generation: i32,
    pub parent_delivery: Option<DeliveryId>,
    pub priority: Priority,
    pub status: Status,
    pub reason: Option<String>,
    pub claim_seq: i64,
    pub counters: Counters,
    pub run_at: Option<Timestamp>,
    pub lease_until: Option<Timestamp>,
    pub slot_at: Option<Timestamp>,
    pub parts: Parts,
    pub provider_message_id: Option<String>,
    pub last_error: Option<Value>,
    pub queued_at: Timestamp,
    pub sending_at: Option<Timestamp>,
    pub sent_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub attempt: i32,
    pub claim_seq: i64,
    pub run_id: String,
    pub started_at: Timestamp,
    pub requested_at: Option<Timestamp>,
    pub finished_at: Timestamp,
    pub outcome: String,
    pub error: Option<Value>,
    pub provider_message_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    pub event_id: i64,
    pub at: Timestamp,
    pub name: String,
    pub message_id: Option<MessageId>,
    pub delivery_id: Option<DeliveryId>,
    #[serde(flatten)]
    pub destination: Option<Destination>,
    pub account_id: Option<AccountId>,
    pub detail: Value,
}

/// The maintained counters of one lane and why it does or does not move.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lane {
    pub lane_id: LaneId,
    pub account_id: AccountId,
    pub channel_id: Option<ChannelId>,
    pub campaign_id: Option<CampaignId>,
    pub next_at: Option<Timestamp>,
    pub counts: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    pub queued: i64,
    pub retry: i64,
    pub sending: i64,
    pub sent: i64,
    pub deduped: i64,
    pub failed_permanent: i64,
    pub dead: i64,
    /// Of the failed and the dead, those that were queued again: their new delivery tells how it went.
    pub requeued: i64,
}

/// Which deliveries a listing or a bulk verb means. All given conditions hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeliveryFilter {
    pub status: Option<Status>,
    pub channel_id: Option<ChannelId>,
    pub message_id: Option<MessageId>,
    pub code: Option<String>,
    pub after: Option<DeliveryId>,
    pub before: Option<DeliveryId>,
    pub order: ListOrder,
}

/// From which end a listing begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListOrder {
    #[default]
    OldestFirst,
    NewestFirst,
}

/// What one step of retention removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Removed {
    pub deliveries: u64,
    pub messages: u64,
    pub events: u64,
    pub dedup: u64,
    pub cases: u64,
    /// What posts are compared with: words and pictures of cases.
    pub case_keys: u64,
    pub runs: u64,
    /// Lanes of dialogues in which nothing happened for long.
    pub lanes: u64,
}

impl std::ops::AddAssign for Removed {
    fn add_assign(&mut self, more: Removed) {
        self.deliveries += more.deliveries;
        self.messages += more.messages;
        self.events += more.events;
        self.dedup += more.dedup;
        self.cases += more.cases;
        self.case_keys += more.case_keys;
        self.runs += more.runs;
        self.lanes += more.lanes;
    }
}

/// How far retention has walked, table by table, from the oldest row on; `None`: to the end of what is old.
/// What has to stay is passed over once a lap, so that it never stands before what can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    pub deliveries: Option<i64>,
    pub messages: Option<i64>,
    pub keys: Option<i64>,
    pub cases: Option<i64>,
    pub case_keys: Option<[i64; 3]>,
    pub case_pictures: Option<[i64; 5]>,
    pub lanes: Option<i64>,
}

impl Walk {
    pub const START: Walk = Walk {
        deliveries: Some(0),
        messages: Some(0),
        keys: Some(0),
        cases: Some(0),
        case_keys: Some([0; 3]),
        case_pictures: Some([0; 5]),
        lanes: Some(0),
    };
    pub const OVER: Walk = Walk {
        deliveries: None,
        messages: None,
        keys: None,
        cases: None,
        case_keys: None,
        case_pictures: None,
        lanes: None,
    };

    pub fn is_over(&self) -> bool {
        *self == Walk::OVER
    }
}

/// The same through what people wrote to bots: what waits to be answered stays, and keeps its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BotWalk {
    /// Through what still has its words.
    pub words: Option<i64>,
    /// Through everything that was heard.
    pub keys: Option<i64>,
}

impl BotWalk {
    pub const START: BotWalk = BotWalk { words: Some(0), keys: Some(0) };

    pub fn is_over(&self) -> bool {
        self.words.is_none() && self.keys.is_none()
    }
}

/// How long ended things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub deliveries: Span,
    pub deduped: Span,
    pub events: Span,
}
