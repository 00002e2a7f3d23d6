//! Communities: who they are, and how they listen to events.

use serde_json::{Value, json};

use super::args::{Version, number};
use super::callback::{Facade, SERVERS_MAX, Server};
use super::errors::ApiError;
use super::events::{Settings, TYPES};
use super::tokens::{Kind, RIGHTS};
use super::{Ctx, Done, longpoll, people};

pub(super) fn by_id(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let mut asked = ctx.args.list("group_ids");
    if asked.is_empty() {
        asked = ctx.args.list("group_id");
    }
    if asked.len() > 500 {
        return Err(ApiError::parameter("group_ids should contain at most 500 ids"));
    }
    let fields = ctx.args.list("fields");
    let mut ids = Vec::new();
    if asked.is_empty() {
        if ctx.caller.group == 0 {
            return Err(ApiError::parameter("group_ids is undefined"));
        }
        ids.push(ctx.caller.group);
    }
    for name in asked {
        ids.push(named(ctx, name).ok_or_else(|| ApiError::parameter("group_ids is invalid"))?);
    }
    let found: Vec<Value> = ids.iter().map(|id| people::group_object(ctx, *id, &fields)).collect();
    if ctx.version < Version::OBJECTS {
        return Ok(Done::new(found));
    }
    Ok(Done::new(json!({ "groups": found, "profiles": [] })))
}

/// The community behind a number or a screen name.
fn named(ctx: &Ctx<'_>, name: &str) -> Option<i64> {
    let id = match number(name) {
        Some(id) => id.abs(),
        None => -people::resolve(ctx.state, name).filter(|owner| *owner < 0)?,
    };
    (id > 0).then_some(id)
}

/// The communities a person manages.
pub(super) fn own(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let mut ids: Vec<i64> = ctx.state.groups.keys().copied().filter(|id| ctx.caller.manages(*id)).collect();
    ids.sort_unstable();
    let count = ids.len();
    if ctx.args.flag("extended") {
        let fields = ctx.args.list("fields");
        let items: Vec<Value> = ids.iter().map(|id| people::group_object(ctx, *id, &fields)).collect();
        return Ok(Done::new(json!({ "count": count, "items": items })));
    }
    Ok(Done::new(json!({ "count": count, "items": ids })))
}

pub(super) fn is_member(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let name = ctx.args.required_text("group_id")?;
    let id = named(ctx, name).ok_or_else(|| ApiError::plain(125))?;
    let users = ctx.args.integers("user_ids")?;
    if !users.is_empty() {
        let list: Vec<Value> = users.iter().map(|user| json!({ "user_id": user, "member": 1 })).collect();
        return Ok(Done::new(list));
    }
    let user = ctx.args.integer("user_id")?.unwrap_or(ctx.caller.user);
    Ok(Done::new(i64::from(user != 0 && id != 0)))
}

pub(super) fn members(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let name = ctx.args.required_text("group_id")?;
    let id = named(ctx, name).ok_or_else(|| ApiError::plain(125))?;
    let offset = ctx.args.bounded("offset", 0, 0, i64::MAX)? as usize;
    let count = ctx.args.bounded("count", 1000, 0, 1000)? as usize;
    let mut people: Vec<i64> = ctx.state.people.keys().copied().collect();
    people.sort_unstable();
    let total = people.len();
    let page: Vec<i64> = people.into_iter().skip(offset).take(count).collect();
    let fields = ctx.args.list("fields");
    let items: Vec<Value> = match fields.is_empty() || id == 0 {
        true => page.into_iter().map(Value::from).collect(),
        false => page.into_iter().map(|user| people::user_object(ctx.state, user, &fields)).collect(),
    };
    Ok(Done::new(json!({ "count": total, "items": items })))
}

pub(super) fn online_status(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    managed(ctx)?;
    Ok(Done::new(json!({ "status": "online" })))
}

pub(super) fn token_permissions(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = RIGHTS.iter().filter(|(name, _)| *name != "groups" && ctx.caller.has_right(name));
    let list: Vec<Value> = own.clone().map(|(name, bit)| json!({ "name": name, "setting": bit })).collect();
    let mask = own.fold(0, |mask, (_, bit)| mask | bit);
    Ok(Done::new(json!({ "mask": mask, "permissions": list })))
}

/// The community that `group_id` names, which the caller must manage.
/// Tokens that may speak for several are known to listen to the one they named last.
fn managed(ctx: &mut Ctx<'_>) -> Result<i64, ApiError> {
    let given = ctx.args.integer("group_id")?.map(i64::abs).filter(|id| *id != 0);
    let id = given.or((ctx.caller.group != 0).then_some(ctx.caller.group));
    let id = id.ok_or_else(|| ApiError::parameter("group_id is undefined"))?;
    ctx.caller.require_manager(id)?;
    if matches!(ctx.caller.kind, Kind::Full | Kind::User) {
        ctx.state.bound.insert(ctx.caller.account.token.clone(), id);
    }
    Ok(id)
}

