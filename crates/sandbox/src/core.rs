//! What the three platforms share. Each part has its own lock and knows nothing of the others.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Options;
use crate::chats::Chats;
use crate::clock::Clock;
use crate::faults::Faults;
use crate::hooks::Hooks;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::media::MediaStore;
use crate::pictures::Pictures;
use crate::registry::Registry;
use crate::request::percent_decoded;

/// The shared parts.
#[derive(Debug)]
pub struct Core {
    pub clock: Clock,
    pub seed: u64,
    /// `http://127.0.0.1:7900`, without a slash at the end.
    pub origin: String,
    /// Whether it may be asked from beyond loopback.
    pub exposed: bool,
    pub ledger: Ledger,
    pub chats: Chats,
    pub media: MediaStore,
    pub pictures: Pictures,
    pub faults: Faults,
    pub registry: Registry,
    pub limits: Limits,
    pub hooks: Hooks,
    pub tasks: Tasks,
}

impl Core {
    pub fn new(options: &Options, origin: String) -> Result<Core, reqwest::Error> {
        Ok(Core {
            clock: options.clock.clone(),
            seed: options.seed,
            origin,
            exposed: options.exposed,
            ledger: Ledger::new(options.ledger_max),
            chats: Chats::new(options.messages_max),
            media: MediaStore::new(options.media_bytes_max),
            pictures: Pictures::new(options.seed),
            faults: Faults::new(options.seed),
            registry: Registry::new(options.any_token),
            limits: Limits::new(options.limits),
            hooks: Hooks::new()?,
            tasks: Tasks::default(),
        })
    }

    /// The bytes behind an address of the sandbox itself, without a detour over the network:
    /// sample pictures and stored media.
    pub fn own_picture(&self, url: &str) -> Option<Bytes> {
        let path = url.strip_prefix(&self.origin)?;
        if let Some(name) = path.strip_prefix("/_/pictures/").and_then(|file| file.strip_suffix(".jpg")) {
            return Some(self.pictures.jpeg(&percent_decoded(name)));
        }
        self.media.get(path.strip_prefix("/_/media/")?).map(|stored| stored.bytes)
    }

    /// A number that depends on the seed and the name alone.
    pub fn number_of(&self, name: &str) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash ^ (hash >> 29)
    }
}

/// Owns what runs beside the requests, such as webhook delivery. All of it ends with the sandbox.
#[derive(Debug)]
pub struct Tasks {
    running: Mutex<JoinSet<()>>,
    stop: watch::Sender<bool>,
}

impl Default for Tasks {
    fn default() -> Tasks {
        Tasks { running: Mutex::default(), stop: watch::channel(false).0 }
    }
}

impl Tasks {
    /// Runs a future until it is done or the sandbox stops.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if *self.stop.borrow() {
            return;
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(task);
    }

    /// Resolves when the sandbox stops: for everything that waits without end.
    pub async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // An error means that the sender is gone, which is a stop as well.
        drop(stop.wait_for(|stopped| *stopped).await);
    }

    /// Ends everything.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        self.running.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// The parts every platform needs at hand.
pub type SharedCore = Arc<Core>;
