//! Tables of markup.
