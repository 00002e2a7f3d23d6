//! Policies on a clock in the hand: who is fed when, and what ends a campaign early.

use domain::ids::WorkspaceId;
use domain::message::Message;
use secrecy::SecretString;
use serde_json::json;
use store::{
    AccountSettings, Address, CampaignCounts, Claim, ClaimRequest, Clock, Finish, FinishKind, Keyring,
    NewAccount, NewRecipient, RecipientStatus, Retries,
};

use super::super::life::{self, Draft};
use super::*;

/// 2026-11-15 12:00:00 UTC: three in the afternoon in Moscow, nine in the evening in Tokyo.
const NOON: Timestamp = Timestamp(1_794_744_000_000_000);

struct World {
    store: Store,
    clock: Clock,
    ws: WorkspaceId,
}

impl World {
    async fn new(people: &[(usize, &str)]) -> World {
        let clock = Clock::hand(NOON);
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), clock.clone()).await.unwrap();
        let ws = store.create_workspace("приют").await.unwrap();
        let settings = AccountSettings { max_parallel: 100, ..AccountSettings::default() };
        let token = SecretString::from("1:token".to_owned());
        // The name of no platform stands outside its folder.
        let platform = platforms::registry::PLATFORMS[0].name().to_owned();
        let account = NewAccount { platform, name: "бот".into(), token, settings };
        let account = store.create_account(ws, account).await.unwrap();
        let mut list = Vec::new();
        for (n, zone) in people {
            for _ in 0..*n {
                let user_id = (1_000 + list.len()).to_string();
                list.push(NewRecipient {
                    address: user_id.clone(),
                    user_id,
                    attributes: json!({}),
                    time_zone: (!zone.is_empty()).then(|| (*zone).to_owned()),
                    status: RecipientStatus::Active,
                    source: "список".into(),
                });
            }
        }
        store.put_recipients(ws, account, list).await.unwrap();
        World { store, clock, ws }
    }

    /// One more account, with people of its own.
    async fn another_account(&self, n: usize) -> AccountId {
        let token = SecretString::from("2:token".to_owned());
        let platform = platforms::registry::PLATFORMS[0].name().to_owned();
        let settings = AccountSettings { max_parallel: 100, ..AccountSettings::default() };
        let account = NewAccount { platform, name: "второй".into(), token, settings };
        let account = self.store.create_account(self.ws, account).await.unwrap();
        let person = |n: usize| NewRecipient {
            address: (9_000 + n).to_string(),
            user_id: (9_000 + n).to_string(),
            attributes: json!({}),
            time_zone: None,
            status: RecipientStatus::Active,
            source: "список".into(),
        };
        self.store.put_recipients(self.ws, account, (0..n).map(person).collect()).await.unwrap();
        account
    }

    /// Ends so many that can be claimed now; the others go back.
    async fn end(&self, n: usize, ending: &FinishKind) {
        let claims = self.claim().await;
        assert!(claims.len() >= n, "{} can be claimed", claims.len());
        let end = |(at, claim): (usize, &Claim)| Finish {
            claim: claim.reference(),
            ending: if at < n { ending.clone() } else { FinishKind::Release },
            chance: domain::retry::Chance::NONE,
        };
        self.store.commit(claims.iter().enumerate().map(end).collect()).await.unwrap();
    }

    /// A guard has nothing more to say about what it has seen: the campaign runs on.
    async fn resume(&self) {
        life::resume(&self.store, &self.campaign().await).await.unwrap();
        self.go().await;
        assert!(self.campaign().await.status.is_open());
    }

    async fn start(&self, policy: serde_json::Value) {
        let accounts = self.store.accounts(self.ws).await.unwrap();
        let draft = Draft {
            name: "осень".into(),
            accounts: accounts.iter().map(|account| account.account_id).collect(),
            audience: None,
            variants: vec![("a".into(), 1, Message::text("Привет"))],
            policy: serde_json::from_value(policy).unwrap(),
            key: "семя".into(),
        };
        let campaign = life::create(&self.store, self.ws, draft).await.unwrap();
        life::start(&self.store, &campaign, None).await.unwrap();
        self.go().await;
    }

    async fn campaign(&self) -> Campaign {
        life::by_name(&self.store, self.ws, "осень").await.unwrap()
    }

    /// Until nothing moves by itself.
    async fn go(&self) {
        while step(&self.store, self.campaign().await).await.unwrap() {}
    }

    async fn counts(&self) -> CampaignCounts {
        self.store.campaign_counts(self.ws, self.campaign().await.campaign_id).await.unwrap()
    }

    async fn claim(&self) -> Vec<Claim> {
        let request = ClaimRequest {
            whose: Whose::Workspace(self.ws),
            run_id: "run".into(),
            limit: 100,
            ahead: Span::ZERO,
            lease: Span::from_secs(60),
        };
        self.store.claim(request).await.unwrap().claims
    }

    /// Sends what can be sent, or has it refused.
    async fn end_all(&self, ending: &FinishKind) -> usize {
        let mut n = 0;
        loop {
            let claims = self.claim().await;
            if claims.is_empty() {
                return n;
            }
            n += claims.len();
            let end = |claim: &Claim| Finish {
                claim: claim.reference(),
                ending: ending.clone(),
                chance: domain::retry::Chance::NONE,
            };
            self.store.commit(claims.iter().map(end).collect()).await.unwrap();
        }
    }

    async fn check(&self) {
        assert_eq!(self.store.audit(self.ws).await.unwrap(), Vec::<String>::new());
    }
}

