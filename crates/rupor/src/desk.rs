//! Posts that wait for a person are shown at the operators' desk of a bot, with two buttons; a press there decides.
//!
//! ```text
//! held posts ─► a message with buttons, in the lane of the desk ─► somebody presses ─► the mailbox of the bot
//!                                        approve or reject, once ◄─ Store::bot_decisions ◄─┘
//! ```
//!
//! Nothing is remembered outside the ledger: what is said has a key, and a decision acts once however often it is carried
//! out, so several nodes may do this at once and a node may die anywhere. Start with `Desk::look`.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use domain::ids::{ChannelId, MessageId, WorkspaceId};
use domain::message::{Button, Message, Press};
use domain::time::{Span, Timestamp};
use engine::addresses::ApiBases;
use engine::bot::{answer_press, hear};
use hear::Asked;
use platforms::incoming::Callback;
use platforms::platform::Network;
use serde_json::json;
use store::{Actor, Bot, Channel, HeldPost, NewMessage, Store, StoreError, WaitingDecision};

use crate::language::{self, Language, Phrase, heard, say};

/// Between two looks; a person who pressed waits no longer.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Presses of one look.
const DECISIONS_MAX: usize = 100;
/// Posts that wait in one workspace and are looked at.
const POSTS_MAX: usize = 1_000;
/// What has waited for longer is not announced any more: whoever sets up a desk is not told of all the past.
const NEWS: Span = Span::from_hours(24);
/// Characters of a post that the people at the desk read.
const EXCERPT_MAX: usize = 600;
/// Characters of a notice over the chat; VK shows 90.
const TOAST_MAX: usize = 90;

