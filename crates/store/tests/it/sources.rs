//! Sources: one node at a time, a cursor that moves with the posts, health in words.

use domain::ids::{AccountId, SourceId};
use domain::time::Span;
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    a_source_is_created_changed_and_removed,
    one_node_polls_a_source_at_a_time,
    a_lease_that_ends_is_taken_over_and_the_late_node_changes_nothing,
    a_failing_source_says_since_when_and_why,
    the_cursor_moves_with_the_posts,
    a_run_tells_what_it_saw,
    a_run_that_nobody_will_end_is_closed_with_the_reason,
    a_lease_that_is_renewed_is_not_taken_over,
    sources_that_fail_do_not_take_the_places_of_the_others,
    a_poll_that_was_broken_off_says_nothing_about_its_source,
    bad_sources_are_refused,
}

fn wall(name: &str) -> NewSource {
    NewSource {
        kind: "vk".into(),
        name: name.into(),
        address: "-101".into(),
        account_id: None,
        settings: json!({"city": "Тюмень"}),
    }
}

fn finished(source_id: SourceId, owner: &str, next_in: Span) -> FinishedPoll {
    FinishedPoll {
        source_id,
        owner: owner.into(),
        cursor: Some(json!({"last": 7})),
        next_poll_at: START + next_in,
        health: PollHealth::Well,
    }
}

const LEASE: Span = Span::from_secs(60);

async fn due(w: &World, owner: &str) -> Vec<SourceId> {
    let due = w.store.due_sources(owner, Seats::any(10), LEASE).await.unwrap();
    due.into_iter().map(|source| source.source_id).collect()
}

async fn a_source_is_created_changed_and_removed(w: &World) {
    let account = w.account().await;
    let id = w.store.create_source(w.ws, wall("Тюмень")).await.unwrap();
    let changed = NewSource { address: "-202".into(), account_id: Some(account), ..wall("Тюмень 2") };
    w.store.change_source(w.ws, id, changed).await.unwrap();
    let source = w.store.sources(w.ws).await.unwrap().remove(0);
    assert_eq!((source.source_id, source.name.as_str(), source.address.as_str()), (id, "Тюмень 2", "-202"));
    assert_eq!((source.account_id, source.enabled), (Some(account), true));
    assert_eq!((source.settings, source.cursor), (json!({"city": "Тюмень"}), json!({})));
    let second = w.store.create_source(w.ws, wall("Омск")).await.unwrap();
    let taken = w.store.change_source(w.ws, second, wall("Тюмень 2")).await.unwrap_err();
    assert!(matches!(taken, StoreError::Exists { what: "source", .. }), "{taken}");
    w.store.change_source(w.ws, second, wall("Омск")).await.unwrap();
    w.store.remove_source(w.ws, second).await.unwrap();
    w.store.enable_source(w.ws, id, false).await.unwrap();
    assert!(due(w, "а").await.is_empty(), "a disabled source is not polled");
    w.store.remove_source(w.ws, id).await.unwrap();
    assert!(w.store.sources(w.ws).await.unwrap().is_empty());
}

async fn one_node_polls_a_source_at_a_time(w: &World) {
    let first = w.store.create_source(w.ws, wall("раз")).await.unwrap();
    let second = w.store.create_source(w.ws, wall("два")).await.unwrap();
    assert_eq!(w.store.due_sources("а", Seats::any(1), LEASE).await.unwrap()[0].source_id, first);
    assert_eq!(due(w, "б").await, [second]);
    assert!(due(w, "в").await.is_empty());
    assert!(w.store.finish_poll(w.ws, finished(first, "а", Span::from_secs(30))).await.unwrap());
    assert!(due(w, "в").await.is_empty(), "not due yet");
    w.seconds(30).await;
    assert_eq!(due(w, "в").await, [first]);
    let source = w.store.sources(w.ws).await.unwrap().remove(0);
    assert_eq!(source.cursor, json!({"last": 7}));
}

async fn a_lease_that_ends_is_taken_over_and_the_late_node_changes_nothing(w: &World) {
    let id = w.store.create_source(w.ws, wall("раз")).await.unwrap();
    assert_eq!(due(w, "а").await, [id]);
    w.seconds(60).await;
    assert_eq!(due(w, "б").await, [id]);
    assert!(!w.store.finish_poll(w.ws, finished(id, "а", Span::ZERO)).await.unwrap());
    assert_eq!(w.store.sources(w.ws).await.unwrap()[0].cursor, json!({}));
    assert!(w.store.finish_poll(w.ws, finished(id, "б", Span::ZERO)).await.unwrap());
}

