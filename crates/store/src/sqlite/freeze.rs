//! Who gets a campaign, written down step by step.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use domain::campaign::CampaignStatus;
use domain::ids::{AccountId, CampaignId, WorkspaceId};
use rusqlite::Row;
use serde_json::json;

use super::campaigns::{COUNT_CODE, imported, one, tell};
use super::{Tx, rows};
use crate::campaigns::*;
use crate::error::Result;

/// A step stays on one platform, and both its ends are plain conditions on the user id: where an end is a pair, SQLite
/// compares every row with it once more.
const PLATFORM: &str = "
SELECT r.platform
  FROM recipients AS r
 WHERE r.workspace_id = ?1 AND (r.platform, r.user_id) > (?2, ?3)
 ORDER BY r.platform, r.user_id
 LIMIT 1";
const UPTO: &str = "
SELECT r.user_id
  FROM recipients AS r
 WHERE r.workspace_id = ?1 AND r.platform = ?2 AND r.user_id > ?3
 ORDER BY r.user_id
 LIMIT 1 OFFSET ?4";
const LAST: &str = "SELECT max(r.user_id) FROM recipients AS r WHERE r.workspace_id = ?1 AND r.platform = ?2";
const ANOTHER_PLATFORM: &str =
    "SELECT 1 FROM recipients AS r WHERE r.workspace_id = ?1 AND r.platform > ?2 LIMIT 1";
/// Who is only known did not ask to hear from us, and is nobody's audience.
const TO_FREEZE: &str = "
SELECT r.recipient_id, r.account_id, r.platform, r.user_id, coalesce(r.time_zone, ''),
       CASE r.status WHEN 'gone' THEN 'gone' WHEN 'stopped' THEN 'stopped' ELSE
            CASE WHEN EXISTS (SELECT 1 FROM suppressions AS s
                               WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform AND s.user_id = r.user_id
                                 AND s.account_id IN (0, r.account_id)) THEN 'suppressed' END END,
       coalesce(r.contacted_at, 0)
  FROM recipients AS r
 WHERE r.workspace_id = ?1 AND r.platform = ?2 AND r.user_id > ?3 AND r.user_id <= ?4
   AND r.status <> 'known' AND r.account_id IN (SELECT value FROM json_each(?5))
   AND (?6 IS NULL OR EXISTS (SELECT 1 FROM audience_recipients AS a
                               WHERE a.audience_id = ?6 AND a.recipient_id = r.recipient_id))
 ORDER BY r.user_id";
