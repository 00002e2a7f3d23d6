//! Campaigns and audiences for programs: the verbs of the command line, by tokens.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::audience::Filter;
use engine::campaigns::policy::Policy;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Campaign, Person};
use utoipa::ToSchema;

use super::access::{Caller, Operates, Reads};
use super::act::{Order, done, hand, object, read_order};
use super::ask::told;
use super::page::Asked;
use super::shapes::{self, Audience, CampaignLine};
use super::{ApiError, ingest, strict};
use crate::http::Site;
use crate::operate::Verb;
use crate::operate::campaigns::{AudienceOrder, CampaignOrder, Words, foretold, how_it_stands, told_member};

type Answer = Result<Json<Value>, ApiError>;

/// Bytes of a body.
const BODY_MAX: usize = 256 * 1024;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewAudience {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Those on whom it fits, as `rupor audience new --filter` takes it; {} is everybody.
    #[schema(value_type = Object)]
    filter: Value,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCampaign {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Names of accounts, in order of preference.
    #[schema(min_items = 1)]
    accounts: Vec<String>,
    /// What is said; a template over the attributes of each person.
    #[schema(min_length = 1)]
    text: String,
    /// Without it everybody on these accounts.
    #[serde(default)]
    audience: Option<String>,
    /// Rate, window, guards and the like: the keys of the policy file of `rupor campaign new --policy`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
}

async fn body<T: serde::de::DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
    ingest::check_headers(headers)?;
    let bytes = ingest::read_body(body, BODY_MAX).await?;
    let value = strict::value(&bytes)
        .map_err(|error| ApiError::malformed(format!("the body is not JSON: {error}")))?;
    object(value)
}

async fn named(site: &Site, caller: &Caller, name: &str) -> Result<Campaign, ApiError> {
    let campaigns = site.node.store.campaigns(caller.ws).await.map_err(told)?;
    let found = campaigns.into_iter().find(|campaign| campaign.name == name);
    found.ok_or_else(|| ApiError::absent("there is no such campaign; GET /v1/campaigns lists them"))
}

