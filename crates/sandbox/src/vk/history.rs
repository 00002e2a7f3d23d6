//! Reading dialogs: history, conversations, single messages, who takes part.

use serde_json::{Map, Value, json};

use super::dialogs::{self, CHAT_PEER, Dialog, Key};
use super::errors::ApiError;
use super::messages::{one_peer, speaker};
use super::{Ctx, Done, events, people};

pub(super) fn history(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let peer = one_peer(ctx)?.ok_or_else(|| ApiError::parameter("peer_id is undefined"))?;
    let offset = ctx.args.bounded("offset", 0, -200, i64::MAX)?.max(0) as usize;
    let count = ctx.args.bounded("count", 20, 0, 200)? as usize;
    let key = Key::new(own, peer);
    let empty = Dialog::default();
    let dialog = ctx.state.dialogs.by_key.get(&key).unwrap_or(&empty);
    let seen = |said| dialogs::object(own, key, said);
    let items: Vec<Value> = if ctx.args.flag("rev") {
        dialog.said.values().skip(offset).take(count).map(seen).collect()
    } else {
        dialog.said.values().rev().skip(offset).take(count).map(seen).collect()
    };
    let total = dialog.said.len();
    let mut response = json!({ "count": total });
    introduce(ctx, &mut response, &items);
    if ctx.args.flag("extended") {
        response["conversations"] = json!([conversation(ctx, own, key)]);
    }
    response["items"] = items.into();
    Ok(Done::new(response))
}

fn introduce(ctx: &Ctx<'_>, response: &mut Value, items: &[Value]) {
    if ctx.args.flag("extended") {
        let ids = items.iter().flat_map(|item| [item["from_id"].as_i64(), item["peer_id"].as_i64()]);
        let ids = ids.flatten().filter(|id| *id < CHAT_PEER);
        let (profiles, groups) = people::extended(ctx, ids, &ctx.args.list("fields"));
        response["profiles"] = profiles;
        response["groups"] = groups;
    }
}

fn conversation(ctx: &Ctx<'_>, own: i64, key: Key) -> Value {
    let empty = Dialog::default();
    let dialog = ctx.state.dialogs.by_key.get(&key).unwrap_or(&empty);
    let peer = key.peer_for(own);
    let (kind, local_id) = match peer {
        CHAT_PEER.. => ("chat", peer - CHAT_PEER),
        0.. => ("user", peer),
        _ => ("group", -peer),
    };
    let last = dialog.last();
    let id_of = |cmid: i64| dialog.said.range(..=cmid).next_back().map_or(0, |(_, said)| said.id);
    let read = |who: i64| dialog.read.get(&who).copied().unwrap_or(0);
    let mut object = json!({
        "peer": { "id": peer, "type": kind, "local_id": local_id },
        "sort_id": { "major_id": 0, "minor_id": last.map_or(0, |said| said.id) },
        "last_message_id": last.map_or(0, |said| said.id),
        "last_conversation_message_id": last.map_or(0, |said| said.cmid),
        "in_read": id_of(read(own)),
        "out_read": id_of(read(peer)),
        "in_read_cmid": read(own),
        "out_read_cmid": read(peer),
        "unread_count": dialog.unread(own),
        "is_marked_unread": false,
        "important": false,
        "unanswered": last.is_some_and(|said| said.from_id != own),
        "can_write": { "allowed": !dialog.denied },
        "version": 10_000_000 + last.map_or(0, |said| said.id),
    });
    if kind == "chat" {
        let rights = [
            "can_change_info",
            "can_change_invite_link",
            "can_change_pin",
            "can_invite",
            "can_promote_users",
            "can_see_invite_link",
            "can_moderate",
            "can_copy_chat",
            "can_call",
            "can_use_mass_mentions",
        ];
        let acl: Map<String, Value> =
            rights.iter().map(|right| ((*right).to_owned(), false.into())).collect();
        object["chat_settings"] = json!({ "title": format!("Беседа {local_id}"),
            "members_count": dialog.members.len(), "state": "in", "owner_id": dialog.members.first(),
            "active_ids": [], "acl": acl });
    }
    object
}

