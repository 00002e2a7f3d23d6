//! The words of a text in their dictionary form: what a chat's rules compare, by the same dictionary that posts are
//! read with. It must not know of posts, facts or rules.

use super::TextRef;
use super::lexicon::morph;
use super::normalise::normalise;
use super::tokens::{Reading, TokenKind};

/// Words of one text that are looked at; a longer one has said what it wants by then.
pub const LEMMAS_MAX: usize = 1_000;

/// The lemmas of a text in its order, in lower case with `е` for `ё`; numbers stand as they are written.
/// A word that no dictionary knows is its own lemma.
pub fn lemmas(text: &str) -> Vec<String> {
    let reading = Reading::new(vec![text], vec![normalise(TextRef::Own, text)]);
    let said = reading.tokens.iter().filter(|token| token.kind == TokenKind::Word || token.is_number());
    said.take(LEMMAS_MAX).map(|token| morph::lemma(reading.word(token))).collect()
}

/// Whether two words of lower case can be forms of one: they have a lemma in common.
pub fn may_be_one(one: &str, other: &str) -> bool {
    let lemmas = morph::every_lemma(one);
    one == other || morph::every_lemma(other).iter().any(|lemma| lemmas.contains(lemma))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(lemmas(text), expected, "{text}");
    }

    #[test]
    fn a_word_is_the_same_in_all_its_forms() {
        check("Верните деньги за возврат", &["вернуть", "деньги", "за", "возврат"]);
        check("возврата", &["возврат"]);
        check("ВОЗВРАТОМ!!!", &["возврат"]);
    }

    #[test]
    fn forms_of_one_word_are_told_from_words_that_look_alike() {
        assert!(may_be_one("чек", "чеков"));
        assert!(may_be_one("меню", "меню"));
        assert!(!may_be_one("меню", "меня"));
        assert!(!may_be_one("samsung", "sams"));
    }

    #[test]
    fn look_alike_letters_and_invisible_marks_do_not_hide_a_word() {
        check("зaкaз", &["заказ"]);
        check("зак\u{200b}аза", &["заказ"]);
    }

    #[test]
    fn what_is_no_russian_word_stays_as_it_is() {
        check("Samsung 15", &["samsung", "15"]);
        check("", &[]);
        check("👍 …", &[]);
    }

    #[test]
    fn words_glued_by_a_capital_are_cut_as_in_posts() {
        check("вернитеДеньги", &["вернуть", "деньги"]);
        check("iPhone", &["i", "phone"]);
    }

    #[test]
    fn a_very_long_text_costs_no_more_than_its_beginning() {
        assert_eq!(lemmas(&"да ".repeat(100_000)).len(), LEMMAS_MAX);
    }
}
