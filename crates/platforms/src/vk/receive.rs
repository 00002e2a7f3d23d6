//! What VK tells a community: events from the Bots Long Poll or the Callback API, in the shape all platforms share.

use std::time::Duration;

use domain::outcome::{Failure, Scope};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::Vk;
use super::facts::GROUP_CHATS_FROM;
use super::names;
use super::send::ask;
use super::wire::{Call, callback_data};
use crate::incoming::{
    Batch, Callback, Contact, Event, HookCall, HookError, HookSettings, Hooked, Incoming, Said,
};
use crate::platform::{Account, Hook, Network, misfit};
use crate::secret::SecretUrl;
use crate::transport::{Method, Request};
use crate::verdict::{from_trouble, permanent, raw, transient};

/// The server waits no longer.
const WAIT_MAX: Duration = Duration::from_secs(90);
const GRACE: Duration = Duration::from_secs(10);
/// Conversations of several people begin here.
/// What every call of the Callback API is answered with.
const OK: &str = "ok";

impl Vk {
    /// A key is asked for at every poll: it is cheap, it never expires under us, and no secret has to be kept.
    /// The cursor is `ts`, which the server remembers.
    pub(super) async fn poll_events(
        &self,
        network: &Network,
        account: &Account,
        cursor: Option<&str>,
        wait: Duration,
    ) -> Result<Batch, Failure> {
        let group =
            account.group_id.ok_or_else(|| misfit(super::NAME, "events need the group_id of the account"))?;
        let call = Call::new("groups.getLongPollServer").with("group_id", group);
        let server = ask(network, account, call, GRACE).await?;
        let start = text(&server["ts"]);
        let ts = cursor.map(str::to_owned).or(start.clone()).unwrap_or_default();
        let answer = self.check(network, account, &server, &ts, wait.min(WAIT_MAX)).await?;
        match answer["failed"].as_i64() {
            None => {
                let updates = answer["updates"].as_array().map(Vec::as_slice).unwrap_or_default();
                let cursor = text(&answer["ts"]).or(Some(ts));
                let mut events: Vec<Incoming> = updates.iter().map(read).collect();
                names::fill(network, account, &mut events).await;
                Ok(Batch { events, cursor })
            }
            // History is outdated: go on from where the server says. Otherwise begin anew.
            Some(1) => Ok(Batch { events: Vec::new(), cursor: text(&answer["ts"]).or(start) }),
            Some(2) => Ok(Batch { events: Vec::new(), cursor: Some(ts) }),
            Some(_) => Ok(Batch { events: Vec::new(), cursor: start }),
        }
    }

    async fn check(
        &self,
        network: &Network,
        account: &Account,
        server: &Value,
        ts: &str,
        wait: Duration,
    ) -> Result<Value, Failure> {
        let odd =
            || permanent(Scope::Platform, "wrong_shape", "vk: the long-poll server has no usable address");
        let mut url = server["server"].as_str().and_then(|text| Url::parse(text).ok()).ok_or_else(odd)?;
        url.query_pairs_mut()
            .append_pair("act", "a_check")
            .append_pair("key", server["key"].as_str().unwrap_or_default())
            .append_pair("ts", ts)
            .append_pair("wait", &wait.as_secs().to_string());
        let request = Request::new(Method::Get, SecretUrl::new(url, "vk long poll"), wait + GRACE);
        let answer = match network.egress.send(&account.route, request).await {
            Ok(answer) => answer,
            Err(trouble) => return Err(from_trouble(&trouble, Scope::Platform)),
        };
        serde_json::from_slice(answer.bytes()).map_err(|_| {
            let failure = transient(Scope::Platform, "not_json", "vk: the long-poll server answered no JSON");
            account.redact(failure.with_raw(raw(&answer)))
        })
    }
}

/// A call of the Callback API. The secret is inside, so the body is read first; a second `secret` is refused.
#[derive(Deserialize)]
struct CallbackBody {
    #[serde(rename = "type")]
    kind: String,
    group_id: Option<i64>,
    event_id: Option<String>,
    secret: Option<String>,
    #[serde(default)]
    object: Value,
}

