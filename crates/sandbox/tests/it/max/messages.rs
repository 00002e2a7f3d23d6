//! Sending, editing, deleting, reading back.

use sandbox::{Clock, Options};

use super::*;

#[tokio::test]
async fn a_message_is_answered_shown_and_written_down() {
    let world = World::registered(json!({})).await;
    let message = world.sent(json!({ "text": "<b>Пропал</b> пёс", "format": "html" })).await;
    let mid = message["body"]["mid"].as_str().expect("an id");
    assert_eq!(mid.len(), 36);
    assert!(mid.starts_with("mid.ffff"), "{mid}");
    assert_eq!(message["body"]["text"], "Пропал пёс");
    assert_eq!(message["body"]["markup"], json!([{ "type": "strong", "from": 0, "length": 6 }]));
    assert_eq!(message["recipient"], json!({ "chat_id": GROUP, "chat_type": "chat" }));
    assert_eq!((&message["sender"]["user_id"], &message["sender"]["is_bot"]), (&json!(77), &json!(true)));
    assert!(message["body"]["seq"].as_i64().expect("a number") > 1 << 53);
    let row = world.last_row();
    let named = ["account", "method", "chat", "accepted", "visible_id", "text", "media", "fault"]
        .map(|key| row[key].clone());
    assert_eq!(json!(named), json!([TOKEN, "POST /messages", GROUP, true, mid, "Пропал пёс", [], null]));
    let shown = json!(world.sandbox.core().chats.visible(Name::Max, Some(&GROUP.to_string()), 10));
    assert_eq!(shown[0]["title"], "Группа");
    assert_eq!(shown[0]["messages"][0]["spans"][0]["kind"], "bold");
    assert_eq!(shown[0]["messages"][0]["author"], json!({ "name": "Рупор", "side": "bot" }));
}

#[tokio::test]
async fn the_api_answers_at_the_root_as_well() {
    let world = World::new().await;
    let headers = [("authorization", TOKEN)];
    let answer = world.raw("POST", "/messages?chat_id=-5", &headers, b"{\"text\":\"x\"}").await;
    assert_eq!(answer.status, 200);
    assert_eq!(world.raw("GET", "/me", &headers, b"").await.json()["is_bot"], true);
}

#[tokio::test]
async fn dialogs_are_found_by_user_and_name_their_other_side() {
    let world = World::new().await;
    let bot = world.ok("GET", "/me", Value::Null).await["user_id"].as_i64().expect("a number");
    let by_user = world.ok("POST", "/messages?user_id=500", json!({ "text": "a" })).await;
    let recipient = by_user["message"]["recipient"].clone();
    assert_eq!(recipient, json!({ "chat_id": bot ^ 500, "chat_type": "dialog", "user_id": 500 }));
    assert_eq!(world.last_row()["chat"], bot ^ 500);
    let chat = world.ok("GET", &format!("/chats/{}", bot ^ 500), Value::Null).await;
    assert_eq!((&chat["type"], &chat["dialog_with_user"]["user_id"]), (&json!("dialog"), &json!(500)));
}

#[tokio::test]
async fn channel_posts_have_an_address_and_no_sender() {
    let world = World::registered(json!({})).await;
    let post = world.ok("POST", &format!("/messages?chat_id={CHANNEL}"), json!({ "text": "x" })).await;
    let post = &post["message"];
    assert!(post.get("sender").is_none());
    assert_eq!(post["stat"], json!({ "views": 1 }));
    let url = post["url"].as_str().expect("an address");
    assert!(url.starts_with(&format!("https://max.ru/c/{CHANNEL}/")), "{url}");
    assert_eq!(url.rsplit('/').next().map(str::len), Some(11));
}

#[tokio::test]
async fn links_get_a_preview_unless_it_is_switched_off() {
    let world = World::registered(json!({})).await;
    let shown = world.sent(json!({ "text": "см. https://max.ru/a." })).await;
    assert_eq!(shown["body"]["attachments"][0]["payload"]["url"], "https://max.ru/a");
    assert_eq!(shown["body"]["attachments"][0]["type"], "share");
    let path = format!("/messages?chat_id={GROUP}&disable_link_preview=true");
    let bare = world.ok("POST", &path, json!({ "text": "см. https://max.ru/a" })).await;
    assert!(bare["message"]["body"].get("attachments").is_none());
    let path = format!("/messages?chat_id={GROUP}&disable_link_preview=false");
    let again = world.ok("POST", &path, json!({ "text": "https://max.ru/a" })).await;
    assert_eq!(again["message"]["body"]["attachments"][0]["type"], "share");
}

