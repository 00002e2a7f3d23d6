//! The shapes of `/v1`, described for `/v1/openapi.json`. What is asked is read by the structs of each handler; what is
//! answered is held to these by `walk_tests`.

#![allow(dead_code, reason = "shapes that are described, and built as JSON")]

mod adapter;
mod audiences;
mod campaigns;
mod photos;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, ToSchema};

pub(super) use adapter::*;
pub(super) use audiences::*;
pub(super) use campaigns::*;
pub(super) use photos::*;

/// An RFC 9457 document; nothing was changed.
#[derive(Debug, ToSchema)]
pub(super) struct Problem {
    /// urn:rupor:problem: and the code
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    /// The field that is wrong, where it is one.
    #[schema(required = false, nullable = false)]
    field: Option<String>,
    error: ProblemError,
}

#[derive(Debug, ToSchema)]
struct ProblemError {
    code: String,
    message: String,
}

/// What every question may hear.
#[derive(Debug)]
pub(super) struct Refusals;

/// What every call with a body may hear.
#[derive(Debug)]
pub(super) struct BodyRefusals;

const REFUSALS: [(&str, &str); 10] = [
    ("400", "The request cannot be understood"),
    ("401", "The token is missing, wrong or revoked"),
    ("403", "The token has not the scope that this needs"),
    ("404", "It is not here, or belongs to another workspace"),
    ("405", "Another method is meant"),
    ("421", "The node does not answer to this host"),
    ("422", "A field is wrong, or it cannot be done now"),
    ("429", "Too many wrong tokens, or too many calls; come back after Retry-After"),
    ("500", "A fault of rupor; whether it was done is not known"),
    ("503", "Nothing was done; the same call may be made again"),
];
const BODY_REFUSALS: [(&str, &str); 3] = [
    ("408", "The body did not come in time"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON, or is compressed in an unknown way"),
];

fn refused((status, description): (&str, &str)) -> (String, RefOr<Response>) {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response =
        ResponseBuilder::new().description(description).content("application/problem+json", content);
    (status.to_owned(), response.build().into())
}

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        REFUSALS.into_iter().map(refused).collect()
    }
}

impl IntoResponses for BodyRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        REFUSALS.into_iter().chain(BODY_REFUSALS).map(refused).collect()
    }
}

#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// Rows of a page; 50 without it.
    #[param(minimum = 1, maximum = 500, nullable = false)]
    limit: Option<u32>,
    /// `next_cursor` of the page before; it belongs to its workspace and its listing.
    #[param(nullable = false)]
    cursor: Option<String>,
}

#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeliveryQuery {
    #[param(inline, nullable = false)]
    status: Option<Status>,
    /// Name of a channel.
    #[param(nullable = false)]
    channel: Option<String>,
}

/// The same key with the same body gets the same answer; with another body 422.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Idempotency {
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 200,
        pattern = "^[!-~]+$",
        nullable = false
    )]
    idempotency_key: Option<String>,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum Status {
    Queued,
    Claimed,
    Sending,
    Retry,
    Sent,
    Deduped,
    FailedPermanent,
    Dead,
}

#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Lost,
    Found,
    Sighting,
    Reunited,
    Adoption,
    Fundraising,
    News,
    Ad,
    Link,
    Empty,
    Other,
}

/// One post, or a batch of them.
#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Handed {
    Post(super::read::Post),
    Posts(Batch),
}

#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Batch {
    #[schema(min_items = 1, max_items = 100)]
    posts: Vec<super::read::Post>,
}

#[derive(Debug, ToSchema)]
pub(super) struct Accepted {
    /// In the order of the posts.
    accepted: Vec<AcceptedPost>,
}

#[derive(Debug, ToSchema)]
struct AcceptedPost {
    message_id: i64,
    origin_id: String,
}

