//! The dispatcher: claim, wait for the slot, send, write down. Bounded everywhere, and alone with the ledger.
//!
//! ```text
//! claim loop ──► one task per claim (deliver) ──► recorder ──► ledger
//!     ▲                                              │
//!     └────────────── a place is free ◄──────────────┘          housekeeping: leases, kill switch, clock
//! ```
//!
//! Work is fetched as places free up; a place is free again when its outcome is on the disk. Idle means waiting for
//! the next due time, a wake-up, or the poll that makes lost wake-ups harmless. It knows the platforms and the store
//! only through `ports`, so the simulator runs this very code.

mod adapter;
mod admit;
#[cfg(test)]
mod alike_tests;
mod book;
mod breaker;
mod deliver;
mod departures;
mod history;
mod media;
#[cfg(test)]
mod media_tests;
mod messages;
mod meters;
#[cfg(test)]
mod panic_tests;
#[cfg(test)]
mod people_tests;
pub mod ports;
mod prepare;
mod published;
mod purse;
mod questions;
mod recorder;
mod repeat;
mod send;
mod slots;
mod stop;
#[cfg(test)]
mod tests;
mod time;
mod unmarked;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::limits::{CLAIM_AHEAD_MAX, CLAIM_BATCH_MAX, LEASE};
use domain::outcome::Outcome;
use domain::time::{Span, Timestamp};
use store::{Claim, ClaimRequest, Finish, FinishKind, Parts, Remembered, Whose};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use adapter::{Adapter, Seat};
pub use book::Address;
pub use media::EmptyShelf;
use meters::{Ended, OfStatus};
pub use meters::{Meters, OfDoor};
use ports::{Dice, Ledger, Outlet};
use recorder::{End, Recorder};

use crate::addresses::ApiBases;
use crate::shelf::Shelf;
use crate::upkeep::kept_up;

/// After a claim that gave nothing: somebody else may hold what is due, and asking at once would ask for ever.
const EMPTY_WAIT: Duration = Duration::from_millis(10);
/// What is due may have to wait for longer (a suspect for the requests beside it): each further time in vain doubles the
/// wait, up to this. Not more, because what comes due meanwhile waits as long.
const EMPTY_WAIT_MAX: Duration = Duration::from_millis(50);

/// A first reading of the ledger's clock that took longer is asked for again.
const READING_MAX: Duration = Duration::from_millis(50);

/// Fewer free places than one in so many are not worth a claim at once …
const FEW: usize = 8;
/// … but after this.
const MOMENT: Duration = Duration::from_millis(5);

/// Places that become free one by one are worth a claim only after this, when the ledger has said what comes next …
const FREED_WAIT: Duration = Duration::from_millis(50);
/// … or when so many became free.
const FREED_MANY: usize = 64;

/// Slots are claimed again when this much of the look-ahead is left: a claim that brings many costs as much as one that
/// brings few.
const AHEAD_LEFT: Span = Span(CLAIM_AHEAD_MAX.0 * 3 / 4);

#[derive(Debug, Clone)]
pub struct Settings {
    /// Names this process in attempts and logs; new at every start.
    pub run_id: String,
    pub lease: Span,
    /// Claims held at once.
    pub in_flight_max: usize,
    /// Of those, requests with media at once.
    pub media_max: usize,
    /// How long to wait at most before looking again.
    pub idle_poll: Duration,
    /// How long an orderly stop waits for requests that are out.
    pub drain: Duration,
    /// The platforms' own limits of private chats are obeyed. Those of accounts and channels stand in their rows.
    pub platform_limits: bool,
}

impl Settings {
    pub fn new(run_id: String) -> Settings {
        Settings {
            run_id,
            lease: LEASE,
            in_flight_max: 1_024,
            media_max: 64,
            idle_poll: Duration::from_secs(1),
            drain: Duration::from_secs(30),
            platform_limits: true,
        }
    }
}

#[derive(Debug)]
pub struct Dispatcher {
    settings: Settings,
    ledger: Arc<dyn Ledger>,
    outlet: Arc<dyn Outlet>,
    shelf: Arc<dyn Shelf>,
    dice: Dice,
    pub meters: Arc<Meters>,
    book: book::Book,
    breakers: breaker::Breakers,
    messages: messages::MessageBatcher,
    departures: departures::Departures,
    slots: slots::SlotBatcher,
    doors: purse::Doors,
    time: time::Timebase,
    held: AtomicBool,
    witness: Arc<history::Witness>,
    /// Held while somebody compares histories.
    looking: tokio::sync::Mutex<()>,
    recorder: Recorder,
    places: Arc<Semaphore>,
    media_pool: Semaphore,
    freed: Arc<Notify>,
    stop: Arc<stop::Stop>,
    unmarked: Arc<unmarked::Unmarked>,
}

