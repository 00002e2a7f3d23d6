//! A SQLite file as the source or the target of a copy.
//! The bytes of media travel with their rows and lie in the folder beside the file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

use super::connect::{connect, connect_reader, failure};
use super::media::{media_folder, media_path, off_thread, read_file, remove_file, write_file};
use super::{lock_file, migrate};
use crate::address::SqlitePath;
use crate::copy::{CONTROL, MEDIA, Row, TABLES, Table, Value, occupied, quoted};
use crate::error::{Result, StoreError};

const COLUMNS: &str = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
const KEY: &str = "SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk";
const COUNTS_IDS: &str = "
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND sql LIKE '%AUTOINCREMENT%'";
const LAST_ID: &str = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?1";
const FORGET_LAST_ID: &str = "DELETE FROM sqlite_sequence WHERE name = ?1";
const SET_LAST_ID: &str = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
const HAS_TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
const HOLD: &str = "UPDATE control SET held = 1, held_why = ?1";

/// A connection that works off the async threads.
#[derive(Clone)]
struct Hand {
    connection: Arc<Mutex<Connection>>,
    path: SqlitePath,
}

impl Hand {
    fn new(connection: Connection, path: &SqlitePath) -> Hand {
        Hand { connection: Arc::new(Mutex::new(connection)), path: path.clone() }
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let Hand { connection, path } = self.clone();
        off_thread(move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            job(&connection).map_err(|error| failure(&path, error))
        })
        .await
    }

    async fn columns(&self, table: &Table) -> Result<Vec<String>> {
        let name = table.name;
        self.run(move |db| names(db, COLUMNS, name)).await
    }

    async fn count(&self, table: &Table) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM {}", table.name);
        self.run(move |db| db.query_row(&sql, [], |row| row.get::<_, i64>(0))).await.map(|n| n as u64)
    }
}

pub(crate) struct Source {
    hand: Hand,
    path: SqlitePath,
    /// Nobody else has the file while this is held.
    _lock: Option<std::fs::File>,
    reading: Reading,
    media_missing: u64,
}

/// Where the reading of a table stands.
#[derive(Debug, Clone, Default)]
struct Reading {
    first: String,
    further: String,
    /// Places of the key among the columns, and its last value.
    key: Vec<usize>,
    after: Option<Row>,
    /// The places of what a media row says of its bytes.
    columns: BTreeMap<String, usize>,
}

impl Source {
    pub(crate) async fn open(path: &SqlitePath) -> Result<Source> {
        require_file(path)?;
        let lock = lock_file(path)?;
        let connection = connect_reader(path)?.ok_or_else(|| in_memory(path))?;
        migrate::require_current(&connection, path)?;
        connection.execute_batch("BEGIN").map_err(|error| failure(path, error))?;
        let (hand, reading) = (Hand::new(connection, path), Reading::default());
        Ok(Source { hand, path: path.clone(), _lock: lock, reading, media_missing: 0 })
    }

    pub(crate) async fn columns(&self, table: &Table) -> Result<Vec<String>> {
        self.hand.columns(table).await
    }

    pub(crate) async fn count(&self, table: &Table) -> Result<u64> {
        self.hand.count(table).await
    }

    pub(crate) async fn last_id(&self, table: &Table) -> Result<Option<i64>> {
        let name = table.name;
        self.hand
            .run(move |db| match counts_ids(db, name)? {
                true => db.query_row(LAST_ID, [name], |row| row.get(0)).map(Some),
                false => Ok(None),
            })
            .await
    }

    pub(crate) fn media_missing(&self) -> u64 {
        self.media_missing
    }

    pub(crate) async fn begin(&mut self, table: &Table, columns: &[String]) -> Result<()> {
        let name = table.name;
        let key = self.hand.run(move |db| names(db, KEY, name)).await?;
        let told = |column: &String| match table.derived.iter().find(|(derived, _)| derived == column) {
            Some((_, words)) => (*words).to_owned(),
            None => format!("\"{column}\""),
        };
        let select: Vec<String> = columns.iter().map(told).collect();
        let (select, order) = (select.join(", "), quoted(&key));
        let marks: Vec<String> = (1..=key.len()).map(|n| format!("?{n}")).collect();
        let end = format!("ORDER BY {order} LIMIT {}", table.batch);
        let marks = marks.join(", ");
        self.reading = Reading {
            first: format!("SELECT {select} FROM {name} {end}"),
            further: format!("SELECT {select} FROM {name} WHERE ({order}) > ({marks}) {end}"),
            key: key.iter().filter_map(|key| columns.iter().position(|column| column == key)).collect(),
            after: None,
            columns: columns.iter().cloned().zip(0..).collect(),
        };
        Ok(())
    }