/// At least one of text, title and photos.
#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub(super) struct NewMessage {
    #[schema(max_length = 50_000)]
    text: String,
    title: Option<String>,
    #[schema(max_items = 10)]
    photos: Vec<Photo>,
    /// Your own id: the same one again is the same post, with other words an edit of it.
    #[schema(min_length = 1, max_length = 200)]
    origin_id: Option<String>,
    /// Where the post can be read.
    #[schema(format = "uri")]
    url: Option<String>,
    /// Unix seconds; older than a day is kept and not published.
    date: Option<i64>,
    /// What it is; without it the words are asked.
    #[schema(inline)]
    kind: Option<Kind>,
    /// Names of channels; without them the routes decide.
    #[schema(min_items = 1)]
    channels: Option<Vec<String>>,
    /// Only say what would become of it.
    dry_run: bool,
}

#[derive(Debug, ToSchema)]
pub(super) struct Message {
    id: i64,
    #[schema(inline)]
    status: MessageStatus,
    kind: String,
    source: String,
    origin_id: String,
    revision: i32,
    #[schema(required)]
    case_id: Option<i64>,
    /// Why nobody should hear it.
    #[schema(required)]
    skipped: Option<String>,
    created_at: String,
    #[schema(required)]
    title: Option<String>,
    text: String,
    photos: Vec<KeptPhoto>,
    deliveries: Vec<Delivery>,
}

/// A page; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(super) struct Messages {
    items: Vec<MessageLine>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
struct MessageLine {
    id: i64,
    kind: String,
    source: String,
    origin_id: String,
    #[schema(required)]
    case_id: Option<i64>,
    /// Why nobody should hear it.
    #[schema(required)]
    skipped: Option<String>,
    created_at: String,
    #[schema(required)]
    title: Option<String>,
    text: String,
    deliveries: DeliveryCounts,
}

