//! What VK is like: its address and version, the shape of its tokens, its limits, how it names walls and posts.

use domain::chat::ChatKind;
use domain::delivery::AmbiguityPolicy;
use domain::time::Span;

use crate::facts::{Cause, Facts, QuickRead, QuickStart, Remedy};
use crate::part::AccountKind;

use super::render::BUTTONS;

/// An uploaded photo stays until somebody deletes it, and VK says nothing when a post names one that is gone: it shows
/// the post without it. So it is uploaded anew from time to time (docs/platforms/vk, uploads).
pub const HANDLE_LASTS: Span = Span::from_hours(24 * 7);

pub static FACTS: Facts = Facts {
    name: super::NAME,
    title: "VK",
    api_base: API_BASE,
    usual_kind: "user",
    // docs/platforms/vk, rate limits: by kind of token.
    account_rates: &[("community", 20.0), ("", 3.0)],
    chat_rates: &[],
    // VK itself recognises a repeat by our key.
    ambiguity: AmbiguityPolicy::Resend,
    buttons: BUTTONS,
    causes: &[
        Cause {
            codes: &["vk:7", "vk:15", "vk:214"],
            sentence: "the account may not post there",
            remedy: Remedy::Rights,
        },
        Cause {
            codes: &["vk:5", "vk:1117"],
            sentence: "the platform does not accept the token: it was revoked, or is not the right one",
            remedy: Remedy::NewToken,
        },
        Cause {
            codes: &["vk:not_a_user"],
            sentence: "this is not a user's token: VK answers as to the key of a community or of an application",
            remedy: Remedy::Words(
                "write kind = \"community\" or kind = \"service\" at the account, then `$ rupor apply`",
            ),
        },
        Cause {
            codes: &["vk:27"],
            sentence: "VK does not allow this with the key of a community",
            remedy: Remedy::Words(
                "walls are read with a service key or a user's token; give one of them, then `$ rupor apply`",
            ),
        },
        Cause {
            codes: &["vk:28"],
            sentence: "VK does not allow this with a service key",
            remedy: Remedy::Words(
                "a service key only reads walls; post with a user's token or the key of the community, then `$ rupor apply`",
            ),
        },
        Cause {
            codes: &["vk:14"],
            sentence: "VK wants a captcha solved",
            remedy: Remedy::Words("log in as the owner of the token in a browser and solve it, then resume"),
        },
        Cause {
            codes: &["vk:17"],
            sentence: "VK wants the owner of the token to confirm who they are",
            remedy: Remedy::Words("log in as the owner of the token in a browser and confirm, then resume"),
        },
        Cause {
            codes: &["vk:6", "vk:9"],
            sentence: "the platform asks to slow down (flood limit)",
            remedy: Remedy::Wait,
        },
        Cause {
            codes: &["vk:29", "vk:219", "vk:224"],
            sentence: "the platform's quota of the day is used up",
            remedy: Remedy::Wait,
        },
    ],
    quick_start: Some(QuickStart {
        prefix: "VK_OUT",
        name: "vk_out",
        target: "VK_OUT_OWNER_ID",
        target_form: "the numeric id of the wall, negative for groups, such as -123456, or its address",
        token_fallback: Some("VK_TOKEN"),
        parse_mode: None,
        is_wall: true,
    }),
    quick_read: Some(QuickRead {
        walls: "VK_GROUPS",
        token: "VK_TOKEN",
        token_form: "a service or user token",
        // A service token and a user's may read the same and as fast; asking as a service works for both.
        kind: "service",
    }),
};

pub fn chat_kind(target: &str) -> ChatKind {
    if target.starts_with("user:") { ChatKind::Private } else { ChatKind::Channel }
}

/// Conversations of several stand above this number, those with one person below.
pub const GROUP_CHATS_FROM: i64 = 2_000_000_000;

/// Walls of people and conversations with them have the same numbers; who is told something is written to.
pub fn talk_kind(target: &str) -> ChatKind {
    match target.parse::<i64>() {
        Ok(id) if id > GROUP_CHATS_FROM => ChatKind::Group,
        Ok(id) if id > 0 => ChatKind::Private,
        _ => chat_kind(target),
    }
}

/// A post on a wall; messages of conversations have no addresses.
pub fn link(target: &str, id: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_wall = is_number(target.strip_prefix('-').unwrap_or(target));
    (is_wall && is_number(id)).then(|| format!("https://vk.com/wall{target}_{id}"))
}

/// The public API; `https://api.vk.ru` answers as well.
pub const API_BASE: &str = "https://api.vk.com";

/// Answers change their shape with the version, so it is pinned.
pub const API_VERSION: &str = "5.199";

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
