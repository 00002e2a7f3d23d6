//! Campaigns: frozen, fed, paused, recalled, tried anew and ended, on both databases. The audit holds K1 to K5 after each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::campaign::CampaignStatus;
use domain::delivery::{AmbiguityPolicy, Status};
use domain::ids::{AccountId, CampaignId, RecipientId};
use domain::outcome::{Failure, Scope};
use domain::time::{Span, Timestamp};
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    everybody_gets_one_delivery_and_the_campaign_ends,
    one_person_on_two_bots_is_written_to_once,
    who_must_not_be_written_to_is_left_out_with_the_reason,
    one_statement_writes_down_the_same_people_as_one_by_one,
    a_freeze_goes_over_every_platform,
    two_starts_at_once_are_one,
    two_nodes_that_feed_at_once_make_no_more_than_one,
    a_step_of_the_freeze_that_comes_twice_counts_once,
    nothing_is_claimed_or_marked_after_a_pause,
    what_was_recalled_is_fed_again_once,
    what_is_shut_is_taken_back_or_waits_until_it_opens,
    what_others_said_to_a_person_is_known_by_its_ids,
    how_far_it_was_is_remembered,
    the_part_of_one_account_rests_alone,
    who_stops_while_it_runs_is_counted,
    an_edit_reaches_those_who_certainly_have_not_got_it,
    who_stops_is_left_alone_at_once,
    who_is_suppressed_while_it_runs_gets_nothing_more,
    a_cancelled_campaign_ends_what_waits_and_sends_nothing,
    those_who_failed_are_tried_anew_and_nobody_else,
    kinds_of_failures_are_bounded_and_nobody_is_missing,
    a_campaign_is_finished_only_when_everybody_is_accounted_for,
    a_delivery_of_a_campaign_is_not_requeued_by_hand,
    old_results_are_told_by_the_members_themselves,
    an_import_is_an_audience,
    variants_are_fixed_by_the_seed,
    a_deadline_ends_what_waits,
    a_snapshot_counts_campaigns_and_those_that_a_guard_has_stopped,
}

fn person(user_id: &str) -> NewRecipient {
    NewRecipient {
        user_id: user_id.into(),
        address: user_id.into(),
        attributes: json!({"имя": "Анна"}),
        time_zone: None,
        status: RecipientStatus::Active,
        source: "импорт".into(),
    }
}

pub(crate) async fn people(w: &World, account: AccountId, ids: impl IntoIterator<Item = usize>) {
    let people = ids.into_iter().map(|n| person(&format!("{n:05}"))).collect();
    w.store.put_recipients(w.ws, account, people).await.unwrap();
}

pub(crate) fn draft(name: &str, accounts: &[AccountId]) -> NewCampaign {
    NewCampaign {
        name: name.into(),
        accounts: accounts.to_vec(),
        audience_id: None,
        settings: json!({}),
        seed: "семя".into(),
        min_gap: Span::ZERO,
        deadline: Span::ZERO,
        variants: Vec::new(),
    }
}

async fn created(w: &World, new: NewCampaign) -> CampaignId {
    let words = message(&format!("слова {}", new.name), &[]);
    let message_id = w.store.enqueue(w.ws, vec![words]).await.unwrap()[0].message_id;
    let variants = match new.variants.is_empty() {
        true => vec![Variant { name: "a".into(), weight: 1, message_id }],
        false => new.variants.into_iter().map(|v| Variant { message_id, ..v }).collect(),
    };
    let accounts = new.accounts.clone();
    let id = w.store.create_campaign(w.ws, NewCampaign { variants, ..new }).await.unwrap();
    let settings = LaneSettings { max_parallel: 6, rate: None, ambiguity: AmbiguityPolicy::ResendOnce };
    for account in accounts {
        w.store.open_lane(w.ws, LaneOf::Campaign(id, account), settings).await.unwrap();
    }
    id
}

pub(crate) async fn campaign(w: &World, id: CampaignId) -> Campaign {
    let all = w.store.campaigns(w.ws).await.unwrap();
    all.into_iter().find(|campaign| campaign.campaign_id == id).unwrap()
}

pub(crate) async fn to(w: &World, id: CampaignId, next: CampaignStatus) -> bool {
    let version = campaign(w, id).await.version;
    w.store.move_campaign(w.ws, id, version, next, "проверка").await.unwrap()
}

async fn freeze(w: &World, id: CampaignId) {
    loop {
        let after = campaign(w, id).await.at;
        if w.store.freeze_campaign(w.ws, id, FreezeStep { after, ..FreezeStep::default() }).await.unwrap() {
            return;
        }
    }
}

pub(crate) async fn started(w: &World, new: NewCampaign) -> CampaignId {
    let id = created(w, new).await;
    assert!(to(w, id, CampaignStatus::Preparing).await);
    freeze(w, id).await;
    assert!(to(w, id, CampaignStatus::Running).await);
    id
}

/// One that runs, with so many deliveries made.
pub(crate) async fn running(w: &World, account: AccountId, n: usize) -> CampaignId {
    people(w, account, 0..n).await;
    let id = started(w, draft("рассылка", &[account])).await;
    assert_eq!(feed(w, id, n).await, n as u64);
    id
}

pub(crate) async fn feed(w: &World, id: CampaignId, limit: usize) -> u64 {
    let mut n = 0;
    for cohort in w.store.campaign_cohorts(w.ws, id).await.unwrap() {
        let ahead = cohort.lane_holds + limit as i64;
        n += w.store.feed_campaign(w.ws, cohort.cohort_id, false, ahead).await.unwrap().queued;
    }
    n
}

