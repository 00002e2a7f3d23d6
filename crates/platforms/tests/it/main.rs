//! The platforms against the sandbox: real sockets on loopback, and the sandbox's ledger as the judge.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod cases;
mod faults;
mod media;
mod pages;
mod talk;
mod world;
