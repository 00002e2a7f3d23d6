//! `rupor campaign`: say one thing to many people, see how far it is, stop it, go on, try again.

mod report;
mod test;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use domain::campaign::CampaignStatus;
use domain::message::{Button, Press};
use domain::shown::line;
use domain::time::{Span, Timestamp};
use engine::campaigns::life;
use engine::campaigns::policy::Policy;
use serde_json::Value;
use store::{Campaign, Retries};

use super::operator::{Hand, Look, OperatorArgs, block_on, say};
use crate::operate::Verb;
use crate::operate::campaigns::{CampaignOrder, Words, foretold, how_it_stands};
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::{how_long, quoted};

/// How often a command looks whether what it waits for is so, and how long it waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Say one thing to many people: dry run, start, pause, progress, report
#[derive(Debug, Args)]
pub(super) struct CampaignArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a draft: who says what to whom; nothing is sent
    New(New),
    /// List campaigns
    List(OperatorArgs),
    /// Show who would get it and who not, how it reads, how long it takes; nothing is sent
    Preview(Named),
    /// Send it
    Start(Start),
    /// Send nothing more; returns when nothing of it is on its way
    Pause(Part),
    /// Go on
    Resume(Part),
    /// End it; who has not got it does not get it
    Cancel(Cancel),
    /// Change the words for those who have not got it; only while it is paused
    Edit(Edit),
    /// Show how far it is
    Status(Status),
    /// List who got it and who did not, and why: one line each
    Report(report::Report),
    /// Try again with those who failed
    Retry(Retry),
    /// Choose one of several variants for everybody who has not got it; only while it is paused
    Choose(Choose),
    /// Send it to people of your own first; they are counted nowhere
    Test(test::Test),
}

#[derive(Debug, Args)]
struct Named {
    /// Name or id of the campaign
    name: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Part {
    #[command(flatten)]
    named: Named,
    /// Only the part of this bot; the others are not touched
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
}

#[derive(Debug, Args)]
struct Said {
    /// The text; {{ r.name | default("друг") }} is filled in for each person
    #[arg(long, value_name = "TEXT", required_unless_present = "file")]
    text: Option<String>,
    /// A file with the text
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// A picture; may be given several times
    #[arg(long, value_name = "FILE")]
    photo: Vec<PathBuf>,
    /// A button under the text, as WORDS=https://…; may be given several times
    #[arg(long, value_name = "WORDS=URL", value_parser = button)]
    button: Vec<Button>,
}

#[derive(Debug, Args)]
struct New {
    #[command(flatten)]
    named: Named,
    /// The bots that send it, the preferred first; a person on several gets it from one
    #[arg(long = "account", value_name = "NAME,…", value_delimiter = ',', required = true)]
    accounts: Vec<String>,
    #[command(flatten)]
    said: Said,
    /// Another text to choose from, as NAME=TEXT; may be given several times; the first text is variant a
    #[arg(long, value_name = "NAME=TEXT", value_parser = variant)]
    variant: Vec<(String, String)>,
    /// To whom [default: everybody on these accounts]
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
    /// Messages a second in all
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// What it keeps to, as TOML; docs/campaigns.md has every key
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Start {
    #[command(flatten)]
    named: Named,
    /// When, such as 2026-12-01T10:00+03:00 [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<Timestamp>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
struct Cancel {
    #[command(flatten)]
    named: Named,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
struct Edit {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    said: Said,
}

#[derive(Debug, Args)]
struct Status {
    #[command(flatten)]
    named: Named,
    /// Look again every second until it is over
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Args)]
struct Retry {
    #[command(flatten)]
    named: Named,
    /// Only those who failed with this code
    #[arg(long)]
    code: Option<String>,
    /// Also those of whom nobody knows whether they got it: they may get it twice
    #[arg(long)]
    unknown: bool,
}

#[derive(Debug, Args)]
struct Choose {
    #[command(flatten)]
    named: Named,
    /// Name of the variant
    variant: String,
}

fn variant(written: &str) -> Result<(String, String), String> {
    match written.split_once('=') {
        Some((name, text)) if !name.trim().is_empty() && !text.trim().is_empty() => {
            Ok((name.trim().to_owned(), text.to_owned()))
        }
        _ => Err("write NAME=TEXT".to_owned()),
    }
}

fn button(written: &str) -> Result<Button, String> {
    let (text, url) = written.split_once('=').ok_or("write WORDS=https://…")?;
    if text.trim().is_empty() || !domain::message::is_web_address(url) {
        return Err("write WORDS=https://…".to_owned());
    }
    Ok(Button { text: text.trim().to_owned(), press: Press::Url(url.to_owned()) })
}

fn time(written: &str) -> Result<Timestamp, String> {
    let read: jiff::Timestamp = written
        .parse()
        .map_err(|_| "write a time with its zone, such as 2026-12-01T10:00+03:00".to_owned())?;
    Ok(Timestamp(read.as_microsecond()))
}

pub(super) fn run(args: &CampaignArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::New(new) => create(new).await,
            Command::List(operator) => list(operator).await,
            Command::Preview(named) => preview(named).await,
            Command::Start(start) => begin(start).await,
            Command::Pause(part) => pause(part).await,
            Command::Resume(part) => go_on(part).await,
            Command::Cancel(args) => cancel(args).await,
            Command::Edit(edit) => change(edit).await,
            Command::Status(status) => show(status).await,
            Command::Report(asked) => report::report(asked).await,
            Command::Retry(retry) => again(retry).await,
            Command::Choose(choose) => pick(choose).await,
            Command::Test(args) => test::test(args).await,
        }
    })
}

