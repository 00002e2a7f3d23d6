//! Claim: one call of `claim_deliveries`, and when it is worth calling again.

use super::rows::{self, Time};
use super::{Again, As, Postgres, Query};
use crate::error::{Result, StoreError};
use crate::queue::{Claim, ClaimRequest, Claimed, Whose};

/// We say when a request leaves (`marks`), so a claim that dies before is merely lost.
const CLAIM: &str =
    concat!("SELECT ", rows::claim_columns!(), " FROM claim_deliveries($1, $2, $3, $4, true, $5)");
const NEXT_AT: &str = "SELECT next_claim_at($1)";

pub(super) const STATEMENTS: &[&str] = &[CLAIM, NEXT_AT];

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
        let queries = [
            Query { sql: CLAIM, params: &[&workspace, &request.run_id, &limit, &ahead_ms, &lease_ms] },
            Query { sql: NEXT_AT, params: &[&workspace] },
        ];
        let results = self.run(As::from(request.whose), Again::Never, &queries).await?;
        let [claims, next_at] = results.as_slice() else {
            return Err(StoreError::Database("a claim came back incomplete".into()));
        };
        let next_at = next_at.first().and_then(|row| row.get::<_, Option<Time>>(0));
        Ok(Claimed {
            claims: claims.iter().map(rows::claim).collect::<Result<Vec<Claim>>>()?,
            next_at: next_at.map(|Time(at)| at),
        })
    }
}