fn refused() -> FinishKind {
    let refused = domain::outcome::Failure::new(
        domain::outcome::Category::Permanent,
        domain::outcome::Scope::Delivery,
        "400",
        "refused",
    );
    FinishKind::Outcome(domain::outcome::Outcome::Failed(refused))
}

fn sent() -> FinishKind {
    let sent = domain::outcome::Sent { provider_message_id: Some("1".into()), raw: serde_json::Value::Null };
    FinishKind::Outcome(domain::outcome::Outcome::Sent(sent))
}

#[tokio::test]
async fn nobody_is_written_to_while_they_sleep() {
    let w = World::new(&[(3, "Europe/Moscow"), (4, "Asia/Tokyo"), (2, "")]).await;
    w.start(json!({"window": "10:00-20:00"})).await;
    assert_eq!(w.counts().await.queued, 5, "it is nine in the evening in Tokyo");
    w.clock.advance(Span::from_hours(8));
    w.go().await;
    w.check().await;
    assert_eq!(w.counts().await.queued, 0, "it is night for those who were queued: they wait again");
    assert_eq!(w.end_all(&sent()).await, 0);
    w.clock.advance(Span::from_hours(5));
    w.go().await;
    assert_eq!(w.end_all(&sent()).await, 4, "it is ten in the morning in Tokyo");
    w.clock.advance(Span::from_hours(10));
    w.go().await;
    assert_eq!(w.end_all(&sent()).await, 5);
    w.go().await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Finished);
    w.check().await;
}

#[tokio::test]
async fn nobody_is_tried_again_while_they_sleep() {
    let w = World::new(&[(2, "Europe/Moscow"), (3, "")]).await;
    w.start(json!({"window": "10:00-20:00"})).await;
    // Five to eight in the evening in Moscow.
    w.clock.advance(Span::from_secs((4 * 60 + 55) * 60));
    let busy = domain::outcome::Failure::new(
        domain::outcome::Category::Transient,
        domain::outcome::Scope::Delivery,
        "502",
        "busy",
    );
    assert_eq!(w.end_all(&FinishKind::Outcome(domain::outcome::Outcome::Failed(busy))).await, 5);
    w.go().await;
    w.clock.advance(Span::from_secs(10 * 60));
    w.go().await;
    w.check().await;
    assert_eq!(w.counts().await.retry, 5);
    let mut n = w.end_all(&sent()).await;
    // Only some are tried again at once.
    w.clock.advance(Span::from_secs(10));
    n += w.end_all(&sent()).await;
    assert_eq!(n, 3, "in Moscow it is five past eight");
    w.clock.advance(Span::from_hours(13));
    w.go().await;
    assert_eq!(w.end_all(&sent()).await, 0, "and five past nine in the morning");
    w.clock.advance(Span::from_hours(1));
    w.go().await;
    assert_eq!(w.end_all(&sent()).await, 2);
    w.go().await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Finished);
    w.check().await;
}

