//! Waves: who failed is tried anew, and others stay as they are.

use domain::campaign::CampaignStatus;
use domain::ids::CampaignId;
use domain::outcome::{Failure, Scope};
use domain::time::Span;
use store::*;

use crate::campaigns::*;
use crate::world::*;

contract! {
    a_wave_has_a_deadline_of_its_own,
    a_wave_that_is_broken_off_keeps_what_they_failed_with,
    old_failures_are_tried_anew_too,
    a_wave_for_one_code_leaves_who_never_got_their_turn_alone,
}

/// Ends it as a deadline or a guard does.
async fn aborted(w: &World, id: CampaignId) {
    let version = campaign(w, id).await.version;
    assert!(w.store.abort_campaign(w.ws, id, version, "срок вышел").await.unwrap());
    w.store.recall_campaign(w.ws, id).await.unwrap();
    w.store.end_retries(w.ws, id).await.unwrap();
    assert!(to(w, id, CampaignStatus::Aborted).await);
    w.check().await;
}

/// Prepares a wave and lets it run.
async fn again(w: &World, id: CampaignId, code: Option<&str>, unknown: bool) {
    let retries = Retries { code: code.map(str::to_owned), unknown };
    assert!(w.store.anybody_again(w.ws, id, retries.clone()).await.unwrap());
    let version = campaign(w, id).await.version;
    assert!(w.store.begin_wave(w.ws, id, version, retries).await.unwrap());
    while !w.store.prepare_wave(w.ws, id).await.unwrap() {}
    assert!(to(w, id, CampaignStatus::Running).await);
    w.check().await;
}

async fn finished(w: &World, id: CampaignId) {
    assert!(to(w, id, CampaignStatus::Finishing).await);
    assert!(to(w, id, CampaignStatus::Finished).await);
    w.check().await;
}

fn with_code(code: &str) -> Failure {
    Failure { code: code.into(), ..refused() }
}

async fn a_wave_has_a_deadline_of_its_own(w: &World) {
    let account = w.account().await;
    people(w, account, 0..3).await;
    let deadline = Span::from_secs(600);
    let id = started(w, NewCampaign { deadline, ..draft("снова к сроку", &[account]) }).await;
    let begun = campaign(w, id).await;
    assert_eq!(begun.deadline, begun.started_at.map(|at| at + deadline));
    feed(w, id, 1).await;
    let claim = w.claim_one().await;
    w.fail(&claim, refused()).await;
    assert!(to(w, id, CampaignStatus::Paused).await);
    w.seconds(300).await;
    assert!(to(w, id, CampaignStatus::Running).await);
    assert_eq!(campaign(w, id).await.deadline, begun.deadline, "a pause does not put it off");
    w.seconds(301).await;
    aborted(w, id).await;
    w.seconds(24 * 3_600).await;
    again(w, id, None, false).await;
    let wave = campaign(w, id).await;
    assert_eq!((wave.started_at, wave.deadline), (begun.started_at, Some(w.now().await + deadline)));
    assert_eq!(wave.ends_as, CampaignStatus::Cancelled, "it was aborted once, and may be cancelled now");
    assert_eq!(feed(w, id, 10).await, 3);
    assert_eq!(send_all(w).await, 3);
    finished(w, id).await;
}

async fn a_wave_that_is_broken_off_keeps_what_they_failed_with(w: &World) {
    let account = w.account().await;
    people(w, account, 0..2).await;
    let id = started(w, draft("оборвана", &[account])).await;
    feed(w, id, 10).await;
    let claims = w.claim(10).await;
    w.fail(&claims[0], with_code("403")).await;
    w.sent(&claims[1]).await;
    finished(w, id).await;
    again(w, id, None, false).await;
    aborted(w, id).await;
    let members = w.store.campaign_members(w.ws, id, Person::default(), 10).await.unwrap();
    let of: Vec<_> = members.iter().map(|one| (one.state.as_str(), one.code.as_deref())).collect();
    assert_eq!(of, [("cancelled", Some("403")), ("sent", None)]);
    again(w, id, None, false).await;
    feed(w, id, 10).await;
    assert_eq!(send_all(w).await, 1);
    finished(w, id).await;
}

async fn old_failures_are_tried_anew_too(w: &World) {
    let account = w.account().await;
    people(w, account, 0..4).await;
    let id = started(w, draft("давно не дошло", &[account])).await;
    feed(w, id, 10).await;
    let claims = w.claim(10).await;
    w.sent(&claims[0]).await;
    w.fail(&claims[1], with_code("400")).await;
    w.fail(&claims[2], Failure { recipient_gone: true, ..permanent(Scope::Channel) }).await;
    w.fail(&claims[3], transient(Scope::Delivery).unknown()).await;
    w.seconds(60).await;
    // Refused at last, but the first request may have arrived.
    let second = w.claim_one().await;
    w.fail(&second, refused()).await;
    finished(w, id).await;
    let week = Span::from_hours(24 * 7);
    w.advance(Span::from_hours(24 * 40)).await;
    let keep = Retention { deliveries: week, deduped: week, events: week };
    let (removed, _) = w.store.retain(Whose::Everyone, keep, 100, Walk::START).await.unwrap();
    assert_eq!(removed.deliveries, 4);
    let nonsense = Retries { code: Some("бессмыслица".into()), unknown: true };
    assert!(!w.store.anybody_again(w.ws, id, nonsense).await.unwrap());
    again(w, id, Some("400"), false).await;
    assert_eq!(feed(w, id, 10).await, 1);
    assert_eq!(send_all(w).await, 1);
    finished(w, id).await;
    let certain = Retries { code: None, unknown: false };
    assert!(!w.store.anybody_again(w.ws, id, certain).await.unwrap(), "they may have got it");
    again(w, id, None, true).await;
    feed(w, id, 10).await;
    assert_eq!(send_all(w).await, 1);
    finished(w, id).await;
    assert_eq!(states(w, id).await, told(&[("gone", 1), ("sent", 3)]));
    assert_eq!(counts(w, id).await.sent, 3);
}

async fn a_wave_for_one_code_leaves_who_never_got_their_turn_alone(w: &World) {
    let account = w.account().await;
    people(w, account, 0..5).await;
    let id = started(w, draft("по коду", &[account])).await;
    feed(w, id, 2).await;
    let claims = w.claim(10).await;
    w.fail(&claims[0], with_code("403")).await;
    w.fail(&claims[1], with_code("400")).await;
    aborted(w, id).await;
    assert_eq!(states(w, id).await, told(&[("cancelled", 3), ("failed", 2)]));
    again(w, id, Some("403"), false).await;
    assert_eq!(feed(w, id, 10).await, 1);
    assert_eq!(send_all(w).await, 1);
    finished(w, id).await;
    assert_eq!(states(w, id).await, told(&[("cancelled", 3), ("failed", 1), ("sent", 1)]));
    let stood = (counts(w, id).await.dead, w.store.campaign_endings(w.ws, id).await.unwrap()[CANCELLED]);
    assert_eq!(stood, (3, 3));
    // Without a code it is for everybody who has not got it.
    again(w, id, None, false).await;
    assert_eq!(feed(w, id, 10).await, 4);
    assert_eq!(send_all(w).await, 4);
    finished(w, id).await;
    assert_eq!(states(w, id).await, told(&[("sent", 5)]));
    let stood = (counts(w, id).await.dead, w.store.campaign_endings(w.ws, id).await.unwrap()[CANCELLED]);
    assert_eq!(stood, (0, 0));
}
