//! Reading walls: `wall.get` pages as raw posts, and screen names as ids.
//!
//! Nothing is judged here: ads, suggested and pinned posts come with their flags, and ingest decides.
//! A community key cannot read walls at all (docs/platforms/vk, tokens): give a service or user token.

use std::time::Duration;

use domain::outcome::{Failure, Scope};
use serde_json::Value;

use super::send::ask;
use super::wire::Call;
use crate::part::AccountKind;
use crate::platform::{Account, Network};
use crate::verdict::{permanent, shapeless};
pub use crate::walls::{Page, RawAttachment, RawPhoto, RawPost, Wall};

/// Posts of one page; VK gives no more.
pub const PAGE_MAX: u32 = 100;
/// Reposts of reposts are followed so deep.
const HISTORY_MAX: usize = 5;
/// Pictures of one post are at most ten; more is nonsense.
const PHOTOS_MAX: usize = 20;

/// Reads a page of a wall.
pub async fn wall_page(
    network: &Network,
    account: &Account,
    wall: &Wall,
    offset: u32,
    count: u32,
    deadline: Duration,
) -> Result<Page, Failure> {
    if account.kind == AccountKind::Community {
        let message = "vk: a community key cannot read walls; give the source a service or user token";
        return Err(permanent(Scope::Platform, "vk:27", message));
    }
    let call = Call::new("wall.get").with("offset", offset).with("count", count.clamp(1, PAGE_MAX));
    // Who keeps the wall comes with its first page, without another call.
    let call = if offset == 0 { call.with("extended", 1) } else { call };
    let call = match wall {
        Wall::Owner(id) => call.with("owner_id", id),
        Wall::Name(name) => call.with("domain", name),
    };
    let response = ask(network, account, call, deadline).await?;
    page(&response).ok_or_else(|| account.redact(shapeless(&response)))
}

/// Posts asked for by the most that VK answers in one call.
pub const BY_ID_MAX: usize = 100;

/// The posts of these ids (owner, post) that can be seen; what is gone or closed is simply not among them.
pub async fn posts_by_id(
    network: &Network,
    account: &Account,
    ids: &[(i64, i64)],
    deadline: Duration,
) -> Result<Vec<RawPost>, Failure> {
    let names: Vec<String> =
        ids.iter().take(BY_ID_MAX).map(|(owner, post)| format!("{owner}_{post}")).collect();
    let call = Call::new("wall.getById").with("posts", names.join(","));
    let response = ask(network, account, call, deadline).await?;
    // Older versions answer with the bare array.
    let items = response["items"].as_array().or_else(|| response.as_array());
    let items = items.ok_or_else(|| account.redact(shapeless(&response)))?;
    Ok(items.iter().filter_map(|item| post(item, 0)).collect())
}

/// What a screen name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    User(i64),
    /// Positive; its wall is the negative of it.
    Group(i64),
    /// Nothing that has a wall.
    Other,
    /// Nobody has this name.
    Nobody,
}

pub async fn resolve_screen_name(
    network: &Network,
    account: &Account,
    name: &str,
    deadline: Duration,
) -> Result<Named, Failure> {
    let call = Call::new("utils.resolveScreenName").with("screen_name", name);
    let response = ask(network, account, call, deadline).await?;
    // A name that nobody has is answered with an empty array instead of an object.
    Ok(match (response["type"].as_str(), response["object_id"].as_i64()) {
        (Some("user"), Some(id)) => Named::User(id),
        (Some("group" | "page" | "event"), Some(id)) => Named::Group(id),
        (Some(_), _) => Named::Other,
        (None, _) => Named::Nobody,
    })
}

/// The `response` of `wall.get`.
pub fn page(response: &Value) -> Option<Page> {
    let items = response["items"].as_array()?;
    let posts: Vec<RawPost> = items.iter().filter_map(|item| post(item, 0)).collect();
    let n_unreadable = items.len() - posts.len();
    let title = title(response, posts.first());
    Some(Page { total: response["count"].as_i64().unwrap_or_default(), posts, n_unreadable, title })
}

/// The name of the community whose wall this is, among those that the answer introduces.
fn title(response: &Value, post: Option<&RawPost>) -> Option<String> {
    let owner = post?.owner_id;
    let keeps = |group: &&Value| group["id"].as_i64().is_some_and(|id| id.checked_neg() == Some(owner));
    let group = response["groups"].as_array()?.iter().find(keeps)?;
    domain::shown::title(group["name"].as_str()?)
}