#[tokio::test]
async fn the_others_wait_until_the_first_ones_have_it_and_the_pause_is_over() {
    let w = World::new(&[(100, "")]).await;
    w.start(json!({"canary": {"share": 0.1, "hold": "30m"}})).await;
    let first = w.counts().await.queued;
    assert!((3..40).contains(&first), "{first} of a hundred");
    assert_eq!(w.end_all(&sent()).await as i64, first);
    w.go().await;
    assert_eq!(w.counts().await.queued, 0);
    w.clock.advance(Span::from_secs(29 * 60));
    w.go().await;
    assert_eq!(w.counts().await.queued, 0);
    w.clock.advance(Span::from_secs(61));
    w.go().await;
    assert_eq!(w.end_all(&sent()).await as i64, 100 - first);
    w.go().await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Finished);
    w.check().await;
}

#[tokio::test]
async fn a_guard_pauses_a_campaign_that_goes_wrong() {
    let w = World::new(&[(400, "")]).await;
    w.start(json!({"guards": {"failures": 0.1}})).await;
    w.end(50, &refused()).await;
    w.go().await;
    let campaign = w.campaign().await;
    assert_eq!(campaign.status, CampaignStatus::Paused);
    assert!(campaign.why.unwrap().contains("100 % of"), "it says why");
    assert_eq!(w.claim().await.len(), 0);
    w.check().await;
}

#[tokio::test]
async fn a_campaign_goes_on_after_its_guard_until_as_many_fail_again() {
    let w = World::new(&[(400, "")]).await;
    w.start(json!({"guards": {"failures": 0.1}})).await;
    w.end(50, &refused()).await;
    w.go().await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Paused);
    w.resume().await;
    w.end(19, &refused()).await;
    w.go().await;
    assert!(w.campaign().await.status.is_open(), "nineteen say nothing");
    w.end(1, &refused()).await;
    w.go().await;
    let paused = w.campaign().await;
    assert!(paused.why.unwrap().contains("100 % of 20"), "only what ended since is judged");
    w.resume().await;
    w.check().await;
}

#[tokio::test]
async fn a_guard_may_end_a_campaign_for_good_and_a_wave_begins_anew() {
    let w = World::new(&[(400, "")]).await;
    w.start(json!({"guards": {"failures": 0.1, "abort": true}})).await;
    w.end(75, &refused()).await;
    w.go().await;
    let campaign = w.campaign().await;
    assert_eq!(campaign.status, CampaignStatus::Aborted);
    assert!(campaign.why.unwrap().contains("100 % of 75"), "it says why");
    life::retry(&w.store, &w.campaign().await, Retries::default()).await.unwrap();
    w.go().await;
    assert!(w.campaign().await.status.is_open());
    while w.end_all(&sent()).await > 0 {
        w.go().await;
    }
    assert_eq!((w.counts().await.sent, w.campaign().await.status), (400, CampaignStatus::Finished));
    w.check().await;
}

