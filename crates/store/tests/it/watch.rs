//! Troubles are told once and end once, alerts pass every hold, and a picture of the moment agrees with the rows.

use domain::delivery::Status;
use domain::outcome::{Failure, Outcome, Scope};
use domain::time::{Span, Timestamp};
use secrecy::SecretString;
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    a_trouble_is_opened_once_told_once_and_ends_once,
    a_trouble_that_grows_worse_is_told_again,
    trouble_of_another_machine_is_left_to_it_until_it_is_gone,
    alerts_pass_stop_all_and_a_held_workspace,
    outcomes_are_noted_where_somebody_wants_to_hear_and_never_of_calls,
    every_ending_of_a_batch_is_noted_once,
    a_success_that_came_late_is_told_to_programs_too,
    a_snapshot_agrees_with_the_counted_rows,
    a_snapshot_counts_what_is_stopped_and_what_fails,
    a_failure_that_was_queued_again_is_no_failure_any_more,
    a_token_opens_its_own_workspace_until_it_is_revoked,
}

fn trouble(key: &str, severity: Severity) -> NewAlert {
    let words = json!({"headline": format!("беда {key}")});
    NewAlert { key: key.into(), kind: "channel_kicked".into(), severity, words, told: false }
}

async fn watch(w: &World, seen: Vec<NewAlert>) -> Vec<Alert> {
    w.store.watch(w.ws, seen, "узел", Span::from_secs(10)).await.unwrap()
}

async fn a_trouble_is_opened_once_told_once_and_ends_once(w: &World) {
    let open = watch(w, vec![trouble("channel:1", Severity::Act), trouble("account:2", Severity::Act)]).await;
    assert_eq!(open.len(), 2);
    assert!(open.iter().all(|alert| alert.told_at.is_none() && alert.n_told == 0));
    let id = open[0].alert_id;
    assert!(w.store.alert_told(w.ws, id, 0).await.unwrap());
    assert!(!w.store.alert_told(w.ws, id, 0).await.unwrap(), "another node was faster");
    w.seconds(5).await;
    let open = watch(w, vec![trouble("channel:1", Severity::Act), trouble("account:2", Severity::Act)]).await;
    assert_eq!((open.len(), open[0].alert_id, open[0].n_told), (2, id, 1), "the same rows");
    // It is over when nobody has seen it for a while, not at the first look without it.
    let open = watch(w, vec![trouble("account:2", Severity::Act)]).await;
    assert!(open.iter().all(|alert| alert.ended_at.is_none()), "{open:?}");
    w.seconds(11).await;
    let open = watch(w, vec![trouble("account:2", Severity::Act)]).await;
    assert_eq!(open.iter().filter(|alert| alert.ended_at.is_some()).count(), 1);
    w.store.alert_cleared(w.ws, id).await.unwrap();
    assert_eq!(watch(w, vec![trouble("account:2", Severity::Act)]).await.len(), 1);
    let again =
        watch(w, vec![trouble("account:2", Severity::Act), trouble("channel:1", Severity::Act)]).await;
    assert_ne!(again[1].alert_id, id, "a second time is another trouble");
    let all = w.store.alerts(w.ws, None, 10).await.unwrap();
    assert_eq!(all.len(), 3);
    let older = w.store.alerts(w.ws, Some(all[0].alert_id), 1).await.unwrap();
    assert_eq!(older[0].alert_id, all[1].alert_id, "the page after the newest");
    let other = w.another_workspace("лавка").await;
    assert!(other.store.alerts(other.ws, None, 10).await.unwrap().is_empty());
}

async fn a_trouble_that_grows_worse_is_told_again(w: &World) {
    let told = NewAlert { told: true, ..trouble("channel:1", Severity::Heals) };
    let open = watch(w, vec![told.clone()]).await;
    assert!(open[0].told_at.is_some() && open[0].n_told == 1, "it was told without the ledger");
    let open = watch(w, vec![NewAlert { severity: Severity::Act, ..told.clone() }]).await;
    assert!(open[0].told_at.is_none() && open[0].severity == Severity::Act);
    w.store.alert_told(w.ws, open[0].alert_id, 1).await.unwrap();
    let open = watch(w, vec![told]).await;
    assert!(open[0].told_at.is_some(), "getting better is no news");
}

