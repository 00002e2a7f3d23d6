//! The five stories that people ask about, word for word. The same five stand in docs/why.md.
//!
//! `UPDATE_EXPECT=1 cargo test -p rupor why` writes the golden texts anew; docs/why.md is then changed by hand.

use domain::delivery::{AmbiguityPolicy, Priority};
use domain::ids::{CampaignId, ChannelId, MessageId};
use domain::message::Origin;
use domain::outcome::{Outcome, Sent};
use expect_test::expect_file;
use platforms::platform::Network;
use serde_json::{Value, json};
use store::{
    ChannelSettings, DedupMode, ForRecipients, LaneOf, LaneSettings, NewMessage, NewRecipient, NewSource,
    RecipientStatus,
};

use super::{find, gather, words};
use crate::language::Language;
use crate::operate::facts;
use crate::operate::tests::World;
use engine::ingest::{PublishRules, RawPost, SourceSettings, take_in};

const LOST: &str = "Пропала собака! Убежала такса Буся, рыжая, в красном ошейнике, улица Садовая. \
                    Телефон 8 975 000-00-11";
const COPY: &str =
    "Друзья, помогите найти таксу Бусю! Потерялась, рыжая, на шее красный ошейник. +7 975 000 00 11";
const FOUND: &str = "Найден кот, серый, домашний, на улице Мира. Ищем хозяев! 8 975 000-00-12";
const HOME: &str = "Такса Буся нашлась, она дома! Спасибо всем за помощь! 8 975 000-00-11";

/// A wall, a channel, and a clock in the hand.
struct Stage {
    world: World,
    channel: ChannelId,
}

impl Stage {
    async fn new() -> Stage {
        let world = World::new().await;
        let channel = world.channel("lost").await;
        let settings = ChannelSettings {
            dedup: DedupMode::Case,
            dedup_ttl: domain::limits::DEDUP_TTL_PETS,
            ..ChannelSettings::default()
        };
        world.store.change_channel(world.ws, channel, settings).await.unwrap();
        for owner in ["-101", "-202"] {
            let new = NewSource {
                kind: "vk".into(),
                name: format!("city/{owner}"),
                address: owner.into(),
                account_id: None,
                settings: Value::Null,
            };
            world.store.create_source(world.ws, new).await.unwrap();
        }
        Stage { world, channel }
    }

    /// A minute after it was posted, the wall is read.
    async fn read(&self, owner: i64, post: i64, text: &str) {
        self.world.seconds(60);
        let now = self.world.store.now().await.unwrap();
        let raw = RawPost {
            source: format!("vk:{owner}"),
            origin_id: post.to_string(),
            origin: Origin {
                source: "vk".into(),
                owner_id: Some(owner),
                post_id: Some(post),
                url: Some(format!("https://vk.com/wall{owner}_{post}")),
                date: Some(now.0 / 1_000_000 - 60),
                edited: None,
            },
            text: text.into(),
            ..RawPost::default()
        };
        let (store, ws) = (&self.world.store, self.world.ws);
        let rules = PublishRules::load(store, ws, "city", &SourceSettings::default()).await.unwrap();
        take_in(store, &Network::default(), ws, &rules, &[raw], None).await.unwrap();
    }

    async fn sent(&self, id: &str) {
        self.world.seconds(2);
        let sent = Sent { provider_message_id: Some(id.into()), raw: Value::Null };
        self.world.end(Outcome::Sent(sent)).await;
    }

    async fn why(&self, asked: &str) -> String {
        self.why_in(asked, Language::En).await
    }

    async fn why_in(&self, asked: &str, language: Language) -> String {
        self.world.seconds(30);
        let store = &self.world.store;
        let known = facts::gather(store, "default", Some(true)).await.unwrap();
        let asked = find(store, self.world.ws, asked).await.unwrap();
        words::story(&gather(store, &known, asked, None).await.unwrap(), language)
    }
}

async fn sent() -> String {
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    stage.sent("501").await;
    stage.why("https://vk.com/wall-101_1").await
}

async fn deduplicated() -> String {
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    stage.sent("501").await;
    stage.read(-202, 9, COPY).await;
    stage.why("https://vk.com/wall-202_9").await
}

async fn filtered() -> String {
    let stage = Stage::new().await;
    stage.read(-101, 2, FOUND).await;
    stage.why("https://vk.com/wall-101_2").await
}

async fn failed() -> String {
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    stage.world.answered(403, "Forbidden: bot was kicked from the channel chat", None).await;
    stage.why("https://vk.com/wall-101_1").await
}

async fn closed() -> String {
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    stage.sent("501").await;
    stage.read(-101, 3, HOME).await;
    stage.sent("501").await;
    stage.why("https://vk.com/wall-101_1").await
}

#[tokio::test]
async fn a_post_that_was_sent_is_explained() {
    expect_file!["golden/sent.txt"].assert_eq(&sent().await);
}

/// The points are worked out by the rules of today, so those of other rules are not shown as if they were.
#[tokio::test]
async fn a_post_that_other_rules_have_read_is_told_without_points() {
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    let store = &stage.world.store;
    let known = facts::gather(store, "default", Some(true)).await.unwrap();
    let asked = find(store, stage.world.ws, "1").await.unwrap();
    let mut story = gather(store, &known, asked, None).await.unwrap();
    assert!(words::story(&story, Language::En).contains("points ahead of"));
    story.message.facts["version"] = 1.into();
    let told = words::story(&story, Language::En);
    assert!(told.contains("read by other rules") && !told.contains("points ahead of"), "{told}");
}

