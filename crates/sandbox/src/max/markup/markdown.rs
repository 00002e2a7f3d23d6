//! The Markdown that MAX reads: CommonMark's inline rules for a few constructs, headings, quotes and code blocks.
//! Everything else, lists and tables included, stays as it is written; line breaks stay where they are.

use super::{Look, Mark, Styled, units};

/// Reads Markdown.
pub(super) fn read(source: &str) -> Styled {
    let mut styled = Styled::default();
    let mut unit = 0;
    for (i, block) in blocks(source).iter().enumerate() {
        if i > 0 {
            styled.text.push('\n');
            unit += 1;
        }
        let part = block.styled();
        let length = units(&part.text);
        styled.text.push_str(&part.text);
        let moved = part.marks.into_iter().map(|mark| Mark { from: mark.from + unit, ..mark });
        styled.marks.extend(moved.filter(|mark| mark.length > 0));
        unit += length;
    }
    styled
}

/// A stretch of lines that is read as one.
#[derive(Debug)]
enum Block {
    Text(String),
    Heading(String),
    Quote(String),
    Code(String),
}

impl Block {
    fn styled(&self) -> Styled {
        let (text, look) = match self {
            Block::Text(text) => return inline(text),
            Block::Code(text) => {
                let mark = Mark { look: Look::Monospaced, from: 0, length: units(text) };
                return Styled { text: text.clone(), marks: vec![mark] };
            }
            Block::Heading(text) => (text, Look::Heading),
            Block::Quote(text) => (text, Look::Quote),
        };
        let mut styled = inline(text);
        styled.marks.push(Mark { look, from: 0, length: units(&styled.text) });
        styled
    }
}

fn blocks(source: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut fence: Option<(usize, Vec<&str>)> = None;
    let mut continues = false;
    for line in source.split('\n') {
        if let Some((ticks, lines)) = &mut fence {
            if fence_of(line).is_some_and(|(own, rest)| own >= *ticks && rest.trim().is_empty()) {
                blocks.push(Block::Code(lines.join("\n")));
                fence = None;
            } else {
                lines.push(line);
            }
            continues = false;
            continue;
        }
        if let Some((ticks, rest)) = fence_of(line)
            && !rest.contains('`')
        {
            fence = Some((ticks, Vec::new()));
            continue;
        }
        let block = block_of(line);
        let blank = line.trim().is_empty();
        match (blocks.last_mut(), block) {
            (Some(Block::Quote(above)), Block::Quote(line)) => {
                above.push('\n');
                above.push_str(&line);
            }
            // A paragraph runs on until an empty line, so that emphasis may span its lines.
            (Some(Block::Text(above)), Block::Text(line)) if continues && !blank => {
                above.push('\n');
                above.push_str(&line);
            }
            (_, block) => blocks.push(block),
        }
        continues = !blank;
    }
    if let Some((_, lines)) = fence {
        blocks.push(Block::Code(lines.join("\n")));
    }
    blocks
}

/// The number of backticks of a fence and what follows them.
fn fence_of(line: &str) -> Option<(usize, &str)> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let rest = line.trim_start_matches(' ');
    let ticks = rest.len() - rest.trim_start_matches('`').len();
    (indent <= 3 && ticks >= 3).then(|| (ticks, &rest[ticks..]))
}

fn block_of(line: &str) -> Block {
    let level = line.len() - line.trim_start_matches('#').len();
    if (1..=6).contains(&level)
        && let Some(title) = line[level..].strip_prefix(' ')
    {
        return Block::Heading(title.trim().to_owned());
    }
    match line.strip_prefix('>') {
        Some(quoted) => Block::Quote(quoted.strip_prefix(' ').unwrap_or(quoted).to_owned()),
        None => Block::Text(line.to_owned()),
    }
}

// -- inline: CommonMark's delimiter runs

/// A piece of text, or a run of delimiters that may still become formatting.
#[derive(Debug, Default)]
struct Node {
    text: String,
    run: Option<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    mark: char,
    /// As it was written; the rule of three looks at it.
    whole: usize,
    opens: bool,
    closes: bool,
}

/// Formatting from after one node to before another.
#[derive(Debug)]
struct Stretch {
    look: Look,
    after: usize,
    before: usize,
}

struct Bracket {
    node: usize,
    active: bool,
}

struct Inline<'a> {
    source: &'a str,
    at: usize,
    nodes: Vec<Node>,
    stretches: Vec<Stretch>,
    brackets: Vec<Bracket>,
}

