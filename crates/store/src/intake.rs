//! How posts get in: sources, posts with their case, runs, as values; and the rules of intake that both drivers share.
//!
//! A post is prepared by the caller (facts, hashes, channels); the store decides what only one transaction can know:
//! whether it was here before, whether it changed, which case it belongs to, and who has heard of that case already.
//! Nothing here knows how a post was read or what a platform makes of it.

use std::collections::{BTreeSet, HashMap};

use domain::content::Kind;
use domain::content::cases::{
    CaseKey, CaseMatch, CaseRecord, Decision, KeyKind, Scored, Sketch, picture_keys, stored_keys,
};
use domain::ids::{AccountId, CaseId, ChannelId, DeliveryId, MessageId, SourceId, WorkspaceId};
use domain::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::{Result, StoreError};
use crate::queue::{EnqueuedDelivery, NewMessage};

/// Other sources remembered by name with a case; beyond that they are only counted.
const SOURCES_MAX: usize = 50;
/// Posts of one `ingest` call: the workspace's cases are held for as long as it takes.
pub const INGEST_BATCH_MAX: usize = 500;
/// Characters kept of the reason why a poll failed.
const HEALTH_TEXT_MAX: usize = 500;

#[derive(Debug, Clone, PartialEq)]
pub struct NewSource {
    /// `vk`, `feed`, `file` …
    pub kind: String,
    pub name: String,
    /// What it is found by: an owner id or screen name, a URL, a path.
    pub address: String,
    /// Whose token and whose budget reading it spends.
    pub account_id: Option<AccountId>,
    pub settings: Value,
}

impl NewSource {
    pub(crate) fn validate(&self) -> Result<()> {
        for (what, text) in [("kind", &self.kind), ("name", &self.name), ("address", &self.address)] {
            if text.trim().is_empty() {
                return Err(StoreError::invalid("source", format!("the {what} is empty")));
            }
        }
        Ok(())
    }
}

/// A place that posts are pulled from, with how far it was read and how it fares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Source {
    pub source_id: SourceId,
    pub workspace_id: WorkspaceId,
    pub kind: String,
    pub name: String,
    pub address: String,
    pub account_id: Option<AccountId>,
    pub enabled: bool,
    pub settings: Value,
    pub cursor: Value,
    pub next_poll_at: Timestamp,
    pub failing_since: Option<Timestamp>,
    pub last_error: Option<String>,
}

/// Why a run has an end that nobody wrote.
pub(crate) const RUN_ABANDONED: &str =
    "the node ended or lost the database before this run did; what it had not taken in is read again";

/// Places of a node that are free for polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seats {
    pub all: usize,
    /// How many of them may go to sources that failed the last time: those often take their whole deadline.
    pub failing: usize,
}

impl Seats {
    /// As many as there are, for whomever.
    pub const fn any(n: usize) -> Seats {
        Seats { all: n, failing: n }
    }
}

/// How a poll went, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollHealth {
    /// It was broken off by us, which says nothing about the source.
    Unchanged,
    Well,
    /// Why, and what to do about it.
    Failed(String),
}

impl PollHealth {
    pub(crate) fn error(&self) -> Option<String> {
        match self {
            PollHealth::Unchanged | PollHealth::Well => None,
            PollHealth::Failed(why) => Some(why.chars().take(HEALTH_TEXT_MAX).collect()),
        }
    }
}

/// The end of one poll. Changes nothing if the lease went to another node meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedPoll {
    pub source_id: SourceId,
    pub owner: String,
    /// `None` keeps the cursor as it is.
    pub cursor: Option<Value>,
    pub next_poll_at: Timestamp,
    pub health: PollHealth,
}

/// How far a source was read, written together with what was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub source_id: SourceId,
    pub owner: String,
    pub cursor: Value,
}

/// What one run of a source saw and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RunCounts {
    pub seen: i32,
    pub stored: i32,
    pub skipped: i32,
    pub enqueued: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IngestRun {
    pub run_id: i64,
    pub source: String,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    #[serde(flatten)]
    pub counts: RunCounts,
    pub error: Option<String>,
}

/// A post that is known, by what tells whether it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPost {
    pub origin_id: String,
    pub message_id: MessageId,
    /// `hash` of the stored `origin`.
    pub origin_hash: Option<String>,
    pub gone: bool,
}

/// One post, ready but for what the database knows.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPost {
    /// `case_id` is left open. `origin.hash` tells a changed post from one that is seen again; without it the
    /// content hash does.
    pub message: NewMessage,
    /// What the case is decided by; without one the post is about no case.
    pub sketch: Option<Sketch>,
    /// Channels where a person decides first; they are not among `message.channels`.
    pub held: Option<Held>,
}

