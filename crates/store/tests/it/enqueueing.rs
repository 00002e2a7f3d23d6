//! Enqueue: everything or nothing, once and only once.

use domain::delivery::{Priority, Status};
use domain::ids::{CaseId, ChannelId, WorkspaceId};
use domain::time::Span;
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    one_message_goes_from_enqueue_to_sent,
    the_same_call_again_gives_the_same_ids,
    the_same_call_again_gives_the_same_ids_when_its_channel_is_gone,
    the_same_key_with_another_body_is_refused,
    a_repeat_within_the_window_is_deduped,
    a_repeat_of_something_in_flight_is_deduped,
    the_window_is_anchored_to_the_sending,
    a_deduped_copy_does_not_extend_the_window,
    a_failed_delivery_frees_its_key,
    two_enqueues_at_once_let_only_one_through,
    a_batch_dedups_within_itself,
    kinds_never_suppress_each_other,
    a_message_without_a_fingerprint_is_never_suppressed_by_it,
    news_from_two_groups_goes_out_once_where_cases_are_counted,
    an_unknown_channel_fails_the_whole_batch,
    a_channel_disabled_by_an_operator_is_skipped_and_said_so,
    a_batch_of_ten_thousand_is_one_call,
    unicode_and_large_payloads_come_back_whole,
    bad_messages_are_refused_before_anything_is_written,
    work_for_later_waits,
}

async fn one_message_goes_from_enqueue_to_sent(w: &World) {
    let channels = w.channels(1).await;
    let enqueued = w.post("Пропал кот Филя", &channels).await;
    let claim = w.claim_one().await;
    assert_eq!(claim.delivery_id, enqueued.deliveries[0].delivery_id);
    assert_eq!(w.store.payload(w.ws, claim.message_id).await.unwrap(), json!({"text": "Пропал кот Филя"}));
    assert_eq!(w.sent(&claim).await, Finished::Done(Status::Sent));
    let delivery = w.delivery(claim.delivery_id).await;
    assert_eq!(delivery.provider_message_id.as_deref(), Some("m1"));
    assert_eq!((delivery.counters.attempt, delivery.sent_at), (1, Some(START)));
    assert!(w.claim(10).await.is_empty());
}

async fn the_same_call_again_gives_the_same_ids(w: &World) {
    let channels = w.channels(3).await;
    let batch = vec![message("раз", &channels), message("два", &channels[..1])];
    let first = w.enqueue(batch.clone()).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    let second = w.enqueue(batch).await;
    for (before, after) in first.iter().zip(&second) {
        assert_eq!(before.message_id, after.message_id);
        let ids = |enqueued: &Enqueued| enqueued.deliveries.iter().map(|d| d.delivery_id).collect::<Vec<_>>();
        assert_eq!(ids(before), ids(after));
        assert!(before.created && !after.created);
    }
    assert_eq!(second[0].deliveries[0].status, Status::Sent);
}

async fn the_same_call_again_gives_the_same_ids_when_its_channel_is_gone(w: &World) {
    let channels = w.channels(2).await;
    let post = message("раз", &channels);
    let first = w.enqueue(vec![post.clone()]).await.remove(0);
    w.store.remove_channel(w.ws, channels[0]).await.unwrap();
    let again = w.enqueue(vec![post]).await.remove(0);
    assert_eq!((again.message_id, again.created), (first.message_id, false));
    let now: Vec<_> = again.deliveries.iter().map(|d| (d.delivery_id, d.status)).collect();
    let ids: Vec<_> = first.deliveries.iter().map(|d| d.delivery_id).collect();
    assert_eq!(now, [(ids[0], Status::FailedPermanent), (ids[1], Status::Queued)]);
    let new = w.store.enqueue(w.ws, vec![message("два", &channels)]).await.unwrap_err();
    assert!(matches!(new, StoreError::NotFound { .. }), "what is new needs its channels: {new}");
}

