//! What the board shows, what it never shows, and how little a change weighs.

use serde_json::{Value, json};

use super::{card, change};
use crate::http::tests::Server;

const LOST: &str = "Пропала собака! 12 ноября в Тюмени на улице Ямской убежала такса Буся, рыжая, в красном ошейнике. \
                    Телефон 8 901 000-00-11, Марина.";
const FOUND: &str = "Найдена такса, рыжая, в красном ошейнике, в Тюмени. Ищем хозяев!";

async fn get(server: &Server, path: &str) -> Value {
    let answer = server.ask("GET", path, &[], "").await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

async fn state(server: &Server, query: &str) -> Value {
    get(server, &format!("/board/state{query}")).await
}

/// The only entry of an object by id, or the one whose text begins so.
fn one<'a>(list: &'a Value, start: &str) -> (i64, &'a Value) {
    let found = list
        .as_object()
        .unwrap()
        .iter()
        .find(|(_, post)| post["text"].as_str().unwrap_or_default().starts_with(start));
    let (id, post) = found.unwrap_or_else(|| panic!("nothing begins with {start:?} in {list}"));
    (id.parse().unwrap(), post)
}

#[tokio::test]
async fn a_post_is_a_card_with_what_was_recognised_and_where_it_goes() {
    let server = Server::start(None).await;
    server.post(&[], &json!({"text": LOST, "origin_id": "1", "url": "https://site.example/1"})).await;
    server.post(&[], &json!({"text": "Доброе утро", "origin_id": "2", "date": 1_000_000})).await;
    let state = state(&server, "").await;
    let ((_, lost), (_, old)) = (one(&state["posts"], "Пропала"), one(&state["posts"], "Доброе"));
    assert_eq!((&lost["kind"], &lost["source"]), (&json!("lost"), &json!("push:сайт")));
    assert_eq!(
        (&lost["animal"], &lost["names"], &lost["phones"]),
        (&json!("dog"), &json!(["Буся"]), &json!(["…11"]))
    );
    assert!(lost["place"].as_str().unwrap().starts_with("Тюмень, ул"), "{lost}");
    assert!(lost["when"].as_str().unwrap() > "2000", "a post without a date was posted now: {lost}");
    assert_eq!((&lost["case"]["posts"], &lost["case"]["closed"]), (&json!(1), &json!(false)));
    assert_eq!(lost["went"], json!([0, 1, 0, 0]), "sent, waiting, failed, repeats");
    assert!(old["skipped"].as_str().unwrap().starts_with("too old"), "{old}");
    assert_eq!(state["moving"]["waiting"], json!([1]));
    let whole = state.to_string();
    assert!(!whole.contains("000-00-11") && !whole.contains("9010000011"), "{whole}");
    assert!(!whole.contains("token-of"), "{whole}");
}

#[tokio::test]
async fn a_channel_in_trouble_is_explained_with_what_helps() {
    let server = Server::start(None).await;
    let channel = server.store.channels(server.ws).await.unwrap().remove(0).channel_id;
    server.store.pause_channel(server.ws, channel, domain::time::Timestamp::NEVER, "ремонт").await.unwrap();
    let state = state(&server, "").await;
    assert_eq!(state["channels"][channel.to_string()]["state"], "paused");
    let trouble = &state["trouble"][format!("channel:{channel}/channel_waits")];
    assert_eq!(trouble["cause"], "an operator paused it: ремонт", "{state}");
    assert_eq!(trouble["help"], json!(["$ rupor channel resume канал"]));
    assert_eq!(trouble["weight"], "meant");
}

#[tokio::test]
async fn each_workspace_has_its_own_board() {
    let server = Server::start(None).await;
    server.store.create_workspace("shop").await.unwrap();
    server.post(&[], &json!({"text": LOST})).await;
    let shop = state(&server, "?workspace=shop").await;
    assert_eq!(
        (&shop["posts"], &shop["workspace"], &shop["channels"]),
        (&json!({}), &json!("shop"), &json!({}))
    );
    let (id, _) = one(&state(&server, "").await["posts"], "Пропала");
    for path in ["post", "case"] {
        let other = server.ask("GET", &format!("/board/{path}/{id}?workspace=shop"), &[], "").await;
        assert_eq!(other.status, 404, "{path}: what belongs to others is not there");
    }
    assert_eq!(server.ask("GET", "/board/state?workspace=nobody", &[], "").await.status, 404);
}