#[tokio::test]
async fn an_account_that_cools_down_again_and_again_rests_alone() {
    let w = World::new(&[(40, "")]).await;
    w.start(json!({"guards": {"cooldowns": 3}})).await;
    let account = w.campaign().await.accounts[0];
    let flood = domain::outcome::Failure::new(
        domain::outcome::Category::Transient,
        domain::outcome::Scope::Platform,
        "503",
        "busy",
    );
    for _ in 0..3 {
        w.clock.advance(Span::from_secs(100));
        let claims = w.claim().await;
        let end = |claim: &Claim| Finish {
            claim: claim.reference(),
            ending: FinishKind::Outcome(domain::outcome::Outcome::Failed(flood.clone())),
            chance: domain::retry::Chance::NONE,
        };
        w.store.commit(claims.iter().take(1).map(end).collect()).await.unwrap();
        let rest = claims.iter().skip(1);
        let back = |claim: &Claim| Finish { ending: FinishKind::Release, ..end(claim) };
        w.store.commit(rest.map(back).collect()).await.unwrap();
    }
    w.go().await;
    let campaign = w.campaign().await;
    assert!(campaign.resting[&account].contains("3 cooldowns"), "{campaign:?}");
    assert!(campaign.status.is_open(), "the campaign itself goes on");
    w.clock.advance(Span::from_secs(200));
    assert_eq!(w.claim().await.len(), 0);
    w.check().await;
    // Who lets it go on has seen the three; three more are needed.
    w.store.rest_part(w.ws, campaign.campaign_id, account, None).await.unwrap();
    w.clock.advance(Span::from_secs(1));
    w.go().await;
    assert!(w.campaign().await.resting.is_empty());
    assert!(!w.claim().await.is_empty());
}

#[tokio::test]
async fn a_campaign_pays_only_where_it_was_asked_to_and_until_that_is_spent() {
    let w = World::new(&[(1, "")]).await;
    let known = w.store.accounts(w.ws).await.unwrap().remove(0);
    let account = |tier: &str| store::Account {
        settings: AccountSettings { tier: tier.into(), ..AccountSettings::default() },
        ..known.clone()
    };
    let policy = |text: serde_json::Value| serde_json::from_value::<Policy>(text).unwrap();
    let (free, paid) = (policy(json!({})), policy(json!({"paid": {"stars": 500.0}})));
    w.start(json!({})).await;
    let campaign = w.campaign().await;
    let rate = |tier: &str, policy: &Policy, sent: i64| {
        let account = account(tier);
        let sent = BTreeMap::from([(account.account_id, sent)]);
        let affords = affords(&campaign, policy, std::slice::from_ref(&account), &sent);
        campaign_rate(&account, affords).unwrap()
    };
    assert!(rate("standard", &paid, 0) <= 30.0, "the account does not pay");
    assert!(rate(addresses::TIER_PAID, &free, 0) <= 30.0, "nobody asked for it");
    assert!(rate(addresses::TIER_PAID, &paid, 0) > 900.0);
    assert!(rate(addresses::TIER_PAID, &paid, 3_900) > 900.0);
    assert!(
        rate(addresses::TIER_PAID, &paid, 4_100) <= 30.0,
        "the next second would cost more than is allowed"
    );
    // What is allowed is for all its accounts together.
    let second = AccountId(known.account_id.0 + 1);
    let both = [
        account(addresses::TIER_PAID),
        store::Account { account_id: second, ..account(addresses::TIER_PAID) },
    ];
    let campaign = Campaign { accounts: vec![known.account_id, second], ..campaign };
    let sent = |n| BTreeMap::from([(known.account_id, n), (second, n)]);
    assert!(affords(&campaign, &paid, &both, &sent(1_400)));
    assert!(
        !affords(&campaign, &paid, &both, &sent(1_600)),
        "3 200 are sent, and each may send 1 000 in a second"
    );
}