/// The world a dispatcher works in.
#[derive(Debug)]
pub struct Ports {
    pub ledger: Arc<dyn Ledger>,
    pub outlet: Arc<dyn Outlet>,
    pub shelf: Arc<dyn Shelf>,
    pub dice: Dice,
    pub bases: ApiBases,
    pub meters: Arc<Meters>,
}

/// Runs until `stop` turns true, then drains: what is out is finished, what has not left is handed back.
/// Returns whether everything was written down in time.
pub async fn run(settings: Settings, ports: Ports, mut stop: watch::Receiver<bool>) -> store::Result<bool> {
    let (dispatcher, writers) = assemble(settings, ports).await?;
    let house = Arc::clone(&dispatcher);
    // They end with this function, also when it is a panic that ends it: whoever starts it again starts them again.
    let mut beside = JoinSet::new();
    beside.spawn(kept_up("housekeeping", move || Arc::clone(&house).keep_house()));
    let asked = Arc::clone(&dispatcher.stop);
    beside.spawn(async move {
        // When nobody is left who could ask, it is time to stop as well.
        let _ = stop.wait_for(|stop| *stop).await;
        asked.ask();
    });
    dispatcher.claim_until_stopped().await;
    let drained = dispatcher.drain().await;
    beside.abort_all();
    if drained {
        dispatcher.sign_off().await;
    }
    // The tasks that are left hold the recorder; when they are over the writers end by themselves.
    drop(dispatcher);
    if drained {
        for writer in writers {
            let _ = writer.await;
        }
    } else {
        writers.iter().for_each(tokio::task::JoinHandle::abort);
    }
    Ok(drained)
}

/// A dispatcher that has read the ledger's clock, and the tasks that write for it.
async fn assemble(
    settings: Settings,
    ports: Ports,
) -> store::Result<(Arc<Dispatcher>, Vec<tokio::task::JoinHandle<()>>)> {
    let freed = Arc::new(Notify::new());
    let now = first_reading(&*ports.ledger).await?;
    let witness = Arc::new(history::Witness::default());
    let (recorder, writers) = Recorder::start(
        Arc::clone(&ports.ledger),
        Arc::clone(&ports.meters),
        Arc::clone(&freed),
        Arc::clone(&witness),
    );
    let dispatcher = Arc::new(Dispatcher {
        book: book::Book::new(Arc::clone(&ports.ledger), ports.bases, settings.platform_limits),
        breakers: breaker::Breakers::default(),
        messages: messages::MessageBatcher::new(Arc::clone(&ports.ledger)),
        departures: departures::Departures::default(),
        slots: slots::SlotBatcher::new(Arc::clone(&ports.ledger)),
        doors: purse::Doors::default(),
        time: time::Timebase::new(now),
        held: AtomicBool::new(false),
        witness,
        looking: tokio::sync::Mutex::default(),
        recorder,
        places: Arc::new(Semaphore::new(settings.in_flight_max)),
        media_pool: Semaphore::new(settings.media_max),
        freed,
        stop: Arc::default(),
        unmarked: Arc::default(),
        ledger: ports.ledger,
        outlet: ports.outlet,
        shelf: ports.shelf,
        dice: ports.dice,
        meters: ports.meters,
        settings,
    });
    Ok((dispatcher, writers))
}

/// The first reading of the ledger's clock: the quickest of a few, if the ledger is slow.
async fn first_reading(ledger: &dyn Ledger) -> store::Result<Timestamp> {
    for _ in 0..3 {
        let asked = Instant::now();
        let now = ledger.now().await?;
        if asked.elapsed() <= READING_MAX {
            return Ok(now);
        }
    }
    ledger.now().await
}

