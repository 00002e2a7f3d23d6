//! Config is rows: created, changed, listed, refused.

use domain::chat::{ChatKind, Overflow};
use domain::delivery::Status;
use domain::ids::{AccountId, ChannelId};
use domain::outcome::Scope;
use domain::time::{Span, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    a_workspace_name_is_taken_once,
    an_account_comes_back_as_it_was_set,
    a_token_is_sealed_and_opens_again,
    a_channel_comes_back_as_it_was_set,
    impossible_settings_are_refused,
    an_endpoint_is_found_by_its_secret_alone,
    a_door_gets_a_new_secret_and_the_old_one_opens_nothing,
    a_replaced_secret_opens_its_door_for_a_while_and_never_comes_back,
    the_replaced_secret_of_one_door_is_nobody_elses,
    what_an_operator_changes_names_the_operator_and_the_reason,
    an_address_with_a_password_is_sealed_and_never_shown,
    the_address_of_a_feed_with_a_key_is_sealed_and_read_whole,
    after_a_rotation_of_the_key_everything_opens_and_budgets_stay_shared,
    the_kill_switch_of_everything_leaves_an_event_in_every_workspace,
    every_change_leaves_an_event,
    a_renamed_channel_keeps_its_queue_and_what_it_said,
    a_corrected_chat_gets_what_waits_and_what_the_wrong_one_refused,
    a_channel_goes_on_with_another_account,
}

/// What becomes of the same words from another source.
async fn copy(w: &World, text: &str, channels: &[ChannelId]) -> Status {
    let origin_id = format!("{text}, копия");
    let enqueued = w.enqueue(vec![NewMessage { origin_id, ..message(text, channels) }]).await.remove(0);
    enqueued.deliveries[0].status
}

async fn a_renamed_channel_keeps_its_queue_and_what_it_said(w: &World) {
    let channels = w.channels(2).await;
    w.post("раз", &channels[..1]).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    w.post("два", &channels[..1]).await;
    w.store.rename_channel(w.ws, channels[0], "новое имя").await.unwrap();
    let rows = w.store.channels(w.ws).await.unwrap();
    assert_eq!(rows[0].name, "новое имя");
    let taken = w.store.rename_channel(w.ws, channels[1], "новое имя").await.unwrap_err();
    assert!(matches!(taken, StoreError::Exists { .. }), "{taken}");
    assert_eq!(copy(w, "раз", &channels[..1]).await, Status::Deduped, "it was said here");
    assert_eq!(w.claim(10).await.len(), 1, "what waited still waits");
    let nobody = w.store.rename_channel(w.ws, ChannelId(9_999), "x").await.unwrap_err();
    assert!(matches!(nobody, StoreError::NotFound { .. }), "{nobody}");
}

async fn a_corrected_chat_gets_what_waits_and_what_the_wrong_one_refused(w: &World) {
    let channels = w.channels(1).await;
    w.post("сказано", &channels).await;
    let said = w.claim_one().await;
    w.sent(&said).await;
    // The chat is wrong from here on: refused three times, the channel is shut.
    for text in ["раз", "два", "три"] {
        w.post(text, &channels).await;
        let claim = w.claim_one().await;
        w.fail(&claim, permanent(Scope::Channel)).await;
        w.advance(Span::from_secs(3_600)).await;
    }
    w.post("ждёт", &channels).await;
    assert!(w.claim(10).await.is_empty(), "it is shut");
    let again = w.store.retarget_channel(w.ws, channels[0], "-100777").await.unwrap();
    assert_eq!(again.len(), 3);
    let row = w.store.channels(w.ws).await.unwrap().remove(0);
    assert_eq!((row.target.as_str(), row.enabled, row.error_streak), ("-100777", true, 0));
    assert_eq!(row.target_since, w.now().await);
    let mut sent = 0;
    while let Some(claim) = w.claim(1).await.pop() {
        w.sent(&claim).await;
        sent += 1;
        w.advance(Span::from_secs(60)).await;
    }
    assert_eq!(sent, 4, "what waited and what was refused");
    assert_eq!(copy(w, "раз", &channels).await, Status::Deduped, "said in the new chat");
    assert_eq!(copy(w, "сказано", &channels).await, Status::Queued, "said in the old one only");
    let nobody = w.store.retarget_channel(w.ws, ChannelId(9_999), "x").await.unwrap_err();
    assert!(matches!(nobody, StoreError::NotFound { .. }), "{nobody}");
}

