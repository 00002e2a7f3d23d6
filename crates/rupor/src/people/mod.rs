//! Lists of people as they come from spreadsheets: CSV and JSONL become recipients, line by line.
//!
//! Nothing is held but the line at hand. A line that cannot be used is given back with the reason.

pub(crate) mod csv;
pub(crate) mod read;

pub(crate) use read::{Columns, List, Whose};
