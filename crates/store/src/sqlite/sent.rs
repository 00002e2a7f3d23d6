//! The short way of a success: it moves nothing but its own lane, so all of a batch are looked up, ended and told
//! together, lane by lane and in the order of their ids.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use domain::outcome::{Outcome, Sent};

use super::commit::{DELETE_INFLIGHT, Token};
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
const INSERT_SENT: &str = "
INSERT INTO attempts (delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at, slot_at,
                      requested_at, finished_at, outcome, provider_message_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'sent', ?11)";
/// All successes of a batch, ?1 being their ids; what the platforms called them stands in their attempts.
pub(super) const END_SENT: &str = "
UPDATE deliveries
   SET status = 'sent', reason = NULL, claim_token = NULL, lease_until = NULL, sent_at = ?2, ended_at = ?2,
       provider_message_id = coalesce(
           (SELECT a.provider_message_id FROM attempts AS a
             WHERE a.delivery_id = deliveries.delivery_id AND a.attempt = deliveries.attempt),
           provider_message_id)
 WHERE delivery_id IN (SELECT value FROM json_each(?1)) AND status = 'sending'";

/// The successes of one commit.
#[derive(Default)]
pub(super) struct Successes {
    /// Claims as they were found, by delivery.
    claims: HashMap<i64, HeldClaim>,
    /// Where they were found.
    lanes: BTreeMap<(i64, i64), Stretch>,
    /// Those that passed the fence and are still to be written.
    accepted: Vec<i64>,
}

struct HeldClaim {
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
    accepted: bool,
    provider_message_id: Option<String>,
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
        let mut claims = HashMap::with_capacity(batch.len());
        let mut run: Rc<str> = "".into();
        for (&(account_id, lane_id), stretch) in &mut lanes {
            let found = tx.all(SELECT_CLAIMS, (account_id, lane_id, stretch.from, stretch.to), |row| {
                let run_id = row.get_ref(6)?.as_str()?;
                if *run != *run_id {
                    run = run_id.into();
                }
                let claim = HeldClaim {
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
                    accepted: false,
                    provider_message_id: None,
                };
                Ok((row.get::<_, i64>(0)?, claim))
            })?;
            stretch.found = found.len();
            claims.extend(found);
        }
        Ok(Successes { claims, lanes, accepted: Vec::with_capacity(batch.len()) })
    }

    /// Passes the fence; false: the claim is not theirs any more.
    pub(super) fn accept(&mut self, tx: &Tx<'_>, theirs: &ClaimRef, sent: &Sent) -> bool {
        let id = theirs.delivery_id.0;
        let Some(claim) = self.claims.get_mut(&id) else {
            return false;
        };
        let ours = claim.claim_token == theirs.claim_token.0.into_bytes()
            && claim.workspace_id == theirs.workspace_id.0
            && claim.lease_until > tx.now.0;
        if !ours || claim.accepted {
            return false;
        }
        claim.accepted = true;
        claim.provider_message_id.clone_from(&sent.provider_message_id);
        if let Some(stretch) = self.lanes.get_mut(&(claim.account_id, claim.lane_id)) {
            stretch.accepted += 1;
        }
        self.accepted.push(id);
        true
    }

    /// Another ending of the same delivery follows: it must find what came before.
    pub(super) fn settle(&mut self, tx: &Tx<'_>, delivery_id: i64) -> Result<()> {
        if self.claims.get(&delivery_id).is_some_and(|claim| claim.accepted) {
            self.write(tx)?;
        }
        self.claims.remove(&delivery_id);
        Ok(())
    }

    pub(super) fn write(&mut self, tx: &Tx<'_>) -> Result<()> {
        if self.accepted.is_empty() {
            return Ok(());
        }
        // A tree is filled at its end then, and a page is found where the last one was.
        self.accepted.sort_unstable();
        self.free(tx)?;
        for id in &self.accepted {
            let c = &self.claims[id];
            tx.execute(
                INSERT_SENT,
                rusqlite::params![
                    id,
                    c.attempt,
                    c.workspace_id,
                    c.claim_token,
                    c.claim_seq,
                    c.run_id,
                    c.claimed_at,
                    c.slot_at,
                    c.requested_at,
                    tx.now.0,
                    c.provider_message_id
                ],
            )?;
        }
        let n = tx.execute(END_SENT, (rows::id_list(self.accepted.iter().copied()), tx.now.0))?;
        if n != self.accepted.len() {
            let missing = self.accepted.len() - n;
            return Err(StoreError::Database(format!("{missing} deliveries are in flight but not sending")));
        }
        self.accepted.clear();
        Ok(())
    }

    /// Takes the claims out of flight: a lane's stretch in one go where nothing else lies in it.
    fn free(&mut self, tx: &Tx<'_>) -> Result<()> {
        let mut n = 0;
        for (&(account_id, lane_id), stretch) in &self.lanes {
            if stretch.accepted > 0 && stretch.accepted == stretch.found {
                n += tx.execute(DELETE_CLAIMS, (account_id, lane_id, stretch.from, stretch.to))?;
            }
        }
        for id in &self.accepted {
            let c = &self.claims[id];
            let whole = self.lanes.get(&(c.account_id, c.lane_id)).is_some_and(|s| s.accepted == s.found);
            if !whole {
                n += tx.execute(DELETE_INFLIGHT, (c.account_id, c.lane_id, id, c.claim_token))?;
            }
        }
        // What comes later in this batch goes one by one.
        for stretch in self.lanes.values_mut() {
            (stretch.accepted, stretch.found) = (0, usize::MAX);
        }
        if n != self.accepted.len() {
            let problem = format!("{} claims were accepted and {n} were in flight", self.accepted.len());
            return Err(StoreError::Database(problem));
        }
        Ok(())
    }
}
