//! The `rupor` binary: reads the command line and hands over to `cli`.

use std::process::ExitCode;

mod addresses;
mod cli;
mod config;
mod dispatch;
mod epoch;
mod http;
#[allow(dead_code, unused_imports, reason = "the loops of `rupor run` take it up")]
mod ingest;
#[allow(dead_code, unused_imports, reason = "the loops of `rupor run` take it up")]
mod sources;

fn main() -> ExitCode {
    cli::main()
}
