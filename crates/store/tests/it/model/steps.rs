//! What happens: each operation done to the store and to the model.

use domain::delivery::{Priority, Status};
use domain::ids::{ChannelId, DeliveryId};
use domain::limits::PAYLOAD_BYTES_MAX;
use domain::time::{Span, Timestamp};
use proptest::prelude::*;
use store::*;

use super::operations::Operation;
use super::state::{
    CAMPAIGN, CHANNELS, Checked, Key, Model, ModelChannel, ModelDelivery, ModelLane, Of, PEOPLE,
};
use crate::world::*;

impl Model {
    pub(super) async fn step(&mut self, world: &World, operation: &Operation) -> Checked {
        let (store, ws) = (&world.store, world.ws);
        match *operation {
            Operation::Enqueue { text, origin, channels, bulk } => {
                self.enqueue(world, text, origin, channels, bulk).await?;
            }
            Operation::Tell { text, people, dialogue, bulk } => {
                self.tell(world, text, people, dialogue, bulk).await?;
            }
            Operation::Person { person, status } => {
                let person = &mut self.people[usize::from(person) % PEOPLE];
                store.set_recipient_status(ws, person.id, status, "проверка").await.unwrap();
                // A stop that is heard late does not bring back who is gone.
                let stays = (person.status, status) == (RecipientStatus::Gone, RecipientStatus::Stopped);
                if !stays {
                    let forgiven = status != RecipientStatus::Gone;
                    person.error_streak = if forgiven { 0 } else { person.error_streak };
                    person.status = status;
                }
            }
            Operation::Claim { limit } => self.claim(world, limit).await?,
            Operation::Finish { claim, kind, chance } => self.finish(world, claim, kind, chance).await?,
            Operation::Absent { claim } => {
                let Some(claim) = self.pick_claim(claim) else { return Ok(()) };
                let got = store.record_parts(vec![(claim.reference(), PartProgress::Absent)]).await.unwrap();
                let live = self.live(&claim);
                prop_assert_eq!(got, [live]);
                if live {
                    let delivery = self.of(&claim);
                    delivery.absent |= !delivery.requested;
                }
            }
            Operation::Requested { claim } => {
                let Some(claim) = self.pick_claim(claim) else { return Ok(()) };
                let got =
                    store.record_parts(vec![(claim.reference(), PartProgress::Requested)]).await.unwrap();
                let live = self.live(&claim);
                prop_assert_eq!(got, [live]);
                if live {
                    self.of(&claim).requested = true;
                }
            }
            Operation::Part { claim, part } => {
                let Some(claim) = self.pick_claim(claim) else { return Ok(()) };
                let done = PartProgress::Done { part: part.into(), provider_message_id: format!("p{part}") };
                let got = store.record_parts(vec![(claim.reference(), done)]).await.unwrap();
                let live = self.live(&claim);
                prop_assert_eq!(got, [live]);
                if live {
                    self.of(&claim).parts.insert(part.into(), format!("p{part}"));
                }
            }
            Operation::Renew { claim } => {
                let Some(claim) = self.pick_claim(claim) else { return Ok(()) };
                let got = store.renew(vec![claim.reference()], Span::from_secs(60)).await.unwrap();
                let live = self.live(&claim);
                prop_assert_eq!(got, [live]);
                if live {
                    self.of(&claim).lease_until = self.now + Span::from_secs(60);
                }
            }
            Operation::Advance { ms } => {
                world.advance(Span::from_millis(ms)).await;
                self.now = self.now + Span::from_millis(ms);
            }
            Operation::Recover => self.recover(world).await?,
            Operation::Cancel { delivery } => self.cancel(world, delivery).await?,
            Operation::Requeue { delivery } => self.requeue(world, delivery).await?,
            Operation::PauseChannel { channel, ms } => {
                let until = self.now + Span::from_millis(ms);
                let (_, lane) = self.lane_of_channel(channel);
                lane.paused_until = lane.paused_until.max(until);
                let id = lane.channel().expect("a channel's").id;
                store.pause_channel(ws, id, until, "проверка").await.unwrap();
            }
            Operation::ResumeChannel { channel } => {
                let (place, lane) = self.lane_of_channel(channel);
                (lane.paused_until, lane.open) = (Timestamp(0), true);
                let channel = lane.channel_mut().expect("a channel's");
                (channel.error_streak, channel.by_operator) = (0, false);
                let id = channel.id;
                self.hurry(|lane, _| lane == place);
                store.resume_channel(ws, id).await.unwrap();
            }
            Operation::DisableChannel { channel } => {
                let (_, lane) = self.lane_of_channel(channel);
                lane.open = false;
                let channel = lane.channel_mut().expect("a channel's");
                channel.by_operator = true;
                let id = channel.id;
                store.disable_channel(ws, id, DisabledBy::Operator).await.unwrap();
            }
            Operation::PauseAccount { account } => {
                let account = &mut self.accounts[usize::from(account) % 2];
                account.paused = true;
                store.pause_account(ws, account.id, "проверка").await.unwrap();
            }
            Operation::ResumeAccount { account: which } => {
                let account = &mut self.accounts[usize::from(which) % 2];
                (account.paused, account.cooldown_until, account.flood) = (false, Timestamp(0), None);
                account.trouble_streak = 0;
                let id = account.id;
                self.hurry(|_, lane| lane.account == usize::from(which) % 2);
                store.resume_account(ws, id).await.unwrap();
            }
            Operation::Hold { held } => {
                self.held = held;
                store.hold_workspace(ws, held).await.unwrap();
            }
            Operation::Reserve { account, n } => {
                let account = &mut self.accounts[usize::from(account) % 2];
                let slot = account.pace.reserve(self.now.max(account.cooldown_until), n);
                prop_assert_eq!(store.reserve(ws, account.id, n).await.unwrap(), slot);
            }
        }
        Ok(())
    }

