//! VK: walls, messages, uploads, the Bots Long Poll and the Callback API, as the platform sheet describes them.
//!
//! `call` reads a request, `methods` lists what can be called and by which kind of token, and one file per
//! subject does the work. Everything that VK remembers is in `state`, behind one lock that is never held
//! across an await. Events leave through `events` for `longpoll` and `callback`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use crate::core::{Core, SharedCore};
use crate::faults::{Fault, Kind};
use crate::platform::{Name, Platform, Target};
use crate::registry::{Account, Chat};
use crate::reply::{Effect, Refusal, Reply, Response};
use crate::request::{Head, Request};

mod args;
mod attachments;
mod call;
mod callback;
mod comments;
mod control;
mod dialogs;
mod errors;
mod events;
mod execute;
mod groups;
mod history;
mod inject;
mod keyboard;
mod longpoll;
mod messages;
mod methods;
mod packed;
mod people;
mod photos;
mod posts;
mod publish;
mod script;
mod state;
mod tokens;
mod trouble;
mod uploads;
mod wall;

use args::{Args, Version};
use call::Call;
use errors::ApiError;
use state::State;
use tokens::Caller;

/// The platform.
#[derive(Debug)]
pub struct Vk {
    core: SharedCore,
    state: Arc<Mutex<State>>,
}

/// One method call on its way.
#[derive(Debug)]
pub struct Ctx<'a> {
    pub core: &'a SharedCore,
    pub state: &'a mut State,
    /// For what happens later, such as a postponed post.
    pub shared: &'a Arc<Mutex<State>>,
    pub caller: &'a Caller,
    pub args: &'a Args,
    pub version: Version,
    pub now_ms: i64,
}

impl Ctx<'_> {
    pub fn now_s(&self) -> i64 {
        self.now_ms.div_euclid(1000)
    }
}

/// What a method call came to.
#[derive(Clone, Debug)]
pub struct Done {
    pub response: Value,
    pub effect: Effect,
}

impl Done {
    /// An answer without anything new for readers.
    pub fn new(response: impl Into<Value>) -> Done {
        Done { response: response.into(), effect: Effect::done() }
    }

    /// An answer and what readers see because of it.
    pub fn visible(response: impl Into<Value>, visible_id: impl Into<Value>, media: Vec<Value>) -> Done {
        Done { response: response.into(), effect: Effect { media, ..Effect::visible(visible_id) } }
    }
}

pub fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Vk {
    fn account(&self, token: &str) -> Option<Arc<Account>> {
        self.core.registry.account(Name::Vk, token, |blank| self.complete_account(blank))
    }

    /// Runs one method call and words its answer.
    fn method(&self, call: &call::MethodCall) -> Reply {
        match self.run(call) {
            Ok(done) => {
                let body = match call.name.as_str() {
                    // A script brings its own envelope, with the errors of its calls.
                    "execute" => done.response,
                    _ => serde_json::json!({ "response": done.response }),
                };
                Reply { response: Response::json(200, &body), effect: done.effect }
            }
            Err(error) => Reply::refused(error.response(&call.name, &call.args.texts)),
        }
    }

    fn run(&self, call: &call::MethodCall) -> Result<Done, ApiError> {
        if !matches!(call.verb.as_str(), "GET" | "POST") {
            return Err(ApiError::plain(9999));
        }
        let entry = methods::find(&call.name).ok_or_else(|| ApiError::plain(3))?;
        let v = call.args.text("v").ok_or_else(|| ApiError::new(8, "v (version) is required"))?;
        let version = Version::parse(v).ok_or_else(|| ApiError::new(8, "v (version) is incorrect"))?;
        let token = call.token.as_deref().ok_or_else(|| ApiError::new(5, "no access_token passed."))?;
        let account = self.account(token).ok_or_else(|| ApiError::new(5, "invalid access_token (4)."))?;
        let mut caller = Caller::new(account);
        methods::admit(entry, &caller)?;
        let now_ms = self.core.clock.now_ms();
        methods::throttle(&self.core, entry, &caller, now_ms)?;
        let mut state = locked(&self.state);
        bind(&mut caller, &mut state, &call.args);
        publish::publish_due(&self.core, &mut state, now_ms.div_euclid(1000));
        (entry.run)(&mut Ctx {
            core: &self.core,
            state: &mut state,
            shared: &self.state,
            caller: &caller,
            args: &call.args,
            version,
            now_ms,
        })
    }
}

