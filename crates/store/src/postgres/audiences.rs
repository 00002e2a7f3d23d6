//! Audiences: names for people, by a filter or by an import.

use domain::ids::{AudienceId, RecipientId, WorkspaceId};
use serde_json::Value;
use tokio_postgres::types::ToSql;

use super::recipients::ACCOUNT_PLATFORM;
use super::{Again, As, Postgres, rows};
use crate::campaigns::{Audience, ImportedPeople};
use crate::error::{Result, StoreError};
use crate::recipients::{NewRecipient, PutRecipient, checked};

const INSERT: &str = "
WITH made AS (
    INSERT INTO audiences (workspace_id, name, filter, created_at) VALUES ($1, $2, $3, rupor_now())
    ON CONFLICT DO NOTHING
    RETURNING audience_id
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('audience', m.audience_id, 'name', $2::text) FROM made AS m
)
SELECT audience_id FROM made";
const SELECT: &str = "
SELECT audience_id, name, filter, import, n_people, created_at
  FROM audiences
 WHERE workspace_id = $1
 ORDER BY name";
/// The same as `put_recipients`, with the audience and how far the file has come in one statement.
const IMPORT: &str = "
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
), joined AS (
    INSERT INTO audience_recipients (workspace_id, audience_id, recipient_id)
    SELECT $1, $10, put.recipient_id FROM put ORDER BY put.recipient_id
    ON CONFLICT DO NOTHING
    RETURNING recipient_id
), counted AS (
    UPDATE audiences AS a
       SET import = coalesce($11, a.import), n_people = a.n_people + (SELECT count(*) FROM joined)
     WHERE a.workspace_id = $1 AND a.audience_id = $10 AND a.filter IS NULL
    RETURNING a.audience_id
)
SELECT put.recipient_id, put.created AND p.ord = min(p.ord) OVER (PARTITION BY p.user_id)
  FROM counted CROSS JOIN unnest($4::text[]) WITH ORDINALITY AS p (user_id, ord) JOIN put ON put.user_id = p.user_id
 ORDER BY p.ord";
const IMPORTED_NOBODY: &str = "
UPDATE audiences SET import = coalesce($3, import) WHERE workspace_id = $1 AND audience_id = $2 AND filter IS NULL RETURNING audience_id";

pub(super) const STATEMENTS: &[&str] = &[INSERT, SELECT, IMPORT, IMPORTED_NOBODY];

impl Postgres {
    pub async fn create_audience(
        &self,
        workspace: WorkspaceId,
        name: &str,
        filter: Option<Value>,
    ) -> Result<AudienceId> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &name, &filter];
        let row = self.first(As::App(workspace), Again::Never, INSERT, &params).await?;
        let exists = || StoreError::Exists { what: "audience", name: name.to_owned() };
        Ok(AudienceId(row.ok_or_else(exists)?.get(0)))
    }

    pub async fn audiences(&self, workspace: WorkspaceId) -> Result<Vec<Audience>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT, &[&workspace.0]).await?;
        Ok(rows
            .iter()
            .map(|row| Audience {
                audience_id: AudienceId(row.get(0)),
                name: row.get(1),
                filter: row.get(2),
                import: row.get(3),
                people: row.get(4),
                created_at: rows::at(row, 5),
            })
            .collect())
    }

    /// Twice is once, but then everybody counts as known: it is not done again by itself.
    pub async fn import_people(
        &self,
        workspace: WorkspaceId,
        step: ImportedPeople,
    ) -> Result<Vec<PutRecipient>> {
        let people = &checked(step.people)?;
        let account = step.account_id;
        let platform = self.scoped(workspace, ACCOUNT_PLATFORM, &[&workspace.0, &account.0]).await?;
        let platform: String = platform.ok_or_else(|| StoreError::unknown_account(account))?.get(0);
        let missing = || StoreError::not_found("audience", step.audience_id);
        if people.is_empty() {
            let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &step.audience_id.0, &step.import];
            let done = self.first(As::App(workspace), Again::Safe, IMPORTED_NOBODY, &params).await?;
            return done.map(|_| Vec::new()).ok_or_else(missing);
        }
        let text = |of: fn(&NewRecipient) -> &str| people.iter().map(of).collect::<Vec<&str>>();
        let (user_ids, addresses) = (text(|p| &p.user_id), text(|p| &p.address));
        let (statuses, sources) = (text(|p| p.status.as_str()), text(|p| &p.source));
        let attributes: Vec<&Value> = people.iter().map(|p| &p.attributes).collect();
        let zones: Vec<Option<&str>> = people.iter().map(|p| p.time_zone.as_deref()).collect();
        let params: [&(dyn ToSql + Sync); 11] = [
            &workspace.0,
            &account.0,
            &platform,
            &user_ids,
            &addresses,
            &attributes,
            &zones,
            &statuses,
            &sources,
            &step.audience_id.0,
            &step.import,
        ];
        let rows = self.all(As::App(workspace), Again::Never, IMPORT, &params).await?;
        if rows.is_empty() {
            return Err(missing());
        }
        let made = |row: &tokio_postgres::Row| PutRecipient {
            recipient_id: RecipientId(row.get(0)),
            created: row.get(1),
        };
        Ok(rows.iter().map(made).collect())
    }
}
