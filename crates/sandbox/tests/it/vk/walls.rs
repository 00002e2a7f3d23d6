//! Writing on walls.

use serde_json::{Value, json};

use super::{GROUP, USER, WALL, World};

#[tokio::test]
async fn a_post_is_answered_shown_and_written_down() {
    let world = World::new().await;
    let (first, second) = (world.wall_photo("rex").await, world.wall_photo("tom").await);
    let parameters = json!({"owner_id": WALL, "from_group": 1, "message": "Пропал Рекс",
        "attachments": format!("{first},{second}")});
    let answer = world.ok("user", "wall.post", parameters).await;
    assert_eq!(answer, json!({"post_id": 1}));
    let row = world.last_row();
    assert_eq!((row.method.as_str(), &row.chat, row.accepted), ("wall.post", &json!(WALL), true));
    assert_eq!((row.visible_id, row.text.as_deref()), (json!(1), Some("Пропал Рекс")));
    assert_eq!((row.account.as_deref(), row.media.len(), row.fault), (Some("user"), 2, None));
    assert_eq!(row.media[0]["id"], first);
    let shown = world.sandbox.core().chats.messages(sandbox::Name::Vk, &WALL.to_string());
    assert_eq!((shown.len(), shown[0].media.len(), shown[0].author.name.as_str()), (1, 2, "Питомцы"));
}

#[tokio::test]
async fn a_repeated_guid_is_the_earlier_post_for_an_hour() {
    let world = World::new().await;
    let post = json!({"owner_id": WALL, "from_group": 1, "message": "раз", "guid": "delivery-1"});
    assert_eq!(world.ok("user", "wall.post", post.clone()).await["post_id"], 1);
    world.clock.advance(3_599_000);
    assert_eq!(world.ok("user", "wall.post", post.clone()).await["post_id"], 1);
    let row = world.last_row();
    assert_eq!((row.accepted, row.visible_id), (true, json!(1)));
    let other = json!({"owner_id": WALL, "from_group": 1, "message": "раз", "guid": "delivery-2"});
    assert_eq!(world.ok("user", "wall.post", other).await["post_id"], 2);
    world.clock.advance(2_000);
    assert_eq!(world.ok("user", "wall.post", post).await["post_id"], 3);
    assert_eq!(world.seen("-77").len(), 3);
}

#[tokio::test]
async fn comments_have_guids_of_their_own() {
    let world = World::new().await;
    world.post("пост").await;
    let comment = json!({"owner_id": WALL, "post_id": 1, "message": "ура", "guid": "x"});
    let first = world.ok("user", "wall.createComment", comment.clone()).await;
    assert_eq!(first, json!({"comment_id": 2, "parents_stack": []}));
    assert_eq!(world.ok("user", "wall.createComment", comment).await["comment_id"], 2);
    let answer =
        json!({"owner_id": WALL, "post_id": 1, "message": "да", "reply_to_comment": 2, "from_group": GROUP});
    assert_eq!(world.ok("user", "wall.createComment", answer).await["comment_id"], 3);
    let list = world.ok("service", "wall.getComments", json!({"owner_id": WALL, "post_id": 1})).await;
    assert_eq!((list["count"].clone(), list["items"][1]["from_id"].clone()), (json!(2), json!(WALL)));
    assert_eq!(world.seen("-77"), ["пост", "ура", "да"]);
    let edit = json!({"owner_id": WALL, "comment_id": 2, "message": "ура!"});
    assert_eq!(world.ok("user", "wall.editComment", edit).await, 1);
    assert_eq!(world.ok("user", "wall.deleteComment", json!({"owner_id": WALL, "comment_id": 3})).await, 1);
    assert_eq!(world.seen("-77"), ["пост", "ура!"]);
}

#[tokio::test]
async fn an_edit_replaces_text_and_attachments() {
    let world = World::new().await;
    let photo = world.wall_photo("rex").await;
    let parameters = json!({"owner_id": WALL, "from_group": 1, "message": "было", "attachments": photo});
    world.ok("user", "wall.post", parameters).await;
    let edit = json!({"owner_id": WALL, "post_id": 1, "message": "стало"});
    assert_eq!(world.ok("user", "wall.edit", edit).await, json!({"post_id": 1}));
    assert_eq!(world.last_row().visible_id, 1);
    let post = world.ok("service", "wall.getById", json!({"posts": "-77_1"})).await["items"][0].clone();
    assert_eq!((post["text"].clone(), post["attachments"].clone()), (json!("стало"), json!([])));
    assert_eq!(post["edited"], 1_800_000_000);
    let shown = world.sandbox.core().chats.messages(sandbox::Name::Vk, "-77");
    assert_eq!((shown[0].text.as_str(), shown[0].edited_at), ("стало", Some(1_800_000_000_000)));
}

