//! The bot in a world where everything that can go wrong does: words and presses come up to three times, minutes late and in
//! any order, too many at once, clocks run out, and nodes die between any two steps, are slow beyond their lease, or never
//! hear that something was written.
//!
//! Afterwards every event must have had one turn, in the order in which it was first heard, and everybody must have been
//! told exactly what the rules say to these turns: B1 to B6 and B8 of the bot. The same seed gives the same run. `RUPOR_BOT_SEEDS` asks for more of them:
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
use platforms::incoming::{self, Callback, Incoming, Said};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use store::*;

const RULES: &str = r#"
engine = 1
start = "menu"
subscribe = "never"
fallback = ["не понял"]
limits = { turns = 1000, steps = 20, idle = "10m", messages = "2/1m" }
operators = { channel = "support", wait = "1m", back = "4m" }

[slots.status]
kind = "text"

[slots.size]
kind = "number"

[states.menu]
say = "меню"
buttons = [["раз", "два"]]

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
idle = { after = "2m", goto = "silent" }

[states.silent]
say = "Вы здесь?"
next = "menu"

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
/// What buttons carry, and a keyboard of words: those of the menu, and one of rules that are gone.
const PRESSES: [&str; 3] = ["раз@menu", "два@menu", "gone"];
const PEOPLE: usize = 4;
const MESSAGES: usize = 8;
/// Longer than what may still change a dialogue.
const DELAY_MS: i64 = 300_000;
const LEASE: Span = Span::from_secs(10);
const START: Timestamp = Timestamp(1_790_000_000_000_000);
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
    let (mut died, mut late, mut verdicts) = (BTreeSet::new(), 0, BTreeSet::new());
    for seed in 0..seeds {
        let run = run(seed, Planted::Nothing);
        assert!(run.wrong.is_empty(), "seed {seed}: {:#?}", run.wrong);
        died.extend(run.died);
        late += run.late_commits;
        verdicts.extend(run.verdicts);
    }
    assert_eq!(died.len(), DEATHS.len(), "only {died:?}");
    assert!(late > 0, "nobody was ever late");
    for met in ["timer", "stale", "late", "flood", "human", "slot", "invalid"] {
        assert!(verdicts.contains(met), "nothing was ever {met}: {verdicts:?}");
    }
}

/// The same dice on the other database.
#[test]
fn postgres_answers_everybody_once_and_in_order() {
    for seed in 0..3 {
        let run = run_on_postgres(seed);
        assert!(run.wrong.is_empty(), "seed {seed}: {:#?}", run.wrong);
        assert!(!run.told.is_empty(), "seed {seed}");
    }
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
    verdicts: BTreeSet<String>,
}

/// A turn in the hands of a node: what it was taken over, and when.
struct Taken {
    taken: TurnTaken,
    /// With each event, whether a press has to be answered by a notice.
    events: Vec<(Event, bool)>,
    at: Timestamp,
}

fn run(seed: u64, planted: Planted) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let clock = Clock::hand(START);
        let sqlite = sqlite::Sqlite::in_memory_inline(Keyring::ephemeral([7; 32]), clock.clone()).unwrap();
        World::new(Store::Sqlite(sqlite), clock, None, seed, planted).await.end().await
    })
}

fn run_on_postgres(seed: u64) -> Run {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect(
        "RUPOR_TEST_POSTGRES is not set: run `./test`, which starts a PostgreSQL of its own, or set it to \
         postgres://SUPERUSER@HOST/postgres",
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let admin = connect(&server).await;
        let name = format!("rupor_dialogues_{}", uuid::Uuid::new_v4().simple());
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        let url = format!("{base}/{name}");
        let address = Address::parse(&url).unwrap();
        Store::migrate(&address).await.unwrap();
        let time = connect(&url).await;
        time.batch_execute(TEST_CLOCK).await.unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        let world = World::new(store, Clock::hand(START), Some(time), seed, Planted::Nothing).await;
        let run = world.end().await;
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
        run
    })
}

