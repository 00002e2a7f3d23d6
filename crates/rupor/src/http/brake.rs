//! The brake on guessing: who gave wrong secrets waits for a turn before the next one is even looked at.
//!
//! Waiting comes before looking, for right and wrong secrets alike, so that hanging up early buys no second guess and
//! the time of an answer tells nothing. A few mistakes are free. Households that do not guess are never slowed down
//! by one that does; only when very many guess at once do newcomers stand in one line.
//! What was refused is told once in a while, not once per guess: the log of an attack must not be an attack.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use store::Store;

use super::door::Client;

/// Mistakes that cost nothing, per household and door; half of what is counted is forgotten each minute.
const FREE: f64 = 10.0;
const HALF_LIFE_S: f64 = 60.0;
/// One look per household and door in this time after that.
const STEP: Duration = Duration::from_millis(500);
/// A line longer than this is not joined.
const LINE_MAX: Duration = Duration::from_secs(5);
/// Mistakes of all households at one door; above that newcomers share a line.
const FREE_ALL: f64 = 200.0;
const STEP_ALL: Duration = Duration::from_millis(10);
/// Households remembered at the same time.
const HOUSEHOLDS_MAX: usize = 10_000;
/// Mistakes counted at one door that are worth an alert, and how long that alert stands.
const ALERT_AT: f64 = 100.0;
const ALERT_EVERY: Duration = Duration::from_secs(3_600);
/// Households named in an event.
const NAMED_MAX: usize = 5;
/// How often refusals are written down.
const TELL_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Brake {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    trails: HashMap<(IpAddr, &'static str), Trail>,
    /// The same over all households, per door.
    doors: HashMap<&'static str, Trail>,
    /// Not told yet: mistakes per door and household.
    untold: BTreeMap<&'static str, BTreeMap<IpAddr, u64>>,
    alerted: HashMap<&'static str, Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Trail {
    wrong: f64,
    counted_at: Instant,
    /// When the next one may be looked at.
    turn: Instant,
    /// Whether somebody there knew a secret since.
    known: bool,
}

impl Trail {
    fn new(now: Instant) -> Trail {
        Trail { wrong: 0.0, counted_at: now, turn: now, known: false }
    }

    fn wrong(&self, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.counted_at).as_secs_f64();
        self.wrong * 0.5_f64.powf(seconds / HALF_LIFE_S)
    }

    fn count(&mut self, now: Instant) {
        (self.wrong, self.counted_at) = (self.wrong(now) + 1.0, now);
    }

    fn take_turn(&mut self, step: Duration, now: Instant) -> Duration {
        let turn = self.turn.max(now);
        self.turn = turn + step;
        turn - now
    }
}

/// What is to be told of one door.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusals {
    pub detail: Value,
    pub alert: Option<String>,
}

