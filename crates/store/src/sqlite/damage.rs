//! Damage to the file: looked for, and what can be read saved into a new one.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::connect::{connect, connect_reader, failure};
use super::copy::{in_memory, require_file};
use super::media::off_thread;
use super::{Sqlite, lock_file, migrate};
use crate::address::SqlitePath;
use crate::copy::{CONTROL, TABLES, quoted};
use crate::error::{Result, StoreError};

/// Pages and order of rows; leaves out whether indexes agree with their tables, which takes many times longer.
const QUICK: &str = "PRAGMA quick_check(1)";
const WHOLE: &str = "PRAGMA integrity_check(20)";
const ORPHANS: &str = "PRAGMA foreign_key_check";
const IS_KEYED: &str = "SELECT count(*) FROM pragma_table_list WHERE name = ?1 AND wr = 1";
const HELD: &str = "UPDATE control SET held = 1, held_why = ?1";
const SAVED: &str = "saved from a damaged file: what was sent or queued last may be missing; look at \
    `rupor delivery list --status queued`, then `rupor release` lets sending go on";
/// Rows looked for one by one behind a place that cannot be read, before the table is given up.
const GAP_MAX: i64 = 100_000;

/// What a repair brought over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Rows by table.
    pub tables: Vec<(&'static str, u64)>,
    /// Tables in which something could not be read.
    pub broken: Vec<&'static str>,
    /// Rows left out because what they refer to was lost.
    pub orphans: u64,
}

impl Sqlite {
    /// Looks through the file on a connection of its own.
    pub async fn look_for_damage(&self) -> Result<()> {
        let path = self.path.clone();
        let found = off_thread(move || match connect_reader(&path)? {
            Some(connection) => found(&connection, &path, QUICK),
            None => Ok(Vec::new()),
        })
        .await;
        let result = found.and_then(|found| match found.first() {
            None => Ok(()),
            Some(first) => {
                Err(StoreError::Corrupt { address: self.path.to_string(), problem: first.clone() })
            }
        });
        match &result {
            Ok(()) => self.pulse.sound(),
            Err(error) => self.pulse.failed(error),
        }
        result
    }
}

/// Everything that is wrong with a file, as far as it can be told; empty: nothing. It may be in use.
pub async fn check(path: &SqlitePath) -> Result<Vec<String>> {
    require_file(path)?;
    let path = path.clone();
    off_thread(move || {
        let connection = connect_reader(&path)?.ok_or_else(|| in_memory(&path))?;
        let mut wrong = found(&connection, &path, WHOLE)?;
        if wrong.is_empty() {
            let orphans = orphans(&connection).map_err(|error| failure(&path, error))?;
            let told =
                |(table, row): (String, i64)| format!("{table}: row {row} refers to one that is not there");
            wrong.extend(orphans.into_iter().take(20).map(told));
        }
        Ok(wrong)
    })
    .await
}

/// Saves what can be read into a new file, which is held until somebody has looked. The damaged one is not changed.
pub async fn repair(path: &SqlitePath, to: &Path) -> Result<Repaired> {
    require_file(path)?;
    if to.exists() {
        let problem = format!("{} is there already; choose another name", to.display());
        return Err(StoreError::invalid("repair", problem));
    }
    let (path, target) = (path.clone(), SqlitePath::File(to.to_owned()));
    off_thread(move || {
        let _lock = lock_file(&path)?;
        let source = connect_reader(&path)?.ok_or_else(|| in_memory(&path))?;
        let mut new = connect(&target)?;
        migrate::migrate_connection(&mut new, &target)?;
        save(&source, &new).map_err(|error| failure(&target, error))
    })
    .await
}

fn found(connection: &Connection, path: &SqlitePath, check: &str) -> Result<Vec<String>> {
    let look = || -> rusqlite::Result<Vec<String>> {
        connection.prepare(check)?.query_map([], |row| row.get(0))?.collect()
    };
    match look() {
        Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
        Err(error) => match failure(path, error) {
            StoreError::Corrupt { problem, .. } => Ok(vec![problem]),
            other => Err(other),
        },
    }
}

fn orphans(connection: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut statement = connection.prepare(ORPHANS)?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or_default())))?;
    rows.collect()
}

fn save(source: &Connection, new: &Connection) -> rusqlite::Result<Repaired> {
    let mut repaired = Repaired::default();
    new.execute_batch("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")?;
    for table in TABLES {
        let (rows, whole) = save_table(source, new, table.name)?;
        repaired.tables.push((table.name, rows));
        if !whole {
            repaired.broken.push(table.name);
        }
    }
    // What refers to something that was lost goes, until nothing does.
    loop {
        let orphans = orphans(new)?;
        if orphans.is_empty() {
            break;
        }
        for (table, row) in orphans {
            let sql = format!("DELETE FROM \"{table}\" WHERE rowid = ?1");
            repaired.orphans += new.execute(&sql, [row])? as u64;
        }
    }
    new.execute("INSERT OR IGNORE INTO control (one) VALUES (1)", [])?;
    new.execute(HELD, [SAVED])?;
    new.execute_batch("COMMIT; PRAGMA foreign_keys = ON")?;
    Ok(repaired)
}

/// In order while it goes; behind a place that cannot be read, row by row.
fn save_table(source: &Connection, new: &Connection, table: &'static str) -> rusqlite::Result<(u64, bool)> {
    let columns: Vec<String> = new
        .prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?
        .query_map([table], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let list = quoted(&columns);
    let places = vec!["?"; columns.len()].join(", ");
    if table == CONTROL {
        new.execute("DELETE FROM control", [])?;
    }
    let insert = format!("INSERT OR IGNORE INTO {table} ({list}) VALUES ({places})");
    let keyed: i64 = new.query_row(IS_KEYED, [table], |row| row.get(0))?;
    let id = if keyed > 0 { "0" } else { "rowid" };
    let mut copy = Copying { insert: new.prepare(&insert)?, last: i64::MIN, rows: 0 };
    let all = format!("SELECT {id}, {list} FROM {table} ORDER BY {id}");
    if copy.run(source, &all, None).is_ok() {
        return Ok((copy.rows, true));
    }
    if keyed == 0 {
        let one = format!("SELECT rowid, {list} FROM {table} WHERE rowid = ?1");
        let behind = format!("SELECT rowid, {list} FROM {table} WHERE rowid > ?1 ORDER BY rowid");
        let mut gap = 0;
        let mut next = copy.last.saturating_add(1).max(1);
        while gap < GAP_MAX {
            let before = copy.rows;
            let _ = copy.run(source, &one, Some(next));
            if copy.rows > before && copy.run(source, &behind, Some(next)).is_ok() {
                break;
            }
            gap = if copy.rows > before { 0 } else { gap + 1 };
            next = copy.last.max(next).saturating_add(1);
        }
    }
    Ok((copy.rows, false))
}

struct Copying<'a> {
    insert: rusqlite::Statement<'a>,
    last: i64,
    rows: u64,
}

impl Copying<'_> {
    fn run(&mut self, source: &Connection, sql: &str, from: Option<i64>) -> rusqlite::Result<()> {
        let mut statement = source.prepare(sql)?;
        let n_columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(from))?;
        while let Some(row) = rows.next()? {
            let values = (1..n_columns).map(|n| row.get::<_, Value>(n));
            let values = values.collect::<rusqlite::Result<Vec<_>>>()?;
            self.last = row.get(0)?;
            // A row that breaks a rule of its table is damaged too.
            self.rows += self.insert.execute(params_from_iter(values)).unwrap_or_default() as u64;
        }
        Ok(())
    }
}
