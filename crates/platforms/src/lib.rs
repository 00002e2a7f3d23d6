//! Rupor: platforms.
