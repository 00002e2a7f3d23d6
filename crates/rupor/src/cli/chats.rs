//! `rupor chats`: the chats that bots were added to, by what their platforms told.

use clap::Args;

use super::operator::{OperatorArgs, block_on};
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::how_long;

/// List the chats that your bots were added to, with their ids
#[derive(Debug, Args)]
pub(super) struct Chats {
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Chats) -> anyhow::Result<()> {
    block_on(async {
        let operator = &args.operator;
        let store = operator.look().await?.store;
        let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
        let (chats, accounts, now) =
            (store.bot_chats(ws).await?, store.accounts(ws).await?, store.now().await?);
        operator.print(&chats, || {
            if chats.is_empty() {
                return "no chat is known yet: add the bot to a chat while `rupor run` runs, then look again"
                    .to_owned();
            }
            let row = |chat: &store::BotChat| {
                let account = accounts.iter().find(|account| account.account_id == chat.account_id);
                let state = match chat.left_at {
                    None => format!("in it, heard of {} ago", how_long(now - chat.seen_at)),
                    Some(at) => format!("taken out {} ago", how_long(now - at)),
                };
                let title = chat.title.clone().unwrap_or_default();
                vec![
                    account.map_or_else(String::new, |account| account.name.clone()),
                    chat.chat.clone(),
                    title,
                    state,
                ]
            };
            table(&["account", "chat", "title", "state"], chats.iter().map(row).collect())
        })
    })
}
