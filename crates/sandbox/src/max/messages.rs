//! Message objects: how they are numbered, built, kept and shown.
//! The visible chat is the only store: beside what the page draws, each message keeps its own object in `raw`,
//! as text, which takes a fraction of the memory.

use serde_json::{Value, json};

use super::Max;
use super::keyboard;
use super::markup::Styled;
use super::people::User;
use super::places::Place;
use crate::chats::{Author, Media, Message, MessageId, Side, Span};
use crate::platform::Name;

/// `mid.` and the chat and the sequence number in sixteen hexadecimal digits each.
pub(super) fn mid(chat: i64, seq: i64) -> String {
    format!("mid.{chat:016x}{seq:016x}")
}

/// The chat of a message id; ids without the prefix are understood as well.
pub(super) fn chat_of(mid: &str) -> Option<i64> {
    let digits = mid.strip_prefix("mid.").unwrap_or(mid);
    let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(digits.get(..16).filter(|_| is_hex)?, 16).ok()?;
    Some(number.cast_signed())
}

/// The id as messages are kept under it.
fn key(mid: &str) -> MessageId {
    match chat_of(mid) {
        Some(_) => {
            let digits = mid.strip_prefix("mid.").unwrap_or(mid);
            MessageId::Text(format!("mid.{}", digits.to_ascii_lowercase()))
        }
        None => MessageId::from(mid),
    }
}

/// More foreign ids than this are forgotten.
const FOREIGN_MAX: usize = 100_000;

/// Everything that makes a message.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub place: &'a Place,
    /// Who wrote it; bots in channels write as the channel.
    pub sender: &'a User,
    /// The bot at this end of a dialog.
    pub bot: i64,
    pub at: i64,
    pub seq: i64,
    pub styled: &'a Styled,
    pub attachments: Vec<Value>,
    pub link: Option<Value>,
    /// The channel post that is commented on.
    pub post: Option<&'a str>,
}

impl Draft<'_> {
    pub(super) fn object(&self) -> Value {
        let place = self.place;
        let mut recipient = json!({ "chat_id": place.id, "chat_type": place.kind.name() });
        if let Some(user_id) = place.user_id {
            recipient["user_id"] = if self.sender.is_bot { user_id } else { self.bot }.into();
        }
        if let Some(post) = self.post {
            recipient["post_id"] = post.into();
        }
        let mut body = json!({ "mid": mid(place.id, self.seq), "seq": self.seq });
        write_text(&mut body, self.styled);
        if !self.attachments.is_empty() {
            body["attachments"] = self.attachments.clone().into();
        }
        let mut object = json!({ "recipient": recipient, "timestamp": self.at, "body": body });
        if !place.is_channel() || self.post.is_some() {
            object["sender"] = self.sender.json(self.at);
        }
        if let Some(link) = &self.link {
            object["link"] = link.clone();
        }
        if place.is_channel() && self.post.is_none() {
            object["stat"] = json!({ "views": 1 });
            object["url"] = format!("https://max.ru/c/{}/{}", place.id, base64url(self.seq)).into();
        }
        object
    }
}

/// Puts text and markup into a body.
pub(super) fn write_text(body: &mut Value, styled: &Styled) {
    body["text"] = styled.text.as_str().into();
    if let Some(body) = body.as_object_mut() {
        body.remove("markup");
    }
    if !styled.marks.is_empty() {
        body["markup"] = styled.json().into();
    }
}

/// The number of a message as public links write it: eight bytes in the alphabet of URLs.
fn base64url(seq: i64) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from(seq.cast_unsigned()) << 2;
    (0..11).rev().map(|i| char::from(ALPHABET[(bits >> (6 * i) & 63) as usize])).collect()
}

/// A message object with what the sandbox knows about it.
#[derive(Clone, Debug)]
pub struct Kept {
    pub object: Value,
    /// The bot that wrote it.
    pub bot: Option<i64>,
    pub at: i64,
}

impl Kept {
    fn of(message: &Message) -> Kept {
        Kept { object: object_of(message), bot: message.raw["bot"].as_i64(), at: message.at }
    }
}

