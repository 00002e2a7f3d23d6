//! Decides which case a post belongs to: looks up, weighs, and takes a case only when one fits clearly best.
//! Wrong merges are worse than missed ones, so every doubt opens a new case.

use std::borrow::Borrow;

use super::book::CaseBook;
use super::index::{CaseIndex, CaseRecord, candidates};
use super::reference::Closing;
use super::sketch::Sketch;
use super::weigh::{Crowd, Reason, Weighing, weigh};
use super::weights::CLAIM_SCORE;
use crate::content::{Animal, Belonging, CaseDecision, Kind, RelatedCase, Sex};
use crate::ids::CaseId;

/// Suggestions kept with a decision.
pub const RELATED_MAX: usize = 3;

/// What was decided about one post.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub outcome: CaseMatch,
    /// Cases that may be about the same animal, best first.
    pub related: Vec<Scored>,
    /// How many cases were weighed.
    pub weighed: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CaseMatch {
    /// The post belongs to this case.
    Same(Scored),
    /// A case of its own, and why the best known one was not taken, if any came near.
    New { nearest: Option<Scored> },
}

/// A case with what spoke for and against it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    pub case: CaseId,
    pub score: i32,
    pub reasons: Vec<Reason>,
    pub vetoes: Vec<String>,
}

/// Looks up and decides; `None` when the post is about no single case.
pub fn assign<I: CaseIndex>(sketch: &Sketch, index: &I) -> Result<Option<Decision>, I::Error> {
    let records = index.records(&candidates(sketch, index)?)?;
    Ok(decide(sketch, &records))
}

/// Decides between the cases that were looked up.
///
/// The order of `records` does not matter: equal scores are ambiguous, not a race.
pub fn decide(sketch: &Sketch, records: &[impl Borrow<CaseRecord>]) -> Option<Decision> {
    let crowd = Crowd::count(sketch, records);
    let mut weighed: Vec<(CaseId, Weighing)> =
        records.iter().map(|record| (record.borrow().id, weigh(sketch, record.borrow(), &crowd))).collect();
    weighed.sort_by_key(|(case, weighing)| (-weighing.score, case.0));
    let best = best_same(sketch, &weighed);
    if best.is_none() && !opens_a_case(sketch) {
        return None;
    }
    let related = weighed
        .iter()
        .filter(|(case, weighing)| weighing.is_related() && best != Some(*case))
        .take(RELATED_MAX)
        .map(|(case, weighing)| scored(*case, weighing))
        .collect();
    let outcome = match best.and_then(|best| weighed.iter().find(|(case, _)| *case == best)) {
        Some((case, weighing)) => CaseMatch::Same(scored(*case, weighing)),
        None => CaseMatch::New { nearest: weighed.first().map(|(case, weighing)| scored(*case, weighing)) },
    };
    Some(Decision { outcome, related, weighed: records.len() })
}

/// The one case that fits, unless another fits nearly as well.
fn best_same(sketch: &Sketch, weighed: &[(CaseId, Weighing)]) -> Option<CaseId> {
    let mut fitting: Vec<_> = weighed.iter().filter(|(_, weighing)| weighing.is_same(sketch)).collect();
    // Who says that the owners turned up speaks of the finder's case first.
    // A happy end that calls the animal by name means the case of that name, not what was seen of it.
    let unnamed = |weighing: &Weighing| sketch.kind == Kind::Reunited && !weighing.calls_it();
    fitting.sort_by_key(|(_, weighing)| (weighing.other_voice, unnamed(weighing)));
    let (case, best) = fitting.first()?;
    let may_join = opens_a_case(sketch)
        || best.reposted
        || sketch.wordless
        || sketch.kind == Kind::Other
        || !sketch.kind_sure && best.shows_it();
    if !may_join || told_by_another(sketch, best, weighed) {
        return None;
    }
    match fitting.get(1) {
        Some((_, second)) if second.rivals(best) && unnamed(second) == unnamed(best) => None,
        _ => Some(*case),
    }
}

/// A happy end that fits one case, while the other side of the story may be its own: whose is it?
fn told_by_another(sketch: &Sketch, best: &Weighing, weighed: &[(CaseId, Weighing)]) -> bool {
    // A finder's happy end names the animal as its owner does; that alone does not make it the owner's post.
    if best.other_voice && !best.points_at_it() {
        return true;
    }
    let unclear = best.other_voice || (sketch.closing == Closing::Unsaid && !best.same_source);
    let claims = |other: &Weighing| {
        let own_voice = if best.other_voice { !other.other_voice } else { other.same_source };
        own_voice && other.vetoes.is_empty() && other.score >= CLAIM_SCORE
    };
    unclear && !best.reposted && weighed.iter().any(|(_, other)| !std::ptr::eq(other, best) && claims(other))
}

/// News, advertisements and rules are about nobody in particular.
fn opens_a_case(sketch: &Sketch) -> bool {
    match sketch.kind {
        Kind::News | Kind::Ad | Kind::Link | Kind::Empty | Kind::Other => false,
        Kind::Fundraising => sketch.animal != Animal::Unknown || !sketch.names.is_empty(),
        Kind::Lost | Kind::Found | Kind::Sighting | Kind::Reunited | Kind::Adoption => true,
    }
}

fn scored(case: CaseId, weighing: &Weighing) -> Scored {
    Scored { case, score: weighing.score, reasons: weighing.reasons.clone(), vetoes: weighing.vetoes.clone() }
}

impl Decision {
    pub fn same_as(&self) -> Option<CaseId> {
        match &self.outcome {
            CaseMatch::Same(scored) => Some(scored.case),
            CaseMatch::New { .. } => None,
        }
    }

    /// The decision in words, for a post that was filed under `case`.
    pub fn spoken(&self, case: CaseId, book: &CaseBook) -> CaseDecision {
        let (verdict, score, reasons) = match &self.outcome {
            CaseMatch::Same(scored) => (Belonging::Same, scored.score, scored.spoken()),
            CaseMatch::New { .. } => (Belonging::New, 0, Vec::new()),
        };
        let (animal, sex) = book.record(case).map_or_else(Default::default, known_look);
        let related = self.related.iter().map(|scored| RelatedCase {
            case: case_name(scored.case),
            score: scored.score,
            reasons: scored.spoken(),
        });
        CaseDecision {
            case: case_name(case),
            verdict,
            score,
            reasons,
            related: related.collect(),
            animal,
            sex,
        }
    }
}

impl Scored {
    /// Each reason as a phrase with its points, strongest first.
    pub fn spoken(&self) -> Vec<String> {
        let against = self.vetoes.iter().map(|veto| format!("not one story: {veto}"));
        against
            .chain(self.reasons.iter().map(|reason| format!("{} {:+}", reason.words, reason.points)))
            .collect()
    }
}

/// How a case is called in listings.
pub fn case_name(case: CaseId) -> String {
    format!("c{case}")
}

fn known_look(record: &CaseRecord) -> (Animal, Sex) {
    let animal = record.members.iter().map(|member| member.animal).find(|animal| *animal != Animal::Unknown);
    let sex = record.members.iter().map(|member| member.sex).find(|sex| *sex != Sex::Unknown);
    (animal.unwrap_or_default(), sex.unwrap_or_default())
}
