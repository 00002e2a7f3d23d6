//! Attachments: `photo-1_2_key,doc3_4,https://…` as they are asked for, the objects they become,
//! and how the page and the ledger show them.

use serde_json::{Value, json};

use crate::chats::Media;
use crate::core::SharedCore;

use super::args::number;
use super::errors::ApiError;
use super::photos::{self, Purpose, Source};
use super::state::State;

/// An uploaded document, voice message or graffiti.
#[derive(Clone, Debug)]
pub struct Doc {
    pub id: i64,
    pub owner_id: i64,
    pub title: String,
    pub ext: String,
    pub date: i64,
    pub access_key: String,
    pub sha256: String,
    pub bytes: usize,
    /// doc, audio_message or graffiti.
    pub kind: &'static str,
    pub size: Option<(u32, u32)>,
}

/// A video, which is ready as soon as its bytes are there.
#[derive(Clone, Debug)]
pub struct Video {
    pub id: i64,
    pub owner_id: i64,
    pub title: String,
    pub description: String,
    pub date: i64,
    pub access_key: String,
    pub sha256: Option<String>,
}

/// Where attachments are going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Wall,
    Comment,
    Message,
}

/// Most attachments of one post or message.
pub(super) const ATTACHMENTS_MAX: usize = 10;

/// Turns the list into objects. What does not exist is left out without a word, as VK does;
/// what cannot be read is an error.
pub(super) fn resolve(
    core: &SharedCore,
    state: &State,
    asked: &[&str],
    place: Place,
) -> Result<Vec<Value>, ApiError> {
    if asked.len() > ATTACHMENTS_MAX {
        return Err(ApiError::parameter("too many attachments"));
    }
    let links = asked.iter().filter(|text| is_link(text)).count();
    if links > 1 {
        return Err(ApiError::parameter("attachments should contain only one link"));
    }
    let mut found = Vec::new();
    for text in asked {
        if is_link(text) {
            found.push(link(text));
            continue;
        }
        let name = parse(text).ok_or_else(|| ApiError::parameter("attachments is invalid"))?;
        found.extend(object(core, state, &name, place));
    }
    Ok(found)
}

/// `photo-1_2_key` taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    pub kind: &'a str,
    pub owner_id: i64,
    pub id: i64,
}

/// Reads `{type}{owner}_{id}[_{key}]`.
pub(super) fn parse(text: &str) -> Option<Name<'_>> {
    let split = text.find(|c: char| c == '-' || c.is_ascii_digit())?;
    let (kind, rest) = text.split_at(split);
    let mut parts = rest.splitn(3, '_');
    let owner_id = number(parts.next()?)?;
    let id = number(parts.next()?)?;
    let known = kind.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !kind.is_empty();
    known.then_some(Name { kind, owner_id, id })
}

fn is_link(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn link(url: &str) -> Value {
    let host = url.split('/').nth(2).unwrap_or_default();
    json!({ "type": "link", "link": { "url": url, "title": host, "caption": host, "description": "", "is_external": 1 } })
}

fn object(core: &SharedCore, state: &State, name: &Name<'_>, place: Place) -> Option<Value> {
    let key = (name.owner_id, name.id);
    match name.kind {
        "photo" => {
            let photo = state.files.photos.get(&key)?;
            // A photo uploaded for messages vanishes from posts although the post goes through.
            let fits = place != Place::Wall || photo.purpose == Purpose::Wall;
            fits.then(|| json!({ "type": "photo", "photo": photo.object(core) }))
        }
        "doc" | "audio_message" | "graffiti" => {
            let doc = state.files.docs.get(&key)?;
            Some(json!({ "type": doc.kind, doc.kind: doc.object(core) }))
        }
        "video" => {
            let video = state.files.videos.get(&key)?;
            Some(json!({ "type": "video", "video": video.object(core) }))
        }
        "wall" if place == Place::Message => {
            let post = state.walls.get(&name.owner_id)?.posts.get(&name.id)?;
            Some(json!({ "type": "wall", "wall": post.object.open() }))
        }
        // Polls, audio, pages and goods are not kept here: their names are enough.
        "poll" | "audio" | "page" | "note" | "album" | "market" | "market_album" | "audio_playlist"
        | "podcast" | "story" => {
            Some(json!({ "type": name.kind, name.kind: { "id": name.id, "owner_id": name.owner_id } }))
        }
        _ => None,
    }
}

impl Doc {
    pub fn object(&self, core: &SharedCore) -> Value {
        let url = format!(
            "{}/vk/cdn/doc/{}/{}.{}?hash={}&dl=1&api=1",
            core.origin, self.sha256, self.id, self.ext, &self.access_key
        );
        if self.kind == "audio_message" {
            return json!({ "id": self.id, "owner_id": self.owner_id, "duration": 1, "waveform": [0, 5, 0],
                "link_mp3": url, "link_ogg": url, "access_key": self.access_key });
        }
        if self.kind == "graffiti" {
            let (width, height) = self.size.unwrap_or((512, 512));
            return json!({ "id": self.id, "owner_id": self.owner_id, "url": url, "width": width,
                "height": height, "access_key": self.access_key });
        }
        json!({
            "id": self.id,
            "owner_id": self.owner_id,
            "title": self.title,
            "size": self.bytes,
            "ext": self.ext,
            "date": self.date,
            "type": self.type_number(),
            "url": url,
            "access_key": self.access_key,
            "is_unsafe": 0,
        })
    }

    fn type_number(&self) -> i64 {
        match self.ext.as_str() {
            "txt" | "pdf" | "doc" | "docx" | "xls" | "xlsx" | "rtf" | "ppt" | "pptx" => 1,
            "zip" | "rar" | "7z" | "tar" | "gz" => 2,
            "gif" => 3,
            "jpg" | "jpeg" | "png" | "webp" | "bmp" => 4,
            "ogg" | "wav" | "flac" | "m4a" => 5,
            "mp4" | "avi" | "mkv" | "mov" | "webm" => 6,
            "epub" | "fb2" | "mobi" => 7,
            _ => 8,
        }
    }
}

impl Video {
    pub fn object(&self, core: &SharedCore) -> Value {
        let mut object = json!({
            "id": self.id,
            "owner_id": self.owner_id,
            "title": self.title,
            "description": self.description,
            "duration": 1,
            "date": self.date,
            "image": [],
            "first_frame": [],
            "access_key": self.access_key,
            "type": "video",
            "views": 0,
            "comments": 0,
            "can_add": 1,
        });
        // Readers get a player, never the file itself; without bytes there is nothing to play.
        if let Some(sha256) = &self.sha256 {
            object["player"] = format!("{}/vk/cdn/doc/{sha256}/{}.mp4", core.origin, self.id).into();
        }
        object
    }
}

/// The media of a post or message, for the page.
pub(super) fn shown(core: &SharedCore, attachments: &Value) -> Vec<Media> {
    attachments
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|attachment| shown_one(core, attachment))
        .collect()
}

