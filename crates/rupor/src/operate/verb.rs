//! Every change an operator makes, as a value, and the one function that makes it.

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use domain::content::Kind;
use domain::delivery::Status;
use domain::ids::{CaseId, DeliveryId, MessageId, WorkspaceId};
use domain::message::Message;
use domain::time::{Span, Timestamp};
use platforms::platform::Network;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Delivery, DeliveryFilter, DisabledBy, NewMessage, Store, StoreError};

use super::audiences::{AudienceOrder, perform_on_audience};
use super::bots::perform_on_bot;
use super::campaigns::{CampaignOrder, perform_on_campaign};
use crate::config::plan::{self, Absent};
use crate::config::{Config, Secret};
use engine::addresses::ApiBases;
use engine::ingest::{Preset, PublishRules, SourceSettings};
use engine::sources;

/// Deliveries one bulk verb touches at most; more is another call.
pub(crate) const BULK_MAX: usize = 10_000;

/// A change. Things are named as people know them; the store finds them when it happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Verb {
    PauseChannel {
        workspace: String,
        channel: String,
        /// How long; without it until somebody resumes.
        millis: Option<i64>,
        why: String,
    },
    /// Ends a pause, enables again and forgets the streak of failures.
    ResumeChannel {
        workspace: String,
        channel: String,
        /// Also queues again what failed because of the channel.
        with_failed: bool,
    },
    DisableChannel {
        workspace: String,
        channel: String,
    },
    /// Reads a source, or leaves it unread.
    EnableSource {
        workspace: String,
        source: String,
        enabled: bool,
    },
    /// Opens or shuts a door.
    EnableEndpoint {
        workspace: String,
        endpoint: String,
        enabled: bool,
    },
    /// A person says that these cases are one.
    JoinCases {
        workspace: String,
        keep: CaseId,
        other: CaseId,
    },
    /// A person says that these posts are a story of their own.
    SplitCase {
        workspace: String,
        case: CaseId,
        messages: Vec<MessageId>,
    },
    /// Queues a test post to one channel.
    TestChannel {
        workspace: String,
        channel: String,
        text: String,
        /// Drawn by whoever asks, so that two tests are two posts.
        key: String,
    },
    /// A token of the API.
    NewToken {
        workspace: String,
        name: String,
        /// Drawn by whoever asks, who shows it once.
        secret: Secret,
        scopes: Vec<store::ApiScope>,
    },
    RevokeToken {
        workspace: String,
        name: String,
    },
    /// Queues a test by every way of alerts.
    TestAlert {
        workspace: String,
        /// Drawn by whoever asks, so that two tests are two.
        key: String,
    },
    PauseAccount {
        workspace: String,
        account: String,
        why: String,
    },
    ResumeAccount {
        workspace: String,
        account: String,
    },
    Requeue {
        workspace: String,
        which: Which,
    },
    Cancel {
        workspace: String,
        which: Which,
    },
    /// A person has looked at a post that waited for that.
    Decide {
        workspace: String,
        message: MessageId,
        decision: Decision,
    },
    /// The kill switch: of everything, or of one workspace.
    Hold {
        workspace: Option<String>,
        why: String,
    },
    Release {
        workspace: Option<String>,
    },
    /// A person's own post, to the channels they name or those whose routes want it.
    Post {
        workspace: String,
        title: Option<String>,
        text: String,
        /// Files that whoever performs this can read.
        photos: Vec<PathBuf>,
        channels: Vec<String>,
        kind: Option<Kind>,
        url: Option<String>,
        /// Drawn by whoever asks: doing it again is the same post.
        key: String,
    },
    /// One step of a JSONL file.
    Import {
        workspace: String,
        /// A file that whoever performs this can read.
        path: PathBuf,
        /// The byte to go on from.
        at: u64,
        preset: Preset,
        horizon_hours: Option<i64>,
    },
    /// People, and who is meant by a name.
    Audience {
        workspace: String,
        order: AudienceOrder,
    },
    Campaign {
        workspace: String,
        campaign: String,
        order: CampaignOrder,
    },
    Bot {
        workspace: String,
        bot: String,
        order: super::bots::BotOrder,
    },
    Apply {
        config: Config,
        absent: Absent,
    },
    /// Seals every token with the next key.
    RotateKey,
    /// A new secret for a door; the one before opens it for a while.
    RotateEndpoint {
        workspace: String,
        endpoint: String,
        /// Drawn by whoever asks, who shows it once.
        secret: Secret,
        overlap_millis: i64,
    },
    /// Changes nothing: how the database does, as the node sees it.
    Health,
}

