//! MarkdownV2 as the Bot API reads it (docs/platforms/telegram.md).

use crate::part::Markup;
use crate::render::markup::{Dialect, Run, Style};

#[derive(Debug)]
pub(crate) struct MarkdownV2;

/// Reserved in plain words; the backslash itself as well.
const RESERVED: &str = "_*[]()~`>#+-=|{}.!\\";

/// An empty bold: keeps `_` and `__` apart, which the server reads greedily.
const SEAM: &str = "**";

impl Dialect for MarkdownV2 {
    fn markup(&self) -> Markup {
        Markup::MarkdownV2
    }

    fn escape(&self, c: char, style: Style, out: &mut String) {
        let is_reserved = if style.code { c == '`' || c == '\\' } else { RESERVED.contains(c) };
        if is_reserved {
            out.push('\\');
        }
        out.push(c);
    }

    fn marks(&self, run: &Run) -> (String, String) {
        let style = run.style;
        if style.code {
            return ("`".to_owned(), "`".to_owned());
        }
        let styles = [
            (style.bold, "*"),
            (style.strike, "~"),
            (style.spoiler, "||"),
            (style.underline, "__"),
            (style.italic, "_"),
        ];
        let on: Vec<&str> = styles.into_iter().filter(|(on, _)| *on).map(|(_, mark)| mark).collect();
        let (mut open, mut close) = (on.concat(), String::new());
        for mark in on.iter().rev() {
            if close.ends_with('_') && mark.starts_with('_') {
                close.push_str(SEAM);
            }
            close.push_str(mark);
        }
        if let Some(href) = &run.href {
            open.insert(0, '[');
            close.push_str("](");
            for c in href.as_str().chars() {
                if c == ')' || c == '\\' {
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
        if out.ends_with('_') && open.starts_with('_') {
            out.push_str(SEAM);
        }
        out.push_str(&open);
        run.text.chars().for_each(|c| self.escape(c, run.style, out));
        out.push_str(&close);
    }
}