async fn a_channel_goes_on_with_another_account(w: &World) {
    let channels = w.channels(1).await;
    w.post("сказано", &channels).await;
    let said = w.claim_one().await;
    w.sent(&said).await;
    w.advance(Span::from_secs(60)).await;
    w.post("не вышло", &channels).await;
    let failed = w.claim_one().await;
    w.fail(&failed, transient(Scope::Delivery)).await;
    w.post("ждёт", &channels).await;
    let other = w.account_with(AccountSettings::default()).await;
    let before = w.store.channels(w.ws).await.unwrap().remove(0);
    let moved = w.store.move_channel(w.ws, channels[0], other, &before.target).await.unwrap();
    let after = w.store.channels(w.ws).await.unwrap();
    assert_eq!(after.len(), 1);
    assert_eq!((after[0].channel_id, after[0].account_id), (moved, other));
    assert_eq!((&after[0].name, &after[0].settings), (&before.name, &before.settings));
    assert_eq!(copy(w, "сказано", &[moved]).await, Status::Deduped, "it was said in this chat");
    assert_eq!(copy(w, "ждёт", &[moved]).await, Status::Deduped, "it is on its way there");
    let mut sent = Vec::new();
    while let Some(claim) = w.claim(1).await.pop() {
        assert_eq!(claim.account_id, other);
        w.sent(&claim).await;
        sent.push(claim.delivery_id);
        w.advance(Span::from_secs(60)).await;
    }
    assert_eq!(sent.len(), 2, "what waited and what was to be tried again, each once");
    assert_eq!(sent[0], failed.delivery_id, "the same deliveries, in their order");
    // In another chat nothing was said yet.
    w.post("третье", &[moved]).await;
    let again = w.store.move_channel(w.ws, moved, w.account().await, "-100888").await.unwrap();
    let third = NewMessage {
        origin_id: "сказано, ещё копия".into(), ..message("сказано", &[again])
    };
    assert_eq!(w.enqueue(vec![third]).await[0].deliveries[0].status, Status::Queued);
    assert_eq!(copy(w, "третье", &[again]).await, Status::Deduped, "it waits for the new chat");
    let gone = w.store.move_channel(w.ws, channels[0], other, "x").await.unwrap_err();
    assert!(matches!(gone, StoreError::NotFound { .. }), "{gone}");
    let nobody = w.store.move_channel(w.ws, again, AccountId(9_999), "x").await.unwrap_err();
    assert!(matches!(nobody, StoreError::NotFound { .. }), "{nobody}");
}

async fn a_workspace_name_is_taken_once(w: &World) {
    let refused = w.store.create_workspace("приют").await.unwrap_err();
    assert!(refused.to_string().contains("приют"), "{refused}");
    for bad in ["", "  ", &"ы".repeat(201)] {
        assert!(matches!(w.store.create_workspace(bad).await, Err(StoreError::Invalid { .. })));
    }
    assert_eq!(w.store.workspaces().await.unwrap().len(), 1);
}

