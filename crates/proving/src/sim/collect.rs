//! Reads the ledger as it stands in the end into the plain words of `log`.

use domain::campaign::CampaignStatus;
use domain::ids::{LaneId, MessageId, WorkspaceId};
use domain::time::Span;
use engine::campaigns::policy::Policy;
use serde_json::Value;
use store::{Delivery, DeliveryFilter, Member, Person};

use super::log::{AttemptLog, CampaignLog, DeliveryLog, ErrorLog, EventLog, Heard, Logs, MemberLog};
use super::people::MAILINGS;
use super::world::World;

pub(super) async fn collect(world: &World) -> store::Result<Logs> {
    let mut logs = world.logs().clone();
    for &workspace in &world.workspaces {
        collect_campaigns(world, workspace, &mut logs).await?;
        let lanes = world.store.lanes(workspace).await?;
        let campaign_of = |lane: LaneId| {
            let lane = lanes.iter().find(|known| known.lane_id == lane);
            lane.and_then(|lane| lane.campaign_id).filter(|id| *id != MAILINGS).map(|id| id.0)
        };
        for row in world.store.deliveries(workspace, DeliveryFilter::default(), 100_000).await? {
            let attempts = world.store.attempts(workspace, row.delivery_id).await?;
            let attempts = attempts.into_iter().map(attempt).collect();
            if let std::collections::btree_map::Entry::Vacant(new) =
                logs.ledger.messages.entry(row.message_id.0)
            {
                let payload = world.store.payload(workspace, row.message_id).await?;
                new.insert(payload["text"].as_str().unwrap_or_default().to_owned());
            }
            let campaign = campaign_of(row.lane_id);
            let row = DeliveryLog { campaign, ..delivery(row, attempts) };
            logs.ledger.deliveries.insert(row.id, row);
        }
        for event in world.store.events(workspace, 0, 100_000).await? {
            let campaign = event.detail["campaign"].as_i64();
            let status = event.detail["to"].as_str().and_then(CampaignStatus::parse);
            logs.ledger.events.push(EventLog {
                became: campaign.zip(status),
                at: event.at.0,
                name: event.name,
                delivery: event.delivery_id.map(|id| id.0),
                account: event.account_id.map(|id| id.0),
                person: event.destination.and_then(|to| to.recipient()).map(|id| id.0),
            });
        }
        logs.ledger.audit.extend(world.store.audit(workspace).await?);
    }
    // A message for people who are all gone has no delivery.
    for post in &logs.client {
        let Some(Heard::Ok { message, .. }) = post.heard.last() else {
            continue;
        };
        if !logs.ledger.messages.contains_key(message)
            && let Ok(payload) = world.store.payload(WorkspaceId(post.workspace), MessageId(*message)).await
        {
            logs.ledger.messages.insert(*message, payload["text"].as_str().unwrap_or_default().to_owned());
        }
    }
    Ok(logs)
}

async fn collect_campaigns(world: &World, workspace: WorkspaceId, logs: &mut Logs) -> store::Result<()> {
    for campaign in world.store.campaigns(workspace).await? {
        let id = campaign.campaign_id;
        let members = world.store.campaign_members(workspace, id, Person::default(), 10_000).await?;
        let member = |member: Member| MemberLog {
            who: (member.person.platform, member.person.user_id),
            account: member.account_id.0,
            state: member.state,
            variant: member.variant,
        };
        let policy: Policy = serde_json::from_value(campaign.settings.clone()).unwrap_or_default();
        let log = CampaignLog {
            seed: campaign.seed,
            status: campaign.status,
            ended_at: campaign.ended_at.map(|at| at.0),
            window: campaign.settings["window"].as_str().map(str::to_owned),
            deadline_us: policy.deadline().map(Span::micros),
            total: world.store.campaign_counts(workspace, id).await?.total,
            members: members.into_iter().map(member).collect(),
        };
        logs.ledger.campaigns.insert(id.0, log);
    }
    Ok(())
}

fn delivery(row: Delivery, attempts: Vec<AttemptLog>) -> DeliveryLog {
    DeliveryLog {
        id: row.delivery_id.0,
        workspace: row.workspace_id.0,
        account: row.account_id.0,
        lane: row.lane_id.0,
        campaign: None,
        channel: row.destination.channel().map_or(0, |id| id.0),
        person: row.destination.recipient().map_or(0, |id| id.0),
        message: row.message_id.0,
        action: row.action.as_str(),
        generation: row.generation,
        parent: row.parent_delivery.map(|id| id.0),
        bulk: row.priority == domain::delivery::Priority::Bulk,
        status: row.status.as_str().to_owned(),
        reason: row.reason.unwrap_or_default(),
        claim_seq: row.claim_seq,
        attempt: row.counters.attempt,
        charged: row.counters.charged,
        flood_waits: row.counters.flood_waits,
        not_ready_waits: row.counters.not_ready_waits,
        unknowns: row.counters.unknowns,
        lost_claims: row.counters.lost_claims,
        lost_requests: row.counters.lost_requests,
        provider_id: row.provider_message_id,
        parts: row.parts,
        queued_at: row.queued_at.0,
        ended_at: row.ended_at.map(|at| at.0),
        attempts,
    }
}

fn attempt(row: store::Attempt) -> AttemptLog {
    AttemptLog {
        attempt: row.attempt,
        claim_seq: row.claim_seq,
        run: row.run_id,
        started_at: row.started_at.0,
        requested_at: row.requested_at.map(|at| at.0),
        finished_at: row.finished_at.0,
        outcome: row.outcome,
        error: row.error.as_ref().map(error),
        provider_id: row.provider_message_id,
    }
}

fn error(json: &Value) -> ErrorLog {
    let word = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
    ErrorLog {
        transient: word("category") == "TRANSIENT",
        scope: word("scope"),
        code: word("code"),
        unknown: word("certainty") == "unknown",
        retry_after_ms: json["retry_after_ms"].as_i64(),
    }
}
