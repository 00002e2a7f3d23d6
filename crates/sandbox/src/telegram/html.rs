//! HTML as the Bot API reads it: a short list of tags, four named entities, errors with byte offsets.
//! Follows the server's reader step by step, because clients match on its error texts.
//! Knows nothing of messages: text in, text and entities out.

use super::entities::{Argument, Entity, Kind, checked_link, link_user_id};

/// Reads HTML into plain text and its entities, or says what is wrong in the server's words.
pub(super) fn parse(text: &str) -> Result<(String, Vec<Entity>), String> {
    let mut reader = Reader { bytes: text.as_bytes(), ..Reader::default() };
    while reader.at < reader.bytes.len() {
        reader.step()?;
    }
    reader.finish()
}

#[derive(Default)]
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// Length of `out` in UTF-16 units.
    offset: usize,
    open: Vec<Open>,
    entities: Vec<Entity>,
    /// A numeric reference to half a surrogate pair was not followed by the other half.
    broken_unicode: bool,
    high_surrogate: Option<u32>,
}

struct Open {
    tag: String,
    argument: String,
    offset: usize,
    out_begin: usize,
}

const TAGS: &[&str] = &[
    "a",
    "b",
    "strong",
    "i",
    "em",
    "s",
    "strike",
    "del",
    "u",
    "ins",
    "tg-spoiler",
    "tg-emoji",
    "tg-time",
    "span",
    "pre",
    "code",
    "blockquote",
];

