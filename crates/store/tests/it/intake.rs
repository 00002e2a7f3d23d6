//! Intake: one post once, one case once, edits and ends carried to what was said.

use std::collections::HashMap;

use domain::content::cases::invented::invented;
use domain::content::cases::{CaseBook, Sketch};
use domain::content::{Post, analyse};
use domain::delivery::{Action, Status};
use domain::ids::{CaseId, ChannelId};
use domain::outcome::Scope;
use domain::time::{Span, Timestamp};
use serde_json::{Value, json};
use store::*;

use crate::world::*;

contract! {
    a_copy_on_another_wall_is_said_once_and_counted,
    many_walls_at_once_publish_one_case_once,
    two_copies_in_one_call_are_one_case,
    lost_and_found_do_not_suppress_each_other,
    the_same_post_again_is_only_counted,
    what_a_newer_version_reads_out_of_a_post_edits_nothing,
    the_same_post_twice_in_one_call_is_stored_once,
    an_edit_before_the_sending_is_what_goes_out,
    an_edit_after_the_sending_follows_it,
    a_second_edit_needs_no_second_delivery_while_the_first_waits,
    a_channel_may_refuse_edits,
    an_edit_that_leaves_the_route_takes_back_what_waits,
    an_edit_that_enters_the_route_is_delivered,
    a_reunion_takes_back_what_waits,
    a_reunion_edits_what_was_published,
    a_reunion_answers_where_the_channel_wants_that,
    a_reunion_leaves_a_channel_alone_that_wants_that,
    a_search_edited_into_a_reunion_ends_the_story,
    a_search_that_arrives_after_the_end_is_kept_and_not_published,
    a_second_reunion_changes_nothing_more,
    an_edit_of_an_ended_search_keeps_its_ending,
    a_post_that_is_skipped_is_kept_with_its_reason,
    a_post_that_is_gone_is_recorded_once,
    a_vanished_post_that_still_waits_is_cancelled,
    a_vanished_post_is_taken_back_where_the_channel_wants_it,
    a_post_that_vanishes_while_it_is_being_sent_is_not_tried_again,
    a_vanished_post_that_may_be_visible_is_followed_to_its_end,
    a_post_of_which_half_is_visible_is_edited_and_taken_back_too,
    an_edit_that_is_half_done_begins_again_with_newer_words,
    two_edits_of_one_post_may_wait_while_it_changes_again,
    when_the_first_of_two_copies_vanishes_unsaid_the_other_is_said,
    when_all_copies_vanish_unsaid_nothing_is_said,
    a_copy_is_said_when_the_first_vanishes_in_the_middle_of_a_failed_send,
    cases_are_those_of_the_model,
    workspaces_have_their_own_cases,
    a_refused_post_leaves_nothing_behind,
    a_repeat_knows_what_was_said_before_it,
    a_message_is_found_by_the_address_of_its_post,
    the_last_posts_come_with_their_cases_and_deliveries,
    what_a_waiting_edit_points_at_is_kept,
    old_runs_and_cases_are_cleared_with_what_posts_are_compared_with,
}

pub(crate) const LOST: &str = "Пропала собака! 12 ноября в Тюмени на улице Ямской убежала такса Буся, рыжая, в красном ошейнике. \
                    Телефон 8 901 000-00-11, Марина.";
const FOUND: &str = "Найдена собака, такса рыжая, в красном ошейнике, в Тюмени на улице Ямской. \
                     Ищем хозяев, телефон 8 901 000-00-11";
pub(crate) const REUNITED: &str =
    "Такса Буся нашлась, она дома! Всем спасибо за репосты! Тюмень, улица Ямская, 8 901 000-00-11";

pub(crate) fn post(owner: i64, id: i64, text: &str, channels: &[ChannelId]) -> NewPost {
    post_at(owner, id, 0, text, channels)
}

pub(crate) fn post_at(owner: i64, id: i64, after_s: i64, text: &str, channels: &[ChannelId]) -> NewPost {
    let date = START.0 / 1_000_000 + after_s;
    let read = Post { owner_id: owner, post_id: id, date, text: text.into(), ..Post::default() };
    let analysis = analyse(&read);
    let sketch = Sketch::new(&read, &analysis.facts, &analysis.cleaned, &[]);
    let kind = sketch.kind.name();
    let message = NewMessage {
        source: format!("vk:{owner}"),
        origin_id: id.to_string(),
        payload: json!({"kind": kind, "text": text}),
        content_hash: format!("hash of {text}"),
        kind: kind.into(),
        facts: json!({"kind": kind}),
        origin: json!({"owner_id": owner, "post_id": id, "hash": format!("mark of {text}")}),
        ..message("", channels)
    };
    NewPost { message, sketch: Some(sketch), held: None }
}

