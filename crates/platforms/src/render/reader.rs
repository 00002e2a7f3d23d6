//! Reads wire text back as a platform does, for tests: letters with their styles, or the reason of a refusal.
//!
//! Written from docs/platforms alone and sharing nothing with the dialects. `READERS` is the seam: a reader of
//! another hand, such as the sandbox's, becomes one more line and is then held against every property.

use crate::part::Markup;
use crate::render::markup::Style;

/// One visible character with what surrounds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) c: char,
    pub(crate) style: Style,
    pub(crate) href: Option<String>,
}

pub(crate) type Reader = fn(Markup, &str) -> Result<Vec<Letter>, String>;

pub(crate) const READERS: [(&str, Reader); 1] = [("strict", read)];

/// The words a reader of the channel sees, by every reader, which must agree.
pub(crate) fn visible(markup: Markup, text: &str) -> String {
    let mut seen: Vec<String> = READERS
        .iter()
        .map(|(name, read)| match read(markup, text) {
            Ok(letters) => letters.iter().map(|letter| letter.c).collect(),
            Err(error) => panic!("{name}: {error} in {text:?}"),
        })
        .collect();
    seen.dedup();
    assert_eq!(seen.len(), 1, "readers disagree on {text:?}");
    seen.remove(0)
}

fn read(markup: Markup, text: &str) -> Result<Vec<Letter>, String> {
    let mut state = State { letters: Vec::new(), open: Vec::new() };
    let chars: Vec<char> = text.chars().collect();
    match markup {
        Markup::Plain => chars.iter().for_each(|c| state.push(*c)),
        Markup::Html => html(&chars, &mut state)?,
        Markup::MarkdownV2 => markdown_v2(&chars, &mut state)?,
        Markup::Markdown => markdown(&chars, &mut state)?,
    }
    match state.open.pop() {
        Some(open) => Err(format!("{:?} is not closed", open.kind)),
        None => Ok(state.letters),
    }
}

struct State {
    letters: Vec<Letter>,
    open: Vec<Open>,
}

struct Open {
    kind: Kind,
    href: Option<String>,
    /// Letters before it.
    from: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bold,
    Italic,
    Underline,
    Strike,
    Spoiler,
    Code,
    Link,
}

impl State {
    fn push(&mut self, c: char) {
        let on = |kind: Kind| self.open.iter().any(|open| open.kind == kind);
        let style = Style {
            bold: on(Kind::Bold),
            italic: on(Kind::Italic),
            underline: on(Kind::Underline),
            strike: on(Kind::Strike),
            spoiler: on(Kind::Spoiler),
            code: on(Kind::Code),
        };
        let href = self.open.iter().rev().find_map(|open| open.href.clone());
        self.letters.push(Letter { c, style, href });
    }

    fn open(&mut self, kind: Kind, href: Option<String>) {
        self.open.push(Open { kind, href, from: self.letters.len() });
    }

    fn top(&self) -> Option<Kind> {
        self.open.last().map(|open| open.kind)
    }

    fn toggle(&mut self, kind: Kind) {
        if self.top() == Some(kind) {
            self.open.pop();
        } else {
            self.open(kind, None);
        }
    }

    /// Ends a Markdown link, whose address comes after its words.
    fn end_link(&mut self, address: &str) {
        if let Some(open) = self.open.pop() {
            self.letters[open.from..].iter_mut().for_each(|letter| letter.href = Some(address.to_owned()));
        }
    }
}

fn html(chars: &[char], state: &mut State) -> Result<(), String> {
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            '<' => {
                let length = chars[at..].iter().position(|c| *c == '>').ok_or("unclosed tag")?;
                let tag: String = chars[at + 1..at + length].iter().collect();
                html_tag(&tag, state)?;
                at += length + 1;
            }
            '>' => return Err("a lone > that should be escaped".into()),
            _ => {
                let (c, length) = html_char(&chars[at..])?;
                state.push(c);
                at += length;
            }
        }
    }
    Ok(())
}

fn html_char(chars: &[char]) -> Result<(char, usize), String> {
    if chars[0] != '&' {
        return Ok((chars[0], 1));
    }
    for (entity, c) in [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"')] {
        if chars.iter().take(entity.len()).collect::<String>() == entity {
            return Ok((c, entity.len()));
        }
    }
    Err("a lone & that should be escaped".into())
}

