//! What another orchestrator calls between its steps: it claims and commits by the functions of the database, and asks here
//! for what only this program can do. A token with the scope `adapter` may span workspaces: who claims is proved by the token
//! of each claim.
//!
//! `send` sends and commits nothing; everything else changes nothing but the pictures that `media` keeps.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::{ClaimToken, DeliveryId, WorkspaceId};
use domain::message::{Media, MediaKind};
use domain::outcome::{Category, Failure, Outcome, Scope};
use engine::addresses::ApiBases;
use engine::dispatch::ports::{Dice, Platforms};
use engine::dispatch::{Adapter, Meters, Ports, Settings};
use engine::ingest::{PublishRules, SourceSettings, analysed, keep_bytes};
use platforms::incoming::{HookCall, HookError, HookSettings};
use platforms::platform::Network;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use store::{ApiScope, Begun, FinishKind, Store, StoreError, Turn, enqueue_items};
use tokio::sync::OnceCell;

use super::access::admit;
use super::pace::Who;
use super::room::Place;
use super::{ApiError, ingest, read, strict};
use crate::http::{Client, Site};

const BODY_MAX: usize = 1 << 20;
/// A picture as base64.
const MEDIA_BODY_MAX: usize = 28 << 20;
/// Seconds after which a busy sender may be asked again.
const BUSY_WAIT: u64 = 1;

/// Sends what others claimed; started with the first of them.
#[derive(Debug)]
pub(crate) struct Sender {
    store: Store,
    meters: Arc<Meters>,
    network: Network,
    adapter: OnceCell<Adapter>,
}

impl Sender {
    pub(crate) fn new(store: Store, meters: Arc<Meters>) -> Sender {
        let network = Network::default();
        bases().admit(&network);
        Sender { store, meters, network, adapter: OnceCell::new() }
    }

    async fn adapter(&self) -> Result<&Adapter, ApiError> {
        let start = async || {
            let settings = Settings::new(format!("adapter-{}", uuid::Uuid::new_v4().simple()));
            let ports = Ports {
                ledger: Arc::new(self.store.clone()),
                outlet: Arc::new(Platforms { network: Network::default() }),
                shelf: Arc::new(self.store.clone()),
                dice: Dice::seeded(rand::random()),
                bases: bases(),
                meters: Arc::clone(&self.meters),
            };
            Adapter::start(settings, ports).await
        };
        self.adapter.get_or_try_init(start).await.map_err(told)
    }
}

