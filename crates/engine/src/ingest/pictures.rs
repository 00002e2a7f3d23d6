//! Pictures of a post: fetched once through the guarded egress, hashed, kept. Trouble with one is a note, never the
//! end of the post: what cannot be had now goes on by its address, what is not a picture is left out.

use anyhow::anyhow;
use bytes::Bytes;
use domain::content::picture::{PICTURE_BYTES_MAX, PictureHash, picture_hash};
use domain::ids::WorkspaceId;
use domain::message::{Media, MediaKind};
use platforms::egress::{Fetched, MediaType, sniff};
use platforms::platform::Network;
use sha2::{Digest, Sha256};
use store::{MediaOrigin, NewMedia, Store};

use super::{PICTURES_MAX, RawPicture, RawPost};

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

pub async fn keep(
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
    for picture in pictures.iter().take(PICTURES_MAX) {
        if let Some(known) = store.media_by_source(workspace, &picture.key).await? {
            kept.pictures.push(known_picture(picture, &known));
            continue;
        }
        match network.egress.fetch(&picture.url, PICTURE_BYTES_MAX).await {
            Ok(fetched) => match look(fetched).await {
                Ok(seen) => kept.pictures.push(put(store, workspace, picture, seen).await?),
                Err(why) => kept.notes.push(format!("{}: left out: {why}", picture.key)),
            },
            Err(error) if error.is_transient() => {
                kept.notes.push(format!("{}: not fetched yet: {error}", picture.key));
                kept.pictures.push(by_address(picture));
            }
            Err(error) => kept.notes.push(format!("{}: left out: {error}", picture.key)),
        }
    }
    Ok(kept)
}

/// Keeps bytes that came along with a post: a file of the command line, an upload.
pub async fn keep_bytes(
    store: &Store,
    workspace: WorkspaceId,
    name: &str,
    bytes: Bytes,
) -> anyhow::Result<Media> {
    if bytes.len() > PICTURE_BYTES_MAX {
        return Err(anyhow!(
            "{name}: {} bytes, at most {PICTURE_BYTES_MAX}; send a smaller file",
            bytes.len()
        ));
    }
    let media_type = sniff(&bytes).ok_or_else(|| {
        anyhow!("{name}: not a jpeg, png, gif, webp, mp4, webm or pdf; convert it to one of them")
    })?;
    let seen = look(Fetched { bytes, media_type }).await.map_err(|why| anyhow!("{name}: {why}"))?;
    let key = format!("sha256:{}", seen.sha256);
    let picture = RawPicture { key, ..RawPicture::default() };
    let kept = put(store, workspace, &picture, seen).await?;
    Ok(Media { url: None, file_name: Some(name.to_owned()), ..kept.media })
}

/// What came along is shown as it is; what it looks like was found out when it was kept.
async fn along(store: &Store, workspace: WorkspaceId, media: &Media) -> anyhow::Result<KeptPicture> {
    let blob = media.blob.clone().unwrap_or_default();
    let known = store.media_origin(workspace, &blob).await?;
    let look = known.and_then(|known| known.picture_hash).as_deref().and_then(parse_look);
    Ok(KeptPicture { key: format!("sha256:{blob}"), media: media.clone(), look })
}

struct Seen {
    fetched: Fetched,
    sha256: String,
    look: Option<PictureHash>,
}

/// Decoding is work for a thread of its own; a picture that would unfold into too much is refused there.
async fn look(fetched: Fetched) -> Result<Seen, String> {
    let looked = tokio::task::spawn_blocking(move || {
        let sha256: String =
            Sha256::digest(&fetched.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let look = match fetched.media_type {
            MediaType::Jpeg | MediaType::Png | MediaType::Webp => {
                Some(picture_hash(&fetched.bytes).map_err(|error| error.to_string())?)
            }
            MediaType::Gif | MediaType::Mp4 | MediaType::Webm | MediaType::Pdf => None,
        };
        Ok(Seen { fetched, sha256, look })
    });
    looked.await.unwrap_or_else(|_| Err("the decoder gave up".to_owned()))
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
