//! What is refused, and with which words; and that nothing ever makes the emulator fall.

use sandbox::{Clock, LimitsMode, Options};

use super::*;

#[tokio::test]
async fn tokens_come_in_the_header_and_bare() {
    let world = World::registered(json!({})).await;
    world.ok("GET", "/me", Value::Null).await;
    let table = [
        (Some("Bearer max-token"), "/max/me", "Invalid access_token"),
        (Some("other"), "/max/me", "Invalid access_token"),
        (None, "/max/me", "Empty access_token"),
        (None, "/max/me?access_token=max-token", "Empty access_token"),
    ];
    for (header, path, message) in table {
        let headers: Vec<(&str, &str)> = header.map(|token| ("authorization", token)).into_iter().collect();
        let answer = world.raw("GET", path, &headers, b"").await;
        assert_eq!(answer.status, 401, "{header:?} {path}");
        assert_eq!(answer.json(), json!({ "code": "verify.token", "message": message }));
    }
    let open = World::new().await;
    let bearer = open.raw("GET", "/max/me", &[("authorization", "Bearer x")], b"").await;
    assert_eq!(bearer.status, 401);
    let old = World::registered(json!({ "query_token": true })).await;
    assert_eq!(old.raw("GET", "/max/me?access_token=max-token", &[], b"").await.status, 200);
}

#[tokio::test]
async fn bodies_that_break_the_rules_are_refused_in_the_words_of_the_server() {
    let world = World::registered(json!({})).await;
    let image = world.uploaded("image", "a.jpg", &world.picture("rex")).await;
    let file = world.uploaded("file", "a.pdf", b"%PDF-1.4").await;
    let audio = world.uploaded("audio", "a.mp3", b"ID3").await;
    let image = json!({ "type": "image", "payload": { "token": image } });
    let file = json!({ "type": "file", "payload": { "token": file } });
    let audio = json!({ "type": "audio", "payload": { "token": audio } });
    let keyboard = |buttons: Value| json!({ "type": "inline_keyboard", "payload": { "buttons": buttons } });
    let button = |button: Value| keyboard(json!([[button]]));
    let yes = json!({ "type": "message", "text": "да" });
    let with = |attachments: Value| json!({ "text": "x", "attachments": attachments });
    let size = "attachments[0].payload.buttons[0].<list element>[0]";
    let deserialize = "Can't deserialize body";
    let table: Vec<(Value, String)> = vec![
        (json!({}), "Message must contain text or attachments".into()),
        (json!({ "text": "" }), "Message must contain text or attachments".into()),
        (json!({ "text": "й".repeat(4001) }), "text: size must be between 0 and 4000".into()),
        (json!({ "text": "🐕".repeat(2001) }), "text: size must be between 0 and 4000".into()),
        (json!({ "text": 5 }), deserialize.into()),
        (json!([]), deserialize.into()),
        (json!({ "text": "x", "format": "xml" }), deserialize.into()),
        (json!({ "text": "x", "notify": "yes" }), deserialize.into()),
        (json!({ "text": "x", "link": { "type": "quote", "mid": "mid.1" } }), deserialize.into()),
        (json!({ "text": "x", "link": { "type": "reply" } }), deserialize.into()),
        (json!({ "text": "x", "attachments": {} }), deserialize.into()),
        (with(json!([5])), deserialize.into()),
        (with(json!([{ "type": "hologram" }])), deserialize.into()),
        (
            with(json!([{ "type": "image", "payload": {} }])),
            "No `photos`, `url` or `token` provided. Check payload.".into(),
        ),
        (with(json!([{ "type": "image" }])), "No `photos`, `url` or `token` provided. Check payload.".into()),
        (
            with(json!([{ "type": "image", "payload": { "token": "no" } }])),
            "Invalid `token` in image attachment".into(),
        ),
        (
            with(json!([{ "type": "image", "payload": { "url": "ftp://a" } }])),
            "Failed to upload image by `url`".into(),
        ),
        (
            with(json!([{ "type": "file", "payload": { "url": "https://a.b" } }])),
            "Missing `token` in video attachment".into(),
        ),
        (with(json!([{ "type": "video", "payload": {} }])), "Missing `token` in video attachment".into()),
        (
            with(json!([{ "type": "video", "payload": file["payload"] }])),
            "Invalid `token` in video attachment".into(),
        ),
        (with(json!([file, file])), "Must be only one file attachment in message".into()),
        (with(json!([file, image])), "Must be only one file attachment in message".into()),
        (with(json!([audio, image])), "Must be only one audio attachment in message".into()),
        (
            with(json!([{ "type": "sticker", "payload": { "code": "a" } }, image])),
            "Must be only one sticker attachment in message".into(),
        ),
        (with(json!(vec![image.clone(); 13])), "attachments: size must be between 0 and 12".into()),
        (json!({ "attachments": [button(yes.clone())] }), "Message must contain text or attachments".into()),
        (
            with(json!([button(yes.clone()), button(yes.clone())])),
            "Must be only one inline keyboard in message".into(),
        ),
        (
            with(json!([button(json!({ "type": "open_app", "text": "a", "contact_id": 5 }))])),
            "Field 'webApp' cannot be null".into(),
        ),
        (
            with(json!([button(json!({ "type": "chat", "text": "a", "chat_title": "b" }))])),
            deserialize.into(),
        ),
        (
            with(json!([button(json!({ "type": "link", "text": "a", "url": "h".repeat(2049) }))])),
            format!("{size}.url: size must be between 0 and 2048"),
        ),
        (
            with(json!([button(json!({ "type": "message", "text": "" }))])),
            format!("{size}.text: size must be between 1 and 128"),
        ),
        (
            with(json!([button(json!({ "type": "callback", "text": "a", "payload": "p".repeat(1025) }))])),
            format!("{size}.payload: size must be between 0 and 1024"),
        ),
        (
            with(json!([keyboard(json!([vec![yes.clone(); 8]]))])),
            "attachments[0].payload.buttons[0]: size must be between 1 and 7".into(),
        ),
        (
            with(json!([keyboard(json!([[yes, yes, yes, { "type": "request_contact", "text": "a" }]]))])),
            "attachments[0].payload.buttons[0]: size must be between 1 and 3".into(),
        ),
        (
            with(json!([keyboard(json!(vec![vec![yes.clone()]; 31]))])),
            "attachments[0].payload.buttons: size must be between 1 and 30".into(),
        ),
        (with(json!([keyboard(json!(5))])), deserialize.into()),
        (
            with(json!([{ "type": "location", "payload": { "latitude": 1, "longitude": 2 } }])),
            deserialize.into(),
        ),
        (with(json!([{ "type": "share", "payload": {} }])), deserialize.into()),
    ];
    let path = format!("/messages?chat_id={GROUP}");
    for (body, message) in table {
        world.refused("POST", &path, body, 400, "proto.payload", &message).await;
        assert_eq!(world.last_row()["accepted"], false);
    }
    assert!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()).is_empty());
    // What is just inside the limits is taken.
    world.sent(json!({ "text": "🐕".repeat(2000) })).await;
    world.sent(json!({ "text": "x", "attachments": vec![image.clone(); 12] })).await;
    world.sent(json!({ "attachments": [file, button(yes.clone())] })).await;
}

