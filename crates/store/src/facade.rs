//! `Store`: every operation once, handed to the driver in use. What each one promises stands here.

use domain::ids::{AccountId, ChannelId, DeliveryId, EndpointId, LaneId, WorkspaceId};
use domain::time::{Span, Timestamp};
use secrecy::SecretString;
use serde_json::Value;

use crate::health::Pulse;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::*;

#[derive(Debug, Clone)]
pub enum Store {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// Hands a call to the driver in use.
macro_rules! each {
    ($store:expr, $driver:ident => $call:expr) => {
        match $store {
            Store::Sqlite($driver) => $call.await,
            Store::Postgres($driver) => $call.await,
        }
    };
}
pub(crate) use each;

mod held_posts;
mod intake;
mod reading;
mod upkeep;

impl Store {
    /// Opens a database whose schema is current; `migrate` makes it so.
    pub async fn open(address: &Address, keyring: Keyring, clock: Clock) -> Result<Store> {
        match address {
            Address::Sqlite(path) => Ok(Store::Sqlite(Sqlite::open(path, keyring, clock).await?)),
            Address::Postgres(url) => Ok(Store::Postgres(Postgres::open(url, keyring).await?)),
        }
    }

    /// Opens a database to look at it: beside the node that has a SQLite file, where every change is refused.
    /// PostgreSQL has room for everybody, so there it is the plain way in.
    pub async fn open_reading(address: &Address, keyring: Keyring) -> Result<Store> {
        match address {
            Address::Sqlite(path) => Ok(Store::Sqlite(Sqlite::open_reading(path, keyring).await?)),
            Address::Postgres(url) => Ok(Store::Postgres(Postgres::open(url, keyring).await?)),
        }
    }

    /// Brings the schema up to date and returns the versions that were applied.
    pub async fn migrate(address: &Address) -> Result<Vec<i32>> {
        match address {
            Address::Sqlite(path) => sqlite::migrate::migrate(path).await,
            Address::Postgres(url) => postgres::migrate::migrate(url).await,
        }
    }

    /// How the database does, from the calls that this process made.
    pub fn health(&self) -> Health {
        match self {
            Store::Sqlite(db) => db.health(),
            Store::Postgres(db) => db.health(),
        }
    }

    fn pulse(&self) -> &Pulse {
        match self {
            Store::Sqlite(db) => &db.pulse,
            Store::Postgres(db) => &db.pulse,
        }
    }

    /// This process sends from now on: `health` then follows the last claim or outcome that went well.
    pub fn expect_work(&self) {
        self.pulse().sends();
    }

    pub(crate) fn tally(&self) -> &tally::Tally {
        match self {
            Store::Sqlite(db) => &db.tally,
            Store::Postgres(db) => &db.tally,
        }
    }

    /// What this process has written since it started.
    pub fn written(&self) -> Written {
        self.tally().written()
    }

    /// How the connections of this process are used.
    pub fn pool(&self) -> PoolUse {
        match self {
            Store::Sqlite(db) => db.pool_use(),
            Store::Postgres(db) => db.pool_use(),
        }
    }

    /// Words about trouble that is coming: little space.
    pub fn warning(&self) -> Option<String> {
        match self {
            Store::Sqlite(db) => db.warning(),
            Store::Postgres(_) => None,
        }
    }

    /// Words about a database that answers, and takes long for it.
    pub fn slowness(&self) -> Option<String> {
        match self {
            Store::Sqlite(db) => db.slowness(),
            Store::Postgres(db) => db.slowness(),
        }
    }

    /// A question that changes nothing, in line with the other work; `health` knows the result.
    pub async fn look(&self) -> Result<()> {
        each!(self, db => db.look())
    }

    /// Looks how much space is left, keeps the ballast; words if it is little. The disk of a server is its own business.
    pub async fn watch_space(&self) -> Result<Option<String>> {
        match self {
            Store::Sqlite(db) => db.watch_space().await,
            Store::Postgres(_) => Ok(None),
        }
    }

    /// Looks through a SQLite file for damage; a PostgreSQL server looks after its own.
    pub async fn look_for_damage(&self) -> Result<()> {
        match self {
            Store::Sqlite(db) => db.look_for_damage().await,
            Store::Postgres(_) => Ok(()),
        }
    }

    /// What is wrong with the database as a whole, asked from beside the nodes that use it.
    pub async fn ailment(&self) -> Option<String> {
        match self {
            Store::Sqlite(_) => None,
            Store::Postgres(db) => db.ailment().await,
        }
    }

    /// Writes for the sake of writing; `health` knows the result.
    pub async fn probe(&self) -> Result<()> {
        each!(self, db => db.probe())
    }

    // -- config is rows

    pub async fn create_workspace(&self, name: &str) -> Result<WorkspaceId> {
        each!(self, db => db.create_workspace(name))
    }

    pub async fn workspaces(&self) -> Result<Vec<Workspace>> {
        each!(self, db => db.workspaces())
    }

