//! What a campaign is told to keep to, as it stands in its row.

use domain::campaign::Window;
use domain::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use store::AHEAD_MAX;

use crate::span;

/// Rows of one lane that wait to be claimed: a minute's worth, within reason.
const LOOK_AHEAD_S: f64 = 60.0;
const AHEAD_MIN: i64 = 256;

/// Every key is optional; an unknown one is an error that names the known ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Messages a second in all, whatever the accounts could do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Before ordinary posts of the same bot; for emergencies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// No second message to somebody who got one this lately, such as `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_gap: Option<String>,
    /// How late a planned start may be, such as `1h`; later it does not start by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_by: Option<String>,
    /// Whoever has not got it so long after the start does not get it any more, such as `12h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The part of the day in which people are written to, by their own clock, such as `10:00-20:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// The zone of people of whom none is known; UTC unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Slowly first: each step lasts `for`, at `rate` messages a second in all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ramp: Vec<Ramp>,
    /// A few first, then a pause to look, then the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    #[serde(skip_serializing_if = "Guards::is_empty")]
    pub guards: Guards,
    /// Faster than is free, where an account is set for it, until so much is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid: Option<Paid>,
    /// A button that ends it for the person who presses it; there unless this says false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsubscribe: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paid {
    /// The most that is spent; then it goes on at the pace that is free.
    pub stars: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    #[serde(rename = "for")]
    pub length: String,
    pub rate: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// Of all people, such as 0.01.
    pub share: f64,
    /// How long the others wait when the first ones have it, such as `30m`.
    pub hold: String,
}

/// Shares of those who have come to an end since it began or somebody let it go on; above one of them the campaign pauses and
/// says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guards {
    /// Refused or given up, the gone ones not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<f64>,
    /// Blocked us or left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<f64>,
    /// Nobody knows whether they got it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<f64>,
    /// Stopped the bot since it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stops: Option<f64>,
    /// So many cooldowns of one account in ten minutes pause the part of that account alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldowns: Option<u32>,
    /// Above a share it ends for good instead of pausing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
}

/// What the shares of a guard are taken from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    pub all: i64,
    pub failed: i64,
    pub gone: i64,
    pub unknown: i64,
    pub stops: i64,
}

impl Ended {
    /// What came after that.
    pub fn since(self, before: Ended) -> Ended {
        Ended {
            all: self.all - before.all,
            failed: self.failed - before.failed,
            gone: self.gone - before.gone,
            unknown: self.unknown - before.unknown,
            stops: self.stops - before.stops,
        }
    }
}

/// So many must have come to an end before a share says anything.
const GUARD_MIN: i64 = 20;

impl Guards {
    fn is_empty(&self) -> bool {
        *self == Guards::default()
    }

    fn shares(&self) -> [Option<f64>; 4] {
        [self.failures, self.gone, self.unknown, self.stops]
    }

    /// Whether they look at how people ended.
    pub fn judge(&self) -> bool {
        self.shares().iter().any(Option::is_some)
    }

    /// Why the campaign pauses or ends, if it does.
    pub fn speak(&self, of: Ended) -> Option<String> {
        let ended = of.all;
        if ended < GUARD_MIN {
            return None;
        }
        let kinds = [
            ("failed", self.failures, of.failed),
            ("are gone", self.gone, of.gone),
            ("have an unknown outcome", self.unknown, of.unknown),
            ("stopped the bot", self.stops, of.stops),
        ];
        kinds.into_iter().find_map(|(words, limit, n)| {
            let limit = limit?;
            let share = n as f64 / ended as f64;
            let told = || {
                format!(
                    "guard: {:.0} % of {ended} {words}, {:.0} % are allowed",
                    share * 100.0,
                    limit * 100.0
                )
            };
            (share >= limit).then(told)
        })
    }
}

impl Policy {
    /// Messages a second in all, so long after the start.
    pub fn rate_after(&self, elapsed: Span) -> Option<f64> {
        let mut end = Span::ZERO;
        for step in &self.ramp {
            end = Span(end.0 + span::parse(&step.length).unwrap_or(Span::ZERO).0);
            if elapsed < end {
                return Some(step.rate);
            }
        }
        self.rate
    }

    /// Whether people of this zone may be written to now.
    pub fn is_open(&self, zone: &str, now: Timestamp) -> bool {
        self.window().is_none_or(|window| window.is_open(self.zone(zone), now))
    }

    pub fn window(&self) -> Option<Window> {
        self.window.as_deref().and_then(Window::parse)
    }

    /// By which clock people of this zone are written to.
    pub fn zone<'a>(&'a self, known: &'a str) -> &'a str {
        match known.is_empty() {
            true => self.time_zone.as_deref().unwrap_or("UTC"),
            false => known,
        }
    }

    /// Lots of those who get it first.
    pub fn first_lots(&self) -> i64 {
        self.canary.as_ref().map_or(0, |canary| (canary.share * store::LOTS as f64).ceil() as i64)
    }

    pub fn hold(&self) -> Option<Span> {
        self.canary.as_ref().and_then(|canary| span::parse(&canary.hold))
    }