const PUT_COHORT: &str = "
INSERT INTO campaign_cohorts (workspace_id, campaign_id, account_id, zone, stage) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET zone = excluded.zone
RETURNING cohort_id";
const COUNT_COHORT: &str = "
UPDATE campaign_cohorts SET n_total = n_total + ?2, n_waiting = n_waiting + ?2 WHERE cohort_id = ?1";
const INSERT_MEMBER: &str = "
INSERT INTO campaign_recipients (workspace_id, campaign_id, cohort_id, recipient_id, account_id, platform, user_id, variant,
                                 state, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const FROZEN: &str = "
UPDATE campaigns
   SET n_total = n_total + ?2, n_excluded = n_excluded + ?3, at_platform = ?4, at_user = ?5,
       frozen_at = CASE WHEN ?6 THEN ?7 END
 WHERE campaign_id = ?1";
const LAST_MEMBER: &str = "SELECT coalesce(max(member_id), 0) FROM campaign_recipients";
const ANY_SUPPRESSION: &str = "SELECT 1 FROM suppressions WHERE workspace_id = ?1 LIMIT 1";
const NEW_IN_COHORT: &str =
    "SELECT count(*) FROM campaign_recipients WHERE cohort_id = ?1 AND member_id > ?2";
const LEFT_OUT: &str = "
SELECT m.reason, count(*)
  FROM campaign_recipients AS m
 WHERE m.member_id > ?1 AND m.campaign_id + 0 = ?2 AND m.reason IS NOT NULL
 GROUP BY m.reason";
/// Accounts that reach nobody have nobody to feed.
const FORGET_EMPTY_COHORTS: &str = "DELETE FROM campaign_cohorts WHERE campaign_id = ?1 AND n_total = 0";

/// Somebody on one of the accounts.
struct Candidate {
    recipient_id: i64,
    account_id: i64,
    person: Person,
    zone: String,
    reason: Option<String>,
}

pub(super) fn freeze(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId, step: &FreezeStep) -> Result<bool> {
    let known = one(tx, workspace, id)?;
    if known.status != CampaignStatus::Preparing || known.frozen_at.is_some() {
        return Ok(known.frozen_at.is_some());
    }
    if known.at != step.after {
        return Ok(false);
    }
    let reach = reach(tx, &known, step)?;
    let (total, excluded) = match &reach.upto {
        None => (0, 0),
        Some(upto) if is_plain(&known, step) => write_at_once(tx, &known, &reach.low, upto)?,
        Some(upto) => write_members(tx, &known, step, &candidates(tx, &known, step, &reach.low, upto)?)?,
    };
    let (at, is_last) = (reach.upto.unwrap_or_else(|| step.after.clone()), reach.is_last);
    tx.execute(FROZEN, (id.0, total, excluded, at.platform, at.user_id, is_last, tx.now.0))?;
    if is_last {
        tx.execute(FORGET_EMPTY_COHORTS, [id.0])?;
        tell(tx, workspace, id, json!({"name": known.name, "frozen": true}))?;
    }
    Ok(is_last)
}

/// The people of a step: one platform, after this user id and up to this person; `None`: nobody is left.
struct Reach {
    low: String,
    upto: Option<Person>,
    is_last: bool,
}

fn reach(tx: &Tx<'_>, known: &Campaign, step: &FreezeStep) -> Result<Reach> {
    let workspace = known.workspace_id.0;
    let after = &step.after;
    let low = |platform: &str| if platform == after.platform { after.user_id.clone() } else { String::new() };
    if step.upto.is_some() || step.is_last {
        let low = step.upto.as_ref().map_or(String::new(), |upto| low(&upto.platform));
        return Ok(Reach { low, upto: step.upto.clone(), is_last: step.is_last });
    }
    let first = (workspace, &after.platform, &after.user_id);
    let Some(platform) = tx.first(PLATFORM, first, |row| row.get::<_, String>(0))? else {
        return Ok(Reach { low: String::new(), upto: None, is_last: true });
    };
    let low = low(&platform);
    let n = if is_plain(known, step) { AT_ONCE_MAX } else { FREEZE_MAX };
    let user_id: fn(&Row<'_>) -> rusqlite::Result<String> = |row| row.get(0);
    let (user_id, is_last) = match tx.first(UPTO, (workspace, &platform, &low, n as i64 - 1), user_id)? {
        Some(upto) => (upto, false),
        None => {
            let last = tx.first(LAST, (workspace, &platform), user_id)?.unwrap_or_default();
            (last, tx.first(ANOTHER_PLATFORM, (workspace, &platform), |_| Ok(()))?.is_none())
        }
    };
    Ok(Reach { low, upto: Some(Person { platform, user_id }), is_last })
}

/// Nothing has to be drawn nor read of anybody but their row: the database writes them down by itself.
fn is_plain(known: &Campaign, step: &FreezeStep) -> bool {
    let one_cohort = step.canary == 0 && !step.by_zone;
    one_cohort && known.variants.len() == 1 && step.left_out.is_empty() && step.missing.is_empty()
}

/// The same as `candidates` and `write_members`, in one statement.
fn write_at_once(tx: &Tx<'_>, known: &Campaign, low: &str, upto: &Person) -> Result<(i64, i64)> {
    let (workspace, id) = (known.workspace_id.0, known.campaign_id.0);
    let mut cohorts = Vec::new();
    for account in &known.accounts {
        let cohort = (workspace, id, account.0, "", "rest");
        cohorts.extend(tx.first(PUT_COHORT, cohort, |row| row.get::<_, i64>(0))?);
    }
    let before: i64 = tx.first(LAST_MEMBER, [], |row| row.get(0))?.unwrap_or(0);
    let all = All {
        accounts: &known.accounts,
        cohorts: &cohorts,
        is_anybody_suppressed: tx.first(ANY_SUPPRESSION, [workspace], |_| Ok(()))?.is_some(),
        audience: imported(tx, known.audience_id)?,
        contacted_before: (known.min_gap.0 > 0).then_some((tx.now - known.min_gap).0),
    };
    let total = tx.execute(&all.insert(), (workspace, id, &upto.platform, low, &upto.user_id))? as i64;
    let mut waiting = 0;
    for cohort in cohorts {
        let n: i64 = tx.first(NEW_IN_COHORT, (cohort, before), |row| row.get(0))?.unwrap_or(0);
        tx.execute(COUNT_COHORT, (cohort, n))?;
        waiting += n;
    }
    if total > waiting {
        let reasons =
            tx.all(LEFT_OUT, (before, id), |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        for (reason, n) in &reasons {
            tx.execute(COUNT_CODE, (workspace, id, reason, n))?;
        }
    }
    Ok((total, total - waiting))
}

/// What is asked of everybody. What nobody asks is not in the statement: a condition that is true for a million rows costs
/// as much as one that is not.
struct All<'a> {
    accounts: &'a [AccountId],
    /// Of each account.
    cohorts: &'a [i64],
    is_anybody_suppressed: bool,
    audience: Option<i64>,
    contacted_before: Option<i64>,
}

impl All<'_> {
    /// Why a row is left out; NULL: it is not.
    fn reason(&self, of: &str) -> String {
        let suppressed = match self.is_anybody_suppressed {
            true => format!(
                "WHEN EXISTS (SELECT 1 FROM suppressions AS s
                               WHERE s.workspace_id = {of}.workspace_id AND s.platform = {of}.platform AND s.user_id = {of}.user_id
                                 AND s.account_id IN (0, {of}.account_id)) THEN 'suppressed'"
            ),
            false => String::new(),
        };
        let too_soon = match self.contacted_before {
            Some(at) => format!("WHEN {of}.contacted_at > {at} THEN 'too_soon'"),
            None => String::new(),
        };
        format!(
            "CASE WHEN {of}.status = 'gone' THEN 'gone' WHEN {of}.status = 'stopped' THEN 'stopped' {suppressed} {too_soon} END"
        )
    }

    fn meant(&self, of: &str) -> String {
        let list = self.accounts.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(", ");
        let imported = match self.audience {
            Some(id) => format!(
                "AND EXISTS (SELECT 1 FROM audience_recipients AS a
                              WHERE a.audience_id = {id} AND a.recipient_id = {of}.recipient_id)"
            ),
            None => String::new(),
        };
        format!("{of}.status <> 'known' AND {of}.account_id IN ({list}) {imported}")
    }

    /// A number for each account.
    fn by_account(&self, of: &str, numbers: impl Iterator<Item = i64>) -> String {
        let each = self.accounts.iter().zip(numbers).map(|(id, n)| format!(" WHEN {} THEN {n}", id.0));
        format!("CASE {of}.account_id{} END", each.collect::<String>())
    }

    /// Of who has rows on several accounts the best one is taken: where they can be written to, then by preference.
    fn insert(&self) -> String {
        let rank = |of| self.by_account(of, 0..);
        let best = match self.accounts.len() {
            1 => String::new(),
            _ => format!(
                "WHERE NOT EXISTS (SELECT 1 FROM recipients AS o
                                    WHERE o.workspace_id = ?1 AND o.platform = ?3 AND o.user_id = p.user_id
                                      AND o.account_id <> p.account_id AND {}
                                      AND (({}) IS NOT NULL, {}) < (p.reason IS NOT NULL, {}))",
                self.meant("o"),
                self.reason("o"),
                rank("o"),
                rank("p")
            ),
        };
        // LIMIT keeps the reason from being worked out for every place it stands in.
        format!(
            "INSERT INTO campaign_recipients (workspace_id, campaign_id, cohort_id, recipient_id, account_id, platform, user_id,
                                              variant, state, reason)
             SELECT ?1, ?2, CASE WHEN p.reason IS NULL THEN {} END, p.recipient_id, p.account_id, ?3, p.user_id, 0,
                    CASE WHEN p.reason IS NULL THEN 'waiting' ELSE 'excluded' END, p.reason
               FROM (SELECT r.recipient_id, r.account_id, r.user_id, {} AS reason
                       FROM recipients AS r
                      WHERE r.workspace_id = ?1 AND r.platform = ?3 AND r.user_id > ?4 AND r.user_id <= ?5 AND {}
                      ORDER BY r.user_id
                      LIMIT -1) AS p
             {best}",
            self.by_account("p", self.cohorts.iter().copied()),
            self.reason("r"),
            self.meant("r"),
        )
    }
}

