//! Files: what a `file_id` stands for, and how the file argument of a call is found.
//! A file_id holds everything that is known of its file, so nothing has to be remembered and ids never expire;
//! only the bytes live in the media store. It is good for the bot that got it and for no other.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::Args;
use super::errors::ApiError;
use crate::core::Core;
use crate::media::{MediaStore, sha256_hex, sniff};

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileKind {
    Photo,
    Video,
    Animation,
    Document,
    Audio,
    Voice,
    Sticker,
    VideoNote,
}

impl FileKind {
    /// The first letters of file_ids, by which people recognise them.
    const PREFIXES: &'static [(FileKind, &'static str)] = &[
        (FileKind::Photo, "AgACAgIAAxkBAAI"),
        (FileKind::Video, "BAACAgIAAxkBAAI"),
        (FileKind::Animation, "CgACAgIAAxkBAAI"),
        (FileKind::Document, "BQACAgIAAxkBAAI"),
        (FileKind::Audio, "CQACAgIAAxkBAAI"),
        (FileKind::Voice, "AwACAgIAAxkBAAI"),
        (FileKind::Sticker, "CAACAgIAAxkBAAI"),
        (FileKind::VideoNote, "DQACAgIAAxkBAAI"),
    ];

    fn prefix(self) -> &'static str {
        FileKind::PREFIXES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, prefix)| prefix)
    }

    /// The name of the argument and of the field of a message.
    pub(super) fn field(self) -> &'static str {
        match self {
            FileKind::Photo => "photo",
            FileKind::Video => "video",
            FileKind::Animation => "animation",
            FileKind::Document => "document",
            FileKind::Audio => "audio",
            FileKind::Voice => "voice",
            FileKind::Sticker => "sticker",
            FileKind::VideoNote => "video_note",
        }
    }

    fn type_name(self) -> &'static str {
        match self {
            FileKind::Photo => "Photo",
            FileKind::Video => "Video",
            FileKind::Animation => "Animation",
            FileKind::Document => "Document",
            FileKind::Audio => "Audio",
            FileKind::Voice => "VoiceNote",
            FileKind::Sticker => "Sticker",
            FileKind::VideoNote => "VideoNote",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            FileKind::Photo => "photos",
            FileKind::Video => "videos",
            FileKind::Animation => "animations",
            FileKind::Document => "documents",
            FileKind::Audio => "music",
            FileKind::Voice => "voice",
            FileKind::Sticker => "stickers",
            FileKind::VideoNote => "video_notes",
        }
    }

    fn upload_bytes_max(self) -> usize {
        if self == FileKind::Photo { 10 << 20 } else { 50 << 20 }
    }

    fn url_bytes_max(self) -> usize {
        if self == FileKind::Photo { 5 << 20 } else { 20 << 20 }
    }
}

