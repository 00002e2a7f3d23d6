//! A PostgreSQL database as the source or the target of a copy. The bytes of media lie in their rows.
//!
//! Both need the owner of the tables: row-level security would hide rows from anybody else, and a copy that is silently
//! empty is the worst one. Rows go in by INSERT from arrays, because COPY is refused where row-level security is forced.

use std::collections::HashMap;
use std::time::Duration;

use domain::time::Timestamp;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::dial::connect;
use super::migrate;
use super::rows::Time;
use super::trouble::Trouble;
use crate::address::PostgresUrl;
use crate::copy::{CONTROL, Row, TABLES, Table, Value, occupied, quoted};
use crate::error::{Result, StoreError};

/// Superusers and owners see everything; everybody else would see less than there is.
const SEES_ALL: &str = "
SELECT pg_has_role(current_user, c.relowner, 'USAGE') OR r.rolsuper OR r.rolbypassrls
  FROM pg_class AS c, pg_roles AS r
 WHERE c.oid = 'messages'::regclass AND r.rolname = current_user";
const OTHERS: &str = "
SELECT count(*)
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND application_name = current_setting('application_name')";
const LIVE_CLAIMS: &str = "SELECT count(*) FROM inflight WHERE lease_until > rupor_now()";
const COLUMNS: &str = "
SELECT attname, atttypid::regtype::text, attidentity <> ''
  FROM pg_attribute
 WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
 ORDER BY attnum";
const SEQUENCE: &str = "SELECT pg_get_serial_sequence($1, $2)";
const HOLD: &str = "UPDATE control SET held = true, held_why = $1";
const BEGIN: &str = "BEGIN; SET LOCAL rupor.span = 'on'";
const CURSOR: &str = "rupor_copy";
/// How often it is asked whether somebody else is connected, and how long between.
const LOOKS_MAX: usize = 20;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

struct Column {
    name: String,
    kind: Kind,
    /// Its values come from a sequence.
    counted: bool,
}

/// The types of our columns, and how they travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bigint,
    Integer,
    Double,
    Boolean,
    Text,
    Json,
    Uuid,
    Bytes,
    Time,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "bigint" => Kind::Bigint,
            "integer" => Kind::Integer,
            "double precision" => Kind::Double,
            "boolean" => Kind::Boolean,
            "text" => Kind::Text,
            "jsonb" => Kind::Json,
            "uuid" => Kind::Uuid,
            "bytea" => Kind::Bytes,
            "timestamp with time zone" => Kind::Time,
            _ => return None,
        })
    }

    /// The type of the array that carries a column in.
    fn array(self) -> &'static str {
        match self {
            Kind::Bigint => "bigint[]",
            Kind::Integer => "integer[]",
            Kind::Double => "double precision[]",
            Kind::Boolean => "boolean[]",
            Kind::Text | Kind::Json => "text[]",
            Kind::Uuid => "uuid[]",
            Kind::Bytes => "bytea[]",
            Kind::Time => "timestamptz[]",
        }
    }

    /// What turns an element of that array into the column's own type.
    fn cast(self) -> &'static str {
        if self == Kind::Json { "::jsonb" } else { "" }
    }

    /// JSON is read as text.
    fn as_text(self) -> &'static str {
        if self == Kind::Json { "::text" } else { "" }
    }
}

/// One connection in one transaction.
struct Hand {
    client: Client,
    address: String,
    columns: HashMap<&'static str, Vec<Column>>,
}

impl Hand {
    async fn begin(url: &PostgresUrl, begin: &str) -> Result<Hand> {
        let client = connect(url).await?;
        let mut hand = Hand { client, address: url.to_string(), columns: HashMap::new() };
        hand.run(begin).await?;
        hand.require_all().await?;
        for table in TABLES {
            let columns = hand.read_columns(table).await?;
            hand.columns.insert(table.name, columns);
        }
        Ok(hand)
    }

    fn failure(&self, error: tokio_postgres::Error) -> StoreError {
        Trouble::from(error).into_error(&self.address)
    }

    async fn run(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.map_err(|error| self.failure(error))
    }

    async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> Result<T> {
        let row = self.client.query_one(sql, &[]).await.map_err(|error| self.failure(error))?;
        row.try_get(0).map_err(|error| self.failure(error))
    }

