//! The second act: a campaign to the subscribers of two bots, one of which is told on the way to slow down.
//! What everybody should get is written by hand here; the verdict reads the ledger of the sandbox.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::ids::WorkspaceId;
use domain::time::Timestamp;
use engine::campaigns::life;
use engine::campaigns::policy::Policy;
use sandbox::{Name, Sandbox};
use serde_json::json;
use store::{Account, Campaign, NewRecipient, Person, RecipientStatus, SuppressionReason};

use super::{LOOK_EVERY, World, refused};
use crate::operate::audiences::{AudienceOrder, perform_on_audience};
use crate::operate::campaigns::{CampaignOrder, Words, perform_on_campaign};
use crate::operate::status::table;
use crate::operate::verb::find_workspace;

const WORKSPACE: &str = "shelter";
const BOTS: [&str; 2] = ["news", "volunteers"];
/// Of the bots, in their order; the second one is the one that floods.
pub(super) const TOKENS: [&str; 2] =
    ["97510:invented-token-of-the-news-aaaaaaaaa", "97520:invented-token-of-the-volunteers-aa"];
const CAMPAIGN: &str = "open day";
const TEXT: &str = "Здравствуйте, {{ r.name | default(\"друг\") }}! В субботу в приюте день открытых дверей. Ждём с 11 до 16.";

const PEOPLE: usize = 360;
const FIRST_ID: usize = 7_520_001;
/// Subscribers of the first bot are those before the second number, of the second bot those from the first one on.
const BOTH: std::ops::Range<usize> = 170..190;
/// They asked for silence before.
const SILENT: [usize; 3] = [7, 120, 301];
/// They blocked the bot, and nobody knows it yet.
const BLOCKED: [usize; 5] = [15, 99, 200, 256, 333];
const NAMES: [&str; 8] = ["Анна", "Пётр", "Мария", "Игорь", "Ольга", "Тимур", "Вера", ""];
/// The flood begins when so many have got it.
const FLOOD_AT: i64 = 90;
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What came of a campaign.
#[derive(Debug)]
pub(crate) struct Sums {
    pub summary: String,
    /// Everybody has the one end they should have; else what is wrong.
    pub wrong: Vec<String>,
}

pub(super) fn id(n: usize) -> String {
    (FIRST_ID + n).to_string()
}

/// The subscribers as the sandbox knows them.
pub(super) fn settle_in(sandbox: &Sandbox) -> anyhow::Result<()> {
    for n in 0..PEOPLE {
        let name = if name(n).is_empty() { "Подписчик" } else { name(n) };
        let face = json!({
            "platform": "telegram", "id": FIRST_ID + n, "type": "private", "title": name, "first_name": name,
            "blocked": BLOCKED.contains(&n),
        });
        sandbox.add_chat(&face).map_err(refused)?;
    }
    Ok(())
}

fn name(n: usize) -> &'static str {
    NAMES[n % NAMES.len()]
}

/// Takes people in, starts the campaign, lets one bot flood on the way, and waits for the end.
pub(crate) async fn run(
    world: &World,
    mut tell: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let store = &world.node.store;
    let ws = find_workspace(store, WORKSPACE).await?;
    let accounts = store.accounts(ws).await?;
    for (bot, of) in BOTS.iter().zip([0..BOTH.end, BOTH.start..PEOPLE]) {
        let order = AudienceOrder::Import {
            name: format!("subscribers of {bot}"),
            account: (*bot).to_owned(),
            people: of.map(person).collect(),
            import: None,
        };
        perform_on_audience(store, WORKSPACE, order).await?;
    }
    let silent = AudienceOrder::Suppress {
        account: BOTS[0].to_owned(),
        addresses: SILENT.map(id).to_vec(),
        everywhere: true,
        reason: SuppressionReason::Manual,
    };
    perform_on_audience(store, WORKSPACE, silent).await?;
    let words = Words {
        name: "a".into(),
        weight: 1,
        text: TEXT.into(),
        photos: Vec::new(),
        kept: Vec::new(),
        buttons: Vec::new(),
    };
    let new = CampaignOrder::New {
        accounts: BOTS.map(str::to_owned).to_vec(),
        audience: None,
        variants: vec![words],
        policy: Box::new(Policy::default()),
        key: CAMPAIGN.into(),
    };
    perform_on_campaign(store, WORKSPACE, CAMPAIGN, new).await?;
    perform_on_campaign(store, WORKSPACE, CAMPAIGN, CampaignOrder::Start { at: None }).await?;
    let both = BOTH.len();
    tell(&format!("a campaign to {PEOPLE} subscribers of two bots; {both} of them are subscribers of both"))?;
    follow(world, ws, &accounts, &mut tell).await
}

fn person(n: usize) -> NewRecipient {
    let attributes = if name(n).is_empty() { json!({}) } else { json!({"name": name(n)}) };
    NewRecipient {
        user_id: id(n),
        address: id(n),
        attributes,
        time_zone: None,
        status: RecipientStatus::Active,
        source: "demo".into(),
    }
}

