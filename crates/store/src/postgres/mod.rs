//! The driver for many nodes: every verb of the queue is one call of an SQL function.
//!
//! The functions (functions/*.sql) hold the rules, so that any other client may call them too;
//! this driver turns values into arguments and rows into values, sets the workspace and the role of every
//! transaction, and knows which failures are worth another try. Time is the database's.

mod accounts;
mod audit;
mod cases;
mod channels;
mod claim;
mod commit;
mod connect;
pub(crate) mod copy;
mod enqueue;
pub mod functions;
mod history;
mod intake;
mod maintain;
mod media;
pub mod migrate;
mod read;
mod recipients;
mod recover;
mod rows;
mod sources;
mod trouble;
mod wake;
mod workspaces;

use std::sync::Arc;

use domain::ids::WorkspaceId;
use domain::time::Timestamp;
use futures_util::future::{join_all, join3};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::address::PostgresUrl;
use crate::config::Actor;
use crate::error::{Result, StoreError};
use crate::keyring::Keyring;
use crate::queue::Whose;
use crate::wake::{Bell, WakeUp};
use connect::Pool;
use rows::Time;
use trouble::{Reaction, TRIES_MAX, Trouble};
use wake::Herald;

const SELECT_NOW: &str = "SELECT rupor_now()";
const SELECT_KEY_CHECK: &str = "SELECT key_check FROM control";
/// The first node to come seals the text; a second one at the same moment finds it sealed and verifies.
const SET_KEY_CHECK: &str = "UPDATE control SET key_check = $1 WHERE key_check IS NULL RETURNING one";

/// Every statement of the driver, so that a test can prepare them all.
pub const STATEMENTS: &[&[&str]] = &[
    &[SELECT_NOW, SELECT_KEY_CHECK, SET_KEY_CHECK],
    accounts::STATEMENTS,
    audit::CHECKS,
    cases::STATEMENTS,
    channels::STATEMENTS,
    claim::STATEMENTS,
    commit::STATEMENTS,
    enqueue::STATEMENTS,
    history::STATEMENTS,
    intake::STATEMENTS,
    maintain::STATEMENTS,
    media::STATEMENTS,
    read::STATEMENTS,
    recipients::STATEMENTS,
    recover::STATEMENTS,
    sources::STATEMENTS,
    wake::STATEMENTS,
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

impl Postgres {
    pub async fn open(url: &PostgresUrl, keyring: Keyring) -> Result<Postgres> {
        let pool = Pool::open(url).await?;
        migrate::require_current(&pool).await?;
        let bell = Bell::new();
        let herald = Arc::new(Herald::start(pool.clone(), bell.clone()));
        let db = Postgres { pool, keyring: Arc::new(keyring), bell, herald, actor: None };
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
        let mut tries = 0;
        loop {
            tries += 1;
            let trouble = match self.attempt(who, again, queries).await {
                Ok(results) => return Ok(results),
                Err(trouble) => trouble,
            };
            let retry = match trouble.reaction() {
                Reaction::TryAgain => true,
                Reaction::Look => again == Again::Safe,
                Reaction::GiveUp => false,
            };
            if !retry || tries >= TRIES_MAX {
                return Err(trouble.into_error(self.pool.address()));
            }
            tracing::debug!(tries, "a transaction is tried again");
            tokio::time::sleep(trouble::pause(tries)).await;
        }
    }

    /// BEGIN and the statements go out together and are answered together. So does COMMIT where an answer that is
    /// lost does no harm; elsewhere it waits until the statements have succeeded.
    async fn attempt(
        &self,
        who: As,
        again: Again,
        queries: &[Query<'_>],
    ) -> std::result::Result<Vec<Vec<Row>>, Trouble> {
        let mut session = self.pool.session().await?;
        let mut statements = Vec::with_capacity(queries.len());
        for query in queries {
            statements.push(session.client().prepare_cached(query.sql).await?);
        }
        session.begin();
        let setup = self.pool.setup(who, self.actor.as_deref());
        let client = session.client();
        let work =
            queries.iter().zip(&statements).map(|(query, statement)| client.query(statement, query.params));
        let (begun, results, ended) =
            join3(client.batch_execute(&setup), join_all(work), end_at_once(client, again)).await;
        begun?;
        let results = results.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        match (again, results) {
            (Again::Safe, results) => {
                ended.map_err(Trouble::at_commit)?;
                session.end();
                Ok(results?)
            }
            (Again::Never, Ok(results)) => {
                client.batch_execute("COMMIT").await.map_err(Trouble::at_commit)?;
                session.end();
                Ok(results)
            }
            (Again::Never, Err(error)) => {
                if client.batch_execute("ROLLBACK").await.is_ok() {
                    session.end();
                }
                Err(error.into())
            }
        }
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
    again: Again,
) -> std::result::Result<(), tokio_postgres::Error> {
    match again {
        Again::Safe => client.batch_execute("COMMIT").await,
        Again::Never => Ok(()),
    }
}
