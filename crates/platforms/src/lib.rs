//! HOW OTHERS SPEAK: Telegram, VK and MAX, and programs that hear by webhook. The only HTTP client and the only wire
//! JSON.
//!
//! It knows nothing of queues, retries or the database: a message becomes parts, a part becomes an outcome.
//! Read in the order of the `mod` lines.

pub mod base64;
pub mod part;
pub mod render;

pub mod facts;
pub mod platform;
pub mod registry;

pub mod incoming;
pub mod media;
pub mod verdict;

pub mod egress;
pub mod secret;
pub mod transport;

pub mod max;
pub mod telegram;
pub mod vk;
pub mod walls;
pub mod webhook;

// Fuzz entries are shared with the fuzzer, which sees this crate from outside.
#[cfg(test)]
extern crate self as platforms;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod testing;
