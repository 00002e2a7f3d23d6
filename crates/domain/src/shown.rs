//! Foreign text on its way to a terminal, a log or a page of ours.
//!
//! Names, posts and answers are written by strangers. A control character among them moves the cursor, a line end
//! forges a line of the log, a mark of direction turns what stands beside it around, and an address may carry a key.
//! Whoever prints uses these functions; they know nothing of where it is printed.

use std::borrow::Cow;

/// Characters of a title.
const TITLE_MAX: usize = 100;
/// What stands in place of a secret.
pub const MASK: &str = "***";

/// Text that stays on its line: line ends are shown as `\n`.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) || matches!(c, '\n' | '\t'))
}

/// Text of several lines, or JSON: line ends stay, all else that is not seen is shown. Inside JSON the result means the
/// same as before.
pub fn page(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// A name as a shell takes it. One with characters that cannot be seen has to be given by its id instead.
pub fn quoted(name: &str) -> String {
    let name = &*line(name);
    let plain = |c: char| c.is_alphanumeric() || "-_./@:".contains(c);
    match !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

/// What strangers call their place, as one line that fits beside others; `None`: nothing is left of it.
pub fn title(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || is_hidden(c)).filter(|word| !word.is_empty());
    let title: String = words.collect::<Vec<_>>().join(" ").chars().take(TITLE_MAX).collect();
    (!title.is_empty()).then(|| masked(&title))
}

/// Characters that act instead of being seen: controls, separators of lines, marks of direction.
fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{feff}')
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if hidden(c) => shown.push_str("\\n"),
            '\t' if hidden(c) => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            // The form that JSON knows too.
            c if hidden(c) => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Digits of anything that may be a phone number, all but the last two, become dots.
pub fn masked(text: &str) -> String {
    const DIGITS_MIN: usize = 7;
    // Dates have full stops and eight digits.
    const DIGITS_MIN_DOTTED: usize = 10;
    let is_part = |c: char| c.is_ascii_digit() || " -–—()+.\u{a0}".contains(c);
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let starts = characters[at].is_ascii_digit() || characters[at] == '+';
        let run = characters[at..].iter().take_while(|c| starts && is_part(**c)).count();
        let digits = characters[at..at + run].iter().filter(|c| c.is_ascii_digit()).count();
        let dotted = characters[at..at + run].contains(&'.');
        if digits < if dotted { DIGITS_MIN_DOTTED } else { DIGITS_MIN } {
            let step = run.max(1);
            out.extend(&characters[at..at + step]);
            at += step;
            continue;
        }
        let mut left = digits;
        for character in &characters[at..at + run] {
            if !character.is_ascii_digit() {
                out.push(*character);
                continue;
            }
            out.push(if left > 2 { '•' } else { *character });
            left -= 1;
        }
        at += run;
    }
    out
}

/// An address without what opens doors: who logs in, values of keys, and long random words.
pub fn address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, after)| (rest, Some(after)));
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let mut shown = if scheme.is_empty() { host } else { format!("{scheme}://{host}") };
    let segments: Vec<&str> =
        path.split('/').map(|segment| if is_random(segment) { MASK } else { segment }).collect();
    shown.push_str(&segments.join("/"));
    for (mark, pairs) in [('?', query), ('#', fragment)] {
        if let Some(pairs) = pairs {
            let pairs: Vec<String> = pairs.split('&').map(pair).collect();
            shown.push(mark);
            shown.push_str(&pairs.join("&"));
        }
    }
    line(&shown).into_owned()
}

/// Every address inside a text as `address` shows it.
pub fn addresses(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '(' | ')' | '`' | '«' | '»');
    let words = text.split_inclusive(is_end).map(|word| {
        let (word, end) = word.split_at(word.find(is_end).unwrap_or(word.len()));
        let plain = word.trim_end_matches([',', ';', ':', '.']);
        match plain.contains("://") {
            true => format!("{}{}{end}", address(plain), &word[plain.len()..]),
            false => format!("{word}{end}"),
        }
    });
    Cow::Owned(words.collect())
}

fn pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() && (is_key(name) || is_random(value)) => {
            format!("{name}={MASK}")
        }
        None if is_random(pair) => MASK.to_owned(),
        _ => pair.to_owned(),
    }
}

/// Names under which services hand out keys.
fn is_key(name: &str) -> bool {
    const PARTS: [&str; 12] = [
        "key",
        "token",
        "secret",
        "pass",
        "pwd",
        "auth",
        "sig",
        "hash",
        "session",
        "sid",
        "credential",
        "code",
    ];
    let name = name.to_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}

/// A long word that nobody chose: letters and digits mixed, without the hyphens of a title.
fn is_random(text: &str) -> bool {
    let hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    if text.len() >= 32 && text.chars().all(hex) {
        return true;
    }
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        let has = |kind: fn(&u8) -> bool| word.bytes().any(|byte| kind(&byte));
        (word.len() >= 16 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic))
            || (word.len() >= 24 && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_instead() {
        assert_eq!(line("Пропал кот 👩‍👩‍👧"), "Пропал кот 👩‍👩‍👧");
        assert_eq!(line("a\u{1b}[2Jb\r\nERROR\tc"), r"a\u001b[2Jb\r\nERROR\tc");
        assert_eq!(line("\u{202e}txt.exe\u{9b}31m\u{2028}\u{7f}"), r"\u202etxt.exe\u009b31m\u2028\u007f");
        assert_eq!(page("a\n\tb\r\u{7}"), "a\n\tb\\r\\u0007");
    }

    #[test]
    fn json_means_the_same_when_it_is_shown() {
        let value = serde_json::json!({"имя\u{202e}": "a\u{9b}\u{2028}\n\u{1b}б"});
        let text = value.to_string();
        let shown = page(&text);
        assert!(shown.contains(r"\u202e") && !shown.contains('\u{9b}'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn keys_in_addresses_are_masked_and_the_rest_stays() {
        for (url, shown) in [
            ("https://news.example/rss?city=12", "https://news.example/rss?city=12"),
            ("https://u:p@news.example:8080/rss", "https://***@news.example:8080/rss"),
            ("https://a.example/f?api_key=abc&x=1#t", "https://a.example/f?api_key=***&x=1#t"),
            ("https://a.example/p/9f8e7d6c5b4a39281/rss.xml", "https://a.example/p/***/rss.xml"),
            (
                "https://a.example/2026/11/lost-dog-rex-in-omsk",
                "https://a.example/2026/11/lost-dog-rex-in-omsk",
            ),
            ("https://a.example/f?u=AbCdEfGhIjKlMnOpQrStUvWxYz", "https://a.example/f?u=***"),
            ("https://a.example/3d813cbb-47fb-32ba-91df-831e1593ac29", "https://a.example/***"),
            ("socks5://user@10.0.0.1:1080", "socks5://***@10.0.0.1:1080"),
            ("https://пример.рф/лента?токен", "https://пример.рф/лента?токен"),
            ("https://a.example/\u{1b}[2J", r"https://a.example/\u001b[2J"),
        ] {
            assert_eq!(address(url), shown);
        }
    }

    #[test]
    fn addresses_inside_a_sentence_are_masked_where_they_stand() {
        assert_eq!(
            addresses("GET \"https://a.example/f?token=abc\": 404, see https://u:p@b.example/."),
            "GET \"https://a.example/f?token=***\": 404, see https://***@b.example/."
        );
        assert!(matches!(addresses("no address"), Cow::Borrowed(_)));
    }
}
