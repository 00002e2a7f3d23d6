//! What operators and the janitor do.

use domain::delivery::Status;
use domain::ids::DeliveryId;
use domain::outcome::Scope;
use domain::time::{Span, Timestamp};
use store::*;

use crate::world::*;

contract! {
    a_requeue_is_a_new_generation_of_a_failed_delivery,
    only_failed_deliveries_can_be_requeued,
    a_cancel_ends_what_waits,
    a_cancel_between_claim_and_send_comes_too_late,
    a_removed_channel_fails_what_waited_for_it,
    listings_filter_and_continue,
    retention_removes_only_what_is_old_and_ended,
    retention_never_forgets_inside_the_window,
    an_entry_that_is_still_listed_after_a_month_is_not_new_again,
    rows_that_stay_do_not_stand_before_those_that_can_go,
    what_was_requeued_is_told_by_its_new_delivery,
    unknown_deliveries_are_named,
}

impl World {
    /// A whole lap of retention, in steps of this many rows.
    pub(crate) async fn clear_by(&self, whose: Whose, limit: usize) -> Removed {
        let (mut removed, mut walk) = (Removed::default(), Walk::START);
        while !walk.is_over() {
            let (step, next) = self.store.retain(whose, KEEP, limit, walk).await.unwrap();
            removed += step;
            walk = next;
        }
        removed
    }

    pub(crate) async fn clear(&self, whose: Whose) -> Removed {
        self.clear_by(whose, 100).await
    }
}

async fn a_requeue_is_a_new_generation_of_a_failed_delivery(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(Scope::Delivery)).await;
    let before = w.delivery(claim.delivery_id).await;
    let new = w.store.requeue(w.ws, vec![claim.delivery_id]).await.unwrap()[0];
    let delivery = w.delivery(new).await;
    assert_eq!((delivery.generation, delivery.parent_delivery), (1, Some(claim.delivery_id)));
    assert_eq!(
        (delivery.status, delivery.counters, delivery.claim_seq),
        (Status::Queued, Default::default(), 0)
    );
    assert_eq!(w.delivery(claim.delivery_id).await, before, "the old row stays as it was");
    let copy = NewMessage { content_hash: "hash of раз".into(), ..message("копия", &channels) };
    assert_eq!(
        w.enqueue(vec![copy]).await[0].deliveries[0].status,
        Status::Deduped,
        "it is on its way again"
    );
    let again = w.claim_one().await;
    assert_eq!(again.delivery_id, new);
    assert_ne!(again.idempotency_key, claim.idempotency_key, "platforms must not take it for a repeat");
    w.fail(&again, permanent(Scope::Delivery)).await;
    let third = w.store.requeue(w.ws, vec![new]).await.unwrap()[0];
    assert_eq!(w.delivery(third).await.generation, 2);
}

async fn only_failed_deliveries_can_be_requeued(w: &World) {
    let channels = w.channels(2).await;
    let ids: Vec<DeliveryId> =
        w.post("раз", &channels).await.deliveries.iter().map(|delivery| delivery.delivery_id).collect();
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(Scope::Delivery)).await;
    let refused = w.store.requeue(w.ws, ids).await.unwrap_err();
    assert!(matches!(refused, StoreError::IllegalTransition { .. }), "{refused}");
    assert!(refused.to_string().contains("only dead and failed_permanent"), "{refused}");
    let all = w.store.deliveries(w.ws, DeliveryFilter::default(), 10).await.unwrap();
    assert_eq!(all.len(), 2, "refused as a whole");
}

async fn a_cancel_ends_what_waits(w: &World) {
    let channels = w.channels(1).await;
    let ids: Vec<DeliveryId> = [w.post("раз", &channels).await, w.post("два", &channels).await]
        .iter()
        .map(|enqueued| enqueued.deliveries[0].delivery_id)
        .collect();
    assert_eq!(w.store.cancel(w.ws, vec![ids[0]]).await.unwrap(), [true]);
    assert_eq!(w.store.cancel(w.ws, vec![ids[0]]).await.unwrap(), [false]);
    let delivery = w.delivery(ids[0]).await;
    assert_eq!((delivery.status, delivery.reason.as_deref()), (Status::Dead, Some("cancelled")));
    assert_eq!(w.claim_one().await.delivery_id, ids[1], "the lane goes on behind it");
    let copy = NewMessage { content_hash: "hash of раз".into(), ..message("копия", &channels) };
    assert_eq!(w.enqueue(vec![copy]).await[0].deliveries[0].status, Status::Queued, "it was never said");
    assert!(w.event_names().await.contains(&"cancelled".to_owned()));
}

