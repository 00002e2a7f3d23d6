//! Kept media: bytes by their hash, handles by account. Whoever takes posts in fills it, whoever sends them reads it; so it
//! belongs to neither.

use std::fmt;

use bytes::Bytes;
use domain::ids::{AccountId, WorkspaceId};
use domain::message::MediaKind;
use futures_util::future::BoxFuture;
use platforms::media::{MediaError, MediaHandle};
use store::{Store, StoredHandle};

/// What the dispatcher keeps about media, per account.
pub trait Shelf: fmt::Debug + Send + Sync {
    fn bytes<'a>(&'a self, workspace: WorkspaceId, blob: &'a str)
    -> BoxFuture<'a, Result<Bytes, MediaError>>;
    fn handle<'a>(
        &'a self,
        workspace: WorkspaceId,
        account: AccountId,
        blob: &'a str,
        kind: MediaKind,
    ) -> BoxFuture<'a, Option<MediaHandle>>;
    fn keep<'a>(
        &'a self,
        workspace: WorkspaceId,
        account: AccountId,
        blob: &'a str,
        handle: MediaHandle,
    ) -> BoxFuture<'a, ()>;
    /// The platform does not know the handle any more.
    fn forget<'a>(
        &'a self,
        workspace: WorkspaceId,
        account: AccountId,
        blob: &'a str,
        kind: MediaKind,
    ) -> BoxFuture<'a, ()>;
}

impl Shelf for Store {
    fn bytes<'a>(
        &'a self,
        workspace: WorkspaceId,
        blob: &'a str,
    ) -> BoxFuture<'a, Result<Bytes, MediaError>> {
        Box::pin(async move {
            match self.media_bytes(workspace, blob).await {
                Ok(Some(bytes)) => Ok(bytes),
                Ok(None) => Err(MediaError::NotStored),
                Err(error) => Err(MediaError::Unavailable(error.to_string())),
            }
        })
    }

    /// A handle that cannot be read now is one that is not there: the bytes are uploaded again.
    fn handle<'a>(
        &'a self,
        workspace: WorkspaceId,
        account: AccountId,
        blob: &'a str,
        kind: MediaKind,
    ) -> BoxFuture<'a, Option<MediaHandle>> {
        Box::pin(async move {
            let found = self.media_handle(workspace, account, blob, kind.as_str()).await.ok()??;
            serde_json::from_str(&found.handle).ok()
        })
    }

    /// The whole handle as JSON: what a platform needs of it is the platform's business.
    fn keep<'a>(
        &'a self,
        workspace: WorkspaceId,
        account: AccountId,
        blob: &'a str,
        handle: MediaHandle,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Ok(text) = serde_json::to_string(&handle) else {
                return;
            };
            let kept = StoredHandle {
                sha256: blob.to_owned(),
                kind: handle.kind.as_str().to_owned(),
                handle: text,
                expires_at: handle.expires_at,
            };
            if let Err(error) = self.put_media_handles(workspace, account, vec![kept]).await {
                tracing::warn!(%error, "a media handle was not kept; the bytes will be uploaded again");
            }
        })
    }

    fn forget<'a>(
        &'a self,
        workspace: WorkspaceId,
        account: AccountId,
        blob: &'a str,
        kind: MediaKind,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.forget_media_handle(workspace, account, blob, kind.as_str()).await {
                tracing::warn!(%error, "a refused media handle could not be forgotten; it will be refused again");
            }
        })
    }
}
