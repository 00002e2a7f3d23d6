//! Reading walls: `wall.get`, `wall.getById`, `wall.search`, and likes.
//! The pinned post comes first, then the newest; everything else is counted by offset.

use serde_json::{Value, json};

use super::args::{Version, number};
use super::call::default_owner;
use super::errors::ApiError;
use super::state::{Access, Status, Wall};
use super::{Ctx, Done, people, posts};

pub(super) fn get(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = owner(ctx)?;
    readable(ctx, owner_id)?;
    let offset = ctx.args.bounded("offset", 0, 0, i64::MAX)? as usize;
    let count = ctx.args.bounded("count", 20, 0, 100)? as usize;
    let filter = ctx.args.text("filter").unwrap_or("all");
    if filter == "all"
        && let Some(wall) = ctx.state.walls.get(&owner_id)
    {
        // The common case must not walk a long wall.
        let page: Vec<i64> = published(wall).skip(offset).take(count).collect();
        let total = wall.order.len();
        let items = items(ctx, page.into_iter().map(|id| (owner_id, id)));
        return answer(ctx, Some(total), items);
    }
    let ids = listed(ctx, owner_id, filter)?;
    let page = ids.iter().skip(offset).take(count).copied();
    let items = items(ctx, page.map(|id| (owner_id, id)));
    answer(ctx, Some(ids.len()), items)
}

