//! The HTML that MAX reads: a dozen tags, entities, everything else stripped with its text kept.

use super::{Look, Mark, Styled};

/// Tags that are open, with the offset where they began.
struct Open {
    tag: String,
    look: Look,
    from: usize,
}

/// Reads HTML.
pub(super) fn read(source: &str) -> Styled {
    let mut reader = Reader { text: String::new(), unit: 0, open: Vec::new(), marks: Vec::new() };
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '<' => reader.tag(rest),
            '&' => reader.entity(rest),
            _ => None,
        };
        rest = match taken {
            Some(rest) => rest,
            None => {
                reader.push(c);
                &rest[c.len_utf8()..]
            }
        };
    }
    reader.close_all();
    Styled { text: reader.text, marks: reader.marks }
}

struct Reader {
    text: String,
    unit: usize,
    open: Vec<Open>,
    marks: Vec<Mark>,
}

impl Reader {
    fn push(&mut self, c: char) {
        self.text.push(c);
        self.unit += c.len_utf16();
    }

    /// Reads a tag or a comment; `None` if there is none here and the bracket is text.
    fn tag<'a>(&mut self, rest: &'a str) -> Option<&'a str> {
        if let Some(comment) = rest.strip_prefix("<!--") {
            return comment.find("-->").map(|end| &comment[end + 3..]);
        }
        let inner = &rest[1..];
        let closing = inner.starts_with('/');
        let named = inner.strip_prefix('/').unwrap_or(inner);
        if !named.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!') {
            return None;
        }
        let end = tag_end(named)?;
        let content = named[..end].trim_end_matches('/');
        let name_end = content.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(content.len());
        let name = content[..name_end].to_ascii_lowercase();
        if closing {
            self.close(&name);
        } else if let Some(look) = look_of(&name, &content[name_end..]) {
            self.open.push(Open { tag: name, look, from: self.unit });
        }
        Some(&named[end + 1..])
    }

    fn close(&mut self, tag: &str) {
        if let Some(at) = self.open.iter().rposition(|open| open.tag == tag) {
            let open = self.open.remove(at);
            self.mark(open);
        }
    }

    /// What was never closed ends with the text.
    fn close_all(&mut self) {
        while let Some(open) = self.open.pop() {
            self.mark(open);
        }
    }

    fn mark(&mut self, open: Open) {
        if self.unit > open.from {
            self.marks.push(Mark { look: open.look, from: open.from, length: self.unit - open.from });
        }
    }

    /// Reads a character reference; `None` if it is not one.
    fn entity<'a>(&mut self, rest: &'a str) -> Option<&'a str> {
        let end = rest.char_indices().take(12).find(|(_, c)| *c == ';').map(|(at, _)| at)?;
        self.push(decoded(&rest[1..end])?);
        Some(&rest[end + 1..])
    }
}

/// The closing bracket of a tag, quoted values skipped.
fn tag_end(content: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in content.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at),
            (None, '<') => return None,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

fn look_of(tag: &str, attributes: &str) -> Option<Look> {
    Some(match tag {
        "b" | "strong" => Look::Strong,
        "i" | "em" => Look::Emphasized,
        "s" | "del" => Look::Strikethrough,
        "u" | "ins" => Look::Underline,
        "code" | "pre" => Look::Monospaced,
        "mark" => Look::Highlighted,
        "h1" => Look::Heading,
        "blockquote" => Look::Quote,
        "a" => Look::of_address(&attribute(attributes, "href").filter(|url| !url.is_empty())?),
        _ => return None,
    })
}

/// The value of an attribute, quoted or not.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        if rest.is_empty() {
            return None;
        }
        let name_end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
        let (own, after) = rest.split_at(name_end);
        let Some(value) = after.trim_start().strip_prefix('=') else {
            rest = after.strip_prefix('=').unwrap_or(after);
            continue;
        };
        let value = value.trim_start();
        let (value, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            _ => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        if own.eq_ignore_ascii_case(name) {
            return Some(plain(value));
        }
        rest = after;
    }
}

/// An attribute value with its references decoded.
fn plain(value: &str) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').filter(|end| *end < 12);
        match end.and_then(|end| decoded(&rest[1..end]).map(|c| (c, end))) {
            Some((c, end)) => {
                text.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                text.push('&');
                rest = &rest[1..];
            }
        }
    }
    text + rest
}

fn decoded(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|c| *c != '\0');
    }
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "laquo" => '«',
        "raquo" => '»',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        _ => return None,
    })
}
