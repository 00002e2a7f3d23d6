//! The driver for many nodes: every verb of the queue is one call of an SQL function.
//!
//! The functions (functions/*.sql) hold the rules, so that any other client may call them too;
//! this driver turns values into arguments and rows into values, sets the workspace and the role of every
//! transaction, and knows which failures are worth another try. Time is the database's.

mod accounts;
mod audiences;
mod audit;
mod bot;
mod bots;
mod calls;
mod campaigns;
mod cases;
mod channels;
mod claim;
mod commit;
mod connect;
pub(crate) mod copy;
pub(crate) mod dial;
mod enqueue;
mod feed;
pub mod functions;
mod held_posts;
mod history;
mod intake;
mod maintain;
mod media;
pub mod migrate;
mod moving;
mod overview;
mod progress;
mod read;
mod recipients;
mod recover;
mod refile;
mod rows;
mod sources;
mod trouble;
mod wake;
mod watch;
mod workspaces;

pub(crate) use bot::item as turn_item;
pub(crate) use enqueue::message_items;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::ids::WorkspaceId;
use domain::time::Timestamp;
use futures_util::future::{BoxFuture, join_all, join3};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::address::PostgresUrl;
use crate::config::Actor;
use crate::error::{Result, StoreError};
use crate::health::{Health, Pulse};
use crate::keyring::Keyring;
use crate::queue::Whose;
use crate::tally::{PoolUse, Tally};
use crate::wake::{Bell, WakeUp};
use connect::{LONG_TIMEOUT, Pool, Session, WAIT_FOR_STANDBY};
use history::Accepted;
use rows::Time;
use trouble::{Reaction, Tries, Trouble};
use wake::Herald;

const SELECT_NOW: &str = "SELECT rupor_now()";
const SELECT_KEY_CHECK: &str = "SELECT key_check FROM control";
/// The first node to come seals the text; a second one at the same moment finds it sealed and verifies.
const SET_KEY_CHECK: &str = "UPDATE control SET key_check = $1 WHERE key_check IS NULL RETURNING one";

/// Whether this transaction has written anything.
const HAS_WRITTEN: &str = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL";
/// Writes to the log of the server and to no table, so that it waits for nobody's lock; and says whether tables could be
/// written.
const PROBE: &str = "
SELECT current_setting('transaction_read_only'), pg_logical_emit_message(true, 'rupor', '')::text";

/// Statements that look through everything or clear away; they may take longer than a verb of the queue.
const LONG: &[&[&str]] = &[audit::CHECKS, maintain::STATEMENTS, media::LONG, intake::LONG];

/// Every statement of the driver, so that a test can prepare them all.
pub const STATEMENTS: &[&[&str]] = &[
    &[SELECT_NOW, SELECT_KEY_CHECK, SET_KEY_CHECK, HAS_WRITTEN, PROBE, WAIT_FOR_STANDBY],
    accounts::STATEMENTS,
    audiences::STATEMENTS,
    audit::CHECKS,
    bot::STATEMENTS,
    bots::STATEMENTS,
    calls::STATEMENTS,
    campaigns::STATEMENTS,
    progress::STATEMENTS,
    cases::STATEMENTS,
    channels::STATEMENTS,
    moving::STATEMENTS,
    claim::STATEMENTS,
    commit::STATEMENTS,
    enqueue::STATEMENTS,
    feed::STATEMENTS,
    held_posts::STATEMENTS,
    history::STATEMENTS,
    intake::STATEMENTS,
    maintain::STATEMENTS,
    media::STATEMENTS,
    overview::STATEMENTS,
    read::STATEMENTS,
    recipients::STATEMENTS,
    recover::STATEMENTS,
    refile::STATEMENTS,
    sources::STATEMENTS,
    wake::STATEMENTS,
    watch::STATEMENTS,
    workspaces::STATEMENTS,
];

#[derive(Debug, Clone)]
pub struct Postgres {
    pool: Pool,
    keyring: Arc<Keyring>,
    bell: Bell,
    herald: Arc<Herald>,
    /// In whose hands this is; `None`: Rupor itself.
    actor: Option<Arc<Actor>>,
    pub(crate) pulse: Pulse,
    pub(crate) tally: Tally,
    accepted: Arc<Accepted>,
}

/// In whose name a transaction acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum As {
    /// One workspace; rows of others do not exist.
    App(WorkspaceId),
    /// Everybody's work, through the functions.
    Dispatcher,
}

