//! People for programs: who is meant together, who is taken in, and who must not be written to.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::audience::Filter;
use domain::ids::AccountId;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::{Person, SuppressionPlace, SuppressionReason};
use utoipa::ToSchema;

use super::ApiError;
use super::access::{Caller, Operates, Reads};
use super::act::{done, hand};
use super::ask::told;
use super::campaigns::{Answer, body, known_accounts};
use super::page::Asked;
use super::room::Place;
use super::shapes;
use crate::http::Site;
use crate::operate::Verb;
use crate::operate::audiences::{
    AudienceOrder, count as counted, find_audience, told_person, told_suppression, walk,
};
use crate::people::{self, read};

/// People of one call: what is imported is one transaction, and what waits for those who are suppressed ends in one.
const IMPORTED_MAX: usize = 5_000;
const SUPPRESSED_MAX: usize = 500;

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
pub(super) struct NewPeople {
    /// The account that these people use.
    account: String,
    /// `address` is the user id, `time_zone` a name such as Europe/Moscow, `chat` where a dialogue has an id of its own;
    /// every other field is something that texts can use, and an empty one is not known any more.
    #[schema(value_type = Vec<Object>, min_items = 1, max_items = 5000)]
    people: Vec<Map<String, Value>>,
    /// Why; it stands in the events.
    #[serde(default)]
    reason: Option<String>,
}

/// Who must not be written to unasked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSuppressions {
    account: String,
    /// User ids, of people who may also be unknown yet.
    #[schema(min_items = 1, max_items = 500)]
    addresses: Vec<String>,
    /// On every account of the platform.
    #[serde(default)]
    everywhere: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Who may be written to again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Lift {
    account: String,
    /// A user id.
    address: String,
    /// On every account of the platform.
    #[serde(default)]
    everywhere: bool,
    #[serde(default)]
    reason: Option<String>,
}

async fn named(site: &Site, caller: &Caller, name: &str) -> Result<store::Audience, ApiError> {
    let found = find_audience(&site.node.store, caller.ws, name).await;
    let found = found.map_err(|error| ApiError::inside(&error))?;
    found.ok_or_else(|| ApiError::absent("there is no such audience; GET /v1/audiences lists them"))
}

fn line(row: store::Audience) -> shapes::Audience {
    let created_at = row.created_at.rfc3339();
    shapes::Audience { name: row.name, people: row.people, filter: row.filter, created_at }
}

