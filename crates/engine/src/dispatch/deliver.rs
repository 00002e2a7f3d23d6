//! One claim from its slot to its outcome: render, wait, mark, send part by part.
//!
//! Nothing here tries again: every failure ends the claim as a value, and the ledger decides what that means.
//! The order is what makes the promises true. The mark is durable before the first byte can leave; a part that is
//! visible is written down before the next one; the claim is given back only while nothing has left.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{Action, Status};
use domain::destination::Destination;
use domain::limits::NOT_READY_WAITS_MAX;
use domain::message::Message;
use domain::outcome::{CODE_NOT_READY, Category, Failure, Outcome, Scope, Sent};
use domain::time::{Span, Timestamp};
use futures_util::FutureExt;
use platforms::media::MediaHandle;
use platforms::part::{MediaItem, Part};
use platforms::platform::{Deadlines, Report, Sending};
use store::{Claim, Delivery, FinishKind, PartProgress, Parts, StoreError};

use super::book::{Address, Found, Place};
use super::departures::{Departure, LATE_MAX, Pacing, Ticket};
use super::media::AccountMedia;
use super::purse::Purse;
use super::unmarked::Entered;
use super::{Dispatcher, published};

/// Requests whose marks fall into the same stretch of time are marked together.
const MARKED_TOGETHER: Span = Span::from_millis(20);
/// Slots one part may miss before the claim is handed back.
pub(super) const SLOTS_MISSED_MAX: u32 = 3;
/// A chat that is free this soon is waited for with the claim in hand.
const CHAT_WAIT_MAX: Span = Span::from_secs(5);
/// How long a wait goes on before the clock is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why a delivery goes no further.
#[derive(Debug)]
pub(super) enum Halt {
    /// The claim is somebody else's: nothing to say.
    Lost,
    /// Nothing has left: hand it back.
    Release,
    End(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Halt {
        Halt::End(failure)
    }
}

pub(super) type Step<T> = Result<T, Halt>;

/// What a claim turned out to be.
pub(super) struct Work {
    pub(super) address: Arc<Address>,
    pub(super) place: Arc<Place>,
    message: Arc<Message>,
    pub(super) parts: Vec<Part>,
    /// When the chat is free, where the claim did not wait for it.
    free_at: Option<Timestamp>,
}

/// How far this claim has come.
pub(super) struct Progress {
    /// Ids of the parts before the current one.
    pub(super) earlier: Vec<Vec<String>>,
    /// A request of this claim has been marked.
    marked: bool,
    /// Held until then.
    unmarked: Option<Entered>,
    lease_until: Timestamp,
}

impl Dispatcher {
    /// Carries out a claim; `None` when it is not ours any more.
    pub(super) async fn deliver(&self, claim: &Claim, entered: Entered) -> Option<(FinishKind, Parts)> {
        // A panic is this delivery's misfortune and nobody else's.
        let done = AssertUnwindSafe(self.attempt(claim, entered)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(delivery = claim.delivery_id.0, "a delivery panicked");
            Err(Halt::End(nobody_knows("panic", "the delivery could not be carried out; see the log")))
        });
        match done {
            Ok((sent, parts)) => Some((FinishKind::Outcome(Outcome::Sent(sent)), parts)),
            Err(Halt::End(failure)) => Some((FinishKind::Outcome(Outcome::Failed(failure)), Parts::new())),
            Err(Halt::Release) => Some((FinishKind::Release, Parts::new())),
            Err(Halt::Lost) => None,
        }
    }

    async fn attempt(&self, claim: &Claim, entered: Entered) -> Step<(Sent, Parts)> {
        let work = self.prepare(claim).await?;
        self.ask_first(claim, &work).await?;
        let mut progress = Progress {
            earlier: Vec::new(),
            marked: false,
            unmarked: Some(entered),
            lease_until: claim.lease_until,
        };
        if claim.counters.unknowns > 0 {
            self.look_first(claim, &work, &mut progress).await?;
        }
        for (index, part) in work.parts.iter().enumerate() {
            if index < progress.earlier.len() {
                continue;
            }
            let ids = match claim.parts.get(&(index as u32)) {
                Some(line) => published::ids(line),
                None => self.one_part(claim, &work, index, part, &mut progress).await?,
            };
            progress.earlier.push(ids);
        }
        let first = progress.earlier.iter().flatten().next().cloned();
        let line = |(part, ids): (&Part, &Vec<String>)| published::line(part, ids);
        let parts = (0..).zip(work.parts.iter().zip(&progress.earlier).map(line)).collect();
        Ok((Sent { provider_message_id: first, raw: serde_json::Value::Null }, parts))
    }

