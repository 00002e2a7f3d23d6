//! What people look at from above: bars by the hour, posts by filter, cases side by side.

use domain::content::cases::CaseRecord;
use domain::ids::{CaseId, ChannelId, MessageId, WorkspaceId};
use domain::time::Timestamp;

use super::intake::{MESSAGE_COLUMNS, stored_message};
use super::{Sqlite, cases, rows};
use crate::error::Result;
use crate::intake::{Case, StoredMessage};
use crate::overview::{LaneCount, PostCounts, PostFilter, Posts, SourcePosts, choose};

/// By the lanes of the workspace, which are few. What tells of trouble or of deliveries is no channel of posts.
pub(super) const SELECT_COUNTS: &str = "
SELECT h.channel_id, c.at, c.n_sent, c.n_deduped, c.n_failed
  FROM lane_heads AS h INDEXED BY lane_heads_listed
 CROSS JOIN accounts AS a ON a.account_id = h.account_id
 CROSS JOIN lane_counts AS c ON c.lane_id = h.lane_id AND c.at >= ?2
 WHERE h.workspace_id = ?1 AND h.recipient_id IS NULL AND h.channel_id IS NOT NULL AND a.tier NOT IN ('alerts', 'callbacks')
 ORDER BY c.lane_id, c.at";
pub(super) const SELECT_LAST_SENT: &str = "
SELECT h.channel_id, (SELECT c.sent_at FROM lane_counts AS c
                       WHERE c.lane_id = h.lane_id AND c.sent_at IS NOT NULL
                       ORDER BY c.at DESC LIMIT 1) AS sent_at
  FROM lane_heads AS h INDEXED BY lane_heads_listed
 CROSS JOIN accounts AS a ON a.account_id = h.account_id
 WHERE h.workspace_id = ?1 AND h.recipient_id IS NULL AND h.channel_id IS NOT NULL AND a.tier NOT IN ('alerts', 'callbacks')";
/// A window of the newest; what does not fit is passed over. Deliveries are found by their message.
pub(super) const LOOK_POSTS: &str = "
SELECT m.message_id,
       (?4 IS NULL OR m.kind = ?4)
       AND (?5 = '[]' OR m.source IN (SELECT value FROM json_each(?5)))
       AND (?6 IS NULL OR EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message_id = m.message_id AND d.channel_id = ?6))
       AND CASE ?7
           WHEN 'sent' THEN EXISTS (
                SELECT 1 FROM deliveries AS d
                 WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL AND (?6 IS NULL OR d.channel_id = ?6)
                   AND d.status = 'sent')
           WHEN 'failed' THEN EXISTS (
                SELECT 1 FROM deliveries AS d
                 WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL AND (?6 IS NULL OR d.channel_id = ?6)
                   AND d.status IN ('failed_permanent', 'dead'))
           WHEN 'waiting' THEN EXISTS (
                SELECT 1 FROM deliveries AS d
                 WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL AND (?6 IS NULL OR d.channel_id = ?6)
                   AND d.ended_at IS NULL)
             OR EXISTS (
                SELECT 1 FROM held_posts AS p
                 WHERE p.workspace_id = ?1 AND p.message_id = m.message_id AND (?6 IS NULL OR p.channel_id = ?6)
                   AND p.decision IS NULL)
           WHEN 'unsent' THEN NOT EXISTS (
                SELECT 1 FROM deliveries AS d
                 WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL AND (?6 IS NULL OR d.channel_id = ?6)
                   AND d.status <> 'deduped')
           ELSE 1 END
  FROM (SELECT message_id, kind, source
          FROM messages INDEXED BY messages_posts
         WHERE workspace_id = ?1 AND message_id < ?2
           AND substr(source, 1, 4) <> 'bot:' AND source NOT IN ('campaign', 'campaign:test', 'alerts', 'callbacks')
         ORDER BY message_id DESC
         LIMIT ?3) AS m
 ORDER BY m.message_id DESC";

/// Of the first saying; edits and answers are another matter. By the message, on which an index stands.
const COUNT_POSTS: &str = "
SELECT d.message_id, count(CASE d.status WHEN 'sent' THEN 1 END),
       count(CASE WHEN d.ended_at IS NULL THEN 1 END),
       count(CASE WHEN d.status IN ('failed_permanent', 'dead') AND NOT EXISTS (SELECT 1 FROM deliveries AS n
                                 WHERE n.message_id = d.message_id AND n.channel_id = d.channel_id AND n.action = 'send'
                                   AND n.generation > d.generation)
                  THEN 1 END),
       count(CASE d.status WHEN 'deduped' THEN 1 END)
  FROM deliveries AS d
 WHERE d.workspace_id = ?1 AND d.message_id IN (SELECT value FROM json_each(?2)) AND d.channel_id IS NOT NULL AND d.action = 'send'
 GROUP BY d.message_id
 ORDER BY d.message_id";
