//! Which media of a message can be sent, as what, and how many. What cannot is left out, with a note and, where
//! there is one, a page to look at. The platforms' sizes are in their own `render.rs`.

use domain::message::{Media, MediaKind, Message, is_web_address};

use crate::part::{ChannelSettings, MediaItem};

/// Media that can be sent, and what became of the rest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picked {
    pub items: Vec<MediaItem>,
    /// Where the reader can see what was left out.
    pub pages: Vec<String>,
    pub notes: Vec<String>,
}

/// Bytes of a megabyte as the platforms state their limits; decimal, which is the smaller reading.
pub const MEGABYTE: u64 = 1_000_000;

/// Takes the first `max_media` that `accept` lets through.
pub fn pick(
    message: &Message,
    settings: &ChannelSettings,
    accept: impl Fn(&Media) -> Result<MediaKind, String>,
) -> Picked {
    let mut picked = Picked::default();
    let mut over = 0;
    for (index, media) in message.media.iter().enumerate() {
        let verdict = match (settings.attach_media, media.blob.is_some() || media.url.is_some()) {
            (false, _) => Err("attach_media is off".to_owned()),
            (true, false) => Err("its bytes are not known".to_owned()),
            (true, true) => accept(media),
        };
        match verdict {
            Ok(_) if picked.items.len() >= settings.max_media => over += 1,
            Ok(send_as) => picked.items.push(MediaItem { send_as, media: media.clone() }),
            Err(reason) => {
                picked.notes.push(format!("{} {} left out: {reason}", media.kind, index + 1));
                picked.pages.extend(media.page.clone().filter(|page| is_web_address(page)));
            }
        }
    }
    if over > 0 {
        let (total, max) = (message.media.len(), settings.max_media);
        picked.notes.push(format!("{over} of {total} media left out: max_media is {max}"));
    }
    picked
}

/// Refuses media larger than a limit; an unknown size is given the benefit of the doubt.
pub fn up_to(megabytes: u64, media: &Media) -> Result<(), String> {
    match media.size_bytes {
        Some(bytes) if bytes > megabytes * MEGABYTE => {
            Err(format!("{bytes} bytes, {} at most", megabytes * MEGABYTE))
        }
        Some(0) => Err("it is empty".to_owned()),
        _ => Ok(()),
    }
}

/// Whether a picture's sides are known and out of bounds.
pub fn is_misshapen(media: &Media, sides_sum_max: u32, ratio_max: u32) -> bool {
    match (media.width, media.height) {
        (Some(width), Some(height)) if width > 0 && height > 0 => {
            let (long, short) = (width.max(height), width.min(height));
            width.saturating_add(height) > sides_sum_max || long > short.saturating_mul(ratio_max)
        }
        _ => false,
    }
}

/// Whether the type is known and not among these subtypes (`jpeg`, `mp4` …).
pub fn is_other_type(media: &Media, subtypes: &[&str]) -> bool {
    media.mime.as_deref().and_then(|mime| mime.split(';').next()).is_some_and(|mime| {
        let subtype = mime.trim().rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        !subtypes.contains(&subtype.as_str())
    })
}

/// Items in groups of a size.
pub fn in_groups(items: &[MediaItem], size: usize) -> Vec<Vec<MediaItem>> {
    items.chunks(size.max(1)).map(<[MediaItem]>::to_vec).collect()
}
