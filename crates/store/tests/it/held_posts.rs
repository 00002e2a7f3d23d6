//! Posts that wait for a person: no delivery and no key until somebody approves, and an end of their own.

use domain::content::cases::Sketch;
use domain::content::{Post, analyse};
use domain::delivery::{Action, Status};
use domain::ids::{ChannelId, MessageId};
use domain::time::Span;
use serde_json::{Value, json};
use store::*;

use crate::world::*;

contract! {
    a_held_post_is_not_sent_and_takes_no_key,
    an_approved_post_goes_out_once,
    an_approved_repeat_is_a_repeat,
    a_rejected_post_is_never_sent,
    who_decided_is_written_down_until_it_is_held_again,
    a_held_post_is_over_after_the_max_age_of_its_channel,
    an_edit_that_makes_a_held_post_clear_publishes_it,
    an_edit_of_a_rejected_post_is_held_again,
    an_edit_of_an_approved_post_needs_no_second_approval,
    a_held_post_that_vanished_cannot_be_approved,
    a_held_search_is_withdrawn_when_its_story_ends,
    a_held_reunion_ends_its_story_when_it_is_approved,
    a_held_post_for_a_removed_channel_waits_for_nobody,
    a_foreign_workspace_decides_nothing,
    a_held_post_goes_with_its_message,
}

const FOUND: &str =
    "Найдена собака, такса рыжая, в Тюмени на улице Ямской. Ищем хозяев, телефон 8 901 000-00-11";
const LOST: &str =
    "Пропала собака! В Тюмени на улице Ямской убежала такса Буся, рыжая. Телефон 8 901 000-00-11";
const REUNITED: &str =
    "Такса Буся нашлась, она дома! Всем спасибо за репосты! Тюмень, улица Ямская, 8 901 000-00-11";
const WHY: &str = "unsure whether it is found or lost";

fn post(owner: i64, text: &str, channels: &[ChannelId], held: &[ChannelId]) -> NewPost {
    let date = START.0 / 1_000_000;
    let read = Post { owner_id: owner, post_id: 1, date, text: text.into(), ..Post::default() };
    let analysis = analyse(&read);
    let sketch = Sketch::new(&read, &analysis.facts, &analysis.cleaned, &[]);
    let kind = sketch.kind.name();
    let message = NewMessage {
        source: format!("vk:{owner}"),
        origin_id: "1".into(),
        payload: json!({"kind": kind, "text": text}),
        content_hash: format!("hash of {text}"),
        kind: kind.into(),
        origin: json!({"owner_id": owner, "hash": format!("mark of {text}")}),
        ..message("", channels)
    };
    NewPost { message, sketch: Some(sketch), held: Some(Held { channels: held.to_vec(), why: WHY.into() }) }
}

async fn channel(w: &World, max_age: Option<Span>) -> ChannelId {
    let account = w.account().await;
    w.channel_with(account, ChannelSettings { dedup: DedupMode::Case, max_age, ..Default::default() }).await
}

async fn one(w: &World, post: NewPost) -> Ingested {
    w.store.ingest(w.ws, vec![post], None).await.unwrap().remove(0)
}

async fn waiting(w: &World) -> Vec<(MessageId, ChannelId)> {
    let posts = w.store.held_posts(w.ws, None, 100).await.unwrap();
    let posts: Vec<_> = posts.iter().map(|post| (post.message_id, post.channel_id)).collect();
    let mut paged = Vec::new();
    while let Some(next) = w.store.held_posts(w.ws, paged.last().copied(), 1).await.unwrap().first() {
        paged.push((next.message_id, next.channel_id));
    }
    assert_eq!(paged, posts, "one by one");
    posts
}

async fn decision(w: &World, id: MessageId) -> Option<String> {
    w.store.held_of(w.ws, id).await.unwrap().remove(0).decision
}

async fn sent_now(w: &World) -> Vec<(MessageId, Action)> {
    let mut sent = Vec::new();
    for _ in 0..3 {
        w.seconds(2).await;
        for claim in w.claim(50).await {
            w.sent(&claim).await;
            sent.push((claim.message_id, claim.action));
        }
    }
    sent
}

async fn last_event(w: &World) -> (String, Value) {
    let event = w.store.events(w.ws, 0, 10_000).await.unwrap().pop().unwrap();
    (event.name, event.detail)
}

