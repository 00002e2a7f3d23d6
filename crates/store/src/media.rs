//! The bytes that posts bring, kept once by their hash, and what the platforms call them; and what a door remembers of
//! the requests it answered. Nothing here fetches or sends.

use bytes::Bytes;
use domain::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Result, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMedia {
    /// SHA-256 of the bytes in lower-case hex.
    pub sha256: String,
    pub mime: String,
    pub bytes: Bytes,
    pub width: Option<i32>,
    pub height: Option<i32>,
    /// What it looks like, as the domain writes it.
    pub picture_hash: Option<String>,
    /// What it is known by at its source, so that it is fetched once.
    pub source_url: Option<String>,
}

impl NewMedia {
    pub(crate) fn validate(&self) -> Result<()> {
        let is_hash = self.sha256.len() == 64
            && self.sha256.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if !is_hash {
            return Err(StoreError::invalid("media", "the name is not a SHA-256 in lower-case hex"));
        }
        if self.bytes.is_empty() {
            return Err(StoreError::invalid("media", "there are no bytes"));
        }
        Ok(())
    }
}

/// What is known of kept bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MediaOrigin {
    pub sha256: String,
    pub mime: String,
    pub bytes_count: i64,
    pub width: Option<i32>,
    pub height: Option<i32>,
    pub picture_hash: Option<String>,
    pub source_url: Option<String>,
    pub last_used_at: Timestamp,
}

/// What a platform calls media that it has, for one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHandle {
    pub sha256: String,
    /// What it was sent as.
    pub kind: String,
    pub handle: String,
    pub expires_at: Option<Timestamp>,
}

/// What garbage collection removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CollectedMedia {
    pub media: u64,
    pub handles: u64,
}

/// Whether a door has answered this before.
#[derive(Debug, Clone, PartialEq)]
pub enum Receipt {
    New,
    /// The same request: the same answer.
    Same(Value),
    /// The key was used for another request.
    Conflict,
}

impl Receipt {
    pub(crate) fn of(kept: Option<(String, Value)>, request_hash: &str) -> Receipt {
        match kept {
            None => Receipt::New,
            Some((hash, response)) if hash == request_hash => Receipt::Same(response),
            Some(_) => Receipt::Conflict,
        }
    }
}

/// The kept bytes that a message shows.
pub(crate) fn blobs(payload: &Value) -> Vec<&str> {
    let media = payload["media"].as_array().into_iter().flatten();
    let mut blobs: Vec<&str> = media.filter_map(|media| media["blob"].as_str()).collect();
    blobs.sort_unstable();
    blobs.dedup();
    blobs
}
