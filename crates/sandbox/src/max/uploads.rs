//! Uploads: addresses that are handed out, the host behind them, and the tokens that stand for what came in.
//! Images and files get their token from the host; videos and audio have it from the start and are not ready until the bytes are here.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};

use super::errors::ApiError;
use crate::core::Core;
use crate::media::{MediaStore, Stored, sha256_hex};
use crate::reply::Response;
use crate::request::{Body, Request, Upload, percent_decoded};

/// The four types of `POST /uploads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaKind {
    Image,
    Video,
    Audio,
    File,
}

impl MediaKind {
    pub(super) const NAMES: &'static [(&'static str, MediaKind)] = &[
        ("image", MediaKind::Image),
        ("video", MediaKind::Video),
        ("audio", MediaKind::Audio),
        ("file", MediaKind::File),
    ];

    pub(super) fn parse(name: &str) -> Option<MediaKind> {
        MediaKind::NAMES.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind)
    }

    pub(super) fn name(self) -> &'static str {
        MediaKind::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The word in `errors.process.attachment.{word}.not.processed`.
    pub(super) fn process(self) -> &'static str {
        match self {
            MediaKind::Image => "image",
            MediaKind::File => "file",
            MediaKind::Video | MediaKind::Audio => "video",
        }
    }

    /// Megabytes are decimal: the smaller reading. Files are held in memory here, so 4 GB cannot be honoured.
    fn bytes_max(self) -> usize {
        match self {
            MediaKind::Image => 50_000_000,
            MediaKind::Video => 250_000_000,
            MediaKind::Audio | MediaKind::File => 256_000_000,
        }
    }

    /// Whether bytes that are recognised may come under this type; what is not recognised is let through.
    fn takes(self, mime: &str) -> bool {
        let unknown = mime == "application/octet-stream";
        match self {
            MediaKind::File => true,
            MediaKind::Image => unknown || matches!(mime, "image/jpeg" | "image/png" | "image/gif"),
            MediaKind::Video => unknown || mime.starts_with("video/"),
            MediaKind::Audio => unknown || mime.starts_with("audio/") || mime == "video/mp4",
        }
    }
}

/// Largest side of a picture.
const SIDE_MAX: u32 = 7680;

/// MAX refuses some extensions and does not say which; these are our guess.
const FORBIDDEN_EXTENSIONS: &[&str] =
    &["exe", "bat", "cmd", "com", "scr", "msi", "apk", "jar", "vbs", "ps1", "dll"];

/// Something that can be attached.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub kind: MediaKind,
    pub token: String,
    /// `photo_id`, or the number of a file.
    pub number: i64,
    /// Absent for a picture on the open internet, which is believed and not fetched.
    pub stored: Option<Stored>,
    /// Where a client of the API finds it.
    pub url: String,
    pub name: String,
}

impl Attached {
    /// A line of the ledger.
    pub(super) fn ledger(&self) -> Value {
        let stored = self.stored.as_ref();
        json!({
            "kind": self.kind.name(),
            "sha256": stored.map(|stored| stored.sha256.as_str()),
            "bytes": stored.map_or(0, |stored| stored.bytes.len()),
            "url": if stored.is_some() { Value::Null } else { self.url.as_str().into() },
            "token": self.token,
        })
    }
}

/// Why a token cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Unknown,
    NotReady,
}

#[derive(Debug)]
struct Slot {
    kind: MediaKind,
    /// The token of the bot that asked.
    account: String,
    token: String,
    number: i64,
    attached: Option<Attached>,
    pieces: Pieces,
    /// Sends that are still told that it is not ready.
    not_ready: u64,
}

/// A file that arrives in ranges, in any order.
#[derive(Debug, Default)]
struct Pieces {
    bytes: Vec<u8>,
    /// Start to end of what is here.
    ranges: BTreeMap<usize, usize>,
}

impl Pieces {
    fn put(&mut self, start: usize, piece: &[u8]) {
        let end = start + piece.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(piece);
        let own = self.ranges.entry(start).or_default();
        *own = (*own).max(end);
    }

    fn covers(&self, total: usize) -> bool {
        let mut reached = 0;
        for (start, end) in &self.ranges {
            if *start > reached {
                return false;
            }
            reached = reached.max(*end);
        }
        reached >= total
    }
}

/// All addresses and tokens that were handed out.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    by_key: HashMap<String, Slot>,
    by_token: HashMap<String, String>,
    ages: VecDeque<String>,
    counter: u64,
}

/// Beyond this the oldest addresses and tokens are forgotten.
const SLOTS_MAX: usize = 100_000;

impl Slots {
    fn add(&mut self, core: &Core, kind: MediaKind, account: &str, not_ready: u64) -> String {
        self.counter += 1;
        let key = sha256_hex(format!("{} {} {account}", core.seed, self.counter).as_bytes());
        let token = format!("{}{}", &kind.name()[..1], &sha256_hex(key.as_bytes())[..48]);
        let slot = Slot {
            kind,
            account: account.to_owned(),
            token: token.clone(),
            number: 1_000_000_000 + self.counter as i64,
            attached: None,
            pieces: Pieces::default(),
            not_ready,
        };
        self.by_token.insert(token, key.clone());
        self.by_key.insert(key.clone(), slot);
        self.ages.push_back(key.clone());
        if self.ages.len() > SLOTS_MAX
            && let Some(old) = self.ages.pop_front().and_then(|old| self.by_key.remove(&old))
        {
            self.by_token.remove(&old.token);
        }
        key
    }
}

