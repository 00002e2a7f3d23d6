//! The post object: how it is made, how it is served, and how a reader sees it.

use serde_json::{Map, Value, json};

use crate::chats::{Author, Face, Message, MessageId, Side};
use crate::core::SharedCore;
use crate::platform::Name;

use super::state::{Comment, Post, State, Status, Wall};
use super::{attachments, people};

/// Under which id the page shows a wall. The walls of people stand apart from the dialogs with them.
pub(super) fn wall_key(owner_id: i64) -> String {
    if owner_id < 0 { owner_id.to_string() } else { format!("wall{owner_id}") }
}

/// What goes into a new post.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub owner_id: i64,
    pub from_id: i64,
    pub text: String,
    pub attachments: Vec<Value>,
    /// Fields that only some posts have.
    pub extra: Map<String, Value>,
}

/// A post as the API serves it.
pub(super) fn object(core: &SharedCore, id: i64, date: i64, draft: Draft) -> Map<String, Value> {
    let hash = format!("{:016x}", core.number_of(&format!("{}_{id}", draft.owner_id)));
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("id", id.into());
    put("owner_id", draft.owner_id.into());
    put("from_id", draft.from_id.into());
    put("date", date.into());
    put("text", draft.text.into());
    put("post_type", "post".into());
    put("inner_type", "wall_wallpost".into());
    put("type", "post".into());
    put("marked_as_ads", 0.into());
    put("attachments", draft.attachments.into());
    put("post_source", json!({ "type": "api" }));
    put("comments", json!({ "can_post": 1, "count": 0, "groups_can_post": true }));
    put("likes", json!({ "can_like": 1, "count": 0, "user_likes": 0, "can_publish": 1 }));
    put("reposts", json!({ "count": 0, "user_reposted": 0 }));
    put("views", json!({ "count": 1 }));
    put("donut", json!({ "is_donut": false }));
    put("is_favorite", false.into());
    put("hash", hash.into());
    object.extend(draft.extra);
    object
}

/// The post with what depends on the rest of its wall.
pub(super) fn served(wall: &Wall, post: &Post) -> Value {
    let mut object = post.object.open();
    if wall.pinned == Some(post.id) {
        object.insert("is_pinned".into(), 1.into());
    }
    let n_comments = wall.comments_of(post.id).count();
    if let Some(comments) = object.get_mut("comments").and_then(Value::as_object_mut)
        && n_comments > 0
    {
        comments.insert("count".into(), n_comments.into());
    }
    Value::Object(object)
}

/// Makes the wall visible as a chat; `keep` also while it is empty.
pub(super) fn show_wall(core: &SharedCore, state: &State, owner_id: i64, keep: bool) {
    let title = people::owner_name(state, owner_id);
    let title = if owner_id < 0 { title } else { format!("Стена: {title}") };
    let screen_name = people::screen_name(state, owner_id);
    let face = Face { kind: "wall", title: &title, username: Some(&screen_name) };
    core.chats.ensure(Name::Vk, &wall_key(owner_id), &face, keep);
}

/// Shows a published post, or shows it anew after a change.
pub(super) fn show(core: &SharedCore, state: &State, owner_id: i64, post_id: i64) {
    let Some(wall) = state.walls.get(&owner_id) else { return };
    let Some(post) = wall.posts.get(&post_id).filter(|post| post.status == Status::Published) else { return };
    show_wall(core, state, owner_id, false);
    let object = &post.object.open();
    let (text, source) = with_reposts(object);
    let mut message = Message::text(post_id, post.date.saturating_mul(1000), author(state, object), text);
    message.media = attachments::shown(core, &Value::from(source));
    message.edited_at = object.get("edited").and_then(Value::as_i64).map(|at| at.saturating_mul(1000));
    message.pinned = wall.pinned == Some(post_id);
    message.note = note(object);
    core.chats.post(Name::Vk, &wall_key(owner_id), message);
}

/// The text and the attachments of a post together with what it reposts.
fn with_reposts(object: &Map<String, Value>) -> (String, Vec<Value>) {
    let mut text = object.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut found = list(object.get("attachments"));
    for copy in list(object.get("copy_history")) {
        let copied = copy["text"].as_str().unwrap_or_default();
        if !copied.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            text = format!("{text}{gap}↪ {copied}");
        }
        found.extend(list(copy.get("attachments")));
    }
    (text, found)
}

fn note(object: &Map<String, Value>) -> Option<String> {
    let mut notes = Vec::new();
    if object.contains_key("copy_history") {
        notes.push("repost".to_owned());
    }
    if object.get("marked_as_ads").and_then(Value::as_i64) == Some(1) {
        notes.push("ad".to_owned());
    }
    if let Some(link) = object.get("copyright").and_then(|copyright| copyright["link"].as_str()) {
        notes.push(format!("source: {link}"));
    }
    let links = object.get("attachments").and_then(Value::as_array).into_iter().flatten();
    notes.extend(links.filter_map(|attachment| attachment["link"]["url"].as_str()).map(str::to_owned));
    (!notes.is_empty()).then(|| notes.join(" · "))
}

/// Shows a comment under its post.
pub(super) fn show_comment(core: &SharedCore, state: &State, owner_id: i64, comment: &Comment) {
    let object = &comment.object.open();
    let at = object.get("date").and_then(Value::as_i64).unwrap_or_default().saturating_mul(1000);
    let text = object.get("text").and_then(Value::as_str).unwrap_or_default();
    let mut message = Message::text(comment.id, at, author(state, object), text);
    message.media = attachments::shown(core, object.get("attachments").unwrap_or(&Value::Null));
    let answered = object.get("reply_to_comment").and_then(Value::as_i64);
    message.reply_to = Some(MessageId::Number(answered.unwrap_or(comment.post_id)));
    message.edited_at = object.get("edited").and_then(Value::as_i64).map(|at| at.saturating_mul(1000));
    message.note = Some("comment".to_owned());
    core.chats.post(Name::Vk, &wall_key(owner_id), message);
}

pub(super) fn hide(core: &SharedCore, owner_id: i64, id: i64) {
    core.chats.remove(Name::Vk, &wall_key(owner_id), &MessageId::Number(id));
}

fn author(state: &State, object: &Map<String, Value>) -> Author {
    let from_id = object.get("from_id").and_then(Value::as_i64).unwrap_or_default();
    let side = if from_id < 0 { Side::Channel } else { Side::User };
    Author::new(&people::owner_name(state, from_id), side)
}
