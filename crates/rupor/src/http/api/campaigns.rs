//! Campaigns for programs: the verbs of the command line, by tokens.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::message::{Button, Press};
use domain::time::Timestamp;
use engine::campaigns::policy::Policy;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Campaign, Person, Retries};
use utoipa::ToSchema;

use super::access::{Caller, Operates, Reads};
use super::act::{done, hand, object, read_value};
use super::ask::told;
use super::pace::Who;
use super::page::Asked;
use super::photos::{self, Upload};
use super::room::Place;
use super::shapes::{self, CampaignLine, PhotoBytes};
use super::{ApiError, ingest, strict};
use crate::http::Site;
use crate::operate::campaigns::{CampaignOrder, Words, foretold, how_it_stands, told_member};
use crate::operate::{Verb, verb};

pub(super) type Answer = Result<Json<Value>, ApiError>;

/// Bytes of a body: the words of a campaign, with ten photos of the usual size.
const BODY_MAX: usize = 16 << 20;
/// Bytes of a body that only says which and why.
const ORDER_MAX: usize = 4_096;
const VARIANTS_MAX: usize = 20;
const VARIANT_NAME_MAX: usize = 50;
const WEIGHT_MAX: i32 = 1_000;
const BUTTONS_MAX: usize = 20;
const BUTTON_TEXT_MAX: usize = 64;
const TESTERS_MAX: usize = 100;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCampaign {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Names of accounts, in order of preference.
    #[schema(min_items = 1)]
    accounts: Vec<String>,
    /// What is said, a template over the attributes of each person; with `variants` it is variant `a`.
    #[schema(min_length = 1)]
    text: String,
    /// Pictures as bytes: an address could show something else to the last than to the first.
    #[serde(default)]
    #[schema(max_items = 10)]
    photos: Vec<PhotoBytes>,
    /// One under the other.
    #[serde(default)]
    #[schema(max_items = 20)]
    buttons: Vec<LinkButton>,
    /// Other words to choose from.
    #[serde(default)]
    #[schema(max_items = 20)]
    variants: Vec<NewVariant>,
    /// Without it everybody on these accounts.
    #[serde(default)]
    audience: Option<String>,
    /// Rate, window, guards and the like: the keys of the policy file of `rupor campaign new --policy`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
}

/// A button that opens an address.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkButton {
    #[schema(min_length = 1, max_length = 64)]
    text: String,
    #[schema(format = "uri")]
    url: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewVariant {
    #[schema(min_length = 1, max_length = 50)]
    name: String,
    #[schema(min_length = 1)]
    text: String,
    /// How often it is drawn beside the others; 1 without it.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000)]
    weight: i32,
    /// Without them those of variant `a`.
    #[serde(default)]
    #[schema(max_items = 10)]
    photos: Option<Vec<PhotoBytes>>,
    /// Without them those of variant `a`.
    #[serde(default)]
    #[schema(max_items = 20)]
    buttons: Option<Vec<LinkButton>>,
}

fn one() -> i32 {
    1
}

/// What is said from now on to those who have not got it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewWords {
    #[schema(min_length = 1)]
    text: String,
    #[serde(default)]
    #[schema(max_items = 10)]
    photos: Vec<PhotoBytes>,
    #[serde(default)]
    #[schema(max_items = 20)]
    buttons: Vec<LinkButton>,
    /// Why; it stands in the events.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CampaignAsk {
    /// Why; it stands in the events.
    reason: Option<String>,
    /// Of a start: when, such as `2026-12-01T10:00:00+03:00`; now without it.
    #[schema(format = "date-time")]
    at: Option<String>,
    /// Of a pause or a resume: only the part of this account.
    account: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    /// Name of the variant that everybody gets who has not got it.
    variant: String,
    #[serde(default)]
    reason: Option<String>,
}

/// Whom to try again; all of it may be missing.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetryAsk {
    /// Only those who failed with this code.
    code: Option<String>,
    /// Also those of whom nobody knows whether they got it: they may get it twice.
    unknown: bool,
    reason: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TestAsk {
    /// Who sends it.
    account: String,
    /// User ids of people who are known on this account.
    #[schema(min_items = 1, max_items = 100)]
    to: Vec<String>,
}

