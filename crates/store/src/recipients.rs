//! People on bots as values: who they are, who must not be written to, and what is queued for them.

use std::collections::HashMap;

use domain::delivery::{AmbiguityPolicy, Priority};
use domain::ids::{AccountId, CampaignId, DeliveryId, LaneId, MessageId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::campaigns::Person;
use crate::error::{Result, StoreError};
use crate::facade::{Store, each};

/// People of one call.
pub const RECIPIENTS_BATCH_MAX: usize = 10_000;

/// Whether somebody may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipientStatus {
    /// They wrote to us; they may be answered, and nothing more.
    Known,
    /// They want to hear from us: only these are in an audience.
    Active,
    Stopped,
    /// They blocked us or left.
    Gone,
}

impl RecipientStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            RecipientStatus::Known => "known",
            RecipientStatus::Active => "active",
            RecipientStatus::Stopped => "stopped",
            RecipientStatus::Gone => "gone",
        }
    }

    pub fn parse(text: &str) -> Option<RecipientStatus> {
        [RecipientStatus::Known, RecipientStatus::Active, RecipientStatus::Stopped, RecipientStatus::Gone]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewRecipient {
    /// The platform's own id of the person; with the account it tells people apart.
    pub user_id: String,
    /// The chat to write to.
    pub address: String,
    pub attributes: Value,
    pub time_zone: Option<String>,
    /// `Known` or `Active`.
    pub status: RecipientStatus,
    /// Where we know them from.
    pub source: String,
}

/// What became of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutRecipient {
    pub recipient_id: RecipientId,
    /// False: known before.
    pub created: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recipient {
    pub recipient_id: RecipientId,
    pub workspace_id: WorkspaceId,
    pub account_id: AccountId,
    pub platform: String,
    pub user_id: String,
    pub address: String,
    pub attributes: Value,
    pub time_zone: Option<String>,
    pub status: RecipientStatus,
    pub status_why: Option<String>,
    pub status_at: Timestamp,
    pub source: String,
    pub contacted_at: Option<Timestamp>,
    pub error_streak: i32,
    pub paused_until: Timestamp,
}

/// Somebody who must not be written to unasked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suppression {
    pub platform: String,
    pub user_id: String,
    /// `None`: on all accounts.
    pub account_id: Option<AccountId>,
    pub reason: SuppressionReason,
    pub origin: SuppressionOrigin,
    pub at: Timestamp,
}

impl Suppression {
    /// Where a walk through them stands after this one.
    pub fn place(&self) -> SuppressionPlace {
        let person = Person { platform: self.platform.clone(), user_id: self.user_id.clone() };
        SuppressionPlace { person, account_id: self.account_id }
    }
}

/// Suppressions in their order: of one person the one on all accounts comes first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuppressionPlace {
    pub person: Person,
    pub account_id: Option<AccountId>,
}

/// People of a platform who must not be written to unasked from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSuppressions {
    pub platform: String,
    pub user_ids: Vec<String>,
    /// `None`: on all accounts.
    pub account_id: Option<AccountId>,
    pub reason: SuppressionReason,
    pub origin: SuppressionOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuppressionReason {
    Stopped,
    Blocked,
    Deactivated,
    Complaint,
    Manual,
    Imported,
}

impl SuppressionReason {
    pub fn as_str(self) -> &'static str {
        match self {
            SuppressionReason::Stopped => "stopped",
            SuppressionReason::Blocked => "blocked",
            SuppressionReason::Deactivated => "deactivated",
            SuppressionReason::Complaint => "complaint",
            SuppressionReason::Manual => "manual",
            SuppressionReason::Imported => "imported",
        }
    }

    pub fn parse(text: &str) -> Option<SuppressionReason> {
        use SuppressionReason::*;
        [Stopped, Blocked, Deactivated, Complaint, Manual, Imported].into_iter().find(|r| r.as_str() == text)
    }
}

/// Who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SuppressionOrigin {
    Recipient,
    Platform,
    Operator,
}

impl SuppressionOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            SuppressionOrigin::Recipient => "recipient",
            SuppressionOrigin::Platform => "platform",
            SuppressionOrigin::Operator => "operator",
        }
    }

    pub fn parse(text: &str) -> Option<SuppressionOrigin> {
        use SuppressionOrigin::*;
        [Recipient, Platform, Operator].into_iter().find(|origin| origin.as_str() == text)
    }
}

