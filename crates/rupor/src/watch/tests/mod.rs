//! A node that watches, the chat and the webhook where it tells, and the sandbox and the database in which trouble is made.

mod gone;
mod kinds;
mod standstill;
mod ways;
mod workspaces;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect};
use domain::delivery::Status;
use domain::ids::{ChannelId, WorkspaceId};
use domain::outcome::{Category, Failure, Outcome, Scope, Sent};
use domain::retry::Chance;
use domain::time::Span;
use engine::dispatch::ports::{Dice, Platforms};
use engine::dispatch::{self, EmptyShelf, Meters, Ports};
use sandbox::{Name, Sandbox};
use serde_json::{Value, json};
use store::{
    Address, Claim, ClaimRequest, Clock, DeliveryFilter, DisabledBy, Finish, FinishKind, FinishedPoll,
    Keyring, NewSource, PollHealth, Seats, Whose,
};

use super::*;
use crate::config::{self, plan};

const POSTS: &str = "-1009751000001";
const OPS: &str = "-1009751000002";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

type Heard = Arc<Mutex<Vec<Value>>>;

/// What the receiver of webhooks does with a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Manner {
    #[default]
    Hears,
    Fails,
    Hangs,
    /// Sends the caller to the inner network.
    Redirects,
}

/// How time is driven.
enum Time {
    /// A clock that goes on by itself and may be set forward.
    Hand(Clock),
    Server(tokio_postgres::Client),
}

const SHIFT: &str = "
CREATE TABLE test_shift (by interval NOT NULL);
INSERT INTO test_shift VALUES ('0');
GRANT SELECT ON test_shift TO PUBLIC;
CREATE OR REPLACE FUNCTION rupor_now() RETURNS timestamptz
LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp() + by FROM test_shift'";

struct World {
    time: Time,
    store: Store,
    ws: WorkspaceId,
    sandbox: Sandbox,
    heard: Heard,
    manner: Arc<Mutex<Manner>>,
    watch: Watch,
    bases: ApiBases,
    /// What was read of the chat and of the webhook.
    read: (usize, usize),
    posts: u32,
    raised: Vec<String>,
    /// The configuration.
    text: String,
}

async fn hear(
    State((heard, manner)): State<(Heard, Arc<Mutex<Manner>>)>,
    headers: HeaderMap,
    body: axum::Json<Value>,
) -> axum::response::Response {
    let manner = *manner.lock().unwrap();
    match manner {
        Manner::Hears => {}
        Manner::Fails => return axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Manner::Hangs => std::future::pending().await,
        Manner::Redirects => return Redirect::temporary("http://169.254.169.254/latest").into_response(),
    }
    let signed = headers.get("webhook-signature").and_then(|value| value.to_str().ok());
    assert!(signed.is_some_and(|signed| signed.starts_with("v1,")), "{headers:?}");
    heard.lock().unwrap().push(body.0);
    "ok".into_response()
}

async fn apply(store: &Store, text: &str) {
    let variables = |name: &str| match name {
        "TOKEN" => Some("7700000001:AAtoken".to_owned()),
        "SECRET" => Some(SECRET.to_owned()),
        "RUPOR_PLATFORM_LIMITS" => Some("off".to_owned()),
        _ => None,
    };
    let config = config::from_text(text, "rupor.toml", &variables).unwrap();
    plan::apply(store, &config, plan::Absent::Remove).await.unwrap();
    let again = plan::plan(store, &config, plan::Absent::Remove).await.unwrap();
    assert!(again.steps.is_empty(), "{again}");
}

/// The port of a receiver.
async fn receiver(heard: Heard, manner: Arc<Mutex<Manner>>) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = axum::Router::new().route("/hook", axum::routing::post(hear)).with_state((heard, manner));
    tokio::spawn(async move { axum::serve(listener, app).await });
    port
}

