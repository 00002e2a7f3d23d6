//! Tokens: how they are passed, what each kind may do, and what happens to the rest.

use serde_json::{Value, json};

use super::{GROUP, USER, WALL, World};
use crate::wire::{any_token, parsed, raw};

#[tokio::test]
async fn each_kind_of_token_may_do_what_it_may() {
    let world = World::new().await;
    world.post("пост").await;
    let wall = json!({"owner_id": WALL, "post_id": 1, "message": "x", "count": 1, "posts": "-77_1", "group_id": GROUP});
    let peer = json!({"peer_id": USER, "group_id": GROUP, "user_id": USER});
    // Method, then the error for user, community and service; zero is success.
    let matrix: &[(&str, &Value, [i64; 3])] = &[
        ("wall.get", &wall, [0, 27, 0]),
        ("wall.getById", &wall, [0, 27, 0]),
        ("wall.search", &wall, [0, 27, 0]),
        ("wall.getComments", &wall, [0, 27, 0]),
        ("wall.post", &json!({"owner_id": WALL, "message": "x"}), [0, 0, 28]),
        ("wall.edit", &wall, [0, 27, 28]),
        ("wall.pin", &wall, [0, 27, 28]),
        ("wall.createComment", &wall, [0, 0, 28]),
        ("wall.closeComments", &wall, [0, 0, 28]),
        ("wall.delete", &wall, [0, 27, 28]),
        ("photos.getWallUploadServer", &wall, [0, 27, 28]),
        ("photos.saveWallPhoto", &wall, [100, 27, 28]),
        ("photos.getMessagesUploadServer", &peer, [0, 0, 28]),
        ("docs.getWallUploadServer", &wall, [0, 0, 28]),
        ("video.save", &wall, [0, 27, 28]),
        ("messages.getConversations", &peer, [0, 0, 28]),
        ("groups.getById", &wall, [0, 0, 0]),
        ("utils.resolveScreenName", &json!({"screen_name": "pets"}), [0, 0, 0]),
        ("users.get", &json!({"user_ids": 1}), [0, 0, 0]),
        ("groups.getLongPollServer", &wall, [0, 0, 28]),
        ("groups.getCallbackConfirmationCode", &wall, [0, 0, 28]),
        ("groups.getTokenPermissions", &wall, [15, 0, 28]),
        ("execute", &json!({"code": "return 1;"}), [0, 0, 28]),
    ];
    for (method, parameters, expected) in matrix {
        for (token, code) in ["user", "community", "service"].into_iter().zip(expected) {
            let answer = world.answer(token, method, (*parameters).clone()).await;
            let got = answer["error"]["error_code"].as_i64().unwrap_or(0);
            assert_eq!(got, *code, "{method} with {token}: {answer}");
        }
    }
    let text = world.text("community", "wall.get", wall).await;
    assert_eq!(text, "Group authorization failed: method is unavailable with group auth.");
}

#[tokio::test]
async fn a_token_is_a_parameter_or_a_header() {
    let world = World::new().await;
    let requests = [
        "GET /vk/method/users.get?v=5.199&access_token=user HTTP/1.1\r\n".to_owned(),
        "GET /vk/method/users.get?v=5.199 HTTP/1.1\r\nauthorization: Bearer user\r\n".to_owned(),
        "GET /method/users.get?v=5.199 HTTP/1.1\r\nauthorization: bearer user\r\n".to_owned(),
    ];
    for request in requests {
        let whole = format!("{request}host: localhost\r\nconnection: close\r\n\r\n");
        let answer = parsed(&raw(&world.sandbox, whole.as_bytes()).await.0);
        assert_eq!(answer.json()["response"][0]["id"], USER, "{request}");
        assert_eq!(world.last_row().account.as_deref(), Some("user"));
    }
}

#[tokio::test]
async fn an_error_comes_in_an_envelope_that_never_repeats_the_token() {
    let world = World::new().await;
    let answer = world.answer("user", "wall.post", json!({"owner_id": WALL, "guid": "g"})).await;
    let error = &answer["error"];
    assert_eq!(error["error_code"], 100);
    let echoed = error["request_params"].as_array().expect("parameters");
    let value = |key: &str| echoed.iter().find(|pair| pair["key"] == key).map(|pair| pair["value"].clone());
    assert_eq!((value("method"), value("owner_id")), (Some(json!("wall.post")), Some(json!("-77"))));
    assert_eq!((value("guid"), value("access_token")), (Some(json!("g")), None));
}

