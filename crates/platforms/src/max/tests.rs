use domain::message::{Button, Media, MediaKind, Press};
use domain::outcome::{CODE_NOT_READY, Certainty};
use serde_json::{Value, json};

use super::receive::read;
use super::*;
use crate::incoming::{Callback as Pressed, Contact, Event, Said};
use crate::media::{MediaError, MediaHandle, MediaSource};
use crate::part::{
    EditPart, Fitted, Markup, MediaItem, MediaPart, Part, SendOptions, Shape, Target, TextPart,
};
use crate::platform::{AccountSettings, Deadlines, Receiver, Unlimited};
use crate::secret::Token;
use crate::testing::{Act, RawServer};
use crate::transport::Method;

#[test]
fn a_message_has_words_attachments_keyboard_and_link() {
    let buttons = vec![vec![
        Button { text: "Карта".into(), press: Press::Url("https://example.org".into()) },
        Button { text: "Видел".into(), press: Press::Callback("seen".into()) },
    ]];
    let options = SendOptions { silent: true, reply_to: Some("mid.1".into()), ..SendOptions::default() };
    let text = Fitted::marked("<b>да</b>".into(), Markup::Html);
    let image = wire::by_token(MediaKind::Photo, "T1");
    let call = wire::publish(&Target::User(7), Some(&text), vec![image], &buttons, &options);
    assert_eq!((call.method, call.path.as_str()), (Method::Post, "/messages"));
    assert_eq!(call.query, [("user_id", "7".to_owned()), ("disable_link_preview", "true".to_owned())]);
    let expected = json!({"text": "<b>да</b>", "format": "html", "notify": false,
        "link": {"type": "reply", "mid": "mid.1"},
        "attachments": [{"type": "image", "payload": {"token": "T1"}},
            {"type": "inline_keyboard", "payload": {"buttons": [[
                {"type": "link", "text": "Карта", "url": "https://example.org"},
                {"type": "callback", "text": "Видел", "payload": "seen"}]]}}]});
    assert_eq!(call.body, Some(expected));
}

#[test]
fn each_kind_of_upload_has_its_token_in_its_own_place() {
    let session = json!({"url": "http://x", "token": "first"});
    let photos = json!({"photos": {"a1": {"token": "inner"}}});
    let token = |kind, stored: Option<&Value>| wire::upload_token(kind, &session, stored);
    assert_eq!(token(MediaKind::Photo, Some(&photos)).as_deref(), Some("inner"));
    assert_eq!(token(MediaKind::Document, Some(&json!({"token": "later"}))).as_deref(), Some("later"));
    assert_eq!(token(MediaKind::Video, None).as_deref(), Some("first"));
    assert_eq!(token(MediaKind::Audio, None).as_deref(), Some("first"));
    assert_eq!(token(MediaKind::Photo, Some(&json!({"photos": {}}))), None);
    assert_eq!(token(MediaKind::Photo, None), None);
}

fn check(update: &Value, key: &str, event: Event) {
    let incoming = read(update);
    assert_eq!((incoming.key.as_str(), incoming.event), (key, event), "{update}");
}

#[test]
fn updates_become_events() {
    let message = |kind: &str| {
        json!({"sender": {"user_id": 3, "first_name": "Анна"}, "recipient": {"chat_id": 10, "chat_type": kind},
            "timestamp": 5, "body": {"mid": "mid.1", "seq": 1, "text": "привет", "attachments": [{"type": "image"}]}})
    };
    let said = Said {
        chat: "10".into(),
        from: Some("3".into()),
        name: Some("Анна".into()),
        message_id: "mid.1".into(),
        text: "привет".into(),
        private: true,
        attached: vec!["image".into()],
        ..Said::default()
    };
    let created =
        |kind: &str| json!({"update_type": "message_created", "timestamp": 5, "message": message(kind)});
    check(&created("dialog"), "message_created:mid.1:5", Event::Message(said.clone()));
    let post = Event::Post(Said { private: false, ..said.clone() });
    check(&created("channel"), "message_created:mid.1:5", post);
    let edited = json!({"update_type": "message_edited", "timestamp": 6, "message": message("dialog")});
    check(&edited, "message_edited:mid.1:6", Event::Message(Said { edited: true, ..said }));
    let contact = Contact {
        chat: "10".into(),
        from: Some("3".into()),
        name: Some("Анна".into()),
        ..Contact::default()
    };
    let person = Contact { private: true, ..contact.clone() };
    let user = json!({"user_id": 3, "first_name": "Анна"});
    let about = |kind: &str| json!({"update_type": kind, "timestamp": 5, "chat_id": 10, "user": user});
    check(&about("bot_started"), "bot_started:10:3:5", Event::Started(person.clone()));
    check(&about("bot_added"), "bot_added:10:3:5", Event::Started(contact.clone()));
    check(&about("bot_stopped"), "bot_stopped:10:3:5", Event::Blocked(person.clone()));
    check(&about("bot_removed"), "bot_removed:10:3:5", Event::Stopped(contact));
    check(&about("dialog_removed"), "dialog_removed:10:3:5", Event::Stopped(person));
    check(&about("user_added"), "user_added:10:3:5", Event::Unknown { kind: "user_added".into() });
    let bodiless = json!({"update_type": "message_created", "timestamp": 5});
    check(&bodiless, "message_created:0:0:5", Event::Unknown { kind: "message_created".into() });
}

