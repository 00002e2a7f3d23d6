use domain::message::{Button, Media, MediaKind, Press};
use domain::outcome::Outcome;
use serde_json::{Value, json};

use super::read::{Page, RawAttachment, RawPhoto, RawPost, page};
use super::receive::read as read_event;
use super::wire::{Call, Content};
use super::*;
use crate::incoming::{Callback as Pressed, Contact, Event, Said};
use crate::media::{MediaError, MediaHandle, MediaSource};
use crate::part::{
    AccountKind, DeletePart, EditPart, Fitted, MediaItem, MediaPart, Part, SendOptions, Shape, Target,
    TextPart,
};
use crate::platform::{AccountSettings, Deadlines, Receiver, Unlimited};
use crate::secret::Token;
use crate::testing::{Act, RawServer};

fn content<'a>(
    options: &'a SendOptions,
    buttons: &'a crate::part::Keyboard,
    attachments: &'a [String],
) -> Content<'a> {
    Content { text: "да", attachments, buttons, options, key: "d1/0" }
}

fn field<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    call.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[test]
fn a_post_a_comment_and_a_message_are_different_calls() {
    let (none, from_group) = (Vec::new(), SendOptions { from_group: true, ..SendOptions::default() });
    let attachments = ["photo1_2".to_owned(), "doc1_3".to_owned()];
    let post = wire::publish(&Target::Wall(-5), &content(&from_group, &none, &attachments));
    assert_eq!(post.method, "wall.post");
    assert_eq!(field(&post, "from_group"), Some("1"));
    assert_eq!(field(&post, "attachments"), Some("photo1_2,doc1_3"));
    assert_eq!(field(&post, "guid").map(str::len), Some(32));

    let answer = SendOptions { reply_to: Some("77".into()), ..from_group };
    let comment = wire::publish(&Target::Wall(-5), &content(&answer, &none, &[]));
    assert_eq!(comment.method, "wall.createComment");
    assert_eq!((field(&comment, "post_id"), field(&comment, "from_group")), (Some("77"), Some("5")));
    assert_eq!(wire::created(&comment, &json!({"comment_id": 9})), Some(vec!["9".into()]));

    let buttons = vec![vec![
        Button { text: "Карта".into(), press: Press::Url("https://example.org".into()) },
        Button { text: "Видел".into(), press: Press::Callback("seen".into()) },
    ]];
    let message =
        wire::publish(&Target::Chat(2_000_000_001), &content(&SendOptions::default(), &buttons, &[]));
    assert_eq!(message.method, "messages.send");
    let keyboard: Value = serde_json::from_str(field(&message, "keyboard").unwrap()).unwrap();
    assert_eq!(keyboard["buttons"][0][1]["action"]["payload"], json!(r#"{"data":"seen"}"#));
    assert!(field(&message, "random_id").unwrap().parse::<i32>().unwrap() > 0);
}

#[test]
fn keys_are_the_same_for_every_attempt_and_different_for_every_part() {
    assert_eq!((wire::guid("d1/0"), wire::random_id("d1/0")), (wire::guid("d1/0"), wire::random_id("d1/0")));
    assert_ne!(wire::guid("d1/0"), wire::guid("d1/1"));
    assert_ne!(wire::random_id("d1/0"), wire::random_id("d2/0"));
    assert!((0..1_000).all(|n| wire::random_id(&format!("d{n}")) > 0));
}

#[test]
fn created_ids_are_read_from_every_shape_of_response() {
    let created = |method: &'static str, response: Value| wire::created(&Call::new(method), &response);
    assert_eq!(created("wall.post", json!({"post_id": 7})), Some(vec!["7".into()]));
    assert_eq!(created("wall.post", json!({})), None);
    assert_eq!(created("messages.send", json!(12)), Some(vec!["12".into()]));
    assert_eq!(created("messages.send", json!([{"peer_id": 1, "message_id": 12}])), Some(vec!["12".into()]));
    assert_eq!(created("messages.send", json!("odd")), None);
    assert_eq!(created("wall.delete", json!(1)), Some(vec![]));
}

// -- reading walls

fn sizes(list: &[(&str, u32, u32)]) -> Value {
    list.iter()
        .map(|(kind, width, height)| {
            let url =
                format!("https://sun9-1.userapi.com/{kind}.jpg?size={width}x{height}&sign=ab&c_uniq_tag=x");
            json!({"type": kind, "url": url, "width": width, "height": height})
        })
        .collect()
}

fn photo_post(photo: &Value) -> Value {
    json!({"id": 1, "owner_id": -5, "date": 60, "attachments": [{"type": "photo", "photo": photo}]})
}

fn only_photo(photo: &Value) -> RawPhoto {
    super::read::post(&photo_post(photo), 0).unwrap().photos.remove(0)
}

#[test]
fn the_largest_size_is_chosen_with_its_whole_address() {
    let photo = only_photo(&json!({"id": 3, "owner_id": -5,
        "sizes": sizes(&[("s", 75, 50), ("x", 604, 400), ("r", 510, 340), ("w", 2560, 1700)])}));
    assert_eq!(photo.url, "https://sun9-1.userapi.com/w.jpg?size=2560x1700&sign=ab&c_uniq_tag=x");
    assert_eq!((photo.id.as_str(), photo.width, photo.height), ("photo-5_3", 2560, 1700));

    let original = json!({"type": "base", "url": "https://a.test/orig.jpg?k=1", "width": 9, "height": 9});
    let photo = only_photo(
        &json!({"id": 3, "owner_id": -5, "sizes": sizes(&[("w", 2560, 1700)]), "orig_photo": original}),
    );
    assert_eq!(photo.url, "https://a.test/orig.jpg?k=1");

    let old = only_photo(
        &json!({"id": 3, "owner_id": -5, "sizes": sizes(&[("s", 0, 0), ("y", 0, 0), ("m", 0, 0)])}),
    );
    assert!(old.url.contains("/y.jpg"), "{}", old.url);
}

#[test]
fn a_page_keeps_flags_reposts_and_foreign_attachments() {
    let response = json!({"count": 4, "items": [
        {"id": 1, "owner_id": -5, "from_id": -5, "date": 100, "edited": 120, "text": "своё", "is_pinned": 1},
        {"id": 2, "owner_id": -5, "date": 90, "text": "", "marked_as_ads": 1,
            "copy_history": [{"id": 8, "owner_id": -9, "date": 80, "text": "чужое"}]},
        {"id": 3, "owner_id": -5, "date": 70, "text": "x", "post_type": "suggest", "attachments": [
            {"type": "video", "video": {"id": 4, "owner_id": -5, "title": "кот"}},
            {"type": "link", "link": {"url": "https://example.org/a", "title": ""}},
            {"type": "link", "link": {"url": "javascript:alert(1)"}},
            {"type": "hologram", "hologram": 7}, {"odd": 1}, 5]},
        {"text": "без номера"}, null,
    ]});
    let Page { total, posts, n_unreadable, title } = page(&response).unwrap();
    assert_eq!(title, None, "nobody gave one");
    assert_eq!((total, posts.len(), n_unreadable), (4, 3, 2));
    assert!(posts[0].is_pinned && posts[0].edited == Some(120) && !posts[0].is_ad);
    assert!(posts[1].is_ad);
    let parent =
        RawPost { owner_id: -9, post_id: 8, date: 80, text: "чужое".into(), ..RawPost::default() };
    assert_eq!(posts[1].copy_history, [parent]);
    assert!(posts[2].is_suggested);
    let kinds: Vec<&str> = posts[2].others.iter().map(|other| other.kind.as_str()).collect();
    assert_eq!(kinds, ["video", "link", "link", "hologram"]);
    let video = RawAttachment {
        kind: "video".into(),
        page: Some("https://vk.com/video-5_4".into()),
        title: Some("кот".into()),
    };
    assert_eq!(posts[2].others[0], video);
    assert_eq!(posts[2].others[2].page, None);
    assert_eq!(page(&json!({"items": 5})), None);
}

#[test]
fn a_chain_of_reposts_without_end_is_cut() {
    let mut item = json!({"id": 1, "owner_id": 1, "text": "дно"});
    for id in 2..60 {
        item = json!({"id": id, "owner_id": 1, "copy_history": [item]});
    }
    let mut depth = 0;
    let mut next = super::read::post(&item, 0);
    while let Some(post) = next {
        depth += 1;
        next = post.copy_history.into_iter().next();
    }
    assert_eq!(depth, 6);
}

// -- events

fn check(kind: &str, object: &Value, event: Event) {
    let incoming = read_event(&json!({"type": kind, "object": object, "group_id": 5, "event_id": "e1"}));
    assert_eq!((incoming.key.as_str(), incoming.event), ("e1", event), "{object}");
}

#[test]
fn events_of_a_community_become_events() {
    let message = json!({"id": 3, "peer_id": 11, "from_id": 11, "date": 60, "text": "привет",
        "payload": "{\"data\":\"seen\"}", "attachments": [{"type": "photo"}]});
    let said = Said {
        chat: "11".into(),
        from: Some("11".into()),
        message_id: "3".into(),
        text: "привет".into(),
        private: true,
        payload: Some("seen".into()),
        attached: vec!["photo".into()],
        ..Said::default()
    };
    check("message_new", &json!({"message": message, "client_info": {}}), Event::Message(said.clone()));
    check("message_new", &message, Event::Message(said));
    let contact = Contact { chat: "11".into(), from: Some("11".into()), private: true, ..Contact::default() };
    check("message_allow", &json!({"user_id": 11, "key": ""}), Event::Started(contact.clone()));
    check("message_deny", &json!({"user_id": 11}), Event::Blocked(contact));
    let press = json!({"user_id": 11, "peer_id": 11, "event_id": "x9", "payload": {"data": "seen"},
        "conversation_message_id": 4});
    let pressed = Pressed {
        id: "x9".into(),
        chat: "11".into(),
        chat_name: None,
        from: "11".into(),
        name: None,
        message_id: Some("4".into()),
        payload: "seen".into(),
        private: true,
    };
    check("message_event", &press, Event::Callback(pressed));
    let post = Said { chat: "-5".into(), message_id: "7".into(), text: "пост".into(), ..Said::default() };
    check("wall_post_new", &json!({"id": 7, "owner_id": -5, "text": "пост"}), Event::Post(post));
    let suggested = json!({"id": 7, "owner_id": -5, "text": "пост", "post_type": "suggest"});
    check("wall_post_new", &suggested, Event::Unknown { kind: "wall_post_new".into() });
    check("like_add", &json!({}), Event::Unknown { kind: "like_add".into() });
}

#[test]
fn an_event_without_an_id_has_a_key_of_its_content() {
    let update = |text: &str| json!({"type": "message_new", "group_id": 5, "object": {"text": text}});
    assert_eq!(read_event(&update("a")).key, read_event(&update("a")).key);
    assert_ne!(read_event(&update("a")).key, read_event(&update("b")).key);
}

#[test]
fn a_callback_needs_its_secret_and_confirms_only_its_community() {
    let settings = HookSettings {
        secret: Some(Token::new("s3cret")),
        secret_hash: None,
        confirmation: Some("c0de".into()),
        group_id: Some(5),
    };
    let call = |body: &str| Vk.hook(&settings, &HookCall { secret: None, body: body.as_bytes() });
    let event =
        r#"{"type":"message_deny","group_id":5,"event_id":"e1","object":{"user_id":1},"secret":"s3cret"}"#;
    let hooked = call(event).unwrap();
    assert_eq!((hooked.answer.as_str(), hooked.events.len()), ("ok", 1));
    assert_eq!(call(&event.replace("s3cret", "s3cre")), Err(HookError::WrongSecret));
    assert_eq!(call(&event.replace(r#","secret":"s3cret""#, "")), Err(HookError::WrongSecret));
    let twice = event.replace(r#""secret":"s3cret""#, r#""secret":"x","secret":"s3cret""#);
    assert_eq!(call(&twice), Err(HookError::Malformed));
    assert_eq!(call(&event.replace(r#""group_id":5"#, r#""group_id":6"#)), Err(HookError::Malformed));
    assert_eq!(call(r#"{"type":"confirmation","group_id":5}"#).unwrap().answer, "c0de");
    assert_eq!(call(r#"{"type":"confirmation","group_id":6}"#), Err(HookError::NoConfirmation));
    assert_eq!(call(&"[".repeat(100_000)), Err(HookError::Malformed));
}

// -- uploads

struct Stored;

impl MediaSource for Stored {
    fn handle<'a>(&'a self, item: &'a MediaItem) -> BoxFuture<'a, Option<MediaHandle>> {
        let known = item.media.blob.as_deref() == Some("known");
        Box::pin(async move { known.then(|| MediaHandle::new(NAME, MediaKind::Photo, "wall:photo1_2")) })
    }

    fn bytes<'a>(&'a self, _: &'a Media) -> BoxFuture<'a, Result<bytes::Bytes, MediaError>> {
        Box::pin(async { Ok(bytes::Bytes::from_static(b"\xff\xd8\xff\xe0")) })
    }
}

fn picture(blob: &str) -> MediaItem {
    MediaItem { send_as: MediaKind::Photo, media: Media { blob: Some(blob.into()), ..Media::default() } }
}

fn gallery(items: Vec<MediaItem>, caption: Option<&str>) -> Part {
    Part::Media(MediaPart {
        target: Target::Wall(-5),
        items,
        caption: caption.map(Fitted::plain),
        buttons: Vec::new(),
        options: SendOptions { from_group: true, ..SendOptions::default() },
    })
}

async fn send(server: &RawServer, kind: AccountKind, part: &Part) -> Report {
    let settings = AccountSettings { api_base: Some(server.url("")), kind, ..AccountSettings::default() };
    let account = Account::new(&Vk, Token::new("vk1.a.canary"), settings).unwrap();
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
    Vk.send(&network, &account, sending).await
}

/// A server on loopback answers with its own address as the upload host, so it has to be known first.
async fn upload_server(answers: &[&str]) -> RawServer {
    RawServer::start_knowing(|address| {
        let act = |answer: &&str| Act::json(200, &answer.replace("HERE", &address.to_string()));
        answers.iter().map(act).collect()
    })
    .await
}

const SERVER: &str =
    r#"{"response":{"upload_url":"http://HERE/upload?hash=secret","album_id":-14,"user_id":1}}"#;
const STORED: &str = r#"{"server":856,"photo":"[{\"photo\":\"x\"}]","hash":"h1"}"#;
const SAVED: &str = r#"{"response":[{"id":9,"owner_id":-5,"access_key":"k"}]}"#;

#[tokio::test]
async fn a_photo_is_uploaded_saved_and_attached_and_its_handle_is_reported() {
    let server = upload_server(&[SERVER, STORED, SAVED, r#"{"response":{"post_id":33}}"#]).await;
    let report =
        send(&server, AccountKind::User, &gallery(vec![picture("known"), picture("new")], Some("да"))).await;
    assert_eq!(report.ids, ["33"]);
    let handle = MediaHandle::new(NAME, MediaKind::Photo, "wall:photo-5_9_k");
    assert_eq!(report.handles, [(1, handle)]);
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests[0].starts_with("POST /method/photos.getWallUploadServer "));
    assert!(
        requests[1].starts_with("POST /upload?hash=secret ")
            && requests[1].contains("filename=\"photo.jpg\"")
    );
    assert!(!requests[1].contains("canary"), "the upload host gets no token");
    assert!(
        requests[2].contains("hash=h1")
            && requests[2].contains("server=856")
            && requests[2].contains("group_id=5")
    );
    assert!(requests[3].contains("attachments=photo1_2%2Cphoto-5_9_k"), "{}", requests[3]);
}

#[tokio::test]
async fn what_a_community_key_cannot_upload_is_left_out_and_said() {
    let refused = r#"{"error":{"error_code":27,"error_msg":"Group authorization failed: method is unavailable with group auth."}}"#;
    let server = upload_server(&[refused, r#"{"response":{"post_id":34}}"#]).await;
    let report = send(&server, AccountKind::Community, &gallery(vec![picture("new")], Some("да"))).await;
    assert_eq!(report.ids, ["34"]);
    assert!(report.notes[0].contains("left out"), "{:?}", report.notes);

    let server = upload_server(&[refused]).await;
    let report = send(&server, AccountKind::Community, &gallery(vec![picture("new")], None)).await;
    assert!(matches!(report.outcome, Outcome::Failed(_)));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_unreadable_picture_is_refused_before_it_is_saved() {
    for photo in ["[]", ""] {
        let stored = format!(r#"{{"server":1,"photo":"{photo}","hash":"h"}}"#);
        let server = upload_server(&[SERVER, &stored]).await;
        let report = send(&server, AccountKind::User, &gallery(vec![picture("new")], None)).await;
        let Outcome::Failed(failure) = report.outcome else { panic!() };
        assert_eq!(failure.code, "upload_refused");
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn an_upload_host_inside_our_network_is_refused() {
    let evil = r#"{"response":{"upload_url":"http://169.254.169.254/latest/"}}"#;
    let server = upload_server(&[evil]).await;
    let report = send(&server, AccountKind::User, &gallery(vec![picture("new")], None)).await;
    let Outcome::Failed(failure) = report.outcome else { panic!() };
    assert_eq!(failure.code, "address_refused");
}

#[tokio::test]
async fn an_edit_names_the_kept_pictures_again() {
    let part = Part::Edit(EditPart {
        target: Target::Wall(-5),
        id: "33".into(),
        shape: Shape::Caption,
        text: Fitted::plain("Нашёлся"),
        buttons: Vec::new(),
        media: vec![picture("known")],
        options: SendOptions::default(),
    });
    let server = upload_server(&[r#"{"response":{"post_id":33}}"#]).await;
    let report = send(&server, AccountKind::User, &part).await;
    assert!(matches!(report.outcome, Outcome::Sent(_)));
    let request = server.requests().remove(0);
    assert!(
        request.starts_with("POST /method/wall.edit ") && request.contains("attachments=photo1_2"),
        "{request}"
    );
}

#[test]
fn a_comment_is_changed_and_taken_away_as_a_comment() {
    let reply_to = Some("33".to_owned());
    let delete = DeletePart { target: Target::Wall(-5), ids: vec!["9".into()], reply_to: reply_to.clone() };
    let call = wire::delete(&delete);
    assert_eq!((call.method, field(&call, "comment_id")), ("wall.deleteComment", Some("9")));
    let call = wire::delete(&DeletePart { reply_to: None, ..delete });
    assert_eq!((call.method, field(&call, "post_id")), ("wall.delete", Some("9")));
    let edit = EditPart {
        target: Target::Wall(-5),
        id: "9".into(),
        shape: Shape::Text,
        text: Fitted::plain("да"),
        buttons: Vec::new(),
        media: Vec::new(),
        options: SendOptions { reply_to, ..SendOptions::default() },
    };
    let call = wire::edit(&edit, &[]);
    assert_eq!((call.method, field(&call, "comment_id")), ("wall.editComment", Some("9")));
}

#[tokio::test]
async fn an_error_for_the_only_peer_is_an_error() {
    let part = Part::Text(TextPart {
        target: Target::Chat(11),
        text: Fitted::plain("да"),
        buttons: Vec::new(),
        options: SendOptions::default(),
    });
    let answer =
        r#"{"response":[{"peer_id":11,"message_id":0,"error":{"code":901,"description":"no permission"}}]}"#;
    let server = upload_server(&[answer]).await;
    let report = send(&server, AccountKind::Community, &part).await;
    let Outcome::Failed(failure) = report.outcome else { panic!() };
    assert!(failure.recipient_gone && failure.code == "vk:901", "{failure:?}");
}

// -- reconcile

#[tokio::test]
async fn a_post_of_unknown_outcome_is_found_by_its_words_and_time() {
    let wall = r#"{"response":{"count":3,"items":[
        {"id":1,"owner_id":-5,"date":1000,"text":"Пропала   собака"},
        {"id":2,"owner_id":-5,"date":50,"text":"Пропала собака"},
        {"id":3,"owner_id":-5,"date":1001,"text":"Другое"}]}}"#;
    let part = Part::Text(TextPart {
        target: Target::Wall(-5),
        text: Fitted::plain("Пропала собака"),
        buttons: Vec::new(),
        options: SendOptions::default(),
    });
    let ask = async |answer: &str, taken: &[String]| {
        let server = upload_server(&[answer]).await;
        let settings = AccountSettings { api_base: Some(server.url("")), ..AccountSettings::default() };
        let account = Account::new(&Vk, Token::new("vk1.a.canary"), settings).unwrap();
        let deadline = Duration::from_secs(10);
        let question = Question { part: &part, key: "d1/0", sent_at_ms: 1_000_000, taken, deadline };
        Vk.reconcile(&Network::default(), &account, question).await
    };
    assert_eq!(ask(wall, &[]).await, Reconciled::Visible(vec!["1".into()]));
    assert_eq!(ask(wall, &["1".into()]).await, Reconciled::Absent);
    let refused = r#"{"error":{"error_code":27,"error_msg":"Group authorization failed"}}"#;
    assert_eq!(ask(refused, &[]).await, Reconciled::CannotKnow);
    let busy = r#"{"error":{"error_code":6,"error_msg":"Too many requests per second"}}"#;
    assert!(matches!(ask(busy, &[]).await, Reconciled::Failed(_)));
}