impl Uploads {
    /// `POST /uploads`: an address, and the token where it is known already.
    pub(super) fn offer(
        &self,
        core: &Core,
        origin: &str,
        kind: MediaKind,
        account: &str,
        not_ready: u64,
    ) -> Value {
        let mut slots = self.slots();
        let key = slots.add(core, kind, account, not_ready);
        let mut answer = json!({ "url": format!("{origin}/max/upload/{key}") });
        if matches!(kind, MediaKind::Video | MediaKind::Audio)
            && let Some(slot) = slots.by_key.get(&key)
        {
            answer["token"] = slot.token.as_str().into();
        }
        answer
    }

    /// Which bot asked for an address.
    pub(super) fn account_of(&self, key: &str) -> Option<String> {
        self.slots().by_key.get(key).map(|slot| slot.account.clone())
    }

    /// The upload host: takes a whole file or a piece of it.
    pub(super) fn receive(
        &self,
        core: &Core,
        origin: &str,
        key: &str,
        request: &Request,
    ) -> Result<Taken, ApiError> {
        let Some(kind) = self.slots().by_key.get(key).map(|slot| slot.kind) else {
            return Err(refused("Upload url is not valid"));
        };
        let incoming = Incoming::read(request, kind)?;
        let bytes = match incoming.range {
            None => incoming.bytes,
            Some(range) => match self.piece(key, range, &incoming.bytes) {
                Some(whole) => whole,
                None => {
                    let end = range.start + incoming.bytes.len() - 1;
                    return Ok(Taken::Piece(format!("{}-{end}/{}", range.start, range.total)));
                }
            },
        };
        // Hashing a video takes a while; other requests need the lock meanwhile.
        let file = checked(core, kind, &bytes, &incoming.name)?;
        let mut slots = self.slots();
        let slot = slots.by_key.get_mut(key).ok_or_else(|| refused("Upload url is not valid"))?;
        let url = format!("{origin}{}", MediaStore::url(&file.sha256));
        let attached = Attached {
            kind,
            token: slot.token.clone(),
            number: slot.number,
            stored: Some(file),
            url,
            name: base_name(&incoming.name),
        };
        slot.attached = Some(attached.clone());
        Ok(Taken::Whole(attached))
    }

    /// Puts a piece to the others; the whole when it was the last one.
    fn piece(&self, key: &str, range: Range, bytes: &[u8]) -> Option<Bytes> {
        let mut slots = self.slots();
        let pieces = &mut slots.by_key.get_mut(key)?.pieces;
        pieces.put(range.start, bytes);
        pieces.covers(range.total).then(|| Bytes::from(std::mem::take(pieces).bytes))
    }

    /// What a token stands for. Asking counts as a send while it is not ready.
    pub(super) fn find(&self, token: &str, kind: MediaKind) -> Result<Attached, Missing> {
        let mut slots = self.slots();
        let key = slots.by_token.get(token).cloned().ok_or(Missing::Unknown)?;
        let slot = slots.by_key.get_mut(&key).filter(|slot| slot.kind == kind).ok_or(Missing::Unknown)?;
        match &slot.attached {
            None if matches!(kind, MediaKind::Video | MediaKind::Audio) => Err(Missing::NotReady),
            None => Err(Missing::Unknown),
            Some(_) if slot.not_ready > 0 => {
                slot.not_ready -= 1;
                Err(Missing::NotReady)
            }
            Some(attached) => Ok(attached.clone()),
        }
    }

    /// A video that is here, ready or not.
    pub(super) fn video(&self, token: &str) -> Option<Attached> {
        let slots = self.slots();
        let slot = slots.by_key.get(slots.by_token.get(token)?)?;
        slot.attached.clone().filter(|attached| attached.kind == MediaKind::Video)
    }

    /// A picture that was given by address: it has a token from now on.
    pub(super) fn adopt(&self, core: &Core, origin: &str, account: &str, picture: Picture) -> Attached {
        let mut slots = self.slots();
        let key = slots.add(core, MediaKind::Image, account, 0);
        let (stored, url) = match picture {
            Picture::Fetched(bytes) => {
                let stored = core.media.put(&bytes);
                let url = format!("{origin}{}", MediaStore::url(&stored.sha256));
                (Some(stored), url)
            }
            Picture::Elsewhere(url) => (None, url),
        };
        let slot = slots.by_key.get_mut(&key);
        let (token, number) =
            slot.as_ref().map_or((String::new(), 0), |slot| (slot.token.clone(), slot.number));
        let attached = Attached { kind: MediaKind::Image, token, number, stored, url, name: String::new() };
        if let Some(slot) = slot {
            slot.attached = Some(attached.clone());
        }
        attached
    }

