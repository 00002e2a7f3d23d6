//! The tree keeps its own rules. Each test reads the sources as text and names every place that breaks one.
//!
//! A rule that has to bend names the exception here, with the reason beside it; nothing is excepted silently.

mod borders;
mod manifests;
mod meaning;
mod tree;
