//! What went wrong, and what to do about it: the SQLSTATE table, in one place.

use std::time::Duration;

use domain::ids::DeliveryId;
use tokio_postgres::error::{DbError, SqlState};

use crate::error::StoreError;

/// Tries of one transaction, the first included.
const TRIES_MAX: u32 = 5;
/// Of those, tries that nobody answered: a second one may find another way, more of them only wait.
const SILENT_MAX: u32 = 2;

/// A failed transaction.
#[derive(Debug)]
pub(super) enum Trouble {
    Database(tokio_postgres::Error),
    /// COMMIT was sent and what came back is not an answer of the database.
    AtCommit(tokio_postgres::Error),
    /// No connection could be had.
    Pool(deadpool_postgres::PoolError),
    /// Something of our own between two statements.
    Refused(StoreError),
    /// No answer came in time.
    Silent {
        committing: bool,
        seconds: u64,
    },
    /// A commit waits for a synchronous standby that is not there, or would.
    Standby,
}

/// What the caller of a transaction does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Nothing was written, and another try may succeed.
    TryAgain,
    /// Nobody knows whether it was written.
    Look,
    GiveUp,
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Trouble {
        Trouble::Database(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Refused(error)
    }
}

impl From<deadpool_postgres::PoolError> for Trouble {
    fn from(error: deadpool_postgres::PoolError) -> Trouble {
        match error {
            deadpool_postgres::PoolError::Backend(error) if error.as_db_error().is_some() => {
                Trouble::Database(error)
            }
            error => Trouble::Pool(error),
        }
    }
}

impl Trouble {
    pub(super) fn at_commit(error: tokio_postgres::Error) -> Trouble {
        match error.as_db_error() {
            // The server answered, so it did not commit; unless it was going down while it did.
            Some(db) if !is_shutdown(db.code()) => Trouble::Database(error),
            _ => Trouble::AtCommit(error),
        }
    }

    pub(super) fn reaction(&self) -> Reaction {
        match self {
            Trouble::AtCommit(_) | Trouble::Silent { committing: true, .. } => Reaction::Look,
            Trouble::Silent { committing: false, .. } => Reaction::TryAgain,
            Trouble::Standby => Reaction::GiveUp,
            Trouble::Pool(deadpool_postgres::PoolError::Backend(_)) => Reaction::TryAgain,
            Trouble::Pool(_) | Trouble::Refused(_) => Reaction::GiveUp,
            Trouble::Database(error) => match error.as_db_error() {
                Some(db) => of_state(db.code()),
                // The wire was cut before COMMIT was sent: the server rolls back.
                None if error.is_closed() || is_io(error) => Reaction::TryAgain,
                None => Reaction::GiveUp,
            },
        }
    }

    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Trouble::Database(error) if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION))
    }

    pub(super) fn into_error(self, address: &str) -> StoreError {
        let address = address.to_owned();
        match self {
            Trouble::Refused(error) => error,
            Trouble::Standby => StoreError::NoStandby { address },
            Trouble::Silent { committing, seconds } => {
                let problem = format!("no answer within {seconds} s; the connection was dropped");
                match committing {
                    true => StoreError::CommitUnknown { address, problem },
                    false => StoreError::Unreachable { address, problem },
                }
            }
            Trouble::AtCommit(error) => StoreError::CommitUnknown { address, problem: error_text(&error) },
            Trouble::Pool(deadpool_postgres::PoolError::Backend(error)) => {
                StoreError::Unreachable { address, problem: error_text(&error) }
            }
            Trouble::Pool(deadpool_postgres::PoolError::Timeout(_)) => {
                StoreError::Busy { address, problem: "all connections are in use".into() }
            }
            Trouble::Pool(deadpool_postgres::PoolError::PostCreateHook(_)) => {
                StoreError::Unreachable { address, problem: "it let us in and then said nothing".into() }
            }
            Trouble::Pool(error) => StoreError::Unreachable { address, problem: error.to_string() },
            Trouble::Database(error) => match error.as_db_error() {
                Some(db) => of_database(db, address),
                None if error.is_closed() || is_io(&error) => {
                    StoreError::Unreachable { address, problem: error_text(&error) }
                }
                None => StoreError::Database(error_text(&error)),
            },
        }
    }
}

/// How often one transaction was tried.
#[derive(Debug, Default)]
pub(super) struct Tries {
    n: u32,
    silent: u32,
}

impl Tries {
    /// Counts a try that failed; whether there may be another.
    pub(super) fn again(&mut self, trouble: &Trouble) -> bool {
        self.n += 1;
        self.silent += u32::from(matches!(trouble, Trouble::Silent { .. }));
        self.n < TRIES_MAX && self.silent < SILENT_MAX
    }

    pub(super) async fn pause(&self) {
        tracing::debug!(tries = self.n, "a transaction is tried again");
        tokio::time::sleep(pause(self.n)).await;
    }
}

/// How long to wait before the next try: doubling, and never two nodes alike.
fn pause(tries: u32) -> Duration {
    let base = 10 << tries.min(6);
    Duration::from_millis(base / 2 + rand::random_range(0..=base))
}

