//! What a running node answers over HTTP: one list of routes, who may use each, and what guards all of them.
//!
//! `/v1` is how programs hand posts in, `/` is the board that only shows, the rest is health and metrics.
//! Whoever listens beyond loopback needs a token, so that nobody puts a board on the internet by accident; on loopback
//! the `Host` must be a local one, so that a page elsewhere cannot reach it by a name of its own (DNS rebinding).

mod metrics;
mod serve;

#[cfg(test)]
pub mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use store::Store;
use tokio::net::TcpListener;

use crate::api::{self, ApiError};
use crate::board;
use engine::dispatch::Meters;

/// Characters of the token that opens the board and the metrics beyond loopback.
const TOKEN_MIN: usize = 32;
/// The variable it stands in.
const TOKEN_VARIABLE: &str = "RUPOR_HTTP_TOKEN";
/// Names besides the local ones that a proxy in front may pass on.
const HOSTS_VARIABLE: &str = "RUPOR_HTTP_HOSTS";

#[derive(Debug, Clone)]
pub struct Node {
    pub store: Store,
    pub meters: Arc<Meters>,
    /// False while starting and while draining.
    pub ready: Arc<AtomicBool>,
}

/// Who may come in.
#[derive(Debug, Clone)]
pub struct Door {
    /// Only these hosts are answered; empty: any.
    hosts: Vec<String>,
    /// The hash of the token that viewers need; `None`: everybody on this machine may look.
    token: Option<blake3::Hash>,
}

impl Door {
    /// The same with the variables of this process.
    pub fn from_env(at: IpAddr) -> anyhow::Result<Door> {
        let variable = |name: &str| std::env::var(name).ok();
        Door::new(at, variable(TOKEN_VARIABLE), variable(HOSTS_VARIABLE))
    }

    /// What the address that is listened on asks for.
    pub fn new(at: IpAddr, token: Option<String>, hosts: Option<String>) -> anyhow::Result<Door> {
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        match &token {
            None if !at.is_loopback() => bail!(
                "--listen {at}: other machines could read the board; set {TOKEN_VARIABLE} to {TOKEN_MIN} random \
                 characters or more (`openssl rand -hex 32`), or listen on 127.0.0.1"
            ),
            Some(token) if token.len() < TOKEN_MIN => bail!(
                "{TOKEN_VARIABLE} is shorter than {TOKEN_MIN} characters; draw one with `openssl rand -hex 32`"
            ),
            _ => {}
        }
        let named = hosts.unwrap_or_default();
        let named = named.split(',').map(|host| host.trim().to_lowercase()).filter(|host| !host.is_empty());
        let local = at.is_loopback().then(|| "localhost".to_owned());
        let hosts = if at.is_loopback() { local.into_iter().chain(named).collect() } else { Vec::new() };
        Ok(Door { hosts, token: token.map(|token| blake3::hash(token.as_bytes())) })
    }

    fn admits_host(&self, headers: &HeaderMap) -> bool {
        if self.hosts.is_empty() {
            return true;
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = host_name(host).to_lowercase();
        let local = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        local || self.hosts.contains(&name)
    }

    /// Digests are compared, so that the time it takes tells nothing.
    fn admits_viewer(&self, headers: &HeaderMap) -> bool {
        let Some(token) = self.token else {
            return true;
        };
        let given = api::bearer(headers).or_else(|| basic_password(headers));
        given.is_some_and(|given| blake3::hash(given.as_bytes()) == token)
    }
}

/// `localhost:7878`, `[::1]:7878` without the port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// The password of HTTP Basic, which browsers ask for; the name does not matter.
fn basic_password(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(base64(encoded.trim())?).ok()?;
    Some(text.split_once(':')?.1.to_owned())
}

/// Standard base64 with or without padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for character in text.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    Some(bytes)
}

/// Everything a handler may need.
#[derive(Debug, Clone)]
pub struct Site {
    pub node: Node,
    pub door: Arc<Door>,
    pub api: Arc<api::Desk>,
    pub board: Arc<board::Board>,
}

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Everybody: says nothing about what is inside.
    Open,
    /// Whoever has the secret of an endpoint; the handler looks at it.
    Endpoint,
    /// Whoever may look at the board.
    Viewer,
}

/// One route.
#[derive(Debug)]
pub struct Way {
    pub path: &'static str,
    pub guard: Guard,
    pub methods: MethodRouter<Site>,
}

/// The whole surface.
pub fn ways() -> Vec<Way> {
    let way = |path, guard, methods: MethodRouter<Site>| Way { path, guard, methods };
    vec![
        way("/healthz", Guard::Open, get(async || "ok\n")),
        way("/readyz", Guard::Open, get(ready)),
        way("/metrics", Guard::Viewer, get(metrics::metrics)),
        way("/v1/ingest", Guard::Endpoint, api::ingest()),
        way("/v1/openapi.json", Guard::Open, api::openapi()),
        way("/", Guard::Viewer, get(board::page)),
        way("/board/state", Guard::Viewer, get(board::state)),
        way("/board/events", Guard::Viewer, get(board::events)),
    ]
}

/// Answers on a listener until it is dropped.
pub async fn serve(listener: TcpListener, node: Node, door: Door) {
    serve::serve(listener, router(node, door), serve::HEAD_TIME).await;
}

fn router(node: Node, door: Door) -> Router {
    let api = Arc::new(api::Desk::new(node.store.clone()));
    let board = Arc::new(board::Board::new(node.store.clone()));
    let site = Site { node, door: Arc::new(door), api, board };
    let (mut viewers, mut open) = (Router::new(), Router::new());
    for way in ways() {
        match way.guard {
            Guard::Viewer => viewers = viewers.route(way.path, way.methods),
            Guard::Open | Guard::Endpoint => open = open.route(way.path, way.methods),
        }
    }
    let viewers = viewers.route_layer(middleware::from_fn_with_state(site.clone(), viewers_only));
    open.merge(viewers)
        .fallback(async || ApiError::not_found())
        .layer(middleware::from_fn_with_state(site.clone(), guard_all))
        .with_state(site)
}

async fn viewers_only(State(site): State<Site>, request: Request, next: Next) -> Response {
    if site.door.admits_viewer(request.headers()) {
        return next.run(request).await;
    }
    let mut refused = ApiError::unauthorized("this page needs the token of the node").into_response();
    let ask = HeaderValue::from_static("Basic realm=\"rupor\", charset=\"UTF-8\"");
    refused.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
    refused
}

/// The policy of every answer: nothing from elsewhere, nothing framed, nothing kept.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

async fn guard_all(State(site): State<Site>, request: Request, next: Next) -> Response {
    let mut answer = if site.door.admits_host(request.headers()) {
        next.run(request).await
    } else {
        ApiError::foreign_host().into_response()
    };
    for (name, value) in HEADERS {
        // A page that is stricter or knows its own scripts has said so already.
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

async fn ready(State(site): State<Site>) -> Response {
    if !site.node.ready.load(Ordering::Acquire) {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    match site.node.store.now().await {
        Ok(_) => "ready\n".into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response(),
    }
}