#[tokio::test]
async fn open_questions_have_both_answers() {
    let world = World::registered(json!({ "text_unit": "code_points", "mix_audio": true, "unknown_user": "chat.denied", "retired_methods": false })).await;
    world.sent(json!({ "text": "🐕".repeat(4000) })).await;
    let image = world.uploaded("image", "a.jpg", &world.picture("rex")).await;
    let audio = world.uploaded("audio", "a.mp3", b"ID3").await;
    let mixed = json!([{ "type": "image", "payload": { "token": image } }, { "type": "audio", "payload": { "token": audio } }]);
    world.sent(json!({ "attachments": mixed })).await;
    let denied = "User 5 has not opened the bot";
    world.refused("POST", "/messages?user_id=5", json!({ "text": "x" }), 403, "chat.denied", denied).await;
    world.refused("GET", "/chats", Value::Null, 404, "not.found", "Method was removed").await;
    let refused =
        world.sandbox.add_account(&json!({ "platform": "max", "token": "t", "text_unit": "bytes" }));
    let message = refused.expect_err("an unknown unit").message;
    assert!(message.contains("utf16 or code_points"), "{message}");
}

#[tokio::test]
async fn chats_that_cannot_be_reached_say_why() {
    let world = World::registered(json!({})).await;
    world.chat(json!({ "id": -3, "type": "channel", "permissions": ["read_all_messages"] }));
    world.chat(json!({ "id": -4, "type": "chat", "status": "removed" }));
    world.chat(json!({ "id": 5, "type": "dialog", "status": "suspended" }));
    let text = || json!({ "text": "x" });
    let no_right = "chat.send.msg.no.permission.because.not.admin";
    world.refused("POST", "/messages?chat_id=-3", text(), 403, "chat.denied", no_right).await;
    world.refused("POST", "/messages?chat_id=-4", text(), 403, "chat.denied", "chat.denied").await;
    world.refused("POST", "/messages?chat_id=5", text(), 403, "chat.denied", "error.dialog.suspended").await;
    world.refused("POST", "/messages?chat_id=-9", text(), 404, "chat.not.found", "Chat -9 not found").await;
    world
        .refused("POST", "/messages?user_id=9", text(), 404, "chat.not.found", "Chat with user 9 not found")
        .await;
    let one = "One of `chat_id` and `user_id` must be specified";
    world.refused("POST", "/messages", text(), 400, "proto.payload", one).await;
    let both = "Only one of `chat_id` and `user_id` must be specified";
    world.refused("POST", "/messages?chat_id=-3&user_id=1", text(), 400, "proto.payload", both).await;
    world
        .refused("POST", "/messages?chat_id=x", text(), 400, "proto.payload", "chat_id: must be a number")
        .await;
}

