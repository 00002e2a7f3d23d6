//! Calls to a shop's own services: what turns asked for is claimed and asked, and the answer is put into the dialogue.
//!
//! A node that dies between a call and its answer leaves a lease that ends; then it is asked again with the same key.

use std::collections::HashMap;

use domain::dialogue::{What, answer_fields};
use domain::time::Span;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use platforms::platform::Network;
use platforms::webhook::{self, Unanswered};
use serde_json::{Value, json};
use store::{CallEnd, ServiceCall, Store};
use tokio::sync::{Notify, watch};

use super::{Settings, hear};
use crate::addresses;

/// How often a service is asked in all.
const TRIES_MAX: i32 = 3;
/// Waits before the second and the third time.
const AGAIN: [Span; 2] = [Span::from_secs(1), Span::from_secs(3)];
/// Beyond the patience with a service, so that only the dead lose a call.
const LEASE: Span = Span::from_secs(12);
/// Calls of one node at a time, and to one service: one that hangs keeps none of the others waiting.
const CALLS_MAX: usize = 128;
const CALLS_OF_SERVICE_MAX: usize = 16;
/// Between two looks for calls that other nodes left. Those of this node are told of by the turns that ask for them.
const LOOK_EVERY: Span = Span::from_secs(5);
/// What is due and was not taken (its service is busy, there was no place) is looked at again after this.
const LOOK_AGAIN: Span = Span::from_millis(500);
/// Characters of a reason that are kept.
const REASON_MAX: usize = 200;

pub(super) async fn run(
    store: &Store,
    network: &Network,
    settings: &Settings,
    asked: &Notify,
    mut stop: watch::Receiver<bool>,
) {
    let mut calling = FuturesUnordered::new();
    let mut of_service: HashMap<String, usize> = HashMap::new();
    while !*stop.borrow() {
        let mut wait = until_next(store).await;
        if wait == Span::ZERO {
            wait = LOOK_AGAIN;
            let busy = of_service.iter().filter(|(_, n)| **n >= CALLS_OF_SERVICE_MAX);
            let busy: Vec<String> = busy.map(|(service, _)| service.clone()).collect();
            let places = CALLS_MAX.saturating_sub(calling.len()).min(CALLS_OF_SERVICE_MAX);
            match store.bot_claim_calls(places, LEASE, busy).await {
                Ok(claimed) => {
                    for call in claimed {
                        *of_service.entry(service_of(&call)).or_default() += 1;
                        calling.push(make(store, network, settings, call));
                    }
                }
                Err(error) => tracing::warn!(%error, "calls to services could not be claimed"),
            }
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            Some(service) = calling.next(), if !calling.is_empty() => {
                if let Some(n) = of_service.get_mut(&service) {
                    *n -= 1;
                }
                of_service.retain(|_, n| *n > 0);
            }
            () = asked.notified() => {}
            () = tokio::time::sleep(wait.into()) => {}
        }
    }
}

/// Until a call is due; without services this is all that happens.
async fn until_next(store: &Store) -> Span {
    let looked = async { store::Result::Ok((store.bot_next_call().await?, store.now().await?)) };
    match looked.await {
        Ok((Some(next), now)) => (next - now).clamp(Span::ZERO, LOOK_EVERY),
        Ok((None, _)) => LOOK_EVERY,
        Err(error) => {
            tracing::debug!(%error, "calls to services could not be looked for");
            LOOK_AGAIN
        }
    }
}

/// As the claim knows a busy one.
fn service_of(call: &ServiceCall) -> String {
    format!("{}/{}", call.bot_id.map(|id| id.to_string()).unwrap_or_default(), call.service)
}

/// Makes one call and writes how it went.
async fn make(store: &Store, network: &Network, settings: &Settings, call: ServiceCall) -> String {
    let answer = match call.tries > TRIES_MAX {
        // Whoever asked for the last time died before the answer was written.
        true => Err(Unanswered { reason: "the node died while it was asked".into(), again: false }),
        false => ask(store, network, settings, &call).await,
    };
    if let Err(unanswered) = &answer {
        let (service, reason) = (&call.service, &unanswered.reason);
        tracing::warn!(
            dialogue = call.recipient_id.0,
            service,
            tries = call.tries,
            reason,
            "a service did not answer"
        );
    }
    if let Err(error) = store.bot_settle_call(&call, end(&call, answer)).await {
        tracing::warn!(%error, "how a call went could not be written; it is made again");
    }
    service_of(&call)
}