async fn the_same_key_with_another_body_is_refused(w: &World) {
    let channels = w.channels(1).await;
    let keyed =
        |text: &str| NewMessage { idempotency_key: Some("ключ".into()), ..message(text, &channels) };
    let first = w.enqueue(vec![keyed("раз")]).await;
    let refused = w.store.enqueue(w.ws, vec![message("до", &channels), keyed("другое")]).await.unwrap_err();
    assert!(matches!(&refused, StoreError::KeyConflict { key } if key == "ключ"), "{refused}");
    let origin = NewMessage { payload: json!({"text": "правка"}), ..keyed("раз") };
    assert!(matches!(w.store.enqueue(w.ws, vec![origin]).await, Err(StoreError::KeyConflict { .. })));
    assert_eq!(w.enqueue(vec![keyed("раз")]).await[0].message_id, first[0].message_id);
    assert_eq!(w.claim(10).await.len(), 1, "nothing of the refused batch was written");
}

async fn a_repeat_within_the_window_is_deduped(w: &World) {
    let channels = w.channels(2).await;
    w.post("раз", &channels[..1]).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    let copy = NewMessage { content_hash: "hash of раз".into(), ..message("копия", &channels) };
    let enqueued = w.enqueue(vec![copy]).await.remove(0);
    let statuses: Vec<Status> = enqueued.deliveries.iter().map(|delivery| delivery.status).collect();
    assert_eq!(statuses, [Status::Deduped, Status::Queued], "each channel decides for itself");
    let delivery = w.delivery(enqueued.deliveries[0].delivery_id).await;
    assert_eq!(delivery.reason.as_deref(), Some("duplicate"));
    assert!(w.event_names().await.contains(&"deduped".to_owned()));
}

async fn a_repeat_of_something_in_flight_is_deduped(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let copy =
        |n: u32| NewMessage { content_hash: "hash of раз".into(), ..message(&n.to_string(), &channels) };
    assert_eq!(w.enqueue(vec![copy(1)]).await[0].deliveries[0].status, Status::Deduped, "still queued");
    let claim = w.claim_one().await;
    assert_eq!(w.enqueue(vec![copy(2)]).await[0].deliveries[0].status, Status::Deduped, "being sent");
    w.fail(&claim, transient(domain::outcome::Scope::Delivery)).await;
    assert_eq!(w.enqueue(vec![copy(3)]).await[0].deliveries[0].status, Status::Deduped, "waiting to retry");
}

async fn send_once(w: &World, text: &str, channels: &[ChannelId]) {
    w.post(text, channels).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
}

fn copy_of(text: &str, origin: &str, channels: &[ChannelId]) -> NewMessage {
    NewMessage { content_hash: format!("hash of {text}"), ..message(origin, channels) }
}

async fn the_window_is_anchored_to_the_sending(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { dedup_ttl: Span::from_secs(100), ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    w.post("раз", &channels).await;
    w.seconds(50).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    w.advance(Span(100_000_000 - 1)).await;
    let inside = w.enqueue(vec![copy_of("раз", "внутри", &channels)]).await;
    assert_eq!(inside[0].deliveries[0].status, Status::Deduped);
    w.advance(Span(1)).await;
    let outside = w.enqueue(vec![copy_of("раз", "снаружи", &channels)]).await;
    assert_eq!(
        outside[0].deliveries[0].status,
        Status::Queued,
        "a hundred seconds after the sending it is news"
    );
}

async fn a_deduped_copy_does_not_extend_the_window(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { dedup_ttl: Span::from_secs(100), ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    send_once(w, "раз", &channels).await;
    for n in 1..=9 {
        w.seconds(10).await;
        let copy = w.enqueue(vec![copy_of("раз", &format!("копия {n}"), &channels)]).await;
        assert_eq!(copy[0].deliveries[0].status, Status::Deduped);
    }
    w.seconds(10).await;
    let news = w.enqueue(vec![copy_of("раз", "снова", &channels)]).await;
    assert_eq!(news[0].deliveries[0].status, Status::Queued);
}

async fn a_failed_delivery_frees_its_key(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(domain::outcome::Scope::Delivery)).await;
    let again = w.enqueue(vec![copy_of("раз", "снова", &channels)]).await;
    assert_eq!(again[0].deliveries[0].status, Status::Queued);
}

async fn two_enqueues_at_once_let_only_one_through(w: &World) {
    let channels = w.channels(3).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (world, batch) = (w.clone(), vec![copy_of("одно", &format!("автор {n}"), &channels)]);
        tasks.spawn(async move { world.enqueue(batch).await.remove(0) });
    }
    let enqueued = tasks.join_all().await;
    for channel in &channels {
        let through = enqueued.iter().flat_map(|e| &e.deliveries).filter(|d| d.channel_id == *channel);
        assert_eq!(through.filter(|delivery| delivery.status == Status::Queued).count(), 1);
    }
}

