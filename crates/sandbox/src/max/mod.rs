//! MAX, as its sheet describes it: the API under `/max/…` and at the root, its upload host under `/max/upload/…`.
//!
//! Reading order: `routes` is the surface, `Visitor` what every endpoint gets, then `send`, `history`, `chats_api`,
//! `updates` and `webhooks`. `compose` and `markup` read what bots write; `inject` plays the users.
//!
//! Where nobody could verify how MAX behaves, `options` has a switch per account. What it has no switch for:
//!
//! | open question | what the sandbox does |
//! |---|---|
//! | how the 30/s and 2/s limits differ in the answer | the same `429 too.many.requests` |
//! | 13 attachments, a keyboard alone, an unknown token | `400 proto.payload` with words of our own |
//! | status of `access.denied`, of `chat.denied` for a missing right, of `upload.error` | 403, 403, 400 |
//! | the 4000 of a text | counted as it was sent, before markup is read |
//! | offsets of markup | UTF-16 units |
//! | broken Markdown or HTML | read as far as it goes, never an error |
//! | 405 | a wrong method on `/updates` and `/answers`; elsewhere 404 |
//! | how long a callback id lives, a second answer | forever; it is applied again |
//! | an answer with neither message nor notification | is taken and does nothing |
//! | `attachments: null` in an answer | keeps the old ones, as in `PUT /messages` |
//! | an upload that is not ready in an answer | `success:false`, as in `PUT /messages` |
//! | a message that only forwards | has a body with its id and an empty text: libraries need it |
//! | a reply to a message that is not there | `404 not.found` |
//! | deleting | at any age |
//! | `GET /updates` with an active subscription | waits and gives nothing |
//! | a picture by an address that cannot be read | `400 proto.payload`; only loopback is ever fetched |
//! | empty uploads, forbidden extensions | `400 upload.error` |

mod bots;
mod callbacks;
mod chats_api;
mod compose;
mod contact;
mod errors;
mod history;
mod inject;
mod keyboard;
mod markup;
mod messages;
mod options;
mod people;
mod places;
mod routes;
mod send;
mod updates;
mod uploads;
mod visitor;
mod webhooks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use self::bots::Bot;
use self::callbacks::Callbacks;
use self::errors::ApiError;
use self::options::Options;
use self::people::People;
use self::places::{Place, Rooms};
use self::routes::{Endpoint, Route};
use self::uploads::{MediaKind, Uploads};
use self::visitor::{Done, Visitor};
use self::webhooks::Counts;
use crate::core::{Core, SharedCore};
use crate::faults::{Fault, Kind};
use crate::media::sha256_hex;
use crate::platform::{Name, Platform, Target};
use crate::registry::{Account, Chat};
use crate::reply::{Effect, Refusal, Reply, Response};
use crate::request::{Body, Head, Request, pairs};

/// The platform.
#[derive(Debug)]
pub struct Max {
    core: SharedCore,
    bots: Mutex<HashMap<i64, Arc<Bot>>>,
    people: People,
    rooms: Rooms,
    uploads: Uploads,
    callbacks: Callbacks,
    /// Registered dialogs by the user at their other side.
    dialogs: Mutex<HashMap<i64, i64>>,
    /// Chats of injected messages whose ids do not tell them.
    foreign: Mutex<HashMap<String, i64>>,
    seq: Mutex<i64>,
    counter: AtomicU64,
    hook_counts: Arc<Counts>,
}

/// A request after parsing.
#[derive(Debug)]
pub struct Call {
    route: Route,
    token: Option<Token>,
    query: Vec<(String, String)>,
    request: Request,
    /// The body as JSON; `None` if it is not.
    body: Option<Value>,
}

#[derive(Clone, Debug)]
enum Token {
    Header(String),
    /// The parameter `access_token`, which MAX no longer takes.
    Query(String),
}

impl Token {
    fn of(head: &Head) -> Option<Token> {
        match head.header("authorization").trim() {
            "" => head.query_value("access_token").filter(|token| !token.is_empty()).map(Token::Query),
            token => Some(Token::Header(token.to_owned())),
        }
    }