pub(crate) async fn counts(w: &World, id: CampaignId) -> CampaignCounts {
    let counts = w.store.campaign_counts(w.ws, id).await.unwrap();
    let sum =
        counts.waiting + counts.on_their_way() + counts.sent + counts.failed + counts.dead + counts.excluded;
    assert_eq!(counts.total, sum, "{counts:?}");
    counts
}

pub(crate) async fn states(w: &World, id: CampaignId) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    let mut after = Person::default();
    loop {
        // Pages of three, so that there are several.
        let page = w.store.campaign_members(w.ws, id, after.clone(), 3).await.unwrap();
        let Some(last) = page.last() else {
            return states;
        };
        after = last.person.clone();
        for member in page {
            *states.entry(member.state).or_default() += 1;
        }
    }
}

pub(crate) fn told<N: Copy>(expected: &[(&str, N)]) -> BTreeMap<String, N> {
    expected.iter().map(|(state, n)| ((*state).to_owned(), *n)).collect()
}

/// Sends all that can be claimed.
pub(crate) async fn send_all(w: &World) -> usize {
    let mut n = 0;
    loop {
        let claims = w.claim(100).await;
        if claims.is_empty() {
            return n;
        }
        for claim in &claims {
            w.sent(claim).await;
        }
        n += claims.len();
    }
}

async fn everybody_gets_one_delivery_and_the_campaign_ends(w: &World) {
    let account = w.account().await;
    people(w, account, 0..7).await;
    let id = started(w, draft("всем", &[account])).await;
    assert_eq!(counts(w, id).await, CampaignCounts { total: 7, waiting: 7, ..CampaignCounts::default() });
    assert_eq!(feed(w, id, 4).await, 4);
    w.check().await;
    assert_eq!(counts(w, id).await.queued, 4);
    assert_eq!(send_all(w).await, 4);
    assert_eq!(feed(w, id, 4).await, 3);
    assert_eq!(feed(w, id, 4).await, 0);
    assert_eq!(send_all(w).await, 3);
    assert!(to(w, id, CampaignStatus::Finishing).await);
    assert!(to(w, id, CampaignStatus::Finished).await);
    assert_eq!(counts(w, id).await, CampaignCounts { total: 7, sent: 7, ..CampaignCounts::default() });
    assert_eq!(states(w, id).await, told(&[("sent", 7)]));
}

async fn one_person_on_two_bots_is_written_to_once(w: &World) {
    let (first, second) = (w.account().await, w.account().await);
    people(w, first, 0..4).await;
    people(w, second, 2..6).await;
    // On the preferred bot one of them stopped: then the other bot may write.
    let people = w.store.recipients(w.ws, first, None, 10).await.unwrap();
    let stopped = people.iter().find(|one| one.user_id == "00002").unwrap().recipient_id;
    w.store.set_recipient_status(w.ws, stopped, RecipientStatus::Stopped, "stop").await.unwrap();
    let id = started(w, draft("один раз", &[first, second])).await;
    let members = w.store.campaign_members(w.ws, id, Person::default(), 10).await.unwrap();
    let of: Vec<(&str, AccountId)> =
        members.iter().map(|member| (member.person.user_id.as_str(), member.account_id)).collect();
    let expected = [
        ("00000", first),
        ("00001", first),
        ("00002", second),
        ("00003", first),
        ("00004", second),
        ("00005", second),
    ];
    assert_eq!(of, expected);
    feed(w, id, 10).await;
    assert_eq!(send_all(w).await, 6);
}

async fn who_must_not_be_written_to_is_left_out_with_the_reason(w: &World) {
    let account = w.account().await;
    people(w, account, 0..6).await;
    let mut known = person("known");
    known.status = RecipientStatus::Known;
    w.store.put_recipients(w.ws, account, vec![known]).await.unwrap();
    let people = w.store.recipients(w.ws, account, None, 10).await.unwrap();
    let id_of = |user: &str| people.iter().find(|one| one.user_id == user).unwrap().recipient_id;
    w.store.set_recipient_status(w.ws, id_of("00000"), RecipientStatus::Gone, "").await.unwrap();
    w.store.set_recipient_status(w.ws, id_of("00001"), RecipientStatus::Stopped, "").await.unwrap();
    suppress(w, "00002", None).await;
    w.store.approach(w.ws, id_of("00004"), Span::ZERO, w.now().await).await.unwrap();
    w.seconds(10).await;
    let id = created(w, NewCampaign { min_gap: Span::from_secs(60), ..draft("не всем", &[account]) }).await;
    assert!(to(w, id, CampaignStatus::Preparing).await);
    let step = FreezeStep { missing: vec![id_of("00003")], ..FreezeStep::default() };
    assert!(w.store.freeze_campaign(w.ws, id, step).await.unwrap());
    let counts = counts(w, id).await;
    assert_eq!(
        (counts.total, counts.waiting, counts.excluded),
        (6, 1, 5),
        "who is only known is not counted"
    );
    let reasons = w.store.campaign_exclusions(w.ws, id).await.unwrap();
    let expected = ["gone", "missing_attribute", "stopped", "suppressed", "too_soon"];
    assert_eq!(reasons, expected.into_iter().map(|reason| (reason.to_owned(), 1)).collect());
}

