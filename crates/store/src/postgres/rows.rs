//! Rows into values: the column lists and how to read them, in one place.

use bytes::BytesMut;
use domain::chat::{ChatKind, Overflow};
use domain::delivery::{Action, AmbiguityPolicy, Counters, Priority, Status};
use domain::destination::Destination;
use domain::ids::{
    AccountId, CampaignId, ChannelId, ClaimToken, DeliveryId, EndpointId, LaneId, MessageId, WorkspaceId,
};
use domain::time::{Span, Timestamp};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::config::*;
use crate::error::{Result, StoreError};
use crate::queue::*;

/// A timestamptz. PostgreSQL counts from 2000 and has an infinity of its own; we count from 1970 and say never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub Timestamp);

/// Microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_SHIFT: i64 = 946_684_800_000_000;

impl<'a> FromSql<'a> for Time {
    fn from_sql(
        ty: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Time, Box<dyn std::error::Error + Sync + Send>> {
        let at = match i64::from_sql(ty, raw)? {
            i64::MAX => Timestamp::NEVER,
            i64::MIN => Timestamp(i64::MIN),
            micros => Timestamp(micros.saturating_add(EPOCH_SHIFT)),
        };
        Ok(Time(at))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

impl ToSql for Time {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let micros = match self.0 {
            Timestamp::NEVER => i64::MAX,
            Timestamp(micros) => micros.saturating_sub(EPOCH_SHIFT),
        };
        micros.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

macro_rules! delivery_columns {
    () => {
        "delivery_id, workspace_id, lane_id, account_id, channel_id, recipient_id, message_id, revision, action, \
         generation, parent_delivery, priority, status, reason, claim_seq, attempt, charged, flood_waits, \
         not_ready_waits, unknowns, lost_claims, lost_requests, flood_since, run_at, lease_until, slot_at, parts, \
         provider_message_id, last_error, queued_at, sending_at, sent_at, ended_at"
    };
}
pub(super) use delivery_columns;

pub(super) fn delivery(row: &Row) -> Result<Delivery> {
    Ok(Delivery {
        delivery_id: DeliveryId(row.get(0)),
        workspace_id: WorkspaceId(row.get(1)),
        lane_id: LaneId(row.get(2)),
        account_id: AccountId(row.get(3)),
        destination: destination(row, 4)?,
        message_id: MessageId(row.get(6)),
        revision: row.get(7),
        action: word(row, 8, Action::parse)?,
        generation: row.get(9),
        parent_delivery: row.get::<_, Option<i64>>(10).map(DeliveryId),
        priority: priority(row.get(11)),
        status: word(row, 12, Status::parse)?,
        reason: row.get(13),
        claim_seq: row.get(14),
        counters: counters(row, 15),
        run_at: time(row, 23),
        lease_until: time(row, 24),
        slot_at: time(row, 25),
        parts: parts(&row.get(26)),
        provider_message_id: row.get(27),
        last_error: row.get(28),
        queued_at: at(row, 29),
        sending_at: time(row, 30),
        sent_at: time(row, 31),
        ended_at: time(row, 32),
    })
}

/// Eight columns, from `attempt` to `flood_since`.
pub(super) fn counters(row: &Row, first: usize) -> Counters {
    Counters {
        attempt: row.get(first),
        charged: row.get(first + 1),
        flood_waits: row.get(first + 2),
        not_ready_waits: row.get(first + 3),
        unknowns: row.get(first + 4),
        lost_claims: row.get(first + 5),
        lost_requests: row.get(first + 6),
        flood_since: time(row, first + 7),
    }
}

macro_rules! endpoint_columns {
    () => {
        "endpoint_id, workspace_id, name, kind, enabled, settings"
    };
}
pub(super) use endpoint_columns;

pub(super) fn endpoint(row: &Row) -> Endpoint {
    Endpoint {
        endpoint_id: EndpointId(row.get(0)),
        workspace_id: WorkspaceId(row.get(1)),
        name: row.get(2),
        kind: row.get(3),
        enabled: row.get(4),
        settings: row.get(5),
    }
}

macro_rules! account_columns {
    () => {
        "a.account_id, a.workspace_id, a.platform, a.name, a.fingerprint, a.kind, a.tier, a.rate, a.burst, \
         a.max_parallel, a.retry_parallel, a.api_base, a.proxy, a.extra_roots, a.settings, a.paused, a.paused_why, \
         a.paused_at, g.cooldown_until, a.addresses_sealed"
    };
}
pub(super) use account_columns;

pub(super) fn account(row: &Row) -> Account {
    Account {
        account_id: AccountId(row.get(0)),
        workspace_id: WorkspaceId(row.get(1)),
        platform: row.get(2),
        name: row.get(3),
        fingerprint: row.get(4),
        settings: AccountSettings {
            kind: row.get(5),
            tier: row.get(6),
            rate: row.get(7),
            burst: row.get(8),
            max_parallel: row.get(9),
            retry_parallel: row.get(10),
            api_base: row.get::<_, Option<String>>(11).map(Into::into),
            proxy: row.get::<_, Option<String>>(12).map(Into::into),
            extra_roots: row.get(13),
            settings: row.get(14),
        },
        paused: row.get(15),
        paused_why: row.get(16),
        paused_at: time(row, 17),
        cooldown_until: at(row, 18),
    }
}

macro_rules! channel_columns {
    () => {
        "channel_id, workspace_id, account_id, platform, name, target, chat_kind, rate, max_parallel, ambiguity, dedup, \
         dedup_ttl_us, max_age_us, template, parse_mode, body_max, overflow, max_media, route, quiet_hours, time_zone, \
         settings, enabled, disabled_by, paused_until, paused_why, error_streak, target_since, \
         (SELECT a.tier FROM accounts AS a WHERE a.account_id = channels.account_id)"
    };
}
pub(super) use channel_columns;

pub(super) fn channel(row: &Row) -> Result<Channel> {
    Ok(Channel {
        channel_id: ChannelId(row.get(0)),
        workspace_id: WorkspaceId(row.get(1)),
        account_id: AccountId(row.get(2)),
        platform: row.get(3),
        name: row.get(4),
        target: row.get(5),
        settings: ChannelSettings {
            chat_kind: word(row, 6, ChatKind::parse)?,
            rate: row.get(7),
            max_parallel: row.get(8),
            ambiguity: word(row, 9, AmbiguityPolicy::parse)?,
            dedup: word(row, 10, DedupMode::parse)?,
            dedup_ttl: Span(row.get(11)),
            max_age: row.get::<_, Option<i64>>(12).map(Span),
            template: row.get(13),
            parse_mode: row.get(14),
            body_max: row.get(15),
            overflow: word(row, 16, Overflow::parse)?,
            max_media: row.get(17),
            route: row.get(18),
            quiet_hours: row.get(19),
            time_zone: row.get(20),
            settings: row.get(21),
        },
        enabled: row.get(22),
        disabled_by: row.get::<_, Option<&str>>(23).and_then(DisabledBy::parse),
        paused_until: at(row, 24),
        paused_why: row.get(25),
        error_streak: row.get(26),
        target_since: at(row, 27),
        tier: row.get(28),
    })
}

macro_rules! lane_columns {
    () => {
        "lane_id, account_id, channel_id, campaign_id, next_at, n_queued, n_retry, n_sending, n_sent, n_deduped, \
         n_failed, n_dead, n_requeued"
    };
}
pub(super) use lane_columns;

pub(super) fn lane(row: &Row) -> Lane {
    let next_at = at(row, 4);
    Lane {
        lane_id: LaneId(row.get(0)),
        account_id: AccountId(row.get(1)),
        channel_id: row.get::<_, Option<i64>>(2).map(ChannelId),
        campaign_id: row.get::<_, Option<i64>>(3).map(CampaignId),
        next_at: (next_at != Timestamp::NEVER).then_some(next_at),
        counts: Counts {
            queued: row.get(5),
            retry: row.get(6),
            sending: row.get(7),
            sent: row.get(8),
            deduped: row.get(9),
            failed_permanent: row.get(10),
            dead: row.get(11),
            requeued: row.get(12),
        },
    }
}

macro_rules! attempt_columns {
    () => {
        "attempt, claim_seq, run_id, started_at, requested_at, finished_at, outcome, error, provider_message_id"
    };
}
pub(super) use attempt_columns;

pub(super) fn attempt(row: &Row) -> Attempt {
    Attempt {
        attempt: row.get(0),
        claim_seq: row.get(1),
        run_id: row.get(2),
        started_at: at(row, 3),
        requested_at: time(row, 4),
        finished_at: at(row, 5),
        outcome: row.get(6),
        error: row.get(7),
        provider_message_id: row.get(8),
    }
}

macro_rules! event_columns {
    () => {
        "event_id, at, name, message_id, delivery_id, account_id, detail, channel_id, recipient_id"
    };
}
pub(super) use event_columns;

pub(super) fn event(row: &Row) -> Event {
    Event {
        event_id: row.get(0),
        at: at(row, 1),
        name: row.get(2),
        message_id: row.get::<_, Option<i64>>(3).map(MessageId),
        delivery_id: row.get::<_, Option<i64>>(4).map(DeliveryId),
        account_id: row.get::<_, Option<i64>>(5).map(AccountId),
        detail: row.get(6),
        destination: Destination::of(row.get(7), row.get(8)),
    }
}

macro_rules! claim_columns {
    () => {
        "delivery_id, workspace_id, lane_id, account_id, channel_id, recipient_id, message_id, revision, action, \
         target_delivery, claim_token, claim_seq, attempt, charged, flood_waits, not_ready_waits, unknowns, lost_claims, \
         lost_requests, flood_since, slot_at, lease_until, parts, idempotency_key, due_at, campaign_id, paid"
    };
}
pub(super) use claim_columns;

pub(super) fn claim(row: &Row) -> Result<Claim> {
    Ok(Claim {
        delivery_id: DeliveryId(row.get(0)),
        workspace_id: WorkspaceId(row.get(1)),
        lane_id: LaneId(row.get(2)),
        account_id: AccountId(row.get(3)),
        destination: destination(row, 4)?,
        message_id: MessageId(row.get(6)),
        revision: row.get(7),
        action: word(row, 8, Action::parse)?,
        target_delivery: row.get::<_, Option<i64>>(9).map(DeliveryId),
        claim_token: ClaimToken(row.get(10)),
        claim_seq: row.get(11),
        counters: counters(row, 12),
        slot_at: at(row, 20),
        lease_until: at(row, 21),
        parts: parts(&row.get(22)),
        idempotency_key: row.get(23),
        due_at: at(row, 24),
        campaign_id: row.get::<_, Option<i64>>(25).map(CampaignId),
        paid: row.get(26),
    })
}

/// Two columns, of which one is set.
fn destination(row: &Row, first: usize) -> Result<Destination> {
    Destination::of(row.get(first), row.get(first + 1))
        .ok_or_else(|| StoreError::Database(format!("a delivery without a destination in column {first}")))
}

fn priority(number: i32) -> Priority {
    if number == 0 { Priority::Urgent } else { Priority::Bulk }
}

pub(super) fn at(row: &Row, column: usize) -> Timestamp {
    row.get::<_, Time>(column).0
}

pub(super) fn time(row: &Row, column: usize) -> Option<Timestamp> {
    row.get::<_, Option<Time>>(column).map(|Time(at)| at)
}

/// A text column that must be one of the words we know.
pub(super) fn word<T>(row: &Row, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Result<T> {
    let text: &str = row.get(column);
    parse(text).ok_or_else(|| StoreError::Database(format!("unexpected value {text:?} in column {column}")))
}

pub(super) fn parts(json: &Value) -> Parts {
    let ids = json.as_array().into_iter().flatten();
    (0..).zip(ids).filter_map(|(n, id)| Some((n, id.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_microseconds_and_their_infinity() {
        for at in [Timestamp(0), Timestamp(1_794_744_000_000_001), Timestamp::NEVER, Timestamp(-5)] {
            let mut raw = BytesMut::new();
            Time(at).to_sql(&Type::TIMESTAMPTZ, &mut raw).unwrap();
            assert_eq!(Time::from_sql(&Type::TIMESTAMPTZ, &raw).unwrap(), Time(at));
        }
    }
}
