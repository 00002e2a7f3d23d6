//! Photos as they are given and as they are answered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Kind;

/// The same as a form: photos are files, everything else is text.
#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct MessageForm {
    #[schema(max_length = 50_000)]
    text: Option<String>,
    title: Option<String>,
    /// Files.
    #[schema(max_items = 10, inline)]
    photo: Option<Vec<File>>,
    #[schema(min_length = 1, max_length = 200)]
    origin_id: Option<String>,
    #[schema(format = "uri")]
    url: Option<String>,
    date: Option<i64>,
    #[schema(inline)]
    kind: Option<Kind>,
    channels: Option<Vec<String>>,
    dry_run: Option<bool>,
}

/// The bytes of a file.
#[derive(Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
struct File(String);

/// An address, or the picture itself.
#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(untagged)]
pub(in crate::http::api) enum Photo {
    #[schema(format = "uri")]
    Address(String),
    Bytes(PhotoBytes),
}

#[derive(Debug, ToSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http::api) struct PhotoBytes {
    #[schema(content_encoding = "base64")]
    pub data: String,
    #[serde(default)]
    #[schema(max_length = 200)]
    pub name: String,
}

/// A photo, a video or a file of a message.
#[derive(Debug, ToSchema, Serialize)]
pub(in crate::http::api) struct KeptPhoto {
    /// SHA-256 of its bytes; `null` while it was not fetched, and goes by its address.
    #[schema(required)]
    pub id: Option<String>,
    /// photo video animation document audio
    pub kind: String,
    #[schema(required)]
    pub mime: Option<String>,
    #[schema(required)]
    pub bytes: Option<u64>,
    #[schema(required)]
    pub width: Option<u32>,
    #[schema(required)]
    pub height: Option<u32>,
    /// Where it was taken from.
    #[schema(required)]
    pub url: Option<String>,
    /// Where its bytes can be asked for here; `null` while they are not kept.
    #[schema(required)]
    pub href: Option<String>,
}
