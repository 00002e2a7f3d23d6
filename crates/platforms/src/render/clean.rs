//! Foreign text made safe to carry: no control characters, no characters that the renderer uses itself,
//! and in one-line fields nothing that could turn the rest of the line around.
//! Words are never changed here.

use unicode_segmentation::UnicodeSegmentation;

/// Graphemes of a field of a template: title, place, phone, tag.
pub const FIELD_MAX: usize = 200;

/// The mark of a cut.
pub const ELLIPSIS: &str = "…";

/// Stands for the body in a template's output until the body is put in; foreign text never holds it.
pub const BODY_MARK: char = '\u{FDD0}';
/// Stands for the source link in the same way.
pub const LINK_MARK: char = '\u{FDD1}';

/// A text of many lines: line ends made equal, at most one empty line in a row, no control characters.
pub fn body(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut newlines = 0;
    for c in text.replace("\r\n", "\n").chars().filter_map(carried) {
        newlines = if c == '\n' { newlines + 1 } else { 0 };
        if newlines <= 2 {
            out.push(c);
        }
    }
    out.trim().to_owned()
}

/// A text of one line: as `body`, without line ends and direction controls, and never long.
pub fn field(text: &str) -> String {
    let plain: String = text.chars().filter_map(carried).filter(|c| !is_direction_control(*c)).collect();
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.grapheme_indices(true).nth(FIELD_MAX - 1) {
        Some((end, last)) if end + last.len() < words.len() => {
            format!("{}{ELLIPSIS}", words[..end].trim_end())
        }
        _ => words,
    }
}

/// The character as it may be carried, or nothing.
fn carried(c: char) -> Option<char> {
    match c {
        '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some('\n'),
        '\t' => Some(' '),
        '\u{FEFF}' => None,
        c if c.is_control() || is_noncharacter(c) => None,
        c => Some(c),
    }
}

fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

/// Embeddings, overrides and isolates: they can hide where a field ends.
pub fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether a platform would call this text empty.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || is_direction_control(c) || is_invisible(c))
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}'
            | '\u{206A}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_keeps_its_words_and_loses_its_controls() {
        assert_eq!(
            body("  Пропал\r\nкот\u{0}\u{7}\r\r\r\n\u{2029}Барсик\u{FDD0}\t!\u{FEFF} "),
            "Пропал\nкот\n\nБарсик !"
        );
        assert_eq!(body("с\u{202E}право"), "с\u{202E}право", "legitimate marks stay in a body");
    }

    #[test]
    fn a_field_is_one_line_that_cannot_turn_the_next_words_around() {
        assert_eq!(field("ул.\n Мира\u{202E},  5\u{2066}"), "ул. Мира, 5");
        let long = field(&"я".repeat(500));
        assert_eq!(long.chars().count(), FIELD_MAX);
        assert!(long.ends_with(ELLIPSIS));
        assert_eq!(field(&"я".repeat(FIELD_MAX)), "я".repeat(FIELD_MAX));
    }

    #[test]
    fn invisible_text_is_blank() {
        assert!(is_blank(" \n\u{200B}\u{2060}\u{202E}"));
        assert!(!is_blank("\u{200B}а"));
    }
}
