//! Bytes by their hash, in the row: every node must reach them. And the handles of the platforms, and what doors have
//! answered.

use bytes::Bytes;
use domain::ids::{AccountId, EndpointId, WorkspaceId};
use domain::time::Span;
use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::rows::Time;
use super::{Again, As, Postgres, Query, rows};
use crate::error::{Result, StoreError};
use crate::media::{CollectedMedia, MediaOrigin, NewMedia, Receipt, StoredHandle};

const PUT_MEDIA: &str = "
INSERT INTO media_origin AS o (sha256, workspace_id, mime, bytes_count, width, height, picture_hash, source_url, bytes,
                               created_at, last_used_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, rupor_now(), rupor_now())
ON CONFLICT (workspace_id, sha256) DO UPDATE
   SET last_used_at = excluded.last_used_at, source_url = coalesce(o.source_url, excluded.source_url)";
macro_rules! select_media {
    () => {
        "SELECT sha256, mime, bytes_count, width, height, picture_hash, source_url, last_used_at \
           FROM media_origin WHERE workspace_id = $1 "
    };
}
const SELECT_MEDIA: &str = concat!(select_media!(), "AND sha256 = $2");
const SELECT_BY_SOURCE: &str =
    concat!(select_media!(), "AND source_url = $2 ORDER BY created_at DESC, sha256 LIMIT 1");
const SELECT_BYTES: &str = "SELECT bytes FROM media_origin WHERE workspace_id = $1 AND sha256 = $2";
/// What a message shows must stay.
pub(super) const SHOW: &str = "
INSERT INTO message_media (workspace_id, sha256, message_id)
SELECT $1, s.sha256, s.message_id FROM unnest($2::text[], $3::bigint[]) AS s (sha256, message_id)
ON CONFLICT DO NOTHING";
const SELECT_HANDLE: &str = "
SELECT sha256, kind, handle, expires_at
  FROM media_blobs
 WHERE workspace_id = $1 AND account_id = $2 AND sha256 = $3 AND kind = $4
   AND (expires_at IS NULL OR expires_at > rupor_now())";
const FORGET_HANDLE: &str = "
UPDATE media_blobs
   SET expires_at = rupor_now()
 WHERE workspace_id = $1 AND account_id = $2 AND sha256 = $3 AND kind = $4";
const PUT_HANDLE: &str = "
INSERT INTO media_blobs (workspace_id, account_id, sha256, kind, handle, expires_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, rupor_now())
ON CONFLICT (workspace_id, account_id, sha256, kind) DO UPDATE
   SET handle = excluded.handle, expires_at = excluded.expires_at, created_at = excluded.created_at";
const COLLECT: &str = "SELECT media, handles FROM collect_media(rupor_span($1), $2)";
const SELECT_RECEIPT: &str = "
SELECT request_hash, response
  FROM ingress_receipts
 WHERE workspace_id = $1 AND endpoint_id = $2 AND key = $3";
const INSERT_RECEIPT: &str = "
INSERT INTO ingress_receipts (workspace_id, endpoint_id, key, request_hash, response, received_at)
VALUES ($1, $2, $3, $4, $5, rupor_now())
ON CONFLICT DO NOTHING";
const REJECTED: &str = "
INSERT INTO events (workspace_id, at, name, detail) VALUES ($1, rupor_now(), 'ingress_rejected', $2)";
const TURNED_AWAY: &str = "
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), said.name, said.detail
FROM (VALUES ('ingress_rejected', $2::jsonb), ('alert', $3::jsonb)) AS said (name, detail)
WHERE said.detail IS NOT NULL";
const LOOKS_BEGUN: &str = "SELECT begun FROM media_looks WHERE workspace_id = $1 AND key = $2";
const BEGIN_LOOK: &str = "
INSERT INTO media_looks AS l (workspace_id, key, begun, last_at) VALUES ($1, $2, 1, rupor_now())
ON CONFLICT (workspace_id, key) DO UPDATE SET begun = l.begun + 1, last_at = excluded.last_at";
const END_LOOK: &str = "DELETE FROM media_looks WHERE workspace_id = $1 AND key = $2";
const FORGET_RECEIPTS: &str = "SELECT forget_receipts(rupor_span($1))";

/// Those that clear away.
pub(super) const LONG: &[&str] = &[COLLECT, FORGET_RECEIPTS];

pub(super) const STATEMENTS: &[&str] = &[
    PUT_MEDIA,
    REJECTED,
    TURNED_AWAY,
    LOOKS_BEGUN,
    BEGIN_LOOK,
    END_LOOK,
    SELECT_MEDIA,
    SELECT_BY_SOURCE,
    SELECT_BYTES,
    SHOW,
    SELECT_HANDLE,
    PUT_HANDLE,
    COLLECT,
    SELECT_RECEIPT,
    INSERT_RECEIPT,
    FORGET_RECEIPTS,
];

impl Postgres {
    pub async fn put_media_origin(&self, workspace: WorkspaceId, new: NewMedia) -> Result<()> {
        new.validate()?;
        let (bytes_count, bytes) = (new.bytes.len() as i64, new.bytes.as_ref());
        let params: [&(dyn ToSql + Sync); 9] = [
            &new.sha256,
            &workspace.0,
            &new.mime,
            &bytes_count,
            &new.width,
            &new.height,
            &new.picture_hash,
            &new.source_url,
            &bytes,
        ];
        self.scoped(workspace, PUT_MEDIA, &params).await.map(drop)
    }

