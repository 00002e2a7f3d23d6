//! Everything VK remembers, behind one lock: who is who, walls, dialogs, uploads.
//! Bounded: the oldest posts, messages and uploads go first.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::attachments::{Doc, Video};
use super::callback::Servers;
use super::dialogs::Dialogs;
use super::events::Settings;
use super::longpoll::LongPoll;
use super::packed::Packed;
use super::photos::Photo;
use super::uploads::Uploads;

/// The state.
#[derive(Debug, Default)]
pub struct State {
    pub groups: HashMap<i64, Group>,
    pub people: HashMap<i64, Person>,
    /// Screen names in lower case to owner ids.
    pub names: HashMap<String, i64>,
    /// The community that a full-rights token spoke for last.
    pub bound: HashMap<String, i64>,
    pub walls: HashMap<i64, Wall>,
    pub posts: Posts,
    /// Postponed posts by date, owner and id.
    pub scheduled: BTreeSet<(i64, i64, i64)>,
    pub dialogs: Dialogs,
    pub uploads: Uploads,
    pub files: Files,
    /// Counts up for photos, documents, videos and whatever else needs a number of its own.
    pub counter: i64,
    /// Posts and comments kept, and as many messages.
    kept_max: usize,
    /// Changes with every reset, so that old long poll keys are known to be old.
    pub epoch: u64,
}

/// A community.
#[derive(Debug, Default)]
pub struct Group {
    pub name: String,
    pub screen_name: String,
    pub access: Access,
    pub longpoll: Arc<LongPoll>,
    /// What the long poll tells.
    pub settings: Settings,
    pub servers: Servers,
}

/// A person that was registered or has spoken.
#[derive(Clone, Debug, Default)]
pub struct Person {
    pub name: String,
    pub screen_name: String,
    pub access: Access,
}

/// Who may look at a wall or write to somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    Open,
    /// Only members see the wall.
    Members,
    /// The community was blocked by VK.
    Blocked,
    /// The wall is switched off.
    Disabled,
    /// Everybody may read, nobody may post.
    Closed,
    /// A person who hides the profile and takes no messages.
    Private,
    /// A person who is gone.
    Deleted,
}

/// The words for `access` in `POST /_/chats`.
pub(super) const ACCESS: &[(&str, Access)] = &[
    ("open", Access::Open),
    ("members", Access::Members),
    ("blocked", Access::Blocked),
    ("disabled", Access::Disabled),
    ("closed", Access::Closed),
    ("private", Access::Private),
    ("deleted", Access::Deleted),
];

/// The posts and comments of one owner; both are numbered by one counter.
#[derive(Debug, Default)]
pub struct Wall {
    pub counter: i64,
    pub posts: BTreeMap<i64, Post>,
    /// Published posts by date, then id.
    pub order: BTreeSet<(i64, i64)>,
    /// By post, then by id.
    comments: BTreeMap<(i64, i64), Comment>,
    /// Comment to post.
    commented: HashMap<i64, i64>,
    pub pinned: Option<i64>,
    /// Deleted posts that can be restored.
    pub deleted: BTreeMap<i64, Post>,
    /// Who said which guid, what it became, and when.
    pub guids: HashMap<(String, String), (i64, i64)>,
}

/// A post: VK's object, and the little that has to be found without looking into it.
#[derive(Clone, Debug)]
pub struct Post {
    pub id: i64,
    pub date: i64,
    pub status: Status,
    pub object: Packed,
}

/// Whether readers see a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Published,
    /// Waits for its date.
    Postponed,
    /// Waits for an editor.
    Suggested,
}

/// A comment under a post.
#[derive(Clone, Debug)]
pub struct Comment {
    pub id: i64,
    pub post_id: i64,
    pub object: Packed,
}

/// The age of posts over all walls.
#[derive(Debug, Default)]
pub struct Posts {
    /// Owner, id and bytes.
    ages: VecDeque<(i64, i64, usize)>,
    n_bytes: usize,
}

/// Bytes of the objects of all posts and comments; their number is bounded by `kept_max`.
const POSTS_BYTES_MAX: usize = 256 << 20;

/// Photos, documents and videos by owner and id.
#[derive(Debug, Default)]
pub struct Files {
    pub photos: HashMap<(i64, i64), Photo>,
    pub docs: HashMap<(i64, i64), Doc>,
    pub videos: HashMap<(i64, i64), Video>,
    ages: VecDeque<(i64, i64)>,
}

/// Photos, documents and videos kept.
const FILES_MAX: usize = 200_000;

impl State {
    pub fn new(kept_max: usize) -> State {
        State { kept_max, dialogs: Dialogs::new(kept_max), ..State::default() }
    }

    /// Forgets what was said; who is who stays.
    pub fn reset(&mut self) {
        self.walls.clear();
        self.posts = Posts::default();
        self.scheduled.clear();
        self.dialogs.clear();
        self.uploads = Uploads::default();
        self.files = Files::default();
        self.counter = 0;
        self.epoch += 1;
        for group in self.groups.values_mut() {
            let old = std::mem::replace(&mut group.longpoll, Arc::new(LongPoll::new(self.epoch)));
            old.queue.wake();
            group.servers.forget_events();
        }
    }

