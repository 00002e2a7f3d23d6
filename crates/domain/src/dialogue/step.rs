//! One step of a dialogue. Pure and total: the same rules, state, event and time give the same decision.
//!
//! The order is fixed, and the first that applies answers: late, human mode, flood, button, command, rules that
//! interrupt, the open question, rules of the state, global rules, nearly understood words, fallback.
//! `acts` does what was chosen here.

use super::acts::Turn;
use super::choose::{self, Candidate, Scene, Tier};
use super::decision::{Decision, Handoff, Subscription, Verdict};
use super::event::{Event, What};
use super::heard::Heard;
use super::rules::{PressAct, Pressed, Rules, Subscribe};
use super::slots;
use super::state::{Flood, Mode, State};
use super::texts::with;
use super::words::fold;
use super::{OFFERS_MAX, SKIP_ID};
use crate::time::{Span, Timestamp};

/// An event this much older than the newest one must not change anything any more.
pub const LATE: Span = Span::from_secs(120);

/// Decides what follows from an event.
pub fn step(rules: &Rules, state: &State, event: &Event, now: Timestamp) -> Decision {
    let mut turn = Turn::new(rules, state, event, now);
    match &event.what {
        What::Timer => turn.timer(),
        What::Operator { text } => turn.operator(text),
        What::Closed => turn.closed(),
        What::Answer { service, fields, reason } => turn.answer(service, fields.as_ref(), reason),
        _ => turn.person(),
    }
    turn.finish()
}

