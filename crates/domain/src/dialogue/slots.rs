//! What a person's words mean as the answer to a question: one reader per kind of slot.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::heard::Heard;
use super::hours::local;
use super::rules::{Choice, SlotKind};
use super::words::{Vocabulary, fold};
use crate::time::Timestamp;

/// What a yes-or-no slot keeps.
pub(super) const YES: &str = "yes";
pub(super) const NO: &str = "no";

const YES_WORDS: &[&str] = &[
    "да",
    "ага",
    "угу",
    "конечно",
    "верно",
    "правильно",
    "подтверждаю",
    "согласен",
    "согласна",
    "ок",
    "окей",
    "хорошо",
    "давайте",
    "yes",
    "ok",
    "1",
];
const NO_WORDS: &[&str] = &["нет", "неа", "не", "никак", "неверно", "неправильно", "отказываюсь", "no", "0"];

/// What a reader has to know besides the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub zone: &'a TimeZone,
    pub now: Timestamp,
    pub vocabulary: &'a Vocabulary,
}

/// The value that a slot keeps, or `None` when the text is no answer.
pub(super) fn parse(kind: &SlotKind, heard: &Heard, around: Around<'_>) -> Option<String> {
    let text = heard.text.as_str();
    match kind {
        SlotKind::Text { max } => {
            let said =
                !text.is_empty() && text.chars().count() <= *max && text.chars().any(char::is_alphanumeric);
            said.then(|| text.to_owned())
        }
        SlotKind::Number { min, max } => number(text, *min, *max),
        SlotKind::Phone => phone(text),
        SlotKind::Email => email(text),
        SlotKind::Date => date(heard, around),
        SlotKind::Choice(choices) => choice(choices, heard, around),
        SlotKind::YesNo => yes_no(heard),
        SlotKind::Photo => None,
        SlotKind::Pattern(regex) => pattern(regex, text),
    }
}

/// How a value is shown to people.
pub(super) fn shown<'a>(
    kind: Option<&'a SlotKind>,
    value: &'a str,
    yes: &'a str,
    no: &'a str,
) -> std::borrow::Cow<'a, str> {
    match (kind, value) {
        (Some(SlotKind::YesNo), YES) => yes.to_lowercase().into(),
        (Some(SlotKind::YesNo), NO) => no.to_lowercase().into(),
        (Some(SlotKind::Choice(choices)), value) => {
            choices.iter().find(|choice| choice.value == value).map_or(value, |choice| &choice.title).into()
        }
        (Some(SlotKind::Date), value) => match value.parse::<Date>() {
            Ok(date) => format!("{:02}.{:02}.{}", date.day(), date.month(), date.year()).into(),
            Err(_) => value.into(),
        },
        _ => value.into(),
    }
}

fn number(text: &str, min: Option<f64>, max: Option<f64>) -> Option<String> {
    // «2 шт.» and «около 2,5» hold one number; two numbers are no answer.
    let mut found = text
        .split(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-')))
        .map(|piece| piece.trim_matches(['.', ',']).replace(',', "."))
        .filter(|piece| piece.bytes().any(|b| b.is_ascii_digit()));
    let (piece, other) = (found.next()?, found.next());
    let value: f64 = piece.parse().ok()?;
    let fits = value.is_finite() && min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max);
    (other.is_none() && piece.len() <= 18 && fits).then_some(piece)
}

fn phone(text: &str) -> Option<String> {
    if text.chars().any(|c| c.is_alphabetic()) {
        return None;
    }
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let plus = text.trim_start().starts_with('+');
    match (digits.len(), digits.as_bytes().first()?) {
        (11, b'7' | b'8') if !plus || digits.starts_with('7') => Some(format!("+7{}", &digits[1..])),
        (10, b'9') if !plus => Some(format!("+7{digits}")),
        (8..=15, _) if plus => Some(format!("+{digits}")),
        _ => None,
    }
}

fn email(text: &str) -> Option<String> {
    let word = text.split_whitespace().find(|word| word.contains('@'))?;
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let (name, host) = word.split_once('@')?;
    let (site, zone) = host.rsplit_once('.')?;
    let plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || ".-_+".contains(c));
    let fits = !name.is_empty() && !site.is_empty() && zone.chars().count() >= 2 && word.len() <= 254;
    (fits && plain(name) && plain(host) && !host.contains("..")).then(|| word.to_lowercase())
}

