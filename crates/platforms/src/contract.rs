//! The contract of all platforms against a server of raw bytes: every error row of the sheets travels over HTTP
//! through `send`, and means what its row says. What the sandbox shows is tested in `tests/it`.

use std::time::Duration;

use bytes::Bytes;
use domain::message::{Media, MediaKind};
use domain::outcome::Outcome;
use futures_util::future::BoxFuture;

use crate::media::{MediaError, MediaHandle, MediaSource};
use crate::part::{
    DeletePart, EditPart, Fitted, MediaItem, MediaPart, Part, PinPart, SendOptions, Shape, Target, TextPart,
};
use crate::platform::{Account, AccountSettings, Deadlines, Network, Platform, Report, Sending, Unlimited};
use crate::registry::{PLATFORMS, platform};
use crate::secret::Token;
use crate::testing::rows::{self, Row, short};
use crate::testing::{Act, RawServer, http_with};
use crate::verdict::{Purpose, Verdict};
use crate::vk::read::Wall;

const DEADLINE: Duration = Duration::from_secs(10);
const CANARY: &str = "7700000001:AAcanary-token-0123456789-abcdefgh";

fn account(platform: &dyn Platform, server: &RawServer) -> Account {
    let settings = AccountSettings { api_base: Some(server.url("")), ..AccountSettings::default() };
    Account::new(platform, Token::new(CANARY), settings).unwrap()
}

fn target(platform: &dyn Platform) -> Target {
    if platform.name() == "vk" { Target::Wall(-101) } else { Target::Chat(-101) }
}

/// A part whose sending begins with a request for the purpose.
fn part(platform: &dyn Platform, purpose: Purpose) -> Part {
    let (target, options) = (target(platform), SendOptions::default());
    let text = Fitted::plain("Пропала собака");
    match purpose {
        Purpose::Send => Part::Text(TextPart { target, text, buttons: Vec::new(), options }),
        Purpose::Edit => Part::Edit(EditPart {
            target,
            id: "5".into(),
            shape: Shape::Text,
            text,
            buttons: Vec::new(),
            media: Vec::new(),
            options,
        }),
        Purpose::Delete => Part::Delete(DeletePart { target, ids: vec!["5".into()], reply_to: None }),
        Purpose::Pin => Part::Pin(PinPart { target, of_part: 0, options }),
        Purpose::Upload => {
            let media = Media { blob: Some("ab".repeat(32)), ..Media::default() };
            let items = vec![MediaItem { send_as: MediaKind::Photo, media }];
            Part::Media(MediaPart { target, items, caption: None, buttons: Vec::new(), options })
        }
        Purpose::Read => panic!("questions are not parts"),
    }
}

/// A store with one picture.
struct OnePicture;

impl MediaSource for OnePicture {
    fn handle<'a>(&'a self, _: &'a MediaItem) -> BoxFuture<'a, Option<MediaHandle>> {
        Box::pin(async { None })
    }

    fn bytes<'a>(&'a self, _: &'a Media) -> BoxFuture<'a, Result<Bytes, MediaError>> {
        Box::pin(async { Ok(Bytes::from_static(b"\xff\xd8\xff\xe0")) })
    }
}

/// Does what the row is about, and says how it ended.
async fn act(network: &Network, platform: &dyn Platform, account: &Account, purpose: Purpose) -> Verdict {
    if purpose != Purpose::Read {
        return verdict_of(&send(network, platform, account, &part(platform, purpose)).await);
    }
    let asked = match platform.name() {
        "vk" => {
            let page =
                crate::vk::read::wall_page(network, account, &Wall::Owner(-101), 0, 10, DEADLINE).await;
            page.map(drop)
        }
        _ => platform.receiver().unwrap().poll(network, account, None, Duration::ZERO).await.map(drop),
    };
    asked.map_or_else(Verdict::Failed, |()| Verdict::Done(serde_json::Value::Null))
}

async fn send(network: &Network, platform: &dyn Platform, account: &Account, part: &Part) -> Report {
    let sending = Sending {
        part,
        key: "delivery-1/0",
        earlier: &[vec!["5".into()]],
        media: &OnePicture,
        budget: &Unlimited,
        deadlines: Deadlines::default(),
    };
    platform.send(network, account, sending).await
}

fn verdict_of(report: &Report) -> Verdict {
    match &report.outcome {
        Outcome::Sent(_) => Verdict::Done(serde_json::Value::Null),
        Outcome::Failed(failure) => Verdict::Failed(failure.clone()),
    }
}

fn wire_of(row: &Row) -> Act {
    let headers: Vec<(&str, &str)> =
        row.answer.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    Act::Bytes(http_with(row.answer.status, &headers, row.answer.bytes()))
}

