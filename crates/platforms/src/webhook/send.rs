//! One signed call, once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use url::Url;

use super::{NAME, checked, errors, is_loopback};
use crate::part::{Part, Target};
use crate::platform::{Account, Fare, Network, Report, Sending, misfit};
use crate::secret::SecretUrl;
use crate::transport::{Method, Payload, Request, text_header};

pub(super) async fn send(network: &Network, account: &Account, sending: Sending<'_>) -> Report {
    let misfit = |what: &str| Report::failed(account, misfit(NAME, what));
    let Part::Text(part) = sending.part else { return misfit("only words can be sent") };
    let Target::Name(target) = &part.target else { return misfit("the target is no address") };
    let Ok(url) = checked(target) else { return misfit("the target cannot be called") };
    let Ok(body) = serde_json::from_str::<Value>(part.text.as_str()) else {
        return misfit("the body is not JSON");
    };
    if let Err(failure) = sending.budget.pay(Fare::Visible).await {
        return Report::failed(account, failure);
    }
    let (id, request) = signed(network, account, url, sending.key, body, sending.deadlines.request);
    match errors::classify(&network.egress.send(&account.route, request).await) {
        Ok(()) => Report::sent(vec![id]),
        Err(failure) => Report::failed(account, failure),
    }
}

/// The request of a call, and the id by which its receiver knows a repeat.
pub(super) fn signed(
    network: &Network,
    account: &Account,
    url: Url,
    key: &str,
    body: Value,
    patience: Duration,
) -> (String, Request) {
    // Who configures an address on this machine means it.
    if is_loopback(&url) {
        network.egress.guard().allow_loopback_origin(&url);
    }
    let id = message_id(key);
    let at = seconds();
    // What is signed is what goes on the wire: the body is written from the same value in the same way.
    let signed = format!("{id}.{at}.{body}");
    let signature = account.token.signature(signed.as_bytes()).map(|signature| format!("v1,{signature}"));
    let request = Request::new(Method::Post, SecretUrl::new(url, "webhook call"), patience)
        .header(text_header("webhook-id", &id))
        .header(text_header("webhook-timestamp", &at))
        .header(signature.and_then(|signature| text_header("webhook-signature", &signature)))
        .payload(Payload::Json(body));
    (id, request)
}

/// The time of this attempt: receivers refuse calls that are minutes old by their own clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the receiver compares it with the wall clock, not with a database"
)]
fn seconds() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).to_string()
}

/// The same for every attempt; without what a header or the signature would stumble over.
fn message_id(key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    format!("msg_{}", key.chars().map(plain).collect::<String>())
}
