//! The boot epoch: a note beside the key that remembers how far each database has come.
//!
//! A restored backup looks as if yesterday's posts had not been sent. The database counts its starts, and while a
//! node runs the count goes on; the note outside keeps the highest count seen. A database that stands behind its note
//! has gone back in time (a backup, or a standby that had not received everything), and then everything is held until a
//! person has looked. So is a new, empty file where the note remembers another one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use store::{Epoch, Store};

/// The note: a line per database, `id:count`, and for a file where it lies.
#[derive(Debug, Clone)]
pub struct Note {
    path: PathBuf,
}

/// What the note says of one database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Line {
    count: i64,
    file: Option<String>,
}

type Lines = BTreeMap<String, Line>;

impl Note {
    /// Next to the key file, which is never part of a backup of the database.
    pub fn beside(key_file: &Path) -> Note {
        Note { path: key_file.with_extension("epoch") }
    }

    /// At the start: compares the database with the note, holds everything if it has gone back, and moves both on.
    /// Returns what to tell the operator.
    pub async fn check(&self, store: &Store) -> anyhow::Result<Option<String>> {
        // The note first: a database that goes on meanwhile is never behind it.
        let known = self.read()?;
        let file = file(store);
        let problem = match store.epoch().await? {
            None => file.and_then(|file| emptied(&known, &file)),
            Some(epoch) => problem(&epoch, known.get(&epoch.database).map(|line| line.count), file.is_some()),
        };
        if let Some(why) = &problem {
            store.lose_history(why).await?;
        }
        self.move_on(store, known).await?;
        Ok(problem)
    }

    /// While running: the same comparison, and whether what was accepted is still there; nothing is written.
    pub async fn compare(&self, store: &Store) -> anyhow::Result<Option<String>> {
        let known = self.read()?;
        let Some(epoch) = store.epoch().await? else {
            return Ok(None);
        };
        let behind = problem(&epoch, known.get(&epoch.database).map(|line| line.count), false);
        // The count moves on now and then; what was accepted meanwhile is asked for by name.
        let problem = match behind {
            None if !store.accepted_is_known().await? => Some(FORGOTTEN.to_owned()),
            behind => behind,
        };
        if let Some(why) = &problem {
            store.lose_history(why).await?;
            // Said once: from here on it counts from where it is.
            self.move_on(store, known).await?;
        }
        Ok(problem)
    }

    /// Moves both on, unless the database has gone back; called now and then while running.
    pub async fn advance(&self, store: &Store) -> anyhow::Result<Option<String>> {
        let problem = self.compare(store).await?;
        if problem.is_none() {
            let known = self.read()?;
            self.move_on(store, known).await?;
        }
        Ok(problem)
    }

    async fn move_on(&self, store: &Store, mut known: Lines) -> anyhow::Result<()> {
        let at_least = match store.epoch().await? {
            Some(epoch) => known.get(&epoch.database).map_or(0, |line| line.count),
            None => 0,
        };
        // The database first: a note that lags behind is harmless, a note ahead would look like a restore.
        let epoch = store.advance_epoch(at_least).await?;
        known.insert(epoch.database, Line { count: epoch.count, file: file(store) });
        self.write(&known)
    }

    fn read(&self) -> anyhow::Result<Lines> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| self.path.display().to_string()),
        };
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let (epoch, file) =
                    line.split_once(' ').map_or((line, None), |(epoch, file)| (epoch, Some(file)));
                let epoch = Epoch::parse(epoch).with_context(|| {
                    format!("{}: {line:?} is not an epoch; remove the line", self.path.display())
                })?;
                Ok((epoch.database, Line { count: epoch.count, file: file.map(str::to_owned) }))
            })
            .collect()
    }

    fn write(&self, known: &Lines) -> anyhow::Result<()> {
        let mut text =
            String::from("# How far each database has come. Keep it; do not restore it with a backup.\n");
        for (database, line) in known {
            let file = line.file.as_ref().map(|file| format!(" {file}")).unwrap_or_default();
            text.push_str(&format!("{database}:{}{file}\n", line.count));
        }
        let named = || format!("{}: the boot epoch cannot be written", self.path.display());
        // Two nodes may share it: each writes a file of its own and puts it in place.
        let new = self.path.with_extension(format!("epoch.{}", std::process::id()));
        std::fs::write(&new, text).with_context(named)?;
        std::fs::rename(&new, &self.path).with_context(named)
    }
}

