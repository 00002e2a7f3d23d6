//! The `rupor` binary: reads the command line and hands over to `cli`.

use std::process::ExitCode;

mod bot;
mod cli;
mod config;
mod demo;
mod desk;
#[cfg(test)]
mod fuzz;
mod http;
mod language;
mod node;
mod operate;
mod people;
mod watch;
mod why;

fn main() -> ExitCode {
    // What this process writes is for its own user: database, media, backups, socket, notes.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    cli::main()
}
