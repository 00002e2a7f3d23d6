//! What another orchestrator asks.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A number, or its digits as text.
#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Digits(String),
}

#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http::api) struct AdapterSend {
    workspace_id: Id,
    delivery_id: Id,
    #[schema(format = "uuid")]
    claim_token: String,
}

#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http::api) struct Analyse {
    workspace_id: Id,
    source: String,
    base: String,
    /// One post, or posts, as /v1/ingest takes them; a post may name kept pictures as blobs.
    #[schema(value_type = Object)]
    body: Value,
}

#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http::api) struct KeepMedia {
    workspace_id: Id,
    name: Option<String>,
    #[schema(content_encoding = "base64")]
    data: String,
}

#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http::api) struct BotRead {
    platform: String,
    key: String,
    #[serde(default)]
    #[schema(value_type = Object)]
    headers: Value,
    body: Value,
}

#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http::api) struct BotDecide {
    #[schema(value_type = Object)]
    turn: Value,
}
