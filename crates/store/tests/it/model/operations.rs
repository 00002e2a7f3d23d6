//! What a random sequence is made of.

use domain::outcome::{Category, Scope};
use proptest::prelude::*;
use store::RecipientStatus;

#[derive(Debug, Clone)]
pub(super) enum Operation {
    /// Text from a small pool, so that repeats happen; the channels as a bit set.
    Enqueue {
        text: u8,
        origin: u8,
        channels: u8,
        bulk: bool,
    },
    /// The same text for people, in the lane of the campaign or each in their own dialogue; people as a bit set.
    Tell {
        text: u8,
        people: u8,
        dialogue: bool,
        bulk: bool,
    },
    /// Somebody comes back, stops or leaves.
    Person {
        person: u8,
        status: RecipientStatus,
    },
    Claim {
        limit: usize,
    },
    Finish {
        claim: u8,
        kind: Kind,
        chance: u32,
    },
    /// What earlier claims may have sent was looked for and is not there.
    Absent {
        claim: u8,
    },
    Requested {
        claim: u8,
    },
    Part {
        claim: u8,
        part: u8,
    },
    Renew {
        claim: u8,
    },
    Advance {
        ms: i64,
    },
    Recover,
    Cancel {
        delivery: u8,
    },
    Requeue {
        delivery: u8,
    },
    PauseChannel {
        channel: u8,
        ms: i64,
    },
    ResumeChannel {
        channel: u8,
    },
    DisableChannel {
        channel: u8,
    },
    PauseAccount {
        account: u8,
    },
    ResumeAccount {
        account: u8,
    },
    Hold {
        held: bool,
    },
    Reserve {
        account: u8,
        n: u32,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Sent,
    Release,
    Fail(Category, Scope, Option<i64>),
    Unknown(Scope),
    /// Whoever it was for blocked us.
    Gone,
    NotReady,
    RetryAt(i64),
}

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let claim = || any::<u8>();
    prop_oneof![
        6 => (0..6_u8, 0..20_u8, 0..16_u8, any::<bool>())
            .prop_map(|(text, origin, channels, bulk)| Enqueue { text, origin, channels, bulk }),
        4 => (0..6_u8, 1..8_u8, any::<bool>(), any::<bool>())
            .prop_map(|(text, people, dialogue, bulk)| Tell { text, people, dialogue, bulk }),
        1 => (any::<u8>(), status()).prop_map(|(person, status)| Person { person, status }),
        8 => (1..8_usize).prop_map(|limit| Claim { limit }),
        10 => (claim(), kind(), 0..1_000_000_u32).prop_map(|(claim, kind, chance)| Finish { claim, kind, chance }),
        1 => claim().prop_map(|claim| Absent { claim }),
        3 => claim().prop_map(|claim| Requested { claim }),
        2 => (claim(), 0..4_u8).prop_map(|(claim, part)| Part { claim, part }),
        1 => claim().prop_map(|claim| Renew { claim }),
        6 => prop_oneof![1..500_i64, Just(3_000), Just(61_000), Just(700_000)].prop_map(|ms| Advance { ms }),
        2 => Just(Recover),
        1 => any::<u8>().prop_map(|delivery| Cancel { delivery }),
        2 => any::<u8>().prop_map(|delivery| Requeue { delivery }),
        1 => (any::<u8>(), 1..100_000_i64).prop_map(|(channel, ms)| PauseChannel { channel, ms }),
        2 => any::<u8>().prop_map(|channel| ResumeChannel { channel }),
        1 => any::<u8>().prop_map(|channel| DisableChannel { channel }),
        1 => any::<u8>().prop_map(|account| PauseAccount { account }),
        2 => any::<u8>().prop_map(|account| ResumeAccount { account }),
        1 => any::<bool>().prop_map(|held| Hold { held }),
        1 => (any::<u8>(), 1..4_u32).prop_map(|(account, n)| Reserve { account, n }),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    let scope = || prop_oneof![Just(Scope::Delivery), Just(Scope::Channel), Just(Scope::Platform)];
    let category = prop_oneof![3 => Just(Category::Transient), 1 => Just(Category::Permanent)];
    let wait = prop_oneof![Just(None), (0..20_000_i64).prop_map(Some)];
    prop_oneof![
        6 => Just(Kind::Sent),
        1 => Just(Kind::Release),
        5 => (category, scope(), wait).prop_map(|(category, scope, wait)| Kind::Fail(category, scope, wait)),
        2 => scope().prop_map(Kind::Unknown),
        1 => Just(Kind::Gone),
        1 => Just(Kind::NotReady),
        1 => (0..60_000_i64).prop_map(Kind::RetryAt),
    ]
}

fn status() -> impl Strategy<Value = RecipientStatus> {
    prop_oneof![
        3 => Just(RecipientStatus::Active),
        1 => Just(RecipientStatus::Stopped),
        1 => Just(RecipientStatus::Gone)
    ]
}
