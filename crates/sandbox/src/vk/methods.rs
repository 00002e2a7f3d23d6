//! The methods: which kinds of token may call them, which right they need, and who does the work.

use crate::core::Core;
use crate::limits::Window;

use super::errors::ApiError;
use super::tokens::{Caller, Kind};
use super::{Ctx, Done, comments, execute, groups, history, messages, people, publish, uploads, wall};

/// One method.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: &'static str,
    /// `u` user, `g` community, `s` service.
    tokens: &'static str,
    /// The right a token needs; empty is none.
    right: &'static str,
    pub run: fn(&mut Ctx<'_>) -> Result<Done, ApiError>,
}

const fn entry(
    name: &'static str,
    tokens: &'static str,
    right: &'static str,
    run: fn(&mut Ctx<'_>) -> Result<Done, ApiError>,
) -> Entry {
    Entry { name, tokens, right, run }
}

/// In alphabetical order of the sections; names are case-sensitive.
const METHODS: &[Entry] = &[
    entry("account.getProfileInfo", "u", "", people::profile),
    entry("account.setOffline", "u", "", people::one),
    entry("account.setOnline", "u", "", people::one),
    entry("docs.getById", "ug", "docs", uploads::docs_by_id),
    entry("docs.getMessagesUploadServer", "ug", "docs", uploads::doc_server),
    entry("docs.getUploadServer", "u", "docs", uploads::doc_server),
    entry("docs.getWallUploadServer", "ug", "docs", uploads::doc_server),
    entry("docs.save", "ug", "docs", uploads::save_doc),
    entry("execute", "ug", "", execute::run),
    entry("groups.addCallbackServer", "ug", "manage", groups::add_server),
    entry("groups.deleteCallbackServer", "ug", "manage", groups::delete_server),
    entry("groups.disableOnline", "ug", "manage", people::one),
    entry("groups.editCallbackServer", "ug", "manage", groups::edit_server),
    entry("groups.enableOnline", "ug", "manage", people::one),
    entry("groups.get", "us", "", groups::own),
    entry("groups.getById", "ugs", "", groups::by_id),
    entry("groups.getCallbackConfirmationCode", "ug", "manage", groups::confirmation_code),
    entry("groups.getCallbackServers", "ug", "manage", groups::servers),
    entry("groups.getCallbackSettings", "ug", "manage", groups::callback_settings),
    entry("groups.getLongPollServer", "ug", "manage", groups::longpoll_server),
    entry("groups.getLongPollSettings", "ug", "manage", groups::longpoll_settings),
    entry("groups.getMembers", "ugs", "", groups::members),
    entry("groups.getOnlineStatus", "ug", "", groups::online_status),
    entry("groups.getTokenPermissions", "g", "", groups::token_permissions),
    entry("groups.isMember", "ugs", "", groups::is_member),
    entry("groups.setCallbackSettings", "ug", "manage", groups::set_callback_settings),
    entry("groups.setLongPollSettings", "ug", "manage", groups::set_longpoll_settings),
    entry("likes.add", "u", "wall", wall::like),
    entry("likes.delete", "u", "wall", wall::unlike),
    entry("messages.delete", "ug", "messages", messages::delete),
    entry("messages.edit", "ug", "messages", messages::edit),
    entry("messages.getByConversationMessageId", "ug", "messages", history::by_conversation_id),
    entry("messages.getById", "ug", "messages", history::by_id),
    entry("messages.getConversationMembers", "ug", "messages", history::members),
    entry("messages.getConversations", "ug", "messages", history::conversations),
    entry("messages.getConversationsById", "ug", "messages", history::conversations_by_id),
    entry("messages.getHistory", "ug", "messages", history::history),
    entry("messages.isMessagesFromGroupAllowed", "ug", "", history::is_allowed),
    entry("messages.markAsAnsweredConversation", "ug", "messages", people::one),
    entry("messages.markAsImportantConversation", "ug", "messages", people::one),
    entry("messages.markAsRead", "ug", "messages", history::mark_as_read),
    entry("messages.pin", "ug", "messages", messages::pin),
    entry("messages.send", "ug", "messages", messages::send),
    entry("messages.sendMessageEventAnswer", "g", "messages", messages::answer_event),
    entry("messages.setActivity", "ug", "messages", people::one),
    entry("messages.unpin", "ug", "messages", messages::unpin),
    entry("photos.getById", "us", "", uploads::photos_by_id),
    entry("photos.getMessagesUploadServer", "ug", "photos", uploads::message_photo_server),
    entry("photos.getUploadServer", "u", "photos", uploads::album_server),
    entry("photos.getWallUploadServer", "u", "photos", uploads::wall_photo_server),
    entry("photos.save", "u", "photos", uploads::save_album_photo),
    entry("photos.saveMessagesPhoto", "ug", "photos", uploads::save_message_photo),
    entry("photos.saveWallPhoto", "u", "photos", uploads::save_wall_photo),
    entry("stats.trackVisitor", "u", "", people::one),
    entry("users.get", "ugs", "", people::get),
    entry("utils.checkLink", "ugs", "", people::check_link),
    entry("utils.getServerTime", "ugs", "", people::server_time),
    entry("utils.getShortLink", "ugs", "", people::short_link),
    entry("utils.resolveScreenName", "ugs", "", people::resolve_screen_name),
    entry("video.get", "u", "video", uploads::videos),
    entry("video.save", "u", "video", uploads::video_server),
    entry("wall.checkCopyrightLink", "u", "", publish::check_copyright),
    entry("wall.closeComments", "ug", "wall", comments::close),
    entry("wall.createComment", "ug", "wall", comments::create),
    entry("wall.delete", "u", "wall", publish::delete),
    entry("wall.deleteComment", "u", "wall", comments::delete),
    entry("wall.edit", "u", "wall", publish::edit),
    entry("wall.editComment", "u", "wall", comments::edit),
    entry("wall.get", "us", "", wall::get),
    entry("wall.getById", "us", "", wall::get_by_id),
    entry("wall.getComment", "u", "", comments::get_one),
    entry("wall.getComments", "us", "", comments::get),
    entry("wall.openComments", "ug", "wall", comments::open),
    entry("wall.pin", "u", "wall", publish::pin),
    // The schema says people only; keys of communities with the right "wall" post all the same.
    entry("wall.post", "ug", "wall", publish::post),
    entry("wall.repost", "u", "wall", publish::repost),
    entry("wall.restore", "u", "wall", publish::restore),
    entry("wall.search", "us", "", wall::search),
    entry("wall.unpin", "u", "wall", publish::unpin),
];

pub(super) fn find(name: &str) -> Option<&'static Entry> {
    METHODS.iter().find(|entry| entry.name == name)
}

