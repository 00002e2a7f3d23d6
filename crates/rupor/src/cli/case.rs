//! `rupor case`: the stories that posts belong to, and putting a wrong judgement right.

use clap::{Args, Subcommand};
use domain::ids::{CaseId, MessageId};
use domain::shown::line;
use serde_json::{Value, json};
use store::StoredMessage;

use super::operator::{Newest, OperatorArgs, block_on};
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::{counted, moment, words_of};

/// Posts of one case that are listed.
const POSTS_MAX: usize = 50;
/// Cases that a listing looks through.
const LOOKED_MAX: usize = 10_000;

/// Look at cases, the stories that posts belong to; join and split those that were judged wrongly
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rupor case list --search 'такса Тюмень'\n  rupor case show 12\n  rupor case merge 12 15\n  rupor case split 12 40 41 --reason \"другая собака\""
)]
pub(super) struct CaseArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List open cases, the newest first
    List(List),
    /// Show one case with its posts; `rupor why MESSAGE` tells why a post belongs to it
    Show {
        /// Id of the case
        id: i64,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Join cases that tell one story: the posts of the others move to the first
    ///
    /// What was sent stays. What waits and would repeat the story is ended, later posts follow, and an end that one of
    /// the cases knew is told to the posts of the others.
    Merge(Merge),
    /// Give posts that tell another story a case of their own
    ///
    /// What was sent stays. A post that kept silent as a repeat is sent now; a happy end that leaves opens the story
    /// again, and posts that were shown as ended are shown as searches again.
    Split(Split),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    newest: Newest,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Merge {
    /// The case that stays
    keep: i64,
    /// The cases that become part of it
    #[arg(required = true)]
    others: Vec<i64>,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Split {
    /// The case
    case: i64,
    /// Ids of the posts that tell another story (`rupor case show` lists them)
    #[arg(required = true, value_name = "MESSAGE")]
    messages: Vec<i64>,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &CaseArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(list) => show_list(list).await,
            Command::Show { id, operator } => show(*id, operator).await,
            Command::Merge(merge) => join(merge).await,
            Command::Split(split) => take_apart(split).await,
        }
    })
}

async fn show_list(list: &List) -> anyhow::Result<()> {
    let store = list.operator.look().await?.store;
    let ws = find_workspace(&store, &list.operator.workspace(&store).await?).await?;
    let (begin, words) = (list.newest.begin(&store).await?, list.newest.words());
    let narrowed = words.is_some() || list.newest.since.is_some();
    let looked = if narrowed { LOOKED_MAX } else { list.newest.last() };
    let mut cases: Vec<store::Case> =
        store.open_cases(ws, looked).await?.into_iter().map(|(case, _)| case).collect();
    cases.retain(|case| case.last_seen_at >= begin);
    if let Some(words) = &words {
        let mut found = Vec::new();
        for case in cases {
            let posts = store.posts_of_case(ws, case.case_id, POSTS_MAX).await?;
            if words.fit_line(&case.title) || posts.iter().any(|post| words.fit(post)) {
                found.push(case);
            }
            if found.len() == list.newest.last() {
                break;
            }
        }
        cases = found;
    }
    cases.truncate(list.newest.last());
    list.operator.print(&cases, || match cases.is_empty() {
        true => "no open case".to_owned(),
        false => {
            let rows = cases.iter().map(|case| {
                vec![
                    case.case_id.to_string(),
                    case.kind.clone(),
                    case.title.clone(),
                    case.n_messages.to_string(),
                    moment(case.opened_at),
                    moment(case.last_seen_at),
                ]
            });
            table(&["case", "kind", "title", "posts", "opened", "last seen"], rows.collect())
        }
    })
}

async fn show(id: i64, operator: &OperatorArgs) -> anyhow::Result<()> {
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let case = store.case(ws, CaseId(id)).await?;
    let posts = store.posts_of_case(ws, case.case_id, POSTS_MAX).await?;
    let mut value = json!(case);
    value["posts"] = posts.iter().map(post_value).collect();
    operator.print(&value, || {
        if let Some(into) = case.facts["joined_with"].as_i64() {
            return format!("case {id} was joined with case {into}\n$ rupor case show {into}");
        }
        let end = case.closed_at.map_or_else(|| "open".to_owned(), |at| format!("closed {}", moment(at)));
        let head = format!(
            "case {} ({}): {}, {}, opened {}, {end}\n",
            case.case_id,
            line(&case.title),
            case.kind,
            counted(usize::try_from(case.n_messages).unwrap_or_default(), "post", "posts"),
            moment(case.opened_at),
        );
        let rows = posts.iter().map(|post| {
            let value = post_value(post);
            ["message_id", "kind", "source", "text", "url"]
                .map(|key| value[key].as_str().map_or_else(|| value[key].to_string(), str::to_owned))
                .map(|cell| if cell == "null" { String::new() } else { cell })
                .to_vec()
        });
        head + &table(&["message", "kind", "source", "text", "link"], rows.collect())
    })
}

fn post_value(post: &StoredMessage) -> Value {
    json!({
        "message_id": post.message_id,
        "kind": post.kind,
        "source": post.source,
        "text": words_of(post.payload["text"].as_str().unwrap_or_default()),
        "url": post.origin["url"],
        "at": post.created_at,
    })
}

async fn join(merge: &Merge) -> anyhow::Result<()> {
    let operator = &merge.operator;
    let workspace = operator.workspace(&operator.look().await?.store).await?;
    let hand = operator.hand().await?;
    let keep = CaseId(merge.keep);
    let mut all = Vec::new();
    for other in &merge.others {
        let verb = Verb::JoinCases { workspace: workspace.clone(), keep, other: CaseId(*other) };
        all.push(hand.perform(verb).await?);
    }
    operator.print(&all, || {
        let told = all.iter().zip(&merge.others).map(|(done, other)| {
            let moved = counted(number(done, "messages"), "post", "posts");
            format!("case {other} is part of case {keep} now: {moved} moved{}\n", effects(done))
        });
        told.collect()
    })
}

async fn take_apart(split: &Split) -> anyhow::Result<()> {
    let operator = &split.operator;
    let workspace = operator.workspace(&operator.look().await?.store).await?;
    let messages = split.messages.iter().copied().map(MessageId).collect();
    let done = operator.perform(Verb::SplitCase { workspace, case: CaseId(split.case), messages }).await?;
    operator.print(&done, || {
        let moved = counted(number(&done, "messages"), "post has", "posts have");
        let new = &done["case_id"];
        format!("{moved} a case of their own now: case {new}{}\n$ rupor case show {new}", effects(&done))
    })
}

fn number(done: &Value, key: &str) -> usize {
    done[key].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_default()
}

/// What it did to the channels, as far as it did anything.
fn effects(done: &Value) -> String {
    let told = [
        (number(done, "cancelled"), "repeat that waited was cancelled", "repeats that waited were cancelled"),
        (
            number(done, "said"),
            "post that had kept silent is queued",
            "posts that had kept silent are queued",
        ),
        (number(done, "edited"), "published post is edited", "published posts are edited"),
    ];
    told.into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, many)| format!("; {}", counted(n, one, many)))
        .collect()
}