pub(super) fn hook(settings: &HookSettings, call: &HookCall<'_>) -> Result<Hooked, HookError> {
    call.check_size()?;
    let body: CallbackBody = serde_json::from_slice(call.body).map_err(|_| HookError::Malformed)?;
    if body.kind == "confirmation" {
        return confirm(settings, &body);
    }
    settings.admits(body.secret.as_deref())?;
    if settings.group_id.is_some() && settings.group_id != body.group_id {
        return Err(HookError::Malformed);
    }
    let event = event(&body.kind, &body.object, body.event_id, body.group_id);
    Ok(Hooked { events: vec![event], answer: OK.to_owned() })
}

/// VK asks for the confirmation before it knows the secret, so only the community is compared.
fn confirm(settings: &HookSettings, body: &CallbackBody) -> Result<Hooked, HookError> {
    if let Some(given) = &body.secret {
        settings.admits(Some(given))?;
    }
    match &settings.confirmation {
        Some(code) if settings.group_id.is_some() && settings.group_id == body.group_id => {
            Ok(Hooked { events: Vec::new(), answer: code.clone() })
        }
        _ => Err(HookError::NoConfirmation),
    }
}

/// One event of the long poll. Whatever it is, it has a key.
pub fn read(update: &Value) -> Incoming {
    let kind = update["type"].as_str().unwrap_or_default();
    let event_id = update["event_id"].as_str().map(str::to_owned);
    event(kind, &update["object"], event_id, update["group_id"].as_i64())
}

fn event(kind: &str, object: &Value, event_id: Option<String>, group: Option<i64>) -> Incoming {
    // Very old versions put the message itself into `object`.
    let message = object.get("message").unwrap_or(object);
    let event = match kind {
        "message_new" => said(message).map(Event::Message),
        "wall_post_new" => post(object),
        "message_event" => pressed(object),
        "message_allow" => contact(object).map(Event::Started),
        "message_deny" => contact(object).map(Event::Blocked),
        _ => None,
    };
    let at_ms = message["date"].as_i64().and_then(|seconds| seconds.checked_mul(1_000));
    // An empty id is no id: all events that have it would be one.
    let event_id = event_id.filter(|id| !id.trim().is_empty());
    let key = event_id.unwrap_or_else(|| fallback_key(kind, object, group));
    Incoming { key, at_ms, event: event.unwrap_or_else(|| Event::Unknown { kind: kind.to_owned() }) }
}

/// An event without an id is named by what it says.
fn fallback_key(kind: &str, object: &Value, group: Option<i64>) -> String {
    let named = format!("{kind}|{}|{object}", group.unwrap_or_default());
    format!("{kind}:{}", super::wire::guid(&named))
}

fn said(message: &Value) -> Option<Said> {
    let peer = message["peer_id"].as_i64()?;
    let id = message["id"]
        .as_i64()
        .filter(|id| *id != 0)
        .or_else(|| message["conversation_message_id"].as_i64())?;
    Some(Said {
        chat: peer.to_string(),
        chat_name: None,
        chat_title: None,
        from: message["from_id"].as_i64().map(|id| id.to_string()),
        name: None,
        message_id: id.to_string(),
        text: message["text"].as_str().unwrap_or_default().to_owned(),
        private: peer < GROUP_CHATS_FROM,
        edited: false,
        payload: message["payload"].as_str().map(read_payload),
        attached: attached(message),
        album: None,
        reply_to: ["id", "conversation_message_id"]
            .iter()
            .find_map(|field| message["reply_message"][*field].as_i64().filter(|id| *id != 0))
            .map(|id| id.to_string()),
        by_bot: message["from_id"].as_i64().is_some_and(|id| id < 0),
    })
}

/// A button of words sends its payload as a JSON string.
fn read_payload(text: &str) -> String {
    serde_json::from_str::<Value>(text).map_or_else(|_| text.to_owned(), |payload| callback_data(&payload))
}

fn attached(message: &Value) -> Vec<String> {
    let items = message["attachments"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item["type"].as_str().map(str::to_owned)).collect()
}

