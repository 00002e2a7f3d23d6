//! Isolation as the plain roles live it: superusers bypass row-level security, so nobody here is one.

use domain::time::Span;
use store::*;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::world::*;

/// A session that is the role itself, not a superuser in its clothes.
async fn session(url: &str, role: &str) -> Client {
    let client = connect(url).await;
    client.batch_execute(&format!("SET SESSION AUTHORIZATION {role}")).await.unwrap();
    client
}

/// Two workspaces with one delivery each; the first one's is claimed.
struct Neighbours {
    world: World,
    other: World,
    url: String,
    claim: Claim,
}

impl Neighbours {
    async fn new() -> Neighbours {
        let world = World::postgres().await;
        let other = world.another_workspace("соседи").await;
        for world in [&world, &other] {
            let channels = world.channels(1).await;
            world.post("пропала собака", &channels).await;
        }
        let claim = world.claim_one().await;
        let url = world.url();
        Neighbours { world, other, url, claim }
    }

    async fn app(&self, workspace: Option<&World>) -> Client {
        let client = session(&self.url, "rupor_app").await;
        if let Some(world) = workspace {
            client.batch_execute(&format!("SET rupor.workspace = '{}'", world.ws)).await.unwrap();
        }
        client
    }

    async fn end(self) {
        self.world.drop_database().await;
    }
}

async fn count(client: &Client, from: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {from}"), &[]).await.unwrap().get(0)
}

/// The SQLSTATE of a refusal; what succeeds was not refused.
async fn refusal(client: &Client, sql: &str) -> SqlState {
    match client.batch_execute(sql).await {
        Ok(()) => panic!("allowed: {sql}"),
        Err(error) => error.code().unwrap_or_else(|| panic!("{sql}: {error}")).clone(),
    }
}

const SCOPED_TABLES: &str = "
SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
       EXISTS (SELECT FROM pg_policy AS p
                WHERE p.polrelid = c.oid AND p.polname = 'own_workspace' AND p.polroles = '{0}' AND p.polcmd = '*'
                  AND pg_get_expr(p.polqual, p.polrelid) = '(workspace_id = rupor_workspace())')
  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
 WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND a.attname = 'workspace_id'
 ORDER BY c.relname";

