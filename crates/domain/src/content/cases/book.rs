//! Cases kept in memory: what `rupor analyse` and the tests use, and the model that the store is compared with.

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;

use super::decide::{Decision, assign};
use super::index::{CANDIDATES_PER_KEY, CaseIndex, CaseKey, CaseRecord, Found, stored_keys};
use super::sketch::Sketch;
use crate::content::picture::PictureHash;
use crate::content::similarity::{mix, stable_hash};
use crate::content::{CaseDecision, Casework, Cleaned, Facts, Post};
use crate::ids::CaseId;

/// Known cases in memory.
#[derive(Debug, Default)]
pub struct CaseBook {
    records: Vec<CaseRecord>,
    /// Oldest first; only the newest `CANDIDATES_PER_KEY` are kept.
    under: HashMap<CaseKey, Vec<u32>>,
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
        let keys = stored_keys(&sketch);
        let id = match case.and_then(|case| self.records.get_mut(position(case)?)) {
            Some(record) => {
                record.absorb(sketch);
                record.id
            }
            None => {
                let id = CaseId(self.records.len() as i64 + 1);
                self.records.push(CaseRecord::open(id, sketch));
                id
            }
        };
        for key in keys {
            self.file(key, id);
        }
        id
    }

    fn file(&mut self, key: CaseKey, id: CaseId) {
        let position = (id.0 - 1) as u32;
        let cases = self.under.entry(key).or_default();
        cases.retain(|known| *known != position);
        if cases.len() >= CANDIDATES_PER_KEY {
            cases.remove(0);
        }
        cases.push(position);
    }
}

fn position(case: CaseId) -> Option<usize> {
    usize::try_from(case.0).ok()?.checked_sub(1)
}

impl CaseIndex for CaseBook {
    type Error = Infallible;

    fn find(&self, keys: &[CaseKey], limit: usize) -> Result<Vec<Found>, Infallible> {
        let found = keys.iter().filter_map(|key| {
            let cases = self.under.get(key)?;
            let cases = cases.iter().rev().take(limit).map(|at| CaseId(i64::from(*at) + 1)).collect();
            Some(Found { key: *key, cases })
        });
        Ok(found.collect())
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
