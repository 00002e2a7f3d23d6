//! Claim: exclusive, fair, in order, and never past what holds a lane back.

use std::collections::HashSet;

use domain::delivery::{Priority, Status};
use domain::ids::ChannelId;
use domain::outcome::Scope;
use domain::time::{Span, Timestamp};
use store::*;

use crate::world::*;

contract! {
    many_claimers_never_share_a_row,
    a_lane_keeps_its_order,
    a_retry_at_the_head_keeps_an_ordered_lane_waiting,
    an_unordered_lane_lets_others_pass_a_retry,
    parallelism_of_a_lane_is_never_exceeded,
    parallelism_of_an_account_is_never_exceeded,
    a_paused_channel_keeps_its_queue,
    a_pause_never_ends_a_longer_one,
    a_disabled_channel_keeps_its_queue,
    a_paused_account_costs_the_others_nothing,
    quiet_hours_hold_a_lane_back,
    the_kill_switch_stops_everything,
    an_epoch_only_goes_on,
    a_held_workspace_does_not_stop_another,
    a_long_backlog_does_not_starve_the_others,
    workspaces_share_fairly_however_many_accounts_they_have,
    urgent_goes_before_bulk_but_bulk_gets_one_turn_in_ten,
    old_work_expires_instead_of_being_sent,
    changing_parallelism_keeps_every_row,
    a_claim_says_when_there_may_be_more,
    a_claim_that_asks_for_too_much_is_refused,
    a_clock_going_backwards_does_not_hand_a_row_out_twice,
    an_enqueue_wakes_who_waits,
}

async fn posts(w: &World, n: usize, channels: &[ChannelId]) {
    let batch = (0..n).map(|i| message(&format!("{channels:?} пост {i}"), channels)).collect();
    w.enqueue(batch).await;
}

async fn many_claimers_never_share_a_row(w: &World) {
    let account = w.account_with(AccountSettings { max_parallel: 1_000, ..AccountSettings::default() }).await;
    let settings = ChannelSettings { max_parallel: 100, ..ChannelSettings::default() };
    let mut channels = Vec::new();
    for _ in 0..5 {
        channels.push(w.channel_with(account, settings.clone()).await);
    }
    posts(w, 60, &channels).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let world = w.clone();
        tasks.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claimed = world.claim_ahead(7, Span::ZERO).await;
                // A rival may hold the lock: nothing now, but there is more.
                if claimed.claims.is_empty() && claimed.next_at.is_none_or(|at| at > START) {
                    return mine;
                }
                mine.extend(claimed.claims);
            }
        });
    }
    let claims: Vec<Claim> = tasks.join_all().await.into_iter().flatten().collect();
    let distinct: HashSet<_> = claims.iter().map(|claim| claim.delivery_id).collect();
    let tokens: HashSet<_> = claims.iter().map(|claim| claim.claim_token).collect();
    assert_eq!((claims.len(), distinct.len(), tokens.len()), (300, 300, 300));
}

async fn a_lane_keeps_its_order(w: &World) {
    let channels = w.channels(1).await;
    posts(w, 5, &channels).await;
    let mut order = Vec::new();
    for _ in 0..5 {
        let claims = w.claim(10).await;
        assert_eq!(claims.len(), 1, "one at a time keeps the order");
        order.push(claims[0].delivery_id);
        w.sent(&claims[0]).await;
    }
    assert!(order.is_sorted());
}

async fn a_retry_at_the_head_keeps_an_ordered_lane_waiting(w: &World) {
    let channels = w.channels(1).await;
    posts(w, 2, &channels).await;
    let first = w.claim_one().await;
    w.fail(&first, transient(domain::outcome::Scope::Delivery)).await;
    assert!(w.claim(10).await.is_empty());
    w.seconds(3).await;
    assert_eq!(w.claim_one().await.delivery_id, first.delivery_id);
}