pub(super) fn conversations(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let offset = ctx.args.bounded("offset", 0, 0, i64::MAX)? as usize;
    let count = ctx.args.bounded("count", 20, 0, 200)? as usize;
    let filter = ctx.args.text("filter").unwrap_or("all");
    if !matches!(filter, "all" | "unread" | "important" | "unanswered" | "archive") {
        return Err(ApiError::parameter("filter is invalid"));
    }
    let mut found: Vec<(i64, Key)> = Vec::new();
    for (key, dialog) in &ctx.state.dialogs.by_key {
        let mine = match key {
            Key::Pair(a, b) => *a == own || *b == own,
            Key::Chat(_) => true,
        };
        let wanted = match filter {
            "unread" => dialog.unread(own) > 0,
            "unanswered" => dialog.last().is_some_and(|said| said.from_id != own),
            "all" => true,
            _ => false,
        };
        if let Some(last) = dialog.last().filter(|_| mine && wanted) {
            found.push((last.id, *key));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    let unread = ctx.state.dialogs.by_key.values().filter(|dialog| dialog.unread(own) > 0).count();
    let page: Vec<Value> =
        found.iter().skip(offset).take(count).map(|(_, key)| with_last(ctx, own, *key)).collect();
    let mut response = json!({ "count": found.len(), "unread_count": unread });
    let lasts: Vec<Value> = page.iter().map(|item| item["last_message"].clone()).collect();
    introduce(ctx, &mut response, &lasts);
    response["items"] = page.into();
    Ok(Done::new(response))
}

fn with_last(ctx: &Ctx<'_>, own: i64, key: Key) -> Value {
    let last = ctx.state.dialogs.by_key.get(&key).and_then(Dialog::last);
    json!({ "conversation": conversation(ctx, own, key), "last_message": last.map(|said| dialogs::object(own, key, said)) })
}

pub(super) fn conversations_by_id(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    ctx.args.required_text("peer_ids")?;
    let peers = ctx.args.integers("peer_ids")?;
    let items: Vec<Value> = peers.iter().map(|peer| conversation(ctx, own, Key::new(own, *peer))).collect();
    let mut response = json!({ "count": items.len() });
    if ctx.args.flag("extended") {
        let ids = peers.iter().copied().filter(|id| *id < CHAT_PEER);
        let (profiles, groups) = people::extended(ctx, ids, &ctx.args.list("fields"));
        response["profiles"] = profiles;
        response["groups"] = groups;
    }
    response["items"] = items.into();
    Ok(Done::new(response))
}

pub(super) fn by_id(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    if ctx.args.text("cmids").is_some() {
        return at_places(ctx, own, "cmids");
    }
    ctx.args.required_text("message_ids")?;
    let ids = ctx.args.integers("message_ids")?;
    let found = ids.iter().filter_map(|id| ctx.state.dialogs.find(*id));
    let items: Vec<Value> = found.map(|(key, said)| dialogs::object(own, key, said)).collect();
    listed(ctx, items)
}

pub(super) fn by_conversation_id(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    ctx.args.required_text("conversation_message_ids")?;
    at_places(ctx, own, "conversation_message_ids")
}

fn at_places(ctx: &Ctx<'_>, own: i64, name: &str) -> Result<Done, ApiError> {
    let key = Key::new(own, ctx.args.required_integer("peer_id")?);
    let cmids = ctx.args.integers(name)?;
    let dialog = ctx.state.dialogs.by_key.get(&key);
    let found = cmids.iter().filter_map(|cmid| dialog?.said.get(cmid));
    let items: Vec<Value> = found.map(|said| dialogs::object(own, key, said)).collect();
    listed(ctx, items)
}

fn listed(ctx: &Ctx<'_>, items: Vec<Value>) -> Result<Done, ApiError> {
    let mut response = json!({ "count": items.len() });
    introduce(ctx, &mut response, &items);
    response["items"] = items.into();
    Ok(Done::new(response))
}

pub(super) fn members(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let peer = ctx.args.required_integer("peer_id")?;
    let dialog = ctx.state.dialogs.by_key.get(&Key::new(own, peer));
    let mut members = dialog.map(|dialog| dialog.members.clone()).unwrap_or_default();
    if peer < CHAT_PEER {
        members = vec![own, peer];
    } else if dialog.is_none() {
        return Err(ApiError::plain(917));
    }
    let items: Vec<Value> = members
        .iter()
        .enumerate()
        .map(|(index, id)| json!({ "member_id": id, "invited_by": members[0], "join_date": 0, "is_admin": index == 0, "is_owner": index == 0 }))
        .collect();
    let (profiles, groups) = people::extended(ctx, members, &ctx.args.list("fields"));
    Ok(Done::new(json!({ "count": items.len(), "items": items, "profiles": profiles, "groups": groups })))
}

pub(super) fn mark_as_read(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let by_message = ctx
        .args
        .integers("message_ids")?
        .first()
        .and_then(|id| ctx.state.dialogs.find(*id))
        .map(|(key, _)| key);
    let key = match one_peer(ctx)? {
        Some(peer) => Key::new(own, peer),
        None => by_message.ok_or_else(|| ApiError::parameter("peer_id is undefined"))?,
    };
    let up_to = ctx.args.integer("up_to_cmid")?;
    let start = ctx
        .args
        .integer("start_message_id")?
        .and_then(|id| ctx.state.dialogs.places.get(&id))
        .map(|(_, cmid)| *cmid);
    if let Some(dialog) = ctx.state.dialogs.by_key.get_mut(&key) {
        let last = dialog.last().map_or(0, |said| said.cmid);
        let read = up_to.or(start).unwrap_or(last).min(last);
        let before = dialog.read.entry(own).or_insert(0);
        *before = read.max(*before);
        if let Key::Pair(a, b) = key
            && own > 0
        {
            let group = -a.min(b);
            if group > 0 {
                let object = json!({ "from_id": own, "peer_id": own, "read_message_id": read, "conversation_message_id": read });
                events::emit(ctx.core, ctx.state, group, "message_read", object);
            }
        }
    }
    Ok(Done::new(1))
}

pub(super) fn is_allowed(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let group = ctx.args.required_integer("group_id")?;
    let user = ctx.args.required_integer("user_id")?;
    let denied =
        ctx.state.dialogs.by_key.get(&Key::new(-group.abs(), user)).is_some_and(|dialog| dialog.denied);
    let known = people::is_acquainted(ctx.core, ctx.state, user);
    Ok(Done::new(json!({ "is_allowed": i64::from(known && !denied) })))
}
