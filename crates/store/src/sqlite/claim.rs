//! Claim: point at work instead of searching for it.
//!
//! Heads say which account and which lane may be served next, and by their order who has waited longest. The cost
//! depends on the lanes served and the rows returned, never on what lies behind them. Everything a claim promises
//! (exclusive, leased, slotted, attempt counted) is true when its transaction commits.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use domain::ids::ClaimToken;
use domain::limits::{
    CLAIM_ACCOUNTS_MAX, CLAIM_AHEAD_MAX, CLAIM_BATCH_MAX, RETRY_LOOK, SUSPECT_PATIENCE, URGENT_RUN_MAX,
};
use domain::pacing::Pace;
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::front::{ReadyRow, Rows};
use super::heads::{CountChange, Served, Touched, move_lane};
use super::insert::Insert;
use super::{Sqlite, Tx, Urgency, rows};
use crate::error::{Result, StoreError};
use crate::queue::{Claim, ClaimRequest, Claimed, Whose};

const HELD: &str = "SELECT held FROM control";
/// The two forms differ only in whose accounts they see; each walks its own index.
pub(super) const DUE_ACCOUNTS: &str = "
SELECT account_id, workspace_id, group_id, max_parallel, urgent_run, retry_parallel
  FROM account_heads
 WHERE next_at <= ?1
 ORDER BY next_at, account_id
 LIMIT ?2";
pub(super) const DUE_ACCOUNTS_OF_WORKSPACE: &str = "
SELECT account_id, workspace_id, group_id, max_parallel, urgent_run, retry_parallel
  FROM account_heads
 WHERE workspace_id = ?3 AND next_at <= ?1
 ORDER BY next_at, account_id
 LIMIT ?2";
/// While everything is held, only who speaks of trouble is served.
const DUE_ALERTS: &str = "
SELECT h.account_id, h.workspace_id, h.group_id, h.max_parallel, h.urgent_run, h.retry_parallel
  FROM account_heads AS h JOIN accounts AS a ON a.account_id = h.account_id
 WHERE h.next_at <= ?1 AND a.tier = 'alerts' AND (?3 IS NULL OR h.workspace_id = ?3)
 ORDER BY h.next_at, h.account_id
 LIMIT ?2";
const SELECT_GROUP: &str =
    "SELECT interval_us, burst, next_slot, cooldown_until FROM rate_groups WHERE group_id = ?1";
const SET_GROUP_SLOT: &str = "UPDATE rate_groups SET next_slot = ?2 WHERE group_id = ?1";
/// All of them, and the retries among them.
pub(super) const ACCOUNT_IN_FLIGHT: &str =
    "SELECT count(*), count(CASE WHEN attempt > 1 THEN 1 END) FROM inflight WHERE account_id = ?1";
/// Up to the last slot of the account that may be given: a lane whose own slot comes before it is served, while one that
/// anything else keeps waiting is not.
pub(super) const DUE_LANES: &str = "
SELECT lane_id, max_parallel, interval_us, next_slot, urgent_run, paid
  FROM lane_heads
 WHERE account_id = ?1 AND head_priority = ?2 AND next_at <= ?3
   AND max(blocked_until, closed_until, put_off_until) <= ?5
 ORDER BY next_at, lane_id
 LIMIT ?4";
pub(super) const LANE_IN_FLIGHT: &str =
    "SELECT count(*) FROM inflight WHERE account_id = ?1 AND lane_id = ?2";
/// Both arrows of a claim, queued|retry → claimed → sending, for all that go in the same slot.
pub(super) const MARK_SENDING: &str = "
UPDATE deliveries
   SET status = 'sending', reason = NULL, claim_token = token_of(?5, delivery_id), lease_until = ?4, slot_at = ?3,
       claim_seq = claim_seq + 1, attempt = attempt + 1, run_at = NULL, position = NULL, claimed_at = ?2, sending_at = ?2
 WHERE delivery_id IN (SELECT value FROM json_each(?1)) AND (status = 'queued' OR status = 'retry')";
