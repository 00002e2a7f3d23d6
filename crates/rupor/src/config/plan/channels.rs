//! Channels: the same one under another name or in another chat keeps its queue and its history.

use anyhow::Context;
use domain::ids::{ChannelId, WorkspaceId};
use domain::time::Timestamp;
use serde_json::json;
use store::{DisabledBy, Store};

use super::{Absent, Act, Listing, NOT_CONFIGURED, Rows, StepVerb, Which, differences};
use crate::config::{Channel, Workspace};

pub(super) fn acts(workspace: &Workspace, rows: &Rows, absent: Absent, list: &mut Listing<'_>) {
    if workspace.gone {
        // Its accounts are paused: the channels keep their queues, and go on when the workspace comes back.
        return;
    }
    let same: Vec<Option<&store::Channel>> =
        workspace.channels.iter().map(|channel| rows.same_channel(channel, workspace)).collect();
    for row in &rows.channels {
        if same.iter().flatten().any(|known| known.channel_id == row.channel_id) {
            continue;
        }
        match absent {
            Absent::Remove => {
                let detail = rows.dropped(row);
                list.push(StepVerb::Remove, "channel", &row.name, detail, Act::RemoveChannel(row.channel_id));
            }
            Absent::Disable if row.enabled => {
                let act = Act::DisableChannel(Which::Id(row.channel_id));
                list.push(StepVerb::Disable, "channel", &row.name, NOT_CONFIGURED, act);
            }
            Absent::Disable => {}
        }
    }
    for (channel, row) in workspace.channels.iter().zip(same) {
        match row {
            None => create_channel(channel, list),
            Some(row) if rows.is_on(row, &channel.account) => channel_changes(channel, row, rows, list),
            Some(row) => goes_elsewhere(channel, row, workspace, list, rows),
        }
    }
}

fn create_channel(channel: &Channel, list: &mut Listing<'_>) {
    let detail = format!("{} on {}", channel.target, channel.account);
    list.push(StepVerb::Create, "channel", &channel.name, detail, Act::CreateChannel(channel.clone()));
    let which = || Which::Name(channel.name.clone());
    if channel.paused == Some(true) {
        list.push(StepVerb::Pause, "channel", &channel.name, "", Act::PauseChannel(which()));
    }
    if channel.enabled == Some(false) {
        list.push(StepVerb::Disable, "channel", &channel.name, "", Act::DisableChannel(which()));
    }
}

/// To another sender: of the same platform its queue and what it said go along, of another one it is a new channel.
fn goes_elsewhere(
    channel: &Channel,
    row: &store::Channel,
    workspace: &Workspace,
    list: &mut Listing<'_>,
    rows: &Rows,
) {
    let account = workspace.accounts.iter().find(|account| account.name == channel.account);
    if account.is_none_or(|account| account.platform != row.platform) {
        let detail = format!("it moves to account {}; {}", channel.account, rows.dropped(row));
        list.push(StepVerb::Remove, "channel", &row.name, detail, Act::RemoveChannel(row.channel_id));
        return create_channel(channel, list);
    }
    let waiting = waiting_posts(rows.waiting_of(row));
    let said = match row.target == channel.target {
        true => "and what was said is not said again",
        false => "to another chat",
    };
    let detail = format!("it moves to account {}; {waiting} will go out there, {said}", channel.account);
    let act = Act::MoveChannel(row.channel_id, channel.clone());
    list.push(StepVerb::Change, "channel", &channel.name, detail, act);
    let which = || Which::Name(channel.name.clone());
    match (channel.enabled, channel.paused) {
        (Some(false), _) if row.enabled => {
            list.push(StepVerb::Disable, "channel", &channel.name, "", Act::DisableChannel(which()));
        }
        (_, Some(true)) if row.paused_until != Timestamp::NEVER => {
            list.push(StepVerb::Pause, "channel", &channel.name, "", Act::PauseChannel(which()));
        }
        _ => {}
    }
}

