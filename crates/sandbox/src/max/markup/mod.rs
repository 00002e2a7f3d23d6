//! Formatting: what `format` makes of a text. Answers carry the plain text and `markup[]`, never the source.
//! Nothing here fails: MAX has no error for bad markup, what cannot be read stays text.

mod html;
mod markdown;

use serde_json::{Value, json};

/// What a stretch of text looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Strong,
    Emphasized,
    Strikethrough,
    Underline,
    Monospaced,
    Highlighted,
    Heading,
    Quote,
    Link(String),
    /// A mention by number, or by the name after the at sign.
    User {
        id: Option<i64>,
        link: Option<String>,
    },
}

/// One formatted stretch; offsets count UTF-16 units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub look: Look,
    pub from: usize,
    pub length: usize,
}

/// A text and its formatting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Styled {
    pub text: String,
    pub marks: Vec<Mark>,
}

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Plain,
    Markdown,
    Html,
}

/// Whom the text can mention.
pub(super) trait Names {
    /// The full name of a known user.
    fn name_of(&self, id: i64) -> Option<String>;
    /// The number behind a name after an at sign.
    fn id_of(&self, username: &str) -> Option<i64>;
}

/// Reads a text as its format says and finds the mentions in it.
pub(super) fn read(text: &str, format: Format, names: &dyn Names) -> Styled {
    let styled = match format {
        Format::Plain => Styled { text: text.to_owned(), marks: Vec::new() },
        Format::Markdown => markdown::read(text),
        Format::Html => html::read(text),
    };
    let mut styled = with_profile_names(styled, names);
    add_mentions(&mut styled, names);
    // Longer stretches first, and of equal ones the outer, which was closed later:
    // whoever nests by order nests right.
    styled.marks.reverse();
    styled.marks.sort_by_key(|mark| (mark.from, usize::MAX - mark.length));
    styled
}

impl Styled {
    /// `markup[]` of a message.
    pub(super) fn json(&self) -> Vec<Value> {
        self.marks.iter().map(Mark::json).collect()
    }

    /// The first address in it, for the preview.
    pub(super) fn first_address(&self) -> Option<String> {
        let marked = self.marks.iter().filter_map(|mark| match &mark.look {
            Look::Link(url) if is_web(url) => Some((mark.from, url.clone())),
            _ => None,
        });
        let written = written_address(&self.text);
        marked.chain(written).min_by_key(|(at, _)| *at).map(|(_, url)| url)
    }
}

impl Mark {
    fn json(&self) -> Value {
        let mut object = json!({ "type": self.look.name(), "from": self.from, "length": self.length });
        match &self.look {
            Look::Link(url) => object["url"] = url.as_str().into(),
            Look::User { id, link } => {
                if let Some(id) = id {
                    object["user_id"] = (*id).into();
                }
                if let Some(link) = link {
                    object["user_link"] = link.as_str().into();
                }
            }
            _ => {}
        }
        object
    }
}

impl Look {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Look::Strong => "strong",
            Look::Emphasized => "emphasized",
            Look::Strikethrough => "strikethrough",
            Look::Underline => "underline",
            Look::Monospaced => "monospaced",
            Look::Highlighted => "highlighted",
            Look::Heading => "heading",
            Look::Quote => "quote",
            Look::Link(_) => "link",
            Look::User { .. } => "user_mention",
        }
    }

    /// An address becomes a link or, with MAX's own scheme, a mention.
    fn of_address(url: &str) -> Look {
        match url.strip_prefix("max://user/").and_then(|id| id.parse().ok()) {
            Some(id) => Look::User { id: Some(id), link: None },
            None => Look::Link(url.to_owned()),
        }
    }
}

/// Length as browsers, Java and MAX count it.
pub(super) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// The first address that is written out, with its offset.
fn written_address(text: &str) -> Option<(usize, String)> {
    let start = [text.find("http://"), text.find("https://")].into_iter().flatten().min()?;
    let rest = &text[start..];
    let end = rest.find(|c: char| c.is_whitespace() || "<>\"«»".contains(c)).unwrap_or(rest.len());
    let url = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'']);
    let has_host = url.split_once("://").is_some_and(|(_, host)| !host.is_empty());
    has_host.then(|| (units(&text[..start]), url.to_owned()))
}

/// The text of a mention by number is replaced by the name in the profile.
fn with_profile_names(styled: Styled, names: &dyn Names) -> Styled {
    let mut styled = styled;
    for i in 0..styled.marks.len() {
        let Look::User { id: Some(id), .. } = styled.marks[i].look else { continue };
        let Some(name) = names.name_of(id) else { continue };
        let (from, length) = (styled.marks[i].from, styled.marks[i].length);
        let (start, end) = (byte_at(&styled.text, from), byte_at(&styled.text, from + length));
        styled.text.replace_range(start..end, &name);
        shift(&mut styled.marks, from, length, units(&name));
    }
    styled
}

/// Moves the marks after a stretch that changed its length, and stretches those around it.
fn shift(marks: &mut [Mark], from: usize, old: usize, new: usize) {
    for mark in marks {
        let end = mark.from + mark.length;
        if mark.from >= from + old && old > 0 {
            mark.from = mark.from + new - old;
        } else if mark.from <= from && end >= from + old {
            mark.length = mark.length + new - old;
        } else {
            // A mark inside the stretch cannot outlive its text.
            mark.length = mark.length.min((from + new).saturating_sub(mark.from));
        }
    }
}

/// The byte where a UTF-16 offset points.
fn byte_at(text: &str, unit: usize) -> usize {
    let mut seen = 0;
    for (at, c) in text.char_indices() {
        if seen >= unit {
            return at;
        }
        seen += c.len_utf16();
    }
    text.len()
}

/// `@name` of somebody who exists, outside of code, not inside of a word or an address.
fn add_mentions(styled: &mut Styled, names: &dyn Names) {
    let mut before = ' ';
    let mut unit = 0;
    let mut found = Vec::new();
    for (at, c) in styled.text.char_indices() {
        let begins = c == '@' && !before.is_alphanumeric() && !"_./@".contains(before);
        before = c;
        if begins {
            let rest = &styled.text[at + 1..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let name = &rest[..end];
            if let Some(id) = names.id_of(name).filter(|_| !name.is_empty()) {
                let look = Look::User { id: Some(id), link: Some(format!("@{name}")) };
                found.push(Mark { look, from: unit, length: end + 1 });
            }
        }
        unit += c.len_utf16();
    }
    found.retain(|mark| !styled.marks.iter().any(|own| forbids_mention(own, mark)));
    styled.marks.extend(found);
}

fn forbids_mention(own: &Mark, mention: &Mark) -> bool {
    let overlaps = own.from < mention.from + mention.length && mention.from < own.from + own.length;
    overlaps && matches!(own.look, Look::Monospaced | Look::Link(_) | Look::User { .. })
}

#[cfg(test)]
mod tests;