pub(crate) async fn case_channels(w: &World, settings: &[Value]) -> Vec<ChannelId> {
    let account = w.account().await;
    let mut channels = Vec::new();
    for settings in settings {
        let settings =
            ChannelSettings { dedup: DedupMode::Case, settings: settings.clone(), ..Default::default() };
        channels.push(w.channel_with(account, settings).await);
    }
    channels
}

async fn ingest(w: &World, posts: Vec<NewPost>) -> Vec<Ingested> {
    w.store.ingest(w.ws, posts, None).await.unwrap()
}

pub(crate) async fn one(w: &World, post: NewPost) -> Ingested {
    ingest(w, vec![post]).await.remove(0)
}

/// Sends everything that waits and returns it.
pub(crate) async fn send_all(w: &World) -> Vec<Claim> {
    let mut sent = Vec::new();
    for _ in 0..100 {
        w.seconds(2).await;
        let claims = w.claim(50).await;
        if claims.is_empty() {
            return sent;
        }
        for claim in claims {
            w.sent(&claim).await;
            sent.push(claim);
        }
    }
    panic!("there is always more to send");
}

pub(crate) fn statuses(ingested: &Ingested) -> Vec<Status> {
    ingested.deliveries.iter().map(|delivery| delivery.status).collect()
}

pub(crate) async fn detail_of(w: &World, name: &str) -> Value {
    let events = w.store.events(w.ws, 0, 10_000).await.unwrap();
    let found = events.into_iter().rev().find(|event| event.name == name);
    found.unwrap_or_else(|| panic!("no event {name}")).detail
}

async fn a_copy_on_another_wall_is_said_once_and_counted(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let first = one(w, post(-1, 10, LOST, &channels)).await;
    w.seconds(1).await;
    let copy = one(w, post(-2, 77, LOST, &channels)).await;
    assert_eq!((first.fate, copy.fate), (Fate::Stored, Fate::Stored));
    assert!(first.case_id.is_some());
    assert_eq!(first.case_id, copy.case_id);
    assert_eq!((statuses(&first), statuses(&copy)), (vec![Status::Queued], vec![Status::Deduped]));
    let case = w.store.case(w.ws, first.case_id.unwrap()).await.unwrap();
    assert_eq!((case.kind.as_str(), case.n_messages), ("lost", 2));
    assert_eq!(case.facts, json!({"first": "vk:-1/10", "copies": 1, "sources": ["vk:-2/77"]}));
    let told = w.store.message(w.ws, copy.message_id).await.unwrap();
    assert_eq!(told.facts["case"]["verdict"], "same", "{}", told.facts);
}

async fn many_walls_at_once_publish_one_case_once(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({})]).await;
    let walls = (1..=8).map(|wall| {
        let (store, ws, post) = (w.store.clone(), w.ws, post(-wall, wall, LOST, &channels));
        tokio::spawn(async move { store.ingest(ws, vec![post], None).await.unwrap().remove(0) })
    });
    let mut n_queued = 0;
    let mut cases = Vec::new();
    for wall in walls.collect::<Vec<_>>() {
        let ingested = wall.await.unwrap();
        n_queued += statuses(&ingested).into_iter().filter(|status| *status == Status::Queued).count();
        cases.push(ingested.case_id.unwrap());
    }
    cases.dedup();
    assert_eq!((n_queued, cases.len()), (2, 1), "one case, once in each of two channels");
    let case = w.store.case(w.ws, cases[0]).await.unwrap();
    assert_eq!((case.n_messages, &case.facts["copies"]), (8, &json!(7)));
}

async fn two_copies_in_one_call_are_one_case(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let both = ingest(w, vec![post(-1, 1, LOST, &channels), post(-2, 1, LOST, &channels)]).await;
    assert_eq!(both[0].case_id, both[1].case_id);
    assert_eq!(statuses(&both[1]), [Status::Deduped]);
}

async fn lost_and_found_do_not_suppress_each_other(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    let found = one(w, post(-2, 1, FOUND, &channels)).await;
    assert_eq!((statuses(&lost), statuses(&found)), (vec![Status::Queued], vec![Status::Queued]));
}

