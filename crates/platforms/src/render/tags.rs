//! Reads what a template prints: words with a few tags, the same for every platform.
//!
//! `b strong · i em · u ins · s del strike · code · spoiler · a href · ifcut`, and the entities of HTML's five characters.
//! Anything else is a mistake of the template and is named. One pass, no recursion.

use crate::render::clean::{BODY_MARK, LINK_MARK};
use crate::render::markup::{Href, Role, Run, Style};

/// Tags inside tags.
const DEPTH_MAX: usize = 16;

/// The tags in the words of an error.
const KNOWN: &str = "b, i, u, s, code, spoiler, a and ifcut";

/// Template output to runs. `link` stands where the template printed the source link.
pub fn read(source: &str, link: Option<&str>) -> Result<Vec<Run>, String> {
    let mut reader = Reader { runs: Vec::new(), open: Vec::new(), link };
    let mut rest = source;
    while let Some(at) = rest.find('<') {
        reader.words(&rest[..at]);
        let tag = &rest[at + 1..];
        let end =
            tag.find('>').ok_or_else(|| "a tag is not closed with >; write &lt; for a plain <".to_owned())?;
        reader.tag(&tag[..end])?;
        rest = &tag[end + 1..];
    }
    reader.words(rest);
    match reader.open.pop() {
        Some(tag) => Err(format!("<{}> has no </{}>", tag.name, tag.name)),
        None => Ok(reader.runs),
    }
}

struct Reader<'a> {
    runs: Vec<Run>,
    open: Vec<Tag>,
    link: Option<&'a str>,
}

#[derive(Clone)]
struct Tag {
    name: &'static str,
    href: Option<Href>,
    /// The address is the source link, so the words lead there and are kept.
    source: bool,
}

impl Reader<'_> {
    fn words(&mut self, text: &str) {
        let text = decode(text);
        let mut pieces = text.split(LINK_MARK);
        self.push(pieces.next().unwrap_or_default(), Role::Frame);
        for piece in pieces {
            self.push(self.link.unwrap_or_default(), Role::Source);
            self.push(piece, Role::Frame);
        }
    }

    fn push(&mut self, text: &str, role: Role) {
        if text.is_empty() {
            return;
        }
        let link = self.open.iter().rev().find(|tag| tag.name == "a");
        let role = match role {
            Role::Frame if link.is_some_and(|tag| tag.source) => Role::Source,
            Role::Frame if self.open.iter().any(|tag| tag.name == "ifcut") => Role::IfCut,
            role => role,
        };
        let href = link.and_then(|tag| tag.href.clone());
        self.runs.push(Run { text: text.to_owned(), style: self.style(), href, role });
    }

    fn style(&self) -> Style {
        let on = |name: &str| self.open.iter().any(|tag| tag.name == name);
        Style {
            bold: on("b"),
            italic: on("i"),
            underline: on("u"),
            strike: on("s"),
            spoiler: on("spoiler"),
            code: on("code"),
        }
    }

    fn tag(&mut self, inner: &str) -> Result<(), String> {
        if let Some(name) = inner.strip_prefix('/') {
            return self.close(name.trim());
        }
        if self.open.len() == DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} tags inside each other"));
        }
        let (name, attributes) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
        let name = known(name).ok_or_else(|| unknown(name))?;
        let tag = match name {
            "a" => self.link(attributes.trim())?,
            _ if attributes.trim().is_empty() => Tag { name, href: None, source: false },
            _ => return Err(format!("<{name}> takes no attributes")),
        };
        self.open.push(tag);
        Ok(())
    }

    fn close(&mut self, name: &str) -> Result<(), String> {
        let closed = known(name).ok_or_else(|| unknown(name))?;
        match self.open.pop() {
            Some(tag) if tag.name == closed => Ok(()),
            Some(tag) => Err(format!("</{closed}> stands where </{}> is due", tag.name)),
            None => Err(format!("</{closed}> closes nothing")),
        }
    }

    fn link(&self, attributes: &str) -> Result<Tag, String> {
        let quoted = attributes
            .strip_prefix("href=")
            .and_then(|value| ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q)));
        let address = decode(quoted.ok_or("<a> needs one attribute: href=\"address\"")?);
        if address.contains(BODY_MARK) {
            return Err("the body cannot be an address".to_owned());
        }
        let source = address.contains(LINK_MARK);
        let address = address.replace(LINK_MARK, self.link.unwrap_or_default());
        // An address that is not allowed loses the link, not the words: it may come from a foreign field.
        Ok(Tag { name: "a", href: Href::new(&address), source })
    }
}

