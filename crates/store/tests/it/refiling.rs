//! A wrong judgement about a case, put right by a person: posts, keys and silence follow, what was sent stays.

use domain::content::cases::Origin;
use domain::delivery::{Action, Status};
use domain::ids::{CaseId, MessageId};
use serde_json::json;
use store::*;

use crate::intake::{LOST, REUNITED, case_channels, detail_of, one, post, post_at, send_all, statuses};
use crate::world::*;

contract! {
    joined_cases_are_one_for_later_posts,
    a_waiting_repeat_of_a_joined_case_is_ended,
    what_was_sent_wins_over_what_waits,
    both_that_were_sent_stay,
    an_end_that_one_of_two_cases_knew_is_told_to_the_other,
    a_joined_case_points_at_the_one_it_is_now,
    a_post_that_kept_silent_for_a_wrong_story_is_said,
    later_posts_follow_a_post_that_left,
    a_post_that_spoke_for_a_story_and_left_lets_the_rest_speak,
    a_reunion_that_left_opens_the_story_again,
    a_reunion_takes_its_own_search_along,
    a_split_names_posts_of_the_case_and_leaves_some,
    nothing_is_refiled_across_workspaces,
}

/// Perhaps the same dog, told by a neighbour: nothing in it identifies it for the rules, and nothing forbids it.
const OTHER: &str = "Убежала собака от магазина у вокзала, маленькая, боится людей. Кто видел, позвоните хозяйке: \
                     8 902 000-00-22";

fn moved(message_id: MessageId, owner_id: i64, post_id: i64) -> MovedPost {
    MovedPost { message_id, origin: Origin { owner_id, post_id } }
}

async fn case_of(w: &World, id: MessageId) -> CaseId {
    w.store.message(w.ws, id).await.unwrap().case_id.unwrap()
}

async fn joined_cases_are_one_for_later_posts(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    let other = one(w, post(-2, 1, OTHER, &channels)).await;
    let (keep, gone) = (lost.case_id.unwrap(), other.case_id.unwrap());
    assert_ne!(keep, gone);
    send_all(w).await;
    let refiled = w.store.merge_cases(w.ws, keep, gone).await.unwrap();
    assert_eq!(refiled, Refiled { case_id: keep, messages: 1, cancelled: 0, said: 0, edited: 0 });
    assert_eq!(case_of(w, other.message_id).await, keep);
    let case = w.store.case(w.ws, keep).await.unwrap();
    assert_eq!((case.n_messages, case.closed_at), (2, None));
    assert_eq!(case.facts, json!({"first": "vk:-1/1", "copies": 1, "sources": ["vk:-2/1"]}));
    // A copy of either belongs to the one case and is a repeat there.
    for (wall, text) in [(-3, LOST), (-4, OTHER)] {
        let copy = one(w, post(wall, 1, text, &channels)).await;
        assert_eq!((copy.case_id, statuses(&copy)), (Some(keep), vec![Status::Deduped]), "{text}");
    }
    // So does an edit of the post that moved.
    let edit = one(w, post(-2, 1, &format!("{OTHER} Вознаграждение!"), &channels)).await;
    assert_eq!((edit.fate, edit.case_id), (Fate::Revised, Some(keep)));
    let told = w.store.message(w.ws, lost.message_id).await.unwrap();
    assert_ne!(told.facts["case"]["verdict"], "by_hand", "the one that was there was not judged again");
    let detail = detail_of(w, "case_changed").await;
    assert_eq!(detail, json!({"joined": gone, "did": refiled}));
}

async fn a_waiting_repeat_of_a_joined_case_is_ended(w: &World) {
    let channels = case_channels(w, &[json!({}), json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels[..1])).await;
    send_all(w).await;
    let other = one(w, post(-2, 1, OTHER, &channels)).await;
    let refiled = w.store.merge_cases(w.ws, lost.case_id.unwrap(), other.case_id.unwrap()).await.unwrap();
    assert_eq!((refiled.cancelled, refiled.said), (1, 0));
    assert_eq!(w.status(other.deliveries[0].delivery_id).await, Status::Dead, "this channel has heard it");
    assert_eq!(w.status(other.deliveries[1].delivery_id).await, Status::Queued, "this one has not");
    assert_eq!(send_all(w).await.len(), 1);
    let copy = one(w, post(-3, 1, LOST, &channels)).await;
    assert_eq!(statuses(&copy), [Status::Deduped, Status::Deduped]);
}

async fn what_was_sent_wins_over_what_waits(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let other = one(w, post(-2, 1, OTHER, &channels)).await;
    send_all(w).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    let refiled = w.store.merge_cases(w.ws, lost.case_id.unwrap(), other.case_id.unwrap()).await.unwrap();
    assert_eq!(refiled.cancelled, 1);
    assert_eq!(w.status(lost.deliveries[0].delivery_id).await, Status::Dead);
    assert_eq!(w.status(other.deliveries[0].delivery_id).await, Status::Sent);
    assert_eq!(statuses(&one(w, post(-3, 1, LOST, &channels)).await), [Status::Deduped]);
}

