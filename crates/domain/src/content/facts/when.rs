//! The day of the event, resolved against the post's own date on the source's clock.
//! Days of other things (visits, offers, later sightings) and vague spans give none.

use std::sync::LazyLock;

use jiff::civil::{Date, Weekday};
use jiff::{Span as TimeSpan, Timestamp, tz};

use crate::content::lexicon::{Group, lexicon};
use crate::content::tokens::{Gap, Letters, Reading, Token};
use crate::content::{Fact, Kind};

/// A date this far ahead of the post belongs to the year before.
const FUTURE_DAYS_MAX: i32 = 1;
/// Older than this is not the event.
const PAST_DAYS_MAX: i32 = 400;

/// The calendar day of a Unix time on a clock so many minutes ahead of UTC.
pub(super) fn local_date(unix_seconds: i64, utc_offset_minutes: i32) -> Option<Date> {
    let stamp = Timestamp::from_second(unix_seconds).ok()?;
    let offset = tz::Offset::from_seconds(utc_offset_minutes.checked_mul(60)?).ok()?;
    Some(offset.to_datetime(stamp).date())
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    date: Date,
    first: usize,
    last: usize,
    weight: i32,
    rule: &'static str,
}

struct Groups {
    today: Option<Group>,
    yesterday: Option<Group>,
    before_yesterday: Option<Group>,
    day_part: Option<Group>,
    see: Option<Group>,
    ago: Option<Group>,
    events: Vec<Group>,
}

static LOST: LazyLock<Groups> = LazyLock::new(|| Groups::new(&["lost_v", "escape_v", "leave_v", "lost_t"]));
static SIGHTING: LazyLock<Groups> =
    LazyLock::new(|| Groups::new(&["see_v", "see_p", "roam_v", "come_v", "escape_v"]));
static FOUND: LazyLock<Groups> =
    LazyLock::new(|| Groups::new(&["found_p", "found_v", "pick_v", "stray_v", "come_v", "take_v", "roam_v"]));

impl Groups {
    /// The groups that tell the event are those of a kind.
    fn new(names: &[&str]) -> Groups {
        let group = |name: &str| lexicon().group(name);
        Groups {
            today: group("today"),
            yesterday: group("yesterday"),
            before_yesterday: group("before_yesterday"),
            day_part: group("day_part"),
            see: group("see_v"),
            ago: group("ago"),
            events: names.iter().filter_map(|name| group(name)).collect(),
        }
    }

    fn event(&self, token: &Token) -> bool {
        self.events.iter().any(|group| token.is(*group))
    }
}

fn is(token: &Token, group: Option<Group>) -> bool {
    group.is_some_and(|group| token.is(group))
}

/// `dates` holds the day of every text of the reading.
pub(super) fn when(
    reading: &Reading<'_>,
    kind: Kind,
    event: &[u32],
    dates: &[Option<Date>],
) -> Option<Fact<Date>> {
    if !matches!(kind, Kind::Lost | Kind::Found | Kind::Sighting) {
        return None;
    }
    let groups: &Groups = match kind {
        Kind::Lost => &LOST,
        Kind::Sighting => &SIGHTING,
        _ => &FOUND,
    };
    let mut best: Option<Candidate> = None;
    for index in 0..reading.tokens.len() {
        let token = &reading.tokens[index];
        let Some(Some(today)) = dates.get(usize::from(token.text)).copied() else { continue };
        if token.tag || token.mention {
            continue;
        }
        let Some(mut candidate) = candidate_at(reading, index, today, groups) else { continue };
        let age = (today - candidate.date).get_days();
        if !(-FUTURE_DAYS_MAX..=PAST_DAYS_MAX).contains(&age) || candidate.date > today {
            continue;
        }
        candidate.weight += context(reading, &candidate, kind, event, groups);
        if candidate.weight > 0 && best.is_none_or(|best| candidate.weight > best.weight) {
            best = Some(candidate);
        }
    }
    let best = best?;
    Some(Fact::new(best.date, reading.evidence(best.rule, best.first, best.last)))
}

