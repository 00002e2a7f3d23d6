//! Control calls: what is refused, and with which words.

use serde_json::{Value, json};

use crate::wire::{any_token, call};

#[tokio::test]
async fn an_unknown_fault_kind_is_refused_with_the_known_ones() {
    let sandbox = any_token().await;
    let answer =
        call(&sandbox, "POST", "/_/faults", &json!({"platform": "telegram", "kind": "earthquake"})).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"], "unknown fault kind \"earthquake\"");
    let known = answer.json()["known"].as_array().expect("a list").len();
    assert_eq!(known, 30);
    assert!(sandbox.core().faults.list().is_empty());
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_the_known_ones() {
    let sandbox = any_token().await;
    let body = json!({"platform": "telegram", "kind": "hang", "often": 3});
    let answer = call(&sandbox, "POST", "/_/faults", &body).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"], "unknown field \"often\"");
    assert!(answer.json()["known"].as_array().expect("a list").contains(&json!("probability")));
}

#[tokio::test]
async fn bodies_that_are_not_json_objects_are_refused() {
    let sandbox = any_token().await;
    for path in ["/_/faults", "/_/accounts", "/_/chats", "/_/updates/telegram"] {
        let answer = call(&sandbox, "POST", path, &json!([1])).await;
        assert_eq!(
            (answer.status, answer.json()["error"].clone()),
            (400, json!("the body must be a JSON object")),
            "{path}"
        );
        let answer = call(&sandbox, "POST", path, &Value::Null).await;
        assert_eq!(answer.status, 400, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_control_path_lists_the_known_ones() {
    let sandbox = any_token().await;
    let answer = call(&sandbox, "GET", "/_/nothing", &Value::Null).await;
    assert_eq!(answer.status, 404);
    assert!(answer.json()["known"].as_array().expect("a list").contains(&json!("GET /_/ledger")));
}

#[tokio::test]
async fn the_same_name_is_the_same_picture_and_the_altered_copy_differs() {
    let sandbox = any_token().await;
    let first = call(&sandbox, "GET", "/_/pictures/rex.jpg", &Value::Null).await;
    let again = call(&sandbox, "GET", "/_/pictures/rex.jpg", &Value::Null).await;
    let altered = call(&sandbox, "GET", "/_/pictures/rex~.jpg", &Value::Null).await;
    assert_eq!(first.status, 200);
    assert!(first.head.contains("content-type: image/jpeg"), "{}", first.head);
    assert_eq!(first.body, again.body);
    assert_ne!(first.body, altered.body);
    assert_eq!(&altered.body[..3], &[0xff, 0xd8, 0xff]);
}

#[tokio::test]
async fn a_second_sandbox_on_the_same_address_does_not_start() {
    let sandbox = any_token().await;
    let options = sandbox::Options { listen: sandbox.address(), ..sandbox::Options::default() };
    let error = sandbox::Sandbox::start(options).await.expect_err("the address is taken");
    assert!(error.to_string().starts_with("cannot listen on 127.0.0.1:"), "{error}");
}

#[test]
fn the_manual_tells_of_every_fault_kind_and_field() {
    let manual = include_str!("../../../../docs/sandbox.md");
    for (kind, _, _) in sandbox::faults::KINDS {
        assert!(manual.contains(&format!("`{kind}`")), "{kind} is missing in docs/sandbox.md");
    }
    for field in sandbox::faults::FIELDS {
        assert!(manual.contains(&format!("`{field}`")), "{field} is missing in docs/sandbox.md");
    }
}
