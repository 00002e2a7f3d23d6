//! The quick start: one workspace from environment variables, so that a one-channel set-up needs no file.
//! A bad value names its variable and the fix.

use domain::content::Kind;
use domain::limits::effective_rate;
use domain::time::Span;
use serde_json::json;

use engine::span;
use platforms::facts::{QuickRead, QuickStart};
use platforms::platform::Platform;
use platforms::registry;

use super::meaning::{DEFAULT_WORKSPACE, known_platform, preset};
use super::{
    Account, Channel, Config, ConfigError, PlatformLimits, Problem, Secret, Source, Variables, Workspace,
    alerts,
};
use engine::addresses::ChannelExtras;
use engine::ingest::{Preset, SourceSettings};

/// `RUPOR_PLATFORM_LIMITS`: on, or off for rehearsals.
pub(crate) fn platform_limits(variables: Variables<'_>) -> Result<PlatformLimits, Problem> {
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
pub(crate) fn is_used(variables: Variables<'_>) -> bool {
    let switches = outlets().map(|out| format!("{}_ENABLED", out.start.prefix));
    let walls = readers().map(|(_, read)| read.walls.to_owned());
    switches.chain(walls).any(|name| {
        variables(&name).is_some_and(|value| !matches!(value.trim(), "" | "0" | "false" | "no" | "off"))
    })
}

/// Channels that variables have switched off, by what the quick start calls them.
pub(crate) fn switched_off(variables: Variables<'_>) -> Vec<&'static str> {
    let is_off = |out: &Outlet| {
        let value = variables(&format!("{}_ENABLED", out.start.prefix));
        value
            .is_some_and(|value| matches!(value.trim().to_lowercase().as_str(), "0" | "false" | "no" | "off"))
    };
    outlets().filter(is_off).map(|out| out.start.name).collect()
}

pub(crate) fn config(variables: Variables<'_>) -> Result<Config, ConfigError> {
    let mut reader = Reader { variables, problems: Vec::new(), notes: Vec::new() };
    let limits = platform_limits(variables).unwrap_or_else(|problem| {
        reader.problems.push(problem);
        PlatformLimits::On
    });
    let dedup = reader.dedup();
    let mut workspace = Workspace::empty(DEFAULT_WORKSPACE);
    for (platform, read) in readers() {
        reader.walls(&mut workspace, platform, read, limits);
    }
    for out in outlets() {
        reader.outlet(&mut workspace, &out, &dedup, limits);
    }
    reader.alerts(&mut workspace, limits);
    let notes = std::mem::take(&mut reader.notes);
    reader.done(Config { workspaces: vec![workspace], notes })
}

const TIMEOUT: Span = Span::from_secs(10);
const RATE: f64 = 1.0;
const MAX_MEDIA: i32 = 10;

/// One way out: a platform and the variables that begin with its prefix.
struct Outlet {
    platform: &'static dyn Platform,
    start: &'static QuickStart,
}

fn outlets() -> impl Iterator<Item = Outlet> {
    registry::PLATFORMS.iter().filter_map(|platform| {
        Some(Outlet { platform: *platform, start: platform.facts().quick_start.as_ref()? })
    })
}

/// Platforms whose walls can be read.
fn readers() -> impl Iterator<Item = (&'static str, &'static QuickRead)> {
    registry::PLATFORMS
        .iter()
        .filter_map(|platform| Some((platform.name(), platform.facts().quick_read.as_ref()?)))
}

struct Dedup {
    enabled: bool,
    window: Span,
}

struct Reader<'a> {
    variables: Variables<'a>,
    problems: Vec<Problem>,
    notes: Vec<String>,
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
    fn walls(&mut self, workspace: &mut Workspace, platform: &str, read: &QuickRead, limits: PlatformLimits) {
        let Some(groups) = self.get(read.walls) else {
            return;
        };
        let Some(token) = self.get(read.token) else {
            self.problem(
                read.token,
                format!("is not set, but {} names walls to read; set it to {}", read.walls, read.token_form),
            );
            return;
        };
        let settings = SourceSettings {
            strict_no_phone: self.flag("DEDUP_STRICT_NO_PHONE", false),
            ..SourceSettings::default()
        };
        workspace.accounts.push(account(platform, platform, read.kind, token, limits));
        for group in groups.split(',').map(str::trim).filter(|group| !group.is_empty()) {
            // The address of a wall ends in its name.
            let group =
                group.trim_end_matches('/').rsplit('/').next().unwrap_or(group).trim_start_matches('@');
            let is_wall = known_platform(platform).walls().is_some_and(|walls| walls.wall(group).is_some());
            if !is_wall {
                self.problem(
                    read.walls,
                    format!(
                        "{group:?} is no wall; write a comma list of ids, names or addresses, such as -123456,lostpets"
                    ),
                );
                continue;
            }
            workspace.sources.push(Source {
                name: format!("{platform}/{group}"),
                kind: platform.into(),
                address: group.to_owned(),
                account: Some(platform.into()),
                enabled: true,
                settings: json!(settings),
            });
        }
    }

    fn outlet(&mut self, workspace: &mut Workspace, out: &Outlet, dedup: &Dedup, limits: PlatformLimits) {
        let named = |suffix: &str| format!("{}_{suffix}", out.start.prefix);
        if !self.flag(&named("ENABLED"), false) {
            return;
        }
        let asked = named("ENABLED");
        let Some(token) = self.outlet_token(out, &asked) else {
            return;
        };
        let Some(target) = self.outlet_target(out) else {
            return;
        };
        let account =
            account(out.start.name, out.platform.name(), out.platform.facts().usual_kind, token, limits);
        let kind = out.platform.chat_kind(&target);
        let rate = Some(self.rate(&named("RATE_PER_SEC")));
        let allowed = out.platform.facts().chat_rate(kind);
        if limits == PlatformLimits::On {
            self.notes.extend(super::capped(&named("RATE_PER_SEC"), rate, allowed, "the chat"));
        }
        let extras = ChannelExtras {
            from_group: !out.start.is_wall || self.flag(&named("FROM_GROUP"), true),
            attach_media: !out.start.is_wall || self.flag(&named("ATTACH_MEDIA"), true),
            timeout: Some(span::show(self.time(&named("HTTP_TIMEOUT"), TIMEOUT))),
            ..ChannelExtras::default()
        };
        let settings = store::ChannelSettings {
            chat_kind: kind,
            rate: match limits {
                PlatformLimits::On => effective_rate(rate, allowed),
                PlatformLimits::Off => rate,
            },
            ambiguity: out.platform.facts().ambiguity,
            dedup: if dedup.enabled { store::DedupMode::Case } else { store::DedupMode::Off },
            dedup_ttl: dedup.window,
            parse_mode: out.start.parse_mode.map(|usual| self.parse_mode(&named("PARSE_MODE"), usual)),
            max_media: self.count(&named("MAX_MEDIA"), MAX_MEDIA),
            settings: json!(extras),
            route: self.kinds(&named("KINDS")).or(preset(Preset::Pets).route),
            ..preset(Preset::Pets)
        };
        let channel = Channel {
            name: out.start.name.into(),
            account: out.start.name.into(),
            target,
            settings,
            // A variable says whether it is wanted, so a start puts it back on; a pause is an operator's and stays.
            enabled: Some(true),
            paused: None,
            was: None,
        };
        self.check(out, &account, &channel);
        workspace.accounts.push(account);
        workspace.channels.push(channel);
    }

    /// Who hears of trouble: `RUPOR_ALERT_TG_CHAT` and its like, `RUPOR_ALERT_WEBHOOK`.
    fn alerts(&mut self, workspace: &mut Workspace, limits: PlatformLimits) {
        let settings = alerts::Settings {
            node: true,
            remind: self.get("RUPOR_ALERT_REMIND"),
            quiet_hours: self.get("RUPOR_ALERT_QUIET_HOURS"),
            time_zone: self.get("RUPOR_ALERT_TIME_ZONE"),
            lang: None,
        };
        for out in outlets() {
            let name = format!("RUPOR_ALERT_{}_CHAT", out.start.prefix);
            let Some(target) = self.target(&out, &name) else {
                continue;
            };
            let Some(token) = self.outlet_token(&out, &name) else {
                continue;
            };
            let kind = out.platform.facts().usual_kind;
            let account = account(out.start.name, out.platform.name(), kind, token, limits);
            if let Err(text) = alerts::chat(workspace, &account, out.start.name, &target, &settings) {
                self.problem(&name, text);
            }
        }
        if let Some(url) = self.get("RUPOR_ALERT_WEBHOOK") {
            let secret = self.get("RUPOR_ALERT_WEBHOOK_SECRET").map(Secret::new);
            match alerts::webhook(workspace, &url, secret, &settings) {
                Ok(note) => self.notes.extend(note),
                Err(text) => self.problem("RUPOR_ALERT_WEBHOOK", text),
            }
        }
    }

    /// The platform says whether token and target have the form it wants.
    fn check(&mut self, out: &Outlet, account: &Account, channel: &Channel) {
        let bases = Default::default();
        if let Err(error) = engine::addresses::account(&account.as_row(), account.token.reveal(), &bases) {
            let name = format!("{}_TOKEN", out.start.prefix);
            self.problem(&name, format!("{}; copy it again from where it was issued", error.root_cause()));
        } else if let Err(error) = channel.rehearse(account) {
            let (target, form) = (&channel.target, out.start.target_form);
            let known = error.root_cause().to_string();
            self.problem(
                out.start.target,
                match known.contains("bad target") {
                    true => format!("{target:?} cannot be used; write {form}"),
                    false => format!("{error:#}"),
                },
            );
        }
    }

    /// `asked`: the variable that wants it.
    fn outlet_token(&mut self, out: &Outlet, asked: &str) -> Option<String> {
        let name = format!("{}_TOKEN", out.start.prefix);
        let token = self.get(&name).or_else(|| out.start.token_fallback.and_then(|other| self.get(other)));
        if token.is_none() {
            self.problem(
                &name,
                match asked.ends_with("_ENABLED") {
                    true => {
                        format!(
                            "is not set, but {asked} is true; set it to the token, or write {asked}=false"
                        )
                    }
                    false => format!("is not set, but {asked} is; set it to the token of the bot that tells"),
                },
            );
        }
        token
    }

    fn outlet_target(&mut self, out: &Outlet) -> Option<String> {
        let target = self.target(out, out.start.target);
        if target.is_none() {
            let (prefix, form) = (out.start.prefix, out.start.target_form);
            self.problem(out.start.target, format!("is not set, but {prefix}_ENABLED is true; write {form}"));
        }
        target
    }

    /// A chat as the platform calls it, however it was written. Whether it is one is said later, in a rehearsal.
    fn target(&mut self, out: &Outlet, name: &str) -> Option<String> {
        let target = out.platform.plain_target(&self.get(name)?);
        let doubt = out.platform.doubt(&target);
        self.notes.extend(doubt.map(|doubt| format!("{name}: {doubt}")));
        Some(target)
    }

    /// `PREFIX_KINDS`: which kinds of posts the channel publishes; `all` means every kind.
    fn kinds(&mut self, name: &str) -> Option<String> {
        let written = self.get(name)?.to_lowercase();
        if written == "all" {
            return preset(Preset::Mirror).route;
        }
        let known = Kind::ALL.map(Kind::name);
        let mut wanted = Vec::new();
        for kind in written.split(',').map(str::trim).filter(|kind| !kind.is_empty()) {
            match known.contains(&kind) {
                true => wanted.push(format!("kind:{kind}")),
                false => self.problem(
                    name,
                    format!(
                        "{kind:?} is no kind of post; write all, or a comma list of {}",
                        known.join(", ")
                    ),
                ),
            }
        }
        Some(json!({"any": wanted}).to_string())
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

    fn parse_mode(&mut self, name: &str, usual: &str) -> String {
        let text = self.get(name).unwrap_or_else(|| usual.into());
        if let Err(error) = engine::addresses::parse_mode(&text) {
            self.problem(name, error.to_string());
        }
        text
    }
}

fn account(name: &str, platform: &str, kind: &str, token: String, limits: PlatformLimits) -> Account {
    let settings = store::AccountSettings {
        kind: kind.into(),
        rate: match limits {
            PlatformLimits::On => {
                effective_rate(None, known_platform(platform).facts().account_rate(kind, "standard"))
            }
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
        limit: None,
    }
}
