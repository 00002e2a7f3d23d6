//! Reading walls, and what a test puts on them.

use serde_json::{Value, json};

use super::{GROUP, WALL, World};
use crate::wire::call;

fn ids(wall: &Value) -> Vec<i64> {
    let items = wall["items"].as_array().expect("items");
    items.iter().filter_map(|post| post["id"].as_i64()).collect()
}

#[tokio::test]
async fn the_pinned_post_comes_first_then_the_newest() {
    let world = World::new().await;
    let posts = json!([
        {"id": 10, "date": 1_799_000_000, "text": "старый", "is_pinned": 1},
        {"id": 12, "date": 1_799_900_000, "text": "новый"},
        {"id": 11, "date": 1_799_800_000, "text": "средний", "from_id": 6},
    ]);
    world.sandbox.put_on_wall(WALL, posts).expect("good posts");
    let wall = world.ok("service", "wall.get", json!({"owner_id": WALL})).await;
    assert_eq!((wall["count"].clone(), ids(&wall)), (json!(3), vec![10, 12, 11]));
    assert_eq!(
        (wall["items"][0]["is_pinned"].clone(), wall["items"][1]["is_pinned"].clone()),
        (json!(1), Value::Null)
    );
    let cases = [
        (json!({"count": 1}), vec![10]),
        (json!({"count": 2, "offset": 1}), vec![12, 11]),
        (json!({"offset": 9}), vec![]),
        (json!({"filter": "owner"}), vec![10, 12]),
        (json!({"filter": "others"}), vec![11]),
    ];
    for (mut parameters, expected) in cases {
        parameters["domain"] = "pets".into();
        let wall = world.ok("service", "wall.get", parameters.clone()).await;
        assert_eq!(ids(&wall), expected, "{parameters}");
    }
    let found = world.ok("service", "wall.search", json!({"owner_id": WALL, "query": "НОВЫЙ"})).await;
    assert_eq!(ids(&found), [12]);
    for bad in
        [json!({"count": 101}), json!({"offset": -1}), json!({"filter": "best"}), json!({"count": "x"})]
    {
        let mut parameters = bad;
        parameters["owner_id"] = WALL.into();
        assert_eq!(world.code("service", "wall.get", parameters).await, 100);
    }
}

#[tokio::test]
async fn answers_take_the_shape_of_their_version() {
    let world = World::new().await;
    world.post("пост").await;
    let cases = [("5.199", true), ("5.154", true), ("5.131", false), ("5.92", false)];
    for (version, objects) in cases {
        let posts = world.ok("service", "wall.getById", json!({"posts": "-77_1,-77_9", "v": version})).await;
        let groups = world.ok("community", "groups.getById", json!({"v": version})).await;
        if objects {
            assert_eq!(
                (posts["items"][0]["id"].clone(), groups["groups"][0]["id"].clone()),
                (json!(1), json!(GROUP))
            );
            assert_eq!(posts["items"].as_array().map(Vec::len), Some(1), "what does not exist is left out");
        } else {
            assert_eq!(
                (posts[0]["id"].clone(), groups[0]["id"].clone()),
                (json!(1), json!(GROUP)),
                "{version}"
            );
        }
    }
}

#[tokio::test]
async fn an_extended_answer_introduces_everybody() {
    let world = World::new().await;
    let post = json!([{"text": "", "from_id": 6, "copy_history": [{"post_id": 3, "owner_id": -500, "text": "чужой"}]}]);
    world.sandbox.put_on_wall(WALL, post).expect("a good post");
    let wall = world
        .ok("service", "wall.get", json!({"owner_id": WALL, "extended": 1, "fields": "screen_name"}))
        .await;
    assert_eq!(wall["profiles"][0]["id"], 6);
    let groups: Vec<i64> =
        wall["groups"].as_array().expect("groups").iter().filter_map(|g| g["id"].as_i64()).collect();
    assert_eq!(groups, [500, 77]);
    assert_eq!(wall["items"][0]["copy_history"][0]["id"], 3);
}

