//! Telegram's address, the shape of its tokens, and its limits in words.

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
