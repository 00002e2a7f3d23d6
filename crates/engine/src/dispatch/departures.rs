//! Departures: a slot is good for its instant and hardly longer.
//!
//! Slots lie one interval apart over all nodes, but what counts for a platform is when requests really leave. Who was
//! held up and leaves late stands among the requests of other nodes, and too many come within one second. So a slot
//! that was missed by more than a little is gone, and another one is reserved: what a stall costs is its own length.
//! Slots of one account are alike: whoever is ready first uses the earliest, so that nobody waits for a straggler.
//! It knows neither ledger nor platform, and time is an argument.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::destination::Destination;
use domain::ids::{AccountId, DeliveryId};
use domain::time::{Span, Timestamp};

/// A request leaves no later than this after its slot. Of a thousand a second so many may then come too late to be told
/// from those of the next second: less than the share of a limit that is left unused, so that arrivals may jitter too.
pub(super) const LATE_MAX: Span = Span::from_millis(15);
/// How much closer than their slots two requests to one chat may follow each other, in per mille.
const CATCH_UP_PER_MILLE: i64 = 5;
/// A departure further ahead was written by a clock that has gone back since.
const FAR_AHEAD: Span = Span::from_secs(5);
/// Chats that are remembered; beyond it the oldest are forgotten.
const CHATS_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Departures(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Slots that are held and not used yet.
    slots: HashMap<AccountId, BTreeSet<(Timestamp, DeliveryId)>>,
    /// When something last left for a chat with a pace of its own.
    chats: HashMap<Destination, Timestamp>,
}

/// One slot that somebody holds; without him it is gone.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    departures: &'a Departures,
    account: AccountId,
    slot: Timestamp,
    delivery: DeliveryId,
    /// A departure that was fixed, and when something left for its chat before.
    fixed: Option<(Destination, Timestamp, Option<Timestamp>)>,
}

/// When a request leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    At(Timestamp),
    /// Too late: the slot is gone.
    Missed,
}

/// Who is asked, and how fast they may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pacing {
    /// Between two requests of the account; zero means unlimited.
    pub account_interval: Span,
    pub chat: Destination,
    /// Between two requests to the chat.
    pub chat_interval: Span,
}

impl Departures {
    /// Known from here on, so that whoever is ready earlier can use it.
    pub(super) fn hold(&self, account: AccountId, slot: Timestamp, delivery: DeliveryId) -> Ticket<'_> {
        self.state().slots.entry(account).or_default().insert((slot, delivery));
        Ticket { departures: self, account, slot, delivery, fixed: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket<'_> {
    /// The slot has come and the request is ready: when it may leave. Asked again, the departure before is void.
    pub(super) fn depart(&mut self, pacing: Pacing, now: Timestamp) -> Departure {
        let mut state = self.departures.state();
        let State { slots, chats } = &mut *state;
        let slots = slots.entry(self.account).or_default();
        if let Some((chat, at, before)) = self.fixed.take() {
            slots.insert((self.slot, self.delivery));
            if chats.get(&chat) == Some(&at) {
                match before {
                    Some(before) => chats.insert(chat, before),
                    None => chats.remove(&chat),
                };
            }
        }
        while slots.first().is_some_and(|(slot, _)| is_gone(*slot, pacing, now)) {
            slots.pop_first();
        }
        let slot = match slots.first() {
            Some(&(slot, _)) if !is_gone(self.slot, pacing, now) => slot,
            _ => return Departure::Missed,
        };
        let chat_free = match chats.get(&pacing.chat) {
            Some(&left) if pacing.chat_interval > Span::ZERO && left - now < FAR_AHEAD => {
                left + nearly(pacing.chat_interval)
            }
            _ => now,
        };
        let at = now.max(self.slot).max(slot).max(chat_free);
        let in_time = if pacing.account_interval > Span::ZERO { slot } else { now.max(slot) };
        if at - in_time > LATE_MAX {
            return Departure::Missed;
        }
        slots.pop_first();
        let mut before = None;
        if pacing.chat_interval > Span::ZERO {
            before = chats.insert(pacing.chat, at);
            forget_oldest(chats);
        }
        self.fixed = Some((pacing.chat, at, before));
        Departure::At(at)
    }
}

/// Where the account has no pace its slots are never too late.
fn is_gone(slot: Timestamp, pacing: Pacing, now: Timestamp) -> bool {
    pacing.account_interval > Span::ZERO && now - slot > LATE_MAX
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Some(slots) = self.departures.state().slots.get_mut(&self.account) {
            slots.remove(&(self.slot, self.delivery));
        }
    }
}