#[tokio::test]
async fn photos_on_a_wall_can_be_downloaded_in_every_size() {
    let world = World::new().await;
    let origin = world.sandbox.origin().to_owned();
    let posts = json!([{"text": "Рекс", "photos": ["rex", "rex~", format!("{origin}/_/pictures/tom.jpg")]}]);
    world.sandbox.put_on_wall(WALL, posts).expect("good posts");
    let wall = world.ok("service", "wall.get", json!({"owner_id": WALL})).await;
    let attachments = wall["items"][0]["attachments"].as_array().expect("attachments").clone();
    for (attachment, name, size) in
        [(&attachments[0], "rex", 800), (&attachments[1], "rex~", 640), (&attachments[2], "tom", 800)]
    {
        let photo = &attachment["photo"];
        assert_eq!((attachment["type"].clone(), photo["owner_id"].clone()), (json!("photo"), json!(WALL)));
        let original = photo["orig_photo"]["url"].as_str().expect("an address");
        assert!(original.starts_with(&origin) && original.contains("?size="), "{original}");
        assert_eq!(world.get(original).await.body, world.picture(name));
        let sizes = photo["sizes"].as_array().expect("sizes");
        assert_eq!(sizes.iter().filter_map(|size| size["width"].as_u64()).max(), Some(size));
        let medium = sizes.iter().find(|size| size["type"] == "m").expect("size m");
        let bytes = world.get(medium["url"].as_str().expect("an address")).await.body;
        let picture = image::load_from_memory(&bytes).expect("a picture");
        assert_eq!(json!([picture.width(), picture.height()]), json!([medium["width"], medium["height"]]));
    }
    let far = json!([{"photos": ["https://example.org/a.jpg", "https://example.org/b.jpg"]}]);
    world.sandbox.put_on_wall(WALL, far).expect("a good post");
    let post = world.ok("service", "wall.get", json!({"owner_id": WALL})).await["items"][0].clone();
    let url =
        |index: usize| post["attachments"][index]["photo"]["orig_photo"]["url"].as_str().expect("an address");
    let (a, b) = (world.get(url(0)).await, world.get(url(1)).await);
    assert_eq!(
        (a.status, b.status, a.body == b.body),
        (200, 200, false),
        "far addresses are pictures of their own"
    );
    let original = attachments[0]["photo"]["orig_photo"]["url"].as_str().expect("an address");
    let bare = original.split('?').next().expect("a path");
    assert_eq!(world.get(bare).await.status, 403, "without its query string an address is worth nothing");
    assert_eq!(world.get(&original.replace("size=800x600", "size=80x60")).await.status, 403);
}

#[tokio::test]
async fn posts_are_changed_and_removed_from_outside() {
    let world = World::new().await;
    let put =
        call(&world.sandbox, "POST", "/_/walls/-77", &json!([{"post_id": 7, "text": "Пропал кот"}])).await;
    assert_eq!((put.status, put.json()), (200, json!({"owner_id": WALL, "post_ids": [7]})));
    let change = json!({"text": "Кот дома", "photos": ["kit"]});
    let patched = call(&world.sandbox, "PATCH", "/_/walls/-77/7", &change).await;
    assert_eq!((patched.status, patched.json()["edited"].clone()), (200, json!(1_800_000_000)));
    let post = world.ok("service", "wall.get", json!({"owner_id": WALL})).await["items"][0].clone();
    assert_eq!(
        (post["text"].clone(), post["attachments"][0]["type"].clone()),
        (json!("Кот дома"), json!("photo"))
    );
    assert_eq!(world.seen("-77"), ["Кот дома"]);
    let gone = call(&world.sandbox, "DELETE", "/_/walls/-77/7", &Value::Null).await;
    assert_eq!((gone.status, world.seen("-77").len()), (200, 0));
    let again = call(&world.sandbox, "DELETE", "/_/walls/-77/7", &Value::Null).await;
    assert_eq!((again.status, again.json()["error"].clone()), (404, json!("there is no post 7 on wall -77")));
}

