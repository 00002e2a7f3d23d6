//! The one way out: every request of every platform goes through here, and no other file names the HTTP client.
//!
//! It sends one request and says what happened; it never waits, never tries again, never follows a redirect,
//! never reads a proxy from the environment. Above all it knows whether the request *may have left us*:
//! that is the difference between `Certainty::NotSent` and `Unknown`, and so between a retry and a repeat.
//! It knows nothing of any platform. Start with `Transport::send`.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::dns::Resolve;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, Proxy};
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use crate::secret::Token;

mod request;
mod trouble;

pub use request::{Field, Method, Payload, Request};
pub use trouble::{Trouble, TroubleKind};

/// How long a connection, TLS included, may take to stand (reliability §5.1).
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an answer may pause between two pieces of its body.
pub const READ_PAUSE_MAX: Duration = Duration::from_secs(10);
/// Decoded bytes of an answer; Telegram caps `getUpdates` near 4 MiB and nothing else comes close.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Headers of an answer.
const ANSWER_HEADERS_MAX: usize = 100;
/// Connections kept open per host and route.
const IDLE_MAX: usize = 16;
/// Closed by us before the usual server does, so that a reuse rarely meets a closing connection.
const IDLE_FOR: Duration = Duration::from_secs(50);
const USER_AGENT: &str = concat!("rupor/", env!("CARGO_PKG_VERSION"));

/// How an account reaches the network: its proxy, and the root certificates it trusts beside the system's.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Route {
    proxy: Option<String>,
    extra_roots: Vec<PathBuf>,
}

impl Route {
    pub fn new(proxy: Option<String>, extra_roots: Vec<PathBuf>) -> Route {
        Route { proxy, extra_roots }
    }

    pub fn has_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// Everything in it that must not be printed.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let Some(url) = self.proxy.as_deref().and_then(|proxy| Url::parse(proxy).ok()) else {
            return self.proxy.iter().cloned().collect();
        };
        url.password().map(str::to_owned).into_iter().collect()
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = self.proxy.as_ref().map(|_| crate::secret::REDACTED);
        f.debug_struct("Route").field("proxy", &proxy).field("extra_roots", &self.extra_roots).finish()
    }
}

/// A route that cannot be used as written.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    #[error("proxy: not an address of the form http://, https://, socks5:// or socks5h://host:port")]
    Proxy,
    #[error("root certificates {path}: {reason}; give the path of a PEM file with at least one certificate")]
    Roots { path: PathBuf, reason: String },
    #[error("tls: {0}; install the system's root certificates (package ca-certificates)")]
    Tls(String),
}

/// What came back, as far as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// Lower-case names; values that are not text are left out.
    pub headers: Vec<(String, String)>,
    pub body: Body,
}

/// The body of an answer: whole, or cut short with what had come by then.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Whole(Bytes),
    Cut { read: Bytes, why: Cut },
}

/// Why a body is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The connection ended, or the encoding broke off.
    Broken,
    /// The deadline passed, or it paused for too long.
    Slow,
    /// More than the caller allows.
    TooLarge,
}

impl Answer {
    pub fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Answer {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Answer { status, headers, body: Body::Whole(body.into()) }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Whole(bytes) | Body::Cut { read: bytes, .. } => bytes,
        }
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether it says it is JSON. An answer that says nothing gets the benefit of the doubt.
    pub fn says_json(&self) -> bool {
        self.header("content-type").is_none_or(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json") || kind.to_ascii_lowercase().ends_with("+json")
        })
    }
}

/// The result of one request.
pub type Exchange = Result<Answer, Trouble>;

/// The pooled clients, one per route.
pub struct Transport {
    clients: Mutex<HashMap<Route, Client>>,
    connect_max: Duration,
}

impl Default for Transport {
    fn default() -> Transport {
        Transport::new()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("connect_max", &self.connect_max).finish_non_exhaustive()
    }
}

impl Transport {
    pub fn new() -> Transport {
        Transport { clients: Mutex::default(), connect_max: CONNECT_MAX }
    }

    /// With another limit on how long a connection may take to stand.
    pub fn with_connect_max(connect_max: Duration) -> Transport {
        Transport { clients: Mutex::default(), connect_max }
    }

    /// Sends one request, once. The deadline covers everything from the connection to the last byte.
    pub async fn send(&self, route: &Route, request: Request) -> Exchange {
        let client =
            self.client(route).map_err(|error| Trouble::not_sent(TroubleKind::Route, error.to_string()))?;
        exchange(&client, request).await
    }

    fn client(&self, route: &Route) -> Result<Client, RouteError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(route) {
            return Ok(client.clone());
        }
        let client = build_client(route, self.connect_max, None)?;
        clients.insert(route.clone(), client.clone());
        Ok(client)
    }
}

