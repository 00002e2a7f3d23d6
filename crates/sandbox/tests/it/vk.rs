//! VK: conversations, refusals and limits, as its sheet describes them.

mod events;
mod limits;
mod malformed;
mod messages;
mod reading;
mod script;
mod tokens;
mod trouble;
mod uploads;
mod walls;

use sandbox::ledger::Row;
use sandbox::{Clock, LimitsMode, Name, Options, Sandbox};
use serde_json::{Value, json};

use crate::wire::{Answer, parsed, raw, started};

/// The community, the person and the tokens of most tests.
const GROUP: i64 = 77;
const WALL: i64 = -77;
const USER: i64 = 5;

/// One uploaded file: field, file name, bytes.
type Part<'a> = (&'a str, &'a str, &'a [u8]);

/// A sandbox with one token of each kind, and a clock that stands still.
struct World {
    sandbox: Sandbox,
    clock: Clock,
}

impl World {
    async fn new() -> World {
        World::with(LimitsMode::Off).await
    }

    async fn with(limits: LimitsMode) -> World {
        let clock = Clock::hand(1_800_000_000_000);
        let options = Options { limits, clock: clock.clone(), ..Options::default() };
        let sandbox = started(options).await;
        for account in [
            json!({"platform": "vk", "token": "user", "kind": "user", "id": USER, "name": "Вера Ветрова"}),
            json!({"platform": "vk", "token": "community", "kind": "community", "id": GROUP, "name": "Питомцы",
                "username": "pets"}),
            json!({"platform": "vk", "token": "service", "kind": "service"}),
        ] {
            sandbox.add_account(&account).expect("a good account");
        }
        World { sandbox, clock }
    }

    /// The whole answer of a method call with the given token at version 5.199.
    async fn answer(&self, token: &str, method: &str, parameters: Value) -> Value {
        let mut parameters = parameters;
        parameters["access_token"] = token.into();
        if parameters["v"].is_null() {
            parameters["v"] = "5.199".into();
        }
        let answer = self.form(&format!("/vk/method/{method}"), &parameters).await;
        assert_eq!(answer.status, 200, "{method}");
        assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
        answer.json()
    }

    /// The `response` of a call that must succeed.
    async fn ok(&self, token: &str, method: &str, parameters: Value) -> Value {
        let mut answer = self.answer(token, method, parameters).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["response"].take()
    }

    /// The number of the error of a call that must fail.
    async fn code(&self, token: &str, method: &str, parameters: Value) -> i64 {
        let answer = self.answer(token, method, parameters).await;
        answer["error"]["error_code"].as_i64().unwrap_or_else(|| panic!("{method} succeeded: {answer}"))
    }

    /// The text of the error of a call that must fail.
    async fn text(&self, token: &str, method: &str, parameters: Value) -> String {
        let answer = self.answer(token, method, parameters).await;
        let text = answer["error"]["error_msg"].as_str();
        text.unwrap_or_else(|| panic!("{method} succeeded: {answer}")).to_owned()
    }

    /// Posts a form.
    async fn form(&self, path: &str, parameters: &Value) -> Answer {
        let body = encoded(parameters);
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        parsed(&raw(&self.sandbox, request.as_bytes()).await.0)
    }

    /// Gets a path or one of our own addresses.
    async fn get(&self, url: &str) -> Answer {
        let path = url.strip_prefix(self.sandbox.origin()).unwrap_or(url);
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        parsed(&raw(&self.sandbox, request.as_bytes()).await.0)
    }

    async fn post(&self, message: &str) -> i64 {
        let parameters = json!({"owner_id": WALL, "from_group": 1, "message": message});
        self.ok("user", "wall.post", parameters).await["post_id"].as_i64().expect("an id")
    }

    /// Uploads one picture under a field and file name, and gives the host's answer.
    async fn upload(&self, url: &str, parts: &[Part<'_>]) -> Value {
        let path = url.strip_prefix(self.sandbox.origin()).expect("our own upload host");
        let mut body = Vec::new();
        for (field, file, bytes) in parts {
            let head = format!(
                "--B\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"{file}\"\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--B--\r\n");
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: multipart/form-data; boundary=B\r\ncontent-length: {length}\r\n\r\n"
        );
        let (answer, _) = raw(&self.sandbox, &[head.as_bytes(), &body].concat()).await;
        parsed(&answer).json()
    }

    fn picture(&self, name: &str) -> Vec<u8> {
        self.sandbox.core().pictures.jpeg(name).to_vec()
    }

    /// Uploads a picture for the wall and gives its attachment name.
    async fn wall_photo(&self, name: &str) -> String {
        let server = self.ok("user", "photos.getWallUploadServer", json!({"group_id": GROUP})).await;
        let url = server["upload_url"].as_str().expect("an address");
        let mut uploaded = self.upload(url, &[("photo", "a.jpg", &self.picture(name))]).await;
        uploaded["group_id"] = GROUP.into();
        let photo = self.ok("user", "photos.saveWallPhoto", uploaded).await[0].clone();
        format!("photo{}_{}", photo["owner_id"], photo["id"])
    }

    fn rows(&self) -> Vec<Row> {
        self.sandbox.core().ledger.rows(Name::Vk)
    }

    fn last_row(&self) -> Row {
        self.rows().pop().expect("a row")
    }

    /// The texts a reader of a chat sees.
    fn seen(&self, chat: &str) -> Vec<String> {
        let messages = self.sandbox.core().chats.messages(Name::Vk, chat);
        messages.into_iter().map(|message| message.text).collect()
    }

    fn inject(&self, body: &Value) -> Value {
        self.sandbox.inject(Name::Vk, body).expect("an update that is understood")
    }
}

fn encoded(parameters: &Value) -> String {
    let pairs = parameters.as_object().expect("an object").iter().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{name}={}", escaped(&value))
    });
    pairs.collect::<Vec<_>>().join("&")
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
