//! Commit: only who holds the claim, each ending as its rule says, and a late success is not thrown away.

use domain::delivery::Status;
use domain::limits::{ATTEMPTS_MAX, BACKOFF_MAX};
use domain::outcome::{CODE_NOT_READY, Category, Failure, Outcome, Scope};
use domain::time::Span;
use store::*;

use crate::world::*;

contract! {
    a_lane_tells_what_its_other_deliveries_are_called,
    a_stale_token_changes_nothing_and_says_lost_claim,
    a_stale_worker_cannot_end_its_successors_claim,
    a_duplicate_outcome_changes_nothing,
    attempts_are_counted_at_the_claim_and_nowhere_else,
    charged_attempts_end_dead_at_their_limit,
    a_refused_delivery_fails_alone,
    a_released_claim_costs_nothing,
    a_late_success_is_adopted_if_nothing_was_sent_since,
    a_late_success_after_a_new_claim_is_only_recorded,
    an_expired_claim_cannot_be_committed_as_if_it_were_held,
    a_flood_pauses_the_channel_and_is_never_undercut,
    a_second_flooding_channel_cools_the_account_down,
    an_outage_cools_the_account_down_and_charges_nobody,
    a_revoked_token_pauses_the_account_and_keeps_the_backlog,
    three_refusals_disable_the_channel_and_keep_its_queue,
    a_success_ends_the_streak,
    an_unknown_outcome_follows_the_policy,
    an_upload_that_is_not_ready_waits_uncharged,
    a_given_retry_time_is_kept,
    parts_survive_a_retry,
    a_part_needs_the_claim,
    a_mixed_batch_settles_each_on_its_own,
    successes_leave_what_lies_between_them_in_flight,
    a_claim_named_with_another_lane_is_refused,
    timestamps_and_attempts_tell_the_whole_story,
    a_resumed_channel_sends_at_once_what_a_flood_put_off,
    a_resumed_account_sends_at_once_what_a_flood_put_off,
    a_delivery_that_is_handed_back_again_and_again_waits,
}

async fn one(w: &World, settings: ChannelSettings) -> Claim {
    let account = w.account().await;
    let channel = w.channel_with(account, settings).await;
    w.post("Пропала такса", &[channel]).await;
    w.claim_one().await
}

async fn a_stale_token_changes_nothing_and_says_lost_claim(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    let before = w.delivery(claim.delivery_id).await;
    let forged = Claim { claim_token: domain::ids::ClaimToken(uuid::Uuid::from_u128(1)), ..claim.clone() };
    assert_eq!(w.sent(&forged).await, Finished::LostClaim);
    assert_eq!(w.fail(&forged, permanent(Scope::Delivery)).await, Finished::LostClaim);
    assert_eq!(w.finish(&forged, FinishKind::Release).await, Finished::LostClaim);
    let unknown = Claim { delivery_id: domain::ids::DeliveryId(424_242), ..claim.clone() };
    assert_eq!(w.sent(&unknown).await, Finished::LostClaim);
    assert_eq!(w.delivery(claim.delivery_id).await, before);
    assert_eq!(w.sent(&claim).await, Finished::Done(Status::Sent));
}

async fn a_stale_worker_cannot_end_its_successors_claim(w: &World) {
    let stale = one(w, ChannelSettings::default()).await;
    w.seconds(61).await;
    w.store.recover(Whose::Everyone, 10).await.unwrap();
    let successor = w.claim_one().await;
    assert_eq!(successor.delivery_id, stale.delivery_id);
    assert!(successor.claim_seq > stale.claim_seq);
    // The successor is in the very same state: only the token tells them apart.
    assert_eq!(w.fail(&stale, permanent(Scope::Delivery)).await, Finished::LostClaim);
    assert_eq!(w.finish(&stale, FinishKind::Release).await, Finished::LostClaim);
    assert_eq!(w.status(stale.delivery_id).await, Status::Sending);
    assert_eq!(w.sent(&successor).await, Finished::Done(Status::Sent));
}

async fn a_duplicate_outcome_changes_nothing(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    assert_eq!(w.sent(&claim).await, Finished::Done(Status::Sent));
    let before = w.delivery(claim.delivery_id).await;
    w.seconds(5).await;
    assert_eq!(w.sent(&claim).await, Finished::Repeated(Status::Sent));
    assert_eq!(w.fail(&claim, transient(Scope::Delivery)).await, Finished::Repeated(Status::Sent));
    assert_eq!(w.delivery(claim.delivery_id).await, before);
    assert_eq!(w.store.attempts(w.ws, claim.delivery_id).await.unwrap().len(), 1);
}