async fn a_cancel_between_claim_and_send_comes_too_late(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    assert_eq!(w.store.cancel(w.ws, vec![claim.delivery_id]).await.unwrap(), [false]);
    assert_eq!(w.sent(&claim).await, Finished::Done(Status::Sent));
}

async fn a_removed_channel_fails_what_waited_for_it(w: &World) {
    let channels = w.channels(2).await;
    w.post("раз", &channels).await;
    let second = w.post("два", &channels).await;
    let claims = w.claim(10).await;
    w.store.remove_channel(w.ws, channels[0]).await.unwrap();
    let delivery = w.delivery(second.deliveries[0].delivery_id).await;
    assert_eq!(
        (delivery.status, delivery.reason.as_deref()),
        (Status::FailedPermanent, Some("channel_removed"))
    );
    let out = claims.iter().find(|claim| claim.destination.channel() == Some(channels[0])).unwrap();
    assert_eq!(w.sent(out).await, Finished::Done(Status::Sent), "what was out is still told");
    let refused = w.store.enqueue(w.ws, vec![message("три", &channels)]).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { what: "channel", .. }), "{refused}");
    let refused = w.store.requeue(w.ws, vec![delivery.delivery_id]).await.unwrap_err();
    assert!(refused.to_string().contains("its channel was removed"), "{refused}");
    let new = NewChannel {
        account_id: claims[0].account_id,
        name: "канал 0".into(),
        target: "@снова".into(),
        settings: ChannelSettings::default(),
    };
    w.store.create_channel(w.ws, new).await.expect("the name is free again");
}

async fn listings_filter_and_continue(w: &World) {
    let channels = w.channels(2).await;
    for n in 0..3 {
        w.post(&format!("пост {n}"), &channels).await;
    }
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(Scope::Delivery)).await;
    let list = |filter: DeliveryFilter, limit| w.store.deliveries(w.ws, filter, limit);
    let failed = DeliveryFilter { status: Some(Status::FailedPermanent), ..Default::default() };
    assert_eq!(list(failed, 10).await.unwrap()[0].delivery_id, claim.delivery_id);
    let by_code = DeliveryFilter { code: Some("403".into()), ..Default::default() };
    assert_eq!(list(by_code, 10).await.unwrap().len(), 1);
    let of_channel = DeliveryFilter { channel_id: Some(channels[1]), ..Default::default() };
    assert_eq!(list(of_channel, 10).await.unwrap().len(), 3);
    let of_message = DeliveryFilter { message_id: Some(claim.message_id), ..Default::default() };
    assert_eq!(list(of_message, 10).await.unwrap().len(), 2);
    let page = list(DeliveryFilter::default(), 4).await.unwrap();
    let rest = DeliveryFilter { after: Some(page[3].delivery_id), ..Default::default() };
    assert_eq!((page.len(), list(rest, 4).await.unwrap().len()), (4, 2));
    let newest = DeliveryFilter { order: ListOrder::NewestFirst, ..Default::default() };
    let mut backwards: Vec<_> = list(newest.clone(), 4).await.unwrap();
    let before = DeliveryFilter { before: Some(backwards[3].delivery_id), ..newest };
    backwards.extend(list(before, 4).await.unwrap());
    let ids: Vec<_> = backwards.iter().rev().map(|row| row.delivery_id).collect();
    let all = list(DeliveryFilter::default(), 10).await.unwrap();
    assert_eq!(ids, all.iter().map(|row| row.delivery_id).collect::<Vec<_>>());
}

const KEEP: Retention = Retention {
    deliveries: Span::from_hours(24),
    deduped: Span::from_hours(1),
    events: Span::from_hours(24),
};

