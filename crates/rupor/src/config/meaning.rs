//! From the file as written to what it means: presets filled in, names looked up, secrets fetched, rates limited.
//! All that is wrong is collected, so that one run shows every mistake it can.

use std::collections::BTreeMap;
use std::path::Path;

use domain::limits::effective_rate;
use domain::route::Route;
use platforms::platform::Platform;
use serde_json::{Value, json};
use toml::Spanned;

use engine::span;

use super::written::{self, FEED, Named, WrittenSecret};
use super::{
    Account, Channel, Config, ConfigError, Endpoint, PlatformLimits, Problem, Secret, Source, Variables,
    Workspace, environment,
};
use engine::addresses::{self, AccountExtras, ChannelExtras};
use engine::ingest::{Preset, SourceSettings};

/// The workspace of those who need only one.
pub(crate) const DEFAULT_WORKSPACE: &str = "default";

/// Reads the text of a file named `shown`; paths in it are relative to `folder`.
pub(super) fn parse(
    text: &str,
    shown: &str,
    folder: &Path,
    variables: Variables<'_>,
) -> Result<Config, ConfigError> {
    let mut reader = Reader {
        text,
        shown,
        folder,
        variables,
        limits: PlatformLimits::On,
        problems: Vec::new(),
        notes: Vec::new(),
        tiers: BTreeMap::new(),
    };
    match environment::platform_limits(variables) {
        Ok(limits) => reader.limits = limits,
        Err(problem) => reader.problems.push(problem),
    }
    let file: written::WrittenFile = match toml::from_str(text) {
        Ok(file) => file,
        Err(error) => {
            reader.problem(error.span().map_or(0, |span| span.start), worded(error.message()));
            return Err(ConfigError { problems: reader.problems });
        }
    };
    let config = reader.config(file);
    match reader.problems.is_empty() {
        true => Ok(config),
        false => Err(ConfigError { problems: reader.problems }),
    }
}

/// Serde's words for the two usual slips, in ours.
fn worded(message: &str) -> String {
    let message =
        message.replace("unknown field ", "unknown key ").replace("unknown variant ", "unknown value ");
    let message = match message.split_once(", expected one of ") {
        None => message,
        Some((slip, known)) => format!("{slip}; {}known are {known}", meant(slip, known)),
    };
    let message = message.replace(", expected ", "; expected ").replace("missing field ", "missing key ");
    message.trim().replace('\n', "; ")
}

/// The known word that was probably meant, as a question.
fn meant(slip: &str, known: &str) -> String {
    let wrong = slip.split('`').nth(1).unwrap_or_default();
    let near = domain::dialogue::fault::nearest(wrong, known.split('`').skip(1).step_by(2));
    near.map_or_else(String::new, |near| format!("did you mean `{near}`? "))
}

pub(super) struct Reader<'a> {
    text: &'a str,
    shown: &'a str,
    pub(super) folder: &'a Path,
    variables: Variables<'a>,
    limits: PlatformLimits,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<String>,
    tiers: BTreeMap<String, written::WrittenTier>,
}

/// The tier of those who name none.
const STANDARD: &str = "standard";

/// What a workspace says for all its channels.
struct Defaults {
    preset: Preset,
    time_zone: Option<String>,
}

