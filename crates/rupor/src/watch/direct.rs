//! Telling without the ledger, when the ledger is what is in trouble: once, by what was known of the ways before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::message::Message;
use domain::outcome::Outcome;
use domain::time::Timestamp;
use engine::addresses::{self, ApiBases};
use futures_util::future::join_all;
use platforms::media::NoMedia;
use platforms::part::{Action, ChannelSettings};
use platforms::platform::{Account, Deadlines, Network, Platform, Sending, Unlimited};
use serde_json::{Value, json};
use store::{Illness, Store};

use super::{Way, said};
use crate::language::{self, Language, Phrase, say};
use crate::operate::words::{Explanation, ill_words};

/// What one way may take. A look takes longer, so that what was told is known before the look is given up.
const WAY_MAX: Duration = Duration::from_secs(15);

/// A way as it was when the ledger could still be read.
#[derive(Debug)]
struct Known {
    name: String,
    platform: &'static dyn Platform,
    account: Arc<Account>,
    settings: ChannelSettings,
}

#[derive(Debug)]
pub(super) struct Direct {
    bases: ApiBases,
    network: Network,
    known: Vec<Known>,
    language: Language,
    /// The rows that the known ones were made from.
    made_from: Vec<store::Channel>,
    /// What was told and is not written down yet, by kind.
    told: BTreeMap<&'static str, Value>,
}

impl Direct {
    pub(super) fn new(bases: ApiBases, network: Network) -> Direct {
        let language = language::chosen();
        Direct { bases, network, known: Vec::new(), language, made_from: Vec::new(), told: BTreeMap::new() }
    }

    /// Keeps the ways at hand; tokens are opened only when something changed.
    pub(super) async fn remember(&mut self, store: &Store, ways: &[Way]) {
        let rows: Vec<store::Channel> = ways.iter().map(|way| way.channel.clone()).collect();
        if rows == self.made_from {
            return;
        }
        self.language = super::language_of(ways);
        let mut known = Vec::new();
        for way in ways {
            match self.open(store, way).await {
                Ok(one) => known.push(one),
                Err(error) => {
                    tracing::warn!(
                        channel = way.channel.name,
                        error = format!("{error:#}"),
                        "a way of alerts cannot be used"
                    );
                }
            }
        }
        (self.known, self.made_from) = (known, rows);
    }

    async fn open(&self, store: &Store, way: &Way) -> anyhow::Result<Known> {
        let accounts = store.accounts(way.workspace).await?;
        let row = accounts.iter().find(|account| account.account_id == way.channel.account_id);
        let row = row.ok_or_else(|| anyhow::anyhow!("its account is not there any more"))?;
        let token = store.account_token(way.workspace, row.account_id).await?;
        Ok(Known {
            name: way.channel.name.clone(),
            platform: addresses::platform(&row.platform)?,
            account: Arc::new(addresses::account(row, &token, &self.bases)?),
            settings: addresses::channel(&way.channel, row)?,
        })
    }

    /// Tells by every way, each kind once until the ledger is well again. What no way took is told at the next look.
    pub(super) async fn tell(&mut self, illness: &Illness) {
        let (kind, headline, next) = match illness.kind {
            store::STANDS_STILL => {
                ("standstill", say!("trouble.standstill"), say!("trouble.standstill.next"))
            }
            _ => ("database", say!("trouble.database"), say!("trouble.database.next")),
        };
        if self.told.contains_key(kind) {
            return;
        }
        let (cause, help) = ill_words(&illness.words);
        let trouble = Explanation { headline, cause, since: None, next, help: vec![help], now: Timestamp(0) };
        let words = said::words(&trouble);
        let lines = [
            Phrase::from("🔴 ").and(&trouble.headline),
            say!("alert.cause", what = &trouble.cause),
            say!("alert.help", what = &trouble.help[0]),
        ];
        let message = Message {
            text: Phrase::list(lines, "\n").in_language(self.language),
            data: Some(
                json!({"type": "alert.opened", "data": {"kind": kind, "severity": "act", "headline": words["headline"],
                "cause": words["cause"], "next": words["next"], "help": words["help"]}}),
            ),
            ..Message::default()
        };
        let key = format!("direct-{}", uuid::Uuid::new_v4().simple());
        // All at once: one that hangs must not keep the others from hearing.
        let told = join_all(self.known.iter().map(|way| self.tell_by(way, &message, &key))).await;
        if told.contains(&true) {
            self.told.insert(kind, words);
        }
    }

    async fn tell_by(&self, way: &Known, message: &Message, key: &str) -> bool {
        let sent = tokio::time::timeout(WAY_MAX, self.send(way, message, key)).await;
        let sent = sent.unwrap_or_else(|_| Err("it took too long".to_owned()));
        if let Err(problem) = &sent {
            tracing::error!(channel = way.name, problem, "trouble could not be told without the database");
        }
        sent.is_ok()
    }

    async fn send(&self, way: &Known, message: &Message, key: &str) -> Result<(), String> {
        let rendered = way.platform.render(&Action::Send, message, &way.settings);
        let rendered = rendered.map_err(|error| error.to_string())?;
        for part in &rendered.parts {
            let sending = Sending {
                part,
                key,
                earlier: &[],
                media: &NoMedia,
                budget: &Unlimited,
                deadlines: Deadlines::default(),
            };
            let report = way.platform.send(&self.network, &way.account, sending).await;
            if let Outcome::Failed(failure) = report.outcome {
                return Err(format!("{}: {}", failure.code, failure.message));
            }
        }
        Ok(())
    }

    /// What was told and is to be written down.
    pub(super) fn told(&self) -> BTreeMap<&'static str, Value> {
        self.told.clone()
    }

    pub(super) fn recorded(&mut self) {
        self.told.clear();
    }
}
