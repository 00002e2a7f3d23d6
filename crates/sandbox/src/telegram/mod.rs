//! Telegram's Bot API, as `docs/platforms/telegram.md` describes it.
//! Read on from here: `methods` has the list, `send` and `edit` do what readers see, `entities` what they read,
//! `webhook` and `inject` bring updates to bots.
//!
//! Media by URL: addresses on loopback are fetched, with the server's size limits and errors;
//! all others are believed and shown as links, because the sandbox never goes to the internet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

mod args;
mod bots;
mod detect;
mod edit;
mod entities;
mod errors;
mod files;
mod html;
mod inject;
mod keyboard;
mod markdown;
mod messages;
mod methods;
mod ordered;
mod people;
mod send;
mod webhook;

#[cfg(test)]
mod tests;

use crate::core::SharedCore;
use crate::dispatch::html as html_page;
use crate::faults::{Fault, Kind};
use crate::limits::{LimitsMode, Window};
use crate::platform::{Name, Platform, Target, chat_key};
use crate::registry::{Account, Chat};
use crate::reply::{Refusal, Reply, Response};
use crate::request::{Head, Request, percent_decoded};

use args::Args;
use bots::Bot;
use errors::ApiError;
use methods::{Done, Visitor};
use ordered::Ordered;

/// The platform.
#[derive(Debug)]
pub struct Telegram {
    core: SharedCore,
    bots: Mutex<HashMap<i64, Arc<Bot>>>,
}

/// A call after parsing.
#[derive(Debug)]
pub struct Call {
    path: Path,
    args: Args,
}

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Path {
    Method { token: String, method: String },
    File { token: String, path: String },
    Unknown,
}

/// More than any bot may upload at once.
const BODY_BYTES_MAX: usize = 60 << 20;

impl Platform for Telegram {
    type Call = Call;

    const NAME: Name = Name::Telegram;
    const BODY_BYTES_MAX: usize = BODY_BYTES_MAX;
    /// `paid_broadcast`: up to 1000 messages a second when a call says `allow_paid_broadcast`.
    /// `privacy`: of groups the bot hears commands and replies to itself alone, unless it is an administrator.
    const ACCOUNT_FIELDS: &'static [&'static str] = &["paid_broadcast", "privacy"];
    const CHAT_FIELDS: &'static [&'static str] = people::CHAT_FIELDS;

    fn new(core: SharedCore) -> Telegram {
        Telegram { core, bots: Mutex::default() }
    }

    fn target(&self, head: &Head) -> Target {
        let chat = head.query_value("chat_id").map(Value::from).unwrap_or_default();
        self.target_of(&parse_path(&head.path), &chat)
    }

    fn read(&self, request: Request) -> (Target, Call) {
        let args = Args::read(&request);
        let mut path = parse_path(&request.head.path);
        if let Path::Method { method, .. } = &mut path
            && method.is_empty()
        {
            *method = args.text("method");
        }
        let chat = args.value("chat_id").cloned().unwrap_or_default();
        let mut target = self.target_of(&path, &chat);
        target.text = Some(args.text("text")).filter(|text| !text.is_empty());
        target.text = target.text.or_else(|| Some(args.text("caption")).filter(|text| !text.is_empty()));
        (target, Call { path, args })
    }

    async fn handle(&self, call: Call) -> Reply {
        let (token, method) = match &call.path {
            Path::Unknown => return refused(&ApiError::new(404, "Not Found")),
            Path::File { token, path } => return self.download(token, path),
            Path::Method { token, method } => (token, method),
        };
        match self.perform(token, method, &call.args).await {
            Ok(done) => answered(done),
            Err(error) => refused(&error),
        }
    }

    fn fault_answer(&self, fault: &Fault, target: &Target) -> Option<Response> {
        let chat_kind = || {
            let place = people::find_place(&self.core, &chat_key(&target.chat));
            place.map_or_else(|| "channel".to_owned(), |place| place.kind().to_owned())
        };
        let error = match fault.kind {
            Kind::Status(429) => ApiError::flood(&fault.retry_after),
            Kind::Status(401) => ApiError::new(401, "Unauthorized"),
            Kind::Status(403) => {
                ApiError::forbidden(&format!("bot is not a member of the {} chat", chat_kind()))
            }
            Kind::Status(404) => ApiError::new(404, "Not Found"),
            Kind::Status(500) => ApiError::new(500, "Internal Server Error: restart"),
            Kind::Status(code) => return Some(gateway(code, &fault.retry_after)),
            Kind::Kicked => ApiError::forbidden(&format!("bot was kicked from the {} chat", chat_kind())),
            Kind::Blocked => ApiError::forbidden("bot was blocked by the user"),
            Kind::ChatNotFound => ApiError::bad("chat not found"),
            _ => return None,
        };
        Some(error.response())
    }

    fn knows_update_fault(&self, _kind: Kind) -> bool {
        true
    }

    fn inject(&self, update: Map<String, Value>, account: Option<&str>) -> Result<Value, Refusal> {
        inject::inject(self, update, account)
    }

    fn complete_account(&self, account: Account) -> Result<Account, Refusal> {
        people::complete_account(account)
    }

    fn complete_chat(&self, chat: Chat) -> Result<Chat, Refusal> {
        people::complete_chat(chat)
    }

    fn canonical_chat(&self, chat: &Value) -> Value {
        people::canonical_chat(&self.core, chat)
    }

    fn stats(&self) -> Map<String, Value> {
        let bots = self.bots.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting: usize = bots.values().map(|bot| bot.queue.len()).sum();
        let mut stats = Map::new();
        stats.insert("updates_waiting".into(), waiting.into());
        stats
    }

    fn reset(&self) {
        for bot in self.bots.lock().unwrap_or_else(PoisonError::into_inner).values() {
            bot.reset();
        }
    }
}

