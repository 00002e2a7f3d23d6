//! The way of a request: whose it is, which fault strikes it, what the platform makes of it, what leaves on the wire.
//! The order is the same for all platforms, and the ledger row is closed before the first byte of an answer leaves.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body as HttpBody, BodyDataStream};
use axum::http::{self, HeaderValue, StatusCode, header};
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt;

use crate::control;
use crate::core::SharedCore;
use crate::faults::{Fault, Kind, Phase};
use crate::guard;
use crate::ledger::RowId;
use crate::max::Max;
use crate::platform::{Name, Platform, Target};
use crate::reply::{Effect, Response};
use crate::request::{Body, Head, Request};
use crate::server::Cut;
use crate::telegram::Telegram;
use crate::vk::Vk;
use crate::wire::WireControl;

/// The sandbox behind the server.
#[derive(Debug)]
pub(crate) struct App {
    pub core: SharedCore,
    pub telegram: Telegram,
    pub vk: Vk,
    pub max: Max,
}

pub(crate) type HttpResponse = http::Response<HttpBody>;

/// Where a path leads, with the rest of the path.
enum Route<'a> {
    Control,
    Platform(Name, &'a str),
}

/// Answers one request.
pub(crate) async fn serve(
    app: Arc<App>,
    wire: Arc<WireControl>,
    request: http::Request<HttpBody>,
) -> Result<HttpResponse, Cut> {
    let (parts, body) = request.into_parts();
    if let Err(refused) = guard::check(&parts, app.core.exposed) {
        return Ok(http_response(refused));
    }
    let (name, rest) = match route(parts.uri.path()) {
        Route::Control => {
            let mut answer = control::serve(&app, &parts, body).await;
            guard::seal(&mut answer);
            return Ok(answer);
        }
        Route::Platform(name, rest) => (name, rest),
    };
    let head = Head {
        method: parts.method.clone(),
        path: rest.to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
    };
    match name {
        Name::Telegram => Visit::new(&app.core, &app.telegram, &wire).run(head, body).await,
        Name::Vk => Visit::new(&app.core, &app.vk, &wire).run(head, body).await,
        Name::Max => Visit::new(&app.core, &app.max, &wire).run(head, body).await,
    }
}

/// Prefixes first; then the roots that SDKs use when they drop the path of their base URL.
fn route(path: &str) -> Route<'_> {
    let below =
        |prefix: &str| path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    if path == "/" || path == "/favicon.ico" || below("/_").is_some() {
        return Route::Control;
    }
    for name in Name::ALL {
        let rest = path.strip_prefix('/').and_then(|path| path.strip_prefix(name.as_str()));
        if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Route::Platform(name, without_doubled_slash(rest));
        }
    }
    if path.starts_with("/bot") || path.starts_with("/file/bot") {
        return Route::Platform(Name::Telegram, path);
    }
    if path.starts_with("/method/") {
        return Route::Platform(Name::Vk, path);
    }
    Route::Platform(Name::Max, path)
}

/// A base with a slash at its end makes `//bot1:x/getMe` in clients that only join texts.
fn without_doubled_slash(path: &str) -> &str {
    let doubled = path.len() - path.trim_start_matches('/').len();
    &path[doubled.saturating_sub(1)..]
}

/// One request on its way through a platform.
struct Visit<'a, P> {
    core: &'a SharedCore,
    platform: &'a P,
    wire: &'a WireControl,
}