async fn attempts_are_counted_at_the_claim_and_nowhere_else(w: &World) {
    let mut claim = one(
        w,
        ChannelSettings { ambiguity: domain::delivery::AmbiguityPolicy::Resend, ..Default::default() },
    )
    .await;
    assert_eq!(claim.counters.attempt, 1);
    for attempt in 2..=4 {
        w.fail(&claim, transient(Scope::Delivery)).await;
        assert_eq!(
            w.delivery(claim.delivery_id).await.counters.attempt,
            attempt - 1,
            "a retry is not an attempt"
        );
        w.seconds(20).await;
        claim = w.claim_one().await;
        assert_eq!(claim.counters.attempt, attempt);
    }
    w.seconds(61).await;
    w.store.recover(Whose::Everyone, 10).await.unwrap();
    assert_eq!(w.delivery(claim.delivery_id).await.counters.attempt, 4, "recovery is not an attempt");
}

async fn charged_attempts_end_dead_at_their_limit(w: &World) {
    let mut claim = one(w, ChannelSettings::default()).await;
    for _ in 1..ATTEMPTS_MAX {
        assert_eq!(w.fail(&claim, transient(Scope::Delivery)).await, Finished::Done(Status::Retry));
        w.advance(BACKOFF_MAX).await;
        w.advance(BACKOFF_MAX).await;
        claim = w.claim_one().await;
    }
    assert_eq!(w.fail(&claim, transient(Scope::Delivery)).await, Finished::Done(Status::Dead));
    let delivery = w.delivery(claim.delivery_id).await;
    assert_eq!(delivery.reason.as_deref(), Some("attempts_exhausted"));
    assert_eq!(delivery.last_error.unwrap()["message"], "сервер занят");
    let names = w.event_names().await;
    assert_eq!(names.iter().filter(|name| *name == "retry_scheduled").count() as i32, ATTEMPTS_MAX - 1);
    assert!(names.ends_with(&["retry_exhausted".into(), "dead_letter".into()]), "{names:?}");
}

async fn a_refused_delivery_fails_alone(w: &World) {
    let channels = w.channels(1).await;
    for text in ["раз", "два"] {
        w.post(text, &channels).await;
    }
    let claim = w.claim_one().await;
    assert_eq!(w.fail(&claim, permanent(Scope::Delivery)).await, Finished::Done(Status::FailedPermanent));
    assert_eq!(w.claim(10).await.len(), 1, "the channel goes on at once");
}

async fn a_released_claim_costs_nothing(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    assert_eq!(w.finish(&claim, FinishKind::Release).await, Finished::Done(Status::Retry));
    let again = w.claim_one().await;
    assert_eq!((again.counters.charged, again.counters.unknowns, again.counters.lost_claims), (0, 0, 0));
    assert_eq!((again.counters.attempt, again.claim_seq), (2, 2));
}

async fn a_late_success_is_adopted_if_nothing_was_sent_since(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    w.store.record_parts(vec![(claim.reference(), PartProgress::Requested)]).await.unwrap();
    w.seconds(61).await;
    w.store.recover(Whose::Everyone, 10).await.unwrap();
    assert_eq!(w.status(claim.delivery_id).await, Status::Retry);
    assert_eq!(w.sent(&claim).await, Finished::Adopted);
    let delivery = w.delivery(claim.delivery_id).await;
    assert_eq!((delivery.status, delivery.provider_message_id.as_deref()), (Status::Sent, Some("m1")));
    assert_eq!((delivery.claim_seq, delivery.counters.attempt), (2, 2), "adopted under a claim of its own");
    assert_eq!(w.sent(&claim).await, Finished::LostClaim, "a second time there is nothing left to adopt");
    w.seconds(600).await;
    assert!(w.claim(10).await.is_empty());
    let copy = NewMessage {
        content_hash: "hash of Пропала такса".into(),
        ..message("копия", &[claim.destination.channel().unwrap()])
    };
    assert_eq!(w.enqueue(vec![copy]).await[0].deliveries[0].status, Status::Deduped, "it counts as said");
}

