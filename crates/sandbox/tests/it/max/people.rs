//! What users do: messages, pressed buttons, coming and going; and the bot's own profile.

use super::*;

#[tokio::test]
async fn a_short_message_becomes_an_update_and_is_visible() {
    let world = World::registered(json!({})).await;
    let update = world.inject(
        json!({ "chat": 77 ^ 500, "from": { "user_id": 500, "name": "Анна Котова" }, "text": "Помогите" }),
    );
    assert_eq!(update["update_type"], "message_created");
    let message = &update["message"];
    assert_eq!(
        (&message["sender"]["first_name"], &message["sender"]["last_name"]),
        (&json!("Анна"), &json!("Котова"))
    );
    // In a dialog the recipient of a user's message is the bot.
    assert_eq!(message["recipient"], json!({ "chat_id": 77 ^ 500, "chat_type": "dialog", "user_id": 77 }));
    assert_eq!(world.updates("timeout=0").await["updates"], json!([update]));
    let shown = json!(world.sandbox.core().chats.visible(Name::Max, Some(&(77 ^ 500).to_string()), 10));
    assert_eq!(
        (&shown[0]["title"], &shown[0]["messages"][0]["author"]["side"]),
        (&json!("Анна Котова"), &json!("user"))
    );
    // The user has opened the bot by it: it may answer.
    let reply = world.ok("POST", "/messages?user_id=500", json!({ "text": "Да?" })).await;
    assert_eq!(reply["message"]["recipient"]["user_id"], 500);
}

#[tokio::test]
async fn senders_may_be_numbers_names_or_nobody() {
    let world = World::registered(json!({})).await;
    let sender = |from: Value| {
        world.inject(json!({ "chat": GROUP, "from": from, "text": "x" }))["message"]["sender"].clone()
    };
    assert_eq!(sender(json!(500))["user_id"], 500);
    assert_eq!(sender(json!("501"))["user_id"], 501);
    let anna = sender(json!("Анна"));
    assert_eq!(anna["name"], "Анна");
    assert_eq!(sender(json!("Анна"))["user_id"], anna["user_id"]);
    assert!(sender(Value::Null)["user_id"].as_i64().is_some_and(|id| id > 0));
    let by_user = world.inject(json!({ "from": 502, "text": "в личку" }));
    assert_eq!(by_user["message"]["recipient"]["chat_id"], 77 ^ 502);
}

#[tokio::test]
async fn an_own_update_object_is_completed_and_keeps_its_ids() {
    let world = World::registered(json!({})).await;
    let update = world.inject(json!({
        "update_type": "message_created",
        "timestamp": 1_775_000_000_000_i64,
        "message": { "recipient": { "chat_id": GROUP }, "sender": { "user_id": 500 }, "body": { "mid": "mid.sha-more", "seq": 5, "text": "x" } },
    }));
    assert_eq!(
        (&update["timestamp"], &update["message"]["timestamp"]),
        (&json!(1_775_000_000_000_i64), &json!(1_775_000_000_000_i64))
    );
    assert_eq!(
        (&update["message"]["body"]["mid"], &update["message"]["body"]["seq"]),
        (&json!("mid.sha-more"), &json!(5))
    );
    assert_eq!(world.message("mid.sha-more").await["body"]["text"], "x");
    let edited = world.inject(json!({ "update_type": "message_edited", "message": { "body": { "mid": "mid.sha-more", "text": "y" } } }));
    assert_eq!(
        (&edited["message"]["body"]["text"], &edited["message"]["sender"]["user_id"]),
        (&json!("y"), &json!(500))
    );
    let removed = world.inject(json!({ "update_type": "message_removed", "message_id": "mid.sha-more" }));
    assert_eq!((&removed["chat_id"], &removed["user_id"]), (&json!(GROUP), &json!(500)));
    assert!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()).is_empty());
}

