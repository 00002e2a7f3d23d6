//! Message × channel → MAX requests. The limits are those of docs/platforms/max.md.

use domain::message::{Media, MediaKind, Message};

use super::markdown::{self, Markdown};
use crate::part::{Action, ChannelSettings, MediaItem, ParseMode, Published, RenderError, Rendered, Target};
use crate::render::buttons::{self, Rules};
use crate::render::fit::{Limit, Ruler, Unit};
use crate::render::markup::{Dialect, Html, Plain, Run, spell_out_links, write};
use crate::render::media;
use crate::render::publish::{self, Draft, Edit};
use crate::render::{check_settings, compose, messages};
use domain::chat::ChatKind;

const PLATFORM: &str = "max";

/// UTF-16 units with the markup; MAX does not say which unit it means, and this one is never the larger.
pub const TEXT_MAX: usize = 4000;
/// Attachments of one message; a keyboard is one of them.
pub const ATTACHMENTS_MAX: usize = 12;
const IMAGE_MEGABYTES_MAX: u64 = 50;
const IMAGE_SIDE_MAX: u32 = 7680;
const IMAGE_TYPES: [&str; 7] = ["jpeg", "jpg", "png", "gif", "tiff", "bmp", "heic"];
const VIDEO_MEGABYTES_MAX: u64 = 250;
const VIDEO_TYPES: [&str; 4] = ["mp4", "quicktime", "x-matroska", "webm"];
const AUDIO_MEGABYTES_MAX: u64 = 256;
const AUDIO_SECONDS_MAX: u32 = 60 * 60;
const FILE_MEGABYTES_MAX: u64 = 4000;

pub(super) const BUTTONS: Rules = Rules {
    platform: PLATFORM,
    buttons_max: 210,
    rows_max: 30,
    row_max: 7,
    link_row_max: 3,
    text_max: 128,
    callback_bytes_max: 1024,
    schemes: &[],
};

static HTML: Html = Html { spoiler: None };
static MARKDOWN: Markdown = Markdown;
static PLAIN: Plain = Plain;

pub fn render(
    action: &Action<'_>,
    message: &Message,
    settings: &ChannelSettings,
) -> Result<Rendered, RenderError> {
    check_settings(PLATFORM, settings)?;
    let target = target(&settings.target)?;
    if settings.topic.is_some() {
        let reason = "topic is set, but MAX has no topics".to_owned();
        return Err(RenderError::BadSettings { platform: PLATFORM, reason });
    }
    match action {
        Action::Send => send(message, settings, &target, None),
        Action::Reply(published) => {
            let reply_to = publish::answered(PLATFORM, published, is_id)?;
            send(message, settings, &target, Some(reply_to))
        }
        Action::Edit(published) => edit(message, settings, target, published),
        Action::Delete(published) => {
            let parts = publish::deletes(PLATFORM, &target, published, is_id, 1)?;
            Ok(Rendered { parts, notes: Vec::new() })
        }
    }
}

fn send(
    message: &Message,
    settings: &ChannelSettings,
    target: &Target,
    reply_to: Option<String>,
) -> Result<Rendered, RenderError> {
    let dialect = dialect(settings)?;
    let picked = media::pick(message, settings, accept);
    let runs = prepare(compose(message, settings, &picked, dialect.markup())?, settings);
    let buttons = buttons::rows(&message.buttons, &BUTTONS)?;
    let groups = groups(picked.items, !buttons.is_empty());
    let texts = messages(PLATFORM, runs, settings, &ruler(dialect))?;
    if texts.is_empty() && groups.is_empty() {
        return Err(publish::empty(PLATFORM, &picked.notes));
    }
    let mut drafts: Vec<Draft> =
        texts.iter().map(|runs| Draft { words: Some(write(dialect, runs)), ..Draft::default() }).collect();
    publish::attach(&mut drafts, groups);
    // Under the last words, else under the first media: a keyboard alone is refused.
    let under = drafts.iter().rposition(|draft| draft.words.is_some()).unwrap_or(0);
    if let Some(draft) = drafts.get_mut(under) {
        draft.buttons = buttons;
    }
    let first = publish::options(settings, reply_to);
    let mut parts = publish::parts(PLATFORM, target, drafts, &first, &publish::following(&first))?;
    let mut notes = picked.notes;
    match (settings.pin, settings.chat_kind) {
        (true, ChatKind::Private) => notes.push("pin left out: MAX pins nothing in dialogues".to_owned()),
        (true, _) => parts.push(publish::pin(target, &first)),
        (false, _) => {}
    }
    Ok(Rendered { parts, notes })
}

