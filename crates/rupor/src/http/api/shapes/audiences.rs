//! Audiences and their people as they are answered.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Audiences {
    items: Vec<Audience>,
}

#[derive(Debug, ToSchema, Serialize)]
pub(in crate::http::api) struct Audience {
    pub name: String,
    /// Imported; those of a filter are counted when a campaign asks, or `/count`.
    pub people: i64,
    #[schema(value_type = Option<Object>, required)]
    pub filter: Option<Value>,
    pub created_at: String,
}

#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct AudienceCount {
    audience: String,
    /// Of one person on two accounts both count.
    people: i64,
    /// Of these, who may be written to.
    reachable: i64,
}

/// A page, which may be short or longer by one person's accounts; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct People {
    items: Vec<PersonOfAudience>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
struct PersonOfAudience {
    address: String,
    account: String,
    /// active stopped gone
    status: String,
    suppressed: bool,
    #[schema(required)]
    time_zone: Option<String>,
    #[schema(value_type = Object)]
    attributes: Value,
}

#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Imported {
    /// New on this account.
    imported: i64,
    /// Known before.
    updated: i64,
}

/// A page; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Suppressions {
    items: Vec<Suppression>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
struct Suppression {
    address: String,
    platform: String,
    /// Without it on every account of the platform.
    #[schema(required)]
    account: Option<String>,
    /// manual imported stopped blocked deactivated complaint
    reason: String,
    /// operator recipient platform
    origin: String,
    at: String,
}

#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Suppressed {
    people: i64,
    /// Of these, who was not suppressed so before.
    suppressed: i64,
}

#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Lifted {
    address: String,
    lifted: i64,
    /// Still, on every account of the platform.
    suppressed: bool,
    /// known active stopped gone; null: nobody is known by this id on this account
    #[schema(required)]
    status: Option<String>,
}
