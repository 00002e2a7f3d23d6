//! A person knows better than the rules: cases are joined and split beside a running node, and readers see the result.

use serde_json::{Value, json};

use crate::place::*;

const CHAT: i64 = -1_001_700_000_071;

fn post(id: i64, text: &str) -> Value {
    json!({"id": id, "text": text})
}

/// The case of a message, and which messages it holds.
async fn case_of(place: &Place, message: i64) -> (i64, Vec<i64>) {
    let why = place.json(&["why", &message.to_string()]).await;
    let case = why["case"]["case_id"].as_i64().unwrap();
    let shown = place.json(&["case", "show", &case.to_string()]).await;
    let mut posts: Vec<i64> =
        shown["posts"].as_array().unwrap().iter().map(|post| post["message_id"].as_i64().unwrap()).collect();
    posts.sort_unstable();
    (case, posts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_splits_and_joins_cases_and_finds_posts_again() {
    let mut place = Place::new().await;
    place.set("BOT", TOKEN);
    place.set("READER", "invented-token-of-the-reader");
    place.write(&format!(
        "[accounts.bot]\nplatform = \"telegram\"\ntoken = {{ env = \"BOT\" }}\n\
         [accounts.reader]\nplatform = \"vk\"\ntoken = {{ env = \"READER\" }}\n\
         [channels.lost]\naccount = \"bot\"\ntarget = {CHAT}\ntags = [\"city\"]\n\
         [sources.city]\nkind = \"vk\"\naccount = \"reader\"\ngroups = [\"-501\"]\ntags = [\"city\"]\n"
    ));
    // One text twice: the rules see a repeat, the person knows two sisters.
    let twins =
        "Пропала такса Буся, рыжая, в красном ошейнике. Тюмень, улица Ямская. Телефон +7 975 000-00-71";
    let posts = json!([post(1, twins), post(2, &format!("{twins} Вознаграждение!"))]);
    place.sandbox.put_on_wall(-501, posts).unwrap();
    place.ok(&["apply", "rupor.toml", "--yes"]).await;
    let looked = place.json(&["source", "test", "city/-501"]).await;
    assert_eq!(
        (&looked["posts"], &looked["latest"][0]["channels"]),
        (&json!(2), &json!(["lost"])),
        "{looked}"
    );
    assert!(place.json(&["delivery", "list"]).await.as_array().unwrap().is_empty(), "a test keeps nothing");
    let node = place.node(&[]);
    place.until_told(1).await;
    let silent = async |place: &Place| {
        let rows = place.json(&["delivery", "list", "--status", "deduped"]).await;
        rows.as_array().unwrap().len() == 1
    };
    place.until("the repeat is kept back", silent).await;
    let (case, posts) = case_of(&place, 1).await;
    assert_eq!(posts, [1, 2], "one case");

    let told = place.ok(&["case", "split", &case.to_string(), "2", "--reason", "две сестры"]).await;
    assert!(told.contains("1 post that had kept silent is queued"), "{told}");
    place.until_told(2).await;
    assert_ne!(case_of(&place, 2).await.0, case);
    let why = place.ok(&["why", "2"]).await;
    assert!(why.contains("put there by a person"), "{why}");
    let event = place.json(&["events", "--name", "case_changed", "--last", "1"]).await;
    assert_eq!(
        (&event["detail"]["split_from"], &event["detail"]["reason"]),
        (&json!(case), &json!("две сестры")),
        "{event}"
    );

    let other = case_of(&place, 2).await.0;
    place.ok(&["case", "merge", &case.to_string(), &other.to_string()]).await;
    assert_eq!(case_of(&place, 1).await.1, [1, 2]);
    let pointed = place.ok(&["case", "show", &other.to_string()]).await;
    assert!(pointed.contains(&format!("was joined with case {case}")), "{pointed}");
    // A third copy belongs to it and is a repeat.
    place.sandbox.put_on_wall(-501, json!([post(3, twins)])).unwrap();
    let three = async |place: &Place| place.json(&["delivery", "list"]).await.as_array().unwrap().len() == 4;
    place.until("the third is kept back", three).await;
    assert_eq!(place.told().len(), 2);

    // Found again by words, newest first, with text and link.
    let found = place.json(&["delivery", "list", "--search", "буся вознаграждение", "--since", "1h"]).await;
    let rows = found.as_array().unwrap();
    assert_eq!(rows.len(), 2, "{found}");
    assert!(rows[0]["delivery_id"].as_i64() > rows[1]["delivery_id"].as_i64());
    assert!(
        rows[0]["text"].as_str().unwrap().starts_with("Пропала такса") && rows[0]["link"].is_string(),
        "{found}"
    );
    assert_eq!(place.json(&["delivery", "list", "--search", "мопс"]).await, json!([]));
    assert_eq!(place.json(&["case", "list", "--search", "такса"]).await[0]["case_id"], case);

    // By tag, all at once.
    place.ok(&["source", "pause", "--tag", "city"]).await;
    assert!(place.ok(&["source", "list", "--tag", "city"]).await.contains("paused"));
    place.ok(&["channel", "pause", "--tag", "city"]).await;
    let refused = place.refused(&["channel", "pause", "--tag", "village"]).await;
    assert!(refused.contains("no channel fits the tag \"village\""), "{refused}");
    node.terminate();
}