/// Suggested posts fire the same event; they are not published, so they are not posts.
fn post(object: &Value) -> Option<Event> {
    if object["post_type"] == "suggest" {
        return None;
    }
    Some(Event::Post(Said {
        chat: object["owner_id"].as_i64()?.to_string(),
        from: object["from_id"].as_i64().map(|id| id.to_string()),
        message_id: object["id"].as_i64()?.to_string(),
        text: object["text"].as_str().unwrap_or_default().to_owned(),
        attached: attached(object),
        ..Said::default()
    }))
}

fn pressed(object: &Value) -> Option<Event> {
    Some(Event::Callback(Callback {
        id: object["event_id"].as_str()?.to_owned(),
        chat: object["peer_id"].as_i64()?.to_string(),
        chat_name: None,
        from: object["user_id"].as_i64()?.to_string(),
        name: None,
        message_id: object["conversation_message_id"].as_i64().map(|id| id.to_string()),
        payload: callback_data(&object["payload"]),
        private: object["peer_id"].as_i64().is_some_and(|peer| peer < GROUP_CHATS_FROM),
    }))
}

fn contact(object: &Value) -> Option<Contact> {
    let user = object["user_id"].as_i64()?.to_string();
    let payload = object["key"].as_str().filter(|key| !key.is_empty()).map(str::to_owned);
    Some(Contact {
        chat: user.clone(),
        from: Some(user),
        name: None,
        payload,
        private: true,
        ..Contact::default()
    })
}

/// `ts` is a string in one answer and a number in another.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// What people see in the settings of their community.
const SERVER_TITLE: &str = "rupor";

fn group_of(account: &Account) -> Result<i64, Failure> {
    account.group_id.ok_or_else(|| misfit(super::NAME, "a webhook needs the group_id of the account"))
}

/// The code is asked for as soon as the server is known, so it has to be there before; it may be another afterwards.
pub(super) async fn hook_settings(network: &Network, account: &Account) -> Result<Value, Failure> {
    let group = group_of(account)?;
    let call = Call::new("groups.getCallbackConfirmationCode").with("group_id", group);
    let known = ask(network, account, call, GRACE).await?;
    Ok(serde_json::json!({ "group_id": group, "confirmation": known["code"] }))
}

pub(super) async fn set_hook(
    network: &Network,
    account: &Account,
    url: &str,
    secret: &str,
) -> Result<(), Failure> {
    let group = group_of(account)?;
    let call = Call::new("groups.addCallbackServer")
        .with("group_id", group)
        .with("url", url)
        .with("title", SERVER_TITLE)
        .with("secret_key", secret);
    let added = ask(network, account, call, GRACE).await?;
    let mut call = Call::new("groups.setCallbackSettings")
        .with("group_id", group)
        .with("server_id", added["server_id"].as_i64().unwrap_or_default())
        .with("api_version", super::facts::API_VERSION);
    for kind in ["message_new", "message_event", "message_allow", "message_deny"] {
        call = call.with(kind, 1);
    }
    ask(network, account, call, GRACE).await.map(drop)
}

pub(super) async fn hooks(network: &Network, account: &Account) -> Result<Vec<Hook>, Failure> {
    Ok(servers(network, account).await?.into_iter().map(|(_, hook)| hook).collect())
}

async fn servers(network: &Network, account: &Account) -> Result<Vec<(i64, Hook)>, Failure> {
    let call = Call::new("groups.getCallbackServers").with("group_id", group_of(account)?);
    let known = ask(network, account, call, GRACE).await?;
    let items = known["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let server = |server: &Value| {
        let hook = Hook { url: server["url"].as_str()?.to_owned(), own: server["title"] == SERVER_TITLE };
        Some((server["id"].as_i64()?, hook))
    };
    Ok(items.iter().filter_map(server).collect())
}

pub(super) async fn remove_hook(network: &Network, account: &Account, url: &str) -> Result<(), Failure> {
    for (id, known) in servers(network, account).await? {
        if known.url == url {
            let call = Call::new("groups.deleteCallbackServer");
            let call = call.with("group_id", group_of(account)?).with("server_id", id);
            ask(network, account, call, GRACE).await?;
        }
    }
    Ok(())
}