    pub(super) fn clear(&self) {
        let mut slots = self.slots();
        // Tokens never come twice, not even after a reset.
        let counter = slots.counter;
        *slots = Slots { counter, ..Slots::default() };
    }

    pub(super) fn n_slots(&self) -> usize {
        self.slots().by_key.len()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A picture given by address.
#[derive(Debug)]
pub(super) enum Picture {
    Fetched(Bytes),
    Elsewhere(String),
}

/// What the host made of a request.
#[derive(Debug)]
pub(super) enum Taken {
    /// More is to come; the text is the answer.
    Piece(String),
    Whole(Attached),
}

impl Taken {
    /// The answer of the host: JSON with tokens for images and files, XML for the rest, plain text for pieces.
    pub(super) fn response(&self) -> Response {
        let attached = match self {
            Taken::Piece(range) => return Response::text(200, range.clone()),
            Taken::Whole(attached) => attached,
        };
        match attached.kind {
            MediaKind::Image => {
                let mut photos = json!({});
                photos[attached.number.to_string()] = json!({ "token": attached.token });
                Response::json(200, &json!({ "photos": photos }))
            }
            MediaKind::File => {
                Response::json(200, &json!({ "fileId": attached.number, "token": attached.token }))
            }
            MediaKind::Video | MediaKind::Audio => {
                let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n<retval>1</retval>";
                Response { content_type: "text/xml", ..Response::text(200, xml) }
            }
        }
    }
}

fn refused(message: &str) -> ApiError {
    ApiError::new(400, "upload.error", message)
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: usize,
    total: usize,
}

struct Incoming {
    bytes: Bytes,
    name: String,
    range: Option<Range>,
}

impl Incoming {
    fn read(request: &Request, kind: MediaKind) -> Result<Incoming, ApiError> {
        if matches!(request.body, Body::TooLarge) {
            return Err(refused("File is too big"));
        }
        let range = range_of(request.head.header("content-range"), kind)?;
        let upload = match request.head.content_type().as_str() {
            "multipart/form-data" => multipart_file(request)?,
            _ => raw_file(request),
        };
        if upload.bytes.is_empty() {
            return Err(refused("File is empty"));
        }
        if let Some(range) = range
            && range.start + upload.bytes.len() > range.total
        {
            return Err(refused("Content-Range does not fit the body"));
        }
        Ok(Incoming { bytes: upload.bytes, name: upload.file_name, range })
    }
}

/// The part is named `data`; libraries that name it otherwise are understood as well.
fn multipart_file(request: &Request) -> Result<Upload, ApiError> {
    let mut parameters = request.parameters();
    let named = parameters.files.iter().position(|file| file.field == "data").unwrap_or(0);
    if named < parameters.files.len() {
        return Ok(parameters.files.swap_remove(named));
    }
    let text = parameters.text("data").ok_or_else(|| refused("No part named data"))?;
    Ok(upload(Bytes::from(text.to_owned()), String::new()))
}

fn raw_file(request: &Request) -> Upload {
    let name = match request.head.header("x-file-name") {
        "" => {
            let disposition = request.head.header("content-disposition");
            disposition.split_once("filename=").map_or("", |(_, name)| name).trim_matches('"')
        }
        name => name,
    };
    upload(request.bytes(), percent_decoded(name).into_owned())
}

fn upload(bytes: Bytes, file_name: String) -> Upload {
    Upload { field: "data".into(), file_name, content_type: String::new(), bytes }
}

/// `bytes 0-65535/200000`
fn range_of(header: &str, kind: MediaKind) -> Result<Option<Range>, ApiError> {
    if header.is_empty() {
        return Ok(None);
    }
    let parsed = header.trim().strip_prefix("bytes").and_then(|rest| {
        let (range, total) = rest.trim_start_matches(['=', ' ']).split_once('/')?;
        let (start, end) = range.split_once('-')?;
        let (start, end): (usize, usize) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
        let total: usize = total.trim().parse().ok()?;
        (start <= end && end < total).then_some(Range { start, total })
    });
    let range = parsed.ok_or_else(|| refused("Content-Range is not valid"))?;
    if range.total > kind.bytes_max() {
        return Err(refused("File is too big"));
    }
    Ok(Some(range))
}

/// Keeps the bytes after the checks the host makes.
fn checked(core: &Core, kind: MediaKind, bytes: &Bytes, name: &str) -> Result<Stored, ApiError> {
    if bytes.len() > kind.bytes_max() {
        return Err(refused("File is too big"));
    }
    let name = base_name(name).to_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    if FORBIDDEN_EXTENSIONS.contains(&extension) || !kind.takes(crate::media::sniff(bytes)) {
        return Err(refused("File extension is forbidden"));
    }
    let stored = core.media.put(bytes);
    if kind == MediaKind::Image && stored.size.is_some_and(|(w, h)| w > SIDE_MAX || h > SIDE_MAX) {
        return Err(refused("Image is too big"));
    }
    Ok(stored)
}

fn base_name(name: &str) -> String {
    name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
