//! The board at `/`: a page that shows what a node does, live. It reads and never changes anything.
//!
//! The page is made of a few files without a build step (`page`). `/board/state` is the overview as JSON, `/board/events`
//! the same once and then only what changed (`live`, `change`); the other addresses answer for one post, channel, case,
//! source or campaign (`about`), search among posts (`search`) and give out their pictures (`photo`).
//! However many look, a workspace is read at most once a second. People's numbers are masked in `card`, so that they never
//! reach a browser.

mod about;
mod card;
mod change;
mod live;
mod page;
mod photo;
mod search;
mod seats;
mod state;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::routing::{MethodRouter, get};
use domain::ids::WorkspaceId;
use serde::Deserialize;
use serde_json::Value;
use store::Store;
use tokio::sync::Mutex;

use crate::http::Site;
use crate::http::api::ApiError;
use crate::language::{Language, Phrase};

use seats::Seats;

/// What was read, and when.
type Remembered<T> = (Instant, Arc<T>);

#[derive(Debug)]
pub(crate) struct Board {
    store: Store,
    /// The last state of each workspace that somebody looks at, in each language.
    states: Mutex<HashMap<(String, Language), Remembered<Value>>>,
    /// What changes slowly and costs more to read.
    beside: Mutex<HashMap<String, Remembered<state::Beside>>>,
    seats: Arc<Seats>,
}

/// What every address understands.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    workspace: Option<String>,
    lang: Option<String>,
}

impl Wanted {
    fn language(&self) -> Language {
        self.lang.as_deref().and_then(Language::parse).unwrap_or_default()
    }
}

/// Everything that a browser may ask.
pub(crate) fn reading() -> Vec<(&'static str, MethodRouter<Site>)> {
    vec![
        ("/", get(page::page)),
        ("/board/state", get(live::state)),
        ("/board/events", get(live::events)),
        ("/board/posts", get(search::posts)),
        ("/board/post/{id}", get(about::post)),
        ("/board/channel/{id}", get(about::channel)),
        ("/board/case/{id}", get(about::case)),
        ("/board/sources", get(about::sources)),
        ("/board/campaign/{id}", get(about::campaign)),
        ("/board/matches", get(about::matches)),
        ("/board/photo/{id}/{n}", get(photo::photo)),
    ]
}

impl Board {
    pub(crate) fn new(store: Store) -> Board {
        Board { store, states: Mutex::default(), beside: Mutex::default(), seats: Arc::default() }
    }

    /// The names of all workspaces, and which of them is meant; the second is `None` where there is no such one.
    async fn workspaces(&self, wanted: Option<&str>) -> anyhow::Result<(Vec<String>, Option<String>)> {
        let names: Vec<String> = self.store.workspaces().await?.into_iter().map(|row| row.name).collect();
        let name = match wanted {
            Some(name) => names.iter().find(|known| *known == name),
            None => names.iter().find(|known| *known == "default").or(names.first()),
        };
        let name = name.cloned();
        Ok((names, name))
    }

    /// The workspace that is meant.
    async fn workspace(&self, wanted: &Wanted) -> Result<(WorkspaceId, String), ApiError> {
        let found = async {
            let (_, name) = self.workspaces(wanted.workspace.as_deref()).await?;
            anyhow::Ok(match name {
                Some(name) => Some((crate::operate::verb::find_workspace(&self.store, &name).await?, name)),
                None => None,
            })
        };
        found.await.map_err(|error| ApiError::inside(&error))?.ok_or_else(ApiError::not_found)
    }
}

/// What went wrong while reading, as a browser hears it.
fn unreadable(error: store::StoreError) -> ApiError {
    match error {
        store::StoreError::NotFound { .. } => ApiError::absent(error.to_string()),
        other => ApiError::inside(&other.into()),
    }
}

/// Phrases as they are said.
fn said(phrases: &[Phrase], language: Language) -> Vec<String> {
    phrases.iter().map(|phrase| phrase.in_language(language)).collect()
}

fn millis(at: domain::time::Timestamp) -> i64 {
    at.millis()
}
