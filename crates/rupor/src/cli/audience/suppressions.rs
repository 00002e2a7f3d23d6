//! Who must not be written to: said by hand or by a list, taken back, and listed.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use store::{SuppressionPlace, SuppressionReason};

use super::{Rejects, open};
use crate::cli::operator::{Hand, OperatorArgs, say};
use crate::operate::Verb;
use crate::operate::audiences::{AudienceOrder, told_suppression};
use crate::operate::verb::{find_account, find_workspace};
use crate::operate::words::moment;
use crate::people::{Columns, csv, read};

/// People of one order: what is on its way to each of them ends in its transaction.
const STEP: usize = 500;
/// Lines of a listing that are read at once.
const PAGE: usize = 2_000;

#[derive(Debug, Args)]
pub(super) struct Suppress {
    /// The user id
    #[arg(value_name = "ADDRESS", allow_hyphen_values = true, required_unless_present = "file")]
    person: Option<String>,
    /// A list with a column `address`, as for an import; may be run again after a break
    #[arg(long, value_name = "FILE", conflicts_with = "person")]
    file: Option<PathBuf>,
    /// Which column of the list is the user id, where it has another name
    #[arg(long, value_name = "address=COLUMN", value_parser = Columns::parse, default_value = "", requires = "file")]
    map: Columns,
    /// The bot
    #[arg(long, value_name = "NAME")]
    account: String,
    /// On every bot of the platform, not on this one alone
    #[arg(long)]
    everywhere: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
pub(super) struct Unsuppress {
    /// The user id
    #[arg(value_name = "ADDRESS", allow_hyphen_values = true)]
    person: String,
    /// The bot
    #[arg(long, value_name = "NAME")]
    account: String,
    /// On every bot of the platform, not on this one alone
    #[arg(long)]
    everywhere: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
pub(super) struct Suppressed {
    /// Only who must not be written to on this bot
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Print CSV with a first line of names; `audience suppress --file` reads it
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) async fn add(args: &Suppress) -> anyhow::Result<()> {
    if let Some(person) = &args.person {
        let address = read::id(person).map_err(|why| anyhow::anyhow!(why))?;
        let workspace = args.operator.workspace(&args.operator.look().await?.store).await?;
        let order = order(args, vec![address.clone()], SuppressionReason::Manual);
        args.operator.perform(Verb::Audience { workspace, order }).await?;
        let done = json!({"address": address, "suppressed": true});
        return args
            .operator
            .print(&done, || format!("{address} gets nothing unasked any more, on any later import too"));
    }
    let Some(path) = &args.file else { bail!("give a user id, or a list with --file") };
    let look = args.operator.look().await?;
    let workspace = args.operator.workspace(&look.store).await?;
    let (_, account) = find_account(&look.store, &workspace, &args.account).await?;
    drop(look);
    let mut list = open(path, &account, args.map.clone(), String::new())?;
    let hand = args.operator.hand().await?;
    let mut rejects = Rejects::beside(path, 0);
    let (mut rows, mut rejected, mut suppressed, mut before) = (0_u64, 0_u64, 0, 0);
    let mut is_over = false;
    while !is_over {
        let mut addresses = Vec::new();
        while addresses.len() < STEP && !is_over {
            match list.next_id()? {
                None => is_over = true,
                Some(row) => {
                    rows += 1;
                    match row.id {
                        Ok(address) => addresses.push(address),
                        Err(why) => {
                            rejected += 1;
                            rejects.keep(rows, &why, &row.raw)?;
                        }
                    }
                }
            }
        }
        let (all, new) = perform(&hand, &workspace, args, addresses).await?;
        (suppressed, before) = (suppressed + new, before + all - new);
    }
    let rejects_file = (rejected > 0).then(|| rejects.path.display().to_string());
    if suppressed + before == 0 {
        bail!("{}: none of its {rows} lines can be used{}", path.display(), rejects.told());
    }
    let done = json!({"rows": rows, "suppressed": suppressed, "before": before, "rejected": rejected,
                      "rejects_file": rejects_file, "reasons": rejects.reasons});
    args.operator.print(&done, || {
        let mut text = format!(
            "{suppressed} people get nothing unasked any more, {before} did not before, {rejected} rejected"
        );
        if let Some(file) = &rejects_file {
            text += &format!("{}\nwhat was rejected, and why: {file}", rejects.told());
        }
        text
    })
}

fn order(args: &Suppress, addresses: Vec<String>, reason: SuppressionReason) -> AudienceOrder {
    let (account, everywhere) = (args.account.clone(), args.everywhere);
    AudienceOrder::Suppress { account, addresses, everywhere, reason }
}

/// How many there were, and how many of them are suppressed only now.
async fn perform(
    hand: &Hand,
    workspace: &str,
    args: &Suppress,
    addresses: Vec<String>,
) -> anyhow::Result<(u64, u64)> {
    if addresses.is_empty() {
        return Ok((0, 0));
    }
    let all = addresses.len() as u64;
    let order = order(args, addresses, SuppressionReason::Imported);
    let done = hand.perform(Verb::Audience { workspace: workspace.to_owned(), order }).await?;
    Ok((all, done["suppressed"].as_u64().unwrap_or(0)))
}

pub(super) async fn lift(args: &Unsuppress) -> anyhow::Result<()> {
    let address = read::id(&args.person).map_err(|why| anyhow::anyhow!(why))?;
    let workspace = args.operator.workspace(&args.operator.look().await?.store).await?;
    let (account, everywhere) = (args.account.clone(), args.everywhere);
    let order = AudienceOrder::Unsuppress { account, address: address.clone(), everywhere };
    let done = args.operator.perform(Verb::Audience { workspace, order }).await?;
    args.operator.print(&done, || match (done["suppressed"] == true, done["status"].as_str()) {
        (true, _) => format!(
            "{address} is still suppressed on every bot of the platform; lift that with --everywhere"
        ),
        (false, Some("stopped")) => {
            format!("{address} is suppressed no more, but stopped the bot: campaigns leave them out until they start it again")
        }
        (false, Some("gone")) => {
            format!("{address} is suppressed no more, but blocked the bot or left: campaigns leave them out")
        }
        _ => format!("{address} may be written to again"),
    })
}

pub(super) async fn list(args: &Suppressed) -> anyhow::Result<()> {
    let store = args.operator.look().await?.store;
    let workspace = args.operator.workspace(&store).await?;
    let ws = find_workspace(&store, &workspace).await?;
    let only = match &args.account {
        None => None,
        Some(name) => Some(find_account(&store, &workspace, name).await?.1),
    };
    let accounts = store.accounts(ws).await?;
    let counts_there = |one: &store::Suppression| {
        only.as_ref().is_none_or(|only| {
            one.platform == only.platform && one.account_id.is_none_or(|id| id == only.account_id)
        })
    };
    if args.csv {
        say(&csv::written(&["address", "platform", "account", "reason", "origin", "at"]))?;
    }
    let mut after = SuppressionPlace::default();
    loop {
        let page = store.suppressions(ws, after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.place();
        for one in page.iter().filter(|one| counts_there(one)) {
            let told = told_suppression(one, &accounts);
            if args.operator.json {
                say(&told.to_string())?;
                continue;
            }
            let text = |name: &str| told[name].as_str().unwrap_or_default();
            let at = moment(one.at);
            let account = text("account");
            let fields = [text("address"), text("platform"), account, text("reason"), text("origin"), &at];
            match args.csv {
                true => say(&csv::written(&fields))?,
                false => {
                    let account = if account.is_empty() { "everywhere" } else { account };
                    say(&[fields[0], fields[1], account, fields[3], fields[4], fields[5]].join("\t"))?;
                }
            }
        }
    }
}
