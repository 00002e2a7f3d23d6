//! What programs may read: messages and what became of them, deliveries, events, channels, cases, runs, the snapshot, alerts.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use domain::delivery::Status;
use domain::ids::{CaseId, ChannelId, DeliveryId, MessageId};
use domain::message::Media;
use domain::time::{Span, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use store::{Channel, Delivery, DeliveryFilter, PostCounts, PostFilter, StoreError, StoredMessage};

use super::ApiError;
use super::access::{Caller, Reads};
use super::page::Asked;
use super::shapes::KeptPhoto;
use crate::http::Site;
use crate::operate::style;

/// Deliveries of one message that are shown with it.
const DELIVERIES_MAX: usize = 1_000;

type Answer = Result<Json<Value>, ApiError>;

/// An error of the store as a caller hears it: what is not there is 404, and so is what belongs to somebody else.
pub(super) fn told(error: StoreError) -> ApiError {
    match error {
        StoreError::NotFound { .. } => ApiError::absent(error.to_string()),
        StoreError::Invalid { .. } => ApiError::invalid("invalid", error.to_string()),
        StoreError::IllegalTransition { .. } => ApiError::invalid("not_now", error.to_string()),
        StoreError::KeyConflict { .. } => ApiError::invalid("idempotency_conflict", error.to_string()),
        StoreError::Exists { .. } => ApiError::invalid("exists", error.to_string()),
        other => ApiError::inside(&other.into()),
    }
}

pub(super) fn number(text: &str, name: &str) -> Result<i64, ApiError> {
    text.parse().ok().filter(|id| *id > 0).ok_or_else(|| ApiError::field(name, "must be the number of one"))
}

#[utoipa::path(get, path = "/v1/messages", operation_id = "messages", summary = "Posts, the newest first", params(super::shapes::Paging), responses((status = 200, body = super::shapes::Messages, description = "A page"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn messages(
    State(site): State<Site>,
    Reads(caller): Reads,
    RawQuery(query): RawQuery,
) -> Answer {
    let store = &site.node.store;
    let asked = Asked::read(query.as_deref(), "messages", caller.ws, &[])?;
    let filter = PostFilter { before: asked.before().map(MessageId), ..PostFilter::default() };
    let rows = store.posts(caller.ws, filter, asked.limit, asked.limit).await.map_err(told)?.posts;
    let ids = rows.iter().map(|row| row.message_id).collect();
    let counts: HashMap<MessageId, PostCounts> =
        store.post_counts(caller.ws, ids).await.map_err(told)?.into_iter().collect();
    let last = rows.last().map(|row| row.message_id.0);
    let line = |row: &StoredMessage| {
        json!({
            "id": row.message_id,
            "kind": row.kind,
            "source": row.source,
            "origin_id": row.origin_id,
            "case_id": row.case_id,
            "skipped": row.skipped,
            "created_at": row.created_at.rfc3339(),
            "title": row.payload["title"].as_str(),
            "text": row.payload["text"].as_str().unwrap_or_default(),
            "deliveries": counts.get(&row.message_id).copied().unwrap_or_default(),
        })
    };
    Ok(Json(asked.answer(rows.iter().map(line).collect(), last)))
}

#[utoipa::path(get, path = "/v1/messages/{id}", operation_id = "message", summary = "What became of a message", params(("id" = i64, Path, minimum = 1)), responses((status = 200, body = super::shapes::Message, description = "The message and its deliveries"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn message(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path(id): Path<String>,
) -> Answer {
    let id = MessageId(number(&id, "id")?);
    Ok(Json(whole(&site, &caller, id).await?))
}

/// A message with its deliveries.
pub(super) async fn whole(site: &Site, caller: &Caller, id: MessageId) -> Result<Value, ApiError> {
    let store = &site.node.store;
    let message = store.message(caller.ws, id).await.map_err(told)?;
    let rows = store.deliveries_of(caller.ws, vec![id], DELIVERIES_MAX).await.map_err(told)?;
    let channels = store.channels(caller.ws).await.map_err(told)?;
    Ok(json!({
        "id": message.message_id,
        "status": status(&rows),
        "kind": message.kind,
        "source": message.source,
        "origin_id": message.origin_id,
        "revision": message.revision,
        "case_id": message.case_id,
        "skipped": message.skipped,
        "created_at": message.created_at.rfc3339(),
        "title": message.payload["title"].as_str(),
        "text": message.payload["text"].as_str().unwrap_or_default(),
        "photos": photos(&message),
        "deliveries": rows.iter().map(|row| shown(row, &channels)).collect::<Vec<_>>(),
    }))
}

