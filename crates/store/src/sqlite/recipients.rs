//! People on bots: who they are, their lanes, what is queued for them, and how they are approached.

use std::collections::HashSet;

use domain::delivery::Priority;
use domain::ids::{AccountId, DeliveryId, LaneId, RecipientId, WorkspaceId};
use domain::pacing::interval;
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use serde_json::{Value, json};

use super::enqueue::INSERT_READY;
use super::feed::leave_alone;
use super::heads::{NewEvent, Touched, event};
use super::{Sqlite, Tx, Urgency, history, rows};
use crate::campaigns::Person;
use crate::error::{Result, StoreError};
use crate::recipients::*;

pub(super) const ACCOUNT_PLATFORM: &str =
    "SELECT platform FROM accounts WHERE workspace_id = ?1 AND account_id = ?2";
const FIND: &str = "SELECT recipient_id, attributes FROM recipients WHERE workspace_id = ?1 AND account_id = ?2 AND user_id = ?3";
const INSERT: &str = "
INSERT INTO recipients (workspace_id, account_id, platform, user_id, address, attributes, time_zone, status, status_at,
                        source, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?9)";
/// Who stopped or is gone stays so; who was merely known may become active. What is known and not named stays; null
/// takes it away.
const UPDATE: &str = "
UPDATE recipients
   SET address = ?2, attributes = ?3, time_zone = coalesce(?4, time_zone),
       status = CASE WHEN status = 'known' THEN ?5 ELSE status END,
       status_at = CASE WHEN status = 'known' AND ?5 <> 'known' THEN ?6 ELSE status_at END
 WHERE recipient_id = ?1";
pub(super) const COLUMNS: &str = "recipient_id, workspace_id, account_id, platform, user_id, address, attributes, time_zone, status, \
     status_why, status_at, source, contacted_at, error_streak, paused_until";
/// Idle dialogues point nowhere, so the index of what is due leads past them.
pub(super) const PEOPLE: &str = "
SELECT p.*
  FROM (SELECT a.account_id,
               coalesce(c.waiting, 0)
               + (SELECT count(*) FROM (SELECT 1 FROM lane_heads AS l INDEXED BY lane_heads_due
                                         WHERE l.account_id = a.account_id AND l.head_priority = 0
                                           AND l.next_at < 9223372036854775807 AND l.recipient_id IS NOT NULL
                                         LIMIT ?2))
               + (SELECT count(*) FROM (SELECT 1 FROM lane_heads AS l INDEXED BY lane_heads_due
                                         WHERE l.account_id = a.account_id AND l.head_priority = 1
                                           AND l.next_at < 9223372036854775807 AND l.recipient_id IS NOT NULL
                                         LIMIT ?2)) AS waiting,
               (SELECT count(*) FROM inflight AS i
                 WHERE i.account_id = a.account_id
                   AND (SELECT l.channel_id IS NULL FROM lane_heads AS l WHERE l.lane_id = i.lane_id)) AS sending,
               (SELECT count(*) FROM (SELECT 1 FROM recipients AS r INDEXED BY recipients_gone
                                       WHERE r.account_id = a.account_id AND r.status = 'gone'
                                       LIMIT ?2)) AS gone
          FROM account_heads AS a
          LEFT JOIN (SELECT l.account_id, sum(l.n_queued + l.n_retry) AS waiting
                       FROM lane_heads AS l INDEXED BY lane_heads_listed
                      WHERE l.workspace_id = ?1 AND l.recipient_id IS NULL AND l.campaign_id IS NOT NULL
                      GROUP BY l.account_id) AS c ON c.account_id = a.account_id
         WHERE a.workspace_id = ?1) AS p
 WHERE p.waiting > 0 OR p.sending > 0 OR p.gone > 0
 ORDER BY p.account_id";
