//! What a MAX token may do: `/me`, the chat, and the bot's own membership. Nothing is sent.

use std::time::Duration;

use serde_json::Value;

use super::Max;
use super::facts::LIMITS;
use super::send::ask_for;
use super::wire::Call;
use crate::part::{ChannelSettings, Target};
use crate::platform::{Account, ChannelProbe, Identity, Network, Probe, connection_words};
use crate::transport::Method;
use crate::verdict::Purpose;

const DEADLINE: Duration = Duration::from_secs(10);

impl Max {
    pub(super) async fn look(
        &self,
        network: &Network,
        account: &Account,
        channel: Option<&ChannelSettings>,
    ) -> Probe {
        let call = Call::new(Method::Get, "/me", "max GET /me");
        let identity = ask_for(Purpose::Read, network, account, call, DEADLINE).await.map(|me| Identity {
            id: me["user_id"].as_i64().map(|id| id.to_string()).unwrap_or_default(),
            name: me["first_name"].as_str().or_else(|| me["name"].as_str()).unwrap_or_default().to_owned(),
            username: me["username"].as_str().map(str::to_owned),
        });
        let channel = match (channel, &identity) {
            (Some(settings), Ok(_)) => Some(look_at(network, account, settings).await),
            _ => None,
        };
        Probe { identity, channel, connection: connection_words(account), limits: LIMITS }
    }
}

async fn look_at(network: &Network, account: &Account, settings: &ChannelSettings) -> ChannelProbe {
    let chat_id = match super::render::target(&settings.target) {
        Ok(Target::Chat(id)) => id,
        Ok(_) => {
            let remarks =
                vec!["max says whether a person can be written to only when it is tried".to_owned()];
            return ChannelProbe { title: None, may_post: None, deaf: None, remarks };
        }
        Err(error) => return ChannelProbe::refused(error.to_string()),
    };
    let call = Call::new(Method::Get, format!("/chats/{chat_id}"), "max GET /chats");
    let chat = match ask_for(Purpose::Read, network, account, call, DEADLINE).await {
        Ok(chat) => chat,
        Err(failure) => return ChannelProbe::refused(failure.message),
    };
    let title = chat["title"].as_str().map(str::to_owned);
    if chat["type"] == "dialog" {
        let active = chat["status"] == "active";
        let remarks = if active { Vec::new() } else { vec![format!("the dialogue is {}", chat["status"])] };
        return ChannelProbe { title, may_post: Some(active), deaf: None, remarks };
    }
    let call = Call::new(Method::Get, format!("/chats/{chat_id}/members/me"), "max GET /chats/members/me");
    match ask_for(Purpose::Read, network, account, call, DEADLINE).await {
        Ok(member) => judge(title, &chat, &member),
        Err(failure) => ChannelProbe { title, ..ChannelProbe::refused(failure.message) },
    }
}

/// In a channel the right `write` decides; in a chat every member may write.
fn judge(title: Option<String>, chat: &Value, member: &Value) -> ChannelProbe {
    let rights: Vec<&str> =
        member["permissions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let has = |right: &str| rights.contains(&right);
    let is_channel = chat["type"] == "channel";
    let writes = has("write") || has("post_edit_delete_message") || member["is_owner"] == true;
    let may_post = !is_channel || writes;
    let mut remarks = Vec::new();
    if !may_post {
        remarks.push(
            "the bot has no right to write in the channel; make it an administrator with `write`".to_owned(),
        );
    }
    if !has("read_all_messages") && member["is_owner"] != true {
        remarks.push(
            "without the right read_all_messages nothing that happens in the chat is reported".to_owned(),
        );
    }
    let hears = has("read_all_messages") || member["is_owner"] == true;
    let deaf = match is_channel {
        true => Some("posts of a channel name nobody who wrote them; use a group"),
        false if hears => None,
        false => Some(
            "without the right read_all_messages the bot is told of nothing; make it an administrator of the chat with \
             this right",
        ),
    };
    ChannelProbe { title, may_post: Some(may_post), deaf: deaf.map(str::to_owned), remarks }
}