/// What a message shows, in its order.
fn photos(message: &StoredMessage) -> Vec<KeptPhoto> {
    let media = message.payload.get("media").cloned().unwrap_or_default();
    let media: Vec<Media> = serde_json::from_value(media).unwrap_or_default();
    let id = message.message_id;
    let shown = |(n, media): (usize, Media)| KeptPhoto {
        href: media.blob.as_ref().map(|_| format!("/v1/messages/{id}/photos/{n}")),
        id: media.blob,
        kind: media.kind.as_str().to_owned(),
        mime: media.mime,
        bytes: media.size_bytes,
        width: media.width,
        height: media.height,
        url: media.url,
    };
    media.into_iter().enumerate().map(shown).collect()
}

#[utoipa::path(get, path = "/v1/messages/{id}/photos/{n}", operation_id = "photoOfMessage", summary = "The bytes of a photo of a message",
    params(("id" = i64, Path, minimum = 1), ("n" = u32, Path, description = "Its place among the photos, from 0")),
    responses((status = 200, description = "The bytes under their own type", content_type = "*/*"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn photo(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path((id, n)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let id = MessageId(number(&id, "id")?);
    let n: usize = n.parse().map_err(|_| ApiError::field("n", "must be a whole number from 0"))?;
    let store = &site.node.store;
    let message = store.message(caller.ws, id).await.map_err(told)?;
    let absent = || ApiError::absent("the message shows no such photo, or its bytes are not kept");
    let shown = photos(&message).into_iter().nth(n).ok_or_else(absent)?;
    let blob = shown.id.ok_or_else(absent)?;
    let origin = store.media_origin(caller.ws, &blob).await.map_err(told)?.ok_or_else(absent)?;
    let bytes = store.media_bytes(caller.ws, &blob).await.map_err(told)?.ok_or_else(absent)?;
    // Whatever it is, a browser runs nothing of it.
    let headers = [
        (header::CONTENT_TYPE, origin.mime),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// All of them in one word: `pending`, `failed`, `sent`, `deduped`, or `skipped` when there are none.
fn status(rows: &[Delivery]) -> &'static str {
    // A newer generation speaks for the one that it took the place of.
    let current = |row: &&Delivery| !rows.iter().any(|other| other.parent_delivery == Some(row.delivery_id));
    let any = |fits: &dyn Fn(Status) -> bool| rows.iter().filter(current).any(|row| fits(row.status));
    match () {
        () if any(&|status| !status.is_terminal()) => "pending",
        () if any(&|status| matches!(status, Status::FailedPermanent | Status::Dead)) => "failed",
        () if any(&|status| status == Status::Sent) => "sent",
        () if any(&|_| true) => "deduped",
        () => "skipped",
    }
}

/// A delivery as programs see it.
pub(super) fn shown(row: &Delivery, channels: &[Channel]) -> Value {
    let channel = channels.iter().find(|channel| Some(channel.channel_id) == row.destination.channel());
    let url = channel.zip(row.provider_message_id.as_deref());
    let url = url.and_then(|(channel, id)| engine::addresses::link(channel, id));
    json!({
        "id": row.delivery_id,
        "message_id": row.message_id,
        "channel": channel.map(|channel| &channel.name),
        "action": row.action,
        "status": row.status,
        "reason": row.reason,
        "attempt": row.counters.attempt,
        "provider_message_id": row.provider_message_id,
        "url": url,
        "error": error_of(row.last_error.as_ref()),
        "queued_at": row.queued_at.rfc3339(),
        "sent_at": row.sent_at.map(Timestamp::rfc3339),
        "ended_at": row.ended_at.map(Timestamp::rfc3339),
    })
}

#[utoipa::path(get, path = "/v1/deliveries", operation_id = "deliveries", summary = "Deliveries in the order they were made", params(super::shapes::DeliveryQuery, ("message_id" = Option<i64>, Query, minimum = 1, nullable = false), super::shapes::Paging), responses((status = 200, body = super::shapes::Deliveries, description = "A page"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn deliveries(
    State(site): State<Site>,
    Reads(caller): Reads,
    RawQuery(query): RawQuery,
) -> Answer {
    let asked = Asked::read(query.as_deref(), "deliveries", caller.ws, &["status", "channel", "message_id"])?;
    list_deliveries(&site, &caller, &asked, None).await
}

#[utoipa::path(get, path = "/v1/messages/{id}/deliveries", operation_id = "deliveriesOfMessage", summary = "The deliveries of a message", params(("id" = i64, Path, minimum = 1), super::shapes::DeliveryQuery, super::shapes::Paging), responses((status = 200, body = super::shapes::Deliveries, description = "A page"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn deliveries_of(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let id = MessageId(number(&id, "id")?);
    let asked = Asked::read(query.as_deref(), "deliveries", caller.ws, &["status", "channel"])?;
    site.node.store.message(caller.ws, id).await.map_err(told)?;
    list_deliveries(&site, &caller, &asked, Some(id)).await
}

async fn list_deliveries(site: &Site, caller: &Caller, asked: &Asked, of: Option<MessageId>) -> Answer {
    let store = &site.node.store;
    let channels = store.channels(caller.ws).await.map_err(told)?;
    let status = asked.get("status").map(status_named);
    let channel =
        asked.get("channel").map(|name| channel_named(&channels, name).map(|channel| channel.channel_id));
    let message = asked.get("message_id").map(|text| number(text, "message_id").map(MessageId));
    let filter = DeliveryFilter {
        status: status.transpose()?,
        channel_id: channel.transpose()?,
        message_id: message.transpose()?.or(of),
        code: None,
        after: Some(DeliveryId(asked.after)).filter(|id| id.0 > 0),
        ..DeliveryFilter::default()
    };
    let rows = store.deliveries(caller.ws, filter, asked.limit).await.map_err(told)?;
    let last = rows.last().map(|row| row.delivery_id.0);
    Ok(Json(asked.answer(rows.iter().map(|row| shown(row, &channels)).collect(), last)))
}

pub(super) fn status_named(text: &str) -> Result<Status, ApiError> {
    Status::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        ApiError::field("status", format!("is not known; known are {}", known.join(", ")))
    })
}