async fn check_over_http(name: &str, rows: &[Row]) {
    let platform = platform(name).unwrap();
    let server = RawServer::start(rows.iter().map(wire_of).collect()).await;
    let (account, network) = (account(platform, &server), Network::default());
    for row in rows {
        let verdict = act(&network, platform, &account, row.purpose).await;
        assert_eq!(short(&verdict), row.expected, "{name}: {row:?}");
    }
    assert_eq!(server.requests().len(), rows.len(), "{name}: one request for each row");
}

#[tokio::test]
async fn every_error_row_means_over_http_what_it_says() {
    let (telegram, vk, max) = (rows::telegram(), rows::vk(), rows::max());
    assert_eq!((telegram.len(), vk.len(), max.len()), (138, 147, 43));
    check_over_http("telegram", &telegram).await;
    check_over_http("vk", &vk).await;
    check_over_http("max", &max).await;
}

/// What a network can do to one request that no answer of a platform shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    NobodyListens,
    NoSuchName,
    UnknownIssuer,
    ClosedUnread,
    ReadThenReset,
    ReadThenSilent,
    BodyCut,
    BodyStalls,
}

/// The verdict table of the docs for the line itself: what happens, then what Telegram, VK and MAX must make of it.
/// The sheets of Telegram and MAX have three rows of this kind: silence after the request, a broken line, an unknown issuer.
const LINES: [(Line, [&str; 3]); 8] = [
    (Line::NobodyListens, ["T A refused"; 3]),
    (Line::NoSuchName, ["T A dns"; 3]),
    (Line::UnknownIssuer, ["P A unknown_issuer"; 3]),
    (Line::ClosedUnread, ["T D reset unknown", "T D reset unknown", "T A reset unknown"]),
    (Line::ReadThenReset, ["T D reset unknown", "T D reset unknown", "T A reset unknown"]),
    (Line::ReadThenSilent, ["T D timeout unknown", "T D timeout unknown", "T A timeout unknown"]),
    (Line::BodyCut, ["sent", "T D cut unknown", "sent"]),
    (Line::BodyStalls, ["sent", "T D cut unknown", "sent"]),
];
const N_NETWORK_ROWS_TELEGRAM: usize = 1;
const N_NETWORK_ROWS_MAX: usize = 2;

/// An address where the line does this, and the server behind it if there is one.
async fn behind(line: Line) -> (String, Option<RawServer>) {
    let success = http_with(200, &[("Content-Type", "application/json")], &[b' '; 100]);
    let half = success[..success.len() - 50].to_vec();
    let act = match line {
        Line::NobodyListens => {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            return (format!("http://{}", listener.local_addr().unwrap()), None);
        }
        Line::NoSuchName => return ("https://no-such-host.invalid".into(), None),
        Line::UnknownIssuer => {
            let server = RawServer::start_tls(vec![Act::json(200, "{}")], "loopback").await;
            return (format!("https://{}", server.address), Some(server));
        }
        Line::ClosedUnread => Act::CloseUnread,
        Line::ReadThenReset => Act::ReadThenReset,
        Line::ReadThenSilent => Act::ReadThenHang,
        Line::BodyCut => Act::Bytes(half),
        Line::BodyStalls => Act::BytesThenHang(half),
    };
    let server = RawServer::start(vec![act]).await;
    (server.url(""), Some(server))
}

#[tokio::test]
async fn whatever_the_line_does_has_the_verdict_of_the_table_and_is_tried_once() {
    for (line, expected) in LINES {
        for (platform, expected) in PLATFORMS.iter().zip(expected) {
            let (base, server) = behind(line).await;
            let settings = AccountSettings { api_base: Some(base), ..AccountSettings::default() };
            let account = Account::new(*platform, Token::new(CANARY), settings).unwrap();
            let deadlines = Deadlines { request: Duration::from_millis(700), upload: DEADLINE };
            let part = part(*platform, Purpose::Send);
            let sending = Sending {
                part: &part,
                key: "delivery-1/0",
                earlier: &[],
                media: &OnePicture,
                budget: &Unlimited,
                deadlines,
            };
            let report = platform.send(&Network::default(), &account, sending).await;
            // A reset may be seen as a closed connection or a broken pipe, depending on who is faster.
            let seen = short(&verdict_of(&report)).replace("closed", "reset").replace("broken", "reset");
            assert_eq!(seen.replace("done", "sent"), expected, "{} {line:?}: {report:?}", platform.name());
            if seen == "done" {
                assert!(report.ids.is_empty(), "{line:?}: the id is not known: {report:?}");
            }
            if let Some(server) = server {
                assert_eq!(server.n_connections(), 1, "{} {line:?}: sent once", platform.name());
            }
        }
    }
}