impl Said {
    fn words(&self) -> anyhow::Result<Words> {
        let text = match (&self.text, &self.file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => {
                let read = std::fs::read_to_string(path);
                let read = read.with_context(|| format!("cannot read {} as UTF-8 text", path.display()))?;
                read.trim_end().trim_start_matches('\u{feff}').to_owned()
            }
            (None, None) => bail!("give the words with --text or --file"),
        };
        let absolute =
            |path: &PathBuf| path.canonicalize().with_context(|| format!("cannot open {}", path.display()));
        Ok(Words {
            name: "a".to_owned(),
            weight: 1,
            text,
            photos: self.photo.iter().map(absolute).collect::<anyhow::Result<_>>()?,
            kept: Vec::new(),
            buttons: self.button.iter().map(|button| vec![button.clone()]).collect(),
        })
    }
}

impl Named {
    async fn look(&self) -> anyhow::Result<(Look, Campaign)> {
        let look = self.operator.look().await?;
        let ws = find_workspace(&look.store, &self.operator.workspace(&look.store).await?).await?;
        let campaign = life::by_name(&look.store, ws, &self.name).await?;
        Ok((look, campaign))
    }

    fn print(&self, status: &Value) -> anyhow::Result<()> {
        self.operator.print(status, || spoken(status))
    }
}

/// The way to change a campaign, for commands that then wait until it is so.
struct Way {
    hand: Hand,
    workspace: String,
    campaign: String,
}

impl Way {
    async fn to(named: &Named) -> anyhow::Result<Way> {
        let workspace = named.operator.workspace(&named.operator.look().await?.store).await?;
        Ok(Way { hand: named.operator.hand().await?, workspace, campaign: named.name.clone() })
    }

    async fn order(&self, order: CampaignOrder) -> anyhow::Result<Value> {
        let (workspace, campaign) = (self.workspace.clone(), self.campaign.clone());
        self.hand.perform(Verb::Campaign { workspace, campaign, order }).await
    }

    /// Waits until the campaign is as somebody wants it. Where a node runs it does the work; each look brings it on too.
    async fn until(&self, is_so: impl Fn(&str) -> bool) -> anyhow::Result<Value> {
        self.until_status(|status| is_so(status["state"].as_str().unwrap_or_default())).await
    }

