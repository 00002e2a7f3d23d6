//! The `rupor` binary: reads the command line and hands over to `cli`.

use std::process::ExitCode;

mod addresses;
mod cli;
mod config;
mod dispatch;
mod sim;

fn main() -> ExitCode {
    cli::main()
}
