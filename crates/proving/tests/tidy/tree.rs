//! The files of the project as text, and the rules about files themselves.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of one file; longer ones hold more than one thing. A table of tests may be longer.
const LINES_MAX: usize = 600;
const TEST_LINES_MAX: usize = 1_000;

/// One file: its path from the root of the project, and its text.
pub(crate) struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    /// Lines that run in the product, with their numbers: no comments, nothing below the first `#[cfg(test)]` module.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        let lines = self.text[..tests].lines().enumerate();
        lines.map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or("");
        self.path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs")
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root of the project")
}

/// Every file below a folder with one of these endings, in the order of their paths.
pub(crate) fn files(folder: &str, endings: &[&str]) -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    collect(&root.join(folder), endings, &mut found);
    found.sort();
    let source = |path: PathBuf| Source {
        path: path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned(),
        text: fs::read_to_string(&path).expect("a text file"),
    };
    found.into_iter().map(source).collect()
}

fn collect(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("readable").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | "node_modules" | ".git" | "corpus") {
                collect(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// Fails with every broken line at once.
pub(crate) fn none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let long = files("crates", &[".rs", ".sql"]).into_iter().filter_map(|file| {
        let lines = file.text.lines().count();
        let most = if file.is_test() { TEST_LINES_MAX } else { LINES_MAX };
        (lines > most).then(|| format!("{}: {lines} lines, at most {most}", file.path))
    });
    none("a file that nobody reads in one go", &long.collect::<Vec<_>>());
}

/// Paths in backticks, as far as they look like files or folders of ours.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    const OURS: &[&str] = &["crates/", "docs/", "db/", "tests/", "fuzz/", "examples/", "workflows/", "ops/"];
    let quoted = line.split('`').skip(1).step_by(2);
    quoted
        .map(|text| text.split_whitespace().next().unwrap_or(""))
        .filter(|path| OURS.iter().any(|start| path.starts_with(start)))
        .filter(|path| {
            !path.contains(['*', '{', '…', '<'])
                && !["NAME", "NNNN", "ENTRY"].iter().any(|open| path.contains(open))
        })
}

/// Where a link of a page leads, if to a file: from the folder of the page.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    ends.filter(|to| !to.is_empty() && !to.contains("://") && !to.starts_with("mailto:"))
}

#[test]
fn documents_name_only_files_that_exist() {
    let root = root();
    let mut stale = Vec::new();
    let pages = files("docs", &[".md"]).into_iter();
    let fronts =
        ["README.md", "README.ru.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| {
            let text = fs::read_to_string(root.join(name)).expect("it is there");
            Source { path: name.to_owned(), text }
        });
    for page in pages.chain(fronts) {
        let folder = root.join(&page.path).parent().expect("a folder").to_owned();
        for (at, line) in page.text.lines().enumerate() {
            let paths = named_paths(line).filter(|path| !root.join(path).exists());
            let gone = paths.chain(links(line).filter(|to| !folder.join(to).exists()));
            stale.extend(gone.map(|path| format!("{}:{}: {path}", page.path, at + 1)));
        }
    }
    none("a document names a file that is not there", &stale);
}

/// Names of files of code in a comment: words that end like one, with or without folders.
fn named_files(comment: &str) -> impl Iterator<Item = &str> {
    const ENDINGS: [&str; 3] = [".rs", ".sql", ".md"];
    let is_path = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let words = comment.split(move |c: char| !is_path(c)).map(|word| word.trim_matches(['.', '-', '/']));
    words.filter(|word| ENDINGS.iter().any(|ending| word.len() > ending.len() && word.ends_with(ending)))
}

/// A comment names a file of its crate by its name, any other by as much of its path as tells which; a folder from its crate.
#[test]
fn comments_name_only_files_that_exist() {
    let root = root();
    let code = files("crates", &[".rs", ".sql"]);
    let known: Vec<String> = ["crates", "docs", "db", "fuzz", "examples", "tests", "ops"]
        .iter()
        .flat_map(|folder| files(folder, &[".rs", ".sql", ".md"]))
        .map(|file| format!("/{}", file.path))
        .collect();
    let mut stale = Vec::new();
    for file in code.iter().filter(|file| !file.is_test()) {
        let home: String = file.path.split_inclusive('/').take(2).collect();
        let is_known = |name: &&str| {
            let end = format!("/{name}");
            let near = |path: &&String| path[1..].starts_with(&home) || name.contains('/');
            known.iter().filter(near).any(|path| path.ends_with(&end)) || root.join(name).exists()
        };
        let mark = if file.path.ends_with(".sql") { "--" } else { "//" };
        for (at, line) in file.text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix(mark) else { continue };
            let folders = named_paths(comment).filter(|path| !root.join(path).exists());
            let gone = folders.filter(|path| !root.join(&home).join(path).exists());
            let gone = gone.chain(named_files(comment).filter(|name| !is_known(name)));
            stale.extend(gone.map(|path| format!("{}:{}: {path}", file.path, at + 1)));
        }
    }
    none("a comment names a file that is not there", &stale);
}
