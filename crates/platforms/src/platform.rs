//! What every platform can do, in two traits (speaking, hearing), and the values that go in and out.
//!
//! This is the open set of the product: a fourth platform is one folder that implements `Platform` and one line in
//! `registry`. Nothing here knows a wire field. Implementations never sleep and never try again.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use domain::chat::ChatKind;
use domain::message::Message;
use domain::outcome::{Certainty, Failure, Outcome, Sent};
use domain::time::Span;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::{Host, Url};

use crate::egress::Egress;
use crate::facts::Facts;
use crate::incoming::{Batch, HookCall, HookError, HookSettings, Hooked};
use crate::media::{MediaHandle, MediaSource};
use crate::part::{AccountKind, Action, ChannelSettings, Part, RenderError, Rendered};
use crate::secret::{REDACTED, Redactor, Token};
use crate::transport::{Route, Transport};
use crate::verdict::{Verdict, permanent};
use crate::walls::WallReader;

/// A platform: how to say things there.
pub trait Platform: fmt::Debug + Send + Sync {
    /// What is known of it without asking.
    fn facts(&self) -> &'static Facts;

    /// The name in configuration and tables.
    fn name(&self) -> &'static str {
        self.facts().name
    }

    /// It answers a key that it knows with what it showed then, and shows nothing new.
    fn recognises_repeats(&self) -> bool {
        false
    }

    /// Whether a token can be one of this platform at all.
    fn accepts_token(&self, token: &str) -> bool;

    /// What a target tells about its chat.
    fn chat_kind(&self, target: &str) -> ChatKind;

    /// A target as people copy it, such as the address of a page, in the form that is sent.
    fn plain_target(&self, written: &str) -> String {
        written.trim().to_owned()
    }

    /// A typical mistake that a usable target may be, with the fix.
    fn doubt(&self, _target: &str) -> Option<String> {
        None
    }

    /// The same for a place where somebody is told something, and where the target could also name a page for everybody.
    fn talk_kind(&self, target: &str) -> ChatKind {
        self.chat_kind(target)
    }

    /// Where somebody is written to, by their own id on the platform.
    fn address_of_person(&self, user_id: &str) -> String {
        user_id.to_owned()
    }

    /// Where readers find a published message, for platforms whose addresses follow from ids.
    fn post_link(&self, _target: &str, _id: &str) -> Option<String> {
        None
    }

    /// The same for what a delivery remembers: an album is found at its first message.
    fn link(&self, target: &str, ids: &str) -> Option<String> {
        self.post_link(target, ids.split(',').next().unwrap_or(ids).trim())
    }

    /// Message and channel to ordered parts. Pure.
    fn render(
        &self,
        action: &Action<'_>,
        message: &Message,
        settings: &ChannelSettings,
    ) -> Result<Rendered, RenderError>;

    /// How long a handle of media may be used again; `None`: for good.
    fn handle_lasts(&self) -> Option<Span>;

    /// Sends one part once: also edits, deletions and pins are parts.
    fn send<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        sending: Sending<'a>,
    ) -> BoxFuture<'a, Report>;

    /// Finds out whether a part of unknown outcome is visible after all.
    fn reconcile<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        question: Question<'a>,
    ) -> BoxFuture<'a, Reconciled>;

    /// What `rupor check` asks: whose token this is, and what it may do in a channel. Changes nothing.
    fn probe<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        channel: Option<&'a ChannelSettings>,
    ) -> BoxFuture<'a, Probe>;

    /// How it hears people; `None`: it only speaks.
    fn receiver(&self) -> Option<&dyn Receiver> {
        None
    }

    /// How its walls are read; `None`: it has none that anybody may read.
    fn walls(&self) -> Option<&dyn WallReader> {
        None
    }
}

/// An address that a platform calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub url: String,
    /// It belongs to the bot; other programs may have theirs beside it.
    pub own: bool,
}

/// How a platform hears what people do there.
pub trait Receiver: fmt::Debug + Send + Sync {
    /// Asks for what users did since the cursor, waiting up to `wait` for something to happen.
    fn poll<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        cursor: Option<&'a str>,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Batch, Failure>>;

