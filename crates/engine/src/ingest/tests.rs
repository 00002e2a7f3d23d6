//! What is published of what: every kind with every preset, own routes, and the posts that stay.

use domain::content::{Copied, Kind};
use domain::ids::{AccountId, ChannelId, WorkspaceId};
use domain::message::{Message, Origin};
use domain::time::{Span, Timestamp};
use serde_json::json;
use store::{Channel, ChannelSettings, DedupMode};

use super::pictures::Kept;
use super::*;

/// 2026-11-15 12:00:00 UTC.
const NOW: Timestamp = Timestamp(1_794_744_000_000_000);

/// One invented post of every kind.
const SAMPLES: [(Kind, &str); 11] = [
    (Kind::Lost, "Пропала собака! Убежала такса Буся, Тюмень, улица Ямская. Телефон 8 901 000-00-11"),
    (Kind::Found, "Найдена собака, такса, сидит у нас дома. Ищем хозяев! Тюмень, 8 901 000-00-12"),
    (Kind::Sighting, "Видели рыжую таксу, бегает одна возле остановки на Ямской, в руки не даётся"),
    (Kind::Reunited, "Такса Буся нашлась, она дома! Всем спасибо за репосты!"),
    (Kind::Adoption, "Котёнок ищет дом, 2 месяца, к лотку приучен. Отдадим в добрые руки, 8 901 000-00-13"),
    (
        Kind::Fundraising,
        "Срочно нужна помощь! Собираем на операцию собаке, сбор на лечение, карта 2200 0000 0000 0001",
    ),
    (Kind::News, "Уважаемые подписчики! В субботу состоится встреча волонтёров в парке, начало в 12 часов"),
    (
        Kind::Ad,
        "Зоомагазин объявляет скидки на корм! Доставка бесплатно, заказывайте на сайте, акция до конца месяца",
    ),
    (Kind::Link, "https://vk.com/wall-1_2"),
    (Kind::Empty, ""),
    (Kind::Other, "Доброе утро"),
];

fn channel(id: i64, route: Option<&str>) -> Channel {
    Channel {
        channel_id: ChannelId(id),
        workspace_id: WorkspaceId(1),
        account_id: AccountId(1),
        platform: "telegram".into(),
        name: format!("канал {id}"),
        target: "-1".into(),
        target_since: Timestamp(0),
        settings: ChannelSettings { route: route.map(str::to_owned), ..ChannelSettings::default() },
        enabled: true,
        disabled_by: None,
        paused_until: Timestamp(0),
        paused_why: None,
        error_streak: 0,
        tier: "standard".into(),
    }
}

fn rules(preset: Preset, channels: &[Channel]) -> PublishRules {
    PublishRules::new("Тюмень", &SourceSettings { preset, ..SourceSettings::default() }, channels)
}

fn raw(text: &str) -> RawPost {
    RawPost {
        source: "vk:-1".into(),
        origin_id: "7".into(),
        origin: Origin {
            source: platforms::vk::NAME.into(),
            owner_id: Some(-1),
            post_id: Some(7),
            date: Some(NOW.0 / 1_000_000 - 60),
            ..Origin::default()
        },
        text: text.into(),
        ..RawPost::default()
    }
}

fn with_picture(text: &str) -> RawPost {
    let picture = RawPicture { key: "https://vk.com/photo-1_1".into(), ..RawPicture::default() };
    RawPost { pictures: vec![picture], ..raw(text) }
}

#[test]
fn every_sample_is_of_its_kind() {
    for (kind, text) in SAMPLES {
        let reading = read(&raw(text), &rules(Preset::Pets, &[]), NOW);
        assert_eq!(reading.analysis.facts.kind.value, kind, "{text}");
    }
}

