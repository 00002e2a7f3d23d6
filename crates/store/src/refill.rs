//! The floor under `rupor-bench ingest`: the rows that an intake left behind, inserted once more and bare.
//!
//! The same rows into the same tables with the same indexes, checks and references, in a scratch database of the same
//! kind beside the first: batches of rows ready made, as many commits as the intake had, the same durability. No rule
//! runs: nothing is read, recognised, weighed, counted or decided. Only the writing is measured.

use std::time::{Duration, Instant};

use domain::ids::WorkspaceId;

use crate::address::{Address, SqlitePath};
use crate::copy::{CONTROL, Source, TABLES, Target, columns};
use crate::error::{Result, StoreError};
use crate::{postgres, sqlite};

/// What the bare insert of a workspace's rows took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refilled {
    pub rows: u64,
    pub write: Duration,
}

/// Inserts everything of a workspace into a scratch database, in about so many transactions, and leaves nothing behind.
/// Nobody else may have the database open.
pub async fn refill(address: &Address, workspace: WorkspaceId, rows_per_commit: u64) -> Result<Refilled> {
    let mut source = Source::open(address).await?;
    source.only(workspace);
    let scratch = scratch(address).await?;
    let refilled = match Target::open(&scratch).await {
        Ok(mut target) => write(&mut source, &mut target, rows_per_commit).await,
        Err(error) => Err(error),
    };
    let gone = forget(address, &scratch).await;
    let refilled = refilled?;
    gone.map(|()| refilled)
}

async fn write(source: &mut Source, target: &mut Target, rows_per_commit: u64) -> Result<Refilled> {
    let (mut refilled, mut uncommitted) = (Refilled { rows: 0, write: Duration::ZERO }, 0);
    for table in TABLES.iter().filter(|table| table.name != CONTROL) {
        let columns = columns(source, target, table).await?;
        source.begin(table, &columns).await?;
        loop {
            let batch = source.next(table).await?;
            if batch.is_empty() {
                break;
            }
            uncommitted += batch.len() as u64;
            refilled.rows += batch.len() as u64;
            let started = Instant::now();
            target.write(table, &columns, batch).await?;
            if uncommitted >= rows_per_commit {
                target.commit_and_go_on().await?;
                uncommitted = 0;
            }
            refilled.write += started.elapsed();
        }
    }
    let started = Instant::now();
    target.commit_and_go_on().await?;
    refilled.write += started.elapsed();
    Ok(refilled)
}

async fn scratch(address: &Address) -> Result<Address> {
    match address {
        Address::Sqlite(SqlitePath::File(file)) => {
            let mut name = file.clone().into_os_string();
            name.push(".floor");
            let path = SqlitePath::File(name.into());
            sqlite::copy::forget(&path)?;
            Ok(Address::Sqlite(path))
        }
        Address::Sqlite(SqlitePath::Memory) => Err(StoreError::BadAddress {
            address: address.to_string(),
            problem: "a database in memory has none beside it".into(),
        }),
        Address::Postgres(url) => {
            let name = format!("rupor_floor_{}", uuid::Uuid::new_v4().simple());
            postgres::copy::create_database(url, &name).await.map(Address::Postgres)
        }
    }
}

async fn forget(address: &Address, scratch: &Address) -> Result<()> {
    match (address, scratch) {
        (_, Address::Sqlite(path)) => sqlite::copy::forget(path),
        (Address::Postgres(url), Address::Postgres(scratch)) => {
            postgres::copy::drop_database(url, scratch).await
        }
        _ => Ok(()),
    }
}
