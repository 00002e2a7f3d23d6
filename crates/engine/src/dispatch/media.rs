//! Media as one account sees them: bytes from the store, handles of its own.

use bytes::Bytes;
use domain::ids::{AccountId, WorkspaceId};
use domain::message::Media;
use futures_util::future::BoxFuture;
use platforms::media::{MediaError, MediaHandle, MediaSource};
use platforms::part::MediaItem;

use super::ports::Shelf;

pub struct AccountMedia<'s> {
    pub shelf: &'s dyn Shelf,
    pub workspace: WorkspaceId,
    pub account: AccountId,
}

impl MediaSource for AccountMedia<'_> {
    fn handle<'a>(&'a self, item: &'a MediaItem) -> BoxFuture<'a, Option<MediaHandle>> {
        match &item.media.blob {
            Some(blob) => self.shelf.handle(self.workspace, self.account, blob, item.send_as),
            None => Box::pin(async { None }),
        }
    }

    fn bytes<'a>(&'a self, media: &'a Media) -> BoxFuture<'a, Result<Bytes, MediaError>> {
        match &media.blob {
            Some(blob) => self.shelf.bytes(self.workspace, blob),
            None => Box::pin(async { Err(MediaError::NotStored) }),
        }
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
        _: domain::message::MediaKind,
    ) -> BoxFuture<'a, Option<MediaHandle>> {
        Box::pin(async { None })
    }

    fn keep<'a>(&'a self, _: WorkspaceId, _: AccountId, _: &'a str, _: MediaHandle) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
