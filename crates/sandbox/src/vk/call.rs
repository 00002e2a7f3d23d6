//! Reads a request: a method call, an upload, a long poll or a download, and whom it is about.

use std::collections::HashMap;

use crate::platform::{Target, chat_value};
use crate::request::{Body, Head, Parameters, Request};
use serde_json::{Value, json};

use super::args::{Args, number};
use super::dialogs::CHAT_PEER;
use super::longpoll::Poll;
use super::uploads::Upload;
use super::{Vk, locked, people, tokens};

/// A request after parsing.
#[derive(Debug)]
pub enum Call {
    Method(MethodCall),
    Upload(Upload),
    Poll(Poll),
    Photo { head: Head, reference: String },
    Doc { sha256: String },
    Captcha { sid: String },
    TooLarge,
    Unknown,
}

/// `/method/{name}` with its parameters.
#[derive(Debug)]
pub struct MethodCall {
    pub verb: String,
    pub name: String,
    pub token: Option<String>,
    pub args: Args,
}

/// What a path leads to.
enum Path<'a> {
    Method(&'a str),
    Upload(&'a str),
    Poll(&'a str),
    Photo(&'a str),
    Doc(&'a str),
    Captcha,
    Other,
}

fn path(head: &Head) -> Path<'_> {
    let segments: Vec<&str> = head.path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["method"] => Path::Method(""),
        ["method", name] => Path::Method(name),
        // `base/method` + `/` + name, where the base already ends with a slash.
        ["method", "", name] => Path::Method(name),
        ["upload", kind] => Path::Upload(kind),
        ["lp", group] => Path::Poll(group),
        ["cdn", "impg", reference, _] => Path::Photo(reference),
        ["cdn", "doc", sha256, _] => Path::Doc(sha256),
        ["captcha.php"] => Path::Captcha,
        _ => Path::Other,
    }
}

/// What the head alone tells.
pub(super) fn target(vk: &Vk, head: &Head) -> Target {
    let Path::Method(name) = path(head) else { return named(vk, head) };
    let args = Args { texts: crate::request::pairs(head.query.as_bytes()) };
    method_target(vk, name, token(head, &args), &args)
}

/// Reads the whole request.
pub(super) fn read(vk: &Vk, request: Request) -> (Target, Call) {
    let target = named(vk, &request.head);
    if matches!(request.body, Body::TooLarge) {
        return (target, Call::TooLarge);
    }
    match path(&request.head) {
        Path::Method(name) => {
            let args = Args { texts: request.parameters().texts };
            let token = token(&request.head, &args);
            let target = method_target(vk, name, token.clone(), &args);
            let verb = request.head.method.to_string();
            (target, Call::Method(MethodCall { verb, name: name.to_owned(), token, args }))
        }
        Path::Upload(kind) => {
            let Parameters { texts, files } = request.parameters();
            let args = Args { texts };
            let sid = args.text("sid").unwrap_or_default().to_owned();
            let verb = request.head.method.to_string();
            (target, Call::Upload(Upload { kind: kind.to_owned(), verb, sid, files }))
        }
        Path::Poll(group) => {
            let args = Args { texts: request.parameters().texts };
            (target, Call::Poll(Poll::new(group, &args)))
        }
        Path::Photo(reference) => {
            let reference = reference.to_owned();
            (target, Call::Photo { head: request.head, reference })
        }
        Path::Doc(sha256) => (target, Call::Doc { sha256: sha256.to_owned() }),
        Path::Captcha => (target, Call::Captcha { sid: request.head.query_value("sid").unwrap_or_default() }),
        Path::Other => (target, Call::Unknown),
    }
}

/// Everything but method calls.
fn named(vk: &Vk, head: &Head) -> Target {
    let (method, chat) = match path(head) {
        Path::Upload(kind) => {
            let sid = head.query_value("sid").unwrap_or_default();
            let session = locked(&vk.state).uploads.session(&sid).map(|session| session.owner());
            (format!("upload.{kind}"), session.map_or(Value::Null, Value::from))
        }
        Path::Poll(group) => {
            let group = super::longpoll::group_of(group);
            ("a_check".to_owned(), group.map_or(Value::Null, |group| Value::from(-group)))
        }
        _ => (format!("{} {}", head.method, first_segments(&head.path)), Value::Null),
    };
    Target { method, chat, ..Target::default() }
}

/// Long references stay out of the ledger.
fn first_segments(path: &str) -> String {
    path.split('/').take(3).collect::<Vec<_>>().join("/")
}

/// The parameter, or else `Authorization: Bearer`.
fn token(head: &Head, args: &Args) -> Option<String> {
    let bearer = || {
        let (scheme, token) = head.header("authorization").split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| token.trim().to_owned())
            .filter(|token| !token.is_empty())
    };
    args.text("access_token").map(str::to_owned).or_else(bearer)
}

fn method_target(vk: &Vk, name: &str, token: Option<String>, args: &Args) -> Target {
    let account = token.as_deref().and_then(|token| vk.account(token));
    let caller = account.map(tokens::Caller::new);
    let text = args.text("message").or_else(|| args.text("event_data")).map(str::to_owned);
    Target {
        account_id: caller.as_ref().map(|caller| caller.account.id.clone()),
        method: name.to_owned(),
        chat: chat_of(vk, name, args, caller.as_ref()),
        account: token,
        text,
    }
}

/// The owner of the wall or the peer of the dialog that a call is about.
fn chat_of(vk: &Vk, name: &str, args: &Args, caller: Option<&tokens::Caller>) -> Value {
    let section = name.split('.').next().unwrap_or_default();
    match section {
        "messages" => peers(vk, args),
        "wall" => wall_owner(vk, name, args, caller),
        "photos" | "docs" | "video" | "groups" => {
            let group = args.text("group_id").and_then(number);
            let peer = args.text("peer_id").map(chat_value);
            group.map(|group| Value::from(-group.abs())).or(peer).unwrap_or(Value::Null)
        }
        _ => Value::Null,
    }
}

fn peers(vk: &Vk, args: &Args) -> Value {
    let chat = args.text("chat_id").and_then(number);
    if let Some(chat) = chat {
        return (CHAT_PEER + chat).into();
    }
    if let Some(peer) = args.text("peer_id").or_else(|| args.text("user_id")) {
        return chat_value(peer);
    }
    if let Some(domain) = args.text("domain") {
        let known = people::resolve(&locked(&vk.state), domain);
        return known.map_or_else(|| json!(domain), Value::from);
    }
    let mut list: Vec<Value> = args.list("peer_ids").into_iter().map(chat_value).collect();
    if list.is_empty() {
        list = args.list("user_ids").into_iter().map(chat_value).collect();
    }
    match list.len() {
        0 => Value::Null,
        1 => list.remove(0),
        _ => Value::from(list),
    }
}

fn wall_owner(vk: &Vk, name: &str, args: &Args, caller: Option<&tokens::Caller>) -> Value {
    if let Some(owner) = args.text("owner_id") {
        return chat_value(owner);
    }
    if let Some(domain) = args.text("domain") {
        let known = people::resolve(&locked(&vk.state), domain);
        return known.map_or_else(|| json!(domain), Value::from);
    }
    if name == "wall.getById" {
        let owners: HashMap<&str, ()> =
            args.list("posts").into_iter().filter_map(|post| Some((post.split_once('_')?.0, ()))).collect();
        return if owners.len() == 1 {
            owners.keys().next().map_or(Value::Null, |id| chat_value(id))
        } else {
            Value::Null
        };
    }
    if name == "wall.repost" {
        let group = args.text("group_id").and_then(number);
        return group.map_or(Value::Null, |group| Value::from(-group.abs()));
    }
    caller.map(default_owner).filter(|owner| *owner != 0).map_or(Value::Null, Value::from)
}

/// Whose wall it is when nobody says: the person's, or the community's own.
pub(super) fn default_owner(caller: &tokens::Caller) -> i64 {
    if caller.user != 0 { caller.user } else { -caller.group }
}
