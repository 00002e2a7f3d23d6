//! Photos: where their pixels come from, the object VK makes of them, and the addresses that serve every size.
//! Addresses are signed over their size, as VK's are: without the query string they are worth nothing.

use std::io::Cursor;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageReader, Limits};
use serde_json::{Value, json};

use crate::core::SharedCore;
use crate::media::{MediaStore, sha256_hex};
use crate::reply::Response;
use crate::request::Head;

/// Where the pixels are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Uploaded bytes in the media store.
    Stored(String),
    /// A sample picture, drawn when somebody asks for it.
    Sample(String),
    /// An address of another server on this machine, fetched when somebody asks for it.
    Remote(String),
}

/// What an upload may be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Wall,
    /// Silently dropped from wall posts.
    Message,
}

/// One photo.
#[derive(Clone, Debug)]
pub struct Photo {
    pub id: i64,
    pub owner_id: i64,
    pub user_id: i64,
    pub date: i64,
    pub text: String,
    pub access_key: String,
    pub source: Source,
    pub size: (u32, u32),
    pub purpose: Purpose,
}

/// Size of a picture whose bytes were not seen yet.
const REMOTE_SIZE: (u32, u32) = (807, 605);

impl Source {
    /// The width and height it will have.
    pub fn size(&self, core: &SharedCore) -> Option<(u32, u32)> {
        match self {
            Source::Stored(sha256) => core.media.get(sha256).and_then(|stored| stored.size),
            Source::Sample(name) if name.ends_with('~') => Some((640, 480)),
            Source::Sample(_) => Some((800, 600)),
            Source::Remote(_) => Some(REMOTE_SIZE),
        }
    }

    /// Where the page loads it, past the ledger: looking at the page is no request to VK.
    pub fn page_url(&self) -> String {
        match self {
            Source::Stored(sha256) => MediaStore::url(sha256),
            Source::Sample(name) => format!("/_/pictures/{}.jpg", percent_encoded(name)),
            Source::Remote(url) => url.clone(),
        }
    }

    /// A path segment that says it all, so that addresses outlive everything but the bytes.
    fn reference(&self) -> String {
        match self {
            Source::Stored(sha256) => format!("i{sha256}"),
            Source::Sample(name) => format!("s{}", hex(name)),
            Source::Remote(url) => format!("r{}", hex(url)),
        }
    }

    fn parse(reference: &str) -> Option<Source> {
        match reference.split_at_checked(1)? {
            ("i", sha256) => Some(Source::Stored(sha256.to_owned())),
            ("s", name) => unhex(name).map(Source::Sample),
            ("r", url) => unhex(url).map(Source::Remote),
            _ => None,
        }
    }

    async fn bytes(&self, core: &SharedCore) -> Option<Bytes> {
        match self {
            Source::Stored(sha256) => core.media.get(sha256).map(|stored| stored.bytes),
            Source::Sample(name) => {
                let (core, name) = (SharedCore::clone(core), name.clone());
                tokio::task::spawn_blocking(move || core.pictures.jpeg(&name)).await.ok()
            }
            Source::Remote(url) => core.hooks.get(url, 32 << 20).await.ok(),
        }
    }
}

impl Photo {
    /// The object of API 5.199.
    pub fn object(&self, core: &SharedCore) -> Value {
        let album_id = match self.purpose {
            Purpose::Wall => -14,
            Purpose::Message if self.owner_id < 0 => -64,
            Purpose::Message => -3,
        };
        let sizes: Vec<Value> = sizes(self.size)
            .into_iter()
            .map(|(code, (w, h))| {
                json!({ "type": code, "url": self.url(core, (w, h)), "width": w, "height": h })
            })
            .collect();
        let (width, height) = self.size;
        json!({
            "id": self.id,
            "owner_id": self.owner_id,
            "album_id": album_id,
            "user_id": self.user_id,
            "date": self.date,
            "text": self.text,
            "access_key": self.access_key,
            "has_tags": false,
            "sizes": sizes,
            "orig_photo": { "type": "base", "url": self.url(core, self.size), "width": width, "height": height },
            "web_view_token": &self.access_key,
        })
    }

