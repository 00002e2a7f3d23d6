//! Uploads in three steps: an address, the bytes, and the saving that makes an object of them.
//! The upload host speaks plainly, without envelopes, and says 200 to files it could not read.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::core::SharedCore;
use crate::media::{Stored, sha256_hex};
use crate::reply::{Effect, Reply, Response};
use crate::request::Upload as File;

use super::args::Version;
use super::attachments::{self, Doc, Video};
use super::call::default_owner;
use super::errors::ApiError;
use super::photos::{Photo, Purpose, Source};
use super::state::State;
use super::{Ctx, Done, locked};

/// A request to the upload host.
#[derive(Debug)]
pub struct Upload {
    pub kind: String,
    pub verb: String,
    pub sid: String,
    pub files: Vec<File>,
}

/// An address that was given out.
#[derive(Clone, Debug)]
pub struct Session {
    kind: &'static str,
    user: i64,
    group: i64,
    /// docs: doc, audio_message or graffiti.
    doc_kind: &'static str,
    /// video.save: the video that waits for its bytes.
    video: Option<(i64, i64)>,
}

impl Session {
    /// Whose upload it is: the community, or else the person.
    pub fn owner(&self) -> i64 {
        if self.group == 0 { self.user } else { -self.group }
    }
}

/// Bytes that arrived and wait to be saved.
#[derive(Clone, Debug)]
struct Received {
    session: Session,
    file_name: String,
    sha256: String,
    bytes: usize,
    size: Option<(u32, u32)>,
}

/// Open addresses and unsaved files; the oldest are forgotten.
#[derive(Debug, Default)]
pub struct Uploads {
    sessions: HashMap<String, Session>,
    received: HashMap<String, Received>,
    ages: VecDeque<String>,
}

/// Addresses and unsaved files kept.
const KEPT_MAX: usize = 20_000;
/// The number of the upload host.
const SERVER: i64 = 856_312;
const PHOTO_BYTES_MAX: usize = 50 << 20;
const DOC_BYTES_MAX: usize = 200 << 20;

impl Uploads {
    pub fn session(&self, sid: &str) -> Option<&Session> {
        self.sessions.get(sid)
    }

    fn remember(&mut self, name: &str) {
        self.ages.push_back(name.to_owned());
        while self.ages.len() > KEPT_MAX {
            let Some(oldest) = self.ages.pop_front() else { break };
            self.sessions.remove(&oldest);
            self.received.remove(&oldest);
        }
    }
}

// -- step one: the address

fn open(ctx: &mut Ctx<'_>, session: Session) -> String {
    let number = ctx.state.next_number();
    let name = format!("upload {number} {} {}", ctx.now_ms, ctx.core.seed);
    let mut sid = sha256_hex(name.as_bytes());
    sid.truncate(32);
    let url = format!(
        "{}/vk/upload/{}?act=do_add&mid={}&gid={}&sid={sid}&server={SERVER}&v=2",
        ctx.core.origin, session.kind, session.user, session.group
    );
    ctx.state.uploads.remember(&sid);
    ctx.state.uploads.sessions.insert(sid, session);
    url
}

fn session(ctx: &Ctx<'_>, kind: &'static str, group: i64) -> Session {
    Session { kind, user: ctx.caller.user, group, doc_kind: "doc", video: None }
}

/// `group_id`, which the caller must manage; zero without.
fn group(ctx: &Ctx<'_>) -> Result<i64, ApiError> {
    let group = ctx.args.integer("group_id")?.unwrap_or(0);
    if group < 0 {
        return Err(ApiError::parameter("group_id not positive"));
    }
    if group > 0 {
        ctx.caller.require_manager(group)?;
    }
    Ok(group)
}

pub(super) fn wall_photo_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let group = group(ctx)?;
    let session = session(ctx, "wall_photo", group);
    let upload_url = open(ctx, session);
    let mut answer = json!({ "album_id": -14, "upload_url": upload_url, "user_id": ctx.caller.user,
        "fallback_upload_url": upload_url });
    if group > 0 {
        answer["group_id"] = group.into();
    }
    Ok(Done::new(answer))
}

pub(super) fn message_photo_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let session = session(ctx, "message_photo", ctx.caller.group);
    let upload_url = open(ctx, session);
    Ok(Done::new(json!({ "album_id": -64, "upload_url": upload_url, "user_id": ctx.caller.user,
        "group_id": ctx.caller.group, "fallback_upload_url": upload_url })))
}

