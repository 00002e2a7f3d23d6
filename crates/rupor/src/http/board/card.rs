//! A post as a card: small enough to be told to every page that is open. People's numbers are masked here.

use std::collections::HashMap;

use domain::content::Facts as PostFacts;
use domain::ids::MessageId;
pub(super) use domain::shown::masked;
use serde_json::{Map, Value, json};
use store::{Case, PostCounts, StoredMessage};

use super::{Board, millis};
use crate::operate::facts::Facts;

/// Characters of a post on a card.
const TEXT_MAX: usize = 220;

impl Board {
    /// The cards of these posts by id.
    pub(super) async fn cards(
        &self,
        facts: &Facts,
        posts: Vec<StoredMessage>,
    ) -> anyhow::Result<Map<String, Value>> {
        let ws = facts.workspace.workspace_id;
        let ids = posts.iter().map(|post| post.message_id).collect();
        let counts: HashMap<MessageId, PostCounts> =
            self.store.post_counts(ws, ids).await?.into_iter().collect();
        let mut cases: Vec<_> = posts.iter().filter_map(|post| post.case_id).collect();
        cases.sort_unstable();
        cases.dedup();
        let cases = self.store.cases(ws, cases).await?;
        Ok(posts
            .iter()
            .map(|post| {
                let case = post.case_id.and_then(|id| cases.iter().find(|case| case.case_id == id));
                let counts = counts.get(&post.message_id).copied().unwrap_or_default();
                (post.message_id.to_string(), card(facts, post, case, counts))
            })
            .collect())
    }
}

/// What is not so is not told.
pub(super) fn card(facts: &Facts, post: &StoredMessage, case: Option<&Case>, counts: PostCounts) -> Value {
    let recognised: Option<PostFacts> = serde_json::from_value(post.facts.clone()).ok();
    let held = facts.held_posts.iter().filter(|held| held.message_id == post.message_id).count();
    let source = source_of(facts, post);
    let mut told = json!({
        "at": millis(post.created_at),
        "source": source.map_or(post.source.as_str(), called),
        "source_id": source.map(|source| source.source_id),
        "url": url(post),
        "text": masked(&cut(post.payload["text"].as_str().unwrap_or_default(), TEXT_MAX)),
        "photos": photos(post).count(),
        "revision": post.revision,
        "kind": post.kind,
        "case": case.map(a_case),
        "closes": case.is_some_and(|case| case.closed_by == Some(post.message_id)),
        "gone": post.gone_at.is_some(),
        "skipped": post.skipped,
        "held": held,
        "went": [counts.sent, counts.waiting, counts.failed, counts.deduped],
    });
    let all = told.as_object_mut().into_iter();
    all.for_each(|told| {
        told.extend(recognised.as_ref().map(|facts| words_of(facts, &post.payload)).unwrap_or_default());
        told.retain(|_, value| !is_nothing(value));
    });
    told
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(n) => n.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty() || items.iter().all(|item| item.as_i64() == Some(0)),
        _ => false,
    }
}

/// The source that brought it, as it is configured now.
pub(super) fn source_of<'a>(facts: &'a Facts, post: &StoredMessage) -> Option<&'a store::Source> {
    facts.sources.iter().find(|source| crate::why::brings(source, post))
}

/// What people know it by.
pub(super) fn called(source: &store::Source) -> &str {
    engine::sources::title(source).unwrap_or(&source.name)
}

pub(super) fn url(post: &StoredMessage) -> Option<&str> {
    post.origin["url"].as_str().filter(|url| domain::message::is_web_address(url))
}

/// The pictures of a post whose bytes are kept, with their place among its media.
pub(super) fn photos(post: &StoredMessage) -> impl Iterator<Item = &str> {
    let media = post.payload["media"].as_array().into_iter().flatten();
    media.filter(|media| media["kind"] == "photo").filter_map(|media| media["blob"].as_str())
}

fn words_of(facts: &PostFacts, payload: &Value) -> Map<String, Value> {
    let word = |value: Value| value.as_str().filter(|word| *word != "unknown").map(str::to_owned);
    let city = facts.city.as_ref().map(|city| city.value.as_str()).or(facts.home_city.as_deref());
    // As readers are shown it: the fact leans on a preposition that is gone.
    let place: Vec<&str> = city.into_iter().chain(payload["place"].as_str()).collect();
    let told = json!({
        "animal": word(json!(facts.animal.value)),
        "sex": word(json!(facts.sex.value)),
        "names": facts.pet_names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>(),
        "place": masked(&place.join(", ")),
        "when": facts.when.as_ref().map(|when| when.value.to_string()),
        "phones": facts.phone_numbers().map(last_two).collect::<Vec<_>>(),
    });
    told.as_object().cloned().unwrap_or_default()
}

pub(super) fn a_case(case: &Case) -> Value {
    json!({
        "id": case.case_id,
        "title": masked(&case.title),
        "posts": case.n_messages,
        "closed": case.closed_at.is_some(),
    })
}

/// `+79010000011` as `…11`: enough to tell two numbers apart on a shared screen.
fn last_two(phone: &str) -> String {
    let tail: String = phone.chars().skip(phone.chars().count().saturating_sub(2)).collect();
    format!("…{tail}")
}

fn cut(text: &str, characters: usize) -> String {
    let mut head: String = text.chars().take(characters).collect();
    if text.chars().nth(characters).is_some() {
        head.push('…');
    }
    head
}

/// What messages call this source.
pub(super) fn source_names(source: &store::Source) -> Vec<String> {
    let owner = source.cursor["owner"].as_i64().map(|id| id.to_string());
    let names = [Some(source.address.clone()), owner, Some(source.name.clone())];
    let mut names: Vec<String> =
        names.into_iter().flatten().map(|name| format!("{}:{name}", source.kind)).collect();
    names.dedup();
    names
}
