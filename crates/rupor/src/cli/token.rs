//! `rupor token`: who may use the API.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use domain::shown::line;
use serde_json::json;
use store::ApiScope;

use super::operator::{OperatorArgs, block_on};
use crate::config::Secret;
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::moment;

/// Make, list and revoke tokens of the API
#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Draw a token and show it once
    New(New),
    /// List tokens by name, without the tokens themselves
    List(OperatorArgs),
    /// End a token at once
    Revoke {
        /// Name of the token
        name: String,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

#[derive(Debug, Args)]
struct New {
    /// A name to know it by
    name: String,
    /// What it may do: ingest, read, operate, adapter; several with commas
    #[arg(long, alias = "scopes", value_delimiter = ',', default_value = "read", value_parser = scope)]
    scope: Vec<ApiScope>,
    #[command(flatten)]
    operator: OperatorArgs,
}

fn scope(text: &str) -> Result<ApiScope, String> {
    let known: Vec<&str> = ApiScope::ALL.iter().map(|scope| scope.as_str()).collect();
    ApiScope::parse(text.trim()).ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// Bytes of a drawn token: nobody guesses 256 bits.
const TOKEN_BYTES: usize = 32;

/// A token of one workspace that reaches the others is a surprise.
const ADAPTER_REACHES: &str = "the scope adapter sends, reads posts and keeps pictures in every workspace of this \
                               database, not only in its own; give it to your orchestrator alone";

pub(super) fn run(args: &TokenArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::New(new) => make(new).await,
            Command::List(operator) => list(operator).await,
            Command::Revoke { name, operator } => revoke(name, operator).await,
        }
    })
}

async fn make(new: &New) -> anyhow::Result<()> {
    let operator = &new.operator;
    let workspace = operator.workspace(&operator.look().await?.store).await?;
    let drawn: String =
        rand::random::<[u8; TOKEN_BYTES]>().iter().map(|byte| format!("{byte:02x}")).collect();
    let token = format!("rupor_{drawn}");
    let mut scopes = new.scope.clone();
    scopes.sort_unstable();
    scopes.dedup();
    let verb = Verb::NewToken {
        workspace: workspace.clone(),
        name: new.name.clone(),
        secret: Secret::new(token.clone()),
        scopes: scopes.clone(),
    };
    operator.perform(verb).await?;
    let told = json!({"name": new.name, "workspace": workspace, "scopes": scopes, "token": token});
    operator.print(&told, || {
        let warning = match scopes.contains(&ApiScope::Adapter) {
            true => format!("\nwarning: {ADAPTER_REACHES}"),
            false => String::new(),
        };
        let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        format!("token {} ({}), shown only here:\n{token}{warning}", line(&new.name), scopes.join(", "))
    })
}

async fn list(operator: &OperatorArgs) -> anyhow::Result<()> {
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let tokens = store.api_tokens(ws).await?;
    operator.print(&tokens, || {
        let row = |token: &store::ApiToken| {
            let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
            let state = token.revoked_at.map_or("open".to_owned(), |at| format!("revoked {}", moment(at)));
            vec![token.name.clone(), scopes.join(","), moment(token.created_at), state]
        };
        table(&["token", "scopes", "made", "state"], tokens.iter().map(row).collect())
    })
}

async fn revoke(name: &str, operator: &OperatorArgs) -> anyhow::Result<()> {
    let workspace = operator.workspace(&operator.look().await?.store).await?;
    let done = operator.perform(Verb::RevokeToken { workspace, name: name.to_owned() }).await?;
    if !done["revoked"].as_bool().context(
        "the running node is of another version than this command; restart it, then run this again",
    )? {
        bail!("there is no open token {name:?}; `rupor token list` shows them");
    }
    operator.print(&done, || format!("token {} opens nothing any more", line(name)))
}