/// One row a person: the first account by preference on which they can be written to, else the first at all.
fn candidates(
    tx: &Tx<'_>,
    known: &Campaign,
    step: &FreezeStep,
    low: &str,
    upto: &Person,
) -> Result<Vec<Candidate>> {
    let preference: HashMap<i64, usize> =
        known.accounts.iter().enumerate().map(|(n, id)| (id.0, n)).collect();
    let left_out: HashSet<i64> = step.left_out.iter().map(|id| id.0).collect();
    let missing: HashSet<i64> = step.missing.iter().map(|id| id.0).collect();
    let gap_from = (tx.now - known.min_gap).0;
    let params = (
        known.workspace_id.0,
        &upto.platform,
        low,
        &upto.user_id,
        rows::id_list(known.accounts.iter().map(|id| id.0)),
        imported(tx, known.audience_id)?,
    );
    let mut chosen: Vec<Candidate> = Vec::new();
    tx.each(TO_FREEZE, params, |row| {
        let recipient_id: i64 = row.get(0)?;
        if left_out.contains(&recipient_id) {
            return Ok(());
        }
        let reason: Option<String> = row.get(5)?;
        let too_soon = known.min_gap.0 > 0 && row.get::<_, i64>(6)? > gap_from;
        let new = Candidate {
            recipient_id,
            account_id: row.get(1)?,
            person: Person { platform: row.get(2)?, user_id: row.get(3)? },
            zone: if step.by_zone { row.get(4)? } else { String::new() },
            reason: reason
                .or_else(|| missing.contains(&recipient_id).then(|| "missing_attribute".to_owned()))
                .or_else(|| too_soon.then(|| "too_soon".to_owned())),
        };
        match chosen.last_mut() {
            Some(last) if last.person == new.person => {
                let rank = |one: &Candidate| (one.reason.is_some(), preference.get(&one.account_id).copied());
                if rank(&new) < rank(last) {
                    *last = new;
                }
            }
            _ => chosen.push(new),
        }
        Ok(())
    })?;
    Ok(chosen)
}

