//! When a campaign will be done: a walk through the time to come, from one change of pace to the next.
//!
//! Windows open and close by the clock of each zone, a ramp goes up, the first ones are looked at before the others
//! follow. Between two such moments every account sends evenly, so the walk has a few steps for each of them, however many
//! people wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::campaign::Window;
use crate::ids::AccountId;
use crate::time::{Span, Timestamp};

/// So many changes of pace are looked at; windows of a month have a hundred and twenty for each zone.
const STEPS_MAX: usize = 20_000;
/// Nobody plans further ahead.
const AHEAD_MAX: Span = Span::from_hours(24 * 366);

/// People who are written to together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub account: AccountId,
    /// Where their clock counts.
    pub zone: String,
    /// They get it before the others.
    pub first: bool,
    /// Who has not come to an end.
    pub left: f64,
}

/// Everything that decides how fast it goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub groups: Vec<Group>,
    /// Messages a second of each account for this campaign, and from when on it sends at all.
    pub accounts: BTreeMap<AccountId, (f64, Timestamp)>,
    /// Of the pace of the whole, the share of each account.
    pub shares: BTreeMap<AccountId, f64>,
    /// Until when the whole may send how much a second; afterwards `rate`.
    pub ramp: Vec<(Timestamp, f64)>,
    pub rate: Option<f64>,
    pub window: Option<Window>,
    /// How long the others wait when the first ones have it, and when that is over if it is known already.
    pub hold: Option<Span>,
    pub rest_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// When the last one has it; the deadline, if that comes first.
    pub done_at: Timestamp,
    /// Who does not get it before the deadline.
    pub late: f64,
}

impl Plan {
    /// `None`: something of it does not move at all, or not within a year.
    pub fn forecast(&self, now: Timestamp) -> Option<Forecast> {
        let mut left: Vec<f64> = self.groups.iter().map(|group| group.left).collect();
        let (mut at, mut rest_at) = (now, self.rest_at);
        for _ in 0..STEPS_MAX {
            let waiting: f64 = left.iter().sum();
            if waiting < 0.5 {
                return Some(Forecast { done_at: at, late: 0.0 });
            }
            if self.deadline.is_some_and(|deadline| deadline <= at) {
                return Some(Forecast { done_at: at, late: waiting.round() });
            }
            // An account that rests holds up nobody but its own people.
            let first_left = self.groups.iter().zip(&left).any(|(group, left)| {
                group.first && *left >= 0.5 && self.accounts.contains_key(&group.account)
            });
            if self.hold.is_some() && !first_left && rest_at.is_none() {
                rest_at = self.hold.map(|hold| at + hold);
            }
            let paces = self.paces(at, &left, rest_at);
            let next = self.next_change(at, &left, &paces, rest_at)?;
            if next - now > AHEAD_MAX {
                return None;
            }
            let seconds = (next - at).micros() as f64 / 1e6;
            for (left, pace) in left.iter_mut().zip(&paces) {
                *left = (*left - pace * seconds).max(0.0);
                // What is less than a person is the rounding of the clock.
                if *left < 1e-3 {
                    *left = 0.0;
                }
            }
            at = next;
        }
        None
    }

    fn may_be_fed(&self, group: &Group, at: Timestamp, rest_at: Option<Timestamp>) -> bool {
        let its_turn = group.first || self.hold.is_none() || rest_at.is_some_and(|rest_at| rest_at <= at);
        its_turn && self.window.is_none_or(|window| window.is_open(&group.zone, at))
    }

    /// Messages a second of each group: an account serves those whose turn it is by their number.
    fn paces(&self, at: Timestamp, left: &[f64], rest_at: Option<Timestamp>) -> Vec<f64> {
        let whole = self.ramp.iter().find(|(until, _)| at < *until).map(|(_, rate)| *rate).or(self.rate);
        let open: Vec<bool> = self
            .groups
            .iter()
            .zip(left)
            .map(|(group, left)| *left > 0.0 && self.may_be_fed(group, at, rest_at))
            .collect();
        let mut waiting: BTreeMap<AccountId, f64> = BTreeMap::new();
        for ((group, left), _) in self.groups.iter().zip(left).zip(&open).filter(|(_, open)| **open) {
            *waiting.entry(group.account).or_default() += left;
        }
        self.groups
            .iter()
            .zip(left)
            .zip(&open)
            .map(|((group, left), open)| {
                let Some((own, from)) = self.accounts.get(&group.account).filter(|_| *open) else {
                    return 0.0;
                };
                if at < *from {
                    return 0.0;
                }
                let share = whole.map(|rate| rate * self.shares.get(&group.account).copied().unwrap_or(1.0));
                share.map_or(*own, |share| share.min(*own)) * left / waiting[&group.account].max(1e-9)
            })
            .collect()
    }

