//! The functions of the database: their text, and applying it again when it changed.
//!
//! They are no step of the schema: a step is applied once and never edited, a function is what today's binary needs.
//! Each file does what the SQLite file of the same name does; one without such a twin says so at its top.

use std::sync::LazyLock;

use domain::limits::*;
use domain::time::Span;
use tokio_postgres::{Client, GenericClient};

use super::trouble::{Trouble, error_text};
use crate::address::PostgresUrl;
use crate::bot::{BOT_COUNTED_MAX, BOT_EVENTS_MAX, BOT_WAITING_MAX};
use crate::error::{Result, SchemaError, StoreError};
use crate::migrations::checksum;
use crate::recipients::LANE_KEPT_EVERY;

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(include_str!(concat!("functions/", $name, ".sql"))),+]
    };
}

/// In the order in which they need each other.
const FILES: &[&str] = files![
    "values",
    "guard",
    "history",
    "transitions",
    "heads",
    "accounts",
    "channels",
    "moving",
    "recipients",
    "workspaces",
    "enqueue",
    "claim",
    "front",
    "rules",
    "settle",
    "sent",
    "late",
    "commit",
    "recover",
    "maintain",
    "campaigns",
    "feed",
    "intake",
    "refile",
    "sources",
    "media",
    "bot",
    "calls",
    "watch",
    "orchestrate",
];

const CREATE_TABLE: &str = "
CREATE TABLE IF NOT EXISTS schema_functions (
    one        integer PRIMARY KEY CHECK (one = 1),
    checksum   text NOT NULL,
    functions  text[] NOT NULL,
    types      text[] NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)";
const GRANT_TABLE: &str = "GRANT SELECT ON schema_functions TO PUBLIC";
const TABLE_EXISTS: &str = "SELECT to_regclass('schema_functions') IS NOT NULL";
const READ: &str = "SELECT checksum, functions, types FROM schema_functions";
const RECORD: &str = "
INSERT INTO schema_functions (one, checksum, functions, types) VALUES (1, $1, $2, $3)
ON CONFLICT (one) DO UPDATE
   SET checksum = excluded.checksum, functions = excluded.functions, types = excluded.types,
       applied_at = clock_timestamp()";
/// Functions of triggers are replaced in place, for their triggers hold them; the others are made anew, so that a
/// function may get other arguments or vanish.
const FUNCTIONS: &str = "
SELECT p.oid::regprocedure::text FROM pg_proc AS p
 WHERE p.pronamespace = 'public'::regnamespace AND p.prorettype <> 'trigger'::regtype";
const TYPES: &str = "
SELECT c.relname::text FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'c'";

/// A limit as SQL knows it: a whole number; a span in microseconds.
trait Rule {
    const UNIT: &str;
    fn number(self) -> i64;
}

impl Rule for i32 {
    const UNIT: &str = "";
    fn number(self) -> i64 {
        self.into()
    }
}

impl Rule for u32 {
    const UNIT: &str = "";
    fn number(self) -> i64 {
        self.into()
    }
}

impl Rule for i64 {
    const UNIT: &str = "";
    fn number(self) -> i64 {
        self
    }
}

impl Rule for usize {
    const UNIT: &str = "";
    fn number(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl Rule for Span {
    const UNIT: &str = "_us";
    fn number(self) -> i64 {
        self.micros()
    }
}

/// `rupor_rule_attempts_max()`: the planner puts the number in the place of the call.
fn rule<R: Rule>(name: &str, value: R) -> String {
    let (name, unit, number) = (name.to_lowercase(), R::UNIT, value.number());
    format!(
        "CREATE FUNCTION rupor_rule_{name}{unit}() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT {number}::bigint';\n"
    )
}

macro_rules! rules {
    ($($name:ident),+ $(,)?) => {
        [$(rule(stringify!($name), $name)),+].concat()
    };
}

/// The numbers that are rules, from the one place where they stand.
fn rules() -> String {
    rules![
        ACCOUNT_COOLDOWN,
        ACCOUNT_COOLDOWN_MAX,
        ALERT_BOT_DEAF,
        ALERT_BOT_HANDOFF,
        ALERT_BOT_LOST_SHARE,
        ALERT_BOT_MESSAGES_MIN,
        ALERT_BOT_WAIT,
        ALERT_LAG,
        ALERT_LOST_LEASES_MIN,
        ALERT_REST,
        ALERT_RETRIES_MAX,
        ALERT_SOURCE,
        ALERT_STUCK,
        ALERT_WAIT,
        ATTEMPTS_MAX,
        BACKOFF_BASE,
        BACKOFF_JITTER_PER_MILLE,
        BACKOFF_MAX,
        BOT_COUNTED_MAX,
        BOT_EVENTS_MAX,
        BOT_WAITING_MAX,
        CHANNEL_PAUSE,
        CHANNEL_PAUSE_MAX,
        CHANNEL_STREAK_MAX,
        CHANNEL_WAIT,
        CLAIM_ACCOUNTS_MAX,
        CLAIM_AHEAD_MAX,
        CLAIM_BATCH_MAX,
        ENQUEUE_BATCH_MAX,
        ERROR_RAW_BYTES_MAX,
        ERROR_TEXT_MAX,
        FLOOD_TOTAL_MAX,
        FLOOD_WAITS_MAX,
        LANE_KEPT_EVERY,
        LEASE,
        LOST_CLAIMS_MAX,
        LOST_REQUESTS_MAX,
        LOST_REQUEST_WAIT,
        NOT_READY_WAIT,
        NOT_READY_WAITS_MAX,
        NOT_READY_WAIT_MAX,
        PAYLOAD_BYTES_MAX,
        RECORDED_PARTS_MAX,
        RELEASES_FREE,
        RELEASE_WAIT,
        RELEASE_WAIT_MAX,
        RETRY_AFTER_MAX,
        RETRY_LOOK,
        SLOTS_RESERVED_MAX,
        SLOT_LEAD_MAX,
        SUSPECT_PATIENCE,
        UNKNOWNS_MAX,
        URGENT_RUN_MAX,
    ]
}

/// All functions, as today's binary wants them.
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| [rules(), FILES.join("\n")].concat());
    &TEXT
}

