//! What a campaign is told to keep to, as it stands in its row.

use domain::time::Span;
use serde::{Deserialize, Serialize};

use crate::span;

/// Rows of one lane that wait to be claimed: a minute's worth, within reason.
const LOOK_AHEAD_S: f64 = 60.0;
const AHEAD_MIN: f64 = 256.0;
const AHEAD_MAX: f64 = 10_000.0;

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
    /// A button that ends it for the person who presses it; there unless this says false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsubscribe: Option<bool>,
}

impl Policy {
    pub fn check(&self) -> anyhow::Result<()> {
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            anyhow::bail!("rate: {} is no pace; give messages a second above 0", self.rate.unwrap_or(0.0));
        }
        for (name, written) in
            [("min_gap", &self.min_gap), ("late_by", &self.late_by), ("deadline", &self.deadline)]
        {
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
    let wanted = rate.map_or(AHEAD_MAX, |rate| rate * LOOK_AHEAD_S);
    wanted.clamp(AHEAD_MIN, AHEAD_MAX) as i64
}
