//! Audiences: names for people, by a filter or by an import.

use domain::ids::{AudienceId, WorkspaceId};
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::heads::{NewEvent, event};
use super::recipients::{ACCOUNT_PLATFORM, put};
use super::{Sqlite, Urgency, rows};
use crate::campaigns::{Audience, ImportedPeople};
use crate::error::{Result, StoreError};
use crate::recipients::{PutRecipient, checked};

const INSERT: &str = "
INSERT INTO audiences (workspace_id, name, filter, created_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO NOTHING";
const SELECT: &str = "
SELECT audience_id, name, filter, import, n_people, created_at
  FROM audiences
 WHERE workspace_id = ?1
 ORDER BY name";
const JOIN: &str = "
INSERT INTO audience_recipients (workspace_id, audience_id, recipient_id) VALUES (?1, ?2, ?3)
ON CONFLICT DO NOTHING";
const IMPORTED: &str = "
UPDATE audiences
   SET import = coalesce(?3, import), n_people = n_people + ?4
 WHERE workspace_id = ?1 AND audience_id = ?2 AND filter IS NULL";

impl Sqlite {
    pub async fn create_audience(
        &self,
        workspace: WorkspaceId,
        name: &str,
        filter: Option<Value>,
    ) -> Result<AudienceId> {
        let name = name.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            let filter = filter.map(|filter| filter.to_string());
            if tx.execute(INSERT, (workspace.0, &name, filter, tx.now.0))? == 0 {
                return Err(StoreError::Exists { what: "audience", name });
            }
            let id = AudienceId(tx.connection.last_insert_rowid());
            let detail = json!({"audience": id.0, "name": name});
            let told =
                NewEvent { workspace_id: workspace.0, name: "config_changed", detail, ..NewEvent::default() };
            event(tx, told)?;
            Ok(id)
        })
        .await
    }

    pub async fn audiences(&self, workspace: WorkspaceId) -> Result<Vec<Audience>> {
        self.read(move |tx| {
            tx.all(SELECT, [workspace.0], |row| {
                let filter: Option<String> = row.get(2)?;
                Ok(Audience {
                    audience_id: AudienceId(row.get(0)?),
                    name: row.get(1)?,
                    filter: filter.map(|_| rows::json(row, 2)).transpose()?,
                    import: rows::json(row, 3)?,
                    people: row.get(4)?,
                    created_at: Timestamp(row.get(5)?),
                })
            })
        })
        .await
    }

    pub async fn import_people(
        &self,
        workspace: WorkspaceId,
        step: ImportedPeople,
    ) -> Result<Vec<PutRecipient>> {
        let people = checked(step.people)?;
        self.write(Urgency::Maintenance, move |tx| {
            let account = step.account_id;
            let platform: String = tx
                .first(ACCOUNT_PLATFORM, (workspace.0, account.0), |row| row.get(0))?
                .ok_or_else(|| StoreError::unknown_account(account))?;
            let mut made = Vec::with_capacity(people.len());
            let mut joined = 0;
            for person in &people {
                let one = put(tx, workspace, account, &platform, person)?;
                joined += tx.execute(JOIN, (workspace.0, step.audience_id.0, one.recipient_id.0))?;
                made.push(one);
            }
            let done = (
                workspace.0,
                step.audience_id.0,
                step.import.map(|import| import.to_string()),
                joined as i64,
            );
            match tx.execute(IMPORTED, done)? {
                0 => Err(StoreError::not_found("audience", step.audience_id)),
                _ => Ok(made),
            }
        })
        .await
    }
}
