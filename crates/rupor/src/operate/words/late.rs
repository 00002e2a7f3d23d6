//! What should have gone and did not, and what was lost on the way.

use domain::time::{Span, Timestamp};
use store::{Channel, ChannelFailures, LaneSnapshot};

use super::{Explanation, cause, command, quoted};
use crate::language::say;
use crate::operate::facts::Facts;

/// The pause after failures is over, and nothing has gone well since.
pub(crate) fn channel_doubtful(facts: &Facts, channel: &Channel) -> Explanation {
    let found = cause(channel.paused_why.as_deref().unwrap_or_default(), "");
    let resume = command(facts, &format!("rupor channel resume {} --with-failed", quoted(&channel.name)));
    let help = [found.remedy, format!("$ {resume}").into()];
    Explanation {
        headline: say!("late.doubtful", name = &channel.name),
        cause: say!("late.doubtful.cause", cause = found.sentence, n = channel.error_streak),
        since: facts.channel_trouble_since(channel),
        next: say!("late.doubtful.next"),
        help: help.into_iter().filter(|help| !help.is_empty()).collect(),
        now: facts.now,
    }
}

/// Many attempts fail and are made again.
pub(crate) fn failing_often(facts: &Facts, channel: &Channel, failures: &ChannelFailures) -> Explanation {
    let list =
        command(facts, &format!("rupor delivery list --status retry --channel {}", quoted(&channel.name)));
    Explanation {
        headline: say!("late.failing_often", name = &channel.name, n = failures.retries_10min),
        cause: say!("late.failing_often.cause"),
        since: None,
        next: say!("late.failing_often.next"),
        help: vec!["$ rupor check".into(), format!("$ {list}").into()],
        now: facts.now,
    }
}

/// Nobody takes what is due.
pub(crate) fn stuck(facts: &Facts, channel: &Channel, due: Timestamp) -> Explanation {
    Explanation {
        headline: say!("late.stuck", name = &channel.name),
        cause: say!("late.stuck.cause", n = facts.waiting(channel), span = facts.now - due),
        since: Some(due),
        next: say!("late.stuck.next"),
        help: vec![say!("late.stuck.help"), say!("late.stuck.log")],
        now: facts.now,
    }
}

/// More comes than the channel may say.
pub(crate) fn lagging(facts: &Facts, channel: &Channel, lane: &LaneSnapshot, due: Timestamp) -> Explanation {
    Explanation {
        headline: say!("late.lag", name = &channel.name, n = lane.waiting, span = facts.now - due),
        cause: say!("late.lag.cause"),
        since: Some(due),
        next: match lane.eta_ms {
            Some(ms) => say!("late.lag.takes", span = Span::from_millis(ms)),
            None => say!("late.lag.empties"),
        },
        help: vec![say!("late.lag.help")],
        now: facts.now,
    }
}

/// Claims that nobody came back for.
pub(crate) fn lost_leases(facts: &Facts, n: i64) -> Explanation {
    Explanation {
        headline: say!("late.leases", n = n),
        cause: say!("late.leases.cause"),
        since: None,
        next: say!("late.leases.next", at = facts.now),
        help: vec![say!("late.leases.help")],
        now: facts.now,
    }
}
