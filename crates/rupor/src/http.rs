//! What a running node answers over HTTP: one list of routes, who may use each, and what guards all of them.
//!
//! `/v1` is how programs hand posts in, `/hooks` how platforms tell what people do, `/` is the board that only shows, the rest is health and metrics.
//! `door` says who may come in, `brake` slows down who guesses, `serve` and `patience` keep seats free for the others.

pub(crate) mod api;
pub(crate) mod board;
mod brake;
mod door;
mod hooks;
#[cfg(test)]
mod hooks_tests;
mod metrics;
mod patience;
mod serve;

#[cfg(test)]
pub(crate) mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use futures_util::FutureExt;
use store::{Health, Store, StoreError};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use api::ApiError;
use engine::dispatch::{Meters, OfDoor};
use engine::upkeep::{kept_up, planted};

pub(crate) use brake::Brake;
pub(crate) use door::{Client, Door};

/// How long a request may take in all, unless a test is less patient.
const REQUEST_TIME: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub store: Store,
    pub meters: Arc<Meters>,
    /// False while starting and while draining.
    pub ready: Arc<AtomicBool>,
    /// When this process started, in seconds since 1970.
    pub started: f64,
}

impl Node {
    pub(crate) fn new(store: Store) -> Node {
        let started = jiff::Timestamp::now().as_millisecond() as f64 / 1_000.0;
        let ready = Arc::new(AtomicBool::new(true));
        Node { store, meters: Arc::default(), ready, started }
    }
}

/// Everything a handler may need.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub node: Node,
    pub door: Arc<Door>,
    pub brake: Arc<Brake>,
    /// From the head of a request to the head of its answer, waiting for a turn included.
    pub request_time: Duration,
    pub api: Arc<api::PushIntake>,
    pub(crate) sender: Arc<api::Sender>,
    pub board: Arc<board::Board>,
    /// What platforms tell bots.
    pub(crate) heard: engine::bot::Together,
}

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Everybody: says nothing about what is inside.
    Open,
    /// Whoever has the secret of an endpoint; the handler looks at it.
    Endpoint,
    /// Whoever has a token of the API with the right scope; the handler looks at it.
    Token,
    /// Whoever may look at the board.
    Viewer,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub path: &'static str,
    pub guard: Guard,
    pub methods: MethodRouter<Site>,
}

/// The whole surface.
pub(crate) fn routes() -> Vec<Route> {
    let route = |path, guard, methods: MethodRouter<Site>| Route { path, guard, methods };
    let mut routes = vec![
        route("/healthz", Guard::Open, get(async || "ok\n")),
        route("/readyz", Guard::Open, get(ready)),
        route("/metrics", Guard::Viewer, get(metrics::metrics)),
        route("/v1/ingest", Guard::Endpoint, api::ingest()),
        route("/v1/openapi.json", Guard::Open, api::openapi()),
        route("/hooks/{platform}/{id}", Guard::Endpoint, hooks::hooks()),
        route("/v1/messages", Guard::Token, api::messages()),
    ];
    routes.extend(board::reading().into_iter().map(|(path, methods)| route(path, Guard::Viewer, methods)));
    let asked =
        api::readable().into_iter().chain(api::makeable()).chain(api::doable()).chain(api::adapters());
    routes.extend(asked.map(|(path, methods)| route(path, Guard::Token, methods)));
    routes
}

/// Answers on a listener until it is dropped.
pub(crate) async fn serve(listener: TcpListener, node: Node, door: Door) {
    let site = Site::new(node, door, REQUEST_TIME);
    let (door, brake, store) = (Arc::clone(&site.door), Arc::clone(&site.brake), site.node.store.clone());
    let app = router(site);
    let mut telling = JoinSet::new();
    telling.spawn(async move { kept_up("refusals", || brake::tell(&brake, &store)).await });
    // Who is inside stays when the loop that lets people in starts again.
    let hall = serve::Hall::default();
    kept_up("http", || serve::serve(&listener, &hall, app.clone(), &door, serve::Times::default())).await;
}

fn router(site: Site) -> Router {
    let (mut viewers, mut open) = (Router::new(), Router::new());
    for route in routes() {
        match route.guard {
            Guard::Viewer => viewers = viewers.route(route.path, route.methods),
            Guard::Open | Guard::Endpoint | Guard::Token => open = open.route(route.path, route.methods),
        }
    }
    let viewers = viewers.route_layer(middleware::from_fn_with_state(site.clone(), viewers_only));
    open.merge(viewers)
        .fallback(async || ApiError::not_found())
        .layer(middleware::from_fn_with_state(site.clone(), guard_all))
        .with_state(site)
}

