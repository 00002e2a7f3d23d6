//! Mistakes in a rules file, each as its author would make it, and what they are told.

use domain::dialogue::Rules;
use domain::dialogue::lint::lint;
use expect_test::{Expect, expect};

use crate::steps::SHOP;

/// What is said about a file: what cannot be read, or else what is suspicious.
fn told(source: &str) -> String {
    let faults = match Rules::read(source) {
        Ok(rules) => lint(&rules),
        Err(faults) => faults,
    };
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(source: &str, expected: Expect) {
    expected.assert_eq(&told(source));
}

/// The shop with one thing written otherwise.
#[track_caller]
fn otherwise(from: &str, to: &str, expected: Expect) {
    assert!(SHOP.contains(from), "{from}");
    check(&SHOP.replacen(from, to, 1), expected);
}

#[test]
fn a_sound_file_is_not_complained_about() {
    check(SHOP, expect![""]);
    check("", expect![""]);
}

#[test]
fn a_key_that_does_not_exist_names_the_one_that_was_meant() {
    otherwise(
        "reply = \"Отменил.\"",
        "repli = \"Отменил.\"",
        expect!["line 48: error: a rule has no key `repli`; did you mean `reply`?"],
    );
    otherwise(
        "tries = 3",
        "trise = 3",
        expect!["line 62: error: ask has no key `trise`; did you mean `tries`?"],
    );
    check(
        "fallbak = 1\nwhatever = 2",
        expect![[r#"
        line 1: error: a rules file has no key `fallbak`; did you mean `fallback`?
        line 2: error: a rules file has no key `whatever`; known keys are engine, start, time_zone, hours, limits, operators, subscribe, fallback, texts, intents, slots, rules, states, moved"#]],
    );
    check("x = [", expect!["line 1: error: this is not TOML: unclosed array, expected `]`"]);
}

#[test]
fn names_that_do_not_exist_are_told_with_their_line() {
    otherwise(
        "next = \"return_phone\"",
        "next = \"return_fone\"",
        expect!["line 63: error: no state is called `return_fone`; did you mean `return_done`?"],
    );
    otherwise(
        "on = { intent = \"cancel\" }",
        "on = { intent = \"cancle\" }",
        expect!["line 46: error: no intent is called `cancle`; did you mean `cancel`?"],
    );
    otherwise(
        "Приняли возврат {order}.",
        "Приняли возврат {ordr}.",
        expect!["line 71: error: no slot is called `ordr`; did you mean `order`?"],
    );
}

#[test]
fn values_of_the_wrong_kind_say_what_is_expected() {
    check(
        "[slots.a]\nkind = \"pattern\"\npattern = '('",
        expect!["line 3: error: slots.a: the expression `(` cannot be used: unclosed group"],
    );
    check(
        "[slots.a]\nkind = \"pattern\"\npattern = '(a{1000}){1000}'",
        expect![
            "line 3: error: slots.a: the expression `(a{1000}){1000}` cannot be used: it is too large; use smaller repetitions"
        ],
    );
    check(
        "[slots.a]\nkind = \"telephone\"",
        expect![
            "line 2: error: slots.a: no kind is called `telephone`; known kinds are text, number, phone, email, date, choice, yes_no, photo, pattern"
        ],
    );
    check(
        "[slots.a]\nkind = \"patern\"\n[[rules]]\non = { text = \"да\" }\nreply = \"{a}\"",
        expect![
            "line 2: error: slots.a: no kind is called `patern`; known kinds are text, number, phone, email, date, choice, yes_no, photo, pattern"
        ],
    );
    check(
        "limits = { idle = \"30\", turns = 0, messages = \"много\" }",
        expect![[r#"
        line 1: error: limits.idle: `30` is not a number with its unit, such as 500ms, 10s, 5m, 72h or 7d
        line 1: error: limits.messages: `много` is not a number and a time, such as "20/1m"
        line 1: error: limits.turns must be between 1 and 1000000, not 0"#]],
    );
    check(
        "hours = { mon-fry = \"10:00-20:00\" }\ntime_zone = \"Moscow\"",
        expect![[r#"
        line 1: error: hours: `mon-fry` is not a day; days are mon, tue, wed, thu, fri, sat, sun, or a row such as mon-fri
        line 2: error: time_zone: no zone is called `Moscow`; write one such as "Europe/Moscow""#]],
    );
    check(
        "[[rules]]\non = { text = \"а\" }",
        expect!["line 2: error: rule line-2 does nothing; give it a reply, a goto or another act"],
    );
    check(
        "[[rules]]\nreply = \"а\"",
        expect![[
            r#"line 2: error: rule line-2 is never woken; write on = { intent = "…" } or another of its forms"#
        ]],
    );
    check(
        "[intents.a]\nany = [\"достав**\", \"\\\"да\", \"|а\"]",
        expect![[r#"
            line 2: error: intents.a: the words `"да`: a quote is opened and not closed
            line 2: error: intents.a: the words `|а`: there is nothing on one side of `|`, or between two quotes
            line 2: error: intents.a: the words `достав**`: `достав**` is not a word; a star may only stand at the end of one"#]],
    );
}

#[test]
fn a_state_nobody_reaches_or_leaves_is_an_error() {
    check(
        &format!("{SHOP}\n[states.island]\nsay = \"Тут никого\"\nend = true"),
        expect![
            "line 75: error: nobody can reach the state `island`; lead to it with goto or next, or remove it"
        ],
    );
    otherwise(
        "next = \"return_done\"\n",
        "",
        expect![[r#"
        line 66: error: the state `return_phone` asks, but does not say where to go with the answer; add next = "…"
        line 69: error: nobody can reach the state `return_done`; lead to it with goto or next, or remove it"#]],
    );
}

#[test]
fn states_that_lead_to_each_other_without_a_word_are_an_error() {
    let circle = "[states.start]\nsay = \"а\"\nnext = \"b\"\n[states.b]\nsay = \"б\"\nnext = \"start\"";
    check(
        circle,
        expect![[r#"
        line 1: error: the states b, start lead to each other without waiting for an answer; give one of them an ask
        line 4: error: the states b, start lead to each other without waiting for an answer; give one of them an ask"#]],
    );
    let clocks = "start = \"a\"\n[states.a]\nidle = { after = \"1m\", goto = \"b\" }\n[states.b]\nidle = { after = \"1m\", goto = \"a\" }";
    check(
        clocks,
        expect![[r#"
        line 2: error: the states a, b lead to each other by their idle clocks, and would write to a sleeping person again and again
        line 4: error: the states a, b lead to each other by their idle clocks, and would write to a sleeping person again and again"#]],
    );
}

#[test]
fn a_form_without_a_way_out_is_an_error() {
    otherwise(
        "interrupt = true\nreply = \"Отменил.\"",
        "reply = \"Отменил.\"",
        expect![[
            r#"line 60: error: a person in the state `return_order` cannot change their mind: no rule cancels; add one such as on = { text = "отмена" }, interrupt = true, goto = "menu""#
        ]],
    );
}

#[test]
fn a_tie_that_only_the_order_in_the_file_decides_is_an_error() {
    let tie = "
[intents.a]
any = [\"доставка\"]
examples = [\"доставка и оплата\"]
[intents.b]
any = [\"оплата\"]
[[rules]]
name = \"a\"
on = { intent = \"a\" }
reply = \"а\"
title = \"А\"
[[rules]]
name = \"b\"
on = { intent = \"b\" }
reply = \"б\"
title = \"Б\"
";
    check(
        tie,
        expect![
            "line 13: error: on «доставка и оплата» the rules `a` (line 8) and `b` are equally good, and only their order in the file decides; give one of them a priority, or more exact words"
        ],
    );
    check(&tie.replacen("name = \"a\"", "name = \"a\"\npriority = 1", 1), expect![""]);
}

#[test]
fn a_rule_that_never_answers_is_an_error_unless_conditions_part_them() {
    let twice = "
[[rules]]
name = \"first\"
on = { text = [\"да\", \"ага\"] }
reply = \"а\"
[[rules]]
name = \"second\"
on = { text = \"да\" }
reply = \"б\"
";
    check(
        twice,
        expect![
            "line 7: error: the rule `second` never answers: `first` (line 3) listens for the same and comes first; remove one, or give this one a priority or a condition"
        ],
    );
    check(&twice.replacen("reply = \"а\"", "reply = \"а\"\nwhen = { open = true }", 1), expect![""]);
}

#[test]
fn examples_and_counter_examples_are_tests() {
    otherwise(
        "examples = [\"сколько стоит доставка?\"]",
        "examples = [\"привезёте завтра?\"]",
        expect![
            "line 15: error: the example «привезёте завтра?» is not understood as `delivery`; add its words to any"
        ],
    );
    otherwise(
        "counter = [\"хочу вернуть куртку\"]",
        "counter = [\"доставка нужна\"]",
        expect![
            "line 16: error: the counter-example «доставка нужна» is answered by `delivery` all the same; write what tells them apart into not"
        ],
    );
}

#[test]
fn what_is_only_suspicious_is_a_warning() {
    check(
        "fallback = [{ handoff = true }]\nhours = { mon = \"10:00-20:00\" }\nintents.a.any = \"да\"",
        expect![[r#"
            line 1: warning: hours are read in UTC because there is no time_zone; write one such as time_zone = "Europe/Moscow"
            line 1: warning: there is a handoff but nobody to hand to; write operators = { channel = "…" }, or people only hear that nobody can help
            line 3: warning: no rule listens for the intent `a`; write on = { intent = "a" } or remove it"#]],
    );
}

#[test]
fn texts_of_the_bot_are_read_as_strictly_as_any_other() {
    check(
        "[texts]\nnobody = \"\"\nfallback = \"Не понял, {nam}.\"\nclosed = \"Откроемся {when}.\"\ndesk_end = \"конец: {why}\"\ndesk_left = \"{why}\"",
        expect![[r#"
            line 2: error: nobody is empty; platforms do not send empty messages
            line 3: error: no slot is called `nam`; write [slots.nam] or use a name that exists
            line 6: error: desk_left: `{why}` is not known at the operators' desk; known is none"#]],
    );
}

#[test]
fn a_rule_that_could_be_asked_about_needs_a_title() {
    check(
        "[intents.hello]\nany = [\"привет\"]\n[[rules]]\nname = \"hello\"\non = { intent = \"hello\" }\nreply = \"Здравствуйте!\"",
        expect![[
            r#"line 4: warning: the rule `hello` has no title, so a slip in its words is not asked about; write title = "…" at the rule or its intent"#
        ]],
    );
}

#[test]
fn the_button_that_the_bot_adds_counts_among_those_of_the_greeting() {
    let rows = |source: &str| {
        let rules = Rules::read(source).unwrap();
        let found = domain::dialogue::lint::keyboards(&rules);
        found.last().map(|keyboard| (keyboard.place.clone(), keyboard.rows.len()))
    };
    let start = "start = \"menu\"\n[states.menu]\nsay = \"Меню\"\nbuttons = [[\"а\"], [\"б\"]]";
    let greeting = "the greeting with the button «Подписаться на новости» below it".to_owned();
    assert_eq!(rows(start), Some((greeting, 3)));
    assert_eq!(rows(&format!("subscribe = \"never\"\n{start}")), Some(("state menu".into(), 2)));
}
