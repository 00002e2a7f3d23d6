//! One database into another, row by row: `rupor db copy`, between any two of SQLite and PostgreSQL.
//!
//! ```text
//! source, one snapshot ─► rows of a table, in batches ─► target, one transaction ─► counted ─► committed ─► source held
//! ```
//!
//! The columns are read from the catalogues, so a new column needs nothing here; a new table needs its line in
//! `TABLES`, and a test compares that list with both schemas. Who sends (`nodes`) is true of one database only and stays behind. Values travel as SQLite stores them (times in microseconds,
//! JSON as text, claim tokens as bytes, booleans as 0 and 1), and the PostgreSQL side converts by the type of the column.
//! Tokens stay sealed as they are: nothing here knows the key. Start with `copy`.

use crate::address::Address;
use crate::error::{Result, SchemaError, StoreError};
use crate::{postgres, sqlite};

/// One table of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    pub name: &'static str,
    /// Rows of one batch: wide ones go in small numbers.
    pub(crate) batch: usize,
    /// Columns that only PostgreSQL has, with the words that tell them on SQLite.
    pub derived: &'static [(&'static str, &'static str)],
}

const fn table(name: &'static str) -> Table {
    Table { name, batch: 1_000, derived: &[] }
}

/// Pictures go a few at a time, whatever they weigh.
const MEDIA_BATCH: usize = 4;

/// Every table, parents before children: a row is written after what it refers to.
pub const TABLES: &[Table] = &[
    table("control"),
    table("workspaces"),
    table("workspace_endpoints"),
    table("rate_groups"),
    table("accounts"),
    table("channels"),
    table("recipients"),
    table("suppressions"),
    table("platform_limits"),
    table("account_heads"),
    table("lane_heads"),
    table("lane_counts"),
    table("cases"),
    table("messages"),
    table("deliveries"),
    Table {
        derived: &[(
            "retried",
            "(SELECT d.status = 'retry' FROM deliveries AS d WHERE d.delivery_id = ready.delivery_id)",
        )],
        ..table("ready")
    },
    table("inflight"),
    table("attempts"),
    table("dedup_index"),
    table("events"),
    table("case_keys"),
    table("case_pictures"),
    table("held_posts"),
    Table { batch: MEDIA_BATCH, ..table("media_origin") },
    table("media_looks"),
    table("message_media"),
    table("media_blobs"),
    table("pull_sources"),
    table("pull_cursors"),
    table("ingest_runs"),
    table("ingress_receipts"),
    table("audiences"),
    table("audience_recipients"),
    table("campaigns"),
    table("campaign_variants"),
    table("campaign_cohorts"),
    table("campaign_recipients"),
    table("campaign_codes"),
    table("campaign_progress"),
    table("bots"),
    table("bot_accounts"),
    table("bot_rules"),
    table("bot_inbox"),
    table("bot_state"),
    table("bot_outbox"),
    table("bot_logs"),
    table("bot_chats"),
    table("alerts"),
    table("outcomes"),
    table("api_tokens"),
];

/// The one row of it is there from the beginning, so it does not count as somebody's.
pub(crate) const CONTROL: &str = "control";
pub(crate) const MEDIA: &str = "media_origin";

/// A value as SQLite stores it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) type Row = Vec<Value>;

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    pub table: &'static str,
    pub rows: u64,
    pub of: u64,
}

/// What a copy did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Rows by table, in the order of `TABLES`; each number was counted on both sides.
    pub tables: Vec<(&'static str, u64)>,
    /// Media whose bytes the source did not have any more.
    pub media_missing: u64,
    /// Set when the roles of a new PostgreSQL schema could not be made: why.
    pub roles_refused: Option<String>,
    /// Set when the source could not be held: why. It must not be run again by mistake.
    pub source_not_held: Option<String>,
}

impl Copied {
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }
}

/// Copies everything into a database that is empty, or makes no change at all. No node may run on either.
///
/// Afterwards the source is held: two databases that both send would say everything twice.
pub async fn copy(from: &Address, to: &Address, mut told: impl FnMut(CopyProgress)) -> Result<Copied> {
    if from == to {
        return Err(StoreError::invalid("copy", format!("{from} is both the source and the target")));
    }
    let mut source = Source::open(from).await.map_err(|error| named("source", from, error))?;
    let mut target = Target::open(to).await.map_err(|error| named("target", to, error))?;
    let moved = match move_all(&mut source, &mut target, &mut told).await {
        Ok(tables) => target.commit().await.map(|()| tables),
        Err(error) => Err(error),
    };
    let (media_missing, roles_refused) = (source.media_missing(), target.roles_refused());
    let tables = match moved {
        Ok(tables) => tables,
        Err(error) => {
            target.abandon().await;
            return Err(error);
        }
    };
    let why = format!(
        "this database was copied to {to}, which goes on from here; `rupor release` lets this one send instead, \
         if the copy is not used"
    );
    let source_not_held = source.hold(&why).await.err().map(|error| error.to_string());
    Ok(Copied { tables, media_missing, roles_refused, source_not_held })
}

async fn move_all(
    source: &mut Source,
    target: &mut Target,
    told: &mut impl FnMut(CopyProgress),
) -> Result<Vec<(&'static str, u64)>> {
    let mut tables = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        let columns = columns(source, target, table).await?;
        let of = source.count(table).await?;
        let mut rows = 0;
        source.begin(table, &columns).await?;
        loop {
            let batch = source.next(table).await?;
            if batch.is_empty() {
                break;
            }
            rows += batch.len() as u64;
            target.write(table, &columns, batch).await?;
            told(CopyProgress { table: table.name, rows, of });
        }
        let arrived = target.count(table).await?;
        if arrived != of {
            let problem = format!("table {}: {of} rows left and {arrived} arrived", table.name);
            return Err(StoreError::invalid("copy", problem));
        }
        target.continue_ids(table, source.last_id(table).await?).await?;
        tables.push((table.name, of));
    }
    source.still_alone().await?;
    Ok(tables)
}

