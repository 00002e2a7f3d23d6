//! The functions from `psql`, as the plain application role: any client may run the queue, and none may break it.

use std::process::Command;

use domain::delivery::Status;
use domain::time::Span;
use store::*;

use crate::world::*;

/// Runs statements one by one and returns what was printed, or the error.
fn psql(world: &World, sql: &str) -> std::result::Result<String, String> {
    let output = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--dbname"])
        .arg(world.url())
        .env("PGOPTIONS", "-c role=rupor_app")
        .args(["--command", &format!("SET rupor.workspace = '{}'", world.ws), "--command", sql])
        .output()
        .expect("psql is not installed: run `./test`, which installs it");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

const ENQUEUE: &str = r#"
SELECT d -> 'delivery_id'
  FROM jsonb_array_elements(enqueue_messages_and_deliveries(WS, '[{
           "source": "psql", "origin_id": "1", "content_hash": "abc", "payload": {"text": "Нашлась кошка"}, "channels": [CHANNEL]
       }]') -> 0 -> 'deliveries') AS d"#;

async fn enqueued(world: &World) -> i64 {
    let channel = world.channels(1).await[0];
    let sql = ENQUEUE.replace("WS", &world.ws.to_string()).replace("CHANNEL", &channel.to_string());
    psql(world, &sql).unwrap().parse().unwrap()
}

/// The token of a claim made from psql.
async fn claimed(world: &World) -> (i64, String) {
    let id = enqueued(world).await;
    let sql = format!("SELECT claim_token FROM claim_deliveries({}, 'psql', 10)", world.ws);
    (id, psql(world, &sql).unwrap())
}

async fn status(world: &World, id: i64) -> Status {
    world.status(domain::ids::DeliveryId(id)).await
}

#[tokio::test]
async fn a_delivery_goes_from_enqueue_to_sent() {
    let world = World::postgres().await;
    let id = enqueued(&world).await;
    let ws = world.ws;
    let claim = psql(
        &world,
        &format!(
            "SELECT delivery_id, status, attempt, claim_token IS NOT NULL FROM claim_deliveries({ws}, 'psql', 10)"
        ),
    );
    assert_eq!(claim.unwrap(), format!("{id}|sending|1|t"));
    let sent = format!(
        "SELECT record_part({ws}, delivery_id, claim_token, 0, '77'), mark_sent({ws}, delivery_id, claim_token, '77', now(), '{{}}')
           FROM deliveries WHERE delivery_id = {id}"
    );
    assert_eq!(psql(&world, &sent).unwrap(), "t|sent");
    let delivery = world.delivery(domain::ids::DeliveryId(id)).await;
    assert_eq!((delivery.status, delivery.provider_message_id.as_deref()), (Status::Sent, Some("77")));
    assert_eq!(delivery.parts.get(&0).map(String::as_str), Some("77"));
    world.check().await;
    world.drop_database().await;
}

#[tokio::test]
async fn failures_are_scheduled_or_final() {
    let world = World::postgres().await;
    let ws = world.ws;
    let (id, token) = claimed(&world).await;
    let retry = |time: &str, error: &str| {
        psql(&world, &format!("SELECT schedule_retry({ws}, {id}, '{token}', {time}, '{error}')"))
    };
    assert!(
        retry("NULL", r#"{"scope": "планета"}"#).unwrap_err().contains("scope delivery, channel or platform")
    );
    assert_eq!(retry("NULL", r#"{"code": "500", "message": "занято"}"#).unwrap(), "retry");
    let delivery = world.delivery(domain::ids::DeliveryId(id)).await;
    let wait = delivery.run_at.unwrap() - world.now().await;
    assert!((Span::from_millis(1_600)..=Span::from_millis(2_400)).contains(&wait), "{wait:?}: 2 s ± 20 %");
    world.seconds(3).await;
    let token = psql(&world, &format!("SELECT claim_token FROM claim_deliveries({ws}, 'psql', 10)")).unwrap();
    let failed = format!(r#"SELECT fail_permanent({ws}, {id}, '{token}', '{{"code": "400"}}')"#);
    assert_eq!(psql(&world, &failed).unwrap(), "failed_permanent");
    assert_eq!(
        psql(&world, &format!("SELECT requeue_deliveries({ws}, '{{{id}}}')")).unwrap(),
        format!("{{{}}}", id + 1)
    );
    world.check().await;
    world.drop_database().await;
}

#[tokio::test]
async fn a_wrong_token_changes_nothing() {
    let world = World::postgres().await;
    let (id, _) = claimed(&world).await;
    let ws = world.ws;
    let wrong = "a38f25dc-7a04-4a8a-9d6b-4f5b6cf2f1c7";
    for call in [
        format!("mark_sent({ws}, {id}, '{wrong}', '1')"),
        format!("schedule_retry({ws}, {id}, '{wrong}', NULL, '{{}}')"),
        format!("fail_permanent({ws}, {id}, '{wrong}', '{{}}')"),
        format!("nullif(record_part({ws}, {id}, '{wrong}', 0, '1'), false)"),
        format!("mark_sent({ws}, 999999, '{wrong}', '1')"),
    ] {
        assert_eq!(psql(&world, &format!("SELECT {call} IS NULL")).unwrap(), "t", "{call}");
    }
    assert_eq!(status(&world, id).await, Status::Sending);
    world.check().await;
    world.drop_database().await;
}

#[tokio::test]
async fn a_foreign_workspace_is_refused() {
    let world = World::postgres().await;
    let (id, token) = claimed(&world).await;
    let other = world.another_workspace("чужие").await;
    let foreign = psql(&other, &format!("SELECT mark_sent({}, {id}, '{token}', '1')", world.ws)).unwrap_err();
    assert!(foreign.contains("this session is set to workspace"), "{foreign}");
    let own_name = psql(&other, &format!("SELECT mark_sent({}, {id}, '{token}', '1') IS NULL", other.ws));
    assert_eq!(own_name.unwrap(), "t");
    assert_eq!(psql(&other, "SELECT count(*) FROM deliveries").unwrap(), "0");
    assert_eq!(status(&world, id).await, Status::Sending);
    world.drop_database().await;
}

#[tokio::test]
async fn an_expired_lease_is_not_the_callers_any_more() {
    let world = World::postgres().await;
    let (id, token) = claimed(&world).await;
    world.seconds(60).await;
    let ws = world.ws;
    let late = format!(r#"SELECT fail_permanent({ws}, {id}, '{token}', '{{"code": "400"}}') IS NULL"#);
    assert_eq!(psql(&world, &late).unwrap(), "t");
    // psql sends right away, so nobody knows whether this one went out; it waits for its second try.
    assert_eq!(status(&world, id).await, Status::Retry);
    assert_eq!(psql(&world, &format!("SELECT count(*) FROM recover_leases({ws})")).unwrap(), "0");
    world.check().await;
    world.drop_database().await;
}

#[tokio::test]
async fn an_illegal_transition_is_refused_by_the_database_itself() {
    let world = World::postgres().await;
    let (id, token) = claimed(&world).await;
    let ws = world.ws;
    assert_eq!(psql(&world, &format!("SELECT mark_sent({ws}, {id}, '{token}', '1')")).unwrap(), "sent");
    let requeue = psql(&world, &format!("SELECT requeue_deliveries({ws}, '{{{id}}}')")).unwrap_err();
    assert!(requeue.contains("is sent: requeue is not allowed"), "{requeue}");
    assert_eq!(psql(&world, &format!("SELECT cancel_deliveries({ws}, '{{{id}}}')")).unwrap(), "{f}");
    assert_eq!(
        psql(&world, &format!("SELECT fail_permanent({ws}, {id}, '{token}', '{{}}')")).unwrap(),
        "sent",
        "said before"
    );
    // Even the owner of the tables cannot.
    let owner = connect(&world.url()).await;
    const WAITS: &str = "run_at = rupor_now(), position = 1, sent_at = NULL, ended_at = NULL";
    const GOES: &str =
        "claim_token = gen_random_uuid(), lease_until = rupor_now(), sent_at = NULL, ended_at = NULL";
    const ENDED: &str = "reason = 'operator', sent_at = NULL";
    for (status, rest) in [
        ("queued", WAITS),
        ("retry", WAITS),
        ("claimed", GOES),
        ("sending", GOES),
        ("deduped", ENDED),
        ("failed_permanent", ENDED),
        ("dead", ENDED),
    ] {
        let set = |columns: String| format!("UPDATE deliveries SET {columns} WHERE delivery_id = {id}");
        let refused = async |sql: String| {
            let error = owner.batch_execute(&sql).await.unwrap_err();
            error.as_db_error().unwrap().message().to_owned()
        };
        // The word alone is no state; and a state that is whole may not follow this one.
        let half = refused(set(format!("status = '{status}'"))).await;
        assert!(half.contains("deliveries_state"), "{half}");
        let whole = refused(set(format!("status = '{status}', {rest}"))).await;
        assert_eq!(whole, format!("delivery {id}: illegal transition sent → {status}"));
    }
    assert_eq!(status_of(&owner, id).await, "sent");
    world.check().await;
    world.drop_database().await;
}

async fn status_of(client: &tokio_postgres::Client, id: i64) -> String {
    client.query_one("SELECT status FROM deliveries WHERE delivery_id = $1", &[&id]).await.unwrap().get(0)
}

#[tokio::test]
async fn bad_arguments_are_named_and_nothing_is_written() {
    let world = World::postgres().await;
    let ws = world.ws;
    let message = r#""source": "psql", "origin_id": "1", "content_hash": "a", "payload": {}"#;
    for (call, problem) in [
        (format!("claim_deliveries({ws}, 'psql', 501)"), "501 rows at once, at most 500"),
        (format!("claim_deliveries({ws}, '', 1)"), "a run id has 1 to 200 bytes"),
        (format!("claim_deliveries({ws}, 'psql', 1, 251)"), "251 ms ahead, at most 250"),
        (format!("claim_deliveries({ws}, 'psql', 1, 0, false, 0)"), "the lease must be positive"),
        (format!("enqueue_messages_and_deliveries({ws}, '{{}}')"), "a JSON array of messages"),
        (
            format!("enqueue_messages_and_deliveries({ws}, '[{{{message}}}]')"),
            "channels must be a list of ids",
        ),
        (
            format!(r#"enqueue_messages_and_deliveries({ws}, '[{{{message}, "channels": [999]}}]')"#),
            "channel 999 is not known",
        ),
        (
            format!(
                r#"enqueue_messages_and_deliveries({ws}, '[{{{message}, "channels": [], "chanels": 1}}]')"#
            ),
            "unknown field chanels",
        ),
        (format!("record_part({ws}, 1, gen_random_uuid(), 1000, 'x')"), "part 1000, at most 999"),
        (
            format!(
                "commit_outcomes('[{{\"workspace_id\": {ws}, \"delivery_id\": 1, \"claim_token\": \"a38f25dc-7a04-4a8a-9d6b-4f5b6cf2f1c7\"}}]')"
            ),
            "an outcome says",
        ),
        (format!("reserve_slots({ws}, 1, 0)"), "1 to 1000 slots"),
    ] {
        let refused = psql(&world, &format!("SELECT {call}")).unwrap_err();
        assert!(refused.contains(problem), "{call}: {refused}");
    }
    assert_eq!(psql(&world, "SELECT count(*) FROM messages").unwrap(), "0");
    world.drop_database().await;
}

/// The example workspace of the tree, played in and sent.
#[tokio::test]
async fn the_seed_makes_a_workspace_that_works() {
    let scratch = Scratch::create().await;
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../db/seed.sql");
    for _ in 0..2 {
        let output = Command::new("psql")
            .args([
                "--no-psqlrc",
                "--quiet",
                "--set=ON_ERROR_STOP=1",
                "--dbname",
                &scratch.url(),
                "--file",
                seed,
            ])
            .output()
            .expect("psql is not installed: run `./test`, which installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let address = Address::parse(&scratch.url()).unwrap();
    let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    assert_eq!(store.channels(ws).await.unwrap().len(), 3);
    let claimed = store.claim(request(Whose::Workspace(ws), 10, Span::from_millis(250))).await.unwrap();
    assert_eq!(claimed.claims.len(), 3, "one post for each of the channels");
    store.commit(claimed.claims.iter().map(|claim| finish(claim, sent(claim))).collect()).await.unwrap();
    let platforms: Vec<String> =
        store.accounts(ws).await.unwrap().into_iter().map(|account| account.platform).collect();
    assert_eq!(platforms, ["telegram", "max"]);
    let sources = store.sources(ws).await.unwrap();
    assert_eq!(sources.iter().map(|source| source.kind.as_str()).collect::<Vec<_>>(), ["vk"]);
    seeded_bot_answers(&store, ws).await;
    assert!(store.audit(ws).await.unwrap().is_empty());
    drop(store);
    scratch.drop_database().await;
}

/// Somebody writes to the bot of the seed, and its rules have an answer.
async fn seeded_bot_answers(store: &Store, ws: domain::ids::WorkspaceId) {
    let hook = store.bot_hook("seed-hook").await.unwrap().expect("the webhook of the seed");
    let who = UpdateOf::Person { user_id: "5".into(), address: "5".into(), name: None };
    let update =
        Update { key: "1".into(), kind: "text".into(), at: None, body: serde_json::json!({}), of: who };
    let received = store.bot_receive(ws, hook.account_id, vec![update], None).await.unwrap();
    assert_eq!(received, Received::Taken { fresh: 1 });
    let turns = store.bot_claim_turns(10, Span::from_secs(10)).await.unwrap();
    assert_eq!(
        turns.iter().map(|turn| (turn.rules_version, turn.events.len())).collect::<Vec<_>>(),
        [(1, 1)]
    );
    let bot = turns[0].bot_id.unwrap();
    let rules = store.bot_rules(ws, bot).await.unwrap();
    let rules = domain::dialogue::Rules::read(&rules[0].rules).unwrap();
    let text = domain::dialogue::What::Text { text: "нашёл".into() };
    let event = domain::dialogue::Event::new(store.now().await.unwrap(), text);
    let decision = domain::dialogue::step(&rules, &Default::default(), &event, event.at);
    assert_eq!(decision.replies.len(), 1);
}