async fn a_failing_source_says_since_when_and_why(w: &World) {
    let id = w.store.create_source(w.ws, wall("раз")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(due(w, "а").await, [id]);
        let health = PollHealth::Failed("vk: the wall is closed; ask its admins".into());
        let poll = FinishedPoll { cursor: None, health, ..finished(id, "а", Span::ZERO) };
        assert!(w.store.finish_poll(w.ws, poll).await.unwrap());
        w.seconds(5).await;
    }
    let source = w.store.sources(w.ws).await.unwrap().remove(0);
    assert_eq!(source.failing_since, Some(START));
    assert_eq!(source.last_error.as_deref(), Some("vk: the wall is closed; ask its admins"));
    due(w, "а").await;
    w.store.finish_poll(w.ws, finished(id, "а", Span::ZERO)).await.unwrap();
    let source = w.store.sources(w.ws).await.unwrap().remove(0);
    assert_eq!((source.failing_since, source.last_error), (None, None));
}

async fn the_cursor_moves_with_the_posts(w: &World) {
    let id = w.store.create_source(w.ws, wall("раз")).await.unwrap();
    due(w, "а").await;
    let progress = |owner: &str, last: i64| Progress {
        source_id: id,
        owner: owner.into(),
        cursor: json!({"last": last}),
    };
    let post = |text: &str| NewPost { message: message(text, &[]), sketch: None, held: None };
    w.store.ingest(w.ws, vec![post("раз")], Some(progress("а", 1))).await.unwrap();
    assert_eq!(w.store.sources(w.ws).await.unwrap()[0].cursor, json!({"last": 1}));
    w.store.ingest(w.ws, vec![post("два")], Some(progress("б", 2))).await.unwrap();
    assert_eq!(w.store.sources(w.ws).await.unwrap()[0].cursor, json!({"last": 1}), "the lease is not theirs");
    let bad = NewPost { message: message("три", &[domain::ids::ChannelId(99)]), sketch: None, held: None };
    assert!(w.store.ingest(w.ws, vec![bad], Some(progress("а", 3))).await.is_err());
    assert_eq!(
        w.store.sources(w.ws).await.unwrap()[0].cursor,
        json!({"last": 1}),
        "nothing of a refused call"
    );
}

async fn a_run_tells_what_it_saw(w: &World) {
    let run = w.store.start_run(w.ws, "vk:-101").await.unwrap();
    w.seconds(3).await;
    let counts = RunCounts { seen: 9, stored: 4, skipped: 1, enqueued: 3 };
    w.store.finish_run(w.ws, run, counts, None).await.unwrap();
    let broken = w.store.start_run(w.ws, "vk:-102").await.unwrap();
    w.store.finish_run(w.ws, broken, RunCounts::default(), Some("captcha".into())).await.unwrap();
    let runs = w.store.runs(w.ws, None, 10).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.run_id).collect::<Vec<_>>(), [broken, run]);
    let older = w.store.runs(w.ws, Some(broken), 10).await.unwrap();
    assert_eq!(older.iter().map(|run| run.run_id).collect::<Vec<_>>(), [run]);
    assert_eq!((runs[1].counts, runs[1].finished_at), (counts, Some(START + Span::from_secs(3))));
    assert_eq!(runs[0].error.as_deref(), Some("captcha"));
    assert!(w.store.finish_run(w.ws, 4_000, counts, None).await.is_err());
}

async fn a_run_that_nobody_will_end_is_closed_with_the_reason(w: &World) {
    let left = w.store.start_run(w.ws, "vk:-101").await.unwrap();
    w.seconds(600).await;
    let young = w.store.start_run(w.ws, "vk:-102").await.unwrap();
    assert_eq!(w.store.close_runs(Span::from_secs(300)).await.unwrap(), 1);
    assert_eq!(w.store.close_runs(Span::from_secs(300)).await.unwrap(), 0);
    let runs = w.store.runs(w.ws, None, 10).await.unwrap();
    assert_eq!((runs[0].run_id, runs[0].finished_at), (young, None));
    assert_eq!((runs[1].run_id, runs[1].finished_at), (left, Some(START + Span::from_secs(600))));
    assert!(runs[1].error.as_deref().is_some_and(|why| why.contains("is read again")), "{runs:?}");
}

