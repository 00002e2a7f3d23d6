//! The chat bot's rules: what a dialogue answers, and where it stands afterwards.
//!
//! `step` takes the rules, the state, one event and the time, and returns a decision. It is pure and total: equal
//! input gives an equal decision, whatever the database. It must not know of chats, accounts, deliveries or HTTP.
//! Read `event`, `state` and `decision` (what goes in and out), `rules` and `file` (what is written), then `step`.

pub mod decision;
pub mod event;
pub mod state;

pub mod fault;
mod file;
pub mod hours;
pub mod rules;

pub mod heard;
pub mod words;

mod acts;
pub mod choose;
mod placeholders;
mod slots;
mod step;
pub mod texts;

pub mod graph;
pub mod lint;
pub mod transcript;

pub use decision::{Call, Decision, Handoff, Log, Reply, Subscription, Verdict};
pub use event::{Event, What, answer_fields};
pub use fault::Fault;
pub use rules::Rules;
pub use state::{Mode, State};
pub use step::{LATE, step};

/// Bytes that a button may carry: the shortest limit of the platforms.
pub const BUTTON_ID_BYTES_MAX: usize = 64;

/// Rules that are offered when words only nearly fit.
const OFFERS_MAX: usize = 3;
/// What the buttons that the bot makes by itself carry.
const OFFER_MARK: char = '!';
const SKIP_ID: &str = "_skip";
const SUBSCRIBE_ID: &str = "_subscribe";
