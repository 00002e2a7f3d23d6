//! Working hours: when people are there, and when they will be. Pure; the time is an argument.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;

use crate::time::Timestamp;

/// What every refusal says about the form.
pub const FORM: &str = "from-until in hours and minutes, such as \"10:00-20:00\"";
pub const CLOSED_FORM: &str =
    "a day such as \"2027-01-01\", or a first and a last one, such as \"2027-01-01/2027-01-08\"";

/// Days looked at for the next opening: longer than any holiday.
const DAYS_AHEAD: usize = 62;

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// A week of opening times, and days on which it does not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hours {
    /// By day, Monday first: from, and until; until is past midnight if it is the earlier.
    week: [Vec<(Time, Time)>; 7],
    closed: Vec<(Date, Date)>,
}

/// The next time that people are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub at: Timestamp,
    /// «сегодня в 10:00», «завтра в 10:00», «в понедельник в 10:00».
    pub words: String,
}

impl Hours {
    /// Adds `mon-fri = "10:00-20:00"`; the error says which half is wrong.
    pub fn open(&mut self, days: &str, span: &str) -> Result<(), String> {
        let days = days_of(days)?;
        let (from, until) = span.split_once('-').ok_or(FORM)?;
        let times = time(from).zip(time(until)).filter(|(from, until)| from != until || *from == Time::MIN);
        let times = times.ok_or_else(|| format!("`{span}` is not {FORM}"))?;
        days.into_iter().for_each(|day| self.week[day].push(times));
        Ok(())
    }

    /// Adds a day, or a first and a last one, on which nobody is there.
    pub fn close(&mut self, days: &str) -> Result<(), String> {
        let (first, last) = days.split_once('/').unwrap_or((days, days));
        let dates = date(first).zip(date(last)).filter(|(first, last)| first <= last);
        self.closed.push(dates.ok_or_else(|| format!("`{days}` is not {CLOSED_FORM}"))?);
        Ok(())
    }

    pub fn is_open(&self, zone: &TimeZone, now: Timestamp) -> bool {
        let Some(here) = local(zone, now) else { return false };
        let (date, time) = (here.date(), here.time());
        let today =
            self.spans(date).iter().any(|(from, until)| time >= *from && (until <= from || time < *until));
        let night = date.yesterday().is_ok_and(|yesterday| {
            self.spans(yesterday).iter().any(|(from, until)| until < from && time < *until)
        });
        today || night
    }