async fn trouble_of_another_machine_is_left_to_it_until_it_is_gone(w: &World) {
    let neighbour = async |key: &str| {
        let seen = vec![trouble(key, Severity::Act)];
        w.store.watch(w.ws, seen, "сосед", Span::from_secs(10)).await.unwrap();
    };
    let ended = |open: Vec<Alert>| -> Vec<String> {
        open.into_iter().filter(|alert| alert.ended_at.is_some()).map(|alert| alert.key).collect()
    };
    watch(w, vec![trouble("database@узел", Severity::Act)]).await;
    neighbour("standstill@сосед").await;
    for _ in 0..3 {
        w.seconds(60).await;
        assert_eq!(ended(watch(w, Vec::new()).await), ["database@узел"], "the neighbour speaks for itself");
        neighbour("standstill@сосед").await;
    }
    w.seconds(121).await;
    let rows = w.store.alerts(w.ws, None, 1).await.unwrap();
    assert_eq!((rows[0].ended_at, rows[0].seen_at < rows[0].opened_at), (None, false), "nobody has looked");
    assert_eq!(ended(watch(w, Vec::new()).await), ["database@узел", "standstill@сосед"]);
}

async fn alerts_pass_stop_all_and_a_held_workspace(w: &World) {
    let posts = w.channels(1).await;
    let tier = AccountSettings { tier: TIER_ALERTS.into(), ..AccountSettings::default() };
    let account = w.account_with(tier).await;
    let alerts = w.channel(account).await;
    let check = async |round: &str| {
        w.post(&format!("пост {round}"), &posts).await;
        let told = w.post(&format!("тревога {round}"), &[alerts]).await;
        let everyone = w.store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap();
        let claimed: Vec<_> = everyone.claims.iter().map(|claim| claim.delivery_id).collect();
        assert_eq!(claimed, [told.deliveries[0].delivery_id], "{round}");
        w.sent(&everyone.claims[0]).await;
    };
    w.store.hold_all(Some("стоп")).await.unwrap();
    check("everything is held").await;
    assert_eq!(w.claim_ahead(10, Span::ZERO).await.next_at, None, "what is held is not waited for");
    w.store.hold_workspace(w.ws, true).await.unwrap();
    check("both are held").await;
    w.store.hold_all(None).await.unwrap();
    check("the workspace is held").await;
    w.store.pause_account(w.ws, account, "401: отозван").await.unwrap();
    w.post("тревога на паузе", &[alerts]).await;
    assert!(w.claim(10).await.is_empty(), "a pause counts for everybody");
    w.store.resume_account(w.ws, account).await.unwrap();
    assert_eq!(w.claim(10).await.len(), 1);
    w.store.hold_workspace(w.ws, false).await.unwrap();
    assert_eq!(w.claim(10).await.len(), 1, "the oldest of the posts");
}

async fn outcomes_are_noted_where_somebody_wants_to_hear_and_never_of_calls(w: &World) {
    let posts = w.channels(1).await;
    w.post("никто не слушает", &posts).await;
    w.sent(&w.claim(1).await[0]).await;
    assert_eq!(w.store.outcomes(w.ws, 10).await.unwrap(), []);
    let of = |tier: &str| AccountSettings { tier: tier.into(), ..AccountSettings::default() };
    let callbacks = w.channel(w.account_with(of(TIER_CALLBACKS)).await).await;
    let alerts = w.channel(w.account_with(of(TIER_ALERTS)).await).await;
    let heard = w.post("слушают", &posts).await.deliveries[0].delivery_id;
    w.post("звонок", &[callbacks]).await;
    w.post("тревога", &[alerts]).await;
    for claim in w.claim(10).await {
        w.sent(&claim).await;
    }
    let cancelled = w.post("отменят", &posts).await.deliveries[0].delivery_id;
    w.store.cancel(w.ws, vec![cancelled]).await.unwrap();
    let notes = w.store.outcomes(w.ws, 10).await.unwrap();
    assert_eq!(notes.iter().map(|(_, delivery)| *delivery).collect::<Vec<_>>(), [heard, cancelled]);
    assert_eq!(w.store.outcomes(w.ws, 1).await.unwrap(), notes[..1]);
    let other = w.another_workspace("лавка").await;
    other.store.outcomes_told(other.ws, vec![notes[0].0, notes[1].0]).await.unwrap();
    w.store.outcomes_told(w.ws, vec![notes[0].0]).await.unwrap();
    assert_eq!(w.store.outcomes(w.ws, 10).await.unwrap(), notes[1..], "another workspace changes nothing");
}

