//! Reading messages back, comments under channel posts, and videos.

use serde_json::{Value, json};

use super::compose::{self, NewMessage};
use super::errors::ApiError;
use super::markup::Look;
use super::messages::{Draft, Kept};
use super::places::Place;
use super::{Done, Visitor, bots, send};

const COUNT_MAX: i64 = 100;
const COUNT_DEFAULT: i64 = 50;

/// `GET /messages`: by chat and time, newest first, or by ids. `from` is the newer bound.
pub(super) fn list(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let count = visitor.ranged("count", COUNT_DEFAULT, 1, COUNT_MAX)? as usize;
    let (newest, oldest) = (visitor.number("from")?, visitor.number("to")?);
    let ids = visitor.words("message_ids");
    let chat = visitor.number("chat_id")?;
    if !ids.is_empty() {
        let found = ids.iter().filter_map(|mid| readable(visitor, mid)).map(|kept| kept.object);
        return Ok(messages(&found.take(COUNT_MAX as usize).collect::<Vec<_>>()));
    }
    let chat =
        chat.ok_or_else(|| ApiError::payload("One of `chat_id` and `message_ids` must be specified"))?;
    let place = visitor.entered(chat)?;
    let mut found = Vec::new();
    visitor.max.walk(&place, |object, at| {
        let is_post = object["recipient"].get("post_id").is_none();
        if is_post && newest.is_none_or(|newest| at <= newest) && oldest.is_none_or(|oldest| at >= oldest) {
            found.push(object);
        }
        found.len() < count && oldest.is_none_or(|oldest| at >= oldest)
    });
    Ok(messages(&found))
}

fn messages(found: &[Value]) -> Done {
    Done::new(json!({ "messages": found }))
}

/// A message in a chat where the bot is.
fn readable(visitor: &Visitor<'_>, mid: &str) -> Option<Kept> {
    visitor.entered(visitor.max.chat_of(mid)?).ok()?;
    visitor.max.look(mid)
}

/// `GET /messages/{messageId}`.
pub(super) fn message(visitor: &Visitor<'_>, mid: &str) -> Result<Done, ApiError> {
    let kept = readable(visitor, mid).ok_or_else(|| missing(mid))?;
    Ok(Done::new(kept.object))
}

fn missing(mid: &str) -> ApiError {
    ApiError::not_found(format!("Message {mid} not found"))
}

/// `GET /videos/{videoToken}`.
pub(super) fn video(visitor: &Visitor<'_>, token: &str) -> Result<Done, ApiError> {
    let video = visitor.max.uploads.video(token);
    let video = video.ok_or_else(|| ApiError::not_found(format!("Video {token} not found")))?;
    Ok(Done::new(json!({
        "token": video.token,
        "urls": { "mp4_720": video.url, "mp4_480": video.url },
        "width": 1280,
        "height": 720,
        "duration": 1,
    })))
}

// -- comments

/// The channel post of a path, and its chat.
fn post(visitor: &Visitor<'_>, mid: &str) -> Result<(Place, Kept), ApiError> {
    let kept = readable(visitor, mid).ok_or_else(|| missing(mid))?;
    let place = visitor.entered(visitor.max.chat_of(mid).unwrap_or_default())?;
    if !place.is_channel() || kept.object["recipient"].get("post_id").is_some() {
        return Err(ApiError::payload("Only channel posts have comments"));
    }
    Ok((place, kept))
}

/// `GET /messages/{messageId}/comments`, newest first. `before` and `after` are times or ids of comments.
pub(super) fn comments(visitor: &Visitor<'_>, mid: &str) -> Result<Done, ApiError> {
    let (place, _) = post(visitor, mid)?;
    let count = visitor.ranged("count", COUNT_DEFAULT, 1, COUNT_MAX)? as usize;
    let bound = |name: &str| {
        let value = visitor.text(name)?;
        value.parse::<i64>().ok().or_else(|| visitor.max.look(&value).map(|kept| kept.at))
    };
    let (before, after) = (bound("before"), bound("after"));
    let ids = visitor.words("comment_ids");
    let mut found = Vec::new();
    visitor.max.walk(&place, |object, at| {
        let own = object["recipient"]["post_id"] == mid;
        let wanted = ids.is_empty() || ids.iter().any(|id| object["body"]["mid"] == id.as_str());
        let inside = before.is_none_or(|before| at < before) && after.is_none_or(|after| at > after);
        if own && wanted && inside {
            found.push(object);
        }
        found.len() < count
    });
    Ok(messages(&found))
}

