//! The dispatcher with a store in memory against the sandbox: asserted on what a reader of the channels sees.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{Action, Status};
use domain::ids::{AccountId, ChannelId, DeliveryId, WorkspaceId};
use domain::message::{Media, Message};
use domain::time::Span;
use sandbox::{Name, Sandbox};
use serde_json::json;
use store::{
    AccountSettings, Address, ChannelSettings, Clock, Delivery, Keyring, NewAccount, NewChannel, NewMessage,
    Store,
};
use tokio::sync::watch;

use super::ports::{Dice, Ledger, Outlet, Platforms};
use super::{Meters, Ports, Settings};
use crate::addresses::ApiBases;
use crate::upkeep::kept_up;

pub(super) struct World {
    pub(super) store: Store,
    pub(super) workspace: WorkspaceId,
    pub(super) sandbox: Sandbox,
}

impl World {
    pub(super) async fn new() -> World {
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        let workspace = store.create_workspace("Приют").await.unwrap();
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        World { store, workspace, sandbox: Sandbox::start(options).await.unwrap() }
    }

    pub(super) async fn account(&self, platform: Name, settings: AccountSettings) -> AccountId {
        let new = NewAccount {
            platform: platform.as_str().into(),
            name: format!("бот {}", platform.as_str()),
            token: secrecy::SecretString::from("42:token-of-the-shelter"),
            settings: AccountSettings { api_base: Some(self.sandbox.base(platform).into()), ..settings },
        };
        self.store.create_account(self.workspace, new).await.unwrap()
    }

    pub(super) async fn channel(
        &self,
        account_id: AccountId,
        target: &str,
        settings: ChannelSettings,
    ) -> ChannelId {
        let new =
            NewChannel { account_id, name: format!("канал {target}"), target: target.into(), settings };
        self.store.create_channel(self.workspace, new).await.unwrap()
    }

    async fn telegram_channel(&self) -> ChannelId {
        let account = self.account(Name::Telegram, AccountSettings::default()).await;
        self.channel(account, "-1001234567890", ChannelSettings::default()).await
    }

    pub(super) async fn post(
        &self,
        origin: &str,
        message: &Message,
        channels: &[ChannelId],
    ) -> Vec<DeliveryId> {
        let new = NewMessage {
            kind: "lost".into(),
            channels: channels.to_vec(),
            ..NewMessage::new("test", origin, origin, serde_json::to_value(message).unwrap())
        };
        let enqueued = self.store.enqueue(self.workspace, vec![new]).await.unwrap();
        enqueued[0].deliveries.iter().map(|delivery| delivery.delivery_id).collect()
    }

    pub(super) fn node(&self) -> Node {
        self.node_with(Arc::new(Platforms { network: platforms::platform::Network::default() }))
    }

    fn node_with(&self, outlet: Arc<dyn Outlet>) -> Node {
        self.node_of(Arc::new(self.store.clone()), outlet)
    }

    pub(super) fn node_on(&self, ledger: Arc<dyn Ledger>) -> Node {
        self.node_of(ledger, Arc::new(Platforms { network: platforms::platform::Network::default() }))
    }

    /// Kept up, as a node keeps it.
    fn node_of(&self, ledger: Arc<dyn Ledger>, outlet: Arc<dyn Outlet>) -> Node {
        let (stop, stopped) = watch::channel(false);
        let meters = Arc::new(Meters::default());
        let (shelf, shown) = (Arc::new(self.store.clone()), Arc::clone(&meters));
        let ports = move || Ports {
            ledger: Arc::clone(&ledger),
            outlet: Arc::clone(&outlet),
            shelf: Arc::clone(&shelf) as Arc<dyn crate::shelf::Shelf>,
            dice: Dice::seeded(1),
            bases: ApiBases::default(),
            meters: Arc::clone(&shown),
        };
        let mut settings = Settings::new("прогон".into());
        settings.lease = Span::from_secs(6);
        settings.drain = Duration::from_secs(10);
        let start = move || super::run(settings.clone(), ports(), stopped.clone());
        Node { task: tokio::spawn(kept_up("dispatch", start)), stop, meters }
    }

    pub(super) async fn delivery(&self, id: DeliveryId) -> Delivery {
        self.store.delivery(self.workspace, id).await.unwrap()
    }

