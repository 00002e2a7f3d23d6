//! `rupor demo`: the whole product on a rehearsal stage, without tokens and without the internet.
//!
//! The sandbox plays the platforms, an invented city writes on its walls, and a real node reads them and sends.
//! Nothing here is known to the node: it is started as `rupor run` starts it. `city` is what is written and expected,
//! `once` the fixed play with its verdict, `live` the endless one, `judge` compares what readers saw. `campaign` and `shop`
//! are acts of their own, each in a workspace of its own.

pub(crate) mod campaign;
mod city;
mod judge;
mod live;
mod once;
pub(crate) mod shop;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use domain::ids::WorkspaceId;
use domain::time::Span;
use sandbox::reply::Refusal;
use sandbox::{Name, Sandbox};
use serde_json::{Value, json};
use store::{Address, DeliveryFilter, StoredMessage};

use crate::config::plan::Absent;
use crate::operate::{Verb, perform, verb};
use crate::{config, node};
use engine::addresses::ApiBases;

pub(crate) use live::go_on;
pub(crate) use once::{judge_all, play};

/// Its files, as somebody would write them.
const CONFIG: &str = "city.toml";
const FILES: [(&str, &str); 2] =
    [(CONFIG, include_str!("city.toml")), ("shelter.toml", include_str!("shelter.toml"))];
/// The walls are looked at often, so that nobody waits.
const POLL_INTERVAL: Span = Span::from_millis(300);
const LEASE: Span = Span::from_secs(10);
const DRAIN: Span = Span::from_secs(5);
/// Far beyond what one act needs; after it the play has failed.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// More than the demo ever has.
const ROWS_MAX: usize = 10_000;

/// The stage: the platforms, the node, and where their files lie until the end.
#[derive(Debug)]
pub(crate) struct World {
    pub sandbox: Sandbox,
    pub node: node::Running,
    pub address: Address,
    workspace: WorkspaceId,
    // Goes with its files when the play is over.
    _folder: tempfile::TempDir,
}

impl World {
    /// Sets the stage: an empty database in a folder of its own, limits lifted, walls still empty.
    pub(crate) async fn start(listen: SocketAddr, sandbox_listen: SocketAddr) -> anyhow::Result<World> {
        let options =
            sandbox::Options { listen: sandbox_listen, any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.with_context(|| {
            format!("--sandbox {sandbox_listen}: the sandbox cannot start; choose a free port")
        })?;
        for (platform, chat, kind, title) in city::FACES {
            let face = json!({"platform": platform.as_str(), "id": chat, "type": kind, "title": title});
            sandbox.add_chat(&face).map_err(refused)?;
        }
        campaign::settle_in(&sandbox)?;
        shop::settle_in(&sandbox)?;
        let folder = tempfile::Builder::new().prefix("rupor-demo-").tempdir()?;
        std::fs::create_dir(folder.path().join("shop"))?;
        for (name, text) in FILES.into_iter().chain(shop::FILES) {
            std::fs::write(folder.path().join(name), text)?;
        }
        let file = folder.path().join("demo.db");
        let address = Address::parse(&format!("sqlite:{}", file.display()))?;
        let bases = ApiBases::from_env(|variable| base_of(&sandbox, variable));
        let node = node::start(node::Settings {
            address: address.clone(),
            key_path: file.with_extension("key"),
            switched_off: Vec::new(),
            config: Some((config::from_file(&folder.path().join(CONFIG), &variables)?, Absent::Disable)),
            listen: Some(listen),
            bases,
            platform_limits: true,
            lease: LEASE,
            poll_interval: POLL_INTERVAL,
            drain: DRAIN,
            dispatch: true,
            sources: true,
            bot: true,
        })
        .await?;
        let workspace = verb::find_workspace(&node.store, WORKSPACE).await?;
        Ok(World { sandbox, node, address, workspace, _folder: folder })
    }

    /// Takes the stage down: no new work, what is out is finished.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.node.stop().await?;
        self.sandbox.shutdown().await;
        Ok(())
    }

