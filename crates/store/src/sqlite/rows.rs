//! Rows into values: the column lists and how to read them, in one place.

use domain::chat::{ChatKind, Overflow};
use domain::delivery::{Action, AmbiguityPolicy, Counters, Priority, Status};
use domain::destination::Destination;
use domain::ids::{AccountId, CampaignId, ChannelId, DeliveryId, EndpointId, LaneId, MessageId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use rusqlite::types::Type;
use serde_json::Value;

use crate::config::*;
use crate::queue::*;

pub(super) const DELIVERY_COLUMNS: &str = "delivery_id, workspace_id, lane_id, account_id, channel_id, recipient_id, \
     message_id, revision, action, generation, parent_delivery, priority, status, reason, claim_seq, attempt, \
     charged, flood_waits, not_ready_waits, unknowns, lost_claims, lost_requests, flood_since, run_at, lease_until, \
     slot_at, parts, provider_message_id, last_error, queued_at, sending_at, sent_at, ended_at";

pub(super) fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        delivery_id: DeliveryId(row.get(0)?),
        workspace_id: WorkspaceId(row.get(1)?),
        lane_id: LaneId(row.get(2)?),
        account_id: AccountId(row.get(3)?),
        destination: destination(row, 4)?,
        message_id: MessageId(row.get(6)?),
        revision: row.get(7)?,
        action: word(row, 8, Action::parse)?,
        generation: row.get(9)?,
        parent_delivery: row.get::<_, Option<i64>>(10)?.map(DeliveryId),
        priority: priority(row.get(11)?),
        status: word(row, 12, Status::parse)?,
        reason: row.get(13)?,
        claim_seq: row.get(14)?,
        counters: counters(row, 15)?,
        run_at: time(row, 23)?,
        lease_until: time(row, 24)?,
        slot_at: time(row, 25)?,
        parts: parts(&json(row, 26)?),
        provider_message_id: row.get(27)?,
        last_error: json_or_null(row, 28)?,
        queued_at: Timestamp(row.get(29)?),
        sending_at: time(row, 30)?,
        sent_at: time(row, 31)?,
        ended_at: time(row, 32)?,
    })
}

/// Eight columns, from `attempt` to `flood_since`.
pub(super) fn counters(row: &Row<'_>, first: usize) -> rusqlite::Result<Counters> {
    Ok(Counters {
        attempt: row.get(first)?,
        charged: row.get(first + 1)?,
        flood_waits: row.get(first + 2)?,
        not_ready_waits: row.get(first + 3)?,
        unknowns: row.get(first + 4)?,
        lost_claims: row.get(first + 5)?,
        lost_requests: row.get(first + 6)?,
        flood_since: time(row, first + 7)?,
    })
}

pub(super) const ENDPOINT_COLUMNS: &str = "endpoint_id, workspace_id, name, kind, enabled, settings";

pub(super) fn endpoint(row: &Row<'_>) -> rusqlite::Result<Endpoint> {
    Ok(Endpoint {
        endpoint_id: EndpointId(row.get(0)?),
        workspace_id: WorkspaceId(row.get(1)?),
        name: row.get(2)?,
        kind: row.get(3)?,
        enabled: row.get(4)?,
        settings: json(row, 5)?,
    })
}

pub(super) const ACCOUNT_COLUMNS: &str = "a.account_id, a.workspace_id, a.platform, a.name, a.fingerprint, a.kind, \
     a.tier, a.rate, a.burst, a.max_parallel, a.retry_parallel, a.api_base, a.proxy, a.extra_roots, a.settings, \
     a.paused, a.paused_why, a.paused_at, g.cooldown_until, a.addresses_sealed";

pub(super) fn account(row: &Row<'_>) -> rusqlite::Result<Account> {
    Ok(Account {
        account_id: AccountId(row.get(0)?),
        workspace_id: WorkspaceId(row.get(1)?),
        platform: row.get(2)?,
        name: row.get(3)?,
        fingerprint: row.get(4)?,
        settings: AccountSettings {
            kind: row.get(5)?,
            tier: row.get(6)?,
            rate: row.get(7)?,
            burst: row.get(8)?,
            max_parallel: row.get(9)?,
            retry_parallel: row.get(10)?,
            api_base: row.get::<_, Option<String>>(11)?.map(Into::into),
            proxy: row.get::<_, Option<String>>(12)?.map(Into::into),
            extra_roots: row.get(13)?,
            settings: json(row, 14)?,
        },
        paused: row.get(15)?,
        paused_why: row.get(16)?,
        paused_at: time(row, 17)?,
        cooldown_until: Timestamp(row.get(18)?),
    })
}

pub(super) const CHANNEL_COLUMNS: &str = "channel_id, workspace_id, account_id, platform, name, target, chat_kind, \
     rate, max_parallel, ambiguity, dedup, dedup_ttl_us, max_age_us, template, parse_mode, body_max, overflow, \
     max_media, route, quiet_hours, time_zone, settings, enabled, disabled_by, paused_until, paused_why, error_streak, \
     target_since, (SELECT a.tier FROM accounts AS a WHERE a.account_id = channels.account_id)";