    /// Everything that can go wrong before the network goes wrong here.
    async fn prepare(&self, claim: &Claim) -> Step<Work> {
        let found = self.book.find(claim.workspace_id, claim.account_id, claim.destination).await;
        let Found { address, place, free_at } = found.map_err(unreadable)??;
        if let Some(at) = free_at {
            soon_free(at - self.time.now())?;
        }
        let message = self.message(claim).await?;
        let target = match claim.target_delivery {
            Some(id) => {
                let target = self.ledger.delivery(claim.workspace_id, id).await.map_err(unreadable)?;
                Some(published_already(target)?)
            }
            None => None,
        };
        let media: Vec<MediaItem> = message
            .media
            .iter()
            .map(|media| MediaItem { send_as: media.kind, media: media.clone() })
            .collect();
        let before = target.map(|target| published::published(&target, &media)).unwrap_or_default();
        let action = match claim.action {
            Action::Send => platforms::part::Action::Send,
            Action::Reply => platforms::part::Action::Reply(&before),
            Action::Edit => platforms::part::Action::Edit(&before),
            Action::Delete => platforms::part::Action::Delete(&before),
        };
        let rendered = address.platform.render(&action, &message, &place.settings);
        let rendered = rendered.map_err(|error| error.to_failure())?;
        for note in &rendered.notes {
            tracing::info!(delivery = claim.delivery_id.0, note, "left out");
        }
        Ok(Work { address, place, message, parts: rendered.parts, free_at })
    }

    /// The message of a claim; a post to forty channels is read once.
    async fn message(&self, claim: &Claim) -> Step<Arc<Message>> {
        let wanted = (claim.message_id, claim.revision, claim.wording().to_owned());
        let found = self.messages.get(claim.workspace_id, wanted).await;
        found.map_err(unreadable)?.map_err(|why| delivery_failure("message", &why).into())
    }

    async fn one_part(
        &self,
        claim: &Claim,
        work: &Work,
        index: usize,
        part: &Part,
        progress: &mut Progress,
    ) -> Step<Vec<String>> {
        let carries_media = !items(part).is_empty();
        // Media have a pool of their own, so that a slow upload never stands before a text.
        let door = self.doors.of(claim.account_id);
        let _place = match carries_media {
            true => Some(self.carry(&door).await?),
            false => None,
        };
        let media = AccountMedia::new(&*self.shelf, claim.workspace_id, claim.account_id);
        // What is read before the slot does not make the request late.
        media.fetch(items(part)).await;
        let slot = match progress.marked || progress.earlier.len() > claim.parts.len() {
            false => self.first_slot(claim, work, progress.lease_until).await?,
            true => self.reserve(claim, work, progress.lease_until).await?,
        };
        self.admit(claim, work, slot, progress, carries_media).await?;
        let mut report = self.send(claim, work, index, part, progress, &media).await?;
        self.keep_handles(claim, work, part, &report).await;
        if report.stale_handle {
            // The platform does not know a handle any more: it is forgotten, and the bytes go up once more, here and now.
            media.forget_handles().await;
            self.meters.count("rupor_handles_refused_total", work.address.platform.name());
            let slot = self.reserve(claim, work, progress.lease_until).await?;
            self.admit(claim, work, slot, progress, carries_media).await?;
            report = self.send(claim, work, index, part, progress, &media).await?;
            self.keep_handles(claim, work, part, &report).await;
        }
        if never_ready(claim, &report) {
            media.forget_handles().await;
        }
        for note in &report.notes {
            tracing::info!(delivery = claim.delivery_id.0, part = index, note, "left out");
        }
        self.breakers.learn(claim.account_id, &report.outcome);
        match report.outcome {
            Outcome::Sent(_) => {
                if work.address.platform.recognises_repeats() {
                    self.is_ours(claim, part, &report.ids).await?;
                }
                let last = index + 1 == work.parts.len();
                if !last || carries_media || report.ids.len() > 1 {
                    let kept = self.part_done(claim, index, part, &report.ids).await;
                    // The end of the claim tells the same story; only a later part needs this one on paper.
                    if !last {
                        kept?;
                    }
                }
                Ok(report.ids)
            }
            Outcome::Failed(failure) if matches!(part, Part::Pin(_)) => {
                tracing::info!(
                    delivery = claim.delivery_id.0,
                    code = failure.code,
                    "published, but not pinned"
                );
                Ok(Vec::new())
            }
            Outcome::Failed(failure) => {
                if failure.scope == Scope::Platform && failure.category == Category::Permanent {
                    self.book.forget(claim.workspace_id).await;
                }
                Err(failure.into())
            }
        }
    }