/// Where a file database lies, on one line.
fn file(store: &Store) -> Option<String> {
    match store {
        Store::Sqlite(db) => db.file().map(|file| file.display().to_string().replace('\n', " ")),
        Store::Postgres(_) => None,
    }
}

const FORGOTTEN: &str = "the database does not know a post that it accepted from this node: it was switched to a server that \
                         had not received it, or restored, and what was accepted then is missing; hand it in again where \
                         nobody repeats it, look at `rupor delivery list --status queued`, then `rupor release` lets \
                         sending go on";

/// A new file where the note remembers another one: it was deleted, or moved away.
fn emptied(known: &Lines, file: &str) -> Option<String> {
    let before =
        known.values().filter(|line| line.file.as_deref() == Some(file)).map(|line| line.count).max()?;
    Some(format!(
        "{file} is new and empty, but the note beside its key remembers another database there (as far as {before}): the \
         file was deleted or replaced, and what that one has sent would be sent again; put the file back or restore a \
         backup, or `rupor release` lets this one begin anew"
    ))
}

/// Why this database must not send before a person has looked.
fn problem(epoch: &Epoch, known: Option<i64>, alone: bool) -> Option<String> {
    const LOOK: &str = "what was sent since then would be sent again; look at `rupor delivery list --status queued`, \
                        then `rupor release` lets sending go on";
    match known {
        Some(count) if epoch.count < count => Some(format!(
            "the database has gone back from {count} to {}: it was restored from a backup, or switched to a server that \
             had not received everything, and {LOOK}",
            epoch.count
        )),
        Some(_) => None,
        // Many nodes share a PostgreSQL, and a new one knows nothing yet; a file has one owner.
        None if alone => Some(format!(
            "this database has run before, but this machine does not know how far it had come: it was moved or restored, and {LOOK}"
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
        let history = store.history().await.unwrap();
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
        let held = store.held().await.unwrap().expect("everything is held");
        assert!(held.starts_with(store::HISTORY_LOST) && held.ends_with(&why), "{held}");
        let renewed = store.history().await.unwrap();
        assert_ne!(renewed, history, "keys of before must not be met again");
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

    #[tokio::test]
    async fn an_empty_database_where_the_note_remembers_another_one_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("r.db");
        let note = Note::beside(&database.with_extension("key"));
        let store = open(&database).await;
        assert_eq!(note.check(&store).await.unwrap(), None, "the first start is nothing unusual");
        drop(store);
        closed(&database).await;
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", database.display()));
        }

        let store = open(&database).await;
        let why = note.check(&store).await.unwrap().expect("the file was deleted");
        assert!(why.contains("was deleted or replaced") && why.contains("rupor release"), "{why}");
        assert!(store.held().await.unwrap().is_some_and(|held| held.ends_with(&why)));
        store.hold_all(None).await.unwrap();
        assert_eq!(note.check(&store).await.unwrap(), None, "released once is released");

        let other = open(&folder.path().join("other.db")).await;
        assert_eq!(
            note.check(&other).await.unwrap(),
            None,
            "a second database beside the same key is nothing unusual"
        );
    }

    #[tokio::test]
    async fn a_database_that_goes_back_while_a_node_runs_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let (database, note) = (folder.path().join("r.db"), Note { path: folder.path().join("r.epoch") });
        let store = open(&database).await;
        assert_eq!(note.check(&store).await.unwrap(), None);
        assert_eq!(note.advance(&store).await.unwrap(), None);
        // Another server that had not received the last ones looks like this.
        let mut known = note.read().unwrap();
        known.values_mut().for_each(|line| line.count += 2);
        note.write(&known).unwrap();

        let why = note.advance(&store).await.unwrap().expect("it stands behind the note");
        assert!(why.contains("had not received everything"), "{why}");
        assert!(store.held().await.unwrap().is_some());
        assert_eq!(note.compare(&store).await.unwrap(), None, "said once");
        assert_eq!(note.advance(&store).await.unwrap(), None);
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
