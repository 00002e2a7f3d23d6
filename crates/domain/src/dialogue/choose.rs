//! Which rule answers a text: tiers in order, and inside a tier a sort key that a person can read.

use std::cmp::Reverse;

use super::heard::Heard;
use super::rules::{Rule, Rules, When};
use super::state::State;
use super::words::{Hits, Met};
use crate::time::Timestamp;

/// Rules that are asked together; the first tier with a match answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    Interrupt,
    State,
    Global,
}

impl Tier {
    pub const ALL: [Tier; 3] = [Tier::Interrupt, Tier::State, Tier::Global];

    pub fn name(self) -> &'static str {
        match self {
            Tier::Interrupt => "interrupt",
            Tier::State => "state",
            Tier::Global => "global",
        }
    }

    fn has(self, rule: &Rule, state: &str) -> bool {
        let here = rule.state.as_deref().is_none_or(|name| name == state);
        here && match self {
            Tier::Interrupt => rule.interrupt,
            Tier::State => !rule.interrupt && rule.state.is_some(),
            Tier::Global => !rule.interrupt && rule.state.is_none(),
        }
    }
}

/// How a rule was woken; an exact text beats an expression, which beats words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    Text,
    Regex,
    Words,
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Text => "text",
            Form::Regex => "regex",
            Form::Words => "words",
        }
    }
}

/// The order inside a tier; the smallest answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub priority: Reverse<i64>,
    pub form: Form,
    pub words: Reverse<usize>,
    pub typos: usize,
    /// Decides between equals; lint does not let it come to that on any example.
    pub line: usize,
}

impl Key {
    /// Equal but for the order in the file.
    pub fn ties(&self, other: &Key) -> bool {
        Key { line: 0, ..*self } == Key { line: 0, ..*other }
    }
}

/// A rule that would answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub rule: usize,
    pub tier: Tier,
    pub key: Key,
    /// The intent whose words were met.
    pub intent: Option<usize>,
}

/// What the circumstances are.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    pub rules: &'a Rules,
    pub state: &'a State,
    pub platform: &'a str,
    pub now: Timestamp,
}

impl Scene<'_> {
    pub fn holds(&self, when: &When) -> bool {
        let open = || self.rules.hours.as_ref().is_none_or(|hours| hours.is_open(&self.rules.zone, self.now));
        let held = |name: &String| self.state.slots.get(name);
        when.open.is_none_or(|wanted| wanted == open())
            && when.has.iter().all(|name| held(name).is_some())
            && when.slot.iter().all(|(name, values)| held(name).is_some_and(|value| values.contains(value)))
            && (when.platform.is_empty() || when.platform.iter().any(|name| name == self.platform))
            && when.not.as_ref().is_none_or(|not| !self.holds(not))
    }
}

/// What a text means before anybody asks where it was said.
#[derive(Debug, Clone, Default)]
pub struct Understood {
    /// Intents that were met, with the words that met them.
    pub intents: Vec<(usize, Met)>,
}

pub fn understand(rules: &Rules, heard: &Heard) -> Understood {
    understand_by(rules, heard, &rules.vocabulary.hits(heard))
}

/// The same, forgiving a slip in long words. What is met only so is offered, never answered.
pub fn understand_with_typos(rules: &Rules, heard: &Heard) -> Understood {
    understand_by(rules, heard, &rules.vocabulary.hits_with_typos(heard))
}

fn understood(rules: &Rules, intent: usize, heard: &Heard, hits: &Hits) -> Option<Met> {
    let intent = rules.intents.get(intent)?;
    if intent.not.iter().any(|pattern| pattern.met(heard, hits).is_some()) {
        return None;
    }
    let mut whole: Option<Met> = None;
    for met in intent.any.iter().filter_map(|pattern| pattern.met(heard, hits)) {
        // Words of several patterns count together; a pattern without a slip makes the slips of others unneeded.
        whole = Some(match whole {
            None => met,
            Some(before) if before.typos != met.typos => {
                if before.typos < met.typos {
                    before
                } else {
                    met
                }
            }
            Some(mut before) => {
                before.places.extend(met.places);
                before
            }
        });
    }
    whole.map(|mut met| {
        met.places.sort_unstable();
        met.places.dedup();
        met
    })
}

fn understand_by(rules: &Rules, heard: &Heard, hits: &Hits) -> Understood {
    let candidates = rules.vocabulary.candidates(hits).into_iter();
    let met = candidates.filter_map(|intent| Some((intent, understood(rules, intent, heard, hits)?)));
    Understood { intents: met.collect() }
}

/// Rules of one tier that the text wakes and whose conditions hold, best first.
pub fn candidates(scene: &Scene<'_>, tier: Tier, heard: &Heard, understood: &Understood) -> Vec<Candidate> {
    let mut found = woken_in(scene.rules, &scene.state.name, tier, heard, understood);
    found.retain(|candidate| scene.holds(&scene.rules.rules[candidate.rule].when));
    found
}

/// The same, whatever the conditions say.
pub fn woken_in(
    rules: &Rules,
    state: &str,
    tier: Tier,
    heard: &Heard,
    understood: &Understood,
) -> Vec<Candidate> {
    let here = rules.rules.iter().enumerate().filter(|(_, rule)| tier.has(rule, state));
    let mut found: Vec<Candidate> =
        here.filter_map(|(place, rule)| woken(place, rule, tier, heard, understood)).collect();
    found.sort_by_key(|candidate| candidate.key);
    found
}

fn woken(place: usize, rule: &Rule, tier: Tier, heard: &Heard, understood: &Understood) -> Option<Candidate> {
    let key = |form, words, typos| Key {
        priority: Reverse(rule.priority),
        form,
        words: Reverse(words),
        typos,
        line: rule.line,
    };
    let candidate = |key, intent| Candidate { rule: place, tier, key, intent };
    let whole = if heard.folded.is_empty() { &heard.text } else { &heard.folded };
    if rule.on.texts.contains(whole) {
        return Some(candidate(key(Form::Text, heard.words().count(), 0), None));
    }
    if rule.on.regexes.iter().any(|regex| regex.is_match(&heard.text)) {
        return Some(candidate(key(Form::Regex, 0, 0), None));
    }
    let met = understood.intents.iter().filter(|(intent, _)| rule.on.intents.contains(intent));
    let best = met.map(|(intent, met)| (key(Form::Words, met.places.len(), met.typos), *intent)).min();
    best.map(|(key, intent)| candidate(key, Some(intent)))
}

/// Rules that listen for something by its name: a command, a button, an event. The state's own come first.
pub fn by_name<'a>(scene: &Scene<'a>, listens: impl Fn(&Rule) -> bool) -> Option<usize> {
    let here = |rule: &Rule| rule.state.as_deref().is_none_or(|name| name == scene.state.name);
    let rules = scene.rules.rules.iter().enumerate();
    let fits = rules.filter(|(_, rule)| here(rule) && listens(rule) && scene.holds(&rule.when));
    fits.min_by_key(|(_, rule)| (rule.state.is_none(), Reverse(rule.priority), rule.line))
        .map(|(place, _)| place)
}
