//! What the codes of failures mean to a person, and what a person can do about it.

use platforms::facts::Remedy;

use crate::language::{Phrase, heard, say};

/// A code in words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cause {
    pub sentence: Phrase,
    /// What helps, before any command; may be empty.
    pub remedy: Phrase,
}

/// What codes that platforms share mean, and what helps. Their own are in their facts.
fn shared(code: &str) -> Option<(Phrase, Phrase)> {
    Some(match code {
        "kicked" => (say!("cause.kicked"), say!("remedy.add_bot")),
        "not_a_member" => (say!("cause.not_a_member"), say!("remedy.add_bot")),
        "blocked" => (say!("cause.blocked"), say!("remedy.blocked")),
        "user_deactivated" => (say!("cause.user_deactivated"), say!("remedy.user_deactivated")),
        "chat_deleted" => (say!("cause.chat_deleted"), say!("remedy.chat_deleted")),
        "chat_migrated" => (say!("cause.chat_migrated"), say!("remedy.target")),
        "chat_not_found" | "chat.not.found" => (say!("cause.chat_not_found"), say!("remedy.target")),
        "never_started" => (say!("cause.never_started"), say!("remedy.never_started")),
        "no_rights" | "chat.denied" | "403" => (say!("cause.no_rights"), say!("remedy.rights")),
        "taken_for_repeat" => (say!("cause.taken_for_repeat"), say!("remedy.taken_for_repeat")),
        "topic_gone" => (say!("cause.topic_gone"), say!("remedy.settings")),
        "404" => (say!("cause.no_such_address"), say!("remedy.token_or_address")),
        "401" | "verify.token" | "logged_out" => (say!("cause.token"), say!("remedy.new_token")),
        "frozen" | "account.blocked" => (say!("cause.frozen"), say!("remedy.frozen")),
        "429" | "too.many.requests" => (say!("cause.flood"), say!("remedy.wait")),
        "timeout" => (say!("cause.timeout"), say!("remedy.server")),
        "reset" | "closed" | "broken" => (say!("cause.broken"), say!("remedy.server")),
        "not_http" | "wrong_shape" | "garbage" => (say!("cause.not_the_platform"), say!("remedy.network")),
        "connect_timeout" | "refused" | "connect" => (say!("cause.unreachable"), say!("remedy.network")),
        "dns" => (say!("cause.dns"), say!("remedy.network")),
        "tls" | "unknown_issuer" => (say!("cause.tls"), say!("remedy.tls")),
        "route" => (say!("cause.route"), say!("remedy.route")),
        "redirect" => (say!("cause.redirect"), say!("remedy.redirect")),
        "attachment.not.ready" => (say!("cause.not_ready"), say!("remedy.not_ready")),
        "too_long" | "render.too_long" => (say!("cause.too_long"), say!("remedy.too_long")),
        "bad_markup" | "render.template" => (say!("cause.markup"), say!("remedy.markup")),
        "render.bad_target" => (say!("cause.bad_target"), say!("remedy.settings")),
        "render.bad_settings" => (say!("cause.bad_settings"), say!("remedy.settings")),
        code if code.len() == 3 && code.starts_with('5') => (say!("cause.server"), say!("remedy.server")),
        _ => return None,
    })
}

/// What a code means; the platform's own words count where we have none.
pub(crate) fn cause(code: &str, message: &str) -> Cause {
    let own = || platforms::facts::cause(code).map(|cause| (heard(cause.sentence), words_of(cause.remedy)));
    let (words, remedy) = match (shared(code).or_else(own), code, message) {
        (Some(found), _, _) => found,
        (None, "", "") => (say!("cause.none"), Phrase::none()),
        (None, "", message) => (message.into(), Phrase::none()),
        // An operator's own words, or a code that nobody has met yet.
        (None, code, "") => return Cause { sentence: heard(code), remedy: Phrase::none() },
        (None, code, message) => {
            let sentence = say!("cause.refused", message = message, code = code);
            return Cause { sentence, remedy: Phrase::none() };
        }
    };
    let sentence = match (code.is_empty(), message.is_empty()) {
        (true, _) => words,
        (false, true) => words.and(format!(" ({code})")),
        (false, false) => words.and(format!(" ({code}: {message})")),
    };
    Cause { sentence, remedy }
}

fn words_of(remedy: Remedy) -> Phrase {
    match remedy {
        Remedy::NewToken => say!("remedy.new_token"),
        Remedy::AddBot => say!("remedy.add_bot"),
        Remedy::Rights => say!("remedy.rights"),
        Remedy::Target => say!("remedy.target"),
        Remedy::Wait => say!("remedy.wait"),
        Remedy::Network => say!("remedy.network"),
        Remedy::Server => say!("remedy.server"),
        Remedy::Settings => say!("remedy.settings"),
        Remedy::Words(words) => heard(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Language;

    #[test]
    fn what_platforms_say_of_their_own_codes_is_known_in_russian() {
        let platforms = platforms::registry::all();
        for cause in platforms.flat_map(|platform| platform.facts().causes) {
            let mut said = vec![heard(cause.sentence)];
            said.extend(match cause.remedy {
                Remedy::Words(words) => Some(heard(words)),
                _ => None,
            });
            for phrase in said {
                assert_ne!(phrase.in_language(Language::Ru), phrase.to_string(), "add it to heard.txt");
            }
        }
    }
}
