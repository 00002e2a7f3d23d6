//! ARCHITECTURE.md names a function and a test for every promise: both must be there.

use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// `file` `name` pairs of one table cell.
fn named(cell: &str) -> Option<(String, String)> {
    let mut spans = cell.split('`').skip(1).step_by(2).map(str::to_owned);
    Some((spans.next()?, spans.next()?))
}

#[test]
fn every_promise_names_a_function_and_a_test_that_exist() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = page.split("## Promises").nth(1).expect("the chapter of the promises");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("crates/"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for promise in 1..=10 {
        let prefix = format!("{promise}. ");
        assert!(rows.iter().any(|row| row[1].starts_with(&prefix)), "promise {promise} has no row");
    }
    for row in rows {
        for cell in [row[2], row[3]] {
            let (file, name) = named(cell).unwrap_or_else(|| panic!("{cell}: expected `file` `name`"));
            let source =
                std::fs::read_to_string(root().join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            let defined = ["(", "<"].iter().any(|after| source.contains(&format!("fn {name}{after}")));
            assert!(defined, "{file} has no function {name}: promise {:?}", row[1]);
        }
    }
}
