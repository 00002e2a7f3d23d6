//! Accounts and the rate groups that their tokens share.
//!
//! Group and heads follow the account's row by trigger (functions/accounts.sql).

use domain::ids::{AccountId, LaneId, SourceId, WorkspaceId};
use domain::time::{Span, Timestamp};
use secrecy::SecretString;

use super::rows::Time;
use super::{Again, As, Postgres, Query, rows};
use crate::config::{Account, AccountSettings, NewAccount, PlatformLimit, masked, require_token};
use crate::error::{Result, StoreError};

/// The id is part of what is sealed, so it is drawn before the row is written.
const DRAW_ID: &str = "SELECT nextval('accounts_account_id_seq')";
const INSERT_ACCOUNT: &str = "
WITH made AS (
    INSERT INTO accounts (account_id, workspace_id, platform, name, kind, tier, token_sealed, fingerprint, rate, burst,
                          max_parallel, retry_parallel, api_base, proxy, extra_roots, settings, addresses_sealed, created_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, rupor_now()
      FROM control WHERE key_check = $18  -- what another key has sealed would open for nobody
    ON CONFLICT DO NOTHING
    RETURNING account_id
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $2, rupor_now(), 'config_changed', jsonb_build_object('account', account_id, 'name', $4::text) FROM made
)
SELECT account_id FROM made";
const CHANGE_ACCOUNT: &str = "
WITH changed AS (
    UPDATE accounts
       SET kind = $3, tier = $4, rate = $5, burst = $6, max_parallel = $7, retry_parallel = $8,
           api_base = $9, proxy = $10, extra_roots = $11, settings = $12, addresses_sealed = $13
     WHERE workspace_id = $1 AND account_id = $2 AND EXISTS (SELECT FROM control WHERE key_check = $14)
    RETURNING account_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('account', account_id) FROM changed
RETURNING event_id";
const SET_TOKEN: &str = "
WITH changed AS (
    UPDATE accounts
       SET token_sealed = $3, fingerprint = $4
     WHERE workspace_id = $1 AND account_id = $2 AND EXISTS (SELECT FROM control WHERE key_check = $5)
    RETURNING account_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('account', account_id, 'token', 'changed') FROM changed
RETURNING event_id";
const SELECT_SEALED: &str = "
SELECT workspace_id, account_id, token_sealed, addresses_sealed FROM accounts ORDER BY account_id";
const ROTATE_KEY: &str = "SELECT rotate_key($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
/// Rows that were added or changed while others were sealed anew: it begins again.
const ROTATE_TRIES: usize = 50;
const SELECT_ACCOUNTS: &str = concat!(
    "SELECT ",
    rows::account_columns!(),
    " FROM accounts AS a JOIN rate_groups AS g ON g.group_id = a.group_id
      WHERE a.workspace_id = $1 ORDER BY a.account_id"
);
const SELECT_TOKEN: &str = "SELECT token_sealed FROM accounts WHERE workspace_id = $1 AND account_id = $2";
/// Says so once; a second pause for the same reason changes nothing.
const PAUSE: &str = "
WITH found AS (
    SELECT account_id FROM accounts WHERE workspace_id = $1 AND account_id = $2
), changed AS (
    UPDATE accounts
       SET paused = true, paused_why = $3, paused_at = rupor_now()
     WHERE workspace_id = $1 AND account_id = $2 AND (NOT paused OR paused_why IS DISTINCT FROM $3)
    RETURNING account_id
), told AS (
    INSERT INTO events (workspace_id, at, name, account_id, detail)
    SELECT $1, rupor_now(), 'account_paused', account_id, jsonb_build_object('why', $3::text) FROM changed
)
SELECT account_id FROM found";
/// The queue's locks before the row's: the order in which a commit takes them.
const LOCK: &str = "SELECT lock_account($1, $2)";
const RESUME: &str = "SELECT resume_account($1, $2)";
const RESERVE: &str = "SELECT reserve_slots($1, $2, $3)";
const RESERVE_FOR: &str = "SELECT reserve_slots_for($1, $2, $3, $4)";
const RESERVE_LANE: &str = "SELECT reserve_lane_slot($1, $2)";

const SELECT_LIMIT: &str = "
SELECT l.rate, l.burst
  FROM accounts AS a
  JOIN platform_limits AS l
    ON l.workspace_id = a.workspace_id AND l.platform = a.platform AND l.group_id = a.group_id
 WHERE a.workspace_id = $1 AND a.account_id = $2";
/// The trigger fits the group to it.
const PUT_LIMIT: &str = "
WITH changed AS (
    INSERT INTO platform_limits AS l (workspace_id, platform, group_id, rate, burst)
    SELECT a.workspace_id, a.platform, a.group_id, $3::double precision, $4::integer
      FROM accounts AS a
     WHERE a.workspace_id = $1 AND a.account_id = $2
    ON CONFLICT (workspace_id, platform, group_id) DO UPDATE SET rate = excluded.rate, burst = excluded.burst
    RETURNING l.group_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed',
       jsonb_build_object('account', $2::bigint, 'limit', jsonb_build_object('rate', $3::double precision, 'burst', $4::integer))
  FROM changed
RETURNING 1";
const DELETE_LIMIT: &str = "
WITH gone AS (
    DELETE FROM platform_limits AS l
     USING accounts AS a
     WHERE a.workspace_id = $1 AND a.account_id = $2
       AND l.workspace_id = a.workspace_id AND l.platform = a.platform AND l.group_id = a.group_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('account', a.account_id, 'limit', NULL)
  FROM accounts AS a
 WHERE a.workspace_id = $1 AND a.account_id = $2
RETURNING 1";

pub(super) const STATEMENTS: &[&str] = &[
    SELECT_LIMIT,
    PUT_LIMIT,
    DELETE_LIMIT,
    DRAW_ID,
    INSERT_ACCOUNT,
    CHANGE_ACCOUNT,
    SET_TOKEN,
    SELECT_SEALED,
    ROTATE_KEY,
    SELECT_ACCOUNTS,
    SELECT_TOKEN,
    PAUSE,
    RESUME,
    RESERVE,
    RESERVE_FOR,
    RESERVE_LANE,
];

impl Postgres {
    pub async fn create_account(&self, workspace: WorkspaceId, new: NewAccount) -> Result<AccountId> {
        new.settings.validate()?;
        require_token(&new.token)?;
        loop {
            let check = self.follow_key().await?;
            if let Some(id) = self.create_sealed(workspace, &new, &check).await? {
                return Ok(id);
            }
            // Nothing was written because the key was rotated in between, or because the name is taken.
            if self.follow_key().await? == check {
                return Err(StoreError::Exists { what: "account", name: new.name });
            }
        }
    }

    async fn create_sealed(
        &self,
        workspace: WorkspaceId,
        new: &NewAccount,
        check: &[u8],
    ) -> Result<Option<AccountId>> {
        let id = AccountId(self.one(As::App(workspace), Again::Safe, DRAW_ID, &[]).await?.get(0));
        let sealed = self.keyring.seal_token(workspace, id, &new.token);
        let fingerprint = self.keyring.fingerprint(&new.token);
        let s = &new.settings;
        let made = self
            .scoped(
                workspace,
                INSERT_ACCOUNT,
                &[
                    &id.0,
                    &workspace.0,
                    &new.platform,
                    &new.name,
                    &s.kind,
                    &s.tier,
                    &sealed,
                    &fingerprint,
                    &s.rate,
                    &s.burst,
                    &s.max_parallel,
                    &s.retry_parallel,
                    &masked(&s.api_base),
                    &masked(&s.proxy),
                    &s.extra_roots,
                    &s.settings,
                    &self.keyring.seal_addresses(workspace, id, s),
                    &check,
                ],
            )
            .await?;
        Ok(made.map(|_| id))
    }

    pub async fn change_account(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        settings: AccountSettings,
    ) -> Result<()> {
        settings.validate()?;
        loop {
            let check = self.follow_key().await?;
            match self.change_sealed(workspace, id, &settings, &check).await {
                Err(StoreError::NotFound { .. }) if self.follow_key().await? != check => {}
                other => return other,
            }
        }
    }

    async fn change_sealed(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        s: &AccountSettings,
        check: &[u8],
    ) -> Result<()> {
        self.change_account_row(
            workspace,
            id,
            CHANGE_ACCOUNT,
            &[
                &workspace.0,
                &id.0,
                &s.kind,
                &s.tier,
                &s.rate,
                &s.burst,
                &s.max_parallel,
                &s.retry_parallel,
                &masked(&s.api_base),
                &masked(&s.proxy),
                &s.extra_roots,
                &s.settings,
                &self.keyring.seal_addresses(workspace, id, s),
                &check,
            ],
        )
        .await?;
        self.ring();
        Ok(())
    }

    pub async fn set_account_token(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        token: SecretString,
    ) -> Result<()> {
        require_token(&token)?;
        loop {
            let check = self.follow_key().await?;
            let sealed = self.keyring.seal_token(workspace, id, &token);
            let fingerprint = self.keyring.fingerprint(&token);
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                [&workspace.0, &id.0, &sealed, &fingerprint, &check];
            if self.scoped(workspace, SET_TOKEN, &params).await?.is_some() {
                return Ok(());
            }
            if self.follow_key().await? == check {
                return Err(StoreError::unknown_account(id));
            }
        }
    }

    /// Read, sealed anew here, written in one transaction; from the start if anything has changed in between.
    pub async fn rotate_key(&self) -> Result<usize> {
        for _ in 0..ROTATE_TRIES {
            let before = self.follow_key().await?;
            let rotation = self.keyring.rotation()?;
            let rows = self.all(As::Dispatcher, Again::Safe, SELECT_SEALED, &[]).await?;
            let (mut ids, mut tokens, mut addresses, mut fingerprints) =
                (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let (mut tokens_before, mut addresses_before) =
                (Vec::<&[u8]>::new(), Vec::<Option<&[u8]>>::new());
            for row in &rows {
                let (workspace, id) = (WorkspaceId(row.get(0)), AccountId(row.get(1)));
                if let Some(new) = rotation.reseal(workspace, id, row.get(2), row.get(3)) {
                    ids.push(id.0);
                    tokens_before.push(row.get(2));
                    addresses_before.push(row.get(3));
                    tokens.push(new.token);
                    addresses.push(new.addresses);
                    fingerprints.push(new.fingerprint);
                }
            }
            let sources = self.all(As::Dispatcher, Again::Safe, super::sources::SELECT_SEALED, &[]).await?;
            let source_ids: Vec<i64> = sources.iter().map(|row| row.get(1)).collect();
            let sources_before: Vec<&[u8]> = sources.iter().map(|row| row.get(2)).collect();
            let reseal = |row: &tokio_postgres::Row| {
                rotation.reseal_source(WorkspaceId(row.get(0)), SourceId(row.get(1)), row.get(2))
            };
            let sources_after: Vec<Vec<u8>> = sources.iter().map(reseal).collect();
            let untouched = (rows.len() - ids.len()) as i64;
            let after = rotation.check();
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 12] = [
                &before,
                &after,
                &ids,
                &tokens_before,
                &addresses_before,
                &tokens,
                &addresses,
                &fingerprints,
                &untouched,
                &source_ids,
                &sources_before,
                &sources_after,
            ];
            match self.first(As::Dispatcher, Again::Never, ROTATE_KEY, &params).await {
                Ok(_) => {
                    self.keyring.rotated(&rotation)?;
                    return Ok(ids.len());
                }
                Err(StoreError::Database(problem)) if problem.ends_with("(RU006)") => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Busy {
            address: self.pool.address().to_owned(),
            problem: "accounts and sources change all the time; run it again in a quieter moment".into(),
        })
    }

    pub async fn accounts(&self, workspace: WorkspaceId) -> Result<Vec<Account>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_ACCOUNTS, &[&workspace.0]).await?;
        Ok(rows.iter().map(|row| self.keyring.open_addresses(rows::account(row), row.get(19))).collect())
    }

    pub async fn account_token(&self, workspace: WorkspaceId, id: AccountId) -> Result<SecretString> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_TOKEN, &[&workspace.0, &id.0]).await?;
        let sealed: Vec<u8> = row.ok_or_else(|| StoreError::unknown_account(id))?.get(0);
        self.keyring.open_token(workspace, id, &sealed)
    }

    pub async fn pause_account(&self, workspace: WorkspaceId, id: AccountId, why: &str) -> Result<()> {
        self.change_account_row(workspace, id, PAUSE, &[&workspace.0, &id.0, &why]).await
    }

    pub async fn resume_account(&self, workspace: WorkspaceId, id: AccountId) -> Result<()> {
        let found: bool =
            self.one(As::App(workspace), Again::Safe, RESUME, &[&workspace.0, &id.0]).await?.get(0);
        if !found {
            return Err(StoreError::unknown_account(id));
        }
        self.ring();
        Ok(())
    }

    /// An unanswered COMMIT is simply paid for again: a slot may be wasted, never used twice.
    pub async fn platform_limit(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
    ) -> Result<Option<PlatformLimit>> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_LIMIT, &[&workspace.0, &id.0]).await?;
        Ok(row.map(|row| PlatformLimit { rate: row.get(0), burst: row.get(1) }))
    }

    pub async fn set_platform_limit(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        limit: Option<PlatformLimit>,
    ) -> Result<()> {
        let changed = match limit {
            Some(limit) => {
                limit.validate()?;
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                    [&workspace.0, &id.0, &limit.rate, &limit.burst];
                self.scoped(workspace, PUT_LIMIT, &params).await?
            }
            None => self.scoped(workspace, DELETE_LIMIT, &[&workspace.0, &id.0]).await?,
        };
        self.ring();
        changed.map(drop).ok_or_else(|| StoreError::unknown_account(id))
    }

    pub async fn reserve(&self, workspace: WorkspaceId, id: AccountId, n: u32) -> Result<Timestamp> {
        let n = i32::try_from(n).unwrap_or(i32::MAX);
        let row = self.one(As::App(workspace), Again::Safe, RESERVE, &[&workspace.0, &id.0, &n]).await?;
        let slot: Option<Time> = row.get(0);
        slot.map(|Time(at)| at).ok_or_else(|| StoreError::unknown_account(id))
    }

    pub async fn reserve_for(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        lanes: Vec<Option<LaneId>>,
        lead: Span,
    ) -> Result<Vec<Timestamp>> {
        let lead_ms = i32::try_from(lead.millis()).unwrap_or(i32::MAX);
        let lanes: Vec<i64> = lanes.iter().map(|lane| lane.map_or(0, |lane| lane.0)).collect();
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&workspace.0, &id.0, &lanes, &lead_ms];
        let row = self.one(As::App(workspace), Again::Safe, RESERVE_FOR, &params).await?;
        let slots: Option<Vec<Time>> = row.get(0);
        let slots = slots.ok_or_else(|| StoreError::unknown_account(id))?;
        Ok(slots.into_iter().map(|Time(at)| at).collect())
    }

    pub async fn reserve_lane(&self, workspace: WorkspaceId, id: LaneId) -> Result<Timestamp> {
        let row = self.one(As::App(workspace), Again::Safe, RESERVE_LANE, &[&workspace.0, &id.0]).await?;
        let slot: Option<Time> = row.get(0);
        slot.map(|Time(at)| at).ok_or_else(|| StoreError::not_found("lane", id))
    }

    async fn change_account_row(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        sql: &'static str,
        params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<()> {
        let queries = [Query { sql: LOCK, params: &[&workspace.0, &id.0] }, Query { sql, params }];
        let changed = self.run(As::App(workspace), Again::Never, &queries).await?;
        let found = changed.last().is_some_and(|rows| !rows.is_empty());
        if found { Ok(()) } else { Err(StoreError::unknown_account(id)) }
    }
}
