//! Telephone numbers in every spelling in use, as E.164; cards and numbers for money only are left out.
//! Reads runs of digits and numerals; must not know what the post is about.

use crate::content::lexicon::morph::{bit, key};
use crate::content::lexicon::{Group, lexicon};
use crate::content::normalise::EMOJI;
use crate::content::tokens::{Gap, Reading, TokenKind};
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

/// Words behind a number that may say that it is also there to be called.
const CONTACT_WORDS: usize = 4;

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
    second_endings(reading, &mut found);
    linked(reading, &mut found);
    sort_out(reading, found, &mut numbers);
    numbers
}

/// `8 912 345-67-71 или 72`: a second number that differs in its last digits only.
fn second_endings(reading: &Reading<'_>, found: &mut Vec<(String, usize, usize)>) {
    let mut more = Vec::new();
    for (number, _, last) in found.iter() {
        let Some(ending) = ending_after(reading, *last) else { continue };
        let digits = reading.text(&reading.tokens[ending]);
        let kept = number.len().saturating_sub(digits.len());
        let new = number.get(..kept).filter(|_| (2..=4).contains(&digits.len()));
        if let Some(kept) = new.filter(|kept| format!("{kept}{digits}") != *number) {
            more.push((format!("{kept}{digits}"), ending, ending));
        }
    }
    found.extend(more);
}

/// The token of the other ending: `или 72`, `либо …72`, `и -72`, `(или 72)`.
fn ending_after(reading: &Reading<'_>, last: usize) -> Option<usize> {
    let or = reading.tokens.get(last + 1).filter(|token| token.gap < Gap::Stop)?;
    // `…76/78`: nothing but a stroke between.
    let text = &reading.normals[usize::from(or.text)].text;
    let stroke =
        text.get(reading.tokens[last].end as usize..or.start as usize).is_some_and(|gap| gap.trim() == "/");
    if or.is_number() && stroke && or.text == reading.tokens[last].text && reading.text(or).len() == 2 {
        return Some(last + 1);
    }
    let end = reading.tokens.get(last + 2).filter(|token| token.is_number() && token.gap < Gap::Line)?;
    let same = or.text == reading.tokens[last].text && end.text == or.text;
    let joins = matches!(reading.word(or), "или" | "либо");
    // `и 5 лет`: what counts something is no ending.
    let counts = reading.tokens.get(last + 3).is_some_and(|next| {
        next.text == end.text && next.gap <= Gap::Space && (next.is_word() || next.is_number())
    });
    let called = reading.tokens.get(last + 3).is_some_and(|next| next.capital());
    (same && joins && (!counts || called)).then_some(last + 2)
}

/// `wa.me/7912…`, `t.me/+7912…`, `viber://chat?number=%2B7912…`, `tel:+7912…`: a number in the address of a messenger.
fn linked(reading: &Reading<'_>, found: &mut Vec<(String, usize, usize)>) {
    for (index, token) in reading.tokens.iter().enumerate() {
        if token.kind != TokenKind::Link {
            continue;
        }
        let address = reading.word(token);
        let messenger = MESSENGERS.iter().any(|name| address.contains(name));
        if let Some(number) = messenger.then(|| number_in(address)).flatten() {
            found.push((number, index, index));
        }
    }
}

/// What the address of a telephone or of a messenger begins with or holds.
const MESSENGERS: [&str; 7] = ["wa.me/", "whatsapp.", "whatsapp:", "t.me/", "viber:", "tel:", "telegram.me/"];