async fn the_same_post_again_is_only_counted(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let first = one(w, post(-1, 1, LOST, &channels)).await;
    let before = w.event_names().await;
    let again = one(w, post(-1, 1, LOST, &channels)).await;
    assert_eq!((again.fate, again.message_id, again.case_id), (Fate::Seen, first.message_id, first.case_id));
    assert_eq!(w.event_names().await, before);
    let stored = w.store.message(w.ws, first.message_id).await.unwrap();
    assert_eq!((stored.seen_count, stored.revision), (2, 1));
    let known = w.store.known_posts(w.ws, "vk:-1", vec!["2".into(), "1".into()]).await.unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].origin_hash.as_deref(), Some(format!("mark of {LOST}").as_str()));
    assert_eq!(w.store.posts_seen(w.ws, "vk:-1", vec!["1".into(), "3".into()]).await.unwrap(), 1);
}

/// Other facts, a place told otherwise: the source is as it was, so what is out stays as it is.
async fn what_a_newer_version_reads_out_of_a_post_edits_nothing(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let first = one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    let mut newer = post(-1, 1, LOST, &channels);
    newer.message.payload["pet"] = json!({"animal": "dog", "name": "Буся"});
    newer.message.payload["place"] = json!("улица Ямская");
    assert_eq!(one(w, newer).await.fate, Fate::Seen);
    assert!(send_all(w).await.is_empty());
    assert_eq!(w.store.payload(w.ws, first.message_id).await.unwrap(), json!({"kind": "lost", "text": LOST}));
}

async fn the_same_post_twice_in_one_call_is_stored_once(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let both = ingest(w, vec![post(-1, 1, LOST, &channels), post(-1, 1, LOST, &channels)]).await;
    assert_eq!((both[0].fate, both[1].fate), (Fate::Stored, Fate::Seen));
    assert_eq!(both[0].message_id, both[1].message_id);
    assert_eq!(w.claim(10).await.len(), 1);
}

fn edited() -> String {
    format!("{LOST} Вознаграждение!")
}

async fn an_edit_before_the_sending_is_what_goes_out(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let first = one(w, post(-1, 1, LOST, &channels)).await;
    let revised = one(w, post(-1, 1, &edited(), &channels)).await;
    assert_eq!((revised.fate, revised.message_id), (Fate::Revised, first.message_id));
    let claims = send_all(w).await;
    assert_eq!(claims.len(), 1);
    assert_eq!((claims[0].revision, claims[0].action), (2, Action::Send));
    let payload = w.store.payload(w.ws, first.message_id).await.unwrap();
    assert_eq!(payload["text"], edited());
    assert_eq!(detail_of(w, "edited").await, json!({"revision": 2, "edits": 0, "cancelled": 0}));
}

async fn an_edit_after_the_sending_follows_it(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({})]).await;
    let first = one(w, post(-1, 1, LOST, &channels)).await;
    let sent = send_all(w).await;
    one(w, post(-1, 1, &edited(), &channels)).await;
    let edits = send_all(w).await;
    assert_eq!(edits.len(), 2);
    for (edit, sent) in edits.iter().zip(&sent) {
        assert_eq!((edit.action, edit.revision, edit.message_id), (Action::Edit, 2, first.message_id));
        assert_eq!(edit.target_delivery, Some(sent.delivery_id));
    }
}

async fn a_second_edit_needs_no_second_delivery_while_the_first_waits(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    one(w, post(-1, 1, &edited(), &channels)).await;
    one(w, post(-1, 1, &format!("{} Верните!", edited()), &channels)).await;
    let edits = send_all(w).await;
    assert_eq!(edits.len(), 1);
    assert_eq!(edits[0].revision, 3);
}

async fn a_channel_may_refuse_edits(w: &World) {
    let channels = case_channels(w, &[json!({"on_edit": "none"})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    one(w, post(-1, 1, &edited(), &channels)).await;
    assert!(send_all(w).await.is_empty());
}

async fn an_edit_that_leaves_the_route_takes_back_what_waits(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({})]).await;
    let first = one(w, post(-1, 1, LOST, &channels)).await;
    one(w, post(-1, 1, &edited(), &channels[..1])).await;
    assert_eq!(w.status(first.deliveries[1].delivery_id).await, Status::Dead);
    assert_eq!(send_all(w).await.len(), 1);
}