/// Sixty people on three bots, in every state there is, twice: as the database writes them down by itself, and one by one.
/// The same id on two platforms is two people. Step by step as the database chooses, and page by page.
async fn a_freeze_goes_over_every_platform(w: &World) {
    let new = NewAccount {
        platform: "max".into(),
        name: "бот на другой".into(),
        token: "другой-ключ".into(),
        settings: AccountSettings::default(),
    };
    let accounts = [w.account().await, w.store.create_account(w.ws, new).await.unwrap()];
    for account in accounts {
        people(w, account, 1..=3).await;
    }
    // Nobody of the last platform is meant.
    let strange = NewAccount {
        platform: "vk".into(),
        name: "чужой".into(),
        token: "чужой-ключ".into(),
        settings: AccountSettings::default(),
    };
    people(w, w.store.create_account(w.ws, strange).await.unwrap(), 1..=3).await;

    let by_steps = started(w, draft("шагами", &accounts)).await;
    let by_pages = created(w, draft("страницами", &accounts)).await;
    assert!(to(w, by_pages, CampaignStatus::Preparing).await);
    let mut pages = Vec::new();
    loop {
        let after = campaign(w, by_pages).await.at;
        let page = w.store.people_in_order(w.ws, accounts.to_vec(), None, after.clone(), 100).await.unwrap();
        let (upto, is_last) = (page.upto(), page.is_last);
        pages.push(page.people.into_iter().map(|(one, _)| one.platform).collect::<BTreeSet<_>>());
        let step = FreezeStep { after, upto, is_last, ..FreezeStep::default() };
        if w.store.freeze_campaign(w.ws, by_pages, step).await.unwrap() {
            break;
        }
    }
    assert!(pages.iter().all(|platforms| platforms.len() == 1), "{pages:?}");
    for id in [by_steps, by_pages] {
        let members = w.store.campaign_members(w.ws, id, Person::default(), 100).await.unwrap();
        let members: BTreeSet<_> = members
            .into_iter()
            .map(|one| (one.person.platform, one.person.user_id, one.account_id))
            .collect();
        assert_eq!((members.len(), counts(w, id).await.waiting), (6, 6), "{members:?}");
    }
}

async fn one_statement_writes_down_the_same_people_as_one_by_one(w: &World) {
    let accounts = [w.account().await, w.account().await, w.account().await];
    let mut lot = 7_u64;
    let mut draw = |n: u64| {
        lot = lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (lot >> 33) % n
    };
    for account in accounts {
        for n in 0..60 {
            if draw(3) == 0 {
                continue;
            }
            let mut new = person(&format!("{n:05}"));
            if draw(6) == 0 {
                new.status = RecipientStatus::Known;
            }
            let put = w.store.put_recipients(w.ws, account, vec![new]).await.unwrap()[0].recipient_id;
            match draw(8) {
                0 => w.store.set_recipient_status(w.ws, put, RecipientStatus::Gone, "").await.unwrap(),
                1 => w.store.set_recipient_status(w.ws, put, RecipientStatus::Stopped, "").await.unwrap(),
                2 => suppress(w, &format!("{n:05}"), (draw(2) == 0).then_some(account)).await,
                3 => {
                    w.store.approach(w.ws, put, Span::ZERO, w.now().await).await.unwrap();
                }
                _ => {}
            }
        }
    }
    let frozen = async |name: &str, missing: Vec<RecipientId>| {
        let min_gap = Span::from_secs(60);
        let order = [accounts[1], accounts[2], accounts[0]];
        let id = created(w, NewCampaign { min_gap, ..draft(name, &order) }).await;
        assert!(to(w, id, CampaignStatus::Preparing).await);
        let step = FreezeStep { missing, ..FreezeStep::default() };
        assert!(w.store.freeze_campaign(w.ws, id, step).await.unwrap());
        let members = w.store.campaign_members(w.ws, id, Person::default(), 100).await.unwrap();
        let members: Vec<_> =
            members.into_iter().map(|one| (one.person, one.account_id, one.state, one.code)).collect();
        let cohorts = w.store.campaign_cohorts(w.ws, id).await.unwrap();
        let mut cohorts: Vec<_> =
            cohorts.iter().map(|one| (one.account_id, one.total, one.waiting)).collect();
        cohorts.sort();
        let counts = counts(w, id).await;
        (
            members,
            cohorts,
            w.store.campaign_exclusions(w.ws, id).await.unwrap(),
            (counts.total, counts.excluded),
        )
    };
    // Somebody whose words lack something has to be looked at one by one; this one does not exist.
    let one_by_one = frozen("по одному", vec![RecipientId(999_999)]).await;
    let at_once = frozen("разом", Vec::new()).await;
    assert_eq!(at_once, one_by_one);
    let kinds: BTreeSet<_> =
        at_once.0.iter().map(|(_, account, state, code)| (account, state, code)).collect();
    assert!(kinds.len() > 8, "{kinds:?}");
}

async fn suppress(w: &World, user: &str, account_id: Option<AccountId>) {
    let new = NewSuppressions {
        platform: "telegram".into(),
        user_ids: vec![user.into()],
        account_id,
        reason: SuppressionReason::Manual,
        origin: SuppressionOrigin::Operator,
    };
    w.store.suppress(w.ws, new).await.unwrap();
}

async fn two_starts_at_once_are_one(w: &World) {
    let account = w.account().await;
    people(w, account, 0..2).await;
    let id = created(w, draft("дважды", &[account])).await;
    let version = campaign(w, id).await.version;
    let start = || w.store.move_campaign(w.ws, id, version, CampaignStatus::Preparing, "");
    let (one, two) = tokio::join!(start(), start());
    assert_eq!(usize::from(one.unwrap()) + usize::from(two.unwrap()), 1);
    let again = w.store.create_campaign(
        w.ws,
        NewCampaign { variants: campaign(w, id).await.variants, ..draft("дважды", &[account]) },
    );
    assert!(matches!(again.await, Err(StoreError::Exists { what: "campaign", .. })));
    assert!(!to(w, id, CampaignStatus::Running).await, "nobody is written down yet");
    assert!(!to(w, id, CampaignStatus::Finished).await);
}