/// One request on a client of this module; `egress` uses it with a client whose resolver is guarded.
pub(crate) async fn exchange(client: &Client, request: Request) -> Exchange {
    let deadline = Instant::now() + request.deadline;
    let (label, bytes_max) = (request.url.label().to_owned(), request.answer_bytes_max);
    let outgoing = request.into_outgoing(client)?;
    tracing::trace!(request = %label, "request leaves");
    let mut response = match timeout_at(deadline, client.execute(outgoing)).await {
        Err(_) => return Err(Trouble::ambiguous(TroubleKind::Deadline, "no answer before the deadline")),
        Ok(Err(error)) => return Err(Trouble::from_client(&error)),
        Ok(Ok(response)) => response,
    };
    let status = response.status().as_u16();
    let headers = text_headers(response.headers());
    let body = read_body(&mut response, deadline, bytes_max).await;
    tracing::trace!(request = %label, status, whole = matches!(body, Body::Whole(_)), "answer came");
    Ok(Answer { status, headers, body })
}

async fn read_body(response: &mut reqwest::Response, deadline: Instant, bytes_max: usize) -> Body {
    let mut read = Vec::new();
    let cut = |read: Vec<u8>, why| Body::Cut { read: read.into(), why };
    loop {
        let chunk = match timeout_at(deadline, timeout(READ_PAUSE_MAX, response.chunk())).await {
            Err(_) | Ok(Err(_)) => return cut(read, Cut::Slow),
            Ok(Ok(Err(_))) => return cut(read, Cut::Broken),
            Ok(Ok(Ok(None))) => return Body::Whole(read.into()),
            Ok(Ok(Ok(Some(chunk)))) => chunk,
        };
        let room = bytes_max - read.len();
        read.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return cut(read, Cut::TooLarge);
        }
    }
}

fn text_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    headers.iter().filter_map(|(name, value)| Some((name.as_str().to_owned(), text(value)?))).collect()
}

/// The crypto provider has to be installed before the first client, and only once.
pub fn install_crypto_provider() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Another part of the process may have chosen one already; then theirs is used.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

/// Everything hidden that the HTTP client could do by itself is switched off here.
pub(crate) fn build_client(
    route: &Route,
    connect_max: Duration,
    resolver: Option<Arc<dyn Resolve>>,
) -> Result<Client, RouteError> {
    install_crypto_provider();
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .http1_only()
        .http1_max_headers(ANSWER_HEADERS_MAX)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .connect_timeout(connect_max)
        .pool_idle_timeout(IDLE_FOR)
        .pool_max_idle_per_host(IDLE_MAX);
    if let Some(proxy) = &route.proxy {
        builder = builder.proxy(read_proxy(proxy)?);
    }
    if let Some(resolver) = resolver {
        builder = builder.dns_resolver(resolver);
    }
    let mut roots = Vec::new();
    for path in &route.extra_roots {
        roots.extend(read_roots(path)?);
    }
    if !roots.is_empty() {
        builder = builder.tls_certs_merge(roots);
    }
    builder.build().map_err(|error| RouteError::Tls(trouble::cause(&error)))
}

/// User and password are taken out of the address: the client prints proxy addresses at debug level.
fn read_proxy(address: &str) -> Result<Proxy, RouteError> {
    let mut url = Url::parse(address).map_err(|_| RouteError::Proxy)?;
    if !matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h") || url.host_str().is_none() {
        return Err(RouteError::Proxy);
    }
    if url.username().is_empty() || url.scheme().starts_with("socks") {
        return Proxy::all(url).map_err(|_| RouteError::Proxy);
    }
    let (user, password) = (url.username().to_owned(), url.password().unwrap_or_default().to_owned());
    url.set_username("").and_then(|()| url.set_password(None)).map_err(|()| RouteError::Proxy)?;
    Ok(Proxy::all(url).map_err(|_| RouteError::Proxy)?.basic_auth(&user, &password))
}

fn read_roots(path: &Path) -> Result<Vec<Certificate>, RouteError> {
    let bad = |reason: String| RouteError::Roots { path: path.to_owned(), reason };
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let roots = Certificate::from_pem_bundle(&pem).map_err(|_| bad("not PEM".to_owned()))?;
    if roots.is_empty() {
        return Err(bad("no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// A header that carries a token; marked so that no one below prints it.
pub(crate) fn secret_header(
    name: &'static str,
    prefix: &str,
    token: &Token,
) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_static(name), value))
}

/// A plain header; `None` for a value that no header can carry.
pub(crate) fn text_header(name: &'static str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
