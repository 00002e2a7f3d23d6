//! How known cases are looked up: every case stands under a few integers, every lookup returns a bounded list.
//!
//! The store keeps the same rows as `CaseBook` does in memory: (key, case, last seen), newest first under a key.
//! This module must not know how a decision is made.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::sketch::{Origin, Sketch};
use crate::content::picture::{PICTURE_BANDS, PICTURE_NEAR_DISTANCE, PictureHash};
use crate::content::similarity::{mix, stable_hash};
use crate::content::{Animal, Kind};
use crate::ids::CaseId;

/// Cases read under one key, the most recently seen first: a volunteer's phone stands in hundreds.
pub const CANDIDATES_PER_KEY: usize = 16;
/// Pictures read under one band: at a million pictures a band of 16 bits holds about 15.
pub const PICTURES_PER_KEY: usize = 64;
/// Cases scored for one post, however many are known.
pub const CANDIDATES_MAX: usize = 32;
/// Posts remembered by a case: the first ones, which describe it best, and the latest.
pub const MEMBERS_MAX: usize = 12;
/// A case not seen for so long need not be kept in the index: 400 days.
pub const CASE_KEEP_S: i64 = 400 * 86_400;

/// What a case is looked up by; the order is the order of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// The post itself, or one that it reposts or links to.
    Origin,
    /// A picture that looks the same; found by its bands, then compared bit by bit.
    Picture,
    Phone,
    /// A pet's name within one town.
    Name,
    /// A bank card or a number for transfers.
    Account,
    Person,
    /// A band of the text's MinHash.
    Text,
    /// A word of a place within one town.
    Place,
    /// A breed within one town.
    Breed,
    /// The latest cases of one source and species: for posts that only describe.
    Recent,
}

/// A key, storable as a signed 64-bit integer in both databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CaseKey {
    pub kind: KeyKind,
    pub value: i64,
}

impl CaseKey {
    fn new(kind: KeyKind, parts: &[&[u8]]) -> CaseKey {
        let seed = mix(kind as u64 + 1);
        let hash = parts.iter().fold(seed, |hash, part| mix(hash.rotate_left(5) ^ stable_hash(part)));
        CaseKey { kind, value: hash.cast_signed() }
    }
}

/// Everything a post is looked up by, most trusted first.
pub fn lookup_keys(sketch: &Sketch) -> Vec<CaseKey> {
    let mut keys = KeyWriter::default();
    keys.origins(std::iter::once(&sketch.origin).chain(&sketch.refers).chain(&sketch.links));
    keys.contents(sketch);
    keys.recent(sketch);
    for side in other_sides(sketch.kind) {
        keys.recent_of(sketch, *side);
    }
    keys.done()
}

/// The bands of one picture as keys: pictures that look alike stand under one of them, and so do some that do not.
pub fn picture_keys(picture: PictureHash) -> [CaseKey; PICTURE_BANDS] {
    let bands = picture.bands();
    std::array::from_fn(|band| CaseKey::new(KeyKind::Picture, &[&[band as u8], &bands[band].to_le_bytes()]))
}

/// Everything that leads to the case of a post from now on.
pub fn stored_keys(sketch: &Sketch) -> Vec<CaseKey> {
    let mut keys = KeyWriter::default();
    keys.origins(std::iter::once(&sketch.origin).chain(&sketch.refers).chain(&sketch.links));
    keys.contents(sketch);
    keys.recent(sketch);
    keys.recent_of(sketch, sketch.kind);
    keys.done()
}

/// The kinds that may tell the other side of a story: whoever found an animal wants to know who lost one.
fn other_sides(kind: Kind) -> &'static [Kind] {
    match kind {
        Kind::Lost => &[Kind::Found, Kind::Sighting],
        Kind::Found | Kind::Sighting => &[Kind::Lost],
        _ => &[],
    }
}

#[derive(Default)]
struct KeyWriter {
    keys: Vec<CaseKey>,
}

impl KeyWriter {
    fn add(&mut self, kind: KeyKind, parts: &[&[u8]]) {
        let key = CaseKey::new(kind, parts);
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
    }

