//! Campaigns as values: what is said to whom, how far it is, and who got it.
//!
//! A row per recipient is the truth. `freeze_campaign` writes them down, `feed_campaign` makes deliveries of the next few,
//! `recall_campaign` takes back what was never claimed. Every change of a campaign's status is one compare-and-set.

mod endings;
mod lots;

use std::collections::{BTreeMap, HashMap};

use domain::campaign::CampaignStatus;
use domain::ids::{AccountId, AudienceId, CampaignId, CohortId, MessageId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use endings::{CODES_MAX, OTHER, ending};

use crate::error::{Result, StoreError};
use crate::facade::{Store, each};
use crate::recipients::{NewRecipient, PutRecipient, Recipient};

pub use lots::LOTS;
pub(crate) use lots::{lot, variant_of};

/// People that one step of a freeze looks at.
pub const FREEZE_MAX: usize = 5_000;
/// The same where one statement writes them all: it keeps other writers waiting for about as long.
pub(crate) const AT_ONCE_MAX: usize = 20_000;
/// Deliveries that one transaction makes or takes back.
pub const FEED_MAX: usize = 500;
/// Deliveries that one lane holds at most: they are made a minute ahead.
pub const AHEAD_MAX: i64 = 10_000;
/// What a count of those who ended badly begins with, beside the reasons of those who were left out.
pub(crate) const ENDED: &str = "ended.";
/// Who stopped while it ran, whether they had got it or not; told among the endings.
pub const STOPS: &str = "stops";
/// Whom a cancel ended; told among the endings.
pub const CANCELLED: &str = "cancelled";

/// The accounts whose part rests, as they stand in the row.
pub(crate) fn resting(written: &Value) -> BTreeMap<AccountId, String> {
    let entry = |(id, why): (&String, &Value)| Some((AccountId(id.parse().ok()?), why.as_str()?.to_owned()));
    written.as_object().into_iter().flatten().filter_map(entry).collect()
}

/// Those that went on, and when: a number instead of a reason.
pub(crate) fn resumed(written: &Value) -> BTreeMap<AccountId, Timestamp> {
    let entry = |(id, at): (&String, &Value)| Some((AccountId(id.parse().ok()?), Timestamp(at.as_i64()?)));
    written.as_object().into_iter().flatten().filter_map(entry).collect()
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audience {
    pub audience_id: AudienceId,
    pub name: String,
    /// `None`: those who were imported.
    pub filter: Option<Value>,
    /// Of which file, and how far it has come.
    pub import: Value,
    /// Imported.
    pub people: i64,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewCampaign {
    pub name: String,
    /// The preferred first.
    pub accounts: Vec<AccountId>,
    /// `None`: everybody on these accounts.
    pub audience_id: Option<AudienceId>,
    pub settings: Value,
    /// Of the lots that decide variant and stage.
    pub seed: String,
    pub min_gap: Span,
    /// After the start, and after the start of each wave; zero: none.
    pub deadline: Span,
    pub variants: Vec<Variant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variant {
    pub name: String,
    pub weight: i32,
    pub message_id: MessageId,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Campaign {
    pub campaign_id: CampaignId,
    pub workspace_id: WorkspaceId,
    pub name: String,
    pub status: CampaignStatus,
    pub why: Option<String>,
    pub version: i64,
    /// What cancelling leads to.
    pub ends_as: CampaignStatus,
    pub audience_id: Option<AudienceId>,
    pub accounts: Vec<AccountId>,
    pub settings: Value,
    pub seed: String,
    pub revision: i32,
    pub wave: i32,
    /// Whom the wave that is being prepared takes.
    pub retries: Value,
    pub at: Person,
    pub min_gap: Span,
    pub starts_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub frozen_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// The first ones have it; the others get it from then on.
    pub rest_at: Option<Timestamp>,
    /// Accounts whose part alone is paused, and why.
    pub resting: BTreeMap<AccountId, String>,
    /// When the part of an account that rested went on.
    pub resumed: BTreeMap<AccountId, Timestamp>,
    /// What had ended when it last went on, as `judge_campaign_from` was told.
    pub judged_from: Value,
    pub variants: Vec<Variant>,
}

/// Where a walk through people stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Person {
    pub platform: String,
    pub user_id: String,
}

/// Maintained; nothing is counted on request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CampaignCounts {
    pub total: i64,
    pub waiting: i64,
    /// Waiting to be claimed for the first time.
    pub queued: i64,
    pub retry: i64,
    pub in_flight: i64,
    pub sent: i64,
    pub failed: i64,
    pub dead: i64,
    pub excluded: i64,
}

impl CampaignCounts {
    /// Those who have a delivery that has not ended.
    pub fn on_their_way(&self) -> i64 {
        self.queued + self.retry + self.in_flight
    }

    /// Everybody has come to an end, and nobody is missing.
    pub fn are_complete(&self) -> bool {
        self.waiting == 0
            && self.on_their_way() == 0
            && self.total == self.excluded + self.sent + self.failed + self.dead
    }
}

/// How far a campaign was at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CampaignNote {
    pub at: Timestamp,
    pub waiting: i64,
    pub on_their_way: i64,
    pub sent: i64,
    pub failed: i64,
    pub dead: i64,
    pub excluded: i64,
}

/// Those who are fed together, with what their lane holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cohort {
    pub cohort_id: CohortId,
    pub account_id: AccountId,
    pub zone: String,
    /// `first` or `rest`.
    pub stage: String,
    pub total: i64,
    pub waiting: i64,
    /// Of its lane: what waits to be claimed or is out.
    pub lane_holds: i64,
    pub lane_sent: i64,
}

/// What the maker of a freeze decided about the people of one step. What is true of their rows the store sees by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FreezeStep {
    /// Where the campaign stood when this was decided; another step that came first makes this one nothing.
    pub after: Person,
    /// Up to here; `None`: as many as fit into a step.
    pub upto: Option<Person>,
    /// There is nobody after `upto`.
    pub is_last: bool,
    /// Not of the audience.
    pub left_out: Vec<RecipientId>,
    /// The words need something that is not known of them.
    pub missing: Vec<RecipientId>,
    /// Out of `LOTS`.
    pub canary: i64,
    /// People of one zone are fed together.
    pub by_zone: bool,
}