// -- long poll

pub(super) fn longpoll_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let group = ctx.state.group(id);
    if !group.settings.enabled {
        return Err(ApiError::parameter("longpoll for this group is not enabled"));
    }
    group.longpoll.open();
    let key = group.longpoll.key(ctx.core, id);
    let ts = group.longpoll.ts().to_string();
    Ok(Done::new(json!({ "key": key, "server": longpoll::server(ctx.core, id), "ts": ts })))
}

pub(super) fn longpoll_settings(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let settings = &ctx.state.group(id).settings;
    Ok(Done::new(json!({
        "is_enabled": settings.enabled,
        "api_version": settings.api_version,
        "events": settings.flags(),
    })))
}

pub(super) fn set_longpoll_settings(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let mut settings = ctx.state.group(id).settings.clone();
    change(ctx, &mut settings)?;
    if ctx.args.text("enabled").is_some() {
        settings.enabled = ctx.args.flag("enabled");
    }
    ctx.state.group(id).settings = settings;
    Ok(Done::new(1))
}

/// Takes over `api_version` and every event flag that is given.
fn change(ctx: &Ctx<'_>, settings: &mut Settings) -> Result<(), ApiError> {
    if let Some(version) = ctx.args.text("api_version") {
        Version::parse(version).ok_or_else(|| ApiError::parameter("api_version is invalid"))?;
        settings.api_version = version.to_owned();
    }
    for kind in TYPES {
        if ctx.args.text(kind).is_none() {
            continue;
        }
        if ctx.args.flag(kind) {
            settings.off.remove(*kind);
        } else {
            settings.off.insert((*kind).to_owned());
        }
    }
    Ok(())
}

// -- callback servers

pub(super) fn confirmation_code(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let code = ctx.state.group(id).servers.code(ctx.core, id);
    Ok(Done::new(json!({ "code": code })))
}

pub(super) fn add_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let facade = facade(ctx)?;
    ctx.state.group(id).servers.sweep();
    if ctx.state.group(id).servers.list.len() >= SERVERS_MAX {
        return Err(ApiError::plain(2000));
    }
    let server_id = ctx.state.group(id).servers.add(ctx.core, id, ctx.caller.user, facade);
    Ok(Done::new(json!({ "server_id": server_id })))
}

fn facade(ctx: &Ctx<'_>) -> Result<Facade, ApiError> {
    let url = ctx.args.required_text("url")?;
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return Err(ApiError::parameter("url is invalid"));
    }
    let title = ctx.args.required_text("title")?;
    if title.chars().count() > 14 {
        return Err(ApiError::parameter("title should be less or equal to 14 letters"));
    }
    let secret = ctx.args.text("secret_key").unwrap_or_default();
    if secret.chars().count() > 50 {
        return Err(ApiError::parameter("secret_key should be less or equal to 50 letters"));
    }
    Ok(Facade {
        title: title.to_owned(),
        url: url.to_owned(),
        secret: secret.to_owned(),
        status: "unconfigured",
        settings: Settings::default(),
    })
}

/// The server that `server_id` names.
fn server(ctx: &mut Ctx<'_>, group: i64) -> Result<std::sync::Arc<Server>, ApiError> {
    let server_id = ctx.args.required_integer("server_id")?;
    let found = ctx.state.group(group).servers.find(server_id).cloned();
    found.ok_or_else(|| ApiError::parameter("server_id is invalid"))
}

pub(super) fn edit_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let server = server(ctx, id)?;
    let facade = facade(ctx)?;
    let mut face = server.face();
    let settings = face.settings.clone();
    *face = Facade { settings, ..facade };
    drop(face);
    server.reconfirm();
    Ok(Done::new(1))
}

pub(super) fn delete_server(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let server = server(ctx, id)?;
    ctx.state.group(id).servers.remove(server.id);
    Ok(Done::new(1))
}

pub(super) fn servers(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let wanted = ctx.args.integers("server_ids")?;
    ctx.state.group(id).servers.sweep();
    let servers = ctx.state.group(id).servers.list.iter();
    let items: Vec<Value> = servers
        .filter(|server| wanted.is_empty() || wanted.contains(&server.id))
        .map(|server| {
            let face = server.face();
            json!({ "id": server.id, "title": face.title, "creator_id": server.creator_id, "url": face.url,
                "secret_key": face.secret, "status": face.status })
        })
        .collect();
    Ok(Done::new(json!({ "count": items.len(), "items": items })))
}

pub(super) fn callback_settings(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let server = server(ctx, id)?;
    let face = server.face();
    let settings = &face.settings;
    Ok(Done::new(json!({ "api_version": settings.api_version, "events": settings.flags() })))
}

pub(super) fn set_callback_settings(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let id = managed(ctx)?;
    let server = server(ctx, id)?;
    let mut settings = server.face().settings.clone();
    change(ctx, &mut settings)?;
    server.face().settings = settings;
    Ok(Done::new(1))
}