/// The run and the time of the claim are the same in every row.
static INSERT_INFLIGHT: LazyLock<Insert> = LazyLock::new(|| {
    Insert::new(
        "inflight (run_id, claimed_at, delivery_id, workspace_id, account_id, lane_id, claim_token, claim_seq, attempt,
                   slot_at, lease_until)",
        2,
        9,
    )
});
/// Asked for suspects alone; what one claimer holds is bounded.
const UNMARKED: &str = "SELECT 1 FROM inflight WHERE run_id = ?1 AND requested_at IS NULL LIMIT 1";
const SET_ACCOUNT_SERVED: &str =
    "UPDATE account_heads SET urgent_run = ?2, served_at = ?3 WHERE account_id = ?1";
const PUT_OFF_LANE: &str = "UPDATE lane_heads SET put_off_until = ?2 WHERE lane_id = ?1";
const PUT_OFF_ACCOUNT: &str = "UPDATE account_heads SET next_at = ?2 WHERE account_id = ?1";
const NEXT_AT: &str = "SELECT min(next_at) FROM account_heads";
const NEXT_AT_OF_WORKSPACE: &str = "SELECT min(next_at) FROM account_heads WHERE workspace_id = ?1";
const NEXT_ALERT_AT: &str = "
SELECT min(h.next_at)
  FROM account_heads AS h JOIN accounts AS a ON a.account_id = h.account_id
 WHERE a.tier = 'alerts' AND (?1 IS NULL OR h.workspace_id = ?1)";
/// Lanes that a claim may pass over (a suspect at their head) before it gives up on an account.
const LANES_PASSED_OVER: usize = 16;

impl Sqlite {
    pub async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        check(&request)?;
        self.write(Urgency::Claim, move |tx| claim(tx, &request)).await
    }
}

pub(crate) fn check(request: &ClaimRequest) -> Result<()> {
    let bad = |problem: String| Err(StoreError::invalid("claim", problem));
    match request {
        r if r.limit > CLAIM_BATCH_MAX => bad(format!("{} rows at once, at most {CLAIM_BATCH_MAX}", r.limit)),
        r if r.ahead.0 < 0 || r.ahead > CLAIM_AHEAD_MAX => {
            bad(format!("{} ms ahead, at most {}", r.ahead.millis(), CLAIM_AHEAD_MAX.millis()))
        }
        r if r.lease.0 <= 0 => bad("the lease must be positive".into()),
        r if r.run_id.is_empty() || r.run_id.len() > 200 => bad("a run id has 1 to 200 bytes".into()),
        _ => Ok(()),
    }
}

/// One account of the batch, with what it may still take.
pub(super) struct Account {
    pub(super) account_id: i64,
    pub(super) workspace_id: i64,
    group_id: i64,
    max_parallel: i64,
    urgent_run: i32,
    retry_parallel: i64,
}

pub(super) struct Lane {
    pub(super) lane_id: i64,
    pub(super) max_parallel: i64,
    interval: Span,
    next_slot: Timestamp,
    pub(super) urgent_run: i32,
    pub(super) paid: bool,
}

/// What one claim transaction has gathered so far.
struct Batch<'a> {
    request: &'a ClaimRequest,
    claims: Vec<Claim>,
    /// What their tokens begin with.
    head: Option<i64>,
    /// How many of them are in flight by now, and the lanes whose heads still point to rows that were taken.
    held: usize,
    served: Vec<(i64, CountChange, Option<Served>)>,
    groups: HashMap<i64, Group>,
    touched: Touched,
    /// A suspect row was taken: it goes alone.
    closed: bool,
    /// Somebody's own slot lies behind the account's, but within reach: what others take meanwhile brings it nearer.
    behind: bool,
}

struct Group {
    pace: Pace,
    cooldown_until: Timestamp,
}