#[tokio::test]
async fn posts_that_are_not_understood_change_nothing() {
    let world = World::new().await;
    for bad in [
        json!("text"),
        json!([{"text": "хороший"}, 5]),
        json!([{"text": "хороший"}, {"text": 5}]),
        json!([{"id": -1}]),
        json!([{"owner_id": -78}]),
        json!([{"date": "вчера"}]),
        json!([{"photos": [5]}]),
        json!([{"attachments": ["photo1_2"]}]),
        json!([{"copy_history": ["wall1_2"]}]),
    ] {
        let answer = call(&world.sandbox, "POST", "/_/walls/-77", &bad).await;
        assert_eq!(answer.status, 400, "{bad}");
        assert!(answer.json()["error"].is_string());
    }
    assert!(world.seen("-77").is_empty());
    assert_eq!(call(&world.sandbox, "POST", "/_/walls/nobody", &json!([])).await.status, 400);
}

#[tokio::test]
async fn walls_that_cannot_be_read_say_why() {
    let world = World::new().await;
    let cases = [
        (-100, "members", "Access denied: this wall available only for community members"),
        (-101, "blocked", "Access denied: group is blocked"),
        (-102, "disabled", "Access denied: wall is disabled"),
        (103, "private", "This profile is private"),
        (104, "deleted", "User was deleted or banned"),
    ];
    for (id, access, text) in cases {
        let chat = json!({"platform": "vk", "id": id, "access": access});
        world.sandbox.add_chat(&chat).expect("a good chat");
        assert_eq!(world.text("service", "wall.get", json!({"owner_id": id})).await, text, "{access}");
    }
    let unknown = world.ok("service", "wall.get", json!({"owner_id": -999})).await;
    assert_eq!(unknown["count"], 0, "every number is somebody");
    let closed = json!({"platform": "vk", "id": -105, "access": "closed"});
    world.sandbox.add_chat(&closed).expect("a good chat");
    assert_eq!(world.code("user", "wall.post", json!({"owner_id": -105, "message": "x"})).await, 214);
    assert_eq!(world.ok("service", "wall.get", json!({"owner_id": -105})).await["count"], 0);
}

#[tokio::test]
async fn names_lead_to_owners() {
    let world = World::new().await;
    let chat = json!({"platform": "vk", "id": -90, "title": "Потеряшки", "username": "lost_pets"});
    world.sandbox.add_chat(&chat).expect("a good chat");
    let cases = [
        ("lost_pets", json!({"type": "group", "object_id": 90, "group_id": 90})),
        ("LOST_PETS", json!({"type": "group", "object_id": 90, "group_id": 90})),
        ("club77", json!({"type": "group", "object_id": 77, "group_id": 77})),
        ("id5", json!({"type": "user", "object_id": 5})),
        ("nobody", json!([])),
    ];
    for (name, expected) in cases {
        assert_eq!(
            world.ok("service", "utils.resolveScreenName", json!({"screen_name": name})).await,
            expected
        );
    }
    let groups = world.ok("service", "groups.getById", json!({"group_ids": "lost_pets,77"})).await;
    assert_eq!(groups["groups"][0]["name"], "Потеряшки");
    assert_eq!(world.code("service", "groups.getById", json!({"group_ids": "nobody"})).await, 100);
    let users =
        world.ok("service", "users.get", json!({"user_ids": "5,id5,nobody", "fields": "screen_name"})).await;
    assert_eq!((users.as_array().map(Vec::len), users[0]["first_name"].clone()), (Some(2), json!("Вера")));
    assert_eq!(world.ok("community", "users.get", json!({})).await, json!([]));
    let shown = call(&world.sandbox, "GET", "/_/chats?platform=vk&chat=-90", &Value::Null).await.json();
    assert_eq!(shown["vk"][0]["title"], "Потеряшки");
}