#[tokio::test]
async fn who_is_queued_already_is_paid_for_no_longer_when_the_stars_are_spent() {
    let w = World::new(&[(600, "")]).await;
    let account = w.store.accounts(w.ws).await.unwrap().remove(0);
    let settings =
        AccountSettings { tier: addresses::TIER_PAID.into(), burst: 1_000, ..account.settings.clone() };
    w.store.change_account(w.ws, account.account_id, settings).await.unwrap();
    // A thousand and fifty messages, of which the next second may take a thousand.
    w.start(json!({"paid": {"stars": 105.0}})).await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Finishing, "everybody is queued");
    let claims = w.claim().await;
    assert!(!claims.is_empty() && claims.iter().all(|claim| claim.paid));
    let end = |claim: &Claim| Finish {
        claim: claim.reference(),
        ending: sent(),
        chance: domain::retry::Chance::NONE,
    };
    w.store.commit(claims.iter().map(end).collect()).await.unwrap();
    let mut n = claims.len();
    while n < 80 {
        w.clock.advance(Span::from_secs(1));
        let claims = w.claim().await;
        n += claims.len();
        w.store.commit(claims.iter().map(end).collect()).await.unwrap();
    }
    w.go().await;
    w.clock.advance(Span::from_secs(1));
    let claims = w.claim().await;
    assert!(!claims.is_empty() && claims.iter().all(|claim| !claim.paid), "it goes on for nothing");
}

#[tokio::test]
async fn a_deadline_ends_it_and_tells_who_did_not_get_it() {
    let w = World::new(&[(5, "")]).await;
    w.start(json!({"deadline": "1h"})).await;
    assert_eq!(w.claim().await.len(), 5);
    w.clock.advance(Span::from_secs(3_601));
    w.go().await;
    w.go().await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Aborted);
    w.check().await;
}

#[tokio::test]
async fn a_deadline_ends_a_campaign_that_is_paused_and_a_wave_has_its_own() {
    let w = World::new(&[(5, "")]).await;
    w.start(json!({"deadline": "1h"})).await;
    assert!(w.campaign().await.deadline.is_some());
    life::pause(&w.store, &w.campaign().await, "").await.unwrap();
    w.clock.advance(Span::from_secs(3_601));
    let late = life::resume(&w.store, &w.campaign().await).await.unwrap_err().to_string();
    assert!(late.contains("its deadline passed") && late.contains("rupor campaign retry"), "{late}");
    assert_eq!(w.claim().await.len(), 0);
    w.go().await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Aborted);
    w.clock.advance(Span::from_hours(24));
    life::retry(&w.store, &w.campaign().await, Retries::default()).await.unwrap();
    w.go().await;
    assert_eq!(w.end_all(&sent()).await, 5);
    w.go().await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Finished);
    w.check().await;
}

#[tokio::test]
async fn nobody_is_woken_when_a_campaign_goes_on_at_night() {
    // Three people are asleep at five past eight in the evening in Moscow; for the others it is five past five.
    let w = World::new(&[(3, "Europe/Moscow"), (2, "")]).await;
    let evening = Span::from_secs((5 * 60 + 5) * 60);
    w.start(json!({"window": "10:00-20:00"})).await;
    assert_eq!(w.counts().await.queued, 5);
    life::pause(&w.store, &w.campaign().await, "").await.unwrap();
    w.clock.advance(evening);
    life::resume(&w.store, &w.campaign().await).await.unwrap();
    assert_eq!(w.end_all(&sent()).await, 2, "before anybody looks");
    w.check().await;
}

#[tokio::test]
async fn a_node_that_comes_back_at_night_wakes_nobody() {
    let w = World::new(&[(3, "Europe/Moscow"), (2, "")]).await;
    w.start(json!({"window": "10:00-20:00", "deadline": "8h"})).await;
    w.clock.advance(Span::from_secs((5 * 60 + 5) * 60));
    super::super::catch_up(&w.store).await.unwrap();
    assert_eq!(w.end_all(&sent()).await, 2);
    w.clock.advance(Span::from_hours(14));
    super::super::catch_up(&w.store).await.unwrap();
    assert_eq!(w.campaign().await.status, CampaignStatus::Cancelling, "its deadline is over");
    assert_eq!(w.end_all(&sent()).await, 0);
    w.check().await;
}

