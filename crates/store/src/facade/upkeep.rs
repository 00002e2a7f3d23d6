//! What the janitor and the configuration ask for beside the queue: retention, worn handles, limits of tiers.

use domain::ids::{AccountId, WorkspaceId};
use domain::time::Span;

use super::Store;
use crate::*;

impl Store {
    /// One step of retention: looks at `limit` rows of each kind from where the walk stands, and removes what is old
    /// and not needed any more. Goes on where the answer says.
    pub async fn retain(
        &self,
        whose: Whose,
        keep: Retention,
        limit: usize,
        walk: Walk,
    ) -> Result<(Removed, Walk)> {
        each!(self, db => db.retain(whose, keep, limit, walk))
    }

    /// One step of forgetting what was said to bots, of every workspace: bodies first, keys and logs after longer. How many
    /// rows changed, and where to go on.
    pub async fn bot_retain(
        &self,
        keep_text: Span,
        keep_keys: Span,
        limit: usize,
        walk: BotWalk,
    ) -> Result<(u64, BotWalk)> {
        each!(self, db => db.bot_retain(keep_text, keep_keys, limit, walk))
    }

    /// The platform refuses the handle: it has expired, whatever was believed.
    pub async fn forget_media_handle(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        sha256: &str,
        kind: &str,
    ) -> Result<()> {
        each!(self, db => db.forget_media_handle(workspace, account, sha256, kind))
    }

    /// What a tier allows the token of this account, beside what the account itself is set to.
    pub async fn platform_limit(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
    ) -> Result<Option<PlatformLimit>> {
        each!(self, db => db.platform_limit(workspace, id))
    }

    /// Sets or takes away what a tier allows; the slower of it and the account's own rate counts from now on.
    pub async fn set_platform_limit(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        limit: Option<PlatformLimit>,
    ) -> Result<()> {
        each!(self, db => db.set_platform_limit(workspace, id, limit))
    }
}