async fn a_late_success_after_a_new_claim_is_only_recorded(w: &World) {
    let stale = one(w, ChannelSettings::default()).await;
    w.seconds(61).await;
    w.store.recover(Whose::Everyone, 10).await.unwrap();
    let successor = w.claim_one().await;
    assert_eq!(w.sent(&stale).await, Finished::LostClaim);
    assert_eq!(w.status(stale.delivery_id).await, Status::Sending);
    let events = w.store.events(w.ws, 0, 100).await.unwrap();
    let late = events.iter().find(|event| event.name == "late_success").unwrap();
    assert_eq!(late.detail["adopted"], false);
    w.sent(&successor).await;
}

async fn an_expired_claim_cannot_be_committed_as_if_it_were_held(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    w.seconds(60).await;
    // Nobody recovered it, but the lease is over: the failure comes too late …
    assert_eq!(w.fail(&claim, permanent(Scope::Delivery)).await, Finished::LostClaim);
    assert_eq!(w.status(claim.delivery_id).await, Status::Retry);
    let again = w.claim_one().await;
    w.seconds(60).await;
    // … and a success is adopted.
    assert_eq!(w.sent(&again).await, Finished::Adopted);
}

async fn a_flood_pauses_the_channel_and_is_never_undercut(w: &World) {
    let channels = w.channels(2).await;
    for text in ["раз", "два"] {
        w.post(text, &channels).await;
    }
    let claims = w.claim(10).await;
    let flood = transient(Scope::Channel).retry_after(37_000);
    assert_eq!(w.fail(&claims[0], flood).await, Finished::Done(Status::Retry));
    w.sent(&claims[1]).await;
    let next = w.claim(10).await;
    assert_eq!(
        next.iter().map(|claim| claim.destination.channel()).collect::<Vec<_>>(),
        [claims[1].destination.channel()]
    );
    w.seconds(36).await;
    assert!(w.claim(10).await.is_empty());
    w.seconds(1).await;
    let again = w.claim_one().await;
    assert_eq!(
        (again.delivery_id, again.counters.charged, again.counters.flood_waits),
        (claims[0].delivery_id, 0, 1)
    );
}

async fn a_second_flooding_channel_cools_the_account_down(w: &World) {
    let channels = w.channels(3).await;
    w.post("раз", &channels).await;
    let claims = w.claim(10).await;
    let flood = || transient(Scope::Channel).retry_after(10_000);
    w.fail(&claims[0], flood()).await;
    w.fail(&claims[1], flood()).await;
    w.sent(&claims[2]).await;
    w.post("два", &channels[2..]).await;
    assert!(w.claim(10).await.is_empty(), "the third channel waits too");
    assert!(w.event_names().await.contains(&"cooldown".to_owned()));
    w.seconds(10).await;
    assert_eq!(w.claim(10).await.len(), 3);
}

async fn an_outage_cools_the_account_down_and_charges_nobody(w: &World) {
    let mut channels = w.channels(1).await;
    w.post("раз", &channels).await;
    for seconds in [2, 4, 8] {
        let claim = w.claim_one().await;
        w.fail(&claim, transient(Scope::Platform)).await;
        w.seconds(seconds - 1).await;
        assert!(w.claim(10).await.is_empty());
        w.seconds(1).await;
    }
    channels.extend(w.channels(1).await);
    let claim = w.claim_one().await;
    assert_eq!((claim.counters.charged, claim.counters.flood_waits, claim.counters.attempt), (0, 0, 4));
    w.sent(&claim).await;
    w.post("два", &channels[..1]).await;
    let claim = w.claim_one().await;
    w.fail(&claim, transient(Scope::Platform)).await;
    w.seconds(2).await;
    assert_eq!(w.claim(10).await.len(), 1, "a success begins the count anew");
}

async fn a_revoked_token_pauses_the_account_and_keeps_the_backlog(w: &World) {
    let channels = w.channels(1).await;
    for text in ["раз", "два"] {
        w.post(text, &channels).await;
    }
    let claim = w.claim_one().await;
    let revoked = Failure::new(Category::Permanent, Scope::Platform, "401", "Unauthorized");
    assert_eq!(w.fail(&claim, revoked).await, Finished::Done(Status::Retry));
    w.seconds(3_600).await;
    assert!(w.claim(10).await.is_empty());
    let account = &w.store.accounts(w.ws).await.unwrap()[0];
    assert!(account.paused);
    assert_eq!(account.paused_why.as_deref(), Some("401: Unauthorized"));
    let names = w.event_names().await;
    assert!(names.contains(&"account_paused".into()) && names.contains(&"alert".into()), "{names:?}");
    w.store.resume_account(w.ws, account.account_id).await.unwrap();
    let again = w.claim_one().await;
    assert_eq!((again.delivery_id, again.counters.charged), (claim.delivery_id, 0));
}

