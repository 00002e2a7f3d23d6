//! Armed faults in VK's own words.

use serde_json::{Value, json};

use super::{USER, WALL, World};

async fn struck(world: &World, fault: Value, method: &str, parameters: Value) -> (u16, Value) {
    let mut fault = fault;
    fault["platform"] = "vk".into();
    fault["times"] = 1.into();
    world.sandbox.arm(&fault).expect("a known fault");
    let mut parameters = parameters;
    parameters["access_token"] = "user".into();
    parameters["v"] = "5.199".into();
    let answer = world.form(&format!("/vk/method/{method}"), &parameters).await;
    let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    (answer.status, body)
}

#[tokio::test]
async fn faults_that_are_answers_use_the_platforms_numbers() {
    let world = World::new().await;
    let post = json!({"owner_id": WALL, "message": "x"});
    let send = json!({"peer_id": USER, "random_id": 0, "message": "x"});
    let read = json!({"owner_id": WALL});
    let cases = [
        ("429", Value::Null, "wall.post", &post, 6),
        ("429", json!(9), "wall.post", &post, 9),
        ("401", Value::Null, "wall.post", &post, 5),
        ("403", Value::Null, "wall.post", &post, 214),
        ("403", Value::Null, "wall.get", &read, 15),
        ("404", Value::Null, "wall.get", &read, 104),
        ("kicked", Value::Null, "messages.send", &send, 917),
        ("kicked", Value::Null, "wall.post", &post, 214),
        ("blocked", Value::Null, "messages.send", &send, 901),
        ("chat_not_found", Value::Null, "messages.send", &send, 927),
        ("chat_not_found", Value::Null, "wall.get", &read, 203),
        ("vk_error", json!(219), "wall.post", &post, 219),
        ("vk_error", json!(14), "wall.post", &post, 14),
        ("captcha", Value::Null, "wall.post", &post, 14),
        ("attachment_not_ready", Value::Null, "wall.post", &post, 22),
    ];
    for (kind, code, method, parameters, expected) in cases {
        let fault = json!({"kind": kind, "code": code});
        let (status, body) = struck(&world, fault, method, parameters.clone()).await;
        assert_eq!(
            (status, body["error"]["error_code"].clone()),
            (200, json!(expected)),
            "{kind} on {method}"
        );
        assert!(body["error"]["error_msg"].as_str().is_some_and(|text| !text.is_empty()));
        let row = world.last_row();
        assert_eq!((row.accepted, row.fault), (false, Some(kind)));
    }
    for status in [500, 502, 503, 504] {
        let (got, _) = struck(&world, json!({"kind": status.to_string()}), "wall.post", post.clone()).await;
        assert_eq!(got, status);
    }
    assert!(world.seen("-77").is_empty());
}

#[tokio::test]
async fn a_captcha_carries_what_its_solver_needs() {
    let world = World::new().await;
    let post = json!({"owner_id": WALL, "message": "x"});
    let (_, body) = struck(&world, json!({"kind": "captcha"}), "wall.post", post.clone()).await;
    let error = &body["error"];
    assert_eq!(error["error_msg"], "Captcha needed");
    assert!(error["captcha_sid"].is_string() && error["redirect_uri"].is_string());
    let image = world.get(error["captcha_img"].as_str().expect("an address")).await;
    assert_eq!((image.status, &image.body[..3]), (200, &[0xff, 0xd8, 0xff][..]));
    let mut solved = post;
    solved["captcha_sid"] = error["captcha_sid"].clone();
    solved["captcha_key"] = "слово".into();
    assert_eq!(world.ok("user", "wall.post", solved).await["post_id"], 1);
}

#[tokio::test]
async fn an_accepted_post_is_on_the_wall_though_its_answer_is_lost() {
    let world = World::new().await;
    let fault =
        json!({"platform": "vk", "kind": "accept_then_500", "method": "wall.post", "chat": WALL, "times": 1});
    world.sandbox.arm(&fault).expect("a known fault");
    let post = json!({"owner_id": WALL, "from_group": 1, "message": "x", "guid": "g", "access_token": "user", "v": "5.199"});
    let answer = world.form("/vk/method/wall.post", &post).await;
    assert_eq!(answer.status, 500);
    let row = world.last_row();
    assert_eq!((row.accepted, row.fault, row.visible_id), (true, Some("accept_then_500"), json!(1)));
    assert_eq!(world.seen("-77"), ["x"]);
    let again = world.form("/vk/method/wall.post", &post).await.json();
    assert_eq!(again["response"]["post_id"], 1, "the guid finds it");
    assert_eq!(world.seen("-77").len(), 1);
}

#[tokio::test]
async fn a_long_poll_fails_on_command() {
    let world = World::new().await;
    let server = world.ok("community", "groups.getLongPollServer", json!({"group_id": 77})).await;
    let path = server["server"].as_str().expect("an address").replace(world.sandbox.origin(), "");
    for (code, failed) in [(1, 1), (2, 2), (3, 3), (10, 2)] {
        let fault =
            json!({"platform": "vk", "kind": "vk_error", "code": code, "method": "a_check", "times": 1});
        world.sandbox.arm(&fault).expect("a known fault");
        let key = server["key"].as_str().expect("a key");
        let answer = world.get(&format!("{path}?act=a_check&key={key}&ts=0&wait=0")).await.json();
        assert_eq!(answer["failed"], failed);
    }
}
