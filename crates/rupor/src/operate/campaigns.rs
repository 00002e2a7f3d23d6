//! What operators do with campaigns, as values that cross to the running node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use domain::ids::{RecipientId, WorkspaceId};
use domain::message::{Button, Media, Message, Press};
use domain::time::{Span, Timestamp};
use engine::campaigns::forecast;
use engine::campaigns::life::{self, Draft};
use engine::campaigns::people::Said;
use engine::campaigns::policy::Policy;
use engine::campaigns::step;
use engine::ingest::keep_bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Campaign, Member, Retries, Store};

use super::verb::{find_account, find_workspace};
use super::words::{how_long, moment};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum CampaignOrder {
    New {
        accounts: Vec<String>,
        audience: Option<String>,
        variants: Vec<Words>,
        policy: Box<Policy>,
        /// Drawn by whoever asks.
        key: String,
    },
    Start {
        at: Option<Timestamp>,
    },
    Pause {
        why: String,
    },
    Resume,
    /// The part of one account rests, or goes on without a reason.
    Part {
        account: String,
        why: Option<String>,
    },
    Cancel {
        why: String,
    },
    Edit {
        words: Words,
        key: String,
    },
    Retry(Retries),
    /// Everybody who has not got it gets the words of this variant.
    Choose {
        variant: String,
    },
    /// To people of one's own, beside the campaign.
    Test {
        account: String,
        people: Vec<String>,
        key: String,
    },
    /// Changes nothing by itself: brings it on by a step, as the node does, and tells how it stands.
    Drive,
}

/// What a variant says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    pub name: String,
    pub weight: i32,
    pub text: String,
    /// Files that whoever performs this can read.
    pub photos: Vec<PathBuf>,
    /// Pictures that came as bytes and are kept already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Media>,
    pub buttons: Vec<Vec<Button>>,
}

pub(crate) async fn perform_on_campaign(
    store: &Store,
    workspace: &str,
    name: &str,
    order: CampaignOrder,
) -> anyhow::Result<Value> {
    let ws = find_workspace(store, workspace).await?;
    let campaign = match order {
        CampaignOrder::New { accounts, audience, variants, policy, key } => {
            let draft =
                draft(store, workspace, ws, (name, accounts, audience, variants), *policy, key).await?;
            return how_it_stands(store, &life::create(store, ws, draft).await?).await;
        }
        _ => life::by_name(store, ws, name).await?,
    };
    match order {
        CampaignOrder::New { .. } => {}
        CampaignOrder::Start { at } => life::start(store, &campaign, at).await?,
        CampaignOrder::Pause { why } => life::pause(store, &campaign, &why).await?,
        CampaignOrder::Resume => life::resume(store, &campaign).await?,
        CampaignOrder::Part { account, why } => {
            let (_, account) = find_account(store, workspace, &account).await?;
            life::rest_part(store, &campaign, &account, why.as_deref()).await?;
        }
        CampaignOrder::Cancel { why } => life::cancel(store, &campaign, &why).await?,
        CampaignOrder::Edit { words, key } => {
            let message = message(store, ws, words).await?;
            life::edit(store, &campaign, &key, message).await?;
        }
        CampaignOrder::Retry(retries) => life::retry(store, &campaign, retries).await?,
        CampaignOrder::Choose { variant } => life::choose(store, &campaign, &variant).await?,
        CampaignOrder::Test { account, people, key } => {
            let (_, account) = find_account(store, workspace, &account).await?;
            let ids = find_people(store, ws, &account, &people).await?;
            let said = life::try_out(store, &campaign, account.account_id, ids, &key).await?;
            return Ok(json!({"campaign": campaign.name, "queued": said.len(), "deliveries": said}));
        }
        CampaignOrder::Drive => {
            let is_paused = campaign.status == domain::campaign::CampaignStatus::Paused;
            // Claims of a node that is gone would be waited for.
            if is_paused || !campaign.resting.is_empty() {
                life::rests(store, &campaign).await?;
            }
            if !is_paused {
                step(store, campaign).await?;
            }
        }
    }
    how_it_stands(store, &life::by_name(store, ws, name).await?).await
}

/// People of an account by their ids.
async fn find_people(
    store: &Store,
    ws: WorkspaceId,
    account: &store::Account,
    ids: &[String],
) -> anyhow::Result<Vec<RecipientId>> {
    let mut found = Vec::new();
    for id in ids {
        let one = store.find_recipient(ws, account.account_id, id).await?;
        let one =
            one.with_context(|| format!("{id} is not known on account {}; import them first", account.name))?;
        found.push(one.recipient_id);
    }
    Ok(found)
}

