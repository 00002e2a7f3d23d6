//! The Markdown of MAX: CommonMark 0.29 with `++` for underline (docs/platforms/max.md).
//!
//! CommonMark decides by the neighbours whether `**` opens or closes. Marks are therefore set only around a
//! stretch that begins and ends with a letter or digit; what stands outside keeps its words and loses the style.

use crate::part::Markup;
use crate::render::markup::{Dialect, Role, Run, Style};
use crate::render::mentions::WORD_JOINER;

#[derive(Debug)]
pub(crate) struct Markdown;

/// Everything that begins a construct somewhere.
const RESERVED: &str = "_*[]()~`<>#+-=|{}.!\\^&";

impl Dialect for Markdown {
    fn markup(&self) -> Markup {
        Markup::Markdown
    }

    fn escape(&self, c: char, style: Style, out: &mut String) {
        match c {
            // Inside code a backslash is a backslash, so the fence cannot be escaped.
            '`' if style.code => out.push('\''),
            c if style.code => out.push(c),
            c if RESERVED.contains(c) => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }

    fn marks(&self, run: &Run) -> (String, String) {
        let (mut open, mut close) = style_marks(run.style);
        if let Some(address) = address(run) {
            open.insert(0, '[');
            close.push_str("](");
            for c in address.chars() {
                if "()\\".contains(c) {
                    close.push('\\');
                }
                close.push(c);
            }
            close.push(')');
        }
        (open, close)
    }

    fn write_run(&self, run: &Run, out: &mut String) {
        let (open, close) = self.marks(run);
        if open.is_empty() {
            run.text.chars().for_each(|c| self.escape(c, run.style, out));
            return;
        }
        // Marks that touch the marks of the run before would be read together with them.
        if out.ends_with(['*', '~', '+', '`']) {
            out.push(WORD_JOINER);
        }
        self.write_marked(run, (&open, &close), out);
    }
}

impl Markdown {
    fn write_marked(&self, run: &Run, marks: (&str, &str), out: &mut String) {
        let (text, style) = (run.text.as_str(), run.style);
        let is_free = style.code || address(run).is_some();
        let is_inner = |c: char| if is_free { !c.is_whitespace() } else { c.is_alphanumeric() };
        let plain =
            |text: &str, out: &mut String| text.chars().for_each(|c| self.escape(c, Style::default(), out));
        let Some((start, last)) = text.find(is_inner).zip(text.rfind(is_inner)) else {
            plain(text, out);
            return;
        };
        let end = last + text[last..].chars().next().map_or(0, char::len_utf8);
        let inner = &text[start..end];
        let (open, close) = if style.code || (inner.starts_with(is_letter) && inner.ends_with(is_letter)) {
            marks
        } else {
            // A link keeps its brackets; the style of its words would not be read.
            let (style_open, style_close) = style_marks(style);
            (
                marks.0.strip_suffix(style_open.as_str()).unwrap_or(marks.0),
                marks.1.strip_prefix(style_close.as_str()).unwrap_or(marks.1),
            )
        };
        plain(&text[..start], out);
        out.push_str(open);
        inner.chars().for_each(|c| self.escape(c, style, out));
        out.push_str(close);
        plain(&text[end..], out);
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric()
}

/// Styled runs line by line: marks are set within a line, and each is paid for.
pub(crate) fn by_line(runs: Vec<Run>) -> Vec<Run> {
    let mut out = Vec::with_capacity(runs.len());
    for run in runs {
        if run.href.is_none() && run.style == Style::default() {
            out.push(run);
            continue;
        }
        for line in run.text.split_inclusive('\n') {
            let words = line.strip_suffix('\n').unwrap_or(line);
            out.push(run.with_text(words));
            if words.len() < line.len() {
                out.push(Run::plain("\n", run.role));
            }
        }
    }
    out.retain(|run| !run.text.is_empty());
    out
}

/// Where a run leads. The source link is written as a link, because its escaped words are none to the server.
fn address(run: &Run) -> Option<&str> {
    match (&run.href, run.role) {
        _ if run.style.code => None,
        (Some(href), _) => Some(href.as_str()),
        (None, Role::Source) => Some(run.text.as_str()),
        (None, _) => None,
    }
}

fn style_marks(style: Style) -> (String, String) {
    if style.code {
        return ("`".to_owned(), "`".to_owned());
    }
    let styles = [(style.underline, "++"), (style.strike, "~~"), (style.bold, "**"), (style.italic, "*")];
    let on: Vec<&str> = styles.into_iter().filter(|(on, _)| *on).map(|(_, mark)| mark).collect();
    (on.concat(), on.iter().rev().copied().collect())
}
