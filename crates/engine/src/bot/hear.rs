//! From what a platform tells to what the mailbox keeps: whose it is, and what it means in a dialogue. Pure.
//!
//! Everything has an end: it waits in a dialogue, or it is written down with the reason why nothing follows.

use domain::dialogue::{Event, What};
use domain::ids::{AccountId, ChannelId, MessageId, RecipientId};
use domain::time::{Span, Timestamp};
use platforms::incoming::{self, Callback, Contact, Incoming, Said};
use serde_json::{Value, json};
use store::{Update, UpdateOf};

/// Characters of a message that rules look at; longer ones are cut.
pub const TEXT_MAX: usize = 8_192;

/// The chat where people answer for a bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desk {
    pub channel_id: ChannelId,
    pub account_id: AccountId,
    pub chat: String,
}

impl Desk {
    /// A configuration may know it by its public name, and platforms tell of it by its number.
    fn is(&self, account: AccountId, place: &Place<'_>) -> bool {
        let named = self.chat.strip_prefix('@').zip(place.name);
        let person = self.chat.strip_prefix("user:").zip(place.person);
        if self.account_id != account {
            return false;
        }
        let is_theirs = person.is_some_and(|(own, person)| own == person);
        self.chat == place.chat
            || is_theirs
            || named.is_some_and(|(own, name)| own.eq_ignore_ascii_case(name))
    }
}

/// Where something was said or pressed.
struct Place<'a> {
    chat: &'a str,
    name: Option<&'a str>,
    /// In a dialogue with one person: who.
    person: Option<&'a str>,
}

/// What was said at the desk to somebody: whom it names has to be looked up before it can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub channel_id: ChannelId,
    pub to: To,
    /// Something besides words came along, and stays at the desk.
    pub attached: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    Dialogue(RecipientId),
    /// Whoever the message is about that it answers.
    Message(String),
}

/// An update, and what has to be looked up before it can be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub update: Update,
    pub answer: Option<Answer>,
}

/// Reads one event of an account.
pub fn read(platform: &str, account: AccountId, desks: &[Desk], incoming: &Incoming) -> Heard {
    let at_ms = incoming.at_ms.filter(|ms| (0..=AT_MS_MAX).contains(ms));
    let at = at_ms.map(|ms| Timestamp(0) + Span::from_millis(ms));
    let (what, of, answer) = match &incoming.event {
        incoming::Event::Message(said) => message(account, desks, said),
        incoming::Event::Callback(callback) => plain(press(account, desks, callback)),
        incoming::Event::Started(contact) => {
            let payload = contact.payload.clone().unwrap_or_default();
            plain(someone(contact, What::Started { payload }))
        }
        incoming::Event::Returned(contact) => plain(someone(contact, What::Returned)),
        incoming::Event::Stopped(contact) if !contact.private => {
            plain((None, UpdateOf::ChatLeft { address: contact.chat.clone() }))
        }
        incoming::Event::Stopped(contact) => plain(someone(contact, What::Stopped)),
        incoming::Event::Blocked(contact) => {
            let of = UpdateOf::Left { user_id: who(contact), address: contact.chat.clone() };
            plain((Some(What::Blocked), of))
        }
        incoming::Event::Post(said) if said.chat_title.is_some() => plain(there(said, "post")),
        incoming::Event::Post(_) => plain(skipped("post")),
        incoming::Event::Unknown { .. } => plain(skipped("unknown")),
    };
    let kind = match (&what, &incoming.event) {
        (Some(what), _) => what.name().to_owned(),
        (None, _) if of == UpdateOf::Decision => "decision".to_owned(),
        (None, incoming::Event::Unknown { kind }) => kind.clone(),
        (None, _) => "none".to_owned(),
    };
    let mut body = match what {
        Some(what) => {
            // What a platform says without a time happened when it was received.
            let album = match &incoming.event {
                incoming::Event::Message(said) => said.album.clone(),
                _ => None,
            };
            let event = Event { album, ..what.on(platform, at.unwrap_or(Timestamp(0))) };
            serde_json::to_value(event).unwrap_or_default()
        }
        None => json!({}),
    };
    if let incoming::Event::Callback(callback) = &incoming.event {
        body["callback"] = json!(callback);
    }
    scrub(&mut body);
    let update = Update { key: clean(&incoming.key), kind: clean(&kind), at, body, of: scrubbed(of) };
    Heard { update, answer }
}

/// No date of a platform is later, and databases take none that is.
const AT_MS_MAX: i64 = 253_402_300_799_000;