async fn three_refusals_disable_the_channel_and_keep_its_queue(w: &World) {
    let channels = w.channels(1).await;
    for n in 0..4 {
        w.post(&format!("пост {n}"), &channels).await;
    }
    for minutes in [10, 20] {
        let claim = w.claim_one().await;
        assert_eq!(w.fail(&claim, permanent(Scope::Channel)).await, Finished::Done(Status::FailedPermanent));
        w.seconds(minutes * 60 - 1).await;
        assert!(w.claim(10).await.is_empty());
        w.seconds(1).await;
    }
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(Scope::Channel)).await;
    w.advance(Span::from_hours(100)).await;
    assert!(w.claim(10).await.is_empty());
    let channel = &w.store.channels(w.ws).await.unwrap()[0];
    assert_eq!(
        (channel.enabled, channel.disabled_by, channel.error_streak),
        (false, Some(DisabledBy::Auto), 3)
    );
    assert_eq!(
        w.post("новый", &channels).await.deliveries[0].status,
        Status::Queued,
        "new posts keep queueing"
    );
    assert!(w.event_names().await.contains(&"channel_disabled".to_owned()));
    w.store.resume_channel(w.ws, channels[0]).await.unwrap();
    assert_eq!(w.claim(10).await.len(), 1);
}

async fn a_success_ends_the_streak(w: &World) {
    let channels = w.channels(1).await;
    for n in 0..2 {
        w.post(&format!("пост {n}"), &channels).await;
    }
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(Scope::Channel)).await;
    w.seconds(600).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    assert_eq!(w.store.channels(w.ws).await.unwrap()[0].error_streak, 0);
}

async fn an_unknown_outcome_follows_the_policy(w: &World) {
    use domain::delivery::AmbiguityPolicy::{Hold, Reconcile, Resend, ResendOnce};
    for (ambiguity, survives) in [(Hold, 0), (ResendOnce, 1), (Reconcile, 1), (Resend, ATTEMPTS_MAX - 1)] {
        let settings = ChannelSettings { ambiguity, dedup: DedupMode::Off, ..ChannelSettings::default() };
        let account = w.account().await;
        let channel = w.channel_with(account, settings).await;
        w.post(&format!("пост {ambiguity:?}"), &[channel]).await;
        for n in 0..=survives {
            let claim = w.claim_one().await;
            let expected = if n < survives { Status::Retry } else { Status::Dead };
            assert_eq!(w.fail(&claim, transient(Scope::Delivery).unknown()).await, Finished::Done(expected));
            w.advance(BACKOFF_MAX).await;
        }
    }
    let unknown = w.event_names().await.iter().filter(|name| *name == "outcome_unknown").count();
    assert_eq!(unknown as i32, 1 + 2 + 2 + ATTEMPTS_MAX);
}

async fn an_upload_that_is_not_ready_waits_uncharged(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    let not_ready = Failure::new(Category::Transient, Scope::Delivery, CODE_NOT_READY, "рано");
    w.fail(&claim, not_ready).await;
    w.seconds(2).await;
    let again = w.claim_one().await;
    assert_eq!((again.counters.charged, again.counters.not_ready_waits), (0, 1));
}

async fn a_given_retry_time_is_kept(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    let at = START + Span::from_secs(100);
    let failed = Outcome::Failed(transient(Scope::Delivery));
    w.finish(&claim, FinishKind::RetryAt(failed, at)).await;
    assert_eq!(w.delivery(claim.delivery_id).await.run_at, Some(at));
    w.seconds(100).await;
    let claim = w.claim_one().await;
    let asked = Outcome::Failed(transient(Scope::Delivery).retry_after(60_000));
    w.finish(&claim, FinishKind::RetryAt(asked, START)).await;
    let run_at = w.delivery(claim.delivery_id).await.run_at;
    assert_eq!(run_at, Some(at + Span::from_secs(60)), "what the platform asked for is a floor");
}

