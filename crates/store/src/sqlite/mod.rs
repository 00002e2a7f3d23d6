//! The embedded driver: one writer thread, a few readers, one file.
//!
//! Each verb of the queue is a file; its rules come from `domain`, so this driver is also the readable form of
//! what the PostgreSQL functions do. Statements run one by one inside the transaction: in process, a prepared
//! statement costs microseconds and the commit is what is dear.

mod accounts;
mod audiences;
mod audit;
pub mod backup;
mod bot;
mod bots;
mod calls;
mod campaigns;
mod cases;
mod channels;
mod claim;
mod commit;
mod connect;
pub(crate) mod copy;
pub mod damage;
mod disk;
mod enqueue;
mod feed;
mod freeze;
mod front;
mod heads;
mod held_posts;
mod history;
mod insert;
mod intake;
mod late;
mod maintain;
mod media;
pub mod migrate;
mod moving;
mod overview;
mod place;
mod progress;
mod read;
mod recipients;
mod recover;
mod refile;
mod retain;
mod rows;
mod sent;
mod settle;
mod sources;
mod stepped;
mod watch;
mod waves;
mod workspaces;
mod writer;

#[cfg(test)]
mod plans;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use domain::time::Timestamp;
use rusqlite::{CachedStatement, Connection};

use crate::address::SqlitePath;
use crate::clock::Clock;
use crate::config::Actor;
use crate::error::{Result, StoreError};
use crate::health::{Health, Pulse};
use crate::keyring::Keyring;
use crate::tally::{PoolUse, Tally};
use crate::wake::{Bell, WakeUp};
use connect::failure;
use place::Place;
use writer::{Urgency, Writer};

const LOOK: &str = "SELECT one FROM control";

/// Connections that only read, opened when first needed.
const READERS_MAX: usize = 4;

#[derive(Debug, Clone)]
pub struct Sqlite {
    /// Absent when the file was opened for reading beside the process that has it.
    writer: Option<Writer>,
    readers: Arc<Readers>,
    path: SqlitePath,
    keyring: Arc<Keyring>,
    clock: Clock,
    bell: Bell,
    /// In whose hands this is; `None`: Rupor itself.
    actor: Option<Arc<Actor>>,
    place: Place,
    pub(crate) pulse: Pulse,
    pub(crate) tally: Tally,
}

#[derive(Debug)]
struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: tokio::sync::Semaphore,
}

impl Readers {
    fn new() -> Readers {
        Readers { idle: Mutex::default(), permits: tokio::sync::Semaphore::new(READERS_MAX) }
    }
}

impl Sqlite {
    /// Opens the file for this process alone.
    pub async fn open(path: &SqlitePath, keyring: Keyring, clock: Clock) -> Result<Sqlite> {
        let guard = lock_file(path)?;
        let mut connection = connect::connect(path)?;
        if *path == SqlitePath::Memory {
            migrate::migrate_connection(&mut connection, path)?;
        }
        migrate::require_current(&connection, path)?;
        fit_key(&connection, path, &keyring)?;
        let place = Place::of(path);
        stepped::forget(&connection, path, clock.now())?;
        recover::end_abandoned(&connection, clock.now()).map_err(|error| failure(path, error))?;
        Ok(Sqlite {
            writer: Some(Writer::start(connection, path.clone(), place.clone(), guard)?),
            readers: Arc::new(Readers::new()),
            path: path.clone(),
            keyring: Arc::new(keyring),
            clock,
            bell: Bell::new(),
            actor: None,
            place,
            pulse: Pulse::new(),
            tally: Tally::default(),
        })
    }

    /// Opens the file for reading only, beside whoever has it: no lock is taken and nothing can be changed.
    pub async fn open_reading(path: &SqlitePath, keyring: Keyring) -> Result<Sqlite> {
        let connection = connect::connect_reader(path)?.ok_or_else(|| StoreError::BadAddress {
            address: path.to_string(),
            problem: "a database in memory belongs to the process that opened it".into(),
        })?;
        migrate::require_current(&connection, path)?;
        if let Some(check) = key_check(&connection, path)? {
            keyring.verify(Some(&check))?;
        }
        let readers = Readers::new();
        readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(Sqlite {
            writer: None,
            readers: Arc::new(readers),
            path: path.clone(),
            keyring: Arc::new(keyring),
            clock: Clock::system(),
            bell: Bell::new(),
            actor: None,
            place: Place::of(path),
            pulse: Pulse::new(),
            tally: Tally::default(),
        })
    }