impl Reader<'_> {
    pub(super) fn problem(&mut self, at: usize, text: impl Into<String>) {
        let line = 1 + self.text[..at.min(self.text.len())].matches('\n').count();
        self.problems.push(Problem { place: format!("{}:{line}", self.shown), text: text.into() });
    }

    fn config(&mut self, file: written::WrittenFile) -> Config {
        let name =
            file.workspace.as_ref().map_or(DEFAULT_WORKSPACE, |name| name.get_ref().as_str()).to_owned();
        let at_top = !(file.accounts.is_empty()
            && file.channels.is_empty()
            && file.alerts.is_none()
            && file.callbacks.is_none());
        let top = written::WrittenWorkspace {
            preset: file.preset,
            time_zone: file.time_zone,
            accounts: file.accounts,
            channels: file.channels,
            sources: file.sources,
            endpoints: file.endpoints,
            bots: file.bots,
            alerts: file.alerts,
            callbacks: file.callbacks,
        };
        self.tiers = file.tiers.into_iter().map(|(name, tier)| (name.into_inner(), tier)).collect();
        let mut workspaces = Vec::new();
        if at_top || file.workspaces.is_empty() {
            workspaces.push(self.workspace(name.clone(), top, true));
        }
        for (named, workspace) in file.workspaces {
            if at_top && *named.get_ref() == name {
                let text = format!(
                    "workspace {name} is also the one of the top level; set `workspace` there, or rename this one"
                );
                self.problem(named.span().start, text);
            }
            let workspace = self.workspace(named.into_inner(), workspace, false);
            workspaces.push(workspace);
        }
        Config { workspaces, notes: std::mem::take(&mut self.notes) }
    }

    /// `of_node`: its alerts are those of the whole node.
    fn workspace(&mut self, name: String, written: written::WrittenWorkspace, of_node: bool) -> Workspace {
        let defaults = Defaults {
            preset: written.preset.unwrap_or(Preset::Pets),
            time_zone: written.time_zone.map(|zone| zone.0),
        };
        let mut accounts: Vec<Account> =
            written.accounts.into_iter().map(|(name, account)| self.account(name, account)).collect();
        let channels: Vec<Channel> = written
            .channels
            .into_iter()
            .filter_map(|(name, channel)| self.channel(name, channel, &accounts, &defaults))
            .collect();
        let sources = self.sources(written.sources, &accounts, &defaults);
        let endpoints =
            written.endpoints.into_iter().map(|(name, endpoint)| self.endpoint(name, endpoint)).collect();
        let bots = self.bots(written.bots, &mut accounts, &channels);
        let mut workspace = Workspace { name, accounts, channels, sources, endpoints, bots, gone: false };
        if let Some(written) = written.alerts {
            self.alerts(&mut workspace, written, defaults.time_zone.as_deref(), of_node);
        }
        if let Some(written) = written.callbacks {
            self.callbacks(&mut workspace, written);
        }
        workspace
    }

    fn account(&mut self, name: Spanned<String>, written: written::WrittenAccount) -> Account {
        let platform = written.platform.0;
        let facts = known_platform(&platform).facts();
        let kind = written.kind.map_or(facts.usual_kind, |kind| kind.as_str());
        let tier = written.tier.as_ref().map_or(STANDARD, |tier| tier.get_ref().as_str());
        if [store::TIER_ALERTS, store::TIER_CALLBACKS].contains(&tier) {
            let at = written.tier.as_ref().map_or(0, |tier| tier.span().start);
            let text = format!("the tier {tier} is for [{tier}] alone; use standard, paid or one of [tiers]");
            self.problem(at, text);
        }
        let own = self.tiers.get(tier).cloned();
        if own.is_none() && ![STANDARD, addresses::TIER_PAID].contains(&tier) {
            let at = written.tier.as_ref().map_or(0, |tier| tier.span().start);
            let text = format!("there is no tier {tier}; write [tiers.{tier}], or use standard or paid");
            self.problem(at, text);
        }
        let own = own.unwrap_or_default();
        let usual = store::AccountSettings::default();
        let extras = AccountExtras { group_id: written.group_id };
        let proxy = written.proxy.as_ref().map(|proxy| self.secret(proxy));
        let limit = own.rate.as_ref().map(|rate| store::PlatformLimit {
            rate: Some(rate.0),
            burst: own.burst.as_ref().map_or(usual.burst, |n| n.0),
        });
        let account = Account {
            name: name.get_ref().clone(),
            token: self.secret(&written.token),
            settings: store::AccountSettings {
                kind: kind.to_owned(),
                tier: tier.to_owned(),
                rate: self.limited(
                    &format!("account {}: rate", name.get_ref()),
                    written.rate.map(|rate| rate.0),
                    facts.account_rate(kind, tier),
                    "the account",
                ),
                burst: written.burst.or(own.burst).map_or(usual.burst, |n| n.0),
                max_parallel: written.max_parallel.or(own.max_parallel).map_or(usual.max_parallel, |n| n.0),
                retry_parallel: written
                    .retry_parallel
                    .or(own.retry_parallel)
                    .map_or(usual.retry_parallel, |n| n.0),
                api_base: written.api_base.map(Into::into),
                proxy: proxy.map(|proxy| secrecy::ExposeSecret::expose_secret(proxy.reveal()).into()),
                extra_roots: written.extra_roots.map(|roots| roots.join(":")),
                settings: json!(extras),
            },
            platform,
            paused: written.paused,
            limit,
        };
        // The platform itself says whether token, address and proxy have the form it wants.
        if !self.is_missing(&account.token)
            && let Err(error) =
                addresses::account(&account.as_row(), account.token.reveal(), &Default::default())
        {
            self.problem(name.span().start, format!("{error:#}"));
        }
        account
    }

    fn channel(
        &mut self,
        name: Spanned<String>,
        written: written::WrittenChannel,
        accounts: &[Account],
        defaults: &Defaults,
    ) -> Option<Channel> {
        let account = self.find_account(&written.account, accounts)?;
        let platform = known_platform(&account.platform);
        let mut written = written;
        written.target.0 = platform.plain_target(&written.target.0);
        let doubt = platform.doubt(&written.target.0);
        self.notes.extend(doubt.map(|doubt| format!("channel {}: {doubt}", name.get_ref())));
        let settings = self.channel_settings(name.get_ref(), &written, account, defaults);
        let channel = Channel {
            name: name.get_ref().clone(),
            account: account.name.clone(),
            target: written.target.0,
            settings,
            enabled: written.enabled,
            paused: written.paused,
            was: written.was,
        };
        if written.unsure == Some(written::Unsure::Hold) && !asks_beyond_lost(&channel.settings) {
            let text = format!(
                "channel {}: unsure = \"hold\" would never hold anything: searches are published at once, and this \
                 channel has no route that asks for another kind; write one, such as any = [\"kind:found\"]",
                channel.name
            );
            self.problem(name.span().start, text);
        }
        if let Err(error) = channel.rehearse(account) {
            self.problem(name.span().start, format!("channel {}: {error:#}", channel.name));
        }
        Some(channel)
    }

    fn channel_settings(
        &mut self,
        name: &str,
        written: &written::WrittenChannel,
        account: &Account,
        defaults: &Defaults,
    ) -> store::ChannelSettings {
        let preset = preset(written.preset.unwrap_or(defaults.preset));
        let platform = known_platform(&account.platform);
        let chat_kind = written.chat_kind.unwrap_or_else(|| platform.chat_kind(&written.target.0));
        let rate = written.rate.as_ref().map(|rate| rate.0);
        let route = written.route.as_ref().map_or(preset.route.clone(), |route| Some(route.0.to_string()));
        store::ChannelSettings {
            chat_kind,
            rate: self.limited(
                &format!("channel {name}: rate"),
                rate,
                platform.facts().chat_rate(chat_kind),
                "the chat",
            ),
            max_parallel: written.max_parallel.as_ref().map_or(preset.max_parallel, |n| n.0),
            ambiguity: written.ambiguity.unwrap_or(platform.facts().ambiguity),
            dedup: written.dedup.unwrap_or(preset.dedup),
            dedup_ttl: written.dedup_ttl.as_ref().map_or(preset.dedup_ttl, |time| time.0),
            max_age: written.max_age.as_ref().map(|time| time.0),
            template: written.template.clone(),
            parse_mode: written.parse_mode.as_ref().map(|mode| mode.0.clone()),
            body_max: written.body_max.as_ref().map_or(preset.body_max, |n| n.0),
            overflow: written.overflow.unwrap_or(preset.overflow),
            max_media: written.max_media.map_or(preset.max_media, i32::from),
            route,
            quiet_hours: written.quiet_hours.as_ref().map(|hours| hours.0.clone()),
            time_zone: written
                .time_zone
                .as_ref()
                .map(|zone| zone.0.clone())
                .or_else(|| defaults.time_zone.clone()),
            settings: json!(channel_extras(written)),
        }
    }

    fn sources(
        &mut self,
        written: Named<written::WrittenSource>,
        accounts: &[Account],
        defaults: &Defaults,
    ) -> Vec<Source> {
        let mut sources = Vec::new();
        for (name, source) in written {
            let at = name.span().start;
            let settings = json!(source_settings(&source, defaults));
            let enabled = source.enabled.unwrap_or(true);
            let account = match &source.account {
                Some(written) => self.find_account(written, accounts).map(|account| account.name.clone()),
                None => None,
            };
            let make = |name: String, address: String| {
                let kind = source.kind.0.clone();
                Source { name, kind, address, account: account.clone(), enabled, settings: settings.clone() }
            };
            match (source.kind.0.as_str(), &source.groups, &source.url) {
                (FEED, None, Some(url)) if domain::message::is_web_address(url.get_ref()) => {
                    sources.push(make(name.get_ref().clone(), url.get_ref().clone()));
                }
                (FEED, ..) => {
                    self.problem(
                        at,
                        format!("source {}: a feed needs url = \"https://…\" and no groups", name.get_ref()),
                    );
                }
                (_, Some(groups), None) if !groups.is_empty() => {
                    if source.account.is_none() {
                        self.problem(
                            at,
                            format!(
                                "source {}: which account reads it? write account = \"NAME\"",
                                name.get_ref()
                            ),
                        );
                    }
                    sources.extend(
                        groups
                            .iter()
                            .map(|group| make(format!("{}/{}", name.get_ref(), group.0), group.0.clone())),
                    );
                }
                (wall, ..) => {
                    self.problem(
                        at,
                        format!(
                            "source {}: a {wall} source needs groups = [ids or screen names] and no url",
                            name.get_ref()
                        ),
                    );
                }
            }
        }
        sources
    }

    fn endpoint(&mut self, name: Spanned<String>, written: written::WrittenEndpoint) -> Endpoint {
        let secret = self.secret(&written.secret);
        let mut settings = serde_json::Map::new();
        settings.extend(written.rate.map(|rate| ("rate".to_owned(), json!(rate.0))));
        settings.extend(written.body_max.map(|n| ("body_max".to_owned(), json!(n.0))));
        if let Some(problem) = weakness(secrecy::ExposeSecret::expose_secret(secret.reveal()))
            && !self.is_missing(&secret)
        {
            let text = format!(
                "endpoint {}: the secret {problem}; draw one with `openssl rand -hex 32`",
                name.get_ref()
            );
            self.problem(written.secret.span().start, text);
        }
        Endpoint {
            name: name.into_inner(),
            kind: written.kind.as_str().to_owned(),
            secret,
            enabled: written.enabled.unwrap_or(true),
            settings: Value::Object(settings),
        }
    }

    pub(super) fn find_account<'b>(
        &mut self,
        written: &Spanned<String>,
        accounts: &'b [Account],
    ) -> Option<&'b Account> {
        let found = accounts.iter().find(|account| account.name == *written.get_ref());
        if found.is_none() {
            let known: Vec<&str> = accounts.iter().map(|account| account.name.as_str()).collect();
            let known =
                if known.is_empty() { "none; add [accounts.NAME]".to_owned() } else { known.join(", ") };
            self.problem(
                written.span().start,
                format!("account {:?} is not in this file; known are {known}", written.get_ref()),
            );
        }
        found
    }

    /// Fetches a secret; what cannot be fetched is a problem and an empty secret.
    pub(super) fn secret(&mut self, written: &Spanned<WrittenSecret>) -> Secret {
        let fetched = match written.get_ref() {
            WrittenSecret::Env(name) => {
                (self.variables)(name).filter(|value| !value.trim().is_empty()).ok_or_else(|| {
                    format!("variable {name} is not set; set it to the token, or name another one")
                })
            }
            WrittenSecret::File(path) => std::fs::read_to_string(self.folder.join(path)).map_err(|error| {
                format!("secret file {path}: {error}; put the token there, or name another file")
            }),
        };
        match fetched {
            Ok(secret) => Secret::new(secret.trim()),
            Err(text) => {
                self.problem(written.span().start, text);
                Secret::new("")
            }
        }
    }

    pub(super) fn is_missing(&self, secret: &Secret) -> bool {
        *secret == Secret::new("")
    }

    /// What is set, as far as the platform allows it; what is more than that is said.
    fn limited(&mut self, what: &str, setting: Option<f64>, limit: Option<f64>, whose: &str) -> Option<f64> {
        match self.limits {
            PlatformLimits::On => {
                self.notes.extend(super::capped(what, setting, limit, whose));
                effective_rate(setting, limit)
            }
            PlatformLimits::Off => setting,
        }
    }
}

