//! The store's promises, held on both databases.
//!
//! Each case is written once, in a file named for its subject, and run on SQLite and on PostgreSQL. After every
//! case the audit compares the narrow tables, the counters and the heads with the rows people read.

mod world;

mod claiming;
mod committing;
mod config;
mod durability;
mod enqueueing;
mod files;
mod isolation;
mod maintaining;
mod model;
mod pacing;
mod recovering;
