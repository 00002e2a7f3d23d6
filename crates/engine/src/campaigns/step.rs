//! One step of one campaign, whatever state it is in.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context;
use domain::campaign::CampaignStatus;
use domain::ids::AccountId;
use domain::limits::effective_rate;
use domain::time::{Span, Timestamp};
use store::{Campaign, CampaignPace, Cohort, Store, Whose};

use super::people::Judge;
use super::policy::{self, Ended, Policy};
use crate::addresses;

/// Steps of a freeze in one look: others wait meanwhile.
const STEPS_MAX: usize = 40;
/// How long a cooldown counts for the guard.
const COOLDOWNS_COUNT: Span = Span::from_secs(600);
/// The stage of those who get it before the others.
pub(super) const FIRST: &str = "first";
/// Claims that one look takes up for a campaign that waits for them.
const RECOVER_MAX: usize = 500;

/// Brings a campaign on; whether anything changed.
pub async fn step(store: &Store, campaign: Campaign) -> anyhow::Result<bool> {
    match campaign.status {
        CampaignStatus::Scheduled => begin(store, &campaign).await,
        CampaignStatus::Preparing => prepare(store, campaign).await,
        CampaignStatus::Running => run(store, &campaign).await,
        CampaignStatus::Finishing => finish(store, &campaign).await,
        CampaignStatus::Cancelling => cancel(store, &campaign).await,
        CampaignStatus::Paused => Ok(ends_by_deadline(store, &campaign).await?.unwrap_or(false)),
        CampaignStatus::Draft
        | CampaignStatus::Finished
        | CampaignStatus::Cancelled
        | CampaignStatus::Aborted => Ok(false),
    }
}

pub(super) fn policy_of(campaign: &Campaign) -> anyhow::Result<Policy> {
    let named = || format!("campaign {}: its settings cannot be read", campaign.name);
    serde_json::from_value(campaign.settings.clone()).with_context(named)
}

async fn moved(store: &Store, campaign: &Campaign, next: CampaignStatus, why: &str) -> anyhow::Result<bool> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    Ok(store.move_campaign(ws, id, campaign.version, next, why).await?)
}

/// Its time has come, or is long over.
async fn begin(store: &Store, campaign: &Campaign) -> anyhow::Result<bool> {
    let now = store.now().await?;
    let Some(at) = campaign.starts_at.filter(|at| *at <= now) else {
        return Ok(false);
    };
    let late_by = policy_of(campaign)?.late_by();
    if late_by.is_some_and(|late_by| at + late_by < now) {
        let why =
            format!("it should have started {} s ago, and no node was running", (now - at).millis() / 1_000);
        return aborted(store, campaign, &why).await;
    }
    moved(store, campaign, CampaignStatus::Preparing, "its time has come").await
}

/// Writes down who gets it, and lets it run when everybody is.
async fn prepare(store: &Store, mut campaign: Campaign) -> anyhow::Result<bool> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    for _ in 0..STEPS_MAX {
        if campaign.frozen_at.is_some() {
            judge_anew(store, &campaign).await?;
            return moved(store, &campaign, CampaignStatus::Running, "").await;
        }
        let is_done = match campaign.wave {
            0 => {
                let next = Judge::of(store, campaign.clone()).await?.step(store).await?;
                store.freeze_campaign(ws, id, next).await?
            }
            _ => store.prepare_wave(ws, id).await?,
        };
        let again = find(store, &campaign).await?;
        if !is_done && again.at == campaign.at {
            // Somebody else was faster, or it is not being prepared any more.
            return Ok(true);
        }
        campaign = again;
    }
    Ok(true)
}

pub(super) async fn find(store: &Store, campaign: &Campaign) -> anyhow::Result<Campaign> {
    let all = store.campaigns(campaign.workspace_id).await?;
    let found = all.into_iter().find(|one| one.campaign_id == campaign.campaign_id);
    found.with_context(|| format!("campaign {} is not there any more", campaign.name))
}

/// Requests a second of an account as it is set and as its platform allows; `None`: nothing paces it.
pub(super) fn account_rate(account: &store::Account) -> Option<f64> {
    let facts = addresses::platform(&account.platform).ok()?.facts();
    let limit = facts.account_rate(&account.settings.kind, &account.settings.tier);
    effective_rate(account.settings.rate, limit)
}

fn is_paid(account: &store::Account) -> bool {
    account.settings.tier == addresses::TIER_PAID
}

