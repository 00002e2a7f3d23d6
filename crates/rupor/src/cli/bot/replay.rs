//! `rupor bot replay`: the same events through two versions of the rules, dialogue by dialogue, and where they part.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use domain::dialogue::{Event, Reply, Rules, State, What, step};
use domain::ids::RecipientId;
use domain::shown::line;
use domain::time::{Span, Timestamp};
use serde_json::{Value, json};
use store::BotLog;

use super::live::{PAGE, span};
use crate::cli::operator::OperatorArgs;
use crate::operate::bots::find_bot;
use crate::operate::verb::find_workspace;

#[derive(Debug, Args)]
pub(super) struct Replay {
    /// Name of the bot
    bot: String,
    /// The rules to compare with those that answer now
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    /// How far back
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = span)]
    since: Span,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) async fn run(args: &Replay) -> anyhow::Result<()> {
    let operator = &args.operator;
    let shown = args.rules.display().to_string();
    let text = std::fs::read_to_string(&args.rules).with_context(|| shown.clone())?;
    let new = read(&text, &shown)?;
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let bot = find_bot(&store, ws, &args.bot).await?;
    let versions = store.bot_rules(ws, bot.bot_id).await?;
    let active = versions.iter().find(|rules| rules.version == bot.active_version);
    let active = active.ok_or_else(|| anyhow!("bot {} has no rules yet", args.bot))?;
    let old = read(&active.rules, &format!("version {}", active.version))?;
    let since = store.now().await? - args.since;
    let (mut replayed, mut after) = (Replayed::new(&old, &new), 0);
    loop {
        let page = store.bot_logs(ws, None, since, after, PAGE).await?;
        let Some(end) = page.last() else { break };
        after = end.log_id;
        for log in page {
            if bot.accounts.iter().any(|account| account.account_id == log.account_id) {
                replayed.hear(&log);
            }
        }
    }
    let (seen, different) = (replayed.seen, replayed.different);
    operator.print(&json!({"events": seen, "different": different}), || {
        let mut text = format!("{seen} events, {} would be answered differently", different.len());
        for one in &different {
            let said = one["event"]["text"].as_str().or_else(|| one["event"]["what"].as_str()).unwrap_or("?");
            text += &format!("\n> {}\n  before: {}\n  after:  {}", line(said), one["before"], one["after"]);
        }
        text
    })
}

/// Dialogues under both rules; what is forgotten cannot be replayed.
struct Replayed<'a> {
    rules: [&'a Rules; 2],
    states: HashMap<RecipientId, [State; 2]>,
    /// The event that was replayed last: it has a line for each thing that was decided.
    last: i64,
    seen: usize,
    different: Vec<Value>,
}

impl<'a> Replayed<'a> {
    fn new(old: &'a Rules, new: &'a Rules) -> Replayed<'a> {
        Replayed { rules: [old, new], states: HashMap::new(), last: 0, seen: 0, different: Vec::new() }
    }

    fn hear(&mut self, log: &BotLog) {
        let (Some(body), Some(at)) = (&log.event, log.happened_at) else { return };
        if log.inbox_id == self.last {
            return;
        }
        self.last = log.inbox_id;
        self.seen += 1;
        let event: Event = engine::bot::hear::event(body, at);
        let states = self.states.entry(log.recipient_id).or_default();
        let [before, after] = [0, 1].map(|n| answer(self.rules[n], &mut states[n], &event, log.at));
        if before != after {
            self.different.push(json!({"event": body, "before": words(&before), "after": words(&after)}));
        }
    }
}

/// Clocks of one dialogue that may run out between two events.
const TIMERS_MAX: usize = 100;

/// A clock has no event that was kept: what ran out before the event is heard first, as it was then.
fn answer(rules: &Rules, state: &mut State, event: &Event, at: Timestamp) -> Vec<Reply> {
    for _ in 0..TIMERS_MAX {
        let Some(due) = state.due().filter(|due| *due < at) else { break };
        *state = step(rules, state, &What::Timer.on(&event.platform, due), due).state;
    }
    let decision = step(rules, state, event, at);
    *state = decision.state;
    decision.replies
}

fn words(replies: &[Reply]) -> Vec<&str> {
    replies.iter().map(|reply| reply.text.as_str()).collect()
}

fn read(text: &str, shown: &str) -> anyhow::Result<Rules> {
    Rules::read(text).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow!("{shown}: {}", faults.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use domain::ids::AccountId;

    use super::*;

    const RULES: &str = "subscribe = \"never\"\noperators = { channel = \"desk\", back = \"12h\" }\n\
                         [[rules]]\nname = \"human\"\non = { text = \"человек\" }\nhandoff = true\n\
                         [[rules]]\nname = \"price\"\non = { text = \"цена\" }\nreply = \"100 ₽\"\n";

    #[test]
    fn what_is_said_after_people_fell_silent_is_replayed_to_the_bot() {
        let (old, new) = (Rules::read(RULES).unwrap(), Rules::read(&RULES.replace("100", "200")).unwrap());
        let mut replayed = Replayed::new(&old, &new);
        for (n, (text, hours)) in [("человек", 0), ("цена", 1), ("цена", 14), ("цена", 15)].iter().enumerate()
        {
            let at = Timestamp(0) + Span::from_hours(*hours);
            replayed.hear(&BotLog {
                log_id: n as i64 + 1,
                account_id: AccountId(1),
                recipient_id: RecipientId(1),
                inbox_id: n as i64 + 1,
                at,
                version: 1,
                rule: None,
                verdict: "rule".into(),
                detail: json!({}),
                event: serde_json::to_value(Event::text(at, *text)).ok(),
                happened_at: Some(at),
            });
        }
        let told: Vec<_> =
            replayed.different.iter().map(|one| (&one["before"][0], &one["after"][0])).collect();
        assert_eq!(told, [(&json!("100 ₽"), &json!("200 ₽")); 2], "people had the first one");
        assert_eq!(replayed.seen, 4);
    }
}
