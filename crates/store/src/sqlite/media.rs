//! Bytes by their hash: the row here, the bytes in a folder beside the database, a database in memory keeps them in
//! the row. And the handles of the platforms, and what doors have answered.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use domain::ids::{AccountId, EndpointId, MessageId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use serde_json::{Value, json};

use super::heads::{self, NewEvent};
use super::workspaces::require_workspace;
use super::{Sqlite, Tx, Urgency, rows};
use crate::address::SqlitePath;
use crate::error::{Result, StoreError};
use crate::media::{CollectedMedia, MediaOrigin, NewMedia, Receipt, StoredHandle, blobs};

const PUT_MEDIA: &str = "
INSERT INTO media_origin (sha256, workspace_id, mime, bytes_count, width, height, picture_hash, source_url, bytes,
                          created_at, last_used_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)
ON CONFLICT DO UPDATE
   SET last_used_at = excluded.last_used_at, source_url = coalesce(source_url, excluded.source_url)";
const MEDIA_COLUMNS: &str =
    "sha256, mime, bytes_count, width, height, picture_hash, source_url, last_used_at";
const SELECT_BYTES: &str = "SELECT bytes FROM media_origin WHERE workspace_id = ?1 AND sha256 = ?2";
const SHOW: &str =
    "INSERT INTO message_media (workspace_id, sha256, message_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
const SELECT_HANDLE: &str = "
SELECT sha256, kind, handle, expires_at
  FROM media_blobs
 WHERE workspace_id = ?1 AND account_id = ?2 AND sha256 = ?3 AND kind = ?4 AND (expires_at IS NULL OR expires_at > ?5)";
const PUT_HANDLE: &str = "
INSERT INTO media_blobs (workspace_id, account_id, sha256, kind, handle, expires_at, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO UPDATE
   SET handle = excluded.handle, expires_at = excluded.expires_at, created_at = excluded.created_at";
const FORGET_HANDLE: &str = "
UPDATE media_blobs
   SET expires_at = ?5
 WHERE workspace_id = ?1 AND account_id = ?2 AND sha256 = ?3 AND kind = ?4";
const FORGET_SHOWN: &str = "
DELETE FROM message_media
 WHERE NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = message_media.message_id)";
const UNUSED: &str = "
SELECT o.workspace_id, o.sha256
  FROM media_origin AS o
 WHERE o.last_used_at < ?1
   AND NOT EXISTS (SELECT 1 FROM message_media AS s WHERE s.workspace_id = o.workspace_id AND s.sha256 = o.sha256)
 ORDER BY o.last_used_at, o.workspace_id, o.sha256
 LIMIT ?2";
const DELETE_HANDLES: &str = "DELETE FROM media_blobs WHERE workspace_id = ?1 AND sha256 = ?2";
const DELETE_EXPIRED: &str = "DELETE FROM media_blobs WHERE expires_at <= ?1";
const DELETE_MEDIA: &str = "DELETE FROM media_origin WHERE workspace_id = ?1 AND sha256 = ?2";
const KEPT_ELSEWHERE: &str = "SELECT 1 FROM media_origin WHERE sha256 = ?1 LIMIT 1";
const SELECT_RECEIPT: &str = "
SELECT request_hash, response
  FROM ingress_receipts
 WHERE workspace_id = ?1 AND endpoint_id = ?2 AND key = ?3";
