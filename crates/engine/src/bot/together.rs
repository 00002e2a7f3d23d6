//! Calls of platforms that come at the same time are stored together: while one batch is on its way to the disk, the next
//! one gathers. Alone, a call waits for nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::{AccountId, WorkspaceId};
use platforms::incoming::Incoming;
use platforms::platform::Platform;
use store::{Received, Store, StoreError};
use tokio::sync::oneshot;

use super::receive::receive;

/// Calls of one batch.
const CALLS_MAX: usize = 256;

/// What waits to be stored, by account. An account stands here exactly while somebody stores for it.
#[derive(Debug, Clone, Default)]
pub struct Together {
    waiting: Arc<Mutex<HashMap<Whose, Vec<Call>>>>,
}

type Whose = (WorkspaceId, AccountId);

#[derive(Debug)]
struct Call {
    events: Vec<Incoming>,
    answer: oneshot::Sender<store::Result<Received>>,
}

impl Together {
    /// Like `receive`, durable before it returns. How many were new is known of the batch alone.
    pub async fn receive(
        &self,
        store: &Store,
        ws: WorkspaceId,
        account: AccountId,
        platform: &'static dyn Platform,
        events: Vec<Incoming>,
    ) -> store::Result<Received> {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let begins = !waiting.contains_key(&(ws, account));
            waiting.entry((ws, account)).or_default().push(Call { events, answer });
            begins
        };
        if begins {
            // A task of its own: whoever called first may hang up, and the others still wait.
            let porter = Porter { whose: (ws, account), together: self.clone(), done: false };
            tokio::spawn(porter.store_all(store.clone(), platform));
        }
        let lost = || Err(StoreError::Database("a batch of updates was given up; see the log".into()));
        answered.await.unwrap_or_else(|_| lost())
    }
}

/// Whoever stores for an account. If it panics, those who wait hear it and the next call begins anew.
struct Porter {
    whose: Whose,
    together: Together,
    done: bool,
}

impl Drop for Porter {
    fn drop(&mut self) {
        if !self.done {
            self.together.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.whose);
        }
    }
}

impl Porter {
    async fn store_all(mut self, store: Store, platform: &'static dyn Platform) {
        loop {
            let batch = {
                let mut waiting = self.together.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let calls = waiting.entry(self.whose).or_default();
                if calls.is_empty() {
                    // Under the same lock: a call that comes now finds nobody and begins.
                    waiting.remove(&self.whose);
                    self.done = true;
                    return;
                }
                let n = calls.len().min(CALLS_MAX);
                calls.drain(..n).collect::<Vec<_>>()
            };
            self.store_batch(&store, platform, batch).await;
        }
    }

    async fn store_batch(&self, store: &Store, platform: &'static dyn Platform, batch: Vec<Call>) {
        let (ws, account) = self.whose;
        let events: Vec<Incoming> = batch.iter().flat_map(|call| call.events.iter().cloned()).collect();
        let all = receive(store, ws, account, platform, &events, None).await;
        let alone = batch.len() == 1;
        for call in batch {
            let answer = match &all {
                // One that no database takes must not keep the others out; a database in trouble is asked no more often.
                Err(StoreError::Database(_) | StoreError::Invalid { .. }) if !alone => {
                    receive(store, ws, account, platform, &call.events, None).await
                }
                all => all.clone(),
            };
            // A caller that has hung up asks again.
            let _ = call.answer.send(answer);
        }
    }
}