    /// Waits until the delivery is as wanted. The limit is far beyond what is needed; nothing depends on it.
    pub(super) async fn until(&self, id: DeliveryId, wanted: impl Fn(&Delivery) -> bool) -> Delivery {
        let reached = async {
            loop {
                let delivery = self.delivery(id).await;
                if wanted(&delivery) {
                    return delivery;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(300), reached).await {
            Ok(delivery) => delivery,
            Err(_) => panic!("{:#?}", self.delivery(id).await),
        }
    }

    pub(super) async fn until_ended(&self, ids: &[DeliveryId]) -> Vec<Delivery> {
        let mut ended = Vec::new();
        for id in ids {
            ended.push(self.until(*id, |delivery| delivery.status.is_terminal()).await);
        }
        ended
    }

    /// Texts that took effect on a platform, in order.
    pub(super) fn texts(&self, platform: Name) -> Vec<String> {
        let rows = self.sandbox.core().ledger.rows(platform);
        rows.into_iter().filter(|row| row.accepted).filter_map(|row| row.text).collect()
    }
}

pub(super) struct Node {
    task: tokio::task::JoinHandle<store::Result<bool>>,
    stop: watch::Sender<bool>,
    pub(super) meters: Arc<Meters>,
}

impl Node {
    pub(super) async fn stop(self) -> bool {
        self.stop.send_replace(true);
        self.task.await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn what_is_queued_arrives_once_and_in_order_on_all_three_platforms() {
    let w = World::new().await;
    let mut channels = vec![w.telegram_channel().await];
    let vk = w.account(Name::Vk, AccountSettings { kind: "user".into(), ..AccountSettings::default() }).await;
    channels.push(w.channel(vk, "-200000001", ChannelSettings::default()).await);
    let max = w.account(Name::Max, AccountSettings::default()).await;
    channels.push(w.channel(max, "-70000000000001", ChannelSettings::default()).await);
    let mut ids = Vec::new();
    for n in 1..=5 {
        ids.extend(w.post(&n.to_string(), &Message::text(format!("Пропал кот №{n}")), &channels).await);
    }
    let node = w.node();
    for delivery in w.until_ended(&ids).await {
        assert_eq!(delivery.status, Status::Sent, "{delivery:#?}");
        assert!(delivery.provider_message_id.is_some());
    }
    for platform in Name::ALL {
        let texts = w.texts(platform);
        let expected: Vec<String> = (1..=5).map(|n| format!("Пропал кот №{n}")).collect();
        assert_eq!(texts.iter().filter(|text| text.contains("кот")).count(), 5, "{platform:?}: {texts:?}");
        for (text, expected) in texts.iter().zip(&expected) {
            assert!(text.contains(expected), "{platform:?}: {texts:?}");
        }
    }
    assert!(node.stop().await);
    assert_eq!(w.store.audit(w.workspace).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_answer_that_is_lost_is_sent_again_once_and_shows_it() {
    let w = World::new().await;
    let channel = w.telegram_channel().await;
    w.sandbox.arm(&json!({"platform": "telegram", "method": "sendMessage", "kind": "accept_then_reset", "times": 1})).unwrap();
    let ids = w.post("1", &Message::text("Пропала собака"), &[channel]).await;
    let node = w.node();
    let delivery = &w.until_ended(&ids).await[0];
    assert_eq!((delivery.status, delivery.counters.unknowns), (Status::Sent, 1));
    assert_eq!(w.texts(Name::Telegram).len(), 2, "the second copy is what resend_once allows");
    assert!(node.meters.probes.get() >= 1, "somebody asked before the second try");
    node.stop().await;
}

#[tokio::test]
async fn a_lost_answer_of_vk_makes_no_second_post() {
    let w = World::new().await;
    let vk = w.account(Name::Vk, AccountSettings { kind: "user".into(), ..AccountSettings::default() }).await;
    let settings = ChannelSettings {
        ambiguity: domain::delivery::AmbiguityPolicy::Resend,
        ..ChannelSettings::default()
    };
    let channel = w.channel(vk, "-200000001", settings).await;
    w.sandbox
        .arm(&json!({"platform": "vk", "method": "wall.post", "kind": "accept_then_reset", "times": 2}))
        .unwrap();
    let ids = w.post("1", &Message::text("Пропала собака"), &[channel]).await;
    let node = w.node();
    let delivery = &w.until_ended(&ids).await[0];
    assert_eq!((delivery.status, delivery.counters.unknowns), (Status::Sent, 2));
    let posts = w.sandbox.core().chats.messages(Name::Vk, "-200000001");
    assert_eq!(posts.len(), 1, "the key of the delivery makes it one");
    node.stop().await;
}

#[tokio::test]
async fn max_is_read_back_before_a_second_try() {
    let w = World::new().await;
    let max = w.account(Name::Max, AccountSettings::default()).await;
    let settings = ChannelSettings {
        ambiguity: domain::delivery::AmbiguityPolicy::Reconcile,
        ..ChannelSettings::default()
    };
    let channel = w.channel(max, "-70000000000001", settings).await;
    w.sandbox.arm(&json!({"platform": "max", "kind": "accept_then_reset", "times": 1})).unwrap();
    let ids = w.post("1", &Message::text("Пропала собака"), &[channel]).await;
    let node = w.node();
    let delivery = &w.until_ended(&ids).await[0];
    assert_eq!((delivery.status, delivery.counters.unknowns), (Status::Sent, 1), "{delivery:#?}");
    assert_eq!(w.texts(Name::Max).len(), 1);
    assert_eq!(node.meters.reconciled.get(), 1);
    node.stop().await;
}

#[tokio::test]
async fn a_flood_is_a_wait_and_not_an_attempt() {
    let w = World::new().await;
    let channel = w.telegram_channel().await;
    w.sandbox.arm(&json!({"platform": "telegram", "method": "sendMessage", "kind": "429", "retry_after": 1, "times": 2})).unwrap();
    let ids = w.post("1", &Message::text("Пропала собака"), &[channel]).await;
    let node = w.node();
    let delivery = &w.until_ended(&ids).await[0];
    assert_eq!(delivery.status, Status::Sent);
    assert_eq!((delivery.counters.flood_waits, delivery.counters.charged), (2, 0));
    node.stop().await;
}

#[tokio::test]
async fn a_revoked_token_pauses_the_account_and_keeps_the_queue() {
    let w = World::new().await;
    let channel = w.telegram_channel().await;
    w.sandbox.arm(&json!({"platform": "telegram", "kind": "401"})).unwrap();
    let ids = w.post("1", &Message::text("Пропала собака"), &[channel]).await;
    let node = w.node();
    let waiting = w.until(ids[0], |delivery| delivery.status == Status::Retry).await;
    assert_eq!((waiting.reason.as_deref(), waiting.counters.charged), (Some("account_trouble"), 0));
    let account = &w.store.accounts(w.workspace).await.unwrap()[0];
    assert!(account.paused, "{account:?}");
    w.sandbox.core().faults.clear();
    w.store.resume_account(w.workspace, account.account_id).await.unwrap();
    assert_eq!(w.until_ended(&ids).await[0].status, Status::Sent);
    node.stop().await;
}

#[tokio::test]
async fn a_hanging_account_costs_the_others_nothing() {
    let w = World::new().await;
    let hanging = w.account(Name::Max, AccountSettings::default()).await;
    let hung = w.channel(hanging, "-70000000000001", ChannelSettings::default()).await;
    let healthy = w.telegram_channel().await;
    w.sandbox.arm(&json!({"platform": "max", "kind": "hang"})).unwrap();
    let mut ids = Vec::new();
    for n in 0..20 {
        w.post(&format!("h{n}"), &Message::text("висит"), &[hung]).await;
        ids.extend(w.post(&n.to_string(), &Message::text(format!("Пост {n}")), &[healthy]).await);
    }
    let node = w.node();
    for delivery in w.until_ended(&ids).await {
        assert_eq!(delivery.status, Status::Sent);
    }
    w.sandbox.core().faults.clear();
    node.stop().await;
}

/// An adapter with a defect: whatever is sent to one account panics.
#[derive(Debug)]
struct Planted {
    inner: Platforms,
    account: AccountId,
}

impl Outlet for Planted {
    fn send<'a>(
        &'a self,
        address: &'a super::Address,
        claim: &'a store::Claim,
        sending: platforms::platform::Sending<'a>,
    ) -> futures_util::future::BoxFuture<'a, platforms::platform::Report> {
        assert!(claim.account_id != self.account, "planted");
        self.inner.send(address, claim, sending)
    }

    fn reconcile<'a>(
        &'a self,
        address: &'a super::Address,
        question: platforms::platform::Question<'a>,
    ) -> futures_util::future::BoxFuture<'a, platforms::platform::Reconciled> {
        self.inner.reconcile(address, question)
    }

    fn probe<'a>(
        &'a self,
        address: &'a super::Address,
    ) -> futures_util::future::BoxFuture<'a, Result<(), domain::outcome::Failure>> {
        self.inner.probe(address)
    }
}

