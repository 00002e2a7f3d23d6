//! Posts that wait for a person.

use domain::ids::{ChannelId, MessageId, WorkspaceId};

use super::Store;
use crate::*;

impl Store {
    /// What waits for a person now, in order of message and channel; `after`: what comes after this one.
    pub async fn held_posts(
        &self,
        workspace: WorkspaceId,
        after: Option<(MessageId, ChannelId)>,
        limit: usize,
    ) -> Result<Vec<HeldPost>> {
        let after = after.unwrap_or((MessageId(0), ChannelId(0)));
        each!(self, db => db.held_posts(workspace, after, limit))
    }

    /// Where a message waits or waited for a person, and what became of it, by channel.
    pub async fn held_of(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<HeldPost>> {
        each!(self, db => db.held_of(workspace, id))
    }

    /// Delivers a post where it waits, as if it came now; an error if it waits nowhere.
    pub async fn approve(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<EnqueuedDelivery>> {
        let approved = each!(self, db => db.approve(workspace, id))?;
        self.tally().deliveries(&approved);
        Ok(approved)
    }

    /// The post is not said where it waits; an error if it waits nowhere.
    pub async fn reject(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<ChannelId>> {
        each!(self, db => db.reject(workspace, id))
    }
}
