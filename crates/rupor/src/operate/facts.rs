//! What is known of a workspace at one moment: everything the words need, read once.

use domain::ids::{ChannelId, DeliveryId, WorkspaceId};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use store::{Account, Attempt, Channel, Delivery, Event, Health, Illness, Lane, Source, Store, Workspace};

/// Events looked at to find out since when something is so.
const EVENTS_MAX: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facts {
    pub now: Timestamp,
    pub workspace: Workspace,
    /// With other workspaces beside it, commands have to name it.
    pub only_workspace: bool,
    /// The kill switch of everything, and why.
    pub held: Option<String>,
    /// Whether `rupor run` is there; `None`: nobody can know (PostgreSQL).
    pub node: Option<bool>,
    /// What keeps the database from working, or soon will.
    pub database: Option<Ailment>,
    pub accounts: Vec<Account>,
    pub channels: Vec<Channel>,
    pub lanes: Vec<Lane>,
    pub sources: Vec<Source>,
    /// The newest first.
    #[serde(skip)]
    pub events: Vec<Event>,
}

/// Trouble with the database as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ailment {
    pub words: String,
    /// How long it lasts, as far as it is known.
    pub seconds: Option<u64>,
    /// It works still.
    pub only_soon: bool,
}

impl Ailment {
    /// What this process knows from its own calls.
    pub fn of(store: &Store) -> Option<Ailment> {
        match store.health() {
            Health::Ill(Illness { words, lasts, .. }) => {
                Some(Ailment { words, seconds: Some(lasts.as_secs()), only_soon: false })
            }
            Health::Good | Health::Unknown => {
                store.warning().map(|words| Ailment { words, seconds: None, only_soon: true })
            }
        }
    }
}

/// One delivery with its past.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeliveryFacts {
    pub delivery: Delivery,
    pub attempts: Vec<Attempt>,
}

pub async fn gather(store: &Store, workspace: &str, node: Option<bool>) -> anyhow::Result<Facts> {
    let ws = super::verb::find_workspace(store, workspace).await?;
    let workspaces = store.workspaces().await?;
    let only_workspace = workspaces.len() == 1;
    let workspace = workspaces.into_iter().find(|known| known.workspace_id == ws);
    Ok(Facts {
        now: store.now().await?,
        workspace: workspace.ok_or_else(|| anyhow::anyhow!("the workspace is gone; run it again"))?,
        only_workspace,
        held: store.held().await?,
        node,
        database: Ailment::of(store),
        accounts: store.accounts(ws).await?,
        channels: store.channels(ws).await?,
        lanes: store.lanes(ws).await?,
        sources: store.sources(ws).await?,
        events: store.recent_events(ws, EVENTS_MAX).await?,
    })
}

pub async fn delivery(store: &Store, ws: WorkspaceId, id: DeliveryId) -> anyhow::Result<DeliveryFacts> {
    Ok(DeliveryFacts { delivery: store.delivery(ws, id).await?, attempts: store.attempts(ws, id).await? })
}

impl Facts {
    pub fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.channel_id == id)
    }

    pub fn account_of(&self, channel: &Channel) -> Option<&Account> {
        self.accounts.iter().find(|account| account.account_id == channel.account_id)
    }

    pub fn lane_of(&self, channel: &Channel) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.channel_id == Some(channel.channel_id))
    }

    /// What waits for a channel.
    pub fn waiting(&self, channel: &Channel) -> i64 {
        self.lane_of(channel).map_or(0, |lane| lane.counts.queued + lane.counts.retry)
    }

    /// Since when the present trouble of a channel lasts: the first pause of its streak of failures.
    pub fn channel_trouble_since(&self, channel: &Channel) -> Option<Timestamp> {
        let streak = usize::try_from(channel.error_streak.max(1)).unwrap_or(1);
        let of_channel = self.events.iter().filter(|event| event.channel_id == Some(channel.channel_id));
        let since_resumed = of_channel.take_while(|event| event.name != "channel_resumed");
        // A last strike both pauses and disables; only an operator disables without a pause.
        let by_operator = channel.disabled_by == Some(store::DisabledBy::Operator);
        let name = if by_operator { "channel_disabled" } else { "channel_paused" };
        since_resumed.filter(|event| event.name == name).take(streak).last().map(|event| event.at)
    }

    /// The newest event of an account by this name.
    pub fn account_event(&self, account: &Account, name: &str) -> Option<&Event> {
        self.events.iter().find(|event| event.account_id == Some(account.account_id) && event.name == name)
    }
}
