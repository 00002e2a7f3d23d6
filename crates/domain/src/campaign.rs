//! The life of a campaign: its states and the arrows between them.
//!
//! ```text
//! draft → scheduled → preparing → running ⇄ paused → finishing → finished
//! any that is not over → cancelling → cancelled | aborted        finished | aborted ─ retry → preparing
//! ```

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CampaignStatus {
    Draft,
    /// Starts by itself at its time.
    Scheduled,
    /// Who gets it is being written down.
    Preparing,
    Running,
    /// Nothing leaves until somebody resumes.
    Paused,
    /// Nobody waits any more; what is on its way ends.
    Finishing,
    Finished,
    Cancelling,
    Cancelled,
    /// Ended by its deadline or by a guard.
    Aborted,
}

impl CampaignStatus {
    pub const ALL: [CampaignStatus; 10] = [
        CampaignStatus::Draft,
        CampaignStatus::Scheduled,
        CampaignStatus::Preparing,
        CampaignStatus::Running,
        CampaignStatus::Paused,
        CampaignStatus::Finishing,
        CampaignStatus::Finished,
        CampaignStatus::Cancelling,
        CampaignStatus::Cancelled,
        CampaignStatus::Aborted,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            CampaignStatus::Draft => "draft",
            CampaignStatus::Scheduled => "scheduled",
            CampaignStatus::Preparing => "preparing",
            CampaignStatus::Running => "running",
            CampaignStatus::Paused => "paused",
            CampaignStatus::Finishing => "finishing",
            CampaignStatus::Finished => "finished",
            CampaignStatus::Cancelling => "cancelling",
            CampaignStatus::Cancelled => "cancelled",
            CampaignStatus::Aborted => "aborted",
        }
    }

    pub fn parse(text: &str) -> Option<CampaignStatus> {
        CampaignStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Over, unless somebody tries again with those who failed.
    pub fn is_over(self) -> bool {
        matches!(self, CampaignStatus::Finished | CampaignStatus::Cancelled | CampaignStatus::Aborted)
    }

    /// Whether requests may leave.
    pub fn is_open(self) -> bool {
        matches!(self, CampaignStatus::Running | CampaignStatus::Finishing)
    }

    pub fn may_become(self, next: CampaignStatus) -> bool {
        use CampaignStatus::*;
        match self {
            Draft => matches!(next, Scheduled | Preparing | Cancelled),
            Scheduled => matches!(next, Preparing | Draft | Cancelled | Aborted),
            Preparing => matches!(next, Running | Paused | Cancelling),
            Running => matches!(next, Paused | Finishing | Cancelling),
            Paused => matches!(next, Preparing | Running | Cancelling),
            Finishing => matches!(next, Finished | Running | Paused | Cancelling),
            Finished | Aborted => next == Preparing,
            Cancelling => matches!(next, Cancelled | Aborted),
            Cancelled => false,
        }
    }
}

impl std::fmt::Display for CampaignStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_a_campaign_that_is_over_but_a_new_wave() {
        for status in CampaignStatus::ALL.into_iter().filter(|status| status.is_over()) {
            let next: Vec<_> =
                CampaignStatus::ALL.into_iter().filter(|next| status.may_become(*next)).collect();
            match status {
                CampaignStatus::Cancelled => assert_eq!(next, []),
                _ => assert_eq!(next, [CampaignStatus::Preparing]),
            }
        }
    }

    #[test]
    fn every_state_reads_back_and_everything_that_runs_can_be_cancelled() {
        for status in CampaignStatus::ALL {
            assert_eq!(CampaignStatus::parse(status.as_str()), Some(status));
            let ends =
                status.may_become(CampaignStatus::Cancelling) || status.may_become(CampaignStatus::Cancelled);
            assert!(ends || status.is_over(), "{status}");
        }
    }
}
