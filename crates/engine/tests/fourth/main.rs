//! A fourth platform, made up here: its file and one line that adds it to the registry. Nothing else knows of it, and a
//! channel and a person hear through it, and its walls are read, on both databases.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod pager;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::delivery::{AmbiguityPolicy, Priority, Status};
use domain::ids::{CampaignId, DeliveryId, WorkspaceId};
use domain::message::Message;
use domain::time::Span;
use engine::addresses::ApiBases;
use engine::dispatch::ports::{Dice, Platforms};
use engine::dispatch::{self, EmptyShelf, Meters, Ports, Settings};
use engine::lanes::{self, Queueing};
use engine::sources;
use platforms::platform::Network;
use serde_json::{Value, json};
use store::{
    AccountSettings, Address, ChannelSettings, Clock, ForRecipients, Keyring, LaneOf, NewAccount, NewChannel,
    NewMessage, NewRecipient, NewSource, RecipientStatus, Seats, Store,
};
use tokio::sync::watch;

/// What somebody called out on a wall.
const FOUND: &str =
    "Найдена кошка, серая, с белой грудкой, Тюмень, улица Мельникайте. Телефон 8 901 000-00-12";

/// What the pagers showed: number and words.
type Shown = Arc<Mutex<Vec<(String, String)>>>;

/// The server of the pagers on loopback.
async fn serve(shown: Shown) -> String {
    async fn beep(State(shown): State<Shown>, Path(number): Path<String>, Json(body): Json<Value>) -> String {
        let mut shown = shown.lock().unwrap();
        shown.push((number, body["text"].as_str().unwrap_or_default().to_owned()));
        shown.len().to_string()
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/beep/{number}", post(beep))
        .route(
            "/wall/{number}",
            get(async || Json(json!([{"owner_id": 7, "post_id": 1, "date": 0, "text": FOUND}]))),
        )
        .with_state(shown);
    tokio::spawn(async move { axum::serve(listener, router).await });
    base
}

#[tokio::test]
async fn a_platform_nobody_knew_before_is_sent_to_on_sqlite() {
    let store = open("sqlite::memory:").await;
    check(&store).await;
}

#[tokio::test]
async fn a_platform_nobody_knew_before_is_sent_to_on_postgres() {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let name = format!("rupor_fourth_{}", std::process::id());
    let Address::Postgres(admin) = Address::parse(&server).unwrap() else { panic!("{server}") };
    let admin = store::postgres::bare_connection(&admin).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (head, _) = server.rsplit_once('/').unwrap();
    let url = format!("{head}/{name}");
    Store::migrate(&Address::parse(&url).unwrap()).await.unwrap();
    let store = open(&url).await;
    check(&store).await;
    drop(store);
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

async fn open(address: &str) -> Store {
    let address = Address::parse(address).unwrap();
    Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap()
}

async fn check(store: &Store) {
    platforms::registry::add(&pager::Pager);
    let shown = Shown::default();
    let base = serve(Arc::clone(&shown)).await;
    let workspace = store.create_workspace("Приют").await.unwrap();
    let queued = queue(store, workspace, &base).await;
    let (stop, stopped) = watch::channel(false);
    let ports = Ports {
        ledger: Arc::new(store.clone()),
        outlet: Arc::new(Platforms { network: Network::default() }),
        shelf: Arc::new(EmptyShelf),
        dice: Dice::seeded(1),
        bases: ApiBases::default(),
        meters: Arc::new(Meters::default()),
    };
    let node = tokio::spawn(dispatch::run(Settings::new("прогон".into()), ports, stopped));
    for id in queued {
        let ended = async {
            loop {
                let delivery = store.delivery(workspace, id).await.unwrap();
                if delivery.status.is_terminal() {
                    return delivery;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let delivery = tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
        assert_eq!(delivery.status, Status::Sent, "{delivery:#?}");
    }
    stop.send(true).unwrap();
    node.await.unwrap().unwrap();
    let mut shown = shown.lock().unwrap().clone();
    shown.sort();
    let words = |number: &str, words: &str| (number.to_owned(), words.to_owned());
    assert_eq!(shown, [words("17", "Пропала собака"), words("42", "Ваш ответ")]);
    read_wall(store, workspace).await;
    assert_eq!(store.audit(workspace).await.unwrap(), Vec::<String>::new());
}

/// A post for a channel, and an answer for a person.
async fn queue(store: &Store, workspace: WorkspaceId, base: &str) -> Vec<DeliveryId> {
    let new = NewAccount {
        platform: "pager".into(),
        name: "пейджеры".into(),
        token: "pager-1".to_owned().into(),
        settings: AccountSettings { api_base: Some(base.to_owned().into()), ..AccountSettings::default() },
    };
    let account_id = store.create_account(workspace, new).await.unwrap();
    let new = NewChannel {
        account_id,
        name: "дежурный".into(),
        target: "17".into(),
        settings: ChannelSettings { ambiguity: AmbiguityPolicy::Hold, ..ChannelSettings::default() },
    };
    let channel = store.create_channel(workspace, new).await.unwrap();
    let post = |words: &str, channels: &[_]| NewMessage {
        channels: channels.to_vec(),
        ..NewMessage::new("test", words, words, json!(Message::text(words)))
    };
    let batch = vec![post("Пропала собака", &[channel]), post("Ваш ответ", &[])];
    let enqueued = store.enqueue(workspace, batch).await.unwrap();
    let person = NewRecipient {
        user_id: "42".into(),
        address: "42".into(),
        attributes: json!({}),
        time_zone: None,
        status: RecipientStatus::Active,
        source: "файл".into(),
    };
    let person = store.put_recipients(workspace, account_id, vec![person]).await.unwrap()[0].recipient_id;
    let of = LaneOf::Campaign(CampaignId(1), account_id);
    let lane_id = lanes::open(store, workspace, of, Queueing { max_parallel: 2, rate: None }).await.unwrap();
    let new = ForRecipients {
        message_id: enqueued[1].message_id,
        lane_id,
        recipients: vec![person],
        priority: Priority::Urgent,
        run_at: None,
    };
    let told = store.enqueue_for(workspace, new).await.unwrap();
    let mut queued = vec![enqueued[0].deliveries[0].delivery_id];
    queued.extend(told.into_iter().flatten());
    queued
}

/// The post on the wall becomes a message that leads back to where it stands.
async fn read_wall(store: &Store, workspace: WorkspaceId) {
    let account = store.accounts(workspace).await.unwrap()[0].account_id;
    let new = NewSource {
        kind: "pager".into(),
        name: "стена".into(),
        address: "7".into(),
        account_id: Some(account),
        settings: json!({}),
    };
    store.create_source(workspace, new).await.unwrap();
    let lease = Span::from_secs(60);
    let settings = sources::Settings {
        owner: "прогон".into(),
        interval: lease,
        bases: ApiBases::default(),
        lease,
        deadline: sources::DEADLINE,
        grace: sources::GRACE,
    };
    let source = store.due_sources("прогон", Seats::any(1), lease).await.unwrap().remove(0);
    let network = Network::default();
    let reader = sources::Reader { store, network: &network, settings: &settings };
    let polled = sources::poll_once(&reader, &source).await.unwrap();
    assert_eq!(polled.counts.stored, 1, "{polled:#?}");
    let read = store.messages(workspace, 0, 10).await.unwrap();
    let read = read.iter().find(|message| message.source == "pager:7").unwrap();
    assert_eq!(read.origin["url"], "https://pager.example/7/1");
}