pub(super) fn album_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let group = group(ctx)?;
    let album_id = ctx.args.integer("album_id")?.unwrap_or(0);
    let session = session(ctx, "album_photo", group);
    let upload_url = open(ctx, session);
    Ok(Done::new(json!({ "album_id": album_id, "upload_url": upload_url, "user_id": ctx.caller.user })))
}

pub(super) fn doc_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let mut session = session(ctx, "doc", group(ctx)?.max(ctx.caller.group));
    session.doc_kind = match ctx.args.text("type") {
        None | Some("doc") => "doc",
        Some("audio_message") => "audio_message",
        Some("graffiti") => "graffiti",
        Some(_) => return Err(ApiError::parameter("type is invalid")),
    };
    let upload_url = open(ctx, session);
    Ok(Done::new(json!({ "upload_url": upload_url })))
}

pub(super) fn video_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let group = group(ctx)?;
    let owner_id = if group > 0 { -group } else { ctx.caller.user };
    let id = 456_239_000 + ctx.state.next_number();
    let access_key = access_key(ctx.core, id);
    let title = ctx.args.text("name").unwrap_or("Без названия").to_owned();
    let description = ctx.args.text("description").unwrap_or_default().to_owned();
    let mut session = session(ctx, "video", group);
    session.video = Some((owner_id, id));
    let upload_url = open(ctx, session);
    let answer = json!({ "upload_url": upload_url, "owner_id": owner_id, "video_id": id, "title": title,
        "description": description, "access_key": access_key });
    let date = ctx.now_s();
    ctx.state.files.add_video(Video { id, owner_id, title, description, date, access_key, sha256: None });
    Ok(Done::new(answer))
}

fn access_key(core: &SharedCore, id: i64) -> String {
    let mut key = sha256_hex(format!("key {} {id}", core.seed).as_bytes());
    key.truncate(18);
    key
}

// -- step two: the bytes

/// Takes the files of a request to the upload host.
pub(super) fn receive(core: &SharedCore, state: &Mutex<State>, upload: &Upload) -> Reply {
    let session = locked(state).uploads.sessions.get(&upload.sid).cloned();
    let Some(session) = session.filter(|session| session.kind == upload.kind) else {
        return Reply::refused(Response::json(
            200,
            &json!({ "error": "ERR_UPLOAD_BAD_SESSION: Bad session" }),
        ));
    };
    // Hashing and looking at pictures happen outside the lock.
    let stored: Vec<(&File, Stored)> = match session.kind {
        "video" | "doc" => {
            upload.files.iter().take(1).map(|file| (file, core.media.put(&file.bytes))).collect()
        }
        _ => upload.files.iter().take(10).map(|file| (file, core.media.put(&file.bytes))).collect(),
    };
    let mut state = locked(state);
    let (answer, accepted) = match session.kind {
        "video" => take_video(&mut state, &session, upload, &stored),
        "doc" => take_doc(core, &mut state, &session, &stored),
        _ => take_photos(core, &mut state, &session, &stored),
    };
    let media = stored.iter().map(|(file, stored)| {
        json!({ "kind": session.kind, "sha256": stored.sha256, "bytes": stored.bytes.len(), "url": null,
            "name": file.file_name })
    });
    let effect = Effect { accepted, media: media.collect(), ..Effect::default() };
    Reply { response: Response::json(200, &answer), effect }
}

fn take_photos(
    core: &SharedCore,
    state: &mut State,
    session: &Session,
    stored: &[(&File, Stored)],
) -> (Value, bool) {
    // The wall takes one file a time; of several it takes none.
    let all = if session.kind == "wall_photo" && stored.len() > 1 { &[][..] } else { stored };
    let mut tokens = Vec::new();
    for (file, stored) in all.iter().filter(|(file, stored)| is_photo(file, stored)) {
        let token = keep(core, state, session, file, stored);
        tokens.push(json!({ "photo": token, "sizes": [], "kid": token, "latitude": 0, "longitude": 0 }));
    }
    let accepted = !tokens.is_empty();
    let list = Value::from(tokens).to_string();
    let hash = hash(core, &list);
    if session.kind == "album_photo" {
        let answer =
            json!({ "server": SERVER, "photos_list": list, "aid": 0, "hash": hash, "gid": session.group });
        return (answer, accepted);
    }
    let list = if session.kind == "wall_photo" && stored.len() > 1 { String::new() } else { list };
    (json!({ "server": SERVER, "photo": list, "hash": hash }), accepted)
}

