//! A channel's template: what a post looks like, in the operator's words.
//!
//! The language is minijinja with an instruction budget, and only the parts of it that cannot make memory grow
//! faster than the template: `if`, `for`, printing, comparisons, and four filters of our own.
//! Every printed value is escaped; the output is read by `tags`. It knows no platform and no length limits.

use domain::message::{Message, Pet};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, UndefinedBehavior, context};

use crate::part::RenderError;
use crate::render::clean::{self, BODY_MARK, LINK_MARK};
use crate::render::heading::{self, Heading, heading};
use crate::render::markup::Run;
use crate::render::phones;
use crate::render::tags;

/// What a post looks like unless its channel says otherwise.
pub const DEFAULT: &str = "\
{% if title %}
{% if icon %}{{ icon }} {% endif %}<b>{{ heading }}</b>

{% endif %}
{% if was and markup %}
<s>{{ was }}</s>

<s>{{ body }}</s>

{% elif was %}
Поиск закончен, звонить не нужно. Текст объявления:

{{ was }}
{{ body }}

{% else %}
{{ body }}

{% for link in links %}
▶️ {{ link }}
{% endfor %}
{% if numbers %}
📞 {{ numbers|join(', ') }}
{% endif %}
{% if numbers_said %}
<ifcut>📞 {{ numbers_said|join(', ') }}</ifcut>
{% endif %}
{% if where %}
📍 {{ where }}
{% endif %}
{% endif %}
{% if url %}
🔗 {{ url }}
{% endif %}
";

/// Instructions one rendering may use; the default template needs about fifty.
const FUEL_MAX: u64 = 20_000;
/// Bytes of a template.
const SOURCE_BYTES_MAX: usize = 16 * 1024;
/// Bytes a template may print; the body is put in afterwards.
const OUTPUT_BYTES_MAX: usize = 128 * 1024;
/// How often the source link may be printed.
const LINKS_MAX: usize = 8;
/// Phones, tags and links offered to a template.
const LIST_MAX: usize = 20;

/// What of a message the frame needs besides its body.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    pub message: &'a Message,
    /// Whether bold and struck words are shown as such.
    pub markup: bool,
    /// The body as it will be put in; asked for the numbers that it shows.
    pub body: &'a str,
    pub has_body: bool,
    pub source_link: Option<&'a str>,
    /// Pages of media that cannot be sent as bytes.
    pub media_pages: &'a [String],
    pub media_count: usize,
}

/// Runs of the frame; the body's place is marked with `BODY_MARK`.
pub fn frame(source: Option<&str>, fields: &Fields<'_>) -> Result<Vec<Run>, RenderError> {
    let source = source.unwrap_or(DEFAULT);
    let broken = |reason: String| RenderError::Template { reason };
    check_source(source).map_err(broken)?;
    let printed = print(source, fields).map_err(|error| broken(describe(&error)))?;
    if printed.matches(BODY_MARK).count() > 1 {
        return Err(broken("the body is printed more than once".to_owned()));
    }
    if printed.matches(LINK_MARK).count() > LINKS_MAX {
        return Err(broken(format!("the source link is printed more than {LINKS_MAX} times")));
    }
    tags::read(&printed, fields.source_link).map_err(broken)
}

/// Whether a template can be used at all: for `rupor apply`, before a post depends on it.
pub fn check(source: &str) -> Result<(), RenderError> {
    let message = Message {
        kind: "lost".into(),
        text: "text".into(),
        phones: vec!["+70000000000".into()],
        city: Some("city".into()),
        place: Some("place".into()),
        tags: vec!["tag".into()],
        ..Message::default()
    };
    let pages = ["https://example.org/video".to_owned()];
    for (message, has_body, source_link) in
        [(&message, true, Some("https://example.org/post")), (&Message::default(), false, None)]
    {
        let media_pages = if has_body { &pages[..] } else { &[] };
        for (markup, was) in [(true, ""), (false, ""), (true, "lost"), (false, "lost")] {
            let message = &Message { was: was.into(), ..message.clone() };
            let body = message.text.as_str();
            let fields = Fields { message, markup, body, has_body, source_link, media_pages, media_count: 0 };
            frame(Some(source), &fields)?;
        }
    }
    Ok(())
}

fn print(source: &str, fields: &Fields<'_>) -> Result<String, Error> {
    let mut environment = Environment::empty();
    environment.set_fuel(Some(FUEL_MAX));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(print_escaped);
    // Statements on lines of their own leave no empty lines.
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_filter("join", join);
    environment.add_filter("upper", |text: &str| text.to_uppercase());
    environment.add_filter("lower", |text: &str| text.to_lowercase());
    environment.add_filter("length", |value: &Value| value.len());
    let mut out = Bounded { bytes: Vec::new() };
    environment.template_from_str(source)?.render_captured_to(values(fields), &mut out)?;
    Ok(String::from_utf8_lossy(&out.bytes).into_owned())
}

