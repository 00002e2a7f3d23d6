//! Pictures of a post: fetched once through the guarded egress, hashed, kept. Trouble with one is a note, never the
//! end of the post: what cannot be had now goes on by its address, what is not a picture is left out.
//!
//! Pictures come from strangers and unfold a thousandfold, so a node has one budget of memory for all that it decodes
//! at once, paid by what the header says before anything is decoded, and few threads of low priority that do it. And because no estimate is perfect, a picture is
//! noted down before it is decoded: one that was being decoded when a node ended is decoded alone the next time, and
//! after `LOOKS_MAX` such endings never again.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use domain::content::picture::{PICTURE_BYTES_MAX, PictureHash, picture_cost, picture_hash};
use domain::ids::WorkspaceId;
use domain::message::{Media, MediaKind};
use platforms::egress::{FetchError, Fetched, MediaType, sniff};
use platforms::platform::Network;
use sha2::{Digest, Sha256};
use store::{MediaOrigin, NewMedia, Store};
use tokio::sync::{RwLock, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::line::Line;
use super::{PICTURES_MAX, RawPicture, RawPost, decoder};

/// Memory for everything that is decoded at once; more than a phone's photo needs, less than the smallest server has.
const DECODING_BYTES_MAX: u64 = 128 << 20;
/// The budget in use, counted in KiB.
static DECODING: Semaphore = Semaphore::const_new((DECODING_BYTES_MAX >> 10) as usize);
/// Everybody decodes together; who is suspected of ending nodes decodes alone, so that nobody else is blamed.
pub(crate) static TOGETHER: RwLock<()> = RwLock::const_new(());
/// After so many endings of a node while it looked at a picture, the post goes on without it.
const LOOKS_MAX: i32 = 3;
/// Most pictures are smaller than this and are fetched freely; of larger ones only a few are in memory at once.
const SMALL_BYTES_MAX: usize = 2 << 20;
static LARGE: LazyLock<Line> = LazyLock::new(|| Line::new(2));
/// How long the pictures of one post may keep it waiting, for fetching and looking together.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pictures of a post that can be shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    pub pictures: Vec<KeptPicture>,
    /// What became of the others.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct KeptPicture {
    pub key: String,
    pub media: Media,
    pub look: Option<PictureHash>,
}

pub(super) async fn keep(
    store: &Store,
    network: &Network,
    workspace: WorkspaceId,
    raw: &RawPost,
) -> anyhow::Result<Kept> {
    let pictures = &raw.pictures;
    let mut kept = Kept::default();
    for media in &raw.kept {
        kept.pictures.push(along(store, workspace, media).await?);
    }
    if pictures.len() > PICTURES_MAX {
        kept.notes.push(format!("{} pictures, the first {PICTURES_MAX} are kept", pictures.len()));
    }
    let until = Instant::now() + PATIENCE;
    for picture in pictures.iter().take(PICTURES_MAX) {
        if let Some(known) = store.media_by_source(workspace, &picture.key).await? {
            kept.pictures.push(known_picture(picture, &known));
            continue;
        }
        match timeout_at(until, fetch(network, workspace, &picture.url)).await {
            Ok(Ok(fetched)) => match look(store, workspace, &picture.key, fetched, until).await? {
                Ok(seen) => {
                    kept.notes.extend(seen.note.as_ref().map(|note| format!("{}: {note}", picture.key)));
                    kept.pictures.push(put(store, workspace, picture, seen).await?);
                }
                Err(why) => kept.notes.push(format!("{}: left out: {why}", picture.key)),
            },
            Ok(Err(error)) if !error.is_transient() => {
                kept.notes.push(format!("{}: left out: {error}", picture.key));
            }
            late => {
                let why = late.map_or_else(|_| "it takes too long".to_owned(), |error| trouble(&error));
                kept.notes.push(format!("{}: not fetched yet: {why}", picture.key));
                kept.pictures.push(by_address(picture));
            }
        }
    }
    Ok(kept)
}

fn trouble(fetched: &Result<Fetched, FetchError>) -> String {
    fetched.as_ref().err().map(ToString::to_string).unwrap_or_default()
}

async fn fetch(network: &Network, workspace: WorkspaceId, url: &str) -> Result<Fetched, FetchError> {
    match network.egress.fetch(url, SMALL_BYTES_MAX).await {
        Err(FetchError::TooLarge(_)) => {
            let _seat = LARGE.seat(workspace).await;
            network.egress.fetch(url, PICTURE_BYTES_MAX).await
        }
        other => other,
    }
}