#[test]
fn a_press_is_named_by_its_callback() {
    let update = json!({"update_type": "message_callback", "timestamp": 5,
        "callback": {"callback_id": "c1", "payload": "seen", "user": {"user_id": 3, "first_name": "Анна"}},
        "message": {"recipient": {"chat_id": 10}, "body": {"mid": "mid.1"}}});
    let pressed = Pressed {
        id: "c1".into(),
        chat: "10".into(),
        chat_name: None,
        from: "3".into(),
        name: Some("Анна".into()),
        message_id: Some("mid.1".into()),
        payload: "seen".into(),
        private: true,
    };
    check(&update, "message_callback:c1", Event::Callback(pressed));
}

#[test]
fn a_webhook_call_needs_its_secret() {
    let settings = HookSettings { secret: Some(Token::new("hook-secret")), ..HookSettings::default() };
    let body = br#"{"update_type":"bot_started","timestamp":5,"chat_id":1,"user":{"user_id":2}}"#;
    let call = |secret, body| Max.hook(&settings, &HookCall { secret, body });
    assert_eq!(call(Some("hook-secret"), &body[..]).unwrap().events.len(), 1);
    assert_eq!(call(Some("other"), &body[..]), Err(HookError::WrongSecret));
    assert_eq!(call(Some("hook-secret"), b"[]"), Err(HookError::Malformed));
}

// -- uploads

struct Stored;

impl MediaSource for Stored {
    fn handle<'a>(&'a self, item: &'a MediaItem) -> BoxFuture<'a, Option<MediaHandle>> {
        let known = item.media.blob.as_deref() == Some("known");
        Box::pin(async move { known.then(|| MediaHandle::new(NAME, item.send_as, "KNOWN")) })
    }

    fn bytes<'a>(&'a self, _: &'a Media) -> BoxFuture<'a, Result<bytes::Bytes, MediaError>> {
        Box::pin(async { Ok(bytes::Bytes::from_static(b"\xff\xd8\xff\xe0")) })
    }
}

fn item(kind: MediaKind, blob: &str) -> MediaItem {
    MediaItem { send_as: kind, media: Media { blob: Some(blob.into()), ..Media::default() } }
}

fn gallery(items: Vec<MediaItem>) -> Part {
    Part::Media(MediaPart {
        target: Target::Chat(-10),
        items,
        caption: Some(Fitted::plain("да")),
        buttons: Vec::new(),
        options: SendOptions::default(),
    })
}

async fn send(server: &RawServer, part: &Part) -> Report {
    let settings = AccountSettings { api_base: Some(server.url("")), ..AccountSettings::default() };
    let account = Account::new(&Max, Token::new("max-canary-token"), settings).unwrap();
    let network = Network::default();
    network.admit(&account);
    let sending = Sending {
        part,
        key: "d1/0",
        earlier: &[],
        media: &Stored,
        budget: &Unlimited,
        deadlines: Deadlines::default(),
    };
    Max.send(&network, &account, sending).await
}

async fn upload_server(answers: &[(u16, &str)]) -> RawServer {
    RawServer::start_knowing(|address| {
        let here = address.to_string();
        answers.iter().map(|(status, answer)| Act::json(*status, &answer.replace("HERE", &here))).collect()
    })
    .await
}

