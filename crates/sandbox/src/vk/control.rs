//! What a test or a person does to VK from outside: registering chats and putting posts on walls.
//! Nothing changes unless the whole call is understood.

use serde_json::{Map, Value, json};

use crate::pictures::NAME_BYTES_MAX;
use crate::platform::chat_value;
use crate::registry::Chat;
use crate::reply::Refusal;
use crate::request::percent_decoded;

use super::args::number;
use super::dialogs::CHAT_PEER;
use super::photos::{Photo, Purpose, Source};
use super::posts::Draft;
use super::state::{ACCESS, Access, Person, Post, State, Status};
use super::{Vk, locked, people, posts, publish};

/// Fields of `POST /_/chats` beyond the common ones.
pub(super) const CHAT_FIELDS: &[&str] = &["access"];

/// Ids and dates beyond these are nobody's and never.
const ID_MAX: i64 = 1_000_000_000_000;
const DATE_MAX: i64 = 100_000_000_000;

/// Types of chat, and what VK makes of them.
const CHAT_TYPES: &[(&str, &str)] = &[
    ("wall", "wall"),
    ("group", "wall"),
    ("community", "wall"),
    ("page", "wall"),
    ("public", "wall"),
    ("channel", "wall"),
    ("private", "private"),
    ("user", "private"),
    ("dialog", "private"),
    ("chat", "chat"),
];

// -- chats

pub(super) fn complete_chat(vk: &Vk, mut chat: Chat) -> Result<Chat, Refusal> {
    let id = chat_number(vk, &chat.id)
        .ok_or_else(|| Refusal::bad(format!("a VK chat id is an owner or peer number, not {:?}", chat.id)))?;
    let by_number = match id {
        CHAT_PEER.. => "chat",
        0.. => "private",
        _ => "wall",
    };
    let asked = if chat.kind.is_empty() { by_number } else { chat.kind.as_str() };
    let known = CHAT_TYPES.iter().find(|(name, _)| *name == asked);
    let (_, kind) = known.ok_or_else(|| {
        Refusal::bad(format!("unknown type {asked:?} of VK chat"))
            .knowing(CHAT_TYPES.iter().map(|(name, _)| *name))
    })?;
    let id = if *kind == "wall" && asked != "wall" { -id.abs() } else { id };
    let access = access(&chat)?;
    chat.kind = (*kind).to_owned();
    chat.id = if chat.kind == "wall" { posts::wall_key(id) } else { id.to_string() };
    if id < CHAT_PEER {
        name_owner(&mut locked(&vk.state), id, &chat, access);
    }
    if chat.title.is_empty() {
        chat.title = match id {
            CHAT_PEER.. => format!("Беседа {}", id - CHAT_PEER),
            _ => people::owner_name(&locked(&vk.state), id),
        };
    }
    Ok(chat)
}

fn access(chat: &Chat) -> Result<Access, Refusal> {
    let Some(text) = chat.fields.get("access") else { return Ok(Access::Open) };
    ACCESS.iter().find(|(name, _)| text == name).map(|(_, access)| *access).ok_or_else(|| {
        Refusal::bad(format!("unknown access {text}")).knowing(ACCESS.iter().map(|(name, _)| *name))
    })
}

fn name_owner(state: &mut State, id: i64, chat: &Chat, access: Access) {
    let screen_name = chat.username.to_lowercase();
    if !screen_name.is_empty() {
        state.names.insert(screen_name.clone(), id);
    }
    if id < 0 {
        let group = state.group(-id);
        group.access = access;
        if !chat.title.is_empty() {
            group.name.clone_from(&chat.title);
        }
        if !screen_name.is_empty() {
            group.screen_name = screen_name;
        }
    } else {
        let person = state.people.entry(id).or_default();
        *person = Person { name: chat.title.clone(), screen_name, access };
    }
}

/// The number behind `-5`, `"club5"`, `"@name"`.
pub(super) fn chat_number(vk: &Vk, text: &str) -> Option<i64> {
    match number(text) {
        Some(0) => None,
        Some(id) => Some(id),
        None => {
            let digits = |prefix: &str| text.strip_prefix(prefix).and_then(number);
            let by_form = digits("club").or_else(|| digits("public")).map(|id| -id).or_else(|| digits("id"));
            by_form.or_else(|| people::resolve(&locked(&vk.state), text))
        }
    }
}