#[tokio::test]
async fn wrong_methods_are_405_on_updates_and_answers_and_404_elsewhere() {
    let world = World::new().await;
    let allowed = "Method is not allowed";
    world.refused("POST", "/updates", json!({}), 405, "method.not.allowed", allowed).await;
    world.refused("GET", "/answers", Value::Null, 405, "method.not.allowed", allowed).await;
    let unknown = "Unknown path POST /me/commands";
    world.refused("POST", "/me/commands", json!({}), 404, "not.found", unknown).await;
}

#[tokio::test]
async fn the_third_message_within_a_second_to_one_chat_gets_the_flood_answer() {
    let clock = Clock::hand(1_800_000_000_000);
    let options = || Options { limits: LimitsMode::Real, clock: clock.clone(), ..Options::default() };
    let world = World::with(options(), json!({})).await;
    let path = format!("/messages?chat_id={GROUP}");
    world.sent(json!({ "text": "1" })).await;
    let second = world.sent(json!({ "text": "2" })).await;
    let flood = world.call("POST", &path, json!({ "text": "3" })).await;
    assert_eq!(flood.status, 429);
    assert_eq!(flood.json(), json!({ "code": "too.many.requests", "message": "Too many requests" }));
    assert!(!flood.head.contains("retry-after"), "{}", flood.head);
    assert_eq!(world.last_row()["accepted"], false);
    // Another chat, an edit and a deletion have windows of their own.
    world.ok("POST", &format!("/messages?chat_id={CHANNEL}"), json!({ "text": "1" })).await;
    let mid = second["body"]["mid"].as_str().expect("an id");
    world.ok("PUT", &format!("/messages?message_id={mid}"), json!({ "text": "4" })).await;
    world.ok("DELETE", &format!("/messages?message_id={mid}"), Value::Null).await;
    clock.advance(1000);
    world.sent(json!({ "text": "5" })).await;
    let telling = World::with(options(), json!({ "retry_after": true })).await;
    telling.sent(json!({ "text": "1" })).await;
    telling.sent(json!({ "text": "2" })).await;
    let flood = telling.call("POST", &path, json!({ "text": "3" })).await;
    assert!(flood.head.contains("retry-after: 1"), "{}", flood.head);
}

