//! The quick start: one workspace from the variables of DESIGN §11, so that a one-channel set-up needs no file.
//! A bad value names its variable and the fix.

use domain::limits::{account_rate, chat_rate, effective_rate};
use domain::time::Span;
use serde_json::json;

use engine::span;

use super::meaning::{DEFAULT_WORKSPACE, ambiguity, chat_kind, preset};
use super::{
    Account, Channel, Config, ConfigError, PlatformLimits, Problem, Secret, Source, Variables, Workspace,
};
use engine::addresses::ChannelExtras;
use engine::ingest::{Preset, SourceSettings};

/// `RUPOR_PLATFORM_LIMITS`: on, or off for rehearsals.
pub fn platform_limits(variables: Variables<'_>) -> Result<PlatformLimits, Problem> {
    match variables("RUPOR_PLATFORM_LIMITS").as_deref().map(str::trim) {
        None | Some("" | "on") => Ok(PlatformLimits::On),
        Some("off") => Ok(PlatformLimits::Off),
        Some(other) => Err(Problem {
            place: "RUPOR_PLATFORM_LIMITS".into(),
            text: format!("{other:?} is neither on nor off; write on, or off for rehearsals"),
        }),
    }
}

/// Whether any variable of the quick start asks for something to be sent.
pub fn is_used(variables: Variables<'_>) -> bool {
    ["TG_ENABLED", "VK_OUT_ENABLED", "MAX_ENABLED", "VK_GROUPS"].iter().any(|name| {
        variables(name).is_some_and(|value| !matches!(value.trim(), "" | "0" | "false" | "no" | "off"))
    })
}

pub fn config(variables: Variables<'_>) -> Result<Config, ConfigError> {
    let mut reader = Reader { variables, problems: Vec::new() };
    let limits = platform_limits(variables).unwrap_or_else(|problem| {
        reader.problems.push(problem);
        PlatformLimits::On
    });
    let dedup = reader.dedup();
    let mut workspace = Workspace {
        name: DEFAULT_WORKSPACE.into(),
        accounts: Vec::new(),
        channels: Vec::new(),
        sources: Vec::new(),
        endpoints: Vec::new(),
    };
    reader.walls(&mut workspace, limits);
    for out in OUTLETS {
        reader.outlet(&mut workspace, out, &dedup, limits);
    }
    reader.done(Config { workspaces: vec![workspace] })
}

const TIMEOUT: Span = Span::from_secs(10);
const RATE: f64 = 1.0;
const MAX_MEDIA: i32 = 10;

/// One way out: its variables have one prefix.
struct Outlet {
    prefix: &'static str,
    /// The account and the channel are both called so.
    name: &'static str,
    platform: &'static str,
    target: &'static str,
    /// What the target looks like, for refusals.
    target_form: &'static str,
    /// A variable that may lend its token.
    token_fallback: Option<&'static str>,
}

const OUTLETS: &[Outlet] = &[
    Outlet {
        prefix: "TG",
        name: "telegram",
        platform: "telegram",
        target: "TG_CHAT",
        target_form: "the numeric id of the chat, such as -1001234567890",
        token_fallback: None,
    },
    Outlet {
        prefix: "VK_OUT",
        name: "vk_out",
        platform: "vk",
        target: "VK_OUT_OWNER_ID",
        target_form: "the numeric id of the wall, negative for groups, such as -123456",
        token_fallback: Some("VK_TOKEN"),
    },
    Outlet {
        prefix: "MAX",
        name: "max",
        platform: "max",
        target: "MAX_CHAT",
        target_form: "the numeric id of the chat",
        token_fallback: None,
    },
];

struct Dedup {
    enabled: bool,
    window: Span,
}

