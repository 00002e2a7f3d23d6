//! `POST /v1/ingest`: the endpoint by its secret, then pace and size, then the words, then one durable step.
//!
//! An `Idempotency-Key` is reserved together with the hash of the body before anything is stored. What is stored has
//! a natural key, so a call that is made again, after whatever crash, finds or makes the same messages and gives the
//! same answer; another body under the same key is refused on every node.
//!
//! Nobody waits for the pictures of a post: it is stored with their addresses and held back for a moment, in which they
//! are fetched after the answer. A picture that takes longer goes by its address, whatever becomes of this process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::ids::ChannelId;
use domain::message::Origin;
use domain::time::Span;
use futures_util::StreamExt;
use platforms::platform::Network;
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{Channel, Endpoint, Receipt, Store};
use tokio::sync::Semaphore;

use super::pace::{Pace, Who};
use super::photos::{self, Upload};
use super::read::{self, Post};
use super::room::Room;
use super::{ApiError, bearer};
use crate::http::{Client, Site};
use engine::addresses::ApiBases;
use engine::ingest::{self as intake, Pictures, Preset, RawPicture, RawPost, SourceSettings};

/// Calls a second, and bytes of one, unless the endpoint says otherwise.
const RATE: f64 = 5.0;
const BODY_MAX: usize = 1 << 20;
/// No setting makes a body larger than this.
const BODY_CEILING: usize = 16 << 20;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
const KEY_MAX: usize = 200;
/// How long a post with pictures is held back, and how much of that is there to fetch them.
const PICTURES_HOLD: Span = Span::from_secs(3);
const PICTURES_TIME: Duration = Duration::from_millis(2_500);
/// Calls whose pictures are fetched at once; those of others go by their address.
const FETCHING_MAX: usize = 16;

/// What taking posts in needs between two calls.
#[derive(Debug)]
pub(crate) struct PushIntake {
    store: Store,
    network: Arc<Network>,
    pub(super) pace: Pace,
    pub(super) room: Room,
    fetching: Arc<Semaphore>,
}

impl PushIntake {
    pub(crate) fn new(store: Store) -> PushIntake {
        let network = Network::default();
        ApiBases::from_env(|name| std::env::var(name).ok()).admit(&network);
        let fetching = Arc::new(Semaphore::new(FETCHING_MAX));
        PushIntake {
            store,
            network: Arc::new(network),
            pace: Pace::default(),
            room: Room::default(),
            fetching,
        }
    }
}

#[utoipa::path(post, path = "/v1/ingest", operation_id = "ingest", summary = "Takes in one post or a batch", params(super::shapes::Idempotency), request_body = super::shapes::Handed, responses((status = 202, body = super::shapes::Accepted, description = "Stored; the ids stand in the order of the posts"), super::shapes::BodyRefusals), security(("endpoint" = [])))]
pub(super) async fn ingest(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let pushes = &site.api;
    let refused = || ApiError::unauthorized("give the secret of an endpoint as Authorization: Bearer …");
    let secret = SecretString::from(bearer(&headers).ok_or_else(refused)?);
    let endpoint = site.judge(client, "/v1/ingest", async || pushes.endpoint(&secret).await).await?;
    let endpoint = endpoint.ok_or_else(refused)?;
    let rate =
        endpoint.settings["rate"].as_f64().filter(|rate| rate.is_finite() && *rate > 0.0).unwrap_or(RATE);
    let who = Who::Endpoint(endpoint.endpoint_id);
    pushes.pace.admit(who, rate)?;
    check_headers(&headers)?;
    let key = key(&headers)?;
    let (body, _place) = pushes.room.read(who, body, body_max(&endpoint)).await?;
    let now = pushes.store.now().await.map_err(|error| ApiError::inside(&error.into()))?;
    let posts = read::posts(&body, now.0 / 1_000_000)?;
    let handed = Handed { key, hash: hash(&body), posts, uploads: Vec::new() };
    let answer = pushes.take_in(&endpoint, handed).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(answer)).into_response())
}

/// What came with one call.
#[derive(Debug)]
pub(super) struct Handed {
    pub key: Option<String>,
    /// Of all that was said, so that another call under the same key is known.
    pub hash: String,
    pub posts: Vec<Post>,
    /// Photos that came along as bytes, for the first of the posts.
    pub uploads: Vec<Upload>,
}

pub(super) fn hash(said: &[u8]) -> String {
    blake3::hash(said).to_hex().to_string()
}

impl PushIntake {
    /// Unknown, shut and wrong kind sound alike: a guess must not tell which.
    async fn endpoint(&self, secret: &SecretString) -> Result<Option<Endpoint>, ApiError> {
        let found = self.store.endpoint_by_secret(secret).await;
        let found = found.map_err(|error| ApiError::inside(&error.into()))?;
        Ok(found.filter(|endpoint| endpoint.enabled && endpoint.kind == "push"))
    }

