//! What there is: accounts, lanes, people, deliveries, and the comparison with the rows.

use std::collections::{BTreeMap, HashMap};

use domain::delivery::{AmbiguityPolicy, Counters, Priority, Status};
use domain::destination::Destination;
use domain::ids::{AccountId, CampaignId, ChannelId, ClaimToken, DeliveryId, LaneId, MessageId, RecipientId};
use domain::limits::{LOST_CLAIMS_MAX, LOST_REQUESTS_MAX};
use domain::pacing::{Pace, interval};
use domain::time::{Span, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use store::*;

use super::operations::Operation;
use crate::world::*;

pub(super) const CHANNELS: usize = 4;
/// People of the first account.
pub(super) const PEOPLE: usize = 3;
/// The lane of the campaign; those of the dialogues come after it.
pub(super) const CAMPAIGN: usize = CHANNELS;
pub(super) const LANES: usize = CAMPAIGN + 1 + PEOPLE;

pub(super) struct Model {
    pub(super) now: Timestamp,
    pub(super) held: bool,
    pub(super) accounts: Vec<ModelAccount>,
    /// Of the channels, of the campaign, of the dialogues.
    pub(super) lanes: Vec<ModelLane>,
    pub(super) people: Vec<ModelPerson>,
    pub(super) messages: HashMap<String, Known>,
    pub(super) deliveries: BTreeMap<DeliveryId, ModelDelivery>,
    pub(super) keys: HashMap<(usize, String), Key>,
    pub(super) claims: Vec<Claim>,
}

pub(super) struct ModelAccount {
    pub(super) id: AccountId,
    pub(super) max_parallel: usize,
    pub(super) pace: Pace,
    pub(super) cooldown_until: Timestamp,
    pub(super) paused: bool,
    pub(super) flood: Option<(Destination, Timestamp)>,
    pub(super) trouble_streak: i32,
    pub(super) retry_parallel: usize,
    /// When its retries last filled their room: lanes may have been put off then.
    pub(super) full_at: Timestamp,
}

pub(super) struct ModelLane {
    pub(super) of: Of,
    pub(super) account: usize,
    pub(super) max_parallel: usize,
    pub(super) pace: Pace,
    pub(super) policy: AmbiguityPolicy,
    pub(super) open: bool,
    pub(super) paused_until: Timestamp,
}

/// Whose lane.
pub(super) enum Of {
    Channel(ModelChannel),
    People(LaneId),
}

pub(super) struct ModelChannel {
    pub(super) id: ChannelId,
    pub(super) ttl: Span,
    pub(super) dedup: bool,
    pub(super) by_operator: bool,
    pub(super) error_streak: i32,
}

pub(super) struct ModelPerson {
    pub(super) id: RecipientId,
    pub(super) status: RecipientStatus,
    pub(super) error_streak: i32,
    pub(super) paused_until: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct ModelDelivery {
    pub(super) lane: usize,
    /// Whom it is for, where it is for somebody.
    pub(super) person: Option<usize>,
    pub(super) text: String,
    pub(super) priority: Priority,
    pub(super) generation: i32,
    pub(super) parent: Option<DeliveryId>,
    pub(super) status: Status,
    pub(super) counters: Counters,
    pub(super) claim_seq: i64,
    pub(super) run_at: Timestamp,
    pub(super) lease_until: Timestamp,
    pub(super) requested: bool,
    pub(super) absent: bool,
    pub(super) token: Option<ClaimToken>,
    /// How each attempt ended, by the token it was made with.
    pub(super) ended: Vec<(ClaimToken, bool)>,
    pub(super) parts: Parts,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Key {
    OnItsWay(DeliveryId),
    Sent(Timestamp),
}

/// A message that was enqueued, and the deliveries it got.
pub(super) type Known = (MessageId, NewMessage, Vec<(DeliveryId, ChannelId)>);

pub(super) type Checked = std::result::Result<(), TestCaseError>;

impl ModelLane {
    pub(super) fn channel(&self) -> Option<&ModelChannel> {
        match &self.of {
            Of::Channel(channel) => Some(channel),
            Of::People(_) => None,
        }
    }

    pub(super) fn channel_mut(&mut self) -> Option<&mut ModelChannel> {
        match &mut self.of {
            Of::Channel(channel) => Some(channel),
            Of::People(_) => None,
        }
    }
}

fn policy(n: usize) -> AmbiguityPolicy {
    use AmbiguityPolicy::*;
    [ResendOnce, Resend, Hold, Reconcile][n % 4]
}

impl Model {
    /// What waits to be tried again in these lanes is due.
    pub(super) fn hurry(&mut self, on: impl Fn(usize, &ModelLane) -> bool) {
        let now = self.now;
        for delivery in self.deliveries.values_mut() {
            if delivery.status == Status::Retry && on(delivery.lane, &self.lanes[delivery.lane]) {
                delivery.run_at = delivery.run_at.min(now);
            }
        }
    }

    /// Two accounts and four channels, each different; the variant turns their settings round.
    pub(super) async fn new(world: &World, variant: usize) -> Model {
        let mut model = Model {
            now: world.now().await,
            held: false,
            accounts: Vec::new(),
            lanes: Vec::new(),
            people: Vec::new(),
            messages: HashMap::new(),
            deliveries: BTreeMap::new(),
            keys: HashMap::new(),
            claims: Vec::new(),
        };
        for (rate, burst, max_parallel) in [(Some(20.0), 2, 3), (None, 1, 4)] {
            let settings = AccountSettings { rate, burst, max_parallel, ..AccountSettings::default() };
            model.accounts.push(ModelAccount {
                id: world.account_with(settings).await,
                max_parallel: max_parallel as usize,
                pace: Pace { interval: interval(rate), burst, next_slot: Timestamp(0) },
                cooldown_until: Timestamp(0),
                paused: false,
                flood: None,
                trouble_streak: 0,
                retry_parallel: 2,
                full_at: Timestamp(0),
            });
        }
        for i in 0..CHANNELS {
            model.add_channel(world, i, variant).await;
        }
        model.add_people(world, variant).await;
        model
    }

    async fn add_channel(&mut self, world: &World, i: usize, variant: usize) {
        let account = i % 2;
        let max_parallel = if (i + variant).is_multiple_of(3) { 2 } else { 1 };
        let rate = (i == 2).then_some(4.0);
        let (ttl, dedup) = (Span::from_secs(100), i != 3);
        let settings = ChannelSettings {
            rate,
            max_parallel,
            ambiguity: policy(i + variant / 3),
            dedup_ttl: ttl,
            dedup: if dedup { DedupMode::Content } else { DedupMode::Off },
            ..ChannelSettings::default()
        };
        let id = world.channel_with(self.accounts[account].id, settings).await;
        let of = Of::Channel(ModelChannel { id, ttl, dedup, by_operator: false, error_streak: 0 });
        self.add_lane(of, account, max_parallel, rate, policy(i + variant / 3));
    }

    /// The campaign keeps no order, a dialogue does.
    async fn add_people(&mut self, world: &World, variant: usize) {
        let account = self.accounts[0].id;
        let people = (0..PEOPLE).map(|n| NewRecipient {
            user_id: n.to_string(),
            address: n.to_string(),
            attributes: serde_json::json!({}),
            time_zone: None,
            status: RecipientStatus::Active,
            source: "проверка".into(),
        });
        let put = world.store.put_recipients(world.ws, account, people.collect()).await.unwrap();
        let mut lanes = vec![(LaneOf::Campaign(CampaignId(1), account), 2, Some(10.0))];
        for recipient in put {
            let id = recipient.recipient_id;
            let status = RecipientStatus::Active;
            self.people.push(ModelPerson { id, status, error_streak: 0, paused_until: Timestamp(0) });
            lanes.push((LaneOf::Dialogue(id), 1, None));
        }
        for (n, (of, max_parallel, rate)) in lanes.into_iter().enumerate() {
            let ambiguity = policy(n + variant);
            let settings = LaneSettings { max_parallel, rate, ambiguity };
            let id = world.store.open_lane(world.ws, of, settings).await.unwrap();
            self.add_lane(Of::People(id), 0, max_parallel, rate, ambiguity);
        }
    }

    fn add_lane(
        &mut self,
        of: Of,
        account: usize,
        max_parallel: i32,
        rate: Option<f64>,
        policy: AmbiguityPolicy,
    ) {
        self.lanes.push(ModelLane {
            of,
            account,
            max_parallel: max_parallel as usize,
            pace: Pace { interval: interval(rate), burst: 1, next_slot: Timestamp(0) },
            policy,
            open: true,
            paused_until: Timestamp(0),
        });
    }

    pub(super) async fn run(mut self, world: &World, operations: &[Operation]) -> Checked {
        for (n, operation) in operations.iter().enumerate() {
            self.note_full();
            self.step(world, operation).await?;
            self.note_full();
            let settings_too = n % 5 == 4 || n + 1 == operations.len();
            // Time alone moves no row; what it lets happen is seen after the next operation.
            if !matches!(operation, Operation::Advance { .. }) || settings_too {
                self.compare(world, settings_too).await?;
            }
        }
        let wrong = world.store.audit(world.ws).await.unwrap();
        prop_assert!(wrong.is_empty(), "audit: {wrong:?}");
        Ok(())
    }

    pub(super) fn pick_claim(&self, n: u8) -> Option<Claim> {
        let n = usize::from(n);
        // Mostly the newest claims, sometimes one that is long over.
        let back = if n.is_multiple_of(4) { n / 4 % self.claims.len().max(1) } else { n % 6 };
        self.claims.iter().rev().nth(back).cloned()
    }

    pub(super) fn pick_delivery(&self, n: u8) -> Option<DeliveryId> {
        self.deliveries.keys().nth(usize::from(n) % self.deliveries.len().max(1)).copied()
    }

    pub(super) fn of(&mut self, claim: &Claim) -> &mut ModelDelivery {
        self.deliveries.get_mut(&claim.delivery_id).expect("claimed deliveries are known")
    }

    pub(super) fn current(&self, claim: &Claim) -> bool {
        self.deliveries[&claim.delivery_id].token == Some(claim.claim_token)
    }

    pub(super) fn live(&self, claim: &Claim) -> bool {
        self.current(claim) && self.deliveries[&claim.delivery_id].lease_until > self.now
    }

    pub(super) fn fresh(
        &self,
        (lane, person): (usize, Option<usize>),
        text: &str,
        priority: Priority,
        status: Status,
    ) -> ModelDelivery {
        ModelDelivery {
            lane,
            person,
            text: text.to_owned(),
            priority,
            generation: 0,
            parent: None,
            status,
            counters: Counters::default(),
            claim_seq: 0,
            run_at: self.now,
            lease_until: Timestamp(0),
            requested: false,
            absent: false,
            token: None,
            ended: Vec::new(),
            parts: Parts::new(),
        }
    }

    /// Every delivery is as the model says, and so is what the endings did to channels, people and accounts. All is asked
    /// for at once.
    async fn compare(&self, world: &World, settings_too: bool) -> Checked {
        let (store, ws) = (&world.store, world.ws);
        let deliveries = store.deliveries(ws, DeliveryFilter::default(), 10_000);
        if !settings_too {
            return self.compare_deliveries(deliveries.await.unwrap());
        }
        let people = store.recipients(ws, self.accounts[0].id, None, PEOPLE);
        let (deliveries, channels, people, accounts) =
            tokio::try_join!(deliveries, store.channels(ws), people, store.accounts(ws)).unwrap();
        self.compare_deliveries(deliveries)?;
        self.compare_settings(&channels, &people, &accounts)
    }

    fn compare_deliveries(&self, rows: Vec<Delivery>) -> Checked {
        prop_assert_eq!(rows.len(), self.deliveries.len(), "V1: nothing lost, nothing invented");
        for row in rows {
            let Some(model) = self.deliveries.get(&row.delivery_id) else {
                return Err(TestCaseError::fail(format!("unknown {row:?}")));
            };
            prop_assert_eq!(row.status, model.status, "V4: {:?}", row);
            prop_assert_eq!(row.counters, model.counters, "V8: {:?}", row);
            prop_assert_eq!(row.claim_seq, model.claim_seq, "V6: {:?}", row);
            prop_assert_eq!(row.generation, model.generation);
            prop_assert_eq!(&row.parts, &model.parts);
            let run_at = model.status.is_pending().then_some(model.run_at);
            prop_assert_eq!(row.run_at, run_at, "V14: {:?}", row);
            let lease_until = (model.status == Status::Sending).then_some(model.lease_until);
            prop_assert_eq!(row.lease_until, lease_until, "V5: {:?}", row);
            prop_assert!(row.counters.lost_claims <= LOST_CLAIMS_MAX, "V7: {row:?}");
            prop_assert!(row.counters.lost_requests <= LOST_REQUESTS_MAX, "V7: {row:?}");
            let person = model.person.map(|person| self.people[person].id);
            prop_assert_eq!(row.destination.recipient(), person, "V15: {:?}", row);
        }
        Ok(())
    }

    fn compare_settings(&self, channels: &[Channel], people: &[Recipient], accounts: &[Account]) -> Checked {
        for (row, lane) in channels.iter().zip(&self.lanes) {
            let error_streak = lane.channel().expect("channels come first").error_streak;
            prop_assert_eq!((row.enabled, row.error_streak), (lane.open, error_streak), "{:?}", row);
            prop_assert_eq!(row.paused_until.max(Timestamp(0)), lane.paused_until, "{:?}", row);
        }
        for (row, model) in people.iter().zip(&self.people) {
            prop_assert_eq!((row.status, row.error_streak), (model.status, model.error_streak), "{:?}", row);
            prop_assert_eq!(row.paused_until.max(Timestamp(0)), model.paused_until, "{:?}", row);
        }
        for (row, model) in accounts.iter().zip(&self.accounts) {
            prop_assert_eq!(row.paused, model.paused, "{:?}", row);
            prop_assert_eq!(row.cooldown_until.max(Timestamp(0)), model.cooldown_until, "{:?}", row);
        }
        Ok(())
    }
}
