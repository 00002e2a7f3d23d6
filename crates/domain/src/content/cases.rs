//! Which case a post belongs to. This first form gives every case-worthy post a case of its own.

use super::{CaseDecision, Casework, Cleaned, Facts, Kind, Post, Verdict};

/// The cases known so far.
#[derive(Debug, Default)]
pub struct CaseBook {
    opened: u64,
}

impl Casework for CaseBook {
    fn assign(&mut self, _post: &Post, facts: &Facts, _cleaned: &Cleaned) -> Option<CaseDecision> {
        if matches!(facts.kind.value, Kind::News | Kind::Ad | Kind::Link | Kind::Empty | Kind::Other) {
            return None;
        }
        self.opened += 1;
        Some(CaseDecision {
            case: format!("c{}", self.opened),
            verdict: Verdict::New,
            score: 0,
            reasons: Vec::new(),
            related: Vec::new(),
            animal: facts.animal.value,
            sex: facts.sex.value,
        })
    }
}
