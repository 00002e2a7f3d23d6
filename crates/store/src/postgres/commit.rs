//! Commit: outcomes, progress and renewals, each a batch in one call behind the fence.

use domain::delivery::Status;
use domain::limits::{ERROR_RAW_BYTES_MAX, ERROR_TEXT_MAX};
use domain::outcome::{Failure, Outcome};
use domain::time::Span;
use serde_json::{Value, json};
use tokio_postgres::types::Json;

use super::{Again, As, Postgres, rows};
use crate::error::{Result, StoreError};
use crate::queue::{ClaimRef, Finish, FinishKind, Finished, PartProgress};

const COMMIT: &str = "SELECT result, status FROM commit_outcomes($1, $2, $3, $4, NULL, $5, $6, $7)";
const RECORD_PARTS: &str = "SELECT record_parts($1)";
const RENEW: &str = "SELECT renew_leases($1, $2)";

pub(super) const STATEMENTS: &[&str] = &[COMMIT, RECORD_PARTS, RENEW];

impl Postgres {
    /// The first outcome of a claim wins, so an unanswered COMMIT is done again and answers `Repeated`.
    pub async fn commit(&self, batch: Vec<Finish>) -> Result<Vec<Finished>> {
        let ids =
            |id: fn(&ClaimRef) -> i64| batch.iter().map(|finish| id(&finish.claim)).collect::<Vec<i64>>();
        let (workspaces, deliveries) = (ids(|claim| claim.workspace_id.0), ids(|claim| claim.delivery_id.0));
        let (accounts, lanes) = (ids(|claim| claim.account_id.0), ids(|claim| claim.lane_id.0));
        let tokens: Vec<uuid::Uuid> = batch.iter().map(|finish| finish.claim.claim_token.0).collect();
        let provider_ids: Vec<Option<&str>> = batch.iter().map(provider_id).collect();
        // A success needs no more words than its id; the time is the database's.
        let outcomes: Vec<Option<Value>> = batch.iter().map(outcome).collect();
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&workspaces, &deliveries, &tokens, &provider_ids, &outcomes, &accounts, &lanes];
        let rows = self.all(As::Dispatcher, Again::Safe, COMMIT, &params).await?;
        let finished = rows.iter().map(finished).collect::<Result<_>>()?;
        self.ring();
        Ok(finished)
    }

    pub async fn record_parts(&self, batch: Vec<(ClaimRef, PartProgress)>) -> Result<Vec<bool>> {
        let items = Json(batch.iter().map(part).collect::<Vec<_>>());
        let rows = self.all(As::Dispatcher, Again::Safe, RECORD_PARTS, &[&items]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    pub async fn renew(&self, batch: Vec<ClaimRef>, lease: Span) -> Result<Vec<bool>> {
        let items = Json(batch.iter().map(claim).collect::<Vec<_>>());
        let lease_ms = lease.0.div_euclid(1_000);
        let rows = self.all(As::Dispatcher, Again::Safe, RENEW, &[&items, &lease_ms]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

fn claim(claim: &ClaimRef) -> Value {
    json!({
        "workspace_id": claim.workspace_id,
        "delivery_id": claim.delivery_id,
        "claim_token": claim.claim_token,
    })
}

fn part((of, progress): &(ClaimRef, PartProgress)) -> Value {
    let mut item = claim(of);
    match progress {
        PartProgress::Requested => {}
        PartProgress::Absent => item["absent"] = json!(true),
        PartProgress::Done { part, provider_message_id } => {
            item["part"] = json!(part);
            item["provider_message_id"] = json!(provider_message_id);
        }
    }
    item
}

fn provider_id(finish: &Finish) -> Option<&str> {
    match &finish.ending {
        FinishKind::Outcome(Outcome::Sent(sent)) | FinishKind::RetryAt(Outcome::Sent(sent), _) => {
            sent.provider_message_id.as_deref()
        }
        _ => None,
    }
}

/// Whatever is not a success, as `commit_outcomes` reads it.
fn outcome(finish: &Finish) -> Option<Value> {
    let chance = finish.chance.ppm();
    match &finish.ending {
        FinishKind::Release => Some(json!({"released": true})),
        FinishKind::Outcome(Outcome::Sent(_)) | FinishKind::RetryAt(Outcome::Sent(_), _) => None,
        FinishKind::Outcome(Outcome::Failed(failure)) => {
            Some(json!({"ok": false, "error": shortened(failure), "chance": chance}))
        }
        FinishKind::RetryAt(Outcome::Failed(failure), at) => {
            Some(json!({"ok": false, "error": shortened(failure), "chance": chance, "retry_at": at}))
        }
    }
}

/// The error as it is kept: short, and already redacted by the adapter that made it. A NUL in a platform's answer
/// must not cost the outcome, and PostgreSQL cannot store one.
fn shortened(failure: &Failure) -> Failure {
    let mut short = failure.clone();
    short.message = failure.message.chars().filter(|&c| c != '\0').take(ERROR_TEXT_MAX).collect();
    let raw = short.raw.to_string();
    if raw.len() > ERROR_RAW_BYTES_MAX || raw.contains("\\u0000") {
        short.raw = Value::Null;
    }
    short
}

fn finished(row: &tokio_postgres::Row) -> Result<Finished> {
    let status = || rows::word(row, 1, Status::parse);
    match row.get(0) {
        "done" => Ok(Finished::Done(status()?)),
        "repeated" => Ok(Finished::Repeated(status()?)),
        "adopted" => Ok(Finished::Adopted),
        "lost_claim" => Ok(Finished::LostClaim),
        other => Err(StoreError::Database(format!("unexpected result {other:?} of a commit"))),
    }
}
