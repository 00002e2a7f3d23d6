//! MAX: the Bot API.
//!
//! Start with `send`; `wire` has the JSON, `errors` says what the answers mean.
//! An upload that is still being processed is an outcome of its own: the same request is made again later, with the
//! same handle. MAX has no idempotency key, but lets a bot read its chats, so an unknown outcome can be looked up.

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
mod reconcile;
pub mod render;
mod send;
mod wire;

pub(crate) mod markdown;

#[cfg(test)]
mod render_tests;
#[cfg(test)]
mod tests;

pub const NAME: &str = "max";

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Max;

impl Platform for Max {
    fn facts(&self) -> &'static Facts {
        &facts::FACTS
    }

    fn accepts_token(&self, token: &str) -> bool {
        facts::accepts_token(token)
    }

    fn chat_kind(&self, target: &str) -> ChatKind {
        facts::chat_kind(target)
    }

    fn address_of_person(&self, user_id: &str) -> String {
        facts::address_of_person(user_id)
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
        Some(facts::HANDLE_LASTS)
    }

    fn send<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        sending: Sending<'a>,
    ) -> BoxFuture<'a, Report> {
        Box::pin(self.send_part(network, account, sending))
    }

    fn reconcile<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        question: Question<'a>,
    ) -> BoxFuture<'a, Reconciled> {
        Box::pin(self.look_for(network, account, question))
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

impl Receiver for Max {
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
