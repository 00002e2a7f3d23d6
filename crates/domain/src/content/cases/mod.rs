//! Which real-world case a post belongs to.
//!
//! A post becomes a `Sketch`; its keys find a bounded list of known cases; each is weighed with points that have a
//! sentence; a case is taken only when it fits, something identifies it, nothing forbids it and no other fits as well.
//! Read `decide`, then `weigh` with `weights`, then `index`. Nothing here knows how cases are stored or published.

pub mod book;
pub mod decide;
pub mod index;
pub mod invented;
pub mod marks;
pub mod reference;
pub mod sketch;
pub mod suggest;
pub mod weigh;
pub mod weights;

pub use book::CaseBook;
pub use decide::{CaseMatch, Decision, Scored, assign, decide};
pub use index::{
    CaseIndex, CaseKey, CaseRecord, Found, KeyKind, Pictured, candidates, choose, lookup_keys, picture_keys,
    stored_keys,
};
pub use sketch::{Origin, Sketch};
pub use suggest::{Hint, Suggestion, suggest};

#[cfg(test)]
mod tests;

#[cfg(test)]
mod corpus_tests;
