//! Every kind of trouble, made with the sandbox and the database: told once in a chat and at a webhook, with what
//! helps, and once that it is over. On both databases.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
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
use crate::operate::trouble::KINDS;

const POSTS: &str = "-1009751000001";
const OPS: &str = "-1009751000002";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

type Heard = Arc<Mutex<Vec<Value>>>;

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
    watch: Watch,
    bases: ApiBases,
    /// What was read of the chat and of the webhook.
    read: (usize, usize),
    posts: u32,
    raised: Vec<String>,
}

async fn hear(State(heard): State<Heard>, headers: HeaderMap, body: axum::Json<Value>) -> &'static str {
    let signed = headers.get("webhook-signature").and_then(|value| value.to_str().ok());
    assert!(signed.is_some_and(|signed| signed.starts_with("v1,")), "{headers:?}");
    heard.lock().unwrap().push(body.0);
    "ok"
}

/// The port of a receiver.
async fn receiver(heard: Heard) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = axum::Router::new().route("/hook", axum::routing::post(hear)).with_state(heard);
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
        let heard = Heard::default();
        let port = receiver(Arc::clone(&heard)).await;
        let text = format!(
            "[accounts.bot]\nplatform = \"telegram\"\ntoken = {{ env = \"TOKEN\" }}\n\
             [channels.lost]\naccount = \"bot\"\ntarget = {POSTS}\n\
             [channels.ops]\naccount = \"bot\"\ntarget = {OPS}\n\
             [alerts]\nchannel = \"ops\"\nwebhook = {{ url = \"http://127.0.0.1:{port}/hook\", secret = {{ env = \"SECRET\" }} }}\n"
        );
        let variables = |name: &str| match name {
            "TOKEN" => Some("7700000001:AAtoken".to_owned()),
            "SECRET" => Some(SECRET.to_owned()),
            "RUPOR_PLATFORM_LIMITS" => Some("off".to_owned()),
            _ => None,
        };
        let config = config::from_text(&text, "rupor.toml", &variables).unwrap();
        plan::apply(&store, &config, plan::Absent::Remove).await.unwrap();
        let again = plan::plan(&store, &config, plan::Absent::Remove).await.unwrap();
        assert!(again.steps.is_empty(), "{again}");
        let ws = store.workspaces().await.unwrap()[0].workspace_id;
        for channel in store.channels(ws).await.unwrap() {
            let settings = store::ChannelSettings { rate: None, ..channel.settings };
            store.change_channel(ws, channel.channel_id, settings).await.unwrap();
        }
        let base = sandbox.base(Name::Telegram);
        let bases = ApiBases::from_env(|name| (name == "RUPOR_TELEGRAM_API").then(|| base.clone()));
        let mut watch = Watch::new(store.clone(), bases.clone(), Network::default(), Span::ZERO);
        watch.ill_patience = Duration::ZERO;
        World { time, store, ws, sandbox, heard, watch, bases, read: (0, 0), posts: 0, raised: Vec::new() }
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

    /// Sends what waits, as a node does.
    async fn pump(&self) {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let ports = Ports {
            ledger: Arc::new(self.store.clone()),
            outlet: Arc::new(Platforms { network: Network::default() }),
            shelf: Arc::new(EmptyShelf),
            dice: Dice::seeded(1),
            bases: self.bases.clone(),
            meters: Arc::new(Meters::default()),
        };
        let node = tokio::spawn(dispatch::run(dispatch::Settings::new("узел".into()), ports, stopped));
        let settled = async {
            while self.waits().await {
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
        let messages = self.sandbox.core().chats.messages(Name::Telegram, OPS);
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
        let open = self.store.alerts(self.ws, 100).await.unwrap();
        let open: Vec<String> =
            open.into_iter().filter(|alert| alert.ended_at.is_none()).map(|alert| alert.kind).collect();
        assert_eq!(checked.contains(&kind), trouble, "status --check: {checked:?}");
        assert_eq!(open.iter().any(|it| it == kind), trouble, "alerts: {open:?}");
        let ready = crate::http::readiness(&crate::http::Node::new(self.store.clone())).await;
        let stops_the_node = trouble && ["database", "history_lost"].contains(&kind);
        assert_eq!(ready.is_err(), stops_the_node, "/readyz: {ready:?} beside {kind}");
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

async fn every_kind_is_told_once_and_its_end_once(w: &mut World) {
    refusals(w).await;
    operators(w).await;
    lateness(w).await;
    storms(w).await;
    sources(w).await;
    bots(w).await;
    waits(w).await;
    machines(w).await;
    let told: Vec<&str> = w.raised.iter().map(String::as_str).collect();
    // The database itself has a test of its own, below.
    let missing: Vec<&str> = KINDS
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| !told.contains(kind) && *kind != "database")
        .collect();
    assert!(missing.is_empty(), "{missing:?} were not made");
    assert!(told.len() >= 15, "{told:?}");
    let open = w.store.snapshot(w.ws).await.unwrap().open_alerts;
    assert_eq!(open, 0);
}

/// What the platform says.
async fn refusals(w: &mut World) {
    w.arm(json!({"platform": "telegram", "chat": POSTS, "kind": "kicked"}));
    w.post(1).await;
    w.pump().await;
    w.raised(
        "channel_kicked",
        &["channel lost", "add the bot to the chat again", "rupor channel resume lost"],
    )
    .await;
    w.mended().await;
    w.cleared("channel_kicked").await;

    w.post(1).await;
    let rights = Failure::new(Category::Permanent, Scope::Channel, "no_rights", "not enough rights");
    for claim in w.claim(1, Span::from_secs(60)).await {
        w.end(&claim, Outcome::Failed(rights.clone())).await;
    }
    w.raised("channel_no_rights", &["channel lost", "right to post"]).await;
    w.mended().await;
    w.cleared("channel_no_rights").await;

    w.arm(json!({"platform": "telegram", "chat": POSTS, "kind": "chat_not_found"}));
    w.post(1).await;
    w.pump().await;
    w.raised("channel_failing", &["channel lost", "check the target"]).await;
    w.mended().await;
    w.cleared("channel_failing").await;

    // A token that is revoked is one trouble with its name, however many posts meet it.
    w.post(8).await;
    let refused = Failure::new(Category::Permanent, Scope::Platform, "401", "Unauthorized");
    for claim in w.claim(8, Span::from_secs(60)).await {
        w.end(&claim, Outcome::Failed(refused.clone())).await;
    }
    w.raised("account_paused", &["account bot", "revoked", "new token", "rupor account resume bot"]).await;
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let bot = accounts.iter().find(|account| account.name == "bot").unwrap().account_id;
    w.store.resume_account(w.ws, bot).await.unwrap();
    w.pump().await;
    w.cleared("account_paused").await;
}

/// What people do.
async fn operators(w: &mut World) {
    let channel = w.channel().await;
    w.store.disable_channel(w.ws, channel, DisabledBy::Auto).await.unwrap();
    w.raised("channel_shut", &["channel lost is shut", "rupor channel resume lost"]).await;
    w.store.resume_channel(w.ws, channel).await.unwrap();
    w.cleared("channel_shut").await;

    w.store.disable_channel(w.ws, channel, DisabledBy::Operator).await.unwrap();
    w.raised("channel_disabled", &["channel lost is disabled", "rupor channel enable lost"]).await;
    w.store.resume_channel(w.ws, channel).await.unwrap();
    w.cleared("channel_disabled").await;

    w.store.hold_all(Some("пожар")).await.unwrap();
    w.raised("held", &["everything is held", "пожар", "rupor release"]).await;
    w.store.hold_all(None).await.unwrap();
    w.cleared("held").await;

    w.store.hold_workspace(w.ws, true).await.unwrap();
    w.raised("workspace_held", &["workspace default is held", "rupor release"]).await;
    w.store.hold_workspace(w.ws, false).await.unwrap();
    w.cleared("workspace_held").await;

    w.store.lose_history("the database was restored from a backup").await.unwrap();
    w.raised("history_lost", &["restored from a backup", "rupor release"]).await;
    w.store.hold_all(None).await.unwrap();
    w.cleared("history_lost").await;

    // A pause that somebody wanted is shown, and told to nobody.
    w.store.pause_channel(w.ws, channel, Timestamp::NEVER, "ремонт").await.unwrap();
    assert_eq!(w.look().await, (Vec::new(), Vec::new()));
    w.store.resume_channel(w.ws, channel).await.unwrap();
}

/// What should have gone.
async fn lateness(w: &mut World) {
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let new = store::NewChannel {
        account_id: accounts.iter().find(|account| account.name == "bot").unwrap().account_id,
        name: "тихий".into(),
        target: "-1009751000003".into(),
        settings: store::ChannelSettings::default(),
    };
    let quiet = w.store.create_channel(w.ws, new).await.unwrap();
    w.post_to(quiet, 2).await;
    w.advance(20).await;
    w.raised("stuck", &["channel тихий", "nobody takes them", "rupor run"]).await;
    w.cleared("stuck").await;

    w.post(3).await;
    w.advance(20).await;
    let claims = w.claim(1, Span::from_secs(60)).await;
    let sent = Sent { provider_message_id: Some("1".into()), raw: Value::Null };
    w.end(&claims[0], Outcome::Sent(sent)).await;
    w.raised("lag", &["channel lost: 2 posts wait", "rate"]).await;
    w.cleared("lag").await;

    w.post(1).await;
    for _ in 0..3 {
        assert_eq!(w.claim(1, Span::from_millis(1)).await.len(), 1);
        while w.store.recover(Whose::Workspace(w.ws), 10).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let channel = w.channel().await;
        w.store.resume_channel(w.ws, channel).await.unwrap();
    }
    w.raised("leases_missed", &["3 claims were lost", "logs of the nodes"]).await;
    w.advance(11).await;
    w.cleared("leases_missed").await;
}

/// Many at once are one trouble.
async fn storms(w: &mut World) {
    w.pump().await;
    w.news();
    let channel = w.channel().await;
    let settings = store::ChannelSettings { max_parallel: 500, ..store::ChannelSettings::default() };
    let settings = store::ChannelSettings { dedup: store::DedupMode::Off, ..settings };
    w.store.change_channel(w.ws, channel, settings).await.unwrap();
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let bot = accounts.iter().find(|account| account.name == "bot").unwrap();
    let wide = store::AccountSettings { max_parallel: 1_000, retry_parallel: 1_000, ..bot.settings.clone() };
    w.store.change_account(w.ws, bot.account_id, wide).await.unwrap();

    w.post(40).await;
    let busy = Failure::new(Category::Transient, Scope::Delivery, "503", "занят");
    for claim in w.claim(500, Span::from_secs(60)).await {
        w.end(&claim, Outcome::Failed(busy.clone())).await;
    }
    w.raised("failures", &["channel lost: 40 attempts failed", "rupor check"]).await;
    let channel = w.channel().await;
    w.store.resume_channel(w.ws, channel).await.unwrap();
    w.pump().await;
    w.advance(11).await;
    w.cleared("failures").await;

    w.post(1_000).await;
    let refused = Failure::new(Category::Permanent, Scope::Delivery, "too_long", "слишком длинно");
    loop {
        let claims = w.claim(500, Span::from_secs(60)).await;
        if claims.is_empty() {
            break;
        }
        let ends = claims.iter().map(|claim| Finish {
            claim: claim.reference(),
            ending: FinishKind::Outcome(Outcome::Failed(refused.clone())),
            chance: Chance::NONE,
        });
        w.store.commit(ends.collect()).await.unwrap();
    }
    w.raised(
        "dead_letters",
        &["channel lost: 1000 deliveries were not sent", "too long", "rupor delivery requeue"],
    )
    .await;
    w.advance(25 * 60).await;
    w.cleared("dead_letters").await;

    w.post(1).await;
    let claims = w.claim(1, Span::from_secs(60)).await;
    let away =
        Failure::new(Category::Transient, Scope::Platform, "500", "сервер упал").retry_after(7_200_000);
    w.end(&claims[0], Outcome::Failed(away)).await;
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let bot = accounts.iter().find(|account| account.name == "bot").unwrap();
    assert!(bot.cooldown_until > w.store.now().await.unwrap());
    // The same token speaks of trouble, and the platform asked it to be silent: the webhook tells alone.
    let (chat, heard) = w.look().await;
    assert_eq!((chat.len(), heard.len()), (0, 1), "{chat:?} {heard:?}");
    assert_eq!(heard[0]["data"]["kind"], "account_rests");
    w.raised.push("account_rests".into());
    for account in w.store.accounts(w.ws).await.unwrap() {
        w.store.resume_account(w.ws, account.account_id).await.unwrap();
    }
    let (chat, heard) = w.look().await;
    assert_eq!((chat.len(), heard.len()), (2, 1), "{chat:?} {heard:?}");
    assert_eq!(heard[0]["type"], "alert.cleared");
}

async fn sources(w: &mut World) {
    let new = NewSource {
        kind: "feed".into(),
        name: "лента".into(),
        address: "https://example.org/feed".into(),
        account_id: None,
        settings: json!({}),
    };
    let id = w.store.create_source(w.ws, new).await.unwrap();
    w.poll(id, PollHealth::Failed("the server answered 500; look whether it is up".into())).await;
    w.raised("source_failing", &["source лента", "answered 500", "rupor check"]).await;
    w.poll(id, PollHealth::Well).await;
    w.cleared("source_failing").await;
}

/// What the platform or a person is waited for.
async fn waits(w: &mut World) {
    w.post(1).await;
    let claims = w.claim(1, Span::from_secs(60)).await;
    let flood =
        Failure::new(Category::Transient, Scope::Channel, "429", "Too Many Requests").retry_after(7_200_000);
    w.end(&claims[0], Outcome::Failed(flood)).await;
    w.raised("channel_waits", &["channel lost"]).await;
    w.advance(130).await;
    w.pump().await;
    w.cleared("channel_waits").await;

    let words = "Найдена кошка";
    let message = json!(domain::message::Message::text(words));
    let post = store::NewPost {
        message: NewMessage::new("test", "held", "held", message),
        sketch: None,
        held: Some(store::Held {
            channels: vec![w.channel().await],
            why: "it may be an advertisement".into(),
        }),
    };
    let kept = w.store.ingest(w.ws, vec![post], None).await.unwrap();
    w.raised("posts_wait", &["rupor message approve"]).await;
    w.store.reject(w.ws, kept[0].message_id).await.unwrap();
    w.cleared("posts_wait").await;
}

/// What the machine says of its database.
async fn machines(w: &mut World) {
    for (kind, slow, words) in [
        ("disk", false, "200 MiB are left on the disk of the database; make room"),
        ("database_slow", true, "the database took 3.0 s for a small question; look at its load"),
    ] {
        w.watch.pretend = Some(crate::operate::facts::Ailment {
            words: words.into(),
            seconds: None,
            only_soon: true,
            slow,
        });
        w.raised(kind, &[]).await;
        w.watch.pretend = None;
        w.cleared(kind).await;
    }
}

/// The ledger cannot take the alert, so the node tells it directly, once; and writes it down when it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_database_is_gone_tells_directly_and_once() {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let name = format!("rupor_ill_{}", uuid::Uuid::new_v4().simple());
    let Address::Postgres(admin) = Address::parse(&server).unwrap() else { panic!("{server}") };
    let admin = store::postgres::bare_connection(&admin).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (head, _) = server.rsplit_once('/').unwrap();
    let mut w = World::postgres(&format!("{head}/{name}")).await;
    w.watch.look().await.unwrap();
    let allow = async |yes: bool| {
        admin.batch_execute(&format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {yes}")).await.unwrap();
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
        admin.batch_execute(&end).await.unwrap();
    };
    allow(false).await;
    while !matches!(w.store.health(), Health::Ill(_)) {
        let _ = w.store.probe().await;
    }
    for _ in 0..3 {
        w.watch.look().await.unwrap();
    }
    let (chat, heard) = w.news();
    assert_eq!((chat.len(), heard.len()), (1, 1), "{chat:?} {heard:?}");
    assert!(chat[0].starts_with("🔴") && heard[0]["data"]["kind"] == "database", "{chat:?} {heard:?}");
    let ready = crate::http::readiness(&crate::http::Node::new(w.store.clone())).await;
    assert!(ready.is_err(), "/readyz");
    allow(true).await;
    while w.store.probe().await.is_err() {}
    w.cleared("database").await;
    let rows = w.store.alerts(w.ws, 10).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.kind == "database" && row.n_told == 1).count(), 1, "{rows:?}");
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

async fn way_settings(w: &World, change: impl Fn(&mut AlertExtras)) {
    for channel in w.store.channels(w.ws).await.unwrap().into_iter().filter(|channel| channel.is_of_alerts())
    {
        let mut settings = channel.settings.clone();
        let mut extras: AlertExtras = serde_json::from_value(settings.settings["alerts"].clone()).unwrap();
        change(&mut extras);
        settings.settings["alerts"] = json!(extras);
        w.store.change_channel(w.ws, channel.channel_id, settings).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_somebody_is_told_again_and_what_heals_is_silent_at_night() {
    let w = &mut World::sqlite().await;
    way_settings(w, |extras| extras.remind = Some("1h".into())).await;
    let channel = w.channel().await;
    w.store.disable_channel(w.ws, channel, DisabledBy::Operator).await.unwrap();
    w.raised("channel_disabled", &[]).await;
    w.advance(59).await;
    assert_eq!(w.look().await, (Vec::new(), Vec::new()), "not yet");
    for _ in 0..2 {
        w.advance(61).await;
        let (chat, heard) = w.look().await;
        assert_eq!((chat.len(), heard.len()), (1, 1), "{chat:?}");
        assert!(chat[0].starts_with("🔴 still, for "), "{}", chat[0]);
        assert_eq!(heard[0]["type"], "alert.reminder");
    }
    w.store.resume_channel(w.ws, channel).await.unwrap();
    w.cleared("channel_disabled").await;

    // All day is night: what heals by itself waits for the morning, what needs somebody does not.
    way_settings(w, |extras| extras.quiet_hours = Some("00:00-23:59".into())).await;
    w.advance(
        i64::from(u8::from(
            jiff::Timestamp::from_microsecond(w.store.now().await.unwrap().0)
                .unwrap()
                .to_string()
                .contains("T23:59"),
        )) * 2,
    )
    .await;
    w.post(40).await;
    let settings = store::ChannelSettings {
        max_parallel: 500,
        dedup: store::DedupMode::Off,
        ..store::ChannelSettings::default()
    };
    w.store.change_channel(w.ws, channel, settings).await.unwrap();
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let bot = accounts.iter().find(|account| account.name == "bot").unwrap();
    let wide = store::AccountSettings { max_parallel: 1_000, retry_parallel: 1_000, ..bot.settings.clone() };
    w.store.change_account(w.ws, bot.account_id, wide).await.unwrap();
    w.store.hold_workspace(w.ws, false).await.unwrap();
    let busy = Failure::new(Category::Transient, Scope::Delivery, "503", "занят");
    for claim in w.claim(500, Span::from_secs(60)).await {
        w.end(&claim, Outcome::Failed(busy.clone())).await;
    }
    assert_eq!(w.look().await, (Vec::new(), Vec::new()), "it heals by itself");
    w.agree("failures", true).await;
    w.store.hold_all(Some("пожар")).await.unwrap();
    w.raised("held", &[]).await;
    way_settings(w, |extras| extras.quiet_hours = None).await;
    let (chat, _) = w.look().await;
    assert!(chat.len() == 1 && chat[0].starts_with("🟡"), "the morning: {chat:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_that_is_itself_the_trouble_leaves_it_to_the_other_and_nothing_loops() {
    let w = &mut World::sqlite().await;
    w.arm(json!({"platform": "telegram", "chat": OPS, "kind": "kicked"}));
    let channel = w.channel().await;
    w.store.disable_channel(w.ws, channel, DisabledBy::Operator).await.unwrap();
    w.watch.look().await.unwrap();
    w.pump().await;
    // The chat refused the first alert; the webhook heard it, and then of the chat itself.
    let mut kinds = Vec::new();
    for _ in 0..4 {
        let (chat, heard) = w.look().await;
        assert!(chat.is_empty(), "{chat:?}");
        kinds.extend(heard.into_iter().map(|call| call["data"]["kind"].as_str().unwrap().to_owned()));
    }
    kinds.sort();
    assert_eq!(kinds, ["channel_disabled", "channel_kicked"], "each once");
    let messages = w.store.recent_messages(w.ws, 100).await.unwrap();
    assert!(messages.len() <= 3, "alerts about alerts: {}", messages.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_trouble_is_told_once_on_sqlite() {
    every_kind_is_told_once_and_its_end_once(&mut World::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_trouble_is_told_once_on_postgres() {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let name = format!("rupor_watch_{}", uuid::Uuid::new_v4().simple());
    let Address::Postgres(admin) = Address::parse(&server).unwrap() else { panic!("{server}") };
    let admin = store::postgres::bare_connection(&admin).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (head, _) = server.rsplit_once('/').unwrap();
    let url = format!("{head}/{name}");
    every_kind_is_told_once_and_its_end_once(&mut World::postgres(&url).await).await;
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

/// What people meet at a bot: made in the mailbox itself, as a node would leave it.
async fn bots(w: &mut World) {
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let account = accounts.iter().find(|account| account.name == "bot").unwrap().account_id;
    let (accounts, receive) = (vec![account], store::Receive::Webhook);
    let new = store::NewBot {
        name: "shop".into(),
        accounts,
        receive,
        operators: None,
        services: Default::default(),
    };
    w.store.put_bot(w.ws, new).await.unwrap();
    let hear = async |w: &World, key: String| {
        let of = store::UpdateOf::Person { user_id: "70".into(), address: "70".into(), name: None };
        let update = store::Update { key, kind: "text".into(), at: None, body: json!({"text": "?"}), of };
        w.store.bot_receive(w.ws, account, vec![update], None).await.unwrap();
    };
    // One turn over everything that waits, with this verdict for each message.
    let answer = async |w: &World, verdict: &str, mode: store::DialogueMode, state: Value| loop {
        let turns = w.store.bot_claim_turns(1, Span::from_secs(60)).await.unwrap();
        let Some(turn) = turns.first() else { break };
        let (mut taken, _) = engine::bot::take(turn, None, w.store.now().await.unwrap());
        let log = |event| store::NewLog { event, rule: None, verdict: verdict.into(), detail: json!({}) };
        taken.logs = (0..turn.events.len()).map(log).collect();
        (taken.mode, taken.state) = (mode, state.clone());
        assert!(w.store.bot_commit_turns(w.ws, vec![taken]).await.unwrap()[0]);
    };
    let bot = store::DialogueMode::Bot;

    hear(w, "1".into()).await;
    w.advance(2).await;
    w.raised("bot_waits", &["1 message waits", "rupor bot status"]).await;
    answer(w, "rule", bot, json!({})).await;
    w.cleared("bot_waits").await;

    for n in 0..50 {
        hear(w, format!("lost {n}")).await;
    }
    answer(w, "fallback", bot, json!({})).await;
    w.raised("bot_lost", &["did not understand 50 of 51", "rupor bot explain"]).await;
    w.advance(61).await;
    w.cleared("bot_lost").await;

    hear(w, "error".into()).await;
    answer(w, "error", bot, json!({})).await;
    w.raised("bot_errors", &["broke at 1 message", "rupor bot activate shop"]).await;
    w.advance(61).await;
    w.cleared("bot_errors").await;

    hear(w, "human".into()).await;
    let since = w.store.now().await.unwrap();
    answer(w, "rule", store::DialogueMode::Human, json!({"waits_since": since})).await;
    w.advance(31).await;
    w.raised("bot_handoffs", &["1 person waits for a human", "#A17"]).await;
    hear(w, "back".into()).await;
    answer(w, "rule", bot, json!({})).await;
    w.cleared("bot_handoffs").await;

    w.advance(2).await;
    w.store.bot_account_problem(w.ws, account, Some("409: another program polls")).await.unwrap();
    w.raised("bot_deaf", &["bot shop does not hear account bot", "409", "rupor bot hooks show shop"]).await;
    hear(w, "heard".into()).await;
    w.cleared("bot_deaf").await;
    answer(w, "rule", bot, json!({})).await;
}
