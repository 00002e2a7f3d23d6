//! The one error of the store, with an arm for every different reaction of a caller.

use domain::ids::{AccountId, ChannelId, DeliveryId, WorkspaceId};

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The named thing is not there, or belongs to another workspace: the two look the same on purpose.
    #[error("{what} {} is not known in this workspace; {}", domain::shown::line(.name), where_listed(.what))]
    NotFound { what: &'static str, name: String },
    #[error("{what} {} already exists in this workspace; choose another name or change that one", domain::shown::line(.name))]
    Exists { what: &'static str, name: String },
    #[error("key {key:?} was used before with another body; use a new key, or send the same body again")]
    KeyConflict { key: String },
    #[error("delivery {delivery_id} is {status}: {wanted} is not allowed; {remedy}")]
    IllegalTransition { delivery_id: DeliveryId, status: String, wanted: &'static str, remedy: &'static str },
    #[error("{what}: {}", domain::shown::line(.problem))]
    Invalid { what: &'static str, problem: String },
    #[error(
        "database address {address:?}: {problem}; use sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE"
    )]
    BadAddress { address: String, problem: String },
    #[error("database {address}: cannot be reached: {problem}; is the server running and the address right?")]
    Unreachable { address: String, problem: String },
    #[error(
        "database {address}: the file cannot be opened: {problem}; does its folder exist, and may this user write there?"
    )]
    NoFile { address: String, problem: String },
    #[error(
        "database {address}: commits wait for a synchronous standby that is gone, so nothing more is written; start the standby, or take it out of synchronous_standby_names on the server and reload it"
    )]
    NoStandby { address: String },
    #[error(
        "database {address}: a pooler in between gives each transaction another connection and forgets prepared statements; with PgBouncer 1.21 or newer set max_prepared_statements = 200, with an older one pool_mode = session, or name the server itself"
    )]
    Forgetful { address: String },
    #[error(
        "database {address} is in use by another process, usually a `rupor run`: one node works on a SQLite file; stop that one first"
    )]
    InUse { address: String },
    #[error("database {address} cannot be written: {problem}")]
    ReadOnly { address: String, problem: String },
    #[error(
        "database {address}: no space left on the disk; nothing of this step was written; free some space and it goes on"
    )]
    DiskFull { address: String },
    /// Whatever is written now would go to a file that nobody can find again.
    #[error(
        "database {address}: the file was deleted or replaced while it was in use; nothing is sent or accepted any \
         more; stop this process, put the file back (or restore a backup), and start again"
    )]
    FileGone { address: String },
    #[error(
        "database {address} is damaged: {problem}; stop, keep a copy, and restore a backup, or save what can be read with `rupor db repair`"
    )]
    Corrupt { address: String, problem: String },
    #[error("schema: {0}")]
    Schema(#[from] SchemaError),
    #[error("key: {0}")]
    Key(#[from] KeyError),
    /// Worth trying again as a whole; nothing was written.
    #[error("database {address} is busy: {problem}")]
    Busy { address: String, problem: String },
    /// COMMIT was sent and no answer came: ask again by the natural key before acting.
    #[error("database {address}: the answer to a commit was lost: {problem}")]
    CommitUnknown { address: String, problem: String },
    #[error("database: {0}")]
    Database(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the database is at version {found}, this rupor knows {known}; install the newer rupor")]
    Newer { found: i32, known: i32 },
    #[error("the database is at version {found}, this rupor needs {known}; run `rupor migrate`")]
    Older { found: i32, known: i32 },
    #[error("migration {version} {name} was changed after it was applied; restore the file as released")]
    Drift { version: i32, name: String },
    #[error("migration {version} {name} failed and was undone: {problem}")]
    Failed { version: i32, name: String, problem: String },
    #[error(
        "the functions in the database are those of another rupor; run `rupor migrate` with the one that shall run"
    )]
    Functions,
    #[error("the functions could not be brought up to date, and those from before stand: {problem}")]
    FunctionsFailed { problem: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(
        "file {path} is missing, but the database holds sealed tokens; put the old key back, or set the tokens again"
    )]
    Missing { path: String },
    #[error(
        "file {path} does not open the tokens of this database; put back the key they were sealed with; after `rupor key rotate` on another machine copy its key file here"
    )]
    Wrong { path: String },
    #[error("file {path} can be read by others (mode {mode:o}); run `chmod 600` on it")]
    Exposed { path: String, mode: u32 },
    #[error("file {path}: {problem}")]
    Unusable { path: String, problem: String },
}

/// How to see what is there.
fn where_listed(what: &str) -> String {
    match what {
        "account" | "audience" | "campaign" | "case" | "channel" | "delivery" | "endpoint" | "source"
        | "token" => {
            format!("`rupor {what} list` shows what is there")
        }
        _ => "list what is there and use its id".to_owned(),
    }
}

pub type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    pub fn not_found(what: &'static str, name: impl ToString) -> StoreError {
        StoreError::NotFound { what, name: name.to_string() }
    }

    pub fn unknown_workspace(id: WorkspaceId) -> StoreError {
        StoreError::Invalid {
            what: "workspace",
            problem: format!("{id} is not known; `rupor status` lists them"),
        }
    }

    pub fn unknown_account(id: AccountId) -> StoreError {
        StoreError::not_found("account", id)
    }

    pub fn unknown_channel(id: ChannelId) -> StoreError {
        StoreError::not_found("channel", id)
    }

    pub fn unknown_delivery(id: DeliveryId) -> StoreError {
        StoreError::not_found("delivery", id)
    }

    pub fn invalid(what: &'static str, problem: impl Into<String>) -> StoreError {
        StoreError::Invalid { what, problem: problem.into() }
    }
}
