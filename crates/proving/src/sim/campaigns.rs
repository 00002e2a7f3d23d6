//! Campaigns: readers on several bots, an operator who starts, pauses, changes, ends and retries them, and the loop of each
//! node that brings them on. The verbs and the steps are the engine's own; only who calls them, and when, is drawn.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::campaign::CampaignStatus;
use domain::ids::{AccountId, RecipientId, WorkspaceId};
use domain::message::Message;
use domain::time::{Span, Timestamp};
use engine::campaigns::life::{self, Draft};
use engine::campaigns::step;
use serde_json::{Value, json};
use store::{Campaign, NewRecipient, Person, RecipientStatus, Retries, Store};

use super::client::{self, did};
use super::ledger::is_out;
use super::log::{Heard, PersonLog, Post, Verb};
use super::node::Run;
use super::saboteur::Saboteur;
use super::world::{World, lock};

/// Words of campaigns are numbered apart from posts and mailings.
const FIRST_NUMBER: usize = 20_000;
/// How often those who failed are tried anew.
const WAVES_MAX: i32 = 2;
/// Looks of a pause at what is still out.
const LOOKS_MAX: usize = 2_000;

/// Somebody who reads campaigns on a bot.
#[derive(Debug, Clone)]
pub(crate) struct Subscriber {
    workspace: WorkspaceId,
    id: RecipientId,
    address: String,
}

/// The readers of one account; accounts of one platform share some of them.
pub(crate) async fn furnish(
    world: &World,
    workspace: WorkspaceId,
    account: AccountId,
    platform: &'static str,
) -> store::Result<Vec<Subscriber>> {
    let facts = platforms::registry::platform(platform).map(platforms::platform::Platform::facts);
    let Some(facts) = facts.filter(|_| world.options.campaigns > 0) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for n in 0..=world.below(world.options.subscribers) {
        let user_id = (7_000_000 + 1_000 * workspace.0 + n as i64).to_string();
        let zone = ["", "Europe/Moscow", "Asia/Tokyo"][world.below(3)];
        let named = world.below(4) > 0;
        let new = NewRecipient {
            address: user_id.clone(),
            user_id: user_id.clone(),
            attributes: if named { json!({"name": "Анна"}) } else { json!({}) },
            time_zone: (!zone.is_empty()).then(|| zone.to_owned()),
            status: RecipientStatus::Active,
            source: "simulated".into(),
        };
        let put = world.store.put_recipients(workspace, account, vec![new]).await?;
        for id in put.iter().map(|put| put.recipient_id) {
            let known = PersonLog {
                workspace: workspace.0,
                account: account.0,
                target: user_id.clone(),
                policy: facts.ambiguity.as_str(),
                keyed: platform == "vk",
                zone,
                user: user_id.clone(),
            };
            world.logs().world.people.insert(id.0, known);
            found.push(Subscriber { workspace, id, address: user_id.clone() });
        }
    }
    Ok(found)
}

/// Makes the campaigns of a run, and leads each of them to its end.
pub(crate) async fn operate(world: Arc<World>) {
    let mut earlier: Option<(String, usize)> = None;
    for number in 0..world.options.campaigns {
        tokio::time::sleep(world.up_to(world.options.chaos / 3)).await;
        let workspace = world.workspaces[world.below(world.workspaces.len())];
        let accounts: Vec<AccountId> =
            world.accounts.iter().filter(|(of, _)| *of == workspace).map(|(_, id)| *id).collect();
        let made = match accounts.is_empty() {
            true => None,
            false => {
                let twin = earlier.as_ref().filter(|_| world.below(2) == 0);
                let draft = draft(&world, number, accounts, twin);
                earlier = Some((draft.key.clone(), draft.variants.len()));
                create(&world, workspace, draft).await
            }
        };
        match made {
            Some(name) => drop(tokio::spawn(lead(Arc::clone(&world), workspace, name))),
            None => drop(world.campaigns.fetch_sub(1, Ordering::AcqRel)),
        }
    }
}