/// Without any fetching: what is known is shown, what may be fetched goes by its address. Says whether nothing is
/// left to fetch.
pub(super) async fn keep_known(
    store: &Store,
    network: &Network,
    workspace: WorkspaceId,
    raw: &RawPost,
) -> anyhow::Result<(Kept, bool)> {
    let (mut kept, mut is_whole) = (Kept::default(), true);
    for media in &raw.kept {
        kept.pictures.push(along(store, workspace, media).await?);
    }
    for picture in raw.pictures.iter().take(PICTURES_MAX) {
        if let Some(known) = store.media_by_source(workspace, &picture.key).await? {
            kept.pictures.push(known_picture(picture, &known));
        } else if let Err(error) = network.egress.check(&picture.url) {
            kept.notes.push(format!("{}: left out: {error}", picture.key));
        } else {
            kept.pictures.push(by_address(picture));
            is_whole = false;
        }
    }
    Ok((kept, is_whole))
}

/// Whether bytes are what can be kept, by their size and their first bytes.
pub fn check_bytes(name: &str, bytes: &Bytes) -> anyhow::Result<MediaType> {
    if bytes.len() > PICTURE_BYTES_MAX {
        return Err(anyhow!(
            "{name}: {} bytes, at most {PICTURE_BYTES_MAX}; send a smaller file",
            bytes.len()
        ));
    }
    sniff(bytes).ok_or_else(|| {
        anyhow!("{name}: not a jpeg, png, gif, webp, mp4, webm or pdf; convert it to one of them")
    })
}

/// Keeps bytes that came along with a post: files of the command line, uploads. What is known is not looked at again, so
/// that a call that is made again after it took too long has less to do.
pub async fn keep_bytes(
    store: &Store,
    workspace: WorkspaceId,
    files: Vec<(String, Bytes)>,
) -> anyhow::Result<Vec<Media>> {
    let until = Instant::now() + PATIENCE;
    let mut kept = Vec::with_capacity(files.len());
    for (name, bytes) in files {
        let media_type = check_bytes(&name, &bytes)?;
        let fetched = Fetched { bytes, media_type };
        let sha256 = sha256(&fetched.bytes);
        let key = format!("sha256:{sha256}");
        let seen = match store.media_origin(workspace, &sha256).await? {
            Some(_) => Seen { fetched, sha256, look: None, note: None },
            None => {
                let looked = look(store, workspace, &key, fetched, until).await?;
                looked.map_err(|why| anyhow!("{name}: {why}"))?
            }
        };
        let picture = RawPicture { key, ..RawPicture::default() };
        let new = put(store, workspace, &picture, seen).await?;
        kept.push(Media { url: None, file_name: Some(name), ..new.media });
    }
    Ok(kept)
}

/// What came along is shown as it is; what it looks like was found out when it was kept.
async fn along(store: &Store, workspace: WorkspaceId, media: &Media) -> anyhow::Result<KeptPicture> {
    let blob = media.blob.clone().unwrap_or_default();
    let known = store.media_origin(workspace, &blob).await?;
    let look = known.and_then(|known| known.picture_hash).as_deref().and_then(parse_look);
    Ok(KeptPicture { key: format!("sha256:{blob}"), media: media.clone(), look })
}

#[derive(Debug)]
struct Seen {
    fetched: Fetched,
    sha256: String,
    look: Option<PictureHash>,
    /// Why it has no look although it is a picture.
    note: Option<String>,
}

/// What a picture looks like, within the budget; what is too large for that, or not looked at in time, is kept and
/// not looked at. The inner error says why it is no picture for anybody.
async fn look(
    store: &Store,
    workspace: WorkspaceId,
    key: &str,
    fetched: Fetched,
    until: Instant,
) -> anyhow::Result<Result<Seen, String>> {
    let cost = match fetched.media_type {
        MediaType::Jpeg | MediaType::Png | MediaType::Webp => match picture_cost(&fetched.bytes) {
            Ok(cost) => cost,
            Err(error) => return Ok(Err(error.to_string())),
        },
        MediaType::Gif | MediaType::Mp4 | MediaType::Webm | MediaType::Pdf => {
            return Ok(Ok(unseen(fetched, None)));
        }
    };
    if cost > DECODING_BYTES_MAX {
        let note = format!(
            "not compared with other pictures: it would unfold into {} MB, at most {} are decoded",
            cost >> 20,
            DECODING_BYTES_MAX >> 20
        );
        return Ok(Ok(unseen(fetched, Some(note))));
    }
    let endings = store.looks_begun(workspace, key).await?;
    if endings >= LOOKS_MAX {
        let why = format!("the node ended {endings} times while it looked at it");
        tracing::error!(picture = key, why, "a picture is put aside");
        return Ok(Err(why));
    }
    match timeout_at(until, decode(store, workspace, key, fetched.clone(), cost, endings)).await {
        Ok(seen) => seen,
        Err(_) => {
            let note = "not compared with other pictures: too many are being looked at";
            Ok(Ok(unseen(fetched, Some(note.to_owned()))))
        }
    }
}

