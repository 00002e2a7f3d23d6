//! Turns: due dialogues are claimed, the rules are asked, and what they decide is committed whole.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::AmbiguityPolicy;
use domain::dialogue::texts::with;
use domain::dialogue::{Call, Decision, Event, Handoff, Mode, Rules, State, Subscription, What, step};
use domain::ids::{AccountId, BotId, WorkspaceId};
use domain::message::Message;
use domain::time::{Span, Timestamp};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use platforms::incoming::Callback;
use platforms::platform::Network;
use serde_json::json;
use store::{DialogueMode, NewCall, NewLog, RecipientStatus, Say, Store, Turn, TurnTaken};
use tokio::sync::{Notify, watch};

use super::Settings;
use super::hear::{self, HEAD_MARK, ticket};
use crate::addresses::{self, ApiBases};
use crate::lanes;

/// Dialogues of one claim.
const BATCH: usize = 256;
/// How long a dialogue stays with a node that says nothing any more. A turn takes microseconds.
const LEASE: Span = Span::from_secs(10);
/// A wake-up may be lost; then it takes this long.
const IDLE: Span = Span::from_secs(1);
/// A toast that nobody takes in this time is not worth more.
const TOAST_TIME: Duration = Duration::from_secs(5);
const TOASTS_MAX: usize = 32;

pub(super) async fn run(
    store: &Store,
    network: &Network,
    settings: &Settings,
    calls: &Notify,
    mut stop: watch::Receiver<bool>,
) {
    let mut book = Book::default();
    let mut wake_up = None;
    let mut toasts = FuturesUnordered::new();
    while !*stop.borrow() {
        if wake_up.is_none() {
            wake_up = store.wake_up().await.ok();
        }
        let turned = turn_once(store, &mut book, calls).await;
        let more = match turned {
            Ok((taken, asked)) => {
                for (account, callback, text) in asked {
                    if toasts.len() < TOASTS_MAX {
                        toasts.push(answer_press(store, network, &settings.bases, account, callback, text));
                    }
                }
                taken == BATCH
            }
            Err(error) => {
                tracing::warn!(%error, "turns could not be taken");
                false
            }
        };
        if more {
            continue;
        }
        let wait = until_next(store).await;
        let woken = async {
            match wake_up.as_mut() {
                Some(wake_up) => drop(wake_up.wait(wait).await),
                None => tokio::time::sleep(wait.into()).await,
            }
        };
        tokio::pin!(woken);
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                Some(()) = toasts.next(), if !toasts.is_empty() => {}
                () = &mut woken => break,
            }
        }
    }
}

/// Until a timer is due; no longer than a lost wake-up may cost.
async fn until_next(store: &Store) -> Span {
    let looked = async { store::Result::Ok((store.bot_next_turn().await?, store.now().await?)) };
    match looked.await {
        Ok((Some(next), now)) => (next - now).clamp(Span::from_millis(1), IDLE),
        _ => IDLE,
    }
}

/// A press that wants an answer: on which account, which, and with what words.
type Toast = ((WorkspaceId, AccountId), Callback, Option<String>);

async fn turn_once(store: &Store, book: &mut Book, calls: &Notify) -> store::Result<(usize, Vec<Toast>)> {
    let turns = store.bot_claim_turns(BATCH, LEASE).await?;
    if turns.is_empty() {
        return Ok((0, Vec::new()));
    }
    let (now, n) = (store.now().await?, turns.len());
    let mut taken: BTreeMap<WorkspaceId, Vec<(TurnTaken, Vec<Toast>)>> = BTreeMap::new();
    for turn in turns {
        let rules = book.rules(store, &turn).await?;
        taken.entry(turn.workspace_id).or_default().push(take(&turn, rules.as_deref(), now));
    }
    let mut asked = Vec::new();
    for (workspace, turns) in taken {
        let (turns, toasts): (Vec<TurnTaken>, Vec<_>) = turns.into_iter().unzip();
        let calling = turns.iter().any(|turn| !turn.calls.is_empty());
        let kept = store.bot_commit_turns(workspace, turns).await?;
        for (kept, toasts) in kept.into_iter().zip(toasts) {
            match kept {
                true => asked.extend(toasts),
                false => tracing::debug!("a turn was another's by now"),
            }
        }
        if calling {
            calls.notify_one();
        }
    }
    Ok((n, asked))
}

/// What the rules say to a turn that somebody else claimed and will commit.
pub async fn decide(store: &Store, turn: &Turn) -> store::Result<TurnTaken> {
    let rules = Book::default().rules(store, turn).await?;
    Ok(take(turn, rules.as_deref(), store.now().await?).0)
}

/// Rules that were read, by bot and version; a version never changes.
#[derive(Default)]
struct Book {
    read: HashMap<(BotId, i32), Option<Arc<Rules>>>,
}