fn claim(tx: &Tx<'_>, request: &ClaimRequest) -> Result<Claimed> {
    let held = tx.first(HELD, [], |row| row.get::<_, bool>(0))?.unwrap_or(false);
    let mut batch = Batch {
        request,
        claims: Vec::with_capacity(request.limit),
        head: None,
        held: 0,
        served: Vec::new(),
        groups: HashMap::new(),
        touched: Touched::default(),
        closed: false,
        behind: false,
    };
    if request.limit > 0 {
        serve(tx, &mut batch, held)?;
    }
    mark_sending(tx, &batch)?;
    for (group_id, group) in &batch.groups {
        // Where nothing paces, there is no slot to remember.
        if group.pace.interval > Span::ZERO {
            tx.execute(SET_GROUP_SLOT, (group_id, group.pace.next_slot.0))?;
        }
    }
    batch.touched.refresh(tx)?;
    let next_at = next_at(tx, request.whose, held)?;
    Ok(Claimed { claims: batch.claims, next_at })
}

fn next_at(tx: &Tx<'_>, whose: Whose, held: bool) -> Result<Option<Timestamp>> {
    let at = match whose {
        _ if held => tx.first(NEXT_ALERT_AT, [only(whose)], |row| row.get::<_, Option<i64>>(0))?,
        Whose::Everyone => tx.first(NEXT_AT, [], |row| row.get::<_, Option<i64>>(0))?,
        Whose::Workspace(id) => tx.first(NEXT_AT_OF_WORKSPACE, [id.0], |row| row.get::<_, Option<i64>>(0))?,
    };
    Ok(at.flatten().map(Timestamp).filter(|&at| at != Timestamp::NEVER))
}

fn only(whose: Whose) -> Option<i64> {
    match whose {
        Whose::Everyone => None,
        Whose::Workspace(id) => Some(id.0),
    }
}

/// Fair shares first, workspace by workspace and account by account; then what is left to whoever has more, again for as
/// long as what is taken brings another lane's slot within reach.
fn serve(tx: &Tx<'_>, batch: &mut Batch<'_>, held: bool) -> Result<()> {
    let accounts = due_accounts(tx, batch.request, held)?;
    let mut per_workspace: BTreeMap<i64, usize> = BTreeMap::new();
    for account in &accounts {
        *per_workspace.entry(account.workspace_id).or_default() += 1;
    }
    let workspace_share = batch.request.limit.div_ceil(per_workspace.len().max(1));
    for account in &accounts {
        let n_accounts = per_workspace.get(&account.workspace_id).copied().unwrap_or(1);
        serve_account(tx, batch, account, workspace_share.div_ceil(n_accounts), Split::Fair)?;
    }
    end_round(tx, batch)?;
    loop {
        let before = batch.claims.len();
        batch.behind = false;
        for account in &accounts {
            let left = batch.request.limit - batch.claims.len();
            serve_account(tx, batch, account, left, Split::Greedy)?;
        }
        end_round(tx, batch)?;
        if !batch.behind || batch.claims.len() == before {
            return Ok(());
        }
    }
}

/// Puts what was taken in flight and points the heads anew: the next round must not look at lanes that are full.
fn end_round(tx: &Tx<'_>, batch: &mut Batch<'_>) -> Result<()> {
    hold(tx, &batch.request.run_id, &batch.claims[batch.held..])?;
    batch.held = batch.claims.len();
    for (lane_id, counts, served) in batch.served.drain(..) {
        move_lane(tx, lane_id, counts, served)?;
    }
    Ok(())
}

