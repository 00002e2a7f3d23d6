//! What Telegram is like: its address, the shape of its tokens, its limits, how it names chats and posts.

use domain::chat::ChatKind;
use domain::delivery::AmbiguityPolicy;

use crate::facts::{Facts, QuickStart};

use super::render::BUTTONS;

pub static FACTS: Facts = Facts {
    name: super::NAME,
    title: "Telegram",
    api_base: API_BASE,
    usual_kind: "bot",
    // docs/platforms/telegram, rate limits; `paid` is the paid broadcast.
    account_rates: &[("paid", 1_000.0), ("", 30.0)],
    // A group takes 20 a minute.
    chat_rates: &[(Some(ChatKind::Group), 20.0 / 60.0), (None, 1.0)],
    // No idempotency key and no way to read a chat back: one more try, then a person decides.
    ambiguity: AmbiguityPolicy::ResendOnce,
    buttons: BUTTONS,
    causes: &[],
    quick_start: Some(QuickStart {
        prefix: "TG",
        name: "telegram",
        target: "TG_CHAT",
        target_form: "@name of a public channel, or the numeric id of the chat, such as -1001234567890",
        token_fallback: None,
        parse_mode: Some("HTML"),
        is_wall: false,
    }),
    quick_read: None,
};

/// `https://t.me/name` and `name` are `@name`; `https://t.me/c/123/4` is the chat -100123.
pub fn plain_target(written: &str) -> String {
    let written = written.trim().trim_end_matches('/');
    let page =
        written.strip_prefix("https://").or_else(|| written.strip_prefix("http://")).unwrap_or(written);
    let name = page.strip_prefix("t.me/").or_else(|| page.strip_prefix("telegram.me/"));
    if let Some(private) = name.and_then(|name| name.strip_prefix("c/")) {
        let id = private.split('/').next().unwrap_or_default();
        return format!("-100{id}");
    }
    let name = name.map_or(written, |name| name.split('/').next().unwrap_or_default());
    match name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
    {
        true => format!("@{name}"),
        false => name.to_owned(),
    }
}

/// Ids are copied from places that leave out the -100 which the API wants.
pub fn doubt(target: &str) -> Option<String> {
    let id: i64 = target.parse().ok()?;
    match id {
        1_000_000_000..1_000_000_000_000 => Some(format!(
            "{id} is the chat with one person; if a channel or group is meant, its id begins with -100: write -100{id}"
        )),
        -999_999_999_999..=-1_000_000_000 => Some(format!(
            "{id} looks like an id without its -100; for a channel or supergroup write -100{}",
            -id
        )),
        _ => None,
    }
}

/// Channels stand below −10¹², groups are negative, people positive.
pub fn chat_kind(target: &str) -> ChatKind {
    match target.parse::<i64>() {
        Ok(id) if id > 0 => ChatKind::Private,
        Ok(id) if id > -1_000_000_000_000 => ChatKind::Group,
        _ => ChatKind::Channel,
    }
}

/// Public channels go by name, private ones by the inner number; other chats have no addresses.
pub fn link(target: &str, id: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let chat = match (target.strip_prefix("-100"), target.strip_prefix('@')) {
        (Some(number), _) if is_number(number) => format!("c/{number}"),
        (_, Some(name)) if is_name(name) => name.to_owned(),
        _ => return None,
    };
    is_number(id).then(|| format!("https://t.me/{chat}/{id}"))
}

/// The public API.
pub const API_BASE: &str = "https://api.telegram.org";

/// What `rupor check` says about limits (docs/platforms/telegram, rate limits).
pub const LIMITS: &str = "about 30 messages a second in all, 1 a second per chat, 20 a minute per group";

/// The header of webhook calls that carries the secret.
pub const HOOK_HEADER: &str = "x-telegram-bot-api-secret-token";

/// The token becomes part of a path, so nothing may be in it that means something there.
pub fn accepts_token(token: &str) -> bool {
    token.len() <= 80 && token.bytes().all(|b| b.is_ascii_alphanumeric() || b":_-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_understood_as_people_copy_them() {
        for (written, plain) in [
            ("https://t.me/lost_pets", "@lost_pets"),
            (" t.me/lost_pets/ ", "@lost_pets"),
            ("lost_pets", "@lost_pets"),
            ("@lost_pets", "@lost_pets"),
            ("https://t.me/c/1234567890/17", "-1001234567890"),
            ("-1001234567890", "-1001234567890"),
            ("77", "77"),
        ] {
            assert_eq!(plain_target(written), plain);
        }
    }

    #[test]
    fn a_forgotten_minus_100_is_explained() {
        assert!(doubt("1234567890").unwrap().ends_with("write -1001234567890"));
        assert!(doubt("-1234567890").unwrap().ends_with("write -1001234567890"));
        for fine in ["-1001234567890", "-12345", "77", "@name"] {
            assert_eq!(doubt(fine), None);
        }
    }
}
