//! Every platform, one line each.

use std::sync::{PoisonError, RwLock};

use crate::max::Max;
use crate::platform::Platform;
use crate::telegram::Telegram;
use crate::vk::Vk;
use crate::webhook::Webhook;

/// The platforms of this crate. A new one is its folder and its line here.
pub static PLATFORMS: &[&dyn Platform] = &[&Telegram, &Vk, &Max];

/// Where programs hear, not people: no quick start of posts, no walls, no markup.
pub static PROGRAMS: &[&dyn Platform] = &[&Webhook];

/// Platforms of other crates.
static ADDED: RwLock<Vec<&'static dyn Platform>> = RwLock::new(Vec::new());

/// A platform of another crate: its line stands there, before anything is started. So does the invented one of the tests,
/// which is how we know that a platform needs nothing else.
pub fn add(platform: &'static dyn Platform) {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    if !added.iter().any(|known| known.name() == platform.name()) {
        added.push(platform);
    }
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static dyn Platform> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner).clone();
    PLATFORMS.iter().chain(PROGRAMS).copied().chain(added)
}

/// The platform of a name in configuration or a table.
pub fn platform(name: &str) -> Option<&'static dyn Platform> {
    all().find(|platform| platform.name() == name)
}