/// How many of its deliveries stand so.
#[derive(Debug, ToSchema)]
struct DeliveryCounts {
    sent: i64,
    waiting: i64,
    failed: i64,
    deduped: i64,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
enum MessageStatus {
    Pending,
    Failed,
    Sent,
    Deduped,
    Skipped,
}

#[derive(Debug, ToSchema)]
pub(super) struct Delivery {
    id: i64,
    message_id: i64,
    /// `null` for a person, or a channel that is gone.
    #[schema(required)]
    channel: Option<String>,
    action: String,
    status: Status,
    #[schema(required)]
    reason: Option<String>,
    attempt: i32,
    /// What readers' platforms call it.
    #[schema(required)]
    provider_message_id: Option<String>,
    #[schema(required)]
    url: Option<String>,
    #[schema(required)]
    error: Option<DeliveryError>,
    queued_at: String,
    #[schema(required)]
    sent_at: Option<String>,
    #[schema(required)]
    ended_at: Option<String>,
    /// Every try, where one delivery is asked for.
    #[schema(required = false, nullable = false)]
    attempts: Option<Vec<Attempt>>,
}

/// One try of a delivery.
#[derive(Debug, ToSchema)]
struct Attempt {
    attempt: i32,
    started_at: String,
    finished_at: String,
    outcome: String,
    #[schema(required)]
    error: Option<DeliveryError>,
    #[schema(required)]
    provider_message_id: Option<String>,
}

#[derive(Debug, ToSchema)]
pub(super) struct Requeued {
    /// Ids of what is queued again.
    requeued: Vec<i64>,
    /// How many had been queued again before, and were left alone.
    already: i64,
}

#[derive(Debug, ToSchema)]
pub(super) struct CancelledMany {
    cancelled: Vec<i64>,
    /// How many were out or ended already.
    not_waiting: i64,
}

#[derive(Debug, ToSchema)]
pub(super) struct HeldPosts {
    items: Vec<HeldPost>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
struct HeldPost {
    message_id: i64,
    #[schema(required)]
    channel: Option<String>,
    kind: String,
    why: String,
    held_at: String,
    #[schema(required)]
    expires_at: Option<String>,
    text: String,
}

#[derive(Debug, ToSchema)]
pub(super) struct Accounts {
    items: Vec<Account>,
}

#[derive(Debug, ToSchema)]
struct Account {
    account: String,
    platform: String,
    tier: String,
    #[schema(inline)]
    state: AccountState,
    #[schema(required)]
    why: Option<String>,
    #[schema(required)]
    rests_until: Option<String>,
    /// Messages a second; `null` where nothing limits it.
    #[schema(required)]
    rate: Option<f64>,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
enum AccountState {
    Open,
    Paused,
    Resting,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum AccountVerb {
    Pause,
    Resume,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum MessageVerb {
    Approve,
    Reject,
}

#[derive(Debug, ToSchema)]
struct DeliveryError {
    #[schema(required)]
    code: Option<String>,
    #[schema(required)]
    message: Option<String>,
}

/// A page; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(super) struct Deliveries {
    items: Vec<Delivery>,
    #[schema(required)]
    next_cursor: Option<String>,
}

/// A page; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(super) struct Events {
    items: Vec<Event>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
struct Event {
    event_id: i64,
    at: String,
    name: String,
    #[schema(required)]
    message_id: Option<i64>,
    #[schema(required)]
    delivery_id: Option<i64>,
    channel_id: Option<i64>,
    recipient_id: Option<i64>,
    #[schema(required)]
    account_id: Option<i64>,
    #[schema(value_type = Object)]
    detail: Value,
}

#[derive(Debug, ToSchema)]
pub(super) struct Channels {
    items: Vec<Channel>,
}

#[derive(Debug, ToSchema)]
struct Channel {
    channel: String,
    platform: String,
    target: String,
    /// `open`, `held`, `shut`, `disabled`, `no account`, `paused`, `resting` or `quiet`.
    state: String,
    waiting: i64,
    sending: i64,
    #[schema(required)]
    lag_ms: Option<i64>,
    sent: i64,
    deduped: i64,
    failed: i64,
    #[schema(required)]
    rate: Option<f64>,
    #[schema(required)]
    eta_ms: Option<i64>,
}

/// A page; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(super) struct Cases {
    items: Vec<Case>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
pub(super) struct Case {
    case_id: i64,
    kind: String,
    title: String,
    #[schema(value_type = Object)]
    facts: Value,
    opened_at: String,
    last_seen_at: String,
    #[schema(required)]
    closed_at: Option<String>,
    #[schema(required)]
    closed_by: Option<i64>,
    n_messages: i32,
}

/// A page; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(super) struct Runs {
    items: Vec<Run>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
struct Run {
    run_id: i64,
    source: String,
    started_at: String,
    #[schema(required)]
    finished_at: Option<String>,
    seen: i32,
    stored: i32,
    skipped: i32,
    enqueued: i32,
    #[schema(required)]
    error: Option<String>,
}

/// A page; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(super) struct Alerts {
    items: Vec<Alert>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
struct Alert {
    alert_id: i64,
    key: String,
    kind: String,
    #[schema(inline)]
    severity: Severity,
    #[schema(value_type = Object)]
    words: Value,
    opened_at: String,
    /// When it was last found so.
    seen_at: String,
    #[schema(required)]
    told_at: Option<String>,
    n_told: i32,
    #[schema(required)]
    ended_at: Option<String>,
    #[schema(required)]
    cleared_at: Option<String>,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
enum Severity {
    Act,
    Heals,
}

/// What would become of it; nothing was stored.
#[derive(Debug, ToSchema)]
pub(super) struct Rehearsal {
    dry_run: bool,
    #[schema(inline)]
    kind: Kind,
    channels: Vec<String>,
    #[schema(required)]
    held: Option<Vec<String>>,
    #[schema(required)]
    skipped: Option<String>,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum ChannelVerb {
    Pause,
    Resume,
    Disable,
    Enable,
}

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum DeliveryVerb {
    Requeue,
    Cancel,
}

/// Bots of the workspace, and the figures of the last hour.
#[derive(Debug, ToSchema, Serialize)]
pub(super) struct Bots {
    pub items: Vec<String>,
    /// Events that nobody has looked at yet.
    pub waiting: i64,
    #[schema(required)]
    pub oldest_at: Option<String>,
    /// Dialogues that people have taken over.
    pub handoffs: i64,
    pub turns: i64,
    pub fallbacks: i64,
    pub errors: i64,
}