/// A readable picture with an extension in its name and a shape VK accepts.
fn is_photo(file: &File, stored: &Stored) -> bool {
    let named = file.file_name.rsplit_once('.').is_some_and(|(_, ext)| (2..=5).contains(&ext.len()));
    let Some((width, height)) = stored.size else { return false };
    let (long, short) = (u64::from(width.max(height)), u64::from(width.min(height)));
    named
        && short > 0
        && long + short <= 14_000
        && long <= short * 20
        && stored.bytes.len() <= PHOTO_BYTES_MAX
}

fn take_doc(
    core: &SharedCore,
    state: &mut State,
    session: &Session,
    stored: &[(&File, Stored)],
) -> (Value, bool) {
    let Some((file, stored)) = stored.first() else {
        return (json!({ "error": "no_file", "error_descr": "no file was sent in field file" }), false);
    };
    let extension = file.file_name.rsplit_once('.').map(|(_, ext)| ext.to_lowercase()).unwrap_or_default();
    if matches!(extension.as_str(), "mp3" | "exe" | "bat" | "cmd" | "apk") && session.doc_kind == "doc" {
        return (
            json!({ "error": "wrong_type", "error_descr": "files of this type cannot be uploaded" }),
            false,
        );
    }
    if stored.bytes.is_empty() || stored.bytes.len() > DOC_BYTES_MAX {
        return (
            json!({ "error": "wrong_size", "error_descr": "the size of the file is not allowed" }),
            false,
        );
    }
    (json!({ "file": keep(core, state, session, file, stored) }), true)
}

fn take_video(
    state: &mut State,
    session: &Session,
    upload: &Upload,
    stored: &[(&File, Stored)],
) -> (Value, bool) {
    let Some(video) = session.video.and_then(|key| state.files.videos.get_mut(&key)) else {
        return (json!({ "error_code": 104, "error_msg": "Not found" }), false);
    };
    let Some((_, stored)) = stored.first() else {
        // A video by link has no bytes: its address is only visited.
        let visited = upload.verb == "GET";
        let answer = if visited {
            json!({ "response": 1 })
        } else {
            json!({ "error_code": 100, "error_msg": "no video_file" })
        };
        return (answer, visited);
    };
    video.sha256 = Some(stored.sha256.clone());
    (
        json!({ "size": stored.bytes.len(), "video_id": video.id, "owner_id": video.owner_id, "video_hash": video.access_key }),
        true,
    )
}

fn keep(core: &SharedCore, state: &mut State, session: &Session, file: &File, stored: &Stored) -> String {
    let number = state.next_number();
    let mut token = sha256_hex(format!("{} {number} {}", core.seed, stored.sha256).as_bytes());
    token.truncate(40);
    state.uploads.remember(&token);
    let received = Received {
        session: session.clone(),
        file_name: file.file_name.clone(),
        sha256: stored.sha256.clone(),
        bytes: stored.bytes.len(),
        size: stored.size,
    };
    state.uploads.received.insert(token.clone(), received);
    token
}

fn hash(core: &SharedCore, list: &str) -> String {
    let mut hash = sha256_hex(format!("{}{list}", core.seed).as_bytes());
    hash.truncate(32);
    hash
}

/// Serves the bytes of a document.
pub(super) fn download(core: &SharedCore, sha256: &str) -> Reply {
    match core.media.get(sha256) {
        Some(Stored { mime, bytes, .. }) => Reply::done(Response::file(mime, Bytes::clone(&bytes))),
        None => Reply::refused(Response::text(404, "Not Found")),
    }
}

// -- step three: saving

pub(super) fn save_wall_photo(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let group = ctx.args.integer("group_id")?.unwrap_or(0);
    let received = uploaded(ctx, "photo", "wall_photo")?;
    // Both steps must speak of the same community.
    if received.iter().any(|received| received.session.group != group) {
        return Err(ApiError::plain(121));
    }
    saved(ctx, &received, ctx.caller.user, Purpose::Wall)
}

pub(super) fn save_message_photo(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let received = uploaded(ctx, "photo", "message_photo")?;
    let owner_id = if ctx.caller.group > 0 { -ctx.caller.group } else { ctx.caller.user };
    saved(ctx, &received, owner_id, Purpose::Message)
}

pub(super) fn save_album_photo(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let received = uploaded(ctx, "photos_list", "album_photo")?;
    let owner_id = received.first().map_or(0, |received| received.session.owner());
    saved(ctx, &received, owner_id, Purpose::Wall)
}