/// The same for a campaign: faster than is free only where it can pay for it.
pub(super) fn campaign_rate(account: &store::Account, affords: bool) -> Option<f64> {
    let can = account_rate(account);
    if !is_paid(account) || affords {
        return can;
    }
    let facts = addresses::platform(&account.platform).ok()?.facts();
    effective_rate(can, facts.account_rate(&account.settings.kind, ""))
}

/// Whether a campaign that has sent so many can pay for one more second of all its accounts that are paid for. Every message
/// counts, so that less is spent rather than more.
pub(super) fn affords(
    campaign: &Campaign,
    policy: &Policy,
    accounts: &[store::Account],
    sent: &BTreeMap<AccountId, i64>,
) -> bool {
    let Some(paid) = &policy.paid else {
        return false;
    };
    let paying = accounts.iter().filter(|one| is_paid(one) && campaign.accounts.contains(&one.account_id));
    let next = paying
        .map(|one| sent.get(&one.account_id).copied().unwrap_or(0) as f64 + account_rate(one).unwrap_or(0.0));
    next.sum::<f64>() * addresses::PAID_PRICE <= paid.stars
}

/// What each account has sent of a campaign.
pub(super) fn sent_by(cohorts: &[Cohort]) -> BTreeMap<AccountId, i64> {
    cohorts.iter().map(|cohort| (cohort.account_id, cohort.lane_sent)).collect()
}

async fn run(store: &Store, campaign: &Campaign) -> anyhow::Result<bool> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    let policy = policy_of(campaign)?;
    let now = store.now().await?;
    if let Some(changed) = ends_early(store, campaign, &policy).await? {
        return Ok(changed);
    }
    keep_shut(store, campaign, &policy).await?;
    let started = campaign.started_at.unwrap_or(now);
    store.note_progress(ws, id, note_every(now - started)).await?;
    let cohorts = store.campaign_cohorts(ws, id).await?;
    let accounts = store.accounts(ws).await?;
    let may = may_be_fed(store, campaign, &policy, &cohorts, &accounts, now).await?;
    let mut changed = rest_parts(store, campaign, &policy, now).await?;
    for (account, rate) in pace(store, campaign, &policy, &cohorts, &accounts, now).await? {
        if campaign.resting.contains_key(&account) {
            continue;
        }
        changed |= feed(store, campaign, &policy, &may, account, policy::ahead(rate)).await?;
    }
    let counts = store.campaign_counts(ws, id).await?;
    if counts.waiting == 0 {
        let campaign = find(store, campaign).await?;
        changed |= moved(store, &campaign, CampaignStatus::Finishing, "").await?;
    }
    Ok(changed)
}

/// Lets each account go as fast as it may now; also while the last ones are queued, who may be many.
async fn pace(
    store: &Store,
    campaign: &Campaign,
    policy: &Policy,
    cohorts: &[Cohort],
    accounts: &[store::Account],
    now: Timestamp,
) -> anyhow::Result<BTreeMap<AccountId, Option<f64>>> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    let whole = policy.rate_after(now - campaign.started_at.unwrap_or(now));
    let affords = affords(campaign, policy, accounts, &sent_by(cohorts));
    let rates = rates(whole, affords, cohorts, accounts);
    for (account, rate) in &rates {
        let tiered = accounts.iter().any(|one| one.account_id == *account && is_paid(one));
        if whole.is_some() || !policy.ramp.is_empty() || tiered {
            let pace = CampaignPace { rate: *rate, paid: tiered && affords };
            store.pace_campaign(ws, id, *account, pace).await?;
        }
    }
    Ok(rates)
}

/// How often it is written down how far it is: a short campaign has a picture too, and a long one few notes.
fn note_every(elapsed: Span) -> Span {
    match elapsed < Span::from_secs(600) {
        true => Span::from_secs(5),
        false => Span::from_secs(60),
    }
}

/// What must not leave any more is kept back: a node that was away does this before it sends anything.
pub(super) async fn keep_back(store: &Store, campaign: &Campaign) -> anyhow::Result<()> {
    let policy = policy_of(campaign)?;
    if ends_early(store, campaign, &policy).await?.is_none() {
        keep_shut(store, campaign, &policy).await?;
    }
    Ok(())
}

/// Its deadline is over, or a guard speaks: also when everybody is queued already, for they can be taken back.
async fn ends_early(store: &Store, campaign: &Campaign, policy: &Policy) -> anyhow::Result<Option<bool>> {
    if let Some(ends) = ends_by_deadline(store, campaign).await? {
        return Ok(Some(ends));
    }
    let why = match policy.guards.judge() {
        true => policy.guards.speak(ended(store, campaign).await?.since(judged_from(campaign))),
        false => None,
    };
    Ok(match why {
        None => None,
        Some(why) if policy.guards.abort => Some(aborted(store, campaign, &why).await?),
        Some(why) => Some(moved(store, campaign, CampaignStatus::Paused, &why).await?),
    })
}

