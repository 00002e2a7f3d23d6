//! What operators do with a campaign: make it, start it, pause it, change it, end it, try again.
//!
//! Each verb is one change of state; whoever asked then calls `step` until what they want is so, beside the loop that
//! does the same.

use anyhow::{Context, bail};
use domain::campaign::{CampaignStatus, STOP_PRESS};
use domain::delivery::Priority;
use domain::ids::{AccountId, AudienceId, DeliveryId, MessageId, RecipientId, WorkspaceId};
use domain::message::{Button, Message, Press};
use domain::shown::quoted;
use domain::time::{Span, Timestamp};
use platforms::render::personal;
use serde_json::json;
use store::{
    Campaign, CampaignCounts, ForRecipients, LaneOf, NewCampaign, NewMessage, Retries, Store, StoreError,
    Variant, Whose,
};

use super::forecast::{self, Forecast};
use super::people::{Judge, Preview};
use super::policy::Policy;
use super::step::{ends_by_deadline, find, judge_anew, keep_shut, policy_of};
use crate::addresses::{PAID_PRICE, TIER_PAID};
use crate::lanes::{self, Queueing};

const STOP_WORDS: &str = "Отписаться";
/// Claims that a pause takes up whose node is gone.
const RECOVER_MAX: usize = 500;

/// What a new campaign is made of.
#[derive(Debug)]
pub struct Draft {
    pub name: String,
    pub accounts: Vec<AccountId>,
    pub audience: Option<AudienceId>,
    /// The words of each variant, with its name and weight.
    pub variants: Vec<(String, i32, Message)>,
    pub policy: Policy,
    /// Drawn by whoever asks: doing it again is the same campaign's words.
    pub key: String,
}

pub async fn create(store: &Store, ws: WorkspaceId, draft: Draft) -> anyhow::Result<Campaign> {
    draft.policy.check()?;
    let known = store.campaigns(ws).await?;
    if known.iter().any(|campaign| campaign.name == draft.name) {
        bail!(StoreError::Exists { what: "campaign", name: draft.name });
    }
    let mut variants = Vec::new();
    for (n, (name, weight, message)) in draft.variants.into_iter().enumerate() {
        // The lots of another campaign may be drawn again; its words are never shared.
        let key = format!("{}/{}.{n}", draft.key, draft.name);
        let message_id = keep_words(store, ws, &key, message, &draft.policy).await?;
        variants.push(Variant { name, weight, message_id });
    }
    let name = draft.name.clone();
    let new = NewCampaign {
        name: draft.name,
        accounts: draft.accounts,
        audience_id: draft.audience,
        min_gap: draft.policy.min_gap(),
        settings: json!(draft.policy),
        seed: draft.key,
        deadline: draft.policy.deadline().unwrap_or(Span::ZERO),
        variants,
    };
    store.create_campaign(ws, new).await?;
    by_name(store, ws, &name).await
}

/// The words as a message of their own, checked before anybody depends on them.
async fn keep_words(
    store: &Store,
    ws: WorkspaceId,
    key: &str,
    mut message: Message,
    policy: &Policy,
) -> anyhow::Result<MessageId> {
    if message.text.trim().is_empty() && message.media.is_empty() {
        bail!("the text is empty; give it with --text or --file");
    }
    message.personal = personal::is_personal(&message.text);
    if let Err(personal::Unfilled::Broken(why)) = personal::fill(&message.text, &json!({})) {
        bail!("the text cannot be filled in: {why}; write {{{{ r.name | default(\"друг\") }}}}");
    }
    if let Some(name) = personal::strangers(&message.text).first() {
        bail!(
            "the text asks for {{{{ {name} }}}}, which is not known of anybody; an attribute of a person is written with r. before it: {{{{ r.{name} }}}}, or {{{{ r.{name} | default(\"друг\") }}}} for those who have none"
        );
    }
    if policy.has_unsubscribe() {
        let stop = Button { text: STOP_WORDS.to_owned(), press: Press::Callback(STOP_PRESS.to_owned()) };
        message.buttons.push(vec![stop]);
    }
    let payload = json!(message);
    let hash = blake3::hash(payload.to_string().as_bytes()).to_hex().to_string();
    let new = NewMessage {
        origin: json!({"source": "campaign"}),
        ..NewMessage::new("campaign", key, hash, payload)
    };
    let made = store.enqueue(ws, vec![new]).await?;
    Ok(made.first().context("the words could not be kept")?.message_id)
}

