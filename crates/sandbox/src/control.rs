//! The control calls under `/_/` and the page at `/`: what a test or a person does to the sandbox.
//! Bodies are JSON; unknown fields are refused with a list of the known ones. Nothing here is in the ledger.

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::http::{Method, request::Parts};
use futures_util::stream;
use serde_json::{Map, Value, json};

use crate::dispatch::{App, HttpResponse, http_response};
use crate::faults::{FIELDS, Fault, KINDS, Kind};
use crate::guard::masked;
use crate::ledger::{Row, RowId};
use crate::page;
use crate::pictures;
use crate::platform::{Name, Platform, Target};
use crate::registry::{Account, Chat};
use crate::reply::{Effect, Refusal, Response};
use crate::request::{pairs, percent_decoded};

/// Bodies of control calls beyond this are refused.
const BODY_BYTES_MAX: usize = 32 << 20;

/// Every control path, for people who guess.
const PATHS: &[&str] = &[
    "GET /_/ledger",
    "GET /_/chats",
    "POST /_/chats",
    "GET /_/accounts",
    "POST /_/accounts",
    "POST /_/walls/{owner_id}",
    "PATCH /_/walls/{owner_id}/{post_id}",
    "DELETE /_/walls/{owner_id}/{post_id}",
    "POST /_/updates/{platform}",
    "GET /_/faults",
    "POST /_/faults",
    "DELETE /_/faults",
    "DELETE /_/faults/{id}",
    "POST /_/reset",
    "GET /_/stats",
    "GET /_/media/{sha256}",
    "GET /_/pictures/{name}.jpg",
    "GET /_/events",
];

/// Answers a control call or shows the page.
pub(crate) async fn serve(app: &App, parts: &Parts, body: HttpBody) -> HttpResponse {
    let path = parts.uri.path().trim_end_matches('/');
    if path == "/_/events" && parts.method == Method::GET {
        return events(app);
    }
    let Ok(bytes) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        return http_response(
            Refusal::bad(format!("the body is larger than {BODY_BYTES_MAX} bytes")).response(),
        );
    };
    let query = pairs(parts.uri.query().unwrap_or_default().as_bytes());
    let call = Call { app, method: parts.method.as_str(), query, bytes: &bytes };
    http_response(call.answer(path).unwrap_or_else(|refusal| refusal.response()))
}

struct Call<'a> {
    app: &'a App,
    method: &'a str,
    query: Vec<(String, String)>,
    bytes: &'a [u8],
}

