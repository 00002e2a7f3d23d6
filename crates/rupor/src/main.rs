//! The `rupor` binary: reads the command line and hands over to `cli`.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::main()
}
