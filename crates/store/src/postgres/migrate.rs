//! The migration runner: each step is one transaction, so a crash leaves a whole number of steps behind.
//!
//! After the steps the functions are made those of today (functions.rs).
//!
//! Roles belong to the server, not to the database, and may need an administrator: they are set up after the steps
//! by a script that may be run again, and where the user may not, the script is handed out instead.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient};

use super::connect::Pool;
use super::dial::connect;
use super::functions;
use super::trouble::{Trouble, error_text};
use crate::address::PostgresUrl;
use crate::error::{Result, SchemaError, StoreError};
use crate::migrations::{self, Applied, Migration};

/// For the administrator, if the migrating user may not make roles.
pub const ROLES: &str = include_str!("../../migrations/postgres/roles.sql");

const CREATE_TABLE: &str = "
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)";
const GRANT_TABLE: &str = "GRANT SELECT ON schema_migrations TO PUBLIC";
const TABLE_EXISTS: &str = "SELECT to_regclass('schema_migrations') IS NOT NULL";
const READ: &str = "SELECT version, checksum FROM schema_migrations ORDER BY version";
const RECORD: &str = "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)";
/// One migrator at a time; the lock goes with the transaction.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7274502)";

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    pub versions: Vec<i32>,
    /// Set when the roles could not be made: why, and then run `ROLES` as an administrator.
    pub roles_refused: Option<String>,
}

/// The text of a step.
pub fn text(migration: &Migration) -> &'static str {
    migration.postgres
}

pub async fn migrate(url: &PostgresUrl) -> Result<Vec<i32>> {
    let migrated = migrate_all(url).await?;
    if let Some(problem) = &migrated.roles_refused {
        tracing::warn!(%problem, "the roles were not set up; an administrator runs what `rupor migrate` prints");
    }
    Ok(migrated.versions)
}

pub async fn migrate_all(url: &PostgresUrl) -> Result<Migrated> {
    let mut client = connect(url).await?;
    let mut versions = Vec::new();
    while let Some(version) = step(&mut client, url).await? {
        versions.push(version);
    }
    functions::apply(&mut client, url, LOCK, functions::text()).await?;
    Ok(Migrated { versions, roles_refused: roles(&mut client, url).await? })
}

/// Applies the next step, if there is one. A second migrator waits its turn and then finds nothing to do.
async fn step(client: &mut Client, url: &PostgresUrl) -> Result<Option<i32>> {
    let failure = |error: tokio_postgres::Error| Trouble::from(error).into_error(&url.to_string());
    let tx = client.transaction().await.map_err(failure)?;
    tx.batch_execute(LOCK).await.map_err(failure)?;
    let exists: bool = tx.query_one(TABLE_EXISTS, &[]).await.map_err(failure)?.get(0);
    if !exists {
        tx.batch_execute(CREATE_TABLE).await.map_err(failure)?;
        tx.batch_execute(GRANT_TABLE).await.map_err(failure)?;
    }
    let applied = read(&tx).await.map_err(failure)?;
    let Some(&migration) = migrations::missing(&applied, text)?.first() else {
        return Ok(None);
    };
    tx.batch_execute(text(migration)).await.map_err(|error| failed(migration, &error))?;
    let checksum = migrations::checksum(text(migration));
    tx.execute(RECORD, &[&migration.version, &migration.name, &checksum]).await.map_err(failure)?;
    tx.commit().await.map_err(failure)?;
    Ok(Some(migration.version))
}

async fn roles(client: &mut Client, url: &PostgresUrl) -> Result<Option<String>> {
    let failure = |error: tokio_postgres::Error| Trouble::from(error).into_error(&url.to_string());
    let tx = client.transaction().await.map_err(failure)?;
    tx.batch_execute(LOCK).await.map_err(failure)?;
    match tx.batch_execute(ROLES).await {
        Ok(()) => tx.commit().await.map_err(failure).map(|()| None),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(Some(error_text(&error))),
        Err(error) => Err(failure(error)),
    }
}

/// For `open`: the schema must be exactly the one we know.
pub(super) async fn require_current(pool: &Pool) -> Result<()> {
    let found = async {
        let client = pool.client().await?;
        Ok::<_, Trouble>(look(&**client).await?)
    };
    let found = found.await.map_err(|trouble| trouble.into_error(pool.address()))?;
    found.current()
}

/// The same, without a pool.
pub(super) async fn require_current_at(url: &PostgresUrl) -> Result<()> {
    found_at(url).await?.current()
}

/// No step was ever applied here.
pub(super) async fn is_bare(url: &PostgresUrl) -> Result<bool> {
    Ok(found_at(url).await?.steps.is_empty())
}

/// What stands in a database: its steps, and what is wrong with its functions.
struct Found {
    steps: Vec<Applied>,
    functions: Option<SchemaError>,
}

impl Found {
    fn current(self) -> Result<()> {
        migrations::current(&self.steps, text)?;
        self.functions.map_or(Ok(()), |problem| Err(problem.into()))
    }
}

async fn found_at(url: &PostgresUrl) -> Result<Found> {
    let client = connect(url).await?;
    look(&client).await.map_err(|error| Trouble::from(error).into_error(&url.to_string()))
}

async fn look(client: &impl GenericClient) -> std::result::Result<Found, tokio_postgres::Error> {
    let exists: bool = client.query_one(TABLE_EXISTS, &[]).await?.get(0);
    let steps = if exists { read(client).await? } else { Vec::new() };
    Ok(Found { steps, functions: functions::problem(client).await? })
}

async fn read(client: &impl GenericClient) -> std::result::Result<Vec<Applied>, tokio_postgres::Error> {
    let rows = client.query(READ, &[]).await?;
    Ok(rows.iter().map(|row| Applied { version: row.get(0), checksum: row.get(1) }).collect())
}

fn failed(migration: &Migration, error: &tokio_postgres::Error) -> StoreError {
    SchemaError::Failed {
        version: migration.version,
        name: migration.name.to_owned(),
        problem: error_text(error),
    }
    .into()
}
