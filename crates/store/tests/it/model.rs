//! A reference model in plain Rust, and random sequences of operations that both databases must agree with.
//!
//! The model keeps everything in one list and searches it: slow and obviously right. It does not predict which of
//! several eligible rows a claim picks; it checks that each picked row was eligible, that its slot is the next one,
//! and that nothing eligible was left behind. Everything else it predicts exactly.
//!
//! 2 000 sequences of 50 operations run per database; `RUPOR_SEQUENCES` asks for more, `RUPOR_SEED` for others.

use std::collections::{BTreeMap, HashMap};

use domain::delivery::{AmbiguityPolicy, Counters, Priority, Status};
use domain::destination::Destination;
use domain::ids::{AccountId, ChannelId, DeliveryId, MessageId};
use domain::limits::{PAYLOAD_BYTES_MAX, RETRY_LOOK, SUSPECT_PATIENCE};
use domain::outcome::{CODE_NOT_READY, Category, Failure, Outcome, Scope, Sent};
use domain::pacing::{Pace, interval};
use domain::retry::Chance;
use domain::settle::{AccountEffect, DestinationEffect, Ending, LaneEffect, Settlement, Standing, settle};
use domain::time::{Span, Timestamp};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use store::*;

use crate::world::*;

const OPERATIONS: usize = 50;
const CHANNELS: usize = 4;
const AHEAD: Span = Span::from_millis(100);