impl Dispatcher {
    async fn claim_until_stopped(self: &Arc<Self>) {
        let mut wake_up = None;
        let mut in_vain = 0_u32;
        while !self.stop.is_asked() {
            let free = self.places.available_permits();
            if free == 0 {
                self.wait_for_a_place(self.settings.idle_poll).await;
                continue;
            }
            if free < self.settings.in_flight_max / FEW {
                // Outcomes are being written; a moment later one claim brings what several would bring now.
                self.wait_for_a_place(MOMENT).await;
            }
            let free = self.places.available_permits();
            let limit = free.min(CLAIM_BATCH_MAX);
            let claiming = async {
                if wake_up.is_none() {
                    wake_up = self.ledger.wake_up().await.ok();
                }
                self.claim(limit).await
            };
            // A ledger that does not answer must not hold up a stop.
            let next = tokio::select! {
                biased;
                next = claiming => next,
                () = self.stop_grew_old() => return,
            };
            in_vain = if matches!(next, Some((0, Some(_)))) { in_vain.saturating_add(1) } else { 0 };
            let (wait, patience) = match next {
                // As much as was asked for: there may be more.
                Some((taken, _)) if taken == limit => continue,
                Some((_, next_at @ Some(_))) => (self.wait_of(in_vain, next_at), FREED_WAIT),
                // Whatever waits, waits for what is out.
                Some((_, None)) => (self.wait_of(in_vain, None), Duration::ZERO),
                None => (self.settings.idle_poll, Duration::ZERO),
            };
            self.wait_for_work(wait, patience, wake_up.as_mut()).await;
        }
    }

    /// Returns when half of the time to drain has passed since the stop. A claim that is given up comes back when its
    /// lease ends, so it gets some time first.
    async fn stop_grew_old(&self) {
        self.stop.asked().await;
        tokio::time::sleep_until(self.stop.asked_at() + self.settings.drain / 2).await;
    }

    /// Claims once and starts what it got; says how much that was and when there may be more.
    async fn claim(self: &Arc<Self>, limit: usize) -> Option<(usize, Option<Timestamp>)> {
        let request = ClaimRequest {
            whose: Whose::Everyone,
            run_id: self.settings.run_id.clone(),
            limit,
            ahead: CLAIM_AHEAD_MAX,
            lease: self.settings.lease,
        };
        if !self.history_is_known().await {
            return None;
        }
        let asked = Instant::now();
        let claimed = self.ledger.claim(request).await;
        self.meters.claim_seconds.observe(asked.elapsed().as_secs_f64());
        // The answer may have come over a new connection: until that is compared, the gate hands everything back.
        self.history_is_known().await;
        match claimed {
            Ok(claimed) => {
                let taken = claimed.claims.len();
                self.meters.dequeued(&claimed.claims);
                if taken > 0 {
                    tracing::debug!(taken, limit, "claimed");
                }
                for claim in claimed.claims {
                    match claim.counters.lost_claims {
                        0 => self.start(claim),
                        _ => self.start_alone(claim).await,
                    }
                }
                Some((taken, claimed.next_at))
            }
            Err(error) => {
                self.meters.claims_failed.inc();
                tracing::warn!(%error, "claiming failed; trying again");
                None
            }
        }
    }

    /// A row that may have killed a process before: nothing else may be about to leave beside it.
    async fn start_alone(self: &Arc<Self>, claim: Claim) {
        self.wait_for_marks().await;
        self.start(claim);
        self.wait_for_marks().await;
    }