/// Without the one character that PostgreSQL takes in no text. Whoever can write to a bot can send it, in a payload for
/// example, and one refused update would hold up all that came with it, again and again.
pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "")
}

/// The same for everything that a body says.
pub(super) fn scrub(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('\0') => *text = clean(text),
        Value::Array(items) => items.iter_mut().for_each(scrub),
        Value::Object(fields) => {
            if fields.keys().any(|key| key.contains('\0')) {
                *fields =
                    std::mem::take(fields).into_iter().map(|(key, value)| (clean(&key), value)).collect();
            }
            fields.values_mut().for_each(scrub);
        }
        _ => {}
    }
}

fn scrubbed(of: UpdateOf) -> UpdateOf {
    match of {
        UpdateOf::Person { user_id, address, name } => UpdateOf::Person {
            user_id: clean(&user_id),
            address: clean(&address),
            name: name.as_deref().map(clean),
        },
        UpdateOf::Left { user_id, address } => {
            UpdateOf::Left { user_id: clean(&user_id), address: clean(&address) }
        }
        UpdateOf::Chat { address, title, why } => {
            UpdateOf::Chat { address: clean(&address), title: title.as_deref().map(clean), why }
        }
        UpdateOf::ChatLeft { address } => UpdateOf::ChatLeft { address: clean(&address) },
        UpdateOf::Operator(_) | UpdateOf::Decision | UpdateOf::Skipped(_) => of,
    }
}

/// The event of a body that was kept; one that cannot be read any more is something that no rule reads.
pub fn event(body: &Value, happened_at: Timestamp) -> Event {
    let kept: Option<Event> = serde_json::from_value(body.clone()).ok();
    let mut event = kept.unwrap_or_else(|| Event::new(happened_at, What::Other { kind: "lost".into() }));
    event.at = happened_at;
    event
}

/// The press that a body tells of, which wants an answer.
pub fn callback(body: &Value) -> Option<Callback> {
    serde_json::from_value(body.get("callback")?.clone()).ok()
}

type Read = (Option<What>, UpdateOf);

fn plain((what, of): Read) -> (Option<What>, UpdateOf, Option<Answer>) {
    (what, of, None)
}

fn skipped(why: &'static str) -> Read {
    (None, UpdateOf::Skipped(why))
}

fn message(account: AccountId, desks: &[Desk], said: &Said) -> (Option<What>, UpdateOf, Option<Answer>) {
    let person = said.from.as_deref().filter(|_| said.private);
    let place = Place { chat: &said.chat, name: said.chat_name.as_deref(), person };
    let desk = desks.iter().find(|desk| desk.is(account, &place));
    let Some(from) = &said.from else {
        return plain(skipped("nobody"));
    };
    match desk {
        _ if said.by_bot => plain(skipped("bot")),
        // What was said first was answered; a correction is no new question.
        Some(_) if said.edited => plain(skipped("edit")),
        Some(desk) => at_desk(desk, said),
        None if !said.private => plain(there(said, "group")),
        None => {
            let of = UpdateOf::Person {
                user_id: from.clone(),
                address: said.chat.clone(),
                name: said.name.clone(),
            };
            plain((Some(meant(said)), of))
        }
    }
}

/// No dialogue hears it, but a chat is known by it: the bot may have been there before anybody listened.
fn there(said: &Said, why: &'static str) -> Read {
    (None, UpdateOf::Chat { address: said.chat.clone(), title: said.chat_title.clone(), why })
}

fn meant(said: &Said) -> What {
    let text: String = said.text.chars().take(TEXT_MAX).collect();
    if said.edited {
        return What::Edited { text };
    }
    let is_picture = |kind: &String| kind == "photo" || kind == "image";
    match &said.payload {
        Some(id) if !id.is_empty() => pressed(id),
        _ if said.attached.iter().any(is_picture) => What::Photo { photo: said.message_id.clone(), text },
        _ if text.trim().is_empty() => {
            What::Other { kind: said.attached.first().cloned().unwrap_or_else(|| "empty".into()) }
        }
        _ => What::Text { text },
    }
}

/// The button that every campaign brings along says the same as the words.
fn pressed(id: &str) -> What {
    match id == domain::campaign::STOP_PRESS {
        true => What::Text { text: "/stop".to_owned() },
        false => What::Press { id: id.to_owned() },
    }
}

