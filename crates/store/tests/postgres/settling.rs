//! The rules of `domain::settle`, said once in Rust and once in SQL, on cases drawn at random.

use domain::delivery::{AmbiguityPolicy, Counters};
use domain::destination::Destination;
use domain::ids::{ChannelId, RecipientId};
use domain::limits::*;
use domain::outcome::{CODE_NOT_READY, Category, Failure, Outcome, Scope, Sent};
use domain::retry::Chance;
use domain::settle::{AccountEffect, DestinationEffect, Ending, LaneEffect, Settlement, Standing, settle};
use domain::time::{Span, Timestamp};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::world::*;

const CASES: usize = 3_000;
const NOW: Timestamp = START;

type Case = (Standing, Ending, u32);

fn case() -> impl Strategy<Value = Case> {
    (standing(), ending(), 0..1_000_000_u32)
}

fn standing() -> impl Strategy<Value = Standing> {
    let policies = prop_oneof![
        Just(AmbiguityPolicy::Resend),
        Just(AmbiguityPolicy::ResendOnce),
        Just(AmbiguityPolicy::Hold),
        Just(AmbiguityPolicy::Reconcile)
    ];
    let at = |hours: std::ops::Range<i64>| hours.prop_map(|hours| NOW + Span::from_hours(hours));
    // Channels and recipients with the same numbers: they must not be taken for each other.
    let destination = || {
        (1..3_i64, any::<bool>()).prop_map(|(id, person)| match person {
            true => Destination::Recipient(RecipientId(id)),
            false => Destination::Channel(ChannelId(id)),
        })
    };
    let counters = (
        0..ATTEMPTS_MAX,
        0..FLOOD_WAITS_MAX,
        0..=NOT_READY_WAITS_MAX,
        0..3,
        0..LOST_CLAIMS_MAX,
        (0..LOST_REQUESTS_MAX, any::<bool>()),
        proptest::option::of(at(-25..1)),
    );
    let around = (destination(), 0..4, proptest::option::of((destination(), at(-1..2))), 0..8);
    (counters, policies, around).prop_map(
        |(c, policy, (destination, error_streak, flood, trouble_streak))| Standing {
            counters: Counters {
                attempt: 100,
                charged: c.0,
                flood_waits: c.1,
                not_ready_waits: c.2,
                unknowns: c.3 + c.5.0,
                lost_claims: c.4,
                lost_requests: c.5.0,
                flood_since: c.6,
            },
            policy,
            destination,
            error_streak,
            flood,
            trouble_streak,
            absent: c.5.1,
        },
    )
}

fn ending() -> impl Strategy<Value = Ending> {
    let category = prop_oneof![3 => Just(Category::Transient), 1 => Just(Category::Permanent)];
    let scope = prop_oneof![Just(Scope::Delivery), Just(Scope::Channel), Just(Scope::Platform)];
    let code = prop_oneof![Just("503"), Just(CODE_NOT_READY)];
    let wait = prop_oneof![
        Just(None),
        (-5..700_000_i64).prop_map(Some),
        Just(Some(90_000_000)),
        Just(Some(i64::MAX / 2_000))
    ];
    let failed = (category, scope, code, wait, any::<(bool, bool)>()).prop_map(
        |(category, scope, code, wait, (unknown, gone))| {
            let mut failure = Failure::new(category, scope, code, "сбой");
            failure.retry_after_ms = wait;
            failure.recipient_gone = gone;
            let failure = if unknown { failure.unknown() } else { failure };
            Ending::Outcome(Outcome::Failed(failure))
        },
    );
    prop_oneof![
        10 => failed,
        1 => Just(Ending::Outcome(Outcome::Sent(Sent { provider_message_id: None, raw: Value::Null }))),
        2 => Just(Ending::LeaseExpired { requested: true }),
        1 => Just(Ending::LeaseExpired { requested: false }),
        1 => Just(Ending::Released),
    ]
}

