//! What programs may change: the verbs of the command line. Who did it stands in the events.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use domain::ids::{DeliveryId, MessageId};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Actor, ApiScope, Store};

use super::access::{Caller, Operates, admit};
use super::ask::{channel_named, number, status_named, told};
use super::{ApiError, ingest, strict};
use crate::http::{Client, Site};
use crate::operate::verb::{Decision, Which};
use crate::operate::{Verb, perform};

/// Bytes of the body of a verb.
const BODY_MAX: usize = 4_096;

/// What a verb may be given; all of it may be missing.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Order {
    /// Why; it stands in the events.
    reason: Option<String>,
    /// A pause: for how long, such as `30m`; without it until somebody resumes.
    #[serde(rename = "for")]
    time: Option<String>,
    /// A resume: also queue again what failed because of the channel.
    with_failed: bool,
}

/// The body of a verb may be missing.
async fn read_order(body: Body) -> Result<Order, ApiError> {
    match read_value(&ingest::read_body(body, BODY_MAX).await?)? {
        Value::Null => Ok(Order::default()),
        value => object(value),
    }
}

/// What stands in a body; nothing in it is null.
pub(super) fn read_value(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    strict::value(bytes).map_err(|error| ApiError::malformed(format!("the body is not JSON: {error}")))
}

/// A list would be taken for the fields in their order.
pub(super) fn object<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    if !value.is_object() {
        return Err(ApiError::malformed("the body must be an object"));
    }
    strict::meant(value)
}

/// The store as this caller: every event says who asked.
pub(super) fn hand(site: &Site, caller: &Caller, reason: Option<String>) -> Store {
    site.node.store.by(Actor { who: format!("token {}", caller.token.name), reason })
}

pub(super) async fn done(store: &Store, verb: Verb) -> Result<Json<Value>, ApiError> {
    perform(store, verb).await.map(Json).map_err(|error| match error.downcast::<store::StoreError>() {
        Ok(error) => told(error),
        Err(error) => ApiError::invalid("refused", format!("{error:#}")),
    })
}

#[utoipa::path(post, path = "/v1/channels/{channel}/{verb}", operation_id = "operateChannel", summary = "Pauses, resumes, disables or enables a channel", params(("channel" = String, Path), ("verb" = inline(super::shapes::ChannelVerb), Path)), request_body(content = Option<Order>), responses((status = 200, body = Object, description = "Done"), super::shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn on_channel(
    State(site): State<Site>,
    Operates(caller): Operates,
    Path((name, verb)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let order = read_order(body).await?;
    let channels = site.node.store.channels(caller.ws).await.map_err(told)?;
    let channel = channel_named(&channels, &name).map_err(ApiError::in_path)?.name.clone();
    let workspace = caller.workspace.clone();
    let verb = match verb.as_str() {
        "pause" => {
            let millis = match &order.time {
                None => None,
                Some(text) => {
                    let span = engine::span::parse(text).filter(|span| span.0 > 0);
                    let wrong =
                        || ApiError::field("for", format!("is not a time; write {}", engine::span::FORM));
                    Some(span.ok_or_else(wrong)?.millis())
                }
            };
            let why = order.reason.clone().unwrap_or_else(|| "paused by a program".to_owned());
            Verb::PauseChannel { workspace, channel, millis, why }
        }
        // As on the command line: who enables a channel also ends its pause.
        "resume" | "enable" => Verb::ResumeChannel { workspace, channel, with_failed: order.with_failed },
        "disable" => Verb::DisableChannel { workspace, channel },
        _ => return Err(ApiError::field("verb", "is not known; known are pause, resume, disable, enable")),
    };
    done(&hand(&site, &caller, order.reason), verb).await
}

#[utoipa::path(post, path = "/v1/accounts/{account}/{verb}", operation_id = "operateAccount", summary = "Pauses or resumes an account; what waits is kept", params(("account" = String, Path), ("verb" = inline(super::shapes::AccountVerb), Path)), request_body(content = Option<Why>), responses((status = 200, body = Object, description = "Done"), super::shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn on_account(
    State(site): State<Site>,
    Operates(caller): Operates,
    Path((name, verb)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let Why { reason } = read_why(body).await?;
    let accounts = site.node.store.accounts(caller.ws).await.map_err(told)?;
    let account = accounts.iter().find(|account| account.name == name);
    let absent = || ApiError::absent("there is no such account; GET /v1/accounts lists them");
    let account = account.ok_or_else(absent)?.name.clone();
    let workspace = caller.workspace.clone();
    let verb = match verb.as_str() {
        "pause" => {
            let why = reason.clone().unwrap_or_else(|| "paused by a program".to_owned());
            Verb::PauseAccount { workspace, account, why }
        }
        "resume" => Verb::ResumeAccount { workspace, account },
        _ => return Err(ApiError::field("verb", "is not known; known are pause, resume")),
    };
    done(&hand(&site, &caller, reason), verb).await
}