#[tokio::test]
async fn requests_that_lack_something_get_their_own_numbers() {
    let world = World::new().await;
    let cases = [
        (
            "/vk/method/users.get",
            json!({"access_token": "user"}),
            8,
            "Invalid request: v (version) is required",
        ),
        (
            "/vk/method/users.get",
            json!({"access_token": "user", "v": "six"}),
            8,
            "Invalid request: v (version) is incorrect",
        ),
        (
            "/vk/method/users.get",
            json!({"v": "5.199"}),
            5,
            "User authorization failed: no access_token passed.",
        ),
        (
            "/vk/method/users.get",
            json!({"v": "5.199", "access_token": "?"}),
            5,
            "User authorization failed: invalid access_token (4).",
        ),
        ("/vk/method/users.Get", json!({"v": "5.199", "access_token": "user"}), 3, "Unknown method passed"),
        ("/vk/method/", json!({"v": "5.199", "access_token": "user"}), 3, "Unknown method passed"),
    ];
    for (path, parameters, code, text) in cases {
        let answer = world.form(path, &parameters).await;
        assert_eq!(answer.status, 200);
        let error = answer.json()["error"].clone();
        assert_eq!(
            (error["error_code"].clone(), error["error_msg"].clone()),
            (json!(code), json!(text)),
            "{path}"
        );
    }
    let body = json!({"access_token": "user", "v": "5.199"});
    let as_json = crate::wire::call(&world.sandbox, "POST", "/vk/method/users.get", &body).await;
    assert_eq!(as_json.json()["error"]["error_code"], 8, "JSON bodies are not read");
    let put = crate::wire::call(
        &world.sandbox,
        "PUT",
        "/vk/method/users.get?v=5.199&access_token=user",
        &json!({}),
    )
    .await;
    assert_eq!(put.json()["error"]["error_code"], 9999);
}

#[tokio::test]
async fn a_token_without_the_right_is_refused() {
    let world = World::new().await;
    let account = json!({"platform": "vk", "token": "narrow", "kind": "community", "id": GROUP, "rights": ["messages"]});
    world.sandbox.add_account(&account).expect("a good account");
    let answer = world.answer("narrow", "wall.post", json!({"message": "x"})).await;
    assert_eq!(
        (answer["error"]["error_code"].clone(), answer["error"]["error_subcode"].clone()),
        (json!(15), json!(1133))
    );
    let permissions = world.ok("narrow", "groups.getTokenPermissions", json!({})).await;
    assert_eq!(permissions, json!({"mask": 4096, "permissions": [{"name": "messages", "setting": 4096}]}));
    assert_eq!(world.code("community", "wall.post", json!({"owner_id": -78, "message": "x"})).await, 214);
}

#[tokio::test]
async fn a_community_key_without_an_id_belongs_to_the_community_it_names() {
    let world = World::new().await;
    let account = json!({"platform": "vk", "token": "key", "kind": "community"});
    world.sandbox.add_account(&account).expect("a good account");
    assert_eq!(world.ok("key", "wall.post", json!({"owner_id": -900, "message": "x"})).await["post_id"], 1);
    assert_eq!(world.ok("key", "groups.getById", json!({})).await["groups"][0]["id"], 900);
    assert_eq!(world.code("key", "wall.get", json!({"owner_id": -900})).await, 27);
    let told = world.inject(&json!({"chat": USER, "from": USER, "text": "привет", "account": "key"}));
    assert_eq!(told["events"][0]["group_id"], 900);
}

#[tokio::test]
async fn with_any_token_everything_is_allowed_everywhere() {
    let sandbox = any_token().await;
    let get = async |query: &str| {
        let request = format!(
            "GET /vk/method/{query}&v=5.199&access_token=whoever HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        );
        parsed(&raw(&sandbox, request.as_bytes()).await.0).json()
    };
    assert_eq!(get("wall.post?owner_id=-123&from_group=1&message=x").await["response"]["post_id"], 1);
    assert_eq!(get("wall.get?owner_id=-123").await["response"]["count"], 1);
    assert_eq!(get("messages.send?peer_id=9&random_id=0&message=x").await["response"], 1);
    assert_eq!(get("groups.getById?group_id=123").await["response"]["groups"][0]["id"], 123);
    assert_eq!(get("wall.get?domain=nobody").await["error"]["error_code"], 100);
    let server = get("groups.getLongPollServer?group_id=123").await["response"].clone();
    assert!(server["server"].as_str().is_some_and(|server| server.ends_with("/vk/lp/wh123")));
    let told =
        sandbox.inject(sandbox::Name::Vk, &json!({"chat": 9, "from": 9, "text": "привет"})).expect("told");
    assert_eq!(told["events"][0]["group_id"], 123, "a token speaks for the community it named");
}

#[tokio::test]
async fn registrations_that_make_no_sense_are_refused() {
    let world = World::new().await;
    for (body, word) in [
        (json!({"platform": "vk", "token": "t", "kind": "bot"}), "unknown kind"),
        (json!({"platform": "vk", "token": "t", "kind": "user", "id": "Вера"}), "a VK id is a number"),
        (json!({"platform": "vk", "token": "t", "kind": "user", "rights": ["fly"]}), "cannot be"),
        (json!({"platform": "vk", "token": "t", "kind": "user", "speed": 5}), "unknown field"),
        (json!({"platform": "vk", "token": "t", "kind": "user", "rate": 0}), "cannot be"),
    ] {
        let refusal = world.sandbox.add_account(&body).expect_err("refused");
        assert!(refusal.message.contains(word), "{}", refusal.message);
        assert!(!refusal.known.is_empty() || !matches!(word, "unknown kind" | "unknown field"));
    }
    for body in [
        json!({"platform": "vk", "id": "wall", "type": "wall"}),
        json!({"platform": "vk", "id": 5, "type": "saloon"}),
        json!({"platform": "vk", "id": 5, "access": "sometimes"}),
    ] {
        assert_eq!(world.sandbox.add_chat(&body).expect_err("refused").status, 400, "{body}");
    }
}