    fn url(&self, core: &SharedCore, (width, height): (u32, u32)) -> String {
        let (reference, size) = (self.source.reference(), format!("{width}x{height}"));
        let sign = sign(core, &reference, &size);
        let name = self.access_key.get(..10).unwrap_or("photo");
        format!(
            "{}/vk/cdn/impg/{reference}/{name}.jpg?size={size}&quality=95&sign={sign}&c_uniq_tag={name}&type=album",
            core.origin
        )
    }
}

/// The sizes a picture of this size has, in the order of the size codes.
fn sizes((width, height): (u32, u32)) -> Vec<(&'static str, (u32, u32))> {
    let (w, h) = (f64::from(width.max(1)), f64::from(height.max(1)));
    let longest = w.max(h);
    let boxed = |side: f64| {
        let scale = (side / longest).min(1.0);
        (rounded(w * scale), rounded(h * scale))
    };
    // These four are cut to 3:2 when the picture is wider than that.
    let cut = |side: f64| {
        let ratio = (h / w).max(2.0 / 3.0);
        let wide = side.min(w);
        (rounded(wide), rounded((wide * ratio).min(h)))
    };
    let mut found = vec![("s", boxed(75.0)), ("m", boxed(130.0)), ("x", boxed(604.0))];
    found.extend([("o", cut(130.0)), ("p", cut(200.0)), ("q", cut(320.0)), ("r", cut(510.0))]);
    for (code, side, above) in [("y", 807.0, 604.0), ("z", 1280.0, 807.0), ("w", 2560.0, 1280.0)] {
        if longest > above {
            found.push((code, boxed(side)));
        }
    }
    found
}

fn rounded(side: f64) -> u32 {
    side.round().max(1.0) as u32
}

/// The largest size of a photo object, by area, as careful clients choose it.
pub(super) fn largest(photo: &Value) -> Option<&Value> {
    let area = |size: &Value| size["width"].as_u64().unwrap_or(0) * size["height"].as_u64().unwrap_or(0);
    photo["sizes"].as_array()?.iter().max_by_key(|size| area(size))
}

/// The source behind one of our own addresses.
pub(super) fn source_of(url: &str) -> Option<Source> {
    let (_, rest) = url.split_once("/vk/cdn/impg/")?;
    Source::parse(rest.split('/').next()?)
}

/// Serves `GET /cdn/impg/{reference}/{name}.jpg?size=…&sign=…`.
pub(super) async fn serve(core: &SharedCore, head: &Head, reference: &str) -> Response {
    let size = head.query_value("size").unwrap_or_default();
    if head.query_value("sign").as_deref() != Some(&sign(core, reference, &size)) {
        return Response::text(403, "Forbidden");
    }
    let Some(source) = Source::parse(reference) else { return Response::text(404, "Not Found") };
    let (original, wanted) = (source.size(core), parsed_size(&size));
    let Some(bytes) = source.bytes(core).await else { return Response::text(404, "Not Found") };
    let untouched = matches!(source, Source::Remote(_)) || wanted == original;
    let Some(wanted) = wanted.filter(|_| !untouched) else {
        return Response::file(crate::media::sniff(&bytes), bytes);
    };
    let whole = bytes.clone();
    match tokio::task::spawn_blocking(move || resized(&bytes, wanted)).await {
        Ok(Some(smaller)) => Response::file("image/jpeg", smaller),
        // Kinds that cannot be scaled here, such as GIF, come as they are.
        _ => Response::file(crate::media::sniff(&whole), whole),
    }
}

fn sign(core: &SharedCore, reference: &str, size: &str) -> String {
    let mut sign = sha256_hex(format!("{}/{reference}/{size}", core.seed).as_bytes());
    sign.truncate(32);
    sign
}

fn parsed_size(size: &str) -> Option<(u32, u32)> {
    let (width, height) = size.split_once('x')?;
    Some((width.parse().ok()?, height.parse().ok()?))
}

fn resized(bytes: &[u8], (width, height): (u32, u32)) -> Option<Bytes> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(256 << 20);
    reader.limits(limits);
    let picture = DynamicImage::ImageRgb8(reader.decode().ok()?.into_rgb8());
    let scaled = picture.resize_to_fill(width, height, FilterType::Triangle).into_rgb8();
    let mut out = Cursor::new(Vec::new());
    JpegEncoder::new_with_quality(&mut out, 90).encode_image(&scaled).ok()?;
    Some(out.into_inner().into())
}

fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<String> {
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    String::from_utf8(pairs.collect::<Option<Vec<u8>>>()?).ok()
}
