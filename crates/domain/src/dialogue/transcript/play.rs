//! Plays a transcript: the caller's store, clock and platform in one small struct.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::DateTime;

use super::super::fault::Fault;
use super::super::{Decision, Event, Handoff, Reply, Rules, State, Subscription, What, step};
use super::read::{Block, Doing, Line, Transcript, Wanted};
use crate::message::Press;
use crate::time::Timestamp;

/// When a transcript begins that names no time: a Wednesday, noon in the bot's own zone.
const BEGINS: &str = "2026-11-18T12:00";

/// Clocks that may run out while one `@` line passes.
const TIMERS_MAX: usize = 50;

/// How a transcript went.
#[derive(Debug, Clone, Default)]
pub struct Played {
    pub faults: Vec<Fault>,
    /// What each block showed, for `bless` and `chat`.
    pub shown: Vec<Shown>,
    pub rules: BTreeSet<String>,
    pub states: BTreeSet<String>,
}

/// What followed one doing.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    pub replies: Vec<Reply>,
    pub facts: BTreeMap<&'static str, String>,
    pub slots: BTreeMap<String, String>,
    /// Every rule that answered; a fact `rule` may name any of them.
    pub rules: Vec<String>,
    pub entered: Vec<String>,
}

pub fn play(rules: &Rules, transcript: &Transcript) -> Played {
    let mut stage = Stage::new(rules);
    let mut played = Played::default();
    for block in &transcript.blocks {
        match stage.perform(&block.doing) {
            Ok(shown) => {
                check(block, &shown, &mut played.faults);
                played.rules.extend(shown.rules.iter().cloned());
                played.states.insert(stage.state.name.clone());
                played.states.extend(shown.entered.iter().cloned());
                played.shown.push(shown);
            }
            Err(wrong) => {
                played.faults.push(Fault::error(block.line, wrong));
                played.shown.push(Shown::default());
            }
        }
    }
    played
}

/// A dialogue without a store.
#[derive(Debug)]
pub struct Stage<'a> {
    rules: &'a Rules,
    pub state: State,
    now: Timestamp,
    platform: String,
    last: Option<Event>,
    /// Buttons that were shown, newest last.
    buttons: Vec<(String, String)>,
}

