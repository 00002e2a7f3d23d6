//! Rupor: domain.