    /// A database in memory whose jobs run in the caller, one after the other: for simulations.
    pub fn in_memory_inline(keyring: Keyring, clock: Clock) -> Result<Sqlite> {
        let path = SqlitePath::Memory;
        let mut connection = connect::connect(&path)?;
        migrate::migrate_connection(&mut connection, &path)?;
        fit_key(&connection, &path, &keyring)?;
        // A run can be repeated exactly, keys and all.
        connection
            .execute_batch("UPDATE control SET history = 'simulated'")
            .map_err(|error| failure(&path, error))?;
        Ok(Sqlite {
            writer: Some(Writer::inline(connection, path.clone())),
            readers: Arc::new(Readers::new()),
            path,
            keyring: Arc::new(keyring),
            clock,
            bell: Bell::new(),
            actor: None,
            place: Place::default(),
            pulse: Pulse::new(),
            tally: Tally::default(),
        })
    }

    /// Runs statements past all rules: how a simulation plants the damage that its checker must find. A file has no such
    /// door.
    pub async fn spoil(&self, sql: &'static str) -> Result<()> {
        if self.path != SqlitePath::Memory {
            return Err(StoreError::invalid("spoil", "only a database in memory can be spoiled"));
        }
        let path = self.path.clone();
        self.write(Urgency::Maintenance, move |tx| {
            tx.connection.execute_batch(sql).map_err(|error| failure(&path, error))
        })
        .await
    }

    pub fn by(&self, actor: Actor) -> Sqlite {
        Sqlite { actor: Some(Arc::new(actor)), ..self.clone() }
    }

    /// Where the file lies, by its full name; none for a database in memory.
    pub fn file(&self) -> Option<std::path::PathBuf> {
        match &self.path {
            SqlitePath::File(file) => Some(std::path::absolute(file).unwrap_or_else(|_| file.clone())),
            SqlitePath::Memory => None,
        }
    }

    /// Also says whether the file is still there: whoever asks wants to know whether the database answers.
    pub async fn now(&self) -> Result<Timestamp> {
        self.place.check()?;
        Ok(self.clock.now())
    }

    pub async fn wake_up(&self) -> Result<WakeUp> {
        Ok(self.bell.listen())
    }

    /// A quota for the file, in pages of 4 KiB: writes beyond it fail as on a full disk.
    pub async fn limit_pages(&self, pages: u32) -> Result<()> {
        let sql = format!("PRAGMA max_page_count = {pages}");
        self.write(Urgency::Maintenance, move |tx| tx.first(&sql, [], |_| Ok(())).map(drop)).await
    }

    /// A write, with the time it happens at.
    async fn write<T: Send + 'static>(
        &self,
        urgency: Urgency,
        job: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (path, clock) = (self.path.clone(), self.clock.clone());
        let writer = self.writer.as_ref().ok_or_else(|| StoreError::ReadOnly {
            address: path.to_string(),
            problem: "it was opened for reading".into(),
        })?;
        let actor = self.actor.clone();
        let done = writer.run(urgency, move |connection| {
            let before = connection.total_changes();
            let value = job(&Tx { actor: actor.as_deref(), ..Tx::new(connection, &path, clock.now()) })?;
            Ok((value, connection.total_changes() > before))
        });
        match done.await {
            Ok((value, true)) => {
                self.pulse.wrote();
                Ok(value)
            }
            Ok((value, false)) => {
                self.pulse.answered();
                Ok(value)
            }
            Err(error) => {
                self.pulse.failed(&error);
                Err(error)
            }
        }
    }

    /// How the database does, as this process sees it.
    pub fn health(&self) -> Health {
        self.pulse.health()
    }

    pub(crate) fn pool_use(&self) -> PoolUse {
        let free = self.readers.permits.available_permits();
        PoolUse {
            most: READERS_MAX as u64,
            busy: (READERS_MAX - free.min(READERS_MAX)) as u64,
            idle: free as u64,
            waiting: 0,
        }
    }

    /// Words about trouble that is coming.
    pub fn warning(&self) -> Option<String> {
        self.pulse.warning()
    }

    pub fn slowness(&self) -> Option<String> {
        self.pulse.slowness()
    }

    /// Stands in line with the writes and changes nothing: whether the writer works.
    pub async fn look(&self) -> Result<()> {
        let asked = std::time::Instant::now();
        let looked = self.write(Urgency::Maintenance, |tx| tx.first(LOOK, [], |_| Ok(())).map(drop)).await;
        self.pulse.took(asked.elapsed());
        looked
    }

    /// A read on a connection of its own; a database in memory has only the writer's.
    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.path == SqlitePath::Memory {
            return self.write(Urgency::Maintenance, job).await;
        }
        let permit = self.readers.permits.acquire().await;
        let (path, clock, readers) = (self.path.clone(), self.clock.clone(), Arc::clone(&self.readers));
        let task = tokio::task::spawn_blocking(move || {
            let idle = readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match idle {
                Some(connection) => connection,
                None => connect::connect_reader(&path)?
                    .ok_or_else(|| StoreError::Database("a database in memory has no readers".into()))?,
            };
            let result = job(&Tx::new(&connection, &path, clock.now()));
            readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            result
        });
        let result = task.await.unwrap_or_else(|_| Err(StoreError::Database("a read panicked".into())));
        drop(permit);
        result
    }
}