fn inline(source: &str) -> Styled {
    let mut inline = Inline { source, at: 0, nodes: Vec::new(), stretches: Vec::new(), brackets: Vec::new() };
    inline.scan();
    inline.pair(0);
    inline.finish()
}

const MARKS: &str = "*_~+^";

impl Inline<'_> {
    fn scan(&mut self) {
        while let Some(c) = self.source[self.at..].chars().next() {
            match c {
                '\\' => self.escape(),
                '`' => self.code(),
                '[' => {
                    self.brackets.push(Bracket { node: self.nodes.len(), active: true });
                    self.node("[", None);
                    self.at += 1;
                }
                ']' => self.bracket(),
                c if MARKS.contains(c) => self.run(c),
                _ => self.plain(c),
            }
        }
    }

    fn node(&mut self, text: &str, run: Option<Run>) {
        self.nodes.push(Node { text: text.to_owned(), run });
    }

    fn plain(&mut self, c: char) {
        self.at += c.len_utf8();
        self.literal(c);
    }

    /// Adds to the last node of plain text. A bracket keeps its node to itself: it may vanish.
    fn literal(&mut self, c: char) {
        let last = self.nodes.len();
        let alone = self.brackets.last().is_some_and(|bracket| bracket.node + 1 == last);
        match self.nodes.last_mut() {
            Some(node) if node.run.is_none() && !alone => node.text.push(c),
            _ => self.node(c.encode_utf8(&mut [0; 4]), None),
        }
    }

    /// A backslash makes ASCII punctuation literal; before anything else it is itself.
    fn escape(&mut self) {
        self.at += 1;
        match self.source[self.at..].chars().next().filter(char::is_ascii_punctuation) {
            Some(c) => self.plain(c),
            None => self.literal('\\'),
        }
    }

    fn code(&mut self) {
        let rest = &self.source[self.at..];
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        let inner = &rest[ticks..];
        let Some(end) = closing_ticks(inner, ticks) else {
            self.at += ticks;
            (0..ticks).for_each(|_| self.literal('`'));
            return;
        };
        self.at += ticks + end + ticks;
        let mut text = inner[..end].replace('\n', " ");
        let padded = text.starts_with(' ') && text.ends_with(' ') && text.trim() != "";
        if padded && text.len() > 2 {
            text = text[1..text.len() - 1].to_owned();
        }
        let node = self.nodes.len();
        self.node("", None);
        self.node(&text, None);
        self.node("", None);
        self.stretches.push(Stretch { look: Look::Monospaced, after: node, before: node + 2 });
    }

    fn run(&mut self, mark: char) {
        let rest = &self.source[self.at..];
        let whole = rest.len() - rest.trim_start_matches(mark).len();
        let before = self.source[..self.at].chars().next_back().unwrap_or(' ');
        let after = rest[whole..].chars().next().unwrap_or(' ');
        let (left, right) = (flanks(before, after), flanks(after, before));
        let (opens, closes) = match mark {
            '_' => (left && (!right || is_mark(before)), right && (!left || is_mark(after))),
            _ => (left, right),
        };
        self.node(&rest[..whole], Some(Run { mark, whole, opens, closes }));
        self.at += whole;
    }

    /// A closing bracket ends a link if an address follows.
    fn bracket(&mut self) {
        self.at += 1;
        let Some(bracket) = self.brackets.pop() else {
            self.literal(']');
            return;
        };
        let target = bracket.active.then(|| address(&self.source[self.at..])).flatten();
        let Some((url, length)) = target else {
            self.literal(']');
            return;
        };
        self.at += length;
        self.pair(bracket.node + 1);
        // Runs inside of a link cannot reach out of it.
        for node in &mut self.nodes[bracket.node..] {
            node.run = None;
        }
        self.nodes[bracket.node].text.clear();
        self.node("", None);
        let before = self.nodes.len() - 1;
        self.stretches.push(Stretch { look: Look::of_address(&url), after: bracket.node, before });
        self.node("", None);
        // There are no links inside of links.
        self.brackets.iter_mut().for_each(|outer| outer.active = false);
    }

    /// Pairs the delimiter runs from `bottom` on: each closer looks back for the nearest opener that fits.
    fn pair(&mut self, bottom: usize) {
        let mut closer = bottom;
        while closer < self.nodes.len() {
            let opener = (bottom..closer).rev().find(|opener| self.fits(*opener, closer));
            match opener {
                Some(opener) => {
                    self.join(opener, closer);
                    if self.nodes[closer].text.is_empty() || self.strength(closer) == 0 {
                        closer += 1;
                    }
                }
                None => closer += 1,
            }
        }
    }

    /// How many delimiters a run can still give: one or two of `*` and `_`, exactly two of the others.
    fn strength(&self, node: usize) -> usize {
        let Node { text, run } = &self.nodes[node];
        match run {
            None => 0,
            Some(run) if matches!(run.mark, '*' | '_') => text.len().min(2),
            Some(_) => text.len() / 2 * 2,
        }
    }

    fn fits(&self, opener: usize, closer: usize) -> bool {
        let (Some(open), Some(close)) = (self.nodes[opener].run, self.nodes[closer].run) else {
            return false;
        };
        let threes = matches!(open.mark, '*' | '_')
            && (open.closes || close.opens)
            && (open.whole + close.whole).is_multiple_of(3)
            && !(open.whole.is_multiple_of(3) && close.whole.is_multiple_of(3));
        open.mark == close.mark
            && open.opens
            && close.closes
            && !threes
            && self.strength(opener) > 0
            && self.strength(closer) > 0
    }

    fn join(&mut self, opener: usize, closer: usize) {
        let n = self.strength(opener).min(self.strength(closer)).min(2);
        let mark = self.nodes[opener].run.map_or('*', |run| run.mark);
        let look = match (mark, n) {
            ('*' | '_', 1) => Look::Emphasized,
            ('*' | '_', _) => Look::Strong,
            ('~', _) => Look::Strikethrough,
            ('+', _) => Look::Underline,
            _ => Look::Highlighted,
        };
        self.stretches.push(Stretch { look, after: opener, before: closer });
        for node in [opener, closer] {
            let kept = self.nodes[node].text.len() - n;
            self.nodes[node].text.truncate(kept);
        }
        // What stands between is closed off.
        for node in &mut self.nodes[opener + 1..closer] {
            node.run = None;
        }
    }

    fn finish(self) -> Styled {
        let mut text = String::new();
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let mut unit = 0;
        for node in &self.nodes {
            starts.push(unit);
            unit += units(&node.text);
            ends.push(unit);
            text.push_str(&node.text);
        }
        let marks = self.stretches.into_iter().map(|stretch| {
            let (from, to) = (ends[stretch.after], starts[stretch.before]);
            Mark { look: stretch.look, from, length: to.saturating_sub(from) }
        });
        let marks = marks.filter(|mark| mark.length > 0).collect();
        Styled { text, marks }
    }
}