/// May this kind of token call it, and has it the right?
pub(super) fn admit(entry: &Entry, caller: &Caller) -> Result<(), ApiError> {
    let letter = match caller.kind {
        Kind::User => 'u',
        Kind::Community => 'g',
        Kind::Service => 's',
        Kind::Full => return Ok(()),
    };
    if !entry.tokens.contains(letter) {
        return Err(match caller.kind {
            Kind::Community => ApiError::new(27, "method is unavailable with group auth."),
            Kind::Service => ApiError::new(28, "method is unavailable with service token."),
            _ => ApiError::new(15, "method is available only with group auth."),
        });
    }
    if !entry.right.is_empty() && !caller.has_right(entry.right) {
        return Err(ApiError::scope());
    }
    Ok(())
}

const DAY_MS: i64 = 86_400_000;

/// Calls per second of the token, and the daily quotas that some methods have.
pub(super) fn throttle(core: &Core, entry: &Entry, caller: &Caller, now_ms: i64) -> Result<(), ApiError> {
    core.limits.take(&[caller.window()], now_ms).map_err(|_| ApiError::plain(6))?;
    let most = match entry.name {
        "wall.get" => 5000,
        "wall.search" => 1000,
        _ => return Ok(()),
    };
    let key = format!("vk:{}:{}", entry.name, caller.account.token);
    core.limits.take(&[Window::new(key, most, DAY_MS)], now_ms).map_err(|_| ApiError::plain(29))
}
