//! One step after another on a small shop.

use domain::dialogue::{Decision, Event, Handoff, Mode, Rules, State, Subscription, Verdict, What, step};
use domain::time::{Span, Timestamp};

pub(crate) const SHOP: &str = r#"
engine = 1
start = "menu"
time_zone = "Europe/Moscow"
hours = { mon-fri = "10:00-20:00", sat = "11:00-18:00", closed = ["2027-01-01/2027-01-08"] }
limits = { turns = 40, steps = 20, idle = "30m", messages = "20/1m" }
operators = { channel = "support", wait = "10m", back = "12h" }
subscribe = "ask"
fallback = ["Не понял. Спросите иначе.", { say = "Выберите тему:", menu = true }, { handoff = true }]

[intents.delivery]
any = ["достав*|доставка|курьер", "когда прид*|приед*"]
not = ["верн*"]
title = "Доставка"
examples = ["сколько стоит доставка?"]
counter = ["хочу вернуть куртку"]

[intents.return]
title = "Возврат"
any = ["верну*|возврат"]

[intents.cancel]
title = "Отмена"
any = ["отмена|отменить"]

[slots.order]
kind = "pattern"
pattern = '^[A-ZА-Я]{2}-?\d{6}$'

[slots.phone]
kind = "phone"
mask = true

[[rules]]
name = "faq.delivery"
on = { intent = "delivery" }
reply = "Доставка 2–4 дня, от 300 ₽."

[[rules]]
name = "return"
on = { intent = "return" }
goto = "return_order"

[[rules]]
name = "cancel"
on = { intent = "cancel" }
interrupt = true
reply = "Отменил."
goto = "menu"

[[rules]]
name = "operator"
on = { text = ["оператор", "человек"] }
interrupt = true
handoff = true

[states.menu]
say = "Чем помочь?"
buttons = [["Доставка", "Возврат"]]

[states.return_order]
ask = { slot = "order", say = "Номер заказа?", invalid = "Нужен вид AB-123456", tries = 3 }
next = "return_phone"
idle = { after = "30m", goto = "menu" }

[states.return_phone]
ask = { slot = "phone", say = "Заказ {order}. Ваш телефон?" }
next = "return_done"

[states.return_done]
say = "Приняли возврат {order}."
log = "return {order} {phone}"
end = true
"#;

/// A dialogue in the hand: the clock stands still unless it is moved.
pub(crate) struct Talk {
    pub rules: Rules,
    pub state: State,
    pub now: Timestamp,
}

impl Talk {
    pub(crate) fn new(source: &str) -> Talk {
        let rules = Rules::read(source).unwrap_or_else(|faults| panic!("{faults:#?}"));
        // A Wednesday, noon in Moscow.
        Talk { rules, state: State::default(), now: Timestamp::from_millis(1_794_992_400_000) }
    }

    pub(crate) fn event(&mut self, what: What) -> Decision {
        let decision = step(&self.rules, &self.state, &Event::new(self.now, what), self.now);
        self.state = decision.state.clone();
        decision
    }

    pub(crate) fn write(&mut self, text: &str) -> Decision {
        self.event(What::Text { text: text.to_owned() })
    }

    #[track_caller]
    pub(crate) fn hears(&mut self, text: &str, replies: &[&str]) -> Decision {
        let decision = self.write(text);
        let heard: Vec<&str> = decision.replies.iter().map(|reply| reply.text.as_str()).collect();
        assert_eq!(heard, replies, "{text}: {:?}", decision.logs);
        decision
    }
}

#[test]
fn a_question_is_answered_and_the_state_stays() {
    let mut talk = Talk::new(SHOP);
    let decision = talk.hears("Скажите, когда приедет курьер?", &["Доставка 2–4 дня, от 300 ₽."]);
    assert_eq!((decision.verdict(), decision.state.name.as_str()), (Verdict::Rule, "menu"));
}

#[test]
fn a_form_asks_checks_and_ends_with_the_slots_in_its_words() {
    let mut talk = Talk::new(SHOP);
    talk.hears("хочу вернуть куртку", &["Номер заказа?"]);
    talk.hears("12", &["Нужен вид AB-123456"]);
    talk.hears("ab-123456", &["Заказ AB-123456. Ваш телефон?"]);
    let decision = talk.hears("8 912 345-67-89", &["Приняли возврат AB-123456."]);
    assert_eq!(decision.state.name, "menu");
    assert!(decision.state.slots.is_empty());
    let notes: Vec<&str> = decision.logs.iter().map(|log| log.note.as_str()).collect();
    assert_eq!(notes, ["slot phone", "return AB-123456 ***"]);
}

#[test]
fn a_global_question_inside_a_form_is_answered_and_the_form_asks_again() {
    let mut talk = Talk::new(SHOP);
    talk.hears("возврат", &["Номер заказа?"]);
    talk.hears("а сколько стоит доставка?", &["Доставка 2–4 дня, от 300 ₽.", "Номер заказа?"]);
    talk.hears("отмена", &["Отменил.", "Чем помочь?"]);
}