#[test]
fn with_the_preset_pets_only_lost_is_published() {
    let rules = rules(Preset::Pets, &[channel(1, None), channel(2, None)]);
    for (kind, text) in SAMPLES {
        let reading = read(&with_picture(text), &rules, NOW);
        let expected: &[ChannelId] = if kind == Kind::Lost { &[ChannelId(1), ChannelId(2)] } else { &[] };
        assert_eq!(reading.channels, expected, "{kind:?}");
        assert_eq!(reading.skipped.is_none(), kind == Kind::Lost, "{kind:?}: {:?}", reading.skipped);
    }
}

#[test]
fn with_the_preset_mirror_everything_is_published() {
    let rules = rules(Preset::Mirror, &[channel(1, None)]);
    for (kind, text) in SAMPLES {
        let reading = read(&with_picture(text), &rules, NOW);
        assert_eq!((reading.channels, reading.skipped), (vec![ChannelId(1)], None), "{kind:?}");
    }
    let empty = read(&raw(""), &rules, NOW);
    assert_eq!(empty.skipped.as_deref(), Some("empty: nothing to read"), "there is nothing to show at all");
}

#[test]
fn a_preset_says_what_a_new_channel_counts_as_a_repeat() {
    assert_eq!(Preset::Pets.dedup(), (DedupMode::Case, Span::from_hours(72)));
    assert_eq!(Preset::Mirror.dedup(), (DedupMode::Content, Span::from_hours(168)));
}