pub(super) async fn body<T: serde::de::DeserializeOwned>(
    site: &Site,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, Place), ApiError> {
    ingest::check_headers(headers)?;
    let read = site.api.room.read(Who::Token(caller.token.token_id), body, BODY_MAX).await;
    let (bytes, place) = read.map_err(|error| error.for_one(BODY_MAX))?;
    let value = strict::value(&bytes)
        .map_err(|error| ApiError::malformed(format!("the body is not JSON: {error}")))?;
    Ok((object(value)?, place))
}

/// Every field of it may be missing, and so may the body.
async fn maybe<T: serde::de::DeserializeOwned + Default>(body: Body) -> Result<T, ApiError> {
    let bytes = ingest::read_body(body, ORDER_MAX).await?;
    match read_value(&bytes)? {
        Value::Null => Ok(T::default()),
        value => object(value),
    }
}

/// The accounts that are named are there.
pub(super) async fn known_accounts(
    site: &Site,
    caller: &Caller,
    field: &str,
    names: &[String],
) -> Result<(), ApiError> {
    let accounts = site.node.store.accounts(caller.ws).await.map_err(told)?;
    let is_known = |name: &String| accounts.iter().any(|account| account.name == *name);
    match names.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = accounts.iter().map(|account| account.name.as_str()).collect();
            let name: String = name.chars().take(100).collect();
            Err(ApiError::field(field, format!("{name:?} is not known; known are {}", verb::listed(&known))))
        }
    }
}

fn buttons(field: &str, written: Vec<LinkButton>) -> Result<Vec<Vec<Button>>, ApiError> {
    if written.len() > BUTTONS_MAX {
        return Err(ApiError::field(field, format!("{} buttons, at most {BUTTONS_MAX}", written.len())));
    }
    let read = written.into_iter().enumerate().map(|(n, button)| {
        let text = button.text.trim().to_owned();
        if text.is_empty() || text.chars().count() > BUTTON_TEXT_MAX {
            let words = format!("a button says 1 to {BUTTON_TEXT_MAX} characters");
            return Err(ApiError::field(&format!("{field}[{n}].text"), words));
        }
        if !domain::message::is_web_address(&button.url) {
            return Err(ApiError::field(&format!("{field}[{n}].url"), "must be an http or https address"));
        }
        Ok(vec![Button { text, press: Press::Url(button.url) }])
    });
    read.collect()
}

/// Words whose pictures are not kept yet, so that nothing is kept of what is refused.
struct Draft {
    words: Words,
    uploads: Vec<Upload>,
}

impl Draft {
    async fn keep(self, site: &Site, caller: &Caller) -> Result<Words, ApiError> {
        let kept = photos::keep(&site.node.store, caller.ws, self.uploads).await?;
        Ok(Words { kept, ..self.words })
    }
}

fn words(name: &str, text: String, buttons: Vec<Vec<Button>>) -> Words {
    Words { name: name.to_owned(), weight: 1, text, photos: Vec::new(), kept: Vec::new(), buttons }
}

/// The first words are variant `a`; the others take its pictures and buttons where they have none of their own.
fn drafts(
    first: (String, Vec<PhotoBytes>, Vec<LinkButton>),
    others: Vec<NewVariant>,
) -> Result<Vec<Draft>, ApiError> {
    let (text, pictures, links) = first;
    let has_words = |field: &str, text: &str| match text.trim().is_empty() {
        true => Err(ApiError::field(field, "is empty: nothing would be said")),
        false => Ok(()),
    };
    has_words("text", &text)?;
    if others.len() >= VARIANTS_MAX {
        return Err(ApiError::field(
            "variants",
            format!("{} variants, at most {VARIANTS_MAX}", others.len() + 1),
        ));
    }
    let buttons_of_a = buttons("buttons", links)?;
    let uploads = photos::read("photos", pictures)?;
    let mut all = vec![Draft { words: words("a", text, buttons_of_a.clone()), uploads: uploads.clone() }];
    for (n, other) in others.into_iter().enumerate() {
        let at = |field: &str| format!("variants[{n}].{field}");
        let name = other.name.trim().to_owned();
        if name.is_empty() || name.chars().count() > VARIANT_NAME_MAX || name.chars().any(char::is_control) {
            return Err(ApiError::field(&at("name"), format!("has 1 to {VARIANT_NAME_MAX} characters")));
        }
        if all.iter().any(|draft| draft.words.name == name) {
            let words = "there are two of this name; the first text is variant a";
            return Err(ApiError::field(&at("name"), words));
        }
        has_words(&at("text"), &other.text)?;
        if !(1..=WEIGHT_MAX).contains(&other.weight) {
            return Err(ApiError::field(
                &at("weight"),
                format!("must be a whole number from 1 to {WEIGHT_MAX}"),
            ));
        }
        let links = match other.buttons {
            Some(links) => buttons(&at("buttons"), links)?,
            None => buttons_of_a.clone(),
        };
        let uploads = match other.photos {
            Some(pictures) => photos::read(&at("photos"), pictures)?,
            None => uploads.clone(),
        };
        let words = Words { weight: other.weight, ..words(&name, other.text, links) };
        all.push(Draft { words, uploads });
    }
    Ok(all)
}