#[tokio::test]
async fn a_pressed_button_can_be_answered() {
    let world = World::registered(json!({})).await;
    let keyboard = json!([{ "type": "inline_keyboard", "payload": { "buttons": [[{ "type": "callback", "text": "Да", "payload": "yes" }]] } }]);
    let message = world.sent(json!({ "text": "Ваш?", "attachments": keyboard })).await;
    let mid = message["body"]["mid"].as_str().expect("an id").to_owned();
    // What the page sends when somebody presses the button.
    let shown = json!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()));
    let press = shown[0]["buttons"][0][0]["press"].clone();
    world.sandbox.inject(Name::Max, &press).expect("a press");
    let update = world.updates("timeout=0").await["updates"][0].clone();
    assert_eq!(
        (&update["update_type"], &update["callback"]["payload"]),
        (&json!("message_callback"), &json!("yes"))
    );
    assert_eq!(update["message"]["body"], message["body"]);
    let id = update["callback"]["callback_id"].as_str().expect("an id");
    let path = format!("/answers?callback_id={id}");
    world.ok("POST", &path, json!({ "notification": "Спасибо" })).await;
    assert_eq!((&world.last_row()["chat"], &world.last_row()["text"]), (&json!(GROUP), &json!("Спасибо")));
    assert_eq!(world.message(&mid).await["body"]["text"], "Ваш?");
    // An empty list removes, exactly as in an edit.
    world.ok("POST", &path, json!({ "message": { "text": "Ура!", "attachments": [] } })).await;
    let after = world.message(&mid).await;
    assert_eq!((&after["body"]["text"], after["body"].get("attachments")), (&json!("Ура!"), None));
    let nothing = json!({ "message": { "text": "", "notify": true } });
    world.unsuccessful("POST", &path, nothing, "Message must contain text or attachments").await;
    world.ok("POST", &path, json!({})).await;
    world
        .refused("POST", "/answers?callback_id=none", json!({}), 404, "not.found", "Callback none not found")
        .await;
    world
        .refused("POST", "/answers", json!({}), 400, "proto.payload", "`callback_id` must be specified")
        .await;
}

#[tokio::test]
async fn buttons_that_ask_for_something_get_it() {
    let world = World::registered(json!({})).await;
    let buttons = json!([[{ "type": "request_contact", "text": "a" }, { "type": "request_geo_location", "text": "b" }], [{ "type": "message", "text": "Хочу" }]]);
    let chat = 77 ^ 500;
    world.inject(json!({ "chat": chat, "text": "привет" }));
    let keyboard = json!([{ "type": "inline_keyboard", "payload": { "buttons": buttons } }]);
    world
        .ok("POST", &format!("/messages?chat_id={chat}"), json!({ "text": "?", "attachments": keyboard }))
        .await;
    let shown = json!(world.sandbox.core().chats.messages(Name::Max, &chat.to_string()));
    for [row, column] in [[0, 0], [0, 1], [1, 0]] {
        let press = &shown[1]["buttons"][row][column]["press"];
        world.sandbox.inject(Name::Max, press).expect("a press");
    }
    let updates = world.updates("timeout=0").await["updates"].clone();
    let contact = &updates[1]["message"]["body"]["attachments"][0];
    assert_eq!(
        (&contact["type"], &contact["payload"]["max_info"]["user_id"]),
        (&json!("contact"), &json!(500))
    );
    assert_eq!(contact["payload"]["hash"].as_str().map(str::len), Some(64));
    assert_eq!(updates[2]["message"]["body"]["attachments"][0]["type"], "location");
    assert_eq!(updates[3]["message"]["body"]["text"], "Хочу");
}

#[tokio::test]
async fn who_stops_the_bot_is_gone_until_it_is_started_again() {
    let world = World::registered(json!({})).await;
    let started = world.inject(json!({ "update_type": "bot_started", "user": { "user_id": 500, "name": "Анна" }, "payload": "from-site" }));
    assert_eq!(
        (&started["chat_id"], &started["payload"], &started["user_locale"]),
        (&json!(77 ^ 500), &json!("from-site"), &json!("ru"))
    );
    let text = || json!({ "text": "x" });
    world.ok("POST", "/messages?user_id=500", text()).await;
    for end in ["bot_stopped", "dialog_removed"] {
        world.inject(json!({ "update_type": end, "user": 500 }));
        world
            .refused("POST", "/messages?user_id=500", text(), 403, "chat.denied", "error.dialog.suspended")
            .await;
        world.inject(json!({ "update_type": "bot_started", "user": 500, "payload": "p".repeat(513) }));
        world.ok("POST", "/messages?user_id=500", text()).await;
    }
    let updates = world.updates("timeout=0").await["updates"].clone();
    assert!(updates[2].get("payload").is_none(), "a long payload is dropped");
    assert_eq!(updates[1]["user"]["first_name"], "Анна");
}

