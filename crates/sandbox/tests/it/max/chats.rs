//! Chats, members, administrators and pins.

use super::*;

#[tokio::test]
async fn a_chat_is_described_with_everything_libraries_need() {
    let world = World::registered(json!({})).await;
    world.chat(json!({ "id": -3, "type": "channel", "title": "Питомцы", "username": "lost_pets", "description": "Ищем", "participants_count": 900 }));
    let chat = world.ok("GET", "/chats/-3", Value::Null).await;
    let told = [
        "chat_id",
        "type",
        "status",
        "title",
        "participants_count",
        "is_public",
        "link",
        "description",
        "messages_count",
    ]
    .map(|field| chat[field].clone());
    assert_eq!(
        json!(told),
        json!([-3, "channel", "active", "Питомцы", 900, true, "https://max.ru/lost_pets", "Ищем", 0])
    );
    assert!(chat["last_event_time"].is_i64() && chat["owner_id"].is_i64());
    for link in ["lost_pets", "@lost_pets", "%40Lost_Pets"] {
        assert_eq!(world.ok("GET", &format!("/chats/{link}"), Value::Null).await["chat_id"], -3, "{link}");
    }
    world.refused("GET", "/chats/nobody", Value::Null, 404, "chat.not.found", "Chat nobody not found").await;
    world.refused("GET", "/chats/-9", Value::Null, 404, "chat.not.found", "Chat -9 not found").await;
}

#[tokio::test]
async fn chats_are_listed_page_by_page() {
    let world = World::registered(json!({})).await;
    let first = world.ok("GET", "/chats?count=1", Value::Null).await;
    let marker = first["marker"].as_i64().expect("more");
    let second = world.ok("GET", &format!("/chats?count=1&marker={marker}"), Value::Null).await;
    let ids = [&first, &second].map(|page| page["chats"][0]["chat_id"].as_i64().expect("a number"));
    assert_eq!(ids, [CHANNEL, GROUP]);
    assert!(second.get("marker").is_none());
}

#[tokio::test]
async fn a_chat_is_edited_by_those_who_may() {
    let world = World::registered(json!({})).await;
    world.chat(json!({ "id": -3, "type": "chat", "admin": false }));
    let path = format!("/chats/{GROUP}");
    let chat = world.ok("PATCH", &path, json!({ "title": "Новое", "description": "О нас" })).await;
    assert_eq!((&chat["title"], &chat["description"]), (&json!("Новое"), &json!("О нас")));
    let token = world.uploaded("image", "a.jpg", &world.picture("icon")).await;
    let chat = world.ok("PATCH", &path, json!({ "icon": { "token": token } })).await;
    assert!(chat["icon"]["url"].as_str().is_some_and(|url| url.contains("/_/media/")));
    assert_eq!(chat["title"], "Новое");
    let long = json!({ "title": "й".repeat(201) });
    world.refused("PATCH", &path, long, 400, "proto.payload", "title: size must be between 1 and 200").await;
    let right = "Insufficient access rights: change_chat_info";
    world.refused("PATCH", "/chats/-3", json!({ "title": "x" }), 403, "chat.denied", right).await;
    let never = "Insufficient access rights to delete the chat";
    world.unsuccessful("DELETE", &path, Value::Null, never).await;
}