pub async fn by_name(store: &Store, ws: WorkspaceId, name: &str) -> anyhow::Result<Campaign> {
    let known = store.campaigns(ws).await?;
    let names: Vec<&str> = known.iter().map(|campaign| campaign.name.as_str()).collect();
    let there = match names.is_empty() {
        true => "there is none; make one with `rupor campaign new`".to_owned(),
        false => format!("known are {}", names.join(", ")),
    };
    let problem = format!("campaign {name:?} is not known; {}", domain::shown::line(&there));
    let found = known.iter().find(|campaign| campaign.name == name);
    let found = found.or_else(|| known.iter().find(|campaign| campaign.campaign_id.to_string() == name));
    Ok(found.context(problem)?.clone())
}

/// Who would get it, who not and why, when it would start, and when it would be done; `None` when nothing paces it.
pub async fn preview(
    store: &Store,
    campaign: &Campaign,
    at: Option<Timestamp>,
) -> anyhow::Result<(Preview, Timestamp, Option<Forecast>)> {
    let planned = campaign.starts_at.filter(|_| campaign.status == CampaignStatus::Scheduled);
    let now = store.now().await?;
    let begins = at.or(planned).map_or(now, |at| at.max(now));
    let preview = Judge::of(store, campaign.clone()).await?.preview(store, begins).await?;
    let forecast = forecast::of_preview(store, campaign, &preview, begins).await?;
    Ok((preview, begins, forecast))
}

/// Its accounts on which nobody would hear the button that stops it.
pub async fn deaf_to_stop(store: &Store, campaign: &Campaign) -> anyhow::Result<Vec<String>> {
    if !policy_of(campaign)?.has_unsubscribe() {
        return Ok(Vec::new());
    }
    let ws = campaign.workspace_id;
    let bots = store.bots(ws).await?;
    let hears = |id| bots.iter().flat_map(|bot| &bot.accounts).any(|account| account.account_id == id);
    let accounts = store.accounts(ws).await?;
    let ours = accounts.into_iter().filter(|account| campaign.accounts.contains(&account.account_id));
    Ok(ours.filter(|account| !hears(account.account_id)).map(|account| account.name).collect())
}

