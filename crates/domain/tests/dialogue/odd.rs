//! What people send that no author of rules thought of: each has an answer, and none holds up the rest.

use domain::dialogue::{Verdict, What};

use crate::steps::{SHOP, Talk};

/// What arrives of a very long message: `engine` keeps so many characters, and twice as many bytes in Russian.
const LONG: usize = 64 * 1024;

fn sticker(talk: &mut Talk) -> (Verdict, Vec<String>) {
    let decision = talk.event(What::Other { kind: "sticker".into() });
    let said = decision.replies.iter().map(|reply| reply.text.clone()).collect();
    (decision.verdict(), said)
}

#[test]
fn a_sticker_is_answered_like_anything_that_is_not_understood() {
    let mut talk = Talk::new(SHOP);
    assert_eq!(sticker(&mut talk), (Verdict::Fallback, vec!["Не понял. Спросите иначе.".to_owned()]));
    talk.hears("возврат", &["Номер заказа?"]);
    let (verdict, said) = sticker(&mut talk);
    assert_eq!((verdict, said[0].as_str()), (Verdict::Invalid, "Нужен вид AB-123456"), "{said:?}");
    assert_eq!(talk.state.name, "return_order", "the question stays open");
    talk.hears("AB-123456", &["Заказ AB-123456. Ваш телефон?"]);
}

#[test]
fn a_rule_may_answer_a_sticker() {
    let rule = "\n[[rules]]\nname = \"odd\"\non = { event = \"other\" }\nreply = \"Напишите словами, пожалуйста.\"\n";
    let mut talk = Talk::new(&format!("{SHOP}{rule}"));
    assert_eq!(sticker(&mut talk), (Verdict::Rule, vec!["Напишите словами, пожалуйста.".to_owned()]));
}

#[test]
fn a_message_of_64_kilobytes_is_answered_by_what_its_first_words_say() {
    let mut talk = Talk::new(SHOP);
    let noise = "абырвалг ".repeat(LONG / 17);
    assert!(noise.len() > LONG - 20, "{}", noise.len());
    talk.hears(&noise, &["Не понял. Спросите иначе."]);
    talk.hears(&format!("сколько стоит доставка {noise}"), &["Доставка 2–4 дня, от 300 ₽."]);
    for odd in ["я".repeat(LONG), "не ".repeat(LONG / 3), "\u{200b}".repeat(LONG / 3), "👩‍👩‍👧".repeat(LONG / 18)]
    {
        let decision = talk.write(&odd);
        assert!(
            !decision.replies.is_empty() || decision.handoff.is_some() || decision.toast.is_some(),
            "silence"
        );
        talk = Talk::new(SHOP);
    }
}

/// In an engine that tries every way these never end.
#[test]
fn expressions_that_hang_other_engines_answer() {
    for expression in ["(а+)+$", "(а|аа)+$", "(а|а?)+$", "(.*а){12}$", "^(([а-я])+.)+[А-Я]([а-я])+$"]
    {
        let rules = format!(
            "[[rules]]\nname = \"trap\"\non = {{ regex = '{expression}' }}\nreply = \"да\"\n[states.start]\n"
        );
        let mut talk = Talk::new(&rules);
        let decision = talk.write(&format!("{}!", "а".repeat(8_192)));
        assert!(!decision.replies.is_empty(), "{expression}: silence");
        let slot = format!(
            "[slots.trap]\nkind = \"pattern\"\npattern = '{expression}'\n[[rules]]\nname = \"go\"\non = {{ text = \"код\" }}\n\
             goto = \"ask\"\n[[rules]]\nname = \"отмена\"\ninterrupt = true\non = {{ text = \"отмена\" }}\ngoto = \"start\"\n\
             [states.start]\n[states.ask]\nask = {{ slot = \"trap\", say = \"Код?\", invalid = \"Не тот.\" }}\nnext = \"start\"\n"
        );
        let mut talk = Talk::new(&slot);
        talk.hears("код", &["Код?"]);
        let decision = talk.write(&format!("{}!", "а".repeat(8_192)));
        assert!(!decision.replies.is_empty() || decision.state.name == "start", "{expression}: silence");
    }
}
