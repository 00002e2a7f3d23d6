//! What this process has written through its store since it started, counted where everybody passes: `/metrics` shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::delivery::Status;

use crate::intake::{Fate, Ingested, PollHealth};
use crate::queue::{Enqueued, EnqueuedDelivery};

/// Clones share what they know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    enqueued: AtomicU64,
    deduped: AtomicU64,
    posts_stored: AtomicU64,
    posts_revised: AtomicU64,
    posts_seen: AtomicU64,
    posts_skipped: AtomicU64,
    polls_well: AtomicU64,
    polls_failed: AtomicU64,
    turns: AtomicU64,
}

/// The tally at one moment. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Deliveries that were queued: of posts, campaigns, bots, alerts and requeues.
    pub enqueued: u64,
    /// Deliveries that were left out as repeats when they were to be queued.
    pub deduped: u64,
    pub posts_stored: u64,
    /// New words of a known post.
    pub posts_revised: u64,
    /// Known posts that had not changed.
    pub posts_seen: u64,
    /// Of the stored ones those that nobody should hear, with the reason in their row.
    pub posts_skipped: u64,
    pub polls_well: u64,
    pub polls_failed: u64,
    /// Turns of dialogues.
    pub turns: u64,
}

/// The connections of this process to its database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolUse {
    pub most: u64,
    pub busy: u64,
    pub idle: u64,
    /// Who waits for one.
    pub waiting: u64,
}

fn add(count: &AtomicU64, n: usize) {
    count.fetch_add(n as u64, Ordering::Relaxed);
}

impl Tally {
    pub(crate) fn enqueued(&self, n: usize) {
        add(&self.0.enqueued, n);
    }

    pub(crate) fn deliveries(&self, deliveries: &[EnqueuedDelivery]) {
        let of = |status| deliveries.iter().filter(|delivery| delivery.status == status).count();
        add(&self.0.enqueued, of(Status::Queued));
        add(&self.0.deduped, of(Status::Deduped));
    }

    pub(crate) fn batch(&self, batch: &[Enqueued]) {
        batch
            .iter()
            .filter(|message| message.created)
            .for_each(|message| self.deliveries(&message.deliveries));
    }

    pub(crate) fn posts(&self, posts: &[Ingested]) {
        for post in posts {
            match post.fate {
                Fate::Stored => add(&self.0.posts_stored, 1),
                Fate::Revised => add(&self.0.posts_revised, 1),
                Fate::Seen => add(&self.0.posts_seen, 1),
            }
            add(&self.0.posts_skipped, usize::from(post.fate == Fate::Stored && post.skipped.is_some()));
            self.deliveries(&post.deliveries);
        }
    }

    pub(crate) fn seen(&self, n: usize) {
        add(&self.0.posts_seen, n);
    }

    pub(crate) fn poll(&self, health: &PollHealth) {
        match health {
            PollHealth::Well => add(&self.0.polls_well, 1),
            PollHealth::Failed(_) => add(&self.0.polls_failed, 1),
            PollHealth::Unchanged => {}
        }
    }

    pub(crate) fn turns(&self, n: usize) {
        add(&self.0.turns, n);
    }

    pub(crate) fn written(&self) -> Written {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Written {
            enqueued: of(&self.0.enqueued),
            deduped: of(&self.0.deduped),
            posts_stored: of(&self.0.posts_stored),
            posts_revised: of(&self.0.posts_revised),
            posts_seen: of(&self.0.posts_seen),
            posts_skipped: of(&self.0.posts_skipped),
            polls_well: of(&self.0.polls_well),
            polls_failed: of(&self.0.polls_failed),
            turns: of(&self.0.turns),
        }
    }
}