fn html_tag(tag: &str, state: &mut State) -> Result<(), String> {
    let kind = |name: &str| match name {
        "b" => Ok(Kind::Bold),
        "i" => Ok(Kind::Italic),
        "u" => Ok(Kind::Underline),
        "s" => Ok(Kind::Strike),
        "tg-spoiler" => Ok(Kind::Spoiler),
        "code" => Ok(Kind::Code),
        "a" => Ok(Kind::Link),
        name => Err(format!("unsupported tag {name}")),
    };
    if let Some(name) = tag.strip_prefix('/') {
        let closed = kind(name)?;
        return match state.open.pop() {
            Some(open) if open.kind == closed => Ok(()),
            open => Err(format!("unmatched end tag {name}, open is {:?}", open.map(|open| open.kind))),
        };
    }
    if let Some(value) = tag.strip_prefix("a href=\"").and_then(|rest| rest.strip_suffix('"')) {
        let chars: Vec<char> = value.chars().collect();
        let (mut at, mut address) = (0, String::new());
        while at < chars.len() {
            let (c, length) = html_char(&chars[at..])?;
            address.push(c);
            at += length;
        }
        state.open(Kind::Link, Some(address));
        return Ok(());
    }
    state.open(kind(tag)?, None);
    Ok(())
}

fn markdown_v2(chars: &[char], state: &mut State) -> Result<(), String> {
    let mut at = 0;
    while at < chars.len() {
        let (c, next) = (chars[at], chars.get(at + 1).copied());
        let is_double = next == Some(c);
        let in_code = state.top() == Some(Kind::Code);
        match c {
            '\\' if next.is_some_and(|next| next.is_ascii()) => {
                state.push(next.unwrap_or_default());
                at += 2;
                continue;
            }
            '`' => state.toggle(Kind::Code),
            c if in_code => state.push(c),
            '*' => state.toggle(Kind::Bold),
            '~' => state.toggle(Kind::Strike),
            '_' if is_double => {
                state.toggle(Kind::Underline);
                at += 1;
            }
            '_' => state.toggle(Kind::Italic),
            '|' if is_double => {
                state.toggle(Kind::Spoiler);
                at += 1;
            }
            '[' => state.open(Kind::Link, None),
            ']' if state.top() == Some(Kind::Link) => {
                let (address, length) = markdown_address(&chars[at + 1..])?;
                state.end_link(&address);
                at += length;
            }
            c if "_*[]()~`>#+-=|{}.!".contains(c) => return Err(format!("character {c:?} must be escaped")),
            c => state.push(c),
        }
        at += 1;
    }
    Ok(())
}

/// `(address)` and its length.
fn markdown_address(chars: &[char]) -> Result<(String, usize), String> {
    if chars.first() != Some(&'(') {
        return Err("no address after ]".into());
    }
    let (mut at, mut address) = (1, String::new());
    loop {
        match (chars.get(at), chars.get(at + 1)) {
            (Some(')'), _) => return Ok((address, at + 1)),
            (Some('\\'), Some(next)) => {
                address.push(*next);
                at += 2;
            }
            (Some(c), _) => {
                address.push(*c);
                at += 1;
            }
            (None, _) => return Err("can't find end of a URL".into()),
        }
    }
}

/// The Markdown of MAX, with CommonMark's rule of what may open and close.
fn markdown(chars: &[char], state: &mut State) -> Result<(), String> {
    let is_word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric());
    let mut at = 0;
    while at < chars.len() {
        let (c, next) = (chars[at], chars.get(at + 1));
        let in_code = state.top() == Some(Kind::Code);
        let mark = [("**", Kind::Bold), ("~~", Kind::Strike), ("++", Kind::Underline), ("*", Kind::Italic)]
            .into_iter()
            .find(|(mark, _)| chars[at..].starts_with(&mark.chars().collect::<Vec<_>>()));
        match (c, mark) {
            ('`', _) => state.toggle(Kind::Code),
            (c, _) if in_code => state.push(c),
            ('\\', _) if next.is_some_and(char::is_ascii_punctuation) => {
                at += 1;
                state.push(chars[at]);
            }
            (_, Some((mark, kind))) => {
                let closes = state.open.iter().any(|open| open.kind == kind);
                // Of several marks in a row the inner neighbour decides.
                let run = |c: &&char| "*~+[]".contains(**c);
                let inner = if closes {
                    chars[..at].iter().rev().find(|c| !run(c))
                } else {
                    chars[at..].iter().find(|c| !run(c))
                };
                if !is_word(inner) {
                    return Err(format!("{mark} beside {inner:?} is not read as a mark"));
                }
                // Closing marks of one run may come in any order.
                match state.open.iter().rposition(|open| open.kind == kind).filter(|_| closes) {
                    Some(place) => drop(state.open.remove(place)),
                    None => state.open(kind, None),
                }
                at += mark.len() - 1;
            }
            ('[', _) => state.open(Kind::Link, None),
            (']', _) if state.top() == Some(Kind::Link) => {
                let (address, length) = markdown_address(&chars[at + 1..])?;
                state.end_link(&address);
                at += length;
            }
            (c, _) if "_*[]()~`<>#+-=|{}.!^&".contains(c) => {
                return Err(format!("character {c:?} must be escaped"));
            }
            (c, _) => state.push(c),
        }
        at += 1;
    }
    Ok(())
}
