//! The list of methods and what each of them does. Names are compared without regard to case.

use serde_json::{Value, json};

use super::args::Args;
use super::bots::Bot;
use super::edit::{self, Again, Pinned};
use super::errors::ApiError;
use super::files::{self, File, FileKind};
use super::messages::{self, Content, Frame};
use super::people::{self, Place};
use super::send;
use super::webhook;
use crate::core::SharedCore;
use crate::registry::Account;
use crate::reply::Effect;

/// What a successful call leaves behind.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub result: Value,
    pub description: Option<&'static str>,
    pub effect: Effect,
}

impl Done {
    pub(super) fn new(result: Value) -> Done {
        Done { result, description: None, effect: Effect::done() }
    }

    pub(super) fn visible(result: Value, visible_id: Value) -> Done {
        Done { result, description: None, effect: Effect::visible(visible_id) }
    }
}

/// One call of one bot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor<'a> {
    pub core: &'a SharedCore,
    pub account: &'a Account,
    /// The bot's own state: updates, webhook, commands.
    pub own: &'a std::sync::Arc<Bot>,
    pub bot: i64,
    pub args: &'a Args,
}

impl Visitor<'_> {
    pub(super) fn place(&self, field: &str) -> Result<Place, ApiError> {
        people::place(self.core, self.args, field)
    }

    pub(super) async fn file(&self, field: &str, kind: FileKind) -> Result<Option<File>, ApiError> {
        files::find(self.core, self.args, &self.args.text(field), Some(field), kind, self.bot).await
    }

    pub(super) fn post_one(&self, place: &Place, content: &Content, frame: &Frame) -> Value {
        messages::post(self.core, self.account, place, content, frame)
    }

    /// Posts one message and says so to the ledger.
    pub(super) fn post(&self, place: &Place, content: &Content, frame: &Frame) -> Done {
        let posted = self.post_one(place, content, frame);
        let id = posted["message_id"].clone();
        let mut done = Done::visible(posted, id);
        match content {
            Content::Text(formatted) => done.effect.text = Some(formatted.text.clone()),
            Content::Media(media) => {
                done.effect.text = Some(media.caption.text.clone()).filter(|text| !text.is_empty());
                done.effect.media = vec![messages::ledger_media(&media.file)];
            }
            Content::Object(..) => {}
        }
        done
    }

    /// Posts the content of a message object once more.
    pub(super) fn post_again(
        &self,
        place: &Place,
        original: &Value,
        again: Again,
        album: Option<String>,
    ) -> Result<Value, ApiError> {
        let mut frame = match again {
            Again::Copy => send::frame(self, place)?,
            Again::Forward => Frame { forward_origin: Some(origin(original)), ..Frame::default() },
        };
        frame.album = album;
        Ok(messages::post_copy(self.core, self.account, place, original, &frame))
    }
}

fn origin(original: &Value) -> Value {
    let date = original["date"].clone();
    match original.get("sender_chat") {
        Some(chat) => {
            json!({ "type": "channel", "date": date, "chat": chat, "message_id": original["message_id"] })
        }
        None => json!({ "type": "user", "date": date, "sender_user": original["from"] }),
    }
}

/// Every method in its canonical spelling.
pub(super) const METHODS: &[&str] = &[
    "getMe",
    "logOut",
    "close",
    "sendMessage",
    "sendPhoto",
    "sendVideo",
    "sendAnimation",
    "sendDocument",
    "sendAudio",
    "sendVoice",
    "sendVideoNote",
    "sendSticker",
    "sendMediaGroup",
    "sendLocation",
    "sendVenue",
    "sendContact",
    "sendDice",
    "sendPoll",
    "sendChatAction",
    "editMessageText",
    "editMessageCaption",
    "editMessageMedia",
    "editMessageReplyMarkup",
    "deleteMessage",
    "deleteMessages",
    "copyMessage",
    "copyMessages",
    "forwardMessage",
    "forwardMessages",
    "pinChatMessage",
    "unpinChatMessage",
    "unpinAllChatMessages",
    "getChat",
    "getChatMember",
    "getChatMemberCount",
    "getChatAdministrators",
    "leaveChat",
    "getUpdates",
    "setWebhook",
    "deleteWebhook",
    "getWebhookInfo",
    "answerCallbackQuery",
    "answerInlineQuery",
    "getFile",
    "getUserProfilePhotos",
    "setMessageReaction",
    "setMyCommands",
    "getMyCommands",
    "deleteMyCommands",
    "setMyName",
    "getMyName",
    "setMyDescription",
    "getMyDescription",
    "setMyShortDescription",
    "getMyShortDescription",
    "setChatMenuButton",
    "getChatMenuButton",
    "getMyDefaultAdministratorRights",
    "setMyDefaultAdministratorRights",
    "banChatMember",
    "unbanChatMember",
    "restrictChatMember",
    "promoteChatMember",
    "setChatTitle",
    "setChatDescription",
    "setChatPermissions",
    "exportChatInviteLink",
    "getForumTopicIconStickers",
];

/// The canonical spelling of a method's name.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    METHODS.iter().find(|own| own.eq_ignore_ascii_case(name)).copied()
}

/// Methods that put messages into chats and count against the speed limits.
pub(super) fn sends(method: &str) -> bool {
    let posts = method.starts_with("send") && method != "sendChatAction";
    posts || method.starts_with("copy") || method.starts_with("forward")
}

