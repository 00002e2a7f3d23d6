//! How the database does, as this process sees it: from the calls that were made, never by default.
//!
//! A call that was answered ends most troubles. Not those of writing: a database on a full disk answers questions, so
//! only a write that went through (`wrote`) shows that it is well again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::StoreError;

/// A node asks its database about every second; this long without an answer is trouble.
const SILENCE: Duration = Duration::from_secs(5);
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
            Some(_) => Health::Good,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
