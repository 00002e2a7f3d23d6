//! How well posts are read: labelled posts, weights fitted without one writer, and the score on the one left out.

pub(crate) mod corpus;
pub(crate) mod fit;
pub(crate) mod folds;
pub(crate) mod real;
pub(crate) mod score;

#[cfg(test)]
mod tests;
