//! A copy of the file while its node runs, and of the media that its rows name.
//!
//! The copy is one snapshot: it is made in a single read transaction, which keeps no writer waiting. The key that opens
//! the tokens is not part of it, on purpose.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::connect::{connect_reader, failure};
use super::copy::{in_memory, require_file};
use super::disk::PRIVATE_FILE;
use super::media::{media_folder, media_path, off_thread, read_file, remove_file, write_file};
use super::migrate;
use crate::address::SqlitePath;
use crate::error::{Result, StoreError};

const KEPT_IN_FILES: &str = "SELECT DISTINCT sha256 FROM media_origin WHERE bytes IS NULL ORDER BY sha256";
const CHECK: &str = "PRAGMA quick_check(1)";
/// One file instead of three; a node that opens it changes that back.
const ONE_FILE: &str = "PRAGMA journal_mode = DELETE";

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    pub bytes: u64,
    pub media: u64,
    /// Media whose file was not there: thrown out meanwhile, or lost before.
    pub media_missing: u64,
    /// Where they lie.
    pub media_folder: PathBuf,
}

/// Writes `to` and the folder `to`.media. Neither may be there; what fails leaves nothing behind.
pub async fn backup(path: &SqlitePath, to: &Path) -> Result<BackedUp> {
    require_file(path)?;
    let (path, target) = (path.clone(), SqlitePath::File(to.to_owned()));
    let folder = media_folder(&target).ok_or_else(|| in_memory(&target))?;
    for taken in [to, &folder] {
        if taken.exists() {
            let problem = format!("{} is there already; choose another name", taken.display());
            return Err(StoreError::invalid("backup", problem));
        }
    }
    let to = to.to_owned();
    off_thread(move || {
        let done = write(&path, &target, &to, &folder);
        if done.is_err() {
            // Best effort: the error that matters is the one being told.
            let _ = remove_file(&unready(&to));
            let _ = std::fs::remove_dir_all(&folder);
        }
        done
    })
    .await
}

fn write(path: &SqlitePath, target: &SqlitePath, to: &Path, folder: &Path) -> Result<BackedUp> {
    let source = connect_reader(path)?.ok_or_else(|| in_memory(path))?;
    migrate::require_current(&source, path)?;
    let unready = unready(to);
    let fail = |error| failure(target, error);
    begin(&unready)?;
    let mut copy = Connection::open(&unready).map_err(fail)?;
    let step = Backup::new(&source, &mut copy).and_then(|backup| backup.step(-1)).map_err(fail)?;
    if step != StepResult::Done {
        let problem = "somebody holds the file; try again".into();
        return Err(StoreError::Busy { address: path.to_string(), problem });
    }
    copy.query_row(ONE_FILE, [], |_| Ok(())).map_err(fail)?;
    let found: String = copy.query_row(CHECK, [], |row| row.get(0)).map_err(fail)?;
    if found != "ok" {
        return Err(StoreError::Corrupt { address: path.to_string(), problem: found });
    }
    let names = copy.prepare(KEPT_IN_FILES).and_then(|mut names| {
        names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
    });
    let names = names.map_err(fail)?;
    drop(copy);
    let n_names = names.len() as u64;
    let media = copy_media(path, target, names)?;
    let bytes = finish(&unready, to)?;
    Ok(BackedUp { bytes, media, media_missing: n_names - media, media_folder: folder.to_owned() })
}

/// An empty private file of our own. One that is there was left by a backup that died, or laid out by somebody who wants
/// to read what is written, perhaps as a link to elsewhere: it is never written into.
fn begin(unready: &Path) -> Result<()> {
    remove_file(unready)?;
    let made = OpenOptions::new().create_new(true).write(true).mode(PRIVATE_FILE).open(unready);
    made.map(drop).map_err(|error| StoreError::Database(format!("backup {}: {error}", unready.display())))
}

fn copy_media(path: &SqlitePath, target: &SqlitePath, names: Vec<String>) -> Result<u64> {
    let mut n = 0;
    for name in names {
        let (Some(from), Some(to)) = (media_path(path, &name), media_path(target, &name)) else {
            continue;
        };
        if let Some(bytes) = read_file(&from)? {
            write_file(&to, &bytes)?;
            n += 1;
        }
    }
    Ok(n)
}

/// On the disk first, then under its name: a backup that has its name is whole.
fn finish(unready: &Path, to: &Path) -> Result<u64> {
    let done = std::fs::File::open(unready).and_then(|file| {
        file.sync_all()?;
        std::fs::rename(unready, to)?;
        Ok(file.metadata()?.len())
    });
    done.map_err(|error| StoreError::Database(format!("backup {}: {error}", to.display())))
}

fn unready(to: &Path) -> PathBuf {
    let mut name = to.to_owned().into_os_string();
    name.push(".new");
    PathBuf::from(name)
}
