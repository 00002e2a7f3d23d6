//! The steps of another orchestrator, as the plain roles it logs in with.

use domain::delivery::Status;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::world::*;

/// What n8n has: one login for a workspace and one that spans them.
struct Logins {
    world: World,
    app: Client,
    dispatcher: Client,
}

impl Logins {
    async fn new() -> Logins {
        let world = World::postgres().await;
        let app = connect(&world.url()).await;
        let set = format!("SET SESSION AUTHORIZATION rupor_app; SET rupor.workspace = '{}'", world.ws);
        app.batch_execute(&set).await.unwrap();
        let dispatcher = connect(&world.url()).await;
        dispatcher.batch_execute("SET SESSION AUTHORIZATION rupor_dispatcher").await.unwrap();
        Logins { world, app, dispatcher }
    }

    /// Deliveries a tick claims, with their tokens.
    async fn tick(&self) -> Vec<(i64, uuid::Uuid)> {
        let rows = self.dispatcher.query("SELECT delivery_id, claim_token FROM dispatcher_tick('t')", &[]);
        rows.await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    async fn begun(&self, id: i64, token: uuid::Uuid) -> Vec<bool> {
        let sql = "SELECT begun FROM begin_send($1, $2, $3)";
        let rows = self.dispatcher.query(sql, &[&self.world.ws.0, &id, &token]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn end(self) {
        drop((self.app, self.dispatcher));
        self.world.check().await;
        self.world.drop_database().await;
    }
}

async fn state(app: &Client, sql: &str) -> (String, i32) {
    let row = app.query_one(&format!("SELECT state, status FROM {sql}"), &[]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_claim_is_begun_once_and_committed_with_its_token() {
    let l = Logins::new().await;
    let channels = l.world.channels(2).await;
    l.world.post("пропала собака", &channels).await;
    let claimed = l.tick().await;
    assert_eq!(claimed.len(), 2);
    assert_eq!(l.tick().await, [], "what is claimed is claimed");
    let (id, token) = claimed[0];
    assert_eq!(l.begun(id, uuid::Uuid::new_v4()).await, [false; 0], "a wrong token is nobody's claim");
    assert_eq!(l.begun(id, token).await, [true]);
    assert_eq!(l.begun(id, token).await, [false], "the second time nobody knows");
    let items = serde_json::json!([
        {"workspace_id": l.world.ws, "delivery_id": id, "claim_token": token, "ok": true, "provider_message_id": "77"},
        {"workspace_id": l.world.ws, "delivery_id": claimed[1].0, "claim_token": claimed[1].1, "released": true}]);
    let rows = l.dispatcher.query("SELECT status FROM commit_outcomes($1)", &[&items]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["sent", "retry"]);
    assert_eq!(l.begun(id, token).await, [false; 0], "and after its end it is nobody's");
    l.end().await;
}

#[tokio::test]
async fn a_tick_that_meets_another_takes_nothing_and_a_lease_that_ends_comes_back() {
    let l = Logins::new().await;
    let channels = l.world.channels(1).await;
    l.world.post("пропала собака", &channels).await;
    let owner = connect(&l.world.url()).await;
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('rupor dispatcher tick', 0))";
    owner.batch_execute(lock).await.unwrap();
    assert_eq!(l.tick().await, []);
    owner.batch_execute("ROLLBACK").await.unwrap();
    let first = l.tick().await;
    assert_eq!(first.len(), 1);
    l.world.seconds(61).await;
    // Nothing was begun, so nothing was said: the lease was lost and the delivery goes at once.
    let again = l.tick().await;
    assert_eq!(again.len(), 1);
    assert_ne!(first[0].1, again[0].1);
    let delivery = l.world.delivery(domain::ids::DeliveryId(again[0].0)).await;
    assert_eq!((delivery.status, delivery.counters.unknowns), (Status::Sending, 0));
    drop(owner);
    l.end().await;
}

#[tokio::test]
async fn a_push_is_taken_in_once_and_a_repeat_gets_the_same_answer() {
    let l = Logins::new().await;
    let channel = l.world.channels(1).await[0];
    let ws = l.world.ws;
    let insert = "INSERT INTO workspace_endpoints (workspace_id, name, kind, secret_hash) \
         VALUES ($1, 'сайт', 'push', encode(sha256('long secret'), 'hex'))";
    l.app.execute(insert, &[&ws.0]).await.unwrap();
    let begin = |key: &str, body: &str| {
        format!("begin_ingest(encode(sha256('long secret'), 'hex'), {key}, encode(sha256('{body}'), 'hex'))")
    };
    assert_eq!(state(&l.app, "begin_ingest('00', 'k', '00')").await, ("refused".into(), 401));
    let sql = format!("SELECT endpoint_id, run_id, source, base FROM {}", begin("'k'", "a"));
    let row = l.app.query_one(&sql, &[]).await.unwrap();
    let (endpoint, run): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(row.get::<_, String>(2), "push:сайт");
    let items = serde_json::json!([{"source": "push:сайт", "origin_id": row.get::<_, String>(3), "content_hash": "h",
        "payload": {"text": "Нашлась кошка"}, "channels": [channel]}]);
    let finish = "SELECT finish_ingest($1, $2, $3, 'k', $4)";
    let mut answers = Vec::new();
    for _ in 0..2 {
        let row = l.app.query_one(finish, &[&ws.0, &endpoint, &run, &items]).await.unwrap();
        answers.push(row.get::<_, serde_json::Value>(0));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0]["accepted"].as_array().map(Vec::len), Some(1));
    let repeat = format!("SELECT state, answer FROM {}", begin("'k'", "a"));
    let row = l.app.query_one(&repeat, &[]).await.unwrap();
    let repeat: (String, serde_json::Value) = (row.get(0), row.get(1));
    assert_eq!(repeat, ("repeat".into(), answers[0].clone()));
    assert_eq!(state(&l.app, &begin("'k'", "other")).await, ("conflict".into(), 422));
    assert_eq!(state(&l.app, &begin("NULL", "a")).await, ("new".into(), 202));
    let runs = l.world.store.runs(ws, None, 10).await.unwrap();
    let done = runs.iter().find(|done| done.run_id == run).unwrap();
    assert_eq!((done.counts.seen, done.counts.stored, done.counts.enqueued), (1, 1, 1));
    assert!(done.finished_at.is_some());
    let unknown = l.app.query_one(finish, &[&ws.0, &endpoint, &(run + 100), &items]).await.unwrap_err();
    assert_eq!(unknown.code().map(SqlState::code), Some("RU001"));
    // The door of a neighbour does not open from here.
    let other = l.world.another_workspace("соседи").await;
    l.app.batch_execute(&format!("SET rupor.workspace = '{}'", other.ws)).await.unwrap();
    assert_eq!(state(&l.app, &begin("'k2'", "a")).await.0, "refused");
    l.end().await;
}

#[tokio::test]
async fn a_trouble_is_told_once_and_its_end_once() {
    let l = Logins::new().await;
    l.world.channels(1).await;
    let ws = l.world.ws;
    let told = async |function: &str| {
        let sql = format!("SELECT state, kind, headline FROM {function}($1)");
        let rows = l.app.query(&sql, &[&ws.0]).await.unwrap();
        rows.iter()
            .map(|row| format!("{} {}", row.get::<_, &str>(0), row.get::<_, &str>(1)))
            .collect::<Vec<_>>()
    };
    assert_eq!(told("raise_alerts").await, [""; 0]);
    assert_eq!(told("raise_bot_alerts").await, [""; 0]);
    l.app.batch_execute("UPDATE accounts SET paused = true, paused_why = '401: Unauthorized'").await.unwrap();
    l.app.batch_execute("UPDATE channels SET enabled = false, disabled_by = 'auto'").await.unwrap();
    assert_eq!(told("raise_alerts").await, ["raised account_paused", "raised channel_shut"]);
    assert_eq!(told("raise_bot_alerts").await, [""; 0], "the other family leaves them alone");
    assert_eq!(told("raise_alerts").await, [""; 0]);
    let shown = l.world.store.alerts(ws, None, 10).await.unwrap();
    assert_eq!(shown.iter().filter(|alert| alert.ended_at.is_none()).count(), 2);
    l.app.batch_execute("UPDATE accounts SET paused = false").await.unwrap();
    assert_eq!(told("raise_alerts").await, ["ended account_paused"]);
    l.end().await;
}

#[tokio::test]
async fn the_steps_are_closed_to_whom_they_are_not_for() {
    let l = Logins::new().await;
    let uuid = "gen_random_uuid()";
    for (client, call) in [
        (&l.app, "dispatcher_tick('x')".to_owned()),
        (&l.app, format!("begin_send(1, 1, {uuid})")),
        (&l.app, "bot_tick()".to_owned()),
        (&l.app, "raise_alerts(999)".to_owned()),
        (&l.app, "finish_ingest(999, 1, 1, NULL, '[]')".to_owned()),
        (&l.app, "bot_hear(999, 1, '[]')".to_owned()),
        (&l.dispatcher, "begin_ingest('a', 'b', 'c')".to_owned()),
        (&l.dispatcher, "finish_ingest(1, 1, 1, NULL, '[]')".to_owned()),
        (&l.dispatcher, "raise_alerts(1)".to_owned()),
        (&l.dispatcher, "bot_hear(1, 1, '[]')".to_owned()),
    ] {
        let refused = client.query(&format!("SELECT * FROM {call}"), &[]).await;
        let error = refused.err().unwrap_or_else(|| panic!("allowed: {call}"));
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{call}: {error:?}");
    }
    l.end().await;
}

/// The transcript of docs/n8n.md, played line by line: what is printed is what stands there.
#[tokio::test]
async fn the_transcript_of_the_manual_is_true() {
    let l = Logins::new().await;
    l.world.channels(1).await;
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/n8n.md")).unwrap();
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("=> ")).collect();
    let mut token = String::from("TOKEN");
    let mut played = 0;
    for pair in lines.chunks(2).take_while(|pair| pair[0].starts_with("=> ")) {
        let sql = pair[0].trim_start_matches("=> ").replace("TOKEN", &token);
        let who = if sql.contains("enqueue") { &l.app } else { &l.dispatcher };
        let mut printed = Vec::new();
        for message in who.simple_query(&sql).await.unwrap() {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                let cells: Vec<&str> = (0..row.len()).map(|n| row.get(n).unwrap_or_default()).collect();
                printed.push(cells.join(" | "));
            }
        }
        if sql.contains("dispatcher_tick") {
            token = printed[0].rsplit(" | ").next().unwrap().to_owned();
        }
        assert_eq!(printed.join("\n"), pair[1].trim().replace("TOKEN", &token), "{sql}");
        played += 1;
    }
    assert_eq!(played, 5);
    l.end().await;
}
