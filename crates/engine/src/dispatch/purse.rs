//! What a delivery pays with while it is being sent: every call to the API has a slot of its own, before it is made.
//!
//! The claim has paid for the first call. Uploads pay for the others one by one, at the instant a slot comes and never
//! ahead: a claim may take slots a moment before, so whatever waits for the same account gets its turn between two
//! uploads. The post itself then takes the next slot of its chat and of its account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::ids::AccountId;
use domain::outcome::{Category, Failure, Scope};
use domain::time::{Span, Timestamp};
use futures_util::future::BoxFuture;
use platforms::platform::{Budget, Fare};
use store::Claim;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Dispatcher;
use super::admit::SLOTS_MISSED_MAX;
use super::deliver::{Halt, Step};
use super::departures::{LATE_MAX, Pacing};
use super::meters::Meters;
use super::prepare::Work;

/// Deliveries of one account that carry media at once, so that a slow account never fills the pool of all.
const CARRIERS_MAX: usize = 8;

/// Where the media of one account pass, one call at a time.
#[derive(Debug)]
pub(super) struct Door {
    carriers: Semaphore,
    /// The slot of the last upload: the next one stands back for one interval.
    last: tokio::sync::Mutex<Option<Timestamp>>,
}

#[derive(Debug, Default)]
pub(super) struct Doors(Mutex<HashMap<AccountId, Arc<Door>>>);

impl Doors {
    pub(super) fn of(&self, account: AccountId) -> Arc<Door> {
        let mut doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new =
            || Arc::new(Door { carriers: Semaphore::new(CARRIERS_MAX), last: tokio::sync::Mutex::default() });
        Arc::clone(doors.entry(account).or_insert_with(new))
    }
}

/// Places for media, of the account and of the node.
pub(super) struct Carrying<'a> {
    _own: SemaphorePermit<'a>,
    _shared: SemaphorePermit<'a>,
}

/// The budget of one part that is being sent.
pub(super) struct Purse<'a> {
    dispatcher: &'a Dispatcher,
    claim: &'a Claim,
    work: &'a Work,
    paid: Mutex<Paid>,
}

#[derive(Debug, Default)]
struct Paid {
    /// When the call that the claim paid for was let go; `None` when it has been made.
    first: Option<Timestamp>,
    /// Why a call could not be paid for.
    halt: Option<Halt>,
}

impl Dispatcher {
    /// Waits for a place among those who carry media. Who would wait longer than its lease allows is handed back.
    pub(super) async fn carry<'a>(&'a self, door: &'a Door) -> Step<Carrying<'a>> {
        let patience = Duration::from(self.settings.lease) / 4;
        let both = async {
            let _own = door.carriers.acquire().await.map_err(|_| Halt::Release)?;
            let _shared = self.media_pool.acquire().await.map_err(|_| Halt::Release)?;
            Ok(Carrying { _own, _shared })
        };
        tokio::time::timeout(patience, both).await.unwrap_or(Err(Halt::Release))
    }

    /// A slot that stands back for the others, waited for.
    async fn upload_slot(&self, claim: &Claim, work: &Work) -> Step<()> {
        let door = self.doors.of(claim.account_id);
        let mut last = door.last.lock().await;
        let pacing = Pacing {
            account_interval: work.address.interval,
            chat: claim.destination,
            chat_interval: Span::ZERO,
        };
        for _ in 0..SLOTS_MISSED_MAX {
            if let Some(last) = *last {
                self.wait_for(last + work.address.interval, self.kept_lease()).await?;
            }
            let slot = self.slots.reserve(claim.workspace_id, claim.account_id, None).await;
            let slot = slot.map_err(super::deliver::unreadable)?;
            *last = Some(slot);
            let ticket = self.departures.hold(claim.account_id, slot, claim.delivery_id);
            self.wait_for(slot, self.kept_lease()).await?;
            if self.departed(ticket, pacing, self.kept_lease()).await? {
                return Ok(());
            }
            self.meters.slots_missed.inc();
        }
        Err(Halt::Release)
    }

    /// The slot of a request whose own slot went to its uploads.
    async fn late_slot(&self, claim: &Claim, work: &Work) -> Step<()> {
        let pacing = Pacing {
            account_interval: work.address.interval,
            chat: claim.destination,
            chat_interval: work.place.interval,
        };
        let mut slot = self.reserve(claim, work, self.kept_lease()).await?;
        for _ in 0..SLOTS_MISSED_MAX {
            let ticket = self.departures.hold(claim.account_id, slot, claim.delivery_id);
            self.wait_for(slot, self.kept_lease()).await?;
            if self.departed(ticket, pacing, self.kept_lease()).await? {
                // The kill switch may have been thrown while the media went up.
                return if self.is_held(&work.address) { Err(Halt::Release) } else { Ok(()) };
            }
            self.meters.slots_missed.inc();
            slot = self.reserve_again(claim).await?;
        }
        Err(Halt::Release)
    }

    /// The lease is renewed for as long as something is being sent.
    fn kept_lease(&self) -> Timestamp {
        self.time.now() + self.settings.lease
    }
}

impl<'a> Purse<'a> {
    /// The first call is let go now.
    pub(super) fn opened(dispatcher: &'a Dispatcher, claim: &'a Claim, work: &'a Work) -> Purse<'a> {
        let paid = Mutex::new(Paid { first: Some(dispatcher.time.now()), halt: None });
        Purse { dispatcher, claim, work, paid }
    }

    /// Why the sending ended for want of a slot, if it did.
    pub(super) fn halted(self) -> Option<Halt> {
        self.paid.into_inner().unwrap_or_else(PoisonError::into_inner).halt
    }

    fn paid(&self) -> std::sync::MutexGuard<'_, Paid> {
        self.paid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn slot(&self, fare: Fare) -> Step<()> {
        let first = self.paid().first.take();
        // What took long to get ready has missed its slot like anybody else; without a pace there is none to miss.
        let in_time = |first: Timestamp| {
            self.work.address.interval == Span::ZERO || self.dispatcher.time.now() - first <= LATE_MAX
        };
        if first.is_some_and(in_time) {
            return Ok(());
        }
        match fare {
            Fare::Upload => self.dispatcher.upload_slot(self.claim, self.work).await,
            Fare::Visible => self.dispatcher.late_slot(self.claim, self.work).await,
        }
    }
}

impl Budget for Purse<'_> {
    fn may_cost(&self) -> bool {
        self.claim.paid
    }

    fn pay(&self, fare: Fare) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            if fare == Fare::Upload {
                Meters::of(self.work.address.platform.name(), &self.dispatcher.meters.upload_calls);
            }
            self.slot(fare).await.map_err(|halt| {
                self.paid().halt = Some(halt);
                Failure::new(
                    Category::Transient,
                    Scope::Delivery,
                    "no_slot",
                    "the account has no slot in time",
                )
            })
        })
    }
}
