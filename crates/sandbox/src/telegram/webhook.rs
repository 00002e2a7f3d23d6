//! How updates reach a bot: by long polling, or pushed to its webhook.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::args::Args;
use super::bots::{Bot, Webhook};
use super::errors::ApiError;
use super::methods::{self, Done, Visitor};
use super::ordered::Ordered;
use crate::core::SharedCore;
use crate::faults::Kind;
use crate::platform::{Name, Target};
use crate::registry::Account;
use crate::reply::Effect;
use crate::updates::Pending;

const TERMINATED: &str =
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";

/// `getUpdates`: waits up to `timeout` seconds for the first update.
pub(super) async fn get_updates(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let (own, args) = (visitor.own, visitor.args);
    check_no_webhook(own, WEBHOOK_ACTIVE)?;
    own.allow(args.json("allowed_updates").and_then(Result::ok));
    let offset = args.integer("offset");
    match offset {
        0 => {}
        1.. => own.queue.forget_below(offset),
        _ => own.queue.keep_last(offset.unsigned_abs() as usize),
    }
    let limit = args.clamped("limit", 100, 1, 100) as usize;
    let deadline = Instant::now() + Duration::from_secs(args.clamped("timeout", 0, 0, 50) as u64);
    let poll = own.begin_poll();
    loop {
        let mut changed = std::pin::pin!(own.queue.changed());
        changed.as_mut().enable();
        if !own.is_latest_poll(poll) {
            return Err(ApiError::new(409, TERMINATED));
        }
        check_no_webhook(own, "Conflict: terminated by setWebhook request")?;
        let found = own.queue.read(offset.max(0), limit, |_| true);
        let over = Instant::now() >= deadline;
        if over || !found.is_empty() {
            return Ok(Done::new(found.into_iter().map(|(_, update)| update).collect()));
        }
        // Woken or not: the queue is looked at once more.
        drop(timeout_at(deadline, changed).await);
    }
}

const WEBHOOK_ACTIVE: &str = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first";

fn check_no_webhook(own: &Bot, message: &str) -> Result<(), ApiError> {
    match own.webhook().0 {
        None => Ok(()),
        Some(_) => Err(ApiError::new(409, message)),
    }
}

/// `setWebhook`. Plain HTTP and any port are fine, as on a server of one's own.
pub(super) fn set(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let (own, args) = (visitor.own, visitor.args);
    let url = args.text("url");
    if url.is_empty() {
        return Ok(delete(visitor));
    }
    check_url(&url)?;
    let secret = args.text("secret_token");
    if secret.len() > 256 {
        return Err(ApiError::bad("secret token is too long"));
    }
    if !secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        return Err(ApiError::bad("secret token contains unallowed characters"));
    }
    own.allow(args.json("allowed_updates").and_then(Result::ok));
    if args.flag("drop_pending_updates") {
        own.queue.clear();
    }
    let max_connections = args.clamped("max_connections", 40, 1, 100) as usize;
    let mut done = Done::new(true.into());
    done.description = Some("Webhook is already set");
    if let Some(version) = own.set_webhook(Some(Webhook { url, secret, max_connections })) {
        done.description = Some("Webhook was set");
        let post = Post {
            core: Arc::clone(visitor.core),
            account: visitor.account.clone(),
            own: Arc::clone(own),
            version,
        };
        visitor.core.tasks.spawn(post.run());
    }
    Ok(done)
}

fn check_url(url: &str) -> Result<(), ApiError> {
    match url::Url::parse(url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => Ok(()),
        Ok(_) => Err(ApiError::bad("bad webhook: An HTTPS URL must be provided for webhook")),
        Err(_) => Err(ApiError::bad("invalid webhook URL specified")),
    }
}

/// `deleteWebhook`.
pub(super) fn delete(visitor: &Visitor<'_>) -> Done {
    if visitor.args.flag("drop_pending_updates") {
        visitor.own.queue.clear();
    }
    let mut done = Done::new(true.into());
    done.description = Some(match visitor.own.set_webhook(None) {
        Some(_) => "Webhook was deleted",
        None => "Webhook is already deleted",
    });
    done
}

/// Pushes the updates of one bot to one webhook until that changes.
struct Post {
    core: SharedCore,
    account: Account,
    own: Arc<Bot>,
    version: u64,
}

