//! The mailbox of the bot as values: what people did, the turns taken over it, and what a turn decides.
//!
//! A dialogue is a recipient. Its events wait in the inbox; whoever claims it takes a turn over them, and the commit of
//! that turn writes the state, the marks, the replies and the logs together or not at all.

use std::collections::BTreeMap;

use domain::delivery::AmbiguityPolicy;
use domain::ids::{AccountId, BotId, ChannelId, ClaimToken, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::calls::NewCall;
use crate::error::{Result, StoreError};
use crate::facade::{Store, each};
use crate::queue::NewMessage;

/// Events that may wait before a door says "later".
pub const BOT_WAITING_MAX: i64 = 50_000;
/// Events of one turn: a flooded chat gets its turn as often as a quiet one.
pub const BOT_EVENTS_MAX: i32 = 16;
/// Figures are read often, so they look at no more rows than this.
pub(crate) const BOT_COUNTED_MAX: i64 = 10_000;

/// How an account hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receive {
    Poll,
    Webhook,
}

impl Receive {
    pub fn as_str(self) -> &'static str {
        match self {
            Receive::Poll => "poll",
            Receive::Webhook => "webhook",
        }
    }

    pub fn parse(text: &str) -> Option<Receive> {
        [Receive::Poll, Receive::Webhook].into_iter().find(|receive| receive.as_str() == text)
    }
}

/// A bot as its configuration says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBot {
    pub name: String,
    pub accounts: Vec<AccountId>,
    pub receive: Receive,
    /// Where people answer for it.
    pub operators: Option<ChannelId>,
    /// Its own services by name: the account has the address and signs.
    pub services: BTreeMap<String, AccountId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bot {
    pub bot_id: BotId,
    pub name: String,
    pub operators: Option<ChannelId>,
    /// Of its rules; 0: none yet.
    pub active_version: i32,
    pub accounts: Vec<BotAccount>,
    pub services: BTreeMap<String, AccountId>,
}

/// How one account of a bot hears, and how it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BotAccount {
    pub account_id: AccountId,
    pub receive: Receive,
    /// The last part of the webhook's address.
    pub hook_key: Option<String>,
    pub heard_at: Option<Timestamp>,
    pub problem: Option<String>,
}

/// One version of a bot's rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BotRules {
    pub version: i32,
    pub rules: String,
    pub created_at: Timestamp,
}

/// A webhook: whose it is, and what proves a caller.
#[derive(Debug, Clone, PartialEq)]
pub struct BotHook {
    pub workspace_id: WorkspaceId,
    pub account_id: AccountId,
    pub secret_hash: Option<String>,
    pub settings: Value,
}

/// An account that this node may poll now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedAccount {
    pub workspace_id: WorkspaceId,
    pub account_id: AccountId,
    pub cursor: Option<String>,
}

/// What a poll brought is written with where the next one begins, by the node that has the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polled {
    pub owner: String,
    pub cursor: Option<String>,
}

/// One thing that happened on a platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The platform's own key: it acts once.
    pub key: String,
    pub kind: String,
    pub at: Option<Timestamp>,
    pub body: Value,
    pub of: UpdateOf,
}

/// Whose it is, and what it changes before anybody looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOf {
    /// Somebody in a private chat did something: it waits for a turn of their dialogue.
    Person { user_id: String, address: String, name: Option<String> },
    /// The same, and they are gone: they blocked the bot.
    Left { user_id: String, address: String },
    /// People answer in a dialogue.
    Operator(RecipientId),
    /// People decide about a post that waits for them: it waits for whoever carries that out.
    Decision,
    /// The bot is in a chat: it was added, or heard something there that no dialogue hears, as `why` says.
    Chat { address: String, title: Option<String>, why: &'static str },
    /// It was taken out.
    ChatLeft { address: String },
    /// Written down with the reason, and nothing follows.
    Skipped(&'static str),
}

impl UpdateOf {
    fn word(&self) -> &'static str {
        match self {
            UpdateOf::Person { .. } => "person",
            UpdateOf::Left { .. } => "left",
            UpdateOf::Operator(_) => "operator",
            UpdateOf::Decision => "decision",
            UpdateOf::Chat { .. } => "chat",
            UpdateOf::ChatLeft { .. } => "chat_left",
            UpdateOf::Skipped(_) => "skip",
        }
    }

    /// What is written down about an event that nobody has to look at.
    pub(crate) fn verdict(&self) -> Option<&'static str> {
        match self {
            UpdateOf::Person { .. } | UpdateOf::Left { .. } | UpdateOf::Operator(_) | UpdateOf::Decision => {
                None
            }
            UpdateOf::Chat { why, .. } => Some(why),
            UpdateOf::ChatLeft { .. } => Some("chat_left"),
            UpdateOf::Skipped(why) => Some(why),
        }
    }
}

