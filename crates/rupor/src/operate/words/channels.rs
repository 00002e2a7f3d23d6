//! What keeps one channel from moving, and what it does next.

use domain::limits::CHANNEL_STREAK_MAX;
use domain::time::Timestamp;
use store::{Channel, ChannelFailures, DisabledBy};

use super::{Explanation, cause, command, in_time, is_long, plain, quoted};
use crate::language::{Phrase, say};
use crate::operate::facts::Facts;

pub(crate) fn channel_trouble(facts: &Facts, channel: &Channel) -> Option<Explanation> {
    let code = channel.paused_why.clone().unwrap_or_default();
    let found = cause(&code, "");
    let resume = command(facts, &format!("rupor channel resume {}", quoted(&channel.name)));
    let since = facts.channel_trouble_since(channel);
    let explained = |headline: Phrase, cause: Phrase, help: Vec<Phrase>| Explanation {
        headline,
        cause,
        since,
        next: channel_next(facts, channel),
        help: help.into_iter().filter(|help| !help.is_empty()).collect(),
        now: facts.now,
    };
    let name = &channel.name;
    let streak = channel.error_streak;
    match (channel.enabled, channel.disabled_by) {
        (false, Some(DisabledBy::Auto)) => {
            let cause = say!("channel.failures_in_a_row", cause = found.sentence, n = streak);
            let help = vec![found.remedy, format!("$ {resume} --with-failed").into()];
            Some(explained(say!("channel.shut", name = name), cause, help))
        }
        (false, _) => {
            let help = vec![format!("$ {}", resume.replace("channel resume", "channel enable")).into()];
            Some(explained(say!("channel.disabled", name = name), say!("channel.disabled.cause"), help))
        }
        (true, _) if channel.paused_until > facts.now && streak > 0 => {
            let help = vec![found.remedy, format!("$ {resume} --with-failed").into()];
            let cause =
                say!("channel.failure_of", cause = found.sentence, n = streak, max = CHANNEL_STREAK_MAX);
            Some(explained(say!("channel.paused", name = name), cause, help))
        }
        (true, _) if channel.paused_until == Timestamp::NEVER => {
            let cause = match code.as_str() {
                "" => say!("channel.paused.by_operator"),
                code => say!("channel.paused.why", why = code),
            };
            Some(explained(say!("channel.paused", name = name), cause, vec![format!("$ {resume}").into()]))
        }
        (true, _) if channel.paused_until > facts.now => {
            // Words that are no code of ours are an operator's: they may end early what they began.
            let by_hand = found.remedy.is_empty() || is_long(facts, channel.paused_until);
            let resume = if by_hand { format!("$ {resume}").into() } else { Phrase::none() };
            let help = vec![found.remedy, resume];
            Some(explained(say!("channel.paused", name = name), found.sentence, help))
        }
        _ => None,
    }
}

/// What a channel does next by itself.
pub(super) fn channel_next(facts: &Facts, channel: &Channel) -> Phrase {
    let waiting = facts.waiting(channel);
    let kept = if waiting > 0 { say!("channel.kept", n = waiting) } else { Phrase::none() };
    let next = match (channel.enabled, channel.disabled_by) {
        (false, Some(DisabledBy::Auto)) => say!("channel.next.until_resumed"),
        (false, _) => say!("channel.next.until_enabled"),
        _ if channel.paused_until == Timestamp::NEVER => say!("channel.next.until_resumed"),
        _ if channel.paused_until > facts.now => {
            let when = in_time(facts, channel.paused_until);
            match channel.error_streak {
                0 => say!("channel.next.tries", when = when),
                _ => say!("channel.next.tries_or_shut", when = when, max = CHANNEL_STREAK_MAX),
            }
        }
        _ => say!("channel.next.goes_on"),
    };
    next.and(kept)
}

pub(super) fn quiet(facts: &Facts, channel: &Channel) -> Option<Explanation> {
    let until = crate::config::quiet::closed_until(&channel.settings, facts.now)?;
    let hours = channel.settings.quiet_hours.as_deref().unwrap_or_default();
    let zone = channel.settings.time_zone.as_deref().unwrap_or("UTC");
    let headline = say!("channel.quiet", name = &channel.name);
    let mut quiet = plain(facts, headline, say!("next.goes_on", when = in_time(facts, until)));
    quiet.cause = format!("quiet_hours {hours} ({zone})").into();
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
    let status =
        if failures.last_name.as_deref() == Some("dead_letter") { "dead" } else { "failed_permanent" };
    let which = format!("--status {status} --channel {}", quoted(&channel.name));
    let list = command(facts, &format!("rupor delivery list {which}"));
    let requeue = command(facts, &format!("rupor delivery requeue {which}"));
    Some(Explanation {
        headline: say!("channel.unsent", name = &channel.name, n = failures.failed),
        cause: say!("channel.unsent.cause", cause = cause(code, "").sentence),
        since: failures.first_at,
        next: say!("channel.unsent.next"),
        help: vec![format!("$ {list}").into(), format!("$ {requeue}").into()],
        now: facts.now,
    })
}
