//! Campaigns as they are answered.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub(in crate::http::api) enum CampaignVerb {
    Start,
    Pause,
    Resume,
    Cancel,
}

#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Campaigns {
    items: Vec<CampaignLine>,
}

#[derive(Debug, ToSchema, Serialize)]
pub(in crate::http::api) struct CampaignLine {
    pub name: String,
    pub state: String,
    #[schema(required)]
    pub why: Option<String>,
}

#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Campaign {
    name: String,
    /// draft scheduled preparing running paused finishing finished cancelling cancelled aborted
    state: String,
    #[schema(required)]
    why: Option<String>,
    /// The sum of the others.
    total: i64,
    waiting: i64,
    queued: i64,
    in_flight: i64,
    sent: i64,
    failed: i64,
    dead: i64,
    excluded: i64,
    /// Why people were left out, and how many.
    #[schema(value_type = Object)]
    excluded_by: Value,
    /// Why others did not get it, and how many, by the code of the report.
    #[schema(value_type = Object)]
    ended_by: Value,
    #[schema(required)]
    eta_seconds: Option<f64>,
}

#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Preview {
    audience: i64,
    /// Why people are left out, and how many.
    #[schema(value_type = Object)]
    excluded: Value,
    /// How it reads, variant by variant: for the first people, and for the one with the longest text.
    samples: Vec<String>,
    said: Vec<Said>,
    /// Now, or when it is planned to start.
    starts_at: String,
    #[schema(required)]
    duration_s: Option<f64>,
}

#[derive(Debug, ToSchema)]
struct Said {
    /// Several say the same once one of them was chosen.
    variants: Vec<String>,
    samples: Vec<String>,
    pictures: i64,
    buttons: Vec<String>,
}

/// A page; without `next_cursor` it is the last.
#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Report {
    items: Vec<Member>,
    #[schema(required)]
    next_cursor: Option<String>,
}

#[derive(Debug, ToSchema)]
struct Member {
    address: String,
    #[schema(required)]
    account: Option<String>,
    /// sent failed dead gone excluded cancelled, and on the way waiting queued retry sending
    state: String,
    #[schema(required)]
    code: Option<String>,
    #[schema(required)]
    provider_message_id: Option<String>,
    #[schema(required)]
    at: Option<String>,
}

/// What a test of a campaign has queued.
#[derive(Debug, ToSchema)]
pub(in crate::http::api) struct Tried {
    campaign: String,
    queued: i64,
    /// How each of them ends, `/v1/deliveries/{id}` tells.
    deliveries: Vec<i64>,
}
