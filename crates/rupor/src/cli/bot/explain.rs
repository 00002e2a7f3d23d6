//! `rupor bot explain`: who would answer a text, and why not the others.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use domain::dialogue::choose::{
    Candidate, Scene, Tier, candidates, understand, understand_with_typos, woken_in,
};
use domain::dialogue::heard::Heard;
use domain::dialogue::{Decision, Event, Rules, State, step};
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::super::operator::say;
use crate::bot;

/// Show which rules a text wakes, and which one answers
///
/// Every candidate with what decides: tier, priority, form (text before regex before words), distinct words, slips,
/// line. Needs no database.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The rules file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What the person writes
    #[arg(value_name = "TEXT")]
    text: String,
    /// Where the dialogue stands; the start, if nothing is said
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Explain) -> anyhow::Result<()> {
    let rules = bot::sound(&args.file)?;
    let name = args.state.clone().unwrap_or_else(|| rules.start.clone());
    if !rules.states.contains_key(&name) {
        let known: Vec<&str> = rules.states.keys().map(String::as_str).collect();
        bail!("no state is called `{name}`; states are {}", known.join(", "));
    }
    let state = State { name, ..State::default() };
    let now = Timestamp(jiff::Timestamp::now().as_microsecond());
    let decision = step(&rules, &state, &Event::text(now, &args.text), now);
    let rows = rows(&rules, &state, &args.text, now);
    if args.json {
        let said: Vec<&str> = decision.replies.iter().map(|reply| reply.text.as_str()).collect();
        let object = json!({
            "text": args.text, "state": state.name, "candidates": rows, "verdict": decision.verdict().as_str(),
            "rule": answered(&decision), "to": decision.state.name, "replies": said,
        });
        say(&object.to_string())?;
        return Ok(());
    }
    say(&format!("«{}» in the state {}", args.text, state.name))?;
    for row in &rows {
        let text = |key: &str| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned);
        let held = if row["holds"] == json!(false) { "; its condition does not hold" } else { "" };
        let slips =
            if row["typos"] == json!(0) { String::new() } else { format!(", {} slips", text("typos")) };
        let (tier, rule, line, form) = (text("tier"), text("rule"), text("line"), text("form"));
        let (priority, words) = (text("priority"), text("words"));
        say(&format!(
            "  {tier:<9} {rule} (line {line}): priority {priority}, {form}, {words} words{slips}{held}"
        ))?;
    }
    if rows.is_empty() {
        say("  no rule listens for any of these words")?;
    }
    let by = match answered(&decision) {
        "" => String::new(),
        rule => format!(" by {rule}"),
    };
    say(&format!("→ {}{by}; then in the state {}", decision.verdict().as_str(), decision.state.name))?;
    for reply in &decision.replies {
        say(&format!("‹ {}", reply.text.replace('\n', "\n  ")))?;
    }
    Ok(())
}

fn answered(decision: &Decision) -> &str {
    decision.logs.iter().map(|log| log.rule.as_str()).find(|rule| !rule.is_empty()).unwrap_or_default()
}

/// Every rule that the text wakes, in the order in which they are asked.
fn rows(rules: &Rules, state: &State, text: &str, now: Timestamp) -> Vec<Value> {
    let heard = Heard::new(text);
    let scene = Scene { rules, state, platform: "", now };
    let (exact, near) = (understand(rules, &heard), understand_with_typos(rules, &heard));
    let mut rows = Vec::new();
    for tier in Tier::ALL {
        let held = candidates(&scene, tier, &heard, &exact);
        let sure = woken_in(rules, &state.name, tier, &heard, &exact);
        let slips = woken_in(rules, &state.name, tier, &heard, &near);
        let unsure = slips.into_iter().filter(|one| !sure.iter().any(|other| other.rule == one.rule));
        let unsure: Vec<Candidate> = unsure.collect();
        for candidate in sure.iter().chain(&unsure) {
            let (rule, key) = (&rules.rules[candidate.rule], &candidate.key);
            let holds = key.typos > 0 || held.iter().any(|one| one.rule == candidate.rule);
            rows.push(json!({
                "tier": tier.name(), "rule": rule.name, "line": rule.line, "priority": key.priority.0,
                "form": key.form.name(), "words": key.words.0, "typos": key.typos, "holds": holds,
            }));
        }
    }
    rows
}
