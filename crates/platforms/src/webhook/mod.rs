//! Webhooks: a program that hears, signed as Standard Webhooks (standardwebhooks.com).
//!
//! The account is the secret that signs, the channel is the address. The address is foreign: it is judged by the egress
//! guard, never redirected, and plain http goes to this machine alone. A call that is made again carries the same
//! `webhook-id`, so the receiver recognises it. Start with `send`.

use domain::chat::ChatKind;
use domain::message::Message;
use domain::time::Span;
use futures_util::future::BoxFuture;
use serde_json::json;
use url::{Host, Url};

use crate::facts::Facts;
use crate::part::{
    Action, ChannelSettings, Fitted, Part, RenderError, Rendered, SendOptions, Target, TextPart,
};
use crate::platform::{
    Account, Identity, Network, Platform, Probe, Question, Reconciled, Report, Sending, connection_words,
};

mod ask;
mod errors;
pub mod facts;
mod send;

#[cfg(test)]
mod tests;

pub use ask::{ANSWER_BYTES_MAX, ANSWER_TIME, Unanswered, ask};

pub const NAME: &str = "webhook";

/// The token of an account that does not sign.
pub const UNSIGNED: &str = "unsigned";

/// Bytes of one call; a receiver that takes more is rare.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Webhook;

impl Platform for Webhook {
    fn facts(&self) -> &'static Facts {
        &facts::FACTS
    }

    fn accepts_token(&self, token: &str) -> bool {
        token == UNSIGNED || crate::secret::signing_key(token).is_some()
    }

    fn chat_kind(&self, _: &str) -> ChatKind {
        ChatKind::Channel
    }

    fn render(
        &self,
        action: &Action<'_>,
        message: &Message,
        settings: &ChannelSettings,
    ) -> Result<Rendered, RenderError> {
        // A program that was told is told; there is nothing of it to change.
        if !matches!(action, Action::Send) {
            return Err(RenderError::NothingPublished { platform: NAME, reason: "a call cannot be changed" });
        }
        let target = checked(&settings.target)?;
        let body = match &message.data {
            Some(data) => data.clone(),
            None => json!({"type": "message", "data": message}),
        };
        let text = body.to_string();
        if text.len() > BODY_BYTES_MAX {
            let (what, length, max) = ("the call", text.len(), BODY_BYTES_MAX);
            return Err(RenderError::TooLong { platform: NAME, what, length, max });
        }
        let part = TextPart {
            target: Target::Name(target.to_string()),
            text: Fitted::plain(text),
            buttons: Vec::new(),
            options: SendOptions::default(),
        };
        Ok(Rendered { parts: vec![Part::Text(part)], notes: Vec::new() })
    }

    fn handle_lasts(&self) -> Option<Span> {
        None
    }

    fn send<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        sending: Sending<'a>,
    ) -> BoxFuture<'a, Report> {
        Box::pin(send::send(network, account, sending))
    }

    fn reconcile<'a>(&'a self, _: &'a Network, _: &'a Account, _: Question<'a>) -> BoxFuture<'a, Reconciled> {
        Box::pin(async { Reconciled::CannotKnow })
    }

    /// A receiver cannot be asked without being told something: only what is known is said.
    fn probe<'a>(
        &'a self,
        _: &'a Network,
        account: &'a Account,
        _: Option<&'a ChannelSettings>,
    ) -> BoxFuture<'a, Probe> {
        let name = if account.token.signs() { "calls are signed" } else { "calls are not signed" };
        let identity = Identity { id: NAME.to_owned(), name: name.to_owned(), username: None };
        let connection = connection_words(account);
        Box::pin(
            async move { Probe { identity: Ok(identity), channel: None, connection, limits: facts::LIMITS } },
        )
    }
}

/// Whether an address may be called at all.
pub fn is_callable(address: &str) -> bool {
    checked(address).is_ok()
}

/// An address that may be called at all: https, or http on this machine.
fn checked(target: &str) -> Result<Url, RenderError> {
    let bad = || RenderError::BadTarget {
        platform: NAME,
        target: domain::shown::address(target),
        expected: "an address of the form https://host/path; plain http goes to this machine alone",
    };
    let url = Url::parse(target.trim()).map_err(|_| bad())?;
    let fits = match url.scheme() {
        "https" => url.host().is_some(),
        "http" => is_loopback(&url),
        _ => false,
    };
    let named = !url.username().is_empty() || url.password().is_some();
    if fits && !named { Ok(url) } else { Err(bad()) }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