fn object_of(message: &Message) -> Value {
    let text = message.raw["message"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

impl Max {
    /// The next sequence number: milliseconds and a counter, always rising.
    pub fn next_seq(&self) -> i64 {
        let now = self.core.clock.now_ms() << 16;
        let mut last = self.seq.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *last = now.max(*last + 1);
        *last
    }

    /// Keeps a message and shows it.
    pub fn keep(&self, place: &Place, object: &Value, author: &User, bot: Option<i64>) {
        let dialog_user = place.user_id.map(|id| self.people.get(id));
        self.rooms.show(&self.core, place, dialog_user.as_ref());
        let side = match () {
            () if place.is_channel() && object["recipient"].get("post_id").is_none() => Side::Channel,
            () if author.is_bot => Side::Bot,
            () => Side::User,
        };
        let name = if side == Side::Channel { self.rooms.title(place) } else { author.full_name() };
        let mid = object["body"]["mid"].as_str().unwrap_or_default().to_owned();
        if chat_of(&mid) != Some(place.id) {
            let mut foreign = self.foreign();
            if foreign.len() >= FOREIGN_MAX {
                foreign.clear();
            }
            foreign.insert(mid.clone(), place.id);
        }
        let at = object["timestamp"].as_i64().unwrap_or_default();
        let mut shown = Message::text(mid.as_str(), at, Author::new(&name, side), "");
        refresh(&mut shown, object, bot);
        self.core.chats.post(Name::Max, &place.key, shown);
    }

    /// A message by its id, wherever it is.
    pub fn look(&self, mid: &str) -> Option<Kept> {
        let chat = self.chat_of(mid)?.to_string();
        self.core.chats.look(Name::Max, &chat, &key(mid), Kept::of)
    }

    /// Replaces the object of a message and marks it edited; false if it is gone.
    pub fn replace(&self, mid: &str, object: &Value, edited_at: i64) -> bool {
        let Some(chat) = self.chat_of(mid).map(|chat| chat.to_string()) else { return false };
        let replaced = self.core.chats.edit(Name::Max, &chat, &key(mid), |shown| {
            let bot = shown.raw["bot"].as_i64();
            refresh(shown, object, bot);
            shown.edited_at = Some(edited_at);
        });
        replaced.is_some()
    }

    /// The bots that lately wrote in a chat; without any, those for which a user opened it.
    pub fn bots_in(&self, chat: i64) -> Vec<i64> {
        const LATELY: usize = 50;
        let mut bots = Vec::new();
        let mut seen = 0;
        self.core.chats.walk_back(Name::Max, &chat.to_string(), |message| {
            bots.extend(message.raw["bot"].as_i64());
            seen += 1;
            seen < LATELY
        });
        if bots.is_empty() {
            bots = self.rooms.look(chat, |room| room.opened.iter().copied().collect());
        }
        bots
    }

    /// Takes a message away; false if it was not there.
    pub fn remove(&self, mid: &str) -> bool {
        let Some(chat) = self.chat_of(mid).map(|chat| chat.to_string()) else { return false };
        self.core.chats.remove(Name::Max, &chat, &key(mid)).is_some()
    }

    /// Marks a message as pinned or not.
    pub fn show_pin(&self, mid: &str, pinned: bool) {
        if let Some(chat) = self.chat_of(mid).map(|chat| chat.to_string()) {
            // A message that is gone needs no mark.
            let _ = self.core.chats.edit(Name::Max, &chat, &key(mid), |shown| shown.pinned = pinned);
        }
    }

    /// Objects of a chat, newest first, as long as `see` wants more.
    pub fn walk(&self, place: &Place, mut see: impl FnMut(Value, i64) -> bool) {
        self.core.chats.walk_back(Name::Max, &place.key, |message| see(object_of(message), message.at));
    }
}

/// Brings the visible side of a message in line with its object.
fn refresh(shown: &mut Message, object: &Value, bot: Option<i64>) {
    let forwarded = object["link"]["type"] == "forward";
    let own_text = object["body"]["text"].as_str().unwrap_or_default();
    let own_attachments = object["body"]["attachments"].as_array();
    // A message that only passes another on shows that one.
    let shows_other = forwarded && own_text.is_empty() && own_attachments.is_none();
    let body = if shows_other { &object["link"]["message"] } else { &object["body"] };
    body["text"].as_str().unwrap_or_default().clone_into(&mut shown.text);
    shown.spans = body["markup"].as_array().into_iter().flatten().filter_map(span).collect();
    let attachments = || body["attachments"].as_array().into_iter().flatten();
    shown.media = attachments().filter_map(media).collect();
    if shown.text.is_empty() && shown.media.is_empty() {
        shown.text = attachments().find_map(summary).unwrap_or_default();
    }
    shown.buttons = keyboard::buttons(object, bot);
    let is_reply = object["link"]["type"] == "reply";
    let reply = object["link"]["message"]["mid"].as_str().filter(|_| is_reply);
    shown.reply_to = reply.map(MessageId::from);
    shown.note = match &object["recipient"]["post_id"] {
        Value::Null if forwarded => Some("forwarded".to_owned()),
        Value::Null => None,
        _ => Some("comment".to_owned()),
    };
    shown.raw = json!({ "bot": bot, "message": object.to_string() });
}

fn span(mark: &Value) -> Option<Span> {
    let kind = match mark["type"].as_str()? {
        "strong" => "bold",
        "emphasized" => "italic",
        "monospaced" => "code",
        "quote" => "blockquote",
        "user_mention" => "mention",
        other => other,
    };
    let unit = |field: &str| mark[field].as_u64().map(|number| number as usize);
    let url = mark["url"].as_str().map(str::to_owned);
    Some(Span { kind: kind.to_owned(), offset: unit("from")?, length: unit("length")?, url })
}

fn media(item: &Value) -> Option<Media> {
    let kind = match item["type"].as_str()? {
        "image" => "photo",
        "video" => "video",
        "audio" => "audio",
        "file" => "document",
        "sticker" => "sticker",
        _ => return None,
    };
    let url = item["payload"]["url"].as_str().unwrap_or_default();
    let sha256 = url.split_once("/_/media/").map(|(_, hash)| hash.to_owned());
    let number = |field: &str| item[field].as_u64().map(|number| number as u32);
    Some(Media {
        kind: kind.to_owned(),
        url: Some(sha256.as_deref().map_or_else(|| url.to_owned(), crate::media::MediaStore::url)),
        sha256,
        bytes: item["size"].as_u64().map(|bytes| bytes as usize),
        mime: None,
        name: item["filename"].as_str().map(str::to_owned),
        width: number("width"),
        height: number("height"),
        spoiler: false,
    })
}

/// What a reader sees of a location, a contact or a link.
fn summary(item: &Value) -> Option<String> {
    match item["type"].as_str()? {
        "location" => Some(format!("📍 {}, {}", item["latitude"], item["longitude"])),
        "contact" => {
            let card = item["payload"]["vcf_info"].as_str().unwrap_or_default();
            let name = card.lines().find_map(|line| line.strip_prefix("FN:")).unwrap_or_default();
            Some(format!("👤 {name}"))
        }
        "share" => Some(format!("🔗 {}", item["payload"]["url"].as_str().unwrap_or_default())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_id_tells_its_chat() {
        let id = mid(-70_801_090_403_050, 116_327_994_376_978_687);
        assert_eq!(id, "mid.ffffbf9b56282516019d47b1ce4600ff");
        assert_eq!(chat_of(&id), Some(-70_801_090_403_050));
        assert_eq!(chat_of(&id[4..]), Some(-70_801_090_403_050));
        for wrong in ["", "mid.", "mid.12", "mid.zzzzbf9b56282516019d47b1ce4600ff", "мид"] {
            assert_eq!(chat_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_public_link_holds_eight_bytes() {
        assert_eq!(base64url(0), "AAAAAAAAAAA");
        assert_eq!(base64url(i64::MAX), "f_________8");
    }
}
