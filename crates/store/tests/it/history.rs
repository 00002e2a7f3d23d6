//! Keys that no other database repeats, and what is done when commits are lost.

use std::collections::HashSet;

use domain::delivery::Status;
use domain::outcome::Scope;
use domain::time::Span;
use store::*;

use crate::world::*;

contract! {
    posts_of_a_second_fresh_database_are_not_taken_for_repeats,
    the_same_id_with_other_words_is_another_key,
    everything_is_held_after_lost_history_until_one_release,
    a_remembered_success_is_written_again_to_its_own_delivery,
    a_remembered_success_of_an_id_that_was_given_again_changes_nothing,
    what_readers_have_seen_is_not_sent_by_who_holds_it,
    a_release_is_not_undone_by_who_has_more_to_tell,
    nodes_sign_under_the_history_they_act_on,
}

/// The keys of the first posts: same ids, same words.
async fn keys(w: &World) -> HashSet<String> {
    let channels = w.channels(3).await;
    w.post("Пропал пёс", &channels).await;
    w.claim(10).await.into_iter().map(|claim| claim.idempotency_key).collect()
}

async fn posts_of_a_second_fresh_database_are_not_taken_for_repeats(w: &World) {
    let another = match &w.store {
        Store::Sqlite(_) => World::sqlite().await,
        Store::Postgres(_) => World::postgres().await,
    };
    let (first, second) = (keys(w).await, keys(&another).await);
    assert_eq!((first.len(), second.len()), (3, 3));
    assert!(first.is_disjoint(&second), "{first:?} {second:?}");
    another.drop_database().await;
}

async fn the_same_id_with_other_words_is_another_key(w: &World) {
    let channels = w.channels(2).await;
    w.post("Пропал пёс", &channels).await;
    w.post("Пропал кот", &channels).await;
    let claims = w.claim(10).await;
    let of = |message: usize| -> HashSet<&str> {
        let ids: HashSet<_> = claims.iter().map(|claim| claim.message_id).collect();
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort_unstable();
        claims.iter().filter(|claim| claim.message_id == ids[message]).map(Claim::wording).collect()
    };
    // Channels with order kept give one claim each, both of the first message.
    assert_eq!(of(0).len(), 1, "one message has one wording in all its channels");
    for claim in &claims {
        w.sent(claim).await;
    }
    let first = claims[0].wording().to_owned();
    let later = w.claim(10).await;
    assert!(!later.is_empty() && later.iter().all(|claim| claim.wording() != first), "{later:?}");
}

async fn everything_is_held_after_lost_history_until_one_release(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let before = w.store.history().await.unwrap();
    w.store.lose_history("узел А не нашёл своего").await.unwrap();
    let after = w.store.history().await.unwrap();
    assert_ne!(after.id, before.id, "keys of before must not be met again");
    assert!(w.claim(1).await.is_empty());
    w.store.lose_history("узел Б помнит два").await.unwrap();
    assert_eq!(w.store.history().await.unwrap(), after, "the second one adds what he knows, and that is all");
    let held = w.store.held().await.unwrap().unwrap();
    assert!(held.starts_with(HISTORY_LOST), "{held}");
    assert!(held.contains("узел А не нашёл своего") && held.contains("узел Б помнит два"), "{held}");
    let told = w.event_names().await;
    assert!(told.contains(&"held".to_owned()) && told.contains(&"alert".to_owned()), "{told:?}");
    w.store.hold_all(None).await.unwrap();
    w.claim_one().await;
    w.store.lose_history("ещё раз").await.unwrap();
    assert_ne!(w.store.history().await.unwrap(), after, "another loss is another history");
    w.store.hold_all(None).await.unwrap();
}

fn remembered(claim: &Claim) -> Remembered {
    Remembered {
        workspace_id: claim.workspace_id,
        delivery_id: claim.delivery_id,
        idempotency_key: claim.idempotency_key.clone(),
        provider_message_id: Some("m7".into()),
        parts: [(0, "caption 7 8".to_owned())].into(),
    }
}

/// A claim as it looks to a database that has lost it: handed back, so that the row waits again.
async fn lost(w: &World, claim: &Claim) {
    w.finish(claim, FinishKind::Release).await;
}

async fn a_remembered_success_is_written_again_to_its_own_delivery(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    w.post("два", &channels).await;
    let claim = w.claim_one().await;
    lost(w, &claim).await;
    let batch = vec![remembered(&claim), remembered(&claim)];
    assert_eq!(w.store.replay(batch).await.unwrap(), [Replayed::Adopted, Replayed::Known]);
    let delivery = w.delivery(claim.delivery_id).await;
    assert_eq!((delivery.status, delivery.provider_message_id.as_deref()), (Status::Sent, Some("m7")));
    assert_eq!(delivery.parts.get(&0).map(String::as_str), Some("caption 7 8"));
    assert!(w.event_names().await.contains(&"late_success".to_owned()));
    w.seconds(60).await;
    let next = w.claim_one().await;
    assert_ne!(next.delivery_id, claim.delivery_id, "it is not sent again");
    w.check().await;
}

