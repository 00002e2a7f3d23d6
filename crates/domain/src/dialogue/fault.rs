//! What is wrong with a rules file, in words for whoever wrote it.

use std::fmt;

/// One thing to look at, at a line of the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    pub line: usize,
    pub weight: Weight,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The rules must not go live.
    Error,
    /// They may, but somebody should look.
    Warning,
}

impl Fault {
    pub fn error(line: usize, text: impl Into<String>) -> Fault {
        Fault { line, weight: Weight::Error, text: text.into() }
    }

    pub fn warning(line: usize, text: impl Into<String>) -> Fault {
        Fault { line, weight: Weight::Warning, text: text.into() }
    }

    pub fn is_error(&self) -> bool {
        self.weight == Weight::Error
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = if self.is_error() { "error" } else { "warning" };
        write!(f, "line {}: {weight}: {}", self.line, self.text)
    }
}

/// The known word that is most like a wrong one, if any is near enough to be meant.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let most = (wrong.chars().count() / 3).clamp(1, 3);
    let apart = |word: &str| {
        let begins =
            word.len().min(wrong.len()) >= 3 && (word.starts_with(&wrong) || wrong.starts_with(word));
        if begins { 1 } else { distance(&wrong, &word.to_lowercase()) }
    };
    known
        .into_iter()
        .map(|word| (apart(word), word))
        .filter(|(apart, _)| *apart <= most)
        .min()
        .map(|(_, word)| word)
}

/// Letters to change, add or drop.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in b.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
