//! `--db` and the key file: how every command finds its database.

use std::path::{Path, PathBuf};

use clap::Args;
use store::{Address, Keyring};

#[derive(Debug, Args)]
pub(super) struct Database {
    /// Database address: sqlite:FILE or postgres://USER@HOST/DATABASE
    ///
    /// Without it RUPOR_DB counts, then DATABASE_URL, then sqlite:rupor.db.
    #[arg(long = "db", value_name = "ADDRESS", env = "RUPOR_DB", hide_env_values = true)]
    address: Option<String>,
    /// File with the key that seals tokens [default: beside the database, or rupor.key]
    #[arg(long, value_name = "FILE", env = "RUPOR_KEY_FILE")]
    key_file: Option<PathBuf>,
}

impl Database {
    pub(super) fn address(&self) -> anyhow::Result<Address> {
        let text = match &self.address {
            Some(address) => address.clone(),
            None => std::env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite:rupor.db".into()),
        };
        Ok(Address::parse(&text)?)
    }

    pub(super) fn keyring(&self, address: &Address) -> anyhow::Result<Keyring> {
        Ok(Keyring::at(&self.key_path(address))?)
    }

    /// Where the key lies, and the notes that must not be part of a backup.
    pub(super) fn key_path(&self, address: &Address) -> PathBuf {
        key_path(self.key_file.as_deref(), address)
    }
}

/// The named file, else beside the database, else in the working folder.
pub(super) fn key_path(named: Option<&Path>, address: &Address) -> PathBuf {
    named.map_or_else(|| Keyring::usual_path(address), Path::to_owned)
}
