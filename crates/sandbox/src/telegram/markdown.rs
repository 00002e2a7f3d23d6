//! MarkdownV2 and the legacy Markdown as the Bot API reads them, with the server's error texts.
//! Knows nothing of messages: text in, text and entities out.

use super::entities::{Argument, Entity, Kind, checked_link, link_user_id};
use super::html::is_space;

type Parsed = Result<(String, Vec<Entity>), String>;

/// Reads MarkdownV2.
pub(super) fn parse_v2(text: &str) -> Parsed {
    let mut reader = Reader::new(text);
    let mut line_start = true;
    while reader.at < reader.bytes.len() {
        let byte = reader.peek(0);
        if byte == b'\\' && (1..=126).contains(&reader.peek(1)) {
            reader.at += 1;
            line_start = reader.peek(0) == b'\n';
            reader.push();
        } else if !reader.is_reserved(byte) {
            reader.push();
            line_start &= byte == b'\r';
        } else if byte == b'\n' {
            reader.newline();
            line_start = true;
        } else if reader.ends_innermost(byte) {
            reader.end()?;
            line_start = false;
        } else {
            reader.begin(byte, line_start)?;
            line_start = false;
        }
    }
    reader.finish()
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// Length of `out` in UTF-16 units.
    offset: usize,
    open: Vec<Open>,
    entities: Vec<Entity>,
}