/// Time as a row, driven by the test.
const TEST_CLOCK: &str = "
CREATE TABLE test_clock (at timestamptz NOT NULL);
INSERT INTO test_clock VALUES ('epoch'::timestamptz + 1790000000 * interval '1 second');
GRANT SELECT ON test_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION rupor_now() RETURNS timestamptz
LANGUAGE sql VOLATILE AS 'SELECT at FROM test_clock'";

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// What a node holds between two steps.
enum Node {
    Idle,
    Claimed(Vec<Turn>),
    Decided(Vec<Taken>),
    Calling(ServiceCall),
    Answered(ServiceCall, CallEnd),
}

struct World {
    store: Store,
    clock: Clock,
    /// Where the clock of a database of its own is set.
    time: Option<tokio_postgres::Client>,
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
    /// The turns that were kept, in order.
    turns: BTreeMap<RecipientId, Vec<Taken>>,
    known: BTreeSet<String>,
    run: Run,
}

impl World {
    async fn new(
        store: Store,
        clock: Clock,
        time: Option<tokio_postgres::Client>,
        seed: u64,
        planted: Planted,
    ) -> World {
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
            time,
            dice: StdRng::seed_from_u64(seed),
            planted,
            ws,
            account,
            rules: Rules::read(RULES).unwrap(),
            wire: Vec::new(),
            nodes: vec![Node::Idle, Node::Idle],
            heard: BTreeMap::new(),
            turns: BTreeMap::new(),
            known: BTreeSet::new(),
            run: Run::default(),
        };
        world.people_write();
        world
    }

    async fn end(mut self) -> Run {
        self.chaos().await;
        self.calm().await;
        self.judge().await
    }

    async fn advance(&self, span: Span) {
        self.clock.advance(span);
        if let Some(time) = &self.time {
            let set =
                "UPDATE test_clock SET at = 'epoch'::timestamptz + $1::bigint * interval '1 microsecond'";
            time.execute(set, &[&self.clock.now().0]).await.unwrap();
        }
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
                let (key, chat) = (format!("{person}.{n}"), (500 + person).to_string());
                if self.chance(4) {
                    self.press(&key, &chat);
                    continue;
                }
                let word = WORDS[self.dice.random_range(0..WORDS.len())];
                self.send(&key, &chat, word);
            }
            for n in 0..2 {
                let dialogue = self.dice.random_range(1..=PEOPLE);
                let text = if self.chance(2) { "/close".to_owned() } else { format!("человек {n}") };
                self.send(&format!("desk.{person}.{n}"), DESK, &format!("#A{dialogue} {text}"));
            }
        }
    }

    fn send(&mut self, key: &str, chat: &str, text: &str) {
        let said = Said {
            chat: chat.into(),
            from: Some(chat.trim_start_matches('-').into()),
            name: Some("Анна".into()),
            message_id: key.into(),
            text: text.into(),
            private: chat != DESK,
            ..Said::default()
        };
        self.tell(key, incoming::Event::Message(said));
    }

    /// Under a message, or on a keyboard of words.
    fn press(&mut self, key: &str, chat: &str) {
        let payload = PRESSES[self.dice.random_range(0..PRESSES.len())].to_owned();
        let (chat, from, private) = (chat.to_owned(), chat.to_owned(), true);
        let event = match self.chance(3) {
            true => {
                let (from, payload) = (Some(from), Some(payload));
                incoming::Event::Message(Said {
                    chat,
                    from,
                    private,
                    payload,
                    message_id: key.into(),
                    ..Said::default()
                })
            }
            false => {
                let id = key.to_owned();
                incoming::Event::Callback(Callback {
                    id,
                    chat,
                    from,
                    payload,
                    private,
                    ..Callback::default()
                })
            }
        };
        self.tell(key, event);
    }

    fn tell(&mut self, key: &str, event: incoming::Event) {
        let at = self.clock.now().millis() + self.dice.random_range(0..DELAY_MS);
        let update = Incoming { key: key.into(), at_ms: Some(at), event };
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
                    let most = if self.chance(8) { 150_000 } else { 4_000 };
                    let ms = self.dice.random_range(0..most);
                    self.advance(Span::from_millis(ms)).await;
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
        self.advance(Span::from_secs(12)).await;
        let calm = self.planted;
        for _ in 0..2_000 {
            self.work_calmly().await;
            let next = self.store.bot_next_turn().await.unwrap();
            if let Some(at) = next {
                // Clocks run out one after the other, until nobody waits for any.
                self.advance((at - self.clock.now()).max(Span::ZERO)).await;
            } else {
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
        let taken: Vec<Taken> = turns.iter().map(|turn| self.take(turn, now)).collect();
        if self.keep(taken).await > 0 {
            self.run.wrong.push("a turn was lost though nobody else was there".into());
        }
    }

    fn take(&self, turn: &Turn, at: Timestamp) -> Taken {
        let event = |heard: &InboxEvent| {
            (hear::event(&heard.body, heard.happened_at), hear::callback(&heard.body).is_some())
        };
        let events = turn.events.iter().map(event).collect();
        Taken { taken: take(turn, Some(&self.rules), at).0, events, at }
    }

    /// Commits turns and remembers those that are kept; how many are not.
    async fn keep(&mut self, turns: Vec<Taken>) -> usize {
        let taken = turns.iter().map(|turn| turn.taken.clone()).collect();
        let kept = self.store.bot_commit_turns(self.ws, taken).await.unwrap();
        for (turn, kept) in turns.into_iter().zip(&kept) {
            if *kept {
                self.turns.entry(turn.taken.recipient_id).or_default().push(turn);
            }
        }
        kept.iter().filter(|kept| !**kept).count()
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
                let taken = turns.iter().map(|turn| self.take(turn, now)).collect();
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

    async fn commit(&mut self, mut taken: Vec<Taken>) {
        let dies = self.dies(4);
        if dies && self.planted == Planted::ReplyOutside {
            taken.iter_mut().for_each(|turn| turn.taken.says.clear());
        }
        self.run.late_commits += self.keep(taken).await;
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
            self.advance(Span::from_secs(5)).await;
        }
        let mut wrong = Vec::new();
        for (dialogue, events) in &std::mem::take(&mut self.heard) {
            let turns = self.turns.remove(dialogue).unwrap_or_default();
            let taken: Vec<&Event> =
                turns.iter().flat_map(|turn| &turn.events).map(|(event, _)| event).collect();
            if taken != events.iter().collect::<Vec<_>>() {
                wrong.push(format!("dialogue {dialogue}: turns over {taken:?}, not over {events:?}"));
            }
            let wanted = self.wanted(&turns);
            let told = told.get(dialogue).cloned().unwrap_or_default();
            if told != wanted {
                let said: Vec<&What> = events.iter().map(|event| &event.what).collect();
                wrong.push(format!("dialogue {dialogue}: told {told:?}, not {wanted:?}, to {said:?}"));
            }
        }
        self.run.wrong.extend(wrong);
        let audit = self.store.audit(self.ws).await.unwrap();
        self.run.wrong.extend(audit.iter().map(|wrong| format!("{wrong:?}")));
        self.run.told = told;
        self.run
    }
}

impl World {
    /// What the rules say to these turns, one after the other.
    fn wanted(&mut self, turns: &[Taken]) -> Vec<String> {
        let (mut state, mut wanted) = (State::default(), Vec::new());
        for turn in turns {
            let timer = turn.taken.fired.then(|| (What::Timer.on("telegram", turn.at), false));
            for (event, has_notice) in turn.events.iter().chain(&timer) {
                let decision = step(&self.rules, &state, event, turn.at);
                self.run.verdicts.insert(decision.verdict().as_str().to_owned());
                wanted.extend(decision.replies.iter().map(|reply| reply.text.clone()));
                wanted.extend(decision.toast.filter(|_| !has_notice));
                state = decision.state;
            }
        }
        wanted
    }
}

fn answer(call: &ServiceCall) -> CallEnd {
    let event = json!({"at": 0, "what": "answer", "service": call.service, "fields": {"status": "в пути"}});
    CallEnd::Over { event, failed: None }
}