async fn an_account_comes_back_as_it_was_set(w: &World) {
    let settings = AccountSettings {
        kind: "community".into(),
        tier: "paid".into(),
        rate: Some(2.5),
        burst: 3,
        max_parallel: 4,
        retry_parallel: 1,
        api_base: Some("http://127.0.0.1:7900/vk".into()),
        proxy: Some("socks5://127.0.0.1:1080".into()),
        extra_roots: Some("корни.pem".into()),
        settings: json!({"язык": "ru"}),
    };
    let id = w.account_with(settings.clone()).await;
    let accounts = w.store.accounts(w.ws).await.unwrap();
    assert_eq!(accounts[0].settings, settings);
    let changed = AccountSettings { rate: None, burst: 1, ..settings };
    w.store.change_account(w.ws, id, changed.clone()).await.unwrap();
    assert_eq!(w.store.accounts(w.ws).await.unwrap()[0].settings, changed);
}

async fn a_token_is_sealed_and_opens_again(w: &World) {
    let id = w.account().await;
    let token = || async { w.store.account_token(w.ws, id).await.unwrap().expose_secret().to_owned() };
    assert_eq!(token().await, format!("{}:0:токен", w.ws));
    let before = w.store.accounts(w.ws).await.unwrap()[0].fingerprint.clone();
    w.store.set_account_token(w.ws, id, SecretString::from("новый")).await.unwrap();
    assert_eq!(token().await, "новый");
    assert_ne!(w.store.accounts(w.ws).await.unwrap()[0].fingerprint, before);
    let empty = w.store.set_account_token(w.ws, id, SecretString::from(" ")).await.unwrap_err();
    assert!(empty.to_string().contains("token is empty"), "{empty}");
    let printed = format!("{:?} {:?}", w.store, w.store.accounts(w.ws).await.unwrap());
    assert!(!printed.contains("новый"));
}

async fn a_channel_comes_back_as_it_was_set(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings {
        chat_kind: ChatKind::Group,
        rate: Some(0.333),
        max_parallel: 3,
        ambiguity: domain::delivery::AmbiguityPolicy::Hold,
        dedup: DedupMode::Case,
        dedup_ttl: domain::limits::DEDUP_TTL_PETS,
        max_age: Some(Span::from_hours(5)),
        template: Some("{{ text }} — «ёлки»".into()),
        parse_mode: Some("HTML".into()),
        body_max: 900,
        overflow: Overflow::Split,
        max_media: 4,
        route: Some("kind:lost".into()),
        quiet_hours: Some("23:00-07:00".into()),
        time_zone: Some("Asia/Yekaterinburg".into()),
        settings: json!({"silent": true}),
    };
    let id = w.channel_with(account, settings.clone()).await;
    let channel = &w.store.channels(w.ws).await.unwrap()[0];
    assert_eq!(
        (channel.channel_id, &channel.settings, channel.platform.as_str()),
        (id, &settings, "telegram")
    );
    assert_eq!((channel.enabled, channel.error_streak, channel.paused_until <= START), (true, 0, true));
    w.store.pause_channel(w.ws, id, Timestamp::NEVER, "ремонт").await.unwrap();
    let channel = &w.store.channels(w.ws).await.unwrap()[0];
    assert_eq!((channel.paused_until, channel.paused_why.as_deref()), (Timestamp::NEVER, Some("ремонт")));
    let changed = ChannelSettings { max_age: None, template: None, rate: None, ..settings };
    w.store.change_channel(w.ws, id, changed.clone()).await.unwrap();
    assert_eq!(w.store.channels(w.ws).await.unwrap()[0].settings, changed);
}

