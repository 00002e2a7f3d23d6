//! Accounts and the rate groups that their tokens share.

use domain::ids::{AccountId, LaneId, WorkspaceId};
use domain::limits::{SLOT_LEAD_MAX, SLOTS_RESERVED_MAX};
use domain::pacing::{Pace, interval};
use domain::time::{Span, Timestamp};
use secrecy::SecretString;
use serde_json::json;

use super::channels::hurry;
use super::heads::{NewEvent, Touched, event};
use super::workspaces::{TELL_ALL, config_changed, require_workspace};
use super::{Sqlite, Tx, Urgency, rows};
use crate::config::{Account, AccountSettings, Actor, NewAccount, PlatformLimit, masked, require_token};
use crate::error::{Result, StoreError};

const INSERT_GROUP: &str =
    "INSERT INTO rate_groups (platform, fingerprint) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const SELECT_GROUP: &str = "SELECT group_id FROM rate_groups WHERE platform = ?1 AND fingerprint = ?2";
const INSERT_ACCOUNT: &str = "
INSERT INTO accounts (workspace_id, platform, name, kind, tier, token_sealed, fingerprint, group_id, rate, burst,
                      max_parallel, retry_parallel, api_base, proxy, extra_roots, settings, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, x'', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
ON CONFLICT DO NOTHING";
const INSERT_HEAD: &str = "
INSERT INTO account_heads (account_id, workspace_id, group_id, max_parallel, retry_parallel)
VALUES (?1, ?2, ?3, ?4, ?5)";
const SET_TOKEN: &str = "
UPDATE accounts
   SET token_sealed = ?3, fingerprint = ?4, group_id = ?5
 WHERE workspace_id = ?1 AND account_id = ?2";
const SET_ADDRESSES: &str =
    "UPDATE accounts SET addresses_sealed = ?3 WHERE workspace_id = ?1 AND account_id = ?2";
const SELECT_SEALED: &str = "
SELECT workspace_id, account_id, token_sealed, addresses_sealed, group_id FROM accounts ORDER BY account_id";
const SET_FINGERPRINT: &str = "UPDATE rate_groups SET fingerprint = ?2 WHERE group_id = ?1";
const RESEAL: &str = "
UPDATE accounts SET token_sealed = ?2, addresses_sealed = ?3, fingerprint = ?4 WHERE account_id = ?1";
const SELECT_KEY_CHECK: &str = "SELECT key_check FROM control";
const SET_KEY_CHECK: &str = "UPDATE control SET key_check = ?1";
const SET_HEAD_GROUP: &str = "UPDATE account_heads SET group_id = ?2 WHERE account_id = ?1";
const CHANGE_ACCOUNT: &str = "
UPDATE accounts
   SET kind = ?3, tier = ?4, rate = ?5, burst = ?6, max_parallel = ?7, retry_parallel = ?8,
       api_base = ?9, proxy = ?10, extra_roots = ?11, settings = ?12
 WHERE workspace_id = ?1 AND account_id = ?2";
const SET_HEAD_PARALLEL: &str =
    "UPDATE account_heads SET max_parallel = ?2, retry_parallel = ?3 WHERE account_id = ?1";
/// The slowest of everybody who shares the token; nobody may outrun another's setting.
const GROUP_RATE: &str = "
SELECT min(rate), min(burst)
  FROM (SELECT rate, burst FROM accounts WHERE group_id = ?1
        UNION ALL
        SELECT rate, burst FROM platform_limits WHERE group_id = ?1)";
const SET_GROUP_RATE: &str = "UPDATE rate_groups SET interval_us = ?2, burst = ?3 WHERE group_id = ?1";
const SELECT_TOKEN: &str = "SELECT token_sealed FROM accounts WHERE workspace_id = ?1 AND account_id = ?2";
const PLATFORM_AND_GROUP: &str =
    "SELECT platform, group_id FROM accounts WHERE workspace_id = ?1 AND account_id = ?2";
const PAUSE: &str = "
UPDATE accounts
   SET paused = ?3, paused_why = ?4, paused_at = ?5
 WHERE workspace_id = ?1 AND account_id = ?2 AND (paused <> ?3 OR paused_why IS NOT ?4)";
/// Open means: not paused, and its workspace not held. Who speaks of trouble is not held.
const OPEN_HEAD: &str = "
UPDATE account_heads
   SET open = ?2 AND NOT (SELECT w.held AND a.tier <> 'alerts'
                            FROM accounts AS a JOIN workspaces AS w ON w.workspace_id = a.workspace_id
                           WHERE a.account_id = account_heads.account_id)
 WHERE account_id = ?1";
const END_COOLDOWN: &str = "UPDATE rate_groups SET cooldown_until = 0, flood_until = 0, flood_channel = NULL, flood_recipient = NULL, trouble_streak = 0 WHERE group_id = ?1";
const SELECT_PACE: &str = "
SELECT g.group_id, g.interval_us, g.burst, g.next_slot, g.cooldown_until
  FROM accounts AS a JOIN rate_groups AS g ON g.group_id = a.group_id
 WHERE a.workspace_id = ?1 AND a.account_id = ?2";
/// Those in which something may wait: of a dialogue that points nowhere only one that is full.
const LANES: &str = "
SELECT lane_id FROM lane_heads INDEXED BY lane_heads_listed
 WHERE workspace_id = ?2 AND recipient_id IS NULL AND account_id = ?1
UNION
SELECT lane_id FROM lane_heads
 WHERE account_id = ?1 AND head_priority IN (0, 1) AND next_at < 9223372036854775807
UNION
SELECT lane_id FROM inflight WHERE account_id = ?1
 ORDER BY 1";
const SELECT_LIMIT: &str = "
SELECT l.rate, l.burst
  FROM accounts AS a
  JOIN platform_limits AS l
    ON l.workspace_id = a.workspace_id AND l.platform = a.platform AND l.group_id = a.group_id
 WHERE a.workspace_id = ?1 AND a.account_id = ?2";
const PUT_LIMIT: &str = "
INSERT INTO platform_limits (workspace_id, platform, group_id, rate, burst)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET rate = excluded.rate, burst = excluded.burst";
const DELETE_LIMIT: &str =
    "DELETE FROM platform_limits WHERE workspace_id = ?1 AND platform = ?2 AND group_id = ?3";
const SET_NEXT_SLOT: &str = "UPDATE rate_groups SET next_slot = ?2 WHERE group_id = ?1";

pub(super) const RESERVE_LANE: &str = "
UPDATE lane_heads
   SET next_slot = max(next_slot, ?3) + interval_us
 WHERE lane_id = ?2 AND workspace_id = ?1
RETURNING next_slot - interval_us";

/// A chat's next request keeps its distance from this one.
pub(super) const PUSH_LANE: &str = "
UPDATE lane_heads
   SET next_slot = max(next_slot, ?3 + interval_us)
 WHERE lane_id = ?2 AND account_id = ?1 AND interval_us > 0";

impl Sqlite {
    pub async fn create_account(&self, workspace: WorkspaceId, new: NewAccount) -> Result<AccountId> {
        let keyring = std::sync::Arc::clone(&self.keyring);
        self.write(Urgency::Maintenance, move |tx| {
            require_workspace(tx, workspace)?;
            follow_key(tx, &keyring)?;
            new.settings.validate()?;
            require_token(&new.token)?;
            let fingerprint = keyring.fingerprint(&new.token);
            let group_id = group(tx, &new.platform, &fingerprint)?;
            let s = &new.settings;
            let inserted = tx.execute(
                INSERT_ACCOUNT,
                rusqlite::params![
                    workspace.0,
                    new.platform,
                    new.name,
                    s.kind,
                    s.tier,
                    fingerprint,
                    group_id,
                    s.rate,
                    s.burst,
                    s.max_parallel,
                    s.retry_parallel,
                    masked(&s.api_base),
                    masked(&s.proxy),
                    s.extra_roots,
                    s.settings.to_string(),
                    tx.now.0
                ],
            )?;
            if inserted == 0 {
                return Err(StoreError::Exists { what: "account", name: new.name });
            }
            let id = AccountId(tx.connection.last_insert_rowid());
            // The id is part of what is sealed, so the token follows the row.
            let sealed = keyring.seal_token(workspace, id, &new.token);
            tx.execute(SET_TOKEN, (workspace.0, id.0, sealed, &fingerprint, group_id))?;
            tx.execute(SET_ADDRESSES, (workspace.0, id.0, keyring.seal_addresses(workspace, id, s)))?;
            tx.execute(INSERT_HEAD, (id.0, workspace.0, group_id, s.max_parallel, s.retry_parallel))?;
            tx.execute(OPEN_HEAD, (id.0, true))?;
            refresh_group_rate(tx, group_id)?;
            config_changed(tx, workspace, json!({"account": id.0, "name": new.name}))?;
            Ok(id)
        })
        .await
    }

    pub async fn change_account(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        settings: AccountSettings,
    ) -> Result<()> {
        let keyring = std::sync::Arc::clone(&self.keyring);
        self.write(Urgency::Maintenance, move |tx| {
            settings.validate()?;
            let (_, group_id) = platform_and_group(tx, workspace, id)?;
            let s = &settings;
            tx.execute(
                CHANGE_ACCOUNT,
                rusqlite::params![
                    workspace.0,
                    id.0,
                    s.kind,
                    s.tier,
                    s.rate,
                    s.burst,
                    s.max_parallel,
                    s.retry_parallel,
                    masked(&s.api_base),
                    masked(&s.proxy),
                    s.extra_roots,
                    s.settings.to_string()
                ],
            )?;
            follow_key(tx, &keyring)?;
            tx.execute(SET_ADDRESSES, (workspace.0, id.0, keyring.seal_addresses(workspace, id, s)))?;
            tx.execute(SET_HEAD_PARALLEL, (id.0, s.max_parallel, s.retry_parallel))?;
            refresh_group_rate(tx, group_id)?;
            refresh_head(tx, id)?;
            config_changed(tx, workspace, json!({"account": id.0}))
        })
        .await?;
        self.bell.ring();
        Ok(())
    }

    pub async fn set_account_token(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        token: SecretString,
    ) -> Result<()> {
        let keyring = std::sync::Arc::clone(&self.keyring);
        self.write(Urgency::Maintenance, move |tx| {
            require_token(&token)?;
            follow_key(tx, &keyring)?;
            let (platform, old_group) = platform_and_group(tx, workspace, id)?;
            let fingerprint = keyring.fingerprint(&token);
            let group_id = group(tx, &platform, &fingerprint)?;
            let sealed = keyring.seal_token(workspace, id, &token);
            tx.execute(SET_TOKEN, (workspace.0, id.0, sealed, &fingerprint, group_id))?;
            tx.execute(SET_HEAD_GROUP, (id.0, group_id))?;
            refresh_group_rate(tx, old_group)?;
            refresh_group_rate(tx, group_id)?;
            refresh_head(tx, id)?;
            config_changed(tx, workspace, json!({"account": id.0, "token": "changed"}))
        })
        .await
    }

    pub async fn rotate_key(&self) -> Result<usize> {
        let rotation = std::sync::Arc::new(self.keyring.rotation()?);
        let sealing = std::sync::Arc::clone(&rotation);
        let keyring = std::sync::Arc::clone(&self.keyring);
        let n = self
            .write(Urgency::Maintenance, move |tx| {
                follow_key(tx, &keyring)?;
                let rows = tx.all(SELECT_SEALED, [], |row| {
                    let ids = (WorkspaceId(row.get(0)?), AccountId(row.get(1)?));
                    Ok((
                        ids,
                        row.get::<_, Vec<u8>>(2)?,
                        row.get::<_, Option<Vec<u8>>>(3)?,
                        row.get::<_, i64>(4)?,
                    ))
                })?;
                let mut n = 0;
                for ((workspace, id), token, addresses, group_id) in rows {
                    let Some(new) = sealing.reseal(workspace, id, &token, addresses.as_deref()) else {
                        continue;
                    };
                    tx.execute(SET_FINGERPRINT, (group_id, &new.fingerprint))?;
                    tx.execute(RESEAL, (id.0, new.token, new.addresses, new.fingerprint))?;
                    n += 1;
                }
                super::sources::reseal(tx, &sealing)?;
                tx.execute(SET_KEY_CHECK, [sealing.check()])?;
                let detail = Actor::sign(tx.actor, json!({"key": "rotated", "accounts": n}));
                tx.execute(TELL_ALL, (tx.now.0, "config_changed", detail.to_string()))?;
                Ok(n)
            })
            .await?;
        self.keyring.rotated(&rotation)?;
        Ok(n)
    }

    pub async fn accounts(&self, workspace: WorkspaceId) -> Result<Vec<Account>> {
        let sql = format!(
            "SELECT {} FROM accounts AS a JOIN rate_groups AS g ON g.group_id = a.group_id
              WHERE a.workspace_id = ?1 ORDER BY a.account_id",
            rows::ACCOUNT_COLUMNS
        );
        let keyring = std::sync::Arc::clone(&self.keyring);
        self.read(move |tx| {
            tx.all(&sql, [workspace.0], |row| {
                let sealed: Option<Vec<u8>> = row.get(19)?;
                Ok(keyring.open_addresses(rows::account(row)?, sealed.as_deref()))
            })
        })
        .await
    }

    pub async fn account_token(&self, workspace: WorkspaceId, id: AccountId) -> Result<SecretString> {
        let sealed: Option<Vec<u8>> =
            self.read(move |tx| tx.first(SELECT_TOKEN, (workspace.0, id.0), |row| row.get(0))).await?;
        let sealed = sealed.ok_or_else(|| StoreError::unknown_account(id))?;
        self.keyring.open_token(workspace, id, &sealed)
    }

    pub async fn pause_account(&self, workspace: WorkspaceId, id: AccountId, why: &str) -> Result<()> {
        let why = why.to_owned();
        self.write(Urgency::Outcome, move |tx| {
            platform_and_group(tx, workspace, id)?;
            pause(tx, workspace, id, &why)
        })
        .await
    }

    pub async fn resume_account(&self, workspace: WorkspaceId, id: AccountId) -> Result<()> {
        self.write(Urgency::Outcome, move |tx| {
            let (_, group_id) = platform_and_group(tx, workspace, id)?;
            let params = (workspace.0, id.0, false, None::<&str>, None::<i64>);
            tx.execute(PAUSE, params)?;
            tx.execute(OPEN_HEAD, (id.0, true))?;
            tx.execute(END_COOLDOWN, [group_id])?;
            let mut touched = Touched::default();
            for lane in tx.all(LANES, (id.0, workspace.0), |row| row.get::<_, i64>(0))? {
                hurry(tx, lane)?;
                touched.lane(lane);
            }
            touched.account(id.0);
            touched.refresh(tx)?;
            account_event(tx, workspace, id, "account_resumed", serde_json::Value::Null)
        })
        .await?;
        self.bell.ring();
        Ok(())
    }

    pub async fn platform_limit(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
    ) -> Result<Option<PlatformLimit>> {
        self.read(move |tx| {
            tx.first(SELECT_LIMIT, (workspace.0, id.0), |row| {
                Ok(PlatformLimit { rate: row.get(0)?, burst: row.get(1)? })
            })
        })
        .await
    }

    pub async fn set_platform_limit(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        limit: Option<PlatformLimit>,
    ) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            let (platform, group_id) = platform_and_group(tx, workspace, id)?;
            match limit {
                Some(limit) => {
                    limit.validate()?;
                    let params = (workspace.0, &platform, group_id, limit.rate, limit.burst);
                    tx.execute(PUT_LIMIT, params)?;
                }
                None => drop(tx.execute(DELETE_LIMIT, (workspace.0, &platform, group_id))?),
            }
            refresh_group_rate(tx, group_id)?;
            refresh_head(tx, id)?;
            config_changed(tx, workspace, json!({"account": id.0, "limit": limit}))
        })
        .await?;
        self.bell.ring();
        Ok(())
    }

    pub async fn reserve(&self, workspace: WorkspaceId, id: AccountId, n: u32) -> Result<Timestamp> {
        self.write(Urgency::Claim, move |tx| {
            check_count(n as usize)?;
            let (group_id, mut pace, from) = pace(tx, workspace, id)?;
            let slot = pace.reserve(from, n);
            tx.execute(SET_NEXT_SLOT, (group_id, pace.next_slot.0))?;
            refresh_head(tx, id)?;
            Ok(slot)
        })
        .await
    }

    pub async fn reserve_for(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        lanes: Vec<Option<LaneId>>,
        lead: Span,
    ) -> Result<Vec<Timestamp>> {
        self.write(Urgency::Claim, move |tx| {
            check_count(lanes.len())?;
            if lead < Span::ZERO || lead > SLOT_LEAD_MAX {
                let problem = format!("{} ms ahead, at most {}", lead.millis(), SLOT_LEAD_MAX.millis());
                return Err(StoreError::invalid("reserve", problem));
            }
            let (group_id, mut pace, from) = pace(tx, workspace, id)?;
            let from = from.max(tx.now + lead);
            let mut touched = Touched::default();
            let mut slots = Vec::with_capacity(lanes.len());
            for lane in &lanes {
                let slot = pace.reserve(from, 1);
                if let Some(lane) = lane
                    && tx.execute(PUSH_LANE, (id.0, lane.0, slot.0))? > 0
                {
                    touched.lane(lane.0);
                }
                slots.push(slot);
            }
            tx.execute(SET_NEXT_SLOT, (group_id, pace.next_slot.0))?;
            touched.account(id.0);
            touched.refresh(tx)?;
            Ok(slots)
        })
        .await
    }

    pub async fn reserve_lane(&self, workspace: WorkspaceId, id: LaneId) -> Result<Timestamp> {
        self.write(Urgency::Claim, move |tx| {
            let slot = tx.first(RESERVE_LANE, (workspace.0, id.0, tx.now.0), |row| row.get(0))?;
            let slot = slot.ok_or_else(|| StoreError::not_found("lane", id))?;
            let mut touched = Touched::default();
            touched.lane(id.0);
            touched.refresh(tx)?;
            Ok(Timestamp(slot))
        })
        .await
    }
}

