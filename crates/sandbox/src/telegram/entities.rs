//! Entities: the formatting of a text, in UTF-16 units, and what the server does to it before it is shown.
//! `format` is the whole way from a request's text to what a reader sees.

use serde_json::{Map, Value, json};

use super::{detect, html, markdown};

/// The kinds of entities, in the order in which the server nests equal stretches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    ExpandableBlockquote,
    Blockquote,
    TextLink,
    TextMention,
    Pre,
    Code,
    CustomEmoji,
    DateTime,
    Mention,
    Hashtag,
    Cashtag,
    BotCommand,
    Url,
    Email,
    PhoneNumber,
    Bold,
    Italic,
    Underline,
    Strikethrough,
    Spoiler,
}

impl Kind {
    const NAMES: &'static [(Kind, &'static str)] = &[
        (Kind::ExpandableBlockquote, "expandable_blockquote"),
        (Kind::Blockquote, "blockquote"),
        (Kind::TextLink, "text_link"),
        (Kind::TextMention, "text_mention"),
        (Kind::Pre, "pre"),
        (Kind::Code, "code"),
        (Kind::CustomEmoji, "custom_emoji"),
        (Kind::DateTime, "date_time"),
        (Kind::Mention, "mention"),
        (Kind::Hashtag, "hashtag"),
        (Kind::Cashtag, "cashtag"),
        (Kind::BotCommand, "bot_command"),
        (Kind::Url, "url"),
        (Kind::Email, "email"),
        (Kind::PhoneNumber, "phone_number"),
        (Kind::Bold, "bold"),
        (Kind::Italic, "italic"),
        (Kind::Underline, "underline"),
        (Kind::Strikethrough, "strikethrough"),
        (Kind::Spoiler, "spoiler"),
    ];

    pub(super) fn name(self) -> &'static str {
        Kind::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    fn parse(name: &str) -> Option<Kind> {
        Kind::NAMES.iter().find(|(_, own)| *own == name).map(|(kind, _)| *kind)
    }

    /// Bold and its like combine with anything but code; the server merges and splits them freely.
    fn is_splittable(self) -> bool {
        self >= Kind::Bold
    }

    fn is_code(self) -> bool {
        matches!(self, Kind::Pre | Kind::Code)
    }

    fn is_quote(self) -> bool {
        matches!(self, Kind::Blockquote | Kind::ExpandableBlockquote)
    }

    /// Found by the server itself; a client that sends one is ignored.
    fn is_automatic(self) -> bool {
        self >= Kind::Mention && self < Kind::Bold
    }
}

/// What an entity carries besides its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    None,
    Url(String),
    User(i64),
    Language(String),
    Emoji(String),
    Time(i64),
}

/// A stretch of text with a meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entity {
    pub kind: Kind,
    pub offset: usize,
    pub length: usize,
    pub argument: Argument,
}

impl Entity {
    pub(super) fn end(&self) -> usize {
        self.offset + self.length
    }

    fn overlaps(&self, other: &Entity) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }

    /// The Bot API's object.
    pub(super) fn json(&self) -> Value {
        let mut object = json!({ "offset": self.offset, "length": self.length, "type": self.kind.name() });
        match &self.argument {
            Argument::None => {}
            Argument::Url(url) => object["url"] = url.as_str().into(),
            Argument::User(id) => {
                object["user"] = json!({ "id": id, "is_bot": false, "first_name": format!("User {id}") });
            }
            Argument::Language(language) => object["language"] = language.as_str().into(),
            Argument::Emoji(id) => object["custom_emoji_id"] = id.as_str().into(),
            Argument::Time(unix) => object["unix_time"] = (*unix).into(),
        }
        object
    }
}

/// Text as it will be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Formatted {
    pub text: String,
    pub entities: Vec<Entity>,
}

impl Formatted {
    pub(super) fn entities_json(&self) -> Value {
        self.entities.iter().map(Entity::json).collect()
    }
}

/// The server drops entities beyond this without a word.
const ENTITIES_MAX: usize = 100;

/// A request's text before parsing is refused beyond this.
const RAW_BYTES_MAX: usize = 32_768;

/// Parses, checks and completes a text: the way of `text`, `caption` and `quote`.
/// The error is the server's message without its prefix.
pub(super) fn format(text: &str, parse_mode: &str, entities: Option<&Value>) -> Result<Formatted, String> {
    if text.len() > RAW_BYTES_MAX {
        return Err("text is too long".to_owned());
    }
    let wrapped = |error: String| format!("can't parse entities: {error}");
    let (text, entities) = match parse_mode.to_ascii_lowercase().as_str() {
        "" | "none" => (text.to_owned(), entities.map_or(Ok(Vec::new()), |value| given(value, text))?),
        "html" => html::parse(text).map_err(wrapped)?,
        "markdownv2" => markdown::parse_v2(text).map_err(wrapped)?,
        "markdown" => markdown::parse_legacy(text).map_err(wrapped)?,
        _ => return Err("unsupported parse_mode".to_owned()),
    };
    let (text, entities) = cleaned(text, entities);
    let mut formatted = trimmed(Formatted { text, entities: settled(entities) });
    let found = detect::find(&formatted.text);
    merge_found(&mut formatted.entities, found);
    formatted.entities.truncate(ENTITIES_MAX);
    Ok(formatted)
}