/// Some people of one platform in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct PeoplePage {
    /// With whether they are suppressed.
    pub people: Vec<(Recipient, bool)>,
    pub is_last: bool,
}

impl PeoplePage {
    /// Of rows that were cut off at `limit`: the last person may not be whole.
    pub(crate) fn of(mut people: Vec<(Recipient, bool)>, limit: usize) -> PeoplePage {
        let is_last = people.len() < limit;
        let last = people.last().map(|(last, _)| (last.platform.clone(), last.user_id.clone()));
        if let (false, Some((platform, user_id))) = (is_last, last) {
            let is_same = |(row, _): &(Recipient, bool)| row.platform == platform && row.user_id == user_id;
            let whole = people.iter().rposition(|row| !is_same(row)).map_or(people.len(), |n| n + 1);
            people.truncate(whole);
        }
        // A step of the freeze stays on one platform.
        let platform = people.first().map(|(first, _)| first.platform.clone());
        let others = people.iter().position(|(row, _)| Some(&row.platform) != platform.as_ref());
        people.truncate(others.unwrap_or(people.len()));
        PeoplePage { people, is_last: is_last && others.is_none() }
    }

    pub fn upto(&self) -> Option<Person> {
        let (last, _) = self.people.last()?;
        Some(Person { platform: last.platform.clone(), user_id: last.user_id.clone() })
    }
}

/// Of a campaign on one account.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CampaignPace {
    /// Requests a second; `None`: as fast as the account.
    pub rate: Option<f64>,
    /// Its requests may be paid for.
    pub paid: bool,
}

/// Whom a new wave takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retries {
    /// Only those who failed with this code.
    pub code: Option<String>,
    /// Also those of whom nobody knows whether they got it.
    pub unknown: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fed {
    pub queued: u64,
    /// Who may not be written to any more.
    pub excluded: u64,
}

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    pub person: Person,
    pub account_id: AccountId,
    /// `sent failed dead gone excluded cancelled`, and on the way `waiting queued retry sending`.
    pub state: String,
    pub code: Option<String>,
    pub provider_message_id: Option<String>,
    pub at: Option<Timestamp>,
    pub variant: i32,
    pub generation: i32,
}

/// One step of an import.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedPeople {
    pub audience_id: AudienceId,
    pub account_id: AccountId,
    pub people: Vec<NewRecipient>,
    /// How far the file has come with this step; `None`: there is no file.
    pub import: Option<Value>,
}

impl Store {
    // -- audiences

    pub async fn create_audience(
        &self,
        workspace: WorkspaceId,
        name: &str,
        filter: Option<Value>,
    ) -> Result<AudienceId> {
        check_name("audience", name)?;
        each!(self, db => db.create_audience(workspace, name, filter))
    }

    pub async fn audiences(&self, workspace: WorkspaceId) -> Result<Vec<Audience>> {
        each!(self, db => db.audiences(workspace))
    }