#[tokio::test]
async fn a_panic_in_one_account_costs_the_others_nothing() {
    let w = World::new().await;
    let broken = w.account(Name::Max, AccountSettings::default()).await;
    let planted = w.channel(broken, "-70000000000001", ChannelSettings::default()).await;
    let healthy = w.telegram_channel().await;
    let mut ids = Vec::new();
    for n in 0..20 {
        w.post(&format!("p{n}"), &Message::text("ломается"), &[planted]).await;
        ids.extend(w.post(&n.to_string(), &Message::text(format!("Пост {n}")), &[healthy]).await);
    }
    let inner = Platforms { network: platforms::platform::Network::default() };
    let node = w.node_with(Arc::new(Planted { inner, account: broken }));
    for delivery in w.until_ended(&ids).await {
        assert_eq!(delivery.status, Status::Sent);
    }
    node.stop().await;
}

#[tokio::test]
async fn a_broken_delivery_continues_with_the_part_that_is_missing() {
    let w = World::new().await;
    let account = w.account(Name::Telegram, AccountSettings::default()).await;
    let settings = ChannelSettings {
        overflow: domain::chat::Overflow::Split,
        body_max: 20_000,
        ..ChannelSettings::default()
    };
    let channel = w.channel(account, "-1001234567890", settings).await;
    let text: String = (0..1_200).map(|n| format!("слово{n} ")).collect();
    let ids = w.post("1", &Message::text(text), &[channel]).await;
    // The second message is refused for a moment.
    let node = w.node();
    let sent = &w.until_ended(&ids).await[0];
    assert_eq!(sent.status, Status::Sent);
    assert!(!sent.parts.is_empty(), "{sent:#?}");
    let whole = w.texts(Name::Telegram);
    assert!(whole.len() >= 2, "{}", whole.len());
    let again: Vec<String> = (0..1_200).map(|n| format!("слово{n}")).collect();
    let joined = whole.join(" ");
    assert!(again.iter().all(|word| joined.contains(word)));
    node.stop().await;
}

