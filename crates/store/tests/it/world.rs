//! A store with a clock in the hand, on either database.

use domain::delivery::Status;
use domain::ids::{AccountId, ChannelId, DeliveryId, WorkspaceId};
use domain::outcome::{Category, Failure, Outcome, Scope, Sent};
use domain::retry::Chance;
use domain::time::{Span, Timestamp};
use secrecy::SecretString;
use serde_json::{Value, json};
use store::*;
use tokio_postgres::NoTls;

/// 2026-11-15 12:00:00 UTC.
pub(crate) const START: Timestamp = Timestamp(1_794_744_000_000_000);

/// Declares the same test for both databases.
macro_rules! contract {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => {
        mod sqlite {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let world = crate::world::World::sqlite().await;
                super::$name(&world).await;
                world.check().await;
            })+
        }
        mod postgres {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let world = crate::world::World::postgres().await;
                super::$name(&world).await;
                world.check().await;
                world.drop_database().await;
            })+
        }
    };
}
pub(crate) use contract;

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub store: Store,
    pub ws: WorkspaceId,
    clock: WorldClock,
}

#[derive(Debug, Clone)]
enum WorldClock {
    Hand(Clock),
    Database(std::sync::Arc<Scratch>),
}

/// A database of our own on the test server.
#[derive(Debug)]
pub(crate) struct Scratch {
    server: String,
    pub name: String,
    client: tokio_postgres::Client,
}

