//! The bot: what people do is heard, a turn is taken over it, and what the turn says is queued like any other delivery.
//!
//! ```text
//! listen (long poll) ─┐
//! webhooks (rupor) ───┴─► hear ─► Store::bot_receive ═► turns ─► domain::dialogue::step ─► Store::bot_commit_turns ═► dispatch
//! ```
//!
//! Nothing is sent inside a turn, so a send that fails cannot hold up a dialogue. A call that a turn asks for is made by
//! `calls`, and its answer comes back like an update. The loops meet only in the store. Start with `hear`, then `turns`.

mod calls;
pub mod hear;
mod listen;
mod receive;
mod together;
mod turns;

#[cfg(test)]
mod tests;

use platforms::platform::Network;
use store::Store;
use tokio::sync::{Notify, watch};

use crate::addresses::ApiBases;

pub use receive::{receive, updates};
pub use together::Together;
pub use turns::{answer_press, decide, take};

#[derive(Debug, Clone)]
pub struct Settings {
    /// Names this node in the leases; new at every start.
    pub owner: String,
    pub bases: ApiBases,
}

/// Listens and answers until told to stop.
pub async fn run(store: Store, network: Network, settings: Settings, stop: watch::Receiver<bool>) {
    let listening = listen::run(&store, &network, &settings, stop.clone());
    // A hint that saves a call the wait for the next look.
    let asked = Notify::new();
    let answering = turns::run(&store, &network, &settings, &asked, stop.clone());
    let calling = calls::run(&store, &network, &settings, &asked, stop);
    tokio::join!(listening, answering, calling);
}
