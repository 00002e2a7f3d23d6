//! Webhooks: subscriptions and the calls they cause.
//! First attempts of one subscription go one after the other, so a bot sees its updates in order;
//! what fails is tried again beside them, later and later, and after eight hours without a success the subscription ends.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::bots::Bot;
use super::errors::ApiError;
use super::updates::TYPES;
use super::{Done, Visitor};
use crate::core::SharedCore;
use crate::faults::Kind;
use crate::platform::{Name, Target};

/// Each update is tried this often.
const ATTEMPTS_MAX: u32 = 10;
/// Each pause is this many times longer than the one before.
const PAUSE_GROWTH: f64 = 2.5;
/// The bot's server has to answer within this.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A subscription ends after this long without a success.
const SILENCE_MS_MAX: i64 = 8 * 3600 * 1000;
/// Updates that wait for a slow server; more are lost.
const WAITING_MAX: usize = 10_000;
const SECRET_HEADER: &str = "X-Max-Bot-Api-Secret";

/// One address that wants updates.
#[derive(Debug)]
pub struct Subscription {
    pub url: String,
    secret: Option<String>,
    types: Option<Vec<String>>,
    time: i64,
    account: Target,
    retry_ms: u64,
    last_success_ms: AtomicI64,
    waiting: mpsc::Sender<Parcel>,
    pub counts: Arc<Counts>,
}

/// What became of the calls.
#[derive(Debug, Default)]
pub struct Counts {
    pub taken: AtomicU64,
    pub refused: AtomicU64,
    pub given_up: AtomicU64,
}

/// An update on its way.
#[derive(Clone, Debug)]
struct Parcel {
    chat: i64,
    body: Bytes,
    attempt: u32,
}

impl Subscription {
    pub fn wants(&self, kind: &str) -> bool {
        self.types.as_ref().is_none_or(|types| types.iter().any(|own| own == kind))
    }

