//! WHAT IS TRUE: the rules of Rupor, pure. No I/O, no async; time and chance are arguments.
//!
//! One word per idea. A new word is added here or not used:
//!
//! | word | meaning |
//! |---|---|
//! | workspace | a tenant; every row belongs to one and none sees another |
//! | endpoint | an inbound door, known by its secret |
//! | account | a sender: one bot or community token; owns the rate budget |
//! | channel | a destination on an account |
//! | source | where posts are pulled from |
//! | message | normalised content, stored once |
//! | facts | what was recognised in a message |
//! | case | one real-world incident; messages attach to it |
//! | route | which messages go to which channels |
//! | destination | a channel or a recipient: where a delivery goes |
//! | delivery | one message to one channel or recipient |
//! | part | one request of a delivery |
//! | attempt | one claimed → sending of a delivery |
//! | lane | the unit of order and isolation: one channel, one campaign on one account, or one dialogue |
//! | campaign, recipient | a broadcast, and one of those it goes to |
//! | event | an audit row |
//! | dialogue, rule | the chat bot's state, and what moves it |
//!
//! Read in the order of the `mod` lines.

pub mod ids;
pub mod span;
pub mod time;

pub mod audience;
pub mod campaign;
pub mod chat;
pub mod forecast;
pub mod message;

pub mod delivery;
pub mod destination;
pub mod outcome;
pub mod settle;

pub mod limits;
pub mod pacing;
pub mod retry;

pub mod content;
pub mod dialogue;
pub mod route;

pub mod shown;
