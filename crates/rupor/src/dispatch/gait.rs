//! Departures: a node that was held up does not make up for it in one go.
//!
//! Slots lie one interval apart, but what counts for a platform is when requests really leave. After a stall many slots
//! are due at once, and sending them together would break the very limit they stand for. So requests leave at the
//! distance of their slots, hardly less: a delay moves everything behind it, and is worked off slowly. That holds across
//! the slots of other nodes too: being late does no harm as long as all are equally late, catching up in one go does.
//! Slots of one account are alike: whoever is ready first uses the earliest, so that nobody waits for a straggler.
//! It knows neither ledger nor platform, and time is an argument.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::ids::{AccountId, DeliveryId, LaneId};
use domain::time::{Span, Timestamp};

/// A slot whose request was not ready by then is reserved again.
pub const SLOT_MISSED: Span = Span::from_millis(50);
/// A request that is ready leaves no later than this after its slot, delays before it included.
const LATE_MAX: Span = Span::from_millis(100);
/// How much closer than their slots two requests may follow each other, in per mille: a delay of 50 ms is worked off
/// in ten seconds. Less than the share of a limit that is left unused, so that arrivals may jitter too.
const CATCH_UP_PER_MILLE: i64 = 5;
/// Limits count what comes within a second; after as much rest an old delay means nothing.
const REST: Span = Span::from_secs(1);
/// A departure further ahead was written by a clock that has gone back since.
const FAR_AHEAD: Span = Span::from_secs(5);
/// Chats that are remembered; beyond it the oldest are forgotten.
const LANES_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub struct Gaits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    accounts: HashMap<AccountId, Gait>,
    /// When something last left for a chat with a pace of its own.
    lanes: HashMap<LaneId, Timestamp>,
}

#[derive(Debug, Default)]
struct Gait {
    /// Slots that are held and not used yet.
    slots: BTreeSet<(Timestamp, DeliveryId)>,
    /// The slot that was used last, and when its request left.
    last: Option<(Timestamp, Timestamp)>,
}

/// One slot that somebody holds; without him it is gone.
#[derive(Debug)]
pub struct Ticket<'a> {
    gaits: &'a Gaits,
    account: AccountId,
    slot: Timestamp,
    delivery: DeliveryId,
    /// A departure that was fixed, and when something left for its chat before.
    fixed: Option<(LaneId, Timestamp, Option<Timestamp>)>,
}

/// When a request leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    At(Timestamp),
    /// Too late: the slot is gone.
    Missed,
}

/// Who is asked, and how fast they may be.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// Between two requests of the account; zero means unlimited.
    pub account_interval: Span,
    pub lane: LaneId,
    /// Between two requests to the chat.
    pub chat_interval: Span,
}