async fn both_that_were_sent_stay(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    let other = one(w, post(-2, 1, OTHER, &channels)).await;
    assert_eq!(send_all(w).await.len(), 2);
    w.store.merge_cases(w.ws, lost.case_id.unwrap(), other.case_id.unwrap()).await.unwrap();
    assert!(send_all(w).await.is_empty(), "nothing is sent, edited or taken back");
    for ingested in [&lost, &other] {
        assert_eq!(w.status(ingested.deliveries[0].delivery_id).await, Status::Sent);
    }
}

async fn an_end_that_one_of_two_cases_knew_is_told_to_the_other(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    let other = one(w, post(-2, 1, OTHER, &channels)).await;
    send_all(w).await;
    let end = one(w, post_at(-1, 2, 600, REUNITED, &[])).await;
    assert_eq!(end.case_id, lost.case_id);
    assert_eq!(send_all(w).await.len(), 1);
    let refiled = w.store.merge_cases(w.ws, other.case_id.unwrap(), lost.case_id.unwrap()).await.unwrap();
    assert_eq!((refiled.messages, refiled.edited), (2, 1));
    let edits = send_all(w).await;
    assert_eq!(edits.len(), 1, "what was shown as ended before is not edited again");
    assert_eq!((edits[0].action, edits[0].message_id), (Action::Edit, other.message_id));
    let case = w.store.case(w.ws, other.case_id.unwrap()).await.unwrap();
    assert_eq!((case.closed_at.is_some(), case.closed_by), (true, Some(end.message_id)));
}

async fn a_joined_case_points_at_the_one_it_is_now(w: &World) {
    let lost = one(w, post(-1, 1, LOST, &[])).await.case_id.unwrap();
    let other = one(w, post(-2, 1, OTHER, &[])).await.case_id.unwrap();
    w.store.merge_cases(w.ws, lost, other).await.unwrap();
    let pointer = w.store.case(w.ws, other).await.unwrap();
    assert_eq!((pointer.facts, pointer.n_messages), (json!({"joined_with": lost}), 0));
    let again = w.store.merge_cases(w.ws, lost, other).await.unwrap_err().to_string();
    assert!(again.contains(&format!("was joined with case {lost}")), "{again}");
    let itself = w.store.merge_cases(w.ws, lost, lost).await.unwrap_err().to_string();
    assert!(itself.contains("itself"), "{itself}");
    let open: Vec<CaseId> =
        w.store.open_cases(w.ws, 10).await.unwrap().into_iter().map(|(case, _)| case.case_id).collect();
    assert_eq!(open, [lost]);
}

async fn a_post_that_kept_silent_for_a_wrong_story_is_said(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let first = one(w, post(-1, 1, LOST, &channels)).await;
    let silent = one(w, post(-2, 7, LOST, &channels)).await;
    assert_eq!((statuses(&silent), silent.case_id), (vec![Status::Deduped], first.case_id));
    assert_eq!(send_all(w).await.len(), 1);
    let case = first.case_id.unwrap();
    let refiled = w.store.split_case(w.ws, case, vec![moved(silent.message_id, -2, 7)]).await.unwrap();
    assert_eq!((refiled.messages, refiled.said, refiled.cancelled), (1, 1, 0));
    assert_eq!(case_of(w, silent.message_id).await, refiled.case_id);
    assert_ne!(refiled.case_id, case);
    let said = send_all(w).await;
    assert_eq!(said.len(), 1);
    assert_eq!((said[0].message_id, said[0].action), (silent.message_id, Action::Send));
    let (old, new) =
        (w.store.case(w.ws, case).await.unwrap(), w.store.case(w.ws, refiled.case_id).await.unwrap());
    assert_eq!((old.n_messages, new.n_messages), (1, 1));
    assert_eq!((&old.facts["copies"], &old.facts["first"]), (&json!(0), &json!("vk:-1/1")));
    assert_eq!(new.facts, json!({"first": "vk:-2/7"}));
    assert!(!new.title.is_empty());
    let told = w.store.message(w.ws, silent.message_id).await.unwrap();
    assert_eq!(told.facts["case"], json!({"case": refiled.case_id, "verdict": "by_hand", "was": case}));
    assert_eq!(detail_of(w, "case_changed").await, json!({"split_from": case, "did": refiled}));
}

/// Two animals that only a person can tell apart: joined by hand first, then taken apart again.
async fn later_posts_follow_a_post_that_left(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    let other = one(w, post(-2, 1, OTHER, &channels)).await;
    send_all(w).await;
    let keep = lost.case_id.unwrap();
    w.store.merge_cases(w.ws, keep, other.case_id.unwrap()).await.unwrap();
    let new = w.store.split_case(w.ws, keep, vec![moved(other.message_id, -2, 1)]).await.unwrap().case_id;
    let copy = one(w, post(-3, 1, OTHER, &channels)).await;
    assert_eq!((copy.case_id, statuses(&copy)), (Some(new), vec![Status::Deduped]), "it was said before");
    let copy = one(w, post(-4, 1, LOST, &channels)).await;
    assert_eq!((copy.case_id, statuses(&copy)), (Some(keep), vec![Status::Deduped]));
    let edit = one(w, post(-2, 1, &format!("{OTHER} Вознаграждение!"), &channels)).await;
    assert_eq!(edit.case_id, Some(new));
    assert_eq!(send_all(w).await.len(), 1, "the edit, and nothing else");
}