impl From<Whose> for As {
    fn from(whose: Whose) -> As {
        match whose {
            Whose::Workspace(id) => As::App(id),
            Whose::Everyone => As::Dispatcher,
        }
    }
}

/// What to do when the answer to COMMIT is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// Doing it twice is doing it once: it is simply done again.
    Safe,
    /// The caller has to look before it acts.
    Never,
}

/// One statement with its arguments.
#[derive(Clone, Copy)]
struct Query<'a> {
    sql: &'static str,
    params: &'a [&'a (dyn ToSql + Sync)],
}

/// A connection without the pool and the rules around it: what they cost is measured against it.
pub async fn bare_connection(url: &crate::address::PostgresUrl) -> Result<tokio_postgres::Client> {
    dial::connect(url).await
}

impl Postgres {
    pub async fn open(url: &PostgresUrl, keyring: Keyring) -> Result<Postgres> {
        let pool = Pool::open(url).await?;
        migrate::require_current(&pool).await?;
        let bell = Bell::new();
        let herald = Arc::new(Herald::start(pool.clone(), bell.clone()));
        let (keyring, pulse) = (Arc::new(keyring), Pulse::new());
        let db = Postgres {
            pool,
            keyring,
            bell,
            herald,
            actor: None,
            pulse,
            tally: Tally::default(),
            accepted: Arc::default(),
        };
        db.fit_key().await?;
        Ok(db)
    }

    pub fn by(&self, actor: Actor) -> Postgres {
        Postgres { actor: Some(Arc::new(actor)), ..self.clone() }
    }

    pub async fn now(&self) -> Result<Timestamp> {
        let Time(now) = self.one(As::Dispatcher, Again::Safe, SELECT_NOW, &[]).await?.get(0);
        Ok(now)
    }

    /// Listens before it returns, so that nothing enqueued afterwards is missed; polling covers the rest.
    pub async fn wake_up(&self) -> Result<WakeUp> {
        let wake_up = self.bell.listen();
        self.herald.listen().await;
        Ok(wake_up)
    }

    /// Tells whoever waits for work, here and on the other nodes.
    fn ring(&self) {
        self.bell.ring();
        self.herald.tell();
    }

    async fn fit_key(&self) -> Result<()> {
        let check: Option<Vec<u8>> =
            self.one(As::Dispatcher, Again::Safe, SELECT_KEY_CHECK, &[]).await?.get(0);
        let Some(sealed) = self.keyring.verify(check.as_deref())? else {
            return Ok(());
        };
        if self.first(As::Dispatcher, Again::Never, SET_KEY_CHECK, &[&sealed]).await?.is_some() {
            return Ok(());
        }
        let check: Option<Vec<u8>> =
            self.one(As::Dispatcher, Again::Safe, SELECT_KEY_CHECK, &[]).await?.get(0);
        self.keyring.verify(check.as_deref()).map(drop)
    }

    /// Goes on with the key that the database is sealed with now, and says which text proves it.
    async fn follow_key(&self) -> Result<Vec<u8>> {
        let check: Option<Vec<u8>> =
            self.one(As::Dispatcher, Again::Safe, SELECT_KEY_CHECK, &[]).await?.get(0);
        self.keyring.verify(check.as_deref())?;
        Ok(check.unwrap_or_default())
    }

    async fn all(
        &self,
        who: As,
        again: Again,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let mut results = self.run(who, again, &[Query { sql, params }]).await?;
        Ok(results.pop().unwrap_or_default())
    }