#[test]
fn the_ladder_is_climbed_by_misses_in_a_row_and_ends_with_a_human() {
    let mut talk = Talk::new(SHOP);
    talk.hears("абырвалг", &["Не понял. Спросите иначе."]);
    talk.hears("доставка", &["Доставка 2–4 дня, от 300 ₽."]);
    talk.hears("абырвалг", &["Не понял. Спросите иначе."]);
    let menu = talk.hears("абырвалг", &["Выберите тему:"]);
    assert_eq!(menu.replies[0].buttons[0].len(), 2);
    let last = talk.hears("абырвалг", &["Передаю ваш вопрос человеку. Он ответит здесь же."]);
    assert!(matches!(last.handoff, Some(Handoff::Open { .. })), "{last:?}");
    assert_eq!(talk.state.mode, Mode::Human);
    let silent = talk.hears("доставка", &[]);
    assert_eq!(silent.handoff, Some(Handoff::Forward { text: "доставка".to_owned(), photo: None }));
}

#[test]
fn a_press_outside_its_state_gets_a_toast_and_changes_nothing() {
    let mut talk = Talk::new(SHOP);
    let started = talk.hears("/start", &["Чем помочь?"]);
    assert_eq!(started.subscription, Some(Subscription::Known));
    let domain::message::Press::Callback(id) = started.replies[0].buttons[0][0].press.clone() else {
        panic!()
    };
    let pressed = talk.event(What::Press { id: id.clone() });
    assert_eq!(pressed.replies[0].text, "Доставка 2–4 дня, от 300 ₽.");
    talk.hears("возврат", &["Номер заказа?"]);
    let before = talk.state.clone();
    let stale = talk.event(What::Press { id });
    assert_eq!((stale.verdict(), stale.replies.len()), (Verdict::Stale, 0));
    assert_eq!(stale.toast.as_deref(), Some("Эта кнопка уже не действует."));
    assert_eq!(
        (stale.state.name, stale.state.slots, stale.state.tries),
        (before.name, before.slots, before.tries)
    );
}

#[test]
fn a_typo_is_asked_about_and_its_button_answers() {
    let mut talk = Talk::new(SHOP);
    let offered = talk.hears("дотавка", &["Уточните, пожалуйста: вы об этом?"]);
    assert_eq!(offered.verdict(), Verdict::Offered);
    let domain::message::Press::Callback(id) = offered.replies[0].buttons[0][0].press.clone() else {
        panic!()
    };
    let answer = talk.event(What::Press { id });
    assert_eq!(answer.replies[0].text, "Доставка 2–4 дня, от 300 ₽.");
}

#[test]
fn silence_leads_back_and_says_so_by_the_state_where_it_leads() {
    let mut talk = Talk::new(SHOP);
    talk.hears("возврат", &["Номер заказа?"]);
    assert_eq!(talk.state.due(), Some(talk.now + Span::from_secs(1_800)));
    talk.now = talk.now + Span::from_secs(1_801);
    let moved = talk.event(What::Timer);
    assert_eq!((moved.state.name.as_str(), moved.replies[0].text.as_str()), ("menu", "Чем помочь?"));
    assert_eq!(moved.state.due(), None);
}

#[test]
fn a_late_event_is_answered_only_by_a_rule_that_needs_no_state() {
    let mut talk = Talk::new(SHOP);
    talk.hears("возврат", &["Номер заказа?"]);
    let before = talk.state.clone();
    let late = |text: &str| {
        let event = Event::text(talk.now - Span::from_secs(121), text);
        step(&talk.rules, &before, &event, talk.now)
    };
    let faq = late("доставка");
    assert_eq!((faq.verdict(), faq.replies.len()), (Verdict::Late, 1));
    let order = late("AB-123456");
    assert_eq!((order.verdict(), order.replies.len()), (Verdict::Late, 0));
    assert_eq!(faq.state, before);
    assert_eq!(order.state, before);
}

#[test]
fn what_comes_late_while_people_talk_goes_to_them_and_the_bot_is_silent() {
    let mut talk = Talk::new(SHOP);
    talk.hears("возврат", &["Номер заказа?"]);
    talk.write("оператор");
    let late = |what: What| {
        step(&talk.rules, &talk.state, &Event::new(talk.now - Span::from_secs(500), what), talk.now)
    };
    let question = late(What::Text { text: "доставка".into() });
    assert_eq!((question.replies.len(), question.verdict()), (0, Verdict::Human));
    assert_eq!(question.handoff, Some(Handoff::Forward { text: "доставка".into(), photo: None }));
    let sticker = late(What::Other { kind: "sticker".into() });
    assert_eq!(sticker.handoff, Some(Handoff::Forward { text: "[вложение: sticker]".into(), photo: None }));
    assert_eq!(question.state.last_at, talk.state.last_at, "the newest stays the newest");
}

#[test]
fn a_dialogue_in_a_state_that_is_gone_stands_at_the_start() {
    let mut talk = Talk::new(SHOP);
    talk.state.name = "vanished".to_owned();
    talk.hears("доставка", &["Доставка 2–4 дня, от 300 ₽."]);
    assert_eq!(talk.state.name, "menu");
    talk.rules = Rules::read(&format!("{SHOP}\n[moved]\nvanished = \"return_order\"")).unwrap();
    talk.state.name = "vanished".to_owned();
    talk.hears("AB123456", &["Заказ AB123456. Ваш телефон?"]);
}

#[test]
fn a_state_reads_back_as_it_was_kept() {
    let mut talk = Talk::new(SHOP);
    talk.write("возврат");
    let kept = serde_json::to_string(&talk.state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&kept).unwrap(), talk.state);
    let decision = talk.write("AB-123456");
    let kept = serde_json::to_string(&decision).unwrap();
    assert_eq!(serde_json::from_str::<Decision>(&kept).unwrap(), decision);
}