async fn impossible_settings_are_refused(w: &World) {
    let account = w.account().await;
    let good = ChannelSettings::default;
    for settings in [
        ChannelSettings { rate: Some(0.0), ..good() },
        ChannelSettings { rate: Some(f64::NAN), ..good() },
        ChannelSettings { max_parallel: 0, ..good() },
        ChannelSettings { dedup_ttl: Span(-1), ..good() },
        ChannelSettings { max_age: Some(Span::ZERO), ..good() },
        ChannelSettings { body_max: 0, ..good() },
        ChannelSettings { max_media: -1, ..good() },
    ] {
        let new = NewChannel { account_id: account, name: "к".into(), target: "@к".into(), settings };
        let refused = w.store.create_channel(w.ws, new).await;
        assert!(matches!(refused, Err(StoreError::Invalid { what: "channel", .. })), "{refused:?}");
    }
    for (name, target) in [("канал", " "), ("канал", "")] {
        let new =
            NewChannel { account_id: account, name: name.into(), target: target.into(), settings: good() };
        assert!(w.store.create_channel(w.ws, new).await.is_err());
    }
    w.channel(account).await;
    let twice =
        NewChannel {
            account_id: account, name: "канал 0".into(), target: "@к".into(), settings: good()
        };
    let refused = w.store.create_channel(w.ws, twice).await.unwrap_err();
    assert!(matches!(refused, StoreError::Exists { what: "channel", .. }), "{refused}");
    let infinite = AccountSettings { rate: Some(f64::INFINITY), ..AccountSettings::default() };
    assert!(w.store.change_account(w.ws, account, infinite).await.is_err());
}

async fn an_endpoint_is_found_by_its_secret_alone(w: &World) {
    let endpoint = |name: &str, secret: &str| NewEndpoint {
        name: name.into(),
        kind: "push".into(),
        secret: SecretString::from(secret),
        settings: json!({"rate": 5}),
    };
    let id = w.store.create_endpoint(w.ws, endpoint("сайт", "очень длинный секрет")).await.unwrap();
    let find = |secret: &str| {
        let secret = SecretString::from(secret);
        async move { w.store.endpoint_by_secret(&secret).await.unwrap() }
    };
    let found = find("очень длинный секрет").await.unwrap();
    assert_eq!((found.endpoint_id, found.workspace_id, found.name.as_str()), (id, w.ws, "сайт"));
    assert_eq!(find("очень длинный секре").await, None);
    assert_eq!(find("").await, None);
    assert!(w.store.create_endpoint(w.ws, endpoint("другой", "очень длинный секрет")).await.is_err());
    assert!(w.store.create_endpoint(w.ws, endpoint("сайт", "другой секрет")).await.is_err());
    w.store.enable_endpoint(w.ws, id, false).await.unwrap();
    assert_eq!(find("очень длинный секрет").await, None);
    assert_eq!(w.store.endpoints(w.ws).await.unwrap().len(), 1);
}

async fn every_change_leaves_an_event(w: &World) {
    let channels = w.channels(1).await;
    w.store.pause_channel(w.ws, channels[0], Timestamp::NEVER, "тест").await.unwrap();
    w.store.resume_channel(w.ws, channels[0]).await.unwrap();
    w.store.disable_channel(w.ws, channels[0], DisabledBy::Operator).await.unwrap();
    w.store.remove_channel(w.ws, channels[0]).await.unwrap();
    let names = w.event_names().await;
    assert_eq!(names, ["channel_paused", "channel_resumed", "channel_disabled", "channel_removed"]);
    let all = w.store.events(w.ws, 0, 100).await.unwrap();
    assert_eq!(all.iter().filter(|event| event.name == "config_changed").count(), 2);
    let page = w.store.events(w.ws, all[2].event_id, 2).await.unwrap();
    assert_eq!(page, all[3..5]);
    let newest: Vec<Event> = all.iter().rev().take(2).cloned().collect();
    assert_eq!(w.store.recent_events(w.ws, 2).await.unwrap(), newest);
}

