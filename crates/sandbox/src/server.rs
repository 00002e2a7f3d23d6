//! The accept loop. Hyper speaks HTTP on each connection through a `Wire`, so that a handler can spoil it.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::dispatch::{self, App};
use crate::wire::{Wire, WireControl};

/// Ends the connection without an answer: orderly, or with a reset if the `WireControl` says so.
#[derive(Debug)]
pub(crate) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is cut on purpose")
    }
}

impl std::error::Error for Cut {}

impl From<Infallible> for Cut {
    fn from(never: Infallible) -> Cut {
        match never {}
    }
}

/// Connections above this wait in the queue of the system.
const CONNECTIONS_MAX: usize = 20_000;

/// Serves until the core's tasks are stopped; then every open connection ends.
pub(crate) async fn run(listener: TcpListener, app: Arc<App>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        tokio::select! {
            () = app.core.tasks.stopped() => return,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => { connections.spawn(connection(socket, Arc::clone(&app))); }
                // Out of descriptors or a peer that has gone already: the next one may do better.
                Err(error) => { tracing::warn!(%error, "a connection could not be accepted"); tokio::task::yield_now().await; }
            },
        }
    }
}

async fn connection(socket: TcpStream, app: Arc<App>) {
    // Without it small answers wait for the peer's delayed acknowledgement.
    drop(socket.set_nodelay(true));
    let control = Arc::new(WireControl::default());
    let wire = Wire::new(socket, Arc::clone(&control));
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (app, control) = (Arc::clone(&app), Arc::clone(&control));
        async move { dispatch::serve(app, control, request.map(Body::new)).await }
    });
    let served = http1::Builder::new().max_headers(256).serve_connection(TokioIo::new(wire), service).await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}
