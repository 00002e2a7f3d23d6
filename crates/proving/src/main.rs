//! HOW WE KNOW: `rupor-bench` measures this machine and searches for broken promises.
//!
//! `sim` is the real dispatcher and store in a seeded world of faults, with planted bugs that it must catch; `bench` has
//! the figures. The product's binary carries none of it.

use std::process::ExitCode;

use clap::Parser;

mod bench;
mod judge;
mod sim;

/// Measure this machine and print one object of figures
///
/// Machines differ and are noisy: compare the ratios, not the absolute numbers.
#[derive(Debug, Parser)]
#[command(name = "rupor-bench", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    what: bench::What,
}

#[expect(clippy::print_stderr, reason = "this is the one place that reports to the terminal")]
fn main() -> ExitCode {
    match bench::run(&Cli::parse().what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rupor-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
