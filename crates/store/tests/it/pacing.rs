//! Slots: one budget for everybody who uses a token, never overdrawn.

use domain::time::{Span, Timestamp};
use store::*;

use crate::world::*;

contract! {
    slots_of_an_account_never_overlap,
    a_burst_is_allowed_and_paid_back,
    a_channel_has_its_own_rate,
    look_ahead_takes_slots_but_not_too_far,
    a_slow_channel_gets_every_slot_of_its_own_that_a_claim_reaches,
    nobody_is_served_before_a_pause_ends_however_far_a_claim_reaches,
    other_calls_pay_from_the_same_budget,
    a_further_part_pays_for_its_chat_too,
    missed_slots_are_paid_for_together_and_move_their_chats_on,
    the_same_token_in_two_workspaces_is_one_budget,
    the_slowest_setting_of_a_shared_token_counts,
    a_changed_rate_counts_from_the_next_claim,
    the_limit_of_a_tier_slows_everybody_who_uses_the_token,
}

fn rate(rate: f64) -> AccountSettings {
    AccountSettings { rate: Some(rate), max_parallel: 100, ..AccountSettings::default() }
}

async fn busy_channels(w: &World, settings: AccountSettings, n: usize) {
    let account = w.account_with(settings).await;
    for _ in 0..n {
        let settings = ChannelSettings { max_parallel: 50, ..ChannelSettings::default() };
        let channel = w.channel_with(account, settings).await;
        w.enqueue((0..20).map(|i| message(&format!("{channel} пост {i}"), &[channel])).collect()).await;
    }
}

fn millis(claims: &[Claim]) -> Vec<i64> {
    claims.iter().map(|claim| (claim.slot_at - START).millis()).collect()
}

async fn slots_of_an_account_never_overlap(w: &World) {
    busy_channels(w, rate(10.0), 4).await;
    let mut slots: Vec<Timestamp> = Vec::new();
    for _ in 0..40 {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let world = w.clone();
            tasks.spawn(async move { world.claim_ahead(5, Span::from_millis(250)).await.claims });
        }
        slots.extend(tasks.join_all().await.into_iter().flatten().map(|claim| claim.slot_at));
        w.advance(Span::from_millis(70)).await;
    }
    slots.sort_unstable();
    assert!(slots.len() >= 25, "{} slots in 2.8 s at 10 a second", slots.len());
    assert!(slots.windows(2).all(|pair| pair[1] - pair[0] >= Span::from_millis(100)), "{slots:?}");
}

async fn a_burst_is_allowed_and_paid_back(w: &World) {
    busy_channels(w, AccountSettings { burst: 3, ..rate(10.0) }, 1).await;
    assert_eq!(millis(&w.claim(10).await), [0, 0, 0]);
    w.advance(Span::from_millis(100)).await;
    assert_eq!(millis(&w.claim(10).await), [100]);
    w.advance(Span::from_millis(1_000)).await;
    assert_eq!(millis(&w.claim(10).await), [1_100, 1_100, 1_100]);
}

async fn a_channel_has_its_own_rate(w: &World) {
    let account = w.account().await;
    let slow = ChannelSettings { rate: Some(1.0), max_parallel: 10, ..ChannelSettings::default() };
    let (slow, fast) = (w.channel_with(account, slow).await, w.channel(account).await);
    for n in 0..3 {
        w.post(&format!("пост {n}"), &[slow, fast]).await;
    }
    let first = w.claim(10).await;
    assert_eq!(first.len(), 2);
    for claim in &first {
        w.sent(claim).await;
    }
    let second = w.claim_ahead(10, Span::ZERO).await;
    assert_eq!(
        second.claims.iter().map(|claim| claim.destination.channel()).collect::<Vec<_>>(),
        [Some(fast)]
    );
    w.sent(&second.claims[0]).await;
    let third = w.claim(10).await;
    w.sent(&third[0]).await;
    assert_eq!(w.claim_ahead(10, Span::ZERO).await.next_at, Some(START + Span::from_secs(1)));
    w.seconds(1).await;
    assert_eq!(w.claim_one().await.destination.channel(), Some(slow));
}

async fn look_ahead_takes_slots_but_not_too_far(w: &World) {
    busy_channels(w, rate(10.0), 1).await;
    let claimed = w.claim_ahead(10, Span::from_millis(250)).await;
    assert_eq!(millis(&claimed.claims), [0, 100, 200]);
    assert_eq!(claimed.next_at, Some(START + Span::from_millis(300)));
    assert!(claimed.claims.iter().all(|claim| claim.lease_until == claim.slot_at + Span::from_secs(60)));
}

