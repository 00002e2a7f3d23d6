//! What holds for any dialogue: a step never panics or runs away, repeats itself exactly, keeps secrets.

use domain::dialogue::transcript;
use domain::dialogue::{Event, Mode, Rules, State, Verdict, What, step};
use domain::time::{Span, Timestamp};
use proptest::prelude::*;

use crate::steps::SHOP;

const NOW: Timestamp = Timestamp::from_millis(1_794_992_400_000);

fn words() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "доставка",
        "возврат",
        "отмена",
        "оператор",
        "AB-123456",
        "89123456789",
        "/start",
        "/stop",
        "не",
        "дотавка",
        "да",
        "абырвалг",
        "{phone}",
        "\u{200b}",
        "/",
    ]);
    let one = prop_oneof![3 => known.prop_map(str::to_owned), 1 => any::<String>()];
    prop::collection::vec(one, 0..4).prop_map(|words| words.join(" "))
}

fn what() -> impl Strategy<Value = What> {
    let ids = prop::sample::select(vec![
        "доставка@menu",
        "возврат",
        "!faq.delivery",
        "_subscribe",
        "_skip",
        "",
        "нет",
    ]);
    prop_oneof![
        8 => words().prop_map(|text| What::Text { text }),
        2 => ids.prop_map(|id| What::Press { id: id.to_owned() }),
        1 => words().prop_map(|text| What::Photo { photo: "p".to_owned(), text }),
        1 => Just(What::Other { kind: "sticker".to_owned() }),
        1 => Just(What::Timer),
        1 => words().prop_map(|text| What::Operator { text }),
        1 => Just(What::Closed),
        1 => Just(What::Started { payload: String::new() }),
        1 => Just(What::Blocked),
        1 => Just(What::Returned),
        1 => any::<bool>().prop_map(|ok| What::Answer {
            service: "x".to_owned(),
            fields: ok.then(Default::default),
            reason: String::new(),
        }),
    ]
}

/// Steps with the seconds that pass before each, and how late each is.
fn dialogues() -> impl Strategy<Value = Vec<(What, i64, i64)>> {
    let late = prop_oneof![5 => Just(0), 1 => -500..500i64];
    prop::collection::vec((what(), 0..3_000i64, late), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_dialogue_holds_its_promises_whatever_happens(dialogue in dialogues()) {
        let rules = Rules::read(SHOP).unwrap();
        let (mut state, mut now) = (State::default(), NOW);
        for (what, seconds, late) in dialogue {
            now = now + Span::from_secs(seconds);
            let event = Event::new(now - Span::from_secs(late), what);
            let decision = step(&rules, &state, &event, now);
            // Equal input, equal decision; also after the state went to a database and back.
            let kept: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
            prop_assert_eq!(&step(&rules, &kept, &event, now), &decision);
            prop_assert!(!decision.logs.is_empty());
            prop_assert!(decision.entered.len() <= 20 && decision.replies.len() <= 21);
            prop_assert!(decision.replies.iter().all(|reply| !reply.text.trim().is_empty()));
            if decision.verdict() == Verdict::Fallback {
                prop_assert_eq!(&decision.state.slots, &state.slots);
            }
            if matches!(decision.verdict(), Verdict::Late | Verdict::Stale) {
                prop_assert_eq!(&decision.state.slots, &state.slots);
                prop_assert_eq!(decision.state.misses, state.misses);
            }
            if state.mode == Mode::Human && event.what.is_by_person() {
                prop_assert!(decision.replies.is_empty(), "the bot talks over a human: {:?}", decision.replies);
            }
            let logs = serde_json::to_string(&decision.logs).unwrap();
            let phone = decision.state.slots.get("phone").or(state.slots.get("phone"));
            prop_assert!(phone.is_none_or(|phone| !logs.contains(phone)), "{logs}");
            state = decision.state;
        }
    }

    #[test]
    fn any_text_is_a_rules_file_or_says_why_not(text in any::<String>()) {
        let _ = Rules::read(&text);
        let _ = Rules::read(&format!("[intents.a]\nany = ['''{text}''']\n"));
        let _ = transcript::read(&text);
    }
}
