//! Workspaces, the kill switches, and the doors of a workspace.

use domain::ids::{EndpointId, WorkspaceId};
use domain::time::Span;
use secrecy::SecretString;

use super::{Again, As, Postgres, rows};
use crate::config::{Endpoint, Epoch, NewEndpoint, Workspace, retired, secret_hash};
use crate::error::{Result, StoreError};

const INSERT_WORKSPACE: &str = "INSERT INTO workspaces (name, created_at) VALUES ($1, rupor_now()) ON CONFLICT DO NOTHING RETURNING workspace_id";
const SELECT_WORKSPACES: &str = "SELECT workspace_id, name, held FROM workspaces ORDER BY workspace_id";
/// The heads follow by trigger: a held workspace shows none, so a claim does not even see it.
const HOLD_WORKSPACE: &str = "
WITH held AS (
    UPDATE workspaces SET held = $2 WHERE workspace_id = $1 RETURNING workspace_id
), told AS (
    INSERT INTO events (workspace_id, at, name)
    SELECT workspace_id, rupor_now(), CASE WHEN $2 THEN 'held' ELSE 'released' END FROM held
)
SELECT workspace_id FROM held";
const HOLD_ALL: &str = "
WITH held AS (
    UPDATE control SET held = $1::text IS NOT NULL, held_why = $1 RETURNING one
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT w.workspace_id, rupor_now(), CASE WHEN $1 IS NULL THEN 'released' ELSE 'held' END,
       jsonb_build_object('everything', true, 'why', $1)
  FROM held CROSS JOIN workspaces AS w
 ORDER BY w.workspace_id";
const SELECT_HELD: &str = "SELECT held_why FROM control WHERE held";
const SELECT_EPOCH: &str = "SELECT epoch FROM control";
const ADVANCE_EPOCH: &str = "
UPDATE control
   SET epoch = split_part(coalesce(epoch, $1), ':', 1) || ':'
            || greatest(split_part(coalesce(epoch, $1), ':', 2)::bigint, $2) + 1
RETURNING epoch";
const INSERT_ENDPOINT: &str = "
WITH made AS (
    INSERT INTO workspace_endpoints (workspace_id, name, kind, secret_hash, settings, created_at)
    VALUES ($1, $2, $3, $4, $5, rupor_now())
    ON CONFLICT DO NOTHING
    RETURNING endpoint_id
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('endpoint', endpoint_id, 'name', $2::text) FROM made
)
SELECT endpoint_id FROM made";
const CHANGE_ENDPOINT: &str = "
WITH changed AS (
    UPDATE workspace_endpoints
       SET old_secret_hash = CASE WHEN secret_hash <> $3 THEN secret_hash ELSE old_secret_hash END,
           old_secret_until = CASE WHEN secret_hash <> $3 THEN rupor_now() + rupor_span($5) ELSE old_secret_until END,
           secret_hash = $3, settings = $4
     WHERE workspace_id = $1 AND endpoint_id = $2
    RETURNING endpoint_id
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('endpoint', endpoint_id) FROM changed
)
SELECT endpoint_id FROM changed";
const SECRET_RETIRED: &str = "
SELECT 1 FROM workspace_endpoints WHERE workspace_id = $1 AND endpoint_id = $2 AND old_secret_hash = $3";
const OPENED_BY: &str = "
SELECT secret_hash = $3 OR (coalesce(old_secret_hash, '') = $3 AND old_secret_until > rupor_now())
  FROM workspace_endpoints
 WHERE workspace_id = $1 AND endpoint_id = $2";
const SELECT_ENDPOINTS: &str = concat!(
    "SELECT ",
    rows::endpoint_columns!(),
    " FROM workspace_endpoints WHERE workspace_id = $1 ORDER BY endpoint_id"
);
const ENDPOINT_BY_SECRET: &str =
    concat!("SELECT ", rows::endpoint_columns!(), " FROM endpoint_by_secret($1)");
const ENABLE_ENDPOINT: &str = "
WITH changed AS (
    UPDATE workspace_endpoints SET enabled = $3 WHERE workspace_id = $1 AND endpoint_id = $2 RETURNING endpoint_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('endpoint', endpoint_id, 'enabled', $3::boolean) FROM changed
RETURNING event_id";

pub(super) const STATEMENTS: &[&str] = &[
    INSERT_WORKSPACE,
    SELECT_WORKSPACES,
    HOLD_WORKSPACE,
    HOLD_ALL,
    SELECT_HELD,
    SELECT_EPOCH,
    ADVANCE_EPOCH,
    INSERT_ENDPOINT,
    CHANGE_ENDPOINT,
    SECRET_RETIRED,
    OPENED_BY,
    SELECT_ENDPOINTS,
    ENDPOINT_BY_SECRET,
    ENABLE_ENDPOINT,
];

impl Postgres {
    pub async fn create_workspace(&self, name: &str) -> Result<WorkspaceId> {
        if name.trim().is_empty() || name.chars().count() > 200 {
            return Err(StoreError::invalid("workspace", "a name has 1 to 200 characters"));
        }
        let made = self.first(As::Dispatcher, Again::Never, INSERT_WORKSPACE, &[&name]).await?;
        match made {
            Some(row) => Ok(WorkspaceId(row.get(0))),
            None => Err(StoreError::Exists { what: "workspace", name: name.to_owned() }),
        }
    }

    pub async fn workspaces(&self) -> Result<Vec<Workspace>> {
        let rows = self.all(As::Dispatcher, Again::Safe, SELECT_WORKSPACES, &[]).await?;
        let workspace = |row: &tokio_postgres::Row| Workspace {
            workspace_id: WorkspaceId(row.get(0)),
            name: row.get(1),
            held: row.get(2),
        };
        Ok(rows.iter().map(workspace).collect())
    }

    pub async fn hold_workspace(&self, workspace: WorkspaceId, held: bool) -> Result<()> {
        let told = self.first(As::Dispatcher, Again::Safe, HOLD_WORKSPACE, &[&workspace.0, &held]).await?;
        told.ok_or_else(|| StoreError::unknown_workspace(workspace))?;
        self.ring();
        Ok(())
    }

    pub async fn hold_all(&self, why: Option<&str>) -> Result<()> {
        self.all(As::Dispatcher, Again::Safe, HOLD_ALL, &[&why]).await?;
        self.ring();
        Ok(())
    }

    pub async fn held(&self) -> Result<Option<String>> {
        let held = self.first(As::Dispatcher, Again::Safe, SELECT_HELD, &[]).await?;
        Ok(held.map(|row| row.get::<_, Option<String>>(0).unwrap_or_default()))
    }

    pub async fn epoch(&self) -> Result<Option<Epoch>> {
        let row = self.one(As::Dispatcher, Again::Safe, SELECT_EPOCH, &[]).await?;
        Ok(row.get::<_, Option<&str>>(0).and_then(Epoch::parse))
    }

    pub async fn advance_epoch(&self, at_least: i64) -> Result<Epoch> {
        let first = Epoch::first().to_string();
        let row = self.one(As::Dispatcher, Again::Safe, ADVANCE_EPOCH, &[&first, &at_least]).await?;
        let text: &str = row.get(0);
        Epoch::parse(text).ok_or_else(|| StoreError::Database(format!("control: bad epoch {text:?}")))
    }

    pub async fn create_endpoint(&self, workspace: WorkspaceId, new: NewEndpoint) -> Result<EndpointId> {
        let hash = secret_hash(&new.secret);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&workspace.0, &new.name, &new.kind, &hash, &new.settings];
        let made = match self.scoped(workspace, INSERT_ENDPOINT, &params).await {
            Err(StoreError::Database(problem)) if problem.ends_with("(23505)") => None,
            other => other?,
        };
        match made {
            Some(row) => Ok(EndpointId(row.get(0))),
            None => Err(StoreError::Exists { what: "endpoint (its name or its secret)", name: new.name }),
        }
    }

    pub async fn endpoints(&self, workspace: WorkspaceId) -> Result<Vec<Endpoint>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_ENDPOINTS, &[&workspace.0]).await?;
        Ok(rows.iter().map(rows::endpoint).collect())
    }

    pub async fn endpoint_by_secret(&self, secret: &SecretString) -> Result<Option<Endpoint>> {
        let hash = secret_hash(secret);
        let row = self.first(As::Dispatcher, Again::Safe, ENDPOINT_BY_SECRET, &[&hash]).await?;
        Ok(row.as_ref().map(rows::endpoint))
    }

    pub async fn change_endpoint(
        &self,
        workspace: WorkspaceId,
        id: EndpointId,
        secret: &SecretString,
        settings: serde_json::Value,
        overlap: Span,
    ) -> Result<()> {
        let hash = secret_hash(secret);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&workspace.0, &id.0, &hash, &settings, &overlap.0];
        if self.first(As::App(workspace), Again::Safe, SECRET_RETIRED, &params[..3]).await?.is_some() {
            return Err(retired());
        }
        let changed = match self.scoped(workspace, CHANGE_ENDPOINT, &params).await {
            Err(StoreError::Database(problem)) if problem.ends_with("(23505)") => {
                return Err(StoreError::Exists { what: "the secret of endpoint", name: id.to_string() });
            }
            other => other?,
        };
        changed.map(drop).ok_or_else(|| StoreError::not_found("endpoint", id))
    }

    pub async fn endpoint_opens(
        &self,
        workspace: WorkspaceId,
        id: EndpointId,
        secret: &SecretString,
    ) -> Result<bool> {
        let hash = secret_hash(secret);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &id.0, &hash];
        let row = self.first(As::App(workspace), Again::Safe, OPENED_BY, &params).await?;
        row.map(|row| row.get(0)).ok_or_else(|| StoreError::not_found("endpoint", id))
    }

    pub async fn enable_endpoint(&self, workspace: WorkspaceId, id: EndpointId, enabled: bool) -> Result<()> {
        let changed = self.scoped(workspace, ENABLE_ENDPOINT, &[&workspace.0, &id.0, &enabled]).await?;
        changed.map(drop).ok_or_else(|| StoreError::not_found("endpoint", id))
    }

    /// A change of one workspace's rows. A row that refers to a workspace that is not there is that one's error.
    pub(super) async fn scoped(
        &self,
        workspace: WorkspaceId,
        sql: &'static str,
        params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Option<tokio_postgres::Row>> {
        match self.first(As::App(workspace), Again::Never, sql, params).await {
            Err(StoreError::Database(problem)) if problem.ends_with("(23503)") => {
                Err(StoreError::unknown_workspace(workspace))
            }
            other => other,
        }
    }
}