#[utoipa::path(get, path = "/v1/audiences", operation_id = "audiences", summary = "Audiences",
    responses((status = 200, body = shapes::Audiences, description = "All of them"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn list(State(site): State<Site>, Reads(caller): Reads) -> Answer {
    let rows = site.node.store.audiences(caller.ws).await.map_err(told)?;
    Ok(Json(json!({"items": rows.into_iter().map(line).collect::<Vec<_>>()})))
}

#[utoipa::path(post, path = "/v1/audiences", operation_id = "newAudience", summary = "A name for those on whom a filter fits",
    request_body = NewAudience,
    responses((status = 201, body = Object, description = "Made"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn create(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    said: Body,
) -> Result<Response, ApiError> {
    let (new, _place): (NewAudience, Place) = body(&site, &caller, &headers, said).await?;
    let filter: Filter = serde_json::from_value(new.filter)
        .map_err(|error| ApiError::field("filter", format!("cannot be read: {error}")))?;
    filter.check().map_err(|why| ApiError::field("filter", why))?;
    let made = order(&site, &caller, AudienceOrder::New { name: new.name, filter }, None).await?;
    Ok((StatusCode::CREATED, made).into_response())
}

#[utoipa::path(get, path = "/v1/audiences/{name}", operation_id = "audience", summary = "An audience",
    params(("name" = String, Path)),
    responses((status = 200, body = shapes::Audience, description = "What it is"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn show(State(site): State<Site>, Reads(caller): Reads, Path(name): Path<String>) -> Answer {
    Ok(Json(json!(line(named(&site, &caller, &name).await?))))
}

#[utoipa::path(get, path = "/v1/audiences/{name}/count", operation_id = "countAudience",
    summary = "How many people it has, and how many of them may be written to", params(("name" = String, Path)),
    responses((status = 200, body = shapes::AudienceCount, description = "Counted now, person by person"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn count(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path(name): Path<String>,
) -> Answer {
    let audience = named(&site, &caller, &name).await?;
    let counted = counted(&site.node.store, &audience, caller.ws).await;
    counted.map(Json).map_err(|error| ApiError::inside(&error))
}

#[utoipa::path(get, path = "/v1/audiences/{name}/people", operation_id = "peopleOfAudience",
    summary = "Its people, on each account on which they are known", params(("name" = String, Path), shapes::Paging),
    responses((status = 200, body = shapes::People, description = "A page"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn people(
    State(site): State<Site>,
    Reads(caller): Reads,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let (asked, after) = Asked::by_name(query.as_deref(), "people", caller.ws)?;
    let (platform, user_id) = after.split_once(' ').unwrap_or_default();
    let after = Person { platform: platform.to_owned(), user_id: user_id.to_owned() };
    let (store, audience) = (&site.node.store, named(&site, &caller, &name).await?);
    let accounts = store.accounts(caller.ws).await.map_err(told)?;
    let mut found = Vec::new();
    let stopped = walk(store, &audience, caller.ws, after, |one, suppressed| {
        found.push(told_person(one, suppressed, &accounts));
        found.len() < asked.limit
    });
    let stopped = stopped.await.map_err(|error| ApiError::inside(&error))?;
    let last = stopped.map(|person| format!("{} {}", person.platform, person.user_id));
    Ok(Json(asked.answer_up_to(found, last.as_deref())))
}

#[utoipa::path(post, path = "/v1/audiences/{name}/import", operation_id = "importPeople",
    summary = "Takes people in and makes them part of the audience; the first call makes it", params(("name" = String, Path)),
    request_body = NewPeople,
    responses((status = 200, body = shapes::Imported, description = "All of them are in; again is the same"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn import(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    Path(name): Path<String>,
    said: Body,
) -> Answer {
    let (new, _place): (NewPeople, Place) = body(&site, &caller, &headers, said).await?;
    if new.people.is_empty() || new.people.len() > IMPORTED_MAX {
        return Err(ApiError::field("people", format!("are 1 to {IMPORTED_MAX} in one call")));
    }
    known_accounts(&site, &caller, "account", std::slice::from_ref(&new.account)).await?;
    let accounts = site.node.store.accounts(caller.ws).await.map_err(told)?;
    let account = accounts.iter().find(|account| account.name == new.account);
    let account = account.ok_or_else(|| ApiError::absent("the account is gone"))?;
    let whose = people::Whose::of(account, format!("token:{}", caller.token.name));
    let mut people = Vec::with_capacity(new.people.len());
    for (n, cells) in new.people.into_iter().enumerate() {
        let read = whose.recipient(cells);
        people.push(read.map_err(|why| ApiError::field(&format!("people[{n}]"), why))?);
    }
    let import = AudienceOrder::Import { name, account: new.account, people, import: None };
    order(&site, &caller, import, new.reason).await
}

#[utoipa::path(get, path = "/v1/suppressions", operation_id = "suppressions",
    summary = "Who must not be written to: where, why, by whom, since when", params(shapes::Paging),
    responses((status = 200, body = shapes::Suppressions, description = "A page"), shapes::Refusals), security(("token" = ["read"])))]
pub(super) async fn suppressions(
    State(site): State<Site>,
    Reads(caller): Reads,
    RawQuery(query): RawQuery,
) -> Answer {
    let (asked, after) = Asked::by_name(query.as_deref(), "suppressions", caller.ws)?;
    let mut parts = after.split(' ');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let person = Person { platform: part(), user_id: part() };
    let account_id = part().parse().ok().filter(|id| *id > 0).map(AccountId);
    let store = &site.node.store;
    let after = SuppressionPlace { person, account_id };
    let rows = store.suppressions(caller.ws, after, asked.limit).await.map_err(told)?;
    let accounts = store.accounts(caller.ws).await.map_err(told)?;
    let last = rows.last().map(|one| {
        let account = one.account_id.map_or(0, |id| id.0);
        format!("{} {} {account}", one.platform, one.user_id)
    });
    let rows = rows.iter().map(|one| told_suppression(one, &accounts)).collect();
    Ok(Json(asked.answer_by_name(rows, last.as_deref())))
}

#[utoipa::path(post, path = "/v1/suppressions", operation_id = "suppress",
    summary = "Never write to these people unasked again, whatever is imported later", request_body = NewSuppressions,
    responses((status = 200, body = shapes::Suppressed, description = "So it is, also for campaigns that run"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn suppress(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    said: Body,
) -> Answer {
    let (new, _place): (NewSuppressions, Place) = body(&site, &caller, &headers, said).await?;
    if new.addresses.is_empty() || new.addresses.len() > SUPPRESSED_MAX {
        return Err(ApiError::field("addresses", format!("are 1 to {SUPPRESSED_MAX} in one call")));
    }
    known_accounts(&site, &caller, "account", std::slice::from_ref(&new.account)).await?;
    let mut addresses = Vec::with_capacity(new.addresses.len());
    for (n, id) in new.addresses.iter().enumerate() {
        addresses.push(read::id(id).map_err(|why| ApiError::field(&format!("addresses[{n}]"), why))?);
    }
    let (account, everywhere) = (new.account, new.everywhere);
    let reason = SuppressionReason::Manual;
    let suppress = AudienceOrder::Suppress { account, addresses, everywhere, reason };
    order(&site, &caller, suppress, new.reason).await
}

#[utoipa::path(post, path = "/v1/suppressions/lift", operation_id = "unsuppress",
    summary = "Lets somebody be written to again", request_body = Lift,
    responses((status = 200, body = shapes::Lifted, description = "And what else keeps them from it"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn unsuppress(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    said: Body,
) -> Answer {
    let (lift, _place): (Lift, Place) = body(&site, &caller, &headers, said).await?;
    known_accounts(&site, &caller, "account", std::slice::from_ref(&lift.account)).await?;
    let address = read::id(&lift.address).map_err(|why| ApiError::field("address", why))?;
    let (account, everywhere) = (lift.account, lift.everywhere);
    order(&site, &caller, AudienceOrder::Unsuppress { account, address, everywhere }, lift.reason).await
}

async fn order(site: &Site, caller: &Caller, order: AudienceOrder, reason: Option<String>) -> Answer {
    let verb = Verb::Audience { workspace: caller.workspace.clone(), order };
    done(&hand(site, caller, reason), verb).await
}
