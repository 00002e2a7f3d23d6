//! The pool: connections that are kept while they answer, and in whose name they act.
//!
//! A connection that was silent for too long, or that may only read, is not given back; whatever lies idle beside it
//! is thrown away too, because it most likely leads to the same place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, RecyclingMethod, Runtime,
};
use tokio_postgres::Client;

use super::As;
use super::dial::{Dial, Messages};
use super::trouble::Trouble;
use crate::address::PostgresUrl;
use crate::config::Actor;
use crate::error::{Result, StoreError};
use crate::tally::PoolUse;

/// Connections of one node; claims, commits and enqueues are short.
const CONNECTIONS_MAX: usize = 16;
/// How long a caller waits for a free connection.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the server lets a statement of the long kind run; see `LONG`.
pub(super) const LONG_TIMEOUT: Duration = Duration::from_secs(60);

const HAS_ROLES: &str = "
SELECT count(*) = 2
  FROM pg_roles
 WHERE rolname IN ('rupor_app', 'rupor_dispatcher') AND pg_has_role(session_user, oid, 'MEMBER')";

const WHO_SERVES: &str = "SELECT pg_backend_pid()";
const ONE_MOMENT: Duration = Duration::from_secs(1);

/// Commits of ours that have been waiting for a synchronous standby for longer than `$1` seconds.
pub(super) const WAIT_FOR_STANDBY: &str = "
SELECT count(*)
  FROM pg_stat_activity
 WHERE wait_event = 'SyncRep' AND usename = session_user AND datname = current_database()
   AND query_start < clock_timestamp() - $1 * interval '1 second'";

#[derive(Debug, Clone)]
pub(super) struct Pool {
    pool: deadpool_postgres::Pool,
    dial: Dial,
    address: String,
    /// The login may act as the plain roles, so it does.
    roles: bool,
    /// Connections made so far.
    made: Arc<AtomicU64>,
    /// Commits wait for a standby that is not there; until it is back nothing more is written.
    pub(super) no_standby: Arc<AtomicBool>,
}

