//! The breaker: after trouble with an account, one read-only call goes first.
//!
//! The ledger keeps the cooldown, for all nodes. What opens again after it is only a guess, so the first delivery asks
//! the platform something harmless and the others wait for the answer: an outage costs one call, no attempt and no
//! second try of an unknown outcome.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::AccountId;
use domain::outcome::{Category, Certainty, Failure, Outcome, Scope};

/// One gate per account: its lock is held while somebody probes, and it remembers the last failure.
type Gate = Arc<tokio::sync::Mutex<Option<(tokio::time::Instant, Failure)>>>;

#[derive(Debug, Default)]
pub(super) struct Breakers {
    gates: Mutex<HashMap<AccountId, Gate>>,
}

impl Breakers {
    /// The gate of an account that is in doubt.
    pub(super) fn doubted(&self, account: AccountId) -> Option<Gate> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).get(&account).cloned()
    }

    /// From now on somebody has to ask first.
    pub(super) fn doubt(&self, account: AccountId) -> Gate {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(account).or_default())
    }

    pub(super) fn trust(&self, account: AccountId) {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).remove(&account);
    }

    /// Another history: the ids may be others' now.
    pub(super) fn forget(&self) {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What an outcome says about the account behind it.
    pub(super) fn learn(&self, account: AccountId, outcome: &Outcome) {
        match outcome {
            Outcome::Sent(_) => {}
            Outcome::Failed(failure) if is_trouble(failure) => drop(self.doubt(account)),
            Outcome::Failed(_) => {}
        }
    }
}

/// Trouble of the whole account, or an answer nobody got. A flood is neither: it names its wait.
fn is_trouble(failure: &Failure) -> bool {
    failure.category == Category::Transient
        && !failure.is_flood()
        && (failure.scope == Scope::Platform || failure.certainty == Certainty::Unknown)
}

/// What a failed probe means for the delivery that waited for it: nothing was sent, the account cools down.
pub(super) fn refusal(failure: Failure) -> Failure {
    Failure { scope: Scope::Platform, certainty: Certainty::NotSent, ..failure }
}
