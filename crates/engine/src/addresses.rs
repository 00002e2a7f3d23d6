//! From rows to platform values: a stored account with its token, a stored channel.
//!
//! Pure: nothing here asks the store or the network, and the environment is read once, by the caller.
//! The dispatcher, `rupor check` and the bot all come through here, so that a setting means the same everywhere.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use domain::chat::ChatKind;
use platforms::part::{AccountKind, ParseMode};
use platforms::platform::{AccountSettings, Deadlines};
use platforms::registry;
use platforms::secret::Token;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::span;

/// Other addresses of the APIs for all accounts of a platform that do not name their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiBases {
    bases: Vec<(&'static str, String)>,
}

impl ApiBases {
    /// Reads `RUPOR_TELEGRAM_API`, `RUPOR_VK_API` and `RUPOR_MAX_API`, and whatever platform comes next.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> ApiBases {
        let named = |name: &'static str| {
            let base = variable(&format!("RUPOR_{}_API", name.to_uppercase()))?;
            (!base.trim().is_empty()).then(|| (name, base.trim().to_owned()))
        };
        ApiBases { bases: registry::all().filter_map(|platform| named(platform.name())).collect() }
    }

    /// Lets media be fetched from these bases where they are on loopback: the sandbox.
    pub fn admit(&self, network: &platforms::platform::Network) {
        for (_, base) in &self.bases {
            network.admit_base(base);
        }
    }

    fn of(&self, platform: &str) -> Option<String> {
        self.bases.iter().find(|(name, _)| *name == platform).map(|(_, base)| base.clone())
    }
}

/// The tier of a Telegram bot that pays for broadcasts above 30 messages a second.
pub const TIER_PAID: &str = "paid";
/// What a message in that tier costs, in the platform's own coin, above the pace that is free.
pub const PAID_PRICE: f64 = 0.1;

/// What the `settings` of an account row may hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountExtras {
    /// VK: the community of a community key; needed for its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<i64>,
}

/// How trouble is told in a channel of alerts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlertExtras {
    /// Trouble of the whole node is told here too, and of workspaces that have no alerts of their own.
    pub node: bool,
    /// How often what is still so is told again, e.g. `12h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind: Option<String>,
    /// When what heals by itself is not told, e.g. `23:00-08:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<String>,
    /// The language of what is told, `en` or `ru`; `None`: that of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
}

/// What the `settings` of a channel row may hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelExtras {
    pub silent: bool,
    pub preview: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<i64>,
    pub pin: bool,
    pub from_group: bool,
    pub attach_media: bool,
    pub protect: bool,
    /// What the end of a story does to published copies: `edit` (default), `reply` or `none`. The store reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_close: Option<String>,
    /// `none` leaves published copies alone when their source changes. The store reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_edit: Option<String>,
    /// `delete` takes published copies back when their source vanishes; `none` (default) leaves them. The store reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_gone: Option<String>,
    /// `hold`: a person approves what nobody is sure of; `publish` (default) sends it. Ingest reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsure: Option<String>,
    /// How trouble is told there, in the tier of alerts. The watch reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerts: Option<AlertExtras>,
    /// Which outcomes are told there, in the tier of callbacks: `sent`, `failed_permanent`, `dead`. The callbacks read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<Vec<String>>,
    /// Words that an operator names several channels by (`rupor channel pause --tag`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How long one request may take, e.g. `10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// The same for requests that carry media.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload_timeout: Option<String>,
}

impl Default for ChannelExtras {
    fn default() -> ChannelExtras {
        let settings = platforms::part::ChannelSettings::default();
        ChannelExtras {
            silent: settings.silent,
            preview: settings.preview,
            topic: settings.topic,
            pin: settings.pin,
            from_group: settings.from_group,
            attach_media: settings.attach_media,
            protect: settings.protect,
            on_close: None,
            on_edit: None,
            on_gone: None,
            unsure: None,
            alerts: None,
            outcomes: None,
            tags: Vec::new(),
            timeout: None,
            upload_timeout: None,
        }
    }
}

