//! What the server finds in a text without being told: addresses, names, tags, commands, phone numbers.
//! Close to the server's rules, not equal to its tables: of top-level domains only the common ones are known.

use super::entities::{Argument, Entity, Kind};

/// Finds automatic entities that do not overlap, in the order of the text.
pub(super) fn find(text: &str) -> Vec<Entity> {
    // Nearly every plain text has none of these; the check is cheaper than the search.
    if !text.contains(['@', '#', '$', '/', '.', '+']) {
        return Vec::new();
    }
    let characters: Vec<char> = text.chars().collect();
    let mut offsets = Vec::with_capacity(characters.len() + 1);
    let mut offset = 0;
    for character in &characters {
        offsets.push(offset);
        offset += character.len_utf16();
    }
    offsets.push(offset);
    let mut found = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        match recognise(&characters, at) {
            Some((kind, end)) => {
                let (begin, finish) = (offsets[at], offsets[end]);
                found.push(Entity { kind, offset: begin, length: finish - begin, argument: Argument::None });
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

/// What starts at `at`, and where it ends.
fn recognise(text: &[char], at: usize) -> Option<(Kind, usize)> {
    let before = at.checked_sub(1).map(|i| text[i]);
    match text[at] {
        '@' => mention(text, at, before),
        '#' => hashtag(text, at, before),
        '$' => cashtag(text, at, before),
        '/' => command(text, at, before),
        '+' => phone(text, at, before),
        c if c.is_alphanumeric()
            && !before.is_some_and(|b| b.is_alphanumeric() || "@_-./:#$".contains(b)) =>
        {
            email(text, at).or_else(|| url(text, at))
        }
        _ => None,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn run(text: &[char], from: usize, accepts: impl Fn(char) -> bool) -> usize {
    text[from..].iter().position(|c| !accepts(*c)).map_or(text.len(), |n| from + n)
}

fn mention(text: &[char], at: usize, before: Option<char>) -> Option<(Kind, usize)> {
    let end = run(text, at + 1, |c| c.is_ascii_alphanumeric() || c == '_');
    let fits = (3..=32).contains(&(end - at - 1)) && !text.get(end).is_some_and(|c| c.is_alphanumeric());
    (fits && !before.is_some_and(is_word)).then_some((Kind::Mention, end))
}

fn hashtag(text: &[char], at: usize, before: Option<char>) -> Option<(Kind, usize)> {
    let end = run(text, at + 1, |c| is_word(c) || c == '\u{b7}' || c == '\u{200c}');
    let has_letter = text[at + 1..end].iter().any(|c| c.is_alphabetic());
    let bordered = !before.is_some_and(|c| is_word(c) || c == '#' || c == '/') && text.get(end) != Some(&'#');
    (has_letter && end - at - 1 <= 256 && bordered).then_some((Kind::Hashtag, end))
}

fn cashtag(text: &[char], at: usize, before: Option<char>) -> Option<(Kind, usize)> {
    let end = run(text, at + 1, |c| c.is_ascii_uppercase());
    let fits = (1..=8).contains(&(end - at - 1)) && !text.get(end).is_some_and(|c| is_word(*c) || *c == '$');
    (fits && !before.is_some_and(|c| is_word(c) || c == '$')).then_some((Kind::Cashtag, end))
}

fn command(text: &[char], at: usize, before: Option<char>) -> Option<(Kind, usize)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut end = run(text, at + 1, is_name);
    if !(1..=64).contains(&(end - at - 1)) || before.is_some_and(|c| is_word(c) || "/<>@".contains(c)) {
        return None;
    }
    if text.get(end) == Some(&'@') {
        let name_end = run(text, end + 1, is_name);
        end = if name_end - end > 3 { name_end } else { end };
    }
    (!text.get(end).is_some_and(|c| is_word(*c) || "/<>".contains(*c))).then_some((Kind::BotCommand, end))
}

/// An international number: a plus sign, then 10 to 15 digits with the usual separators.
fn phone(text: &[char], at: usize, before: Option<char>) -> Option<(Kind, usize)> {
    if before.is_some_and(is_word) {
        return None;
    }
    let end = run(text, at + 1, |c| c.is_ascii_digit() || " -()\u{a0}".contains(c));
    let last_digit = (at + 1..end).rev().find(|i| text[*i].is_ascii_digit())?;
    let n_digits = text[at..=last_digit].iter().filter(|c| c.is_ascii_digit()).count();
    (10..=15).contains(&n_digits).then_some((Kind::PhoneNumber, last_digit + 1))
}

fn email(text: &[char], at: usize) -> Option<(Kind, usize)> {
    let name_end = run(text, at, |c| c.is_ascii_alphanumeric() || "._+-".contains(c));
    if name_end == at || text.get(name_end) != Some(&'@') {
        return None;
    }
    let end = domain(text, name_end + 1, true)?;
    Some((Kind::Email, end))
}

fn url(text: &[char], at: usize) -> Option<(Kind, usize)> {
    let scheme = ["https://", "http://", "ftp://", "tg://", "tonsite://"].into_iter().find(|scheme| {
        scheme.chars().enumerate().all(|(i, c)| text.get(at + i).is_some_and(|t| t.eq_ignore_ascii_case(&c)))
    });
    let host_begin = at + scheme.map_or(0, str::len);
    let host_end = match scheme {
        Some("tg://") => run(text, host_begin, |c| c.is_ascii_alphanumeric() || c == '-'),
        _ => domain(text, host_begin, scheme.is_none())?,
    };
    if text.get(host_end) == Some(&'@') {
        return None;
    }
    let mut end = host_end;
    if text.get(end) == Some(&':') {
        let port_end = run(text, end + 1, |c| c.is_ascii_digit());
        end = if port_end > end + 1 { port_end } else { end };
    }
    if text.get(end).is_some_and(|c| "/?#".contains(*c)) {
        end = run(text, end, |c| !c.is_whitespace() && !"<>\"«»\u{7f}{}|".contains(c));
    }
    end = without_tail(text, host_end, end);
    Some((Kind::Url, end))
}

/// Punctuation that ends a sentence is not part of an address; nor is a bracket that was not opened in it.
fn without_tail(text: &[char], host_end: usize, mut end: usize) -> usize {
    while end > host_end {
        let last = text[end - 1];
        let opens = text[host_end..end].iter().filter(|c| **c == '(').count();
        let closes = text[host_end..end].iter().filter(|c| **c == ')').count();
        if ".,;:!?'`…".contains(last) || (last == ')' && closes > opens) {
            end -= 1;
        } else {
            break;
        }
    }
    end
}

/// Top-level domains that make an address without a scheme.
const TOP_LEVEL: &[&str] = &[
    "ai",
    "app",
    "biz",
    "blog",
    "by",
    "cc",
    "center",
    "ch",
    "city",
    "cloud",
    "club",
    "co",
    "com",
    "cz",
    "de",
    "dev",
    "digital",
    "edu",
    "es",
    "eu",
    "fm",
    "fr",
    "fun",
    "gg",
    "gov",
    "help",
    "icu",
    "info",
    "int",
    "io",
    "it",
    "kg",
    "kz",
    "life",
    "link",
    "live",
    "ly",
    "me",
    "media",
    "mobi",
    "moscow",
    "net",
    "news",
    "nl",
    "online",
    "org",
    "page",
    "pet",
    "pl",
    "pro",
    "ru",
    "shop",
    "site",
    "space",
    "store",
    "su",
    "tech",
    "tj",
    "tk",
    "to",
    "today",
    "top",
    "tv",
    "ua",
    "uk",
    "us",
    "uz",
    "vip",
    "website",
    "wiki",
    "work",
    "world",
    "ws",
    "xyz",
    "дети",
    "москва",
    "онлайн",
    "рус",
    "рф",
    "сайт",
];

/// The end of a dotted host name.
fn domain(text: &[char], from: usize, known_only: bool) -> Option<usize> {
    let mut end = run(text, from, |c| c.is_alphanumeric() || c == '-' || c == '.' || c == '_');
    while end > from && matches!(text[end - 1], '.' | '-') {
        end -= 1;
    }
    let host: String = text[from..end].iter().collect();
    let top = host.rsplit_once('.')?.1.to_lowercase();
    let labels_fit = host.split('.').all(|label| !label.is_empty() && label.chars().count() <= 63);
    let is_number = top.chars().all(|c| c.is_ascii_digit());
    let known =
        if known_only { TOP_LEVEL.contains(&top.as_str()) } else { is_number || top.chars().count() >= 2 };
    (labels_fit && known).then_some(end)
}