async fn parts_survive_a_retry(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    let done = |part, id: &str| PartProgress::Done { part, provider_message_id: id.into() };
    let progress = vec![(claim.reference(), done(0, "10")), (claim.reference(), done(2, "12"))];
    assert_eq!(w.store.record_parts(progress).await.unwrap(), [true, true]);
    w.fail(&claim, transient(Scope::Delivery)).await;
    w.seconds(3).await;
    let again = w.claim_one().await;
    assert_eq!(again.parts, Parts::from([(0, "10".into()), (2, "12".into())]));
    w.sent(&again).await;
    assert_eq!(w.delivery(claim.delivery_id).await.parts.len(), 2);
}

async fn a_part_needs_the_claim(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    let done = PartProgress::Done { part: 0, provider_message_id: "1".into() };
    let forged =
        ClaimRef { claim_token: domain::ids::ClaimToken(uuid::Uuid::from_u128(1)), ..claim.reference() };
    let batch = vec![(forged, done.clone()), (forged, PartProgress::Requested)];
    assert_eq!(w.store.record_parts(batch).await.unwrap(), [false, false]);
    let too_many = PartProgress::Done { part: 1_000, provider_message_id: "1".into() };
    let refused = w.store.record_parts(vec![(claim.reference(), too_many)]).await;
    assert!(matches!(refused, Err(StoreError::Invalid { .. })));
    w.seconds(60).await;
    assert_eq!(w.store.record_parts(vec![(claim.reference(), done)]).await.unwrap(), [false]);
    assert!(w.delivery(claim.delivery_id).await.parts.is_empty());
}

async fn a_mixed_batch_settles_each_on_its_own(w: &World) {
    let channels = w.channels(4).await;
    w.post("раз", &channels).await;
    let claims = w.claim(10).await;
    let failed = |failure| FinishKind::Outcome(Outcome::Failed(failure));
    let forged =
        Claim { claim_token: domain::ids::ClaimToken(uuid::Uuid::from_u128(1)), ..claims[3].clone() };
    let batch = vec![
        finish(&claims[0], sent(&claims[0])),
        finish(&forged, sent(&forged)),
        finish(&claims[1], failed(transient(Scope::Delivery))),
        finish(&claims[2], failed(permanent(Scope::Delivery))),
        finish(&claims[3], FinishKind::Release),
    ];
    let finished = w.store.commit(batch).await.unwrap();
    let done = Finished::Done;
    assert_eq!(
        finished,
        [
            done(Status::Sent),
            Finished::LostClaim,
            done(Status::Retry),
            done(Status::FailedPermanent),
            done(Status::Retry)
        ]
    );
}

async fn successes_leave_what_lies_between_them_in_flight(w: &World) {
    let account = w.account_with(AccountSettings { max_parallel: 5, ..Default::default() }).await;
    let channel = w.channel_with(account, ChannelSettings { max_parallel: 5, ..Default::default() }).await;
    for n in 0..6 {
        w.post(&format!("Пост {n}"), &[channel]).await;
    }
    let claims = w.claim(10).await;
    assert_eq!(claims.len(), 5);
    let every_second: Vec<&Claim> = claims.iter().step_by(2).collect();
    // The middle one is said twice: the first ending counts.
    let said = [every_second[2], every_second[0], every_second[1], every_second[1]];
    let batch = said.iter().map(|claim| finish(claim, sent(claim))).collect();
    let done = Finished::Done(Status::Sent);
    assert_eq!(w.store.commit(batch).await.unwrap(), [done, done, done, Finished::Repeated(Status::Sent)]);
    w.check().await;
    for between in [&claims[1], &claims[3]] {
        assert_eq!(w.status(between.delivery_id).await, Status::Sending);
    }
    assert_eq!(w.claim(10).await.len(), 1, "three places are free, and one row waits");
    for between in [&claims[1], &claims[3]] {
        assert_eq!(w.sent(between).await, done);
    }
    w.check().await;
}