#[tokio::test]
async fn a_bot_that_rests_does_not_hold_up_the_others_behind_its_first_ones() {
    let w = World::new(&[(100, "")]).await;
    let second = w.another_account(100).await;
    w.start(json!({"canary": {"share": 0.1, "hold": "30m"}})).await;
    w.store.pause_account(w.ws, second, "забанен").await.unwrap();
    let first = w.end_all(&sent()).await;
    assert!((3..40).contains(&first), "{first} of a hundred");
    w.go().await;
    w.clock.advance(Span::from_secs(30 * 60 + 1));
    w.go().await;
    assert_eq!(first + w.end_all(&sent()).await, 100);
    w.check().await;
}

#[tokio::test]
async fn a_start_that_nobody_was_there_for_is_made_up_for_or_given_up() {
    for (late_by, expected) in
        [(json!({}), CampaignStatus::Running), (json!({"late_by": "1h"}), CampaignStatus::Aborted)]
    {
        let w = World::new(&[(2, "")]).await;
        let accounts = w.store.accounts(w.ws).await.unwrap();
        let draft = Draft {
            name: "осень".into(),
            accounts: accounts.iter().map(|account| account.account_id).collect(),
            audience: None,
            variants: vec![("a".into(), 1, Message::text("Привет"))],
            policy: serde_json::from_value(late_by).unwrap(),
            key: "семя".into(),
        };
        let campaign = life::create(&w.store, w.ws, draft).await.unwrap();
        let past = life::start(&w.store, &campaign, Some(NOON)).await.unwrap_err().to_string();
        assert!(past.contains("lies in the past"), "{past}");
        life::start(&w.store, &campaign, Some(NOON + Span::from_hours(1))).await.unwrap();
        w.go().await;
        assert_eq!(w.campaign().await.status, CampaignStatus::Scheduled);
        w.clock.advance(Span::from_hours(3));
        w.go().await;
        let status = w.campaign().await.status;
        if expected == CampaignStatus::Aborted {
            may_be_started_again(&w).await;
            continue;
        }
        // It goes on by itself from there.
        assert!(
            status == expected
                || (expected == CampaignStatus::Running && status == CampaignStatus::Finishing),
            "{status}"
        );
        w.check().await;
    }
}

async fn may_be_started_again(w: &World) {
    assert_eq!(w.campaign().await.status, CampaignStatus::Aborted);
    let nobody =
        life::retry(&w.store, &w.campaign().await, Retries::default()).await.unwrap_err().to_string();
    assert!(nobody.contains("never began") && nobody.contains("rupor campaign start"), "{nobody}");
    let later = w.store.now().await.unwrap() + Span::from_hours(1);
    life::start(&w.store, &w.campaign().await, Some(later)).await.unwrap();
    assert_eq!(w.campaign().await.status, CampaignStatus::Scheduled);
    w.clock.advance(Span::from_hours(1));
    w.go().await;
    assert_eq!(w.end_all(&sent()).await, 2);
    w.go().await;
    assert_eq!(w.campaign().await.status, CampaignStatus::Finished);
    w.check().await;
}

#[tokio::test]
async fn a_start_that_cannot_work_says_why_and_changes_nothing() {
    let w = World::new(&[]).await;
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let draft = |name: &str, text: &str| Draft {
        name: name.into(),
        accounts: accounts.iter().map(|account| account.account_id).collect(),
        audience: None,
        variants: vec![("a".into(), 1, Message::text(text))],
        policy: Policy::default(),
        key: name.into(),
    };
    let campaign = life::create(&w.store, w.ws, draft("пусто", "Привет")).await.unwrap();
    let nobody = life::start(&w.store, &campaign, None).await.unwrap_err().to_string();
    assert!(nobody.contains("nobody to write to"), "{nobody}");
    w.store.pause_account(w.ws, accounts[0].account_id, "ремонт").await.unwrap();
    let paused = life::start(&w.store, &campaign, None).await.unwrap_err().to_string();
    assert!(paused.contains("is paused (ремонт)") && paused.contains("rupor account resume"), "{paused}");
    let broken = life::create(&w.store, w.ws, draft("сломано", "{{ r.name")).await.unwrap_err().to_string();
    assert!(broken.contains("cannot be filled in"), "{broken}");
    let twice = life::create(&w.store, w.ws, draft("пусто", "Привет")).await.unwrap_err().to_string();
    assert!(twice.contains("already exists"), "{twice}");
    let status = life::by_name(&w.store, w.ws, "пусто").await.unwrap().status;
    assert_eq!(status, CampaignStatus::Draft);
}

