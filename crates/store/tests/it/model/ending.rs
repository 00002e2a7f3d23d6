//! What the end of a claim means. The rules themselves are `domain::settle`; here is what follows from them.

use domain::delivery::Status;
use domain::destination::Destination;
use domain::ids::{ClaimToken, DeliveryId};
use domain::outcome::{CODE_NOT_READY, Category, Failure, Outcome, Scope, Sent};
use domain::retry::Chance;
use domain::settle::{AccountEffect, DestinationEffect, Ending, LaneEffect, Settlement, Standing, settle};
use domain::time::{Span, Timestamp};
use proptest::prelude::*;
use store::*;

use super::operations::Kind;
use super::state::{Checked, Key, Model, ModelDelivery, ModelLane, ModelPerson};
use crate::world::*;

impl Model {
    pub(super) async fn finish(&mut self, world: &World, n: u8, kind: Kind, chance: u32) -> Checked {
        let Some(claim) = self.pick_claim(n) else { return Ok(()) };
        let ending = self.ending(kind);
        let drawn = Chance::new(chance);
        let finish = Finish { chance: drawn, ..finish(&claim, ending.clone()) };
        let got = world.store.commit(vec![finish]).await.unwrap().remove(0);
        let expected = if self.live(&claim) {
            let (domain_ending, not_before) = match &ending {
                FinishKind::Outcome(outcome) => (Ending::Outcome(outcome.clone()), None),
                FinishKind::RetryAt(outcome, at) => (Ending::Outcome(outcome.clone()), Some(*at)),
                FinishKind::Release => (Ending::Released, None),
            };
            Finished::Done(self.settle(claim.delivery_id, &domain_ending, drawn, not_before))
        } else {
            if self.current(&claim) {
                self.expire_lease(claim.delivery_id);
            }
            self.too_late(&claim, &ending)
        };
        prop_assert_eq!(got, expected, "{:?}", ending);
        Ok(())
    }

    fn ending(&self, kind: Kind) -> FinishKind {
        let failed = |failure| FinishKind::Outcome(Outcome::Failed(failure));
        match kind {
            Kind::Sent => {
                let provider_message_id = Some("77".to_owned());
                FinishKind::Outcome(Outcome::Sent(Sent { provider_message_id, raw: serde_json::Value::Null }))
            }
            Kind::Release => FinishKind::Release,
            Kind::Fail(category, scope, wait) => failed(Failure {
                retry_after_ms: wait,
                ..Failure::new(category, scope, "код", "беда")
            }),
            Kind::Unknown(scope) => failed(Failure::new(Category::Transient, scope, "timeout", "").unknown()),
            Kind::Gone => failed(Failure {
                recipient_gone: true,
                ..Failure::new(Category::Permanent, Scope::Channel, "blocked", "")
            }),
            Kind::NotReady => failed(Failure::new(Category::Transient, Scope::Delivery, CODE_NOT_READY, "")),
            Kind::RetryAt(ms) => {
                let failure = Failure::new(Category::Transient, Scope::Delivery, "код", "");
                FinishKind::RetryAt(Outcome::Failed(failure), self.now + Span::from_millis(ms))
            }
        }
    }

    fn settle(
        &mut self,
        id: DeliveryId,
        ending: &Ending,
        chance: Chance,
        not_before: Option<Timestamp>,
    ) -> Status {
        let delivery = &self.deliveries[&id];
        let lane = &self.lanes[delivery.lane];
        let account = &self.accounts[lane.account];
        let (destination, error_streak) = match (lane.channel(), delivery.person) {
            (Some(channel), _) => (Destination::Channel(channel.id), channel.error_streak),
            (None, person) => {
                let person = &self.people[person.expect("for somebody")];
                (Destination::Recipient(person.id), person.error_streak)
            }
        };
        let standing = Standing {
            counters: delivery.counters,
            policy: lane.policy,
            destination,
            error_streak,
            flood: account.flood,
            trouble_streak: account.trouble_streak,
            absent: delivery.absent,
        };
        let mut settlement = settle(&standing, ending, self.now, chance);
        if let (Some(at), Some(run_at)) = (not_before, &mut settlement.run_at) {
            *run_at = at.max(self.now);
        }
        self.effects(id, ending, &settlement);
        let expired = matches!(ending, Ending::LeaseExpired { .. });
        self.end(id, &settlement, expired);
        settlement.status
    }

    fn end(&mut self, id: DeliveryId, settlement: &Settlement, expired: bool) {
        let now = self.now;
        let delivery = self.deliveries.get_mut(&id).expect("known");
        delivery.status = settlement.status;
        delivery.counters = settlement.counters;
        delivery.run_at = settlement.run_at.unwrap_or(delivery.run_at);
        if let Some(token) = delivery.token.take() {
            delivery.ended.push((token, expired));
        }
        let key = (delivery.lane, delivery.text.clone());
        match settlement.status {
            Status::Sent if self.keys.get(&key) == Some(&Key::OnItsWay(id)) => {
                self.keys.insert(key, Key::Sent(now));
            }
            Status::Dead | Status::FailedPermanent => self.release_key(id, &key),
            _ => {}
        }
    }

