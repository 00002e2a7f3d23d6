//! MAX's address, the shape of its tokens, and its limits in words.

use domain::time::Span;

/// The public API. Its certificate is signed by the Russian Trusted Root CA: give its path in `extra_roots`.
pub const API_BASE: &str = "https://platform-api2.max.ru";

/// What `rupor check` says about limits (docs/platforms/max, rate limits).
pub const LIMITS: &str = "30 requests a second in all, 2 messages a second per chat";

/// A token can be used again, and nobody has written down for how long (docs/platforms/max, uploads).
pub const HANDLE_LASTS: Span = Span::from_hours(24 * 7);

/// The header of webhook calls that carries the secret.
pub const HOOK_HEADER: &str = "x-max-bot-api-secret";

/// The token goes into a header as it is, without `Bearer`.
pub fn accepts_token(token: &str) -> bool {
    token.len() <= 1_024 && token.bytes().all(|b| b.is_ascii_graphic())
}