impl Call<'_> {
    fn answer(&self, path: &str) -> Result<Response, Refusal> {
        let core = &self.app.core;
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (self.method, segments.as_slice()) {
            ("GET", [""]) => Ok(page::index()),
            ("GET", ["favicon.ico"]) => Ok(page::icon()),
            ("GET", ["_", "ledger"]) => self.ledger(),
            ("GET", ["_", "chats"]) => self.chats(),
            ("POST", ["_", "chats"]) => self.add_chat(),
            ("GET", ["_", "accounts"]) => self.accounts(),
            ("POST", ["_", "accounts"]) => self.add_account(),
            ("POST", ["_", "walls", owner]) => self.wall(owner, None),
            ("PATCH" | "DELETE", ["_", "walls", owner, post]) => self.wall(owner, Some(post)),
            ("POST", ["_", "updates", platform]) => self.update(platform),
            ("GET", ["_", "faults"]) => Ok(self.list_faults()),
            ("POST", ["_", "faults"]) => self.arm(),
            ("DELETE", ["_", "faults"]) => {
                core.faults.clear();
                Ok(Response::json(200, &json!({ "ok": true })))
            }
            ("DELETE", ["_", "faults", id]) => self.disarm(id),
            ("POST", ["_", "reset"]) => Ok(self.reset()),
            ("GET", ["_", "stats"]) => Ok(self.stats()),
            ("GET", ["_", "media", sha256]) => self.media(sha256),
            ("GET", ["_", "pictures", file]) => self.picture(file),
            (_, ["_", "followed", platform]) => self.followed(platform),
            _ => Err(Refusal::not_found(format!("no control call {} {path}", self.method)).knowing(PATHS)),
        }
    }

    fn ledger(&self) -> Result<Response, Refusal> {
        self.known_query(&["platform", "account", "last"])?;
        let last = self.query_number("last")?.unwrap_or(usize::MAX);
        let only = self.query_platform()?;
        let account = self.query_text("account").map(masked);
        let is_meant = |row: &Row| account.is_none() || row.account.as_deref().map(masked) == account;
        let mut books = Map::new();
        for name in Name::ALL.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
            let mut rows = self.app.core.ledger.rows(name);
            rows.retain(is_meant);
            let rows = &rows[rows.len().saturating_sub(last)..];
            books.insert(name.as_str().to_owned(), json!(rows));
        }
        Ok(Response::json(200, &books))
    }

    fn chats(&self) -> Result<Response, Refusal> {
        self.known_query(&["platform", "chat", "chats", "last"])?;
        let last = self.query_number("last")?.unwrap_or(usize::MAX);
        let most = self.query_number("chats")?.unwrap_or(usize::MAX);
        let only = self.query_platform()?;
        let chat = self.query_text("chat");
        let mut listing = Map::new();
        for name in Name::ALL.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
            listing.insert(
                name.as_str().to_owned(),
                json!(self.app.core.chats.visible_latest(name, chat, most, last)),
            );
        }
        Ok(Response::json(200, &listing))
    }

    fn add_account(&self) -> Result<Response, Refusal> {
        Ok(Response::json(200, &*self.app.add_account(&self.object()?)?))
    }

    fn accounts(&self) -> Result<Response, Refusal> {
        self.known_query(&["platform"])?;
        let only = self.query_platform()?;
        let mut listing = Map::new();
        for name in Name::ALL.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
            let accounts: Vec<Value> =
                self.app.core.registry.accounts(name).iter().map(|account| json!(**account)).collect();
            listing.insert(name.as_str().to_owned(), Value::from(accounts));
        }
        Ok(Response::json(200, &listing))
    }

    fn add_chat(&self) -> Result<Response, Refusal> {
        Ok(Response::json(200, &*self.app.add_chat(&self.object()?)?))
    }

    fn wall(&self, owner: &str, post: Option<&str>) -> Result<Response, Refusal> {
        let body = if self.method == "DELETE" { Value::Null } else { self.json()? };
        Ok(Response::json(200, &self.app.vk.walls(self.method, owner, post, body)?))
    }

    fn update(&self, platform: &str) -> Result<Response, Refusal> {
        let result = self.app.inject(Name::parse(platform)?, self.object()?)?;
        Ok(Response::json(200, &result))
    }

    fn list_faults(&self) -> Response {
        let kinds: Map<String, Value> =
            KINDS.iter().map(|(name, _, meaning)| ((*name).to_owned(), Value::from(*meaning))).collect();
        Response::json(
            200,
            &json!({ "armed": self.app.core.faults.list(), "kinds": kinds, "fields": FIELDS }),
        )
    }

    fn arm(&self) -> Result<Response, Refusal> {
        let fault = Fault::parse(&self.object()?)?;
        Ok(Response::json(200, &self.app.arm(fault)?))
    }

    fn disarm(&self, id: &str) -> Result<Response, Refusal> {
        let number = id.parse().map_err(|_| Refusal::bad(format!("a fault id is a number, not {id:?}")))?;
        if !self.app.core.faults.remove(number) {
            return Err(Refusal::not_found(format!("no fault {id} is armed")));
        }
        Ok(Response::json(200, &json!({ "ok": true })))
    }

    fn reset(&self) -> Response {
        self.app.reset();
        Response::json(200, &json!({ "ok": true }))
    }

    fn stats(&self) -> Response {
        let core = &self.app.core;
        let (n_media, media_bytes) = core.media.held();
        let mut stats = Map::new();
        for name in Name::ALL {
            let mut of_platform = match name {
                Name::Telegram => self.app.telegram.stats(),
                Name::Vk => self.app.vk.stats(),
                Name::Max => self.app.max.stats(),
            };
            of_platform.insert("requests".into(), core.ledger.received(name).into());
            of_platform.insert("ledger_rows".into(), core.ledger.kept(name).into());
            of_platform.insert("chats".into(), core.chats.n_chats(name).into());
            of_platform.insert("messages".into(), core.chats.n_messages(name).into());
            of_platform.insert("accounts".into(), core.registry.accounts(name).len().into());
            stats.insert(name.as_str().to_owned(), of_platform.into());
        }
        stats.insert("media".into(), json!({ "files": n_media, "bytes": media_bytes }));
        stats.insert("faults_armed".into(), core.faults.list().len().into());
        Response::json(200, &stats)
    }

    fn media(&self, sha256: &str) -> Result<Response, Refusal> {
        let stored = self.app.core.media.get(sha256);
        let stored = stored
            .ok_or_else(|| Refusal::not_found("no such media, or its bytes were dropped for newer ones"))?;
        Ok(Response::file(stored.mime, stored.bytes).with_header("cache-control", "max-age=86400"))
    }

    fn picture(&self, file: &str) -> Result<Response, Refusal> {
        let file = percent_decoded(file);
        let name = file.strip_suffix(".jpg").filter(|name| name.len() <= pictures::NAME_BYTES_MAX);
        let name = name.ok_or_else(|| {
            Refusal::not_found("pictures are named {name}.jpg, the altered copy {name}~.jpg")
        })?;
        Ok(Response::file("image/jpeg", self.app.core.pictures.jpeg(name)))
    }

    /// Somebody followed a redirect that the `redirect` fault gave out: the ledger must show it.
    fn followed(&self, platform: &str) -> Result<Response, Refusal> {
        let name = Name::parse(platform)?;
        let target = Target { method: "redirect followed".into(), ..Target::default() };
        let row: RowId = self.app.core.ledger.open(name, &target, self.app.core.clock.now_ms());
        self.app.core.ledger.close(row, target, Effect::done(), Some(Kind::Redirect.name()));
        Ok(Response::json(200, &json!({ "ok": true, "followed": true })))
    }

    // -- reading the call

    fn json(&self) -> Result<Value, Refusal> {
        serde_json::from_slice(self.bytes)
            .map_err(|error| Refusal::bad(format!("the body is not JSON: {error}")))
    }

    fn object(&self) -> Result<Map<String, Value>, Refusal> {
        match self.json()? {
            Value::Object(map) => Ok(map),
            _ => Err(Refusal::bad("the body must be a JSON object")),
        }
    }

    fn known_query(&self, known: &[&str]) -> Result<(), Refusal> {
        match self.query.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(Refusal::bad(format!("unknown query parameter {key:?}")).knowing(known)),
        }
    }

    fn query_text(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn query_number(&self, name: &str) -> Result<Option<usize>, Refusal> {
        let parsed = self.query_text(name).map(str::parse).transpose();
        parsed.map_err(|_| Refusal::bad(format!("query parameter {name:?} must be a whole number")))
    }

    fn query_platform(&self) -> Result<Option<Name>, Refusal> {
        self.query_text("platform").map(Name::parse).transpose()
    }
}