async fn a_lease_that_is_renewed_is_not_taken_over(w: &World) {
    let id = w.store.create_source(w.ws, wall("раз")).await.unwrap();
    assert_eq!(due(w, "а").await, [id]);
    for _ in 0..3 {
        w.seconds(40).await;
        assert!(w.store.renew_source(w.ws, id, "а", LEASE).await.unwrap());
        assert!(!w.store.renew_source(w.ws, id, "б", LEASE).await.unwrap(), "not theirs");
        assert!(due(w, "б").await.is_empty());
    }
    w.seconds(60).await;
    assert_eq!(due(w, "б").await, [id]);
    assert!(!w.store.renew_source(w.ws, id, "а", LEASE).await.unwrap(), "it went to another node");
}

async fn sources_that_fail_do_not_take_the_places_of_the_others(w: &World) {
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(w.store.create_source(w.ws, wall(&format!("стена {n}"))).await.unwrap());
    }
    due(w, "а").await;
    for &id in &ids {
        let fails = id.0 < ids[4].0;
        let health = if fails { PollHealth::Failed("it hangs".into()) } else { PollHealth::Well };
        // Those that fail are due longest.
        let next_in = Span::from_secs(if fails { 1 } else { 5 });
        w.store.finish_poll(w.ws, FinishedPoll { health, ..finished(id, "а", next_in) }).await.unwrap();
    }
    w.seconds(10).await;
    let seats = Seats { all: 3, failing: 1 };
    let leased = w.store.due_sources("а", seats, LEASE).await.unwrap();
    let leased: Vec<SourceId> = leased.iter().map(|source| source.source_id).collect();
    assert_eq!(leased, [ids[0], ids[4], ids[5]]);
    let seats = Seats { all: 3, failing: 0 };
    assert!(w.store.due_sources("а", seats, LEASE).await.unwrap().is_empty());
    assert_eq!(w.store.due_sources("а", Seats::any(9), LEASE).await.unwrap().len(), 3);
}

async fn a_poll_that_was_broken_off_says_nothing_about_its_source(w: &World) {
    let id = w.store.create_source(w.ws, wall("раз")).await.unwrap();
    due(w, "а").await;
    let failed = PollHealth::Failed("the wall is closed".into());
    let poll = FinishedPoll { health: failed, ..finished(id, "а", Span::ZERO) };
    w.store.finish_poll(w.ws, poll).await.unwrap();
    due(w, "а").await;
    let poll = FinishedPoll { health: PollHealth::Unchanged, ..finished(id, "а", Span::ZERO) };
    assert!(w.store.finish_poll(w.ws, poll).await.unwrap());
    let source = w.store.sources(w.ws).await.unwrap().remove(0);
    assert_eq!(
        (source.failing_since, source.last_error.as_deref()),
        (Some(START), Some("the wall is closed"))
    );
}

async fn bad_sources_are_refused(w: &World) {
    let id = w.store.create_source(w.ws, wall("раз")).await.unwrap();
    let twice = w.store.create_source(w.ws, wall("раз")).await.unwrap_err();
    assert!(matches!(twice, StoreError::Exists { what: "source", .. }), "{twice}");
    let empty = NewSource { address: " ".into(), ..wall("два") };
    assert!(matches!(w.store.create_source(w.ws, empty).await, Err(StoreError::Invalid { .. })));
    let stranger = NewSource { account_id: Some(AccountId(404)), ..wall("три") };
    assert!(matches!(w.store.create_source(w.ws, stranger).await, Err(StoreError::NotFound { .. })));
    let nobody = domain::ids::WorkspaceId(404);
    assert!(w.store.create_source(nobody, wall("раз")).await.is_err());
    let other = w.another_workspace("другой").await;
    assert!(other.store.remove_source(other.ws, id).await.is_err());
    assert!(other.store.enable_source(other.ws, SourceId(404), true).await.is_err());
    assert_eq!(w.store.sources(w.ws).await.unwrap().len(), 1);
}