const SOURCES_LATELY: &str = "
SELECT m.source, count(*), max(m.created_at)
  FROM (SELECT x.source, x.created_at
          FROM messages AS x INDEXED BY messages_posts
         WHERE x.workspace_id = ?1
           AND substr(x.source, 1, 4) <> 'bot:' AND x.source NOT IN ('campaign', 'campaign:test', 'alerts', 'callbacks')
         ORDER BY x.message_id DESC
         LIMIT ?2) AS m
 GROUP BY m.source
 ORDER BY m.source";

impl Sqlite {
    pub async fn lane_counts(&self, workspace: WorkspaceId, since: Timestamp) -> Result<Vec<LaneCount>> {
        self.read(move |tx| {
            tx.all(SELECT_COUNTS, (workspace.0, since.0), |row| {
                Ok(LaneCount {
                    channel_id: ChannelId(row.get(0)?),
                    at: Timestamp(row.get(1)?),
                    sent: row.get(2)?,
                    deduped: row.get(3)?,
                    failed: row.get(4)?,
                })
            })
        })
        .await
    }

    pub async fn last_sent(&self, workspace: WorkspaceId) -> Result<Vec<(ChannelId, Timestamp)>> {
        let rows = self
            .read(move |tx| {
                tx.all(SELECT_LAST_SENT, [workspace.0], |row| Ok((row.get(0)?, rows::time(row, 1)?)))
            })
            .await?;
        Ok(rows.into_iter().filter_map(|(id, at)| Some((ChannelId(id), at?))).collect())
    }

    pub async fn posts(
        &self,
        workspace: WorkspaceId,
        filter: PostFilter,
        window: usize,
        limit: usize,
    ) -> Result<Posts> {
        let sql = format!(
            "SELECT {MESSAGE_COLUMNS} FROM messages
              WHERE workspace_id = ?1 AND message_id IN (SELECT value FROM json_each(?2)) ORDER BY message_id DESC"
        );
        self.read(move |tx| {
            let params = rusqlite::params![
                workspace.0,
                filter.before.map_or(i64::MAX, |id| id.0),
                window as i64,
                filter.kind,
                serde_json::json!(filter.sources).to_string(),
                filter.channel_id.map(|id| id.0),
                filter.fate.map(|fate| fate.as_str()),
            ];
            let rows = tx.all(LOOK_POSTS, params, |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (ids, looked_to) = choose(&rows, window, limit);
            let posts = tx.all(&sql, (workspace.0, rows::id_list(ids)), stored_message)?;
            Ok(Posts { posts, looked_to })
        })
        .await
    }

    pub async fn post_counts(
        &self,
        workspace: WorkspaceId,
        posts: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, PostCounts)>> {
        let ids = rows::id_list(posts.iter().map(|id| id.0));
        self.read(move |tx| {
            tx.all(COUNT_POSTS, (workspace.0, ids), |row| {
                let (sent, waiting) = (row.get(1)?, row.get(2)?);
                let counts = PostCounts { sent, waiting, failed: row.get(3)?, deduped: row.get(4)? };
                Ok((MessageId(row.get(0)?), counts))
            })
        })
        .await
    }

    pub async fn sources_lately(&self, workspace: WorkspaceId, window: usize) -> Result<Vec<SourcePosts>> {
        self.read(move |tx| {
            tx.all(SOURCES_LATELY, (workspace.0, window as i64), |row| {
                Ok(SourcePosts { source: row.get(0)?, posts: row.get(1)?, last_at: Timestamp(row.get(2)?) })
            })
        })
        .await
    }

    pub async fn posts_of_case(
        &self,
        workspace: WorkspaceId,
        case: CaseId,
        limit: usize,
    ) -> Result<Vec<StoredMessage>> {
        let sql = format!(
            "SELECT {MESSAGE_COLUMNS} FROM messages
              WHERE workspace_id = ?1 AND case_id = ?2 ORDER BY message_id DESC LIMIT ?3"
        );
        self.read(move |tx| tx.all(&sql, (workspace.0, case.0, limit as i64), stored_message)).await
    }

    pub async fn open_cases(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<(Case, CaseRecord)>> {
        let rows = self
            .read(move |tx| {
                tx.all(cases::SELECT_OPEN, (workspace.0, limit as i64), |row| {
                    Ok((cases::case(row)?, row.get::<_, String>(9)?))
                })
            })
            .await?;
        let known = |(case, text): (Case, String)| Some((case, serde_json::from_str(&text).ok()?));
        Ok(rows.into_iter().filter_map(known).collect())
    }
}