/// Lets it start now, or at its time.
pub async fn start(store: &Store, campaign: &Campaign, at: Option<Timestamp>) -> anyhow::Result<()> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    if !matches!(campaign.status, CampaignStatus::Draft | CampaignStatus::Scheduled) && !never_began(campaign)
    {
        bail!(
            "campaign {} is {}; only a draft can be started{}",
            campaign.name,
            campaign.status,
            hint(campaign)
        );
    }
    let now = store.now().await?;
    if at.is_some_and(|at| at <= now) {
        bail!(
            "campaign {}: its start lies in the past; give a later time, or none to start now",
            campaign.name
        );
    }
    let accounts = store.accounts(ws).await?;
    for account in accounts.iter().filter(|account| campaign.accounts.contains(&account.account_id)) {
        if account.paused {
            let why =
                account.paused_why.as_deref().filter(|why| !why.is_empty()).unwrap_or("no reason given");
            bail!(
                "account {} is paused ({why}), so nothing could be sent; run `rupor account resume {}` first",
                account.name,
                quoted(&account.name)
            );
        }
    }
    let ours = || accounts.iter().filter(|account| campaign.accounts.contains(&account.account_id));
    if policy_of(campaign)?.paid.is_some() && !ours().any(|account| account.settings.tier == TIER_PAID) {
        bail!(
            "campaign {}: paid: none of its accounts sends paid broadcasts; set tier = \"{TIER_PAID}\" on one of them in \
             rupor.toml and run `rupor apply`, or leave paid out",
            campaign.name
        );
    }
    // The whole list is counted by the freeze; whoever wants to see it first has the preview.
    let looked = Judge::of(store, campaign.clone()).await?.anybody(store, now).await?;
    if looked.total() == 0 {
        let help = match looked.slips() {
            Some(slips) => {
                format!("{slips}; correct the text with `rupor campaign edit {}`", quoted(&campaign.name))
            }
            None => {
                "import people with `rupor audience import`, and look with `rupor campaign preview`".into()
            }
        };
        bail!("campaign {} has nobody to write to; {help}", campaign.name);
    }
    for account in accounts.iter().filter(|account| campaign.accounts.contains(&account.account_id)) {
        let most = account.settings.max_parallel;
        let queueing = Queueing { max_parallel: (most * 3 / 4).max(2), rate: None };
        lanes::open(store, ws, LaneOf::Campaign(id, account.account_id), queueing).await?;
    }
    let campaign = match campaign.status {
        CampaignStatus::Scheduled => {
            took(store.move_campaign(ws, id, campaign.version, CampaignStatus::Draft, "").await?, campaign)?;
            find(store, campaign).await?
        }
        _ => campaign.clone(),
    };
    let done = match at {
        Some(at) => store.schedule_campaign(ws, id, campaign.version, at).await?,
        None => store.move_campaign(ws, id, campaign.version, CampaignStatus::Preparing, "").await?,
    };
    took(done, &campaign)
}

/// Its time was missed by more than it may be late: it is given up, and may be started like a draft.
fn never_began(campaign: &Campaign) -> bool {
    campaign.status == CampaignStatus::Aborted && campaign.started_at.is_none()
}

/// What to do instead.
fn hint(campaign: &Campaign) -> String {
    let name = quoted(&campaign.name);
    match campaign.status {
        CampaignStatus::Paused => format!("; go on with `rupor campaign resume {name}`"),
        CampaignStatus::Finished | CampaignStatus::Aborted => {
            format!("; for those who failed run `rupor campaign retry {name}`")
        }
        CampaignStatus::Cancelled => "; make another one with `rupor campaign new`".to_owned(),
        CampaignStatus::Preparing
        | CampaignStatus::Running
        | CampaignStatus::Finishing
        | CampaignStatus::Cancelling => format!("; look with `rupor campaign status {name}`"),
        CampaignStatus::Draft | CampaignStatus::Scheduled => String::new(),
    }
}

fn took(done: bool, campaign: &Campaign) -> anyhow::Result<()> {
    match done {
        true => Ok(()),
        false => bail!(
            "campaign {} was changed by somebody else in this moment; look with `rupor campaign status {}`",
            campaign.name,
            quoted(&campaign.name)
        ),
    }
}

/// Nothing more is claimed from this moment on; what is out is waited for by `rests`.
pub async fn pause(store: &Store, campaign: &Campaign, why: &str) -> anyhow::Result<()> {
    if campaign.status == CampaignStatus::Paused {
        return Ok(());
    }
    require(campaign, CampaignStatus::Paused, "paused")?;
    move_on(store, campaign, CampaignStatus::Paused, why).await
}

/// Pauses the part of one account, or lets it go on; the others are not touched.
pub async fn rest_part(
    store: &Store,
    campaign: &Campaign,
    account: &store::Account,
    why: Option<&str>,
) -> anyhow::Result<()> {
    if !campaign.accounts.contains(&account.account_id) {
        bail!("campaign {} is not sent by account {}", campaign.name, account.name);
    }
    is_not_over(campaign)?;
    Ok(store.rest_part(campaign.workspace_id, campaign.campaign_id, account.account_id, why).await?)
}

fn is_not_over(campaign: &Campaign) -> anyhow::Result<()> {
    match campaign.status.is_over() {
        false => Ok(()),
        true => bail!(
            "campaign {} is {}; nothing of it is left to send; say something else with `rupor campaign new`",
            campaign.name,
            campaign.status
        ),
    }
}

