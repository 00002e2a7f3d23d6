//! The seam between facts and cases: what a caller needs to ask which case a post belongs to.
//! The decision itself lives in `cases`; this file must not know how it is made.

use serde::{Deserialize, Serialize};

use std::borrow::Cow;

use super::{Animal, Cleaned, Facts, Post, Sex};

/// Assigns posts, in order of date, to cases.
pub trait Casework {
    /// `None` when the post is about no single case (news, ads, rules, empty posts).
    fn assign(&mut self, post: &Post, facts: &Facts, cleaned: &Cleaned) -> Option<CaseDecision>;
}

/// Which case a post belongs to and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseDecision {
    /// Opaque and stable for the same sequence of posts.
    pub case: String,
    pub verdict: Belonging,
    /// Sum of the named weights that spoke for the verdict; zero for a new case.
    pub score: i32,
    /// Each a short phrase with its weight, strongest first.
    pub reasons: Vec<String>,
    /// Cases that may be about the same animal: suggestions, never merges.
    pub related: Vec<RelatedCase>,
    /// What the case knew before this post; fills what the post itself leaves out.
    pub animal: Animal,
    pub sex: Sex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Belonging {
    /// Nothing known fits: a case of its own.
    New,
    /// The same animal's same story.
    Same,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelatedCase {
    pub case: String,
    pub score: i32,
    pub reasons: Vec<String>,
}

/// What the post leaves out and its case knows: a closing "Марсель дома" says neither species nor sex.
pub fn fill_from_case<'f>(facts: &'f Facts, decision: Option<&CaseDecision>) -> Cow<'f, Facts> {
    let Some(decision) = decision.filter(|decision| decision.verdict == Belonging::Same) else {
        return Cow::Borrowed(facts);
    };
    let guessed = facts.animal.evidence.first().is_some_and(|evidence| evidence.rule == "animal.usual");
    let open = facts.animal.value == Animal::Unknown || guessed;
    let animal = open && decision.animal != Animal::Unknown;
    let sex = facts.sex.value == Sex::Unknown && decision.sex != Sex::Unknown && animal;
    if !animal && !sex {
        return Cow::Borrowed(facts);
    }
    let mut filled = facts.clone();
    if animal {
        filled.animal.value = decision.animal;
    }
    if sex {
        filled.sex.value = decision.sex;
    }
    Cow::Owned(filled)
}
