//! What MAX tells a bot: updates from a long poll or a webhook, in the shape all platforms share.
//!
//! MAX's updates have no id, so the key is made of what cannot repeat: the callback, or type, message and time.

use std::time::Duration;

use domain::outcome::Failure;
use serde_json::Value;

use super::Max;
use super::send::ask_for;
use super::wire::Call;
use crate::incoming::{
    Batch, Callback, Contact, Event, HookCall, HookError, HookSettings, Hooked, Incoming, Said,
};
use crate::platform::{Account, Hook, Network};
use crate::transport::Method;
use crate::verdict::{Purpose, shapeless};

/// Updates of one poll.
const BATCH_MAX: u32 = 100;
/// The server waits no longer in practice.
const WAIT_MAX: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(10);

impl Max {
    pub(super) async fn poll_updates(
        &self,
        network: &Network,
        account: &Account,
        cursor: Option<&str>,
        wait: Duration,
    ) -> Result<Batch, Failure> {
        let wait = wait.min(WAIT_MAX);
        let mut call = Call::new(Method::Get, "/updates", "max GET /updates")
            .query("limit", BATCH_MAX)
            .query("timeout", wait.as_secs());
        if let Some(marker) = cursor.and_then(|cursor| cursor.parse::<i64>().ok()) {
            call = call.query("marker", marker);
        }
        let result = ask_for(Purpose::Read, network, account, call, wait + GRACE).await?;
        let updates = result["updates"].as_array().ok_or_else(|| account.redact(shapeless(&result)))?;
        let marker = result["marker"].as_i64().map(|marker| marker.to_string());
        let cursor = marker.or_else(|| cursor.map(str::to_owned));
        Ok(Batch { events: updates.iter().map(read).collect(), cursor })
    }
}

/// The body of a webhook call is one update.
pub(super) fn hook(settings: &HookSettings, call: &HookCall<'_>) -> Result<Hooked, HookError> {
    settings.admits(call.secret)?;
    call.check_size()?;
    let update: Value = serde_json::from_slice(call.body).map_err(|_| HookError::Malformed)?;
    if !update["update_type"].is_string() {
        return Err(HookError::Malformed);
    }
    Ok(Hooked { events: vec![read(&update)], answer: String::new() })
}

/// One update. Whatever it is, it has a key.
pub fn read(update: &Value) -> Incoming {
    let kind = update["update_type"].as_str().unwrap_or_default();
    let event = match kind {
        "message_created" => said(&update["message"], Edited::No),
        "message_edited" => said(&update["message"], Edited::Yes),
        "message_callback" => pressed(update),
        "bot_started" | "bot_added" => contact(update).map(Event::Started),
        "bot_stopped" => contact(update).map(Event::Blocked),
        "bot_removed" | "dialog_removed" => contact(update).map(Event::Stopped),
        _ => None,
    };
    Incoming {
        key: key(kind, update),
        at_ms: update["timestamp"].as_i64(),
        event: event.unwrap_or_else(|| Event::Unknown { kind: kind.to_owned() }),
    }
}

