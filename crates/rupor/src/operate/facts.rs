//! What is known of a workspace at one moment: everything the words need, read once.

use domain::campaign::CampaignStatus;
use domain::destination::Destination;
use domain::ids::{AccountId, CampaignId, ChannelId, DeliveryId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use store::{
    Account, Attempt, Bot, BotSnapshot, Channel, Delivery, Event, Health, HeldPost, Illness, Lane,
    LaneSnapshot, NODE_SILENT, PeopleOfAccount, Recipient, RecipientStatus, Snapshot, Source, Store,
    Workspace,
};

/// Events looked at to find out since when something is so.
const EVENTS_MAX: usize = 2_000;

/// Posts that wait for a person and are shown; more than that nobody reads on one screen.
pub(crate) const HELD_POSTS_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Facts {
    pub now: Timestamp,
    pub workspace: Workspace,
    /// With other workspaces beside it, commands have to name it.
    pub only_workspace: bool,
    /// The kill switch of everything, and why.
    pub held: Option<String>,
    /// Whether `rupor run` is there; `None`: nobody can know.
    pub node: Option<bool>,
    /// What keeps the database from working, or soon will.
    pub database: Option<Ailment>,
    pub accounts: Vec<Account>,
    pub channels: Vec<Channel>,
    pub lanes: Vec<Lane>,
    /// In sums: nobody walks through a million dialogues to show a status.
    pub people: Vec<PeopleOfAccount>,
    pub sources: Vec<Source>,
    /// What waits for a person, the oldest first, at most `HELD_POSTS_MAX`.
    pub held_posts: Vec<HeldPost>,
    /// Counts, lateness and failures.
    pub snapshot: Snapshot,
    /// Campaigns, or parts of them, that a guard has stopped.
    pub stopped_campaigns: Vec<StoppedCampaign>,
    pub bots: Vec<Bot>,
    /// The bots together, and their last hour.
    pub bot: BotSnapshot,
    /// The newest first.
    #[serde(skip)]
    pub events: Vec<Event>,
}

/// Trouble with the database as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ailment {
    pub words: String,
    /// How long it lasts, as far as it is known.
    pub seconds: Option<u64>,
    /// It works still.
    pub only_soon: bool,
    /// It answers, and takes long for it.
    #[serde(default)]
    pub slow: bool,
    /// It answers, and this node neither gets work nor has it written down.
    #[serde(default)]
    pub stands_still: bool,
}

impl Ailment {
    /// What this process knows from its own calls.
    pub(crate) fn of(store: &Store) -> Option<Ailment> {
        match store.health() {
            Health::Ill(Illness { kind, words, lasts }) => Some(Ailment {
                words,
                seconds: Some(lasts.as_secs()),
                stands_still: kind == store::STANDS_STILL,
                ..Ailment::default()
            }),
            Health::Good | Health::Unknown => {
                let soon = |words, slow| Ailment { words, only_soon: true, slow, ..Ailment::default() };
                store
                    .slowness()
                    .map(|words| soon(words, true))
                    .or_else(|| store.warning().map(|words| soon(words, false)))
            }
        }
    }
}

/// What a node tells of itself alone, the worst first.
const OF_A_NODE: [&str; 4] = ["database", "standstill", "database_slow", "disk"];
/// Alerts that are looked through for one that is open.
const ALERTS_MAX: usize = 100;