type Written<'a> = (&'a str, Vec<String>, Option<String>, Vec<Words>);

async fn draft(
    store: &Store,
    workspace: &str,
    ws: WorkspaceId,
    (name, accounts, audience, variants): Written<'_>,
    policy: Policy,
    key: String,
) -> anyhow::Result<Draft> {
    let mut ids = Vec::new();
    for account in &accounts {
        let (_, account) = find_account(store, workspace, account).await?;
        if !ids.contains(&account.account_id) {
            ids.push(account.account_id);
        }
    }
    let audience = match audience {
        None => None,
        Some(name) => {
            let known = store.audiences(ws).await?;
            let names: Vec<&str> = known.iter().map(|audience| audience.name.as_str()).collect();
            let problem = format!(
                "audience {name:?} is not known; known are {}",
                if names.is_empty() {
                    "none: import one with `rupor audience import`".to_owned()
                } else {
                    names.join(", ")
                }
            );
            let found = known.iter().find(|audience| audience.name == name);
            Some(found.context(problem)?.audience_id)
        }
    };
    let mut said = Vec::new();
    for words in variants {
        let (name, weight) = (words.name.clone(), words.weight);
        said.push((name, weight, message(store, ws, words).await?));
    }
    Ok(Draft { name: name.to_owned(), accounts: ids, audience, variants: said, policy, key })
}

async fn message(store: &Store, ws: WorkspaceId, words: Words) -> anyhow::Result<Message> {
    let (mut media, mut files) = (words.kept, Vec::new());
    for path in &words.photos {
        let opened = tokio::fs::read(path).await;
        let bytes = opened.with_context(|| {
            format!("cannot open {}; the node must be allowed to read it", path.display())
        })?;
        let name = path.file_name().map_or_else(|| "photo".into(), |name| name.to_string_lossy());
        files.push((name.into_owned(), bytes.into()));
    }
    media.extend(keep_bytes(store, ws, files).await?);
    Ok(Message { media, buttons: words.buttons, ..Message::text(words.text) })
}

/// How a campaign stands, in the shape that programs read.
pub(crate) async fn how_it_stands(store: &Store, campaign: &Campaign) -> anyhow::Result<Value> {
    let counts = store.campaign_counts(campaign.workspace_id, campaign.campaign_id).await?;
    // Nobody waits for a campaign that was ended: they never get it.
    let is_ended = matches!(
        campaign.status,
        domain::campaign::CampaignStatus::Cancelled | domain::campaign::CampaignStatus::Aborted
    );
    let forecast = forecast::of(store, campaign).await?;
    let now = store.now().await?;
    let eta = match campaign.status.is_over() {
        true => Some(0.0),
        false => forecast
            .and_then(|forecast| forecast.expected_at)
            .map(|at| ((at - now).millis() as f64 / 1e3).round()),
    };
    let accounts = store.accounts(campaign.workspace_id).await?;
    let name =
        |id: &_| accounts.iter().find(|one| one.account_id == *id).map_or("-", |one| one.name.as_str());
    let resting: serde_json::Map<String, Value> =
        campaign.resting.iter().map(|(id, why)| (name(id).to_owned(), json!(why))).collect();
    let mut in_flight: BTreeMap<&str, i64> = BTreeMap::new();
    if !campaign.resting.is_empty() {
        let lanes = store.lanes(campaign.workspace_id).await?;
        for lane in lanes.iter().filter(|lane| lane.campaign_id == Some(campaign.campaign_id)) {
            if campaign.resting.contains_key(&lane.account_id) {
                *in_flight.entry(name(&lane.account_id)).or_default() += lane.counts.sending;
            }
        }
    }
    let (waiting, never) = if is_ended { (0, counts.waiting) } else { (counts.waiting, 0) };
    let ended = store.campaign_endings(campaign.workspace_id, campaign.campaign_id).await?;
    // Between two tries, or never.
    let cancelled = never + ended.get(store::CANCELLED).copied().unwrap_or(0);
    Ok(json!({
        "name": campaign.name,
        "state": campaign.status,
        "why": campaign.why,
        "resting": resting,
        "resting_in_flight": in_flight,
        "total": counts.total,
        "waiting": waiting,
        "queued": counts.queued + counts.retry,
        "in_flight": counts.in_flight,
        "sent": counts.sent,
        "failed": counts.failed,
        // `total` is the sum of the others, so whoever was cancelled is among the dead, and told apart.
        "dead": counts.dead + never,
        "cancelled": cancelled,
        "excluded": counts.excluded,
        "eta_seconds": eta,
        "forecast": forecast,
        "excluded_by": store.campaign_exclusions(campaign.workspace_id, campaign.campaign_id).await?,
        "ended_by": store.campaign_failures(campaign.workspace_id, campaign.campaign_id).await?,
        "wave": campaign.wave,
        "revision": campaign.revision,
    }))
}

