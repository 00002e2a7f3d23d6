//! The bot in a world where everything that can go wrong does: updates come up to three times, late and in any order, and
//! nodes die between any two steps, are slow beyond their lease, or never hear that something was written.
//!
//! Afterwards everybody must have been told exactly what the rules say to what was heard of them, in the order in which it
//! was first heard: B1 to B6 and B8 of the bot. The same seed gives the same run. `RUPOR_BOT_SEEDS` asks for more of them:
//! `RUPOR_BOT_SEEDS=10000 cargo test --release -p proving --test dialogues`

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::{BTreeMap, BTreeSet};

use domain::dialogue::{Event, Rules, State, What, step};
use domain::ids::{AccountId, RecipientId, WorkspaceId};
use domain::message::Message;
use domain::outcome::{Outcome, Sent};
use domain::retry::Chance;
use domain::time::{Span, Timestamp};
use engine::bot::{hear, receive, take};
use platforms::incoming::{self, Incoming, Said};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use store::*;

const RULES: &str = r#"
engine = 1
start = "menu"
subscribe = "never"
fallback = ["не понял"]
limits = { turns = 1000, steps = 20, idle = "240h", messages = "1000/1m" }
operators = { channel = "support", wait = "240h", back = "480h" }

[slots.status]
kind = "text"

[slots.size]
kind = "number"

[states.menu]

[[rules]]
name = "one"
on = { text = "раз" }
reply = ["ответ раз", "и ещё раз"]

[[rules]]
name = "two"
on = { text = "два" }
reply = "ответ два"

[[rules]]
name = "size"
on = { text = "размер" }
goto = "size"

[states.size]
ask = { slot = "size", say = "Какой?", invalid = "Числом, пожалуйста.", tries = 3 }
next = "sized"

[states.sized]
say = "Размер {size} есть."
end = true

[[rules]]
name = "order"
on = { text = "заказ" }
reply = "смотрю"
call = { service = "orders", take = ["status"] }

[[rules]]
name = "known"
on = { event = "orders.ok" }
reply = "заказ {status}"

[[rules]]
name = "human"
on = { text = "оператор" }
handoff = true

[[rules]]
name = "cancel"
on = { text = "отмена" }
interrupt = true
reply = "отменил"
goto = "menu"
"#;
const WORDS: [&str; 8] = ["раз", "два", "размер", "42", "заказ", "оператор", "отмена", "что?"];
const PEOPLE: usize = 4;
const MESSAGES: usize = 6;
const LEASE: Span = Span::from_secs(10);
const DESK: &str = "-900";

/// Where a node may die.
const DEATHS: [&str; 8] = [
    "before an update is stored",
    "after it was stored",
    "after a claim of turns",
    "after the rules were asked",
    "after a commit",
    "after a claim of a call",
    "after the service was asked",
    "after its answer was stored",
];

/// A bug that is planted: what is said leaves in a transaction of its own, after the commit.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    ReplyOutside,
}

#[test]
fn everybody_is_answered_once_and_in_order_through_deaths_at_every_step() {
    let seeds = std::env::var("RUPOR_BOT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let (mut died, mut late) = (BTreeSet::new(), 0);
    for seed in 0..seeds {
        let run = run(seed, Planted::Nothing);
        assert!(run.wrong.is_empty(), "seed {seed}: {:#?}", run.wrong);
        died.extend(run.died);
        late += run.late_commits;
    }
    assert_eq!(died.len(), DEATHS.len(), "only {died:?}");
    assert!(late > 0, "nobody was ever late");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(7, Planted::Nothing).told, run(7, Planted::Nothing).told);
}

#[test]
fn a_reply_outside_the_transaction_is_caught() {
    assert!((0..60).any(|seed| !run(seed, Planted::ReplyOutside).wrong.is_empty()));
}

#[derive(Default)]
struct Run {
    wrong: Vec<String>,
    told: BTreeMap<RecipientId, Vec<String>>,
    died: BTreeSet<&'static str>,
    late_commits: usize,
}

fn run(seed: u64, planted: Planted) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed, planted).await;
        world.chaos().await;
        world.calm().await;
        world.judge().await
    })
}

