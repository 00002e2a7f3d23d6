//! Styled words, and the trait by which a platform writes them.
//!
//! Words become markup only here and in the dialects: a run holds plain text, a dialect escapes every character
//! of it, so that escaping cannot be forgotten and a cut can never break a tag. It knows no limits: see `fit`.

use std::sync::Arc;

use crate::part::{Fitted, Markup};

/// A stretch of words in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub text: String,
    pub style: Style,
    pub href: Option<Href>,
    pub role: Role,
}

impl Run {
    pub fn plain(text: impl Into<String>, role: Role) -> Run {
        Run { text: text.into(), style: Style::default(), href: None, role }
    }

    /// The same run with other words.
    pub fn with_text(&self, text: impl Into<String>) -> Run {
        Run { text: text.into(), ..self.clone() }
    }
}

/// What a run is for: decides what a cut takes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Words of the template: cut when the body is used up.
    Frame,
    /// Words of the message: cut first.
    Body,
    /// The source link: never cut.
    Source,
    /// Words of the template for the case that the body is cut; otherwise they are left out.
    IfCut,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Style {
    pub bold: bool,
    pub italic: bool,
    pub underline: bool,
    pub strike: bool,
    pub spoiler: bool,
    /// Excludes every other style: no platform takes them together.
    pub code: bool,
}

/// A link whose scheme is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Href(Arc<str>);

/// What links may begin with: the web, and the addresses that only the operator's template can hold.
const SCHEMES: [&str; 2] = ["tg://", "max://"];

impl Href {
    pub fn new(address: &str) -> Option<Href> {
        let own = SCHEMES.iter().any(|scheme| {
            address.len() <= domain::message::URL_BYTES_MAX
                && address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
                && !address.contains(|c: char| c.is_whitespace() || c.is_control() || "<>\"`".contains(c))
        });
        (own || domain::message::is_web_address(address)).then(|| Href(address.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How a platform writes styled words.
pub trait Dialect: Sync + std::fmt::Debug {
    fn markup(&self) -> Markup;

    /// Writes one character of words so that it is read back as that character.
    fn escape(&self, c: char, style: Style, out: &mut String);

    /// What stands before and after the words of a run.
    fn marks(&self, run: &Run) -> (String, String);

    /// Writes a run after what is already there.
    fn write_run(&self, run: &Run, out: &mut String) {
        let (open, close) = self.marks(run);
        out.push_str(&open);
        run.text.chars().for_each(|c| self.escape(c, run.style, out));
        out.push_str(&close);
    }
}

/// The wire text of some runs.
pub fn write(dialect: &dyn Dialect, runs: &[Run]) -> Fitted {
    let mut out = String::with_capacity(runs.iter().map(|run| run.text.len() + 16).sum());
    runs.iter().filter(|run| !run.text.is_empty()).for_each(|run| dialect.write_run(run, &mut out));
    Fitted::marked(out, dialect.markup())
}

/// No markup at all; a link shows its address after its words.
#[derive(Debug)]
pub struct Plain;

impl Dialect for Plain {
    fn markup(&self) -> Markup {
        Markup::Plain
    }

    fn escape(&self, c: char, _style: Style, out: &mut String) {
        out.push(c);
    }

    fn marks(&self, _run: &Run) -> (String, String) {
        (String::new(), String::new())
    }
}

/// Links written out as `words (address)`, for platforms and modes without markup.
pub fn spell_out_links(runs: Vec<Run>) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::with_capacity(runs.len());
    let mut runs = runs.into_iter().peekable();
    while let Some(mut run) = runs.next() {
        let Some(href) = run.href.take() else {
            out.push(run);
            continue;
        };
        let (role, style) = (run.role, run.style);
        let same_address = run.text.trim() == href.as_str();
        out.push(run);
        // Several runs of one link share its address; it is written once, after the last of them.
        let goes_on = runs.peek().is_some_and(|next| next.href.as_ref() == Some(&href));
        if !same_address && !goes_on {
            out.push(Run { text: format!(" ({})", href.as_str()), style, href: None, role });
        }
    }
    out
}

/// HTML as Telegram and MAX read it. They differ in the spoiler alone.
#[derive(Debug)]
pub struct Html {
    pub spoiler: Option<&'static str>,
}

impl Dialect for Html {
    fn markup(&self) -> Markup {
        Markup::Html
    }

    fn escape(&self, c: char, _style: Style, out: &mut String) {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }

    fn marks(&self, run: &Run) -> (String, String) {
        let style = run.style;
        let (mut open, mut tags) = (String::new(), Vec::new());
        if let Some(href) = run.href.as_ref().filter(|_| !style.code) {
            open.push_str("<a href=\"");
            href.as_str().chars().for_each(|c| self.escape(c, style, &mut open));
            open.push_str("\">");
            tags.push("a");
        }
        let styles = [
            (style.bold && !style.code, Some("b")),
            (style.italic && !style.code, Some("i")),
            (style.underline && !style.code, Some("u")),
            (style.strike && !style.code, Some("s")),
            (style.spoiler && !style.code, self.spoiler),
            (style.code, Some("code")),
        ];
        for tag in styles.into_iter().filter(|(on, _)| *on).filter_map(|(_, tag)| tag) {
            open.push('<');
            open.push_str(tag);
            open.push('>');
            tags.push(tag);
        }
        let close = tags.iter().rev().map(|tag| format!("</{tag}>")).collect();
        (open, close)
    }
}