async fn decode(
    store: &Store,
    workspace: WorkspaceId,
    key: &str,
    fetched: Fetched,
    cost: u64,
    endings: i32,
) -> anyhow::Result<Result<Seen, String>> {
    let seat = decoder::seat(workspace).await?;
    let (alone, together) = match endings {
        0 => (None, Some(TOGETHER.read().await)),
        _ => (Some(TOGETHER.write().await), None),
    };
    let paid = DECODING.acquire_many(u32::try_from(cost.div_ceil(1 << 10)).unwrap_or(u32::MAX)).await?;
    // Whoever waits for it may give up; what was begun is ended all the same, or it would look like a node that ended.
    let (store, key) = (store.clone(), key.to_owned());
    let looking = tokio::spawn(async move {
        store.begin_look(workspace, &key).await?;
        let looked = decoder::apart(move || {
            let look = picture_hash(&fetched.bytes).map_err(|error| error.to_string());
            Ok(Seen { look: Some(look?), ..unseen(fetched, None) })
        });
        let seen = looked.await.unwrap_or_else(|| Err("the decoder gave up".to_owned()));
        drop((seat, alone, together, paid));
        store.end_look(workspace, &key).await?;
        Ok(seen)
    });
    looking.await?
}

fn unseen(fetched: Fetched, note: Option<String>) -> Seen {
    let sha256 = sha256(&fetched.bytes);
    Seen { fetched, sha256, look: None, note }
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn put(
    store: &Store,
    workspace: WorkspaceId,
    picture: &RawPicture,
    seen: Seen,
) -> anyhow::Result<KeptPicture> {
    let mime = seen.fetched.media_type.mime();
    let side = |side: Option<u32>| side.and_then(|side| i32::try_from(side).ok());
    let new = NewMedia {
        sha256: seen.sha256.clone(),
        mime: mime.to_owned(),
        bytes: seen.fetched.bytes.clone(),
        width: side(picture.width),
        height: side(picture.height),
        picture_hash: seen.look.map(|look| look.to_string()),
        source_url: Some(picture.key.clone()),
    };
    store.put_media_origin(workspace, new).await?;
    let media = Media {
        kind: kind(mime),
        blob: Some(seen.sha256),
        size_bytes: Some(seen.fetched.bytes.len() as u64),
        mime: Some(mime.to_owned()),
        ..by_address(picture).media
    };
    Ok(KeptPicture { key: picture.key.clone(), media, look: seen.look })
}

fn known_picture(picture: &RawPicture, known: &MediaOrigin) -> KeptPicture {
    let side = |side: Option<i32>| side.and_then(|side| u32::try_from(side).ok());
    let media = Media {
        kind: kind(&known.mime),
        blob: Some(known.sha256.clone()),
        size_bytes: u64::try_from(known.bytes_count).ok(),
        mime: Some(known.mime.clone()),
        width: side(known.width),
        height: side(known.height),
        ..by_address(picture).media
    };
    let look = known.picture_hash.as_deref().and_then(parse_look);
    KeptPicture { key: picture.key.clone(), media, look }
}

/// Without its bytes: whoever sends it fetches it.
fn by_address(picture: &RawPicture) -> KeptPicture {
    let media = Media {
        kind: MediaKind::Photo,
        url: Some(picture.url.clone()),
        width: picture.width,
        height: picture.height,
        ..Media::default()
    };
    KeptPicture { key: picture.key.clone(), media, look: None }
}

fn kind(mime: &str) -> MediaKind {
    match mime {
        "image/gif" => MediaKind::Animation,
        "video/mp4" | "video/webm" => MediaKind::Video,
        "application/pdf" => MediaKind::Document,
        _ => MediaKind::Photo,
    }
}

/// As `PictureHash` writes itself: twice sixteen digits.
fn parse_look(text: &str) -> Option<PictureHash> {
    let side = |digits: Option<&str>| u64::from_str_radix(digits?, 16).ok();
    Some(PictureHash { across: side(text.get(..16))?, down: side(text.get(16..32))? })
}