impl<'a, P: Platform> Visit<'a, P> {
    fn new(core: &'a SharedCore, platform: &'a P, wire: &'a WireControl) -> Visit<'a, P> {
        Visit { core, platform, wire }
    }

    async fn run(&self, head: Head, body: HttpBody) -> Result<HttpResponse, Cut> {
        let target = self.platform.target(&head);
        let row = self.core.ledger.open(P::NAME, &target, self.core.clock.now_ms());
        if let Some(fault) = self.core.faults.strike(P::NAME, &target, Phase::Head) {
            self.core.ledger.close(row, target, Effect::refused(), Some(fault.kind.name()));
            return self.cut_early(&fault, body).await;
        }
        let body = read_body(&head, body, P::BODY_BYTES_MAX).await?;
        let (target, call) = self.platform.read(Request { head, body });
        match self.core.faults.strike(P::NAME, &target, Phase::Whole) {
            None => {
                let reply = self.platform.handle(call).await;
                self.core.ledger.close(row, target, reply.effect, None);
                Ok(http_response(reply.response))
            }
            Some(fault) if takes_effect(fault.kind) => self.spoil_after(row, target, call, &fault).await,
            Some(fault) => {
                self.core.ledger.close(row, target.clone(), Effect::refused(), Some(fault.kind.name()));
                self.spoil_before(&target, &fault).await
            }
        }
    }

    /// The body is unread, or read up to its first piece.
    async fn cut_early(&self, fault: &Fault, body: HttpBody) -> Result<HttpResponse, Cut> {
        if fault.kind == Kind::ResetBeforeRead {
            // The first piece proves that the client was sending; the rest stays where it is.
            drop(body.into_data_stream().next().await);
        }
        self.reset()
    }

    /// The request is read and does not take effect.
    async fn spoil_before(&self, target: &Target, fault: &Fault) -> Result<HttpResponse, Cut> {
        match fault.kind {
            Kind::Refuse | Kind::ResetBeforeRead | Kind::ResetAfterRead => self.reset(),
            Kind::Hang => self.hang(fault).await,
            Kind::Redirect => Ok(http_response(redirect(self.core, P::NAME, fault))),
            _ => {
                self.delay(fault).await;
                let answer = self.platform.fault_answer(fault, target);
                Ok(http_response(
                    answer.unwrap_or_else(|| Response::text(500, "the fault has no answer here")),
                ))
            }
        }
    }

    /// The request takes effect and its answer goes wrong.
    async fn spoil_after(
        &self,
        row: RowId,
        target: Target,
        call: P::Call,
        fault: &Fault,
    ) -> Result<HttpResponse, Cut> {
        let reply = self.platform.handle(call).await;
        self.core.ledger.close(row, target.clone(), reply.effect, Some(fault.kind.name()));
        let response = reply.response;
        match fault.kind {
            Kind::AcceptThenReset => return self.reset(),
            Kind::AcceptThenHang => return self.hang(fault).await,
            Kind::SlowDrip => {
                self.wire.drip(Duration::from_millis(fault.delay_ms.unwrap_or(1000)));
                return Ok(http_response(response.with_header("connection", "close")));
            }
            _ => self.delay(fault).await,
        }
        match fault.kind {
            Kind::HalfBody => Ok(self.replace(half(&response))),
            Kind::Garbage => Ok(self.replace(garbage(self.core.seed))),
            Kind::WrongShape => {
                Ok(http_response(Response::json(200, &serde_json::json!({"weather": ["rain", 7]}))))
            }
            Kind::WrongContentType => Ok(http_response(html(200, "Welcome to the gateway"))),
            Kind::TruncatedGzip => Ok(http_response(truncated_gzip(response))),
            _ => Ok(http_response(internal_error(self.platform, fault, &target))),
        }
    }

    fn reset(&self) -> Result<HttpResponse, Cut> {
        self.wire.reset_on_close();
        Err(Cut)
    }

    /// Waits until the client gives up, `delay_ms` have passed or the sandbox stops.
    async fn hang(&self, fault: &Fault) -> Result<HttpResponse, Cut> {
        match fault.delay_ms {
            None => self.core.tasks.stopped().await,
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
        Err(Cut)
    }

    async fn delay(&self, fault: &Fault) {
        if let Some(ms) = fault.delay_ms {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    fn replace(&self, bytes: Bytes) -> HttpResponse {
        self.wire.replace_answer(bytes);
        http_response(Response::text(200, "").with_header("connection", "close"))
    }
}

/// What the ledger calls accepted.
fn takes_effect(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::AcceptThenReset
            | Kind::AcceptThenHang
            | Kind::AcceptThen500
            | Kind::HalfBody
            | Kind::SlowDrip
            | Kind::Garbage
            | Kind::WrongShape
            | Kind::WrongContentType
            | Kind::TruncatedGzip
    )
}

/// A client that goes away in the middle of its request is cut: there is nobody to answer.
async fn read_body(head: &Head, body: HttpBody, bytes_max: usize) -> Result<Body, Cut> {
    let announced: usize = head.header("content-length").parse().unwrap_or(0);
    let mut stream = body.into_data_stream();
    if announced > bytes_max {
        return Ok(discarded(stream).await);
    }
    let Some(first) = stream.next().await else { return Ok(Body::Whole(Bytes::new())) };
    let first = first.map_err(|_| Cut)?;
    let mut whole: Option<BytesMut> = None;
    while let Some(chunk) = stream.next().await {
        let whole = whole.get_or_insert_with(|| BytesMut::from(&first[..]));
        whole.extend_from_slice(&chunk.map_err(|_| Cut)?);
        if whole.len() > bytes_max {
            return Ok(discarded(stream).await);
        }
    }
    Ok(Body::Whole(whole.map_or(first, BytesMut::freeze)))
}

/// Throws the rest of a body away for as long as it keeps coming, up to a bound:
/// a client that is still writing when the connection closes would see a reset in place of the answer.
async fn discarded(mut stream: BodyDataStream) -> Body {
    const DISCARDED_BYTES_MAX: usize = 512 << 20;
    const SILENCE: Duration = Duration::from_millis(500);
    let mut n_bytes = 0;
    while n_bytes < DISCARDED_BYTES_MAX {
        match tokio::time::timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(chunk))) => n_bytes += chunk.len(),
            _ => break,
        }
    }
    Body::TooLarge
}

