//! The surface as a whole, over real sockets: who gets in, and what every answer carries.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use domain::ids::WorkspaceId;
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{AccountSettings, Address, ChannelSettings, Clock, Keyring, NewAccount, NewChannel, NewEndpoint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

pub(crate) const SECRET: &str = "secret-of-the-first-door-0123456789";
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A node that listens, with a workspace, a channel and an endpoint.
pub(crate) struct Server {
    pub at: SocketAddr,
    pub store: Store,
    pub ws: WorkspaceId,
    pub api: Arc<super::api::PushIntake>,
    brake: Arc<Brake>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl Server {
    pub(crate) async fn start(token: Option<&str>) -> Server {
        Server::hurried(token, REQUEST_TIME).await
    }

    /// With less time for a request.
    async fn hurried(token: Option<&str>, request_time: Duration) -> Server {
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        Server::of(store, token, request_time).await
    }

    /// On a database of one's own.
    pub(crate) async fn of(store: Store, token: Option<&str>, request_time: Duration) -> Server {
        let ws = store.create_workspace("Приют").await.unwrap();
        let node = Node::new(store.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let hosts = token.map(|_| "board.example".to_owned());
        let written = door::Written { token: token.map(str::to_owned), hosts, proxies: None };
        let site = Site::new(node, Door::new(at.ip(), &written).unwrap(), request_time);
        let (brake, door, api) = (Arc::clone(&site.brake), Arc::clone(&site.door), Arc::clone(&site.api));
        let task = tokio::spawn(async move {
            let hall = serve::Hall::default();
            serve::serve(&listener, &hall, router(site), &door, serve::Times::default()).await;
        });
        let server = Server { at, store, ws, api, brake, task };
        server.channel(ws, "канал", "-1001234567890").await;
        server.endpoint(ws, "сайт", "push", SECRET, json!({"rate": 1000})).await;
        server
    }

    pub(crate) async fn channel(&self, ws: WorkspaceId, name: &str, target: &str) {
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

    pub(crate) async fn endpoint(
        &self,
        ws: WorkspaceId,
        name: &str,
        kind: &str,
        secret: &str,
        settings: Value,
    ) {
        let secret = SecretString::from(secret);
        let new = NewEndpoint { name: name.into(), kind: kind.into(), secret, settings };
        self.store.create_endpoint(ws, new).await.unwrap();
    }

    /// Sends bytes and reads to the end.
    pub(crate) async fn send(&self, request: &[u8]) -> Answer {
        self.send_from("127.0.0.1", request).await
    }

    /// Connects as another machine would: every 127.0.0.x is an address of its own.
    async fn connect_from(&self, address: &str) -> tokio::net::TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
        socket.connect(self.at).await.unwrap()
    }

    async fn send_from(&self, address: &str, request: &[u8]) -> Answer {
        let mut stream = self.connect_from(address).await;
        // A server that answers early may close before it has read everything.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
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

    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: &Value) -> Answer {
        let bearer = format!("Bearer {SECRET}");
        let own = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        self.ask("POST", "/v1/ingest", &[&own, headers].concat(), &body.to_string()).await
    }

    pub(crate) async fn messages(&self) -> usize {
        self.store.recent_messages(self.ws, 1_000).await.unwrap().len()
    }
}

#[tokio::test]
async fn every_route_but_the_open_ones_needs_its_key() {
    let server = Server::start(Some(TOKEN)).await;
    let bearer = format!("Bearer {TOKEN}");
    for route in routes() {
        let is_verb = super::api::doable().iter().any(|(path, _)| *path == route.path);
        let is_adapter = super::api::adapters().iter().any(|(path, _)| *path == route.path);
        let is_post = route.guard == Guard::Endpoint || is_adapter || is_verb || route.path == "/v1/messages";
        let method = if is_post { "POST" } else { "GET" };
        let without = server.ask(method, route.path, &[], "").await;
        let wrong = server.ask(method, route.path, &[("Authorization", "Bearer 0123")], "").await;
        match route.guard {
            Guard::Open => assert_eq!(without.status, 200, "{}", route.path),
            Guard::Viewer | Guard::Endpoint | Guard::Token => {
                assert_eq!((without.status, wrong.status), (401, 401), "{}", route.path);
                assert_eq!(without.code(), "unauthorized", "{}", route.path);
                for refused in [&without, &wrong] {
                    assert!(refused.head.contains("www-authenticate: "), "{}: {}", route.path, refused.head);
                }
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
    let server = Server::start(Some(TOKEN)).await;
    let bearer = format!("Bearer {TOKEN}");
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
        let headers = [("Host", host), ("Authorization", bearer.as_str())];
        let answer = server.ask("GET", "/board/state", &headers, "").await;
        assert_eq!(answer.status, status, "{host:?}");
    }
}

#[tokio::test]
async fn nothing_but_reading_is_answered_and_every_answer_is_guarded() {
    let server = Server::start(None).await;
    let reads = |route: &&Route| !matches!(route.guard, Guard::Endpoint | Guard::Token);
    for route in routes().iter().filter(reads) {
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
            let answer = server.ask(method, route.path, &[("X-HTTP-Method-Override", "GET")], "").await;
            assert_eq!(answer.status, 405, "{method} {}", route.path);
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

#[tokio::test]
async fn the_document_lists_the_routes_of_v1() {
    let server = Server::start(None).await;
    let document = server.ask("GET", "/v1/openapi.json", &[], "").await.json();
    let written: BTreeSet<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let routes = routes();
    let served: BTreeSet<&str> =
        routes.iter().map(|route| route.path).filter(|path| path.starts_with("/v1/")).collect();
    assert_eq!(written, served);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let answer = server.ask(&method.to_uppercase(), path, &[], "").await;
            assert_ne!(answer.status, 405, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn too_many_headers_and_too_long_ones_are_refused() {
    let server = Server::start(None).await;
    let many: String = (0..10_000).map(|n| format!("X-{n}: a\r\n")).collect();
    for headers in [many, format!("X-Long: {}\r\n", "a".repeat(1 << 20))] {
        let answer = server
            .send(format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes())
            .await;
        assert_eq!(answer.status, 431, "{answer:?}");
    }
}

#[tokio::test]
async fn a_request_that_panics_is_answered_and_the_next_one_is_served() {
    let app = Router::new()
        .route("/broken", get(async || if true { panic!("planted") } else { "ok" }))
        .route("/", get(async || "ok"))
        .layer(middleware::from_fn(answered));
    let (at, task) = serve_plainly(app, serve::Times::default()).await;
    for (path, status) in [("/broken", 500), ("/", 200), ("/broken", 500), ("/", 200)] {
        let said = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    task.abort();
}

/// A visitor whose request is on its way is answered although the loop that let them in has panicked meanwhile.
#[tokio::test]
async fn who_is_inside_stays_when_the_loop_that_lets_people_in_starts_again() {
    let (go, gone) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (wait, inside) = (Arc::clone(&go), Arc::clone(&gone));
    let app = Router::new().route(
        "/",
        get(async move || {
            inside.notify_one();
            wait.notified().await;
            "ok"
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let door = Door::new(at.ip(), &door::Written::default()).unwrap();
    let hall = serve::Hall::default();
    let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let serving = || serve::serve(&listener, &hall, app.clone(), &door, serve::Times::default());
    tokio::select! {
        () = serving() => {}
        () = gone.notified() => {}
    }
    // The loop is gone with the visitor inside.
    go.notify_one();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

async fn serve_plainly(app: Router, times: serve::Times) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let door = Door::new(at.ip(), &door::Written::default()).unwrap();
    let serving = async move { serve::serve(&listener, &serve::Hall::default(), app, &door, times).await };
    (at, tokio::spawn(serving))
}

#[tokio::test]
async fn a_visitor_who_never_says_what_they_want_is_shown_out() {
    let app = Router::new().route("/", get(async || "ok"));
    let times = serve::Times { head: Duration::from_millis(50), ..serve::Times::default() };
    let (at, task) = serve_plainly(app, times).await;
    for said in ["", "GET / HTTP/1.1\r\nHost: local"] {
        let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        // Ends only because the server closes it.
        let _ = stream.read_to_end(&mut rest).await;
        assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    }
    task.abort();
}

#[tokio::test]
async fn a_visitor_who_does_not_take_the_answer_is_shown_out() {
    /// The answer while it is being sent.
    struct Sending(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for Sending {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (ended, mut has_ended) = tokio::sync::mpsc::unbounded_channel();
    let endless = async move || {
        let piece = |sending| async move { Some((Ok::<_, std::io::Error>(vec![b'x'; 1 << 16]), sending)) };
        axum::body::Body::from_stream(futures_util::stream::unfold(Sending(ended), piece))
    };
    let times = serve::Times { write: Duration::from_millis(50), ..serve::Times::default() };
    let (at, task) = serve_plainly(Router::new().route("/", get(endless)), times).await;
    let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 16];
    stream.read_exact(&mut first).await.unwrap();
    has_ended.recv().await.unwrap();
    task.abort();
}

#[tokio::test]
async fn a_board_without_a_token_is_shut_for_whatever_a_proxy_passes_on() {
    let server = Server::start(None).await;
    for header in [
        ("X-Forwarded-For", "203.0.113.9"),
        ("x-forwarded-host", "board.example"),
        ("X-Forwarded-Proto", "https"),
        ("Forwarded", "for=127.0.0.1"),
        ("Via", "1.1 proxy"),
        ("X-Real-IP", "127.0.0.1"),
        ("CF-Connecting-IP", "203.0.113.9"),
    ] {
        for path in ["/", "/board/state", "/board/events", "/metrics"] {
            let answer = server.ask("GET", path, &[header], "").await;
            assert_eq!((answer.status, answer.code().as_str()), (403, "token_needed"), "{header:?} {path}");
            assert!(answer.message().contains("RUPOR_HTTP_TOKEN"), "{}", answer.message());
        }
        assert_eq!(server.ask("GET", "/healthz", &[header], "").await.status, 200);
    }
    let old = format!("GET /board/state HTTP/1.0\r\nHost: {}\r\n\r\n", server.at);
    assert_eq!(server.send(old.as_bytes()).await.status, 403, "a proxy that names nobody");
    let with = Server::start(Some(TOKEN)).await;
    let headers = [("Authorization", &*format!("Bearer {TOKEN}")), ("X-Forwarded-For", "203.0.113.9")];
    assert_eq!(with.ask("GET", "/board/state", &headers, "").await.status, 200);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_ask_in_a_viewers_name() {
    let server = Server::start(None).await;
    let own = format!("http://{}", server.at);
    for (headers, status) in [
        (vec![("Origin", "http://evil.example")], 403),
        (vec![("Origin", "null")], 403),
        (vec![("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "cors")], 403),
        (vec![("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")], 200),
        (vec![("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")], 200),
    ] {
        assert_eq!(server.ask("GET", "/board/state", &headers, "").await.status, status, "{headers:?}");
    }
}

#[tokio::test]
async fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let server = Server::start(None).await;
    for head in [
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n",
    ] {
        let answer = server.send(format!("{head}Connection: close\r\n\r\n").as_bytes()).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "malformed"), "{head}");
    }
}

/// One connection made 5 483 guesses a second, and nothing told of it.
#[tokio::test]
async fn wrong_secrets_leave_one_event_for_each_door_and_not_one_for_each_try() {
    let server = Server::start(Some(TOKEN)).await;
    // Few enough that nobody has to wait for a turn.
    for n in 0..3 {
        let key = format!("Bearer wrong-{n}");
        for (method, path) in
            [("POST", "/v1/ingest"), ("GET", "/"), ("GET", "/metrics"), ("GET", "/board/state")]
        {
            assert_eq!(server.ask(method, path, &[("Authorization", &key)], "").await.status, 401, "{path}");
        }
    }
    let told = async || {
        brake::tell_once(&server.brake, &server.store, std::time::Instant::now()).await;
        let events = server.store.recent_events(server.ws, 100).await.unwrap();
        let events = events.into_iter().filter(|event| event.name == "ingress_rejected");
        let mut told: Vec<(String, u64)> = events
            .map(|event| {
                (event.detail["door"].as_str().unwrap().into(), event.detail["times"].as_u64().unwrap())
            })
            .collect();
        told.sort();
        told
    };
    let expected = [("/v1/ingest".to_owned(), 3), ("the board".to_owned(), 9)];
    assert_eq!(told().await, expected);
    assert_eq!(told().await, expected, "what was told is not told again");
}

#[tokio::test]
async fn guessing_secrets_is_slowed_down_told_and_alerted_and_costs_nobody_else() {
    let server = Server::start(Some(TOKEN)).await;
    let guess = |n: u64| {
        let head = format!("POST /v1/ingest HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", server.at);
        format!("{head}Authorization: Bearer wrong-{n}\r\nContent-Length: 0\r\n\r\n")
    };
    // Eleven mistakes are looked at; some more wait for their turn; then nobody joins the line.
    for n in 0..11 {
        assert_eq!(server.send(guess(n).as_bytes()).await.status, 401);
    }
    let mut waiting = Vec::new();
    let refused = loop {
        let mut stream = server.connect_from("127.0.0.1").await;
        stream.write_all(guess(100).as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        tokio::select! {
            read = stream.read_exact(&mut answer) => { read.unwrap(); }
            () = tokio::time::sleep(Duration::from_millis(20)) => waiting.push(stream),
        }
        match String::from_utf8_lossy(&answer) {
            said if said.ends_with("401") || said.starts_with('\0') => {}
            said => break said.into_owned(),
        }
        assert!(waiting.len() < 40, "the line has no end");
    };
    assert_eq!(refused, "HTTP/1.1 429");
    let right = json!({"text": "раз"}).to_string();
    let right = format!(
        "POST /v1/ingest HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {SECRET}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{right}",
        server.at,
        right.len()
    );
    assert_eq!(server.send_from("127.0.0.2", right.as_bytes()).await.status, 202, "another household");
    let asked = server.ask("GET", "/metrics", &[("Authorization", &format!("Bearer {TOKEN}"))], "").await;
    assert!(asked.body.contains("rupor_secrets_refused_total{door=\"/v1/ingest\"} 1"), "{}", asked.body);
    for _ in 0..100 {
        server.brake.wrong(Client { address: "127.0.0.1".parse().unwrap(), far: false }, "/v1/ingest");
    }
    brake::tell_once(&server.brake, &server.store, std::time::Instant::now()).await;
    let events = server.store.recent_events(server.ws, 10).await.unwrap();
    let find =
        |name: &str| events.iter().find(|event| event.name == name).unwrap_or_else(|| panic!("{events:?}"));
    let told = &find("ingress_rejected").detail;
    assert_eq!((&told["why"], &told["door"]), (&json!("wrong secret"), &json!("/v1/ingest")));
    assert!(
        told["times"].as_u64().unwrap() >= 111 && told["from"][0].as_str().unwrap().starts_with("127.0.0.1")
    );
    assert!(find("alert").detail["text"].as_str().unwrap().contains("guesses secrets"), "{events:?}");
    assert!(!format!("{events:?}").contains("wrong-"), "what was guessed may be nearly right");
}

#[tokio::test]
async fn one_household_cannot_take_every_seat() {
    let server = Server::start(None).await;
    let mut greedy = Vec::new();
    for _ in 0..80 {
        greedy.push(server.connect_from("127.0.0.1").await);
    }
    let ask = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.at);
    assert_eq!(server.send_from("127.0.0.1", ask.as_bytes()).await.status, 503);
    assert_eq!(server.send_from("127.0.0.2", ask.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn a_viewer_with_many_pages_open_leaves_pages_for_the_others() {
    let server = Server::start(None).await;
    let ask = format!("GET /board/events HTTP/1.1\r\nHost: {}\r\n\r\n", server.at);
    let mut open = Vec::new();
    let mut status_from = async |address| {
        let mut stream = server.connect_from(address).await;
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        open.push(stream);
        String::from_utf8_lossy(&answer[9..]).into_owned()
    };
    for n in 0..8 {
        assert_eq!(status_from("127.0.0.1").await, "200", "page {n}");
    }
    assert_eq!(status_from("127.0.0.1").await, "503");
    assert_eq!(status_from("127.0.0.2").await, "200");
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_ended() {
    let server = Server::hurried(None, Duration::from_millis(50)).await;
    let head =
        format!("POST /v1/ingest HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {SECRET}\r\n", server.at);
    let never =
        format!("{head}Content-Type: application/json\r\nConnection: close\r\nContent-Length: 99\r\n\r\n{{");
    let answer = server.send(never.as_bytes()).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "takes_too_long"), "{answer:?}");
}

#[tokio::test]
async fn a_node_whose_database_lost_its_history_is_not_ready_until_it_is_released() {
    let server = Server::start(None).await;
    assert_eq!(server.ask("GET", "/readyz", &[], "").await.status, 200);
    server.store.lose_history("the last outcomes are not known").await.unwrap();
    let answer = server.ask("GET", "/readyz", &[], "").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("history was lost") && answer.body.contains("rupor release"), "{answer:?}");
    server.store.hold_all(None).await.unwrap();
    assert_eq!(server.ask("GET", "/readyz", &[], "").await.status, 200);
}
