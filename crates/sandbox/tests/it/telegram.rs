//! Telegram: conversations, refusals and limits, as its sheet describes them.

use sandbox::{Clock, LimitsMode, Name, Options, Sandbox};
use serde_json::{Value, json};

use crate::wire::{Answer, any_token, call, parsed, raw, started};

const CHANNEL: i64 = -1_000_000_000_042;

async fn api(sandbox: &Sandbox, method: &str, body: Value) -> Answer {
    call(sandbox, "POST", &format!("/telegram/bot1:token/{method}"), &body).await
}

async fn ok(sandbox: &Sandbox, method: &str, body: Value) -> Value {
    let answer = api(sandbox, method, body).await;
    assert_eq!(answer.status, 200, "{method}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()["result"].clone()
}

async fn check_error(sandbox: &Sandbox, method: &str, body: Value, code: u16, description: &str) {
    let answer = api(sandbox, method, body).await;
    let expected = (code, json!(code), json!(description));
    assert_eq!(
        (answer.status, answer.json()["error_code"].clone(), answer.json()["description"].clone()),
        expected
    );
}

/// One part of a multipart body: name, file name, bytes.
type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

async fn multipart(sandbox: &Sandbox, method: &str, parts: &[Part<'_>]) -> Answer {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--BORDER\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--BORDER--\r\n");
    let length = body.len();
    let head = format!(
        "POST /telegram/bot1:token/{method} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: multipart/form-data; boundary=BORDER\r\ncontent-length: {length}\r\n\r\n"
    );
    let (answer, _) = raw(sandbox, &[head.as_bytes(), &body].concat()).await;
    parsed(&answer)
}

fn picture(sandbox: &Sandbox, name: &str) -> Vec<u8> {
    sandbox.core().pictures.jpeg(name).to_vec()
}

#[tokio::test]
async fn a_message_is_answered_shown_and_written_down() {
    let sandbox = any_token().await;
    let message = ok(
        &sandbox,
        "sendMessage",
        json!({"chat_id": CHANNEL, "text": "<b>Пропал</b> кот", "parse_mode": "HTML"}),
    )
    .await;
    assert_eq!((message["message_id"].clone(), message["text"].clone()), (json!(1), json!("Пропал кот")));
    assert_eq!(message["entities"], json!([{"type": "bold", "offset": 0, "length": 6}]));
    assert_eq!(message["chat"]["type"], "channel");
    assert_eq!((message.get("from"), message["sender_chat"]["id"].as_i64()), (None, Some(CHANNEL)));
    let shown = sandbox.core().chats.messages(Name::Telegram, &CHANNEL.to_string());
    assert_eq!(
        (shown.len(), shown[0].text.as_str(), shown[0].spans[0].kind.as_str()),
        (1, "Пропал кот", "bold")
    );
    let ledger = call(&sandbox, "GET", "/_/ledger", &Value::Null).await.json();
    let row = &ledger["telegram"][0];
    let fields: Vec<&str> = row.as_object().expect("a row").keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        ["accepted", "account", "at", "chat", "fault", "media", "method", "text", "visible_id"]
    );
    assert_eq!(
        (row["account"].as_str(), row["method"].as_str(), row["chat"].as_i64(), row["visible_id"].as_i64()),
        (Some("1"), Some("sendMessage"), Some(CHANNEL), Some(1))
    );
    assert_eq!((ledger["vk"].clone(), ledger["max"].clone()), (json!([]), json!([])));
}

#[tokio::test]
async fn every_way_of_writing_arguments_is_read() {
    let sandbox = any_token().await;
    let form = b"chat_id=5&text=%D1%8F+%26&disable_notification=yes";
    let head = format!(
        "POST /telegram/bot1:token/SENDMESSAGE HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\
         content-type: application/x-www-form-urlencoded\r\n\r\n",
        form.len()
    );
    let (answer, _) = raw(&sandbox, &[head.as_bytes(), form].concat()).await;
    assert_eq!(parsed(&answer).json()["result"]["text"], "я &");
    let get =
        call(&sandbox, "GET", "/telegram/bot1:token/sendMessage?chat_id=5&text=%D1%8F", &Value::Null).await;
    assert_eq!(get.json()["result"]["text"], "я");
    let parts: [Part<'_>; 2] = [("chat_id", None, b"5"), ("text", None, "я".as_bytes())];
    assert_eq!(multipart(&sandbox, "sendMessage", &parts).await.json()["result"]["text"], "я");
    let named = call(&sandbox, "POST", "/telegram/bot1:token/", &json!({"method": "getMe"})).await;
    assert_eq!(named.json()["result"]["id"], 1);
    let at_root = call(&sandbox, "POST", "/bot1:token/getMe", &Value::Null).await;
    assert_eq!(at_root.json()["result"]["is_bot"], true);
    let doubled = call(&sandbox, "POST", "/telegram//bot1:token/GetMe", &Value::Null).await;
    assert_eq!(doubled.json()["result"]["id"], 1);
    let encoded = call(&sandbox, "GET", "/telegram/bot1%3Atoken/test/getMe", &Value::Null).await;
    assert_eq!(encoded.json()["result"]["username"], "sandbox_1_bot");
}

#[tokio::test]
async fn bad_requests_get_the_servers_words() {
    let sandbox = any_token().await;
    let long = "я".repeat(4097);
    let table = [
        ("sendMessage", json!({}), "message text is empty"),
        ("sendMessage", json!({"text": "x"}), "chat_id is empty"),
        ("sendMessage", json!({"chat_id": 5, "text": ""}), "message text is empty"),
        ("sendMessage", json!({"chat_id": 5, "text": " \n "}), "text must be non-empty"),
        (
            "sendMessage",
            json!({"chat_id": 5, "text": "<b></b>", "parse_mode": "HTML"}),
            "text must be non-empty",
        ),
        ("sendMessage", json!({"chat_id": 5, "text": long}), "message is too long"),
        ("sendMessage", json!({"chat_id": 5, "text": "a".repeat(32_769)}), "text is too long"),
        ("sendMessage", json!({"chat_id": "@nobody", "text": "x"}), "chat not found"),
        (
            "sendMessage",
            json!({"chat_id": 5, "text": "x", "reply_parameters": {"message_id": 9}}),
            "message to be replied not found",
        ),
        (
            "sendMessage",
            json!({"chat_id": 5, "text": "x", "reply_markup": "{"}),
            "can't parse reply keyboard markup JSON object",
        ),
        (
            "sendMessage",
            json!({"chat_id": 5, "text": "x", "reply_markup": [1]}),
            "object expected as reply markup",
        ),
        (
            "sendMessage",
            json!({"chat_id": 5, "text": "x", "reply_markup": {"inline_keyboard": [[{"text": "b", "callback_data": "y".repeat(65)}]]}}),
            "BUTTON_DATA_INVALID",
        ),
        ("sendPhoto", json!({"chat_id": 5}), "there is no photo in the request"),
        ("sendPhoto", json!({"chat_id": 5, "photo": "nonsense"}), "wrong file identifier/HTTP URL specified"),
        ("sendMediaGroup", json!({"chat_id": 5, "media": []}), "there are no messages to send"),
        (
            "sendMediaGroup",
            json!({"chat_id": 5, "media": [{"type": "photo", "media": "attach://a"}]}),
            "can't parse InputMedia: media not found",
        ),
        (
            "sendMediaGroup",
            json!({"chat_id": 5, "media": [{"type": "photo", "media": "attach://a", "caption": "<p>", "parse_mode": "HTML"}]}),
            "can't parse InputMedia: Can't parse entities: Unsupported start tag \"p\" at byte offset 0",
        ),
        ("editMessageText", json!({"chat_id": 5, "message_id": 9, "text": "x"}), "message to edit not found"),
        ("deleteMessage", json!({"chat_id": 5, "message_id": 9}), "message to delete not found"),
        (
            "copyMessage",
            json!({"chat_id": 5, "from_chat_id": 5, "message_id": 9}),
            "message to copy not found",
        ),
        ("pinChatMessage", json!({"chat_id": 5, "message_id": 9}), "message to pin not found"),
        (
            "answerCallbackQuery",
            json!({"callback_query_id": "1"}),
            "query is too old and response timeout expired or query ID is invalid",
        ),
    ];
    for (method, body, message) in table {
        check_error(&sandbox, method, body, 400, &format!("Bad Request: {message}")).await;
    }
    assert!(sandbox.core().ledger.rows(Name::Telegram).iter().all(|row| !row.accepted));
    assert_eq!(sandbox.core().chats.n_messages(Name::Telegram), 0);
    check_error(&sandbox, "flyToTheMoon", json!({}), 404, "Not Found: method not found").await;
}

#[tokio::test]
async fn lengths_count_code_points() {
    let sandbox = any_token().await;
    ok(&sandbox, "sendMessage", json!({"chat_id": 5, "text": "😀".repeat(4096)})).await;
    check_error(
        &sandbox,
        "sendMessage",
        json!({"chat_id": 5, "text": "😀".repeat(4097)}),
        400,
        "Bad Request: message is too long",
    )
    .await;
}

#[tokio::test]
async fn a_broken_json_body_is_no_body() {
    let sandbox = any_token().await;
    let body = "{\"chat_id\": 5, ";
    let head = format!(
        "POST /telegram/bot1:token/sendMessage HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\
         content-type: application/json\r\n\r\n{body}",
        body.len()
    );
    let (answer, _) = raw(&sandbox, head.as_bytes()).await;
    assert_eq!(parsed(&answer).json()["description"], "Bad Request: message text is empty");
}

#[tokio::test]
async fn tokens_and_sizes_are_checked() {
    let sandbox = started(Options::default()).await;
    sandbox.add_account(&json!({"platform": "telegram", "token": "1:token"})).expect("registered");
    let status = |path: &'static str| {
        let sandbox = &sandbox;
        async move {
            let answer = call(sandbox, "GET", path, &Value::Null).await;
            (answer.status, answer.json()["description"].as_str().unwrap_or_default().to_owned())
        }
    };
    assert_eq!(status("/telegram/bot1:token/getMe").await.0, 200);
    assert_eq!(status("/telegram/bot2:other/getMe").await, (401, "Unauthorized".into()));
    assert_eq!(status("/telegram/bot0:x/getMe").await, (401, "Unauthorized: invalid token specified".into()));
    assert_eq!(status("/telegram/botx/getMe").await, (401, "Unauthorized: invalid token specified".into()));
    assert_eq!(status("/telegram/hello").await, (404, "Not Found".into()));
    assert_eq!(status("/telegram/file/bot1:token/photos/x.jpg").await, (404, "Not Found".into()));
    let unknown = api(&sandbox, "sendMessage", json!({"chat_id": 5, "text": "x"})).await;
    assert_eq!(unknown.json()["description"], "Bad Request: chat not found");
    let large = b"POST /telegram/bot1:token/sendDocument HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 99999999\r\n\r\n";
    let (answer, _) = raw(&sandbox, large).await;
    assert_eq!(
        (parsed(&answer).status, parsed(&answer).json()["description"].as_str()),
        (413, Some("Request Entity Too Large"))
    );
    let stuffed = api(&sandbox, "sendMessage", json!({"text": "x".repeat(1 << 21)})).await;
    assert_eq!(stuffed.json()["description"], "Request Entity Too Large: too many parameters");
}

#[tokio::test]
async fn a_photo_comes_back_by_file_id_and_by_download() {
    let sandbox = any_token().await;
    let bytes = picture(&sandbox, "rex");
    let parts: [Part<'_>; 3] =
        [("chat_id", None, b"5"), ("caption", None, b"Rex"), ("photo", Some("rex.jpg"), &bytes)];
    let message = multipart(&sandbox, "sendPhoto", &parts).await.json()["result"].clone();
    let sizes = message["photo"].as_array().expect("sizes");
    let largest = sizes.last().expect("a size");
    assert_eq!((largest["width"].as_i64(), largest["height"].as_i64()), (Some(800), Some(600)));
    assert_eq!((message["caption"].as_str(), sizes.len()), (Some("Rex"), 3));
    let file = ok(&sandbox, "getFile", json!({"file_id": largest["file_id"]})).await;
    let path = format!("/telegram/file/bot1:token/{}", file["file_path"].as_str().expect("a path"));
    assert_eq!(call(&sandbox, "GET", &path, &Value::Null).await.body, bytes);
    let again = ok(&sandbox, "sendPhoto", json!({"chat_id": 6, "photo": largest["file_id"]})).await;
    assert_eq!(again["photo"][0]["file_unique_id"], message["photo"][0]["file_unique_id"]);
    let rows = sandbox.core().ledger.rows(Name::Telegram);
    let hash = sandbox::media::sha256_hex(&bytes);
    assert_eq!(
        (&rows[0].media[0]["sha256"], &rows.last().expect("a row").media[0]["sha256"]),
        (&json!(hash), &json!(hash))
    );
    let foreign = call(
        &sandbox,
        "POST",
        "/telegram/bot2:token/sendPhoto",
        &json!({"chat_id": 5, "photo": largest["file_id"]}),
    )
    .await;
    assert_eq!(foreign.json()["description"], "Bad Request: wrong file identifier/HTTP URL specified");
    check_error(
        &sandbox,
        "sendDocument",
        json!({"chat_id": 5, "document": largest["file_id"]}),
        400,
        "Bad Request: can't use file of type Photo as Document",
    )
    .await;
    let parts: [Part<'_>; 2] = [("chat_id", None, b"5"), ("photo", Some("x.jpg"), b"no picture")];
    assert_eq!(
        multipart(&sandbox, "sendPhoto", &parts).await.json()["description"],
        "Bad Request: IMAGE_PROCESS_FAILED"
    );
}

#[tokio::test]
async fn media_by_url_are_fetched_from_loopback_only() {
    let sandbox = any_token().await;
    let own = format!("{}/_/pictures/rex.jpg", sandbox.origin());
    let message = ok(&sandbox, "sendPhoto", json!({"chat_id": 5, "photo": own})).await;
    assert_eq!(message["photo"][2]["width"], 800);
    ok(&sandbox, "sendPhoto", json!({"chat_id": 5, "photo": "https://pictures.example/cat.jpg"})).await;
    let rows = sandbox.core().ledger.rows(Name::Telegram);
    assert_eq!(rows[0].media[0]["sha256"], json!(sandbox::media::sha256_hex(&picture(&sandbox, "rex"))));
    assert_eq!(
        (rows[1].media[0]["sha256"].clone(), rows[1].media[0]["url"].clone()),
        (Value::Null, json!("https://pictures.example/cat.jpg"))
    );
    let page = format!("{}/_/stats", sandbox.origin());
    check_error(
        &sandbox,
        "sendPhoto",
        json!({"chat_id": 5, "photo": page}),
        400,
        "Bad Request: wrong type of the web page content",
    )
    .await;
    let gone = format!("{}/_/nothing.jpg", sandbox.origin());
    check_error(
        &sandbox,
        "sendPhoto",
        json!({"chat_id": 5, "photo": gone}),
        400,
        "Bad Request: failed to get HTTP URL content",
    )
    .await;
}

#[tokio::test]
async fn an_album_is_one_request_with_many_messages() {
    let sandbox = any_token().await;
    let (one, two) = (picture(&sandbox, "one"), picture(&sandbox, "two"));
    let media = json!([
        {"type": "photo", "media": "attach://a", "caption": "<i>двое</i>", "parse_mode": "HTML"},
        {"type": "photo", "media": "attach://b"},
    ]);
    let media = media.to_string();
    let parts: [Part<'_>; 4] = [
        ("chat_id", None, b"5"),
        ("media", None, media.as_bytes()),
        ("a", Some("a.jpg"), &one),
        ("b", Some("b.jpg"), &two),
    ];
    let messages = multipart(&sandbox, "sendMediaGroup", &parts).await.json()["result"].clone();
    assert_eq!((messages[0]["message_id"].clone(), messages[1]["message_id"].clone()), (json!(1), json!(2)));
    assert_eq!(messages[0]["media_group_id"], messages[1]["media_group_id"]);
    assert!(messages[0]["media_group_id"].is_string());
    assert_eq!(messages[0]["caption_entities"][0]["type"], "italic");
    let row = &sandbox.core().ledger.rows(Name::Telegram)[0];
    assert_eq!(
        (row.visible_id.clone(), row.media.len(), row.text.as_deref()),
        (json!([1, 2]), 2, Some("двое"))
    );
    let mixed = json!([{"type": "document", "media": "https://a.example/x.pdf"}, {"type": "photo", "media": "https://a.example/x.jpg"}]);
    check_error(
        &sandbox,
        "sendMediaGroup",
        json!({"chat_id": 5, "media": mixed}),
        400,
        "Bad Request: document can't be mixed with other media types",
    )
    .await;
    let eleven = vec![json!({"type": "photo", "media": "https://a.example/x.jpg"}); 11];
    check_error(
        &sandbox,
        "sendMediaGroup",
        json!({"chat_id": 5, "media": eleven}),
        400,
        "Bad Request: too many messages to send as an album",
    )
    .await;
}

#[tokio::test]
async fn edits_and_deletions_change_what_a_reader_sees() {
    let sandbox = any_token().await;
    ok(&sandbox, "sendMessage", json!({"chat_id": CHANNEL, "text": "раз"})).await;
    let edited =
        ok(&sandbox, "editMessageText", json!({"chat_id": CHANNEL, "message_id": 1, "text": "два"})).await;
    assert!(edited["edit_date"].is_i64());
    let key = CHANNEL.to_string();
    let shown = sandbox.core().chats.messages(Name::Telegram, &key);
    assert_eq!((shown[0].text.as_str(), shown[0].edited_at.is_some()), ("два", true));
    let same = json!({"chat_id": CHANNEL, "message_id": 1, "text": "два"});
    check_error(&sandbox, "editMessageText", same, 400, "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message").await;
    check_error(
        &sandbox,
        "editMessageCaption",
        json!({"chat_id": CHANNEL, "message_id": 1, "caption": "x"}),
        400,
        "Bad Request: there is no caption in the message to edit",
    )
    .await;
    let media = json!({"type": "photo", "media": format!("{}/_/pictures/a.jpg", sandbox.origin()), "caption": "фото"});
    ok(&sandbox, "editMessageMedia", json!({"chat_id": CHANNEL, "message_id": 1, "media": media})).await;
    ok(&sandbox, "editMessageCaption", json!({"chat_id": CHANNEL, "message_id": 1, "caption": "подпись"}))
        .await;
    check_error(
        &sandbox,
        "editMessageText",
        json!({"chat_id": CHANNEL, "message_id": 1, "text": "x"}),
        400,
        "Bad Request: there is no text in the message to edit",
    )
    .await;
    let shown = sandbox.core().chats.messages(Name::Telegram, &key);
    assert_eq!((shown[0].text.as_str(), shown[0].media.len()), ("подпись", 1));
    ok(&sandbox, "pinChatMessage", json!({"chat_id": CHANNEL, "message_id": 1})).await;
    assert!(sandbox.core().chats.messages(Name::Telegram, &key)[0].pinned);
    let copy =
        ok(&sandbox, "copyMessage", json!({"chat_id": 5, "from_chat_id": CHANNEL, "message_id": 1})).await;
    assert_eq!(copy, json!({"message_id": 1}));
    assert_eq!(sandbox.core().chats.messages(Name::Telegram, "5")[0].text, "подпись");
    assert_eq!(
        ok(&sandbox, "deleteMessage", json!({"chat_id": CHANNEL, "message_id": 1})).await,
        json!(true)
    );
    assert!(sandbox.core().chats.messages(Name::Telegram, &key).is_empty());
    let other = call(
        &sandbox,
        "POST",
        "/telegram/bot2:token/editMessageText",
        &json!({"chat_id": 5, "message_id": 1, "text": "x"}),
    )
    .await;
    assert_eq!(other.json()["description"], "Bad Request: message can't be edited");
}

#[tokio::test]
async fn updates_are_confirmed_by_the_next_offset() {
    let sandbox = any_token().await;
    for text in ["раз", "два", "три"] {
        sandbox
            .inject(Name::Telegram, &json!({"account": "1:token", "chat": 5, "from": "Аня", "text": text}))
            .expect("queued");
    }
    let updates = ok(&sandbox, "getUpdates", json!({"limit": 2})).await;
    let first = updates[0]["update_id"].as_i64().expect("a number");
    assert_eq!(
        (updates.as_array().map(Vec::len), updates[0]["message"]["text"].as_str()),
        (Some(2), Some("раз"))
    );
    assert_eq!(updates[0]["message"]["from"]["first_name"], "Аня");
    let rest = ok(&sandbox, "getUpdates", json!({"offset": first + 2})).await;
    assert_eq!((rest.as_array().map(Vec::len), rest[0]["message"]["text"].as_str()), (Some(1), Some("три")));
    let all = ok(&sandbox, "getUpdates", json!({})).await;
    assert_eq!(all.as_array().map(Vec::len), Some(1), "the first two are forgotten");
    for text in ["четыре", "пять"] {
        sandbox.inject(Name::Telegram, &json!({"account": "1", "chat": 5, "text": text})).expect("queued");
    }
    let last = ok(&sandbox, "getUpdates", json!({"offset": -1})).await;
    assert_eq!((last.as_array().map(Vec::len), last[0]["message"]["text"].as_str()), (Some(1), Some("пять")));
}

#[tokio::test]
async fn a_long_poll_wakes_up_and_a_second_poller_ends_the_first() {
    let sandbox = any_token().await;
    let body = json!({"timeout": 50});
    let (first, second) = {
        let first = api(&sandbox, "getUpdates", body.clone());
        let second = async {
            while sandbox.core().ledger.received(Name::Telegram) == 0 {
                tokio::task::yield_now().await;
            }
            let poll = api(&sandbox, "getUpdates", body.clone());
            let user = async {
                while sandbox.core().ledger.received(Name::Telegram) < 2 {
                    tokio::task::yield_now().await;
                }
                sandbox
                    .inject(Name::Telegram, &json!({"account": "1:token", "chat": 5, "text": "эй"}))
                    .expect("queued");
            };
            tokio::join!(poll, user).0
        };
        tokio::join!(first, second)
    };
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let (winner, loser) = if first.status == 200 { (first, second) } else { (second, first) };
    assert_eq!(winner.json()["result"][0]["message"]["text"], "эй");
    assert_eq!(
        loser.json()["description"],
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
    );
}

#[tokio::test]
async fn a_pressed_button_becomes_a_callback_query() {
    let sandbox = any_token().await;
    let markup = json!({"inline_keyboard": [[{"text": "Да", "callback_data": "yes"}, {"text": "Сайт", "url": "https://example.com"}]]});
    let sent =
        ok(&sandbox, "sendMessage", json!({"chat_id": 5, "text": "?", "reply_markup": markup.to_string()}))
            .await;
    assert_eq!(sent["reply_markup"]["inline_keyboard"][0][1]["url"], "https://example.com/");
    let shown = &sandbox.core().chats.messages(Name::Telegram, "5")[0];
    let press = shown.buttons[0][0].press.clone().expect("can be pressed");
    sandbox.inject(Name::Telegram, &press).expect("pressed");
    let query = ok(&sandbox, "getUpdates", json!({})).await[0]["callback_query"].clone();
    assert_eq!(
        (query["data"].as_str(), query["message"]["text"].as_str(), query["from"]["id"].as_i64()),
        (Some("yes"), Some("?"), Some(5))
    );
    assert!(query["chat_instance"].is_string());
    let answer = json!({"callback_query_id": query["id"], "text": "спасибо"});
    assert_eq!(ok(&sandbox, "answerCallbackQuery", answer.clone()).await, json!(true));
    check_error(
        &sandbox,
        "answerCallbackQuery",
        answer,
        400,
        "Bad Request: query is too old and response timeout expired or query ID is invalid",
    )
    .await;
}

#[tokio::test]
async fn a_webhook_gets_updates_and_may_answer_with_a_call() {
    let sandbox = any_token().await;
    let bot = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/hook", bot.local_addr().expect("an address"));
    let set = api(&sandbox, "setWebhook", json!({"url": url, "secret_token": "abc"})).await.json();
    assert_eq!(set, json!({"ok": true, "result": true, "description": "Webhook was set"}));
    check_error(&sandbox, "getUpdates", json!({}), 409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first").await;
    sandbox
        .inject(Name::Telegram, &json!({"account": "1:token", "chat": 5, "text": "привет"}))
        .expect("queued");
    let failed = crate::wire::hook_call(&bot, "500 Oops\r\nretry-after: 0").await;
    let reply = json!({"method": "sendMessage", "chat_id": 5, "text": "ответ"}).to_string();
    let call = crate::wire::hook_call_with_body(&bot, "200 OK", &reply).await;
    assert_eq!(
        (call.json()["update_id"].clone(), call.json()["message"]["text"].as_str()),
        (failed.json()["update_id"].clone(), Some("привет"))
    );
    assert!(call.head.contains("x-telegram-bot-api-secret-token: abc\r\n"), "{}", call.head);
    let said = |text: &str| {
        sandbox.core().chats.messages(Name::Telegram, "5").iter().any(|shown| shown.text == text)
    };
    while !said("ответ") {
        tokio::task::yield_now().await;
    }
    let info = ok(&sandbox, "getWebhookInfo", json!({})).await;
    assert_eq!(
        (info["url"].as_str(), info["last_error_message"].as_str()),
        (Some(url.as_str()), Some("Wrong response from the webhook: 500"))
    );
    let deleted = api(&sandbox, "deleteWebhook", json!({})).await.json();
    assert_eq!(deleted["description"], "Webhook was deleted");
}

#[tokio::test]
async fn registered_chats_have_their_troubles() {
    let sandbox = started(Options::default()).await;
    sandbox.add_account(&json!({"platform": "telegram", "token": "1:token"})).expect("registered");
    let table = [
        (json!({"id": 7, "blocked": true}), 403, "Forbidden: bot was blocked by the user"),
        (json!({"id": 8, "deactivated": true}), 403, "Forbidden: user is deactivated"),
        (
            json!({"id": 9, "not_started": true}),
            403,
            "Forbidden: bot can't initiate conversation with a user",
        ),
        (json!({"id": -7, "bot_status": "kicked"}), 403, "Forbidden: bot was kicked from the group chat"),
        (
            json!({"id": -1_000_000_000_007_i64, "bot_status": "left", "type": "supergroup"}),
            403,
            "Forbidden: bot is not a member of the supergroup chat",
        ),
        (
            json!({"id": -1_000_000_000_008_i64, "bot_status": "member"}),
            400,
            "Bad Request: need administrator rights in the channel chat",
        ),
        (
            json!({"id": -8, "bot_status": "restricted"}),
            400,
            "Bad Request: not enough rights to send text messages to the chat",
        ),
        (
            json!({"id": -9, "migrate_to": -1_000_000_000_009_i64}),
            400,
            "Bad Request: group chat was upgraded to a supergroup chat",
        ),
        (
            json!({"id": -1_000_000_000_010_i64, "type": "supergroup", "is_forum": true}),
            400,
            "Bad Request: message thread not found",
        ),
    ];
    for (mut chat, code, description) in table {
        chat["platform"] = "telegram".into();
        sandbox.add_chat(&chat).expect("registered");
        check_error(
            &sandbox,
            "sendMessage",
            json!({"chat_id": chat["id"], "text": "x", "message_thread_id": 1}),
            code,
            description,
        )
        .await;
    }
    let moved = api(&sandbox, "sendMessage", json!({"chat_id": -9, "text": "x"})).await.json();
    assert_eq!(moved["parameters"]["migrate_to_chat_id"], -1_000_000_000_009_i64);
    sandbox
        .add_chat(
            &json!({"platform": "telegram", "id": CHANNEL, "username": "pets_channel", "title": "Питомцы"}),
        )
        .expect("registered");
    let named = ok(&sandbox, "sendMessage", json!({"chat_id": "@Pets_Channel", "text": "x"})).await;
    assert_eq!(
        (named["chat"]["id"].as_i64(), named["chat"]["title"].as_str()),
        (Some(CHANNEL), Some("Питомцы"))
    );
    let member = ok(&sandbox, "getChatMember", json!({"chat_id": CHANNEL, "user_id": 1})).await;
    assert_eq!(
        (member["status"].as_str(), member["can_post_messages"].as_bool()),
        (Some("administrator"), Some(true))
    );
}

// -- speed limits, on a clock that stands still

async fn limited() -> (Sandbox, Clock) {
    let clock = Clock::hand(1_800_000_000_000);
    let options =
        Options { any_token: true, limits: LimitsMode::Real, clock: clock.clone(), ..Options::default() };
    (started(options).await, clock)
}

async fn status_of(sandbox: &Sandbox, chat: i64) -> u16 {
    api(sandbox, "sendMessage", json!({"chat_id": chat, "text": "x"})).await.status
}

#[tokio::test]
async fn the_31st_message_in_a_second_is_a_flood() {
    let (sandbox, clock) = limited().await;
    for chat in 1..=30 {
        assert_eq!(status_of(&sandbox, chat).await, 200);
    }
    let flood = api(&sandbox, "sendMessage", json!({"chat_id": 31, "text": "x"})).await;
    assert_eq!(
        flood.json(),
        json!({"ok": false, "error_code": 429, "description": "Too Many Requests: retry after 1", "parameters": {"retry_after": 1}})
    );
    assert!(flood.head.contains("retry-after: 1"));
    clock.advance(1000);
    assert_eq!(status_of(&sandbox, 31).await, 200);
}

#[tokio::test]
async fn the_second_message_in_a_second_to_one_chat_is_a_flood() {
    let (sandbox, clock) = limited().await;
    assert_eq!((status_of(&sandbox, 5).await, status_of(&sandbox, 5).await), (200, 429));
    clock.advance(999);
    assert_eq!(status_of(&sandbox, 5).await, 429);
    clock.advance(1);
    assert_eq!(status_of(&sandbox, 5).await, 200);
}

#[tokio::test]
async fn the_21st_message_in_a_minute_to_one_group_is_a_flood() {
    let (sandbox, clock) = limited().await;
    for _ in 0..20 {
        assert_eq!(status_of(&sandbox, -5).await, 200);
        clock.advance(1000);
    }
    let flood = api(&sandbox, "sendMessage", json!({"chat_id": -5, "text": "x"})).await;
    assert_eq!(flood.json()["parameters"]["retry_after"], 40);
    clock.advance(40_000);
    assert_eq!(status_of(&sandbox, -5).await, 200);
}

#[tokio::test]
async fn a_paid_broadcast_may_send_a_thousand_a_second() {
    let (sandbox, _) = limited().await;
    sandbox
        .add_account(&json!({"platform": "telegram", "token": "1:token", "paid_broadcast": true}))
        .expect("registered");
    for chat in 1..=100 {
        let body = json!({"chat_id": chat, "text": "x", "allow_paid_broadcast": true});
        assert_eq!(api(&sandbox, "sendMessage", body).await.status, 200);
    }
    assert_eq!(status_of(&sandbox, 101).await, 429, "unpaid calls keep the plain limit");
}

#[tokio::test]
async fn ledger_and_chats_stay_within_their_limits() {
    let sandbox =
        started(Options { any_token: true, ledger_max: 10, messages_max: 10, ..Options::default() }).await;
    for chat in 1..=30 {
        assert_eq!(status_of(&sandbox, chat).await, 200);
    }
    let rows = sandbox.core().ledger.rows(Name::Telegram);
    assert_eq!(
        (rows.len(), rows[0].chat.clone(), sandbox.core().ledger.received(Name::Telegram)),
        (10, json!(21), 30)
    );
    assert_eq!(
        (sandbox.core().chats.n_messages(Name::Telegram), sandbox.core().chats.n_chats(Name::Telegram)),
        (10, 10)
    );
    assert!(sandbox.core().chats.messages(Name::Telegram, "20").is_empty());
}

#[tokio::test]
async fn reset_wipes_what_was_said_and_keeps_who_exists() {
    let sandbox = any_token().await;
    sandbox
        .add_chat(&json!({"platform": "telegram", "id": CHANNEL, "title": "Питомцы"}))
        .expect("registered");
    ok(&sandbox, "sendMessage", json!({"chat_id": CHANNEL, "text": "x"})).await;
    sandbox.arm(&json!({"platform": "telegram", "kind": "500"})).expect("armed");
    assert_eq!(call(&sandbox, "POST", "/_/reset", &Value::Null).await.status, 200);
    let chats = call(&sandbox, "GET", "/_/chats", &Value::Null).await.json();
    assert_eq!(
        (chats["telegram"][0]["title"].as_str(), chats["telegram"][0]["messages"].clone()),
        (Some("Питомцы"), json!([]))
    );
    assert!(sandbox.core().ledger.rows(Name::Telegram).is_empty() && sandbox.core().faults.list().is_empty());
    assert_eq!(ok(&sandbox, "sendMessage", json!({"chat_id": CHANNEL, "text": "x"})).await["message_id"], 1);
}
