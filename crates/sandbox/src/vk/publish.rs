//! Writing on walls: `wall.post` and what can happen to a post afterwards.

use serde_json::{Map, Value, json};

use super::attachments::{self, Place};
use super::call::default_owner;
use super::errors::ApiError;
use super::posts::{self, Draft};
use super::state::{Access, Post, State, Status};
use super::tokens::Kind;
use super::{Ctx, Done, events, locked, wall};
use crate::core::SharedCore;

/// Characters of a post; no official figure is known, this is what most clients believe.
const TEXT_CHARS_MAX: usize = 16_384;

pub(super) fn post(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = target_wall(ctx)?;
    writable(ctx, owner_id)?;
    let who = format!("{}/{}", ctx.caller.user, ctx.caller.group);
    let guid = ctx.args.text("guid").map(str::to_owned);
    if let Some(id) =
        guid.as_deref().and_then(|guid| ctx.state.wall(owner_id).by_guid(&who, guid, ctx.now_ms))
    {
        return Ok(repeated(ctx, owner_id, id));
    }
    if let Some(waiting) = ctx.args.integer("post_id")? {
        return publish_waiting(ctx, owner_id, waiting);
    }
    let draft = drafted(ctx, owner_id)?;
    let publish_date = publish_date(ctx, owner_id)?;
    let media = attachments::listed(ctx.core, &draft.attachments);
    let id = ctx.state.wall(owner_id).next_id();
    if let Some(guid) = guid {
        ctx.state.wall(owner_id).remember_guid(&who, &guid, id, ctx.now_ms);
    }
    match publish_date {
        None => {
            let status = if suggests(ctx, owner_id) { Status::Suggested } else { Status::Published };
            put(ctx.core, ctx.state, id, ctx.now_s(), status, draft);
            Ok(Done::visible(json!({ "post_id": id }), id, media))
        }
        Some(date) => {
            put(ctx.core, ctx.state, id, date, Status::Postponed, draft);
            schedule(ctx, date);
            let mut done = Done::new(json!({ "post_id": id }));
            done.effect.media = media;
            Ok(done)
        }
    }
}

/// A guid that was said before: the earlier post again, and nothing new on the wall.
fn repeated(ctx: &Ctx<'_>, owner_id: i64, id: i64) -> Done {
    let post = ctx.state.walls.get(&owner_id).and_then(|wall| wall.posts.get(&id));
    let list = post.map(|post| post.object.field("attachments")).unwrap_or_default();
    let media = attachments::listed(ctx.core, list.as_array().map_or(&[][..], Vec::as_slice));
    Done::visible(json!({ "post_id": id }), id, media)
}

/// Somebody who does not manage the community writes without its name on a wall that takes suggestions.
fn suggests(ctx: &Ctx<'_>, owner_id: i64) -> bool {
    owner_id < 0 && !ctx.caller.manages(-owner_id)
}

/// Puts a new post on a wall and tells everybody who listens.
pub(super) fn put(core: &SharedCore, state: &mut State, id: i64, date: i64, status: Status, draft: Draft) {
    let owner_id = draft.owner_id;
    let mut object = posts::object(core, id, date, draft);
    match status {
        Status::Postponed => object.insert("post_type".into(), "postpone".into()),
        Status::Suggested => object.insert("post_type".into(), "suggest".into()),
        Status::Published => None,
    };
    state.put_post(owner_id, Post { id, date, status, object: object.into() });
    announce(core, state, owner_id, id);
}

/// Shows a new post and sends its event.
pub(super) fn announce(core: &SharedCore, state: &mut State, owner_id: i64, id: i64) {
    posts::show(core, state, owner_id, id);
    let Some(post) = state.walls.get(&owner_id).and_then(|wall| wall.posts.get(&id)) else { return };
    if owner_id < 0 {
        let kind = match post.status {
            Status::Postponed => "wall_schedule_post_new",
            _ if !post.object.field("copy_history").is_null() => "wall_repost",
            _ => "wall_post_new",
        };
        let object = match post.status {
            Status::Postponed => json!({ "id": id, "schedule_time": post.date }),
            _ => Value::Object(post.object.open()),
        };
        events::emit(core, state, -owner_id, kind, object);
    }
}

fn target_wall(ctx: &Ctx<'_>) -> Result<i64, ApiError> {
    match ctx.args.integer("owner_id")?.unwrap_or_else(|| default_owner(ctx.caller)) {
        0 => Err(ApiError::parameter("owner_id is undefined")),
        owner_id => Ok(owner_id),
    }
}

