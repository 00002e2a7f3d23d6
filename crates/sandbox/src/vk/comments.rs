//! Comments under posts. They are numbered together with the posts of their wall.

use serde_json::{Map, Value, json};

use super::attachments::{self, Place};
use super::call::default_owner;
use super::errors::ApiError;
use super::state::{Comment, State, Status};
use super::tokens::Kind;
use super::{Ctx, Done, events, people, posts, wall};
use crate::core::SharedCore;

pub(super) fn create(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = wall::owner(ctx)?;
    let post_id = ctx.args.required_integer("post_id")?;
    wall::readable(ctx, owner_id)?;
    let who = format!("comment {}/{}", ctx.caller.user, ctx.caller.group);
    let guid = ctx.args.text("guid").map(str::to_owned);
    if let Some(id) =
        guid.as_deref().and_then(|guid| ctx.state.wall(owner_id).by_guid(&who, guid, ctx.now_ms))
    {
        return Ok(Done::visible(json!({ "comment_id": id, "parents_stack": [] }), id, Vec::new()));
    }
    let answered = commentable(ctx, owner_id, post_id)?;
    let (text, attachments) = content(ctx)?;
    let media = attachments::listed(ctx.core, &attachments);
    let id = ctx.state.wall(owner_id).next_id();
    if let Some(guid) = guid {
        ctx.state.wall(owner_id).remember_guid(&who, &guid, id, ctx.now_ms);
    }
    let parents = answered.into_iter().collect::<Vec<i64>>();
    let mut object = object(owner_id, post_id, id, author(ctx, owner_id)?, ctx.now_s(), &text);
    object.insert("parents_stack".into(), parents.clone().into());
    if !attachments.is_empty() {
        object.insert("attachments".into(), attachments.into());
    }
    if let Some(answered) = answered {
        object.insert("reply_to_comment".into(), answered.into());
    }
    put(ctx.core, ctx.state, owner_id, Comment { id, post_id, object: object.into() });
    Ok(Done::visible(json!({ "comment_id": id, "parents_stack": parents }), id, media))
}

/// A comment as the API serves it.
pub(super) fn object(
    owner_id: i64,
    post_id: i64,
    id: i64,
    from_id: i64,
    date: i64,
    text: &str,
) -> Map<String, Value> {
    let value = json!({
        "id": id, "from_id": from_id, "date": date, "text": text, "post_id": post_id, "owner_id": owner_id,
        "parents_stack": [], "can_edit": 1, "can_delete": 1,
        "likes": { "can_like": 1, "count": 0, "user_likes": 0, "can_publish": 0 },
        "thread": { "count": 0, "items": [], "can_post": true, "show_reply_button": true, "groups_can_post": true },
    });
    value.as_object().cloned().unwrap_or_default()
}

/// Shows a new comment and tells everybody who listens.
pub(super) fn put(core: &SharedCore, state: &mut State, owner_id: i64, comment: Comment) {
    posts::show_comment(core, state, owner_id, &comment);
    let mut object = comment.object.open();
    state.put_comment(owner_id, comment);
    if owner_id < 0 {
        object.insert("post_owner_id".into(), owner_id.into());
        events::emit(core, state, -owner_id, "wall_reply_new", Value::Object(object));
    }
}

/// Checks the post and the comment that is answered; gives the latter back.
fn commentable(ctx: &Ctx<'_>, owner_id: i64, post_id: i64) -> Result<Option<i64>, ApiError> {
    let wall = ctx.state.walls.get(&owner_id);
    let post = wall.and_then(|wall| wall.posts.get(&post_id)).filter(|post| post.status == Status::Published);
    let post = post.ok_or_else(|| ApiError::plain(212))?;
    let open = post.object.field("comments")["can_post"].as_i64();
    if open == Some(0) {
        return Err(ApiError::plain(213));
    }
    let Some(answered) = ctx.args.integer("reply_to_comment")?.filter(|id| *id != 0) else { return Ok(None) };
    let exists = wall.is_some_and(|wall| wall.comments_of(post_id).any(|comment| comment.id == answered));
    if exists { Ok(Some(answered)) } else { Err(ApiError::parameter("reply_to_comment is invalid")) }
}

fn content(ctx: &Ctx<'_>) -> Result<(String, Vec<Value>), ApiError> {
    let text = ctx.args.text("message").unwrap_or_default().to_owned();
    let asked = ctx.args.list("attachments");
    let mut found = attachments::resolve(ctx.core, ctx.state, &asked, Place::Comment)?;
    if let Some(sticker) = ctx.args.integer("sticker_id")? {
        found.push(json!({ "type": "sticker", "sticker": { "sticker_id": sticker, "product_id": 1 } }));
    }
    if text.trim().is_empty() && found.is_empty() {
        return Err(ApiError::parameter("message is empty or invalid"));
    }
    Ok((text, found))
}

/// `from_group` is the number of a community here, not a flag.
fn author(ctx: &Ctx<'_>, owner_id: i64) -> Result<i64, ApiError> {
    if ctx.caller.kind == Kind::Community {
        return Ok(-ctx.caller.group);
    }
    match ctx.args.integer("from_group")?.map(i64::abs) {
        None | Some(0) => Ok(default_owner(ctx.caller)),
        Some(1) if owner_id < 0 && ctx.caller.manages(-owner_id) => Ok(owner_id),
        Some(group) => {
            ctx.caller.require_manager(group)?;
            Ok(-group)
        }
    }
}