impl Gaits {
    /// Known from here on, so that whoever is ready earlier can use it.
    pub fn hold(&self, account: AccountId, slot: Timestamp, delivery: DeliveryId) -> Ticket<'_> {
        self.state().accounts.entry(account).or_default().slots.insert((slot, delivery));
        Ticket { gaits: self, account, slot, delivery, fixed: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket<'_> {
    /// The slot has come and the request is ready: when it may leave. Asked again, the departure before is void.
    pub fn depart(&mut self, way: Way, now: Timestamp) -> Departure {
        let mut state = self.gaits.state();
        let State { accounts, lanes } = &mut *state;
        let missed_after = if self.fixed.is_some() { LATE_MAX } else { SLOT_MISSED };
        if let Some((lane, at, before)) = self.fixed.take() {
            accounts.entry(self.account).or_default().slots.insert((self.slot, self.delivery));
            if lanes.get(&lane) == Some(&at) {
                match before {
                    Some(before) => lanes.insert(lane, before),
                    None => lanes.remove(&lane),
                };
            }
        }
        if now - self.slot > missed_after {
            return Departure::Missed;
        }
        let chat_free = match lanes.get(&way.lane) {
            Some(&left) if way.chat_interval > Span::ZERO && left - now < FAR_AHEAD => {
                left + nearly(way.chat_interval)
            }
            _ => now,
        };
        let gait = accounts.entry(self.account).or_default();
        let Some((slot, free)) = gait.next(way.account_interval, self.slot, now, missed_after) else {
            return Departure::Missed;
        };
        // A chat that has to wait holds up nobody else.
        let at = free.max(chat_free);
        if at - slot > LATE_MAX {
            return Departure::Missed;
        }
        gait.slots.pop_first();
        gait.last = Some((slot, free));
        let mut before = None;
        if way.chat_interval > Span::ZERO {
            before = lanes.insert(way.lane, at);
            forget_oldest(lanes);
        }
        self.fixed = Some((way.lane, at, before));
        Departure::At(at)
    }
}

impl Gait {
    /// The slot to use, and when the account lets its request go.
    fn next(
        &mut self,
        interval: Span,
        own: Timestamp,
        now: Timestamp,
        missed_after: Span,
    ) -> Option<(Timestamp, Timestamp)> {
        while self.slots.first().is_some_and(|(slot, _)| now - *slot > missed_after) {
            self.slots.pop_first();
        }
        let &(slot, _) = self.slots.first()?;
        let free = match self.last {
            Some((before, left))
                if interval > Span::ZERO && left - now < FAR_AHEAD && slot - before <= REST =>
            {
                left + nearly((slot - before).max(Span::ZERO))
            }
            _ => now,
        };
        Some((slot, free.max(now).max(own).max(slot)))
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.gaits.state();
        if let Some(gait) = state.accounts.get_mut(&self.account) {
            gait.slots.remove(&(self.slot, self.delivery));
        }
    }
}

fn nearly(span: Span) -> Span {
    Span(span.0 - span.0 / 1_000 * CATCH_UP_PER_MILLE)
}

fn forget_oldest(lanes: &mut HashMap<LaneId, Timestamp>) {
    if lanes.len() <= LANES_MAX {
        return;
    }
    let mut times: Vec<Timestamp> = lanes.values().copied().collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    lanes.retain(|_, left| *left > median);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: AccountId = AccountId(1);
    const FREE: Way =
        Way { account_interval: Span::from_millis(10), lane: LaneId(1), chat_interval: Span::ZERO };

    fn ms(at: i64) -> Timestamp {
        Timestamp(at * 1_000)
    }

    /// Takes these slots at these times; when each request left, in microseconds.
    fn departures(gaits: &Gaits, held: &[i64], ready: &[(usize, i64)]) -> Vec<Option<i64>> {
        let mut tickets: Vec<Ticket<'_>> = held
            .iter()
            .enumerate()
            .map(|(n, slot)| gaits.hold(ACCOUNT, ms(*slot), DeliveryId(n as i64)))
            .collect();
        let mut depart = |&(n, at): &(usize, i64)| match tickets[n].depart(FREE, ms(at)) {
            Departure::At(at) => Some(at.0),
            Departure::Missed => None,
        };
        ready.iter().map(&mut depart).collect()
    }

    #[test]
    fn what_is_in_time_leaves_at_its_slot() {
        let left = departures(&Gaits::default(), &[100, 200, 300], &[(0, 100), (1, 200), (2, 300)]);
        assert_eq!(left, [Some(100_000), Some(200_000), Some(300_000)]);
    }

    #[test]
    fn after_a_stall_the_distance_of_the_slots_is_kept() {
        let left =
            departures(&Gaits::default(), &[100, 110, 120, 130], &[(0, 140), (1, 140), (2, 140), (3, 140)]);
        assert_eq!(left, [Some(140_000), Some(149_950), Some(159_900), Some(169_850)]);
    }

    #[test]
    fn a_delay_is_worked_off_slowly() {
        let gaits = Gaits::default();
        let slots: Vec<i64> = (0..2_000).map(|n| 100 + n * 10).collect();
        let ready: Vec<(usize, i64)> = (0..2_000).map(|n| (n, slots[n].max(140))).collect();
        let left = departures(&gaits, &slots, &ready);
        let late = |n: usize| left[n].map(|at| at - slots[n] * 1_000);
        assert_eq!(late(0), Some(40_000));
        assert_eq!((late(400), late(800), late(1_999)), (Some(20_000), Some(0), Some(0)));
    }

    #[test]
    fn in_any_second_no_more_leave_than_the_slots_of_a_second_and_a_little() {
        let gaits = Gaits::default();
        let slots: Vec<i64> = (0..300).map(|n| n * 10).collect();
        // Stalls of up to 45 ms, one after another.
        let ready: Vec<(usize, i64)> = (0..300).map(|n| (n, slots[n] + (n as i64 * 7) % 45)).collect();
        let left: Vec<i64> = departures(&gaits, &slots, &ready).into_iter().flatten().collect();
        assert_eq!(left.len(), 300);
        for from in &left {
            let n = left.iter().filter(|at| (*from..from + 1_000_000).contains(at)).count();
            assert!(n <= 101, "{n} in the second from {from}");
        }
    }

    #[test]
    fn whoever_is_ready_first_uses_the_earliest_slot() {
        let gaits = Gaits::default();
        let left = departures(&gaits, &[100, 110, 120], &[(2, 125), (0, 125), (1, 125)]);
        assert_eq!(left, [Some(125_000), Some(134_950), Some(144_900)]);
    }

    #[test]
    fn nobody_leaves_before_a_slot_of_his_own() {
        let left = departures(&Gaits::default(), &[100, 140], &[(1, 120)]);
        assert_eq!(left, [Some(140_000)]);
    }

    #[test]
    fn a_slot_that_is_long_gone_is_missed_and_holds_up_nobody() {
        let left = departures(&Gaits::default(), &[100, 180], &[(0, 190), (1, 190)]);
        assert_eq!(left, [None, Some(190_000)]);
        let left = departures(&Gaits::default(), &[100, 180], &[(1, 190), (0, 190)]);
        assert_eq!(left, [Some(190_000), None]);
    }

    #[test]
    fn a_slot_nobody_holds_any_more_is_not_waited_for() {
        let gaits = Gaits::default();
        drop(gaits.hold(ACCOUNT, ms(100), DeliveryId(7)));
        assert_eq!(departures(&gaits, &[130], &[(0, 130)]), [Some(130_000)]);
    }

    #[test]
    fn a_chat_keeps_its_own_distance() {
        let gaits = Gaits::default();
        let way = Way { lane: LaneId(5), chat_interval: Span::from_secs(1), ..FREE };
        let leave = |slot, at| gaits.hold(ACCOUNT, ms(slot), DeliveryId(slot)).depart(way, ms(at));
        assert_eq!(leave(100, 140), Departure::At(ms(140)));
        assert_eq!(leave(1_100, 1_100), Departure::At(ms(1_135)));
        assert_eq!(leave(1_900, 1_900), Departure::Missed);
    }

    #[test]
    fn a_chat_that_waits_holds_up_no_other() {
        let gaits = Gaits::default();
        let slow = Way { lane: LaneId(5), chat_interval: Span::from_secs(1), ..FREE };
        let leave = |way, slot, at| gaits.hold(ACCOUNT, ms(slot), DeliveryId(slot)).depart(way, ms(at));
        assert_eq!(leave(slow, 100, 100), Departure::At(ms(100)));
        assert_eq!(leave(FREE, 1_040, 1_040), Departure::At(ms(1_040)));
        assert_eq!(leave(slow, 1_050, 1_050), Departure::At(ms(1_095)));
        assert_eq!(leave(FREE, 1_060, 1_060), Departure::At(ms(1_060)));
    }

    #[test]
    fn a_delay_outlives_the_slots_of_another_node() {
        let left =
            departures(&Gaits::default(), &[100, 110, 300, 310], &[(0, 140), (1, 140), (2, 300), (3, 310)]);
        assert_eq!(left, [Some(140_000), Some(149_950), Some(339_000), Some(348_950)]);
    }

    #[test]
    fn after_a_second_of_rest_a_delay_is_forgotten() {
        let left = departures(&Gaits::default(), &[100, 1_200], &[(0, 140), (1, 1_200)]);
        assert_eq!(left, [Some(140_000), Some(1_200_000)]);
    }

    #[test]
    fn a_departure_that_was_slept_through_is_void() {
        let gaits = Gaits::default();
        let way = Way { lane: LaneId(5), chat_interval: Span::from_secs(1), ..FREE };
        let mut ticket = gaits.hold(ACCOUNT, ms(100), DeliveryId(1));
        assert_eq!(ticket.depart(way, ms(100)), Departure::At(ms(100)));
        assert_eq!(ticket.depart(way, ms(160)), Departure::At(ms(160)));
        assert_eq!(ticket.depart(way, ms(210)), Departure::Missed);
    }

    #[test]
    fn where_nothing_paces_nobody_waits() {
        let gaits = Gaits::default();
        let way = Way { account_interval: Span::ZERO, ..FREE };
        let leave = |slot, at| gaits.hold(ACCOUNT, ms(slot), DeliveryId(slot)).depart(way, ms(at));
        assert_eq!(leave(100, 140), Departure::At(ms(140)));
        assert_eq!(leave(110, 140), Departure::At(ms(140)));
    }

    #[test]
    fn a_clock_that_went_back_holds_up_nobody() {
        let gaits = Gaits::default();
        let way = Way { lane: LaneId(5), chat_interval: Span::from_secs(1), ..FREE };
        let leave = |slot| gaits.hold(ACCOUNT, ms(slot), DeliveryId(slot)).depart(way, ms(slot));
        assert_eq!(leave(100_000), Departure::At(ms(100_000)));
        assert_eq!(leave(1_000), Departure::At(ms(1_000)));
    }
}
