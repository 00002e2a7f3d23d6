//! What the dispatcher needs from the world, as traits: the ledger, the outlet, chance.
//!
//! `rupor run` gives it the store and the platforms; the simulator gives it a store in memory behind faults, a
//! platform that misbehaves and seeded dice. Time is tokio's, which the simulator drives by hand.

use std::fmt;
use std::sync::Mutex;

use domain::ids::{AccountId, DeliveryId, LaneId, MessageId, RecipientId, WorkspaceId};
use domain::outcome::Failure;
use domain::retry::Chance;
use domain::time::{Span, Timestamp};
use futures_util::future::BoxFuture;
use platforms::platform::{Network, Question, Reconciled, Report, Sending};
use rand::{RngExt, SeedableRng};
use secrecy::SecretString;
use serde_json::Value;
use store::{
    Account, Approach, Attempt, Channel, Claim, ClaimRef, ClaimRequest, Claimed, Delivery, Finish, Finished,
    History, NodeRow, PartProgress, Recovered, Remembered, Replayed, Result, Store, WakeUp, Whose,
};

use super::book::Address;

/// Deliveries of a lane whose ids are known not to be another's, when a part is looked for.
const SAID_MAX: usize = 200;

/// The verbs of the store that move deliveries.
pub trait Ledger: fmt::Debug + Send + Sync {
    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Claimed>>;
    fn commit(&self, batch: Vec<Finish>) -> BoxFuture<'_, Result<Vec<Finished>>>;
    fn record_parts(&self, batch: Vec<(ClaimRef, PartProgress)>) -> BoxFuture<'_, Result<Vec<bool>>>;
    fn renew(&self, batch: Vec<ClaimRef>, lease: Span) -> BoxFuture<'_, Result<Vec<bool>>>;
    fn recover(&self, whose: Whose, limit: usize) -> BoxFuture<'_, Result<Vec<Recovered>>>;
    /// One slot for each of these lanes (or for none), in order, and none sooner than `lead`.
    fn reserve_for(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        lanes: Vec<Option<LaneId>>,
        lead: Span,
    ) -> BoxFuture<'_, Result<Vec<Timestamp>>>;
    fn reserve_lane(&self, workspace: WorkspaceId, lane: LaneId) -> BoxFuture<'_, Result<Timestamp>>;
    fn held(&self) -> BoxFuture<'_, Result<Option<String>>>;
    fn now(&self) -> BoxFuture<'_, Result<Timestamp>>;
    fn wake_up(&self) -> BoxFuture<'_, Result<WakeUp>>;

    /// Which history the ledger is in, and who serves it.
    fn history(&self) -> BoxFuture<'_, Result<History>>;
    /// Connections made so far; 0 where there are none.
    fn connections(&self) -> u64;
    fn lose_history(&self, why: String) -> BoxFuture<'_, Result<()>>;
    fn tell_of_lost_history(&self, what: String) -> BoxFuture<'_, Result<()>>;
    fn replay(&self, batch: Vec<Remembered>) -> BoxFuture<'_, Result<Vec<Replayed>>>;
    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeRow>>>;
    fn sign_on(&self, run_id: String, history: History) -> BoxFuture<'_, Result<bool>>;
    fn sign_off(&self, run_id: String) -> BoxFuture<'_, Result<()>>;

    /// What is not there is left out.
    fn payloads(
        &self,
        workspace: WorkspaceId,
        ids: Vec<MessageId>,
    ) -> BoxFuture<'_, Result<Vec<(MessageId, Value)>>>;
    fn delivery(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<Delivery>>;
    fn attempts(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<Vec<Attempt>>>;
    fn said_lately(
        &self,
        workspace: WorkspaceId,
        lane: LaneId,
        but: DeliveryId,
    ) -> BoxFuture<'_, Result<Vec<String>>>;
    fn earlier_edit_leaves(&self, workspace: WorkspaceId, edit: DeliveryId) -> BoxFuture<'_, Result<bool>>;
    fn alike_is_ahead(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<bool>>;
    fn accounts(&self, workspace: WorkspaceId) -> BoxFuture<'_, Result<Vec<Account>>>;
    fn account_token(&self, workspace: WorkspaceId, id: AccountId) -> BoxFuture<'_, Result<SecretString>>;
    fn channels(&self, workspace: WorkspaceId) -> BoxFuture<'_, Result<Vec<Channel>>>;
    /// Where somebody is written to, and the slot of their chat.
    fn approach(
        &self,
        workspace: WorkspaceId,
        recipient: RecipientId,
        interval: Span,
        not_before: Timestamp,
    ) -> BoxFuture<'_, Result<Approach>>;
}

impl Ledger for Store {
    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(Store::claim(self, request))
    }

    fn commit(&self, batch: Vec<Finish>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(Store::commit(self, batch))
    }

    fn record_parts(&self, batch: Vec<(ClaimRef, PartProgress)>) -> BoxFuture<'_, Result<Vec<bool>>> {
        Box::pin(Store::record_parts(self, batch))
    }

    fn renew(&self, batch: Vec<ClaimRef>, lease: Span) -> BoxFuture<'_, Result<Vec<bool>>> {
        Box::pin(Store::renew(self, batch, lease))
    }