    async fn until_status(&self, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let begun = Instant::now();
        loop {
            let status = self.order(CampaignOrder::Drive).await?;
            if is_so(&status) {
                return Ok(status);
            }
            if begun.elapsed() > WAIT_MAX {
                bail!(
                    "campaign {} is {} with {} requests still out after {} s; look with `rupor campaign status {}`",
                    line(&self.campaign),
                    status["state"].as_str().unwrap_or("-"),
                    status["in_flight"],
                    WAIT_MAX.as_secs(),
                    quoted(&self.campaign)
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn create(new: &New) -> anyhow::Result<()> {
    let mut policy = match &new.policy {
        None => Policy::default(),
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            toml::from_str(&text).with_context(|| {
                format!("{}: this is not a campaign policy; docs/campaigns.md has every key", path.display())
            })?
        }
    };
    policy.rate = new.rate.or(policy.rate);
    policy.check()?;
    let mut variants = vec![new.said.words()?];
    for (name, text) in &new.variant {
        if variants.iter().any(|known| known.name == *name) {
            bail!("--variant {name}: there are two of this name; the first text is variant a");
        }
        variants.push(Words { name: name.clone(), text: text.clone(), ..variants[0].clone() });
    }
    let draft = CampaignOrder::New {
        accounts: new.accounts.clone(),
        audience: new.audience.clone(),
        variants,
        policy: Box::new(policy),
        key: uuid::Uuid::new_v4().simple().to_string(),
    };
    let done = Way::to(&new.named).await?.order(draft).await?;
    new.named.operator.print(&done, || {
        let name = quoted(&new.named.name);
        format!(
            "campaign {} is a draft; nothing is sent yet\n$ rupor campaign preview {name}\n$ rupor campaign start {name}",
            line(&new.named.name)
        )
    })
}

async fn list(operator: &OperatorArgs) -> anyhow::Result<()> {
    let look = operator.look().await?;
    let ws = find_workspace(&look.store, &operator.workspace(&look.store).await?).await?;
    let mut all = Vec::new();
    for campaign in look.store.campaigns(ws).await? {
        all.push(how_it_stands(&look.store, &campaign).await?);
    }
    let rows = all
        .iter()
        .map(|one| {
            let number = |key: &str| one[key].to_string();
            let dead = one["dead"].as_i64().unwrap_or(0) - one["cancelled"].as_i64().unwrap_or(0);
            let state = one["state"].as_str().unwrap_or("-").to_owned();
            let name = one["name"].as_str().unwrap_or("-").to_owned();
            vec![
                name,
                state,
                number("total"),
                number("sent"),
                number("failed"),
                dead.to_string(),
                number("cancelled"),
                number("excluded"),
            ]
        })
        .collect();
    let heads = ["campaign", "state", "total", "sent", "failed", "dead", "cancelled", "left out"];
    operator.print(&all, || table(&heads, rows))
}

async fn preview(named: &Named) -> anyhow::Result<()> {
    let (look, campaign) = named.look().await?;
    let (value, text) = foretold(&look.store, &campaign, None).await?;
    named.operator.print(&value, || text)
}

async fn begin(start: &Start) -> anyhow::Result<()> {
    let named = &start.named;
    if !start.yes {
        let (look, campaign) = named.look().await?;
        let (_, text) = foretold(&look.store, &campaign, start.at).await?;
        say(&text)?;
        confirm("send it?", "give --yes to start without being asked")?;
    }
    let way = Way::to(named).await?;
    let scheduled = way.order(CampaignOrder::Start { at: start.at }).await?;
    let done = match start.at {
        Some(_) => scheduled,
        None => way.until(|state| state != "preparing").await?,
    };
    named.print(&done)
}

/// Asks on a terminal; elsewhere nobody could answer.
fn confirm(question: &str, otherwise: &str) -> anyhow::Result<()> {
    use std::io::{IsTerminal, Write};
    if !std::io::stdin().is_terminal() {
        bail!("nothing was done: there is no terminal to ask at; {otherwise}");
    }
    let mut out = std::io::stderr();
    write!(out, "{question} [y/N] ").and_then(|()| out.flush())?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" | "д" | "да" => Ok(()),
        _ => bail!("nothing is done"),
    }
}

async fn pause(part: &Part) -> anyhow::Result<()> {
    let (named, way) = (&part.named, Way::to(&part.named).await?);
    let why = named.operator.why("");
    if let Some(account) = part.account.clone() {
        let why = Some(if why.is_empty() { "by hand".to_owned() } else { why });
        way.order(CampaignOrder::Part { account: account.clone(), why }).await?;
        let rests = |status: &Value| status["resting_in_flight"][&account] == 0;
        return named.print(&way.until_status(rests).await?);
    }
    way.order(CampaignOrder::Pause { why }).await?;
    named.print(&way.until_status(|status| status["in_flight"] == 0).await?)
}

async fn go_on(part: &Part) -> anyhow::Result<()> {
    let (named, way) = (&part.named, Way::to(&part.named).await?);
    if let Some(account) = part.account.clone() {
        return named.print(&way.order(CampaignOrder::Part { account, why: None }).await?);
    }
    named.print(&way.order(CampaignOrder::Resume).await?)
}

async fn cancel(args: &Cancel) -> anyhow::Result<()> {
    let named = &args.named;
    if !args.yes {
        confirm("end it for good?", "give --yes to cancel without being asked")?;
    }
    let way = Way::to(named).await?;
    way.order(CampaignOrder::Cancel { why: named.operator.why("") }).await?;
    let is_over = |state: &str| CampaignStatus::parse(state).is_some_and(CampaignStatus::is_over);
    named.print(&way.until(is_over).await?)
}

async fn change(edit: &Edit) -> anyhow::Result<()> {
    let key = uuid::Uuid::new_v4().simple().to_string();
    let edited = CampaignOrder::Edit { words: edit.said.words()?, key };
    let done = Way::to(&edit.named).await?.order(edited).await?;
    edit.named.operator.print(&done, || {
        format!(
            "campaign {} says something else to those who have not got it\n$ rupor campaign resume {}",
            line(&edit.named.name),
            quoted(&edit.named.name)
        )
    })
}

async fn again(retry: &Retry) -> anyhow::Result<()> {
    let retries = Retries { code: retry.code.clone(), unknown: retry.unknown };
    let way = Way::to(&retry.named).await?;
    way.order(CampaignOrder::Retry(retries)).await?;
    retry.named.print(&way.until(|state| state != "preparing").await?)
}

async fn pick(choose: &Choose) -> anyhow::Result<()> {
    let chosen = CampaignOrder::Choose { variant: choose.variant.clone() };
    let done = Way::to(&choose.named).await?.order(chosen).await?;
    choose.named.operator.print(&done, || {
        let (name, again) = (line(&choose.named.name), quoted(&choose.named.name));
        format!("campaign {name} says {} from now on\n$ rupor campaign resume {again}", line(&choose.variant))
    })
}

async fn show(status: &Status) -> anyhow::Result<()> {
    loop {
        let (look, campaign) = status.named.look().await?;
        status.named.print(&how_it_stands(&look.store, &campaign).await?)?;
        if !status.watch || campaign.status.is_over() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn spoken(status: &Value) -> String {
    let number = |key: &str| status[key].as_i64().unwrap_or(0);
    let mut text = format!(
        "campaign {} is {}: {} of {} sent, {} wait, {} on their way, {} failed, {} dead, {} left out{}",
        line(status["name"].as_str().unwrap_or_default()),
        status["state"].as_str().unwrap_or_default(),
        number("sent"),
        number("total"),
        number("waiting") + number("queued"),
        number("in_flight"),
        number("failed"),
        number("dead") - number("cancelled"),
        number("excluded"),
        match number("cancelled") {
            0 => String::new(),
            n => format!(", {n} cancelled"),
        }
    );
    if let Some(seconds) = status["eta_seconds"].as_f64().filter(|seconds| *seconds > 0.0) {
        text += &format!(", about {} left", how_long(Span((seconds * 1e6) as i64)));
    }
    if let Some(why) = status["why"].as_str().filter(|why| !why.is_empty()) {
        text += &format!("\nwhy: {}", line(why));
    }
    for (what, field) in [("left out", "excluded_by"), ("not sent", "ended_by")] {
        let of = |(code, n): (&String, &Value)| format!("{n} {}", line(code));
        let why: Vec<String> = status[field].as_object().into_iter().flatten().map(of).collect();
        if !why.is_empty() {
            text += &format!("\n{what}: {}", why.join(", "));
        }
    }
    for (account, why) in status["resting"].as_object().into_iter().flatten() {
        text += &format!("\n{} rests: {}", line(account), line(why.as_str().unwrap_or_default()));
    }
    text
}

#[cfg(test)]
#[path = "campaign_tests.rs"]
mod tests;