    /// The slot of the claim. A chat that is not free by then is waited for, and costs another one.
    async fn first_slot(&self, claim: &Claim, work: &Work, lease_until: Timestamp) -> Step<Timestamp> {
        match work.free_at {
            Some(at) if at > claim.slot_at => {
                self.wait_for(at, lease_until).await?;
                self.reserve_again(claim).await
            }
            _ => Ok(claim.slot_at),
        }
    }

    /// A slot for one more request to the same chat: first the chat's own, and when that has come the account's, so
    /// that a slow chat does not keep account slots waiting.
    pub(super) async fn reserve(
        &self,
        claim: &Claim,
        work: &Work,
        lease_until: Timestamp,
    ) -> Step<Timestamp> {
        if work.place.interval > Span::ZERO {
            let slot = match claim.destination {
                Destination::Channel(_) => self.ledger.reserve_lane(claim.workspace_id, claim.lane_id).await,
                Destination::Recipient(id) => {
                    let approach = self.ledger.approach(claim.workspace_id, id, work.place.interval).await;
                    approach.map(|approach| approach.slot_at)
                }
            };
            self.wait_for(slot.map_err(unreadable)?, lease_until).await?;
        }
        self.reserve_again(claim).await
    }

    /// Another slot of the account for a request whose chat's own slot has come already.
    pub(super) async fn reserve_again(&self, claim: &Claim) -> Step<Timestamp> {
        let slot = self.slots.reserve(claim.workspace_id, claim.account_id, Some(claim.lane_id)).await;
        slot.map_err(unreadable)
    }

    /// Passes the gate and waits for the slot. The mark is written while the slot is still ahead, so that a slow disk
    /// does not make the request late. A slot that was missed all the same is paid for again: the budget is never
    /// overdrawn.
    async fn admit(
        &self,
        claim: &Claim,
        work: &Work,
        mut slot: Timestamp,
        progress: &mut Progress,
        carries_media: bool,
    ) -> Step<()> {
        let pacing = Pacing {
            account_interval: work.address.interval,
            chat: claim.destination,
            chat_interval: work.place.interval,
        };
        for _ in 0..SLOTS_MISSED_MAX {
            let ticket = self.departures.hold(claim.account_id, slot, claim.delivery_id);
            let ahead = if progress.marked { Span::ZERO } else { self.recorder.mark_takes() };
            self.wait_for(together(slot - ahead), progress.lease_until).await?;
            self.pass_gate(claim, work, progress, carries_media).await?;
            self.wait_for(slot, progress.lease_until).await?;
            if self.departed(ticket, pacing, progress.lease_until).await? {
                // Waiting took a moment: the kill switch may have been thrown, the lease may have run down.
                return match self.is_held() || !self.lease_lasts(work, progress, carries_media) {
                    true => Err(Halt::Release),
                    false => Ok(()),
                };
            }
            self.meters.count("rupor_slots_missed_total", "");
            slot = self.reserve_again(claim).await?;
        }
        // A node this slow had better let somebody else try; nothing has left.
        Err(Halt::Release)
    }

    /// Waits until a request whose slot has come may leave; `false` when the slot was missed.
    pub(super) async fn departed(
        &self,
        mut ticket: Ticket<'_>,
        pacing: Pacing,
        lease_until: Timestamp,
    ) -> Step<bool> {
        if pacing.account_interval == Span::ZERO && pacing.chat_interval == Span::ZERO {
            return Ok(true);
        }
        loop {
            let Departure::At(at) = ticket.depart(pacing, self.time.now()) else {
                return Ok(false);
            };
            self.wait_for(at, lease_until).await?;
            // Who slept through a stall is asked again, and its slot is gone.
            if self.time.now() - at <= LATE_MAX {
                return Ok(true);
            }
        }
    }

