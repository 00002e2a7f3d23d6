//! Pictures, albums, videos and files: what a reader of the channel sees, judged by the sandbox's ledger.

use bytes::Bytes;
use domain::message::{Media, MediaKind, Message};
use platforms::part::Action;
use sandbox::Name;
use sandbox::ledger::Row;
use serde_json::json;

use crate::world::{Side, Store, World, short};

fn stored(kind: MediaKind, blob: &str) -> Media {
    Media { kind, blob: Some(blob.into()), ..Media::default() }
}

/// A store with numbered pictures, a video and a document.
fn store(world: &World, n_pictures: usize) -> Store {
    // Drawing is slow, so all names share one picture.
    let picture = world.sandbox.core().pictures.jpeg("dog");
    let pictures = (0..n_pictures).map(move |n| (format!("picture-{n}"), picture.clone()));
    let video = [b"\0\0\0\x20ftypisom".as_slice(), &[7; 2_000]].concat();
    let others =
        [("video".to_owned(), Bytes::from(video)), ("file".to_owned(), Bytes::from_static(b"%PDF-1.4 dogs"))];
    Store::with(pictures.chain(others))
}

fn shape(rows: &[Row]) -> Vec<String> {
    let words = |row: &Row| row.text.as_ref().map_or(0, |text| text.chars().count());
    rows.iter().map(|row| format!("{} media={} words={}", row.method, row.media.len(), words(row))).collect()
}

async fn publish(side: &Side<'_>, message: &Message, store: &Store) -> Vec<Vec<String>> {
    let reports = side.publish(&Action::Send, message, "delivery", store).await;
    for report in &reports {
        assert_eq!(short(report), "sent", "{report:?}");
    }
    reports.into_iter().map(|report| report.ids).collect()
}

#[tokio::test]
async fn an_album_of_twelve_with_a_long_text_arrives_on_telegram_as_text_and_two_albums() {
    let world = World::start().await;
    let mut side = world.side(Name::Telegram);
    side.settings.max_media = 12;
    let media = (0..12).map(|n| stored(MediaKind::Photo, &format!("picture-{n}"))).collect();
    let message = Message { media, ..Message::text("Пропала собака. ".repeat(188)) };
    let store = store(&world, 12);
    let ids = publish(&side, &message, &store).await;
    assert_eq!(ids.iter().map(Vec::len).collect::<Vec<_>>(), [1, 10, 2]);
    let rows = side.visible();
    let methods: Vec<(&str, usize)> = rows.iter().map(|row| (row.method.as_str(), row.media.len())).collect();
    assert_eq!(
        methods,
        [("sendMessage", 0), ("sendMediaGroup", 10), ("sendMediaGroup", 2)],
        "{:?}",
        shape(&rows)
    );
    for (row, ids) in rows.iter().zip(&ids) {
        let seen: Vec<String> = match row.visible_id.as_array() {
            Some(list) => list.iter().map(ToString::to_string).collect(),
            None => vec![row.visible_id.to_string()],
        };
        assert_eq!(&seen, ids, "every visible id is reported");
    }
}

fn twelve_pictures() -> Message {
    let media = (0..12).map(|n| stored(MediaKind::Photo, &format!("picture-{n}"))).collect();
    Message { media, ..Message::text("Пропала собака. ".repeat(188)) }
}

async fn check_twelve(name: Name, expected: &[(&str, usize)]) {
    let world = World::start().await;
    let mut side = world.side(name);
    side.settings.max_media = 12;
    let ids = publish(&side, &twelve_pictures(), &store(&world, 12)).await;
    let rows = side.visible();
    let seen: Vec<(&str, usize)> = rows.iter().map(|row| (row.method.as_str(), row.media.len())).collect();
    assert_eq!(seen, expected, "{:?}", shape(&rows));
    assert!(rows[0].text.as_ref().is_some_and(|text| text.contains("Пропала собака")));
    assert_eq!(ids.len(), expected.len());
}

#[tokio::test]
async fn twelve_pictures_with_a_long_text_are_two_posts_on_vk() {
    check_twelve(Name::Vk, &[("wall.post", 10), ("wall.post", 2)]).await;
}

#[tokio::test]
async fn twelve_pictures_with_a_long_text_are_one_message_on_max() {
    check_twelve(Name::Max, &[("POST /messages", 12)]).await;
}

async fn check_kinds(name: Name, expected: &[(&str, usize)]) {
    let world = World::start().await;
    let side = world.side(name);
    let media = vec![
        stored(MediaKind::Photo, "picture-0"),
        stored(MediaKind::Video, "video"),
        Media { file_name: Some("собаки.pdf".into()), ..stored(MediaKind::Document, "file") },
    ];
    publish(&side, &Message { media, ..Message::text("Пропала собака") }, &store(&world, 1)).await;
    let rows = side.visible();
    let seen: Vec<(&str, usize)> = rows.iter().map(|row| (row.method.as_str(), row.media.len())).collect();
    assert_eq!(seen, expected, "{:?}", shape(&rows));
}