async fn a_batch_dedups_within_itself(w: &World) {
    let channels = w.channels(2).await;
    let batch = (0..3).map(|n| copy_of("одно", &n.to_string(), &channels)).collect();
    let enqueued = w.enqueue(batch).await;
    assert!(enqueued[0].deliveries.iter().all(|delivery| delivery.status == Status::Queued));
    assert!(enqueued[1..].iter().flat_map(|e| &e.deliveries).all(|d| d.status == Status::Deduped));
}

async fn kinds_never_suppress_each_other(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { dedup: DedupMode::Fingerprint, ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    let of_kind = |kind: &str| NewMessage {
        fingerprint: Some("один отпечаток".into()),
        kind: kind.into(),
        ..message(kind, &channels)
    };
    let enqueued = w.enqueue(vec![of_kind("lost"), of_kind("found"), of_kind("reunited")]).await;
    assert!(enqueued.iter().all(|e| e.deliveries[0].status == Status::Queued));
    let again = NewMessage { origin_id: "ещё".into(), ..of_kind("lost") };
    assert_eq!(w.enqueue(vec![again]).await[0].deliveries[0].status, Status::Deduped);
}

async fn a_message_without_a_fingerprint_is_never_suppressed_by_it(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { dedup: DedupMode::Fingerprint, ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    let batch = vec![copy_of("одно", "1", &channels), copy_of("одно", "2", &channels)];
    assert!(w.enqueue(batch).await.iter().all(|e| e.deliveries[0].status == Status::Queued));
}

async fn news_from_two_groups_goes_out_once_where_cases_are_counted(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { dedup: DedupMode::Case, ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    let news =
        |origin: &str| NewMessage { kind: "news".into(), ..copy_of("Субботник", origin, &channels) };
    // Within one call, and in another one.
    let enqueued = w.enqueue(vec![news("1"), news("2"), message("Другая новость", &channels)]).await;
    let status = |enqueued: &Enqueued| enqueued.deliveries[0].status;
    assert_eq!(
        enqueued.iter().map(status).collect::<Vec<_>>(),
        [Status::Queued, Status::Deduped, Status::Queued]
    );
    let repeat = w.enqueue(vec![news("3")]).await.remove(0);
    assert_eq!(status(&repeat), Status::Deduped);
    let first = enqueued[0].deliveries[0].delivery_id;
    let before = w.store.said_before(w.ws, repeat.deliveries[0].delivery_id).await.unwrap();
    assert_eq!(before.map(|said| said.delivery_id), Some(first), "and it says of what it is a copy");
    // A requeue takes the key again.
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(domain::outcome::Scope::Delivery)).await;
    w.store.requeue(w.ws, vec![claim.delivery_id]).await.unwrap();
    assert_eq!(status(&w.enqueue(vec![news("4")]).await[0]), Status::Deduped);
}

async fn an_unknown_channel_fails_the_whole_batch(w: &World) {
    let channels = w.channels(1).await;
    let batch = vec![message("раз", &channels), message("два", &[ChannelId(999_999)])];
    let refused = w.store.enqueue(w.ws, batch).await.unwrap_err();
    assert!(refused.to_string().contains("channel 999999"), "{refused}");
    let unknown = w.store.enqueue(WorkspaceId(999_999), vec![message("раз", &[])]).await;
    assert!(unknown.unwrap_err().to_string().contains("999999"));
    let case = NewMessage { case_id: Some(CaseId(77)), ..message("три", &channels) };
    assert!(w.store.enqueue(w.ws, vec![case]).await.unwrap_err().to_string().contains("case 77"));
    assert!(w.claim(10).await.is_empty());
    assert!(w.event_names().await.is_empty());
}

async fn a_channel_disabled_by_an_operator_is_skipped_and_said_so(w: &World) {
    let channels = w.channels(2).await;
    w.store.disable_channel(w.ws, channels[0], DisabledBy::Operator).await.unwrap();
    w.store.disable_channel(w.ws, channels[1], DisabledBy::Auto).await.unwrap();
    let enqueued = w.post("раз", &channels).await;
    assert_eq!(enqueued.skipped, [channels[0]]);
    assert_eq!(enqueued.deliveries[0].channel_id, channels[1], "an automatic no keeps its queue");
    assert!(w.event_names().await.contains(&"ingest_skipped".to_owned()));
    assert!(w.claim(10).await.is_empty());
}

async fn a_batch_of_ten_thousand_is_one_call(w: &World) {
    let channels = w.channels(1).await;
    let batch = (0..10_000).map(|n| message(&format!("пост {n}"), &channels)).collect();
    let enqueued = w.enqueue(batch).await;
    assert_eq!(enqueued.len(), 10_000);
    let lanes = w.store.lanes(w.ws).await.unwrap();
    assert_eq!(lanes[0].counts.queued, 10_000);
    let too_many = (0..10_001).map(|n| message(&format!("ещё {n}"), &channels)).collect();
    let refused = w.store.enqueue(w.ws, too_many).await.unwrap_err();
    assert!(refused.to_string().contains("split the batch"), "{refused}");
}

async fn unicode_and_large_payloads_come_back_whole(w: &World) {
    let channels = w.channels(1).await;
    let text = "🐕‍🦺 Собака! \u{301}ё «‘“ \\ \" ' ; -- \u{feff}\u{202e}".repeat(1_500);
    assert!(text.len() > 64 * 1_024);
    let large = NewMessage {
        payload: json!({"text": text, "n": 1.5}),
        ..message("🐈'; DROP TABLE messages", &channels)
    };
    let enqueued = w.enqueue(vec![large.clone()]).await.remove(0);
    assert_eq!(w.store.payload(w.ws, enqueued.message_id).await.unwrap(), large.payload);
    let huge = NewMessage { payload: json!("ы".repeat(1 << 20)), ..message("огромный", &channels) };
    let refused = w.store.enqueue(w.ws, vec![huge]).await.unwrap_err();
    assert!(refused.to_string().contains("at most 1048576"), "{refused}");
}

async fn bad_messages_are_refused_before_anything_is_written(w: &World) {
    let channels = w.channels(1).await;
    let good = || message("раз", &channels);
    for bad in [
        NewMessage { source: String::new(), ..good() },
        NewMessage { origin_id: String::new(), ..good() },
        NewMessage { content_hash: String::new(), ..good() },
        NewMessage { payload: json!({"text": "а\0б"}), ..good() },
        NewMessage { tags: vec!["а\0б".into()], ..good() },
    ] {
        let refused = w.store.enqueue(w.ws, vec![message("до", &channels), bad]).await.unwrap_err();
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused}");
    }
    assert!(w.claim(10).await.is_empty());
}

async fn work_for_later_waits(w: &World) {
    let channels = w.channels(1).await;
    let later = START + Span::from_secs(30);
    w.enqueue(vec![NewMessage {
        run_at: Some(later),
        priority: Priority::Bulk,
        ..message("потом", &channels)
    }])
    .await;
    let claimed = w.claim_ahead(10, Span::ZERO).await;
    assert_eq!((claimed.claims.len(), claimed.next_at), (0, Some(later)));
    w.seconds(30).await;
    assert_eq!(w.claim(10).await.len(), 1);
}