#[utoipa::path(get, path = "/v1/deliveries/{id}", operation_id = "delivery", summary = "A delivery and every attempt", params(("id" = i64, Path, minimum = 1)), responses((status = 200, body = super::shapes::Delivery, description = "The delivery"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn delivery(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path(id): Path<String>,
) -> Answer {
    let (store, id) = (&site.node.store, DeliveryId(number(&id, "id")?));
    let row = store.delivery(caller.ws, id).await.map_err(told)?;
    let channels = store.channels(caller.ws).await.map_err(told)?;
    let attempts = store.attempts(caller.ws, id).await.map_err(told)?;
    let mut answer = shown(&row, &channels);
    answer["attempts"] = attempts
        .iter()
        .map(|attempt| {
            json!({
                "attempt": attempt.attempt,
                "started_at": attempt.started_at.rfc3339(),
                "finished_at": attempt.finished_at.rfc3339(),
                "outcome": attempt.outcome,
                "error": error_of(attempt.error.as_ref()),
                "provider_message_id": attempt.provider_message_id,
            })
        })
        .collect();
    Ok(Json(answer))
}

fn error_of(error: Option<&Value>) -> Option<Value> {
    error.map(|error| json!({"code": error["code"], "message": error["message"]}))
}

#[utoipa::path(get, path = "/v1/held", operation_id = "held", summary = "Posts that wait for a person, the oldest first; approve or reject them by their message", params(super::shapes::Paging), responses((status = 200, body = super::shapes::HeldPosts, description = "A page"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn held(
    State(site): State<Site>,
    Reads(caller): Reads,
    RawQuery(query): RawQuery,
) -> Answer {
    let store = &site.node.store;
    // A post may wait in several channels, so both say where a page ended.
    let (asked, after) = Asked::by_name(query.as_deref(), "held", caller.ws)?;
    let place = |text: &str| {
        let (message, channel) = text.split_once('.')?;
        Some((MessageId(message.parse().ok()?), ChannelId(channel.parse().ok()?)))
    };
    let channels = store.channels(caller.ws).await.map_err(told)?;
    let posts = store.held_posts(caller.ws, place(&after), asked.limit).await.map_err(told)?;
    let last = posts.last().filter(|_| posts.len() == asked.limit);
    let last = last.map(|post| format!("{}.{}", post.message_id, post.channel_id));
    let mut items = Vec::new();
    for post in posts {
        let channel = channels.iter().find(|channel| channel.channel_id == post.channel_id);
        // One that was decided in this moment is not there any more.
        let Ok(message) = store.message(caller.ws, post.message_id).await else { continue };
        items.push(json!({
            "message_id": post.message_id,
            "channel": channel.map(|channel| &channel.name),
            "kind": message.kind,
            "why": post.why,
            "held_at": post.held_at.rfc3339(),
            "expires_at": post.expires_at.map(Timestamp::rfc3339),
            "text": message.payload["text"].as_str().unwrap_or_default(),
        }));
    }
    Ok(Json(asked.answer_up_to(items, last.as_deref())))
}