impl<'a> Stage<'a> {
    pub fn new(rules: &'a Rules) -> Stage<'a> {
        let mut stage = Stage {
            rules,
            state: State::default(),
            now: Timestamp(0),
            platform: String::new(),
            last: None,
            buttons: Vec::new(),
        };
        stage.now = stage.clock(BEGINS).unwrap_or(Timestamp(0));
        stage
    }

    pub fn perform(&mut self, doing: &Doing) -> Result<Shown, String> {
        let what = match doing {
            Doing::Write(text) => What::Text { text: text.clone() },
            Doing::Press(title) => What::Press { id: self.button(title)? },
            Doing::Photo(text) => What::Photo { photo: "photo".to_owned(), text: text.clone() },
            Doing::Sticker => What::Other { kind: "sticker".to_owned() },
            Doing::Start => What::Started { payload: String::new() },
            Doing::Stop => What::Stopped,
            Doing::Blocked => What::Blocked,
            Doing::Returned => What::Returned,
            Doing::Operator(text) if text == "/close" => What::Closed,
            Doing::Operator(text) => What::Operator { text: text.clone() },
            Doing::Failed(service) => {
                What::Answer { service: service.clone(), fields: None, reason: String::new() }
            }
            Doing::Answer(service, fields) => {
                let fields = Some(fields.iter().cloned().collect());
                What::Answer { service: service.clone(), fields, reason: String::new() }
            }
            Doing::Late(span, text) => {
                let event = self.event(What::Text { text: text.clone() }, self.now - *span);
                return Ok(self.step(event));
            }
            // The inbox knows the key of what it has, and takes nothing twice.
            Doing::Duplicate => {
                let known = self.last.is_some();
                let facts =
                    BTreeMap::from([("verdict", "duplicate".to_owned()), ("state", self.state.name.clone())]);
                let shown = Shown { facts, slots: self.state.slots.clone(), ..Shown::default() };
                return known
                    .then_some(shown)
                    .ok_or_else(|| "nothing was said yet that could come twice".to_owned());
            }
            Doing::Pass(span) => return Ok(self.pass(self.now + *span)),
            Doing::Clock(at) => {
                let at = self.clock(at).ok_or("there is no such time in the zone of the rules")?;
                return Ok(self.pass(at));
            }
            Doing::Platform(name) => {
                self.platform.clone_from(name);
                return Ok(self.still());
            }
        };
        let event = self.event(what, self.now);
        Ok(self.step(event))
    }

    fn event(&self, what: What, at: Timestamp) -> Event {
        what.on(&self.platform, at)
    }

    fn still(&self) -> Shown {
        Shown {
            facts: BTreeMap::from([
                ("state", self.state.name.clone()),
                ("mode", self.state.mode.as_str().to_owned()),
            ]),
            slots: self.state.slots.clone(),
            ..Shown::default()
        }
    }

    fn clock(&self, at: &str) -> Option<Timestamp> {
        let zoned = at.parse::<DateTime>().ok()?.to_zoned(self.rules.zone.clone()).ok()?;
        Some(Timestamp(zoned.timestamp().as_microsecond()))
    }

    /// Lets time go by; clocks that run out on the way are heard when they do.
    fn pass(&mut self, until: Timestamp) -> Shown {
        let mut all: Option<Shown> = None;
        for _ in 0..TIMERS_MAX {
            let Some(due) = self.state.due().filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            let event = self.event(What::Timer, self.now);
            let shown = self.step(event);
            all = Some(match all {
                None => shown,
                Some(mut before) => {
                    before.replies.extend(shown.replies);
                    before.rules.extend(shown.rules);
                    before.entered.extend(shown.entered);
                    Shown { replies: before.replies, rules: before.rules, entered: before.entered, ..shown }
                }
            });
        }
        self.now = until;
        all.unwrap_or_else(|| self.still())
    }

    fn button(&self, title: &str) -> Result<String, String> {
        let found = self.buttons.iter().rev().find(|(known, _)| known == title);
        found.map(|(_, id)| id.clone()).ok_or_else(|| {
            let shown: BTreeSet<&str> = self.buttons.iter().map(|(title, _)| title.as_str()).collect();
            let shown: Vec<&str> = shown.into_iter().collect();
            match shown.is_empty() {
                true => format!("no button is called [{title}]: none was shown yet"),
                false => format!("no button is called [{title}]; shown were [{}]", shown.join("] [")),
            }
        })
    }

    fn step(&mut self, event: Event) -> Shown {
        let decision = step(self.rules, &self.state, &event, self.now);
        self.state = decision.state.clone();
        for button in decision.replies.iter().flat_map(|reply| reply.buttons.iter().flatten()) {
            if let Press::Callback(id) = &button.press {
                self.buttons.push((button.text.clone(), id.clone()));
            }
        }
        if event.what.is_by_person() {
            self.last = Some(event);
        }
        shown(&decision)
    }
}

fn shown(decision: &Decision) -> Shown {
    let state = &decision.state;
    let mut facts = BTreeMap::from([
        ("state", state.name.clone()),
        ("mode", state.mode.as_str().to_owned()),
        ("verdict", decision.verdict().as_str().to_owned()),
        ("misses", state.misses.to_string()),
    ]);
    let rules: Vec<String> =
        decision.logs.iter().map(|log| log.rule.clone()).filter(|rule| !rule.is_empty()).collect();
    facts.extend(rules.first().map(|rule| ("rule", rule.clone())));
    facts.extend(decision.toast.clone().map(|toast| ("toast", toast)));
    facts.extend(decision.calls.first().map(|call| ("call", call.service.clone())));
    facts.extend(decision.subscription.map(|subscription| ("subscription", wish(subscription).to_owned())));
    facts.extend(decision.handoff.as_ref().map(|handoff| ("handoff", what_people_hear(handoff).to_owned())));
    Shown {
        replies: decision.replies.clone(),
        facts,
        slots: state.slots.clone(),
        rules,
        entered: decision.entered.clone(),
    }
}

fn wish(subscription: Subscription) -> &'static str {
    match subscription {
        Subscription::Known => "known",
        Subscription::Active => "active",
        Subscription::Stopped => "stopped",
        Subscription::Gone => "gone",
        Subscription::Returned => "returned",
    }
}

