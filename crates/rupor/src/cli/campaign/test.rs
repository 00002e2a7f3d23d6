//! A campaign to people of one's own first, and how it went with each of them.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use domain::delivery::Status;
use domain::destination::Destination;
use domain::ids::{DeliveryId, WorkspaceId};
use domain::shown::{line, masked};
use serde_json::{Value, json};
use store::{Delivery, Store};

use super::{LOOK_EVERY, Named, Way};
use crate::operate::campaigns::CampaignOrder;
use crate::operate::verb::find_workspace;

/// How long it is waited for what was queued.
const WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(super) struct Test {
    #[command(flatten)]
    named: Named,
    /// The bot that sends it
    #[arg(long, value_name = "NAME")]
    account: String,
    /// User ids of people who are known on this bot
    #[arg(long = "to", value_name = "ADDRESS,…", value_delimiter = ',', required = true)]
    people: Vec<String>,
}

pub(super) async fn test(args: &Test) -> anyhow::Result<()> {
    let read = |id: &String| crate::people::read::id(id).map_err(|why| anyhow::anyhow!(why));
    let order = CampaignOrder::Test {
        account: args.account.clone(),
        people: args.people.iter().map(read).collect::<anyhow::Result<_>>()?,
        key: uuid::Uuid::new_v4().simple().to_string(),
    };
    let operator = &args.named.operator;
    let mut done = Way::to(&args.named).await?.order(order).await?;
    let ids = done["deliveries"].as_array().into_iter().flatten().filter_map(Value::as_i64);
    let ids: Vec<DeliveryId> = ids.map(DeliveryId).collect();
    let look = operator.look().await?;
    let ws = find_workspace(&look.store, &operator.workspace(&look.store).await?).await?;
    let begun = Instant::now();
    let mut ends = ends(&look.store, ws, &ids).await?;
    while look.node != Some(false)
        && ends.iter().any(|one| !one.status.is_terminal())
        && begun.elapsed() < WAIT_MAX
    {
        tokio::time::sleep(LOOK_EVERY).await;
        ends = self::ends(&look.store, ws, &ids).await?;
    }
    let mut lines = vec![format!("{} messages are queued; the campaign counts none of them", ids.len())];
    let mut results = Vec::new();
    for one in &ends {
        let address = match one.destination {
            Destination::Recipient(id) => look.store.recipient(ws, id).await?.user_id,
            Destination::Channel(id) => id.to_string(),
        };
        let error = |name: &str| one.last_error.as_ref().and_then(|error| error[name].as_str());
        let why = [error("code"), error("message")].into_iter().flatten().collect::<Vec<_>>().join(": ");
        lines.push(match one.status {
            Status::Sent => format!("{address}: sent"),
            status if status.is_terminal() => format!("{address}: not sent: {}", masked(&line(&why))),
            _ if look.node == Some(false) => {
                format!("{address}: waits; nothing is sent before `rupor run` runs")
            }
            _ => format!(
                "{address}: on its way; look with `rupor delivery show {}` {}",
                one.delivery_id,
                masked(&line(&why))
            ),
        });
        results.push(json!({"address": address, "delivery": one.delivery_id, "status": one.status,
                            "code": error("code")}));
    }
    done["results"] = json!(results);
    operator.print(&done, || lines.join("\n"))?;
    match ends.iter().filter(|one| one.status.is_terminal() && one.status != Status::Sent).count() {
        0 => Ok(()),
        n => bail!("{n} of {} messages were not sent", ends.len()),
    }
}

async fn ends(store: &Store, ws: WorkspaceId, ids: &[DeliveryId]) -> anyhow::Result<Vec<Delivery>> {
    let mut ends = Vec::with_capacity(ids.len());
    for id in ids {
        ends.push(store.delivery(ws, *id).await?);
    }
    Ok(ends)
}
