//! Message × channel → VK requests: posts and comments of a wall, or messages of a conversation.
//! VK knows no markup: styles vanish, links are spelled out, mentions are disarmed.
//! The limits are those of docs/platforms/vk.md.

use domain::message::{Media, MediaKind, Message, Press};

use crate::part::{
    AccountKind, Action, ChannelSettings, Fitted, Keyboard, Markup, MediaItem, ParseMode, Published,
    RenderError, Rendered, SendOptions, Target,
};
use crate::render::buttons::{self, Rules};
use crate::render::clean;
use crate::render::fit::{Limit, Ruler, Unit};
use crate::render::markup::{Plain, Run, spell_out_links, write};
use crate::render::media;
use crate::render::mentions::disarm;
use crate::render::publish::{self, Draft, Edit};
use crate::render::{add_line, check_settings, compose, messages};
use domain::chat::ChatKind;

const PLATFORM: &str = "vk";

/// UTF-16 units of a wall post: the ceiling that public code agrees on.
pub const POST_MAX: usize = 16_384;
/// UTF-16 units of a message.
pub const MESSAGE_MAX: usize = 4096;
/// Attachments of a post or a message.
pub const ATTACHMENTS_MAX: usize = 10;
/// A hard break inside a word may bare one mention sign, which costs one joiner.
const DISARM_SLACK: usize = 1;
/// Ids of one messages.delete.
const DELETES_MAX: usize = 100;
const PHOTO_MEGABYTES_MAX: u64 = 50;
const PHOTO_SIDES_SUM_MAX: u32 = 14_000;
const PHOTO_RATIO_MAX: u32 = 20;
const PHOTO_TYPES: [&str; 4] = ["jpeg", "jpg", "png", "gif"];
const DOCUMENT_MEGABYTES_MAX: u64 = 200;
/// File endings that docs.save refuses.
const DOCUMENT_ENDINGS_REFUSED: [&str; 6] = ["mp3", "exe", "bat", "cmd", "com", "msi"];

/// An inline keyboard of a message.
pub(super) const BUTTONS: Rules = Rules {
    platform: PLATFORM,
    buttons_max: 10,
    rows_max: 6,
    row_max: 5,
    link_row_max: 5,
    text_max: 40,
    callback_bytes_max: 255,
    schemes: &[],
};

static PLAIN: Plain = Plain;

