//! Telephone numbers in every spelling in use, as E.164; cards and numbers for money only are left out.
//! Reads runs of digits and numerals; must not know what the post is about.

use crate::content::lexicon::{Group, lexicon};
use crate::content::normalise::EMOJI;
use crate::content::tokens::{Gap, Reading};
use crate::content::{Fact, Phone};

/// What the numbers of a post are: contacts, and whether money is asked for.
#[derive(Debug, Default)]
pub struct Numbers {
    pub phones: Vec<Fact<Phone>>,
    /// Token ranges of every telephone number, contacts or not; cleaning removes them.
    pub spans: Vec<(usize, usize)>,
    /// The first token of a payment card number.
    pub cards: Vec<usize>,
    /// Numbers given for transfers only.
    pub money: Vec<(usize, usize)>,
}

/// Words looked at on either side of a number to tell a contact from a purse.
const CONTEXT_WORDS: usize = 12;

struct Item {
    first: usize,
    last: usize,
    digits: String,
    /// Spelled in words, where commas may separate.
    worded: bool,
}

pub(super) fn numbers(reading: &Reading<'_>) -> Numbers {
    let mut numbers = Numbers::default();
    let mut found: Vec<(String, usize, usize)> = Vec::new();
    let mut run: Vec<Item> = Vec::new();
    let mut index = 0;
    while index < reading.tokens.len() {
        let Some(item) = item_at(reading, index) else {
            flush(reading, &mut run, &mut found, &mut numbers.cards);
            index += 1;
            continue;
        };
        index = item.last + 1;
        let joins = run.last().is_some_and(|last| joined(reading, last, &item));
        if !joins {
            flush(reading, &mut run, &mut found, &mut numbers.cards);
        }
        run.push(item);
    }
    flush(reading, &mut run, &mut found, &mut numbers.cards);
    sort_out(reading, found, &mut numbers);
    numbers
}

/// A group of digits, or the numerals that name one (`девятьсот семьдесят четыре`).
fn item_at(reading: &Reading<'_>, index: usize) -> Option<Item> {
    let token = &reading.tokens[index];
    if token.tag || token.mention {
        return None;
    }
    if token.is_number() {
        return Some(with_letters(reading, index));
    }
    let value = token.entry()?.number?;
    let mut total = value;
    let mut last = index;
    let mut room = magnitude(value);
    while room > 1 {
        let Some(next) = reading.tokens.get(last + 1).filter(|next| next.gap <= Gap::Space) else { break };
        let Some(value) = next.entry().and_then(|entry| entry.number) else { break };
        if value == 0 || value >= room || (room == 100 && value > 99) || (10..20).contains(&total) {
            break;
        }
        total += value;
        last += 1;
        room = magnitude(value);
    }
    Some(Item { first: index, last, digits: total.to_string(), worded: true })
}

/// Digits, with letters that stand for digits inside them: `44-1О`, `8 9З5`.
fn with_letters(reading: &Reading<'_>, index: usize) -> Item {
    let mut digits = reading.text(&reading.tokens[index]).to_owned();
    let mut last = index;
    while let Some(next) = reading.tokens.get(last + 1).filter(|next| next.gap == Gap::Joined) {
        let touching = next.start == reading.tokens[last].end && digits.len() < 12;
        let digit = match reading.word(next) {
            "о" | "o" => "0",
            "з" => "3",
            "оо" | "oo" => "00",
            _ if next.is_number() => reading.text(next),
            _ => break,
        };
        if !touching {
            break;
        }
        digits.push_str(digit);
        last += 1;
    }
    Item { first: index, last, digits, worded: false }
}

/// What may still be added below a numeral: units after tens, both after hundreds.
fn magnitude(value: u16) -> u16 {
    match value {
        100..=900 => 100,
        20..=90 => 10,
        _ => 1,
    }
}

fn joined(reading: &Reading<'_>, before: &Item, after: &Item) -> bool {
    let (left, right) = (&reading.tokens[before.last], &reading.tokens[after.first]);
    if left.text != right.text || right.gap == Gap::Line {
        return false;
    }
    let text = &reading.normals[usize::from(left.text)].text;
    let between = &text[left.end as usize..right.start as usize];
    let worded = before.worded || after.worded;
    let mut length = 0;
    for character in between.chars() {
        length += 1;
        let fits = matches!(
            character,
            ' ' | '-' | '–' | '—' | '(' | ')' | '.' | '/' | '_' | '•' | '·' | '*' | '~' | '=' | EMOJI
        ) || (worded && matches!(character, ',' | ':' | ';'));
        if !fits || length > 6 {
            return false;
        }
    }
    true
}