/// Who is gone stays so until they come back: a stop that is heard late, or said by an operator, does not make them
/// reachable again.
const SET_STATUS: &str = "
UPDATE recipients
   SET (status, status_why, status_at, error_streak) =
       (SELECT CASE WHEN stays THEN status ELSE ?3 END, CASE WHEN stays THEN status_why ELSE ?4 END,
               CASE WHEN stays THEN status_at ELSE ?5 END,
               CASE WHEN stays OR ?3 = 'gone' THEN error_streak ELSE 0 END
          FROM (SELECT status = 'gone' AND ?3 = 'stopped' AS stays))
 WHERE workspace_id = ?1 AND recipient_id = ?2
RETURNING recipient_id";
const SUPPRESS: &str = "
INSERT INTO suppressions (workspace_id, platform, user_id, account_id, reason, origin, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO NOTHING";
const OF_PERSON: &str = "
SELECT recipient_id FROM recipients
 WHERE workspace_id = ?1 AND platform = ?2 AND user_id = ?3 AND (?4 = 0 OR account_id = ?4)";
const UNSUPPRESS: &str = "
DELETE FROM suppressions WHERE workspace_id = ?1 AND platform = ?2 AND user_id = ?3 AND account_id = ?4";
const SUPPRESSIONS: &str = "
SELECT platform, user_id, account_id, reason, origin, at
  FROM suppressions
 WHERE workspace_id = ?1 AND (platform, user_id, account_id) > (?2, ?3, ?4)
 ORDER BY platform, user_id, account_id
 LIMIT ?5";
const SUPPRESSIONS_OF: &str = "
SELECT platform, user_id, account_id, reason, origin, at
  FROM suppressions
 WHERE workspace_id = ?1 AND platform = ?2 AND user_id = ?3
 ORDER BY account_id";
const ACCOUNT_OF: &str = "SELECT account_id FROM recipients WHERE workspace_id = ?1 AND recipient_id = ?2";
const FIND_LANE: &str = "
SELECT lane_id FROM lane_heads
 WHERE workspace_id = ?1 AND CASE WHEN ?2 IS NOT NULL THEN recipient_id = ?2 ELSE campaign_id = ?3 AND account_id = ?4 END";
const FIND_DIALOGUE: &str = "SELECT lane_id FROM lane_heads WHERE recipient_id = ?1";
const INSERT_LANE: &str = "
INSERT INTO lane_heads (workspace_id, account_id, campaign_id, recipient_id, max_parallel, interval_us, ambiguity, served_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
/// An idle lane that somebody is about to use is not an old one.
const KEEP_LANE: &str = "
UPDATE lane_heads SET served_at = ?2 WHERE lane_id = ?1 AND next_at = 9223372036854775807 AND served_at < ?3";
const SELECT_LANE: &str = "
SELECT account_id, max_parallel = 1, campaign_id IS NOT NULL, recipient_id
  FROM lane_heads
 WHERE workspace_id = ?1 AND lane_id = ?2 AND channel_id IS NULL";
const SELECT_REVISION: &str = "SELECT revision FROM messages WHERE workspace_id = ?1 AND message_id = ?2";
/// May this person be written to in this lane? ?4: it is a campaign's.
const MAY_HEAR: &str = "
SELECT 1 FROM recipients AS r
 WHERE r.workspace_id = ?1 AND r.recipient_id = ?2 AND r.account_id = ?3 AND r.status <> 'gone'
   AND (?4 = 0 OR (r.status = 'active' AND NOT EXISTS (
            SELECT 1 FROM suppressions AS s
             WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform AND s.user_id = r.user_id
               AND s.account_id IN (0, r.account_id))))";
const INSERT_DELIVERY: &str = "
INSERT INTO deliveries (workspace_id, lane_id, account_id, recipient_id, message_id, revision, priority, status, run_at,
                        position, idempotency_key, queued_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'queued', ?8, 0, '', ?9)
ON CONFLICT DO NOTHING";
const SET_PLACE: &str = "UPDATE deliveries SET position = ?2, idempotency_key = ?3 WHERE delivery_id = ?1";
const APPROACHED: &str = "
SELECT address, status, paused_until, next_slot, account_id, attributes
  FROM recipients
 WHERE workspace_id = ?1 AND recipient_id = ?2";
/// The lane of a channel in the same chat.
const LANE_OF_CHAT: &str = "
SELECT h.lane_id, h.next_slot
  FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
 WHERE c.account_id = ?1 AND c.target = ?2 AND c.removed_at IS NULL
 ORDER BY h.next_slot DESC, h.lane_id
 LIMIT 1";
const APPROACH: &str = "UPDATE recipients SET next_slot = ?2, contacted_at = ?3 WHERE recipient_id = ?1";
const PUSH_LANE: &str = "UPDATE lane_heads SET next_slot = max(next_slot, ?2) WHERE lane_id = ?1";

impl Sqlite {
    pub async fn put_recipients(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        people: Vec<NewRecipient>,
    ) -> Result<Vec<PutRecipient>> {
        let people = checked(people)?;
        self.write(Urgency::Maintenance, move |tx| {
            let platform: String = tx
                .first(ACCOUNT_PLATFORM, (workspace.0, account.0), |row| row.get(0))?
                .ok_or_else(|| StoreError::unknown_account(account))?;
            people.iter().map(|person| put(tx, workspace, account, &platform, person)).collect()
        })
        .await
    }

    pub async fn recipient(&self, workspace: WorkspaceId, id: RecipientId) -> Result<Recipient> {
        let sql = format!("SELECT {COLUMNS} FROM recipients WHERE workspace_id = ?1 AND recipient_id = ?2");
        let found = self.read(move |tx| tx.first(&sql, (workspace.0, id.0), recipient)).await?;
        found.ok_or_else(|| StoreError::not_found("recipient", id))
    }

    pub async fn find_recipient(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        user_id: &str,
    ) -> Result<Option<Recipient>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM recipients WHERE workspace_id = ?1 AND account_id = ?2 AND user_id = ?3"
        );
        let key = (workspace.0, account.0, user_id.to_owned());
        self.read(move |tx| tx.first(&sql, key, recipient)).await
    }

    pub async fn recipients(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        after: Option<RecipientId>,
        limit: usize,
    ) -> Result<Vec<Recipient>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM recipients
              WHERE workspace_id = ?1 AND account_id = ?2 AND recipient_id > ?3
              ORDER BY recipient_id LIMIT ?4"
        );
        let after = after.map_or(0, |id| id.0);
        self.read(move |tx| tx.all(&sql, (workspace.0, account.0, after, limit as i64), recipient)).await
    }

    pub async fn people(&self, workspace: WorkspaceId) -> Result<Vec<PeopleOfAccount>> {
        self.read(move |tx| {
            tx.all(PEOPLE, (workspace.0, PEOPLE_COUNTED_MAX), |row| {
                Ok(PeopleOfAccount {
                    account_id: AccountId(row.get(0)?),
                    waiting: row.get(1)?,
                    sending: row.get(2)?,
                    gone: row.get(3)?,
                })
            })
        })
        .await
    }

    pub async fn set_recipient_status(
        &self,
        workspace: WorkspaceId,
        id: RecipientId,
        status: RecipientStatus,
        why: &str,
    ) -> Result<()> {
        let why = why.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            let changed =
                tx.first(SET_STATUS, (workspace.0, id.0, status.as_str(), why, tx.now.0), |_| Ok(()))?;
            changed.ok_or_else(|| StoreError::not_found("recipient", id))?;
            match status {
                RecipientStatus::Active => Ok(()),
                RecipientStatus::Gone => leave_alone(tx, workspace, id.0, "gone"),
                RecipientStatus::Known | RecipientStatus::Stopped => {
                    leave_alone(tx, workspace, id.0, "stopped")
                }
            }
        })
        .await
    }

    pub async fn suppress(&self, workspace: WorkspaceId, new: NewSuppressions) -> Result<u64> {
        self.write(Urgency::Maintenance, move |tx| {
            let account = new.account_id.map_or(0, |id| id.0);
            let (reason, origin) = (new.reason.as_str(), new.origin.as_str());
            let mut suppressed = 0_u64;
            for user_id in &new.user_ids {
                let row = (workspace.0, &new.platform, user_id, account, reason, origin, tx.now.0);
                if tx.execute(SUPPRESS, row)? == 0 {
                    continue;
                }
                suppressed += 1;
                for id in
                    tx.all(OF_PERSON, (workspace.0, &new.platform, user_id, account), |row| row.get(0))?
                {
                    leave_alone(tx, workspace, id, "suppressed")?;
                }
            }
            if suppressed > 0 {
                let detail = json!({"suppressed": suppressed, "platform": new.platform, "reason": reason});
                tell(tx, workspace, new.account_id, detail)?;
            }
            Ok(suppressed)
        })
        .await
    }

    pub async fn unsuppress(
        &self,
        workspace: WorkspaceId,
        platform: &str,
        user_id: &str,
        account: Option<AccountId>,
    ) -> Result<bool> {
        let (platform, user_id) = (platform.to_owned(), user_id.to_owned());
        self.write(Urgency::Maintenance, move |tx| {
            let key = (workspace.0, &platform, user_id, account.map_or(0, |id| id.0));
            let lifted = tx.execute(UNSUPPRESS, key)? > 0;
            if lifted {
                tell(tx, workspace, account, json!({"unsuppressed": 1, "platform": platform}))?;
            }
            Ok(lifted)
        })
        .await
    }

    pub async fn suppressions(
        &self,
        workspace: WorkspaceId,
        after: SuppressionPlace,
        limit: usize,
    ) -> Result<Vec<Suppression>> {
        let SuppressionPlace { person, account_id } = after;
        let account = account_id.map_or(0, |id| id.0);
        let key = (workspace.0, person.platform, person.user_id, account, limit as i64);
        self.read(move |tx| tx.all(SUPPRESSIONS, key, suppression)).await
    }

    pub async fn suppressions_of(&self, workspace: WorkspaceId, person: Person) -> Result<Vec<Suppression>> {
        let key = (workspace.0, person.platform, person.user_id);
        self.read(move |tx| tx.all(SUPPRESSIONS_OF, key, suppression)).await
    }

    pub async fn open_lane(
        &self,
        workspace: WorkspaceId,
        of: LaneOf,
        settings: LaneSettings,
    ) -> Result<LaneId> {
        settings.validate()?;
        self.write(Urgency::Maintenance, move |tx| open_lane(tx, workspace, of, settings)).await
    }

    pub async fn enqueue_for(
        &self,
        workspace: WorkspaceId,
        new: ForRecipients,
    ) -> Result<Vec<Option<DeliveryId>>> {
        let queued = self.write(Urgency::Enqueue, move |tx| enqueue_for(tx, workspace, &new)).await?;
        if queued.iter().any(Option::is_some) {
            self.bell.ring();
        }
        Ok(queued)
    }

    pub async fn approach(
        &self,
        workspace: WorkspaceId,
        id: RecipientId,
        interval: Span,
        not_before: Timestamp,
    ) -> Result<Approach> {
        self.write(Urgency::Claim, move |tx| approach(tx, workspace, id, interval, not_before)).await
    }
}

