//! From ready to leaving: the slot of the chat, the slot of the account, the gate and the mark.
//!
//! The mark is durable before the first byte can leave. A slot that was missed is paid for again, and what has not left
//! is handed back.

use std::time::Duration;

use domain::destination::Destination;
use domain::time::{Span, Timestamp};
use store::{Claim, PartProgress};

use super::Dispatcher;
use super::deliver::{Halt, Progress, Step, unreadable};
use super::departures::{Departure, LATE_MAX, Pacing, Ticket};
use super::prepare::Work;

/// Requests whose marks fall into the same stretch of time are marked together.
const MARKED_TOGETHER: Span = Span::from_millis(20);
/// Slots one part may miss before the claim is handed back.
pub(super) const SLOTS_MISSED_MAX: u32 = 3;
/// How long a wait goes on before the clock is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Dispatcher {
    /// The slot of the claim. A chat that is not free by then is waited for, and costs another one.
    pub(super) async fn first_slot(
        &self,
        claim: &Claim,
        work: &Work,
        lease_until: Timestamp,
    ) -> Step<Timestamp> {
        match work.free_at {
            Some(at) if at > claim.slot_at => {
                self.wait_for(at, lease_until).await?;
                self.reserve_again(claim).await
            }
            _ => Ok(claim.slot_at),
        }
    }

    /// A slot for one more request to the same chat: first the chat's own, and when that has come the account's, so
    /// that a slow chat does not keep account slots waiting.
    pub(super) async fn reserve(
        &self,
        claim: &Claim,
        work: &Work,
        lease_until: Timestamp,
    ) -> Step<Timestamp> {
        if work.place.interval > Span::ZERO {
            let slot = match claim.destination {
                Destination::Channel(_) => self.ledger.reserve_lane(claim.workspace_id, claim.lane_id).await,
                Destination::Recipient(id) => {
                    let now = self.time.now();
                    let approach =
                        self.ledger.approach(claim.workspace_id, id, work.place.interval, now).await;
                    approach.map(|approach| approach.slot_at)
                }
            };
            self.wait_for(slot.map_err(unreadable)?, lease_until).await?;
        }
        self.reserve_again(claim).await
    }

    /// Another slot of the account for a request whose chat's own slot has come already.
    pub(super) async fn reserve_again(&self, claim: &Claim) -> Step<Timestamp> {
        let slot = self.slots.reserve(claim.workspace_id, claim.account_id, Some(claim.lane_id)).await;
        slot.map_err(unreadable)
    }

    /// Passes the gate and waits for the slot. The mark is written while the slot is still ahead, so that a slow disk
    /// does not make the request late. A slot that was missed all the same is paid for again: the budget is never
    /// overdrawn.
    pub(super) async fn admit(
        &self,
        claim: &Claim,
        work: &Work,
        mut slot: Timestamp,
        progress: &mut Progress,
        carries_media: bool,
    ) -> Step<()> {
        let pacing = Pacing {
            account_interval: work.address.interval,
            chat: claim.destination,
            chat_interval: work.place.interval,
        };
        for _ in 0..SLOTS_MISSED_MAX {
            let ticket = self.departures.hold(claim.account_id, slot, claim.delivery_id);
            let ahead = if progress.marked { Span::ZERO } else { self.recorder.mark_takes() };
            self.wait_for(together(slot - ahead), progress.lease_until).await?;
            self.pass_gate(claim, work, progress, carries_media).await?;
            self.wait_for(slot, progress.lease_until).await?;
            if self.departed(ticket, pacing, progress.lease_until).await? {
                // Waiting took a moment: the kill switch may have been thrown, the lease may have run down.
                return match self.is_held(&work.address) || !self.lease_lasts(work, progress, carries_media) {
                    true => Err(Halt::Release),
                    false => Ok(()),
                };
            }
            self.meters.slots_missed.inc();
            slot = self.reserve_again(claim).await?;
        }
        // A node this slow had better let somebody else try; nothing has left.
        Err(Halt::Release)
    }

    /// Waits until a request whose slot has come may leave; `false` when the slot was missed.
    pub(super) async fn departed(
        &self,
        mut ticket: Ticket<'_>,
        pacing: Pacing,
        lease_until: Timestamp,
    ) -> Step<bool> {
        if pacing.account_interval == Span::ZERO && pacing.chat_interval == Span::ZERO {
            return Ok(true);
        }
        loop {
            let Departure::At(at) = ticket.depart(pacing, self.time.now()) else {
                return Ok(false);
            };
            self.wait_for(at, lease_until).await?;
            // Who slept through a stall is asked again, and its slot is gone.
            if self.time.now() - at <= LATE_MAX {
                return Ok(true);
            }
        }
    }

    /// Waits, unless the node is being stopped or the lease would be over first (an account that cools down has its
    /// next slot far away): what has not left can be handed back, and a lease that ends would be held against it.
    pub(super) async fn wait_for(&self, at: Timestamp, lease_until: Timestamp) -> Step<()> {
        let margin = Duration::from(self.settings.lease) / 12;
        let wait = self.time.until(at);
        if self.stop.is_asked() || wait + margin > self.time.until(lease_until) {
            return Err(Halt::Release);
        }
        if wait.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.stop.asked() => return Err(Halt::Release),
            () = tokio::time::sleep(wait.min(LOOK_AGAIN)) => {}
        }
        // The ledger's clock may have jumped meanwhile; a wait that was right before it is not right any more.
        match wait > LOOK_AGAIN {
            true => Box::pin(self.wait_for(at, lease_until)).await,
            false => Ok(()),
        }
    }

    /// The last look before a request may leave: the kill switch, the lease, and the mark that makes it known.
    pub(super) async fn pass_gate(
        &self,
        claim: &Claim,
        work: &Work,
        progress: &mut Progress,
        carries_media: bool,
    ) -> Step<()> {
        if self.is_held(&work.address) || !self.history_is_known().await {
            return Err(Halt::Release);
        }
        if !self.lease_lasts(work, progress, carries_media) {
            if self.renew(claim).await? {
                progress.lease_until = self.time.now() + self.settings.lease;
            } else {
                return Err(Halt::Lost);
            }
        }
        if progress.marked {
            return Ok(());
        }
        match self.recorder.mark(claim.reference(), PartProgress::Requested).await {
            Ok(true) => {
                progress.marked = true;
                progress.unmarked = None;
            }
            // Not ours any more, or its campaign was paused since: giving back what is not ours changes nothing.
            Ok(false) => return Err(Halt::Release),
            Err(error) => return Err(unreadable(error)),
        }
        Ok(())
    }

    /// Whether a request that leaves now is over before the lease is.
    pub(super) fn lease_lasts(&self, work: &Work, progress: &Progress, carries_media: bool) -> bool {
        let lease = Duration::from(self.settings.lease);
        let needed = match carries_media {
            // The lease is renewed while media go up.
            true => lease / 2,
            false => self.deadlines(&work.place).request + lease / 12,
        };
        self.time.until(progress.lease_until) >= needed
    }

    pub(super) async fn renew(&self, claim: &Claim) -> Step<bool> {
        let renewed = self.ledger.renew(vec![claim.reference()], self.settings.lease).await;
        Ok(renewed.map_err(unreadable)?.first().copied().unwrap_or(false))
    }
}

/// The beginning of the stretch that this instant lies in.
fn together(at: Timestamp) -> Timestamp {
    Timestamp(at.0 - at.0.rem_euclid(MARKED_TOGETHER.0))
}
