//! The examples of `docs/content.md` are true.