/// Where a post waits for a person, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub channels: Vec<ChannelId>,
    pub why: String,
}

impl NewPost {
    /// What tells a changed post from the same one seen again.
    pub(crate) fn mark(&self) -> &str {
        self.message.origin["hash"].as_str().unwrap_or(&self.message.content_hash)
    }

    /// Where a person decides first. What is not published at all waits for nobody.
    pub(crate) fn held(&self) -> Option<&Held> {
        self.held.as_ref().filter(|held| self.message.skipped.is_none() && !held.channels.is_empty())
    }

    /// Whether it ends the story of its case now; one that waits for a person ends nothing yet.
    pub(crate) fn ends_story(&self) -> bool {
        self.held().is_none() && self.sketch.as_ref().is_some_and(|sketch| sketch.kind == Kind::Reunited)
    }
}

/// What became of one post.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ingested {
    pub message_id: MessageId,
    pub fate: Fate,
    pub case_id: Option<CaseId>,
    /// The deliveries that this call made for it, edits and answers aside.
    pub deliveries: Vec<EnqueuedDelivery>,
    pub skipped: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    Stored,
    /// Nothing changed since.
    Seen,
    /// A new revision of a known message.
    Revised,
}

/// A case as people read it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    pub case_id: CaseId,
    pub kind: String,
    pub title: String,
    /// `copies` from other sources, and those `sources`.
    pub facts: Value,
    pub opened_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub closed_by: Option<MessageId>,
    pub n_messages: i32,
}

/// A message as it is stored, for `why` and the board.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredMessage {
    pub message_id: MessageId,
    pub source: String,
    pub origin_id: String,
    pub payload: Value,
    pub kind: String,
    pub facts: Value,
    pub tags: Value,
    pub origin: Value,
    pub case_id: Option<CaseId>,
    pub revision: i32,
    pub seen_count: i32,
    pub last_seen_at: Timestamp,
    pub skipped: Option<String>,
    pub gone_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

pub(crate) fn check_batch(posts: &[NewPost]) -> Result<()> {
    if posts.len() > INGEST_BATCH_MAX {
        let problem =
            format!("{} posts in one call, at most {INGEST_BATCH_MAX}; split the batch", posts.len());
        return Err(StoreError::invalid("ingest", problem));
    }
    Ok(())
}

/// What is done with a published copy when its story ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnClose {
    Edit,
    Reply,
    Nothing,
}

impl OnClose {
    pub(crate) fn of(settings: &Value) -> OnClose {
        match settings["on_close"].as_str() {
            Some("reply") => OnClose::Reply,
            Some("none") => OnClose::Nothing,
            _ => OnClose::Edit,
        }
    }
}

/// Whether a channel wants its published copies changed when the source changes.
pub(crate) fn wants_edits(settings: &Value) -> bool {
    settings["on_edit"].as_str() != Some("none")
}

/// The kinds whose story a reunion ends.
pub(crate) fn ends_with_reunion(kind: &str) -> bool {
    matches!(kind, "lost" | "found" | "sighting")
}

/// Whether a post of this kind ends the story of its case.
pub(crate) fn ends_story_of(kind: &str) -> bool {
    kind == Kind::Reunited.name()
}

/// A search that was posted before the story ended, and arrives after: nobody needs to look any more.
pub(crate) fn comes_too_late(record: &CaseRecord, sketch: &Sketch) -> bool {
    ends_with_reunion(sketch.kind.name())
        && record.closed_at.is_some_and(|closed_at| sketch.date <= closed_at)
}

pub(crate) const TOO_LATE: &str = "closed: the story had ended when this arrived";

/// The payload of a message whose story has ended: it renders under the heading of a reunion, its words and pictures
/// kept.
pub(crate) fn closed_payload(payload: &Value) -> Value {
    let mut payload = payload.clone();
    if let Some(fields) = payload.as_object_mut() {
        let was = fields.insert("kind".into(), Kind::Reunited.name().into());
        if let Some(was) = was.filter(|was| was != Kind::Reunited.name()) {
            fields.insert("was".into(), was);
        }
    }
    payload
}

pub(crate) fn is_closed_payload(payload: &Value) -> bool {
    payload["kind"] == Kind::Reunited.name()
}

