//! `rupor.toml` exactly as written: one struct per table, nothing filled in.
//!
//! Small values check themselves while they are read, so that a wrong one is reported at its own line.
//! What needs to know other tables (does this account exist?) is the business of `meaning`.

use std::collections::BTreeMap;

use domain::time::Span;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use engine::span;

use super::quiet;
use engine::ingest::Preset;

/// Names of things keep the place where they were written.
pub(super) type Named<T> = BTreeMap<Spanned<String>, T>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenFile {
    /// The name of the workspace that the tables at the top level belong to.
    pub workspace: Option<Spanned<String>>,
    pub preset: Option<Preset>,
    pub time_zone: Option<TimeZone>,
    pub accounts: Named<WrittenAccount>,
    pub channels: Named<WrittenChannel>,
    pub sources: Named<WrittenSource>,
    pub endpoints: Named<WrittenEndpoint>,
    pub bots: Named<WrittenBot>,
    /// Who hears of trouble, also of the whole node.
    pub alerts: Option<Spanned<WrittenAlerts>>,
    /// Which program hears what became of deliveries.
    pub callbacks: Option<WrittenCallbacks>,
    /// What accounts of any workspace may name.
    pub tiers: Named<WrittenTier>,
    /// Further workspaces, each with the same tables.
    pub workspaces: Named<WrittenWorkspace>,
}

