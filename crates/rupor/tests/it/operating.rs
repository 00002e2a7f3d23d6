//! docs/operating.md explains every event there is, and no other. (Metrics are held to it by the test beside them.)

use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
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
fn every_trouble_of_the_database_names_a_test_that_exists() {
    let page = read("docs/operating.md");
    let chapter = page.split("\n## When the database is in trouble\n").nth(1).expect("the chapter");
    let chapter = chapter.split("\n## ").next().expect("its text");
    let rows: Vec<&str> = chapter.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    let tests = read("crates/rupor/tests/trouble.rs") + &read("crates/rupor/src/watch/tests/standstill.rs");
    for row in &rows {
        let name = row.trim_end_matches(['|', ' ', '`']).rsplit('`').next().expect("a name");
        assert!(tests.contains(&format!("async fn {name}()")), "{name} is no test: {row}");
    }
    let all = tests.matches("#[tokio::test").count();
    // The database that is gone while the node watches is told on another page.
    assert_eq!(rows.len(), all - 1, "a test of trouble has no row");
}
