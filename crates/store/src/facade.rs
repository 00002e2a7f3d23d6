//! `Store`: every operation once, handed to the driver in use. What each one promises stands here.

use bytes::Bytes;
use domain::ids::{
    AccountId, CaseId, ChannelId, DeliveryId, EndpointId, LaneId, MessageId, SourceId, WorkspaceId,
};
use domain::time::{Span, Timestamp};
use secrecy::SecretString;
use serde_json::Value;

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

    /// Words about trouble that is coming: little space.
    pub fn warning(&self) -> Option<String> {
        match self {
            Store::Sqlite(db) => db.warning(),
            Store::Postgres(_) => None,
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

    /// Keeps the queue; `until` may be `Timestamp::NEVER`.
    pub async fn pause_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        until: Timestamp,
        why: &str,
    ) -> Result<()> {
        each!(self, db => db.pause_channel(workspace, id, until, why))
    }

    /// Ends a pause, enables again and forgets the streak.
    pub async fn resume_channel(&self, workspace: WorkspaceId, id: ChannelId) -> Result<()> {
        each!(self, db => db.resume_channel(workspace, id))
    }

    pub async fn disable_channel(&self, workspace: WorkspaceId, id: ChannelId, by: DisabledBy) -> Result<()> {
        each!(self, db => db.disable_channel(workspace, id, by))
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

    // -- how posts get in

    pub async fn create_source(&self, workspace: WorkspaceId, new: NewSource) -> Result<SourceId> {
        each!(self, db => db.create_source(workspace, new))
    }

    /// Written whole; the cursor stays.
    pub async fn change_source(&self, workspace: WorkspaceId, id: SourceId, new: NewSource) -> Result<()> {
        each!(self, db => db.change_source(workspace, id, new))
    }

    pub async fn enable_source(&self, workspace: WorkspaceId, id: SourceId, enabled: bool) -> Result<()> {
        each!(self, db => db.enable_source(workspace, id, enabled))
    }

    pub async fn remove_source(&self, workspace: WorkspaceId, id: SourceId) -> Result<()> {
        each!(self, db => db.remove_source(workspace, id))
    }

    pub async fn sources(&self, workspace: WorkspaceId) -> Result<Vec<Source>> {
        each!(self, db => db.sources(workspace))
    }

    /// Leases sources that are due, of every workspace: one node polls a source at a time.
    pub async fn due_sources(&self, owner: &str, seats: Seats, lease: Span) -> Result<Vec<Source>> {
        each!(self, db => db.due_sources(owner, seats, lease))
    }

    /// Holds a source for as long again; `false` if another node has it now.
    pub async fn renew_source(
        &self,
        workspace: WorkspaceId,
        id: SourceId,
        owner: &str,
        lease: Span,
    ) -> Result<bool> {
        each!(self, db => db.renew_source(workspace, id, owner, lease))
    }

    /// Ends a lease; `false` if it is not ours any more, and nothing changed.
    pub async fn finish_poll(&self, workspace: WorkspaceId, poll: FinishedPoll) -> Result<bool> {
        each!(self, db => db.finish_poll(workspace, poll))
    }

    /// Something that a person should look at, in words: `{"text", …}`.
    pub async fn alert(&self, workspace: WorkspaceId, detail: Value) -> Result<()> {
        each!(self, db => db.alert(workspace, detail))
    }

    pub async fn start_run(&self, workspace: WorkspaceId, source: &str) -> Result<i64> {
        each!(self, db => db.start_run(workspace, source))
    }

    pub async fn finish_run(
        &self,
        workspace: WorkspaceId,
        run_id: i64,
        counts: RunCounts,
        error: Option<String>,
    ) -> Result<()> {
        each!(self, db => db.finish_run(workspace, run_id, counts, error))
    }

    /// Ends runs that nobody will end any more: they began longer ago than any run takes. Of every workspace.
    pub async fn close_runs(&self, older_than: Span) -> Result<usize> {
        each!(self, db => db.close_runs(older_than))
    }

    /// The latest runs, newest first.
    pub async fn runs(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<IngestRun>> {
        each!(self, db => db.runs(workspace, limit))
    }

    /// Posts of one call, in order: each is new, seen again or a new revision; new ones join their case and go to
    /// their channels, a reunion ends its case, and the cursor moves with them. All or nothing.
    pub async fn ingest(
        &self,
        workspace: WorkspaceId,
        posts: Vec<NewPost>,
        progress: Option<Progress>,
    ) -> Result<Vec<Ingested>> {
        each!(self, db => db.ingest(workspace, posts, progress))
    }

    /// Which of these posts are here already, and what they looked like.
    pub async fn known_posts(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_ids: Vec<String>,
    ) -> Result<Vec<KnownPost>> {
        each!(self, db => db.known_posts(workspace, source, origin_ids))
    }

    /// Counts known posts that were seen again unchanged; how many there were.
    pub async fn posts_seen(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_ids: Vec<String>,
    ) -> Result<usize> {
        each!(self, db => db.posts_seen(workspace, source, origin_ids))
    }

    /// The source does not show a post any more; recorded once. `false`: not known, or known to be gone.
    pub async fn post_gone(&self, workspace: WorkspaceId, source: &str, origin_id: &str) -> Result<bool> {
        each!(self, db => db.post_gone(workspace, source, origin_id))
    }

    pub async fn case(&self, workspace: WorkspaceId, id: CaseId) -> Result<Case> {
        each!(self, db => db.case(workspace, id))
    }

    pub async fn message(&self, workspace: WorkspaceId, id: MessageId) -> Result<StoredMessage> {
        each!(self, db => db.message(workspace, id))
    }

    pub async fn message_by_origin(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_id: &str,
    ) -> Result<Option<StoredMessage>> {
        each!(self, db => db.message_by_origin(workspace, source, origin_id))
    }

    /// The newest message whose source names this address; it looks through all of them.
    pub async fn message_by_url(&self, workspace: WorkspaceId, url: &str) -> Result<Option<StoredMessage>> {
        each!(self, db => db.message_by_url(workspace, url))
    }

    /// In order of id; continue after the last one.
    pub async fn messages(
        &self,
        workspace: WorkspaceId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<StoredMessage>> {
        each!(self, db => db.messages(workspace, after, limit))
    }

    /// The last messages, the newest first.
    pub async fn recent_messages(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<StoredMessage>> {
        each!(self, db => db.recent_messages(workspace, limit))
    }

    /// The cases among these ids that are there, in order of id.
    pub async fn cases(&self, workspace: WorkspaceId, ids: Vec<CaseId>) -> Result<Vec<Case>> {
        each!(self, db => db.cases(workspace, ids))
    }

    // -- the bytes that posts bring

    /// Keeps bytes by their hash; the same bytes again are only used again.
    pub async fn put_media_origin(&self, workspace: WorkspaceId, new: NewMedia) -> Result<()> {
        each!(self, db => db.put_media_origin(workspace, new))
    }

    pub async fn media_origin(&self, workspace: WorkspaceId, sha256: &str) -> Result<Option<MediaOrigin>> {
        each!(self, db => db.media_origin(workspace, sha256))
    }

    /// How often a node began to decode this picture and did not come back.
    pub async fn looks_begun(&self, workspace: WorkspaceId, key: &str) -> Result<i32> {
        each!(self, db => db.looks_begun(workspace, key))
    }

    /// On the disk before a picture is decoded, which may end the process.
    pub async fn begin_look(&self, workspace: WorkspaceId, key: &str) -> Result<()> {
        each!(self, db => db.begin_look(workspace, key))
    }

    pub async fn end_look(&self, workspace: WorkspaceId, key: &str) -> Result<()> {
        each!(self, db => db.end_look(workspace, key))
    }

    /// What was fetched from there before.
    pub async fn media_by_source(&self, workspace: WorkspaceId, url: &str) -> Result<Option<MediaOrigin>> {
        each!(self, db => db.media_by_source(workspace, url))
    }

    pub async fn media_bytes(&self, workspace: WorkspaceId, sha256: &str) -> Result<Option<Bytes>> {
        each!(self, db => db.media_bytes(workspace, sha256))
    }

    /// What this account's platform calls these bytes, if it still does.
    pub async fn media_handle(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        sha256: &str,
        kind: &str,
    ) -> Result<Option<StoredHandle>> {
        each!(self, db => db.media_handle(workspace, account, sha256, kind))
    }

    pub async fn put_media_handles(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        handles: Vec<StoredHandle>,
    ) -> Result<()> {
        each!(self, db => db.put_media_handles(workspace, account, handles))
    }

    /// Throws out bytes that no message shows and nobody used for so long, of every workspace, at most `limit`.
    pub async fn collect_media(&self, unused_for: Span, limit: usize) -> Result<CollectedMedia> {
        each!(self, db => db.collect_media(unused_for, limit))
    }

    // -- what doors have answered

    pub async fn receipt(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        key: &str,
        request_hash: &str,
    ) -> Result<Receipt> {
        each!(self, db => db.receipt(workspace, endpoint, key, request_hash))
    }

    /// Keeps an answer unless one is kept; says what is kept now.
    pub async fn keep_receipt(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        key: &str,
        request_hash: &str,
        response: Value,
    ) -> Result<Receipt> {
        each!(self, db => db.keep_receipt(workspace, endpoint, key, request_hash, response))
    }

    /// Leaves an `ingress_rejected` event: what a door turned away, and why.
    pub async fn reject_ingress(
        &self,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        why: &str,
    ) -> Result<()> {
        each!(self, db => db.reject_ingress(workspace, endpoint, why))
    }

    /// Leaves an `ingress_rejected` event about visitors of no endpoint, and an `alert` if somebody must look.
    pub async fn turn_away(&self, workspace: WorkspaceId, detail: Value, alert: Option<&str>) -> Result<()> {
        each!(self, db => db.turn_away(workspace, detail, alert))
    }

    pub async fn forget_receipts(&self, older_than: Span) -> Result<u64> {
        each!(self, db => db.forget_receipts(older_than))
    }

    // -- the queue

    /// Messages and deliveries of a whole batch, in one transaction; the same call again gives the same ids.
    pub async fn enqueue(&self, workspace: WorkspaceId, batch: Vec<NewMessage>) -> Result<Vec<Enqueued>> {
        each!(self, db => db.enqueue(workspace, batch))
    }

    pub async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        each!(self, db => db.claim(request))
    }

    /// The results stand in the order of the batch.
    pub async fn commit(&self, batch: Vec<Finish>) -> Result<Vec<Finished>> {
        each!(self, db => db.commit(batch))
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
        each!(self, db => db.requeue(workspace, ids))
    }

    /// Ends what still waits; `false` for what is out already or ended.
    pub async fn cancel(&self, workspace: WorkspaceId, ids: Vec<DeliveryId>) -> Result<Vec<bool>> {
        each!(self, db => db.cancel(workspace, ids))
    }

    // -- reading

    pub async fn now(&self) -> Result<Timestamp> {
        each!(self, db => db.now())
    }

    pub async fn delivery(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Delivery> {
        each!(self, db => db.delivery(workspace, id))
    }

    /// In order of id, at most `limit`; continue after the last one.
    pub async fn deliveries(
        &self,
        workspace: WorkspaceId,
        filter: DeliveryFilter,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        each!(self, db => db.deliveries(workspace, filter, limit))
    }

    /// The delivery that a repeat would have repeated, if it is still here.
    pub async fn said_before(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Option<Delivery>> {
        each!(self, db => db.said_before(workspace, id))
    }

    /// All deliveries of these messages in order of id, at most `limit`.
    pub async fn deliveries_of(
        &self,
        workspace: WorkspaceId,
        messages: Vec<MessageId>,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        each!(self, db => db.deliveries_of(workspace, messages, limit))
    }

    /// What the last `limit` other deliveries of a lane are called on the platform, in the words of their parts.
    pub async fn said_lately(
        &self,
        workspace: WorkspaceId,
        lane: LaneId,
        but: DeliveryId,
        limit: usize,
    ) -> Result<Vec<String>> {
        each!(self, db => db.said_lately(workspace, lane, but, limit))
    }

    pub async fn attempts(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Vec<Attempt>> {
        each!(self, db => db.attempts(workspace, id))
    }

    pub async fn events(&self, workspace: WorkspaceId, after: i64, limit: usize) -> Result<Vec<Event>> {
        each!(self, db => db.events(workspace, after, limit))
    }

    /// The last events, the newest first.
    pub async fn recent_events(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<Event>> {
        each!(self, db => db.recent_events(workspace, limit))
    }

    pub async fn payload(&self, workspace: WorkspaceId, id: MessageId) -> Result<Value> {
        each!(self, db => db.payload(workspace, id))
    }

    /// Those of them that are there, in no order.
    pub async fn payloads(
        &self,
        workspace: WorkspaceId,
        ids: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, Value)>> {
        each!(self, db => db.payloads(workspace, ids))
    }

    pub async fn lanes(&self, workspace: WorkspaceId) -> Result<Vec<Lane>> {
        each!(self, db => db.lanes(workspace))
    }

    /// Compares the narrow tables with `deliveries` and the counters with the rows; empty means they agree.
    /// For tests and `rupor check`: it reads everything.
    pub async fn audit(&self, workspace: WorkspaceId) -> Result<Vec<String>> {
        each!(self, db => db.audit(workspace))
    }

    /// Registers for wake-ups; register before looking for work, and keep polling all the same.
    pub async fn wake_up(&self) -> Result<WakeUp> {
        each!(self, db => db.wake_up())
    }
}
