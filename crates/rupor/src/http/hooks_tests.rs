//! The door for platforms: the secret first, then the disk, then the answer.

use domain::ids::AccountId;
use domain::time::Span;
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{AccountSettings, BOT_WAITING_MAX, NewAccount, NewBot, Receive, Update, UpdateOf};

use super::tests::Server;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

async fn bot(server: &Server, platform: &str, key: &str, settings: Value) -> AccountId {
    let token = SecretString::from("42:token");
    let new = NewAccount {
        platform: platform.into(),
        name: platform.into(),
        token,
        settings: AccountSettings::default(),
    };
    let account = server.store.create_account(server.ws, new).await.unwrap();
    let new = NewBot {
        name: platform.into(),
        accounts: vec![account],
        receive: Receive::Webhook,
        operators: None,
        services: Default::default(),
    };
    server.store.put_bot(server.ws, new).await.unwrap();
    let hash = platforms::secret::sha256(SECRET.as_bytes());
    server.store.set_bot_hook(server.ws, account, key, Some(&hash), settings).await.unwrap();
    account
}

fn message(id: i64) -> String {
    json!({"update_id": id, "message": {"message_id": id, "date": 5, "chat": {"id": 70, "type": "private"},
        "from": {"id": 70, "first_name": "Анна"}, "text": "привет"}})
    .to_string()
}

const HEADER: &str = "X-Telegram-Bot-Api-Secret-Token";

#[tokio::test]
async fn a_call_with_the_secret_is_stored_before_it_is_answered_and_counts_once() {
    let server = Server::start(None).await;
    bot(&server, "telegram", "k1", json!({})).await;
    for _ in 0..3 {
        let answer = server.ask("POST", "/hooks/telegram/k1", &[(HEADER, SECRET)], &message(1)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let turns = server.store.bot_claim_turns(10, Span::from_secs(10)).await.unwrap();
    assert_eq!((turns.len(), turns[0].events.len()), (1, 1));
    assert_eq!(turns[0].events[0].body["text"], "привет");
}

#[tokio::test]
async fn a_wrong_secret_and_a_wrong_address_sound_alike_and_nothing_is_stored() {
    let server = Server::start(None).await;
    bot(&server, "telegram", "k1", json!({})).await;
    for (path, secret) in [
        ("/hooks/telegram/k1", Some("wrong")),
        ("/hooks/telegram/k1", None),
        ("/hooks/telegram/k2", Some(SECRET)),
        ("/hooks/icq/k1", Some(SECRET)),
    ] {
        let headers: Vec<(&str, &str)> = secret.map(|secret| (HEADER, secret)).into_iter().collect();
        let answer = server.ask("POST", path, &headers, &message(1)).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{path} {secret:?}");
    }
    assert!(server.store.bot_claim_turns(10, Span::from_secs(10)).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_no_update_is_refused_and_another_method_too() {
    let server = Server::start(None).await;
    bot(&server, "telegram", "k1", json!({})).await;
    for body in ["", "[]", "{", "{\"message\": {}}"] {
        let answer = server.ask("POST", "/hooks/telegram/k1", &[(HEADER, SECRET)], body).await;
        assert_eq!(answer.status, 400, "{body}");
    }
    assert_eq!(server.ask("GET", "/hooks/telegram/k1", &[(HEADER, SECRET)], "").await.status, 405);
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(server.ask("POST", "/hooks/telegram/k1", &[(HEADER, SECRET)], &large).await.status, 413);
}

#[tokio::test]
async fn a_community_is_confirmed_and_its_events_carry_their_secret_inside() {
    let server = Server::start(None).await;
    bot(&server, "vk", "k1", json!({"confirmation": "code7", "group_id": 5})).await;
    let ask = async |body: Value| server.ask("POST", "/hooks/vk/k1", &[], &body.to_string()).await;
    let confirmed = ask(json!({"type": "confirmation", "group_id": 5})).await;
    assert_eq!((confirmed.status, confirmed.body.as_str()), (200, "code7"));
    let event = |secret: &str| {
        json!({"type": "message_new", "group_id": 5, "event_id": "e1", "secret": secret,
            "object": {"message": {"id": 1, "peer_id": 70, "from_id": 70, "text": "привет", "date": 5}}})
    };
    assert_eq!(ask(event("wrong")).await.status, 401);
    let taken = ask(event(SECRET)).await;
    assert_eq!((taken.status, taken.body.as_str()), (200, "ok"));
    assert_eq!(server.store.bot_claim_turns(10, Span::from_secs(10)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_platform_is_told_to_come_again_when_too_much_waits() {
    let server = Server::start(None).await;
    let account = bot(&server, "telegram", "k1", json!({})).await;
    let waits = |n: i64| Update {
        key: format!("d{n}"),
        kind: "decision".into(),
        at: None,
        body: json!({}),
        of: UpdateOf::Decision,
    };
    let all = (0..BOT_WAITING_MAX).map(waits).collect();
    server.store.bot_receive(server.ws, account, all, None).await.unwrap();
    let answer = server.ask("POST", "/hooks/telegram/k1", &[(HEADER, SECRET)], &message(1)).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.head.to_lowercase().contains("retry-after: 5"), "{answer:?}");
}