pub(crate) fn http_response(response: Response) -> HttpResponse {
    let mut http = HttpResponse::new(HttpBody::from(response.body));
    *http.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    http.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(response.content_type));
    for (name, value) in response.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            http.headers_mut().insert(name, value);
        }
    }
    http
}

// -- the answers of faults that are the same everywhere

/// A page as gateways show it.
pub(crate) fn html(status: u16, title: &str) -> Response {
    let body = format!("<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>\r\n");
    Response { status, content_type: "text/html", headers: Vec::new(), body: body.into() }
}

fn internal_error<P: Platform>(platform: &P, fault: &Fault, target: &Target) -> Response {
    let error = Fault { kind: Kind::Status(500), ..fault.clone() };
    platform.fault_answer(&error, target).unwrap_or_else(|| html(500, "500 Internal Server Error"))
}

/// To another host name for the same socket, so that a client which follows is caught by the ledger.
fn redirect(core: &SharedCore, platform: Name, fault: &Fault) -> Response {
    let status =
        fault.code.and_then(|code| u16::try_from(code).ok()).filter(|code| (300..400).contains(code));
    let port = core.origin.rsplit(':').next().unwrap_or_default();
    let location = format!("http://localhost:{port}/_/followed/{}", platform.as_str());
    html(status.unwrap_or(302), "Moved").with_header("location", location)
}

fn half(response: &Response) -> Bytes {
    let mut raw = BytesMut::new();
    let (status, length) = (response.status, response.body.len());
    let head = format!(
        "HTTP/1.1 {status} OK\r\ncontent-type: {}\r\ncontent-length: {length}\r\n\r\n",
        response.content_type
    );
    raw.extend_from_slice(head.as_bytes());
    raw.extend_from_slice(&response.body[..length / 2]);
    raw.freeze()
}

/// Bytes that no parser takes for HTTP, always the same for one seed.
fn garbage(seed: u64) -> Bytes {
    let bytes = (0..256u64).map(|i| ((i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 | 0x80);
    bytes.collect()
}

fn truncated_gzip(mut response: Response) -> Response {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Compressing into memory cannot fail.
    drop(encoder.write_all(&response.body));
    let packed = encoder.finish().unwrap_or_default();
    let kept = packed.len() / 2;
    response.body = Bytes::from(packed).slice(..kept);
    response.with_header("content-encoding", "gzip")
}