/// What a campaign says and keeps to. A twin draws the lots of an earlier one.
fn draft(world: &World, number: usize, accounts: Vec<AccountId>, twin: Option<&(String, usize)>) -> Draft {
    let name = format!("кампания {number}");
    let (key, n_variants) = twin.cloned().unwrap_or_else(|| (format!("семя {number}"), 1 + world.below(2)));
    let mut policy = json!({"unsubscribe": world.below(2) == 0});
    let mut keep = |key: &str, value: Value| policy[key] = value;
    match world.below(12) {
        0 => keep("rate", json!(3.0)),
        1 => keep("canary", json!({"share": 0.3, "hold": "10s"})),
        2 => keep("window", json!("12:01-20:00")),
        3 => keep("window", json!("10:00-12:01")),
        4 => keep("deadline", json!("40s")),
        5 => keep("min_gap", json!("20s")),
        6 => keep("ramp", json!([{"for": "20s", "rate": 1.0}])),
        7 => keep("guards", json!({"failures": 0.2, "unknown": 0.2, "abort": world.below(2) == 0})),
        8 => keep("guards", json!({"cooldowns": 1})),
        9 => keep("late_by", json!("1s")),
        _ => {}
    }
    let variants = (0..n_variants).map(|n| {
        let text = words(world, if n == 0 && world.below(3) == 0 { " {{ r.name }}" } else { "" });
        (["a", "b"][n.min(1)].to_owned(), 1, Message::text(text))
    });
    let variants = variants.collect();
    let policy = serde_json::from_value(policy).unwrap_or_default();
    Draft { name, accounts, audience: None, variants, policy, key }
}

/// A text with a marker of its own.
fn words(world: &World, more: &str) -> String {
    let number = FIRST_NUMBER + world.fresh() as usize;
    client::wording(&client::post(WorkspaceId(0), number, 2), "") + more
}

/// The checker knows words by what their client heard.
fn note_words(world: &World, campaign: &Campaign, texts: &[String]) {
    for (variant, text) in campaign.variants.iter().zip(texts) {
        let marker = text.split(' ').next().unwrap_or_default();
        let number = marker.trim_start_matches("метка").trim_end_matches('я').parse().unwrap_or(0);
        let heard = Heard::Ok { message: variant.message_id.0, deliveries: Vec::new(), skipped: Vec::new() };
        let post = Post { heard: vec![heard], ..client::post(campaign.workspace_id, number, 2) };
        client::note(world, post);
    }
}

async fn create(world: &World, workspace: WorkspaceId, draft: Draft) -> Option<String> {
    let (name, texts): (String, Vec<String>) =
        (draft.name.clone(), draft.variants.iter().map(|(_, _, words)| words.text.clone()).collect());
    let made = life::create(&world.store, workspace, draft).await;
    match made {
        Ok(campaign) => {
            world.trace(format_args!("operator: campaign {} {:?}", campaign.campaign_id, campaign.settings));
            note_words(world, &campaign, &texts);
            Some(name)
        }
        Err(error) => {
            world.trace(format_args!("operator: refused: {error:#}"));
            None
        }
    }
}

