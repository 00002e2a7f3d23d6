//! A rules file as it is meant: read, checked and ready to be asked. `file` makes it, `step` uses it.

use std::collections::{BTreeMap, HashMap};

use jiff::tz::TimeZone;
use regex::Regex;

use super::hours::Hours;
use super::texts::Texts;
use super::words::{Pattern, Vocabulary};
use crate::time::Span;

/// What a bot knows.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Which version of the rules this is; the caller's number, named in every log line.
    pub version: u32,
    pub start: String,
    pub zone: TimeZone,
    pub hours: Option<Hours>,
    pub limits: Limits,
    pub operators: Option<Operators>,
    pub subscribe: Subscribe,
    pub fallback: Vec<Rung>,
    /// In the order of the file.
    pub intents: Vec<Intent>,
    pub slots: BTreeMap<String, Slot>,
    /// Global rules and those of states, in the order of the file.
    pub rules: Vec<Rule>,
    pub states: BTreeMap<String, StateRules>,
    /// Names of states that are gone, and what takes their place.
    pub moved: BTreeMap<String, String>,
    pub texts: Texts,
    /// Whether any rule subscribes; then the author asks, and the bot does not ask by itself.
    pub subscribes: bool,
    pub(super) vocabulary: Vocabulary,
    /// What each button of the file does, by what it carries.
    pub(super) presses: HashMap<String, Pressed>,
    /// Buttons of the start that work everywhere, for a fallback with `menu`.
    pub(super) menu: Vec<Vec<ButtonRule>>,
}

impl Rules {
    /// Global rules, in the order of the file.
    pub fn global(&self) -> impl Iterator<Item = (usize, &Rule)> {
        self.rules.iter().enumerate().filter(|(_, rule)| rule.state.is_none())
    }

    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    /// What a button about a rule says; without a title nobody is shown one.
    pub fn title_of<'a>(&'a self, rule: &'a Rule) -> Option<&'a str> {
        let intents = rule.on.intents.iter().filter_map(|place| self.intents.get(*place));
        let mut titles = rule.title.iter().chain(intents.filter_map(|intent| intent.title.as_ref()));
        titles.next().map(String::as_str)
    }

    /// The state that a name leads to today: itself, what it moved to, or the start.
    pub fn state_or_start(&self, name: &str) -> &str {
        let moved = self.moved.get(name).map_or(name, String::as_str);
        self.states.get_key_value(moved).map_or(self.start.as_str(), |(name, _)| name.as_str())
    }

    /// Services that rules call; the configuration has to know their addresses.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.iter().map(|rule| &rule.acts);
        let acts = rules.chain(self.states.values().map(|state| &state.acts));
        acts.filter_map(|acts| acts.call.as_ref()).map(|call| call.service.as_str())
    }
}

/// Bounds on what a dialogue may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Turns of one session before a human takes over.
    pub turns: u32,
    /// States that one event may pass through.
    pub steps: u32,
    /// Silence after which a dialogue stands at the start again.
    pub idle: Span,
    /// Messages within a span before the bot stops listening.
    pub messages: u32,
    pub messages_per: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            turns: 100,
            steps: 20,
            idle: Span::from_secs(1_800),
            messages: 60,
            messages_per: Span::from_secs(60),
        }
    }
}

/// The people who answer when the bot does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operators {
    pub channel: String,
    /// They are reminded of a person who waits this long.
    pub wait: Span,
    /// After this much silence the bot has the dialogue again.
    pub back: Span,
}

/// When a person who opens the dialogue may be written to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Subscribe {
    /// When they say so.
    #[default]
    Ask,
    /// From the start.
    Start,
    /// Never by this bot.
    Never,
}

/// One rung of the fallback ladder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rung {
    pub say: Option<String>,
    /// With the buttons of the start.
    pub menu: bool,
    pub buttons: Vec<Vec<ButtonRule>>,
    pub handoff: bool,
    pub goto: Option<String>,
}

/// A topic, known by its words.
#[derive(Debug, Clone)]
pub struct Intent {
    pub name: String,
    pub line: usize,
    /// What a button about it says.
    pub title: Option<String>,
    /// What is asked when the words only nearly fit.
    pub offer: Option<String>,
    pub any: Vec<Pattern>,
    pub not: Vec<Pattern>,
    pub examples: Vec<Example>,
    pub counter: Vec<Example>,
}

/// A sentence that must, or must not, be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    pub text: String,
    pub line: usize,
}

/// Something that a person tells, kept by name.
#[derive(Debug, Clone)]
pub struct Slot {
    pub line: usize,
    pub kind: SlotKind,
    /// Kept out of logs.
    pub mask: bool,
}

#[derive(Debug, Clone)]
pub enum SlotKind {
    /// Any words, up to so many characters.
    Text {
        max: usize,
    },
    Number {
        min: Option<f64>,
        max: Option<f64>,
    },
    Phone,
    Email,
    Date,
    Choice(Vec<Choice>),
    YesNo,
    Photo,
    Pattern(Regex),
}