pub(super) fn canonical_chat(vk: &Vk, chat: &Value) -> Value {
    match chat {
        Value::String(text) => chat_number(vk, text).map_or_else(|| chat_value(text), Value::from),
        other => other.clone(),
    }
}

// -- walls

pub(super) fn walls(
    vk: &Vk,
    method: &str,
    owner: &str,
    post: Option<&str>,
    body: Value,
) -> Result<Value, Refusal> {
    let owner = percent_decoded(owner);
    let owner_id = chat_number(vk, &owner)
        .ok_or_else(|| Refusal::bad(format!("a wall belongs to an owner id such as -123, not {owner:?}")))?;
    let post_id = post.map(|post| {
        post.parse::<i64>().map_err(|_| Refusal::bad(format!("a post id is a number, not {post:?}")))
    });
    match (method, post_id.transpose()?) {
        ("POST", None) => put_posts(vk, owner_id, body),
        ("PATCH", Some(id)) => patch_post(vk, owner_id, id, body),
        ("DELETE", Some(id)) => delete_post(vk, owner_id, id),
        _ => Err(Refusal::bad("walls know POST, PATCH and DELETE")),
    }
}

fn put_posts(vk: &Vk, owner_id: i64, body: Value) -> Result<Value, Refusal> {
    let list = match body {
        Value::Array(list) => list,
        Value::Object(mut map) if map.get("items").is_some_and(Value::is_array) => {
            match map.remove("items") {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            }
        }
        object @ Value::Object(_) => vec![object],
        _ => return Err(Refusal::bad("the body must be a JSON array of VK post objects")),
    };
    let mut state = locked(&vk.state);
    let mut read = Vec::new();
    for (index, post) in list.into_iter().enumerate() {
        let Value::Object(post) = post else {
            return Err(Refusal::bad(format!("post {index} is not a JSON object")));
        };
        let post = checked(owner_id, post).map_err(|refusal| at(index, refusal))?;
        read.push(post);
    }
    if owner_id < 0 {
        state.group(-owner_id);
    } else {
        people::meet(&mut state, owner_id);
    }
    let ids: Vec<i64> = read.into_iter().map(|post| put_post(vk, &mut state, owner_id, post)).collect();
    Ok(json!({ "owner_id": owner_id, "post_ids": ids }))
}

fn at(index: usize, refusal: Refusal) -> Refusal {
    Refusal { message: format!("post {index}: {}", refusal.message), ..refusal }
}

/// Checks what the sandbox has to understand of a post; the rest is kept as it is.
pub(super) fn checked(owner_id: i64, mut post: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    if let Some(id) = post.remove("post_id") {
        post.entry("id").or_insert(id);
    }
    check(&post, "id", "a positive number", |id| id.as_i64().is_some_and(|id| (1..=ID_MAX).contains(&id)))?;
    check(&post, "owner_id", "the owner of this wall", |id| id.as_i64() == Some(owner_id))?;
    check(&post, "from_id", "a number", |id| {
        id.as_i64().is_some_and(|id| id.unsigned_abs() <= ID_MAX.unsigned_abs())
    })?;
    check(&post, "date", "unix seconds", |date| {
        date.as_i64().is_some_and(|date| (0..=DATE_MAX).contains(&date))
    })?;
    check(&post, "edited", "unix seconds", Value::is_i64)?;
    check(&post, "text", "a string", Value::is_string)?;
    check(&post, "is_pinned", "0 or 1", |pinned| matches!(pinned.as_i64(), Some(0 | 1)))?;
    check_media(&post)?;
    check(&post, "copy_history", "an array of posts", |list| {
        list.as_array().is_some_and(|list| list.iter().all(Value::is_object))
    })?;
    if let Some(Value::Array(copies)) = post.get_mut("copy_history") {
        for copy in copies {
            let Value::Object(copy) = copy else { continue };
            if let Some(id) = copy.remove("post_id") {
                copy.entry("id").or_insert(id);
            }
            check(copy, "text", "a string", Value::is_string)?;
            check_media(copy)?;
        }
    }
    Ok(post)
}

