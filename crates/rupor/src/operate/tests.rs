//! A store with a clock in the hand, where things go wrong as they do in life, and the verbs on it.

use std::sync::atomic::{AtomicU32, Ordering};

use domain::delivery::Status;
use domain::ids::{ChannelId, DeliveryId, WorkspaceId};
use domain::outcome::{Failure, Outcome, Sent};
use domain::retry::Chance;
use domain::time::{Span, Timestamp};
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{
    AccountSettings, Address, ChannelSettings, Claim, ClaimRequest, Clock, Finish, FinishKind, Keyring,
    NewAccount, NewChannel, NewMessage, Store, Whose,
};

use super::facts;
use super::socket;
use super::verb::{Verb, Which, perform};
use super::words::{self, Explanation};

/// 2026-11-15 12:00:00 UTC.
const START: Timestamp = Timestamp(1_794_744_000_000_000);

pub(crate) struct World {
    pub store: Store,
    pub ws: WorkspaceId,
    clock: Clock,
    posts: AtomicU32,
}

impl World {
    pub(crate) async fn new() -> World {
        World::at("sqlite::memory:").await
    }

    pub(crate) async fn at(address: &str) -> World {
        let clock = Clock::hand(START);
        let address = Address::parse(address).unwrap();
        if socket::socket_path(&address).is_some() {
            Store::migrate(&address).await.unwrap();
        }
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), clock.clone()).await.unwrap();
        let ws = store.create_workspace("default").await.unwrap();
        World { store, ws, clock, posts: AtomicU32::new(0) }
    }

    pub(crate) async fn channel(&self, name: &str) -> ChannelId {
        let known = self.store.accounts(self.ws).await.unwrap();
        let account_id = match known.first() {
            Some(account) => account.account_id,
            None => {
                let token = SecretString::from("1:abc");
                let (platform, name) = ("telegram".into(), "bot".into());
                let settings = AccountSettings::default();
                self.store
                    .create_account(self.ws, NewAccount { platform, name, token, settings })
                    .await
                    .unwrap()
            }
        };
        let settings = ChannelSettings { rate: Some(1.0), ..ChannelSettings::default() };
        let (name, target) = (name.to_owned(), "-1001234567890".to_owned());
        self.store.create_channel(self.ws, NewChannel { account_id, name, target, settings }).await.unwrap()
    }

    pub(crate) async fn post(&self, channel: ChannelId) -> DeliveryId {
        let n = self.posts.fetch_add(1, Ordering::Relaxed);
        let new: NewMessage = serde_json::from_value(json!({
            "source": "test", "origin_id": n.to_string(), "payload": {"text": "Пропал кот"},
            "content_hash": format!("hash {n}"), "channels": [channel],
        }))
        .unwrap();
        self.store.enqueue(self.ws, vec![new]).await.unwrap()[0].deliveries[0].delivery_id
    }

    pub(crate) fn seconds(&self, n: i64) {
        self.clock.advance(Span::from_secs(n));
    }

    pub(crate) async fn claim(&self) -> Claim {
        let request = ClaimRequest {
            whose: Whose::Everyone,
            run_id: "test".into(),
            limit: 1,
            ahead: Span::ZERO,
            lease: Span::from_secs(60),
        };
        self.store.claim(request).await.unwrap().claims.remove(0)
    }

    /// The next one is sent, and this is how it ends.
    pub(crate) async fn end(&self, outcome: Outcome) {
        let claim = self.claim().await;
        let finish = Finish {
            claim: claim.reference(),
            ending: FinishKind::Outcome(outcome),
            chance: Chance::new(500_000),
        };
        self.store.commit(vec![finish]).await.unwrap();
    }

    /// What Telegram answers, through the adapter's own table.
    pub(crate) async fn answered(&self, status: u16, description: &str, retry_after: Option<i64>) {
        let mut body = json!({"ok": false, "error_code": status, "description": description});
        if let Some(seconds) = retry_after {
            body["parameters"] = json!({"retry_after": seconds});
        }
        let answer = platforms::transport::Answer::new(status, "application/json", body.to_string());
        let verdict = platforms::telegram::errors::classify(platforms::verdict::Purpose::Send, &Ok(answer));
        match verdict {
            platforms::verdict::Verdict::Failed(failure) => self.end(Outcome::Failed(failure)).await,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn hung(&self) {
        use platforms::transport::{Trouble, TroubleKind};
        let trouble = Trouble::ambiguous(TroubleKind::Deadline, "no answer within 10 s");
        match platforms::telegram::errors::classify(platforms::verdict::Purpose::Send, &Err(trouble)) {
            platforms::verdict::Verdict::Failed(failure) => self.end(Outcome::Failed(failure)).await,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn show(&self, id: DeliveryId) -> Explanation {
        let known = facts::gather(&self.store, "default", Some(true)).await.unwrap();
        words::delivery(&known, &facts::delivery(&self.store, self.ws, id).await.unwrap())
    }

    pub(crate) async fn status(&self) -> String {
        self.status_in(crate::language::Language::En).await
    }

    pub(crate) async fn status_in(&self, language: crate::language::Language) -> String {
        let known = facts::gather(&self.store, "default", Some(true)).await.unwrap();
        super::status::status(&known).page(language)
    }

    pub(crate) async fn perform(&self, verb: Verb) -> anyhow::Result<Value> {
        perform(&self.store, verb).await
    }

    async fn status_of(&self, id: DeliveryId) -> Status {
        self.store.delivery(self.ws, id).await.unwrap().status
    }
}

fn default() -> String {
    "default".into()
}

fn failure(code: &str) -> Outcome {
    use domain::outcome::{Category, Scope};
    Outcome::Failed(Failure::new(Category::Permanent, Scope::Delivery, code, "нет"))
}

#[tokio::test]
async fn a_channel_is_paused_resumed_disabled_and_enabled_by_name() {
    let world = World::new().await;
    let id = world.channel("lost").await;
    let channel = || async { world.store.channels(world.ws).await.unwrap().remove(0) };
    let named = || ("default".to_owned(), "lost".to_owned());
    let (workspace, channel_name) = named();
    let pause =
        Verb::PauseChannel {
            workspace, channel: channel_name, millis: Some(5_000), why: "ремонт".into()
        };
    world.perform(pause).await.unwrap();
    assert_eq!(channel().await.paused_until, START + Span::from_secs(5));
    let (workspace, name) = named();
    world.perform(Verb::DisableChannel { workspace, channel: name }).await.unwrap();
    assert!(!channel().await.enabled);
    let by_id = Verb::ResumeChannel { workspace: default(), channel: id.to_string(), with_failed: false };
    world.perform(by_id).await.unwrap();
    assert!(channel().await.enabled && channel().await.paused_until <= START);
    let unknown = Verb::DisableChannel { workspace: default(), channel: "lots".into() };
    let said = world.perform(unknown).await.unwrap_err().to_string();
    assert_eq!(said, "channel \"lots\" is not known; known are lost");
    let elsewhere = Verb::DisableChannel { workspace: "shop".into(), channel: "lost".into() };
    let said = world.perform(elsewhere).await.unwrap_err().to_string();
    assert_eq!(said, "workspace \"shop\" is not known; known are default");
}

#[tokio::test]
async fn failures_are_requeued_by_cause_and_never_twice() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    for code in ["too_long", "bad_markup", "too_long"] {
        world.post(channel).await;
        world.end(failure(code)).await;
        world.seconds(2);
    }
    let which = Which::Cause {
        status: Some(Status::FailedPermanent),
        code: Some("too_long".into()),
        channel: Some("lost".into()),
    };
    let requeue = Verb::Requeue { workspace: default(), which };
    let done = world.perform(requeue.clone()).await.unwrap();
    assert_eq!((done["requeued"].as_array().unwrap().len(), &done["already"]), (2, &json!(0)));
    let again = world.perform(requeue).await.unwrap();
    assert_eq!(again, json!({"requeued": [], "already": 2}));
    let queued = Verb::Requeue {
        workspace: default(),
        which: Which::Cause { status: Some(Status::Sent), code: None, channel: None },
    };
    assert!(world.perform(queued).await.unwrap_err().to_string().contains("only dead and failed_permanent"));
}

#[tokio::test]
async fn what_waits_is_cancelled_by_channel_and_the_rest_is_left() {
    let world = World::new().await;
    let (lost, found) = (world.channel("lost").await, world.channel("found").await);
    let (one, two, other) = (world.post(lost).await, world.post(lost).await, world.post(found).await);
    let which = Which::Cause { status: None, code: None, channel: Some("lost".into()) };
    let done = world.perform(Verb::Cancel { workspace: default(), which }).await.unwrap();
    assert_eq!(done, json!({"cancelled": [one, two], "not_waiting": 0}));
    assert_eq!(world.status_of(other).await, Status::Queued);
    let ended = Verb::Cancel { workspace: default(), which: Which::Ids(vec![one]) };
    assert_eq!(world.perform(ended).await.unwrap(), json!({"cancelled": [], "not_waiting": 1}));
}

#[tokio::test]
async fn resuming_with_failed_offers_again_what_the_channel_refused() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let kicked = world.post(channel).await;
    world.answered(403, "Forbidden: bot was kicked from the channel chat", None).await;
    let too_long = world.post(channel).await;
    let resume =
        |with_failed| Verb::ResumeChannel { workspace: default(), channel: "lost".into(), with_failed };
    let said = world.perform(resume(false)).await.unwrap();
    assert_eq!((&said["requeued"], &said["failed"]), (&json!(0), &json!(1)));
    world.seconds(2);
    world.end(failure("too_long")).await;
    let said = world.perform(resume(true)).await.unwrap();
    assert_eq!((&said["requeued"], &said["failed"]), (&json!(1), &json!(0)));
    assert_eq!(world.status_of(kicked).await, Status::FailedPermanent);
    assert_eq!(world.status_of(too_long).await, Status::FailedPermanent);
}

#[tokio::test]
async fn the_kill_switch_holds_and_releases() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let id = world.post(channel).await;
    world.perform(Verb::Hold { workspace: None, why: "проверка".into() }).await.unwrap();
    assert_eq!(world.store.held().await.unwrap().as_deref(), Some("проверка"));
    expect_test::expect![[r#"
        delivery 1 waits: all sending is stopped
          cause: проверка
          next:  nothing is sent until somebody releases it; new posts keep queueing
          help:  $ rupor release
    "#]]
    .assert_eq(&world.show(id).await.page(crate::language::Language::En));
    world.perform(Verb::Release { workspace: None }).await.unwrap();
    assert_eq!(world.store.held().await.unwrap(), None);
    world.end(Outcome::Sent(Sent { provider_message_id: Some("7".into()), raw: Value::Null })).await;
    assert_eq!(world.status_of(id).await, Status::Sent);
}

#[tokio::test]
async fn a_test_post_is_queued_to_one_channel() {
    let world = World::new().await;
    let (_, found) = (world.channel("lost").await, world.channel("found").await);
    let test = |key: &str| Verb::TestChannel {
        workspace: default(),
        channel: "found".into(),
        text: "Проверка связи".into(),
        key: key.into(),
    };
    let first = world.perform(test("a")).await.unwrap();
    let second = world.perform(test("b")).await.unwrap();
    assert_eq!((&first["status"], &second["status"]), (&json!("queued"), &json!("queued")));
    let id = DeliveryId(first["delivery_id"].as_i64().unwrap());
    assert_eq!(world.store.delivery(world.ws, id).await.unwrap().destination.channel(), Some(found));
}

#[tokio::test]
async fn silent_visitors_do_not_delay_a_verb() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("rupor.db").display());
    let world = World::at(&address).await;
    world.channel("dogs").await;
    let path = socket::socket_path(&Address::parse(&address).unwrap()).unwrap();
    let _serving = socket::serve(world.store.clone(), &path).unwrap();
    let mut silent = Vec::new();
    for n in 0..200 {
        let mut visitor = tokio::net::UnixStream::connect(&path).await.unwrap();
        if n % 2 == 0 {
            // Half a verb is no verb.
            let _ = tokio::io::AsyncWriteExt::write_all(&mut visitor, b"{\"verb\":").await;
        }
        silent.push(visitor);
    }
    let verb = Verb::Hold { workspace: None, why: "тревога".into() };
    let mut newest = silent.pop().unwrap();
    let mut byte = [0];
    tokio::select! {
        biased;
        said = socket::send(&path, &verb, Some("учения")) => drop(said.unwrap().unwrap()),
        _ = tokio::io::AsyncReadExt::read(&mut newest, &mut byte) => panic!("the silent were shown out before the verb was heard"),
    }
    assert_eq!(world.store.held().await.unwrap().as_deref(), Some("тревога"));
}

