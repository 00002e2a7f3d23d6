//! What is known of a platform without asking it: limits, safe repeats, what its codes mean, how a newcomer names it.
//!
//! Each platform has one table of this shape in its own `facts.rs`. Everybody else asks here and never compares names,
//! so that a new platform changes no other crate.

use domain::chat::ChatKind;
use domain::delivery::AmbiguityPolicy;

use crate::render::buttons::Rules;

/// One platform, as a table.
#[derive(Debug)]
pub struct Facts {
    /// The name in configuration and tables.
    pub name: &'static str,
    /// The name people use.
    pub title: &'static str,
    /// The public address of the API.
    pub api_base: &'static str,
    /// The kind of an account that names none.
    pub usual_kind: &'static str,
    /// Requests a second of one account, by its kind or tier; the first that fits counts, an empty word fits all.
    pub account_rates: &'static [(&'static str, f64)],
    /// Messages a second in one chat, by its kind; `None` fits all.
    pub chat_rates: &'static [(Option<ChatKind>, f64)],
    /// What is safe to do about an outcome that nobody knows.
    pub ambiguity: AmbiguityPolicy,
    /// What fits under one message.
    pub buttons: Rules,
    /// What its own codes mean; codes that all platforms share are told elsewhere.
    pub causes: &'static [Cause],
    /// How the environment names it; `None`: only a file can.
    pub quick_start: Option<QuickStart>,
    /// How the environment names walls to read; `None`: it has none that can be read.
    pub quick_read: Option<QuickRead>,
}

impl Facts {
    /// Requests a second that an account of this kind and tier may make; `None`: nothing is known.
    pub fn account_rate(&self, kind: &str, tier: &str) -> Option<f64> {
        let fits = |word: &str| word.is_empty() || word == kind || word == tier;
        self.account_rates.iter().find(|(word, _)| fits(word)).map(|(_, rate)| *rate)
    }

    /// Messages a second that a chat of this kind takes.
    pub fn chat_rate(&self, kind: ChatKind) -> Option<f64> {
        self.chat_rates.iter().find(|(of, _)| of.is_none_or(|of| of == kind)).map(|(_, rate)| *rate)
    }
}

/// What a failure code means to a person.
#[derive(Debug, Clone, Copy)]
pub struct Cause {
    pub codes: &'static [&'static str],
    pub sentence: &'static str,
    pub remedy: Remedy,
}

/// What a person can do about a failure; the one who speaks to the person finds the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    NewToken,
    AddBot,
    Rights,
    Target,
    Wait,
    Network,
    Server,
    Settings,
    /// Something that only this code needs.
    Words(&'static str),
}

/// The variables of the quick start that begin with one prefix.
#[derive(Debug)]
pub struct QuickStart {
    pub prefix: &'static str,
    /// The account and the channel are both called so.
    pub name: &'static str,
    /// The variable that names the chat or wall.
    pub target: &'static str,
    /// What the target looks like, for refusals.
    pub target_form: &'static str,
    /// A variable that may lend its token.
    pub token_fallback: Option<&'static str>,
    /// The markup of a channel that names none, where `PREFIX_PARSE_MODE` may choose one.
    pub parse_mode: Option<&'static str>,
    /// Whether `PREFIX_FROM_GROUP` and `PREFIX_ATTACH_MEDIA` mean something.
    pub is_wall: bool,
}

/// The variables of the quick start that name walls to read.
#[derive(Debug)]
pub struct QuickRead {
    pub walls: &'static str,
    pub token: &'static str,
    /// What kind of token it is, for refusals.
    pub token_form: &'static str,
    /// The kind of the account that reads.
    pub kind: &'static str,
}

/// What a code of some platform means, if it is one that only that platform has.
pub fn cause(code: &str) -> Option<&'static Cause> {
    let own = |platform: &'static dyn crate::platform::Platform| {
        platform.facts().causes.iter().find(|cause| cause.codes.contains(&code))
    };
    crate::registry::all().find_map(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::platform;

    #[test]
    fn an_account_is_limited_by_its_platform_kind_and_tier() {
        let rate = |name: &str, kind: &str, tier: &str| platform(name)?.facts().account_rate(kind, tier);
        assert_eq!(rate("telegram", "bot", "standard"), Some(30.0));
        assert_eq!(rate("telegram", "bot", "paid"), Some(1_000.0));
        assert_eq!(rate("vk", "community", "standard"), Some(20.0));
        assert_eq!(rate("vk", "user", "standard"), Some(3.0));
        assert_eq!(rate("vk", "service", "standard"), Some(3.0));
        assert_eq!(rate("max", "bot", "standard"), Some(30.0));
        assert_eq!(rate("fax", "bot", "standard"), None);
    }

    #[test]
    fn a_chat_is_limited_by_its_kind() {
        let rate = |name: &str, kind| platform(name).unwrap().facts().chat_rate(kind);
        assert_eq!(rate("telegram", ChatKind::Group), Some(20.0 / 60.0));
        assert_eq!(rate("telegram", ChatKind::Channel), Some(1.0));
        assert_eq!(rate("max", ChatKind::Private), Some(2.0));
        assert_eq!(rate("vk", ChatKind::Channel), None);
    }

    #[test]
    fn a_published_post_has_an_address_where_the_platform_gives_one() {
        let link = |name: &str, target: &str, id: &str| platform(name).unwrap().link(target, id);
        assert_eq!(link("telegram", "-1001234", "7").as_deref(), Some("https://t.me/c/1234/7"));
        assert_eq!(link("telegram", "@poteryashki", "7,8").as_deref(), Some("https://t.me/poteryashki/7"));
        assert_eq!(link("telegram", "@x/../y", "7"), None);
        assert_eq!(link("telegram", "42", "7"), None);
        assert_eq!(link("vk", "-990000101", "7").as_deref(), Some("https://vk.com/wall-990000101_7"));
        assert_eq!(link("vk", "-990000101", "mid.7"), None);
        assert_eq!(link("max", "-7", "mid.7"), None);
    }

    #[test]
    fn an_id_tells_what_chat_it_is() {
        let kind = |name: &str, target: &str| platform(name).unwrap().chat_kind(target);
        assert_eq!(kind("telegram", "17"), ChatKind::Private);
        assert_eq!(kind("telegram", "-17"), ChatKind::Group);
        assert_eq!(kind("telegram", "-1000000000017"), ChatKind::Channel);
        assert_eq!(kind("telegram", "@name"), ChatKind::Channel);
        assert_eq!(kind("max", "user:17"), ChatKind::Private);
        assert_eq!(kind("vk", "-17"), ChatKind::Channel);
    }
}