/// The account of a row, ready to send. Its own API base goes before the one of the environment.
pub fn account(
    row: &store::Account,
    token: &SecretString,
    bases: &ApiBases,
) -> anyhow::Result<platforms::platform::Account> {
    let platform = platform(&row.platform)?;
    let extras: AccountExtras =
        extras(&row.settings.settings).with_context(|| format!("account {}", row.name))?;
    let settings = AccountSettings {
        kind: account_kind(row)?,
        api_base: whole(&row.settings.api_base).or_else(|| bases.of(&row.platform)),
        proxy: whole(&row.settings.proxy),
        extra_roots: row.settings.extra_roots.iter().flat_map(std::env::split_paths).collect(),
        group_id: extras.group_id,
        paid_broadcast: row.settings.tier == TIER_PAID,
    };
    platforms::platform::Account::new(platform, Token::new(token.expose_secret()), settings)
        .with_context(|| format!("account {}", row.name))
}

fn whole(url: &Option<store::PrivateUrl>) -> Option<String> {
    url.as_ref().map(|url| url.expose().to_owned())
}

/// The settings of a channel, as its platform renders and sends with them.
pub fn channel(
    row: &store::Channel,
    account: &store::Account,
) -> anyhow::Result<platforms::part::ChannelSettings> {
    let named = || format!("channel {}", row.name);
    let extras: ChannelExtras = extras(&row.settings.settings).with_context(named)?;
    let parse_mode = row.settings.parse_mode.as_deref().map(parse_mode).transpose().with_context(named)?;
    Ok(platforms::part::ChannelSettings {
        target: row.target.clone(),
        chat_kind: row.settings.chat_kind,
        account_kind: account_kind(account)?,
        parse_mode,
        body_max: usize::try_from(row.settings.body_max).unwrap_or(platforms::part::BODY_MAX),
        overflow: row.settings.overflow,
        max_media: usize::try_from(row.settings.max_media).unwrap_or(platforms::part::MAX_MEDIA),
        attach_media: extras.attach_media,
        template: row.settings.template.clone(),
        silent: extras.silent,
        preview: extras.preview,
        topic: extras.topic,
        pin: extras.pin,
        from_group: extras.from_group,
        protect: extras.protect,
    })
}

/// The private chat of somebody on this account, as its platform renders and sends with it; the address is not known yet.
pub fn person(account: &store::Account) -> anyhow::Result<platforms::part::ChannelSettings> {
    Ok(platforms::part::ChannelSettings {
        chat_kind: ChatKind::Private,
        account_kind: account_kind(account)?,
        ..platforms::part::ChannelSettings::default()
    })
}

/// Where readers of a channel find a message, if its platform has addresses for messages.
pub fn link(channel: &store::Channel, ids: &str) -> Option<String> {
    registry::platform(&channel.platform)?.link(&channel.target, ids)
}

/// How long the requests of a channel may take.
pub fn deadlines(row: &store::Channel) -> anyhow::Result<Deadlines> {
    let named = || format!("channel {}", row.name);
    let extras: ChannelExtras = extras(&row.settings.settings).with_context(named)?;
    let usual = Deadlines::default();
    Ok(Deadlines {
        request: timeout("timeout", extras.timeout.as_deref(), usual.request).with_context(named)?,
        upload: timeout("upload_timeout", extras.upload_timeout.as_deref(), usual.upload)
            .with_context(named)?,
    })
}

pub fn platform(name: &str) -> anyhow::Result<&'static dyn platforms::platform::Platform> {
    registry::platform(name).ok_or_else(|| {
        let known: Vec<&str> = registry::all().map(|platform| platform.name()).collect();
        anyhow!("platform {name:?} is not known; known are {}", known.join(", "))
    })
}

pub fn parse_mode(text: &str) -> anyhow::Result<ParseMode> {
    serde_json::from_value(Value::String(text.to_owned()))
        .map_err(|_| anyhow!("parse_mode {text:?} is not known; known are HTML, MarkdownV2, Markdown, none"))
}

/// Reads the free settings of a row; an unknown key is an error that lists the known ones.
pub fn extras<T: for<'de> Deserialize<'de>>(settings: &Value) -> anyhow::Result<T> {
    T::deserialize(settings).map_err(|error| anyhow!("settings: {error}"))
}

/// Only VK tells kinds apart; every other token is simply a bot's.
fn account_kind(row: &store::Account) -> anyhow::Result<AccountKind> {
    match row.settings.kind.as_str() {
        // The kind of a row that says nothing about it.
        "bot" | "user" => Ok(AccountKind::User),
        "community" => Ok(AccountKind::Community),
        "service" => Ok(AccountKind::Service),
        other => {
            bail!("account {}: kind {other:?} is not known; known are user, community, service", row.name)
        }
    }
}

