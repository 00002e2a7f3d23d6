//! Who hears of trouble, as accounts and channels like any other: `[alerts]` and the variables of the quick start.
//!
//! Each way has an account of its own in the tier `alerts`, which stop-all and holds do not stop; it shares the budget
//! of the token, and nothing else. Routes do not lead there, and nothing is kept back as a repeat.

use domain::limits::effective_rate;
use domain::time::Span;
use serde_json::json;
use toml::Spanned;

use super::meaning::{Reader, known_platform};
use super::written;
use super::{Account, Channel, Secret, Workspace};
use crate::language::Language;
use domain::chat::ChatKind;
use engine::addresses::{self, AlertExtras, ChannelExtras};

/// The platform of programs that hear.
const WEBHOOK: &str = platforms::webhook::NAME;
/// A secret shorter than this is weaker than the standard asks for.
const SECRET_BYTES: usize = 24;
/// An alert that could not be told for so long is no news any more.
const MAX_AGE: Span = Span::from_hours(6);
/// A program may be away over a weekend.
const CALLBACK_MAX_AGE: Span = Span::from_hours(72);

impl Reader<'_> {
    /// Who hears of trouble: the named channel by an account of its own, and a webhook.
    pub(super) fn alerts(
        &mut self,
        workspace: &mut Workspace,
        written: Spanned<written::WrittenAlerts>,
        time_zone: Option<&str>,
        of_node: bool,
    ) {
        let at = written.span().start;
        let written = written.into_inner();
        let settings = Settings {
            node: of_node,
            remind: written.remind.map(|time| engine::span::show(time.0)),
            quiet_hours: written.quiet_hours.map(|hours| hours.0),
            time_zone: written.time_zone.map(|zone| zone.0).or_else(|| time_zone.map(str::to_owned)),
            lang: written.lang,
        };
        if written.channel.is_none() && written.webhook.is_none() {
            self.problem(
                at,
                "[alerts] names nobody to tell; write channel = \"NAME\" or webhook = { url = … }",
            );
        }
        if let Some(name) = written.channel {
            match channel(workspace, name.get_ref(), &settings) {
                Ok(note) => self.notes.extend(note),
                Err(text) => self.problem(name.span().start, text),
            }
        }
        if let Some(named) = written.webhook {
            let secret = named.secret.as_ref().map(|secret| self.secret(secret));
            if secret.as_ref().is_some_and(|secret| self.is_missing(secret)) {
                return;
            }
            match webhook(workspace, named.url.get_ref(), secret, &settings) {
                Ok(note) => self.notes.extend(note),
                Err(text) => self.problem(named.url.span().start, text),
            }
        }
    }

    /// Which program hears what became of deliveries.
    pub(super) fn callbacks(&mut self, workspace: &mut Workspace, written: written::WrittenCallbacks) {
        let secret = written.secret.as_ref().map(|secret| self.secret(secret));
        if secret.as_ref().is_some_and(|secret| self.is_missing(secret)) {
            return;
        }
        let settings = Callbacks { outcomes: written.outcomes };
        match callbacks(workspace, written.url.get_ref(), secret, &settings) {
            Ok(note) => self.notes.extend(note),
            Err(text) => self.problem(written.url.span().start, text),
        }
    }
}

/// How trouble is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// Also trouble of the whole node.
    pub node: bool,
    pub remind: Option<String>,
    pub quiet_hours: Option<String>,
    pub time_zone: Option<String>,
    pub lang: Option<String>,
}