impl World {
    async fn sqlite() -> World {
        let clock = Clock::hand(Clock::system().now());
        let hand = clock.clone();
        tokio::spawn(async move {
            let mut last = tokio::time::Instant::now();
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let now = tokio::time::Instant::now();
                hand.advance(Span::from_micros(i64::try_from((now - last).as_micros()).unwrap()));
                last = now;
            }
        });
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), clock.clone()).await.unwrap();
        World::new(store, Time::Hand(clock)).await
    }

    /// A database of its own on the server, dropped when `told` is over.
    async fn on_postgres(told: impl AsyncFnOnce(&mut World)) {
        let server =
            std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
        let name = format!("rupor_watch_{}", uuid::Uuid::new_v4().simple());
        let Address::Postgres(admin) = Address::parse(&server).unwrap() else { panic!("{server}") };
        let admin = store::postgres::bare_connection(&admin).await.unwrap();
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (head, _) = server.rsplit_once('/').unwrap();
        told(&mut World::postgres(&format!("{head}/{name}")).await).await;
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
    }

    async fn postgres(url: &str) -> World {
        let address = Address::parse(url).unwrap();
        Store::migrate(&address).await.unwrap();
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(SHIFT).await.unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        World::new(store, Time::Server(client)).await
    }

    async fn advance(&self, minutes: i64) {
        match &self.time {
            Time::Hand(clock) => clock.advance(Span::from_secs(60 * minutes)),
            Time::Server(client) => {
                let sql = format!("UPDATE test_shift SET by = by + interval '{minutes} minutes'");
                client.batch_execute(&sql).await.unwrap();
            }
        }
    }

    async fn new(store: Store, time: Time) -> World {
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        let (heard, manner) = (Heard::default(), Arc::<Mutex<Manner>>::default());
        let port = receiver(Arc::clone(&heard), Arc::clone(&manner)).await;
        let text = format!(
            "[accounts.bot]\nplatform = \"telegram\"\ntoken = {{ env = \"TOKEN\" }}\n\
             [channels.lost]\naccount = \"bot\"\ntarget = {POSTS}\n\
             [channels.ops]\naccount = \"bot\"\ntarget = {OPS}\n\
             [alerts]\nchannel = \"ops\"\nwebhook = {{ url = \"http://127.0.0.1:{port}/hook\", secret = {{ env = \"SECRET\" }} }}\n"
        );
        apply(&store, &text).await;
        let ws = store.workspaces().await.unwrap()[0].workspace_id;
        for channel in store.channels(ws).await.unwrap() {
            let settings = store::ChannelSettings { rate: None, ..channel.settings };
            store.change_channel(ws, channel.channel_id, settings).await.unwrap();
        }
        let base = sandbox.base(Name::Telegram);
        let bases = ApiBases::from_env(|name| (name == "RUPOR_TELEGRAM_API").then(|| base.clone()));
        let mut watch = Watch::new(store.clone(), bases.clone(), Network::default(), Span::ZERO);
        watch.ill_patience = Duration::ZERO;
        World {
            time,
            store,
            ws,
            sandbox,
            heard,
            manner,
            watch,
            bases,
            read: (0, 0),
            posts: 0,
            raised: Vec::new(),
            text,
        }
    }

    async fn channel(&self) -> ChannelId {
        let channels = self.store.channels(self.ws).await.unwrap();
        channels.iter().find(|channel| channel.name == "lost").unwrap().channel_id
    }

    async fn post(&mut self, n: u32) {
        let channel = self.channel().await;
        self.post_to(channel, n).await;
    }

    async fn post_to(&mut self, channel: ChannelId, n: u32) {
        let batch = (0..n).map(|_| {
            self.posts += 1;
            let words = format!("пост {}", self.posts);
            let message = json!(domain::message::Message::text(&words));
            NewMessage { channels: vec![channel], ..NewMessage::new("test", &words, &words, message) }
        });
        let batch = batch.collect();
        self.store.enqueue(self.ws, batch).await.unwrap();
    }

    async fn claim(&self, limit: usize, lease: Span) -> Vec<Claim> {
        let whose = Whose::Workspace(self.ws);
        let request = ClaimRequest { whose, run_id: "проба".into(), limit, ahead: Span::ZERO, lease };
        self.store.claim(request).await.unwrap().claims
    }

    async fn end(&self, claim: &Claim, outcome: Outcome) {
        let finish =
            Finish { claim: claim.reference(), ending: FinishKind::Outcome(outcome), chance: Chance::NONE };
        self.store.commit(vec![finish]).await.unwrap();
    }

    fn ports(&self) -> Ports {
        Ports {
            ledger: Arc::new(self.store.clone()),
            outlet: Arc::new(Platforms { network: Network::default() }),
            shelf: Arc::new(EmptyShelf),
            dice: Dice::seeded(1),
            bases: self.bases.clone(),
            meters: Arc::new(Meters::default()),
        }
    }

    /// Sends what waits, as a node does.
    async fn pump(&self) {
        self.pump_until(async || !self.waits().await).await;
    }

    /// The same, until something is so.
    async fn pump_until(&self, is_so: impl AsyncFn() -> bool) {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let settings = dispatch::Settings::new("узел".into());
        let node = tokio::spawn(dispatch::run(settings, self.ports(), stopped));
        let settled = async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), settled).await.unwrap();
        stop.send(true).unwrap();
        node.await.unwrap().unwrap();
    }

    /// Whether something of the alerts, or of posts that may go, is still on its way.
    async fn waits(&self) -> bool {
        let (channels, accounts) =
            (self.store.channels(self.ws).await.unwrap(), self.store.accounts(self.ws).await.unwrap());
        let now = self.store.now().await.unwrap();
        let held =
            self.store.held().await.unwrap().is_some() || self.store.workspaces().await.unwrap()[0].held;
        let lanes = self.store.lanes(self.ws).await.unwrap();
        lanes.iter().any(|lane| {
            let channel = channels.iter().find(|channel| Some(channel.channel_id) == lane.channel_id);
            let account = accounts.iter().find(|account| account.account_id == lane.account_id).unwrap();
            let is_alerts = channel.is_some_and(|channel| Way::of(channel).is_some());
            let rests = account.paused || account.cooldown_until > now;
            let stays = rests || !is_alerts && (held || lane.next_at.is_none_or(|at| at > now));
            lane.counts.sending > 0 || (lane.counts.queued + lane.counts.retry > 0 && !stays)
        })
    }

    fn chat(&self) -> Vec<String> {
        self.said_in(OPS)
    }

    fn said_in(&self, chat: &str) -> Vec<String> {
        let messages = self.sandbox.core().chats.messages(Name::Telegram, chat);
        messages.into_iter().map(|message| message.text).collect()
    }

    /// What came since the last look.
    fn news(&mut self) -> (Vec<String>, Vec<Value>) {
        let (chat, heard) = (self.chat(), self.heard.lock().unwrap().clone());
        let news = (chat[self.read.0..].to_vec(), heard[self.read.1..].to_vec());
        self.read = (chat.len(), heard.len());
        news
    }

    async fn look(&mut self) -> (Vec<String>, Vec<Value>) {
        // A second look says nothing new.
        self.watch.look().await.unwrap();
        self.watch.look().await.unwrap();
        self.pump().await;
        self.news()
    }

    /// It was told once by both ways, in words that name what it is about and what helps.
    async fn raised(&mut self, kind: &str, words: &[&str]) {
        self.watch.look().await.unwrap();
        self.agree(kind, true).await;
        let (chat, heard) = self.look().await;
        assert_eq!((chat.len(), heard.len()), (1, 1), "{kind}: {chat:#?} {heard:#?}");
        for word in words {
            assert!(chat[0].contains(word), "{kind}: {word:?} is not in {}", chat[0]);
        }
        assert_eq!((&heard[0]["type"], &heard[0]["data"]["kind"]), (&json!("alert.opened"), &json!(kind)));
        assert!(
            heard[0]["data"]["help"].as_array().is_some_and(|help| !help.is_empty()),
            "{kind}: {heard:?}"
        );
        assert!(
            chat[0].starts_with(if heard[0]["data"]["severity"] == "act" { "🔴" } else { "🟡" }),
            "{}",
            chat[0]
        );
        self.raised.push(kind.to_owned());
    }

    /// `rupor status --check`, the open alerts and `/readyz` say the same: there is trouble, and whether it is one that
    /// keeps the whole node from its work.
    async fn agree(&self, kind: &str, trouble: bool) {
        let name = &self.store.workspaces().await.unwrap()[0].name;
        let facts = gather(&self.store, name, Some(true)).await.unwrap();
        let facts = Facts { database: self.watch.pretend.clone().or(facts.database.clone()), ..facts };
        let told = troubles(&facts).into_iter().filter(|trouble| trouble.weight.severity().is_some());
        let checked: Vec<&str> = told.map(|trouble| trouble.kind).collect();
        let open = self.store.alerts(self.ws, None, 100).await.unwrap();
        let open: Vec<String> =
            open.into_iter().filter(|alert| alert.ended_at.is_none()).map(|alert| alert.kind).collect();
        assert_eq!(checked.contains(&kind), trouble, "status --check: {checked:?}");
        assert_eq!(open.iter().any(|it| it == kind), trouble, "alerts: {open:?}");
        let sorted = |kinds: &[String]| -> Vec<String> {
            let mut kinds = kinds.to_vec();
            kinds.sort();
            kinds
        };
        let checked: Vec<String> = checked.into_iter().map(str::to_owned).collect();
        assert_eq!(sorted(&checked), sorted(&open), "status --check and the alerts beside {kind}");
        let ready = crate::http::readiness(&crate::http::Node::new(self.store.clone())).await;
        let stops_the_node = trouble && ["database", "standstill", "history_lost"].contains(&kind);
        assert_eq!(ready.is_err(), stops_the_node, "/readyz: {ready:?} beside {kind}");
        self.agrees_in_sql(&facts).await;
    }

    /// Who watches by SQL alone is told the same, but for what only a node knows of itself.
    async fn agrees_in_sql(&self, facts: &Facts) {
        let Time::Server(client) = &self.time else { return };
        if client.is_closed() {
            return;
        }
        let told = troubles(facts).into_iter().filter(|trouble| trouble.reach != Reach::Node);
        let mut by_node: Vec<(String, Value)> = told
            .filter_map(|trouble| Some((trouble.kind.to_owned(), json!(trouble.weight.severity()?))))
            .collect();
        // Undone at once: what SQL has told is a family of its own, and none of this test.
        client.batch_execute("BEGIN").await.unwrap();
        let mut by_sql = Vec::new();
        for function in ["raise_alerts", "raise_bot_alerts"] {
            let sql = format!("SELECT kind, severity FROM {function}($1) WHERE state = 'raised'");
            let rows = client.query(&sql, &[&self.ws.0]).await.unwrap();
            by_sql.extend(rows.iter().map(|row| (row.get::<_, String>(0), json!(row.get::<_, &str>(1)))));
        }
        client.batch_execute("ROLLBACK").await.unwrap();
        by_node.sort_by_key(|(kind, _)| kind.clone());
        by_sql.sort_by_key(|(kind, _)| kind.clone());
        assert_eq!(by_sql, by_node, "raise_alerts and trouble.rs");
    }

    /// The end was told once by both ways.
    async fn cleared(&mut self, kind: &str) {
        let (chat, heard) = self.look().await;
        assert_eq!((chat.len(), heard.len()), (1, 1), "{kind}: {chat:#?} {heard:#?}");
        assert!(chat[0].starts_with("✅ over: "), "{kind}: {}", chat[0]);
        assert_eq!((&heard[0]["type"], &heard[0]["data"]["kind"]), (&json!("alert.cleared"), &json!(kind)));
        self.agree(kind, false).await;
    }

    async fn poll(&self, source_id: domain::ids::SourceId, health: PollHealth) {
        let owner = "узел".to_owned();
        self.store.due_sources(&owner, Seats::any(10), Span::from_secs(60)).await.unwrap();
        let next_poll_at = self.store.now().await.unwrap();
        let poll = FinishedPoll { source_id, owner, cursor: None, next_poll_at, health };
        assert!(self.store.finish_poll(self.ws, poll).await.unwrap());
    }

    fn arm(&self, fault: Value) {
        self.sandbox.arm(&fault).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    }

    /// What failed is queued again and goes well.
    async fn mended(&mut self) {
        self.sandbox.core().faults.clear();
        let channel = self.channel().await;
        self.store.resume_channel(self.ws, channel).await.unwrap();
        for status in [Status::FailedPermanent, Status::Dead] {
            let filter = DeliveryFilter { status: Some(status), ..DeliveryFilter::default() };
            let failed = self.store.deliveries(self.ws, filter, 5_000).await.unwrap();
            let ids = failed.iter().filter(|row| row.destination.channel() == Some(channel));
            // Those of before were queued again already.
            for id in ids.map(|row| row.delivery_id) {
                let _ = self.store.requeue(self.ws, vec![id]).await;
            }
        }
        self.pump().await;
    }
}