async fn an_edit_that_enters_the_route_is_delivered(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({})]).await;
    one(w, post(-1, 1, LOST, &channels[..1])).await;
    send_all(w).await;
    let revised = one(w, post(-1, 1, &edited(), &channels)).await;
    assert_eq!(statuses(&revised), [Status::Queued]);
    assert_eq!(revised.deliveries[0].channel_id, channels[1]);
    let mut actions: Vec<_> =
        send_all(w).await.into_iter().map(|claim| (claim.destination.channel(), claim.action)).collect();
    actions.sort_by_key(|(channel, _)| *channel);
    assert_eq!(actions, [(Some(channels[0]), Action::Edit), (Some(channels[1]), Action::Send)]);
    let copy = one(w, post(-2, 1, LOST, &channels)).await;
    assert_eq!(statuses(&copy), [Status::Deduped, Status::Deduped], "the late copy took its key too");
}

async fn a_reunion_takes_back_what_waits(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    let reunited = one(w, post_at(-1, 2, 600, REUNITED, &[])).await;
    assert_eq!(reunited.case_id, lost.case_id);
    let delivery = w.delivery(lost.deliveries[0].delivery_id).await;
    assert_eq!((delivery.status, delivery.reason.as_deref()), (Status::Dead, Some("cancelled")));
    assert!(send_all(w).await.is_empty());
    let case = w.store.case(w.ws, lost.case_id.unwrap()).await.unwrap();
    assert_eq!((case.closed_at.is_some(), case.closed_by), (true, Some(reunited.message_id)));
    let expected = json!({"case": lost.case_id, "cancelled": 1, "edited": 0, "replied": 0});
    assert_eq!(detail_of(w, "closed").await, expected);
}

async fn a_reunion_edits_what_was_published(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({"on_close": "edit"})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    let sent = send_all(w).await;
    one(w, post_at(-3, 2, 600, REUNITED, &[])).await;
    let edits = send_all(w).await;
    assert_eq!(edits.len(), 2);
    for (edit, sent) in edits.iter().zip(&sent) {
        assert_eq!((edit.action, edit.target_delivery), (Action::Edit, Some(sent.delivery_id)));
        assert_eq!((edit.message_id, edit.revision), (lost.message_id, 2));
    }
    let payload = w.store.payload(w.ws, lost.message_id).await.unwrap();
    assert_eq!(
        payload,
        json!({"kind": "reunited", "was": "lost", "text": LOST}),
        "its heading changes, its words stay"
    );
    assert_eq!(w.store.message(w.ws, lost.message_id).await.unwrap().kind, "lost");
    assert_eq!(detail_of(w, "closed").await["edited"], 2);
}

