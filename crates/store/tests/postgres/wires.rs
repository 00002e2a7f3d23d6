//! Servers that are away, wires that are cut, answers that never come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::delivery::Status;
use domain::time::Span;
use store::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::*;

/// A wire to the server that can be told to swallow the answer to the next COMMIT and then break.
struct Wire {
    url: String,
    armed: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Wire {
    async fn to(url: &str) -> Wire {
        let mut target = url::Url::parse(url).unwrap();
        let server = format!("{}:{}", target.host_str().unwrap(), target.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        target.set_host(Some("127.0.0.1")).unwrap();
        target.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
        let armed = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(serve(listener, server, Arc::clone(&armed)));
        Wire { url: target.to_string(), armed, task }
    }

    fn cut_after_commit(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, server: String, armed: Arc<AtomicBool>) {
    let mut wires = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(&server).await else {
            return;
        };
        wires.spawn(carry(client, server, Arc::clone(&armed)));
    }
}

/// Carries bytes both ways. Once armed, the first COMMIT still reaches the server; what the server answers does not
/// come back, but it is waited for, so that the transaction is really committed when the client sees the wire break.
async fn carry(client: TcpStream, server: TcpStream, armed: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut up, mut down) = ([0; 65_536], [0; 65_536]);
    loop {
        tokio::select! {
            read = from_client.read(&mut up) => {
                let Ok(n @ 1..) = read else { return };
                let commits = up[..n].windows(6).any(|window| window == b"COMMIT");
                if to_server.write_all(&up[..n]).await.is_err() {
                    return;
                }
                if commits && armed.swap(false, Ordering::SeqCst) {
                    let _ = from_server.read(&mut down).await;
                    return;
                }
            }
            read = from_server.read(&mut down) => {
                let Ok(n @ 1..) = read else { return };
                if to_client.write_all(&down[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn open(url: &str) -> Result<Store> {
    Store::open(&Address::parse(url)?, Keyring::ephemeral([7; 32]), Clock::system()).await
}

#[tokio::test]
async fn an_enqueue_whose_answer_is_lost_finds_what_it_wrote() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    let wire = Wire::to(&world.url()).await;
    let store = open(&wire.url).await.unwrap();
    store.enqueue(world.ws, vec![message("раз", &channels)]).await.unwrap();
    wire.cut_after_commit();
    let enqueued = store.enqueue(world.ws, vec![message("два", &channels)]).await.unwrap();
    assert_eq!(enqueued[0].deliveries.len(), 1);
    assert!(!wire.armed.load(Ordering::SeqCst), "the wire was cut");
    let all = world.store.deliveries(world.ws, DeliveryFilter::default(), 10).await.unwrap();
    assert_eq!(all.len(), 2, "written once");
    assert_eq!(all[1].delivery_id, enqueued[0].deliveries[0].delivery_id);
    world.check().await;
    drop(store);
    world.drop_database().await;
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_says_so_and_comes_back_when_its_lease_ends() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    world.post("раз", &channels).await;
    let wire = Wire::to(&world.url()).await;
    let store = open(&wire.url).await.unwrap();
    wire.cut_after_commit();
    let lost = store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap_err();
    assert!(matches!(lost, StoreError::CommitUnknown { .. }), "{lost:?}");
    assert!(
        store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap().claims.is_empty(),
        "it was claimed"
    );
    world.seconds(60).await;
    let recovered = store.recover(Whose::Everyone, 10).await.unwrap();
    assert_eq!(recovered.iter().map(|r| r.status).collect::<Vec<_>>(), [Status::Retry]);
    assert_eq!(world.claim_one().await.counters.lost_claims, 1);
    drop(store);
    world.drop_database().await;
}

#[tokio::test]
async fn an_outcome_whose_answer_is_lost_is_told_again_and_counts_once() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    world.post("раз", &channels).await;
    let claim = world.claim_one().await;
    let wire = Wire::to(&world.url()).await;
    let store = open(&wire.url).await.unwrap();
    wire.cut_after_commit();
    let finished = store.commit(vec![finish(&claim, sent(&claim))]).await.unwrap();
    assert_eq!(finished, [Finished::Repeated(Status::Sent)]);
    assert_eq!(world.store.attempts(world.ws, claim.delivery_id).await.unwrap().len(), 1);
    world.check().await;
    drop(store);
    world.drop_database().await;
}

#[tokio::test]
async fn a_store_outlives_its_connections() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    let admin = connect(&world.url()).await;
    for n in 0..5 {
        admin
            .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rupor' AND datname = current_database()", &[])
            .await
            .unwrap();
        world.post(&format!("пост {n}"), &channels).await;
        let claim = world.claim_one().await;
        assert_eq!(world.sent(&claim).await, Finished::Done(Status::Sent));
    }
    world.check().await;
    world.drop_database().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_its_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let url = format!("postgres://кто:секрет@127.0.0.1:{port}/нет");
    let away = open(&url).await.unwrap_err();
    assert!(matches!(away, StoreError::Unreachable { .. }), "{away:?}");
    let text = format!("{away} {away:?}");
    assert!(text.contains(&format!("127.0.0.1:{port}")) && !text.contains("секрет"), "{text}");
    let migrated = Store::migrate(&Address::parse(&url).unwrap()).await.unwrap_err();
    assert!(matches!(migrated, StoreError::Unreachable { .. }), "{migrated:?}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let missing = open(&with_database(&server, "rupor_there_is_none")).await.unwrap_err();
    assert!(matches!(missing, StoreError::Unreachable { .. }), "{missing:?}");
    assert!(missing.to_string().contains("rupor_there_is_none"), "{missing}");
}

#[tokio::test]
async fn a_server_that_may_only_be_read_is_told_apart() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    let admin = connect(&world.url()).await;
    let name: String = admin.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
    admin
        .batch_execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"))
        .await
        .unwrap();
    let store = open(&world.url()).await.unwrap();
    let refused = store.enqueue(world.ws, vec![message("раз", &channels)]).await.unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    assert_eq!(store.channels(world.ws).await.unwrap().len(), 1, "reading goes on");
    drop(store);
    world.drop_database().await;
}

#[tokio::test]
async fn a_task_that_is_cancelled_leaves_no_transaction_open() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    world.post("раз", &channels).await;
    let admin = connect(&world.url()).await;
    // The commit waits for a lock that we hold, and is given up waiting.
    let claim = world.claim_one().await;
    admin.batch_execute("BEGIN; SELECT 1 FROM account_heads FOR UPDATE").await.unwrap();
    let given_up = tokio::time::timeout(std::time::Duration::from_millis(50), world.sent(&claim)).await;
    assert!(given_up.is_err(), "{given_up:?}");
    admin.batch_execute("COMMIT").await.unwrap();
    let finished = world.sent(&claim).await;
    assert!(
        matches!(finished, Finished::Done(Status::Sent) | Finished::Repeated(Status::Sent)),
        "{finished:?}"
    );
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(admin.query_one(open, &[]).await.unwrap().get::<_, i64>(0), 0);
    world.check().await;
    world.drop_database().await;
}

#[tokio::test]
async fn an_enqueue_on_one_node_wakes_another() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    let other = open(&world.url()).await.unwrap();
    let mut wake_up = other.wake_up().await.unwrap();
    while wake_up.wait(Span::from_millis(300)).await {}
    world.post("раз", &channels).await;
    assert!(wake_up.wait(Span::from_secs(30)).await);
    drop(other);
    world.drop_database().await;
}