fn what_people_hear(handoff: &Handoff) -> &'static str {
    match handoff {
        Handoff::Open { .. } => "open",
        Handoff::Forward { .. } => "forward",
        Handoff::Remind => "remind",
        Handoff::Close { .. } => "close",
    }
}

fn check(block: &Block, shown: &Shown, faults: &mut Vec<Fault>) {
    // Whoever writes only facts does not say what was said.
    if !block.replies.is_empty() || block.facts.is_empty() {
        check_replies(block, shown, faults);
    }
    for fact in &block.facts {
        let found = fact_of(fact, shown);
        let named = fact.key == "rule" && shown.rules.contains(&fact.value);
        if !named && found.as_deref() != Some(fact.value.as_str()) {
            let (key, value) = (&fact.key, &fact.value);
            let found = found.unwrap_or_else(|| "none".to_owned());
            faults.push(Fault::error(fact.line, format!("expected {key} {value}, but it is {found}")));
        }
    }
}

/// The value that a fact has, without its name where the fact names it (`slot order`).
pub(super) fn fact_of(fact: &Wanted, shown: &Shown) -> Option<String> {
    if fact.key == "slot" {
        let name = fact.value.split_whitespace().next().unwrap_or_default();
        return Some(match shown.slots.get(name) {
            Some(value) => format!("{name} {value}"),
            None => name.to_owned(),
        });
    }
    shown.facts.get(fact.key.as_str()).cloned()
}

fn check_replies(block: &Block, shown: &Shown, faults: &mut Vec<Fault>) {
    for n in 0..block.replies.len().max(shown.replies.len()) {
        match (block.replies.get(n), shown.replies.get(n)) {
            (Some(wanted), Some(reply)) => faults.extend(differs(wanted, reply)),
            (Some(wanted), None) => {
                let text = format!("expected the bot to say «{}», but it said nothing more", wanted.text);
                faults.push(Fault::error(wanted.line, text));
            }
            (None, Some(reply)) => {
                let text = format!("the bot also said «{}», which is not expected here", reply.text);
                faults.push(Fault::error(block.line, text));
            }
            (None, None) => {}
        }
    }
}

fn differs(wanted: &Line, reply: &Reply) -> Option<Fault> {
    let fault = |text: String| Some(Fault::error(wanted.line, text));
    if bare(&wanted.text) != bare(&reply.text) && !has_buttons_behind(&wanted.text, reply) {
        return fault(format!("expected «{}», but the bot said «{}»", wanted.text, reply.text));
    }
    let rows = titles(reply);
    if wanted.buttons.as_ref().is_some_and(|wanted| *wanted != rows) {
        let show = |rows: &[Vec<String>]| {
            rows.iter().map(|row| format!("[{}]", row.join("] ["))).collect::<Vec<_>>().join(" / ")
        };
        let wanted = show(wanted.buttons.as_deref().unwrap_or_default());
        return fault(format!("expected the buttons {wanted}, but they are {}", show(&rows)));
    }
    if wanted.photo.is_some() && wanted.photo != reply.photo {
        return fault(format!("expected another picture than {:?}", reply.photo));
    }
    None
}

/// Whether the author wrote the buttons behind the words: `‹ Всё верно? [Да] [Нет]`.
fn has_buttons_behind(wanted: &str, reply: &Reply) -> bool {
    let titles: Vec<String> = titles(reply).concat().iter().map(|title| format!("[{title}]")).collect();
    let behind = format!("{} {}", reply.text, titles.join(" "));
    !titles.is_empty() && bare(wanted) == bare(&behind)
}

/// Lines without the spaces around them; empty ones do not count.
fn bare(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

pub(super) fn titles(reply: &Reply) -> Vec<Vec<String>> {
    reply.buttons.iter().map(|row| row.iter().map(|button| button.text.clone()).collect()).collect()
}