/// What a campaign would do, for programs and in words.
pub(crate) async fn foretold(
    store: &Store,
    campaign: &Campaign,
    at: Option<Timestamp>,
) -> anyhow::Result<(Value, String)> {
    let (preview, begins, forecast) = life::preview(store, campaign, at).await?;
    let done = forecast.map(|forecast| forecast.expected_at.unwrap_or(forecast.best_at));
    let seconds = done.map(|at| (at - begins).millis() as f64 / 1e3);
    let stars = life::most_stars(store, campaign, &preview).await?;
    let deaf = life::deaf_to_stop(store, campaign).await?;
    let value = json!({
        "audience": preview.total(),
        "excluded": preview.excluded,
        "samples": preview.said.iter().flat_map(|said| &said.samples).collect::<Vec<_>>(),
        "said": preview.said.iter().map(told_words).collect::<Vec<_>>(),
        "starts_at": begins.rfc3339(),
        "nobody_has": preview.nobody_has,
        "nobody_hears": deaf,
        "duration_s": seconds,
        "forecast": forecast,
        "stars": stars,
    });
    let mut text = format!("{} people get it", preview.total());
    if let Some(seconds) = seconds {
        text += &format!(", in about {}", how_long(Span((seconds * 1e6) as i64)));
    }
    if let Some(at) = at.or(campaign.starts_at).filter(|at| *at == begins) {
        text += &format!("\n  it begins {}", moment(at));
        if let Some(done) = done {
            text += &format!(" and is done about {}", moment(done));
        }
    }
    if let Some(stars) = stars {
        text += &format!("\n  it may cost up to {stars} Stars");
    }
    if let Some(late) = forecast.map(|forecast| forecast.late).filter(|late| *late > 0) {
        text += &format!("\n  {late} of them would miss the deadline");
    }
    for (reason, n) in &preview.excluded {
        text += &format!("\n  {n} do not: {}", reason.replace('_', " "));
    }
    if let Some(slips) = preview.slips() {
        text += &format!("\n  {slips}; is a name in the text written wrongly?");
    }
    if !deaf.is_empty() {
        text += &format!(
            "\n  nobody hears the button «Отписаться» on {}: give it a bot in rupor.toml ([bots.NAME], see docs/bot.md), \
             or write unsubscribe = false into the policy",
            deaf.join(", ")
        );
    }
    for said in &preview.said {
        if campaign.variants.len() > 1 {
            text += &format!("\n\n  variant {}:", said.variants.join(", "));
        }
        let beside = beside_words(&said.message);
        for sample in &said.samples {
            text += "\n";
            for line in sample.lines().chain((!beside.is_empty()).then_some(&*beside)) {
                text += &format!("\n  │ {line}");
            }
        }
    }
    Ok((value, text))
}

/// What stands beside a text: pictures, and buttons as people see them.
fn beside_words(message: &Message) -> String {
    let pictures = match message.media.len() {
        0 => None,
        1 => Some("[1 picture]".to_owned()),
        n => Some(format!("[{n} pictures]")),
    };
    let buttons = message.buttons.iter().flatten().map(|button| match &button.press {
        Press::Url(address) => format!("[{} → {address}]", button.text),
        Press::Callback(_) => format!("[{}]", button.text),
    });
    pictures.into_iter().chain(buttons).collect::<Vec<_>>().join(" ")
}

fn told_words(said: &Said) -> Value {
    json!({"variants": said.variants, "samples": said.samples, "pictures": said.message.media.len(),
           "buttons": said.message.buttons.iter().flatten().map(|button| &button.text).collect::<Vec<_>>()})
}

/// A line of the report.
pub(crate) fn told_member(campaign: &Campaign, member: &Member, account: Option<&str>) -> Value {
    let mut told = json!({
        "address": member.person.user_id,
        "account": account,
        "state": member.state,
        "code": member.code,
        "provider_message_id": member.provider_message_id,
        "at": member.at.map(Timestamp::rfc3339),
    });
    if let (2.., Ok(n)) = (campaign.variants.len(), usize::try_from(member.variant)) {
        told["variant"] = json!(campaign.variants.get(n).map(|variant| &variant.name));
    }
    told
}
