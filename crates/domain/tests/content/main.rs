//! What a post says: the corpora with their floors, the tables of rules, and what holds for any text.

mod corpus;
mod documents;
mod explained;
mod fingerprint;
mod properties;
mod rules;
mod scopes;
mod score;
mod sixty;