fn of_state(state: &SqlState) -> Reaction {
    let again = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::TOO_MANY_CONNECTIONS,
        // The server was demoted; a new connection may find the one that took its place.
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    if again.contains(state) || is_shutdown(state) || state.code().starts_with("08") {
        Reaction::TryAgain
    } else {
        Reaction::GiveUp
    }
}

/// The server stops, crashed beside us, or is not up yet.
fn is_shutdown(state: &SqlState) -> bool {
    [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(state)
}

fn of_database(db: &DbError, address: String) -> StoreError {
    let problem = db.message().to_owned();
    match db.code().code() {
        // Ours, raised by the functions.
        "RU001" => {
            StoreError::NotFound { what: thing(db.detail()), name: db.hint().unwrap_or_default().to_owned() }
        }
        "RU002" => StoreError::KeyConflict { key: db.detail().unwrap_or_default().to_owned() },
        "RU003" => illegal(db, "only dead and failed_permanent deliveries can be requeued"),
        "RU004" => invalid(&problem),
        "RU005" => illegal(db, "its channel was removed; post the message to another channel"),
        "RU009" => illegal(db, "it belongs to a campaign; run `rupor campaign retry` for those who failed"),
        // Theirs.
        "25006" => StoreError::ReadOnly {
            address,
            problem: format!(
                "{problem}; the server is a standby or was made read-only: name the primary, or several hosts"
            ),
        },
        "42501" => StoreError::ReadOnly {
            address,
            problem: format!(
                "{problem}; run `rupor migrate` as the owner of the tables, which grants what is missing"
            ),
        },
        "26000" | "42P05" => StoreError::Forgetful { address },
        "53100" => StoreError::DiskFull { address },
        "40001" | "40P01" | "55P03" | "57014" | "53200" | "53300" => StoreError::Busy { address, problem },
        "57P01" | "57P02" | "57P03" | "28000" | "28P01" | "3D000" => {
            StoreError::Unreachable { address, problem }
        }
        "22021" | "22P05" => StoreError::invalid("text", "a NUL character cannot be stored"),
        "XX001" | "XX002" => StoreError::Corrupt { address, problem },
        code if code.starts_with("08") => StoreError::Unreachable { address, problem },
        code => StoreError::Database(format!("{problem} ({code})")),
    }
}

fn illegal(db: &DbError, remedy: &'static str) -> StoreError {
    let delivery_id = DeliveryId(db.detail().and_then(|id| id.parse().ok()).unwrap_or_default());
    StoreError::IllegalTransition {
        delivery_id,
        status: db.hint().unwrap_or_default().to_owned(),
        wanted: "requeue",
        remedy,
    }
}

fn thing(name: Option<&str>) -> &'static str {
    match name {
        Some("channel") => "channel",
        Some("delivery") => "delivery",
        Some("account") => "account",
        Some("case") => "case",
        Some("lane") => "lane",
        Some("message") => "message",
        Some("workspace") => "workspace",
        _ => "row",
    }
}

/// `what: problem`, as the functions word it.
fn invalid(message: &str) -> StoreError {
    let known = ["enqueue", "claim", "commit", "renew", "record_part", "reserve", "error"];
    let split = message.split_once(": ");
    match split.and_then(|(what, problem)| Some((known.iter().find(|known| **known == what)?, problem))) {
        Some((what, problem)) => StoreError::invalid(what, problem),
        None => StoreError::invalid("input", message),
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// The error with its causes, as one line. tokio-postgres never puts a password in them.
pub(super) fn error_text(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("{} ({})", db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    if let Some((_, help)) = TLS_HELP.iter().find(|(sign, _)| text.contains(sign)) {
        text.push_str("; ");
        text.push_str(help);
    }
    text
}

/// What the TLS library says, and what helps.
const TLS_HELP: [(&str, &str); 4] = [
    (
        "server does not support TLS",
        "the server, or somebody on the way, offers no encryption: switch `ssl` on there, or write sslmode=disable if \
         nobody else is on that network",
    ),
    (
        "UnknownIssuer",
        "its certificate is signed by nobody we trust: name the file of your authority with sslrootcert=FILE",
    ),
    (
        "not valid for name",
        "its certificate is for another name: use a name that stands in it, or give the server a certificate for this one",
    ),
    ("certificate expired", "renew the certificate of the server, and look at the clock of this machine"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_undone_is_tried_again() {
        for (state, reaction) in [
            ("40001", Reaction::TryAgain),
            ("40P01", Reaction::TryAgain),
            ("57P01", Reaction::TryAgain),
            ("57P03", Reaction::TryAgain),
            ("08006", Reaction::TryAgain),
            ("23505", Reaction::GiveUp),
            ("25006", Reaction::TryAgain),
            ("53100", Reaction::GiveUp),
            ("RU004", Reaction::GiveUp),
        ] {
            assert_eq!(of_state(&SqlState::from_code(state)), reaction, "{state}");
        }
    }

    #[test]
    fn the_functions_own_words_become_typed_errors() {
        assert_eq!(
            invalid("claim: the lease must be positive").to_string(),
            "claim: the lease must be positive"
        );
        assert_eq!(invalid("odd").to_string(), "input: odd");
    }

    #[test]
    fn pauses_grow_and_stay_below_a_second() {
        assert!((1..=TRIES_MAX).all(|tries| pause(tries) < Duration::from_secs(1)));
    }
}