/// What a person says of a post that nobody was sure of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decision {
    Approve,
    Reject,
}

/// Which deliveries a bulk verb means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Which {
    Ids(Vec<DeliveryId>),
    Cause { status: Option<Status>, code: Option<String>, channel: Option<String> },
}

/// Makes the change and tells what became of it.
pub(crate) async fn perform(store: &Store, verb: Verb) -> anyhow::Result<Value> {
    match verb {
        Verb::Health => Ok(json!(super::facts::Ailment::of(store))),
        Verb::Apply { config, absent } => {
            let plan = plan::apply(store, &config, absent).await?;
            Ok(json!(plan))
        }
        Verb::Hold { workspace: None, why } => {
            store.hold_all(Some(&why)).await?;
            Ok(json!({"held": true, "why": why}))
        }
        Verb::Release { workspace: None } => {
            store.hold_all(None).await?;
            Ok(json!({"held": false}))
        }
        Verb::Hold { workspace: Some(name), .. } => hold(store, &name, true).await,
        Verb::Release { workspace: Some(name) } => hold(store, &name, false).await,
        Verb::EnableSource { workspace, source, enabled } => {
            super::sources::enable(store, &workspace, &source, enabled).await
        }
        Verb::EnableEndpoint { workspace, endpoint, enabled } => {
            let ws = find_workspace(store, &workspace).await?;
            let row = find_endpoint(store, ws, &endpoint).await?;
            store.enable_endpoint(ws, row.endpoint_id, enabled).await?;
            Ok(json!({"endpoint": row.name, "enabled": enabled}))
        }
        Verb::JoinCases { workspace, keep, other } => {
            super::cases::join(store, &workspace, keep, other).await
        }
        Verb::SplitCase { workspace, case, messages } => {
            super::cases::split(store, &workspace, case, &messages).await
        }
        Verb::Requeue { workspace, which } => requeue(store, &workspace, which).await,
        Verb::Cancel { workspace, which } => cancel(store, &workspace, which).await,
        Verb::Decide { workspace, message, decision } => decide(store, &workspace, message, decision).await,
        Verb::NewToken { workspace, name, secret, scopes } => {
            let ws = find_workspace(store, &workspace).await?;
            let id = store.create_api_token(ws, &name, secret.reveal(), scopes).await?;
            Ok(json!({"token_id": id, "name": name}))
        }
        Verb::RevokeToken { workspace, name } => {
            let ws = find_workspace(store, &workspace).await?;
            let revoked = store.revoke_api_token(ws, &name).await?;
            Ok(json!({"name": name, "revoked": revoked}))
        }
        Verb::TestAlert { workspace, key } => super::alerts::test(store, &workspace, &key).await,
        Verb::PauseAccount { workspace, account, why } => {
            let (ws, row) = find_account(store, &workspace, &account).await?;
            store.pause_account(ws, row.account_id, &why).await?;
            Ok(json!({"account": row.name, "paused": true}))
        }
        Verb::ResumeAccount { workspace, account } => {
            let (ws, row) = find_account(store, &workspace, &account).await?;
            store.resume_account(ws, row.account_id).await?;
            // The way of alerts on the same token was refused with it.
            for twin in store.accounts(ws).await? {
                let is_twin = twin.fingerprint == row.fingerprint && twin.settings.tier == store::TIER_ALERTS;
                if twin.paused && is_twin {
                    store.resume_account(ws, twin.account_id).await?;
                }
            }
            Ok(json!({"account": row.name, "paused": false}))
        }
        Verb::Import { workspace, path, at, preset, horizon_hours } => {
            let ws = find_workspace(store, &workspace).await?;
            let settings = SourceSettings { preset, horizon_hours, ..SourceSettings::default() };
            let rules = PublishRules::load(store, ws, "import", &settings).await?;
            Ok(json!(sources::import_step(store, &network(), ws, &rules, &path, at).await?))
        }
        Verb::RotateKey => Ok(json!({"accounts": store.rotate_key().await?})),
        Verb::RotateEndpoint { workspace, endpoint, secret, overlap_millis } => {
            let ws = find_workspace(store, &workspace).await?;
            let row = find_endpoint(store, ws, &endpoint).await?;
            let overlap = Span::from_millis(overlap_millis.clamp(0, PAUSE_MILLIS_MAX));
            store.change_endpoint(ws, row.endpoint_id, secret.reveal(), row.settings, overlap).await?;
            Ok(json!({"endpoint": row.name, "overlap_ms": overlap.millis()}))
        }
        Verb::Audience { workspace, order } => perform_on_audience(store, &workspace, order).await,
        Verb::Campaign { workspace, campaign, order } => {
            perform_on_campaign(store, &workspace, &campaign, order).await
        }
        Verb::Bot { workspace, bot, order } => {
            perform_on_bot(store, find_workspace(store, &workspace).await?, &bot, order).await
        }
        post @ Verb::Post { .. } => super::posts::perform_post(store, post).await,
        channel_verb => perform_on_channel(store, channel_verb).await,
    }
}

