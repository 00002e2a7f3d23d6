//! Rupor: sandbox.