    fn lane_of_channel(&mut self, n: u8) -> (usize, &mut ModelLane) {
        let place = usize::from(n) % CHANNELS;
        (place, &mut self.lanes[place])
    }

    fn channel(&self, place: usize) -> &ModelChannel {
        self.lanes[place].channel().expect("channels come first")
    }

    async fn enqueue(&mut self, world: &World, text: u8, origin: u8, channels: u8, bulk: bool) -> Checked {
        let picked: Vec<usize> = (0..CHANNELS).filter(|i| channels >> i & 1 == 1).collect();
        let ids: Vec<ChannelId> = picked.iter().map(|&i| self.channel(i).id).collect();
        let text = format!("текст {text}");
        let new = NewMessage {
            origin_id: format!("пост {origin}"),
            priority: if bulk { Priority::Bulk } else { Priority::Urgent },
            ..message(&text, &ids)
        };
        prop_assert!(new.payload.to_string().len() < PAYLOAD_BYTES_MAX);
        let result = world.store.enqueue(world.ws, vec![new.clone()]).await;
        if let Some((message_id, before, deliveries)) = self.messages.get(&new.origin_id) {
            if *before != new {
                prop_assert!(matches!(result, Err(StoreError::KeyConflict { .. })), "{result:?}");
                return Ok(());
            }
            let again = result.unwrap().remove(0);
            prop_assert_eq!(again.message_id, *message_id);
            prop_assert!(!again.created);
            let got: Vec<_> = again.deliveries.iter().map(|d| (d.delivery_id, d.channel_id)).collect();
            prop_assert_eq!(&got, deliveries);
            return Ok(());
        }
        let enqueued = result.unwrap().remove(0);
        let eligible: Vec<usize> = picked.into_iter().filter(|&i| !self.channel(i).by_operator).collect();
        let expected: Vec<ChannelId> = eligible.iter().map(|&i| self.channel(i).id).collect();
        let got: Vec<ChannelId> = enqueued.deliveries.iter().map(|d| d.channel_id).collect();
        prop_assert_eq!(got, expected, "V1: one delivery for each eligible channel");
        for (delivery, &channel) in enqueued.deliveries.iter().zip(&eligible) {
            let free = self.take_key(channel, &text, delivery.delivery_id);
            let status = if free { Status::Queued } else { Status::Deduped };
            prop_assert_eq!(delivery.status, status, "{:?}", delivery);
            self.deliveries
                .insert(delivery.delivery_id, self.fresh((channel, None), &text, new.priority, status));
        }
        let ids = enqueued.deliveries.iter().map(|d| (d.delivery_id, d.channel_id)).collect();
        self.messages.insert(new.origin_id.clone(), (enqueued.message_id, new, ids));
        Ok(())
    }

