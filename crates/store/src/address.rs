//! Database addresses: `sqlite:FILE`, `sqlite::memory:`, `postgres://…`.

use std::path::PathBuf;

use crate::error::{Result, StoreError};

#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    Sqlite(SqlitePath),
    Postgres(PostgresUrl),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SqlitePath {
    /// Lives as long as the store that opened it.
    Memory,
    File(PathBuf),
}

/// Holds a password, so it never prints itself.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl Address {
    pub fn parse(text: &str) -> Result<Address> {
        let bad =
            |problem: &str| StoreError::BadAddress { address: shown(text), problem: problem.to_owned() };
        if let Some(path) = text.strip_prefix("sqlite:") {
            return match path.strip_prefix("//").unwrap_or(path) {
                "" => Err(bad("the file name is missing")),
                ":memory:" => Ok(Address::Sqlite(SqlitePath::Memory)),
                path => Ok(Address::Sqlite(SqlitePath::File(PathBuf::from(path)))),
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let parsed: std::result::Result<tokio_postgres::Config, _> = text.parse();
            return match parsed {
                Ok(config) if config.get_hosts().is_empty() => Err(bad("the host is missing")),
                Ok(_) => Ok(Address::Postgres(PostgresUrl(text.to_owned()))),
                Err(_) => Err(bad("it is not a well-formed PostgreSQL address")),
            };
        }
        Err(bad("it names no known kind of database"))
    }
}

impl PostgresUrl {
    /// The address with its password; only the driver needs it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The same server, another database.
    pub(crate) fn with_database(&self, name: &str) -> Result<PostgresUrl> {
        let bad = || StoreError::BadAddress {
            address: self.to_string(),
            problem: "it is not a well-formed PostgreSQL address".into(),
        };
        let mut url = url::Url::parse(&self.0).map_err(|_| bad())?;
        url.set_path(name);
        Ok(PostgresUrl(url.into()))
    }

    pub(crate) fn database(&self) -> Option<String> {
        let config: tokio_postgres::Config = self.0.parse().ok()?;
        config.get_dbname().map(str::to_owned)
    }
}

impl std::fmt::Display for SqlitePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SqlitePath::Memory => f.write_str("sqlite::memory:"),
            SqlitePath::File(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

impl std::fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

impl std::fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Sqlite(path) => path.fmt(f),
            Address::Postgres(url) => url.fmt(f),
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// An address without user, password and query: any of them may hold a secret.
fn shown(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return if text.starts_with("sqlite:") { text.to_owned() } else { "(hidden)".to_owned() };
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    // A password may itself contain a slash; whatever stands before the last @ is never shown.
    let path = path.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        assert_eq!(Address::parse("sqlite::memory:").unwrap(), Address::Sqlite(SqlitePath::Memory));
        assert_eq!(
            Address::parse("sqlite:кошки.db").unwrap(),
            Address::Sqlite(SqlitePath::File(PathBuf::from("кошки.db")))
        );
        assert_eq!(Address::parse("postgres://u:p@h:5/d").unwrap().to_string(), "postgres://h:5/d");
    }

    #[test]
    fn a_broken_address_is_refused_without_showing_the_password() {
        for text in
            ["", "sqlite:", "mysql://u:секрет@h/d", "postgres://u:секрет@h:порт/d", "postgres:///", "секрет"]
        {
            let problem = Address::parse(text).unwrap_err().to_string();
            assert!(!problem.contains("секрет"), "{problem}");
            assert!(problem.contains("use sqlite:FILE"), "{problem}");
        }
    }
}