impl Update {
    /// As an item of `bot_receive`.
    pub fn item(&self) -> Value {
        let mut item = json!({"key": self.key, "kind": self.kind, "as": self.of.word(), "body": self.body});
        if let Some(at) = self.at {
            item["at"] = json!(at.0);
        }
        match &self.of {
            UpdateOf::Person { user_id, address, name } => {
                item["user"] = json!(user_id);
                item["address"] = json!(address);
                item["name"] = json!(name);
            }
            UpdateOf::Left { user_id, address } => {
                item["user"] = json!(user_id);
                item["address"] = json!(address);
            }
            UpdateOf::Operator(id) => item["dialogue"] = json!(id.0),
            UpdateOf::Chat { address, title, why } => {
                item["verdict"] = json!(why);
                item["address"] = json!(address);
                item["name"] = json!(title);
            }
            UpdateOf::ChatLeft { address } => item["address"] = json!(address),
            UpdateOf::Skipped(why) => item["verdict"] = json!(why),
            UpdateOf::Decision => {}
        }
        item
    }
}

/// An answer that names a dialogue which is not there.
pub(crate) const TO_NOBODY: &str = "answer to nobody";

/// A decision of people that nobody has carried out yet.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingDecision {
    pub workspace_id: WorkspaceId,
    pub account_id: AccountId,
    pub inbox_id: i64,
    pub body: Value,
}

/// What became of a batch of updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many were new; the others had come before.
    Taken { fresh: u32 },
    /// Too many wait already; nothing was taken.
    Full,
}

/// Who answers in a dialogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogueMode {
    Bot,
    Human,
    Stopped,
}

