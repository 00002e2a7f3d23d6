//! Counters and histograms of this process, for `/metrics`. What the ledger counts itself (queues, lanes) is read there.
//!
//! A label has one meaning everywhere: `platform`, `code` (of a failure), `status` (of a delivery), `door`, `result`.
//! None of them is a person, a post or a number that grows: codes beyond `CODES_MAX` count as `other`.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::delivery::Status;
use domain::ids::{AccountId, CampaignId};
use domain::limits::ATTEMPTS_MAX;
use domain::outcome::{Category, Failure};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use store::{Claim, Finished};

/// Codes of failures that are told apart; platforms have some dozens.
const CODES_MAX: usize = 100;
/// Parts of campaigns that are told apart; the oldest campaigns go first.
const PARTS_MAX: usize = 200;
/// Codes of failures that are told apart in each of them.
const PART_CODES_MAX: usize = 32;
/// Where secrets are asked for.
const DOORS: [&str; 4] = ["/v1", "/v1/ingest", "/hooks", "the board"];
/// What is not told apart any more.
const OTHER: &str = "other";

/// Seconds: calls to a database or a platform.
const CALLS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Seconds: what readers notice.
const WAITS: [f64; 12] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfPlatform {
    pub platform: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCode {
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfDoor {
    pub door: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfStatus {
    pub status: &'static str,
}

type ByPlatform = Family<OfPlatform, Counter>;
type Waits = Family<OfPlatform, Histogram, fn() -> Histogram>;

/// What this process did for a campaign on one account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfPart {
    pub dequeued: u64,
    pub retry_scheduled: u64,
    pub retry_exhausted: u64,
    /// What ended unsent, by code.
    pub failures: BTreeMap<String, u64>,
}

/// Failures by code, with a bound on how many codes there are.
#[derive(Debug, Default)]
pub struct Codes {
    family: Family<OfCode, Counter>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    known: HashSet<String>,
    /// Counted, and nobody has read the nought of this code yet.
    untold: BTreeMap<String, u64>,
}

impl Codes {
    /// A code comes to be with nought, which is read once before it counts: an increase of a series that begins with its
    /// first failure misses that one.
    pub fn count(&self, code: &str) {
        let mut seen = self.seen();
        let is_new = seen.known.len() < CODES_MAX && seen.known.insert(code.to_owned());
        let code = if seen.known.contains(code) { code } else { OTHER };
        let of_code = self.family.get_or_create(&OfCode { code: code.to_owned() });
        match seen.untold.get_mut(code) {
            Some(untold) => *untold += 1,
            None if is_new => drop(seen.untold.insert(code.to_owned(), 1)),
            None => drop(of_code.inc()),
        }
    }

    pub fn get(&self, code: &str) -> u64 {
        let untold = self.seen().untold.get(code).copied().unwrap_or_default();
        self.family.get_or_create(&OfCode { code: code.to_owned() }).get() + untold
    }

    fn untold(&self) -> Vec<String> {
        self.seen().untold.keys().cloned().collect()
    }

    /// The noughts of these codes were read.
    fn told(&self, codes: Vec<String>) {
        let mut seen = self.seen();
        for code in codes {
            let n = seen.untold.remove(&code).unwrap_or_default();
            self.family.get_or_create(&OfCode { code }).inc_by(n);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub struct Meters {
    registry: Registry,
    pub dequeued: Counter,
    pub sent: ByPlatform,
    pub released: Counter,
    pub late_successes: Counter,
    pub retry_scheduled: Codes,
    pub retry_exhausted: Counter,
    pub failed: Codes,
    pub outcomes_refused: Counter,
    pub claims_failed: Counter,
    pub claims_lost: Counter,
    pub leases_recovered: Family<OfStatus, Counter>,
    pub requests: ByPlatform,
    pub upload_calls: ByPlatform,
    pub handles_refused: ByPlatform,
    pub probes: Counter,
    pub reconciled: Counter,
    pub slots_missed: Counter,
    pub secrets_refused: Family<OfDoor, Counter>,
    pub claim_seconds: Histogram,
    pub commit_seconds: Histogram,
    pub request_seconds: Waits,
    pub due_to_sent_seconds: Waits,
    parts: Mutex<BTreeMap<(CampaignId, AccountId), OfPart>>,
}

fn calls() -> Histogram {
    Histogram::new(CALLS)
}

fn waits() -> Histogram {
    Histogram::new(WAITS)
}

impl Default for Meters {
    fn default() -> Meters {
        let meters = Meters {
            registry: Registry::default(),
            dequeued: Counter::default(),
            sent: Family::default(),
            released: Counter::default(),
            late_successes: Counter::default(),
            retry_scheduled: Codes::default(),
            retry_exhausted: Counter::default(),
            failed: Codes::default(),
            outcomes_refused: Counter::default(),
            claims_failed: Counter::default(),
            claims_lost: Counter::default(),
            leases_recovered: Family::default(),
            requests: Family::default(),
            upload_calls: Family::default(),
            handles_refused: Family::default(),
            probes: Counter::default(),
            reconciled: Counter::default(),
            slots_missed: Counter::default(),
            secrets_refused: Family::default(),
            claim_seconds: calls(),
            commit_seconds: calls(),
            request_seconds: Family::new_with_constructor(calls),
            due_to_sent_seconds: Family::new_with_constructor(waits),
            parts: Mutex::default(),
        };
        meters.begin();
        meters.registered()
    }
}

impl Meters {
    /// Whatever can be counted exists from the start: a rate over a counter that comes to be with its first event misses it.
    fn begin(&self) {
        for platform in platforms::registry::all() {
            let of = OfPlatform { platform: platform.name().to_owned() };
            for family in [&self.sent, &self.requests, &self.upload_calls, &self.handles_refused] {
                drop(family.get_or_create(&of));
            }
            for family in [&self.request_seconds, &self.due_to_sent_seconds] {
                drop(family.get_or_create(&of));
            }
        }
        for codes in [&self.retry_scheduled, &self.failed] {
            drop(codes.family.get_or_create(&OfCode { code: OTHER.to_owned() }));
        }
        for door in DOORS {
            drop(self.secrets_refused.get_or_create(&OfDoor { door }));
        }
        for status in [Status::Retry, Status::Dead] {
            drop(self.leases_recovered.get_or_create(&OfStatus { status: status.as_str() }));
        }
    }

    fn registered(mut self) -> Meters {
        let mut registry = Registry::with_prefix("rupor");
        let mut count =
            |name: &str, help: &str, counter: &Counter| registry.register(name, help, counter.clone());
        count("deliveries_dequeued", "Deliveries that were claimed to be sent", &self.dequeued);
        count("deliveries_released", "Claims that were handed back unsent", &self.released);
        count(
            "deliveries_late_success",
            "Successes that came after the lease had ended and were adopted",
            &self.late_successes,
        );
        count(
            "deliveries_retry_exhausted",
            "Deliveries that ended dead because all their attempts failed",
            &self.retry_exhausted,
        );
        count("outcomes_refused", "Outcomes that could not be written down", &self.outcomes_refused);
        count("claims_failed", "Calls for work that the database refused", &self.claims_failed);
        count("claims_lost", "Claims that another node had taken up meanwhile", &self.claims_lost);
        count("probes", "Read-only calls that asked whether a platform is back", &self.probes);
        count("reconciled", "Sends of unknown outcome that were found by looking", &self.reconciled);
        count("slots_missed", "Slots that were reserved again because they had passed", &self.slots_missed);
        let mut by_platform =
            |name: &str, help: &str, family: &ByPlatform| registry.register(name, help, family.clone());
        by_platform("deliveries_sent", "Deliveries that were sent", &self.sent);
        by_platform("requests", "Requests that were to make something visible", &self.requests);
        by_platform(
            "upload_calls",
            "Calls that uploads cost, each with a slot of its own",
            &self.upload_calls,
        );
        by_platform(
            "handles_refused",
            "Kept handles of media that a platform refused",
            &self.handles_refused,
        );
        for (name, help, codes) in [
            (
                "deliveries_retry_scheduled",
                "Attempts that failed and are made again, by code",
                &self.retry_scheduled,
            ),
            (
                "deliveries_failed",
                "Deliveries that ended unsent, by the code of their last failure",
                &self.failed,
            ),
        ] {
            registry.register(name, help, codes.family.clone());
        }
        let help = "Leases that had ended and were taken up, by what became of their deliveries";
        registry.register("leases_recovered", help, self.leases_recovered.clone());
        registry.register("secrets_refused", "Wrong secrets by door", self.secrets_refused.clone());
        for (name, help, histogram) in [
            ("claim_duration", "How long a call for work took", &self.claim_seconds),
            ("commit_duration", "How long it took to write a batch of outcomes down", &self.commit_seconds),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        for (name, help, family) in [
            ("request_duration", "How long a request to a platform took", &self.request_seconds),
            ("due_to_sent", "From when a delivery could have gone to its success", &self.due_to_sent_seconds),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, family.clone());
        }
        self.registry = registry;
        self
    }

    /// Writes all of them down, in the format of OpenMetrics but for its end.
    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        let codes = [&self.retry_scheduled, &self.failed].map(|codes| (codes, codes.untold()));
        text::encode_registry(out, &self.registry)?;
        codes.into_iter().for_each(|(codes, untold)| codes.told(untold));
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn handles_refused_by(&self, platform: &str) -> u64 {
        self.handles_refused.get_or_create(&OfPlatform { platform: platform.to_owned() }).get()
    }

    /// One more of a platform.
    pub(super) fn of(platform: &str, family: &ByPlatform) {
        family.get_or_create(&OfPlatform { platform: platform.to_owned() }).inc();
    }

    pub(super) fn took(platform: &str, family: &Waits, took: Duration) {
        family.get_or_create(&OfPlatform { platform: platform.to_owned() }).observe(took.as_secs_f64());
    }

    pub(super) fn sent(&self, ended: &Ended, finished: Finished) {
        Meters::of(ended.platform, &self.sent);
        Meters::took(ended.platform, &self.due_to_sent_seconds, ended.waited);
        if finished == Finished::Adopted {
            self.late_successes.inc();
        }
    }

    /// An attempt ended in a failure, and the delivery is now in this status.
    pub(super) fn failure(&self, status: Status, failure: &Failure, ended: &Ended) {
        match status {
            Status::Retry => {
                self.retry_scheduled.count(&failure.code);
                self.part(ended.campaign, ended.account, |part| part.retry_scheduled += 1);
            }
            Status::Dead | Status::FailedPermanent => {
                self.failed.count(&failure.code);
                let spent = failure.category == Category::Transient && ended.charged + 1 >= ATTEMPTS_MAX;
                let is_exhausted = status == Status::Dead && spent;
                self.retry_exhausted.inc_by(u64::from(is_exhausted));
                self.part(ended.campaign, ended.account, |part| {
                    part.retry_exhausted += u64::from(is_exhausted);
                    let has_room = part.failures.len() < PART_CODES_MAX;
                    let code = match has_room || part.failures.contains_key(&failure.code) {
                        true => &failure.code,
                        false => OTHER,
                    };
                    *part.failures.entry(code.to_owned()).or_default() += 1;
                });
            }
            _ => {}
        }
    }

    /// These were claimed to be sent.
    pub(super) fn dequeued(&self, claims: &[Claim]) {
        self.dequeued.inc_by(claims.len() as u64);
        for claim in claims {
            self.part(claim.campaign_id, claim.account_id, |part| part.dequeued += 1);
        }
    }

    fn part(&self, campaign: Option<CampaignId>, account: AccountId, change: impl FnOnce(&mut OfPart)) {
        let Some(campaign) = campaign else { return };
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        change(parts.entry((campaign, account)).or_default());
        if parts.len() > PARTS_MAX {
            parts.pop_first();
        }
    }

    /// What was done for a campaign, by account.
    pub fn of_campaign(&self, campaign: CampaignId) -> Vec<(AccountId, OfPart)> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let of = parts.iter().filter(|((id, _), _)| *id == campaign);
        of.map(|((_, account), part)| (*account, part.clone())).collect()
    }
}

/// What is counted of a delivery besides its outcome.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub campaign: Option<CampaignId>,
    pub account: AccountId,
    /// Attempts that counted before this one.
    pub charged: i32,
    /// Where it became visible.
    pub platform: &'static str,
    /// Since it could have gone.
    pub waited: Duration,
}

#[cfg(test)]
mod tests {
    use domain::outcome::Scope;

    use super::*;

    fn failure(code: &str) -> Failure {
        Failure::new(Category::Transient, Scope::Delivery, code, "")
    }

    fn ended() -> Ended {
        Ended { campaign: None, account: AccountId(1), charged: 0, platform: "max", waited: Duration::ZERO }
    }

    #[test]
    fn codes_and_campaigns_are_bounded_and_nothing_is_lost_from_the_sums() {
        let meters = Meters::default();
        for n in 0..5_000_i64 {
            let ended = Ended { campaign: Some(CampaignId(n % 40)), charged: ATTEMPTS_MAX - 1, ..ended() };
            meters.failure(Status::Dead, &failure(&format!("made up {n}")), &ended);
        }
        assert_eq!(meters.failed.get(OTHER), 4_900);
        assert_eq!(meters.retry_exhausted.get(), 5_000);
        let (account, newest) = meters.of_campaign(CampaignId(39)).remove(0);
        assert_eq!((account, newest.retry_exhausted, newest.failures.len()), (AccountId(1), 125, 33));
        assert_eq!(newest.failures.values().sum::<u64>(), 125, "nothing is lost from its sums");
        for n in 0..1_000 {
            meters.failure(
                Status::Retry,
                &failure("timeout"),
                &Ended { campaign: Some(CampaignId(n)), ..ended() },
            );
        }
        let known = (0..1_000).filter(|n| !meters.of_campaign(CampaignId(*n)).is_empty()).count();
        assert_eq!(known, PARTS_MAX, "the newest are kept");
        assert_eq!(meters.of_campaign(CampaignId(999))[0].1.retry_scheduled, 1);
    }

    #[test]
    fn a_code_is_told_with_nought_before_its_first_failure_counts() {
        let meters = Meters::default();
        let told = || {
            let mut out = String::new();
            meters.write(&mut out).unwrap();
            let line = "rupor_deliveries_failed_total{code=\"kicked\"} ";
            out.lines().find_map(|told| told.strip_prefix(line)).map(str::to_owned)
        };
        assert_eq!(told(), None);
        for _ in 0..2 {
            meters.failure(Status::Dead, &failure("kicked"), &ended());
        }
        assert_eq!(meters.failed.get("kicked"), 2);
        assert_eq!((told().as_deref(), told().as_deref()), (Some("0"), Some("2")));
        meters.failure(Status::Dead, &failure("kicked"), &ended());
        assert_eq!(told().as_deref(), Some("3"), "then at once");
    }

    #[test]
    fn a_failure_that_is_tried_again_is_no_end() {
        let meters = Meters::default();
        let ended = ended();
        meters.failure(Status::Retry, &failure("timeout"), &ended);
        assert_eq!((meters.retry_scheduled.get("timeout"), meters.failed.get("timeout")), (1, 0));
        assert_eq!(meters.retry_exhausted.get(), 0);
    }
}
