//! The fixed play: what is written in which order, until everything has ended; and the verdict.

use domain::delivery::{Action, Status};
use domain::ids::CaseId;
use sandbox::Name;
use store::StoredMessage;

use super::judge::{self, Difference, Line};
use super::{World, campaign, city, shop};
use crate::operate::status::table;

/// What came of a play.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub difference: Difference,
    /// What became of each post, and of each channel.
    pub summary: String,
}

/// Plays the whole main job: posts, copies, a ban, an edit, a reunion. Ends when every delivery has.
pub(crate) async fn play(world: &World) -> anyhow::Result<()> {
    world.ban()?;
    let (originals, copies) = (city::originals(), city::copies());
    world.write(&originals)?;
    let before_copies = originals.len();
    world.wait_until("the posts were taken in", || has_messages(world, before_copies)).await?;
    world.write(&copies)?;
    let with_copies = before_copies + copies.len();
    world.wait_until("the copies were taken in", || has_messages(world, with_copies)).await?;
    world.wait_until("the banned channel was noticed", || world.is_banned()).await?;
    world.pardon().await?;
    world.wait_until("everything was sent", || has_settled(world)).await?;

    let (wall, post, change) = city::edit();
    world.edit(wall, post, change)?;
    world.write(&[city::reunion()])?;
    world.wait_until("the edit was noticed", || was_edited(world, wall, post)).await?;
    world.wait_until("the reunion was taken in", || has_messages(world, with_copies + 1)).await?;
    world.wait_until("everything was sent", || has_settled(world)).await
}

/// Compares what readers saw with what they should have seen.
pub(crate) async fn judge_all(world: &World) -> anyhow::Result<Judgement> {
    let core = world.sandbox.core();
    let mut seen: Vec<Line> = Vec::new();
    for platform in Name::ALL {
        let mut rows = core.ledger.rows(platform);
        rows.retain(|row| !row.account.as_deref().is_some_and(is_of_another_act));
        seen.extend(judge::lines(platform, &rows));
    }
    for (channel, platform, chat) in city::CHANNELS {
        seen.extend(judge::standing(channel, &core.chats.messages(platform, &chat.to_string())));
    }
    seen.sort();
    let expected = city::expected();
    let difference = judge::compare(&expected, &seen);
    let summary =
        format!("{}\n{}", posts_table(world).await?, channels_table(world, &expected, &seen).await?);
    Ok(Judgement { difference, summary })
}

/// The bots of the other acts have a verdict of their own.
fn is_of_another_act(token: &str) -> bool {
    campaign::TOKENS.contains(&token) || shop::TOKENS.iter().any(|(_, of_shop)| *of_shop == token)
}

async fn has_messages(world: &World, n: usize) -> anyhow::Result<bool> {
    Ok(world.messages().await?.len() >= n)
}

async fn was_edited(world: &World, wall: i64, post: i64) -> anyhow::Result<bool> {
    let (source, id) = (format!("vk:{wall}"), post.to_string());
    let is_it = |message: &StoredMessage| message.source == source && message.origin_id == id;
    Ok(world.messages().await?.iter().any(|message| is_it(message) && message.revision > 1))
}

async fn has_settled(world: &World) -> anyhow::Result<bool> {
    Ok(world.deliveries().await?.iter().all(|delivery| delivery.status.is_terminal()))
}

async fn posts_table(world: &World) -> anyhow::Result<String> {
    let messages = world.messages().await?;
    let deliveries = world.deliveries().await?;
    let cases: Vec<CaseId> = messages.iter().filter_map(|message| message.case_id).collect();
    let cases = world.node.store.cases(world.workspace, cases).await?;
    let ended_by = |message: &StoredMessage| {
        cases.iter().find(|case| case.closed_by == Some(message.message_id)).map(|case| case.case_id)
    };
    let mut rows = Vec::new();
    for message in &messages {
        let own = || deliveries.iter().filter(|delivery| delivery.message_id == message.message_id);
        let sent = |action: Action| {
            let of_action = own().filter(|delivery| delivery.action == action);
            of_action.filter(|delivery| delivery.status == Status::Sent).count()
        };
        let deduped = own().filter(|delivery| delivery.status == Status::Deduped).count();
        let fate = match (ended_by(message), &message.skipped, sent(Action::Send), sent(Action::Edit)) {
            (Some(case), Some(_), ..) => format!("closed case {case}: what was said about it is changed"),
            (_, Some(why), ..) => format!("kept: {why}"),
            (_, None, 0, _) => format!("a copy: held back in {}", channels(deduped)),
            (_, None, said, 0) => format!("said in {}", channels(said)),
            (_, None, said, changed) => format!("said in {}, changed in {changed}", channels(said)),
        };
        let case = message.case_id.map(|CaseId(id)| id.to_string()).unwrap_or_default();
        rows.push(vec![
            format!("wall{}_{}", message.source.trim_start_matches("vk:"), message.origin_id),
            message.kind.clone(),
            case,
            fate,
        ]);
    }
    Ok(table(&["post", "kind", "case", "what became of it"], rows))
}

async fn channels_table(world: &World, expected: &[Line], seen: &[Line]) -> anyhow::Result<String> {
    let deliveries = world.deliveries().await?;
    let known = world.node.store.channels(world.workspace).await?;
    let mut rows = Vec::new();
    for (name, _, _) in city::CHANNELS {
        let id = known.iter().find(|channel| channel.name == name).map(|channel| channel.channel_id);
        let count = |status: Status| {
            let of_channel =
                deliveries.iter().filter(|delivery| id.is_some() && delivery.destination.channel() == id);
            of_channel.filter(|delivery| delivery.status == status).count().to_string()
        };
        let of =
            |lines: &[Line]| lines.iter().filter(|line| line.channel == name).cloned().collect::<Vec<_>>();
        let (expected, seen) = (of(expected), of(seen));
        let right = if judge::compare(&expected, &seen).is_none() { "right" } else { "WRONG" };
        rows.push(vec![
            name.to_owned(),
            count(Status::Sent),
            count(Status::Deduped),
            count(Status::FailedPermanent),
            expected.len().to_string(),
            seen.len().to_string(),
            right.to_owned(),
        ]);
    }
    let headings = ["channel", "sent", "repeats held back", "failed first", "expected", "seen", "verdict"];
    Ok(table(&headings, rows))
}

fn channels(n: usize) -> String {
    if n == 1 { "1 channel".to_owned() } else { format!("{n} channels") }
}
