//! Trouble on command: the armed faults, and which of them strikes a request.
//! A fault names a platform and optionally a method, a chat and an account; it strikes `times` times,
//! or with a `probability`, or, with neither, until it is removed.
//! What each kind does on the wire is told in `KINDS`; `dispatch` performs it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::platform::{Name, Target, chat_key};
use crate::reply::Refusal;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Status(u16),
    Kicked,
    Blocked,
    ChatNotFound,
    VkError,
    Captcha,
    AttachmentNotReady,
    Refuse,
    Hang,
    ResetBeforeRead,
    ResetAfterRead,
    AcceptThenReset,
    AcceptThenHang,
    AcceptThen500,
    HalfBody,
    SlowDrip,
    Garbage,
    WrongShape,
    WrongContentType,
    Redirect,
    TruncatedGzip,
    DuplicateUpdate,
    WrongSecret,
}

/// Every kind with its name and what it does. "Accepted" is what the ledger will say.
pub const KINDS: &[(&str, Kind, &str)] = &[
    (
        "429",
        Kind::Status(429),
        "not accepted; the platform's flood answer, with the given retry_after or without any",
    ),
    ("500", Kind::Status(500), "not accepted; the platform's own internal error"),
    ("502", Kind::Status(502), "not accepted; a gateway's HTML page"),
    (
        "503",
        Kind::Status(503),
        "not accepted; a gateway's HTML page, with Retry-After when retry_after is given",
    ),
    ("504", Kind::Status(504), "not accepted; a gateway's HTML page"),
    ("401", Kind::Status(401), "not accepted; the token is not valid"),
    ("403", Kind::Status(403), "not accepted; the platform's own refusal of access"),
    ("404", Kind::Status(404), "not accepted; not found"),
    ("kicked", Kind::Kicked, "not accepted; the bot was removed from the chat"),
    ("blocked", Kind::Blocked, "not accepted; the user blocked the bot"),
    ("chat_not_found", Kind::ChatNotFound, "not accepted; there is no such chat"),
    ("vk_error", Kind::VkError, "not accepted; the VK error with the given code"),
    ("captcha", Kind::Captcha, "not accepted; VK error 14 with its captcha fields"),
    ("attachment_not_ready", Kind::AttachmentNotReady, "not accepted; an upload is still being processed"),
    (
        "refuse",
        Kind::Refuse,
        "not accepted; TCP reset as soon as the head of the request tells whom it is for, the body stays unread (with a chat in the scope the body has to be read to know it)",
    ),
    (
        "hang",
        Kind::Hang,
        "not accepted; the request is read and nothing is ever answered; with delay_ms the connection closes after it",
    ),
    (
        "reset_before_read",
        Kind::ResetBeforeRead,
        "not accepted; TCP reset after the first piece of the body, the rest stays unread",
    ),
    (
        "reset_after_read",
        Kind::ResetAfterRead,
        "not accepted; the whole request is read, then TCP reset without a byte of answer",
    ),
    ("accept_then_reset", Kind::AcceptThenReset, "accepted; then TCP reset without a byte of answer"),
    (
        "accept_then_hang",
        Kind::AcceptThenHang,
        "accepted; then nothing is answered; with delay_ms the connection closes after it",
    ),
    ("accept_then_500", Kind::AcceptThen500, "accepted; the answer is the platform's internal error"),
    (
        "half_body",
        Kind::HalfBody,
        "accepted; the head promises the whole body, half of it comes, then the connection closes",
    ),
    ("slow_drip", Kind::SlowDrip, "accepted; the answer comes one byte every delay_ms (1000), head and body"),
    ("garbage", Kind::Garbage, "accepted; bytes that are not HTTP, then the connection closes"),
    ("wrong_shape", Kind::WrongShape, "accepted; status 200 and valid JSON that means nothing"),
    ("wrong_content_type", Kind::WrongContentType, "accepted; status 200 and an HTML page"),
    (
        "redirect",
        Kind::Redirect,
        "not accepted; 302 (or the given code 301, 303, 307, 308) to another host name; whoever follows it leaves a row 'redirect followed'",
    ),
    (
        "truncated_gzip",
        Kind::TruncatedGzip,
        "accepted; the answer is compressed and its second half is missing",
    ),
    ("duplicate_update", Kind::DuplicateUpdate, "the next update is delivered twice with the same id"),
    ("wrong_secret", Kind::WrongSecret, "the next webhook call carries a wrong secret"),
];

/// The fields of `POST /_/faults`.
pub const FIELDS: &[&str] = &[
    "platform",
    "method",
    "chat",
    "account",
    "kind",
    "times",
    "probability",
    "retry_after",
    "code",
    "delay_ms",
];