fn check_count(n: usize) -> Result<()> {
    if n == 0 || n > SLOTS_RESERVED_MAX {
        return Err(StoreError::invalid("reserve", format!("1 to {SLOTS_RESERVED_MAX} slots, not {n}")));
    }
    Ok(())
}

/// The group of an account, its pace, and the earliest instant for a slot.
fn pace(tx: &Tx<'_>, workspace: WorkspaceId, id: AccountId) -> Result<(i64, Pace, Timestamp)> {
    let found = tx.first(SELECT_PACE, (workspace.0, id.0), |row| {
        let pace =
            Pace { interval: Span(row.get(1)?), burst: row.get(2)?, next_slot: Timestamp(row.get(3)?) };
        Ok((row.get::<_, i64>(0)?, pace, Timestamp(row.get(4)?)))
    })?;
    let (group_id, pace, cooldown_until) = found.ok_or_else(|| StoreError::unknown_account(id))?;
    Ok((group_id, pace, tx.now.max(cooldown_until)))
}

/// Pauses an account that is not paused for this reason yet; says so once.
pub(super) fn pause(tx: &Tx<'_>, workspace: WorkspaceId, id: AccountId, why: &str) -> Result<()> {
    let changed = tx.execute(PAUSE, (workspace.0, id.0, true, why, tx.now.0))?;
    tx.execute(OPEN_HEAD, (id.0, false))?;
    refresh_head(tx, id)?;
    if changed == 0 {
        return Ok(());
    }
    account_event(tx, workspace, id, "account_paused", json!({"why": why}))
}