    fn origins<'a>(&mut self, origins: impl Iterator<Item = &'a Origin>) {
        for origin in origins {
            self.add(KeyKind::Origin, &[&origin.owner_id.to_le_bytes(), &origin.post_id.to_le_bytes()]);
        }
    }

    fn contents(&mut self, sketch: &Sketch) {
        for phone in &sketch.phones {
            self.add(KeyKind::Phone, &[phone.as_bytes()]);
        }
        for account in &sketch.accounts {
            self.add(KeyKind::Account, &[&account.to_le_bytes()]);
        }
        for person in &sketch.people {
            self.add(KeyKind::Person, &[&person.to_le_bytes()]);
        }
        for (band, value) in sketch.text.bands() {
            self.add(KeyKind::Text, &[&[band], &value.to_le_bytes()]);
        }
        self.named(sketch);
    }

    /// Names and places repeat from town to town, so they are looked up within one.
    fn named(&mut self, sketch: &Sketch) {
        for scope in scopes(sketch) {
            if let Some(breed) = &sketch.breed {
                self.add(KeyKind::Breed, &[scope.as_bytes(), breed.as_bytes()]);
            }
            for word in sketch.names.iter().flat_map(|name| &name.stems) {
                self.add(KeyKind::Name, &[scope.as_bytes(), word.as_bytes()]);
            }
            for word in sketch.places.iter().flat_map(|place| &place.words).chain(&sketch.referred) {
                self.add(KeyKind::Place, &[scope.as_bytes(), word.as_bytes()]);
            }
        }
    }

    fn recent(&mut self, sketch: &Sketch) {
        let owner = sketch.origin.owner_id.to_le_bytes();
        for animal in likely_animals(sketch) {
            self.add(KeyKind::Recent, &[&owner, animal.name().as_bytes()]);
        }
    }

    /// The latest cases of one town, species and kind.
    fn recent_of(&mut self, sketch: &Sketch, kind: Kind) {
        for town in scopes(sketch) {
            for animal in likely_animals(sketch) {
                self.add(
                    KeyKind::Recent,
                    &[town.as_bytes(), animal.name().as_bytes(), kind.name().as_bytes()],
                );
            }
        }
    }

    fn done(mut self) -> Vec<CaseKey> {
        self.keys.sort_by_key(|key| key.kind);
        self.keys
    }
}

/// What is not said, or only guessed, is most likely a dog or a cat.
fn likely_animals(sketch: &Sketch) -> Vec<Animal> {
    let known = !matches!(sketch.animal, Animal::Unknown | Animal::Several);
    let mut animals = if known { vec![sketch.animal] } else { Vec::new() };
    if !known || !sketch.animal_sure {
        animals.extend([Animal::Dog, Animal::Cat].into_iter().filter(|animal| *animal != sketch.animal));
    }
    animals
}

/// The towns a post may be looked for in: the one it names, its source's home, or else the source itself.
fn scopes(sketch: &Sketch) -> Vec<String> {
    let mut scopes: Vec<String> = sketch.city.iter().chain(&sketch.home_city).cloned().collect();
    scopes.dedup();
    if scopes.is_empty() {
        scopes.push(sketch.origin.owner_id.to_string());
    }
    scopes
}

/// What is remembered of a case, as one JSON value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    pub id: CaseId,
    /// In order of arrival; at most `MEMBERS_MAX`.
    pub members: Vec<Sketch>,
    /// How many posts were attached in all.
    pub posts: u32,
    /// The first and the latest date of a post.
    pub opened_at: i64,
    pub last_seen_at: i64,
    /// When a post said that the story had ended.
    pub closed_at: Option<i64>,
    /// The latest date of a post of each kind: what the dedup window is measured from.
    pub last_of_kind: Vec<(Kind, i64)>,
}

impl CaseRecord {
    pub fn open(id: CaseId, sketch: Sketch) -> CaseRecord {
        let date = sketch.date;
        let mut record = CaseRecord {
            id,
            members: Vec::new(),
            posts: 0,
            opened_at: date,
            last_seen_at: date,
            closed_at: None,
            last_of_kind: Vec::new(),
        };
        record.absorb(sketch);
        record
    }