impl DialogueMode {
    pub fn as_str(self) -> &'static str {
        match self {
            DialogueMode::Bot => "bot",
            DialogueMode::Human => "human",
            DialogueMode::Stopped => "stopped",
        }
    }

    pub fn parse(text: &str) -> Option<DialogueMode> {
        [DialogueMode::Bot, DialogueMode::Human, DialogueMode::Stopped]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// A dialogue in the hands of one caller until its lease ends; read from what `bot_tick` says too.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Turn {
    pub workspace_id: WorkspaceId,
    pub account_id: AccountId,
    pub recipient_id: RecipientId,
    /// `None`: the account belongs to no bot any more.
    pub bot_id: Option<BotId>,
    #[serde(rename = "operators_id")]
    pub operators: Option<ChannelId>,
    pub rules_version: i32,
    pub platform: String,
    pub user_id: String,
    pub attributes: Value,
    pub token: ClaimToken,
    pub version: i32,
    pub mode: DialogueMode,
    pub state: Value,
    pub timer_at: Option<Timestamp>,
    /// In the order in which they came.
    pub events: Vec<InboxEvent>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InboxEvent {
    pub inbox_id: i64,
    /// Where it was heard: the answer of a person may come by another account.
    pub account_id: AccountId,
    pub kind: String,
    #[serde(default)]
    pub body: Value,
    pub happened_at: Timestamp,
    pub received_at: Timestamp,
}

/// What a turn decided.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnTaken {
    pub recipient_id: RecipientId,
    pub token: ClaimToken,
    pub version: i32,
    pub rules_version: i32,
    pub mode: DialogueMode,
    pub state: Value,
    pub timer_at: Option<Timestamp>,
    /// The events it looked at, with what became of each.
    pub events: Vec<(i64, String)>,
    /// The timer was due: it counts as one more event, the last.
    pub fired: bool,
    pub says: Vec<Say>,
    pub calls: Vec<NewCall>,
    /// They subscribed or stopped.
    pub subscription: Option<(crate::recipients::RecipientStatus, &'static str)>,
    pub logs: Vec<NewLog>,
    /// What the platform's lanes are good for.
    pub ambiguity: AmbiguityPolicy,
}

/// One message of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Say {
    /// The place of the event that it answers, in `events`.
    pub event: usize,
    /// `None`: to the person.
    pub channel: Option<ChannelId>,
    /// A message as it is stored.
    pub payload: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewLog {
    pub event: usize,
    pub rule: Option<String>,
    pub verdict: String,
    pub detail: Value,
}

impl TurnTaken {
    /// As an item of `bot_commit_turns`.
    pub fn item(&self) -> Result<Value> {
        self.check()?;
        crate::postgres::turn_item(self)
    }

    /// The number of each say, then of each call, among those of its event.
    pub(crate) fn numbers(&self) -> Vec<i32> {
        let mut seen = vec![0; self.events.len() + 1];
        let events = self.says.iter().map(|say| say.event).chain(self.calls.iter().map(|call| call.event));
        let number = |event: usize| {
            let place = event.min(self.events.len());
            seen[place] += 1;
            seen[place] - 1
        };
        events.map(number).collect()
    }

    /// A say as a message; named by its event and number, so that it is stored once.
    pub(crate) fn message(&self, say: &Say, n: i32) -> NewMessage {
        let event = match self.events.get(say.event) {
            Some((inbox_id, _)) => inbox_id.to_string(),
            None => format!("timer-{}", self.version),
        };
        let origin_id = format!("{event}.{n}");
        NewMessage {
            source: format!("bot:{}", self.recipient_id),
            // A forward is never held back as a repeat of another one with the same words.
            content_hash: format!("bot:{}:{origin_id}", self.recipient_id),
            origin_id,
            idempotency_key: None,
            payload: say.payload.clone(),
            hash_version: 1,
            fingerprint: None,
            kind: "other".into(),
            facts: json!({}),
            facts_version: 0,
            tags: Vec::new(),
            origin: json!({}),
            case_id: None,
            channels: say.channel.into_iter().collect(),
            priority: Default::default(),
            run_at: None,
            skipped: None,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let events = self.events.len() + usize::from(self.fired);
        let said = self.says.iter().map(|say| say.event);
        let asked = self.calls.iter().map(|call| call.event);
        let wrong = said.chain(asked).chain(self.logs.iter().map(|log| log.event));
        match wrong.max() {
            Some(event) if event >= events => {
                Err(StoreError::invalid("bot turn", format!("it speaks of event {event} of {events}")))
            }
            _ => Ok(()),
        }
    }
}

/// How the bots of a workspace do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BotSnapshot {
    /// Events that nobody has looked at yet, and since when the oldest waits.
    pub waiting: i64,
    pub oldest: Option<Timestamp>,
    /// Dialogues that people have taken over; of these, those whose person waits for an answer, and since when the first.
    pub handoffs: i64,
    pub handoffs_waiting: i64,
    pub handoff_since: Option<Timestamp>,
    /// Lines of the log within the span asked for, and how many of them were fallbacks or errors.
    pub turns: i64,
    pub fallbacks: i64,
    pub errors: i64,
}

/// A chat that a bot was added to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BotChat {
    pub account_id: AccountId,
    pub chat: String,
    pub title: Option<String>,
    pub seen_at: Timestamp,
    pub left_at: Option<Timestamp>,
}

impl Store {
    /// A bot by its name, with exactly these accounts; what they heard and where they stand stays.
    pub async fn put_bot(&self, workspace: WorkspaceId, new: NewBot) -> Result<BotId> {
        each!(self, db => db.put_bot(workspace, new))
    }

    pub async fn bots(&self, workspace: WorkspaceId) -> Result<Vec<Bot>> {
        each!(self, db => db.bots(workspace))
    }

    /// Its accounts listen no more; rules, dialogues and logs stay.
    pub async fn rest_bot(&self, workspace: WorkspaceId, id: BotId) -> Result<()> {
        each!(self, db => db.rest_bot(workspace, id))
    }

    /// New rules become the active version; the same text as the active one is that version.
    pub async fn put_bot_rules(&self, workspace: WorkspaceId, id: BotId, rules: &str) -> Result<i32> {
        each!(self, db => db.put_bot_rules(workspace, id, rules))
    }

    /// The versions of a bot's rules, the newest first.
    pub async fn bot_rules(&self, workspace: WorkspaceId, id: BotId) -> Result<Vec<BotRules>> {
        each!(self, db => db.bot_rules(workspace, id))
    }

    pub async fn activate_bot_rules(
        &self,
        workspace: WorkspaceId,
        id: BotId,
        version: i32,
        operators: Option<ChannelId>,
    ) -> Result<()> {
        each!(self, db => db.activate_bot_rules(workspace, id, version, operators))
    }

    /// How many dialogues of a bot stand in which state of its rules.
    pub async fn bot_standing(&self, workspace: WorkspaceId, id: BotId) -> Result<Vec<(String, i64)>> {
        each!(self, db => db.bot_standing(workspace, id))
    }

