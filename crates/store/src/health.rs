//! How the database does, as this process sees it: from the calls that were made, never by default.
//!
//! A call that was answered ends most troubles. Not those of writing: a database on a full disk answers questions, so
//! only a write that went through (`wrote`) shows that it is well again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::StoreError;

/// A node asks its database about every second; this long without an answer is trouble.
const SILENCE: Duration = Duration::from_secs(5);
/// A node that sends asks for work at least every second; this long without a claim or an outcome is no rest.
const NO_WORK: Duration = Duration::from_secs(15);
/// What it is called when the database answers and nothing is claimed or written down: the kind of that illness.
pub const STANDS_STILL: &str = "sending stands still: no claim and no outcome; see the log";
/// A small question takes milliseconds; so many in a row that took this long are trouble.
const SLOW: Duration = Duration::from_secs(2);
const SLOW_TIMES: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Nothing was answered yet.
    Unknown,
    Good,
    Ill(Illness),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illness {
    /// What is wrong, in a few words for everybody.
    pub kind: &'static str,
    /// The same with its place and what helps, for whoever may know.
    pub words: String,
    pub lasts: Duration,
}

/// Clones share what they know.
#[derive(Debug, Clone)]
pub(crate) struct Pulse(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    answered: Option<Instant>,
    ill: Option<Ill>,
    /// Damage that was found stays until somebody has checked again.
    damaged: Option<Ill>,
    /// Words about little space; no illness yet.
    space: Option<String>,
    /// Since when this process sends, and when a claim or an outcome last went well.
    sends: Option<Instant>,
    worked: Option<Instant>,
    /// Questions in a row that took long, and how long the last one took.
    slow: u32,
    took: Duration,
}

#[derive(Debug)]
struct Ill {
    since: Instant,
    kind: &'static str,
    words: String,
    /// Only a write ends it.
    of_writing: bool,
}

impl Pulse {
    pub(crate) fn new() -> Pulse {
        Pulse(Arc::default())
    }

    /// The database answered.
    pub(crate) fn answered(&self) {
        let mut state = self.lock();
        state.answered = Some(Instant::now());
        if state.ill.as_ref().is_some_and(|ill| !ill.of_writing) {
            state.ill = None;
        }
    }

    /// Something was written and is on the disk.
    pub(crate) fn wrote(&self) {
        let mut state = self.lock();
        state.answered = Some(Instant::now());
        state.ill = None;
    }

    /// A refusal that is about the call alone says that the database is well.
    pub(crate) fn failed(&self, error: &StoreError) {
        let (kind, of_writing) = match error {
            StoreError::DiskFull { .. } => ("no space left on the disk of the database", true),
            StoreError::ReadOnly { .. } => ("the database cannot be written", true),
            StoreError::FileGone { .. } => {
                ("the database file was deleted or replaced; nothing is sent; see the log", true)
            }
            StoreError::NoStandby { .. } => ("the database waits for a standby that is gone", true),
            StoreError::Unreachable { .. } | StoreError::NoFile { .. } => {
                ("the database cannot be reached", false)
            }
            StoreError::CommitUnknown { .. } => ("the database does not answer", false),
            StoreError::Busy { .. } | StoreError::Database(_) => return,
            StoreError::Corrupt { .. } => {
                let (since, words) = (Instant::now(), error.to_string());
                let kind = "the database is damaged";
                self.lock().damaged.get_or_insert(Ill { since, kind, words, of_writing: true });
                return;
            }
            _ => return self.answered(),
        };
        let mut state = self.lock();
        if !of_writing && state.ill.as_ref().is_some_and(|ill| ill.of_writing) {
            // A lost wire while the disk is full is not the end of the full disk, nor the cause.
            return;
        }
        let since = state.ill.as_ref().map_or_else(Instant::now, |ill| ill.since);
        state.ill = Some(Ill { since, kind, words: error.to_string(), of_writing });
    }

    /// From now on claims and outcomes are expected.
    pub(crate) fn sends(&self) {
        self.lock().sends.get_or_insert_with(Instant::now);
    }

    /// A claim was answered, or outcomes are on the disk.
    pub(crate) fn worked(&self) {
        self.lock().worked = Some(Instant::now());
    }

    /// A look through everything found nothing wrong.
    pub(crate) fn sound(&self) {
        self.lock().damaged = None;
    }

    pub(crate) fn space(&self, little: Option<String>) {
        self.lock().space = little;
    }

