//! What the bot makes of what platforms tell: every odd thing has a defined end.

use domain::dialogue::{Rules, What};
use domain::ids::{AccountId, ChannelId, ClaimToken, MessageId, RecipientId, WorkspaceId};
use domain::time::Timestamp;
use platforms::incoming::{Callback, Contact, Event, Incoming, Said};
use serde_json::json;
use store::{DialogueMode, InboxEvent, Turn, UpdateOf};

use super::hear::{self, Asked, Desk, Heard, TEXT_MAX, To};
use super::take;

const HERE: AccountId = AccountId(7);

fn desks() -> Vec<Desk> {
    vec![Desk { channel_id: ChannelId(3), account_id: HERE, chat: "-900".into() }]
}

fn heard(event: Event) -> Heard {
    hear::read("test", HERE, &desks(), &Incoming { key: "k".into(), at_ms: Some(5), event })
}

fn private(text: &str) -> Said {
    Said {
        chat: "70".into(),
        from: Some("70".into()),
        name: Some("Анна".into()),
        message_id: "1".into(),
        text: text.into(),
        private: true,
        ..Said::default()
    }
}

fn at_desk(text: &str, reply_to: Option<&str>) -> Heard {
    let chat = "-900".to_owned();
    let reply_to = reply_to.map(str::to_owned);
    heard(Event::Message(Said { chat, private: false, reply_to, ..private(text) }))
}

#[test]
fn a_desk_that_is_configured_by_its_public_name_is_known_by_its_number() {
    let desk = Desk { channel_id: ChannelId(3), account_id: HERE, chat: "@Support".into() };
    let said = Said {
        chat: "-100900".into(),
        chat_name: Some("support".into()),
        private: false,
        ..private("#A17 Здравствуйте")
    };
    let incoming = Incoming { key: "k".into(), at_ms: Some(5), event: Event::Message(said.clone()) };
    let of = |desks: &[Desk], incoming: &Incoming| hear::read("test", HERE, desks, incoming).update.of;
    assert_eq!(of(std::slice::from_ref(&desk), &incoming), UpdateOf::Operator(RecipientId(17)));
    let elsewhere = Said { chat_name: Some("другие".into()), ..said };
    let incoming = Incoming { event: Event::Message(elsewhere), ..incoming };
    assert!(matches!(of(&[desk], &incoming), UpdateOf::Chat { why: "group", .. }));
}

#[test]
fn only_who_is_at_the_desk_decides_about_a_post() {
    let asked = Asked { message: MessageId(12), held_at: Timestamp(1_763_496_315_000_000), publish: true };
    let press = |chat: &str, payload: String, private| {
        let (chat, from, name) = (chat.to_owned(), "900".to_owned(), Some("Анна".to_owned()));
        heard(Event::Callback(Callback { chat, from, name, payload, private, ..Callback::default() })).update
    };
    let decision = press("-900", asked.press(), false);
    assert_eq!((decision.of, decision.kind.as_str()), (UpdateOf::Decision, "decision"));
    let kept = hear::callback(&decision.body).unwrap();
    assert_eq!((Asked::read(&kept.payload), kept.name.as_deref()), (Some(asked), Some("Анна")));
    for (chat, private) in [("70", true), ("-901", false)] {
        assert_eq!(press(chat, asked.press(), private).of, UpdateOf::Skipped("not at the desk"));
    }
    assert_eq!(press("-900", "menu:1".into(), false).of, UpdateOf::Skipped("group"));
}

#[test]
fn what_the_buttons_of_a_post_ask_is_read_back_and_nothing_else_is() {
    for publish in [true, false] {
        let asked = Asked { message: MessageId(i64::MAX), held_at: Timestamp(i64::MAX), publish };
        assert!(asked.press().len() <= 64, "{}", asked.press());
        assert_eq!(Asked::read(&asked.press()), Some(asked));
    }
    for odd in [
        "",
        "rupor:held",
        "rupor:held:1:2",
        "rupor:held:1:2:maybe",
        "rupor:held:1:2:yes:3",
        "rupor:held:a:2:yes",
    ] {
        assert_eq!(Asked::read(odd), None, "{odd}");
    }
}