async fn a_door_gets_a_new_secret_and_the_old_one_opens_nothing(w: &World) {
    let door = async |name: &str, secret: &str| {
        let secret = SecretString::from(secret);
        let new =
            NewEndpoint { name: name.into(), kind: "push".into(), secret, settings: json!({"rate": 1}) };
        w.store.create_endpoint(w.ws, new).await.unwrap()
    };
    let (site, other) = (door("сайт", "старый секрет").await, door("другой", "чужой секрет").await);
    let secret = |text: &str| SecretString::from(text);
    w.store
        .change_endpoint(w.ws, site, &secret("новый секрет"), json!({"rate": 2}), Span::ZERO)
        .await
        .unwrap();
    assert!(w.store.endpoint_by_secret(&secret("старый секрет")).await.unwrap().is_none());
    let found = w.store.endpoint_by_secret(&secret("новый секрет")).await.unwrap().unwrap();
    assert_eq!((found.endpoint_id, found.settings), (site, json!({"rate": 2})));
    let taken = w.store.change_endpoint(w.ws, site, &secret("чужой секрет"), json!({}), Span::ZERO).await;
    let taken = taken.unwrap_err();
    assert!(matches!(taken, StoreError::Exists { .. }), "{taken}");
    assert!(!taken.to_string().contains("чужой"), "{taken}");
    w.store.enable_endpoint(w.ws, site, false).await.unwrap();
    let opens = async |id, text: &str| w.store.endpoint_opens(w.ws, id, &secret(text)).await.unwrap();
    assert!(opens(site, "новый секрет").await && opens(other, "чужой секрет").await);
    assert!(!opens(site, "чужой секрет").await && !opens(site, "старый секрет").await);
}

async fn the_kill_switch_of_everything_leaves_an_event_in_every_workspace(w: &World) {
    let other = w.another_workspace("другие").await;
    w.store.hold_all(Some("учения")).await.unwrap();
    w.store.hold_all(None).await.unwrap();
    for world in [w, &other] {
        assert_eq!(world.event_names().await, ["held", "released"]);
        let events = world.store.events(world.ws, 0, 100).await.unwrap();
        let held = events.iter().find(|event| event.name == "held").unwrap();
        assert_eq!(held.detail, json!({"everything": true, "why": "учения"}));
    }
}

async fn a_replaced_secret_opens_its_door_for_a_while_and_never_comes_back(w: &World) {
    let secret = |text: &str| SecretString::from(text);
    let new = NewEndpoint {
        name: "сайт".into(),
        kind: "push".into(),
        secret: secret("первый"),
        settings: json!({}),
    };
    let id = w.store.create_endpoint(w.ws, new).await.unwrap();
    let opens = async |text: &str| w.store.endpoint_by_secret(&secret(text)).await.unwrap().is_some();
    let change = async |text: &str, overlap: i64| {
        w.store.change_endpoint(w.ws, id, &secret(text), json!({}), Span::from_secs(overlap)).await
    };
    change("второй", 60).await.unwrap();
    assert!(opens("первый").await && opens("второй").await);
    assert!(w.store.endpoint_opens(w.ws, id, &secret("первый")).await.unwrap());
    // The same secret again ends no overlap.
    change("второй", 0).await.unwrap();
    assert!(opens("первый").await);
    w.seconds(61).await;
    assert!(!opens("первый").await && opens("второй").await);
    let refused = change("первый", 60).await.unwrap_err().to_string();
    assert!(refused.contains("replaced by a newer one"), "{refused}");
    // At most one old secret opens a door.
    change("третий", 60).await.unwrap();
    change("четвёртый", 60).await.unwrap();
    assert!(!opens("второй").await && opens("третий").await && opens("четвёртый").await);
}

async fn the_replaced_secret_of_one_door_is_nobody_elses(w: &World) {
    let other = w.another_workspace("другие").await;
    let secret = |text: &str| SecretString::from(text);
    let door = async |world: &World, name: &str, text: &str| {
        let new =
            NewEndpoint { name: name.into(), kind: "push".into(), secret: secret(text), settings: json!({}) };
        world.store.create_endpoint(world.ws, new).await
    };
    let site = door(w, "сайт", "первый").await.unwrap();
    let shop = door(&other, "лавка", "свой").await.unwrap();
    let overlap = Span::from_secs(60);
    w.store.change_endpoint(w.ws, site, &secret("второй"), json!({}), overlap).await.unwrap();
    // While it still opens the first door, and for ever after.
    for _ in 0..2 {
        for text in ["первый", "второй"] {
            let made = door(&other, "новая", text).await.unwrap_err();
            assert!(matches!(made, StoreError::Exists { .. }), "{made}");
            let changed = other
                .store
                .change_endpoint(other.ws, shop, &secret(text), json!({}), overlap)
                .await
                .unwrap_err();
            assert!(matches!(changed, StoreError::Exists { .. }), "{changed}");
            assert!(
                ![&made, &changed].iter().any(|said| said.to_string().contains(text)),
                "{made} {changed}"
            );
        }
        let found = w.store.endpoint_by_secret(&secret("второй")).await.unwrap().unwrap();
        assert_eq!((found.workspace_id, found.endpoint_id), (w.ws, site));
        w.seconds(61).await;
    }
    assert!(w.store.endpoint_by_secret(&secret("первый")).await.unwrap().is_none());
}