fn candidate_at(reading: &Reading<'_>, index: usize, today: Date, groups: &Groups) -> Option<Candidate> {
    let token = &reading.tokens[index];
    let back = |days: i64| today.checked_sub(TimeSpan::new().days(days)).ok();
    let day = |date: Option<Date>, weight: i32, rule: &'static str| {
        date.map(|date| Candidate { date, first: index, last: index, weight, rule })
    };
    if token.is_number() {
        return numeric(reading, index, today);
    }
    if is(token, groups.today) && !counts_days(reading, index) {
        return day(Some(today), 6, "when.today");
    }
    if is(token, groups.yesterday) {
        return day(back(1), 6, "when.yesterday");
    }
    if is(token, groups.before_yesterday) {
        return day(back(2), 6, "when.before_yesterday");
    }
    if reading.word(token) == "только"
        && reading.tokens.get(index + 1).is_some_and(|next| reading.word(next) == "что")
    {
        return day(Some(today), 4, "when.just_now");
    }
    if let Some(weekday) = token.entry().and_then(|entry| entry.weekday) {
        return weekday_at(reading, index, weekday, today);
    }
    if is(token, groups.ago) {
        return ago(reading, index, today);
    }
    if is(token, groups.day_part) {
        return part_of_day(reading, index, today, groups);
    }
    if reading.word(token).starts_with("новогодн") {
        return new_year(reading, index, today);
    }
    None
}

/// `сегодня девятый день`: a count, not a day.
fn counts_days(reading: &Reading<'_>, index: usize) -> bool {
    (index + 1..=index + 3).any(|at| {
        let word = reading.tokens.get(at).map_or("", |token| reading.word(token));
        word.starts_with("недел") || word.starts_with("месяц") || matches!(word, "день" | "сутки" | "дней")
    })
}

/// The last night of December before the post.
fn new_year(reading: &Reading<'_>, index: usize, today: Date) -> Option<Candidate> {
    let next = reading.tokens.get(index + 1)?;
    if !reading.word(next).starts_with("ноч") {
        return None;
    }
    let year = if today.month() == 12 && today.day() == 31 { today.year() } else { today.year() - 1 };
    let date = Date::new(year, 12, 31).ok()?;
    Some(Candidate { date, first: index, last: index + 1, weight: 6, rule: "when.new_year" })
}

/// `28.08.25`, `28.08`, `30 октября`, `5 числа`, `в ночь с 5 на 6 ноября`, `в ночь на 9-е`.
fn numeric(reading: &Reading<'_>, index: usize, today: Date) -> Option<Candidate> {
    let token = &reading.tokens[index];
    let text = reading.text(token);
    if text.len() > 2 {
        return None;
    }
    let day: i8 = text.parse().ok().filter(|day| (1..=31).contains(day))?;
    if memorial(reading, index) {
        return None;
    }
    if let Some(found) = dotted(reading, index, day, today) {
        return Some(found);
    }
    let (month_at, range_end) = month_after(reading, index);
    let night = night_before(reading, index);
    if let Some((at, month)) = month_at {
        let year = year_after(reading, at);
        let mut date = resolve(day, month, year, today)?;
        let second_of_night = night == Some(Night::Onto) && !range_end;
        if second_of_night {
            date = date.yesterday().ok()?;
        }
        return Some(Candidate { date, first: index, last: at, weight: 7, rule: "when.day_month" });
    }
    let ordinal = ordinal_day(reading, index);
    let onto = night == Some(Night::Onto);
    if ordinal.is_some() || onto {
        let mut date = recent_day(day, today)?;
        if onto {
            date = date.yesterday().ok()?;
        }
        let last = ordinal.unwrap_or(index);
        return Some(Candidate { date, first: index, last, weight: 6, rule: "when.day_number" });
    }
    None
}

