//! Writes a transcript again as it went, for a person to read and agree with.

use super::super::Reply;
use super::play::{Played, Shown, fact_of, titles};
use super::read::{Block, Transcript, Wanted};

/// The same file with what the bot says now. Remarks, doings and their order stay; facts keep their keys.
pub fn bless(transcript: &Transcript, played: &Played) -> String {
    let mut out = String::new();
    let mut blocks = transcript.blocks.iter().zip(&played.shown).peekable();
    let mut open: Option<(&Block, &Shown)> = None;
    for (index, line) in transcript.lines.iter().enumerate() {
        let n = index + 1;
        if let Some((block, shown)) = blocks.next_if(|(block, _)| block.line == n) {
            push(&mut out, line);
            if !block.replies.is_empty() || block.facts.is_empty() {
                shown.replies.iter().for_each(|reply| write(&mut out, reply));
            }
            open = Some((block, shown));
            continue;
        }
        let bare = line.trim();
        let is_answer = bare.starts_with(['‹', '<']) || (line.starts_with([' ', '\t']) && !bare.is_empty());
        match open {
            Some(_) if is_answer && !bare.starts_with('#') => {}
            Some((block, shown)) if bare.starts_with('=') => {
                let facts: Vec<String> = block
                    .facts
                    .iter()
                    .filter(|fact| fact.line == n)
                    .map(|fact| settled(fact, shown))
                    .collect();
                push(&mut out, &format!("= {}", facts.join("; ")));
            }
            _ => push(&mut out, line),
        }
    }
    out
}

fn settled(fact: &Wanted, shown: &Shown) -> String {
    let holds = fact.key == "rule" && shown.rules.contains(&fact.value);
    match fact_of(fact, shown).filter(|_| !holds) {
        Some(value) => format!("{} {value}", fact.key).trim_end().to_owned(),
        None => format!("{} {}", fact.key, fact.value).trim_end().to_owned(),
    }
}

fn write(out: &mut String, reply: &Reply) {
    let mut lines = reply.text.lines().filter(|line| !line.trim().is_empty());
    push(out, format!("‹ {}", lines.next().unwrap_or_default()).trim_end());
    lines.for_each(|line| push(out, &format!("  {line}")));
    if let Some(photo) = &reply.photo {
        push(out, &format!("  (photo {photo})"));
    }
    for row in titles(reply) {
        push(out, &format!("  [{}]", row.join("] [")));
    }
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}
