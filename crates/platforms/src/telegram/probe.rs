//! What a Telegram token may do: `getMe`, `getChat` and the bot's own membership. Nothing is sent.

use std::time::Duration;

use serde_json::{Value, json};

use super::Telegram;
use super::facts::LIMITS;
use super::send::ask;
use crate::part::ChannelSettings;
use crate::platform::{Account, ChannelProbe, Identity, Network, Probe, connection_words};

const DEADLINE: Duration = Duration::from_secs(10);

impl Telegram {
    pub(super) async fn look(
        &self,
        network: &Network,
        account: &Account,
        channel: Option<&ChannelSettings>,
    ) -> Probe {
        let me = ask(network, account, "getMe", json!({}), DEADLINE).await;
        let bot_id = me.as_ref().ok().and_then(|me| me["id"].as_i64());
        let channel = match (channel, bot_id) {
            (Some(settings), Some(bot_id)) => {
                let reads_all = me.as_ref().is_ok_and(|me| me["can_read_all_group_messages"] == true);
                Some(look_at_channel(network, account, settings, bot_id, reads_all).await)
            }
            _ => None,
        };
        let identity = me.map(|me| Identity {
            id: me["id"].as_i64().map(|id| id.to_string()).unwrap_or_default(),
            name: me["first_name"].as_str().unwrap_or_default().to_owned(),
            username: me["username"].as_str().map(str::to_owned),
        });
        Probe { identity, channel, connection: connection_words(account), limits: LIMITS }
    }
}

async fn look_at_channel(
    network: &Network,
    account: &Account,
    settings: &ChannelSettings,
    bot_id: i64,
    reads_all: bool,
) -> ChannelProbe {
    let chat_id = match settings.target.trim().parse::<i64>() {
        Ok(id) => json!(id),
        Err(_) => json!(settings.target.trim()),
    };
    let chat = match ask(network, account, "getChat", json!({ "chat_id": chat_id }), DEADLINE).await {
        Ok(chat) => chat,
        Err(failure) => return ChannelProbe::refused(failure.message),
    };
    let title = chat["title"].as_str().or_else(|| chat["first_name"].as_str()).map(str::to_owned);
    if chat["type"] == "private" {
        return ChannelProbe { title, may_post: Some(true), deaf: None, remarks: Vec::new() };
    }
    let asked = json!({ "chat_id": chat_id, "user_id": bot_id });
    match ask(network, account, "getChatMember", asked, DEADLINE).await {
        Ok(member) => {
            let probe = judge(title, &chat, &member);
            ChannelProbe { deaf: deaf(&chat, &member, reads_all), ..probe }
        }
        Err(failure) => ChannelProbe { title, ..ChannelProbe::refused(failure.message) },
    }
}

/// In privacy mode a bot that is no administrator is told of commands and of replies to itself alone.
fn deaf(chat: &Value, member: &Value, reads_all: bool) -> Option<String> {
    let is_admin = matches!(member["status"].as_str(), Some("creator" | "administrator"));
    match chat["type"].as_str() {
        Some("channel") => Some("posts of a channel name nobody who wrote them; use a group".to_owned()),
        _ if is_admin || reads_all => None,
        _ => Some(
            "privacy mode: the bot hears only replies to its own messages; make it an administrator of the group, or \
             switch privacy off at @BotFather (/setprivacy) and add it to the group again"
                .to_owned(),
        ),
    }
}

/// In a channel only administrators with one certain right may post; in a group every member may, if not restricted.
fn judge(title: Option<String>, chat: &Value, member: &Value) -> ChannelProbe {
    let status = member["status"].as_str().unwrap_or_default();
    let is_channel = chat["type"] == "channel";
    let may_post = match status {
        "creator" => true,
        "administrator" => !is_channel || member["can_post_messages"] == true,
        "member" => !is_channel,
        "restricted" => !is_channel && member["can_send_messages"] == true,
        _ => false,
    };
    let mut remarks = Vec::new();
    if !may_post {
        remarks.push(match (is_channel, status) {
            (true, "administrator") => {
                "the bot is an administrator without the right to post messages".to_owned()
            }
            (true, "member" | "restricted") => {
                "the bot is only a member of the channel; make it an administrator who may post".to_owned()
            }
            (true, _) => "the bot is not in the channel; add it as an administrator who may post".to_owned(),
            (false, "restricted") => {
                "the bot may not send messages in the group; lift that restriction".to_owned()
            }
            (false, _) => "the bot is not in the group; add it, and let it send messages".to_owned(),
        });
    }
    if let Some(seconds) = chat["slow_mode_delay"].as_i64().filter(|seconds| *seconds > 0) {
        remarks.push(format!("slow mode: one message in {seconds} s"));
    }
    ChannelProbe { title, may_post: Some(may_post), deaf: None, remarks }
}
