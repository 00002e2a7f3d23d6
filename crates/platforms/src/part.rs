//! What a part is: one request that its platform accepts, made before anything is sent.
//!
//! A part is neutral where the platforms agree and says nothing of wire fields. Lengths, counts, escaping and
//! targets are already right: `send` checks nothing again. Who makes parts: `{platform}/render.rs`.

use domain::chat::{ChatKind, Overflow};
use domain::message::{Media, MediaKind, Message};
use domain::outcome::{Category, Failure, Scope};
use serde::{Deserialize, Serialize};

/// What a delivery asks of a platform.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action<'a> {
    /// Publish it.
    Send,
    /// Publish it as an answer to what is already there.
    Reply(&'a [Published]),
    /// Put the new words in the place of the published ones.
    Edit(&'a [Published]),
    /// Take the published ones away.
    Delete(&'a [Published]),
}

/// The one signature of `{platform}::render::render`.
pub type Render = fn(&Action<'_>, &Message, &ChannelSettings) -> Result<Rendered, RenderError>;

/// An earlier part as the reader sees it today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    pub shape: Shape,
    /// The platform's ids of everything the part created; an album has one per item.
    pub ids: Vec<String>,
    /// The media shown; an edit on VK has to name them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaItem>,
    /// What it answered; on a VK wall it is then a comment, not a post.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
}

impl Published {
    /// The part that was sent, with the ids the platform gave it; `None` for parts that show nothing.
    pub fn of(part: &Part, ids: Vec<String>) -> Option<Published> {
        match part {
            Part::Text(text) => {
                let reply_to = text.options.reply_to.clone();
                Some(Published { shape: Shape::Text, ids, media: Vec::new(), reply_to })
            }
            Part::Media(media) => {
                let shape = if media.caption.is_some() { Shape::Caption } else { Shape::Media };
                let reply_to = media.options.reply_to.clone();
                Some(Published { shape, ids, media: media.items.clone(), reply_to })
            }
            Part::Edit(_) | Part::Delete(_) | Part::Pin(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Words alone.
    Text,
    /// Media with words.
    Caption,
    /// Media without words.
    Media,
}

/// What rendering gives: the requests in order, and what had to be left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    pub parts: Vec<Part>,
    /// For the audit: sentences like `2 of 12 media left out: max_media is 10`.
    pub notes: Vec<String>,
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Words alone.
    Text(TextPart),
    /// One or more media as one message (an album on Telegram, attachments elsewhere).
    Media(MediaPart),
    /// New words for a published part.
    Edit(EditPart),
    /// Published messages to take away in one request.
    Delete(DeletePart),
    /// Pins what an earlier part created.
    Pin(PinPart),
}

#[derive(Debug, Clone, PartialEq)]
pub struct TextPart {
    pub target: Target,
    pub text: Fitted,
    pub buttons: Keyboard,
    pub options: SendOptions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MediaPart {
    pub target: Target,
    /// Never empty; kinds that the platform takes together.
    pub items: Vec<MediaItem>,
    /// The words of the message; on Telegram the caption of the first item.
    pub caption: Option<Fitted>,
    pub buttons: Keyboard,
    pub options: SendOptions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EditPart {
    pub target: Target,
    /// The platform's id of the message that carries the words.
    pub id: String,
    /// `Text` or `Caption`: Telegram has a method for each.
    pub shape: Shape,
    pub text: Fitted,
    pub buttons: Keyboard,
    /// What the message shows besides; kept.
    pub media: Vec<MediaItem>,
    /// With `reply_to` on a VK wall it is a comment that changes.
    pub options: SendOptions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeletePart {
    pub target: Target,
    /// Never empty and never more than the platform takes at once.
    pub ids: Vec<String>,
    /// On a VK wall: these are comments under this post.
    pub reply_to: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PinPart {
    pub target: Target,
    /// Index among the parts of the same delivery: its first id is pinned.
    pub of_part: usize,
    pub options: SendOptions,
}

/// A medium, and the kind it is sent as: a picture too large for a photo goes as a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaItem {
    pub send_as: MediaKind,
    pub media: Media,
}

/// How one request is sent, apart from its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// No sound for the reader.
    pub silent: bool,
    /// Show a preview of the first link.
    pub preview: bool,
    /// Forum topic (Telegram); the general topic is `None`.
    pub topic: Option<i64>,
    /// The platform's id of the message to answer; on a VK wall the part becomes a comment under it.
    pub reply_to: Option<String>,
    /// Post in the name of the community (VK wall).
    pub from_group: bool,
    /// No forwarding and saving (Telegram).
    pub protect: bool,
}

/// Text that fits, in the markup of its platform. Built by the renderers; plain text by anyone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    text: String,
    markup: Markup,
}

impl Fitted {
    /// Words without markup.
    pub fn plain(text: impl Into<String>) -> Fitted {
        Fitted { text: text.into(), markup: Markup::Plain }
    }

    /// Only the writers of markup call this: the text is escaped already.
    pub(crate) fn marked(text: String, markup: Markup) -> Fitted {
        Fitted { text, markup }
    }

    /// What goes on the wire.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn markup(&self) -> Markup {
        self.markup
    }
}

/// How the wire text is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Markup {
    /// As it stands.
    Plain,
    Html,
    /// Telegram's MarkdownV2.
    MarkdownV2,
    /// The Markdown of MAX.
    Markdown,
}

/// Rows of buttons, none empty; no rows means no keyboard.
pub type Keyboard = Vec<Vec<domain::message::Button>>;

/// An address on the platform, checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// Telegram or MAX chat, VK peer.
    Chat(i64),
    /// A user who has no chat yet (MAX `user_id`).
    User(i64),
    /// A public name, with its `@` (Telegram).
    Name(String),
    /// A VK wall; negative for communities.
    Wall(i64),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Chat(id) | Target::Wall(id) => id.fmt(f),
            Target::User(id) => write!(f, "user:{id}"),
            Target::Name(name) => f.write_str(name),
        }
    }
}

