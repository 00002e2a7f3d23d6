//! The `rupor` binary: reads the command line and hands over to `cli`.

use std::process::ExitCode;

mod api;
mod board;
mod cli;
mod config;
mod demo;
#[cfg(test)]
mod fuzz;
mod http;
mod node;
mod operate;
mod why;

fn main() -> ExitCode {
    cli::main()
}
