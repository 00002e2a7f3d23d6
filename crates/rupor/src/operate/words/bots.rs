//! Trouble of bots: who is not answered, not understood, not heard.

use domain::limits::{
    ALERT_BOT_DEAF, ALERT_BOT_HANDOFF, ALERT_BOT_LOST_SHARE, ALERT_BOT_MESSAGES_MIN, ALERT_BOT_WAIT,
};
use store::{Bot, BotAccount, Receive};

use super::{Explanation, command, quoted};
use crate::language::say;
use crate::operate::facts::Facts;

pub(crate) fn unanswered(facts: &Facts) -> Option<Explanation> {
    let since = facts.bot.oldest.filter(|since| facts.now - *since > ALERT_BOT_WAIT)?;
    Some(Explanation {
        headline: say!("bots.unanswered", n = facts.bot.waiting),
        cause: say!("bots.unanswered.cause"),
        since: Some(since),
        next: say!("bots.unanswered.next"),
        help: vec![format!("$ {}", command(facts, "rupor bot status")).into(), say!("bots.unanswered.help")],
        now: facts.now,
    })
}

pub(crate) fn not_understood(facts: &Facts) -> Option<Explanation> {
    let (all, lost) = (facts.bot.turns, facts.bot.fallbacks);
    if all < ALERT_BOT_MESSAGES_MIN || lost * ALERT_BOT_LOST_SHARE <= all {
        return None;
    }
    let name = quoted(first_bot(facts));
    let replay = command(facts, &format!("rupor bot replay {name} --since 1h --rules FILE"));
    let versions = command(facts, &format!("rupor bot versions {name}"));
    Some(Explanation {
        headline: say!("bots.lost", lost = lost, all = all),
        cause: say!("bots.lost.cause"),
        since: None,
        next: say!("bots.lost.next"),
        help: vec![say!("bots.lost.help"), format!("$ {replay}").into(), format!("$ {versions}").into()],
        now: facts.now,
    })
}

pub(crate) fn broke(facts: &Facts) -> Option<Explanation> {
    if facts.bot.errors == 0 {
        return None;
    }
    let activate = command(facts, &format!("rupor bot activate {} VERSION", quoted(first_bot(facts))));
    Some(Explanation {
        headline: say!("bots.broke", n = facts.bot.errors),
        cause: say!("bots.broke.cause"),
        since: None,
        next: say!("bots.broke.next"),
        help: vec![say!("bots.broke.help"), format!("$ {activate}").into()],
        now: facts.now,
    })
}

pub(crate) fn handoffs(facts: &Facts) -> Option<Explanation> {
    let since = facts.bot.handoff_since.filter(|since| facts.now - *since > ALERT_BOT_HANDOFF)?;
    Some(Explanation {
        headline: say!("bots.handoffs", n = facts.bot.handoffs_waiting),
        cause: say!("bots.handoffs.cause"),
        since: Some(since),
        next: say!("bots.handoffs.next"),
        help: vec![say!("bots.handoffs.help")],
        now: facts.now,
    })
}

/// An account that people write to and that does not hear.
pub(crate) fn deaf(facts: &Facts, bot: &Bot, account: &BotAccount) -> Option<Explanation> {
    let row = facts.accounts.iter().find(|row| row.account_id == account.account_id);
    let name = row.map_or("?", |row| row.name.as_str());
    let headline = say!("bots.deaf", bot = &bot.name, name = name);
    if account.receive == Receive::Webhook && account.hook_key.is_none() {
        let set = format!("rupor bot hooks set {} --url https://HOST", quoted(&bot.name));
        return Some(Explanation {
            headline,
            cause: say!("bots.deaf.unset"),
            since: None,
            next: say!("bots.deaf.unset.next"),
            help: vec![format!("$ {}", command(facts, &set)).into()],
            now: facts.now,
        });
    }
    let problem = account.problem.as_ref()?;
    if account.heard_at.is_some_and(|at| facts.now - at < ALERT_BOT_DEAF) {
        return None;
    }
    let show = command(facts, &format!("rupor bot hooks show {}", quoted(&bot.name)));
    Some(Explanation {
        headline,
        cause: problem.into(),
        since: account.heard_at,
        next: say!("bots.deaf.next"),
        help: vec![format!("$ {show}").into()],
        now: facts.now,
    })
}

fn first_bot(facts: &Facts) -> &str {
    facts.bots.first().map_or("NAME", |bot| bot.name.as_str())
}