const SESSION: (u16, &str) = (200, r#"{"url":"http://HERE/put?sig=secret"}"#);
const SESSION_WITH_TOKEN: (u16, &str) = (200, r#"{"url":"http://HERE/put?sig=secret","token":"V1"}"#);
const PHOTOS: (u16, &str) = (200, r#"{"photos":{"k":{"token":"P1"}}}"#);
const CREATED: (u16, &str) =
    (200, r#"{"message":{"recipient":{"chat_id":-10},"timestamp":1,"body":{"mid":"mid.9","seq":1}}}"#);

#[tokio::test]
async fn pictures_and_a_video_are_uploaded_and_sent_as_one_message() {
    let server =
        upload_server(&[SESSION, PHOTOS, SESSION_WITH_TOKEN, (200, "<retval>1</retval>"), CREATED]).await;
    let items =
        vec![item(MediaKind::Photo, "known"), item(MediaKind::Photo, "a"), item(MediaKind::Video, "b")];
    let report = send(&server, &gallery(items)).await;
    assert_eq!(report.ids, ["mid.9"]);
    let handles = [
        (1, MediaHandle::new(NAME, MediaKind::Photo, "P1")),
        (2, MediaHandle::new(NAME, MediaKind::Video, "V1")),
    ];
    assert_eq!(report.handles, handles);
    let requests = server.requests();
    assert!(requests[0].starts_with("POST /uploads?type=image "));
    assert!(requests[1].starts_with("POST /put?sig=secret ") && requests[1].contains("name=\"data\""));
    assert!(!requests[1].contains("canary"), "the upload host gets no token");
    assert!(requests[2].starts_with("POST /uploads?type=video "));
    let tokens = ["KNOWN", "P1", "V1"].map(|token| requests[4].find(token).unwrap());
    assert!(tokens.is_sorted());
}

#[tokio::test]
async fn an_upload_that_is_not_ready_is_an_outcome_with_its_handle_kept() {
    let waiting = (
        400,
        r#"{"code":"attachment.not.ready","message":"Key: errors.process.attachment.file.not.processed"}"#,
    );
    let server = upload_server(&[SESSION, PHOTOS, waiting]).await;
    let report = send(&server, &gallery(vec![item(MediaKind::Photo, "a")])).await;
    let Outcome::Failed(failure) = &report.outcome else { panic!() };
    assert_eq!((failure.code.as_str(), failure.certainty), (CODE_NOT_READY, Certainty::NotSent));
    assert_eq!(report.handles.len(), 1);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_refused_upload_is_certain_and_nothing_is_sent() {
    let server = upload_server(&[
        SESSION,
        (400, r#"{"code":"upload.error","message":"File extension is forbidden"}"#),
    ])
    .await;
    let Part::Media(part) = gallery(vec![item(MediaKind::Document, "a")]) else { panic!() };
    let report = send(&server, &Part::Media(MediaPart { caption: None, ..part })).await;
    let Outcome::Failed(failure) = &report.outcome else { panic!() };
    assert_eq!((failure.code.as_str(), failure.certainty), ("upload.error", Certainty::NotSent));
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_picture_by_address_is_left_to_max_to_fetch() {
    let server = upload_server(&[CREATED]).await;
    let media = Media { url: Some("https://example.org/a.jpg?x=1".into()), ..Media::default() };
    let report = send(&server, &gallery(vec![MediaItem { send_as: MediaKind::Photo, media }])).await;
    assert_eq!(report.ids, ["mid.9"]);
    assert!(server.requests()[0].contains(r#""url":"https://example.org/a.jpg?x=1""#));
}

fn edit(buttons: crate::part::Keyboard) -> Part {
    Part::Edit(EditPart {
        target: Target::Chat(-10),
        id: "mid.9".into(),
        shape: Shape::Caption,
        text: Fitted::plain("Нашёлся"),
        buttons,
        media: vec![item(MediaKind::Photo, "known")],
        options: SendOptions::default(),
    })
}

#[tokio::test]
async fn an_edit_keeps_the_pictures_with_and_without_buttons() {
    let done = (200, r#"{"success":true}"#);
    let server = upload_server(&[done]).await;
    assert!(matches!(send(&server, &edit(Vec::new())).await.outcome, Outcome::Sent(_)));
    assert!(!server.requests()[0].contains("attachments"), "without a list MAX keeps what is there");

    let server = upload_server(&[done]).await;
    let buttons = vec![vec![Button { text: "да".into(), press: Press::Callback("x".into()) }]];
    assert!(matches!(send(&server, &edit(buttons)).await.outcome, Outcome::Sent(_)));
    assert!(server.requests()[0].contains("KNOWN"));
}

#[tokio::test]
async fn a_message_of_unknown_outcome_is_found_by_its_words() {
    let list = (
        200,
        r#"{"messages":[
        {"timestamp":1000500,"body":{"mid":"mid.2","text":"Пропала собака","attachments":[{"type":"share"}]}},
        {"timestamp":5,"body":{"mid":"mid.1","text":"Пропала собака"}}]}"#,
    );
    let part = Part::Text(TextPart {
        target: Target::Chat(-10),
        text: Fitted::marked("<b>Пропала</b> собака".into(), Markup::Html),
        buttons: Vec::new(),
        options: SendOptions::default(),
    });
    let ask = async |taken: &[String]| {
        let server = upload_server(&[list]).await;
        let settings = AccountSettings { api_base: Some(server.url("")), ..AccountSettings::default() };
        let account = Account::new(&Max, Token::new("max-canary-token"), settings).unwrap();
        let deadline = Duration::from_secs(10);
        let question = Question { part: &part, key: "d1/0", sent_at_ms: 1_000_000, taken, deadline };
        Max.reconcile(&Network::default(), &account, question).await
    };
    assert_eq!(ask(&[]).await, Reconciled::Visible(vec!["mid.2".into()]));
    assert_eq!(ask(&["mid.2".into()]).await, Reconciled::Absent);
}