/// The people of one account in sums. What waits for somebody in a dialogue is counted up to `PEOPLE_COUNTED_MAX`, and so
/// are those who are gone: with more it is a number to be read as "at least".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PeopleOfAccount {
    pub account_id: AccountId,
    /// Deliveries of campaigns that wait, and dialogues in which something waits.
    pub waiting: i64,
    pub sending: i64,
    pub gone: i64,
}

/// A status is read often, so it looks at no more people than this.
pub const PEOPLE_COUNTED_MAX: i64 = 10_000;

/// Using a lane that is there already is written down so often; retention takes idle dialogues after weeks.
pub(crate) const LANE_KEPT_EVERY: Span = Span::from_hours(24);

/// Whose lane; a channel's is made with the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneOf {
    Campaign(CampaignId, AccountId),
    Dialogue(RecipientId),
}

/// How deliveries queue in a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneSettings {
    /// 1 keeps the order.
    pub max_parallel: i32,
    /// Requests a second; `None`: as fast as the account.
    pub rate: Option<f64>,
    /// What the platform is good for; `engine::lanes` knows it.
    pub ambiguity: AmbiguityPolicy,
}

impl LaneSettings {
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            s if s.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) => {
                Err(StoreError::invalid("lane", "rate must be above 0 a second"))
            }
            s if s.max_parallel < 1 => Err(StoreError::invalid("lane", "max_parallel starts at 1")),
            _ => Ok(()),
        }
    }
}

/// One message for many people of one lane.
#[derive(Debug, Clone, PartialEq)]
pub struct ForRecipients {
    pub message_id: MessageId,
    pub lane_id: LaneId,
    pub recipients: Vec<RecipientId>,
    pub priority: Priority,
    /// Not before this time.
    pub run_at: Option<Timestamp>,
}

/// Where somebody is written to, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Approach {
    pub address: String,
    pub status: RecipientStatus,
    /// Their chat flooded: nothing before this time.
    pub paused_until: Timestamp,
    /// The slot of the chat.
    pub slot_at: Timestamp,
    /// What is known of them, for words that are theirs alone.
    pub attributes: Value,
}

impl Store {
    /// Takes people in, in order: who is known by account and user id gets the new address; attributes and zone that are
    /// named win, the others stay, and a null takes one away. Who stopped or is gone stays so.
    pub async fn put_recipients(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        people: Vec<NewRecipient>,
    ) -> Result<Vec<PutRecipient>> {
        each!(self, db => db.put_recipients(workspace, account, people))
    }

    pub async fn recipient(&self, workspace: WorkspaceId, id: RecipientId) -> Result<Recipient> {
        each!(self, db => db.recipient(workspace, id))
    }

    /// Somebody by the id that their platform gave them.
    pub async fn find_recipient(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        user_id: &str,
    ) -> Result<Option<Recipient>> {
        each!(self, db => db.find_recipient(workspace, account, user_id))
    }

    /// The people of an account in order of id; continue after the last one.
    pub async fn recipients(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        after: Option<RecipientId>,
        limit: usize,
    ) -> Result<Vec<Recipient>> {
        each!(self, db => db.recipients(workspace, account, after, limit))
    }

    /// The people of each account that has any to tell of, without a walk through their dialogues.
    pub async fn people(&self, workspace: WorkspaceId) -> Result<Vec<PeopleOfAccount>> {
        each!(self, db => db.people(workspace))
    }

    /// Somebody subscribed, stopped, left or came back; `why` in a word. Who stops or leaves is left alone by campaigns
    /// from this moment on: what has not left does not leave any more.
    pub async fn set_recipient_status(
        &self,
        workspace: WorkspaceId,
        id: RecipientId,
        status: RecipientStatus,
        why: &str,
    ) -> Result<()> {
        each!(self, db => db.set_recipient_status(workspace, id, status, why))
    }

    /// Nobody writes to these people unasked any more, campaigns that run included; the first reason stays. How many of
    /// them were not suppressed so before.
    pub async fn suppress(&self, workspace: WorkspaceId, new: NewSuppressions) -> Result<u64> {
        if new.user_ids.len() > RECIPIENTS_BATCH_MAX {
            let n = new.user_ids.len();
            let problem = format!("{n} people in one call, at most {RECIPIENTS_BATCH_MAX}");
            return Err(StoreError::invalid("suppressions", problem));
        }
        each!(self, db => db.suppress(workspace, new))
    }

