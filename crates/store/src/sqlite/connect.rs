//! Connections: how they are opened, and what their errors mean.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde::de::DeserializeOwned;

use super::{claim, disk};
use crate::address::SqlitePath;
use crate::error::{Result, StoreError};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Prepared statements kept by a connection; the drivers use fewer.
const STATEMENTS_MAX: usize = 256;

/// WAL with synchronous=FULL: what was answered survives a power cut. The cache is not larger, because SQLite looks
/// through all of it at the end of nearly every transaction (whenever a balanced tree has swapped two pages).
const WRITER_PRAGMAS: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA trusted_schema = OFF;
PRAGMA cache_size = -16384;
PRAGMA temp_store = MEMORY;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;";

const READER_PRAGMAS: &str = "
PRAGMA query_only = ON;
PRAGMA trusted_schema = OFF;
PRAGMA cache_size = -16384;";

/// Opens the read-write connection.
pub(super) fn connect(path: &SqlitePath) -> Result<Connection> {
    disk::make_private(path);
    let connection = match path {
        SqlitePath::Memory => Connection::open_in_memory(),
        SqlitePath::File(file) => Connection::open(file),
    };
    let connection = connection.map_err(|error| failure(path, error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| failure(path, error))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    keep_plans(&connection).map_err(|error| failure(path, error))?;
    connection.execute_batch(WRITER_PRAGMAS).map_err(|error| failure(path, error))?;
    add_functions(&connection).map_err(|error| failure(path, error))?;
    Ok(connection)
}

/// Opens a connection that can only read.
pub(super) fn connect_reader(path: &SqlitePath) -> Result<Option<Connection>> {
    let SqlitePath::File(file) = path else {
        return Ok(None);
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(|error| failure(path, error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| failure(path, error))?;
    keep_plans(&connection).map_err(|error| failure(path, error))?;
    connection.execute_batch(READER_PRAGMAS).map_err(|error| failure(path, error))?;
    Ok(Some(connection))
}

/// What statements ask us for while they run over a batch.
fn add_functions(connection: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("token_of", 2, flags, |call| {
        Ok(claim::token(call.get(0)?, call.get(1)?).0.into_bytes())
    })?;
    // Two lists that belong together, read once for a statement and not once for a row.
    connection.create_scalar_function("entry_of", 3, flags, |call| {
        let ids: Arc<Vec<i64>> = call.get_or_create_aux(0, list)?;
        let entries: Arc<Vec<Option<String>>> = call.get_or_create_aux(1, list)?;
        let n = ids.binary_search(&call.get(2)?).ok();
        Ok(n.and_then(|n| entries.get(n)).cloned().flatten())
    })
}

fn list<T: DeserializeOwned>(
    text: ValueRef<'_>,
) -> std::result::Result<Vec<T>, Box<dyn Error + Send + Sync>> {
    Ok(serde_json::from_str(text.as_str()?)?)
}

/// A statement keeps its plan whatever is bound to it: otherwise some are planned anew at every call.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Sorts a driver error by what the caller can do about it.
pub(super) fn failure(path: &SqlitePath, error: rusqlite::Error) -> StoreError {
    let address = path.to_string();
    let problem = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::DiskFull { address },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => read_only(path, problem),
        // A disk that was mounted read-only under us says no more than this.
        Some(ErrorCode::SystemIoFailure) => StoreError::ReadOnly {
            address,
            problem: format!(
                "{problem}; the disk may have been made read-only, or is failing: look at `dmesg` and `mount`"
            ),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { address, problem },
        Some(ErrorCode::CannotOpen) => cannot_open(path, problem),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { address, problem }
        }
        _ => StoreError::Database(problem),
    }
}

/// The file or its folder may only be read.
pub(super) fn read_only(path: &SqlitePath, problem: String) -> StoreError {
    let problem = format!(
        "{problem}; the user of the node must be allowed to write the file and its folder, and the disk must not be \
         mounted read-only"
    );
    StoreError::ReadOnly { address: path.to_string(), problem }
}

/// SQLite says the same of a folder that is not there and of one that may only be read.
fn cannot_open(path: &SqlitePath, problem: String) -> StoreError {
    let folder = match path {
        SqlitePath::Memory => None,
        SqlitePath::File(file) => Some(match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => std::path::Path::new("."),
        }),
    };
    match folder {
        Some(folder) if folder.is_dir() => read_only(path, problem),
        _ => StoreError::NoFile { address: path.to_string(), problem },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_may_only_be_read_is_not_a_file_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let said = |path: &str| {
            let path = SqlitePath::File(folder.path().join(path));
            failure(&path, rusqlite::Error::SqliteFailure(code, None))
        };
        let here = said("rupor.db");
        assert!(matches!(here, StoreError::ReadOnly { .. }), "{here:?}");
        assert!(here.to_string().contains("must be allowed to write the file and its folder"), "{here}");
        let nowhere = said("no/such/folder/rupor.db");
        assert!(matches!(nowhere, StoreError::NoFile { .. }), "{nowhere:?}");
        for error in [here, nowhere] {
            assert!(!error.to_string().contains("is the server running"), "{error}");
        }
    }
}
