//! Campaigns move: who gets one is written down, deliveries are made a minute ahead, and the end is noticed.
//!
//! Every step is one transaction of the store and harmless twice, so several nodes may look at once, and a node that dies
//! leaves nothing half done. Requests are none of its business: `dispatch` finds the deliveries like any others.
//! `life` is what operators do with a campaign; `people` says who gets it.

pub mod forecast;
pub mod life;
pub mod people;
pub mod policy;
mod step;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::campaign::CampaignStatus;
use domain::ids::CampaignId;
use store::{Campaign, Store};
use tokio::sync::{Semaphore, watch};
use tokio::task::{Id, JoinSet};

pub use step::step;

/// How often it looks while something runs, and while nothing does.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(1);
/// Between two looks while a long list is being written down: others get their turn, and nobody waits.
const SOON: Duration = Duration::from_millis(20);
/// How long one campaign may take of a step, and how many are brought on at once: one that takes long holds up no other.
const DEADLINE: Duration = Duration::from_secs(20);
const AT_ONCE_MAX: usize = 6;

/// Runs until told to stop.
pub async fn run(store: Store, mut stop: watch::Receiver<bool>) {
    let mut steps = Steps::default();
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            () = tokio::time::sleep(pause) => {}
        }
        pause = match look(&store, &mut steps).await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "campaigns could not be looked at");
                IDLE
            }
        };
    }
    steps.turns.close();
    while steps.tasks.join_next().await.is_some() {}
}

/// Keeps back what must not leave any more: windows may have closed and deadlines passed while no node was there. Whoever
/// sends asks for this before the first claim; from then on `run` sees to it.
pub async fn catch_up(store: &Store) -> store::Result<()> {
    for workspace in store.workspaces().await? {
        for campaign in store.campaigns(workspace.workspace_id).await? {
            if campaign.status.is_open()
                && let Err(error) = step::keep_back(store, &campaign).await
            {
                told(&campaign, &error);
            }
        }
    }
    Ok(())
}

/// The campaigns that are being brought on, each in a task of its own.
struct Steps {
    tasks: JoinSet<()>,
    of: HashMap<Id, CampaignId>,
    turns: Arc<Semaphore>,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { tasks: JoinSet::new(), of: HashMap::new(), turns: Arc::new(Semaphore::new(AT_ONCE_MAX)) }
    }
}

impl Steps {
    /// Forgets those that are done.
    fn collect(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let id = match ended {
                Ok((id, ())) => id,
                Err(broke) => {
                    tracing::error!(%broke, "a step of a campaign ended badly; it is taken again");
                    broke.id()
                }
            };
            self.of.remove(&id);
        }
    }

    /// One step after the other of each campaign; in turn, should there be many.
    fn take(&mut self, store: &Store, campaign: Campaign) {
        if self.of.values().any(|id| *id == campaign.campaign_id) {
            return;
        }
        let (store, turns, id) = (store.clone(), Arc::clone(&self.turns), campaign.campaign_id);
        let task = self.tasks.spawn(async move {
            if let Ok(_turn) = turns.acquire().await {
                bring_on(&store, campaign).await;
            }
        });
        self.of.insert(task.id(), id);
    }
}

/// One look at all campaigns, and how long to wait until the next.
async fn look(store: &Store, steps: &mut Steps) -> anyhow::Result<Duration> {
    steps.collect();
    let mut pause = IDLE;
    for workspace in store.workspaces().await? {
        for campaign in store.campaigns(workspace.workspace_id).await? {
            if campaign.status.is_over() {
                continue;
            }
            pause = pause.min(match campaign.status {
                // A draft may be started at any moment, and whoever starts it watches.
                CampaignStatus::Preparing => SOON,
                _ => LOOK_EVERY,
            });
            steps.take(store, campaign);
        }
    }
    Ok(pause)
}

async fn bring_on(store: &Store, campaign: Campaign) {
    let known = campaign.clone();
    match tokio::time::timeout(DEADLINE, step(store, campaign)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => told(&known, &error),
        Err(_) => {
            let (id, name) = (known.campaign_id.0, &known.name);
            tracing::warn!(campaign = id, name, "a campaign takes long; it goes on at the next look");
        }
    }
}

fn told(campaign: &Campaign, error: &anyhow::Error) {
    let (id, name) = (campaign.campaign_id.0, &campaign.name);
    tracing::warn!(campaign = id, name, error = format!("{error:#}"), "a campaign could not go on");
}
