//! People on bots: broadcasts to many, answers in dialogues, and people who block us, stop and come back.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Priority;
use domain::ids::{AccountId, CampaignId, DeliveryId, LaneId, MessageId, RecipientId, WorkspaceId};
use domain::message::Message;
use serde_json::json;
use store::{ForRecipients, LaneOf, LaneSettings, NewRecipient, RecipientStatus};

use super::client::{self, did, hesitate, meant, troubled};
use super::log::{Heard, PersonLog, Post, Verb};
use super::world::{World, lock};

/// Mailings are numbered apart from posts.
const FIRST_NUMBER: usize = 10_000;

/// Mailings have lanes of campaigns, and no campaign.
pub(crate) const MAILINGS: CampaignId = CampaignId(1_000_000);

/// Somebody on a bot, and the lanes that lead to them.
#[derive(Debug, Clone)]
pub(super) struct Person {
    workspace: WorkspaceId,
    account: AccountId,
    id: RecipientId,
    address: String,
    campaign: LaneId,
    dialogue: LaneId,
}

/// The people of one account, with a campaign for all and a dialogue for each.
pub(super) async fn furnish(
    world: &World,
    workspace: WorkspaceId,
    account: AccountId,
    platform: &'static str,
) -> store::Result<Vec<Person>> {
    let facts = platforms::registry::platform(platform).map(platforms::platform::Platform::facts);
    let Some(facts) = facts.filter(|_| world.options.people > 0) else {
        return Ok(Vec::new());
    };
    let settings = |max_parallel| LaneSettings { max_parallel, rate: None, ambiguity: facts.ambiguity };
    let new = (0..world.options.people).map(|n| person(5_000_000 + 100 * account.0 + n as i64)).collect();
    let campaign = LaneOf::Campaign(MAILINGS, account);
    let campaign = world.store.open_lane(workspace, campaign, settings(3)).await?;
    let mut people = Vec::new();
    for put in world.store.put_recipients(workspace, account, new).await? {
        let id = put.recipient_id;
        let address = world.store.recipient(workspace, id).await?.address;
        let dialogue = world.store.open_lane(workspace, LaneOf::Dialogue(id), settings(1)).await?;
        let known = PersonLog {
            workspace: workspace.0,
            account: account.0,
            target: address.clone(),
            policy: facts.ambiguity.as_str(),
            keyed: platform == "vk",
            zone: "",
            user: address.clone(),
        };
        let mut logs = world.logs();
        logs.world.people.insert(id.0, known);
        logs.world.dialogues.insert(dialogue.0, id.0);
        people.push(Person { workspace, account, id, address, campaign, dialogue });
    }
    Ok(people)
}

fn person(id: i64) -> NewRecipient {
    NewRecipient {
        user_id: id.to_string(),
        address: id.to_string(),
        attributes: json!({"имя": "Анна"}),
        time_zone: None,
        status: RecipientStatus::Active,
        source: "simulated".into(),
    }
}

/// Writes to people all through the chaos: to all of an account, or to one in a dialogue.
pub(super) async fn write_all(world: Arc<World>) {
    if world.people.is_empty() {
        return;
    }
    let n = world.options.mailings;
    for number in FIRST_NUMBER..FIRST_NUMBER + n {
        tokio::time::sleep(world.up_to(world.options.chaos / n as u32)).await;
        let first = &world.people[world.below(world.people.len())];
        let (lane, who): (LaneId, Vec<RecipientId>) = match world.below(2) {
            0 => (first.dialogue, vec![first.id]),
            _ => {
                let same = world.people.iter().filter(|person| person.account == first.account);
                (first.campaign, same.map(|person| person.id).collect())
            }
        };
        let words = 1 + world.below(5);
        let people = who.iter().map(|id| id.0).collect();
        let post = Post { people, ..client::post(first.workspace, number, words) };
        let index = client::note(&world, post);
        tokio::spawn(insist(Arc::clone(&world), index, lane, who));
    }
    client::wait_for_answers(&world).await;
}

/// First the words, then the people: each is asked for again until the answer says something.
async fn insist(world: Arc<World>, index: usize, lane: LaneId, who: Vec<RecipientId>) {
    let post = world.logs().client[index].clone();
    let workspace = WorkspaceId(post.workspace);
    let heard = match store_words(&world, &post, workspace).await {
        Some(message) => queue(&world, workspace, message, lane, who).await,
        None => Heard::Fail,
    };
    world.trace(format_args!("client: mailing {index} hears {heard:?}"));
    world.logs().client[index].heard.push(heard);
}

async fn store_words(world: &World, post: &Post, workspace: WorkspaceId) -> Option<MessageId> {
    let message = client::new_message(post, &Message::text(client::wording(post, "")));
    loop {
        if let Some(answer) = meant(client::enqueue(world, workspace, message.clone()).await) {
            return answer.ok().map(|enqueued| enqueued.message_id);
        }
        hesitate(world).await;
    }
}

async fn queue(
    world: &World,
    workspace: WorkspaceId,
    message_id: MessageId,
    lane_id: LaneId,
    recipients: Vec<RecipientId>,
) -> Heard {
    let priority = if recipients.len() == 1 { Priority::Urgent } else { Priority::Bulk };
    let new = ForRecipients { message_id, lane_id, recipients: recipients.clone(), priority, run_at: None };
    loop {
        let queued = troubled(world, world.store.enqueue_for(workspace, new.clone())).await;
        match meant(queued) {
            Some(Ok(queued)) => {
                let told = recipients.iter().zip(&queued);
                let told =
                    told.filter_map(|(who, id): (_, &Option<DeliveryId>)| Some((id.as_ref()?.0, who.0)));
                return Heard::Ok { message: message_id.0, deliveries: told.collect(), skipped: Vec::new() };
            }
            Some(Err(_)) => return Heard::Fail,
            None => hesitate(world).await,
        }
    }
}

/// Somebody says stop: campaigns leave them alone.
pub(super) async fn stop_one(world: &World) -> store::Result<()> {
    let Some(person) = world.people.get(world.below(world.people.len())) else {
        return Ok(());
    };
    did(world, Verb::Stop(person.id.0));
    let stopped = RecipientStatus::Stopped;
    world.store.set_recipient_status(person.workspace, person.id, stopped, "/stop").await
}

/// Somebody who had blocked us, or said stop, writes again.
pub(super) async fn return_one(world: &World) -> store::Result<()> {
    let Some(person) = world.people.get(world.below(world.people.len())) else {
        return Ok(());
    };
    let before = world.store.recipient(person.workspace, person.id).await?.status;
    lock(&world.blocked).remove(&person.address);
    did(world, Verb::Return(person.id.0));
    if before == RecipientStatus::Gone {
        world.sometimes("people: somebody who was gone came back");
    }
    let active = RecipientStatus::Active;
    world.store.set_recipient_status(person.workspace, person.id, active, "wrote again").await
}

/// The longest that a mailing may still take when the troubles are over: a chat gets one at a time.
pub(super) fn patience(mailings: usize) -> Duration {
    Duration::from_secs(10 * mailings as u64)
}