/// Where a run of exactly `ticks` backticks begins.
fn closing_ticks(text: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == ticks {
            return Some(start);
        }
        at = start + run;
    }
    None
}

/// Whether a run between these two leans on the second.
fn flanks(before: char, after: char) -> bool {
    !after.is_whitespace() && (!is_mark(after) || before.is_whitespace() || is_mark(before))
}

fn is_mark(c: char) -> bool {
    !c.is_alphanumeric() && !c.is_whitespace()
}

/// `(address)` or `(<address> "title")` at the start of `rest`: the address and the length of it all.
fn address(rest: &str) -> Option<(String, usize)> {
    let inner = rest.strip_prefix('(')?;
    let padding = inner.len() - inner.trim_start().len();
    let inner = inner.trim_start();
    let (url, used) = match inner.strip_prefix('<') {
        Some(angled) => {
            let end = angled.find(['>', '\n']).filter(|end| angled[*end..].starts_with('>'))?;
            (angled[..end].to_owned(), end + 2)
        }
        None => bare_address(inner)?,
    };
    let tail = &inner[used..];
    let end = tail.find(')')?;
    let title = tail[..end].trim();
    let quoted = title.len() >= 2 && title.starts_with(['"', '\'']) && title.ends_with(['"', '\'']);
    ((title.is_empty() || quoted) && !url.is_empty()).then_some((url, 1 + padding + used + end + 1))
}

/// Up to a space or an unbalanced bracket, escapes undone.
fn bare_address(text: &str) -> Option<(String, usize)> {
    let mut url = String::new();
    let mut depth = 0usize;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next_if(|(_, next)| next.is_ascii_punctuation()) {
                Some((_, next)) => url.push(next),
                None => url.push('\\'),
            },
            '(' => {
                depth += 1;
                url.push(c);
            }
            ')' if depth == 0 => return Some((url, at)),
            ')' => {
                depth -= 1;
                url.push(c);
            }
            c if c.is_whitespace() || c.is_control() => return Some((url, at)),
            c => url.push(c),
        }
    }
    None
}
