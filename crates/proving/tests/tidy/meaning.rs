//! Nothing pretends: a setting is read, a column is used.

use std::collections::BTreeSet;

use crate::tree::{Source, files, none};

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// All words of some files, each once.
fn words(files: &[Source]) -> BTreeSet<&str> {
    files.iter().flat_map(|file| file.text.split(|c| !is_word(c))).collect()
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
    let reads = |name: &str| readers.iter().any(|file| file.text.contains(&format!(".{name}")));
    let idle: Vec<String> = written
        .iter()
        .flat_map(|file| fields(file).into_iter().map(|(at, name)| (format!("{}:{at}", file.path), name)))
        .filter(|(_, name)| !reads(name))
        .map(|(at, name)| format!("{at}: {name}"))
        .collect();
    none("a setting that nothing reads", &idle);
}

/// Columns of one schema: `table.column`, read from its CREATE TABLE statements.
fn columns(schema: &[Source]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in schema {
        let mut table: Option<String> = None;
        for line in file.text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
                table = Some(rest.split([' ', '(']).next().unwrap_or("").to_owned());
            } else if line.starts_with(')') {
                table = None;
            } else if let Some(table) = &table {
                let word: String = line.chars().take_while(|c| is_word(*c)).collect();
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
fn is_excused(table: &str, column: &str) -> bool {
    // The bot's tables came with the first schema; its engine is not built yet.
    let of_the_bot = table.starts_with("bot_");
    // A key of its own for a row that is found by others.
    of_the_bot || (table, column) == ("suppressions", "suppression_id")
}

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
        let used = words(&own);
        for (table, column) in columns(&schema) {
            if !used.contains(column.as_str()) && !is_excused(&table, &column) {
                idle.push(format!("{database}: {table}.{column}"));
            }
        }
    }
    none("a column that nothing reads or writes", &idle);
}
