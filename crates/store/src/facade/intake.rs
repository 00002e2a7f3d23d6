//! How posts get in: sources, runs, messages and cases, the bytes that posts bring, and what doors have answered.

use bytes::Bytes;
use domain::ids::{AccountId, CaseId, EndpointId, MessageId, SourceId, WorkspaceId};
use domain::time::Span;
use serde_json::Value;

use super::Store;
use crate::*;

impl Store {
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
        self.tally().poll(&poll.health);
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

    /// The latest runs, newest first; `before`: older than this one.
    pub async fn runs(
        &self,
        workspace: WorkspaceId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<IngestRun>> {
        each!(self, db => db.runs(workspace, before, limit))
    }

    /// Posts of one call, in order: each is new, seen again or a new revision; new ones join their case and go to
    /// their channels, a reunion ends its case, and the cursor moves with them. All or nothing.
    pub async fn ingest(
        &self,
        workspace: WorkspaceId,
        posts: Vec<NewPost>,
        progress: Option<Progress>,
    ) -> Result<Vec<Ingested>> {
        let ingested = each!(self, db => db.ingest(workspace, posts, progress))?;
        self.tally().posts(&ingested);
        Ok(ingested)
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
        let seen = each!(self, db => db.posts_seen(workspace, source, origin_ids))?;
        self.tally().seen(seen);
        Ok(seen)
    }

    /// The source does not show a post any more; recorded once. `false`: not known, or known to be gone.
    pub async fn post_gone(&self, workspace: WorkspaceId, source: &str, origin_id: &str) -> Result<bool> {
        each!(self, db => db.post_gone(workspace, source, origin_id))
    }

    pub async fn case(&self, workspace: WorkspaceId, id: CaseId) -> Result<Case> {
        each!(self, db => db.case(workspace, id))
    }

    /// A person says that two cases are one: the posts of `other` belong to `keep` from now on, and so do later ones.
    pub async fn merge_cases(&self, workspace: WorkspaceId, keep: CaseId, other: CaseId) -> Result<Refiled> {
        each!(self, db => db.merge_cases(workspace, keep, other))
    }

    /// A person says that these posts are a story of their own.
    pub async fn split_case(
        &self,
        workspace: WorkspaceId,
        case: CaseId,
        posts: Vec<MovedPost>,
    ) -> Result<Refiled> {
        each!(self, db => db.split_case(workspace, case, posts))
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

    /// The latest cases, newest first; `before`: older than this one.
    pub async fn recent_cases(
        &self,
        workspace: WorkspaceId,
        before: Option<CaseId>,
        limit: usize,
    ) -> Result<Vec<Case>> {
        each!(self, db => db.recent_cases(workspace, before, limit))
    }

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
}
