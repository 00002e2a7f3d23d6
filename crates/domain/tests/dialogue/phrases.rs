//! What people write to the shop of `examples/shop`, and who answers.

use domain::dialogue::{Event, Rules, State, Verdict, step};
use domain::time::Timestamp;

const RULES: &str = include_str!("../../../../examples/shop/shop.toml");
const PHRASES: &str = include_str!("../../../../examples/shop/phrases.txt");

/// Who answers a phrase at the start: a rule, an offer of one, or nobody.
fn answered(rules: &Rules, phrase: &str) -> String {
    let now = Timestamp::from_millis(1_794_992_400_000);
    let decision = step(rules, &State::default(), &Event::text(now, phrase), now);
    let log = &decision.logs[0];
    // `hours.open` and `hours.closed` are one answer at two times of the day.
    let rule = log.rule.split('.').next().unwrap_or_default();
    match log.verdict {
        Verdict::Rule => rule.to_owned(),
        Verdict::Offered => format!("offer {rule}"),
        other => other.as_str().to_owned(),
    }
}

#[test]
fn phrases_that_people_write_are_answered_by_the_right_rule() {
    let rules = Rules::read(RULES).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let phrases = PHRASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut wrong = Vec::new();
    let mut total = 0;
    for line in phrases {
        let (expected, phrase) = line.split_once('\t').expect("expected answer, tab, phrase");
        let got = answered(&rules, phrase);
        total += 1;
        if !expected.split('|').any(|one| one.trim() == got) {
            wrong.push(format!("{phrase}: expected {expected}, got {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {total} right\n{}", total - wrong.len(), wrong.join("\n"));
}