#[tokio::test]
async fn a_post_that_was_a_repeat_is_explained() {
    expect_file!["golden/deduplicated.txt"].assert_eq(&deduplicated().await);
}

#[tokio::test]
async fn a_post_that_no_rule_wants_is_explained() {
    expect_file!["golden/filtered.txt"].assert_eq(&filtered().await);
}

#[tokio::test]
async fn a_post_that_failed_is_explained() {
    expect_file!["golden/failed.txt"].assert_eq(&failed().await);
}

#[tokio::test]
async fn a_post_whose_story_ended_is_explained() {
    expect_file!["golden/closed.txt"].assert_eq(&closed().await);
}

#[tokio::test]
async fn the_same_stories_are_told_in_russian() {
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    stage.sent("501").await;
    stage.read(-202, 9, COPY).await;
    let repeat = stage.why_in("https://vk.com/wall-202_9", Language::Ru).await;
    expect_file!["golden/deduplicated.ru.txt"].assert_eq(&repeat);
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    stage.world.answered(403, "Forbidden: bot was kicked from the channel chat", None).await;
    let failed = stage.why_in("https://vk.com/wall-101_1", Language::Ru).await;
    expect_file!["golden/failed.ru.txt"].assert_eq(&failed);
}

#[tokio::test]
async fn the_page_shows_the_five_texts_as_they_are() {
    let page = include_str!("../../../../docs/why.md");
    for (name, text) in [
        ("sent", sent().await),
        ("deduplicated", deduplicated().await),
        ("filtered", filtered().await),
        ("failed", failed().await),
        ("closed", closed().await),
    ] {
        assert!(
            page.contains(&format!("```text\n{text}```")),
            "docs/why.md does not show the {name} post:\n{text}"
        );
    }
}

/// Two people hear of it in a broadcast: one blocked the bot, the other reads it.
async fn to_people() -> Stage {
    let stage = Stage::new().await;
    let (store, ws) = (&stage.world.store, stage.world.ws);
    let account = store.accounts(ws).await.unwrap()[0].account_id;
    let person = |user: &str| NewRecipient {
        user_id: user.into(),
        address: user.into(),
        attributes: json!({"имя": "Анна", "телефон": "+79750000077"}),
        time_zone: None,
        status: RecipientStatus::Active,
        source: "импорт".into(),
    };
    let people = store.put_recipients(ws, account, vec![person("701"), person("702")]).await.unwrap();
    let lane = LaneSettings { max_parallel: 2, rate: None, ambiguity: AmbiguityPolicy::ResendOnce };
    let lane_id = store.open_lane(ws, LaneOf::Campaign(CampaignId(1), account), lane).await.unwrap();
    let new: NewMessage = serde_json::from_value(json!({
        "source": "campaign:1", "origin_id": "1", "payload": {"text": "Приходите на день открытых дверей"},
        "content_hash": "дверь", "channels": [],
    }))
    .unwrap();
    let message_id = store.enqueue(ws, vec![new]).await.unwrap()[0].message_id;
    let recipients = people.iter().map(|put| put.recipient_id).collect();
    let new = ForRecipients { message_id, lane_id, recipients, priority: Priority::Bulk, run_at: None };
    store.enqueue_for(ws, new).await.unwrap();
    stage.world.seconds(2);
    stage.world.answered(403, "Forbidden: bot was blocked by the user", None).await;
    stage.sent("77").await;
    stage
}

#[tokio::test]
async fn what_people_heard_is_explained_by_their_ids_and_nothing_else() {
    let stage = to_people().await;
    let told = stage.why("1").await;
    expect_file!["golden/people.txt"].assert_eq(&told);
    assert!(!told.contains("Анна") && !told.contains("0077"), "{told}");
    let one = stage.why("d2").await;
    assert!(one.contains("person 2 on bot (telegram 702)") && !one.contains("person 1"), "{one}");
    let known = facts::gather(&stage.world.store, "default", Some(true)).await.unwrap();
    let status = crate::operate::status::status(&known).page(crate::language::Language::En);
    assert!(status.contains("\npeople: 1 cannot be reached\n"), "{status}");
}

#[tokio::test]
async fn a_channel_that_was_removed_keeps_its_part_of_the_story() {
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    stage.sent("501").await;
    stage.world.store.remove_channel(stage.world.ws, stage.channel).await.unwrap();
    let told = stage.why("d1").await;
    assert!(told.contains("channels that were removed since\n  delivery 1: sent"), "{told}");
}

#[tokio::test]
async fn a_post_a_message_and_a_delivery_lead_to_the_same_story() {
    let stage = Stage::new().await;
    stage.read(-101, 1, LOST).await;
    let (store, ws) = (&stage.world.store, stage.world.ws);
    for asked in
        ["https://vk.com/wall-101_1", "https://vk.com/club101?w=wall-101_1", "wall-101_1", "1", "m1", "d1"]
    {
        assert_eq!(find(store, ws, asked).await.unwrap().message.message_id, MessageId(1), "{asked}");
    }
    for (asked, words) in
        [("wall-5_5", "never seen"), ("99", "neither"), ("d99", "delivery 99"), ("привет", "is not known")]
    {
        let refused = find(store, ws, asked).await.unwrap_err().to_string();
        assert!(refused.contains(words), "{asked}: {refused}");
    }
}
