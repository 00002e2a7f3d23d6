//! Who got a campaign and who did not, a line each, as text, JSON or CSV.

use clap::Args;
use store::{Account, Campaign, Member, Person};

use super::Named;
use crate::cli::operator::say;
use crate::operate::campaigns::told_member;
use crate::operate::words::moment;
use crate::people::csv;

/// Lines that are read at once.
const PAGE: usize = 2_000;

#[derive(Debug, Args)]
pub(super) struct Report {
    #[command(flatten)]
    named: Named,
    /// Print CSV with a first line of names, for a spreadsheet
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

pub(super) async fn report(args: &Report) -> anyhow::Result<()> {
    let (look, campaign) = args.named.look().await?;
    let (ws, id) = (campaign.workspace_id, campaign.campaign_id);
    let accounts = look.store.accounts(ws).await?;
    if args.csv {
        let mut names = vec!["address", "account", "state", "code", "provider_message_id", "at"];
        names.extend((campaign.variants.len() > 1).then_some("variant"));
        say(&csv::written(&names))?;
    }
    let mut after = Person::default();
    loop {
        let page = look.store.campaign_members(ws, id, after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.person.clone();
        let lines: Vec<String> = page
            .iter()
            .map(|member| {
                let account = accounts.iter().find(|account| account.account_id == member.account_id);
                match args.csv {
                    true => record(&campaign, member, account),
                    false => told(args.named.operator.json, &campaign, member, account),
                }
            })
            .collect();
        say(&lines.join("\n"))?;
    }
}

fn told(is_json: bool, campaign: &Campaign, member: &Member, account: Option<&Account>) -> String {
    let account = account.map(|account| account.name.as_str());
    match is_json {
        true => told_member(campaign, member, account).to_string(),
        false => format!(
            "{}\t{}\t{}\t{}\t{}",
            member.person.user_id,
            account.unwrap_or("-"),
            member.state,
            member.code.as_deref().unwrap_or("-"),
            member.at.map_or("-".to_owned(), moment)
        ),
    }
}

/// The same fields in the same words as in JSON.
fn record(campaign: &Campaign, member: &Member, account: Option<&Account>) -> String {
    let told = told_member(campaign, member, account.map(|account| account.name.as_str()));
    let text = |name: &str| told[name].as_str().unwrap_or_default();
    let mut fields: Vec<&str> =
        ["address", "account", "state", "code", "provider_message_id", "at"].map(text).to_vec();
    fields.extend((campaign.variants.len() > 1).then(|| text("variant")));
    csv::written(&fields)
}
