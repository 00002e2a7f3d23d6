//! Posts that live on at their source: their words change, they vanish, the story they tell ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::content::cases::Sketch;
use domain::content::{self, analyse};
use domain::ids::WorkspaceId;
use domain::message::Message;
use serde_json::json;
use store::{Fate, Ingested, NewMessage, NewPost};

use super::client::{self, hesitate, meant, troubled};
use super::log::{Heard, Life, Post};
use super::world::{START, World, lock};

const SOURCE: &str = "vk:-7";
/// Reunions are numbered apart from posts.
const FIRST_REUNION: usize = 20_000;
/// Revisions of one post, beside the first.
const REVISIONS_MAX: usize = 2;

/// What a post is about; searches have an end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Anything,
    Search,
    Reunion,
}

/// Takes a composed post in from a source, and lets it live there.
pub(super) fn publish(world: &Arc<World>, index: usize, message: NewMessage) {
    let post = world.logs().client[index].clone();
    // One search a workspace, so that no two can be taken for one.
    let search = world.below(2) == 0 && lock(&world.searched).insert(post.workspace);
    let about = if search { About::Search } else { About::Anything };
    world.stories.fetch_add(1, Ordering::AcqRel);
    let world = Arc::clone(world);
    tokio::spawn(async move {
        live(&world, index, post, message, about).await;
        world.stories.fetch_sub(1, Ordering::AcqRel);
    });
}

async fn live(world: &Arc<World>, index: usize, post: Post, message: NewMessage, about: About) {
    let media = serde_json::from_value::<Message>(message.payload.clone()).unwrap_or_default().media;
    let worded = |revision: usize| {
        let text = client::wording(&post, &format!(" правка{revision}"));
        new_post(&post, Message { text, media: media.clone(), ..Message::default() }, &message, about)
    };
    if !take_in(world, index, worded(1), 1).await {
        return;
    }
    for revision in 2..=1 + world.below(REVISIONS_MAX + 1) {
        pass(world).await;
        take_in(world, index, worded(revision), revision).await;
    }
    pass(world).await;
    match (about, world.below(2)) {
        (About::Search, 0) => reunite(world, &post).await,
        (_, 0) => {}
        _ => vanish(world, index, &post).await,
    }
}

/// Time goes by: now and then only a moment, so that posts change while they are being sent.
async fn pass(world: &World) {
    let most = match world.is_calm() || world.below(2) == 0 {
        true => Duration::from_secs(2),
        false => world.options.chaos / 6,
    };
    tokio::time::sleep(world.up_to(most)).await;
}

fn new_post(post: &Post, message: Message, template: &NewMessage, about: About) -> NewPost {
    let mark = message.text.clone();
    let sketch = (about != About::Anything).then(|| sketch(post, about));
    let kind = sketch.as_ref().map_or("other", |sketch| sketch.kind.name());
    let message = NewMessage {
        source: SOURCE.into(),
        kind: kind.into(),
        origin: json!({"hash": mark}),
        channels: template.channels.clone(),
        priority: template.priority,
        run_at: template.run_at,
        ..client::new_message(post, &Message { kind: kind.into(), ..message })
    };
    NewPost { message, sketch, held: None }
}

fn sketch(post: &Post, about: About) -> Sketch {
    let text = match about {
        About::Reunion => {
            "Такса Буся нашлась, она дома! Всем спасибо за репосты! Тюмень, улица Ямская, 8 901 000-00-11"
        }
        _ => {
            "Пропала собака! 12 ноября в Тюмени на улице Ямской убежала такса Буся, рыжая, в красном ошейнике. \
             Телефон 8 901 000-00-11, Марина."
        }
    };
    let read = content::Post {
        owner_id: -7,
        post_id: post.number as i64,
        date: START.0 / 1_000_000,
        text: text.into(),
        ..content::Post::default()
    };
    let analysis = analyse(&read);
    Sketch::new(&read, &analysis.facts, &analysis.cleaned, &[])
}

/// Brings one revision to the store until the answer says something; whether it was taken in.
async fn take_in(world: &World, index: usize, new: NewPost, revision: usize) -> bool {
    let workspace = WorkspaceId(world.logs().client[index].workspace);
    let heard = loop {
        let taken = troubled(world, world.store.ingest(workspace, vec![new.clone()], None)).await;
        match meant(taken) {
            Some(Ok(taken)) => break taken.into_iter().next(),
            Some(Err(error)) => {
                world.trace(format_args!("source: post {index} is refused: {error}"));
                break None;
            }
            None => hesitate(world).await,
        }
    };
    world.trace(format_args!("source: post {index} revision {revision} hears {heard:?}"));
    let mut logs = world.logs();
    let post = &mut logs.client[index];
    match heard {
        Some(taken) => {
            post.life.revision = revision;
            if revision == 1 {
                post.heard.push(ok(&taken));
            }
            true
        }
        None => {
            if revision == 1 {
                post.heard.push(Heard::Fail);
            }
            false
        }
    }
}

/// A first answer that was lost names no deliveries the second time: the checker knows them by their message.
fn ok(taken: &Ingested) -> Heard {
    let told = taken.deliveries.iter().map(|delivery| (delivery.delivery_id.0, delivery.channel_id.0));
    let deliveries = if taken.fate == Fate::Stored { told.collect() } else { Vec::new() };
    Heard::Ok { message: taken.message_id.0, deliveries, skipped: Vec::new() }
}

async fn vanish(world: &World, index: usize, post: &Post) {
    let (workspace, origin) = (WorkspaceId(post.workspace), format!("post{}", post.number));
    loop {
        let gone = troubled(world, world.store.post_gone(workspace, SOURCE, &origin)).await;
        if let Some(gone) = meant(gone) {
            let at = world.ledger_at();
            world.trace(format_args!("source: post {index} has vanished: {gone:?}"));
            world.logs().client[index].life.gone_at = gone.is_ok().then_some(at);
            return;
        }
        hesitate(world).await;
    }
}

/// The story of a search ends: what was said is edited or answered, as its channels want it.
async fn reunite(world: &World, search: &Post) {
    let number = FIRST_REUNION + search.number;
    let life = Life { answers: Some(search.number), ..Life::default() };
    let post = Post { life, ..client::post(WorkspaceId(search.workspace), number, 2) };
    let words = Message::text(client::wording(&post, " правка1"));
    let template = client::new_message(&post, &words);
    let new = new_post(&post, words, &template, About::Reunion);
    let index = client::note(world, post);
    take_in(world, index, new, 1).await;
}