fn shown_one(core: &SharedCore, attachment: &Value) -> Option<Media> {
    let kind = attachment["type"].as_str()?;
    let object = &attachment[kind];
    let (page_kind, url) = match kind {
        "photo" => ("photo", photos::largest(object).map(|size| &size["url"])),
        "doc" => (if object["ext"] == "gif" { "animation" } else { "document" }, Some(&object["url"])),
        "graffiti" => ("photo", Some(&object["url"])),
        "audio_message" => ("voice", Some(&object["link_mp3"])),
        "video" => ("video", Some(&object["player"])),
        "audio" => ("audio", None),
        "sticker" => ("sticker", None),
        _ => return None,
    };
    let url = url.and_then(Value::as_str);
    let source = url.and_then(|url| photos::source_of(url).or_else(|| doc_source(url)));
    let sha256 = match &source {
        Some(Source::Stored(sha256)) => Some(sha256.clone()),
        _ => None,
    };
    let stored = sha256.as_ref().and_then(|sha256| core.media.get(sha256));
    let size = photos::largest(object).unwrap_or(object);
    let side = |name: &str| size[name].as_u64().and_then(|side| u32::try_from(side).ok());
    Some(Media {
        kind: page_kind.to_owned(),
        url: source.map(|source| source.page_url()).or_else(|| url.map(str::to_owned)),
        sha256,
        bytes: stored.as_ref().map(|stored| stored.bytes.len()),
        mime: stored.map(|stored| stored.mime.to_owned()),
        name: object["title"].as_str().map(str::to_owned),
        width: side("width"),
        height: side("height"),
        spoiler: false,
    })
}

fn doc_source(url: &str) -> Option<Source> {
    let (_, rest) = url.split_once("/vk/cdn/doc/")?;
    rest.split('/').next().map(|sha256| Source::Stored(sha256.to_owned()))
}

/// The media of a request, for the ledger.
pub(super) fn listed(core: &SharedCore, attachments: &[Value]) -> Vec<Value> {
    attachments.iter().filter_map(|attachment| listed_one(core, attachment)).collect()
}

fn listed_one(core: &SharedCore, attachment: &Value) -> Option<Value> {
    let kind = attachment["type"].as_str()?;
    let object = &attachment[kind];
    let media = shown_one(core, attachment);
    let id = object["owner_id"].as_i64().zip(object["id"].as_i64());
    let sha256 = media.as_ref().and_then(|media| media.sha256.clone());
    // What was uploaded is known by its hash; an address stands for everything else.
    let elsewhere = || media.as_ref().and_then(|media| media.url.clone());
    let url = elsewhere().or_else(|| object["url"].as_str().map(str::to_owned));
    Some(json!({
        "kind": kind,
        "bytes": media.as_ref().and_then(|media| media.bytes),
        "url": url.filter(|_| sha256.is_none()),
        "sha256": sha256,
        "id": id.map(|(owner_id, id)| format!("{kind}{owner_id}_{id}")),
    }))
}