async fn what_an_operator_changes_names_the_operator_and_the_reason(w: &World) {
    let channels = w.channels(1).await;
    let reason = Some("it's \\ 'учения'\n; DROP TABLE events".to_owned());
    let store = w.store.by(Actor { who: "user анна (uid 1000)".into(), reason: reason.clone() });
    let first = w.store.recent_events(w.ws, 1).await.unwrap()[0].event_id;
    store.hold_all(Some("стоп")).await.unwrap();
    store.hold_all(None).await.unwrap();
    store.hold_workspace(w.ws, true).await.unwrap();
    store.hold_workspace(w.ws, false).await.unwrap();
    let account = w.store.accounts(w.ws).await.unwrap()[0].account_id;
    store.pause_account(w.ws, account, "проверка").await.unwrap();
    store.resume_account(w.ws, account).await.unwrap();
    store.change_account(w.ws, account, AccountSettings::default()).await.unwrap();
    store.pause_channel(w.ws, channels[0], Timestamp::NEVER, "тест").await.unwrap();
    store.resume_channel(w.ws, channels[0]).await.unwrap();
    store.disable_channel(w.ws, channels[0], DisabledBy::Operator).await.unwrap();
    store.remove_channel(w.ws, channels[0]).await.unwrap();
    let told = w.store.events(w.ws, first, 100).await.unwrap();
    assert!(told.len() >= 11, "{told:?}");
    for event in &told {
        assert_eq!(event.detail["by"], "user анна (uid 1000)", "{event:?}");
        assert_eq!(event.detail["reason"].as_str(), reason.as_deref(), "{event:?}");
    }
    assert_eq!(told[0].detail["why"], "стоп");
    // What nobody asked for names nobody.
    w.store.hold_workspace(w.ws, true).await.unwrap();
    let last = &w.store.recent_events(w.ws, 1).await.unwrap()[0];
    assert_eq!(last.detail, json!({}), "{last:?}");
}

const PROXY: &str = "socks5://анна:canary-password@10.0.0.1:1080";
const API_BASE: &str = "https://bot:canary-base@api.example/telegram";

fn behind_a_proxy() -> AccountSettings {
    AccountSettings {
        proxy: Some(PROXY.into()),
        api_base: Some(API_BASE.into()),
        ..AccountSettings::default()
    }
}

async fn an_address_with_a_password_is_sealed_and_never_shown(w: &World) {
    let id = w.account_with(behind_a_proxy()).await;
    let read = async || w.store.accounts(w.ws).await.unwrap().remove(0);
    let row = read().await;
    assert_eq!(row.settings, behind_a_proxy());
    assert_eq!(row.settings.proxy.as_ref().unwrap().expose(), PROXY);
    let seen = format!("{row:?} {}", json!(row));
    assert!(!seen.contains("canary") && seen.contains("***@10.0.0.1:1080"), "{seen}");
    let other = AccountSettings { proxy: Some("http://u:canary-2@10.0.0.2:80".into()), ..behind_a_proxy() };
    w.store.change_account(w.ws, id, other.clone()).await.unwrap();
    assert_eq!(read().await.settings, other);
    let open = AccountSettings { proxy: Some("http://10.0.0.2:80".into()), ..AccountSettings::default() };
    w.store.change_account(w.ws, id, open.clone()).await.unwrap();
    assert_eq!(read().await.settings, open, "nothing sealed stays behind");
}

