//! The disk under the file: private files, the space that is left, and the ballast.
//!
//! On a disk that is full nothing can be written, not even "stop". So a node keeps a file of its own size beside the
//! database, the ballast, and throws it away when the kill switch needs the space.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Sqlite;
use super::media::off_thread;
use super::writer::Urgency;
use crate::address::SqlitePath;
use crate::error::{Result, StoreError};

/// Enough for a hold with its events, and for what waits before it in the queue of the writer.
const BALLAST_BYTES: u64 = 4 << 20;
/// Less than this, or than one part in so many of a small disk, is worth a word …
const LOW_BYTES: u64 = 256 << 20;
const LOW_PART: u64 = 20;

/// … and with less than this a disk is full: a small write may still find a place, a post does not.
const FULL_BYTES: u64 = 2 << 20;

/// For the owner alone.
pub(super) const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;

/// Opens a file for writing that nobody else may read or lock, and makes it if it is not there.
pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE_FILE).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        // Left by an older version, or made by hand. Of a file that is not ours this fails, and then it is as it is.
        let _ = file.set_permissions(Permissions::from_mode(PRIVATE_FILE));
    }
    Ok(file)
}

pub(super) fn private_folder(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(path)
}

/// The database is made private before SQLite opens it; its companions get the same mode from SQLite. One that is there
/// stays as its owner wants it.
pub(super) fn make_private(path: &SqlitePath) {
    if let SqlitePath::File(file) = path
        && !file.exists()
    {
        // What cannot be made here cannot be made by SQLite either, which says it in its own words.
        let _ = OpenOptions::new().create_new(true).write(true).mode(PRIVATE_FILE).open(file);
    }
}

fn ballast_path(path: &SqlitePath) -> Option<PathBuf> {
    match path {
        SqlitePath::Memory => None,
        SqlitePath::File(file) => {
            let mut name = file.clone().into_os_string();
            name.push(".ballast");
            Some(PathBuf::from(name))
        }
    }
}

/// Gives the space of the ballast back; whether there was any.
pub(super) fn drop_ballast(path: &SqlitePath) -> bool {
    ballast_path(path).is_some_and(|ballast| std::fs::remove_file(ballast).is_ok())
}

/// Free bytes and all bytes of the disk that a file lies on.
fn space(file: &Path) -> std::io::Result<(u64, u64)> {
    let found = rustix::fs::statvfs(file)?;
    Ok((found.f_bavail.saturating_mul(found.f_frsize), found.f_blocks.saturating_mul(found.f_frsize)))
}

/// Real bytes, on the disk: a hole would be no ballast.
fn take_ballast(ballast: &Path, free: u64) -> std::io::Result<()> {
    let there = std::fs::metadata(ballast).map(|found| found.len()).unwrap_or_default();
    if there == BALLAST_BYTES || free < 4 * BALLAST_BYTES {
        return Ok(());
    }
    let mut file = private_file(ballast)?;
    let block = vec![0xBA; 64 << 10];
    for _ in 0..BALLAST_BYTES / block.len() as u64 {
        file.write_all(&block)?;
    }
    file.sync_all()
}

impl Sqlite {
    /// Writes for the sake of writing: whether the disk takes it, and would take a post too.
    pub async fn probe(&self) -> Result<()> {
        if let SqlitePath::File(file) = &self.path
            && space(file).is_ok_and(|(free, _)| free < FULL_BYTES)
        {
            let full = StoreError::DiskFull { address: self.path.to_string() };
            self.pulse.failed(&full);
            return Err(full);
        }
        // A number in the head of the file that means nothing to anybody; it changes, because SQLite writes nothing else.
        self.write(Urgency::Maintenance, |tx| {
            let number = tx.first("PRAGMA user_version", [], |row| row.get::<_, i32>(0))?.unwrap_or(0);
            let write = format!("PRAGMA user_version = {}", number.wrapping_add(1));
            tx.connection.execute_batch(&write).map_err(|error| tx.failure(error))
        })
        .await?;
        self.pulse.wrote();
        Ok(())
    }

    /// Looks how much space is left and keeps the ballast where there is room. Words if it is little.
    pub async fn watch_space(&self) -> Result<Option<String>> {
        let SqlitePath::File(file) = self.path.clone() else {
            return Ok(None);
        };
        let Some(ballast) = ballast_path(&self.path) else {
            return Ok(None);
        };
        let broken = |error: std::io::Error| StoreError::Database(format!("the disk: {error}"));
        let (free, all) = off_thread(move || {
            let (free, all) = space(&file).map_err(broken)?;
            if let Err(error) = take_ballast(&ballast, free) {
                tracing::debug!(%error, "no ballast was laid by");
            }
            Ok((free, all))
        })
        .await?;
        if free < FULL_BYTES {
            self.pulse.failed(&StoreError::DiskFull { address: self.path.to_string() });
        }
        let low = free < LOW_BYTES.min(all / LOW_PART);
        self.pulse.space(low.then(|| little_space(&self.path, free)));
        Ok(low.then(|| little_space(&self.path, free)))
    }
}

fn little_space(path: &SqlitePath, free: u64) -> String {
    format!(
        "{} MiB are left on the disk of {path}; when it is full, posts are neither taken nor sent: free some space, or move \
         the database to a larger disk",
        free >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_that_others_could_lock_is_taken_from_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rupor.db.lock");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        private_file(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn ballast_is_real_and_is_not_taken_from_a_disk_that_needs_the_space() {
        let folder = tempfile::tempdir().unwrap();
        let path = SqlitePath::File(folder.path().join("rupor.db"));
        let ballast = ballast_path(&path).unwrap();
        take_ballast(&ballast, 4 * BALLAST_BYTES - 1).unwrap();
        assert!(!ballast.exists());
        take_ballast(&ballast, 4 * BALLAST_BYTES).unwrap();
        let found = std::fs::metadata(&ballast).unwrap();
        assert_eq!((found.len(), mode(&ballast)), (BALLAST_BYTES, 0o600));
        assert!(std::os::unix::fs::MetadataExt::blocks(&found) * 512 >= BALLAST_BYTES, "no hole");
        assert!(drop_ballast(&path) && !drop_ballast(&path));
    }
}
