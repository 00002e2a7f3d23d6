//! Messages: sending, repeating, changing, taking back, reading.

use serde_json::{Value, json};

use super::{GROUP, USER, World};

/// A world in which the person has written first.
async fn acquainted() -> World {
    let world = World::new().await;
    world.inject(&json!({"chat": USER, "from": USER, "text": "Привет"}));
    world
}

#[tokio::test]
async fn a_message_is_answered_shown_and_written_down() {
    let world = acquainted().await;
    let send = json!({"peer_id": USER, "random_id": 0, "message": "Здравствуйте"});
    assert_eq!(world.ok("community", "messages.send", send).await, 2);
    let row = world.last_row();
    assert_eq!((row.method.as_str(), row.chat, row.visible_id), ("messages.send", json!(USER), json!(2)));
    assert_eq!((row.accepted, row.text.as_deref()), (true, Some("Здравствуйте")));
    assert_eq!(world.seen("5"), ["Привет", "Здравствуйте"]);
    let history = world.ok("community", "messages.getHistory", json!({"peer_id": USER})).await;
    let newest = &history["items"][0];
    assert_eq!((history["count"].clone(), newest["out"].clone()), (json!(2), json!(1)));
    assert_eq!(
        (newest["from_id"].clone(), newest["conversation_message_id"].clone()),
        (json!(-GROUP), json!(2))
    );
}

#[tokio::test]
async fn a_repeated_random_id_is_the_earlier_message() {
    let world = acquainted().await;
    let send = json!({"peer_id": USER, "random_id": 42, "message": "раз"});
    assert_eq!(world.ok("community", "messages.send", send.clone()).await, 2);
    assert_eq!(world.ok("community", "messages.send", send.clone()).await, 2);
    assert_eq!(world.last_row().visible_id, 2);
    let unchecked = json!({"peer_id": USER, "random_id": 0, "message": "ноль"});
    assert_eq!(world.ok("community", "messages.send", unchecked.clone()).await, 3);
    assert_eq!(world.ok("community", "messages.send", unchecked).await, 4);
    world.clock.advance(3_600_000);
    assert_eq!(world.ok("community", "messages.send", send.clone()).await, 5);
    // Only the last hundred messages of the dialog are compared.
    for number in 0..100 {
        let other = json!({"peer_id": USER, "random_id": 1000 + number, "message": "x"});
        world.ok("community", "messages.send", other).await;
    }
    assert_eq!(world.ok("community", "messages.send", send).await, 106);
}

#[tokio::test]
async fn peers_are_named_in_many_ways() {
    let world = acquainted().await;
    let chat = json!({"platform": "vk", "id": 2_000_000_003i64, "title": "Волонтёры"});
    world.sandbox.add_chat(&chat).expect("a good chat");
    let cases = [
        (json!({"peer_id": USER}), json!(USER)),
        (json!({"user_id": USER}), json!(USER)),
        (json!({"domain": "id5"}), json!(USER)),
        (json!({"chat_id": 3}), json!(2_000_000_003i64)),
        (json!({"peer_ids": "5"}), json!(USER)),
        (json!({"peer_ids": "5,2000000003"}), json!([USER, 2_000_000_003i64])),
    ];
    for (mut parameters, chat) in cases {
        parameters["random_id"] = 0.into();
        parameters["message"] = "x".into();
        world.ok("community", "messages.send", parameters.clone()).await;
        assert_eq!(world.last_row().chat, chat, "{parameters}");
    }
    assert_eq!(world.seen("2000000003").len(), 2);
    let text = world.text("community", "messages.send", json!({"random_id": 0, "message": "x"})).await;
    assert!(
        text.ends_with("you should specify peer_id, user_id, domain, chat_id or user_ids param"),
        "{text}"
    );
}