pub(super) fn channel(row: &Row<'_>) -> rusqlite::Result<Channel> {
    Ok(Channel {
        channel_id: ChannelId(row.get(0)?),
        workspace_id: WorkspaceId(row.get(1)?),
        account_id: AccountId(row.get(2)?),
        platform: row.get(3)?,
        name: row.get(4)?,
        target: row.get(5)?,
        settings: ChannelSettings {
            chat_kind: word(row, 6, ChatKind::parse)?,
            rate: row.get(7)?,
            max_parallel: row.get(8)?,
            ambiguity: word(row, 9, AmbiguityPolicy::parse)?,
            dedup: word(row, 10, DedupMode::parse)?,
            dedup_ttl: Span(row.get(11)?),
            max_age: row.get::<_, Option<i64>>(12)?.map(Span),
            template: row.get(13)?,
            parse_mode: row.get(14)?,
            body_max: row.get(15)?,
            overflow: word(row, 16, Overflow::parse)?,
            max_media: row.get(17)?,
            route: row.get(18)?,
            quiet_hours: row.get(19)?,
            time_zone: row.get(20)?,
            settings: json(row, 21)?,
        },
        enabled: row.get(22)?,
        disabled_by: row.get::<_, Option<String>>(23)?.as_deref().and_then(DisabledBy::parse),
        paused_until: Timestamp(row.get(24)?),
        paused_why: row.get(25)?,
        error_streak: row.get(26)?,
        target_since: Timestamp(row.get(27)?),
        tier: row.get(28)?,
    })
}

pub(super) const LANE_COLUMNS: &str = "lane_id, account_id, channel_id, campaign_id, next_at, n_queued, n_retry, \
     n_sending, n_sent, n_deduped, n_failed, n_dead, n_requeued";

pub(super) fn lane(row: &Row<'_>) -> rusqlite::Result<Lane> {
    let next_at = Timestamp(row.get(4)?);
    Ok(Lane {
        lane_id: LaneId(row.get(0)?),
        account_id: AccountId(row.get(1)?),
        channel_id: row.get::<_, Option<i64>>(2)?.map(ChannelId),
        campaign_id: row.get::<_, Option<i64>>(3)?.map(CampaignId),
        next_at: (next_at != Timestamp::NEVER).then_some(next_at),
        counts: Counts {
            queued: row.get(5)?,
            retry: row.get(6)?,
            sending: row.get(7)?,
            sent: row.get(8)?,
            deduped: row.get(9)?,
            failed_permanent: row.get(10)?,
            dead: row.get(11)?,
            requeued: row.get(12)?,
        },
    })
}

pub(super) const ATTEMPT_COLUMNS: &str = "attempt, claim_seq, run_id, started_at, requested_at, finished_at, outcome, \
     error, provider_message_id";

pub(super) fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    Ok(Attempt {
        attempt: row.get(0)?,
        claim_seq: row.get(1)?,
        run_id: row.get(2)?,
        started_at: Timestamp(row.get(3)?),
        requested_at: time(row, 4)?,
        finished_at: Timestamp(row.get(5)?),
        outcome: row.get(6)?,
        error: json_or_null(row, 7)?,
        provider_message_id: row.get(8)?,
    })
}

pub(super) const EVENT_COLUMNS: &str =
    "event_id, at, name, message_id, delivery_id, account_id, detail, channel_id, recipient_id";

pub(super) fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        event_id: row.get(0)?,
        at: Timestamp(row.get(1)?),
        name: row.get(2)?,
        message_id: row.get::<_, Option<i64>>(3)?.map(MessageId),
        delivery_id: row.get::<_, Option<i64>>(4)?.map(DeliveryId),
        account_id: row.get::<_, Option<i64>>(5)?.map(AccountId),
        detail: json(row, 6)?,
        destination: Destination::of(row.get(7)?, row.get(8)?),
    })
}

/// Two columns, of which one is set.
pub(super) fn destination(row: &Row<'_>, first: usize) -> rusqlite::Result<Destination> {
    Destination::of(row.get(first)?, row.get(first + 1)?).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            first,
            Type::Integer,
            "a delivery without a destination".into(),
        )
    })
}

pub(super) fn priority(number: i64) -> Priority {
    if number == 0 { Priority::Urgent } else { Priority::Bulk }
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

pub(super) fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    word(row, column, |text| serde_json::from_str(text).ok())
}

fn json_or_null(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Value>> {
    match row.get::<_, Option<String>>(column)? {
        None => Ok(None),
        Some(_) => json(row, column).map(Some),
    }
}

/// A text column that must be one of the words we know.
pub(super) fn word<T>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    let unknown = || format!("unexpected value {text:?}").into();
    parse(text).ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, unknown()))
}

pub(super) fn parts(json: &Value) -> Parts {
    let ids = json.as_array().into_iter().flatten();
    (0..).zip(ids).filter_map(|(n, id)| Some((n, id.as_str()?.to_owned()))).collect()
}

/// The parts column; of nearly every delivery it is empty.
pub(super) fn parts_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Parts> {
    match row.get_ref(column)?.as_str()? {
        "[]" => Ok(Parts::new()),
        _ => Ok(parts(&json(row, column)?)),
    }
}

/// Ids as the JSON array that `json_each` unfolds: one statement for a whole batch.
pub(super) fn id_list(ids: impl IntoIterator<Item = i64>) -> String {
    use std::fmt::Write;
    let mut list = String::from("[");
    for id in ids {
        let comma = if list.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(list, "{comma}{id}");
    }
    list.push(']');
    list
}

pub(super) fn parts_json(parts: &Parts) -> Value {
    let last = parts.keys().next_back().map_or(0, |n| n + 1);
    (0..last).map(|n| parts.get(&n).map_or(Value::Null, |id| Value::from(id.as_str()))).collect()
}