#[tokio::test]
async fn a_key_inside_the_address_of_a_feed_is_not_shown() {
    let server = Server::start(None).await;
    let address = "https://u:canary@feeds.example/rss?api_key=canary".to_owned();
    let new = store::NewSource {
        kind: "feed".into(),
        name: "лента".into(),
        address,
        account_id: None,
        settings: json!({}),
    };
    server.store.create_source(server.ws, new).await.unwrap();
    let whole = state(&server, "").await.to_string() + &get(&server, "/board/sources").await.to_string();
    assert!(whole.contains("https://***@feeds.example/rss?api_key=***"), "{whole}");
    assert!(!whole.contains("canary"), "{whole}");
}

#[tokio::test]
async fn a_post_to_forty_channels_changes_less_than_two_kilobytes() {
    let server = Server::start(None).await;
    for n in 1..40 {
        server
            .channel(server.ws, &format!("Канал номер {n} большого города"), &format!("-100123456{n:04}"))
            .await;
    }
    for n in 0..30 {
        let text = format!("Доброе утро, пост {n}");
        server.post(&[], &json!({"text": text, "origin_id": n.to_string(), "date": 1_000_000})).await;
    }
    let before = server.ask("GET", "/board/state", &[], "").await.json();
    server.post(&[], &json!({"text": LOST, "origin_id": "lost", "url": "https://site.example/a/rather/long/address/1"})).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let queued = state(&server, "").await;
    let told = change::change(&before, &queued).unwrap().to_string();
    assert_eq!(queued["moving"]["waiting"], json!(vec![1; 40]), "{told}");
    assert!(told.len() <= 2_000, "{} bytes for a post that waits: {told}", told.len());
    // All forty are sent within one second: every column moves.
    let claims = server.store.claim(store::ClaimRequest {
        whose: store::Whose::Workspace(server.ws),
        run_id: "board".into(),
        limit: 40,
        ahead: domain::time::Span::ZERO,
        lease: domain::time::Span::from_secs(60),
    });
    let claims = claims.await.unwrap().claims;
    let finished = claims.iter().map(|claim| store::Finish {
        claim: claim.reference(),
        ending: store::FinishKind::Outcome(domain::outcome::Outcome::Sent(domain::outcome::Sent {
            provider_message_id: Some("7".into()),
            raw: Value::Null,
        })),
        chance: domain::retry::Chance::NONE,
    });
    server.store.commit(finished.collect()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let sent = state(&server, "").await;
    let told = change::change(&queued, &sent).unwrap().to_string();
    let in_hours = sent["moving"]["sent"].as_array().unwrap().iter().filter(|n| **n == json!(1)).count();
    assert_eq!(
        (in_hours, one(&sent["posts"], "Пропала").1["went"].clone()),
        (40, json!([40, 0, 0, 0])),
        "{told}"
    );
    assert!(told.len() <= 2_000, "{} bytes for forty channels: {told}", told.len());
}

#[tokio::test]
async fn a_post_tells_its_story_and_what_was_left_out() {
    let server = Server::start(None).await;
    let long = format!("{LOST} {}", "Очень ласковая и умная собака, ждём домой. ".repeat(200));
    server.post(&[], &json!({"text": long, "origin_id": "1"})).await;
    let (id, _) = one(&state(&server, "").await["posts"], "Пропала");
    let post = get(&server, &format!("/board/post/{id}")).await;
    let channel = &post["channels"][0];
    assert_eq!((&channel["name"], &channel["deliveries"][0]["status"]), (&json!("канал"), &json!("queued")));
    assert!(
        channel["left_out"].to_string().contains("3500 of "),
        "the words that do not fit are told: {channel}"
    );
    let kind = post["evidence"].as_array().unwrap().iter().find(|fact| fact["fact"] == "kind").unwrap();
    assert_eq!(kind["value"], "lost");
    assert!(!post.to_string().contains("000-00-11") && !post.to_string().contains("9010000011"), "{post}");
    assert_eq!(server.ask("GET", "/board/post/424242", &[], "").await.status, 404);
}

#[tokio::test]
async fn posts_are_searched_and_filtered_page_by_page() {
    let server = Server::start(None).await;
    server.post(&[], &json!({"text": LOST, "origin_id": "lost"})).await;
    for n in 0..30 {
        server
            .post(&[], &json!({"text": format!("Доброе утро, пост {n}"), "origin_id": n.to_string()}))
            .await;
    }
    let count = |answer: &Value| answer["posts"].as_object().unwrap().len();
    let first = get(&server, "/board/posts").await;
    assert_eq!(count(&first), 24);
    let rest = get(&server, &format!("/board/posts?before={}", first["before"])).await;
    assert_eq!((count(&rest), &rest["before"]), (7, &Value::Null));
    let words = get(&server, "/board/posts?q=%D0%B1%D1%83%D1%81%D1%8F").await;
    assert_eq!((count(&words), one(&words["posts"], "Пропала").1["kind"].as_str()), (1, Some("lost")));
    assert_eq!(count(&get(&server, "/board/posts?kind=lost&status=waiting").await), 1);
    assert_eq!(count(&get(&server, "/board/posts?kind=lost&status=failed").await), 0);
    assert_eq!(
        count(&get(&server, "/board/posts?q=89010000011").await),
        1,
        "a whole number is known to who asks"
    );
    assert_eq!(count(&get(&server, "/board/posts?q=901000").await), 0, "and nobody finds one out by trying");
    assert_eq!(server.ask("GET", "/board/posts?status=nonsense", &[], "").await.status, 422);
}

#[tokio::test]
async fn lost_and_found_are_suggested_and_stay_two_cases() {
    let server = Server::start(None).await;
    server.post(&[], &json!({"text": LOST, "origin_id": "1"})).await;
    server.post(&[], &json!({"text": FOUND, "origin_id": "2"})).await;
    let told = get(&server, "/board/matches").await;
    let pair = &told["matches"][0];
    assert_eq!((&pair["lost"]["kind"], &pair["found"]["kind"]), (&json!("lost"), &json!("found")), "{told}");
    assert_ne!(pair["lost"]["about"]["id"], pair["found"]["about"]["id"], "never merged");
    let hints = pair["hints"].to_string();
    assert!(hints.contains("mark") && hints.contains("colour"), "{hints}");
    let case = get(&server, &format!("/board/case/{}", pair["lost"]["about"]["id"])).await;
    assert_eq!(
        (case["steps"].as_array().unwrap().len(), &case["steps"][0]["verdict"]),
        (1, &json!("new")),
        "{case}"
    );
}

#[tokio::test]
async fn a_picture_is_given_out_as_a_picture_and_nothing_else_is() {
    let server = Server::start(None).await;
    let keep = async |mime: &str, sha256: &str, origin: &str| {
        let (sha256, mime) = (sha256.repeat(64), mime.to_owned());
        let new = store::NewMedia {
            sha256: sha256.clone(),
            mime,
            bytes: "байты".into(),
            width: None,
            height: None,
            picture_hash: None,
            source_url: None,
        };
        server.store.put_media_origin(server.ws, new).await.unwrap();
        let payload = json!({"text": origin, "media": [{"kind": "photo", "blob": sha256}]});
        let message = store::NewMessage::new("push:сайт", origin, "hash", payload);
        server.store.enqueue(server.ws, vec![message]).await.unwrap().remove(0).message_id
    };
    let picture = keep("image/jpeg", "a", "1").await;
    let page = keep("text/html", "b", "2").await;
    let answer = server.ask("GET", &format!("/board/photo/{picture}/0"), &[], "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "байты"));
    assert!(
        answer.head.contains("content-type: image/jpeg") && answer.head.contains("nosniff"),
        "{}",
        answer.head
    );
    assert!(answer.head.contains("default-src 'none'; sandbox"), "{}", answer.head);
    for path in
        [format!("/board/photo/{page}/0"), format!("/board/photo/{picture}/1"), "/board/photo/99/0".into()]
    {
        assert_eq!(server.ask("GET", &path, &[], "").await.status, 404, "{path}");
    }
    let guarded = Server::start(Some(crate::http::tests::TOKEN)).await;
    let path = format!("/board/photo/{picture}/0");
    assert_eq!(guarded.ask("GET", &path, &[("Host", "board.example")], "").await.status, 401);
}

#[tokio::test]
async fn what_brought_two_posts_together_tells_no_number() {
    let server = Server::start(None).await;
    for id in ["1", "2"] {
        server.post(&[], &json!({"text": LOST, "origin_id": id})).await;
    }
    let (id, post) = state(&server, "").await["posts"]
        .as_object()
        .unwrap()
        .iter()
        .next_back()
        .map(|(id, post)| (id.clone(), post.clone()))
        .unwrap();
    let case = get(&server, &format!("/board/case/{}", post["case"]["id"])).await;
    let reasons = case["steps"][1]["reasons"].to_string();
    assert!(reasons.contains("phone"), "{case}");
    let whole = case.to_string() + &get(&server, &format!("/board/post/{id}")).await.to_string();
    assert!(!whole.contains("9010000011") && !whole.contains("000-00-11"), "{whole}");
}

#[test]
fn numbers_of_people_are_masked_and_other_numbers_are_not() {
    for (text, expected) in [
        ("тел. 8 901 000-00-11, Марина", "тел. • ••• •••-••-11, Марина"),
        ("+79010000011", "+•••••••••11"),
        ("8(901)0000011 и 89010000012", "•(•••)•••••11 и •••••••••12"),
        ("дом 12, кв. 5, 12.11.2026", "дом 12, кв. 5, 12.11.2026"),
        ("8.901.000.00.11", "•.•••.•••.••.11"),
        ("вознаграждение 50000", "вознаграждение 50000"),
        ("чип 643 и ошейник", "чип 643 и ошейник"),
    ] {
        assert_eq!(card::masked(text), expected);
    }
}

#[tokio::test]
async fn alerts_and_callbacks_are_told_and_no_posts() {
    let server = Server::start(None).await;
    let mut others = Vec::new();
    for (tier, source) in [(store::TIER_ALERTS, "alerts"), (store::TIER_CALLBACKS, "callbacks")] {
        let account = store::NewAccount {
            platform: "webhook".into(),
            name: format!("{tier}/webhook"),
            token: secrecy::SecretString::from(platforms::webhook::UNSIGNED),
            settings: store::AccountSettings { tier: tier.into(), ..Default::default() },
        };
        let account_id = server.store.create_account(server.ws, account).await.unwrap();
        let (name, target) = (format!("{tier}/webhook"), "https://site.example/hook".to_owned());
        let new = store::NewChannel { account_id, name, target, settings: Default::default() };
        let id = server.store.create_channel(server.ws, new).await.unwrap();
        let message = store::NewMessage {
            channels: vec![id],
            ..store::NewMessage::new(source, source, source, json!({"text": source}))
        };
        server.store.enqueue(server.ws, vec![message]).await.unwrap();
        others.push(id);
    }
    server.post(&[], &json!({"text": LOST, "origin_id": "1"})).await;
    server.store.disable_channel(server.ws, others[0], store::DisabledBy::Auto).await.unwrap();
    let state = state(&server, "").await;
    let channels: Vec<&Value> =
        state["channels"].as_object().unwrap().values().map(|one| &one["name"]).collect();
    assert_eq!(channels, ["канал"], "{state}");
    assert_eq!(state["posts"].as_object().unwrap().len(), 1, "{state}");
    let moving = state["moving"].as_object().unwrap().values().filter_map(Value::as_array);
    assert!(moving.into_iter().all(|column| column.len() == 1), "one channel in every column: {state}");
    assert_eq!(get(&server, "/board/posts").await["posts"].as_object().unwrap().len(), 1);
    let trouble = &state["trouble"][format!("channel:{}/channel_shut", others[0])];
    assert!(
        trouble["headline"].as_str().unwrap().contains("alerts/webhook"),
        "its trouble is shown: {state}"
    );
}