    /// Not for ever: a claim that waits for a slow account must not hold up the rest.
    async fn wait_for_marks(&self) {
        let patience = Duration::from(self.settings.lease) / 3;
        tokio::select! {
            biased;
            () = self.stop.asked() => {}
            () = self.unmarked.none() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }

    fn start(self: &Arc<Self>, claim: Claim) {
        let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() else {
            // More than was asked for cannot come; if it did, its lease would end and it would come back.
            tracing::error!(delivery = claim.delivery_id.0, "claimed without a free place");
            return;
        };
        let dispatcher = Arc::clone(self);
        let entered = self.unmarked.enter();
        tokio::spawn(async move {
            let Some((ending, parts, platform)) = dispatcher.deliver(&claim, entered).await else {
                dispatcher.meters.claims_lost.inc();
                tracing::warn!(delivery = claim.delivery_id.0, "the claim was lost");
                drop(permit);
                dispatcher.freed.notify_one();
                return;
            };
            let remembered = remembered(&claim, &ending, parts);
            let finish = Finish { claim: claim.reference(), ending, chance: dispatcher.dice.chance() };
            let ended = Ended {
                campaign: claim.campaign_id,
                account: claim.account_id,
                charged: claim.counters.charged,
                platform,
                waited: (dispatcher.time.now() - claim.due_at).max(Span::ZERO).into(),
            };
            let called = dispatcher.book.name(claim.workspace_id, claim.destination).await;
            let (destination, message) = (claim.destination, claim.message_id);
            let end = End { finish, destination, called, message, remembered, ended, permit };
            dispatcher.recorder.end(end);
        });
    }

    /// `in_vain`: how many claims in a row gave nothing.
    fn wait_of(&self, in_vain: u32, next_at: Option<Timestamp>) -> Duration {
        let wait = match next_at {
            Some(at) if in_vain == 0 => self.time.until(at - AHEAD_LEFT),
            // Account slots are taken ahead of time; what gave nothing just now is a lane that waits for its own.
            Some(at) => {
                let growing = EMPTY_WAIT.saturating_mul(2_u32.saturating_pow(in_vain - 1));
                self.time.until(at).max(growing.min(EMPTY_WAIT_MAX))
            }
            None => self.settings.idle_poll,
        };
        wait.min(self.settings.idle_poll)
    }

    async fn wait_for_a_place(&self, at_most: Duration) {
        tokio::select! {
            biased;
            () = self.stop.asked() => {}
            () = self.freed.notified() => {}
            () = tokio::time::sleep(at_most) => {}
        }
    }

    async fn wait_for_work(
        &self,
        at_most: Duration,
        patience: Duration,
        wake_up: Option<&mut store::WakeUp>,
    ) {
        let span = Span(i64::try_from(at_most.as_micros()).unwrap_or(i64::MAX));
        let woken = async {
            match wake_up {
                Some(wake_up) => drop(wake_up.wait(span).await),
                None => tokio::time::sleep(at_most).await,
            }
        };
        tokio::select! {
            biased;
            () = self.stop.asked() => {}
            () = self.enough_freed(patience) => {}
            () = woken => {}
        }
    }

    /// Returns when a place is free again: at once if there are many, otherwise after a while in which more may come.
    async fn enough_freed(&self, patience: Duration) {
        let (before, until) = (self.places.available_permits(), Instant::now() + patience);
        self.freed.notified().await;
        while Instant::now() < until && self.places.available_permits() < before + FREED_MANY {
            tokio::select! {
                () = self.freed.notified() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Once a second: the kill switch, the clock, leases that ended.
    async fn keep_house(self: Arc<Self>) {
        loop {
            match self.ledger.held().await {
                Ok(why) => self.hold(why.as_deref()),
                Err(error) => tracing::warn!(%error, "the kill switch could not be read"),
            }
            self.keep_history().await;
            let asked = Instant::now();
            if let Ok(now) = self.ledger.now().await {
                self.time.set(now, asked);
            }
            match self.ledger.recover(Whose::Everyone, CLAIM_BATCH_MAX).await {
                Ok(recovered) if !recovered.is_empty() => {
                    for row in &recovered {
                        let status = OfStatus { status: row.status.as_str() };
                        self.meters.leases_recovered.get_or_create(&status).inc();
                    }
                    tracing::warn!(
                        recovered = recovered.len(),
                        "leases had ended; their deliveries were taken up"
                    );
                    self.freed.notify_one();
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "leases could not be recovered"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn hold(&self, why: Option<&str>) {
        let was = self.held.swap(why.is_some(), Ordering::AcqRel);
        match (was, why) {
            (false, Some(why)) => tracing::warn!(why, "all sending is held; `rupor release` lets it go on"),
            (true, None) => tracing::info!("released; sending goes on"),
            _ => {}
        }
    }

    fn everything_is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Everything but who speaks of trouble.
    fn is_held(&self, address: &book::Address) -> bool {
        self.everything_is_held() && !address.past_holds
    }

    /// Waits for what is out. What waits for its slot has heard of the stop itself.
    async fn drain(&self) -> bool {
        let everything = u32::try_from(self.settings.in_flight_max).unwrap_or(u32::MAX);
        let all = self.places.acquire_many(everything);
        let until = self.stop.asked_at() + self.settings.drain;
        let drained = tokio::time::timeout_at(until, all).await.is_ok();
        if !drained {
            let out = self.settings.in_flight_max - self.places.available_permits();
            tracing::warn!(out, "the time to drain is over; what is out will be recovered by its lease");
        }
        drained
    }
}

/// A success as it is offered again should the ledger lose it.
fn remembered(claim: &Claim, ending: &FinishKind, parts: Parts) -> Option<Remembered> {
    let FinishKind::Outcome(Outcome::Sent(sent)) = ending else {
        return None;
    };
    Some(Remembered {
        workspace_id: claim.workspace_id,
        delivery_id: claim.delivery_id,
        idempotency_key: claim.idempotency_key.clone(),
        provider_message_id: sent.provider_message_id.clone(),
        parts,
    })
}