    pub(super) async fn take_in(&self, endpoint: &Endpoint, handed: Handed) -> Result<Value, ApiError> {
        let Handed { key, hash, posts, uploads } = handed;
        let source = format!("push:{}", endpoint.name);
        let base = match &key {
            Some(key) => format!("{}-{}", &blake3::hash(key.as_bytes()).to_hex()[..16], &hash[..16]),
            None => uuid::Uuid::new_v4().simple().to_string(),
        };
        let channels = self.store.channels(endpoint.workspace_id).await;
        let channels = channels.map_err(|error| ApiError::inside(&error.into()))?;
        let mut raws = raw_posts(&channels, &source, &base, posts)?;
        if let Some(key) = &key
            && self.was_made(endpoint, key, &hash).await?
        {
            // The answer of a repeated call is what its first one stored, also if somebody edited that since.
            let answer = self.answer(endpoint, &source, &raws).await;
            if let Some(answer) = answer.map_err(|error| ApiError::inside(&error))? {
                return Ok(answer);
            }
        }
        // Only now, or a refused call would leave its pictures behind; and before the key is taken, because who sent a
        // torn picture may send a whole one under the same key.
        let kept = photos::keep(&self.store, endpoint.workspace_id, uploads).await?;
        if let Some(first) = raws.first_mut() {
            first.kept = kept;
        }
        if let Some(key) = &key {
            self.reserve(endpoint, key, &hash).await?;
        }
        let done = async {
            let settings = SourceSettings { preset: Preset::Mirror, ..SourceSettings::default() };
            let mut rules =
                intake::PublishRules::load(&self.store, endpoint.workspace_id, &endpoint.name, &settings)
                    .await?;
            rules.pictures = Pictures::Later(PICTURES_HOLD);
            let work = async {
                let (store, ws) = (&self.store, endpoint.workspace_id);
                let counts = intake::take_in(store, &self.network, ws, &rules, &raws, None).await?;
                Ok((counts, None))
            };
            intake::in_a_run(&self.store, endpoint.workspace_id, &source, work).await?;
            self.fetch_pictures(endpoint, rules.clone(), &raws);
            self.answer(endpoint, &source, &raws).await?.context("a post that was taken in is not there")
        };
        done.await.map_err(|error| ApiError::inside(&error))
    }

    /// Gives stored posts the bytes of their pictures while they are held back. Nobody waits for this task: it ends by
    /// itself within moments, and what it does not do nobody misses.
    fn fetch_pictures(&self, endpoint: &Endpoint, mut rules: intake::PublishRules, raws: &[RawPost]) {
        let pictured: Vec<RawPost> = raws.iter().filter(|raw| !raw.pictures.is_empty()).cloned().collect();
        let Ok(seat) = Arc::clone(&self.fetching).try_acquire_owned() else {
            return;
        };
        rules.pictures = Pictures::Now;
        let (store, network, ws) = (self.store.clone(), Arc::clone(&self.network), endpoint.workspace_id);
        tokio::spawn(async move {
            let work = async {
                for raw in &pictured {
                    intake::take_in(&store, &network, ws, &rules, std::slice::from_ref(raw), None).await?;
                }
                anyhow::Ok(())
            };
            if let Ok(Err(error)) = tokio::time::timeout(PICTURES_TIME, work).await {
                tracing::warn!(error = format!("{error:#}"), "pictures of a pushed post go by their address");
            }
            drop(seat);
        });
    }

    /// Whether this very call was made before; refuses another one under its key.
    async fn was_made(&self, endpoint: &Endpoint, key: &str, hash: &str) -> Result<bool, ApiError> {
        let found = self.store.receipt(endpoint.workspace_id, endpoint.endpoint_id, key, hash).await;
        self.judge(endpoint, found).await.map(|receipt| receipt != Receipt::New)
    }

    /// From now on the key stands for this call.
    async fn reserve(&self, endpoint: &Endpoint, key: &str, hash: &str) -> Result<(), ApiError> {
        let (ws, id) = (endpoint.workspace_id, endpoint.endpoint_id);
        let kept = self.store.keep_receipt(ws, id, key, hash, json!({})).await;
        self.judge(endpoint, kept).await.map(drop)
    }

