//! What programs may change: the verbs of the command line. Who did it stands in the events.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use domain::ids::DeliveryId;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Actor, Store};

use super::access::{Caller, Operates};
use super::ask::{channel_named, number, told};
use super::{ApiError, ingest, strict};
use crate::http::Site;
use crate::operate::verb::Which;
use crate::operate::{Verb, perform};

/// Bytes of the body of a verb.
const BODY_MAX: usize = 4_096;

/// What a verb may be given; all of it may be missing.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Order {
    /// Why; it stands in the events.
    pub(super) reason: Option<String>,
    /// A pause: for how long, such as `30m`; without it until somebody resumes.
    #[serde(rename = "for")]
    time: Option<String>,
    /// A resume: also queue again what failed because of the channel.
    with_failed: bool,
}

/// The body of a verb may be missing.
pub(super) async fn read_order(body: Body) -> Result<Order, ApiError> {
    let bytes = ingest::read_body(body, BODY_MAX).await?;
    if bytes.is_empty() {
        return Ok(Order::default());
    }
    let value = strict::value(&bytes)
        .map_err(|error| ApiError::malformed(format!("the body is not JSON: {error}")))?;
    if value.is_null() { Ok(Order::default()) } else { object(value) }
}

/// A list would be taken for the fields in their order.
pub(super) fn object<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    if !value.is_object() {
        return Err(ApiError::malformed("the body must be an object"));
    }
    serde_json::from_value(value).map_err(|error| ApiError::malformed(error.to_string()))
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

#[utoipa::path(post, path = "/v1/channels/{channel}/{verb}", operation_id = "operateChannel", summary = "Pauses or resumes a channel", params(("channel" = String, Path), ("verb" = inline(super::shapes::ChannelVerb), Path)), request_body(content = Option<Order>), responses((status = 200, body = Object, description = "Done"), super::shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn on_channel(
    State(site): State<Site>,
    Operates(caller): Operates,
    Path((name, verb)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let order = read_order(body).await?;
    let channels = site.node.store.channels(caller.ws).await.map_err(told)?;
    let channel = channel_named(&channels, &name)?.name.clone();
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
        "resume" => Verb::ResumeChannel { workspace, channel, with_failed: order.with_failed },
        _ => return Err(ApiError::field("verb", "is not known; known are pause, resume")),
    };
    done(&hand(&site, &caller, order.reason), verb).await
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