#[tokio::test]
async fn a_deleted_post_is_gone_until_it_is_restored() {
    let world = World::new().await;
    world.post("лишнее").await;
    assert_eq!(world.ok("user", "wall.delete", json!({"owner_id": WALL, "post_id": 1})).await, 1);
    assert!(world.seen("-77").is_empty());
    assert_eq!(world.code("user", "wall.delete", json!({"owner_id": WALL, "post_id": 1})).await, 104);
    assert_eq!(world.ok("user", "wall.restore", json!({"owner_id": WALL, "post_id": 1})).await, 1);
    assert_eq!(world.seen("-77"), ["лишнее"]);
}

#[tokio::test]
async fn photos_of_messages_vanish_from_posts_without_a_word() {
    let world = World::new().await;
    let server = world.ok("community", "photos.getMessagesUploadServer", json!({"peer_id": USER})).await;
    let url = server["upload_url"].as_str().expect("an address");
    let uploaded = world.upload(url, &[("photo", "a.jpg", &world.picture("rex"))]).await;
    let photo = world.ok("community", "photos.saveMessagesPhoto", uploaded).await[0].clone();
    let name = format!("photo{}_{}", photo["owner_id"], photo["id"]);
    let parameters = json!({"owner_id": WALL, "message": "с фото", "attachments": name.clone()});
    assert_eq!(world.ok("community", "wall.post", parameters).await["post_id"], 1);
    assert!(world.last_row().media.is_empty());
    let only = json!({"owner_id": WALL, "attachments": name});
    assert_eq!(world.code("community", "wall.post", only).await, 100);
}

#[tokio::test]
async fn a_postponed_post_waits_and_appears_under_a_new_id() {
    let world = World::new().await;
    let at = 1_800_000_600;
    let post = json!({"owner_id": WALL, "from_group": 1, "message": "потом", "publish_date": at});
    assert_eq!(world.ok("user", "wall.post", post.clone()).await["post_id"], 1);
    assert_eq!(world.last_row().visible_id, Value::Null);
    assert!(
        world.text("user", "wall.post", post).await.ends_with("a post is already scheduled for this time")
    );
    let late = json!({"owner_id": WALL, "message": "вчера", "publish_date": 5});
    assert_eq!(world.code("user", "wall.post", late).await, 214);
    assert_eq!(world.ok("service", "wall.get", json!({"owner_id": WALL})).await["count"], 0);
    let waiting = world.ok("user", "wall.get", json!({"owner_id": WALL, "filter": "postponed"})).await;
    assert_eq!(waiting["items"][0]["post_type"], "postpone");
    assert!(world.seen("-77").is_empty());
    world.clock.advance(600_000);
    let wall = world.ok("service", "wall.get", json!({"owner_id": WALL})).await;
    let post = &wall["items"][0];
    assert_eq!(
        (post["id"].clone(), post["postponed_id"].clone(), post["date"].clone()),
        (json!(2), json!(1), json!(at))
    );
    assert_eq!(world.seen("-77"), ["потом"]);
}

#[tokio::test]
async fn what_cannot_be_posted_is_refused() {
    let world = World::new().await;
    let long = "я".repeat(16_385);
    let photos = ["photo5_1"; 11].join(",");
    let refused: &[(Value, i64)] = &[
        (json!({"owner_id": WALL}), 100),
        (json!({"owner_id": WALL, "message": "   "}), 100),
        (json!({"owner_id": WALL, "message": long}), 100),
        (json!({"owner_id": "wall", "message": "x"}), 100),
        (json!({"owner_id": WALL, "message": "x", "attachments": photos}), 100),
        (json!({"owner_id": WALL, "message": "x", "attachments": "https://a.b,https://c.d"}), 100),
        (json!({"owner_id": WALL, "message": "x", "attachments": "nonsense"}), 100),
        (json!({"owner_id": WALL, "message": "x", "post_id": 99}), 104),
    ];
    for (parameters, code) in refused {
        assert_eq!(world.code("user", "wall.post", parameters.clone()).await, *code, "{parameters}");
        assert!(!world.last_row().accepted);
    }
    assert!(world.seen("-77").is_empty());
}

