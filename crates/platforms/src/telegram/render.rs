//! Message × channel → Telegram requests. The limits are those of docs/platforms/telegram.md.

use domain::message::{Media, MediaKind, Message};

use super::markdown::MarkdownV2;
use crate::part::{
    Action, ChannelSettings, Keyboard, MediaItem, ParseMode, Published, RenderError, Rendered, Shape, Target,
};
use crate::render::buttons::{self, Rules};
use crate::render::clean::is_blank;
use crate::render::fit::{self, Limit, Ruler, Unit};
use crate::render::markup::{Dialect, Html, Plain, Run, spell_out_links, write};
use crate::render::media;
use crate::render::publish::{self, Draft, Edit};
use crate::render::{check_settings, compose, messages, uncut, words};
use domain::chat::Overflow;

const PLATFORM: &str = "telegram";

/// Code points after the markup is read.
pub const TEXT_MAX: usize = 4096;
pub const CAPTION_MAX: usize = 1024;
/// Bytes before the markup is read.
const RAW_BYTES_MAX: usize = 32_768;
/// Items of one album.
pub const ALBUM_MAX: usize = 10;
/// Ids of one deleteMessages.
const DELETES_MAX: usize = 100;
const PHOTO_MEGABYTES_MAX: u64 = 10;
const FILE_MEGABYTES_MAX: u64 = 50;
const PHOTO_SIDES_SUM_MAX: u32 = 10_000;
const PHOTO_RATIO_MAX: u32 = 20;
/// Identifiers have at most 52 significant bits.
const ID_MAX: i64 = 1 << 52;
/// The general topic of a forum is named by leaving it out.
const GENERAL_TOPIC: i64 = 1;

pub(super) const BUTTONS: Rules = Rules {
    platform: PLATFORM,
    buttons_max: 100,
    rows_max: 100,
    row_max: 8,
    link_row_max: 8,
    text_max: 64,
    callback_bytes_max: 64,
    schemes: &["tg://"],
};

static HTML: Html = Html { spoiler: Some("tg-spoiler") };
static MARKDOWN_V2: MarkdownV2 = MarkdownV2;
static PLAIN: Plain = Plain;

pub fn render(
    action: &Action<'_>,
    message: &Message,
    settings: &ChannelSettings,
) -> Result<Rendered, RenderError> {
    check_settings(PLATFORM, settings)?;
    let target = target(&settings.target)?;
    let settings = &ChannelSettings { topic: topic(settings)?, ..settings.clone() };
    match action {
        Action::Send => send(message, settings, &target, None),
        Action::Reply(published) => {
            let reply_to = publish::answered(PLATFORM, published, is_id)?;
            send(message, settings, &target, Some(reply_to))
        }
        Action::Edit(published) => edit(message, settings, target, published),
        Action::Delete(published) => {
            let parts = publish::deletes(PLATFORM, &target, published, is_id, DELETES_MAX)?;
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
    let mut picked = media::pick(message, settings, accept);
    let runs = prepare(compose(message, settings, &picked, dialect.markup())?, settings);
    let mut buttons = buttons::rows(&message.buttons, &BUTTONS)?;
    let groups = groups(&picked.items);
    let caption = caption(&runs, settings, &groups, &buttons, dialect);
    let texts = match caption {
        Some(_) => Vec::new(),
        None => messages(PLATFORM, runs, settings, &ruler(dialect, TEXT_MAX))?,
    };
    if texts.is_empty() && groups.is_empty() {
        return Err(publish::empty(PLATFORM, &picked.notes));
    }
    let drafts = drafts(dialect, caption, &texts, groups, &mut buttons);
    if !buttons.is_empty() {
        picked.notes.push("buttons left out: an album without words cannot have any".to_owned());
    }
    let first = publish::options(settings, reply_to);
    let mut parts = publish::parts(PLATFORM, target, drafts, &first, &publish::following(&first))?;
    if settings.pin {
        parts.push(publish::pin(target, &first));
    }
    Ok(Rendered { parts, notes: picked.notes })
}

/// Words first, then the media. Buttons go under the last words, else under the first single medium.
fn drafts(
    dialect: &dyn Dialect,
    caption: Option<Vec<Run>>,
    texts: &[Vec<Run>],
    groups: Vec<Vec<MediaItem>>,
    buttons: &mut Keyboard,
) -> Vec<Draft> {
    let mut drafts: Vec<Draft> =
        texts.iter().map(|runs| Draft { words: Some(write(dialect, runs)), ..Draft::default() }).collect();
    if let Some(last) = drafts.last_mut() {
        last.buttons = std::mem::take(buttons);
    }
    let mut words = caption.map(|runs| write(dialect, &runs));
    for items in groups {
        let buttons = if items.len() == 1 { std::mem::take(buttons) } else { Keyboard::new() };
        drafts.push(Draft { words: words.take(), items, buttons });
    }
    drafts
}

/// The words as a caption of the first group, when they fit as they are.
fn caption(
    runs: &[Run],
    settings: &ChannelSettings,
    groups: &[Vec<MediaItem>],
    buttons: &Keyboard,
    dialect: &dyn Dialect,
) -> Option<Vec<Run>> {
    let group = groups.first()?;
    // Words under an album cannot carry buttons, words of their own can.
    if group.len() > 1 && !buttons.is_empty() {
        return None;
    }
    let whole = uncut(runs);
    let runs = match settings.overflow {
        Overflow::Cut if fit::body_chars(&whole) > settings.body_max => {
            fit::cut_body(runs.to_vec(), settings.body_max)
        }
        Overflow::Cut | Overflow::Split => whole,
    };
    let fits = fit::body_chars(&runs) <= settings.body_max && ruler(dialect, CAPTION_MAX).fits(&runs);
    (fits && !is_blank(&words(&runs))).then_some(runs)
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
        ruler: &|shape| ruler(dialect, if shape == Shape::Text { TEXT_MAX } else { CAPTION_MAX }),
        finish: |runs| runs,
        deletes_at_once: DELETES_MAX,
        keyboard_media_max: 1,
    };
    Ok(Rendered { parts: publish::edit(&edit, published)?, notes: Vec::new() })
}

fn ruler(dialect: &dyn Dialect, visible_max: usize) -> Ruler<'_> {
    Ruler {
        dialect,
        visible: Limit { unit: Unit::Chars, max: visible_max },
        raw: Limit { unit: Unit::Bytes, max: RAW_BYTES_MAX },
    }
}

