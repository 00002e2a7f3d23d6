//! Any bytes as a post: reading is total, evidence stays on character borders, normalise is idempotent.

use domain::content::normalise::normalise;
use domain::content::{Copied, Post, TextRef, analyse};

/// Panics when a rule breaks; that is what the fuzzer looks for.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let once = normalise(TextRef::Own, &text);
    assert_eq!(once.text, normalise(TextRef::Own, &once.text).text);
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(index, _)| index);
    let copy = Copied { text: text[middle..].to_owned(), date: 1, ..Copied::default() };
    let post = Post {
        text: text[..middle].to_owned(),
        date: 1_763_190_000,
        copy_history: vec![copy],
        ..Post::default()
    };
    let facts = analyse(&post).facts;
    for item in facts.kind.evidence.iter().chain(&facts.animal.evidence).chain(&facts.sex.evidence) {
        let text = match item.span.text {
            TextRef::Own => &post.text,
            TextRef::Copy(index) => &post.copy_history[usize::from(index)].text,
        };
        assert_eq!(text.get(item.span.start as usize..item.span.end as usize), Some(item.words.as_str()));
    }
}
