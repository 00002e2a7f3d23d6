//! The Bots Long Poll: a queue per community, read by number.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::core::SharedCore;
use crate::reply::{Reply, Response};
use crate::updates::UpdateQueue;

use super::args::{Args, number};
use super::locked;
use super::state::State;

/// The events of one community.
#[derive(Debug)]
pub struct LongPoll {
    pub queue: UpdateQueue,
    epoch: u64,
    /// Somebody has asked for the address; before that nobody can want the events.
    open: AtomicBool,
}

impl Default for LongPoll {
    fn default() -> LongPoll {
        LongPoll::new(0)
    }
}

/// Waits beyond this are shortened.
const WAIT_S_MAX: u64 = 90;
/// Events of one answer.
const EVENTS_MAX: usize = 1000;

impl LongPoll {
    pub fn new(epoch: u64) -> LongPoll {
        LongPoll { queue: UpdateQueue::new(1), epoch, open: AtomicBool::new(false) }
    }

    pub fn open(&self) {
        self.open.store(true, Ordering::Relaxed);
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Good until the next reset.
    pub fn key(&self, core: &SharedCore, group: i64) -> String {
        let secret = crate::media::sha256_hex(format!("lp {} {group} {}", core.seed, self.epoch).as_bytes());
        format!("{:08x}{}", self.epoch, &secret[..32])
    }

    /// The number of the last event.
    pub fn ts(&self) -> i64 {
        self.queue.next_number() - 1
    }

    /// Why a poll with this key is refused: 2 asks for a new key, 3 for a new beginning.
    fn refusal(&self, core: &SharedCore, group: i64, key: &str) -> Option<i64> {
        if key == self.key(core, group) {
            return None;
        }
        let epoch = key.get(..8).and_then(|epoch| u64::from_str_radix(epoch, 16).ok());
        let lost = key.len() == 40 && epoch.is_some_and(|epoch| epoch < self.epoch);
        Some(if lost { 3 } else { 2 })
    }
}

/// The address that `groups.getLongPollServer` gives out.
pub(super) fn server(core: &SharedCore, group: i64) -> String {
    format!("{}/vk/lp/wh{group}", core.origin)
}

/// The community of such an address.
pub(super) fn group_of(segment: &str) -> Option<i64> {
    segment.strip_prefix("wh").and_then(number).filter(|group| *group > 0)
}

/// `?act=a_check&key=…&ts=…&wait=…`
#[derive(Debug)]
pub struct Poll {
    group: Option<i64>,
    act: String,
    key: String,
    ts: Option<i64>,
    wait_s: u64,
}

impl Poll {
    pub fn new(segment: &str, args: &Args) -> Poll {
        let wait = args.text("wait").and_then(|text| text.parse().ok()).unwrap_or(25u64);
        Poll {
            group: group_of(segment),
            act: args.text("act").unwrap_or_default().to_owned(),
            key: args.text("key").unwrap_or_default().to_owned(),
            ts: args.text("ts").and_then(number),
            wait_s: wait.min(WAIT_S_MAX),
        }
    }
}

/// Answers with what is new, or waits for it.
pub(super) async fn check(core: &SharedCore, state: &Mutex<State>, poll: &Poll) -> Reply {
    if poll.act != "a_check" {
        return failed(&json!({ "failed": 2 }));
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(poll.wait_s);
    loop {
        // Looked up anew every time: a reset begins a new queue.
        let group = poll.group.unwrap_or_default();
        let Some(longpoll) = current(state, group) else { return failed(&json!({ "failed": 2 })) };
        let changed = longpoll.queue.changed();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if let Some(number) = longpoll.refusal(core, group, &poll.key) {
            return failed(&json!({ "failed": number }));
        }
        match read(&longpoll, poll.ts) {
            Read::Outdated(ts) => return failed(&json!({ "failed": 1, "ts": ts })),
            Read::News(ts, updates) => return news(ts, &updates),
            Read::Nothing => {}
        }
        tokio::select! {
            () = &mut changed => {}
            () = tokio::time::sleep_until(deadline) => return news(longpoll.ts(), &[]),
            () = core.tasks.stopped() => return news(longpoll.ts(), &[]),
        }
    }
}

fn current(state: &Mutex<State>, group: i64) -> Option<Arc<LongPoll>> {
    locked(state).groups.get(&group).map(|group| Arc::clone(&group.longpoll))
}

enum Read {
    /// That number is not, or no longer, in the queue; go on from this one.
    Outdated(i64),
    News(i64, Vec<Value>),
    Nothing,
}

fn read(longpoll: &LongPoll, ts: Option<i64>) -> Read {
    let newest = longpoll.ts();
    let oldest = longpoll.queue.read(0, 1, |_| true).first().map_or(newest + 1, |(number, _)| *number);
    let Some(ts) = ts.filter(|ts| *ts <= newest && *ts >= oldest - 1) else { return Read::Outdated(newest) };
    let found = longpoll.queue.read(ts + 1, EVENTS_MAX, |_| true);
    match found.last() {
        Some((last, _)) => Read::News(*last, found.into_iter().map(|(_, update)| update).collect()),
        None => Read::Nothing,
    }
}

/// `ts` is a text here and a number in `failed`: so it is.
fn news(ts: i64, updates: &[Value]) -> Reply {
    Reply::done(Response::json(200, &json!({ "ts": ts.to_string(), "updates": updates })))
}

fn failed(answer: &Value) -> Reply {
    Reply::refused(Response::json(200, answer))
}