/// Lets a token that may be anybody's speak for the community it named.
fn bind(caller: &mut Caller, state: &mut State, args: &Args) {
    let token = &caller.account.token;
    if caller.kind == tokens::Kind::Community && caller.is_unbound() && !state.bound.contains_key(token) {
        let owner = args.text("owner_id").and_then(args::number).filter(|owner| *owner < 0);
        let named = args.text("group_id").and_then(args::number).or(owner).map(i64::abs);
        if let Some(group) = named.filter(|group| *group != 0) {
            state.bound.insert(token.clone(), group);
        }
    }
    let may_be_anybody = caller.kind == tokens::Kind::Full || caller.is_unbound();
    if let Some(group) = state.bound.get(token).filter(|_| may_be_anybody) {
        caller.group = *group;
    }
}

impl Platform for Vk {
    type Call = Call;

    const NAME: Name = Name::Vk;
    /// Documents may have 200 MB.
    const BODY_BYTES_MAX: usize = 201 << 20;
    const ACCOUNT_FIELDS: &'static [&'static str] = tokens::ACCOUNT_FIELDS;
    const CHAT_FIELDS: &'static [&'static str] = control::CHAT_FIELDS;

    fn new(core: Arc<Core>) -> Vk {
        let state = State::new(core.chats.messages_max());
        Vk { core, state: Arc::new(Mutex::new(state)) }
    }

    fn target(&self, head: &Head) -> Target {
        call::target(self, head)
    }

    fn read(&self, request: Request) -> (Target, Call) {
        call::read(self, request)
    }

    async fn handle(&self, call: Call) -> Reply {
        match call {
            Call::Method(call) => self.method(&call),
            Call::Upload(upload) => uploads::receive(&self.core, &self.state, &upload),
            Call::Poll(poll) => longpoll::check(&self.core, &self.state, &poll).await,
            Call::Photo { head, reference } => {
                let response = photos::serve(&self.core, &head, &reference).await;
                Reply { effect: Effect { accepted: response.status == 200, ..Effect::default() }, response }
            }
            Call::Doc { sha256 } => uploads::download(&self.core, &sha256),
            Call::Captcha { sid } => {
                Reply::done(Response::file("image/jpeg", self.core.pictures.jpeg(&format!("captcha{sid}"))))
            }
            Call::TooLarge => Reply::refused(Response::text(413, "Request Entity Too Large")),
            Call::Unknown => Reply::refused(Response::text(404, "Not Found")),
        }
    }

    fn fault_answer(&self, fault: &Fault, target: &Target) -> Option<Response> {
        trouble::answer(&self.core, fault, target)
    }

    fn knows_update_fault(&self, _kind: Kind) -> bool {
        true
    }

    fn inject(&self, update: Map<String, Value>, account: Option<&str>) -> Result<Value, Refusal> {
        inject::inject(self, update, account)
    }

    fn complete_account(&self, account: Account) -> Result<Account, Refusal> {
        let account = tokens::complete(&self.core, account)?;
        people::introduce(&self.core, &self.state, account)
    }

    fn complete_chat(&self, chat: Chat) -> Result<Chat, Refusal> {
        control::complete_chat(self, chat)
    }

    fn canonical_chat(&self, chat: &Value) -> Value {
        control::canonical_chat(self, chat)
    }

    fn walls(&self, method: &str, owner: &str, post: Option<&str>, body: Value) -> Result<Value, Refusal> {
        control::walls(self, method, owner, post, body)
    }

    fn stats(&self) -> Map<String, Value> {
        let state = locked(&self.state);
        let mut stats = Map::new();
        stats.insert("walls".into(), state.walls.len().into());
        stats.insert("photos".into(), state.files.photos.len().into());
        stats.insert("communities".into(), state.groups.len().into());
        stats
    }

    fn reset(&self) {
        locked(&self.state).reset();
    }
}