/// A channel of the configuration hears of trouble. One that has no route of its own hears nothing else, unless it is
/// the only one; the note says so.
pub(crate) fn channel(
    workspace: &mut Workspace,
    name: &str,
    settings: &Settings,
) -> Result<Option<String>, String> {
    let Some(at) = workspace.channels.iter().position(|channel| channel.name == name) else {
        let known: Vec<&str> = workspace.channels.iter().map(|channel| channel.name.as_str()).collect();
        let known = if known.is_empty() { "none; add [channels.NAME]".to_owned() } else { known.join(", ") };
        return Err(format!("[alerts] channel {name:?} is not in this file; known are {known}"));
    };
    let channel = workspace.channels[at].clone();
    let account = workspace.accounts.iter().find(|account| account.name == channel.account).cloned();
    let account = account.ok_or_else(|| format!("account {:?} is not in this file", channel.account))?;
    // The preset's route is what a channel has that names none.
    let routed = channel.settings.route.is_some()
        && channel.settings.route != super::meaning::preset(engine::ingest::Preset::Pets).route
        && channel.settings.route != super::meaning::preset(engine::ingest::Preset::Mirror).route;
    let alone = !routed && workspace.channels.len() > 1;
    let told = if alone { name.to_owned() } else { format!("alerts/{name}") };
    if alone {
        workspace.channels.remove(at);
    }
    let extras = serde_json::from_value(channel.settings.settings).unwrap_or_default();
    let (chat_kind, rate) = (channel.settings.chat_kind, channel.settings.rate);
    let place = Place { target: channel.target, chat_kind, rate, extras };
    tell(workspace, &account, &told, place, settings)?;
    Ok(alone.then(|| {
        format!("channel {name} hears of trouble and gets no posts; give it a `route` if it should get both")
    }))
}

/// A chat that is named by a variable.
pub(crate) fn chat(
    workspace: &mut Workspace,
    account: &Account,
    name: &str,
    target: &str,
    settings: &Settings,
) -> Result<(), String> {
    let place = Place::at(account, target);
    if place.chat_kind == ChatKind::Channel && is_wall(account) {
        return Err(format!(
            "{target:?} is a wall, which everybody may read; write the number of a person or of a conversation"
        ));
    }
    tell(workspace, account, &format!("alerts/{name}"), place, settings)
}

fn is_wall(account: &Account) -> bool {
    known_platform(&account.platform).facts().quick_start.as_ref().is_some_and(|start| start.is_wall)
}

/// Where it is told: what is known of it but for who speaks there.
struct Place {
    target: String,
    chat_kind: ChatKind,
    rate: Option<f64>,
    extras: ChannelExtras,
}

impl Place {
    /// One of which nothing but the target is known.
    fn at(account: &Account, target: &str) -> Place {
        let platform = known_platform(&account.platform);
        let chat_kind = platform.talk_kind(target);
        let rate = effective_rate(None, platform.facts().chat_rate(chat_kind));
        Place { target: target.trim().to_owned(), chat_kind, rate, extras: ChannelExtras::default() }
    }
}

/// A program that hears of trouble.
pub(crate) fn webhook(
    workspace: &mut Workspace,
    url: &str,
    secret: Option<Secret>,
    settings: &Settings,
) -> Result<Option<String>, String> {
    let (account, note) = receiver(secret, "[alerts]");
    let place = Place::at(&account, url);
    tell(workspace, &account, &format!("alerts/{WEBHOOK}"), place, settings).map(|()| note)
}

/// Programs that hear what became of deliveries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Callbacks {
    pub outcomes: Option<Vec<String>>,
}

/// A program that hears what became of the deliveries of this workspace.
pub(crate) fn callbacks(
    workspace: &mut Workspace,
    url: &str,
    secret: Option<Secret>,
    settings: &Callbacks,
) -> Result<Option<String>, String> {
    let known = engine::callbacks::OUTCOMES;
    if let Some(named) = &settings.outcomes {
        if let Some(wrong) = named.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("outcomes: {wrong:?} is not one; known are {}", known.join(", ")));
        }
        if named.is_empty() {
            return Err("outcomes is empty: nothing would be told; leave it out for all of them".to_owned());
        }
    }
    let (account, note) = receiver(secret, "[callbacks]");
    let extras = ChannelExtras { outcomes: settings.outcomes.clone(), ..ChannelExtras::default() };
    let settings =
        store::ChannelSettings { max_age: Some(CALLBACK_MAX_AGE), ..store::ChannelSettings::default() };
    let name = format!("{}/{WEBHOOK}", store::TIER_CALLBACKS);
    let place = Place { extras, ..Place::at(&account, url) };
    way(workspace, &account, store::TIER_CALLBACKS, &name, place, settings).map(|()| note)
}

