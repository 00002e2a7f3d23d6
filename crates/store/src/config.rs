//! Config is rows: workspaces, endpoints, accounts, channels and limits, as callers give and get them.

use domain::chat::{ChatKind, Overflow};
use domain::delivery::AmbiguityPolicy;
use domain::ids::{AccountId, ChannelId, EndpointId, WorkspaceId};
use domain::time::{Span, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Result, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workspace {
    pub workspace_id: WorkspaceId,
    pub name: String,
    /// Nothing of this workspace is sent while it is held.
    pub held: bool,
}

/// How often this database has been started, and which one it is. A restored backup has gone back; a note outside the
/// database tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    pub database: String,
    pub count: i64,
}

impl Epoch {
    pub(crate) fn first() -> Epoch {
        Epoch { database: uuid::Uuid::new_v4().simple().to_string(), count: 0 }
    }

    pub(crate) fn next(self, at_least: i64) -> Epoch {
        Epoch { count: self.count.max(at_least) + 1, ..self }
    }

    pub fn parse(text: &str) -> Option<Epoch> {
        let (database, count) = text.split_once(':')?;
        Some(Epoch { database: database.to_owned(), count: count.trim().parse().ok()? })
    }
}

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.database, self.count)
    }
}

/// Who asked for a change, and why. Every event that the change leaves says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The system user, or the door that was used; what the system knows, not what somebody claims.
    pub who: String,
    pub reason: Option<String>,
}

impl Actor {
    /// What an event says, with who asked for it.
    pub(crate) fn sign(actor: Option<&Actor>, detail: Value) -> Value {
        let Some(Actor { who, reason }) = actor else {
            return detail;
        };
        let mut fields = match detail {
            Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        };
        fields.insert("by".into(), who.as_str().into());
        fields.extend(reason.as_ref().map(|reason| ("reason".to_owned(), reason.as_str().into())));
        Value::Object(fields)
    }
}

#[derive(Debug)]
pub struct NewEndpoint {
    pub name: String,
    /// `push`, or the platform whose webhook it is.
    pub kind: String,
    pub secret: SecretString,
    pub settings: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Endpoint {
    pub endpoint_id: EndpointId,
    pub workspace_id: WorkspaceId,
    pub name: String,
    pub kind: String,
    pub enabled: bool,
    pub settings: Value,
}

#[derive(Debug)]
pub struct NewAccount {
    pub platform: String,
    pub name: String,
    pub token: SecretString,
    pub settings: AccountSettings,
}

/// Everything of an account that an operator may set. Written whole: a change replaces all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountSettings {
    pub kind: String,
    pub tier: String,
    /// Requests a second; `None`: only what the platform itself allows.
    pub rate: Option<f64>,
    pub burst: i32,
    pub max_parallel: i32,
    pub retry_parallel: i32,
    pub api_base: Option<PrivateUrl>,
    pub proxy: Option<PrivateUrl>,
    pub extra_roots: Option<String>,
    pub settings: Value,
}

/// An address that may carry a user, a password or a key. What it carries is sealed like a token, and never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct PrivateUrl(String);

impl PrivateUrl {
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// As it may be seen: in a column, in a plan, in a list.
    pub fn masked(&self) -> String {
        domain::shown::address(&self.0)
    }

    fn is_secret(&self) -> bool {
        self.masked() != self.0
    }
}

impl From<String> for PrivateUrl {
    fn from(url: String) -> PrivateUrl {
        PrivateUrl(url)
    }
}

impl From<&str> for PrivateUrl {
    fn from(url: &str) -> PrivateUrl {
        PrivateUrl(url.to_owned())
    }
}

impl std::fmt::Debug for PrivateUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.masked())
    }
}

impl Serialize for PrivateUrl {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(&self.masked())
    }
}

/// The addresses of an account that must not stand in clear, as they are sealed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Addresses {
    api_base: Option<String>,
    proxy: Option<String>,
}

