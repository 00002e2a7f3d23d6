//! The ledger as one node sees it: the real store behind a wire that can be slow, busy, cut before or after the
//! commit; and a node that can die or stand still on either side of every call.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::ids::{AccountId, DeliveryId, LaneId, MessageId, RecipientId, WorkspaceId};
use domain::outcome::{Category, Failure, Outcome, Scope};
use domain::time::{Span, Timestamp};
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use serde_json::Value;
use store::{
    Account, Approach, Attempt, Channel, ClaimRef, ClaimRequest, Claimed, Delivery, Finish, FinishKind,
    Finished, History, NodeRow, PartProgress, RecipientStatus, Recovered, Remembered, Replayed, Result,
    StoreError, WakeUp, Whose,
};
use tokio::time::Instant;

use super::campaigns;
use super::node::Run;
use super::saboteur::Saboteur;
use super::world::{World, lock};
use engine::dispatch::ports::Ledger;

/// A call this slow may cost a lease.
const SLOW: Duration = Duration::from_millis(1_000);

#[derive(Debug)]
pub(super) struct SimLedger {
    pub run: Arc<Run>,
}

/// What a call does to the database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

impl SimLedger {
    fn world(&self) -> &World {
        &self.run.world
    }

    fn sabotaged(&self, by: Saboteur) -> bool {
        self.world().saboteur == Some(by)
    }

    /// One call through all the troubles a call can have.
    async fn call<T>(&self, kind: Kind, verb: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let (run, world) = (&*self.run, self.world());
        run.alive().await;
        run.log(|log| log.calls += 1);
        let trouble = &world.options.ledger;
        if kind == Kind::Write {
            self.strike("node: died before a ledger call").await;
            if world.strikes(world.options.node.pause / 4) {
                run.pause();
                run.alive().await;
            }
        }
        self.lag(world.strikes(trouble.slow)).await;
        if is_out(world) {
            world.sometimes("ledger: unreachable");
            run.ledger_trouble();
            tokio::time::sleep(Duration::from_millis(20)).await;
            run.alive().await;
            return Err(unreachable());
        }
        if world.strikes(trouble.busy) {
            world.sometimes("ledger: busy");
            world.trace(format_args!("{} {verb}: busy", run.name));
            return Err(busy());
        }
        let lost = kind == Kind::Write && world.strikes(trouble.commit_unknown);
        if lost && world.below(2) == 0 {
            world.sometimes("ledger: commit unknown, not committed");
            world.trace(format_args!("{} {verb}: unknown, not committed", run.name));
            run.ledger_trouble();
            return Err(commit_unknown());
        }
        let result = work.await;
        if kind == Kind::Write {
            self.strike("node: died after a ledger call, the answer lost").await;
        }
        if lost {
            world.sometimes("ledger: commit unknown, committed");
            world.trace(format_args!("{} {verb}: unknown, committed", run.name));
            run.ledger_trouble();
            return Err(commit_unknown());
        }
        self.lag(false).await;
        if kind == Kind::Write && world.strikes(world.options.node.pause / 4) {
            run.pause();
        }
        run.alive().await;
        result
    }

    async fn strike(&self, how: &'static str) {
        if self.world().strikes(self.world().options.node.crash_at_ledger) {
            self.run.crash(how).await;
        }
    }

    /// Half of the calls are at once; the others let somebody else go first.
    async fn lag(&self, slow: bool) {
        let world = self.world();
        if slow {
            let wait = world.up_to(world.options.ledger.slow_max);
            world.sometimes("ledger: slow");
            if wait >= SLOW {
                self.run.ledger_trouble();
            }
            tokio::time::sleep(wait).await;
        } else if world.below(2) == 0 {
            tokio::time::sleep(world.up_to(Duration::from_millis(3))).await;
        }
        self.run.alive().await;
    }

