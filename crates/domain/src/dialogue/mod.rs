//! The chat bot's rules: what a dialogue answers, and where it stands afterwards.
//!
//! A step takes the rules, the state, one event and the time, and returns a decision. It is pure and total: equal
//! input gives an equal decision, whatever the database. It must not know of chats, accounts, deliveries or HTTP.

pub mod decision;
pub mod event;
pub mod state;

pub use decision::{Call, Decision, Handoff, Log, Reply, Subscription, Verdict};
pub use event::{Event, What};
pub use state::{Mode, State};

/// Bytes that a button may carry: the shortest limit of the platforms.
pub const BUTTON_ID_BYTES_MAX: usize = 64;
