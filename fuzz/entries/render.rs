//! Any bytes become a message, a channel and a template, and every part has to be within its platform's limits.
//!
//! The first two bytes choose platform and settings, the rest is text, title, place and template, parted by NUL.

use domain::chat::{ChatKind, Overflow};
use domain::message::{Button, Media, MediaKind, Message, Origin, Press};
use platforms::part::{Action, ChannelSettings, ParseMode, Part, Published, Render};

/// Panics when a part breaks a limit; that is what the fuzzer looks for.
pub(super) fn run(bytes: &[u8]) {
    let [choice, flags, rest @ ..] = bytes else { return };
    let text = String::from_utf8_lossy(rest);
    let mut fields = text.split('\0');
    let message = message(&mut fields, *flags);
    let (render, units_max) = platform(*choice);
    let settings = settings(*choice, *flags, fields.next());
    let sent = render(&Action::Send, &message, &settings).map(|rendered| rendered.parts).unwrap_or_default();
    sent.iter().for_each(|part| check(part, units_max));
    let published: Vec<Published> = sent
        .iter()
        .enumerate()
        .filter_map(|(index, part)| Published::of(part, vec![(index + 1).to_string()]))
        .collect();
    for action in [Action::Edit(&published), Action::Reply(&published), Action::Delete(&published)] {
        let parts = render(&action, &message, &settings).map(|rendered| rendered.parts).unwrap_or_default();
        parts.iter().for_each(|part| check(part, units_max));
    }
}

fn message<'a>(fields: &mut impl Iterator<Item = &'a str>, flags: u8) -> Message {
    let text = fields.next().unwrap_or_default().to_owned();
    let title = fields.next().map(str::to_owned);
    let place = fields.next().map(str::to_owned);
    let media = (0..flags % 16).map(|index| Media {
        kind: MediaKind::ALL[usize::from(index) % MediaKind::ALL.len()],
        url: Some("https://example.org/a".to_owned()),
        ..Media::default()
    });
    let button = Button { text: "кнопка".to_owned(), press: Press::Callback("x".to_owned()) };
    Message {
        kind: "lost".to_owned(),
        title,
        text,
        place,
        media: media.collect(),
        buttons: if flags & 16 == 0 { Vec::new() } else { vec![vec![button]] },
        origin: Some(Origin {
            source: if flags & 32 == 0 { "vk".to_owned() } else { "feed".to_owned() },
            owner_id: Some(-1),
            post_id: Some(2),
            ..Origin::default()
        }),
        ..Message::default()
    }
}

fn platform(choice: u8) -> (Render, usize) {
    match choice % 8 {
        0..=2 => (platforms::telegram::render::render, 32_768),
        3..=4 => (platforms::vk::render::render, 16_384),
        _ => (platforms::max::render::render, 4000),
    }
}

fn settings(choice: u8, flags: u8, template: Option<&str>) -> ChannelSettings {
    ChannelSettings {
        target: "-1001".to_owned(),
        chat_kind: if choice % 8 == 4 { ChatKind::Private } else { ChatKind::Channel },
        parse_mode: match choice % 8 {
            1 => Some(ParseMode::MarkdownV2),
            2 | 7 => Some(ParseMode::Plain),
            6 => Some(ParseMode::Markdown),
            _ => None,
        },
        overflow: if flags & 64 == 0 { Overflow::Cut } else { Overflow::Split },
        body_max: if flags & 128 == 0 { 3500 } else { 60 },
        template: template.map(str::to_owned),
        max_media: 20,
        ..ChannelSettings::default()
    }
}

fn check(part: &Part, units_max: usize) {
    let text = match part {
        Part::Text(part) => Some(&part.text),
        Part::Media(part) => part.caption.as_ref(),
        Part::Edit(part) => Some(&part.text),
        Part::Delete(_) | Part::Pin(_) => None,
    };
    if let Some(text) = text {
        // Telegram's wire limit is in bytes, the others' in UTF-16 units.
        let length =
            if units_max == 32_768 { text.as_str().len() } else { text.as_str().encode_utf16().count() };
        assert!(length <= units_max, "{length} of {units_max}: {:?}", text.as_str());
    }
}
