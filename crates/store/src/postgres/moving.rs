//! A channel that goes on with another account: its queue, and what it has said, go along.

use domain::ids::{AccountId, ChannelId, WorkspaceId};

use super::{Again, As, Postgres};
use crate::error::{Result, StoreError};

const MOVE: &str = "SELECT move_channel($1, $2, $3, $4)";

pub(super) const STATEMENTS: &[&str] = &[MOVE];

impl Postgres {
    pub async fn move_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        account: AccountId,
        target: &str,
    ) -> Result<ChannelId> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&workspace.0, &id.0, &account.0, &target];
        let row = self.one(As::App(workspace), Again::Never, MOVE, &params).await?;
        let moved: Option<i64> = row.get(0);
        self.ring();
        moved.map(ChannelId).ok_or_else(|| StoreError::unknown_channel(id))
    }
}
