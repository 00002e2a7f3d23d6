//! `execute`: arrays of calls, and the rest of the small language.

use serde_json::json;

use super::{WALL, World};

#[tokio::test]
async fn scripts_return_what_they_say() {
    let world = World::new().await;
    world
        .sandbox
        .put_on_wall(WALL, json!([{"text": "а"}, {"text": "б"}, {"text": "в"}]))
        .expect("good posts");
    let cases = [
        ("return 1;", json!(1)),
        ("return [1, \"два\", null, true, {\"a\": [1.5]}];", json!([1, "два", null, true, {"a": [1.5]}])),
        ("return 2 + 3 * 4 - 6 / 4;", json!(12.5)),
        ("return \"a\" + 1;", json!("a1")),
        ("return 7 % 4 == 3 && !(1 > 2) || false;", json!(true)),
        ("var a = [1]; a.push(2); return a.length;", json!(2)),
        ("var a = {b: 1}; a.c = 2; delete a.b; return a;", json!({"c": 2})),
        ("var i = 0; while (i < 5) { i = i + 1; } return i;", json!(5)),
        (
            "var i = 9; do { i = i - 1; } while (i > 3); if (i == 3) return \"три\"; else return i;",
            json!("три"),
        ),
        ("return API.wall.get({\"owner_id\": -77}).items@.text;", json!(["в", "б", "а"])),
        ("return API.users.get({user_ids: [1, 2]})@.id;", json!([1, 2])),
        ("return [API.utils.getServerTime(), API.users.get()[0].id];", json!([1_800_000_000, 5])),
        ("return \"a,b\".split(\",\");", json!(["a", "b"])),
        ("return [1,2,3].slice(1) + [4];", json!([2, 3, 4])),
        ("return parseInt(\"12\") + 1; // остаток", json!(13)),
        ("return Args.word;", json!("слово")),
        ("return 1 > 2 ? \"да\" : \"нет\";", json!("нет")),
        ("return \"\\u043a\\u043e\\u0442 \\ud83d\\ude3a\";", json!("кот 😺")),
        ("var x;", json!(null)),
    ];
    for (code, expected) in cases {
        assert_eq!(
            world.ok("user", "execute", json!({"code": code, "word": "слово"})).await,
            expected,
            "{code}"
        );
    }
}

#[tokio::test]
async fn a_failed_call_is_false_and_the_script_goes_on() {
    let world = World::new().await;
    let code = "return [API.wall.post({\"owner_id\": -77}), API.wall.nothing({}), API.users.get()@.id];";
    let answer = world.answer("user", "execute", json!({"code": code})).await;
    assert_eq!(answer["response"], json!([false, false, [5]]));
    assert_eq!(answer["execute_errors"][0]["method"], "wall.post");
    assert_eq!(
        (
            answer["execute_errors"][0]["error_code"].clone(),
            answer["execute_errors"][1]["error_code"].clone()
        ),
        (json!(100), json!(3))
    );
    let forbidden = world.answer("community", "execute", json!({"code": "return API.wall.get({});"})).await;
    assert_eq!(forbidden["execute_errors"][0]["error_code"], 27);
}

#[tokio::test]
async fn a_script_that_posts_shows_in_the_ledger() {
    let world = World::new().await;
    let post = |text: &str| {
        format!("API.wall.post({{\"owner_id\": -77, \"from_group\": 1, \"message\": \"{text}\"}})")
    };
    world.ok("user", "execute", json!({"code": format!("return [{}, {}];", post("раз"), post("два"))})).await;
    let row = world.last_row();
    assert_eq!((row.method.as_str(), row.accepted, row.visible_id), ("execute", true, json!([1, 2])));
    assert_eq!((row.text.as_deref(), world.seen("-77").len()), (Some("раз"), 2));
}

#[tokio::test]
async fn bad_scripts_are_refused() {
    let world = World::new().await;
    let deep = format!("return {}1{};", "(".repeat(500), ")".repeat(500));
    let calls = format!("return [{}];", ["API.users.get({})"; 26].join(","));
    let cases = [
        ("return [", 12),
        ("return \"открыто", 12),
        ("@", 12),
        ("var = 5;", 12),
        ("return {a 1};", 12),
        ("/* без конца", 12),
        (&deep, 12),
        (&calls, 13),
        ("while (true) {}", 13),
        ("return nothing(5);", 13),
        ("return \"x\".fly();", 13),
        ("1 = 2;", 13),
    ];
    for (code, expected) in cases {
        assert_eq!(world.code("user", "execute", json!({"code": code})).await, expected, "{code}");
    }
    assert_eq!(world.code("user", "execute", json!({})).await, 100);
}
