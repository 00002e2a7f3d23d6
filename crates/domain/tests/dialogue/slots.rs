//! What a question takes for an answer, kind by kind.

use crate::steps::Talk;

/// What a slot of this kind keeps of a text; empty when it is no answer.
fn kept(slot: &str, text: &str) -> String {
    let source = format!(
        "start = \"a\"\ntime_zone = \"Europe/Moscow\"\n[slots.it]\n{slot}\n[states.a]\n\
         ask = {{ slot = \"it\", say = \"?\" }}\nnext = \"b\"\n[states.b]\nsay = \"{{it}}\""
    );
    let mut talk = Talk::new(&source);
    let decision = talk.write(text);
    decision.state.slots.get("it").cloned().unwrap_or_default()
}

#[track_caller]
fn check(slot: &str, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(kept(slot, text), *expected, "{slot}: {text}");
    }
}

#[test]
fn every_kind_takes_what_people_write_and_refuses_the_rest() {
    check("kind = \"text\"\nmax = 5", &[("Пермь", "Пермь"), ("Пермь!!", ""), ("🙂", ""), ("  ", "")]);
    check(
        "kind = \"number\"\nmin = 1\nmax = 10",
        &[("2", "2"), ("штуки 2,5", "2.5"), ("0", ""), ("11", ""), ("2 или 3", ""), ("два", ""), ("1e9", "")],
    );
    check(
        "kind = \"phone\"",
        &[
            ("8 (912) 345-67-89", "+79123456789"),
            ("+7 912 345 67 89", "+79123456789"),
            ("9123456789", "+79123456789"),
            ("+375 29 123-45-67", "+375291234567"),
            ("12345", ""),
            ("+8 912 345 67 89", "+89123456789"),
            ("позвоните 89123456789", ""),
        ],
    );
    check(
        "kind = \"email\"",
        &[
            ("пишите на Anna@Shop.example.", "anna@shop.example"),
            ("anna@shop", ""),
            ("@shop.ru", ""),
            ("a b", ""),
        ],
    );
    check(
        "kind = \"yes_no\"",
        &[("Да!", "yes"), ("нет", "no"), ("не надо", "no"), ("ага, верно", "yes"), ("может", "")],
    );
    check("choices = [\"Размер\", \"Брак\"]", &[("брак", "Брак"), ("1", "Размер"), ("3", ""), ("цвет", "")]);
    check("pattern = '^[A-Z]{2}\\d{3}$'", &[("ab123", "AB123"), ("заказ AB123!", "AB123"), ("AB12", "")]);
}

#[test]
fn a_date_is_read_as_people_write_it_and_without_a_year_the_nearest_is_meant() {
    check(
        "kind = \"date\"",
        &[
            ("завтра", "2026-11-19"),
            ("вчера", "2026-11-17"),
            ("20.11.2026", "2026-11-20"),
            ("2026-12-01", "2026-12-01"),
            ("5.1", "2027-01-05"),
            ("1 декабря", "2026-12-01"),
            ("3 мая 27", "2027-05-03"),
            ("32.12.2026", ""),
            ("31.02.2026", ""),
            ("когда-нибудь", ""),
        ],
    );
}
