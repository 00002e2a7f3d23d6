//! The two time types of the product: an instant and a span, both in whole microseconds.
//!
//! Microseconds, because that is what PostgreSQL keeps and what a thousand slots a second need.
//! Nothing here reads a clock: the database keeps the one clock, and tests hold it in their hand.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// A span of microseconds. What is longer than can be counted is as long as can be counted: the numbers come from
/// settings and from strangers, and none of them may end a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub i64);

impl Timestamp {
    /// Later than everything that can be scheduled.
    pub const NEVER: Timestamp = Timestamp(i64::MAX);

    /// As programs read it: RFC 3339 in UTC; empty for a time that no calendar has.
    pub fn rfc3339(self) -> String {
        jiff::Timestamp::from_microsecond(self.0).map_or_else(|_| String::new(), |at| at.to_string())
    }

    pub const fn from_millis(ms: i64) -> Timestamp {
        Timestamp(ms.saturating_mul(1_000))
    }

    pub const fn millis(self) -> i64 {
        self.0 / 1_000
    }
}

impl Span {
    pub const ZERO: Span = Span(0);

    pub const fn from_micros(us: i64) -> Span {
        Span(us)
    }

    pub const fn from_millis(ms: i64) -> Span {
        Span(ms.saturating_mul(1_000))
    }

    pub const fn from_secs(secs: i64) -> Span {
        Span(secs.saturating_mul(1_000_000))
    }

    pub const fn from_hours(hours: i64) -> Span {
        Span::from_secs(hours.saturating_mul(3_600))
    }

    pub const fn millis(self) -> i64 {
        self.0 / 1_000
    }

    pub const fn micros(self) -> i64 {
        self.0
    }
}

impl Add<Span> for Timestamp {
    type Output = Timestamp;
    fn add(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Timestamp {
    type Output = Timestamp;
    fn sub(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_sub(span.0))
    }
}

impl Sub for Timestamp {
    type Output = Span;
    fn sub(self, earlier: Timestamp) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl From<Span> for std::time::Duration {
    fn from(span: Span) -> std::time::Duration {
        std::time::Duration::from_micros(span.0.max(0).unsigned_abs())
    }
}