pub fn render(
    action: &Action<'_>,
    message: &Message,
    settings: &ChannelSettings,
) -> Result<Rendered, RenderError> {
    check(settings)?;
    let target = target(&settings.target, settings.chat_kind)?;
    match action {
        Action::Send => send(message, settings, &target, None),
        Action::Reply(published) => {
            let reply_to = publish::answered(PLATFORM, published, is_id)?;
            send(message, settings, &target, Some(reply_to))
        }
        Action::Edit(published) => edit(message, settings, target, published),
        Action::Delete(published) => {
            let at_once = if is_wall(&target) { 1 } else { DELETES_MAX };
            let parts = publish::deletes(PLATFORM, &target, published, is_id, at_once)?;
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
    let mut picked = media::pick(message, settings, |media| accept(media, settings));
    let mut notes = std::mem::take(&mut picked.notes);
    let mut runs = compose(message, settings, &picked, Markup::Plain)?;
    let keyboard = keyboard(message, target, &mut runs, &mut notes)?;
    let texts = messages(PLATFORM, prepare(runs), settings, &ruler(target))?;
    if texts.is_empty() && picked.items.is_empty() {
        return Err(publish::empty(PLATFORM, &notes));
    }
    let mut drafts: Vec<Draft> = texts
        .into_iter()
        .map(|runs| Draft { words: Some(write(&PLAIN, &disarm(runs))), ..Draft::default() })
        .collect();
    let groups = if is_wall(target) {
        wall_groups(picked.items)
    } else {
        media::in_groups(&picked.items, ATTACHMENTS_MAX)
    };
    publish::attach(&mut drafts, groups);
    if let Some(draft) = drafts.iter_mut().rev().find(|draft| draft.words.is_some()) {
        draft.buttons = keyboard;
    } else if !keyboard.is_empty() {
        notes.push("buttons left out: VK shows them under words only".to_owned());
    }
    if is_wall(target) {
        drafts.iter_mut().for_each(|draft| name_file(draft, message));
    }
    let first = publish::options(settings, reply_to);
    let parts = publish::parts(PLATFORM, target, drafts, &first, &following(target, &first))?;
    Ok(pinned(Rendered { parts, notes }, settings, target, &first))
}

/// All comments hang under the answered post; messages answer once.
fn following(target: &Target, first: &SendOptions) -> SendOptions {
    let reply_to = if is_wall(target) { first.reply_to.clone() } else { None };
    SendOptions { reply_to, ..publish::following(first) }
}

fn pinned(
    mut rendered: Rendered,
    settings: &ChannelSettings,
    target: &Target,
    first: &SendOptions,
) -> Rendered {
    if !settings.pin || first.reply_to.is_some() {
        return rendered;
    }
    match (is_wall(target), settings.account_kind) {
        (true, AccountKind::User) => rendered.parts.push(publish::pin(target, first)),
        (true, _) => rendered.notes.push("pin left out: a community key may not pin posts".to_owned()),
        (false, _) => rendered.notes.push("pin left out: only wall posts are pinned".to_owned()),
    }
    rendered
}

fn edit(
    message: &Message,
    settings: &ChannelSettings,
    target: Target,
    published: &[Published],
) -> Result<Rendered, RenderError> {
    let picked = media::pick(message, settings, |media| accept(media, settings));
    let mut notes = Vec::new();
    let mut runs = compose(message, settings, &picked, Markup::Plain)?;
    let keyboard = keyboard(message, &target, &mut runs, &mut notes)?;
    let limits = ruler(&target);
    let edit = Edit {
        platform: PLATFORM,
        target,
        runs: prepare(runs),
        keyboard,
        settings,
        is_id,
        ruler: &|_| limits,
        finish: disarm,
        deletes_at_once: 1,
        keyboard_media_max: ATTACHMENTS_MAX,
    };
    Ok(Rendered { parts: publish::edit(&edit, published)?, notes })
}

fn prepare(runs: Vec<Run>) -> Vec<Run> {
    disarm(spell_out_links(runs))
}

fn ruler(target: &Target) -> Ruler<'static> {
    let max = if is_wall(target) { POST_MAX } else { MESSAGE_MAX } - DISARM_SLACK;
    let limit = Limit { unit: Unit::Utf16, max };
    Ruler { dialect: &PLAIN, visible: limit, raw: limit }
}

/// Under a message a keyboard; under a post, which has none, lines with the addresses.
fn keyboard(
    message: &Message,
    target: &Target,
    runs: &mut Vec<Run>,
    notes: &mut Vec<String>,
) -> Result<Keyboard, RenderError> {
    if !is_wall(target) {
        return buttons::rows(&message.buttons, &BUTTONS);
    }
    for button in message.buttons.iter().flatten() {
        match &button.press {
            Press::Url(url) if domain::message::is_web_address(url) => {
                add_line(runs, &format!("{}: {url}", clean::field(&button.text)));
            }
            _ => {
                notes
                    .push(format!("button {:?} left out: a post has no buttons", clean::field(&button.text)));
            }
        }
    }
    Ok(Keyboard::new())
}

fn check(settings: &ChannelSettings) -> Result<(), RenderError> {
    check_settings(PLATFORM, settings)?;
    let reason = if settings.topic.is_some() {
        "topic is set, but VK has no topics"
    } else if settings.account_kind == AccountKind::Service {
        "a service token can only read: use a user or community token to post"
    } else if !matches!(settings.parse_mode, None | Some(ParseMode::Plain)) {
        "VK has no markup: leave parse_mode out or set it to none"
    } else {
        return Ok(());
    };
    Err(RenderError::BadSettings { platform: PLATFORM, reason: reason.to_owned() })
}

/// A wall for channels, a conversation otherwise.
pub fn target(written: &str, chat_kind: ChatKind) -> Result<Target, RenderError> {
    match (written.strip_prefix("user:").unwrap_or(written).parse::<i64>(), chat_kind) {
        (Ok(id), ChatKind::Channel) if id != 0 => Ok(Target::Wall(id)),
        (Ok(id), ChatKind::Private | ChatKind::Group) if id != 0 => Ok(Target::Chat(id)),
        _ => Err(RenderError::BadTarget {
            platform: PLATFORM,
            target: written.chars().take(64).collect(),
            expected: "a numeric id: of a wall's owner (negative for a community), or of a conversation",
        }),
    }
}

fn is_wall(target: &Target) -> bool {
    matches!(target, Target::Wall(_))
}

fn is_id(id: &str) -> bool {
    id.parse::<i64>().is_ok_and(|id| id > 0)
}

/// What a medium is sent as, and whether this token may upload it.
fn accept(media: &Media, settings: &ChannelSettings) -> Result<MediaKind, String> {
    let is_wall = settings.chat_kind == ChatKind::Channel;
    let is_community = settings.account_kind == AccountKind::Community;
    let is_photo = media::up_to(PHOTO_MEGABYTES_MAX, media).is_ok()
        && !media::is_misshapen(media, PHOTO_SIDES_SUM_MAX, PHOTO_RATIO_MAX)
        && !media::is_other_type(media, &PHOTO_TYPES);
    let is_gif = !media::is_other_type(media, &["gif"]);
    match media.kind {
        MediaKind::Photo if is_wall && is_community => {
            Err("a community key cannot upload wall photos: use a user token".to_owned())
        }
        MediaKind::Photo if is_photo => Ok(MediaKind::Photo),
        MediaKind::Video if is_community => {
            Err("a community key cannot upload videos: use a user token".to_owned())
        }
        MediaKind::Animation if !is_gif && is_community => {
            Err("a community key cannot upload videos: use a user token".to_owned())
        }
        MediaKind::Video => Ok(MediaKind::Video),
        MediaKind::Animation if !is_gif => Ok(MediaKind::Video),
        MediaKind::Audio => Err("VK takes no audio from outside".to_owned()),
        MediaKind::Photo | MediaKind::Animation | MediaKind::Document => document(media),
    }
}

fn document(media: &Media) -> Result<MediaKind, String> {
    media::up_to(DOCUMENT_MEGABYTES_MAX, media)?;
    let ending = media.file_name.as_deref().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    match ending.map(str::to_ascii_lowercase) {
        Some(ending) if DOCUMENT_ENDINGS_REFUSED.contains(&ending.as_str()) => {
            Err(format!("VK takes no .{ending} files"))
        }
        _ => Ok(MediaKind::Document),
    }
}

/// Posts of a wall: at most ten attachments and one file each.
fn wall_groups(items: Vec<MediaItem>) -> Vec<Vec<MediaItem>> {
    let (files, visual): (Vec<_>, Vec<_>) = items.into_iter().partition(is_file);
    let mut groups = media::in_groups(&visual, ATTACHMENTS_MAX);
    for file in files {
        match groups.iter_mut().find(|group| group.len() < ATTACHMENTS_MAX && !group.iter().any(is_file)) {
            Some(group) => group.push(file),
            None => groups.push(vec![file]),
        }
    }
    groups
}

fn is_file(item: &MediaItem) -> bool {
    item.send_as == MediaKind::Document
}

/// A post of a file alone is refused by VK, so its name stands above it.
fn name_file(draft: &mut Draft, message: &Message) {
    if draft.words.is_some() || draft.items.is_empty() || !draft.items.iter().all(is_file) {
        return;
    }
    let name = draft.items.iter().find_map(|item| item.media.file_name.as_deref()).map(clean::field);
    let name = name.filter(|name| !clean::is_blank(name)).unwrap_or_else(|| "файл".to_owned());
    let mut runs = vec![Run::plain(format!("📎 {name}"), crate::render::markup::Role::Frame)];
    if let Some(link) = crate::walls::source_link(message) {
        add_line(&mut runs, &link);
    }
    let text = crate::render::words(&disarm(runs));
    draft.words = Some(Fitted::plain(text));
}