/// What a channel says about how its posts look and where they go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelSettings {
    /// As the operator wrote it: a numeric id, `@name` (Telegram), `user:ID` (MAX).
    pub target: String,
    /// On VK a `channel` is a wall, the others are conversations.
    pub chat_kind: ChatKind,
    pub account_kind: AccountKind,
    /// `None`: the platform's best (HTML on Telegram and MAX).
    pub parse_mode: Option<ParseMode>,
    /// Characters of the body.
    pub body_max: usize,
    pub overflow: Overflow,
    /// Media of one message in all, whatever the platform's album size.
    pub max_media: usize,
    /// `false`: words and the link only.
    pub attach_media: bool,
    /// Source of the template; `None`: the default one.
    pub template: Option<String>,
    pub silent: bool,
    pub preview: bool,
    pub topic: Option<i64>,
    pub pin: bool,
    pub from_group: bool,
    pub protect: bool,
}

impl Default for ChannelSettings {
    fn default() -> ChannelSettings {
        ChannelSettings {
            target: String::new(),
            chat_kind: ChatKind::Channel,
            account_kind: AccountKind::User,
            parse_mode: None,
            body_max: BODY_MAX,
            overflow: Overflow::Cut,
            max_media: MAX_MEDIA,
            attach_media: true,
            template: None,
            silent: false,
            preview: false,
            topic: None,
            pin: false,
            from_group: true,
            protect: false,
        }
    }
}

/// Characters of a body unless the channel says otherwise.
pub const BODY_MAX: usize = 3500;
/// Media of a message unless the channel says otherwise.
pub const MAX_MEDIA: usize = 10;
/// Requests of one delivery; more is a mistake of the settings, not a post.
pub const PARTS_MAX: usize = 100;

/// Whose token sends; only VK cares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountKind {
    #[default]
    User,
    Community,
    Service,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ParseMode {
    #[serde(rename = "HTML", alias = "html")]
    Html,
    #[serde(rename = "MarkdownV2", alias = "markdownv2")]
    MarkdownV2,
    #[serde(rename = "Markdown", alias = "markdown")]
    Markdown,
    #[serde(rename = "none", alias = "plain")]
    Plain,
}

/// Why a message cannot be said on a channel. Each arm is something the platform would refuse too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("{platform}: nothing to send: the message has no words and no media that {platform} takes")]
    Empty { platform: &'static str },
    #[error("{platform}: {what} is {length} long, {max} at most")]
    TooLong { platform: &'static str, what: &'static str, length: usize, max: usize },
    #[error(
        "{platform}: the post needs {parts} messages, {PARTS_MAX} at most: set overflow = \"cut\" or a lower max_media"
    )]
    TooManyParts { platform: &'static str, parts: usize },
    #[error("{platform}: bad target {target:?}: {expected}")]
    BadTarget { platform: &'static str, target: String, expected: &'static str },
    #[error("{platform}: {reason}")]
    BadSettings { platform: &'static str, reason: String },
    #[error("{platform}: button {button:?}: {reason}")]
    BadButton { platform: &'static str, button: String, reason: String },
    #[error("{platform}: media cannot be sent: {reason}")]
    UnsupportedMedia { platform: &'static str, reason: String },
    #[error("template: {reason}")]
    Template { reason: String },
    #[error("{platform}: nothing published that could be changed: {reason}")]
    NothingPublished { platform: &'static str, reason: &'static str },
}

impl RenderError {
    /// Short and stable, for `Failure::code`.
    pub fn code(&self) -> &'static str {
        match self {
            RenderError::Empty { .. } => "render.empty",
            RenderError::TooLong { .. } | RenderError::TooManyParts { .. } => "render.too_long",
            RenderError::BadTarget { .. } => "render.bad_target",
            RenderError::BadSettings { .. } => "render.bad_settings",
            RenderError::BadButton { .. } => "render.bad_button",
            RenderError::UnsupportedMedia { .. } => "render.unsupported_media",
            RenderError::Template { .. } => "render.template",
            RenderError::NothingPublished { .. } => "render.nothing_published",
        }
    }

    /// A wrong target, setting or template is the channel's fault; the rest is this delivery's.
    pub fn scope(&self) -> Scope {
        match self {
            RenderError::BadTarget { .. }
            | RenderError::BadSettings { .. }
            | RenderError::Template { .. } => Scope::Channel,
            _ => Scope::Delivery,
        }
    }

    /// The outcome of a delivery that cannot be rendered: certain, and before the network.
    pub fn to_failure(&self) -> Failure {
        Failure::new(Category::Permanent, self.scope(), self.code(), self.to_string())
    }
}
