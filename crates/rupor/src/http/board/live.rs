//! The overview: read at most once a second however many look, told whole once and then by what changed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};

use super::change::{change, pieces};
use super::seats::Seat;
use super::state::{self, Beside, Seen};
use super::{Board, Wanted};
use crate::http::api::ApiError;
use crate::http::{Client, Site};
use crate::operate::facts::gather;

/// Posts on the overview.
const POSTS_MAX: usize = 24;
/// How often the database is asked at most, per workspace.
const FRESH: Duration = Duration::from_secs(1);
/// The same for campaigns and bots.
const BESIDE_FRESH: Duration = Duration::from_secs(5);
/// Bytes of one change: a post to 40 channels comes in several.
const CHANGE_BYTES: usize = 2_000;
/// How often a page hears that nothing but the clock has moved; it takes three silent ones for a dead node.
const BEAT: Duration = Duration::from_secs(8);

impl Board {
    /// The state, read now or a moment ago. `None`: there is no such workspace.
    pub(super) async fn state(&self, asked: &Wanted) -> anyhow::Result<Option<Arc<Value>>> {
        let wanted = asked.workspace.as_deref();
        let (names, name) = self.workspaces(wanted).await?;
        let Some(name) = name else {
            return Ok(wanted.is_none().then(|| Arc::new(state::nothing())));
        };
        // Held while reading, so that many pages cost one reading.
        let mut states = self.states.lock().await;
        states.retain(|(known, _), _| names.contains(known));
        let key = (name, asked.language());
        if let Some((at, state)) = states.get(&key)
            && at.elapsed() < FRESH
        {
            return Ok(Some(Arc::clone(state)));
        }
        let seen = self.look(&key.0, names).await?;
        let state = Arc::new(state::state(&seen, key.1));
        states.insert(key, (Instant::now(), Arc::clone(&state)));
        Ok(Some(state))
    }

    async fn look(&self, name: &str, workspaces: Vec<String>) -> anyhow::Result<Seen> {
        // This is the node, so a node runs.
        let facts = gather(&self.store, name, Some(true)).await?;
        let ws = facts.workspace.workspace_id;
        let posts = self.store.posts(ws, store::PostFilter::default(), POSTS_MAX, POSTS_MAX).await?.posts;
        Ok(Seen {
            workspaces,
            bars: self.store.lane_counts(ws, state::since(facts.now)).await?,
            last_sent: self.store.last_sent(ws).await?,
            posts: self.cards(&facts, posts).await?,
            beside: self.beside(name, &facts).await?,
            facts,
        })
    }

    async fn beside(&self, name: &str, facts: &crate::operate::facts::Facts) -> anyhow::Result<Arc<Beside>> {
        let mut known = self.beside.lock().await;
        if let Some((at, beside)) = known.get(name)
            && at.elapsed() < BESIDE_FRESH
        {
            return Ok(Arc::clone(beside));
        }
        let beside = Arc::new(state::beside(&self.store, facts).await?);
        known.insert(name.to_owned(), (Instant::now(), Arc::clone(&beside)));
        Ok(beside)
    }
}

pub(super) async fn state(
    State(site): State<Site>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, ApiError> {
    let state = site.board.state(&wanted).await;
    let state = state.map_err(|error| ApiError::inside(&error))?.ok_or_else(ApiError::not_found)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], state.to_string()).into_response())
}

/// The state now, and from then on what changed.
pub(super) async fn events(
    State(site): State<Site>,
    client: Client,
    Query(wanted): Query<Wanted>,
) -> Result<Response, ApiError> {
    let too_many = || {
        let message = "too many pages are open; close some";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_viewers", message)
    };
    let seat = site.board.seats.take(client.household()).ok_or_else(too_many)?;
    let first = site.board.state(&wanted).await;
    if first.map_err(|error| ApiError::inside(&error))?.is_none() {
        return Err(ApiError::not_found());
    }
    let (board, told_at) = (Arc::clone(&site.board), Instant::now());
    let watch = Watch { board, wanted, last: None, untold: VecDeque::new(), told_at, seat };
    let events = stream::unfold(watch, |mut watch| async {
        let left = watch.seat.left();
        let event = tokio::select! {
            () = left.notified() => return None,
            event = watch.next() => event,
        };
        Some((Ok::<_, Infallible>(event), watch))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

/// One open page.
struct Watch {
    board: Arc<Board>,
    wanted: Wanted,
    last: Option<Arc<Value>>,
    /// The rest of the last change.
    untold: VecDeque<Value>,
    told_at: Instant,
    seat: Seat,
}

impl Watch {
    async fn next(&mut self) -> Event {
        if let Some(piece) = self.untold.pop_front() {
            return spoken(&piece);
        }
        loop {
            if self.last.is_some() {
                tokio::time::sleep(FRESH).await;
            }
            match self.board.state(&self.wanted).await {
                Ok(Some(state)) => {
                    if let Some(event) = self.tell(state) {
                        return event;
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "the board could not be read");
                    tokio::time::sleep(FRESH).await;
                }
            }
        }
    }

    fn tell(&mut self, state: Arc<Value>) -> Option<Event> {
        let Some(last) = self.last.replace(Arc::clone(&state)) else {
            self.told_at = Instant::now();
            return Some(Event::default().event("state").data(state.to_string()));
        };
        let news = change(&last, &state)
            .or_else(|| (self.told_at.elapsed() >= BEAT).then(|| json!({"at": state["at"]})))?;
        self.told_at = Instant::now();
        self.untold = pieces(news, CHANGE_BYTES).into();
        self.untold.pop_front().map(|piece| spoken(&piece))
    }
}

fn spoken(change: &Value) -> Event {
    Event::default().event("change").data(change.to_string())
}