/// A door's secret must not be guessed: it is kept as a plain hash, which a fast machine tries by the billion.
const SECRET_BYTES_MIN: usize = 16;
/// Fewer different characters than this were not drawn but typed.
const SECRET_DIFFERENT_MIN: usize = 8;

fn weakness(secret: &str) -> Option<String> {
    let different: std::collections::BTreeSet<char> = secret.chars().collect();
    match secret.len() {
        n if n < SECRET_BYTES_MIN => Some(format!("is shorter than {SECRET_BYTES_MIN} characters")),
        _ if different.len() < SECRET_DIFFERENT_MIN => {
            Some(format!("has fewer than {SECRET_DIFFERENT_MIN} different characters"))
        }
        _ => None,
    }
}

/// What a channel does unless it says otherwise (issue 7: `pets` publishes the lost once per case, `mirror` everything).
pub(super) fn preset(name: Preset) -> store::ChannelSettings {
    let route = match name {
        Preset::Pets => json!({"any": ["kind:lost"]}),
        Preset::Mirror => json!({}),
    };
    let (dedup, dedup_ttl) = name.dedup();
    store::ChannelSettings {
        route: Some(route.to_string()),
        dedup,
        dedup_ttl,
        ..store::ChannelSettings::default()
    }
}

/// A platform whose name was checked when it was read.
pub(super) fn known_platform(name: &str) -> &'static dyn Platform {
    platforms::registry::platform(name).expect("an account of an unknown platform is refused when it is read")
}