#[tokio::test]
async fn a_verb_crosses_the_socket_of_the_running_node() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("r.db").display());
    let world = World::at(&address).await;
    world.channel("lost").await;
    let path = socket::socket_path(&Address::parse(&address).unwrap()).unwrap();
    let verb = Verb::DisableChannel { workspace: default(), channel: "lost".into() };
    assert_eq!(socket::send(&path, &verb, Some("учения")).await.unwrap(), None, "nobody listens yet");
    std::fs::write(&path, "left over").unwrap();
    let serving = socket::serve(world.store.clone(), &path).unwrap();
    assert!(socket::is_served(&path).await);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let said = socket::send(&path, &verb, Some("учения")).await.unwrap().unwrap();
    assert_eq!(said, json!({"channel": "lost", "enabled": false}));
    let unknown = Verb::DisableChannel { workspace: default(), channel: "нет".into() };
    let refused = socket::send(&path, &unknown, None).await.unwrap_err().to_string();
    assert_eq!(refused, "channel \"нет\" is not known; known are lost");
    drop(serving);
    assert!(!path.exists());
}

#[tokio::test]
async fn the_node_answers_nonsense_with_a_refusal() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = tempfile::tempdir().unwrap();
    let world = World::at(&format!("sqlite:{}", folder.path().join("r.db").display())).await;
    let path = folder.path().join("r.sock");
    let _serving = socket::serve(world.store.clone(), &path).unwrap();
    for nonsense in ["{\"verb\":\"explode\"}\n", "привет\n", "{\"verb\":\"release\",\"workspce\":null}\n"]
    {
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        stream.write_all(nonsense.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("does not understand"), "{nonsense} {answer}");
    }
}