    fn write(&self, samples: &[city::Sample]) -> anyhow::Result<()> {
        for sample in samples {
            self.sandbox.put_on_wall(sample.wall, json!([sample.post])).map_err(refused)?;
        }
        Ok(())
    }

    fn edit(&self, wall: i64, post: i64, change: Value) -> anyhow::Result<()> {
        self.sandbox.change_on_wall(wall, post, change).map_err(refused)?;
        Ok(())
    }

    /// The bot is thrown out of the channel that has to bear it.
    fn ban(&self) -> anyhow::Result<()> {
        let chat = city::CHANNELS.iter().find(|(name, _, _)| *name == city::BANNED);
        let chat = chat.map(|(_, _, chat)| *chat);
        self.sandbox
            .arm(&json!({"platform": "telegram", "chat": chat, "kind": "kicked"}))
            .map_err(refused)?;
        Ok(())
    }

    /// It is let in again, and an operator says so: what failed is offered again.
    async fn pardon(&self) -> anyhow::Result<()> {
        self.sandbox.core().faults.clear();
        let resume = Verb::ResumeChannel {
            workspace: WORKSPACE.to_owned(),
            channel: city::BANNED.to_owned(),
            with_failed: true,
        };
        perform(&self.node.store, resume).await?;
        Ok(())
    }

    async fn messages(&self) -> anyhow::Result<Vec<StoredMessage>> {
        Ok(self.node.store.messages(self.workspace, 0, ROWS_MAX).await?)
    }

    async fn deliveries(&self) -> anyhow::Result<Vec<store::Delivery>> {
        let all = DeliveryFilter::default();
        Ok(self.node.store.deliveries(self.workspace, all, ROWS_MAX).await?)
    }

    /// Whether the channel that was banned knows it.
    async fn is_banned(&self) -> anyhow::Result<bool> {
        let channels = self.node.store.channels(self.workspace).await?;
        Ok(channels.iter().any(|channel| channel.name == city::BANNED && channel.error_streak > 0))
    }

    /// Looks again and again until something is so; says what was waited for if it never is.
    async fn wait_until<F>(&self, what: &str, mut is_so: impl FnMut() -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<bool>>,
    {
        let started = Instant::now();
        while !is_so().await? {
            if started.elapsed() > PATIENCE {
                bail!("waited {} s in vain until {what}", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

const WORKSPACE: &str = "default";

/// The tokens are invented; the sandbox takes any. Rehearsals have no limits.
fn variables(name: &str) -> Option<String> {
    let value = match name {
        "DEMO_TG_TOKEN" => "97500:invented-token-of-the-demo-bot-aaaaa",
        "DEMO_VK_TOKEN" => "invented-service-token-of-the-demo",
        "DEMO_VK_OUT_TOKEN" => "invented-user-token-of-the-demo",
        "DEMO_MAX_TOKEN" => "invented-max-token-of-the-demo",
        "DEMO_NEWS_TOKEN" => campaign::TOKENS[0],
        "DEMO_VOLUNTEERS_TOKEN" => campaign::TOKENS[1],
        "DEMO_SHOP_MAX_TOKEN" => shop::TOKENS[0].1,
        "DEMO_SHOP_TG_TOKEN" => shop::TOKENS[1].1,
        "DEMO_SHOP_VK_TOKEN" => shop::TOKENS[2].1,
        "RUPOR_PLATFORM_LIMITS" => "off",
        _ => return None,
    };
    Some(value.to_owned())
}

fn base_of(sandbox: &Sandbox, variable: &str) -> Option<String> {
    let named = |name: &Name| variable == format!("RUPOR_{}_API", name.as_str().to_uppercase());
    Name::ALL.into_iter().find(named).map(|name| sandbox.base(name))
}

fn refused(refusal: Refusal) -> anyhow::Error {
    anyhow::anyhow!("the sandbox refused: {}", refusal.message)
}