/// The account of a webhook is its secret; without one its receiver cannot know who calls.
fn receiver(secret: Option<Secret>, table: &str) -> (Account, Option<String>) {
    let note = match &secret {
        None => Some(format!(
            "the webhook of {table} has no secret: its receiver cannot tell who calls; draw one with \
             `echo whsec_$(openssl rand -base64 32)`"
        )),
        Some(secret) => {
            let text = secrecy::ExposeSecret::expose_secret(secret.reveal());
            let short = text.len() < "whsec_".len() + SECRET_BYTES * 4 / 3;
            short.then(|| format!("the secret of {table} has fewer than {SECRET_BYTES} bytes, which is weak"))
        }
    };
    let account = Account {
        name: WEBHOOK.to_owned(),
        platform: WEBHOOK.to_owned(),
        token: secret.unwrap_or_else(|| Secret::new(platforms::webhook::UNSIGNED)),
        settings: store::AccountSettings::default(),
        paused: None,
        limit: None,
    };
    (account, note)
}

/// One way to tell of trouble.
fn tell(
    workspace: &mut Workspace,
    account: &Account,
    name: &str,
    place: Place,
    settings: &Settings,
) -> Result<(), String> {
    if let Some(hours) =
        settings.quiet_hours.as_ref().filter(|hours| super::quiet::Hours::parse(hours).is_none())
    {
        return Err(format!("quiet_hours {hours:?} are not hours of a day; write {}", super::quiet::FORM));
    }
    if let Some(remind) = settings.remind.as_ref().filter(|remind| engine::span::parse(remind).is_none()) {
        return Err(format!("remind {remind:?} is not a time; write {}", engine::span::FORM));
    }
    if let Some(lang) = settings.lang.as_ref().filter(|lang| Language::parse(lang).is_none()) {
        return Err(format!("lang {lang:?} is not a language here; write \"ru\" or \"en\""));
    }
    let alerts = AlertExtras {
        node: settings.node,
        remind: settings.remind.clone(),
        quiet_hours: settings.quiet_hours.clone(),
        lang: settings.lang.clone(),
    };
    let settings = store::ChannelSettings {
        max_age: Some(MAX_AGE),
        time_zone: settings.time_zone.clone(),
        ..store::ChannelSettings::default()
    };
    let place = Place { extras: ChannelExtras { alerts: Some(alerts), ..place.extras }, ..place };
    way(workspace, account, store::TIER_ALERTS, name, place, settings)
}

/// An account like the given one in a tier of its own, and a channel on it that hears no posts.
fn way(
    workspace: &mut Workspace,
    account: &Account,
    tier: &str,
    name: &str,
    place: Place,
    settings: store::ChannelSettings,
) -> Result<(), String> {
    let speaker = format!("{tier}/{}", account.name);
    let account = Account {
        name: speaker.clone(),
        settings: store::AccountSettings { tier: tier.into(), ..account.settings.clone() },
        paused: None,
        limit: None,
        ..account.clone()
    };
    let channel = Channel {
        name: name.to_owned(),
        account: speaker,
        target: place.target,
        settings: store::ChannelSettings {
            chat_kind: place.chat_kind,
            rate: place.rate,
            ambiguity: known_platform(&account.platform).facts().ambiguity,
            dedup: store::DedupMode::Off,
            settings: json!(place.extras),
            ..settings
        },
        was: None,
        enabled: None,
        paused: None,
    };
    addresses::account(&account.as_row(), account.token.reveal(), &Default::default())
        .map_err(|error| match account.platform == WEBHOOK {
            true => "the secret of a webhook is whsec_ and base64; draw one with `echo whsec_$(openssl rand -base64 32)`"
                .to_owned(),
            false => format!("{error:#}"),
        })?;
    channel.rehearse(&account).map_err(|error| format!("{error:#}"))?;
    if !workspace.accounts.iter().any(|known| known.name == account.name) {
        workspace.accounts.push(account);
    }
    if workspace.channels.iter().any(|known| known.name == channel.name) {
        return Err(format!("there is a channel {} already; rename it", channel.name));
    }
    workspace.channels.push(channel);
    Ok(())
}