    /// They may be written to again, unless they stopped by themselves or are gone. `false`: it was not there.
    pub async fn unsuppress(
        &self,
        workspace: WorkspaceId,
        platform: &str,
        user_id: &str,
        account: Option<AccountId>,
    ) -> Result<bool> {
        each!(self, db => db.unsuppress(workspace, platform, user_id, account))
    }

    /// All of them in order; continue after the last one.
    pub async fn suppressions(
        &self,
        workspace: WorkspaceId,
        after: SuppressionPlace,
        limit: usize,
    ) -> Result<Vec<Suppression>> {
        each!(self, db => db.suppressions(workspace, after, limit))
    }

    pub async fn suppressions_of(&self, workspace: WorkspaceId, person: Person) -> Result<Vec<Suppression>> {
        each!(self, db => db.suppressions_of(workspace, person))
    }

    /// The lane of a campaign on an account, or of a dialogue; made when it is not there. The lane of a dialogue that was
    /// idle for long is cleared away, so it is opened anew before it is used.
    pub async fn open_lane(
        &self,
        workspace: WorkspaceId,
        of: LaneOf,
        settings: LaneSettings,
    ) -> Result<LaneId> {
        each!(self, db => db.open_lane(workspace, of, settings))
    }

    /// Queues a message for recipients; the deliveries in order, `None` where nothing is queued: not of the lane's account,
    /// gone, there already; and in the lane of a campaign also who is not active or is suppressed.
    pub async fn enqueue_for(
        &self,
        workspace: WorkspaceId,
        new: ForRecipients,
    ) -> Result<Vec<Option<DeliveryId>>> {
        each!(self, db => db.enqueue_for(workspace, new))
    }

    /// Somebody is about to be written to: where, whether it may be, and the slot of their chat, whatever lane asks: of a
    /// campaign, of a dialogue, or of a channel in the same chat. The request leaves `not_before` its account's slot, so the
    /// chat's is not earlier either.
    pub async fn approach(
        &self,
        workspace: WorkspaceId,
        id: RecipientId,
        interval: Span,
        not_before: Timestamp,
    ) -> Result<Approach> {
        each!(self, db => db.approach(workspace, id, interval, not_before))
    }
}

/// What was known, and what is said now over it.
pub(crate) fn merged(known: &Value, said: &Value) -> Value {
    let fields = |of: &Value| of.as_object().cloned().unwrap_or_default();
    let mut all = fields(known);
    all.extend(fields(said));
    Value::Object(all)
}

/// Null is what is not known, as `jsonb_strip_nulls` has it.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(known.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// People who may be taken in. Who is named twice has all that was said of them the last time they are named.
pub(crate) fn checked(mut people: Vec<NewRecipient>) -> Result<Vec<NewRecipient>> {
    check(&people)?;
    let mut seen = HashMap::with_capacity(people.len());
    for n in 0..people.len() {
        if let Some(before) = seen.insert(people[n].user_id.clone(), n) {
            let (earlier, later): (&NewRecipient, _) = (&people[before], &people[n]);
            let attributes = merged(&earlier.attributes, &later.attributes);
            let time_zone = later.time_zone.clone().or_else(|| earlier.time_zone.clone());
            people[n] = NewRecipient { attributes, time_zone, ..later.clone() };
        }
    }
    Ok(people)
}

fn check(people: &[NewRecipient]) -> Result<()> {
    let bad = |problem: String| Err(StoreError::invalid("recipients", problem));
    if people.len() > RECIPIENTS_BATCH_MAX {
        return bad(format!("{} people in one call, at most {RECIPIENTS_BATCH_MAX}", people.len()));
    }
    for person in people {
        if person.user_id.trim().is_empty() || person.address.trim().is_empty() {
            return bad(format!("user {:?}: user_id and address must not be empty", person.user_id));
        }
        if !matches!(person.status, RecipientStatus::Known | RecipientStatus::Active) {
            let status = person.status.as_str();
            return bad(format!("user {}: somebody new is known or active, not {status}", person.user_id));
        }
        if !person.attributes.is_object() {
            return bad(format!("user {}: attributes are a JSON object", person.user_id));
        }
    }
    Ok(())
}