/// The pace is the chat's own: campaigns, dialogues and a channel that write to one chat share it.
fn approach(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: RecipientId,
    interval: Span,
    not_before: Timestamp,
) -> Result<Approach> {
    let found = tx.first(APPROACHED, (workspace.0, id.0), |row| {
        let approach = Approach {
            address: row.get(0)?,
            status: rows::word(row, 1, RecipientStatus::parse)?,
            paused_until: Timestamp(row.get(2)?),
            slot_at: Timestamp(row.get(3)?),
            attributes: rows::json(row, 5)?,
        };
        Ok((approach, row.get::<_, i64>(4)?))
    })?;
    let (mut approach, account) = found.ok_or_else(|| StoreError::not_found("recipient", id))?;
    let lane = tx.first(LANE_OF_CHAT, (account, &approach.address), |row| {
        Ok((row.get::<_, i64>(0)?, Timestamp(row.get(1)?)))
    })?;
    let lane_free = lane.map_or(Timestamp(0), |(_, next_slot)| next_slot);
    approach.slot_at = approach.slot_at.max(lane_free).max(not_before).max(tx.now);
    if approach.status == RecipientStatus::Gone || approach.paused_until > tx.now {
        return Ok(approach);
    }
    let next = (approach.slot_at + interval).0;
    tx.execute(APPROACH, (id.0, next, tx.now.0))?;
    if let Some((lane, _)) = lane {
        tx.execute(PUSH_LANE, (lane, next))?;
        let mut touched = Touched::default();
        touched.lane(lane);
        touched.refresh(tx)?;
    }
    Ok(approach)
}