fn write_members(
    tx: &Tx<'_>,
    known: &Campaign,
    step: &FreezeStep,
    chosen: &[Candidate],
) -> Result<(i64, i64)> {
    let (workspace, id) = (known.workspace_id.0, known.campaign_id.0);
    let weights: Vec<i32> = known.variants.iter().map(|variant| variant.weight).collect();
    let mut cohorts: HashMap<(i64, &str, &str), (i64, i64)> = HashMap::new();
    let mut reasons: BTreeMap<&str, i64> = BTreeMap::new();
    for one in chosen {
        let user_id = &one.person.user_id;
        let is_canary = step.canary > 0 && lot(&known.seed, user_id, "stage") < step.canary;
        let stage = if is_canary { "first" } else { "rest" };
        let variant = match weights.len() {
            1 => 0,
            _ => variant_of(lot(&known.seed, user_id, "variant"), &weights),
        };
        let cohort = match &one.reason {
            Some(reason) => {
                *reasons.entry(reason).or_default() += 1;
                None
            }
            None => {
                let key = (one.account_id, one.zone.as_str(), stage);
                let cohort = match cohorts.entry(key) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let row = (workspace, id, one.account_id, &one.zone, stage);
                        let made: Option<i64> = tx.first(PUT_COHORT, row, |row| row.get(0))?;
                        new.insert((made.unwrap_or_default(), 0))
                    }
                };
                cohort.1 += 1;
                Some(cohort.0)
            }
        };
        let state = if one.reason.is_some() { "excluded" } else { "waiting" };
        let (platform, reason) = (&one.person.platform, &one.reason);
        let row = (
            workspace,
            id,
            cohort,
            one.recipient_id,
            one.account_id,
            platform,
            user_id,
            variant,
            state,
            reason,
        );
        tx.execute(INSERT_MEMBER, row)?;
    }
    for (cohort, n) in cohorts.values() {
        tx.execute(COUNT_COHORT, (cohort, n))?;
    }
    for (reason, n) in &reasons {
        tx.execute(COUNT_CODE, (workspace, id, reason, n))?;
    }
    Ok((chosen.len() as i64, reasons.values().sum()))
}
