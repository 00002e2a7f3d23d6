//! Posts by filter and by words, page by page. Looking back is bounded: who asks for more goes on from where it ended.

use axum::Json;
use axum::extract::{Query, State};
use domain::ids::{ChannelId, MessageId, SourceId};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{PostFate, PostFilter, StoredMessage};

use super::card::{masked, source_names};
use super::{Wanted, unreadable};
use crate::http::Site;
use crate::http::api::ApiError;
use crate::operate::facts::gather;

/// Posts of one answer.
const PAGE: usize = 24;
/// Posts that one reading looks at, and readings of one answer.
const WINDOW: usize = 500;
const READINGS_MAX: usize = 10;
/// Characters of a question.
const WORDS_MAX: usize = 200;
/// Digits of a whole phone number: who knows it may ask for it, and nobody finds it out by trying.
const PHONE_DIGITS: usize = 10;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    workspace: Option<String>,
    kind: Option<String>,
    channel: Option<i64>,
    source: Option<i64>,
    status: Option<String>,
    /// Words.
    q: Option<String>,
    before: Option<i64>,
}

pub(super) async fn posts(
    State(site): State<Site>,
    Query(asked): Query<Asked>,
) -> Result<Json<Value>, ApiError> {
    let board = &site.board;
    let wanted = Wanted { workspace: asked.workspace.clone(), lang: None };
    let (ws, name) = board.workspace(&wanted).await?;
    let facts = gather(&board.store, &name, Some(true)).await.map_err(|error| ApiError::inside(&error))?;
    let sources = match asked.source {
        None => Vec::new(),
        Some(id) => {
            let source = facts.sources.iter().find(|source| source.source_id == SourceId(id));
            source_names(source.ok_or_else(ApiError::not_found)?)
        }
    };
    let fate = match asked.status.as_deref().filter(|word| !word.is_empty()) {
        None => None,
        Some(word) => Some(PostFate::parse(word).ok_or_else(|| ApiError::field("status", "is not known"))?),
    };
    let mut filter = PostFilter {
        before: asked.before.map(MessageId),
        kind: asked.kind.filter(|kind| !kind.is_empty()),
        sources,
        channel_id: asked.channel.map(ChannelId),
        fate,
    };
    let words = Words::of(asked.q.as_deref().unwrap_or_default());
    let (mut found, mut looked) = (Vec::new(), 0);
    for _ in 0..READINGS_MAX {
        let limit = if words.is_some() { WINDOW } else { PAGE };
        let read = board.store.posts(ws, filter.clone(), WINDOW, limit).await.map_err(unreadable)?;
        looked += WINDOW;
        filter.before = read.looked_to;
        for post in read.posts {
            if words.as_ref().is_none_or(|words| words.fit(&post)) {
                found.push(post);
            }
        }
        if found.len() >= PAGE || filter.before.is_none() {
            break;
        }
    }
    if found.len() > PAGE {
        found.truncate(PAGE);
        filter.before = found.last().map(|post| post.message_id);
    }
    let cards = board.cards(&facts, found).await.map_err(|error| ApiError::inside(&error))?;
    Ok(Json(json!({"posts": cards, "before": filter.before, "looked": looked})))
}

/// What was asked for, ready to be compared.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    words: Vec<String>,
    /// The end of a phone number, the part after the country.
    phone: Option<String>,
}

impl Words {
    /// `None`: nothing was asked.
    fn of(text: &str) -> Option<Words> {
        let text: String = text.chars().take(WORDS_MAX).collect();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let is_phone = digits.len() >= PHONE_DIGITS && !text.chars().any(char::is_alphabetic);
        let phone = is_phone.then(|| digits[digits.len() - PHONE_DIGITS..].to_owned());
        let words: Vec<String> = folded(&text).split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(Words { words, phone })
    }

    /// Every word stands in what people see of the post. Numbers of people are masked before they are compared.
    fn fit(&self, post: &StoredMessage) -> bool {
        if let Some(phone) = &self.phone {
            let phones = post.facts["phones"].as_array().into_iter().flatten();
            return phones
                .filter_map(|fact| fact["value"].as_str())
                .any(|known| known.ends_with(phone.as_str()));
        }
        let names = post.facts["pet_names"].as_array().into_iter().flatten();
        let facts =
            [&post.facts["city"]["value"], &post.facts["place"]["value"], &post.facts["breed"]["value"]];
        let facts = facts.into_iter().chain(names.map(|name| &name["value"])).filter_map(Value::as_str);
        let told =
            [post.payload["title"].as_str(), post.payload["text"].as_str(), post.origin["url"].as_str()];
        let all: Vec<&str> = told.into_iter().flatten().chain(facts).collect();
        let all = folded(&masked(&all.join("\n"))) + &format!("\n{} {}", post.message_id, post.source);
        self.words.iter().all(|word| all.contains(word.as_str()))
    }
}

fn folded(text: &str) -> String {
    text.to_lowercase().replace('ё', "е")
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    fn check(asked: &str, expected: bool) {
        let post = StoredMessage {
            message_id: MessageId(7),
            source: "vk:-101".into(),
            origin_id: "1".into(),
            payload: json!({"text": "Пропала такса Буся, чёрная. Тел. 8 901 000-00-11"}),
            kind: "lost".into(),
            facts: json!({"phones": [{"value": "+79010000011"}], "city": {"value": "Тюмень"}}),
            tags: json!([]),
            origin: json!({"url": "https://vk.com/wall-101_1"}),
            case_id: None,
            revision: 1,
            seen_count: 1,
            last_seen_at: Timestamp(0),
            skipped: None,
            gone_at: None,
            created_at: Timestamp(0),
        };
        let fits = Words::of(asked).is_none_or(|words| words.fit(&post));
        assert_eq!(fits, expected, "{asked}");
    }

    #[test]
    fn all_words_in_any_order_and_case() {
        check("", true);
        check("БУСЯ такса", true);
        check("черная", true);
        check("тюмень буся", true);
        check("wall-101_1", true);
        check("буся омск", false);
    }

    #[test]
    fn a_number_is_found_whole_and_never_by_trying() {
        check("8 (901) 000-00-11", true);
        check("+7 901 000-00-12", false);
        check("901000", false);
        check("000-00-11", false);
    }
}
