//! Words of a pattern against words of a text.

use domain::dialogue::heard::Heard;
use domain::dialogue::words::{Vocabulary, is_one_slip};

/// Whether a pattern is met: surely, with a slip, or not.
fn met(pattern: &str, text: &str) -> &'static str {
    let mut vocabulary = Vocabulary::default();
    let pattern = vocabulary.read(pattern).expect("a pattern");
    let heard = Heard::new(text);
    if pattern.met(&heard, &vocabulary.hits(&heard)).is_some() {
        return "yes";
    }
    match pattern.met(&heard, &vocabulary.hits_with_typos(&heard)) {
        Some(met) if met.typos > 0 => "slip",
        _ => "no",
    }
}

#[track_caller]
fn check(pattern: &str, yes: &[&str], no: &[&str]) {
    for text in yes {
        assert_eq!(met(pattern, text), "yes", "{pattern}: {text}");
    }
    for text in no {
        assert_eq!(met(pattern, text), "no", "{pattern}: {text}");
    }
}

#[test]
fn a_bare_word_means_all_its_forms_and_nothing_else() {
    check("доставка", &["доставку", "О ДОСТАВКЕ!", "дoставкой"], &["достать", "поставка"]);
    check("меню", &["меню", "МЕНЮ"], &["у меня вопрос", "мена"]);
    check("чек", &["нужен чек", "чека нет", "без чеков"], &["чего", "человек"]);
    check("ещё", &["еще", "Ещё"], &["её"]);
}

#[test]
fn forms_whose_stems_differ_are_one_word_by_their_lemma() {
    check("деньги", &["верните денег", "деньгами можно?"], &["в какой день", "деньской"]);
    check("взять", &["возьму две", "можно взять"], &["взнос"]);
    check("прийти", &["когда придёте", "не мог понять, пришёл ли заказ"], &["приятно"]);
}

#[test]
fn a_star_means_every_word_that_begins_so() {
    check("достав*", &["доставка", "доставите", "достав"], &["дос тавка", "недоставка"]);
}

#[test]
fn words_stand_in_any_order_and_quotes_keep_them_together() {
    check("когда прид*|приед*", &["придёт когда", "когда же приедет"], &["когда", "придёт"]);
    check("\"часы работы\"", &["какие часы работы"], &["работы часы", "часы вашей работы"]);
    check("размер*|рост \"не подошел\"", &["размер не подошёл"], &["размер подошёл", "не подошел"]);
    check("да да", &["да, да"], &["да"]);
}

#[test]
fn a_denied_word_is_not_said_unless_the_pattern_denies_it() {
    check(
        "доставка",
        &["не доставка, а доставка!", "не нужна доставка"],
        &["не доставка", "это не доставка"],
    );
    check("не работает", &["не работает", "сайт не работает"], &["работает"]);
}

#[test]
fn a_slip_is_forgiven_in_whole_words_of_six_letters_only() {
    for text in ["дотавка", "доствака", "доставкаа", "доставва"] {
        assert_eq!(met("доставка", text), "slip", "{text}");
    }
    for (pattern, text) in
        [("достав*", "дотсав"), ("заказ", "закас"), ("доставка", "поставка"), ("доставка", "дотавку")]
    {
        assert_eq!(met(pattern, text), "no", "{pattern} {text}");
    }
    assert!(!is_one_slip("доставка", "доставка"));
}