#[test]
fn a_channels_own_route_wins_over_the_preset() {
    let found = channel(1, Some(r#"{"any": ["kind:found"]}"#));
    for preset in [Preset::Pets, Preset::Mirror] {
        let rules = rules(preset, std::slice::from_ref(&found));
        for (kind, text) in SAMPLES {
            let reading = read(&with_picture(text), &rules, NOW);
            assert_eq!(reading.channels.is_empty(), kind != Kind::Found, "{preset:?} {kind:?}");
        }
    }
}

#[test]
fn a_route_that_cannot_be_read_lets_nothing_through() {
    let channels = [channel(1, Some(r#"{"any": ["kind:lst"]}"#)), channel(2, None)];
    let reading = read(&raw(SAMPLES[0].1), &rules(Preset::Pets, &channels), NOW);
    assert_eq!(reading.channels, [ChannelId(2)]);
}

#[track_caller]
fn check_skipped(raw: &RawPost, expected: &str) {
    let reading = read(raw, &rules(Preset::Mirror, &[channel(1, None)]), NOW);
    assert!(reading.channels.is_empty());
    assert!(reading.skipped.as_deref().is_some_and(|why| why.starts_with(expected)), "{:?}", reading.skipped);
}

#[test]
fn what_is_not_published_says_why() {
    let lost = SAMPLES[0].1;
    check_skipped(&RawPost { withheld: Some("ad: marked as an advertisement".into()), ..raw(lost) }, "ad:");
    let mut old = raw(lost);
    old.origin.date = Some(NOW.0 / 1_000_000 - 25 * 3600);
    check_skipped(&old, "too old: posted 25 hours ago, at most 24");
    let nobody = read(&raw(lost), &rules(Preset::Pets, &[]), NOW);
    assert_eq!(nobody.skipped.as_deref(), Some("no route: the workspace has no channels"));
    let pets = rules(Preset::Pets, &[channel(1, None)]);
    let reason = |kind: Kind| {
        let text = SAMPLES.iter().find(|(sample, _)| *sample == kind).unwrap().1;
        read(&raw(text), &pets, NOW).skipped.unwrap()
    };
    assert!(reason(Kind::Link).starts_with("link:"));
    assert!(reason(Kind::Empty).starts_with("empty:"));
    assert!(reason(Kind::Ad).starts_with("ad:"));
    assert!(reason(Kind::Found).starts_with("no route:"));
}

#[test]
fn a_wider_horizon_publishes_older_posts() {
    let settings = SourceSettings { horizon_hours: Some(72), ..SourceSettings::default() };
    let mut old = raw(SAMPLES[0].1);
    old.origin.date = Some(NOW.0 / 1_000_000 - 25 * 3600);
    let reading = read(&old, &PublishRules::new("Тюмень", &settings, &[channel(1, None)]), NOW);
    assert_eq!(reading.channels, [ChannelId(1)]);
}

fn payload(raw: &RawPost) -> Message {
    let reading = read(raw, &rules(Preset::Pets, &[channel(1, None)]), NOW);
    serde_json::from_value(reading.finish(raw, Kept::default()).message.payload).unwrap()
}

#[test]
fn a_post_that_names_its_channels_goes_there_whatever_its_kind() {
    let named = RawPost { channels: Some(vec![ChannelId(2)]), ..raw("Доброе утро") };
    let reading = read(&named, &rules(Preset::Pets, &[channel(1, None), channel(2, None)]), NOW);
    assert_eq!((reading.channels, reading.skipped), (vec![ChannelId(2)], None));
}

#[test]
fn what_cannot_be_stored_leaves_a_note_in_its_place() {
    let raw = raw(SAMPLES[0].1);
    let stub = unreadable(&raw, "payload of 2 bytes, at most 1");
    assert_eq!((stub.message.source.as_str(), stub.message.origin_id.as_str()), ("vk:-1", "7"));
    assert!(stub.message.channels.is_empty() && stub.sketch.is_none());
    assert_eq!(stub.message.skipped.as_deref(), Some("unreadable: payload of 2 bytes, at most 1"));
    assert_eq!(stub.message.origin["hash"], mark(&raw), "the same post again is not tried again");
}

#[test]
fn the_payload_is_what_the_dispatcher_renders() {
    let message = payload(&raw(SAMPLES[0].1));
    assert_eq!((message.kind.as_str(), message.text.as_str()), ("lost", SAMPLES[0].1));
    assert_eq!((message.phones, message.city.as_deref()), (vec!["+79010000011".to_owned()], Some("Тюмень")));
    assert_eq!(message.origin.unwrap().post_id, Some(7));
}

#[test]
fn a_repost_speaks_with_the_words_inside() {
    let copy = Copied { owner_id: -5, post_id: 6, date: 1, text: SAMPLES[0].1.into() };
    let silent = RawPost { copies: vec![copy], ..raw("") };
    assert_eq!((payload(&silent).kind.as_str(), payload(&silent).text.as_str()), ("lost", SAMPLES[0].1));
    let own = RawPost { text: "Максимальный репост!".into(), ..silent };
    assert_eq!(payload(&own).text, format!("Максимальный репост!\n\n{}", SAMPLES[0].1));
}

#[test]
fn only_what_a_reader_would_see_makes_a_post_a_changed_one() {
    let first = with_picture("текст");
    let mut again = first.clone();
    again.pictures[0].url = "https://elsewhere.example/1.jpg?sign=2".into();
    again.origin.edited = Some(5);
    assert_eq!(mark(&first), mark(&again), "a signed address changes with every reading");
    assert_ne!(mark(&first), mark(&RawPost { text: "текст.".into(), ..first.clone() }));
    assert_ne!(mark(&first), mark(&RawPost { pictures: Vec::new(), ..first.clone() }));
}

#[test]
fn settings_of_a_source_are_read_strictly() {
    assert_eq!(SourceSettings::of(&json!({})).unwrap().preset, Preset::Pets);
    assert_eq!(SourceSettings::of(&json!({"preset": "mirror"})).unwrap().preset, Preset::Mirror);
    assert!(SourceSettings::of(&json!({"presett": "mirror"})).is_err());
}

fn holding(id: i64, route: Option<&str>) -> Channel {
    let mut channel = channel(id, route);
    channel.settings.settings = json!({"unsure": "hold"});
    channel
}

/// Who hears a post of this kind that is nearly of another, and where it is held.
fn routed(kind: Kind, nearly: Option<Kind>, channels: &[Channel]) -> (Vec<ChannelId>, Vec<ChannelId>) {
    let mut facts = read(&raw("Доброе утро"), &rules(Preset::Pets, &[]), NOW).analysis.facts;
    facts.kind.value = kind;
    (facts.unsure, facts.nearly) = (nearly.is_some(), nearly);
    let tags = std::iter::once(format!("kind:{}", kind.name())).collect();
    let subject = domain::route::Subject { tags: &tags, facts: &facts, text: "" };
    let routed = rules(Preset::Mirror, channels).route(&facts, &subject).unwrap();
    (routed.channels, routed.held.map(|held| held.channels).unwrap_or_default())
}

#[test]
fn an_unsure_post_waits_only_where_a_route_asks_for_its_kind() {
    let route = Some(r#"{"any": ["kind:found", "kind:lost"]}"#);
    let channels = [channel(1, route), holding(2, route), holding(3, None), holding(4, Some("{}"))];
    let ids = |ids: &[i64]| ids.iter().map(|id| ChannelId(*id)).collect::<Vec<_>>();
    let of = |kind, nearly| routed(kind, nearly, &channels);
    assert_eq!(of(Kind::Found, Some(Kind::Lost)), (ids(&[1, 3, 4]), ids(&[2])), "never on a mirror");
    assert_eq!(of(Kind::Found, None), (ids(&[1, 2, 3, 4]), ids(&[])), "a sure one waits nowhere");
    assert_eq!(of(Kind::Lost, Some(Kind::Found)), (ids(&[1, 2, 3, 4]), ids(&[])), "a search never waits");
}

#[test]
fn a_post_whose_author_says_its_kind_is_never_held() {
    let channels = [holding(1, Some(r#"{"all": [{"not": "kind:lost"}]}"#))];
    let post = RawPost { kind: Some(Kind::Found), ..raw(UNSURE) };
    assert!(
        read(&raw(UNSURE), &rules(Preset::Pets, &channels), NOW).held.is_some(),
        "the words alone are unsure"
    );
    let reading = read(&post, &rules(Preset::Pets, &channels), NOW);
    assert_eq!((reading.held, reading.channels), (None, vec![ChannelId(1)]));
}

/// Two words that speak for nothing.
const UNSURE: &str = "Собака. Фото";

/// Two grey pixels.
const PNG: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x02\x00\x00\x00\x01\x08\x00\x00\x00\x00\xd1I V\x00\x00\x00\x0bIDATx\xdacPx\x00\x00\x01#\x01\x01c\x1f\xdc\x94\x00\x00\x00\x00IEND\xaeB`\x82";

#[tokio::test]
async fn a_picture_that_nobody_waits_for_any_more_is_not_held_against_it() {
    let address = store::Address::parse("sqlite::memory:").unwrap();
    let key = store::Keyring::ephemeral([7; 32]);
    let store = Store::open(&address, key, store::Clock::system()).await.unwrap();
    let ws = store.create_workspace("Приют").await.unwrap();
    // A picture that is known is not looked at again: each has another end, which no decoder reads.
    let picture = |n: u8| bytes::Bytes::from([PNG, &[n]].concat());
    let keep = |n: u8| keep_bytes(&store, ws, vec![("точка.png".into(), picture(n))]);
    // Given up after each step that it may have taken.
    for steps in 1..60 {
        let mut keeping = Box::pin(keep(steps));
        for _ in 0..steps {
            if futures_util::poll!(&mut keeping).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_micros(50)).await;
        }
        drop(keeping);
    }
    // What was begun ends, however late.
    let begun = Instant::now();
    for n in 1..60 {
        let key = format!("sha256:{}", pictures::sha256(&picture(n)));
        while store.looks_begun(ws, &key).await.unwrap() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it looks as if the node had ended");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    keep(0).await.unwrap();
}