const INSERT_RECEIPT: &str = "
INSERT INTO ingress_receipts (workspace_id, endpoint_id, key, request_hash, response, received_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING";
const LOOKS_BEGUN: &str = "SELECT begun FROM media_looks WHERE workspace_id = ?1 AND key = ?2";
const BEGIN_LOOK: &str = "
INSERT INTO media_looks (workspace_id, key, begun, last_at) VALUES (?1, ?2, 1, ?3)
ON CONFLICT DO UPDATE SET begun = begun + 1, last_at = excluded.last_at";
const END_LOOK: &str = "DELETE FROM media_looks WHERE workspace_id = ?1 AND key = ?2";
const DELETE_LOOKS: &str = "DELETE FROM media_looks WHERE last_at < ?1";
const DELETE_RECEIPTS: &str = "DELETE FROM ingress_receipts WHERE received_at < ?1";

impl Sqlite {
    pub async fn put_media_origin(&self, workspace: WorkspaceId, new: NewMedia) -> Result<()> {
        new.validate()?;
        // The bytes first: a row without its file would promise what is not there.
        let in_row = match self.media_file(&new.sha256) {
            Some(file) => {
                let bytes = new.bytes.clone();
                off_thread(move || write_file(&file, &bytes)).await?;
                None
            }
            None => Some(new.bytes.to_vec()),
        };
        self.write(Urgency::Enqueue, move |tx| {
            require_workspace(tx, workspace)?;
            let params = rusqlite::params![
                new.sha256,
                workspace.0,
                new.mime,
                new.bytes.len() as i64,
                new.width,
                new.height,
                new.picture_hash,
                new.source_url,
                in_row,
                tx.now.0
            ];
            tx.execute(PUT_MEDIA, params).map(drop)
        })
        .await
    }

    pub async fn media_origin(&self, workspace: WorkspaceId, sha256: &str) -> Result<Option<MediaOrigin>> {
        let sql = format!("SELECT {MEDIA_COLUMNS} FROM media_origin WHERE workspace_id = ?1 AND sha256 = ?2");
        let sha256 = sha256.to_owned();
        self.read(move |tx| tx.first(&sql, (workspace.0, sha256), origin)).await
    }

    pub async fn media_by_source(&self, workspace: WorkspaceId, url: &str) -> Result<Option<MediaOrigin>> {
        let sql = format!(
            "SELECT {MEDIA_COLUMNS} FROM media_origin WHERE workspace_id = ?1 AND source_url = ?2
              ORDER BY created_at DESC, sha256 LIMIT 1"
        );
        let url = url.to_owned();
        self.read(move |tx| tx.first(&sql, (workspace.0, url), origin)).await
    }

    pub async fn media_bytes(&self, workspace: WorkspaceId, sha256: &str) -> Result<Option<Bytes>> {
        let name = sha256.to_owned();
        let row = self.read(move |tx| {
            tx.first(SELECT_BYTES, (workspace.0, name), |row| row.get::<_, Option<Vec<u8>>>(0))
        });
        match (row.await?, self.media_file(sha256)) {
            (None, _) => Ok(None),
            (Some(Some(bytes)), _) => Ok(Some(bytes.into())),
            (Some(None), Some(file)) => off_thread(move || read_file(&file)).await,
            (Some(None), None) => Ok(None),
        }
    }

    pub async fn media_handle(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        sha256: &str,
        kind: &str,
    ) -> Result<Option<StoredHandle>> {
        let (sha256, kind) = (sha256.to_owned(), kind.to_owned());
        self.read(move |tx| {
            tx.first(SELECT_HANDLE, (workspace.0, account.0, sha256, kind, tx.now.0), |row| {
                Ok(StoredHandle {
                    sha256: row.get(0)?,
                    kind: row.get(1)?,
                    handle: row.get(2)?,
                    expires_at: rows::time(row, 3)?,
                })
            })
        })
        .await
    }

    pub async fn put_media_handles(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        handles: Vec<StoredHandle>,
    ) -> Result<()> {
        self.write(Urgency::Outcome, move |tx| {
            for new in &handles {
                let expires_at = new.expires_at.map(|at| at.0);
                let params =
                    (workspace.0, account.0, &new.sha256, &new.kind, &new.handle, expires_at, tx.now.0);
                tx.execute(PUT_HANDLE, params)?;
            }
            Ok(())
        })
        .await
    }

    pub async fn forget_media_handle(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        sha256: &str,
        kind: &str,
    ) -> Result<()> {
        let (sha256, kind) = (sha256.to_owned(), kind.to_owned());
        self.write(Urgency::Outcome, move |tx| {
            tx.execute(FORGET_HANDLE, (workspace.0, account.0, &sha256, &kind, tx.now.0)).map(drop)
        })
        .await
    }

    pub async fn collect_media(&self, unused_for: Span, limit: usize) -> Result<CollectedMedia> {
        let (collected, files) =
            self.write(Urgency::Maintenance, move |tx| collect(tx, unused_for, limit as i64)).await?;
        let files: Vec<PathBuf> = files.iter().filter_map(|sha256| self.media_file(sha256)).collect();
        off_thread(move || {
            for file in files {
                remove_file(&file)?;
            }
            Ok(())
        })
        .await?;
        Ok(collected)
    }

    pub async fn receipt(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        key: &str,
        request_hash: &str,
    ) -> Result<Receipt> {
        let (key, request_hash) = (key.to_owned(), request_hash.to_owned());
        self.read(move |tx| {
            let known = tx.first(SELECT_RECEIPT, (workspace.0, endpoint.0, key), receipt)?;
            Ok(Receipt::of(known, &request_hash))
        })
        .await
    }

    pub async fn keep_receipt(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        key: &str,
        request_hash: &str,
        response: Value,
    ) -> Result<Receipt> {
        let (key, request_hash) = (key.to_owned(), request_hash.to_owned());
        self.write(Urgency::Enqueue, move |tx| {
            let params = (workspace.0, endpoint.0, &key, &request_hash, response.to_string(), tx.now.0);
            tx.execute(INSERT_RECEIPT, params)?;
            let known = tx.first(SELECT_RECEIPT, (workspace.0, endpoint.0, &key), receipt)?;
            Ok(Receipt::of(known, &request_hash))
        })
        .await
    }

    pub async fn reject_ingress(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        why: &str,
    ) -> Result<()> {
        let detail = json!({"endpoint": endpoint.0, "why": why});
        self.write(Urgency::Maintenance, move |tx| {
            let rejected = NewEvent {
                workspace_id: workspace.0,
                name: "ingress_rejected",
                detail,
                ..NewEvent::default()
            };
            heads::event(tx, rejected)
        })
        .await
    }

    pub async fn turn_away(&self, workspace: WorkspaceId, detail: Value, alert: Option<&str>) -> Result<()> {
        let alert = alert.map(|text| json!({"text": text, "why": "guessing"}));
        self.write(Urgency::Maintenance, move |tx| {
            let events = [("ingress_rejected", Some(detail.clone())), ("alert", alert.clone())];
            for (name, detail) in events {
                let Some(detail) = detail else { continue };
                heads::event(
                    tx,
                    NewEvent { workspace_id: workspace.0, name, detail, ..NewEvent::default() },
                )?;
            }
            Ok(())
        })
        .await
    }

    pub async fn looks_begun(&self, workspace: WorkspaceId, key: &str) -> Result<i32> {
        let key = key.to_owned();
        let begun = self.read(move |tx| tx.first(LOOKS_BEGUN, (workspace.0, &key), |row| row.get(0))).await?;
        Ok(begun.unwrap_or(0))
    }

    pub async fn begin_look(&self, workspace: WorkspaceId, key: &str) -> Result<()> {
        let key = key.to_owned();
        self.write(Urgency::Enqueue, move |tx| {
            tx.execute(BEGIN_LOOK, (workspace.0, &key, tx.now.0)).map(drop)
        })
        .await
    }

    pub async fn end_look(&self, workspace: WorkspaceId, key: &str) -> Result<()> {
        let key = key.to_owned();
        self.write(Urgency::Enqueue, move |tx| tx.execute(END_LOOK, (workspace.0, &key)).map(drop)).await
    }

    pub async fn forget_receipts(&self, older_than: Span) -> Result<u64> {
        self.write(Urgency::Maintenance, move |tx| {
            tx.execute(DELETE_LOOKS, [(tx.now - older_than).0])?;
            Ok(tx.execute(DELETE_RECEIPTS, [(tx.now - older_than).0])? as u64)
        })
        .await
    }

    fn media_file(&self, sha256: &str) -> Option<PathBuf> {
        media_path(&self.path, sha256)
    }
}

/// `<database>.media/ab/abcd…`; a database in memory has no folder.
pub(super) fn media_path(path: &SqlitePath, sha256: &str) -> Option<PathBuf> {
    Some(media_folder(path)?.join(sha256.get(..2)?).join(sha256))
}

pub(super) fn media_folder(path: &SqlitePath) -> Option<PathBuf> {
    let SqlitePath::File(database) = path else {
        return None;
    };
    let mut folder = database.clone().into_os_string();
    folder.push(".media");
    Some(PathBuf::from(folder))
}

/// What a message shows must stay.
pub(super) fn show(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    message_id: MessageId,
    payload: &Value,
) -> Result<()> {
    for sha256 in blobs(payload) {
        tx.execute(SHOW, (workspace.0, sha256, message_id.0))?;
    }
    Ok(())
}

fn collect(tx: &Tx<'_>, unused_for: Span, limit: i64) -> Result<(CollectedMedia, Vec<String>)> {
    tx.execute(FORGET_SHOWN, [])?;
    let handles = tx.execute(DELETE_EXPIRED, [tx.now.0])? as u64;
    let mut collected = CollectedMedia { media: 0, handles };
    let mut files = Vec::new();
    let unused = tx.all(UNUSED, ((tx.now - unused_for).0, limit), |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    for (workspace_id, sha256) in unused {
        collected.handles += tx.execute(DELETE_HANDLES, (workspace_id, &sha256))? as u64;
        collected.media += tx.execute(DELETE_MEDIA, (workspace_id, &sha256))? as u64;
        // The same bytes may be another workspace's too.
        if tx.first(KEPT_ELSEWHERE, [&sha256], |_| Ok(()))?.is_none() {
            files.push(sha256);
        }
    }
    Ok((collected, files))
}

fn origin(row: &Row<'_>) -> rusqlite::Result<MediaOrigin> {
    Ok(MediaOrigin {
        sha256: row.get(0)?,
        mime: row.get(1)?,
        bytes_count: row.get(2)?,
        width: row.get(3)?,
        height: row.get(4)?,
        picture_hash: row.get(5)?,
        source_url: row.get(6)?,
        last_used_at: Timestamp(row.get(7)?),
    })
}

fn receipt(row: &Row<'_>) -> rusqlite::Result<(String, Value)> {
    Ok((row.get(0)?, rows::json(row, 1)?))
}

pub(super) async fn off_thread<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(job).await;
    done.unwrap_or_else(|_| Err(StoreError::Database("reading or writing a media file panicked".into())))
}

/// Under another name first: a file that has its name is whole.
pub(super) fn write_file(file: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::metadata(file).is_ok_and(|known| known.len() == bytes.len() as u64) {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    super::disk::private_folder(folder).map_err(|error| unusable(folder, &error))?;
    let unready = file.with_extension(format!("{:x}.new", rand::random::<u64>()));
    let written = super::disk::private_file(&unready).and_then(|mut open| {
        std::io::Write::write_all(&mut open, bytes)?;
        open.sync_all()?;
        std::fs::rename(&unready, file)
    });
    written.map_err(|error| {
        // Best effort: the error that matters is the one being told.
        let _ = std::fs::remove_file(&unready);
        unusable(file, &error)
    })
}

pub(super) fn read_file(file: &Path) -> Result<Option<Bytes>> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(Some(bytes.into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(file, &error)),
    }
}

pub(super) fn remove_file(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unusable(file, &error)),
        _ => Ok(()),
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::DiskFull { address: path.display().to_string() },
        _ => StoreError::Database(format!(
            "media file {}: {error}; check the folder's permissions",
            path.display()
        )),
    }
}
