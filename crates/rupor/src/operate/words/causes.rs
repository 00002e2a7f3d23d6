//! What the codes of failures mean to a person, and what a person can do about it.

use platforms::facts::Remedy;

/// A code in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub sentence: String,
    /// What helps, before any command; may be empty.
    pub remedy: String,
}

const NEW_TOKEN: &str = "get a new token where this one was issued, put it where the configuration looks for it, and `$ rupor apply`";
const ADD_BOT: &str = "add the bot to the chat again, as an administrator who may post";
const RIGHTS: &str = "give the bot the right to post there; in a channel it has to be an administrator";
const TARGET: &str =
    "check the target in the configuration and that the bot is in that chat, then `$ rupor apply`";
const WAIT: &str =
    "nothing to do: the wait is obeyed; if it happens often, lower `rate` in the configuration";
const NETWORK: &str = "check the network, the proxy and the address of the API: `$ rupor check`";
const SERVER: &str = "nothing to do if it passes; if it lasts, look whether the platform has an outage, or run `$ rupor check`";
const SETTINGS: &str = "correct the channel in the configuration, then `$ rupor apply`";

/// Codes that platforms share: what happened, what helps. Their own are in their facts.
const CAUSES: &[(&[&str], &str, &str)] = &[
    (&["kicked"], "the bot was removed from the chat by an administrator there", ADD_BOT),
    (&["not_a_member"], "the bot is not a member of the chat", ADD_BOT),
    (&["blocked"], "the reader has blocked the bot", "nothing: only the reader can unblock it"),
    (&["user_deactivated"], "the reader's account is gone", "take the channel out of the configuration"),
    (
        &["chat_deleted"],
        "the chat was deleted",
        "put another target into the configuration, then `$ rupor apply`",
    ),
    (&["chat_migrated"], "the group became a supergroup and has another id now", TARGET),
    (&["chat_not_found", "chat.not.found"], "there is no such chat, or the bot cannot see it", TARGET),
    (&["never_started"], "the reader has never started the bot", "the reader has to write to the bot first"),
    (&["no_rights", "chat.denied", "403"], "the account may not post there", RIGHTS),
    (
        &["taken_for_repeat"],
        "the platform took the post for a repeat of an earlier one and shows nothing new",
        "requeue it: it goes out under a new key",
    ),
    (&["topic_gone"], "the forum topic is closed or gone", SETTINGS),
    (
        &["401", "404", "verify.token", "logged_out"],
        "the platform does not accept the token: it was revoked, or is not the right one",
        NEW_TOKEN,
    ),
    (
        &["frozen", "account.blocked"],
        "the platform has frozen the account",
        "find out why at the platform's support, then resume",
    ),
    (&["429", "too.many.requests"], "the platform asks to slow down (flood limit)", WAIT),
    (&["timeout"], "the server took the request and did not answer in time", SERVER),
    (&["reset", "closed", "broken"], "the connection broke before the answer was here", SERVER),
    (&["not_http", "wrong_shape", "garbage"], "what answered did not speak as the platform does", NETWORK),
    (&["connect_timeout", "refused", "connect"], "the platform's server cannot be reached", NETWORK),
    (&["dns"], "the name of the platform's server cannot be resolved", NETWORK),
    (
        &["tls", "unknown_issuer"],
        "the certificate of the platform's server is not trusted",
        "if the platform has a root certificate of its own, give it in `extra_roots`; else check proxy and clock: `$ rupor check`",
    ),
    (
        &["route"],
        "the proxy or the root certificates of the account cannot be used",
        "correct `proxy` or `extra_roots` in the configuration, then `$ rupor apply`",
    ),
    (
        &["redirect"],
        "the address of the API sends elsewhere",
        "correct `api_base` in the configuration, then `$ rupor apply`",
    ),
    (
        &["attachment.not.ready"],
        "the platform is still processing the upload",
        "nothing to do: it is asked again in short steps",
    ),
    (
        &["too_long", "render.too_long"],
        "the post is too long for the platform",
        "lower `body_max`, or set `overflow = \"split\"`, then `$ rupor apply`",
    ),
    (
        &["bad_markup", "render.template"],
        "the markup of the post is broken",
        "correct the channel's template, then `$ rupor apply`",
    ),
    (&["render.bad_target"], "the target of the channel is not an address of its platform", SETTINGS),
    (&["render.bad_settings"], "the settings of the channel do not fit its platform", SETTINGS),
];

/// What a code means; the platform's own words count where we have none.
pub(crate) fn cause(code: &str, message: &str) -> Cause {
    let shared = CAUSES.iter().find(|(codes, _, _)| codes.contains(&code));
    let own = || platforms::facts::cause(code).map(|cause| (cause.sentence, words_of(cause.remedy)));
    let found = shared.map(|(_, words, remedy)| (*words, *remedy)).or_else(own);
    let (words, remedy) = match (found, code) {
        (Some((words, remedy)), _) => (words.to_owned(), remedy),
        (None, "") => (fallback(message, "no reason was recorded"), ""),
        (None, code) if code.len() == 3 && code.starts_with('5') => {
            ("the platform's server failed".to_owned(), SERVER)
        }
        // An operator's own words, or a code that nobody has met yet.
        (None, _) => return Cause { sentence: unknown(code, message), remedy: String::new() },
    };
    let sentence = match (code.is_empty(), message.is_empty()) {
        (true, _) => words,
        (false, true) => format!("{words} ({code})"),
        (false, false) => format!("{words} ({code}: {message})"),
    };
    Cause { sentence, remedy: remedy.to_owned() }
}

fn words_of(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::NewToken => NEW_TOKEN,
        Remedy::AddBot => ADD_BOT,
        Remedy::Rights => RIGHTS,
        Remedy::Target => TARGET,
        Remedy::Wait => WAIT,
        Remedy::Network => NETWORK,
        Remedy::Server => SERVER,
        Remedy::Settings => SETTINGS,
        Remedy::Words(words) => words,
    }
}

fn unknown(code: &str, message: &str) -> String {
    if message.is_empty() { code.to_owned() } else { format!("the platform refused: {message} ({code})") }
}

fn fallback(message: &str, otherwise: &str) -> String {
    if message.is_empty() { otherwise.to_owned() } else { message.to_owned() }
}
