//! The accept loop: how many may be connected, and how long a request may take to say what it wants.
//! It knows nothing of routes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower_service::Service;

/// Connections at the same time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 512;
/// Headers of one request, and bytes of all of them.
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long the head of a request may take, or the next request on a connection.
pub const HEAD_TIME: Duration = Duration::from_secs(20);

/// Serves until it is dropped; the connections end with it.
pub async fn serve(listener: TcpListener, app: Router, head_time: Duration) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut visits = JoinSet::new();
    loop {
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
            return;
        };
        while visits.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let app = app.clone();
                visits.spawn(async move {
                    visit(stream, app, head_time).await;
                    drop(seat);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: others need a moment to give some back.
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn visit(stream: TcpStream, app: Router, head_time: Duration) {
    let answer = service_fn(move |request| app.clone().call(request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = connection.await {
        // Visitors who leave early or speak badly are their own trouble.
        tracing::debug!(%error, "a connection broke off");
    }
}
