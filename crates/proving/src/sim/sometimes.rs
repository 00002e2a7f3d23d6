//! "Sometimes": things that must happen now and then, or a run of many seeds proves nothing.
//!
//! A counter per kind of trouble and per rare good ending. A long run in which one of them stayed at zero is invalid,
//! however green the checker is.

use std::collections::BTreeMap;

/// The closed list.
pub(crate) const ALL: [&str; 70] = [
    "node: died before a ledger call",
    "node: died after a ledger call, the answer lost",
    "node: died before a request left",
    "node: died while a request was out, accepted",
    "node: died while a request was out, not accepted",
    "node: died after the answer",
    "node: stood still past its lease",
    "node: stopped in order and drained",
    "node: one of several on one ledger",
    "ledger: busy",
    "ledger: commit unknown, committed",
    "ledger: commit unknown, not committed",
    "ledger: slow",
    "ledger: unreachable",
    "ledger: clock jumped forward",
    "ledger: clock jumped back",
    "platform: accepted, answer lost",
    "platform: request lost",
    "platform: server error, accepted",
    "platform: server error, not accepted",
    "platform: connection refused",
    "platform: hung until the deadline",
    "platform: flood",
    "platform: flood longer than the lease",
    "platform: refused a delivery for good",
    "platform: refused a channel for good",
    "platform: refused an account for good",
    "platform: attachment not ready",
    "platform: outage seen by a probe",
    "platform: a repeated key showed the earlier post",
    "platform: reconcile found the post",
    "platform: reconcile found nothing",
    "client: retried an unknown enqueue, it was stored",
    "client: retried an unknown enqueue, it was not stored",
    "client: a wrong call was refused",
    "client: a repeat was deduped",
    "operator: kill switch pressed with work waiting",
    "operator: cancelled a delivery",
    "operator: requeued a delivery",
    "operator: removed a channel with a queue",
    "delivery: late success adopted",
    "delivery: lease lost while sending",
    "delivery: handed back unsent",
    "delivery: a later claim sent only the missing parts",
    "delivery: shown twice after an unknown outcome",
    "delivery: dead as poison",
    "delivery: flood of a second chat cooled the account",
    "people: somebody was reached by a campaign",
    "people: somebody was answered in a dialogue",
    "people: somebody blocked us",
    "people: somebody who was gone came back",
    "people: nothing was said to who is gone",
    "people: a delivery ended because its person is gone",
    "people: a chat that flooded was written to after its wait",
    "campaign: finished, everybody accounted for",
    "campaign: paused with people on the way",
    "campaign: other words for those who have not got it",
    "campaign: cancelled on the way",
    "campaign: taken back when a window closed",
    "campaign: a later wave reached somebody",
    "campaign: a wave for one code",
    "campaign: the part of one bot rested",
    "campaign: somebody stopped between two tries",
    "campaign: somebody on several bots got it from one",
    "post: changed before it was said",
    "post: new words took the place of the old",
    "post: new words for a post of several parts",
    "post: the end of a story was answered",
    "post: vanished before it was said",
    "post: what vanished was taken back",
];

#[derive(Debug, Clone, Default)]
pub(crate) struct Sometimes(BTreeMap<&'static str, u64>);

impl Sometimes {
    pub(crate) fn count(&mut self, what: &'static str) {
        debug_assert!(ALL.contains(&what), "not on the list: {what}");
        *self.0.entry(what).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Sometimes) {
        for (what, n) in &other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    /// Every one of the list with its count, in the order of the list.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        ALL.iter().map(|what| (*what, self.0.get(what).copied().unwrap_or(0)))
    }

    pub(crate) fn never(&self) -> Vec<&'static str> {
        self.counts().filter(|(_, n)| *n == 0).map(|(what, _)| what).collect()
    }
}
