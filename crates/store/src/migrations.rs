//! The steps to today's schema: the same numbers and names for both databases.
//!
//! An applied step is never edited: its checksum is kept, and a database that saw another text is refused.

use crate::error::SchemaError;

#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub version: i32,
    pub name: &'static str,
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

macro_rules! migrations {
    ($($version:literal $name:literal),+ $(,)?) => {
        pub const ALL: &[Migration] = &[$(Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../migrations/postgres/", $name, ".sql")),
        }),+];
    };
}

migrations! {
    1 "0001_workspaces",
    2 "0002_ledger",
    3 "0003_intake",
    4 "0004_campaigns",
    5 "0005_bot",
    6 "0006_watch",
    7 "0007_nodes",
}

/// The version this binary knows and needs.
pub fn known() -> i32 {
    ALL.last().map_or(0, |migration| migration.version)
}

pub(crate) fn checksum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// One row of `schema_migrations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    pub version: i32,
    pub checksum: String,
}

/// What is still to be done, if the database is one that we know.
pub(crate) fn missing(
    applied: &[Applied],
    text: fn(&Migration) -> &'static str,
) -> Result<Vec<&'static Migration>, SchemaError> {
    let found = applied.iter().map(|row| row.version).max().unwrap_or(0);
    if found > known() {
        return Err(SchemaError::Newer { found, known: known() });
    }
    for row in applied {
        let migration = ALL.iter().find(|migration| migration.version == row.version);
        if let Some(migration) = migration.filter(|migration| checksum(text(migration)) != row.checksum) {
            return Err(SchemaError::Drift { version: row.version, name: migration.name.to_owned() });
        }
    }
    Ok(ALL.iter().filter(|migration| applied.iter().all(|row| row.version != migration.version)).collect())
}

/// For `open`: the schema must be exactly the one we know.
pub(crate) fn current(applied: &[Applied], text: fn(&Migration) -> &'static str) -> Result<(), SchemaError> {
    let missing = missing(applied, text)?;
    match missing.first() {
        None => Ok(()),
        Some(first) => Err(SchemaError::Older { found: first.version - 1, known: known() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(up_to: i32) -> Vec<Applied> {
        let known = ALL.iter().filter(|migration| migration.version <= up_to);
        known.map(|m| Applied { version: m.version, checksum: checksum(m.sqlite) }).collect()
    }

    #[test]
    fn versions_count_up_without_gaps() {
        assert!(ALL.iter().zip(1..).all(|(migration, n)| migration.version == n));
        assert!(ALL.iter().all(|m| m.name.starts_with(&format!("{:04}_", m.version))));
    }

    #[test]
    fn what_is_missing_is_found_in_order() {
        let missing: Vec<i32> =
            missing(&applied(2), |m| m.sqlite).unwrap().iter().map(|m| m.version).collect();
        assert_eq!(missing, (3..=known()).collect::<Vec<_>>());
    }

    #[test]
    fn drift_and_newer_schemas_are_refused() {
        let mut rows = applied(2);
        rows[1].checksum = "другая".into();
        assert!(matches!(missing(&rows, |m| m.sqlite), Err(SchemaError::Drift { version: 2, .. })));
        rows.push(Applied { version: known() + 1, checksum: String::new() });
        assert!(matches!(missing(&rows, |m| m.sqlite), Err(SchemaError::Newer { .. })));
        assert!(matches!(current(&applied(2), |m| m.sqlite), Err(SchemaError::Older { found: 2, .. })));
    }
}
