//! The short way of a success: it moves nothing but its own lane, so all of a batch are looked up, ended and told
//! together, lane by lane and in the order of their ids.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

use domain::outcome::{Outcome, Sent};
use rusqlite::types::ValueRef;

use super::commit::{DELETE_INFLIGHT, Token};
use super::insert::Insert;
use super::watch::note_outcomes;
use super::{Tx, rows};
use crate::error::{Result, StoreError};
use crate::queue::{ClaimRef, Finish, FinishKind};

/// The claims of a lane between two deliveries of the batch. What else is in flight there is read too; that is bounded
/// by what a node has out.
pub(super) const SELECT_CLAIMS: &str = "
SELECT delivery_id, workspace_id, claim_token, lease_until, claim_seq, attempt, run_id, claimed_at, slot_at, requested_at
  FROM inflight
 WHERE account_id = ?1 AND lane_id = ?2 AND delivery_id BETWEEN ?3 AND ?4";
pub(super) const DELETE_CLAIMS: &str = "
DELETE FROM inflight WHERE account_id = ?1 AND lane_id = ?2 AND delivery_id BETWEEN ?3 AND ?4";
/// The end is the same in every row.
static INSERT_SENT: LazyLock<Insert> = LazyLock::new(|| {
    Insert::new(
        "attempts (finished_at, outcome, delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at,
                   slot_at, requested_at, provider_message_id)",
        2,
        10,
    )
});
/// All successes of a batch: ?1 their ids, ascending, and ?3 what the platforms called them.
pub(super) const END_SENT: &str = "
UPDATE deliveries
   SET status = 'sent', reason = NULL, claim_token = NULL, lease_until = NULL, sent_at = ?2, ended_at = ?2,
       provider_message_id = coalesce(entry_of(?1, ?3, delivery_id), provider_message_id)
 WHERE delivery_id IN (SELECT value FROM json_each(?1)) AND status = 'sending'";

/// The successes of one commit.
#[derive(Default)]
pub(super) struct Successes {
    /// Claims as they were found, by delivery.
    claims: Vec<HeldClaim>,
    /// Where they were found.
    lanes: BTreeMap<(i64, i64), Stretch>,
    /// How many of them passed the fence and are still to be written.
    accepted: usize,
}

struct HeldClaim {
    delivery_id: i64,
    workspace_id: i64,
    account_id: i64,
    lane_id: i64,
    claim_token: Token,
    lease_until: i64,
    claim_seq: i64,
    attempt: i32,
    run_id: Rc<str>,
    claimed_at: i64,
    slot_at: i64,
    requested_at: Option<i64>,
    stage: Stage,
    provider_message_id: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Found,
    Accepted,
    /// Written, or left to be settled one by one.
    Gone,
}

/// The stretch of a lane's claims that the batch speaks of.
struct Stretch {
    from: i64,
    to: i64,
    found: usize,
    accepted: usize,
}

impl Successes {
    /// Finds the claims of those that say they were sent.
    pub(super) fn of(tx: &Tx<'_>, batch: &[Finish]) -> Result<Successes> {
        let mut lanes: BTreeMap<(i64, i64), Stretch> = BTreeMap::new();
        for Finish { claim, ending, .. } in batch {
            if matches!(ending, FinishKind::Outcome(Outcome::Sent(_))) {
                let id = claim.delivery_id.0;
                let stretch = lanes.entry((claim.account_id.0, claim.lane_id.0));
                let stretch = stretch.or_insert(Stretch { from: id, to: id, found: 0, accepted: 0 });
                (stretch.from, stretch.to) = (stretch.from.min(id), stretch.to.max(id));
            }
        }
        let mut claims = Vec::with_capacity(batch.len());
        let mut run: Rc<str> = "".into();
        for (&(account_id, lane_id), stretch) in &mut lanes {
            let before = claims.len();
            tx.each(SELECT_CLAIMS, (account_id, lane_id, stretch.from, stretch.to), |row| {
                let run_id = row.get_ref(6)?.as_str()?;
                if *run != *run_id {
                    run = run_id.into();
                }
                claims.push(HeldClaim {
                    delivery_id: row.get(0)?,
                    workspace_id: row.get(1)?,
                    account_id,
                    lane_id,
                    claim_token: row.get(2)?,
                    lease_until: row.get(3)?,
                    claim_seq: row.get(4)?,
                    attempt: row.get(5)?,
                    run_id: Rc::clone(&run),
                    claimed_at: row.get(7)?,
                    slot_at: row.get(8)?,
                    requested_at: row.get(9)?,
                    stage: Stage::Found,
                    provider_message_id: None,
                });
                Ok(())
            })?;
            stretch.found = claims.len() - before;
        }
        // By id a tree is filled at its end, and a page is found where the last one was.
        claims.sort_unstable_by_key(|claim| claim.delivery_id);
        Ok(Successes { claims, lanes, accepted: 0 })
    }