fn nearly(span: Span) -> Span {
    Span(span.0 - span.0 / 1_000 * CATCH_UP_PER_MILLE)
}

fn forget_oldest(chats: &mut HashMap<Destination, Timestamp>) {
    if chats.len() <= CHATS_MAX {
        return;
    }
    let mut times: Vec<Timestamp> = chats.values().copied().collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    chats.retain(|_, left| *left > median);
}

#[cfg(test)]
mod tests {
    use domain::ids::{ChannelId, RecipientId};

    use super::*;

    const ACCOUNT: AccountId = AccountId(1);
    const CHAT: Destination = Destination::Channel(ChannelId(1));
    const OTHER_CHAT: Destination = Destination::Recipient(RecipientId(5));
    const FREE: Pacing =
        Pacing { account_interval: Span::from_millis(10), chat: CHAT, chat_interval: Span::ZERO };

    fn ms(at: i64) -> Timestamp {
        Timestamp(at * 1_000)
    }

    /// Takes these slots at these times; when each request left, in milliseconds.
    fn leave_in_turn(departures: &Departures, held: &[i64], ready: &[(usize, i64)]) -> Vec<Option<i64>> {
        let mut tickets: Vec<Ticket<'_>> = held
            .iter()
            .enumerate()
            .map(|(n, slot)| departures.hold(ACCOUNT, ms(*slot), DeliveryId(n as i64)))
            .collect();
        let mut depart = |&(n, at): &(usize, i64)| match tickets[n].depart(FREE, ms(at)) {
            Departure::At(at) => Some(at.0 / 1_000),
            Departure::Missed => None,
        };
        ready.iter().map(&mut depart).collect()
    }

    #[test]
    fn what_is_in_time_leaves_at_its_slot() {
        let left = leave_in_turn(&Departures::default(), &[100, 200, 300], &[(0, 100), (1, 200), (2, 300)]);
        assert_eq!(left, [Some(100), Some(200), Some(300)]);
    }

    #[test]
    fn a_stall_costs_the_slots_it_lasted_and_no_other() {
        let slots = [100, 110, 120, 130, 140, 150, 160];
        let ready: Vec<(usize, i64)> = (0..7).map(|n| (n, slots[n].max(140))).collect();
        let left = leave_in_turn(&Departures::default(), &slots, &ready);
        assert_eq!(left, [None, None, None, Some(140), Some(140), Some(150), Some(160)]);
    }

    #[test]
    fn in_any_second_hardly_more_leave_than_the_slots_of_a_second() {
        let departures = Departures::default();
        let slots: Vec<i64> = (0..3_000).collect();
        // Two nodes that are held up, each in its own rhythm: the one by up to 40 ms, the other by up to 25.
        let late = |n: i64| if n / 60 % 2 == 0 { n % 40 } else { n % 25 };
        let ready: Vec<(usize, i64)> = (0..3_000).map(|n| (n as usize, n + late(n))).collect();
        let left: Vec<i64> = leave_in_turn(&departures, &slots, &ready).into_iter().flatten().collect();
        for from in &left {
            let n = left.iter().filter(|at| (*from..from + 1_000).contains(at)).count();
            assert!(n <= 1_015, "{n} in the second from {from}");
        }
    }

    #[test]
    fn whoever_is_ready_first_uses_the_earliest_slot() {
        let departures = Departures::default();
        let left = leave_in_turn(&departures, &[100, 105, 110], &[(2, 112), (1, 113), (0, 114)]);
        assert_eq!(left, [Some(112), Some(113), Some(114)]);
    }