async fn a_remembered_success_of_an_id_that_was_given_again_changes_nothing(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim_one().await;
    lost(w, &claim).await;
    let other_words = Remembered { idempotency_key: "0011223344556677.1.abc".into(), ..remembered(&claim) };
    let other_workspace = w.another_workspace("чужие").await;
    let elsewhere = Remembered { workspace_id: other_workspace.ws, ..remembered(&claim) };
    let replayed = w.store.replay(vec![other_words, elsewhere]).await.unwrap();
    assert_eq!(replayed, [Replayed::Gone, Replayed::Gone]);
    assert!(!w.status(claim.delivery_id).await.is_terminal());
}

async fn what_readers_have_seen_is_not_sent_by_who_holds_it(w: &World) {
    let channels = w.channels(3).await;
    w.post("раз", &channels).await;
    let claims = w.claim(3).await;
    w.fail(&claims[1], permanent(Scope::Delivery)).await;
    let marked = w.store.record_parts(vec![(claims[2].reference(), PartProgress::Requested)]).await.unwrap();
    assert_eq!(marked, [true]);
    let replayed = w.store.replay(claims.iter().map(remembered).collect()).await.unwrap();
    assert_eq!(replayed, [Replayed::Adopted, Replayed::Elsewhere, Replayed::Adopted]);
    let marked = w.store.record_parts(vec![(claims[0].reference(), PartProgress::Requested)]).await.unwrap();
    assert_eq!(marked, [false], "who holds it may not let a request leave any more");
    for claim in [&claims[0], &claims[2]] {
        let delivery = w.delivery(claim.delivery_id).await;
        assert_eq!((delivery.status, delivery.provider_message_id.as_deref()), (Status::Sent, Some("m7")));
        assert_eq!(delivery.parts.get(&0).map(String::as_str), Some("caption 7 8"));
        assert_eq!(w.sent(claim).await, Finished::Repeated(Status::Sent));
    }
    w.check().await;
}

async fn a_release_is_not_undone_by_who_has_more_to_tell(w: &World) {
    w.store.lose_history("узел А не нашёл своего").await.unwrap();
    w.store.tell_of_lost_history("узел Б помнит два").await.unwrap();
    let held = w.store.held().await.unwrap().unwrap();
    assert!(held.contains("узел А не нашёл своего") && held.contains("узел Б помнит два"), "{held}");
    let history = w.store.history().await.unwrap();
    w.store.hold_all(None).await.unwrap();
    w.store.tell_of_lost_history("узел В помнит три").await.unwrap();
    assert_eq!(w.store.held().await.unwrap(), None);
    assert_eq!(w.store.history().await.unwrap(), history);
    w.store.hold_all(Some("по другой причине")).await.unwrap();
    w.store.tell_of_lost_history("узел Г помнит четыре").await.unwrap();
    assert_eq!(w.store.held().await.unwrap().as_deref(), Some("по другой причине"));
    w.store.hold_all(None).await.unwrap();
}

async fn nodes_sign_under_the_history_they_act_on(w: &World) {
    let of = async || -> Vec<(String, History)> {
        w.store.nodes().await.unwrap().into_iter().map(|node| (node.run_id, node.history)).collect()
    };
    let before = w.store.history().await.unwrap();
    assert!(w.store.sign_on("узел А", &before).await.unwrap());
    w.seconds(5).await;
    assert!(w.store.sign_on("узел Б", &before).await.unwrap());
    let nodes = w.store.nodes().await.unwrap();
    assert_eq!(nodes[1].seen_at - nodes[0].seen_at, Span::from_secs(5));
    assert_eq!(of().await, [("узел А".to_owned(), before.clone()), ("узел Б".to_owned(), before.clone())]);

    w.store.lose_history("узел А не нашёл своего").await.unwrap();
    let after = w.store.history().await.unwrap();
    assert!(!w.store.sign_on("узел Б", &before).await.unwrap(), "that history is over");
    assert_eq!(of().await[1].1, before, "and what it said before stays, so that others wait for it");
    assert!(w.store.sign_on("узел Б", &after).await.unwrap());
    assert_eq!(of().await[1].1, after);
    w.store.sign_off("узел А").await.unwrap();
    assert_eq!(of().await, [("узел Б".to_owned(), after.clone())]);

    w.seconds(25 * 3_600).await;
    assert!(w.store.sign_on("узел В", &after).await.unwrap());
    assert_eq!(of().await, [("узел В".to_owned(), after)], "who said nothing for a day is forgotten");
    w.store.hold_all(None).await.unwrap();
}