    /// Queues an update; a server that is far behind loses it.
    pub fn push(&self, chat: i64, body: Bytes) {
        if self.waiting.try_send(Parcel { chat, body, attempt: 1 }).is_err() {
            self.counts.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn json(&self) -> Value {
        json!({ "url": self.url, "time": self.time, "update_types": self.types })
    }
}

/// `GET /subscriptions`.
pub(super) fn list(visitor: &Visitor<'_>) -> Done {
    let subscriptions: Vec<Value> = visitor.bot.subscriptions().iter().map(|own| own.json()).collect();
    Done::new(json!({ "subscriptions": subscriptions }))
}

/// `POST /subscriptions`.
pub(super) fn subscribe(visitor: &Visitor<'_>, body: &Value) -> Result<Done, ApiError> {
    let url = checked_url(visitor, &body["url"])?;
    let secret = checked_secret(&body["secret"])?;
    let types = checked_types(&body["update_types"])?;
    let now = visitor.now_ms();
    let (waiting, parcels) = mpsc::channel(WAITING_MAX);
    let account = Target {
        account: Some(visitor.account.token.clone()),
        account_id: Some(visitor.account.id.clone()),
        ..Target::default()
    };
    let subscription = Arc::new(Subscription {
        url: url.clone(),
        secret,
        types,
        time: now,
        account,
        retry_ms: visitor.options().webhook_retry_ms(),
        last_success_ms: AtomicI64::new(now),
        waiting,
        counts: Arc::clone(&visitor.max.hook_counts),
    });
    // An address belongs to the bot that named it last.
    for other in visitor.max.all_bots().iter().filter(|other| other.id != visitor.id) {
        other.unsubscribe(&url);
    }
    let post = Post {
        core: Arc::clone(&visitor.max.core),
        bot: Arc::clone(&visitor.bot),
        subscription: Arc::downgrade(&subscription),
    };
    visitor.bot.subscribe(subscription);
    visitor.max.core.tasks.spawn(post.run(parcels));
    Ok(Done::new(json!({ "success": true })))
}

/// `DELETE /subscriptions`.
pub(super) fn unsubscribe(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let url = visitor.required("url")?;
    if !visitor.bot.unsubscribe(&url) {
        return Err(ApiError::unsuccessful("There is no subscription with this url"));
    }
    Ok(Done::new(json!({ "success": true })))
}

fn checked_url(visitor: &Visitor<'_>, url: &Value) -> Result<String, ApiError> {
    let text = url.as_str().ok_or_else(ApiError::body)?;
    let bad = |why: &str| Err(ApiError::payload(format!("url: {why}")));
    let Ok(parsed) = url::Url::parse(text) else { return bad("must be a valid URL") };
    if !parsed.has_host() {
        return bad("must be a valid URL");
    }
    let strict = visitor.options().strict_webhooks();
    match parsed.scheme() {
        "https" if strict && parsed.port().is_some() => bad("only port 443 is allowed"),
        "https" => Ok(text.to_owned()),
        "http" if !strict && super::is_loopback(&parsed) => Ok(text.to_owned()),
        _ => bad("must start with https://"),
    }
}

fn checked_secret(secret: &Value) -> Result<Option<String>, ApiError> {
    match secret {
        Value::Null => Ok(None),
        Value::String(text) => {
            let fits = (5..=256).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
            if fits {
                Ok(Some(text.clone()))
            } else {
                Err(ApiError::payload("secret: must match \"^[a-zA-Z0-9_-]{5,256}$\""))
            }
        }
        _ => Err(ApiError::body()),
    }
}

fn checked_types(types: &Value) -> Result<Option<Vec<String>>, ApiError> {
    match types {
        Value::Null => Ok(None),
        Value::Array(list) => {
            let known: Option<Vec<String>> = list
                .iter()
                .map(|kind| kind.as_str().filter(|kind| TYPES.contains(kind)).map(str::to_owned))
                .collect();
            let known = known.ok_or_else(|| ApiError::payload("update_types: unknown update type"))?;
            Ok(Some(known).filter(|types| !types.is_empty()))
        }
        _ => Err(ApiError::body()),
    }
}

/// Calls one address until its subscription is gone.
struct Post {
    core: SharedCore,
    bot: Arc<Bot>,
    subscription: Weak<Subscription>,
}

impl Post {
    async fn run(self, mut parcels: mpsc::Receiver<Parcel>) {
        let post = Arc::new(self);
        while let Some(parcel) = parcels.recv().await {
            if !post.attempt(&parcel).await {
                Arc::clone(&post).retry_later(parcel);
            }
        }
    }

    /// Tries again beside the others, up to the last attempt.
    fn retry_later(self: Arc<Self>, mut parcel: Parcel) {
        let core = Arc::clone(&self.core);
        core.tasks.spawn(async move {
            while let Some(pause) = self.pause_after(parcel.attempt) {
                sleep(pause).await;
                parcel.attempt += 1;
                if self.attempt(&parcel).await {
                    return;
                }
            }
            if let Some(subscription) = self.subscription.upgrade() {
                subscription.counts.given_up.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// `None` when it is enough, or when the subscription is gone.
    fn pause_after(&self, attempt: u32) -> Option<Duration> {
        let subscription = self.subscription.upgrade()?;
        if attempt >= ATTEMPTS_MAX {
            return None;
        }
        let growth = PAUSE_GROWTH.powi(attempt as i32 - 1);
        Some(Duration::from_millis((subscription.retry_ms as f64 * growth) as u64))
    }

    /// One call: only status 200 in time is a success. True also when nobody wants it any more.
    async fn attempt(&self, parcel: &Parcel) -> bool {
        let Some(subscription) = self.subscription.upgrade() else { return true };
        let secret = self.secret(&subscription, parcel.chat);
        let headers: Vec<(&str, &str)> =
            secret.iter().map(|secret| (SECRET_HEADER, secret.as_str())).collect();
        let url = subscription.url.clone();
        let counts = Arc::clone(&subscription.counts);
        // Not held while waiting: an unsubscribed address must not linger.
        drop(subscription);
        let call = self.core.hooks.post(&url, &headers, parcel.body.clone());
        let taken = matches!(timeout(ANSWER_WITHIN, call).await, Ok(Ok(answer)) if answer.status == 200);
        let Some(subscription) = self.subscription.upgrade() else { return true };
        let now = self.core.clock.now_ms();
        if taken {
            counts.taken.fetch_add(1, Ordering::Relaxed);
            subscription.last_success_ms.store(now, Ordering::Relaxed);
        } else {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            if now - subscription.last_success_ms.load(Ordering::Relaxed) >= SILENCE_MS_MAX {
                self.bot.unsubscribe(&subscription.url);
            }
        }
        taken
    }

    fn secret(&self, subscription: &Subscription, chat: i64) -> Option<String> {
        let secret = subscription.secret.clone()?;
        let target = Target { chat: chat.into(), ..subscription.account.clone() };
        match self.core.faults.strike_update(Name::Max, &target, Kind::WrongSecret) {
            Some(_) => Some(format!("{secret}-wrong")),
            None => Some(secret),
        }
    }
}