/// Performs a method.
pub(super) async fn run(visitor: &Visitor<'_>, method: &str) -> Result<Done, ApiError> {
    match method {
        "sendMessage" => send::message(visitor),
        "sendPhoto" => send::media(visitor, FileKind::Photo).await,
        "sendVideo" => send::media(visitor, FileKind::Video).await,
        "sendAnimation" => send::media(visitor, FileKind::Animation).await,
        "sendDocument" => send::media(visitor, FileKind::Document).await,
        "sendAudio" => send::media(visitor, FileKind::Audio).await,
        "sendVoice" => send::media(visitor, FileKind::Voice).await,
        "sendVideoNote" => send::media(visitor, FileKind::VideoNote).await,
        "sendSticker" => send::media(visitor, FileKind::Sticker).await,
        "sendMediaGroup" => send::media_group(visitor).await,
        "sendLocation" => send::object(visitor, "location"),
        "sendVenue" => send::object(visitor, "venue"),
        "sendContact" => send::object(visitor, "contact"),
        "sendDice" => send::object(visitor, "dice"),
        "sendPoll" => send::object(visitor, "poll"),
        "sendChatAction" => send::chat_action(visitor),
        "editMessageText" => edit::text(visitor),
        "editMessageCaption" => edit::caption(visitor),
        "editMessageMedia" => edit::media(visitor).await,
        "editMessageReplyMarkup" => edit::reply_markup(visitor),
        "deleteMessage" => edit::delete(visitor),
        "deleteMessages" => edit::delete_many(visitor),
        "copyMessage" => edit::again(visitor, Again::Copy),
        "copyMessages" => edit::again_many(visitor, Again::Copy),
        "forwardMessage" => edit::again(visitor, Again::Forward),
        "forwardMessages" => edit::again_many(visitor, Again::Forward),
        "pinChatMessage" => edit::pin(visitor, Pinned::Yes),
        "unpinChatMessage" => edit::pin(visitor, Pinned::No),
        "unpinAllChatMessages" => edit::unpin_all(visitor),
        "getUpdates" => webhook::get_updates(visitor).await,
        "setWebhook" => webhook::set(visitor),
        "deleteWebhook" => Ok(webhook::delete(visitor)),
        "getWebhookInfo" => Ok(Done::new(visitor.own.webhook_info())),
        "answerCallbackQuery" => visitor.own.answer_callback(visitor),
        "getFile" => files::get_file(visitor.core, &visitor.args.text("file_id"), visitor.bot).map(Done::new),
        _ => about(visitor, method),
    }
}

/// Questions about the bot and its chats, and settings that change nothing a reader sees.
fn about(visitor: &Visitor<'_>, method: &str) -> Result<Done, ApiError> {
    let result = match method {
        "getMe" => people::me(visitor.account),
        "getChat" => {
            let place = visitor.place("chat_id")?;
            place.check_access()?;
            place.full_json()
        }
        "getChatMember" => chat_member(visitor)?,
        "getChatMemberCount" => {
            let place = visitor.place("chat_id")?;
            place.check_access()?;
            place.chat.field("members").as_i64().unwrap_or(2).into()
        }
        "getChatAdministrators" => administrators(visitor)?,
        "getUserProfilePhotos" => json!({ "total_count": 0, "photos": [] }),
        "getMyName" => json!({ "name": visitor.account.name }),
        "getMyDescription" => json!({ "description": "" }),
        "getMyShortDescription" => json!({ "short_description": "" }),
        "getChatMenuButton" => json!({ "type": "commands" }),
        "getForumTopicIconStickers" => json!([]),
        "getMyDefaultAdministratorRights" => rights(),
        "setMyCommands" => visitor.own.set_commands(visitor.args)?,
        "getMyCommands" => visitor.own.commands(),
        "deleteMyCommands" => visitor.own.clear_commands(),
        "answerInlineQuery" => return Err(ApiError::bad(super::bots::QUERY_TOO_OLD)),
        "exportChatInviteLink" => {
            let place = visitor.place("chat_id")?;
            place.check_access()?;
            format!("https://t.me/+sandbox{}", place.id.unsigned_abs()).into()
        }
        "leaveChat" | "banChatMember" | "unbanChatMember" | "restrictChatMember" | "promoteChatMember"
        | "setChatTitle" | "setChatDescription" | "setChatPermissions" | "setMessageReaction" => {
            visitor.place("chat_id")?.check_access()?;
            true.into()
        }
        // logOut, close and the bot's own settings.
        _ => true.into(),
    };
    Ok(Done::new(result))
}

fn chat_member(visitor: &Visitor<'_>) -> Result<Value, ApiError> {
    let place = visitor.place("chat_id")?;
    let user = visitor.args.integer("user_id");
    if user <= 0 {
        return Err(ApiError::bad("invalid user_id specified"));
    }
    if user == visitor.bot {
        return Ok(people::member(&place, &people::bot_user(visitor.account), true));
    }
    place.check_access()?;
    let user = super::inject::user(visitor.core, &json!(user));
    Ok(people::member(&place, &user, false))
}

fn administrators(visitor: &Visitor<'_>) -> Result<Value, ApiError> {
    let place = visitor.place("chat_id")?;
    place.check_access()?;
    if place.is_private() {
        return Err(ApiError::bad("there are no administrators in the private chat"));
    }
    let own = people::member(&place, &people::bot_user(visitor.account), true);
    let is_admin = own["status"] == "administrator";
    Ok(if is_admin { json!([own]) } else { json!([]) })
}

fn rights() -> Value {
    let names = [
        "is_anonymous",
        "can_manage_chat",
        "can_delete_messages",
        "can_manage_video_chats",
        "can_restrict_members",
        "can_promote_members",
        "can_change_info",
        "can_invite_users",
        "can_post_stories",
        "can_edit_stories",
        "can_delete_stories",
        "can_send_welcome_messages",
    ];
    names
        .iter()
        .map(|name| ((*name).to_owned(), Value::from(false)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