#[utoipa::path(get, path = "/v1/accounts", operation_id = "accounts", summary = "Accounts and how they stand", responses((status = 200, body = super::shapes::Accounts, description = "All of them"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn accounts(State(site): State<Site>, Reads(caller): Reads) -> Answer {
    let store = &site.node.store;
    let now = store.now().await.map_err(told)?;
    let mut items = Vec::new();
    for account in store.accounts(caller.ws).await.map_err(told)? {
        let rests = account.cooldown_until > now;
        let limit = store.platform_limit(caller.ws, account.account_id).await.map_err(told)?;
        let rates = [account.settings.rate, limit.and_then(|limit| limit.rate)];
        items.push(json!({
            "account": account.name,
            "platform": account.platform,
            "tier": account.settings.tier,
            "state": if account.paused { "paused" } else if rests { "resting" } else { "open" },
            "why": account.paused_why,
            "rests_until": rests.then(|| account.cooldown_until.rfc3339()),
            "rate": rates.into_iter().flatten().reduce(f64::min),
        }));
    }
    Ok(Json(json!({"items": items})))
}

/// A channel by its name; the refusal lists the known ones.
pub(super) fn channel_named<'a>(channels: &'a [Channel], name: &str) -> Result<&'a Channel, ApiError> {
    channels.iter().find(|channel| channel.name == name).ok_or_else(|| {
        let known: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
        ApiError::field("channel", format!("{name:?} is not known; known are {}", known.join(", ")))
    })
}

#[utoipa::path(get, path = "/v1/events", operation_id = "events", summary = "What happened, in order", params(super::shapes::Paging), responses((status = 200, body = super::shapes::Events, description = "A page"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn events(
    State(site): State<Site>,
    Reads(caller): Reads,
    RawQuery(query): RawQuery,
) -> Answer {
    let asked = Asked::read(query.as_deref(), "events", caller.ws, &[])?;
    let rows = site.node.store.events(caller.ws, asked.after, asked.limit).await.map_err(told)?;
    let last = rows.last().map(|row| row.event_id);
    Ok(Json(asked.answer(as_programs_read(&rows)?, last)))
}

/// Times as everywhere else in `/v1` and under `--json`.
fn as_programs_read<T: Serialize>(rows: &[T]) -> Result<Vec<Value>, ApiError> {
    rows.iter().map(as_a_program_reads).collect()
}

fn as_a_program_reads(value: &impl Serialize) -> Result<Value, ApiError> {
    style::styled(value).map_err(|error| ApiError::inside(&error.into()))
}