fn bases() -> ApiBases {
    ApiBases::from_env(|name| std::env::var(name).ok())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claimed {
    #[serde(deserialize_with = "number")]
    workspace_id: i64,
    #[serde(deserialize_with = "number")]
    delivery_id: i64,
    claim_token: uuid::Uuid,
}

#[utoipa::path(post, path = "/v1/adapter/send", operation_id = "adapterSend", summary = "Sends a claim of another orchestrator, once", request_body = super::shapes::AdapterSend, responses((status = 200, body = Object, description = "An item of commit_outcomes"), (status = 409, body = super::shapes::Problem, content_type = "application/problem+json", description = "The claim is not yours any more"), super::shapes::BodyRefusals), security(("token" = ["adapter"])))]
/// Sends one claim. The answer is an item of `commit_outcomes`; a claim that was begun before is never sent again.
pub(super) async fn send(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (claimed, _place): (Claimed, Place) = asked(&site, client, &headers, body, BODY_MAX).await?;
    let adapter = site.sender.adapter().await?;
    let seat = adapter.seat().ok_or_else(|| ApiError::too_often(BUSY_WAIT))?;
    let (ws, id) = (WorkspaceId(claimed.workspace_id), DeliveryId(claimed.delivery_id));
    let begun = site.node.store.begin_send(ws, id, ClaimToken(claimed.claim_token)).await;
    let lost = || ApiError::new(StatusCode::CONFLICT, "lost_claim", "this claim is not yours any more");
    let ending = match begun.map_err(told)? {
        Begun::Lost => return Err(lost()),
        Begun::Before => FinishKind::Outcome(Outcome::Failed(
            Failure::new(
                Category::Transient,
                Scope::Delivery,
                "repeated",
                "this claim was handed in before; nobody knows whether it was said",
            )
            .unknown(),
        )),
        Begun::Now(claim) => adapter.send(*claim, seat).await.ok_or_else(lost)?,
    };
    let mut answer = match ending {
        FinishKind::Outcome(outcome) | FinishKind::RetryAt(outcome, _) => json!(outcome),
        FinishKind::Release => json!({"released": true}),
    };
    answer["workspace_id"] = json!(ws);
    answer["delivery_id"] = json!(id);
    answer["claim_token"] = json!(claimed.claim_token);
    Ok(Json(answer).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Posts {
    #[serde(deserialize_with = "number")]
    workspace_id: i64,
    /// As `begin_ingest` says it.
    source: String,
    base: String,
    /// What the caller of the webhook sent: one post, or `{"posts": […]}`. A post may name kept pictures as `blobs`.
    body: Value,
}

#[utoipa::path(post, path = "/v1/analyse", operation_id = "analyse", summary = "What would be enqueued of posts", request_body = super::shapes::Analyse, responses((status = 200, body = Object, description = "`items` for finish_ingest; nothing was stored"), super::shapes::BodyRefusals), security(("token" = ["adapter"])))]
/// Finished items of `enqueue_messages_and_deliveries`: hashes, facts, the channels of their routes. Nothing is stored.
pub(super) async fn analyse(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (mut asked, _place): (Posts, Place) = asked(&site, client, &headers, body, BODY_MAX).await?;
    let (store, ws) = (&site.node.store, WorkspaceId(asked.workspace_id));
    if asked.source.trim().is_empty() || asked.base.trim().is_empty() {
        return Err(ApiError::field("source", "source and base are those that begin_ingest answered"));
    }
    let blobs = match asked.body.get_mut("posts").and_then(Value::as_array_mut) {
        Some(posts) => posts.iter_mut().map(take_blobs).collect::<Result<Vec<_>, _>>()?,
        None => vec![take_blobs(&mut asked.body)?],
    };
    let now = store.now().await.map_err(told)?;
    let posts = read::posts(asked.body.to_string().as_bytes(), now.0 / 1_000_000)?;
    let channels = store.channels(ws).await.map_err(told)?;
    let mut raws = ingest::raw_posts(&channels, &asked.source, &asked.base, posts)?;
    for (raw, blobs) in raws.iter_mut().zip(blobs) {
        for blob in blobs {
            let known = store.media_origin(ws, &blob).await.map_err(told)?;
            if known.is_none() {
                return Err(ApiError::field(
                    "blobs",
                    format!("{blob} is not kept here; POST /v1/media first"),
                ));
            }
            raw.kept.push(Media { kind: MediaKind::Photo, blob: Some(blob), ..Media::default() });
        }
    }
    let name = asked.source.strip_prefix("push:").unwrap_or(&asked.source);
    let settings = SourceSettings { preset: engine::ingest::Preset::Mirror, ..SourceSettings::default() };
    let rules =
        PublishRules::load(store, ws, name, &settings).await.map_err(|error| ApiError::inside(&error))?;
    let messages = analysed(store, &site.sender.network, ws, &rules, &raws).await;
    let messages = messages.map_err(|error| ApiError::inside(&error))?;
    Ok(Json(json!({"items": enqueue_items(&messages).map_err(told)?})).into_response())
}

fn take_blobs(post: &mut Value) -> Result<Vec<String>, ApiError> {
    let Some(blobs) = post.as_object_mut().and_then(|post| post.remove("blobs")) else {
        return Ok(Vec::new());
    };
    serde_json::from_value(blobs).map_err(|_| ApiError::field("blobs", "a list of what /v1/media answered"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Picture {
    #[serde(deserialize_with = "number")]
    workspace_id: i64,
    #[serde(default)]
    name: Option<String>,
    /// Base64.
    data: String,
}

#[utoipa::path(post, path = "/v1/media", operation_id = "keepMedia", summary = "Keeps a picture", request_body = super::shapes::KeepMedia, responses((status = 200, body = Object, description = "Its `blob_ref`; the same bytes get the same one"), super::shapes::BodyRefusals), security(("token" = ["adapter"])))]
/// Keeps a picture; the same bytes are the same `blob_ref`.
pub(super) async fn media(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (asked, _place): (Picture, Place) = asked(&site, client, &headers, body, MEDIA_BODY_MAX).await?;
    let bytes = platforms::base64::decode(&asked.data);
    let bytes = bytes.ok_or_else(|| ApiError::field("data", "the bytes as base64"))?;
    let name = asked.name.as_deref().unwrap_or("photo");
    let photo = vec![(name.to_owned(), bytes.into())];
    let kept = keep_bytes(&site.node.store, WorkspaceId(asked.workspace_id), photo).await;
    let kept = kept.map_err(|error| ApiError::field("data", format!("{error:#}")))?.remove(0);
    Ok(Json(json!({"blob_ref": kept.blob, "kind": kept.kind})).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    platform: String,
    /// The last part of the webhook's address.
    key: String,
    /// The headers of the platform's call, or those that matter; the secret is among them.
    #[serde(default)]
    headers: serde_json::Map<String, Value>,
    body: Value,
}

#[utoipa::path(post, path = "/v1/bot/read", operation_id = "botRead", summary = "Reads what a platform told a webhook", request_body = super::shapes::BotRead, responses((status = 200, body = Object, description = "`updates` for bot_hear and the `answer` that the platform wants; nothing was stored"), super::shapes::BodyRefusals), security(("token" = ["adapter"])))]
/// What a platform told, as `bot_hear` wants it, and what the platform wants to hear. Nothing is stored.
pub(super) async fn bot_read(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (told_us, _place): (Told, Place) = asked(&site, client, &headers, body, BODY_MAX).await?;
    let store = &site.node.store;
    let refused =
        || ApiError::invalid("refused", "this is no webhook, or the secret is not the one it was given");
    let platform = engine::addresses::platform(&told_us.platform).map_err(|_| refused())?;
    let hook = store.bot_hook(&told_us.key).await.map_err(told)?;
    let (Some(hook), Some(receiver)) = (hook, platform.receiver()) else {
        return Err(refused());
    };
    let settings = HookSettings {
        secret: None,
        secret_hash: hook.secret_hash.clone(),
        confirmation: hook.settings["confirmation"].as_str().map(str::to_owned),
        group_id: hook.settings["group_id"].as_i64(),
    };
    let given = receiver.hook_header().and_then(|name| {
        let found = told_us.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        found.1.as_str()
    });
    let bytes = match &told_us.body {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let hooked = receiver.hook(&settings, &HookCall { secret: given, body: bytes.as_bytes() });
    let hooked = hooked.map_err(|error| match error {
        HookError::WrongSecret => refused(),
        HookError::TooLarge => ApiError::too_large(platforms::incoming::HOOK_BYTES_MAX),
        HookError::Malformed | HookError::NoConfirmation => ApiError::malformed(error.to_string()),
    })?;
    let (ws, account) = (hook.workspace_id, hook.account_id);
    let updates = engine::bot::updates(store, ws, account, platform, &hooked.events).await.map_err(told)?;
    let updates: Vec<Value> = updates.iter().map(store::Update::item).collect();
    Ok(Json(json!({"workspace_id": ws, "account_id": account, "updates": updates, "answer": hooked.answer}))
        .into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decide {
    /// As `bot_tick` gave it.
    turn: Turn,
}

#[utoipa::path(post, path = "/v1/bot/decide", operation_id = "botDecide", summary = "What a bot does about a turn", request_body = super::shapes::BotDecide, responses((status = 200, body = Object, description = "An item of bot_commit_turns; nothing was stored"), super::shapes::BodyRefusals), security(("token" = ["adapter"])))]
/// What the rules say to a turn, as an item of `bot_commit_turns`. Nothing is stored.
pub(super) async fn bot_decide(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (Decide { turn }, _place) = asked(&site, client, &headers, body, BODY_MAX).await?;
    let taken = engine::bot::decide(&site.node.store, &turn).await.map_err(told)?;
    let answer = json!({"workspace_id": turn.workspace_id, "turn": taken.item().map_err(told)?});
    Ok(Json(answer).into_response())
}

/// The body of somebody with the scope `adapter`.
async fn asked<T: DeserializeOwned>(
    site: &Site,
    client: Client,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<(T, Place), ApiError> {
    let caller = admit(site, client, headers, ApiScope::Adapter).await?;
    ingest::check_headers(headers)?;
    let who = Who::Token(caller.token.token_id);
    let (bytes, place) = site.api.room.read(who, body, bytes_max).await?;
    let value = strict::value(&bytes);
    let value = value.map_err(|error| ApiError::malformed(format!("the body is not JSON: {error}")))?;
    Ok((strict::meant(value)?, place))
}

/// Orchestrators that fear for their digits hand large numbers over as text.
fn number<'de, D: Deserializer<'de>>(value: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(i64),
        Text(String),
    }
    match Written::deserialize(value)? {
        Written::Number(number) => Ok(number),
        Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

/// What is the caller's mistake says so; everything else is for the log.
fn told(error: StoreError) -> ApiError {
    match error {
        StoreError::Invalid { .. } | StoreError::NotFound { .. } => {
            ApiError::invalid("refused", error.to_string())
        }
        other => ApiError::inside(&other.into()),
    }
}
