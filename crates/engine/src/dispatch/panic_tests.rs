//! A ledger that panics where it is told to: whatever breaks inside the dispatcher, sending goes on and says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::delivery::Status;
use domain::ids::{AccountId, DeliveryId, LaneId, MessageId, RecipientId, WorkspaceId};
use domain::message::Message;
use domain::time::{Span, Timestamp};
use futures_util::future::BoxFuture;
use sandbox::Name;
use secrecy::SecretString;
use serde_json::Value;
use store::{
    Account, AccountSettings, Approach, Attempt, Channel, ChannelSettings, ClaimRef, ClaimRequest, Claimed,
    Delivery, Finish, Finished, History, PartProgress, Recovered, Remembered, Replayed, Result, Store,
    WakeUp, Whose,
};

use super::ports::Ledger;
use super::tests::World;

/// Panics at a call, so many times.
#[derive(Debug)]
struct Planted {
    store: Store,
    left: Mutex<HashMap<&'static str, u32>>,
}

impl Planted {
    fn new(store: &Store, call: &'static str, times: u32) -> Arc<Planted> {
        Arc::new(Planted { store: store.clone(), left: Mutex::new(HashMap::from([(call, times)])) })
    }

    fn left(&self) -> u32 {
        self.left.lock().unwrap().values().sum()
    }

    fn trip(&self, call: &'static str) {
        let is_planted = match self.left.lock().unwrap().get_mut(call) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        };
        assert!(!is_planted, "planted in {call}");
    }
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        impl Ledger for Planted {
            fn connections(&self) -> u64 {
                Ledger::connections(&self.store)
            }
            $(fn $name(&self, $($arg: $kind),*) -> BoxFuture<'_, Result<$answer>> {
                Box::pin(async move {
                    self.trip(stringify!($name));
                    Ledger::$name(&self.store, $($arg),*).await
                })
            })*
        }
    };
}

forward! {
    claim(request: ClaimRequest) -> Claimed;
    commit(batch: Vec<Finish>) -> Vec<Finished>;
    record_parts(batch: Vec<(ClaimRef, PartProgress)>) -> Vec<bool>;
    renew(batch: Vec<ClaimRef>, lease: Span) -> Vec<bool>;
    recover(whose: Whose, limit: usize) -> Vec<Recovered>;
    reserve_for(workspace: WorkspaceId, account: AccountId, lanes: Vec<Option<LaneId>>, lead: Span) -> Vec<Timestamp>;
    reserve_lane(workspace: WorkspaceId, lane: LaneId) -> Timestamp;
    held() -> Option<String>;
    now() -> Timestamp;
    wake_up() -> WakeUp;
    history() -> History;
    lose_history(why: String) -> ();
    tell_of_lost_history(what: String) -> ();
    replay(batch: Vec<Remembered>) -> Vec<Replayed>;
    nodes() -> Vec<store::NodeRow>;
    sign_on(run_id: String, history: History) -> bool;
    sign_off(run_id: String) -> ();
    payloads(workspace: WorkspaceId, ids: Vec<MessageId>) -> Vec<(MessageId, Value)>;
    delivery(workspace: WorkspaceId, id: DeliveryId) -> Delivery;
    attempts(workspace: WorkspaceId, id: DeliveryId) -> Vec<Attempt>;
    said_lately(workspace: WorkspaceId, lane: LaneId, but: DeliveryId) -> Vec<String>;
    earlier_edit_leaves(workspace: WorkspaceId, edit: DeliveryId) -> bool;
    alike_is_ahead(workspace: WorkspaceId, id: DeliveryId) -> bool;
    accounts(workspace: WorkspaceId) -> Vec<Account>;
    account_token(workspace: WorkspaceId, id: AccountId) -> SecretString;
    channels(workspace: WorkspaceId) -> Vec<Channel>;
    approach(workspace: WorkspaceId, recipient: RecipientId, interval: Span, not_before: Timestamp) -> Approach;
}

/// Plants panics in one call, posts twice into each of two channels, and returns how the posts ended.
async fn broken_at(call: &'static str, times: u32) -> (World, Vec<Delivery>, u32) {
    let w = World::new().await;
    let account = w.account(Name::Telegram, AccountSettings::default()).await;
    let mut channels = Vec::new();
    for n in 0..2 {
        channels.push(w.channel(account, &format!("-100123456789{n}"), ChannelSettings::default()).await);
    }
    let ledger = Planted::new(&w.store, call, times);
    let node = w.node_on(Arc::clone(&ledger) as Arc<dyn Ledger>);
    let mut ids = w.post("1", &Message::text("Пропала собака"), &channels).await;
    let _ = w.until_ended(&ids).await;
    ids.extend(w.post("2", &Message::text("Найдена кошка"), &channels).await);
    let ended = w.until_ended(&ids).await;
    let all_met = async {
        while ledger.left() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(300), all_met).await;
    node.stop().await;
    (w, ended, ledger.left())
}

/// Nothing but the planted call is out of order, so each post is said once.
async fn says_everything_once(call: &'static str, times: u32) {
    let (w, ended, left) = broken_at(call, times).await;
    assert!(ended.iter().all(|delivery| delivery.status == Status::Sent), "{call}: {ended:#?}");
    assert_eq!(w.texts(Name::Telegram).len(), 4, "{call}");
    assert_eq!(left, 0, "{call}: it was never met");
}

#[tokio::test]
async fn a_panic_while_an_outcome_is_written_down_neither_loses_nor_repeats_it() {
    says_everything_once("commit", 2).await;
}

#[tokio::test]
async fn a_panic_while_a_request_is_marked_costs_a_moment() {
    says_everything_once("record_parts", 2).await;
}

#[tokio::test]
async fn a_panic_in_the_loop_that_claims_starts_it_again() {
    says_everything_once("claim", 2).await;
}

#[tokio::test]
async fn a_panic_in_housekeeping_starts_it_again() {
    says_everything_once("recover", 2).await;
}

/// Nobody can write this outcome down; it is taken up when its lease ends, and the others are not held up by it.
#[tokio::test]
async fn an_outcome_that_panics_every_time_costs_itself_alone() {
    let (_, ended, left) = broken_at("commit", 6).await;
    assert_eq!(left, 0);
    assert!(ended.iter().any(|delivery| delivery.status == Status::Sent), "{ended:#?}");
    assert!(ended[2..].iter().all(|delivery| delivery.status == Status::Sent), "{ended:#?}");
}
