//! The accept loop: how many may be connected, of them how many from one household, and how long a request may take to
//! say what it wants and an answer to be taken. It knows nothing of routes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower_service::Service;

use super::door::{Door, Peer, household};
use super::patience::Patient;

/// Connections at the same time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// Of them from one household; more are turned away, so that the others keep their seats.
const HOUSEHOLD_MAX: usize = 64;
/// Headers of one request, and bytes of all of them.
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 << 10;

/// How long others may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// For the head of a request, or for the next request on a connection.
    pub head: Duration,
    /// For taking what they asked for, while they do not read.
    pub write: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times { head: Duration::from_secs(10), write: Duration::from_secs(20) }
    }
}

/// Who is inside. The connections end when it is dropped.
#[derive(Debug)]
pub(super) struct Hall {
    seats: Arc<Semaphore>,
    households: Arc<Households>,
    visits: Mutex<JoinSet<()>>,
}

impl Default for Hall {
    fn default() -> Hall {
        Hall {
            seats: Arc::new(Semaphore::new(connections_max())),
            households: Arc::default(),
            visits: Mutex::default(),
        }
    }
}

impl Hall {
    fn visits(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets visitors in until it is dropped.
pub(super) async fn serve(listener: &TcpListener, hall: &Hall, app: Router, door: &Door, times: Times) {
    loop {
        let Ok(seat) = Arc::clone(&hall.seats).acquire_owned().await else {
            return;
        };
        while hall.visits().try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Some(chair) = hall.households.take(peer.ip(), door.is_proxy(peer.ip())) else {
                    turn_away(&stream);
                    continue;
                };
                let app = app.clone();
                hall.visits().spawn(async move {
                    visit(stream, Peer(peer.ip()), app, times).await;
                    drop((seat, chair));
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

/// Visitors may take half of the files that this process may open: the database and the platforms need the rest.
fn connections_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = files.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse::<usize>().ok());
    soft.map_or(CONNECTIONS_MAX, |soft| (soft / 2).clamp(4, CONNECTIONS_MAX))
}

/// Said without waiting: whoever holds this many connections must not hold one more.
fn turn_away(stream: &TcpStream) {
    let said = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    drop(stream.try_write(said));
}

async fn visit(stream: TcpStream, peer: Peer, app: Router, times: Times) {
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        app.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(times.head)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Patient::new(stream, times.write)), answer);
    if let Err(error) = connection.await {
        // Visitors who leave early or speak badly are their own trouble.
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Connections of each household.
#[derive(Debug, Default)]
struct Households {
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of a household; given back when it is dropped.
#[derive(Debug)]
struct Chair {
    households: Arc<Households>,
    household: IpAddr,
}

impl Households {
    /// A proxy speaks for many, so it may have as many as there are.
    fn take(self: &Arc<Self>, peer: IpAddr, is_proxy: bool) -> Option<Chair> {
        let household = household(peer);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.entry(household).or_default();
        if *own >= HOUSEHOLD_MAX && !is_proxy {
            return None;
        }
        *own += 1;
        Some(Chair { households: Arc::clone(self), household })
    }
}

impl Drop for Chair {
    fn drop(&mut self) {
        let mut taken = self.households.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.household) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.remove(&self.household);
            }
        }
    }
}