    pub async fn media_origin(&self, workspace: WorkspaceId, sha256: &str) -> Result<Option<MediaOrigin>> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_MEDIA, &[&workspace.0, &sha256]).await?;
        Ok(row.as_ref().map(origin))
    }

    pub async fn media_by_source(&self, workspace: WorkspaceId, url: &str) -> Result<Option<MediaOrigin>> {
        let row =
            self.first(As::App(workspace), Again::Safe, SELECT_BY_SOURCE, &[&workspace.0, &url]).await?;
        Ok(row.as_ref().map(origin))
    }

    pub async fn media_bytes(&self, workspace: WorkspaceId, sha256: &str) -> Result<Option<Bytes>> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_BYTES, &[&workspace.0, &sha256]).await?;
        Ok(row.and_then(|row| row.get::<_, Option<Vec<u8>>>(0)).map(Bytes::from))
    }

    pub async fn media_handle(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        sha256: &str,
        kind: &str,
    ) -> Result<Option<StoredHandle>> {
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &account.0, &sha256, &kind];
        let row = self.first(As::App(workspace), Again::Safe, SELECT_HANDLE, &params).await?;
        Ok(row.map(|row| StoredHandle {
            sha256: row.get(0),
            kind: row.get(1),
            handle: row.get(2),
            expires_at: rows::time(&row, 3),
        }))
    }

    pub async fn put_media_handles(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        handles: Vec<StoredHandle>,
    ) -> Result<()> {
        let expiries: Vec<Option<Time>> = handles.iter().map(|new| new.expires_at.map(Time)).collect();
        let params: Vec<[&(dyn ToSql + Sync); 6]> = handles
            .iter()
            .zip(&expiries)
            .map(|(new, at)| -> [&(dyn ToSql + Sync); 6] {
                [&workspace.0, &account.0, &new.sha256, &new.kind, &new.handle, at]
            })
            .collect();
        let queries: Vec<Query<'_>> = params.iter().map(|params| Query { sql: PUT_HANDLE, params }).collect();
        self.run(As::App(workspace), Again::Safe, &queries).await.map(drop)
    }

    pub async fn forget_media_handle(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        sha256: &str,
        kind: &str,
    ) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &account.0, &sha256, &kind];
        self.run(As::App(workspace), Again::Safe, &[Query { sql: FORGET_HANDLE, params: &params }])
            .await
            .map(drop)
    }

    pub async fn collect_media(&self, unused_for: Span, limit: usize) -> Result<CollectedMedia> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let row = self.one(As::Dispatcher, Again::Safe, COLLECT, &[&unused_for.0, &limit]).await?;
        let number = |column| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        Ok(CollectedMedia { media: number(0), handles: number(1) })
    }

    pub async fn receipt(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        key: &str,
        request_hash: &str,
    ) -> Result<Receipt> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &endpoint.0, &key];
        let row = self.first(As::App(workspace), Again::Safe, SELECT_RECEIPT, &params).await?;
        Ok(Receipt::of(row.as_ref().map(receipt), request_hash))
    }

    pub async fn keep_receipt(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        key: &str,
        request_hash: &str,
        response: Value,
    ) -> Result<Receipt> {
        let insert: [&(dyn ToSql + Sync); 5] = [&workspace.0, &endpoint.0, &key, &request_hash, &response];
        let select: [&(dyn ToSql + Sync); 3] = [&workspace.0, &endpoint.0, &key];
        let queries =
            [Query { sql: INSERT_RECEIPT, params: &insert }, Query { sql: SELECT_RECEIPT, params: &select }];
        let results = match self.run(As::App(workspace), Again::Safe, &queries).await {
            Err(StoreError::Database(problem)) if problem.ends_with("(23503)") => {
                return Err(StoreError::not_found("endpoint", endpoint));
            }
            other => other?,
        };
        let row = results.last().and_then(|rows| rows.first());
        Ok(Receipt::of(row.map(receipt), request_hash))
    }

    pub async fn reject_ingress(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        why: &str,
    ) -> Result<()> {
        let detail = json!({"endpoint": endpoint.0, "why": why});
        self.all(As::App(workspace), Again::Never, REJECTED, &[&workspace.0, &detail]).await?;
        Ok(())
    }

    pub async fn turn_away(&self, workspace: WorkspaceId, detail: Value, alert: Option<&str>) -> Result<()> {
        let alert = alert.map(|text| json!({"text": text, "why": "guessing"}));
        self.all(As::App(workspace), Again::Never, TURNED_AWAY, &[&workspace.0, &detail, &alert]).await?;
        Ok(())
    }

    pub async fn looks_begun(&self, workspace: WorkspaceId, key: &str) -> Result<i32> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&workspace.0, &key];
        let row = self.first(As::App(workspace), Again::Safe, LOOKS_BEGUN, &params).await?;
        Ok(row.map_or(0, |row| row.get(0)))
    }

    pub async fn begin_look(&self, workspace: WorkspaceId, key: &str) -> Result<()> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&workspace.0, &key];
        self.all(As::App(workspace), Again::Never, BEGIN_LOOK, &params).await.map(drop)
    }

    pub async fn end_look(&self, workspace: WorkspaceId, key: &str) -> Result<()> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&workspace.0, &key];
        self.all(As::App(workspace), Again::Safe, END_LOOK, &params).await.map(drop)
    }

    pub async fn forget_receipts(&self, older_than: Span) -> Result<u64> {
        let row = self.one(As::Dispatcher, Again::Safe, FORGET_RECEIPTS, &[&older_than.0]).await?;
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or_default())
    }
}

fn origin(row: &Row) -> MediaOrigin {
    MediaOrigin {
        sha256: row.get(0),
        mime: row.get(1),
        bytes_count: row.get(2),
        width: row.get(3),
        height: row.get(4),
        picture_hash: row.get(5),
        source_url: row.get(6),
        last_used_at: rows::at(row, 7),
    }
}

fn receipt(row: &Row) -> (String, Value) {
    (row.get(0), row.get(1))
}