    /// Waits, unless the node is being stopped or the lease would be over first (an account that cools down has its
    /// next slot far away): what has not left can be handed back, and a lease that ends would be held against it.
    pub(super) async fn wait_for(&self, at: Timestamp, lease_until: Timestamp) -> Step<()> {
        let margin = Duration::from(self.settings.lease) / 12;
        let wait = self.time.until(at);
        if self.stop.is_asked() || wait + margin > self.time.until(lease_until) {
            return Err(Halt::Release);
        }
        if wait.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.stop.asked() => return Err(Halt::Release),
            () = tokio::time::sleep(wait.min(LOOK_AGAIN)) => {}
        }
        // The ledger's clock may have jumped meanwhile; a wait that was right before it is not right any more.
        match wait > LOOK_AGAIN {
            true => Box::pin(self.wait_for(at, lease_until)).await,
            false => Ok(()),
        }
    }

    /// The last look before a request may leave: the kill switch, the lease, and the mark that makes it known.
    async fn pass_gate(
        &self,
        claim: &Claim,
        work: &Work,
        progress: &mut Progress,
        carries_media: bool,
    ) -> Step<()> {
        if self.is_held() || !self.history_is_known().await {
            return Err(Halt::Release);
        }
        if !self.lease_lasts(work, progress, carries_media) {
            if self.renew(claim).await? {
                progress.lease_until = self.time.now() + self.settings.lease;
            } else {
                return Err(Halt::Lost);
            }
        }
        if progress.marked {
            return Ok(());
        }
        match self.recorder.mark(claim.reference(), PartProgress::Requested).await {
            Ok(true) => {
                progress.marked = true;
                progress.unmarked = None;
            }
            Ok(false) => return Err(Halt::Lost),
            Err(error) => return Err(unreadable(error)),
        }
        Ok(())
    }

    /// Whether a request that leaves now is over before the lease is.
    fn lease_lasts(&self, work: &Work, progress: &Progress, carries_media: bool) -> bool {
        let lease = Duration::from(self.settings.lease);
        let needed = match carries_media {
            // The lease is renewed while media go up.
            true => lease / 2,
            false => self.deadlines(&work.place).request + lease / 12,
        };
        self.time.until(progress.lease_until) >= needed
    }

    async fn renew(&self, claim: &Claim) -> Step<bool> {
        let renewed = self.ledger.renew(vec![claim.reference()], self.settings.lease).await;
        Ok(renewed.map_err(unreadable)?.first().copied().unwrap_or(false))
    }

    async fn send(
        &self,
        claim: &Claim,
        work: &Work,
        index: usize,
        part: &Part,
        progress: &mut Progress,
        media: &AccountMedia<'_>,
    ) -> Step<Report> {
        let key = part_key(claim, index);
        let purse = Purse::opened(self, claim, work);
        let sending = Sending {
            part,
            key: &key,
            earlier: &progress.earlier,
            media,
            budget: &purse,
            deadlines: self.deadlines(&work.place),
        };
        self.meters.count("rupor_requests_total", work.address.platform.name());
        let sent = self.outlet.send(&work.address, claim, sending);
        let report = tokio::select! {
            biased;
            report = sent => report,
            never = self.keep_lease(claim, &mut progress.lease_until) => never,
        };
        let _ = &work.message;
        match purse.halted() {
            Some(halt) => {
                // What went up is worth keeping: the next claim need not do it again.
                self.keep_handles(claim, work, part, &report).await;
                Err(halt)
            }
            None => Ok(report),
        }
    }

    /// Renews the lease at a third, for as long as it is polled.
    async fn keep_lease(&self, claim: &Claim, lease_until: &mut Timestamp) -> Report {
        let third = Duration::from(self.settings.lease) / 3;
        loop {
            tokio::time::sleep(third).await;
            match self.renew(claim).await {
                Ok(true) => *lease_until = self.time.now() + self.settings.lease,
                Ok(false) | Err(_) => {
                    tracing::warn!(delivery = claim.delivery_id.0, "the lease could not be renewed");
                }
            }
        }
    }

    pub(super) async fn part_done(
        &self,
        claim: &Claim,
        index: usize,
        part: &Part,
        ids: &[String],
    ) -> Step<()> {
        let line = published::line(part, ids);
        let done = PartProgress::Done { part: index as u32, provider_message_id: line };
        match self.recorder.mark(claim.reference(), done).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Halt::Lost),
            // It is visible and nobody could write it down: that is what unknown means.
            Err(error) => Err(nobody_knows("ledger", &error.to_string()).into()),
        }
    }

    async fn keep_handles(&self, claim: &Claim, work: &Work, part: &Part, report: &Report) {
        let lasts = work.address.platform.handle_lasts();
        for (index, handle) in &report.handles {
            let blob = items(part).get(*index).and_then(|item| item.media.blob.as_deref());
            if let Some(blob) = blob {
                let expires_at = lasts.map(|lasts| self.time.now() + lasts);
                let handle = MediaHandle { expires_at, ..handle.clone() };
                self.shelf.keep(claim.workspace_id, claim.account_id, blob, handle).await;
            }
        }
    }

    /// Deadlines that fit into the lease.
    pub(super) fn deadlines(&self, place: &Place) -> Deadlines {
        let half = Duration::from(self.settings.lease) / 2;
        Deadlines { request: place.deadlines.request.min(half), upload: place.deadlines.upload }
    }
}