/// What it may cost at most where it is sent faster than is free; `None`: nothing.
pub async fn most_stars(
    store: &Store,
    campaign: &Campaign,
    preview: &Preview,
) -> anyhow::Result<Option<f64>> {
    let Some(paid) = policy_of(campaign)?.paid else {
        return Ok(None);
    };
    let accounts = store.accounts(campaign.workspace_id).await?;
    let paying = accounts.iter().filter(|one| one.settings.tier == TIER_PAID);
    let people: i64 = paying.filter_map(|one| preview.audience.get(&one.account_id)).sum();
    Ok(Some((people as f64 * PAID_PRICE).min(paid.stars)))
}

/// Whether nothing of it is in flight; claims of a node that is gone are taken up.
pub async fn rests(store: &Store, campaign: &Campaign) -> anyhow::Result<CampaignCounts> {
    store.recover(Whose::Workspace(campaign.workspace_id), RECOVER_MAX).await?;
    Ok(store.campaign_counts(campaign.workspace_id, campaign.campaign_id).await?)
}

pub async fn resume(store: &Store, campaign: &Campaign) -> anyhow::Result<()> {
    if campaign.status != CampaignStatus::Paused {
        bail!("campaign {} is {}; only a paused one can be resumed", campaign.name, campaign.status);
    }
    if ends_by_deadline(store, campaign).await?.is_some() {
        bail!(
            "campaign {}: its deadline passed while it was paused, so it ends now; for those who have not got it run `rupor campaign retry {}`",
            campaign.name,
            campaign.name
        );
    }
    let next = match campaign.frozen_at {
        Some(_) => CampaignStatus::Running,
        None => CampaignStatus::Preparing,
    };
    // Before anything may leave: what was queued when it was paused may be for people who sleep now.
    keep_shut(store, campaign, &policy_of(campaign)?).await?;
    judge_anew(store, campaign).await?;
    move_on(store, campaign, next, "").await
}

pub async fn cancel(store: &Store, campaign: &Campaign, why: &str) -> anyhow::Result<()> {
    match campaign.status {
        CampaignStatus::Cancelling | CampaignStatus::Cancelled => Ok(()),
        CampaignStatus::Draft | CampaignStatus::Scheduled => {
            move_on(store, campaign, CampaignStatus::Cancelled, why).await
        }
        _ => {
            require(campaign, CampaignStatus::Cancelling, "cancelled")?;
            move_on(store, campaign, CampaignStatus::Cancelling, why).await
        }
    }
}

/// Other words, for everybody who has not got it.
pub async fn edit(store: &Store, campaign: &Campaign, key: &str, message: Message) -> anyhow::Result<()> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    is_not_over(campaign)?;
    let rests_now =
        matches!(campaign.status, CampaignStatus::Draft | CampaignStatus::Scheduled | CampaignStatus::Paused);
    if !rests_now {
        bail!(
            "campaign {} is {}; its words can be changed only while it rests: run `rupor campaign pause {}` first",
            campaign.name,
            campaign.status,
            quoted(&campaign.name)
        );
    }
    if campaign.variants.len() > 1 {
        bail!("campaign {} has several variants; make a new one with other words", campaign.name);
    }
    while store.recall_campaign(ws, id).await? > 0 {}
    let message_id = keep_words(store, ws, key, message, &policy_of(campaign)?).await?;
    took(store.edit_campaign(ws, id, campaign.version, 0, message_id).await?, campaign)
}

/// Everybody who has not got it gets the words of this variant.
pub async fn choose(store: &Store, campaign: &Campaign, name: &str) -> anyhow::Result<()> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    let names: Vec<&str> = campaign.variants.iter().map(|variant| variant.name.as_str()).collect();
    let chosen = campaign.variants.iter().find(|variant| variant.name == name);
    let chosen =
        chosen.with_context(|| format!("variant {name:?} is not known; known are {}", names.join(", ")))?;
    is_not_over(campaign)?;
    if campaign.status != CampaignStatus::Paused {
        bail!(
            "campaign {} is {}; a variant is chosen while it rests: run `rupor campaign pause {}` first",
            campaign.name,
            campaign.status,
            quoted(&campaign.name)
        );
    }
    while store.recall_campaign(ws, id).await? > 0 {}
    let mut now = campaign.clone();
    for (n, variant) in (0..).zip(&campaign.variants) {
        if variant.message_id != chosen.message_id {
            took(store.edit_campaign(ws, id, now.version, n, chosen.message_id).await?, campaign)?;
            now = find(store, &now).await?;
        }
    }
    Ok(())
}