#[utoipa::path(get, path = "/v1/audiences", operation_id = "audiences", summary = "Audiences",
    responses((status = 200, body = shapes::Audiences, description = "All of them"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn audiences(State(site): State<Site>, Reads(caller): Reads) -> Answer {
    let rows = site.node.store.audiences(caller.ws).await.map_err(told)?;
    let items = rows.into_iter().map(|row| Audience {
        name: row.name,
        people: row.people,
        filter: row.filter,
        created_at: row.created_at.rfc3339(),
    });
    Ok(Json(json!({"items": items.collect::<Vec<_>>()})))
}

#[utoipa::path(post, path = "/v1/audiences", operation_id = "newAudience", summary = "A name for those on whom a filter fits",
    request_body = NewAudience,
    responses((status = 201, body = Object, description = "Made"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn new_audience(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    said: Body,
) -> Result<Response, ApiError> {
    let new: NewAudience = body(&headers, said).await?;
    let filter: Filter = serde_json::from_value(new.filter)
        .map_err(|error| ApiError::field("filter", format!("cannot be read: {error}")))?;
    let order = AudienceOrder::New { name: new.name, filter };
    let verb = Verb::Audience { workspace: caller.workspace.clone(), order };
    let made = done(&hand(&site, &caller, None), verb).await?;
    Ok((StatusCode::CREATED, made).into_response())
}

#[utoipa::path(get, path = "/v1/campaigns", operation_id = "campaigns", summary = "Campaigns",
    responses((status = 200, body = shapes::Campaigns, description = "All of them"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn list(State(site): State<Site>, Reads(caller): Reads) -> Answer {
    let rows = site.node.store.campaigns(caller.ws).await.map_err(told)?;
    let line = |row: Campaign| CampaignLine { name: row.name, state: row.status.to_string(), why: row.why };
    Ok(Json(json!({"items": rows.into_iter().map(line).collect::<Vec<_>>()})))
}

#[utoipa::path(post, path = "/v1/campaigns", operation_id = "newCampaign", summary = "A draft; nothing is sent before it is started",
    request_body = NewCampaign,
    responses((status = 201, body = shapes::Campaign, description = "The draft"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn create(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    said: Body,
) -> Result<Response, ApiError> {
    let new: NewCampaign = body(&headers, said).await?;
    if new.text.trim().is_empty() {
        return Err(ApiError::field("text", "is empty: nothing would be said"));
    }
    if new.accounts.is_empty() {
        return Err(ApiError::field("accounts", "is empty: nobody would say it"));
    }
    let policy: Policy = serde_json::from_value(new.policy.unwrap_or_else(|| json!({})))
        .map_err(|error| ApiError::field("policy", error.to_string()))?;
    let words =
        Words { name: "a".to_owned(), weight: 1, text: new.text, photos: Vec::new(), buttons: Vec::new() };
    let order = CampaignOrder::New {
        accounts: new.accounts,
        audience: new.audience,
        variants: vec![words],
        policy: Box::new(policy),
        key: uuid::Uuid::new_v4().simple().to_string(),
    };
    let verb = Verb::Campaign { workspace: caller.workspace.clone(), campaign: new.name, order };
    let made = done(&hand(&site, &caller, None), verb).await?;
    Ok((StatusCode::CREATED, made).into_response())
}

#[utoipa::path(get, path = "/v1/campaigns/{name}", operation_id = "campaign", summary = "How a campaign stands",
    params(("name" = String, Path)),
    responses((status = 200, body = shapes::Campaign, description = "The sums"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn status(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path(name): Path<String>,
) -> Answer {
    let campaign = named(&site, &caller, &name).await?;
    how_it_stands(&site.node.store, &campaign).await.map(Json).map_err(|error| ApiError::inside(&error))
}

#[utoipa::path(get, path = "/v1/campaigns/{name}/preview", operation_id = "campaignPreview",
    summary = "Who would get it, what it would say, and how long it would take", params(("name" = String, Path)),
    responses((status = 200, body = shapes::Preview, description = "Nothing is changed"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn preview(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path(name): Path<String>,
) -> Answer {
    let campaign = named(&site, &caller, &name).await?;
    let told = foretold(&site.node.store, &campaign).await;
    told.map(|(value, _)| Json(value)).map_err(|error| ApiError::invalid("refused", format!("{error:#}")))
}

#[utoipa::path(get, path = "/v1/campaigns/{name}/report", operation_id = "campaignReport", summary = "Who got it and who did not",
    params(("name" = String, Path), shapes::Paging),
    responses((status = 200, body = shapes::Report, description = "A page"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn report(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let (asked, after) = Asked::by_name(query.as_deref(), "report", caller.ws)?;
    let campaign = named(&site, &caller, &name).await?;
    let (platform, user_id) = after.split_once(' ').unwrap_or_default();
    let after = Person { platform: platform.to_owned(), user_id: user_id.to_owned() };
    let store = &site.node.store;
    let members =
        store.campaign_members(caller.ws, campaign.campaign_id, after, asked.limit).await.map_err(told)?;
    let accounts = store.accounts(caller.ws).await.map_err(told)?;
    let last = members.last().map(|member| format!("{} {}", member.person.platform, member.person.user_id));
    let line = |member: &store::Member| {
        let account = accounts.iter().find(|account| account.account_id == member.account_id);
        told_member(&campaign, member, account.map(|account| account.name.as_str()))
    };
    Ok(Json(asked.answer_by_name(members.iter().map(line).collect(), last.as_deref())))
}

#[utoipa::path(post, path = "/v1/campaigns/{name}/{verb}", operation_id = "operateCampaign",
    summary = "Starts, pauses, resumes or cancels a campaign; what is on its way ends by itself",
    params(("name" = String, Path), ("verb" = inline(shapes::CampaignVerb), Path)), request_body(content = Option<Order>),
    responses((status = 200, body = shapes::Campaign, description = "How it stands now"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn act(
    State(site): State<Site>,
    Operates(caller): Operates,
    Path((name, verb)): Path<(String, String)>,
    said: Body,
) -> Answer {
    let order = read_order(said).await?;
    let why = || order.reason.clone().unwrap_or_else(|| "by a program".to_owned());
    let wanted = match verb.as_str() {
        "start" => CampaignOrder::Start { at: None },
        "pause" => CampaignOrder::Pause { why: why() },
        "resume" => CampaignOrder::Resume,
        "cancel" => CampaignOrder::Cancel { why: why() },
        _ => return Err(ApiError::field("verb", "is not known; known are start, pause, resume, cancel")),
    };
    let campaign = named(&site, &caller, &name).await?.name;
    let verb = Verb::Campaign { workspace: caller.workspace.clone(), campaign, order: wanted };
    done(&hand(&site, &caller, order.reason.clone()), verb).await
}