    /// When they open next.
    pub fn opens(&self, zone: &TimeZone, now: Timestamp) -> Option<Opening> {
        let here = local(zone, now)?;
        let mut day = here.date();
        for ahead in 0..DAYS_AHEAD {
            let from = self.spans(day).iter().map(|(from, _)| *from);
            let next = from.filter(|from| ahead > 0 || *from > here.time()).min();
            if let Some(from) = next {
                let at = day.to_datetime(from).to_zoned(zone.clone()).ok()?;
                let day = day_in_words(day, ahead);
                return Some(Opening {
                    at: Timestamp(at.timestamp().as_microsecond()),
                    words: format!("{day} в {:02}:{:02}", from.hour(), from.minute()),
                });
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn spans(&self, date: Date) -> &[(Time, Time)] {
        if self.closed.iter().any(|(first, last)| *first <= date && date <= *last) {
            return &[];
        }
        &self.week[date.weekday().to_monday_zero_offset() as usize]
    }
}

/// The time of a place; `None` outside of what a calendar can say.
pub fn local(zone: &TimeZone, now: Timestamp) -> Option<jiff::Zoned> {
    Some(jiff::Timestamp::from_microsecond(now.0).ok()?.to_zoned(zone.clone()))
}

fn days_of(text: &str) -> Result<Vec<usize>, String> {
    let day = |name: &str| DAYS.iter().position(|(known, _)| *known == name.trim());
    let known = || {
        format!("`{text}` is not a day; days are mon, tue, wed, thu, fri, sat, sun, or a row such as mon-fri")
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = day(first).zip(day(last)).ok_or_else(known)?;
    // `sat-mon` goes over the end of the week.
    let length = (last + 7 - first) % 7 + 1;
    Ok((0..length).map(|n| (first + n) % 7).collect())
}

fn day_in_words(day: Date, ahead: usize) -> String {
    const WEEKDAYS: [&str; 7] =
        ["в понедельник", "во вторник", "в среду", "в четверг", "в пятницу", "в субботу", "в воскресенье"];
    const MONTHS: [&str; 12] = [
        "января",
        "февраля",
        "марта",
        "апреля",
        "мая",
        "июня",
        "июля",
        "августа",
        "сентября",
        "октября",
        "ноября",
        "декабря",
    ];
    match ahead {
        0 => "сегодня".to_owned(),
        1 => "завтра".to_owned(),
        2..=6 => WEEKDAYS[day.weekday().to_monday_zero_offset() as usize % 7].to_owned(),
        _ => format!("{} {}", day.day(), MONTHS[day.month() as usize % 13 - 1]),
    }
}

fn time(text: &str) -> Option<Time> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let digits = |text: &str| !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(hours) || !digits(minutes) || minutes.len() != 2 {
        return None;
    }
    if (hours, minutes) == ("24", "00") {
        return Some(Time::MIN);
    }
    Time::new(hours.parse().ok()?, minutes.parse().ok()?, 0, 0).ok()
}

fn date(text: &str) -> Option<Date> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Hours {
        let mut hours = Hours::default();
        hours.open("mon-fri", "10:00-20:00").unwrap();
        hours.open("sat", "11:00-18:00").unwrap();
        hours.close("2027-01-01/2027-01-08").unwrap();
        hours
    }

    #[track_caller]
    fn check(hours: &Hours, now: &str, open: bool, opens: &str) {
        let zone = TimeZone::get("Europe/Moscow").unwrap();
        let now = Timestamp(now.parse::<jiff::Timestamp>().unwrap().as_microsecond());
        assert_eq!(hours.is_open(&zone, now), open);
        let opening = hours.opens(&zone, now).unwrap();
        assert_eq!(opening.words, opens);
        assert!(opening.at > now && hours.is_open(&zone, opening.at), "{opening:?}");
    }

    #[test]
    fn a_shop_is_open_by_its_own_clock_and_calendar() {
        check(&shop(), "2026-11-18T09:00:00Z", true, "завтра в 10:00");
        check(&shop(), "2026-11-18T06:59:59Z", false, "сегодня в 10:00");
        check(&shop(), "2026-11-18T17:00:00Z", false, "завтра в 10:00");
        check(&shop(), "2026-11-21T16:00:00Z", false, "в понедельник в 10:00");
        check(&shop(), "2026-12-31T18:00:00Z", false, "9 января в 11:00");
    }

    #[test]
    fn a_night_shift_goes_over_midnight() {
        let mut night = Hours::default();
        night.open("fri-sun", "20:00-04:00").unwrap();
        check(&night, "2026-11-20T20:00:00Z", true, "сегодня в 20:00".replace("сегодня", "завтра").as_str());
        check(&night, "2026-11-23T00:30:00Z", true, "в пятницу в 20:00");
        check(&night, "2026-11-23T01:00:00Z", false, "в пятницу в 20:00");
    }

    #[test]
    fn round_the_clock_is_always_open() {
        let mut hours = Hours::default();
        hours.open("mon-sun", "00:00-24:00").unwrap();
        check(&hours, "2026-11-20T21:00:00Z", true, "завтра в 00:00");
    }

    #[test]
    fn what_is_no_time_says_so() {
        let mut hours = Hours::default();
        for (days, span) in
            [("mon-fry", "10:00-20:00"), ("mon", "10-20"), ("mon", "25:00-26:00"), ("mon", "10:00-10:00")]
        {
            assert!(hours.open(days, span).is_err(), "{days} {span}");
        }
        assert!(hours.close("2027-01-08/2027-01-01").is_err());
        assert!(hours.close("1 января").is_err());
    }
}