#[utoipa::path(get, path = "/v1/channels", operation_id = "channels", summary = "Channels and how they stand", responses((status = 200, body = super::shapes::Channels, description = "All of them"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn channels(State(site): State<Site>, Reads(caller): Reads) -> Answer {
    let facts = crate::operate::facts::gather(&site.node.store, &caller.workspace, Some(true)).await;
    let facts = facts.map_err(|error| ApiError::inside(&error))?;
    Ok(Json(json!({"items": crate::operate::status::status(&facts).channels})))
}

#[utoipa::path(get, path = "/v1/cases/{id}", operation_id = "case", summary = "A case", params(("id" = i64, Path, minimum = 1)), responses((status = 200, body = super::shapes::Case, description = "The case"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn case(State(site): State<Site>, Reads(caller): Reads, Path(id): Path<String>) -> Answer {
    let id = CaseId(number(&id, "id")?);
    Ok(Json(as_a_program_reads(&site.node.store.case(caller.ws, id).await.map_err(told)?)?))
}

#[utoipa::path(get, path = "/v1/cases", operation_id = "cases", summary = "Cases, the newest first", params(super::shapes::Paging), responses((status = 200, body = super::shapes::Cases, description = "A page"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn cases(
    State(site): State<Site>,
    Reads(caller): Reads,
    RawQuery(query): RawQuery,
) -> Answer {
    let asked = Asked::read(query.as_deref(), "cases", caller.ws, &[])?;
    let before = asked.before().map(CaseId);
    let rows = site.node.store.recent_cases(caller.ws, before, asked.limit).await.map_err(told)?;
    let last = rows.last().map(|row| row.case_id.0);
    Ok(Json(asked.answer(as_programs_read(&rows)?, last)))
}

#[utoipa::path(get, path = "/v1/runs", operation_id = "runs", summary = "Runs of sources and doors, the newest first", params(super::shapes::Paging), responses((status = 200, body = super::shapes::Runs, description = "A page"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn runs(
    State(site): State<Site>,
    Reads(caller): Reads,
    RawQuery(query): RawQuery,
) -> Answer {
    let asked = Asked::read(query.as_deref(), "runs", caller.ws, &[])?;
    let rows = site.node.store.runs(caller.ws, asked.before(), asked.limit).await.map_err(told)?;
    let last = rows.last().map(|row| row.run_id);
    Ok(Json(asked.answer(as_programs_read(&rows)?, last)))
}

#[utoipa::path(get, path = "/v1/snapshot", operation_id = "snapshot", summary = "monitor_snapshot: the workspace at one moment", responses((status = 200, body = Object, description = "What `rupor status --json` has as `snapshot`"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn snapshot(State(site): State<Site>, Reads(caller): Reads) -> Answer {
    Ok(Json(as_a_program_reads(&site.node.store.snapshot(caller.ws).await.map_err(told)?)?))
}

#[utoipa::path(get, path = "/v1/alerts", operation_id = "alerts", summary = "Troubles, the newest first", params(super::shapes::Paging), responses((status = 200, body = super::shapes::Alerts, description = "A page"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn alerts(
    State(site): State<Site>,
    Reads(caller): Reads,
    RawQuery(query): RawQuery,
) -> Answer {
    let asked = Asked::read(query.as_deref(), "alerts", caller.ws, &[])?;
    let rows = site.node.store.alerts(caller.ws, asked.before(), asked.limit).await.map_err(told)?;
    let last = rows.last().map(|row| row.alert_id);
    Ok(Json(asked.answer(as_programs_read(&rows)?, last)))
}

#[utoipa::path(get, path = "/v1/bots", operation_id = "bots", summary = "Bots, and the figures of the last hour",
    responses((status = 200, body = super::shapes::Bots, description = "All of them"), super::shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn bots(State(site): State<Site>, Reads(caller): Reads) -> Answer {
    let store = &site.node.store;
    let items = store.bots(caller.ws).await.map_err(told)?.into_iter().map(|bot| bot.name).collect();
    let figures = store.bot_snapshot(caller.ws, Span::from_hours(1)).await.map_err(told)?;
    Ok(Json(json!(super::shapes::Bots {
        items,
        waiting: figures.waiting,
        oldest_at: figures.oldest.map(Timestamp::rfc3339),
        handoffs: figures.handoffs,
        turns: figures.turns,
        fallbacks: figures.fallbacks,
        errors: figures.errors,
    })))
}
