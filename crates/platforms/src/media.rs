//! Where the bytes of media come from when a part is sent: a kept handle, the store, or their own address.

use bytes::Bytes;
use domain::message::{Media, MediaKind};
use domain::outcome::{Category, Failure, Scope};
use domain::time::Timestamp;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::egress::{MEDIA_BYTES_MAX, sniff};
use crate::part::MediaItem;
use crate::platform::Network;
use crate::verdict::{permanent, transient};

/// How a platform names media it already has. Belongs to one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaHandle {
    pub platform: String,
    /// The kind it was sent as: a photo's handle cannot be sent as a document.
    pub kind: MediaKind,
    pub value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl MediaHandle {
    pub(crate) fn new(platform: &str, kind: MediaKind, value: impl Into<String>) -> MediaHandle {
        MediaHandle { platform: platform.to_owned(), kind, value: value.into(), expires_at: None }
    }
}

/// What the sender needs from the store.
pub trait MediaSource: Send + Sync {
    /// A handle of this account that has not expired.
    fn handle<'a>(&'a self, item: &'a MediaItem) -> BoxFuture<'a, Option<MediaHandle>>;

    /// The stored bytes.
    fn bytes<'a>(&'a self, media: &'a Media) -> BoxFuture<'a, Result<Bytes, MediaError>>;
}

/// Why the store has no bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    #[error("the bytes are not stored")]
    NotStored,
    #[error("the bytes cannot be read now: {0}")]
    Unavailable(String),
}

/// A source without anything in it: for parts of words alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMedia;

impl MediaSource for NoMedia {
    fn handle<'a>(&'a self, _: &'a MediaItem) -> BoxFuture<'a, Option<MediaHandle>> {
        Box::pin(async { None })
    }

    fn bytes<'a>(&'a self, _: &'a Media) -> BoxFuture<'a, Result<Bytes, MediaError>> {
        Box::pin(async { Err(MediaError::NotStored) })
    }
}

/// A file ready for upload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct File {
    pub(crate) bytes: Bytes,
    pub(crate) mime: String,
    pub(crate) filename: String,
}

/// The best way to give one medium to a platform.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Supply {
    Handle(MediaHandle),
    File(File),
    /// The platform fetches it itself.
    Url(String),
}

/// Finds the best way for a platform that can fetch addresses itself: a handle, stored bytes, the address.
pub(crate) async fn supply(source: &dyn MediaSource, item: &MediaItem) -> Result<Supply, Failure> {
    if let Some(handle) = source.handle(item).await {
        return Ok(Supply::Handle(handle));
    }
    if let Some(file) = stored(source, item).await? {
        return Ok(Supply::File(file));
    }
    item.media.url.clone().map(Supply::Url).ok_or_else(missing)
}

/// The bytes, from the store or from the address.
pub(crate) async fn file_of(
    network: &Network,
    source: &dyn MediaSource,
    item: &MediaItem,
) -> Result<File, Failure> {
    if let Some(file) = stored(source, item).await? {
        return Ok(file);
    }
    let url = item.media.url.as_deref().ok_or_else(missing)?;
    match network.egress.fetch(url, MEDIA_BYTES_MAX).await {
        Ok(fetched) => Ok(file(item, fetched.bytes)),
        Err(error) if error.is_transient() => {
            Err(transient(Scope::Delivery, "media_unavailable", error.to_string()))
        }
        Err(error) => Err(permanent(Scope::Delivery, "media_refused", error.to_string())),
    }
}

async fn stored(source: &dyn MediaSource, item: &MediaItem) -> Result<Option<File>, Failure> {
    if item.media.blob.is_none() {
        return Ok(None);
    }
    match source.bytes(&item.media).await {
        Ok(bytes) => Ok(Some(file(item, bytes))),
        Err(MediaError::NotStored) => Ok(None),
        Err(MediaError::Unavailable(reason)) => Err(transient(Scope::Delivery, "media_unavailable", reason)),
    }
}

/// A medium that will never be had. A picture that is gone must not cost the words: it is left out and noted.
pub(crate) fn is_lost(failure: &Failure) -> bool {
    failure.category == Category::Permanent
        && matches!(
            failure.code.as_str(),
            "media_missing" | "media_refused" | "upload_refused" | "upload.error"
        )
}

/// What the audit says about it.
pub(crate) fn left_out(item: &MediaItem, failure: &Failure) -> String {
    format!("{} left out: {}", item.send_as, failure.message)
}

fn missing() -> Failure {
    permanent(Scope::Delivery, "media_missing", "media: neither bytes nor an address are known")
}

fn file(item: &MediaItem, bytes: Bytes) -> File {
    let sniffed = sniff(&bytes);
    let mime = sniffed
        .map(|kind| kind.mime().to_owned())
        .or_else(|| item.media.mime.clone().filter(|mime| is_mime(mime)))
        .unwrap_or_else(|| "application/octet-stream".to_owned());
    let extension = sniffed.map_or("bin", |kind| kind.extension());
    let named = item.media.file_name.as_deref().map(safe_name).filter(|name| name.contains('.'));
    let filename = named.unwrap_or_else(|| format!("{}.{extension}", item.send_as));
    File { bytes, mime, filename }
}

fn is_mime(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    text.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

/// Characters of a file name.
const NAME_CHARS_MAX: usize = 100;

/// A file name without paths, quotes and line breaks: it goes into a header.
fn safe_name(name: &str) -> String {
    let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let keep = |c: &char| !c.is_control() && !"\"<>:|?*%;".contains(*c);
    let clean: String = base.chars().filter(keep).collect();
    let skipped = clean.chars().count().saturating_sub(NAME_CHARS_MAX);
    // The end is kept, because the extension is there.
    clean.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_made_safe_and_always_have_an_extension() {
        let check = |name: Option<&str>, expected: &str| {
            let media = Media { file_name: name.map(str::to_owned), ..Media::default() };
            let item = MediaItem { send_as: MediaKind::Photo, media };
            assert_eq!(file(&item, Bytes::from_static(b"\xff\xd8\xff\xe0")).filename, expected);
        };
        check(None, "photo.jpg");
        check(Some("кот.jpg"), "кот.jpg");
        check(Some("../../etc/passwd"), "photo.jpg");
        check(Some("a\"b\r\nX: y.png"), "abX y.png");
        check(Some("без расширения"), "photo.jpg");
    }

    #[test]
    fn the_type_is_what_the_bytes_say() {
        let media = Media { mime: Some("text/html".into()), ..Media::default() };
        let item = MediaItem { send_as: MediaKind::Document, media: media.clone() };
        assert_eq!(file(&item, Bytes::from_static(b"%PDF-1.4")).mime, "application/pdf");
        assert_eq!(file(&item, Bytes::from_static(b"plain")).mime, "text/html");
        let odd = MediaItem { media: Media { mime: Some("a\r\nb".into()), ..media }, ..item };
        assert_eq!(file(&odd, Bytes::from_static(b"plain")).mime, "application/octet-stream");
    }
}