pub(super) fn put(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    account: AccountId,
    platform: &str,
    person: &NewRecipient,
) -> Result<PutRecipient> {
    let status = person.status.as_str();
    let key = (workspace.0, account.0, &person.user_id);
    let found = tx.first(FIND, key, |row| Ok((row.get::<_, i64>(0)?, rows::json(row, 1)?)))?;
    let known = found.as_ref().map_or(&Value::Null, |(_, known)| known);
    let attributes = without_nulls(merged(known, &person.attributes)).to_string();
    if let Some((id, _)) = found {
        tx.execute(UPDATE, (id, &person.address, attributes, &person.time_zone, status, tx.now.0))?;
        return Ok(PutRecipient { recipient_id: RecipientId(id), created: false });
    }
    let row = (
        workspace.0,
        account.0,
        platform,
        &person.user_id,
        &person.address,
        attributes,
        &person.time_zone,
        status,
        tx.now.0,
        &person.source,
    );
    Ok(PutRecipient { recipient_id: RecipientId(tx.insert(INSERT, row)?), created: true })
}

pub(super) fn open_lane(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    of: LaneOf,
    settings: LaneSettings,
) -> Result<LaneId> {
    let (campaign, recipient, account) = match of {
        LaneOf::Campaign(campaign, account) => {
            let there = tx.first(ACCOUNT_PLATFORM, (workspace.0, account.0), |_| Ok(()))?;
            there.ok_or_else(|| StoreError::unknown_account(account))?;
            (Some(campaign.0), None, account.0)
        }
        LaneOf::Dialogue(recipient) => {
            let account = tx.first(ACCOUNT_OF, (workspace.0, recipient.0), |row| row.get::<_, i64>(0))?;
            let account = account.ok_or_else(|| StoreError::not_found("recipient", recipient))?;
            (None, Some(recipient.0), account)
        }
    };
    let found = match recipient {
        Some(id) => tx.first(FIND_DIALOGUE, [id], |row| row.get::<_, i64>(0))?,
        None => tx.first(FIND_LANE, (workspace.0, None::<i64>, campaign, account), |row| row.get(0))?,
    };
    if let Some(lane) = found {
        tx.execute(KEEP_LANE, (lane, tx.now.0, (tx.now - LANE_KEPT_EVERY).0))?;
        return Ok(LaneId(lane));
    }
    let interval = interval(settings.rate).micros();
    let policy = settings.ambiguity.as_str();
    let row = (workspace.0, account, campaign, recipient, settings.max_parallel, interval, policy, tx.now.0);
    Ok(LaneId(tx.insert(INSERT_LANE, row)?))
}

