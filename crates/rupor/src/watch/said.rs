//! What is said of a trouble: to people in lines, to programs as one JSON object. Pure.

use domain::message::Message;
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::{Alert, Severity, Workspace};

use crate::operate::trouble::Trouble;
use crate::operate::words::{how_long, moment};

/// What of its life is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Opened,
    Reminder,
    Cleared,
}

/// The words of a trouble as its row keeps them.
pub(crate) fn words(trouble: &Trouble) -> Value {
    json!({
        "headline": trouble.headline,
        "cause": trouble.cause,
        "next": trouble.next,
        "help": trouble.help,
    })
}

/// The message for everybody who hears of it.
pub(crate) fn message(
    workspace: &Workspace,
    alert: &Alert,
    said: Said,
    now: Timestamp,
    prefix: &str,
) -> Message {
    let data = json!({
        "type": match said {
            Said::Opened => "alert.opened",
            Said::Reminder => "alert.reminder",
            Said::Cleared => "alert.cleared",
        },
        "timestamp": stamp(now),
        "data": {
            "id": alert.alert_id,
            "workspace": workspace.name,
            "kind": alert.kind,
            "key": alert.key,
            "severity": alert.severity,
            "headline": alert.words["headline"],
            "cause": alert.words["cause"],
            "next": alert.words["next"],
            "help": alert.words["help"],
            "opened_at": stamp(alert.opened_at),
            "ended_at": alert.ended_at.map(stamp),
        },
    });
    let text = format!("{prefix}{}", lines(&alert.words, said, alert.opened_at, now));
    let mark = match (said, alert.severity) {
        (Said::Cleared, _) => "✅",
        (_, Severity::Act) => "🔴",
        (_, Severity::Heals) => "🟡",
    };
    Message { text: format!("{mark} {text}"), data: Some(data), ..Message::default() }
}

/// Without a mark: headline, cause, what happens next, what helps.
fn lines(words: &Value, said: Said, since: Timestamp, now: Timestamp) -> String {
    let of = |key: &str| words[key].as_str().unwrap_or_default();
    let headline = of("headline");
    if said == Said::Cleared {
        return format!("over: {headline} (it lasted {})", how_long(now - since));
    }
    let mut text = match said {
        Said::Reminder => format!("still, for {}: {headline}", how_long(now - since)),
        _ => headline.to_owned(),
    };
    for (name, line) in [("cause", of("cause")), ("next", of("next"))] {
        if !line.is_empty() {
            text += &format!("\n{name}: {line}");
        }
    }
    for help in words["help"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text += &format!("\nhelp: {help}");
    }
    if said == Said::Opened {
        text += &format!("\nsince: {}", moment(since));
    }
    text
}

fn stamp(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(|_| String::new(), |at| at.to_string())
}
