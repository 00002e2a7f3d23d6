//! Everything at once, from several nodes: nobody waits for ever, nothing is handed out twice, all adds up.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use domain::delivery::Status;
use domain::ids::{ChannelId, ClaimToken, DeliveryId};
use domain::outcome::{Outcome, Scope};
use domain::retry::Chance;
use domain::time::Span;
use store::*;

use crate::world::*;

const NODES: usize = 4;
const TURNS: u64 = 120;

/// A small generator, so that a storm can be played again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// What all nodes share: the claims that somebody works on, and what has been seen so far.
#[derive(Default)]
struct Ledger {
    claims: Vec<Claim>,
    enqueued: Vec<DeliveryId>,
    tokens: HashSet<ClaimToken>,
    sent: HashSet<DeliveryId>,
}

struct Node {
    store: Store,
    world: World,
    channels: Vec<ChannelId>,
    ledger: Arc<Mutex<Ledger>>,
    dice: Dice,
}

impl Node {
    async fn turn(&mut self, n: u64) -> Result<()> {
        let ws = self.world.ws;
        let channel = self.channels[self.dice.roll(self.channels.len() as u64) as usize];
        match self.dice.roll(20) {
            0..6 => self.enqueue(n).await,
            6..11 => self.claim().await,
            11..16 => self.commit().await,
            16 => {
                let ids = self.some_deliveries();
                self.store.cancel(ws, ids).await.map(drop)
            }
            17 => self.store.pause_channel(ws, channel, self.store.now().await?, "буря").await.map(drop),
            18 => self.store.resume_channel(ws, channel).await,
            _ => {
                self.world.advance(Span::from_secs(20)).await;
                self.store.recover(Whose::Everyone, 50).await?;
                Ok(())
            }
        }
    }

    /// Many of them the same, from every node.
    async fn enqueue(&mut self, n: u64) -> Result<()> {
        let mut channels = self.channels.clone();
        channels.rotate_left(self.dice.roll(4) as usize);
        let batch = (0..5)
            .map(|i| message(&format!("пост {}", n * 3 + i + self.dice.roll(2)), &self.channels))
            .collect();
        let enqueued = self.store.enqueue(self.world.ws, batch).await?;
        let ids =
            enqueued.iter().flat_map(|message| &message.deliveries).map(|delivery| delivery.delivery_id);
        self.ledger.lock().unwrap().enqueued.extend(ids);
        Ok(())
    }

    async fn claim(&mut self) -> Result<()> {
        let claimed = self.store.claim(request(Whose::Everyone, 7, Span::ZERO)).await?;
        let mut ledger = self.ledger.lock().unwrap();
        for claim in claimed.claims {
            assert!(ledger.tokens.insert(claim.claim_token), "every claim has a fence of its own");
            ledger.claims.push(claim);
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<()> {
        let n = self.dice.roll(6) as usize;
        let claims: Vec<Claim> = {
            let mut ledger = self.ledger.lock().unwrap();
            let from = ledger.claims.len().saturating_sub(n);
            ledger.claims.split_off(from)
        };
        let references = claims.iter().map(|claim| (claim.reference(), PartProgress::Requested)).collect();
        self.store.record_parts(references).await?;
        self.store.renew(claims.iter().map(Claim::reference).collect(), Span::from_secs(60)).await?;
        let batch = claims.iter().map(|claim| self.finish(claim)).collect::<Vec<_>>();
        for (claim, finished) in claims.iter().zip(self.store.commit(batch).await?) {
            if matches!(finished, Finished::Done(Status::Sent) | Finished::Adopted) {
                let first = self.ledger.lock().unwrap().sent.insert(claim.delivery_id);
                assert!(first, "delivery {} was sent twice", claim.delivery_id);
            }
        }
        Ok(())
    }

    fn finish(&mut self, claim: &Claim) -> Finish {
        let ending = match self.dice.roll(8) {
            0 => FinishKind::Outcome(Outcome::Failed(transient(Scope::Delivery))),
            1 => FinishKind::Outcome(Outcome::Failed(transient(Scope::Channel).retry_after(10))),
            2 => FinishKind::Outcome(Outcome::Failed(permanent(Scope::Delivery))),
            3 => FinishKind::Release,
            _ => sent(claim),
        };
        Finish { chance: Chance::new(self.dice.roll(1_000_000) as u32), ..finish(claim, ending) }
    }

    fn some_deliveries(&mut self) -> Vec<DeliveryId> {
        let ledger = self.ledger.lock().unwrap();
        let n = ledger.enqueued.len() as u64;
        (0..n.min(3)).map(|_| ledger.enqueued[self.dice.roll(n) as usize]).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_at_once_agree_in_the_end() {
    let world = World::postgres().await;
    let mut channels = Vec::new();
    for max_parallel in [1, 8, 1, 8] {
        let account = world.account().await;
        let settings = ChannelSettings { max_parallel, ..ChannelSettings::default() };
        channels.push(world.channel_with(account, settings).await);
    }
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut nodes = tokio::task::JoinSet::new();
    for n in 0..NODES {
        let address = Address::parse(&world.url()).unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        let (world, channels, ledger) = (world.clone(), channels.clone(), Arc::clone(&ledger));
        nodes.spawn(async move {
            let mut node = Node { store, world, channels, ledger, dice: Dice(n as u64 + 1) };
            for turn in 0..TURNS {
                if let Err(error) = node.turn(turn).await {
                    panic!("node {n}, turn {turn}: {error}");
                }
            }
        });
    }
    nodes.join_all().await;
    world.check().await;
    let all = world.store.deliveries(world.ws, DeliveryFilter::default(), 10_000).await.unwrap();
    let sent: HashSet<DeliveryId> = all
        .iter()
        .filter(|delivery| delivery.status == Status::Sent)
        .map(|delivery| delivery.delivery_id)
        .collect();
    assert_eq!(sent, ledger.lock().unwrap().sent, "what was answered is what is written");
    assert!(sent.len() > 20 && all.len() > 100, "{} of {} deliveries were sent", sent.len(), all.len());
    world.drop_database().await;
}