/// What a node holds between two steps.
enum Node {
    Idle,
    Claimed(Vec<Turn>),
    Decided(Vec<TurnTaken>),
    Calling(ServiceCall),
    Answered(ServiceCall, CallEnd),
}

struct World {
    store: Store,
    clock: Clock,
    dice: StdRng,
    planted: Planted,
    ws: WorkspaceId,
    account: AccountId,
    rules: Rules,
    /// Copies of updates that have not arrived yet.
    wire: Vec<Incoming>,
    nodes: Vec<Node>,
    /// What was heard of each dialogue, in the order in which it was first heard.
    heard: BTreeMap<RecipientId, Vec<Event>>,
    known: BTreeSet<String>,
    run: Run,
}

impl World {
    async fn new(seed: u64, planted: Planted) -> World {
        let clock = Clock::hand(Timestamp::from_millis(1_790_000_000_000));
        let sqlite = sqlite::Sqlite::in_memory_inline(Keyring::ephemeral([7; 32]), clock.clone()).unwrap();
        let store = Store::Sqlite(sqlite);
        let ws = store.create_workspace("магазин").await.unwrap();
        let (token, settings) = ("1:token".to_owned().into(), AccountSettings::default());
        let new = NewAccount { platform: "telegram".into(), name: "бот".into(), token, settings };
        let account = store.create_account(ws, new).await.unwrap();
        let settings = ChannelSettings { dedup: DedupMode::Off, ..ChannelSettings::default() };
        let new = NewChannel { account_id: account, name: "support".into(), target: DESK.into(), settings };
        let desk = store.create_channel(ws, new).await.unwrap();
        let new = NewBot {
            name: "shop".into(),
            accounts: vec![account],
            receive: Receive::Webhook,
            operators: Some(desk),
            services: BTreeMap::new(),
        };
        let bot = store.put_bot(ws, new).await.unwrap();
        store.put_bot_rules(ws, bot, RULES).await.unwrap();
        let mut world = World {
            store,
            clock,
            dice: StdRng::seed_from_u64(seed),
            planted,
            ws,
            account,
            rules: Rules::read(RULES).unwrap(),
            wire: Vec::new(),
            nodes: vec![Node::Idle, Node::Idle],
            heard: BTreeMap::new(),
            known: BTreeSet::new(),
            run: Run::default(),
        };
        world.people_write();
        world
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.dice.random_range(0..one_in) == 0
    }

    fn dies(&mut self, place: usize) -> bool {
        let dies = self.chance(7);
        if dies {
            self.run.died.insert(DEATHS[place]);
        }
        dies
    }

    /// Everybody writes a few things, and operators answer by number; each is told up to three times.
    fn people_write(&mut self) {
        for person in 0..PEOPLE {
            for n in 0..MESSAGES {
                let word = WORDS[self.dice.random_range(0..WORDS.len())];
                let chat = (500 + person).to_string();
                self.send(&format!("{person}.{n}"), &chat, word);
            }
            for n in 0..2 {
                let dialogue = self.dice.random_range(1..=PEOPLE);
                let text = if self.chance(2) { "/close".to_owned() } else { format!("человек {n}") };
                self.send(&format!("desk.{person}.{n}"), DESK, &format!("#A{dialogue} {text}"));
            }
        }
    }

    fn send(&mut self, key: &str, chat: &str, text: &str) {
        let at = self.clock.now().millis() + self.dice.random_range(0..60_000);
        let said = Said {
            chat: chat.into(),
            from: Some(chat.trim_start_matches('-').into()),
            name: Some("Анна".into()),
            message_id: key.into(),
            text: text.into(),
            private: chat != DESK,
            ..Said::default()
        };
        let update = Incoming { key: key.into(), at_ms: Some(at), event: incoming::Event::Message(said) };
        for _ in 0..self.dice.random_range(1..=3) {
            self.wire.push(update.clone());
        }
    }