    pub(crate) async fn next(&mut self, table: &Table) -> Result<Vec<Row>> {
        let reading = self.reading.clone();
        let mut rows = self.hand.run(move |db| read(db, &reading)).await?;
        if let Some(last) = rows.last() {
            self.reading.after = Some(self.reading.key.iter().map(|&place| last[place].clone()).collect());
        }
        if table.name == MEDIA {
            for row in &mut rows {
                self.fetch_bytes(row).await?;
            }
        }
        Ok(rows)
    }

    /// A row of media whose bytes lie in the folder gets them. A file of another length is not the one that was kept.
    async fn fetch_bytes(&mut self, row: &mut Row) -> Result<()> {
        let place = |name: &str| self.reading.columns.get(name).copied();
        let (Some(name), Some(length), Some(bytes)) = (place("sha256"), place("bytes_count"), place("bytes"))
        else {
            return Ok(());
        };
        let (Value::Text(name), Value::Integer(length), Value::Null) =
            (&row[name], &row[length], &row[bytes])
        else {
            return Ok(());
        };
        let found = match media_path(&self.path, name) {
            Some(file) => off_thread(move || read_file(&file)).await?,
            None => None,
        };
        match found.filter(|found| found.len() as i64 == *length) {
            Some(found) => row[bytes] = Value::Bytes(found.into()),
            None => self.media_missing += 1,
        }
        Ok(())
    }

    /// The lock says so all the time.
    pub(crate) async fn still_alone(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) async fn hold(self, why: &str) -> Result<()> {
        let (why, path) = (why.to_owned(), self.path.clone());
        let connection = connect(&path)?;
        Hand::new(connection, &path).run(move |db| db.execute(HOLD, [why]).map(drop)).await
    }
}

pub(crate) struct Target {
    hand: Hand,
    path: SqlitePath,
    _lock: Option<std::fs::File>,
    /// The file was not there before.
    created: bool,
    /// Media files that were not there before.
    files: Vec<PathBuf>,
}

impl Target {
    pub(crate) async fn open(path: &SqlitePath) -> Result<Target> {
        let SqlitePath::File(file) = path else {
            return Err(in_memory(path));
        };
        let created = !file.exists();
        let lock = lock_file(path)?;
        let target = connect(path).map(|connection| Target {
            hand: Hand::new(connection, path),
            path: path.clone(),
            _lock: lock,
            created,
            files: Vec::new(),
        })?;
        match target.prepare().await {
            Ok(()) => Ok(target),
            Err(error) => {
                target.abandon().await;
                Err(error)
            }
        }
    }