    fn text(&self) -> &str {
        match self {
            Token::Header(token) | Token::Query(token) => token,
        }
    }
}

impl Platform for Max {
    type Call = Call;

    const NAME: Name = Name::Max;
    /// The largest upload that is taken, and its envelope.
    const BODY_BYTES_MAX: usize = 260_000_000;
    const ACCOUNT_FIELDS: &'static [&'static str] = options::FIELDS;
    const CHAT_FIELDS: &'static [&'static str] = places::CHAT_FIELDS;

    fn new(core: SharedCore) -> Max {
        Max {
            core,
            bots: Mutex::default(),
            people: People::default(),
            rooms: Rooms::default(),
            uploads: Uploads::default(),
            callbacks: Callbacks::default(),
            dialogs: Mutex::default(),
            foreign: Mutex::default(),
            seq: Mutex::default(),
            counter: AtomicU64::new(0),
            hook_counts: Arc::default(),
        }
    }

    fn target(&self, head: &Head) -> Target {
        let query = pairs(head.query.as_bytes());
        self.target_of(&Route::of(head.method.as_str(), &head.path), Token::of(head).as_ref(), &query)
    }

    fn read(&self, request: Request) -> (Target, Call) {
        let route = Route::of(request.head.method.as_str(), &request.head.path);
        let token = Token::of(&request.head);
        let query = pairs(request.head.query.as_bytes());
        let mut target = self.target_of(&route, token.as_ref(), &query);
        let body = match route.endpoint {
            Endpoint::Upload => None,
            _ => serde_json::from_slice(&request.bytes()).ok(),
        };
        target.text = body.as_ref().and_then(said).map(str::to_owned);
        (target, Call { route, token, query, request, body })
    }

    async fn handle(&self, call: Call) -> Reply {
        if call.route.endpoint == Endpoint::Upload {
            return self.receive(&call);
        }
        match self.perform(&call).await {
            Ok(done) => Reply { response: Response::json(200, &done.body), effect: done.effect },
            Err(error) => Reply::refused(error.response()),
        }
    }

    fn fault_answer(&self, fault: &Fault, target: &Target) -> Option<Response> {
        let error = match fault.kind {
            Kind::Status(429) => ApiError::flood(plain(&fault.retry_after)),
            Kind::Status(401) => invalid_token(),
            Kind::Status(403) => ApiError::chat_denied("chat.denied"),
            Kind::Status(404) => ApiError::not_found("Not found"),
            Kind::Status(500) => ApiError::new(500, "internal.error", "Internal error, id: 5a4d0f"),
            Kind::Status(code) => return Some(gateway(code, &fault.retry_after)),
            Kind::Kicked => ApiError::chat_denied("chat.denied"),
            Kind::Blocked => ApiError::suspended(),
            Kind::ChatNotFound => ApiError::chat_not_found(&target.chat.to_string()),
            Kind::AttachmentNotReady => {
                let error = ApiError::not_ready("file");
                let edits = target.method.starts_with("PUT ") || target.method == "POST /answers";
                if edits { error.on_edit() } else { error }
            }
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
        let account = complete_account(&self.core, account)?;
        self.people.meet(&people::User::of_account(&account));
        Ok(account)
    }

    fn complete_chat(&self, chat: Chat) -> Result<Chat, Refusal> {
        let chat = places::complete(chat)?;
        self.remember_people(&chat)?;
        Ok(chat)
    }

    fn canonical_chat(&self, chat: &Value) -> Value {
        match chat {
            Value::String(text) => {
                let named = self.core.registry.chat_by_username(Name::Max, text);
                let id = text.parse().ok().or_else(|| named.and_then(|chat| chat.id.parse::<i64>().ok()));
                id.map_or_else(|| chat.clone(), Value::from)
            }
            other => other.clone(),
        }
    }

    fn stats(&self) -> Map<String, Value> {
        let bots = self.all_bots();
        let waiting: usize = bots.iter().map(|bot| bot.queue.len()).sum();
        let hooks: usize = bots.iter().map(|bot| bot.subscriptions().len()).sum();
        let count = |counter: &AtomicU64| Value::from(counter.load(Ordering::Relaxed));
        let mut stats = Map::new();
        stats.insert("updates_waiting".into(), waiting.into());
        stats.insert("subscriptions".into(), hooks.into());
        stats.insert("uploads".into(), self.uploads.n_slots().into());
        stats.insert("webhook_calls_taken".into(), count(&self.hook_counts.taken));
        stats.insert("webhook_calls_refused".into(), count(&self.hook_counts.refused));
        stats.insert("webhook_updates_given_up".into(), count(&self.hook_counts.given_up));
        stats
    }

    fn reset(&self) {
        for bot in self.all_bots() {
            bot.reset();
        }
        self.rooms.clear();
        self.uploads.clear();
        self.callbacks.clear();
        self.foreign().clear();
    }
}