    async fn chaos(&mut self) {
        for _ in 0..400 {
            match self.dice.random_range(0..8) {
                0..=2 => self.arrive().await,
                3..=6 => {
                    let n = self.dice.random_range(0..self.nodes.len());
                    self.work(n).await;
                }
                _ => {
                    let ms = self.dice.random_range(0..4_000);
                    self.clock.advance(Span::from_millis(ms));
                }
            }
        }
    }

    /// No more deaths: everything comes to an end, B8 within a lease.
    async fn calm(&mut self) {
        while !self.wire.is_empty() {
            let update = self.wire.remove(0);
            self.store_update(&update).await;
        }
        self.nodes = vec![Node::Idle];
        self.clock.advance(Span::from_secs(12));
        let calm = self.planted;
        for _ in 0..2_000 {
            let before = self.clock.now();
            self.work_calmly().await;
            if self.store.bot_next_turn().await.unwrap().is_none_or(|at| at > before + Span::from_hours(100))
            {
                let calls = self.store.bot_claim_calls(10, LEASE, Vec::new()).await.unwrap();
                if calls.is_empty() {
                    break;
                }
                for call in calls {
                    self.settle(&call, answer(&call)).await;
                }
            }
        }
        self.planted = calm;
    }

    async fn work_calmly(&mut self) {
        let turns = self.store.bot_claim_turns(8, LEASE).await.unwrap();
        let now = self.clock.now();
        let taken: Vec<TurnTaken> = turns.iter().map(|turn| take(turn, Some(&self.rules), now).0).collect();
        let kept = self.store.bot_commit_turns(self.ws, taken).await.unwrap();
        if kept.contains(&false) {
            self.run.wrong.push("a turn was lost though nobody else was there".into());
        }
    }

    /// A copy arrives, any of those that are on their way. Whoever is not told that it was stored tells it again.
    async fn arrive(&mut self) {
        if self.wire.is_empty() {
            return;
        }
        let n = self.dice.random_range(0..self.wire.len());
        let update = self.wire.swap_remove(n);
        if self.dies(0) {
            self.wire.push(update);
            return;
        }
        self.store_update(&update).await;
        if self.dies(1) {
            self.wire.push(update);
        }
    }

    async fn store_update(&mut self, update: &Incoming) {
        let platform = platforms::registry::platform("telegram").unwrap();
        let one = std::slice::from_ref(update);
        let received = receive(&self.store, self.ws, self.account, platform, one, None).await.unwrap();
        let is_new = self.known.insert(update.key.clone());
        let wanted = Received::Taken { fresh: u32::from(is_new) };
        if received != wanted {
            self.run.wrong.push(format!("{}: {received:?}, not {wanted:?}", update.key));
        }
        if !is_new {
            return;
        }
        // Whose it became is asked of the database itself.
        let updates = engine::bot::updates(&self.store, self.ws, self.account, platform, one).await.unwrap();
        let kept = &updates[0];
        let dialogue = match &kept.of {
            UpdateOf::Person { user_id, .. } => self.dialogue_of(user_id).await,
            UpdateOf::Operator(id) => {
                self.store.recipient(self.ws, *id).await.ok().map(|row| row.recipient_id)
            }
            _ => None,
        };
        if let Some(dialogue) = dialogue {
            let at = kept.at.unwrap_or(self.clock.now()).min(self.clock.now());
            self.heard.entry(dialogue).or_default().push(hear::event(&kept.body, at));
        }
    }

    async fn dialogue_of(&self, user: &str) -> Option<RecipientId> {
        for id in 1..=2 * PEOPLE as i64 {
            if let Ok(row) = self.store.recipient(self.ws, RecipientId(id)).await
                && row.user_id == user
            {
                return Some(row.recipient_id);
            }
        }
        None
    }

