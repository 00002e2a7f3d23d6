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

/// Letters to change, add or drop; two that changed places count once.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