/// Files a sketch with its case: adds it, or replaces what was known of the same post.
pub(crate) fn file(record: &mut CaseRecord, sketch: Sketch) {
    let before = record.members.len();
    record.members.retain(|member| member.origin != sketch.origin);
    let known = record.members.len() < before;
    record.absorb(sketch);
    if known {
        record.posts = record.posts.saturating_sub(1);
    }
}

/// What one call knows of the cases that it has met, and which shelves it has filled: a record is read once however
/// many posts are weighed against it, and a shelf is put in order once, at the end.
#[derive(Debug, Default)]
pub(crate) struct CaseMemory {
    /// `None`: there is no record to weigh.
    records: HashMap<CaseId, Option<(CaseRecord, Value)>>,
    pub full: BTreeSet<i64>,
    pub full_pictures: BTreeSet<i64>,
}

impl CaseMemory {
    pub(crate) fn unread(&self, cases: &[CaseId]) -> Vec<CaseId> {
        cases.iter().copied().filter(|case| !self.records.contains_key(case)).collect()
    }

    pub(crate) fn keep(&mut self, case: CaseId, record: Option<(CaseRecord, Value)>) {
        self.records.insert(case, record);
    }

    /// Of those that were read: what can be weighed.
    pub(crate) fn records(&self, cases: &[CaseId]) -> Vec<CaseRecord> {
        let known = cases.iter().filter_map(|case| self.records.get(case)?.as_ref());
        known.map(|(record, _)| record.clone()).collect()
    }

    /// Files a post with a case that was read; the record and the facts that are to be written.
    pub(crate) fn file(
        &mut self,
        case: CaseId,
        message: &NewMessage,
        sketch: &Sketch,
    ) -> (&CaseRecord, &Value) {
        let (record, facts) = match self.records.remove(&case).flatten() {
            Some((mut record, facts)) => {
                file(&mut record, sketch.clone());
                (record, facts)
            }
            None => (CaseRecord::open(case, sketch.clone()), Value::Null),
        };
        let facts = count_copy(&facts, message);
        let kept = self.records.entry(case).or_default().insert((record, facts));
        (&kept.0, &kept.1)
    }

    /// Remembers which shelves may hold more than a lookup reads: full ones, and those that no lookup reads.
    pub(crate) fn filled(&mut self, sketch: &Sketch, crowded: &[CaseKey]) {
        let keys = stored_keys(sketch);
        let full = keys.iter().filter(|key| key.kind == KeyKind::Recent || crowded.contains(key));
        self.full.extend(full.map(|key| key.value));
        let bands = sketch.pictures.iter().flat_map(|picture| picture_keys(*picture));
        self.full_pictures.extend(bands.map(|key| key.value));
    }
}

/// Counts a post of another source and remembers where it was.
pub(crate) fn count_copy(facts: &Value, message: &NewMessage) -> Value {
    count_place(facts, &format!("{}/{}", message.source, message.origin_id))
}

pub(crate) fn count_place(facts: &Value, place: &str) -> Value {
    let mut facts = facts.as_object().cloned().unwrap_or_else(Map::new);
    let first = facts.get("first").and_then(Value::as_str).map(str::to_owned);
    let Some(first) = first else {
        facts.insert("first".into(), place.into());
        return Value::Object(facts);
    };
    if first == place {
        return Value::Object(facts);
    }
    let copies = facts.get("copies").and_then(Value::as_i64).unwrap_or_default();
    let sources = facts.entry("sources").or_insert_with(|| json!([]));
    if let Some(sources) = sources.as_array_mut() {
        let here = Value::from(place);
        if sources.contains(&here) {
            return Value::Object(facts);
        }
        if sources.len() < SOURCES_MAX {
            sources.push(here);
        }
    }
    facts.insert("copies".into(), (copies + 1).into());
    Value::Object(facts)
}

/// What a case is called in listings.
pub(crate) fn title(sketch: &Sketch) -> String {
    let names: Vec<&str> = sketch.names.iter().map(|name| name.name.as_str()).collect();
    let parts = [sketch.animal.name(), &names.join(", "), sketch.any_city().unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty() && *part != "unknown").collect::<Vec<_>>().join(" · ")
}

/// Writes the decision beside the facts, so that it can be explained.
pub(crate) fn tell_decision(message: &mut NewMessage, case: CaseId, decision: &Decision) {
    let scored =
        |scored: &Scored| json!({"case": scored.case, "score": scored.score, "reasons": scored.spoken()});
    let mut told = json!({"case": case});
    match &decision.outcome {
        CaseMatch::Same(same) => {
            told["verdict"] = "same".into();
            told["score"] = same.score.into();
            told["reasons"] = same.spoken().into();
        }
        CaseMatch::New { nearest } => {
            told["verdict"] = "new".into();
            told["nearest"] = nearest.as_ref().map(scored).into();
        }
    }
    if !decision.related.is_empty() {
        told["related"] = decision.related.iter().map(scored).collect();
    }
    if let Some(facts) = message.facts.as_object_mut() {
        facts.insert("case".into(), told);
    }
}