    async fn require_all(&self) -> Result<()> {
        if self.one::<bool>(SEES_ALL).await? {
            return Ok(());
        }
        let problem = format!(
            "{}: this user does not own the tables and would not see all rows; use the user that ran `rupor migrate`",
            self.address
        );
        Err(StoreError::invalid("copy", problem))
    }

    /// No other node or command is connected to this database. One that has just gone may be listed for a moment.
    async fn require_alone(&self) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            self.run("SELECT pg_stat_clear_snapshot()").await?;
            if self.one::<i64>(OTHERS).await? == 0 {
                return Ok(());
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        Err(StoreError::InUse { address: self.address.clone() })
    }

    async fn read_columns(&self, table: &Table) -> Result<Vec<Column>> {
        let rows = self.client.query(COLUMNS, &[&table.name]).await.map_err(|error| self.failure(error))?;
        let column = |row: &tokio_postgres::Row| {
            let (name, kind): (String, String) = (row.get(0), row.get(1));
            let unknown = || {
                let problem = format!("column {name} of {} has type {kind}", table.name);
                StoreError::invalid("copy", problem)
            };
            let kind = Kind::of(&kind).ok_or_else(unknown)?;
            Ok(Column { name, kind, counted: row.get(2) })
        };
        rows.iter().map(column).collect()
    }

    fn of(&self, table: &Table) -> &[Column] {
        self.columns.get(table.name).map_or(&[], Vec::as_slice)
    }

    fn names(&self, table: &Table) -> Vec<String> {
        self.of(table).iter().map(|column| column.name.clone()).collect()
    }

    /// These columns in this order.
    fn chosen<'a>(&'a self, table: &Table, names: &'a [String]) -> impl Iterator<Item = &'a Column> {
        let columns = self.columns.get(table.name).map_or([].as_slice(), Vec::as_slice);
        names.iter().filter_map(|name| columns.iter().find(|column| column.name == *name))
    }

    async fn count(&self, table: &Table) -> Result<u64> {
        Ok(self.one::<i64>(&format!("SELECT count(*) FROM {}", table.name)).await? as u64)
    }

    /// The sequence behind the ids of a table, with the column that it counts.
    async fn sequence(&self, table: &Table) -> Result<Option<(String, String)>> {
        let Some(column) = self.of(table).iter().find(|column| column.counted) else {
            return Ok(None);
        };
        let row = self.client.query_one(SEQUENCE, &[&table.name, &column.name]).await;
        let sequence: Option<String> = row.map_err(|error| self.failure(error))?.get(0);
        Ok(sequence.map(|sequence| (sequence, column.name.clone())))
    }
}

pub(crate) struct Source {
    hand: Hand,
    url: PostgresUrl,
    kinds: Vec<Kind>,
}

impl Source {
    pub(crate) async fn open(url: &PostgresUrl) -> Result<Source> {
        migrate::require_current_at(url).await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL rupor.span = 'on'";
        let hand = Hand::begin(url, begin).await?;
        hand.require_alone().await?;
        let live = hand.one::<i64>(LIVE_CLAIMS).await?;
        if live > 0 {
            let problem = format!(
                "{url}: {live} deliveries are being sent; stop every node, and wait a minute if one was killed"
            );
            return Err(StoreError::invalid("source", problem));
        }
        Ok(Source { hand, url: url.clone(), kinds: Vec::new() })
    }

    pub(crate) async fn columns(&self, table: &Table) -> Result<Vec<String>> {
        Ok(self.hand.names(table))
    }

    pub(crate) async fn count(&self, table: &Table) -> Result<u64> {
        self.hand.count(table).await
    }

