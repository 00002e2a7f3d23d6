//! The files of the project as text, and the rules about files themselves.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of one file; longer ones hold more than one thing. A table of tests may be longer.
const LINES_MAX: usize = 600;
const TEST_LINES_MAX: usize = 1_000;
/// Files that are to be divided.
const LONG: &[&str] = &["crates/rupor/src/operate/words.rs", "crates/store/src/facade.rs"];

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
        let is_long = lines > most && !LONG.contains(&file.path.as_str());
        is_long.then(|| format!("{}: {lines} lines, at most {most}", file.path))
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
            !path.contains(['*', '{', '…', '<']) && !path.contains("NAME") && !path.contains("NNNN")
        })
}

#[test]
fn documents_name_only_files_that_exist() {
    let root = root();
    let mut stale = Vec::new();
    let pages = files("docs", &[".md"]).into_iter();
    let fronts = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| Source {
        path: name.to_owned(),
        text: fs::read_to_string(root.join(name)).expect("it is there"),
    });
    for page in pages.chain(fronts) {
        for (at, line) in page.text.lines().enumerate() {
            let gone = named_paths(line).filter(|path| !root.join(path).exists());
            stale.extend(gone.map(|path| format!("{}:{}: {path}", page.path, at + 1)));
        }
    }
    none("a document names a file that is not there", &stale);
}
