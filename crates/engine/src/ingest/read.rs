//! Reading a post: everything that follows from its words alone. Pure; the time is an argument.

use domain::content::cases::{self, Sketch};
use domain::content::facts::Fact;
use domain::content::fingerprint::fingerprint;
use domain::content::picture::PictureHash;
use domain::content::similarity::stable_hash;
use domain::content::tags::{TagContext, tags};
use domain::content::{Analysis, FACTS_VERSION, HASH_VERSION, Kind, Post, analyse, pet, shown_place};
use domain::ids::ChannelId;
use domain::message::{Media, MediaKind, Message};
use domain::route::Subject;
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::{Held, NewMessage, NewPost};

use super::pictures::Kept;
use super::rules::Routed;
use super::{PICTURES_MAX, PublishRules, RawPost, TEXT_MAX};

/// Words that are shorter than this are told apart by the pictures that stand with them.
const SHORT_TEXT: usize = 100;

/// What a post says and who should hear it.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Whether words alone may say that this is a known case.
    words_merge: bool,
    pub post: Post,
    pub analysis: Analysis,
    pub tags: Vec<String>,
    pub fingerprint: Option<String>,
    pub channels: Vec<ChannelId>,
    /// Where a person decides first.
    pub held: Option<Held>,
    /// Why nobody hears it.
    pub skipped: Option<String>,
}

/// Reads, judges and routes.
pub fn read(raw: &RawPost, rules: &PublishRules, now: Timestamp) -> Reading {
    let post = post_of(raw, rules, now);
    let mut analysis = analyse(&post);
    if let Some(kind) = raw.kind {
        analysis.facts.kind = Fact::silent(kind);
        (analysis.facts.unsure, analysis.facts.nearly) = (false, None);
    }
    let context = TagContext {
        source: Some(&rules.source_name),
        platform: rules.platform,
        photos: raw.pictures.len() + raw.kept.len(),
        videos: raw.others.iter().filter(|other| other.kind == "video" || other.kind == "clip").count(),
        reposted: !raw.copies.is_empty(),
    };
    let all_tags = tags(&analysis.facts, context);
    let text = whole_text(raw);
    let subject = Subject { tags: &all_tags, facts: &analysis.facts, text: &text };
    let routed = match (withheld(raw, rules, &analysis, now), &raw.channels) {
        (Some(why), _) => Err(why),
        (None, Some(channels)) => Ok(Routed { channels: channels.clone(), held: None }),
        (None, None) => rules.route(&analysis.facts, &subject),
    };
    let (Routed { channels, held }, skipped) = match routed {
        Ok(routed) => (routed, None),
        Err(why) => (Routed::default(), Some(why)),
    };
    let fingerprint = fingerprint(&analysis.facts, &analysis.cleaned, rules.strict_no_phone);
    Reading {
        // Strict: without a phone, and without both an animal and a place, words alone never merge.
        words_merge: !rules.strict_no_phone || fingerprint.is_some(),
        fingerprint,
        tags: all_tags.into_iter().collect(),
        post,
        analysis,
        channels,
        held,
        skipped,
    }
}

impl Reading {
    /// Nothing that could be a case.
    pub fn is_silent(&self) -> bool {
        matches!(self.analysis.facts.kind.value, Kind::Link | Kind::Empty | Kind::Ad | Kind::News)
    }

    /// The post for the store, with the pictures that could be kept.
    pub fn finish(self, raw: &RawPost, kept: Kept) -> NewPost {
        let sketch = Sketch::new(&self.post, &self.analysis.facts, &self.analysis.cleaned, &kept.looks());
        let sketch = if self.words_merge { sketch } else { sketch.without_words() };
        let facts = &self.analysis.facts;
        let payload = Message {
            kind: facts.kind.value.name().to_owned(),
            title: None,
            text: whole_text(raw),
            media: media(raw, &kept),
            phones: facts.phone_numbers().map(str::to_owned).collect(),
            city: facts.city.as_ref().map(|city| city.value.clone()),
            place: facts.place.as_ref().map(|place| shown_place(&place.value)),
            pet: pet(facts),
            was: String::new(),
            tags: Vec::new(),
            buttons: Vec::new(),
            origin: Some(raw.origin.clone()),
            data: None,
            personal: false,
        };
        let mut told = json!(facts);
        if !kept.notes.is_empty() {
            told["notes"] = json!(kept.notes);
        }
        let message = NewMessage {
            hash_version: i32::from(HASH_VERSION),
            fingerprint: self.fingerprint,
            kind: facts.kind.value.name().to_owned(),
            facts: told,
            facts_version: i32::from(FACTS_VERSION),
            tags: self.tags,
            origin: origin(raw),
            channels: self.channels,
            skipped: self.skipped,
            ..NewMessage::new(&raw.source, &raw.origin_id, content_hash(&payload, &kept), json!(payload))
        };
        NewPost { message, sketch: Some(sketch), held: self.held }
    }
}

/// What stays of a post that cannot be stored: where it was, and why.
pub fn unreadable(raw: &RawPost, problem: &str) -> NewPost {
    let payload = json!(Message { origin: Some(raw.origin.clone()), ..Message::default() });
    let message = NewMessage {
        hash_version: i32::from(HASH_VERSION),
        facts_version: i32::from(FACTS_VERSION),
        origin: origin(raw),
        skipped: Some(format!("unreadable: {problem}")),
        ..NewMessage::new(&raw.source, &raw.origin_id, mark(raw), payload)
    };
    NewPost { message, sketch: None, held: None }
}