pub(super) fn edit(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let (owner_id, id) = own_comment(ctx)?;
    let (text, attachments) = content(ctx)?;
    let media = attachments::listed(ctx.core, &attachments);
    let now_s = ctx.now_s();
    let comment = ctx.state.wall(owner_id).comment_mut(id).ok_or_else(|| ApiError::plain(211))?;
    comment.object.change(|object| {
        object.insert("text".into(), text.into());
        object.insert("attachments".into(), attachments.into());
        object.insert("edited".into(), now_s.into());
    });
    let comment = comment.clone();
    posts::show_comment(ctx.core, ctx.state, owner_id, &comment);
    if owner_id < 0 {
        events::emit(ctx.core, ctx.state, -owner_id, "wall_reply_edit", Value::Object(comment.object.open()));
    }
    Ok(Done::visible(1, id, media))
}

pub(super) fn delete(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let (owner_id, id) = own_comment(ctx)?;
    let Some(comment) = ctx.state.wall(owner_id).take_comment(id) else {
        return Err(ApiError::plain(211));
    };
    posts::hide(ctx.core, owner_id, id);
    if owner_id < 0 {
        let object = json!({ "owner_id": owner_id, "id": id, "deleter_id": default_owner(ctx.caller),
            "user_id": default_owner(ctx.caller),
            "post_id": comment.post_id });
        events::emit(ctx.core, ctx.state, -owner_id, "wall_reply_delete", object);
    }
    Ok(Done::visible(1, id, Vec::new()))
}

/// The comment, if the caller may change it.
fn own_comment(ctx: &Ctx<'_>) -> Result<(i64, i64), ApiError> {
    let owner_id = wall::owner(ctx)?;
    let id = ctx.args.required_integer("comment_id")?;
    let comment = ctx.state.walls.get(&owner_id).and_then(|wall| wall.comment(id));
    let comment = comment.ok_or_else(|| ApiError::plain(211))?;
    let author = comment.object.field("from_id").as_i64();
    let manager = owner_id < 0 && ctx.caller.manages(-owner_id);
    if manager || author == Some(ctx.caller.user) || author == Some(owner_id) {
        return Ok((owner_id, id));
    }
    Err(ApiError::plain(211))
}

pub(super) fn get(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = wall::owner(ctx)?;
    wall::readable(ctx, owner_id)?;
    let post_id = ctx.args.required_integer("post_id")?;
    let offset = ctx.args.bounded("offset", 0, 0, i64::MAX)? as usize;
    let count = ctx.args.bounded("count", 10, 0, 100)? as usize;
    let wall = ctx.state.walls.get(&owner_id).filter(|wall| wall.posts.contains_key(&post_id));
    let wall = wall.ok_or_else(|| ApiError::plain(212))?;
    let mut found: Vec<Value> =
        wall.comments_of(post_id).map(|comment| Value::Object(comment.object.open())).collect();
    if ctx.args.text("sort") == Some("desc") {
        found.reverse();
    }
    let total = found.len();
    let page: Vec<Value> = found.into_iter().skip(offset).take(count).collect();
    let mut response = json!({ "count": total, "current_level_count": total, "can_post": true,
        "show_reply_button": true, "groups_can_post": true });
    introduce(ctx, &mut response, page);
    Ok(Done::new(response))
}

pub(super) fn get_one(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = wall::owner(ctx)?;
    wall::readable(ctx, owner_id)?;
    let id = ctx.args.required_integer("comment_id")?;
    let comment = ctx.state.walls.get(&owner_id).and_then(|wall| wall.comment(id));
    let object = comment.ok_or_else(|| ApiError::plain(211))?.object.open();
    let mut response = json!({ "can_post": true, "show_reply_button": true, "groups_can_post": true });
    introduce(ctx, &mut response, vec![Value::Object(object)]);
    Ok(Done::new(response))
}

fn introduce(ctx: &Ctx<'_>, response: &mut Value, items: Vec<Value>) {
    if ctx.args.flag("extended") {
        let ids = items.iter().filter_map(|item| item["from_id"].as_i64());
        let (profiles, groups) = people::extended(ctx, ids, &ctx.args.list("fields"));
        response["profiles"] = profiles;
        response["groups"] = groups;
    }
    response["items"] = items.into();
}

pub(super) fn close(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    set_open(ctx, 0)
}

pub(super) fn open(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    set_open(ctx, 1)
}

fn set_open(ctx: &mut Ctx<'_>, can_post: i64) -> Result<Done, ApiError> {
    let owner_id = ctx.args.required_integer("owner_id")?;
    let post_id = ctx.args.required_integer("post_id")?;
    if owner_id < 0 {
        ctx.caller.require_manager(-owner_id)?;
    }
    let post = ctx.state.wall(owner_id).posts.get_mut(&post_id).ok_or_else(|| ApiError::plain(104))?;
    post.object.change(|object| {
        object.entry("comments").or_insert_with(|| json!({}))["can_post"] = can_post.into();
    });
    Ok(Done::new(1))
}