pub(super) fn check_media(post: &Map<String, Value>) -> Result<(), Refusal> {
    check(post, "photos", "an array of picture names and addresses", |list| {
        list.as_array().is_some_and(|list| list.iter().all(|photo| photo_source_text(photo).is_some()))
    })?;
    check(post, "attachments", "an array of {\"type\": …}", |list| {
        list.as_array().is_some_and(|list| list.iter().all(|attachment| attachment["type"].is_string()))
    })
}

pub(super) fn check(
    post: &Map<String, Value>,
    field: &str,
    wanted: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<(), Refusal> {
    match post.get(field) {
        Some(value) if !value.is_null() && !fits(value) => {
            Err(Refusal::bad(format!("field {field:?} must be {wanted}, not {value}")))
        }
        _ => Ok(()),
    }
}

/// `"rex"`, `"https://…"`, `{"url": …}` or `{"name": …}`.
fn photo_source_text(photo: &Value) -> Option<&str> {
    let text = photo.as_str().or_else(|| photo["url"].as_str()).or_else(|| photo["name"].as_str())?;
    (!text.is_empty() && text.len() <= NAME_BYTES_MAX.max(4096)).then_some(text)
}

fn source(vk: &Vk, text: &str) -> Source {
    let own = text.strip_prefix(&vk.core.origin).unwrap_or(text);
    if let Some(file) = own.strip_prefix("/_/pictures/") {
        return Source::Sample(percent_decoded(file.trim_end_matches(".jpg")).into_owned());
    }
    if let Some(sha256) = own.strip_prefix("/_/media/") {
        return Source::Stored(sha256.to_owned());
    }
    if is_loopback(text) {
        return Source::Remote(text.to_owned());
    }
    let name = text.trim_end_matches(".jpg");
    if text.contains("://") || name.len() > NAME_BYTES_MAX {
        // The sandbox never goes to the internet: a far address stands for a picture of its own.
        return Source::Sample(crate::media::sha256_hex(text.as_bytes()));
    }
    Source::Sample(name.to_owned())
}

/// An address on this machine, which may be fetched.
fn is_loopback(text: &str) -> bool {
    let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.is_some_and(|url| match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    })
}

/// Makes a photo of a name or an address and gives its attachment back.
fn photo_attachment(vk: &Vk, state: &mut State, owner_id: i64, date: i64, text: &str) -> Value {
    let source = source(vk, text);
    let id = 457_239_000 + state.next_number();
    let mut access_key = crate::media::sha256_hex(format!("photo {} {id}", vk.core.seed).as_bytes());
    access_key.truncate(18);
    let photo = Photo {
        id,
        owner_id,
        user_id: 100,
        date,
        text: String::new(),
        access_key,
        size: source.size(&vk.core).unwrap_or((807, 605)),
        source,
        purpose: Purpose::Wall,
    };
    let attachment = json!({ "type": "photo", "photo": photo.object(&vk.core) });
    state.files.add_photo(photo);
    attachment
}

/// Turns `photos` and photo attachments without sizes into whole photos.
pub(super) fn whole_media(
    vk: &Vk,
    state: &mut State,
    owner_id: i64,
    date: i64,
    post: &mut Map<String, Value>,
) {
    let mut found = Vec::new();
    if let Some(Value::Array(attachments)) = post.remove("attachments") {
        for mut attachment in attachments {
            let photo = &attachment["photo"];
            if attachment["type"] == "photo" && photo["sizes"].is_null() {
                let text = photo_source_text(photo).unwrap_or("photo").to_owned();
                attachment = photo_attachment(vk, state, owner_id, date, &text);
            }
            found.push(attachment);
        }
    }
    if let Some(Value::Array(photos)) = post.remove("photos") {
        for text in photos.iter().filter_map(photo_source_text) {
            found.push(photo_attachment(vk, state, owner_id, date, text));
        }
    }
    post.insert("attachments".into(), found.into());
}

