//! `rupor migrate`: brings the schema up to date.

use anyhow::Context;
use clap::Args;
use store::{Address, Store};

use super::database::Database;

/// Create the database schema, or bring it up to date
///
/// Safe to run twice and by several at once; a step that fails is undone.
#[derive(Debug, Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    database: Database,
}

#[expect(clippy::print_stdout, reason = "the result is what this command is for")]
pub(super) fn run(args: &Migrate) -> anyhow::Result<()> {
    let address = args.database.address()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let (applied, roles_refused) = runtime.block_on(migrate(&address))?;
    println!("{}", domain::shown::line(&summary(&address, applied.len())));
    if let Some(problem) = roles_refused {
        println!("{}", roles_script(&problem));
    }
    Ok(())
}

/// The versions applied, and why the roles could not be set up if they could not.
async fn migrate(address: &Address) -> anyhow::Result<(Vec<i32>, Option<String>)> {
    match address {
        Address::Postgres(url) => {
            let migrated = store::postgres::migrate::migrate_all(url).await?;
            Ok((migrated.versions, migrated.roles_refused))
        }
        Address::Sqlite(_) => Ok((Store::migrate(address).await?, None)),
    }
}

fn summary(address: &Address, applied: usize) -> String {
    let known = store::migrations::known();
    match applied {
        0 => format!("{address} is up to date at version {known}"),
        n => format!("{address}: {n} steps applied, now at version {known}"),
    }
}

/// What an administrator has to run once, as a script that says why.
pub(super) fn roles_script(problem: &str) -> String {
    let problem = problem.replace('\n', "\n-- ");
    let script = store::postgres::migrate::ROLES;
    format!(
        "\n-- The roles were not set up: {problem}\n-- Run this as an administrator of the database:\n\n{script}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_roles_are_handed_out_as_a_script_for_the_administrator() {
        let script = roles_script("permission denied\nto create role");
        assert!(script.contains("-- The roles were not set up: permission denied\n-- to create role\n"));
        assert!(script.ends_with(store::postgres::migrate::ROLES));
        assert!(script.contains("rupor_dispatcher"));
    }
}