impl Pool {
    pub(super) async fn open(url: &PostgresUrl) -> Result<Pool> {
        let address = url.to_string();
        let dial = Dial::new(url)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(tokio_postgres::Config::new(), dial.clone(), recycling);
        let made = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&made);
        let (greeting, patience) = (greeting(dial.answer_timeout), dial.answer_timeout);
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .wait_timeout(Some(WAIT_TIMEOUT))
            .post_create(Hook::async_fn(move |client: &mut ClientWrapper, _| {
                let (greeting, made) = (greeting.clone(), Arc::clone(&counted));
                Box::pin(async move {
                    let greeted = tokio::time::timeout(patience, client.batch_execute(&greeting)).await;
                    greeted.map_err(|_| HookError::message("no answer"))?.map_err(HookError::Backend)?;
                    made.fetch_add(1, Ordering::AcqRel);
                    Ok(())
                })
            }))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Database(error.to_string()))?;
        let mut opened = Pool { pool, dial, address, roles: false, made, no_standby: Arc::default() };
        let looked = async {
            opened.refuse_forgetful().await?;
            opened.has_roles().await
        };
        let looked = tokio::time::timeout(patience * 2, looked).await;
        let silent = Trouble::Silent { committing: false, seconds: patience.as_secs() * 2 };
        let roles = looked.unwrap_or(Err(silent)).map_err(|trouble| trouble.into_error(&opened.address))?;
        opened.roles = roles;
        Ok(opened)
    }

    /// Recognises a pooler that gives each transaction another server process and knows nothing of prepared statements:
    /// nothing would work there, and nobody would know why. Two of our connections that meet on one process show the
    /// pooler; then the first one's statement has to be found on the process that it gets instead.
    async fn refuse_forgetful(&self) -> std::result::Result<(), Trouble> {
        let (mut one, mut other) = (self.session().await?, self.session().await?);
        one.begin();
        let statement = one.client().prepare(WHO_SERVES).await?;
        let first: i32 = one.client().query_one(&statement, &[]).await?.get(0);
        other.begin();
        other.client().batch_execute("BEGIN").await?;
        let second: i32 = other.client().query_one(WHO_SERVES, &[]).await?.get(0);
        if first == second {
            // A pooler with one process only keeps the first one waiting, and always finds its statement.
            let again = tokio::time::timeout(ONE_MOMENT, one.client().query_one(&statement, &[])).await;
            if let Ok(answer) = again {
                answer?;
            }
        }
        other.client().batch_execute("ROLLBACK").await?;
        other.end();
        one.end();
        Ok(())
    }

    async fn has_roles(&self) -> std::result::Result<bool, Trouble> {
        let row = self.client().await?.query_one(HAS_ROLES, &[]).await?;
        Ok(row.get(0))
    }

    pub(super) fn connections(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    pub(super) fn use_of(&self) -> PoolUse {
        let status = self.pool.status();
        PoolUse {
            most: status.max_size as u64,
            busy: status.size.saturating_sub(status.available) as u64,
            idle: status.available as u64,
            waiting: status.waiting as u64,
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// How long a call may go without an answer.
    pub(super) fn patience(&self) -> Duration {
        self.dial.answer_timeout
    }

    pub(super) async fn client(&self) -> std::result::Result<Object, Trouble> {
        Ok(self.pool.get().await?)
    }

    pub(super) async fn session(&self) -> std::result::Result<Session, Trouble> {
        Ok(Session { client: Some(self.client().await?), open: false, committing: AtomicBool::new(false) })
    }

    /// The idle connections lead where a silent or demoted server was; the next ones are made anew.
    pub(super) fn forget_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    /// Whether commits of ours wait for a standby, as a new connection sees it.
    pub(super) async fn waits_for_standby(&self) -> bool {
        let look = async {
            let client = self.client().await.ok()?;
            let least = self.patience().as_secs_f64() / 2.0;
            let row = client.query_one(WAIT_FOR_STANDBY, &[&least]).await.ok()?;
            Some(row.get::<_, i64>(0) > 0)
        };
        let found = tokio::time::timeout(self.patience(), look).await.ok().flatten().unwrap_or(false);
        if found && !self.no_standby.swap(true, Ordering::AcqRel) {
            tracing::error!(database = self.address, "commits wait for a synchronous standby that is gone");
        }
        found
    }

    /// The first words of every transaction: who acts, and for whom. Everything is local to the transaction.
    pub(super) fn setup(&self, who: As, actor: Option<&Actor>) -> String {
        let mut words = self.role(who);
        if let Some(Actor { who, reason }) = actor {
            let reason = reason.as_deref().unwrap_or_default();
            words += &format!(
                "; SET LOCAL rupor.by = {}; SET LOCAL rupor.reason = {}",
                literal(who),
                literal(reason)
            );
        }
        words
    }

    fn role(&self, who: As) -> String {
        match (who, self.roles) {
            (As::App(id), true) => {
                format!("BEGIN; SET LOCAL ROLE rupor_app; SET LOCAL rupor.workspace = '{id}'")
            }
            (As::App(id), false) => format!("BEGIN; SET LOCAL rupor.workspace = '{id}'"),
            (As::Dispatcher, true) => "BEGIN; SET LOCAL ROLE rupor_dispatcher".to_owned(),
            // Without the roles we are the owner, whose policy asks for this word.
            (As::Dispatcher, false) => "BEGIN; SET LOCAL rupor.span = 'on'".to_owned(),
        }
    }

    /// A connection outside the pool, for listening.
    pub(super) async fn listener(&self) -> Result<(Client, Box<dyn Messages>)> {
        self.dial.connect().await.map_err(|error| self.dial.unreachable(&error))
    }
}

/// Text as SQL writes it, whatever stands in it: SET takes no parameters.
fn literal(text: &str) -> String {
    let text = text.replace('\0', "").replace('\\', "\\\\").replace('\'', "''");
    format!("E'{text}'")
}

/// The first words of every connection. Nothing of the queue runs for long; a statement that does is in somebody's way,
/// and is given up on the server before the caller gives up waiting for it. Wake-ups are merged by us, so the functions
/// need not say them.
fn greeting(answer_timeout: Duration) -> String {
    let part = |percent: u32| (answer_timeout * percent / 100).as_millis();
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; \
         SET idle_in_transaction_session_timeout = '60s'; SET rupor.quiet = 'on'",
        part(80),
        part(60),
    )
}

/// A connection that goes back to the pool only outside a transaction. A task that is cancelled inside one takes the
/// connection with it, and the server rolls back.
#[derive(Debug)]
pub(super) struct Session {
    client: Option<Object>,
    open: bool,
    /// COMMIT may have been sent.
    committing: AtomicBool,
}

impl Session {
    pub(super) fn client(&self) -> &ClientWrapper {
        self.client.as_deref().expect("a session holds its connection until it is dropped")
    }

    pub(super) fn begin(&mut self) {
        self.open = true;
    }

    pub(super) fn end(&mut self) {
        self.open = false;
    }

    /// From here on nobody knows, until there is an answer.
    pub(super) fn commits(&self) {
        self.committing.store(true, Ordering::Release);
    }

    pub(super) fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Acquire)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.client.take().filter(|_| self.open) {
            drop(Object::take(client));
        }
    }
}