pub(super) fn network() -> Network {
    let network = Network::default();
    ApiBases::from_env(|name| std::env::var(name).ok()).admit(&network);
    network
}

async fn perform_on_channel(store: &Store, verb: Verb) -> anyhow::Result<Value> {
    match verb {
        Verb::PauseChannel { workspace, channel, millis, why } => {
            let (ws, row) = find_channel(store, &workspace, &channel).await?;
            let until = match millis {
                Some(ms) if ms <= 0 => bail!("a pause is longer than 0; write such as 30m or 2h"),
                Some(ms) => store.now().await? + Span::from_millis(ms.min(PAUSE_MILLIS_MAX)),
                None => Timestamp::NEVER,
            };
            let until = store.pause_channel(ws, row.channel_id, until, &why).await?;
            let until = (until != Timestamp::NEVER).then_some(until);
            Ok(json!({"channel": row.name, "paused": true, "until": until}))
        }
        Verb::ResumeChannel { workspace, channel, with_failed } => {
            let (ws, row) = find_channel(store, &workspace, &channel).await?;
            store.resume_channel(ws, row.channel_id).await?;
            let failed = refused_by_channel(store, ws, &row).await?;
            let requeued = if with_failed { requeue_all(store, ws, &failed).await? } else { Vec::new() };
            let left = failed.len() - requeued.len();
            Ok(json!({"channel": row.name, "resumed": true, "requeued": requeued.len(), "failed": left}))
        }
        Verb::DisableChannel { workspace, channel } => {
            let (ws, row) = find_channel(store, &workspace, &channel).await?;
            store.disable_channel(ws, row.channel_id, DisabledBy::Operator).await?;
            Ok(json!({"channel": row.name, "enabled": false}))
        }
        Verb::TestChannel { workspace, channel, text, key } => {
            let (ws, row) = find_channel(store, &workspace, &channel).await?;
            let enqueued = store.enqueue(ws, vec![test_message(&row, &text, &key)]).await?;
            let delivery = enqueued.first().and_then(|message| message.deliveries.first());
            let delivery = delivery.ok_or_else(|| {
                anyhow!("channel {} takes no posts: it is disabled; enable it first", row.name)
            })?;
            Ok(json!({"channel": row.name, "delivery_id": delivery.delivery_id, "status": delivery.status}))
        }
        other => bail!("{other:?} is not about a channel"),
    }
}

/// A year: more is meant as "until somebody resumes".
const PAUSE_MILLIS_MAX: i64 = 365 * 24 * 3_600 * 1_000;

fn test_message(channel: &store::Channel, text: &str, key: &str) -> NewMessage {
    NewMessage {
        origin: json!({"source": "cli"}),
        channels: vec![channel.channel_id],
        // Two tests are two posts, however equal their words.
        ..NewMessage::new("cli:test", key, format!("test:{key}"), json!(Message::text(text)))
    }
}

async fn hold(store: &Store, workspace: &str, held: bool) -> anyhow::Result<Value> {
    let id = find_workspace(store, workspace).await?;
    store.hold_workspace(id, held).await?;
    Ok(json!({"workspace": workspace, "held": held}))
}

