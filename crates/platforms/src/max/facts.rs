//! What MAX is like: its address, the shape of its tokens, its limits.

use domain::chat::ChatKind;
use domain::delivery::AmbiguityPolicy;
use domain::time::Span;

use crate::facts::{Facts, QuickStart};

use super::render::BUTTONS;

/// A token can be used again, and nobody has written down for how long (docs/platforms/max, uploads).
pub const HANDLE_LASTS: Span = Span::from_hours(24 * 7);

pub static FACTS: Facts = Facts {
    name: super::NAME,
    title: "MAX",
    api_base: API_BASE,
    usual_kind: "bot",
    // docs/platforms/max, rate limits.
    account_rates: &[("", 30.0)],
    chat_rates: &[(None, 2.0)],
    // A chat can be read back before anything is said again.
    ambiguity: AmbiguityPolicy::Reconcile,
    buttons: BUTTONS,
    causes: &[],
    quick_start: Some(QuickStart {
        prefix: "MAX",
        name: "max",
        target: "MAX_CHAT",
        target_form: "the numeric id of the chat",
        token_fallback: None,
        parse_mode: None,
        is_wall: false,
    }),
    quick_read: None,
};

/// People have positive ids of their own; a dialogue has another one, and chats have negative ones.
pub fn address_of_person(user_id: &str) -> String {
    match user_id.starts_with('-') || user_id.contains(':') {
        true => user_id.to_owned(),
        false => format!("user:{user_id}"),
    }
}

pub fn chat_kind(target: &str) -> ChatKind {
    if target.starts_with("user:") { ChatKind::Private } else { ChatKind::Channel }
}

/// The public API. Its certificate is signed by the Russian Trusted Root CA: give its path in `extra_roots`.
pub const API_BASE: &str = "https://platform-api2.max.ru";

/// What `rupor check` says about limits (docs/platforms/max, rate limits).
pub const LIMITS: &str = "30 requests a second in all, 2 messages a second per chat";

/// The header of webhook calls that carries the secret.
pub const HOOK_HEADER: &str = "x-max-bot-api-secret";

/// The token goes into a header as it is, without `Bearer`.
pub fn accepts_token(token: &str) -> bool {
    token.len() <= 1_024 && token.bytes().all(|b| b.is_ascii_graphic())
}
