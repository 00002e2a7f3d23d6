//! VK's address and version, the shape of its tokens, and its limits in words.

use domain::time::Span;

use crate::part::AccountKind;

/// The public API; `https://api.vk.ru` answers as well.
pub const API_BASE: &str = "https://api.vk.com";

/// Answers change their shape with the version, so it is pinned.
pub const API_VERSION: &str = "5.199";

/// An uploaded photo stays until somebody deletes it, and VK says nothing when a post names one that is gone: it shows
/// the post without it. So it is uploaded anew from time to time (docs/platforms/vk, uploads).
pub const HANDLE_LASTS: Span = Span::from_hours(24 * 7);

/// The token goes into a header.
pub fn accepts_token(token: &str) -> bool {
    token.len() <= 1_024 && token.bytes().all(|b| b.is_ascii_graphic())
}

/// What `rupor check` says about limits (docs/platforms/vk, rate limits).
pub fn limits(kind: AccountKind) -> &'static str {
    match kind {
        AccountKind::User => "3 requests a second; about 500 posts a day per wall",
        AccountKind::Community => "20 requests a second; no photos and videos on walls",
        AccountKind::Service => "3 requests a second, 5000 wall.get a day; reads public data only",
    }
}
