//! `rupor why`: the whole story of one post, gathered from the rows.
//!
//! Everything is read once into a `Story`; `words` makes sentences of it. Nothing here changes anything, and nothing is
//! guessed: what the rows do not say is not told. Start with `find` and `gather`.

pub(crate) mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use anyhow::bail;
use domain::content::Facts as Recognised;
use domain::destination::Destination;
use domain::ids::{DeliveryId, MessageId, WorkspaceId};
use domain::route::{Route, Subject};
use domain::time::Timestamp;
use platforms::walls;
use serde::Serialize;
use store::{Case, Channel, Delivery, HeldPost, Source, Store, StoreError, StoredMessage};

use crate::language::{Phrase, heard, say};
use crate::operate::facts::{DeliveryFacts, Facts, delivery as delivery_facts};
use crate::operate::words::Explanation;
use engine::ingest::SourceSettings;

/// Deliveries of one message that are told; a message rarely has more than it has channels.
const DELIVERIES_MAX: usize = 1_000;
/// People of a broadcast who are told of; ask about a delivery to hear of one.
const PEOPLE_SHOWN: usize = 5;

/// Everything that is known of one post.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Story {
    pub now: Timestamp,
    pub message: StoredMessage,
    /// The source that brought it, as it is configured now.
    pub source: Option<Source>,
    pub case: Option<Case>,
    /// What ended the case, if it ended.
    pub ending: Option<StoredMessage>,
    pub channels: Vec<Heard>,
    /// Deliveries to channels that were removed since.
    pub elsewhere: Vec<Told>,
    /// Deliveries to people: the one that was asked about, or the first few.
    pub people: Vec<ToldPerson>,
    /// There are more of those.
    pub more_people: bool,
}

/// What became of it for one person.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ToldPerson {
    /// As operators see them.
    pub called: String,
    #[serde(flatten)]
    pub told: Told,
}

/// A message, and the delivery if one was asked about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub message: StoredMessage,
    pub delivery: Option<Delivery>,
}

/// What one channel has to do with the post.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Heard {
    pub channel: Channel,
    pub rule: Rule,
    /// Where a person decides or decided about it.
    pub held: Option<HeldPost>,
    /// In the order they were made.
    pub deliveries: Vec<Told>,
    /// Photos beyond the limit, text that was cut: what readers do not see of it.
    pub left_out: Vec<String>,
}

/// Whether a channel should hear of the post, and by which rule.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(crate) struct Rule {
    pub passes: bool,
    pub because: Phrase,
}

/// One delivery with its past and what it means.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Told {
    #[serde(flatten)]
    pub about: DeliveryFacts,
    /// What it would have repeated.
    pub said_before: Option<Before>,
    pub explanation: Explanation,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Before {
    pub delivery: Delivery,
    pub message: StoredMessage,
}

/// What was asked about: a post by its address, a message, or a delivery.
pub(crate) async fn find(store: &Store, ws: WorkspaceId, asked: &str) -> anyhow::Result<Asked> {
    let whole = |message| Asked { message, delivery: None };
    if let Some((platform, owner, post)) = walls::post_named(asked) {
        let found = store.message_by_origin(ws, &format!("{platform}:{owner}"), &post.to_string()).await?;
        return found.map(whole).ok_or_else(|| anyhow::anyhow!(
            "wall{owner}_{post} was never seen here: is the wall a source (`$ rupor status`), and is the post \
             younger than the first reading or the horizon?"
        ));
    }
    let number = |prefix: &str| asked.strip_prefix(prefix).and_then(|rest| rest.parse::<i64>().ok());
    if let Some(id) = number("d") {
        return of_delivery(store, ws, DeliveryId(id)).await;
    }
    if let Some(id) = number("").or_else(|| number("m")) {
        return match store.message(ws, MessageId(id)).await {
            // A bare number is a message; where there is none, the delivery may be meant.
            Err(StoreError::NotFound { .. }) if number("").is_some() => {
                of_delivery(store, ws, DeliveryId(id)).await.map_err(|_| {
                    anyhow::anyhow!(
                        "there is neither a message nor a delivery {id}; `$ rupor delivery list` shows both"
                    )
                })
            }
            other => Ok(whole(other?)),
        };
    }
    match store.message_by_url(ws, asked).await? {
        Some(message) => Ok(whole(message)),
        None => {
            let example =
                walls::usual().map_or(String::new(), |(_, walls)| format!(" ({})", walls.post_page(-1, 2)));
            bail!(
                "{asked:?} is not known: give the address of a post{example}, the id of a message, \
                 or d and the id of a delivery (d12)"
            )
        }
    }
}