impl Max {
    fn target_of(&self, route: &Route, token: Option<&Token>, query: &[(String, String)]) -> Target {
        let account = token.and_then(|token| self.account(token.text()));
        let bot = account.as_ref().and_then(|account| account.id.parse::<i64>().ok());
        let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let number = |name: &str| value(name).and_then(|value| value.parse::<i64>().ok());
        let chat = route
            .number("chatId")
            .or_else(|| number("chat_id"))
            .or_else(|| number("user_id").zip(bot).map(|(user, bot)| self.dialog_of(bot, user)))
            .or_else(|| self.chat_of(value("message_id")?))
            .or_else(|| self.chat_of(route.text("messageId")))
            .or_else(|| self.callbacks.get(value("callback_id")?).map(|pressed| pressed.chat));
        let uploader = || self.uploads.account_of(route.text("key"));
        Target {
            account: token.map(|token| token.text().to_owned()).or_else(uploader),
            account_id: account.map(|account| account.id.clone()),
            method: route.name.clone(),
            chat: chat.map_or(Value::Null, Value::from),
            text: None,
        }
    }

    async fn perform(&self, call: &Call) -> Result<Done, ApiError> {
        match call.route.endpoint {
            Endpoint::Unknown => {
                return Err(ApiError::not_found(format!("Unknown path {}", call.route.name)));
            }
            Endpoint::NotAllowed => {
                return Err(ApiError::new(405, "method.not.allowed", "Method is not allowed"));
            }
            _ => {}
        }
        let account = self.authorised(call.token.as_ref())?;
        let id = account.id.parse().unwrap_or_default();
        let visitor = Visitor {
            max: self,
            account: &account,
            bot: self.bot(id),
            id,
            origin: self.origin_of(&call.request.head),
            query: &call.query,
        };
        visitor.check_overall_speed(call.route.endpoint)?;
        if matches!(call.request.body, Body::TooLarge) {
            return Err(ApiError::body());
        }
        perform(&visitor, call).await
    }

    /// The account behind the token, which has to come in the header, as it is, without `Bearer`.
    fn authorised(&self, token: Option<&Token>) -> Result<Arc<Account>, ApiError> {
        let empty = || ApiError::new(401, "verify.token", "Empty access_token");
        let token = token.ok_or_else(empty)?;
        let account = self.account(token.text()).ok_or_else(invalid_token)?;
        match token {
            Token::Query(_) if !Options::of(&account).query_token() => Err(empty()),
            _ => Ok(account),
        }
    }

    fn account(&self, token: &str) -> Option<Arc<Account>> {
        self.core.registry.account(Name::Max, token, |blank| self.complete_account(blank))
    }

    /// The accounts a control call means; with any token, one that was never seen is made.
    fn named(&self, account: Option<&str>) -> Result<Vec<Arc<Account>>, Refusal> {
        let mut found = self.core.registry.named_accounts(Name::Max, account);
        if found.is_empty()
            && let Some(token) = account
        {
            found.extend(self.account(token));
        }
        if found.is_empty() {
            let which = account.unwrap_or("any");
            return Err(Refusal::bad(format!(
                "no MAX account {which:?} is known; register it with POST /_/accounts"
            )));
        }
        Ok(found)
    }