impl AccountSettings {
    /// What has to be sealed; `None`: nothing.
    pub(crate) fn private_addresses(&self) -> Option<Addresses> {
        let private = |url: &Option<PrivateUrl>| {
            url.as_ref().filter(|url| url.is_secret()).map(|url| url.expose().to_owned())
        };
        let found = Addresses { api_base: private(&self.api_base), proxy: private(&self.proxy) };
        (found.api_base.is_some() || found.proxy.is_some()).then_some(found)
    }

    /// Puts what was sealed back in the place of what may be seen.
    pub(crate) fn fill_in(&mut self, addresses: Addresses) {
        let Addresses { api_base, proxy } = addresses;
        self.api_base = api_base.map(PrivateUrl).or(self.api_base.take());
        self.proxy = proxy.map(PrivateUrl).or(self.proxy.take());
    }

    /// With its addresses whole: for the private way to a node, and for nothing that anybody reads.
    pub fn serialize_whole<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(self).map_err(serde::ser::Error::custom)?;
        value["api_base"] = self.api_base.as_ref().map(PrivateUrl::expose).into();
        value["proxy"] = self.proxy.as_ref().map(PrivateUrl::expose).into();
        value.serialize(to)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |problem: &str| Err(StoreError::invalid("account", problem));
        match self {
            s if s.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) => {
                bad("rate must be above 0 a second")
            }
            s if s.burst < 1 => bad("burst must be at least 1"),
            s if s.max_parallel < 1 || s.retry_parallel < 1 => {
                bad("max_parallel and retry_parallel start at 1")
            }
            _ => Ok(()),
        }
    }
}

impl Default for AccountSettings {
    fn default() -> AccountSettings {
        AccountSettings {
            kind: "bot".into(),
            tier: "standard".into(),
            rate: None,
            burst: 1,
            max_parallel: 8,
            retry_parallel: 2,
            api_base: None,
            proxy: None,
            extra_roots: None,
            settings: Value::Object(serde_json::Map::new()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Account {
    pub account_id: AccountId,
    pub workspace_id: WorkspaceId,
    pub platform: String,
    pub name: String,
    /// A keyed hash of the token, never the token; equal tokens share one budget.
    pub fingerprint: String,
    pub settings: AccountSettings,
    pub paused: bool,
    pub paused_why: Option<String>,
    pub paused_at: Option<Timestamp>,
    pub cooldown_until: Timestamp,
}

#[derive(Debug, Clone)]
pub struct NewChannel {
    pub account_id: AccountId,
    pub name: String,
    pub target: String,
    pub settings: ChannelSettings,
}

/// Everything of a channel that an operator may set. Written whole: a change replaces all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelSettings {
    pub chat_kind: ChatKind,
    pub rate: Option<f64>,
    /// 1 keeps the order.
    pub max_parallel: i32,
    pub ambiguity: AmbiguityPolicy,
    pub dedup: DedupMode,
    pub dedup_ttl: Span,
    pub max_age: Option<Span>,
    pub template: Option<String>,
    pub parse_mode: Option<String>,
    pub body_max: i32,
    pub overflow: Overflow,
    pub max_media: i32,
    pub route: Option<String>,
    pub quiet_hours: Option<String>,
    pub time_zone: Option<String>,
    pub settings: Value,
}

impl ChannelSettings {
    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |problem: &str| Err(StoreError::invalid("channel", problem));
        match self {
            s if s.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) => {
                bad("rate must be above 0 a second")
            }
            s if s.max_parallel < 1 => bad("max_parallel starts at 1, which keeps the order"),
            s if s.dedup_ttl.0 < 0 => bad("dedup_ttl must not be negative"),
            s if s.max_age.is_some_and(|age| age.0 <= 0) => bad("max_age must be positive"),
            s if s.body_max < 1 => bad("body_max must be positive"),
            s if s.max_media < 0 => bad("max_media must not be negative"),
            _ => Ok(()),
        }
    }
}

impl Default for ChannelSettings {
    fn default() -> ChannelSettings {
        ChannelSettings {
            chat_kind: ChatKind::Channel,
            rate: None,
            max_parallel: 1,
            ambiguity: AmbiguityPolicy::ResendOnce,
            dedup: DedupMode::Content,
            dedup_ttl: domain::limits::DEDUP_TTL,
            max_age: None,
            template: None,
            parse_mode: None,
            body_max: 3_500,
            overflow: Overflow::Cut,
            max_media: 10,
            route: None,
            quiet_hours: None,
            time_zone: None,
            settings: Value::Object(serde_json::Map::new()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Channel {
    pub channel_id: ChannelId,
    pub workspace_id: WorkspaceId,
    pub account_id: AccountId,
    pub platform: String,
    pub name: String,
    /// Shown without the keys that an address of a webhook may carry.
    #[serde(serialize_with = "without_keys")]
    pub target: String,
    /// What was said before stands in another chat.
    pub target_since: Timestamp,
    pub settings: ChannelSettings,
    pub enabled: bool,
    pub disabled_by: Option<DisabledBy>,
    pub paused_until: Timestamp,
    pub paused_why: Option<String>,
    pub error_streak: i32,
    /// Of its account: what the channel is for.
    pub tier: String,
}

fn without_keys<S: serde::Serializer>(target: &str, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&domain::shown::addresses(target))
}

impl Channel {
    /// Where it leads, as people may see it: the address of a webhook may carry a key.
    pub fn shown_target(&self) -> String {
        domain::shown::addresses(&self.target).into_owned()
    }

    /// Trouble is told there.
    pub fn is_of_alerts(&self) -> bool {
        self.tier == crate::TIER_ALERTS
    }

    /// What became of deliveries is told there.
    pub fn is_of_callbacks(&self) -> bool {
        self.tier == crate::TIER_CALLBACKS
    }
}

/// A closed list of words that stand in a column: the enum, its text, and the way back.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($arm:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($arm),+ }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $($name::$arm => $text),+ }
            }

            pub fn parse(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$arm),)+ _ => None }
            }
        }
    };
}