    #[test]
    fn nobody_leaves_before_a_slot_of_his_own() {
        let left = leave_in_turn(&Departures::default(), &[100, 112], &[(1, 105)]);
        assert_eq!(left, [Some(112)]);
    }

    #[test]
    fn a_slot_that_is_long_gone_is_missed_and_holds_up_nobody() {
        let left = leave_in_turn(&Departures::default(), &[100, 180], &[(0, 190), (1, 190)]);
        assert_eq!(left, [None, Some(190)]);
        let left = leave_in_turn(&Departures::default(), &[100, 180], &[(1, 190), (0, 190)]);
        assert_eq!(left, [Some(190), None]);
    }

    #[test]
    fn a_slot_nobody_holds_any_more_is_not_waited_for() {
        let departures = Departures::default();
        drop(departures.hold(ACCOUNT, ms(100), DeliveryId(7)));
        assert_eq!(leave_in_turn(&departures, &[130], &[(0, 130)]), [Some(130)]);
    }

    #[test]
    fn a_chat_keeps_its_own_distance() {
        let departures = Departures::default();
        let pacing = Pacing { chat: OTHER_CHAT, chat_interval: Span::from_secs(1), ..FREE };
        let leave = |slot, at| departures.hold(ACCOUNT, ms(slot), DeliveryId(slot)).depart(pacing, ms(at));
        assert_eq!(leave(100, 114), Departure::At(ms(114)));
        assert_eq!(leave(1_100, 1_100), Departure::At(ms(1_109)));
        assert_eq!(leave(1_900, 1_900), Departure::Missed);
    }

    #[test]
    fn a_chat_that_waits_holds_up_no_other() {
        let departures = Departures::default();
        let slow = Pacing { chat: OTHER_CHAT, chat_interval: Span::from_secs(1), ..FREE };
        let leave =
            |pacing, slot, at| departures.hold(ACCOUNT, ms(slot), DeliveryId(slot)).depart(pacing, ms(at));
        assert_eq!(leave(slow, 100, 100), Departure::At(ms(100)));
        assert_eq!(leave(FREE, 1_080, 1_080), Departure::At(ms(1_080)));
        assert_eq!(leave(slow, 1_085, 1_085), Departure::At(ms(1_095)));
        assert_eq!(leave(FREE, 1_090, 1_090), Departure::At(ms(1_090)));
    }

    #[test]
    fn a_departure_that_was_slept_through_is_void() {
        let departures = Departures::default();
        let pacing = Pacing { chat: OTHER_CHAT, chat_interval: Span::from_secs(1), ..FREE };
        let mut ticket = departures.hold(ACCOUNT, ms(100), DeliveryId(1));
        assert_eq!(ticket.depart(pacing, ms(100)), Departure::At(ms(100)));
        assert_eq!(ticket.depart(pacing, ms(112)), Departure::At(ms(112)));
        assert_eq!(ticket.depart(pacing, ms(160)), Departure::Missed);
    }

    #[test]
    fn where_the_account_has_no_pace_nobody_is_late() {
        let departures = Departures::default();
        let pacing =
            Pacing { account_interval: Span::ZERO, chat: OTHER_CHAT, chat_interval: Span::from_secs(1) };
        let leave = |slot, at| departures.hold(ACCOUNT, ms(slot), DeliveryId(slot)).depart(pacing, ms(at));
        assert_eq!(leave(100, 140), Departure::At(ms(140)));
        assert_eq!(leave(110, 160), Departure::Missed, "the chat has its own distance all the same");
        assert_eq!(leave(1_100, 1_140), Departure::At(ms(1_140)));
    }

    #[test]
    fn a_clock_that_went_back_holds_up_nobody() {
        let departures = Departures::default();
        let pacing = Pacing { chat: OTHER_CHAT, chat_interval: Span::from_secs(1), ..FREE };
        let leave = |slot| departures.hold(ACCOUNT, ms(slot), DeliveryId(slot)).depart(pacing, ms(slot));
        assert_eq!(leave(100_000), Departure::At(ms(100_000)));
        assert_eq!(leave(1_000), Departure::At(ms(1_000)));
    }
}
