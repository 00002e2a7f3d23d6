//! The same words twice to one chat: a message of one delivery is never taken for that of the other.

use domain::delivery::{AmbiguityPolicy, Status};
use domain::ids::AccountId;
use domain::message::Message;
use sandbox::Name;
use serde_json::json;
use store::{AccountSettings, Campaign, ChannelSettings, DedupMode};

use super::tests::World;
use crate::campaigns::life::{self, Draft};
use crate::campaigns::step;

const WORDS: &str = "Скидки до пятницы";

async fn start(w: &World, account: AccountId, name: &str) -> Campaign {
    let draft = Draft {
        name: name.into(),
        accounts: vec![account],
        audience: None,
        variants: vec![("a".into(), 1, Message::text(WORDS))],
        policy: serde_json::from_value(json!({"unsubscribe": false})).unwrap(),
        key: name.into(),
    };
    let made = life::create(&w.store, w.workspace, draft).await.unwrap();
    life::start(&w.store, &made, None).await.unwrap();
    life::by_name(&w.store, w.workspace, name).await.unwrap()
}

/// Steps until it is over; the node beside it sends.
async fn lead(w: &World, campaign: Campaign) -> store::CampaignCounts {
    for _ in 0..2_000 {
        let now = life::by_name(&w.store, w.workspace, &campaign.name).await.unwrap();
        if now.status.is_over() {
            return w.store.campaign_counts(w.workspace, now.campaign_id).await.unwrap();
        }
        step(&w.store, now).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} does not end", campaign.name);
}

#[tokio::test]
async fn reading_back_never_takes_the_message_of_another_campaign_for_ours() {
    let w = World::new().await;
    let account = w.account(Name::Max, AccountSettings::default()).await;
    let person = store::NewRecipient {
        user_id: "7002".into(),
        address: "7002".into(),
        attributes: json!({}),
        time_zone: None,
        status: store::RecipientStatus::Active,
        source: "файл".into(),
    };
    w.store.put_recipients(w.workspace, account, vec![person]).await.unwrap();
    let node = w.node();
    assert_eq!(lead(&w, start(&w, account, "первая").await).await.sent, 1);
    // The second is lost on its way: nobody knows, and the same words stand in the chat already.
    w.sandbox.arm(&json!({"platform": "max", "kind": "reset_after_read", "times": 1})).unwrap();
    assert_eq!(lead(&w, start(&w, account, "вторая").await).await.sent, 1);
    assert_eq!(w.texts(Name::Max), [WORDS, WORDS]);
    node.stop().await;
}

/// The first is lost on its way, and would find the second's post if that were out already.
#[tokio::test]
async fn the_same_words_are_said_again_only_when_the_first_are_known_to_be_there() {
    let w = World::new().await;
    let account = w.account(Name::Max, AccountSettings::default()).await;
    let settings = ChannelSettings {
        max_parallel: 5,
        dedup: DedupMode::Off,
        ambiguity: AmbiguityPolicy::Reconcile,
        ..ChannelSettings::default()
    };
    let channel = w.channel(account, "-70000000000001", settings).await;
    w.sandbox.arm(&json!({"platform": "max", "kind": "reset_after_read", "times": 1})).unwrap();
    let mut ids = Vec::new();
    for origin in ["первый", "второй"] {
        ids.extend(w.post(origin, &Message::text(WORDS), &[channel]).await);
    }
    let node = w.node();
    let ended = w.until_ended(&ids).await;
    assert!(ended.iter().all(|delivery| delivery.status == Status::Sent), "{ended:?}");
    assert_eq!(w.texts(Name::Max), [WORDS, WORDS]);
    let (unknown, other) = if ended[0].counters.unknowns > 0 { (0, 1) } else { (1, 0) };
    assert_eq!(ended[unknown].counters.unknowns, 1);
    let attempts = w.store.attempts(w.workspace, ended[other].delivery_id).await.unwrap();
    let asked: Vec<_> = attempts.iter().filter_map(|attempt| attempt.requested_at).collect();
    assert!(asked.len() == 1 && asked[0] >= ended[unknown].sent_at.unwrap(), "{attempts:?}");
    node.stop().await;
}