/// A file that can be sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct File {
    #[serde(rename = "k")]
    pub kind: FileKind,
    /// The bot that may use the id.
    #[serde(rename = "b")]
    pub bot: i64,
    /// Of the bytes, or of the address when they were never fetched.
    #[serde(rename = "h")]
    pub sha256: String,
    #[serde(rename = "s")]
    pub bytes: usize,
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub width: u32,
    #[serde(rename = "e", default, skip_serializing_if = "is_zero")]
    pub height: u32,
    #[serde(rename = "d", default, skip_serializing_if = "is_zero")]
    pub duration: u32,
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(rename = "m", default, skip_serializing_if = "String::is_empty")]
    pub mime: String,
    /// The address of a file that was not fetched.
    #[serde(rename = "u", default, skip_serializing_if = "String::is_empty")]
    pub url: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl File {
    pub(super) fn id(&self) -> String {
        let packed = serde_json::to_vec(self).unwrap_or_default();
        let sum = packed.iter().fold(7u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
        format!("{}{}", self.kind.prefix(), base64url(&[&[sum], &packed[..]].concat()))
    }

    /// Equal for the same file whoever sends it; cannot be used to send.
    pub(super) fn unique_id(&self) -> String {
        let size = if self.kind == FileKind::Photo { format!("{}", self.width) } else { String::new() };
        format!("AQAD{}{size}", &self.sha256[..self.sha256.len().min(12)])
    }

    /// The path under which `getFile` offers it.
    pub(super) fn path(&self) -> String {
        let extension = match self.mime.as_str() {
            "image/jpeg" => "jpg",
            "image/png" => "png",
            "image/gif" => "gif",
            "image/webp" => "webp",
            "video/mp4" => "mp4",
            "audio/mpeg" => "mp3",
            "audio/ogg" => "oga",
            "application/pdf" => "pdf",
            "application/zip" => "zip",
            _ => self.name.rsplit_once('.').map_or("bin", |(_, extension)| extension),
        };
        format!("{}/file_{}.{extension}", self.kind.folder(), self.sha256)
    }

    /// Reads a file_id of this bot.
    fn parse(id: &str, bot: i64) -> Option<File> {
        File::peek(id).filter(|file| file.bot == bot)
    }

    /// Reads a file_id of any bot.
    pub(super) fn peek(id: &str) -> Option<File> {
        let (kind, prefix) = FileKind::PREFIXES.iter().find(|(_, prefix)| id.starts_with(prefix))?;
        let bytes = unbase64url(&id[prefix.len()..])?;
        let (sum, packed) = bytes.split_first()?;
        if packed.iter().fold(7u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte)) != *sum {
            return None;
        }
        let file: File = serde_json::from_slice(packed).ok()?;
        (file.kind == *kind).then_some(file)
    }

    /// The same picture in another size.
    pub(super) fn scaled(&self, side: u32) -> File {
        let long = self.width.max(self.height).max(1);
        if long <= side {
            return self.clone();
        }
        let scale = |length: u32| (u64::from(length) * u64::from(side) / u64::from(long)).max(1) as u32;
        let (width, height) = (scale(self.width), scale(self.height));
        let share = (f64::from(side) / f64::from(long)).powi(2);
        File { width, height, bytes: ((self.bytes as f64 * share) as usize).max(600), ..self.clone() }
    }

    /// Where the page loads it.
    pub(super) fn page_url(&self) -> String {
        if self.url.is_empty() { MediaStore::url(&self.sha256) } else { self.url.clone() }
    }
}

/// Finds the file that a call means by `value` (the argument) and `field` (the name of its part).
pub(super) async fn find(
    core: &Core,
    args: &Args,
    value: &str,
    field: Option<&str>,
    kind: FileKind,
    bot: i64,
) -> Result<Option<File>, ApiError> {
    if let Some(name) = value.strip_prefix("attach://") {
        return args
            .file(name)
            .map(|upload| stored(core, &upload.bytes, &upload.file_name, kind, bot))
            .transpose();
    }
    if value.is_empty() {
        let upload = field.and_then(|field| args.file(field));
        return upload.map(|upload| stored(core, &upload.bytes, &upload.file_name, kind, bot)).transpose();
    }
    // The server's own rule: whatever has a dot is an address.
    if value.contains('.') {
        by_url(core, value, kind, bot).await.map(Some)
    } else {
        by_id(value, kind, bot).map(Some)
    }
}

fn by_id(id: &str, kind: FileKind, bot: i64) -> Result<File, ApiError> {
    let file =
        File::parse(id, bot).ok_or_else(|| ApiError::bad("wrong file identifier/HTTP URL specified"))?;
    let is_photo = |kind| kind == FileKind::Photo;
    if is_photo(file.kind) != is_photo(kind) {
        let message = format!("can't use file of type {} as {}", file.kind.type_name(), kind.type_name());
        return Err(ApiError::bad(message));
    }
    Ok(file)
}