async fn decide(
    store: &Store,
    workspace: &str,
    message: MessageId,
    decision: Decision,
) -> anyhow::Result<Value> {
    let ws = find_workspace(store, workspace).await?;
    let known = store.channels(ws).await?;
    let name = |id| known.iter().find(|channel| channel.channel_id == id).map(|channel| channel.name.clone());
    let nothing = |error: StoreError| match error {
        StoreError::NotFound { what: "held post", .. } => anyhow!(
            "message {message} does not wait for anybody: it was decided, changed or withdrawn, or its time is over; \
             `$ rupor why {message}` tells which, `$ rupor message list` what waits"
        ),
        other => other.into(),
    };
    match decision {
        Decision::Approve => {
            let made = store.approve(ws, message).await.map_err(nothing)?;
            let went = made.iter().map(|delivery| {
                let (id, status) = (delivery.delivery_id, delivery.status);
                json!({"delivery_id": id, "channel": name(delivery.channel_id), "status": status})
            });
            Ok(json!({"message_id": message, "approved": true, "deliveries": went.collect::<Vec<_>>()}))
        }
        Decision::Reject => {
            let channels = store.reject(ws, message).await.map_err(nothing)?;
            let names: Vec<_> = channels.into_iter().map(name).collect();
            Ok(json!({"message_id": message, "approved": false, "channels": names}))
        }
    }
}

async fn requeue(store: &Store, workspace: &str, which: Which) -> anyhow::Result<Value> {
    let ws = find_workspace(store, workspace).await?;
    let found = match which {
        Which::Ids(ids) => {
            let mut found = Vec::new();
            for id in ids {
                found.push(store.delivery(ws, id).await?);
            }
            found
        }
        Which::Cause { status: Some(status), .. } if !is_failed(status) => {
            bail!("{status} deliveries cannot be requeued; only dead and failed_permanent ones can")
        }
        which @ Which::Cause { .. } => matching(store, ws, workspace, which, is_failed).await?,
    };
    let failed = not_yet_requeued(store, ws, found).await?;
    let requeued = requeue_all(store, ws, &failed.0).await?;
    Ok(json!({"requeued": requeued, "already": failed.1}))
}

async fn cancel(store: &Store, workspace: &str, which: Which) -> anyhow::Result<Value> {
    let ws = find_workspace(store, workspace).await?;
    let ids: Vec<DeliveryId> = match which {
        Which::Ids(ids) => ids,
        Which::Cause { status: Some(status), .. } if !status.is_pending() => {
            bail!("{status} deliveries cannot be cancelled; only queued and retry ones can")
        }
        which => {
            let found = matching(store, ws, workspace, which, Status::is_pending).await?;
            found.iter().map(|delivery| delivery.delivery_id).collect()
        }
    };
    let cancelled = store.cancel(ws, ids.clone()).await?;
    let done: Vec<DeliveryId> =
        ids.iter().zip(&cancelled).filter(|(_, done)| **done).map(|(id, _)| *id).collect();
    Ok(json!({"cancelled": done, "not_waiting": ids.len() - done.len()}))
}

fn is_failed(status: Status) -> bool {
    matches!(status, Status::Dead | Status::FailedPermanent)
}

/// What a cause names, page by page, up to the bulk limit.
async fn matching(
    store: &Store,
    ws: WorkspaceId,
    workspace: &str,
    which: Which,
    wanted: fn(Status) -> bool,
) -> anyhow::Result<Vec<Delivery>> {
    let Which::Cause { status, code, channel } = which else {
        bail!("a list of ids is not a cause");
    };
    let channel_id = match channel {
        Some(name) => Some(find_channel(store, workspace, &name).await?.1.channel_id),
        None => None,
    };
    let mut filter = DeliveryFilter { status, code, channel_id, ..DeliveryFilter::default() };
    let mut found: Vec<Delivery> = Vec::new();
    while found.len() < BULK_MAX {
        let page = store.deliveries(ws, filter.clone(), PAGE).await?;
        filter.after = page.last().map(|delivery| delivery.delivery_id);
        let is_last = page.len() < PAGE;
        found.extend(page.into_iter().filter(|delivery| wanted(delivery.status)));
        if is_last {
            break;
        }
    }
    found.truncate(BULK_MAX);
    Ok(found)
}

pub(super) const PAGE: usize = 1_000;

