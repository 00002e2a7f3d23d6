//! What a seed expands to: how large the world is, and which troubles it has.
//!
//! Each kind of trouble is on with even odds, so that rare mixes get air, and its strength is drawn as well.
//! The options are printed with every violation; nothing else is drawn before the run begins.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::saboteur::Saboteur;

/// Odds in parts of a million: whole numbers, so that two machines draw the same.
pub(super) type Ppm = u32;

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub seed: u64,
    pub nodes: usize,
    pub workspaces: usize,
    pub accounts: usize,
    pub messages: usize,
    /// People on each account, and what is written to them.
    pub people: usize,
    pub mailings: usize,
    /// Broadcasts with a life of their own, and at most how many of their readers an account has.
    pub campaigns: usize,
    pub subscribers: usize,
    /// Length of the first phase.
    pub chaos: Duration,
    pub lease: Duration,
    pub in_flight_max: usize,
    pub ledger: LedgerTrouble,
    pub node: NodeTrouble,
    pub platform: PlatformTrouble,
    pub client: ClientTrouble,
    /// A message that kills whoever reads it. Then nothing else kills or stops nodes, so that no innocent row may
    /// end as poison.
    pub poison: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct LedgerTrouble {
    pub busy: Ppm,
    pub commit_unknown: Ppm,
    pub slow: Ppm,
    /// The longest a slow call takes.
    pub slow_max: Duration,
    /// Times at which the database cannot be reached at all, and for how long.
    pub outages: Vec<(Duration, Duration)>,
    /// Times at which its clock jumps, in microseconds.
    pub jumps: Vec<(Duration, i64)>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NodeTrouble {
    /// Death at a call of the ledger, before or after it.
    pub crash_at_ledger: Ppm,
    /// Death before, during or after a request.
    pub crash_at_request: Ppm,
    /// A pause longer than the lease, at either.
    pub pause: Ppm,
    /// An orderly stop about this often.
    pub stop_every: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct PlatformTrouble {
    pub latency_max: Duration,
    /// Accepted, and the answer is lost.
    pub lost_answer: Ppm,
    /// Neither accepted nor answered.
    pub lost_request: Ppm,
    pub server_error: Ppm,
    pub refused_connection: Ppm,
    pub hang: Ppm,
    pub flood: Ppm,
    pub flood_max: Duration,
    pub permanent_delivery: Ppm,
    pub permanent_channel: Ppm,
    pub permanent_account: Ppm,
    pub not_ready: Ppm,
    /// A person blocks us, and stays away until they come back.
    pub blocked: Ppm,
    /// Stretches of time in which one account gets nothing through: its index, from, length.
    pub outages: Vec<(usize, Duration, Duration)>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ClientTrouble {
    pub commit_unknown: Ppm,
    pub busy: Ppm,
    /// A call that the store must refuse.
    pub wrong: Ppm,
    /// Repeats of what was said before.
    pub repeat: Ppm,
    /// Posts that live on at their source: changed, vanished, or their story ends.
    pub from_walls: Ppm,
    /// How often an operator does something.
    pub operator_every: Option<Duration>,
    /// The kill switch: when, and for how long.
    pub hold: Option<(Duration, Duration)>,
}

impl Options {
    pub(crate) fn of(seed: u64, saboteur: Option<Saboteur>) -> Options {
        let mut draw = Draw(StdRng::seed_from_u64(seed ^ 0x5EED_0F0F_0A11_50DA));
        let poison = draw.one_in(8);
        let chaos = Duration::from_secs(draw.between(30, 150));
        let lease = Duration::from_secs(draw.between(12, 40));
        let mut options = Options {
            seed,
            nodes: draw.between(1, 5) as usize,
            workspaces: draw.between(1, 3) as usize,
            accounts: draw.between(1, 5) as usize,
            messages: draw.between(5, 30) as usize,
            people: draw.between(0, 4) as usize,
            mailings: draw.between(1, 12) as usize,
            chaos,
            lease,
            in_flight_max: if draw.one_in(3) { draw.between(2, 6) as usize } else { 64 },
            ledger: draw.ledger(chaos),
            node: if poison { NodeTrouble::default() } else { draw.node() },
            platform: draw.platform(chaos),
            client: draw.client(chaos),
            poison,
            campaigns: 0,
            subscribers: 0,
        };
        if draw.one_in(2) {
            options.campaigns = draw.between(1, 2) as usize;
            options.subscribers = draw.between(2, 10) as usize;
        }
        if poison {
            // A lost claim must have one cause only.
            options.ledger = LedgerTrouble { busy: options.ledger.busy, ..LedgerTrouble::default() };
        }
        if let Some(saboteur) = saboteur {
            saboteur.prepare(&mut options);
        }
        options
    }

    /// The longest an ordinary request may take; media get twice that.
    pub(crate) fn request_deadline(&self) -> Duration {
        self.lease / 4
    }

    pub(crate) fn upload_deadline(&self) -> Duration {
        self.lease / 2
    }

    pub(crate) fn drain(&self) -> Duration {
        self.lease
    }
}

struct Draw(StdRng);

impl Draw {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.random_range(least..=most)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.between(1, n) == 1
    }

    /// Off with even odds, else up to `most`.
    fn ppm(&mut self, most: Ppm) -> Ppm {
        if self.one_in(2) { 0 } else { self.0.random_range(most / 10..=most) }
    }

    fn instant(&mut self, within: Duration) -> Duration {
        Duration::from_millis(self.between(0, within.as_millis() as u64))
    }

    fn ledger(&mut self, chaos: Duration) -> LedgerTrouble {
        let mut trouble = LedgerTrouble {
            busy: self.ppm(100_000),
            commit_unknown: self.ppm(30_000),
            slow: self.ppm(50_000),
            slow_max: Duration::from_millis(self.between(100, 6_000)),
            ..LedgerTrouble::default()
        };
        if self.one_in(4) {
            let length = Duration::from_secs(self.between(1, 50));
            trouble.outages.push((self.instant(chaos), length));
        }
        if self.one_in(4) {
            let jump = match self.between(0, 3) {
                0 => -(self.between(10_000, 4_000_000) as i64),
                1 => 50 * 60_000_000,
                _ => self.between(1_000_000, 120_000_000) as i64,
            };
            trouble.jumps.push((self.instant(chaos), jump));
        }
        trouble
    }

    fn node(&mut self) -> NodeTrouble {
        NodeTrouble {
            crash_at_ledger: self.ppm(4_000),
            crash_at_request: self.ppm(50_000),
            pause: self.ppm(8_000),
            stop_every: self.one_in(3).then(|| Duration::from_secs(self.between(15, 60))),
        }
    }

    fn platform(&mut self, chaos: Duration) -> PlatformTrouble {
        let mut trouble = PlatformTrouble {
            latency_max: Duration::from_millis(self.between(5, 1_500)),
            lost_answer: self.ppm(100_000),
            lost_request: self.ppm(100_000),
            server_error: self.ppm(100_000),
            refused_connection: self.ppm(100_000),
            hang: self.ppm(50_000),
            flood: self.ppm(100_000),
            flood_max: Duration::from_secs(self.between(1, 70)),
            permanent_delivery: self.ppm(50_000),
            permanent_channel: self.ppm(20_000),
            permanent_account: self.ppm(10_000),
            not_ready: self.ppm(100_000),
            blocked: self.ppm(100_000),
            ..PlatformTrouble::default()
        };
        if self.one_in(3) {
            let length = Duration::from_secs(self.between(5, 60));
            trouble.outages.push((self.between(0, 4) as usize, self.instant(chaos), length));
        }
        trouble
    }

    fn client(&mut self, chaos: Duration) -> ClientTrouble {
        ClientTrouble {
            commit_unknown: self.ppm(200_000),
            busy: self.ppm(200_000),
            wrong: self.ppm(100_000),
            repeat: self.ppm(100_000),
            from_walls: self.ppm(600_000),
            operator_every: self.one_in(2).then(|| Duration::from_secs(self.between(5, 30))),
            hold: self.one_in(4).then(|| (self.instant(chaos), Duration::from_secs(self.between(10, 40)))),
        }
    }
}
