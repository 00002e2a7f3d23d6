//! `rupor bot graph`: the states and the ways between them, as a picture.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use domain::dialogue::graph;

use crate::bot;

/// Draw the states of a rules file
///
/// Prints text that Mermaid (also in many editors and on code hosts) or Graphviz draws. Needs no database.
#[derive(Debug, Args)]
pub(super) struct Graph {
    /// The rules file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// For Mermaid; this is the default
    #[arg(long, conflicts_with = "dot")]
    mermaid: bool,
    /// For Graphviz
    #[arg(long)]
    dot: bool,
}

pub(super) fn run(args: &Graph) -> anyhow::Result<()> {
    let (rules, faults) = bot::check(&bot::source(&args.file)?);
    let Some(rules) = rules else {
        let lines: Vec<String> = faults.iter().map(|fault| bot::at(&args.file, fault)).collect();
        anyhow::bail!("{}", lines.join("\n"));
    };
    let picture = if args.dot { graph::dot(&rules) } else { graph::mermaid(&rules) };
    write!(anstream::stdout(), "{picture}")?;
    Ok(())
}