async fn a_post_that_spoke_for_a_story_and_left_lets_the_rest_speak(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let first = one(w, post(-1, 1, LOST, &channels)).await;
    let second = one(w, post(-2, 1, LOST, &channels)).await;
    let third = one(w, post(-3, 1, LOST, &channels)).await;
    send_all(w).await;
    let case = first.case_id.unwrap();
    let refiled = w.store.split_case(w.ws, case, vec![moved(first.message_id, -1, 1)]).await.unwrap();
    assert_eq!(refiled.said, 1, "one of the two that stay, not both");
    let said = send_all(w).await;
    assert_eq!(said.iter().map(|claim| claim.message_id).collect::<Vec<_>>(), [second.message_id]);
    assert_eq!(w.status(third.deliveries[0].delivery_id).await, Status::Deduped);
}

async fn a_reunion_that_left_opens_the_story_again(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let lost = one(w, post(-1, 1, LOST, &channels)).await;
    send_all(w).await;
    let end = one(w, post_at(-1, 2, 600, REUNITED, &channels)).await;
    assert_eq!(end.case_id, lost.case_id);
    assert_eq!(send_all(w).await.len(), 2, "the happy end, and the edit of the search");
    let case = lost.case_id.unwrap();
    let refiled = w.store.split_case(w.ws, case, vec![moved(end.message_id, -1, 2)]).await.unwrap();
    assert_eq!((refiled.edited, refiled.said), (1, 0));
    let edits = send_all(w).await;
    assert_eq!(edits.len(), 1);
    assert_eq!((edits[0].action, edits[0].message_id, edits[0].revision), (Action::Edit, lost.message_id, 3));
    let payload = w.store.payload(w.ws, lost.message_id).await.unwrap();
    assert_eq!(payload, json!({"kind": "lost", "text": LOST}), "a search again");
    let old = w.store.case(w.ws, case).await.unwrap();
    assert_eq!((old.closed_at, old.closed_by), (None, None));
    let new = w.store.case(w.ws, refiled.case_id).await.unwrap();
    assert_eq!((new.closed_at.is_some(), new.closed_by), (true, Some(end.message_id)));
    // The story goes on: a late copy of the search is for everybody again, and a repeat where it was said.
    let copy = one(w, post(-5, 1, LOST, &channels)).await;
    assert_eq!(
        (copy.case_id, copy.skipped.clone(), statuses(&copy)),
        (Some(case), None, vec![Status::Deduped])
    );
}

async fn a_reunion_takes_its_own_search_along(w: &World) {
    let channels = case_channels(w, &[json!({})]).await;
    let stays = one(w, post(-1, 1, LOST, &channels)).await;
    let goes = one(w, post(-2, 1, LOST, &channels)).await;
    send_all(w).await;
    let end = one(w, post_at(-2, 2, 600, REUNITED, &[])).await;
    send_all(w).await;
    let posts = vec![moved(goes.message_id, -2, 1), moved(end.message_id, -2, 2)];
    let refiled = w.store.split_case(w.ws, stays.case_id.unwrap(), posts).await.unwrap();
    assert_eq!((refiled.messages, refiled.edited), (2, 1));
    assert_eq!(refiled.said, 0, "a search that has ended is not said any more");
    assert_eq!(w.store.payload(w.ws, stays.message_id).await.unwrap()["kind"], "lost");
}

async fn a_split_names_posts_of_the_case_and_leaves_some(w: &World) {
    let lost = one(w, post(-1, 1, LOST, &[])).await;
    let other = one(w, post(-2, 1, OTHER, &[])).await;
    let case = lost.case_id.unwrap();
    let said = |posts| async move { w.store.split_case(w.ws, case, posts).await.unwrap_err().to_string() };
    let stranger = said(vec![moved(other.message_id, -2, 1)]).await;
    assert!(stranger.contains(&format!("does not hold message {}", other.message_id)), "{stranger}");
    assert!(said(vec![moved(lost.message_id, -1, 1)]).await.contains("would be empty"));
    assert!(said(Vec::new()).await.contains("say which posts"));
    assert_eq!(case_of(w, lost.message_id).await, case, "nothing has changed");
}

async fn nothing_is_refiled_across_workspaces(w: &World) {
    let lost = one(w, post(-1, 1, LOST, &[])).await;
    let other = one(w, post(-2, 1, OTHER, &[])).await;
    let stranger = w.store.create_workspace("stranger").await.unwrap();
    let (one, two) = (lost.case_id.unwrap(), other.case_id.unwrap());
    let merged = w.store.merge_cases(stranger, one, two).await;
    assert!(matches!(merged, Err(StoreError::NotFound { .. })), "{merged:?}");
    let split = w.store.split_case(stranger, one, vec![moved(lost.message_id, -1, 1)]).await;
    assert!(matches!(split, Err(StoreError::NotFound { .. })), "{split:?}");
}
