//! `rupor endpoint`: look at the doors, and give one a new secret.

use clap::{Args, Subcommand};
use domain::shown::line;
use domain::time::Span;
use serde_json::json;

use super::operator::{OperatorArgs, block_on};
use crate::config::Secret;
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::verb::{find_endpoint, find_workspace};
use crate::operate::words::how_long;

/// Look at the doors for posts, and give one a new secret
#[derive(Debug, Args)]
pub(super) struct EndpointArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// All doors
    List(OperatorArgs),
    /// Draw a new secret and show it once; the one before goes on opening the door for a while
    Rotate(Rotate),
}

#[derive(Debug, Args)]
struct Rotate {
    /// Name of the endpoint
    endpoint: String,
    /// How long the secret before opens the door too; 0s ends it at once
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = overlap)]
    overlap: Span,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Bytes of a drawn secret: nobody guesses 256 bits.
const SECRET_BYTES: usize = 32;

fn overlap(text: &str) -> Result<Span, String> {
    let span = engine::span::parse(text).filter(|span| span.0 >= 0);
    span.ok_or_else(|| format!("write {}", engine::span::FORM))
}

pub(super) fn run(args: &EndpointArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(operator) => list(operator).await,
            Command::Rotate(rotate) => renew(rotate).await,
        }
    })
}

async fn list(operator: &OperatorArgs) -> anyhow::Result<()> {
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let endpoints = store.endpoints(ws).await?;
    operator.print(&endpoints, || {
        let row = |endpoint: &store::Endpoint| {
            let state = if endpoint.enabled { "open" } else { "disabled" };
            let id = endpoint.endpoint_id.to_string();
            vec![id, endpoint.name.clone(), endpoint.kind.clone(), state.to_owned()]
        };
        table(&["id", "endpoint", "kind", "state"], endpoints.iter().map(row).collect())
    })
}

async fn renew(rotate: &Rotate) -> anyhow::Result<()> {
    let operator = &rotate.operator;
    let store = operator.look().await?.store;
    let workspace = operator.workspace(&store).await?;
    let found = find_endpoint(&store, find_workspace(&store, &workspace).await?, &rotate.endpoint).await?;
    drop(store);
    let secret = drawn();
    let verb = Verb::RotateEndpoint {
        workspace,
        endpoint: found.name.clone(),
        secret: Secret::new(secret.clone()),
        overlap_millis: rotate.overlap.millis(),
    };
    operator.perform(verb).await?;
    let told = json!({"endpoint": found.name, "secret": secret, "overlap_ms": rotate.overlap.millis()});
    operator.print(&told, || {
        let before = match rotate.overlap.0 {
            0 => "the secret before opens nothing any more".to_owned(),
            _ => format!("the secret before opens it for {} more", how_long(rotate.overlap)),
        };
        format!(
            "endpoint {} has a new secret, shown only here:\n{secret}\n{before}; give the new one to whoever posts here,\n\
             and put it where your configuration reads it: `rupor apply` refuses the old one",
            line(&found.name)
        )
    })
}

fn drawn() -> String {
    rand::random::<[u8; SECRET_BYTES]>().iter().map(|byte| format!("{byte:02x}")).collect()
}