impl Ailment {
    /// Nodes that share a server have no socket to ask: what one of them told of itself stands in the rows of alerts. One
    /// that told and then said nothing more is told as gone; another node that works ends its row.
    pub(crate) async fn told_by_nodes(store: &Store) -> anyhow::Result<Option<Ailment>> {
        let mut open = Vec::new();
        for workspace in store.workspaces().await? {
            let alerts = store.alerts(workspace.workspace_id, None, ALERTS_MAX).await?;
            open.extend(alerts.into_iter().filter(|alert| alert.ended_at.is_none()));
        }
        let told = OF_A_NODE.iter().find_map(|kind| open.iter().find(|alert| alert.kind == *kind));
        let Some(alert) = told else {
            return Ok(None);
        };
        let node = alert.key.rsplit('@').next().unwrap_or_default();
        let silence = store.now().await? - alert.seen_at;
        let words = match silence > NODE_SILENT {
            true => format!(
                "node {node} was in trouble and has said nothing for {} min, so it may be gone; start it again; another node \
                 that works ends this by itself",
                silence.millis() / 60_000
            ),
            false => {
                let said = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                format!("node {node}: {}; {}", said(&alert.words["cause"]), said(&alert.words["help"][0]))
            }
        };
        let kind = alert.kind.as_str();
        Ok(Some(Ailment {
            words,
            seconds: None,
            only_soon: kind == "disk" || kind == "database_slow",
            slow: kind == "database_slow",
            stands_still: kind == "standstill",
        }))
    }
}

/// A node that sends signs every ten seconds, and takes its line away when it stops in good order.
const SIGNED_MAX: Span = Span::from_secs(60);

/// Whether a node sends, where none has a socket to ask. `None`: nobody has signed, so nobody can know.
pub(crate) async fn a_node_signs(store: &Store) -> Option<bool> {
    let nodes = store.nodes().await.ok()?;
    let last = nodes.iter().map(|node| node.seen_at).max()?;
    Some(store.now().await.ok()? - last <= SIGNED_MAX)
}

/// A campaign that a guard has stopped, wholly or on one account.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StoppedCampaign {
    pub campaign_id: CampaignId,
    pub name: String,
    pub why: String,
    /// The account whose part alone rests.
    pub account_id: Option<AccountId>,
}

/// What a guard says begins with this; other words are an operator's.
const GUARD: &str = "guard: ";

