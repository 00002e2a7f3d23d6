//! What rendering has in common: message × channel settings → styled words, media and buttons that fit.
//!
//! Pure: no network, no clock, no state. The platforms' own rules (sizes, albums, markup) are in
//! `{platform}/render.rs`, which read as the recipe; this folder holds the kitchen. Read in the order of the `mod` lines.

pub mod buttons;
pub mod clean;
pub mod fit;
pub mod heading;
pub mod markup;
pub mod media;
pub mod mentions;
pub mod personal;
pub mod phones;
pub mod publish;
pub mod tags;
pub mod template;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod docs_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod reader;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod sandbox_tests;
#[cfg(test)]
mod template_tests;

use std::borrow::Cow;

use domain::message::Message;

use crate::part::{ChannelSettings, Markup, PARTS_MAX, RenderError};
use clean::{BODY_MARK, is_blank};
use domain::chat::Overflow;
use fit::{DoesNotFit, Ruler};
use markup::{Role, Run};
use media::Picked;
use template::Fields;

/// The words of a message in the channel's template, nothing cut yet.
pub fn compose(
    message: &Message,
    settings: &ChannelSettings,
    picked: &Picked,
    markup: Markup,
) -> Result<Vec<Run>, RenderError> {
    // Nobody is to be called about a story that has ended.
    let text = match message.was.is_empty() {
        true => Cow::Borrowed(&message.text),
        false => Cow::Owned(phones::hide(&message.text, &message.phones)),
    };
    let body = clean::body(&text);
    let source_link = crate::walls::source_link(message);
    let fields = Fields {
        message,
        markup: markup != Markup::Plain,
        body: &body,
        has_body: !is_blank(&body),
        source_link: source_link.as_deref(),
        media_pages: &picked.pages,
        media_count: picked.items.len(),
    };
    let frame = template::frame(settings.template.as_deref(), &fields)?;
    Ok(tidy(&put_body(frame, &mentions::body_runs(message, &body))))
}

/// Puts the body where the template marked its place.
fn put_body(frame: Vec<Run>, body: &[Run]) -> Vec<Run> {
    let mut out = Vec::with_capacity(frame.len() + body.len());
    for run in frame {
        let Some((before, after)) = run.text.split_once(BODY_MARK) else {
            out.push(run);
            continue;
        };
        out.push(run.with_text(before));
        out.extend(body.iter().map(|words| markup::Run {
            style: run.style,
            href: run.href.clone().or_else(|| words.href.clone()),
            ..words.clone()
        }));
        out.push(run.with_text(after));
    }
    out
}

/// No space at either end, none before a line end, and at most one empty line in a row, across all runs.
fn tidy(runs: &[Run]) -> Vec<Run> {
    let mut out: Vec<Run> = runs.iter().map(|run| run.with_text("")).collect();
    let mut pending: Vec<(char, usize)> = Vec::new();
    let mut has_words = false;
    for (index, run) in runs.iter().enumerate() {
        for c in run.text.chars() {
            if c.is_whitespace() {
                pending.push((c, index));
                continue;
            }
            if has_words {
                settle(&pending, &mut out);
            }
            pending.clear();
            has_words = true;
            out[index].text.push(c);
        }
    }
    out.retain(|run| !run.text.is_empty());
    out
}

/// Spaces that a line may begin with.
const INDENT_MAX: usize = 3;

/// Writes the space between two words: up to two line ends, then what indents the line.
fn settle(pending: &[(char, usize)], out: &mut [Run]) {
    let last_newline = pending.iter().rposition(|(c, _)| *c == '\n');
    let newlines = pending.iter().filter(|(c, _)| *c == '\n').take(2);
    let after = &pending[last_newline.map_or(0, |at| at + 1)..];
    // Four spaces at the start of a line are a code block to Markdown.
    let indent = if last_newline.is_some() { &after[..after.len().min(INDENT_MAX)] } else { after };
    for (c, index) in newlines.chain(indent) {
        out[*index].text.push(*c);
    }
}

/// The words as messages: one that is cut, or several; none when there is nothing to say.
pub fn messages(
    platform: &'static str,
    runs: Vec<Run>,
    settings: &ChannelSettings,
    ruler: &Ruler<'_>,
) -> Result<Vec<Vec<Run>>, RenderError> {
    if is_blank(&words(&runs)) {
        return Ok(Vec::new());
    }
    if settings.overflow == Overflow::Split {
        // A text that cannot fit is not taken apart first.
        let parts = ruler.visible.unit.count(&words(&runs)).div_ceil(ruler.visible.max);
        if parts > PARTS_MAX {
            return Err(RenderError::TooManyParts { platform, parts });
        }
    }
    let pieces = match settings.overflow {
        Overflow::Cut => vec![one(platform, runs, settings.body_max, ruler)?],
        Overflow::Split => fit::split(&uncut(&runs), ruler, settings.body_max),
    };
    match pieces.len() {
        parts if parts > PARTS_MAX => Err(RenderError::TooManyParts { platform, parts }),
        _ => Ok(pieces),
    }
}

/// The words as one message: whole if they fit, else cut.
fn one(
    platform: &'static str,
    runs: Vec<Run>,
    body_max: usize,
    ruler: &Ruler<'_>,
) -> Result<Vec<Run>, RenderError> {
    let whole = uncut(&runs);
    match fit::body_chars(&whole) <= body_max && ruler.fits(&whole) {
        true => Ok(whole),
        false => cut(platform, fit::cut_body(runs, body_max), ruler),
    }
}

/// The words where nothing is cut.
pub fn uncut(runs: &[Run]) -> Vec<Run> {
    let kept: Vec<Run> = runs.iter().filter(|run| run.role != Role::IfCut).cloned().collect();
    tidy(&kept)
}

/// The words as exactly one message.
pub fn cut(platform: &'static str, runs: Vec<Run>, ruler: &Ruler<'_>) -> Result<Vec<Run>, RenderError> {
    match fit::cut(runs, ruler) {
        Ok(runs) => Ok(tidy(&runs)),
        Err(DoesNotFit { length, max }) => {
            Err(RenderError::TooLong { platform, what: "the source link with its markup", length, max })
        }
    }
}

/// The words without their styles.
pub fn words(runs: &[Run]) -> String {
    runs.iter().map(|run| run.text.as_str()).collect()
}

/// A line of its own at the end, in the frame.
pub fn add_line(runs: &mut Vec<Run>, line: &str) {
    let newline = if runs.is_empty() { "" } else { "\n" };
    runs.push(Run::plain(format!("{newline}{line}"), Role::Frame));
}

/// Settings that no platform could work with.
pub fn check_settings(platform: &'static str, settings: &ChannelSettings) -> Result<(), RenderError> {
    if settings.body_max == 0 {
        let reason = "body_max is 0: set it to at least 1, or leave the body out in the template".to_owned();
        return Err(RenderError::BadSettings { platform, reason });
    }
    Ok(())
}
