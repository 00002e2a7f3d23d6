//! What is said of a trouble: to people in lines, to programs as one JSON object. Pure.

use domain::message::Message;
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::{Alert, Severity, Workspace};

use crate::language::{Language, Phrase, say};
use crate::operate::words::Explanation;

/// What of its life is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Opened,
    Reminder,
    Cleared,
}

/// How it is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub language: Language,
    /// Its workspace is named: others are told here too.
    pub named: bool,
}

/// The words of a trouble as its row keeps them: English for programs, every language for people.
pub(crate) fn words(trouble: &Explanation) -> Value {
    let mut words = in_language(trouble, Language::En);
    words["ru"] = in_language(trouble, Language::Ru);
    words
}

fn in_language(trouble: &Explanation, language: Language) -> Value {
    let say = |phrase: &Phrase| phrase.in_language(language);
    json!({
        "headline": say(&trouble.headline),
        "cause": say(&trouble.cause),
        "next": say(&trouble.next),
        "help": trouble.help.iter().map(say).collect::<Vec<_>>(),
    })
}

/// The message for everybody who hears of it.
pub(crate) fn message(workspace: &Workspace, alert: &Alert, said: Said, now: Timestamp, how: How) -> Message {
    let data = json!({
        "type": match said {
            Said::Opened => "alert.opened",
            Said::Reminder => "alert.reminder",
            Said::Cleared => "alert.cleared",
        },
        "timestamp": now.rfc3339(),
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
            "opened_at": alert.opened_at.rfc3339(),
            "ended_at": alert.ended_at.map(Timestamp::rfc3339),
        },
    });
    let own = match how.language {
        Language::Ru if alert.words["ru"].is_object() => &alert.words["ru"],
        _ => &alert.words,
    };
    let mut text = lines(own, said, alert.opened_at, now, how.language);
    if how.named {
        text = say!("alert.workspace", name = &workspace.name, what = text).in_language(how.language);
    }
    let mark = match (said, alert.severity) {
        (Said::Cleared, _) => "✅",
        (_, Severity::Act) => "🔴",
        (_, Severity::Heals) => "🟡",
    };
    Message { text: format!("{mark} {text}"), data: Some(data), ..Message::default() }
}

/// Without a mark: headline, cause, what happens next, what helps.
fn lines(words: &Value, said: Said, since: Timestamp, now: Timestamp, language: Language) -> String {
    let of = |key: &str| words[key].as_str().unwrap_or_default();
    let (headline, lasts) = (of("headline"), now - since);
    let mut lines = match said {
        Said::Cleared => {
            return say!("alert.over", headline = headline, span = lasts).in_language(language);
        }
        Said::Reminder => vec![say!("alert.still", span = lasts, headline = headline)],
        Said::Opened => vec![headline.into()],
    };
    let help = words["help"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.extend(
        Some(of("cause")).filter(|cause| !cause.is_empty()).map(|what| say!("alert.cause", what = what)),
    );
    lines
        .extend(Some(of("next")).filter(|next| !next.is_empty()).map(|what| say!("alert.next", what = what)));
    lines.extend(help.filter(|help| !help.is_empty()).map(|what| say!("alert.help", what = what)));
    if said == Said::Opened {
        lines.push(say!("alert.since", at = since));
    }
    Phrase::list(lines, "\n").in_language(language)
}