/// A delivery that follows one that was said: an edit of it, or an answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FollowUp {
    pub message_id: MessageId,
    pub channel_id: ChannelId,
    pub revision: i32,
    pub action: &'static str,
    pub target_delivery: DeliveryId,
}

pub(crate) fn follow_up_of(
    copy: &Published,
    message_id: MessageId,
    revision: i32,
    action: &'static str,
) -> FollowUp {
    FollowUp { message_id, channel_id: copy.channel_id, revision, action, target_delivery: copy.delivery_id }
}

/// Of many copies the last of each channel: one answer is enough.
pub(crate) fn latest_of_channel(copies: Vec<Published>) -> Vec<Published> {
    let mut latest: Vec<Published> = Vec::new();
    for copy in copies {
        latest.retain(|other| other.channel_id != copy.channel_id);
        latest.push(copy);
    }
    latest
}

/// What stands in a channel of one message: the copy, and how far it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub delivery_id: DeliveryId,
    pub channel_id: ChannelId,
    pub state: CopyState,
    pub settings: Value,
    /// An edit of it is on its way and will carry the newest words.
    pub edit_waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyState {
    Waiting,
    /// Visible, perhaps only in part, or being sent in this moment.
    Out,
    Ended,
}

impl CopyState {
    /// `begun`: a part of it is visible, or may be. It waits for the rest, and must be followed like what is out.
    pub(crate) fn of(status: &str, begun: bool) -> CopyState {
        match status {
            "queued" | "retry" if begun => CopyState::Out,
            "queued" | "retry" => CopyState::Waiting,
            "claimed" | "sending" | "sent" => CopyState::Out,
            _ => CopyState::Ended,
        }
    }
}

/// What a revision does to the copies of its message.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RevisionPlan {
    /// Waiting for channels that the new words are not for.
    pub cancel: Vec<DeliveryId>,
    pub edit: Vec<Published>,
    /// Channels that the new words are for and that never had it.
    pub deliver: Vec<ChannelId>,
}

pub(crate) fn plan_revision(copies: &[Published], wanted: &[ChannelId]) -> RevisionPlan {
    let mut plan = RevisionPlan::default();
    for copy in copies {
        match copy.state {
            CopyState::Waiting if !wanted.contains(&copy.channel_id) => plan.cancel.push(copy.delivery_id),
            CopyState::Out if !copy.edit_waits && wants_edits(&copy.settings) => plan.edit.push(copy.clone()),
            CopyState::Waiting | CopyState::Out | CopyState::Ended => {}
        }
    }
    let had = |channel: &ChannelId| copies.iter().any(|copy| copy.channel_id == *channel);
    plan.deliver = wanted.iter().copied().filter(|channel| !had(channel)).collect();
    plan
}

/// What it does to the copies of a message that its source does not show any more.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct GonePlan {
    pub cancel: Vec<DeliveryId>,
    pub delete: Vec<Published>,
}

/// What waits is not said any more; what was said is taken back where the channel wants it.
pub(crate) fn plan_gone(copies: &[Published]) -> GonePlan {
    let mut plan = GonePlan::default();
    for copy in copies {
        match copy.state {
            CopyState::Waiting => plan.cancel.push(copy.delivery_id),
            CopyState::Out if copy.settings["on_gone"] == "delete" => plan.delete.push(copy.clone()),
            CopyState::Out | CopyState::Ended => {}
        }
    }
    plan
}

/// What the end of a story does to the copies of its messages.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ClosingPlan {
    pub cancel: Vec<DeliveryId>,
    pub edit: Vec<Published>,
    pub reply: Vec<Published>,
}

pub(crate) fn plan_closing(copies: &[Published]) -> ClosingPlan {
    let mut plan = ClosingPlan::default();
    for copy in copies {
        match (copy.state, OnClose::of(&copy.settings)) {
            (CopyState::Waiting, _) => plan.cancel.push(copy.delivery_id),
            (CopyState::Out, OnClose::Edit) => plan.edit.push(copy.clone()),
            (CopyState::Out, OnClose::Reply) => plan.reply.push(copy.clone()),
            (CopyState::Out, OnClose::Nothing) | (CopyState::Ended, _) => {}
        }
    }
    plan
}
