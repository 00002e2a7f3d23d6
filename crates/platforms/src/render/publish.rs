//! Requests made of fitted words, media and buttons: new ones, and those that change what is published.

use crate::part::{
    ChannelSettings, DeletePart, EditPart, Fitted, Keyboard, MediaItem, MediaPart, PARTS_MAX, Part, PinPart,
    Published, RenderError, SendOptions, Shape, Target, TextPart,
};
use crate::render::fit::{self, Ruler};
use crate::render::markup::{Role, Run, write};
use crate::render::{cut, messages, uncut};
use domain::chat::Overflow;

/// How the first part of a delivery is sent.
pub fn options(settings: &ChannelSettings, reply_to: Option<String>) -> SendOptions {
    SendOptions {
        silent: settings.silent,
        preview: settings.preview,
        topic: settings.topic,
        reply_to,
        from_group: settings.from_group,
        protect: settings.protect,
    }
}

/// How the parts after it are sent: one post makes one sound and answers once.
pub fn following(first: &SendOptions) -> SendOptions {
    SendOptions { silent: true, reply_to: None, ..first.clone() }
}

/// A message to be: words, media or both.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    pub words: Option<Fitted>,
    pub items: Vec<MediaItem>,
    pub buttons: Keyboard,
}

/// Media under words: the first group joins the last words, the others follow.
pub fn attach(drafts: &mut Vec<Draft>, groups: Vec<Vec<MediaItem>>) {
    let mut groups = groups.into_iter();
    if let Some(last) = drafts.last_mut() {
        last.items = groups.next().unwrap_or_default();
    }
    drafts.extend(groups.map(|items| Draft { items, ..Draft::default() }));
}

/// Why nothing is left to send.
pub fn empty(platform: &'static str, notes: &[String]) -> RenderError {
    if notes.is_empty() {
        return RenderError::Empty { platform };
    }
    RenderError::UnsupportedMedia { platform, reason: notes.join("; ") }
}

/// The drafts as requests, in order. A draft without words and media is none.
pub fn parts(
    platform: &'static str,
    target: &Target,
    drafts: Vec<Draft>,
    first: &SendOptions,
    next: &SendOptions,
) -> Result<Vec<Part>, RenderError> {
    if drafts.len() > PARTS_MAX {
        return Err(RenderError::TooManyParts { platform, parts: drafts.len() });
    }
    let mut parts = Vec::with_capacity(drafts.len());
    for Draft { words, items, buttons } in drafts {
        let (target, options) = (target.clone(), if parts.is_empty() { first.clone() } else { next.clone() });
        match (words, items.is_empty()) {
            (caption, false) => {
                parts.push(Part::Media(MediaPart { target, items, caption, buttons, options }));
            }
            (Some(text), true) => parts.push(Part::Text(TextPart { target, text, buttons, options })),
            (None, true) => {}
        }
    }
    Ok(parts)
}

/// The pin of a delivery's first part.
pub fn pin(target: &Target, options: &SendOptions) -> Part {
    let options = SendOptions { reply_to: None, ..options.clone() };
    Part::Pin(PinPart { target: target.clone(), of_part: 0, options })
}

/// The id that a reply answers: the first thing published.
pub fn answered(
    platform: &'static str,
    published: &[Published],
    is_id: fn(&str) -> bool,
) -> Result<String, RenderError> {
    ids(published, is_id).next().cloned().ok_or_else(|| nothing(platform))
}

fn ids(published: &[Published], is_id: fn(&str) -> bool) -> impl Iterator<Item = &String> {
    published.iter().flat_map(|part| &part.ids).filter(move |id| is_id(id))
}

/// Requests that take published messages away, so many ids each.
pub fn deletes(
    platform: &'static str,
    target: &Target,
    published: &[Published],
    is_id: fn(&str) -> bool,
    at_once: usize,
) -> Result<Vec<Part>, RenderError> {
    let mut deletes: Vec<DeletePart> = Vec::new();
    for part in published {
        // Comments and posts are taken away by different requests.
        let reply_to = part.reply_to.clone().filter(|_| matches!(target, Target::Wall(_)));
        for id in part.ids.iter().filter(|id| is_id(id)) {
            match deletes.last_mut() {
                Some(last) if last.ids.len() < at_once && last.reply_to == reply_to => {
                    last.ids.push(id.clone());
                }
                _ => {
                    let reply_to = reply_to.clone();
                    deletes.push(DeletePart { target: target.clone(), ids: vec![id.clone()], reply_to });
                }
            }
        }
    }
    if deletes.is_empty() {
        return Err(nothing(platform));
    }
    Ok(deletes.into_iter().map(Part::Delete).collect())
}

