//! A client that sees every byte and every reset: no HTTP library between the test and the socket.

use std::io::ErrorKind;
use std::time::Duration;

use sandbox::{Options, Sandbox};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer closed in order.
    Closed,
    /// The peer reset the connection.
    Reset,
}

/// Long enough for any machine; only a defect waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn started(options: Options) -> Sandbox {
    Sandbox::start(options).await.expect("the sandbox starts")
}

pub(crate) async fn any_token() -> Sandbox {
    started(Options { any_token: true, ..Options::default() }).await
}

/// Sends raw bytes and reads until the end of the connection.
pub(crate) async fn raw(sandbox: &Sandbox, request: &[u8]) -> (Vec<u8>, End) {
    let mut socket = TcpStream::connect(sandbox.address()).await.expect("connects");
    // The peer may reset while we still write: that is then seen by reading.
    drop(socket.write_all(request).await);
    read_to_end(&mut socket).await
}

pub(crate) async fn read_to_end(socket: &mut TcpStream) -> (Vec<u8>, End) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match timeout(PATIENCE, socket.read(&mut buffer)).await.expect("the connection ends") {
            Ok(0) => return (bytes, End::Closed),
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return (bytes, End::Reset),
            Err(error) => panic!("unexpected {error}"),
        }
    }
}

/// A JSON request that asks for the connection to be closed after it.
pub(crate) fn request(method: &str, path: &str, body: &Value) -> Vec<u8> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Status, head and body of an answer.
pub(crate) struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error} in {:?}", String::from_utf8_lossy(&self.body));
        })
    }
}

pub(crate) fn parsed(bytes: &[u8]) -> Answer {
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..split]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Answer { status, head, body: bytes[split + 4..].to_vec() }
}

/// One whole call on its own connection.
pub(crate) async fn call(sandbox: &Sandbox, method: &str, path: &str, body: &Value) -> Answer {
    let (bytes, _) = raw(sandbox, &request(method, path, body)).await;
    parsed(&bytes)
}

/// Takes one call that the sandbox makes to a bot's server, and answers it with a status line and nothing else.
pub(crate) async fn hook_call(bot: &tokio::net::TcpListener, answer: &str) -> Answer {
    hook_call_with_body(bot, answer, "").await
}

pub(crate) async fn hook_call_with_body(bot: &tokio::net::TcpListener, answer: &str, body: &str) -> Answer {
    let (mut socket, _) = timeout(PATIENCE, bot.accept()).await.expect("a call comes").expect("accepts");
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let got = loop {
        let n = timeout(PATIENCE, socket.read(&mut buffer)).await.expect("the call goes on").expect("reads");
        bytes.extend_from_slice(&buffer[..n]);
        let whole = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, got)) = whole.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        if length.and_then(|length| length.parse().ok()) == Some(got.len()) {
            break Answer { status: 0, head: format!("{head}\r\n"), body: got.as_bytes().to_vec() };
        }
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {answer}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    socket.write_all(answer.as_bytes()).await.expect("answers");
    got
}