async fn of_delivery(store: &Store, ws: WorkspaceId, id: DeliveryId) -> anyhow::Result<Asked> {
    let delivery = store.delivery(ws, id).await?;
    Ok(Asked { message: store.message(ws, delivery.message_id).await?, delivery: Some(delivery) })
}

/// Reads the story of a message; of one channel only, if one is named.
pub(crate) async fn gather(
    store: &Store,
    known: &Facts,
    asked: Asked,
    only: Option<&Channel>,
) -> anyhow::Result<Story> {
    let Asked { message, delivery: asked } = asked;
    let ws = known.workspace.workspace_id;
    let source = store.sources(ws).await?.into_iter().find(|source| brings(source, &message));
    let case = match message.case_id {
        Some(id) => Some(store.case(ws, id).await?),
        None => None,
    };
    let ending = match case.as_ref().and_then(|case| case.closed_by) {
        Some(id) => store.message(ws, id).await.ok(),
        None => None,
    };
    let rows = store.deliveries_of(ws, vec![message.message_id], DELIVERIES_MAX).await?;
    let held = store.held_of(ws, message.message_id).await?;
    let wanted = |channel: &&Channel| only.is_none_or(|only| only.channel_id == channel.channel_id);
    let mut channels = Vec::new();
    for channel in known.channels.iter().filter(wanted) {
        let mut deliveries = Vec::new();
        for row in rows.iter().filter(|row| row.destination == Destination::Channel(channel.channel_id)) {
            deliveries.push(delivery_story(store, known, row.delivery_id).await?);
        }
        let rule = rule(channel, source.as_ref(), &message);
        let held = held.iter().find(|post| post.channel_id == channel.channel_id).cloned();
        let left_out = if deliveries.is_empty() { Vec::new() } else { left_out(known, channel, &message) };
        channels.push(Heard { channel: channel.clone(), rule, held, deliveries, left_out });
    }
    let mut elsewhere = Vec::new();
    let is_known = |row: &Delivery| known.channel_of(row).is_some();
    for row in rows.iter().filter(|row| only.is_none() && !is_known(row)) {
        elsewhere.push(delivery_story(store, known, row.delivery_id).await?);
    }
    let (people, more_people) = match only {
        Some(_) => (Vec::new(), false),
        None => people(store, known, &message, asked).await?,
    };
    Ok(Story { now: known.now, message, source, case, ending, channels, elsewhere, people, more_people })
}

/// What the channel's own limits leave out of a post, by the very rules that send it.
pub(crate) fn left_out(known: &Facts, channel: &Channel, message: &StoredMessage) -> Vec<String> {
    let Ok(words) = serde_json::from_value::<domain::message::Message>(message.payload.clone()) else {
        return Vec::new();
    };
    let rendered = known.account_of(channel).and_then(|account| {
        let settings = engine::addresses::channel(channel, account).ok()?;
        let platform = engine::addresses::platform(&channel.platform).ok()?;
        platform.render(&platforms::part::Action::Send, &words, &settings).ok()
    });
    let mut notes = rendered.map(|rendered| rendered.notes).unwrap_or_default();
    let (kept, of) = (channel.settings.body_max as usize, words.text.chars().count());
    if channel.settings.overflow == domain::chat::Overflow::Cut && of > kept {
        notes.push(format!("{kept} of {of} characters kept"));
    }
    notes
}