/// What an edit needs besides what is published.
#[expect(missing_debug_implementations, reason = "holds functions; built and used within one call")]
pub struct Edit<'a> {
    pub platform: &'static str,
    pub target: Target,
    pub runs: Vec<Run>,
    pub keyboard: Keyboard,
    pub settings: &'a ChannelSettings,
    pub is_id: fn(&str) -> bool,
    /// What a message of this shape may hold.
    pub ruler: &'a dyn Fn(Shape) -> Ruler<'a>,
    /// Last touch to the words of each message.
    pub finish: fn(Vec<Run>) -> Vec<Run>,
    pub deletes_at_once: usize,
    /// Media beside which a keyboard can stand.
    pub keyboard_media_max: usize,
}

/// New words in the places of the old ones. Places cannot be added: what does not fit the last one is cut.
/// Places left over are taken away when they hold words alone, and lose their words otherwise.
pub fn edit(edit: &Edit<'_>, published: &[Published]) -> Result<Vec<Part>, RenderError> {
    let carriers = carriers(published, edit.is_id);
    let Some(first) = carriers.first() else { return Err(nothing(edit.platform)) };
    let ruler = (edit.ruler)(first.shape);
    let mut pieces = pieces(edit, &ruler, carriers.len())?.into_iter();
    let options = options(edit.settings, None);
    let (mut parts, mut unused) = (Vec::new(), Vec::new());
    for (index, carrier) in carriers.iter().enumerate() {
        let text = match pieces.next() {
            Some(runs) => write(ruler.dialect, &(edit.finish)(runs)),
            None if carrier.shape != Shape::Text => Fitted::plain(""),
            None if index == 0 => return Err(RenderError::Empty { platform: edit.platform }),
            None => {
                unused.push((*carrier).clone());
                continue;
            }
        };
        let has_keyboard = index == 0 && carrier.media.len() <= edit.keyboard_media_max;
        parts.push(Part::Edit(EditPart {
            target: edit.target.clone(),
            id: carrier.ids.iter().find(|id| (edit.is_id)(id)).cloned().unwrap_or_default(),
            shape: if carrier.shape == Shape::Text { Shape::Text } else { Shape::Caption },
            text,
            buttons: if has_keyboard { edit.keyboard.clone() } else { Keyboard::new() },
            media: carrier.media.clone(),
            options: SendOptions { reply_to: carrier.reply_to.clone(), ..options.clone() },
        }));
    }
    if !unused.is_empty() {
        parts.extend(deletes(edit.platform, &edit.target, &unused, edit.is_id, edit.deletes_at_once)?);
    }
    Ok(parts)
}

/// The published parts that carry words; failing that, the first one with media, which can get words.
fn carriers(published: &[Published], is_id: fn(&str) -> bool) -> Vec<&Published> {
    let visible: Vec<&Published> =
        published.iter().filter(|part| part.ids.iter().any(|id| is_id(id))).collect();
    let with_words: Vec<&Published> =
        visible.iter().copied().filter(|part| part.shape != Shape::Media).collect();
    if with_words.is_empty() { visible.into_iter().take(1).collect() } else { with_words }
}

fn pieces(edit: &Edit<'_>, ruler: &Ruler<'_>, places: usize) -> Result<Vec<Vec<Run>>, RenderError> {
    let settings = edit.settings;
    if settings.overflow == Overflow::Split && places > 1 {
        let mut pieces = fit::split(&uncut(&edit.runs), ruler, settings.body_max);
        if pieces.len() > places {
            pieces = fit::split(&edit.runs, ruler, settings.body_max);
            let rest = pieces.split_off(places - 1);
            let joined = rest.join(&Run::plain("\n", Role::Body));
            pieces.push(cut(edit.platform, fit::cut_body(joined, settings.body_max), ruler)?);
        }
        return Ok(pieces);
    }
    let one = ChannelSettings { overflow: Overflow::Cut, ..settings.clone() };
    messages(edit.platform, edit.runs.clone(), &one, ruler)
}

fn nothing(platform: &'static str) -> RenderError {
    RenderError::NothingPublished { platform, reason: "no id of it is known" }
}
