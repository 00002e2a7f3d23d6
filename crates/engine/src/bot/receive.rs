//! What platforms told is stored, by whatever door it came. What people at the desk said and cannot be passed on as it is,
//! they hear about there.

use std::collections::HashSet;

use domain::dialogue::Rules;
use domain::dialogue::texts::{Texts, with};
use domain::ids::{AccountId, ChannelId, RecipientId, WorkspaceId};
use domain::message::Message;
use platforms::incoming::Incoming;
use platforms::platform::Platform;
use serde_json::json;
use store::{NewMessage, Polled, Received, Store, StoreError, Update, UpdateOf};

use super::hear::{self, Answer, Desk, TO_NOBODY, To};

/// Stores what a platform told, by whatever door it came.
pub async fn receive(
    store: &Store,
    ws: WorkspaceId,
    account: AccountId,
    platform: &'static dyn Platform,
    events: &[Incoming],
    polled: Option<Polled>,
) -> store::Result<Received> {
    let (updates, remarks) = look_up(store, ws, account, platform, events).await?;
    for remark in remarks {
        // A convenience: what was heard is stored in any case.
        if let Err(error) = tell(store, ws, account, remark).await {
            tracing::warn!(%error, "the operators' desk could not be told");
        }
    }
    store.bot_receive(ws, account, updates, polled).await
}

/// What a platform told, as the mailbox keeps it. Nothing is stored.
pub async fn updates(
    store: &Store,
    ws: WorkspaceId,
    account: AccountId,
    platform: &'static dyn Platform,
    events: &[Incoming],
) -> store::Result<Vec<Update>> {
    Ok(look_up(store, ws, account, platform, events).await?.0)
}

/// What the desk has to hear about an answer.
struct Remark {
    channel: ChannelId,
    /// The update that it is about: a repeat says nothing twice.
    key: String,
    dialogue: RecipientId,
    /// They are there, and heard the words alone.
    known: bool,
}

async fn look_up(
    store: &Store,
    ws: WorkspaceId,
    account: AccountId,
    platform: &'static dyn Platform,
    events: &[Incoming],
) -> store::Result<(Vec<Update>, Vec<Remark>)> {
    let desks = match events.is_empty() {
        true => Vec::new(),
        false => desks(store, ws).await?,
    };
    let (mut updates, mut remarks) = (Vec::with_capacity(events.len()), Vec::new());
    for incoming in events {
        let heard = hear::read(platform.name(), account, &desks, incoming);
        let mut update: Update = heard.update;
        if let Some(answer) = heard.answer
            && let Some(dialogue) = whom(store, ws, &answer).await?
        {
            if update.of == UpdateOf::Skipped(TO_NOBODY) {
                update.of = UpdateOf::Operator(dialogue);
            }
            let known = match store.recipient(ws, dialogue).await {
                Ok(_) => true,
                Err(StoreError::NotFound { .. }) => false,
                Err(error) => return Err(error),
            };
            if answer.attached || !known {
                let (channel, key) = (answer.channel_id, update.key.clone());
                remarks.push(Remark { channel, key, dialogue, known });
            }
        }
        updates.push(update);
    }
    Ok((updates, remarks))
}

async fn whom(store: &Store, ws: WorkspaceId, answer: &Answer) -> store::Result<Option<RecipientId>> {
    match &answer.to {
        To::Dialogue(dialogue) => Ok(Some(*dialogue)),
        To::Message(message) => store.bot_dialogue_of(ws, answer.channel_id, message).await,
    }
}

async fn tell(store: &Store, ws: WorkspaceId, account: AccountId, remark: Remark) -> store::Result<()> {
    let texts = texts(store, ws, remark.channel).await?;
    let text = if remark.known { &texts.desk_words } else { &texts.desk_unknown };
    let message = Message::text(with(text, "number", remark.dialogue));
    let origin = format!("{account}:{}", remark.key);
    let hash = format!("desk {origin}");
    let new = NewMessage::new("desk", origin, hash, json!(message));
    match store.enqueue(ws, vec![NewMessage { channels: vec![remark.channel], ..new }]).await {
        Ok(_) | Err(StoreError::KeyConflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The words of the bot whose desk it is.
async fn texts(store: &Store, ws: WorkspaceId, desk: ChannelId) -> store::Result<Texts> {
    let Some(bot) = store.bots(ws).await?.into_iter().find(|bot| bot.operators == Some(desk)) else {
        return Ok(Texts::default());
    };
    let versions = store.bot_rules(ws, bot.bot_id).await?;
    let active = versions.iter().find(|rules| rules.version == bot.active_version);
    let rules = active.and_then(|active| Rules::read(&active.rules).ok());
    Ok(rules.map(|rules| rules.texts).unwrap_or_default())
}

/// The chats where people answer, of all bots of a workspace.
async fn desks(store: &Store, ws: WorkspaceId) -> store::Result<Vec<Desk>> {
    let wanted: HashSet<ChannelId> =
        store.bots(ws).await?.into_iter().filter_map(|bot| bot.operators).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let channels = store.channels(ws).await?;
    let desk = |channel: store::Channel| Desk {
        channel_id: channel.channel_id,
        account_id: channel.account_id,
        chat: channel.target,
    };
    Ok(channels.into_iter().filter(|channel| wanted.contains(&channel.channel_id)).map(desk).collect())
}