    /// The next moment at which anything goes faster or slower; `None`: nothing moves any more.
    fn next_change(
        &self,
        at: Timestamp,
        left: &[f64],
        paces: &[f64],
        rest_at: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let ends = left.iter().zip(paces).filter(|(_, pace)| **pace > 0.0);
        let ends =
            ends.map(|(left, pace)| at + Span::from_micros(((left / pace) * 1e6).ceil().max(1.0) as i64));
        let zones: BTreeSet<&str> = self
            .groups
            .iter()
            .zip(left)
            .filter(|(_, left)| **left > 0.0)
            .map(|(group, _)| group.zone.as_str())
            .collect();
        let windows = zones.iter().filter_map(|zone| self.window?.next_change(zone, at));
        let known = self.ramp.iter().map(|(until, _)| *until).chain(rest_at).chain(self.deadline);
        let known = known.chain(self.accounts.values().map(|(_, from)| *from));
        ends.chain(windows).chain(known).filter(|next| *next > at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-15 12:00:00 UTC: three in the afternoon in Moscow, nine in the evening in Tokyo.
    const NOON: Timestamp = Timestamp(1_794_744_000_000_000);

    fn group(account: i64, zone: &str, first: bool, left: f64) -> Group {
        Group { account: AccountId(account), zone: zone.into(), first, left }
    }

    fn plan(groups: Vec<Group>) -> Plan {
        let accounts = [1, 2].map(|id| (AccountId(id), (10.0, Timestamp(0)))).into();
        Plan { groups, accounts, ..Plan::default() }
    }

    #[track_caller]
    fn check(plan: &Plan, seconds: i64, late: f64) {
        let forecast = plan.forecast(NOON).expect("it ends");
        let took = (forecast.done_at - NOON).millis();
        assert!((took - seconds * 1_000).abs() < 1_500, "{took} ms, {seconds} s expected");
        assert!((forecast.late - late).abs() < 2.0, "{} late, {late} expected", forecast.late);
    }

    #[test]
    fn the_slowest_account_decides() {
        check(&plan(vec![group(1, "", false, 1_000.0), group(2, "", false, 3_000.0)]), 300, 0.0);
        check(&plan(vec![]), 0, 0.0);
    }

    #[test]
    fn a_rate_of_the_whole_is_shared_and_a_ramp_goes_up() {
        let mut both = plan(vec![group(1, "", false, 1_000.0), group(2, "", false, 1_000.0)]);
        both.shares = [(AccountId(1), 0.5), (AccountId(2), 0.5)].into();
        both.rate = Some(4.0);
        check(&both, 500, 0.0);
        // A hundred seconds at one a second, then four.
        both.ramp = vec![(NOON + Span::from_secs(100), 1.0)];
        check(&both, 100 + 1_900 / 4, 0.0);
    }

    #[test]
    fn a_window_is_waited_for_by_the_clock_of_each_zone() {
        let mut two =
            plan(vec![group(1, "Europe/Moscow", false, 600.0), group(1, "Asia/Tokyo", false, 600.0)]);
        two.window = Window::parse("10:00-20:00");
        // Moscow is awake; it is ten in Tokyo at one in the night by UTC.
        check(&two, 13 * 3_600 + 60, 0.0);
        // Five hours are left in Moscow, at ten a second: the rest comes the next morning at seven by UTC.
        let mut many = plan(vec![group(1, "Europe/Moscow", false, 180_000.0 + 600.0)]);
        many.window = two.window;
        check(&many, 19 * 3_600 + 60, 0.0);
    }

    #[test]
    fn the_others_follow_when_the_first_ones_were_looked_at() {
        let mut canary = plan(vec![group(1, "", true, 100.0), group(1, "", false, 900.0)]);
        canary.hold = Some(Span::from_secs(600));
        check(&canary, 10 + 600 + 90, 0.0);
        // Those of an account that rests are waited for by nobody else.
        let mut beside = canary.clone();
        beside.groups.push(group(3, "", true, 50.0));
        beside.deadline = Some(NOON + Span::from_secs(2_000));
        check(&beside, 2_000, 50.0);
        canary.rest_at = Some(NOON + Span::from_secs(60));
        check(&canary, 60 + 90, 0.0);
    }

    #[test]
    fn a_deadline_says_who_does_not_get_it() {
        let mut short = plan(vec![group(1, "", false, 1_000.0)]);
        short.deadline = Some(NOON + Span::from_secs(60));
        check(&short, 60, 400.0);
        short.accounts.insert(AccountId(1), (10.0, NOON + Span::from_secs(30)));
        check(&short, 60, 700.0);
    }

    #[test]
    fn what_never_moves_has_no_end() {
        let mut stuck = plan(vec![group(3, "", false, 1.0)]);
        assert_eq!(stuck.forecast(NOON), None);
        stuck.deadline = Some(NOON + Span::from_secs(60));
        check(&stuck, 60, 1.0);
    }
}