fn timeout(key: &str, written: Option<&str>, usual: Duration) -> anyhow::Result<Duration> {
    let Some(text) = written else {
        return Ok(usual);
    };
    match span::parse(text) {
        Some(span) if span.0 > 0 => Ok(span.into()),
        _ => bail!("settings: {key} {text:?} is not a time; write {}", span::FORM),
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::{AccountId, ChannelId, WorkspaceId};
    use domain::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn account_row(platform: &str, settings: store::AccountSettings) -> store::Account {
        store::Account {
            account_id: AccountId(1),
            workspace_id: WorkspaceId(1),
            platform: platform.into(),
            name: "бот".into(),
            fingerprint: String::new(),
            settings,
            paused: false,
            paused_why: None,
            paused_at: None,
            cooldown_until: Timestamp(0),
        }
    }

    fn channel_row(settings: store::ChannelSettings) -> store::Channel {
        store::Channel {
            channel_id: ChannelId(1),
            workspace_id: WorkspaceId(1),
            account_id: AccountId(1),
            platform: "telegram".into(),
            name: "Потеряшки".into(),
            target: "-1001234567890".into(),
            target_since: Timestamp(0),
            settings,
            enabled: true,
            disabled_by: None,
            paused_until: Timestamp(0),
            paused_why: None,
            error_streak: 0,
            tier: "standard".into(),
        }
    }

    fn with_settings(settings: Value) -> store::Channel {
        channel_row(store::ChannelSettings { settings, ..store::ChannelSettings::default() })
    }

    fn bot() -> store::Account {
        account_row("telegram", store::AccountSettings::default())
    }

    #[test]
    fn a_channel_row_carries_its_settings_over() {
        let row = with_settings(json!({"silent": true, "topic": 7, "from_group": false, "timeout": "3s"}));
        let settings = channel(&row, &bot()).unwrap();
        assert!(settings.silent && !settings.from_group && !settings.pin && settings.attach_media);
        assert_eq!((settings.topic, settings.target.as_str()), (Some(7), "-1001234567890"));
        assert_eq!(deadlines(&row).unwrap().request, Duration::from_secs(3));
        assert_eq!(deadlines(&row).unwrap().upload, Deadlines::default().upload);
    }

    #[test]
    fn an_unknown_setting_is_refused_with_the_known_ones() {
        let error = channel(&with_settings(json!({"silnet": true})), &bot()).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("channel Потеряшки") && said.contains("silnet"), "{said}");
        assert!(said.contains("`silent`") && said.contains("`attach_media`"), "{said}");
        let error = deadlines(&with_settings(json!({"timeout": "soon"}))).unwrap_err();
        assert!(format!("{error:#}").contains("10s"), "{error:#}");
    }

    #[test]
    fn a_row_names_its_platform_kind_and_parse_mode_or_hears_the_known_ones() {
        let token = SecretString::from("1:abc");
        let stranger = account_row("icq", store::AccountSettings::default());
        let said = format!("{:#}", account(&stranger, &token, &ApiBases::default()).unwrap_err());
        assert!(said.contains("telegram, vk, max"), "{said}");
        let kind = store::AccountSettings {
            kind: "сообщество".into(), ..store::AccountSettings::default()
        };
        let said =
            format!("{:#}", account(&account_row("vk", kind), &token, &ApiBases::default()).unwrap_err());
        assert!(said.contains("user, community, service"), "{said}");
        assert!(parse_mode("HTML").is_ok() && parse_mode("bbcode").is_err());
    }

    #[test]
    fn an_api_base_of_the_row_goes_before_the_environment_and_that_before_the_public_one() {
        let bases = ApiBases::from_env(|name| {
            (name == "RUPOR_TELEGRAM_API").then(|| "http://127.0.0.1:7900/telegram".to_owned())
        });
        let token = SecretString::from("1:abc");
        let base =
            |row: &store::Account, bases: &ApiBases| format!("{:?}", account(row, &token, bases).unwrap());
        assert!(base(&bot(), &ApiBases::default()).contains("api.telegram.org"));
        assert!(base(&bot(), &bases).contains("7900"));
        let own = store::AccountSettings {
            api_base: Some("http://127.0.0.1:1/own".into()),
            ..store::AccountSettings::default()
        };
        assert!(base(&account_row("telegram", own), &bases).contains("/own"));
    }

    #[test]
    fn a_token_that_cannot_be_one_is_refused_without_being_shown() {
        let error = account(&bot(), &SecretString::from("not/a token"), &ApiBases::default()).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("account бот") && !said.contains("not/a"), "{said}");
    }
}
