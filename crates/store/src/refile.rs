//! A wrong judgement about a case, put right by a person: two cases are one, or some posts are a story of their own.
//!
//! What was sent stays. Posts take with them what they hold in channels that count cases: a waiting repeat is ended, a
//! post that kept silent for the wrong story is said. The record and the keys follow, so later posts find their way.

use domain::content::cases::{CaseRecord, Origin, Sketch, picture_keys, stored_keys};
use domain::ids::{CaseId, MessageId};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::{Result, StoreError};
use crate::intake::{Case, CopyState, OnClose, Published, count_place, ends_story_of};

/// A post that leaves its case, and where its source shows it: by that a record knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedPost {
    pub message_id: MessageId,
    pub origin: Origin,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Refiled {
    /// The case that the posts belong to now.
    pub case_id: CaseId,
    pub messages: usize,
    /// Deliveries that waited and would repeat what their case has said.
    pub cancelled: usize,
    /// Deliveries of posts that had kept silent and are said now.
    pub said: usize,
    /// Published posts whose heading changes, because their story has ended or has not.
    pub edited: usize,
}

/// What the queue did when keys moved.
#[derive(Debug, Clone, Copy, Default, serde::Deserialize)]
pub(crate) struct MovedKeys {
    pub cancelled: usize,
    pub said: usize,
}

/// A post of a case, as far as moving it needs it.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub message_id: MessageId,
    pub kind: String,
    pub place: String,
}

/// What `facts.case` of a message says when a person decided.
pub(crate) fn by_hand(case: CaseId, was: CaseId) -> Value {
    json!({"case": case, "verdict": "by_hand", "was": was})
}

/// A case that was joined with another is only a pointer.
pub(crate) fn joined_with(case: &Case) -> Option<i64> {
    case.facts["joined_with"].as_i64()
}

pub(crate) fn pointer(into: CaseId) -> Value {
    json!({"joined_with": into})
}

pub(crate) fn check_join(keep: &Case, other: &Case) -> Result<()> {
    if keep.case_id == other.case_id {
        return Err(StoreError::invalid("case", format!("{} cannot be joined with itself", keep.case_id)));
    }
    for case in [keep, other] {
        if let Some(into) = joined_with(case) {
            let problem = format!("{} was joined with case {into} before; name that one", case.case_id);
            return Err(StoreError::invalid("case", problem));
        }
    }
    Ok(())
}

/// The posts that go, in order of id; refused if one is not there, or none would stay.
pub(crate) fn check_split<'a>(
    case: CaseId,
    members: &'a [Member],
    posts: &[MovedPost],
) -> Result<Vec<&'a Member>> {
    let invalid = |problem: String| Err(StoreError::invalid("case", problem));
    let is_member = |post: &&MovedPost| members.iter().any(|member| member.message_id == post.message_id);
    if let Some(stranger) = posts.iter().find(|post| !is_member(post)) {
        return invalid(format!("{case} does not hold message {}", stranger.message_id));
    }
    let goes = |member: &&Member| posts.iter().any(|post| post.message_id == member.message_id);
    let gone: Vec<&Member> = members.iter().filter(goes).collect();
    if gone.is_empty() {
        return invalid(format!("{case}: say which posts are another story"));
    }
    if gone.len() == members.len() {
        return invalid(format!("{case} would be empty: at least one of its {} posts stays", members.len()));
    }
    Ok(gone)
}

/// Two records as one; what was forgotten of the posts is still counted.
pub(crate) fn join(keep: CaseId, one: Option<CaseRecord>, other: Option<CaseRecord>) -> Option<CaseRecord> {
    let records: Vec<CaseRecord> = one.into_iter().chain(other).collect();
    let members = records.iter().flat_map(|record| record.members.iter().cloned()).collect();
    let mut joined = rebuilt(keep, members)?;
    joined.posts = records.iter().map(|record| record.posts).fold(0, u32::saturating_add);
    for record in &records {
        joined.opened_at = joined.opened_at.min(record.opened_at);
        joined.last_seen_at = joined.last_seen_at.max(record.last_seen_at);
        joined.closed_at = [joined.closed_at, record.closed_at].into_iter().flatten().min();
        for &(kind, at) in &record.last_of_kind {
            match joined.last_of_kind.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, latest)) => *latest = (*latest).max(at),
                None => joined.last_of_kind.push((kind, at)),
            }
        }
    }
    Some(joined)
}