struct Open {
    kind: Kind,
    language: String,
    offset: usize,
    byte_offset: usize,
    out_begin: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        Reader {
            bytes: text.as_bytes(),
            at: 0,
            out: Vec::new(),
            offset: 0,
            open: Vec::new(),
            entities: Vec::new(),
        }
    }

    /// The byte `ahead` of here, or zero past the end.
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self) {
        let byte = self.bytes[self.at];
        if byte & 0xc0 != 0x80 {
            self.offset += 1 + usize::from(byte >= 0xf0);
        }
        self.out.push(byte);
        self.at += 1;
    }

    fn innermost(&self) -> Option<Kind> {
        self.open.last().map(|open| open.kind)
    }

    fn is_reserved(&self, byte: u8) -> bool {
        match self.innermost() {
            Some(Kind::Code | Kind::Pre) => byte == b'`',
            _ => b"_*[]()~`>#+-=|{}.!\n".contains(&byte),
        }
    }

    /// A line break ends a quotation unless the next line is quoted as well.
    fn newline(&mut self) {
        let quoted = self.open.iter().any(|open| open.kind == Kind::Blockquote);
        if quoted && self.peek(1) == b'>' {
            self.push();
            self.at += 1;
            return;
        }
        if self.innermost() == Some(Kind::Blockquote) {
            self.close(Kind::Blockquote);
        }
        self.push();
    }

    fn ends_innermost(&self, byte: u8) -> bool {
        let next = self.peek(1);
        match self.innermost() {
            Some(Kind::Bold) => byte == b'*',
            Some(Kind::Italic) => byte == b'_' && next != b'_',
            Some(Kind::Underline) => byte == b'_' && next == b'_',
            Some(Kind::Strikethrough) => byte == b'~',
            Some(Kind::Spoiler) => byte == b'|' && next == b'|',
            Some(Kind::Code) => byte == b'`',
            Some(Kind::Pre) => byte == b'`' && next == b'`' && self.peek(2) == b'`',
            Some(Kind::TextLink | Kind::CustomEmoji) => byte == b']',
            // Two bars at the end of a quotation make it expandable.
            Some(Kind::Blockquote) => byte == b'|' && next == b'|' && matches!(self.peek(2), b'\n' | 0),
            _ => false,
        }
    }

    fn begin(&mut self, byte: u8, line_start: bool) -> Result<(), String> {
        let byte_offset = self.at;
        let (kind, width) = match (byte, self.peek(1)) {
            (b'_', b'_') => (Kind::Underline, 2),
            (b'_', _) => (Kind::Italic, 1),
            (b'*', _) => (Kind::Bold, 1),
            (b'~', _) => (Kind::Strikethrough, 1),
            (b'|', b'|') => (Kind::Spoiler, 2),
            (b'[', _) => (Kind::TextLink, 1),
            (b'!', b'[') => (Kind::CustomEmoji, 2),
            (b'`', b'`') if self.peek(2) == b'`' => (Kind::Pre, 3),
            (b'`', _) => (Kind::Code, 1),
            (b'>', _) if line_start => (Kind::Blockquote, 1),
            _ => return Err(reserved(byte)),
        };
        self.at += width;
        let language = if kind == Kind::Pre { self.language() } else { String::new() };
        self.open.push(Open { kind, language, offset: self.offset, byte_offset, out_begin: self.out.len() });
        Ok(())
    }

    /// The language after three backticks, and one line break after it.
    fn language(&mut self) -> String {
        let mut end = self.at;
        while end < self.bytes.len() && !is_space(self.bytes[end]) && self.bytes[end] != b'`' {
            end += 1;
        }
        let mut language = String::new();
        if end != self.at && end < self.bytes.len() && self.bytes[end] != b'`' {
            language = String::from_utf8_lossy(&self.bytes[self.at..end]).into_owned();
            self.at = end;
        }
        let breaks = |byte: u8| byte == b'\n' || byte == b'\r';
        if breaks(self.peek(0)) {
            self.at += if breaks(self.peek(1)) && self.peek(0) != self.peek(1) { 2 } else { 1 };
        }
        language
    }

    fn end(&mut self) -> Result<(), String> {
        match self.innermost() {
            Some(Kind::Underline | Kind::Spoiler) => self.at += 2,
            Some(Kind::Pre) => self.at += 3,
            Some(Kind::Blockquote) => {
                self.at += 2;
                self.close(Kind::ExpandableBlockquote);
                return Ok(());
            }
            Some(Kind::TextLink) => return self.end_link(),
            Some(Kind::CustomEmoji) => return self.end_emoji(),
            _ => self.at += 1,
        }
        if let Some(kind) = self.innermost() {
            self.close(kind);
        }
        Ok(())
    }

    fn close(&mut self, kind: Kind) {
        let Some(open) = self.open.pop() else { return };
        let argument =
            if open.language.is_empty() { Argument::None } else { Argument::Language(open.language) };
        self.add(kind, open.offset, argument);
    }

    fn add(&mut self, kind: Kind, offset: usize, argument: Argument) {
        if self.offset > offset {
            self.entities.push(Entity { kind, offset, length: self.offset - offset, argument });
        }
    }

    fn end_link(&mut self) -> Result<(), String> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let url = match self.peek(1) {
            b'(' => self.url()?,
            _ => {
                self.at += 1;
                String::from_utf8_lossy(&self.out[open.out_begin..]).into_owned()
            }
        };
        if let Some(user) = link_user_id(&url) {
            self.add(Kind::TextMention, open.offset, Argument::User(user));
        } else if let Some(url) = checked_link(&url) {
            self.add(Kind::TextLink, open.offset, Argument::Url(url));
        }
        Ok(())
    }

    fn end_emoji(&mut self) -> Result<(), String> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        if self.peek(1) != b'(' {
            return Err("Custom emoji entity must contain a tg://emoji URL".to_owned());
        }
        let url = self.url()?;
        let id = url.strip_prefix("tg://emoji?id=").filter(|id| id.parse::<i64>().is_ok_and(|id| id != 0));
        let id = id.ok_or_else(|| "Invalid custom emoji URL specified".to_owned())?.to_owned();
        self.add(Kind::CustomEmoji, open.offset, Argument::Emoji(id));
        Ok(())
    }

    /// The address between the brackets after `]`.
    fn url(&mut self) -> Result<String, String> {
        self.at += 2;
        let begin = self.at;
        let mut url = Vec::new();
        while self.at < self.bytes.len() && self.peek(0) != b')' {
            if self.peek(0) == b'\\' && (1..=126).contains(&self.peek(1)) {
                self.at += 1;
            }
            url.push(self.peek(0));
            self.at += 1;
        }
        if self.at >= self.bytes.len() {
            return Err(format!("Can't find end of a URL at byte offset {begin}"));
        }
        self.at += 1;
        Ok(String::from_utf8_lossy(&url).into_owned())
    }

    fn finish(mut self) -> Parsed {
        if self.innermost() == Some(Kind::Blockquote) {
            self.close(Kind::Blockquote);
        }
        if let Some(open) = self.open.last() {
            let name = internal_name(open);
            return Err(format!("Can't find end of {name} entity at byte offset {}", open.byte_offset));
        }
        Ok((String::from_utf8_lossy(&self.out).into_owned(), self.entities))
    }
}

