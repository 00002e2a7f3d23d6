//! What a platform is to the rest of the sandbox.
//! `dispatch` drives every request through these functions in one fixed order; `control` uses the rest.
//! How to write one is told at the top of `lib.rs`.

use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::core::Core;
use crate::faults::{Fault, Kind};
use crate::registry::{Account, Chat};
use crate::reply::{Refusal, Reply, Response};
use crate::request::{Head, Request};

/// The three platforms, in the order in which every listing shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Name {
    Telegram,
    Vk,
    Max,
}

impl Name {
    pub const ALL: [Name; 3] = [Name::Telegram, Name::Vk, Name::Max];

    pub fn as_str(self) -> &'static str {
        match self {
            Name::Telegram => "telegram",
            Name::Vk => "vk",
            Name::Max => "max",
        }
    }

    /// Reads a name in a control call.
    pub fn parse(text: &str) -> Result<Name, Refusal> {
        Name::ALL.into_iter().find(|name| name.as_str() == text).ok_or_else(|| {
            Refusal::bad(format!("unknown platform {text:?}")).knowing(Name::ALL.map(Name::as_str))
        })
    }
}

/// Whom and what a request is about: enough to match faults and to open a ledger row.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The token as sent.
    pub account: Option<String>,
    /// The bot or community id that belongs to the token, when that is known.
    pub account_id: Option<String>,
    /// The method's canonical name: `sendMessage`, `wall.post`, `POST /messages`.
    pub method: String,
    /// The canonical chat id (`chat_value`), or null.
    pub chat: Value,
    /// The text or caption the request carries.
    pub text: Option<String>,
}

/// A chat id as the ledger shows it: a number where it is one.
pub fn chat_value(id: &str) -> Value {
    id.parse::<i64>().map_or_else(|_| Value::from(id), Value::from)
}

/// A chat id as maps and faults compare it.
pub fn chat_key(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// An emulated platform. All state that is its own lives in the implementing struct, behind its own locks.
pub trait Platform: Send + Sync + Sized + 'static {
    /// A request after parsing.
    type Call: Send;

    const NAME: Name;

    /// Bodies beyond this arrive as `Body::TooLarge`.
    const BODY_BYTES_MAX: usize;

    /// Fields of `POST /_/accounts` beyond `registry::ACCOUNT_FIELDS`.
    const ACCOUNT_FIELDS: &'static [&'static str];

    /// Fields of `POST /_/chats` beyond `registry::CHAT_FIELDS`.
    const CHAT_FIELDS: &'static [&'static str];

    fn new(core: Arc<Core>) -> Self;

    /// What the head alone tells: path, query and headers.
    fn target(&self, head: &Head) -> Target;

    /// Reads the whole request. Never fails: what is wrong with it is `handle`'s to answer.
    fn read(&self, request: Request) -> (Target, Self::Call);

    /// Does what the request asks. Must not await between taking effect and returning,
    /// or a client that hangs up could leave an effect without its ledger row.
    fn handle(&self, call: Self::Call) -> impl Future<Output = Reply> + Send;

    /// The platform's own wording of a fault that is an answer (`Kind::is_answer`); `None` if it has none.
    /// Called when a fault is armed as well, with an empty target, to find out.
    fn fault_answer(&self, fault: &Fault, target: &Target) -> Option<Response>;

    /// Whether updates can go wrong in this way here: `DuplicateUpdate`, `WrongSecret`.
    fn knows_update_fault(&self, kind: Kind) -> bool;

    /// Something a user did: the platform's own update object or `{"chat","from","text"}`, without `account`.
    /// `account` is the token or id it is meant for; without it every account gets it.
    fn inject(&self, update: Map<String, Value>, account: Option<&str>) -> Result<Value, Refusal>;

    /// Checks and completes an account before it is registered (ids, names, kind).
    fn complete_account(&self, account: Account) -> Result<Account, Refusal>;

    /// Checks and completes a chat before it is registered.
    fn complete_chat(&self, chat: Chat) -> Result<Chat, Refusal>;

    /// The canonical id behind whatever a control call names: `@name`, a string, a number.
    fn canonical_chat(&self, chat: &Value) -> Value;

    /// `POST`, `PATCH` and `DELETE` under `/_/walls/`; only VK has walls.
    fn walls(
        &self,
        _method: &str,
        _owner: &str,
        _post: Option<&str>,
        _body: Value,
    ) -> Result<Value, Refusal> {
        Err(Refusal::not_found("this platform has no walls"))
    }

    /// Counters of its own for `GET /_/stats`.
    fn stats(&self) -> Map<String, Value>;

    /// Forgets everything that was said; registrations stay.
    fn reset(&self);
}