    /// Takes people in and makes them part of the audience, with how far the file has come, in one transaction.
    pub async fn import_people(
        &self,
        workspace: WorkspaceId,
        step: ImportedPeople,
    ) -> Result<Vec<PutRecipient>> {
        each!(self, db => db.import_people(workspace, step))
    }

    // -- a campaign and its life

    pub async fn create_campaign(&self, workspace: WorkspaceId, new: NewCampaign) -> Result<CampaignId> {
        check_name("campaign", &new.name)?;
        if new.accounts.is_empty() || new.variants.is_empty() {
            return Err(StoreError::invalid("campaign", "it needs an account and words"));
        }
        each!(self, db => db.create_campaign(workspace, new))
    }

    pub async fn campaigns(&self, workspace: WorkspaceId) -> Result<Vec<Campaign>> {
        each!(self, db => db.campaigns(workspace))
    }

    /// Changes the status if it is what the caller saw; `false`: somebody was faster, or it may not become that. Lanes
    /// are open exactly while it runs, and what is closed cannot be claimed nor marked from this moment on.
    pub async fn move_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        next: CampaignStatus,
        why: &str,
    ) -> Result<bool> {
        each!(self, db => db.move_campaign(workspace, id, version, next, why))
    }

    /// When it starts by itself, and whether cancelling means aborted; in one with the move.
    pub async fn schedule_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        starts_at: Timestamp,
    ) -> Result<bool> {
        each!(self, db => db.schedule_campaign(workspace, id, version, starts_at))
    }

    /// Ends it by its deadline or a guard: cancelling, and then aborted.
    pub async fn abort_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        why: &str,
    ) -> Result<bool> {
        each!(self, db => db.abort_campaign(workspace, id, version, why))
    }

    pub async fn campaign_counts(&self, workspace: WorkspaceId, id: CampaignId) -> Result<CampaignCounts> {
        each!(self, db => db.campaign_counts(workspace, id))
    }

    /// Writes down how far it is, unless that was done so lately. Every change of its status does the same.
    pub async fn note_progress(&self, workspace: WorkspaceId, id: CampaignId, every: Span) -> Result<()> {
        each!(self, db => db.note_progress(workspace, id, every))
    }

    /// How far it was, the last `limit` notes, the oldest first: every five seconds at first, every minute later, and at
    /// every change of its status. What it is now says `campaign_counts`.
    pub async fn campaign_progress(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        limit: usize,
    ) -> Result<Vec<CampaignNote>> {
        each!(self, db => db.campaign_progress(workspace, id, limit))
    }

    /// Pauses the part of one account, or lets it go on (`None`); the others are not touched.
    pub async fn rest_part(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        account: AccountId,
        why: Option<&str>,
    ) -> Result<()> {
        each!(self, db => db.rest_part(workspace, id, account, why))
    }

    /// What has ended by now is no matter for its guards any more; nothing if it was changed since it had this version.
    pub async fn judge_campaign_from(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        ended: Value,
    ) -> Result<()> {
        each!(self, db => db.judge_campaign_from(workspace, id, version, ended))
    }

    /// How often an account had to cool down since then.
    pub async fn cooldowns_since(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        since: Timestamp,
    ) -> Result<i64> {
        each!(self, db => db.cooldowns_since(workspace, account, since))
    }

    /// The first ones have it: the others get it from then on. The first word counts.
    pub async fn let_rest_follow(&self, workspace: WorkspaceId, id: CampaignId, at: Timestamp) -> Result<()> {
        each!(self, db => db.let_rest_follow(workspace, id, at))
    }

    pub async fn campaign_cohorts(&self, workspace: WorkspaceId, id: CampaignId) -> Result<Vec<Cohort>> {
        each!(self, db => db.campaign_cohorts(workspace, id))
    }

    /// People on these accounts in order of platform and user id, whole persons: whom somebody decides about before a
    /// freeze.
    pub async fn people_in_order(
        &self,
        workspace: WorkspaceId,
        accounts: Vec<AccountId>,
        audience: Option<AudienceId>,
        after: Person,
        limit: usize,
    ) -> Result<PeoplePage> {
        each!(self, db => db.people_in_order(workspace, accounts, audience, after, limit))
    }

    /// Writes down who gets it: rows and cursor in one transaction. `true`: everybody is written down.
    pub async fn freeze_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        step: FreezeStep,
    ) -> Result<bool> {
        each!(self, db => db.freeze_campaign(workspace, id, step))
    }

    /// Begins a new wave: from finished or aborted to preparing.
    pub async fn begin_wave(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        retries: Retries,
    ) -> Result<bool> {
        each!(self, db => db.begin_wave(workspace, id, version, retries))
    }

    /// Whether a wave would reach anybody: who failed and is asked for, or never got their turn.
    pub async fn anybody_again(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        retries: Retries,
    ) -> Result<bool> {
        each!(self, db => db.anybody_again(workspace, id, retries))
    }

    /// Lets the next of those who failed wait again; where a code is asked for, who never got their turn and has not failed
    /// with it comes to an end. `true`: nobody is left.
    pub async fn prepare_wave(&self, workspace: WorkspaceId, id: CampaignId) -> Result<bool> {
        each!(self, db => db.prepare_wave(workspace, id))
    }

    /// Makes deliveries of the next who wait, at most `FEED_MAX` and until their lane holds `ahead`; who may not be written to
    /// any more is left out. Several nodes that feed at once do not make more.
    pub async fn feed_campaign(
        &self,
        workspace: WorkspaceId,
        cohort: CohortId,
        urgent: bool,
        ahead: i64,
    ) -> Result<Fed> {
        let fed = each!(self, db => db.feed_campaign(workspace, cohort, urgent, ahead.min(AHEAD_MAX)))?;
        self.tally().enqueued(usize::try_from(fed.queued).unwrap_or(usize::MAX));
        Ok(fed)
    }

    /// Takes back deliveries that were never claimed: their people wait again. How many; 0: there is none.
    pub async fn recall_campaign(&self, workspace: WorkspaceId, id: CampaignId) -> Result<u64> {
        each!(self, db => db.recall_campaign(workspace, id))
    }

    /// The window of these people is closed until then: what was never claimed is taken back, and what was tried before is
    /// not tried again sooner. How many; 0: there is none.
    pub async fn shut_cohorts(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        until: HashMap<CohortId, Timestamp>,
    ) -> Result<u64> {
        each!(self, db => db.shut_cohorts(workspace, id, until))
    }

    /// Ends what waits to be tried again in a campaign that is being cancelled. How many; 0: there is none.
    pub async fn end_retries(&self, workspace: WorkspaceId, id: CampaignId) -> Result<u64> {
        each!(self, db => db.end_retries(workspace, id))
    }

    /// Other words for a variant of a campaign that rests: what was never sent for certain says them too. Refused while
    /// something is queued: recall it first.
    pub async fn edit_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        variant: i32,
        message: MessageId,
    ) -> Result<bool> {
        each!(self, db => db.edit_campaign(workspace, id, version, variant, message))
    }

    /// How fast the campaign goes on an account, and whether that may cost something.
    pub async fn pace_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        account: AccountId,
        pace: CampaignPace,
    ) -> Result<()> {
        each!(self, db => db.pace_campaign(workspace, id, account, pace))
    }

    /// Who got it and who did not, in order of platform and user id; continue after the last one.
    pub async fn campaign_members(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        after: Person,
        limit: usize,
    ) -> Result<Vec<Member>> {
        each!(self, db => db.campaign_members(workspace, id, after, limit))
    }
}