    fn take_key(&mut self, channel: usize, text: &str, id: DeliveryId) -> bool {
        if !self.channel(channel).dedup {
            return true;
        }
        let ttl = self.channel(channel).ttl;
        let key = (channel, text.to_owned());
        let taken = match self.keys.get(&key) {
            None => false,
            Some(Key::OnItsWay(_)) => true,
            Some(Key::Sent(at)) => *at + ttl > self.now,
        };
        if !taken {
            self.keys.insert(key, Key::OnItsWay(id));
        }
        !taken
    }

    /// Nobody hears the same message twice, whatever lane it comes by; a campaign asks who wants to hear.
    async fn tell(&mut self, world: &World, text: u8, people: u8, dialogue: bool, bulk: bool) -> Checked {
        let text = format!("людям {text}");
        let message_id =
            world.store.enqueue(world.ws, vec![message(&text, &[])]).await.unwrap()[0].message_id;
        let priority = if bulk { Priority::Bulk } else { Priority::Urgent };
        let picked: Vec<usize> = (0..PEOPLE).filter(|i| people >> i & 1 == 1).collect();
        let calls: Vec<(usize, Vec<usize>)> = match dialogue {
            true => picked.into_iter().map(|person| (CAMPAIGN + 1 + person, vec![person])).collect(),
            false => vec![(CAMPAIGN, picked)],
        };
        for (lane, picked) in calls {
            let Of::People(lane_id) = self.lanes[lane].of else { unreachable!("people's") };
            let recipients = picked.iter().map(|&person| self.people[person].id).collect();
            let new = ForRecipients { message_id, lane_id, recipients, priority, run_at: None };
            let queued = world.store.enqueue_for(world.ws, new).await.unwrap();
            prop_assert_eq!(queued.len(), picked.len());
            for (id, person) in queued.into_iter().zip(picked) {
                let heard = |d: &ModelDelivery| d.person == Some(person) && d.text == text;
                let wants = match self.people[person].status {
                    RecipientStatus::Gone => false,
                    RecipientStatus::Active => true,
                    RecipientStatus::Known | RecipientStatus::Stopped => lane != CAMPAIGN,
                };
                let expected = wants && !self.deliveries.values().any(heard);
                prop_assert_eq!(id.is_some(), expected, "person {} in lane {}", person, lane);
                if let Some(id) = id {
                    let fresh = self.fresh((lane, Some(person)), &text, priority, Status::Queued);
                    self.deliveries.insert(id, fresh);
                }
            }
        }
        Ok(())
    }

    async fn cancel(&mut self, world: &World, n: u8) -> Checked {
        let Some(id) = self.pick_delivery(n) else { return Ok(()) };
        let got = world.store.cancel(world.ws, vec![id]).await.unwrap();
        let pending = self.deliveries[&id].status.is_pending();
        prop_assert_eq!(got, [pending]);
        if pending {
            let delivery = self.deliveries.get_mut(&id).expect("known");
            delivery.status = Status::Dead;
            let key = (delivery.lane, delivery.text.clone());
            self.release_key(id, &key);
        }
        Ok(())
    }

    async fn requeue(&mut self, world: &World, n: u8) -> Checked {
        let Some(id) = self.pick_delivery(n) else { return Ok(()) };
        let result = world.store.requeue(world.ws, vec![id]).await;
        let old = self.deliveries[&id].clone();
        if !matches!(old.status, Status::Dead | Status::FailedPermanent) {
            prop_assert!(matches!(result, Err(StoreError::IllegalTransition { .. })), "{result:?}");
            return Ok(());
        }
        let new = result.unwrap()[0];
        let generations = self.deliveries.iter().filter(|(other, _)| self.root(**other) == self.root(id));
        let generation = 1 + generations.map(|(_, d)| d.generation).max().unwrap_or(0);
        let fresh = self.fresh((old.lane, old.person), &old.text, old.priority, Status::Queued);
        self.deliveries.insert(new, ModelDelivery { generation, parent: Some(id), ..fresh });
        if self.lanes[old.lane].channel().is_some_and(|channel| channel.dedup) {
            self.keys.entry((old.lane, old.text)).or_insert(Key::OnItsWay(new));
        }
        Ok(())
    }

    /// The first generation of a delivery.
    fn root(&self, mut id: DeliveryId) -> DeliveryId {
        while let Some(parent) = self.deliveries[&id].parent {
            id = parent;
        }
        id
    }
}