fn known(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "b" | "strong" => Some("b"),
        "i" | "em" => Some("i"),
        "u" | "ins" => Some("u"),
        "s" | "del" | "strike" => Some("s"),
        "code" => Some("code"),
        "spoiler" | "tg-spoiler" => Some("spoiler"),
        "a" => Some("a"),
        "ifcut" => Some("ifcut"),
        _ => None,
    }
}

fn unknown(name: &str) -> String {
    let name: String = name.chars().take(20).collect();
    format!("unknown tag <{name}>; known are {KNOWN}; write &lt; for a plain <")
}

/// The five named entities and the numeric ones; anything else stays as it stands.
fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // The longest entity known is &#x10FFFF; so the search for its end is bounded.
        let end = rest.bytes().take(10).position(|byte| byte == b';');
        match end.and_then(|end| Some((entity(rest.get(1..end)?)?, end))) {
            Some((c, end)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let runs = read(source, Some("https://vk.com/wall-1_2"));
        let seen = match runs {
            Ok(runs) => runs.iter().map(show).collect::<Vec<_>>().join(" "),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(seen, expected, "{source}");
    }

    fn show(run: &Run) -> String {
        let mut marks = String::new();
        let style = run.style;
        for (on, mark) in [
            (style.bold, 'b'),
            (style.italic, 'i'),
            (style.underline, 'u'),
            (style.strike, 's'),
            (style.spoiler, 'p'),
            (style.code, 'c'),
            (run.role == Role::Source, '!'),
        ] {
            if on {
                marks.push(mark);
            }
        }
        let href = run.href.as_ref().map(|href| format!("→{}", href.as_str())).unwrap_or_default();
        format!("{marks}[{}{href}]", run.text)
    }

    #[test]
    fn tags_become_styles() {
        check("a <b>b <i>c</i></b> d", "[a ] b[b ] bi[c] [ d]");
        check("<STRONG>x</strong><code>y</code><spoiler>z</spoiler>", "b[x] c[y] p[z]");
        check("1 &lt; 2 &amp;&amp; 3 &#62; &#x32; &nbsp; &", "[1 < 2 && 3 > 2 &nbsp; &]");
    }

    #[test]
    fn links_keep_only_allowed_addresses() {
        check("<a href=\"https://a.org/?x=1&amp;y=2\">t</a>", "[t→https://a.org/?x=1&y=2]");
        check("<a href='javascript:alert(1)'>t</a>", "[t]");
        check("<a href=\"tg://user?id=7\">t</a>", "[t→tg://user?id=7]");
    }

    #[test]
    fn the_source_link_is_marked_as_kept() {
        check("x \u{FDD1}", "[x ] ![https://vk.com/wall-1_2]");
        check("<a href=\"\u{FDD1}\">пост</a>", "![пост→https://vk.com/wall-1_2]");
    }

    #[test]
    fn mistakes_are_named() {
        check(
            "<div>x</div>",
            "error: unknown tag <div>; known are b, i, u, s, code, spoiler, a and ifcut; write &lt; for a plain <",
        );
        check("<b>x", "error: <b> has no </b>");
        check("<b>x</i>", "error: </i> stands where </b> is due");
        check("x</b>", "error: </b> closes nothing");
        check("a < b", "error: a tag is not closed with >; write &lt; for a plain <");
        check("<b class=\"x\">x</b>", "error: <b> takes no attributes");
        check("<a>x</a>", "error: <a> needs one attribute: href=\"address\"");
    }
}
