//! docs/operating.md explains every event and every metric there is, and no other.

use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files right in a folder, each with its path from the root.
fn files_of(folder: &str) -> Vec<String> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let entries = std::fs::read_dir(root.join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let files = entries.map(|entry| entry.expect("an entry")).filter(|entry| entry.path().is_file());
    files.map(|entry| format!("{folder}/{}", entry.file_name().display())).collect()
}

/// The first cells of the table under a heading, up to the first line that is no row.
fn first_cells(page: &str, heading: &str) -> BTreeSet<String> {
    let chapter = page.split(&format!("\n## {heading}\n")).nth(1).expect("the chapter");
    let rows =
        chapter.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).filter_map(|row| row.split('`').nth(1)).map(str::to_owned).collect()
}

#[test]
fn every_event_of_the_schema_is_explained() {
    for schema in ["sqlite", "postgres"] {
        let sql = read(&format!("crates/store/migrations/{schema}/0002_ledger.sql"));
        let table = sql.split("CREATE TABLE events").nth(1).expect("the table of events");
        let list =
            table.split("CHECK (").nth(1).and_then(|rest| rest.split("),").next()).expect("the closed list");
        let known: BTreeSet<String> = list.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(known.contains("dead_letter"), "{known:?}");
        assert_eq!(first_cells(&read("docs/operating.md"), "Events"), known, "{schema}");
    }
}

#[test]
fn every_metric_of_the_code_is_explained() {
    let mut known = BTreeSet::new();
    let mut files = vec!["crates/rupor/src/http.rs".to_owned()];
    for folder in ["crates/engine/src/dispatch", "crates/rupor/src/http"] {
        files.extend(files_of(folder).into_iter().filter(|file| !file.ends_with("tests.rs")));
    }
    for file in files {
        let code = read(&file);
        let code = code.split("\nmod tests {").next().unwrap_or_default();
        let names = code.split('"').filter(|text| text.starts_with("rupor_"));
        known.extend(names.filter_map(|text| text.split('{').next()).map(str::to_owned));
    }
    assert_eq!(first_cells(&read("docs/operating.md"), "Metrics"), known);
}