    /// The kill switch of one workspace: nothing of it is claimed while it is held.
    pub async fn hold_workspace(&self, workspace: WorkspaceId, held: bool) -> Result<()> {
        each!(self, db => db.hold_workspace(workspace, held))
    }

    /// The kill switch of everything. `why` is shown to whoever wonders; `None` releases.
    pub async fn hold_all(&self, why: Option<&str>) -> Result<()> {
        each!(self, db => db.hold_all(why))
    }

    pub async fn held(&self) -> Result<Option<String>> {
        each!(self, db => db.held())
    }

    /// `None` before the first `advance_epoch`.
    pub async fn epoch(&self) -> Result<Option<Epoch>> {
        each!(self, db => db.epoch())
    }

    /// Moves the epoch on, past `at_least`.
    pub async fn advance_epoch(&self, at_least: i64) -> Result<Epoch> {
        each!(self, db => db.advance_epoch(at_least))
    }

    pub async fn create_endpoint(&self, workspace: WorkspaceId, new: NewEndpoint) -> Result<EndpointId> {
        each!(self, db => db.create_endpoint(workspace, new))
    }

    pub async fn endpoints(&self, workspace: WorkspaceId) -> Result<Vec<Endpoint>> {
        each!(self, db => db.endpoints(workspace))
    }

    /// Finds the door a secret opens; the secret is the only way to it.
    pub async fn endpoint_by_secret(&self, secret: &SecretString) -> Result<Option<Endpoint>> {
        each!(self, db => db.endpoint_by_secret(secret))
    }

    /// A new secret and new settings; the secret before opens the door for `overlap` more. One that was replaced does
    /// not come back.
    pub async fn change_endpoint(
        &self,
        workspace: WorkspaceId,
        id: EndpointId,
        secret: &SecretString,
        settings: Value,
        overlap: Span,
    ) -> Result<()> {
        each!(self, db => db.change_endpoint(workspace, id, secret, settings, overlap))
    }

    /// Whether this is the secret of that door, enabled or not.
    pub async fn endpoint_opens(
        &self,
        workspace: WorkspaceId,
        id: EndpointId,
        secret: &SecretString,
    ) -> Result<bool> {
        each!(self, db => db.endpoint_opens(workspace, id, secret))
    }

    pub async fn enable_endpoint(&self, workspace: WorkspaceId, id: EndpointId, enabled: bool) -> Result<()> {
        each!(self, db => db.enable_endpoint(workspace, id, enabled))
    }

    pub async fn create_account(&self, workspace: WorkspaceId, new: NewAccount) -> Result<AccountId> {
        each!(self, db => db.create_account(workspace, new))
    }

    pub async fn change_account(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        settings: AccountSettings,
    ) -> Result<()> {
        each!(self, db => db.change_account(workspace, id, settings))
    }

    pub async fn set_account_token(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        token: SecretString,
    ) -> Result<()> {
        each!(self, db => db.set_account_token(workspace, id, token))
    }

    pub async fn accounts(&self, workspace: WorkspaceId) -> Result<Vec<Account>> {
        each!(self, db => db.accounts(workspace))
    }

    pub async fn account_token(&self, workspace: WorkspaceId, id: AccountId) -> Result<SecretString> {
        each!(self, db => db.account_token(workspace, id))
    }

    pub async fn pause_account(&self, workspace: WorkspaceId, id: AccountId, why: &str) -> Result<()> {
        each!(self, db => db.pause_account(workspace, id, why))
    }

    /// Also ends a cooldown: an operator knows better.
    pub async fn resume_account(&self, workspace: WorkspaceId, id: AccountId) -> Result<()> {
        each!(self, db => db.resume_account(workspace, id))
    }

    pub async fn create_channel(&self, workspace: WorkspaceId, new: NewChannel) -> Result<ChannelId> {
        each!(self, db => db.create_channel(workspace, new))
    }

    pub async fn change_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        settings: ChannelSettings,
    ) -> Result<()> {
        each!(self, db => db.change_channel(workspace, id, settings))
    }

    pub async fn channels(&self, workspace: WorkspaceId) -> Result<Vec<Channel>> {
        each!(self, db => db.channels(workspace))
    }