impl App {
    /// Registers an account, completed by its platform.
    pub(crate) fn add_account(&self, body: &Map<String, Value>) -> Result<Arc<Account>, Refusal> {
        let account = match platform_of(body)? {
            Name::Telegram => completed_account(&self.telegram, body),
            Name::Vk => completed_account(&self.vk, body),
            Name::Max => completed_account(&self.max, body),
        }?;
        self.core.registry.add_account(account)
    }

    /// Registers a chat, completed by its platform, and shows it even while it is empty.
    pub(crate) fn add_chat(&self, body: &Map<String, Value>) -> Result<Arc<Chat>, Refusal> {
        let chat = match platform_of(body)? {
            Name::Telegram => completed_chat(&self.telegram, body),
            Name::Vk => completed_chat(&self.vk, body),
            Name::Max => completed_chat(&self.max, body),
        }?;
        let chat = self.core.registry.add_chat(chat)?;
        let username = Some(chat.username.as_str()).filter(|name| !name.is_empty());
        let face = crate::chats::Face { kind: &chat.kind, title: &chat.title, username };
        self.core.chats.ensure(chat.platform, &chat.id, &face, true);
        Ok(chat)
    }

    /// Arms a fault, if its platform knows what it means.
    pub(crate) fn arm(&self, fault: Fault) -> Result<Fault, Refusal> {
        match fault.platform {
            Name::Telegram => armed(&self.core, &self.telegram, fault),
            Name::Vk => armed(&self.core, &self.vk, fault),
            Name::Max => armed(&self.core, &self.max, fault),
        }
    }

