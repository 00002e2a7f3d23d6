//! What a request may say: from bytes to posts, every refusal with the field and the fix. Pure.

use std::collections::HashSet;

use domain::content::Kind;
use domain::message::is_web_address;
use serde::Deserialize;

use super::{ApiError, strict};
use engine::ingest::{PICTURES_MAX, TEXT_MAX};

/// Posts of one call.
pub(super) const POSTS_MAX: usize = 100;
/// Characters of an id that the caller gives.
const ID_MAX: usize = 200;
/// A clock may be wrong by this much.
const AHEAD_MAX_S: i64 = 86_400;

/// At least one of text, title and photos.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Post {
    #[schema(max_length = 50_000)]
    pub text: String,
    pub title: Option<String>,
    /// Addresses of pictures.
    #[schema(max_items = 10)]
    pub photos: Vec<String>,
    /// The caller's own id: the same one again is the same post, with other words an edit of it.
    #[schema(min_length = 1, max_length = 200)]
    pub origin_id: Option<String>,
    /// Where it can be read.
    #[schema(format = "uri")]
    pub url: Option<String>,
    /// Unix seconds.
    pub date: Option<i64>,
    /// What it is; without it the words are asked.
    #[schema(value_type = Option<super::shapes::Kind>, inline)]
    pub kind: Option<Kind>,
    /// Names of channels; without them the routes decide.
    #[schema(min_items = 1)]
    pub channels: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    posts: Vec<Post>,
}

/// One post, or `{"posts": […]}`.
pub(crate) fn posts(body: &[u8], now_s: i64) -> Result<Vec<Post>, ApiError> {
    // Nesting is bounded by the parser itself.
    let value =
        strict::value(body).map_err(|error| ApiError::malformed(format!("the body is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(ApiError::malformed("the body must be one post or {\"posts\": […]}"));
    }
    let is_batch = value.get("posts").is_some();
    let posts =
        if is_batch { strict::meant::<Batch>(value)?.posts } else { vec![strict::meant::<Post>(value)?] };
    if posts.is_empty() || posts.len() > POSTS_MAX {
        let message = format!("{} posts; a call holds 1 to {POSTS_MAX}", posts.len());
        return Err(ApiError::invalid("bad_batch", message).about_field("posts".to_owned()));
    }
    let mut ids = HashSet::new();
    for (n, post) in posts.iter().enumerate() {
        let wrong = |(field, problem): (&str, String)| {
            let field = if is_batch { format!("posts[{n}].{field}") } else { field.to_owned() };
            ApiError::invalid("bad_post", format!("post {n}: {problem}")).about_field(field)
        };
        check(post, now_s).map_err(wrong)?;
        if let Some(id) = &post.origin_id
            && !ids.insert(id)
        {
            return Err(wrong(("origin_id", "origin_id stands twice in this call".to_owned())));
        }
    }
    Ok(posts)
}

/// What is wrong with a post: the field, and the words.
fn check(post: &Post, now_s: i64) -> Result<(), (&'static str, String)> {
    let is_blank = |text: &str| text.trim().is_empty();
    if is_blank(&post.text) && post.title.as_deref().is_none_or(is_blank) && post.photos.is_empty() {
        return Err(("text", "nothing to say; give text, title or photos".to_owned()));
    }
    let characters = post.text.chars().count() + post.title.as_ref().map_or(0, |title| title.chars().count());
    if characters > TEXT_MAX {
        return Err(("text", format!("{characters} characters, at most {TEXT_MAX}; shorten it")));
    }
    if post.photos.len() > PICTURES_MAX {
        return Err(("photos", format!("{} photos, at most {PICTURES_MAX}", post.photos.len())));
    }
    for (field, wrong) in [
        ("photos", post.photos.iter().any(|url| !is_web_address(url))),
        ("url", post.url.iter().any(|url| !is_web_address(url))),
    ] {
        if wrong {
            return Err((field, "photos and url must be http or https addresses".to_owned()));
        }
    }
    let id = post.origin_id.as_deref().unwrap_or("-");
    if is_blank(id) || id.chars().count() > ID_MAX || id.chars().any(char::is_control) {
        return Err(("origin_id", format!("origin_id must be 1 to {ID_MAX} characters")));
    }
    if post.channels.as_ref().is_some_and(Vec::is_empty) {
        let words = "channels is empty; name some, or leave it out so that the routes decide";
        return Err(("channels", words.to_owned()));
    }
    match post.date {
        Some(date) if date > now_s.saturating_mul(100) => {
            Err(("date", "date must be in seconds, not milliseconds".to_owned()))
        }
        Some(date) if date < 0 || date > now_s + AHEAD_MAX_S => {
            Err(("date", "date must be Unix seconds, not before 1970 and not in the future".to_owned()))
        }
        _ => Ok(()),
    }
}