async fn two_nodes_that_feed_at_once_make_no_more_than_one(w: &World) {
    let account = w.account().await;
    people(w, account, 0..9).await;
    let id = started(w, draft("вдвоём", &[account])).await;
    let cohort = w.store.campaign_cohorts(w.ws, id).await.unwrap()[0].cohort_id;
    let feed = || w.store.feed_campaign(w.ws, cohort, false, 4);
    let (one, two) = tokio::join!(feed(), feed());
    assert_eq!(one.unwrap().queued + two.unwrap().queued, 4);
    assert_eq!(w.claim(1).await.len(), 1);
    assert_eq!(feed().await.unwrap().queued, 0, "what is out counts");
}

async fn a_step_of_the_freeze_that_comes_twice_counts_once(w: &World) {
    let account = w.account().await;
    people(w, account, 0..5).await;
    let id = created(w, draft("по шагам", &[account])).await;
    assert!(to(w, id, CampaignStatus::Preparing).await);
    let upto = Some(Person { platform: "telegram".into(), user_id: "00002".into() });
    let step = FreezeStep { upto, ..FreezeStep::default() };
    assert!(!w.store.freeze_campaign(w.ws, id, step.clone()).await.unwrap());
    assert!(!w.store.freeze_campaign(w.ws, id, step).await.unwrap());
    assert_eq!(counts(w, id).await.total, 3);
    freeze(w, id).await;
    freeze(w, id).await;
    assert_eq!(counts(w, id).await.total, 5);
}

async fn nothing_is_claimed_or_marked_after_a_pause(w: &World) {
    let account = w.account().await;
    people(w, account, 0..4).await;
    let id = started(w, draft("пауза", &[account])).await;
    feed(w, id, 10).await;
    let claims = w.claim(2).await;
    assert_eq!(claims.len(), 2);
    let mark = |claim: &Claim| vec![(claim.reference(), PartProgress::Requested)];
    assert_eq!(w.store.record_parts(mark(&claims[0])).await.unwrap(), [true]);
    assert!(to(w, id, CampaignStatus::Paused).await);
    assert_eq!(w.store.record_parts(mark(&claims[1])).await.unwrap(), [false], "its lane is closed");
    assert_eq!(w.claim(10).await.len(), 0);
    assert_eq!(feed(w, id, 10).await, 0);
    assert_eq!(counts(w, id).await.in_flight, 2);
    w.sent(&claims[0]).await;
    w.finish(&claims[1], FinishKind::Release).await;
    assert_eq!(counts(w, id).await.in_flight, 0);
    w.check().await;
    w.seconds(3_600).await;
    assert_eq!(w.claim(10).await.len(), 0);
    assert!(to(w, id, CampaignStatus::Running).await);
    assert_eq!(send_all(w).await, 3);
}

async fn what_was_recalled_is_fed_again_once(w: &World) {
    let account = w.account().await;
    people(w, account, 0..6).await;
    let id = started(w, draft("обратно", &[account])).await;
    feed(w, id, 5).await;
    let claims = w.claim(2).await;
    assert!(to(w, id, CampaignStatus::Paused).await);
    assert_eq!(w.store.recall_campaign(w.ws, id).await.unwrap(), 3, "what is out stays");
    w.check().await;
    assert_eq!(w.store.recall_campaign(w.ws, id).await.unwrap(), 0);
    for claim in &claims {
        w.sent(claim).await;
    }
    assert_eq!(counts(w, id).await.waiting, 4);
    assert!(to(w, id, CampaignStatus::Running).await);
    assert_eq!(feed(w, id, 10).await, 4);
    assert_eq!(send_all(w).await, 4);
    assert_eq!(states(w, id).await, told(&[("sent", 6)]));
}

async fn what_is_shut_is_taken_back_or_waits_until_it_opens(w: &World) {
    let account = w.account().await;
    people(w, account, 0..5).await;
    let id = started(w, draft("окно", &[account])).await;
    feed(w, id, 4).await;
    let claims = w.claim(2).await;
    w.fail(&claims[0], transient(Scope::Delivery)).await;
    let opens = w.store.now().await.unwrap() + Span::from_hours(2);
    let cohort = w.store.campaign_cohorts(w.ws, id).await.unwrap()[0].cohort_id;
    let shut = async || w.store.shut_cohorts(w.ws, id, HashMap::from([(cohort, opens)])).await.unwrap();
    assert_eq!(shut().await, 3, "two were never claimed, one was tried before");
    assert_eq!(shut().await, 0);
    w.check().await;
    assert_eq!((counts(w, id).await.waiting, counts(w, id).await.retry), (3, 1));
    // What was out comes back: it waits too, as soon as somebody looks.
    w.fail(&claims[1], transient(Scope::Delivery)).await;
    assert_eq!(shut().await, 1);
    w.check().await;
    w.seconds(7_100).await;
    assert_eq!(w.claim(10).await.len(), 0);
    w.seconds(100).await;
    assert_eq!(send_all(w).await, 2);
    feed(w, id, 10).await;
    assert_eq!(send_all(w).await, 3);
    assert_eq!(states(w, id).await, told(&[("sent", 5)]));
}