/// What stays and what goes.
pub(crate) fn split(
    record: CaseRecord,
    new: CaseId,
    posts: &[MovedPost],
) -> (Option<CaseRecord>, Option<CaseRecord>) {
    let goes = |sketch: &Sketch| posts.iter().any(|post| post.origin == sketch.origin);
    let n_gone = u32::try_from(posts.len()).unwrap_or(u32::MAX);
    let (gone, left): (Vec<Sketch>, Vec<Sketch>) = record.members.into_iter().partition(goes);
    let mut left = rebuilt(record.id, left);
    let mut gone = rebuilt(new, gone);
    if let Some(left) = &mut left {
        left.posts = record.posts.saturating_sub(n_gone).max(1);
    }
    if let Some(gone) = &mut gone {
        gone.posts = n_gone;
    }
    (left, gone)
}

fn rebuilt(id: CaseId, mut members: Vec<Sketch>) -> Option<CaseRecord> {
    members.sort_by_key(|sketch| sketch.date);
    let mut members = members.into_iter();
    let mut record = CaseRecord::open(id, members.next()?);
    members.for_each(|sketch| record.absorb(sketch));
    Some(record)
}

/// Where a story was told, of two cases that are one.
pub(crate) fn joined_facts(keep: &Value, other: &Value) -> Value {
    let places = other["first"].as_str().into_iter().chain(places(other));
    let mut facts = places.fold(keep.clone(), |facts, place| count_place(&facts, place));
    // Copies beyond those that are known by name.
    let unnamed = |facts: &Value| {
        let named = i64::try_from(places_of(facts).count()).unwrap_or(i64::MAX);
        facts["copies"].as_i64().unwrap_or_default().saturating_sub(named).max(0)
    };
    let extra = unnamed(other);
    if extra > 0 {
        facts["copies"] = facts["copies"].as_i64().unwrap_or_default().saturating_add(extra).into();
    }
    facts
}

/// Where a story was told, without what has left it.
pub(crate) fn left_facts(facts: &Value, gone: &[&Member]) -> Value {
    let is_gone = |place: &str| gone.iter().any(|member| member.place == place);
    let mut left: Vec<&str> = facts["first"].as_str().into_iter().chain(places(facts)).collect();
    let before = left.len();
    left.retain(|place| !is_gone(place));
    let n_gone = i64::try_from(before - left.len()).unwrap_or_default();
    let copies = facts["copies"].as_i64().unwrap_or_default().saturating_sub(n_gone).max(0);
    let mut told = facts.as_object().cloned().unwrap_or_else(Map::new);
    told.remove("first");
    if let [first, others @ ..] = left.as_slice() {
        told.insert("first".into(), (*first).into());
        told.insert("sources".into(), others.iter().copied().map(Value::from).collect());
    }
    told.insert("copies".into(), copies.into());
    Value::Object(told)
}

/// The facts of a new case of these posts.
pub(crate) fn facts_of(posts: &[&Member]) -> Value {
    posts.iter().fold(Value::Null, |facts, member| count_place(&facts, &member.place))
}

fn places(facts: &Value) -> impl Iterator<Item = &str> {
    places_of(facts).filter_map(Value::as_str)
}

fn places_of(facts: &Value) -> impl Iterator<Item = &Value> {
    facts["sources"].as_array().into_iter().flatten()
}

/// The post that ends the story of these, if one does.
pub(crate) fn ending<'a>(members: impl IntoIterator<Item = &'a Member>) -> Option<MessageId> {
    members.into_iter().find(|member| ends_story_of(&member.kind)).map(|member| member.message_id)
}

/// Whether a search of a joined case was posted after its end: then the story goes on.
pub(crate) fn goes_on(record: &CaseRecord) -> bool {
    let searches =
        record.members.iter().filter(|sketch| crate::intake::ends_with_reunion(sketch.kind.name()));
    record.closed_at.is_some_and(|at| searches.into_iter().any(|sketch| sketch.date > at))
}

/// The payload of a post whose story has not ended after all; nothing if it was never shown as ended.
pub(crate) fn opened_payload(payload: &Value) -> Option<Value> {
    let was = payload.get("was").cloned()?;
    let mut payload = payload.clone();
    let fields = payload.as_object_mut()?;
    fields.remove("was");
    fields.insert("kind".into(), was);
    Some(payload)
}

/// Published, and under another heading because its story had ended.
pub(crate) fn was_edited(copy: &Published) -> bool {
    copy.state == CopyState::Out && OnClose::of(&copy.settings) == OnClose::Edit
}

pub(crate) fn has(members: &[&Member], id: MessageId) -> bool {
    members.iter().any(|member| member.message_id == id)
}

pub(crate) fn sketches(record: Option<&CaseRecord>) -> impl Iterator<Item = &Sketch> {
    record.into_iter().flat_map(|record| &record.members)
}

/// Everything that leads to the case of a post, its pictures too.
pub(crate) fn all_keys(sketch: &Sketch) -> Vec<i64> {
    let pictures = sketch.pictures.iter().flat_map(|picture| picture_keys(*picture));
    stored_keys(sketch).into_iter().chain(pictures).map(|key| key.value).collect()
}
