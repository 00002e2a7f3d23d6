//! Recovery: a claim whose holder died is taken up again, honestly.

use domain::delivery::{AmbiguityPolicy, Status};
use domain::limits::{LOST_CLAIMS_MAX, LOST_REQUESTS_MAX};
use domain::time::Span;
use store::*;

use crate::world::*;

contract! {
    an_expired_lease_comes_back,
    a_lease_that_is_renewed_does_not_expire,
    a_request_that_may_have_left_makes_the_outcome_unknown,
    a_request_lost_with_its_process_is_no_attempt_where_repeats_are_recognised,
    what_is_certainly_absent_is_sent_again_however_often_our_process_died,
    nobody_can_say_that_it_is_absent_once_his_own_request_left,
    a_row_that_kills_its_holder_again_and_again_is_poison,
    a_suspect_is_claimed_alone,
    a_suspect_does_not_wait_for_ever,
    recovery_is_not_held_up_by_a_full_lane,
    recovery_takes_no_more_than_it_is_told,
}

async fn recover(w: &World) -> Vec<Recovered> {
    w.store.recover(Whose::Workspace(w.ws), 100).await.unwrap()
}

async fn request_leaves(w: &World, claim: &Claim) {
    let left = w.store.record_parts(vec![(claim.reference(), PartProgress::Requested)]).await.unwrap();
    assert_eq!(left, [true]);
}

async fn an_expired_lease_comes_back(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    w.seconds(59).await;
    assert!(recover(w).await.is_empty());
    w.seconds(1).await;
    let expected = Recovered { delivery_id: claim.delivery_id, status: Status::Retry };
    assert_eq!(recover(w).await, [expected]);
    assert!(recover(w).await.is_empty());
    let again = w.claim_one().await;
    assert_eq!((again.counters.lost_claims, again.counters.unknowns, again.counters.charged), (1, 0, 0));
    assert!(w.event_names().await.contains(&"lease_recovered".to_owned()));
}

async fn a_lease_that_is_renewed_does_not_expire(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    for _ in 0..5 {
        w.seconds(40).await;
        let renewed = w.store.renew(vec![claim.reference()], Span::from_secs(60)).await.unwrap();
        assert_eq!(renewed, [true]);
        assert!(recover(w).await.is_empty());
    }
    w.seconds(60).await;
    assert_eq!(w.store.renew(vec![claim.reference()], Span::from_secs(60)).await.unwrap(), [false]);
    assert_eq!(recover(w).await.len(), 1);
}

async fn a_request_that_may_have_left_makes_the_outcome_unknown(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    for status in [Status::Retry, Status::Dead] {
        let claim = w.claim_one().await;
        w.store.record_parts(vec![(claim.reference(), PartProgress::Requested)]).await.unwrap();
        w.seconds(60).await;
        assert_eq!(recover(w).await[0].status, status);
        w.seconds(20).await;
    }
    let delivery = &w.store.deliveries(w.ws, DeliveryFilter::default(), 10).await.unwrap()[0];
    assert_eq!((delivery.reason.as_deref(), delivery.counters.unknowns), (Some("outcome_unknown"), 2));
    assert_eq!(delivery.counters.lost_claims, 0);
}

/// One post in a channel of this policy.
async fn posted_under(w: &World, ambiguity: AmbiguityPolicy) {
    let account = w.account().await;
    let settings = ChannelSettings { ambiguity, ..ChannelSettings::default() };
    let channel = w.channel_with(account, settings).await;
    w.post("раз", &[channel]).await;
}

/// Claims it, says what was looked for and found, asks, and never comes back.
async fn dies(w: &World, absent: bool) -> Status {
    let claim = w.claim_one().await;
    if absent {
        let noted = w.store.record_parts(vec![(claim.reference(), PartProgress::Absent)]).await.unwrap();
        assert_eq!(noted, [true]);
    }
    request_leaves(w, &claim).await;
    w.seconds(60).await;
    let status = recover(w).await[0].status;
    w.seconds(20).await;
    status
}

async fn only_delivery(w: &World) -> Delivery {
    w.store.deliveries(w.ws, DeliveryFilter::default(), 10).await.unwrap().remove(0)
}

async fn a_request_lost_with_its_process_is_no_attempt_where_repeats_are_recognised(w: &World) {
    posted_under(w, AmbiguityPolicy::Resend).await;
    for lost in 1..LOST_REQUESTS_MAX {
        assert_eq!(dies(w, false).await, Status::Retry);
        let counters = only_delivery(w).await.counters;
        assert_eq!((counters.lost_requests, counters.unknowns, counters.charged), (lost, lost, 0));
    }
    assert_eq!(dies(w, false).await, Status::Dead, "a post that really kills has an end");
    assert_eq!(only_delivery(w).await.reason.as_deref(), Some("poison"));
    assert!(w.event_names().await.contains(&"dead_letter".to_owned()));
    assert_eq!(w.store.audit(w.ws).await.unwrap(), Vec::<String>::new());
}