impl World {
    pub(crate) async fn sqlite() -> World {
        let clock = Clock::hand(START);
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), clock.clone()).await.unwrap();
        World::in_store(store, WorldClock::Hand(clock)).await
    }

    /// In a file, made anew.
    #[allow(dead_code, reason = "tests/postgres has no files")]
    pub(crate) async fn sqlite_at(path: &std::path::Path) -> World {
        let clock = Clock::hand(START);
        let address = Address::parse(&format!("sqlite:{}", path.display())).unwrap();
        Store::migrate(&address).await.unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), clock.clone()).await.unwrap();
        World::in_store(store, WorldClock::Hand(clock)).await
    }

    pub(crate) async fn postgres() -> World {
        let scratch = Scratch::create().await;
        let address = Address::parse(&scratch.url()).unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        World::in_store(store, WorldClock::Database(std::sync::Arc::new(scratch))).await
    }

    async fn in_store(store: Store, clock: WorldClock) -> World {
        let ws = store.create_workspace("приют").await.unwrap();
        World { store, ws, clock }
    }

    /// The same database through the eyes of another workspace.
    pub(crate) async fn another_workspace(&self, name: &str) -> World {
        let ws = self.store.create_workspace(name).await.unwrap();
        World { ws, ..self.clone() }
    }

    /// Where the database of a world on PostgreSQL is, for those who look at it from the side.
    #[allow(dead_code, reason = "tests/postgres needs it")]
    pub(crate) fn url(&self) -> String {
        match &self.clock {
            WorldClock::Hand(_) => panic!("a database in memory has no address"),
            WorldClock::Database(scratch) => scratch.url(),
        }
    }

    pub(crate) async fn drop_database(self) {
        let World { store, clock, .. } = self;
        drop(store);
        if let WorldClock::Database(scratch) = clock {
            scratch.drop_database().await;
        }
    }

    pub(crate) async fn now(&self) -> Timestamp {
        self.store.now().await.unwrap()
    }

    /// Moves the clock, forwards or back.
    pub(crate) async fn advance(&self, span: Span) {
        match &self.clock {
            WorldClock::Hand(clock) => clock.advance(span),
            WorldClock::Database(scratch) => {
                let sql = "UPDATE test_clock SET at = at + $1::bigint * interval '1 microsecond'";
                scratch.client.execute(sql, &[&span.0]).await.unwrap();
            }
        }
    }

    pub(crate) async fn seconds(&self, n: i64) {
        self.advance(Span::from_secs(n)).await;
    }

    /// Everything agrees with everything.
    pub(crate) async fn check(&self) {
        for workspace in self.store.workspaces().await.unwrap() {
            let wrong = self.store.audit(workspace.workspace_id).await.unwrap();
            assert!(wrong.is_empty(), "audit of {}: {wrong:#?}", workspace.name);
        }
    }

    pub(crate) async fn account(&self) -> AccountId {
        self.account_with(AccountSettings::default()).await
    }

    pub(crate) async fn account_with(&self, settings: AccountSettings) -> AccountId {
        let n = self.store.accounts(self.ws).await.unwrap().len();
        let token = SecretString::from(format!("{}:{n}:токен", self.ws));
        let new = NewAccount { platform: "telegram".into(), name: format!("бот {n}"), token, settings };
        self.store.create_account(self.ws, new).await.unwrap()
    }

    pub(crate) async fn channel(&self, account_id: AccountId) -> ChannelId {
        self.channel_with(account_id, ChannelSettings::default()).await
    }

    pub(crate) async fn channel_with(&self, account_id: AccountId, settings: ChannelSettings) -> ChannelId {
        let n = self.store.channels(self.ws).await.unwrap().len();
        let new =
            NewChannel { account_id, name: format!("канал {n}"), target: format!("-100{n}"), settings };
        self.store.create_channel(self.ws, new).await.unwrap()
    }

    /// One account with `n` channels of its own.
    pub(crate) async fn channels(&self, n: usize) -> Vec<ChannelId> {
        let account = self.account().await;
        let mut channels = Vec::new();
        for _ in 0..n {
            channels.push(self.channel(account).await);
        }
        channels
    }

    pub(crate) async fn post(&self, text: &str, channels: &[ChannelId]) -> Enqueued {
        self.enqueue(vec![message(text, channels)]).await.remove(0)
    }

    pub(crate) async fn enqueue(&self, batch: Vec<NewMessage>) -> Vec<Enqueued> {
        self.store.enqueue(self.ws, batch).await.unwrap()
    }

    pub(crate) async fn claim(&self, limit: usize) -> Vec<Claim> {
        self.claim_ahead(limit, Span::ZERO).await.claims
    }

    pub(crate) async fn claim_ahead(&self, limit: usize, ahead: Span) -> Claimed {
        self.store.claim(request(Whose::Workspace(self.ws), limit, ahead)).await.unwrap()
    }

    pub(crate) async fn claim_one(&self) -> Claim {
        let mut claims = self.claim(1).await;
        assert_eq!(claims.len(), 1, "nothing to claim");
        claims.remove(0)
    }

    pub(crate) async fn finish(&self, claim: &Claim, ending: FinishKind) -> Finished {
        self.store.commit(vec![finish(claim, ending)]).await.unwrap().remove(0)
    }

    pub(crate) async fn sent(&self, claim: &Claim) -> Finished {
        self.finish(claim, sent(claim)).await
    }

    pub(crate) async fn fail(&self, claim: &Claim, failure: Failure) -> Finished {
        self.finish(claim, FinishKind::Outcome(Outcome::Failed(failure))).await
    }

    pub(crate) async fn delivery(&self, id: DeliveryId) -> Delivery {
        self.store.delivery(self.ws, id).await.unwrap()
    }

    pub(crate) async fn status(&self, id: DeliveryId) -> Status {
        self.delivery(id).await.status
    }

    pub(crate) async fn event_names(&self) -> Vec<String> {
        let events = self.store.events(self.ws, 0, 10_000).await.unwrap();
        events.into_iter().map(|event| event.name).filter(|name| name != "config_changed").collect()
    }
}

/// The claimer of one world is nobody to another: worlds share the database.
pub(crate) fn request(whose: Whose, limit: usize, ahead: Span) -> ClaimRequest {
    let run_id = match whose {
        Whose::Workspace(id) => format!("run-{id}"),
        Whose::Everyone => "run-of-all".into(),
    };
    ClaimRequest { whose, run_id, limit, ahead, lease: Span::from_secs(60) }
}

pub(crate) fn message(text: &str, channels: &[ChannelId]) -> NewMessage {
    NewMessage {
        source: "test".into(),
        origin_id: text.into(),
        idempotency_key: None,
        payload: json!({"text": text}),
        content_hash: format!("hash of {text}"),
        hash_version: 1,
        fingerprint: None,
        kind: "lost".into(),
        facts: json!({}),
        facts_version: 1,
        tags: vec!["kind:lost".into()],
        origin: json!({"owner_id": -1, "post_id": 7}),
        case_id: None,
        channels: channels.to_vec(),
        priority: Default::default(),
        run_at: None,
        skipped: None,
    }
}

pub(crate) fn finish(claim: &Claim, ending: FinishKind) -> Finish {
    Finish { claim: claim.reference(), ending, chance: Chance::NONE }
}