#[tokio::test]
async fn an_edit_keeps_what_it_does_not_name() {
    let world = World::registered(json!({})).await;
    let token = world.uploaded("image", "a.jpg", &world.picture("rex")).await;
    let image = json!({ "type": "image", "payload": { "token": token } });
    let message = world.sent(json!({ "text": "**a**", "format": "markdown", "attachments": [image] })).await;
    let mid = message["body"]["mid"].as_str().expect("an id").to_owned();
    let path = format!("/messages?message_id={mid}");
    let kinds = |message: &Value| -> Vec<Value> {
        message["body"]["attachments"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| item["type"].clone())
            .collect()
    };
    assert_eq!(world.ok("PUT", &path, json!({ "text": "**b**" })).await, json!({ "success": true }));
    let edited = world.message(&mid).await;
    // Without a format markup is literal text.
    assert_eq!((&edited["body"]["text"], kinds(&edited)), (&json!("**b**"), vec![json!("image")]));
    assert!(edited["body"].get("markup").is_none());
    world.ok("PUT", &path, json!({ "text": null, "attachments": [] })).await;
    let edited = world.message(&mid).await;
    assert_eq!((&edited["body"]["text"], kinds(&edited).len()), (&json!("**b**"), 0));
    world.unsuccessful("PUT", &path, json!({ "text": "" }), "Message must contain text or attachments").await;
    world.ok("PUT", &path, json!({ "text": "", "attachments": [image] })).await;
    assert_eq!(world.message(&mid).await["body"]["text"], "");
    let shown = json!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()));
    assert!(shown[0]["edited_at"].is_i64());
    assert_eq!(shown[0]["media"][0]["kind"], "photo");
}

#[tokio::test]
async fn old_dialog_messages_cannot_be_edited_unless_they_have_buttons() {
    let clock = Clock::hand(1_800_000_000_000);
    let options = Options { any_token: true, clock: clock.clone(), ..Options::default() };
    let world = World::with(options, json!({})).await;
    let buttons = json!([{ "type": "inline_keyboard", "payload": { "buttons": [[{ "type": "message", "text": "да" }]] } }]);
    let plain = world.ok("POST", "/messages?chat_id=9", json!({ "text": "a" })).await;
    let pressed =
        world.ok("POST", "/messages?chat_id=9", json!({ "text": "a", "attachments": buttons })).await;
    let grouped = world.sent(json!({ "text": "a" })).await;
    clock.advance(8 * 24 * 3600 * 1000);
    let path =
        |message: &Value| format!("/messages?message_id={}", message["body"]["mid"].as_str().expect("an id"));
    let old = "Message is too old to be edited";
    world.unsuccessful("PUT", &path(&plain["message"]), json!({ "text": "b" }), old).await;
    world.ok("PUT", &path(&pressed["message"]), json!({ "text": "b" })).await;
    world.ok("PUT", &path(&grouped), json!({ "text": "b" })).await;
}

#[tokio::test]
async fn a_deleted_message_is_gone() {
    let world = World::registered(json!({})).await;
    let message = world.sent(json!({ "text": "x" })).await;
    let mid = message["body"]["mid"].as_str().expect("an id");
    let path = format!("/messages?message_id={mid}");
    assert_eq!(world.ok("DELETE", &path, Value::Null).await, json!({ "success": true }));
    let gone = format!("Message {mid} not found");
    world.refused("DELETE", &path, Value::Null, 404, "not.found", &gone).await;
    world.refused("PUT", &path, json!({ "text": "y" }), 404, "not.found", &gone).await;
    world.refused("GET", &format!("/messages/{mid}"), Value::Null, 404, "not.found", &gone).await;
    assert!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()).is_empty());
}

#[tokio::test]
async fn messages_are_listed_newest_first_between_two_times() {
    let clock = Clock::hand(1_800_000_000_000);
    let world = World::with(Options { clock: clock.clone(), ..Options::default() }, json!({})).await;
    let mut mids = Vec::new();
    for text in ["a", "b", "c", "d"] {
        mids.push(
            world.sent(json!({ "text": text })).await["body"]["mid"].as_str().expect("an id").to_owned(),
        );
        clock.advance(1000);
    }
    let texts = |list: Value| -> String {
        let list = list["messages"].as_array().expect("a list").clone();
        list.iter().filter_map(|message| message["body"]["text"].as_str().map(str::to_owned)).collect()
    };
    let list = async |query: String| texts(world.ok("GET", &format!("/messages?{query}"), Value::Null).await);
    assert_eq!(list(format!("chat_id={GROUP}")).await, "dcba");
    assert_eq!(list(format!("chat_id={GROUP}&count=2")).await, "dc");
    // `from` is the newer bound.
    assert_eq!(list(format!("chat_id={GROUP}&from=1800000002000&to=1800000001000")).await, "cb");
    assert_eq!(list(format!("chat_id={GROUP}&from=1800000001000&to=1800000002000")).await, "");
    assert_eq!(list(format!("message_ids={},{},mid.nothing", mids[0], mids[2])).await, "ac");
}