impl Book {
    /// `None`: there are none, or they cannot be read.
    async fn rules(&mut self, store: &Store, turn: &Turn) -> store::Result<Option<Arc<Rules>>> {
        let Some(bot) = turn.bot_id.filter(|_| turn.rules_version > 0) else {
            return Ok(None);
        };
        let key = (bot, turn.rules_version);
        if let Some(known) = self.read.get(&key) {
            return Ok(known.clone());
        }
        let versions = store.bot_rules(turn.workspace_id, bot).await?;
        let text = versions.into_iter().find(|rules| rules.version == turn.rules_version);
        let read = text.and_then(|rules| match Rules::read(&rules.rules) {
            Ok(mut read) => {
                read.version = rules.version.unsigned_abs();
                Some(Arc::new(read))
            }
            Err(faults) => {
                tracing::error!(
                    bot = bot.0,
                    version = rules.version,
                    ?faults,
                    "the rules of a bot cannot be read"
                );
                None
            }
        });
        self.read.retain(|(known, _), _| *known != bot);
        self.read.insert(key, read.clone());
        Ok(read)
    }
}

/// What a turn gathers.
struct Taking<'a> {
    turn: &'a Turn,
    rules: &'a Rules,
    now: Timestamp,
    state: State,
    says: Vec<Say>,
    calls: Vec<NewCall>,
    logs: Vec<NewLog>,
    subscription: Option<(RecipientStatus, &'static str)>,
}

