//! Workspaces, the kill switches, and the doors of a workspace.

use domain::ids::{EndpointId, WorkspaceId};
use domain::time::Span;
use secrecy::SecretString;
use serde_json::json;

use super::heads::{NewEvent, Touched, event};
use super::{Sqlite, Tx, Urgency, rows};
use crate::config::{Actor, Endpoint, Epoch, NewEndpoint, Workspace, retired, secret_hash};
use crate::error::{Result, StoreError};

const INSERT_WORKSPACE: &str =
    "INSERT INTO workspaces (name, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const SELECT_WORKSPACES: &str = "SELECT workspace_id, name, held FROM workspaces ORDER BY workspace_id";
const WORKSPACE_EXISTS: &str = "SELECT 1 FROM workspaces WHERE workspace_id = ?1";
const HOLD_WORKSPACE: &str = "UPDATE workspaces SET held = ?2 WHERE workspace_id = ?1";
/// A held workspace shows no heads but of who speaks of trouble, so a claim does not even see it.
const HOLD_HEADS: &str = "
UPDATE account_heads
   SET open = (SELECT NOT a.paused AND (NOT ?2 OR a.tier = 'alerts') FROM accounts AS a WHERE a.account_id = account_heads.account_id)
 WHERE workspace_id = ?1
RETURNING account_id";
const HOLD_ALL: &str = "UPDATE control SET held = ?1, held_why = ?2";
pub(super) const TELL_ALL: &str = "
INSERT INTO events (workspace_id, at, name, detail)
SELECT workspace_id, ?1, ?2, ?3 FROM workspaces ORDER BY workspace_id";
const SELECT_HELD: &str = "SELECT held_why FROM control WHERE held = 1";
const SELECT_EPOCH: &str = "SELECT epoch FROM control";
const SET_EPOCH: &str = "UPDATE control SET epoch = ?1";
const INSERT_ENDPOINT: &str = "
INSERT INTO workspace_endpoints (workspace_id, name, kind, secret_hash, settings, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING";
const ENABLE_ENDPOINT: &str =
    "UPDATE workspace_endpoints SET enabled = ?3 WHERE workspace_id = ?1 AND endpoint_id = ?2";

const SECRET_TAKEN: &str = "
SELECT 1 FROM workspace_endpoints WHERE ?1 IN (secret_hash, old_secret_hash) AND endpoint_id <> ?2";
const SECRET_RETIRED: &str = "
SELECT 1 FROM workspace_endpoints WHERE workspace_id = ?1 AND endpoint_id = ?2 AND old_secret_hash = ?3";
const CHANGE_ENDPOINT: &str = "
UPDATE workspace_endpoints
   SET old_secret_hash = CASE WHEN secret_hash <> ?3 THEN secret_hash ELSE old_secret_hash END,
       old_secret_until = CASE WHEN secret_hash <> ?3 THEN ?5 ELSE old_secret_until END,
       secret_hash = ?3, settings = ?4
 WHERE workspace_id = ?1 AND endpoint_id = ?2";
const OPENED_BY: &str = "
SELECT secret_hash = ?3 OR (coalesce(old_secret_hash, '') = ?3 AND old_secret_until > ?4)
  FROM workspace_endpoints
 WHERE workspace_id = ?1 AND endpoint_id = ?2";

impl Sqlite {
    pub async fn create_workspace(&self, name: &str) -> Result<WorkspaceId> {
        let name = name.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            if name.trim().is_empty() || name.chars().count() > 200 {
                return Err(StoreError::invalid("workspace", "a name has 1 to 200 characters"));
            }
            if tx.execute(INSERT_WORKSPACE, (&name, tx.now.0))? == 0 {
                return Err(StoreError::Exists { what: "workspace", name });
            }
            Ok(WorkspaceId(tx.connection.last_insert_rowid()))
        })
        .await
    }

    pub async fn workspaces(&self) -> Result<Vec<Workspace>> {
        self.read(|tx| {
            tx.all(SELECT_WORKSPACES, [], |row| {
                Ok(Workspace { workspace_id: WorkspaceId(row.get(0)?), name: row.get(1)?, held: row.get(2)? })
            })
        })
        .await
    }

    pub async fn hold_workspace(&self, workspace: WorkspaceId, held: bool) -> Result<()> {
        self.write(Urgency::Outcome, move |tx| {
            if tx.execute(HOLD_WORKSPACE, (workspace.0, held))? == 0 {
                return Err(StoreError::unknown_workspace(workspace));
            }
            let mut touched = Touched::default();
            for account_id in tx.all(HOLD_HEADS, (workspace.0, held), |row| row.get(0))? {
                touched.account(account_id);
            }
            touched.refresh(tx)?;
            let name = if held { "held" } else { "released" };
            event(tx, NewEvent { workspace_id: workspace.0, name, ..NewEvent::default() })
        })
        .await?;
        self.bell.ring();
        Ok(())
    }

    pub async fn hold_all(&self, why: Option<&str>) -> Result<()> {
        let done = match self.hold_once(why).await {
            // The kill switch has space laid by.
            Err(StoreError::DiskFull { .. }) if super::disk::drop_ballast(&self.path) => {
                tracing::warn!("the disk is full; the ballast was thrown away for the kill switch");
                self.hold_once(why).await
            }
            done => done,
        };
        done?;
        self.bell.ring();
        Ok(())
    }

    async fn hold_once(&self, why: Option<&str>) -> Result<()> {
        let why = why.map(str::to_owned);
        self.write(Urgency::Outcome, move |tx| {
            tx.execute(HOLD_ALL, (why.is_some(), &why))?;
            let name = if why.is_some() { "held" } else { "released" };
            let detail = Actor::sign(tx.actor, json!({"everything": true, "why": why}));
            tx.execute(TELL_ALL, (tx.now.0, name, detail.to_string())).map(drop)
        })
        .await
    }

    pub async fn held(&self) -> Result<Option<String>> {
        let held = self.read(|tx| tx.first(SELECT_HELD, [], |row| row.get::<_, Option<String>>(0))).await?;
        Ok(held.map(Option::unwrap_or_default))
    }

    pub async fn epoch(&self) -> Result<Option<Epoch>> {
        let text = self.read(|tx| tx.first(SELECT_EPOCH, [], |row| row.get::<_, Option<String>>(0))).await?;
        Ok(text.flatten().as_deref().and_then(Epoch::parse))
    }

    pub async fn advance_epoch(&self, at_least: i64) -> Result<Epoch> {
        self.write(Urgency::Maintenance, move |tx| {
            let text = tx.first(SELECT_EPOCH, [], |row| row.get::<_, Option<String>>(0))?.flatten();
            let epoch = text.as_deref().and_then(Epoch::parse).unwrap_or_else(Epoch::first).next(at_least);
            tx.execute(SET_EPOCH, [epoch.to_string()])?;
            Ok(epoch)
        })
        .await
    }

    pub async fn create_endpoint(&self, workspace: WorkspaceId, new: NewEndpoint) -> Result<EndpointId> {
        self.write(Urgency::Maintenance, move |tx| {
            require_workspace(tx, workspace)?;
            let hash = secret_hash(&new.secret);
            let taken = tx.first(SECRET_TAKEN, (&hash, 0), |_| Ok(()))?.is_some();
            let params = (workspace.0, &new.name, &new.kind, hash, new.settings.to_string(), tx.now.0);
            if taken || tx.execute(INSERT_ENDPOINT, params)? == 0 {
                return Err(StoreError::Exists { what: "endpoint (its name or its secret)", name: new.name });
            }
            let id = EndpointId(tx.connection.last_insert_rowid());
            config_changed(tx, workspace, json!({"endpoint": id.0, "name": new.name}))?;
            Ok(id)
        })
        .await
    }

    pub async fn endpoints(&self, workspace: WorkspaceId) -> Result<Vec<Endpoint>> {
        let sql = format!(
            "SELECT {} FROM workspace_endpoints WHERE workspace_id = ?1 ORDER BY endpoint_id",
            rows::ENDPOINT_COLUMNS
        );
        self.read(move |tx| tx.all(&sql, [workspace.0], rows::endpoint)).await
    }

    pub async fn endpoint_by_secret(&self, secret: &SecretString) -> Result<Option<Endpoint>> {
        let sql = format!(
            "SELECT {} FROM workspace_endpoints
              WHERE (secret_hash = ?1 OR (old_secret_hash = ?1 AND old_secret_until > ?2)) AND enabled = 1",
            rows::ENDPOINT_COLUMNS
        );
        let hash = secret_hash(secret);
        self.read(move |tx| tx.first(&sql, (hash, tx.now.0), rows::endpoint)).await
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
        self.write(Urgency::Maintenance, move |tx| {
            if tx.first(SECRET_RETIRED, (workspace.0, id.0, &hash), |_| Ok(()))?.is_some() {
                return Err(retired());
            }
            if tx.first(SECRET_TAKEN, (&hash, id.0), |_| Ok(()))?.is_some() {
                return Err(StoreError::Exists { what: "the secret of endpoint", name: id.to_string() });
            }
            if tx.execute(
                CHANGE_ENDPOINT,
                (workspace.0, id.0, hash, settings.to_string(), (tx.now + overlap).0),
            )? == 0
            {
                return Err(StoreError::not_found("endpoint", id));
            }
            config_changed(tx, workspace, json!({"endpoint": id.0}))
        })
        .await
    }

    pub async fn endpoint_opens(
        &self,
        workspace: WorkspaceId,
        id: EndpointId,
        secret: &SecretString,
    ) -> Result<bool> {
        let hash = secret_hash(secret);
        let opens =
            self.read(move |tx| tx.first(OPENED_BY, (workspace.0, id.0, hash, tx.now.0), |row| row.get(0)));
        opens.await?.ok_or_else(|| StoreError::not_found("endpoint", id))
    }

    pub async fn enable_endpoint(&self, workspace: WorkspaceId, id: EndpointId, enabled: bool) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            if tx.execute(ENABLE_ENDPOINT, (workspace.0, id.0, enabled))? == 0 {
                return Err(StoreError::not_found("endpoint", id));
            }
            config_changed(tx, workspace, json!({"endpoint": id.0, "enabled": enabled}))
        })
        .await
    }
}

pub(super) fn require_workspace(tx: &Tx<'_>, workspace: WorkspaceId) -> Result<()> {
    match tx.first(WORKSPACE_EXISTS, [workspace.0], |_| Ok(()))? {
        Some(()) => Ok(()),
        None => Err(StoreError::unknown_workspace(workspace)),
    }
}

pub(super) fn config_changed(tx: &Tx<'_>, workspace: WorkspaceId, detail: serde_json::Value) -> Result<()> {
    event(tx, NewEvent { workspace_id: workspace.0, name: "config_changed", detail, ..NewEvent::default() })
}