fn check_name(what: &'static str, name: &str) -> Result<()> {
    match name.trim().is_empty() || name.chars().count() > 200 || name.contains('\0') {
        true => Err(StoreError::invalid(what, "a name has 1 to 200 characters")),
        false => Ok(()),
    }
}

/// How a member stands, from its own row and its newest delivery.
pub(crate) fn state_of(
    state: &str,
    reason: Option<String>,
    delivery: Option<(String, Option<String>, Option<String>)>,
    campaign: CampaignStatus,
) -> (String, Option<String>) {
    let over = matches!(campaign, CampaignStatus::Cancelled | CampaignStatus::Aborted);
    match (state, delivery) {
        ("excluded", _) => ("excluded".into(), reason),
        // A wave that was broken off keeps what they failed with before.
        ("waiting", earlier) if over => {
            let code = earlier.and_then(|(_, why, code)| code.or(why));
            ("cancelled".into(), code.or_else(|| Some(campaign.as_str().to_owned())))
        }
        ("waiting", _) => ("waiting".into(), None),
        (_, Some((status, why, code))) => {
            let code = code.or_else(|| why.clone());
            match (status.as_str(), why.as_deref()) {
                ("sent", _) => ("sent".into(), None),
                ("failed_permanent", Some("recipient_gone")) => ("gone".into(), code),
                ("failed_permanent", _) => ("failed".into(), code),
                ("dead", Some("cancelled")) => ("cancelled".into(), Some("cancelled".into())),
                ("dead", why) => ("dead".into(), why.map(str::to_owned).or(code)),
                (status, _) => (status.to_owned(), code),
            }
        }
        (state, None) => (state.to_owned(), reason),
    }
}
