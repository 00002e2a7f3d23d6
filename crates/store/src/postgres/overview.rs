//! What people look at from above: bars by the hour, posts by filter, cases side by side.

use domain::content::cases::CaseRecord;
use domain::ids::{CaseId, ChannelId, MessageId, WorkspaceId};
use domain::time::Timestamp;
use tokio_postgres::types::ToSql;

use super::intake::{message_columns, stored_message};
use super::{Again, As, Postgres, cases, rows};
use crate::error::Result;
use crate::intake::{Case, StoredMessage};
use crate::overview::{LaneCount, PostCounts, PostFilter, Posts, SourcePosts, choose};

/// By the lanes of the workspace, which are few. What tells of trouble or of deliveries is no channel of posts.
const SELECT_COUNTS: &str = "
SELECT h.channel_id, c.at, c.n_sent, c.n_deduped, c.n_failed
  FROM lane_heads AS h
  JOIN accounts AS a ON a.account_id = h.account_id
 CROSS JOIN LATERAL (SELECT x.* FROM lane_counts AS x WHERE x.lane_id = h.lane_id AND x.at >= $2 OFFSET 0) AS c
 WHERE h.workspace_id = $1 AND h.recipient_id IS NULL AND h.channel_id IS NOT NULL AND a.tier NOT IN ('alerts', 'callbacks')
 ORDER BY c.lane_id, c.at";
const SELECT_LAST_SENT: &str = "
SELECT h.channel_id, (SELECT c.sent_at FROM lane_counts AS c
                       WHERE c.lane_id = h.lane_id AND c.sent_at IS NOT NULL
                       ORDER BY c.at DESC LIMIT 1) AS sent_at
  FROM lane_heads AS h
  JOIN accounts AS a ON a.account_id = h.account_id
 WHERE h.workspace_id = $1 AND h.recipient_id IS NULL AND h.channel_id IS NOT NULL AND a.tier NOT IN ('alerts', 'callbacks')";
/// A window of the newest; what does not fit is passed over. Deliveries are found by their message.
const LOOK_POSTS: &str = "
SELECT m.message_id,
       ($4::text IS NULL OR m.kind = $4)
       AND ($5::text[] = '{}' OR m.source = ANY ($5))
       AND ($6::bigint IS NULL OR EXISTS (SELECT FROM deliveries AS d WHERE d.message_id = m.message_id AND d.channel_id = $6))
       AND CASE $7::text
           WHEN 'sent' THEN EXISTS (
                SELECT FROM deliveries AS d
                 WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL AND ($6 IS NULL OR d.channel_id = $6)
                   AND d.status = 'sent')
           WHEN 'failed' THEN EXISTS (
                SELECT FROM deliveries AS d
                 WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL AND ($6 IS NULL OR d.channel_id = $6)
                   AND d.status IN ('failed_permanent', 'dead'))
           WHEN 'waiting' THEN EXISTS (
                SELECT FROM deliveries AS d
                 WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL AND ($6 IS NULL OR d.channel_id = $6)
                   AND d.ended_at IS NULL)
             OR EXISTS (
                SELECT FROM held_posts AS p
                 WHERE p.workspace_id = $1 AND p.message_id = m.message_id AND ($6 IS NULL OR p.channel_id = $6)
                   AND p.decision IS NULL)
           WHEN 'unsent' THEN NOT EXISTS (
                SELECT FROM deliveries AS d
                 WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL AND ($6 IS NULL OR d.channel_id = $6)
                   AND d.status <> 'deduped')
           ELSE true END
  FROM (SELECT x.message_id, x.kind, x.source
          FROM messages AS x
         WHERE x.workspace_id = $1 AND x.message_id < $2
           AND substr(x.source, 1, 4) <> 'bot:' AND x.source NOT IN ('campaign', 'campaign:test', 'alerts', 'callbacks')
         ORDER BY x.message_id DESC
         LIMIT $3) AS m
 ORDER BY m.message_id DESC";
const SELECT_POSTS: &str = concat!(message_columns!(), "AND message_id = ANY ($2) ORDER BY message_id DESC");
const SELECT_POSTS_OF_CASE: &str =
    concat!(message_columns!(), "AND case_id = $2 ORDER BY message_id DESC LIMIT $3");

/// Of the first saying; edits and answers are another matter. By the message, on which an index stands.
const COUNT_POSTS: &str = "
SELECT d.message_id, count(*) FILTER (WHERE d.status = 'sent'),
       count(*) FILTER (WHERE d.ended_at IS NULL),
       count(*) FILTER (WHERE d.status IN ('failed_permanent', 'dead') AND NOT EXISTS (SELECT FROM deliveries AS n
                                 WHERE n.message_id = d.message_id AND n.channel_id = d.channel_id AND n.action = 'send'
                                   AND n.generation > d.generation)),
       count(*) FILTER (WHERE d.status = 'deduped')
  FROM deliveries AS d
 WHERE d.workspace_id = $1 AND d.message_id = ANY ($2) AND d.channel_id IS NOT NULL AND d.action = 'send'
 GROUP BY d.message_id
 ORDER BY d.message_id";