/// Entities that came as JSON next to the text.
fn given(value: &Value, text: &str) -> Result<Vec<Entity>, String> {
    let Some(items) = value.as_array() else {
        return Err("can't parse entities: expected an Array of MessageEntity".to_owned());
    };
    let length = text.encode_utf16().count();
    let mut entities = Vec::new();
    for item in items {
        let Some(object) = item.as_object() else {
            return Err("can't parse MessageEntity: expected an Object".to_owned());
        };
        entities.extend(given_one(object, length)?);
    }
    Ok(entities)
}

fn given_one(object: &Map<String, Value>, text_length: usize) -> Result<Option<Entity>, String> {
    let number = |field: &str| {
        let value = object.get(field).and_then(Value::as_i64);
        value.ok_or_else(|| format!("can't parse MessageEntity: Can't find field \"{field}\""))
    };
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (offset, length) = (number("offset")?, number("length")?);
    let Some(kind) = object.get("type").and_then(Value::as_str) else {
        return Err("can't parse MessageEntity: Can't find field \"type\"".to_owned());
    };
    let kind = Kind::parse(kind).ok_or("can't parse MessageEntity: Unsupported type specified")?;
    if offset < 0 || length < 0 || (offset + length) as usize > text_length {
        return Err("ENTITY_BOUNDS_INVALID".to_owned());
    }
    let argument = match kind {
        Kind::TextLink => match checked_link(&text("url")) {
            Some(url) => Argument::Url(url),
            None => return Ok(None),
        },
        Kind::TextMention => {
            Argument::User(object.get("user").and_then(|user| user["id"].as_i64()).unwrap_or(0))
        }
        Kind::Pre if !text("language").is_empty() => Argument::Language(text("language")),
        Kind::CustomEmoji => Argument::Emoji(text("custom_emoji_id")),
        Kind::DateTime => Argument::Time(object.get("unix_time").and_then(Value::as_i64).unwrap_or(0)),
        _ => Argument::None,
    };
    let keep = length > 0 && !kind.is_automatic();
    Ok(keep.then_some(Entity { kind, offset: offset as usize, length: length as usize, argument }))
}

/// Carriage returns and other control characters vanish or become spaces; entities move along.
fn cleaned(text: String, mut entities: Vec<Entity>) -> (String, Vec<Entity>) {
    let odd = |c: char| (c < ' ' && c != '\n') || matches!(c, '\u{7f}' | '\u{2028}' | '\u{2029}');
    if !text.contains(odd) {
        return (text, entities);
    }
    let mut clean = String::with_capacity(text.len());
    let mut removed_at = Vec::new();
    let mut offset = 0;
    for character in text.chars() {
        match character {
            '\r' => removed_at.push(offset),
            odd_one if odd(odd_one) => clean.push(' '),
            other => clean.push(other),
        }
        offset += character.len_utf16();
    }
    let moved = |at: usize| at - removed_at.iter().filter(|removed| **removed < at).count();
    for entity in &mut entities {
        let (begin, end) = (moved(entity.offset), moved(entity.end()));
        (entity.offset, entity.length) = (begin, end - begin);
    }
    entities.retain(|entity| entity.length > 0);
    (clean, entities)
}

/// Sorts, and removes what the server does not allow: anything inside code, quotations inside quotations.
fn settled(entities: Vec<Entity>) -> Vec<Entity> {
    let (splittable, mut fixed): (Vec<Entity>, Vec<Entity>) =
        entities.into_iter().partition(|entity| entity.kind.is_splittable());
    sort(&mut fixed);
    let mut kept: Vec<Entity> = Vec::new();
    for entity in fixed {
        let forbidden = kept.iter().any(|outer| {
            outer.overlaps(&entity)
                && (outer.kind.is_code()
                    || (outer.kind.is_quote() && entity.kind.is_quote())
                    || (!outer.kind.is_quote() && !entity.kind.is_quote())
                    || entity.end() > outer.end())
        });
        if !forbidden {
            kept.push(entity);
        }
    }
    let code: Vec<Entity> = kept.iter().filter(|entity| entity.kind.is_code()).cloned().collect();
    for kind in [Kind::Bold, Kind::Italic, Kind::Underline, Kind::Strikethrough, Kind::Spoiler] {
        kept.extend(united(&splittable, kind, &code));
    }
    sort(&mut kept);
    kept
}

