//! `POST /v1/messages`: one message by a token, with its kind, photos as bytes or addresses, or only as a rehearsal.
//!
//! It goes the way of `/v1/ingest`: each token has a door of its own, which nothing but the token opens, so that
//! idempotency keys and names of sources work alike.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::MessageId;
use domain::message::Media;
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{ApiScope, Endpoint, NewEndpoint, StoreError};

use super::access::{Caller, admit};
use super::ask::{told, whole};
use super::{ApiError, ingest, read, strict};
use crate::http::{Client, Site};
use engine::ingest::{PICTURES_MAX, Preset, PublishRules, SourceSettings, keep_bytes};

/// Bytes of one call: ten photos of the usual size.
const BODY_MAX: usize = 16 << 20;

#[utoipa::path(post, path = "/v1/messages", operation_id = "createMessage", summary = "Takes in one message, or says what would become of it", params(super::shapes::Idempotency), request_body = super::shapes::NewMessage, responses((status = 200, body = super::shapes::Rehearsal, description = "`dry_run`: nothing was stored"), (status = 202, body = super::shapes::Message, description = "Stored and queued"), super::shapes::BodyRefusals), security(("token" = ["ingest"])))]
pub(super) async fn create(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = admit(&site, client, &headers, ApiScope::Ingest).await?;
    ingest::check_headers(&headers)?;
    let key = ingest::key(&headers)?;
    let bytes = ingest::read_body(body, BODY_MAX).await?;
    let mut value = strict::value(&bytes)
        .map_err(|error| ApiError::malformed(format!("the body is not JSON: {error}")))?;
    let Some(fields) = value.as_object_mut() else {
        return Err(ApiError::malformed("the body must be one message"));
    };
    if fields.contains_key("posts") {
        return Err(ApiError::field("posts", "one message a call here; /v1/ingest takes batches"));
    }
    let dry_run = match fields.remove("dry_run") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(ApiError::field("dry_run", "must be true or false")),
    };
    let uploads = uploads(fields.get_mut("photos"))?;
    // Words are not needed where pictures came along.
    if !uploads.is_empty() {
        fields.entry("text").or_insert_with(|| json!("📷"));
    }
    let now = site.node.store.now().await.map_err(told)?;
    let posts = read::posts(value.to_string().as_bytes(), now.0 / 1_000_000);
    let posts = posts.map_err(|error| error.also_known("dry_run"))?;
    if dry_run {
        return Ok(Json(rehearse(&site, &caller, posts, now).await?).into_response());
    }
    let mut kept: Vec<Media> = Vec::new();
    for (name, bytes) in uploads {
        let media = keep_bytes(&site.node.store, caller.ws, &name, bytes.into()).await;
        kept.push(media.map_err(|error| ApiError::field("photos", format!("{error:#}")))?);
    }
    let endpoint = door(&site, &caller).await?;
    let accepted = site.api.take_in(&endpoint, key.as_deref(), &bytes, posts, kept).await?;
    let id = accepted["accepted"][0]["message_id"].as_i64().unwrap_or_default();
    let answer = whole(&site, &caller, MessageId(id)).await?;
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Takes photos that came as bytes out of the list, which then holds addresses alone.
fn uploads(photos: Option<&mut Value>) -> Result<Vec<(String, Vec<u8>)>, ApiError> {
    let Some(Value::Array(photos)) = photos else {
        return Ok(Vec::new());
    };
    if photos.len() > PICTURES_MAX {
        return Err(ApiError::field("photos", format!("{} photos, at most {PICTURES_MAX}", photos.len())));
    }
    let mut uploads = Vec::new();
    for photo in photos.iter().filter(|photo| photo.is_object()) {
        let known = |key: &String| key == "data" || key == "name";
        let data = photo["data"].as_str().and_then(platforms::base64::decode);
        match data {
            Some(bytes) if photo.as_object().is_some_and(|fields| fields.keys().all(known)) => {
                uploads.push((photo["name"].as_str().unwrap_or("photo").to_owned(), bytes));
            }
            _ => {
                let form = "a photo is an address, or {\"data\": \"BASE64\", \"name\": \"dog.jpg\"}";
                return Err(ApiError::field("photos", form));
            }
        }
    }
    photos.retain(|photo| !photo.is_object());
    Ok(uploads)
}

/// What would become of it; nothing is stored.
async fn rehearse(
    site: &Site,
    caller: &Caller,
    posts: Vec<read::Post>,
    now: domain::time::Timestamp,
) -> Result<Value, ApiError> {
    let store = &site.node.store;
    let settings = SourceSettings { preset: Preset::Mirror, ..SourceSettings::default() };
    let rules = PublishRules::load(store, caller.ws, &caller.token.name, &settings).await;
    let rules = rules.map_err(|error| ApiError::inside(&error))?;
    let channels = store.channels(caller.ws).await.map_err(told)?;
    let raws = ingest::raw_posts(&channels, "dry run", "dry-run", posts)?;
    let Some(raw) = raws.first() else {
        return Err(ApiError::malformed("the body must be one message"));
    };
    let reading = engine::ingest::read(raw, &rules, now);
    let named = |ids: &[domain::ids::ChannelId]| -> Vec<String> {
        let of = channels.iter().filter(|channel| ids.contains(&channel.channel_id));
        of.map(|channel| channel.name.clone()).collect()
    };
    Ok(json!({
        "dry_run": true,
        "kind": reading.analysis.facts.kind.value,
        "channels": named(&reading.channels),
        "held": reading.held.as_ref().map(|held| named(&held.channels)),
        "skipped": reading.skipped,
    }))
}

/// The door of a token: made with its first message, and shut to everybody who knocks with a secret.
async fn door(site: &Site, caller: &Caller) -> Result<Endpoint, ApiError> {
    let store = &site.node.store;
    let name = format!("token/{}", caller.token.name);
    for _ in 0..2 {
        let known = store.endpoints(caller.ws).await.map_err(told)?;
        if let Some(endpoint) = known.into_iter().find(|endpoint| endpoint.name == name) {
            return Ok(endpoint);
        }
        let secret: String = rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect();
        let secret = SecretString::from(secret);
        let new = NewEndpoint { name: name.clone(), kind: "token".into(), secret, settings: json!({}) };
        match store.create_endpoint(caller.ws, new).await {
            Ok(_) | Err(StoreError::Exists { .. }) => {}
            Err(error) => return Err(told(error)),
        }
    }
    Err(ApiError::absent("the door of this token cannot be made; try again"))
}