    /// Injects what a user did; `account` in the body names the bot.
    pub(crate) fn inject(&self, platform: Name, mut update: Map<String, Value>) -> Result<Value, Refusal> {
        let account = crate::faults::optional_text(&update, "account")?;
        update.remove("account");
        match platform {
            Name::Telegram => self.telegram.inject(update, account.as_deref()),
            Name::Vk => self.vk.inject(update, account.as_deref()),
            Name::Max => self.max.inject(update, account.as_deref()),
        }
    }

    /// Wipes ledger, chats, media, faults and limits; registrations stay.
    pub(crate) fn reset(&self) {
        self.core.faults.clear();
        self.core.limits.clear();
        self.telegram.reset();
        self.vk.reset();
        self.max.reset();
        self.core.chats.clear();
        self.core.media.clear();
        self.core.ledger.clear();
    }
}

fn armed<P: Platform>(core: &crate::core::Core, platform: &P, mut fault: Fault) -> Result<Fault, Refusal> {
    let kind = fault.kind;
    if kind.is_answer() && platform.fault_answer(&fault, &Target::default()).is_none() {
        return Err(unknown_here(platform, kind));
    }
    if kind.is_update() && !platform.knows_update_fault(kind) {
        return Err(unknown_here(platform, kind));
    }
    if !fault.chat.is_null() {
        fault.chat = platform.canonical_chat(&fault.chat);
    }
    core.faults.arm(fault)
}

fn unknown_here<P: Platform>(platform: &P, kind: Kind) -> Refusal {
    let known = KINDS.iter().filter(|(_, kind, _)| {
        let probe = Fault::probe(P::NAME, *kind);
        (!kind.is_answer() || platform.fault_answer(&probe, &Target::default()).is_some())
            && (!kind.is_update() || platform.knows_update_fault(*kind))
    });
    let message = format!("fault kind {:?} means nothing on {}", kind.name(), P::NAME.as_str());
    Refusal::bad(message).knowing(known.map(|(name, _, _)| *name))
}

fn platform_of(body: &Map<String, Value>) -> Result<Name, Refusal> {
    Name::parse(&crate::faults::required_text(body, "platform")?)
}

fn completed_account<P: Platform>(platform: &P, body: &Map<String, Value>) -> Result<Account, Refusal> {
    platform.complete_account(Account::parse(body, P::ACCOUNT_FIELDS)?)
}

fn completed_chat<P: Platform>(platform: &P, body: &Map<String, Value>) -> Result<Chat, Refusal> {
    platform.complete_chat(Chat::parse(body, P::CHAT_FIELDS)?)
}

/// Server-sent events: one line per changed chat; the page then asks for that chat.
fn events(app: &App) -> HttpResponse {
    let changes = app.core.chats.subscribe();
    let lines = stream::unfold((changes, true), |(mut changes, first)| async move {
        if first {
            return Some((Ok::<_, std::convert::Infallible>("retry: 1000\n\n".to_owned()), (changes, false)));
        }
        use tokio::sync::broadcast::error::RecvError;
        match changes.recv().await {
            Ok(change) => Some((Ok(format!("data: {}\n\n", json!(change))), (changes, false))),
            // The page fell behind: it should load everything anew.
            Err(RecvError::Lagged(_)) => Some((Ok("data: {}\n\n".to_owned()), (changes, false))),
            Err(RecvError::Closed) => None,
        }
    });
    let mut response = HttpResponse::new(HttpBody::from_stream(lines));
    let headers = response.headers_mut();
    headers.insert("content-type", axum::http::HeaderValue::from_static("text/event-stream"));
    headers.insert("cache-control", axum::http::HeaderValue::from_static("no-store"));
    response
}
