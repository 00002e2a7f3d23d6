//! Nothing pretends: a setting is read, a column is used.

use std::collections::BTreeSet;

use crate::tree::{Source, files, none};

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// All words of the code of a file, each once.
fn words(file: &Source) -> BTreeSet<&str> {
    let code = file.code().map(|(_, line)| line.split("--").next().unwrap_or(line));
    code.flat_map(|line| line.split(|c| !is_word(c))).collect()
}

/// Public fields of the structs of a file, with their lines.
fn fields(file: &Source) -> Vec<(usize, String)> {
    let field = |(at, line): (usize, &str)| {
        let name = line.strip_prefix("    pub ")?.split(':').next()?;
        (!name.is_empty() && name.chars().all(is_word)).then(|| (at, name.to_owned()))
    };
    file.code().filter_map(field).collect()
}

#[test]
fn every_setting_of_the_file_is_read() {
    let all = files("crates/rupor/src/config", &[".rs"]);
    let (written, readers): (Vec<Source>, Vec<Source>) =
        all.into_iter().filter(|file| !file.is_test()).partition(|file| file.path.ends_with("written.rs"));
    let is_read = |text: &str, name: &str| {
        text.split(&format!(".{name}")).skip(1).any(|rest| !rest.starts_with(is_word))
    };
    let reads = |name: &str| readers.iter().any(|file| is_read(&file.text, name));
    let idle: Vec<String> = written
        .iter()
        .flat_map(|file| fields(file).into_iter().map(|(at, name)| (format!("{}:{at}", file.path), name)))
        .filter(|(_, name)| !reads(name))
        .map(|(at, name)| format!("{at}: {name}"))
        .collect();
    none("a setting that nothing reads", &idle);
}

/// Columns of one schema: table and column, read from its CREATE TABLE and ADD COLUMN statements.
fn columns(schema: &[Source]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in schema {
        let mut table: Option<String> = None;
        for line in file.text.lines() {
            let line = line.trim();
            let begin = |text: &str| text.chars().take_while(|c| is_word(*c)).collect::<String>();
            if let Some((alter, column)) = line.split_once(" ADD COLUMN ") {
                found.push((begin(alter.trim_start_matches("ALTER TABLE ")), begin(column)));
                continue;
            }
            if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
                table = Some(rest.split([' ', '(']).next().unwrap_or("").to_owned());
            } else if line.starts_with(')') {
                table = None;
            } else if let Some(table) = &table {
                let word = begin(line);
                let is_column =
                    !word.is_empty() && word.chars().all(|c| c.is_lowercase() || c == '_' || c.is_numeric());
                if is_column {
                    found.push((table.clone(), word));
                }
            }
        }
    }
    found
}

/// Columns that no statement names, and why they are there.
const UNNAMED: &[(&str, &str)] = &[
    // A key of its own for a row that is found by others.
    ("suppressions", "suppression_id"),
];

/// One file has to name both the table and the column: a word of that name elsewhere proves nothing.
#[test]
fn every_column_is_used() {
    let mut idle = Vec::new();
    for database in ["sqlite", "postgres"] {
        let schema = files(&format!("crates/store/migrations/{database}"), &[".sql"]);
        let code = files("crates/store/src", &[".rs", ".sql"]);
        let own: Vec<Source> = code
            .into_iter()
            .filter(|file| {
                !file.is_test()
                    && !file.path.contains(if database == "sqlite" { "/postgres/" } else { "/sqlite/" })
            })
            .collect();
        let named: Vec<BTreeSet<&str>> = own.iter().map(words).collect();
        for (table, column) in columns(&schema) {
            let is_used =
                named.iter().any(|words| words.contains(table.as_str()) && words.contains(column.as_str()));
            if !is_used && !UNNAMED.contains(&(table.as_str(), column.as_str())) {
                idle.push(format!("{database}: {table}.{column}"));
            }
        }
    }
    none("a column that nothing reads or writes", &idle);
}