impl Turn<'_> {
    fn scene(&self) -> Scene<'_> {
        Scene { rules: self.rules, state: &self.state, platform: &self.event.platform, now: self.now }
    }

    /// Something that the person did.
    fn person(&mut self) {
        if matches!(self.event.what, What::Edited { .. }) {
            // What was said first was answered; people who have taken over want to know what is right.
            return match self.state.mode {
                Mode::Human => self.hear_for_people(),
                Mode::Bot | Mode::Stopped => self.log(Verdict::Ignored, "", "a correction"),
            };
        }
        let at = self.event.at.min(self.now);
        if self.state.last_at.is_some_and(|last| at + LATE < last) {
            let is_said =
                matches!(self.event.what, What::Text { .. } | What::Photo { .. } | What::Other { .. });
            // People who talk to a person want to know all they said, and hear nothing of the bot between.
            return match self.state.mode == Mode::Human && is_said {
                true => self.hear_for_people(),
                false => self.late(),
            };
        }
        self.begin(at);
        match &self.event.what {
            What::Blocked => return self.left(Subscription::Gone),
            What::Stopped => return self.left(Subscription::Stopped),
            What::Returned => return self.returned(),
            _ => {}
        }
        let goes_on = self.goes_on_with_an_album();
        // People want to know all that is said to them, however much it is.
        if self.state.mode == Mode::Human {
            return self.hear_for_people();
        }
        if goes_on {
            return self.log(Verdict::Ignored, "", "one more of an album");
        }
        if self.is_flood(at) {
            return;
        }
        if matches!(self.event.what, What::Started { .. }) {
            return self.started();
        }
        // Who left and speaks again is heard, but campaigns stay away until they ask for them.
        self.state.mode = Mode::Bot;
        if self.is_too_long() {
            return;
        }
        let event = self.event;
        match &event.what {
            What::Text { text } => self.text(text),
            What::Press { id } => self.press(id),
            What::Photo { photo, text } => self.photo(photo, text),
            _ => self.odd("other"),
        }
    }

    /// Only a rule that needs nothing of the dialogue may answer what came too late.
    fn late(&mut self) {
        let stateless = |candidate: &Candidate| self.rules.rules[candidate.rule].is_stateless();
        let found = match &self.event.what {
            What::Text { text } => {
                let heard = Heard::new(text);
                let understood = choose::understand(self.rules, &heard);
                let scene = self.scene();
                let mut found = choose::candidates(&scene, Tier::Global, &heard, &understood);
                found.retain(stateless);
                found.first().map(|candidate| candidate.rule)
            }
            _ => None,
        };
        if matches!(self.event.what, What::Press { .. }) {
            self.toast = Some(self.rules.texts.stale.clone());
        }
        match found {
            Some(rule) => self.speak_late(rule),
            None => self.log(Verdict::Late, "", ""),
        }
    }

    fn begin(&mut self, at: Timestamp) {
        if self.state.idle_at.is_some_and(|idle_at| idle_at <= self.now) {
            self.overdue();
        }
        let silent = self.state.last_at.is_none_or(|last| at - last > self.rules.limits.idle);
        if silent {
            self.state.turns = 0;
        }
        self.state.ticks = 0;
        self.state.last_at = Some(self.state.last_at.map_or(at, |last| last.max(at)));
    }

    fn is_flood(&mut self, at: Timestamp) -> bool {
        let limits = self.rules.limits;
        let flood = self.state.flood;
        let goes_on = flood.since.is_some_and(|since| at - since < limits.messages_per);
        self.state.flood = match goes_on {
            true => Flood { messages: flood.messages.saturating_add(1), ..flood },
            false => Flood { since: Some(at), messages: 1 },
        };
        let over = self.state.flood.messages > limits.messages;
        if over {
            self.log(Verdict::Flood, "", "");
            // Whoever wants to be left alone is heard, always.
            if self.says_stop() {
                self.left(Subscription::Stopped);
            // Said once; a bot that answers every message of a flood is part of it.
            } else if self.state.flood.messages == limits.messages + 1 {
                self.say(self.rules.texts.flood.clone());
            }
        }
        over
    }

    fn says_stop(&self) -> bool {
        let What::Text { text } = &self.event.what else { return false };
        Heard::new(text).command().is_some_and(|(name, _)| name == "stop")
    }

    /// The pictures of an album come one by one, and are one thing that the person did: the first, or one with words,
    /// speaks for it.
    fn goes_on_with_an_album(&mut self) -> bool {
        let Some(album) = &self.event.album else { return false };
        let known = self.state.album.as_ref() == Some(album);
        self.state.album = Some(album.clone());
        let words = match &self.event.what {
            What::Text { text } | What::Photo { text, .. } => text.as_str(),
            _ => "",
        };
        known && words.trim().is_empty()
    }

    fn is_too_long(&mut self) -> bool {
        self.state.turns = self.state.turns.saturating_add(1);
        let most = self.rules.limits.turns;
        if self.state.turns <= most {
            return false;
        }
        self.log(Verdict::Limit, "", "turns");
        self.hand_off(&with(&self.rules.texts.desk_turns, "n", most), false);
        // Where nobody can take over, the bot says so and goes on: it must not fall silent.
        self.state.turns = 0;
        true
    }

    fn hear_for_people(&mut self) {
        self.log(Verdict::Human, "", "");
        let (text, photo) = self.said();
        if text.is_empty() && photo.is_none() {
            return;
        }
        if self.says_stop() {
            self.subscription = Some(Subscription::Stopped);
            self.state.subscribed = false;
        }
        self.forward(Handoff::Forward { text, photo });
    }

    fn text(&mut self, text: &str) {
        let heard = Heard::new(text);
        if heard.text.is_empty() {
            return self.odd("other");
        }
        if let Some((name, _)) = heard.command() {
            let listens = choose::by_name(&self.scene(), |rule| rule.on.commands.contains(&name));
            match (listens, name.as_str()) {
                (_, "start") => return self.started(),
                (_, "stop") => return self.stop(listens),
                (Some(rule), _) => return self.fire(rule, Verdict::Rule),
                (None, _) => {}
            }
        }
        self.words(&heard);
    }

    /// The tiers of a text that is no command.
    fn words(&mut self, heard: &Heard) {
        let understood = choose::understand(self.rules, heard);
        let first = |turn: &Self, tier| {
            let found = choose::candidates(&turn.scene(), tier, heard, &understood);
            found.first().map(|candidate| candidate.rule)
        };
        if let Some(rule) = first(self, Tier::Interrupt) {
            return self.fire(rule, Verdict::Rule);
        }
        if self.takes(heard) {
            return;
        }
        if let Some(rule) = first(self, Tier::State).or_else(|| first(self, Tier::Global)) {
            return self.fire(rule, Verdict::Rule);
        }
        if self.offers(heard) {
            return;
        }
        self.not_understood();
    }

    /// Whether the text is the answer to the open question.
    fn takes(&mut self, heard: &Heard) -> bool {
        let rules = self.rules;
        let Some(ask) = self.asked() else { return false };
        let skip = self.pressed(SKIP_ID).filter(|pressed| pressed.act == PressAct::Skip);
        if skip.is_some_and(|skip| fold(&skip.title) == heard.folded) {
            self.skip();
            return true;
        }
        let Some(slot) = rules.slots.get(&ask.slot) else { return false };
        let around = slots::Around { zone: &rules.zone, now: self.now, vocabulary: &rules.vocabulary };
        match slots::parse(&slot.kind, heard, around) {
            Some(value) => {
                self.fill(&ask.slot, value);
                true
            }
            None => false,
        }
    }

    /// Words that nearly fit are asked about, never acted on.
    fn offers(&mut self, heard: &Heard) -> bool {
        let understood = choose::understand_with_typos(self.rules, heard);
        let scene = self.scene();
        let tiers = Tier::ALL.into_iter();
        let mut found: Vec<Candidate> =
            tiers.flat_map(|tier| choose::candidates(&scene, tier, heard, &understood)).collect();
        // Whoever is asked reads a title, never the name of a rule.
        found.retain(|candidate| self.rules.title_of(&self.rules.rules[candidate.rule]).is_some());
        found.sort_by_key(|candidate| candidate.key);
        found.truncate(OFFERS_MAX);
        if found.is_empty() {
            return false;
        }
        self.offer(&found);
        true
    }

    fn not_understood(&mut self) {
        match self.asked() {
            Some(ask) => self.invalid(ask),
            None => self.fall_back(),
        }
    }

    fn photo(&mut self, photo: &str, text: &str) {
        let rules = self.rules;
        let wanted = self.asked().filter(|ask| {
            rules.slots.get(&ask.slot).is_some_and(|slot| matches!(slot.kind, super::rules::SlotKind::Photo))
        });
        match wanted {
            Some(ask) => self.fill(&ask.slot, photo.to_owned()),
            None if !text.trim().is_empty() => self.text(text),
            None => self.odd("photo"),
        }
    }

    /// What no rule can read, unless one listens for the very kind.
    fn odd(&mut self, event: &str) {
        match choose::by_name(&self.scene(), |rule| rule.on.events.iter().any(|name| name == event)) {
            Some(rule) => self.fire(rule, Verdict::Rule),
            None => self.not_understood(),
        }
    }

    fn press(&mut self, id: &str) {
        let Some(pressed) = self
            .pressed(id)
            .filter(|pressed| pressed.state.as_ref().is_none_or(|state| *state == self.state.name))
        else {
            return self.stale();
        };
        match &pressed.act {
            PressAct::Say => self.said_by_button(pressed),
            PressAct::Goto(state) => {
                self.log(Verdict::Rule, "", &format!("button {}", pressed.id));
                self.state.misses = 0;
                self.enter(state);
            }
            PressAct::Rule(name) => match self.rules.rules.iter().position(|rule| rule.name == *name) {
                Some(rule) => self.fire(rule, Verdict::Rule),
                None => self.stale(),
            },
            PressAct::Skip => self.skip(),
            PressAct::Subscribe => {
                self.log(Verdict::Rule, "", "subscribed");
                self.subscribe(true);
                self.say(self.rules.texts.subscribed.clone());
            }
        }
    }

    fn stale(&mut self) {
        self.toast = Some(self.rules.texts.stale.clone());
        self.log(Verdict::Stale, "", "");
    }

    fn said_by_button(&mut self, pressed: &Pressed) {
        let title = fold(&pressed.title);
        let listens = |rule: &super::rules::Rule| {
            rule.on.buttons.iter().any(|name| *name == pressed.id || fold(name) == title)
        };
        match choose::by_name(&self.scene(), listens) {
            Some(rule) => self.fire(rule, Verdict::Rule),
            None => self.words(&Heard::new(&pressed.title)),
        }
    }

    /// The person opened the dialogue, or began again.
    fn started(&mut self) {
        self.log(Verdict::Started, "", "");
        self.state.mode = Mode::Bot;
        self.subscription = Some(match self.rules.subscribe {
            Subscribe::Start => Subscription::Active,
            Subscribe::Ask | Subscribe::Never => Subscription::Known,
        });
        self.state.subscribed |= self.rules.subscribe == Subscribe::Start;
        self.state.slots.clear();
        self.state.misses = 0;
        let listens = |rule: &super::rules::Rule| {
            rule.on.commands.iter().any(|name| name == "start")
                || rule.on.events.iter().any(|name| name == "start")
        };
        self.state.name.clone_from(&self.rules.start);
        match choose::by_name(&self.scene(), listens) {
            Some(rule) => self.fire(rule, Verdict::Rule),
            None => self.enter(&self.rules.start),
        }
        self.ask_to_subscribe();
    }

    fn returned(&mut self) {
        self.log(Verdict::Returned, "", "");
        self.state.mode = Mode::Bot;
        self.subscription = Some(Subscription::Returned);
        let listens = |rule: &super::rules::Rule| rule.on.events.iter().any(|name| name == "return");
        if let Some(rule) = choose::by_name(&self.scene(), listens) {
            self.fire(rule, Verdict::Rule);
        }
    }

    /// `/stop`: the person hears that it worked.
    fn stop(&mut self, rule: Option<usize>) {
        self.left(Subscription::Stopped);
        match rule {
            Some(rule) => self.speak_only(rule),
            None => self.say(self.rules.texts.stop.clone()),
        }
    }

    fn left(&mut self, how: Subscription) {
        self.log(Verdict::Stopped, "", "");
        if self.state.mode == Mode::Human {
            self.handoff = Some(Handoff::Close { why: self.rules.texts.desk_left.clone() });
        }
        self.state.mode = Mode::Stopped;
        self.state.subscribed = false;
        self.subscription = Some(how);
        self.home();
    }
}