/// Shows and hears until it is dropped.
pub(crate) async fn keep(store: Store, bases: ApiBases) {
    let mut desk = Desk::new(store, bases);
    loop {
        if let Err(error) = desk.look().await {
            tracing::debug!(error = format!("{error:#}"), "the operators' desk could not be looked after");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[derive(Debug)]
pub(crate) struct Desk {
    store: Store,
    network: Network,
    bases: ApiBases,
    /// What was shown: saying it again would change nothing, but cost a transaction.
    shown: HashSet<(WorkspaceId, MessageId, Timestamp)>,
}

impl Desk {
    pub(crate) fn new(store: Store, bases: ApiBases) -> Desk {
        Desk { store, network: Network::default(), bases, shown: HashSet::new() }
    }

    /// Shows what is new, and carries out what was pressed.
    pub(crate) async fn look(&mut self) -> anyhow::Result<()> {
        for waiting in self.store.bot_decisions(DECISIONS_MAX).await? {
            let id = waiting.inbox_id;
            if let Err(error) = self.carry_out(waiting).await {
                tracing::warn!(
                    press = id,
                    error = format!("{error:#}"),
                    "a press was not carried out; it is tried again"
                );
            }
        }
        for workspace in self.store.workspaces().await? {
            if let Err(error) = self.show(workspace.workspace_id).await {
                let (workspace, error) = (workspace.name, format!("{error:#}"));
                tracing::debug!(
                    workspace,
                    error,
                    "a held post could not be shown to operators; it is tried again"
                );
            }
        }
        Ok(())
    }

    async fn show(&mut self, ws: WorkspaceId) -> anyhow::Result<()> {
        let waiting = self.store.held_posts(ws, None, POSTS_MAX).await?;
        let key = |post: &HeldPost| (ws, post.message_id, post.held_at);
        let still: HashSet<_> = waiting.iter().map(key).collect();
        self.shown.retain(|shown| shown.0 != ws || still.contains(shown));
        if still.iter().all(|key| self.shown.contains(key)) {
            return Ok(());
        }
        let (now, channels) = (self.store.now().await?, self.store.channels(ws).await?);
        let bots = self.store.bots(ws).await?;
        let Some(desk) = desk(&bots, &channels) else {
            return Ok(());
        };
        let mut news: BTreeMap<(MessageId, Timestamp), Vec<HeldPost>> = BTreeMap::new();
        for post in waiting {
            if now - post.held_at >= NEWS {
                self.shown.insert(key(&post));
            } else if !self.shown.contains(&key(&post)) {
                news.entry((post.message_id, post.held_at)).or_default().push(post);
            }
        }
        for ((id, held_at), posts) in news {
            let message = self.store.message(ws, id).await?;
            let message: Message = serde_json::from_value(message.payload).unwrap_or_default();
            let words = question(&posts, &message, &channels).in_language(language_of(&channels));
            let payload = Message {
                text: words,
                buttons: buttons(id, held_at, language_of(&channels)),
                ..Message::default()
            };
            self.say(ws, desk, format!("{id}:{}", held_at.0), payload).await?;
            self.shown.insert((ws, id, held_at));
        }
        Ok(())
    }

    /// One press. Whoever dies in the middle leaves it to the next, who finds what is done already.
    async fn carry_out(&self, waiting: WaitingDecision) -> anyhow::Result<()> {
        let (ws, store) = (waiting.workspace_id, &self.store);
        let callback = hear::callback(&waiting.body);
        let asked = callback.as_ref().and_then(|callback| Asked::read(&callback.payload));
        let (Some(callback), Some(asked)) = (callback, asked) else {
            store.bot_decided(ws, waiting.inbox_id, "forgotten").await?;
            return Ok(());
        };
        let accounts = store.accounts(ws).await?;
        let account = accounts.iter().find(|account| account.account_id == waiting.account_id);
        let platform = account.map_or("?", |account| account.platform.as_str());
        let is_asked = |post: &HeldPost| post.held_at == asked.held_at;
        let (now, posts) = (store.now().await?, store.held_of(ws, asked.message).await?);
        let mut is_first = false;
        if posts.iter().any(|post| is_asked(post) && post.is_waiting(now)) {
            let by = store.by(Actor { who: who(&callback, platform), reason: None });
            let decided = match asked.publish {
                true => by.approve(ws, asked.message).await.map(drop),
                false => by.reject(ws, asked.message).await.map(drop),
            };
            is_first = match decided {
                Ok(()) => true,
                // Somebody else was faster.
                Err(StoreError::NotFound { what: "held post", .. }) => false,
                Err(error) => return Err(error.into()),
            };
        }
        let posts = store.held_of(ws, asked.message).await?;
        let post = posts.iter().find(|post| is_asked(post));
        let channels = store.channels(ws).await?;
        let language = language_of(&channels);
        if let Some(post) = post
            && let Some(ended) = decided(post)
            && let Some(desk) = desk(&store.bots(ws).await?, &channels)
        {
            // Whoever finds it decided says so too: the one who decided may have died before.
            let origin = format!("{}:{}:end", asked.message, asked.held_at.0);
            self.say(ws, desk, origin, Message::text(ended.in_language(language))).await?;
        }
        let verdict = match post.and_then(|post| post.decision.as_deref()) {
            Some(decision) if is_first => decision,
            _ => "too late",
        };
        if store.bot_decided(ws, waiting.inbox_id, verdict).await? {
            let notice = notice(asked.message, post, is_first, now).in_language(language);
            let notice: String = notice.chars().take(TOAST_MAX).collect();
            let whose = (ws, waiting.account_id);
            answer_press(store, &self.network, &self.bases, whose, callback, Some(notice)).await;
        }
        Ok(())
    }

    /// The same thing has the same key, so that a second node or a second try says nothing twice.
    async fn say(
        &self,
        ws: WorkspaceId,
        desk: ChannelId,
        origin: String,
        message: Message,
    ) -> anyhow::Result<()> {
        let hash = format!("held {origin}");
        let new =
            NewMessage { channels: vec![desk], ..NewMessage::new("held", origin, hash, json!(message)) };
        match self.store.enqueue(ws, vec![new]).await {
            Ok(_) | Err(StoreError::KeyConflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where people are asked: the desk of the first bot that hears what is said there.
fn desk(bots: &[Bot], channels: &[Channel]) -> Option<ChannelId> {
    let hears = |channel: &Channel| {
        bots.iter().any(|bot| bot.accounts.iter().any(|own| own.account_id == channel.account_id))
    };
    let of = |bot: &Bot| channels.iter().find(|channel| Some(channel.channel_id) == bot.operators);
    bots.iter().filter_map(of).find(|channel| channel.enabled && hears(channel)).map(|desk| desk.channel_id)
}

/// That of the alerts, which are read by the same people; else the node's.
fn language_of(channels: &[Channel]) -> Language {
    let written = |channel: &Channel| Language::parse(channel.settings.settings["alerts"]["lang"].as_str()?);
    channels.iter().find_map(written).unwrap_or_else(language::chosen)
}

/// Who pressed, as events and notices name them.
fn who(callback: &Callback, platform: &str) -> String {
    match callback.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => format!("{} ({platform} {})", domain::shown::line(name), callback.from),
        None => format!("{platform} {}", callback.from),
    }
}

fn question(posts: &[HeldPost], message: &Message, channels: &[Channel]) -> Phrase {
    let Some(first) = posts.first() else { return Phrase::none() };
    let name = |post: &HeldPost| {
        let channel = channels.iter().find(|channel| channel.channel_id == post.channel_id)?;
        Some(domain::shown::line(&channel.name).into_owned())
    };
    let names: Vec<String> = posts.iter().filter_map(name).collect();
    let mut lines = vec![
        say!("desk.ask", id = first.message_id.0, channels = names.join(", ")),
        say!("desk.why", why = heard(&first.why)),
    ];
    lines.extend(first.expires_at.map(|at| say!("desk.until", at = at)));
    lines.push(Phrase::from("\n").and(excerpt(&message.text)));
    lines.extend(message.source_link().map(Phrase::from));
    Phrase::list(lines, "\n")
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn buttons(id: MessageId, held_at: Timestamp, language: Language) -> Vec<Vec<Button>> {
    let button = |title: Phrase, publish: bool| Button {
        text: title.in_language(language),
        press: Press::Callback(Asked { message: id, held_at, publish }.press()),
    };
    vec![vec![button(say!("desk.yes"), true), button(say!("desk.no"), false)]]
}

/// What a person decided, for everybody at the desk.
fn decided(post: &HeldPost) -> Option<Phrase> {
    let (id, by) = (post.message_id.0, by(post));
    match post.decision.as_deref() {
        Some("approved") => Some(say!("desk.approved", id = id, who = by)),
        Some("rejected") => Some(say!("desk.rejected", id = id, who = by)),
        _ => None,
    }
}

fn by(post: &HeldPost) -> Phrase {
    post.decided_by.as_deref().map_or_else(|| say!("desk.somebody"), Phrase::from)
}

/// What whoever pressed reads.
fn notice(id: MessageId, post: Option<&HeldPost>, is_first: bool, now: Timestamp) -> Phrase {
    let Some(post) = post else {
        return say!("desk.changed", id = id.0);
    };
    match post.decision.as_deref() {
        Some("approved") if is_first => say!("desk.done.approved"),
        Some("rejected") if is_first => say!("desk.done.rejected"),
        Some("approved") => say!("desk.before.approved", who = by(post)),
        Some("rejected") => say!("desk.before.rejected", who = by(post)),
        None if !post.is_waiting(now) => say!("desk.over"),
        _ => say!("desk.changed", id = id.0),
    }
}