/// The words to people of one's own, as each of them would read it, beside the campaign: they are counted nowhere.
pub async fn try_out(
    store: &Store,
    campaign: &Campaign,
    account: AccountId,
    people: Vec<RecipientId>,
    key: &str,
) -> anyhow::Result<Vec<DeliveryId>> {
    let ws = campaign.workspace_id;
    if !campaign.accounts.contains(&account) {
        bail!("campaign {} is not sent by this account", campaign.name);
    }
    let mut said = Vec::new();
    for (n, variant) in campaign.variants.iter().enumerate() {
        let words = store.payloads(ws, vec![variant.message_id]).await?;
        let (_, payload) = words.into_iter().next().context("the words are not there any more")?;
        // A message of its own: whoever tries it out gets the campaign all the same.
        let hash = blake3::hash(payload.to_string().as_bytes()).to_hex().to_string();
        let copy = NewMessage {
            origin: json!({"source": "campaign"}),
            ..NewMessage::new("campaign:test", format!("{key}.{n}"), hash, payload)
        };
        let made = store.enqueue(ws, vec![copy]).await?;
        let message_id = made.first().context("the words could not be kept")?.message_id;
        for one in &people {
            let lane_id = lanes::open(store, ws, LaneOf::Dialogue(*one), Queueing::DIALOGUE).await?;
            let recipients = vec![*one];
            let new =
                ForRecipients { message_id, lane_id, recipients, priority: Priority::Urgent, run_at: None };
            said.extend(store.enqueue_for(ws, new).await?.into_iter().flatten());
        }
    }
    Ok(said)
}

/// A new wave for those who failed.
pub async fn retry(store: &Store, campaign: &Campaign, retries: Retries) -> anyhow::Result<()> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    if !matches!(campaign.status, CampaignStatus::Finished | CampaignStatus::Aborted) {
        bail!(
            "campaign {} is {}; those who failed are tried anew when it is finished",
            campaign.name,
            campaign.status
        );
    }
    if never_began(campaign) {
        bail!(
            "campaign {} never began, so nobody failed; start it with `rupor campaign start {}`",
            campaign.name,
            campaign.name
        );
    }
    if !store.anybody_again(ws, id, retries.clone()).await? {
        let whom = match &retries.code {
            Some(code) => format!("nobody failed with {}", domain::shown::line(code)),
            None => "nobody failed".to_owned(),
        };
        bail!(
            "campaign {}: {whom} who may be tried again; nothing is changed; `rupor campaign report {}` tells of everybody",
            campaign.name,
            campaign.name
        );
    }
    took(store.begin_wave(ws, id, campaign.version, retries).await?, campaign)
}

fn require(campaign: &Campaign, next: CampaignStatus, verb: &str) -> anyhow::Result<()> {
    match campaign.status.may_become(next) {
        true => Ok(()),
        false => {
            bail!("campaign {} is {}; it cannot be {verb}{}", campaign.name, campaign.status, hint(campaign))
        }
    }
}

/// The loop may move it at the same moment; then it is looked at again, for what the operator wants still holds.
async fn move_on(store: &Store, campaign: &Campaign, next: CampaignStatus, why: &str) -> anyhow::Result<()> {
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    let mut campaign = campaign.clone();
    for _ in 0..10 {
        if campaign.status == next || store.move_campaign(ws, id, campaign.version, next, why).await? {
            return Ok(());
        }
        campaign = find(store, &campaign).await?;
        if campaign.status != next {
            require(&campaign, next, next.as_str())?;
        }
    }
    took(false, &campaign)
}