/// May the caller write here?
fn writable(ctx: &Ctx<'_>, owner_id: i64) -> Result<(), ApiError> {
    if ctx.caller.kind == Kind::Community && (owner_id > 0 || !ctx.caller.manages(-owner_id)) {
        return Err(ApiError::plain(214));
    }
    if owner_id > 0 {
        let own = ctx.caller.user == owner_id;
        let access = ctx.state.people.get(&owner_id).map(|person| person.access).unwrap_or_default();
        return match access {
            Access::Deleted | Access::Blocked => Err(ApiError::plain(18)),
            _ if own => Ok(()),
            Access::Open => Ok(()),
            _ => Err(ApiError::new(214, "access to the wall is closed")),
        };
    }
    let access = ctx.state.groups.get(&-owner_id).map(|group| group.access).unwrap_or_default();
    match access {
        Access::Blocked | Access::Deleted => Err(ApiError::new(15, "group is blocked")),
        Access::Disabled | Access::Closed => Err(ApiError::new(214, "access to the wall is closed")),
        _ if ctx.args.flag("from_group") && !ctx.caller.manages(-owner_id) => {
            Err(ApiError::new(214, "you should be admin of the group"))
        }
        Access::Members | Access::Private if !ctx.caller.manages(-owner_id) => Err(ApiError::plain(214)),
        _ => Ok(()),
    }
}

/// Reads message, attachments and flags of a new or changed post.
fn drafted(ctx: &Ctx<'_>, owner_id: i64) -> Result<Draft, ApiError> {
    let text = ctx.args.text("message").unwrap_or_default().trim_end().to_owned();
    if text.chars().count() > TEXT_CHARS_MAX {
        return Err(ApiError::parameter("message is too long"));
    }
    let asked = ctx.args.list("attachments");
    let attachments = attachments::resolve(ctx.core, ctx.state, &asked, Place::Wall)?;
    if text.is_empty() && attachments.is_empty() {
        return Err(ApiError::parameter("message is empty or invalid: message or attachments are required"));
    }
    let as_group = ctx.caller.kind == Kind::Community || ctx.args.flag("from_group");
    let from_id = if owner_id < 0 && as_group { owner_id } else { default_owner(ctx.caller) };
    Ok(Draft { owner_id, from_id, text, attachments, extra: extra(ctx, owner_id, from_id)? })
}

fn extra(ctx: &Ctx<'_>, owner_id: i64, from_id: i64) -> Result<Map<String, Value>, ApiError> {
    let mut extra = Map::new();
    if owner_id < 0 && from_id == owner_id && ctx.caller.user != 0 {
        extra.insert("created_by".into(), ctx.caller.user.into());
        if ctx.args.flag("signed") {
            extra.insert("signer_id".into(), ctx.caller.user.into());
        }
    }
    if ctx.args.flag("mark_as_ads") {
        extra.insert("marked_as_ads".into(), 1.into());
    }
    if ctx.args.flag("close_comments") {
        extra.insert("comments".into(), json!({ "can_post": 0, "can_close": 0, "can_open": 1, "count": 0 }));
    }
    if let Some(link) = ctx.args.text("copyright") {
        let name = link.split('/').nth(2).unwrap_or(link);
        extra.insert("copyright".into(), json!({ "link": link, "name": name, "type": "external" }));
    }
    if let (Some(lat), Some(long)) = (ctx.args.text("lat"), ctx.args.text("long")) {
        let geo = json!({ "type": "point", "coordinates": format!("{lat} {long}") });
        extra.insert("geo".into(), geo);
    }
    if let Some(mode) = ctx.args.text("primary_attachments_mode") {
        if !matches!(mode, "grid" | "carousel") {
            return Err(ApiError::parameter("primary_attachments_mode is invalid"));
        }
        if mode == "carousel" {
            extra.insert("carousel_offset".into(), 0.into());
        }
    }
    Ok(extra)
}

/// When the post is to appear, if later.
fn publish_date(ctx: &mut Ctx<'_>, owner_id: i64) -> Result<Option<i64>, ApiError> {
    let Some(date) = ctx.args.integer("publish_date")? else { return Ok(None) };
    if date > 100_000_000_000 {
        return Err(ApiError::parameter("publish_date is invalid"));
    }
    if date <= ctx.now_s() {
        return Err(ApiError::new(214, "cannot postpone post to the past"));
    }
    let mut waiting = ctx.state.wall(owner_id).posts.values().filter(|post| post.status == Status::Postponed);
    if waiting.any(|post| post.date == date) {
        return Err(ApiError::new(214, "a post is already scheduled for this time"));
    }
    Ok(Some(date))
}

/// Looks again when the time has come; with a hand clock the next call does it.
fn schedule(ctx: &Ctx<'_>, date: i64) {
    let wait_ms = u64::try_from(date * 1000 - ctx.now_ms).unwrap_or(0);
    let (core, shared) = (SharedCore::clone(ctx.core), std::sync::Arc::clone(ctx.shared));
    ctx.core.tasks.spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(wait_ms)).await;
        let now_s = core.clock.now_s();
        publish_due(&core, &mut locked(&shared), now_s);
    });
}