#[derive(Debug, Clone)]
enum Operation {
    /// Text from a small pool, so that repeats happen; the channels as a bit set.
    Enqueue {
        text: u8,
        origin: u8,
        channels: u8,
        bulk: bool,
    },
    Claim {
        limit: usize,
    },
    Finish {
        claim: u8,
        kind: Kind,
        chance: u32,
    },
    Requested {
        claim: u8,
    },
    Part {
        claim: u8,
        part: u8,
    },
    Renew {
        claim: u8,
    },
    Advance {
        ms: i64,
    },
    Recover,
    Cancel {
        delivery: u8,
    },
    Requeue {
        delivery: u8,
    },
    PauseChannel {
        channel: u8,
        ms: i64,
    },
    ResumeChannel {
        channel: u8,
    },
    DisableChannel {
        channel: u8,
    },
    PauseAccount {
        account: u8,
    },
    ResumeAccount {
        account: u8,
    },
    Hold {
        held: bool,
    },
    Reserve {
        account: u8,
        n: u32,
    },
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Sent,
    Release,
    Fail(Category, Scope, Option<i64>),
    Unknown(Scope),
    NotReady,
    RetryAt(i64),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let claim = || any::<u8>();
    prop_oneof![
        6 => (0..6_u8, 0..20_u8, 0..16_u8, any::<bool>())
            .prop_map(|(text, origin, channels, bulk)| Enqueue { text, origin, channels, bulk }),
        8 => (1..8_usize).prop_map(|limit| Claim { limit }),
        10 => (claim(), kind(), 0..1_000_000_u32).prop_map(|(claim, kind, chance)| Finish { claim, kind, chance }),
        3 => claim().prop_map(|claim| Requested { claim }),
        2 => (claim(), 0..4_u8).prop_map(|(claim, part)| Part { claim, part }),
        1 => claim().prop_map(|claim| Renew { claim }),
        6 => prop_oneof![1..500_i64, Just(3_000), Just(61_000), Just(700_000)].prop_map(|ms| Advance { ms }),
        2 => Just(Recover),
        1 => any::<u8>().prop_map(|delivery| Cancel { delivery }),
        2 => any::<u8>().prop_map(|delivery| Requeue { delivery }),
        1 => (any::<u8>(), 1..100_000_i64).prop_map(|(channel, ms)| PauseChannel { channel, ms }),
        2 => any::<u8>().prop_map(|channel| ResumeChannel { channel }),
        1 => any::<u8>().prop_map(|channel| DisableChannel { channel }),
        1 => any::<u8>().prop_map(|account| PauseAccount { account }),
        2 => any::<u8>().prop_map(|account| ResumeAccount { account }),
        1 => any::<bool>().prop_map(|held| Hold { held }),
        1 => (any::<u8>(), 1..4_u32).prop_map(|(account, n)| Reserve { account, n }),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    let scope = || prop_oneof![Just(Scope::Delivery), Just(Scope::Channel), Just(Scope::Platform)];
    let category = prop_oneof![3 => Just(Category::Transient), 1 => Just(Category::Permanent)];
    let wait = prop_oneof![Just(None), (0..20_000_i64).prop_map(Some)];
    prop_oneof![
        6 => Just(Kind::Sent),
        1 => Just(Kind::Release),
        5 => (category, scope(), wait).prop_map(|(category, scope, wait)| Kind::Fail(category, scope, wait)),
        2 => scope().prop_map(Kind::Unknown),
        1 => Just(Kind::NotReady),
        1 => (0..60_000_i64).prop_map(Kind::RetryAt),
    ]
}

#[test]
fn sqlite_agrees_with_the_model() {
    agree(|runtime| runtime.block_on(World::sqlite()), sequences(), 1);
}

#[test]
fn postgres_agrees_with_the_model() {
    // Two workers, each with a database and a clock of its own.
    std::thread::scope(|scope| {
        for worker in 0..2 {
            scope.spawn(move || {
                agree(|runtime| runtime.block_on(World::postgres()), sequences() / 2, 2 + worker);
            });
        }
    });
}

fn sequences() -> u32 {
    std::env::var("RUPOR_SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

/// Sequences that once broke a database, one `SEED CASE` a line; `./explore` adds what it finds.
const REGRESSIONS: &str = include_str!("model-regressions.txt");

fn regressions() -> impl Iterator<Item = (u64, u32)> {
    let words = |line: &'static str| line.split_once(' ').expect("a seed and a case");
    let lines = REGRESSIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(words).map(|(seed, case)| (seed.parse().expect("a seed"), case.trim().parse().expect("a case")))
}

/// The seed is fixed, so that a failure today is a failure tomorrow.
fn agree(world: impl Fn(&tokio::runtime::Runtime) -> World, cases: u32, worker: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let seed: u64 = std::env::var("RUPOR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let seed = seed * 1_000 + worker;
    let base = world(&runtime);
    let mut n_workspaces = 0;
    let mut run = |variant: usize, operations: &[Operation]| {
        n_workspaces += 1;
        runtime.block_on(async {
            let world = base.another_workspace(&format!("случай {n_workspaces}")).await;
            Model::new(&world, variant).await.run(&world, operations).await
        })
    };
    for (seed, case) in regressions().chain((0..cases).map(|case| (seed, case))) {
        let (variant, operations) = sequence(seed, case);
        if let Err(problem) = run(variant, &operations) {
            let fewer = fewest(operations, |operations| run(variant, operations).is_err());
            let again = run(variant, &fewer).err().unwrap_or(problem);
            panic!("regression: {seed} {case}\nvariant {variant}: {again}\n{fewer:#?}");
        }
    }
    runtime.block_on(base.drop_database());
}

/// Every case has a seed of its own, so that one alone can be run again.
fn sequence(seed: u64, case: u32) -> (usize, Vec<Operation>) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&case.to_le_bytes());
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let strategy = (0..12_usize, proptest::collection::vec(operation(), OPERATIONS));
    strategy.new_tree(&mut runner).unwrap().current()
}

/// Leaves out operations for as long as it still fails.
fn fewest(mut operations: Vec<Operation>, mut fails: impl FnMut(&[Operation]) -> bool) -> Vec<Operation> {
    let mut i = 0;
    while i < operations.len() {
        let mut fewer = operations.clone();
        fewer.remove(i);
        if fails(&fewer) {
            operations = fewer;
            i = 0;
        } else {
            i += 1;
        }
    }
    operations
}

// -- the model

struct Model {
    now: Timestamp,
    held: bool,
    accounts: Vec<ModelAccount>,
    channels: Vec<ModelChannel>,
    messages: HashMap<String, Known>,
    deliveries: BTreeMap<DeliveryId, ModelDelivery>,
    keys: HashMap<(usize, String), Key>,
    claims: Vec<Claim>,
    /// Lanes whose own slot had come when the claim began: those are looked at, as far as the account's slots reach.
    slot_has_come: [bool; CHANNELS],
}

struct ModelAccount {
    id: AccountId,
    max_parallel: usize,
    pace: Pace,
    cooldown_until: Timestamp,
    paused: bool,
    flood: Option<(Destination, Timestamp)>,
    trouble_streak: i32,
    retry_parallel: usize,
    /// When its retries last filled their room: lanes may have been put off then.
    full_at: Timestamp,
}

struct ModelChannel {
    id: ChannelId,
    account: usize,
    max_parallel: usize,
    pace: Pace,
    policy: AmbiguityPolicy,
    ttl: Span,
    dedup: bool,
    open: bool,
    by_operator: bool,
    paused_until: Timestamp,
    error_streak: i32,
}

#[derive(Debug, Clone)]
struct ModelDelivery {
    channel: usize,
    text: String,
    priority: Priority,
    generation: i32,
    parent: Option<DeliveryId>,
    status: Status,
    counters: Counters,
    claim_seq: i64,
    run_at: Timestamp,
    lease_until: Timestamp,
    requested: bool,
    token: Option<domain::ids::ClaimToken>,
    /// How each attempt ended, by the token it was made with.
    ended: Vec<(domain::ids::ClaimToken, bool)>,
    parts: Parts,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    OnItsWay(DeliveryId),
    Sent(Timestamp),
}

/// A message that was enqueued, and the deliveries it got.
type Known = (MessageId, NewMessage, Vec<(DeliveryId, ChannelId)>);

type Checked = std::result::Result<(), TestCaseError>;

impl Model {
    /// What waits to be tried again on these channels is due.
    fn hurry(&mut self, on: impl Fn(&ModelChannel) -> bool) {
        let now = self.now;
        for delivery in self.deliveries.values_mut() {
            if delivery.status == Status::Retry && on(&self.channels[delivery.channel]) {
                delivery.run_at = delivery.run_at.min(now);
            }
        }
    }

    /// Two accounts and four channels, each different; the variant turns their settings round.
    async fn new(world: &World, variant: usize) -> Model {
        let mut model = Model {
            now: world.now().await,
            held: false,
            accounts: Vec::new(),
            channels: Vec::new(),
            messages: HashMap::new(),
            deliveries: BTreeMap::new(),
            keys: HashMap::new(),
            claims: Vec::new(),
            slot_has_come: [false; CHANNELS],
        };
        for (rate, burst, max_parallel) in [(Some(20.0), 2, 3), (None, 1, 4)] {
            let settings = AccountSettings { rate, burst, max_parallel, ..AccountSettings::default() };
            model.accounts.push(ModelAccount {
                id: world.account_with(settings).await,
                max_parallel: max_parallel as usize,
                pace: Pace { interval: interval(rate), burst, next_slot: Timestamp(0) },
                cooldown_until: Timestamp(0),
                paused: false,
                flood: None,
                trouble_streak: 0,
                retry_parallel: 2,
                full_at: Timestamp(0),
            });
        }
        let policies = [
            AmbiguityPolicy::ResendOnce,
            AmbiguityPolicy::Resend,
            AmbiguityPolicy::Hold,
            AmbiguityPolicy::Reconcile,
        ];
        for i in 0..CHANNELS {
            let account = i % 2;
            let max_parallel = if (i + variant).is_multiple_of(3) { 2 } else { 1 };
            let rate = (i == 2).then_some(4.0);
            let policy = policies[(i + variant / 3) % 4];
            let ttl = Span::from_secs(100);
            let dedup = i != 3;
            let settings = ChannelSettings {
                rate,
                max_parallel,
                ambiguity: policy,
                dedup_ttl: ttl,
                dedup: if dedup { DedupMode::Content } else { DedupMode::Off },
                ..ChannelSettings::default()
            };
            model.channels.push(ModelChannel {
                id: world.channel_with(model.accounts[account].id, settings).await,
                account,
                max_parallel: max_parallel as usize,
                pace: Pace { interval: interval(rate), burst: 1, next_slot: Timestamp(0) },
                policy,
                ttl,
                dedup,
                open: true,
                by_operator: false,
                paused_until: Timestamp(0),
                error_streak: 0,
            });
        }
        model
    }

    async fn run(mut self, world: &World, operations: &[Operation]) -> Checked {
        for (n, operation) in operations.iter().enumerate() {
            self.note_full();
            self.step(world, operation).await?;
            self.note_full();
            self.compare_deliveries(world).await?;
            if n % 5 == 4 || n + 1 == operations.len() {
                self.compare_settings(world).await?;
            }
        }
        let wrong = world.store.audit(world.ws).await.unwrap();
        prop_assert!(wrong.is_empty(), "audit: {wrong:?}");
        Ok(())
    }

    async fn step(&mut self, world: &World, operation: &Operation) -> Checked {
        let (store, ws) = (&world.store, world.ws);
        match *operation {
            Operation::Enqueue { text, origin, channels, bulk } => {
                self.enqueue(world, text, origin, channels, bulk).await?;
            }
            Operation::Claim { limit } => self.claim(world, limit).await?,
            Operation::Finish { claim, kind, chance } => self.finish(world, claim, kind, chance).await?,
            Operation::Requested { claim } => {
                let Some(claim) = self.pick_claim(claim) else { return Ok(()) };
                let got =
                    store.record_parts(vec![(claim.reference(), PartProgress::Requested)]).await.unwrap();
                let live = self.live(&claim);
                prop_assert_eq!(got, [live]);
                if live {
                    self.of(&claim).requested = true;
                }
            }
            Operation::Part { claim, part } => {
                let Some(claim) = self.pick_claim(claim) else { return Ok(()) };
                let done = PartProgress::Done { part: part.into(), provider_message_id: format!("p{part}") };
                let got = store.record_parts(vec![(claim.reference(), done)]).await.unwrap();
                let live = self.live(&claim);
                prop_assert_eq!(got, [live]);
                if live {
                    self.of(&claim).parts.insert(part.into(), format!("p{part}"));
                }
            }
            Operation::Renew { claim } => {
                let Some(claim) = self.pick_claim(claim) else { return Ok(()) };
                let got = store.renew(vec![claim.reference()], Span::from_secs(60)).await.unwrap();
                let live = self.live(&claim);
                prop_assert_eq!(got, [live]);
                if live {
                    self.of(&claim).lease_until = self.now + Span::from_secs(60);
                }
            }
            Operation::Advance { ms } => {
                world.advance(Span::from_millis(ms)).await;
                self.now = self.now + Span::from_millis(ms);
            }
            Operation::Recover => self.recover(world).await?,
            Operation::Cancel { delivery } => self.cancel(world, delivery).await?,
            Operation::Requeue { delivery } => self.requeue(world, delivery).await?,
            Operation::PauseChannel { channel, ms } => {
                let until = self.now + Span::from_millis(ms);
                let channel = self.channel(channel);
                channel.paused_until = channel.paused_until.max(until);
                let id = channel.id;
                store.pause_channel(ws, id, until, "проверка").await.unwrap();
            }
            Operation::ResumeChannel { channel } => {
                let channel = self.channel(channel);
                (channel.paused_until, channel.open, channel.error_streak) = (Timestamp(0), true, 0);
                channel.by_operator = false;
                let id = channel.id;
                self.hurry(|channel| channel.id == id);
                store.resume_channel(ws, id).await.unwrap();
            }
            Operation::DisableChannel { channel } => {
                let channel = self.channel(channel);
                (channel.open, channel.by_operator) = (false, true);
                let id = channel.id;
                store.disable_channel(ws, id, DisabledBy::Operator).await.unwrap();
            }
            Operation::PauseAccount { account } => {
                let account = &mut self.accounts[usize::from(account) % 2];
                account.paused = true;
                store.pause_account(ws, account.id, "проверка").await.unwrap();
            }
            Operation::ResumeAccount { account: which } => {
                let account = &mut self.accounts[usize::from(which) % 2];
                (account.paused, account.cooldown_until, account.flood) = (false, Timestamp(0), None);
                account.trouble_streak = 0;
                let id = account.id;
                self.hurry(|channel| channel.account == usize::from(which) % 2);
                store.resume_account(ws, id).await.unwrap();
            }
            Operation::Hold { held } => {
                self.held = held;
                store.hold_workspace(ws, held).await.unwrap();
            }
            Operation::Reserve { account, n } => {
                let account = &mut self.accounts[usize::from(account) % 2];
                let slot = account.pace.reserve(self.now.max(account.cooldown_until), n);
                prop_assert_eq!(store.reserve(ws, account.id, n).await.unwrap(), slot);
            }
        }
        Ok(())
    }

    fn channel(&mut self, n: u8) -> &mut ModelChannel {
        &mut self.channels[usize::from(n) % CHANNELS]
    }

    fn pick_claim(&self, n: u8) -> Option<Claim> {
        let n = usize::from(n);
        // Mostly the newest claims, sometimes one that is long over.
        let back = if n.is_multiple_of(4) { n / 4 % self.claims.len().max(1) } else { n % 6 };
        self.claims.iter().rev().nth(back).cloned()
    }

    fn of(&mut self, claim: &Claim) -> &mut ModelDelivery {
        self.deliveries.get_mut(&claim.delivery_id).expect("claimed deliveries are known")
    }

    fn current(&self, claim: &Claim) -> bool {
        self.deliveries[&claim.delivery_id].token == Some(claim.claim_token)
    }

    fn live(&self, claim: &Claim) -> bool {
        self.current(claim) && self.deliveries[&claim.delivery_id].lease_until > self.now
    }

    async fn enqueue(&mut self, world: &World, text: u8, origin: u8, channels: u8, bulk: bool) -> Checked {
        let picked: Vec<usize> = (0..CHANNELS).filter(|i| channels >> i & 1 == 1).collect();
        let ids: Vec<ChannelId> = picked.iter().map(|&i| self.channels[i].id).collect();
        let text = format!("текст {text}");
        let new = NewMessage {
            origin_id: format!("пост {origin}"),
            priority: if bulk { Priority::Bulk } else { Priority::Urgent },
            ..message(&text, &ids)
        };
        prop_assert!(new.payload.to_string().len() < PAYLOAD_BYTES_MAX);
        let result = world.store.enqueue(world.ws, vec![new.clone()]).await;
        if let Some((message_id, before, deliveries)) = self.messages.get(&new.origin_id) {
            if *before != new {
                prop_assert!(matches!(result, Err(StoreError::KeyConflict { .. })), "{result:?}");
                return Ok(());
            }
            let again = result.unwrap().remove(0);
            prop_assert_eq!(again.message_id, *message_id);
            prop_assert!(!again.created);
            let got: Vec<_> = again.deliveries.iter().map(|d| (d.delivery_id, d.channel_id)).collect();
            prop_assert_eq!(&got, deliveries);
            return Ok(());
        }
        let enqueued = result.unwrap().remove(0);
        let eligible: Vec<usize> = picked.into_iter().filter(|&i| !self.channels[i].by_operator).collect();
        let expected: Vec<ChannelId> = eligible.iter().map(|&i| self.channels[i].id).collect();
        let got: Vec<ChannelId> = enqueued.deliveries.iter().map(|d| d.channel_id).collect();
        prop_assert_eq!(got, expected, "V1: one delivery for each eligible channel");
        for (delivery, &channel) in enqueued.deliveries.iter().zip(&eligible) {
            let free = self.take_key(channel, &text, delivery.delivery_id);
            let status = if free { Status::Queued } else { Status::Deduped };
            prop_assert_eq!(delivery.status, status, "{:?}", delivery);
            self.deliveries.insert(delivery.delivery_id, self.fresh(channel, &text, new.priority, status, 0));
        }
        let ids = enqueued.deliveries.iter().map(|d| (d.delivery_id, d.channel_id)).collect();
        self.messages.insert(new.origin_id.clone(), (enqueued.message_id, new, ids));
        Ok(())
    }

    fn fresh(
        &self,
        channel: usize,
        text: &str,
        priority: Priority,
        status: Status,
        generation: i32,
    ) -> ModelDelivery {
        ModelDelivery {
            channel,
            text: text.to_owned(),
            priority,
            generation,
            parent: None,
            status,
            counters: Counters::default(),
            claim_seq: 0,
            run_at: self.now,
            lease_until: Timestamp(0),
            requested: false,
            token: None,
            ended: Vec::new(),
            parts: Parts::new(),
        }
    }

    fn take_key(&mut self, channel: usize, text: &str, id: DeliveryId) -> bool {
        if !self.channels[channel].dedup {
            return true;
        }
        let ttl = self.channels[channel].ttl;
        let key = (channel, text.to_owned());
        let taken = match self.keys.get(&key) {
            None => false,
            Some(Key::OnItsWay(_)) => true,
            Some(Key::Sent(at)) => *at + ttl > self.now,
        };
        if !taken {
            self.keys.insert(key, Key::OnItsWay(id));
        }
        !taken
    }

    async fn claim(&mut self, world: &World, limit: usize) -> Checked {
        let claimed = world.claim_ahead(limit, AHEAD).await;
        self.slot_has_come = std::array::from_fn(|i| self.channels[i].pace.next_slot <= self.now);
        let n = claimed.claims.len();
        let unmarked = self.deliveries.values().any(|d| d.status == Status::Sending && !d.requested);
        for claim in &claimed.claims {
            let suspect = self.deliveries[&claim.delivery_id].counters.lost_claims > 0;
            prop_assert!(!suspect || n == 1, "a suspect goes alone");
            let waits = unmarked && self.has_patience(claim.delivery_id);
            prop_assert!(!(suspect && waits), "a suspect waits for a moment alone");
            let next = self.next_of_lane(self.deliveries[&claim.delivery_id].channel);
            prop_assert!(next.contains(&claim.delivery_id), "{claim:?} was not next in its lane: {next:?}");
            self.take(claim)?;
        }
        let alone = n == 1 && self.deliveries[&claimed.claims[0].delivery_id].counters.lost_claims > 0;
        if n < limit && !alone {
            for channel in (0..CHANNELS).filter(|&channel| !self.may_be_put_off(channel)) {
                // Its first row, and where order is not kept the first that is no suspect; the bulk rows behind them are
                // next only in their turn.
                for id in self.must_go(channel) {
                    let suspect = self.deliveries[&id].counters.lost_claims > 0;
                    let waits = n > 0 || (unmarked && self.has_patience(id));
                    prop_assert!(suspect && waits, "{id} was eligible and left behind");
                }
            }
        }
        self.claims.extend(claimed.claims);
        Ok(())
    }

    fn has_patience(&self, id: DeliveryId) -> bool {
        self.deliveries[&id].run_at + SUSPECT_PATIENCE > self.now
    }

    fn retries(&self, account: usize) -> usize {
        let of = |d: &&ModelDelivery| self.channels[d.channel].account == account;
        let sending =
            self.deliveries.values().filter(|d| d.status == Status::Sending && d.counters.attempt > 1);
        sending.filter(of).count()
    }

    /// A lane with a retry that found no room is looked at again a moment later.
    fn may_be_put_off(&self, channel: usize) -> bool {
        let account = &self.accounts[self.channels[channel].account];
        let waits = |d: &ModelDelivery| d.channel == channel && d.status == Status::Retry;
        account.full_at + RETRY_LOOK > self.now && self.deliveries.values().any(waits)
    }

    /// Of the rows that may be next, those that nothing keeps waiting.
    fn must_go(&self, channel: usize) -> Vec<DeliveryId> {
        let suspect = |id: &DeliveryId| self.deliveries[id].counters.lost_claims > 0;
        let mut next = self.next_of_lane(channel);
        let passed = self.channels[channel].max_parallel > 1 && next.first().is_some_and(suspect);
        next.truncate(if passed && next.get(1).is_some_and(|id| !suspect(id)) { 2 } else { 1 });
        next
    }

    /// Notes which accounts have no room for another retry.
    fn note_full(&mut self) {
        for account in 0..self.accounts.len() {
            if self.retries(account) >= self.accounts[account].retry_parallel {
                self.accounts[account].full_at = self.now;
            }
        }
    }

    /// The rows of a lane that may be claimed next: its first row, or its first bulk row in its turn. Where order is not
    /// kept, rows that wait or find no room are passed over, and suspects may be.
    fn next_of_lane(&self, channel: usize) -> Vec<DeliveryId> {
        let c = &self.channels[channel];
        let account = &self.accounts[c.account];
        let in_flight = |of: &dyn Fn(&ModelDelivery) -> bool| {
            self.deliveries.values().filter(|d| d.status == Status::Sending && of(d)).count()
        };
        let slot = account.pace.earliest(self.now);
        let blocked = self.held
            || account.paused
            || account.cooldown_until > self.now
            || !c.open
            || c.paused_until > self.now
            || in_flight(&|d| d.channel == channel) >= c.max_parallel
            || in_flight(&|d| self.channels[d.channel].account == c.account) >= account.max_parallel
            || c.pace.earliest(self.now) > slot
            || !self.slot_has_come[channel]
            || slot > self.now + AHEAD;
        if blocked {
            return Vec::new();
        }
        let place = |id: &DeliveryId, d: &ModelDelivery| {
            let position = if c.max_parallel == 1 { id.0 } else { d.run_at.0 };
            (d.priority, position, *id)
        };
        let waiting = self.deliveries.iter().filter(|(_, d)| d.channel == channel && d.status.is_pending());
        let mut order: Vec<_> = waiting.map(|(id, d)| (place(id, d), d.run_at)).collect();
        order.sort();
        let room = self.retries(c.account) < account.retry_parallel;
        let may_go = |row: &&((Priority, i64, DeliveryId), Timestamp)| {
            row.1 <= self.now && (room || self.deliveries[&row.0.2].status != Status::Retry)
        };
        let is_bulk = |row: &&((Priority, i64, DeliveryId), Timestamp)| row.0.0 == Priority::Bulk;
        let no_suspect = |row: &&((Priority, i64, DeliveryId), Timestamp)| {
            self.deliveries[&row.0.2].counters.lost_claims == 0
        };
        let rows: Vec<_> = if c.max_parallel == 1 {
            let Some(first) = order.first().filter(may_go) else {
                return Vec::new();
            };
            vec![Some(first), order.iter().find(is_bulk).filter(may_go)]
        } else {
            let free = || order.iter().filter(may_go);
            vec![
                free().next(),
                free().find(no_suspect),
                free().find(is_bulk),
                free().filter(is_bulk).find(no_suspect),
            ]
        };
        let mut next: Vec<DeliveryId> = Vec::new();
        for ((_, _, id), _) in rows.into_iter().flatten() {
            if !next.contains(id) {
                next.push(*id);
            }
        }
        next
    }

    fn take(&mut self, claim: &Claim) -> Checked {
        let channel = self.deliveries[&claim.delivery_id].channel;
        let account = self.channels[channel].account;
        let slot = self.accounts[account].pace.earliest(self.now);
        prop_assert_eq!(claim.slot_at, slot, "V16: the next slot and no other");
        self.accounts[account].pace.take(slot);
        self.channels[channel].pace.take(slot);
        let delivery = self.of(claim);
        delivery.counters.attempt += 1;
        delivery.claim_seq += 1;
        delivery.status = Status::Sending;
        delivery.token = Some(claim.claim_token);
        delivery.lease_until = slot + Span::from_secs(60);
        delivery.requested = false;
        let (seq, counters, parts) = (delivery.claim_seq, delivery.counters, delivery.parts.clone());
        prop_assert_eq!(claim.claim_seq, seq, "V6: one more, never reused");
        prop_assert_eq!(claim.counters, counters, "V8: the attempt is counted here");
        prop_assert_eq!(&claim.parts, &parts);
        Ok(())
    }

    async fn finish(&mut self, world: &World, n: u8, kind: Kind, chance: u32) -> Checked {
        let Some(claim) = self.pick_claim(n) else { return Ok(()) };
        let ending = self.ending(kind);
        let drawn = Chance::new(chance);
        let finish = Finish { chance: drawn, ..finish(&claim, ending.clone()) };
        let got = world.store.commit(vec![finish]).await.unwrap().remove(0);
        let expected = if self.live(&claim) {
            let (domain_ending, not_before) = match &ending {
                FinishKind::Outcome(outcome) => (Ending::Outcome(outcome.clone()), None),
                FinishKind::RetryAt(outcome, at) => (Ending::Outcome(outcome.clone()), Some(*at)),
                FinishKind::Release => (Ending::Released, None),
            };
            Finished::Done(self.settle(claim.delivery_id, &domain_ending, drawn, not_before))
        } else {
            if self.current(&claim) {
                self.expire_lease(claim.delivery_id);
            }
            self.too_late(&claim, &ending)
        };
        prop_assert_eq!(got, expected, "{:?}", ending);
        Ok(())
    }

    fn ending(&self, kind: Kind) -> FinishKind {
        let failed = |failure| FinishKind::Outcome(Outcome::Failed(failure));
        match kind {
            Kind::Sent => {
                let provider_message_id = Some("77".to_owned());
                FinishKind::Outcome(Outcome::Sent(Sent { provider_message_id, raw: serde_json::Value::Null }))
            }
            Kind::Release => FinishKind::Release,
            Kind::Fail(category, scope, wait) => failed(Failure {
                retry_after_ms: wait,
                ..Failure::new(category, scope, "код", "беда")
            }),
            Kind::Unknown(scope) => failed(Failure::new(Category::Transient, scope, "timeout", "").unknown()),
            Kind::NotReady => failed(Failure::new(Category::Transient, Scope::Delivery, CODE_NOT_READY, "")),
            Kind::RetryAt(ms) => {
                let failure = Failure::new(Category::Transient, Scope::Delivery, "код", "");
                FinishKind::RetryAt(Outcome::Failed(failure), self.now + Span::from_millis(ms))
            }
        }
    }

    fn settle(
        &mut self,
        id: DeliveryId,
        ending: &Ending,
        chance: Chance,
        not_before: Option<Timestamp>,
    ) -> Status {
        let delivery = &self.deliveries[&id];
        let channel = &self.channels[delivery.channel];
        let account = &self.accounts[channel.account];
        let standing = Standing {
            counters: delivery.counters,
            policy: channel.policy,
            destination: Destination::Channel(channel.id),
            error_streak: channel.error_streak,
            flood: account.flood,
            trouble_streak: account.trouble_streak,
            absent: false,
        };
        let mut settlement = settle(&standing, ending, self.now, chance);
        if let (Some(at), Some(run_at)) = (not_before, &mut settlement.run_at) {
            *run_at = at.max(self.now);
        }
        self.effects(id, ending, &settlement);
        let expired = matches!(ending, Ending::LeaseExpired { .. });
        self.end(id, &settlement, expired);
        settlement.status
    }

    fn end(&mut self, id: DeliveryId, settlement: &Settlement, expired: bool) {
        let now = self.now;
        let delivery = self.deliveries.get_mut(&id).expect("known");
        delivery.status = settlement.status;
        delivery.counters = settlement.counters;
        delivery.run_at = settlement.run_at.unwrap_or(delivery.run_at);
        if let Some(token) = delivery.token.take() {
            delivery.ended.push((token, expired));
        }
        let key = (delivery.channel, delivery.text.clone());
        match settlement.status {
            Status::Sent if self.keys.get(&key) == Some(&Key::OnItsWay(id)) => {
                self.keys.insert(key, Key::Sent(now));
            }
            Status::Dead | Status::FailedPermanent => self.release_key(id, &key),
            _ => {}
        }
    }

    fn release_key(&mut self, id: DeliveryId, key: &(usize, String)) {
        if self.keys.get(key) == Some(&Key::OnItsWay(id)) {
            self.keys.remove(key);
        }
    }

    fn effects(&mut self, id: DeliveryId, ending: &Ending, settlement: &Settlement) {
        let channel = &mut self.channels[self.deliveries[&id].channel];
        let account = &mut self.accounts[channel.account];
        if let LaneEffect::PauseUntil(until) = settlement.lane {
            channel.paused_until = channel.paused_until.max(until);
        }
        match settlement.destination {
            DestinationEffect::None => {}
            DestinationEffect::Healthy => channel.error_streak = 0,
            DestinationEffect::Strike { error_streak, disable } => {
                channel.error_streak = error_streak;
                if disable {
                    (channel.open, channel.by_operator) = (false, false);
                }
            }
            DestinationEffect::PauseUntil(_) | DestinationEffect::Gone => unreachable!("of recipients alone"),
        }
        let flood = matches!(ending, Ending::Outcome(Outcome::Failed(failure)) if failure.is_flood());
        match settlement.account {
            AccountEffect::None => {}
            AccountEffect::Healthy => account.trouble_streak = 0,
            AccountEffect::RememberFlood(chat, until) => account.flood = Some((chat, until)),
            AccountEffect::CooldownUntil(until) => {
                account.cooldown_until = account.cooldown_until.max(until);
                account.trouble_streak += i32::from(!flood);
            }
            AccountEffect::Pause => account.paused = true,
        }
    }

    fn expire_lease(&mut self, id: DeliveryId) -> Status {
        let delivery = &self.deliveries[&id];
        let ending = Ending::LeaseExpired { requested: delivery.requested };
        self.settle(id, &ending, Chance::NONE, None)
    }

    fn too_late(&mut self, claim: &Claim, ending: &FinishKind) -> Finished {
        let now = self.now;
        let delivery = self.of(claim);
        let Some(&(_, expired)) = delivery.ended.iter().find(|(token, _)| *token == claim.claim_token) else {
            return Finished::LostClaim;
        };
        if !expired {
            return Finished::Repeated(delivery.status);
        }
        let newest = delivery.ended.last().is_some_and(|(token, _)| *token == claim.claim_token);
        let sent = matches!(ending, FinishKind::Outcome(Outcome::Sent(_)));
        if !sent || delivery.status != Status::Retry || !newest {
            return Finished::LostClaim;
        }
        delivery.status = Status::Sent;
        delivery.counters.attempt += 1;
        delivery.claim_seq += 1;
        delivery.ended.push((domain::ids::ClaimToken(uuid::Uuid::nil()), false));
        let key = (delivery.channel, delivery.text.clone());
        if self.keys.get(&key) == Some(&Key::OnItsWay(claim.delivery_id)) {
            self.keys.insert(key, Key::Sent(now));
        }
        Finished::Adopted
    }

    async fn recover(&mut self, world: &World) -> Checked {
        let got = world.store.recover(Whose::Workspace(world.ws), 1_000).await.unwrap();
        let expired = |d: &ModelDelivery| d.status == Status::Sending && d.lease_until <= self.now;
        let mut ids: Vec<(Timestamp, DeliveryId)> =
            self.deliveries.iter().filter(|(_, d)| expired(d)).map(|(id, d)| (d.lease_until, *id)).collect();
        ids.sort();
        let mut expected = Vec::new();
        for (_, delivery_id) in ids {
            expected.push(Recovered { delivery_id, status: self.expire_lease(delivery_id) });
        }
        prop_assert_eq!(got, expected);
        Ok(())
    }

    fn pick_delivery(&self, n: u8) -> Option<DeliveryId> {
        self.deliveries.keys().nth(usize::from(n) % self.deliveries.len().max(1)).copied()
    }

    async fn cancel(&mut self, world: &World, n: u8) -> Checked {
        let Some(id) = self.pick_delivery(n) else { return Ok(()) };
        let got = world.store.cancel(world.ws, vec![id]).await.unwrap();
        let pending = self.deliveries[&id].status.is_pending();
        prop_assert_eq!(got, [pending]);
        if pending {
            let delivery = self.deliveries.get_mut(&id).expect("known");
            delivery.status = Status::Dead;
            let key = (delivery.channel, delivery.text.clone());
            self.release_key(id, &key);
        }
        Ok(())
    }

    async fn requeue(&mut self, world: &World, n: u8) -> Checked {
        let Some(id) = self.pick_delivery(n) else { return Ok(()) };
        let result = world.store.requeue(world.ws, vec![id]).await;
        let old = self.deliveries[&id].clone();
        if !matches!(old.status, Status::Dead | Status::FailedPermanent) {
            prop_assert!(matches!(result, Err(StoreError::IllegalTransition { .. })), "{result:?}");
            return Ok(());
        }
        let new = result.unwrap()[0];
        let generations = self.deliveries.iter().filter(|(other, _)| self.root(**other) == self.root(id));
        let generation = 1 + generations.map(|(_, d)| d.generation).max().unwrap_or(0);
        let fresh = self.fresh(old.channel, &old.text, old.priority, Status::Queued, generation);
        self.deliveries.insert(new, ModelDelivery { parent: Some(id), ..fresh });
        if self.channels[old.channel].dedup {
            self.keys.entry((old.channel, old.text)).or_insert(Key::OnItsWay(new));
        }
        Ok(())
    }

    /// The first generation of a delivery.
    fn root(&self, mut id: DeliveryId) -> DeliveryId {
        while let Some(parent) = self.deliveries[&id].parent {
            id = parent;
        }
        id
    }

    /// Every delivery is as the model says.
    async fn compare_deliveries(&self, world: &World) -> Checked {
        let rows = world.store.deliveries(world.ws, DeliveryFilter::default(), 10_000).await.unwrap();
        prop_assert_eq!(rows.len(), self.deliveries.len(), "V1: nothing lost, nothing invented");
        for row in rows {
            let Some(model) = self.deliveries.get(&row.delivery_id) else {
                return Err(TestCaseError::fail(format!("unknown {row:?}")));
            };
            prop_assert_eq!(row.status, model.status, "V4: {:?}", row);
            prop_assert_eq!(row.counters, model.counters, "V8: {:?}", row);
            prop_assert_eq!(row.claim_seq, model.claim_seq, "V6: {:?}", row);
            prop_assert_eq!(row.generation, model.generation);
            prop_assert_eq!(&row.parts, &model.parts);
            let run_at = model.status.is_pending().then_some(model.run_at);
            prop_assert_eq!(row.run_at, run_at, "V14: {:?}", row);
            let lease_until = (model.status == Status::Sending).then_some(model.lease_until);
            prop_assert_eq!(row.lease_until, lease_until, "V5: {:?}", row);
            prop_assert!(row.counters.lost_claims <= domain::limits::LOST_CLAIMS_MAX, "V7: {row:?}");
        }
        Ok(())
    }

    /// What the endings did to channels and accounts.
    async fn compare_settings(&self, world: &World) -> Checked {
        let channels = world.store.channels(world.ws).await.unwrap();
        for (row, model) in channels.iter().zip(&self.channels) {
            prop_assert_eq!((row.enabled, row.error_streak), (model.open, model.error_streak), "{:?}", row);
            prop_assert_eq!(row.paused_until.max(Timestamp(0)), model.paused_until, "{:?}", row);
        }
        let accounts = world.store.accounts(world.ws).await.unwrap();
        for (row, model) in accounts.iter().zip(&self.accounts) {
            prop_assert_eq!(row.paused, model.paused, "{:?}", row);
            prop_assert_eq!(row.cooldown_until.max(Timestamp(0)), model.cooldown_until, "{:?}", row);
        }
        Ok(())
    }
}
