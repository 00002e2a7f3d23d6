//! What counts as trouble: one list for `rupor status`, its exit code, `/readyz` and the alerts.
//!
//! A trouble has a key (what it is about, by ids), a kind, and a weight. Whoever can go wrong adds its own here: one
//! function from facts to troubles and one line in `troubles`. The words are those of `words`, the thresholds stand in
//! `domain::limits`.

use domain::limits::{
    ALERT_LAG, ALERT_LOST_LEASES_MIN, ALERT_REST, ALERT_RETRIES_MAX, ALERT_SOURCE, ALERT_STUCK,
};
use domain::time::Span;
use serde::Serialize;
use store::{Account, Channel, ChannelFailures, DisabledBy, Severity};

use super::facts::Facts;
use super::words::{self, Explanation};

/// Every kind with what it is, for people; docs/alerts.md lists them.
pub(crate) const KINDS: &[(&str, &str)] = &[
    ("database", "the database cannot be read or written, or does not answer for 5 s"),
    (
        "standstill",
        "a node that sends has claimed nothing and written no outcome down for 15 s although the database answers",
    ),
    ("database_slow", "the database took more than 2 s for a question three times in a row"),
    ("disk", "the disk of the database is nearly full"),
    (
        "history_lost",
        "the database has gone back in time: restored, replaced, or a standby that lacked commits",
    ),
    ("held", "somebody stopped all sending"),
    ("workspace_held", "somebody stopped all sending of one workspace"),
    ("account_paused", "an account cannot send: its token was revoked, or it is frozen"),
    (
        "account_rests",
        "an account waits for longer than a minute because the platform asked, with posts waiting",
    ),
    ("channel_kicked", "the bot was removed from a chat; told at the first failure"),
    ("channel_no_rights", "the account may not post in a chat; told at the first failure"),
    ("channel_failing", "a channel refuses posts for another reason; told at the first failure"),
    ("channel_shut", "a channel was shut after three failures in a row"),
    ("channel_waits", "a channel waits for longer than an hour because the platform asked"),
    ("source_failing", "a source cannot be read"),
    ("dead_letters", "posts of a channel ended unsent within a day and were not queued again"),
    ("failures", "more than 30 attempts of a channel failed within ten minutes"),
    ("lag", "a post that may go has waited for more than 15 minutes"),
    ("stuck", "posts are due and nobody has taken them for more than two leases"),
    ("leases_missed", "three or more claims within ten minutes were lost by whoever held them"),
    ("campaign_guard", "a guard has stopped a campaign, or the part of one account"),
    ("posts_wait", "posts wait for a person to approve them"),
    ("bot_waits", "a message to a bot has waited for an answer for more than a minute"),
    ("bot_lost", "a bot did not understand more than 20 % of at least 50 messages within an hour"),
    ("bot_errors", "the rules of a bot broke at a message within an hour"),
    ("bot_handoffs", "a person has waited for a human for more than 30 minutes"),
    (
        "bot_deaf",
        "an account of a bot has not been heard for more than a minute, or its platform was never told where to call",
    ),
];

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Weight {
    /// Somebody has to do something.
    Act,
    /// It ends by itself.
    Heals,
    /// An operator wanted it so: shown, not told.
    Meant,
}

impl Weight {
    /// `None`: nobody is told.
    pub(crate) fn severity(self) -> Option<Severity> {
        match self {
            Weight::Act => Some(Severity::Act),
            Weight::Heals => Some(Severity::Heals),
            Weight::Meant => None,
        }
    }
}

/// Whom it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reach {
    /// This process and its way to the database.
    Node,
    /// Everybody who uses the database.
    Everything,
    Workspace,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Trouble {
    /// What it is about, by ids: the same as long as it lasts.
    pub key: String,
    pub kind: &'static str,
    pub weight: Weight,
    pub reach: Reach,
    #[serde(flatten)]
    pub words: Explanation,
}

impl std::ops::Deref for Trouble {
    type Target = Explanation;
    fn deref(&self) -> &Explanation {
        &self.words
    }
}

impl Trouble {
    pub(crate) fn new(
        kind: &'static str,
        about: impl std::fmt::Display,
        weight: Weight,
        words: Explanation,
    ) -> Trouble {
        Trouble { key: about.to_string(), kind, weight, reach: Reach::Workspace, words }
    }

    fn of(self, reach: Reach) -> Trouble {
        Trouble { reach, ..self }
    }
}