impl Post {
    /// Updates of one chat go one after the other, those of different chats side by side.
    async fn run(self) {
        let post = Arc::new(self);
        let mut lanes: HashMap<String, VecDeque<Pending>> = HashMap::new();
        let mut busy: HashSet<String> = HashSet::new();
        let mut flights: JoinSet<(String, u64)> = JoinSet::new();
        let mut seen = 0;
        loop {
            let mut changed = std::pin::pin!(post.own.queue.changed());
            changed.as_mut().enable();
            let Some(webhook) = post.current() else { return };
            for pending in post.own.queue.entries_after(seen) {
                seen = pending.entry;
                lanes.entry(lane(&pending.update)).or_default().push_back(pending);
            }
            for (chat, lane) in &mut lanes {
                if flights.len() < webhook.max_connections
                    && !busy.contains(chat)
                    && let Some(pending) = lane.pop_front()
                {
                    busy.insert(chat.clone());
                    flights.spawn(Arc::clone(&post).deliver(chat.clone(), pending));
                }
            }
            lanes.retain(|chat, lane| !lane.is_empty() || busy.contains(chat));
            tokio::select! {
                () = changed => {}
                Some(landed) = flights.join_next() => {
                    let Ok((chat, entry)) = landed else { return };
                    post.own.queue.remove(entry);
                    busy.remove(&chat);
                }
            }
        }
    }

    fn current(&self) -> Option<Webhook> {
        let (webhook, version) = self.own.webhook();
        webhook.filter(|_| version == self.version)
    }

    /// Tries until it is taken: after a second, two, four … up to a minute, or when the bot's server says.
    async fn deliver(self: Arc<Self>, chat: String, pending: Pending) -> (String, u64) {
        // Our own values always serialise.
        let body = Bytes::from(serde_json::to_vec(&Ordered(&pending.update)).unwrap_or_default());
        let mut pause_s = 1;
        while let Some(webhook) = self.current() {
            let wait_s = match self.attempt(&webhook, &body).await {
                Ok(()) => break,
                Err(asked) => asked.unwrap_or(pause_s).min(3600),
            };
            sleep(Duration::from_secs(wait_s)).await;
            pause_s = (pause_s * 2).min(60);
        }
        (chat, pending.entry)
    }

    /// One call; the error is the pause that the bot's server asked for.
    async fn attempt(&self, webhook: &Webhook, body: &Bytes) -> Result<(), Option<u64>> {
        let target = Target {
            account: Some(self.account.token.clone()),
            account_id: Some(self.account.id.clone()),
            ..Target::default()
        };
        let strike = (!webhook.secret.is_empty())
            .then(|| self.core.faults.strike_update(Name::Telegram, &target, Kind::WrongSecret));
        let secret = match strike.flatten() {
            Some(_) => format!("{}-wrong", webhook.secret),
            None => webhook.secret.clone(),
        };
        let headers: &[(&str, &str)] =
            if secret.is_empty() { &[] } else { &[("X-Telegram-Bot-Api-Secret-Token", secret.as_str())] };
        let error = match self.core.hooks.post(&webhook.url, headers, body.clone()).await {
            Ok(answer) if answer.is_success() => {
                self.obey(&answer.body).await;
                return Ok(());
            }
            Ok(answer) => {
                let message = format!("Wrong response from the webhook: {}", answer.status);
                self.own.note_webhook_error(self.core.clock.now_s(), message);
                answer.retry_after_s
            }
            Err(message) => {
                self.own.note_webhook_error(self.core.clock.now_s(), message);
                None
            }
        };
        Err(error)
    }

    /// An answer may carry one call; nobody learns what became of it, except the ledger.
    async fn obey(&self, body: &[u8]) {
        let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(body) else { return };
        let method = object.get("method").and_then(Value::as_str).and_then(methods::canonical);
        let Some(method) = method.filter(|name| !name.starts_with("get") && !name.ends_with("Webhook"))
        else {
            return;
        };
        let args = Args::of_object(object);
        let chat = args.text("chat_id");
        let target = Target {
            account: Some(self.account.token.clone()),
            account_id: Some(self.account.id.clone()),
            method: method.to_owned(),
            chat: super::people::canonical_chat(&self.core, &chat.into()),
            text: None,
        };
        let row = self.core.ledger.open(Name::Telegram, &target, self.core.clock.now_ms());
        let visitor = Visitor {
            core: &self.core,
            account: &self.account,
            own: &self.own,
            bot: self.own.id,
            args: &args,
        };
        let effect = match methods::run(&visitor, method).await {
            Ok(done) => done.effect,
            Err(_) => Effect::refused(),
        };
        self.core.ledger.close(row, target, effect, None);
    }
}

/// Updates that have to stay in order share a lane.
fn lane(update: &Value) -> String {
    let inner =
        update.as_object().into_iter().flatten().find(|(_, value)| value.is_object()).map(|(_, value)| value);
    let Some(inner) = inner else { return String::new() };
    let chat = inner.get("chat").or_else(|| inner["message"].get("chat")).or_else(|| inner.get("from"));
    chat.map(|chat| chat["id"].to_string()).unwrap_or_default()
}
