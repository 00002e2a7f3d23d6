//! Sending for another orchestrator: it claims and commits, and hands over each claim to be sent in between.
//!
//! It is the dispatcher without its claim loop, so gates, slots, uploads and leases are the same. What became of a claim is
//! returned and not committed; but every part that is visible is written down, so that an orchestrator that dies before
//! its commit does not make us say it again.

use std::sync::Arc;

use domain::outcome::Outcome;
use store::{Claim, FinishKind, PartProgress};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use super::{Dispatcher, Ports, Settings, assemble};
use crate::upkeep::kept_up;

#[derive(Debug)]
pub struct Adapter {
    dispatcher: Arc<Dispatcher>,
    /// Housekeeping and writing end with it.
    _beside: JoinSet<()>,
}

/// Room for one claim. It is taken before the claim is begun: what is begun must not be turned away.
#[derive(Debug)]
pub struct Seat(OwnedSemaphorePermit);

impl Adapter {
    pub async fn start(settings: Settings, ports: Ports) -> store::Result<Adapter> {
        let (dispatcher, writers) = assemble(settings, ports).await?;
        let mut beside = JoinSet::new();
        let house = Arc::clone(&dispatcher);
        beside.spawn(kept_up("housekeeping of the adapter", move || Arc::clone(&house).keep_house()));
        for writer in writers {
            beside.spawn(async move { drop(writer.await) });
        }
        Ok(Adapter { dispatcher, _beside: beside })
    }

    /// `None`: too much is out already.
    pub fn seat(&self) -> Option<Seat> {
        Arc::clone(&self.dispatcher.places).try_acquire_owned().ok().map(Seat)
    }

    /// Sends a claim that was begun just now. `None`: it is somebody else's by now. Goes on to its end whatever becomes of
    /// whoever waits for it: a request that is cut is an outcome that nobody knows.
    pub async fn send(&self, claim: Claim, seat: Seat) -> Option<FinishKind> {
        let dispatcher = Arc::clone(&self.dispatcher);
        let sent = tokio::spawn(async move {
            let entered = dispatcher.unmarked.enter();
            let ending = match dispatcher.deliver(&claim, entered).await {
                Some((ending, parts, _)) => {
                    if matches!(ending, FinishKind::Outcome(Outcome::Sent(_))) {
                        for (part, provider_message_id) in parts {
                            let done = PartProgress::Done { part, provider_message_id };
                            // The commit tells the same story; this is for the case that it never comes.
                            let _ = dispatcher.recorder.mark(claim.reference(), done).await;
                        }
                    }
                    Some(ending)
                }
                None => None,
            };
            drop(seat.0);
            ending
        });
        sent.await.ok().flatten()
    }
}