#[test]
fn a_desk_that_is_one_person_is_known_by_who_writes() {
    let desk = Desk { channel_id: ChannelId(3), account_id: HERE, chat: "user:55".into() };
    let of = |from: &str, alone| {
        let said = Said {
            chat: "7000".into(),
            from: Some(from.into()),
            private: alone,
            ..private("#A17 Здравствуйте")
        };
        let incoming = Incoming { key: "k".into(), at_ms: Some(5), event: Event::Message(said) };
        hear::read("test", HERE, std::slice::from_ref(&desk), &incoming).update.of
    };
    assert_eq!(of("55", true), UpdateOf::Operator(RecipientId(17)));
    assert!(matches!(of("56", true), UpdateOf::Person { .. }), "a customer");
    assert!(matches!(of("55", false), UpdateOf::Chat { why: "group", .. }), "the same person elsewhere");
}

/// What it means in a dialogue, read back from what is kept.
fn meant(said: Said) -> What {
    let heard = heard(Event::Message(said));
    assert!(matches!(heard.update.of, UpdateOf::Person { .. }), "{heard:?}");
    hear::event(&heard.update.body, Timestamp(5)).what
}

fn skipped(event: Event) -> &'static str {
    match heard(event).update.of {
        UpdateOf::Skipped(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_person_says_is_read_by_its_form() {
    assert_eq!(meant(private("привет")), What::Text { text: "привет".into() });
    let attached = |kind: &str, text: &str| Said { attached: vec![kind.into()], ..private(text) };
    assert_eq!(meant(attached("sticker", "")), What::Other { kind: "sticker".into() });
    assert_eq!(meant(attached("image", "вот")), What::Photo { photo: "1".into(), text: "вот".into() });
    assert_eq!(meant(private("  ")), What::Other { kind: "empty".into() });
    assert_eq!(
        meant(Said { payload: Some("b1".into()), ..private("Меню") }),
        What::Press { id: "b1".into() }
    );
    let What::Text { text } = meant(private(&"я".repeat(64 * 1024))) else { panic!() };
    assert_eq!(text.chars().count(), TEXT_MAX);
    let edited = Said { edited: true, ..private("правка") };
    assert_eq!(meant(edited), What::Edited { text: "правка".into() });
    assert_eq!(meant(private("а\0б")), What::Text { text: "аб".into() });
}

/// One refused update would hold up the whole poll, for ever.
#[test]
fn nothing_that_a_database_refuses_is_left_in_an_update() {
    let contact = Contact {
        chat: "7\0".into(),
        from: Some("7\0".into()),
        name: Some("Ан\0на".into()),
        payload: Some("от\0куда".into()),
        private: true,
        chat_title: Some("Скл\0ад".into()),
    };
    let press = Callback { chat: "70".into(), payload: "b\0".into(), private: true, ..Callback::default() };
    for event in [
        Event::Started(contact.clone()),
        Event::Blocked(contact.clone()),
        Event::Started(Contact { private: false, ..contact }),
        Event::Message(Said { payload: Some("1b\0".into()), ..private("а\0") }),
        Event::Callback(press),
        Event::Unknown { kind: "но\0вое".into() },
    ] {
        let incoming = Incoming { key: "k\0".into(), at_ms: Some(i64::MAX), event };
        let update = hear::read("test", HERE, &desks(), &incoming).update;
        let item = update.item().to_string();
        assert!(!item.contains("\\u0000"), "{item}");
        assert_eq!(update.at, None, "a date of no calendar is none");
    }
}

#[test]
fn what_no_dialogue_hears_is_skipped_with_its_reason() {
    let desk = Said { chat: "-900".into(), private: false, ..private("#A17 правка") };
    assert_eq!(skipped(Event::Message(Said { edited: true, ..desk })), "edit");
    let group = Said { private: false, chat_title: Some("Склад".into()), ..private("в группе") };
    let there = |why| UpdateOf::Chat { address: "70".into(), title: Some("Склад".into()), why };
    assert_eq!(heard(Event::Message(group.clone())).update.of, there("group"));
    assert_eq!(heard(Event::Post(group)).update.of, there("post"));
    assert_eq!(skipped(Event::Message(Said { by_bot: true, ..private("я бот") })), "bot");
    assert_eq!(skipped(Event::Message(Said { from: None, ..private("?") })), "nobody");
    assert_eq!(skipped(Event::Post(private("пост"))), "post");
    assert_eq!(skipped(Event::Unknown { kind: "like_add".into() }), "unknown");
    assert_eq!(skipped(Event::Callback(Callback { private: false, ..Callback::default() })), "group");
}

#[test]
fn who_comes_and_goes_is_told_apart_from_chats() {
    let contact =
        |private| Contact { chat: "9".into(), from: Some("70".into()), private, ..Contact::default() };
    assert!(matches!(heard(Event::Started(contact(true))).update.of, UpdateOf::Person { .. }));
    assert!(matches!(heard(Event::Started(contact(false))).update.of, UpdateOf::Chat { .. }));
    assert!(matches!(heard(Event::Stopped(contact(false))).update.of, UpdateOf::ChatLeft { .. }));
    let left = heard(Event::Blocked(contact(true))).update;
    assert_eq!(
        (left.kind.as_str(), left.of),
        ("blocked", UpdateOf::Left { user_id: "70".into(), address: "9".into() })
    );
    assert_eq!(heard(Event::Returned(contact(true))).update.kind, "return");
}

#[test]
fn people_answer_by_number_or_by_reply_and_their_own_talk_is_left_alone() {
    let answer = at_desk("#A17 Здравствуйте", None).update;
    assert_eq!((answer.of, answer.kind.as_str()), (UpdateOf::Operator(RecipientId(17)), "operator"));
    assert_eq!(answer.body["text"], "Здравствуйте");
    assert_eq!(at_desk("#A17 /close", None).update.kind, "close");
    let reply = at_desk("Сейчас посмотрю", Some("55"));
    assert_eq!(reply.answer.unwrap().to, To::Message("55".into()));
    for (talk, why) in [
        ("кто возьмёт?", "desk"),
        ("#A17", "empty answer"),
        ("#Aнна, возьми", "desk"),
        ("#A17 Анна · MAX\nгде заказ?", "forward"),
    ] {
        assert_eq!(at_desk(talk, None).update.of, UpdateOf::Skipped(why), "{talk}");
    }
}

fn turn(texts: &[&str], operators: Option<ChannelId>) -> Turn {
    let event = |(n, text): (usize, &&str)| InboxEvent {
        inbox_id: n as i64 + 1,
        account_id: HERE,
        kind: "text".into(),
        body: heard(Event::Message(private(text))).update.body,
        happened_at: Timestamp(n as i64 + 1),
        received_at: Timestamp(n as i64 + 1),
    };
    Turn {
        workspace_id: WorkspaceId(1),
        account_id: HERE,
        recipient_id: RecipientId(17),
        bot_id: None,
        operators,
        rules_version: 1,
        platform: "test".into(),
        user_id: "70".into(),
        attributes: json!({"name": "Анна"}),
        token: ClaimToken(Default::default()),
        version: 0,
        mode: DialogueMode::Bot,
        state: json!({}),
        timer_at: None,
        events: texts.iter().enumerate().map(event).collect(),
    }
}

const RULES: &str = r#"
engine = 1
start = "menu"
subscribe = "never"
fallback = ["не понял"]
operators = { channel = "support", wait = "10m", back = "12h" }
[states.menu]
[[rules]]
name = "hello"
on = { text = "привет" }
reply = "здравствуйте"
[[rules]]
name = "human"
on = { text = "оператор" }
handoff = true
"#;

#[test]
fn a_turn_answers_each_event_in_order_and_hands_a_person_over() {
    let rules = Rules::read(RULES).unwrap();
    let (taken, _) =
        take(&turn(&["привет", "оператор", "где заказ?"], Some(ChannelId(3))), Some(&rules), Timestamp(9));
    let said = |say: &store::Say| (say.event, say.channel, say.payload["text"].as_str().unwrap().to_owned());
    let says: Vec<_> = taken.says.iter().map(said).collect();
    assert_eq!(says[0], (0, None, "здравствуйте".to_owned()));
    let forwards: Vec<_> = says.iter().filter(|(_, channel, _)| channel.is_some()).collect();
    assert_eq!(forwards.len(), 2, "{says:?}");
    assert!(forwards.iter().all(|(_, _, text)| text.starts_with("#A17 Анна · ")), "{forwards:?}");
    assert!(forwards[1].2.ends_with("где заказ?"), "{forwards:?}");
    assert_eq!(taken.mode, DialogueMode::Human);
    assert!(taken.timer_at.is_some(), "people are reminded");
    assert_eq!(taken.events.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_bot_without_rules_marks_what_it_heard_and_says_nothing() {
    let (taken, _) = take(&turn(&["привет"], None), None, Timestamp(9));
    assert_eq!((taken.events.as_slice(), taken.says.len()), (&[(1, "no_rules".to_owned())][..], 0));
}

/// A press as a platform tells it; `None`: a keyboard of words, which has no press to answer.
fn presses(ids: &[Option<&str>]) -> Turn {
    let press = |(n, id): (usize, &Option<&str>)| {
        let event = match id {
            Some(id) => Event::Callback(Callback {
                id: (*id).into(),
                chat: "70".into(),
                from: "70".into(),
                payload: "gone".into(),
                private: true,
                ..Callback::default()
            }),
            None => Event::Message(Said { payload: Some("gone".into()), ..private("Меню") }),
        };
        InboxEvent {
            inbox_id: n as i64 + 1,
            body: heard(event).update.body,
            ..turn(&["x"], None).events.remove(0)
        }
    };
    Turn { events: ids.iter().enumerate().map(press).collect(), ..turn(&[], None) }
}

#[test]
fn every_press_of_a_turn_is_answered_and_a_press_of_words_by_words() {
    let rules = Rules::read(RULES).unwrap();
    let (taken, toasts) = take(&presses(&[Some("p1"), None, Some("p2")]), Some(&rules), Timestamp(9));
    let told: Vec<_> = toasts.iter().map(|(_, press, text)| (press.id.as_str(), text.as_deref())).collect();
    let stale = Some("Эта кнопка уже не действует.");
    assert_eq!(told, [("p1", stale), ("p2", stale)]);
    let says: Vec<_> = taken.says.iter().map(|say| (say.event, say.payload["text"].as_str())).collect();
    assert_eq!(says, [(1, stale)]);
}

#[test]
fn the_pictures_of_an_album_are_known_to_belong_together() {
    let said = Said { attached: vec!["photo".into()], album: Some("77".into()), ..private("") };
    let kept = heard(Event::Message(said)).update.body;
    assert_eq!(hear::event(&kept, Timestamp(5)).album.as_deref(), Some("77"));
}

#[test]
fn what_is_attached_to_an_answer_is_seen_to_stay_at_the_desk() {
    let photo = |text: &str, reply_to: Option<&str>| {
        let said =
            Said { attached: vec!["photo".into()], reply_to: reply_to.map(str::to_owned), ..private(text) };
        heard(Event::Message(Said { chat: "-900".into(), private: false, ..said }))
    };
    let with_words = photo("#A17 вот чек", None);
    assert_eq!(with_words.update.of, UpdateOf::Operator(RecipientId(17)));
    assert!(with_words.answer.unwrap().attached);
    for (without, to) in [
        (photo("", Some("55")), To::Message("55".into())),
        (photo("#A17", None), To::Dialogue(RecipientId(17))),
    ] {
        assert_eq!(without.update.of, UpdateOf::Skipped("empty answer"));
        let answer = without.answer.unwrap();
        assert_eq!((answer.to, answer.attached), (to, true));
    }
    assert_eq!(photo("", None).answer, None, "a picture among themselves");
}

#[test]
fn the_desk_reads_that_there_was_a_photo_however_it_came() {
    let rules =
        Rules::read(&RULES.replace("on = { text = \"оператор\" }", "on = { event = \"photo\" }")).unwrap();
    let photo = Said { attached: vec!["photo".into()], ..private("") };
    let body = heard(Event::Message(photo)).update.body;
    let mut turn = turn(&["привет", "привет"], Some(ChannelId(3)));
    turn.events.iter_mut().for_each(|event| event.body = body.clone());
    let (taken, _) = take(&turn, Some(&rules), Timestamp(9));
    let desk = taken.says.iter().filter(|say| say.channel.is_some());
    let read: Vec<_> =
        desk.map(|say| say.payload["text"].as_str().unwrap().lines().skip(1).collect::<Vec<_>>()).collect();
    assert_eq!(read, [vec!["нужен человек", "[фото]"], vec!["[фото]"]]);
}

#[test]
fn rules_that_cannot_be_read_or_break_are_an_error_for_each_event() {
    let mut unreadable = turn(&["привет", "привет"], None);
    unreadable.bot_id = Some(domain::ids::BotId(1));
    let (taken, _) = take(&unreadable, None, Timestamp(9));
    let verdicts: Vec<_> = taken.logs.iter().map(|log| (log.event, log.verdict.as_str())).collect();
    assert_eq!(verdicts, [(0, "error"), (1, "error")]);
    assert!(taken.events.iter().all(|(_, verdict)| verdict == "error"));
}