/// Addresses of the sandbox itself and of loopback are fetched; the rest of the world is believed.
async fn by_url(core: &Core, url: &str, kind: FileKind, bot: i64) -> Result<File, ApiError> {
    let written = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let parsed = url::Url::parse(&written).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let parsed = parsed.ok_or_else(|| ApiError::bad("wrong HTTP URL specified"))?;
    let name = parsed.path_segments().and_then(|mut path| path.next_back()).unwrap_or_default().to_owned();
    if !is_loopback(&parsed) {
        return Ok(unfetched(parsed.as_str(), name, kind, bot));
    }
    let bytes = match core.own_picture(parsed.as_str()) {
        Some(bytes) => bytes,
        None => {
            let fetched = core.hooks.get(parsed.as_str(), kind.url_bytes_max()).await;
            fetched.map_err(|_| ApiError::bad("failed to get HTTP URL content"))?
        }
    };
    let mime = sniff(&bytes);
    let fits = match kind {
        FileKind::Photo => mime.starts_with("image/"),
        FileKind::Document => matches!(mime, "image/gif" | "application/pdf" | "application/zip"),
        _ => true,
    };
    if !fits {
        return Err(ApiError::bad("wrong type of the web page content"));
    }
    stored(core, &bytes, &name, kind, bot)
}

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn unfetched(url: &str, name: String, kind: FileKind, bot: i64) -> File {
    let (width, height) = if kind == FileKind::Photo { (1280, 960) } else { (0, 0) };
    File {
        kind,
        bot,
        sha256: sha256_hex(url.as_bytes()),
        bytes: 0,
        width,
        height,
        duration: 0,
        name,
        mime: String::new(),
        url: url.to_owned(),
    }
}

/// Keeps uploaded bytes, after the checks the server makes.
fn stored(core: &Core, bytes: &Bytes, name: &str, kind: FileKind, bot: i64) -> Result<File, ApiError> {
    if bytes.len() > kind.upload_bytes_max() {
        return Err(ApiError::new(413, "Request Entity Too Large"));
    }
    if bytes.is_empty() {
        return Err(ApiError::bad("file must be non-empty"));
    }
    let stored = core.media.put(bytes);
    let (width, height) = stored.size.unwrap_or((0, 0));
    if kind == FileKind::Photo {
        check_picture(width, height)?;
    }
    Ok(File {
        kind,
        bot,
        sha256: stored.sha256,
        bytes: bytes.len(),
        width,
        height,
        duration: 0,
        name: name.rsplit(['/', '\\']).next().unwrap_or_default().chars().take(60).collect(),
        mime: mime(stored.mime, name).to_owned(),
        url: String::new(),
    })
}

/// The type by the bytes, or, where they tell nothing, by the name.
fn mime(sniffed: &'static str, name: &str) -> &'static str {
    if sniffed != "application/octet-stream" {
        return sniffed;
    }
    match name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
        Some("txt" | "log") => "text/plain",
        Some("csv") => "text/csv",
        Some("html" | "htm") => "text/html",
        Some("json") => "application/json",
        Some("mp3") => "audio/mpeg",
        Some("mp4") => "video/mp4",
        Some("doc") => "application/msword",
        Some("docx") => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        _ => sniffed,
    }
}

fn check_picture(width: u32, height: u32) -> Result<(), ApiError> {
    if width == 0 || height == 0 {
        return Err(ApiError::bad("IMAGE_PROCESS_FAILED"));
    }
    if width + height > 10_000 || width > height * 20 || height > width * 20 {
        return Err(ApiError::bad("PHOTO_INVALID_DIMENSIONS"));
    }
    Ok(())
}

/// `getFile`: where the bytes of a file_id can be downloaded.
pub(super) fn get_file(core: &Core, id: &str, bot: i64) -> Result<Value, ApiError> {
    if id.is_empty() {
        return Err(ApiError::bad("file_id not specified"));
    }
    let file = File::parse(id, bot).ok_or_else(|| ApiError::bad("invalid file_id"))?;
    if file.bytes > 20 << 20 {
        return Err(ApiError::bad("file is too big"));
    }
    let Some(stored) = core.media.get(&file.sha256) else {
        return Err(ApiError::bad("wrong file_id or the file is temporarily unavailable"));
    };
    Ok(serde_json::json!({
        "file_id": id,
        "file_unique_id": file.unique_id(),
        // All sizes of a photo are the one file that was uploaded.
        "file_size": stored.bytes.len(),
        "file_path": file.path(),
    }))
}

/// The hash in a download path made by `File::path`.
pub(super) fn hash_in_path(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?.strip_prefix("file_")?;
    name.split('.').next().filter(|hash| hash.len() == 64)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 3);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
        }
    }
    text
}

fn unbase64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0u32;
        for byte in chunk {
            let digit = ALPHABET.iter().position(|own| own == byte)?;
            word = word << 6 | digit as u32;
        }
        word <<= 6 * (4 - chunk.len());
        let n_bytes = chunk.len() * 3 / 4;
        bytes.extend_from_slice(&word.to_be_bytes()[1..=n_bytes]);
    }
    Some(bytes)
}