/// Does something with it now and then until it is over; in the calm nothing may stand in its way.
async fn lead(world: Arc<World>, workspace: WorkspaceId, name: String) {
    loop {
        tokio::time::sleep(world.between(Duration::from_millis(500), Duration::from_secs(8))).await;
        let Ok(campaign) = life::by_name(&world.store, workspace, &name).await else {
            continue;
        };
        let calm = world.is_calm();
        if campaign.status.is_over() && (calm || campaign.status == CampaignStatus::Cancelled) {
            world.campaigns.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let done = match calm {
            true => settle_down(&world, &campaign).await,
            false => meddle(&world, &campaign).await,
        };
        if let Err(error) = done {
            world.trace(format_args!("operator: campaign {}: {error:#}", campaign.campaign_id));
        }
        if !calm && world.below(4) == 0 {
            let wrong = world.store.audit(workspace).await.unwrap_or_default();
            world.logs().ledger.audit.extend(wrong.into_iter().map(|wrong| format!("on the way: {wrong}")));
        }
    }
}

async fn meddle(world: &World, campaign: &Campaign) -> anyhow::Result<()> {
    use CampaignStatus::*;
    let store = &world.store;
    if world.strikes(world.options.client.busy) {
        return Ok(());
    }
    match (campaign.status, world.below(12)) {
        (Draft, n) => start(world, campaign, n == 0 || campaign.settings["late_by"].is_string()).await,
        (Aborted, n) if campaign.started_at.is_none() => start(world, campaign, n == 0).await,
        (Preparing | Running | Finishing, 0..=2) => pause(world, campaign).await,
        (Running, 3) => {
            world.sometimes("campaign: cancelled on the way");
            life::cancel(store, campaign, "simulated").await
        }
        (_, 4..=5) => stop_one(world, campaign.workspace_id).await,
        (_, 6) => return_one(world, campaign.workspace_id).await,
        (Running | Finishing, 7..=8) => rest_part(world, campaign).await,
        (Paused, 0..=2) => edit(world, campaign).await,
        (Paused, 3) if campaign.variants.len() > 1 => life::choose(store, campaign, "b").await,
        (Paused, _) => resume(world, campaign).await,
        (Finished | Aborted, 7..=10) if campaign.wave < WAVES_MAX => retry(world, campaign).await,
        _ => Ok(()),
    }
}

/// Whose hour is over gets nothing any more: nobody waits a day for the end of a run.
async fn settle_down(world: &World, campaign: &Campaign) -> anyhow::Result<()> {
    for account in campaign.resting.keys() {
        world.store.rest_part(campaign.workspace_id, campaign.campaign_id, *account, None).await?;
    }
    match campaign.status {
        CampaignStatus::Draft => start(world, campaign, false).await,
        CampaignStatus::Paused => resume(world, campaign).await,
        CampaignStatus::Running | CampaignStatus::Finishing if campaign.settings["window"].is_string() => {
            life::cancel(&world.store, campaign, "simulated").await
        }
        _ => Ok(()),
    }
}

async fn start(world: &World, campaign: &Campaign, later: bool) -> anyhow::Result<()> {
    let at = later.then(|| Timestamp(world.ledger_at()) + Span::from_secs(3));
    let started = life::start(&world.store, campaign, at).await;
    if started.is_err() && world.is_calm() {
        // Everybody is gone, or its account rests: it never begins.
        return life::cancel(&world.store, campaign, "nobody is there").await;
    }
    started
}

/// Returns when nothing is on its way.
async fn pause(world: &World, campaign: &Campaign) -> anyhow::Result<()> {
    let before = world.store.campaign_counts(campaign.workspace_id, campaign.campaign_id).await?;
    life::pause(&world.store, campaign, "simulated").await?;
    if before.in_flight > 0 {
        world.sometimes("campaign: paused with people on the way");
    }
    for _ in 0..LOOKS_MAX {
        let counts = life::rests(&world.store, campaign).await?;
        let now = life::by_name(&world.store, campaign.workspace_id, &campaign.name).await?;
        if now.status != CampaignStatus::Paused {
            return Ok(());
        }
        if counts.in_flight == 0 {
            did(world, Verb::CampaignRests(campaign.campaign_id.0));
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn resume(world: &World, campaign: &Campaign) -> anyhow::Result<()> {
    did(world, Verb::ResumeCampaign(campaign.campaign_id.0));
    life::resume(&world.store, campaign).await
}

/// The part of one bot rests, or goes on.
async fn rest_part(world: &World, campaign: &Campaign) -> anyhow::Result<()> {
    let account = campaign.accounts[world.below(campaign.accounts.len())];
    let why = (!campaign.resting.contains_key(&account)).then_some("simulated");
    if why.is_some() {
        world.sometimes("campaign: the part of one bot rested");
    }
    Ok(world.store.rest_part(campaign.workspace_id, campaign.campaign_id, account, why).await?)
}

async fn edit(world: &World, campaign: &Campaign) -> anyhow::Result<()> {
    let before = world.store.campaign_counts(campaign.workspace_id, campaign.campaign_id).await?;
    spoil_recall(world).await?;
    let text = words(world, "");
    let key = format!("слова {}", world.fresh());
    life::edit(&world.store, campaign, &key, Message::text(text.clone())).await?;
    let now = life::by_name(&world.store, campaign.workspace_id, &campaign.name).await?;
    note_words(world, &now, &[text]);
    if before.sent > 0 && before.waiting + before.queued > 0 {
        world.sometimes("campaign: other words for those who have not got it");
    }
    if world.saboteur == Some(Saboteur::KeyWithRevision) {
        spoil(&world.store, KEY_WITH_REVISION).await?;
    }
    Ok(())
}

async fn retry(world: &World, campaign: &Campaign) -> anyhow::Result<()> {
    let unknown = world.below(2) == 0;
    let code = match world.below(3) {
        0 => one_code(world, campaign).await?,
        _ => None,
    };
    did(world, Verb::RetryCampaign { campaign: campaign.campaign_id.0, unknown });
    let by_code = code.is_some();
    life::retry(&world.store, campaign, Retries { code, unknown }).await?;
    if by_code {
        world.sometimes("campaign: a wave for one code");
    }
    Ok(())
}

/// What somebody failed with.
async fn one_code(world: &World, campaign: &Campaign) -> anyhow::Result<Option<String>> {
    let (workspace, id) = (campaign.workspace_id, campaign.campaign_id);
    let members = world.store.campaign_members(workspace, id, Person::default(), 1_000).await?;
    let failed = members.into_iter().filter(|one| matches!(one.state.as_str(), "failed" | "dead"));
    let codes: Vec<String> = failed.filter_map(|one| one.code).collect();
    Ok(codes.get(world.below(codes.len().max(1))).cloned())
}

fn one_of(world: &World, workspace: WorkspaceId) -> Option<Subscriber> {
    let of: Vec<&Subscriber> = world.subscribers.iter().filter(|one| one.workspace == workspace).collect();
    of.get(world.below(of.len())).map(|one| (*one).clone())
}

async fn stop_one(world: &World, workspace: WorkspaceId) -> anyhow::Result<()> {
    let Some(one) = one_of(world, workspace) else {
        return Ok(());
    };
    did(world, Verb::Stop(one.id.0));
    let stopped = RecipientStatus::Stopped;
    Ok(world.store.set_recipient_status(workspace, one.id, stopped, "/stop").await?)
}

async fn return_one(world: &World, workspace: WorkspaceId) -> anyhow::Result<()> {
    let Some(one) = one_of(world, workspace) else {
        return Ok(());
    };
    lock(&world.blocked).remove(&one.address);
    did(world, Verb::Return(one.id.0));
    let active = RecipientStatus::Active;
    Ok(world.store.set_recipient_status(workspace, one.id, active, "wrote again").await?)
}

/// The loop of one life of a node: as `engine::campaigns::run`, but it may do a part of a step and no more, as a node does
/// that dies in the middle.
pub(crate) async fn bring_on(run: Arc<Run>) {
    let world = &run.world;
    while world.campaigns.load(Ordering::Acquire) > 0 {
        tokio::time::sleep(world.between(Duration::from_millis(300), Duration::from_secs(2))).await;
        run.alive().await;
        if is_out(world) || world.strikes(world.options.ledger.busy) {
            continue;
        }
        for workspace in world.workspaces.clone() {
            for campaign in world.store.campaigns(workspace).await.unwrap_or_default() {
                if campaign.status.is_over() {
                    continue;
                }
                if let Err(error) = bring_on_one(world, campaign).await {
                    world.trace(format_args!("{} campaigns: {error:#}", run.name));
                }
            }
        }
    }
}

async fn bring_on_one(world: &World, campaign: Campaign) -> anyhow::Result<()> {
    let store = &world.store;
    let (workspace, id) = (campaign.workspace_id, campaign.campaign_id);
    let running = campaign.status == CampaignStatus::Running;
    if running && world.saboteur == Some(Saboteur::CursorWithoutState) && world.below(4) == 0 {
        spoil(store, CURSOR_WITHOUT_STATE).await?;
    }
    if campaign.status == CampaignStatus::Finishing && world.saboteur == Some(Saboteur::FinishByWaiting) {
        spoil(store, FINISH_BY_WAITING).await?;
    }
    if campaign.status == CampaignStatus::Cancelling {
        spoil_recall(world).await?;
    }
    // A window, a canary, a deadline and the like are the step's own business.
    let kept = ["window", "canary", "deadline", "min_gap", "ramp", "guards"]
        .iter()
        .any(|key| !campaign.settings[key].is_null());
    if running && !kept && !world.is_calm() && world.below(2) == 0 {
        let cohorts = store.campaign_cohorts(workspace, id).await?;
        let Some(cohort) = cohorts.get(world.below(cohorts.len())) else {
            return Ok(());
        };
        if world.below(6) == 0 {
            let n = store.recall_campaign(workspace, id).await?;
            world.trace(format_args!("campaign {id}: {n} are taken back"));
            return Ok(());
        }
        let ahead = cohort.lane_holds + 1 + world.below(3) as i64;
        let fed = store.feed_campaign(workspace, cohort.cohort_id, false, ahead);
        let fed = without_recheck(world, fed).await?;
        world.trace(format_args!("campaign {id}: {fed:?}"));
        return Ok(());
    }
    let closes = campaign.settings["window"].is_string();
    let before = store.campaign_counts(workspace, id).await?;
    without_recheck(world, step(store, campaign)).await?;
    let after = store.campaign_counts(workspace, id).await?;
    if closes && running && after.waiting > before.waiting {
        world.sometimes("campaign: taken back when a window closed");
    }
    world.trace(format_args!("campaign {id}: {after:?}"));
    Ok(())
}

// -- planted bugs

async fn spoil(store: &Store, sql: &'static str) -> store::Result<()> {
    match store {
        Store::Sqlite(sqlite) => sqlite.spoil(sql).await,
        Store::Postgres(_) => Ok(()),
    }
}

async fn spoil_recall(world: &World) -> store::Result<()> {
    match world.saboteur {
        Some(Saboteur::RecallOfClaimed) => spoil(&world.store, RECALL_OF_CLAIMED).await,
        _ => Ok(()),
    }
}

/// With everybody for active, if that bug is planted.
async fn without_recheck<T, E: From<store::StoreError>>(
    world: &World,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match world.saboteur {
        Some(Saboteur::FeedWithoutRecheck) => {
            spoil(&world.store, ALL_ACTIVE).await?;
            let done = work.await;
            spoil(&world.store, AS_BEFORE).await?;
            done
        }
        _ => work.await,
    }
}

/// With every lane of a campaign open and everybody for active.
pub(crate) async fn with_open_gates<T>(
    world: &World,
    work: impl Future<Output = store::Result<T>>,
) -> store::Result<T> {
    spoil(&world.store, ALL_ACTIVE).await?;
    spoil(&world.store, ALL_OPEN).await?;
    let done = work.await;
    spoil(&world.store, CLOSED_AGAIN).await?;
    spoil(&world.store, AS_BEFORE).await?;
    done
}

const CURSOR_WITHOUT_STATE: &str = "
UPDATE campaign_cohorts
   SET cursor = coalesce((SELECT min(m.member_id) FROM campaign_recipients AS m
                           WHERE m.cohort_id = campaign_cohorts.cohort_id AND m.state = 'waiting'), cursor);";
const FINISH_BY_WAITING: &str = "
UPDATE campaigns
   SET status = 'finished', version = version + 1,
       ended_at = (SELECT max(e.at) FROM events AS e)
 WHERE status = 'finishing'
   AND EXISTS (SELECT 1 FROM deliveries AS d WHERE d.campaign_id = campaigns.campaign_id AND d.ended_at IS NULL);";
const RECALL_OF_CLAIMED: &str = "
UPDATE deliveries SET claim_seq = 0, status = 'queued' WHERE campaign_id IS NOT NULL AND status = 'retry';
UPDATE lane_heads SET n_queued = n_queued + n_retry, n_retry = 0 WHERE campaign_id IN (SELECT campaign_id FROM campaigns);";
const KEY_WITH_REVISION: &str = "
DROP INDEX IF EXISTS deliveries_of_campaign;
UPDATE campaign_cohorts
   SET cursor = 0,
       n_waiting = n_waiting + (SELECT count(*) FROM campaign_recipients AS m JOIN deliveries AS d ON d.delivery_id = m.delivery_id
                                 WHERE m.cohort_id = campaign_cohorts.cohort_id AND m.state = 'queued' AND d.status = 'sent');
UPDATE campaign_recipients
   SET state = 'waiting'
 WHERE state = 'queued' AND delivery_id IN (SELECT delivery_id FROM deliveries WHERE status = 'sent');";
const ALL_ACTIVE: &str = "
CREATE TEMP TABLE IF NOT EXISTS were (recipient_id INTEGER PRIMARY KEY, status TEXT);
INSERT INTO were SELECT recipient_id, status FROM recipients WHERE status IN ('stopped', 'gone');
UPDATE recipients SET status = 'active' WHERE status IN ('stopped', 'gone');";
const AS_BEFORE: &str = "
UPDATE recipients SET status = (SELECT w.status FROM were AS w WHERE w.recipient_id = recipients.recipient_id)
 WHERE recipient_id IN (SELECT recipient_id FROM were);
DELETE FROM were;";
const ALL_OPEN: &str = "
CREATE TEMP TABLE IF NOT EXISTS shut (lane_id INTEGER PRIMARY KEY);
INSERT INTO shut SELECT lane_id FROM lane_heads WHERE campaign_id IS NOT NULL AND open = 0;
UPDATE lane_heads SET open = 1 WHERE lane_id IN (SELECT lane_id FROM shut);";
const CLOSED_AGAIN: &str = "
UPDATE lane_heads SET open = 0 WHERE lane_id IN (SELECT lane_id FROM shut);
DELETE FROM shut;";