    /// Adds a post; of many the second half of the memory holds the latest.
    pub fn absorb(&mut self, sketch: Sketch) {
        self.posts = self.posts.saturating_add(1);
        self.opened_at = self.opened_at.min(sketch.date);
        self.last_seen_at = self.last_seen_at.max(sketch.date);
        if sketch.kind == Kind::Reunited {
            self.closed_at = Some(self.closed_at.map_or(sketch.date, |at| at.min(sketch.date)));
        }
        match self.last_of_kind.iter_mut().find(|(kind, _)| *kind == sketch.kind) {
            Some((_, at)) => *at = (*at).max(sketch.date),
            None => self.last_of_kind.push((sketch.kind, sketch.date)),
        }
        if self.members.len() >= MEMBERS_MAX {
            self.members.remove(MEMBERS_MAX / 2);
        }
        self.members.push(sketch);
    }

    /// When the case was last announced with this kind, as the dedup window wants to know.
    pub fn last_of(&self, kind: Kind) -> Option<i64> {
        self.last_of_kind.iter().find(|(known, _)| *known == kind).map(|(_, at)| *at)
    }
}

/// A known picture and its case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pictured {
    pub picture: PictureHash,
    pub case: CaseId,
}

/// One key and the cases found under it, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub key: CaseKey,
    pub cases: Vec<CaseId>,
}

/// Where known cases are kept. Every call is bounded by their arguments, whatever is stored.
pub trait CaseIndex {
    type Error;

    /// For each key the cases under it, most recently seen first, at most `limit` each.
    fn find(&self, keys: &[CaseKey], limit: usize) -> Result<Vec<Found>, Self::Error>;

    /// For each key the pictures under it, most recently seen first, at most `limit` each.
    fn pictures(&self, keys: &[CaseKey], limit: usize) -> Result<Vec<Pictured>, Self::Error>;

    /// The records of these cases; those that are gone are left out.
    fn records(&self, cases: &[CaseId]) -> Result<Vec<Cow<'_, CaseRecord>>, Self::Error>;
}

/// Looks a post up: the cases to weigh, at most `CANDIDATES_MAX`.
pub fn candidates<I: CaseIndex>(sketch: &Sketch, index: &I) -> Result<Vec<CaseId>, I::Error> {
    let found = index.find(&lookup_keys(sketch), CANDIDATES_PER_KEY)?;
    let bands: Vec<CaseKey> = sketch.pictures.iter().flat_map(|picture| picture_keys(*picture)).collect();
    let known = if bands.is_empty() { Vec::new() } else { index.pictures(&bands, PICTURES_PER_KEY)? };
    Ok(choose(sketch, found, &known))
}

/// The pure half of `candidates`, for an index that answers asynchronously.
pub fn choose(sketch: &Sketch, mut found: Vec<Found>, known: &[Pictured]) -> Vec<CaseId> {
    for picture in &sketch.pictures {
        found.push(Found { key: picture_keys(*picture)[0], cases: near_cases(*picture, known) });
    }
    found.sort_by_key(|found| found.key);
    shortlist(&found)
}

/// The cases of the pictures that look the same, nearest first.
fn near_cases(picture: PictureHash, known: &[Pictured]) -> Vec<CaseId> {
    let mut near: Vec<(u32, CaseId)> = known
        .iter()
        .map(|known| (picture.distance(known.picture), known.case))
        .filter(|(distance, _)| *distance <= PICTURE_NEAR_DISTANCE)
        .collect();
    near.sort_unstable();
    let mut cases = Vec::new();
    for (_, case) in near {
        if !cases.contains(&case) && cases.len() < CANDIDATES_PER_KEY {
            cases.push(case);
        }
    }
    cases
}

/// Chooses whom to score: the most trusted keys first, round by round, so that a crowded key cannot push out the rest.
fn shortlist(found: &[Found]) -> Vec<CaseId> {
    let mut chosen: Vec<CaseId> = Vec::new();
    for rank in 0..CANDIDATES_PER_KEY {
        for entry in found {
            if chosen.len() == CANDIDATES_MAX {
                return chosen;
            }
            if let Some(case) = entry.cases.get(rank)
                && !chosen.contains(case)
            {
                chosen.push(*case);
            }
        }
    }
    chosen
}