pub(super) fn put_post(vk: &Vk, state: &mut State, owner_id: i64, mut post: Map<String, Value>) -> i64 {
    let id = post.get("id").and_then(Value::as_i64).unwrap_or_else(|| state.wall(owner_id).next_id());
    let date = post.get("date").and_then(Value::as_i64).unwrap_or_else(|| vk.core.clock.now_s());
    whole_media(vk, state, owner_id, date, &mut post);
    if let Some(Value::Array(copies)) = post.get_mut("copy_history") {
        for copy in copies {
            let Value::Object(copy) = copy else { continue };
            let source_id = copy.get("owner_id").and_then(Value::as_i64).unwrap_or(owner_id);
            copy.entry("from_id").or_insert(source_id.into());
            copy.entry("post_type").or_insert("post".into());
            whole_media(vk, state, source_id, date, copy);
        }
    }
    let pinned = post.remove("is_pinned").and_then(|pinned| pinned.as_i64()) == Some(1);
    let status = match post.get("post_type").and_then(Value::as_str) {
        Some("suggest") => Status::Suggested,
        Some("postpone") => Status::Postponed,
        _ => Status::Published,
    };
    let draft = Draft {
        owner_id,
        from_id: owner_id,
        text: String::new(),
        attachments: Vec::new(),
        extra: Map::new(),
    };
    let mut object = posts::object(&vk.core, id, date, draft);
    object.insert("post_source".into(), json!({ "type": "vk" }));
    object.extend(post);
    object.insert("id".into(), id.into());
    let known = state.walls.get(&owner_id).is_some_and(|wall| wall.posts.contains_key(&id));
    state.put_post(owner_id, Post { id, date, status, object: object.into() });
    if pinned {
        state.wall(owner_id).pinned = Some(id);
    }
    if known {
        posts::show(&vk.core, state, owner_id, id);
    } else {
        publish::announce(&vk.core, state, owner_id, id);
    }
    id
}

fn patch_post(vk: &Vk, owner_id: i64, id: i64, body: Value) -> Result<Value, Refusal> {
    let Value::Object(change) = body else {
        return Err(Refusal::bad("the body must be a JSON object with the fields to change"));
    };
    let mut change = checked(owner_id, change)?;
    if change.get("id").is_some_and(|given| given.as_i64() != Some(id)) {
        return Err(Refusal::bad("the id of a post cannot be changed"));
    }
    let mut state = locked(&vk.state);
    let old = state.walls.get(&owner_id).and_then(|wall| wall.posts.get(&id)).cloned();
    let mut post = old.ok_or_else(|| no_post(owner_id, id))?;
    let was_pinned = state.wall(owner_id).pinned;
    let pinned = change.remove("is_pinned").and_then(|pinned| pinned.as_i64());
    if change.contains_key("photos") || change.contains_key("attachments") {
        whole_media(vk, &mut state, owner_id, post.date, &mut change);
    }
    if let Some(date) = change.get("date").and_then(Value::as_i64) {
        post.date = date;
    }
    if !change.is_empty() {
        change.entry("edited").or_insert_with(|| vk.core.clock.now_s().into());
    }
    post.object.change(|object| object.extend(change));
    state.put_post(owner_id, post);
    let wall = state.wall(owner_id);
    wall.pinned = match pinned {
        Some(1) => Some(id),
        Some(_) => was_pinned.filter(|pinned| *pinned != id),
        None => was_pinned,
    };
    posts::show(&vk.core, &state, owner_id, id);
    let wall = state.walls.get(&owner_id);
    let post = wall.and_then(|wall| wall.posts.get(&id).map(|post| posts::served(wall, post)));
    post.ok_or_else(|| no_post(owner_id, id))
}

fn delete_post(vk: &Vk, owner_id: i64, id: i64) -> Result<Value, Refusal> {
    let mut state = locked(&vk.state);
    if state.walls.get(&owner_id).is_none_or(|wall| !wall.posts.contains_key(&id)) {
        return Err(no_post(owner_id, id));
    }
    publish::remove(&vk.core, &mut state, owner_id, id);
    Ok(json!({ "ok": true }))
}

fn no_post(owner_id: i64, id: i64) -> Refusal {
    Refusal::not_found(format!("there is no post {id} on wall {owner_id}"))
}
