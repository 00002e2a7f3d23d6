//! The people: clients that post and ask again when they got no answer, and an operator who meddles.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::delivery::{Priority, Status};
use domain::ids::{ChannelId, DeliveryId, WorkspaceId};
use domain::message::{Media, MediaKind, Message};
use domain::time::{Span, Timestamp};
use serde_json::{Value, json};
use store::{Account, Channel, DeliveryFilter, Enqueued, NewMessage, StoreError};

use super::ledger::{busy, commit_unknown};
use super::log::{Heard, Life, OperatorAct, Post, Verb};
use super::saboteur::Saboteur;
use super::world::World;
use super::{people, walls};

/// A message with this word kills whoever reads it.
pub(super) const POISON: &str = "ядовитое";

/// Posts everything, about half of it at once; returns when everything got an answer that says something.
pub(super) async fn post_all(world: Arc<World>) {
    let n = world.options.messages;
    let poison = world.options.poison.then(|| world.below(n));
    for number in 0..n {
        if world.below(2) == 0 {
            tokio::time::sleep(world.up_to(world.options.chaos * 2 / n as u32)).await;
        }
        let poison = poison == Some(number);
        let Some((message, post)) = compose(&world, number, poison) else {
            continue;
        };
        let from_wall = !poison && world.strikes(world.options.client.from_walls);
        let index = note(&world, post);
        match from_wall {
            true => walls::publish(&world, index, message),
            false => drop(tokio::spawn(insist(Arc::clone(&world), index, message))),
        }
        if world.strikes(world.options.client.wrong) {
            wrong_call(&world, number).await;
        }
    }
    wait_for_answers(&world).await;
}

/// Writes down what a client is about to ask for.
pub(super) fn note(world: &World, post: Post) -> usize {
    let mut logs = world.logs();
    logs.client.push(post);
    logs.client.len() - 1
}