/// Its second slot comes when the account's has moved on: by others, in the same claim.
async fn a_slow_channel_gets_every_slot_of_its_own_that_a_claim_reaches(w: &World) {
    let account = w.account_with(rate(20.0)).await;
    let slow = ChannelSettings { rate: Some(10.0), max_parallel: 10, ..ChannelSettings::default() };
    let (slow, fast) = (w.channel_with(account, slow).await, w.channel(account).await);
    let ahead = Span::from_millis(250);
    let of_slow = |claims: &[Claim]| {
        let of = claims.iter().filter(|claim| claim.destination.channel() == Some(slow));
        of.map(|claim| (claim.slot_at - START).millis()).collect::<Vec<_>>()
    };
    w.post("раз", &[slow]).await;
    w.post("два", &[slow, fast]).await;
    let first = w.claim_ahead(10, ahead).await.claims;
    assert_eq!((millis(&first).len(), of_slow(&first)), (3, vec![0, 100]));
    // Now its slot is ahead from the beginning.
    for claim in &first {
        w.sent(claim).await;
    }
    w.advance(Span::from_millis(120)).await;
    w.post("три", &[slow, fast]).await;
    let second = w.claim_ahead(10, ahead).await.claims;
    assert_eq!((millis(&second), of_slow(&second)), (vec![150, 200], vec![200]));
}

async fn nobody_is_served_before_a_pause_ends_however_far_a_claim_reaches(w: &World) {
    let account = w.account_with(rate(20.0)).await;
    let (paused, open) = (w.channel(account).await, w.channel(account).await);
    w.post("раз", &[paused, open]).await;
    w.store.pause_channel(w.ws, paused, START + Span::from_millis(100), "проверка").await.unwrap();
    let claims = w.claim_ahead(10, Span::from_millis(250)).await.claims;
    assert_eq!(claims.iter().map(|claim| claim.destination.channel()).collect::<Vec<_>>(), [Some(open)]);
    w.advance(Span::from_millis(100)).await;
    assert_eq!(w.claim_ahead(10, Span::from_millis(250)).await.claims.len(), 1);
}

async fn other_calls_pay_from_the_same_budget(w: &World) {
    busy_channels(w, rate(10.0), 1).await;
    let account = w.store.accounts(w.ws).await.unwrap()[0].account_id;
    assert_eq!(w.store.reserve(w.ws, account, 1).await.unwrap(), START);
    assert_eq!(w.store.reserve(w.ws, account, 2).await.unwrap(), START + Span::from_millis(200));
    let claimed = w.claim_ahead(10, Span::ZERO).await;
    assert_eq!((claimed.claims.len(), claimed.next_at), (0, Some(START + Span::from_millis(300))));
    for n in [0, 1_001] {
        assert!(matches!(w.store.reserve(w.ws, account, n).await, Err(StoreError::Invalid { .. })));
    }
    let unknown = w.store.reserve(w.ws, domain::ids::AccountId(999), 1).await.unwrap_err();
    assert!(unknown.to_string().contains("account 999"), "{unknown}");
}

async fn a_further_part_pays_for_its_chat_too(w: &World) {
    let account = w.account_with(AccountSettings { max_parallel: 10, ..AccountSettings::default() }).await;
    let settings = ChannelSettings { rate: Some(1.0), ..ChannelSettings::default() };
    let channel = w.channel_with(account, settings).await;
    w.post("раз", &[channel]).await;
    let lane = w.store.lanes(w.ws).await.unwrap()[0].lane_id;
    assert_eq!(w.store.reserve_lane(w.ws, lane).await.unwrap(), START);
    assert_eq!(w.store.reserve_lane(w.ws, lane).await.unwrap(), START + Span::from_secs(1));
    let claimed = w.claim_ahead(10, Span::ZERO).await;
    assert_eq!((claimed.claims.len(), claimed.next_at), (0, Some(START + Span::from_secs(2))));
    let unknown = w.store.reserve_lane(w.ws, domain::ids::LaneId(999_999)).await.unwrap_err();
    assert!(matches!(unknown, StoreError::NotFound { .. }), "{unknown}");
}

