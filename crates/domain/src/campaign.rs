//! The life of a campaign: its states and the arrows between them.
//!
//! ```text
//! draft → scheduled → preparing → running ⇄ paused → finishing → finished
//! any that is not over → cancelling → cancelled | aborted        finished | aborted ─ retry → preparing
//! aborted before it began, because its time was missed ─ start → preparing | scheduled
//! ```

use jiff::civil::Time;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// What a press on the button of every campaign brings back to the bot.
pub const STOP_PRESS: &str = "rupor:stop";

/// The part of the day in which people are written to, by their own clock: from one time until another, over midnight
/// if the second is the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    from: Time,
    until: Time,
}

impl Window {
    /// What every refusal says about the form.
    pub const FORM: &str = "from-until in hours and minutes, such as 10:00-20:00";

    pub fn parse(text: &str) -> Option<Window> {
        let (from, until) = text.split_once('-')?;
        let (from, until) = (time_of_day(from)?, time_of_day(until)?);
        (from != until).then_some(Window { from, until })
    }

    /// Whether there is such a zone.
    pub fn knows_zone(name: &str) -> bool {
        TimeZone::get(name).is_ok()
    }

    /// When it opens or closes next where this zone counts.
    pub fn next_change(&self, zone: &str, now: Timestamp) -> Option<Timestamp> {
        let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
        let today = jiff::Timestamp::from_microsecond(now.0).ok()?.to_zoned(zone.clone()).date();
        // An hour that a change of the clock leaves out on one day is there on the next.
        let days =
            [Some(today), today.tomorrow().ok(), today.tomorrow().ok().and_then(|day| day.tomorrow().ok())];
        let at = |day: jiff::civil::Date, time: Time| day.to_datetime(time).to_zoned(zone.clone()).ok();
        let changes = days.into_iter().flatten().flat_map(|day| [at(day, self.from), at(day, self.until)]);
        let changes = changes.flatten().map(|at| Timestamp(at.timestamp().as_microsecond()));
        changes.filter(|at| *at > now).min()
    }

    /// Whether it is open now where this zone counts; an unknown zone counts as UTC.
    pub fn is_open(&self, zone: &str, now: Timestamp) -> bool {
        let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
        let Ok(now) = jiff::Timestamp::from_microsecond(now.0) else {
            return false;
        };
        let at = now.to_zoned(zone).time();
        match self.from < self.until {
            true => at >= self.from && at < self.until,
            false => at >= self.from || at < self.until,
        }
    }
}

fn time_of_day(text: &str) -> Option<Time> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let is_number =
        |text: &str| !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(hours) || !is_number(minutes) {
        return None;
    }
    Time::new(hours.parse().ok()?, minutes.parse().ok()?, 0, 0).ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CampaignStatus {
    Draft,
    /// Starts by itself at its time.
    Scheduled,
    /// Who gets it is being written down.
    Preparing,
    Running,
    /// Nothing leaves until somebody resumes.
    Paused,
    /// Nobody waits any more; what is on its way ends.
    Finishing,
    Finished,
    Cancelling,
    Cancelled,
    /// Ended by its deadline or by a guard.
    Aborted,
}

impl CampaignStatus {
    pub const ALL: [CampaignStatus; 10] = [
        CampaignStatus::Draft,
        CampaignStatus::Scheduled,
        CampaignStatus::Preparing,
        CampaignStatus::Running,
        CampaignStatus::Paused,
        CampaignStatus::Finishing,
        CampaignStatus::Finished,
        CampaignStatus::Cancelling,
        CampaignStatus::Cancelled,
        CampaignStatus::Aborted,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            CampaignStatus::Draft => "draft",
            CampaignStatus::Scheduled => "scheduled",
            CampaignStatus::Preparing => "preparing",
            CampaignStatus::Running => "running",
            CampaignStatus::Paused => "paused",
            CampaignStatus::Finishing => "finishing",
            CampaignStatus::Finished => "finished",
            CampaignStatus::Cancelling => "cancelling",
            CampaignStatus::Cancelled => "cancelled",
            CampaignStatus::Aborted => "aborted",
        }
    }

    pub fn parse(text: &str) -> Option<CampaignStatus> {
        CampaignStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Over, unless somebody tries again with those who failed.
    pub fn is_over(self) -> bool {
        matches!(self, CampaignStatus::Finished | CampaignStatus::Cancelled | CampaignStatus::Aborted)
    }

    /// Whether requests may leave.
    pub fn is_open(self) -> bool {
        matches!(self, CampaignStatus::Running | CampaignStatus::Finishing)
    }

    pub fn may_become(self, next: CampaignStatus) -> bool {
        use CampaignStatus::*;
        match self {
            Draft => matches!(next, Scheduled | Preparing | Cancelled),
            Scheduled => matches!(next, Preparing | Draft | Cancelled | Aborted),
            Preparing => matches!(next, Running | Paused | Cancelling),
            Running => matches!(next, Paused | Finishing | Cancelling),
            Paused => matches!(next, Preparing | Running | Cancelling),
            Finishing => matches!(next, Finished | Running | Paused | Cancelling),
            Finished => next == Preparing,
            Aborted => matches!(next, Preparing | Scheduled),
            Cancelling => matches!(next, Cancelled | Aborted),
            Cancelled => false,
        }
    }
}

impl std::fmt::Display for CampaignStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_open_by_the_clock_of_the_person() {
        // 2026-11-15 12:00:00 UTC: three in the afternoon in Moscow, nine in the evening in Tokyo.
        let now = Timestamp(1_794_744_000_000_000);
        let check = |window: &str, zone: &str, expected: bool| {
            assert_eq!(Window::parse(window).unwrap().is_open(zone, now), expected, "{window} {zone}");
        };
        check("10:00-20:00", "Europe/Moscow", true);
        check("10:00-20:00", "Asia/Tokyo", false);
        check("10:00-20:00", "", true);
        check("20:00-02:00", "Asia/Tokyo", true);
        check("12:00-12:01", "UTC", true);
        check("11:59-12:00", "UTC", false);
        assert_eq!(Window::parse("10-20"), None);
        assert_eq!(Window::parse("10:00-25:00"), None);
    }

    #[test]
    fn nothing_leaves_a_campaign_that_is_over_but_a_new_wave() {
        for status in CampaignStatus::ALL.into_iter().filter(|status| status.is_over()) {
            let next: Vec<_> =
                CampaignStatus::ALL.into_iter().filter(|next| status.may_become(*next)).collect();
            match status {
                CampaignStatus::Cancelled => assert_eq!(next, []),
                // Its time was missed: it may be given another.
                CampaignStatus::Aborted => {
                    assert_eq!(next, [CampaignStatus::Scheduled, CampaignStatus::Preparing]);
                }
                _ => assert_eq!(next, [CampaignStatus::Preparing]),
            }
        }
    }

    #[test]
    fn every_state_reads_back_and_everything_that_runs_can_be_cancelled() {
        for status in CampaignStatus::ALL {
            assert_eq!(CampaignStatus::parse(status.as_str()), Some(status));
            let ends =
                status.may_become(CampaignStatus::Cancelling) || status.may_become(CampaignStatus::Cancelled);
            assert!(ends || status.is_over(), "{status}");
        }
    }
}
