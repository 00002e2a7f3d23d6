//! Servers that say nothing: hosts that vanish, wires that freeze, standbys that are gone, poolers that forget.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Status;
use domain::time::Span;
use store::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::server::{Server, bouncer};
use crate::world::*;

/// A wire to the server that can be told to stop carrying anything while it stays open, as when packets are dropped.
struct Wire {
    port: u16,
    /// Wires with a number below this carry nothing.
    frozen_below: Arc<watch::Sender<usize>>,
    task: tokio::task::JoinHandle<()>,
}

impl Wire {
    async fn to(server: &str) -> Wire {
        let server = url::Url::parse(server).unwrap();
        let server = format!("{}:{}", server.host_str().unwrap(), server.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let frozen_below = Arc::new(watch::Sender::new(0));
        let task = tokio::spawn(serve(listener, server, Arc::clone(&frozen_below)));
        Wire { port, frozen_below, task }
    }

    /// The same address by this wire.
    fn url(&self, of: &str, query: &str) -> String {
        let mut url = url::Url::parse(of).unwrap();
        url.set_port(Some(self.port)).unwrap();
        url.set_query(Some(query));
        url.into()
    }

    /// What is open carries nothing any more; what is opened from now on does.
    fn freeze(&self) {
        self.frozen_below.send_replace(WIRES.load(std::sync::atomic::Ordering::SeqCst));
    }

    /// Nothing gets through any more, on old wires or new ones.
    fn vanish(&self) {
        self.frozen_below.send_replace(usize::MAX);
    }

    fn come_back(&self) {
        self.frozen_below.send_replace(0);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

static WIRES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

async fn serve(listener: TcpListener, server: String, frozen_below: Arc<watch::Sender<usize>>) {
    let mut wires = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let n = WIRES.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        wires.spawn(carry(client, server.clone(), n, frozen_below.subscribe()));
    }
}

async fn carry(client: TcpStream, server: String, n: usize, mut frozen_below: watch::Receiver<usize>) {
    let _ = frozen_below.wait_for(|below| n >= *below).await;
    let server = TcpStream::connect(&server).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut up, mut down) = ([0; 65_536], [0; 65_536]);
    loop {
        tokio::select! {
            biased;
            () = async { drop(frozen_below.wait_for(|below| n < *below).await) } => {
                // Whoever thaws finds a wire that leads nowhere, as after a restart of a firewall.
                std::future::pending::<()>().await;
            }
            read = from_client.read(&mut up) => {
                let Ok(n @ 1..) = read else { return };
                if to_server.write_all(&up[..n]).await.is_err() {
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

fn words(store: &Store) -> String {
    match store.health() {
        Health::Ill(illness) => illness.words,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn frozen_connections_are_dropped_and_the_same_call_goes_on_over_a_new_one() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    let wire = Wire::to(&world.url()).await;
    let store = open(&wire.url(&world.url(), "answer_timeout=1")).await.unwrap();
    let mut wake_up = store.wake_up().await.unwrap();
    store.enqueue(world.ws, vec![message("раз", &channels)]).await.unwrap();
    // Several idle connections, all of them on frozen wires afterwards.
    let counts = futures_util::future::join_all((0..8).map(|_| store.lanes(world.ws))).await;
    assert!(counts.iter().all(Result::is_ok));
    wire.freeze();
    let enqueued = store.enqueue(world.ws, vec![message("два", &channels)]).await.unwrap();
    assert_eq!(enqueued[0].deliveries.len(), 1);
    assert_eq!(store.health(), Health::Good);
    for _ in 0..2 {
        let claimed = store.claim(request(Whose::Everyone, 1, Span::ZERO)).await.unwrap();
        let finish = finish(&claimed.claims[0], sent(&claimed.claims[0]));
        assert_eq!(store.commit(vec![finish]).await.unwrap(), [Finished::Done(Status::Sent)]);
        world.seconds(5).await;
    }
    while wake_up.wait(Span::from_millis(1)).await {}
    world.check().await;
    drop(store);
    world.drop_database().await;
}

#[tokio::test]
async fn a_host_that_vanished_is_told_within_the_time_for_an_answer_and_nothing_is_lost() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    world.post("раз", &channels).await;
    let wire = Wire::to(&world.url()).await;
    let store = open(&wire.url(&world.url(), "answer_timeout=1&connect_timeout=1")).await.unwrap();
    let claimed = store.claim(request(Whose::Everyone, 1, Span::ZERO)).await.unwrap();
    let outcome = finish(&claimed.claims[0], sent(&claimed.claims[0]));
    wire.vanish();
    let gone = tokio::time::timeout(Duration::from_secs(60), store.commit(vec![outcome.clone()])).await;
    let gone = gone.expect("it does not wait for ever").unwrap_err();
    assert!(
        matches!(gone, StoreError::Unreachable { .. } | StoreError::CommitUnknown { .. }),
        "worth offering again: {gone:?}"
    );
    let gone = tokio::time::timeout(Duration::from_secs(60), store.now()).await;
    let gone = gone.expect("it does not wait for ever").unwrap_err();
    assert!(matches!(gone, StoreError::Unreachable { .. }), "{gone:?}");
    assert!(words(&store).contains("cannot be reached"), "{}", words(&store));
    wire.come_back();
    assert_eq!(store.commit(vec![outcome]).await.unwrap(), [Finished::Done(Status::Sent)]);
    assert_eq!(store.health(), Health::Good);
    world.check().await;
    drop(store);
    world.drop_database().await;
}

#[tokio::test]
async fn a_first_host_that_swallows_everything_is_passed_over_and_not_asked_first_again() {
    let world = World::postgres().await;
    let black_hole = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = url::Url::parse(&world.url()).unwrap();
    let hosts =
        format!("127.0.0.1:{},127.0.0.1:{}", black_hole.local_addr().unwrap().port(), server.port().unwrap());
    let url = format!("postgres://postgres@{hosts}{}?connect_timeout=1", server.path());
    let store = open(&url).await.unwrap();
    let asked = std::time::Instant::now();
    // Many new connections: were the black hole asked first each time, each would take its whole second.
    let answers = futures_util::future::join_all((0..12).map(|_| store.workspaces())).await;
    assert!(answers.iter().all(Result::is_ok), "after {:?}: {answers:?}", asked.elapsed());
    let mut visitors = 0;
    while tokio::time::timeout(Duration::from_millis(50), black_hole.accept()).await.is_ok() {
        visitors += 1;
    }
    assert_eq!(visitors, 1, "only the first connection tried it");
    drop(store);
    world.drop_database().await;
}

#[tokio::test]
async fn connections_that_may_only_read_leave_the_pool_when_the_server_takes_writes_again() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    let admin = connect(&world.url()).await;
    let name: String = admin.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
    let set = format!("ALTER DATABASE {name} SET default_transaction_read_only");
    admin.batch_execute(&format!("{set} = on")).await.unwrap();
    let store = open(&world.url()).await.unwrap();
    let refused = store.enqueue(world.ws, vec![message("раз", &channels)]).await.unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    assert!(words(&store).contains("name the primary"), "{}", words(&store));
    store.workspaces().await.unwrap();
    assert!(words(&store).contains("name the primary"), "reading is not writing");
    admin.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    admin.batch_execute(&format!("{set} = off")).await.unwrap();
    store.enqueue(world.ws, vec![message("раз", &channels)]).await.expect("as after a promotion");
    store.probe().await.unwrap();
    assert_eq!(store.health(), Health::Good);
    drop(store);
    world.drop_database().await;
}

#[tokio::test]
async fn commits_that_wait_for_a_missing_standby_are_named_and_pile_up_nowhere() {
    let server = Server::start("-c max_connections=40", |_| {});
    let admin = connect(&server.url()).await;
    let address = Address::parse(&format!("{}?answer_timeout=1", server.url())).unwrap();
    Store::migrate(&address).await.unwrap();
    let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
    let standby = async |names: &str| {
        admin
            .batch_execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"))
            .await
            .unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    };
    admin.batch_execute("SET synchronous_commit = local").await.unwrap();
    standby("nobody").await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let refused = loop {
        // The server reads its settings a moment later.
        match store.create_workspace(&uuid::Uuid::new_v4().to_string()).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, StoreError::CommitUnknown { .. }), "it may be done yet: {refused:?}");
    assert!(words(&store).contains("start the standby"), "{}", words(&store));
    for _ in 0..5 {
        let refused = store.create_workspace("приют").await.unwrap_err();
        assert!(matches!(refused, StoreError::NoStandby { .. }), "{refused:?}");
        store.workspaces().await.expect("reading goes on");
    }
    let piled: i64 = admin.query_one(waiting, &[]).await.unwrap().get(0);
    assert_eq!(piled, 1, "what is refused leaves no commit behind");
    assert!(words(&store).contains("start the standby"), "reading is not writing");
    standby("").await;
    while store.create_workspace("приют").await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.probe().await.unwrap();
    assert_eq!(store.health(), Health::Good);
}

#[tokio::test]
async fn a_pooler_that_forgets_statements_is_refused_at_the_door_and_one_by_session_is_not() {
    let world = World::postgres().await;
    let folder = crate::server::owned_folder();
    let server = url::Url::parse(&world.url()).unwrap();
    for (mode, works) in [("transaction", false), ("session", true)] {
        let (_bouncer, port) = bouncer(folder.path(), server.port().unwrap(), mode).await;
        let mut url = server.clone();
        url.set_port(Some(port)).unwrap();
        match open(url.as_str()).await {
            Ok(store) => {
                assert!(works, "by the {mode} it must not start");
                store.workspaces().await.unwrap();
            }
            Err(refused) => {
                assert!(!works && matches!(refused, StoreError::Forgetful { .. }), "{mode}: {refused:?}");
                assert!(refused.to_string().contains("max_prepared_statements"), "{refused}");
            }
        }
    }
    world.drop_database().await;
}