    pub(crate) async fn last_id(&self, table: &Table) -> Result<Option<i64>> {
        let Some((sequence, _)) = self.hand.sequence(table).await? else {
            return Ok(None);
        };
        self.hand
            .one(&format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"))
            .await
            .map(Some)
    }

    pub(crate) async fn begin(&mut self, table: &Table, columns: &[String]) -> Result<()> {
        let chosen: Vec<&Column> = self.hand.chosen(table, columns).collect();
        let select: Vec<String> =
            chosen.iter().map(|column| format!("\"{}\"{}", column.name, column.kind.as_text())).collect();
        let kinds = chosen.iter().map(|column| column.kind).collect();
        let sql = format!(
            "CLOSE ALL; DECLARE {CURSOR} NO SCROLL CURSOR FOR SELECT {} FROM {}",
            select.join(", "),
            table.name
        );
        self.hand.run(&sql).await?;
        self.kinds = kinds;
        Ok(())
    }

    pub(crate) async fn next(&mut self, table: &Table) -> Result<Vec<Row>> {
        let sql = format!("FETCH FORWARD {} FROM {CURSOR}", table.batch);
        let rows = self.hand.client.query(&sql, &[]).await.map_err(|error| self.hand.failure(error))?;
        let read = |row| self.kinds.iter().enumerate().map(|(n, kind)| value(row, n, *kind)).collect();
        let rows: std::result::Result<Vec<Row>, _> = rows.iter().map(read).collect();
        rows.map_err(|error| self.hand.failure(error))
    }

    /// Nobody came while it was read.
    pub(crate) async fn still_alone(&self) -> Result<()> {
        self.hand.require_alone().await
    }

    pub(crate) async fn hold(self, why: &str) -> Result<()> {
        let Source { hand, url, .. } = self;
        drop(hand);
        let client = connect(&url).await?;
        let held = client.execute(HOLD, &[&why]).await;
        held.map(drop).map_err(|error| Trouble::from(error).into_error(&url.to_string()))
    }
}

pub(crate) struct Target {
    hand: Hand,
    pub(crate) roles_refused: Option<String>,
}

impl Target {
    pub(crate) async fn open(url: &PostgresUrl) -> Result<Target> {
        let roles_refused = match migrate::is_bare(url).await? {
            true => migrate::migrate_all(url).await?.roles_refused,
            false => None,
        };
        migrate::require_current_at(url).await?;
        let hand = Hand::begin(url, BEGIN).await?;
        hand.require_alone().await?;
        // Rows come with their heads and groups; nothing is to be filled in. The lock also keeps everybody else out.
        for table in TABLES {
            hand.run(&format!("ALTER TABLE {} DISABLE TRIGGER USER", table.name)).await?;
        }
        for table in TABLES.iter().filter(|table| table.name != CONTROL) {
            if hand.one(&format!("SELECT EXISTS (SELECT FROM {})", table.name)).await? {
                return Err(occupied(url, table.name));
            }
        }
        hand.run("DELETE FROM control").await?;
        Ok(Target { hand, roles_refused })
    }

    pub(crate) async fn columns(&self, table: &Table) -> Result<Vec<String>> {
        Ok(self.hand.names(table))
    }

    pub(crate) async fn count(&self, table: &Table) -> Result<u64> {
        self.hand.count(table).await
    }

    pub(crate) async fn write(&mut self, table: &Table, columns: &[String], rows: Vec<Row>) -> Result<()> {
        let chosen: Vec<&Column> = self.hand.chosen(table, columns).collect();
        let mut select = Vec::with_capacity(chosen.len());
        let mut arrays = Vec::with_capacity(chosen.len());
        for (n, column) in chosen.iter().enumerate() {
            select.push(format!("r.c{n}{}", column.kind.cast()));
            arrays.push(format!("${}::{}", n + 1, column.kind.array()));
        }
        let names: Vec<String> = (0..chosen.len()).map(|n| format!("c{n}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}) SELECT {} FROM unnest({}) AS r ({})",
            table.name,
            quoted(columns),
            select.join(", "),
            arrays.join(", "),
            names.join(", ")
        );
        let mut turned: Vec<Vec<Value>> = chosen.iter().map(|_| Vec::with_capacity(rows.len())).collect();
        for row in rows {
            for (column, value) in turned.iter_mut().zip(row) {
                column.push(value);
            }
        }
        let mut params: Vec<Box<dyn ToSql + Sync + Send>> = Vec::with_capacity(chosen.len());
        for (column, values) in chosen.iter().zip(turned) {
            params.push(array(table, column, values)?);
        }
        let params: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|array| &**array as &(dyn ToSql + Sync)).collect();
        let written = self.hand.client.execute(&sql, &params).await;
        written.map(drop).map_err(|error| match self.hand.failure(error) {
            StoreError::Database(problem) => StoreError::Database(format!("table {}: {problem}", table.name)),
            other => other,
        })
    }

