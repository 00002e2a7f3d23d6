//! From an outcome to the call that tells it, on the ledger itself.

use domain::ids::AccountId;
use domain::outcome::{Category, Failure, Outcome, Scope, Sent};
use domain::retry::Chance;
use domain::time::Span;
use secrecy::SecretString;
use store::{
    AccountSettings, Address, ChannelSettings, ClaimRequest, Clock, DedupMode, Finish, FinishKind, Keyring,
    NewAccount, NewChannel, Whose,
};

use super::*;

struct World {
    store: Store,
    ws: WorkspaceId,
    posts: ChannelId,
}

async fn account(store: &Store, ws: WorkspaceId, name: &str, platform: &str, tier: &str) -> AccountId {
    let token = if platform == "webhook" { "unsigned" } else { "42:token" };
    let settings = AccountSettings { tier: tier.into(), rate: None, ..AccountSettings::default() };
    let (name, token) = (name.to_owned(), SecretString::from(token));
    store.create_account(ws, NewAccount { platform: platform.into(), name, token, settings }).await.unwrap()
}

async fn channel(
    store: &Store,
    ws: WorkspaceId,
    account_id: AccountId,
    name: &str,
    extras: Value,
) -> ChannelId {
    let settings = ChannelSettings {
        dedup: DedupMode::Off,
        max_parallel: 100,
        rate: None,
        settings: extras,
        ..ChannelSettings::default()
    };
    let new =
        NewChannel { account_id, name: name.into(), target: format!("https://{name}.example/"), settings };
    store.create_channel(ws, new).await.unwrap()
}

impl World {
    async fn new() -> World {
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        let ws = store.create_workspace("Приют").await.unwrap();
        let bot = account(&store, ws, "бот", "telegram", "standard").await;
        let posts = channel(&store, ws, bot, "потеряшки", json!({})).await;
        World { store, ws, posts }
    }

    async fn listens(&self, name: &str, extras: Value) -> ChannelId {
        let account = account(&self.store, self.ws, name, "webhook", store::TIER_CALLBACKS).await;
        channel(&self.store, self.ws, account, name, extras).await
    }

    async fn post(&self, n: usize) {
        let new = |n: usize| NewMessage {
            channels: vec![self.posts],
            ..NewMessage::new("test", n.to_string(), n.to_string(), json!({"text": "Пропал кот"}))
        };
        self.store.enqueue(self.ws, (0..n).map(new).collect()).await.unwrap();
    }

    /// Takes everything that is due and ends it; which channels it was for.
    async fn send_all(&self, outcome: impl Fn() -> Outcome) -> Vec<ChannelId> {
        let mut to = Vec::new();
        loop {
            let request = ClaimRequest {
                whose: Whose::Everyone,
                run_id: "test".into(),
                limit: 100,
                ahead: Span::ZERO,
                lease: Span::from_secs(60),
            };
            let claimed = self.store.claim(request).await.unwrap().claims;
            if claimed.is_empty() {
                return to;
            }
            to.extend(claimed.iter().filter_map(|claim| claim.destination.channel()));
            let finish = |claim: &store::Claim| Finish {
                claim: claim.reference(),
                ending: FinishKind::Outcome(outcome()),
                chance: Chance::new(0),
            };
            self.store.commit(claimed.iter().map(finish).collect()).await.unwrap();
        }
    }

    async fn calls(&self) -> Vec<Value> {
        let messages = self.store.messages(self.ws, 0, 1_000).await.unwrap();
        let calls = messages.into_iter().filter(|message| message.source == SOURCE);
        calls.map(|message| message.payload["data"].clone()).collect()
    }
}

fn sent() -> Outcome {
    Outcome::Sent(Sent { provider_message_id: Some("77".into()), raw: Value::Null })
}

fn refused() -> Outcome {
    Outcome::Failed(Failure::new(Category::Permanent, Scope::Delivery, "too_long", "the text is too long"))
}

#[tokio::test]
async fn an_outcome_is_told_once_and_what_became_of_the_call_to_nobody() {
    let world = World::new().await;
    let hears = world.listens("hears", json!({})).await;
    world.post(1).await;
    assert_eq!(world.send_all(sent).await, [world.posts]);
    assert_eq!(step(&world.store, world.ws).await.unwrap(), 1);
    assert_eq!(step(&world.store, world.ws).await.unwrap(), 0);
    let [call] = &world.calls().await[..] else { panic!("one call") };
    assert_eq!(call["type"], "delivery.sent");
    assert_eq!(call["data"]["provider_message_id"], "77");
    assert_eq!((&call["data"]["source"], &call["data"]["origin_id"]), (&json!("test"), &json!("0")));
    assert_eq!(world.send_all(sent).await, [hears]);
    assert_eq!(step(&world.store, world.ws).await.unwrap(), 0, "no call about a call");
}

#[tokio::test]
async fn a_channel_hears_only_of_the_outcomes_that_it_names_and_nobody_of_none() {
    let world = World::new().await;
    world.post(1).await;
    world.send_all(sent).await;
    assert_eq!(step(&world.store, world.ws).await.unwrap(), 0, "nobody listens, nothing is noted");
    let failures = world.listens("failures", json!({"outcomes": ["failed_permanent", "dead"]})).await;
    world.post(2).await;
    world.send_all(refused).await;
    assert_eq!(step(&world.store, world.ws).await.unwrap(), 1, "the first one is the post of before");
    let [call] = &world.calls().await[..] else { panic!("one call") };
    assert_eq!(
        (&call["type"], &call["data"]["error"]["code"]),
        (&json!("delivery.failed_permanent"), &json!("too_long"))
    );
    assert_eq!(world.send_all(sent).await, [failures]);
}

#[tokio::test]
async fn a_node_that_died_between_queueing_and_forgetting_tells_nothing_twice() {
    let world = World::new().await;
    world.listens("hears", json!({})).await;
    world.post(250).await;
    world.send_all(sent).await;
    let notes = world.store.outcomes(world.ws, 1_000).await.unwrap();
    assert_eq!(notes.len(), 250);
    // Both read the same page; each queues it before the other has said so.
    let (one, other) = tokio::join!(step(&world.store, world.ws), step(&world.store, world.ws));
    assert_eq!((one.unwrap(), other.unwrap()), (PAGE, PAGE));
    while step(&world.store, world.ws).await.unwrap() > 0 {}
    assert_eq!(world.calls().await.len(), 250);
}