    /// The header of webhook calls that carries the secret; `None`: it is inside the body.
    fn hook_header(&self) -> Option<&'static str>;

    /// Reads the body of a webhook call. Pure; checks the secret first.
    fn hook(&self, settings: &HookSettings, call: &HookCall<'_>) -> Result<Hooked, HookError>;

    /// What has to be remembered before the platform is told where to call.
    fn hook_settings<'a>(
        &'a self,
        _network: &'a Network,
        _account: &'a Account,
    ) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async { Ok(serde_json::json!({})) })
    }

    /// Tells the platform to call this address, showing this secret, whenever something happens.
    fn set_hook<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        url: &'a str,
        secret: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Where the platform calls now.
    fn hooks<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
    ) -> BoxFuture<'a, Result<Vec<Hook>, Failure>>;

    /// Tells the platform not to call this address any more.
    fn remove_hook<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        url: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Tells the presser of a button that the press arrived, with a short text or none.
    fn answer_callback<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        callback: &'a crate::incoming::Callback,
        text: Option<&'a str>,
    ) -> BoxFuture<'a, Outcome>;
}

/// The two ways out: to the platforms, and to foreign addresses.
#[derive(Debug)]
pub struct Network {
    pub transport: Transport,
    pub egress: Egress,
}

impl Default for Network {
    fn default() -> Network {
        Network { transport: Transport::new(), egress: Egress::new(crate::egress::Guard::default()) }
    }
}

impl Network {
    /// Lets media and uploads reach an account's own API base if that is on loopback: the sandbox.
    pub fn admit(&self, account: &Account) {
        self.egress.guard().allow_loopback_origin(&account.api_base);
    }

    /// The same for an address that no account has; one that cannot be read opens nothing.
    pub fn admit_base(&self, base: &str) {
        if let Ok(base) = Url::parse(base) {
            self.egress.guard().allow_loopback_origin(&base);
        }
    }
}

/// What a row says about an account besides its token.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountSettings {
    /// VK: user, community or service.
    pub kind: AccountKind,
    /// Another address of the API: a local server, the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_base: Option<String>,
    /// `http://`, `https://`, `socks5://` or `socks5h://`; may hold a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// PEM files with root certificates to trust beside the system's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_roots: Vec<PathBuf>,
    /// VK: the community of a community key; needed for its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<i64>,
    /// Telegram: pays for each message above 30 a second, up to 1 000.
    pub paid_broadcast: bool,
}

impl fmt::Debug for AccountSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountSettings")
            .field("kind", &self.kind)
            .field("api_base", &self.api_base)
            .field("proxy", &self.proxy.as_ref().map(|_| REDACTED))
            .field("extra_roots", &self.extra_roots)
            .field("group_id", &self.group_id)
            .field("paid_broadcast", &self.paid_broadcast)
            .finish()
    }
}

/// An account ready for use.
#[derive(Debug)]
pub struct Account {
    pub(crate) token: Token,
    pub(crate) kind: AccountKind,
    pub(crate) api_base: Url,
    pub(crate) route: Route,
    pub(crate) group_id: Option<i64>,
    pub(crate) paid_broadcast: bool,
    redactor: Redactor,
}

/// Settings of an account that cannot be used. Never repeats a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    #[error("{0}: the token is empty or has characters that no {0} token has")]
    Token(&'static str),
    #[error("{0}: api_base is not an address of the form https://host/path")]
    ApiBase(&'static str),
    #[error(
        "{0}: api_base with plain http sends the token in the clear; use https, or a loopback or private host"
    )]
    PlainHttp(&'static str),
}

