//! Trouble of bots: who is not answered, not understood, not heard.

use domain::time::Span;
use store::{Bot, BotAccount};

use super::{Explanation, command, counted, quoted};
use crate::operate::facts::Facts;

/// A message that nobody has looked at for so long.
const UNANSWERED_MAX: Span = Span::from_secs(60);
/// More than this share of so many messages within an hour was not understood.
const LOST_MIN: i64 = 50;
const LOST_SHARE: i64 = 5;
/// A person who waits for a human for so long.
const HANDOFF_MAX: Span = Span::from_secs(30 * 60);
/// A platform that does not answer for so long.
const DEAF_AFTER: Span = Span::from_secs(60);

pub(crate) fn unanswered(facts: &Facts) -> Option<Explanation> {
    let since = facts.bot.oldest.filter(|since| facts.now - *since > UNANSWERED_MAX)?;
    Some(Explanation {
        headline: format!(
            "{} for an answer of the bot",
            counted(as_n(facts.bot.waiting), "message waits", "messages wait")
        ),
        cause: "nobody takes turns: no node runs, it is overloaded, or it cannot write to its database"
            .to_owned(),
        since: Some(since),
        next: "nothing is lost: they are answered when somebody takes turns again".to_owned(),
        help: vec![
            format!("$ {}", command(facts, "rupor bot status")),
            "see whether `rupor run` runs, and its log".to_owned(),
        ],
        now: facts.now,
    })
}

pub(crate) fn not_understood(facts: &Facts) -> Option<Explanation> {
    let (all, lost) = (facts.bot.turns, facts.bot.fallbacks);
    if all < LOST_MIN || lost * LOST_SHARE <= all {
        return None;
    }
    let name = facts.bots.first().map_or("NAME", |bot| bot.name.as_str());
    let replay = command(facts, &format!("rupor bot replay {} --since 1h --rules FILE", quoted(name)));
    Some(Explanation {
        headline: format!("the bot did not understand {lost} of {all} messages within an hour"),
        cause: "people ask what no rule knows, or new rules know less than those before".to_owned(),
        since: None,
        next: "people are offered the menu, then a human".to_owned(),
        help: vec![
            "add a rule for what they ask, and try it with `rupor bot explain`".to_owned(),
            format!("$ {replay}"),
            format!("$ {}", command(facts, &format!("rupor bot versions {}", quoted(name)))),
        ],
        now: facts.now,
    })
}

pub(crate) fn broke(facts: &Facts) -> Option<Explanation> {
    let n = as_n(facts.bot.errors);
    let name = facts.bots.first().map_or("NAME", |bot| bot.name.as_str());
    (n > 0).then(|| Explanation {
        headline: format!(
            "the rules of the bot broke at {} within an hour",
            counted(n, "message", "messages")
        ),
        cause: "a defect of Rupor, met by these rules".to_owned(),
        since: None,
        next: "such a message gets no answer; the dialogue goes on with the next one".to_owned(),
        help: vec![
            "report what the log of the node says".to_owned(),
            format!("$ {}", command(facts, &format!("rupor bot activate {} VERSION", quoted(name)))),
        ],
        now: facts.now,
    })
}

pub(crate) fn handoffs(facts: &Facts) -> Option<Explanation> {
    let since = facts.bot.handoff_since.filter(|since| facts.now - *since > HANDOFF_MAX)?;
    Some(Explanation {
        headline: format!(
            "{} for a human",
            counted(as_n(facts.bot.handoffs_waiting), "person waits", "people wait")
        ),
        cause: "the bot handed them over, and nobody has answered".to_owned(),
        since: Some(since),
        next: "the bot takes them back when `operators.back` of its rules has passed".to_owned(),
        help: vec![
            "answer in the operators' channel, by reply or with the number: `#A17 text`; `#A17 /close` gives back".to_owned(),
        ],
        now: facts.now,
    })
}

/// An account that people write to and that does not hear.
pub(crate) fn deaf(facts: &Facts, bot: &Bot, account: &BotAccount) -> Option<Explanation> {
    let problem = account.problem.as_ref()?;
    if account.heard_at.is_some_and(|at| facts.now - at < DEAF_AFTER) {
        return None;
    }
    let row = facts.accounts.iter().find(|row| row.account_id == account.account_id);
    let name = row.map_or("?", |row| row.name.as_str());
    Some(Explanation {
        headline: format!("bot {} does not hear account {name}", bot.name),
        cause: problem.clone(),
        since: account.heard_at,
        next: "it is tried again by itself; what people write meanwhile waits at the platform".to_owned(),
        help: vec![format!("$ {}", command(facts, &format!("rupor bot hooks show {}", quoted(&bot.name))))],
        now: facts.now,
    })
}

fn as_n(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}