fn asks_beyond_lost(settings: &store::ChannelSettings) -> bool {
    let route = settings.route.as_deref().and_then(|route| serde_json::from_str(route).ok());
    route.is_some_and(|route: Route| route.asks_beyond_lost())
}

fn channel_extras(written: &written::WrittenChannel) -> ChannelExtras {
    let usual = ChannelExtras::default();
    let time = |time: &Option<written::Time>| time.as_ref().map(|time| span::show(time.0));
    ChannelExtras {
        silent: written.silent.unwrap_or(usual.silent),
        preview: written.preview.unwrap_or(usual.preview),
        topic: written.topic,
        pin: written.pin.unwrap_or(usual.pin),
        from_group: written.from_group.unwrap_or(usual.from_group),
        attach_media: written.attach_media.unwrap_or(usual.attach_media),
        protect: written.protect.unwrap_or(usual.protect),
        on_close: written.on_close.map(|word| word.as_str().to_owned()),
        on_edit: written.on_edit.map(|word| word.as_str().to_owned()),
        on_gone: written.on_gone.map(|word| word.as_str().to_owned()),
        unsure: written.unsure.map(|word| word.as_str().to_owned()),
        alerts: None,
        outcomes: None,
        tags: written.tags.clone().unwrap_or_default(),
        timeout: time(&written.timeout),
        upload_timeout: time(&written.upload_timeout),
    }
}