    /// A new address and a new secret for the webhook of an account; those before open nothing any more.
    pub async fn set_bot_hook(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        key: &str,
        secret_hash: Option<&str>,
        settings: Value,
    ) -> Result<()> {
        each!(self, db => db.set_bot_hook(workspace, account, key, secret_hash, settings))
    }

    pub async fn bot_hook(&self, key: &str) -> Result<Option<BotHook>> {
        each!(self, db => db.bot_hook(key))
    }

    /// Accounts that nobody polls: they are this node's until the lease ends.
    pub async fn lease_bot_accounts(
        &self,
        owner: &str,
        lease: Span,
        limit: usize,
    ) -> Result<Vec<LeasedAccount>> {
        each!(self, db => db.lease_bot_accounts(owner, lease, limit))
    }

    /// Holds an account for as long again; `false` if it is another's now, or should not be polled any more.
    pub async fn keep_bot_account(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        owner: &str,
        lease: Span,
    ) -> Result<bool> {
        each!(self, db => db.keep_bot_account(workspace, account, owner, lease))
    }

    /// Why an account does not hear, in words; `None`: it does.
    pub async fn bot_account_problem(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        problem: Option<&str>,
    ) -> Result<()> {
        each!(self, db => db.bot_account_problem(workspace, account, problem))
    }

    /// Updates of one account, in order and durable before it returns; one that came before acts no more. Who they are
    /// from is kept true on the way: new, back, gone.
    pub async fn bot_receive(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        updates: Vec<Update>,
        polled: Option<Polled>,
    ) -> Result<Received> {
        each!(self, db => db.bot_receive(workspace, account, updates, polled))
    }

    /// Dialogues that are due, of every workspace, with what waits in them. One has one turn at a time.
    pub async fn bot_claim_turns(&self, limit: usize, lease: Span) -> Result<Vec<Turn>> {
        each!(self, db => db.bot_claim_turns(limit, lease))
    }

    /// What people decided about posts and nobody has carried out, of every workspace, in order. Nothing is claimed:
    /// a decision acts once however often it is carried out.
    pub async fn bot_decisions(&self, limit: usize) -> Result<Vec<WaitingDecision>> {
        each!(self, db => db.bot_decisions(limit))
    }

    /// A decision was carried out, with this end; `false`: somebody has said so before.
    pub async fn bot_decided(&self, workspace: WorkspaceId, inbox_id: i64, verdict: &str) -> Result<bool> {
        each!(self, db => db.bot_decided(workspace, inbox_id, verdict))
    }

    /// When a dialogue is due next, by what is known now.
    pub async fn bot_next_turn(&self) -> Result<Option<Timestamp>> {
        each!(self, db => db.bot_next_turn())
    }

    /// Writes turns, each whole or not at all; `false`, in order, for one that is not this caller's any more.
    pub async fn bot_commit_turns(&self, workspace: WorkspaceId, turns: Vec<TurnTaken>) -> Result<Vec<bool>> {
        for turn in &turns {
            turn.check()?;
        }
        let says: Vec<usize> = turns.iter().map(|turn| turn.says.len()).collect();
        let taken = each!(self, db => db.bot_commit_turns(workspace, turns))?;
        let said = says.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(says, _)| says);
        self.tally().enqueued(said.sum());
        self.tally().turns(taken.iter().filter(|taken| **taken).count());
        Ok(taken)
    }

    /// The figures of the last span.
    pub async fn bot_snapshot(&self, workspace: WorkspaceId, since: Span) -> Result<BotSnapshot> {
        each!(self, db => db.bot_snapshot(workspace, since))
    }

    /// Erases a person: their words, their dialogue, what was said to them, who they were. `false`: not known.
    pub async fn bot_forget(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        user_id: &str,
    ) -> Result<bool> {
        each!(self, db => db.bot_forget(workspace, account, user_id))
    }

    pub async fn bot_chats(&self, workspace: WorkspaceId) -> Result<Vec<BotChat>> {
        each!(self, db => db.bot_chats(workspace))
    }

    /// Whose dialogue a published message belongs to: a reply to it is meant for that person.
    pub async fn bot_dialogue_of(
        &self,
        workspace: WorkspaceId,
        channel: ChannelId,
        provider_message_id: &str,
    ) -> Result<Option<RecipientId>> {
        each!(self, db => db.bot_dialogue_of(workspace, channel, provider_message_id))
    }
}