impl Reader<'_> {
    fn step(&mut self) -> Result<(), String> {
        match self.peek(self.at) {
            b'&' => {
                if let Some((code, end)) = reference(self.bytes, self.at) {
                    self.at = end;
                    self.push_code(code);
                } else {
                    self.push_byte();
                }
            }
            b'<' if self.peek(self.at + 1) == b'/' => return self.end_tag(),
            b'<' => return self.start_tag(),
            _ => self.push_byte(),
        }
        Ok(())
    }

    /// The byte at `at`, or zero past the end, as in the server's zero-terminated text.
    fn peek(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn push_byte(&mut self) {
        self.settle_surrogate();
        let byte = self.bytes[self.at];
        if byte & 0xc0 != 0x80 {
            self.offset += 1 + usize::from(byte >= 0xf0);
        }
        self.out.push(byte);
        self.at += 1;
    }

    fn push_code(&mut self, code: u32) {
        if let Some(high) = self.high_surrogate.take_if(|_| (0xdc00..0xe000).contains(&code)) {
            return self.push_char(0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00));
        }
        self.settle_surrogate();
        if (0xd800..0xdc00).contains(&code) {
            self.high_surrogate = Some(code);
        } else {
            self.push_char(code);
        }
    }

    fn push_char(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(character) => {
                self.offset += character.len_utf16();
                self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => self.broken_unicode = true,
        }
    }

    fn settle_surrogate(&mut self) {
        self.broken_unicode |= self.high_surrogate.take().is_some();
    }

    fn start_tag(&mut self) -> Result<(), String> {
        let begin = self.at;
        self.at += 1;
        while !is_space(self.peek(self.at)) && self.peek(self.at) != b'>' {
            self.at += 1;
        }
        if self.at >= self.bytes.len() {
            return Err(format!("Unclosed start tag at byte offset {begin}"));
        }
        let tag = lower(&self.bytes[begin + 1..self.at]);
        if !TAGS.contains(&tag.as_str()) {
            return Err(format!("Unsupported start tag \"{tag}\" at byte offset {begin}"));
        }
        let argument = self.attributes(&tag, begin)?;
        if tag == "span" && argument != "spoiler" {
            return Err(format!("Tag \"span\" must have class \"tg-spoiler\" at byte offset {begin}"));
        }
        self.at += 1;
        self.open.push(Open { tag, argument, offset: self.offset, out_begin: self.out.len() });
        Ok(())
    }

    /// Reads attributes up to the closing bracket and returns the one value that matters for the tag.
    fn attributes(&mut self, tag: &str, begin: usize) -> Result<String, String> {
        let mut argument = String::new();
        while self.peek(self.at) != b'>' {
            self.skip_spaces();
            if self.peek(self.at) == b'>' {
                break;
            }
            let name_begin = self.at;
            while !is_space(self.peek(self.at))
                && !matches!(self.peek(self.at), b'=' | b'>' | b'/' | b'"' | b'\'')
            {
                self.at += 1;
            }
            let name = lower(&self.bytes[name_begin..self.at]);
            if name.is_empty() {
                return Err(format!("Empty attribute name in the tag \"{tag}\" at byte offset {begin}"));
            }
            self.skip_spaces();
            if self.peek(self.at) != b'=' {
                if self.at >= self.bytes.len() {
                    return Err(format!("Unclosed start tag \"{tag}\" at byte offset {begin}"));
                }
                if tag == "blockquote" && name == "expandable" {
                    "1".clone_into(&mut argument);
                }
                continue;
            }
            self.at += 1;
            self.skip_spaces();
            if self.at >= self.bytes.len() {
                return Err(format!("Unclosed start tag \"{tag}\" at byte offset {begin}"));
            }
            let value = self.attribute_value()?;
            if self.at >= self.bytes.len() {
                return Err(format!("Unclosed start tag at byte offset {begin}"));
            }
            if let Some(value) = meaning(tag, &name, value) {
                argument = value;
            }
        }
        Ok(argument)
    }

    fn attribute_value(&mut self) -> Result<String, String> {
        let begin = self.at;
        let quote = self.peek(self.at);
        if quote != b'"' && quote != b'\'' {
            while self.peek(self.at).is_ascii_alphanumeric() || matches!(self.peek(self.at), b'.' | b'-') {
                self.at += 1;
            }
            if !is_space(self.peek(self.at)) && self.peek(self.at) != b'>' {
                return Err(format!("Unexpected end of name token at byte offset {begin}"));
            }
            return Ok(lower(&self.bytes[begin..self.at]));
        }
        self.at += 1;
        let mut value = Vec::new();
        while self.at < self.bytes.len() && self.peek(self.at) != quote {
            match reference(self.bytes, self.at) {
                Some((code, end)) => {
                    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                    value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at = end;
                }
                None => {
                    value.push(self.bytes[self.at]);
                    self.at += 1;
                }
            }
        }
        if self.peek(self.at) == quote {
            self.at += 1;
        }
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    fn end_tag(&mut self) -> Result<(), String> {
        let begin = self.at;
        let Some(open) = self.open.pop() else {
            return Err(format!("Unexpected end tag at byte offset {begin}"));
        };
        self.at += 1;
        while !is_space(self.peek(self.at)) && self.peek(self.at) != b'>' {
            self.at += 1;
        }
        let found = lower(&self.bytes[begin + 2..self.at]);
        self.skip_spaces();
        if self.peek(self.at) != b'>' {
            return Err(format!("Unclosed end tag at byte offset {begin}"));
        }
        if !found.is_empty() && found != open.tag {
            let expected = &open.tag;
            return Err(format!(
                "Unmatched end tag at byte offset {begin}, expected \"</{expected}>\", found \"</{found}>\""
            ));
        }
        self.at += 1;
        if self.offset > open.offset { self.close(open) } else { Ok(()) }
    }

    fn close(&mut self, open: Open) -> Result<(), String> {
        let (offset, length) = (open.offset, self.offset - open.offset);
        let mut add = |kind, argument| self.entities.push(Entity { kind, offset, length, argument });
        match open.tag.as_str() {
            "b" | "strong" => add(Kind::Bold, Argument::None),
            "i" | "em" => add(Kind::Italic, Argument::None),
            "u" | "ins" => add(Kind::Underline, Argument::None),
            "s" | "strike" | "del" => add(Kind::Strikethrough, Argument::None),
            "span" | "tg-spoiler" => add(Kind::Spoiler, Argument::None),
            "blockquote" if open.argument.is_empty() => add(Kind::Blockquote, Argument::None),
            "blockquote" => add(Kind::ExpandableBlockquote, Argument::None),
            "tg-emoji" => match open.argument.parse::<i64>() {
                Ok(id) if id != 0 => add(Kind::CustomEmoji, Argument::Emoji(open.argument)),
                _ => return Err("Invalid custom emoji identifier specified".to_owned()),
            },
            "tg-time" => match open.argument.parse::<i64>() {
                Ok(unix) => add(Kind::DateTime, Argument::Time(unix)),
                Err(_) => return Err("Invalid Unix time specified".to_owned()),
            },
            "a" => {
                let written = String::from_utf8_lossy(&self.out[open.out_begin..]).into_owned();
                let url = if open.argument.is_empty() { written } else { open.argument };
                if let Some(user) = link_user_id(&url) {
                    add(Kind::TextMention, Argument::User(user));
                } else if let Some(url) = checked_link(&url) {
                    add(Kind::TextLink, Argument::Url(url));
                }
            }
            tag => self.close_code(tag == "pre", offset, length, open.argument),
        }
        Ok(())
    }

    /// `pre` around exactly one `code` with a language, or the other way round, is one block with that language.
    fn close_code(&mut self, is_pre: bool, offset: usize, length: usize, language: String) {
        let inner = self.entities.last_mut().filter(|last| last.offset == offset && last.length == length);
        match inner {
            Some(code) if is_pre && code.kind == Kind::Code && code.argument != Argument::None => {
                code.kind = Kind::Pre;
            }
            Some(pre) if !is_pre && pre.kind == Kind::Pre && !language.is_empty() => {
                pre.argument = Argument::Language(language);
            }
            _ => {
                let kind = if is_pre { Kind::Pre } else { Kind::Code };
                let argument =
                    if language.is_empty() { Argument::None } else { Argument::Language(language) };
                self.entities.push(Entity { kind, offset, length, argument });
            }
        }
    }

    fn finish(mut self) -> Result<(String, Vec<Entity>), String> {
        if let Some(open) = self.open.last() {
            return Err(format!("Can't find end tag corresponding to start tag \"{}\"", open.tag));
        }
        self.settle_surrogate();
        for code in self.entities.iter_mut().filter(|entity| entity.kind == Kind::Code) {
            code.argument = Argument::None;
        }
        let text = String::from_utf8(self.out).ok().filter(|_| !self.broken_unicode);
        let text = text.ok_or(
            "Text contains invalid Unicode characters after decoding HTML entities, check for unmatched surrogate code units",
        )?;
        Ok((text, self.entities))
    }

    fn skip_spaces(&mut self) {
        while self.at < self.bytes.len() && is_space(self.peek(self.at)) {
            self.at += 1;
        }
    }
}