#[tokio::test]
async fn a_picture_a_video_and_a_document_arrive_on_telegram() {
    check_kinds(Name::Telegram, &[("sendMediaGroup", 2), ("sendDocument", 1)]).await;
}

#[tokio::test]
async fn a_picture_a_video_and_a_document_arrive_on_vk() {
    check_kinds(Name::Vk, &[("wall.post", 3)]).await;
}

#[tokio::test]
async fn a_picture_a_video_and_a_document_arrive_on_max() {
    check_kinds(Name::Max, &[("POST /messages", 2), ("POST /messages", 1)]).await;
}

#[tokio::test]
async fn nothing_is_uploaded_again_while_max_is_not_ready() {
    let world = World::start().await;
    let side = world.side(Name::Max);
    world.arm(&json!({"platform": "max", "method": "/messages", "kind": "attachment_not_ready", "times": 2}));
    let message = Message { media: vec![stored(MediaKind::Photo, "picture-0")], ..Message::text("да") };
    let part = side.render(&Action::Send, &message).remove(0);
    let store = store(&world, 1);
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.push(short(&side.send(&part, "k", &store).await));
    }
    assert_eq!(outcomes, ["T D attachment.not.ready", "T D attachment.not.ready", "sent"]);
    let uploads = world.rows(Name::Max).iter().filter(|row| row.method == "POST /uploads").count();
    assert_eq!(uploads, 1);
}

#[tokio::test]
async fn uploaded_media_are_sent_again_by_their_handle() {
    for name in Name::ALL {
        check_handles(name).await;
    }
}

async fn check_handles(name: Name) {
    let world = World::start().await;
    let side = world.side(name);
    let kinds = [(MediaKind::Photo, "picture-0"), (MediaKind::Video, "video"), (MediaKind::Document, "file")];
    let store = store(&world, 1);
    for (kind, blob) in kinds {
        let message = Message { media: vec![stored(kind, blob)], ..Message::text("да") };
        publish(&side, &message, &store).await;
        assert!(store.handles.lock().unwrap().contains_key(blob), "{kind}: its handle is reported");
        let handles = store.handles.lock().unwrap().clone();
        let only_handles = Store { handles: handles.into(), ..Store::default() };
        publish(&side, &message, &only_handles).await;
    }
    let rows = side.visible();
    assert_eq!(rows.len(), 6);
    for pair in rows.chunks(2) {
        assert_eq!(pair[0].method, pair[1].method);
        assert_eq!(pair[0].media[0]["sha256"], pair[1].media[0]["sha256"], "{pair:?}");
    }
}

#[tokio::test]
async fn a_picture_by_address_arrives_everywhere() {
    for name in Name::ALL {
        check_address(name).await;
    }
}

async fn check_address(name: Name) {
    let world = World::start().await;
    let side = world.side(name);
    let url = format!("{}/_/pictures/cat.jpg", world.sandbox.origin());
    let media = Media { kind: MediaKind::Photo, url: Some(url), ..Media::default() };
    publish(&side, &Message { media: vec![media], ..Message::text("кошка") }, &Store::default()).await;
    assert_eq!(side.visible()[0].media.len(), 1, "{name:?}");
}

#[tokio::test]
async fn a_picture_that_is_gone_does_not_cost_the_words() {
    for name in Name::ALL {
        let world = World::start().await;
        let side = world.side(name);
        let lost = stored(MediaKind::Photo, "never-stored");
        let mixed = Message {
            media: vec![lost.clone(), stored(MediaKind::Photo, "picture-0")],
            ..Message::text("да")
        };
        let reports = side.publish(&Action::Send, &mixed, "mixed", &store(&world, 1)).await;
        assert_eq!(short(&reports[0]), "sent", "{name:?}: {reports:?}");
        assert!(reports[0].notes[0].contains("left out"), "{name:?}: {:?}", reports[0].notes);
        assert!(reports[0].handles.iter().all(|(n, _)| *n == 1), "{name:?}: handles are told by their place");
        let alone = Message { media: vec![lost.clone()], ..Message::text("да") };
        let reports = side.publish(&Action::Send, &alone, "alone", &Store::default()).await;
        assert_eq!(short(&reports[0]), "sent", "{name:?}: {reports:?}");
        let rows = side.visible();
        assert_eq!(rows.iter().map(|row| row.media.len()).collect::<Vec<_>>(), [1, 0], "{name:?}");
        assert!(rows[1].text.as_ref().is_some_and(|text| text.contains("да")));
        let wordless = Message { media: vec![lost], ..Message::default() };
        let parts = side.render(&Action::Send, &wordless);
        let report = side.send(&parts[0], "wordless", &Store::default()).await;
        assert!(short(&report).starts_with("P D"), "{name:?}: {report:?}");
    }
}