    pub fn check(&self) -> anyhow::Result<()> {
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            anyhow::bail!("rate: {} is no pace; give messages a second above 0", self.rate.unwrap_or(0.0));
        }
        if let Some(bad) = self.ramp.iter().find(|step| !step.rate.is_finite() || step.rate <= 0.0) {
            anyhow::bail!("ramp: {} is no pace; give messages a second above 0", bad.rate);
        }
        if let Some(canary) = &self.canary
            && !(canary.share > 0.0 && canary.share < 1.0)
        {
            anyhow::bail!("canary: share {} is no part of all; write such as 0.01", canary.share);
        }
        if let Some(window) = &self.window
            && Window::parse(window).is_none()
        {
            anyhow::bail!("window: {window:?} is no part of a day; write {}", Window::FORM);
        }
        if let Some(zone) = &self.time_zone
            && !Window::knows_zone(zone)
        {
            anyhow::bail!("time_zone: {zone:?} is not known; write a name such as Europe/Moscow");
        }
        if let Some(bad) =
            self.guards.shares().into_iter().flatten().find(|share| !(0.0..=1.0).contains(share))
        {
            anyhow::bail!("guards: {bad} is no share; write such as 0.1 for a tenth");
        }
        if self.guards.abort && !self.guards.judge() {
            anyhow::bail!("guards: abort = true needs a share above which it ends, such as failures = 0.1");
        }
        if self.guards.cooldowns == Some(0) {
            anyhow::bail!("guards: 0 cooldowns would never let it begin; write such as 3");
        }
        if let Some(paid) = &self.paid
            && !(paid.stars.is_finite() && paid.stars > 0.0)
        {
            anyhow::bail!("paid: {} is no amount; write the most that may be spent, such as 500", paid.stars);
        }
        let mut times: Vec<(&str, Option<&String>)> =
            self.ramp.iter().map(|step| ("ramp", Some(&step.length))).collect();
        times.push(("canary", self.canary.as_ref().map(|canary| &canary.hold)));
        times.extend([
            ("min_gap", self.min_gap.as_ref()),
            ("late_by", self.late_by.as_ref()),
            ("deadline", self.deadline.as_ref()),
        ]);
        for (name, written) in times {
            let Some(text) = written else { continue };
            if span::parse(text).is_none_or(|span| span.0 <= 0) {
                anyhow::bail!("{name}: {text:?} is no time; write {}", span::FORM);
            }
        }
        Ok(())
    }

    pub fn min_gap(&self) -> Span {
        time(&self.min_gap).unwrap_or(Span::ZERO)
    }

    pub fn late_by(&self) -> Option<Span> {
        time(&self.late_by)
    }

    pub fn deadline(&self) -> Option<Span> {
        time(&self.deadline)
    }

    pub fn has_unsubscribe(&self) -> bool {
        self.unsubscribe.unwrap_or(true)
    }
}

fn time(written: &Option<String>) -> Option<Span> {
    written.as_deref().and_then(span::parse)
}

/// How many rows of a lane are made ahead at this pace; `None`: nothing paces it.
pub fn ahead(rate: Option<f64>) -> i64 {
    let wanted = rate.map_or(AHEAD_MAX, |rate| (rate * LOOK_AHEAD_S) as i64);
    wanted.clamp(AHEAD_MIN, AHEAD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: serde_json::Value) -> Policy {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_ramp_goes_up_step_by_step() {
        let ramp = serde_json::json!({"rate": 30.0, "ramp": [{"for": "10m", "rate": 5.0}, {"for": "20m", "rate": 10.0}]});
        let policy = policy(ramp);
        policy.check().unwrap();
        let at = |minutes: i64| policy.rate_after(Span::from_secs(minutes * 60));
        assert_eq!(
            [at(0), at(9), at(10), at(29), at(30)],
            [Some(5.0), Some(5.0), Some(10.0), Some(10.0), Some(30.0)]
        );
    }

    #[test]
    fn a_guard_speaks_when_enough_have_ended() {
        let guards = Guards { failures: Some(0.1), gone: Some(0.3), stops: Some(0.02), ..Guards::default() };
        let all = |failed, gone, unknown, stops| Ended { all: 100, failed, gone, unknown, stops };
        let few = Ended { all: 10, failed: 10, ..Ended::default() };
        assert_eq!(guards.speak(few), None, "ten are too few to say anything");
        assert_eq!(guards.speak(all(9, 29, 50, 1)), None);
        assert_eq!(guards.speak(all(10, 0, 0, 0)).unwrap(), "guard: 10 % of 100 failed, 10 % are allowed");
        assert!(guards.speak(all(0, 30, 0, 0)).unwrap().contains("are gone"));
        assert!(guards.speak(all(0, 0, 0, 2)).unwrap().contains("stopped the bot"));
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_the_fix() {
        let check = |text: serde_json::Value, expected: &str| {
            let problem = policy(text).check().unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        };
        check(serde_json::json!({"rate": 0.0}), "above 0");
        check(serde_json::json!({"window": "10-20"}), "10:00-20:00");
        check(serde_json::json!({"canary": {"share": 1.5, "hold": "1h"}}), "0.01");
        check(serde_json::json!({"canary": {"share": 0.5, "hold": "soon"}}), "canary");
        check(serde_json::json!({"time_zone": "Mars/Base"}), "Europe/Moscow");
        check(serde_json::json!({"guards": {"gone": 30.0}}), "0.1 for a tenth");
        check(serde_json::json!({"guards": {"cooldowns": 0}}), "such as 3");
        check(serde_json::json!({"guards": {"abort": true, "cooldowns": 3}}), "failures = 0.1");
        check(serde_json::json!({"paid": {"stars": 0.0}}), "such as 500");
        assert!(serde_json::from_value::<Policy>(serde_json::json!({"rat": 1})).is_err());
    }
}
