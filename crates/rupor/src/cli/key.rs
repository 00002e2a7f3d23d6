//! `rupor key`: the key that seals tokens.

use clap::{Args, Subcommand};
use serde_json::json;

use super::operator::{OperatorArgs, block_on};
use crate::operate::Verb;
use crate::operate::words::counted;

/// Renew the key that seals tokens
#[derive(Debug, Args)]
pub(super) struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the next key into a file, to be copied to the other machines before it is used
    Prepare(OperatorArgs),
    /// Seal everything with the next key while nodes run; one is drawn if none was prepared
    ///
    /// Nodes follow by themselves where they can read the new file. The old key is kept beside it as FILE.old: backups made
    /// before need it.
    Rotate(OperatorArgs),
}

pub(super) fn run(args: &Key) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::Prepare(operator) => prepare(operator),
            Command::Rotate(operator) => renew(operator).await,
        }
    })
}

fn prepare(operator: &OperatorArgs) -> anyhow::Result<()> {
    let address = operator.database.address()?;
    let next = operator.database.keyring(&address)?.prepare()?;
    let next = next.display().to_string();
    operator.print(&json!({"next": next}), || {
        format!(
            "the next key lies in {next}\ncopy it beside the key of every other machine (mode 600), then\n$ rupor key rotate"
        )
    })
}

async fn renew(operator: &OperatorArgs) -> anyhow::Result<()> {
    let path = operator.database.key_path(&operator.database.address()?).display().to_string();
    let done = operator.perform(Verb::RotateKey).await?;
    operator.print(&done, || {
        let n = done["accounts"].as_u64().unwrap_or(0) as usize;
        format!(
            "{} sealed with the new key in {path}\nthe old one is {path}.old: keep it as long as backups made before now, \
             then delete it",
            counted(n, "account is", "accounts are")
        )
    })
}
