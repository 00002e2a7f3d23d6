//! Who is who: people and communities, their names and screen names, and the small methods about them.
//! Whoever was not registered gets a made-up name that depends on nothing but the number.

use std::sync::Mutex;

use serde_json::{Map, Value, json};

use crate::core::SharedCore;
use crate::registry::Account;
use crate::reply::Refusal;

use super::args::number;
use super::dialogs::CHAT_PEER;
use super::errors::ApiError;
use super::state::{Access, State};
use super::tokens::Kind;
use super::{Ctx, Done, callback, locked, posts};

const FIRST: &[(&str, u8)] = &[
    ("Анна", 1),
    ("Борис", 2),
    ("Вера", 1),
    ("Глеб", 2),
    ("Дарья", 1),
    ("Егор", 2),
    ("Жанна", 1),
    ("Захар", 2),
    ("Инна", 1),
    ("Кирилл", 2),
    ("Лидия", 1),
    ("Максим", 2),
    ("Нина", 1),
];
const LAST: &[&str] = &["Рябин", "Лугов", "Звонарёв", "Ручьёв", "Полянин", "Ветров", "Снежков", "Озеров"];

/// First name, last name and sex of somebody who was never introduced.
fn invented(id: i64) -> (&'static str, String, u8) {
    let number = id.unsigned_abs() as usize;
    let (first, sex) = FIRST[number % FIRST.len()];
    let ending = if sex == 1 { "а" } else { "" };
    (first, format!("{}{ending}", LAST[number / FIRST.len() % LAST.len()]), sex)
}

/// The name readers see, for people and communities.
pub(super) fn owner_name(state: &State, id: i64) -> String {
    if id < 0 {
        return group_name(state, -id);
    }
    match state.people.get(&id).filter(|person| !person.name.is_empty()) {
        Some(person) => person.name.clone(),
        None => {
            let (first, last, _) = invented(id);
            format!("{first} {last}")
        }
    }
}

pub(super) fn group_name(state: &State, id: i64) -> String {
    match state.groups.get(&id).filter(|group| !group.name.is_empty()) {
        Some(group) => group.name.clone(),
        None => format!("Сообщество {id}"),
    }
}

pub(super) fn screen_name(state: &State, owner_id: i64) -> String {
    let own = match owner_id {
        id if id < 0 => state.groups.get(&-id).map(|group| &group.screen_name),
        id => state.people.get(&id).map(|person| &person.screen_name),
    };
    match own.filter(|name| !name.is_empty()) {
        Some(name) => name.clone(),
        None if owner_id < 0 => format!("club{}", -owner_id),
        None => format!("id{owner_id}"),
    }
}

/// Makes an account's person and community known, and its callback server, if it names one.
pub(super) fn introduce(
    core: &SharedCore,
    shared: &Mutex<State>,
    mut account: Account,
) -> Result<Account, Refusal> {
    let id: i64 = account.id.parse().unwrap_or_default();
    let mut state = locked(shared);
    let screen_name = account.username.to_lowercase();
    if matches!(account.kind.as_str(), "community" | "full") {
        let group = state.group(id);
        if !account.name.is_empty() {
            group.name.clone_from(&account.name);
        }
        if account.kind == "community" && !screen_name.is_empty() {
            group.screen_name.clone_from(&screen_name);
            state.names.insert(screen_name.clone(), -id);
        }
        posts::show_wall(core, &state, -id, account.kind == "community");
    }
    if account.kind == "user" {
        let person = state.people.entry(id).or_default();
        if !account.name.is_empty() {
            person.name.clone_from(&account.name);
        }
        if !screen_name.is_empty() {
            person.screen_name.clone_from(&screen_name);
            state.names.insert(screen_name, id);
        }
    }
    if account.name.is_empty() {
        account.name = owner_name(&state, if account.kind == "user" { id } else { -id });
    }
    if let Some(url) = account.fields.get("callback_url").and_then(Value::as_str) {
        let secret = account.fields.get("callback_secret").and_then(Value::as_str).unwrap_or_default();
        let code = account.fields.get("callback_code").and_then(Value::as_str);
        callback::register(core, &mut state, id, url, secret, code);
        let code = state.group(id).servers.code(core, id);
        account.fields.insert("callback_code".into(), code.into());
    }
    Ok(account)
}

/// May be written to: somebody who was registered or has written first. With `--any-token` that is everybody.
pub(super) fn is_acquainted(core: &SharedCore, state: &State, id: i64) -> bool {
    core.registry.any_token() || state.people.contains_key(&id)
}

/// The owner behind a screen name or an address: negative for communities.
/// Every number is somebody; a name has to be registered.
pub(super) fn resolve(state: &State, name: &str) -> Option<i64> {
    let name = name.trim().trim_start_matches("https://").trim_start_matches("http://");
    let name = name.trim_start_matches("vk.com/").trim_start_matches("vk.ru/").trim_start_matches('@');
    let name = name.to_lowercase();
    if let Some(owner) = state.names.get(&name) {
        return Some(*owner);
    }
    for (prefix, sign) in [("club", -1), ("public", -1), ("event", -1), ("id", 1)] {
        let Some(id) = name.strip_prefix(prefix).and_then(number) else {
            continue;
        };
        return (id > 0).then_some(id * sign);
    }
    None
}