    /// A file without tables gets the schema; anything else must have it, and be empty.
    async fn prepare(&self) -> Result<()> {
        let path = self.path.clone();
        let connection = Arc::clone(&self.hand.connection);
        off_thread(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let fail = |error| failure(&path, error);
            let n: i64 = connection.query_row(HAS_TABLES, [], |row| row.get(0)).map_err(fail)?;
            if n == 0 {
                migrate::migrate_connection(&mut connection, &path)?;
            }
            migrate::require_current(&connection, &path)?;
            connection.execute_batch("BEGIN IMMEDIATE").map_err(fail)?;
            for table in TABLES.iter().filter(|table| table.name != CONTROL) {
                let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", table.name);
                if connection.query_row(&sql, [], |row| row.get(0)).map_err(fail)? {
                    return Err(occupied(&path, table.name));
                }
            }
            connection.execute_batch("DELETE FROM control").map_err(fail)
        })
        .await
    }

    pub(crate) async fn columns(&self, table: &Table) -> Result<Vec<String>> {
        self.hand.columns(table).await
    }

    pub(crate) async fn count(&self, table: &Table) -> Result<u64> {
        self.hand.count(table).await
    }

    pub(crate) async fn write(
        &mut self,
        table: &Table,
        columns: &[String],
        mut rows: Vec<Row>,
    ) -> Result<()> {
        if table.name == MEDIA {
            let place = |name: &str| columns.iter().position(|column| column == name);
            if let (Some(name), Some(bytes)) = (place("sha256"), place("bytes")) {
                for row in &mut rows {
                    self.shelve(row, name, bytes).await?;
                }
            }
        }
        let marks: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
        let (name, columns) = (table.name, quoted(columns));
        let sql = format!("INSERT INTO {name} ({columns}) VALUES ({})", marks.join(", "));
        let written = self.hand.run(move |db| {
            let mut insert = db.prepare_cached(&sql)?;
            for row in &rows {
                insert.execute(params_from_iter(row.iter()))?;
            }
            Ok(())
        });
        written.await.map_err(|error| match error {
            StoreError::Database(problem) => StoreError::Database(format!("table {name}: {problem}")),
            other => other,
        })
    }

    /// The bytes of a media row go into the folder.
    async fn shelve(&mut self, row: &mut Row, name: usize, bytes: usize) -> Result<()> {
        let Value::Text(sha256) = &row[name] else {
            return Ok(());
        };
        let Some(file) = media_path(&self.path, sha256) else {
            return Ok(());
        };
        if let Value::Bytes(found) = std::mem::replace(&mut row[bytes], Value::Null) {
            if !file.exists() {
                self.files.push(file.clone());
            }
            off_thread(move || write_file(&file, &found)).await?;
        }
        Ok(())
    }

    /// Tables without a counter take the highest id that is there, as always.
    pub(crate) async fn continue_ids(&mut self, table: &Table, last: Option<i64>) -> Result<()> {
        let name = table.name;
        self.hand
            .run(move |db| {
                let Some(last) = last.filter(|last| *last > 0) else {
                    return Ok(());
                };
                if !counts_ids(db, name)? {
                    return Ok(());
                }
                let here: i64 = db.query_row(LAST_ID, [name], |row| row.get(0))?;
                db.execute(FORGET_LAST_ID, [name])?;
                db.execute(SET_LAST_ID, (name, last.max(here))).map(drop)
            })
            .await
    }

    pub(crate) async fn commit(&mut self) -> Result<()> {
        self.hand.run(|db| db.execute_batch("COMMIT")).await
    }

    /// Best effort: the error that matters is the one being told.
    pub(crate) async fn abandon(self) {
        let _ = self.hand.run(|db| db.execute_batch("ROLLBACK")).await;
        let Target { hand, path, created, files, _lock } = self;
        drop(hand);
        let _ = off_thread(move || {
            for file in &files {
                remove_file(file)?;
            }
            if created { forget(&path) } else { Ok(()) }
        })
        .await;
        drop(_lock);
    }
}

/// Removes a database with everything around it; media that are not ours stay.
fn forget(path: &SqlitePath) -> Result<()> {
    let SqlitePath::File(database) = path else {
        return Ok(());
    };
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let mut name = database.clone().into_os_string();
        name.push(suffix);
        remove_file(&PathBuf::from(name))?;
    }
    if let Some(folder) = media_folder(path) {
        remove_empty(&folder);
    }
    Ok(())
}

/// Folders that are empty go, with their parent.
fn remove_empty(folder: &std::path::Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir(entry.path());
    }
    let _ = std::fs::remove_dir(folder);
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        let value = match self {
            Value::Null => ValueRef::Null,
            Value::Integer(n) => ValueRef::Integer(*n),
            Value::Real(n) => ValueRef::Real(*n),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        };
        Ok(rusqlite::types::ToSqlOutput::Borrowed(value))
    }
}

fn read(db: &Connection, reading: &Reading) -> rusqlite::Result<Vec<Row>> {
    let (sql, after) = match &reading.after {
        None => (&reading.first, [].as_slice()),
        Some(after) => (&reading.further, after.as_slice()),
    };
    let mut statement = db.prepare_cached(sql)?;
    let width = statement.column_count();
    let rows = statement.query_map(params_from_iter(after), |row| {
        (0..width)
            .map(|n| {
                Ok(match row.get_ref(n)? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(n) => Value::Integer(n),
                    ValueRef::Real(n) => Value::Real(n),
                    ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                    ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
                })
            })
            .collect()
    })?;
    rows.collect()
}

fn names(db: &Connection, sql: &str, table: &str) -> rusqlite::Result<Vec<String>> {
    db.prepare_cached(sql)?.query_map([table], |row| row.get(0))?.collect()
}

fn counts_ids(db: &Connection, table: &str) -> rusqlite::Result<bool> {
    db.query_row(COUNTS_IDS, [table], |row| row.get::<_, i64>(0)).map(|n| n > 0)
}

pub(super) fn require_file(path: &SqlitePath) -> Result<()> {
    match path {
        SqlitePath::File(file) if !file.exists() => {
            Err(StoreError::NoFile { address: path.to_string(), problem: "there is no such file".into() })
        }
        SqlitePath::File(_) => Ok(()),
        SqlitePath::Memory => Err(in_memory(path)),
    }
}

pub(super) fn in_memory(path: &SqlitePath) -> StoreError {
    StoreError::BadAddress {
        address: path.to_string(),
        problem: "a database in memory belongs to the process that opened it".into(),
    }
}
