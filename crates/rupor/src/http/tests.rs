//! The surface as a whole, over real sockets: who gets in, and what every answer carries.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use domain::ids::WorkspaceId;
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{AccountSettings, Address, ChannelSettings, Clock, Keyring, NewAccount, NewChannel, NewEndpoint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

pub const SECRET: &str = "secret-of-the-first-door-0123456789";
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A node that listens, with a workspace, a channel and an endpoint.
pub struct Server {
    pub at: SocketAddr,
    pub store: Store,
    pub ws: WorkspaceId,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl Server {
    pub async fn start(token: Option<&str>) -> Server {
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        let ws = store.create_workspace("Приют").await.unwrap();
        let node =
            Node { store: store.clone(), meters: Arc::default(), ready: Arc::new(AtomicBool::new(true)) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let door = Door::new(at.ip(), token.map(str::to_owned), Some("board.example".into())).unwrap();
        let task = tokio::spawn(async move {
            axum::serve(listener, router(node, door)).await.unwrap();
        });
        let server = Server { at, store, ws, task };
        server.channel(ws, "канал", "-1001234567890").await;
        server.endpoint(ws, "сайт", "push", SECRET, json!({"rate": 1000})).await;
        server
    }

    pub async fn channel(&self, ws: WorkspaceId, name: &str, target: &str) {
        let account = NewAccount {
            platform: "telegram".into(),
            name: format!("бот {name}"),
            token: SecretString::from(format!("42:token-of-{name}")),
            settings: AccountSettings::default(),
        };
        let account_id = self.store.create_account(ws, account).await.unwrap();
        let (name, target) = (name.to_owned(), target.to_owned());
        let new = NewChannel { account_id, name, target, settings: ChannelSettings::default() };
        self.store.create_channel(ws, new).await.unwrap();
    }

    pub async fn endpoint(&self, ws: WorkspaceId, name: &str, kind: &str, secret: &str, settings: Value) {
        let secret = SecretString::from(secret);
        let new = NewEndpoint { name: name.into(), kind: kind.into(), secret, settings };
        self.store.create_endpoint(ws, new).await.unwrap();
    }

    /// Sends bytes and reads to the end.
    pub async fn send(&self, request: &[u8]) -> Answer {
        let mut stream = tokio::net::TcpStream::connect(self.at).await.unwrap();
        // A server that answers early may close before it has read everything.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request += &format!("Host: {}\r\n", self.at);
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.send(request.as_bytes()).await
    }

    pub async fn post(&self, headers: &[(&str, &str)], body: &Value) -> Answer {
        let bearer = format!("Bearer {SECRET}");
        let own = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        self.ask("POST", "/v1/ingest", &[&own, headers].concat(), &body.to_string()).await
    }

    pub async fn messages(&self) -> usize {
        self.store.recent_messages(self.ws, 1_000).await.unwrap().len()
    }
}

#[tokio::test]
async fn every_route_but_the_open_ones_needs_its_key() {
    let server = Server::start(Some(TOKEN)).await;
    let bearer = format!("Bearer {TOKEN}");
    for way in ways() {
        let method = if way.guard == Guard::Endpoint { "POST" } else { "GET" };
        let without = server.ask(method, way.path, &[], "").await;
        let wrong = server.ask(method, way.path, &[("Authorization", "Bearer 0123")], "").await;
        match way.guard {
            Guard::Open => assert_eq!(without.status, 200, "{}", way.path),
            Guard::Viewer | Guard::Endpoint => {
                assert_eq!((without.status, wrong.status), (401, 401), "{}", way.path);
                assert_eq!(without.code(), "unauthorized", "{}", way.path);
            }
        }
    }
    let state = server.ask("GET", "/board/state", &[("Authorization", &bearer)], "").await;
    assert_eq!(state.status, 200);
    // "любой:" and the token, as a browser sends them
    let basic = server.ask("GET", "/board/state", &[("Authorization", &basic("me", TOKEN))], "").await;
    assert_eq!(basic.status, 200, "{basic:?}");
    let wrong = server.ask("GET", "/board/state", &[("Authorization", &basic_of_another())], "").await;
    assert_eq!(wrong.status, 401);
}

fn basic(name: &str, password: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in format!("{name}:{password}").as_bytes().chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for n in 0..=chunk.len() {
            encoded.push(char::from(LETTERS[(bits >> (18 - 6 * n) & 63) as usize]));
        }
    }
    format!("Basic {encoded}")
}

fn basic_of_another() -> String {
    basic("me", "fedcba9876543210fedcba9876543210")
}

#[tokio::test]
async fn a_page_elsewhere_cannot_reach_the_board_by_a_name_of_its_own() {
    let server = Server::start(None).await;
    for (host, status) in [
        ("evil.example", 421),
        ("evil.example:7878", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
        ("localhost", 200),
        ("LOCALHOST:7878", 200),
        ("127.0.0.1:7878", 200),
        ("[::1]:7878", 200),
        ("board.example", 200),
    ] {
        let answer = server.ask("GET", "/board/state", &[("Host", host)], "").await;
        assert_eq!(answer.status, status, "{host:?}");
    }
}

#[tokio::test]
async fn nothing_but_reading_is_answered_and_every_answer_is_guarded() {
    let server = Server::start(None).await;
    for way in ways().iter().filter(|way| way.guard != Guard::Endpoint) {
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
            let answer = server.ask(method, way.path, &[("X-HTTP-Method-Override", "GET")], "").await;
            assert_eq!(answer.status, 405, "{method} {}", way.path);
        }
    }
    for (path, status) in
        [("/", 200), ("/nowhere", 404), ("/metrics", 200), ("/board/state?workspace=нет", 404)]
    {
        let path = path.replace("нет", "%D0%BD%D0%B5%D1%82");
        let answer = server.ask("GET", &path, &[], "").await;
        assert_eq!(answer.status, status, "{path}");
        for header in
            ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff", "no-store"]
        {
            assert!(answer.head.contains(header), "{path}: {header} in {}", answer.head);
        }
    }
    let page = server.ask("GET", "/", &[], "").await;
    let nonce = page.head.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert!(page.body.contains(&format!("<script nonce=\"{nonce}\">")) && !page.body.contains("{nonce}"));
    assert_eq!(server.messages().await, 0);
}

#[test]
fn beyond_loopback_a_long_token_is_needed() {
    let open: IpAddr = "0.0.0.0".parse().unwrap();
    let problem = Door::new(open, None, None).unwrap_err().to_string();
    assert!(problem.contains("RUPOR_HTTP_TOKEN") && problem.contains("openssl rand"), "{problem}");
    let problem = Door::new(open, Some("short".into()), None).unwrap_err().to_string();
    assert!(problem.contains("shorter than 32"), "{problem}");
    assert!(Door::new(open, Some(TOKEN.into()), None).is_ok());
    assert!(Door::new("127.0.0.1".parse().unwrap(), None, None).is_ok());
}

#[tokio::test]
async fn the_document_lists_the_routes_of_v1() {
    let server = Server::start(None).await;
    let document = server.ask("GET", "/v1/openapi.json", &[], "").await.json();
    let written: BTreeSet<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let ways = ways();
    let served: BTreeSet<&str> =
        ways.iter().map(|way| way.path).filter(|path| path.starts_with("/v1/")).collect();
    assert_eq!(written, served);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let answer = server.ask(&method.to_uppercase(), path, &[], "").await;
            assert_ne!(answer.status, 405, "{method} {path}");
        }
    }
}
