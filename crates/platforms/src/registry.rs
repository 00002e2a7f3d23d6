//! Every platform, one line each.

use crate::max::Max;
use crate::platform::Platform;
use crate::telegram::Telegram;
use crate::vk::Vk;

/// All platforms. A new one is its folder and its line here.
pub static PLATFORMS: &[&dyn Platform] = &[&Telegram, &Vk, &Max];

/// The platform of a name in configuration or a table.
pub fn platform(name: &str) -> Option<&'static dyn Platform> {
    PLATFORMS.iter().copied().find(|platform| platform.name() == name)
}