impl Account {
    pub fn new(
        platform: &dyn Platform,
        token: Token,
        settings: AccountSettings,
    ) -> Result<Account, AccountError> {
        let name = platform.name();
        if token.expose().is_empty() || !platform.accepts_token(token.expose()) {
            return Err(AccountError::Token(name));
        }
        let api_base = settings.api_base.as_deref().unwrap_or(platform.facts().api_base);
        let api_base = Url::parse(api_base).map_err(|_| AccountError::ApiBase(name))?;
        check_base(name, &api_base)?;
        let route = Route::new(settings.proxy, settings.extra_roots);
        let mut secrets = route.secrets();
        secrets.push(token.expose().to_owned());
        let redactor = Redactor::new(secrets.iter().map(String::as_str));
        Ok(Account {
            token,
            kind: settings.kind,
            api_base,
            route,
            group_id: settings.group_id,
            paid_broadcast: settings.paid_broadcast,
            redactor,
        })
    }

    /// The base without its last slash, for joining by hand: `Url::join` drops the last segment.
    pub fn base(&self) -> &str {
        self.api_base.as_str().trim_end_matches('/')
    }

    /// Takes this account's secrets out of whatever a platform sent back.
    pub(crate) fn redact(&self, failure: Failure) -> Failure {
        Failure {
            message: self.redactor.text(&failure.message),
            code: self.redactor.text(&failure.code),
            raw: self.redactor.json(failure.raw),
            ..failure
        }
    }
}

fn check_base(name: &'static str, base: &Url) -> Result<(), AccountError> {
    let private = match base.host() {
        None => return Err(AccountError::ApiBase(name)),
        Some(Host::Ipv4(ip)) => !crate::egress::is_public(ip.into()),
        Some(Host::Ipv6(ip)) => !crate::egress::is_public(ip.into()),
        // A name without a dot is a neighbour in a container network.
        Some(Host::Domain(host)) => !host.trim_end_matches('.').contains('.'),
    };
    match base.scheme() {
        "https" => Ok(()),
        "http" if private => Ok(()),
        "http" => Err(AccountError::PlainHttp(name)),
        _ => Err(AccountError::ApiBase(name)),
    }
}

/// How long one request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub request: Duration,
    /// For requests that carry media.
    pub upload: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines { request: Duration::from_secs(10), upload: Duration::from_secs(120) }
    }
}

/// One part to send.
#[derive(Clone, Copy)]
pub struct Sending<'a> {
    pub part: &'a Part,
    /// The same for every attempt of this part, another for every other part and generation.
    pub key: &'a str,
    /// What the earlier parts of this delivery created, by part.
    pub earlier: &'a [Vec<String>],
    pub media: &'a dyn MediaSource,
    /// Pays for every call to the API before it is made.
    pub budget: &'a dyn Budget,
    pub deadlines: Deadlines,
}

/// What a call to a platform's API is for. Uploads to a host that the platform names are no calls to its API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fare {
    /// A step on the way to a post: nobody sees it, and it may stand back for what readers wait for.
    Upload,
    /// The request that the part is about.
    Visible,
}

/// Who keeps the pace of an account. A platform never sleeps: it asks here, and the caller waits for the slot.
pub trait Budget: Send + Sync {
    /// Whether the call may cost money, where the platform sells a faster pace.
    fn may_cost(&self) -> bool {
        false
    }

    /// Returns when the call may leave. A failure ends the sending before it: nothing was sent.
    fn pay(&self, fare: Fare) -> BoxFuture<'_, Result<(), Failure>>;
}

/// A budget without limits: for calls that are paid for already, and for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Budget for Unlimited {
    fn pay(&self, _: Fare) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }
}

impl fmt::Debug for Sending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("part", self.part).field("key", &self.key).finish_non_exhaustive()
    }
}

/// How the sending of one part ended, and what is worth keeping of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub outcome: Outcome,
    /// The platform's ids of everything that became visible; an album has one per item.
    pub ids: Vec<String>,
    /// Handles for media, by index in the part. Also worth keeping when the sending failed later.
    pub handles: Vec<(usize, MediaHandle)>,
    /// What had to be left out, for the audit.
    pub notes: Vec<String>,
    /// The platform refused it because of a handle that it was given: without kept handles it may pass.
    pub stale_handle: bool,
}

impl Report {
    pub(crate) fn failed(account: &Account, failure: Failure) -> Report {
        let outcome = Outcome::Failed(account.redact(failure));
        Report { outcome, ids: Vec::new(), handles: Vec::new(), notes: Vec::new(), stale_handle: false }
    }