    pub fn next_number(&mut self) -> i64 {
        self.counter += 1;
        self.counter
    }

    /// The community, made up on first use.
    pub fn group(&mut self, id: i64) -> &mut Group {
        let epoch = self.epoch;
        self.groups
            .entry(id)
            .or_insert_with(|| Group { longpoll: Arc::new(LongPoll::new(epoch)), ..Group::default() })
    }

    pub fn wall(&mut self, owner_id: i64) -> &mut Wall {
        self.walls.entry(owner_id).or_default()
    }

    /// Puts a post on a wall in its place, replacing one with the same id.
    pub fn put_post(&mut self, owner_id: i64, post: Post) {
        let wall = self.walls.entry(owner_id).or_default();
        wall.counter = wall.counter.max(post.id);
        let pinned = wall.pinned;
        wall.take_post(post.id);
        wall.pinned = pinned;
        match post.status {
            Status::Published => {
                wall.order.insert((post.date, post.id));
            }
            Status::Postponed => {
                self.scheduled.insert((post.date, owner_id, post.id));
            }
            Status::Suggested => {}
        }
        let (id, n_bytes) = (post.id, post.object.n_bytes());
        wall.posts.insert(id, post);
        self.remember(owner_id, id, n_bytes);
    }

    pub fn put_comment(&mut self, owner_id: i64, comment: Comment) {
        let wall = self.walls.entry(owner_id).or_default();
        wall.counter = wall.counter.max(comment.id);
        let (id, n_bytes) = (comment.id, comment.object.n_bytes());
        wall.commented.insert(id, comment.post_id);
        wall.comments.insert((comment.post_id, id), comment);
        self.remember(owner_id, id, n_bytes);
    }

    fn remember(&mut self, owner_id: i64, id: i64, n_bytes: usize) {
        self.posts.ages.push_back((owner_id, id, n_bytes));
        self.posts.n_bytes += n_bytes;
        while self.posts.ages.len() > self.kept_max || self.posts.n_bytes > POSTS_BYTES_MAX {
            let Some((owner_id, id, n_bytes)) = self.posts.ages.pop_front() else { break };
            self.posts.n_bytes -= n_bytes;
            if let Some(wall) = self.walls.get_mut(&owner_id) {
                wall.take_post(id);
                wall.take_comment(id);
                wall.deleted.remove(&id);
            }
        }
    }
}

impl Wall {
    pub fn next_id(&mut self) -> i64 {
        self.counter += 1;
        self.counter
    }

    /// Removes a post from the wall.
    pub fn take_post(&mut self, id: i64) -> Option<Post> {
        let post = self.posts.remove(&id)?;
        self.order.remove(&(post.date, post.id));
        if self.pinned == Some(id) {
            self.pinned = None;
        }
        Some(post)
    }

    pub fn comments_of(&self, post_id: i64) -> impl DoubleEndedIterator<Item = &Comment> {
        self.comments.range((post_id, 0)..=(post_id, i64::MAX)).map(|(_, comment)| comment)
    }

    pub fn comment(&self, id: i64) -> Option<&Comment> {
        self.comments.get(&(*self.commented.get(&id)?, id))
    }

    pub fn comment_mut(&mut self, id: i64) -> Option<&mut Comment> {
        self.comments.get_mut(&(*self.commented.get(&id)?, id))
    }

    pub fn take_comment(&mut self, id: i64) -> Option<Comment> {
        let post_id = self.commented.remove(&id)?;
        self.comments.remove(&(post_id, id))
    }

    /// What a guid became within the last hour.
    pub fn by_guid(&self, who: &str, guid: &str, now_ms: i64) -> Option<i64> {
        let (id, at_ms) = self.guids.get(&(who.to_owned(), guid.to_owned()))?;
        (now_ms - at_ms < GUID_MS).then_some(*id)
    }

    pub fn remember_guid(&mut self, who: &str, guid: &str, id: i64, now_ms: i64) {
        if self.guids.len() >= GUIDS_SWEPT {
            self.guids.retain(|_, (_, at_ms)| now_ms - *at_ms < GUID_MS);
        }
        self.guids.insert((who.to_owned(), guid.to_owned()), (id, now_ms));
    }
}

/// A guid is remembered for one hour.
pub(super) const GUID_MS: i64 = 3_600_000;
/// At this many guids of one wall the outdated ones are swept.
const GUIDS_SWEPT: usize = 20_000;

impl Files {
    pub fn add_photo(&mut self, photo: Photo) {
        self.remember((photo.owner_id, photo.id));
        self.photos.insert((photo.owner_id, photo.id), photo);
    }

    pub fn add_doc(&mut self, doc: Doc) {
        self.remember((doc.owner_id, doc.id));
        self.docs.insert((doc.owner_id, doc.id), doc);
    }

    pub fn add_video(&mut self, video: Video) {
        self.remember((video.owner_id, video.id));
        self.videos.insert((video.owner_id, video.id), video);
    }

    fn remember(&mut self, key: (i64, i64)) {
        self.ages.push_back(key);
        while self.ages.len() > FILES_MAX {
            let Some(key) = self.ages.pop_front() else { break };
            self.photos.remove(&key);
            self.docs.remove(&key);
            self.videos.remove(&key);
        }
    }
}
