//! One claim from its slot to its outcome, in order: `prepare`, then for each part `admit` and `send`.
//!
//! Nothing here tries again: every failure ends the claim as a value, and the ledger decides what that means.
//! The order is what makes the promises true. The mark is durable before the first byte can leave; a part that is
//! visible is written down before the next one; the claim is given back only while nothing has left.

use std::panic::AssertUnwindSafe;

use domain::outcome::{Category, Failure, Outcome, Scope, Sent};
use domain::time::Timestamp;
use futures_util::FutureExt;
use platforms::part::Part;
use store::{Claim, FinishKind, Parts, StoreError};

use super::unmarked::Entered;
use super::{Dispatcher, published};
use crate::upkeep::planted;

/// Why a delivery goes no further.
#[derive(Debug)]
pub(super) enum Halt {
    /// The claim is somebody else's: nothing to say.
    Lost,
    /// Nothing has left: hand it back.
    Release,
    End(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Halt {
        Halt::End(failure)
    }
}

pub(super) type Step<T> = Result<T, Halt>;

/// How far this claim has come.
pub(super) struct Progress {
    /// Ids of the parts before the current one.
    pub(super) earlier: Vec<Vec<String>>,
    /// A request of this claim has been marked.
    pub(super) marked: bool,
    /// Held until then.
    pub(super) unmarked: Option<Entered>,
    pub(super) lease_until: Timestamp,
}

impl Dispatcher {
    /// Carries out a claim; `None` when it is not ours any more.
    /// With the parts that are visible, and the platform that showed them.
    pub(super) async fn deliver(
        &self,
        claim: &Claim,
        entered: Entered,
    ) -> Option<(FinishKind, Parts, &'static str)> {
        // A panic is this delivery's misfortune and nobody else's.
        let attempt =
            planted::or_panic("delivery of account", claim.account_id.0, self.attempt(claim, entered));
        let done = AssertUnwindSafe(attempt).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(delivery = claim.delivery_id.0, "a delivery panicked");
            Err(Halt::End(nobody_knows("panic", "the delivery could not be carried out; see the log")))
        });
        match done {
            Ok((sent, parts, platform)) => Some((FinishKind::Outcome(Outcome::Sent(sent)), parts, platform)),
            Err(Halt::End(failure)) => {
                Some((FinishKind::Outcome(Outcome::Failed(failure)), Parts::new(), ""))
            }
            Err(Halt::Release) => Some((FinishKind::Release, Parts::new(), "")),
            Err(Halt::Lost) => None,
        }
    }

    async fn attempt(&self, claim: &Claim, entered: Entered) -> Step<(Sent, Parts, &'static str)> {
        let work = self.prepare(claim).await?;
        self.ask_first(claim, &work).await?;
        let mut progress = Progress {
            earlier: Vec::new(),
            marked: false,
            unmarked: Some(entered),
            lease_until: claim.lease_until,
        };
        if claim.counters.unknowns > 0 {
            self.look_first(claim, &work, &mut progress).await?;
        }
        for (index, part) in work.parts.iter().enumerate() {
            if index < progress.earlier.len() {
                continue;
            }
            let ids = match claim.parts.get(&(index as u32)) {
                Some(line) => published::ids(line),
                None => self.one_part(claim, &work, index, part, &mut progress).await?,
            };
            progress.earlier.push(ids);
        }
        let first = progress.earlier.iter().flatten().next().cloned();
        let line = |(part, ids): (&Part, &Vec<String>)| published::line(part, ids);
        let parts = (0..).zip(work.parts.iter().zip(&progress.earlier).map(line)).collect();
        let sent = Sent { provider_message_id: first, raw: serde_json::Value::Null };
        Ok((sent, parts, work.address.platform.name()))
    }
}

/// The ledger could not be asked, and nothing has left. What is not there will not come back: that is an end.
pub(super) fn unreadable(error: StoreError) -> Halt {
    if let StoreError::NotFound { .. } = &error {
        return delivery_failure(
            "not_found",
            &format!("{error}; there is nothing left to do for this delivery"),
        )
        .into();
    }
    tracing::warn!(%error, "the ledger could not be read; the delivery is handed back");
    Halt::Release
}

pub(super) fn delivery_failure(code: &str, message: &str) -> Failure {
    Failure::new(Category::Permanent, Scope::Delivery, code, message)
}

pub(super) fn nobody_knows(code: &str, message: &str) -> Failure {
    Failure::new(Category::Transient, Scope::Delivery, code, message).unknown()
}