const SOURCES_LATELY: &str = "
SELECT m.source, count(*), max(m.created_at)
  FROM (SELECT x.source, x.created_at
          FROM messages AS x
         WHERE x.workspace_id = $1
           AND substr(x.source, 1, 4) <> 'bot:' AND x.source NOT IN ('campaign', 'campaign:test', 'alerts', 'callbacks')
         ORDER BY x.message_id DESC
         LIMIT $2) AS m
 GROUP BY m.source
 ORDER BY m.source";

pub(super) const STATEMENTS: &[&str] = &[
    SELECT_COUNTS,
    SELECT_LAST_SENT,
    LOOK_POSTS,
    SELECT_POSTS,
    SELECT_POSTS_OF_CASE,
    COUNT_POSTS,
    SOURCES_LATELY,
];

impl Postgres {
    pub async fn lane_counts(&self, workspace: WorkspaceId, since: Timestamp) -> Result<Vec<LaneCount>> {
        let params: [&(dyn ToSql + Sync); 2] = [&workspace.0, &rows::Time(since)];
        let found = self.all(As::App(workspace), Again::Safe, SELECT_COUNTS, &params).await?;
        let count = |row: &tokio_postgres::Row| LaneCount {
            channel_id: ChannelId(row.get(0)),
            at: rows::at(row, 1),
            sent: row.get(2),
            deduped: row.get(3),
            failed: row.get(4),
        };
        Ok(found.iter().map(count).collect())
    }

    pub async fn last_sent(&self, workspace: WorkspaceId) -> Result<Vec<(ChannelId, Timestamp)>> {
        let found = self.all(As::App(workspace), Again::Safe, SELECT_LAST_SENT, &[&workspace.0]).await?;
        let last = |row: &tokio_postgres::Row| Some((ChannelId(row.get(0)), rows::time(row, 1)?));
        Ok(found.iter().filter_map(last).collect())
    }

    pub async fn posts(
        &self,
        workspace: WorkspaceId,
        filter: PostFilter,
        window: usize,
        limit: usize,
    ) -> Result<Posts> {
        let before = filter.before.map_or(i64::MAX, |id| id.0);
        let channel = filter.channel_id.map(|id| id.0);
        let fate = filter.fate.map(|fate| fate.as_str());
        let size = i64::try_from(window).unwrap_or(i64::MAX);
        let params: [&(dyn ToSql + Sync); 7] =
            [&workspace.0, &before, &size, &filter.kind, &filter.sources, &channel, &fate];
        let looked = self.all(As::App(workspace), Again::Safe, LOOK_POSTS, &params).await?;
        let looked: Vec<(i64, bool)> = looked.iter().map(|row| (row.get(0), row.get(1))).collect();
        let (ids, looked_to) = choose(&looked, window, limit);
        let found = self.all(As::App(workspace), Again::Safe, SELECT_POSTS, &[&workspace.0, &ids]).await?;
        Ok(Posts { posts: found.iter().map(stored_message).collect(), looked_to })
    }

    pub async fn post_counts(
        &self,
        workspace: WorkspaceId,
        posts: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, PostCounts)>> {
        let ids: Vec<i64> = posts.iter().map(|id| id.0).collect();
        let found = self.all(As::App(workspace), Again::Safe, COUNT_POSTS, &[&workspace.0, &ids]).await?;
        let counts = |row: &tokio_postgres::Row| {
            let (sent, waiting) = (row.get(1), row.get(2));
            (MessageId(row.get(0)), PostCounts { sent, waiting, failed: row.get(3), deduped: row.get(4) })
        };
        Ok(found.iter().map(counts).collect())
    }

    pub async fn sources_lately(&self, workspace: WorkspaceId, window: usize) -> Result<Vec<SourcePosts>> {
        let size = i64::try_from(window).unwrap_or(i64::MAX);
        let found = self.all(As::App(workspace), Again::Safe, SOURCES_LATELY, &[&workspace.0, &size]).await?;
        let posts = |row: &tokio_postgres::Row| SourcePosts {
            source: row.get(0),
            posts: row.get(1),
            last_at: rows::at(row, 2),
        };
        Ok(found.iter().map(posts).collect())
    }

    pub async fn posts_of_case(
        &self,
        workspace: WorkspaceId,
        case: CaseId,
        limit: usize,
    ) -> Result<Vec<StoredMessage>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &case.0, &limit];
        let found = self.all(As::App(workspace), Again::Safe, SELECT_POSTS_OF_CASE, &params).await?;
        Ok(found.iter().map(stored_message).collect())
    }

    pub async fn open_cases(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<(Case, CaseRecord)>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found =
            self.all(As::App(workspace), Again::Safe, cases::SELECT_OPEN, &[&workspace.0, &limit]).await?;
        let known = |row: &tokio_postgres::Row| {
            Some((cases::case(row), serde_json::from_value(row.get::<_, serde_json::Value>(9)).ok()?))
        };
        Ok(found.iter().filter_map(known).collect())
    }
}
