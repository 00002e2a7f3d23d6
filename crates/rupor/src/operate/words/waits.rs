//! Waits that end by themselves, and are too long for nobody to be told.

use domain::limits::ALERT_WAIT;
use domain::time::Timestamp;
use store::Channel;

use super::{Explanation, command, in_time, quoted};
use crate::language::{heard, say};
use crate::operate::facts::{Facts, HELD_POSTS_MAX};

/// An open channel whose first post was put off for long.
pub(crate) fn put_off(facts: &Facts, channel: &Channel) -> Option<Explanation> {
    let lane = facts.lane_of(channel).filter(|lane| lane.counts.retry > 0)?;
    let until = lane.next_at.filter(|at| is_long(facts, *at))?;
    if facts.account_of(channel).is_some_and(|account| account.paused || account.cooldown_until > facts.now)
        || crate::config::quiet::closed_until(&channel.settings, facts.now).is_some()
    {
        return None;
    }
    let resume = command(facts, &format!("rupor channel resume {}", quoted(&channel.name)));
    Some(Explanation {
        headline: say!("late.put_off", name = &channel.name),
        cause: say!("late.put_off.cause"),
        since: None,
        next: say!("trouble.source.at", when = in_time(facts, until)),
        help: vec![format!("$ {resume}").into()],
        now: facts.now,
    })
}

/// A wait that nobody should have to find out about by waiting.
pub(crate) fn is_long(facts: &Facts, until: Timestamp) -> bool {
    until - facts.now > ALERT_WAIT
}

/// Posts that wait for a person, all in one: each is decided by its own.
pub(crate) fn held_posts(facts: &Facts) -> Option<Explanation> {
    let first = facts.held_posts.first()?;
    let mut messages: Vec<_> = facts.held_posts.iter().map(|post| post.message_id).collect();
    messages.dedup();
    let name = facts.channel(first.channel_id).map_or("?", |channel| channel.name.as_str());
    let end = facts.held_posts.iter().filter_map(|post| post.expires_at).min();
    let list = command(facts, "rupor message list");
    let approve = command(facts, &format!("rupor message approve {}", first.message_id));
    let reject = command(facts, &format!("rupor message reject {}", first.message_id));
    Some(Explanation {
        headline: match facts.held_posts.len() == HELD_POSTS_MAX {
            true => say!("posts.wait_at_least", n = messages.len()),
            false => say!("posts.wait", n = messages.len()),
        },
        cause: say!("posts.wait.cause", id = first.message_id.0, name = name, why = heard(&first.why)),
        since: Some(first.held_at),
        next: match end {
            Some(end) => say!("posts.wait.until", when = in_time(facts, end)),
            None => say!("posts.wait.next"),
        },
        help: [list, approve, reject].map(|command| format!("$ {command}").into()).to_vec(),
        now: facts.now,
    })
}