const FEED: &str = "https://u:canary-3@feed.example/rss?api_key=canary-4&city=omsk";

fn feed(name: &str, address: &str) -> NewSource {
    let (kind, name, address) = ("feed".to_owned(), name.to_owned(), address.to_owned());
    NewSource { kind, name, address, account_id: None, settings: json!({}) }
}

async fn the_address_of_a_feed_with_a_key_is_sealed_and_read_whole(w: &World) {
    let id = w.store.create_source(w.ws, feed("лента", FEED)).await.unwrap();
    let taken = w.store.create_source(w.ws, feed("лента", FEED)).await.unwrap_err();
    assert!(matches!(taken, StoreError::Exists { .. }), "{taken}");
    let read = async || w.store.sources(w.ws).await.unwrap().remove(0).address;
    assert_eq!(read().await, FEED);
    let seats = Seats { all: 5, failing: 5 };
    let due = w.store.due_sources("узел", seats, Span::from_secs(1)).await.unwrap();
    assert_eq!(due[0].address, FEED, "who reads it gets it whole");
    let other = "https://feed.example/rss?token=canary-5";
    for address in [other, "https://feed.example/rss", "public123456789012345"] {
        w.store.change_source(w.ws, id, feed("лента", address)).await.unwrap();
        assert_eq!(read().await, address, "nothing sealed stays behind");
    }
    w.store.change_source(w.ws, id, feed("лента", FEED)).await.unwrap();
    let gone = w.store.change_source(w.ws, domain::ids::SourceId(404), feed("нет", FEED)).await.unwrap_err();
    assert!(matches!(gone, StoreError::NotFound { .. }), "{gone}");
}

async fn after_a_rotation_of_the_key_everything_opens_and_budgets_stay_shared(w: &World) {
    let other = w.another_workspace("другие").await;
    let account = async |world: &World, name: &str| {
        let token = SecretString::from("1:общий токен");
        let new = NewAccount { platform: "vk".into(), name: name.into(), token, settings: behind_a_proxy() };
        world.store.create_account(world.ws, new).await.unwrap()
    };
    let (first, second) = (account(w, "раз").await, account(&other, "два").await);
    let feed = w.store.create_source(w.ws, feed("лента", FEED)).await.unwrap();
    let before = w.store.accounts(w.ws).await.unwrap().remove(0);
    let store = w.store.by(Actor { who: "user анна (uid 1000)".into(), reason: None });
    assert_eq!(store.rotate_key().await.unwrap(), 2);
    assert_eq!(store.rotate_key().await.unwrap(), 2, "and again");
    let third = account(w, "три").await;
    let mut prints = std::collections::BTreeSet::new();
    for (world, id) in [(w, first), (&other, second), (w, third)] {
        assert_eq!(world.store.account_token(world.ws, id).await.unwrap().expose_secret(), "1:общий токен");
        let rows = world.store.accounts(world.ws).await.unwrap();
        let row = rows.into_iter().find(|row| row.account_id == id).unwrap();
        assert_eq!(row.settings, behind_a_proxy());
        prints.insert(row.fingerprint);
    }
    let source = w.store.sources(w.ws).await.unwrap().into_iter().find(|source| source.source_id == feed);
    assert_eq!(source.unwrap().address, FEED);
    assert_eq!(prints.len(), 1, "one token, one budget");
    assert!(!prints.contains(&before.fingerprint), "the fingerprint belongs to the key");
    let told = w.store.events(w.ws, 0, 100).await.unwrap();
    let told: Vec<&Event> = told.iter().filter(|event| event.detail["key"] == "rotated").collect();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0].detail["by"], "user анна (uid 1000)");
}
