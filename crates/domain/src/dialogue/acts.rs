//! What a step does once it is decided who answers: words, slots, ways, handoff, clocks.

use std::collections::BTreeMap;

use super::choose::{Candidate, Scene, by_name};
use super::decision::{Call, Decision, Handoff, Log, Reply, Subscription, Verdict};
use super::event::{Event, What};
use super::heard::Heard;
use super::hours::Opening;
use super::placeholders::{fill, fill_masked};
use super::rules::{Acts, Ask, ButtonRule, CallRule, Next, Pressed, Rules, Rung, Subscribe};
use super::state::{Mode, State};
use super::texts::with;
use super::{OFFER_MARK, SUBSCRIBE_ID, slots};
use crate::message::{Button, Press};
use crate::time::Timestamp;

/// Characters of a field of an answer that a slot keeps.
const FIELD_CHARACTERS_MAX: usize = 1_000;

/// A decision in the making.
pub(super) struct Turn<'a> {
    pub rules: &'a Rules,
    pub event: &'a Event,
    pub now: Timestamp,
    pub state: State,
    pub subscription: Option<Subscription>,
    pub handoff: Option<Handoff>,
    pub toast: Option<String>,
    replies: Vec<Reply>,
    calls: Vec<Call>,
    logs: Vec<Log>,
    entered: Vec<String>,
    from: String,
    steps: u32,
}