async fn named(site: &Site, caller: &Caller, name: &str) -> Result<Campaign, ApiError> {
    let campaigns = site.node.store.campaigns(caller.ws).await.map_err(told)?;
    let found = campaigns.into_iter().find(|campaign| campaign.name == name);
    found.ok_or_else(|| ApiError::absent("there is no such campaign; GET /v1/campaigns lists them"))
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
    let (new, _place): (NewCampaign, Place) = body(&site, &caller, &headers, said).await?;
    if new.accounts.is_empty() {
        return Err(ApiError::field("accounts", "is empty: nobody would say it"));
    }
    known_accounts(&site, &caller, "accounts", &new.accounts).await?;
    if let Some(name) = &new.audience {
        let known = site.node.store.audiences(caller.ws).await.map_err(told)?;
        if !known.iter().any(|audience| audience.name == *name) {
            let words = "there is no such audience; GET /v1/audiences lists them";
            return Err(ApiError::field("audience", words));
        }
    }
    let policy: Policy = serde_json::from_value(new.policy.unwrap_or_else(|| json!({})))
        .map_err(|error| ApiError::field("policy", error.to_string()))?;
    policy.check().map_err(|error| ApiError::field("policy", format!("{error:#}")))?;
    let mut variants = Vec::new();
    for draft in drafts((new.text, new.photos, new.buttons), new.variants)? {
        variants.push(draft.keep(&site, &caller).await?);
    }
    let order = CampaignOrder::New {
        accounts: new.accounts,
        audience: new.audience,
        variants,
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
    let told = foretold(&site.node.store, &campaign, None).await;
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
    params(("name" = String, Path), ("verb" = inline(shapes::CampaignVerb), Path)), request_body(content = Option<CampaignAsk>),
    responses((status = 200, body = shapes::Campaign, description = "How it stands now"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn act(
    State(site): State<Site>,
    Operates(caller): Operates,
    Path((name, verb)): Path<(String, String)>,
    said: Body,
) -> Answer {
    if !["start", "pause", "resume", "cancel"].contains(&verb.as_str()) {
        let known = "start, pause, resume, cancel, edit, choose, retry, test";
        return Err(ApiError::field("verb", format!("is not known; known are {known}")));
    }
    let ask: CampaignAsk = maybe(said).await?;
    if ask.at.is_some() && verb != "start" {
        return Err(ApiError::field("at", "belongs to start"));
    }
    if ask.account.is_some() && verb != "pause" && verb != "resume" {
        return Err(ApiError::field("account", "belongs to pause and resume"));
    }
    let at = ask.at.as_deref().map(moment).transpose()?;
    known_accounts(&site, &caller, "account", ask.account.as_slice()).await?;
    let why = || ask.reason.clone().unwrap_or_else(|| "by a program".to_owned());
    let wanted = match (verb.as_str(), ask.account.clone()) {
        ("start", _) => CampaignOrder::Start { at },
        ("pause", Some(account)) => CampaignOrder::Part { account, why: Some(why()) },
        ("pause", None) => CampaignOrder::Pause { why: why() },
        ("resume", Some(account)) => CampaignOrder::Part { account, why: None },
        ("resume", None) => CampaignOrder::Resume,
        _ => CampaignOrder::Cancel { why: why() },
    };
    order(&site, &caller, &name, wanted, ask.reason.clone()).await
}

fn moment(text: &str) -> Result<Timestamp, ApiError> {
    let read: Result<jiff::Timestamp, _> = text.parse();
    let read = read.map_err(|_| {
        ApiError::field("at", "must be a time with its zone, such as 2026-12-01T10:00:00+03:00")
    })?;
    Ok(Timestamp(read.as_microsecond()))
}

async fn order(
    site: &Site,
    caller: &Caller,
    name: &str,
    order: CampaignOrder,
    reason: Option<String>,
) -> Answer {
    let campaign = named(site, caller, name).await?.name;
    let verb = Verb::Campaign { workspace: caller.workspace.clone(), campaign, order };
    done(&hand(site, caller, reason), verb).await
}

#[utoipa::path(post, path = "/v1/campaigns/{name}/edit", operation_id = "editCampaign",
    summary = "Other words for everybody who has not got it; while it is a draft or paused",
    params(("name" = String, Path)), request_body = NewWords,
    responses((status = 200, body = shapes::Campaign, description = "How it stands now"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn edit(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    Path(name): Path<String>,
    said: Body,
) -> Answer {
    let (new, _place): (NewWords, Place) = body(&site, &caller, &headers, said).await?;
    named(&site, &caller, &name).await?;
    let mut words = Vec::new();
    for draft in drafts((new.text, new.photos, new.buttons), Vec::new())? {
        words.push(draft.keep(&site, &caller).await?);
    }
    let key = uuid::Uuid::new_v4().simple().to_string();
    let edited = CampaignOrder::Edit { words: words.remove(0), key };
    order(&site, &caller, &name, edited, new.reason).await
}

#[utoipa::path(post, path = "/v1/campaigns/{name}/choose", operation_id = "chooseVariant",
    summary = "One variant for everybody who has not got it; while it is paused",
    params(("name" = String, Path)), request_body = Chosen,
    responses((status = 200, body = shapes::Campaign, description = "How it stands now"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn choose(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    Path(name): Path<String>,
    said: Body,
) -> Answer {
    let (chosen, _place): (Chosen, Place) = body(&site, &caller, &headers, said).await?;
    let campaign = named(&site, &caller, &name).await?;
    let known: Vec<&str> = campaign.variants.iter().map(|variant| variant.name.as_str()).collect();
    if !known.contains(&chosen.variant.as_str()) {
        return Err(ApiError::field("variant", format!("is not known; known are {}", known.join(", "))));
    }
    order(&site, &caller, &name, CampaignOrder::Choose { variant: chosen.variant }, chosen.reason).await
}

#[utoipa::path(post, path = "/v1/campaigns/{name}/retry", operation_id = "retryCampaign",
    summary = "Tries those anew who failed, when it is finished",
    params(("name" = String, Path)), request_body(content = Option<RetryAsk>),
    responses((status = 200, body = shapes::Campaign, description = "How it stands now"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn retry(
    State(site): State<Site>,
    Operates(caller): Operates,
    Path(name): Path<String>,
    said: Body,
) -> Answer {
    let ask: RetryAsk = maybe(said).await?;
    let retries = Retries { code: ask.code, unknown: ask.unknown };
    order(&site, &caller, &name, CampaignOrder::Retry(retries), ask.reason).await
}

#[utoipa::path(post, path = "/v1/campaigns/{name}/test", operation_id = "testCampaign",
    summary = "Its words to people of your own first; they are counted nowhere",
    params(("name" = String, Path)), request_body = TestAsk,
    responses((status = 200, body = shapes::Tried, description = "Queued"), shapes::BodyRefusals), security(("token" = ["operate"])))]
pub(super) async fn test(
    State(site): State<Site>,
    Operates(caller): Operates,
    headers: HeaderMap,
    Path(name): Path<String>,
    said: Body,
) -> Answer {
    let (ask, _place): (TestAsk, Place) = body(&site, &caller, &headers, said).await?;
    named(&site, &caller, &name).await?;
    if ask.to.is_empty() || ask.to.len() > TESTERS_MAX {
        return Err(ApiError::field("to", format!("names 1 to {TESTERS_MAX} people")));
    }
    known_accounts(&site, &caller, "account", std::slice::from_ref(&ask.account)).await?;
    let mut people = Vec::new();
    for (n, id) in ask.to.iter().enumerate() {
        let read = crate::people::read::id(id);
        people.push(read.map_err(|why| ApiError::field(&format!("to[{n}]"), why))?);
    }
    let key = uuid::Uuid::new_v4().simple().to_string();
    order(&site, &caller, &name, CampaignOrder::Test { account: ask.account, people, key }, None).await
}
