//! The boot epoch: a note beside the key that remembers how far each database has come.
//!
//! A restored backup looks as if yesterday's posts had not been sent. The database counts its starts, and while a
//! node runs the count goes on; the note outside keeps the highest count seen. A database that stands behind its note
//! has gone back in time, and then everything is held until a person has looked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use store::{Epoch, Store};

/// The note: a line per database, `id:count`.
#[derive(Debug, Clone)]
pub struct Note {
    path: PathBuf,
}

impl Note {
    /// Next to the key file, which is never part of a backup of the database.
    pub fn beside(key_file: &Path) -> Note {
        Note { path: key_file.with_extension("epoch") }
    }

    /// Compares the database with the note, holds everything if it has gone back, and moves both on.
    /// Returns what to tell the operator.
    pub async fn check(&self, store: &Store) -> anyhow::Result<Option<String>> {
        let known = self.read()?;
        let problem = match store.epoch().await? {
            None => None,
            Some(epoch) => {
                problem(&epoch, known.get(&epoch.database).copied(), matches!(store, Store::Sqlite(_)))
            }
        };
        if let Some(why) = &problem {
            store.hold_all(Some(why)).await?;
        }
        self.advance(store).await?;
        Ok(problem)
    }

    /// Moves both on; called at the start and now and then while running.
    pub async fn advance(&self, store: &Store) -> anyhow::Result<()> {
        let mut known = self.read()?;
        let at_least = match store.epoch().await? {
            Some(epoch) => known.get(&epoch.database).copied().unwrap_or_default(),
            None => 0,
        };
        // The database first: a note that lags behind is harmless, a note ahead would look like a restore.
        let epoch = store.advance_epoch(at_least).await?;
        known.insert(epoch.database, epoch.count);
        self.write(&known)
    }

    fn read(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| self.path.display().to_string()),
        };
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let epoch = Epoch::parse(line).with_context(|| {
                    format!("{}: {line:?} is not an epoch; remove the line", self.path.display())
                })?;
                Ok((epoch.database, epoch.count))
            })
            .collect()
    }

    fn write(&self, known: &BTreeMap<String, i64>) -> anyhow::Result<()> {
        let mut text =
            String::from("# How far each database has come. Keep it; do not restore it with a backup.\n");
        for (database, count) in known {
            text.push_str(&format!("{database}:{count}\n"));
        }
        let named = || format!("{}: the boot epoch cannot be written", self.path.display());
        let new = self.path.with_extension("epoch.new");
        std::fs::write(&new, text).with_context(named)?;
        std::fs::rename(&new, &self.path).with_context(named)
    }
}

/// Why this database must not send before a person has looked.
fn problem(epoch: &Epoch, known: Option<i64>, alone: bool) -> Option<String> {
    const LOOK: &str = "what was sent since then would be sent again; look at `rupor delivery list --status queued`, \
                        then `rupor release` lets sending go on";
    match known {
        Some(count) if epoch.count < count => Some(format!(
            "the database has gone back from {count} to {}: it was restored from a backup, and {LOOK}",
            epoch.count
        )),
        Some(_) => None,
        // Many nodes share a PostgreSQL, and a new one knows nothing yet; a file has one owner.
        None if alone => Some(format!(
            "this database has run before, but its boot epoch is not known here: it was moved or restored, and {LOOK}"
        )),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use store::{Address, Clock, Keyring};

    use super::*;

    async fn open(path: &Path) -> Store {
        let address = Address::parse(&format!("sqlite:{}", path.display())).unwrap();
        Store::migrate(&address).await.unwrap();
        let keyring = Keyring::at(&path.with_extension("key")).unwrap();
        Store::open(&address, keyring, Clock::system()).await.unwrap()
    }

    #[tokio::test]
    async fn a_restored_backup_is_held_until_somebody_releases_it() {
        let folder = tempfile::tempdir().unwrap();
        let (database, backup) = (folder.path().join("r.db"), folder.path().join("copy.db"));
        let note = Note::beside(&database.with_extension("key"));
        let store = open(&database).await;
        assert_eq!(note.check(&store).await.unwrap(), None);
        drop(store);
        // A copy of a closed database is a backup.
        closed(&database).await;
        copy(&database, &backup);
        let store = open(&database).await;
        assert_eq!(note.check(&store).await.unwrap(), None, "a second start is nothing unusual");
        note.advance(&store).await.unwrap();
        drop(store);
        closed(&database).await;
        copy(&backup, &database);

        let store = open(&database).await;
        let why = note.check(&store).await.unwrap().expect("it has gone back");
        assert!(why.contains("restored from a backup") && why.contains("rupor release"), "{why}");
        assert_eq!(store.held().await.unwrap(), Some(why));
        store.hold_all(None).await.unwrap();
        assert_eq!(note.check(&store).await.unwrap(), None, "released once is released");
        assert_eq!(store.held().await.unwrap(), None);
    }

    /// A file database is up to three files; what one of them says may still be in another.
    fn copy(from: &Path, to: &Path) {
        for suffix in ["", "-wal", "-shm"] {
            let part = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
            let _ = std::fs::remove_file(part(to));
            if part(from).exists() {
                std::fs::copy(part(from), part(to)).unwrap();
            }
        }
    }

    /// The writer thread lets go of the file a moment after the last handle.
    async fn closed(path: &Path) {
        let lock = std::fs::File::open(path.with_extension("db.lock")).unwrap();
        tokio::task::spawn_blocking(move || lock.lock().unwrap()).await.unwrap();
    }

    #[test]
    fn a_file_without_its_note_is_held_and_a_shared_database_is_not() {
        let epoch = Epoch { database: "d".into(), count: 7 };
        assert!(problem(&epoch, None, true).is_some());
        assert_eq!(problem(&epoch, None, false), None);
        assert_eq!(problem(&epoch, Some(7), true), None);
        assert_eq!(problem(&epoch, Some(6), true), None);
        assert!(problem(&epoch, Some(8), false).is_some());
    }
}
