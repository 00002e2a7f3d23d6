//! What another orchestrator asks between its steps, over real sockets.

use std::time::Duration;

use domain::delivery::Status;
use domain::time::Span;
use sandbox::{Name, Sandbox};
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{
    AccountSettings, Address, ApiScope, Channel, ChannelSettings, ClaimRequest, Clock, Keyring, NewAccount,
    NewChannel, NewMessage, PrivateUrl, Store, Whose,
};

use super::asked_tests::{ask, token};
use crate::http::tests::Server;

const LOST: &str = "Пропала собака, такса Буся, рыжая, Тюмень, улица Ямская. Телефон 8 901 000-00-11";

async fn post(server: &Server, token: &str, path: &str, body: Value) -> (u16, Value) {
    let answer = ask(server, token, "POST", path, &body.to_string()).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn posts_are_read_for_others_and_nothing_is_stored() {
    let server = Server::start(None).await;
    let adapter = token(&server, server.ws, "адаптер", &[ApiScope::Adapter]).await;
    let reader = token(&server, server.ws, "читатель", &[ApiScope::Read]).await;
    let jpeg = platforms::base64::encode(&sandbox::pictures::Pictures::new(7).jpeg("такса"));
    let (_, kept) =
        post(&server, &adapter, "/v1/media", json!({"workspace_id": server.ws, "data": jpeg})).await;
    let blob = kept["blob_ref"].as_str().unwrap();
    let ask_for = |blob: &str| {
        json!({"workspace_id": server.ws.0.to_string(), "source": "push:сайт", "base": "b",
               "body": {"posts": [{"text": LOST, "blobs": [blob]}, {"text": "Нашлась кошка", "origin_id": "7"}]}})
    };
    let (status, answer) = post(&server, &adapter, "/v1/analyse", ask_for(blob)).await;
    assert_eq!(status, 200, "{answer}");
    let items = answer["items"].as_array().unwrap();
    assert_eq!((items[0]["origin_id"].as_str(), items[1]["origin_id"].as_str()), (Some("b-0"), Some("7")));
    assert_eq!(
        (items[0]["kind"].as_str(), items[0]["channels"].as_array().map(Vec::len)),
        (Some("lost"), Some(1))
    );
    assert_eq!(items[0]["payload"]["media"][0]["blob"], blob);
    assert!(items[0]["content_hash"].is_string() && items[0]["fingerprint"].is_string());
    assert_eq!(post(&server, &adapter, "/v1/analyse", ask_for(blob)).await.1, answer, "the same again");
    assert_eq!(server.messages().await, 0);
    assert_eq!(post(&server, &adapter, "/v1/analyse", ask_for("нет")).await.0, 422);
    assert_eq!(post(&server, &adapter, "/v1/analyse", json!({"posts": []})).await.0, 400);
    assert_eq!(post(&server, &reader, "/v1/analyse", ask_for(blob)).await.0, 403);
    let told = json!({"platform": "max", "key": "нет", "body": {}});
    assert_eq!(post(&server, &adapter, "/v1/bot/read", told).await.1["error"]["code"], "refused");
    // Nobody but its own node can claim from a file.
    let claim = json!({"workspace_id": 1, "delivery_id": 1, "claim_token": uuid::Uuid::new_v4()});
    let (status, answer) = post(&server, &adapter, "/v1/adapter/send", claim).await;
    assert_eq!(status, 422);
    assert!(answer["detail"].as_str().unwrap().contains("only PostgreSQL"), "{answer}");
}

/// A database of its own on the server of the tests.
async fn with_postgres<F: Future<Output = ()>>(test: impl FnOnce(Store) -> F) {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let name = format!("rupor_adapter_{}", uuid::Uuid::new_v4().simple());
    let Address::Postgres(admin) = Address::parse(&server).unwrap() else { panic!("{server}") };
    let admin = store::postgres::bare_connection(&admin).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (head, _) = server.rsplit_once('/').unwrap();
    let address = Address::parse(&format!("{head}/{name}")).unwrap();
    Store::migrate(&address).await.unwrap();
    test(Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap()).await;
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_sent_once_its_parts_are_kept_and_nothing_is_committed() {
    with_postgres(async |store| {
        let server = Server::of(store.clone(), None, Duration::from_secs(30)).await;
        let sandbox = Sandbox::start(sandbox::Options { any_token: true, ..sandbox::Options::default() }).await.unwrap();
        // In another workspace than the token's: an adapter spans them.
        let ws = store.create_workspace("соседи").await.unwrap();
        let api_base = Some(PrivateUrl::from(sandbox.base(Name::Telegram)));
        let account = NewAccount {
            platform: "telegram".into(),
            name: "бот".into(),
            token: SecretString::from("43:token"),
            settings: AccountSettings { api_base, ..AccountSettings::default() },
        };
        let account_id = store.create_account(ws, account).await.unwrap();
        let settings = ChannelSettings::default();
        let new = NewChannel { account_id, name: "канал".into(), target: "-1001234567891".into(), settings };
        store.create_channel(ws, new).await.unwrap();
        let channels: Vec<Channel> = store.channels(ws).await.unwrap();
        let payload = json!(domain::message::Message::text("Нашлась кошка"));
        let message = NewMessage {
            channels: vec![channels[0].channel_id],
            ..NewMessage::new("проба", "1", "h", payload)
        };
        store.enqueue(ws, vec![message]).await.unwrap();
        let request = ClaimRequest {
            whose: Whose::Everyone,
            run_id: "n8n".into(),
            limit: 10,
            ahead: Span::ZERO,
            lease: Span::from_secs(60),
        };
        let claim = store.claim(request).await.unwrap().claims.pop().unwrap();
        let adapter = token(&server, server.ws, "адаптер", &[ApiScope::Adapter]).await;
        let body = json!({"workspace_id": ws, "delivery_id": claim.delivery_id, "claim_token": claim.claim_token});
        let (status, sent) = post(&server, &adapter, "/v1/adapter/send", body.clone()).await;
        assert_eq!((status, &sent["ok"]), (200, &json!(true)), "{sent}");
        assert_eq!((&sent["delivery_id"], &sent["claim_token"]), (&body["delivery_id"], &body["claim_token"]));
        let (_, again) = post(&server, &adapter, "/v1/adapter/send", body.clone()).await;
        assert_eq!((&again["ok"], &again["error"]["certainty"]), (&json!(false), &json!("unknown")), "{again}");
        let delivery = store.delivery(ws, claim.delivery_id).await.unwrap();
        assert_eq!(delivery.status, Status::Sending, "the orchestrator commits");
        assert_eq!(delivery.parts.get(&0).map(String::as_str), sent["provider_message_id"].as_str());
        let shown = sandbox.core().ledger.rows(Name::Telegram);
        assert_eq!(shown.iter().filter(|row| row.method == "sendMessage").count(), 1);
        let wrong = json!({"workspace_id": ws, "delivery_id": claim.delivery_id, "claim_token": uuid::Uuid::new_v4()});
        assert_eq!(post(&server, &adapter, "/v1/adapter/send", wrong).await.0, 409);
    })
    .await;
}