    pub(super) fn release_key(&mut self, id: DeliveryId, key: &(usize, String)) {
        if self.keys.get(key) == Some(&Key::OnItsWay(id)) {
            self.keys.remove(key);
        }
    }

    fn effects(&mut self, id: DeliveryId, ending: &Ending, settlement: &Settlement) {
        let (lane, person) = (self.deliveries[&id].lane, self.deliveries[&id].person);
        let lane = &mut self.lanes[lane];
        let account = &mut self.accounts[lane.account];
        if let LaneEffect::PauseUntil(until) = settlement.lane {
            lane.paused_until = lane.paused_until.max(until);
        }
        let flood = matches!(ending, Ending::Outcome(Outcome::Failed(failure)) if failure.is_flood());
        match settlement.account {
            AccountEffect::None => {}
            AccountEffect::Healthy => account.trouble_streak = 0,
            AccountEffect::RememberFlood(chat, until) => account.flood = Some((chat, until)),
            AccountEffect::CooldownUntil(until) => {
                account.cooldown_until = account.cooldown_until.max(until);
                account.trouble_streak += i32::from(!flood);
            }
            AccountEffect::Pause => account.paused = true,
        }
        match person {
            None => struck_channel(lane, settlement.destination),
            Some(person) => struck_person(&mut self.people[person], settlement.destination),
        }
    }

    fn expire_lease(&mut self, id: DeliveryId) -> Status {
        let delivery = &self.deliveries[&id];
        let ending = Ending::LeaseExpired { requested: delivery.requested };
        self.settle(id, &ending, Chance::NONE, None)
    }

    fn too_late(&mut self, claim: &Claim, ending: &FinishKind) -> Finished {
        let now = self.now;
        let delivery = self.of(claim);
        let Some(&(_, expired)) = delivery.ended.iter().find(|(token, _)| *token == claim.claim_token) else {
            return Finished::LostClaim;
        };
        if !expired {
            return Finished::Repeated(delivery.status);
        }
        let newest = delivery.ended.last().is_some_and(|(token, _)| *token == claim.claim_token);
        let sent = matches!(ending, FinishKind::Outcome(Outcome::Sent(_)));
        if !sent || delivery.status != Status::Retry || !newest {
            return Finished::LostClaim;
        }
        delivery.status = Status::Sent;
        delivery.counters.attempt += 1;
        delivery.claim_seq += 1;
        delivery.ended.push((ClaimToken(uuid::Uuid::nil()), false));
        let key = (delivery.lane, delivery.text.clone());
        if self.keys.get(&key) == Some(&Key::OnItsWay(claim.delivery_id)) {
            self.keys.insert(key, Key::Sent(now));
        }
        Finished::Adopted
    }

    pub(super) async fn recover(&mut self, world: &World) -> Checked {
        let got = world.store.recover(Whose::Workspace(world.ws), 1_000).await.unwrap();
        let expired = |d: &ModelDelivery| d.status == Status::Sending && d.lease_until <= self.now;
        let mut ids: Vec<(Timestamp, DeliveryId)> =
            self.deliveries.iter().filter(|(_, d)| expired(d)).map(|(id, d)| (d.lease_until, *id)).collect();
        ids.sort();
        let mut expected = Vec::new();
        for (_, delivery_id) in ids {
            expected.push(Recovered { delivery_id, status: self.expire_lease(delivery_id) });
        }
        prop_assert_eq!(got, expected);
        Ok(())
    }
}

fn struck_channel(lane: &mut ModelLane, effect: DestinationEffect) {
    let channel = lane.channel_mut().expect("nobody's, so a channel's");
    match effect {
        DestinationEffect::None => {}
        DestinationEffect::Healthy => channel.error_streak = 0,
        DestinationEffect::Strike { error_streak, disable } => {
            channel.error_streak = error_streak;
            if disable {
                channel.by_operator = false;
                lane.open = false;
            }
        }
        DestinationEffect::PauseUntil(_) | DestinationEffect::Gone => unreachable!("of recipients alone"),
    }
}

fn struck_person(person: &mut ModelPerson, effect: DestinationEffect) {
    match effect {
        DestinationEffect::None => {}
        DestinationEffect::Healthy => person.error_streak = 0,
        DestinationEffect::PauseUntil(until) => person.paused_until = person.paused_until.max(until),
        DestinationEffect::Strike { error_streak, disable } => {
            person.error_streak = error_streak;
            if disable {
                person.status = RecipientStatus::Gone;
            }
        }
        DestinationEffect::Gone => person.status = RecipientStatus::Gone,
    }
}