fn flush(
    reading: &Reading<'_>,
    run: &mut Vec<Item>,
    found: &mut Vec<(String, usize, usize)>,
    cards: &mut Vec<usize>,
) {
    let mut at = 0;
    while at < run.len() {
        if let Some(after) = card_at(run, at) {
            cards.push(run[at].first);
            at = after;
        } else if let Some((phone, after)) = phone_at(reading, run, at) {
            found.push((phone, run[at].first, run[after - 1].last));
            at = after;
        } else {
            at += 1;
        }
    }
    run.clear();
}

/// Sixteen to nineteen digits, whole or in fours.
fn card_at(run: &[Item], at: usize) -> Option<usize> {
    if (16..=19).contains(&run[at].digits.len()) {
        return Some(at + 1);
    }
    let fours = run[at..].iter().take(4).filter(|item| item.digits.len() == 4).count();
    (fours == 4).then_some(at + 4)
}

fn phone_at(reading: &Reading<'_>, run: &[Item], at: usize) -> Option<(String, usize)> {
    let token = &reading.tokens[run[at].first];
    let before = reading.normals[usize::from(token.text)].text[..token.start as usize].chars().next_back();
    let first = run[at].digits.as_str();
    let (country, length) = match first.as_bytes().first()? {
        b'3' if before == Some('+') && (first.starts_with("375") || first.starts_with("380")) => ("+", 12),
        b'9' if before == Some('+') => return None,
        b'7' | b'8' if before == Some('(') => ("+7", 10),
        b'7' | b'8' => ("", 11),
        b'9' => ("+7", 10),
        b'3' | b'4' if before == Some('(') && (3..=5).contains(&first.len()) => ("+7", 10),
        _ => return None,
    };
    let (digits, after) = collect(run, at, length)?;
    let number = match country {
        "" => format!("+7{}", &digits[1..]),
        prefix => format!("{prefix}{digits}"),
    };
    plausible(&number, before == Some('+')).then_some((number, after))
}

fn collect(run: &[Item], at: usize, length: usize) -> Option<(String, usize)> {
    let mut digits = String::with_capacity(length);
    for (offset, item) in run[at..].iter().enumerate() {
        digits.push_str(&item.digits);
        if digits.len() == length {
            return Some((digits, at + offset + 1));
        }
        if digits.len() > length {
            return None;
        }
    }
    None
}

/// Codes of Russia are 3, 4, 8 and 9; Kazakhstan shares the country code with 6 and 7.
fn plausible(number: &str, plus: bool) -> bool {
    let Some(national) = number.strip_prefix("+7") else { return true };
    match national.as_bytes().first() {
        Some(b'3' | b'4' | b'8' | b'9') => true,
        Some(b'6' | b'7') => plus,
        _ => false,
    }
}

struct Words {
    contact: Option<Group>,
    purse: Option<Group>,
    transfer: Option<Group>,
}

fn sort_out(reading: &Reading<'_>, found: Vec<(String, usize, usize)>, numbers: &mut Numbers) {
    let words = Words {
        contact: lexicon().group("contact"),
        purse: lexicon().group("card"),
        transfer: lexicon().group("transfer"),
    };
    for (number, first, last) in found {
        numbers.spans.push((first, last));
        if is_purse(reading, &words, first, last) {
            numbers.money.push((first, last));
            continue;
        }
        let evidence = reading.evidence("phones.number", first, last);
        numbers.phones.push(Fact::new(Phone(number), evidence));
    }
    numbers.phones.sort_by(|left, right| left.value.cmp(&right.value));
    numbers.phones.dedup_by(|right, left| left.value == right.value);
}

/// The nearest telling word decides, first those before the number, then those right after it.
fn is_purse(reading: &Reading<'_>, words: &Words, first: usize, last: usize) -> bool {
    let text = reading.tokens[first].text;
    let tell = |index: usize| {
        let token = &reading.tokens[index];
        let has = |group: Option<Group>| group.is_some_and(|group| token.is(group));
        if has(words.contact) {
            return Some(false);
        }
        (has(words.purse) || has(words.transfer)).then_some(true)
    };
    // A number that opens its sentence may belong to the one before; any other keeps to its own.
    let opens = reading.tokens[first].gap == Gap::Stop;
    for index in (first.saturating_sub(CONTEXT_WORDS)..first).rev() {
        let token = &reading.tokens[index];
        if token.text != text || reading.tokens[index + 1].gap >= if opens { Gap::Line } else { Gap::Stop } {
            break;
        }
        if let Some(purse) = tell(index) {
            return purse;
        }
    }
    let after = (last + 1..reading.tokens.len()).take(3);
    let mut after = after.take_while(|index| reading.tokens[*index].gap < Gap::Stop);
    after.any(|index| reading.tokens[index].text == text && tell(index) == Some(true))
}
