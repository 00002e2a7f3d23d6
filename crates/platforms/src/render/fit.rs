//! Makes styled words fit: cut with an ellipsis, or split into several messages.
//!
//! Lengths are counted twice, as the reader sees the words and as the wire carries them, each in the unit of the
//! platform. Cuts fall between graphemes, at a space where there is one near; tags cannot break, because runs are
//! cut before they are written. Linear in the length of the text.

use unicode_segmentation::UnicodeSegmentation;

use crate::render::clean::{ELLIPSIS, is_blank};
use crate::render::markup::{Dialect, Role, Run};

/// How a platform counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Unicode code points.
    Chars,
    /// UTF-16 code units.
    Utf16,
    /// UTF-8 bytes.
    Bytes,
}

impl Unit {
    pub fn count(self, text: &str) -> usize {
        match self {
            Unit::Chars => text.chars().count(),
            Unit::Utf16 => text.encode_utf16().count(),
            Unit::Bytes => text.len(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub unit: Unit,
    pub max: usize,
}

/// What one message may hold.
#[derive(Debug, Clone, Copy)]
pub struct Ruler<'a> {
    pub dialect: &'a dyn Dialect,
    /// The words as the reader sees them.
    pub visible: Limit,
    /// The words as the wire carries them.
    pub raw: Limit,
}

/// Words that no cut can make fit: the kept link alone is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoesNotFit {
    pub length: usize,
    pub max: usize,
}

/// A cut goes back to a space that is at most so many graphemes away.
const WORD_SEEK_MAX: usize = 32;
/// Wire characters that a dialect may put between two runs to keep them apart.
const SEAM_MAX: usize = 4;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    visible: usize,
    raw: usize,
}

impl Cost {
    fn plus(self, other: Cost) -> Cost {
        Cost { visible: self.visible + other.visible, raw: self.raw + other.raw }
    }
}

impl Ruler<'_> {
    fn cost(&self, run: &Run, text: &str, scratch: &mut String) -> Cost {
        scratch.clear();
        text.chars().for_each(|c| self.dialect.escape(c, run.style, scratch));
        Cost { visible: self.visible.unit.count(text), raw: self.raw.unit.count(scratch) }
    }

    /// What the marks around a run cost; an upper bound.
    fn marks(&self, run: &Run) -> Cost {
        let (open, close) = self.dialect.marks(run);
        let marks = self.raw.unit.count(&open) + self.raw.unit.count(&close);
        Cost { visible: 0, raw: if marks == 0 { 0 } else { marks + SEAM_MAX } }
    }

    fn holds(&self, cost: Cost) -> bool {
        cost.visible <= self.visible.max && cost.raw <= self.raw.max
    }

    fn total(&self, runs: &[Run]) -> Cost {
        let mut scratch = String::new();
        runs.iter().fold(Cost::default(), |sum, run| {
            sum.plus(self.cost(run, &run.text, &mut scratch)).plus(self.marks(run))
        })
    }

    /// Whether the runs fit as they are.
    pub fn fits(&self, runs: &[Run]) -> bool {
        self.holds(self.total(runs))
    }
}

/// Characters of the body.
pub fn body_chars(runs: &[Run]) -> usize {
    runs.iter().filter(|run| run.role == Role::Body).map(|run| run.text.chars().count()).sum()
}

/// The body cut to so many characters.
pub fn cut_body(runs: Vec<Run>, chars_max: usize) -> Vec<Run> {
    if body_chars(&runs) <= chars_max {
        return runs;
    }
    shorten(runs, Role::Body, |sum, grapheme| {
        *sum += grapheme.chars().count();
        *sum < chars_max
    })
}

/// The runs cut to one message: the body first, then what stands there because of it, the frame, never the source link.
pub fn cut(runs: Vec<Run>, ruler: &Ruler<'_>) -> Result<Vec<Run>, DoesNotFit> {
    let mut runs = runs;
    for role in [Role::Body, Role::IfCut, Role::Frame] {
        if ruler.fits(&runs) {
            return Ok(runs);
        }
        runs = cut_role(runs, role, ruler);
    }
    let total = ruler.total(&runs);
    if ruler.holds(total) {
        return Ok(runs);
    }
    let (length, max) = if total.visible > ruler.visible.max {
        (total.visible, ruler.visible.max)
    } else {
        (total.raw, ruler.raw.max)
    };
    Err(DoesNotFit { length, max })
}

fn cut_role(runs: Vec<Run>, role: Role, ruler: &Ruler<'_>) -> Vec<Run> {
    let mut scratch = String::new();
    let others: Vec<Run> = runs.iter().filter(|run| run.role != role).cloned().collect();
    let ellipsis = ruler.cost(&Run::plain("", role), ELLIPSIS, &mut scratch);
    let mut sum = ruler.total(&others).plus(ellipsis);
    // A run's marks are paid for when its first grapheme is: runs that the cut drops cost nothing.
    let marks: Vec<(Run, Cost)> = runs.iter().map(|run| (run.with_text(""), ruler.marks(run))).collect();
    let mut entered = usize::MAX;
    let mut fits = |index: usize, grapheme: &str| {
        let (run, marks) = &marks[index];
        if entered != index {
            entered = index;
            sum = sum.plus(*marks);
        }
        sum = sum.plus(ruler.cost(run, grapheme, &mut scratch));
        ruler.holds(sum)
    };
    shorten_runs(runs, role, &mut fits)
}

fn shorten(runs: Vec<Run>, role: Role, mut fits: impl FnMut(&mut usize, &str) -> bool) -> Vec<Run> {
    let mut sum = 0;
    shorten_runs(runs, role, &mut |_, grapheme| fits(&mut sum, grapheme))
}

