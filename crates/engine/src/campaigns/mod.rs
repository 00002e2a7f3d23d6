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

use std::time::Duration;

use domain::campaign::CampaignStatus;
use store::Store;
use tokio::sync::watch;

pub use step::step;

/// How often it looks while something runs, and while nothing does.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(1);
/// Between two looks while a long list is being written down: others get their turn, and nobody waits.
const AT_ONCE: Duration = Duration::from_millis(5);
/// How long one campaign may take of a look: the others wait meanwhile.
const DEADLINE: Duration = Duration::from_secs(20);

/// Runs until told to stop.
pub async fn run(store: Store, mut stop: watch::Receiver<bool>) {
    let mut pause = IDLE;
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = match look(&store, &stop).await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "campaigns could not be looked at");
                IDLE
            }
        };
    }
}

/// One look at all campaigns, and how long to wait until the next.
async fn look(store: &Store, stop: &watch::Receiver<bool>) -> anyhow::Result<Duration> {
    let mut pause = IDLE;
    for workspace in store.workspaces().await? {
        for campaign in store.campaigns(workspace.workspace_id).await? {
            if campaign.status.is_over() || *stop.borrow() {
                continue;
            }
            pause = pause.min(match campaign.status {
                // A draft may be started at any moment, and whoever starts it watches.
                CampaignStatus::Preparing => AT_ONCE,
                _ => LOOK_EVERY,
            });
            let (name, id) = (campaign.name.clone(), campaign.campaign_id.0);
            match tokio::time::timeout(DEADLINE, step(store, campaign)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(
                        campaign = id,
                        name,
                        error = format!("{error:#}"),
                        "a campaign could not go on"
                    );
                }
                Err(_) => {
                    tracing::warn!(campaign = id, name, "a campaign takes long; it goes on at the next look");
                }
            }
        }
    }
    Ok(pause)
}
