//! One thing with all that is known of it: a post with its story, a channel, a case, the sources, a campaign; and animals
//! that may be each other's.

use axum::Json;
use axum::extract::{Path, Query, State};
use domain::content::cases::suggest;
use domain::ids::{CampaignId, CaseId, ChannelId, MessageId};
use serde_json::{Map, Value, json};
use store::{CampaignNote, Case, Channel, StoredMessage};

use super::card::{a_case, called, masked, photos, source_names, source_of, url};
use super::{Board, Wanted, millis, said, unreadable};
use crate::http::Site;
use crate::http::api::ApiError;
use crate::language::{Language, heard};
use crate::operate::facts::{Facts, gather};
use crate::why::{self, Asked, Heard, Story, Told};

/// Posts of a case, or of a source, on its page.
const POSTS_MAX: usize = 50;
/// Posts that are looked through to say what a source brought.
const LATELY: usize = 5_000;
/// Cases that are compared, and pairs that are shown.
const CASES_MAX: usize = 400;
const MATCHES_MAX: usize = 24;
/// Characters of a post on its own page.
const TEXT_MAX: usize = 8_000;
/// Notes of a campaign that are read for its picture, and points of it.
const NOTES_MAX: usize = 20_000;
const POINTS_MAX: usize = 120;

type Answer = Result<Json<Value>, ApiError>;

fn inside(error: anyhow::Error) -> ApiError {
    match error.downcast::<store::StoreError>() {
        Ok(error) => unreadable(error),
        Err(error) => ApiError::inside(&error),
    }
}

impl Board {
    async fn facts(&self, wanted: &Wanted) -> Result<Facts, ApiError> {
        let (_, name) = self.workspace(wanted).await?;
        gather(&self.store, &name, Some(true)).await.map_err(inside)
    }
}

// -- a post

pub(super) async fn post(
    State(site): State<Site>,
    Path(id): Path<i64>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let board = &site.board;
    let facts = board.facts(&wanted).await?;
    let message =
        board.store.message(facts.workspace.workspace_id, MessageId(id)).await.map_err(unreadable)?;
    let cards = board.cards(&facts, vec![message.clone()]).await.map_err(inside)?;
    let story = why::gather(&board.store, &facts, Asked { message, delivery: None }, None).await;
    let story = story.map_err(inside)?;
    let card = cards.into_iter().next().map(|(_, card)| card);
    Ok(Json(a_post(&story, card, wanted.language())))
}

fn a_post(story: &Story, card: Option<Value>, language: Language) -> Value {
    let message = &story.message;
    let text: String = message.payload["text"].as_str().unwrap_or_default().chars().take(TEXT_MAX).collect();
    let date = message.origin["date"].as_i64().map(|date| date.saturating_mul(1_000));
    let decision = &message.facts["case"];
    json!({
        "id": message.message_id,
        "card": card,
        "text": masked(&text),
        "photos": photos(message).count(),
        "posted": date,
        "seen": message.seen_count,
        "seen_at": millis(message.last_seen_at),
        "gone_at": message.gone_at.map(millis),
        "notes": message.facts["notes"],
        "unsure": message.facts["unsure"] == Value::Bool(true),
        "evidence": evidence(&message.facts),
        "case": story.case.as_ref().map(|case| json!({
            "about": a_case(case),
            "verdict": decision["verdict"],
            "score": decision["score"],
            "reasons": reasons(&decision["reasons"], language),
        })),
        "closed": story.case.as_ref().and_then(|case| case.closed_at).map(millis),
        "ended_by": story.ending.as_ref().map(|message| message.message_id),
        "channels": story.channels.iter().map(|heard| a_hearing(heard, language)).collect::<Vec<_>>(),
        "elsewhere": story.elsewhere.iter().map(|told| a_delivery(None, told, language)).collect::<Vec<_>>(),
        "people": story.people.len(),
        "more_people": story.more_people,
    })
}

