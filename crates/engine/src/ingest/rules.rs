//! What a workspace wants published: the preset of the source and the routes of the channels.
//! Pure but for `PublishRules::load`, which reads rows.

use anyhow::Context;
use domain::content::{Facts, Home, Kind};
use domain::ids::{ChannelId, WorkspaceId};
use domain::limits::{DEDUP_TTL, DEDUP_TTL_PETS};
use domain::route::{Route, Subject};
use domain::time::Span;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Channel, DedupMode, Held, Store};

/// Older posts are kept, not published.
pub(super) const HORIZON: Span = Span::from_hours(24);

/// Which kinds go to channels that have no route of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Lost pets, each case once in 72 hours.
    #[default]
    Pets,
    /// Everything, the same words once in 168 hours.
    Mirror,
}

impl Preset {
    pub fn name(self) -> &'static str {
        match self {
            Preset::Pets => "pets",
            Preset::Mirror => "mirror",
        }
    }

    /// What a new channel counts as a repeat, and for how long.
    pub fn dedup(self) -> (DedupMode, Span) {
        match self {
            Preset::Pets => (DedupMode::Case, DEDUP_TTL_PETS),
            Preset::Mirror => (DedupMode::Content, DEDUP_TTL),
        }
    }

    fn publishes(self, kind: Kind) -> bool {
        match self {
            Preset::Pets => kind == Kind::Lost,
            Preset::Mirror => true,
        }
    }
}

/// What the `settings` of a source row may hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSettings {
    pub preset: Preset,
    /// The home of the source, where a post names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    /// What "yesterday" is counted on.
    pub utc_offset_minutes: i32,
    /// Publish posts up to this age; more than a day is a backfill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon_hours: Option<i64>,
    /// Without phones a fingerprint needs an animal and a place.
    pub strict_no_phone: bool,
    /// Words that an operator names several sources by (`rupor source pause --tag`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Usual time between two polls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_seconds: Option<i64>,
}

impl SourceSettings {
    pub fn of(settings: &Value) -> anyhow::Result<SourceSettings> {
        if settings.is_null() {
            return Ok(SourceSettings::default());
        }
        serde_json::from_value(settings.clone()).context("the settings of the source cannot be read")
    }
}

/// When the pictures of a post are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pictures {
    /// Before it is stored.
    Now,
    /// Somebody waits for an answer: the post is stored with their addresses and held back for so long, in which
    /// `take_in` with `Now` gives it their bytes. Without that it goes on as it is.
    Later(Span),
}

/// Everything that decides about the posts of one source.
#[derive(Debug, Clone)]
pub struct PublishRules {
    /// The source's name, for tags.
    pub source_name: String,
    pub platform: Option<&'static str>,
    pub home: Home,
    pub preset: Preset,
    pub strict_no_phone: bool,
    pub horizon: Span,
    pub pictures: Pictures,
    listeners: Vec<Listener>,
    /// What people call the channels, for the log.
    names: Vec<(ChannelId, String)>,
}

#[derive(Debug, Clone)]
struct Listener {
    channel_id: ChannelId,
    route: Option<Route>,
    /// A person looks first at what nobody is sure of.
    holds_unsure: bool,
}

/// Who hears a post now, and where a person decides first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routed {
    pub channels: Vec<ChannelId>,
    pub held: Option<Held>,
}

impl PublishRules {
    pub fn new(source_name: &str, settings: &SourceSettings, channels: &[Channel]) -> PublishRules {
        PublishRules {
            source_name: source_name.to_owned(),
            platform: None,
            home: Home { city: settings.city.clone(), utc_offset_minutes: settings.utc_offset_minutes },
            preset: settings.preset,
            strict_no_phone: settings.strict_no_phone,
            horizon: settings.horizon_hours.map_or(HORIZON, Span::from_hours),
            pictures: Pictures::Now,
            listeners: channels.iter().filter_map(listener).collect(),
            names: channels.iter().map(|channel| (channel.channel_id, channel.name.clone())).collect(),
        }
    }

    /// Reads the channels of the workspace as they are now.
    pub async fn load(
        store: &Store,
        workspace: WorkspaceId,
        source_name: &str,
        settings: &SourceSettings,
    ) -> anyhow::Result<PublishRules> {
        Ok(PublishRules::new(source_name, settings, &store.channels(workspace).await?))
    }

    /// The names of these channels on one line.
    pub(super) fn called(&self, ids: impl Iterator<Item = ChannelId>) -> String {
        let name = |id| self.names.iter().find(|(known, _)| *known == id).map(|(_, name)| name.as_str());
        ids.filter_map(name).collect::<Vec<_>>().join(", ")
    }

    /// Who should hear a post, and why nobody if nobody.
    pub fn route(&self, facts: &Facts, subject: &Subject<'_>) -> Result<Routed, String> {
        let kind = facts.kind.value;
        let hears = |listener: &&Listener| match &listener.route {
            Some(route) => route.check(subject).passes,
            None => self.preset.publishes(kind),
        };
        // A search is never kept waiting.
        let nearly = facts.nearly.filter(|_| kind != Kind::Lost);
        let waits = |listener: &&Listener| listener.holds_unsure && nearly.is_some();
        let (held, heard): (Vec<&Listener>, Vec<&Listener>) =
            self.listeners.iter().filter(hears).partition(waits);
        if held.is_empty() && heard.is_empty() {
            return Err(self.nobody(kind));
        }
        let ids = |listeners: &[&Listener]| listeners.iter().map(|listener| listener.channel_id).collect();
        let why = nearly.map(|nearly| unsure(kind, nearly)).unwrap_or_default();
        let held = (!held.is_empty()).then(|| Held { channels: ids(&held), why });
        Ok(Routed { channels: ids(&heard), held })
    }

    fn nobody(&self, kind: Kind) -> String {
        match kind {
            _ if self.listeners.is_empty() => "no route: the workspace has no channels".to_owned(),
            Kind::Link => "link: nothing to read but a link".to_owned(),
            Kind::Empty => "empty: nothing to read".to_owned(),
            Kind::Ad => "ad: it reads like an advertisement".to_owned(),
            _ => format!("no route: no channel accepts «{}» posts", kind.name()),
        }
    }
}

fn unsure(kind: Kind, nearly: Kind) -> String {
    format!("unsure: it reads as {}, and nearly as much as {}", kind.name(), nearly.name())
}

/// A channel whose route cannot be read hears nothing: a misread route might publish everything. One that is for alerts
/// or callbacks hears no posts.
fn listener(channel: &Channel) -> Option<Listener> {
    if channel.is_of_alerts() || channel.is_of_callbacks() {
        return None;
    }
    let written = channel.settings.route.as_deref().map(str::trim).filter(|route| !route.is_empty());
    let route = match written.map(parse_route) {
        None => None,
        Some(Ok(route)) => Some(route),
        Some(Err(error)) => {
            tracing::error!(
                channel = channel.name,
                error,
                "the channel's route cannot be read; it gets nothing"
            );
            return None;
        }
    };
    // A mirror says what others said; nobody asked it for a kind.
    let holds_unsure =
        channel.settings.settings["unsure"] == "hold" && route.as_ref().is_some_and(Route::asks_beyond_lost);
    Some(Listener { channel_id: channel.channel_id, route, holds_unsure })
}

fn parse_route(written: &str) -> Result<Route, String> {
    let value: Value = serde_json::from_str(written).map_err(|error| error.to_string())?;
    Route::parse(&value).map_err(|error| error.to_string())
}