fn reserved(byte: u8) -> String {
    format!("Character '{}' is reserved and must be escaped with the preceding '\\'", char::from(byte))
}

/// The server's own names of its entity types, which leak into the error texts.
fn internal_name(open: &Open) -> &'static str {
    match open.kind {
        Kind::Bold => "Bold",
        Kind::Italic => "Italic",
        Kind::Underline => "Underline",
        Kind::Strikethrough => "Strikethrough",
        Kind::Spoiler => "Spoiler",
        Kind::Code => "Code",
        Kind::Pre if open.language.is_empty() => "Pre",
        Kind::Pre => "PreCode",
        Kind::CustomEmoji => "CustomEmoji",
        Kind::Blockquote => "BlockQuote",
        _ => "TextUrl",
    }
}

/// Reads the legacy Markdown: no nesting, four special characters.
pub(super) fn parse_legacy(text: &str) -> Parsed {
    let mut reader = Reader::new(text);
    while reader.at < reader.bytes.len() {
        let byte = reader.peek(0);
        if byte == b'\\' && b"_*`[".contains(&reader.peek(1)) {
            reader.at += 1;
            reader.push();
        } else if b"_*`[".contains(&byte) {
            reader.legacy_entity(byte)?;
        } else {
            reader.push();
        }
    }
    reader.finish()
}

impl Reader<'_> {
    fn legacy_entity(&mut self, byte: u8) -> Result<(), String> {
        let begin = self.at;
        let closing = if byte == b'[' { b']' } else { byte };
        self.at += 1;
        let is_pre = byte == b'`' && self.peek(0) == b'`' && self.peek(1) == b'`';
        let mut language = String::new();
        if is_pre {
            self.at += 2;
            language = self.language();
        }
        let (offset, out_begin) = (self.offset, self.out.len());
        let ends = |reader: &Self| {
            reader.peek(0) == closing && (!is_pre || (reader.peek(1) == b'`' && reader.peek(2) == b'`'))
        };
        while self.at < self.bytes.len() && !ends(self) {
            self.push();
        }
        if self.at >= self.bytes.len() {
            return Err(format!("Can't find end of the entity starting at byte offset {begin}"));
        }
        match byte {
            b'_' => self.add(Kind::Italic, offset, Argument::None),
            b'*' => self.add(Kind::Bold, offset, Argument::None),
            b'[' => return self.legacy_link(offset, out_begin),
            _ => {
                let argument =
                    if language.is_empty() { Argument::None } else { Argument::Language(language) };
                self.add(if is_pre { Kind::Pre } else { Kind::Code }, offset, argument);
            }
        }
        self.at += if is_pre { 3 } else { 1 };
        Ok(())
    }

    fn legacy_link(&mut self, offset: usize, out_begin: usize) -> Result<(), String> {
        let mut url = String::from_utf8_lossy(&self.out[out_begin..]).into_owned();
        self.at += 1;
        if self.peek(0) == b'(' {
            let rest = &self.bytes[self.at + 1..];
            let length = memchr::memchr(b')', rest).unwrap_or(rest.len());
            url = String::from_utf8_lossy(&rest[..length]).into_owned();
            self.at += 2 + length;
        }
        if let Some(user) = link_user_id(&url) {
            self.add(Kind::TextMention, offset, Argument::User(user));
        } else if let Some(url) = checked_link(&url) {
            self.add(Kind::TextLink, offset, Argument::Url(url));
        }
        Ok(())
    }
}