/// `9-е Января`: a street named after a day.
fn memorial(reading: &Reading<'_>, index: usize) -> bool {
    (index + 1..=index + 2).any(|at| {
        let month = reading.tokens.get(at).filter(|token| token.letters == Letters::Title);
        month.and_then(Token::entry).is_some_and(|entry| entry.month.is_some())
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Night {
    /// `в ночь на 9-е`: the evening before.
    Onto,
    /// `в ночь с 5 на 6`: the first of the two.
    From,
}

fn night_before(reading: &Reading<'_>, index: usize) -> Option<Night> {
    let word = |back: usize| index.checked_sub(back).map_or("", |at| reading.word(&reading.tokens[at]));
    let night = |word: &str| word.starts_with("ноч");
    match word(1) {
        "на" if night(word(2)) => Some(Night::Onto),
        "с" if night(word(2)) => Some(Night::From),
        _ => None,
    }
}

/// The month that follows a day, also behind the second day of a range (`с 5 на 6 ноября`, `5-6 ноября`).
fn month_after(reading: &Reading<'_>, index: usize) -> (Option<(usize, i8)>, bool) {
    let month = |at: usize| {
        let token =
            reading.tokens.get(at).filter(|token| token.sentence == reading.tokens[index].sentence)?;
        // `8 Марта`, `9-е Января`: with a capital it is a street, unless everything is shouted.
        let street = token.letters == Letters::Title;
        token.entry()?.month.filter(|_| !street).map(|month| (at, month as i8))
    };
    let mut ranged = false;
    for at in index + 1..index + 6 {
        if let Some(found) = month(at) {
            return (Some(found), ranged);
        }
        let Some(token) = reading.tokens.get(at) else { break };
        let word = reading.word(token);
        if token.is_number() || matches!(word, "на") {
            ranged |= token.is_number();
        } else if !matches!(word, "го" | "е" | "ого" | "ое" | "и" | "-го") {
            break;
        }
    }
    (None, false)
}

fn year_after(reading: &Reading<'_>, month: usize) -> Option<i16> {
    let token = reading.tokens.get(month + 1).filter(|token| token.is_number() && token.gap <= Gap::Space)?;
    reading.text(token).parse::<i16>().ok().filter(|year| (2000..2100).contains(year))
}

/// `5 числа`, `5-го`, `9-е`, `9-го числа`.
fn ordinal_day(reading: &Reading<'_>, index: usize) -> Option<usize> {
    let next =
        reading.tokens.get(index + 1).filter(|next| next.sentence == reading.tokens[index].sentence)?;
    let word = reading.word(next);
    if matches!(word, "числа" | "число") {
        return Some(index + 1);
    }
    let suffix = next.gap == Gap::Joined && matches!(word, "го" | "е" | "ого");
    let counted = reading.tokens.get(index + 2).is_some_and(|after| {
        after.gap <= Gap::Space
            && after.is_word()
            && !after.capital()
            && !matches!(
                reading.word(after),
                "числа"
                    | "вечером"
                    | "утром"
                    | "ночью"
                    | "днем"
                    | "в"
                    | "с"
                    | "на"
                    | "из"
                    | "около"
            )
    });
    (suffix && !counted).then_some(index + 1)
}

/// `28.08.25` and its relatives; the separators must be full stops or slashes.
fn dotted(reading: &Reading<'_>, index: usize, day: i8, today: Date) -> Option<Candidate> {
    let token = &reading.tokens[index];
    let text = &reading.normals[usize::from(token.text)].text;
    let glue = |left: &Token, right: &Token| {
        let between = &text[left.end as usize..right.start as usize];
        matches!(between, "." | "/" | "-" | ". ")
    };
    let before = index.checked_sub(1).map(|at| &reading.tokens[at]);
    if before.is_some_and(|before| before.is_number() && before.text == token.text && glue(before, token)) {
        return None;
    }
    let next = reading.tokens.get(index + 1).filter(|next| next.is_number() && next.text == token.text)?;
    let month_text = reading.text(next);
    let dot = &text[token.end as usize..next.start as usize];
    if !glue(token, next) || month_text.len() != 2 || (dot == "-" && month_text.len() != 2) {
        return None;
    }
    let month: i8 = month_text.parse().ok().filter(|month| (1..=12).contains(month))?;
    let third = reading
        .tokens
        .get(index + 2)
        .filter(|third| third.is_number() && third.text == token.text && glue(next, third));
    let year = third.and_then(|third| {
        let digits = reading.text(third);
        let year: i16 = digits.parse().ok()?;
        match digits.len() {
            2 => Some(2000 + year),
            4 => Some(year),
            _ => None,
        }
    });
    if dot == "-" && year.is_none() {
        return None;
    }
    let last = if year.is_some() { index + 2 } else { index + 1 };
    let unit = reading
        .tokens
        .get(last + 1)
        .filter(|unit| unit.gap <= Gap::Space)
        .map_or("", |unit| reading.word(unit));
    if matches!(unit, "кг" | "см" | "года" | "лет" | "месяца" | "м" | "км" | "тыс" | "руб" | "р" | "ч")
        && year.is_none()
    {
        return None;
    }
    let date = resolve(day, month, year, today)?;
    Some(Candidate { date, first: index, last, weight: 7, rule: "when.date" })
}

/// Without a year the date is the latest one not after the post.
fn resolve(day: i8, month: i8, year: Option<i16>, today: Date) -> Option<Date> {
    if let Some(year) = year {
        return Date::new(year, month, day).ok();
    }
    let this = Date::new(today.year(), month, day).ok();
    match this {
        Some(date) if date <= today => Some(date),
        _ => Date::new(today.year() - 1, month, day).ok(),
    }
}

fn recent_day(day: i8, today: Date) -> Option<Date> {
    let this = Date::new(today.year(), today.month(), day).ok().filter(|date| *date <= today);
    this.or_else(|| {
        let before = today.first_of_month().yesterday().ok()?;
        Date::new(before.year(), before.month(), day).ok()
    })
}

/// `в субботу`, `с пятницы`: the latest such day, today included.
fn weekday_at(reading: &Reading<'_>, index: usize, weekday: u8, today: Date) -> Option<Candidate> {
    let word = |back: usize| index.checked_sub(back).map_or("", |at| reading.word(&reading.tokens[at]));
    let near =
        if matches!(word(1), "прошлую" | "прошлый" | "прошлое" | "минувшую" | "эту" | "прошлой" | "этот")
        {
            2
        } else {
            1
        };
    if !matches!(word(near), "в" | "во" | "с" | "со") && reading.tokens[index].gap < Gap::Stop {
        return None;
    }
    let weekday = Weekday::from_monday_one_offset(weekday as i8).ok()?;
    let mut days = i64::from(today.weekday().since(weekday));
    if days == 0 && matches!(word(near), "с" | "со") {
        days = 7;
    }
    let date = today.checked_sub(TimeSpan::new().days(days)).ok()?;
    Some(Candidate { date, first: index, last: index, weight: 5, rule: "when.weekday" })
}

/// `три дня назад`, `неделю назад`.
fn ago(reading: &Reading<'_>, index: usize, today: Date) -> Option<Candidate> {
    let at = |back: usize| index.checked_sub(back).map(|at| &reading.tokens[at]);
    let unit = at(1).map_or("", |token| reading.word(token));
    let days = match unit {
        "день" | "дня" | "дней" | "сутки" | "суток" => 1,
        "неделю" | "недели" | "недель" => 7,
        "час" | "часа" | "часов" | "минут" | "полчаса" => 0,
        _ => return None,
    };
    let count = at(2).and_then(|token| {
        if token.is_number() {
            reading.text(token).parse::<i64>().ok()
        } else {
            token.entry()?.number.map(i64::from)
        }
    });
    let count = match (count, days) {
        (Some(count), _) if count <= 60 => count,
        (None, 7 | 1 | 0) => 1,
        _ => return None,
    };
    let date = today.checked_sub(TimeSpan::new().days(count * days)).ok()?;
    let first = if at(2).is_some_and(|token| token.is_number()) { index - 2 } else { index - 1 };
    Some(Candidate { date, first, last: index, weight: 5, rule: "when.ago" })
}

/// `этой ночью`, `днём` beside the event and without a day: the day of the post.
fn part_of_day(reading: &Reading<'_>, index: usize, today: Date, groups: &Groups) -> Option<Candidate> {
    let token = &reading.tokens[index];
    let word = reading.word(token);
    let before = index.checked_sub(1).map_or("", |at| reading.word(&reading.tokens[at]));
    if matches!(before, "этой" | "сегодняшней") {
        return Some(Candidate {
            date: today,
            first: index - 1,
            last: index,
            weight: 6,
            rule: "when.this_night",
        });
    }
    let adverb = matches!(word, "утром" | "днем" | "вечером" | "ночью")
        || (word == "обед" && before == "в")
        || (word == "утро" && before == "под");
    if !adverb
        || matches!(before, "по" | "каждым" | "каждую" | "можно" | "и" | "или" | "рано") && before != "рано"
    {
        return None;
    }
    // Only right beside the event: `ночью` says nothing of the day in `звонить можно и ночью`.
    let sentence = reading.sentence(index);
    let near = reading.tokens[sentence.clone()].iter().enumerate().any(|(offset, other)| {
        let distance = (sentence.start + offset).abs_diff(index);
        distance <= 10 && groups.event(other)
    });
    near.then_some(Candidate { date: today, first: index, last: index, weight: 2, rule: "when.part_of_day" })
}

/// Whether the day belongs to the event: what else is told in its sentence.
fn context(reading: &Reading<'_>, candidate: &Candidate, kind: Kind, event: &[u32], groups: &Groups) -> i32 {
    let token = &reading.tokens[candidate.first];
    let sentence = reading.sentence(candidate.first);
    let mut score = 0;
    if event.binary_search(&token.sentence).is_ok() {
        score += 3;
    }
    let mut told = false;
    let mut nearest = usize::MAX;
    let mut seen = false;
    for (offset, other) in reading.tokens[sentence.clone()].iter().enumerate() {
        if groups.event(other) {
            told = true;
            nearest = nearest.min((sentence.start + offset).abs_diff(candidate.first));
        }
        let at = sentence.start + offset;
        seen |= is(other, groups.see) && !(at > 0 && reading.word(&reading.tokens[at - 1]) == "не");
    }
    // `со вчерашнего вечера`: since then, so the event itself.
    let since = candidate.first.checked_sub(1).map_or("", |at| reading.word(&reading.tokens[at]));
    if matches!(since, "с" | "со") {
        score += 4;
    }
    if told {
        score += 3 + i32::from(nearest <= 4);
    }
    if kind == Kind::Lost && seen && !told {
        score -= 12;
    }
    if plans(reading, candidate) {
        score -= 12;
    }
    if !told && !reading.opens(candidate.first) {
        score -= 2;
    }
    score
        - (token.sentence.saturating_sub(reading.openings.get(usize::from(token.text)).copied().unwrap_or(0))
            / 3) as i32
}

/// Visits, departures and opening hours: a day that is not the event's.
fn plans(reading: &Reading<'_>, candidate: &Candidate) -> bool {
    let sentence = reading.sentence(candidate.first);
    let stems = [
        "операци",
        "прием",
        "уезжа",
        "улета",
        "переезжа",
        "запис",
        "назначен",
        "выстав",
        "закрыва",
        "звоните",
        "звонить",
        "работаем",
        "привив",
        "собра",
        "сбор",
        "счет",
        "курс",
        "уедем",
        "уеду",
        "завтра",
        "будем",
        "будет",
        "ищут",
        "ищем",
    ];
    let window = reading.tokens[sentence.clone()]
        .iter()
        .enumerate()
        .filter(|(offset, _)| (sentence.start + offset).abs_diff(candidate.first) <= 5);
    let mut window = window.map(|(_, token)| reading.word(token));
    window.any(|word| stems.iter().any(|stem| word.starts_with(stem)))
}
