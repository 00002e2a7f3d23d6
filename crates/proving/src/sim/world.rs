//! The world of one run: the ledger, its clock, chance, the logs, and the rows an operator configured.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::delivery::AmbiguityPolicy;
use domain::ids::{AccountId, ChannelId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use store::{Clock, Keyring, NewAccount, NewChannel, Store};
use tokio::time::Instant;

use super::campaigns::{self, Subscriber};
use super::log::{AccountLog, ChannelLog, Logs, Micros, RunLog};
use super::options::{Options, Ppm};
use super::people::{self, Person};
use super::saboteur::Saboteur;
use super::sometimes::Sometimes;

/// 2026-11-15 12:00:00 UTC, by the ledger's clock.
pub(super) const START: Timestamp = Timestamp(1_794_744_000_000_000);

pub(super) struct World {
    pub options: Options,
    pub saboteur: Option<Saboteur>,
    pub store: Store,
    pub accounts: Vec<(WorkspaceId, AccountId)>,
    pub channels: Vec<(WorkspaceId, ChannelId)>,
    pub workspaces: Vec<WorkspaceId>,
    pub people: Vec<Person>,
    pub subscribers: Vec<Subscriber>,
    /// Campaigns that are not over.
    pub campaigns: AtomicUsize,
    /// Posts that still live on at their source, and the workspaces that have had their search.
    pub stories: AtomicUsize,
    pub searched: Mutex<BTreeSet<i64>>,
    /// The chats of people who blocked us.
    pub blocked: Mutex<BTreeSet<String>>,
    clock: Arc<SimClock>,
    started: Instant,
    calm: AtomicBool,
    chance: Mutex<StdRng>,
    logs: Mutex<Logs>,
    sometimes: Mutex<Sometimes>,
    trace: Mutex<Trace>,
    next_id: AtomicU64,
    /// The present claim of each delivery, for saboteurs that go round the fence.
    pub claims: Mutex<std::collections::BTreeMap<i64, (store::ClaimRef, Instant)>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.options.seed).finish_non_exhaustive()
    }
}

/// The ledger's clock: virtual time, and by how much it has jumped.
struct SimClock {
    started: Instant,
    offset_us: AtomicI64,
}

/// What happened, as a hash, and as lines when somebody wants to read it.
struct Trace {
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl World {
    pub(super) async fn new(
        options: Options,
        saboteur: Option<Saboteur>,
        keep_lines: bool,
    ) -> store::Result<World> {
        let started = Instant::now();
        let clock = Arc::new(SimClock { started, offset_us: AtomicI64::new(0) });
        let read = Arc::clone(&clock);
        let now = move || {
            let elapsed = i64::try_from(read.started.elapsed().as_micros()).unwrap_or(i64::MAX);
            START + Span(elapsed + read.offset_us.load(Ordering::Acquire))
        };
        let keyring = Keyring::ephemeral([7; 32]);
        let sqlite = store::sqlite::Sqlite::in_memory_inline(keyring, Clock::Other(Arc::new(now)))?;
        let mut world = World {
            chance: Mutex::new(StdRng::seed_from_u64(options.seed)),
            saboteur,
            store: Store::Sqlite(sqlite),
            accounts: Vec::new(),
            channels: Vec::new(),
            workspaces: Vec::new(),
            people: Vec::new(),
            subscribers: Vec::new(),
            campaigns: AtomicUsize::new(options.campaigns),
            options,
            stories: AtomicUsize::new(0),
            searched: Mutex::default(),
            blocked: Mutex::default(),
            clock,
            started,
            calm: AtomicBool::new(false),
            logs: Mutex::default(),
            sometimes: Mutex::default(),
            trace: Mutex::new(Trace { hash: DefaultHasher::new(), lines: keep_lines.then(Vec::new) }),
            next_id: AtomicU64::new(100),
            claims: Mutex::default(),
        };
        world.furnish().await?;
        Ok(world)
    }

    /// Workspaces, accounts of all platforms, and channels with all policies.
    async fn furnish(&mut self) -> store::Result<()> {
        for n in 0..self.options.workspaces {
            self.workspaces.push(self.store.create_workspace(&format!("приют {n}")).await?);
        }
        for n in 0..self.options.accounts {
            let workspace = self.workspaces[n % self.workspaces.len()];
            let platform = ["telegram", "vk", "max"][self.below(3)];
            let rate = [2.0, 5.0, 10.0, 30.0][self.below(4)];
            let burst = if self.below(4) == 0 { 3 } else { 1 };
            let max_parallel = [1, 2, 4, 8][self.below(4)];
            let retry_parallel = [1, 2, 4][self.below(3)].min(max_parallel);
            let settings = store::AccountSettings {
                rate: Some(rate),
                burst,
                max_parallel,
                retry_parallel: match self.saboteur {
                    Some(Saboteur::RetryRoomIgnored) => max_parallel,
                    _ => retry_parallel,
                },
                ..store::AccountSettings::default()
            };
            let token = token(platform, n).into();
            let new = NewAccount { platform: platform.into(), name: format!("бот {n}"), token, settings };
            let id = self.store.create_account(workspace, new).await?;
            let interval_us = domain::pacing::interval(Some(rate)).0;
            let account = AccountLog {
                workspace: workspace.0,
                interval_us,
                burst: i64::from(burst),
                max_parallel: max_parallel as usize,
                retry_parallel: retry_parallel as usize,
            };
            self.logs().world.accounts.insert(id.0, account);
            self.accounts.push((workspace, id));
            for _ in 0..=self.below(3) {
                self.furnish_channel(workspace, id, platform).await?;
            }
            let people = people::furnish(self, workspace, id, platform).await?;
            self.people.extend(people);
            let subscribers = campaigns::furnish(self, workspace, id, platform).await?;
            self.subscribers.extend(subscribers);
        }
        Ok(())
    }

    async fn furnish_channel(
        &mut self,
        workspace: WorkspaceId,
        account: AccountId,
        platform: &'static str,
    ) -> store::Result<()> {
        use AmbiguityPolicy::{Hold, Reconcile, Resend, ResendOnce};
        let policies: &[AmbiguityPolicy] = match platform {
            "vk" => &[Resend, Resend, Resend, Hold],
            "max" => &[Reconcile, Reconcile, ResendOnce, Hold],
            _ => &[ResendOnce, ResendOnce, Hold, Resend],
        };
        let policy = policies[self.below(4)];
        let ordered = self.below(3) > 0;
        let split = self.below(3) > 0;
        let rate = [None, Some(1.0), Some(5.0)][self.below(3)];
        let target = format!("-{}", 1_000_000_000_001 + self.channels.len());
        let takes_back = self.below(2) == 0;
        let on_close = ["edit", "reply", "reply", "none"][self.below(4)];
        let seconds = |duration: Duration| format!("{}ms", duration.as_millis());
        let settings = store::ChannelSettings {
            rate,
            max_parallel: if ordered && self.saboteur != Some(Saboteur::OrderDropped) { 1 } else { 3 },
            ambiguity: match self.saboteur {
                Some(Saboteur::HoldNotHeld) if policy == Hold => ResendOnce,
                _ => policy,
            },
            overflow: if split { domain::chat::Overflow::Split } else { domain::chat::Overflow::Cut },
            settings: json!({
                "timeout": seconds(self.options.request_deadline()),
                "upload_timeout": seconds(self.options.upload_deadline()),
                "on_gone": if takes_back { "delete" } else { "none" },
                "on_close": on_close,
            }),
            ..store::ChannelSettings::default()
        };
        let name = format!("канал {}", self.channels.len());
        let new = NewChannel { account_id: account, name, target: target.clone(), settings };
        let id = self.store.create_channel(workspace, new).await?;
        let channel = ChannelLog {
            workspace: workspace.0,
            account: account.0,
            target,
            policy: policy.as_str(),
            ordered,
            keyed: platform == "vk",
            split,
            takes_back,
            removed_at: None,
        };
        self.logs().world.channels.insert(id.0, channel);
        self.channels.push((workspace, id));
        Ok(())
    }

    // -- time

    pub(super) fn at(&self) -> Micros {
        i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn ledger_at(&self) -> i64 {
        START.0 + self.at() + self.clock.offset_us.load(Ordering::Acquire)
    }

    pub(super) fn jump(&self, by_us: i64) {
        self.clock.offset_us.fetch_add(by_us, Ordering::AcqRel);
        let at = self.at();
        self.logs().jumps.push((at, by_us));
        self.sometimes(match by_us > 0 {
            true => "ledger: clock jumped forward",
            false => "ledger: clock jumped back",
        });
        self.trace(format_args!("the ledger's clock jumps by {by_us} us"));
    }

    pub(super) fn become_calm(&self) {
        self.calm.store(true, Ordering::Release);
        let at = self.at();
        self.logs().calm_at = at;
        self.trace(format_args!("calm"));
    }

    pub(super) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Acquire)
    }

