//! `rupor migrate`: brings the schema up to date.

use anyhow::Context;
use clap::Args;
use store::Store;

use super::database::Database;

/// Create the database schema, or bring it up to date
///
/// Safe to run twice and by several at once; a step that fails is undone.
#[derive(Debug, Args)]
pub struct Migrate {
    #[command(flatten)]
    database: Database,
}

#[expect(clippy::print_stdout, reason = "the result is what this command is for")]
pub fn run(args: &Migrate) -> anyhow::Result<()> {
    let address = args.database.address()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let applied = runtime.block_on(Store::migrate(&address))?;
    let known = store::migrations::known();
    match applied.len() {
        0 => println!("{address} is up to date at version {known}"),
        n => println!("{address}: {n} steps applied, now at version {known}"),
    }
    Ok(())
}