/// Publishes every postponed post whose time has come, under a new id.
pub(super) fn publish_due(core: &SharedCore, state: &mut State, now_s: i64) {
    while let Some((date, owner_id, id)) =
        state.scheduled.first().copied().filter(|(date, _, _)| *date <= now_s)
    {
        state.scheduled.pop_first();
        let wall = state.wall(owner_id);
        let waiting =
            wall.posts.get(&id).is_some_and(|post| post.status == Status::Postponed && post.date == date);
        if waiting && let Some(post) = wall.take_post(id) {
            appear(core, state, owner_id, post, date);
        }
    }
}

/// A waiting post appears: new id, new date, and the old id as `postponed_id`.
fn appear(core: &SharedCore, state: &mut State, owner_id: i64, mut post: Post, date: i64) -> i64 {
    let new_id = state.wall(owner_id).next_id();
    let postponed_id = (post.status == Status::Postponed).then_some(post.id);
    post.object.change(|object| {
        if let Some(id) = postponed_id {
            object.insert("postponed_id".into(), id.into());
        }
        object.insert("id".into(), new_id.into());
        object.insert("date".into(), date.into());
        object.insert("post_type".into(), "post".into());
    });
    state.put_post(owner_id, Post { id: new_id, date, status: Status::Published, object: post.object });
    announce(core, state, owner_id, new_id);
    new_id
}

/// `wall.post` with `post_id`: a suggested or postponed post is published now.
fn publish_waiting(ctx: &mut Ctx<'_>, owner_id: i64, id: i64) -> Result<Done, ApiError> {
    if owner_id < 0 {
        ctx.caller.require_manager(-owner_id)?;
    }
    let wall = ctx.state.wall(owner_id);
    if wall.posts.get(&id).is_none_or(|post| post.status == Status::Published) {
        return Err(ApiError::plain(104));
    }
    let Some(post) = wall.take_post(id) else { return Err(ApiError::plain(104)) };
    let now_s = ctx.now_s();
    let id = appear(ctx.core, ctx.state, owner_id, post, now_s);
    Ok(Done::visible(json!({ "post_id": id }), id, Vec::new()))
}

pub(super) fn edit(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = wall::owner(ctx)?;
    let id = ctx.args.required_integer("post_id")?;
    let old = changeable(ctx, owner_id, id)?;
    let draft = drafted(ctx, owner_id)?;
    let media = attachments::listed(ctx.core, &draft.attachments);
    let now_s = ctx.now_s();
    let moved = if old.status == Status::Postponed { publish_date(ctx, owner_id)? } else { None };
    let mut post = old;
    let visible = post.status == Status::Published;
    post.object.change(|object| {
        object.insert("text".into(), draft.text.into());
        object.insert("attachments".into(), draft.attachments.into());
        object.extend(draft.extra);
        if visible {
            object.insert("edited".into(), now_s.into());
        }
        if let Some(date) = moved {
            object.insert("date".into(), date.into());
        }
    });
    if let Some(date) = moved {
        post.date = date;
        schedule(ctx, date);
    }
    ctx.state.put_post(owner_id, post);
    posts::show(ctx.core, ctx.state, owner_id, id);
    let mut done = Done::new(json!({ "post_id": id }));
    done.effect.visible_id = if visible { id.into() } else { Value::Null };
    done.effect.media = media;
    Ok(done)
}

/// The post, if the caller may change it.
fn changeable(ctx: &Ctx<'_>, owner_id: i64, id: i64) -> Result<Post, ApiError> {
    let wall = ctx.state.walls.get(&owner_id);
    let post = wall.and_then(|wall| wall.posts.get(&id)).ok_or_else(|| ApiError::plain(104))?;
    let author = post.object.field("from_id").as_i64() == Some(ctx.caller.user);
    let manager = if owner_id < 0 { ctx.caller.manages(-owner_id) } else { ctx.caller.user == owner_id };
    if author || manager || ctx.caller.kind == Kind::Full {
        return Ok(post.clone());
    }
    Err(ApiError::plain(210))
}

pub(super) fn delete(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = wall::owner(ctx)?;
    let id = ctx.args.required_integer("post_id")?;
    changeable(ctx, owner_id, id)?;
    remove(ctx.core, ctx.state, owner_id, id);
    Ok(Done::visible(1, id, Vec::new()))
}