    /// How long a question took that was asked for its own sake.
    pub(crate) fn took(&self, took: Duration) {
        let mut state = self.lock();
        state.slow = if took > SLOW { state.slow.saturating_add(1) } else { 0 };
        state.took = took;
    }

    pub(crate) fn slowness(&self) -> Option<String> {
        let state = self.lock();
        (state.slow >= SLOW_TIMES).then(|| {
            format!(
                "the database took {:.1} s for a small question, {} times in a row; look at the load of its machine, its \
                 disk and the network on the way",
                state.took.as_secs_f64(),
                state.slow
            )
        })
    }

    pub(crate) fn warning(&self) -> Option<String> {
        self.lock().space.clone()
    }

    pub(crate) fn health(&self) -> Health {
        self.health_at(Instant::now())
    }

    fn health_at(&self, now: Instant) -> Health {
        let state = self.lock();
        if let Some(ill) = state.damaged.as_ref().or(state.ill.as_ref()) {
            return Health::Ill(Illness { kind: ill.kind, words: ill.words.clone(), lasts: now - ill.since });
        }
        match state.answered.map(|at| now - at) {
            None => Health::Unknown,
            Some(lasts) if lasts > SILENCE => {
                let words = format!(
                    "the database has not answered for {} s; is its host up, and the network on the way?",
                    lasts.as_secs()
                );
                Health::Ill(Illness { kind: "the database does not answer", words, lasts })
            }
            Some(_) => state.working(now),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a database that answers also gives work and takes what was done, where that is expected.
    fn working(&self, now: Instant) -> Health {
        let Some(began) = self.sends else {
            return Health::Good;
        };
        let lasts = now.saturating_duration_since(self.worked.unwrap_or(began));
        if lasts > NO_WORK {
            let words = format!(
                "nothing was claimed and no outcome written down for {} s although the database answers; see in the log of the \
                 node what fails, and start it again if it says nothing",
                lasts.as_secs()
            );
            return Health::Ill(Illness { kind: STANDS_STILL, words, lasts: lasts - NO_WORK });
        }
        if self.worked.is_some() { Health::Good } else { Health::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pulse: &Pulse, later: u64) -> String {
        match pulse.health_at(Instant::now() + Duration::from_secs(later)) {
            Health::Ill(illness) => illness.words,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_node_that_sends_and_gets_nothing_done_stands_still_although_the_database_answers() {
        let pulse = Pulse::new();
        let at = |later: u64| {
            pulse.answered();
            pulse.health_at(Instant::now() + Duration::from_secs(later).min(SILENCE))
        };
        assert_eq!(at(0), Health::Good, "who does not send needs no work");
        pulse.sends();
        assert_eq!(at(0), Health::Unknown, "nothing was claimed yet");
        pulse.worked();
        assert_eq!(at(0), Health::Good);
        let state = pulse.lock();
        let later = Instant::now() + NO_WORK + Duration::from_secs(3);
        let Health::Ill(illness) = state.working(later) else { panic!("it stands still") };
        assert_eq!((illness.kind, illness.lasts.as_secs()), (STANDS_STILL, 3));
        assert!(illness.words.contains("for 18 s although the database answers"), "{}", illness.words);
    }

    #[test]
    fn nothing_is_healthy_by_default_and_silence_is_trouble() {
        let pulse = Pulse::new();
        assert_eq!(pulse.health(), Health::Unknown);
        pulse.answered();
        assert_eq!(pulse.health(), Health::Good);
        assert!(words(&pulse, 7).contains("has not answered for 7 s"));
        pulse.answered();
        assert_eq!(pulse.health(), Health::Good);
    }

    #[test]
    fn a_full_disk_is_over_when_something_was_written_not_when_a_question_was_answered() {
        let pulse = Pulse::new();
        let address = || "sqlite:rupor.db".to_owned();
        pulse.failed(&StoreError::DiskFull { address: address() });
        pulse.answered();
        pulse.failed(&StoreError::Unreachable { address: address(), problem: "away".into() });
        pulse.answered();
        assert!(words(&pulse, 0).contains("no space left"));
        pulse.wrote();
        assert_eq!(pulse.health(), Health::Good);
        pulse.failed(&StoreError::Unreachable { address: address(), problem: "away".into() });
        assert!(words(&pulse, 0).contains("away"));
        pulse.answered();
        assert_eq!(pulse.health(), Health::Good);
        pulse.failed(&StoreError::KeyConflict { key: "k".into() });
        assert_eq!(pulse.health(), Health::Good, "a refused call is an answer");
    }
}