/// Says how far it is until it is over.
async fn follow(
    world: &World,
    ws: WorkspaceId,
    accounts: &[Account],
    tell: &mut impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let store = &world.node.store;
    let (begun, mut told, mut floods) = (Instant::now(), Instant::now(), false);
    loop {
        let campaign = life::by_name(store, ws, CAMPAIGN).await?;
        let counts = store.campaign_counts(ws, campaign.campaign_id).await?;
        if !floods && counts.sent >= FLOOD_AT {
            floods = true;
            let fault = json!({
                "platform": "telegram", "account": TOKENS[1], "method": "sendMessage", "kind": "429",
                "times": 3, "retry_after": 1,
            });
            world.sandbox.arm(&fault).map_err(refused)?;
            tell(&format!("  now the platform answers 429 to {}: slow down", BOTS[1]))?;
        }
        let is_over = campaign.status.is_over();
        if is_over || told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell(&progress(world, ws, &campaign, accounts, begun).await?)?;
        }
        if is_over {
            return Ok(());
        }
        if begun.elapsed() > super::PATIENCE {
            anyhow::bail!("the campaign did not end: {counts:?}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn progress(
    world: &World,
    ws: WorkspaceId,
    campaign: &Campaign,
    known: &[Account],
    begun: Instant,
) -> anyhow::Result<String> {
    let store = &world.node.store;
    let (now, accounts) = (store.now().await?, store.accounts(ws).await?);
    let cohorts = store.campaign_cohorts(ws, campaign.campaign_id).await?;
    let mut line = format!("  {:>4.1} s", begun.elapsed().as_secs_f64());
    for account in known {
        let own = || cohorts.iter().filter(|cohort| cohort.account_id == account.account_id);
        let total: i64 = own().map(|cohort| cohort.total).sum();
        let sent = own().map(|cohort| cohort.lane_sent).max().unwrap_or(0);
        line += &format!("   {} {sent:>3} of {total}", account.name);
        let fresh = accounts.iter().find(|one| one.account_id == account.account_id);
        if let Some(rest) = fresh.map(|one| one.cooldown_until - now).filter(|rest| rest.millis() > 0) {
            line += &format!(" (rests {:.1} s)", rest.millis() as f64 / 1e3);
        }
    }
    Ok(line)
}

/// Compares what the ledger of the sandbox and the report say of everybody with what should be so.
pub(crate) async fn judge(world: &World) -> anyhow::Result<Sums> {
    let store = &world.node.store;
    let ws = find_workspace(store, WORKSPACE).await?;
    let campaign = life::by_name(store, ws, CAMPAIGN).await?;
    let mut ends: BTreeMap<String, String> = BTreeMap::new();
    let mut by_bot: BTreeMap<(i64, String), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut after = Person::default();
    loop {
        let page = store.campaign_members(ws, campaign.campaign_id, after.clone(), PEOPLE).await?;
        let Some(last) = page.last() else { break };
        after = last.person.clone();
        for member in page {
            *by_bot.entry((member.account_id.0, member.state.clone())).or_default() += 1;
            if ends.insert(member.person.user_id.clone(), member.state).is_some() {
                wrong.push(format!("{} has two ends", member.person.user_id));
            }
        }
    }
    let copies = copies(world);
    for n in 0..PEOPLE {
        let (expected, seen) = match n {
            n if SILENT.contains(&n) => ("excluded", 0),
            n if BLOCKED.contains(&n) => ("gone", 0),
            _ => ("sent", 1),
        };
        let end = ends.remove(&id(n)).unwrap_or_else(|| "missing".into());
        let got = copies.get(&id(n)).copied().unwrap_or(0);
        if (end.as_str(), got) != (expected, seen) {
            wrong.push(format!("{}: {end} with {got} messages instead of {expected} with {seen}", id(n)));
        }
    }
    wrong.extend(ends.keys().map(|who| format!("{who} is nobody's subscriber")));
    let mut rows = Vec::new();
    for account in store.accounts(ws).await? {
        let n = |state: &str| by_bot.get(&(account.account_id.0, state.to_owned())).copied().unwrap_or(0);
        let rests = store.cooldowns_since(ws, account.account_id, Timestamp(0)).await?;
        let (sent, gone, silent) = (n("sent"), n("gone"), n("excluded"));
        let all = sent + gone + silent;
        let row = [all, sent, gone, silent].map(|n| n.to_string());
        rows.push([vec![account.name], row.to_vec(), vec![format!("{rests}")]].concat());
    }
    let headings = ["bot", "people", "got it once", "had blocked it", "wanted silence", "times it rested"];
    Ok(Sums { summary: table(&headings, rows), wrong })
}

/// Messages of the campaign that each of its people sees.
fn copies(world: &World) -> BTreeMap<String, usize> {
    let mut copies = BTreeMap::new();
    for row in world.sandbox.core().ledger.rows(Name::Telegram) {
        let is_ours = row.text.as_deref().is_some_and(|text| text.contains("день открытых дверей"));
        if row.accepted && row.method == "sendMessage" && is_ours {
            let chat = row.chat.as_str().map_or_else(|| row.chat.to_string(), str::to_owned);
            *copies.entry(chat).or_default() += 1;
        }
    }
    copies
}

pub(crate) fn sum_in_words() -> String {
    let (silent, blocked) = (SILENT.len(), BLOCKED.len());
    format!(
        "right: {PEOPLE} people, each with one end: {} got it once, {blocked} had blocked the bot, {silent} wanted silence",
        PEOPLE - silent - blocked
    )
}
