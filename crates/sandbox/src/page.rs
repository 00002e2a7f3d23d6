//! The page at `/`: one HTML file without a build step and without anything from elsewhere.

use bytes::Bytes;

use crate::reply::Response;

static INDEX: &str = include_str!("page/index.html");
static ICON: &str = include_str!("page/icon.svg");

pub(crate) fn index() -> Response {
    // Nothing runs but the page's own script, known by a number that is new each time.
    let nonce = format!("{:032x}", rand::random::<u128>());
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src 'self' data:; media-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    Response::file("text/html; charset=utf-8", Bytes::from(INDEX.replace("{nonce}", &nonce)))
        .with_header("cache-control", "no-store")
        .with_header("content-security-policy", policy)
}

pub(crate) fn icon() -> Response {
    Response::file("image/svg+xml", Bytes::from_static(ICON.as_bytes()))
}
