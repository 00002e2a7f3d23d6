//! From what a platform tells to what the mailbox keeps: whose it is, and what it means in a dialogue. Pure.
//!
//! Everything has an end: it waits in a dialogue, or it is written down with the reason why nothing follows.

use domain::dialogue::{Event, What};
use domain::ids::{AccountId, ChannelId, RecipientId};
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
    fn is(&self, said: &Said) -> bool {
        let named = self.chat.strip_prefix('@').zip(said.chat_name.as_deref());
        self.chat == said.chat || named.is_some_and(|(own, name)| own.eq_ignore_ascii_case(name))
    }
}

/// An answer of a person that names a message instead of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    pub channel_id: ChannelId,
    pub message_id: String,
}

/// An update, and what has to be looked up before it can be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub update: Update,
    pub unresolved: Option<Unresolved>,
}

/// Reads one event of an account.
pub fn read(platform: &str, account: AccountId, desks: &[Desk], incoming: &Incoming) -> Heard {
    let at = incoming.at_ms.map(|ms| Timestamp(0) + Span::from_millis(ms));
    let (what, of, unresolved) = match &incoming.event {
        incoming::Event::Message(said) => message(account, desks, said),
        incoming::Event::Callback(callback) => plain(press(callback)),
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
        incoming::Event::Post(_) => plain(skipped("post")),
        incoming::Event::Unknown { .. } => plain(skipped("unknown")),
    };
    let kind = match (&what, &incoming.event) {
        (Some(what), _) => what.name().to_owned(),
        (None, incoming::Event::Unknown { kind }) => kind.clone(),
        (None, _) => "none".to_owned(),
    };
    let mut body = match what {
        Some(what) => {
            // What a platform says without a time happened when it was received.
            let event = Event { at: at.unwrap_or(Timestamp(0)), platform: platform.to_owned(), what };
            serde_json::to_value(event).unwrap_or_default()
        }
        None => json!({}),
    };
    if let incoming::Event::Callback(callback) = &incoming.event {
        body["callback"] = json!(callback);
    }
    Heard { update: Update { key: incoming.key.clone(), kind, at, body, of }, unresolved }
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

fn plain((what, of): Read) -> (Option<What>, UpdateOf, Option<Unresolved>) {
    (what, of, None)
}

fn skipped(why: &'static str) -> Read {
    (None, UpdateOf::Skipped(why))
}

fn message(account: AccountId, desks: &[Desk], said: &Said) -> (Option<What>, UpdateOf, Option<Unresolved>) {
    let desk = desks.iter().find(|desk| desk.account_id == account && desk.is(said));
    let Some(from) = &said.from else {
        return plain(skipped("nobody"));
    };
    match desk {
        _ if said.by_bot => plain(skipped("bot")),
        // What was said first was answered; a correction is no new question.
        _ if said.edited => plain(skipped("edit")),
        Some(desk) => at_desk(desk, said),
        None if !said.private => plain(skipped("group")),
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

fn meant(said: &Said) -> What {
    let text: String = said.text.chars().filter(|c| *c != '\0').take(TEXT_MAX).collect();
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

fn press(callback: &Callback) -> Read {
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
        return (None, UpdateOf::Chat { address, title: None });
    }
    (Some(what), UpdateOf::Person { user_id: who(contact), address, name: contact.name.clone() })
}

/// What stands before a dialogue's number where people read it.
const TICKET: &str = "#A";

/// How people know a dialogue.
pub fn ticket(dialogue: RecipientId) -> String {
    format!("{TICKET}{dialogue}")
}

/// `#A17 текст`, a reply to what was forwarded, `/close` in either form. Other talk at the desk is nobody's business.
fn at_desk(desk: &Desk, said: &Said) -> (Option<What>, UpdateOf, Option<Unresolved>) {
    let text: String = said.text.chars().filter(|c| *c != '\0').take(TEXT_MAX).collect();
    let act = |text: &str| match text.trim() {
        "/close" => What::Closed,
        text => What::Operator { text: text.to_owned() },
    };
    let named = text.trim_start().strip_prefix(TICKET).and_then(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((RecipientId(rest[..end].parse().ok()?), rest[end..].trim()))
    });
    match (named, &said.reply_to) {
        (Some((_, "")), _) => plain(skipped("empty answer")),
        // Our own forward, should a platform tell us of it: answering it would go round and round.
        (Some((_, rest)), _) if rest.lines().next().is_some_and(|line| line.contains(HEAD_MARK)) => {
            plain(skipped("forward"))
        }
        (Some((dialogue, rest)), _) => plain((Some(act(rest)), UpdateOf::Operator(dialogue))),
        (None, Some(message_id)) if !text.trim().is_empty() => {
            let unresolved = Unresolved { channel_id: desk.channel_id, message_id: message_id.clone() };
            (Some(act(&text)), UpdateOf::Skipped("answer to nobody"), Some(unresolved))
        }
        _ => plain(skipped("desk")),
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
            message_id: None,
        };
        assert_eq!(press(&callback("rupor:stop")).0, Some(What::Text { text: "/stop".into() }));
        assert_eq!(press(&callback("menu:1")).0, Some(What::Press { id: "menu:1".into() }));
    }
}