/// What spoke for a case; a phone number speaks too.
fn reasons(decided: &Value, language: Language) -> Vec<String> {
    let told = decided.as_array().into_iter().flatten().filter_map(Value::as_str);
    told.map(|reason| masked(&heard(reason).in_language(language))).collect()
}

/// Which words of the post say what.
fn evidence(facts: &Value) -> Vec<Value> {
    let named = ["kind", "animal", "sex", "breed", "pet_names", "city", "place", "when"];
    let all = named.iter().flat_map(|name| match &facts[*name] {
        Value::Array(several) => several.iter().map(|fact| (*name, fact)).collect(),
        fact => vec![(*name, fact)],
    });
    let told =
        all.filter(|(_, fact)| !fact["value"].is_null() && fact["value"] != "unknown").map(|(name, fact)| {
            let words =
                fact["evidence"].as_array().into_iter().flatten().filter_map(|one| one["words"].as_str());
            let mut words: Vec<String> = words.map(|words| masked(words.trim())).collect();
            words.dedup();
            words.truncate(3);
            json!({"fact": name, "value": fact["value"], "words": words})
        });
    told.collect()
}

fn a_hearing(heard: &Heard, language: Language) -> Value {
    let channel = &heard.channel;
    let left_out = heard.left_out.iter().map(|what| crate::language::heard(what).in_language(language));
    json!({
        "id": channel.channel_id,
        "name": channel.name,
        "platform": channel.platform,
        "passes": heard.rule.passes,
        "because": heard.rule.because.in_language(language),
        "held": heard.held.as_ref().map(|post| json!({
            "why": crate::language::heard(&post.why).in_language(language),
            "since": millis(post.held_at),
            "until": post.expires_at.map(millis),
            "decision": post.decision,
        })),
        "deliveries": heard.deliveries.iter().map(|told| a_delivery(Some(channel), told, language)).collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    })
}

fn a_delivery(channel: Option<&Channel>, told: &Told, language: Language) -> Value {
    let row = &told.about.delivery;
    let link =
        |id: Option<&str>| channel.zip(id).and_then(|(channel, id)| engine::addresses::link(channel, id));
    let attempts: Vec<Value> = told
        .about
        .attempts
        .iter()
        .map(|attempt| {
            let error = attempt.error.as_ref();
            let text = |name: &str| error.and_then(|error| error[name].as_str()).map(masked);
            json!({"n": attempt.attempt, "at": millis(attempt.started_at), "outcome": attempt.outcome,
                   "code": text("code"), "message": text("message")})
        })
        .collect();
    let before = told.said_before.as_ref().map(|before| {
        json!({"post": before.message.message_id, "at": before.delivery.sent_at.map(millis),
               "link": link(before.delivery.provider_message_id.as_deref())})
    });
    json!({
        "id": row.delivery_id,
        "action": row.action,
        "status": row.status,
        "reason": row.reason,
        "queued": millis(row.queued_at),
        "ended": row.ended_at.map(millis),
        "due": row.run_at.map(millis),
        "parent": row.parent_delivery,
        "link": link(row.provider_message_id.as_deref()),
        "attempts": attempts,
        "before": before,
        "headline": told.explanation.headline.in_language(language),
        "cause": told.explanation.cause.in_language(language),
        "next": told.explanation.next.in_language(language),
        "help": said(&told.explanation.help, language),
    })
}

// -- a channel

pub(super) async fn channel(
    State(site): State<Site>,
    Path(id): Path<i64>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let facts = site.board.facts(&wanted).await?;
    let channel = facts.channel(ChannelId(id)).ok_or_else(ApiError::not_found)?;
    let settings = &channel.settings;
    let lane = facts.lane_of(channel).map(|lane| lane.counts).unwrap_or_default();
    Ok(Json(json!({
        "id": channel.channel_id,
        "link": engine::addresses::link(channel, "1").map(|link| shorter(&link)),
        "route": settings.route,
        "dedup": settings.dedup,
        "dedup_ms": settings.dedup_ttl.millis(),
        "max_age_ms": settings.max_age.map(|age| age.millis()),
        "quiet": settings.quiet_hours,
        "time_zone": settings.time_zone,
        "max_media": settings.max_media,
        "body_max": settings.body_max,
        "ever": {"sent": lane.sent, "deduped": lane.deduped,
                 "failed": lane.failed_permanent + lane.dead - lane.requeued},
    })))
}

