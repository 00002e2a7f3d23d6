//! Telegram: the Bot API.
//!
//! Start with `send`; `wire` has the JSON, `errors` says what the answers mean.
//! Telegram has no idempotency key and no way to read a chat back, so an unknown outcome stays unknown.

use std::time::Duration;

use domain::message::Message;
use domain::outcome::{Failure, Outcome};
use domain::time::Span;
use futures_util::future::BoxFuture;

use crate::incoming::{Batch, Callback, HookCall, HookError, HookSettings, Hooked};
use crate::part::{Action, ChannelSettings, RenderError, Rendered};
use crate::platform::{Account, Network, Platform, Probe, Question, Reconciled, Report, Sending};

pub mod config;
pub mod errors;
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
    fn name(&self) -> &'static str {
        NAME
    }

    fn api_base(&self) -> &'static str {
        config::API_BASE
    }

    fn accepts_token(&self, token: &str) -> bool {
        config::accepts_token(token)
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
        Some(config::HOOK_HEADER)
    }

    fn hook(&self, settings: &HookSettings, call: &HookCall<'_>) -> Result<Hooked, HookError> {
        receive::hook(settings, call)
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
