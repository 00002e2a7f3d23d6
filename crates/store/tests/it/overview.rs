//! What people look at from above: bars that agree with what ended, and posts by filter in bounded windows.

use domain::ids::{ChannelId, MessageId};
use domain::outcome::{Outcome, Scope};
use domain::time::{Span, Timestamp};
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    what_ends_is_counted_in_its_hour,
    every_way_of_a_success_is_counted_once,
    what_is_dropped_or_repeated_is_counted_too,
    bars_are_kept_as_long_as_deliveries_and_no_longer,
    campaigns_are_not_among_the_bars,
    posts_are_found_by_kind_channel_and_fate,
    a_window_bounds_what_is_looked_at,
    what_a_bot_answers_is_no_post,
    alerts_and_callbacks_are_neither_posts_nor_bars,
}

const HOUR: Span = Span::from_hours(1);

async fn bars(w: &World, channel: ChannelId) -> Vec<(i64, [i64; 3])> {
    let counts = w.store.lane_counts(w.ws, START - HOUR).await.unwrap();
    let own = counts.into_iter().filter(|count| count.channel_id == channel);
    own.map(|count| ((count.at - START).0 / HOUR.0, [count.sent, count.deduped, count.failed])).collect()
}

async fn what_ends_is_counted_in_its_hour(w: &World) {
    let channels = w.channels(2).await;
    for text in ["раз", "два", "три"] {
        w.post(text, &channels).await;
    }
    for claim in w.claim(10).await {
        w.sent(&claim).await;
    }
    w.advance(HOUR).await;
    let mut claims = w.claim(10).await;
    while !claims.is_empty() {
        for claim in &claims {
            w.fail(claim, permanent(Scope::Delivery)).await;
        }
        claims = w.claim(10).await;
    }
    for channel in &channels {
        assert_eq!(bars(w, *channel).await, [(0, [1, 0, 0]), (1, [0, 0, 2])], "two hours, in order");
    }
    let last = w.store.last_sent(w.ws).await.unwrap();
    assert_eq!(last.len(), 2);
    assert!(last.iter().all(|(_, at)| *at == START), "{last:?}");
    let young = w.store.lane_counts(w.ws, START + HOUR).await.unwrap();
    assert_eq!(young.len(), 2, "only what was asked for");
    let other = w.another_workspace("чужой").await;
    assert!(other.store.lane_counts(other.ws, Timestamp(0)).await.unwrap().is_empty());
}

async fn every_way_of_a_success_is_counted_once(w: &World) {
    let channels = w.channels(3).await;
    w.post("раз", &channels).await;
    let claims = w.claim(10).await;
    let of = |n: usize| claims.iter().find(|claim| claim.destination.channel() == Some(channels[n])).unwrap();
    let failed = FinishKind::Outcome(Outcome::Failed(permanent(Scope::Delivery)));
    let batch = vec![
        finish(of(0), sent(of(0))),
        finish(of(0), sent(of(0))),
        finish(of(1), failed),
        finish(of(2), sent(of(2))),
    ];
    w.store.commit(batch).await.unwrap();
    assert_eq!(bars(w, channels[0]).await, [(0, [1, 0, 0])], "told twice");
    assert_eq!(bars(w, channels[1]).await, [(0, [0, 0, 1])]);
    assert_eq!(bars(w, channels[2]).await, [(0, [1, 0, 0])], "beside a failure");

    w.post("поздно", &channels[..1]).await;
    let late = w.claim_one().await;
    w.store.record_parts(vec![(late.reference(), PartProgress::Requested)]).await.unwrap();
    w.seconds(61).await;
    w.store.recover(Whose::Everyone, 10).await.unwrap();
    assert_eq!(w.sent(&late).await, Finished::Adopted);
    assert_eq!(bars(w, channels[0]).await, [(0, [2, 0, 0])], "adopted");
}

async fn what_is_dropped_or_repeated_is_counted_too(w: &World) {
    let channels = w.channels(1).await;
    let first = w.post("раз", &channels).await;
    let copy = NewMessage { content_hash: "hash of раз".into(), ..message("копия", &channels) };
    w.enqueue(vec![copy]).await;
    w.store.cancel(w.ws, vec![first.deliveries[0].delivery_id]).await.unwrap();
    assert_eq!(bars(w, channels[0]).await, [(0, [0, 1, 1])]);
    assert!(w.store.last_sent(w.ws).await.unwrap().is_empty(), "nothing was ever said");
}

async fn bars_are_kept_as_long_as_deliveries_and_no_longer(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    w.sent(&w.claim_one().await).await;
    w.advance(Span::from_hours(47)).await;
    w.clear(Whose::Everyone).await;
    assert_eq!(bars(w, channels[0]).await.len(), 1);
    w.advance(Span::from_hours(2)).await;
    w.clear(Whose::Workspace(w.ws)).await;
    assert_eq!(bars(w, channels[0]).await.len(), 0);
}

async fn campaigns_are_not_among_the_bars(w: &World) {
    let account = w.account().await;
    crate::campaigns::running(w, account, 1).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    assert!(w.store.lane_counts(w.ws, Timestamp(0)).await.unwrap().is_empty());
}

async fn found(w: &World, filter: PostFilter) -> Vec<String> {
    let found = w.store.posts(w.ws, filter, 100, 100).await.unwrap();
    assert_eq!(found.looked_to, None, "there is nothing older");
    found.posts.into_iter().map(|post| post.origin_id).collect()
}

