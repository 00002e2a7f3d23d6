//! The `rupor` binary: reads the command line and hands over to `cli`.

use std::process::ExitCode;

mod addresses;
mod cli;
mod config;
mod demo;
mod dispatch;
mod epoch;
mod http;
#[allow(dead_code, unused_imports, reason = "import and single posts wait for their commands")]
mod ingest;
mod monitor;
mod node;
mod operate;
mod sim;
#[allow(dead_code, unused_imports, reason = "import and single posts wait for their commands")]
mod sources;
mod why;

fn main() -> ExitCode {
    cli::main()
}
