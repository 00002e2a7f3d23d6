//! `rupor message`: posts that wait for a person, and what the person says of them.

use clap::{Args, Subcommand};
use domain::ids::MessageId;
use serde_json::{Value, json};
use store::{HeldPost, StoredMessage};

use super::operator::{OperatorArgs, block_on};
use crate::operate::Verb;
use crate::operate::facts::{Facts, gather};
use crate::operate::status::table;
use crate::operate::verb::Decision;
use crate::operate::words::{moment, words_of};

/// Look at posts that nobody is sure of, approve or reject them
#[derive(Debug, Args)]
pub(super) struct MessageArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List posts that wait for a person, the oldest first
    List(OperatorArgs),
    /// Publish posts where they wait, as if they came now
    Approve(Decided),
    /// Do not publish posts where they wait
    Reject(Decided),
}

#[derive(Debug, Args)]
struct Decided {
    /// Ids of messages
    #[arg(required = true)]
    ids: Vec<i64>,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &MessageArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(operator) => list(operator).await,
            Command::Approve(decided) => decide(decided, Decision::Approve).await,
            Command::Reject(decided) => decide(decided, Decision::Reject).await,
        }
    })
}

async fn list(operator: &OperatorArgs) -> anyhow::Result<()> {
    let look = operator.look().await?;
    let known = gather(&look.store, &operator.workspace(&look.store).await?, look.node).await?;
    let mut found = Vec::new();
    for post in &known.held_posts {
        found.push((post, look.store.message(known.workspace.workspace_id, post.message_id).await?));
    }
    let values: Vec<Value> = found.iter().map(|(post, message)| value(&known, post, message)).collect();
    operator.print(&values, || match found.is_empty() {
        true => "no post waits for a person".to_owned(),
        false => {
            let rows = found.iter().map(|(post, message)| cells(&known, post, message)).collect();
            table(&["message", "channel", "kind", "waits since", "until", "words"], rows)
                + "why it waits: `rupor why ID`; then `rupor message approve ID` or `rupor message reject ID`"
        }
    })
}

fn channel_name<'a>(known: &'a Facts, post: &HeldPost) -> Option<&'a str> {
    known.channel(post.channel_id).map(|channel| channel.name.as_str())
}

fn value(known: &Facts, post: &HeldPost, message: &StoredMessage) -> Value {
    json!({
        "message_id": post.message_id,
        "channel": channel_name(known, post),
        "kind": message.kind,
        "why": post.why,
        "held_at": post.held_at,
        "expires_at": post.expires_at,
        "text": message.payload["text"],
    })
}

fn cells(known: &Facts, post: &HeldPost, message: &StoredMessage) -> Vec<String> {
    let text = message.payload["text"].as_str().unwrap_or_default();
    vec![
        post.message_id.to_string(),
        channel_name(known, post).unwrap_or("-").to_owned(),
        message.kind.clone(),
        moment(post.held_at),
        post.expires_at.map_or("-".to_owned(), moment),
        words_of(text),
    ]
}

async fn decide(decided: &Decided, decision: Decision) -> anyhow::Result<()> {
    let operator = &decided.operator;
    let workspace = operator.workspace(&operator.look().await?.store).await?;
    let hand = operator.hand().await?;
    let mut all = Vec::new();
    for id in &decided.ids {
        let verb = Verb::Decide { workspace: workspace.clone(), message: MessageId(*id), decision };
        all.push(hand.perform(verb).await?);
    }
    operator.print(&all, || all.iter().map(spoken).collect::<Vec<_>>().join("\n"))
}

fn spoken(done: &Value) -> String {
    let id = &done["message_id"];
    if done["approved"] != true {
        return format!("message {id} is not published");
    }
    let deliveries = done["deliveries"].as_array().into_iter().flatten();
    let went: Vec<String> = deliveries
        .map(|delivery| {
            let channel = delivery["channel"].as_str().unwrap_or("-");
            format!(
                "{} in {channel} (delivery {})",
                delivery["status"].as_str().unwrap_or("-"),
                delivery["delivery_id"]
            )
        })
        .collect();
    format!("message {id} is approved: {}", went.join(", "))
}
