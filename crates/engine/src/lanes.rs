//! Lanes of campaigns and dialogues, opened with what their platform is good for.
//!
//! The store knows no platform, and who opens a lane should not have to know what is safe after an outcome that nobody
//! knows: one platform recognises our key, another can be read back, a third can do neither. So it is looked up here.

use anyhow::Context;
use domain::delivery::AmbiguityPolicy;
use domain::ids::{LaneId, WorkspaceId};
use store::{LaneOf, LaneSettings, Store};

use crate::addresses;

/// How deliveries queue in a lane, as far as anybody may choose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queueing {
    /// 1 keeps the order.
    pub max_parallel: i32,
    /// Requests a second; `None`: as fast as the account.
    pub rate: Option<f64>,
}

impl Queueing {
    /// One after another: what is said to one person keeps its order.
    pub const DIALOGUE: Queueing = Queueing { max_parallel: 1, rate: None };
}

/// What is safe on a platform after an outcome that nobody knows.
pub fn ambiguity(platform: &str) -> anyhow::Result<AmbiguityPolicy> {
    Ok(addresses::platform(platform)?.facts().ambiguity)
}

/// The lane of a campaign on an account, or of a dialogue; made when it is not there.
pub async fn open(
    store: &Store,
    workspace: WorkspaceId,
    of: LaneOf,
    queueing: Queueing,
) -> anyhow::Result<LaneId> {
    let account_id = match of {
        LaneOf::Campaign(_, account) => account,
        LaneOf::Dialogue(recipient) => store.recipient(workspace, recipient).await?.account_id,
    };
    let accounts = store.accounts(workspace).await?;
    let account = accounts.iter().find(|account| account.account_id == account_id);
    let account = account.with_context(|| format!("account {account_id} is not there any more"))?;
    let settings = LaneSettings {
        max_parallel: queueing.max_parallel,
        rate: queueing.rate,
        ambiguity: ambiguity(&account.platform)?,
    };
    Ok(store.open_lane(workspace, of, settings).await?)
}
