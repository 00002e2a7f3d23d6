//! The examples of docs/platforms are what the code does.

use domain::message::{MediaKind, Message};

use super::samples::{media, medium, outline, post, russian};
use super::template;
use crate::part::{Action, ChannelSettings, Render};

const PAGES: [(&str, &str, Render); 3] = [
    ("telegram.md", include_str!("../../../../docs/platforms/telegram.md"), crate::telegram::render::render),
    ("vk.md", include_str!("../../../../docs/platforms/vk.md"), crate::vk::render::render),
    ("max.md", include_str!("../../../../docs/platforms/max.md"), crate::max::render::render),
];

fn examples() -> Vec<(&'static str, Message, usize)> {
    let photos = media(MediaKind::Photo, 1..=12);
    let mut all = photos.clone();
    all.extend([medium(MediaKind::Video, 13), medium(MediaKind::Document, 14)]);
    vec![
        (
            "Twelve pictures and a text of 3 000 characters, `max_media = 20`:",
            post(&russian(3000), photos.clone()),
            20,
        ),
        ("The same with the default `max_media = 10`:", post(&russian(3000), photos), 10),
        ("A video and a short text:", post("Видео", media(MediaKind::Video, 1..=1)), 10),
        ("A document and a short text:", post("Листовка", media(MediaKind::Document, 1..=1)), 10),
        (
            "Twelve pictures, a video and a document in one post of 3 000 characters, `max_media = 20`:",
            post(&russian(3000), all),
            20,
        ),
    ]
}

#[test]
fn the_examples_of_the_pages_are_what_the_code_does() {
    for (name, page, render) in PAGES {
        for (title, message, max_media) in examples() {
            let settings =
                ChannelSettings { target: "-1001".into(), max_media, ..ChannelSettings::default() };
            let parts = outline(&render(&Action::Send, &message, &settings));
            let block = format!("{title}\n\n```text\n{parts}```\n");
            assert!(page.contains(&block), "{name} lacks:\n{block}");
        }
    }
}

#[test]
fn the_sample_text_has_exactly_3000_characters() {
    assert_eq!(russian(3000).chars().count(), 3000);
}

#[test]
fn the_default_template_is_the_one_of_the_page() {
    let page = include_str!("../../../../docs/platforms/templates.md");
    assert!(page.contains(&format!("```jinja\n{}```\n", template::DEFAULT)));
}
