//! How well posts are read: labelled posts, weights fitted without one writer, and the score on the one left out.

pub mod corpus;
pub mod fit;
pub mod folds;
pub mod score;

#[cfg(test)]
mod tests;
