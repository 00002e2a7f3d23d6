//! `rupor-bench dialogue`: steps a second on one core, with fifty rules.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use clap::Args;
use domain::dialogue::{Event, Rules, State, step};
use domain::time::{Span, Timestamp};
use serde_json::json;

use super::content::cpu_seconds;

/// The shop of the examples, and what people write to it.
const SHOP: &str = include_str!("../../../../examples/shop/shop.toml");
const PHRASES: &str = include_str!("../../../../examples/shop/phrases.txt");
const RULES: usize = 50;

/// Asks fifty rules what they answer, over and over on one core
#[derive(Debug, Args)]
pub(crate) struct Dialogue {
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Accepted like in every bench; this one uses no database
    #[arg(long, value_name = "URL", hide = true)]
    db: Option<String>,
}

pub(super) fn run(command: &Dialogue) -> anyhow::Result<()> {
    let rules = Rules::read(&fifty()).map_err(|faults| anyhow!("{}", faults[0]))?;
    ensure!(rules.rules.len() == RULES, "{} rules", rules.rules.len());
    let now = Timestamp::from_millis(1_794_992_400_000);
    let phrases = PHRASES.lines().filter_map(|line| line.split_once('\t')).map(|(_, phrase)| phrase);
    let mut events: Vec<Event> = phrases.map(|phrase| Event::text(now, phrase)).collect();
    // A form as people go through it, so that not every step begins at the start.
    let form = ["возврат", "AB-123456", "брак", "а доставка сколько стоит?", "Без фото", "да"];
    events.extend(form.map(|text| Event::text(now, text)));
    round(&rules, &events, now);
    let (cpu, began) = (cpu_seconds(), Instant::now());
    let mut steps = 0;
    while began.elapsed() < Duration::from_secs(command.seconds) {
        steps += round(&rules, &events, now);
    }
    let clock = began.elapsed().as_secs_f64();
    let cpu = cpu.zip(cpu_seconds()).map(|(before, after)| after - before).filter(|seconds| *seconds > 0.0);
    // A second of a core is a second of its work, not of waiting for it behind other programs.
    let seconds = cpu.unwrap_or(clock);
    let figures = json!({
        "bench": "dialogue",
        "rules": RULES,
        "steps": steps,
        "seconds": clock,
        "cpu_seconds": cpu,
        "steps_per_second_per_core": (steps as f64 / seconds).round(),
        "step_us_mean": seconds * 1e6 / steps as f64,
    });
    super::print(command.json, &figures)
}

/// One dialogue that says everything; minutes pass, so that no limit ends it.
fn round(rules: &Rules, events: &[Event], mut now: Timestamp) -> usize {
    let mut state = State::default();
    for event in events {
        now = now + Span::from_secs(3_600);
        let event = Event { at: now, ..event.clone() };
        state = black_box(step(rules, &state, &event, now)).state;
        if state.mode != domain::dialogue::Mode::Bot {
            state = State::default();
        }
    }
    events.len()
}

/// The shop with as many more topics as are missing, each with words of its own.
fn fifty() -> String {
    let known = SHOP.lines().filter(|line| line.contains("rules]]")).count();
    let mut source = SHOP.to_owned();
    for n in known..RULES {
        source += &format!(
            "\n[intents.topic{n}]\nany = [\"товар{n}|вещь{n}\", \"артикул слово{n}*\"]\n\
             [[rules]]\nname = \"topic{n}\"\non = {{ intent = \"topic{n}\" }}\nreply = \"Ответ {n}\"\n"
        );
    }
    source
}