    fn recover(&self, whose: Whose, limit: usize) -> BoxFuture<'_, Result<Vec<Recovered>>> {
        Box::pin(Store::recover(self, whose, limit))
    }

    fn reserve_for(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        lanes: Vec<Option<LaneId>>,
        lead: Span,
    ) -> BoxFuture<'_, Result<Vec<Timestamp>>> {
        Box::pin(Store::reserve_for(self, workspace, account, lanes, lead))
    }

    fn reserve_lane(&self, workspace: WorkspaceId, lane: LaneId) -> BoxFuture<'_, Result<Timestamp>> {
        Box::pin(Store::reserve_lane(self, workspace, lane))
    }

    fn held(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(Store::held(self))
    }

    fn now(&self) -> BoxFuture<'_, Result<Timestamp>> {
        Box::pin(Store::now(self))
    }

    fn wake_up(&self) -> BoxFuture<'_, Result<WakeUp>> {
        Box::pin(Store::wake_up(self))
    }

    fn history(&self) -> BoxFuture<'_, Result<History>> {
        Box::pin(Store::history(self))
    }

    fn connections(&self) -> u64 {
        Store::connections(self)
    }

    fn lose_history(&self, why: String) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { Store::lose_history(self, &why).await })
    }

    fn tell_of_lost_history(&self, what: String) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { Store::tell_of_lost_history(self, &what).await })
    }

    fn replay(&self, batch: Vec<Remembered>) -> BoxFuture<'_, Result<Vec<Replayed>>> {
        Box::pin(Store::replay(self, batch))
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeRow>>> {
        Box::pin(Store::nodes(self))
    }

    fn sign_on(&self, run_id: String, history: History) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { Store::sign_on(self, &run_id, &history).await })
    }

    fn sign_off(&self, run_id: String) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { Store::sign_off(self, &run_id).await })
    }

    fn payloads(
        &self,
        workspace: WorkspaceId,
        ids: Vec<MessageId>,
    ) -> BoxFuture<'_, Result<Vec<(MessageId, Value)>>> {
        Box::pin(Store::payloads(self, workspace, ids))
    }

    fn delivery(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<Delivery>> {
        Box::pin(Store::delivery(self, workspace, id))
    }

    fn attempts(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<Vec<Attempt>>> {
        Box::pin(Store::attempts(self, workspace, id))
    }

    fn said_lately(
        &self,
        workspace: WorkspaceId,
        lane: LaneId,
        but: DeliveryId,
    ) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(Store::said_lately(self, workspace, lane, but, SAID_MAX))
    }

    fn earlier_edit_leaves(&self, workspace: WorkspaceId, edit: DeliveryId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(Store::earlier_edit_leaves(self, workspace, edit))
    }

    fn alike_is_ahead(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(Store::alike_is_ahead(self, workspace, id))
    }

    fn accounts(&self, workspace: WorkspaceId) -> BoxFuture<'_, Result<Vec<Account>>> {
        Box::pin(Store::accounts(self, workspace))
    }

    fn account_token(&self, workspace: WorkspaceId, id: AccountId) -> BoxFuture<'_, Result<SecretString>> {
        Box::pin(Store::account_token(self, workspace, id))
    }

    fn channels(&self, workspace: WorkspaceId) -> BoxFuture<'_, Result<Vec<Channel>>> {
        Box::pin(Store::channels(self, workspace))
    }

    fn approach(
        &self,
        workspace: WorkspaceId,
        recipient: RecipientId,
        interval: Span,
        not_before: Timestamp,
    ) -> BoxFuture<'_, Result<Approach>> {
        Box::pin(Store::approach(self, workspace, recipient, interval, not_before))
    }
}

/// The platforms, as far as sending needs them.
pub trait Outlet: fmt::Debug + Send + Sync {
    /// Sends one part once.
    fn send<'a>(
        &'a self,
        address: &'a Address,
        claim: &'a Claim,
        sending: Sending<'a>,
    ) -> BoxFuture<'a, Report>;

    /// Looks whether a part of unknown outcome is visible.
    fn reconcile<'a>(&'a self, address: &'a Address, question: Question<'a>) -> BoxFuture<'a, Reconciled>;

    /// A call that changes nothing: is anybody there?
    fn probe<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, std::result::Result<(), Failure>>;
}

/// The real ones.
#[derive(Debug)]
pub struct Platforms {
    pub network: Network,
}

impl Outlet for Platforms {
    fn send<'a>(
        &'a self,
        address: &'a Address,
        _claim: &'a Claim,
        sending: Sending<'a>,
    ) -> BoxFuture<'a, Report> {
        self.network.admit(&address.account);
        address.platform.send(&self.network, &address.account, sending)
    }

    fn reconcile<'a>(&'a self, address: &'a Address, question: Question<'a>) -> BoxFuture<'a, Reconciled> {
        address.platform.reconcile(&self.network, &address.account, question)
    }

    fn probe<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, std::result::Result<(), Failure>> {
        Box::pin(async {
            let probe = address.platform.probe(&self.network, &address.account, None).await;
            probe.identity.map(drop)
        })
    }
}

/// Where jitter comes from.
#[derive(Debug)]
pub struct Dice(Mutex<rand::rngs::StdRng>);

impl Dice {
    pub fn seeded(seed: u64) -> Dice {
        Dice(Mutex::new(rand::rngs::StdRng::seed_from_u64(seed)))
    }

    pub fn chance(&self) -> Chance {
        let mut dice = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Chance::new(dice.random_range(0..1_000_000))
    }
}