    pub(crate) async fn continue_ids(&mut self, table: &Table, last: Option<i64>) -> Result<()> {
        let Some((sequence, column)) = self.hand.sequence(table).await? else {
            return Ok(());
        };
        let here: i64 =
            self.hand.one(&format!("SELECT coalesce(max(\"{column}\"), 0) FROM {}", table.name)).await?;
        match last.unwrap_or_default().max(here) {
            0 => Ok(()),
            last => self.hand.run(&format!("SELECT setval('{sequence}', {last})")).await,
        }
    }

    pub(crate) async fn commit(&mut self) -> Result<()> {
        for table in TABLES {
            self.hand.run(&format!("ALTER TABLE {} ENABLE TRIGGER USER", table.name)).await?;
        }
        let committed = self.hand.client.batch_execute("COMMIT").await;
        committed.map_err(|error| Trouble::at_commit(error).into_error(&self.hand.address))
    }

    /// The server rolls back what was not committed.
    pub(crate) async fn abandon(self) {
        // Best effort: the error that matters is the one being told.
        let _ = self.hand.run("ROLLBACK").await;
    }
}

fn value(
    row: &tokio_postgres::Row,
    n: usize,
    kind: Kind,
) -> std::result::Result<Value, tokio_postgres::Error> {
    let value = match kind {
        Kind::Bigint => row.try_get::<_, Option<i64>>(n)?.map(Value::Integer),
        Kind::Integer => row.try_get::<_, Option<i32>>(n)?.map(|n| Value::Integer(n.into())),
        Kind::Double => row.try_get::<_, Option<f64>>(n)?.map(Value::Real),
        Kind::Boolean => row.try_get::<_, Option<bool>>(n)?.map(|yes| Value::Integer(yes.into())),
        Kind::Text | Kind::Json => row.try_get::<_, Option<String>>(n)?.map(Value::Text),
        Kind::Uuid => row.try_get::<_, Option<Uuid>>(n)?.map(|token| Value::Bytes(token.into_bytes().into())),
        Kind::Bytes => row.try_get::<_, Option<Vec<u8>>>(n)?.map(Value::Bytes),
        Kind::Time => row.try_get::<_, Option<Time>>(n)?.map(|Time(at)| Value::Integer(at.0)),
    };
    Ok(value.unwrap_or(Value::Null))
}

/// A column of a batch, in the type that its array has.
fn array(table: &Table, column: &Column, values: Vec<Value>) -> Result<Box<dyn ToSql + Sync + Send>> {
    let turned = match column.kind {
        Kind::Bigint => turn(values, integer),
        Kind::Integer => turn(values, |value| integer(value).and_then(|n| i32::try_from(n).ok())),
        Kind::Double => turn(values, double),
        Kind::Boolean => turn(values, |value| integer(value).map(|n| n != 0)),
        Kind::Text | Kind::Json => turn(values, text),
        Kind::Uuid => turn(values, |value| Uuid::from_slice(&bytes(value)?).ok()),
        Kind::Bytes => turn(values, bytes),
        Kind::Time => turn(values, |value| integer(value).map(|micros| Time(Timestamp(micros)))),
    };
    turned.ok_or_else(|| {
        let problem = format!("column {} of {} holds a value of another type", column.name, table.name);
        StoreError::invalid("source", problem)
    })
}

/// `None` if one of them is not what the column holds.
fn turn<T: ToSql + Sync + Send + 'static>(
    values: Vec<Value>,
    turn: fn(Value) -> Option<T>,
) -> Option<Box<dyn ToSql + Sync + Send>> {
    let values = values.into_iter().map(|value| match value {
        Value::Null => Some(None),
        value => turn(value).map(Some),
    });
    Some(Box::new(values.collect::<Option<Vec<Option<T>>>>()?))
}

fn integer(value: Value) -> Option<i64> {
    if let Value::Integer(n) = value { Some(n) } else { None }
}

fn double(value: Value) -> Option<f64> {
    if let Value::Real(n) = value { Some(n) } else { None }
}

fn text(value: Value) -> Option<String> {
    if let Value::Text(text) = value { Some(text) } else { None }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    if let Value::Bytes(bytes) = value { Some(bytes) } else { None }
}