#[utoipa::path(post, path = "/v1/messages/{id}/{verb}", operation_id = "decideMessage", summary = "Publishes a post that waits for a person, or does not", params(("id" = i64, Path, minimum = 1), ("verb" = inline(super::shapes::MessageVerb), Path)), request_body(content = Option<Why>), responses((status = 200, body = Object, description = "Done"), super::shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn on_message(
    State(site): State<Site>,
    Operates(caller): Operates,
    Path((id, verb)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let Why { reason } = read_why(body).await?;
    let message = MessageId(number(&id, "id")?);
    let decision = match verb.as_str() {
        "approve" => Decision::Approve,
        "reject" => Decision::Reject,
        _ => return Err(ApiError::field("verb", "is not known; known are approve, reject")),
    };
    site.node.store.message(caller.ws, message).await.map_err(told)?;
    let verb = Verb::Decide { workspace: caller.workspace.clone(), message, decision };
    done(&hand(&site, &caller, reason), verb).await
}

#[utoipa::path(post, path = "/v1/deliveries/requeue", operation_id = "requeueDeliveries", summary = "Queues again what failed for a cause; each of them once, however often this is asked", request_body = Causes, responses((status = 200, body = super::shapes::Requeued, description = "At most 10 000 a call"), super::shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn requeue(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let (caller, which, reason) = causes(&site, client, &headers, body).await?;
    let verb = Verb::Requeue { workspace: caller.workspace.clone(), which };
    done(&hand(&site, &caller, reason), verb).await
}

#[utoipa::path(post, path = "/v1/deliveries/cancel", operation_id = "cancelDeliveries", summary = "Ends what waits for a cause", request_body = Causes, responses((status = 200, body = super::shapes::CancelledMany, description = "At most 10 000 a call"), super::shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn cancel(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let (caller, which, reason) = causes(&site, client, &headers, body).await?;
    let verb = Verb::Cancel { workspace: caller.workspace.clone(), which };
    done(&hand(&site, &caller, reason), verb).await
}

/// Why something is done.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Why {
    /// It stands in the events.
    reason: Option<String>,
}

async fn read_why(body: Body) -> Result<Why, ApiError> {
    match read_value(&ingest::read_body(body, BODY_MAX).await?)? {
        Value::Null => Ok(Why::default()),
        value => object(value),
    }
}

/// Which deliveries; at least one of channel, code and status.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Causes {
    /// Name of a channel.
    channel: Option<String>,
    /// Code of the last error, such as 429 or kicked.
    code: Option<String>,
    #[schema(value_type = Option<super::shapes::Status>, inline)]
    status: Option<String>,
    /// Why it is done; it stands in the events.
    reason: Option<String>,
}

async fn causes(
    site: &Site,
    client: Client,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Caller, Which, Option<String>), ApiError> {
    let caller = admit(site, client, headers, ApiScope::Operate).await?;
    ingest::check_headers(headers)?;
    let Causes { channel, code, status, reason } =
        object(read_value(&ingest::read_body(body, BODY_MAX).await?)?)?;
    if channel.is_none() && code.is_none() && status.is_none() {
        return Err(ApiError::field("channel", "which ones? give a channel, a code or a status"));
    }
    let status = status.as_deref().map(status_named).transpose()?;
    if let Some(name) = &channel {
        let channels = site.node.store.channels(caller.ws).await.map_err(told)?;
        channel_named(&channels, name)?;
    }
    Ok((caller, Which::Cause { status, code, channel }, reason))
}

#[utoipa::path(post, path = "/v1/deliveries/{id}/{verb}", operation_id = "operateDelivery", summary = "Queues a failed delivery again, or ends one that waits", params(("id" = i64, Path, minimum = 1), ("verb" = inline(super::shapes::DeliveryVerb), Path)), request_body(content = Option<Order>), responses((status = 200, body = Object, description = "Done"), super::shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn on_delivery(
    State(site): State<Site>,
    Operates(caller): Operates,
    Path((id, verb)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let order = read_order(body).await?;
    let id = DeliveryId(number(&id, "id")?);
    site.node.store.delivery(caller.ws, id).await.map_err(told)?;
    let (workspace, which) = (caller.workspace.clone(), Which::Ids(vec![id]));
    let verb = match verb.as_str() {
        "requeue" => Verb::Requeue { workspace, which },
        "cancel" => Verb::Cancel { workspace, which },
        _ => return Err(ApiError::field("verb", "is not known; known are requeue, cancel")),
    };
    let answer = done(&hand(&site, &caller, order.reason), verb).await?;
    Ok(Json(json!({"delivery": id, "done": answer.0})))
}
