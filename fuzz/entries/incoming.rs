//! Any bytes arrive as a webhook call, a long-poll update or a page of a wall; reading them is total and stable.
//!
//! Byte 0 chooses the reader, the rest is the body.

use platforms::incoming::{HookCall, HookSettings, Incoming};
use platforms::registry::platform;
use platforms::secret::Token;
use platforms::{max, telegram, vk};

const SECRET: &str = "hook-secret";

/// Panics when something read does not survive being written and read again.
pub(super) fn run(bytes: &[u8]) {
    let [choice, body @ ..] = bytes else { return };
    match choice % 4 {
        0 => hook("telegram", body),
        1 => hook("vk", body),
        2 => hook("max", body),
        _ => values(body),
    }
}

fn hook(name: &str, body: &[u8]) {
    let Some(platform) = platform(name) else { return };
    let settings = HookSettings {
        secret: Some(Token::new(SECRET)),
        secret_hash: None,
        confirmation: Some("code".to_owned()),
        group_id: None,
    };
    let right = platform.receiver().unwrap().hook(&settings, &HookCall { secret: Some(SECRET), body });
    right.iter().flat_map(|hooked| &hooked.events).for_each(check);
    let wrong = platform.receiver().unwrap().hook(&settings, &HookCall { secret: Some("hook-secreT"), body });
    // VK carries its secret inside, so there only the right one in the body is let in.
    assert!(wrong.is_err() || name == "vk" && String::from_utf8_lossy(body).contains(SECRET), "{wrong:?}");
}

fn values(body: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else { return };
    telegram::receive::read(&value).iter().for_each(check);
    check(&vk::receive::read(&value));
    check(&max::receive::read(&value));
    let Some(page) = vk::read::page(&value) else { return };
    for post in &page.posts {
        let json = serde_json::to_string(post).unwrap_or_default();
        assert_eq!(serde_json::from_str::<vk::read::RawPost>(&json).ok().as_ref(), Some(post));
        assert!(post.photos.iter().all(|photo| domain::message::is_web_address(&photo.url)));
    }
}

fn check(incoming: &Incoming) {
    assert!(!incoming.key.is_empty(), "everything has a key");
    let json = serde_json::to_string(incoming).unwrap_or_default();
    assert_eq!(serde_json::from_str::<Incoming>(&json).ok().as_ref(), Some(incoming), "{json}");
}