/// Stretches of one splittable kind, joined where they touch and cut out where there is code.
fn united(entities: &[Entity], kind: Kind, code: &[Entity]) -> Vec<Entity> {
    let mut spans: Vec<(usize, usize)> = entities
        .iter()
        .filter(|entity| entity.kind == kind)
        .map(|entity| (entity.offset, entity.end()))
        .collect();
    spans.sort_unstable();
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (begin, end) in spans {
        match joined.last_mut().filter(|last| last.1 >= begin) {
            Some(last) => last.1 = last.1.max(end),
            None => joined.push((begin, end)),
        }
    }
    for block in code {
        joined = joined
            .into_iter()
            .flat_map(|(begin, end)| [(begin, end.min(block.offset)), (begin.max(block.end()), end)])
            .filter(|(begin, end)| begin < end)
            .collect();
        joined.dedup();
    }
    let entity = |(begin, end)| Entity { kind, offset: begin, length: end - begin, argument: Argument::None };
    joined.into_iter().map(entity).collect()
}

fn sort(entities: &mut [Entity]) {
    entities.sort_by(|a, b| a.offset.cmp(&b.offset).then(b.length.cmp(&a.length)).then(a.kind.cmp(&b.kind)));
}

fn is_white(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\t' | '\u{a0}')
}

/// Drops entities that cover nothing but white space.
fn without_blank(formatted: &mut Formatted) {
    if formatted.entities.is_empty() {
        return;
    }
    let mut inked = Vec::new();
    let mut offset = 0;
    for character in formatted.text.chars() {
        if !is_white(character) {
            inked.push(offset);
        }
        offset += character.len_utf16();
    }
    formatted.entities.retain(|entity| {
        let next = inked.partition_point(|at| *at < entity.offset);
        inked.get(next).is_some_and(|at| *at < entity.end())
    });
}

/// White space goes at the end, and at the start up to the first entity.
fn trimmed(mut formatted: Formatted) -> Formatted {
    without_blank(&mut formatted);
    let kept = formatted.text.trim_end_matches(is_white).len();
    formatted.text.truncate(kept);
    let length: usize = formatted.text.chars().map(char::len_utf16).sum();
    for entity in &mut formatted.entities {
        let end = entity.end().min(length);
        entity.length = end.saturating_sub(entity.offset);
    }
    formatted.entities.retain(|entity| entity.length > 0);
    let first_entity = formatted.entities.first().map_or(usize::MAX, |entity| entity.offset);
    // White space characters are one UTF-16 unit each, so counting characters is counting units.
    let leading = formatted.text.chars().take_while(|c| is_white(*c)).take(first_entity).count();
    if leading > 0 {
        formatted.text = formatted.text.chars().skip(leading).collect();
        for entity in &mut formatted.entities {
            entity.offset -= leading;
        }
    }
    formatted
}

/// Adds what the server finds by itself, except inside links and code.
fn merge_found(entities: &mut Vec<Entity>, found: Vec<Entity>) {
    let n_given = entities.len();
    for entity in found {
        let blocked = entities[..n_given].iter().any(|own| {
            let loose = own.kind.is_splittable() || own.kind.is_quote();
            own.overlaps(&entity) && !loose
        });
        if !blocked {
            entities.push(entity);
        }
    }
    sort(entities);
}

/// The user behind `tg://user?id=N`.
pub(super) fn link_user_id(url: &str) -> Option<i64> {
    let id = url.trim().strip_prefix("tg://user?id=").or_else(|| url.trim().strip_prefix("tg:user?id="))?;
    id.parse().ok().filter(|id| *id > 0)
}

/// A link as the server writes it back, or nothing if it is no link: then the text stays without it.
pub(super) fn checked_link(url: &str) -> Option<String> {
    let url = url.trim();
    if url.is_empty() || url.contains(|c: char| c.is_whitespace()) {
        return None;
    }
    let lower = url.to_ascii_lowercase();
    if ["tg://", "ton://", "tonsite://"].iter().any(|scheme| lower.starts_with(scheme)) {
        return Some(url.to_owned());
    }
    let (scheme, rest) = match lower.find("://") {
        Some(at) if matches!(&lower[..at], "http" | "https" | "ftp") => (&lower[..at], &url[at + 3..]),
        Some(_) => return None,
        None => ("http", url),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let name = host.rsplit('@').next().unwrap_or(host).split(':').next().unwrap_or_default();
    let dotted = name.contains('.') && !name.starts_with('.') && !name.ends_with('.');
    if !dotted || name.contains(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))) {
        return None;
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Some(format!("{scheme}://{}{slash}{path}", host.to_lowercase()))
}