async fn what_is_certainly_absent_is_sent_again_however_often_our_process_died(w: &World) {
    posted_under(w, AmbiguityPolicy::Reconcile).await;
    assert_eq!(dies(w, false).await, Status::Retry);
    for _ in 0..3 {
        assert_eq!(dies(w, true).await, Status::Retry, "looked for, not there, sent and lost again");
    }
    assert_eq!(dies(w, false).await, Status::Dead, "nobody looked, and it may be there");
    let delivery = only_delivery(w).await;
    assert_eq!(delivery.reason.as_deref(), Some("outcome_unknown"));
    assert_eq!((delivery.counters.lost_requests, delivery.counters.charged), (5, 0));
}

async fn nobody_can_say_that_it_is_absent_once_his_own_request_left(w: &World) {
    posted_under(w, AmbiguityPolicy::Reconcile).await;
    assert_eq!(dies(w, false).await, Status::Retry);
    let claim = w.claim_one().await;
    request_leaves(w, &claim).await;
    w.store.record_parts(vec![(claim.reference(), PartProgress::Absent)]).await.unwrap();
    w.seconds(60).await;
    assert_eq!(recover(w).await[0].status, Status::Dead);
    let noted = w.store.record_parts(vec![(claim.reference(), PartProgress::Absent)]).await.unwrap();
    assert_eq!(noted, [false], "the claim is not his any more");
}

async fn a_row_that_kills_its_holder_again_and_again_is_poison(w: &World) {
    let channels = w.channels(1).await;
    w.post("яд", &channels).await;
    for lost in 1..=LOST_CLAIMS_MAX {
        w.claim_one().await;
        w.seconds(60).await;
        let status = if lost < LOST_CLAIMS_MAX { Status::Retry } else { Status::Dead };
        assert_eq!(recover(w).await[0].status, status, "after {lost}");
    }
    let delivery = &w.store.deliveries(w.ws, DeliveryFilter::default(), 10).await.unwrap()[0];
    assert_eq!(delivery.reason.as_deref(), Some("poison"));
    assert!(w.event_names().await.contains(&"dead_letter".to_owned()));
}

async fn a_suspect_is_claimed_alone(w: &World) {
    let settings = AccountSettings { retry_parallel: 3, ..AccountSettings::default() };
    let account = w.account_with(settings).await;
    let mut channels = Vec::new();
    for _ in 0..3 {
        channels.push(w.channel(account).await);
    }
    w.post("раз", &channels).await;
    assert_eq!(w.claim(10).await.len(), 3);
    w.seconds(60).await;
    assert_eq!(recover(w).await.len(), 3);
    let mut alone = Vec::new();
    for _ in 0..3 {
        let claims = w.claim(10).await;
        assert_eq!(claims.len(), 1, "whoever kills its holder takes nobody along");
        assert!(w.claim(10).await.is_empty(), "the next waits until the request of this one leaves");
        request_leaves(w, &claims[0]).await;
        alone.extend(claims);
    }
    for claim in &alone {
        w.sent(claim).await;
    }
    w.post("два", &channels).await;
    assert_eq!(w.claim(10).await.len(), 3, "the next posts are not suspect");
}

async fn a_suspect_does_not_wait_for_ever(w: &World) {
    let channels = w.channels(2).await;
    w.post("раз", &channels[..1]).await;
    let lost = w.claim_one().await;
    w.seconds(60).await;
    w.post("два", &channels[1..]).await;
    assert_eq!(w.claim(10).await.len(), 1, "a fresh one is out");
    assert_eq!(recover(w).await.len(), 1);
    assert!(w.claim(10).await.is_empty(), "were the fresh one a killer, the suspect would be blamed");
    w.seconds(10).await;
    assert_eq!(w.claim_one().await.delivery_id, lost.delivery_id);
}

async fn recovery_is_not_held_up_by_a_full_lane(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { max_parallel: 2, ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    for n in 0..4 {
        w.post(&format!("пост {n}"), &channels).await;
    }
    assert_eq!(w.claim(10).await.len(), 2);
    w.seconds(60).await;
    assert!(w.claim(10).await.is_empty(), "the lane is full until somebody recovers it");
    assert_eq!(recover(w).await.len(), 2);
    assert!(!w.claim(10).await.is_empty());
}

async fn recovery_takes_no_more_than_it_is_told(w: &World) {
    let channels = w.channels(5).await;
    w.post("раз", &channels).await;
    w.claim(10).await;
    w.seconds(60).await;
    for expected in [2, 2, 1, 0] {
        assert_eq!(w.store.recover(Whose::Everyone, 2).await.unwrap().len(), expected);
    }
}