/// The accounts that have waited longest, interleaved by workspace: everyone's first, everyone's second, …
fn due_accounts(tx: &Tx<'_>, request: &ClaimRequest, held: bool) -> Result<Vec<Account>> {
    let until = (tx.now + request.ahead).0;
    let limit = CLAIM_ACCOUNTS_MAX as i64;
    let accounts = match request.whose {
        whose if held => tx.all(DUE_ALERTS, (until, limit, only(whose)), account)?,
        Whose::Everyone => tx.all(DUE_ACCOUNTS, (until, limit), account)?,
        Whose::Workspace(id) => tx.all(DUE_ACCOUNTS_OF_WORKSPACE, (until, limit, id.0), account)?,
    };
    let mut ranks: HashMap<i64, usize> = HashMap::new();
    let mut ranked: Vec<(usize, usize, Account)> = Vec::new();
    for (order, account) in accounts.into_iter().enumerate() {
        let rank = ranks.entry(account.workspace_id).or_default();
        ranked.push((*rank, order, account));
        *rank += 1;
    }
    ranked.sort_by_key(|&(rank, order, _)| (rank, order));
    Ok(ranked.into_iter().map(|(_, _, account)| account).collect())
}

fn account(row: &Row<'_>) -> rusqlite::Result<Account> {
    Ok(Account {
        account_id: row.get(0)?,
        workspace_id: row.get(1)?,
        group_id: row.get(2)?,
        max_parallel: row.get(3)?,
        urgent_run: row.get(4)?,
        retry_parallel: row.get(5)?,
    })
}

/// How an account's share is divided among its lanes.
#[derive(Clone, Copy)]
enum Split {
    Fair,
    /// Shares are served; whoever comes first takes what is left, so that no claim stays half empty.
    Greedy,
}

fn serve_account(
    tx: &Tx<'_>,
    batch: &mut Batch<'_>,
    account: &Account,
    share: usize,
    split: Split,
) -> Result<()> {
    let share = share.min(batch.request.limit - batch.claims.len());
    if share == 0 || batch.closed {
        return Ok(());
    }
    let until = tx.now + batch.request.ahead;
    let Group { pace, cooldown_until } = *group(tx, batch, account.group_id)?;
    if cooldown_until > tx.now {
        // Its head did not know: another account of the group earned the cooldown.
        tx.execute(PUT_OFF_ACCOUNT, (account.account_id, cooldown_until.0))?;
        return Ok(());
    }
    let counts = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (in_flight, retries) = tx.first(ACCOUNT_IN_FLIGHT, [account.account_id], counts)?.unwrap_or_default();
    let mut retries_left = usize::try_from(account.retry_parallel - retries).unwrap_or(0);
    let room = usize::try_from(account.max_parallel - in_flight).unwrap_or(0);
    // Lanes beyond the last slot would be looked at for nothing.
    let mut left = share.min(room).min(pace.available(tx.now, until));
    let before = batch.claims.len();
    let mut urgent_run = account.urgent_run;
    let horizon = if pace.interval > Span::ZERO { until } else { tx.now };
    let lanes = due_lanes(tx, account, horizon, left + LANES_PASSED_OVER)?;
    for (visited, (priority, lane)) in lanes.iter().enumerate() {
        let lane_share = match split {
            Split::Fair => left.div_ceil(lanes.len() - visited),
            Split::Greedy => left,
        };
        let n = serve_lane(tx, batch, account, lane, lane_share, &mut retries_left)?;
        urgent_run = match (priority, n) {
            (_, 0) => urgent_run,
            (0, n) => urgent_run.saturating_add(n as i32),
            _ => 0,
        };
        left -= n;
        if left == 0 || batch.closed {
            break;
        }
    }
    if batch.claims.len() > before {
        tx.execute(SET_ACCOUNT_SERVED, (account.account_id, urgent_run, tx.now.0))?;
        batch.touched.account(account.account_id);
    }
    Ok(())
}