async fn retention_removes_only_what_is_old_and_ended(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    let copy = NewMessage { content_hash: "hash of раз".into(), ..message("копия", &channels) };
    w.enqueue(vec![copy]).await;
    w.post("ждёт", &channels).await;
    w.advance(Span::from_hours(2)).await;
    let removed = w.clear(Whose::Workspace(w.ws)).await;
    assert_eq!((removed.deliveries, removed.messages), (1, 0), "the deduped copy goes first");
    w.advance(Span::from_hours(23)).await;
    let removed = w.clear(Whose::Everyone).await;
    assert_eq!((removed.deliveries, removed.messages), (1, 2));
    assert!(removed.events > 0);
    let left = w.store.deliveries(w.ws, DeliveryFilter::default(), 10).await.unwrap();
    assert_eq!(left.iter().map(|delivery| delivery.status).collect::<Vec<_>>(), [Status::Queued]);
    assert_eq!(w.store.lanes(w.ws).await.unwrap()[0].counts.sent, 1, "what was counted stays counted");
    let next = w.post("дальше", &channels).await.deliveries[0].delivery_id;
    assert!(next > left[0].delivery_id, "ids are never used twice");
}

async fn an_entry_that_is_still_listed_after_a_month_is_not_new_again(w: &World) {
    let channels = w.channels(1).await;
    let post = NewPost { message: message("без даты", &channels), sketch: None, held: None };
    let (source, id) = (post.message.source.clone(), post.message.origin_id.clone());
    w.store.ingest(w.ws, vec![post.clone()], None).await.unwrap();
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    for _ in 0..40 {
        w.advance(Span::from_hours(20)).await;
        w.store.posts_seen(w.ws, &source, vec![id.clone()]).await.unwrap();
        w.clear(Whose::Everyone).await;
    }
    let again = w.store.ingest(w.ws, vec![post.clone()], None).await.unwrap().remove(0);
    assert_eq!((again.fate, again.deliveries.len()), (Fate::Seen, 0));
    w.advance(Span::from_hours(25)).await;
    assert_eq!(w.clear(Whose::Everyone).await.messages, 1, "then nobody shows it");
}

async fn retention_never_forgets_inside_the_window(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    w.advance(Span::from_hours(167)).await;
    let removed = w.clear(Whose::Everyone).await;
    assert_eq!((removed.deliveries, removed.dedup), (1, 0), "the delivery goes, its key stays");
    let copy = |name| NewMessage { content_hash: "hash of раз".into(), ..message(name, &channels) };
    assert_eq!(w.enqueue(vec![copy("копия")]).await[0].deliveries[0].status, Status::Deduped);
    w.advance(Span::from_hours(1)).await;
    assert_eq!(w.enqueue(vec![copy("снова")]).await[0].deliveries[0].status, Status::Queued);
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    w.advance(Span::from_hours(169)).await;
    assert_eq!(w.clear(Whose::Everyone).await.dedup, 1);
}

async fn rows_that_stay_do_not_stand_before_those_that_can_go(w: &World) {
    let channels = w.channels(2).await;
    w.store.pause_channel(w.ws, channels[0], Timestamp::NEVER, "проверка").await.unwrap();
    for n in 0..12 {
        w.post(&format!("ждёт {n}"), &channels[..1]).await;
    }
    w.post("ушёл", &channels[1..]).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    w.advance(Span::from_hours(25)).await;
    let removed = w.clear_by(Whose::Everyone, 3).await;
    assert_eq!(
        (removed.deliveries, removed.messages),
        (1, 1),
        "twelve that wait are passed over, three at a time"
    );
    let left = w.store.deliveries(w.ws, DeliveryFilter::default(), 100).await.unwrap();
    assert_eq!(left.len(), 12);
}

async fn what_was_requeued_is_told_by_its_new_delivery(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(Scope::Delivery)).await;
    w.store.requeue(w.ws, vec![claim.delivery_id]).await.unwrap();
    w.store.requeue(w.ws, vec![claim.delivery_id]).await.unwrap();
    let counts = w.store.lanes(w.ws).await.unwrap()[0].counts;
    assert_eq!((counts.failed_permanent, counts.requeued, counts.queued), (1, 1, 2));
}

async fn unknown_deliveries_are_named(w: &World) {
    let unknown = DeliveryId(31_337);
    for problem in [
        w.store.delivery(w.ws, unknown).await.map(drop).unwrap_err(),
        w.store.requeue(w.ws, vec![unknown]).await.map(drop).unwrap_err(),
        w.store.cancel(w.ws, vec![unknown]).await.map(drop).unwrap_err(),
    ] {
        assert!(problem.to_string().contains("delivery 31337 is not known"), "{problem}");
    }
}
