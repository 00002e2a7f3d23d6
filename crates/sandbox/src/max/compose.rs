//! A new message body: reading it, the rules of composition, and what its attachments become.

use serde_json::{Map, Value, json};

use super::Visitor;
use super::contact;
use super::errors::ApiError;
use super::keyboard;
use super::markup::{self, Format, Styled};
use super::uploads::{Attached, MediaKind, Missing, Picture};

const TEXT_MAX: usize = 4000;
const ATTACHMENTS_MAX: usize = 12;
/// A picture fetched by address.
const FETCHED_BYTES_MAX: usize = 50_000_000;

/// `NewMessageBody` as it was sent.
#[derive(Clone, Debug)]
pub(super) struct NewMessage {
    pub text: Option<String>,
    pub attachments: Option<Vec<Value>>,
    pub link: Option<Link>,
    pub format: Format,
}

/// The message that is answered or passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub forward: bool,
    pub mid: String,
}

impl NewMessage {
    pub(super) fn parse(body: &Value) -> Result<NewMessage, ApiError> {
        let body = body.as_object().ok_or_else(ApiError::body)?;
        if body.get("notify").is_some_and(|notify| !notify.is_boolean() && !notify.is_null()) {
            return Err(ApiError::body());
        }
        Ok(NewMessage {
            text: optional(body, "text", |value| value.as_str().map(str::to_owned))?,
            attachments: optional(body, "attachments", |value| value.as_array().cloned())?,
            link: optional(body, "link", Value::as_object)?.map(Link::parse).transpose()?,
            format: optional(body, "format", format_of)?.unwrap_or(Format::Plain),
        })
    }
}

fn optional<'a, T>(
    body: &'a Map<String, Value>,
    field: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(ApiError::body),
    }
}

fn format_of(value: &Value) -> Option<Format> {
    match value.as_str()? {
        "markdown" => Some(Format::Markdown),
        "html" => Some(Format::Html),
        _ => None,
    }
}

impl Link {
    fn parse(link: &Map<String, Value>) -> Result<Link, ApiError> {
        let forward = match link.get("type").and_then(Value::as_str) {
            Some("reply") => false,
            Some("forward") => true,
            _ => return Err(ApiError::body()),
        };
        let mid = link.get("mid").and_then(Value::as_str).filter(|mid| !mid.is_empty());
        Ok(Link { forward, mid: mid.ok_or_else(ApiError::body)?.to_owned() })
    }
}

/// Attachments after they were found and checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Composed {
    /// As a message carries them.
    pub attachments: Vec<Value>,
    /// Pictures and files among them, for the ledger.
    pub files: Vec<Attached>,
}

impl Composed {
    pub(super) fn has_media(&self) -> bool {
        self.attachments.iter().any(|item| item["type"] != "inline_keyboard")
    }
}

/// Reads a text: its length as it was sent, then its format.
pub(super) fn styled(visitor: &Visitor<'_>, text: &str, format: Format) -> Result<Styled, ApiError> {
    if visitor.options().length(text) > TEXT_MAX {
        return Err(ApiError::payload(format!("text: size must be between 0 and {TEXT_MAX}")));
    }
    Ok(markup::read(text, format, &visitor.max.people))
}

/// The preview that the server adds when a text has an address and the message shows nothing else.
pub(super) fn preview(styled: &Styled, composed: &Composed) -> Option<Value> {
    if composed.has_media() {
        return None;
    }
    let url = styled.first_address()?;
    let host = url::Url::parse(&url).ok()?.host_str()?.to_owned();
    Some(json!({ "type": "share", "payload": { "url": url }, "title": host }))
}

/// Checks a list of attachments and finds what their tokens and addresses stand for.
pub(super) async fn attachments(visitor: &Visitor<'_>, list: &[Value]) -> Result<Composed, ApiError> {
    let wanted: Vec<Wanted> =
        list.iter().enumerate().map(|(at, item)| Wanted::parse(item, at)).collect::<Result<_, _>>()?;
    check_composition(visitor, &wanted)?;
    let mut composed = Composed::default();
    for item in wanted {
        match item {
            Wanted::Images(sources) => {
                for source in sources {
                    composed.add_file(image(visitor, &source).await?);
                }
            }
            Wanted::Upload { kind, token } => composed.add_file(uploaded(visitor, kind, &token)?),
            Wanted::Keyboard(rows) => {
                if !rows.is_empty() {
                    let callback_id = visitor.max.new_id(visitor.core(), "keyboard");
                    composed.attachments.push(json!({
                        "type": "inline_keyboard",
                        "callback_id": callback_id,
                        "payload": { "buttons": rows },
                    }));
                }
            }
            Wanted::Contact(payload) => composed.attachments.push(contact::received(visitor, &payload)),
            Wanted::Plain(_, object) => composed.attachments.push(object),
        }
    }
    Ok(composed)
}