#[tokio::test]
async fn coming_and_going_changes_groups() {
    let world = World::registered(json!({})).await;
    world.inject(json!({ "update_type": "user_added", "chat_id": GROUP, "user": { "user_id": 500, "name": "Анна" }, "inviter_id": 5 }));
    let path = format!("/chats/{GROUP}/members?user_ids=500");
    assert_eq!(world.ok("GET", &path, Value::Null).await["members"][0]["name"], "Анна");
    let removed = world.inject(json!({ "update_type": "user_removed", "chat_id": GROUP, "user": 500 }));
    assert_eq!(removed["is_channel"], false);
    assert_eq!(world.ok("GET", &path, Value::Null).await, json!({ "members": [] }));
    world.inject(
        json!({ "update_type": "chat_title_changed", "chat_id": GROUP, "user": 500, "title": "Новое имя" }),
    );
    assert_eq!(world.ok("GET", &format!("/chats/{GROUP}"), Value::Null).await["title"], "Новое имя");
    world.inject(json!({ "update_type": "bot_removed", "chat_id": GROUP, "user": 500 }));
    let send = format!("/messages?chat_id={GROUP}");
    world.refused("POST", &send, json!({ "text": "x" }), 403, "chat.denied", "chat.denied").await;
    assert_eq!(world.ok("GET", &format!("/chats/{GROUP}"), Value::Null).await["status"], "removed");
    // A chat that nobody registered exists once the bot was added to it.
    let added = world.inject(json!({ "update_type": "bot_added", "chat_id": -99, "user": 500 }));
    assert_eq!(added["is_channel"], false);
    world.ok("POST", "/messages?chat_id=-99", json!({ "text": "x" })).await;
}

#[tokio::test]
async fn rights_that_are_taken_away_are_missed() {
    let world = World::registered(json!({})).await;
    let update = json!({ "update_type": "bot_admin_permissions_changed", "chat_id": CHANNEL, "user_id": 5, "permissions": ["read_all_messages"] });
    let update = world.inject(update);
    assert_eq!(
        (&update["bot_id"], &update["is_admin"], &update["is_channel"]),
        (&json!(77), &json!(true), &json!(true))
    );
    // It comes by webhook only.
    assert_eq!(world.updates("timeout=0").await["updates"], json!([]));
    let path = format!("/messages?chat_id={CHANNEL}");
    let no_right = "chat.send.msg.no.permission.because.not.admin";
    world.refused("POST", &path, json!({ "text": "x" }), 403, "chat.denied", no_right).await;
    world.inject(json!({ "update_type": "bot_admin_permissions_changed", "chat_id": GROUP, "user_id": 5, "permissions": [] }));
    world.inject(json!({ "chat": GROUP, "from": 5, "text": "не слышно" }));
    assert_eq!(world.updates("timeout=0").await["updates"], json!([]));
}

#[tokio::test]
async fn without_an_account_every_bot_hears_the_same_group_message() {
    let world = World::registered(json!({})).await;
    world
        .sandbox
        .add_account(&json!({ "platform": "max", "token": "second", "id": 78 }))
        .expect("an account");
    let result = world
        .sandbox
        .inject(Name::Max, &json!({ "chat": GROUP, "from": 5, "text": "всем" }))
        .expect("injects");
    assert_eq!(result["sent"].as_array().map(Vec::len), Some(2));
    assert_eq!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()).len(), 1);
    let other = world.raw("GET", "/max/updates?timeout=0", &[("authorization", "second")], b"").await.json();
    assert_eq!(other["updates"], world.updates("timeout=0").await["updates"]);
}