async fn who_decided_is_written_down_until_it_is_held_again(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    let by = async || w.store.held_of(w.ws, held.message_id).await.unwrap().remove(0).decided_by;
    assert_eq!(by().await, None);
    let anna = Actor { who: "Анна (max 900)".into(), reason: None };
    w.store.by(anna).reject(w.ws, held.message_id).await.unwrap();
    assert_eq!(by().await.as_deref(), Some("Анна (max 900)"));
    let (name, detail) = last_event(w).await;
    assert_eq!((name.as_str(), &detail["by"]), ("rejected", &json!("Анна (max 900)")));
    one(w, post(-1, &format!("{FOUND}. Отзывается на кличку"), &[], &[channel])).await;
    assert_eq!((waiting(w).await.len(), by().await), (1, None));
    w.store.approve(w.ws, held.message_id).await.unwrap();
    assert_eq!(by().await, None, "nobody is named");
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::NotFound { what: "held post", .. })), "{result:?}");
}

async fn a_held_post_is_not_sent_and_takes_no_key(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    assert!(held.deliveries.is_empty() && held.skipped.is_none() && held.case_id.is_some());
    assert_eq!(waiting(w).await, [(held.message_id, channel)]);
    assert_eq!(last_event(w).await, ("unsure".into(), json!({"why": WHY, "channels": [channel]})));
    assert!(sent_now(w).await.is_empty());
    let sure = one(w, post(-2, FOUND, &[channel], &[])).await;
    assert_eq!(sure.deliveries[0].status, Status::Queued, "the held one stands in nobody's way");
}

async fn an_approved_post_goes_out_once(w: &World) {
    let (held_in, other) = (channel(w, None).await, channel(w, None).await);
    let held = one(w, post(-1, FOUND, &[other], &[held_in])).await;
    assert_eq!(sent_now(w).await, [(held.message_id, Action::Send)], "where it is not held it goes at once");
    let deliveries = w.store.approve(w.ws, held.message_id).await.unwrap();
    assert_eq!(
        deliveries.iter().map(|made| (made.channel_id, made.status)).collect::<Vec<_>>(),
        [(held_in, Status::Queued)]
    );
    assert_eq!(sent_now(w).await, [(held.message_id, Action::Send)]);
    assert_eq!((waiting(w).await, decision(w, held.message_id).await), (vec![], Some("approved".into())));
    refused(w.store.approve(w.ws, held.message_id).await);
    refused(w.store.reject(w.ws, held.message_id).await);
    assert!(sent_now(w).await.is_empty());
}

async fn an_approved_repeat_is_a_repeat(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    one(w, post(-2, FOUND, &[channel], &[])).await;
    let deliveries = w.store.approve(w.ws, held.message_id).await.unwrap();
    assert_eq!(deliveries[0].status, Status::Deduped, "the same case was said meanwhile");
}

async fn a_rejected_post_is_never_sent(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    assert_eq!(w.store.reject(w.ws, held.message_id).await.unwrap(), [channel]);
    assert_eq!(last_event(w).await, ("rejected".into(), json!({"channels": [channel]})));
    refused(w.store.approve(w.ws, held.message_id).await);
    one(w, post(-1, FOUND, &[], &[channel])).await;
    assert!(waiting(w).await.is_empty(), "the same words seen again do not ask again");
    assert!(sent_now(w).await.is_empty());
}

async fn a_held_post_is_over_after_the_max_age_of_its_channel(w: &World) {
    let (short, long) = (channel(w, Some(Span::from_hours(1))).await, channel(w, None).await);
    let held = one(w, post(-1, FOUND, &[], &[short, long])).await;
    assert_eq!(waiting(w).await.len(), 2);
    w.advance(Span::from_hours(1)).await;
    assert_eq!(waiting(w).await, [(held.message_id, long)]);
    let deliveries = w.store.approve(w.ws, held.message_id).await.unwrap();
    assert_eq!((deliveries.len(), deliveries[0].channel_id), (1, long));
}

async fn an_edit_that_makes_a_held_post_clear_publishes_it(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    let clear = format!("{FOUND}. Собака у нас дома");
    let revised = one(w, post(-1, &clear, &[channel], &[])).await;
    assert_eq!(revised.deliveries[0].status, Status::Queued);
    assert_eq!(decision(w, held.message_id).await.as_deref(), Some("withdrawn"));
    refused(w.store.approve(w.ws, held.message_id).await);
}

