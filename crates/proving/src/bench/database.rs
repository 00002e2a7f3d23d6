//! `--db`: where a benchmark works.

use std::path::PathBuf;

use clap::Args;
use store::{Address, Keyring};

#[derive(Debug, Args)]
pub(super) struct Database {
    /// Database address: sqlite:FILE or postgres://USER@HOST/DATABASE
    #[arg(
        long = "db",
        value_name = "ADDRESS",
        env = "RUPOR_DB",
        hide_env_values = true,
        default_value = "sqlite:rupor.db"
    )]
    address: String,
}

impl Database {
    pub(super) fn address(&self) -> anyhow::Result<Address> {
        Ok(Address::parse(&self.address)?)
    }

    /// As it was written, password and all: for another process.
    pub(crate) fn written(&self) -> &str {
        &self.address
    }

    pub(crate) fn keyring(&self, address: &Address) -> anyhow::Result<Keyring> {
        Ok(Keyring::at(&self.key_path(address))?)
    }

    pub(super) fn key_path(&self, address: &Address) -> PathBuf {
        Keyring::usual_path(address)
    }
}
