//! Rupor: store.
