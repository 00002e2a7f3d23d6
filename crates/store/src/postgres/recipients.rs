//! People on bots: who they are, their lanes, what is queued for them, and how they are approached.

use domain::delivery::Priority;
use domain::ids::{AccountId, DeliveryId, LaneId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::rows::Time;
use super::{Again, As, Postgres, rows};
use crate::campaigns::Person;
use crate::error::{Result, StoreError};
use crate::recipients::*;

pub(super) const ACCOUNT_PLATFORM: &str =
    "SELECT platform FROM accounts WHERE workspace_id = $1 AND account_id = $2";
/// Who stopped or is gone stays so; who was merely known may become active. Of one person named twice the last counts.
/// What is known and not named stays; null takes it away.
pub(super) const PUT: &str = "
WITH people AS (
    SELECT DISTINCT ON (p.user_id) p.*
      FROM unnest($4::text[], $5::text[], $6::jsonb[], $7::text[], $8::text[], $9::text[]) WITH ORDINALITY
           AS p (user_id, address, attributes, time_zone, status, source, ord)
     ORDER BY p.user_id, p.ord DESC
), put AS (
    INSERT INTO recipients AS r (workspace_id, account_id, platform, user_id, address, attributes, time_zone, status, source)
    SELECT $1, $2, $3, p.user_id, p.address,
           CASE WHEN EXISTS (SELECT 1 FROM recipients AS k
                              WHERE k.workspace_id = $1 AND k.account_id = $2 AND k.user_id = p.user_id)
                THEN p.attributes ELSE jsonb_strip_nulls(p.attributes) END,
           p.time_zone, p.status, p.source
      FROM people AS p ORDER BY p.ord
    ON CONFLICT (workspace_id, account_id, user_id) DO UPDATE
       SET address = excluded.address, attributes = jsonb_strip_nulls(r.attributes || excluded.attributes),
           time_zone = coalesce(excluded.time_zone, r.time_zone),
           status = CASE WHEN r.status = 'known' THEN excluded.status ELSE r.status END,
           status_at = CASE WHEN r.status = 'known' AND excluded.status <> 'known' THEN rupor_now() ELSE r.status_at END
    RETURNING r.recipient_id, r.user_id, r.xmax = 0 AS created
)
SELECT put.recipient_id, put.created AND p.ord = min(p.ord) OVER (PARTITION BY p.user_id)
  FROM unnest($4::text[]) WITH ORDINALITY AS p (user_id, ord) JOIN put ON put.user_id = p.user_id
 ORDER BY p.ord";
macro_rules! recipient_columns {
    () => {
        "recipient_id, workspace_id, account_id, platform, user_id, address, attributes, time_zone, status, status_why, \
         status_at, source, contacted_at, error_streak, paused_until"
    };
}
pub(super) use recipient_columns;
const SELECT_ONE: &str = concat!(
    "SELECT ",
    recipient_columns!(),
    " FROM recipients WHERE workspace_id = $1 AND recipient_id = $2"
);
const SELECT_BY_USER: &str = concat!(
    "SELECT ",
    recipient_columns!(),
    " FROM recipients WHERE workspace_id = $1 AND account_id = $2 AND user_id = $3"
);
const SELECT_SOME: &str = concat!(
    "SELECT ",
    recipient_columns!(),
    " FROM recipients
      WHERE workspace_id = $1 AND account_id = $2 AND recipient_id > $3
      ORDER BY recipient_id LIMIT $4"
);
const PEOPLE: &str = "SELECT account_id, waiting, sending, gone FROM people_of_accounts($1, $2)";
const SET_STATUS: &str = "SELECT set_recipient_status($1, $2, $3, $4)";
const SUPPRESS: &str = "SELECT suppress_people($1, $2, $3, $4, $5, $6)";
const UNSUPPRESS: &str = "
WITH lifted AS (
    DELETE FROM suppressions WHERE workspace_id = $1 AND platform = $2 AND user_id = $3 AND account_id = $4
    RETURNING suppression_id
), told AS (
    INSERT INTO events (workspace_id, at, name, account_id, detail)
    SELECT $1, rupor_now(), 'config_changed', nullif($4, 0), jsonb_build_object('unsuppressed', 1, 'platform', $2::text)
      FROM lifted
)
SELECT suppression_id FROM lifted";
const SUPPRESSIONS: &str = "
SELECT platform, user_id, account_id, reason, origin, at
  FROM suppressions
 WHERE workspace_id = $1 AND (platform, user_id, account_id) > ($2, $3, $4)
 ORDER BY platform, user_id, account_id
 LIMIT $5";
const SUPPRESSIONS_OF: &str = "
SELECT platform, user_id, account_id, reason, origin, at
  FROM suppressions
 WHERE workspace_id = $1 AND platform = $2 AND user_id = $3
 ORDER BY account_id";
const OPEN_LANE: &str = "SELECT open_lane($1, $2, $3, $4, $5, $6, $7)";
const ENQUEUE_FOR: &str = "SELECT enqueue_for_recipients($1, $2, $3, $4, $5, $6)";
const APPROACH: &str =
    "SELECT address, status, paused_until, slot_at, attributes FROM approach_recipient($1, $2, $3, $4)";

pub(super) const STATEMENTS: &[&str] = &[
    ACCOUNT_PLATFORM,
    PUT,
    SELECT_ONE,
    SELECT_BY_USER,
    SELECT_SOME,
    PEOPLE,
    SET_STATUS,
    SUPPRESS,
    UNSUPPRESS,
    SUPPRESSIONS,
    SUPPRESSIONS_OF,
    OPEN_LANE,
    ENQUEUE_FOR,
    APPROACH,
];

impl Postgres {
    pub async fn put_recipients(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        people: Vec<NewRecipient>,
    ) -> Result<Vec<PutRecipient>> {
        let people = checked(people)?;
        let platform = self.scoped(workspace, ACCOUNT_PLATFORM, &[&workspace.0, &account.0]).await?;
        let platform: String = platform.ok_or_else(|| StoreError::unknown_account(account))?.get(0);
        let text = |of: fn(&NewRecipient) -> &str| people.iter().map(of).collect::<Vec<&str>>();
        let (user_ids, addresses) = (text(|p| &p.user_id), text(|p| &p.address));
        let (statuses, sources) = (text(|p| p.status.as_str()), text(|p| &p.source));
        let attributes: Vec<&Value> = people.iter().map(|p| &p.attributes).collect();
        let zones: Vec<Option<&str>> = people.iter().map(|p| p.time_zone.as_deref()).collect();
        let params: [&(dyn ToSql + Sync); 9] = [
            &workspace.0,
            &account.0,
            &platform,
            &user_ids,
            &addresses,
            &attributes,
            &zones,
            &statuses,
            &sources,
        ];
        let rows = self.all(As::App(workspace), Again::Safe, PUT, &params).await?;
        Ok(rows
            .iter()
            .map(|row| PutRecipient { recipient_id: RecipientId(row.get(0)), created: row.get(1) })
            .collect())
    }

    pub async fn recipient(&self, workspace: WorkspaceId, id: RecipientId) -> Result<Recipient> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_ONE, &[&workspace.0, &id.0]).await?;
        recipient(&row.ok_or_else(|| StoreError::not_found("recipient", id))?)
    }

    pub async fn find_recipient(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        user_id: &str,
    ) -> Result<Option<Recipient>> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &account.0, &user_id];
        let row = self.first(As::App(workspace), Again::Safe, SELECT_BY_USER, &params).await?;
        row.as_ref().map(recipient).transpose()
    }

    pub async fn recipients(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        after: Option<RecipientId>,
        limit: usize,
    ) -> Result<Vec<Recipient>> {
        let (after, limit) = (after.map_or(0, |id| id.0), limit as i64);
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &account.0, &after, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_SOME, &params).await?;
        rows.iter().map(recipient).collect()
    }

    pub async fn people(&self, workspace: WorkspaceId) -> Result<Vec<PeopleOfAccount>> {
        let params: [&(dyn ToSql + Sync); 2] = [&workspace.0, &PEOPLE_COUNTED_MAX];
        let rows = self.all(As::App(workspace), Again::Safe, PEOPLE, &params).await?;
        Ok(rows
            .iter()
            .map(|row| PeopleOfAccount {
                account_id: AccountId(row.get(0)),
                waiting: row.get(1),
                sending: row.get(2),
                gone: row.get(3),
            })
            .collect())
    }

    pub async fn set_recipient_status(
        &self,
        workspace: WorkspaceId,
        id: RecipientId,
        status: RecipientStatus,
        why: &str,
    ) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &status.as_str(), &why];
        let row = self.one(As::App(workspace), Again::Safe, SET_STATUS, &params).await?;
        match row.get(0) {
            true => Ok(()),
            false => Err(StoreError::not_found("recipient", id)),
        }
    }

    /// Twice is once, but then everybody counts as suppressed before: it is not done again by itself.
    pub async fn suppress(&self, workspace: WorkspaceId, new: NewSuppressions) -> Result<u64> {
        let account = new.account_id.map_or(0, |id| id.0);
        let (reason, origin) = (new.reason.as_str(), new.origin.as_str());
        let params: [&(dyn ToSql + Sync); 6] =
            [&workspace.0, &new.platform, &new.user_ids, &account, &reason, &origin];
        let suppressed: i64 = self.one(As::App(workspace), Again::Never, SUPPRESS, &params).await?.get(0);
        Ok(suppressed as u64)
    }

    pub async fn unsuppress(
        &self,
        workspace: WorkspaceId,
        platform: &str,
        user_id: &str,
        account: Option<AccountId>,
    ) -> Result<bool> {
        let account = account.map_or(0, |id| id.0);
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &platform, &user_id, &account];
        Ok(self.first(As::App(workspace), Again::Never, UNSUPPRESS, &params).await?.is_some())
    }

    pub async fn suppressions(
        &self,
        workspace: WorkspaceId,
        after: SuppressionPlace,
        limit: usize,
    ) -> Result<Vec<Suppression>> {
        let SuppressionPlace { person, account_id } = after;
        let (account, limit) = (account_id.map_or(0, |id| id.0), limit as i64);
        let params: [&(dyn ToSql + Sync); 5] =
            [&workspace.0, &person.platform, &person.user_id, &account, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SUPPRESSIONS, &params).await?;
        rows.iter().map(suppression).collect()
    }

    pub async fn suppressions_of(&self, workspace: WorkspaceId, person: Person) -> Result<Vec<Suppression>> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &person.platform, &person.user_id];
        let rows = self.all(As::App(workspace), Again::Safe, SUPPRESSIONS_OF, &params).await?;
        rows.iter().map(suppression).collect()
    }

    pub async fn open_lane(
        &self,
        workspace: WorkspaceId,
        of: LaneOf,
        settings: LaneSettings,
    ) -> Result<LaneId> {
        settings.validate()?;
        let (campaign, recipient, account) = match of {
            LaneOf::Campaign(campaign, account) => (Some(campaign.0), None, Some(account.0)),
            LaneOf::Dialogue(recipient) => (None, Some(recipient.0), None),
        };
        let policy = settings.ambiguity.as_str();
        let params: [&(dyn ToSql + Sync); 7] =
            [&workspace.0, &campaign, &recipient, &account, &settings.max_parallel, &settings.rate, &policy];
        let row = self.one(As::App(workspace), Again::Safe, OPEN_LANE, &params).await?;
        row.get::<_, Option<i64>>(0).map(LaneId).ok_or_else(|| match of {
            LaneOf::Campaign(_, account) => StoreError::unknown_account(account),
            LaneOf::Dialogue(recipient) => StoreError::not_found("recipient", recipient),
        })
    }

    /// Twice is once: the same delivery is there already. But then nobody learns its id, so it is not done again.
    pub async fn enqueue_for(
        &self,
        workspace: WorkspaceId,
        new: ForRecipients,
    ) -> Result<Vec<Option<DeliveryId>>> {
        let ids: Vec<i64> = new.recipients.iter().map(|id| id.0).collect();
        let (bulk, run_at) = (new.priority == Priority::Bulk, new.run_at.map(Time));
        let params: [&(dyn ToSql + Sync); 6] =
            [&workspace.0, &new.message_id.0, &new.lane_id.0, &ids, &bulk, &run_at];
        let row = self.one(As::App(workspace), Again::Never, ENQUEUE_FOR, &params).await?;
        let queued: Vec<Option<i64>> = row.get(0);
        if queued.iter().any(Option::is_some) {
            self.ring();
        }
        Ok(queued.into_iter().map(|id| id.map(DeliveryId)).collect())
    }

    /// An unanswered COMMIT is simply paid for again: a slot may be wasted, never used twice.
    pub async fn approach(
        &self,
        workspace: WorkspaceId,
        id: RecipientId,
        interval: Span,
        not_before: Timestamp,
    ) -> Result<Approach> {
        let not_before = Time(not_before);
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &interval.0, &not_before];
        let row = self.one(As::App(workspace), Again::Safe, APPROACH, &params).await?;
        let address: Option<String> = row.get(0);
        Ok(Approach {
            address: address.ok_or_else(|| StoreError::not_found("recipient", id))?,
            status: rows::word(&row, 1, RecipientStatus::parse)?,
            paused_until: rows::at(&row, 2),
            slot_at: rows::at(&row, 3),
            attributes: row.get(4),
        })
    }
}

pub(super) fn recipient(row: &Row) -> Result<Recipient> {
    Ok(Recipient {
        recipient_id: RecipientId(row.get(0)),
        workspace_id: WorkspaceId(row.get(1)),
        account_id: AccountId(row.get(2)),
        platform: row.get(3),
        user_id: row.get(4),
        address: row.get(5),
        attributes: row.get(6),
        time_zone: row.get(7),
        status: rows::word(row, 8, RecipientStatus::parse)?,
        status_why: row.get(9),
        status_at: rows::at(row, 10),
        source: row.get(11),
        contacted_at: rows::time(row, 12),
        error_streak: row.get(13),
        paused_until: rows::at(row, 14),
    })
}

fn suppression(row: &Row) -> Result<Suppression> {
    let account: i64 = row.get(2);
    Ok(Suppression {
        platform: row.get(0),
        user_id: row.get(1),
        account_id: (account != 0).then_some(AccountId(account)),
        reason: rows::word(row, 3, SuppressionReason::parse)?,
        origin: rows::word(row, 4, SuppressionOrigin::parse)?,
        at: rows::at(row, 5),
    })
}
