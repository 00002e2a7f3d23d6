//! What the answer to a call means. Pure.

use domain::outcome::{Failure, Scope};

use crate::transport::{Exchange, TroubleKind};
use crate::verdict::{from_gateway, from_trouble, permanent, raw, transient};

/// A flood without a wait is believed for so long.
const FLOOD_WAIT_MS: i64 = 30_000;

/// `Ok`: it was heard. The body of the answer says nothing.
pub(super) fn classify(exchange: &Exchange) -> Result<(), Failure> {
    let answer = match exchange {
        Err(trouble) if trouble.kind == TroubleKind::Guard => {
            return Err(permanent(Scope::Channel, "webhook.address", trouble.message.clone()));
        }
        Err(trouble) => return Err(from_trouble(trouble, Scope::Platform)),
        Ok(answer) => answer,
    };
    let status = answer.status;
    let failure = match status {
        200..=299 => return Ok(()),
        300..=399 => permanent(Scope::Channel, "webhook.redirect", format!("status {status}")),
        410 => permanent(Scope::Channel, "webhook.gone", "status 410"),
        401 | 403 | 404 | 405 => permanent(Scope::Channel, "webhook.refused", format!("status {status}")),
        _ => match from_gateway(answer, FLOOD_WAIT_MS) {
            Some(failure) => return Err(failure),
            None if (400..500).contains(&status) => {
                permanent(Scope::Delivery, "webhook.refused", format!("status {status}"))
            }
            None => transient(Scope::Platform, &status.to_string(), format!("status {status}")).unknown(),
        },
    };
    Err(failure.with_raw(raw(answer)))
}