impl Brake {
    /// Waits for the turn of this visitor; otherwise how long to stay away.
    pub(crate) async fn turn(&self, client: Client, door: &'static str) -> Result<(), Duration> {
        let wait = self.wait(client, door, Instant::now())?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    fn wait(&self, client: Client, door: &'static str, now: Instant) -> Result<Duration, Duration> {
        let book = &mut *self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wait = Duration::ZERO;
        let own = book.trails.get_mut(&(client.household(), door));
        let known = own.as_ref().is_some_and(|trail| trail.known);
        if let Some(trail) = own.filter(|trail| trail.wrong(now) > FREE) {
            let line = trail.turn.saturating_duration_since(now);
            if line > LINE_MAX {
                return Err(line);
            }
            wait = trail.take_turn(STEP, now);
        }
        if let Some(all) = book.doors.get_mut(door).filter(|all| !known && all.wrong(now) > FREE_ALL) {
            let line = all.turn.saturating_duration_since(now);
            if line > LINE_MAX {
                return Err(line);
            }
            wait = wait.max(all.take_turn(STEP_ALL, now));
        }
        Ok(wait)
    }

    pub(crate) fn wrong(&self, client: Client, door: &'static str) {
        self.wrong_at(client, door, Instant::now());
    }

    fn wrong_at(&self, client: Client, door: &'static str, now: Instant) {
        let book = &mut *self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let household = client.household();
        if book.trails.len() >= HOUSEHOLDS_MAX && !book.trails.contains_key(&(household, door)) {
            make_room(&mut book.trails, now);
        }
        book.trails.entry((household, door)).or_insert_with(|| Trail::new(now)).count(now);
        book.doors.entry(door).or_insert_with(|| Trail::new(now)).count(now);
        let untold = book.untold.entry(door).or_default();
        if untold.len() < HOUSEHOLDS_MAX {
            *untold.entry(household).or_default() += 1;
        }
    }

    /// Somebody there knows a secret; that does not forgive the mistakes, or one key would pay for many guesses.
    pub(crate) fn right(&self, client: Client, door: &'static str) {
        let now = Instant::now();
        let book = &mut *self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.trails.len() < HOUSEHOLDS_MAX {
            book.trails.entry((client.household(), door)).or_insert_with(|| Trail::new(now)).known = true;
        }
    }

    /// What happened since it was last asked.
    pub(crate) fn untold(&self, now: Instant) -> Vec<Refusals> {
        let book = &mut *self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let untold = std::mem::take(&mut book.untold);
        let mut told = Vec::new();
        for (door, households) in untold {
            let times: u64 = households.values().sum();
            let mut most: Vec<(&IpAddr, &u64)> = households.iter().collect();
            most.sort_by_key(|(address, n)| (std::cmp::Reverse(**n), **address));
            let from: Vec<String> =
                most.iter().take(NAMED_MAX).map(|(ip, n)| format!("{ip} ({n})")).collect();
            let lately = book.doors.get(door).map_or(0.0, |trail| trail.wrong(now));
            let due =
                book.alerted.get(door).is_none_or(|at| now.saturating_duration_since(*at) >= ALERT_EVERY);
            let alert = (lately >= ALERT_AT && due).then(|| {
                book.alerted.insert(door, now);
                format!(
                    "somebody guesses secrets at {door}: {lately:.0} wrong ones lately, most from {}; \
                     they are slowed down, shut them out at the firewall",
                    from.join(", ")
                )
            });
            let detail = json!({
                "why": "wrong secret", "door": door, "times": times, "from": from, "households": households.len(),
            });
            told.push(Refusals { detail, alert });
        }
        told
    }
}

/// Forgets who has stopped guessing; if nobody has, the half that guessed least.
fn make_room(trails: &mut HashMap<(IpAddr, &'static str), Trail>, now: Instant) {
    trails.retain(|_, trail| trail.wrong(now) >= 1.0);
    if trails.len() >= HOUSEHOLDS_MAX {
        let mut counts: Vec<f64> = trails.values().map(|trail| trail.wrong(now)).collect();
        counts.sort_by(f64::total_cmp);
        let middle = counts[counts.len() / 2];
        trails.retain(|_, trail| trail.wrong(now) > middle);
    }
}

/// Writes refusals down until it is dropped.
pub(super) async fn tell(brake: &Brake, store: &Store) {
    loop {
        tokio::time::sleep(TELL_EVERY).await;
        tell_once(brake, store, Instant::now()).await;
    }
}

/// A wrong secret belongs to no workspace, so all of them hear of it.
pub(super) async fn tell_once(brake: &Brake, store: &Store, now: Instant) {
    for refusals in brake.untold(now) {
        if let Some(alert) = &refusals.alert {
            tracing::error!(alert, "somebody guesses secrets");
        }
        let written = async {
            for workspace in store.workspaces().await? {
                let (detail, alert) = (refusals.detail.clone(), refusals.alert.as_deref());
                store.turn_away(workspace.workspace_id, detail, alert).await?;
            }
            store::Result::Ok(())
        };
        if let Err(error) = written.await {
            tracing::warn!(%error, "refused visitors could not be written down");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Client {
        Client { address: text.parse().unwrap(), far: true }
    }

    #[test]
    fn a_guesser_gets_two_looks_a_second_and_nobody_else_waits() {
        let (brake, start) = (Brake::default(), Instant::now());
        let (guesser, other) = (client("203.0.113.1"), client("203.0.113.2"));
        let mut looked = 0;
        // A thousand tries a second for ten seconds, each on its own connection.
        for n in 0..10_000_u64 {
            let now = start + Duration::from_millis(n);
            if brake.wait(guesser, "door", now).is_ok() {
                looked += 1;
                brake.wrong_at(guesser, "door", now);
            }
            assert_eq!(brake.wait(other, "door", now), Ok(Duration::ZERO));
            assert_eq!(brake.wait(guesser, "another door", now), Ok(Duration::ZERO));
        }
        assert!((30..=45).contains(&looked), "{looked} of 10000");
        let later = start + Duration::from_secs(600);
        assert_eq!(brake.wait(guesser, "door", later), Ok(Duration::ZERO), "it is forgotten");
    }

    #[test]
    fn many_guessers_share_one_line_and_who_knows_a_secret_does_not_stand_in_it() {
        let (brake, now) = (Brake::default(), Instant::now());
        let known = client("198.51.100.7");
        brake.right(known, "door");
        let far = |n: u32| Client { address: IpAddr::V4((0x0b00_0000 + n).into()), far: true };
        let looked: u32 = (0..20_000)
            .map(|n| match brake.wait(far(n), "door", now) {
                Ok(_) => {
                    brake.wrong_at(far(n), "door", now);
                    1
                }
                Err(_) => 0,
            })
            .sum();
        assert!((600..=800).contains(&looked), "{looked}: the free ones, and five seconds of the line");
        assert_eq!(brake.wait(known, "door", now), Ok(Duration::ZERO));
        assert!(brake.book.lock().unwrap().trails.len() <= HOUSEHOLDS_MAX);
    }

    #[test]
    fn what_is_remembered_of_guessers_is_bounded() {
        let (brake, now) = (Brake::default(), Instant::now());
        for n in 0..50_000_u32 {
            brake.wrong_at(Client { address: IpAddr::V4(n.into()), far: true }, "door", now);
        }
        let book = brake.book.lock().unwrap();
        assert!(book.trails.len() <= HOUSEHOLDS_MAX && book.untold["door"].len() <= HOUSEHOLDS_MAX);
    }

    #[test]
    fn guessing_at_volume_is_told_once_and_alerted_once() {
        let (brake, now) = (Brake::default(), Instant::now());
        for _ in 0..150 {
            brake.wrong_at(client("203.0.113.1"), "/v1/ingest", now);
        }
        let told = brake.untold(now);
        assert_eq!(told.len(), 1);
        assert_eq!(
            (&told[0].detail["times"], &told[0].detail["from"]),
            (&json!(150), &json!(["203.0.113.1 (150)"]))
        );
        assert!(told[0].alert.as_ref().unwrap().contains("guesses secrets at /v1/ingest"));
        assert_eq!(brake.untold(now), []);
        brake.wrong_at(client("203.0.113.1"), "/v1/ingest", now);
        assert_eq!(brake.untold(now)[0].alert, None, "the alert stands already");
    }
}
