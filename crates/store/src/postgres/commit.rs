//! Commit: outcomes, progress and renewals, each a batch in one call behind the fence.

use domain::delivery::Status;
use domain::limits::ERROR_TEXT_MAX;
use domain::outcome::{Failure, Outcome};
use domain::time::Span;
use serde_json::{Value, json};
use tokio_postgres::types::Json;

use super::{Again, As, Postgres, rows};
use crate::error::{Result, StoreError};
use crate::queue::{ClaimRef, Finish, FinishKind, Finished, PartProgress};

const COMMIT: &str = "SELECT result, status FROM commit_outcomes($1)";
const RECORD_PARTS: &str = "SELECT record_parts($1)";
const RENEW: &str = "SELECT renew_leases($1, $2)";

pub(super) const STATEMENTS: &[&str] = &[COMMIT, RECORD_PARTS, RENEW];

impl Postgres {
    /// The first outcome of a claim wins, so an unanswered COMMIT is done again and answers `Repeated`.
    pub async fn commit(&self, batch: Vec<Finish>) -> Result<Vec<Finished>> {
        let items = Json(batch.iter().map(finish).collect::<Vec<_>>());
        let rows = self.all(As::Dispatcher, Again::Safe, COMMIT, &[&items]).await?;
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
    if let PartProgress::Done { part, provider_message_id } = progress {
        item["part"] = json!(part);
        item["provider_message_id"] = json!(provider_message_id);
    }
    item
}

fn finish(finish: &Finish) -> Value {
    let mut item = claim(&ClaimRef {
        workspace_id: finish.workspace_id,
        delivery_id: finish.delivery_id,
        claim_token: finish.claim_token,
    });
    item["chance"] = json!(finish.chance.ppm());
    let outcome = match &finish.ending {
        FinishKind::Release => {
            item["released"] = Value::Bool(true);
            return item;
        }
        FinishKind::Outcome(outcome) => outcome,
        FinishKind::RetryAt(outcome, at) => {
            item["retry_at"] = json!(at);
            outcome
        }
    };
    match outcome {
        Outcome::Sent(sent) => {
            item["ok"] = Value::Bool(true);
            item["provider_message_id"] = json!(sent.provider_message_id);
        }
        Outcome::Failed(failure) => {
            item["ok"] = Value::Bool(false);
            item["error"] = json!(shortened(failure));
        }
    }
    item
}

/// The error as it is kept: short, and already redacted by the adapter that made it. A NUL in a platform's answer
/// must not cost the outcome, and PostgreSQL cannot store one.
fn shortened(failure: &Failure) -> Failure {
    let mut short = failure.clone();
    short.message = failure.message.chars().filter(|&c| c != '\0').take(ERROR_TEXT_MAX).collect();
    let raw = short.raw.to_string();
    if raw.len() > 4 * ERROR_TEXT_MAX || raw.contains("\\u0000") {
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
