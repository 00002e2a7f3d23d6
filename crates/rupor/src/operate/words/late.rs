//! What should have gone and did not, and what was lost on the way.

use domain::time::{Span, Timestamp};
use store::{Channel, ChannelFailures, LaneSnapshot};

use super::{Explanation, cause, command, counted, how_long, moment, quoted};
use crate::operate::facts::Facts;

/// The pause after failures is over, and nothing has gone well since.
pub(crate) fn channel_doubtful(facts: &Facts, channel: &Channel) -> Explanation {
    let found = cause(channel.paused_why.as_deref().unwrap_or_default(), "");
    let resume = command(facts, &format!("rupor channel resume {} --with-failed", quoted(&channel.name)));
    Explanation {
        headline: format!("channel {} refused the last posts", channel.name),
        cause: format!("{} (failure {})", found.sentence, channel.error_streak),
        since: facts.channel_trouble_since(channel),
        next: "the next post is tried; if it goes well, all is well".to_owned(),
        help: [found.remedy, format!("$ {resume}")].into_iter().filter(|help| !help.is_empty()).collect(),
        now: facts.now,
    }
}

/// Many attempts fail and are made again.
pub(crate) fn failing_often(facts: &Facts, channel: &Channel, failures: &ChannelFailures) -> Explanation {
    let list =
        command(facts, &format!("rupor delivery list --status retry --channel {}", quoted(&channel.name)));
    Explanation {
        headline: format!(
            "channel {}: {} failed within 10 minutes",
            channel.name,
            counted(usize::try_from(failures.retries_10min).unwrap_or(usize::MAX), "attempt", "attempts")
        ),
        cause: "the platform or the way to it fails again and again".to_owned(),
        since: None,
        next: "each is tried again by itself, at most five times; then it is given up".to_owned(),
        help: vec!["$ rupor check".to_owned(), format!("$ {list}")],
        now: facts.now,
    }
}

/// Nobody takes what is due.
pub(crate) fn stuck(facts: &Facts, channel: &Channel, due: Timestamp) -> Explanation {
    let waiting = facts.waiting(channel);
    Explanation {
        headline: format!("channel {}: posts are due and nobody takes them", channel.name),
        cause: format!(
            "{} for {}, and nothing holds the channel back; no node sends, or the one that does hangs",
            counted(usize::try_from(waiting).unwrap_or(0), "post has been due", "posts have been due"),
            how_long(facts.now - due)
        ),
        since: Some(due),
        next: "nothing is lost: they are sent when a node takes them".to_owned(),
        help: vec![
            "start a node whose loops include `dispatch`: `$ rupor run`".to_owned(),
            "look into the log of the node that should send".to_owned(),
        ],
        now: facts.now,
    }
}

/// More comes than the channel may say.
pub(crate) fn lagging(facts: &Facts, channel: &Channel, lane: &LaneSnapshot, due: Timestamp) -> Explanation {
    let takes = match lane.eta_ms {
        Some(ms) => {
            format!("the queue empties by itself in about {}", how_long(Span::from_millis(ms)))
        }
        None => "the queue empties by itself".to_owned(),
    };
    Explanation {
        headline: format!(
            "channel {}: {} wait, the first for {}",
            channel.name,
            counted(usize::try_from(lane.waiting).unwrap_or(0), "post", "posts"),
            how_long(facts.now - due)
        ),
        cause: "more posts come than the pace of the channel or its account lets out".to_owned(),
        since: Some(due),
        next: takes,
        help: vec![
            "raise `rate` as far as the platform allows, narrow the `route`, or set `max_age`".to_owned(),
        ],
        now: facts.now,
    }
}

/// Claims that nobody came back for.
pub(crate) fn lost_leases(facts: &Facts, n: i64) -> Explanation {
    Explanation {
        headline: format!(
            "{} within 10 minutes by whoever held them",
            counted(usize::try_from(n).unwrap_or(0), "claim was lost", "claims were lost")
        ),
        cause: "a node died, hung or lost the database while it was sending".to_owned(),
        since: None,
        next: format!(
            "they were taken up again at {} at the latest; what may have been sent follows the channel's policy",
            moment(facts.now)
        ),
        help: vec![
            "look into the logs of the nodes: did one restart, or is its machine overloaded?".to_owned(),
        ],
        now: facts.now,
    }
}