/// What the target has, the source must tell.
async fn columns(source: &Source, target: &Target, table: &Table) -> Result<Vec<String>> {
    let (given, wanted) = (source.columns(table).await?, target.columns(table).await?);
    let is_derived = |name: &String| table.derived.iter().any(|(derived, _)| derived == name);
    let unknown = wanted.iter().find(|name| !given.contains(name) && !is_derived(name));
    let lost = given.iter().find(|name| !wanted.contains(name) && !is_derived(name));
    match unknown.or(lost) {
        None => Ok(wanted),
        Some(name) => {
            let problem = format!("table {}: only one of the two databases has column {name}", table.name);
            Err(StoreError::invalid("copy", problem))
        }
    }
}

/// Which of the two is meant, where an error does not say it by itself.
fn named(which: &'static str, address: &Address, error: StoreError) -> StoreError {
    match error {
        StoreError::Schema(SchemaError::Older { found, known }) => StoreError::invalid(
            which,
            format!("{address} is at version {found}, this rupor needs {known}; run `rupor migrate` on it"),
        ),
        StoreError::Schema(problem) => StoreError::invalid(which, format!("{address}: {problem}")),
        other => other,
    }
}

/// Hands a call to the driver in use.
macro_rules! each {
    ($which:ident, $value:expr, $driver:ident => $call:expr) => {
        match $value {
            $which::Sqlite($driver) => $call.await,
            $which::Postgres($driver) => $call.await,
        }
    };
}

/// One snapshot of a database that nobody works on.
enum Source {
    Sqlite(sqlite::copy::Source),
    Postgres(Box<postgres::copy::Source>),
}

impl Source {
    async fn open(address: &Address) -> Result<Source> {
        match address {
            Address::Sqlite(path) => Ok(Source::Sqlite(sqlite::copy::Source::open(path).await?)),
            Address::Postgres(url) => {
                Ok(Source::Postgres(Box::new(postgres::copy::Source::open(url).await?)))
            }
        }
    }

    async fn columns(&self, table: &Table) -> Result<Vec<String>> {
        each!(Source, self, db => db.columns(table))
    }

    async fn count(&self, table: &Table) -> Result<u64> {
        each!(Source, self, db => db.count(table))
    }

    async fn begin(&mut self, table: &Table, columns: &[String]) -> Result<()> {
        each!(Source, self, db => db.begin(table, columns))
    }

    /// The next rows of the table that was begun; none at its end.
    async fn next(&mut self, table: &Table) -> Result<Vec<Row>> {
        each!(Source, self, db => db.next(table))
    }

    /// The highest id ever given, also of rows that are gone; `None` where the ids of a table are not counted.
    async fn last_id(&self, table: &Table) -> Result<Option<i64>> {
        each!(Source, self, db => db.last_id(table))
    }

    /// Nobody has worked on it since it was opened.
    async fn still_alone(&self) -> Result<()> {
        each!(Source, self, db => db.still_alone())
    }

    fn media_missing(&self) -> u64 {
        match self {
            Source::Sqlite(db) => db.media_missing(),
            Source::Postgres(_) => 0,
        }
    }

    async fn hold(self, why: &str) -> Result<()> {
        each!(Source, self, db => db.hold(why))
    }
}

/// An empty database in one open transaction.
enum Target {
    Sqlite(sqlite::copy::Target),
    Postgres(Box<postgres::copy::Target>),
}

impl Target {
    async fn open(address: &Address) -> Result<Target> {
        match address {
            Address::Sqlite(path) => Ok(Target::Sqlite(sqlite::copy::Target::open(path).await?)),
            Address::Postgres(url) => {
                Ok(Target::Postgres(Box::new(postgres::copy::Target::open(url).await?)))
            }
        }
    }

    async fn columns(&self, table: &Table) -> Result<Vec<String>> {
        each!(Target, self, db => db.columns(table))
    }

    async fn count(&self, table: &Table) -> Result<u64> {
        each!(Target, self, db => db.count(table))
    }

    async fn write(&mut self, table: &Table, columns: &[String], rows: Vec<Row>) -> Result<()> {
        each!(Target, self, db => db.write(table, columns, rows))
    }

    /// New rows get ids beyond every id that was ever given.
    async fn continue_ids(&mut self, table: &Table, last: Option<i64>) -> Result<()> {
        each!(Target, self, db => db.continue_ids(table, last))
    }

    async fn commit(&mut self) -> Result<()> {
        each!(Target, self, db => db.commit())
    }

    fn roles_refused(&self) -> Option<String> {
        match self {
            Target::Sqlite(_) => None,
            Target::Postgres(db) => db.roles_refused.clone(),
        }
    }

    /// Undoes everything, as far as it can be undone.
    async fn abandon(self) {
        each!(Target, self, db => db.abandon());
    }
}

/// Identifiers are quoted: some of them are words of SQL.
pub(crate) fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

/// The one error of a target that holds something.
pub(crate) fn occupied(address: impl std::fmt::Display, table: &str) -> StoreError {
    let problem = format!("{address} is not empty: there are rows in {table}; take a new database");
    StoreError::invalid("target", problem)
}
