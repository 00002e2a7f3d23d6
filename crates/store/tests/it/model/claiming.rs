//! Which rows a claim may take, and which it must not leave behind.

use domain::delivery::{Priority, Status};
use domain::ids::DeliveryId;
use domain::limits::{RETRY_LOOK, SUSPECT_PATIENCE};
use domain::time::{Span, Timestamp};
use proptest::prelude::*;
use store::*;

use super::state::{Checked, LANES, Model, ModelDelivery};
use crate::world::*;

const AHEAD: Span = Span::from_millis(100);

impl Model {
    pub(super) async fn claim(&mut self, world: &World, limit: usize) -> Checked {
        let claimed = world.claim_ahead(limit, AHEAD).await;
        let n = claimed.claims.len();
        let unmarked = self.deliveries.values().any(|d| d.status == Status::Sending && !d.requested);
        for claim in &claimed.claims {
            let suspect = self.deliveries[&claim.delivery_id].counters.lost_claims > 0;
            prop_assert!(!suspect || n == 1, "a suspect goes alone");
            let waits = unmarked && self.has_patience(claim.delivery_id);
            prop_assert!(!(suspect && waits), "a suspect waits for a moment alone");
            let next = self.next_of_lane(self.deliveries[&claim.delivery_id].lane);
            prop_assert!(next.contains(&claim.delivery_id), "{claim:?} was not next in its lane: {next:?}");
            self.take(claim)?;
        }
        let alone = n == 1 && self.deliveries[&claimed.claims[0].delivery_id].counters.lost_claims > 0;
        if n < limit && !alone {
            for lane in (0..LANES).filter(|&lane| !self.may_be_put_off(lane)) {
                // Its first row, and where order is not kept the first that is no suspect; the bulk rows behind them are
                // next only in their turn.
                for id in self.must_go(lane) {
                    let suspect = self.deliveries[&id].counters.lost_claims > 0;
                    let waits = n > 0 || (unmarked && self.has_patience(id));
                    prop_assert!(
                        suspect && waits,
                        "{id} of lane {lane} was eligible and left behind: {:?}",
                        self.deliveries[&id]
                    );
                }
            }
        }
        self.claims.extend(claimed.claims);
        Ok(())
    }

    fn has_patience(&self, id: DeliveryId) -> bool {
        self.deliveries[&id].run_at + SUSPECT_PATIENCE > self.now
    }

    fn retries(&self, account: usize) -> usize {
        let of = |d: &&ModelDelivery| self.lanes[d.lane].account == account;
        let sending =
            self.deliveries.values().filter(|d| d.status == Status::Sending && d.counters.attempt > 1);
        sending.filter(of).count()
    }

    /// A lane with a retry that found no room is looked at again a moment later.
    fn may_be_put_off(&self, lane: usize) -> bool {
        let account = &self.accounts[self.lanes[lane].account];
        let waits = |d: &ModelDelivery| d.lane == lane && d.status == Status::Retry;
        account.full_at + RETRY_LOOK > self.now && self.deliveries.values().any(waits)
    }

    /// Of the rows that may be next, those that nothing keeps waiting.
    fn must_go(&self, lane: usize) -> Vec<DeliveryId> {
        let suspect = |id: &DeliveryId| self.deliveries[id].counters.lost_claims > 0;
        let mut next = self.next_of_lane(lane);
        let passed = self.lanes[lane].max_parallel > 1 && next.first().is_some_and(suspect);
        next.truncate(if passed && next.get(1).is_some_and(|id| !suspect(id)) { 2 } else { 1 });
        next
    }

    /// Notes which accounts have no room for another retry.
    pub(super) fn note_full(&mut self) {
        for account in 0..self.accounts.len() {
            if self.retries(account) >= self.accounts[account].retry_parallel {
                self.accounts[account].full_at = self.now;
            }
        }
    }

    /// The rows of a lane that may be claimed next: its first row, or its first bulk row in its turn. Where order is not
    /// kept, rows that wait or find no room are passed over, and suspects may be.
    fn next_of_lane(&self, lane: usize) -> Vec<DeliveryId> {
        let c = &self.lanes[lane];
        let account = &self.accounts[c.account];
        let in_flight = |of: &dyn Fn(&ModelDelivery) -> bool| {
            self.deliveries.values().filter(|d| d.status == Status::Sending && of(d)).count()
        };
        let slot = account.pace.earliest(self.now);
        let blocked = self.held
            || account.paused
            || account.cooldown_until > self.now
            || !c.open
            || c.paused_until > self.now
            || in_flight(&|d| d.lane == lane) >= c.max_parallel
            || in_flight(&|d| self.lanes[d.lane].account == c.account) >= account.max_parallel
            || c.pace.earliest(self.now) > slot
            || slot > self.now + AHEAD;
        if blocked {
            return Vec::new();
        }
        let place = |id: &DeliveryId, d: &ModelDelivery| {
            let position = if c.max_parallel == 1 { id.0 } else { d.run_at.0 };
            (d.priority, position, *id)
        };
        let waiting = self.deliveries.iter().filter(|(_, d)| d.lane == lane && d.status.is_pending());
        let mut order: Vec<_> = waiting.map(|(id, d)| (place(id, d), d.run_at)).collect();
        order.sort();
        let room = self.retries(c.account) < account.retry_parallel;
        let may_go = |row: &&((Priority, i64, DeliveryId), Timestamp)| {
            row.1 <= self.now && (room || self.deliveries[&row.0.2].status != Status::Retry)
        };
        let is_bulk = |row: &&((Priority, i64, DeliveryId), Timestamp)| row.0.0 == Priority::Bulk;
        let no_suspect = |row: &&((Priority, i64, DeliveryId), Timestamp)| {
            self.deliveries[&row.0.2].counters.lost_claims == 0
        };
        let rows: Vec<_> = if c.max_parallel == 1 {
            let Some(first) = order.first().filter(may_go) else {
                return Vec::new();
            };
            vec![Some(first), order.iter().find(is_bulk).filter(may_go)]
        } else {
            let free = || order.iter().filter(may_go);
            vec![
                free().next(),
                free().find(no_suspect),
                free().find(is_bulk),
                free().filter(is_bulk).find(no_suspect),
            ]
        };
        let mut next: Vec<DeliveryId> = Vec::new();
        for ((_, _, id), _) in rows.into_iter().flatten() {
            if !next.contains(id) {
                next.push(*id);
            }
        }
        next
    }

    fn take(&mut self, claim: &Claim) -> Checked {
        let lane = self.deliveries[&claim.delivery_id].lane;
        let account = self.lanes[lane].account;
        let slot = self.accounts[account].pace.earliest(self.now);
        prop_assert_eq!(claim.slot_at, slot, "V16: the next slot and no other");
        self.accounts[account].pace.take(slot);
        self.lanes[lane].pace.take(slot);
        let delivery = self.of(claim);
        delivery.counters.attempt += 1;
        delivery.claim_seq += 1;
        delivery.status = Status::Sending;
        delivery.token = Some(claim.claim_token);
        delivery.lease_until = slot + Span::from_secs(60);
        (delivery.requested, delivery.absent) = (false, false);
        let (seq, counters, parts) = (delivery.claim_seq, delivery.counters, delivery.parts.clone());
        prop_assert_eq!(claim.claim_seq, seq, "V6: one more, never reused");
        prop_assert_eq!(claim.counters, counters, "V8: the attempt is counted here");
        prop_assert_eq!(&claim.parts, &parts);
        Ok(())
    }
}