    async fn first(
        &self,
        who: As,
        again: Again,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>> {
        Ok(self.all(who, again, sql, params).await?.into_iter().next())
    }

    async fn one(
        &self,
        who: As,
        again: Again,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row> {
        let row = self.first(who, again, sql, params).await?;
        row.ok_or_else(|| StoreError::Database(format!("no row came back from {sql:?}")))
    }

    /// One transaction. Tried again as a whole when the database says so, never after an unanswered COMMIT unless
    /// doing it twice is doing it once.
    async fn run(&self, who: As, again: Again, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>> {
        let mut tries = Tries::default();
        loop {
            let trouble = match self.attempt(who, again, queries).await {
                Ok(results) => return self.noted(Ok(results)),
                Err(trouble) => trouble,
            };
            let retry = match trouble.reaction() {
                Reaction::TryAgain => true,
                Reaction::Look => again == Again::Safe,
                Reaction::GiveUp => false,
            };
            if !tries.again(&trouble) || !retry {
                return self.noted(Err(trouble.into_error(self.pool.address())));
            }
            tries.pause().await;
        }
    }

    async fn attempt(
        &self,
        who: As,
        again: Again,
        queries: &[Query<'_>],
    ) -> std::result::Result<Vec<Vec<Row>>, Trouble> {
        let long = queries.iter().any(|query| LONG.iter().any(|list| list.contains(&query.sql)));
        let mut session = self.pool.session().await?;
        let patience = if long { LONG_TIMEOUT + self.pool.patience() } else { self.pool.patience() };
        let work = self.transact(&mut session, who, again, queries, long);
        let result = match tokio::time::timeout(patience, work).await {
            Ok(result) => result,
            Err(_) => {
                Err(Trouble::Silent { committing: session.is_committing(), seconds: patience.as_secs() })
            }
        };
        self.judge(session, result).await
    }

    /// Gives a connection back, or away: one that is silent or may only read is of no use to anybody.
    async fn judge<T>(
        &self,
        mut session: Session,
        result: std::result::Result<T, Trouble>,
    ) -> std::result::Result<T, Trouble> {
        match result {
            Err(trouble @ Trouble::Silent { committing, .. }) => {
                session.begin();
                drop(session);
                self.pool.forget_idle();
                if committing && self.pool.waits_for_standby().await {
                    // This one may yet be committed when the standby is back; whoever comes next is refused at once.
                    let address = self.pool.address().to_owned();
                    self.pulse.failed(&StoreError::NoStandby { address });
                    return Err(Trouble::Refused(StoreError::CommitUnknown {
                        address: self.pool.address().to_owned(),
                        problem:
                            "it waits for a synchronous standby that is gone, and is done when that is back"
                                .into(),
                    }));
                }
                Err(trouble)
            }
            Err(trouble) if trouble.is_read_only() => {
                session.begin();
                drop(session);
                self.pool.forget_idle();
                Err(trouble)
            }
            result => result,
        }
    }

    /// One transaction of a workspace whose statements depend on each other's answers.
    async fn in_order<T>(
        &self,
        workspace: WorkspaceId,
        work: impl for<'a> FnOnce(&'a Tx<'a>) -> BoxFuture<'a, std::result::Result<T, Trouble>> + Send,
    ) -> std::result::Result<T, Trouble> {
        let mut session = self.pool.session().await?;
        let patience = self.pool.patience();
        let result = match tokio::time::timeout(patience, self.on(&mut session, workspace, work)).await {
            Ok(result) => result,
            Err(_) => {
                Err(Trouble::Silent { committing: session.is_committing(), seconds: patience.as_secs() })
            }
        };
        self.judge(session, result).await
    }

    async fn on<T>(
        &self,
        session: &mut Session,
        workspace: WorkspaceId,
        work: impl for<'a> FnOnce(&'a Tx<'a>) -> BoxFuture<'a, std::result::Result<T, Trouble>> + Send,
    ) -> std::result::Result<T, Trouble> {
        session.begin();
        let careful = self.without_standby(session.client()).await?;
        session.client().batch_execute(&self.pool.setup(As::App(workspace), self.actor.as_deref())).await?;
        let tx = Tx { client: session.client() };
        let result = work(&tx).await;
        match result {
            Ok(done) => {
                self.commit_session(session, careful).await?;
                Ok(done)
            }
            Err(trouble) => {
                if session.client().batch_execute("ROLLBACK").await.is_ok() {
                    session.end();
                }
                Err(trouble)
            }
        }
    }

    /// BEGIN and the statements go out together and are answered together. So does COMMIT where an answer that is
    /// lost does no harm; elsewhere it waits until the statements have succeeded.
    async fn transact(
        &self,
        session: &mut Session,
        who: As,
        again: Again,
        queries: &[Query<'_>],
        long: bool,
    ) -> std::result::Result<Vec<Vec<Row>>, Trouble> {
        // Whoever gives up from here on takes the connection along.
        session.begin();
        let careful = self.without_standby(session.client()).await?;
        let mut statements = Vec::with_capacity(queries.len());
        for query in queries {
            match session.client().prepare_cached(query.sql).await {
                Ok(statement) => statements.push(statement),
                Err(error) => {
                    if error.as_db_error().is_some() {
                        session.end();
                    }
                    return Err(error.into());
                }
            }
        }
        let mut setup = self.pool.setup(who, self.actor.as_deref());
        if long {
            setup.push_str(&format!("; SET LOCAL statement_timeout = {}", LONG_TIMEOUT.as_millis()));
        }
        let at_once = again == Again::Safe && !careful;
        if at_once {
            session.commits();
        }
        let client = session.client();
        let work =
            queries.iter().zip(&statements).map(|(query, statement)| client.query(statement, query.params));
        let (begun, results, ended) =
            join3(client.batch_execute(&setup), join_all(work), end_at_once(client, at_once)).await;
        begun?;
        let results = results.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        if at_once {
            ended.map_err(Trouble::at_commit)?;
            session.end();
            return Ok(results?);
        }
        match results {
            Ok(results) => {
                self.commit_session(session, careful).await?;
                Ok(results)
            }
            Err(error) => {
                if client.batch_execute("ROLLBACK").await.is_ok() {
                    session.end();
                }
                Err(error.into())
            }
        }
    }

    /// Whether commits are known to hang for want of a standby, asked anew each time: it may be back.
    async fn without_standby(
        &self,
        client: &deadpool_postgres::ClientWrapper,
    ) -> std::result::Result<bool, Trouble> {
        if !self.pool.no_standby.load(Ordering::Acquire) {
            return Ok(false);
        }
        let waiting: i64 = client.query_one(WAIT_FOR_STANDBY, &[&0.0_f64]).await?.get(0);
        if waiting == 0 && self.pool.no_standby.swap(false, Ordering::AcqRel) {
            tracing::info!(database = self.pool.address(), "commits are answered again");
        }
        Ok(waiting > 0)
    }

    /// COMMIT. While the standby is away what was written is taken back instead: a commit would hang like those before
    /// it, and each holds a connection of the server.
    async fn commit_session(&self, session: &mut Session, careful: bool) -> std::result::Result<(), Trouble> {
        let client = session.client();
        if careful && client.query_one(HAS_WRITTEN, &[]).await?.get(0) {
            client.batch_execute("ROLLBACK").await?;
            session.end();
            return Err(Trouble::Standby);
        }
        session.commits();
        client.batch_execute("COMMIT").await.map_err(Trouble::at_commit)?;
        session.end();
        Ok(())
    }

    /// How the database does, as this process sees it.
    pub fn health(&self) -> Health {
        self.pulse.health()
    }

    pub(crate) fn pool_use(&self) -> PoolUse {
        self.pool.use_of()
    }

    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            Ok(_) => self.pulse.answered(),
            Err(error) => self.pulse.failed(error),
        }
        result
    }

    /// Whether somebody is there.
    pub async fn look(&self) -> Result<()> {
        let asked = std::time::Instant::now();
        let looked = self.now().await.map(drop);
        self.pulse.took(asked.elapsed());
        looked
    }

    pub fn slowness(&self) -> Option<String> {
        self.pulse.slowness()
    }

    /// What keeps this database from taking writes, asked by somebody beside its nodes.
    pub async fn ailment(&self) -> Option<String> {
        match self.pool.waits_for_standby().await {
            // Trying it would only add one more commit that hangs.
            true => Some(StoreError::NoStandby { address: self.pool.address().to_owned() }.to_string()),
            false => self.probe().await.err().map(|error| error.to_string()),
        }
    }

    /// Writes for the sake of writing: whether the database takes it.
    pub async fn probe(&self) -> Result<()> {
        let row = self.one(As::Dispatcher, Again::Safe, PROBE, &[]).await?;
        if row.get::<_, &str>(0) == "on" {
            self.pool.forget_idle();
            let problem = "it was made read-only; name the primary, or several hosts".into();
            return self
                .noted(Err(StoreError::ReadOnly { address: self.pool.address().to_owned(), problem }));
        }
        self.pulse.wrote();
        Ok(())
    }
}

/// A transaction whose statements depend on each other's answers: they go one by one.
struct Tx<'a> {
    client: &'a deadpool_postgres::ClientWrapper,
}

impl Tx<'_> {
    async fn all(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<Vec<Row>, Trouble> {
        let statement = self.client.prepare_cached(sql).await?;
        Ok(self.client.query(&statement, params).await?)
    }

    async fn first(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<Option<Row>, Trouble> {
        Ok(self.all(sql, params).await?.into_iter().next())
    }

    async fn one(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<Row, Trouble> {
        let row = self.first(sql, params).await?;
        row.ok_or_else(|| StoreError::Database(format!("no row came back from {sql:?}")).into())
    }
}

/// A COMMIT behind a statement that failed rolls back.
async fn end_at_once(
    client: &deadpool_postgres::ClientWrapper,
    at_once: bool,
) -> std::result::Result<(), tokio_postgres::Error> {
    match at_once {
        true => client.batch_execute("COMMIT").await,
        false => Ok(()),
    }
}
