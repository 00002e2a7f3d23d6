//! Walls: pages of posts that anybody may read, on platforms that have them.
//!
//! Reading is a capability of a platform like sending. Who reads walls asks for its `WallReader` and never for its name.

use std::fmt;
use std::time::Duration;

use domain::message::{Message, Origin};
use domain::outcome::Failure;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::platform::{Account, Network, Platform};
use crate::registry::{self, platform};

/// How the walls of a platform are read.
pub trait WallReader: fmt::Debug + Send + Sync {
    /// What an operator wrote as a wall; `None`: it cannot be one.
    fn wall(&self, address: &str) -> Option<Wall>;

    /// Posts of one page at the most.
    fn page_max(&self) -> u32;

    /// Reads a page of a wall, the newest posts first.
    fn page<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        wall: &'a Wall,
        place: Place,
    ) -> BoxFuture<'a, Result<Page, Failure>>;

    /// The posts of these ids (owner, post) that can be seen; what is gone or closed is simply not among them.
    fn posts<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        ids: &'a [(i64, i64)],
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Vec<RawPost>, Failure>>;

    /// Where people read a post.
    fn post_page(&self, owner_id: i64, post_id: i64) -> String;

    /// Where people see a picture; its name among all pictures.
    fn photo_page(&self, id: &str) -> String;

    /// The post that an address or a short name means, as owner and post.
    fn post_named(&self, text: &str) -> Option<(i64, i64)>;

    /// What to do about a refusal to read.
    fn remedy(&self, code: &str) -> Option<&'static str>;

    /// Whether a refusal means that the wall is closed to us.
    fn is_closed(&self, code: &str) -> bool;
}

/// Which part of a wall, and how long to wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub offset: u32,
    pub count: u32,
    pub deadline: Duration,
}

/// One page of a wall.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Posts on the wall in all.
    pub total: i64,
    /// Newest first, except that a pinned post stands first whatever its date.
    pub posts: Vec<RawPost>,
    /// Items that had no ids.
    pub n_unreadable: usize,
    /// What the community calls itself. A person's wall has none: names of people are not for logs and boards.
    pub title: Option<String>,
}

/// A post as it stands there, with its flags.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RawPost {
    pub owner_id: i64,
    pub post_id: i64,
    pub from_id: Option<i64>,
    pub signer_id: Option<i64>,
    /// Unix seconds.
    pub date: i64,
    pub edited: Option<i64>,
    pub text: String,
    /// What was reposted, nearest first; the words of a repost are usually here.
    pub copy_history: Vec<RawPost>,
    pub photos: Vec<RawPhoto>,
    /// Videos, files and links: kind and the page to see them on.
    pub others: Vec<RawAttachment>,
    pub is_ad: bool,
    pub is_suggested: bool,
    pub is_pinned: bool,
    pub is_deleted: bool,
    /// Hidden behind a subscription.
    pub is_paid: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RawPhoto {
    /// The platform's own name of the picture.
    pub id: String,
    /// The largest size, with the query that signs it.
    pub url: String,
    pub width: u32,
    pub height: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RawAttachment {
    pub kind: String,
    pub page: Option<String>,
    pub title: Option<String>,
}

/// What a wall is named by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wall {
    Owner(i64),
    /// A screen name, without `@` and address.
    Name(String),
}

/// The platform of this name and how its walls are read, if it has any.
pub fn of(name: &str) -> Option<(&'static dyn Platform, &'static dyn WallReader)> {
    let platform = platform(name)?;
    Some((platform, platform.walls()?))
}

/// All platforms that have walls.
pub fn all() -> impl Iterator<Item = (&'static dyn Platform, &'static dyn WallReader)> {
    registry::all().filter_map(|platform| Some((platform, platform.walls()?)))
}

/// The platform whose posts stand in files without its name.
pub fn usual() -> Option<(&'static dyn Platform, &'static dyn WallReader)> {
    all().next()
}

/// A post by its address or short name: the platform, the owner and the post.
pub fn post_named(text: &str) -> Option<(&'static str, i64, i64)> {
    all().find_map(|(platform, walls)| {
        let (owner, post) = walls.post_named(text)?;
        Some((platform.name(), owner, post))
    })
}

/// The source of a message as readers may follow it. The link of a post on a wall is made from its ids, so that it never
/// depends on what somebody wrote.
pub fn source_link(message: &Message) -> Option<String> {
    let from_ids = |origin: &Origin| {
        let (_, walls) = of(&origin.source)?;
        Some(walls.post_page(origin.owner_id?, origin.post_id?))
    };
    message.origin.as_ref().and_then(from_ids).or_else(|| message.source_link())
}