#[tokio::test]
async fn an_edit_changes_what_was_published() {
    let w = World::new().await;
    let channel = w.telegram_channel().await;
    let photo = Media { url: Some(format!("{}/_/pictures/dog.jpg", w.sandbox.origin())), ..Media::default() };
    let message =
        Message { text: "Пропала собака".into(), media: vec![photo], ..Message::default() };
    let ids = w.post("1", &message, &[channel]).await;
    let node = w.node();
    let sent = w.until_ended(&ids).await.remove(0);
    assert_eq!(sent.status, Status::Sent, "{sent:#?}");
    assert_eq!(sent.action, Action::Send);
    assert!(sent.parts.values().any(|line| line.starts_with("caption ")), "{sent:#?}");
    node.stop().await;
}

#[tokio::test]
async fn the_kill_switch_stops_a_running_node_and_release_lets_it_go_on() {
    let w = World::new().await;
    let channel = w.telegram_channel().await;
    w.store.hold_all(Some("учения")).await.unwrap();
    let node = w.node();
    let ids = w.post("1", &Message::text("Пропала собака"), &[channel]).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(w.delivery(ids[0]).await.status, Status::Queued);
    assert_eq!(w.texts(Name::Telegram).len(), 0);
    w.store.hold_all(None).await.unwrap();
    assert_eq!(w.until_ended(&ids).await[0].status, Status::Sent);
    node.stop().await;
}

#[tokio::test]
async fn an_orderly_stop_finishes_what_is_out_and_hands_the_rest_back() {
    let w = World::new().await;
    let account =
        w.account(Name::Telegram, AccountSettings { rate: Some(5.0), ..AccountSettings::default() }).await;
    let mut channels = Vec::new();
    for n in 0..4 {
        channels.push(w.channel(account, &format!("-100123456789{n}"), ChannelSettings::default()).await);
    }
    w.sandbox
        .arm(&json!({"platform": "telegram", "method": "sendMessage", "kind": "slow_drip", "delay_ms": 1, "times": 1}))
        .unwrap();
    let ids = w.post("1", &Message::text("Пропала собака"), &channels).await;
    let node = w.node();
    w.until(ids[0], |delivery| delivery.status != Status::Queued).await;
    assert!(node.stop().await, "drained in time");
    for id in ids {
        let delivery = w.delivery(id).await;
        assert_ne!(delivery.status, Status::Sending, "{delivery:#?}");
        assert_eq!(delivery.counters.unknowns, 0, "{delivery:#?}");
    }
}