async fn posts_are_found_by_kind_channel_and_fate(w: &World) {
    let channels = w.channels(2).await;
    w.post("сказан", &channels[..1]).await;
    w.sent(&w.claim_one().await).await;
    w.seconds(5).await;
    w.post("отвергнут", &channels[..1]).await;
    w.fail(&w.claim_one().await, permanent(Scope::Delivery)).await;
    w.seconds(5).await;
    w.post("ждёт", &channels[1..]).await;
    let nowhere =
        NewMessage {
            kind: "news".into(), skipped: Some("no route".into()), ..message("новость", &[])
        };
    w.enqueue(vec![nowhere]).await;
    let by = |fate| PostFilter { fate: Some(fate), ..Default::default() };
    assert_eq!(found(w, PostFilter::default()).await, ["новость", "ждёт", "отвергнут", "сказан"]);
    assert_eq!(found(w, by(PostFate::Sent)).await, ["сказан"]);
    assert_eq!(found(w, by(PostFate::Failed)).await, ["отвергнут"]);
    assert_eq!(found(w, by(PostFate::Waiting)).await, ["ждёт"]);
    assert_eq!(found(w, by(PostFate::Unsent)).await, ["новость"]);
    let kind = PostFilter { kind: Some("news".into()), ..Default::default() };
    assert_eq!(found(w, kind).await, ["новость"]);
    let channel = PostFilter { channel_id: Some(channels[0]), ..Default::default() };
    assert_eq!(found(w, channel.clone()).await, ["отвергнут", "сказан"]);
    let both = PostFilter { fate: Some(PostFate::Waiting), ..channel };
    assert_eq!(found(w, both).await, [""; 0]);
    let source = PostFilter { sources: vec!["elsewhere".into()], ..Default::default() };
    assert_eq!(found(w, source).await, [""; 0]);
    let ids = w.store.posts(w.ws, PostFilter::default(), 10, 10).await.unwrap().posts;
    let counts = w.store.post_counts(w.ws, ids.iter().map(|post| post.message_id).collect()).await.unwrap();
    let counts: Vec<[i64; 4]> =
        counts.iter().map(|(_, n)| [n.sent, n.waiting, n.failed, n.deduped]).collect();
    assert_eq!(
        counts,
        [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]],
        "the oldest first, and nothing of the news"
    );
    let lately = w.store.sources_lately(w.ws, 3).await.unwrap();
    assert_eq!(lately.iter().map(|one| (one.source.as_str(), one.posts)).collect::<Vec<_>>(), [("test", 3)]);
    let other = w.another_workspace("чужой").await;
    assert_eq!(found(&other, PostFilter::default()).await, [""; 0]);
}

async fn a_window_bounds_what_is_looked_at(w: &World) {
    for n in 0..10 {
        let kind = if n == 1 { "found" } else { "lost" };
        w.enqueue(vec![NewMessage { kind: kind.into(), ..message(&format!("пост {n}"), &[]) }]).await;
    }
    let mut filter = PostFilter { kind: Some("found".into()), ..Default::default() };
    let mut laps = 0;
    let post = loop {
        let looked = w.store.posts(w.ws, filter.clone(), 4, 4).await.unwrap();
        if let Some(post) = looked.posts.first() {
            break post.origin_id.clone();
        }
        filter.before = Some(looked.looked_to.expect("older ones were not looked at"));
        laps += 1;
    };
    assert_eq!((post.as_str(), laps), ("пост 1", 2));
    // More fit than were asked for: it goes on behind the last one, not behind the window.
    let lost = PostFilter { kind: Some("lost".into()), ..Default::default() };
    let first = w.store.posts(w.ws, lost.clone(), 8, 3).await.unwrap();
    assert_eq!(first.looked_to, first.posts.last().map(|post| post.message_id));
    let rest = PostFilter { before: first.looked_to, ..lost };
    let rest = w.store.posts(w.ws, rest, 100, 100).await.unwrap();
    assert_eq!((first.posts.len() + rest.posts.len(), rest.looked_to), (9, None::<MessageId>));
}

async fn what_a_bot_answers_is_no_post(w: &World) {
    for source in ["bot:7", "campaign", "campaign:test", "bottle"] {
        let message =
            NewMessage { source: source.into(), payload: json!({"text": source}), ..message(source, &[]) };
        w.enqueue(vec![message]).await;
    }
    assert_eq!(found(w, PostFilter::default()).await, ["bottle"]);
}

async fn alerts_and_callbacks_are_neither_posts_nor_bars(w: &World) {
    let mut channels = w.channels(1).await;
    for (tier, source) in [(TIER_ALERTS, "alerts"), (TIER_CALLBACKS, "callbacks")] {
        let of = AccountSettings { tier: tier.into(), ..AccountSettings::default() };
        let channel = w.channel(w.account_with(of).await).await;
        w.enqueue(vec![NewMessage { source: source.into(), ..message(source, &[channel]) }]).await;
        channels.push(channel);
    }
    w.post("пост", &channels[..1]).await;
    for claim in w.claim(10).await {
        w.sent(&claim).await;
    }
    assert_eq!(found(w, PostFilter::default()).await, ["пост"]);
    let lately = w.store.sources_lately(w.ws, 10).await.unwrap();
    assert_eq!(lately.iter().map(|one| (one.source.as_str(), one.posts)).collect::<Vec<_>>(), [("test", 1)]);
    assert_eq!(bars(w, channels[0]).await, [(0, [1, 0, 0])]);
    for channel in &channels[1..] {
        assert_eq!(bars(w, *channel).await, []);
    }
    let last = w.store.last_sent(w.ws).await.unwrap();
    assert_eq!(last.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), channels[..1]);
    assert_eq!(w.store.snapshot(w.ws).await.unwrap().counts.sent, 1);
}