impl Composed {
    fn add_file(&mut self, file: Attached) {
        self.attachments.push(file_json(&file));
        self.files.push(file);
    }
}

/// An attachment that is asked for.
#[derive(Clone, Debug)]
enum Wanted {
    Images(Vec<ImageSource>),
    Upload {
        kind: MediaKind,
        token: String,
    },
    Keyboard(Vec<Vec<Value>>),
    Contact(Map<String, Value>),
    /// Needs nothing more: location, share, sticker.
    Plain(&'static str, Value),
}

#[derive(Clone, Debug)]
enum ImageSource {
    Token(String),
    Url(String),
}

impl Wanted {
    fn parse(item: &Value, at: usize) -> Result<Wanted, ApiError> {
        let kind = item["type"].as_str().ok_or_else(ApiError::body)?;
        let payload = &item["payload"];
        if !payload.is_null() && !payload.is_object() {
            return Err(ApiError::body());
        }
        match kind {
            "image" => images(payload),
            "video" | "audio" | "file" => {
                let token = payload["token"].as_str().filter(|token| !token.is_empty());
                // The text says "video" whatever the type is.
                let missing = || ApiError::payload("Missing `token` in video attachment");
                let kind = MediaKind::parse(kind).ok_or_else(ApiError::body)?;
                Ok(Wanted::Upload { kind, token: token.ok_or_else(missing)?.to_owned() })
            }
            "inline_keyboard" => Ok(Wanted::Keyboard(keyboard::checked(payload, at)?)),
            "contact" => Ok(Wanted::Contact(payload.as_object().cloned().ok_or_else(ApiError::body)?)),
            "sticker" => sticker(payload),
            "location" => location(item),
            "share" => share(payload),
            _ => Err(ApiError::body()),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Wanted::Images(_) => "image",
            Wanted::Upload { kind, .. } => kind.name(),
            Wanted::Keyboard(_) => "inline_keyboard",
            Wanted::Contact(_) => "contact",
            Wanted::Plain(kind, _) => kind,
        }
    }

