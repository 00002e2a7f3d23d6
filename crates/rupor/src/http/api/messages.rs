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
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{ApiScope, Endpoint, NewEndpoint, StoreError};

use super::access::{Caller, admit};
use super::ask::{told, whole};
use super::ingest::{Handed, hash};
use super::pace::Who;
use super::{ApiError, ingest, photos, read, strict};
use crate::http::{Client, Site};
use engine::ingest::{PICTURES_MAX, Preset, PublishRules, SourceSettings};

/// Bytes of one call: ten photos of the usual size.
const BODY_MAX: usize = 16 << 20;
/// Calls a second of one token. A call holds one message, while one of an endpoint holds a hundred posts.
const RATE: f64 = 50.0;

#[utoipa::path(post, path = "/v1/messages", operation_id = "createMessage", summary = "Takes in one message, or says what would become of it",
    params(super::shapes::Idempotency),
    request_body(content((super::shapes::NewMessage = "application/json"), (super::shapes::MessageForm = "multipart/form-data"))),
    responses((status = 200, body = super::shapes::Rehearsal, description = "`dry_run`: nothing was stored"), (status = 202, body = super::shapes::Message, description = "Stored and queued"), super::shapes::BodyRefusals), security(("token" = ["ingest"])))]
pub(super) async fn create(
    State(site): State<Site>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = admit(&site, client, &headers, ApiScope::Ingest).await?;
    let who = Who::Token(caller.token.token_id);
    site.api.pace.admit(who, RATE)?;
    let kind = ingest::media_type(&headers)?;
    let is_form = match kind.as_str() {
        "application/json" => false,
        "multipart/form-data" => true,
        _ => return Err(ApiError::media_type("send application/json, or multipart/form-data with photos")),
    };
    let key = ingest::key(&headers)?;
    let (bytes, _place) =
        site.api.room.read(who, body, BODY_MAX).await.map_err(|error| error.for_one(BODY_MAX))?;
    let (mut value, mut uploads, hash) = said(&headers, is_form, bytes).await?;
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
    uploads.extend(photos::taken_out("photos", fields.get_mut("photos"))?);
    let n_addresses = fields.get("photos").and_then(Value::as_array).map_or(0, Vec::len);
    if uploads.len() + n_addresses > PICTURES_MAX {
        let n = uploads.len() + n_addresses;
        return Err(ApiError::field("photos", format!("{n} photos, at most {PICTURES_MAX}")));
    }
    // Words are not needed where pictures came along.
    let is_wordless = !uploads.is_empty()
        && fields.get("text").is_none_or(|text| text.as_str().is_some_and(|text| text.trim().is_empty()));
    if is_wordless {
        fields.insert("text".to_owned(), json!(WORDLESS));
    }
    let now = site.node.store.now().await.map_err(told)?;
    let posts = read::posts(value.to_string().as_bytes(), now.0 / 1_000_000);
    let mut posts = posts.map_err(|error| error.also_known("dry_run"))?;
    if is_wordless {
        posts.iter_mut().for_each(|post| post.text.clear());
    }
    if dry_run {
        return Ok(Json(rehearse(&site, &caller, posts, now).await?).into_response());
    }
    let endpoint = door(&site, &caller).await?;
    let accepted = site.api.take_in(&endpoint, Handed { key, hash, posts, uploads }).await?;
    let id = accepted["accepted"][0]["message_id"].as_i64().unwrap_or_default();
    let answer = whole(&site, &caller, MessageId(id)).await?;
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// The fields, the files, and the hash of both; the body itself is not needed any longer.
async fn said(
    headers: &HeaderMap,
    is_form: bool,
    bytes: Vec<u8>,
) -> Result<(Value, Vec<photos::Upload>, String), ApiError> {
    if is_form {
        let (value, uploads) = photos::form(headers, bytes).await?;
        // The border between the parts of a form is drawn anew for each call; what stands in them is the same.
        let same = same_each_time(&value, &uploads);
        return Ok((value, uploads, hash(&same)));
    }
    let value = strict::value(&bytes)
        .map_err(|error| ApiError::malformed(format!("the body is not JSON: {error}")))?;
    Ok((value, Vec::new(), hash(&bytes)))
}

/// Stands for the words that are missing until the post has been looked at.
const WORDLESS: &str = "📷";

fn same_each_time(fields: &Value, uploads: &[photos::Upload]) -> Vec<u8> {
    let photos = uploads.iter().map(|(name, bytes)| json!([name, blake3::hash(bytes).to_hex().as_str()]));
    json!([fields, photos.collect::<Vec<_>>()]).to_string().into_bytes()
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
