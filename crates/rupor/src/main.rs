//! The `rupor` binary: reads the command line and hands over to `cli`.

use std::process::ExitCode;

mod addresses;
mod api;
mod board;
mod cli;
mod config;
mod demo;
mod dispatch;
mod epoch;
mod http;
mod ingest;
mod monitor;
mod node;
mod operate;
mod sim;
mod sources;
mod why;

fn main() -> ExitCode {
    cli::main()
}