/// The ids a filter lets through, in the order of the wall.
fn listed(ctx: &Ctx<'_>, owner_id: i64, filter: &str) -> Result<Vec<i64>, ApiError> {
    let empty = Wall::default();
    let wall = ctx.state.walls.get(&owner_id).unwrap_or(&empty);
    let waiting = |status: Status| {
        let found = wall.posts.values().filter(|post| post.status == status);
        let mut found: Vec<(i64, i64)> = found.map(|post| (post.date, post.id)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    let by_owner = |id: &i64| {
        wall.posts.get(id).and_then(|post| post.object.field("from_id").as_i64()) == Some(owner_id)
    };
    match filter {
        "all" | "archived" => Ok(published(wall).collect()),
        "owner" => Ok(published(wall).filter(by_owner).collect()),
        "others" => Ok(published(wall).filter(|id| !by_owner(id)).collect()),
        "postponed" | "suggests" => {
            if owner_id < 0 {
                ctx.caller.require_manager(-owner_id)?;
            }
            Ok(waiting(if filter == "postponed" { Status::Postponed } else { Status::Suggested }))
        }
        "donut" => Ok(Vec::new()),
        _ => Err(ApiError::parameter("filter is invalid")),
    }
}

/// Published posts: the pinned one, then by date from the newest.
pub(super) fn published(wall: &Wall) -> impl Iterator<Item = i64> {
    let rest = wall.order.iter().rev().map(|(_, id)| *id).filter(|id| wall.pinned != Some(*id));
    wall.pinned.into_iter().chain(rest)
}

pub(super) fn get_by_id(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    ctx.args.required_text("posts")?;
    let asked = ctx.args.list("posts");
    if asked.len() > 100 {
        return Err(ApiError::parameter("posts should contain at most 100 ids"));
    }
    let mut wanted = Vec::new();
    for name in asked {
        let mut parts = name.split('_');
        let pair = parts.next().and_then(number).zip(parts.next().and_then(number));
        let (owner_id, id) = pair.ok_or_else(|| ApiError::parameter("posts is invalid"))?;
        if readable(ctx, owner_id).is_ok() {
            wanted.push((owner_id, id));
        }
    }
    let items = items(ctx, wanted);
    if ctx.version < Version::OBJECTS && !ctx.args.flag("extended") {
        return Ok(Done::new(items));
    }
    answer(ctx, None, items)
}

pub(super) fn search(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let owner_id = owner(ctx)?;
    readable(ctx, owner_id)?;
    let query = ctx.args.text("query").unwrap_or_default().to_lowercase();
    let offset = ctx.args.bounded("offset", 0, 0, i64::MAX)? as usize;
    let count = ctx.args.bounded("count", 20, 0, 100)? as usize;
    let mut ids = listed(ctx, owner_id, if ctx.args.flag("owners_only") { "owner" } else { "all" })?;
    let wall = ctx.state.wall(owner_id);
    ids.retain(|id| {
        let text = wall.posts.get(id).map(|post| post.object.field("text")).unwrap_or_default();
        text.as_str().is_some_and(|text| text.to_lowercase().contains(&query))
    });
    let items = items(ctx, ids.iter().skip(offset).take(count).map(|id| (owner_id, *id)));
    answer(ctx, Some(ids.len()), items)
}

fn items(ctx: &Ctx<'_>, wanted: impl IntoIterator<Item = (i64, i64)>) -> Vec<Value> {
    let found = wanted.into_iter().filter_map(|(owner_id, id)| {
        let wall = ctx.state.walls.get(&owner_id)?;
        Some(posts::served(wall, wall.posts.get(&id)?))
    });
    found.collect()
}

fn answer(ctx: &Ctx<'_>, count: Option<usize>, items: Vec<Value>) -> Result<Done, ApiError> {
    let mut response = json!({});
    if let Some(count) = count {
        response["count"] = count.into();
    }
    if ctx.args.flag("extended") {
        let ids = items.iter().flat_map(mentioned);
        let (profiles, groups) = people::extended(ctx, ids, &ctx.args.list("fields"));
        response["profiles"] = profiles;
        response["groups"] = groups;
    }
    response["items"] = items.into();
    Ok(Done::new(response))
}

/// Everybody an extended answer introduces.
fn mentioned(post: &Value) -> Vec<i64> {
    let mut ids: Vec<i64> = ["owner_id", "from_id", "signer_id", "created_by"]
        .iter()
        .filter_map(|key| post[*key].as_i64())
        .collect();
    for copy in post["copy_history"].as_array().into_iter().flatten() {
        ids.extend(["owner_id", "from_id"].iter().filter_map(|key| copy[*key].as_i64()));
    }
    ids
}

/// The wall a call is about: `owner_id`, `domain`, or the caller's own.
pub(super) fn owner(ctx: &Ctx<'_>) -> Result<i64, ApiError> {
    if let Some(owner_id) = ctx.args.integer("owner_id")?.filter(|id| *id != 0) {
        return Ok(owner_id);
    }
    if let Some(domain) = ctx.args.text("domain") {
        return people::resolve(ctx.state, domain)
            .ok_or_else(|| ApiError::parameter("owner_id is undefined"));
    }
    match default_owner(ctx.caller) {
        0 => Err(ApiError::parameter("owner_id is undefined")),
        owner_id => Ok(owner_id),
    }
}

/// May the caller look at this wall?
pub(super) fn readable(ctx: &Ctx<'_>, owner_id: i64) -> Result<(), ApiError> {
    if owner_id > 0 {
        return match ctx.state.people.get(&owner_id).map(|person| person.access) {
            Some(Access::Deleted | Access::Blocked) => Err(ApiError::plain(18)),
            Some(Access::Private) if ctx.caller.user != owner_id => Err(ApiError::plain(30)),
            _ => Ok(()),
        };
    }
    let access = ctx.state.groups.get(&-owner_id).map(|group| group.access).unwrap_or_default();
    let insider = ctx.caller.user != 0 && ctx.caller.account.fields.contains_key("groups");
    match access {
        Access::Blocked | Access::Deleted => Err(ApiError::new(15, "group is blocked")),
        Access::Disabled => Err(ApiError::new(15, "wall is disabled")),
        Access::Members | Access::Private if !(insider && ctx.caller.manages(-owner_id)) => {
            Err(ApiError::new(15, "this wall available only for community members"))
        }
        _ => Ok(()),
    }
}

// -- likes

pub(super) fn like(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    change_likes(ctx, 1)
}

pub(super) fn unlike(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    change_likes(ctx, 0)
}

fn change_likes(ctx: &mut Ctx<'_>, count: i64) -> Result<Done, ApiError> {
    let owner_id = owner(ctx)?;
    let id = ctx.args.required_integer("item_id")?;
    let post = ctx.state.wall(owner_id).posts.get_mut(&id).ok_or_else(|| ApiError::plain(104))?;
    post.object.change(|object| {
        let likes = object.entry("likes").or_insert_with(|| json!({}));
        likes["count"] = count.into();
        likes["user_likes"] = count.into();
    });
    Ok(Done::new(json!({ "likes": count })))
}
