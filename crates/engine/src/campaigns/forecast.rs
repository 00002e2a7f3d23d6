//! When a campaign will be done, from what its rows and its accounts say now; `domain::forecast` is the walk itself.

use std::collections::BTreeMap;

use domain::campaign::CampaignStatus;
use domain::forecast::{Group, Plan};
use domain::ids::AccountId;
use domain::time::{Span, Timestamp};
use serde::Serialize;
use store::{Campaign, Store};

use super::people::Preview;
use super::policy::Policy;
use super::step::{FIRST, affords, campaign_rate, policy_of, sent_by};
use crate::span;

/// Two answers: as if nothing stood in the way, and with what is known to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forecast {
    /// At the full pace that is allowed.
    pub best_at: Timestamp,
    /// With accounts that cool down waiting until they may; `None`: one of them is paused.
    pub expected_at: Option<Timestamp>,
    /// Who does not get it before the deadline, as expected.
    pub late: i64,
}

/// Of a campaign as it stands; `None` when it rests or nothing paces it.
pub async fn of(store: &Store, campaign: &Campaign) -> anyhow::Result<Option<Forecast>> {
    let moves = campaign.status.is_open() || campaign.status == CampaignStatus::Preparing;
    if !moves {
        return Ok(None);
    }
    let now = store.now().await?;
    let policy = policy_of(campaign)?;
    let cohorts = store.campaign_cohorts(campaign.workspace_id, campaign.campaign_id).await?;
    let mut groups = Vec::new();
    let mut totals: BTreeMap<AccountId, i64> = BTreeMap::new();
    let mut held: BTreeMap<AccountId, i64> = BTreeMap::new();
    for cohort in &cohorts {
        *totals.entry(cohort.account_id).or_default() += cohort.total;
        // What the lane holds is said once for each of its cohorts.
        held.insert(cohort.account_id, cohort.lane_holds);
        let zone = policy.zone(&cohort.zone).to_owned();
        let (account, first) = (cohort.account_id, cohort.stage == FIRST);
        groups.push(Group { account, zone, first, left: cohort.waiting as f64 });
    }
    // Who is queued already was let through: neither a window nor a canary holds them up.
    for (account, n) in held {
        let zone =
            cohorts.iter().find(|cohort| cohort.account_id == account && policy.is_open(&cohort.zone, now));
        let zone = policy.zone(zone.map_or("", |cohort| &cohort.zone)).to_owned();
        groups.push(Group { account, zone, first: true, left: n as f64 });
    }
    let started = campaign.started_at.unwrap_or(now);
    let plan = plan(&policy, &totals, started, campaign.deadline);
    let plan = Plan { groups, rest_at: campaign.rest_at, ..plan };
    walk(store, campaign, plan, &sent_by(&cohorts), now).await
}

/// Of a draft that starts now.
pub(super) async fn of_preview(
    store: &Store,
    campaign: &Campaign,
    preview: &Preview,
    now: Timestamp,
) -> anyhow::Result<Option<Forecast>> {
    let policy = policy_of(campaign)?;
    let share = policy.canary.as_ref().map_or(0.0, |canary| canary.share);
    let groups = preview.zones.iter().flat_map(|((account, zone), n)| {
        let zone = policy.zone(zone);
        let group = |first, left| Group { account: *account, zone: zone.to_owned(), first, left };
        [group(true, *n as f64 * share), group(false, *n as f64 * (1.0 - share))]
    });
    let deadline = policy.deadline().map(|span| now + span);
    let plan = Plan { groups: groups.collect(), ..plan(&policy, &preview.audience, now, deadline) };
    walk(store, campaign, plan, &BTreeMap::new(), now).await
}

fn plan(
    policy: &Policy,
    totals: &BTreeMap<AccountId, i64>,
    started: Timestamp,
    deadline: Option<Timestamp>,
) -> Plan {
    let all = totals.values().sum::<i64>().max(1) as f64;
    let mut until = started;
    let ramp = policy.ramp.iter().map(|step| {
        until = until + span::parse(&step.length).unwrap_or(Span::ZERO);
        (until, step.rate)
    });
    Plan {
        ramp: ramp.collect(),
        shares: totals.iter().map(|(account, n)| (*account, *n as f64 / all)).collect(),
        rate: policy.rate,
        window: policy.window(),
        hold: policy.hold(),
        deadline,
        ..Plan::default()
    }
}

/// Once as if every account could send now, and once as they stand.
async fn walk(
    store: &Store,
    campaign: &Campaign,
    mut plan: Plan,
    sent: &BTreeMap<AccountId, i64>,
    now: Timestamp,
) -> anyhow::Result<Option<Forecast>> {
    let accounts = store.accounts(campaign.workspace_id).await?;
    let ours = || accounts.iter().filter(|account| campaign.accounts.contains(&account.account_id));
    let mut as_they_stand = BTreeMap::new();
    let affords = affords(campaign, &policy_of(campaign)?, &accounts, sent);
    for account in ours() {
        let Some(rate) = campaign_rate(account, affords).or(plan.rate) else {
            return Ok(None);
        };
        plan.accounts.insert(account.account_id, (rate, now));
        if !account.paused && !campaign.resting.contains_key(&account.account_id) {
            as_they_stand.insert(account.account_id, (rate, account.cooldown_until.max(now)));
        }
    }
    let Some(best) = plan.forecast(now) else {
        return Ok(None);
    };
    plan.accounts = as_they_stand;
    let expected = plan.forecast(now);
    Ok(Some(Forecast {
        best_at: best.done_at,
        expected_at: expected.map(|expected| expected.done_at),
        late: expected.map_or(best.late, |expected| expected.late) as i64,
    }))
}
