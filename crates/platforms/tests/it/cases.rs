//! The posts of the examples in docs/platforms, with real bytes behind their media. All invented.

use bytes::Bytes;
use domain::message::{Media, MediaKind, Message, Origin};
use sha2::{Digest, Sha256};

use crate::world::{Store, World};

/// One example: its title in the docs, the post, the channel's `max_media`.
pub(crate) struct Case {
    pub title: &'static str,
    pub message: Message,
    pub max_media: usize,
}

fn medium(kind: MediaKind, number: usize) -> Media {
    let file_name = (kind == MediaKind::Document).then(|| "листовка.pdf".to_owned());
    Media { kind, blob: Some(number.to_string()), file_name, ..Media::default() }
}

fn photos() -> Vec<Media> {
    (1..=12).map(|number| medium(MediaKind::Photo, number)).collect()
}

fn post(text: &str, media: Vec<Media>) -> Message {
    let origin = Origin {
        source: platforms::vk::NAME.into(),
        owner_id: Some(-990_000_101),
        post_id: Some(77),
        ..Origin::default()
    };
    Message {
        kind: "lost".into(),
        text: text.into(),
        media,
        phones: vec!["+79990001122".into()],
        city: Some("Казань".into()),
        place: Some("улица Мира".into()),
        origin: Some(origin),
        ..Message::default()
    }
}

/// Exactly 3 000 characters of Russian.
pub(crate) fn long_text() -> String {
    let sentence = "Рыжая собака с белой грудкой убежала вечером от магазина, отзывается на кличку Булка. ";
    let text: String = sentence.chars().cycle().take(2_999).collect();
    format!("{text}!")
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = photos();
    all.extend([medium(MediaKind::Video, 13), medium(MediaKind::Document, 14)]);
    let video = vec![medium(MediaKind::Video, 1)];
    let document = vec![medium(MediaKind::Document, 1)];
    let case = |title, message, max_media| Case { title, message, max_media };
    vec![
        case(
            "Twelve pictures and a text of 3 000 characters, `max_media = 20`:",
            post(&long_text(), photos()),
            20,
        ),
        case("The same with the default `max_media = 10`:", post(&long_text(), photos()), 10),
        case("A video and a short text:", post("Видео", video), 10),
        case("A document and a short text:", post("Листовка", document), 10),
        case(
            "Twelve pictures, a video and a document in one post of 3 000 characters, `max_media = 20`:",
            post(&long_text(), all),
            20,
        ),
    ]
}

/// Bytes for every medium of a message, all of them different, and the hash by which the ledger knows each.
pub(crate) fn bytes_of(world: &World, message: &Message) -> (Store, Vec<String>) {
    let picture = world.sandbox.core().pictures.jpeg("dog");
    let blobs: Vec<(String, Bytes)> = message
        .media
        .iter()
        .enumerate()
        .map(|(n, media)| {
            let head = match media.kind {
                MediaKind::Video => Bytes::from_static(b"\0\0\0\x20ftypisom"),
                MediaKind::Document => Bytes::from_static(b"%PDF-1.4 dogs"),
                _ => picture.clone(),
            };
            // What follows the end of a picture is read by nobody, and makes every one of them another file.
            let bytes = [head.as_ref(), format!("number {n}").as_bytes()].concat();
            (media.blob.clone().unwrap_or_default(), bytes.into())
        })
        .collect();
    let hashes = blobs
        .iter()
        .map(|(_, bytes)| format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(bytes))))
        .collect();
    (Store::with(blobs), hashes)
}