    /// One step of one node.
    async fn work(&mut self, n: usize) {
        let now = self.clock.now();
        let node = std::mem::replace(&mut self.nodes[n], Node::Idle);
        self.nodes[n] = match node {
            Node::Idle if self.chance(3) => {
                let mut calls = self.store.bot_claim_calls(1, LEASE, Vec::new()).await.unwrap();
                match calls.pop() {
                    Some(call) if !self.dies(5) => Node::Calling(call),
                    _ => Node::Idle,
                }
            }
            Node::Idle => {
                let turns = self.store.bot_claim_turns(2, LEASE).await.unwrap();
                match turns.is_empty() || self.dies(2) {
                    true => Node::Idle,
                    false => Node::Claimed(turns),
                }
            }
            Node::Claimed(turns) => {
                let taken = turns.iter().map(|turn| take(turn, Some(&self.rules), now).0).collect();
                if self.dies(3) { Node::Idle } else { Node::Decided(taken) }
            }
            Node::Decided(taken) => {
                self.commit(taken).await;
                Node::Idle
            }
            Node::Calling(call) => {
                let end = match self.chance(4) {
                    true => CallEnd::Again { after: Span::from_secs(1), reason: "status 503".into() },
                    false => answer(&call),
                };
                if self.dies(6) { Node::Idle } else { Node::Answered(call, end) }
            }
            Node::Answered(call, end) => {
                self.settle(&call, end).await;
                let _ = self.dies(7);
                Node::Idle
            }
        };
    }

    async fn commit(&mut self, mut taken: Vec<TurnTaken>) {
        let dies = self.dies(4);
        if dies && self.planted == Planted::ReplyOutside {
            taken.iter_mut().for_each(|turn| turn.says.clear());
        }
        let kept = self.store.bot_commit_turns(self.ws, taken).await.unwrap();
        self.run.late_commits += kept.iter().filter(|kept| !**kept).count();
    }

    async fn settle(&mut self, call: &ServiceCall, end: CallEnd) {
        let settled = self.store.bot_settle_call(call, end.clone()).await.unwrap();
        if let (true, CallEnd::Over { event, .. }) = (settled, end) {
            let event = hear::event(&event, self.clock.now());
            self.heard.entry(call.recipient_id).or_default().push(event);
        }
    }

    /// What people got, against what the rules say to what was heard.
    async fn judge(mut self) -> Run {
        let mut told: BTreeMap<RecipientId, Vec<String>> = BTreeMap::new();
        loop {
            let request = ClaimRequest {
                whose: Whose::Workspace(self.ws),
                run_id: "judge".into(),
                limit: 50,
                ahead: Span::ZERO,
                lease: Span::from_secs(60),
            };
            let claimed = self.store.claim(request).await.unwrap();
            if claimed.claims.is_empty() {
                break;
            }
            for claim in claimed.claims {
                let message = self.store.message(self.ws, claim.message_id).await.unwrap();
                let delivery = self.store.delivery(self.ws, claim.delivery_id).await.unwrap();
                if let domain::destination::Destination::Recipient(id) = delivery.destination {
                    let message: Message = serde_json::from_value(message.payload).unwrap();
                    told.entry(id).or_default().push(message.text);
                }
                let sent = Sent { provider_message_id: Some("1".into()), raw: Value::Null };
                let ending = FinishKind::Outcome(Outcome::Sent(sent));
                let finish = Finish { claim: claim.reference(), ending, chance: Chance::NONE };
                self.store.commit(vec![finish]).await.unwrap();
            }
            self.clock.advance(Span::from_secs(5));
        }
        for (dialogue, events) in &self.heard {
            let (mut state, mut wanted) = (State::default(), Vec::new());
            for event in events {
                let decision = step(&self.rules, &state, event, event.at);
                wanted.extend(decision.replies.iter().map(|reply| reply.text.clone()));
                state = decision.state;
            }
            let told = told.get(dialogue).cloned().unwrap_or_default();
            if told != wanted {
                let said: Vec<&What> = events.iter().map(|event| &event.what).collect();
                self.run
                    .wrong
                    .push(format!("dialogue {dialogue}: told {told:?}, not {wanted:?}, to {said:?}"));
            }
        }
        let audit = self.store.audit(self.ws).await.unwrap();
        self.run.wrong.extend(audit.iter().map(|wrong| format!("{wrong:?}")));
        self.run.told = told;
        self.run
    }
}

fn answer(call: &ServiceCall) -> CallEnd {
    let event = json!({"at": 0, "what": "answer", "service": call.service, "fields": {"status": "в пути"}});
    CallEnd::Over { event, failed: None }
}