#[tokio::test]
async fn the_oldest_posts_go_when_there_are_too_many() {
    let options = sandbox::Options { any_token: true, messages_max: 10, ..sandbox::Options::default() };
    let sandbox = crate::wire::started(options).await;
    let world = World { sandbox, clock: sandbox::Clock::Wall };
    for number in 1..=15 {
        let post = json!({"owner_id": WALL, "from_group": 1, "message": format!("пост {number}")});
        world.ok("any", "wall.post", post).await;
        let send = json!({"peer_id": USER, "random_id": 0, "message": format!("сообщение {number}")});
        world.ok("any", "messages.send", send).await;
    }
    let wall = world.ok("any", "wall.get", json!({"owner_id": WALL})).await;
    assert_eq!((wall["count"].clone(), wall["items"][9]["id"].clone()), (json!(10), json!(6)));
    let history = world.ok("any", "messages.getHistory", json!({"peer_id": USER})).await;
    assert_eq!(history["count"], 10);
    assert_eq!(world.seen("-77").len() + world.seen("5").len(), 10);
}

#[tokio::test]
async fn a_repost_carries_its_source() {
    let world = World::new().await;
    world.post("исходный").await;
    let repost = json!({"object": "wall-77_1", "message": "смотрите"});
    let answer = world.ok("user", "wall.repost", repost).await;
    assert_eq!((answer["success"].clone(), answer["reposts_count"].clone()), (json!(1), json!(1)));
    let wall = world.ok("user", "wall.get", json!({})).await;
    assert_eq!(wall["items"][0]["copy_history"][0]["text"], "исходный");
    assert_eq!(world.seen("wall5"), ["смотрите\n\n↪ исходный"]);
    assert_eq!(world.code("user", "wall.repost", json!({"object": "wall-77_9"})).await, 104);
}

#[tokio::test]
async fn flags_of_a_post_come_back_with_it() {
    let world = World::new().await;
    let parameters = json!({"owner_id": WALL, "from_group": 1, "signed": 1, "message": "x", "mark_as_ads": 1,
        "close_comments": 1, "copyright": "https://example.org/a", "lat": "51.5", "long": "46.0"});
    world.ok("user", "wall.post", parameters).await;
    let post = world.ok("user", "wall.get", json!({"owner_id": WALL})).await["items"][0].clone();
    assert_eq!((post["signer_id"].clone(), post["marked_as_ads"].clone()), (json!(USER), json!(1)));
    assert_eq!(post["copyright"]["link"], "https://example.org/a");
    assert_eq!(post["geo"]["coordinates"], "51.5 46.0");
    let comment = json!({"owner_id": WALL, "post_id": 1, "message": "x"});
    assert_eq!(world.code("user", "wall.createComment", comment.clone()).await, 213);
    world.ok("community", "wall.openComments", json!({"owner_id": WALL, "post_id": 1})).await;
    assert_eq!(world.ok("user", "wall.createComment", comment).await["comment_id"], 2);
}

#[tokio::test]
async fn who_does_not_manage_a_community_only_suggests() {
    let world = World::new().await;
    let account = json!({"platform": "vk", "token": "guest", "kind": "user", "id": 6, "groups": []});
    world.sandbox.add_account(&account).expect("a good account");
    assert_eq!(
        world.code("guest", "wall.post", json!({"owner_id": WALL, "from_group": 1, "message": "x"})).await,
        214
    );
    world.ok("guest", "wall.post", json!({"owner_id": WALL, "message": "предлагаю"})).await;
    assert!(world.seen("-77").is_empty());
    assert_eq!(world.code("guest", "wall.get", json!({"owner_id": WALL, "filter": "suggests"})).await, 15);
    let suggested = world.ok("user", "wall.get", json!({"owner_id": WALL, "filter": "suggests"})).await;
    assert_eq!(suggested["items"][0]["post_type"], "suggest");
    let publish = json!({"owner_id": WALL, "post_id": suggested["items"][0]["id"]});
    assert_eq!(world.ok("user", "wall.post", publish).await["post_id"], 2);
    assert_eq!(world.seen("-77"), ["предлагаю"]);
    assert_eq!(
        world.code("guest", "wall.edit", json!({"owner_id": WALL, "post_id": 9, "message": "x"})).await,
        104
    );
}