#[tokio::test]
async fn replies_and_forwards_carry_the_other_message_without_its_buttons() {
    let world = World::registered(json!({})).await;
    let buttons = json!([{ "type": "inline_keyboard", "payload": { "buttons": [[{ "type": "message", "text": "да" }]] } }]);
    let first = world.sent(json!({ "text": "первое", "attachments": buttons })).await;
    let mid = first["body"]["mid"].clone();
    let reply = world.sent(json!({ "text": "ответ", "link": { "type": "reply", "mid": mid } })).await;
    assert_eq!(
        (&reply["link"]["type"], &reply["link"]["message"]["text"]),
        (&json!("reply"), &json!("первое"))
    );
    assert!(reply["link"]["message"].get("attachments").is_none());
    let forward = world.sent(json!({ "link": { "type": "forward", "mid": mid } })).await;
    assert_eq!((&forward["link"]["chat_id"], &forward["body"]["text"]), (&json!(GROUP), &json!("")));
    let shown = json!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()));
    assert_eq!((&shown[1]["reply_to"], &shown[2]["note"]), (&mid, &json!("forwarded")));
    assert_eq!(shown[2]["text"], "первое");
    let missing = json!({ "text": "x", "link": { "type": "reply", "mid": "mid.nothing" } });
    let path = format!("/messages?chat_id={GROUP}");
    world.refused("POST", &path, missing, 404, "not.found", "Message mid.nothing not found").await;
}

#[tokio::test]
async fn comments_live_under_channel_posts() {
    let world = World::registered(json!({})).await;
    let post = world.ok("POST", &format!("/messages?chat_id={CHANNEL}"), json!({ "text": "пост" })).await;
    let mid = post["message"]["body"]["mid"].as_str().expect("an id").to_owned();
    let path = format!("/messages/{mid}/comments");
    let comment = world.ok("POST", &path, json!({ "text": "[a](https://b.c)", "format": "markdown" })).await;
    let comment = &comment["message"];
    assert_eq!(comment["recipient"]["post_id"], mid);
    assert!(comment["body"].get("markup").is_none());
    let id = comment["body"]["mid"].as_str().expect("an id").to_owned();
    world.ok("PUT", &format!("{path}?comment_id={id}"), json!({ "text": "b" })).await;
    let list = world.ok("GET", &path, Value::Null).await;
    assert_eq!(list["messages"][0]["body"]["text"], "b");
    assert_eq!(world.ok("GET", &format!("{path}/{id}"), Value::Null).await["body"]["text"], "b");
    // Comments are not posts.
    let posts = world.ok("GET", &format!("/messages?chat_id={CHANNEL}"), Value::Null).await;
    assert_eq!(posts["messages"].as_array().map(Vec::len), Some(1));
    world.ok("DELETE", &format!("{path}?comment_id={id}"), Value::Null).await;
    assert_eq!(world.ok("GET", &path, Value::Null).await, json!({ "messages": [] }));
    let group = world.sent(json!({ "text": "x" })).await["body"]["mid"].as_str().expect("an id").to_owned();
    let path = format!("/messages/{group}/comments");
    world.refused("GET", &path, Value::Null, 400, "proto.payload", "Only channel posts have comments").await;
}

#[tokio::test]
async fn every_kind_of_attachment_and_button_is_taken() {
    let world = World::registered(json!({})).await;
    let buttons = json!([
        [{ "type": "callback", "text": "a", "payload": "p", "intent": "default" }, { "type": "clipboard", "text": "b", "payload": "c" }, { "type": "message", "text": "c" }],
        [{ "type": "link", "text": "d", "url": "https://max.ru" }, { "type": "request_contact", "text": "e" }, { "type": "request_geo_location", "text": "f", "quick": true }],
        [{ "type": "open_app", "text": "g", "web_app": "shop", "contact_id": null, "payload": null }],
    ]);
    let keyboard = json!({ "type": "inline_keyboard", "payload": { "buttons": buttons } });
    let message = world.sent(json!({ "text": "x", "attachments": [keyboard] })).await;
    let kept = &message["body"]["attachments"][0];
    assert_eq!(kept["payload"]["buttons"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        kept["payload"]["buttons"][2][0],
        json!({ "type": "open_app", "text": "g", "web_app": "shop" })
    );
    for (attachment, kind) in [
        (json!({ "type": "location", "latitude": 55.5, "longitude": 37.5 }), "location"),
        (json!({ "type": "share", "payload": { "url": "https://max.ru" } }), "share"),
        (json!({ "type": "sticker", "payload": { "code": "ab12" } }), "sticker"),
        (
            json!({ "type": "contact", "payload": { "name": "Анна", "contact_id": 5, "vcf_phone": "+79990000001" } }),
            "contact",
        ),
    ] {
        let message = world.sent(json!({ "attachments": [attachment, keyboard] })).await;
        assert_eq!(message["body"]["attachments"][0]["type"], kind);
    }
    let shown = json!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()));
    assert_eq!(shown[1]["text"], "📍 55.5, 37.5");
    assert_eq!(shown[4]["text"], "👤 Анна");
    assert_eq!(shown[0]["buttons"][0][0]["press"]["update_type"], "message_callback");
}