async fn a_reunion_answers_where_the_channel_wants_that(w: &World) {
    let channels = case_channels(w, &[json!({"on_close": "reply"})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    let sent = send_all(w).await;
    let reunited = one(w, post_at(-1, 2, 600, REUNITED, &[])).await;
    let replies = send_all(w).await;
    assert_eq!(replies.len(), 1);
    assert_eq!((replies[0].action, replies[0].message_id), (Action::Reply, reunited.message_id));
    assert_eq!(replies[0].target_delivery, Some(sent[0].delivery_id));
}

async fn a_reunion_leaves_a_channel_alone_that_wants_that(w: &World) {
    let channels = case_channels(w, &[json!({"on_close": "none"})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    one(w, post_at(-1, 2, 600, REUNITED, &[])).await;
    assert!(send_all(w).await.is_empty());
    assert_eq!(detail_of(w, "closed").await["edited"], 0);
}

async fn a_search_edited_into_a_reunion_ends_the_story(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    one(w, post_at(-1, 1, 0, REUNITED, &[])).await;
    let edits = send_all(w).await;
    assert_eq!(edits.len(), 1);
    assert_eq!(edits[0].action, Action::Edit);
    assert_eq!(w.store.payload(w.ws, lost.message_id).await.unwrap()["text"], REUNITED);
    assert!(w.store.case(w.ws, lost.case_id.unwrap()).await.unwrap().closed_at.is_some());
}

async fn a_search_that_arrives_after_the_end_is_kept_and_not_published(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    one(w, post_at(-1, 2, 600, REUNITED, &[])).await;
    let late = one(w, post_at(-2, 9, 300, LOST, &channels)).await;
    assert_eq!((late.case_id, late.deliveries.len()), (lost.case_id, 0));
    assert!(late.skipped.unwrap().starts_with("closed"));
    assert_eq!(w.event_names().await.last().map(String::as_str), Some("ingest_skipped"));
}

async fn a_second_reunion_changes_nothing_more(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({"on_close": "reply"})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    one(w, post_at(-1, 2, 600, REUNITED, &[])).await;
    assert_eq!(send_all(w).await.len(), 2);
    one(w, post_at(-2, 5, 900, REUNITED, &[])).await;
    assert!(send_all(w).await.is_empty());
}

async fn an_edit_of_an_ended_search_keeps_its_ending(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    one(w, post_at(-1, 2, 600, REUNITED, &[])).await;
    one(w, post(-1, 1, &edited(), &channels)).await;
    let payload = w.store.payload(w.ws, lost.message_id).await.unwrap();
    assert_eq!(payload, json!({"kind": "reunited", "was": "lost", "text": edited()}));
}

async fn a_post_that_is_skipped_is_kept_with_its_reason(w: &World) {
    let mut skipped = post(-1, 1, "https://vk.com/wall-5_6", &[]);
    skipped.message.skipped = Some("link: nothing to read but a link".into());
    let ingested = one(w, skipped).await;
    let stored = w.store.message_by_origin(w.ws, "vk:-1", "1").await.unwrap().unwrap();
    assert_eq!(stored.message_id, ingested.message_id);
    assert_eq!(stored.skipped.as_deref(), Some("link: nothing to read but a link"));
    assert_eq!(detail_of(w, "ingest_skipped").await, json!({"why": "link: nothing to read but a link"}));
    assert_eq!(w.store.messages(w.ws, 0, 10).await.unwrap(), [stored]);
}

async fn a_post_that_is_gone_is_recorded_once(w: &World) {
    one(w, post(-1, 1, LOST, &[])).await;
    assert!(w.store.post_gone(w.ws, "vk:-1", "1").await.unwrap());
    assert!(!w.store.post_gone(w.ws, "vk:-1", "1").await.unwrap());
    assert!(!w.store.post_gone(w.ws, "vk:-1", "2").await.unwrap());
    let detail = json!({"source": "vk:-1", "origin_id": "1", "cancelled": 0, "deleted": 0});
    assert_eq!(detail_of(w, "gone").await, detail);
    assert!(w.store.known_posts(w.ws, "vk:-1", vec!["1".into()]).await.unwrap()[0].gone);
    one(w, post(-1, 1, LOST, &[])).await;
    assert!(!w.store.known_posts(w.ws, "vk:-1", vec!["1".into()]).await.unwrap()[0].gone);
}

async fn a_vanished_post_that_still_waits_is_cancelled(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({"on_gone": "delete"})]).await;
    let stored = one(w, post(-1, 1, LOST, &channels)).await;
    assert!(w.store.post_gone(w.ws, "vk:-1", "1").await.unwrap());
    assert!(w.claim(10).await.is_empty(), "nobody says it any more");
    for delivery in &stored.deliveries {
        let delivery = w.delivery(delivery.delivery_id).await;
        assert_eq!((delivery.status, delivery.reason.as_deref()), (Status::Dead, Some("cancelled")));
    }
    assert_eq!(detail_of(w, "gone").await["cancelled"], 2);
}

async fn a_vanished_post_is_taken_back_where_the_channel_wants_it(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({"on_gone": "delete"})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    for claim in w.claim(10).await {
        w.sent(&claim).await;
    }
    assert!(w.store.post_gone(w.ws, "vk:-1", "1").await.unwrap());
    let claim = w.claim_one().await;
    assert_eq!(
        (claim.action, claim.destination.channel()),
        (domain::delivery::Action::Delete, Some(channels[1]))
    );
    w.sent(&claim).await;
    assert!(w.claim(10).await.is_empty(), "by default what is published stays");
}

/// Many posts that crowd the shelves: the database decides as the book in memory does.
async fn gone(w: &World, owner: i64, id: i64) {
    assert!(w.store.post_gone(w.ws, &format!("vk:{owner}"), &id.to_string()).await.unwrap());
}

async fn a_post_that_vanishes_while_it_is_being_sent_is_not_tried_again(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({"on_gone": "delete"})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    let claims = w.claim(10).await;
    assert_eq!(claims.len(), 2);
    gone(w, -1, 1).await;
    w.fail(&claims[0], transient(Scope::Delivery)).await;
    w.store.commit(vec![finish(&claims[1], FinishKind::Release)]).await.unwrap();
    for claim in &claims {
        let ended = w.store.delivery(w.ws, claim.delivery_id).await.unwrap();
        assert_eq!((ended.status, ended.reason.as_deref()), (Status::Dead, Some("cancelled")));
    }
    w.advance(Span::from_hours(1)).await;
    let left: Vec<Action> = w.claim(10).await.iter().map(|claim| claim.action).collect();
    assert!(!left.contains(&Action::Send), "{left:?}");
    let events = w.store.events(w.ws, 0, 1_000).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.name == "cancelled").count(), 2);
    assert!(!events.iter().any(|event| event.name == "dead_letter"), "nobody has to look at it");
}