    // -- chance

    pub(super) fn below(&self, n: usize) -> usize {
        lock(&self.chance).random_range(0..n.max(1))
    }

    /// A trouble that happens with these odds, never after the calm.
    pub(super) fn strikes(&self, odds: Ppm) -> bool {
        odds > 0 && !self.is_calm() && lock(&self.chance).random_range(0..1_000_000) < odds
    }

    pub(super) fn up_to(&self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(lock(&self.chance).random_range(0..=micros))
    }

    pub(super) fn between(&self, least: Duration, most: Duration) -> Duration {
        least + self.up_to(most.saturating_sub(least))
    }

    /// A number nobody had before: ids of posts.
    pub(super) fn fresh(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::AcqRel)
    }

    // -- what happened

    pub(super) fn logs(&self) -> MutexGuard<'_, Logs> {
        lock(&self.logs)
    }

    pub(super) fn run_log<T>(&self, index: usize, change: impl FnOnce(&mut RunLog) -> T) -> Option<T> {
        self.logs().nodes.get_mut(index).map(change)
    }

    pub(super) fn sometimes(&self, what: &'static str) {
        lock(&self.sometimes).count(what);
    }

    pub(super) fn counted(&self) -> Sometimes {
        lock(&self.sometimes).clone()
    }

    pub(super) fn trace(&self, what: std::fmt::Arguments<'_>) {
        let at = self.at();
        let mut trace = lock(&self.trace);
        let _ = writeln!(HashWriter(&mut trace.hash), "{at} {what}");
        if let Some(lines) = &mut trace.lines {
            lines.push(format!("{:>11.3} ms  {what}", at as f64 / 1_000.0));
        }
    }

    pub(super) fn trace_hash(&self) -> u64 {
        lock(&self.trace).hash.finish()
    }

    pub(super) fn trace_lines(&self) -> Vec<String> {
        lock(&self.trace).lines.take().unwrap_or_default()
    }
}

struct HashWriter<'a>(&'a mut DefaultHasher);

impl std::fmt::Write for HashWriter<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A token that its platform would accept as one.
fn token(platform: &str, n: usize) -> String {
    match platform {
        "telegram" => format!("{}:simulated", 1_000 + n),
        _ => format!("simulated{n}"),
    }
}