async fn what_others_said_to_a_person_is_known_by_its_ids(w: &World) {
    let account = w.account().await;
    people(w, account, 0..3).await;
    for name in ["раз", "два"] {
        let id = started(w, draft(name, &[account])).await;
        feed(w, id, 10).await;
    }
    let mut claims = w.claim(10).await;
    claims.sort_by_key(|claim| claim.delivery_id);
    assert_eq!(claims.len(), 6);
    w.sent(&claims[0]).await;
    let said = async |of: &Claim| w.store.said_lately(w.ws, of.lane_id, of.delivery_id, 10).await.unwrap();
    let id = w.store.delivery(w.ws, claims[0].delivery_id).await.unwrap().provider_message_id.unwrap();
    let again =
        claims.iter().find(|of| of.destination == claims[0].destination && of.lane_id != claims[0].lane_id);
    assert!(said(again.unwrap()).await.contains(&id), "another campaign said it to the same person");
    assert!(!said(&claims[0]).await.contains(&id), "its own is no other's");
    let other =
        claims.iter().find(|of| of.destination != claims[0].destination && of.lane_id != claims[0].lane_id);
    assert!(!said(other.unwrap()).await.contains(&id), "to somebody else it says nothing");
}

async fn the_part_of_one_account_rests_alone(w: &World) {
    let (first, second) = (w.account().await, w.account().await);
    people(w, first, 0..3).await;
    people(w, second, 3..5).await;
    let id = started(w, draft("части", &[first, second])).await;
    feed(w, id, 10).await;
    w.store.rest_part(w.ws, id, first, Some("остывает")).await.unwrap();
    assert_eq!(campaign(w, id).await.resting, BTreeMap::from([(first, "остывает".to_owned())]));
    assert_eq!(send_all(w).await, 2, "the other goes on");
    // Another pause and its end change nothing about it.
    assert!(to(w, id, CampaignStatus::Paused).await && to(w, id, CampaignStatus::Running).await);
    w.seconds(60).await;
    assert_eq!(send_all(w).await, 0);
    w.check().await;
    w.store.rest_part(w.ws, id, first, None).await.unwrap();
    let now = campaign(w, id).await;
    assert!(now.resting.is_empty() && now.resumed.contains_key(&first), "{now:?}");
    assert_eq!(send_all(w).await, 3);
    assert_eq!(w.store.cooldowns_since(w.ws, first, Timestamp(0)).await.unwrap(), 0);
}

async fn who_stops_while_it_runs_is_counted(w: &World) {
    let account = w.account().await;
    people(w, account, 0..3).await;
    let id = started(w, draft("стоп", &[account])).await;
    feed(w, id, 1).await;
    send_all(w).await;
    let people = w.store.recipients(w.ws, account, None, 10).await.unwrap();
    for one in people.iter().take(2) {
        w.store.set_recipient_status(w.ws, one.recipient_id, RecipientStatus::Stopped, "").await.unwrap();
    }
    let endings = w.store.campaign_endings(w.ws, id).await.unwrap();
    assert_eq!(endings.get(STOPS), Some(&2), "one who had got it, and one who waits");
    w.check().await;
}

async fn how_far_it_was_is_remembered(w: &World) {
    let account = w.account().await;
    people(w, account, 0..3).await;
    let id = started(w, draft("ход", &[account])).await;
    let note = async || w.store.note_progress(w.ws, id, Span::from_secs(5)).await.unwrap();
    feed(w, id, 10).await;
    w.seconds(4).await;
    note().await;
    w.seconds(2).await;
    note().await;
    note().await;
    w.seconds(1).await;
    send_all(w).await;
    assert!(to(w, id, CampaignStatus::Finishing).await && to(w, id, CampaignStatus::Finished).await);
    let seen = w.store.campaign_progress(w.ws, id, 10).await.unwrap();
    let seen: Vec<_> = seen.iter().map(|at| (at.waiting, at.on_their_way, at.sent)).collect();
    // It began, six seconds later all were on their way, and the two moves at the end are of one moment.
    assert_eq!(seen[..2], [(3, 0, 0), (0, 3, 0)]);
    assert_eq!(seen.last(), Some(&(0, 0, 3)));
    assert_eq!(w.store.campaign_progress(w.ws, id, 1).await.unwrap().len(), 1);
}

async fn an_edit_reaches_those_who_certainly_have_not_got_it(w: &World) {
    let account = w.account().await;
    people(w, account, 0..4).await;
    let id = started(w, draft("правка", &[account])).await;
    feed(w, id, 3).await;
    let claims = w.claim(2).await;
    w.fail(&claims[0], transient(Scope::Delivery)).await;
    w.fail(&claims[1], transient(Scope::Delivery).unknown()).await;
    let words = w.store.enqueue(w.ws, vec![message("другие слова", &[])]).await.unwrap()[0].message_id;
    let edit = async || {
        let version = campaign(w, id).await.version;
        w.store.edit_campaign(w.ws, id, version, 0, words).await.unwrap()
    };
    assert!(!edit().await, "it runs");
    assert!(to(w, id, CampaignStatus::Paused).await);
    assert!(!edit().await, "something is queued");
    assert_eq!(w.store.recall_campaign(w.ws, id).await.unwrap(), 1);
    assert!(edit().await);
    assert_eq!(campaign(w, id).await.revision, 2);
    assert!(to(w, id, CampaignStatus::Running).await);
    feed(w, id, 10).await;
    w.seconds(60).await;
    let mut later = w.claim(10).await;
    later.sort_by_key(|claim| claim.delivery_id);
    let says: Vec<bool> = later.iter().map(|claim| claim.message_id == words).collect();
    assert_eq!(says, [true, false, true, true], "what may be visible keeps its words");
    for claim in &later {
        w.sent(claim).await;
    }
    assert_eq!(states(w, id).await, told(&[("sent", 4)]));
}

