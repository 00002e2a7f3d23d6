//! Quiet hours become closed lanes: looks at the channels every few seconds and shuts those whose hours have begun.
//! A lane opens by itself when its time has come, also if no node looks any more.

use std::collections::HashMap;
use std::time::Duration;

use domain::ids::ChannelId;
use domain::time::Timestamp;
use store::Store;

use crate::config::quiet::closed_until;

/// So late may quiet hours begin.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Keeps quiet hours until it is dropped.
pub(crate) async fn keep(store: Store) {
    let mut shut = Shut::default();
    loop {
        if let Err(error) = shut.look(&store).await {
            tracing::warn!(
                error = format!("{error:#}"),
                "quiet hours could not be kept; the next look tries again"
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Until when each channel was shut by us, so that only changes are written.
#[derive(Debug, Default)]
pub(crate) struct Shut {
    until: HashMap<ChannelId, Timestamp>,
}

impl Shut {
    /// One look at all channels.
    pub(crate) async fn look(&mut self, store: &Store) -> anyhow::Result<()> {
        let now = store.now().await?;
        for workspace in store.workspaces().await? {
            for channel in store.channels(workspace.workspace_id).await? {
                let id = channel.channel_id;
                let wanted = closed_until(&channel.settings, now).unwrap_or(Timestamp(0));
                // What we shut until a moment that has passed is open already.
                let known = self.until.get(&id).copied().filter(|until| *until > now).unwrap_or(Timestamp(0));
                if wanted != known {
                    store.close_channel_until(workspace.workspace_id, id, wanted).await?;
                    self.until.insert(id, wanted);
                }
            }
        }
        Ok(())
    }
}