/// What was applied last.
struct Applied {
    checksum: String,
    functions: Vec<String>,
    types: Vec<String>,
}

/// Makes the functions those of today. Under the migrators' lock, after the steps; a second migrator finds them so.
pub(super) async fn apply(client: &mut Client, url: &PostgresUrl, lock: &str, text: &str) -> Result<()> {
    let failure = |error: tokio_postgres::Error| Trouble::from(error).into_error(&url.to_string());
    let wanted = checksum(text);
    let tx = client.transaction().await.map_err(failure)?;
    tx.batch_execute(lock).await.map_err(failure)?;
    let exists: bool = tx.query_one(TABLE_EXISTS, &[]).await.map_err(failure)?.get(0);
    if !exists {
        tx.batch_execute(CREATE_TABLE).await.map_err(failure)?;
        tx.batch_execute(GRANT_TABLE).await.map_err(failure)?;
    }
    let before = read(&tx).await.map_err(failure)?;
    if before.as_ref().is_some_and(|before| before.checksum == wanted) {
        return Ok(());
    }
    if let Some(before) = before {
        tx.batch_execute(&drop_all(&before)).await.map_err(|error| failed(&error))?;
    }
    let (functions, types) = (names(&tx, FUNCTIONS).await, names(&tx, TYPES).await);
    let (functions, types) = (functions.map_err(failure)?, types.map_err(failure)?);
    tx.batch_execute(text).await.map_err(|error| failed(&error))?;
    let new = |all: Vec<String>, old: &[String]| -> Vec<String> {
        all.into_iter().filter(|name| !old.contains(name)).collect()
    };
    let functions = new(names(&tx, FUNCTIONS).await.map_err(failure)?, &functions);
    let types = new(names(&tx, TYPES).await.map_err(failure)?, &types);
    tx.execute(RECORD, &[&wanted, &functions, &types]).await.map_err(failure)?;
    tx.commit().await.map_err(failure)
}

/// In one statement each, for they need each other. Nothing of anybody else goes with them.
fn drop_all(applied: &Applied) -> String {
    let mut statements = String::new();
    if !applied.functions.is_empty() {
        statements.push_str(&format!("DROP FUNCTION IF EXISTS {};\n", applied.functions.join(", ")));
    }
    if !applied.types.is_empty() {
        statements.push_str(&format!("DROP TYPE IF EXISTS {};\n", applied.types.join(", ")));
    }
    statements
}

/// For `open`: the functions must be exactly those that we call.
pub(super) async fn problem(
    client: &impl GenericClient,
) -> std::result::Result<Option<SchemaError>, tokio_postgres::Error> {
    let exists: bool = client.query_one(TABLE_EXISTS, &[]).await?.get(0);
    let applied = if exists { read(client).await? } else { None };
    let current = applied.is_some_and(|applied| applied.checksum == checksum(text()));
    Ok((!current).then_some(SchemaError::Functions))
}

async fn read(client: &impl GenericClient) -> std::result::Result<Option<Applied>, tokio_postgres::Error> {
    let row = client.query_opt(READ, &[]).await?;
    Ok(row.map(|row| Applied { checksum: row.get(0), functions: row.get(1), types: row.get(2) }))
}

async fn names(
    client: &impl GenericClient,
    query: &str,
) -> std::result::Result<Vec<String>, tokio_postgres::Error> {
    Ok(client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// With the detail, which names what holds a function.
fn failed(error: &tokio_postgres::Error) -> StoreError {
    let detail = error.as_db_error().and_then(|error| error.detail());
    let problem =
        detail.map_or_else(|| error_text(error), |detail| format!("{}: {detail}", error_text(error)));
    SchemaError::FunctionsFailed { problem }.into()
}