words! {
    /// What counts as the same thing in a channel.
    DedupMode { Content = "content", Fingerprint = "fingerprint", Case = "case", Off = "off" }
}
words! {
    /// An operator's no keeps new posts out; an automatic one keeps them waiting.
    DisabledBy { Operator = "operator", Auto = "auto" }
}

/// An address as its column shows it.
pub(crate) fn masked(url: &Option<PrivateUrl>) -> Option<String> {
    url.as_ref().map(PrivateUrl::masked)
}

pub(crate) fn require_token(token: &SecretString) -> Result<()> {
    if token.expose_secret().trim().is_empty() {
        return Err(StoreError::invalid("account", "the token is empty; give the one the platform issued"));
    }
    Ok(())
}

/// What a tier allows everybody who uses one token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlatformLimit {
    /// Requests a second; `None`: no limit of its own.
    pub rate: Option<f64>,
    pub burst: i32,
}

impl PlatformLimit {
    pub(crate) fn validate(&self) -> Result<()> {
        let rate_fits = self.rate.is_none_or(|rate| rate.is_finite() && rate > 0.0);
        match rate_fits && self.burst >= 1 {
            true => Ok(()),
            false => Err(StoreError::invalid("limit", "a rate is above 0, a burst at least 1")),
        }
    }
}

/// How long the secret before opens a door too, unless somebody says otherwise.
pub const SECRET_OVERLAP: Span = Span::from_secs(24 * 3_600);

/// A door's secret is random and long, so a plain fast hash is enough; equal time by comparing hashes. Any client of the
/// database can compute it: `encode(sha256(convert_to(SECRET, 'UTF8')), 'hex')`.
pub(crate) fn secret_hash(secret: &SecretString) -> String {
    let hash = <sha2::Sha256 as sha2::Digest>::digest(secret.expose_secret().as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn retired() -> StoreError {
    StoreError::invalid(
        "endpoint",
        "this secret was replaced by a newer one and does not come back; put the newer one where the configuration \
         reads it, or draw another",
    )
}