#[tokio::test]
async fn the_chosen_variant_is_said_to_everybody_who_has_not_got_it() {
    let w = World::new(&[(60, "")]).await;
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let draft = Draft {
        name: "осень".into(),
        accounts: accounts.iter().map(|account| account.account_id).collect(),
        audience: None,
        variants: vec![
            ("a".into(), 1, Message::text("Привет")),
            ("b".into(), 1, Message::text("Добрый день")),
        ],
        policy: Policy::default(),
        key: "семя".into(),
    };
    let campaign = life::create(&w.store, w.ws, draft).await.unwrap();
    let known = w
        .store
        .people_in_order(w.ws, campaign.accounts.clone(), None, store::Person::default(), 100)
        .await
        .unwrap();
    let somebody = known.people[0].0.recipient_id;
    let tried =
        life::try_out(&w.store, &campaign, campaign.accounts[0], vec![somebody], "проба").await.unwrap();
    assert_eq!(tried.len(), 2, "one of each variant");
    assert_eq!(w.end_all(&sent()).await, 2);
    life::start(&w.store, &campaign, None).await.unwrap();
    w.go().await;
    assert_eq!(w.counts().await.total, 60, "who tried it out gets it all the same");
    let refused = life::choose(&w.store, &w.campaign().await, "b").await.unwrap_err().to_string();
    assert!(refused.contains("campaign pause"), "{refused}");
    life::pause(&w.store, &w.campaign().await, "").await.unwrap();
    let unknown = life::choose(&w.store, &w.campaign().await, "c").await.unwrap_err().to_string();
    assert!(unknown.contains("known are a, b"), "{unknown}");
    life::choose(&w.store, &w.campaign().await, "b").await.unwrap();
    life::resume(&w.store, &w.campaign().await).await.unwrap();
    w.go().await;
    let chosen = campaign.variants[1].message_id;
    let claims = w.claim().await;
    let of_campaign = claims.iter().filter(|claim| claim.message_id == chosen).count();
    assert!(of_campaign > 50, "{of_campaign} of {}", claims.len());
    assert!(claims.iter().all(|claim| claim.message_id != campaign.variants[0].message_id));
    w.check().await;
}

#[tokio::test]
async fn a_ramp_a_rate_and_urgency_reach_the_queue() {
    let w = World::new(&[(600, "")]).await;
    let ramp = json!([{"for": "10m", "rate": 2.0}]);
    w.start(json!({"urgent": true, "rate": 10.0, "ramp": ramp})).await;
    let within_ten_seconds = async || {
        let mut n = 0;
        for _ in 0..100 {
            w.clock.advance(Span::from_millis(100));
            n += w.end_all(&sent()).await;
        }
        n
    };
    assert_eq!(within_ten_seconds().await, 20, "two a second at first");
    w.clock.advance(Span::from_secs(600));
    w.go().await;
    assert_eq!(within_ten_seconds().await, 100, "then ten");
    w.clock.advance(Span::from_secs(1));
    let claim = w.claim().await.remove(0);
    let delivery = w.store.delivery(w.ws, claim.delivery_id).await.unwrap();
    assert_eq!(
        delivery.priority,
        domain::delivery::Priority::Urgent,
        "before ordinary posts of the same bot"
    );
    w.check().await;
}