/// The vocabulary of templates; docs/platforms/templates.md explains it.
fn values(fields: &Fields<'_>) -> Value {
    let message = fields.message;
    let ended = !message.was.is_empty();
    let pet = message.pet.as_ref().map(clean_pet);
    let own = message.title.as_deref().map(clean::field).filter(|title| !title.is_empty());
    let told = heading(if ended { &message.was } else { &message.kind }, pet.as_ref());
    let told = Heading { words: own.unwrap_or(told.words), ..told };
    let (icon, title) = match ended {
        true => (heading::CLOSED.0, heading::CLOSED.1.to_owned()),
        false => (told.icon, told.words.clone()),
    };
    let pet = pet.unwrap_or_default();
    let list = |items: &[String]| -> Vec<String> {
        items.iter().take(LIST_MAX).map(|item| clean::field(item)).filter(|item| !item.is_empty()).collect()
    };
    let one = |item: &Option<String>| item.as_deref().map(clean::field).unwrap_or_default();
    let (city, place) = (one(&message.city), one(&message.place));
    let whereabouts: Vec<&str> =
        [city.as_str(), place.as_str()].into_iter().filter(|w| !w.is_empty()).collect();
    let mark = |present: bool, mark: char| if present { mark.to_string() } else { String::new() };
    let origin = message.origin.clone().unwrap_or_default();
    let phones = if ended { Vec::new() } else { list(&message.phones) };
    let (said, unsaid): (Vec<&String>, Vec<&String>) =
        phones.iter().partition(|phone| phones::shows(fields.body, phone));
    let readable =
        |phones: &[&String]| phones.iter().map(|phone| phones::readable(phone)).collect::<Vec<_>>();
    context! {
        kind => clean::field(&message.kind),
        icon => icon,
        // Where nothing can be bold, capitals stand out. An address would break.
        heading => if fields.markup || title.contains("://") { title.clone() } else { title.to_uppercase() },
        title => title,
        was => if ended { format!("{} {}", told.icon, told.words).trim().to_owned() } else { String::new() },
        markup => fields.markup,
        animal => pet.animal,
        sex => pet.sex,
        pet_name => pet.name,
        body => mark(fields.has_body, BODY_MARK),
        numbers => readable(&unsaid),
        numbers_said => readable(&said),
        phones => phones,
        where => whereabouts.join(", "),
        city => city,
        place => place,
        tags => list(&message.tags),
        url => mark(fields.source_link.is_some(), LINK_MARK),
        links => fields.media_pages.iter().take(LIST_MAX).cloned().collect::<Vec<_>>(),
        media_count => fields.media_count,
        source => clean::field(&origin.source),
        owner_id => origin.owner_id,
        post_id => origin.post_id,
    }
}

/// The words of a pet as fields of one line.
fn clean_pet(pet: &Pet) -> Pet {
    Pet { name: clean::field(&pet.name), ..pet.clone() }
}

/// Prints words and numbers, escaped; lists have to be joined, so that nothing grows unseen.
fn print_escaped(out: &mut Output<'_>, _state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => {
            return Err(Error::new(ErrorKind::UndefinedError, "no such value"));
        }
        ValueKind::None => {}
        ValueKind::String => {
            let escaped = value.as_str().unwrap_or_default();
            let escaped = escaped
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&quot;");
            out.write_str(&escaped)?;
        }
        ValueKind::Bool | ValueKind::Number => out.write_str(&value.to_string())?,
        kind => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("a {kind} cannot be printed; use join"),
            ));
        }
    }
    Ok(())
}

fn join(list: &Value, separator: &str) -> Result<String, Error> {
    if list.kind() != ValueKind::Seq {
        return Err(Error::new(ErrorKind::InvalidOperation, "join needs a list"));
    }
    let mut out = String::new();
    for (index, item) in list.try_iter()?.enumerate() {
        let word = item
            .as_str()
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "join needs a list of words"))?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(word);
        if out.len() > OUTPUT_BYTES_MAX {
            return Err(Error::new(ErrorKind::InvalidOperation, "join makes too long a text"));
        }
    }
    Ok(out)
}

/// Refuses what could grow memory past the fuel, or print without escaping.
fn check_source(source: &str) -> Result<(), String> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(format!("{} bytes long, {SOURCE_BYTES_MAX} at most", source.len()));
    }
    if source.contains([BODY_MARK, LINK_MARK]) {
        return Err("contains a character that is reserved".to_owned());
    }
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        rest = &rest[at + 1..];
        let (inner, end) = match rest.as_bytes().first() {
            Some(b'{') => (&rest[1..], "}}"),
            Some(b'%') => (&rest[1..], "%}"),
            Some(b'#') => {
                rest = rest.split_once("#}").map_or("", |(_, after)| after);
                continue;
            }
            _ => continue,
        };
        let (code, after) = until(inner, end);
        rest = after;
        if end == "%}" {
            check_statement(code)?;
        }
        check_expression(code)?;
    }
    Ok(())
}

/// The code up to its end mark, quotes respected, and what follows.
fn until<'a>(inner: &'a str, end: &str) -> (&'a str, &'a str) {
    let mut quote = None;
    for (at, c) in inner.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if inner[at..].starts_with(end) => return (&inner[..at], &inner[at + end.len()..]),
            None => {}
        }
    }
    (inner, "")
}

fn check_statement(code: &str) -> Result<(), String> {
    let code = code.trim_start_matches('-').trim_start();
    let word = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    match word {
        "if" | "elif" | "else" | "endif" | "for" | "endfor" => Ok(()),
        word => Err(format!("{{% {word} %}} is not available; there are if and for")),
    }
}

fn check_expression(code: &str) -> Result<(), String> {
    let mut quote = None;
    for c in code.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) if c == '\\' => return Err("\\ inside quotes is not available".to_owned()),
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if "~*+".contains(c) => {
                return Err(format!(
                    "the operator {c} is not available; print the pieces one after the other"
                ));
            }
            None => {}
        }
    }
    if code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == "recursive") {
        return Err("recursive loops are not available".to_owned());
    }
    Ok(())
}

fn describe(error: &Error) -> String {
    // The lid of the output is the only thing that can fail to be written to.
    if error.kind() == ErrorKind::WriteFailure {
        return format!("prints more than {OUTPUT_BYTES_MAX} bytes");
    }
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    format!("{}{detail}{line}", error.kind())
}

/// Output with a lid.
struct Bounded {
    bytes: Vec<u8>,
}

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > OUTPUT_BYTES_MAX {
            return Err(std::io::Error::other("full"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