impl<'a> Turn<'a> {
    pub(super) fn new(rules: &'a Rules, state: &State, event: &'a Event, now: Timestamp) -> Turn<'a> {
        let mut turn = Turn {
            rules,
            event,
            now,
            state: state.clone(),
            subscription: None,
            handoff: None,
            toast: None,
            replies: Vec::new(),
            calls: Vec::new(),
            logs: Vec::new(),
            entered: Vec::new(),
            from: state.name.clone(),
            steps: 0,
        };
        turn.adopt();
        turn
    }

    /// A dialogue that an older version of the rules left behind stands where this version says.
    fn adopt(&mut self) {
        if self.rules.states.contains_key(&self.state.name) {
            return;
        }
        let stands = self.rules.state_or_start(&self.state.name).to_owned();
        self.state.name = stands;
        self.state.tries = 0;
        self.state.slots.retain(|name, _| self.rules.slots.contains_key(name));
    }

    pub(super) fn finish(mut self) -> Decision {
        if self.event.what.is_by_person() || matches!(self.event.what, What::Timer | What::Answer { .. }) {
            self.set_idle();
        }
        if self.logs.is_empty() {
            self.log(Verdict::Ignored, "", "");
        }
        for log in &mut self.logs {
            log.from.clone_from(&self.from);
            log.to.clone_from(&self.state.name);
        }
        Decision {
            state: self.state,
            replies: self.replies,
            subscription: self.subscription,
            handoff: self.handoff,
            calls: self.calls,
            toast: self.toast,
            entered: self.entered,
            logs: self.logs,
        }
    }

    /// The clock of the state where the dialogue stands now.
    fn set_idle(&mut self) {
        let rules = self.rules;
        let verdict = self.logs.first().map(|log| log.verdict);
        if matches!(verdict, Some(Verdict::Late | Verdict::Stale | Verdict::Flood))
            && self.state.name == self.from
        {
            return;
        }
        let own = rules.states.get(&self.state.name).and_then(|state| state.idle.as_ref());
        let patience = match own {
            Some(idle) => Some(idle.after),
            None if self.state.name != rules.start => Some(rules.limits.idle),
            None => None,
        };
        // States that hand the dialogue on by their clocks must not write to a sleeping person for ever.
        let may = self.state.mode == Mode::Bot && self.state.ticks <= rules.limits.steps.min(10);
        self.state.idle_at = patience.filter(|_| may).map(|span| self.now + span);
    }

    pub(super) fn log(&mut self, verdict: Verdict, rule: &str, note: &str) {
        self.logs.push(Log {
            verdict,
            version: self.rules.version,
            rule: rule.to_owned(),
            from: String::new(),
            to: String::new(),
            note: note.to_owned(),
        });
    }

    pub(super) fn say(&mut self, text: String) {
        self.reply(text, &[], None);
    }

    fn reply(&mut self, text: String, buttons: &[Vec<ButtonRule>], photo: Option<&String>) {
        let text = fill(&text, self.rules, &self.state);
        // A placeholder may leave nothing; an empty message is refused by every platform.
        if text.trim().is_empty() && photo.is_none() {
            return;
        }
        self.replies.push(Reply { text, buttons: rows(buttons), photo: photo.cloned() });
    }

    /// A rule answers. Inside an open question that it does not leave, the question is asked again.
    pub(super) fn fire(&mut self, place: usize, verdict: Verdict) {
        let rules = self.rules;
        let Some(rule) = rules.rules.get(place) else { return };
        self.log(verdict, &rule.name, "");
        self.state.misses = 0;
        self.do_acts(&rule.acts, &rule.name);
        let left = rule.acts.goto.is_some() || rule.acts.end;
        if self.state.mode != Mode::Bot {
            // People have it now; the state only remembers where to go on.
            if let Some(goto) = &rule.acts.goto {
                self.state.name.clone_from(goto);
            }
            return;
        }
        if let Some(goto) = &rule.acts.goto {
            self.enter(goto);
        } else if rule.acts.end {
            self.home();
        } else if let Some(ask) = self.asked().filter(|_| !left) {
            self.ask(ask);
        }
    }

    /// What a rule says, and nothing else it does.
    pub(super) fn speak_only(&mut self, place: usize) {
        if let Some(rule) = self.rules.rules.get(place) {
            self.speak(&rule.acts);
        }
    }

    pub(super) fn speak_late(&mut self, place: usize) {
        let name = self.rules.rules.get(place).map(|rule| rule.name.clone()).unwrap_or_default();
        self.log(Verdict::Late, &name, "");
        self.speak_only(place);
    }

    fn do_acts(&mut self, acts: &Acts, who: &str) {
        for (name, value) in &acts.set {
            let value = fill(value, self.rules, &self.state);
            self.state.slots.insert(name.clone(), value);
        }
        for name in &acts.clear {
            self.state.slots.remove(name);
        }
        self.speak(acts);
        if let Some(subscribe) = acts.subscribe {
            self.subscribe(subscribe);
            if subscribe && acts.reply.is_empty() {
                self.say(self.rules.texts.subscribed.clone());
            }
        }
        if let Some(call) = &acts.call {
            self.call(call);
        }
        if let Some(why) = &acts.handoff {
            let why = fill(why, self.rules, &self.state);
            self.hand_off(&why, !acts.reply.is_empty());
        }
        if let Some(note) = &acts.log {
            let note = fill_masked(note, self.rules, &self.state);
            self.log(Verdict::Noted, who, &note);
        }
    }

    fn speak(&mut self, acts: &Acts) {
        let last = acts.reply.len().saturating_sub(1);
        for (n, text) in acts.reply.iter().enumerate() {
            let buttons: &[Vec<ButtonRule>] = if n == last { &acts.buttons } else { &[] };
            self.reply(text.clone(), buttons, acts.photo.as_ref().filter(|_| n == last));
        }
        if acts.reply.is_empty() && acts.photo.is_some() {
            self.reply(String::new(), &acts.buttons, acts.photo.as_ref());
        }
    }

    pub(super) fn subscribe(&mut self, yes: bool) {
        self.state.subscribed = yes;
        self.subscription = Some(if yes { Subscription::Active } else { Subscription::Stopped });
    }

    /// Under the first words of a dialogue, unless the author asks in a rule of their own.
    pub(super) fn ask_to_subscribe(&mut self) {
        let asks = self.rules.subscribe == Subscribe::Ask && !self.rules.subscribes && !self.state.subscribed;
        if asks && let Some(reply) = self.replies.last_mut() {
            let press = Press::Callback(SUBSCRIBE_ID.to_owned());
            reply.buttons.push(vec![Button { text: self.rules.texts.subscribe.clone(), press }]);
        }
    }

    fn call(&mut self, call: &CallRule) {
        let field = |name: &String| Some((name.clone(), self.state.slots.get(name)?.clone()));
        let fields: BTreeMap<String, String> = call.send.iter().filter_map(field).collect();
        self.calls.push(Call { service: call.service.clone(), fields });
    }

    /// Gives the dialogue to people, or says that there are none.
    pub(super) fn hand_off(&mut self, why: &str, has_spoken: bool) {
        let rules = self.rules;
        let Some(operators) = &rules.operators else {
            if !has_spoken {
                self.say(rules.texts.nobody.clone());
            }
            return;
        };
        match self.opening() {
            Some(opening) => self.say(with(&rules.texts.closed, "when", opening.words)),
            None if !has_spoken => self.say(rules.texts.handoff.clone()),
            None => {}
        }
        let (text, photo) = self.said();
        self.state.mode = Mode::Human;
        self.state.misses = 0;
        self.state.tries = 0;
        let seen = self.seen_by_people();
        self.state.waits_since = self.state.waits_since.or(Some(seen));
        self.state.remind_at = Some(seen + operators.wait);
        self.state.back_at = Some(seen + operators.back);
        let why = if why.is_empty() { rules.texts.desk_handoff.clone() } else { why.to_owned() };
        self.handoff = Some(Handoff::Open { why, text, photo });
    }

    /// What people at the desk read of the event: words, and the picture.
    pub(super) fn said(&self) -> (String, Option<String>) {
        match &self.event.what {
            What::Text { text } => (text.clone(), None),
            What::Photo { photo, text } => (text.clone(), Some(photo.clone())),
            What::Other { kind } => (with(&self.rules.texts.desk_other, "kind", kind), None),
            What::Edited { text } => (format!("{}\n{text}", self.rules.texts.desk_edited), None),
            What::Press { id } => {
                (self.pressed(id).map(|pressed| pressed.title.clone()).unwrap_or_default(), None)
            }
            _ => (String::new(), None),
        }
    }

    /// When people are there next, if they are away now.
    fn opening(&self) -> Option<Opening> {
        let (hours, zone) = (self.rules.hours.as_ref()?, &self.rules.zone);
        if hours.is_open(zone, self.now) { None } else { hours.opens(zone, self.now) }
    }

    /// When people can look at what is said now: who waits for an opening is not kept waiting before it.
    fn seen_by_people(&self) -> Timestamp {
        self.opening().map_or(self.now, |opening| opening.at)
    }

    /// The person goes on talking to people.
    pub(super) fn forward(&mut self, handoff: Handoff) {
        if let Some(operators) = &self.rules.operators {
            let seen = self.seen_by_people();
            self.state.waits_since = self.state.waits_since.or(Some(seen));
            self.state.remind_at = self.state.remind_at.or(Some(seen + operators.wait));
            self.state.back_at = Some(seen + operators.back);
        }
        self.handoff = Some(handoff);
    }

    pub(super) fn operator(&mut self, text: &str) {
        self.log(Verdict::Human, "", "operator");
        self.state.mode = Mode::Human;
        self.state.idle_at = None;
        self.state.waits_since = None;
        self.state.remind_at = None;
        self.state.back_at = self.rules.operators.as_ref().map(|operators| self.now + operators.back);
        // The words of a person are sent as they are: braces in them are no placeholders.
        if !text.trim().is_empty() {
            self.replies.push(Reply::text(text));
        }
    }

    pub(super) fn closed(&mut self) {
        if self.state.mode == Mode::Human {
            self.log(Verdict::Human, "", "closed");
            self.take_back(&self.rules.texts.desk_closed);
        }
    }

    fn take_back(&mut self, why: &str) {
        self.state.mode = Mode::Bot;
        self.handoff = Some(Handoff::Close { why: why.to_owned() });
        self.home();
    }

    /// Stands at the start again, without a word, as if the dialogue were new; only how much was said lately stays.
    pub(super) fn home(&mut self) {
        self.state.name.clone_from(&self.rules.start);
        self.state.slots.clear();
        self.state.misses = 0;
        self.state.tries = 0;
        self.state.turns = 0;
        self.state.idle_at = None;
        self.state.waits_since = None;
        self.state.remind_at = None;
        self.state.back_at = None;
    }

    /// The question that waits for an answer.
    pub(super) fn asked(&self) -> Option<&'a Ask> {
        self.rules.states.get(&self.state.name)?.ask.as_ref()
    }

    fn ask(&mut self, ask: &Ask) {
        self.reply(ask.say.clone(), &ask.buttons, ask.photo.as_ref());
    }

    /// Enters a state, and those that follow without waiting for anybody.
    pub(super) fn enter(&mut self, name: &str) {
        let rules = self.rules;
        let mut next = Some(name.to_owned());
        while let Some(name) = next.take() {
            let Some(state) = rules.states.get(&name) else { return };
            self.steps += 1;
            if self.steps > rules.limits.steps {
                self.log(Verdict::Limit, "", "steps");
                return self.hand_off(&rules.texts.desk_steps, false);
            }
            self.state.name.clone_from(&name);
            self.state.tries = 0;
            self.entered.push(name.clone());
            self.do_acts(&state.acts, &name);
            if self.state.mode != Mode::Bot {
                return;
            }
            if state.acts.end {
                return self.home();
            }
            if let Some(ask) = &state.ask {
                return self.ask(ask);
            }
            next = self.way(&state.next);
        }
    }

    fn way(&self, ways: &[Next]) -> Option<String> {
        let scene =
            Scene { rules: self.rules, state: &self.state, platform: &self.event.platform, now: self.now };
        ways.iter().find(|way| scene.holds(&way.when)).map(|way| way.goto.clone())
    }

    /// The open question has its answer.
    pub(super) fn fill(&mut self, slot: &str, value: String) {
        self.log(Verdict::Slot, "", &format!("slot {slot}"));
        self.state.slots.insert(slot.to_owned(), value);
        self.go_on();
    }

    pub(super) fn skip(&mut self) {
        if let Some(ask) = self.asked() {
            self.log(Verdict::Slot, "", &format!("slot {} skipped", ask.slot));
            self.state.slots.remove(&ask.slot);
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        self.state.misses = 0;
        self.state.tries = 0;
        let rules = self.rules;
        let ways = rules.states.get(&self.state.name).map(|state| state.next.as_slice()).unwrap_or_default();
        match self.way(ways) {
            Some(name) => self.enter(&name),
            None => self.home(),
        }
    }

    pub(super) fn invalid(&mut self, ask: &Ask) {
        self.log(Verdict::Invalid, "", &format!("slot {}", ask.slot));
        self.state.tries = self.state.tries.saturating_add(1);
        if self.state.tries < ask.tries {
            let usual = || format!("{}\n{}", self.rules.texts.invalid, ask.say);
            let text = ask.invalid.clone().unwrap_or_else(usual);
            return self.reply(text, &ask.buttons, None);
        }
        match &ask.failed {
            Some(failed) => self.enter(failed),
            None => {
                let question = fill(&ask.say, self.rules, &self.state);
                self.hand_off(&with(&self.rules.texts.desk_invalid, "question", question), false);
                if self.state.mode == Mode::Bot {
                    self.home();
                }
            }
        }
    }

    /// The rung of the ladder that the misses have reached. Slots and the state stay as they are.
    pub(super) fn fall_back(&mut self) {
        let rules = self.rules;
        self.log(Verdict::Fallback, "", "");
        let last = rules.fallback.len().saturating_sub(1);
        let Some(rung) = rules.fallback.get((self.state.misses as usize).min(last)) else { return };
        self.state.misses = self.state.misses.saturating_add(1);
        self.climb(rung);
    }

    fn climb(&mut self, rung: &Rung) {
        let rules = self.rules;
        let buttons = if rung.menu { &rules.menu } else { &rung.buttons };
        let silent = rung.say.is_none() && buttons.is_empty();
        if !silent {
            let text = rung.say.clone().unwrap_or_else(|| rules.texts.fallback.clone());
            self.reply(text, buttons, None);
        }
        if rung.handoff {
            self.hand_off(&rules.texts.desk_fallback, !silent);
        } else if let Some(goto) = &rung.goto {
            self.enter(goto);
        } else if silent {
            self.say(rules.texts.fallback.clone());
        }
    }

    pub(super) fn offer(&mut self, found: &[Candidate]) {
        let rules = self.rules;
        let button = |candidate: &Candidate| {
            let rule = &rules.rules[candidate.rule];
            Some(ButtonRule {
                title: rules.title_of(rule)?.to_owned(),
                carries: super::file::carries(&format!("{OFFER_MARK}{}", rule.name), rule.state.as_deref()),
                url: None,
            })
        };
        let rows: Vec<Vec<ButtonRule>> = found.iter().filter_map(button).map(|button| vec![button]).collect();
        let own = match found {
            [only] => only.intent.and_then(|intent| rules.intents[intent].offer.clone()),
            _ => None,
        };
        let name =
            found.first().map(|candidate| rules.rules[candidate.rule].name.clone()).unwrap_or_default();
        self.log(Verdict::Offered, &name, "");
        self.reply(own.unwrap_or_else(|| rules.texts.offer.clone()), &rows, None);
    }

    /// What a press means: by what it carries, or by the bare id where the dialogue stands.
    pub(super) fn pressed(&self, id: &str) -> Option<&'a Pressed> {
        let here = || self.rules.presses.get(&super::file::carries(id, Some(&self.state.name)));
        self.rules.presses.get(id).or_else(here)
    }

    /// A moment that `State::due` named.
    pub(super) fn timer(&mut self) {
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= self.now);
        if due(self.state.back_at) {
            self.log(Verdict::Timer, "", "back to the bot");
            return self.take_back(&self.rules.texts.desk_silent);
        }
        if due(self.state.remind_at) {
            self.log(Verdict::Timer, "", "operators reminded");
            self.state.remind_at = None;
            self.handoff = Some(Handoff::Remind);
            return;
        }
        if due(self.state.idle_at) {
            self.log(Verdict::Timer, "", "idle");
            self.state.ticks = self.state.ticks.saturating_add(1);
            let rules = self.rules;
            let own = rules.states.get(&self.state.name).and_then(|state| state.idle.as_ref());
            match own {
                Some(idle) => self.enter(&idle.goto),
                None => self.home(),
            }
        }
    }

    /// The clock had run out, but the person spoke before it was heard: the same way, without words.
    pub(super) fn overdue(&mut self) {
        let own = self.rules.states.get(&self.state.name).and_then(|state| state.idle.as_ref());
        match own {
            Some(idle) => {
                self.state.name.clone_from(&idle.goto);
                self.state.tries = 0;
            }
            None => self.home(),
        }
    }

    /// The shop's service answered, or failed for good.
    pub(super) fn answer(&mut self, service: &str, fields: Option<&BTreeMap<String, String>>, reason: &str) {
        let note = match fields {
            Some(_) => format!("{service} answered"),
            None if reason.is_empty() => format!("{service} failed"),
            None => format!("{service} failed: {reason}"),
        };
        self.log(Verdict::Answer, "", &note);
        for (name, value) in fields.into_iter().flatten() {
            self.take(service, name, value);
        }
        if self.state.mode != Mode::Bot {
            return;
        }
        let event = format!("{service}.{}", if fields.is_some() { "ok" } else { "failed" });
        let scene =
            Scene { rules: self.rules, state: &self.state, platform: &self.event.platform, now: self.now };
        match by_name(&scene, |rule| rule.on.events.contains(&event)) {
            Some(rule) => self.fire(rule, Verdict::Rule),
            None if fields.is_none() => self.say(self.rules.texts.nobody.clone()),
            None => {}
        }
    }

    /// A field goes into the slot of its name if a call to that service takes it, and the slot can hold it.
    fn take(&mut self, service: &str, name: &str, value: &str) {
        let rules = self.rules;
        let acts =
            rules.rules.iter().map(|rule| &rule.acts).chain(rules.states.values().map(|state| &state.acts));
        let mut calls = acts.filter_map(|acts| acts.call.as_ref()).filter(|call| call.service == service);
        let Some(slot) =
            rules.slots.get(name).filter(|_| calls.any(|call| call.take.iter().any(|take| take == name)))
        else {
            return;
        };
        let value: String = value.chars().take(FIELD_CHARACTERS_MAX).collect();
        let around = slots::Around { zone: &rules.zone, now: self.now, vocabulary: &rules.vocabulary };
        let kept = slots::parse(&slot.kind, &Heard::new(&value), around).unwrap_or(value);
        self.state.slots.insert(name.to_owned(), kept);
    }
}

fn rows(buttons: &[Vec<ButtonRule>]) -> Vec<Vec<Button>> {
    let button = |button: &ButtonRule| Button {
        text: button.title.clone(),
        press: match &button.url {
            Some(url) => Press::Url(url.clone()),
            None => Press::Callback(button.carries.clone()),
        },
    };
    buttons.iter().map(|row| row.iter().map(button).collect()).collect()
}