async fn an_unordered_lane_lets_others_pass_a_retry(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { max_parallel: 2, ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    posts(w, 2, &channels).await;
    let first = w.claim_one().await;
    w.fail(&first, transient(domain::outcome::Scope::Delivery)).await;
    assert_ne!(w.claim_one().await.delivery_id, first.delivery_id);
}

async fn parallelism_of_a_lane_is_never_exceeded(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { max_parallel: 3, ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    posts(w, 10, &channels).await;
    let claims = w.claim(10).await;
    assert_eq!(claims.len(), 3);
    assert!(w.claim(10).await.is_empty());
    w.sent(&claims[1]).await;
    assert_eq!(w.claim(10).await.len(), 1);
}

async fn parallelism_of_an_account_is_never_exceeded(w: &World) {
    let account = w.account_with(AccountSettings { max_parallel: 2, ..AccountSettings::default() }).await;
    let mut channels = Vec::new();
    for _ in 0..4 {
        channels.push(w.channel(account).await);
    }
    posts(w, 2, &channels).await;
    let claims = w.claim(10).await;
    assert_eq!(claims.len(), 2);
    assert!(w.claim(10).await.is_empty());
    w.sent(&claims[0]).await;
    assert_eq!(w.claim(10).await.len(), 1);
}

async fn a_paused_channel_keeps_its_queue(w: &World) {
    let channels = w.channels(2).await;
    let until = START + Span::from_secs(60);
    w.store.pause_channel(w.ws, channels[0], until, "тишина").await.unwrap();
    posts(w, 1, &channels).await;
    let claims = w.claim(10).await;
    assert_eq!(
        claims.iter().map(|claim| claim.destination.channel()).collect::<Vec<_>>(),
        [Some(channels[1])]
    );
    w.sent(&claims[0]).await;
    assert_eq!(w.claim_ahead(10, Span::ZERO).await.next_at, Some(until));
    w.store.pause_channel(w.ws, channels[0], Timestamp::NEVER, "совсем").await.unwrap();
    w.seconds(3_600).await;
    assert_eq!(w.claim_ahead(10, Span::ZERO).await, Claimed::default());
    w.store.resume_channel(w.ws, channels[0]).await.unwrap();
    assert_eq!(w.claim(10).await.len(), 1);
}

async fn a_pause_never_ends_a_longer_one(w: &World) {
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let claim = w.claim(1).await.remove(0);
    // The platform asks for 39 seconds, and then an operator pauses for four.
    w.fail(&claim, transient(Scope::Channel).retry_after(39_000)).await;
    let asked = w.store.channels(w.ws).await.unwrap().remove(0).paused_until;
    let soon = w.now().await + Span::from_secs(4);
    assert_eq!(w.store.pause_channel(w.ws, channels[0], soon, "перерыв").await.unwrap(), asked);
    w.seconds(5).await;
    assert!(w.claim(1).await.is_empty(), "the platform's wait is not over");
    let later = asked + Span::from_secs(60);
    assert_eq!(w.store.pause_channel(w.ws, channels[0], later, "ремонт").await.unwrap(), later);
    let row = w.store.channels(w.ws).await.unwrap().remove(0);
    assert_eq!((row.paused_until, row.paused_why.as_deref()), (later, Some("ремонт")));
    w.store.resume_channel(w.ws, channels[0]).await.unwrap();
    assert_eq!(w.claim(1).await.len(), 1, "a person may end every wait");
}

async fn a_disabled_channel_keeps_its_queue(w: &World) {
    let channels = w.channels(1).await;
    posts(w, 1, &channels).await;
    w.store.disable_channel(w.ws, channels[0], DisabledBy::Operator).await.unwrap();
    assert!(w.claim(10).await.is_empty());
    w.store.resume_channel(w.ws, channels[0]).await.unwrap();
    assert_eq!(w.claim(10).await.len(), 1);
}

async fn a_paused_account_costs_the_others_nothing(w: &World) {
    let mut channels = w.channels(1).await;
    channels.extend(w.channels(1).await);
    posts(w, 3, &channels).await;
    let paused = w.store.accounts(w.ws).await.unwrap()[0].account_id;
    w.store.pause_account(w.ws, paused, "ключ отозван").await.unwrap();
    for _ in 0..3 {
        let claim = w.claim_one().await;
        assert_ne!(claim.account_id, paused);
        w.sent(&claim).await;
    }
    assert!(w.claim(10).await.is_empty());
    w.store.resume_account(w.ws, paused).await.unwrap();
    assert_eq!(w.claim_one().await.account_id, paused);
}

async fn quiet_hours_hold_a_lane_back(w: &World) {
    let channels = w.channels(1).await;
    posts(w, 1, &channels).await;
    let until = START + Span::from_hours(8);
    w.store.close_channel_until(w.ws, channels[0], until).await.unwrap();
    assert_eq!(w.claim_ahead(10, Span::ZERO).await, Claimed { claims: vec![], next_at: Some(until) });
    w.advance(Span::from_hours(8)).await;
    assert_eq!(w.claim(10).await.len(), 1);
}

async fn the_kill_switch_stops_everything(w: &World) {
    let channels = w.channels(1).await;
    posts(w, 1, &channels).await;
    w.store.hold_all(Some("учения")).await.unwrap();
    assert_eq!(w.store.held().await.unwrap().as_deref(), Some("учения"));
    assert_eq!(w.claim_ahead(10, Span::ZERO).await, Claimed::default());
    w.store.hold_all(None).await.unwrap();
    assert_eq!(w.store.held().await.unwrap(), None);
    assert_eq!(w.claim(10).await.len(), 1);
}

async fn an_epoch_only_goes_on(w: &World) {
    let first = w.store.advance_epoch(0).await.unwrap();
    assert_eq!(w.store.epoch().await.unwrap().as_ref(), Some(&first));
    let second = w.store.advance_epoch(0).await.unwrap();
    assert_eq!((second.database.as_str(), second.count), (first.database.as_str(), first.count + 1));
    let past = w.store.advance_epoch(second.count + 40).await.unwrap();
    assert_eq!(past.count, second.count + 41);
}

async fn a_held_workspace_does_not_stop_another(w: &World) {
    let other = w.another_workspace("соседи").await;
    for world in [w, &other] {
        let channels = world.channels(1).await;
        posts(world, 1, &channels).await;
    }
    w.store.hold_workspace(w.ws, true).await.unwrap();
    let everyone = || request(Whose::Everyone, 10, Span::ZERO);
    let claimed = w.store.claim(everyone()).await.unwrap();
    assert_eq!(claimed.claims.iter().map(|claim| claim.workspace_id).collect::<Vec<_>>(), [other.ws]);
    assert_eq!(claimed.next_at, None, "what is held does not keep the dispatcher awake");
    let paused = w.store.accounts(w.ws).await.unwrap()[0].account_id;
    w.store.resume_account(w.ws, paused).await.unwrap();
    assert!(w.store.claim(everyone()).await.unwrap().claims.is_empty(), "a resume does not lift the hold");
    w.store.hold_workspace(w.ws, false).await.unwrap();
    assert_eq!(w.store.claim(everyone()).await.unwrap().claims.len(), 1);
}

async fn a_long_backlog_does_not_starve_the_others(w: &World) {
    let loud = w.channels(1).await;
    posts(w, 500, &loud).await;
    w.seconds(10).await;
    let quiet = w.channels(1).await;
    posts(w, 1, &quiet).await;
    w.advance(Span(1)).await;
    let mut served = Vec::new();
    for _ in 0..2 {
        let claim = w.claim_one().await;
        served.push(claim.destination.channel());
        w.sent(&claim).await;
        w.advance(Span(1)).await;
    }
    assert!(served.contains(&Some(quiet[0])), "the newcomer waits for one turn, not for five hundred");
}

async fn workspaces_share_fairly_however_many_accounts_they_have(w: &World) {
    let other = w.another_workspace("маленький").await;
    for _ in 0..10 {
        let channels = w.channels(1).await;
        posts(w, 5, &channels).await;
    }
    let account =
        other.account_with(AccountSettings { max_parallel: 50, ..AccountSettings::default() }).await;
    let settings = ChannelSettings { max_parallel: 50, ..ChannelSettings::default() };
    let channels = [other.channel_with(account, settings).await];
    posts(&other, 20, &channels).await;
    let claimed = w.store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap();
    let of_small = claimed.claims.iter().filter(|claim| claim.workspace_id == other.ws).count();
    assert_eq!((claimed.claims.len(), of_small), (10, 5), "half of the batch each");
}

async fn urgent_goes_before_bulk_but_bulk_gets_one_turn_in_ten(w: &World) {
    let channels = w.channels(2).await;
    let bulk = |n: usize| NewMessage {
        priority: Priority::Bulk,
        ..message(&format!("рассылка {n}"), &channels[..1])
    };
    w.enqueue((0..5).map(bulk).collect()).await;
    posts(w, 40, &channels[1..]).await;
    let mut order = String::new();
    for _ in 0..30 {
        let claim = w.claim_one().await;
        order.push(if claim.destination.channel() == Some(channels[0]) { 'b' } else { 'u' });
        w.sent(&claim).await;
        w.advance(Span(1)).await;
    }
    assert!(order.starts_with("uuuuuuuuub"), "{order}");
    assert_eq!(order.matches('b').count(), 3, "{order}");
}

async fn old_work_expires_instead_of_being_sent(w: &World) {
    let account = w.account().await;
    let settings = ChannelSettings { max_age: Some(Span::from_secs(60)), ..ChannelSettings::default() };
    let channels = [w.channel_with(account, settings).await];
    let old = w.post("старое", &channels).await.deliveries[0].delivery_id;
    w.seconds(30).await;
    let new = w.post("новое", &channels).await.deliveries[0].delivery_id;
    w.seconds(30).await;
    assert_eq!(w.claim_one().await.delivery_id, new);
    let delivery = w.delivery(old).await;
    assert_eq!((delivery.status, delivery.reason.as_deref()), (Status::Dead, Some("expired")));
    assert!(w.event_names().await.contains(&"expired".to_owned()));
}

async fn changing_parallelism_keeps_every_row(w: &World) {
    let channels = w.channels(1).await;
    posts(w, 4, &channels).await;
    let wide = ChannelSettings { max_parallel: 2, ..ChannelSettings::default() };
    w.store.change_channel(w.ws, channels[0], wide).await.unwrap();
    let claims = w.claim(10).await;
    assert_eq!(claims.len(), 2);
    w.store.change_channel(w.ws, channels[0], ChannelSettings::default()).await.unwrap();
    w.check().await;
    for claim in &claims {
        w.sent(claim).await;
    }
    for _ in 0..2 {
        let claim = w.claim_one().await;
        w.sent(&claim).await;
    }
}

async fn a_claim_says_when_there_may_be_more(w: &World) {
    assert_eq!(w.claim_ahead(10, Span::ZERO).await, Claimed::default());
    let channels = w.channels(1).await;
    posts(w, 2, &channels).await;
    let claimed = w.claim_ahead(10, Span::ZERO).await;
    assert_eq!((claimed.claims.len(), claimed.next_at), (1, None), "the lane is full; a commit will wake us");
}

async fn a_claim_that_asks_for_too_much_is_refused(w: &World) {
    let ask = |change: fn(&mut ClaimRequest)| {
        let mut asked = request(Whose::Everyone, 10, Span::ZERO);
        change(&mut asked);
        w.store.claim(asked)
    };
    for refused in [
        ask(|r| r.limit = 501).await,
        ask(|r| r.ahead = Span::from_secs(1)).await,
        ask(|r| r.ahead = Span(-1)).await,
        ask(|r| r.lease = Span::ZERO).await,
        ask(|r| r.run_id.clear()).await,
    ] {
        assert!(matches!(refused, Err(StoreError::Invalid { what: "claim", .. })), "{refused:?}");
    }
}

async fn a_clock_going_backwards_does_not_hand_a_row_out_twice(w: &World) {
    let channels = w.channels(1).await;
    posts(w, 1, &channels).await;
    let claim = w.claim_one().await;
    w.seconds(-7_200).await;
    assert!(w.claim(10).await.is_empty());
    assert!(w.store.recover(Whose::Everyone, 10).await.unwrap().is_empty());
    assert_eq!(w.sent(&claim).await, Finished::Done(Status::Sent));
}

async fn an_enqueue_wakes_who_waits(w: &World) {
    let channels = w.channels(1).await;
    let mut wake_up = w.store.wake_up().await.unwrap();
    // Whatever the set-up rang for is over; from here on only the enqueue rings.
    while wake_up.wait(Span::from_millis(300)).await {}
    posts(w, 1, &channels).await;
    assert!(wake_up.wait(Span::from_secs(30)).await);
}