#[tokio::test]
async fn the_thirty_first_request_within_a_second_gets_the_flood_answer() {
    let clock = Clock::hand(1_800_000_000_000);
    let options = Options { limits: LimitsMode::Real, clock: clock.clone(), ..Options::default() };
    let world = World::with(options, json!({ "updates_limit": true })).await;
    for _ in 0..30 {
        world.ok("GET", "/me", Value::Null).await;
    }
    assert_eq!(world.call("GET", "/me", Value::Null).await.status, 429);
    clock.advance(1000);
    let statuses = [
        world.call("GET", "/updates?timeout=0", Value::Null).await.status,
        world.call("GET", "/updates?timeout=0", Value::Null).await.status,
        world.call("GET", "/updates?timeout=0", Value::Null).await.status,
    ];
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn faults_speak_as_the_platform() {
    let world = World::registered(json!({})).await;
    let path = format!("/messages?chat_id={GROUP}");
    let table = [
        (json!({ "kind": "429", "retry_after": 7 }), 429, "too.many.requests"),
        (json!({ "kind": "500" }), 500, "internal.error"),
        (json!({ "kind": "401" }), 401, "verify.token"),
        (json!({ "kind": "403" }), 403, "chat.denied"),
        (json!({ "kind": "404" }), 404, "not.found"),
        (json!({ "kind": "kicked" }), 403, "chat.denied"),
        (json!({ "kind": "blocked" }), 403, "chat.denied"),
        (json!({ "kind": "chat_not_found" }), 404, "chat.not.found"),
        (json!({ "kind": "attachment_not_ready" }), 400, "attachment.not.ready"),
    ];
    for (mut fault, status, code) in table {
        fault["platform"] = "max".into();
        fault["method"] = "POST /messages".into();
        fault["chat"] = GROUP.into();
        fault["times"] = 1.into();
        world.sandbox.arm(&fault).expect("arms");
        let answer = world.call("POST", &path, json!({ "text": "x" })).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (status, Some(code)));
        assert_eq!(
            (&world.last_row()["accepted"], &world.last_row()["fault"]),
            (&json!(false), &fault["kind"])
        );
    }
    let message = world.sent(json!({ "text": "x" })).await;
    let edit = format!("/messages?message_id={}", message["body"]["mid"].as_str().expect("an id"));
    world
        .sandbox
        .arm(&json!({ "platform": "max", "kind": "attachment_not_ready", "times": 1 }))
        .expect("arms");
    let not_ready = "Key: errors.process.attachment.file.not.processed";
    world.unsuccessful("PUT", &edit, json!({ "text": "y" }), not_ready).await;
    for kind in ["vk_error", "captcha"] {
        let refused = world.sandbox.arm(&json!({ "platform": "max", "kind": kind, "code": 5 }));
        assert!(refused.expect_err("means nothing here").known.contains(&"attachment_not_ready".to_owned()));
    }
}

/// Whatever comes, every route answers with one of the documented statuses and JSON.
#[tokio::test]
async fn nothing_that_comes_in_makes_it_fall() {
    let world = World::new().await;
    let message = world.sent(json!({ "text": "x" })).await;
    let mid = message["body"]["mid"].as_str().expect("an id");
    let paths = [
        "/me",
        "/me/commands",
        "/chats",
        "/chats/-1",
        "/chats/0",
        "/chats/99999999999999999999",
        "/chats/%00",
        "/chats/@x",
        "/chats/-1/actions",
        "/chats/-1/pin",
        "/chats/-1/members",
        "/chats/-1/members/me",
        "/chats/-1/members/admins",
        "/chats/-1/members/admins/5",
        "/chats/-1/members?user_id=x",
        "/messages",
        "/messages?chat_id=-1",
        "/messages?chat_id=-1&count=0&from=x",
        "/messages?user_id=-5",
        "/messages?message_id=mid.zz",
        "/messages?message_ids=,,",
        "/messages/x",
        "/messages/x/comments",
        "/messages/x/comments/y",
        "/videos/x",
        "/uploads",
        "/uploads?type=photo",
        "/upload/nothing",
        "/answers",
        "/answers?callback_id=x",
        "/subscriptions",
        "/subscriptions?url=x",
        "/updates?timeout=x",
        "/updates?timeout=91",
        "/updates?limit=0",
        "/updates?timeout=0&marker=-9223372036854775808",
        "/%ff",
        "/a/b/c/d/e/f",
    ];
    let own = format!("/messages?message_id={mid}");
    let bodies: [&[u8]; 14] = [
        b"", b"{", b"null", b"[]", b"5", b"\"x\"", b"{}", b"\xff\xfe", b"{\"text\":\"x\"}", b"{\"attachments\":[{\"type\":\"image\",\"payload\":[]}]}",
        b"{\"admins\":[{}],\"user_ids\":[\"x\"],\"commands\":[5],\"action\":5,\"message_id\":5,\"url\":5,\"secret\":5,\"update_types\":5}",
        b"{\"title\":\"\",\"icon\":5,\"message\":5,\"notification\":5,\"commands\":{}}",
        b"{\"link\":{\"type\":\"forward\",\"mid\":\"mid.00\"}}",
        b"{\"message\":{\"attachments\":[]},\"url\":\"https://\",\"update_types\":[\"x\"]}",
    ];
    for path in paths.iter().copied().chain([own.as_str()]) {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            for body in bodies {
                if method == "GET" && path == "/updates" {
                    continue;
                }
                let answer =
                    world.raw(method, &format!("/max{path}"), &[("authorization", TOKEN)], body).await;
                let known = [200, 400, 401, 403, 404, 405].contains(&answer.status);
                assert!(known, "{method} {path} {:?}: {}", String::from_utf8_lossy(body), answer.status);
                assert!(answer.json().is_object(), "{method} {path}");
            }
        }
    }
}