#[tokio::test]
async fn messages_are_pinned_in_groups_only() {
    let world = World::registered(json!({})).await;
    let mid = world.sent(json!({ "text": "x" })).await["body"]["mid"].as_str().expect("an id").to_owned();
    let path = format!("/chats/{GROUP}/pin");
    assert_eq!(world.ok("GET", &path, Value::Null).await, json!({ "message": null }));
    world.ok("PUT", &path, json!({ "message_id": mid, "notify": false })).await;
    assert_eq!(world.ok("GET", &path, Value::Null).await["message"]["body"]["mid"], mid.as_str());
    assert_eq!(
        world.ok("GET", &format!("/chats/{GROUP}"), Value::Null).await["pinned_message"]["body"]["text"],
        "x"
    );
    let pinned =
        || json!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()))[0]["pinned"].clone();
    assert_eq!(pinned(), true);
    world.ok("DELETE", &path, Value::Null).await;
    assert_eq!(pinned(), false);
    let wrong = "Message mid.0 can not be pinned";
    world.refused("PUT", &path, json!({ "message_id": "mid.0" }), 400, "proto.payload", wrong).await;
    world.ok("PUT", &path, json!({ "message_id": mid })).await;
    world.ok("DELETE", &format!("/messages?message_id={mid}"), Value::Null).await;
    assert_eq!(world.ok("GET", &path, Value::Null).await, json!({ "message": null }));
    world.inject(json!({ "chat": 9, "text": "привет" }));
    let dialog = "Method is not available for dialogs";
    world.refused("PUT", "/chats/9/pin", json!({ "message_id": mid }), 400, "proto.payload", dialog).await;
}

#[tokio::test]
async fn members_are_listed_added_and_removed() {
    let world = World::registered(json!({})).await;
    world.chat(
        json!({ "id": -3, "type": "chat", "owner_id": 1, "members": [{ "user_id": 2, "name": "Борис" }, 3] }),
    );
    let ids = |list: &Value| -> Vec<i64> {
        list["members"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|member| member["user_id"].as_i64())
            .collect()
    };
    let all = world.ok("GET", "/chats/-3/members", Value::Null).await;
    assert_eq!(ids(&all), [1, 2, 3, 77]);
    assert_eq!((&all["members"][0]["is_owner"], &all["members"][1]["name"]), (&json!(true), &json!("Борис")));
    let page = world.ok("GET", "/chats/-3/members?count=3", Value::Null).await;
    assert_eq!((ids(&page), &page["marker"]), (vec![1, 2, 3], &json!(3)));
    assert_eq!(ids(&world.ok("GET", "/chats/-3/members?count=3&marker=3", Value::Null).await), [77]);
    assert_eq!(ids(&world.ok("GET", "/chats/-3/members?user_ids=2,77", Value::Null).await), [2, 77]);
    assert_eq!(ids(&world.ok("GET", "/chats/-3/members?user_ids=2&user_ids=3", Value::Null).await), [2, 3]);
    let added = world.ok("POST", "/chats/-3/members", json!({ "user_ids": [4, -1] })).await;
    assert_eq!((&added["success"], &added["failed_user_ids"]), (&json!(false), &json!([-1])));
    world.ok("DELETE", "/chats/-3/members?user_id=2&block=true", Value::Null).await;
    assert_eq!(ids(&world.ok("GET", "/chats/-3/members", Value::Null).await), [1, 3, 4, 77]);
    let absent = "User is not a member of the chat";
    world.unsuccessful("DELETE", "/chats/-3/members?user_id=2", Value::Null, absent).await;
    let me = world.ok("GET", "/chats/-3/members/me", Value::Null).await;
    assert_eq!((&me["user_id"], &me["is_admin"], &me["is_owner"]), (&json!(77), &json!(true), &json!(false)));
    assert!(me["permissions"].as_array().expect("a list").contains(&json!("write")));
    world.ok("DELETE", "/chats/-3/members/me", Value::Null).await;
    world.refused("GET", "/chats/-3/members/me", Value::Null, 403, "chat.denied", "chat.denied").await;
}