impl StoppedCampaign {
    fn all_of(campaign: &store::Campaign) -> Vec<StoppedCampaign> {
        let stopped = |why: &String, account_id| {
            let (campaign_id, name) = (campaign.campaign_id, campaign.name.clone());
            let why = why.strip_prefix(GUARD)?.to_owned();
            Some(StoppedCampaign { campaign_id, name, why, account_id })
        };
        match campaign.status {
            CampaignStatus::Paused => campaign.why.iter().filter_map(|why| stopped(why, None)).collect(),
            CampaignStatus::Running => {
                campaign.resting.iter().filter_map(|(account, why)| stopped(why, Some(*account))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// One delivery with its past.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct DeliveryFacts {
    pub delivery: Delivery,
    pub attempts: Vec<Attempt>,
    /// Whom it is for, if it is for one person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<Person>,
}

/// A person as operators see them: ids, and whether they can be written to. Names and attributes stay in their row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Person {
    pub recipient_id: RecipientId,
    pub account_id: AccountId,
    pub platform: String,
    pub user_id: String,
    pub status: RecipientStatus,
    pub status_why: Option<String>,
    pub status_at: Timestamp,
    pub paused_until: Timestamp,
}

impl From<Recipient> for Person {
    fn from(row: Recipient) -> Person {
        Person {
            recipient_id: row.recipient_id,
            account_id: row.account_id,
            platform: row.platform,
            user_id: row.user_id,
            status: row.status,
            status_why: row.status_why,
            status_at: row.status_at,
            paused_until: row.paused_until,
        }
    }
}

pub(crate) async fn gather(store: &Store, workspace: &str, node: Option<bool>) -> anyhow::Result<Facts> {
    let ws = super::verb::find_workspace(store, workspace).await?;
    let workspaces = store.workspaces().await?;
    let only_workspace = workspaces.len() == 1;
    let workspace = workspaces.into_iter().find(|known| known.workspace_id == ws);
    Ok(Facts {
        now: store.now().await?,
        workspace: workspace
            .ok_or_else(|| anyhow::anyhow!("the workspace was removed meanwhile; run it again"))?,
        only_workspace,
        held: store.held().await?,
        node,
        database: Ailment::of(store),
        accounts: store.accounts(ws).await?,
        channels: store.channels(ws).await?,
        lanes: store.lanes(ws).await?,
        people: store.people(ws).await?,
        sources: store.sources(ws).await?,
        held_posts: store.held_posts(ws, None, HELD_POSTS_MAX).await?,
        snapshot: store.snapshot(ws).await?,
        stopped_campaigns: store.campaigns(ws).await?.iter().flat_map(StoppedCampaign::all_of).collect(),
        bots: store.bots(ws).await?,
        bot: store.bot_snapshot(ws, Span::from_hours(1)).await?,
        events: store.recent_events(ws, EVENTS_MAX).await?,
    })
}

pub(crate) async fn delivery(
    store: &Store,
    ws: WorkspaceId,
    id: DeliveryId,
) -> anyhow::Result<DeliveryFacts> {
    let (delivery, attempts) = (store.delivery(ws, id).await?, store.attempts(ws, id).await?);
    let person = match delivery.destination {
        Destination::Channel(_) => None,
        Destination::Recipient(id) => Some(store.recipient(ws, id).await?.into()),
    };
    Ok(DeliveryFacts { delivery, attempts, person })
}

impl Facts {
    pub(crate) fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.channel_id == id)
    }

    /// The channel that a delivery goes to, if it goes to one that is still there.
    pub(crate) fn channel_of(&self, delivery: &Delivery) -> Option<&Channel> {
        delivery.destination.channel().and_then(|id| self.channel(id))
    }

    /// A destination as people call it.
    pub(crate) fn called(&self, about: &DeliveryFacts) -> String {
        match (&about.person, self.channel_of(&about.delivery)) {
            (Some(person), _) => self.person_called(person),
            (None, Some(channel)) => {
                format!("channel {} ({} {})", channel.name, channel.platform, channel.shown_target())
            }
            (None, None) => "a channel that is gone".to_owned(),
        }
    }

    /// `person 3 on bot (telegram 701)`.
    pub(crate) fn person_called(&self, person: &Person) -> String {
        let account = self.accounts.iter().find(|account| account.account_id == person.account_id);
        let on = account.map_or(String::new(), |account| format!(" on {}", account.name));
        format!("person {}{on} ({} {})", person.recipient_id, person.platform, person.user_id)
    }

    pub(crate) fn account_of(&self, channel: &Channel) -> Option<&Account> {
        self.accounts.iter().find(|account| account.account_id == channel.account_id)
    }

    pub(crate) fn lane_of(&self, channel: &Channel) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.channel_id == Some(channel.channel_id))
    }

    /// How long what waits for a channel takes; `None`: nothing waits.
    pub(crate) fn lane_now(&self, channel: &Channel) -> Option<&LaneSnapshot> {
        self.snapshot.lanes.iter().find(|lane| lane.channel_id == Some(channel.channel_id))
    }

    /// What waits for a channel.
    pub(crate) fn waiting(&self, channel: &Channel) -> i64 {
        self.lane_of(channel).map_or(0, |lane| lane.counts.queued + lane.counts.retry)
    }

    /// Since when the present trouble of a channel lasts: the first pause of its streak of failures.
    pub(crate) fn channel_trouble_since(&self, channel: &Channel) -> Option<Timestamp> {
        let streak = usize::try_from(channel.error_streak.max(1)).unwrap_or(1);
        let of_channel = self
            .events
            .iter()
            .filter(|event| event.destination == Some(Destination::Channel(channel.channel_id)));
        let since_resumed = of_channel.take_while(|event| event.name != "channel_resumed");
        // A last strike both pauses and disables; only an operator disables without a pause.
        let by_operator = channel.disabled_by == Some(store::DisabledBy::Operator);
        let name = if by_operator { "channel_disabled" } else { "channel_paused" };
        since_resumed.filter(|event| event.name == name).take(streak).last().map(|event| event.at)
    }

    /// The newest event of an account by this name.
    pub(crate) fn account_event(&self, account: &Account, name: &str) -> Option<&Event> {
        self.events.iter().find(|event| event.account_id == Some(account.account_id) && event.name == name)
    }
}