async fn missed_slots_are_paid_for_together_and_move_their_chats_on(w: &World) {
    let account = w.account_with(rate(10.0)).await;
    let slow = ChannelSettings { rate: Some(1.0), max_parallel: 2, ..ChannelSettings::default() };
    let (slow, free) = (w.channel_with(account, slow).await, w.channel(account).await);
    w.enqueue(vec![message("раз", &[slow]), message("два", &[slow]), message("три", &[free])]).await;
    let lanes = w.store.lanes(w.ws).await.unwrap();
    let lane = |channel| lanes.iter().find(|lane| lane.channel_id == Some(channel)).map(|lane| lane.lane_id);
    let claimed = w.claim_ahead(10, Span::from_millis(250)).await;
    assert_eq!(millis(&claimed.claims), [0, 100]);
    let slots = w.store.reserve_for(w.ws, account, vec![lane(free), lane(slow), None], Span::ZERO).await;
    let slots = slots.unwrap();
    let at = |ms| START + Span::from_millis(ms);
    assert_eq!(slots, [at(200), at(300), at(400)]);
    // The second post to the slow chat comes a second after the new slot of the first.
    assert_eq!(w.claim_ahead(10, Span::ZERO).await.next_at, Some(at(1_300)));
    for n in [0, 1_001] {
        let refused = w.store.reserve_for(w.ws, account, vec![None; n], Span::ZERO).await;
        assert!(matches!(refused, Err(StoreError::Invalid { .. })));
    }
    let later = w.store.reserve_for(w.ws, account, vec![None], Span::from_millis(700)).await.unwrap();
    assert_eq!(later, [at(700)]);
    let too_late = w.store.reserve_for(w.ws, account, vec![None], Span::from_millis(1_001)).await;
    assert!(matches!(too_late, Err(StoreError::Invalid { .. })));
    let nobody = domain::ids::AccountId(999);
    let unknown = w.store.reserve_for(w.ws, nobody, vec![None], Span::ZERO).await.unwrap_err();
    assert!(unknown.to_string().contains("account 999"), "{unknown}");
}

async fn shared_token(w: &World, rate: Option<f64>) {
    let settings = AccountSettings { rate, max_parallel: 100, ..AccountSettings::default() };
    let token = secrecy::SecretString::from("общий токен");
    let new = NewAccount { platform: "vk".into(), name: "общий".into(), token, settings };
    let account = w.store.create_account(w.ws, new).await.unwrap();
    let channel = w.channel(account).await;
    w.post("раз", &[channel]).await;
}

async fn the_same_token_in_two_workspaces_is_one_budget(w: &World) {
    let other = w.another_workspace("соседи").await;
    shared_token(w, Some(10.0)).await;
    shared_token(&other, Some(10.0)).await;
    assert_eq!(w.claim(10).await.len(), 1);
    assert!(other.claim(10).await.is_empty(), "the slot is taken");
    w.advance(Span::from_millis(100)).await;
    assert_eq!(other.claim(10).await.len(), 1);
}

async fn the_slowest_setting_of_a_shared_token_counts(w: &World) {
    let other = w.another_workspace("соседи").await;
    shared_token(w, None).await;
    shared_token(&other, Some(1.0)).await;
    assert_eq!(w.claim(10).await.len(), 1);
    w.advance(Span::from_millis(999)).await;
    assert!(other.claim(10).await.is_empty());
    w.advance(Span::from_millis(1)).await;
    assert_eq!(other.claim(10).await.len(), 1);
}

async fn a_changed_rate_counts_from_the_next_claim(w: &World) {
    busy_channels(w, rate(1.0), 1).await;
    assert_eq!(w.claim(10).await.len(), 1);
    let account = w.store.accounts(w.ws).await.unwrap()[0].account_id;
    w.store.change_account(w.ws, account, rate(100.0)).await.unwrap();
    w.seconds(1).await;
    let claimed = w.claim_ahead(10, Span::from_millis(50)).await;
    assert_eq!(millis(&claimed.claims), [1_000, 1_010, 1_020, 1_030, 1_040, 1_050]);
}

async fn the_limit_of_a_tier_slows_everybody_who_uses_the_token(w: &World) {
    let account = w.account_with(AccountSettings { rate: Some(10.0), ..AccountSettings::default() }).await;
    assert_eq!(w.store.platform_limit(w.ws, account).await.unwrap(), None);
    let limit = PlatformLimit { rate: Some(2.0), burst: 1 };
    w.store.set_platform_limit(w.ws, account, Some(limit)).await.unwrap();
    assert_eq!(w.store.platform_limit(w.ws, account).await.unwrap(), Some(limit));
    let apart = async || {
        let first = w.store.reserve(w.ws, account, 1).await.unwrap();
        w.store.reserve(w.ws, account, 1).await.unwrap() - first
    };
    assert_eq!(apart().await, Span::from_millis(500));
    w.store.set_platform_limit(w.ws, account, None).await.unwrap();
    assert_eq!(apart().await, Span::from_millis(100));
    let unknown = domain::ids::AccountId(31_337);
    assert!(w.store.set_platform_limit(w.ws, unknown, None).await.is_err());
}