/// Also while it is paused. Who gets it must be known by then: a wave is for those who did not.
pub(super) async fn ends_by_deadline(store: &Store, campaign: &Campaign) -> anyhow::Result<Option<bool>> {
    let now = store.now().await?;
    match campaign.frozen_at.is_some() && campaign.deadline.is_some_and(|at| at <= now) {
        true => Ok(Some(aborted(store, campaign, "its deadline is over").await?)),
        false => Ok(None),
    }
}

async fn aborted(store: &Store, campaign: &Campaign, why: &str) -> anyhow::Result<bool> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    Ok(store.abort_campaign(ws, id, campaign.version, why).await?)
}

/// How many have come to an end, and how.
async fn ended(store: &Store, campaign: &Campaign) -> anyhow::Result<Ended> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    let counts = store.campaign_counts(ws, id).await?;
    let endings = store.campaign_endings(ws, id).await?;
    let n = |reason: &str| endings.get(reason).copied().unwrap_or(0);
    let gone = n("recipient_gone");
    Ok(Ended {
        all: counts.sent + counts.failed + counts.dead,
        failed: counts.failed + counts.dead - gone,
        gone,
        unknown: n("outcome_unknown"),
        stops: n(store::STOPS),
    })
}

fn judged_from(campaign: &Campaign) -> Ended {
    serde_json::from_value(campaign.judged_from.clone()).unwrap_or_default()
}

/// Who lets it go on, or begins a wave, has seen what ended before: its guards judge what comes.
pub(super) async fn judge_anew(store: &Store, campaign: &Campaign) -> anyhow::Result<()> {
    if !policy_of(campaign)?.guards.judge() {
        return Ok(());
    }
    let by_now = serde_json::to_value(ended(store, campaign).await?)?;
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    Ok(store.judge_campaign_from(ws, id, campaign.version, by_now).await?)
}

/// The part of an account that has to cool down again and again rests; the others go on.
async fn rest_parts(
    store: &Store,
    campaign: &Campaign,
    policy: &Policy,
    now: Timestamp,
) -> anyhow::Result<bool> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    let Some(most) = policy.guards.cooldowns else {
        return Ok(false);
    };
    let mut changed = false;
    for account in campaign.accounts.iter().filter(|account| !campaign.resting.contains_key(account)) {
        let begun = campaign.resumed.get(account).copied().or(campaign.started_at).unwrap_or(now);
        let n = store.cooldowns_since(ws, *account, begun.max(now - COOLDOWNS_COUNT)).await?;
        if n >= i64::from(most) {
            let why = format!("guard: {n} cooldowns of this account in ten minutes");
            store.rest_part(ws, id, *account, Some(&why)).await?;
            changed = true;
        }
    }
    Ok(changed)
}

/// What waits in the queue for people whose window is closed is taken back; what was tried before waits until it opens.
pub(super) async fn keep_shut(store: &Store, campaign: &Campaign, policy: &Policy) -> anyhow::Result<()> {
    let Some(window) = policy.window() else {
        return Ok(());
    };
    let (ws, id, now) = (campaign.workspace_id, campaign.campaign_id, store.now().await?);
    let cohorts = store.campaign_cohorts(ws, id).await?;
    let closed = cohorts.iter().filter(|cohort| cohort.lane_holds > 0 && !policy.is_open(&cohort.zone, now));
    let opens = |zone: &str| window.next_change(policy.zone(zone), now).unwrap_or(Timestamp::NEVER);
    let until: HashMap<_, _> = closed.map(|cohort| (cohort.cohort_id, opens(&cohort.zone))).collect();
    while !until.is_empty() && store.shut_cohorts(ws, id, until.clone()).await? > 0 {}
    Ok(())
}

/// Those whose window is open; and of those only the first ones until they have it and the pause is over.
async fn may_be_fed(
    store: &Store,
    campaign: &Campaign,
    policy: &Policy,
    cohorts: &[Cohort],
    accounts: &[store::Account],
    now: Timestamp,
) -> anyhow::Result<Vec<Cohort>> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    let mut open: Vec<Cohort> =
        cohorts.iter().filter(|cohort| policy.is_open(&cohort.zone, now)).cloned().collect();
    if policy.canary.is_none() || campaign.rest_at.is_some_and(|at| at <= now) {
        return Ok(open);
    }
    // An account that rests holds up nobody but its own people.
    let sends = |id: &AccountId| {
        let account = accounts.iter().find(|one| one.account_id == *id);
        account.is_some_and(|one| !one.paused) && !campaign.resting.contains_key(id)
    };
    let of_those: Vec<&Cohort> = cohorts.iter().filter(|cohort| sends(&cohort.account_id)).collect();
    let mut first = of_those.iter().filter(|cohort| cohort.stage == FIRST);
    let first_have_it = !of_those.is_empty() && first.all(|cohort| cohort.waiting + cohort.lane_holds == 0);
    if first_have_it && campaign.rest_at.is_none() {
        store.let_rest_follow(ws, id, now + policy.hold().unwrap_or(Span::ZERO)).await?;
    }
    open.retain(|cohort| cohort.stage == FIRST);
    Ok(open)
}