pub(super) fn enqueue_for(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    new: &ForRecipients,
) -> Result<Vec<Option<DeliveryId>>> {
    let lane = tx.first(SELECT_LANE, (workspace.0, new.lane_id.0), |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, bool>(1)?,
            row.get::<_, bool>(2)?,
            row.get::<_, Option<i64>>(3)?,
        ))
    })?;
    let (account, ordered, campaign, only) =
        lane.ok_or_else(|| StoreError::not_found("lane", new.lane_id))?;
    let revision = tx.first(SELECT_REVISION, (workspace.0, new.message_id.0), |row| row.get::<_, i32>(0))?;
    let revision = revision.ok_or_else(|| StoreError::not_found("message", new.message_id))?;
    let run_at = new.run_at.unwrap_or(tx.now).max(tx.now).0;
    let priority = i64::from(new.priority == Priority::Bulk);
    let mut touched = Touched::default();
    let mut seen = HashSet::new();
    let mut queued = Vec::with_capacity(new.recipients.len());
    for recipient in &new.recipients {
        let may = (workspace.0, recipient.0, account, campaign);
        let heard = seen.insert(*recipient)
            && only.is_none_or(|only| only == recipient.0)
            && tx.first(MAY_HEAR, may, |_| Ok(()))?.is_some();
        let row = (
            workspace.0,
            new.lane_id.0,
            account,
            recipient.0,
            new.message_id.0,
            revision,
            priority,
            run_at,
            tx.now.0,
        );
        if !heard || tx.execute(INSERT_DELIVERY, row)? == 0 {
            queued.push(None);
            continue;
        }
        let id = tx.connection.last_insert_rowid();
        let position = if ordered { id } else { run_at };
        let key = history::key_of(tx, id, new.message_id.0)?;
        tx.execute(SET_PLACE, (id, position, key))?;
        let ready = (new.lane_id.0, priority, position, id, workspace.0, run_at, None::<i64>, 0);
        tx.execute(INSERT_READY, ready)?;
        touched.lane(new.lane_id.0).queued += 1;
        queued.push(Some(DeliveryId(id)));
    }
    touched.refresh(tx)?;
    let n = queued.iter().flatten().count();
    if n > 0 {
        event(
            tx,
            NewEvent {
                workspace_id: workspace.0,
                name: "enqueued",
                message_id: Some(new.message_id.0),
                account_id: Some(account),
                detail: json!({"deliveries": n, "lane": new.lane_id.0}),
                ..NewEvent::default()
            },
        )?;
    }
    Ok(queued)
}