/// The chat without the message.
fn shorter(link: &str) -> String {
    link.rsplit_once('/').map_or(link, |(chat, _)| chat).to_owned()
}

// -- a case

pub(super) async fn case(
    State(site): State<Site>,
    Path(id): Path<i64>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let board = &site.board;
    let facts = board.facts(&wanted).await?;
    let ws = facts.workspace.workspace_id;
    let case = board.store.case(ws, CaseId(id)).await.map_err(unreadable)?;
    let posts = board.store.posts_of_case(ws, case.case_id, POSTS_MAX).await.map_err(unreadable)?;
    let told: Vec<Value> = posts.iter().rev().map(|post| a_step(&facts, post, wanted.language())).collect();
    let cards = board.cards(&facts, posts).await.map_err(inside)?;
    Ok(Json(json!({
        "about": a_case(&case),
        "kind": case.kind,
        "opened": millis(case.opened_at),
        "seen": millis(case.last_seen_at),
        "closed": case.closed_at.map(millis),
        "closed_by": case.closed_by,
        "copies": case.facts["copies"].as_i64().unwrap_or(0),
        "sources": case.facts["sources"],
        "steps": told,
        "posts": cards,
    })))
}

/// How a post came to its case: what spoke for it.
fn a_step(facts: &Facts, post: &StoredMessage, language: Language) -> Value {
    let decision = &post.facts["case"];
    let source = source_of(facts, post);
    json!({
        "post": post.message_id,
        "at": millis(post.created_at),
        "source": source.map_or(post.source.as_str(), called),
        "source_id": source.map(|source| source.source_id),
        "url": url(post),
        "kind": post.kind,
        "verdict": decision["verdict"],
        "score": decision["score"],
        "reasons": reasons(&decision["reasons"], language),
    })
}

// -- sources

pub(super) async fn sources(State(site): State<Site>, Query(wanted): Query<Wanted>) -> Answer {
    let board = &site.board;
    let facts = board.facts(&wanted).await?;
    let lately =
        board.store.sources_lately(facts.workspace.workspace_id, LATELY).await.map_err(unreadable)?;
    let list: Map<String, Value> = facts
        .sources
        .iter()
        .map(|source| {
            let names = source_names(source);
            let own = lately.iter().filter(|one| names.contains(&one.source));
            let (posts, last) =
                own.fold((0, None), |(n, last), one| (n + one.posts, last.max(Some(one.last_at))));
            let told = json!({
                "name": source.name,
                "kind": source.kind,
                "title": engine::sources::title(source),
                "address": domain::shown::addresses(&source.address),
                "link": link_of(source),
                "health": super::state::health(source),
                "error": source.last_error,
                "failing": source.failing_since.map(millis),
                "next": source.enabled.then(|| millis(source.next_poll_at)).filter(|at| *at > 0),
                "posts": posts,
                "last": last.map(millis),
            });
            (source.source_id.to_string(), told)
        })
        .collect();
    let known: Vec<String> = facts.sources.iter().flat_map(source_names).collect();
    let others: Vec<Value> = lately
        .iter()
        .filter(|one| !known.contains(&one.source))
        .map(|one| json!({"name": one.source, "posts": one.posts, "last": millis(one.last_at)}))
        .collect();
    Ok(Json(json!({"sources": list, "others": others})))
}