    /// Keeps the queue; `until` may be `Timestamp::NEVER`. Answers the time it is paused until: a longer pause, or a wait that
    /// the platform asked for, stays.
    pub async fn pause_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        until: Timestamp,
        why: &str,
    ) -> Result<Timestamp> {
        each!(self, db => db.pause_channel(workspace, id, until, why))
    }

    /// Ends a pause, enables again and forgets the streak.
    pub async fn resume_channel(&self, workspace: WorkspaceId, id: ChannelId) -> Result<()> {
        each!(self, db => db.resume_channel(workspace, id))
    }

    pub async fn disable_channel(&self, workspace: WorkspaceId, id: ChannelId, by: DisabledBy) -> Result<()> {
        each!(self, db => db.disable_channel(workspace, id, by))
    }

    /// The same channel under another name: its queue, history and keys stay.
    pub async fn rename_channel(&self, workspace: WorkspaceId, id: ChannelId, name: &str) -> Result<()> {
        each!(self, db => db.rename_channel(workspace, id, name))
    }

    /// The same channel in another chat: what waits goes there, what the old chat refused is queued again (these are
    /// answered), and what was said in the old chat does not count in the new one. Opens what failures had shut.
    pub async fn retarget_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        target: &str,
    ) -> Result<Vec<DeliveryId>> {
        each!(self, db => db.retarget_channel(workspace, id, target))
    }

    /// The channel goes on with another account of its platform, under another id: what waits is sent by that one, and in
    /// the same chat what was said counts as said. What was published stays as it is.
    pub async fn move_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        account: AccountId,
        target: &str,
    ) -> Result<ChannelId> {
        each!(self, db => db.move_channel(workspace, id, account, target))
    }

    /// What waits for it ends as `failed_permanent(channel_removed)`.
    pub async fn remove_channel(&self, workspace: WorkspaceId, id: ChannelId) -> Result<()> {
        each!(self, db => db.remove_channel(workspace, id))
    }

    /// Quiet hours: the lane stays shut until then.
    pub async fn close_channel_until(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        until: Timestamp,
    ) -> Result<()> {
        each!(self, db => db.close_channel_until(workspace, id, until))
    }

    // -- the queue

    /// Messages and deliveries of a whole batch, in one transaction; the same call again gives the same ids.
    pub async fn enqueue(&self, workspace: WorkspaceId, batch: Vec<NewMessage>) -> Result<Vec<Enqueued>> {
        let enqueued = each!(self, db => db.enqueue(workspace, batch))?;
        self.tally().batch(&enqueued);
        Ok(enqueued)
    }

    pub async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        let claimed = each!(self, db => db.claim(request));
        if claimed.is_ok() {
            self.pulse().worked();
        }
        claimed
    }

    /// The results stand in the order of the batch.
    pub async fn commit(&self, batch: Vec<Finish>) -> Result<Vec<Finished>> {
        let finished = each!(self, db => db.commit(batch));
        if finished.is_ok() {
            self.pulse().worked();
        }
        finished
    }

    /// Takes over the sending of a claim that another orchestrator made, once.
    pub async fn begin_send(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        token: domain::ids::ClaimToken,
    ) -> Result<Begun> {
        match self {
            Store::Postgres(db) => db.begin_send(workspace, delivery, token).await,
            Store::Sqlite(_) => Err(StoreError::invalid(
                "adapter",
                "only PostgreSQL lets others claim; in a SQLite file its own node sends",
            )),
        }
    }

    /// `false` for a claim that is not ours any more.
    pub async fn record_parts(&self, batch: Vec<(ClaimRef, PartProgress)>) -> Result<Vec<bool>> {
        each!(self, db => db.record_parts(batch))
    }

    /// `false` for a claim that is not ours any more.
    pub async fn renew(&self, batch: Vec<ClaimRef>, lease: Span) -> Result<Vec<bool>> {
        each!(self, db => db.renew(batch, lease))
    }

    /// Pays for `n` requests outside the claim and returns when the last of them may start.
    pub async fn reserve(&self, workspace: WorkspaceId, id: AccountId, n: u32) -> Result<Timestamp> {
        each!(self, db => db.reserve(workspace, id, n))
    }

    /// Slots for requests whose slots were missed, one for each of these lanes (or for none), in order. The next request
    /// to a chat keeps its distance from the new slot. None comes sooner than `lead`: the answer takes a while.
    pub async fn reserve_for(
        &self,
        workspace: WorkspaceId,
        id: AccountId,
        lanes: Vec<Option<LaneId>>,
        lead: Span,
    ) -> Result<Vec<Timestamp>> {
        each!(self, db => db.reserve_for(workspace, id, lanes, lead))
    }

    /// The same for one more request to the chat of a lane: when its own pace allows it.
    pub async fn reserve_lane(&self, workspace: WorkspaceId, id: LaneId) -> Result<Timestamp> {
        each!(self, db => db.reserve_lane(workspace, id))
    }

    /// Takes up claims whose lease has ended, at most `limit` of them.
    pub async fn recover(&self, whose: Whose, limit: usize) -> Result<Vec<Recovered>> {
        each!(self, db => db.recover(whose, limit))
    }

    /// A new generation of a failed delivery. Refused as a whole if one of them is not failed.
    pub async fn requeue(&self, workspace: WorkspaceId, ids: Vec<DeliveryId>) -> Result<Vec<DeliveryId>> {
        let requeued = each!(self, db => db.requeue(workspace, ids))?;
        self.tally().enqueued(requeued.len());
        Ok(requeued)
    }

    /// Ends what still waits; `false` for what is out already or ended.
    pub async fn cancel(&self, workspace: WorkspaceId, ids: Vec<DeliveryId>) -> Result<Vec<bool>> {
        each!(self, db => db.cancel(workspace, ids))
    }
}