    async fn claim_once(&self, request: ClaimRequest) -> Result<Claimed> {
        let world = self.world();
        let mut request = request;
        let honest_lease = request.lease;
        if self.sabotaged(Saboteur::LeaseFromNodeClock) {
            // The node's clock is behind by most of a lease: what it writes ends that much earlier.
            request.lease = Span(request.lease.0 / 8);
        }
        let ignored = self.sabotaged(Saboteur::KillSwitchIgnored);
        let held = if ignored { world.store.held().await? } else { None };
        if held.is_some() {
            world.store.hold_all(None).await?;
        }
        let mut claimed = world.store.claim(request).await;
        if let Some(why) = held {
            world.store.hold_all(Some(&why)).await?;
        }
        if let Ok(claimed) = &mut claimed {
            if claimed.claims.is_empty() {
                self.run.log(|log| log.empty_claims += 1);
            }
            for claim in &mut claimed.claims {
                world.trace(format_args!(
                    "{} claims d{} attempt {} slot {}",
                    self.run.name, claim.delivery_id.0, claim.counters.attempt, claim.slot_at.0
                ));
                let known = (claim.reference(), Instant::now());
                lock(&world.claims).insert(claim.delivery_id.0, known);
                if self.sabotaged(Saboteur::LeaseFromNodeClock) {
                    claim.lease_until = Timestamp(world.ledger_at()) + honest_lease;
                }
                if self.sabotaged(Saboteur::SlotsInMemory) {
                    claim.slot_at = Timestamp(world.ledger_at());
                }
            }
        }
        claimed
    }

    async fn commit_once(&self, mut batch: Vec<Finish>) -> Result<Vec<Finished>> {
        let world = self.world();
        for finish in &mut batch {
            match &finish.ending {
                FinishKind::Release if self.sabotaged(Saboteur::ReleaseCharged) => {
                    let failure = Failure::new(Category::Transient, Scope::Delivery, "released", "");
                    finish.ending = FinishKind::Outcome(Outcome::Failed(failure));
                }
                _ => {}
            }
            if self.sabotaged(Saboteur::OutcomeUnfenced)
                && let Some((present, _)) = lock(&world.claims).get(&finish.claim.delivery_id.0)
            {
                finish.claim.claim_token = present.claim_token;
            }
        }
        let finished = world.store.commit(batch.clone()).await?;
        for (finish, finished) in batch.iter().zip(&finished) {
            world.trace(format_args!("{} ends d{}: {finished:?}", self.run.name, finish.claim.delivery_id.0));
            if *finished == Finished::Adopted {
                world.sometimes("delivery: late success adopted");
            }
            if *finished == Finished::LostClaim {
                world.sometimes("delivery: lease lost while sending");
            }
            if finish.ending == FinishKind::Release && matches!(finished, Finished::Done(_)) {
                world.sometimes("delivery: handed back unsent");
            }
        }
        Ok(finished)
    }

    async fn record_once(&self, batch: Vec<(ClaimRef, PartProgress)>) -> Result<Vec<bool>> {
        let world = self.world();
        let skipped = |progress: &PartProgress| match progress {
            PartProgress::Absent => false,
            PartProgress::Requested => self.sabotaged(Saboteur::MarkSkipped),
            PartProgress::Done { .. } => self.sabotaged(Saboteur::PartsForgotten),
        };
        if batch.iter().any(|(_, progress)| skipped(progress)) {
            let kept: Vec<_> = batch.iter().filter(|(_, progress)| !skipped(progress)).cloned().collect();
            let mut answers = world.store.record_parts(kept).await?.into_iter();
            let answer =
                |(_, progress): &(_, PartProgress)| skipped(progress) || answers.next().unwrap_or(false);
            return Ok(batch.iter().map(answer).collect());
        }
        match self.sabotaged(Saboteur::GateNotAsked) {
            true => campaigns::with_open_gates(world, world.store.record_parts(batch)).await,
            false => world.store.record_parts(batch).await,
        }
    }

    /// Takes back what has been out for a moment, without asking whose it is.
    async fn reap(&self) -> Result<()> {
        let world = self.world();
        let old = |(_, since): &&(ClaimRef, Instant)| since.elapsed() > Duration::from_millis(300);
        let found: Vec<ClaimRef> =
            lock(&world.claims).values().filter(old).map(|(claim, _)| *claim).take(2).collect();
        for claim in found {
            lock(&world.claims).remove(&claim.delivery_id.0);
            let finish = Finish { claim, ending: FinishKind::Release, chance: domain::retry::Chance::NONE };
            world.store.commit(vec![finish]).await?;
        }
        Ok(())
    }
}