    fn count(&self) -> usize {
        match self {
            Wanted::Images(sources) => sources.len(),
            _ => 1,
        }
    }
}

fn images(payload: &Value) -> Result<Wanted, ApiError> {
    let photos: Vec<ImageSource> = match &payload["photos"] {
        Value::Object(photos) => {
            let tokens = photos.values().map(|photo| photo["token"].as_str().or(photo.as_str()));
            tokens.map(|token| token.map(|token| ImageSource::Token(token.to_owned()))).collect::<Option<_>>()
        }
        Value::Null => Some(Vec::new()),
        _ => None,
    }
    .ok_or_else(ApiError::body)?;
    if !photos.is_empty() {
        return Ok(Wanted::Images(photos));
    }
    let text = |field: &str| payload[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let source = text("token").map(ImageSource::Token).or_else(|| text("url").map(ImageSource::Url));
    let missing = || ApiError::payload("No `photos`, `url` or `token` provided. Check payload.");
    Ok(Wanted::Images(vec![source.ok_or_else(missing)?]))
}

fn sticker(payload: &Value) -> Result<Wanted, ApiError> {
    let code = payload["code"].as_str().filter(|code| !code.is_empty()).ok_or_else(ApiError::body)?;
    let url = format!("https://i.oneme.ru/getSmile?smileId={code}");
    let object = json!({
        "type": "sticker",
        "payload": { "url": url, "code": code },
        "width": 512,
        "height": 512,
    });
    Ok(Wanted::Plain("sticker", object))
}

fn location(item: &Value) -> Result<Wanted, ApiError> {
    let number = |field: &str| item[field].as_f64().ok_or_else(ApiError::body);
    let (latitude, longitude) = (number("latitude")?, number("longitude")?);
    let object = json!({ "type": "location", "latitude": latitude, "longitude": longitude });
    Ok(Wanted::Plain("location", object))
}

fn share(payload: &Value) -> Result<Wanted, ApiError> {
    let text = |field: &str| payload[field].as_str().filter(|text| !text.is_empty());
    if text("url").is_none() && text("token").is_none() {
        return Err(ApiError::body());
    }
    let mut kept = json!({});
    for field in ["url", "token"] {
        if let Some(value) = text(field) {
            kept[field] = value.into();
        }
    }
    Ok(Wanted::Plain("share", json!({ "type": "share", "payload": kept })))
}

/// The rules about what may stand beside what. A keyboard may stand beside anything.
fn check_composition(visitor: &Visitor<'_>, wanted: &[Wanted]) -> Result<(), ApiError> {
    let n_all: usize = wanted.iter().map(Wanted::count).sum();
    if n_all > ATTACHMENTS_MAX {
        let message = format!("attachments: size must be between 0 and {ATTACHMENTS_MAX}");
        return Err(ApiError::payload(message));
    }
    let count =
        |kind: &str| wanted.iter().filter(|item| item.kind() == kind).map(Wanted::count).sum::<usize>();
    let n_keyboards = count("inline_keyboard");
    if n_keyboards > 1 {
        return Err(ApiError::payload("Must be only one inline keyboard in message"));
    }
    let n_media = n_all - n_keyboards;
    for kind in ["file", "audio", "contact", "sticker"] {
        let mixes = kind == "audio" && visitor.options().mix_audio();
        if count(kind) > 0 && n_media > 1 && !mixes {
            return Err(ApiError::payload(format!("Must be only one {kind} attachment in message")));
        }
    }
    Ok(())
}

fn uploaded(visitor: &Visitor<'_>, kind: MediaKind, token: &str) -> Result<Attached, ApiError> {
    visitor.max.uploads.find(token, kind).map_err(|missing| match missing {
        Missing::NotReady => ApiError::not_ready(kind.process()),
        Missing::Unknown => ApiError::payload(format!("Invalid `token` in {} attachment", kind.name())),
    })
}

async fn image(visitor: &Visitor<'_>, source: &ImageSource) -> Result<Attached, ApiError> {
    let url = match source {
        ImageSource::Token(token) => return uploaded(visitor, MediaKind::Image, token),
        ImageSource::Url(url) => url,
    };
    let picture = fetched(visitor, url).await?;
    Ok(visitor.max.uploads.adopt(visitor.core(), &visitor.origin, &visitor.account.token, picture))
}

/// Addresses of the sandbox itself and of loopback are fetched; the rest of the world is believed.
async fn fetched(visitor: &Visitor<'_>, url: &str) -> Result<Picture, ApiError> {
    let failed = || ApiError::payload("Failed to upload image by `url`");
    let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let parsed = parsed.ok_or_else(failed)?;
    if !super::is_loopback(&parsed) {
        return Ok(Picture::Elsewhere(parsed.into()));
    }
    let core = visitor.core();
    let bytes = match core.own_picture(parsed.as_str()) {
        Some(bytes) => bytes,
        None => core.hooks.get(parsed.as_str(), FETCHED_BYTES_MAX).await.map_err(|_| failed())?,
    };
    if bytes.is_empty() || !crate::media::sniff(&bytes).starts_with("image/") {
        return Err(failed());
    }
    Ok(Picture::Fetched(bytes))
}

/// The received form of a picture or file.
fn file_json(file: &Attached) -> Value {
    let size = file.stored.as_ref().and_then(|stored| stored.size);
    match file.kind {
        MediaKind::Image => json!({
            "type": "image",
            "payload": { "photo_id": file.number, "token": file.token, "url": file.url },
        }),
        MediaKind::Video => {
            let (width, height) = size.unwrap_or((1280, 720));
            json!({
                "type": "video",
                "payload": { "id": file.number, "token": file.token, "url": file.url },
                "width": width,
                "height": height,
                "duration": 1,
            })
        }
        MediaKind::Audio => json!({ "type": "audio", "payload": { "token": file.token, "url": file.url } }),
        MediaKind::File => json!({
            "type": "file",
            "payload": { "token": file.token, "url": file.url },
            "filename": if file.name.is_empty() { "file" } else { file.name.as_str() },
            "size": file.stored.as_ref().map_or(0, |stored| stored.bytes.len()),
        }),
    }
}