fn channel_changes(channel: &Channel, row: &store::Channel, rows: &Rows, list: &mut Listing<'_>) {
    if row.name != channel.name {
        let act = Act::RenameChannel(row.channel_id, channel.name.clone());
        let detail = format!("it was called {}; its queue and history stay", row.name);
        list.push(StepVerb::Change, "channel", &channel.name, detail, act);
    }
    if row.target != channel.target {
        let act = Act::RetargetChannel(row.channel_id, channel.target.clone());
        let detail = format!(
            "target {} → {}; {} will go there, and what the old chat refused is queued again",
            row.target,
            channel.target,
            waiting_posts(rows.waiting_of(row))
        );
        list.push(StepVerb::Change, "channel", &channel.name, detail, act);
    }
    let (name, which) = (&channel.name, || Which::Id(row.channel_id));
    if row.settings != channel.settings {
        let detail = differences(&json!(row.settings), &json!(channel.settings));
        list.push(
            StepVerb::Change,
            "channel",
            name,
            detail,
            Act::ChangeChannel(row.channel_id, channel.settings.clone()),
        );
    }
    let paused = row.paused_until == Timestamp::NEVER;
    match (channel.enabled, channel.paused) {
        (Some(false), _) if row.enabled => {
            list.push(StepVerb::Disable, "channel", name, "", Act::DisableChannel(which()));
        }
        // Whoever was shut by failures is opened by an operator, who looked why; not by the file.
        (Some(true), _) if row.disabled_by == Some(DisabledBy::Operator) => {
            list.push(StepVerb::Enable, "channel", name, "", Act::ResumeChannel(which()));
        }
        (_, Some(true)) if !paused => {
            list.push(StepVerb::Pause, "channel", name, "", Act::PauseChannel(which()));
        }
        (_, Some(false)) if paused => {
            list.push(StepVerb::Resume, "channel", name, "", Act::ResumeChannel(which()));
        }
        _ => {}
    }
}

pub(super) async fn create(
    store: &Store,
    id: WorkspaceId,
    rows: &Rows,
    channel: Channel,
) -> anyhow::Result<ChannelId> {
    let account_id = rows.account_of(&channel)?.account_id;
    let Channel { name, target, settings, .. } = channel;
    Ok(store.create_channel(id, store::NewChannel { account_id, name, target, settings }).await?)
}

/// Each step can be done again: what broke off in between is seen by the next plan.
pub(super) async fn go_on(
    store: &Store,
    id: WorkspaceId,
    rows: &Rows,
    channel: ChannelId,
    wanted: Channel,
) -> anyhow::Result<()> {
    let account = rows.account_of(&wanted)?.account_id;
    let moved = store.move_channel(id, channel, account, &wanted.target).await?;
    let known = rows.channels.iter().find(|row| row.channel_id == channel);
    if known.is_none_or(|row| row.name != wanted.name) {
        store.rename_channel(id, moved, &wanted.name).await?;
    }
    Ok(store.change_channel(id, moved, wanted.settings).await?)
}

impl Rows {
    /// The row of a channel in the file: by its name, by the name it had, or by the same sender and chat.
    fn same_channel(&self, channel: &Channel, workspace: &Workspace) -> Option<&store::Channel> {
        let by_name = |name: &str| self.channels.iter().find(|row| row.name == name);
        if let Some(row) = by_name(&channel.name) {
            return Some(row);
        }
        let is_named = |row: &&store::Channel| workspace.channels.iter().any(|other| other.name == row.name);
        let was = channel.was.as_deref().and_then(by_name);
        let account = self.accounts.iter().find(|row| row.name == channel.account)?.account_id;
        let same_chat = || {
            let chat = |row: &&store::Channel| row.account_id == account && row.target == channel.target;
            self.channels.iter().filter(chat).find(|row| !is_named(row))
        };
        was.filter(|row| !is_named(row)).or_else(same_chat)
    }

    fn account_of(&self, channel: &Channel) -> anyhow::Result<&store::Account> {
        let found = self.accounts.iter().find(|row| row.name == channel.account);
        found.with_context(|| format!("account {} was removed meanwhile; run it again", channel.account))
    }

    fn is_on(&self, row: &store::Channel, account: &str) -> bool {
        let own = self.accounts.iter().find(|known| known.account_id == row.account_id);
        own.is_some_and(|own| own.name == account)
    }

    fn waiting_of(&self, row: &store::Channel) -> usize {
        let found = self.waiting.iter().find(|(id, _)| *id == row.channel_id);
        found.map_or(0, |(_, n)| usize::try_from(*n).unwrap_or(0))
    }

    fn dropped(&self, row: &store::Channel) -> String {
        match self.waiting_of(row) {
            0 => "nothing waits for it".to_owned(),
            n => format!("{} will be dropped", waiting_posts(n)),
        }
    }
}

fn waiting_posts(n: usize) -> String {
    match n {
        0 => "what waits".to_owned(),
        1 => "1 waiting post".to_owned(),
        n => format!("{n} waiting posts"),
    }
}
