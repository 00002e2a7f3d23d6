//! The store's promises, held on both databases.
//!
//! Each case is written once, in a file named for its subject, and run on SQLite and on PostgreSQL. After every
//! case the audit compares the narrow tables, the counters and the heads with the rows people read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod world;

mod bot;
mod bot_calls;
mod bot_model;
mod campaigns;
mod claiming;
mod committing;
mod config;
mod disk;
mod durability;
mod enqueueing;
mod files;
mod held_posts;
mod history;
mod intake;
mod isolation;
mod maintaining;
mod media;
mod model;
mod overview;
mod pacing;
mod recipients;
mod recovering;
mod refiling;
mod sources;
mod watch;
mod waves;