impl SlotKind {
    pub fn name(&self) -> &'static str {
        match self {
            SlotKind::Text { .. } => "text",
            SlotKind::Number { .. } => "number",
            SlotKind::Phone => "phone",
            SlotKind::Email => "email",
            SlotKind::Date => "date",
            SlotKind::Choice(_) => "choice",
            SlotKind::YesNo => "yes_no",
            SlotKind::Photo => "photo",
            SlotKind::Pattern(_) => "pattern",
        }
    }
}

/// One of the answers that a choice takes.
#[derive(Debug, Clone)]
pub struct Choice {
    /// What is kept.
    pub value: String,
    /// What its button says.
    pub title: String,
    /// Words that mean it, besides its title.
    pub any: Vec<Pattern>,
}

/// What answers.
#[derive(Debug, Clone)]
pub struct Rule {
    pub name: String,
    pub line: usize,
    /// The state it belongs to; `None`: it is global.
    pub state: Option<String>,
    pub title: Option<String>,
    pub on: On,
    pub when: When,
    pub priority: i64,
    /// Before the open question, not after it.
    pub interrupt: bool,
    pub acts: Acts,
}

impl Rule {
    /// It only says something, and asks nothing about the dialogue: even a late event may have it.
    pub fn is_stateless(&self) -> bool {
        self.state.is_none() && self.acts.only_speaks() && self.when.is_stateless()
    }
}

/// What wakes a rule: any one of these.
#[derive(Debug, Clone, Default)]
pub struct On {
    /// Places in `Rules::intents`; words written at the rule itself are one more intent.
    pub intents: Vec<usize>,
    /// Whole texts, folded.
    pub texts: Vec<String>,
    pub regexes: Vec<Regex>,
    pub commands: Vec<String>,
    pub buttons: Vec<String>,
    pub events: Vec<String>,
}

/// What must be true besides: all of these.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct When {
    pub open: Option<bool>,
    pub has: Vec<String>,
    /// Slots and the values one of which they must have.
    pub slot: Vec<(String, Vec<String>)>,
    pub platform: Vec<String>,
    pub not: Option<Box<When>>,
}

impl When {
    pub fn is_empty(&self) -> bool {
        *self == When::default()
    }

    fn is_stateless(&self) -> bool {
        self.has.is_empty() && self.slot.is_empty() && self.not.as_ref().is_none_or(|not| not.is_stateless())
    }
}

/// What a rule does, or what entering a state does, in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Acts {
    pub set: Vec<(String, String)>,
    pub clear: Vec<String>,
    /// One message each.
    pub reply: Vec<String>,
    pub buttons: Vec<Vec<ButtonRule>>,
    pub photo: Option<String>,
    pub subscribe: Option<bool>,
    pub call: Option<CallRule>,
    /// Why, for the operators.
    pub handoff: Option<String>,
    pub log: Option<String>,
    pub goto: Option<String>,
    pub end: bool,
}

impl Acts {
    fn only_speaks(&self) -> bool {
        let spoken = Acts {
            reply: self.reply.clone(),
            buttons: self.buttons.clone(),
            photo: self.photo.clone(),
            log: self.log.clone(),
            ..Acts::default()
        };
        *self == spoken && !self.reply.iter().any(|text| text.contains('{'))
    }

    pub(super) fn speaks_words(&self) -> bool {
        !self.reply.is_empty()
    }
}

/// A question to the shop's service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRule {
    pub service: String,
    /// Slots that go along.
    pub send: Vec<String>,
    /// Slots that the answer fills, by fields of the same name.
    pub take: Vec<String>,
}

/// A button as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ButtonRule {
    pub title: String,
    /// What a press carries; empty for a link.
    pub carries: String,
    pub url: Option<String>,
}

/// What a press means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pressed {
    /// The state it belongs to; `None`: it works everywhere.
    pub state: Option<String>,
    pub id: String,
    pub title: String,
    pub act: PressAct,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PressAct {
    /// A rule that names it answers; if there is none, its title counts as if it had been written.
    Say,
    Goto(String),
    /// A rule fires as if its words had been written.
    Rule(String),
    /// The open question stays unanswered, and the dialogue goes on.
    Skip,
    Subscribe,
}

/// One state of the dialogue.
#[derive(Debug, Clone, Default)]
pub struct StateRules {
    pub line: usize,
    /// What entering does.
    pub acts: Acts,
    pub ask: Option<Ask>,
    /// Where to go on, the first that holds.
    pub next: Vec<Next>,
    pub idle: Option<Idle>,
    /// Its rules, by their place in `Rules::rules`.
    pub rules: Vec<usize>,
}

/// A question that waits for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub slot: String,
    pub say: String,
    pub invalid: Option<String>,
    pub tries: u32,
    pub buttons: Vec<Vec<ButtonRule>>,
    pub photo: Option<String>,
    /// Where to go when the tries are used up; `None`: to a human.
    pub failed: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Next {
    pub when: When,
    pub goto: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    pub after: Span,
    pub goto: String,
}
