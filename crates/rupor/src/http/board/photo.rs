//! The pictures of posts, for eyes that may see the board. Only what is a picture leaves, under its own type.

use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use domain::ids::MessageId;

use super::card::photos;
use super::{Wanted, unreadable};
use crate::http::Site;
use crate::http::api::ApiError;

/// What browsers show and cannot run.
const SHOWN: [&str; 4] = ["image/jpeg", "image/png", "image/webp", "image/gif"];
/// The address has the revision of the post in it, so what it shows never changes.
const KEPT: &str = "private, max-age=86400, immutable";

pub(super) async fn photo(
    State(site): State<Site>,
    Path((id, n)): Path<(i64, usize)>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, ApiError> {
    let store = &site.board.store;
    let (ws, _) = site.board.workspace(&wanted).await?;
    let post = store.message(ws, MessageId(id)).await.map_err(unreadable)?;
    let blob = photos(&post).nth(n).ok_or_else(ApiError::not_found)?;
    let origin = store.media_origin(ws, blob).await.map_err(unreadable)?.ok_or_else(ApiError::not_found)?;
    let mime = SHOWN.into_iter().find(|mime| *mime == origin.mime).ok_or_else(ApiError::not_found)?;
    let bytes = store.media_bytes(ws, blob).await.map_err(unreadable)?.ok_or_else(ApiError::not_found)?;
    let headers = [
        (header::CONTENT_TYPE, mime),
        (header::CACHE_CONTROL, KEPT),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ];
    Ok((headers, bytes).into_response())
}