/// A person as `users.get` shows one.
pub(super) fn user_object(state: &State, id: i64, fields: &[&str]) -> Value {
    let person = state.people.get(&id).cloned().unwrap_or_default();
    let (first, last, sex) = invented(id);
    let (first, last) = match person.name.split_once(' ') {
        Some((first, last)) => (first.to_owned(), last.to_owned()),
        None if !person.name.is_empty() => (person.name.clone(), String::new()),
        None => (first.to_owned(), last),
    };
    let closed = person.access == Access::Private;
    let mut object = Map::new();
    object.insert("id".into(), id.into());
    object.insert("first_name".into(), first.into());
    object.insert("last_name".into(), last.into());
    if person.access == Access::Deleted {
        object.insert("deactivated".into(), "deleted".into());
    } else {
        object.insert("can_access_closed".into(), (!closed).into());
        object.insert("is_closed".into(), closed.into());
    }
    for field in fields {
        let value = match *field {
            "screen_name" | "domain" => screen_name(state, id).into(),
            "sex" => sex.into(),
            "online" => 0.into(),
            "has_photo" => 0.into(),
            "photo_50" | "photo_100" | "photo_200" | "photo_max" => {
                "https://vk.com/images/camera_200.png".into()
            }
            "can_write_private_message" => i64::from(!closed).into(),
            "verified" => 0.into(),
            "status" => "".into(),
            _ => continue,
        };
        object.insert((*field).to_owned(), value);
    }
    Value::Object(object)
}

/// A community as `groups.getById` shows one.
pub(super) fn group_object(ctx: &Ctx<'_>, id: i64, fields: &[&str]) -> Value {
    let access = ctx.state.groups.get(&id).map(|group| group.access).unwrap_or_default();
    let mut object = json!({
        "id": id,
        "name": group_name(ctx.state, id),
        "screen_name": screen_name(ctx.state, -id),
        "is_closed": i64::from(access == Access::Members),
        "type": "group",
        "photo_50": "https://vk.com/images/community_50.png",
        "photo_100": "https://vk.com/images/community_100.png",
        "photo_200": "https://vk.com/images/community_200.png",
    });
    if access == Access::Blocked {
        object["deactivated"] = "banned".into();
    }
    if ctx.caller.user != 0 {
        let manages = i64::from(ctx.caller.manages(id));
        object["is_admin"] = manages.into();
        object["is_member"] = manages.into();
        object["is_advertiser"] = manages.into();
        if manages == 1 {
            object["admin_level"] = 3.into();
        }
    }
    for field in fields {
        let value: Value = match *field {
            "members_count" => 1.into(),
            "can_post" => i64::from(ctx.caller.manages(id)).into(),
            "wall" => i64::from(access != Access::Disabled).into(),
            "description" | "status" | "activity" | "site" => "".into(),
            "can_message" => 1.into(),
            "verified" => 0.into(),
            _ => continue,
        };
        object[*field] = value;
    }
    object
}

/// The `profiles` and `groups` of an extended answer.
pub(super) fn extended(ctx: &Ctx<'_>, ids: impl IntoIterator<Item = i64>, fields: &[&str]) -> (Value, Value) {
    let ids: std::collections::BTreeSet<i64> = ids.into_iter().filter(|id| *id != 0).collect();
    let profiles: Vec<Value> =
        ids.iter().filter(|id| **id > 0).map(|id| user_object(ctx.state, *id, fields)).collect();
    let groups: Vec<Value> =
        ids.iter().filter(|id| **id < 0).map(|id| group_object(ctx, -id, fields)).collect();
    (profiles.into(), groups.into())
}

// -- methods

pub(super) fn get(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let asked = ctx.args.list("user_ids");
    if asked.len() > 1000 {
        return Err(ApiError::parameter("user_ids should contain at most 1000 ids"));
    }
    let asked = if asked.is_empty() { ctx.args.list("user_id") } else { asked };
    let fields = ctx.args.list("fields");
    let found: Vec<Value> = if asked.is_empty() {
        let own = (ctx.caller.kind != Kind::Community && ctx.caller.user != 0).then_some(ctx.caller.user);
        own.map(|id| user_object(ctx.state, id, &fields)).into_iter().collect()
    } else {
        let ids = asked.iter().filter_map(|name| match number(name) {
            // Nearly every number is somebody.
            Some(id) => (1..CHAT_PEER).contains(&id).then_some(id),
            None => resolve(ctx.state, name).filter(|id| *id > 0),
        });
        ids.map(|id| user_object(ctx.state, id, &fields)).collect()
    };
    Ok(Done::new(found))
}

pub(super) fn profile(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let mut object = user_object(ctx.state, ctx.caller.user, &["screen_name", "sex", "status"]);
    object["home_town"] = "".into();
    Ok(Done::new(object))
}

pub(super) fn resolve_screen_name(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let name = ctx.args.required_text("screen_name")?;
    Ok(Done::new(match resolve(ctx.state, name) {
        Some(owner) if owner < 0 => json!({ "type": "group", "object_id": -owner, "group_id": -owner }),
        Some(owner) => json!({ "type": "user", "object_id": owner }),
        // An empty array, not an object: so it is.
        None => json!([]),
    }))
}

pub(super) fn server_time(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    Ok(Done::new(ctx.now_s()))
}

pub(super) fn short_link(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let url = ctx.args.required_text("url")?;
    let key = format!("{:06x}", ctx.core.number_of(url) & 0xff_ffff);
    Ok(Done::new(
        json!({ "short_url": format!("https://vk.cc/{key}"), "access_key": key, "key": key, "url": url }),
    ))
}

pub(super) fn check_link(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let url = ctx.args.required_text("url")?;
    Ok(Done::new(json!({ "status": "not_banned", "link": url })))
}

/// Methods that only say yes.
pub(super) fn one(_ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    Ok(Done::new(1))
}

/// Somebody spoke: from now on the person exists.
pub(super) fn meet(state: &mut State, id: i64) {
    if id > 0 {
        state.people.entry(id).or_default();
    }
}