fn press(account: AccountId, desks: &[Desk], callback: &Callback) -> Read {
    if Asked::read(&callback.payload).is_some() {
        // Whoever can send a press can make its words up; only who is at the desk decides.
        let person = Some(callback.from.as_str()).filter(|_| callback.private);
        let place = Place { chat: &callback.chat, name: callback.chat_name.as_deref(), person };
        return match desks.iter().any(|desk| desk.is(account, &place)) {
            true => (None, UpdateOf::Decision),
            false => skipped("not at the desk"),
        };
    }
    if !callback.private {
        return skipped("group");
    }
    let (user_id, address) = (callback.from.clone(), callback.chat.clone());
    (Some(pressed(&callback.payload)), UpdateOf::Person { user_id, address, name: None })
}

fn who(contact: &Contact) -> String {
    contact.from.clone().unwrap_or_else(|| contact.chat.clone())
}

fn someone(contact: &Contact, what: What) -> Read {
    let address = contact.chat.clone();
    if !contact.private {
        return (None, UpdateOf::Chat { address, title: contact.chat_title.clone(), why: "chat" });
    }
    (Some(what), UpdateOf::Person { user_id: who(contact), address, name: contact.name.clone() })
}

/// What stands before a dialogue's number where people read it.
const TICKET: &str = "#A";

/// How people know a dialogue.
pub fn ticket(dialogue: RecipientId) -> String {
    format!("{TICKET}{dialogue}")
}

/// Where what is said at the desk goes that names nobody who is there.
pub(super) const TO_NOBODY: &str = "answer to nobody";

/// `#A17 текст`, a reply to what was forwarded, `/close` in either form. Other talk at the desk is nobody's business.
fn at_desk(desk: &Desk, said: &Said) -> (Option<What>, UpdateOf, Option<Answer>) {
    let text: String = said.text.chars().take(TEXT_MAX).collect();
    let act = |text: &str| match text.trim() {
        "/close" => What::Closed,
        text => What::Operator { text: text.to_owned() },
    };
    let attached = !said.attached.is_empty();
    let answer = |to: To| Some(Answer { channel_id: desk.channel_id, to, attached });
    let named = text.trim_start().strip_prefix(TICKET).and_then(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((RecipientId(rest[..end].parse().ok()?), rest[end..].trim()))
    });
    match (named, &said.reply_to) {
        // Our own forward, should a platform tell us of it: answering it would go round and round.
        (Some((_, rest)), _) if rest.lines().next().is_some_and(|line| line.contains(HEAD_MARK)) => {
            plain(skipped("forward"))
        }
        (Some((dialogue, "")), _) => {
            (None, UpdateOf::Skipped("empty answer"), answer(To::Dialogue(dialogue)))
        }
        (Some((dialogue, rest)), _) => {
            (Some(act(rest)), UpdateOf::Operator(dialogue), answer(To::Dialogue(dialogue)))
        }
        (None, Some(message)) if !text.trim().is_empty() => {
            (Some(act(&text)), UpdateOf::Skipped(TO_NOBODY), answer(To::Message(message.clone())))
        }
        (None, Some(message)) if attached => {
            (None, UpdateOf::Skipped("empty answer"), answer(To::Message(message.clone())))
        }
        _ => plain(skipped("desk")),
    }
}

/// What the buttons under a held post ask: which post, since when it waits, and whether it goes out. The time keeps a
/// press under old words from deciding about new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub message: MessageId,
    pub held_at: Timestamp,
    pub publish: bool,
}

const ASKED: &str = "rupor:held";

impl Asked {
    /// The payload of a button; 54 bytes at most, and Telegram takes 64.
    pub fn press(self) -> String {
        let word = if self.publish { "yes" } else { "no" };
        format!("{ASKED}:{}:{}:{word}", self.message, self.held_at.0)
    }

    pub fn read(payload: &str) -> Option<Asked> {
        let mut parts = payload.strip_prefix(ASKED)?.strip_prefix(':')?.split(':');
        let (message, held_at) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let publish = match parts.next()? {
            "yes" => true,
            "no" => false,
            _ => return None,
        };
        let asked = Asked { message: MessageId(message), held_at: Timestamp(held_at), publish };
        parts.next().is_none().then_some(asked)
    }
}

/// Between a name and its platform in the heading of a forward.
pub const HEAD_MARK: &str = " · ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_button_under_a_campaign_stops_it_like_the_words_do() {
        let callback = |payload: &str| Callback {
            id: "1".into(),
            chat: "77".into(),
            from: "77".into(),
            payload: payload.into(),
            private: true,
            ..Callback::default()
        };
        let press = |payload: &str| press(AccountId(1), &[], &callback(payload));
        assert_eq!(press("rupor:stop").0, Some(What::Text { text: "/stop".into() }));
        assert_eq!(press("menu:1").0, Some(What::Press { id: "menu:1".into() }));
    }
}
