//! A sandbox, a network and one account per platform.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use domain::chat::ChatKind;
use domain::message::{Media, Message};
use domain::outcome::{Category, Certainty, Outcome, Scope};
use futures_util::future::BoxFuture;
use platforms::media::{MediaError, MediaHandle, MediaSource};
use platforms::part::{Action, ChannelSettings, MediaItem, Part};
use platforms::platform::{
    Account, AccountSettings, Deadlines, Network, Platform, Report, Sending, Unlimited,
};
use platforms::registry::platform;
use platforms::secret::Token;
use sandbox::ledger::Row;
use sandbox::{Name, Options, Sandbox};
use serde_json::Value;

pub(crate) struct World {
    pub sandbox: Sandbox,
    pub network: Network,
}

/// One platform of a world, with its account and its channel.
pub(crate) struct Side<'a> {
    pub world: &'a World,
    pub name: Name,
    pub platform: &'static dyn Platform,
    pub account: Account,
    pub settings: ChannelSettings,
}

pub(crate) const PATIENT: Duration = Duration::from_secs(20);

impl World {
    pub(crate) async fn start() -> World {
        let sandbox = Sandbox::start(Options { any_token: true, ..Options::default() }).await.unwrap();
        World { sandbox, network: Network::default() }
    }

    pub(crate) fn side(&self, name: Name) -> Side<'_> {
        self.side_with_token(name, "7700000001:AAtoken-for-the-sandbox")
    }

    pub(crate) fn side_with_token(&self, name: Name, token: &str) -> Side<'_> {
        let platform = platform(name.as_str()).unwrap();
        let settings = AccountSettings {
            api_base: Some(self.sandbox.base(name)),
            group_id: Some(101),
            ..Default::default()
        };
        let account = Account::new(platform, Token::new(token), settings).unwrap();
        self.network.admit(&account);
        let target = match name {
            Name::Telegram => "-1000000000042",
            Name::Vk => "-101",
            Name::Max => "-70000000000001",
        };
        let settings = ChannelSettings { target: target.into(), ..ChannelSettings::default() };
        Side { world: self, name, platform, account, settings }
    }

    pub(crate) fn rows(&self, name: Name) -> Vec<Row> {
        self.sandbox.core().ledger.rows(name)
    }

    pub(crate) fn arm(&self, fault: &Value) {
        self.sandbox.arm(fault).unwrap_or_else(|refusal| panic!("{fault}: {}", refusal.message));
    }
}

impl Side<'_> {
    pub(crate) fn render(&self, action: &Action<'_>, message: &Message) -> Vec<Part> {
        self.platform.render(action, message, &self.settings).unwrap().parts
    }

    pub(crate) async fn send(&self, part: &Part, key: &str, store: &Store) -> Report {
        self.send_within(part, key, &[], store, PATIENT).await
    }

    pub(crate) async fn send_within(
        &self,
        part: &Part,
        key: &str,
        earlier: &[Vec<String>],
        store: &Store,
        deadline: Duration,
    ) -> Report {
        let deadlines = Deadlines { request: deadline, upload: deadline };
        let sending = Sending { part, key, earlier, media: store, budget: &Unlimited, deadlines };
        let report = self.platform.send(&self.world.network, &self.account, sending).await;
        store.learn(part, &report);
        report
    }

    /// Sends all parts of a message, in order.
    pub(crate) async fn publish(
        &self,
        action: &Action<'_>,
        message: &Message,
        key: &str,
        store: &Store,
    ) -> Vec<Report> {
        let mut reports: Vec<Report> = Vec::new();
        for (n, part) in self.render(action, message).iter().enumerate() {
            let earlier: Vec<Vec<String>> = reports.iter().map(|report| report.ids.clone()).collect();
            reports.push(self.send_within(part, &format!("{key}/{n}"), &earlier, store, PATIENT).await);
        }
        reports
    }

    /// The requests that this platform accepted and that show something.
    pub(crate) fn visible(&self) -> Vec<Row> {
        self.world
            .rows(self.name)
            .into_iter()
            .filter(|row| row.accepted && !row.visible_id.is_null())
            .collect()
    }

    pub(crate) fn in_chat(mut self, target: &str, kind: ChatKind) -> Self {
        self.settings.target = target.into();
        self.settings.chat_kind = kind;
        self
    }
}

/// Bytes by blob name, and the handles learned so far.
#[derive(Default)]
pub(crate) struct Store {
    pub blobs: HashMap<String, Bytes>,
    pub handles: Mutex<HashMap<String, MediaHandle>>,
}

impl Store {
    pub(crate) fn with(blobs: impl IntoIterator<Item = (String, Bytes)>) -> Store {
        Store { blobs: blobs.into_iter().collect(), handles: Mutex::default() }
    }

    fn learn(&self, part: &Part, report: &Report) {
        let Part::Media(part) = part else { return };
        for (n, handle) in &report.handles {
            if let Some(blob) = &part.items[*n].media.blob {
                self.handles.lock().unwrap().insert(blob.clone(), handle.clone());
            }
        }
    }
}

impl MediaSource for Store {
    fn handle<'a>(&'a self, item: &'a MediaItem) -> BoxFuture<'a, Option<MediaHandle>> {
        let handles = self.handles.lock().unwrap();
        let known = item.media.blob.as_ref().and_then(|blob| handles.get(blob)).cloned();
        Box::pin(async move { known })
    }

    fn bytes<'a>(&'a self, media: &'a Media) -> BoxFuture<'a, Result<Bytes, MediaError>> {
        let bytes = media.blob.as_ref().and_then(|blob| self.blobs.get(blob)).cloned();
        Box::pin(async move { bytes.ok_or(MediaError::NotStored) })
    }
}

/// An outcome in the short form of the error rows, e.g. `T C 429 37000`, `sent`, `sent blind`.
pub(crate) fn short(report: &Report) -> String {
    let failure = match &report.outcome {
        Outcome::Sent(sent) if sent.provider_message_id.is_some() => return "sent".into(),
        Outcome::Sent(_) => return "sent blind".into(),
        Outcome::Failed(failure) => failure,
    };
    let category = if failure.category == Category::Transient { "T" } else { "P" };
    let scope = match failure.scope {
        Scope::Delivery => "D",
        Scope::Channel => "C",
        Scope::Platform => "A",
    };
    let mut words = vec![category.to_owned(), scope.to_owned(), failure.code.clone()];
    words.extend(failure.retry_after_ms.map(|ms| ms.to_string()));
    words.extend((failure.certainty == Certainty::Unknown).then(|| "unknown".to_owned()));
    words.extend(failure.recipient_gone.then(|| "gone".to_owned()));
    words.join(" ")
}