#[tokio::test]
async fn without_an_account_a_dialog_and_a_button_find_their_bot() {
    let world = World::registered(json!({})).await;
    world
        .sandbox
        .add_account(&json!({ "platform": "max", "token": "second", "id": 78 }))
        .expect("an account");
    world.inject(json!({ "chat": 77 ^ 500, "text": "привет" }));
    let keyboard = json!([{ "type": "inline_keyboard", "payload": { "buttons": [[{ "type": "callback", "text": "Да", "payload": "yes" }]] } }]);
    world.ok("POST", "/messages?user_id=500", json!({ "text": "?", "attachments": keyboard })).await;
    let grouped = world.sent(json!({ "text": "?", "attachments": keyboard })).await;
    let press = json!({ "update_type": "message_callback", "message": { "body": { "mid": grouped["body"]["mid"] } } });
    for update in [json!({ "chat": 77 ^ 500, "text": "и ещё" }), press] {
        let result = world.sandbox.inject(Name::Max, &update).expect("injects");
        assert_eq!(result["sent"].as_array().map(Vec::len), Some(1), "{result}");
        assert_eq!(result["sent"][0]["account"], "77");
    }
}

#[tokio::test]
async fn a_bot_that_was_removed_hears_nothing_more() {
    let world = World::registered(json!({})).await;
    world.inject(json!({ "update_type": "bot_removed", "chat_id": GROUP, "user": 500 }));
    world.inject(json!({ "chat": GROUP, "from": 500, "text": "не слышно" }));
    world.inject(json!({ "update_type": "bot_added", "chat_id": GROUP, "user": 500 }));
    let updates = world.updates("timeout=0").await["updates"].clone();
    let kinds: Vec<&Value> =
        updates.as_array().expect("a list").iter().map(|update| &update["update_type"]).collect();
    assert_eq!(kinds, ["bot_removed", "bot_added"]);
}

#[tokio::test]
async fn injections_that_mean_nothing_are_refused() {
    let world = World::registered(json!({})).await;
    let table = [
        (json!({ "chat": GROUP }), "field \"text\" is missing"),
        (json!({ "chat": "room", "text": "x" }), "a MAX chat id is a number, not \"room\""),
        (json!({ "chat": GROUP, "text": "x", "colour": 1 }), "unknown field \"colour\""),
        (json!({ "update_type": "earthquake" }), "unknown update type \"earthquake\""),
        (json!({ "update_type": "bot_added" }), "field \"chat_id\" is missing"),
        (
            json!({ "update_type": "message_callback" }),
            "a callback needs message.body.mid: the message with the button",
        ),
        (json!({ "update_type": "message_removed" }), "field \"message_id\" is missing"),
        (
            json!({ "update_type": "message_created", "message": {} }),
            "the message needs a chat: recipient.chat_id or sender.user_id",
        ),
        (json!({ "update_type": "message_created" }), "a MAX chat id is a number, not null"),
        (
            json!({ "chat": GROUP, "text": "x", "account": "nobody" }),
            "no MAX account \"nobody\" is known; register it with POST /_/accounts",
        ),
    ];
    for (update, message) in table {
        let refused = world.sandbox.inject(Name::Max, &update).expect_err("refused");
        assert_eq!(refused.message, message, "{update}");
    }
    assert_eq!(world.updates("timeout=0").await["updates"], json!([]));
}