/// A settlement as one JSON object, the same from both sides.
fn as_json(settlement: &Settlement, error_streak: i32) -> Value {
    let c = &settlement.counters;
    let lane_until = match settlement.lane {
        LaneEffect::None => None,
        LaneEffect::PauseUntil(until) => Some(until),
    };
    let (destination, until, streak, disable) = match settlement.destination {
        DestinationEffect::None => ("none", None, error_streak, false),
        DestinationEffect::Healthy => ("healthy", None, error_streak, false),
        DestinationEffect::PauseUntil(until) => ("pause", Some(until), error_streak, false),
        DestinationEffect::Strike { error_streak, disable } => ("strike", None, error_streak, disable),
        DestinationEffect::Gone => ("gone", None, error_streak, false),
    };
    let (account, account_until) = match settlement.account {
        AccountEffect::None => ("none", None),
        AccountEffect::Healthy => ("healthy", None),
        AccountEffect::RememberFlood(_, until) => ("flood", Some(until)),
        AccountEffect::CooldownUntil(until) => ("cooldown", Some(until)),
        AccountEffect::Pause => ("pause", None),
    };
    json!({
        "status": settlement.status.as_str(),
        "reason": settlement.reason.map(|reason| reason.as_str()),
        "charged": c.charged, "flood_waits": c.flood_waits, "not_ready_waits": c.not_ready_waits,
        "unknowns": c.unknowns, "lost_claims": c.lost_claims, "lost_requests": c.lost_requests,
        "flood_since": c.flood_since,
        "run_at": settlement.run_at,
        "lane_until": lane_until, "destination_effect": destination, "destination_until": until,
        "error_streak": streak, "disable": disable,
        "account_effect": account, "account_until": account_until,
    })
}

fn asked((standing, ending, chance): &Case) -> Value {
    let c = &standing.counters;
    let (word, failure) = match ending {
        Ending::Outcome(Outcome::Sent(_)) => ("sent", Value::Null),
        Ending::Outcome(Outcome::Failed(failure)) => ("failed", json!(failure)),
        Ending::LeaseExpired { requested: true } => ("unknown", Value::Null),
        Ending::LeaseExpired { requested: false } => ("lost", Value::Null),
        Ending::Released => ("released", Value::Null),
    };
    json!({
        "attempt": c.attempt,
        "charged": c.charged, "flood_waits": c.flood_waits, "not_ready_waits": c.not_ready_waits,
        "unknowns": c.unknowns, "lost_claims": c.lost_claims, "lost_requests": c.lost_requests,
        "flood_since": c.flood_since, "absent": standing.absent,
        "policy": standing.policy.as_str(), "error_streak": standing.error_streak,
        "channel": standing.destination.channel(), "recipient": standing.destination.recipient(),
        "flood_channel": standing.flood.and_then(|(chat, _)| chat.channel()),
        "flood_recipient": standing.flood.and_then(|(chat, _)| chat.recipient()),
        "flood_until": standing.flood.map_or(Timestamp(0), |(_, until)| until),
        "trouble_streak": standing.trouble_streak, "ending": word, "failure": failure, "chance": chance,
    })
}

const SETTLE: &str = "
SELECT to_jsonb(s) - 'attempt' - 'absent' || jsonb_build_object(
           'flood_since', rupor_micros(s.flood_since), 'run_at', rupor_micros(s.run_at),
           'lane_until', rupor_micros(s.lane_until), 'destination_until', rupor_micros(s.destination_until),
           'account_until', rupor_micros(s.account_until))
  FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS i (c, n)
 CROSS JOIN LATERAL rupor_settle(
           ROW(NULL, NULL, c -> 'charged', c -> 'flood_waits', c -> 'not_ready_waits', c -> 'unknowns', c -> 'lost_claims',
               c -> 'lost_requests', rupor_time(c -> 'flood_since'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c -> 'attempt',
               (c ->> 'absent')::boolean)::rupor_settlement,
           c ->> 'policy', (c ->> 'channel')::bigint, (c ->> 'recipient')::bigint, (c ->> 'error_streak')::integer,
           (c ->> 'flood_channel')::bigint, (c ->> 'flood_recipient')::bigint, rupor_time(c -> 'flood_until'), (c ->> 'trouble_streak')::integer, c ->> 'ending',
           CASE WHEN c -> 'failure' <> 'null' THEN rupor_failure(c -> 'failure', NULL) END,
           rupor_time(to_jsonb($2::bigint)), (c ->> 'chance')::integer) AS s
 ORDER BY n";

#[tokio::test]
async fn sql_and_rust_settle_alike() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = case();
    let cases: Vec<Case> = (0..CASES).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    let scratch = Scratch::create().await;
    let questions = Value::Array(cases.iter().map(asked).collect());
    let rows = connect(&scratch.url()).await.query(SETTLE, &[&questions, &NOW.0]).await.unwrap();
    assert_eq!(rows.len(), CASES);
    for (case, row) in cases.iter().zip(rows) {
        let (standing, ending, chance) = case;
        let rust = as_json(&settle(standing, ending, NOW, Chance::new(*chance)), standing.error_streak);
        assert_eq!(row.get::<_, Value>(0), rust, "{case:#?}");
    }
    scratch.drop_database().await;
}