#[test]
fn every_row_of_the_error_tables_has_a_case() {
    let n_rows = |text: &'static str| {
        let rows = rows::sheet_rows(text);
        for (row, n_cases) in &rows {
            assert!(*n_cases > 0, "{row} has no case");
        }
        rows.len()
    };
    // How many rows the error tables of the platforms have, network rows included.
    assert_eq!(n_rows(rows::TELEGRAM) + N_NETWORK_ROWS_TELEGRAM, 49);
    assert_eq!(n_rows(rows::VK), 66);
    assert_eq!(n_rows(rows::MAX) + N_NETWORK_ROWS_MAX, 27);
}

#[tokio::test]
async fn a_token_that_a_platform_repeats_does_not_leave_the_adapter() {
    for platform in PLATFORMS {
        let body = format!(
            r#"{{"ok":false,"error_code":400,"description":"odd {CANARY}","code":"x.{CANARY}","message":"{CANARY}",
               "error":{{"error_code":100,"error_msg":"bad {CANARY}"}}}}"#
        );
        let page = format!("<html>{CANARY}</html>");
        for act in [Act::json(400, &body), Act::json(200, &page), Act::json(500, &page)] {
            let server = RawServer::start(vec![act]).await;
            let account = account(*platform, &server);
            let report =
                send(&Network::default(), *platform, &account, &part(*platform, Purpose::Send)).await;
            let printed =
                format!("{report:?} {} {account:?}", serde_json::to_string(&report.outcome).unwrap());
            assert!(!printed.contains("canary"), "{}: {printed}", platform.name());
            assert!(matches!(report.outcome, Outcome::Failed(_)));
        }
    }
}

#[tokio::test]
async fn tokens_of_vk_and_max_are_never_in_the_request_line() {
    for name in ["vk", "max"] {
        let server = RawServer::start(vec![Act::json(200, "{}")]).await;
        let platform = platform(name).unwrap();
        let account = account(platform, &server);
        send(&Network::default(), platform, &account, &part(platform, Purpose::Send)).await;
        let request = server.requests().remove(0);
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(!head.lines().next().unwrap().contains("canary"), "{name}");
        assert!(!body.contains("canary"), "{name}");
        assert!(head.contains(CANARY), "{name}: the token is in a header");
    }
}

#[test]
fn an_account_that_cannot_work_says_why_without_its_secrets() {
    let refuse = |name: &str, token: &str, base: Option<&str>| {
        let settings = AccountSettings { api_base: base.map(str::to_owned), ..AccountSettings::default() };
        Account::new(platform(name).unwrap(), Token::new(token), settings).map(drop).unwrap_err().to_string()
    };
    for name in ["telegram", "vk", "max"] {
        assert!(refuse(name, "", None).contains("the token is empty"));
        let printed = refuse(name, "7:canary\r\nX-Evil: 1", None);
        assert!(printed.contains("token") && !printed.contains("canary"), "{printed}");
        assert!(refuse(name, CANARY, Some("http://api.example.org")).contains("plain http"));
        assert!(refuse(name, CANARY, Some("not an address")).contains("api_base"));
        assert!(refuse(name, CANARY, Some("ftp://127.0.0.1")).contains("api_base"));
    }
    assert!(refuse("telegram", "1:a/../../evil", None).contains("token"));
    assert!(refuse("telegram", "1:a?b", None).contains("token"));
}

#[test]
fn the_registry_knows_every_platform_by_its_name() {
    let names: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name()).collect();
    assert_eq!(names, ["telegram", "vk", "max"]);
    assert!(platform("telegram").is_some() && platform("icq").is_none());
}

/// Files that may name the HTTP client, and files that may look at a secret.
const MAY_NAME_CLIENT: [&str; 2] = ["transport/", "egress/"];
const MAY_EXPOSE: [&str; 7] = [
    "secret.rs",
    "incoming.rs",
    "platform.rs",
    "telegram/send.rs",
    "transport/mod.rs",
    "transport/request.rs",
    "contract.rs",
];

fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn only_the_transport_names_the_client_and_only_few_look_at_secrets() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let (client, exposes) = ("reqwest", ".expose");
    for path in sources(root) {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains(client) && !name.ends_with("tests.rs") && name != "contract.rs" {
            assert!(
                MAY_NAME_CLIENT.iter().any(|folder| name.starts_with(folder)),
                "{name} names the HTTP client"
            );
        }
        if text.contains(exposes) {
            assert!(MAY_EXPOSE.contains(&name.as_str()), "{name} looks at a secret");
        }
    }
}

#[test]
fn the_docs_name_every_code_that_an_operator_can_meet() {
    let docs = include_str!("../../../docs/platforms/outcomes.md");
    for row in rows::telegram().into_iter().chain(rows::max()) {
        let Some(code) = row.expected.split(' ').nth(2) else { continue };
        let invented = ["some.new.code", "method.not.allowed"].contains(&code);
        assert!(
            invented || docs.contains(&format!("`{code}`")) || code.starts_with('5'),
            "{code} is not in the docs"
        );
    }
}