async fn a_claim_named_with_another_lane_is_refused(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    let before = w.delivery(claim.delivery_id).await;
    w.post("Найдена кошка", &w.channels(1).await).await;
    let other = w.claim_one().await;
    let lost = Claim { lane_id: other.lane_id, account_id: other.account_id, ..claim.clone() };
    for ending in [sent(&lost), FinishKind::Release] {
        let batch = vec![finish(&other, sent(&other)), finish(&lost, ending)];
        let error = w.store.commit(batch).await.unwrap_err();
        let told = format!("commit: delivery {}: it belongs to another lane", claim.delivery_id);
        assert_eq!(error.to_string(), told);
    }
    assert_eq!(w.delivery(claim.delivery_id).await, before);
    assert_eq!(w.status(other.delivery_id).await, Status::Sending, "the batch as a whole changed nothing");
    assert_eq!(w.sent(&claim).await, Finished::Done(Status::Sent));
}

async fn timestamps_and_attempts_tell_the_whole_story(w: &World) {
    let claim = one(w, ChannelSettings::default()).await;
    w.seconds(1).await;
    w.store.record_parts(vec![(claim.reference(), PartProgress::Requested)]).await.unwrap();
    w.seconds(1).await;
    w.fail(&claim, transient(Scope::Delivery)).await;
    w.seconds(10).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    let attempts = w.store.attempts(w.ws, claim.delivery_id).await.unwrap();
    let at = |seconds| START + Span::from_secs(seconds);
    let told: Vec<_> = attempts
        .iter()
        .map(|a| (a.attempt, a.claim_seq, a.started_at, a.requested_at, a.finished_at))
        .collect();
    assert_eq!(told, [(1, 1, START, Some(at(1)), at(2)), (2, 2, at(12), None, at(12))]);
    assert_eq!(attempts.iter().map(|a| a.outcome.as_str()).collect::<Vec<_>>(), ["retry", "sent"]);
    assert_eq!(attempts[0].error.as_ref().unwrap()["code"], "503");
    assert_eq!(attempts[1].provider_message_id.as_deref(), Some("m1"));
    let delivery = w.delivery(claim.delivery_id).await;
    assert_eq!(
        (delivery.queued_at, delivery.sending_at, delivery.ended_at),
        (START, Some(at(12)), Some(at(12)))
    );
}

async fn a_lane_tells_what_its_other_deliveries_are_called(w: &World) {
    let channel = w.channels(1).await[0];
    for text in ["раз", "два"] {
        w.post(text, &[channel]).await;
    }
    let first = w.claim(1).await.remove(0);
    w.sent(&first).await;
    let second = w.claim(1).await.remove(0);
    let said = w.store.said_lately(w.ws, second.lane_id, second.delivery_id, 10).await.unwrap();
    let id = w.store.delivery(w.ws, first.delivery_id).await.unwrap().provider_message_id;
    assert_eq!(said, Vec::from_iter(id), "the other one, and not its own");
    assert!(w.store.said_lately(w.ws, first.lane_id, first.delivery_id, 10).await.unwrap().is_empty());
}

fn day_long_flood(scope: Scope) -> Failure {
    Failure::new(Category::Transient, scope, "429", "подождите сутки").retry_after(86_400_000)
}

async fn a_resumed_channel_sends_at_once_what_a_flood_put_off(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    w.fail(&claim, day_long_flood(Scope::Channel)).await;
    w.advance(Span::from_secs(60)).await;
    assert!(w.claim(1).await.is_empty());
    w.store.resume_channel(w.ws, channels[0]).await.unwrap();
    assert_eq!(w.claim_one().await.delivery_id, claim.delivery_id);
}

async fn a_resumed_account_sends_at_once_what_a_flood_put_off(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    w.fail(&claim, day_long_flood(Scope::Platform)).await;
    w.advance(Span::from_secs(60)).await;
    assert!(w.claim(1).await.is_empty());
    w.store.resume_account(w.ws, claim.account_id).await.unwrap();
    assert_eq!(w.claim_one().await.delivery_id, claim.delivery_id);
}

async fn a_delivery_that_is_handed_back_again_and_again_waits(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    for _ in 0..3 {
        let claim = w.claim_one().await;
        w.finish(&claim, FinishKind::Release).await;
    }
    assert!(w.claim(1).await.is_empty(), "the third one costs a moment");
    w.advance(Span::from_millis(250)).await;
    let claim = w.claim_one().await;
    w.finish(&claim, FinishKind::Release).await;
    w.advance(Span::from_millis(499)).await;
    assert!(w.claim(1).await.is_empty(), "and the next one twice as long");
    w.advance(Span::from_millis(1)).await;
    w.claim_one().await;
}
