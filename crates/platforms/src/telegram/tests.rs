use domain::message::{Button, Media, MediaKind, Press};
use domain::outcome::Failure;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::receive::read;
use super::*;
use crate::incoming::{Callback as Pressed, Contact, Event, Said};
use crate::media::{File, MediaHandle, NoMedia, Supply};
use crate::part::{Fitted, MediaItem, MediaPart, Part, SendOptions, Target, TextPart};
use crate::platform::{AccountSettings, Budget, Deadlines, Fare, Receiver, Unlimited};
use crate::secret::Token;
use crate::testing::{Act, RawServer};
use crate::transport::{Field, Payload};

fn json_of(call: &wire::Call) -> &Value {
    match &call.payload {
        Payload::Json(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_text_becomes_send_message_with_its_options() {
    let part = TextPart {
        target: Target::Name("@lost_pets".into()),
        text: Fitted::marked("<b>да</b>".into(), crate::part::Markup::Html),
        buttons: vec![vec![
            Button { text: "Карта".into(), press: Press::Url("https://example.org".into()) },
            Button { text: "Видел".into(), press: Press::Callback("seen".into()) },
        ]],
        options: SendOptions {
            silent: true,
            topic: Some(7),
            reply_to: Some("12".into()),
            protect: true,
            ..SendOptions::default()
        },
    };
    let call = wire::text(&part);
    assert_eq!(call.method, "sendMessage");
    let expected = json!({
        "chat_id": "@lost_pets", "text": "<b>да</b>", "parse_mode": "HTML", "disable_notification": true,
        "protect_content": true, "message_thread_id": 7, "link_preview_options": {"is_disabled": true},
        "reply_parameters": {"message_id": 12, "allow_sending_without_reply": true},
        "reply_markup": {"inline_keyboard": [[{"text": "Карта", "url": "https://example.org"},
            {"text": "Видел", "callback_data": "seen"}]]},
    });
    assert_eq!(json_of(&call), &expected);
}

/// Pays, also in the platform's own coin.
struct Stars;

impl Budget for Stars {
    fn may_cost(&self) -> bool {
        true
    }

    fn pay(&self, _: Fare) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn a_bot_that_pays_does_so_only_for_what_may_cost_something() {
    let part = Part::Text(TextPart {
        target: Target::Chat(5),
        text: Fitted::plain("да"),
        buttons: Vec::new(),
        options: SendOptions::default(),
    });
    for (budget, expected) in [(&Stars as &dyn Budget, true), (&Unlimited, false)] {
        let answer = r#"{"ok":true,"result":{"message_id":7,"chat":{"id":5}}}"#;
        let server = RawServer::start(vec![Act::json(200, answer)]).await;
        let settings = AccountSettings {
            api_base: Some(server.url("")),
            paid_broadcast: true,
            ..AccountSettings::default()
        };
        let account = Account::new(&Telegram, Token::new("1:canary"), settings).unwrap();
        let network = Network::default();
        network.admit(&account);
        let deadlines = Deadlines::default();
        let sending = Sending { part: &part, key: "d1/0", earlier: &[], media: &NoMedia, budget, deadlines };
        assert_eq!(Telegram.send(&network, &account, sending).await.ids, ["7"]);
        assert_eq!(server.requests()[0].contains("allow_paid_broadcast"), expected);
    }
}

fn album(n: usize) -> MediaPart {
    MediaPart {
        target: Target::Chat(-100),
        items: vec![MediaItem { send_as: MediaKind::Photo, media: Media::default() }; n],
        caption: Some(Fitted::plain("подпись")),
        buttons: Vec::new(),
        options: SendOptions::default(),
    }
}

#[test]
fn an_album_mixes_handles_addresses_and_uploads_with_one_caption() {
    let file = File { bytes: "x".into(), mime: "image/png".into(), filename: "a.png".into() };
    let supplies = vec![
        Supply::Handle(MediaHandle::new(NAME, MediaKind::Photo, "FILEID")),
        Supply::Url("https://example.org/a.jpg?x=1".into()),
        Supply::File(file),
    ];
    let call = wire::media(&album(3), supplies);
    assert_eq!(call.method, "sendMediaGroup");
    let Payload::Multipart(fields) = &call.payload else { panic!() };
    let media = fields.iter().find(|(name, _)| name == "media").unwrap();
    let Field::Text(media) = &media.1 else { panic!() };
    let expected = json!([
        {"type": "photo", "media": "FILEID", "caption": "подпись"},
        {"type": "photo", "media": "https://example.org/a.jpg?x=1"},
        {"type": "photo", "media": "attach://file2"},
    ]);
    assert_eq!(serde_json::from_str::<Value>(media).unwrap(), expected);
    assert!(fields.iter().any(|(name, field)| name == "file2" && matches!(field, Field::File { .. })));
}

#[test]
fn ids_and_handles_are_read_from_every_shape_of_result() {
    let ids = |result: Value| wire::message_ids(&result);
    assert_eq!(ids(json!({"message_id": 7})), Some(vec!["7".into()]));
    assert_eq!(ids(json!([{"message_id": 7}, {"message_id": 8}])), Some(vec!["7".into(), "8".into()]));
    assert_eq!(ids(json!(true)), Some(vec![]));
    assert_eq!(ids(json!({"message_id": 0})), Some(vec![]));
    assert_eq!(ids(json!([{"message_id": 7}, {}])), None);
    assert_eq!(ids(json!([])), None);
    assert_eq!(ids(json!({})), None);
    assert_eq!(ids(json!("odd")), None);

    let result = json!([
        {"photo": [{"file_id": "small"}, {"file_id": "large"}]},
        {"animation": {"file_id": "loop"}, "document": {"file_id": "loop"}},
    ]);
    let handles = wire::handles(&result, &[MediaKind::Photo, MediaKind::Video]);
    let expected = [
        (0, MediaHandle::new(NAME, MediaKind::Photo, "large")),
        (1, MediaHandle::new(NAME, MediaKind::Video, "loop")),
    ];
    assert_eq!(handles, expected);
}

fn check(update: &Value, event: Event) {
    let incoming = read(update).unwrap();
    assert_eq!((incoming.key.as_str(), incoming.event), ("9", event), "{update}");
}

#[test]
fn updates_become_events() {
    let chat = json!({"id": 5, "type": "private"});
    let from = json!({"id": 5, "first_name": "Анна", "last_name": "Ким"});
    let said = Said {
        chat: "5".into(),
        from: Some("5".into()),
        name: Some("Анна Ким".into()),
        message_id: "1".into(),
        text: "привет".into(),
        private: true,
        ..Said::default()
    };
    let message = |text: &str| json!({"message_id": 1, "date": 60, "chat": chat, "from": from, "text": text});
    check(&json!({"update_id": 9, "message": message("привет")}), Event::Message(said.clone()));
    let mut picture = message("привет");
    picture["media_group_id"] = json!("77");
    picture["photo"] = json!([{"file_id": "x"}]);
    let album = Said { album: Some("77".into()), attached: vec!["photo".into()], ..said.clone() };
    check(&json!({"update_id": 9, "message": picture}), Event::Message(album));
    let edited = Event::Message(Said { edited: true, ..said });
    check(&json!({"update_id": 9, "edited_message": message("привет")}), edited);
    let contact = Contact {
        chat: "5".into(),
        from: Some("5".into()),
        name: Some("Анна Ким".into()),
        payload: None,
        private: true,
        chat_title: None,
    };
    let elsewhere = Contact { private: false, ..contact.clone() };
    check(&json!({"update_id": 9, "message": message("/start")}), Event::Started(contact.clone()));
    let invited = Contact { payload: Some("city_7".into()), ..contact.clone() };
    check(&json!({"update_id": 9, "message": message("/start city_7")}), Event::Started(invited));
    let member = |status: &str, kind: &str| {
        json!({"update_id": 9, "my_chat_member": {"chat": {"id": 5, "type": kind}, "from": from, "date": 60,
            "new_chat_member": {"status": status}}})
    };
    check(&member("kicked", "private"), Event::Blocked(contact.clone()));
    check(&member("member", "private"), Event::Returned(contact));
    check(&member("kicked", "supergroup"), Event::Stopped(elsewhere.clone()));
    check(&member("administrator", "channel"), Event::Started(elsewhere));
}

/// Owners of groups often are, and their answers count like anybody's.
#[test]
fn an_anonymous_administrator_is_no_bot() {
    let of = |sender: i64| {
        let update = json!({"update_id": 9, "message": {"message_id": 3, "text": "#A1 да",
            "from": {"id": 1_087_968_824, "is_bot": true, "first_name": "Group"},
            "sender_chat": {"id": sender, "type": "supergroup"}, "chat": {"id": -100, "type": "supergroup"}}});
        let Event::Message(said) = read(&update).unwrap().event else { panic!("{update}") };
        said.by_bot
    };
    assert!(!of(-100), "the group itself");
    assert!(of(-200), "somebody else's bot");
}

#[test]
fn presses_posts_and_unknown_things_become_events() {
    let press = json!({"update_id": 9, "callback_query": {"id": "q1", "from": {"id": 5, "first_name": "Анна"}, "data": "seen:1",
        "message": {"message_id": 3, "chat": {"id": -7, "type": "supergroup", "username": "desk"}}}});
    let pressed = Pressed {
        id: "q1".into(),
        chat: "-7".into(),
        chat_name: Some("desk".into()),
        from: "5".into(),
        name: Some("Анна".into()),
        message_id: Some("3".into()),
        payload: "seen:1".into(),
        private: false,
    };
    check(&press, Event::Callback(pressed));
    let post = json!({"update_id": 9, "channel_post": {"message_id": 4, "chat": {"id": -100, "type": "channel"},
        "caption": "фото", "photo": [{"file_id": "x"}]}});
    let said = Said {
        chat: "-100".into(),
        message_id: "4".into(),
        text: "фото".into(),
        attached: vec!["photo".into()],
        ..Said::default()
    };
    check(&post, Event::Post(said));
    check(&json!({"update_id": 9, "poll_answer": {"x": 1}}), Event::Unknown { kind: "poll_answer".into() });
    check(&json!({"update_id": 9, "message": {"odd": 1}}), Event::Unknown { kind: "message".into() });
    assert_eq!(read(&json!({"message": {}})), None);
    assert_eq!(read(&json!([])), None);
}

#[test]
fn a_webhook_call_needs_its_secret_and_a_sane_body() {
    let settings = HookSettings { secret: Some(Token::new("hook-secret")), ..HookSettings::default() };
    let body = br#"{"update_id":9,"message":{"message_id":1,"chat":{"id":5,"type":"private"},"text":"x"}}"#;
    let call = |secret, body| Telegram.hook(&settings, &HookCall { secret, body });
    assert_eq!(call(Some("hook-secret"), &body[..]).unwrap().events.len(), 1);
    assert_eq!(call(Some("hook-secre"), &body[..]), Err(HookError::WrongSecret));
    assert_eq!(call(None, &body[..]), Err(HookError::WrongSecret));
    assert_eq!(call(Some("hook-secret"), b"{"), Err(HookError::Malformed));
    let deep = "[".repeat(100_000);
    assert_eq!(call(Some("hook-secret"), deep.as_bytes()), Err(HookError::Malformed));
    let large = vec![b' '; crate::incoming::HOOK_BYTES_MAX + 1];
    assert_eq!(call(Some("hook-secret"), &large), Err(HookError::TooLarge));
}