/// Answers come within the calm, at the latest; so do the last words of a story.
pub(super) async fn wait_for_answers(world: &World) {
    for _ in 0..10_000 {
        let open = world.logs().client.iter().any(|post| !post.is_answered());
        if !open && world.stories.load(Ordering::Acquire) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

impl Post {
    fn is_answered(&self) -> bool {
        matches!(self.heard.last(), Some(Heard::Ok { .. } | Heard::Fail))
    }
}

/// What a call said, if it said something.
pub(super) fn meant<T>(result: store::Result<T>) -> Option<store::Result<T>> {
    match result {
        Err(StoreError::Busy { .. } | StoreError::CommitUnknown { .. }) => None,
        result => Some(result),
    }
}

/// A call with the troubles of its client: it is not made, or its answer is lost.
pub(super) async fn troubled<T>(
    world: &World,
    work: impl Future<Output = store::Result<T>>,
) -> store::Result<T> {
    let trouble = &world.options.client;
    if world.strikes(trouble.busy) {
        return Err(busy());
    }
    let lost = world.strikes(trouble.commit_unknown);
    if lost && world.below(2) == 0 {
        return Err(commit_unknown());
    }
    let result = work.await;
    if lost { Err(commit_unknown()) } else { result }
}

/// Waits a moment before asking again.
pub(super) async fn hesitate(world: &World) {
    tokio::time::sleep(world.between(Duration::from_millis(50), Duration::from_secs(2))).await;
}

/// Posts one message and asks again until the answer says something.
async fn insist(world: Arc<World>, index: usize, mut message: NewMessage) {
    let workspace = WorkspaceId(world.logs().client[index].workspace);
    for tried in 0.. {
        let stored_before = world.logs().client[index].heard.contains(&Heard::Info);
        let heard = match enqueue(&world, workspace, message.clone()).await {
            Ok(enqueued) => {
                if stored_before {
                    world.sometimes(match enqueued.created {
                        true => "client: retried an unknown enqueue, it was not stored",
                        false => "client: retried an unknown enqueue, it was stored",
                    });
                }
                let deduped = |delivery: &&store::EnqueuedDelivery| delivery.status == Status::Deduped;
                if enqueued.deliveries.iter().any(|delivery| deduped(&delivery)) {
                    world.sometimes("client: a repeat was deduped");
                }
                ok(enqueued)
            }
            Err(StoreError::Busy { .. }) if world.saboteur == Some(Saboteur::AckBeforeCommit) => {
                Heard::Ok { message: 0, deliveries: Vec::new(), skipped: Vec::new() }
            }
            Err(StoreError::Busy { .. } | StoreError::CommitUnknown { .. }) => Heard::Info,
            Err(_) => Heard::Fail,
        };
        let done = heard != Heard::Info;
        world.trace(format_args!("client: post {index} hears {heard:?}"));
        world.logs().client[index].heard.push(heard);
        if done {
            return;
        }
        if world.saboteur == Some(Saboteur::KeyRenewed) {
            message.origin_id = format!("{}-{tried}", message.origin_id);
            message.content_hash = format!("{}-{tried}", message.content_hash);
            message.idempotency_key = None;
        }
        hesitate(&world).await;
    }
}

pub(super) fn ok(enqueued: Enqueued) -> Heard {
    Heard::Ok {
        message: enqueued.message_id.0,
        deliveries: enqueued.deliveries.iter().map(|d| (d.delivery_id.0, d.channel_id.0)).collect(),
        skipped: enqueued.skipped.iter().map(|id| id.0).collect(),
    }
}

pub(super) async fn enqueue(
    world: &World,
    workspace: WorkspaceId,
    message: NewMessage,
) -> store::Result<Enqueued> {
    troubled(world, async move {
        match world.saboteur {
            Some(Saboteur::FanOutInTwo) if message.channels.len() > 1 => {
                enqueue_in_two(world, workspace, message).await
            }
            _ => enqueue_once(world, workspace, message).await,
        }
    })
    .await
}

async fn enqueue_once(world: &World, workspace: WorkspaceId, message: NewMessage) -> store::Result<Enqueued> {
    let mut enqueued = world.store.enqueue(workspace, vec![message]).await?;
    enqueued.pop().ok_or_else(|| StoreError::Database("enqueue gave nothing back".into()))
}

/// The saboteur's way: the second half may never come.
async fn enqueue_in_two(
    world: &World,
    workspace: WorkspaceId,
    message: NewMessage,
) -> store::Result<Enqueued> {
    let mut first = message.clone();
    let rest = first.channels.split_off(1);
    let enqueued = enqueue_once(world, workspace, first).await?;
    if !world.strikes(world.options.client.busy) {
        let second = NewMessage { origin_id: format!("{}+", message.origin_id), channels: rest, ..message };
        enqueue_once(world, workspace, NewMessage { idempotency_key: None, ..second }).await?;
    }
    Ok(enqueued)
}

/// A message with a marker of its own and numbered words, for some channels of one workspace.
fn compose(world: &World, number: usize, poison: bool) -> Option<(NewMessage, Post)> {
    let workspace = world.workspaces[world.below(world.workspaces.len())];
    let removed = |id: &ChannelId| {
        world.logs().world.channels.get(&id.0).is_some_and(|channel| channel.removed_at.is_some())
    };
    let mut channels: Vec<ChannelId> = world
        .channels
        .iter()
        .filter(|(of, id)| *of == workspace && !removed(id))
        .map(|(_, id)| *id)
        .collect();
    channels.retain(|_| world.below(3) > 0);
    if channels.is_empty() {
        return None;
    }
    let words = match world.below(8) {
        0 => 900,
        n => n + 1,
    };
    let repeated = number > 0 && world.strikes(world.options.client.repeat);
    let content_hash = match repeated {
        true => format!("hash{}", world.below(number)),
        false => format!("hash{number}"),
    };
    let run_at = (world.below(10) == 0)
        .then(|| Timestamp(world.ledger_at()) + Span::from_secs(1 + world.below(20) as i64));
    let post = Post { content_hash, poison, ..post(workspace, number, words) };
    let post = Post { channels: channels.iter().map(|id| id.0).collect(), ..post };
    let message = Message { text: wording(&post, ""), media: media(world, number), ..Message::default() };
    let new = NewMessage {
        idempotency_key: (world.below(2) == 0).then(|| format!("key{number}")),
        channels,
        priority: if world.below(3) == 0 { Priority::Bulk } else { Priority::Urgent },
        run_at,
        ..new_message(&post, &message)
    };
    Some((new, post))
}

/// A post that nobody hears yet.
pub(super) fn post(workspace: WorkspaceId, number: usize, words: usize) -> Post {
    Post {
        workspace: workspace.0,
        marker: format!("метка{number}я"),
        number,
        words,
        channels: Vec::new(),
        people: Vec::new(),
        content_hash: format!("hash{number}"),
        poison: false,
        heard: Vec::new(),
        life: Life::default(),
    }
}

/// The marker, what tells revisions apart, and the numbered words: another message's must not be taken for these.
pub(super) fn wording(post: &Post, revision: &str) -> String {
    let mut text = post.marker.clone();
    text.push_str(revision);
    for n in 0..post.words {
        text.push_str(&format!(" слово{n}из{}", post.number));
    }
    if post.poison {
        text.push(' ');
        text.push_str(POISON);
    }
    text
}

/// The row of a post, for nobody yet.
pub(super) fn new_message(post: &Post, message: &Message) -> NewMessage {
    NewMessage {
        source: "simulated".into(),
        origin_id: format!("post{}", post.number),
        idempotency_key: None,
        payload: serde_json::to_value(message).unwrap_or(Value::Null),
        content_hash: post.content_hash.clone(),
        hash_version: 1,
        fingerprint: None,
        kind: "other".into(),
        facts: json!({}),
        facts_version: 0,
        tags: Vec::new(),
        origin: json!({}),
        case_id: None,
        channels: Vec::new(),
        priority: Priority::Urgent,
        run_at: None,
        skipped: None,
    }
}

fn media(world: &World, number: usize) -> Vec<Media> {
    let n = if world.below(5) == 0 { 1 + world.below(3) } else { 0 };
    let url = |n| Some(format!("https://example.org/{number}/{n}.jpg"));
    (0..n).map(|n| Media { kind: MediaKind::Photo, url: url(n), ..Media::default() }).collect()
}

/// A call that must be refused: an unknown channel, or a known key with another body.
async fn wrong_call(world: &World, number: usize) {
    let Some((mut message, mut post)) = compose(world, number, false) else {
        return;
    };
    post.marker = format!("чужая{number}я");
    message.payload = json!({"text": post.marker});
    let known = world.logs().client.iter().any(|earlier| {
        earlier.workspace == post.workspace
            && earlier.marker == format!("метка{number}я")
            && earlier.is_answered()
    });
    if !known {
        message.origin_id = format!("wrong{number}");
        message.idempotency_key = None;
        message.channels.push(ChannelId(999_999));
    }
    let workspace = WorkspaceId(post.workspace);
    let refused = world.store.enqueue(workspace, vec![message]).await.is_err();
    if refused {
        world.sometimes("client: a wrong call was refused");
    }
    // A wrong call that is taken is as bad as a lost one: the checker will find its row.
    post.heard.push(Heard::Fail);
    world.logs().client.push(post);
}

/// Does one thing now and then until the calm, and then makes everything go again until the run ends.
pub(super) async fn operate(world: Arc<World>) {
    loop {
        let every = world.options.client.operator_every;
        let wait = match (world.is_calm(), every) {
            (true, _) => Duration::from_secs(10),
            (false, Some(every)) => world.between(every / 2, every * 2),
            (false, None) => Duration::from_secs(1),
        };
        if world.is_calm() {
            resume_what_stands(&world).await;
        } else if every.is_some() {
            meddle(&world).await;
        }
        tokio::time::sleep(wait).await;
    }
}

pub(super) fn did(world: &World, verb: Verb) {
    world.trace(format_args!("operator: {verb:?}"));
    let (at, ledger_at) = (world.at(), world.ledger_at());
    world.logs().operator.push(OperatorAct { at, ledger_at, verb });
}

async fn meddle(world: &World) {
    let (workspace, channel) = world.channels[world.below(world.channels.len())];
    let (owner, account) = world.accounts[world.below(world.accounts.len())];
    let store = &world.store;
    let draw = world.below(24);
    let result = match draw {
        0..=2 => {
            let until = Timestamp(world.ledger_at()) + Span::from_secs(1 + world.below(30) as i64);
            did(world, Verb::PauseChannel(channel.0));
            store.pause_channel(workspace, channel, until, "simulated").await.map(drop)
        }
        3..=5 => {
            did(world, Verb::ResumeChannel(channel.0));
            store.resume_channel(workspace, channel).await
        }
        6..=7 => {
            did(world, Verb::PauseAccount(account.0));
            store.pause_account(owner, account, "simulated").await
        }
        8..=10 => {
            did(world, Verb::ResumeAccount(account.0));
            store.resume_account(owner, account).await
        }
        11 => remove_channel(world, workspace, channel).await,
        12..=15 => cancel_one(world, workspace).await,
        16..=19 => requeue_one(world, workspace).await,
        20 => people::stop_one(world).await,
        _ => people::return_one(world).await,
    };
    if let Err(error) = result {
        world.trace(format_args!("operator: refused: {error}"));
    }
}

async fn remove_channel(world: &World, workspace: WorkspaceId, channel: ChannelId) -> store::Result<()> {
    let waiting = DeliveryFilter { channel_id: Some(channel), ..DeliveryFilter::default() };
    let waiting = world.store.deliveries(workspace, waiting, 1_000).await?;
    if waiting.iter().any(|delivery| delivery.status.is_pending()) {
        world.sometimes("operator: removed a channel with a queue");
    }
    world.store.remove_channel(workspace, channel).await?;
    did(world, Verb::RemoveChannel(channel.0));
    let at = world.at();
    if let Some(channel) = world.logs().world.channels.get_mut(&channel.0) {
        channel.removed_at = Some(at);
    }
    Ok(())
}

async fn pick(
    world: &World,
    workspace: WorkspaceId,
    which: impl Fn(Status) -> bool,
) -> store::Result<Option<DeliveryId>> {
    let mut all = world.store.deliveries(workspace, DeliveryFilter::default(), 1_000).await?;
    all.retain(|delivery| which(delivery.status));
    Ok(all.get(world.below(all.len())).map(|delivery| delivery.delivery_id))
}

async fn cancel_one(world: &World, workspace: WorkspaceId) -> store::Result<()> {
    let Some(id) = pick(world, workspace, Status::is_pending).await? else {
        return Ok(());
    };
    let cancelled = world.store.cancel(workspace, vec![id]).await?;
    if cancelled == [true] {
        did(world, Verb::Cancel(id.0));
        world.sometimes("operator: cancelled a delivery");
    }
    Ok(())
}

async fn requeue_one(world: &World, workspace: WorkspaceId) -> store::Result<()> {
    let failed = |status| matches!(status, Status::Dead | Status::FailedPermanent);
    let Some(id) = pick(world, workspace, failed).await? else {
        return Ok(());
    };
    let again = world.store.requeue(workspace, vec![id]).await?;
    for id in again {
        did(world, Verb::Requeue(id.0));
        world.sometimes("operator: requeued a delivery");
    }
    Ok(())
}

/// Presses the kill switch once and releases it later.
pub(super) async fn hold(world: Arc<World>) {
    let Some((from, length)) = world.options.client.hold else {
        return;
    };
    tokio::time::sleep(from).await;
    let mut waiting = 0;
    for workspace in world.workspaces.clone() {
        for lane in world.store.lanes(workspace).await.unwrap_or_default() {
            waiting += lane.counts.queued + lane.counts.retry;
        }
    }
    if world.store.hold_all(Some("simulated")).await.is_ok() {
        did(&world, Verb::HoldAll);
        if waiting > 0 {
            world.sometimes("operator: kill switch pressed with work waiting");
        }
    }
    tokio::time::sleep(length).await;
    if world.store.hold_all(None).await.is_ok() {
        did(&world, Verb::ReleaseAll);
    }
}

/// In the calm a person looks after what is paused, disabled or cooling. The rest is left alone: to resume it would end
/// the waits of its posts.
async fn resume_what_stands(world: &World) {
    for (workspace, account) in &world.accounts {
        let all = world.store.accounts(*workspace).await.unwrap_or_default();
        let now = Timestamp(world.ledger_at());
        let stands = |found: &Account| found.paused || found.cooldown_until > now;
        if all.iter().any(|found| found.account_id == *account && stands(found)) {
            did(world, Verb::ResumeAccount(account.0));
            let _ = world.store.resume_account(*workspace, *account).await;
        }
    }
    for (workspace, channel) in &world.channels {
        let all = world.store.channels(*workspace).await.unwrap_or_default();
        let now = Timestamp(world.ledger_at());
        let stands = |found: &Channel| !found.enabled || found.paused_until > now;
        if all.iter().any(|found| found.channel_id == *channel && stands(found)) {
            did(world, Verb::ResumeChannel(channel.0));
            let _ = world.store.resume_channel(*workspace, *channel).await;
        }
    }
}