/// Everything that keeps the channels of a workspace from moving, the widest first.
pub(crate) fn troubles(facts: &Facts) -> Vec<Trouble> {
    let mut troubles: Vec<Trouble> = database(facts).into_iter().chain(everything(facts)).collect();
    troubles.extend(facts.accounts.iter().filter_map(|account| of_account(facts, account)));
    for channel in &facts.channels {
        let of_channel = of_channel(facts, channel);
        let quiet = of_channel.is_none();
        troubles.extend(of_channel);
        troubles.extend(failures(facts, channel));
        if quiet {
            troubles.extend(late(facts, channel));
        }
    }
    troubles.extend(facts.sources.iter().filter_map(|source| {
        let words = words::source_trouble(facts, source)?;
        let lasts = words.since.map_or(Span::ZERO, |since| facts.now - since);
        let weight = if lasts > ALERT_SOURCE { Weight::Act } else { Weight::Heals };
        Some(Trouble::new("source_failing", format!("source:{}", source.source_id), weight, words))
    }));
    troubles.extend(lost_leases(facts));
    troubles.extend(
        words::held_posts(facts).map(|words| Trouble::new("posts_wait", "posts", Weight::Act, words)),
    );
    troubles.extend(facts.stopped_campaigns.iter().map(|stopped| {
        let part = stopped.account_id.map_or(String::new(), |id| format!(":{id}"));
        let key = format!("campaign:{}{part}", stopped.campaign_id);
        Trouble::new("campaign_guard", key, Weight::Act, words::guarded(facts, stopped))
    }));
    troubles.extend(of_bots(facts));
    troubles
}

/// People who are not answered, not understood or not heard.
fn of_bots(facts: &Facts) -> Vec<Trouble> {
    if facts.bots.is_empty() {
        return Vec::new();
    }
    let kinds = [
        ("bot_waits", Weight::Act, words::bots::unanswered(facts)),
        ("bot_lost", Weight::Heals, words::bots::not_understood(facts)),
        ("bot_errors", Weight::Act, words::bots::broke(facts)),
        ("bot_handoffs", Weight::Act, words::bots::handoffs(facts)),
    ];
    let told =
        kinds.into_iter().filter_map(|(kind, weight, words)| Some(Trouble::new(kind, kind, weight, words?)));
    let heard = facts.bots.iter().flat_map(|bot| bot.accounts.iter().map(move |account| (bot, account)));
    let deaf = heard.filter_map(|(bot, account)| {
        let words = words::bots::deaf(facts, bot, account)?;
        Some(Trouble::new("bot_deaf", format!("deaf:{}", account.account_id), Weight::Act, words))
    });
    told.chain(deaf).collect()
}

fn database(facts: &Facts) -> Option<Trouble> {
    let kind = match facts.database.as_ref()? {
        ailment if ailment.stands_still => "standstill",
        ailment if ailment.slow => "database_slow",
        ailment if ailment.only_soon => "disk",
        _ => "database",
    };
    words::database(facts).map(|words| Trouble::new(kind, kind, Weight::Act, words).of(Reach::Node))
}

fn everything(facts: &Facts) -> Option<Trouble> {
    let words = words::everything(facts)?;
    let trouble = match &facts.held {
        Some(why) if why.starts_with(store::HISTORY_LOST) => ("history_lost", Reach::Everything),
        Some(_) => ("held", Reach::Everything),
        None if facts.workspace.held => ("workspace_held", Reach::Workspace),
        // Who does not run cannot tell; the exit code of `rupor status --check` does.
        None => ("no_node", Reach::Node),
    };
    let (kind, reach) = trouble;
    Some(Trouble::new(kind, kind, Weight::Act, words).of(reach))
}

fn of_account(facts: &Facts, account: &Account) -> Option<Trouble> {
    let waiting = |channel: &Channel| channel.account_id == account.account_id && facts.waiting(channel) > 0;
    let rests = account.cooldown_until > facts.now;
    let has_work = facts.channels.iter().any(waiting);
    if !account.paused && !(rests && (has_work || words::is_long(facts, account.cooldown_until))) {
        return None;
    }
    // The way of alerts on the same token has the same trouble, which is told once.
    let is_said = |other: &Account| {
        other.fingerprint == account.fingerprint
            && other.settings.tier != store::TIER_ALERTS
            && (other.paused || other.cooldown_until > facts.now)
    };
    if account.settings.tier == store::TIER_ALERTS && facts.accounts.iter().any(is_said) {
        return None;
    }
    let words = words::account_trouble(facts, account)?;
    let key = format!("account:{}", account.account_id);
    let by_platform = account.paused_why.as_deref().is_some_and(crate::config::plan::is_of_platform);
    Some(match account.paused {
        true if by_platform => Trouble::new("account_paused", key, Weight::Act, words),
        true => Trouble::new("account_paused", key, Weight::Meant, words),
        // A short rest is the everyday life of a busy account.
        false if account.cooldown_until - facts.now <= ALERT_REST => {
            Trouble::new("account_rests", key, Weight::Meant, words)
        }
        false => Trouble::new("account_rests", key, Weight::Heals, words),
    })
}

