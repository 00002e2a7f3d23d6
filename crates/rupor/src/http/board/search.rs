//! Posts by filter and by words, page by page. Looking back is bounded: who asks for more goes on from where it ended.

use axum::Json;
use axum::extract::{Query, State};
use domain::ids::{ChannelId, MessageId, SourceId};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{PostFate, PostFilter};

use super::card::source_names;
use super::{Wanted, unreadable};
use crate::http::Site;
use crate::http::api::ApiError;
use crate::operate::facts::gather;
use crate::operate::search::Words;

/// Posts of one answer.
const PAGE: usize = 24;
/// Posts that one reading looks at, and readings of one answer.
const WINDOW: usize = 500;
const READINGS_MAX: usize = 10;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    workspace: Option<String>,
    kind: Option<String>,
    channel: Option<i64>,
    source: Option<i64>,
    status: Option<String>,
    /// Words.
    q: Option<String>,
    before: Option<i64>,
}

pub(super) async fn posts(
    State(site): State<Site>,
    Query(asked): Query<Asked>,
) -> Result<Json<Value>, ApiError> {
    let board = &site.board;
    let wanted = Wanted { workspace: asked.workspace.clone(), lang: None };
    let (ws, name) = board.workspace(&wanted).await?;
    let facts = gather(&board.store, &name, Some(true)).await.map_err(|error| ApiError::inside(&error))?;
    let sources = match asked.source {
        None => Vec::new(),
        Some(id) => {
            let source = facts.sources.iter().find(|source| source.source_id == SourceId(id));
            source_names(source.ok_or_else(ApiError::not_found)?)
        }
    };
    let fate = match asked.status.as_deref().filter(|word| !word.is_empty()) {
        None => None,
        Some(word) => Some(PostFate::parse(word).ok_or_else(|| ApiError::field("status", "is not known"))?),
    };
    let mut filter = PostFilter {
        before: asked.before.map(MessageId),
        kind: asked.kind.filter(|kind| !kind.is_empty()),
        sources,
        channel_id: asked.channel.map(ChannelId),
        fate,
    };
    let words = Words::of(asked.q.as_deref().unwrap_or_default());
    let (mut found, mut looked) = (Vec::new(), 0);
    for _ in 0..READINGS_MAX {
        let limit = if words.is_some() { WINDOW } else { PAGE };
        let read = board.store.posts(ws, filter.clone(), WINDOW, limit).await.map_err(unreadable)?;
        looked += WINDOW;
        filter.before = read.looked_to;
        for post in read.posts {
            if words.as_ref().is_none_or(|words| words.fit(&post)) {
                found.push(post);
            }
        }
        if found.len() >= PAGE || filter.before.is_none() {
            break;
        }
    }
    if found.len() > PAGE {
        found.truncate(PAGE);
        filter.before = found.last().map(|post| post.message_id);
    }
    let cards = board.cards(&facts, found).await.map_err(|error| ApiError::inside(&error))?;
    Ok(Json(json!({"posts": cards, "before": filter.before, "looked": looked})))
}