/// Urgent lanes before bulk ones; after nine urgent rows in a row one bulk lane comes first.
fn due_lanes(tx: &Tx<'_>, account: &Account, until: Timestamp, limit: usize) -> Result<Vec<(i64, Lane)>> {
    let of = |priority: i64| -> Result<Vec<(i64, Lane)>> {
        let params = (account.account_id, priority, until.0, limit as i64, tx.now.0);
        let lanes = tx.all(DUE_LANES, params, |row| {
            Ok(Lane {
                lane_id: row.get(0)?,
                max_parallel: row.get(1)?,
                interval: Span(row.get(2)?),
                next_slot: Timestamp(row.get(3)?),
                urgent_run: row.get(4)?,
                paid: row.get(5)?,
            })
        })?;
        Ok(lanes.into_iter().map(|lane| (priority, lane)).collect())
    };
    let (mut lanes, bulk) = (of(0)?, of(1)?);
    let bulk_first = usize::from(account.urgent_run >= URGENT_RUN_MAX && !bulk.is_empty());
    let mut bulk = bulk.into_iter();
    lanes.splice(0..0, bulk.by_ref().take(bulk_first));
    lanes.extend(bulk);
    Ok(lanes)
}

/// Takes rows while parallelism, share and slots allow; returns how many.
fn serve_lane(
    tx: &Tx<'_>,
    batch: &mut Batch<'_>,
    account: &Account,
    lane: &Lane,
    share: usize,
    retries_left: &mut usize,
) -> Result<usize> {
    let key = (account.account_id, lane.lane_id);
    let in_flight: i64 = tx.first(LANE_IN_FLIGHT, key, |row| row.get(0))?.unwrap_or(0);
    let room = share.min(usize::try_from(lane.max_parallel - in_flight).unwrap_or(0));
    let mut pace = Pace { interval: lane.interval, burst: 1, next_slot: lane.next_slot };
    let mut rows = Rows::of(account, lane, room);
    let first = batch.claims.len();
    let mut put_off = false;
    while batch.claims.len() < first + room && !batch.closed {
        let Some(slot) = slot(tx, batch, account, &pace)? else {
            break;
        };
        let Some(row) = rows.next(tx)? else {
            break;
        };
        // Order waits for a row that may not go now; without order the others pass.
        let no_room = !row.was_queued && *retries_left == 0;
        if no_room || (row.suspect && has_company(tx, batch, &row)?) {
            put_off |= no_room;
            if lane.max_parallel == 1 {
                break;
            }
            rows.pass(&row);
            continue;
        }
        *retries_left -= usize::from(!row.was_queued);
        batch.closed = row.suspect;
        pace.take(slot);
        group(tx, batch, account.group_id)?.pace.take(slot);
        rows.taken(&row);
        take(tx, batch, row, slot);
    }
    rows.flush(tx)?;
    let taken = batch.claims.len() - first;
    if put_off && taken == 0 {
        tx.execute(PUT_OFF_LANE, (lane.lane_id, (tx.now + RETRY_LOOK).0))?;
    }
    let served = Served { next_slot: pace.next_slot, urgent_run: rows.urgent_run };
    batch.served.push((lane.lane_id, rows.counts, (taken > 0).then_some(served)));
    batch.touched.account(account.account_id);
    Ok(taken)
}

/// Whether a suspect would stand beside rows of the same claimer of which no request has left yet: were one of them
/// the killer, the suspect would be blamed. It waits for a better moment, but not for ever.
fn has_company(tx: &Tx<'_>, batch: &Batch<'_>, suspect: &ReadyRow) -> Result<bool> {
    if !batch.claims.is_empty() {
        return Ok(true);
    }
    let waits = suspect.run_at + SUSPECT_PATIENCE > tx.now;
    Ok(waits && tx.first(UNMARKED, [&batch.request.run_id], |_| Ok(()))?.is_some())
}

/// The next slot of account and lane together, if it comes soon enough.
/// A lane whose own slot lies behind the account's would waste account slots: it waits for its turn.
fn slot(tx: &Tx<'_>, batch: &mut Batch<'_>, account: &Account, pace: &Pace) -> Result<Option<Timestamp>> {
    let until = tx.now + batch.request.ahead;
    let of_account = group(tx, batch, account.group_id)?.pace.earliest(tx.now);
    let of_lane = pace.earliest(tx.now);
    batch.behind |= of_account < of_lane && of_lane <= until;
    Ok((of_lane <= of_account && of_account <= until).then_some(of_account))
}

