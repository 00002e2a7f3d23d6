//! Media as one account sees them: bytes from the store, handles of its own.
//!
//! Looked up once, before the slot of the request; the sender finds everything in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use domain::ids::{AccountId, WorkspaceId};
use domain::message::{Media, MediaKind};
use futures_util::future::BoxFuture;
use platforms::media::{MediaError, MediaHandle, MediaSource};
use platforms::part::MediaItem;

use crate::shelf::Shelf;

pub(super) struct AccountMedia<'s> {
    shelf: &'s dyn Shelf,
    workspace: WorkspaceId,
    account: AccountId,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// By name and kind; `None`: there is none.
    handles: HashMap<(String, MediaKind), Option<MediaHandle>>,
    bytes: HashMap<String, Bytes>,
}

impl<'s> AccountMedia<'s> {
    pub(super) fn new(shelf: &'s dyn Shelf, workspace: WorkspaceId, account: AccountId) -> AccountMedia<'s> {
        AccountMedia { shelf, workspace, account, found: Mutex::default() }
    }

    /// Looks for handles, and for the bytes of what has none.
    pub(super) async fn fetch(&self, items: &[MediaItem]) {
        for item in items {
            let Some(blob) = &item.media.blob else {
                continue;
            };
            if MediaSource::handle(self, item).await.is_none()
                && let Ok(bytes) = self.shelf.bytes(self.workspace, blob).await
            {
                self.found().bytes.insert(blob.clone(), bytes);
            }
        }
    }

    /// The handles that were found here are not used again, by nobody.
    pub(super) async fn forget_handles(&self) {
        let known: Vec<(String, MediaKind)> = {
            let mut found = self.found();
            let known = found.handles.iter().filter(|(_, handle)| handle.is_some());
            let known = known.map(|(name, _)| name.clone()).collect();
            found.handles.values_mut().for_each(|handle| *handle = None);
            known
        };
        for (blob, kind) in known {
            self.shelf.forget(self.workspace, self.account, &blob, kind).await;
        }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MediaSource for AccountMedia<'_> {
    fn handle<'a>(&'a self, item: &'a MediaItem) -> BoxFuture<'a, Option<MediaHandle>> {
        Box::pin(async move {
            let name = (item.media.blob.clone()?, item.send_as);
            if let Some(known) = self.found().handles.get(&name) {
                return known.clone();
            }
            let handle = self.shelf.handle(self.workspace, self.account, &name.0, name.1).await;
            self.found().handles.insert(name, handle.clone());
            handle
        })
    }

    fn bytes<'a>(&'a self, media: &'a Media) -> BoxFuture<'a, Result<Bytes, MediaError>> {
        Box::pin(async move {
            let blob = media.blob.as_ref().ok_or(MediaError::NotStored)?;
            if let Some(bytes) = self.found().bytes.get(blob) {
                return Ok(bytes.clone());
            }
            self.shelf.bytes(self.workspace, blob).await
        })
    }
}

/// A shelf without anything on it.
#[derive(Debug, Default)]
pub struct EmptyShelf;

impl Shelf for EmptyShelf {
    fn bytes<'a>(&'a self, _: WorkspaceId, _: &'a str) -> BoxFuture<'a, Result<Bytes, MediaError>> {
        Box::pin(async { Err(MediaError::NotStored) })
    }

    fn handle<'a>(
        &'a self,
        _: WorkspaceId,
        _: AccountId,
        _: &'a str,
        _: MediaKind,
    ) -> BoxFuture<'a, Option<MediaHandle>> {
        Box::pin(async { None })
    }

    fn keep<'a>(&'a self, _: WorkspaceId, _: AccountId, _: &'a str, _: MediaHandle) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn forget<'a>(&'a self, _: WorkspaceId, _: AccountId, _: &'a str, _: MediaKind) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
