//! How people ended who did not get a campaign, in maintained counts.

use std::collections::BTreeMap;

use domain::ids::{CampaignId, WorkspaceId};

use super::{ENDED, STOPS};
use crate::error::Result;
use crate::facade::{Store, each};

/// Kinds of endings and exclusions that are counted apart in one campaign; what comes after them counts as `other`.
pub(crate) const CODES_MAX: i64 = 64;
pub(crate) const OTHER: &str = "other";

/// Under what an ending is counted: of what a platform refused also the code that it gave.
pub(crate) fn ending(reason: &str, code: Option<&str>) -> String {
    match (reason, code) {
        ("refused" | "recipient_gone", Some(code)) => format!("{ENDED}{reason}/{code}"),
        _ => format!("{ENDED}{reason}"),
    }
}

impl Store {
    /// How many ended which way, by reason: gone, refused, outcome unknown.
    pub async fn campaign_endings(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
    ) -> Result<BTreeMap<String, i64>> {
        let codes = each!(self, db => db.campaign_codes(workspace, id))?;
        let mut ended = BTreeMap::new();
        for (code, n) in codes {
            if let Some(ending) = code.strip_prefix(ENDED) {
                let reason = ending.split_once('/').map_or(ending, |(reason, _)| reason);
                *ended.entry(reason.to_owned()).or_default() += n;
            }
        }
        Ok(ended)
    }

    /// Why people did not get it who were not left out, counted, by the code that a report has for each of them. Whoever
    /// is tried anew is counted no more, and who was cancelled is not among them.
    pub async fn campaign_failures(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
    ) -> Result<BTreeMap<String, i64>> {
        let codes = each!(self, db => db.campaign_codes(workspace, id))?;
        let mut failed = BTreeMap::new();
        for (code, n) in codes {
            let Some(ending) = code.strip_prefix(ENDED) else { continue };
            if ending != STOPS && ending != "cancelled" {
                let code = ending.split_once('/').map_or(ending, |(_, code)| code);
                *failed.entry(code.to_owned()).or_default() += n;
            }
        }
        failed.retain(|_, n| *n > 0);
        Ok(failed)
    }

    /// Why people were left out, counted.
    pub async fn campaign_exclusions(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
    ) -> Result<BTreeMap<String, i64>> {
        let codes = each!(self, db => db.campaign_codes(workspace, id))?;
        Ok(codes.into_iter().filter(|(code, _)| !code.starts_with(ENDED)).collect())
    }
}
