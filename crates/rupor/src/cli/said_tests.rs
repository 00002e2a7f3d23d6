//! Everything that the program can say, in one file that people read as a whole: help, the catalogue, and the sentences
//! that stand in the code. `UPDATE_EXPECT=1 cargo test -p rupor --bin rupor said` writes it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// Crates whose words reach people.
const CRATES: [&str; 5] = ["domain", "engine", "platforms", "rupor", "store"];
/// An option of so many commands is told once, on top.
const SHARED: usize = 6;

#[test]
fn everything_that_is_said_stands_in_one_file() {
    let mut all = String::from("# Help\n");
    help(&mut all);
    all += "\n# The catalogue\n";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in files(&root.join("src/language/catalogue"), "txt") {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for block in lines.collect::<Vec<_>>().chunks(3) {
            all += &format!("{}\n    {}\n    {}\n", block[0], block[1], block[2]);
        }
    }
    all += "\n# Sentences in the code\n";
    for name in CRATES {
        let folder = root.join("..").join(name).join("src");
        for path in files(&folder, "rs") {
            let shown = path.strip_prefix(&folder).unwrap().display().to_string();
            let is_test = ["test", "fuzz", "sample", "corpus", "contract", "invented"]
                .iter()
                .any(|word| shown.contains(word));
            let said = sentences(&std::fs::read_to_string(&path).unwrap());
            if !is_test && !said.is_empty() {
                all += &format!("{name}/{shown}\n");
                all.extend(said.iter().map(|one| format!("    {one}\n")));
            }
        }
    }
    expect_test::expect_file!["golden/said.txt"].assert_eq(&all);
}

fn help(all: &mut String) {
    let mut root = Cli::command();
    root.build();
    let mut commands = Vec::new();
    walk(&root, "rupor", &mut commands);
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for (_, command) in &commands {
        for line in command.get_arguments().map(option) {
            *uses.entry(line).or_default() += 1;
        }
    }
    for (line, _) in uses.iter().filter(|(_, n)| **n >= SHARED) {
        *all += &format!("    {line}\n");
    }
    for (name, command) in commands {
        let about =
            command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
        *all += &format!("{name}: {}\n", about.replace("\n\n", " / ").replace('\n', " "));
        for line in command.get_arguments().map(option).filter(|line| uses[line] < SHARED) {
            *all += &format!("    {line}\n");
        }
        if let Some(after) = command.get_after_help() {
            *all += &format!("    after: {}\n", after.to_string().replace('\n', " | "));
        }
    }
}

fn walk(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    found.push((name.to_owned(), command.clone()));
    for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
        walk(one, &format!("{name} {}", one.get_name()), found);
    }
}

fn option(argument: &Arg) -> String {
    let name = match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().to_string(),
    };
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    format!("{name}: {}", help.replace('\n', " "))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path, ending)),
            false if path.extension().is_some_and(|known| known == ending) => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

/// Texts of code that read like sentences, each once; tests and queries left out.
fn sentences(code: &str) -> BTreeSet<String> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    literals(code).into_iter().filter(|text| is_sentence(text)).collect()
}

fn is_sentence(text: &str) -> bool {
    let sql = ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "PRAGMA", "WHERE", "LOCK ", "GRANT", "SET "];
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
    words >= 3 && !sql.iter().any(|word| text.contains(word)) && !text.contains("function(")
}

/// The string literals of Rust code, comments left out.
fn literals(code: &str) -> Vec<String> {
    let characters: Vec<char> = code.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    let is =
        |at: usize, text: &str| text.chars().enumerate().all(|(n, c)| characters.get(at + n) == Some(&c));
    while at < characters.len() {
        if is(at, "//") {
            while at < characters.len() && characters[at] != '\n' {
                at += 1;
            }
        } else if characters[at] == '\'' && (is(at + 1, "\\") || characters.get(at + 2) == Some(&'\'')) {
            // A character, not a lifetime.
            at += if is(at + 1, "\\") { 3 } else { 2 };
        } else if is(at, "r\"") || is(at, "r#\"") {
            let end = if is(at, "r#") { "\"#" } else { "\"" };
            let begin = at + end.len() + 1;
            let length =
                (begin..characters.len()).find(|at| is(*at, end)).unwrap_or(characters.len()) - begin;
            found.push(characters[begin..begin + length].iter().collect::<String>().replace('\n', " "));
            at = begin + length + end.len() - 1;
        } else if characters[at] == '"' {
            let mut text = String::new();
            at += 1;
            while at < characters.len() && characters[at] != '"' {
                match (characters[at], characters.get(at + 1)) {
                    ('\\', Some('\n')) => {
                        at += 1;
                        while characters.get(at + 1).is_some_and(|c| c.is_whitespace()) {
                            at += 1;
                        }
                    }
                    ('\\', Some('n')) => {
                        text.push(' ');
                        at += 1;
                    }
                    ('\\', Some(other)) => {
                        text.push(*other);
                        at += 1;
                    }
                    ('\n', _) => text.push(' '),
                    (other, _) => text.push(other),
                }
                at += 1;
            }
            found.push(text);
        }
        at += 1;
    }
    found
}

#[test]
fn sentences_are_found_in_code() {
    let code = r##"
        // "not this one at all"
        bail!("channel {name} takes \
               no posts; say \"why\"");
        let quote = '"'; let life: &'static str = r#"a raw one it is"#;
        const SQL: &str = "SELECT a FROM b WHERE c";
    "##;
    let found: Vec<String> = sentences(code).into_iter().collect();
    assert_eq!(found, ["a raw one it is", "channel {name} takes no posts; say \"why\""]);
}