async fn viewers_only(State(site): State<Site>, client: Client, request: Request, next: Next) -> Response {
    match site.admit_viewer(client, request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

impl Site {
    fn new(node: Node, door: Door, request_time: Duration) -> Site {
        let api = Arc::new(api::PushIntake::new(node.store.clone()));
        let sender = Arc::new(api::Sender::new(node.store.clone(), Arc::clone(&node.meters)));
        let board = Arc::new(board::Board::new(node.store.clone()));
        let (door, brake, heard) = (Arc::new(door), Arc::default(), engine::bot::Together::default());
        Site { node, door, brake, request_time, api, sender, board, heard }
    }

    async fn admit_viewer(&self, client: Client, headers: &HeaderMap) -> Result<(), ApiError> {
        if door::is_from_elsewhere(headers) {
            return Err(ApiError::from_elsewhere());
        }
        if !self.door.has_token() {
            return if client.far { Err(ApiError::token_needed()) } else { Ok(()) };
        }
        let refused = || ApiError::unauthorized("this page needs the token of the node").asking_browsers();
        // Nothing given is no guess: a browser asks once before it asks its user.
        let given = door::given_token(headers).ok_or_else(refused)?;
        let opens = async || Ok(self.door.opens(&given).then_some(()));
        self.judge(client, "the board", opens).await?.ok_or_else(refused)
    }

    /// Looks at a secret when it is its turn; what does not open is counted.
    pub(crate) async fn judge<T>(
        &self,
        client: Client,
        door: &'static str,
        look: impl AsyncFnOnce() -> Result<Option<T>, ApiError>,
    ) -> Result<Option<T>, ApiError> {
        let turn = self.brake.turn(client, door).await;
        turn.map_err(|wait| ApiError::too_often(wait.as_secs().saturating_add(1)))?;
        let found = look().await?;
        if found.is_some() {
            self.brake.right(client, door);
        } else {
            self.node.meters.secrets_refused.get_or_create(&OfDoor { door }).inc();
            self.brake.wrong(client, door);
        }
        Ok(found)
    }
}

impl FromRequestParts<Site> for Client {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Site) -> Result<Client, ApiError> {
        // `guard_all` has put it there.
        parts.extensions.get().copied().ok_or_else(ApiError::not_found)
    }
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

async fn guard_all(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    let mut answer = match site.door_opens(&mut request) {
        Err(refused) => refused.into_response(),
        Ok(()) => match tokio::time::timeout(site.request_time, answered(request, next)).await {
            Ok(answer) => answer,
            Err(_) => ApiError::takes_too_long().into_response(),
        },
    };
    for (name, value) in HEADERS {
        // A page that is stricter or knows its own scripts has said so already.
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

/// A panic is the misfortune of this request alone, and who asked hears of it.
async fn answered(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let work = planted::or_panic("request", &path, next.run(request));
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(path, "a request panicked");
        ApiError::broke().into_response()
    })
}

impl Site {
    /// Whether a request can be understood in one way only, and means this node. Notes who asks.
    fn door_opens(&self, request: &mut Request) -> Result<(), ApiError> {
        if let Some(problem) = door::ambiguity(request.uri(), request.headers()) {
            return Err(ApiError::malformed(problem));
        }
        if !door::is_text(request.uri().path()) {
            return Err(ApiError::malformed("the path is no text: what stands behind % must be UTF-8"));
        }
        if !self.door.admits_host(request.headers()) {
            return Err(ApiError::foreign_host());
        }
        let peer = request.extensions().get().copied().ok_or_else(ApiError::not_found)?;
        let client = self.door.client(peer, request.version(), request.headers());
        request.extensions_mut().insert(client);
        Ok(())
    }
}

/// How long a probe waits for the database; who asks has little patience.
const READY_MAX: std::time::Duration = std::time::Duration::from_secs(2);

/// Everybody may ask, so it names no address.
async fn ready(State(site): State<Site>) -> Response {
    match readiness(&site.node).await {
        Ok(()) => "ready\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

/// Whether this node does its work: from the calls that were answered lately, and from the last claim or outcome that the
/// ledger took; never by default. What keeps a single channel or account from sending is no matter of the node.
pub(crate) async fn readiness(node: &Node) -> Result<(), String> {
    if !node.ready.load(Ordering::Acquire) {
        return Err("stopping".to_owned());
    }
    match node.store.health() {
        Health::Good => {}
        Health::Unknown => return Err("starting: nothing was claimed yet".to_owned()),
        Health::Ill(illness) => return Err(illness.kind.to_owned()),
    }
    let look = async {
        node.store.now().await?;
        node.store.held().await
    };
    match tokio::time::timeout(READY_MAX, look).await {
        Ok(Ok(Some(why))) if why.starts_with(store::HISTORY_LOST) => {
            Err("history was lost; everything is held until `rupor release`; see `rupor status`".to_owned())
        }
        Ok(Ok(_)) => Ok(()),
        Ok(Err(StoreError::FileGone { .. })) => {
            Err("the database file was deleted or replaced; nothing is sent; see the log".to_owned())
        }
        Ok(Err(_)) | Err(_) => Err("the database does not answer".to_owned()),
    }
}
