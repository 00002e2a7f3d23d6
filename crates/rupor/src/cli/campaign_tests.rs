//! What is written on the command line of `rupor campaign`, and the policy of its page.

use serde_json::json;

use super::*;

#[test]
fn the_policy_of_the_page_is_read_and_names_every_key() {
    let page = include_str!("../../../../docs/campaigns.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let example = blocks.last().unwrap();
    let policy: Policy = toml::from_str(example).unwrap();
    policy.check().unwrap();
    // What is left at its default is not written, so what is written shows what the example names.
    let mut named = json!(policy);
    named["urgent"] = json!(false);
    named["guards"]["abort"] = json!(false);
    let keys: Vec<&String> = named.as_object().unwrap().keys().collect();
    let expected = [
        "canary",
        "deadline",
        "guards",
        "late_by",
        "min_gap",
        "paid",
        "ramp",
        "rate",
        "time_zone",
        "unsubscribe",
        "urgent",
        "window",
    ];
    assert_eq!(keys, expected);
    let guards: Vec<&String> = named["guards"].as_object().unwrap().keys().collect();
    assert_eq!(guards, ["abort", "cooldowns", "failures", "gone", "stops", "unknown"]);
    let unknown = toml::from_str::<Policy>("rat = 1").unwrap_err().to_string();
    assert!(unknown.contains("rate") && unknown.contains("window"), "it names the known ones: {unknown}");
}

#[test]
fn a_button_is_words_and_an_address() {
    assert_eq!(
        button("Сайт=https://example.org/?a=b").unwrap().press,
        Press::Url("https://example.org/?a=b".into())
    );
    assert!(button("Сайт").is_err());
    assert!(button("Сайт=javascript:alert(1)").is_err());
    assert!(time("2026-12-01T10:00+03:00").is_ok());
    assert!(time("завтра").unwrap_err().contains("2026-12-01"));
}

#[test]
fn what_is_queued_waits_and_who_was_cancelled_is_not_dead() {
    let paused = json!({"name": "осень", "state": "paused", "total": 1_200, "sent": 34, "queued": 1_166});
    assert_eq!(
        spoken(&paused),
        "campaign осень is paused: 34 of 1200 sent, 1166 wait, 0 on their way, 0 failed, 0 dead, 0 left out"
    );
    let cancelled =
        json!({"name": "осень", "state": "cancelled", "total": 9, "sent": 3, "dead": 6, "cancelled": 5});
    assert_eq!(
        spoken(&cancelled),
        "campaign осень is cancelled: 3 of 9 sent, 0 wait, 0 on their way, 0 failed, 1 dead, 0 left out, 5 cancelled"
    );
}