/// What each account sends a second: its part of the whole by how many it has to reach, and never more than it can.
fn rates(
    whole: Option<f64>,
    affords: bool,
    cohorts: &[Cohort],
    accounts: &[store::Account],
) -> BTreeMap<AccountId, Option<f64>> {
    let mut total: BTreeMap<AccountId, i64> = BTreeMap::new();
    for cohort in cohorts {
        *total.entry(cohort.account_id).or_default() += cohort.total;
    }
    let all: i64 = total.values().sum::<i64>().max(1);
    total
        .into_iter()
        .map(|(id, n)| {
            let account = accounts.iter().find(|account| account.account_id == id);
            let can = account.and_then(|account| campaign_rate(account, affords));
            let share = whole.map(|rate| (rate * n as f64 / all as f64).max(0.001));
            let rate = match (share, can) {
                (Some(share), Some(can)) => Some(share.min(can)),
                (share, can) => share.or(can),
            };
            (id, rate)
        })
        .collect()
}

/// Fills the lane of an account up again when half of what is made ahead is gone.
async fn feed(
    store: &Store,
    campaign: &Campaign,
    policy: &Policy,
    cohorts: &[Cohort],
    account: AccountId,
    ahead: i64,
) -> anyhow::Result<bool> {
    let of_lane: Vec<&Cohort> =
        cohorts.iter().filter(|cohort| cohort.account_id == account && cohort.waiting > 0).collect();
    let mut holds = of_lane.first().map_or(0, |cohort| cohort.lane_holds);
    if of_lane.is_empty() || holds >= ahead / 2 {
        return Ok(false);
    }
    let mut changed = false;
    for cohort in of_lane {
        while holds < ahead {
            let fed =
                store.feed_campaign(campaign.workspace_id, cohort.cohort_id, policy.urgent, ahead).await?;
            if fed.queued + fed.excluded == 0 {
                break;
            }
            changed = true;
            holds += i64::try_from(fed.queued).unwrap_or(i64::MAX);
        }
    }
    Ok(changed)
}

async fn finish(store: &Store, campaign: &Campaign) -> anyhow::Result<bool> {
    let policy = policy_of(campaign)?;
    let counts = store.campaign_counts(campaign.workspace_id, campaign.campaign_id).await?;
    if counts.waiting > 0 {
        return moved(store, campaign, CampaignStatus::Running, "somebody waits again").await;
    }
    if counts.on_their_way() > 0 {
        let now = store.now().await?;
        let elapsed = now - campaign.started_at.unwrap_or(now);
        store.note_progress(campaign.workspace_id, campaign.campaign_id, note_every(elapsed)).await?;
        keep_shut(store, campaign, &policy).await?;
        let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
        let (cohorts, accounts) = (store.campaign_cohorts(ws, id).await?, store.accounts(ws).await?);
        pace(store, campaign, &policy, &cohorts, &accounts, now).await?;
        rest_parts(store, campaign, &policy, now).await?;
        return Ok(ends_early(store, campaign, &policy).await?.unwrap_or(false));
    }
    if !counts.are_complete() {
        tracing::error!(
            campaign = campaign.name,
            ?counts,
            "a campaign cannot be finished: somebody is not accounted for; run `rupor check` and report what it says"
        );
        return Ok(false);
    }
    moved(store, campaign, CampaignStatus::Finished, "").await
}

/// What was never claimed waits again, what waits to be tried again ends, and what is out is waited for.
async fn cancel(store: &Store, campaign: &Campaign) -> anyhow::Result<bool> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    store.recover(Whose::Workspace(ws), RECOVER_MAX).await?;
    while store.recall_campaign(ws, id).await? > 0 {}
    while store.end_retries(ws, id).await? > 0 {}
    match store.campaign_counts(ws, id).await?.on_their_way() {
        0 => moved(store, campaign, campaign.ends_as, campaign.why.as_deref().unwrap_or_default()).await,
        _ => Ok(false),
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
