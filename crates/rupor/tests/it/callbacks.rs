//! A program follows its posts from `POST /v1/messages` to the ids that readers see: by asking, and by the signed callbacks
//! that it gets. The node is killed on the way, and the program answers 500 at first.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sandbox::{Name, Sandbox};
use serde_json::{Value, json};

/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(120);
/// 32 bytes, as the standard asks for; in base64 and in hex.
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const KEY_HEX: &str = "3031323334353637383961626364656630313233343536373839616263646566";
const POSTS: usize = 24;
/// Calls that the program answers with 500.
const REFUSED: usize = 2;

/// A call as the program got it.
#[derive(Debug, Clone)]
struct Call {
    headers: BTreeMap<String, String>,
    body: String,
}

impl Call {
    /// By a program that is not ours.
    fn is_signed(&self) -> bool {
        let signed =
            format!("{}.{}.{}", self.headers["webhook-id"], self.headers["webhook-timestamp"], self.body);
        let mut openssl = Command::new("openssl")
            .args(["dgst", "-sha256", "-mac", "HMAC", "-macopt", &format!("hexkey:{KEY_HEX}"), "-binary"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("openssl; `./test` installs it");
        openssl.stdin.take().unwrap().write_all(signed.as_bytes()).unwrap();
        let digest = openssl.wait_with_output().unwrap().stdout;
        self.headers["webhook-signature"] == format!("v1,{}", platforms::base64::encode(&digest))
    }
}

/// A program that listens for callbacks.
struct Program {
    at: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Program {
    fn start() -> Program {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, calls) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let heard = Arc::clone(&calls);
        std::thread::spawn(move || {
            let mut refused = 0;
            for stream in listener.incoming().flatten() {
                let Some(call) = read_call(&stream) else { continue };
                let status = if refused < REFUSED { "500 Internal Server Error" } else { "204 No Content" };
                if refused < REFUSED {
                    refused += 1;
                } else {
                    heard.lock().unwrap().push(call);
                }
                let _ = (&stream).write_all(
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
                );
            }
        });
        Program { at, calls }
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

fn read_call(stream: &TcpStream) -> Option<Call> {
    let mut reader = BufReader::new(stream);
    let mut headers = BTreeMap::new();
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Call { headers, body: String::from_utf8(body).ok()? })
}

struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

struct World {
    folder: PathBuf,
    database: String,
    listen: SocketAddr,
    sandbox: Sandbox,
}

impl World {
    async fn new(folder: &Path, database: String, program: &Program) -> World {
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        let config = format!(
            "preset = \"mirror\"\n\
             [accounts.bot]\nplatform = \"telegram\"\ntoken = {{ env = \"BOT\" }}\nrate = 20\n\
             [channels.lost]\naccount = \"bot\"\ntarget = -1001234567890\nrate = 20\ndedup = \"off\"\n\
             [callbacks]\nurl = \"http://{}/rupor\"\nsecret = {{ env = \"CALLBACK_SECRET\" }}\n",
            program.at
        );
        std::fs::write(folder.join("rupor.toml"), config).unwrap();
        let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        World { folder: folder.to_owned(), database, listen, sandbox }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
        command.args(args).args(["--db", &self.database]).current_dir(&self.folder);
        command.envs([("RUPOR_KEY_FILE", self.folder.join("rupor.key"))]);
        command.envs([("BOT", "42:token-of-the-shelter"), ("CALLBACK_SECRET", &format!("whsec_{KEY}"))]);
        command.env("RUPOR_TELEGRAM_API", self.sandbox.base(Name::Telegram));
        command.envs([("RUPOR_PLATFORM_LIMITS", "off"), ("RUPOR_LEASE", "2s")]);
        command
    }

    fn node(&self) -> Node {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let listen = self.listen.to_string();
        let args = ["run", "--config", "rupor.toml", "--listen", &listen];
        let node = Node(self.command(&args).stdout(Stdio::null()).stderr(log).spawn().unwrap());
        self.wait("the node is not ready", || self.ask("", "GET", "/readyz", &[], "").0 == 200);
        node
    }

    fn token(&self) -> String {
        let made =
            self.command(&["token", "new", "shop", "--scope", "ingest,read", "--json"]).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{made:?}"));
        made["token"].as_str().unwrap().to_owned()
    }

    fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, Value) {
        let answer = TcpStream::connect(self.listen).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            let mut request =
                format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.listen);
            for (name, value) in headers {
                request += &format!("{name}: {value}\r\n");
            }
            request +=
                &format!("Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let answer = answer.unwrap_or_default();
        let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn wait(&self, problem: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "{problem}; {}", log());
            #[expect(clippy::disallowed_methods, reason = "a test that waits for processes")]
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The same key again is the same message: what was not answered is simply posted again.
    fn post(&self, token: &str, n: usize) -> i64 {
        let body = json!({"text": format!("Пропала собака номер {n}"), "kind": "lost"}).to_string();
        let key = format!("order-{n}");
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key.as_str())];
        let begun = Instant::now();
        loop {
            let (status, answer) = self.ask(token, "POST", "/v1/messages", &headers, &body);
            match status {
                202 => return answer["id"].as_i64().unwrap(),
                0 | 429 | 503 => assert!(begun.elapsed() < PATIENCE, "nobody answers"),
                _ => panic!("{status} {answer}"),
            }
        }
    }
}

/// Delivery to the id that readers see.
type Seen = BTreeMap<i64, String>;

async fn a_program_follows_its_posts(database: String, folder: &Path) {
    let program = Program::start();
    let world = World::new(folder, database, &program).await;
    let mut node = world.node();
    let token = world.token();
    let mut ids: Vec<i64> = (0..POSTS / 2).map(|n| world.post(&token, n)).collect();
    world.wait("no callback comes", || !program.calls().is_empty());
    drop(node);
    node = world.node();
    ids.extend((POSTS / 2..POSTS).map(|n| world.post(&token, n)));
    assert_eq!(world.post(&token, 0), ids[0], "the same key is the same message");

    let mut asked = Seen::new();
    for id in &ids {
        let path = format!("/v1/messages/{id}");
        world.wait("a post is not sent", || world.ask(&token, "GET", &path, &[], "").1["status"] == "sent");
        let delivery = world.ask(&token, "GET", &path, &[], "").1["deliveries"][0].clone();
        asked.insert(
            delivery["id"].as_i64().unwrap(),
            delivery["provider_message_id"].as_str().unwrap().to_owned(),
        );
    }
    let told = || -> Seen {
        let data = program.calls().into_iter().map(|call| serde_json::from_str::<Value>(&call.body).unwrap());
        let data = data.map(|call| call["data"].clone());
        data.map(|it| (it["id"].as_i64().unwrap(), it["provider_message_id"].as_str().unwrap().to_owned()))
            .collect()
    };
    world.wait("callbacks are missing", || told().len() >= POSTS);
    assert_eq!(told(), asked, "both ways say the same");
    let visible: BTreeSet<String> = world
        .sandbox
        .core()
        .ledger
        .rows(Name::Telegram)
        .into_iter()
        .map(|row| row.visible_id.to_string().trim_matches('"').to_owned())
        .collect();
    assert!(asked.values().all(|id| visible.contains(id)), "{asked:?} {visible:?}");

    // Each outcome is one call, however often it is made; and no call is about a call.
    let calls = program.calls();
    let by_id: BTreeMap<&str, &str> =
        calls.iter().map(|call| (call.headers["webhook-id"].as_str(), call.body.as_str())).collect();
    assert_eq!(by_id.len(), POSTS, "one id for each outcome");
    for call in &calls {
        assert!(call.is_signed(), "{call:?}");
        let said: Value = serde_json::from_str(&call.body).unwrap();
        assert_eq!(
            (&said["type"], &said["data"]["channel"]),
            (&json!("delivery.sent"), &json!("lost")),
            "{said}"
        );
        assert!(ids.contains(&said["data"]["message_id"].as_i64().unwrap()));
    }
    drop(node);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_follows_its_posts_by_api_and_callback_through_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    a_program_follows_its_posts("sqlite:rupor.db".into(), folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_on_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let (base, _) = server.rsplit_once('/').unwrap();
    let name = format!("rupor_callbacks_{}", std::process::id());
    let psql = |sql: &str| Command::new("psql").args([&server, "-qc", sql]).status().unwrap().success();
    assert!(psql(&format!("CREATE DATABASE {name}")));
    a_program_follows_its_posts(format!("{base}/{name}"), folder.path()).await;
    psql(&format!("DROP DATABASE {name} WITH (FORCE)"));
}