impl Ledger for SimLedger {
    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(self.call(Kind::Write, "claim", self.claim_once(request)))
    }

    fn commit(&self, batch: Vec<Finish>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(async move {
            let swallowed = batch.iter().map(|_| Finished::LostClaim).collect();
            match self.call(Kind::Write, "commit", self.commit_once(batch)).await {
                Err(StoreError::Busy { .. }) if self.sabotaged(Saboteur::BusySwallowed) => Ok(swallowed),
                result => result,
            }
        })
    }

    fn record_parts(&self, batch: Vec<(ClaimRef, PartProgress)>) -> BoxFuture<'_, Result<Vec<bool>>> {
        Box::pin(self.call(Kind::Write, "mark", self.record_once(batch)))
    }

    fn renew(&self, batch: Vec<ClaimRef>, lease: Span) -> BoxFuture<'_, Result<Vec<bool>>> {
        Box::pin(self.call(Kind::Write, "renew", self.world().store.renew(batch, lease)))
    }

    fn recover(&self, whose: Whose, limit: usize) -> BoxFuture<'_, Result<Vec<Recovered>>> {
        Box::pin(self.call(Kind::Write, "recover", async move {
            if self.sabotaged(Saboteur::ReaperUnfenced) {
                self.reap().await?;
            }
            let recovered = self.world().store.recover(whose, limit).await?;
            for row in &recovered {
                self.world()
                    .trace(format_args!("{} recovers d{}: {}", self.run.name, row.delivery_id.0, row.status));
            }
            Ok(recovered)
        }))
    }

    fn reserve_for(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        lanes: Vec<Option<LaneId>>,
        lead: Span,
    ) -> BoxFuture<'_, Result<Vec<Timestamp>>> {
        Box::pin(self.call(Kind::Write, "reserve", async move {
            let store = &self.world().store;
            match self.sabotaged(Saboteur::SlotsInMemory) {
                true => Ok(vec![store.now().await?; lanes.len()]),
                false => store.reserve_for(workspace, account, lanes, lead).await,
            }
        }))
    }

    fn reserve_lane(&self, workspace: WorkspaceId, lane: LaneId) -> BoxFuture<'_, Result<Timestamp>> {
        Box::pin(self.call(Kind::Write, "reserve", self.world().store.reserve_lane(workspace, lane)))
    }

    fn held(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(self.call(Kind::Read, "held", async {
            match self.sabotaged(Saboteur::KillSwitchIgnored) {
                true => Ok(None),
                false => self.world().store.held().await,
            }
        }))
    }

    fn now(&self) -> BoxFuture<'_, Result<Timestamp>> {
        Box::pin(self.call(Kind::Read, "now", self.world().store.now()))
    }

    /// Wake-ups are lost: their order is not repeatable, and losing them must cost nothing but delay.
    fn wake_up(&self) -> BoxFuture<'_, Result<WakeUp>> {
        Box::pin(async {
            self.run.alive().await;
            Err(unreachable())
        })
    }

    fn history(&self) -> BoxFuture<'_, Result<History>> {
        Box::pin(self.call(Kind::Read, "history", self.world().store.history()))
    }

    /// The simulated database is never lost; that is proved with real servers (`engine/tests/failover.rs`).
    fn connections(&self) -> u64 {
        self.world().store.connections()
    }

    fn lose_history(&self, why: String) -> BoxFuture<'_, Result<()>> {
        Box::pin(
            self.call(
                Kind::Write,
                "lose_history",
                async move { self.world().store.lose_history(&why).await },
            ),
        )
    }

    fn tell_of_lost_history(&self, what: String) -> BoxFuture<'_, Result<()>> {
        let told = async move { self.world().store.tell_of_lost_history(&what).await };
        Box::pin(self.call(Kind::Write, "tell_of_lost_history", told))
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeRow>>> {
        Box::pin(self.call(Kind::Read, "nodes", self.world().store.nodes()))
    }

    fn sign_on(&self, run_id: String, history: History) -> BoxFuture<'_, Result<bool>> {
        let signed = async move { self.world().store.sign_on(&run_id, &history).await };
        Box::pin(self.call(Kind::Write, "sign_on", signed))
    }

    fn sign_off(&self, run_id: String) -> BoxFuture<'_, Result<()>> {
        let signed = async move { self.world().store.sign_off(&run_id).await };
        Box::pin(self.call(Kind::Write, "sign_off", signed))
    }

    fn replay(&self, batch: Vec<Remembered>) -> BoxFuture<'_, Result<Vec<Replayed>>> {
        Box::pin(self.call(Kind::Write, "replay", self.world().store.replay(batch)))
    }

    fn payloads(
        &self,
        workspace: WorkspaceId,
        ids: Vec<MessageId>,
    ) -> BoxFuture<'_, Result<Vec<(MessageId, Value)>>> {
        Box::pin(async move {
            let found = self.world().store.payloads(workspace, ids);
            let found = self.call(Kind::Read, "payloads", found).await?;
            if found.iter().any(|(_, payload)| payload.to_string().contains(super::client::POISON)) {
                self.run.crash("node: died before a request left").await;
            }
            Ok(found)
        })
    }

    fn delivery(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<Delivery>> {
        Box::pin(self.call(Kind::Read, "delivery", self.world().store.delivery(workspace, id)))
    }

    fn attempts(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<Vec<Attempt>>> {
        Box::pin(self.call(Kind::Read, "attempts", self.world().store.attempts(workspace, id)))
    }

    fn said_lately(
        &self,
        workspace: WorkspaceId,
        lane: LaneId,
        but: DeliveryId,
    ) -> BoxFuture<'_, Result<Vec<String>>> {
        let said = self.world().store.said_lately(workspace, lane, but, 200);
        Box::pin(self.call(Kind::Read, "said_lately", said))
    }

    fn earlier_edit_leaves(&self, workspace: WorkspaceId, edit: DeliveryId) -> BoxFuture<'_, Result<bool>> {
        let leaves = self.world().store.earlier_edit_leaves(workspace, edit);
        Box::pin(self.call(Kind::Read, "earlier_edit_leaves", leaves))
    }

    fn alike_is_ahead(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<bool>> {
        let ahead = self.world().store.alike_is_ahead(workspace, id);
        Box::pin(self.call(Kind::Read, "alike_is_ahead", ahead))
    }

    fn accounts(&self, workspace: WorkspaceId) -> BoxFuture<'_, Result<Vec<Account>>> {
        Box::pin(self.call(Kind::Read, "accounts", self.world().store.accounts(workspace)))
    }

    fn account_token(&self, workspace: WorkspaceId, id: AccountId) -> BoxFuture<'_, Result<SecretString>> {
        Box::pin(self.call(Kind::Read, "token", self.world().store.account_token(workspace, id)))
    }

    fn channels(&self, workspace: WorkspaceId) -> BoxFuture<'_, Result<Vec<Channel>>> {
        Box::pin(self.call(Kind::Read, "channels", self.world().store.channels(workspace)))
    }

    fn approach(
        &self,
        workspace: WorkspaceId,
        recipient: RecipientId,
        interval: Span,
        not_before: Timestamp,
    ) -> BoxFuture<'_, Result<Approach>> {
        let approach = async move {
            let mut approach =
                self.world().store.approach(workspace, recipient, interval, not_before).await?;
            if self.sabotaged(Saboteur::GoneApproached) {
                approach.status = RecipientStatus::Active;
            }
            if self.sabotaged(Saboteur::ChatPauseForgotten) {
                approach.paused_until = Timestamp(0);
            }
            if approach.status == RecipientStatus::Gone {
                self.world().sometimes("people: nothing was said to who is gone");
            }
            Ok(approach)
        };
        Box::pin(self.call(Kind::Write, "approach", approach))
    }
}

pub(crate) fn is_out(world: &World) -> bool {
    let now = world.elapsed();
    let within = |(from, length): &(Duration, Duration)| now >= *from && now < *from + *length;
    !world.is_calm() && world.options.ledger.outages.iter().any(within)
}

fn address() -> String {
    "sqlite::memory:".into()
}

pub(super) fn busy() -> StoreError {
    StoreError::Busy { address: address(), problem: "simulated".into() }
}

pub(super) fn commit_unknown() -> StoreError {
    StoreError::CommitUnknown { address: address(), problem: "simulated".into() }
}

fn unreachable() -> StoreError {
    StoreError::Unreachable { address: address(), problem: "simulated".into() }
}