pub(crate) fn sent(claim: &Claim) -> FinishKind {
    let provider_message_id = Some(format!("m{}", claim.delivery_id));
    FinishKind::Outcome(Outcome::Sent(Sent { provider_message_id, raw: Value::Null }))
}

pub(crate) fn transient(scope: Scope) -> Failure {
    Failure::new(Category::Transient, scope, "503", "сервер занят")
}

pub(crate) fn permanent(scope: Scope) -> Failure {
    Failure::new(Category::Permanent, scope, "403", "бот удалён из канала")
}

impl Scratch {
    /// A fresh database with the schema in it. The server comes from the environment; without one the test fails,
    /// because a skipped test proves nothing.
    pub(crate) async fn create() -> Scratch {
        let server = std::env::var("RUPOR_TEST_POSTGRES").expect(
            "RUPOR_TEST_POSTGRES is not set: run `./test`, which starts a PostgreSQL of its own, \
             or set it to postgres://SUPERUSER@HOST/postgres",
        );
        Scratch::create_on(&server).await
    }

    pub(crate) async fn create_on(server: &str) -> Scratch {
        let server = server.to_owned();
        let admin = connect(&server).await;
        let template = template(&admin, &server).await;
        let name = format!("rupor_{}", uuid::Uuid::new_v4().simple());
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await.unwrap();
        let client = connect(&with_database(&server, &name)).await;
        // A copy of a template is a new database, which has a history of its own.
        let start = format!(
            "UPDATE control SET history = DEFAULT; UPDATE test_clock SET at = 'epoch'::timestamptz + {} * interval '1 microsecond'",
            START.0
        );
        client.batch_execute(&start).await.unwrap();
        Scratch { server, name, client }
    }

    pub(crate) fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// What the server says about its own settings.
    pub(crate) async fn settings<const N: usize>(&self, names: [&str; N]) -> Vec<String> {
        let mut values = Vec::new();
        for name in names {
            let row = self.client.query_one("SELECT current_setting($1)", &[&name]).await.unwrap();
            values.push(row.get(0));
        }
        values
    }

    pub(crate) async fn drop_database(&self) {
        Scratch::drop_by_name(&self.server, &self.name).await;
    }

    pub(crate) async fn drop_by_name(server: &str, name: &str) {
        let admin = connect(server).await;
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
    }
}

/// The migrated database that all test databases are copied from; made once per schema and server.
async fn template(admin: &tokio_postgres::Client, server: &str) -> String {
    let steps: String = migrations::ALL.iter().map(postgres::migrate::text).collect();
    let schema = [&steps, postgres::functions::text(), postgres::migrate::ROLES, TEST_CLOCK].concat();
    let name = format!("rupor_template_{}", &blake3::hash(schema.as_bytes()).to_hex()[..16]);
    admin.batch_execute("SELECT pg_advisory_lock(7227)").await.unwrap();
    let exists = admin.query("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).await.unwrap();
    if exists.is_empty() {
        let unready = format!("{name}_unready");
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {unready}")).await.unwrap();
        admin.batch_execute(&format!("CREATE DATABASE {unready}")).await.unwrap();
        let url = with_database(server, &unready);
        Store::migrate(&Address::parse(&url).unwrap()).await.unwrap();
        let client = connect(&url).await;
        client.batch_execute(TEST_CLOCK).await.unwrap();
        drop(client);
        admin.batch_execute(&format!("ALTER DATABASE {unready} RENAME TO {name}")).await.unwrap();
    }
    admin.batch_execute("SELECT pg_advisory_unlock(7227)").await.unwrap();
    name
}

/// Time as a row: the one clock of the database, driven by the test.
const TEST_CLOCK: &str = "
CREATE TABLE test_clock (at timestamptz NOT NULL);
INSERT INTO test_clock VALUES (now());
GRANT SELECT ON test_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION rupor_now() RETURNS timestamptz
LANGUAGE sql VOLATILE AS 'SELECT at FROM test_clock'";

pub(crate) async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap_or_else(|error| {
        panic!("the test server of RUPOR_TEST_POSTGRES cannot be reached: {error}");
    });
    tokio::spawn(connection);
    client
}

/// The same server, another database.
pub(crate) fn with_database(server: &str, name: &str) -> String {
    let mut url = url::Url::parse(server).expect("RUPOR_TEST_POSTGRES is a URL");
    url.set_path(name);
    url.to_string()
}