async fn scoped_tables(client: &Client) -> Vec<String> {
    client.query(SCOPED_TABLES, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn every_table_with_a_workspace_forces_its_policy() {
    let scratch = Scratch::create().await;
    let rows = connect(&scratch.url()).await.query(SCOPED_TABLES, &[]).await.unwrap();
    assert!(rows.len() >= 27, "{} scoped tables", rows.len());
    for row in rows {
        let (name, flags) = (row.get::<_, String>(0), [1, 2, 3].map(|column| row.get::<_, bool>(column)));
        assert_eq!(flags, [true; 3], "{name}: row security, forced, own_workspace");
    }
    scratch.drop_database().await;
}

#[tokio::test]
async fn an_unset_workspace_shows_nothing_and_may_do_nothing() {
    let n = Neighbours::new().await;
    let app = n.app(None).await;
    for table in scoped_tables(&app).await {
        assert_eq!(count(&app, &table).await, 0, "{table}");
    }
    assert_eq!(count(&app, "rate_groups").await, 0);
    for call in [
        "SELECT claim_deliveries(1, 'x', 1)",
        "SELECT claim_deliveries(NULL, 'x', 1)",
        "SELECT enqueue_messages_and_deliveries(1, '[]')",
        "SELECT recover_leases(1)",
        "SELECT reserve_slots(1, 1)",
        "SELECT reserve_slots_for(1, 1, '{0}', 0)",
        "SELECT await_due_account(1, 0)",
        "SELECT requeue_deliveries(1, '{1}')",
        "SELECT cancel_deliveries(1, '{1}')",
        "SELECT remove_channel(1, 1)",
        "SELECT retain_rows(1, '0', '0', '0')",
        "SELECT mark_sent(1, 1, gen_random_uuid(), '1')",
        "SET rupor.workspace = ''; SELECT claim_deliveries(1, 'x', 1)",
    ] {
        assert_eq!(refusal(&app, call).await, SqlState::INSUFFICIENT_PRIVILEGE, "{call}");
    }
    n.end().await;
}

#[tokio::test]
async fn a_set_workspace_shows_its_own_rows_alone() {
    let n = Neighbours::new().await;
    for world in [&n.world, &n.other] {
        let app = n.app(Some(world)).await;
        for table in [
            "workspaces",
            "accounts",
            "channels",
            "account_heads",
            "lane_heads",
            "messages",
            "deliveries",
            "rate_groups",
        ] {
            assert_eq!(count(&app, table).await, 1, "{table}");
        }
        let foreign = format!("workspace_id <> {}", world.ws);
        for table in scoped_tables(&app).await {
            assert_eq!(count(&app, &format!("{table} WHERE {foreign}")).await, 0, "{table}");
        }
    }
    n.end().await;
}

#[tokio::test]
async fn nobody_acts_for_another_workspace() {
    let n = Neighbours::new().await;
    let app = n.app(Some(&n.other)).await;
    let (mine, id, token) = (n.other.ws, n.claim.delivery_id, n.claim.claim_token);
    let foreign = n.world.ws;
    for call in [
        format!("SELECT claim_deliveries({foreign}, 'x', 1)"),
        "SELECT claim_deliveries(NULL, 'x', 1)".to_owned(),
        format!("SELECT mark_sent({foreign}, {id}, '{token}', '1')"),
        format!("SELECT enqueue_messages_and_deliveries({foreign}, '[]')"),
        format!("SELECT cancel_deliveries({foreign}, '{{{id}}}')"),
        format!(
            "INSERT INTO channels (workspace_id, account_id, name, target) SELECT {foreign}, 1, 'мой', '@x'"
        ),
        format!("INSERT INTO events (workspace_id, name) VALUES ({foreign}, 'alert')"),
        format!("UPDATE workspaces SET held = true, workspace_id = {foreign}"),
    ] {
        assert_eq!(refusal(&app, &call).await, SqlState::INSUFFICIENT_PRIVILEGE, "{call}");
    }
    // In its own name a foreign claim is simply not there.
    let status: Option<String> =
        app.query_one(&format!("SELECT mark_sent({mine}, {id}, '{token}', '1')"), &[]).await.unwrap().get(0);
    assert_eq!(status, None);
    let changed =
        app.execute("UPDATE channels SET name = 'чужой' WHERE workspace_id <> $1", &[&mine.0]).await.unwrap();
    assert_eq!(changed, 0);
    // The word by which the owner's functions look across is no use to others.
    app.batch_execute("SET rupor.span = 'on'").await.unwrap();
    assert_eq!(count(&app, "deliveries").await, 1);
    assert_eq!(n.world.sent(&n.claim).await, Finished::Done(domain::delivery::Status::Sent));
    n.end().await;
}

#[tokio::test]
async fn the_queue_is_written_by_the_functions_alone() {
    let n = Neighbours::new().await;
    let app = n.app(Some(&n.world)).await;
    let dispatcher = session(&n.url, "rupor_dispatcher").await;
    for client in [&app, &dispatcher] {
        for sql in [
            "UPDATE deliveries SET status = 'sent'",
            "DELETE FROM deliveries",
            "INSERT INTO ready SELECT * FROM ready",
            "DELETE FROM inflight",
            "UPDATE lane_heads SET next_at = now()",
            "UPDATE account_heads SET next_at = now()",
            "UPDATE rate_groups SET next_slot = 'epoch'",
            "DELETE FROM attempts",
            "DELETE FROM dedup_index",
            "UPDATE events SET name = 'alert'",
            "DELETE FROM events",
            "DELETE FROM messages",
            "TRUNCATE events",
        ] {
            assert_eq!(refusal(client, sql).await, SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
        }
    }
    n.end().await;
}

#[tokio::test]
async fn config_rows_written_by_hand_move_the_queue() {
    let n = Neighbours::new().await;
    let app = n.app(Some(&n.other)).await;
    let due = || async {
        let row = app.query_one("SELECT next_at < 'infinity' FROM account_heads", &[]).await.unwrap();
        row.get::<_, bool>(0)
    };
    assert!(due().await);
    for (off, on) in [
        ("UPDATE channels SET paused_until = 'infinity'", "UPDATE channels SET paused_until = 'epoch'"),
        (
            "UPDATE channels SET enabled = false, disabled_by = 'operator'",
            "UPDATE channels SET enabled = true, disabled_by = NULL",
        ),
        ("UPDATE accounts SET paused = true", "UPDATE accounts SET paused = false"),
        ("UPDATE workspaces SET held = true", "UPDATE workspaces SET held = false"),
    ] {
        app.batch_execute(off).await.unwrap();
        assert!(!due().await, "{off}");
        app.batch_execute(on).await.unwrap();
        assert!(due().await, "{on}");
    }
    app.batch_execute("UPDATE accounts SET rate = 10, burst = 2").await.unwrap();
    let row = app.query_one("SELECT interval_us, burst FROM rate_groups", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (100_000, 2));
    let new = "INSERT INTO channels (workspace_id, account_id, name, target) SELECT workspace_id, account_id, 'ещё', '@ещё' FROM accounts";
    app.batch_execute(new).await.unwrap();
    assert_eq!(count(&app, "lane_heads WHERE open AND next_at = 'infinity'").await, 1);
    n.end().await;
}

#[tokio::test]
async fn the_dispatcher_claims_for_everybody_and_reads_what_a_send_needs() {
    let n = Neighbours::new().await;
    let dispatcher = session(&n.url, "rupor_dispatcher").await;
    let claimed =
        dispatcher.query("SELECT workspace_id FROM claim_deliveries(NULL, 'd', 10)", &[]).await.unwrap();
    assert_eq!(claimed.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [n.other.ws.0]);
    assert_eq!(count(&dispatcher, "messages").await, 2);
    assert_eq!(count(&dispatcher, "accounts").await, 2);
    n.world.seconds(60).await;
    let recovered = dispatcher.query("SELECT * FROM recover_leases(NULL)", &[]).await.unwrap();
    assert_eq!(recovered.len(), 2);
    for sql in [
        "SELECT enqueue_messages_and_deliveries(1, '[]')",
        "SELECT cancel_deliveries(1, '{1}')",
        "SELECT * FROM workspace_endpoints",
        "SELECT * FROM dedup_index",
        "UPDATE accounts SET paused = true",
    ] {
        assert_eq!(refusal(&dispatcher, sql).await, SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
    }
    n.end().await;
}

const LOOSE_FUNCTIONS: &str = "
SELECT p.proname
  FROM pg_proc AS p
 WHERE p.pronamespace = 'public'::regnamespace
   AND (has_function_privilege('public', p.oid, 'EXECUTE')
        OR (p.prorettype = 'trigger'::regtype AND has_function_privilege('rupor_app', p.oid, 'EXECUTE'))
        OR (p.prosecdef AND NOT coalesce('search_path=public, pg_temp' = ANY (p.proconfig), false)))";

#[tokio::test]
async fn functions_and_triggers_are_closed_to_strangers_and_pin_their_search_path() {
    let scratch = Scratch::create().await;
    let client = connect(&scratch.url()).await;
    let loose = || async {
        let rows = client.query(LOOSE_FUNCTIONS, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    assert_eq!(loose().await, [""; 0]);
    // What a later version adds is closed before anybody thinks of it.
    client.batch_execute("CREATE FUNCTION added() RETURNS int LANGUAGE sql AS 'SELECT 1'").await.unwrap();
    assert_eq!(loose().await, [""; 0]);
    drop(client);
    scratch.drop_database().await;
}

const OUR_FUNCTIONS: &str = "
SELECT p.proname::text, p.prorettype = 'trigger'::regtype, p.prokind = 'f',
       array(SELECT 'NULL::' || format_type(t, NULL) FROM unnest(p.proargtypes) AS t)
  FROM pg_proc AS p
 WHERE p.pronamespace = 'public'::regnamespace
 ORDER BY 1";

/// A login that was granted nothing.
async fn stranger(url: &str) -> (Client, String) {
    let name = format!("rupor_stranger_{}", uuid::Uuid::new_v4().simple());
    let client = connect(url).await;
    client.batch_execute(&format!("CREATE ROLE {name} LOGIN")).await.unwrap();
    client.batch_execute(&format!("SET SESSION AUTHORIZATION {name}")).await.unwrap();
    (client, name)
}

#[tokio::test]
async fn a_login_without_grants_cannot_stop_or_release_a_workspace() {
    let n = Neighbours::new().await;
    let (attacker, name) = stranger(&n.url).await;
    let functions = attacker.query(OUR_FUNCTIONS, &[]).await.unwrap();
    assert!(functions.len() > 60, "{} functions", functions.len());
    for function in &functions {
        let name: String = function.get(0);
        let attack = match function.get::<_, bool>(1) {
            // The attack that worked: a table of one's own, with our trigger on it.
            true => format!(
                "CREATE TEMPORARY TABLE mine (LIKE public.workspaces); CREATE TRIGGER t BEFORE INSERT ON mine \
                 FOR EACH ROW EXECUTE FUNCTION public.{name}()"
            ),
            false => {
                let verb = if function.get(2) { "SELECT" } else { "CALL" };
                format!("{verb} public.{name}({})", function.get::<_, Vec<String>>(3).join(", "))
            }
        };
        let plain = attack.replace("(LIKE public.workspaces)", "(workspace_id bigint, held boolean)");
        assert_eq!(refusal(&attacker, &plain).await, SqlState::INSUFFICIENT_PRIVILEGE, "{plain}");
        attacker.batch_execute("DROP TABLE IF EXISTS mine").await.unwrap();
    }
    for table in scoped_tables(&attacker).await {
        let look = format!("SELECT * FROM {table}");
        assert_eq!(refusal(&attacker, &look).await, SqlState::INSUFFICIENT_PRIVILEGE, "{look}");
    }
    drop(attacker);
    let admin = connect(&n.url).await;
    admin.batch_execute(&format!("DROP ROLE {name}")).await.unwrap();
    drop(admin);
    n.end().await;
}

#[tokio::test]
async fn a_trigger_of_ours_does_nothing_on_a_table_of_somebody_else() {
    let n = Neighbours::new().await;
    // Even whoever may attach it: the owner of the functions.
    let owner = connect(&n.url).await;
    let all = "SELECT p.proname::text FROM pg_proc AS p
                WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef AND p.prorettype = 'trigger'::regtype
                ORDER BY 1";
    let functions: Vec<String> = owner.query(all, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(functions.len() >= 6, "{functions:?}");
    // Whatever one of them reads is there.
    let columns = "workspace_id bigint, account_id bigint, channel_id bigint, group_id bigint, platform text, \
                   fingerprint text, held boolean, paused boolean";
    for function in functions {
        let attack = format!(
            "DROP TABLE IF EXISTS mine; CREATE TEMPORARY TABLE mine ({columns}); \
             CREATE TRIGGER t BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION {function}(); \
             INSERT INTO mine DEFAULT VALUES"
        );
        assert_eq!(refusal(&owner, &attack).await, SqlState::INSUFFICIENT_PRIVILEGE, "{function}");
    }
    drop(owner);
    n.end().await;
}

#[tokio::test]
async fn nobody_names_the_messages_and_deliveries_of_another_workspace() {
    let n = Neighbours::new().await;
    let app = n.app(Some(&n.other)).await;
    let mine = n.other.ws;
    let channel: i64 = app.query_one("SELECT channel_id FROM channels", &[]).await.unwrap().get(0);
    let message: i64 = app.query_one("SELECT message_id FROM messages", &[]).await.unwrap().get(0);
    let foreign = &n.claim;
    for (message, target) in [(message, foreign.delivery_id.0), (foreign.message_id.0, foreign.delivery_id.0)]
    {
        let items = format!(
            r#"[{{"message_id": {message}, "channel_id": {channel}, "revision": 2, "action": "edit", "target_delivery": {target}}}]"#
        );
        let said = app.batch_execute(&format!("SELECT follow_up({mine}, '{items}')")).await.unwrap_err();
        assert_eq!(said.code().map(SqlState::code), Some("RU004"), "{said:?}");
    }
    let theirs = foreign.message_id;
    let revised = format!("SELECT revise_message({mine}, {theirs}, '{{\"kind\": \"other\"}}')");
    let revised: Option<i32> = app.query_one(&revised, &[]).await.unwrap().get(0);
    assert_eq!(revised, None);
    let deliver = format!("SELECT deliver_message({mine}, {theirs}, '{{\"channels\": [{channel}]}}')");
    let said = app.batch_execute(&deliver).await.unwrap_err();
    assert_eq!(said.code().map(SqlState::code), Some("RU004"), "{said:?}");
    assert_eq!(count(&app, "deliveries").await, 1);
    n.end().await;
}

/// A database that belongs to a login without any privilege, as a hosting company hands it out.
struct Plain {
    admin: Client,
    url: String,
    name: String,
}

impl Plain {
    async fn new() -> Plain {
        let server =
            std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
        let name = format!("rupor_plain_{}", uuid::Uuid::new_v4().simple());
        let admin = connect(&server).await;
        admin.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD 'простой'")).await.unwrap();
        admin.batch_execute(&format!("CREATE DATABASE {name} OWNER {name}")).await.unwrap();
        let mut url = url::Url::parse(&with_database(&server, &name)).unwrap();
        url.set_username(&name).unwrap();
        url.set_password(Some("простой")).unwrap();
        Plain { admin, url: url.to_string(), name }
    }

    async fn end(self) {
        self.admin.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await.unwrap();
        self.admin.batch_execute(&format!("DROP ROLE {}", self.name)).await.unwrap();
    }
}

#[tokio::test]
async fn a_plain_owner_runs_everything_and_is_bound_by_its_own_policies() {
    // Another database of the server makes the roles first: a plain login may not.
    let scratch = Scratch::create().await;
    let plain = Plain::new().await;
    let address = Address::parse(&plain.url).unwrap();
    assert_eq!(Store::migrate(&address).await.unwrap(), crate::migrations::steps_from(1));
    let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
    let ws = store.create_workspace("простой").await.unwrap();
    let new = NewAccount {
        platform: "telegram".into(),
        name: "бот".into(),
        token: "токен".into(),
        settings: AccountSettings::default(),
    };
    let account_id = store.create_account(ws, new).await.unwrap();
    let settings = ChannelSettings::default();
    let new = NewChannel { account_id, name: "канал".into(), target: "@к".into(), settings };
    let channel = store.create_channel(ws, new).await.unwrap();
    store.enqueue(ws, vec![message("раз", &[channel])]).await.unwrap();
    let claimed = store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap();
    assert_eq!(claimed.claims.len(), 1);
    let finished = store.commit(vec![finish(&claimed.claims[0], sent(&claimed.claims[0]))]).await.unwrap();
    assert_eq!(finished, [Finished::Done(domain::delivery::Status::Sent)]);
    assert!(store.audit(ws).await.unwrap().is_empty());

    let (owner, connection) = tokio_postgres::connect(&plain.url, NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    assert_eq!(count(&owner, "deliveries").await, 0, "FORCE binds the owner");
    owner.batch_execute("SET rupor.workspace = '1'").await.unwrap();
    assert_eq!(count(&owner, "deliveries").await, 1);
    drop((owner, store));
    driver.await.unwrap().unwrap();
    plain.end().await;
    scratch.drop_database().await;
}

#[tokio::test]
async fn a_login_that_may_not_make_roles_is_told_apart_from_a_failure() {
    let plain = Plain::new().await;
    let (client, connection) = tokio_postgres::connect(&plain.url, NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    // The roles of the server exist already, so the script is tried with names that do not.
    let unmade = postgres::migrate::ROLES.replace("rupor_app", "rupor_app_unmade");
    assert_eq!(refusal(&client, &unmade).await, SqlState::INSUFFICIENT_PRIVILEGE);
    drop(client);
    driver.await.unwrap().unwrap();
    plain.end().await;
}
