//! Claim: one call of `claim_deliveries`, and when it is worth calling again.

use domain::ids::{ClaimToken, DeliveryId, WorkspaceId};
use tokio_postgres::Row;

use super::rows::{self, Time};
use super::{Again, As, Postgres, Query};
use crate::error::{Result, StoreError};
use crate::queue::{Begun, Claim, ClaimRequest, Claimed, Whose};

/// We say when a request leaves (`marks`), so a claim that dies before is merely lost.
const CLAIM: &str =
    concat!("SELECT ", rows::claim_columns!(), " FROM claim_deliveries($1, $2, $3, $4, true, $5)");
/// When to ask again, and whether that is within the look-ahead: then somebody else may have held what is due.
const NEXT_AT: &str =
    "SELECT n.at, n.at <= rupor_now() + $2 * interval '1 millisecond' FROM next_claim_at($1) AS n (at)";
/// A claim that the server forgets in a crash was never marked, so nothing left under it: it need not wait for the disk.
pub(super) const NOT_AT_ONCE: &str = "SELECT set_config('synchronous_commit', 'off', true)";
/// For a claim that somebody else made.
const BEGIN_SEND: &str = concat!(
    "SELECT ",
    rows::claim_columns!(),
    ", begun FROM (SELECT (b.claim).*, b.begun FROM begin_send($1, $2, $3) AS b) AS c"
);
const AWAIT: &str = "SELECT await_due_account($1, $2)";

pub(super) const STATEMENTS: &[&str] = &[CLAIM, NEXT_AT, NOT_AT_ONCE, BEGIN_SEND, AWAIT];

impl Postgres {
    /// An unanswered COMMIT is reported: what it may have claimed comes back when its lease ends.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        let workspace = match request.whose {
            Whose::Workspace(id) => Some(id.0),
            Whose::Everyone => None,
        };
        let limit = i32::try_from(request.limit).unwrap_or(i32::MAX);
        let ahead_ms = i32::try_from(request.ahead.0.div_euclid(1_000)).unwrap_or(i32::MAX);
        let lease_ms = request.lease.0.div_euclid(1_000);
        let not_at_once = Query { sql: NOT_AT_ONCE, params: &[] };
        let claim =
            Query { sql: CLAIM, params: &[&workspace, &request.run_id, &limit, &ahead_ms, &lease_ms] };
        let next_at = Query { sql: NEXT_AT, params: &[&workspace, &f64::from(ahead_ms)] };
        let who = As::from(request.whose);
        let (found, due) = claimed(&self.run(who, Again::Never, &[not_at_once, claim, next_at]).await?)?;
        if !found.claims.is_empty() || !due || limit == 0 {
            return Ok(found);
        }
        // A claim steps over whatever is locked. Where one account is all there is, and its outcomes are written one
        // after another, it would never find it free: it stands in line like everybody else.
        let wait = Query { sql: AWAIT, params: &[&workspace, &ahead_ms] };
        Ok(claimed(&self.run(who, Again::Never, &[wait, not_at_once, claim, next_at]).await?)?.0)
    }
}

/// Not done again: after an unanswered COMMIT nobody knows whether it was begun.
impl Postgres {
    pub async fn begin_send(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        token: ClaimToken,
    ) -> Result<Begun> {
        let row = self
            .first(As::Dispatcher, Again::Never, BEGIN_SEND, &[&workspace.0, &delivery.0, &token.0])
            .await?;
        match row {
            None => Ok(Begun::Lost),
            Some(row) if row.get("begun") => Ok(Begun::Now(Box::new(rows::claim(&row)?))),
            Some(_) => Ok(Begun::Before),
        }
    }
}

/// The claims, and whether something was due that somebody else held.
fn claimed(results: &[Vec<Row>]) -> Result<(Claimed, bool)> {
    let [.., claims, next_at] = results else {
        return Err(StoreError::Database("a claim came back incomplete".into()));
    };
    let next = next_at.first();
    let claims = claims.iter().map(rows::claim).collect::<Result<Vec<Claim>>>()?;
    let at = next.and_then(|row| row.get::<_, Option<Time>>(0)).map(|Time(at)| at);
    let due = next.and_then(|row| row.get::<_, Option<bool>>(1)).unwrap_or(false);
    Ok((Claimed { claims, next_at: at }, due))
}
