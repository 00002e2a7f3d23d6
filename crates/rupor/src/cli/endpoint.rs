//! `rupor endpoint`: look at the doors, shut and open them, try one out, give one a new secret.

use anyhow::Context;
use clap::{Args, Subcommand};
use domain::shown::line;
use domain::time::Span;
use serde_json::json;

use super::operator::{OperatorArgs, block_on, fits};
use crate::config::Secret;
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::verb::{find_endpoint, find_workspace};
use crate::operate::words::{how_long, quoted};

/// Look at the doors for posts, shut and open them, give one a new secret
#[derive(Debug, Args)]
pub(super) struct EndpointArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the doors and whether they are open
    List(OperatorArgs),
    /// Show one door: its kind, its settings, and whether it is open
    Show(Show),
    /// Refuse what is posted there until it is resumed
    Pause(Bulk),
    /// Take posts there again
    Resume(Bulk),
    /// Tell whether a secret opens this door; nothing is posted
    Test(Test),
    /// Draw a new secret and show it once; the one before goes on opening the door for a while
    Rotate(Rotate),
}

#[derive(Debug, Args)]
struct Bulk {
    /// Name, or a pattern: `*` fits any text
    #[arg(value_name = "NAME")]
    endpoint: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Show {
    /// Name of the endpoint
    endpoint: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Test {
    /// Name of the endpoint
    endpoint: String,
    /// The variable that holds the secret, so that it stands in no history of commands
    #[arg(long, value_name = "VARIABLE")]
    secret_env: String,
    #[command(flatten)]
    operator: OperatorArgs,
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
            Command::Show(one) => show(one).await,
            Command::Pause(bulk) => switch(bulk, false).await,
            Command::Resume(bulk) => switch(bulk, true).await,
            Command::Test(test) => try_out(test).await,
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
            let state = if endpoint.enabled { "open" } else { "paused" };
            let id = endpoint.endpoint_id.to_string();
            vec![id, endpoint.name.clone(), endpoint.kind.clone(), state.to_owned()]
        };
        table(&["id", "endpoint", "kind", "state"], endpoints.iter().map(row).collect())
    })
}

async fn show(one: &Show) -> anyhow::Result<()> {
    let store = one.operator.look().await?.store;
    let ws = find_workspace(&store, &one.operator.workspace(&store).await?).await?;
    let door = find_endpoint(&store, ws, &one.endpoint).await?;
    one.operator.print(&door, || {
        let state = if door.enabled { "open" } else { "paused: whoever posts there hears 401" };
        let mut page =
            format!("endpoint  {}\nkind      {}\nstate     {state}\n", line(&door.name), line(&door.kind));
        for (name, value) in door.settings.as_object().into_iter().flatten() {
            page += &format!("{name:<9} {}\n", line(&value.to_string()));
        }
        if !door.enabled {
            page += &format!("$ rupor endpoint resume {}\n", quoted(&door.name));
        }
        page
    })
}

async fn switch(bulk: &Bulk, enabled: bool) -> anyhow::Result<()> {
    let operator = &bulk.operator;
    let store = operator.look().await?.store;
    let workspace = operator.workspace(&store).await?;
    let known = store.endpoints(find_workspace(&store, &workspace).await?).await?;
    let names = known.iter().map(|endpoint| endpoint.name.clone());
    let names: Vec<String> = names.filter(|name| fits(&bulk.endpoint, name)).collect();
    if names.is_empty() {
        let known: Vec<&str> = known.iter().map(|endpoint| endpoint.name.as_str()).collect();
        anyhow::bail!("no endpoint fits {:?}; there are {}", bulk.endpoint, known.join(", "));
    }
    let hand = operator.hand().await?;
    let mut done = Vec::new();
    for endpoint in &names {
        let (workspace, endpoint) = (workspace.clone(), endpoint.clone());
        done.push(hand.perform(Verb::EnableEndpoint { workspace, endpoint, enabled }).await?);
    }
    operator.print(&done, || {
        let told = names.iter().map(|name| match enabled {
            true => format!("endpoint {} takes posts again\n", line(name)),
            false => format!(
                "endpoint {} refuses posts; whoever posts there hears 401\n$ rupor endpoint resume {}\n",
                line(name),
                quoted(name)
            ),
        });
        told.collect()
    })
}

async fn try_out(test: &Test) -> anyhow::Result<()> {
    let operator = &test.operator;
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let door = find_endpoint(&store, ws, &test.endpoint).await?;
    let secret = std::env::var(&test.secret_env).ok().filter(|secret| !secret.is_empty());
    let secret = secret.with_context(|| format!("the variable {} is not set", test.secret_env))?;
    let opened = store.endpoint_by_secret(&secrecy::SecretString::from(secret)).await?;
    let opens = opened.as_ref().is_some_and(|opened| opened.endpoint_id == door.endpoint_id);
    let told = json!({
        "endpoint": door.name, "enabled": door.enabled, "opens": opens && door.enabled,
        "opens_another": opened.is_some() && !opens,
    });
    let (name, variable) = (line(&door.name), line(&test.secret_env));
    let words = match (door.enabled, opens, opened.is_some()) {
        (false, _, _) => {
            format!("endpoint {name} is paused; run `rupor endpoint resume {}`", quoted(&door.name))
        }
        (true, true, _) => format!("endpoint {name} opens with the secret in {variable}"),
        (true, false, true) => format!("the secret in {variable} opens another endpoint, not {name}"),
        (true, false, false) => {
            format!(
                "the secret in {variable} opens nothing; `rupor endpoint rotate {}` draws a new one",
                quoted(&door.name)
            )
        }
    };
    match opens && door.enabled {
        true => operator.print(&told, || words),
        false => anyhow::bail!(words),
    }
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