impl Kind {
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind, _)| *kind == self).map_or("unknown", |(name, _, _)| name)
    }

    pub fn parse(text: &str) -> Result<Kind, Refusal> {
        let known = || KINDS.iter().map(|(name, _, _)| *name);
        KINDS
            .iter()
            .find(|(name, _, _)| *name == text)
            .map(|(_, kind, _)| *kind)
            .ok_or_else(|| Refusal::bad(format!("unknown fault kind {text:?}")).knowing(known()))
    }

    /// The platform words it; nothing happens on the wire but an answer.
    pub fn is_answer(self) -> bool {
        matches!(
            self,
            Kind::Status(_)
                | Kind::Kicked
                | Kind::Blocked
                | Kind::ChatNotFound
                | Kind::VkError
                | Kind::Captcha
                | Kind::AttachmentNotReady
        )
    }

    /// It strikes an update on its way to a bot, not a request.
    pub fn is_update(self) -> bool {
        matches!(self, Kind::DuplicateUpdate | Kind::WrongSecret)
    }

    /// It strikes before the body is read.
    pub fn is_head(self) -> bool {
        matches!(self, Kind::Refuse | Kind::ResetBeforeRead)
    }
}

/// An armed fault.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    pub id: u64,
    pub platform: Name,
    pub method: Option<String>,
    pub chat: Value,
    #[serde(serialize_with = "crate::guard::serialize_masked_if_any")]
    pub account: Option<String>,
    #[serde(serialize_with = "kind_name")]
    pub kind: Kind,
    /// How often it may still strike; `None` is without end.
    pub times: Option<u64>,
    pub probability: Option<f64>,
    /// Sent as it is given: platforms have been seen to send numbers, strings and nonsense.
    pub retry_after: Value,
    pub code: Option<i64>,
    pub delay_ms: Option<u64>,
    /// How often it has struck.
    pub struck: u64,
}

impl Fault {
    /// Reads a control call; ids and counters are given by `Faults::arm`.
    pub fn parse(body: &Map<String, Value>) -> Result<Fault, Refusal> {
        known_fields(body, FIELDS)?;
        let platform = Name::parse(&required_text(body, "platform")?)?;
        let probability = match body.get("probability") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_f64().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(|| {
                Refusal::bad(format!("probability must be a number from 0 to 1, not {value}"))
            })?),
        };
        Ok(Fault {
            id: 0,
            platform,
            method: optional_text(body, "method")?,
            chat: body.get("chat").cloned().unwrap_or(Value::Null),
            account: optional_text(body, "account")?,
            kind: Kind::parse(&required_text(body, "kind")?)?,
            times: optional_whole(body, "times")?.map(i64::unsigned_abs),
            probability,
            retry_after: body.get("retry_after").cloned().unwrap_or(Value::Null),
            code: optional_integer(body, "code")?,
            delay_ms: optional_whole(body, "delay_ms")?.map(i64::unsigned_abs),
            struck: 0,
        })
    }

    /// A fault of this kind without any scope, to ask a platform whether it knows the kind.
    pub fn probe(platform: Name, kind: Kind) -> Fault {
        Fault {
            id: 0,
            platform,
            method: None,
            chat: Value::Null,
            account: None,
            kind,
            times: None,
            probability: None,
            retry_after: Value::Null,
            code: None,
            delay_ms: None,
            struck: 0,
        }
    }

    fn concerns(&self, platform: Name, target: &Target) -> bool {
        self.platform == platform
            && (self.kind.is_update()
                || self.method.as_deref().is_none_or(|method| same_method(method, &target.method)))
            && (self.chat.is_null() || chat_key(&self.chat) == chat_key(&target.chat))
            && self.account.as_ref().is_none_or(|account| {
                Some(account) == target.account.as_ref() || Some(account) == target.account_id.as_ref()
            })
    }
}

/// Methods are compared without regard to case; `/messages` also means `POST /messages`.
fn same_method(asked: &str, method: &str) -> bool {
    asked.eq_ignore_ascii_case(method)
        || method.split_once(' ').is_some_and(|(_, path)| path.eq_ignore_ascii_case(asked))
}

fn kind_name<S: serde::Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

/// When in the life of a request the faults are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The head is known, the body is unread.
    Head,
    /// The whole request is known.
    Whole,
    /// An update is about to leave for a bot; `Faults::strike_update` asks for one kind.
    Update,
}

/// The armed faults.
#[derive(Debug)]
pub struct Faults {
    armed: Mutex<Armed>,
    /// Lets the common case, nothing armed, pass without a lock.
    n_armed: AtomicUsize,
}

#[derive(Debug)]
struct Armed {
    faults: Vec<Fault>,
    next_id: u64,
    seed: u64,
    chance: StdRng,
}

/// More armed faults than this are refused.
pub const ARMED_MAX: usize = 10_000;