fn source_settings(written: &written::WrittenSource, defaults: &Defaults) -> SourceSettings {
    SourceSettings {
        preset: written.preset.unwrap_or(defaults.preset),
        city: written.home_city.clone(),
        utc_offset_minutes: written.utc_offset_minutes.as_ref().map_or(0, |offset| offset.0),
        horizon_hours: written.horizon.as_ref().map(|hours| hours.0),
        strict_no_phone: written.strict_no_phone.unwrap_or(false),
        tags: written.tags.clone().unwrap_or_default(),
        poll_seconds: written.interval.as_ref().map(|seconds| seconds.0),
    }
}

impl Account {
    /// The row it would become, for those who judge rows.
    pub(crate) fn as_row(&self) -> store::Account {
        store::Account {
            account_id: domain::ids::AccountId(0),
            workspace_id: domain::ids::WorkspaceId(0),
            platform: self.platform.clone(),
            name: self.name.clone(),
            fingerprint: String::new(),
            settings: self.settings.clone(),
            paused: false,
            paused_why: None,
            paused_at: None,
            cooldown_until: domain::time::Timestamp(0),
        }
    }
}

impl Channel {
    /// The row it would become, for those who judge rows.
    pub(crate) fn as_row(&self, account: &Account) -> store::Channel {
        store::Channel {
            channel_id: domain::ids::ChannelId(0),
            workspace_id: domain::ids::WorkspaceId(0),
            account_id: domain::ids::AccountId(0),
            platform: account.platform.clone(),
            name: self.name.clone(),
            target: self.target.clone(),
            target_since: domain::time::Timestamp(0),
            settings: self.settings.clone(),
            enabled: true,
            disabled_by: None,
            paused_until: domain::time::Timestamp(0),
            paused_why: None,
            error_streak: 0,
            tier: account.settings.tier.clone(),
        }
    }

    /// Renders a sample post, so that a wrong target, template or markup shows before anything is queued.
    pub(crate) fn rehearse(&self, account: &Account) -> anyhow::Result<()> {
        let settings = addresses::channel(&self.as_row(account), &account.as_row())?;
        let mut sample = domain::message::Message::text("Пропала собака, рыжая, с ошейником");
        sample.kind = "lost".into();
        let platform = addresses::platform(&account.platform)?;
        platform.render(&platforms::part::Action::Send, &sample, &settings)?;
        Ok(())
    }
}
