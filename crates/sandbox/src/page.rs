//! The page at `/`: one HTML file without a build step and without anything from elsewhere.

use bytes::Bytes;

use crate::reply::Response;

static INDEX: &str = include_str!("page/index.html");
static ICON: &str = include_str!("page/icon.svg");

pub fn index() -> Response {
    Response::file("text/html; charset=utf-8", Bytes::from_static(INDEX.as_bytes()))
        .with_header("cache-control", "no-store")
}

pub fn icon() -> Response {
    Response::file("image/svg+xml", Bytes::from_static(ICON.as_bytes()))
}
