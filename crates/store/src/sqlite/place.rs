//! Where the open file lies. A file that was deleted or replaced stays open and takes writes that nobody will ever find.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::address::SqlitePath;
use crate::error::{Result, StoreError};

/// Which file was opened under a name; nothing for a database in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Place(Option<Opened>);

#[derive(Debug, Clone)]
struct Opened {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// Asked right after opening it.
    pub(super) fn of(path: &SqlitePath) -> Place {
        let SqlitePath::File(path) = path else {
            return Place(None);
        };
        let found = std::fs::metadata(path).ok();
        Place(found.map(|found| Opened { path: path.clone(), device: found.dev(), inode: found.ino() }))
    }

    /// Costs one look at the directory, so every transaction may ask. What cannot be told is not held against anybody.
    pub(super) fn check(&self) -> Result<()> {
        let Some(opened) = &self.0 else {
            return Ok(());
        };
        let gone = match std::fs::metadata(&opened.path) {
            Ok(found) => (found.dev(), found.ino()) != (opened.device, opened.inode),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        match gone {
            true => Err(StoreError::FileGone { address: SqlitePath::File(opened.path.clone()).to_string() }),
            false => Ok(()),
        }
    }
}
