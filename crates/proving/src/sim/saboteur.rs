//! Saboteurs: known bugs that the checker has to catch. Test-only: each is done by the simulator's own ports around the
//! real dispatcher and the real store, so that no line of the product knows of them.

use std::time::Duration;

use super::options::{ClientTrouble, LedgerTrouble, NodeTrouble, Options, PlatformTrouble};

/// One planted bug; numbers are those of the list in docs/simulation.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Saboteur {
    /// A stale worker's outcome ends the claim of whoever holds the delivery now.
    OutcomeUnfenced,
    /// The client hears ok before the commit, and also when there was none.
    AckBeforeCommit,
    /// A claim handed back unsent is charged like a failed attempt.
    ReleaseCharged,
    /// A cut or a timeout counts as not sent.
    TimeoutIsNotSent,
    /// The transport tries once more on its own.
    SecondRetryLayer,
    /// Leases end by the clock of a node that is ahead.
    LeaseFromNodeClock,
    /// The wait that a flood asks for is thrown away.
    RetryAfterIgnored,
    /// Slots are kept per process.
    SlotsInMemory,
    /// Message and first delivery in one transaction, the rest in another.
    FanOutInTwo,
    /// A busy ledger is taken for success.
    BusySwallowed,
    /// The reaper takes back claims that are still alive.
    ReaperUnfenced,
    /// Neither claim nor send gate looks at the kill switch.
    KillSwitchIgnored,
    /// A request leaves before its mark is written.
    MarkSkipped,
    /// `hold` is treated as `resend_once`.
    HoldNotHeld,
    /// Parts that are visible are not written down.
    PartsForgotten,
    /// Several deliveries of an ordered lane at once.
    OrderDropped,
    /// A retried enqueue gets a new key.
    KeyRenewed,
    /// A cut or a timeout counts as sent.
    TimeoutIsSent,
    /// New words for a post are published as another post.
    EditIsPost,
    /// What vanished is not taken back, though it counts as done.
    DeleteForgotten,
    /// Who blocked us is written to again.
    GoneRetried,
    /// Who is gone is approached as if they were there.
    GoneApproached,
    /// A flood of one chat cools the whole account.
    ChatFloodStopsAccount,
    /// Another lane writes to somebody whose chat asked for a pause.
    ChatPauseForgotten,
    /// Every place of an account may be taken by retries.
    RetryRoomIgnored,
    /// The cursor of a campaign passes somebody who still waits.
    CursorWithoutState,
    /// Who stopped since the freeze is fed all the same.
    FeedWithoutRecheck,
    /// A recall takes back what was claimed before.
    RecallOfClaimed,
    /// Other words are another delivery, also for who has got the first ones.
    KeyWithRevision,
    /// A campaign is finished when nobody waits, whoever is on the way.
    FinishByWaiting,
    /// The mark before a send asks neither the lane nor the person.
    GateNotAsked,
}