impl World {
    async fn vk_channel(&self) -> ChannelId {
        let settings = AccountSettings { kind: "user".into(), ..AccountSettings::default() };
        let account = self.account(Name::Vk, settings).await;
        self.channel(account, "-200000001", ChannelSettings::default()).await
    }
}

#[tokio::test]
async fn new_posts_of_a_database_that_was_started_anew_are_shown_by_vk() {
    let first = World::new().await;
    let ids = first.post("1", &Message::text("Пропала собака"), &[first.vk_channel().await]).await;
    let node = first.node();
    first.until_ended(&ids).await;
    node.stop().await;
    // The same ids begin again, within the hour in which VK remembers keys.
    let second = World { sandbox: first.sandbox, ..World::new().await };
    let ids = second.post("2", &Message::text("Пропал кот"), &[second.vk_channel().await]).await;
    let node = second.node();
    assert_eq!(second.until_ended(&ids).await[0].status, Status::Sent);
    node.stop().await;
    let posts = second.sandbox.core().chats.messages(Name::Vk, "-200000001");
    assert_eq!(posts.len(), 2, "{posts:?}");
}

/// A platform that answers everything with what it showed first.
#[derive(Debug)]
struct Swallowing;

impl Outlet for Swallowing {
    fn send<'a>(
        &'a self,
        _: &'a super::Address,
        _: &'a store::Claim,
        _: platforms::platform::Sending<'a>,
    ) -> futures_util::future::BoxFuture<'a, platforms::platform::Report> {
        let sent = domain::outcome::Sent {
            provider_message_id: Some("-200000001_5".into()),
            raw: serde_json::Value::Null,
        };
        let report = platforms::platform::Report {
            outcome: domain::outcome::Outcome::Sent(sent),
            ids: vec!["-200000001_5".into()],
            handles: Vec::new(),
            notes: Vec::new(),
            stale_handle: false,
        };
        Box::pin(async { report })
    }

    fn reconcile<'a>(
        &'a self,
        _: &'a super::Address,
        _: platforms::platform::Question<'a>,
    ) -> futures_util::future::BoxFuture<'a, platforms::platform::Reconciled> {
        Box::pin(async { platforms::platform::Reconciled::CannotKnow })
    }

    fn probe<'a>(
        &'a self,
        _: &'a super::Address,
    ) -> futures_util::future::BoxFuture<'a, Result<(), domain::outcome::Failure>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn a_post_that_is_answered_with_the_id_of_another_one_is_not_sent() {
    let w = World::new().await;
    let channel = w.vk_channel().await;
    let first = w.post("1", &Message::text("Пропала собака"), &[channel]).await;
    let second = w.post("2", &Message::text("Пропал кот"), &[channel]).await;
    let node = w.node_with(Arc::new(Swallowing));
    assert_eq!(w.until_ended(&first).await[0].status, Status::Sent);
    let swallowed = w.until_ended(&second).await.remove(0);
    assert_eq!(swallowed.status, Status::FailedPermanent);
    let error = swallowed.last_error.unwrap().to_string();
    assert!(error.contains("taken_for_repeat") && error.contains("rupor delivery requeue"), "{error}");
    node.stop().await;
}

#[tokio::test]
async fn a_long_post_is_known_by_every_part_of_it_so_that_all_can_be_taken_back() {
    let w = World::new().await;
    let account = w.account(Name::Telegram, AccountSettings::default()).await;
    let split = ChannelSettings { overflow: domain::chat::Overflow::Split, ..ChannelSettings::default() };
    let channel = w.channel(account, "-1001234567890", split).await;
    let words = Message::text("Пропала собака, очень просим помочь. ".repeat(250));
    let posted = w.post("1", &words, &[channel]).await;
    let node = w.node();
    let sent = w.until_ended(&posted).await.remove(0);
    assert!(node.stop().await);
    assert_eq!((sent.status, sent.parts.len()), (Status::Sent, 3), "{sent:#?}");
}

#[test]
fn what_cannot_be_found_ends_the_delivery_and_is_not_claimed_for_ever() {
    use super::deliver::{Halt, unreadable};
    let halt = unreadable(store::StoreError::not_found("delivery", 7));
    let Halt::End(failure) = halt else { panic!("{halt:?}") };
    assert_eq!(
        (failure.code.as_str(), failure.category),
        ("not_found", domain::outcome::Category::Permanent)
    );
    assert!(failure.message.contains("delivery 7 is not known"), "{}", failure.message);
    let halt = unreadable(store::StoreError::Database("gone for a moment".into()));
    assert!(matches!(halt, Halt::Release), "{halt:?}");
}