struct Reader<'a> {
    variables: Variables<'a>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn done<T>(self, value: T) -> Result<T, ConfigError> {
        match self.problems.is_empty() {
            true => Ok(value),
            false => Err(ConfigError { problems: self.problems }),
        }
    }

    fn dedup(&mut self) -> Dedup {
        Dedup {
            enabled: self.flag("DEDUP_ENABLED", true),
            window: self.time("DEDUP_WINDOW", domain::limits::DEDUP_TTL_PETS),
        }
    }

    /// The walls to read, and the account that reads them.
    fn walls(&mut self, workspace: &mut Workspace, limits: PlatformLimits) {
        let Some(groups) = self.get("VK_GROUPS") else {
            return;
        };
        let Some(token) = self.get("VK_TOKEN") else {
            self.problem(
                "VK_TOKEN",
                "is not set, but VK_GROUPS names walls to read; set it to a service or user token",
            );
            return;
        };
        let settings = SourceSettings {
            strict_no_phone: self.flag("DEDUP_STRICT_NO_PHONE", false),
            ..SourceSettings::default()
        };
        // A service token and a user's may read the same and as fast; asking as a service works for both.
        workspace.accounts.push(account("vk", "vk", "service", token, limits));
        for group in groups.split(',').map(str::trim).filter(|group| !group.is_empty()) {
            if !group.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                self.problem(
                    "VK_GROUPS",
                    format!("{group:?} is no id or screen name; write a comma list such as -123456,lostpets"),
                );
                continue;
            }
            workspace.sources.push(Source {
                name: format!("vk/{group}"),
                kind: "vk".into(),
                address: group.to_owned(),
                account: Some("vk".into()),
                enabled: true,
                settings: json!(settings),
            });
        }
    }

    fn outlet(&mut self, workspace: &mut Workspace, out: &Outlet, dedup: &Dedup, limits: PlatformLimits) {
        let named = |suffix: &str| format!("{}_{suffix}", out.prefix);
        if !self.flag(&named("ENABLED"), false) {
            return;
        }
        let Some(token) = self.outlet_token(out) else {
            return;
        };
        let Some(target) = self.outlet_target(out) else {
            return;
        };
        let account =
            account(out.name, out.platform, if out.platform == "vk" { "user" } else { "bot" }, token, limits);
        let kind = chat_kind(out.platform, &target);
        let rate = Some(self.rate(&named("RATE_PER_SEC")));
        let extras = ChannelExtras {
            from_group: out.platform != "vk" || self.flag(&named("FROM_GROUP"), true),
            attach_media: out.platform != "vk" || self.flag(&named("ATTACH_MEDIA"), true),
            timeout: Some(span::show(self.time(&named("HTTP_TIMEOUT"), TIMEOUT))),
            ..ChannelExtras::default()
        };
        let settings = store::ChannelSettings {
            chat_kind: kind,
            rate: match limits {
                PlatformLimits::On => effective_rate(rate, chat_rate(out.platform, kind.as_str())),
                PlatformLimits::Off => rate,
            },
            ambiguity: ambiguity(out.platform),
            dedup: if dedup.enabled { store::DedupMode::Case } else { store::DedupMode::Off },
            dedup_ttl: dedup.window,
            parse_mode: if out.platform == "telegram" { Some(self.parse_mode()) } else { None },
            max_media: self.count(&named("MAX_MEDIA"), MAX_MEDIA),
            settings: json!(extras),
            ..preset(Preset::Pets)
        };
        let channel = Channel {
            name: out.name.into(),
            account: out.name.into(),
            target,
            settings,
            // A variable says whether it is wanted, so a start puts it back on; a pause is an operator's and stays.
            enabled: Some(true),
            paused: None,
        };
        self.check(out, &account, &channel);
        workspace.accounts.push(account);
        workspace.channels.push(channel);
    }

    /// The platform says whether token and target have the form it wants.
    fn check(&mut self, out: &Outlet, account: &Account, channel: &Channel) {
        let bases = Default::default();
        if let Err(error) = engine::addresses::account(&account.as_row(), account.token.reveal(), &bases) {
            let name = format!("{}_TOKEN", out.prefix);
            self.problem(&name, format!("{}; copy it again from where it was issued", error.root_cause()));
        } else if let Err(error) = channel.rehearse(account) {
            self.problem(out.target, format!("{error:#}"));
        }
    }

    fn outlet_token(&mut self, out: &Outlet) -> Option<String> {
        let name = format!("{}_TOKEN", out.prefix);
        let token = self.get(&name).or_else(|| out.token_fallback.and_then(|other| self.get(other)));
        if token.is_none() {
            self.problem(
                &name,
                format!(
                    "is not set, but {}_ENABLED is true; set it to the token, or switch that off",
                    out.prefix
                ),
            );
        }
        token
    }

    fn outlet_target(&mut self, out: &Outlet) -> Option<String> {
        match self.get(out.target) {
            Some(text) => match text.parse::<i64>() {
                Ok(id) => Some(id.to_string()),
                Err(_) => {
                    self.problem(out.target, format!("{text:?} is not a number; write {}", out.target_form));
                    None
                }
            },
            None => {
                self.problem(
                    out.target,
                    format!("is not set, but {}_ENABLED is true; write {}", out.prefix, out.target_form),
                );
                None
            }
        }
    }

    /// A variable that says something.
    fn get(&self, name: &str) -> Option<String> {
        (self.variables)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn problem(&mut self, name: &str, text: impl Into<String>) {
        self.problems.push(Problem { place: name.to_owned(), text: text.into() });
    }

    fn flag(&mut self, name: &str, usual: bool) -> bool {
        match self.get(name).map(|value| value.to_lowercase()).as_deref() {
            None => usual,
            Some("true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            Some(other) => {
                self.problem(name, format!("{other:?} is neither true nor false; write true or false"));
                usual
            }
        }
    }

    fn time(&mut self, name: &str, usual: Span) -> Span {
        match self.get(name) {
            None => usual,
            Some(text) => match span::parse(&text) {
                Some(span) if span.0 > 0 => span,
                _ => {
                    self.problem(name, format!("{text:?} is not a time; write {}", span::FORM));
                    usual
                }
            },
        }
    }

    fn rate(&mut self, name: &str) -> f64 {
        let Some(text) = self.get(name) else {
            return RATE;
        };
        match text.parse::<f64>() {
            Ok(rate) if rate.is_finite() && rate > 0.0 => rate,
            _ => {
                self.problem(
                    name,
                    format!("{text:?} is not a rate; write how many a second, above 0, such as 0.5"),
                );
                RATE
            }
        }
    }

    fn count(&mut self, name: &str, usual: i32) -> i32 {
        let Some(text) = self.get(name) else {
            return usual;
        };
        match text.parse::<i32>() {
            Ok(n) if (0..=1_000).contains(&n) => n,
            _ => {
                self.problem(
                    name,
                    format!("{text:?} is not a number of media; write a whole number from 0 on"),
                );
                usual
            }
        }
    }

    fn parse_mode(&mut self) -> String {
        let text = self.get("TG_PARSE_MODE").unwrap_or_else(|| "HTML".into());
        if let Err(error) = engine::addresses::parse_mode(&text) {
            self.problem("TG_PARSE_MODE", error.to_string());
        }
        text
    }
}

fn account(name: &str, platform: &str, kind: &str, token: String, limits: PlatformLimits) -> Account {
    let settings = store::AccountSettings {
        kind: kind.into(),
        rate: match limits {
            PlatformLimits::On => account_rate(platform, kind, "standard"),
            PlatformLimits::Off => None,
        },
        settings: json!({}),
        ..store::AccountSettings::default()
    };
    Account {
        name: name.into(),
        platform: platform.into(),
        token: Secret::new(token),
        settings,
        paused: None,
    }
}