fn date(heard: &Heard, around: Around<'_>) -> Option<String> {
    let today = local(around.zone, around.now)?.date();
    let words: Vec<&str> = heard.words().collect();
    let relative = words.iter().find_map(|word| match *word {
        "сегодня" => Some(0),
        "завтра" => Some(1),
        "послезавтра" => Some(2),
        "вчера" => Some(-1),
        "позавчера" => Some(-2),
        _ => None,
    });
    if let Some(days) = relative {
        return Some(today.checked_add(jiff::Span::new().days(days)).ok()?.to_string());
    }
    let numbers: Vec<i16> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let month = words.iter().find_map(|word| month(word));
    let (day, month, year) = match (numbers.as_slice(), month) {
        ([day], Some(month)) => (*day, month, None),
        ([day, year], Some(month)) => (*day, month, Some(*year)),
        ([year, month, day], None) if *year >= 1000 => (*day, *month, Some(*year)),
        ([day, month, year], None) => (*day, *month, Some(*year)),
        ([day, month], None) => (*day, *month, None),
        _ => return None,
    };
    let year = year.map(|year| if year < 100 { year + 2000 } else { year });
    let date = |year: i16| Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok();
    let date = match year {
        Some(year) => date(year)?,
        // Without a year the nearest one is meant: within half a year, back or ahead.
        None => [0, 1, -1]
            .into_iter()
            .filter_map(|offset| date(today.year() + offset))
            .min_by_key(|date| today.until(*date).map_or(i32::MAX, |span| span.get_days().abs()))?,
    };
    Some(date.to_string())
}

fn month(word: &str) -> Option<i16> {
    const MONTHS: [&str; 12] = [
        "январ",
        "феврал",
        "март",
        "апрел",
        "ма",
        "июн",
        "июл",
        "август",
        "сентябр",
        "октябр",
        "ноябр",
        "декабр",
    ];
    let is = |start: &str| match start {
        "ма" => matches!(word, "май" | "мая" | "мае"),
        start => word.starts_with(start),
    };
    MONTHS.iter().position(|start| is(start)).map(|index| index as i16 + 1)
}

fn choice(choices: &[Choice], heard: &Heard, around: Around<'_>) -> Option<String> {
    let exact = choices
        .iter()
        .find(|choice| fold(&choice.title) == heard.folded || fold(&choice.value) == heard.folded);
    let by_number = || heard.folded.parse::<usize>().ok().and_then(|n| choices.get(n.checked_sub(1)?));
    let by_words = || {
        let hits = around.vocabulary.hits(heard);
        let mut met =
            choices.iter().filter(|choice| choice.any.iter().any(|any| any.met(heard, &hits).is_some()));
        // Words that fit two choices chose neither.
        met.next().filter(|_| met.next().is_none())
    };
    exact.or_else(by_number).or_else(by_words).map(|choice| choice.value.clone())
}

fn yes_no(heard: &Heard) -> Option<String> {
    let first = heard.words().next()?;
    let short = heard.words().count() <= 4;
    let answer = match first {
        word if YES_WORDS.contains(&word) => YES,
        word if NO_WORDS.contains(&word) => NO,
        "все" if heard.words().nth(1) == Some("верно") => YES,
        _ => return None,
    };
    short.then(|| answer.to_owned())
}

/// The text as a whole, or else one word of it; capitals are put in for those who do not type them.
fn pattern(regex: &regex::Regex, text: &str) -> Option<String> {
    let upper = text.to_uppercase();
    let whole = [text, upper.as_str()];
    let found = whole.into_iter().find(|text| regex.is_match(text)).map(str::to_owned);
    found.or_else(|| {
        let words = text.split_whitespace().chain(upper.split_whitespace());
        let bare =
            words.map(|word| word.trim_matches(['.', ',', '!', '?', ';', ':', '"', '«', '»', '№', '#']));
        bare.filter(|word| !word.is_empty()).find(|word| regex.is_match(word)).map(str::to_owned)
    })
}