async fn every_ending_of_a_batch_is_noted_once(w: &World) {
    let of = AccountSettings { tier: TIER_CALLBACKS.into(), ..AccountSettings::default() };
    w.channel(w.account_with(of).await).await;
    let posts = w.channels(4).await;
    let noted = async || {
        let mut ids: Vec<_> =
            w.store.outcomes(w.ws, 20).await.unwrap().into_iter().map(|(_, delivery)| delivery).collect();
        ids.sort();
        ids
    };
    let failed = |failure| FinishKind::Outcome(Outcome::Failed(failure));

    w.post("всем удалось", &posts).await;
    let claims = w.claim(10).await;
    w.store.commit(claims.iter().map(|claim| finish(claim, sent(claim))).collect()).await.unwrap();
    let mut expected: Vec<_> = claims.iter().map(|claim| claim.delivery_id).collect();
    expected.sort();
    assert_eq!(noted().await, expected, "a batch of successes");

    w.post("удалось не всем", &posts).await;
    let claims = w.claim(10).await;
    let batch = vec![
        finish(&claims[0], sent(&claims[0])),
        finish(&claims[0], sent(&claims[0])),
        finish(&claims[1], failed(permanent(Scope::Delivery))),
        finish(&claims[2], failed(transient(Scope::Delivery))),
        finish(&claims[3], sent(&claims[3])),
    ];
    w.store.commit(batch).await.unwrap();
    expected.extend([claims[0].delivery_id, claims[1].delivery_id, claims[3].delivery_id]);
    expected.sort();
    assert_eq!(noted().await, expected, "what is tried again has not ended");

    let late = w.post("поздно", &posts[..1]).await.deliveries[0].delivery_id;
    let claim = w.claim(10).await.into_iter().find(|claim| claim.delivery_id == late).unwrap();
    w.store.record_parts(vec![(claim.reference(), PartProgress::Requested)]).await.unwrap();
    w.seconds(61).await;
    w.store.recover(Whose::Everyone, 10).await.unwrap();
    assert_eq!(w.sent(&claim).await, Finished::Adopted);
    expected.push(late);
    assert_eq!(noted().await, expected, "a success that came late");
}

async fn a_success_that_came_late_is_told_to_programs_too(w: &World) {
    let of = AccountSettings { tier: TIER_CALLBACKS.into(), ..AccountSettings::default() };
    w.channel(w.account_with(of).await).await;
    let posts = w.channels(3).await;
    w.post("раз", &posts).await;
    let claims = w.claim(3).await;
    w.finish(&claims[1], FinishKind::Release).await;
    let remembered = |claim: &Claim| Remembered {
        workspace_id: claim.workspace_id,
        delivery_id: claim.delivery_id,
        idempotency_key: claim.idempotency_key.clone(),
        provider_message_id: Some("m7".into()),
        parts: Parts::new(),
    };
    // One waits again and one is held by somebody when a node says that it sent them; one comes after its lease.
    let replayed = w.store.replay(vec![remembered(&claims[1]), remembered(&claims[2])]).await.unwrap();
    assert_eq!(replayed, [Replayed::Adopted, Replayed::Adopted]);
    w.store.record_parts(vec![(claims[0].reference(), PartProgress::Requested)]).await.unwrap();
    w.seconds(61).await;
    w.store.recover(Whose::Everyone, 10).await.unwrap();
    assert_eq!(w.sent(&claims[0]).await, Finished::Adopted);
    let mut noted: Vec<_> =
        w.store.outcomes(w.ws, 10).await.unwrap().into_iter().map(|(_, delivery)| delivery).collect();
    noted.sort();
    let mut expected: Vec<_> = claims.iter().map(|claim| claim.delivery_id).collect();
    expected.sort();
    assert_eq!(noted, expected);
}

