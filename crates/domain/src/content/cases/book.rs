//! Cases kept in memory: what `rupor analyse` and the tests use, and the model that the store is compared with.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::hash::BuildHasherDefault;

use super::decide::{Decision, assign};
use super::index::{
    CANDIDATES_PER_KEY, CaseIndex, CaseKey, CaseRecord, Found, PICTURES_PER_KEY, Pictured, picture_keys,
    stored_keys,
};
use super::sketch::Sketch;
use crate::content::lexicon::WordHasher;
use crate::content::picture::PictureHash;
use crate::content::similarity::{mix, stable_hash};
use crate::content::{CaseDecision, Casework, Cleaned, Facts, Post};
use crate::ids::CaseId;

/// Known cases in memory.
#[derive(Debug, Default)]
pub struct CaseBook {
    records: Vec<CaseRecord>,
    /// Positions in `records` under each key.
    under: Shelves<u32>,
    /// Pictures under each band, with the position of their case.
    pictures: Shelves<(PictureHash, u32)>,
}

/// Keys are hashes already.
type Shelves<T> = HashMap<i64, Shelf<T>, BuildHasherDefault<WordHasher>>;

/// What stands under one key, oldest first; most keys hold one thing.
#[derive(Debug)]
enum Shelf<T> {
    One([T; 1]),
    Many(Vec<T>),
}

impl<T: Copy + PartialEq> Shelf<T> {
    fn items(&self) -> &[T] {
        match self {
            Shelf::One(item) => item,
            Shelf::Many(items) => items,
        }
    }

    /// Puts an item last; beyond `limit` the oldest one falls off.
    fn put(&mut self, item: T, limit: usize) {
        match self {
            Shelf::One(only) if only[0] == item => {}
            Shelf::One(only) => *self = Shelf::Many(vec![only[0], item]),
            Shelf::Many(items) => {
                items.retain(|known| *known != item);
                if items.len() >= limit {
                    items.remove(0);
                }
                items.push(item);
            }
        }
    }
}

fn put<T: Copy + PartialEq>(shelves: &mut Shelves<T>, key: CaseKey, item: T, limit: usize) {
    match shelves.entry(key.value) {
        Entry::Occupied(mut shelf) => shelf.get_mut().put(item, limit),
        Entry::Vacant(place) => {
            place.insert(Shelf::One([item]));
        }
    }
}

impl CaseBook {
    pub fn new() -> CaseBook {
        CaseBook::default()
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn record(&self, case: CaseId) -> Option<&CaseRecord> {
        self.records.get(position(case)?)
    }

    /// Decides and remembers; `None` when the post is about no single case.
    pub fn take_in(&mut self, sketch: Sketch) -> Option<(CaseId, Decision)> {
        let decision = match assign(&sketch, self) {
            Ok(decision) => decision?,
            Err(never) => match never {},
        };
        let case = self.remember(decision.same_as(), sketch);
        Some((case, decision))
    }

    /// Files a post under a known case, or under a new one.
    pub fn remember(&mut self, case: Option<CaseId>, sketch: Sketch) -> CaseId {
        let known = case.and_then(position).filter(|at| *at < self.records.len());
        let at = known.unwrap_or(self.records.len());
        for key in stored_keys(&sketch) {
            put(&mut self.under, key, at as u32, CANDIDATES_PER_KEY);
        }
        for picture in &sketch.pictures {
            for key in picture_keys(*picture) {
                put(&mut self.pictures, key, (*picture, at as u32), PICTURES_PER_KEY);
            }
        }
        match known {
            Some(at) => self.records[at].absorb(sketch),
            None => self.records.push(CaseRecord::open(case_at(at as u32), sketch)),
        }
        case_at(at as u32)
    }
}

fn case_at(position: u32) -> CaseId {
    CaseId(i64::from(position) + 1)
}

fn position(case: CaseId) -> Option<usize> {
    usize::try_from(case.0).ok()?.checked_sub(1)
}

impl CaseIndex for CaseBook {
    type Error = Infallible;

    fn find(&self, keys: &[CaseKey], limit: usize) -> Result<Vec<Found>, Infallible> {
        let found = keys.iter().filter_map(|key| {
            let cases = self.under.get(&key.value)?.items();
            Some(Found { key: *key, cases: cases.iter().rev().take(limit).map(|at| case_at(*at)).collect() })
        });
        Ok(found.collect())
    }

    fn pictures(&self, keys: &[CaseKey], limit: usize) -> Result<Vec<Pictured>, Infallible> {
        let shelves = keys.iter().filter_map(|key| self.pictures.get(&key.value));
        let items = shelves.flat_map(|shelf| shelf.items().iter().rev().take(limit));
        Ok(items.map(|(picture, at)| Pictured { picture: *picture, case: case_at(*at) }).collect())
    }

    fn records(&self, cases: &[CaseId]) -> Result<Vec<Cow<'_, CaseRecord>>, Infallible> {
        Ok(cases.iter().filter_map(|case| self.record(*case)).map(Cow::Borrowed).collect())
    }
}

impl Casework for CaseBook {
    fn assign(&mut self, post: &Post, facts: &Facts, cleaned: &Cleaned) -> Option<CaseDecision> {
        let pictures: Vec<PictureHash> = post.photos.iter().map(|photo| hash_of_id(photo)).collect();
        let sketch = Sketch::new(post, facts, cleaned, &pictures);
        let (case, decision) = self.take_in(sketch)?;
        Some(decision.spoken(case, self))
    }
}

/// Stands in for the look of a picture when only its id is known: the same id gives the same bits, and a trailing `~`
/// (the same picture, changed a little) flips a few of them.
pub fn hash_of_id(id: &str) -> PictureHash {
    let (id, changed) = id.strip_suffix('~').map_or((id, false), |id| (id, true));
    let across = stable_hash(id.as_bytes());
    let down = mix(across);
    let flips = if changed { CHANGED_BITS } else { 0 };
    PictureHash { across: across ^ flips, down: down ^ (flips & 1) }
}

/// Four bits in all, as a recompressed picture differs by.
const CHANGED_BITS: u64 = 0x0000_0010_0000_2001;