/// `GET /messages/{messageId}/comments/{commentId}`.
pub(super) fn comment(visitor: &Visitor<'_>, mid: &str, comment: &str) -> Result<Done, ApiError> {
    post(visitor, mid)?;
    Ok(Done::new(of_post(visitor, mid, comment)?.object))
}

fn of_post(visitor: &Visitor<'_>, mid: &str, comment: &str) -> Result<Kept, ApiError> {
    let kept = visitor.max.look(comment).filter(|kept| kept.object["recipient"]["post_id"] == mid);
    kept.ok_or_else(|| ApiError::not_found(format!("Comment {comment} not found")))
}

/// Comments are text without links and mentions, and may answer another comment.
fn comment_text(visitor: &Visitor<'_>, new: &NewMessage) -> Result<super::markup::Styled, ApiError> {
    if new.attachments.as_ref().is_some_and(|list| !list.is_empty()) {
        return Err(ApiError::payload("Comments have no attachments"));
    }
    let text = new.text.as_deref().unwrap_or_default();
    let mut styled = compose::styled(visitor, text, new.format)?;
    styled.marks.retain(|mark| !matches!(mark.look, Look::Link(_) | Look::User { .. }));
    if styled.text.is_empty() {
        return Err(ApiError::payload("text: size must be between 1 and 4000"));
    }
    Ok(styled)
}

/// `POST /messages/{messageId}/comments`.
pub(super) fn send_comment(visitor: &Visitor<'_>, mid: &str, body: &Value) -> Result<Done, ApiError> {
    let new = NewMessage::parse(body)?;
    let (place, _) = post(visitor, mid)?;
    visitor.check_speed("send", place.id)?;
    let styled = comment_text(visitor, &new)?;
    if new.link.as_ref().is_some_and(|link| link.forward) {
        return Err(ApiError::payload("Comments can only reply"));
    }
    let link = new.link.as_ref().map(|link| send::linked(visitor, link)).transpose()?;
    let sender = bots::user(visitor);
    let draft = Draft {
        place: &place,
        sender: &sender,
        bot: visitor.id,
        at: visitor.now_ms(),
        seq: visitor.max.next_seq(),
        styled: &styled,
        attachments: Vec::new(),
        link,
        post: Some(mid),
    };
    let object = draft.object();
    visitor.max.keep(&place, &object, &sender, Some(visitor.id));
    let mut done = Done::visible(json!({ "message": object }), &object["body"]["mid"]);
    done.effect.text = Some(styled.text);
    Ok(done)
}

/// `PUT /messages/{messageId}/comments`.
pub(super) fn edit_comment(visitor: &Visitor<'_>, mid: &str, body: &Value) -> Result<Done, ApiError> {
    let new = NewMessage::parse(body)?;
    post(visitor, mid)?;
    let id = visitor.required("comment_id")?;
    let mut kept = of_post(visitor, mid, &id)?;
    if kept.bot != Some(visitor.id) {
        return Err(ApiError::access_denied("Comment can not be edited"));
    }
    let styled = comment_text(visitor, &new)?;
    super::messages::write_text(&mut kept.object["body"], &styled);
    visitor.max.replace(&id, &kept.object, visitor.now_ms());
    let mut done = Done::visible(json!({ "success": true }), &id.as_str().into());
    done.effect.text = Some(styled.text);
    Ok(done)
}

/// `DELETE /messages/{messageId}/comments`.
pub(super) fn delete_comment(visitor: &Visitor<'_>, mid: &str) -> Result<Done, ApiError> {
    let (place, _) = post(visitor, mid)?;
    let id = visitor.required("comment_id")?;
    let kept = of_post(visitor, mid, &id)?;
    if kept.bot != Some(visitor.id) && !visitor.max.rooms.may(&place, visitor.id, "delete") {
        return Err(ApiError::access_denied("Comment can not be deleted"));
    }
    visitor.max.remove(&id);
    Ok(Done::visible(json!({ "success": true }), &id.as_str().into()))
}