/// One post, also from an event of the Callback API.
pub fn post(item: &Value, depth: usize) -> Option<RawPost> {
    let flag = |name: &str| item[name].as_i64() == Some(1) || item[name] == true;
    let history = item["copy_history"].as_array().map(Vec::as_slice).unwrap_or_default();
    let copy_history = if depth < HISTORY_MAX {
        history.iter().take(HISTORY_MAX).filter_map(|parent| post(parent, depth + 1)).collect()
    } else {
        Vec::new()
    };
    let attachments = item["attachments"].as_array().map(Vec::as_slice).unwrap_or_default();
    Some(RawPost {
        owner_id: item["owner_id"].as_i64()?,
        post_id: item["id"].as_i64()?,
        from_id: item["from_id"].as_i64(),
        signer_id: item["signer_id"].as_i64(),
        date: item["date"].as_i64().unwrap_or_default(),
        edited: item["edited"].as_i64(),
        text: item["text"].as_str().unwrap_or_default().to_owned(),
        copy_history,
        photos: attachments.iter().filter_map(photo).take(PHOTOS_MAX).collect(),
        others: attachments.iter().filter_map(other).take(PHOTOS_MAX).collect(),
        is_ad: flag("marked_as_ads") || item["post_type"] == "post_ads",
        is_suggested: item["post_type"] == "suggest",
        is_pinned: flag("is_pinned"),
        is_deleted: flag("is_deleted"),
        is_paid: !item["donut"]["placeholder"].is_null(),
    })
}

fn photo(attachment: &Value) -> Option<RawPhoto> {
    if !matches!(attachment["type"].as_str()?, "photo" | "posted_photo") {
        return None;
    }
    let photo = &attachment[attachment["type"].as_str()?];
    let (owner, id) =
        (photo["owner_id"].as_i64().unwrap_or_default(), photo["id"].as_i64().unwrap_or_default());
    let size = largest(photo)?;
    let side = |name: &str| size[name].as_u64().and_then(|side| u32::try_from(side).ok()).unwrap_or_default();
    Some(RawPhoto {
        id: format!("photo{owner}_{id}"),
        url: address(size)?.to_owned(),
        width: side("width"),
        height: side("height"),
    })
}

/// Sizes by letter for pictures so old that they have no dimensions.
const SIZE_LETTERS: [&str; 6] = ["w", "z", "y", "x", "m", "s"];

fn largest(photo: &Value) -> Option<&Value> {
    let original = &photo["orig_photo"];
    if address(original).is_some() {
        return Some(original);
    }
    let sizes = photo["sizes"].as_array()?;
    let area = |size: &&Value| {
        let side = |name: &str| size[name].as_u64().unwrap_or_default().min(1 << 20);
        side("width") * side("height")
    };
    let usable = || sizes.iter().filter(|size| address(size).is_some());
    let by_area = usable().max_by_key(area).filter(|size| area(size) > 0);
    let by_letter = || SIZE_LETTERS.iter().find_map(|letter| usable().find(|size| size["type"] == *letter));
    by_area.or_else(by_letter).or_else(|| usable().next())
}

fn address(size: &Value) -> Option<&str> {
    let url = size["url"].as_str().or_else(|| size["src"].as_str())?;
    domain::message::is_web_address(url).then_some(url)
}

fn other(attachment: &Value) -> Option<RawAttachment> {
    let kind = attachment["type"].as_str()?;
    if matches!(kind, "photo" | "posted_photo") {
        return None;
    }
    let content = &attachment[kind];
    let ids = content["owner_id"].as_i64().zip(content["id"].as_i64());
    let page = match (kind, ids) {
        ("video" | "clip", Some((owner, id))) => Some(format!("https://vk.com/video{owner}_{id}")),
        ("doc", Some((owner, id))) => Some(format!("https://vk.com/doc{owner}_{id}")),
        ("link", _) => address(content).map(str::to_owned),
        _ => None,
    };
    let title = content["title"].as_str().filter(|title| !title.is_empty()).map(str::to_owned);
    Some(RawAttachment { kind: kind.to_owned(), page, title })
}