#[tokio::test]
async fn quiet_hours_shut_a_lane_and_it_opens_in_the_morning() {
    let world = World::new().await;
    let id = world.channel("lost").await;
    let quiet_hours = Some("13:00-14:00".to_owned());
    let settings = ChannelSettings { quiet_hours, ..ChannelSettings::default() };
    world.store.change_channel(world.ws, id, settings).await.unwrap();
    world.post(id).await;
    let next_at = || async { world.store.lanes(world.ws).await.unwrap()[0].next_at };
    let mut shut = super::quiet::Shut::default();
    shut.look(&world.store).await.unwrap();
    assert_eq!(next_at().await, Some(START), "noon is not quiet");
    world.seconds(3_600);
    shut.look(&world.store).await.unwrap();
    assert_eq!(next_at().await, Some(START + Span::from_secs(7_200)));
    let said = world.show(DeliveryId(1)).await;
    assert_eq!(said.headline, "delivery 1 waits: channel lost has its quiet hours");
    world.store.change_channel(world.ws, id, ChannelSettings::default()).await.unwrap();
    shut.look(&world.store).await.unwrap();
    assert_eq!(next_at().await, Some(START), "without quiet hours it is open at once");
}

#[tokio::test]
async fn a_channel_takes_as_long_as_its_share_of_the_account_says() {
    let w = World::new().await;
    let (first, second) = (w.channel("первый").await, w.channel("второй").await);
    let bot = w.store.accounts(w.ws).await.unwrap().remove(0);
    let settings = AccountSettings { rate: Some(1.0), ..bot.settings };
    w.store.change_account(w.ws, bot.account_id, settings).await.unwrap();
    for channel in [first, second] {
        for _ in 0..3 {
            w.post(channel).await;
        }
    }
    let facts = facts::gather(&w.store, "default", Some(true)).await.unwrap();
    let told = super::status::status(&facts);
    let etas: Vec<_> = told.channels.iter().map(|line| line.eta_ms).collect();
    let lanes: Vec<_> = told.snapshot.lanes.iter().map(|lane| lane.eta_ms).collect();
    assert_eq!(etas, lanes, "one answer");
    assert_eq!(etas, [Some(6_000), Some(6_000)], "three of each, one a second together");
}