    fn bot(&self, id: i64) -> Arc<Bot> {
        let now_ms = self.core.clock.now_ms();
        let mut bots = self.bots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bots.entry(id).or_insert_with(|| Arc::new(Bot::new(id, now_ms))))
    }

    fn all_bots(&self) -> Vec<Arc<Bot>> {
        self.bots.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn place(&self, id: i64, bot: i64) -> Option<Place> {
        Place::find(&self.core, &self.rooms, id, bot)
    }

    /// The chat of a message id.
    fn chat_of(&self, mid: &str) -> Option<i64> {
        messages::chat_of(mid).or_else(|| self.foreign().get(mid).copied())
    }

    fn foreign(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The dialog of a bot and a user: registered, or computed as MAX does.
    fn dialog_of(&self, bot: i64, user: i64) -> i64 {
        let dialogs = self.dialogs.lock().unwrap_or_else(PoisonError::into_inner);
        dialogs.get(&user).copied().unwrap_or_else(|| places::dialog_id(bot, user))
    }

    /// Names in a registered chat.
    fn remember_people(&self, chat: &Chat) -> Result<(), Refusal> {
        for member in chat.field("members").as_array().into_iter().flatten() {
            self.people.meet(&people::User::parse(member, 1)?);
        }
        if let Some(user) = chat.fields.get("user") {
            let id: i64 = chat.id.parse().unwrap_or_default();
            let user = people::User::parse(user, id)?;
            self.people.meet(&user);
            self.dialogs.lock().unwrap_or_else(PoisonError::into_inner).insert(user.id, id);
        }
        Ok(())
    }

    /// An id that nobody has had: opaque, and the same for the same seed and order of requests.
    fn new_id(&self, core: &Core, what: &str) -> String {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        sha256_hex(format!("{} {what} {number}", core.seed).as_bytes())[..40].to_owned()
    }

    /// Upload addresses point to where the client found the API.
    fn origin_of(&self, head: &Head) -> String {
        let host = head.header("host");
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
        match !host.is_empty() && host.chars().all(plain) {
            true => format!("http://{host}"),
            false => self.core.origin.clone(),
        }
    }

    fn receive(&self, call: &Call) -> Reply {
        let origin = self.origin_of(&call.request.head);
        match self.uploads.receive(&self.core, &origin, call.route.text("key"), &call.request) {
            Ok(taken) => {
                let media = match &taken {
                    uploads::Taken::Whole(attached) => vec![attached.ledger()],
                    uploads::Taken::Piece(_) => Vec::new(),
                };
                Reply { response: taken.response(), effect: Effect { media, ..Effect::done() } }
            }
            Err(error) => Reply::refused(error.response()),
        }
    }
}

/// Leads a request to its endpoint.
async fn perform(visitor: &Visitor<'_>, call: &Call) -> Result<Done, ApiError> {
    let route = &call.route;
    let chat = route.number("chatId").unwrap_or_default();
    let mid = route.text("messageId");
    // Bodies are read only where the endpoint has one.
    let body = || call.body.as_ref().ok_or_else(ApiError::body);
    match route.endpoint {
        Endpoint::Me => Ok(Done::new(bots::me(visitor))),
        Endpoint::EditMe => visitor.retired().and_then(|()| bots::edit_me(visitor, body()?)).map(Done::new),
        Endpoint::Commands => bots::set_commands(visitor, body()?).map(Done::new),
        Endpoint::Chats => visitor.retired().and_then(|()| chats_api::list(visitor)),
        Endpoint::Chat => chats_api::get(visitor, chat),
        Endpoint::ChatByLink => chats_api::get_by_link(visitor, route.text("link")),
        Endpoint::EditChat => chats_api::edit(visitor, chat, body()?),
        Endpoint::DeleteChat => chats_api::delete(visitor, chat),
        Endpoint::Action => chats_api::action(visitor, chat, body()?),
        Endpoint::Pinned => chats_api::pinned(visitor, chat),
        Endpoint::Pin => chats_api::pin(visitor, chat, body()?),
        Endpoint::Unpin => chats_api::unpin(visitor, chat),
        Endpoint::Membership => chats_api::membership(visitor, chat),
        Endpoint::Leave => chats_api::leave(visitor, chat),
        Endpoint::Members => chats_api::members(visitor, chat),
        Endpoint::AddMembers => {
            visitor.retired().and_then(|()| chats_api::add_members(visitor, chat, body()?))
        }
        Endpoint::RemoveMember => chats_api::remove_member(visitor, chat),
        Endpoint::Admins => chats_api::admins(visitor, chat),
        Endpoint::AddAdmins => chats_api::add_admins(visitor, chat, body()?),
        Endpoint::RemoveAdmin => {
            chats_api::remove_admin(visitor, chat, route.number("userId").unwrap_or_default())
        }
        Endpoint::Send => send::send(visitor, body()?).await,
        Endpoint::Edit => send::edit(visitor, body()?).await,
        Endpoint::Delete => send::delete(visitor),
        Endpoint::List => history::list(visitor),
        Endpoint::Message => history::message(visitor, mid),
        Endpoint::Comments => history::comments(visitor, mid),
        Endpoint::Comment => history::comment(visitor, mid, route.text("commentId")),
        Endpoint::SendComment => history::send_comment(visitor, mid, body()?),
        Endpoint::EditComment => history::edit_comment(visitor, mid, body()?),
        Endpoint::DeleteComment => history::delete_comment(visitor, mid),
        Endpoint::Video => history::video(visitor, route.text("videoToken")),
        Endpoint::Uploads => offer_upload(visitor),
        Endpoint::Answer => send::answer(visitor, body()?).await,
        Endpoint::Subscriptions => Ok(webhooks::list(visitor)),
        Endpoint::Subscribe => webhooks::subscribe(visitor, body()?),
        Endpoint::Unsubscribe => webhooks::unsubscribe(visitor),
        Endpoint::Updates => updates::poll(visitor).await,
        Endpoint::Upload | Endpoint::NotAllowed | Endpoint::Unknown => {
            Err(ApiError::not_found(format!("Unknown path {}", route.name)))
        }
    }
}

/// `POST /uploads`.
fn offer_upload(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let name = visitor.required("type")?;
    let kind = MediaKind::parse(&name)
        .ok_or_else(|| ApiError::payload(format!("type: unknown upload type {name}")))?;
    let not_ready = visitor.options().not_ready_sends();
    let uploads = &visitor.max.uploads;
    let offer = uploads.offer(visitor.core(), &visitor.origin, kind, &visitor.account.token, not_ready);
    Ok(Done::new(offer))
}

// -- small things

fn complete_account(core: &Core, mut account: Account) -> Result<Account, Refusal> {
    if account.token.to_ascii_lowercase().starts_with("bearer ") {
        return Err(Refusal::bad("a MAX token has no \"Bearer\" before it"));
    }
    options::check(&account.fields)?;
    if account.kind.is_empty() {
        account.kind = "bot".into();
    }
    if account.kind != "bot" {
        return Err(Refusal::bad(format!("unknown account kind {:?}", account.kind)).knowing(["bot"]));
    }
    if account.id.is_empty() {
        let number = core.number_of(&format!("max bot {}", account.token));
        account.id = (100_000_000 + number % 900_000_000).to_string();
    }
    if !account.id.parse::<i64>().is_ok_and(|id| id > 0) {
        return Err(Refusal::bad(format!("a MAX bot id is a positive number, not {:?}", account.id)));
    }
    if account.name.is_empty() {
        account.name = "Рупор".into();
    }
    if account.username.is_empty() {
        account.username = format!("id{}_bot", account.id);
    }
    Ok(account)
}

fn invalid_token() -> ApiError {
    ApiError::new(401, "verify.token", "Invalid access_token")
}

/// The text a body carries: of a message, or of the message in an answer, or its notification.
fn said(body: &Value) -> Option<&str> {
    let text = body["text"].as_str().or_else(|| body["message"]["text"].as_str());
    text.or_else(|| body["notification"].as_str()).filter(|text| !text.is_empty())
}

/// A scripted value as a header shows it; nothing if it is absent.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// What a proxy in front of MAX answers.
fn gateway(code: u16, retry_after: &Value) -> Response {
    let title = match code {
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        _ => "504 Gateway Time-out",
    };
    let page = crate::dispatch::html(code, title);
    match plain(retry_after) {
        Some(seconds) => page.with_header("retry-after", seconds),
        None => page,
    }
}

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