async fn a_snapshot_agrees_with_the_counted_rows(w: &World) {
    let paced = AccountSettings { rate: Some(2.0), ..AccountSettings::default() };
    let account = w.account_with(paced).await;
    let settings = ChannelSettings { rate: Some(1.0), ..ChannelSettings::default() };
    let slow = w.channel_with(account, settings).await;
    let (quick, sick) = (w.channel(account).await, w.channels(1).await[0]);
    for n in 0..4 {
        w.post(&format!("пост {n}"), &[slow, quick]).await;
    }
    for n in 0..3 {
        w.post(&format!("больной {n}"), &[sick]).await;
    }
    let again = NewMessage {
        content_hash: "hash of пост 3".into(), ..message("пост 3 ещё раз", &[slow])
    };
    w.enqueue(vec![again]).await;
    for _ in 0..3 {
        w.seconds(2).await;
        for claim in w.claim(10).await {
            let sick = claim.destination.channel() == Some(sick);
            match sick {
                true => w.fail(&claim, permanent(Scope::Delivery)).await,
                false => w.sent(&claim).await,
            };
        }
    }
    w.seconds(2).await;
    let out = w.claim(1).await;
    assert_eq!(out.len(), 1);
    w.seconds(61).await;
    let found = w.store.snapshot(w.ws).await.unwrap();

    let rows = w.store.deliveries(w.ws, DeliveryFilter::default(), 1_000).await.unwrap();
    let of = |status: Status| rows.iter().filter(|row| row.status == status).count() as i64;
    let counted = StatusCounts {
        queued: of(Status::Queued),
        retry: of(Status::Retry),
        sending: of(Status::Sending),
        sent: of(Status::Sent),
        deduped: of(Status::Deduped),
        failed_permanent: of(Status::FailedPermanent),
        dead: of(Status::Dead),
    };
    assert_eq!(found.counts, counted);
    assert!(counted.sent > 0 && counted.queued > 0 && counted.deduped == 1, "{counted:?}");
    assert_eq!(counted.failed_permanent, 3);
    assert_eq!((found.in_flight, found.expired_leases), (1, 1));
    let waits = |row: &&Delivery| row.status == Status::Queued;
    assert_eq!(found.oldest_due, rows.iter().filter(waits).filter_map(|row| row.run_at).min());
    assert_eq!((found.failures_10min, found.failures_24h), (3, 3));
    assert_eq!((found.channels, found.accounts, found.paused_channels), (3, 2, 0));
    let waiting = |channel| {
        rows.iter().filter(waits).filter(|row| row.destination.channel() == Some(channel)).count() as i64
    };
    for lane in &found.lanes {
        assert_eq!(lane.waiting, waiting(lane.channel_id.unwrap()), "{lane:?}");
    }
    // Each waits for as many of the other as it has itself, at two a second; the slow one never faster than one a second.
    let (n_slow, n_quick) = (waiting(slow), waiting(quick));
    let eta = |channel, n: i64| {
        let lane = found.lanes.iter().find(|lane| lane.channel_id == Some(channel));
        assert_eq!(lane.and_then(|lane| lane.eta_ms), (n > 0).then_some(n), "{:?}", found.lanes);
    };
    eta(slow, (n_slow * 1_000).max((n_slow + n_slow.min(n_quick)) * 500));
    eta(quick, (n_quick + n_slow.min(n_quick)) * 500);
    for of in &found.accounts_eta {
        assert_eq!((of.account_id, of.waiting), (account, n_slow + n_quick), "{:?}", found.accounts_eta);
        assert_eq!(of.eta_ms, Some((n_slow * 1_000).max((n_slow + n_quick) * 500)));
    }
    assert_eq!(found.accounts_eta.len(), usize::from(n_slow + n_quick > 0));
    let of_sick = &found.failures[0];
    assert_eq!((of_sick.channel_id, of_sick.failed), (sick, 3));
    assert_eq!(
        (of_sick.last_name.as_deref(), of_sick.last_code.as_deref()),
        (Some("failed_permanent"), Some("403"))
    );
    w.seconds(24 * 3_600).await;
    let later = w.store.snapshot(w.ws).await.unwrap();
    assert_eq!((later.failures_10min, later.failures_24h, later.failures.len()), (0, 0, 0));
}