impl Saboteur {
    pub(crate) const ALL: [Saboteur; 31] = [
        Saboteur::OutcomeUnfenced,
        Saboteur::AckBeforeCommit,
        Saboteur::ReleaseCharged,
        Saboteur::TimeoutIsNotSent,
        Saboteur::SecondRetryLayer,
        Saboteur::LeaseFromNodeClock,
        Saboteur::RetryAfterIgnored,
        Saboteur::SlotsInMemory,
        Saboteur::FanOutInTwo,
        Saboteur::BusySwallowed,
        Saboteur::ReaperUnfenced,
        Saboteur::KillSwitchIgnored,
        Saboteur::MarkSkipped,
        Saboteur::HoldNotHeld,
        Saboteur::PartsForgotten,
        Saboteur::OrderDropped,
        Saboteur::KeyRenewed,
        Saboteur::TimeoutIsSent,
        Saboteur::EditIsPost,
        Saboteur::DeleteForgotten,
        Saboteur::GoneRetried,
        Saboteur::GoneApproached,
        Saboteur::ChatFloodStopsAccount,
        Saboteur::ChatPauseForgotten,
        Saboteur::RetryRoomIgnored,
        Saboteur::CursorWithoutState,
        Saboteur::FeedWithoutRecheck,
        Saboteur::RecallOfClaimed,
        Saboteur::KeyWithRevision,
        Saboteur::FinishByWaiting,
        Saboteur::GateNotAsked,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Saboteur::OutcomeUnfenced => "outcome unfenced",
            Saboteur::AckBeforeCommit => "ack before commit",
            Saboteur::ReleaseCharged => "release charged",
            Saboteur::TimeoutIsNotSent => "timeout is not sent",
            Saboteur::SecondRetryLayer => "second retry layer",
            Saboteur::LeaseFromNodeClock => "lease from node clock",
            Saboteur::RetryAfterIgnored => "retry_after ignored",
            Saboteur::SlotsInMemory => "slots in memory",
            Saboteur::FanOutInTwo => "fan-out in two transactions",
            Saboteur::BusySwallowed => "busy swallowed as success",
            Saboteur::ReaperUnfenced => "reaper unfenced",
            Saboteur::KillSwitchIgnored => "kill switch ignored",
            Saboteur::MarkSkipped => "mark not written before the send",
            Saboteur::HoldNotHeld => "hold not held",
            Saboteur::PartsForgotten => "parts forgotten",
            Saboteur::OrderDropped => "order dropped",
            Saboteur::KeyRenewed => "key renewed on retry",
            Saboteur::TimeoutIsSent => "timeout is sent",
            Saboteur::EditIsPost => "edit is another post",
            Saboteur::DeleteForgotten => "delete forgotten",
            Saboteur::GoneRetried => "gone recipient retried",
            Saboteur::GoneApproached => "gone recipient approached",
            Saboteur::ChatFloodStopsAccount => "chat flood stops the account",
            Saboteur::ChatPauseForgotten => "pause of a chat forgotten",
            Saboteur::RetryRoomIgnored => "retry room ignored",
            Saboteur::CursorWithoutState => "cursor without state",
            Saboteur::FeedWithoutRecheck => "feed without recheck",
            Saboteur::RecallOfClaimed => "recall of a claimed row",
            Saboteur::KeyWithRevision => "unique key with revision",
            Saboteur::FinishByWaiting => "finish by waiting = 0",
            Saboteur::GateNotAsked => "gate not asked",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Saboteur> {
        Saboteur::ALL.into_iter().find(|saboteur| saboteur.name() == name)
    }

    /// Turns on the trouble in which a bug shows. It may turn off nothing that would hide a false alarm.
    pub(crate) fn prepare(self, options: &mut Options) {
        options.nodes = options.nodes.max(2);
        options.poison = false;
        match self {
            // The stale worker has to wake while its successor is out.
            Saboteur::OutcomeUnfenced => {
                options.lease = Duration::from_secs(12);
                options.messages = 40;
                options.node.pause = 60_000;
                options.platform.hang = 400_000;
                options.ledger = LedgerTrouble::default();
            }
            Saboteur::AckBeforeCommit | Saboteur::FanOutInTwo => {
                options.client.busy = options.client.busy.max(100_000);
            }
            Saboteur::KeyRenewed => {
                options.client.commit_unknown = options.client.commit_unknown.max(100_000);
            }
            Saboteur::ReleaseCharged => options.node.stop_every = Some(Duration::from_secs(15)),
            Saboteur::TimeoutIsNotSent
            | Saboteur::TimeoutIsSent
            | Saboteur::SecondRetryLayer
            | Saboteur::HoldNotHeld => {
                options.platform.lost_answer = options.platform.lost_answer.max(100_000);
            }
            Saboteur::RetryAfterIgnored => options.platform.flood = options.platform.flood.max(50_000),
            Saboteur::BusySwallowed => options.ledger.busy = options.ledger.busy.max(50_000),
            Saboteur::KillSwitchIgnored => {
                options.client.hold = Some((options.chaos / 3, Duration::from_secs(30)));
                options.messages = options.messages.max(30);
            }
            Saboteur::PartsForgotten => options.platform.flood = options.platform.flood.max(50_000),
            // A lease that ends too early is only told from a crash where nothing crashes.
            Saboteur::LeaseFromNodeClock => {
                options.node = NodeTrouble::default();
                options.ledger = LedgerTrouble::default();
                options.platform.hang = options.platform.hang.max(50_000);
            }
            Saboteur::SlotsInMemory => {
                options.platform = PlatformTrouble {
                    latency_max: options.platform.latency_max,
                    ..PlatformTrouble::default()
                };
                options.client = ClientTrouble::default();
            }
            Saboteur::EditIsPost | Saboteur::DeleteForgotten => {
                options.client.from_walls = 900_000;
                options.messages = options.messages.max(20);
            }
            Saboteur::GoneRetried | Saboteur::GoneApproached => {
                options.people = 3;
                options.mailings = 12;
                options.platform.blocked = 300_000;
            }
            Saboteur::ChatFloodStopsAccount => {
                options.platform.flood = options.platform.flood.max(50_000);
            }
            Saboteur::ChatPauseForgotten => {
                options.people = 2;
                options.mailings = 12;
                options.platform.flood = 300_000;
                options.platform.flood_max = Duration::from_secs(60);
            }
            Saboteur::RetryRoomIgnored => {
                options.people = 4;
                options.mailings = 12;
                options.platform.refused_connection = 0;
                options.platform.lost_request = 300_000;
            }
            Saboteur::CursorWithoutState
            | Saboteur::FeedWithoutRecheck
            | Saboteur::RecallOfClaimed
            | Saboteur::KeyWithRevision
            | Saboteur::FinishByWaiting
            | Saboteur::GateNotAsked => {
                options.campaigns = 2;
                options.subscribers = 12;
                options.platform.lost_request = options.platform.lost_request.max(50_000);
            }
            Saboteur::ReaperUnfenced | Saboteur::MarkSkipped | Saboteur::OrderDropped => {}
        }
    }
}