/// What a channel itself refused (kicked, no rights): worth offering again when the channel works again.
async fn refused_by_channel(
    store: &Store,
    ws: WorkspaceId,
    channel: &store::Channel,
) -> anyhow::Result<Vec<Delivery>> {
    let which = Which::Cause {
        status: Some(Status::FailedPermanent),
        code: None,
        channel: Some(channel.name.clone()),
    };
    let workspaces = store.workspaces().await?;
    let name = workspaces.into_iter().find(|known| known.workspace_id == ws).map(|known| known.name);
    let found = matching(store, ws, &name.unwrap_or_default(), which, is_failed).await?;
    let by_channel =
        |delivery: &Delivery| delivery.last_error.as_ref().is_some_and(|error| error["scope"] == "channel");
    Ok(not_yet_requeued(store, ws, found.into_iter().filter(by_channel).collect()).await?.0)
}

/// Leaves out what has a newer generation: doing a bulk requeue twice must not say things twice.
async fn not_yet_requeued(
    store: &Store,
    ws: WorkspaceId,
    found: Vec<Delivery>,
) -> anyhow::Result<(Vec<Delivery>, usize)> {
    let (mut fresh, mut already) = (Vec::new(), 0);
    for delivery in found {
        let filter = DeliveryFilter { message_id: Some(delivery.message_id), ..DeliveryFilter::default() };
        let of_message = store.deliveries(ws, filter, PAGE).await?;
        match of_message.iter().any(|other| other.parent_delivery == Some(delivery.delivery_id)) {
            true => already += 1,
            false => fresh.push(delivery),
        }
    }
    Ok((fresh, already))
}

async fn requeue_all(store: &Store, ws: WorkspaceId, failed: &[Delivery]) -> anyhow::Result<Vec<DeliveryId>> {
    let ids: Vec<DeliveryId> = failed.iter().map(|delivery| delivery.delivery_id).collect();
    Ok(store.requeue(ws, ids).await?)
}

pub(crate) async fn find_workspace(store: &Store, name: &str) -> anyhow::Result<WorkspaceId> {
    let known = store.workspaces().await?;
    let found = known.iter().find(|workspace| workspace.name == name);
    let names: Vec<&str> = known.iter().map(|workspace| workspace.name.as_str()).collect();
    Ok(found
        .with_context(|| format!("workspace {name:?} is not known; known are {}", listed(&names)))?
        .workspace_id)
}

/// By name, or by id where the name is hard to type.
pub(crate) async fn find_channel(
    store: &Store,
    workspace: &str,
    name: &str,
) -> anyhow::Result<(WorkspaceId, store::Channel)> {
    let ws = find_workspace(store, workspace).await?;
    let known = store.channels(ws).await?;
    let names: Vec<&str> = known.iter().map(|channel| channel.name.as_str()).collect();
    let problem = format!("channel {name:?} is not known; known are {}", listed(&names));
    let by_name = known.iter().find(|channel| channel.name == name);
    let found = by_name.or_else(|| known.iter().find(|channel| channel.channel_id.to_string() == name));
    Ok((ws, found.with_context(|| problem)?.clone()))
}

pub(crate) async fn find_account(
    store: &Store,
    workspace: &str,
    name: &str,
) -> anyhow::Result<(WorkspaceId, store::Account)> {
    let ws = find_workspace(store, workspace).await?;
    let known = store.accounts(ws).await?;
    let names: Vec<&str> = known.iter().map(|account| account.name.as_str()).collect();
    let problem = format!("account {name:?} is not known; known are {}", listed(&names));
    let by_name = known.iter().find(|account| account.name == name);
    let found = by_name.or_else(|| known.iter().find(|account| account.account_id.to_string() == name));
    Ok((ws, found.with_context(|| problem)?.clone()))
}

pub(crate) async fn find_endpoint(
    store: &Store,
    ws: WorkspaceId,
    name: &str,
) -> anyhow::Result<store::Endpoint> {
    let known = store.endpoints(ws).await?;
    // The door of an API token has no secret that anybody could give.
    let doors = known.iter().filter(|endpoint| endpoint.kind != "token");
    let names: Vec<&str> = doors.map(|endpoint| endpoint.name.as_str()).collect();
    let problem = format!("endpoint {name:?} is not known; known are {}", listed(&names));
    known.into_iter().find(|endpoint| endpoint.name == name).with_context(|| problem)
}

pub(crate) fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        "none; apply a configuration first".to_owned()
    } else {
        domain::shown::line(&names.join(", ")).into_owned()
    }
}
