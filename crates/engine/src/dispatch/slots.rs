//! Slots for requests that no claim has paid for, asked for together.
//!
//! While one call to the ledger is out, those who come meanwhile wait for the next, which brings as many slots as
//! there are people: a ledger that is slow is asked less often, not more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::{AccountId, LaneId, WorkspaceId};
use domain::time::{Span, Timestamp};
use store::{Result, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ports::Ledger;

/// Slots of one call.
const SLOTS_MAX: usize = 1_000;
/// No slot is asked for later than this on purpose.
const LEAD_MAX: Span = Span::from_millis(500);

type Answer = Result<Timestamp>;
/// Somebody who waits for a slot, and the chat it is for.
type Waiter = (Option<LaneId>, oneshot::Sender<Answer>);

#[derive(Debug, Default)]
struct Counter {
    /// Held while a call is out.
    open: tokio::sync::Mutex<()>,
    queue: Mutex<Vec<Waiter>>,
}

#[derive(Debug)]
pub(super) struct SlotBatcher {
    ledger: Arc<dyn Ledger>,
    counters: Mutex<HashMap<AccountId, Arc<Counter>>>,
    /// What a call took lately, in microseconds: a slot that comes sooner would be missed as well.
    takes: AtomicI64,
}

impl SlotBatcher {
    pub(super) fn new(ledger: Arc<dyn Ledger>) -> SlotBatcher {
        SlotBatcher { ledger, counters: Mutex::default(), takes: AtomicI64::new(0) }
    }

    /// The next slot of an account, for a chat whose own slot has come or for none.
    pub(super) async fn reserve(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        lane: Option<LaneId>,
    ) -> Answer {
        let counter = self.counter(account);
        let (answer, mut answered) = oneshot::channel();
        queue(&counter).push((lane, answer));
        let _open = counter.open.lock().await;
        // Whoever had the counter before may have brought ours along.
        if let Ok(answer) = answered.try_recv() {
            return answer;
        }
        let people: Vec<_> = {
            let mut queue = queue(&counter);
            let n = queue.len().min(SLOTS_MAX);
            queue.drain(..n).collect()
        };
        let lanes = people.iter().map(|(lane, _)| *lane).collect();
        let asked = Instant::now();
        let lately = self.takes.load(Ordering::Relaxed);
        let lead = Span(lately).min(LEAD_MAX);
        let reserved = self.ledger.reserve_for(workspace, account, lanes, lead).await;
        let took = i64::try_from(asked.elapsed().as_micros()).unwrap_or(i64::MAX);
        // A slow one counts at once and is forgotten by and by.
        self.takes.store(took.max(lately - lately / 8), Ordering::Relaxed);
        match reserved {
            // Who has given up meanwhile leaves his slot unused.
            Ok(slots) => {
                people.into_iter().zip(slots).for_each(|((_, person), slot)| drop(person.send(Ok(slot))));
            }
            Err(error) => people.into_iter().for_each(|(_, person)| drop(person.send(Err(error.clone())))),
        }
        answered.try_recv().unwrap_or_else(|_| Err(StoreError::Database("a slot was not handed out".into())))
    }

    fn counter(&self, account: AccountId) -> Arc<Counter> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(counters.entry(account).or_default())
    }
}

fn queue(counter: &Counter) -> std::sync::MutexGuard<'_, Vec<Waiter>> {
    counter.queue.lock().unwrap_or_else(PoisonError::into_inner)
}