/// What tells a changed post from the same one seen again: its words, the words it reposts, and which pictures.
pub fn mark(raw: &RawPost) -> String {
    let copies: Vec<&str> = raw.copies.iter().map(|copy| copy.text.as_str()).collect();
    let pictures: Vec<&str> = raw.pictures.iter().map(|picture| picture.key.as_str()).collect();
    let kept: Vec<Option<&str>> = raw.kept.iter().map(|media| media.blob.as_deref()).collect();
    let all = json!([raw.title, raw.text, copies, pictures, kept, raw.withheld]);
    hex(&[all.to_string().as_bytes()])
}

/// Why a post is not for everybody, whatever it says.
fn withheld(raw: &RawPost, rules: &PublishRules, analysis: &Analysis, now: Timestamp) -> Option<String> {
    if let Some(why) = &raw.withheld {
        return Some(why.clone());
    }
    let date = raw.origin.date.unwrap_or_default();
    let age_s = (now.0 / 1_000_000).saturating_sub(date);
    let horizon_s = rules.horizon.0 / 1_000_000;
    if date > 0 && age_s > horizon_s {
        let (age, most) = (age_s / 3600, horizon_s / 3600);
        return Some(format!("too old: posted {age} hours ago, at most {most} are published"));
    }
    let pictured = !raw.pictures.is_empty() || !raw.kept.is_empty();
    let nothing = analysis.facts.kind.value == Kind::Empty && !pictured;
    nothing.then(|| "empty: nothing to read".to_owned())
}

/// What says no date of its own was posted now.
fn post_of(raw: &RawPost, rules: &PublishRules, now: Timestamp) -> Post {
    let title = raw.title.as_deref().filter(|title| !raw.text.starts_with(*title));
    let words: Vec<&str> = title.into_iter().chain([raw.text.as_str()]).collect();
    let mut copies = raw.copies.clone();
    for copy in &mut copies {
        copy.text = head(&copy.text, TEXT_MAX);
    }
    let (owner_id, post_id) = ids_of(raw);
    Post {
        owner_id,
        post_id,
        date: raw.origin.date.unwrap_or(now.0 / 1_000_000),
        text: head(&words.join("\n"), TEXT_MAX),
        copy_history: copies,
        photos: Vec::new(),
        home: rules.home.clone(),
    }
}

/// Cases are found by where a post stands. What has no numbers of its own gets them from its names, far away from
/// those of VK.
fn ids_of(raw: &RawPost) -> (i64, i64) {
    let place = stands_at(&raw.source, &raw.origin_id, &raw.origin);
    (place.owner_id, place.post_id)
}

/// Where a post stands, as the records of cases know it.
pub fn stands_at(source: &str, origin_id: &str, origin: &domain::message::Origin) -> cases::Origin {
    if let (Some(owner_id), Some(post_id)) = (origin.owner_id, origin.post_id) {
        return cases::Origin { owner_id, post_id };
    }
    let number = |text: &str| (stable_hash(text.as_bytes()) >> 2).cast_signed();
    let owner_id = -(1_i64 << 62) - number(source) % (1 << 61);
    cases::Origin { owner_id, post_id: (1_i64 << 62) + number(origin_id) % (1 << 61) }
}

/// Own words first, then those that are reposted.
fn whole_text(raw: &RawPost) -> String {
    let title = raw.title.as_deref().filter(|title| !raw.text.starts_with(*title));
    let copies = raw.copies.iter().map(|copy| copy.text.as_str());
    let texts = title.into_iter().chain([raw.text.as_str()]).chain(copies);
    let texts: Vec<&str> = texts.map(str::trim).filter(|text| !text.is_empty()).collect();
    head(&texts.join("\n\n"), TEXT_MAX)
}

fn head(text: &str, characters: usize) -> String {
    let plain = text.chars().filter(|character| *character != '\0');
    plain.take(characters).collect()
}

fn media(raw: &RawPost, kept: &Kept) -> Vec<Media> {
    let pictures = kept.pictures.iter().map(|picture| picture.media.clone());
    let others = raw.others.iter().filter_map(|other| {
        let kind = match other.kind.as_str() {
            "video" | "clip" => MediaKind::Video,
            "doc" => MediaKind::Document,
            _ => return None,
        };
        Some(Media { kind, page: Some(other.page.clone()?), ..Media::default() })
    });
    pictures.chain(others).take(PICTURES_MAX).collect()
}

/// The same words in the same shape; short ones with their pictures.
fn content_hash(payload: &Message, kept: &Kept) -> String {
    let words: Vec<String> = payload.text.split_whitespace().map(str::to_lowercase).collect();
    let words = words.join(" ");
    if words.chars().count() >= SHORT_TEXT {
        return hex(&[words.as_bytes()]);
    }
    let mut parts = vec![words.as_bytes()];
    for picture in &kept.pictures {
        parts.push(picture.media.blob.as_deref().unwrap_or(&picture.key).as_bytes());
    }
    hex(&parts)
}

fn hex(parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

fn origin(raw: &RawPost) -> Value {
    let mut origin = json!(raw.origin);
    origin["hash"] = mark(raw).into();
    origin
}

impl Kept {
    /// What the case is found by.
    fn looks(&self) -> Vec<PictureHash> {
        self.pictures.iter().filter_map(|picture| picture.look).collect()
    }
}
