//! What Telegram tells a bot: updates from a long poll or a webhook, in the shape all platforms share.

use std::time::Duration;

use domain::outcome::Failure;
use serde_json::{Value, json};

use super::Telegram;
use super::send::ask;
use crate::incoming::{
    Batch, Callback, Contact, Event, HookCall, HookError, HookSettings, Hooked, Incoming, Said,
};
use crate::platform::{Account, Hook, Network};
use crate::verdict::shapeless;

/// Updates asked for; named, because the choice sticks to the bot.
const ALLOWED: [&str; 6] =
    ["message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "my_chat_member"];
/// Updates of one poll; also the server's own limit.
const BATCH_MAX: usize = 100;
/// The server waits no longer.
const WAIT_MAX: Duration = Duration::from_secs(50);
/// How much longer than the server's wait an answer may take.
const GRACE: Duration = Duration::from_secs(10);

impl Telegram {
    pub(super) async fn poll_updates(
        &self,
        network: &Network,
        account: &Account,
        cursor: Option<&str>,
        wait: Duration,
    ) -> Result<Batch, Failure> {
        let wait = wait.min(WAIT_MAX);
        let mut fields = json!({ "timeout": wait.as_secs(), "limit": BATCH_MAX, "allowed_updates": ALLOWED });
        if let Some(offset) = cursor.and_then(|cursor| cursor.parse::<i64>().ok()) {
            fields["offset"] = json!(offset);
        }
        let result = ask(network, account, "getUpdates", fields, wait + GRACE).await?;
        let updates = result.as_array().ok_or_else(|| account.redact(shapeless(&result)))?;
        let last = updates.iter().filter_map(|update| update["update_id"].as_i64()).max();
        let cursor = last.map(|last| (last + 1).to_string()).or_else(|| cursor.map(str::to_owned));
        Ok(Batch { events: updates.iter().filter_map(read).collect(), cursor })
    }
}

/// The body of a webhook call is one update.
pub(super) fn hook(settings: &HookSettings, call: &HookCall<'_>) -> Result<Hooked, HookError> {
    settings.admits(call.secret)?;
    call.check_size()?;
    let update: Value = serde_json::from_slice(call.body).map_err(|_| HookError::Malformed)?;
    let event = read(&update).ok_or(HookError::Malformed)?;
    Ok(Hooked { events: vec![event], answer: String::new() })
}

/// One update. `None` only for what is no update at all: without an id nothing can be remembered of it.
pub fn read(update: &Value) -> Option<Incoming> {
    let id = update["update_id"].as_i64()?;
    let (kind, content) = update.as_object()?.iter().find(|(name, _)| *name != "update_id")?;
    let event = match kind.as_str() {
        "message" | "edited_message" => message(kind, content),
        "channel_post" | "edited_channel_post" => said(kind, content).map(Event::Post),
        "callback_query" => callback(content),
        "my_chat_member" => member(content),
        _ => None,
    };
    let seconds = content["edit_date"].as_i64().or_else(|| content["date"].as_i64());
    let event = event.unwrap_or_else(|| Event::Unknown { kind: kind.clone() });
    Some(Incoming {
        key: id.to_string(),
        at_ms: seconds.and_then(|seconds| seconds.checked_mul(1_000)),
        event,
    })
}

fn message(kind: &str, content: &Value) -> Option<Event> {
    let said = said(kind, content)?;
    let start = said.text.strip_prefix("/start").filter(|rest| rest.is_empty() || rest.starts_with(' '));
    match start {
        Some(rest) if said.private && !said.edited => {
            let payload = Some(rest.trim().to_owned()).filter(|payload| !payload.is_empty());
            let (chat, from, name) = (said.chat, said.from, said.name);
            Some(Event::Started(Contact { chat, from, name, payload, private: true, ..Contact::default() }))
        }
        _ => Some(Event::Message(said)),
    }
}

const ATTACHED: [&str; 9] =
    ["photo", "video", "animation", "document", "audio", "voice", "sticker", "contact", "location"];

fn said(kind: &str, content: &Value) -> Option<Said> {
    let text = content["text"].as_str().or_else(|| content["caption"].as_str()).unwrap_or_default();
    Some(Said {
        chat: content["chat"]["id"].as_i64()?.to_string(),
        chat_name: content["chat"]["username"].as_str().map(str::to_owned),
        chat_title: title(content),
        from: content["from"]["id"].as_i64().map(|id| id.to_string()),
        name: name(&content["from"]),
        message_id: content["message_id"].as_i64()?.to_string(),
        text: text.to_owned(),
        private: content["chat"]["type"] == "private",
        edited: kind.starts_with("edited_"),
        payload: None,
        attached: ATTACHED
            .iter()
            .filter(|kind| !content[**kind].is_null())
            .map(|kind| (*kind).to_owned())
            .collect(),
        album: content["media_group_id"].as_str().map(str::to_owned),
        reply_to: content["reply_to_message"]["message_id"].as_i64().map(|id| id.to_string()),
        // An administrator who stays anonymous writes as the group itself, by a bot of Telegram's.
        by_bot: content["from"]["is_bot"] == true
            && (content["sender_chat"]["id"].is_null()
                || content["sender_chat"]["id"] != content["chat"]["id"]),
    })
}

fn callback(content: &Value) -> Option<Event> {
    let message = &content["message"];
    let from = content["from"]["id"].as_i64()?.to_string();
    Some(Event::Callback(Callback {
        id: content["id"].as_str()?.to_owned(),
        chat: message["chat"]["id"].as_i64().map_or_else(|| from.clone(), |id| id.to_string()),
        chat_name: message["chat"]["username"].as_str().map(str::to_owned),
        from,
        name: name(&content["from"]),
        message_id: message["message_id"].as_i64().map(|id| id.to_string()),
        payload: content["data"].as_str().unwrap_or_default().to_owned(),
        private: message["chat"]["type"] == "private" || message["chat"].is_null(),
    }))
}

/// The bot's own standing in a chat changed: in a dialogue that is a block or its end.
fn member(content: &Value) -> Option<Event> {
    let contact = Contact {
        chat: content["chat"]["id"].as_i64()?.to_string(),
        chat_title: title(content),
        from: content["from"]["id"].as_i64().map(|id| id.to_string()),
        name: name(&content["from"]),
        payload: None,
        private: content["chat"]["type"] == "private",
    };
    let private = contact.private;
    match content["new_chat_member"]["status"].as_str()? {
        "kicked" | "left" if private => Some(Event::Blocked(contact)),
        "kicked" | "left" => Some(Event::Stopped(contact)),
        // In a dialogue it is told when a block is lifted; the first word of somebody new is a message.
        "member" if private => Some(Event::Returned(contact)),
        "member" | "administrator" | "creator" | "restricted" => Some(Event::Started(contact)),
        _ => None,
    }
}

/// Of a group or a channel; a dialogue has none.
fn title(content: &Value) -> Option<String> {
    content["chat"]["title"].as_str().map(str::to_owned)
}

fn name(user: &Value) -> Option<String> {
    let words: Vec<&str> =
        ["first_name", "last_name"].iter().filter_map(|field| user[*field].as_str()).collect();
    if words.is_empty() { None } else { Some(words.join(" ")) }
}

/// How long a change of the webhook may take.
const CHANGE: Duration = Duration::from_secs(10);

pub(super) async fn set_hook(
    network: &Network,
    account: &Account,
    url: &str,
    secret: &str,
) -> Result<(), Failure> {
    let fields = json!({ "url": url, "secret_token": secret, "allowed_updates": ALLOWED });
    ask(network, account, "setWebhook", fields, CHANGE).await.map(drop)
}

pub(super) async fn hooks(network: &Network, account: &Account) -> Result<Vec<Hook>, Failure> {
    let known = ask(network, account, "getWebhookInfo", json!({}), CHANGE).await?;
    let url = known["url"].as_str().filter(|url| !url.is_empty());
    Ok(url.map(|url| Hook { url: url.to_owned(), own: true }).into_iter().collect())
}

/// There is one, whatever its address.
pub(super) async fn remove_hook(network: &Network, account: &Account, _: &str) -> Result<(), Failure> {
    ask(network, account, "deleteWebhook", json!({}), CHANGE).await.map(drop)
}