async fn a_vanished_post_that_may_be_visible_is_followed_to_its_end(w: &World) {
    let channels = case_channels(w, &[json!({"on_gone": "delete"})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    let claim = w.claim_one().await;
    gone(w, -1, 1).await;
    w.fail(&claim, transient(Scope::Delivery).unknown()).await;
    let actions: Vec<Action> = send_all(w).await.iter().map(|claim| claim.action).collect();
    assert_eq!(actions, [Action::Send, Action::Delete], "what is there is known, and then taken back");
}

async fn a_post_of_which_half_is_visible_is_edited_and_taken_back_too(w: &World) {
    let channels = case_channels(w, &[json!({"on_gone": "delete"})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    let claim = w.claim_one().await;
    let done = PartProgress::Done { part: 0, provider_message_id: "7".into() };
    w.store.record_parts(vec![(claim.reference(), done)]).await.unwrap();
    w.fail(&claim, transient(Scope::Delivery)).await;
    // The words that readers have seen are old by now, and the rest waits.
    one(w, post(-1, 1, &edited(), &channels)).await;
    let actions: Vec<Action> = send_all(w).await.iter().map(|claim| claim.action).collect();
    assert_eq!(actions, [Action::Send, Action::Edit]);
    gone(w, -1, 1).await;
    let actions: Vec<Action> = send_all(w).await.iter().map(|claim| claim.action).collect();
    assert_eq!(actions, [Action::Delete]);
}

async fn an_edit_that_is_half_done_begins_again_with_newer_words(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    one(w, post(-1, 1, &edited(), &channels)).await;
    let claim = w.claim_one().await;
    let done = PartProgress::Done { part: 0, provider_message_id: "7".into() };
    w.store.record_parts(vec![(claim.reference(), done)]).await.unwrap();
    w.fail(&claim, transient(Scope::Delivery)).await;
    one(w, post(-1, 1, &format!("{} Верните!", edited()), &channels)).await;
    let edits = send_all(w).await;
    assert_eq!((edits.len(), edits[0].revision), (1, 3));
    assert!(edits[0].parts.is_empty(), "part 0 says the words of revision 2: {edits:?}");
}

async fn two_edits_of_one_post_may_wait_while_it_changes_again(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    one(w, post(-1, 1, &edited(), &channels)).await;
    let first = w.claim_one().await;
    one(w, post(-1, 1, &format!("{} Верните!", edited()), &channels)).await;
    let edits = w.store.deliveries(w.ws, DeliveryFilter::default(), 10).await.unwrap();
    let second = edits.iter().map(|edit| edit.delivery_id).max().unwrap();
    assert!(second > first.delivery_id, "what is on its way cannot take new words any more: {edits:?}");
    assert!(w.store.earlier_edit_leaves(w.ws, second).await.unwrap());
    assert!(!w.store.earlier_edit_leaves(w.ws, first.delivery_id).await.unwrap());
    w.fail(&first, transient(Scope::Delivery)).await;
    assert!(!w.store.earlier_edit_leaves(w.ws, second).await.unwrap());
    // Both wait now, and the post changes once more.
    let last = one(w, post(-1, 1, &format!("{} Очень ждём!", edited()), &channels)).await;
    assert_eq!(last.fate, Fate::Revised);
    let edits = send_all(w).await;
    assert_eq!(edits.iter().map(|edit| edit.revision).collect::<Vec<_>>(), [2, 4]);
}

async fn when_the_first_of_two_copies_vanishes_unsaid_the_other_is_said(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({})]).await;
    let copy = format!("{LOST} Помогите найти!");
    one(w, post(-1, 1, LOST, &channels)).await;
    let second = one(w, post(-2, 5, &copy, &channels)).await;
    let third = one(w, post(-3, 9, &copy, &channels)).await;
    assert_eq!([statuses(&second), statuses(&third)], [[Status::Deduped; 2], [Status::Deduped; 2]]);
    gone(w, -1, 1).await;
    let said = send_all(w).await;
    assert_eq!(said.len(), 2, "once in each channel: {said:?}");
    assert!(said.iter().all(|claim| claim.message_id == second.message_id), "{said:?}");
    assert_eq!(detail_of(w, "requeued").await["parent"], second.deliveries[1].delivery_id.0);
    // From now on it is the one that was said.
    let fourth = one(w, post(-4, 2, &copy, &channels)).await;
    assert_eq!(statuses(&fourth), [Status::Deduped; 2]);
    let lanes = w.store.lanes(w.ws).await.unwrap();
    assert!(lanes.iter().all(|lane| lane.counts.queued == 0 && lane.counts.sent == 1), "{lanes:?}");
}

async fn when_all_copies_vanish_unsaid_nothing_is_said(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let copy = format!("{LOST} Помогите найти!");
    one(w, post(-1, 1, LOST, &channels)).await;
    one(w, post(-2, 5, &copy, &channels)).await;
    one(w, post(-3, 9, &copy, &channels)).await;
    gone(w, -2, 5).await;
    gone(w, -1, 1).await;
    gone(w, -3, 9).await;
    assert!(send_all(w).await.is_empty());
}

async fn a_copy_is_said_when_the_first_vanishes_in_the_middle_of_a_failed_send(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    let second = one(w, post(-2, 5, &format!("{LOST} Помогите найти!"), &channels)).await;
    let claim = w.claim_one().await;
    gone(w, -1, 1).await;
    w.fail(&claim, transient(Scope::Delivery)).await;
    let said = send_all(w).await;
    assert_eq!(said.iter().map(|claim| claim.message_id).collect::<Vec<_>>(), [second.message_id]);
}

async fn cases_are_those_of_the_model(w: &World) {
    let mut book = CaseBook::new();
    let mut renamed: HashMap<CaseId, CaseId> = HashMap::new();
    let mut n_joined = 0;
    for number in 0..240_u64 {
        // Every fourth post is an earlier one again, on another wall.
        let repeats = number % 4 == 3;
        let mut sketch = invented(if repeats { number / 2 } else { number });
        sketch.origin.post_id = 10_000 + number as i64;
        sketch.date = invented(number).date;
        sketch.origin.owner_id -= i64::from(repeats);
        let mut new = post(sketch.origin.owner_id, sketch.origin.post_id, &number.to_string(), &[]);
        new.message.kind = sketch.kind.name().into();
        new.sketch = Some(sketch.clone());
        w.seconds(1).await;
        let stored = one(w, new).await.case_id;
        let model = book.take_in(sketch).map(|(case, _)| case);
        assert_eq!(stored.is_some(), model.is_some(), "post {number}");
        if let (Some(stored), Some(model)) = (stored, model) {
            n_joined += usize::from(renamed.contains_key(&model));
            assert_eq!(*renamed.entry(model).or_insert(stored), stored, "post {number}");
        }
    }
    let mut cases: Vec<CaseId> = renamed.values().copied().collect();
    cases.sort_unstable();
    cases.dedup();
    assert_eq!(cases.len(), renamed.len(), "no case of the database is two of the model");
    assert!(n_joined > 20, "{n_joined} posts joined a known case: too few to prove anything");
}

async fn workspaces_have_their_own_cases(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let mine = one(w, post(-1, 1, LOST, &channels)).await;
    let other = w.another_workspace("другой приют").await;
    let channels = case_channels(&other, &[json!({})]).await;
    let theirs = one(&other, post(-1, 1, LOST, &channels)).await;
    assert_ne!(mine.case_id, theirs.case_id);
    assert_eq!(statuses(&theirs), [Status::Queued]);
    assert!(matches!(
        other.store.case(other.ws, mine.case_id.unwrap()).await,
        Err(StoreError::NotFound { .. })
    ));
    assert!(other.store.message(other.ws, mine.message_id).await.is_err());
}

async fn a_refused_post_leaves_nothing_behind(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let unknown = post(-1, 2, LOST, &[ChannelId(4_000)]);
    let refused = w.store.ingest(w.ws, vec![post(-1, 1, LOST, &channels), unknown], None).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { what: "channel", .. }), "{refused}");
    assert!(w.store.messages(w.ws, 0, 10).await.unwrap().is_empty());
    let first = one(w, post(-1, 1, LOST, &channels)).await;
    let case = w.store.case(w.ws, first.case_id.unwrap()).await.unwrap();
    assert_eq!(case.n_messages, 1, "no trace of the case that was undone");
}