fn of_channel(facts: &Facts, channel: &Channel) -> Option<Trouble> {
    let key = format!("channel:{}", channel.channel_id);
    if let Some(words) = words::channel_trouble(facts, channel) {
        let long = words::is_long(facts, channel.paused_until);
        return Some(match (channel.enabled, channel.disabled_by) {
            (false, Some(DisabledBy::Auto)) => Trouble::new("channel_shut", key, Weight::Act, words),
            (false, _) => Trouble::new("channel_disabled", key, Weight::Meant, words),
            _ if channel.error_streak > 0 => Trouble::new(refusal(channel), key, Weight::Act, words),
            _ if long && channel.paused_until != domain::time::Timestamp::NEVER => {
                Trouble::new("channel_waits", key, Weight::Heals, words)
            }
            _ => Trouble::new("channel_waits", key, Weight::Meant, words),
        });
    }
    // The pause is over, and nothing has gone well since.
    if channel.error_streak > 0 && channel.enabled {
        let words = words::channel_doubtful(facts, channel);
        return Some(Trouble::new(refusal(channel), key, Weight::Act, words));
    }
    words::put_off(facts, channel).map(|words| Trouble::new("channel_waits", key, Weight::Heals, words))
}

/// The kind of a channel's refusal, by its code.
fn refusal(channel: &Channel) -> &'static str {
    match channel.paused_why.as_deref().unwrap_or_default() {
        "kicked" | "not_a_member" | "chat_deleted" => "channel_kicked",
        "no_rights" | "chat.denied" | "403" => "channel_no_rights",
        _ => "channel_failing",
    }
}

/// Posts that ended unsent, or nearly: one trouble for a channel, however many they are.
fn failures(facts: &Facts, channel: &Channel) -> Option<Trouble> {
    let of_channel = |failures: &&ChannelFailures| failures.channel_id == channel.channel_id;
    let found = facts.snapshot.failures.iter().find(of_channel)?;
    let key = format!("failing:{}", channel.channel_id);
    if let Some(words) = words::channel_failures(facts, channel, found) {
        return Some(Trouble::new("dead_letters", key, Weight::Act, words));
    }
    (found.retries_10min > ALERT_RETRIES_MAX).then(|| {
        let words = words::failing_often(facts, channel, found);
        Trouble::new("failures", key, Weight::Heals, words)
    })
}

/// What may go and does not: nobody takes it, or there is more than the channel's pace.
fn late(facts: &Facts, channel: &Channel) -> Option<Trouble> {
    if super::status::state(facts, channel) != "open" {
        return None;
    }
    let head = facts.lane_of(channel).and_then(|lane| lane.next_at).filter(|_| facts.waiting(channel) > 0);
    let key = format!("late:{}", channel.channel_id);
    if let Some(due) = head.filter(|due| facts.now - *due > ALERT_STUCK) {
        let words = words::stuck(facts, channel, due);
        return Some(Trouble::new("stuck", key, Weight::Act, words));
    }
    let lane = facts.lane_now(channel)?;
    let due = lane.due_at.filter(|due| facts.now - *due > ALERT_LAG)?;
    Some(Trouble::new("lag", key, Weight::Heals, words::lagging(facts, channel, lane, due)))
}

fn lost_leases(facts: &Facts) -> Option<Trouble> {
    let n = facts.snapshot.lost_leases_10min;
    let words = (n >= ALERT_LOST_LEASES_MIN).then(|| words::lost_leases(facts, n))?;
    Some(Trouble::new("leases_missed", "leases", Weight::Heals, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_kind_with_its_threshold() {
        let page = include_str!("../../../../docs/alerts.md");
        for (kind, when) in KINDS {
            assert!(page.contains(&format!("| `{kind}` | {when} |")), "{kind} is not in docs/alerts.md");
        }
    }

    #[test]
    fn the_russian_page_lists_the_same_kinds_and_no_others() {
        let page = include_str!("../../../../docs/ru/alerts.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
        let mut told: Vec<&str> =
            rows.flat_map(|(kinds, _)| kinds.split(", ").map(|kind| kind.trim_matches('`'))).collect();
        let mut known: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
        told.sort_unstable();
        known.sort_unstable();
        assert_eq!(told, known);
    }
}