    async fn judge(&self, endpoint: &Endpoint, found: store::Result<Receipt>) -> Result<Receipt, ApiError> {
        let judged = async {
            let receipt = found?;
            if receipt == Receipt::Conflict {
                let why = "the idempotency key was used for another body";
                self.store.reject_ingress(endpoint.workspace_id, endpoint.endpoint_id, why).await?;
            }
            anyhow::Ok(receipt)
        };
        match judged.await.map_err(|error| ApiError::inside(&error))? {
            Receipt::Conflict => Err(ApiError::invalid(
                "idempotency_conflict",
                "this Idempotency-Key was used for another body; draw a new key for each new call",
            )),
            receipt => Ok(receipt),
        }
    }

    /// The ids of these posts, in their order; `None` if one is not stored.
    async fn answer(
        &self,
        endpoint: &Endpoint,
        source: &str,
        raws: &[RawPost],
    ) -> anyhow::Result<Option<Value>> {
        let ids = raws.iter().map(|raw| raw.origin_id.clone()).collect();
        let known = self.store.known_posts(endpoint.workspace_id, source, ids).await?;
        let one = |raw: &RawPost| {
            let found = known.iter().find(|known| known.origin_id == raw.origin_id)?;
            Some(json!({"message_id": found.message_id, "origin_id": raw.origin_id}))
        };
        let accepted: Option<Vec<Value>> = raws.iter().map(one).collect();
        Ok(accepted.map(|accepted| json!({"accepted": accepted})))
    }
}

/// The posts of a call as a source gives them; a channel that is not known is refused with the known ones.
pub(super) fn raw_posts(
    channels: &[Channel],
    source: &str,
    base: &str,
    posts: Vec<Post>,
) -> Result<Vec<RawPost>, ApiError> {
    let find = |name: &String| -> Result<ChannelId, ApiError> {
        let found = channels.iter().find(|channel| channel.name == *name);
        found.map(|channel| channel.channel_id).ok_or_else(|| {
            let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
            let name: String = name.chars().take(100).collect();
            let message = format!("channel {name:?} is not known; known are {}", names.join(", "));
            ApiError::invalid("unknown_channel", message).about_field("channels".to_owned())
        })
    };
    let mut raws = Vec::with_capacity(posts.len());
    for (n, post) in posts.into_iter().enumerate() {
        let named = post.channels.as_ref().map(|names| names.iter().map(find).collect()).transpose()?;
        let origin_id = post.origin_id.clone().unwrap_or_else(|| format!("{base}-{n}"));
        raws.push(raw(source, origin_id, post, named));
    }
    Ok(raws)
}

fn raw(source: &str, origin_id: String, post: Post, channels: Option<Vec<ChannelId>>) -> RawPost {
    let picture = |url: String| RawPicture { key: url.clone(), url, ..RawPicture::default() };
    RawPost {
        source: source.to_owned(),
        origin_id,
        origin: Origin { source: "push".into(), url: post.url, date: post.date, ..Origin::default() },
        title: post.title,
        kind: post.kind,
        text: post.text,
        pictures: post.photos.into_iter().map(picture).collect(),
        channels,
        ..RawPost::default()
    }
}

pub(super) fn check_headers(headers: &HeaderMap) -> Result<(), ApiError> {
    match media_type(headers)?.as_str() {
        "application/json" => Ok(()),
        _ => Err(ApiError::media_type("send application/json")),
    }
}

/// What a body says that it is, without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Result<String, ApiError> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?").trim().to_lowercase());
    if text(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(ApiError::media_type("compressed bodies are not read; send it plain"));
    }
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    Ok(kind.split(';').next().unwrap_or_default().trim().to_owned())
}

pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > KEY_MAX {
        return Err(ApiError::malformed(format!(
            "Idempotency-Key must be 1 to {KEY_MAX} printable characters"
        )));
    }
    Ok(Some(key.to_owned()))
}

fn body_max(endpoint: &Endpoint) -> usize {
    let set = endpoint.settings["body_max"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
    set.filter(|bytes| *bytes > 0).unwrap_or(BODY_MAX).min(BODY_CEILING)
}

/// A small body, which costs nothing to keep.
pub(crate) async fn read_body(body: Body, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    read_counted(body, bytes_max, |_| Ok(())).await
}

/// Counted while it arrives: a length that is claimed proves nothing. `take` hears of each piece before it is kept.
pub(super) async fn read_counted(
    body: Body,
    bytes_max: usize,
    mut take: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Vec<u8>, ApiError> {
    let read = async {
        let (mut bytes, mut chunks) = (Vec::new(), body.into_data_stream());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| ApiError::malformed("the body broke off"))?;
            if bytes.len() + chunk.len() > bytes_max {
                return Err(ApiError::too_large(bytes_max));
            }
            take(chunk.len())?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    tokio::time::timeout(BODY_TIME, read).await.unwrap_or_else(|_| Err(ApiError::too_slow()))
}