    /// Something is visible; the first id stands for all of it.
    pub(crate) fn sent(ids: Vec<String>) -> Report {
        let raw = if ids.len() > 1 { serde_json::json!({ "ids": ids }) } else { Value::Null };
        let outcome = Outcome::Sent(Sent { provider_message_id: ids.first().cloned(), raw });
        Report { outcome, ids, handles: Vec::new(), notes: Vec::new(), stale_handle: false }
    }

    /// From a verdict and the way to read ids out of a result.
    pub(crate) fn of(
        account: &Account,
        verdict: Verdict,
        ids: impl FnOnce(&Value) -> Option<Vec<String>>,
    ) -> Report {
        match verdict {
            Verdict::Failed(failure) => Report::failed(account, failure),
            Verdict::DoneBlind => Report::sent(Vec::new()).note("the answer with the id was lost"),
            Verdict::Done(result) => match ids(&result) {
                Some(ids) => Report::sent(ids),
                None => Report::failed(account, crate::verdict::shapeless(&result)),
            },
        }
    }

    /// For requests that create nothing: the outcome names the message they were about.
    pub(crate) fn about(mut self, id: Option<&String>) -> Report {
        if let Outcome::Sent(sent) = &mut self.outcome {
            sent.provider_message_id = id.cloned();
            self.ids.clear();
        }
        self
    }

    /// Whether kept handles are to blame, when some were used.
    pub(crate) fn blame_handles(mut self, used: bool, blames: impl FnOnce(&Failure) -> bool) -> Report {
        if let Outcome::Failed(failure) = &self.outcome {
            self.stale_handle = used && failure.certainty == Certainty::NotSent && blames(failure);
        }
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Report {
        self.notes.push(note.into());
        self
    }
}

/// A part whose outcome nobody knows, to be looked for.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub part: &'a Part,
    pub key: &'a str,
    /// When the request was made, in milliseconds since the epoch.
    pub sent_at_ms: i64,
    /// Ids that belong to other deliveries: a match among them is not ours.
    pub taken: &'a [String],
    pub deadline: Duration,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    /// It is visible, under these ids.
    Visible(Vec<String>),
    /// It is not visible.
    Absent,
    /// This platform has no way to find out.
    CannotKnow,
    /// It could not be asked now.
    Failed(Failure),
}

/// What a probe found out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// Whose token it is, or why that is not known.
    pub identity: Result<Identity, Failure>,
    /// What it may do in the channel that was asked about.
    pub channel: Option<ChannelProbe>,
    /// How the connection is protected.
    pub connection: &'static str,
    /// The limits this account lives under, in words.
    pub limits: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Identity {
    pub id: String,
    pub name: String,
    /// The public name, without `@`.
    pub username: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChannelProbe {
    pub title: Option<String>,
    /// `None`: the platform does not say before the first post.
    pub may_post: Option<bool>,
    /// Why not everything that people write there is heard, and what helps. `None`: it is, or nobody can know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deaf: Option<String>,
    /// What is missing, or what is known to be limited.
    pub remarks: Vec<String>,
}

impl ChannelProbe {
    pub(crate) fn refused(reason: impl Into<String>) -> ChannelProbe {
        ChannelProbe { title: None, may_post: Some(false), deaf: None, remarks: vec![reason.into()] }
    }
}

/// Words about the protection of a connection to an API base.
pub(crate) fn connection_words(account: &Account) -> &'static str {
    match (account.api_base.scheme(), account.route.has_proxy()) {
        ("https", false) => "https, certificate checked",
        ("https", true) => "https through a proxy, certificate checked",
        (_, false) => "plain http to a private host, no certificate",
        (_, true) => "plain http through a proxy, no certificate",
    }
}

/// A part that this platform was never meant to get: a mistake of the caller, certain and before the network.
pub(crate) fn misfit(platform: &str, what: &str) -> Failure {
    permanent(domain::outcome::Scope::Delivery, "render.misfit", format!("{platform}: {what}"))
}