/// The files that an upload answer names, when nothing about it was changed on the way.
fn uploaded(ctx: &Ctx<'_>, field: &str, kind: &str) -> Result<Vec<Received>, ApiError> {
    let list = ctx.args.text(field).ok_or_else(|| ApiError::parameter(format!("{field} is undefined")))?;
    if ctx.args.required_integer("server")? != SERVER {
        return Err(ApiError::plain(118));
    }
    let parsed = serde_json::from_str::<Vec<Value>>(list).ok().filter(|list| !list.is_empty());
    let items = parsed.ok_or_else(|| ApiError::parameter("photos_list is invalid"))?;
    if ctx.args.required_text("hash")? != hash(ctx.core, list) {
        return Err(ApiError::plain(121));
    }
    let find = |item: &Value| {
        let received = ctx.state.uploads.received.get(item["photo"].as_str()?)?;
        (received.session.kind == kind).then(|| received.clone())
    };
    items.iter().map(find).collect::<Option<_>>().ok_or_else(|| ApiError::parameter("photos_list is invalid"))
}

/// Every saving makes new photos, even of the same upload.
fn saved(
    ctx: &mut Ctx<'_>,
    received: &[Received],
    owner_id: i64,
    purpose: Purpose,
) -> Result<Done, ApiError> {
    let mut photos = Vec::new();
    for received in received {
        let id = 457_239_000 + ctx.state.next_number();
        let photo = Photo {
            id,
            owner_id,
            user_id: if ctx.caller.user != 0 { ctx.caller.user } else { 100 },
            date: ctx.now_s(),
            text: ctx.args.text("caption").unwrap_or_default().to_owned(),
            access_key: access_key(ctx.core, id),
            source: Source::Stored(received.sha256.clone()),
            size: received.size.unwrap_or((0, 0)),
            purpose,
        };
        photos.push(json!({ "type": "photo", "photo": photo.object(ctx.core) }));
        ctx.state.files.add_photo(photo);
    }
    let media = attachments::listed(ctx.core, &photos);
    let objects: Vec<Value> = photos.iter().map(|attachment| attachment["photo"].clone()).collect();
    let mut done = Done::new(objects);
    done.effect.media = media;
    Ok(done)
}

pub(super) fn save_doc(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let token = ctx.args.required_text("file")?;
    let received = ctx.state.uploads.received.get(token).filter(|received| received.session.kind == "doc");
    let received = received.cloned().ok_or_else(|| ApiError::parameter("file is invalid"))?;
    let id = 670_000_000 + ctx.state.next_number();
    let (stem, ext) = received.file_name.rsplit_once('.').unwrap_or((&received.file_name, ""));
    let title = ctx.args.text("title").map_or_else(
        || if ext.is_empty() { stem.to_owned() } else { received.file_name.clone() },
        str::to_owned,
    );
    let doc = Doc {
        id,
        owner_id: if received.session.group > 0 {
            -received.session.group
        } else {
            default_owner(ctx.caller)
        },
        title,
        ext: ext.to_lowercase(),
        date: ctx.now_s(),
        access_key: access_key(ctx.core, id),
        sha256: received.sha256.clone(),
        bytes: received.bytes,
        kind: received.session.doc_kind,
        size: received.size,
    };
    let object = doc.object(ctx.core);
    let attachment = json!({ "type": doc.kind, doc.kind: object });
    ctx.state.files.add_doc(doc);
    let media = attachments::listed(ctx.core, std::slice::from_ref(&attachment));
    // Old versions answered with a bare list.
    let mut done = Done::new(if ctx.version < Version(5, 84) { json!([object]) } else { attachment });
    done.effect.media = media;
    Ok(done)
}

// -- looking at what was saved

pub(super) fn photos_by_id(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    ctx.args.required_text("photos")?;
    let found = ctx.args.list("photos").into_iter().filter_map(|name| {
        let full = format!("photo{name}");
        let name = attachments::parse(&full)?;
        Some(ctx.state.files.photos.get(&(name.owner_id, name.id))?.object(ctx.core))
    });
    Ok(Done::new(found.collect::<Vec<Value>>()))
}

pub(super) fn docs_by_id(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    ctx.args.required_text("docs")?;
    let found = ctx.args.list("docs").into_iter().filter_map(|name| {
        let full = format!("doc{name}");
        let name = attachments::parse(&full)?;
        Some(ctx.state.files.docs.get(&(name.owner_id, name.id))?.object(ctx.core))
    });
    Ok(Done::new(found.collect::<Vec<Value>>()))
}

pub(super) fn videos(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let found = ctx.args.list("videos").into_iter().filter_map(|name| {
        let full = format!("video{name}");
        let name = attachments::parse(&full)?;
        Some(ctx.state.files.videos.get(&(name.owner_id, name.id))?.object(ctx.core))
    });
    let items: Vec<Value> = found.collect();
    Ok(Done::new(json!({ "count": items.len(), "items": items })))
}