async fn a_repeat_knows_what_was_said_before_it(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({})]).await;
    let first = one(w, post(-101, 1, LOST, &channels[..1])).await;
    let elsewhere = one(w, post(-303, 3, FOUND, &channels)).await;
    let copy = one(w, post(-202, 9, LOST, &channels)).await;
    assert_eq!(statuses(&copy), [Status::Deduped, Status::Queued]);
    let before = |n: usize| w.store.said_before(w.ws, copy.deliveries[n].delivery_id);
    assert_eq!(before(0).await.unwrap().unwrap().delivery_id, first.deliveries[0].delivery_id);
    assert_eq!(before(1).await.unwrap(), None, "another kind in another channel is no repeat");
    assert_eq!(w.store.said_before(w.ws, elsewhere.deliveries[0].delivery_id).await.unwrap(), None);
}

async fn a_message_is_found_by_the_address_of_its_post(w: &World) {
    let mut new = post(-101, 1, LOST, &[]);
    new.message.origin["url"] = "https://feed.example/a-1".into();
    let stored = one(w, new).await;
    let found = |url: &'static str| w.store.message_by_url(w.ws, url);
    assert_eq!(found("https://feed.example/a-1").await.unwrap().unwrap().message_id, stored.message_id);
    assert_eq!(found("https://feed.example/a-2").await.unwrap(), None);
}