impl Faults {
    pub fn new(seed: u64) -> Faults {
        let armed = Armed { faults: Vec::new(), next_id: 1, seed, chance: StdRng::seed_from_u64(seed) };
        Faults { armed: Mutex::new(armed), n_armed: AtomicUsize::new(0) }
    }

    /// Arms a fault and returns it with its id.
    pub fn arm(&self, mut fault: Fault) -> Result<Fault, Refusal> {
        let mut armed = self.lock();
        if armed.faults.len() >= ARMED_MAX {
            return Err(Refusal::bad(format!("{ARMED_MAX} faults are armed already; remove some first")));
        }
        fault.id = armed.next_id;
        armed.next_id += 1;
        if fault.times != Some(0) {
            armed.faults.push(fault.clone());
        }
        self.n_armed.store(armed.faults.len(), Ordering::SeqCst);
        Ok(fault)
    }

    pub fn list(&self) -> Vec<Fault> {
        self.lock().faults.clone()
    }

    /// Disarms one fault; false if there is none with this id.
    pub fn remove(&self, id: u64) -> bool {
        let mut armed = self.lock();
        let before = armed.faults.len();
        armed.faults.retain(|fault| fault.id != id);
        self.n_armed.store(armed.faults.len(), Ordering::SeqCst);
        armed.faults.len() < before
    }

    /// Disarms all and starts chance again from the seed.
    pub fn clear(&self) {
        let mut armed = self.lock();
        armed.faults.clear();
        armed.chance = StdRng::seed_from_u64(armed.seed);
        self.n_armed.store(0, Ordering::SeqCst);
    }

    /// The first armed fault that strikes now. It is used up by this.
    pub fn strike(&self, platform: Name, target: &Target, phase: Phase) -> Option<Fault> {
        self.strike_if(platform, target, |fault| due(fault, phase))
    }

    /// An armed fault of this kind, `DuplicateUpdate` or `WrongSecret`, for an update that is about to leave.
    /// The method of the fault is not looked at: updates have none.
    pub fn strike_update(&self, platform: Name, target: &Target, kind: Kind) -> Option<Fault> {
        self.strike_if(platform, target, |fault| fault.kind == kind)
    }

    fn strike_if(&self, platform: Name, target: &Target, due: impl Fn(&Fault) -> bool) -> Option<Fault> {
        if self.n_armed.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut armed = self.lock();
        let Armed { faults, chance, .. } = &mut *armed;
        let mut candidates = faults.iter_mut().filter(|fault| due(fault) && fault.concerns(platform, target));
        let fault = candidates.find(|fault| fault.probability.is_none_or(|p| chance.random_bool(p)))?;
        fault.struck += 1;
        fault.times = fault.times.map(|times| times.saturating_sub(1));
        let struck = fault.clone();
        faults.retain(|fault| fault.times != Some(0));
        self.n_armed.store(faults.len(), Ordering::SeqCst);
        Some(struck)
    }

    fn lock(&self) -> MutexGuard<'_, Armed> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each fault is asked once per request: head kinds at the head, unless only the body can tell the chat.
fn due(fault: &Fault, phase: Phase) -> bool {
    let at_head = fault.kind.is_head() && fault.chat.is_null();
    match phase {
        Phase::Update => fault.kind.is_update(),
        Phase::Head => at_head,
        Phase::Whole => !fault.kind.is_update() && !at_head,
    }
}

// -- reading control calls

/// Refuses fields nobody knows, and says which are known.
pub fn known_fields(body: &Map<String, Value>, known: &[&str]) -> Result<(), Refusal> {
    match body.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Refusal::bad(format!("unknown field {key:?}")).knowing(known)),
    }
}

/// A field that must be there; numbers are read as their text.
pub fn required_text(body: &Map<String, Value>, field: &str) -> Result<String, Refusal> {
    optional_text(body, field)?.ok_or_else(|| Refusal::bad(format!("field {field:?} is missing")))
}

/// A field that may be there; numbers are read as their text.
pub fn optional_text(body: &Map<String, Value>, field: &str) -> Result<Option<String>, Refusal> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(other) => Err(Refusal::bad(format!("field {field:?} must be a string, not {other}"))),
    }
}

/// A whole number of zero or more that may be there.
pub fn optional_whole(body: &Map<String, Value>, field: &str) -> Result<Option<i64>, Refusal> {
    match optional_integer(body, field)? {
        Some(number) if number < 0 => Err(Refusal::bad(format!("field {field:?} must not be negative"))),
        other => Ok(other),
    }
}

/// An integer that may be there.
pub fn optional_integer(body: &Map<String, Value>, field: &str) -> Result<Option<i64>, Refusal> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(Refusal::bad(format!("field {field:?} must be a whole number, not {value}"))),
        },
    }
}
