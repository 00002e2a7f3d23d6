//! `POST /hooks/{platform}/{id}`: what a platform tells a bot. The secret first, then the mailbox, then the answer.
//!
//! The last part of the address is random and long, and still proves nothing: who calls shows the secret that was given
//! to the platform, in a header or inside the body. What is answered with 200 is on the disk; what is not comes again.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use platforms::incoming::{HOOK_BYTES_MAX, HookCall, HookError, HookSettings, Hooked};
use platforms::platform::Platform;
use store::{BotHook, Received};

use super::api::{ApiError, read_body};
use super::{Client, Site};

/// The name of this door for whoever counts wrong secrets.
const DOOR: &str = "/hooks";
/// Seconds after which a platform may try again when too much waits.
const FULL_WAIT: u64 = 5;

pub(super) fn hooks() -> MethodRouter<Site> {
    post(hook).fallback(async || ApiError::method("POST"))
}

async fn hook(
    State(site): State<Site>,
    Path((platform, key)): Path<(String, String)>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    // An unknown address and a wrong secret sound alike: a guess must not tell which.
    let refused = || ApiError::unauthorized("this is no webhook, or the secret is not the one it was given");
    let platform = engine::addresses::platform(&platform).map_err(|_| refused())?;
    let body = read_body(body, HOOK_BYTES_MAX).await?;
    let let_in = async || let_in(&site, platform, &key, &headers, &body).await;
    let (hook, hooked) = site.judge(client, DOOR, let_in).await?.ok_or_else(refused)?;
    let hooked = hooked?;
    let store = &site.node.store;
    let (ws, account) = (hook.workspace_id, hook.account_id);
    match site.heard.receive(store, ws, account, platform, hooked.events).await {
        Ok(Received::Taken { .. }) => Ok((StatusCode::OK, hooked.answer).into_response()),
        Ok(Received::Full) => Err(ApiError::full(FULL_WAIT)),
        Err(error) => Err(ApiError::inside(&error.into())),
    }
}

/// The account and what was said to it; `None`: who calls has not proved anything.
async fn let_in(
    site: &Site,
    platform: &'static dyn Platform,
    key: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<(BotHook, Result<Hooked, ApiError>)>, ApiError> {
    let store = &site.node.store;
    let found = store.bot_hook(key).await.map_err(|error| ApiError::inside(&error.into()))?;
    let (Some(hook), Some(receiver)) = (found, platform.receiver()) else {
        return Ok(None);
    };
    let settings = HookSettings {
        secret: None,
        secret_hash: hook.secret_hash.clone(),
        confirmation: hook.settings["confirmation"].as_str().map(str::to_owned),
        group_id: hook.settings["group_id"].as_i64(),
    };
    let secret = receiver.hook_header().and_then(|name| headers.get(name)?.to_str().ok());
    Ok(match receiver.hook(&settings, &HookCall { secret, body }) {
        Ok(hooked) => Some((hook, Ok(hooked))),
        Err(HookError::WrongSecret) => None,
        Err(HookError::TooLarge) => Some((hook, Err(ApiError::too_large(HOOK_BYTES_MAX)))),
        Err(error @ (HookError::Malformed | HookError::NoConfirmation)) => {
            Some((hook, Err(ApiError::malformed(error.to_string()))))
        }
    })
}
