//! Telephone numbers for people: written in groups, found in a text however it writes them, and taken out of it.

use domain::content::{Post, analyse};

/// Digits of a number that tell it from others, whatever country code or leading 8 it is written with.
const TAIL_DIGITS: usize = 10;
/// Characters that may stand between two digits of one number.
const GAP_MAX: usize = 3;

/// What stands in the place of a number that is not to be called any more.
pub const HIDDEN: &str = "(номер убран)";

/// A number in E.164 in groups: `+7 900 000-11-22`. A country whose habits are not known keeps its digits.
pub fn readable(number: &str) -> String {
    let digits = number.strip_prefix('+').unwrap_or_default();
    let code = match (digits.len(), digits) {
        (11, digits) if digits.starts_with('7') => 1,
        (12, digits) if digits.starts_with("375") || digits.starts_with("380") => 3,
        _ => return number.to_owned(),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.to_owned();
    }
    let (code, rest) = digits.split_at(code);
    let (line, last) = rest.split_at(rest.len() - 4);
    let (area, middle) = line.split_at(line.len() - 3);
    format!("+{code} {area} {middle}-{}-{}", &last[..2], &last[2..])
}

/// Whether the text writes this number out in digits.
pub fn shows(text: &str, number: &str) -> bool {
    !spans(text, number).is_empty()
}

/// The text without these numbers, and without any other that can be called.
pub fn hide(text: &str, numbers: &[String]) -> String {
    let mut found: Vec<(usize, usize)> = numbers.iter().flat_map(|number| spans(text, number)).collect();
    // Words, letters for digits: whatever else the reading of posts takes for a contact.
    let post = Post { text: text.to_owned(), ..Post::default() };
    let read = analyse(&post).facts.phones;
    let evidence = read.iter().flat_map(|phone| &phone.evidence);
    found.extend(evidence.map(|one| with_plus(text, one.span.start as usize, one.span.end as usize)));
    found.sort_unstable();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (start, end) in found {
        if end <= at || text.get(start..end).is_none() {
            continue;
        }
        if start >= at {
            out.push_str(&text[at..start]);
            out.push_str(HIDDEN);
        }
        at = end;
    }
    out.push_str(&text[at..]);
    out
}

fn with_plus(text: &str, start: usize, end: usize) -> (usize, usize) {
    let leads = text.get(..start).is_some_and(|before| before.ends_with('+'));
    (start - usize::from(leads), end)
}

/// Where the digits of a number stand, with what leads it.
fn spans(text: &str, number: &str) -> Vec<(usize, usize)> {
    let digits: Vec<char> = number.chars().filter(char::is_ascii_digit).collect();
    let tail = &digits[digits.len().saturating_sub(TAIL_DIGITS)..];
    // A number of few digits would be found in prices and dates.
    if tail.len() < 6 {
        return Vec::new();
    }
    let code = &digits[..digits.len() - tail.len()];
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        match run(&chars, at, tail) {
            Some(last) => {
                let first = led(&chars, at, code);
                found.push((chars[first].0, chars[last].0 + 1));
                at = last + 1;
            }
            None => at += 1,
        }
    }
    found
}

/// The last character of `digits` written from `at` on, with a few signs between them.
fn run(chars: &[(usize, char)], at: usize, digits: &[char]) -> Option<usize> {
    let (mut at, mut last, mut gap) = (at, None, 0);
    let mut wanted = digits.iter().peekable();
    while let Some(digit) = wanted.peek() {
        match chars.get(at)?.1 {
            c if c == **digit => {
                wanted.next();
                (last, gap) = (Some(at), 0);
            }
            c if last.is_some() && is_gap(c) && gap < GAP_MAX => gap += 1,
            _ => return None,
        }
        at += 1;
    }
    let goes_on = chars.get(at).is_some_and(|(_, c)| c.is_ascii_digit());
    if goes_on { None } else { last }
}

/// Where a number begins that goes on at `at`: `+7 (`, `8-`, or there.
fn led(chars: &[(usize, char)], at: usize, code: &[char]) -> usize {
    let back = |from: usize| (0..from).rev().take(GAP_MAX + 1).find(|index| !is_gap(chars[*index].1));
    let mut first = at;
    let mut before = back(at);
    let is = |index: Option<usize>, c: char| index.is_some_and(|index| chars[index].1 == c);
    if is(before, '8') && code == ['7'] {
        first = before.unwrap_or(first);
    } else {
        for digit in code.iter().rev() {
            if !is(before, *digit) {
                return at;
            }
            first = before.unwrap_or(first);
            before = first.checked_sub(1);
        }
    }
    match first.checked_sub(1) {
        Some(plus) if chars[plus].1 == '+' => plus,
        _ => first,
    }
}

fn is_gap(c: char) -> bool {
    matches!(c, ' ' | '\u{A0}' | '\u{2009}' | '-' | '‑' | '–' | '—' | '(' | ')' | '.' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_groups() {
        assert_eq!(readable("+79000001122"), "+7 900 000-11-22");
        assert_eq!(readable("+375290001122"), "+375 29 000-11-22");
        assert_eq!(readable("+4930123456"), "+4930123456");
        assert_eq!(readable("не номер"), "не номер");
        assert_eq!(readable("+7900000112я"), "+7900000112я");
    }

    #[test]
    fn a_number_is_found_however_it_is_written() {
        for text in [
            "Тел. 89000001122",
            "звоните 8 (900) 000-11-22!",
            "+7 900 000 11 22",
            "+7-900-000-11-22, Анна",
            "900 000-11-22",
            "8.900.000.11.22 8 900 000-33-44",
        ] {
            assert!(shows(text, "+79000001122"), "{text}");
        }
        for text in ["", "8 900 000-11-2", "8 900 000-11-223", "9000001 и ещё 122", "цена 1122"] {
            assert!(!shows(text, "+79000001122"), "{text}");
        }
        assert!(!shows("12", "+12"), "a short one is no number");
    }

    #[test]
    fn a_hidden_number_leaves_no_digit() {
        let numbers = ["+79000001122".to_owned()];
        let check = |text: &str, expected: &str| assert_eq!(hide(text, &numbers), expected);
        check("Тел. 8 (900) 000-11-22, Анна", "Тел. (номер убран), Анна");
        check("+79000001122", "(номер убран)");
        check("Анна 8 900 000-11-22, Пётр +7 900 000-33-44.", "Анна (номер убран), Пётр (номер убран).");
        check("Без номера, дом 22", "Без номера, дом 22");
    }
}