async fn who_stops_is_left_alone_at_once(w: &World) {
    let account = w.account().await;
    people(w, account, 0..4).await;
    let id = started(w, draft("стоп", &[account])).await;
    feed(w, id, 3).await;
    let claims = w.claim(2).await;
    w.fail(&claims[0], transient(Scope::Delivery)).await;
    for one in w.store.recipients(w.ws, account, None, 10).await.unwrap() {
        w.store.set_recipient_status(w.ws, one.recipient_id, RecipientStatus::Stopped, "stop").await.unwrap();
    }
    w.check().await;
    // One waited to be tried again, one is out, one was never claimed, one was never fed.
    let mark = vec![(claims[1].reference(), PartProgress::Requested)];
    assert_eq!(w.store.record_parts(mark).await.unwrap(), [false]);
    w.finish(&claims[1], FinishKind::Release).await;
    assert_eq!(w.status(claims[0].delivery_id).await, Status::Dead);
    assert_eq!(w.status(claims[1].delivery_id).await, Status::Dead);
    assert_eq!(feed(w, id, 10).await, 0);
    w.seconds(3_600).await;
    assert_eq!(send_all(w).await, 0);
    let counts = counts(w, id).await;
    assert_eq!((counts.dead, counts.excluded, counts.waiting), (2, 2, 0));
    // The report and the counters say the same.
    let members = w.store.campaign_members(w.ws, id, Person::default(), 10).await.unwrap();
    let n = |state: &str| {
        members.iter().filter(|m| m.state == state && m.code.as_deref() == Some("stopped")).count()
    };
    assert_eq!((n("dead"), n("excluded")), (2, 2), "{members:?}");
    assert!(to(w, id, CampaignStatus::Finishing).await);
    assert!(to(w, id, CampaignStatus::Finished).await);
}

async fn who_is_suppressed_while_it_runs_gets_nothing_more(w: &World) {
    let account = w.account().await;
    people(w, account, 0..3).await;
    let id = started(w, draft("запрет", &[account])).await;
    feed(w, id, 2).await;
    suppress(w, "00000", None).await;
    suppress(w, "00002", Some(account)).await;
    assert_eq!(feed(w, id, 2).await, 0);
    let claims = w.claim(10).await;
    assert_eq!(claims.len(), 1);
    suppress(w, "00001", None).await;
    let mark = vec![(claims[0].reference(), PartProgress::Requested)];
    assert_eq!(w.store.record_parts(mark).await.unwrap(), [false]);
    w.finish(&claims[0], FinishKind::Release).await;
    assert_eq!(states(w, id).await, told(&[("dead", 1), ("excluded", 2)]));
}

async fn a_cancelled_campaign_ends_what_waits_and_sends_nothing(w: &World) {
    let account = w.account().await;
    people(w, account, 0..6).await;
    let id = started(w, draft("отмена", &[account])).await;
    feed(w, id, 5).await;
    let claims = w.claim(3).await;
    w.fail(&claims[0], transient(Scope::Delivery)).await;
    assert!(to(w, id, CampaignStatus::Cancelling).await);
    assert_eq!(w.claim(10).await.len(), 0);
    w.sent(&claims[1]).await;
    w.fail(&claims[2], transient(Scope::Delivery)).await;
    assert_eq!(w.status(claims[2].delivery_id).await, Status::Dead, "nobody waits for its next try");
    assert_eq!(w.store.end_retries(w.ws, id).await.unwrap(), 1);
    assert_eq!(w.store.recall_campaign(w.ws, id).await.unwrap(), 2);
    assert!(to(w, id, CampaignStatus::Cancelled).await);
    w.seconds(3_600).await;
    assert_eq!(send_all(w).await, 0);
    assert_eq!(states(w, id).await, told(&[("cancelled", 5), ("sent", 1)]));
    let (counts, ended) = (counts(w, id).await, w.store.campaign_endings(w.ws, id).await.unwrap());
    assert_eq!((counts.waiting, counts.dead, ended[CANCELLED]), (3, 2, 2), "whoever was on the way too");
    assert!(!to(w, id, CampaignStatus::Running).await);
}

pub(crate) fn refused() -> Failure {
    permanent(Scope::Delivery)
}

