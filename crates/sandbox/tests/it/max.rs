//! MAX: conversations, refusals and limits, as its sheet describes them.

mod chats;
mod hooks;
mod messages;
mod people;
mod polling;
mod refusals;
mod uploads;

use sandbox::{Name, Options, Sandbox};
use serde_json::{Value, json};

use crate::wire::{Answer, any_token, parsed, raw, started};

const TOKEN: &str = "max-token";
const GROUP: i64 = -70_000_000_000_001;
const CHANNEL: i64 = -70_000_000_000_002;

/// A sandbox and the bot that talks to it.
struct World {
    sandbox: Sandbox,
}

impl World {
    async fn new() -> World {
        World { sandbox: any_token().await }
    }

    /// Only what is registered exists: the bot with the given switches, a group and a channel.
    async fn registered(switches: Value) -> World {
        World::with(Options::default(), switches).await
    }

    async fn with(options: Options, switches: Value) -> World {
        let world = World { sandbox: started(options).await };
        let mut account =
            json!({ "platform": "max", "token": TOKEN, "id": 77, "name": "Рупор", "username": "rupor_bot" });
        for (name, value) in switches.as_object().expect("an object") {
            account[name] = value.clone();
        }
        world.sandbox.add_account(&account).expect("an account");
        world.chat(json!({ "id": GROUP, "type": "chat", "title": "Группа" }));
        world.chat(json!({ "id": CHANNEL, "type": "channel", "title": "Канал", "username": "pets" }));
        world
    }

    fn chat(&self, mut chat: Value) {
        chat["platform"] = "max".into();
        self.sandbox.add_chat(&chat).expect("a chat");
    }

    /// A call with the bot's token; the path is below `/max`.
    async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let headers = [("authorization", TOKEN), ("content-type", "application/json")];
        self.raw(method, &format!("/max{path}"), &headers, &body).await
    }

    async fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let host = self.sandbox.address();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let (answer, _) = raw(&self.sandbox, &[head.as_bytes(), b"\r\n", body].concat()).await;
        parsed(&answer)
    }

    /// A call that must succeed.
    async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.call(method, path, body).await;
        assert_eq!(answer.status, 200, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// A call that must be refused, in these words.
    async fn refused(&self, method: &str, path: &str, body: Value, status: u16, code: &str, message: &str) {
        let shown = body.to_string();
        let answer = self.call(method, path, body).await;
        let got = answer.json();
        assert_eq!(
            (answer.status, got["code"].as_str(), got["message"].as_str()),
            (status, Some(code), Some(message)),
            "{method} {path} {shown:.200}"
        );
    }

    /// A call that must be answered with status 200 and `success:false`.
    async fn unsuccessful(&self, method: &str, path: &str, body: Value, message: &str) {
        let got = self.ok(method, path, body).await;
        assert_eq!(got, json!({ "success": false, "message": message }), "{method} {path}");
    }

    /// Sends to the group and returns the message.
    async fn sent(&self, body: Value) -> Value {
        self.ok("POST", &format!("/messages?chat_id={GROUP}"), body).await["message"].clone()
    }

    async fn message(&self, mid: &str) -> Value {
        self.ok("GET", &format!("/messages/{mid}"), Value::Null).await
    }

    /// The address of an upload below the origin, and the token where there is one.
    async fn upload_slot(&self, kind: &str) -> (String, Option<String>) {
        let slot = self.ok("POST", &format!("/uploads?type={kind}"), Value::Null).await;
        let url = slot["url"].as_str().expect("an address");
        let path = url.strip_prefix(self.sandbox.origin()).expect("the same origin").to_owned();
        (path, slot["token"].as_str().map(str::to_owned))
    }

    async fn multipart(&self, path: &str, name: &str, bytes: &[u8]) -> Answer {
        let head = format!(
            "--BORDER\r\nContent-Disposition: form-data; name=\"data\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let body = [head.as_bytes(), bytes, b"\r\n--BORDER--\r\n"].concat();
        self.raw("POST", path, &[("content-type", "multipart/form-data; boundary=BORDER")], &body).await
    }

    /// Uploads whole and returns the token.
    async fn uploaded(&self, kind: &str, name: &str, bytes: &[u8]) -> String {
        let (path, token) = self.upload_slot(kind).await;
        let answer = self.multipart(&path, name, bytes).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        token.unwrap_or_else(|| {
            let body = answer.json();
            let photo = body["photos"].as_object().and_then(|photos| photos.values().next());
            let token = photo.map_or(&body["token"], |photo| &photo["token"]);
            token.as_str().expect("a token").to_owned()
        })
    }

    /// Bytes that pass for a picture; drawing a real one takes a second without optimisation.
    fn picture(&self, name: &str) -> Vec<u8> {
        [&b"\x89PNG\r\n\x1a\n"[..], name.as_bytes()].concat()
    }

    fn inject(&self, mut update: Value) -> Value {
        update["account"] = TOKEN.into();
        self.sandbox.inject(Name::Max, &update).expect("injects")["update"].clone()
    }

    async fn updates(&self, query: &str) -> Value {
        self.ok("GET", &format!("/updates?{query}"), Value::Null).await
    }

    fn last_row(&self) -> Value {
        json!(self.sandbox.core().ledger.rows(Name::Max).last().expect("a row"))
    }
}
