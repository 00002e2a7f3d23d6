//! Long polling: one task for each account that this node has the lease of. What a poll brought is stored together with
//! where the next one begins, so nothing is skipped and nothing acts twice.

use std::time::Duration;

use domain::ids::{AccountId, WorkspaceId};
use domain::outcome::{Category, Failure, Scope};
use domain::time::Span;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use platforms::platform::Network;
use store::{LeasedAccount, Polled, Received, Store};
use tokio::sync::watch;

use super::Settings;
use super::receive::receive;
use crate::addresses;

/// How long a platform may wait for something to tell.
const WAIT: Duration = Duration::from_secs(10);
/// How long an account stays with a node that says nothing any more.
const LEASE: Span = Span::from_secs(15);
/// Between two looks for accounts that nobody listens to.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Accounts of one node.
const ACCOUNTS_MAX: usize = 256;
/// Waits after trouble: they double up to this.
const AGAIN: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(30);

pub(super) async fn run(
    store: &Store,
    network: &Network,
    settings: &Settings,
    mut stop: watch::Receiver<bool>,
) {
    let mut listening = FuturesUnordered::new();
    while !*stop.borrow() {
        let seats = ACCOUNTS_MAX.saturating_sub(listening.len());
        match store.lease_bot_accounts(&settings.owner, LEASE, seats).await {
            Ok(leased) => {
                for account in leased {
                    listening.push(Ear { store, network, settings, stop: stop.clone() }.listen(account));
                }
            }
            Err(error) => tracing::warn!(%error, "the accounts of bots could not be read"),
        }
        tokio::select! {
            Some(()) = listening.next(), if !listening.is_empty() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

struct Ear<'a> {
    store: &'a Store,
    network: &'a Network,
    settings: &'a Settings,
    stop: watch::Receiver<bool>,
}

impl Ear<'_> {
    /// Polls until the lease is another's, the bot has it no more, or the node stops.
    async fn listen(mut self, leased: LeasedAccount) {
        let (ws, id) = (leased.workspace_id, leased.account_id);
        let mut cursor = leased.cursor;
        let mut again = AGAIN;
        loop {
            let step = self.step(ws, id, cursor.as_deref());
            let mut stop = self.stop.clone();
            let done = tokio::select! {
                done = step => done,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match done {
                Ok(Some(next)) => {
                    cursor = next;
                    again = AGAIN;
                }
                Ok(None) => return,
                Err(problem) => {
                    tracing::warn!(account = id.0, problem, "an account does not hear");
                    if let Err(error) = self.store.bot_account_problem(ws, id, Some(&problem)).await {
                        tracing::warn!(%error, "that an account does not hear could not be written down");
                    }
                    tokio::select! {
                        () = tokio::time::sleep(again) => {}
                        _ = self.stop.wait_for(|stop| *stop) => break,
                    }
                    again = (again * 2).min(AGAIN_MAX);
                }
            }
        }
        // Another node may go on at once.
        if let Err(error) = self.store.keep_bot_account(ws, id, &self.settings.owner, Span::ZERO).await {
            tracing::debug!(%error, "the lease of an account ends by itself");
        }
    }

    /// One poll, stored. `None`: the account is not ours to listen to any more.
    async fn step(
        &self,
        ws: WorkspaceId,
        id: AccountId,
        cursor: Option<&str>,
    ) -> Result<Option<Option<String>>, String> {
        let store = self.store;
        let kept = store.keep_bot_account(ws, id, &self.settings.owner, LEASE).await;
        if !kept.map_err(|error| error.to_string())? {
            return Ok(None);
        }
        let row = store.accounts(ws).await.map_err(|error| error.to_string())?;
        let Some(row) = row.into_iter().find(|row| row.account_id == id) else {
            return Ok(None);
        };
        let token = store.account_token(ws, id).await.map_err(|error| error.to_string())?;
        let account = addresses::account(&row, &token, &self.settings.bases);
        let account = account.map_err(|error| format!("{error:#}"))?;
        self.network.admit(&account);
        let platform = addresses::platform(&row.platform).map_err(|error| format!("{error:#}"))?;
        let receiver = platform
            .receiver()
            .ok_or("on this platform a bot hears nobody; take the account out of the accounts of the bot")?;
        let batch = receiver.poll(self.network, &account, cursor, WAIT).await;
        let batch = batch.map_err(|failure| in_words(&failure))?;
        let polled = Polled { owner: self.settings.owner.clone(), cursor: batch.cursor.clone() };
        match receive(store, ws, id, platform, &batch.events, Some(polled)).await {
            Ok(Received::Taken { .. }) => Ok(Some(batch.cursor)),
            Ok(Received::Full) => Err(FULL.to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

const FULL: &str = "too many messages wait to be answered; nothing more is taken until some are";

/// What people can do about a poll that failed.
fn in_words(failure: &Failure) -> String {
    let conflict = failure.code.contains("409") || failure.message.to_lowercase().contains("webhook");
    match conflict {
        true => format!(
            "the platform refuses to be polled: {}. If a webhook is set there, remove it with `rupor bot hooks remove NAME` or \
             write receive = \"webhook\"; if another program polls with this token, stop that one",
            failure.message
        ),
        false if (failure.category, failure.scope) == (Category::Permanent, Scope::Platform) => format!(
            "the platform refuses the account ({}: {}), most likely for its token; `rupor check` tells more, then put the \
             right token where the configuration looks for it and run `rupor apply`",
            failure.code, failure.message
        ),
        false => format!("{}: {}", failure.code, failure.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: &str, message: &str) -> Failure {
        Failure::new(Category::Permanent, Scope::Platform, code, message)
    }

    #[test]
    fn a_poll_that_is_refused_says_what_to_do() {
        for refused in [
            failure("409", "Conflict: can't use getUpdates method while webhook is active"),
            failure("409", "Conflict: terminated by other getUpdates request"),
        ] {
            let said = in_words(&refused);
            for help in [refused.message.as_str(), "`rupor bot hooks remove NAME`", "another program polls"] {
                assert!(said.contains(help), "{said}");
            }
        }
        let said = in_words(&failure("401", "Unauthorized"));
        assert!(said.starts_with("the platform refuses the account (401: Unauthorized)"), "{said}");
        assert!(said.contains("`rupor check`") && said.contains("`rupor apply`"), "{said}");
        let away = Failure::new(Category::Transient, Scope::Platform, "timeout", "no answer");
        assert_eq!(in_words(&away), "timeout: no answer", "it may heal by itself");
    }
}
