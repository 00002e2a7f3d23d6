//! Database addresses: `sqlite:FILE`, `sqlite::memory:`, `postgres://…`.

use std::path::PathBuf;
use std::time::Duration;

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
            let url = PostgresUrl(text.to_owned());
            let config = url.wishes().and_then(|wishes| wishes.config()).map_err(|problem| bad(&problem))?;
            return match config.get_hosts().is_empty() {
                true => Err(bad("the host is missing")),
                false => Ok(Address::Postgres(url)),
            };
        }
        Err(bad("it names no known kind of database"))
    }
}

/// What an address says about the way to the server, and the rest of it for the driver, which does not know these words.
pub(crate) struct Wishes {
    rest: String,
    pub(crate) ssl_mode: Option<String>,
    pub(crate) ssl_root_cert: Option<String>,
    pub(crate) answer_timeout: Option<Duration>,
    pub(crate) names_session_attrs: bool,
    pub(crate) names_keepalives: bool,
}

impl Wishes {
    pub(crate) fn config(&self) -> std::result::Result<tokio_postgres::Config, String> {
        self.rest.parse().map_err(|_| "it is not a well-formed PostgreSQL address".to_owned())
    }
}

impl PostgresUrl {
    pub(crate) fn wishes(&self) -> std::result::Result<Wishes, String> {
        // A password may contain a question mark; the options stand behind the host.
        let behind = self.0.find('@').unwrap_or_default();
        let (front, query) = match self.0[behind..].find('?') {
            Some(at) => self.0.split_at(behind + at),
            None => (self.0.as_str(), ""),
        };
        let mut wishes = Wishes {
            rest: front.to_owned(),
            ssl_mode: None,
            ssl_root_cert: None,
            answer_timeout: None,
            names_session_attrs: false,
            names_keepalives: false,
        };
        for pair in query.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "sslmode" => wishes.ssl_mode = Some(decoded(value)),
                "sslrootcert" => wishes.ssl_root_cert = Some(decoded(value)),
                "answer_timeout" => {
                    let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                    let bad = || "answer_timeout is a whole number of seconds".to_owned();
                    wishes.answer_timeout = Some(Duration::from_secs(seconds.ok_or_else(bad)?));
                }
                _ => {
                    wishes.names_session_attrs |= key == "target_session_attrs";
                    wishes.names_keepalives |= key.starts_with("keepalives");
                    let joint = if wishes.rest.len() == front.len() { '?' } else { '&' };
                    wishes.rest.push(joint);
                    wishes.rest.push_str(pair);
                }
            }
        }
        Ok(wishes)
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

fn decoded(value: &str) -> String {
    // Unlike in a form, a plus is a plus.
    let value = value.replace('+', "%2B");
    let mut pairs = url::form_urlencoded::parse(value.as_bytes());
    pairs.next().map(|(text, _)| text.into_owned()).unwrap_or_default()
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
    fn words_about_the_way_are_taken_out_for_the_driver() {
        let url = PostgresUrl(
            "postgres://u:a?b@h:5/d?sslmode=verify-full&options=-c%20a%3Db&sslrootcert=%2Fк+а.pem&answer_timeout=3".into(),
        );
        let wishes = url.wishes().unwrap();
        assert_eq!(wishes.rest, "postgres://u:a?b@h:5/d?options=-c%20a%3Db");
        assert_eq!(wishes.ssl_mode.as_deref(), Some("verify-full"));
        assert_eq!(wishes.ssl_root_cert.as_deref(), Some("/к+а.pem"));
        assert_eq!(wishes.answer_timeout, Some(Duration::from_secs(3)));
        assert_eq!(wishes.config().unwrap().get_options(), Some("-c a=b"));
        let refused = Address::parse("postgres://u@h/d?answer_timeout=soon").unwrap_err().to_string();
        assert!(refused.contains("answer_timeout is a whole number of seconds"), "{refused}");
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