/// The part of an attribute's value that the tag needs.
fn meaning(tag: &str, name: &str, value: String) -> Option<String> {
    match (tag, name) {
        ("a", "href") | ("tg-emoji", "emoji-id") | ("tg-time", "unix") => Some(value),
        ("code", "class") => value.strip_prefix("language-").map(str::to_owned),
        ("span", "class") => value.strip_prefix("tg-").map(str::to_owned),
        ("blockquote", "expandable") => Some("1".to_owned()),
        _ => None,
    }
}

/// A character reference at `at`: its code and where it ends. The semicolon is optional.
fn reference(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let peek = |i: usize| bytes.get(i).copied().unwrap_or(0);
    if peek(at) != b'&' {
        return None;
    }
    let mut end = at + 1;
    let code = if peek(end) == b'#' {
        let hex = peek(end + 1) == b'x';
        end += 1 + usize::from(hex);
        let mut code = 0u32;
        while let Some(digit) = char::from(peek(end)).to_digit(if hex { 16 } else { 10 }) {
            code = code.saturating_mul(if hex { 16 } else { 10 }).saturating_add(digit);
            end += 1;
        }
        if code == 0 || code >= 0x10_ffff || end - at >= 10 {
            return None;
        }
        code
    } else {
        while peek(end).is_ascii_alphabetic() {
            end += 1;
        }
        u32::from(match &bytes[at + 1..end] {
            b"lt" => '<',
            b"gt" => '>',
            b"amp" => '&',
            b"quot" => '"',
            _ => return None,
        })
    };
    Some((code, if peek(end) == b';' { end + 1 } else { end }))
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0 | 0x0b)
}

fn lower(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}