/// Takes a post and its comments off the wall.
pub(super) fn remove(core: &SharedCore, state: &mut State, owner_id: i64, id: i64) {
    let wall = state.wall(owner_id);
    let comments: Vec<i64> = wall.comments_of(id).map(|comment| comment.id).collect();
    let Some(post) = wall.take_post(id) else { return };
    let scheduled = post.status == Status::Postponed;
    wall.deleted.insert(id, post);
    posts::hide(core, owner_id, id);
    for comment in comments {
        posts::hide(core, owner_id, comment);
    }
    if scheduled && owner_id < 0 {
        events::emit(core, state, -owner_id, "wall_schedule_post_delete", json!({ "id": id }));
    }
}

pub(super) fn restore(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = wall::owner(ctx)?;
    let id = ctx.args.required_integer("post_id")?;
    if owner_id < 0 {
        ctx.caller.require_manager(-owner_id)?;
    }
    let post = ctx.state.wall(owner_id).deleted.remove(&id).ok_or_else(|| ApiError::plain(104))?;
    ctx.state.put_post(owner_id, post);
    posts::show(ctx.core, ctx.state, owner_id, id);
    Ok(Done::visible(1, id, Vec::new()))
}

pub(super) fn pin(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let (owner_id, id) = pinnable(ctx)?;
    let before = ctx.state.wall(owner_id).pinned.replace(id);
    for id in before.into_iter().chain([id]) {
        posts::show(ctx.core, ctx.state, owner_id, id);
    }
    Ok(Done::visible(1, id, Vec::new()))
}

pub(super) fn unpin(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let (owner_id, id) = pinnable(ctx)?;
    let wall = ctx.state.wall(owner_id);
    if wall.pinned == Some(id) {
        wall.pinned = None;
    }
    posts::show(ctx.core, ctx.state, owner_id, id);
    Ok(Done::visible(1, id, Vec::new()))
}

fn pinnable(ctx: &Ctx<'_>) -> Result<(i64, i64), ApiError> {
    let owner_id = wall::owner(ctx)?;
    let id = ctx.args.required_integer("post_id")?;
    let post = changeable(ctx, owner_id, id)?;
    if post.status != Status::Published {
        return Err(ApiError::parameter("post_id is invalid"));
    }
    Ok((owner_id, id))
}

pub(super) fn repost(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let object = ctx.args.required_text("object")?;
    let name = attachments::parse(object).filter(|name| name.kind == "wall");
    let name = name.ok_or_else(|| ApiError::parameter("object is invalid"))?;
    wall::readable(ctx, name.owner_id)?;
    let source = ctx.state.walls.get(&name.owner_id).and_then(|wall| wall.posts.get(&name.id));
    let source = source.ok_or_else(|| ApiError::plain(104))?.object.open();
    let owner_id = match ctx.args.integer("group_id")? {
        Some(group) => {
            ctx.caller.require_manager(group.abs())?;
            -group.abs()
        }
        None => default_owner(ctx.caller),
    };
    writable(ctx, owner_id)?;
    let text = ctx.args.text("message").unwrap_or_default().to_owned();
    let mut extra = Map::new();
    extra.insert("copy_history".into(), json!([copy(&source)]));
    let from_id = if owner_id < 0 { owner_id } else { ctx.caller.user };
    let draft = Draft { owner_id, from_id, text, attachments: Vec::new(), extra };
    let id = ctx.state.wall(owner_id).next_id();
    let now_s = ctx.now_s();
    put(ctx.core, ctx.state, id, now_s, Status::Published, draft);
    let reposts_count = count_repost(ctx, name.owner_id, name.id);
    let answer = json!({ "success": 1, "post_id": id, "reposts_count": reposts_count,
        "wall_repost_count": reposts_count, "mail_repost_count": 0, "likes_count": 0 });
    Ok(Done::visible(answer, id, Vec::new()))
}

fn copy(source: &Map<String, Value>) -> Value {
    let kept = [
        "id",
        "owner_id",
        "from_id",
        "date",
        "text",
        "attachments",
        "post_source",
        "post_type",
        "inner_type",
    ];
    let fields = source.iter().filter(|(name, _)| kept.contains(&name.as_str()));
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn count_repost(ctx: &mut Ctx<'_>, owner_id: i64, id: i64) -> i64 {
    let Some(post) = ctx.state.wall(owner_id).posts.get_mut(&id) else { return 1 };
    let count = post.object.field("reposts")["count"].as_i64().unwrap_or(0) + 1;
    post.object.change(|object| {
        object.entry("reposts").or_insert_with(|| json!({}))["count"] = count.into();
    });
    count
}

pub(super) fn check_copyright(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let link = ctx.args.required_text("link")?;
    if link.starts_with("http://") || link.starts_with("https://") {
        return Ok(Done::new(1));
    }
    Err(ApiError::plain(3102))
}