async fn those_who_failed_are_tried_anew_and_nobody_else(w: &World) {
    let account = w.account().await;
    people(w, account, 0..5).await;
    let id = started(w, draft("снова", &[account])).await;
    feed(w, id, 10).await;
    let claims = w.claim(10).await;
    assert_eq!(claims.len(), 5);
    w.sent(&claims[0]).await;
    w.fail(&claims[1], refused()).await;
    let gone = Failure { recipient_gone: true, ..permanent(Scope::Channel) };
    w.fail(&claims[2], gone).await;
    w.fail(&claims[3], transient(Scope::Delivery).unknown()).await;
    w.sent(&claims[4]).await;
    w.seconds(60).await;
    let again = w.claim_one().await;
    w.fail(&again, transient(Scope::Delivery).unknown()).await;
    assert_eq!(w.status(again.delivery_id).await, Status::Dead, "nobody knows whether they got it");
    assert!(to(w, id, CampaignStatus::Finishing).await);
    assert!(to(w, id, CampaignStatus::Finished).await);
    assert_eq!(states(w, id).await, told(&[("dead", 1), ("failed", 1), ("gone", 1), ("sent", 2)]));
    let why = async || w.store.campaign_failures(w.ws, id).await.unwrap();
    assert_eq!(why().await, told(&[("403", 2), ("outcome_unknown", 1)]), "as the report says of each");
    let endings = w.store.campaign_endings(w.ws, id).await.unwrap();
    assert_eq!(endings, told(&[("outcome_unknown", 1), ("recipient_gone", 1), ("refused", 1)]));
    let wave = async |unknown: bool| {
        let version = campaign(w, id).await.version;
        let retries = Retries { code: None, unknown };
        assert!(w.store.begin_wave(w.ws, id, version, retries).await.unwrap());
        while !w.store.prepare_wave(w.ws, id).await.unwrap() {}
        assert!(to(w, id, CampaignStatus::Running).await);
        w.check().await;
        let fed = feed(w, id, 10).await;
        assert_eq!(send_all(w).await as u64, fed);
        assert!(to(w, id, CampaignStatus::Finishing).await);
        assert!(to(w, id, CampaignStatus::Finished).await);
        fed
    };
    assert_eq!(wave(false).await, 1);
    assert_eq!(states(w, id).await, told(&[("dead", 1), ("gone", 1), ("sent", 3)]));
    assert_eq!(why().await, told(&[("403", 1), ("outcome_unknown", 1)]), "who has it now failed no more");
    assert_eq!(wave(true).await, 1);
    assert_eq!(wave(true).await, 0);
    assert_eq!(states(w, id).await, told(&[("gone", 1), ("sent", 4)]));
    assert_eq!(
        counts(w, id).await,
        CampaignCounts { total: 5, sent: 4, failed: 1, ..CampaignCounts::default() }
    );
}

async fn a_campaign_is_finished_only_when_everybody_is_accounted_for(w: &World) {
    let account = w.account().await;
    people(w, account, 0..2).await;
    let id = started(w, draft("конец", &[account])).await;
    assert!(to(w, id, CampaignStatus::Finishing).await);
    assert!(!to(w, id, CampaignStatus::Finished).await, "both wait");
    assert!(to(w, id, CampaignStatus::Running).await);
    feed(w, id, 10).await;
    assert!(to(w, id, CampaignStatus::Finishing).await);
    assert!(!to(w, id, CampaignStatus::Finished).await, "both are queued");
    let claims = w.claim(10).await;
    w.sent(&claims[0]).await;
    assert!(!to(w, id, CampaignStatus::Finished).await, "one is out");
    w.fail(&claims[1], transient(Scope::Delivery)).await;
    assert!(!to(w, id, CampaignStatus::Finished).await, "one is tried again");
    w.seconds(60).await;
    assert_eq!(send_all(w).await, 1);
    assert!(to(w, id, CampaignStatus::Finished).await);
}

async fn a_delivery_of_a_campaign_is_not_requeued_by_hand(w: &World) {
    let account = w.account().await;
    people(w, account, 0..1).await;
    let id = started(w, draft("вручную", &[account])).await;
    feed(w, id, 10).await;
    let claim = w.claim_one().await;
    w.fail(&claim, refused()).await;
    let error = w.store.requeue(w.ws, vec![claim.delivery_id]).await.unwrap_err();
    assert!(error.to_string().contains("rupor campaign retry"), "{error}");
}

async fn kinds_of_failures_are_bounded_and_nobody_is_missing(w: &World) {
    let account = w.account().await;
    people(w, account, 0..70).await;
    let id = started(w, draft("коды", &[account])).await;
    feed(w, id, 100).await;
    for n in 0..70 {
        let claim = w.claim_one().await;
        w.fail(&claim, Failure { code: format!("made up {n:02}"), ..refused() }).await;
    }
    let why = w.store.campaign_failures(w.ws, id).await.unwrap();
    assert_eq!((why.len(), why["other"], why["made up 00"]), (65, 6, 1), "{why:?}");
    assert!(to(w, id, CampaignStatus::Finishing).await);
    assert!(to(w, id, CampaignStatus::Finished).await);
    let version = campaign(w, id).await.version;
    assert!(w.store.begin_wave(w.ws, id, version, Retries::default()).await.unwrap());
    while !w.store.prepare_wave(w.ws, id).await.unwrap() {}
    assert_eq!(w.store.campaign_failures(w.ws, id).await.unwrap(), BTreeMap::new());
}

async fn old_results_are_told_by_the_members_themselves(w: &World) {
    let account = w.account().await;
    people(w, account, 0..3).await;
    let id = started(w, draft("давно", &[account])).await;
    feed(w, id, 10).await;
    let claims = w.claim(10).await;
    w.sent(&claims[0]).await;
    w.sent(&claims[1]).await;
    w.fail(&claims[2], refused()).await;
    assert!(to(w, id, CampaignStatus::Finishing).await);
    assert!(to(w, id, CampaignStatus::Finished).await);
    let before = w.store.campaign_members(w.ws, id, Person::default(), 10).await.unwrap();
    let (stood, week) = (counts(w, id).await, Span::from_hours(24 * 7));
    w.advance(Span::from_hours(24 * 40)).await;
    let keep = Retention { deliveries: week, deduped: week, events: week };
    let (removed, _) = w.store.retain(Whose::Everyone, keep, 100, Walk::START).await.unwrap();
    assert_eq!(removed.deliveries, 3);
    assert_eq!(removed.messages, 0, "its words stay with it");
    let after = w.store.campaign_members(w.ws, id, Person::default(), 10).await.unwrap();
    assert_eq!(after, before);
    assert_eq!(counts(w, id).await, stood);
}

