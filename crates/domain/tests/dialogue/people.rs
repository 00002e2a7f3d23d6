//! Handing over to people, and people who say much at once.

use domain::dialogue::{Decision, Event, Handoff, Mode, Subscription, Verdict, What, step};
use domain::time::{Span, Timestamp};

use super::steps::{SHOP, Talk};

fn moscow(at: &str) -> Timestamp {
    let at: jiff::civil::DateTime = at.parse().expect("a time");
    let zone = jiff::tz::TimeZone::get("Europe/Moscow").expect("a zone");
    let zoned = at.to_zoned(zone).expect("a time of it");
    Timestamp(zoned.timestamp().as_microsecond())
}

#[test]
fn who_asks_in_closed_hours_waits_from_the_opening_on() {
    let mut talk = Talk::new(SHOP);
    talk.now = moscow("2026-11-21T23:00");
    talk.hears(
        "оператор",
        &["Передаю ваш вопрос человеку. Сейчас мы закрыты, ответим в понедельник в 10:00."],
    );
    let opens = moscow("2026-11-23T10:00");
    let clocks = |talk: &Talk| (talk.state.waits_since, talk.state.remind_at, talk.state.back_at);
    let promised = (Some(opens), Some(opens + Span::from_secs(600)), Some(opens + Span::from_hours(12)));
    assert_eq!(clocks(&talk), promised);
    talk.now = moscow("2026-11-22T12:00");
    talk.hears("вы тут?", &[]);
    assert_eq!(clocks(&talk), promised, "what is added on Sunday changes nothing");
    talk.now = moscow("2026-11-23T10:05");
    talk.hears("алло", &[]);
    assert_eq!(talk.state.back_at, Some(talk.now + Span::from_hours(12)));
    assert_eq!(talk.state.waits_since, Some(opens));
}

fn verdicts(decisions: &[Decision]) -> Vec<Verdict> {
    decisions.iter().map(Decision::verdict).collect()
}

#[test]
fn nothing_that_is_said_to_people_is_lost_however_much_it_is() {
    let mut talk = Talk::new(SHOP);
    talk.write("оператор");
    let said: Vec<Decision> = (0..50).map(|n| talk.write(&format!("строка {n}"))).collect();
    assert!(
        said.iter().all(|one| matches!(one.handoff, Some(Handoff::Forward { .. }))),
        "{:?}",
        verdicts(&said)
    );
}

#[test]
fn who_begins_again_and_again_is_one_more_flood() {
    let mut talk = Talk::new(SHOP);
    let started: Vec<Decision> =
        (0..30).map(|_| talk.event(What::Started { payload: String::new() })).collect();
    let answered = started.iter().filter(|one| !one.replies.is_empty()).count();
    assert_eq!(answered, 21, "twenty greetings and one notice: {:?}", verdicts(&started));
    let left = talk.write("/stop");
    assert_eq!((left.subscription, left.replies.len()), (Some(Subscription::Stopped), 0), "always heard");
    talk.now = talk.now + Span::from_secs(61);
    talk.hears("/start", &["Чем помочь?"]);
}

#[test]
fn a_flood_does_not_end_by_going_home() {
    let mut talk = Talk::new(SHOP);
    let decisions: Vec<Decision> = (0..30).map(|_| talk.write("/stop")).collect();
    assert_eq!(decisions.iter().filter(|one| !one.replies.is_empty()).count(), 20);
}

fn picture(talk: &mut Talk, photo: &str, album: &str, text: &str) -> Decision {
    let what = What::Photo { photo: photo.into(), text: text.into() };
    let event = Event { album: Some(album.into()), ..Event::new(talk.now, what) };
    let decision = step(&talk.rules, &talk.state, &event, talk.now);
    talk.state = decision.state.clone();
    decision
}

const PICTURES: &str = r#"
engine = 1
start = "menu"
subscribe = "never"
operators = { channel = "support" }
fallback = ["Не понял."]
[slots.photo]
kind = "photo"
[slots.confirm]
kind = "yes_no"
[[rules]]
name = "begin"
on = { text = "фото" }
goto = "wants"
[[rules]]
name = "human"
on = { text = "человек" }
handoff = true
[states.menu]
say = "Меню"
[states.wants]
ask = { slot = "photo", say = "Фото?" }
next = "sure"
[states.sure]
ask = { slot = "confirm", say = "Верно?", tries = 2 }
next = "menu"
"#;

#[test]
fn an_album_is_one_answer() {
    let mut talk = Talk::new(PICTURES);
    talk.hears("фото", &["Фото?"]);
    let all: Vec<Decision> = (1..=5).map(|n| picture(&mut talk, &n.to_string(), "a", "")).collect();
    assert_eq!(all[0].replies[0].text, "Верно?");
    assert!(
        all[1..].iter().all(|one| one.replies.is_empty() && one.verdict() == Verdict::Ignored),
        "{all:?}"
    );
    assert_eq!((talk.state.name.as_str(), talk.state.mode), ("sure", Mode::Bot));
    assert_eq!(talk.state.slots["photo"], "1");
    let other = picture(&mut talk, "9", "b", "");
    assert_eq!(other.verdict(), Verdict::Invalid, "another album is another answer");
    talk.hears("человек", &["Передаю ваш вопрос человеку. Он ответит здесь же."]);
    let seen: Vec<Decision> = (1..=3).map(|n| picture(&mut talk, &n.to_string(), "c", "")).collect();
    assert!(seen.iter().all(|one| one.handoff.is_some()), "people see all of it");
}

#[test]
fn words_under_a_later_picture_of_an_album_are_heard() {
    let mut talk = Talk::new(PICTURES);
    picture(&mut talk, "1", "a", "");
    assert_eq!(picture(&mut talk, "2", "a", "фото").replies[0].text, "Фото?");
}

#[test]
fn people_who_have_taken_over_read_corrections_and_the_bot_hears_none() {
    let mut talk = Talk::new(SHOP);
    let edit = || What::Edited { text: "доставка".into() };
    let ignored = talk.event(edit());
    assert_eq!((ignored.verdict(), ignored.replies.len()), (Verdict::Ignored, 0));
    talk.write("оператор");
    let read = talk.event(edit()).handoff;
    assert_eq!(read, Some(Handoff::Forward { text: "[исправлено]\nдоставка".into(), photo: None }));
}

#[test]
fn people_read_why_in_the_language_of_the_rules() {
    let why = |decision: Decision| match decision.handoff {
        Some(Handoff::Open { why, .. } | Handoff::Close { why }) => why,
        other => panic!("{other:?}"),
    };
    let mut talk = Talk::new(SHOP);
    assert_eq!(why(talk.write("оператор")), "нужен человек");
    assert_eq!(why(talk.event(What::Blocked)), "собеседник ушёл");
    talk.write("возврат");
    talk.write("12");
    talk.write("12");
    assert_eq!(why(talk.write("12")), "не получается ответить на вопрос «Номер заказа?»");
    assert_eq!(why(talk.event(What::Closed)), "оператор закончил разговор");
    (0..3).for_each(|_| drop(talk.write("абырвалг")));
    assert_eq!(talk.state.mode, Mode::Human);
    let own = SHOP.replace("[intents.delivery]", "[texts]\ndesk_left = \"gone\"\n[intents.delivery]");
    let mut talk = Talk::new(&own.replace("handoff = true\n", "handoff = \"{order} и всё\"\n"));
    talk.write("возврат");
    talk.write("AB-123456");
    assert_eq!(why(talk.write("оператор")), "AB-123456 и всё");
    assert_eq!(why(talk.event(What::Stopped)), "gone");
}