fn key(kind: &str, update: &Value) -> String {
    if let Some(id) = update["callback"]["callback_id"].as_str() {
        return format!("{kind}:{id}");
    }
    let message = update["message"]["body"]["mid"].as_str().or_else(|| update["message_id"].as_str());
    let place = update["chat_id"].as_i64().unwrap_or_default();
    let person =
        update["user"]["user_id"].as_i64().or_else(|| update["user_id"].as_i64()).unwrap_or_default();
    let time = update["timestamp"].as_i64().unwrap_or_default();
    match message {
        Some(mid) => format!("{kind}:{mid}:{time}"),
        None => format!("{kind}:{place}:{person}:{time}"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edited {
    No,
    Yes,
}

/// A message without a body is of a kind that the API cannot express.
fn said(message: &Value, edited: Edited) -> Option<Event> {
    let (body, recipient) = (&message["body"], &message["recipient"]);
    let said = Said {
        chat: recipient["chat_id"].as_i64()?.to_string(),
        chat_name: None,
        chat_title: None,
        from: message["sender"]["user_id"].as_i64().map(|id| id.to_string()),
        name: name(&message["sender"]),
        message_id: body["mid"].as_str()?.to_owned(),
        text: body["text"].as_str().unwrap_or_default().to_owned(),
        private: recipient["chat_type"] == "dialog",
        edited: edited == Edited::Yes,
        payload: None,
        attached: attached(body),
        album: None,
        reply_to: message["link"]["message"]["mid"]
            .as_str()
            .filter(|_| message["link"]["type"] == "reply")
            .map(str::to_owned),
        by_bot: message["sender"]["is_bot"] == true,
    };
    Some(if recipient["chat_type"] == "channel" { Event::Post(said) } else { Event::Message(said) })
}

fn attached(body: &Value) -> Vec<String> {
    let items = body["attachments"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item["type"].as_str().map(str::to_owned)).collect()
}

fn pressed(update: &Value) -> Option<Event> {
    let callback = &update["callback"];
    let from = callback["user"]["user_id"].as_i64()?.to_string();
    let chat = update["message"]["recipient"]["chat_id"].as_i64().map(|id| id.to_string());
    Some(Event::Callback(Callback {
        id: callback["callback_id"].as_str()?.to_owned(),
        chat: chat.unwrap_or_else(|| from.clone()),
        chat_name: None,
        from,
        name: name(&callback["user"]),
        message_id: update["message"]["body"]["mid"].as_str().map(str::to_owned),
        payload: callback["payload"].as_str().unwrap_or_default().to_owned(),
        private: !["chat", "channel"].iter().any(|kind| update["message"]["recipient"]["chat_type"] == *kind),
    }))
}

fn contact(update: &Value) -> Option<Contact> {
    Some(Contact {
        chat: update["chat_id"].as_i64()?.to_string(),
        chat_title: None,
        from: update["user"]["user_id"].as_i64().map(|id| id.to_string()),
        name: name(&update["user"]),
        payload: update["payload"].as_str().filter(|payload| !payload.is_empty()).map(str::to_owned),
        private: ["bot_started", "bot_stopped", "dialog_removed"]
            .contains(&update["update_type"].as_str().unwrap_or_default()),
    })
}

fn name(user: &Value) -> Option<String> {
    let words: Vec<&str> =
        ["first_name", "last_name"].iter().filter_map(|field| user[*field].as_str()).collect();
    if words.is_empty() { user["name"].as_str().map(str::to_owned) } else { Some(words.join(" ")) }
}

/// How long a change of the webhook may take.
const CHANGE: Duration = Duration::from_secs(10);
/// What the bot is told of.
const WANTED: [&str; 7] = [
    "message_created",
    "message_callback",
    "bot_started",
    "bot_stopped",
    "bot_added",
    "bot_removed",
    "dialog_removed",
];

pub(super) async fn set_hook(
    network: &Network,
    account: &Account,
    url: &str,
    secret: &str,
) -> Result<(), Failure> {
    let body = serde_json::json!({ "url": url, "secret": secret, "update_types": WANTED });
    let call = Call::new(Method::Post, "/subscriptions", "max POST /subscriptions").body(body);
    ask_for(Purpose::Read, network, account, call, CHANGE).await.map(drop)
}

pub(super) async fn hooks(network: &Network, account: &Account) -> Result<Vec<Hook>, Failure> {
    let call = Call::new(Method::Get, "/subscriptions", "max GET /subscriptions");
    let known = ask_for(Purpose::Read, network, account, call, CHANGE).await?;
    let known = known["subscriptions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let urls = known.iter().filter_map(|hook| hook["url"].as_str());
    Ok(urls.map(|url| Hook { url: url.to_owned(), own: true }).collect())
}

pub(super) async fn remove_hook(network: &Network, account: &Account, url: &str) -> Result<(), Failure> {
    let call = Call::new(Method::Delete, "/subscriptions", "max DELETE /subscriptions").query("url", url);
    ask_for(Purpose::Read, network, account, call, CHANGE).await.map(drop)
}
