//! What people look at from above: bars by the hour, posts by filter, cases side by side.
//! Every answer is bounded: a reader never costs more than a window of rows.

use domain::content::cases::CaseRecord;
use domain::ids::{ChannelId, MessageId, WorkspaceId};
use domain::time::Timestamp;
use serde::Serialize;

use crate::error::Result;
use crate::facade::{Store, each};
use crate::intake::{Case, StoredMessage};

/// What ended in a channel within an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LaneCount {
    pub channel_id: ChannelId,
    /// When the hour began.
    pub at: Timestamp,
    pub sent: i64,
    pub deduped: i64,
    /// And given up.
    pub failed: i64,
}

/// Which posts. What is not given is not asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostFilter {
    /// Older than this one.
    pub before: Option<MessageId>,
    pub kind: Option<String>,
    /// As messages name them; none: all of them.
    pub sources: Vec<String>,
    pub channel_id: Option<ChannelId>,
    pub fate: Option<PostFate>,
}

/// How a post stands in the channels that were asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostFate {
    Sent,
    /// Also for a person.
    Waiting,
    Failed,
    /// Nothing was to be said, or it had been said before.
    Unsent,
}

impl PostFate {
    pub const ALL: [PostFate; 4] = [PostFate::Sent, PostFate::Waiting, PostFate::Failed, PostFate::Unsent];

    pub fn as_str(self) -> &'static str {
        match self {
            PostFate::Sent => "sent",
            PostFate::Waiting => "waiting",
            PostFate::Failed => "failed",
            PostFate::Unsent => "unsent",
        }
    }

    pub fn parse(word: &str) -> Option<PostFate> {
        PostFate::ALL.into_iter().find(|fate| fate.as_str() == word)
    }
}

/// How a post stands in all its channels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PostCounts {
    pub sent: i64,
    pub waiting: i64,
    /// And not queued again since.
    pub failed: i64,
    pub deduped: i64,
}

/// What a source brought lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourcePosts {
    /// As messages name it.
    pub source: String,
    pub posts: i64,
    pub last_at: Timestamp,
}

/// Posts, the newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Posts {
    pub posts: Vec<StoredMessage>,
    /// Everything from here on was looked at; `None`: there is nothing older.
    pub looked_to: Option<MessageId>,
}

/// Of ids in a window, the newest first, and whether they fit: those to be read, and where to go on.
pub(crate) fn choose(rows: &[(i64, bool)], window: usize, limit: usize) -> (Vec<i64>, Option<MessageId>) {
    let fits = rows.iter().filter(|(_, fits)| *fits).map(|(id, _)| *id);
    let chosen: Vec<i64> = fits.clone().take(limit).collect();
    let more = fits.count() > chosen.len();
    let last = if more { chosen.last().copied() } else { rows.last().map(|(id, _)| *id) };
    (chosen, last.filter(|_| more || rows.len() == window).map(MessageId))
}

impl Store {
    /// What ended since then, by channel and hour.
    pub async fn lane_counts(&self, workspace: WorkspaceId, since: Timestamp) -> Result<Vec<LaneCount>> {
        each!(self, db => db.lane_counts(workspace, since))
    }

    /// When each channel last said something, as far as bars are kept.
    pub async fn last_sent(&self, workspace: WorkspaceId) -> Result<Vec<(ChannelId, Timestamp)>> {
        each!(self, db => db.last_sent(workspace))
    }

    /// The newest posts that fit, at most `limit` of the next `window`.
    pub async fn posts(
        &self,
        workspace: WorkspaceId,
        filter: PostFilter,
        window: usize,
        limit: usize,
    ) -> Result<Posts> {
        each!(self, db => db.posts(workspace, filter, window, limit))
    }

    /// How these posts stand; one that goes nowhere is not among them.
    pub async fn post_counts(
        &self,
        workspace: WorkspaceId,
        posts: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, PostCounts)>> {
        each!(self, db => db.post_counts(workspace, posts))
    }

    /// Who brought the last `window` posts.
    pub async fn sources_lately(&self, workspace: WorkspaceId, window: usize) -> Result<Vec<SourcePosts>> {
        each!(self, db => db.sources_lately(workspace, window))
    }

    /// The posts of a case, the newest first, at most `limit`.
    pub async fn posts_of_case(
        &self,
        workspace: WorkspaceId,
        case: domain::ids::CaseId,
        limit: usize,
    ) -> Result<Vec<StoredMessage>> {
        each!(self, db => db.posts_of_case(workspace, case, limit))
    }

    /// The latest cases that are open, with what is known of them, at most `limit`.
    pub async fn open_cases(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<(Case, CaseRecord)>> {
        each!(self, db => db.open_cases(workspace, limit))
    }
}
