//! One part: its media, its slot, the request, and what is written down of the answer.

use std::time::Duration;

use domain::limits::NOT_READY_WAITS_MAX;
use domain::outcome::{CODE_NOT_READY, Category, Failure, Outcome, Scope};
use domain::time::Timestamp;
use platforms::media::MediaHandle;
use platforms::part::{MediaItem, Part};
use platforms::platform::{Deadlines, Report, Sending};
use store::{Claim, PartProgress};

use tokio::time::Instant;

use super::book::Place;
use super::deliver::{Halt, Progress, Step, nobody_knows};
use super::media::AccountMedia;
use super::meters::Meters;
use super::prepare::Work;
use super::purse::Purse;
use super::{Dispatcher, published};

impl Dispatcher {
    pub(super) async fn one_part(
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
            Meters::of(work.address.platform.name(), &self.meters.handles_refused);
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
                // Edits and deletions find by its line whatever is more than one plain message.
                if !last || index > 0 || carries_media || report.ids.len() > 1 {
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

    pub(super) async fn send(
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
        let platform = work.address.platform.name();
        Meters::of(platform, &self.meters.requests);
        let asked = Instant::now();
        let sent = self.outlet.send(&work.address, claim, sending);
        let report = tokio::select! {
            biased;
            report = sent => report,
            never = self.keep_lease(claim, &mut progress.lease_until) => never,
        };
        Meters::took(platform, &self.meters.request_seconds, asked.elapsed());
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
    pub(super) async fn keep_lease(&self, claim: &Claim, lease_until: &mut Timestamp) -> Report {
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

    pub(super) async fn keep_handles(&self, claim: &Claim, work: &Work, part: &Part, report: &Report) {
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

/// The same for every attempt of a part.
pub(super) fn part_key(claim: &Claim, index: usize) -> String {
    format!("{}.{index}", claim.idempotency_key)
}