/// Eleven digits in a row that are a Russian number, or what a plus stands before.
fn number_in(address: &str) -> Option<String> {
    let runs = address.split(|character: char| !character.is_ascii_digit()).filter(|run| run.len() >= 10);
    runs.filter_map(|run| match (run.len(), run.as_bytes()[0]) {
        (11, b'7' | b'8') => Some(format!("+7{}", &run[1..])),
        (10, b'9') => Some(format!("+7{run}")),
        (12, b'3') => Some(format!("+{run}")),
        _ => None,
    })
    .find(|number| plausible(number, true))
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
    if let Some(item) = lettered(reading, index) {
        return Some(item);
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

/// Letters that people write, or hide, digits with: `O` and `О` for nought, `З` for three, `I` and `l` for one.
fn as_digits(word: &str) -> Option<String> {
    const LETTERS_MAX: usize = 3;
    let digit = |letter: char| match letter {
        'о' | 'o' => Some('0'),
        'з' => Some('3'),
        'i' | 'l' | '|' => Some('1'),
        'ч' => Some('4'),
        'б' => Some('6'),
        'в' | 'b' => Some('8'),
        _ => None,
    };
    // None of them takes more than two bytes.
    if word.len() > LETTERS_MAX * 2 || word.chars().count() > LETTERS_MAX {
        return None;
    }
    word.chars().map(digit).collect()
}

/// Digits, with letters that stand for digits behind them: `44-1О`, `8 9З5`.
fn with_letters(reading: &Reading<'_>, index: usize) -> Item {
    let mut item = Item {
        first: index,
        last: index,
        digits: reading.text(&reading.tokens[index]).to_owned(),
        worded: false,
    };
    extend(reading, &mut item);
    item
}

fn extend(reading: &Reading<'_>, item: &mut Item) {
    while let Some(next) = reading.tokens.get(item.last + 1).filter(|next| next.gap == Gap::Joined) {
        let touching = next.start == reading.tokens[item.last].end && item.digits.len() < 12;
        let digits = if next.is_number() {
            Some(reading.text(next).to_owned())
        } else {
            as_digits(reading.word(next))
        };
        let Some(digits) = digits.filter(|_| touching) else { break };
        item.digits.push_str(&digits);
        item.last += 1;
    }
}

/// A group that begins with such a letter (`О7 400`), or is made of them (`4OO`, `oo`), inside a number: digits stand
/// right before it, and behind it or in it.
fn lettered(reading: &Reading<'_>, index: usize) -> Option<Item> {
    let token = &reading.tokens[index];
    let before =
        index.checked_sub(1).map(|at| &reading.tokens[at]).filter(|before| before.text == token.text)?;
    if token.gap > Gap::Dash {
        return None;
    }
    let digits = as_digits(reading.word(token))?;
    if !before.is_number() && as_digits(reading.word(before)).is_none() {
        return None;
    }
    let mut item = Item { first: index, last: index, digits, worded: false };
    extend(reading, &mut item);
    let goes_on = |at: usize| {
        let next = reading.tokens.get(at).filter(|next| next.text == token.text && next.gap <= Gap::Dash);
        next.is_some_and(|next| next.is_number() || as_digits(reading.word(next)).is_some())
    };
    // At the end of a number only capitals or letters beside digits are meant so: `8 912 345 в день` is not.
    let inside = item.last > index || goes_on(item.last + 1) || item.digits.len() >= 2;
    inside.then_some(item)
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
        if is_wrong(reading, first, last) {
            continue;
        }
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

/// `номер 8 912 … неверный`, `НЕ звоните на 8 912 …`, `было … а надо …`: a number that the post itself takes back.
fn is_wrong(reading: &Reading<'_>, first: usize, last: usize) -> bool {
    let text = reading.tokens[first].text;
    let lemma = |index: usize, words: &[&str]| {
        let token = &reading.tokens[index];
        words.iter().any(|word| token.morph.lemma == key(word))
    };
    let ordered = |index: usize| reading.tokens[index].morph.is(bit::IMPERATIVE | bit::INFINITIVE);
    let denied = |index: usize| {
        let before = index.checked_sub(1).map(|at| &reading.tokens[at]);
        before.is_some_and(|before| before.text == text && reading.word(before) == "не")
    };
    // `ночью не отвечаю`: who says so still has the number.
    let of_me = |index: usize| reading.tokens[index].morph.is(bit::FIRST);
    let after = (last + 1..reading.tokens.len()).take(WRONG_WORDS + 1);
    let mut after =
        after.take_while(|at| reading.tokens[*at].text == text && reading.tokens[*at].gap < Gap::Stop);
    if after.any(|at| !denied(at) && lemma(at, &WRONG) || denied(at) && lemma(at, &WORKS) && !of_me(at)) {
        return true;
    }
    for at in (first.saturating_sub(WRONG_WORDS)..first).rev() {
        if reading.tokens[at].text != text || reading.tokens[at + 1].gap >= Gap::Stop {
            return false;
        }
        if reading.tokens[at].is_number() {
            return false;
        }
        if !denied(at) && lemma(at, &CALLS) && ordered(at) {
            return false;
        }
        // `номер, с которого звонят мошенники`: somebody who is warned of.
        let warned = lemma(at, &["который"])
            && at
                .checked_sub(1)
                .is_some_and(|before| matches!(reading.word(&reading.tokens[before]), "с" | "со"));
        if warned || !denied(at) && lemma(at, &WRONG) || denied(at) && ordered(at) && lemma(at, &CALLS) {
            return true;
        }
    }
    false
}

/// Words looked at on either side of a number that may be taken back.
const WRONG_WORDS: usize = 5;
const WRONG: [&str; 9] = [
    "неверный",
    "неправильный",
    "ошибочный",
    "неактуальный",
    "мошенник",
    "мошенница",
    "заблокировать",
    "опечатка",
    "отключить",
];
const WORKS: [&str; 6] = ["работать", "действовать", "обслуживаться", "актуальный", "отвечать", "доступный"];
const CALLS: [&str; 5] = ["звонить", "позвонить", "перезванивать", "писать", "набирать"];

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
    // `Сбер 8 907 … (переводы и вопросы)`: for money, and to be called.
    let behind = (last + 1..reading.tokens.len()).take(CONTACT_WORDS);
    let mut behind =
        behind.take_while(|at| reading.tokens[*at].text == text && reading.tokens[*at].gap < Gap::Stop);
    let asks_too = behind.any(|at| !reading.tokens[at].is_number() && tell(at) == Some(false));
    // A number that opens its sentence may belong to the one before; any other keeps to its own.
    let opens = reading.tokens[first].gap == Gap::Stop;
    for index in (first.saturating_sub(CONTEXT_WORDS)..first).rev() {
        let token = &reading.tokens[index];
        if token.text != text || reading.tokens[index + 1].gap >= if opens { Gap::Line } else { Gap::Stop } {
            break;
        }
        if let Some(purse) = tell(index) {
            return purse && !asks_too;
        }
    }
    let after = (last + 1..reading.tokens.len()).take(3);
    let mut after = after.take_while(|index| reading.tokens[*index].gap < Gap::Stop);
    after.any(|index| reading.tokens[index].text == text && tell(index) == Some(true))
}