/// Takes a turn: every event that waits, in order. Pure.
pub fn take(turn: &Turn, rules: Option<&Rules>, now: Timestamp) -> (TurnTaken, Vec<Toast>) {
    let fired = turn.events.is_empty() && turn.timer_at.is_some_and(|at| at <= now);
    let Some(rules) = rules else {
        return (unanswered(turn), Vec::new());
    };
    let state: State = serde_json::from_value(turn.state.clone()).unwrap_or_default();
    let (says, calls, logs, mut toasts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut taking = Taking { turn, rules, now, state, says, calls, logs, subscription: None };
    let mut events = Vec::with_capacity(turn.events.len());
    for (place, heard) in turn.events.iter().enumerate() {
        let event = hear::event(&heard.body, heard.happened_at);
        let (verdict, toast) = taking.event(place, &event);
        match (hear::callback(&heard.body), toast) {
            (Some(callback), text) => toasts.push(((turn.workspace_id, heard.account_id), callback, text)),
            // A keyboard of words sends no press that could be answered by a notice.
            (None, Some(text)) => taking.say(place, Message::text(text)),
            (None, None) => {}
        }
        events.push((heard.inbox_id, verdict));
    }
    if fired {
        taking.event(0, &What::Timer.on(&turn.platform, now));
    }
    let mode = match taking.state.mode {
        Mode::Bot => DialogueMode::Bot,
        Mode::Human => DialogueMode::Human,
        Mode::Stopped => DialogueMode::Stopped,
    };
    let taken = TurnTaken {
        recipient_id: turn.recipient_id,
        token: turn.token,
        version: turn.version,
        rules_version: turn.rules_version,
        mode,
        timer_at: taking.state.due(),
        state: json!(taking.state),
        events,
        fired,
        says: taking.says,
        calls: taking.calls,
        subscription: taking.subscription,
        logs: taking.logs,
        ambiguity: ambiguity(&turn.platform),
    };
    (taken, toasts)
}

/// The verdict of an event at which the bot failed; alerts count them.
const ERROR: &str = "error";

/// Nobody told the bot what to say: the events are marked, and the dialogue stays where it is. Rules that are there and
/// cannot be read are an error for each of them, so that somebody hears of it.
fn unanswered(turn: &Turn) -> TurnTaken {
    let unreadable = turn.bot_id.is_some() && turn.rules_version > 0;
    let verdict = if unreadable { ERROR } else { "no_rules" };
    let log = |event| NewLog {
        event,
        rule: None,
        verdict: verdict.to_owned(),
        detail: json!({"note": "this version of the rules cannot be read"}),
    };
    TurnTaken {
        recipient_id: turn.recipient_id,
        token: turn.token,
        version: turn.version,
        rules_version: turn.rules_version,
        mode: turn.mode,
        state: turn.state.clone(),
        timer_at: None,
        events: turn.events.iter().map(|event| (event.inbox_id, verdict.to_owned())).collect(),
        fired: false,
        says: Vec::new(),
        calls: Vec::new(),
        subscription: None,
        logs: (0..turn.events.len()).filter(|_| unreadable).map(log).collect(),
        ambiguity: ambiguity(&turn.platform),
    }
}

/// Of a platform that is not here any more nothing is known: then nothing is said twice.
fn ambiguity(platform: &str) -> AmbiguityPolicy {
    lanes::ambiguity(platform).unwrap_or(AmbiguityPolicy::Hold)
}

impl Taking<'_> {
    /// Asks the rules about one event: the verdict, and what whoever pressed a button shall read. A defect in them costs
    /// this event, not the dialogue.
    fn event(&mut self, place: usize, event: &Event) -> (String, Option<String>) {
        let (rules, now, state) = (self.rules, self.now, self.state.clone());
        match catch_unwind(AssertUnwindSafe(|| step(rules, &state, event, now))) {
            Ok(decision) => self.decided(place, decision),
            Err(_) => self.broke(place, event),
        }
    }

    /// Whoever wrote to the bot hears that it cannot answer.
    fn broke(&mut self, place: usize, event: &Event) -> (String, Option<String>) {
        tracing::error!(dialogue = self.turn.recipient_id.0, "the rules broke at an event; please report it");
        self.log(place, None, ERROR, json!({"note": "the rules broke"}));
        if event.what.is_by_person() && self.state.mode == Mode::Bot {
            self.say(place, Message::text(&self.rules.texts.nobody));
        }
        (ERROR.to_owned(), None)
    }

    fn decided(&mut self, place: usize, decision: Decision) -> (String, Option<String>) {
        let (verdict, toast) = (decision.verdict().as_str().to_owned(), decision.toast.clone());
        for reply in &decision.replies {
            self.say(place, reply.message());
        }
        if let Some(handoff) = &decision.handoff {
            self.hand_off(place, handoff);
        }
        for Call { service, fields } in decision.calls {
            self.calls.push(NewCall { event: place, service, fields });
        }
        match decision.subscription {
            Some(Subscription::Active) => self.subscription = Some((RecipientStatus::Active, "subscribed")),
            Some(Subscription::Stopped) => self.subscription = Some((RecipientStatus::Stopped, "stopped")),
            // Whoever is known, gone or back was written down when it was heard.
            Some(Subscription::Known | Subscription::Gone | Subscription::Returned) | None => {}
        }
        for log in &decision.logs {
            let rule = Some(log.rule.clone()).filter(|rule| !rule.is_empty());
            let detail = json!({"from": log.from, "to": log.to, "note": log.note});
            self.log(place, rule, log.verdict.as_str(), detail);
        }
        self.state = decision.state;
        (verdict, toast)
    }

    fn log(&mut self, event: usize, rule: Option<String>, verdict: &str, detail: serde_json::Value) {
        self.logs.push(NewLog { event, rule, verdict: verdict.to_owned(), detail });
    }

    fn say(&mut self, event: usize, message: Message) {
        self.says.push(Say { event, channel: None, payload: json!(message) });
    }

    /// To the people: who it is, where they write, and what they said.
    fn hand_off(&mut self, event: usize, handoff: &Handoff) {
        let Some(channel) = self.turn.operators else {
            tracing::warn!(
                dialogue = self.turn.recipient_id.0,
                "a person waits for a human, and no operators' channel is set"
            );
            return;
        };
        let name = self.turn.attributes["name"].as_str().unwrap_or(&self.turn.user_id);
        let title = addresses::platform(&self.turn.platform).map(|platform| platform.facts().title);
        let head = format!(
            "{} {name}{HEAD_MARK}{}",
            ticket(self.turn.recipient_id),
            title.unwrap_or(&self.turn.platform)
        );
        let texts = &self.rules.texts;
        let mark = |photo: &Option<String>| photo.as_ref().map_or("", |_| texts.desk_photo.as_str());
        let ended;
        let words = match handoff {
            Handoff::Open { why, text, photo } => [why.as_str(), text, mark(photo)],
            Handoff::Forward { text, photo } => ["", text, mark(photo)],
            Handoff::Remind => ["", &texts.desk_waits, ""],
            Handoff::Close { why } => {
                ended = with(&texts.desk_end, "why", why);
                ["", &ended, ""]
            }
        };
        let words = words.into_iter().map(str::trim).filter(|line| !line.is_empty());
        let text = [head.as_str()].into_iter().chain(words).collect::<Vec<_>>().join("\n");
        self.says.push(Say { event, channel: Some(channel), payload: json!(Message::text(text)) });
    }
}

/// Tells whoever pressed a button that the press arrived. Nobody depends on it.
pub async fn answer_press(
    store: &Store,
    network: &Network,
    bases: &ApiBases,
    (ws, id): (WorkspaceId, AccountId),
    callback: Callback,
    text: Option<String>,
) {
    let tell = async {
        let rows = store.accounts(ws).await?;
        let Some(row) = rows.into_iter().find(|row| row.account_id == id) else {
            return anyhow::Ok(());
        };
        let account = addresses::account(&row, &store.account_token(ws, id).await?, bases)?;
        network.admit(&account);
        if let Some(receiver) = addresses::platform(&row.platform)?.receiver() {
            receiver.answer_callback(network, &account, &callback, text.as_deref()).await;
        }
        Ok(())
    };
    match tokio::time::timeout(TOAST_TIME, tell).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error = format!("{error:#}"), "a press was not answered"),
        Err(_) => tracing::debug!("a press was not answered in time"),
    }
}
