//! `rupor case`: the stories that posts belong to.

use clap::{Args, Subcommand};
use domain::ids::CaseId;
use domain::shown::line;

use super::operator::{OperatorArgs, block_on};
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::moment;

/// Look at cases: the stories that posts belong to
#[derive(Debug, Args)]
pub(super) struct CaseArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List open cases
    List(List),
    /// Show one case; `rupor why MESSAGE` tells why a post belongs to it
    Show {
        id: i64,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

#[derive(Debug, Args)]
struct List {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    last: u32,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &CaseArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(list) => show_list(list).await,
            Command::Show { id, operator } => show(*id, operator).await,
        }
    })
}

async fn show_list(list: &List) -> anyhow::Result<()> {
    let store = list.operator.look().await?.store;
    let ws = find_workspace(&store, &list.operator.workspace(&store).await?).await?;
    let cases = store.open_cases(ws, list.last as usize).await?;
    let cases: Vec<store::Case> = cases.into_iter().map(|(case, _)| case).collect();
    list.operator.print(&cases, || {
        let rows = cases.iter().map(|case| {
            let posts = case.n_messages.to_string();
            vec![
                case.case_id.to_string(),
                case.kind.clone(),
                case.title.clone(),
                posts,
                moment(case.opened_at),
                moment(case.last_seen_at),
            ]
        });
        table(&["case", "kind", "title", "posts", "opened", "last seen"], rows.collect())
    })
}

async fn show(id: i64, operator: &OperatorArgs) -> anyhow::Result<()> {
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let case = store.case(ws, CaseId(id)).await?;
    operator.print(&case, || {
        let end = case.closed_at.map_or_else(|| "open".to_owned(), |at| format!("closed {}", moment(at)));
        let sources =
            case.facts["sources"].as_array().into_iter().flatten().filter_map(|source| source.as_str());
        let sources: Vec<&str> = sources.collect();
        format!(
            "case {} ({}): {}, {} posts, opened {}, {end}\n  told in {}\n",
            case.case_id,
            line(&case.title),
            case.kind,
            case.n_messages,
            moment(case.opened_at),
            line(&sources.join(", "))
        )
    })
}
