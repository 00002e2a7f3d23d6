//! VK: walls and conversations.
//!
//! Start with `send`; `upload` puts media there first, `wire` has the forms, `errors` says what the answers mean.
//! A post carries a `guid`, a message a `random_id`, both made from the key of the part: for an hour VK itself
//! refuses to show one thing twice. What each kind of token can do is in docs/platforms/vk.

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
use crate::walls::WallReader;

pub mod errors;
pub mod facts;
mod names;
mod probe;
pub mod read;
pub mod receive;
mod reconcile;
pub mod render;
mod send;
mod upload;
mod walls;
mod wire;

#[cfg(test)]
mod render_tests;
#[cfg(test)]
mod tests;

pub const NAME: &str = "vk";

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Vk;

impl Platform for Vk {
    fn facts(&self) -> &'static Facts {
        &facts::FACTS
    }

    fn recognises_repeats(&self) -> bool {
        true
    }

    fn accepts_token(&self, token: &str) -> bool {
        facts::accepts_token(token)
    }

    fn chat_kind(&self, target: &str) -> ChatKind {
        facts::chat_kind(target)
    }

    fn talk_kind(&self, target: &str) -> ChatKind {
        facts::talk_kind(target)
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

    fn plain_target(&self, written: &str) -> String {
        match self.wall(written) {
            Some(crate::walls::Wall::Owner(id)) => id.to_string(),
            _ => written.trim().to_owned(),
        }
    }

    fn walls(&self) -> Option<&dyn WallReader> {
        Some(self)
    }
}

impl Receiver for Vk {
    fn poll<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        cursor: Option<&'a str>,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Batch, Failure>> {
        Box::pin(self.poll_events(network, account, cursor, wait))
    }

    fn hook_header(&self) -> Option<&'static str> {
        None
    }

    fn hook(&self, settings: &HookSettings, call: &HookCall<'_>) -> Result<Hooked, HookError> {
        receive::hook(settings, call)
    }

    fn hook_settings<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
    ) -> BoxFuture<'a, Result<serde_json::Value, Failure>> {
        Box::pin(receive::hook_settings(network, account))
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