/// Limits that several accounts share by name.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenTier {
    pub rate: Option<Rate>,
    pub burst: Option<Count>,
    pub max_parallel: Option<Count>,
    pub retry_parallel: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenWorkspace {
    pub preset: Option<Preset>,
    pub time_zone: Option<TimeZone>,
    pub accounts: Named<WrittenAccount>,
    pub channels: Named<WrittenChannel>,
    pub sources: Named<WrittenSource>,
    pub endpoints: Named<WrittenEndpoint>,
    pub bots: Named<WrittenBot>,
    pub alerts: Option<Spanned<WrittenAlerts>>,
    pub callbacks: Option<WrittenCallbacks>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenAccount {
    pub platform: PlatformName,
    pub token: Spanned<WrittenSecret>,
    pub kind: Option<AccountKind>,
    /// `standard`, `paid`, or one of `[tiers]`.
    pub tier: Option<Spanned<String>>,
    pub rate: Option<Rate>,
    pub burst: Option<Count>,
    pub max_parallel: Option<Count>,
    pub retry_parallel: Option<Count>,
    pub api_base: Option<String>,
    pub proxy: Option<Spanned<WrittenSecret>>,
    pub extra_roots: Option<Vec<String>>,
    pub group_id: Option<i64>,
    pub paused: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenChannel {
    pub account: Spanned<String>,
    pub target: Target,
    pub preset: Option<Preset>,
    pub chat_kind: Option<domain::chat::ChatKind>,
    pub rate: Option<Rate>,
    pub max_parallel: Option<Count>,
    pub ambiguity: Option<domain::delivery::AmbiguityPolicy>,
    pub dedup: Option<store::DedupMode>,
    pub dedup_ttl: Option<Time>,
    pub max_age: Option<Time>,
    pub template: Option<String>,
    pub parse_mode: Option<ParseMode>,
    pub body_max: Option<Count>,
    pub overflow: Option<domain::chat::Overflow>,
    pub max_media: Option<u16>,
    pub route: Option<Route>,
    pub quiet_hours: Option<QuietHours>,
    pub time_zone: Option<TimeZone>,
    pub silent: Option<bool>,
    pub preview: Option<bool>,
    pub topic: Option<i64>,
    pub pin: Option<bool>,
    pub from_group: Option<bool>,
    pub attach_media: Option<bool>,
    pub protect: Option<bool>,
    pub on_close: Option<OnClose>,
    pub on_edit: Option<OnEdit>,
    pub on_gone: Option<OnGone>,
    pub unsure: Option<Unsure>,
    pub timeout: Option<Time>,
    pub upload_timeout: Option<Time>,
    pub enabled: Option<bool>,
    pub paused: Option<bool>,
    /// Words that several channels are named by at once: `rupor channel pause --tag cats`.
    pub tags: Option<Vec<String>>,
    /// The name it had before: a renamed channel keeps its queue and its history.
    pub was: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSource {
    pub kind: SourceKind,
    /// The reading account; walls need one.
    pub account: Option<Spanned<String>>,
    /// Ids or screen names of the walls, one source each.
    pub groups: Option<Vec<Target>>,
    /// Feeds: the address.
    pub url: Option<Spanned<String>>,
    pub preset: Option<Preset>,
    pub interval: Option<WholeSeconds>,
    pub horizon: Option<WholeHours>,
    pub home_city: Option<String>,
    pub utc_offset_minutes: Option<UtcOffset>,
    pub strict_no_phone: Option<bool>,
    pub tags: Option<Vec<String>>,
    pub enabled: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenEndpoint {
    pub kind: EndpointKind,
    pub secret: Spanned<WrittenSecret>,
    pub rate: Option<Rate>,
    pub body_max: Option<Count>,
    pub enabled: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenBot {
    /// Who it speaks and hears through.
    pub accounts: Vec<Spanned<String>>,
    /// The file with its rules, beside this one.
    pub rules: Spanned<String>,
    pub receive: Option<store::Receive>,
    /// What rules may ask by `call`, by name.
    #[serde(default)]
    pub services: Named<WrittenService>,
}

/// A shop's own service: where it is, and what signs a question to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenService {
    pub url: Spanned<String>,
    pub secret: Spanned<WrittenSecret>,
}

/// Who hears of trouble.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenAlerts {
    pub channel: Option<Spanned<String>>,
    pub webhook: Option<WrittenWebhook>,
    pub remind: Option<Time>,
    pub quiet_hours: Option<QuietHours>,
    pub time_zone: Option<TimeZone>,
    pub lang: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenCallbacks {
    pub url: Spanned<String>,
    pub secret: Option<Spanned<WrittenSecret>>,
    /// `sent`, `failed_permanent`, `dead`; all of them without it.
    pub outcomes: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenWebhook {
    pub url: Spanned<String>,
    pub secret: Option<Spanned<WrittenSecret>>,
}

/// A secret stands elsewhere: `{ env = "NAME" }`, `{ file = "PATH" }`, `"env:NAME"` or `"file:PATH"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WrittenSecret {
    Env(String),
    File(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SecretForm {
    Text(String),
    Table(BTreeMap<String, String>),
}

impl<'de> Deserialize<'de> for WrittenSecret {
    /// The refusals never repeat what was written: it may be the secret itself.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<WrittenSecret, D::Error> {
        const FORM: &str = "write where the secret is: { env = \"NAME\" } or { file = \"PATH\" }";
        let bad = || D::Error::custom(FORM);
        match SecretForm::deserialize(from).map_err(|_| bad())? {
            SecretForm::Text(text) => match text.split_once(':') {
                Some(("env", name)) if !name.is_empty() => Ok(WrittenSecret::Env(name.to_owned())),
                Some(("file", path)) if !path.is_empty() => Ok(WrittenSecret::File(path.to_owned())),
                _ => Err(bad()),
            },
            SecretForm::Table(table) => match table.into_iter().collect::<Vec<_>>().as_slice() {
                [(key, name)] if key == "env" && !name.is_empty() => Ok(WrittenSecret::Env(name.clone())),
                [(key, path)] if key == "file" && !path.is_empty() => Ok(WrittenSecret::File(path.clone())),
                _ => Err(bad()),
            },
        }
    }
}

/// A chat id or a name: numbers need no quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target(pub String);

#[derive(Deserialize)]
#[serde(untagged)]
enum TargetForm {
    Number(i64),
    Text(String),
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Target, D::Error> {
        match TargetForm::deserialize(from) {
            Ok(TargetForm::Number(id)) => Ok(Target(id.to_string())),
            Ok(TargetForm::Text(text)) if !text.trim().is_empty() => Ok(Target(text.trim().to_owned())),
            _ => Err(D::Error::custom("write a numeric id, or a name in quotes")),
        }
    }
}

/// The kind of a source that is no platform.
pub(super) const FEED: &str = "feed";

/// A value that is text in the file and checks itself.
macro_rules! checked {
    ($($(#[$doc:meta])* $name:ident($kind:ty) from $from:ty = $parse:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub(super) struct $name(pub $kind);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                let parse: fn($from) -> Result<$kind, String> = $parse;
                parse(<$from>::deserialize(from)?).map($name).map_err(D::Error::custom)
            }
        }
    )+};
}

checked! {
    /// A span of time, `72h`.
    Time(Span) from String = |text| match span::parse(&text) {
        Some(span) if span.0 > 0 => Ok(span),
        _ => Err(format!("{text:?} is not a time; write {}", span::FORM)),
    };
    /// At least a second.
    WholeSeconds(i64) from String = |text| match span::parse(&text) {
        Some(span) if span.0 >= 1_000_000 => Ok(span.0 / 1_000_000),
        _ => Err(format!("{text:?} is not a time of a second or more; write such as 30s or 5m")),
    };
    /// At least an hour.
    WholeHours(i64) from String = |text| match span::parse(&text) {
        Some(span) if span.0 >= 3_600_000_000 => Ok(span.0 / 3_600_000_000),
        _ => Err(format!("{text:?} is not a time of an hour or more; write such as 24h or 7d")),
    };
    /// Minutes east of Greenwich.
    UtcOffset(i32) from i64 = |minutes| match i32::try_from(minutes) {
        Ok(minutes) if minutes.abs() <= 14 * 60 => Ok(minutes),
        _ => Err(format!("{minutes} is no offset; write minutes east of Greenwich, such as 180 for Moscow")),
    };
    /// A rate a second.
    Rate(f64) from Number = |Number(rate)| {
        if rate.is_finite() && rate > 0.0 {
            Ok(rate)
        } else {
            Err(format!("{rate} is not a rate; write how many a second, above 0, such as 0.5"))
        }
    };
    /// At least one.
    Count(i32) from i64 = |n| match i32::try_from(n) {
        Ok(n) if n >= 1 => Ok(n),
        _ => Err(format!("{n} is out of range; write a whole number from 1 on")),
    };
    /// `23:00-07:00`
    QuietHours(String) from String = |text| match quiet::Hours::parse(&text) {
        Some(_) => Ok(text),
        None => Err(format!("{text:?} are not hours of a day; write {}", quiet::FORM)),
    };
    /// A name of the time zone database.
    TimeZone(String) from String = |text| match jiff::tz::TimeZone::get(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err(format!("time zone {text:?} is not known; write a name such as Europe/Moscow or UTC")),
    };
    /// How the words are marked up.
    ParseMode(String) from String = |text| match engine::addresses::parse_mode(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    };
    /// Which messages pass.
    Route(serde_json::Value) from serde_json::Value = |written| match domain::route::Route::parse(&written) {
        Ok(_) => Ok(written),
        Err(error) => Err(error.to_string()),
    };
    /// Where posts are pulled from: feeds, and the walls of every platform that has some.
    SourceKind(String) from String = |text| {
        if text == FEED || platforms::walls::of(&text).is_some() {
            return Ok(text);
        }
        let walls = platforms::walls::all().map(|(platform, _)| platform.name());
        let known: Vec<&str> = walls.chain([FEED]).collect();
        Err(format!("unknown kind of source {text:?}; known are {}", known.join(", ")))
    };
    /// One of the registered platforms.
    PlatformName(String) from String = |text| match engine::addresses::platform(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    };
}

/// Whole or broken: `1` is as good a rate as `1.0`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number(pub f64);

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberForm {
    Whole(i64),
    Broken(f64),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        match NumberForm::deserialize(from) {
            Ok(NumberForm::Whole(n)) => Ok(Number(n as f64)),
            Ok(NumberForm::Broken(n)) => Ok(Number(n)),
            Err(_) => Err(D::Error::custom("write a number, such as 0.5")),
        }
    }
}

/// A closed list of words of the file, that become text in a row.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($arm:ident = $text:literal),+ })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub(super) enum $name { $(#[serde(rename = $text)] $arm),+ }

        impl $name {
            pub(super) fn as_str(self) -> &'static str {
                match self { $($name::$arm => $text),+ }
            }
        }
    )+};
}

words! {
    /// Whose token it is; only VK cares.
    AccountKind { Bot = "bot", User = "user", Community = "community", Service = "service" }
    /// What the end of a story does to published copies.
    OnClose { Edit = "edit", Reply = "reply", Nothing = "none" }
    /// What an edited source does to published copies.
    OnEdit { Edit = "edit", Nothing = "none" }
    /// What a vanished source does to published copies.
    OnGone { Nothing = "none", Delete = "delete" }
    /// What becomes of posts whose kind is unsure.
    Unsure { Publish = "publish", Hold = "hold" }
    /// Who knocks: programs that push. Platforms call the webhooks of a bot, which need no endpoint.
    EndpointKind { Push = "push" }
}
