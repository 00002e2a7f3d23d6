//! `rupor-bench saboteurs`: plants one known bug after the other and waits for the checker to speak.

use std::io::Write;
use std::time::Instant;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::sim::many::hunt;
use crate::sim::saboteur::Saboteur;

/// Plant known bugs in the simulator and see that each is caught
#[derive(Debug, Args)]
pub(crate) struct Saboteurs {
    /// Seeds to try for each bug
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Saboteurs) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    let mut rows: Vec<Value> = Vec::new();
    let mut escaped = Vec::new();
    for saboteur in Saboteur::ALL {
        let started = Instant::now();
        let caught = hunt(saboteur, args.from, args.seeds)?;
        let seconds = started.elapsed().as_secs_f64();
        let Some(outcome) = caught else {
            escaped.push(saboteur.name());
            rows.push(json!({"saboteur": saboteur.name(), "caught": false, "seconds": seconds}));
            continue;
        };
        let Some(first) = outcome.violations.first() else {
            continue;
        };
        rows.push(json!({
            "saboteur": saboteur.name(),
            "caught": true,
            "seed": outcome.seed,
            "invariant": first.invariant,
            "what": first.what,
            "seconds": seconds,
        }));
        if !args.json {
            let (name, seed) = (saboteur.name(), outcome.seed);
            writeln!(out, "{name:<34} seed {seed:>4}  {} {}", first.invariant, first.what)?;
        }
    }
    let (n, all) = (Saboteur::ALL.len() - escaped.len(), Saboteur::ALL.len());
    if args.json {
        writeln!(out, "{}", json!({"caught": n, "of": all, "saboteurs": rows}))?;
    } else {
        writeln!(out, "{n} of {all} caught")?;
    }
    if !escaped.is_empty() {
        bail!("not caught in {} seeds: {}", args.seeds, escaped.join(", "));
    }
    Ok(())
}