async fn ask(
    store: &Store,
    network: &Network,
    settings: &Settings,
    call: &ServiceCall,
) -> Result<Value, Unanswered> {
    let nowhere = |reason: String| Unanswered { reason, again: false };
    let Some(id) = call.account_id else {
        return Err(nowhere("no address is configured for it".into()));
    };
    // The database may be in trouble for a moment; the service is not to blame.
    let ours = |error: store::StoreError| Unanswered { reason: error.to_string(), again: true };
    let rows = store.accounts(call.workspace_id).await.map_err(ours)?;
    let Some(row) = rows.into_iter().find(|row| row.account_id == id) else {
        return Err(nowhere("no address is configured for it".into()));
    };
    let token = store.account_token(call.workspace_id, id).await.map_err(ours)?;
    let account =
        addresses::account(&row, &token, &settings.bases).map_err(|error| nowhere(format!("{error:#}")))?;
    let question = json!({
        "type": "bot.call",
        "data": {"service": call.service, "dialogue": call.recipient_id, "fields": call.fields},
    });
    webhook::ask(network, &account, &call.key, question, webhook::ANSWER_TIME).await
}

/// What an answer, or none, means for the call. Pure.
fn end(call: &ServiceCall, answer: Result<Value, Unanswered>) -> CallEnd {
    let short = |reason: String| reason.chars().take(REASON_MAX).collect::<String>();
    let (fields, failed) = match answer {
        Ok(mut answer) => {
            hear::scrub(&mut answer);
            (Some(answer_fields(&answer).unwrap_or_default()), None)
        }
        Err(Unanswered { reason, again: true }) if call.tries < TRIES_MAX => {
            let waits = usize::try_from(call.tries - 1).unwrap_or(0).min(AGAIN.len() - 1);
            return CallEnd::Again { after: AGAIN[waits], reason: short(reason) };
        }
        Err(unanswered) => (None, Some(short(unanswered.reason))),
    };
    let reason = failed.clone().unwrap_or_default();
    let what = What::Answer { service: call.service.clone(), fields, reason };
    // When it happened is when it is written down.
    let event = what.on(&call.platform, domain::time::Timestamp(0));
    CallEnd::Over { event: serde_json::to_value(event).unwrap_or_default(), failed }
}

#[cfg(test)]
mod tests {
    use domain::ids::{RecipientId, WorkspaceId};

    use super::*;

    fn call(tries: i32) -> ServiceCall {
        ServiceCall {
            workspace_id: WorkspaceId(1),
            outbox_id: 7,
            recipient_id: RecipientId(17),
            platform: "max".into(),
            bot_id: None,
            account_id: None,
            service: "orders".into(),
            fields: json!({}),
            tries,
            key: "h.call.7".into(),
        }
    }

    #[test]
    fn a_service_is_asked_three_times_and_then_it_failed_with_the_reason() {
        let hangs = || Err(Unanswered { reason: "no answer in time".into(), again: true });
        for (tries, seconds) in [(1, 1), (2, 3)] {
            let again =
                CallEnd::Again { after: Span::from_secs(seconds), reason: "no answer in time".into() };
            assert_eq!(end(&call(tries), hangs()), again);
        }
        let CallEnd::Over { event, failed } = end(&call(3), hangs()) else { panic!("a fourth time") };
        assert_eq!(failed.as_deref(), Some("no answer in time"));
        assert_eq!((&event["fields"], &event["reason"]), (&Value::Null, &json!("no answer in time")));
        let html = Err(Unanswered { reason: "its answer is text/html, not JSON".into(), again: false });
        assert!(
            matches!(end(&call(1), html), CallEnd::Over { failed: Some(_), .. }),
            "asking again does not help"
        );
        let CallEnd::Over { event, failed: None } = end(&call(1), Ok(json!({"status": "в пути", "n": 2})))
        else {
            panic!("it answered")
        };
        assert_eq!(event["fields"], json!({"status": "в пути", "n": "2"}));
        let CallEnd::Over { event, .. } = end(&call(1), Ok(json!({"status\0": "а\0б"}))) else { panic!() };
        assert_eq!(event["fields"], json!({"status": "аб"}), "no database takes it otherwise");
    }
}