async fn the_last_posts_come_with_their_cases_and_deliveries(w: &World) {
    let account = w.account().await;
    let channel = w.channel(account).await;
    let posts =
        vec![post(-1, 1, LOST, &[channel]), post(-2, 2, LOST, &[channel]), post(-3, 3, FOUND, &[channel])];
    let taken = w.store.ingest(w.ws, posts, None).await.unwrap();
    let recent = w.store.recent_messages(w.ws, 2).await.unwrap();
    let ids: Vec<_> = recent.iter().map(|message| message.message_id).collect();
    assert_eq!(
        ids,
        [taken[2].message_id, taken[1].message_id],
        "the newest first, and no more than asked for"
    );
    let deliveries = w.store.deliveries_of(w.ws, ids.clone(), 10).await.unwrap();
    let of: Vec<_> = deliveries.iter().map(|delivery| delivery.message_id).collect();
    assert_eq!(of, [taken[1].message_id, taken[2].message_id]);
    assert_eq!(w.store.deliveries_of(w.ws, ids.clone(), 1).await.unwrap().len(), 1);
    let wanted: Vec<CaseId> = taken.iter().filter_map(|post| post.case_id).collect();
    let cases = w.store.cases(w.ws, wanted.clone()).await.unwrap();
    assert_eq!(cases.iter().map(|case| case.n_messages).sum::<i32>(), 3, "each case once");
    let newest = w.store.recent_cases(w.ws, None, 1).await.unwrap();
    let older = w.store.recent_cases(w.ws, Some(newest[0].case_id), 10).await.unwrap();
    let paged: Vec<Case> = newest.into_iter().chain(older).collect();
    assert!(paged.iter().eq(cases.iter().rev()), "the newest first: {paged:?}");
    let other = w.another_workspace("другой").await;
    assert!(other.store.recent_messages(other.ws, 5).await.unwrap().is_empty());
    assert!(other.store.deliveries_of(other.ws, ids, 5).await.unwrap().is_empty());
    assert!(other.store.cases(other.ws, wanted).await.unwrap().is_empty());
    assert!(other.store.recent_cases(other.ws, None, 10).await.unwrap().is_empty());
}

async fn what_a_waiting_edit_points_at_is_kept(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    one(w, post(-1, 1, LOST, &channels)).await;
    let sent = send_all(w).await;
    w.store.pause_channel(w.ws, channels[0], Timestamp::NEVER, "проверка").await.unwrap();
    one(w, post(-1, 1, &edited(), &channels)).await;
    w.advance(Span::from_hours(25)).await;
    assert_eq!(w.clear(Whose::Everyone).await.deliveries, 0, "the edit still needs it");
    w.store.resume_channel(w.ws, channels[0]).await.unwrap();
    let edits = send_all(w).await;
    assert_eq!(edits[0].target_delivery, Some(sent[0].delivery_id));
    w.advance(Span::from_hours(25)).await;
    assert_eq!(w.clear(Whose::Everyone).await.deliveries, 2);
}

async fn old_runs_and_cases_are_cleared_with_what_posts_are_compared_with(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    w.store.start_run(w.ws, "vk:-1").await.unwrap();
    one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    w.advance(Span::from_hours(25)).await;
    let first = w.clear(Whose::Everyone).await;
    assert_eq!((first.cases, first.runs), (0, 1), "inside the longest window a case may still be a key");
    assert!(first.case_keys > 0, "{first:?}");
    w.advance(Span::from_hours(24 * 30)).await;
    assert_eq!(w.clear(Whose::Everyone).await.cases, 1);
    let again = w.clear(Whose::Everyone).await;
    assert_eq!((again.cases, again.case_keys, again.runs), (0, 0, 0));
}
