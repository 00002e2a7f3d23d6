//! `/v1`: how programs hand posts in. Says what was wrong in a stable shape, and nothing about what is behind it.
//!
//! Start with `ingest`; `read` is what a request may say, `pace` how often it may be said.

mod error;
mod ingest;
mod pace;
mod read;
mod strict;

#[cfg(test)]
mod tests;

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

pub use error::ApiError;
pub use ingest::{PushIntake, read_body};
#[cfg(test)]
pub use read::posts;

use crate::http::Site;

const OPENAPI: &str = include_str!("openapi.json");

pub fn ingest() -> MethodRouter<Site> {
    post(ingest::ingest).fallback(async || ApiError::method("POST"))
}

pub fn openapi() -> MethodRouter<Site> {
    get(async || -> Response { ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response() })
        .fallback(async || ApiError::method("GET"))
}

/// The token of `Authorization: Bearer …`.
pub fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}