/// Where people see the source themselves.
fn link_of(source: &store::Source) -> Option<String> {
    let address = source.address.as_str();
    if domain::message::is_web_address(address) {
        // A key in the address is for the node alone.
        return (domain::shown::addresses(address) == address).then(|| address.to_owned());
    }
    let (_, walls) = platforms::walls::of(&source.kind)?;
    let owner = source.cursor["owner"].as_i64().or_else(|| address.parse().ok())?;
    // The page of a post names its wall first.
    let page = walls.post_page(owner, 1);
    page.rsplit_once('_').map(|(wall, _)| wall.to_owned())
}

// -- a campaign

pub(super) async fn campaign(
    State(site): State<Site>,
    Path(id): Path<i64>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let board = &site.board;
    let facts = board.facts(&wanted).await?;
    let ws = facts.workspace.workspace_id;
    let known = board.store.campaigns(ws).await.map_err(unreadable)?;
    let campaign = known.iter().find(|campaign| campaign.campaign_id == CampaignId(id));
    let campaign = campaign.ok_or_else(ApiError::not_found)?;
    let stands = crate::operate::campaigns::how_it_stands(&board.store, campaign).await.map_err(inside)?;
    let notes = board.store.campaign_progress(ws, campaign.campaign_id, NOTES_MAX).await;
    let accounts: Vec<&str> = facts
        .accounts
        .iter()
        .filter(|account| campaign.accounts.contains(&account.account_id))
        .map(|account| account.name.as_str())
        .collect();
    Ok(Json(json!({
        "id": campaign.campaign_id,
        "about": super::state::a_campaign(&facts, campaign, &stands),
        "accounts": accounts,
        "codes": stands["excluded_by"],
        "ended": stands["ended_by"],
        "wave": campaign.wave,
        "deadline": campaign.deadline.map(millis),
        "points": points(&notes.map_err(unreadable)?),
    })))
}

/// How many had it by when, at most `POINTS_MAX` points and the last: time, sent, ended unsent.
fn points(notes: &[CampaignNote]) -> Vec<[i64; 3]> {
    let step = notes.len().div_ceil(POINTS_MAX).max(1);
    let last = notes.len().saturating_sub(1);
    let kept = notes.iter().enumerate().filter(|(n, _)| n % step == 0 || *n == last);
    kept.map(|(_, note)| [millis(note.at), note.sent, note.failed + note.dead]).collect()
}

// -- lost and found

pub(super) async fn matches(State(site): State<Site>, Query(wanted): Query<Wanted>) -> Answer {
    let board = &site.board;
    let facts = board.facts(&wanted).await?;
    let ws = facts.workspace.workspace_id;
    let cases = board.store.open_cases(ws, CASES_MAX).await.map_err(unreadable)?;
    let mut pairs = Vec::new();
    for (lost, ours) in cases.iter().filter(|(case, _)| case.kind == "lost") {
        for (found, theirs) in
            cases.iter().filter(|(case, _)| case.kind == "found" || case.kind == "sighting")
        {
            pairs.extend(suggest(ours, theirs).map(|suggestion| (suggestion, lost, found)));
        }
    }
    pairs.sort_by_key(|(suggestion, lost, found)| {
        (
            std::cmp::Reverse(suggestion.points),
            std::cmp::Reverse(lost.case_id),
            std::cmp::Reverse(found.case_id),
        )
    });
    pairs.truncate(MATCHES_MAX);
    let mut told = Vec::new();
    for (suggestion, lost, found) in pairs {
        let side = async |case: &Case| {
            let posts = board.store.posts_of_case(ws, case.case_id, 1).await.map_err(unreadable)?;
            let cards = board.cards(&facts, posts).await.map_err(inside)?;
            let first = cards.into_iter().next();
            Ok::<_, ApiError>(json!({
                "about": a_case(case),
                "kind": case.kind,
                "post": first.as_ref().map(|(id, _)| id.parse::<i64>().unwrap_or(0)),
                "card": first.map(|(_, card)| card),
            }))
        };
        told.push(json!({
            "points": suggestion.points,
            "hints": suggestion.hints,
            "lost": side(lost).await?,
            "found": side(found).await?,
        }));
    }
    Ok(Json(json!({"matches": told, "compared": cases.len()})))
}