impl Telegram {
    fn target_of(&self, path: &Path, chat: &Value) -> Target {
        let (token, method) = match path {
            Path::Method { token, method } => {
                (token, methods::canonical(method).map_or(method.clone(), str::to_owned))
            }
            Path::File { token, .. } => (token, "file".to_owned()),
            Path::Unknown => return Target { method: "unknown".into(), ..Target::default() },
        };
        Target {
            account_id: token.split_once(':').map(|(id, _)| id.to_owned()),
            account: Some(token.clone()),
            method,
            chat: if chat.is_null() { Value::Null } else { self.canonical_chat(chat) },
            text: None,
        }
    }

    async fn perform(&self, token: &str, method: &str, args: &Args) -> Result<Done, ApiError> {
        let bot = people::bot_id(token)?;
        if let Some(reason) = args.oversized {
            return Err(ApiError::new(413, reason));
        }
        let account = self.account(token).ok_or_else(|| ApiError::new(401, "Unauthorized"))?;
        let method =
            methods::canonical(method).ok_or_else(|| ApiError::new(404, "Not Found: method not found"))?;
        if methods::sends(method) {
            self.check_speed(&account, args)?;
        }
        let own = self.bot(bot);
        let visitor = Visitor { core: &self.core, account: &account, own: &own, bot, args };
        methods::run(&visitor, method).await
    }

    fn account(&self, token: &str) -> Option<Arc<Account>> {
        self.core.registry.account(Name::Telegram, token, people::complete_account)
    }

    /// The accounts a control call means; with any token, one that was never seen is made.
    fn named(&self, account: Option<&str>) -> Result<Vec<Arc<Account>>, Refusal> {
        let mut found = self.core.registry.named_accounts(Name::Telegram, account);
        if found.is_empty()
            && let Some(token) = account
        {
            found.extend(self.account(token));
        }
        if found.is_empty() {
            let which = account.unwrap_or("any");
            return Err(Refusal::bad(format!(
                "no Telegram account {which:?} is known; register it with POST /_/accounts"
            )));
        }
        Ok(found)
    }

    fn bot(&self, id: i64) -> Arc<Bot> {
        let mut bots = self.bots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bots.entry(id).or_insert_with(|| Arc::new(Bot::new(id))))
    }

    /// 30 messages a second per bot (1000 for a paid broadcast), one per chat, 20 a minute per group.
    fn check_speed(&self, account: &Account, args: &Args) -> Result<(), ApiError> {
        if self.core.limits.mode() == LimitsMode::Off {
            return Ok(());
        }
        let Ok(place) = people::place(&self.core, args, "chat_id") else { return Ok(()) };
        let paid = account.flag("paid_broadcast") && args.flag("allow_paid_broadcast");
        let bot = &account.id;
        let mut windows = vec![
            Window::new(format!("telegram bot {bot}"), if paid { 1000 } else { 30 }, 1000),
            Window::new(format!("telegram bot {bot} chat {}", place.id), 1, 1000),
        ];
        if place.is_group() {
            windows.push(Window::new(format!("telegram bot {bot} group {}", place.id), 20, 60_000));
        }
        let taken = self.core.limits.take(&windows, self.core.clock.now_ms());
        taken.map_err(|wait_ms| ApiError::flood(&((wait_ms + 999) / 1000).into()))
    }

    fn download(&self, token: &str, path: &str) -> Reply {
        if let Err(error) = people::bot_id(token) {
            return refused(&error);
        }
        if self.account(token).is_none() {
            return refused(&ApiError::new(401, "Unauthorized"));
        }
        let stored = files::hash_in_path(path).and_then(|hash| self.core.media.get(hash));
        match stored {
            Some(stored) => Reply::done(Response::file(stored.mime, stored.bytes)),
            None => refused(&ApiError::new(404, "Not Found")),
        }
    }
}

/// `/bot<token>/<method>`, the same with `/test/`, or `/file/bot<token>/<path>`.
fn parse_path(path: &str) -> Path {
    if let Some(rest) = path.strip_prefix("/file/bot") {
        let Some((token, path)) = rest.split_once('/') else { return Path::Unknown };
        return Path::File {
            token: percent_decoded(token).into_owned(),
            path: percent_decoded(path).into_owned(),
        };
    }
    let Some(rest) = path.strip_prefix("/bot") else { return Path::Unknown };
    let Some((token, method)) = rest.split_once('/') else { return Path::Unknown };
    let method = method.strip_prefix("test/").unwrap_or(method).trim_end_matches('/');
    Path::Method { token: percent_decoded(token).into_owned(), method: percent_decoded(method).into_owned() }
}

fn answered(done: Done) -> Reply {
    let mut body = json!({ "ok": true });
    body["result"] = done.result;
    if let Some(description) = done.description {
        body["description"] = description.into();
    }
    Reply { response: Response::json(200, &Ordered(&body)), effect: done.effect }
}

fn refused(error: &ApiError) -> Reply {
    Reply::refused(error.response())
}

/// What the proxies in front of the servers show.
fn gateway(code: u16, retry_after: &Value) -> Response {
    let title = match code {
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        _ => "504 Gateway Time-out",
    };
    let page = html_page(code, title);
    match retry_after {
        Value::Null => page,
        Value::String(text) => page.with_header("retry-after", text.clone()),
        other => page.with_header("retry-after", other.to_string()),
    }
}