pub(super) fn recipient(row: &Row<'_>) -> rusqlite::Result<Recipient> {
    Ok(Recipient {
        recipient_id: RecipientId(row.get(0)?),
        workspace_id: WorkspaceId(row.get(1)?),
        account_id: AccountId(row.get(2)?),
        platform: row.get(3)?,
        user_id: row.get(4)?,
        address: row.get(5)?,
        attributes: rows::json(row, 6)?,
        time_zone: row.get(7)?,
        status: rows::word(row, 8, RecipientStatus::parse)?,
        status_why: row.get(9)?,
        status_at: Timestamp(row.get(10)?),
        source: row.get(11)?,
        contacted_at: rows::time(row, 12)?,
        error_streak: row.get(13)?,
        paused_until: Timestamp(row.get(14)?),
    })
}

fn suppression(row: &Row<'_>) -> rusqlite::Result<Suppression> {
    let account: i64 = row.get(2)?;
    Ok(Suppression {
        platform: row.get(0)?,
        user_id: row.get(1)?,
        account_id: (account != 0).then_some(AccountId(account)),
        reason: rows::word(row, 3, SuppressionReason::parse)?,
        origin: rows::word(row, 4, SuppressionOrigin::parse)?,
        at: Timestamp(row.get(5)?),
    })
}

fn tell(tx: &Tx<'_>, workspace: WorkspaceId, account: Option<AccountId>, detail: Value) -> Result<()> {
    let account_id = account.map(|id| id.0);
    event(
        tx,
        NewEvent {
            workspace_id: workspace.0,
            name: "config_changed",
            account_id,
            detail,
            ..NewEvent::default()
        },
    )
}
