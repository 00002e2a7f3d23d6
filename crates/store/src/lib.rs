//! WHAT IS REMEMBERED: the only SQL of the product.
//!
//! Two drivers, `sqlite` and `postgres`, mirror each other file by file and say the same thing; one contract
//! suite (`tests/it`) and one reference model hold them to it. The set of databases is closed, so `Store`
//! is an enum and not a trait.
//!
//! Every method is one transaction. Nothing here knows of platforms, HTTP or configuration files.
//! Start reading at `queue` (what goes in and out), then `sqlite::claim`.

pub mod address;
pub mod bot;
pub mod bot_log;
pub mod calls;
pub mod campaigns;
pub mod clock;
pub mod config;
pub mod copy;
pub mod error;
mod facade;
mod hands;
pub mod health;
pub mod held_posts;
mod history;
pub mod intake;
pub mod keyring;
pub mod media;
pub mod migrations;
pub mod overview;
pub mod queue;
pub mod recipients;
pub mod refile;
mod tally;
pub mod wake;
pub mod watch;

pub mod postgres;
pub mod sqlite;

pub use address::Address;
pub use bot::*;
pub use bot_log::{BotLog, BotSkipped};
pub use calls::*;
pub use campaigns::*;
pub use clock::Clock;
pub use config::*;
pub use error::{KeyError, Result, SchemaError, StoreError};
pub use facade::Store;
pub use health::{Health, Illness, STANDS_STILL};
pub use held_posts::HeldPost;
pub use history::{HISTORY_LOST, History, NodeRow, Remembered, Replayed};
pub use intake::*;
pub use keyring::Keyring;
pub use media::*;
pub use overview::*;
pub use queue::*;
pub use recipients::*;
pub use refile::{MovedPost, Refiled};
pub use tally::{PoolUse, Written};
pub use wake::WakeUp;
pub use watch::*;