/// The person who was asked about; else the first few, and whether there are more.
async fn people(
    store: &Store,
    known: &Facts,
    message: &StoredMessage,
    asked: Option<Delivery>,
) -> anyhow::Result<(Vec<ToldPerson>, bool)> {
    let ws = known.workspace.workspace_id;
    let mut rows = match asked {
        Some(delivery) => vec![delivery],
        None => store.deliveries_to_people(ws, message.message_id, PEOPLE_SHOWN + 1).await?,
    };
    let more = rows.len() > PEOPLE_SHOWN;
    rows.truncate(PEOPLE_SHOWN);
    let mut people = Vec::new();
    for row in rows.iter().filter(|row| row.destination.recipient().is_some()) {
        let told = delivery_story(store, known, row.delivery_id).await?;
        people.push(ToldPerson { called: known.called(&told.about), told });
    }
    Ok((people, more))
}

async fn delivery_story(store: &Store, known: &Facts, id: DeliveryId) -> anyhow::Result<Told> {
    let ws = known.workspace.workspace_id;
    let about = delivery_facts(store, ws, id).await?;
    let is_repeat = about.delivery.reason.as_deref() == Some("duplicate");
    let said_before = match if is_repeat { store.said_before(ws, id).await? } else { None } {
        Some(delivery) => {
            let message = store.message(ws, delivery.message_id).await?;
            Some(Before { delivery, message })
        }
        None => None,
    };
    let explanation = crate::operate::words::delivery(known, &about);
    Ok(Told { about, said_before, explanation })
}

/// Whether this source reads what the message came from.
pub(crate) fn brings(source: &Source, message: &StoredMessage) -> bool {
    match (source.kind.as_str(), message.source.split_once(':')) {
        (kind, Some((of, owner))) if kind == of && walls::of(kind).is_some() => {
            source.address == owner
                || source.cursor["owner"].as_i64().is_some_and(|id| id.to_string() == owner)
        }
        (kind, Some((of, name))) => kind == of && (source.name == name || source.address == name),
        _ => false,
    }
}

/// The rule as it stands now, asked again: what was decided then is what the deliveries show.
fn rule(channel: &Channel, source: Option<&Source>, message: &StoredMessage) -> Rule {
    let written = channel.settings.route.as_deref().map(str::trim).filter(|route| !route.is_empty());
    let Some(written) = written else {
        return preset_rule(source, &message.kind);
    };
    let asked = serde_json::from_str(written)
        .map_err(|error| error.to_string())
        .and_then(|value| Route::parse(&value).map_err(|error| error.to_string()))
        .and_then(|route| {
            let facts: Recognised =
                serde_json::from_value(message.facts.clone()).map_err(|error| error.to_string())?;
            let tags: BTreeSet<String> = serde_json::from_value(message.tags.clone()).unwrap_or_default();
            let text = message.payload["text"].as_str().unwrap_or_default();
            Ok(route.check(&Subject { tags: &tags, facts: &facts, text }))
        });
    match asked {
        Ok(verdict) => {
            Rule { passes: verdict.passes, because: say!("why.rule.own", why = heard(&verdict.because)) }
        }
        Err(error) => Rule { passes: false, because: say!("why.rule.broken", why = error) },
    }
}

fn preset_rule(source: Option<&Source>, kind: &str) -> Rule {
    let preset =
        source.and_then(|source| SourceSettings::of(&source.settings).ok()).unwrap_or_default().preset;
    let passes = match preset {
        engine::ingest::Preset::Pets => kind == "lost",
        engine::ingest::Preset::Mirror => true,
    };
    let because = match preset {
        engine::ingest::Preset::Pets => say!("why.rule.lost_only", preset = preset.name()),
        engine::ingest::Preset::Mirror => say!("why.rule.everything", preset = preset.name()),
    };
    Rule { passes, because }
}