#[tokio::test]
async fn a_list_of_peers_fails_one_by_one() {
    let world = acquainted().await;
    let send = json!({"peer_ids": "5,600", "random_id": 7, "message": "всем"});
    let answer = world.ok("community", "messages.send", send).await;
    assert_eq!(answer[0], json!({"peer_id": 5, "message_id": 2, "conversation_message_id": 2}));
    assert_eq!(answer[1]["error"]["code"], 901);
    assert_eq!(world.last_row().visible_id, json!([2, null]));
    let only = world
        .ok("community", "messages.send", json!({"peer_ids": "600", "random_id": 7, "message": "x"}))
        .await;
    assert_eq!(only[0]["error"]["code"], 901);
    assert!(!world.last_row().accepted);
}

#[tokio::test]
async fn messages_that_cannot_be_sent_are_refused() {
    let world = acquainted().await;
    for (id, access) in [(61, "private"), (62, "blocked"), (63, "deleted")] {
        let chat = json!({"platform": "vk", "id": id, "access": access});
        world.sandbox.add_chat(&chat).expect("a good chat");
    }
    let keyboard = |buttons: Value| json!({"inline": true, "buttons": buttons}).to_string();
    let button = json!({"action": {"type": "text", "label": "x"}});
    let refused = [
        (json!({"peer_id": USER}), 100),
        (json!({"peer_id": USER, "message": "ы".repeat(4097)}), 914),
        (json!({"peer_id": 600, "message": "x"}), 901),
        (json!({"peer_id": 61, "message": "x"}), 902),
        (json!({"peer_id": 62, "message": "x"}), 900),
        (json!({"peer_id": 63, "message": "x"}), 18),
        (json!({"peer_id": -99, "message": "x"}), 932),
        (json!({"chat_id": 9, "message": "x"}), 917),
        (json!({"peer_id": USER, "message": "x", "keyboard": "{"}), 911),
        (json!({"peer_id": USER, "message": "x", "keyboard": "[]"}), 911),
        (
            json!({"peer_id": USER, "message": "x", "keyboard": keyboard(json!([[{"action": {"type": "fly"}}]]))}),
            911,
        ),
        (
            json!({"peer_id": USER, "message": "x", "keyboard": keyboard(json!([vec![button.clone(); 6]]))}),
            911,
        ),
        (
            json!({"peer_id": USER, "message": "x", "keyboard": keyboard(json!(vec![vec![button; 2]; 6]))}),
            911,
        ),
        (json!({"peer_id": USER, "message": "x", "reply_to": 999}), 921),
        (json!({"peer_id": USER, "message": "x", "forward": "{}"}), 921),
        (json!({"peer_ids": "5,x", "message": "x"}), 100),
    ];
    for (mut parameters, code) in refused {
        parameters["random_id"] = 0.into();
        assert_eq!(world.code("community", "messages.send", parameters.clone()).await, code, "{parameters}");
    }
    assert_eq!(world.code("community", "messages.send", json!({"peer_id": USER, "message": "x"})).await, 100);
    let old = json!({"peer_id": USER, "message": "без random_id", "v": "5.80"});
    assert_eq!(world.ok("community", "messages.send", old).await, 2);
    assert_eq!(world.seen("5").len(), 2);
}

#[tokio::test]
async fn who_forbids_messages_gets_none_until_they_are_allowed() {
    let world = acquainted().await;
    let send = json!({"peer_id": USER, "random_id": 0, "message": "x"});
    world.inject(&json!({"type": "message_deny", "object": {"user_id": USER}}));
    assert_eq!(world.code("community", "messages.send", send.clone()).await, 901);
    world.inject(&json!({"type": "message_allow", "object": {"user_id": USER}}));
    world.ok("community", "messages.send", send).await;
}

