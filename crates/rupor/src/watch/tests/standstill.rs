//! The ledger itself is in trouble: nobody could send a queued alert, so the node tells it directly.

use super::*;

/// A database of its own; its name, and a connection beside it.
async fn of_its_own(name: &str) -> (World, String, tokio_postgres::Client) {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let name = format!("rupor_{name}_{}", uuid::Uuid::new_v4().simple());
    let Address::Postgres(admin) = Address::parse(&server).unwrap() else { panic!("{server}") };
    let admin = store::postgres::bare_connection(&admin).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (head, _) = server.rsplit_once('/').unwrap();
    (World::postgres(&format!("{head}/{name}")).await, name, admin)
}

/// The ledger cannot take the alert, so the node tells it directly, once; and writes it down when it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_database_is_gone_tells_directly_and_once() {
    let (mut w, name, admin) = of_its_own("ill").await;
    w.watch.look().await.unwrap();
    let allow = async |yes: bool| {
        admin.batch_execute(&format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {yes}")).await.unwrap();
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
        admin.batch_execute(&end).await.unwrap();
    };
    allow(false).await;
    while !matches!(w.store.health(), Health::Ill(_)) {
        let _ = w.store.probe().await;
    }
    for _ in 0..3 {
        w.watch.look().await.unwrap();
    }
    let (chat, heard) = w.news();
    assert_eq!((chat.len(), heard.len()), (1, 1), "{chat:?} {heard:?}");
    assert!(chat[0].starts_with("🔴") && heard[0]["data"]["kind"] == "database", "{chat:?} {heard:?}");
    let ready = crate::http::readiness(&crate::http::Node::new(w.store.clone())).await;
    assert!(ready.is_err(), "/readyz");
    // `rupor status --check` ends with 1 too: what it looks at is not there, and the node says why.
    assert!(gather(&w.store, "default", Some(true)).await.is_err());
    let ailment = crate::operate::facts::Ailment::of(&w.store).unwrap();
    assert!(!ailment.only_soon && !ailment.stands_still, "{ailment:?}");
    allow(true).await;
    while w.store.probe().await.is_err() {}
    w.cleared("database").await;
    let rows = w.store.alerts(w.ws, None, 10).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.kind == "database" && row.n_told == 1).count(), 1, "{rows:?}");
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

/// Whoever takes work is refused; all else goes on.
const REFUSE: &str = "
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''planted''; END';
CREATE TRIGGER refuse BEFORE INSERT ON inflight FOR EACH ROW EXECUTE FUNCTION refuse()";

/// The database answers and no claim goes through: `/readyz`, `rupor status` and an alert of its own say it, and the alert
/// does not wait in the queue that nobody serves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_claims_fail_stands_still_and_says_so_everywhere() {
    let (mut w, name, admin) = of_its_own("still").await;
    w.watch.look().await.unwrap();
    w.store.expect_work();
    w.pump().await;
    w.agree("standstill", false).await;
    let Time::Server(client) = &w.time else { unreachable!("on PostgreSQL") };
    client.batch_execute(REFUSE).await.unwrap();
    w.post(1).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let node = tokio::spawn(dispatch::run(dispatch::Settings::new("узел".into()), w.ports(), stopped));
    let asked = tokio::time::Instant::now();
    while !matches!(w.store.health(), Health::Ill(_)) {
        assert!(asked.elapsed() < Duration::from_secs(300), "{:?}", w.store.health());
        w.store.now().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for _ in 0..3 {
        w.watch.look().await.unwrap();
    }
    let (chat, heard) = w.news();
    assert_eq!((chat.len(), heard.len()), (1, 1), "{chat:?} {heard:?}");
    assert!(chat[0].starts_with("🔴 sending stands still"), "{chat:?}");
    assert_eq!(
        (&heard[0]["type"], &heard[0]["data"]["kind"]),
        (&json!("alert.opened"), &json!("standstill"))
    );
    w.agree("standstill", true).await;
    let Time::Server(client) = &w.time else { unreachable!("on PostgreSQL") };
    client.batch_execute("DROP TRIGGER refuse ON inflight").await.unwrap();
    while w.store.health() != Health::Good {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.send(true).unwrap();
    node.await.unwrap().unwrap();
    w.cleared("standstill").await;
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}
