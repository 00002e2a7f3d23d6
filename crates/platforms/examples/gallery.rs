//! The largest example of docs/platforms on the sandbox's page, for a look at what a reader sees.
//!
//! `cargo run -p platforms --example gallery` prints an address and serves it until its input ends.
//! `tests/browser/gallery.mjs` takes the picture in docs/platforms with it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool for the desk: it says where it listens, or why not"
)]

#[path = "../tests/it/cases.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod cases;
#[path = "../tests/it/world.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod world;

use bytes::Bytes;
use domain::message::MediaKind;
use platforms::part::Action;
use sandbox::Name;

use cases::cases;
use world::{Store, World, short};

/// Pictures that differ to the eye, a playable name for the video, a page of words.
fn store(world: &World, message: &domain::message::Message) -> Store {
    let bytes = |kind: MediaKind, blob: &str| match kind {
        MediaKind::Video => Bytes::from_static(b"\0\0\0\x20ftypisom a video of a dog"),
        MediaKind::Document => Bytes::from_static(b"%PDF-1.4 a leaflet about a dog"),
        _ => world.sandbox.core().pictures.jpeg(&format!("bulka-{blob}")),
    };
    let named = |blob: &Option<String>| blob.clone().unwrap_or_default();
    Store::with(
        message.media.iter().map(|media| (named(&media.blob), bytes(media.kind, &named(&media.blob)))),
    )
}

#[tokio::main]
async fn main() {
    let world = World::start().await;
    for name in Name::ALL {
        let mut side = world.side(name);
        // The last case holds everything: the long text, twelve pictures, the video and the document.
        let Some(case) = cases().pop() else { continue };
        side.settings.max_media = case.max_media;
        let store = store(&world, &case.message);
        for report in side.publish(&Action::Send, &case.message, "example", &store).await {
            assert_eq!(short(&report), "sent", "{report:?}");
        }
    }
    println!("the gallery is at {}", world.sandbox.origin());
    tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin())).await.unwrap().unwrap();
}