#[tokio::test]
async fn administrators_are_appointed_and_dismissed() {
    let world = World::registered(json!({})).await;
    world.chat(json!({ "id": -3, "type": "chat", "owner_id": 1, "members": [2, 3] }));
    let path = "/chats/-3/members/admins";
    let appoint = |user: i64, rights: Value| json!({ "admins": [{ "user_id": user, "permissions": rights, "alias": "Куратор" }] });
    world.ok("POST", path, appoint(2, json!(["read_all_messages", "write"]))).await;
    let admins = world.ok("GET", path, Value::Null).await;
    let ids: Vec<&Value> =
        admins["members"].as_array().expect("a list").iter().map(|member| &member["user_id"]).collect();
    assert_eq!(ids, [1, 2, 77]);
    assert_eq!(
        (&admins["members"][1]["alias"], &admins["members"][1]["permissions"]),
        (&json!("Куратор"), &json!(["read_all_messages", "write"]))
    );
    let needs = "Permission `read_all_messages` is required for the others";
    world.refused("POST", path, appoint(3, json!(["write"])), 400, "proto.payload", needs).await;
    let absent = "User is not a member of the chat";
    world.unsuccessful("POST", path, appoint(9, json!(["read_all_messages"])), absent).await;
    world.ok("DELETE", &format!("{path}/2"), Value::Null).await;
    world.unsuccessful("DELETE", &format!("{path}/2"), Value::Null, "User is not an administrator").await;
}

#[tokio::test]
async fn only_administrators_see_the_members() {
    let world = World::registered(json!({})).await;
    world.chat(json!({ "id": -3, "type": "chat", "admin": false }));
    let denied = "Insufficient access rights: bot is not admin";
    world.refused("GET", "/chats/-3/members", Value::Null, 403, "chat.denied", denied).await;
    world.refused("GET", "/chats/-3/members/admins", Value::Null, 403, "chat.denied", denied).await;
    // Writing in a group needs no rights, and neither does deleting what is one's own.
    let own = world.ok("POST", "/messages?chat_id=-3", json!({ "text": "x" })).await;
    let mid = own["message"]["body"]["mid"].as_str().expect("an id").to_owned();
    world.ok("DELETE", &format!("/messages?message_id={mid}"), Value::Null).await;
    let foreign = world.inject(json!({ "chat": -3, "from": 5, "text": "x", "account": TOKEN }));
    let path = format!("/messages?message_id={}", foreign["message"]["body"]["mid"].as_str().expect("an id"));
    world.refused("DELETE", &path, Value::Null, 403, "access.denied", "Message can not be deleted").await;
    world
        .refused("PUT", &path, json!({ "text": "y" }), 403, "access.denied", "Message can not be edited")
        .await;
}

#[tokio::test]
async fn actions_are_those_of_the_list() {
    let world = World::registered(json!({})).await;
    let path = format!("/chats/{GROUP}/actions");
    for action in
        ["typing_on", "sending_photo", "sending_video", "sending_audio", "sending_file", "mark_seen"]
    {
        assert_eq!(world.ok("POST", &path, json!({ "action": action })).await, json!({ "success": true }));
    }
    world
        .refused(
            "POST",
            &path,
            json!({ "action": "dancing" }),
            400,
            "proto.payload",
            "Can't deserialize body",
        )
        .await;
}

#[tokio::test]
async fn registrations_that_mean_nothing_are_refused() {
    let world = World::registered(json!({})).await;
    let table = [
        (json!({ "id": "room" }), "a MAX chat id is a number, not \"room\""),
        (
            json!({ "id": 5, "type": "channel" }),
            "chat 5 cannot be a channel: dialogs have positive ids, chats and channels negative ones",
        ),
        (json!({ "id": -5, "type": "forum" }), "unknown chat type \"forum\""),
        (json!({ "id": -5, "permissions": ["fly"] }), "field \"permissions\" cannot be [\"fly\"]"),
        (json!({ "id": -5, "status": "asleep" }), "unknown chat status \"asleep\""),
    ];
    for (mut chat, message) in table {
        chat["platform"] = "max".into();
        assert_eq!(world.sandbox.add_chat(&chat).expect_err("refused").message, message);
    }
    for (account, message) in [
        (json!({ "token": "t", "id": "x" }), "a MAX bot id is a positive number, not \"x\""),
        (json!({ "token": "Bearer t" }), "a MAX token has no \"Bearer\" before it"),
        (json!({ "token": "t", "kind": "user" }), "unknown account kind \"user\""),
    ] {
        let mut account = account;
        account["platform"] = "max".into();
        assert_eq!(world.sandbox.add_account(&account).expect_err("refused").message, message);
    }
}
