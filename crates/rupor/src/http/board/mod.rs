//! The board at `/`: one page that shows what a node does, live. It reads and never changes anything.
//!
//! The page is one file without a build step; `/board/state` is what it shows as JSON, `/board/events` the same again
//! whenever something changed. However many look, a workspace is read at most once a second.

mod seats;
mod shape;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use store::{Case, Delivery, Source, Store, StoredMessage};
use tokio::sync::Mutex;

use crate::http::api::ApiError;
use crate::http::{Client, Site};
use crate::operate::facts::{Facts, gather};

use seats::{Seat, Seats};

/// Posts on the page.
const POSTS_MAX: usize = 50;
/// Deliveries looked at for them: forty channels each.
const DELIVERIES_MAX: usize = 2_000;
/// How often the database is asked at most, per workspace.
const FRESH: Duration = Duration::from_secs(1);
/// How often a page hears that nothing but the clock has moved.
const BEAT: Duration = Duration::from_secs(10);

const PAGE: &str = include_str!("index.html");

#[derive(Debug)]
pub(crate) struct Board {
    store: Store,
    /// The last state of each workspace that somebody looks at.
    states: Mutex<HashMap<String, (Instant, Arc<str>)>>,
    seats: Arc<Seats>,
}

/// Everything the page is made of, as it is stored.
#[derive(Debug)]
struct Seen {
    facts: Facts,
    workspaces: Vec<String>,
    sources: Vec<Source>,
    messages: Vec<StoredMessage>,
    deliveries: Vec<Delivery>,
    cases: Vec<Case>,
}

impl Board {
    pub(crate) fn new(store: Store) -> Board {
        Board { store, states: Mutex::default(), seats: Arc::default() }
    }

    /// The state as JSON, read now or a moment ago. `None`: there is no such workspace.
    async fn state(&self, wanted: Option<&str>) -> anyhow::Result<Option<Arc<str>>> {
        let names: Vec<String> = self.store.workspaces().await?.into_iter().map(|row| row.name).collect();
        let name = match wanted {
            Some(name) => names.iter().find(|known| *known == name),
            None => names.iter().find(|known| *known == "default").or(names.first()),
        };
        let Some(name) = name.cloned() else {
            return Ok(wanted.is_none().then(|| shape::nothing().to_string().into()));
        };
        // Held while reading, so that many pages cost one reading.
        let mut states = self.states.lock().await;
        states.retain(|known, _| names.contains(known));
        if let Some((at, state)) = states.get(&name)
            && at.elapsed() < FRESH
        {
            return Ok(Some(Arc::clone(state)));
        }
        let seen = self.look(&name, names).await?;
        let state: Arc<str> = shape::state(&seen).to_string().into();
        states.insert(name, (Instant::now(), Arc::clone(&state)));
        Ok(Some(state))
    }

    async fn look(&self, name: &str, workspaces: Vec<String>) -> anyhow::Result<Seen> {
        // This is the node, so a node runs.
        let facts = gather(&self.store, name, Some(true)).await?;
        let ws = facts.workspace.workspace_id;
        let messages = self.store.recent_messages(ws, POSTS_MAX).await?;
        let ids = messages.iter().map(|message| message.message_id).collect();
        let mut cases: Vec<_> = messages.iter().filter_map(|message| message.case_id).collect();
        cases.sort_unstable();
        cases.dedup();
        Ok(Seen {
            workspaces,
            sources: self.store.sources(ws).await?,
            deliveries: self.store.deliveries_of(ws, ids, DELIVERIES_MAX).await?,
            cases: self.store.cases(ws, cases).await?,
            messages,
            facts,
        })
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    workspace: Option<String>,
}

/// The page. Its own script and style are named by a number that is new each time; nothing else runs.
pub(crate) async fn page() -> Response {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut answer = Html(PAGE.replace("{nonce}", &nonce)).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

pub(crate) async fn state(
    State(site): State<Site>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, ApiError> {
    let state = site.board.state(wanted.workspace.as_deref()).await.map_err(|error| unreadable(&error))?;
    let state = state.ok_or_else(ApiError::not_found)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], state.to_string()).into_response())
}

/// The state now, and again whenever it changed.
pub(crate) async fn events(
    State(site): State<Site>,
    client: Client,
    Query(wanted): Query<Wanted>,
) -> Result<Response, ApiError> {
    let too_many = || {
        let message = "too many pages are open; close some";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_viewers", message)
    };
    let seat = site.board.seats.take(client.household()).ok_or_else(too_many)?;
    let first = site.board.state(wanted.workspace.as_deref()).await.map_err(|error| unreadable(&error))?;
    if first.is_none() {
        return Err(ApiError::not_found());
    }
    let watch = Watch {
        board: Arc::clone(&site.board),
        wanted: wanted.workspace,
        last: None,
        told_at: Instant::now(),
        seat,
    };
    let events = stream::unfold(watch, |mut watch| async {
        let left = watch.seat.left();
        let state = tokio::select! {
            () = left.notified() => return None,
            state = watch.changed() => state,
        };
        Some((Ok::<_, Infallible>(Event::default().data(&*state)), watch))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

/// One open page.
struct Watch {
    board: Arc<Board>,
    wanted: Option<String>,
    last: Option<Arc<str>>,
    told_at: Instant,
    seat: Seat,
}

impl Watch {
    async fn changed(&mut self) -> Arc<str> {
        loop {
            if self.last.is_some() {
                tokio::time::sleep(FRESH).await;
            }
            match self.board.state(self.wanted.as_deref()).await {
                Ok(Some(state))
                    if self.told_at.elapsed() >= BEAT || !shape::is_same(self.last.as_deref(), &state) =>
                {
                    (self.last, self.told_at) = (Some(Arc::clone(&state)), Instant::now());
                    return state;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "the board could not be read");
                    tokio::time::sleep(FRESH).await;
                }
            }
        }
    }
}

fn unreadable(error: &anyhow::Error) -> ApiError {
    ApiError::inside(error)
}
