//! Quiet hours: the part of the day in which a channel says nothing. Pure; the clock is an argument.

use domain::time::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;

/// What every refusal says about the form.
pub(crate) const FORM: &str = "from-until in hours and minutes, such as 23:00-07:00";

/// From one time of the day until another, over midnight if the second is the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hours {
    from: Time,
    until: Time,
}

impl Hours {
    pub(crate) fn parse(text: &str) -> Option<Hours> {
        let (from, until) = text.split_once('-')?;
        let (from, until) = (time(from)?, time(until)?);
        (from != until).then_some(Hours { from, until })
    }

    /// When the channel opens again, if it is closed now.
    ///
    /// Where the clocks are set forward over the opening hour, it opens at the first moment after the gap.
    pub(crate) fn closed_until(&self, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let here = jiff::Timestamp::from_microsecond(now.0).ok()?.to_zoned(zone.clone());
        let at = here.time();
        let over_midnight = self.from > self.until;
        let closed = match over_midnight {
            true => at >= self.from || at < self.until,
            false => at >= self.from && at < self.until,
        };
        if !closed {
            return None;
        }
        let day = if over_midnight && at >= self.from { here.date().tomorrow().ok()? } else { here.date() };
        let opens = day.to_datetime(self.until).to_zoned(zone.clone()).ok()?;
        Some(Timestamp(opens.timestamp().as_microsecond()))
    }
}

/// When a channel of these settings opens again; `None`: it is open.
pub(crate) fn closed_until(settings: &store::ChannelSettings, now: Timestamp) -> Option<Timestamp> {
    let hours = Hours::parse(settings.quiet_hours.as_deref()?)?;
    let zone =
        settings.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    hours.closed_until(&zone, now)
}

fn time(text: &str) -> Option<Time> {
    let (hours, minutes) = text.trim().split_once(':')?;
    if hours.is_empty()
        || minutes.len() != 2
        || !(hours.to_owned() + minutes).bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    Time::new(hours.parse().ok()?, minutes.parse().ok()?, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hours: &str, zone: &str, now: &str, expected: Option<&str>) {
        let at = |text: &str| Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_microsecond());
        let zone = TimeZone::get(zone).unwrap();
        let closed = Hours::parse(hours).unwrap().closed_until(&zone, at(now));
        assert_eq!(closed, expected.map(at), "{hours} {now}");
    }

    #[test]
    fn a_night_goes_over_midnight_in_the_time_of_the_place() {
        check("23:00-07:00", "Europe/Moscow", "2026-11-15T12:00:00Z", None);
        check("23:00-07:00", "Europe/Moscow", "2026-11-15T20:00:00Z", Some("2026-11-16T04:00:00Z"));
        check("23:00-07:00", "Europe/Moscow", "2026-11-16T03:59:59Z", Some("2026-11-16T04:00:00Z"));
        check("23:00-07:00", "Europe/Moscow", "2026-11-16T04:00:00Z", None);
    }

    #[test]
    fn a_rest_within_the_day_ends_on_that_day() {
        check("13:00-14:30", "UTC", "2026-11-15T13:00:00Z", Some("2026-11-15T14:30:00Z"));
        check("13:00-14:30", "UTC", "2026-11-15T14:30:00Z", None);
    }

    #[test]
    fn an_opening_hour_that_the_clocks_leap_over_is_the_moment_after() {
        check("23:00-02:30", "Europe/Berlin", "2026-03-28T23:30:00Z", Some("2026-03-29T01:30:00Z"));
    }

    #[test]
    fn what_are_no_hours_is_refused() {
        for text in [
            "",
            "23",
            "23:00",
            "23:00-23:00",
            "25:00-07:00",
            "23:60-07:00",
            "23-07",
            "-1:00-07:00",
            "1:0-7:00",
        ] {
            assert_eq!(Hours::parse(text), None, "{text}");
        }
    }
}
