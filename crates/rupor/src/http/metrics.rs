//! `/metrics`: the meters of this node and the gauges that the ledger maintains.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::time::{Span, Timestamp};
use store::{Store, Workspace};

use super::Site;
use engine::dispatch::escaped;

pub(super) async fn metrics(State(site): State<Site>) -> Response {
    match lanes(&site.node.store).await {
        Ok(lanes) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
            (kind, site.node.meters.text() + &lanes).into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "the metrics could not be read");
            (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response()
        }
    }
}

/// The gauges that the ledger maintains: per lane, never counted on request.
async fn lanes(store: &Store) -> store::Result<String> {
    let now = store.now().await?;
    let mut rows: [String; 6] = Default::default();
    for workspace in store.workspaces().await? {
        let channels = store.channels(workspace.workspace_id).await?;
        rows[4] += &people(store, &workspace).await?;
        rows[5] += &bots(store, &workspace, now).await?;
        for lane in store.lanes(workspace.workspace_id).await? {
            let channel = channels.iter().find(|channel| Some(channel.channel_id) == lane.channel_id);
            let number = || lane.campaign_id.map_or_else(|| lane.lane_id.to_string(), |id| id.to_string());
            let name = channel.map_or_else(number, |channel| channel.name.clone());
            let of = lane.campaign_id.map_or("channel", |_| "campaign");
            let labels = format!(
                "workspace=\"{}\",{of}=\"{}\",lane=\"{}\"",
                escaped(&workspace.name),
                escaped(&name),
                lane.lane_id
            );
            let c = lane.counts;
            for (state, n) in [
                ("queued", c.queued),
                ("retry", c.retry),
                ("sending", c.sending),
                ("sent", c.sent),
                ("deduped", c.deduped),
                ("failed_permanent", c.failed_permanent),
                ("dead", c.dead),
            ] {
                let _ = writeln!(rows[0], "rupor_lane_deliveries{{{labels},state=\"{state}\"}} {n}");
            }
            let pending = c.queued + c.retry;
            let lag = lane.next_at.filter(|at| pending > 0 && *at < now).map_or(0, |at| (now - at).millis());
            let _ = writeln!(rows[1], "rupor_lane_lag_seconds{{{labels}}} {}", lag as f64 / 1_000.0);
            let rate = channel.and_then(|channel| channel.settings.rate);
            if let Some(rate) = rate {
                let _ = writeln!(rows[2], "rupor_lane_eta_seconds{{{labels}}} {:.1}", pending as f64 / rate);
            }
            let wait = lane.next_at.map_or(-1.0, |at| wait_seconds(now, at));
            let _ = writeln!(rows[3], "rupor_lane_next_seconds{{{labels}}} {wait}");
        }
    }
    let names = [
        ("rupor_lane_deliveries", "deliveries of a lane by state"),
        ("rupor_lane_lag_seconds", "how long the lane's next delivery has been due"),
        ("rupor_lane_eta_seconds", "time to empty the lane at its own rate"),
        ("rupor_lane_next_seconds", "time until the lane may go on; -1: nothing waits or it is shut"),
        ("rupor_people", "people of an account by state; dialogues and the gone are counted up to 10000"),
        (
            "rupor_bot",
            "bots of a workspace: what waits, who waits for a human, and the last hour; counted up to 10000",
        ),
    ];
    let mut text = String::new();
    for ((name, help), rows) in names.iter().zip(&rows) {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{rows}");
    }
    Ok(text)
}

/// In sums: a person is never a label, and dialogues are never walked.
async fn people(store: &Store, workspace: &Workspace) -> store::Result<String> {
    let accounts = store.accounts(workspace.workspace_id).await?;
    let mut text = String::new();
    for people in store.people(workspace.workspace_id).await? {
        let account = accounts.iter().find(|account| account.account_id == people.account_id);
        let name = account.map_or_else(|| people.account_id.to_string(), |account| account.name.clone());
        for (state, n) in [("waiting", people.waiting), ("sending", people.sending), ("gone", people.gone)] {
            let (workspace, account) = (escaped(&workspace.name), escaped(&name));
            let labels = format!("workspace=\"{workspace}\",account=\"{account}\",state=\"{state}\"");
            let _ = writeln!(text, "rupor_people{{{labels}}} {n}");
        }
    }
    Ok(text)
}

/// Nothing where there is no bot.
async fn bots(store: &Store, workspace: &Workspace, now: Timestamp) -> store::Result<String> {
    let mut text = String::new();
    if store.bots(workspace.workspace_id).await?.is_empty() {
        return Ok(text);
    }
    let figures = store.bot_snapshot(workspace.workspace_id, Span::from_hours(1)).await?;
    let oldest = figures.oldest.map_or(0, |at| (now - at).millis() / 1_000);
    let named = [
        ("waiting", figures.waiting),
        ("oldest_seconds", oldest),
        ("handoffs", figures.handoffs),
        ("events", figures.turns),
        ("fallbacks", figures.fallbacks),
        ("errors", figures.errors),
    ];
    for (figure, n) in named {
        let workspace = escaped(&workspace.name);
        let _ = writeln!(text, "rupor_bot{{workspace=\"{workspace}\",figure=\"{figure}\"}} {n}");
    }
    Ok(text)
}

fn wait_seconds(now: Timestamp, at: Timestamp) -> f64 {
    if at == Timestamp::NEVER { -1.0 } else { (at - now).millis().max(0) as f64 / 1_000.0 }
}