    /// Passes the fence; false: the claim is not theirs any more.
    pub(super) fn accept(&mut self, tx: &Tx<'_>, theirs: &ClaimRef, sent: &Sent) -> bool {
        let Some(claim) = self.claim(theirs.delivery_id.0) else {
            return false;
        };
        let ours = claim.claim_token == theirs.claim_token.0.into_bytes()
            && claim.workspace_id == theirs.workspace_id.0
            && claim.lease_until > tx.now.0;
        if !ours || claim.stage != Stage::Found {
            return false;
        }
        claim.stage = Stage::Accepted;
        claim.provider_message_id.clone_from(&sent.provider_message_id);
        let lane = (claim.account_id, claim.lane_id);
        if let Some(stretch) = self.lanes.get_mut(&lane) {
            stretch.accepted += 1;
        }
        self.accepted += 1;
        true
    }

    fn claim(&mut self, delivery_id: i64) -> Option<&mut HeldClaim> {
        let n = self.claims.binary_search_by_key(&delivery_id, |claim| claim.delivery_id).ok()?;
        self.claims.get_mut(n)
    }

    /// Another ending of the same delivery follows: it must find what came before.
    pub(super) fn settle(&mut self, tx: &Tx<'_>, delivery_id: i64) -> Result<()> {
        if self.claim(delivery_id).is_some_and(|claim| claim.stage == Stage::Accepted) {
            self.write(tx)?;
        }
        if let Some(claim) = self.claim(delivery_id) {
            claim.stage = Stage::Gone;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, tx: &Tx<'_>) -> Result<()> {
        if self.accepted == 0 {
            return Ok(());
        }
        let accepted: Vec<&HeldClaim> = self.claims.iter().filter(|c| c.stage == Stage::Accepted).collect();
        self.free(tx, &accepted)?;
        let shared = [ValueRef::Integer(tx.now.0), ValueRef::from("sent")];
        tx.insert_rows(&INSERT_SENT, shared, &accepted, |c| {
            [
                ValueRef::Integer(c.delivery_id),
                ValueRef::Integer(c.attempt.into()),
                ValueRef::Integer(c.workspace_id),
                ValueRef::Blob(&c.claim_token),
                ValueRef::Integer(c.claim_seq),
                ValueRef::from(&*c.run_id),
                ValueRef::Integer(c.claimed_at),
                ValueRef::Integer(c.slot_at),
                c.requested_at.map_or(ValueRef::Null, ValueRef::Integer),
                c.provider_message_id.as_deref().map_or(ValueRef::Null, ValueRef::from),
            ]
        })?;
        let ids = rows::id_list(accepted.iter().map(|c| c.delivery_id));
        let names: Vec<Option<&str>> = accepted.iter().map(|c| c.provider_message_id.as_deref()).collect();
        let names = serde_json::to_string(&names).unwrap_or_default();
        let n = tx.execute(END_SENT, (&ids, tx.now.0, names))?;
        if n != accepted.len() {
            let missing = accepted.len() - n;
            return Err(StoreError::Database(format!("{missing} deliveries are in flight but not sending")));
        }
        note_outcomes(tx, &ids)?;
        for claim in self.claims.iter_mut().filter(|claim| claim.stage == Stage::Accepted) {
            claim.stage = Stage::Gone;
        }
        // What comes later in this batch goes one by one.
        for stretch in self.lanes.values_mut() {
            (stretch.accepted, stretch.found) = (0, usize::MAX);
        }
        self.accepted = 0;
        Ok(())
    }

    /// Takes the claims out of flight: a lane's stretch in one go where nothing else lies in it.
    fn free(&self, tx: &Tx<'_>, accepted: &[&HeldClaim]) -> Result<()> {
        let mut n = 0;
        for (&(account_id, lane_id), stretch) in self.lanes.iter().filter(|(_, s)| s.accepted > 0) {
            if stretch.accepted == stretch.found {
                n += tx.execute(DELETE_CLAIMS, (account_id, lane_id, stretch.from, stretch.to))?;
                continue;
            }
            for c in accepted.iter().filter(|c| c.lane_id == lane_id) {
                n += tx.execute(DELETE_INFLIGHT, (c.account_id, c.lane_id, c.delivery_id, c.claim_token))?;
            }
        }
        if n != accepted.len() {
            let problem = format!("{} claims were accepted and {n} were in flight", accepted.len());
            return Err(StoreError::Database(problem));
        }
        Ok(())
    }
}