async fn a_snapshot_counts_what_is_stopped_and_what_fails(w: &World) {
    let (paused, cooling) = (w.account().await, w.account().await);
    let channels = w.channels(3).await;
    w.store.pause_account(w.ws, paused, "заморожен").await.unwrap();
    w.post("пост", &[w.channel(cooling).await]).await;
    let claim = w.claim_one().await;
    let flood = Failure { retry_after_ms: Some(300_000), ..transient(Scope::Platform) };
    w.fail(&claim, flood).await;
    w.store.pause_channel(w.ws, channels[0], Timestamp::NEVER, "ремонт").await.unwrap();
    w.store.disable_channel(w.ws, channels[1], DisabledBy::Operator).await.unwrap();
    for name in ["стена", "лента"] {
        let (kind, address, settings) = ("feed".into(), format!("https://{name}.example"), json!({}));
        let new = NewSource { kind, name: name.into(), address, account_id: None, settings };
        w.store.create_source(w.ws, new).await.unwrap();
    }
    let due = w.store.due_sources("узел", Seats::any(1), Span::from_secs(60)).await.unwrap();
    let poll = FinishedPoll {
        source_id: due[0].source_id,
        owner: "узел".into(),
        cursor: None,
        next_poll_at: START,
        health: PollHealth::Failed("закрыта".into()),
    };
    assert!(w.store.finish_poll(w.ws, poll).await.unwrap());
    watch(w, vec![trouble("channel:1", Severity::Act)]).await;
    let found = w.store.snapshot(w.ws).await.unwrap();
    let rows = w.store.accounts(w.ws).await.unwrap();
    let resting = rows.iter().filter(|row| row.cooldown_until > found.at).count() as i64;
    assert_eq!((found.accounts, found.paused_accounts), (rows.len() as i64, 1));
    assert_eq!((found.cooling_accounts, resting), (1, 1));
    assert_eq!((found.channels, found.paused_channels, found.disabled_channels), (4, 1, 1));
    assert_eq!((found.sources, found.failing_sources, found.open_alerts), (2, 1, 1));
}

async fn a_failure_that_was_queued_again_is_no_failure_any_more(w: &World) {
    let channels = w.channels(1).await;
    w.post("пост", &channels).await;
    let claim = w.claim_one().await;
    w.fail(&claim, permanent(Scope::Delivery)).await;
    assert_eq!(w.store.snapshot(w.ws).await.unwrap().failures_24h, 1);
    w.store.requeue(w.ws, vec![claim.delivery_id]).await.unwrap();
    let found = w.store.snapshot(w.ws).await.unwrap();
    assert_eq!((found.failures_24h, found.failures.len()), (0, 0));
}

async fn a_token_opens_its_own_workspace_until_it_is_revoked(w: &World) {
    let secret = SecretString::from("rupor_длинный-и-случайный");
    let scopes = vec![ApiScope::Read, ApiScope::Ingest];
    w.store.create_api_token(w.ws, "касса", &secret, scopes.clone()).await.unwrap();
    let twice = w.store.create_api_token(w.ws, "касса", &SecretString::from("другой"), scopes.clone()).await;
    assert!(matches!(twice, Err(StoreError::Exists { what: "token", .. })), "{twice:?}");
    let found = w.store.api_token_by_secret(&secret).await.unwrap().unwrap();
    assert_eq!((found.workspace_id, found.name.as_str(), &found.scopes), (w.ws, "касса", &scopes));
    assert!(w.store.api_token_by_secret(&SecretString::from("чужой")).await.unwrap().is_none());
    let other = w.another_workspace("лавка").await;
    assert!(other.store.api_tokens(other.ws).await.unwrap().is_empty());
    assert!(!other.store.revoke_api_token(other.ws, "касса").await.unwrap());
    assert!(w.store.revoke_api_token(w.ws, "касса").await.unwrap());
    assert!(!w.store.revoke_api_token(w.ws, "касса").await.unwrap());
    assert!(w.store.api_token_by_secret(&secret).await.unwrap().is_none());
    assert!(w.store.api_tokens(w.ws).await.unwrap()[0].revoked_at.is_some());
}