/// Keeps the graphemes of a role while `fits` says so, then an ellipsis, and drops the rest of that role.
fn shorten_runs(runs: Vec<Run>, role: Role, fits: &mut dyn FnMut(usize, &str) -> bool) -> Vec<Run> {
    let mut out = Vec::with_capacity(runs.len());
    let mut is_full = false;
    for (index, run) in runs.into_iter().enumerate() {
        if run.role != role {
            out.push(run);
            continue;
        }
        if is_full {
            continue;
        }
        let end =
            run.text.grapheme_indices(true).find(|(_, grapheme)| !fits(index, grapheme)).map(|(at, _)| at);
        match end {
            None => out.push(run),
            Some(end) => {
                is_full = true;
                let kept = back_to_word(&run.text, end);
                let before = out.iter().any(|run: &Run| run.role == role && !is_blank(&run.text));
                if !kept.is_empty() || before {
                    out.push(run.with_text(format!("{kept}{ELLIPSIS}")));
                }
            }
        }
    }
    out
}

/// The text before `end` without a broken last word, if a space is near.
fn back_to_word(text: &str, end: usize) -> &str {
    let kept = &text[..end];
    if text[end..].starts_with(char::is_whitespace) {
        return kept.trim_end();
    }
    let near = kept
        .grapheme_indices(true)
        .rev()
        .take(WORD_SEEK_MAX)
        .find(|(_, g)| g.starts_with(char::is_whitespace));
    match near {
        Some((at, _)) if !kept[..at].trim_end().is_empty() => kept[..at].trim_end(),
        _ => kept.trim_end(),
    }
}

/// A grapheme with its price and its place.
#[derive(Debug, Clone, Copy)]
struct Atom {
    run: usize,
    start: usize,
    end: usize,
    cost: Cost,
    is_space: bool,
    is_newline: bool,
    body_chars: usize,
}

/// The runs as several messages, each of which fits and holds at most `body_max` characters of the body.
/// Words are broken only when one alone is longer than a message.
pub fn split(runs: &[Run], ruler: &Ruler<'_>, body_max: usize) -> Vec<Vec<Run>> {
    let atoms = atoms(runs, ruler);
    let marks: Vec<Cost> = runs.iter().map(|run| ruler.marks(run)).collect();
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < atoms.len() {
        if atoms[start].is_space {
            start += 1;
            continue;
        }
        let end = piece_end(&atoms[start..], &marks, ruler, body_max) + start;
        let piece = collect(runs, &atoms[start..end]);
        if !is_blank(&piece.iter().map(|run| run.text.as_str()).collect::<String>()) {
            pieces.push(piece);
        }
        start = end;
    }
    pieces
}

/// How many atoms the next piece takes: at least one.
fn piece_end(atoms: &[Atom], marks: &[Cost], ruler: &Ruler<'_>, body_max: usize) -> usize {
    let mut sum = Cost::default();
    let mut body_chars = 0;
    let mut run = usize::MAX;
    let (mut space, mut newline) = (0, 0);
    for (index, atom) in atoms.iter().enumerate() {
        sum = sum.plus(atom.cost);
        body_chars += atom.body_chars;
        if atom.run != run {
            run = atom.run;
            sum = sum.plus(marks[run]);
        }
        // Space at the end is trimmed, so it never makes a piece too long.
        let is_over = !atom.is_space && (!ruler.holds(sum) || body_chars > body_max);
        if is_over && index > 0 {
            return if newline > index / 2 {
                newline
            } else if space > 0 {
                space
            } else {
                index
            };
        }
        if atom.is_newline {
            newline = index + 1;
        }
        if atom.is_space {
            space = index + 1;
        }
    }
    atoms.len()
}

/// Graphemes in order; one that would fill a good part of a message alone is taken apart.
fn atoms(runs: &[Run], ruler: &Ruler<'_>) -> Vec<Atom> {
    let mut scratch = String::new();
    let mut atoms = Vec::new();
    for (run, content) in runs.iter().enumerate() {
        let mut push = |start: usize, text: &str| {
            let cost = ruler.cost(content, text, &mut scratch);
            let is_large = cost.visible * 4 > ruler.visible.max || cost.raw * 4 > ruler.raw.max;
            if is_large && text.chars().nth(1).is_some() {
                return false;
            }
            atoms.push(Atom {
                run,
                start,
                end: start + text.len(),
                cost,
                is_space: text.starts_with(char::is_whitespace),
                is_newline: text == "\n",
                body_chars: if content.role == Role::Body { text.chars().count() } else { 0 },
            });
            true
        };
        for (start, grapheme) in content.text.grapheme_indices(true) {
            if !push(start, grapheme) {
                for (at, c) in grapheme.char_indices() {
                    push(start + at, &grapheme[at..at + c.len_utf8()]);
                }
            }
        }
    }
    atoms
}

/// The runs of some atoms, without space at the end.
fn collect(runs: &[Run], atoms: &[Atom]) -> Vec<Run> {
    let length = atoms.iter().rposition(|atom| !atom.is_space).map_or(0, |last| last + 1);
    let mut out: Vec<Run> = Vec::new();
    let mut at = 0;
    while at < length {
        let first = atoms[at];
        let count = atoms[at..length].iter().take_while(|atom| atom.run == first.run).count();
        let last = atoms[at + count - 1];
        out.push(runs[first.run].with_text(&runs[first.run].text[first.start..last.end]));
        at += count;
    }
    out
}
