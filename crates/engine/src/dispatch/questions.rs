//! What is asked before a request may leave: is anybody there, and is the post of an unknown outcome visible after all.
//!
//! Questions change nothing and spend the same budget as everything else.

use std::time::Duration;

use domain::delivery::AmbiguityPolicy;
use domain::outcome::Category;
use domain::time::{Span, Timestamp};
use platforms::platform::{Question, Reconciled};
use store::{Attempt, Claim, PartProgress};
use tokio::time::Instant;

use super::admit::SLOTS_MISSED_MAX;
use super::breaker::refusal;
use super::deliver::{Halt, Progress, Step, unreadable};
use super::departures::LATE_MAX;
use super::prepare::Work;
use super::send::part_key;
use super::{Dispatcher, published};

/// How long the platforms are believed to recognise our key; after that we look first.
const KEY_WINDOW: Span = Span::from_secs(45 * 60);
/// A probe that failed speaks for everybody who asks this soon after.
const PROBE_COUNTS: Duration = Duration::from_secs(1);

impl Dispatcher {
    /// After trouble with the account, or before a second try of an unknown outcome, a harmless question goes first.
    pub(super) async fn ask_first(&self, claim: &Claim, work: &Work) -> Step<()> {
        let gate = match claim.counters.unknowns {
            0 => self.breakers.doubted(claim.account_id),
            _ => Some(self.breakers.doubt(claim.account_id)),
        };
        let Some(gate) = gate else {
            return Ok(());
        };
        let mut last = gate.lock().await;
        match &*last {
            Some((at, failure)) if at.elapsed() < PROBE_COUNTS => return Err(refusal(failure.clone()).into()),
            _ => {}
        }
        if self.breakers.doubted(claim.account_id).is_none() {
            return Ok(());
        }
        self.question_slot(claim).await?;
        self.meters.probes.inc();
        match self.outlet.probe(&work.address).await {
            Ok(()) => {
                self.breakers.trust(claim.account_id);
                Ok(())
            }
            Err(failure) => {
                tracing::warn!(
                    account = claim.account_id.0,
                    code = failure.code,
                    "the account does not answer"
                );
                *last = Some((Instant::now(), failure.clone()));
                if failure.category == Category::Permanent {
                    self.book.forget(claim.workspace_id).await;
                }
                Err(refusal(failure).into())
            }
        }
    }

    /// Where the platform can be read back, an unknown part is looked for before it is sent again.
    pub(super) async fn look_first(&self, claim: &Claim, work: &Work, progress: &mut Progress) -> Step<()> {
        let attempts =
            self.ledger.attempts(claim.workspace_id, claim.delivery_id).await.map_err(unreadable)?;
        let Some(since) = unknown_since(&attempts) else {
            return Ok(());
        };
        let must_look = match work.place.policy {
            AmbiguityPolicy::Reconcile => true,
            AmbiguityPolicy::Resend => self.time.now() - since > KEY_WINDOW,
            AmbiguityPolicy::ResendOnce | AmbiguityPolicy::Hold => false,
        };
        if !must_look {
            return Ok(());
        }
        for index in 0..work.parts.len() {
            match claim.parts.get(&(index as u32)) {
                Some(line) => progress.earlier.push(published::ids(line)),
                None => break,
            }
        }
        let index = progress.earlier.len();
        let Some(part) = work.parts.get(index) else {
            return Ok(());
        };
        // Asked before the slot, so that a slow ledger does not make the question late.
        // What is another delivery's own is not the part that is looked for, however alike the words are.
        let lately = self.ledger.said_lately(claim.workspace_id, claim.lane_id, claim.delivery_id).await;
        let lately = lately.map_err(unreadable)?;
        self.question_slot(claim).await?;
        let key = part_key(claim, index);
        let others = lately.iter().flat_map(|line| published::ids(line));
        let taken: Vec<String> = progress.earlier.iter().flatten().cloned().chain(others).collect();
        let question = Question {
            part,
            key: &key,
            sent_at_ms: since.millis(),
            taken: &taken,
            deadline: self.deadlines(&work.place).request,
        };
        match self.outlet.reconcile(&work.address, question).await {
            Reconciled::Visible(ids) => {
                tracing::info!(
                    delivery = claim.delivery_id.0,
                    part = index,
                    "found on the platform; not sent again"
                );
                self.meters.reconciled.inc();
                // Nothing has left in this claim: a ledger that cannot write now will be asked to look again.
                match self.part_done(claim, index, part, &ids).await {
                    Err(Halt::End(_)) => return Err(Halt::Release),
                    noted => noted?,
                }
                progress.earlier.push(ids);
                Ok(())
            }
            Reconciled::Absent => self.is_absent(claim).await,
            Reconciled::CannotKnow => Ok(()),
            Reconciled::Failed(failure) => Err(refusal(failure).into()),
        }
    }

    /// Kept, so that a request that dies with this process is not held against a post that nobody has seen.
    async fn is_absent(&self, claim: &Claim) -> Step<()> {
        match self.recorder.mark(claim.reference(), PartProgress::Absent).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Halt::Lost),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// A slot for a question that changes nothing; it spends the same budget.
    async fn question_slot(&self, claim: &Claim) -> Step<()> {
        for _ in 0..SLOTS_MISSED_MAX {
            let slot = self.slots.reserve(claim.workspace_id, claim.account_id, None).await;
            let slot = slot.map_err(unreadable)?;
            self.wait_for(slot, claim.lease_until).await?;
            if self.time.now() - slot <= LATE_MAX {
                return Ok(());
            }
            self.meters.slots_missed.inc();
        }
        Err(Halt::Release)
    }
}

/// When the first request was made of which nobody knows what became. Those after it may have been recognised by their
/// key, and made nothing new.
fn unknown_since(attempts: &[Attempt]) -> Option<Timestamp> {
    let unanswered = |error: &serde_json::Value| error["certainty"] == "unknown";
    let unknown = |attempt: &&Attempt| {
        attempt.outcome == "lease_expired" || attempt.error.as_ref().is_some_and(unanswered)
    };
    attempts.iter().filter(unknown).find_map(|attempt| attempt.requested_at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attempt(requested_at: Option<i64>, outcome: &str, error: Option<serde_json::Value>) -> Attempt {
        Attempt {
            attempt: 1,
            claim_seq: 1,
            run_id: "прогон".into(),
            started_at: Timestamp(0),
            requested_at: requested_at.map(Timestamp),
            finished_at: Timestamp(100),
            outcome: outcome.into(),
            error,
            provider_message_id: None,
        }
    }

    #[test]
    fn a_post_is_looked_for_from_the_first_request_that_may_have_shown_it() {
        let refused = attempt(Some(1), "retry", Some(json!({"code": "429", "certainty": "not_sent"})));
        let lost = attempt(None, "lease_expired", None);
        let died = |at| attempt(Some(at), "lease_expired", None);
        let silent = attempt(Some(5), "retry", Some(json!({"code": "timeout", "certainty": "unknown"})));
        assert_eq!(unknown_since(&[refused.clone(), lost.clone()]), None);
        let attempts = [refused, lost, died(3), died(4), silent.clone()];
        assert_eq!(unknown_since(&attempts), Some(Timestamp(3)));
        assert_eq!(unknown_since(&[silent]), Some(Timestamp(5)));
    }
}