/// The media that a part carries.
fn items(part: &Part) -> &[MediaItem] {
    match part {
        Part::Media(part) => &part.items,
        Part::Edit(part) => &part.media,
        Part::Text(_) | Part::Delete(_) | Part::Pin(_) => &[],
    }
}

/// An upload that was waited for long enough will not be ready any more.
fn never_ready(claim: &Claim, report: &Report) -> bool {
    let not_ready = |failure: &Failure| failure.code == CODE_NOT_READY;
    claim.counters.not_ready_waits + 1 >= NOT_READY_WAITS_MAX
        && matches!(&report.outcome, Outcome::Failed(failure) if not_ready(failure))
}

/// What changes or answers a post waits until that post is out, and has no meaning if it never will be.
fn published_already(target: Delivery) -> Step<Delivery> {
    match target.status {
        Status::Sent => Ok(target),
        status if status.is_terminal() => {
            let why = format!("delivery {} was never published: it is {status}", target.delivery_id);
            Err(delivery_failure("no_target", &why).into())
        }
        _ => {
            let why = format!("delivery {} is not published yet", target.delivery_id);
            Err(Failure::new(Category::Transient, Scope::Delivery, CODE_NOT_READY, why).into())
        }
    }
}

/// A chat that flooded is left alone for longer than a claim may wait: its delivery comes back when it is free.
fn soon_free(wait: Span) -> Step<()> {
    if wait <= CHAT_WAIT_MAX {
        return Ok(());
    }
    let waits = Failure::new(Category::Transient, Scope::Channel, "chat_waits", "the chat asked for a pause");
    Err(waits.retry_after(wait.millis() + 1).into())
}

/// The beginning of the stretch that this instant lies in.
fn together(at: Timestamp) -> Timestamp {
    Timestamp(at.0 - at.0.rem_euclid(MARKED_TOGETHER.0))
}

/// The same for every attempt of a part.
pub(super) fn part_key(claim: &Claim, index: usize) -> String {
    format!("{}.{index}", claim.idempotency_key)
}

/// The ledger could not be asked, and nothing has left. What is not there will not come back: that is an end.
pub(super) fn unreadable(error: StoreError) -> Halt {
    if let StoreError::NotFound { .. } = &error {
        return delivery_failure(
            "not_found",
            &format!("{error}; there is nothing left to do for this delivery"),
        )
        .into();
    }
    tracing::warn!(%error, "the ledger could not be read; the delivery is handed back");
    Halt::Release
}

fn delivery_failure(code: &str, message: &str) -> Failure {
    Failure::new(Category::Permanent, Scope::Delivery, code, message)
}

fn nobody_knows(code: &str, message: &str) -> Failure {
    Failure::new(Category::Transient, Scope::Delivery, code, message).unknown()
}