/// A connection as the writer has it, without its rules: what they cost is measured against it.
pub fn bare_connection(path: &SqlitePath) -> Result<Connection> {
    connect::connect(path)
}

/// What a job sees of its transaction.
struct Tx<'a> {
    connection: &'a Connection,
    path: &'a SqlitePath,
    now: Timestamp,
    actor: Option<&'a Actor>,
    /// Statements used before in this transaction: a batch runs a handful of them hundreds of times.
    prepared: RefCell<Vec<Prepared<'a>>>,
}

/// A statement and the text it was made from; where that text stands tells most of them apart.
struct Prepared<'a> {
    sql: String,
    place: *const u8,
    statement: CachedStatement<'a>,
}

impl<'a> Tx<'a> {
    fn new(connection: &'a Connection, path: &'a SqlitePath, now: Timestamp) -> Tx<'a> {
        Tx { connection, path, now, actor: None, prepared: RefCell::default() }
    }

    /// Runs `work` on the statement, which is out of reach meanwhile.
    fn with<T>(
        &self,
        sql: &str,
        work: impl FnOnce(&mut CachedStatement<'a>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let place = sql.as_ptr();
        let known = |known: &Prepared<'_>| std::ptr::eq(known.place, place) && known.sql == sql;
        let found = self.prepared.borrow().iter().position(known);
        let mut prepared = match found {
            Some(n) => self.prepared.borrow_mut().swap_remove(n),
            None => {
                let statement = self.connection.prepare_cached(sql).map_err(|error| self.failure(error))?;
                Prepared { sql: sql.to_owned(), place, statement }
            }
        };
        let result = work(&mut prepared.statement).map_err(|error| self.failure(error));
        self.prepared.borrow_mut().push(prepared);
        result
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        self.with(sql, |statement| statement.execute(params))
    }

    /// Inserts a row and returns its id.
    fn insert(&self, sql: &str, params: impl rusqlite::Params) -> Result<i64> {
        self.execute(sql, params)?;
        Ok(self.connection.last_insert_rowid())
    }

    fn all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.with(sql, |statement| statement.query_map(params, row).and_then(Iterator::collect))
    }

    fn each(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        mut row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        self.with(sql, |statement| {
            let mut rows = statement.query(params)?;
            while let Some(found) = rows.next()? {
                row(found)?;
            }
            Ok(())
        })
    }

    fn first<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        row: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.with(sql, |statement| match statement.query_row(params, row) {
            Ok(value) => Ok(Some(value)),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn failure(&self, error: rusqlite::Error) -> StoreError {
        failure(self.path, error)
    }
}

/// Refuses a second process with a clear message; the lock goes with the process.
fn lock_file(path: &SqlitePath) -> Result<Option<std::fs::File>> {
    let SqlitePath::File(file) = path else {
        return Ok(None);
    };
    let mut name = file.clone().into_os_string();
    name.push(".lock");
    let unusable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            connect::read_only(path, error.to_string())
        }
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            StoreError::DiskFull { address: path.to_string() }
        }
        _ => StoreError::NoFile { address: path.to_string(), problem: error.to_string() },
    };
    let lock = disk::private_file(std::path::Path::new(&name)).map_err(unusable)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::InUse { address: path.to_string() }),
        Err(std::fs::TryLockError::Error(error)) => Err(unusable(error)),
    }
}

fn fit_key(connection: &Connection, path: &SqlitePath, keyring: &Keyring) -> Result<()> {
    let check = key_check(connection, path)?;
    if let Some(sealed) = keyring.verify(check.as_deref())? {
        connection
            .execute("UPDATE control SET key_check = ?1", [sealed])
            .map_err(|error| failure(path, error))?;
    }
    Ok(())
}

fn key_check(connection: &Connection, path: &SqlitePath) -> Result<Option<Vec<u8>>> {
    connection
        .query_row("SELECT key_check FROM control", [], |row| row.get(0))
        .map_err(|error| failure(path, error))
}
