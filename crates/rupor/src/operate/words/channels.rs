//! What keeps one channel from moving, and what it does next.

use domain::limits::CHANNEL_STREAK_MAX;
use domain::time::Timestamp;
use store::{Channel, ChannelFailures, DisabledBy};

use super::{Explanation, cause, command, counted, how_long, is_long, moment, plain, quoted};
use crate::operate::facts::Facts;

pub(crate) fn channel_trouble(facts: &Facts, channel: &Channel) -> Option<Explanation> {
    let code = channel.paused_why.clone().unwrap_or_default();
    let found = cause(&code, "");
    let resume = command(facts, &format!("rupor channel resume {}", quoted(&channel.name)));
    let since = facts.channel_trouble_since(channel);
    let explained = |headline: String, cause: String, help: Vec<String>| Explanation {
        headline,
        cause,
        since,
        next: channel_next(facts, channel),
        help: help.into_iter().filter(|help| !help.is_empty()).collect(),
        now: facts.now,
    };
    let name = &channel.name;
    match (channel.enabled, channel.disabled_by) {
        (false, Some(DisabledBy::Auto)) => {
            let cause = format!("{} ({} failures in a row)", found.sentence, channel.error_streak);
            let help = vec![found.remedy, format!("$ {resume} --with-failed")];
            Some(explained(format!("channel {name} is shut after repeated failures"), cause, help))
        }
        (false, _) => {
            let help = vec![format!("$ {}", resume.replace("channel resume", "channel enable"))];
            Some(explained(format!("channel {name} is disabled"), "an operator disabled it".to_owned(), help))
        }
        (true, _) if channel.paused_until > facts.now && channel.error_streak > 0 => {
            let help = vec![found.remedy, format!("$ {resume} --with-failed")];
            let cause =
                format!("{} (failure {} of {CHANNEL_STREAK_MAX})", found.sentence, channel.error_streak);
            Some(explained(format!("channel {name} is paused"), cause, help))
        }
        (true, _) if channel.paused_until == Timestamp::NEVER => {
            let cause = if code.is_empty() {
                "an operator paused it".to_owned()
            } else {
                format!("an operator paused it: {code}")
            };
            Some(explained(format!("channel {name} is paused"), cause, vec![format!("$ {resume}")]))
        }
        (true, _) if channel.paused_until > facts.now => {
            // Words that are no code of ours are an operator's: they may end early what they began.
            let by_hand = found.remedy.is_empty() || is_long(facts, channel.paused_until);
            let resume = if by_hand { format!("$ {resume}") } else { String::new() };
            Some(explained(format!("channel {name} is paused"), found.sentence, vec![found.remedy, resume]))
        }
        _ => None,
    }
}

/// What a channel does next by itself.
pub(super) fn channel_next(facts: &Facts, channel: &Channel) -> String {
    let waiting = facts.waiting(channel);
    let kept = match waiting {
        0 => String::new(),
        1 => "; 1 delivery waits and is kept".to_owned(),
        n => format!("; {n} deliveries wait and are kept"),
    };
    match (channel.enabled, channel.disabled_by) {
        (false, Some(DisabledBy::Auto)) => {
            format!("nothing is sent until somebody resumes the channel; new posts keep queueing{kept}")
        }
        (false, _) => {
            format!("nothing is sent and no new posts are taken until somebody enables the channel{kept}")
        }
        _ if channel.paused_until == Timestamp::NEVER => {
            format!("nothing is sent until somebody resumes the channel; new posts keep queueing{kept}")
        }
        _ if channel.paused_until > facts.now => {
            let until = channel.paused_until;
            let then = if channel.error_streak > 0 {
                format!(" and is shut after {CHANNEL_STREAK_MAX} failures in a row")
            } else {
                String::new()
            };
            format!(
                "the channel tries again by itself at {} (in {}){then}{kept}",
                moment(until),
                how_long(until - facts.now)
            )
        }
        _ => format!("the channel goes on{kept}"),
    }
}

pub(super) fn quiet(facts: &Facts, channel: &Channel) -> Option<Explanation> {
    let until = crate::config::quiet::closed_until(&channel.settings, facts.now)?;
    let hours = channel.settings.quiet_hours.as_deref().unwrap_or_default();
    let zone = channel.settings.time_zone.as_deref().unwrap_or("UTC");
    let mut quiet = plain(
        facts,
        format!("channel {} has its quiet hours", channel.name),
        format!("it goes on by itself at {} (in {})", moment(until), how_long(until - facts.now)),
    );
    quiet.cause = format!("quiet_hours {hours} ({zone})");
    Some(quiet)
}

/// Deliveries of a day that ended without being sent, and that nobody has queued again.
pub(crate) fn channel_failures(
    facts: &Facts,
    channel: &Channel,
    failures: &ChannelFailures,
) -> Option<Explanation> {
    if failures.failed == 0 {
        return None;
    }
    let code = failures.last_code.as_deref().unwrap_or_default();
    if channel.error_streak > 0 && channel.paused_why.as_deref() == Some(code) {
        // The trouble of the channel says it already, and resuming it offers these again.
        return None;
    }
    let words = cause(code, "").sentence;
    let status =
        if failures.last_name.as_deref() == Some("dead_letter") { "dead" } else { "failed_permanent" };
    let name = quoted(&channel.name);
    let failed = usize::try_from(failures.failed).unwrap_or(usize::MAX);
    Some(Explanation {
        headline: format!(
            "channel {}: {} not sent lately",
            channel.name,
            counted(failed, "delivery was", "deliveries were")
        ),
        cause: format!("the last one: {words}"),
        since: failures.first_at,
        next: "nothing: they stay as they are until somebody queues them again".to_owned(),
        help: vec![
            format!(
                "$ {}",
                command(facts, &format!("rupor delivery list --status {status} --channel {name}"))
            ),
            format!(
                "$ {}",
                command(facts, &format!("rupor delivery requeue --status {status} --channel {name}"))
            ),
        ],
        now: facts.now,
    })
}