/// Any value in any field of any kind of update: completed or refused, and the bot can still be talked to.
#[tokio::test]
async fn odd_updates_are_completed_or_refused() {
    let world = World::registered(json!({})).await;
    let values = [
        json!(null),
        json!(5),
        json!(-5),
        json!("x"),
        json!([]),
        json!({}),
        json!(i64::MIN),
        json!({ "body": 5 }),
    ];
    let kinds = [
        "message_created",
        "message_edited",
        "message_removed",
        "message_callback",
        "bot_started",
        "bot_stopped",
        "bot_added",
        "bot_removed",
        "user_added",
        "chat_title_changed",
        "dialog_muted",
        "comment_created",
        "bot_admin_permissions_changed",
    ];
    let fields = [
        "message",
        "chat_id",
        "user",
        "user_id",
        "timestamp",
        "callback",
        "message_id",
        "title",
        "permissions",
        "payload",
    ];
    for kind in kinds {
        for (i, field) in fields.iter().enumerate() {
            for value in &values {
                let mut update = json!({ "update_type": kind, "chat_id": -5, "account": TOKEN });
                update[fields[(i + 1) % fields.len()]] = value.clone();
                update[*field] = value.clone();
                if let Err(refusal) = world.sandbox.inject(Name::Max, &update) {
                    assert_eq!(refusal.status, 400, "{update}");
                }
            }
        }
    }
    let nested = [
        json!(5),
        json!([5]),
        json!({ "chat_id": GROUP }),
        json!({ "user_id": -1 }),
        json!({ "mid": 5, "text": 5, "attachments": [5, {}] }),
    ];
    for recipient in &nested {
        for body in &nested {
            let message = json!({ "recipient": recipient, "sender": body, "body": body, "link": body, "timestamp": i64::MIN });
            let update = json!({ "update_type": "message_created", "message": message, "account": TOKEN });
            if let Err(refusal) = world.sandbox.inject(Name::Max, &update) {
                assert_eq!(refusal.status, 400, "{update}");
            }
        }
    }
    assert!(world.updates("timeout=0").await["updates"].is_array());
    world.ok("GET", &format!("/messages?chat_id={GROUP}"), Value::Null).await;
    world.ok("GET", "/chats", Value::Null).await;
}

#[tokio::test]
async fn a_bot_tells_and_changes_its_profile() {
    let world = World::registered(json!({ "description": "Ищет питомцев" })).await;
    let me = world.ok("GET", "/me", Value::Null).await;
    let told =
        ["user_id", "first_name", "name", "username", "is_bot", "description"].map(|field| me[field].clone());
    assert_eq!(json!(told), json!([77, "Рупор", "Рупор", "rupor_bot", true, "Ищет питомцев"]));
    assert!(me.get("commands").is_none());
    let commands = json!([{ "name": "start", "description": "Начать" }, { "name": "help" }]);
    let answer = world.ok("PATCH", "/me/commands", json!({ "commands": commands })).await;
    assert_eq!(answer, json!({ "commands": commands }));
    let me = world.ok("PATCH", "/me", json!({ "name": "Мегафон", "description": "Новое" })).await;
    assert_eq!(
        (&me["first_name"], &me["description"], &me["commands"]),
        (&json!("Мегафон"), &json!("Новое"), &commands)
    );
    assert_eq!(world.sent(json!({ "text": "x" })).await["sender"]["first_name"], "Мегафон");
    world.ok("PATCH", "/me/commands", json!({ "commands": [] })).await;
    assert!(world.ok("GET", "/me", Value::Null).await.get("commands").is_none());
    let many = json!({ "commands": vec![json!({ "name": "a" }); 33] });
    world
        .refused(
            "PATCH",
            "/me/commands",
            many,
            400,
            "proto.payload",
            "commands: size must be between 0 and 32",
        )
        .await;
}

#[tokio::test]
async fn a_reset_forgets_what_was_said_and_keeps_who_exists() {
    let world = World::registered(json!({})).await;
    let token = world.uploaded("file", "a.pdf", b"%PDF").await;
    world.inject(json!({ "chat": GROUP, "from": 5, "text": "x" }));
    world.inject(json!({ "update_type": "bot_removed", "chat_id": CHANNEL, "user": 5 }));
    world.sandbox.reset();
    assert_eq!(world.updates("timeout=0").await["updates"], json!([]));
    world.ok("POST", &format!("/messages?chat_id={CHANNEL}"), json!({ "text": "x" })).await;
    let old = json!({ "attachments": [{ "type": "file", "payload": { "token": token } }] });
    let path = format!("/messages?chat_id={GROUP}");
    world.refused("POST", &path, old, 400, "proto.payload", "Invalid `token` in file attachment").await;
    assert_ne!(world.uploaded("file", "a.pdf", b"%PDF").await, token);
}