fn group<'b>(tx: &Tx<'_>, batch: &'b mut Batch<'_>, group_id: i64) -> Result<&'b mut Group> {
    use std::collections::hash_map::Entry;
    match batch.groups.entry(group_id) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(new) => {
            let group = tx.first(SELECT_GROUP, [group_id], |row| {
                let pace = Pace {
                    interval: Span(row.get(0)?),
                    burst: row.get(1)?,
                    next_slot: Timestamp(row.get(2)?),
                };
                Ok(Group { pace, cooldown_until: Timestamp(row.get(3)?) })
            })?;
            let group =
                group.ok_or_else(|| StoreError::Database(format!("rate group {group_id} is missing")))?;
            Ok(new.insert(group))
        }
    }
}

/// The row becomes a claim: attempt and sequence counted, leased, slotted, and with a token of its own.
fn take(tx: &Tx<'_>, batch: &mut Batch<'_>, row: ReadyRow, slot: Timestamp) {
    let mut claim = row.claim;
    claim.claim_seq += 1;
    claim.counters.attempt += 1;
    claim.slot_at = slot;
    claim.lease_until = lease_until(tx, batch.request, slot);
    let head = *batch.head.get_or_insert_with(|| head(&batch.request.run_id, &claim));
    claim.claim_token = token(head, claim.delivery_id.0);
    batch.claims.push(claim);
}

fn lease_until(tx: &Tx<'_>, request: &ClaimRequest, slot: Timestamp) -> Timestamp {
    slot.max(tx.now) + request.lease
}

fn hold(tx: &Tx<'_>, run_id: &str, claims: &[Claim]) -> Result<()> {
    // In the order of the tree, which then grows at one place at a time.
    let mut sorted: Vec<&Claim> = claims.iter().collect();
    sorted.sort_unstable_by_key(|claim| (claim.account_id, claim.lane_id, claim.delivery_id));
    let shared = [ValueRef::from(run_id), ValueRef::Integer(tx.now.0)];
    tx.insert_rows(&INSERT_INFLIGHT, shared, &sorted, |claim| {
        [
            ValueRef::Integer(claim.delivery_id.0),
            ValueRef::Integer(claim.workspace_id.0),
            ValueRef::Integer(claim.account_id.0),
            ValueRef::Integer(claim.lane_id.0),
            ValueRef::Blob(claim.claim_token.0.as_bytes()),
            ValueRef::Integer(claim.claim_seq),
            ValueRef::Integer(claim.counters.attempt.into()),
            ValueRef::Integer(claim.slot_at.0),
            ValueRef::Integer(claim.lease_until.0),
        ]
    })
}

fn mark_sending(tx: &Tx<'_>, batch: &Batch<'_>) -> Result<()> {
    let mut slots: BTreeMap<Timestamp, Vec<i64>> = BTreeMap::new();
    for claim in &batch.claims {
        slots.entry(claim.slot_at).or_default().push(claim.delivery_id.0);
    }
    let mut marked = 0;
    for (slot, ids) in slots {
        let until = lease_until(tx, batch.request, slot).0;
        marked += tx.execute(MARK_SENDING, (rows::id_list(ids), tx.now.0, slot.0, until, batch.head))?;
    }
    if marked != batch.claims.len() {
        let missing = batch.claims.len() - marked;
        return Err(StoreError::Database(format!("{missing} deliveries are ready but not waiting")));
    }
    Ok(())
}

/// Different for every claim that ever was: the run is new at every start, the sequence never goes back.
fn head(run_id: &str, first: &Claim) -> i64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(run_id.as_bytes());
    hasher.update(&first.delivery_id.0.to_le_bytes()).update(&first.claim_seq.to_le_bytes());
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    i64::from_le_bytes(bytes)
}

/// The token of one row: the head is that of its claim.
pub(super) fn token(head: i64, delivery_id: i64) -> ClaimToken {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&head.to_be_bytes());
    bytes[8..].copy_from_slice(&delivery_id.to_be_bytes());
    ClaimToken(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}
