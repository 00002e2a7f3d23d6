//! What a VK token may do. Nothing is posted.

use std::time::Duration;

use domain::outcome::Failure;
use serde_json::Value;

use super::facts::limits;
use super::send::ask;
use super::wire::Call;
use super::{NAME, Vk};
use crate::part::{AccountKind, ChannelSettings, Target};
use crate::platform::{Account, ChannelProbe, Identity, Network, Probe, connection_words};
use crate::verdict::shapeless;

const DEADLINE: Duration = Duration::from_secs(10);

impl Vk {
    pub(super) async fn look(
        &self,
        network: &Network,
        account: &Account,
        channel: Option<&ChannelSettings>,
    ) -> Probe {
        let identity = identity(network, account).await;
        let channel = match (channel, &identity) {
            (Some(settings), Ok(identity)) => Some(look_at(network, account, settings, identity).await),
            _ => None,
        };
        Probe { identity, channel, connection: connection_words(account), limits: limits(account.kind) }
    }
}

async fn identity(network: &Network, account: &Account) -> Result<Identity, Failure> {
    let odd = |response: &Value| account.redact(shapeless(response));
    match account.kind {
        AccountKind::User => {
            let response = ask(network, account, Call::new("users.get"), DEADLINE).await?;
            // Asked with another kind of key, VK answers with nobody.
            let nobody = response.as_array().is_some_and(Vec::is_empty);
            let user = response.get(0).ok_or_else(|| match nobody {
                true => Failure { code: "vk:not_a_user".to_owned(), ..odd(&response) },
                false => odd(&response),
            })?;
            let words = ["first_name", "last_name"].map(|field| user[field].as_str().unwrap_or_default());
            let id = user["id"].as_i64().ok_or_else(|| odd(&response))?;
            Ok(Identity { id: id.to_string(), name: words.join(" ").trim().to_owned(), username: None })
        }
        AccountKind::Community => {
            let response = ask(network, account, Call::new("groups.getById"), DEADLINE).await?;
            let group = first_group(&response).ok_or_else(|| odd(&response))?;
            Ok(Identity {
                id: group["id"].as_i64().map(|id| id.to_string()).unwrap_or_default(),
                name: group["name"].as_str().unwrap_or_default().to_owned(),
                username: group["screen_name"].as_str().map(str::to_owned),
            })
        }
        // An application has no profile; a public question tells whether the token is good.
        AccountKind::Service => {
            let call = Call::new("utils.resolveScreenName").with("screen_name", "vk");
            ask(network, account, call, DEADLINE).await?;
            Ok(Identity { id: String::new(), name: "service token".to_owned(), username: None })
        }
    }
}

/// Newer versions wrap the list, older ones do not.
fn first_group(response: &Value) -> Option<&Value> {
    response["groups"].get(0).or_else(|| response.get(0))
}

async fn look_at(
    network: &Network,
    account: &Account,
    settings: &ChannelSettings,
    identity: &Identity,
) -> ChannelProbe {
    let target = match super::render::target(&settings.target, settings.chat_kind) {
        Ok(target) => target,
        Err(error) => return ChannelProbe::refused(error.to_string()),
    };
    let owner = match target {
        Target::Wall(owner) => owner,
        _ => {
            let remarks = vec!["vk says whether a person can be written to only when it is tried".to_owned()];
            return ChannelProbe { title: None, may_post: None, deaf: None, remarks };
        }
    };
    let deaf = Some("nobody is heard on a wall; use a conversation of the community".to_owned());
    ChannelProbe { deaf, ..look_at_wall(network, account, identity, owner).await }
}

async fn look_at_wall(network: &Network, account: &Account, identity: &Identity, owner: i64) -> ChannelProbe {
    if account.kind == AccountKind::Service {
        return ChannelProbe::refused(
            "a service token can only read; posting needs a user or community token",
        );
    }
    if owner > 0 {
        let own = identity.id == owner.to_string();
        return ChannelProbe { title: None, may_post: own.then_some(true), deaf: None, remarks: Vec::new() };
    }
    let call =
        Call::new("groups.getById").with("group_id", -owner).with("fields", "can_post,is_admin,admin_level");
    match ask(network, account, call, DEADLINE).await {
        Ok(response) => judge(account.kind, identity, owner, first_group(&response)),
        Err(failure) => ChannelProbe::refused(failure.message),
    }
}

fn judge(kind: AccountKind, identity: &Identity, owner: i64, group: Option<&Value>) -> ChannelProbe {
    let Some(group) = group else {
        return ChannelProbe::refused(format!("{NAME}: there is no community {}", -owner));
    };
    let title = group["name"].as_str().map(str::to_owned);
    if kind == AccountKind::Community {
        let own = identity.id == (-owner).to_string();
        let mut remarks =
            vec!["a community key posts text and files; photos and videos need a user token".to_owned()];
        if !own {
            remarks.push(format!("the key belongs to community {}, not to {}", identity.id, -owner));
        }
        // Whether the key has the right `wall` shows only when it posts.
        return ChannelProbe { title, may_post: if own { None } else { Some(false) }, deaf: None, remarks };
    }
    let may_post =
        group["can_post"].as_i64().map(|flag| flag == 1).or(group["is_admin"].as_i64().map(|f| f == 1));
    let remarks = match may_post {
        Some(false) => vec!["the user may not post on this wall; make them an editor".to_owned()],
        _ => Vec::new(),
    };
    ChannelProbe { title, may_post, deaf: None, remarks }
}