pub(super) fn account_event(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: AccountId,
    name: &str,
    detail: serde_json::Value,
) -> Result<()> {
    let account_id = Some(id.0);
    event(tx, NewEvent { workspace_id: workspace.0, name, account_id, detail, ..NewEvent::default() })
}

fn refresh_head(tx: &Tx<'_>, id: AccountId) -> Result<()> {
    let mut touched = Touched::default();
    touched.account(id.0);
    touched.refresh(tx)
}

fn group(tx: &Tx<'_>, platform: &str, fingerprint: &str) -> Result<i64> {
    tx.execute(INSERT_GROUP, (platform, fingerprint))?;
    let id = tx.first(SELECT_GROUP, (platform, fingerprint), |row| row.get(0))?;
    id.ok_or_else(|| StoreError::Database("a rate group vanished".into()))
}

fn refresh_group_rate(tx: &Tx<'_>, group_id: i64) -> Result<()> {
    let (rate, burst) = tx
        .first(GROUP_RATE, [group_id], |row| {
            Ok((row.get::<_, Option<f64>>(0)?, row.get::<_, Option<i32>>(1)?))
        })?
        .unwrap_or_default();
    tx.execute(SET_GROUP_RATE, (group_id, interval(rate).micros(), burst.unwrap_or(1)))?;
    Ok(())
}

fn platform_and_group(tx: &Tx<'_>, workspace: WorkspaceId, id: AccountId) -> Result<(String, i64)> {
    let found = tx.first(PLATFORM_AND_GROUP, (workspace.0, id.0), |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.ok_or_else(|| StoreError::unknown_account(id))
}

/// Goes on with the key that the database is sealed with now: a rotation may have come just before.
pub(super) fn follow_key(tx: &Tx<'_>, keyring: &crate::keyring::Keyring) -> Result<()> {
    let check = tx.first(SELECT_KEY_CHECK, [], |row| row.get::<_, Option<Vec<u8>>>(0))?.flatten();
    keyring.verify(check.as_deref()).map(drop)
}
