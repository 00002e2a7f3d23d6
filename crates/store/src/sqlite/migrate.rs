//! The migration runner: each step is one transaction, so a crash leaves a whole number of steps behind.

use rusqlite::{Connection, TransactionBehavior};

use super::connect::{connect, failure};
use crate::address::SqlitePath;
use crate::error::{Result, SchemaError};
use crate::migrations::{self, Applied, Migration};

const CREATE_TABLE: &str = "
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT";
const READ: &str = "SELECT version, checksum FROM schema_migrations ORDER BY version";
const RECORD: &str = "INSERT INTO schema_migrations (version, name, checksum) VALUES (?1, ?2, ?3)";
const TABLE_EXISTS: &str = "SELECT count(*) FROM sqlite_schema WHERE name = 'schema_migrations'";

pub async fn migrate(path: &SqlitePath) -> Result<Vec<i32>> {
    let mut connection = connect(path)?;
    migrate_connection(&mut connection, path)
}

/// Takes the write lock per step; a second migrator waits its turn and then finds nothing to do.
pub(super) fn migrate_connection(connection: &mut Connection, path: &SqlitePath) -> Result<Vec<i32>> {
    let mut done = Vec::new();
    loop {
        let tx = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| failure(path, error))?;
        tx.execute_batch(CREATE_TABLE).map_err(|error| failure(path, error))?;
        let missing = migrations::missing(&read(&tx, path)?, |migration| migration.sqlite)?;
        let Some(migration) = missing.first() else {
            return Ok(done);
        };
        tx.execute_batch(migration.sqlite).map_err(|error| failed(migration, &error))?;
        let checksum = migrations::checksum(migration.sqlite);
        tx.execute(RECORD, (migration.version, migration.name, checksum)).map_err(|e| failure(path, e))?;
        tx.commit().map_err(|error| failure(path, error))?;
        done.push(migration.version);
    }
}

pub(super) fn require_current(connection: &Connection, path: &SqlitePath) -> Result<()> {
    let tables: i64 =
        connection.query_row(TABLE_EXISTS, [], |row| row.get(0)).map_err(|e| failure(path, e))?;
    let applied = if tables == 0 { Vec::new() } else { read(connection, path)? };
    Ok(migrations::current(&applied, |migration| migration.sqlite)?)
}

fn read(connection: &Connection, path: &SqlitePath) -> Result<Vec<Applied>> {
    let mut statement = connection.prepare(READ).map_err(|error| failure(path, error))?;
    let rows = statement
        .query_map([], |row| Ok(Applied { version: row.get(0)?, checksum: row.get(1)? }))
        .and_then(Iterator::collect);
    rows.map_err(|error| failure(path, error))
}

fn failed(migration: &Migration, error: &rusqlite::Error) -> SchemaError {
    SchemaError::Failed {
        version: migration.version,
        name: migration.name.to_owned(),
        problem: error.to_string(),
    }
}
