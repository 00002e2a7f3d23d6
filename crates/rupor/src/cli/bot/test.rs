//! `rupor bot test`: plays transcripts against a rules file.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use domain::dialogue::transcript::bless;
use serde_json::json;

use super::super::operator::say;
use crate::bot::{self, Rehearsal};

/// Play written dialogues against a rules file
///
/// A transcript is a file of lines: `> text` the person writes, `> [title]` presses a button, `‹ text` the bot answers,
/// `@ +31m` time passes, `= state menu; rule cancel` what must hold, `operator> text` people answer, `! blocked`,
/// `! duplicate`, `! photo` other things happen, `# …` a remark. Needs no database.
#[derive(Debug, Args)]
pub(super) struct Test {
    /// The rules file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Transcripts; without any, all *.dialogue beside the rules file
    #[arg(value_name = "TRANSCRIPT")]
    transcripts: Vec<PathBuf>,
    /// Write the transcripts again as the bot answers now; read the difference before you keep it
    #[arg(long)]
    bless: bool,
    /// Also say which rules and states no transcript came by
    #[arg(long)]
    coverage: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Test) -> anyhow::Result<()> {
    let (rules, faults) = bot::check(&bot::source(&args.file)?);
    let Some(rules) = rules else {
        let lines: Vec<String> = faults.iter().map(|fault| bot::at(&args.file, fault)).collect();
        bail!("{}", lines.join("\n"));
    };
    let paths = match args.transcripts.is_empty() {
        true => bot::transcripts(&args.file)?,
        false => args.transcripts.clone(),
    };
    if paths.is_empty() {
        bail!(
            "no *.dialogue beside {}; write one, such as first.dialogue with the line `> привет`",
            args.file.display()
        );
    }
    let mut rehearsals = Vec::new();
    for path in &paths {
        let mut rehearsal = bot::rehearse(&rules, path)?;
        if args.bless && renew(&rehearsal)? {
            rehearsal = bot::rehearse(&rules, path)?;
        }
        rehearsals.push(rehearsal);
    }
    let untouched = bot::untouched(&rules, &rehearsals);
    if args.json {
        print_json(&rehearsals, &untouched)?;
    } else {
        print(&rehearsals)?;
        if args.coverage {
            print_coverage(&rules, &untouched)?;
        }
    }
    let failed = rehearsals.iter().filter(|rehearsal| !rehearsal.played.faults.is_empty()).count();
    if failed > 0 {
        bail!("{failed} of {} transcripts failed", rehearsals.len());
    }
    Ok(())
}

/// Writes a transcript as it went; whether it changed.
fn renew(rehearsal: &Rehearsal) -> anyhow::Result<bool> {
    let Some(transcript) = &rehearsal.transcript else { return Ok(false) };
    let path = &rehearsal.path;
    let text = bless(transcript, &rehearsal.played);
    let before = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    if text == before {
        return Ok(false);
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

fn print(rehearsals: &[Rehearsal]) -> anyhow::Result<()> {
    for rehearsal in rehearsals {
        let faults = &rehearsal.played.faults;
        let turns = rehearsal.transcript.as_ref().map_or(0, |transcript| transcript.blocks.len());
        let word = if faults.is_empty() { "ok  " } else { "FAIL" };
        say(&format!("{word} {} ({turns} turns)", rehearsal.path.display()))?;
        for fault in faults {
            say(&format!("     {}", bot::at(&rehearsal.path, fault)))?;
        }
    }
    Ok(())
}

fn print_coverage(
    rules: &domain::dialogue::Rules,
    untouched: &(Vec<String>, Vec<String>),
) -> anyhow::Result<()> {
    let (silent, empty) = untouched;
    let part = |whole: usize, missing: usize| format!("{} of {whole}", whole - missing);
    say(&format!("rules that answered: {}", part(rules.rules.len(), silent.len())))?;
    say(&format!("states that were visited: {}", part(rules.states.len(), empty.len())))?;
    if !silent.is_empty() {
        say(&format!("never answered: {}", silent.join(", ")))?;
    }
    if !empty.is_empty() {
        say(&format!("never stood in: {}", empty.join(", ")))?;
    }
    Ok(())
}

fn print_json(rehearsals: &[Rehearsal], untouched: &(Vec<String>, Vec<String>)) -> anyhow::Result<()> {
    let row = |rehearsal: &Rehearsal| {
        let faults = rehearsal.played.faults.iter();
        let faults: Vec<_> = faults.map(|fault| json!({ "line": fault.line, "text": fault.text })).collect();
        json!({ "file": rehearsal.path, "ok": faults.is_empty(), "faults": faults })
    };
    let rows: Vec<_> = rehearsals.iter().map(row).collect();
    let object = json!({ "transcripts": rows, "rules_silent": untouched.0, "states_unvisited": untouched.1 });
    say(&object.to_string())?;
    Ok(())
}