fn dialect(settings: &ChannelSettings) -> Result<&'static dyn Dialect, RenderError> {
    match settings.parse_mode {
        None | Some(ParseMode::Html) => Ok(&HTML),
        Some(ParseMode::MarkdownV2) => Ok(&MARKDOWN_V2),
        Some(ParseMode::Plain) => Ok(&PLAIN),
        Some(ParseMode::Markdown) => {
            let reason = "parse mode Markdown is not offered: use HTML, MarkdownV2 or none".to_owned();
            Err(RenderError::BadSettings { platform: PLATFORM, reason })
        }
    }
}

fn prepare(runs: Vec<Run>, settings: &ChannelSettings) -> Vec<Run> {
    if settings.parse_mode == Some(ParseMode::Plain) { spell_out_links(runs) } else { runs }
}

/// A chat id, or the public name of a channel or group.
pub fn target(written: &str) -> Result<Target, RenderError> {
    let bad = || RenderError::BadTarget {
        platform: PLATFORM,
        target: written.chars().take(64).collect(),
        expected: "a numeric chat id such as -1001234567890, or @name",
    };
    if let Some(name) = written.strip_prefix('@') {
        let is_name = (4..=32).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        return if is_name { Ok(Target::Name(written.to_owned())) } else { Err(bad()) };
    }
    match written.parse::<i64>() {
        Ok(id) if id != 0 && id.abs_diff(0) < ID_MAX.abs_diff(0) => Ok(Target::Chat(id)),
        _ => Err(bad()),
    }
}

fn topic(settings: &ChannelSettings) -> Result<Option<i64>, RenderError> {
    match settings.topic {
        None | Some(GENERAL_TOPIC) => Ok(None),
        Some(topic) if topic > 0 && topic <= i64::from(i32::MAX) => Ok(Some(topic)),
        Some(topic) => {
            let reason = format!("topic {topic} is not the id of a forum topic");
            Err(RenderError::BadSettings { platform: PLATFORM, reason })
        }
    }
}

/// Message ids are positive; 0 is given to a message that is not there yet.
fn is_id(id: &str) -> bool {
    id.parse::<i64>().is_ok_and(|id| id > 0)
}

/// What a medium is sent as. A picture that is no photo to Telegram goes as a document.
fn accept(media: &Media) -> Result<MediaKind, String> {
    media::up_to(FILE_MEGABYTES_MAX, media)?;
    let is_photo = media::up_to(PHOTO_MEGABYTES_MAX, media).is_ok()
        && !media::is_misshapen(media, PHOTO_SIDES_SUM_MAX, PHOTO_RATIO_MAX);
    match media.kind {
        MediaKind::Photo if !is_photo => Ok(MediaKind::Document),
        kind => Ok(kind),
    }
}

/// Albums: pictures and videos together, documents and audio each with their own kind, animations alone.
fn groups(items: &[MediaItem]) -> Vec<Vec<MediaItem>> {
    let of = |kinds: &[MediaKind]| -> Vec<MediaItem> {
        items.iter().filter(|item| kinds.contains(&item.send_as)).cloned().collect()
    };
    let visual = media::in_groups(&of(&[MediaKind::Photo, MediaKind::Video]), ALBUM_MAX);
    let animations = media::in_groups(&of(&[MediaKind::Animation]), 1);
    let documents = media::in_groups(&of(&[MediaKind::Document]), ALBUM_MAX);
    let audio = media::in_groups(&of(&[MediaKind::Audio]), ALBUM_MAX);
    [visual, animations, documents, audio].concat()
}
