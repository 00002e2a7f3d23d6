//! What a delivery left on the platform, in one line per part: its shape and its ids, `caption 101 102`.
//!
//! Edits, answers and deletions need it long after the render that made it. A line without a shape is a plain message:
//! that is what other clients of the database write.

use platforms::part::{MediaItem, Part, Published, Shape};
use store::Delivery;

/// The line of a part that became visible.
pub(super) fn line(part: &Part, ids: &[String]) -> String {
    let shape = match part {
        Part::Media(media) if media.caption.is_some() => "caption",
        Part::Media(_) => "media",
        Part::Text(_) => "text",
        Part::Edit(_) | Part::Delete(_) | Part::Pin(_) => "done",
    };
    if shape == "text" && ids.len() == 1 {
        return ids[0].clone();
    }
    let mut line = shape.to_owned();
    for id in ids {
        line.push(' ');
        line.push_str(id);
    }
    line
}

/// The ids in a line.
pub(super) fn ids(line: &str) -> Vec<String> {
    read(line).1
}

/// Everything a delivery made visible, in order; the media of the message stand for what the parts show.
pub(super) fn published(delivery: &Delivery, media: &[MediaItem]) -> Vec<Published> {
    let mut lines: Vec<&str> = delivery.parts.values().map(String::as_str).collect();
    if lines.is_empty()
        && let Some(id) = &delivery.provider_message_id
    {
        lines.push(id);
    }
    let mut rest = media;
    lines
        .into_iter()
        .filter_map(|line| {
            let (shape, ids) = read(line);
            let shape = shape?;
            let shown = match shape {
                Shape::Text => 0,
                Shape::Caption | Shape::Media => shown(delivery, ids.len(), rest.len()),
            };
            let (here, later) = rest.split_at(shown);
            rest = later;
            Some(Published { shape, ids, media: here.to_vec(), reply_to: None })
        })
        .collect()
}

/// An album has an id for each of its media; one message may carry them all.
fn shown(delivery: &Delivery, ids: usize, media: usize) -> usize {
    let parts_with_media = delivery.parts.values().filter(|line| !matches!(read(line).0, Some(Shape::Text)));
    if ids == 1 && parts_with_media.count() == 1 { media } else { ids.min(media) }
}

fn read(line: &str) -> (Option<Shape>, Vec<String>) {
    let mut words = line.split(' ');
    let shape = match words.next() {
        Some("text") => Some(Shape::Text),
        Some("caption") => Some(Shape::Caption),
        Some("media") => Some(Shape::Media),
        Some("done") => None,
        _ => return (Some(Shape::Text), vec![line.to_owned()]),
    };
    (shape, words.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let check = |line: &str, shape: Option<Shape>, ids: &[&str]| {
            assert_eq!(read(line), (shape, ids.iter().map(|id| (*id).to_owned()).collect()), "{line}");
        };
        check("101", Some(Shape::Text), &["101"]);
        check("mid.0a1b", Some(Shape::Text), &["mid.0a1b"]);
        check("caption 101 102", Some(Shape::Caption), &["101", "102"]);
        check("media 7", Some(Shape::Media), &["7"]);
        check("text", Some(Shape::Text), &[]);
        check("done", None, &[]);
    }
}