#[tokio::test]
async fn messages_are_edited_and_taken_back() {
    let world = acquainted().await;
    let send = json!({"peer_id": USER, "random_id": 0, "message": "Найдена собака"});
    let id = world.ok("community", "messages.send", send.clone()).await;
    let edit = json!({"peer_id": USER, "message_id": id, "message": "Собака дома"});
    assert_eq!(world.ok("community", "messages.edit", edit).await, 1);
    let by_place = json!({"peer_id": USER, "cmid": 2, "message": "Собака дома!"});
    assert_eq!(world.ok("community", "messages.edit", by_place).await, 1);
    let foreign = json!({"peer_id": USER, "message_id": 1, "message": "x"});
    assert_eq!(world.code("community", "messages.edit", foreign).await, 920);
    assert_eq!(
        world
            .code("community", "messages.edit", json!({"peer_id": USER, "message_id": 99, "message": "x"}))
            .await,
        100
    );
    assert_eq!(world.seen("5"), ["Привет", "Собака дома!"]);
    let extra = world.ok("community", "messages.send", send).await;
    let own_side = world.ok("community", "messages.delete", json!({"message_ids": extra})).await;
    assert_eq!(
        (own_side[0]["response"].clone(), world.seen("5").len()),
        (json!(1), 3),
        "others still read it"
    );
    let gone = json!({"message_ids": extra, "delete_for_all": 1, "v": "5.92"});
    assert_eq!(world.ok("community", "messages.delete", gone).await, json!({"3": 1}));
    assert_eq!(world.seen("5").len(), 2);
    world.clock.advance(86_401_000);
    let late = json!({"peer_id": USER, "message_id": id, "message": "поздно"});
    assert_eq!(world.code("community", "messages.edit", late).await, 909);
}

#[tokio::test]
async fn replies_and_forwards_carry_what_they_quote() {
    let world = acquainted().await;
    let reply = json!({"peer_id": USER, "random_id": 0, "message": "ответ", "reply_to": 1});
    world.ok("community", "messages.send", reply).await;
    let forward = json!({"peer_id": USER, "conversation_message_ids": [1, 2]}).to_string();
    world
        .ok("community", "messages.send", json!({"peer_id": USER, "random_id": 0, "forward": forward}))
        .await;
    let items =
        world.ok("community", "messages.getHistory", json!({"peer_id": USER, "rev": 1})).await["items"]
            .clone();
    assert_eq!(items[1]["reply_message"]["text"], "Привет");
    assert_eq!(items[2]["fwd_messages"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn conversations_tell_who_waits_for_an_answer() {
    let world = acquainted().await;
    world.inject(&json!({"chat": 6, "from": 6, "text": "Есть кто?"}));
    let list = world
        .ok("community", "messages.getConversations", json!({"filter": "unanswered", "extended": 1}))
        .await;
    assert_eq!(
        (list["count"].clone(), list["items"][0]["last_message"]["text"].clone()),
        (json!(2), json!("Есть кто?"))
    );
    assert_eq!(list["profiles"].as_array().map(Vec::len), Some(2));
    let send = json!({"peer_id": 6, "random_id": 0, "message": "Да"});
    world.ok("community", "messages.send", send).await;
    world.ok("community", "messages.markAsRead", json!({"peer_id": USER})).await;
    let list = world.ok("community", "messages.getConversations", json!({"filter": "unread"})).await;
    assert_eq!(
        (list["count"].clone(), list["items"][0]["conversation"]["peer"]["id"].clone()),
        (json!(1), json!(6))
    );
    let one = world.ok("community", "messages.getConversationsById", json!({"peer_ids": "5"})).await;
    assert_eq!(
        (one["items"][0]["in_read"].clone(), one["items"][0]["unread_count"].clone()),
        (json!(1), json!(0))
    );
}

#[tokio::test]
async fn a_person_writes_to_a_community_and_both_see_it() {
    let world = World::new().await;
    let send = json!({"peer_id": -GROUP, "random_id": 1, "message": "от человека"});
    let id = world.ok("user", "messages.send", send).await;
    let theirs =
        world.ok("community", "messages.getById", json!({"message_ids": id})).await["items"][0].clone();
    assert_eq!((theirs["peer_id"].clone(), theirs["out"].clone()), (json!(USER), json!(0)));
    let own = world.ok("user", "messages.getHistory", json!({"peer_id": -GROUP})).await["items"][0].clone();
    assert_eq!((own["peer_id"].clone(), own["out"].clone()), (json!(-GROUP), json!(1)));
    let answer = json!({"peer_id": USER, "random_id": 1, "message": "от сообщества"});
    world.ok("community", "messages.send", answer).await;
    assert_eq!(world.seen("5"), ["от человека", "от сообщества"]);
}