fn edit(
    message: &Message,
    settings: &ChannelSettings,
    target: Target,
    published: &[Published],
) -> Result<Rendered, RenderError> {
    let dialect = dialect(settings)?;
    let picked = media::pick(message, settings, accept);
    let edit = Edit {
        platform: PLATFORM,
        target,
        runs: prepare(compose(message, settings, &picked, dialect.markup())?, settings),
        keyboard: buttons::rows(&message.buttons, &BUTTONS)?,
        settings,
        is_id,
        ruler: &|_| ruler(dialect),
        finish: |runs| runs,
        deletes_at_once: 1,
        keyboard_media_max: ATTACHMENTS_MAX - 1,
    };
    Ok(Rendered { parts: publish::edit(&edit, published)?, notes: Vec::new() })
}

/// The limit is taken on the wire text: whether MAX counts before or after the markup is read is not known.
fn ruler(dialect: &dyn Dialect) -> Ruler<'_> {
    let limit = Limit { unit: Unit::Utf16, max: TEXT_MAX };
    Ruler { dialect, visible: limit, raw: limit }
}

fn dialect(settings: &ChannelSettings) -> Result<&'static dyn Dialect, RenderError> {
    match settings.parse_mode {
        None | Some(ParseMode::Html) => Ok(&HTML),
        Some(ParseMode::Markdown) => Ok(&MARKDOWN),
        Some(ParseMode::Plain) => Ok(&PLAIN),
        Some(ParseMode::MarkdownV2) => {
            let reason = "parse mode MarkdownV2 is Telegram's: use HTML, Markdown or none".to_owned();
            Err(RenderError::BadSettings { platform: PLATFORM, reason })
        }
    }
}

fn prepare(runs: Vec<Run>, settings: &ChannelSettings) -> Vec<Run> {
    match settings.parse_mode {
        Some(ParseMode::Plain) => spell_out_links(runs),
        Some(ParseMode::Markdown) => markdown::by_line(runs),
        _ => runs,
    }
}

/// A chat id, or `user:ID` for somebody who has no chat with the bot yet.
pub fn target(written: &str) -> Result<Target, RenderError> {
    let bad = || RenderError::BadTarget {
        platform: PLATFORM,
        target: written.chars().take(64).collect(),
        expected: "a numeric chat id such as -70000000000001, or user:ID",
    };
    let (is_user, number) = match written.strip_prefix("user:") {
        Some(number) => (true, number),
        None => (false, written),
    };
    match number.parse::<i64>() {
        Ok(id) if is_user && id > 0 => Ok(Target::User(id)),
        Ok(id) if !is_user && id != 0 => Ok(Target::Chat(id)),
        _ => Err(bad()),
    }
}

fn is_id(id: &str) -> bool {
    (1..=256).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What a medium is sent as. Pictures and videos that MAX would not show go as files.
fn accept(media: &Media) -> Result<MediaKind, String> {
    let is_side_long = |side: Option<u32>| side.is_some_and(|side| side > IMAGE_SIDE_MAX);
    let is_image = media::up_to(IMAGE_MEGABYTES_MAX, media).is_ok()
        && !is_side_long(media.width)
        && !is_side_long(media.height)
        && !media::is_other_type(media, &IMAGE_TYPES);
    let is_video =
        media::up_to(VIDEO_MEGABYTES_MAX, media).is_ok() && !media::is_other_type(media, &VIDEO_TYPES);
    let is_audio = media::up_to(AUDIO_MEGABYTES_MAX, media).is_ok()
        && media.duration_s.is_none_or(|seconds| seconds <= AUDIO_SECONDS_MAX);
    media::up_to(FILE_MEGABYTES_MAX, media)?;
    match media.kind {
        MediaKind::Photo | MediaKind::Animation if is_image => Ok(MediaKind::Photo),
        MediaKind::Video | MediaKind::Animation if is_video => Ok(MediaKind::Video),
        MediaKind::Audio if is_audio => Ok(MediaKind::Audio),
        _ => Ok(MediaKind::Document),
    }
}

/// Pictures and videos share a message; a file and an audio each have their own.
fn groups(items: Vec<MediaItem>, has_keyboard: bool) -> Vec<Vec<MediaItem>> {
    let is_visual = |item: &MediaItem| matches!(item.send_as, MediaKind::Photo | MediaKind::Video);
    let (visual, alone): (Vec<_>, Vec<_>) = items.into_iter().partition(is_visual);
    let size = if has_keyboard { ATTACHMENTS_MAX - 1 } else { ATTACHMENTS_MAX };
    [media::in_groups(&visual, size), media::in_groups(&alone, 1)].concat()
}
