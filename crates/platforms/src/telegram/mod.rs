//! Telegram: the Bot API.
//!
//! Start with `send`; `wire` has the JSON, `errors` says what the answers mean.
//! Telegram has no idempotency key and no way to read a chat back, so an unknown outcome stays unknown.

use std::time::Duration;

use domain::chat::ChatKind;
use domain::message::Message;
use domain::outcome::{Failure, Outcome};
use domain::time::Span;
use futures_util::future::BoxFuture;

use crate::facts::Facts;
use crate::incoming::{Batch, Callback, HookCall, HookError, HookSettings, Hooked};
use crate::part::{Action, ChannelSettings, RenderError, Rendered};
use crate::platform::{
    Account, Hook, Network, Platform, Probe, Question, Receiver, Reconciled, Report, Sending,
};

pub mod errors;
pub mod facts;
mod probe;
pub mod receive;
pub mod render;
mod send;
mod wire;

pub(crate) mod markdown;

#[cfg(test)]
mod render_tests;
#[cfg(test)]
mod tests;

pub const NAME: &str = "telegram";

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Telegram;

impl Platform for Telegram {
    fn facts(&self) -> &'static Facts {
        &facts::FACTS
    }

    fn accepts_token(&self, token: &str) -> bool {
        facts::accepts_token(token)
    }

    fn chat_kind(&self, target: &str) -> ChatKind {
        facts::chat_kind(target)
    }

    fn plain_target(&self, written: &str) -> String {
        facts::plain_target(written)
    }

    fn doubt(&self, target: &str) -> Option<String> {
        facts::doubt(target)
    }

    fn post_link(&self, target: &str, id: &str) -> Option<String> {
        facts::link(target, id)
    }

    fn render(
        &self,
        action: &Action<'_>,
        message: &Message,
        settings: &ChannelSettings,
    ) -> Result<Rendered, RenderError> {
        render::render(action, message, settings)
    }

    fn handle_lasts(&self) -> Option<Span> {
        // A file_id is good for good, for the bot that got it.
        None
    }

    fn send<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        sending: Sending<'a>,
    ) -> BoxFuture<'a, Report> {
        Box::pin(self.send_part(network, account, sending))
    }

    fn reconcile<'a>(&'a self, _: &'a Network, _: &'a Account, _: Question<'a>) -> BoxFuture<'a, Reconciled> {
        Box::pin(async { Reconciled::CannotKnow })
    }

    fn probe<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        channel: Option<&'a ChannelSettings>,
    ) -> BoxFuture<'a, Probe> {
        Box::pin(self.look(network, account, channel))
    }

    fn receiver(&self) -> Option<&dyn Receiver> {
        Some(self)
    }
}

impl Receiver for Telegram {
    fn poll<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        cursor: Option<&'a str>,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Batch, Failure>> {
        Box::pin(self.poll_updates(network, account, cursor, wait))
    }

    fn hook_header(&self) -> Option<&'static str> {
        Some(facts::HOOK_HEADER)
    }

    fn hook(&self, settings: &HookSettings, call: &HookCall<'_>) -> Result<Hooked, HookError> {
        receive::hook(settings, call)
    }

    fn set_hook<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        url: &'a str,
        secret: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(receive::set_hook(network, account, url, secret))
    }

    fn hooks<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
    ) -> BoxFuture<'a, Result<Vec<Hook>, Failure>> {
        Box::pin(receive::hooks(network, account))
    }

    fn remove_hook<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        url: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(receive::remove_hook(network, account, url))
    }

    fn answer_callback<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        callback: &'a Callback,
        text: Option<&'a str>,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(self.answer(network, account, callback, text))
    }
}