async fn an_edit_of_a_rejected_post_is_held_again(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    w.store.reject(w.ws, held.message_id).await.unwrap();
    one(w, post(-1, &format!("{FOUND}. Просьба откликнуться"), &[], &[channel])).await;
    assert_eq!(waiting(w).await, [(held.message_id, channel)]);
    w.store.approve(w.ws, held.message_id).await.unwrap();
    w.seconds(2).await;
    assert_eq!(w.claim_one().await.revision, 2, "the new words are what goes out");
}

async fn an_edit_of_an_approved_post_needs_no_second_approval(w: &World) {
    let (waits, out) = (channel(w, None).await, channel(w, None).await);
    let first = one(w, post(-1, FOUND, &[], &[out])).await;
    w.store.approve(w.ws, first.message_id).await.unwrap();
    assert_eq!(sent_now(w).await.len(), 1);
    let second = one(w, post(-2, LOST, &[], &[waits])).await;
    w.store.approve(w.ws, second.message_id).await.unwrap();
    one(w, post(-1, &format!("{FOUND}!"), &[], &[out])).await;
    one(w, post(-2, &format!("{LOST}!"), &[], &[waits])).await;
    assert!(waiting(w).await.is_empty());
    let mut sent = sent_now(w).await;
    sent.sort_by_key(|(id, _)| *id);
    assert_eq!(sent, [(first.message_id, Action::Edit), (second.message_id, Action::Send)]);
}

async fn a_held_post_that_vanished_cannot_be_approved(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    assert!(w.store.post_gone(w.ws, "vk:-1", "1").await.unwrap());
    assert_eq!((waiting(w).await, decision(w, held.message_id).await), (vec![], Some("withdrawn".into())));
    refused(w.store.approve(w.ws, held.message_id).await);
}

async fn a_held_search_is_withdrawn_when_its_story_ends(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, LOST, &[], &[channel])).await;
    let ending = one(w, post(-2, REUNITED, &[], &[])).await;
    assert_eq!(ending.case_id, held.case_id);
    assert_eq!(decision(w, held.message_id).await.as_deref(), Some("withdrawn"));
}

async fn a_held_reunion_ends_its_story_when_it_is_approved(w: &World) {
    let channel = channel(w, None).await;
    let lost = one(w, post(-1, LOST, &[channel], &[])).await;
    assert_eq!(sent_now(w).await.len(), 1);
    let ending = one(w, post(-2, REUNITED, &[], &[channel])).await;
    let case = lost.case_id.unwrap();
    assert_eq!(w.store.case(w.ws, case).await.unwrap().closed_at, None, "nobody has said that it is true");
    w.store.approve(w.ws, ending.message_id).await.unwrap();
    assert_eq!(w.store.case(w.ws, case).await.unwrap().closed_by, Some(ending.message_id));
    let mut sent = sent_now(w).await;
    sent.sort_by_key(|(id, _)| *id);
    assert_eq!(sent, [(lost.message_id, Action::Edit), (ending.message_id, Action::Send)]);
}

async fn a_held_post_for_a_removed_channel_waits_for_nobody(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    w.store.remove_channel(w.ws, channel).await.unwrap();
    assert!(waiting(w).await.is_empty());
    refused(w.store.approve(w.ws, held.message_id).await);
}

async fn a_foreign_workspace_decides_nothing(w: &World) {
    let other = w.another_workspace("чужие").await;
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    assert!(waiting(&other).await.is_empty());
    assert!(other.store.held_of(other.ws, held.message_id).await.unwrap().is_empty());
    refused(other.store.approve(other.ws, held.message_id).await);
    refused(other.store.reject(other.ws, held.message_id).await);
    assert_eq!(waiting(w).await.len(), 1);
    let foreign = one(&other, post(-1, FOUND, &[], &[channel])).await;
    assert!(other.store.held_of(other.ws, foreign.message_id).await.unwrap().is_empty());
}

async fn a_held_post_goes_with_its_message(w: &World) {
    let channel = channel(w, None).await;
    let held = one(w, post(-1, FOUND, &[], &[channel])).await;
    w.advance(Span::from_hours(24 * 400)).await;
    w.store.retain(Whose::Everyone, KEEP, 1_000, Walk::START).await.unwrap();
    assert!(w.store.message(w.ws, held.message_id).await.is_err());
    assert!(w.store.held_of(w.ws, held.message_id).await.unwrap().is_empty());
}

const KEEP: Retention = Retention {
    deliveries: Span::from_hours(24 * 90),
    deduped: Span::from_hours(24 * 7),
    events: Span::from_hours(24 * 90),
};
