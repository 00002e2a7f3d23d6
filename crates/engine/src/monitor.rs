//! The slow loop beside the fast ones: looks for work that stands still, and clears away what is old.
//!
//! It decides nothing about deliveries. Several nodes may run it at once: every step is bounded and harmless twice.

use std::time::Duration;

use domain::time::{Span, Timestamp};
use store::{BotWalk, Lane, Removed, Retention, Store, Walk, Whose};
use tokio::sync::watch;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Rows of each kind that one step of clearing looks at: a step holds up whoever writes.
const STEP_ROWS: usize = 2_000;
/// Steps of one look: a million rows a minute, far more than come in.
const STEPS_MAX: usize = 500;
/// Media that one look throws out.
const MEDIA_MAX: usize = 5_000;
/// How long ended things are kept.
const KEEP: Retention = Retention {
    deliveries: Span::from_hours(24 * 30),
    deduped: Span::from_hours(24 * 7),
    events: Span::from_hours(24 * 30),
};
/// Media that nothing refers to are kept this long: an edit may come back to them.
const MEDIA_UNUSED: Span = Span::from_hours(24 * 7);

/// A pushed post may be pushed again with the same key for this long.
const RECEIPTS_KEEP: Span = Span::from_hours(24 * 30);

/// What people wrote to a bot is forgotten after the first, that it was answered after the second.
const BOT_TEXT_KEEP: Span = Span::from_hours(24 * 30);
const BOT_KEYS_KEEP: Span = Span::from_hours(24 * 90);

/// A run that is open for so long has nobody who would end it.
const RUN_MAX: Span = Span::from_secs(900);

/// Runs until told to stop.
pub async fn run(store: Store, lease: Span, mut stop: watch::Receiver<bool>) {
    let (mut walk, mut talks) = (Walk::START, BotWalk::START);
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if let Err(error) = look(&store, lease).await {
            tracing::warn!(%error, "the monitor could not look");
        }
        if let Err(error) = clear_away(&store, KEEP, &mut walk, &stop).await {
            tracing::warn!(%error, "the monitor could not clear away what is old");
        }
        if let Err(error) = forget_talks(&store, &mut talks, &stop).await {
            tracing::warn!(%error, "the monitor could not forget what people wrote to bots");
        }
    }
}

async fn look(store: &Store, lease: Span) -> store::Result<()> {
    let now = store.now().await?;
    let held = store.held().await?.is_some();
    for workspace in store.workspaces().await?.into_iter().filter(|workspace| !held && !workspace.held) {
        let accounts = store.accounts(workspace.workspace_id).await?;
        let waits = |lane: &Lane| {
            let account = accounts.iter().find(|account| account.account_id == lane.account_id);
            account.is_some_and(|account| account.paused || account.cooldown_until > now)
        };
        let lanes = store.lanes(workspace.workspace_id).await?;
        for lane in lanes.iter().filter(|lane| !waits(lane)) {
            if let Some(due) = stuck_since(lane, now, lease) {
                tracing::warn!(
                    workspace = workspace.name,
                    lane = lane.lane_id.0,
                    channel = lane.channel_id.map(|id| id.0),
                    waiting = lane.counts.queued + lane.counts.retry,
                    seconds = (now - due).millis() / 1_000,
                    "deliveries are due and nobody takes them; is a node running whose loops include `dispatch`?"
                );
            }
        }
    }
    Ok(())
}

/// Goes on with the lap through what is old; one that is over begins anew with the next look.
async fn clear_away(
    store: &Store,
    keep: Retention,
    walk: &mut Walk,
    stop: &watch::Receiver<bool>,
) -> store::Result<Removed> {
    let mut removed = Removed::default();
    for _ in 0..STEPS_MAX {
        let (step, next) = store.retain(Whose::Everyone, keep, STEP_ROWS, *walk).await?;
        removed += step;
        *walk = next;
        // Events and runs have no lap: they are done when a step finds none.
        if walk.is_over() && step.events + step.runs == 0 || *stop.borrow() {
            break;
        }
        tokio::task::yield_now().await;
    }
    if walk.is_over() {
        *walk = Walk::START;
    }
    let media = store.collect_media(MEDIA_UNUSED, MEDIA_MAX).await?;
    store.forget_receipts(RECEIPTS_KEEP).await?;
    store.close_runs(RUN_MAX).await?;
    tracing::debug!(?removed, ?media, "cleared away");
    Ok(removed)
}

/// The same through what people wrote to bots.
async fn forget_talks(store: &Store, walk: &mut BotWalk, stop: &watch::Receiver<bool>) -> store::Result<()> {
    for _ in 0..STEPS_MAX {
        let (changed, next) = store.bot_retain(BOT_TEXT_KEEP, BOT_KEYS_KEEP, STEP_ROWS, *walk).await?;
        *walk = next;
        // What was said and the logs have no lap: they are done when a step changes nothing.
        if walk.is_over() && changed == 0 || *stop.borrow() {
            break;
        }
        tokio::task::yield_now().await;
    }
    if walk.is_over() {
        *walk = BotWalk::START;
    }
    Ok(())
}

/// Since when a lane has been due although nothing holds it back; a poll and two leases are ordinary.
fn stuck_since(lane: &Lane, now: Timestamp, lease: Span) -> Option<Timestamp> {
    let patience = Span(lease.0.saturating_mul(2));
    let due = lane.next_at?;
    let waits = lane.counts.queued + lane.counts.retry > 0;
    (waits && due + patience + Span::from_secs(5) < now).then_some(due)
}

#[cfg(test)]
mod tests {
    use domain::ids::{AccountId, LaneId};
    use store::Counts;

    use super::*;

    #[test]
    fn a_lane_is_stuck_when_it_is_long_due_and_holds_something() {
        let lane = |next_at: Option<i64>, queued: i64| Lane {
            lane_id: LaneId(1),
            account_id: AccountId(1),
            channel_id: None,
            campaign_id: None,
            next_at: next_at.map(|secs| Timestamp(secs * 1_000_000)),
            counts: Counts { queued, ..Counts::default() },
        };
        let (now, lease) = (Timestamp(1_000_000_000), Span::from_secs(60));
        let check = |next_at, queued, stuck: bool| {
            assert_eq!(
                stuck_since(&lane(next_at, queued), now, lease).is_some(),
                stuck,
                "{next_at:?} {queued}"
            );
        };
        check(Some(100), 1, true);
        check(Some(100), 0, false);
        check(Some(900), 1, false);
        check(None, 1, false);
    }
}