async fn an_import_is_an_audience(w: &World) {
    let account = w.account().await;
    people(w, account, 0..3).await;
    let audience_id = w.store.create_audience(w.ws, "список", None).await.unwrap();
    let step = |ids: &[&str]| ImportedPeople {
        audience_id,
        account_id: account,
        people: ids.iter().map(|id| person(id)).collect(),
        import: Some(json!({"offset": 7})),
    };
    let put = w.store.import_people(w.ws, step(&["00002", "00007", "00007"])).await.unwrap();
    assert_eq!(put.iter().map(|one| one.created).collect::<Vec<_>>(), [false, true, false]);
    w.store.import_people(w.ws, step(&[])).await.unwrap();
    // People that come without a file leave alone how far it has come.
    let by_program = ImportedPeople { import: None, ..step(&["00007"]) };
    w.store.import_people(w.ws, by_program).await.unwrap();
    w.store.import_people(w.ws, ImportedPeople { import: None, ..step(&[]) }).await.unwrap();
    let known = w.store.audiences(w.ws).await.unwrap();
    assert_eq!(
        (known[0].name.as_str(), known[0].people, &known[0].import),
        ("список", 2, &json!({"offset": 7}))
    );
    let id = started(w, NewCampaign { audience_id: Some(audience_id), ..draft("списку", &[account]) }).await;
    let members = w.store.campaign_members(w.ws, id, Person::default(), 10).await.unwrap();
    let of: Vec<&str> = members.iter().map(|member| member.person.user_id.as_str()).collect();
    assert_eq!(of, ["00002", "00007"]);
    let page =
        w.store.people_in_order(w.ws, vec![account], Some(audience_id), Person::default(), 2).await.unwrap();
    assert_eq!((page.people.len(), page.is_last), (1, false), "the last may not be whole");
    let again = w.store.create_audience(w.ws, "список", None).await;
    assert!(matches!(again, Err(StoreError::Exists { what: "audience", .. })));
}

async fn variants_are_fixed_by_the_seed(w: &World) {
    let account = w.account().await;
    people(w, account, 0..40).await;
    let variant =
        |name: &str, weight| Variant { name: name.into(), weight, message_id: domain::ids::MessageId(0) };
    let new = |name: &str| NewCampaign {
        variants: vec![variant("a", 1), variant("b", 1)],
        ..draft(name, &[account])
    };
    let lots = async |name: &str| {
        let id = started(w, new(name)).await;
        let members = w.store.campaign_members(w.ws, id, Person::default(), 100).await.unwrap();
        members.iter().map(|member| member.variant).collect::<Vec<_>>()
    };
    let first = lots("первая").await;
    assert_eq!(first, lots("вторая").await);
    let n: i32 = first.iter().sum();
    // The same on both databases: a set-up that moves keeps its lots.
    assert_eq!((n, first[..10].to_vec()), (EXPECTED_SUM, EXPECTED_FIRST.to_vec()));
}

const EXPECTED_SUM: i32 = 15;
const EXPECTED_FIRST: [i32; 10] = [1, 0, 0, 1, 0, 0, 1, 0, 0, 1];

async fn a_deadline_ends_what_waits(w: &World) {
    let account = w.account().await;
    people(w, account, 0..4).await;
    let deadline = Span::from_secs(600);
    let id = started(w, NewCampaign { deadline, ..draft("к сроку", &[account]) }).await;
    feed(w, id, 2).await;
    let claim = w.claim_one().await;
    w.sent(&claim).await;
    w.seconds(601).await;
    assert_eq!(feed(w, id, 10).await, 0, "it is too late");
    assert_eq!(w.claim(10).await.len(), 0);
    let version = campaign(w, id).await.version;
    assert!(w.store.abort_campaign(w.ws, id, version, "its deadline is over").await.unwrap());
    assert_eq!(campaign(w, id).await.ends_as, CampaignStatus::Aborted);
    assert_eq!(w.store.campaign_endings(w.ws, id).await.unwrap()["expired"], 1);
    assert!(to(w, id, CampaignStatus::Aborted).await);
    assert_eq!(states(w, id).await, told(&[("cancelled", 2), ("dead", 1), ("sent", 1)]));
}

async fn a_snapshot_counts_campaigns_and_those_that_a_guard_has_stopped(w: &World) {
    let account = w.account().await;
    people(w, account, 0..1).await;
    created(w, draft("черновик", &[account])).await;
    started(w, draft("идёт", &[account])).await;
    let part = started(w, draft("часть", &[account])).await;
    w.store.rest_part(w.ws, part, account, Some("guard: failures")).await.unwrap();
    for (name, why) in [("сама", "guard: stops"), ("человек", "остановил оператор")]
    {
        let id = started(w, draft(name, &[account])).await;
        let version = campaign(w, id).await.version;
        assert!(w.store.move_campaign(w.ws, id, version, CampaignStatus::Paused, why).await.unwrap());
    }
    let expected =
        CampaignStates { draft: 1, running: 2, paused: 2, guarded: 2, ..CampaignStates::default() };
    assert_eq!(w.store.snapshot(w.ws).await.unwrap().campaigns, expected);
    let other = w.another_workspace("чужой").await;
    assert_eq!(other.store.snapshot(other.ws).await.unwrap().campaigns, CampaignStates::default());
}
