//! Messages for tests, all invented, and one way to print what rendering made of them.

use domain::message::{Button, Media, MediaKind, Message, Origin, Press};

use super::reader::visible;
use crate::part::*;

pub(crate) const LINK: &str = "https://vk.com/wall-990000101_77";

/// A medium whose blob tells its number.
pub(crate) fn medium(kind: MediaKind, number: usize) -> Media {
    Media { kind, blob: Some(format!("{number:064}")), ..Media::default() }
}

pub(crate) fn media(kind: MediaKind, numbers: std::ops::RangeInclusive<usize>) -> Vec<Media> {
    numbers.map(|number| medium(kind, number)).collect()
}

/// A post of the VK wall that every sample comes from.
pub(crate) fn post(text: &str, media: Vec<Media>) -> Message {
    Message {
        kind: "lost".into(),
        text: text.into(),
        media,
        phones: vec!["+79990001122".into()],
        city: Some("Казань".into()),
        place: Some("улица Мира".into()),
        origin: Some(Origin {
            source: crate::vk::NAME.into(),
            owner_id: Some(-990_000_101),
            post_id: Some(77),
            ..Origin::default()
        }),
        ..Message::default()
    }
}

/// Exactly so many characters of Russian.
pub(crate) fn russian(chars: usize) -> String {
    let sentence = "Рыжая собака с белой грудкой убежала вечером от магазина, отзывается на кличку Булка. ";
    let text: String = sentence.chars().cycle().take(chars - 1).collect();
    format!("{}!", text.replace("  ", " "))
}

pub(crate) fn link_button(text: &str) -> Button {
    Button { text: text.into(), press: Press::Url("https://example.org/map".into()) }
}

pub(crate) fn callback_button(text: &str, data: &str) -> Button {
    Button { text: text.into(), press: Press::Callback(data.into()) }
}

pub(crate) fn published(shape: Shape, ids: &[&str], media: &[Media]) -> Published {
    let media = media.iter().map(|media| MediaItem { send_as: media.kind, media: media.clone() }).collect();
    Published { shape, ids: ids.iter().map(|id| (*id).to_owned()).collect(), media, reply_to: None }
}

/// Every part in full, one line each, then the notes.
pub(crate) fn show(result: &Result<Rendered, RenderError>) -> String {
    lines(result, |text| format!("{:?} {:?}", text.markup(), text.as_str()))
}

/// The same with the number of characters in the place of the words.
pub(crate) fn outline(result: &Result<Rendered, RenderError>) -> String {
    lines(result, |text| format!("{} characters", visible(text.markup(), text.as_str()).chars().count()))
}

fn lines(result: &Result<Rendered, RenderError>, words: impl Fn(&Fitted) -> String) -> String {
    let rendered = match result {
        Ok(rendered) => rendered,
        Err(error) => return format!("error: {error}\n"),
    };
    let mut out = String::new();
    for (index, part) in rendered.parts.iter().enumerate() {
        out.push_str(&format!("{}. {}\n", index + 1, line(part, &words)));
    }
    for note in &rendered.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out
}

fn line(part: &Part, words: &impl Fn(&Fitted) -> String) -> String {
    match part {
        Part::Text(part) => {
            format!("text: {}{}{}", words(&part.text), keyboard(&part.buttons), options(&part.options))
        }
        Part::Media(part) => {
            let caption =
                part.caption.as_ref().map(|text| format!(", words: {}", words(text))).unwrap_or_default();
            format!(
                "media: {}{caption}{}{}",
                items(&part.items),
                keyboard(&part.buttons),
                options(&part.options)
            )
        }
        Part::Edit(part) => {
            let shape = if part.shape == Shape::Text { "text" } else { "caption" };
            let kept =
                if part.media.is_empty() { String::new() } else { format!(", keeps {}", items(&part.media)) };
            let under = part.options.reply_to.as_ref().map(|id| format!(" under {id}")).unwrap_or_default();
            format!(
                "edit {shape} of {}{under}: {}{kept}{}",
                part.id,
                words(&part.text),
                keyboard(&part.buttons)
            )
        }
        Part::Delete(part) => {
            let under = part.reply_to.as_ref().map(|id| format!(" under {id}")).unwrap_or_default();
            format!("delete {}{under}", part.ids.join(", "))
        }
        Part::Pin(part) => format!("pin what part {} made", part.of_part + 1),
    }
}

/// `photo 1–10, video 13`: kinds as they are sent, numbers as in the message.
fn items(items: &[MediaItem]) -> String {
    let mut ranges: Vec<(MediaKind, u64, u64)> = Vec::new();
    for item in items {
        let number = item.media.blob.as_deref().and_then(|blob| blob.parse().ok()).unwrap_or_default();
        match ranges.last_mut() {
            Some((kind, _, last)) if *kind == item.send_as && *last + 1 == number => *last = number,
            _ => ranges.push((item.send_as, number, number)),
        }
    }
    let range = |(kind, first, last): &(MediaKind, u64, u64)| match first == last {
        true => format!("{kind} {first}"),
        false => format!("{kind} {first}–{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(", ")
}

fn keyboard(rows: &Keyboard) -> String {
    let button = |button: &Button| match &button.press {
        Press::Url(_) => format!("{}→", button.text),
        Press::Callback(_) => format!("{}↩", button.text),
    };
    let row = |row: &Vec<Button>| row.iter().map(button).collect::<Vec<_>>().join(" ");
    if rows.is_empty() {
        return String::new();
    }
    format!(", buttons: [{}]", rows.iter().map(row).collect::<Vec<_>>().join(" / "))
}

fn options(options: &SendOptions) -> String {
    let mut out = String::new();
    for (on, word) in
        [(options.silent, ", silent"), (options.preview, ", preview"), (options.protect, ", protected")]
    {
        if on {
            out.push_str(word);
        }
    }
    if let Some(topic) = options.topic {
        out.push_str(&format!(", topic {topic}"));
    }
    if let Some(id) = &options.reply_to {
        out.push_str(&format!(", answers {id}"));
    }
    out
}
