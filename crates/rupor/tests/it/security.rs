//! docs/security.md: every item of the checklist names a test that exists, or says why there is none.
//! And what keeps the supply short: licences, sources, versions below which something is known to be broken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Items that may stand without a test, each with its reason on the page.
const MAY_LACK_A_TEST: [u32; 6] = [14, 44, 56, 63, 65, 67];

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of the checklist by their number.
fn items() -> BTreeMap<u32, String> {
    let page = read("docs/security.md");
    let mut rows = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| S")) {
        let number = line.trim_start_matches("| S").split(' ').next().and_then(|n| n.parse().ok());
        let number = number.unwrap_or_else(|| panic!("{line}"));
        assert!(rows.insert(number, line.to_owned()).is_none(), "S{number} stands twice");
    }
    rows
}

/// The pairs of `file` `name` in a row.
fn named(row: &str) -> Vec<(String, String)> {
    let spans: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
    let is_file = |span: &str| {
        span.contains('/') && span.rsplit('.').next().is_some_and(|end| matches!(end, "rs" | "py"))
    };
    let mut pairs = Vec::new();
    let mut file = None;
    for span in spans {
        match file {
            _ if is_file(span) => file = Some(span),
            Some(file) => pairs.push((file.to_owned(), span.to_owned())),
            None => {}
        }
    }
    pairs
}

#[test]
fn every_item_of_the_checklist_names_a_test_that_exists_or_a_reason() {
    let items = items();
    let numbers: Vec<u32> = items.keys().copied().collect();
    assert_eq!(numbers, (1..=68).collect::<Vec<u32>>());
    for (number, row) in &items {
        let pairs = named(row);
        if pairs.is_empty() {
            assert!(MAY_LACK_A_TEST.contains(number), "S{number} names no test");
            assert!(row.contains("Reason: "), "S{number} names neither a test nor a reason");
        }
        for (file, name) in pairs {
            let source = read(&file);
            assert!(is_test(&file, &source, &name), "S{number}: {file} has no test {name}");
        }
    }
}

#[test]
fn every_loop_of_the_page_names_a_test_that_exists() {
    let page = read("docs/security.md");
    let section = page.split("\n## A panic in any loop\n").nth(1).expect("the section");
    let rows = section.split("\n## ").next().unwrap_or_default().lines().filter(|line| line.starts_with('|'));
    let pairs: Vec<(String, String)> = rows.flat_map(named).collect();
    assert!(pairs.len() >= 10, "{pairs:?}");
    for (file, name) in pairs {
        assert!(is_test(&file, &read(&file), &name), "{file} has no test {name}");
    }
}

/// Whether it is run: a function is no test because of its name. It has the attribute, or stands in the list of a macro
/// (`contract!`) or of a script.
fn is_test(file: &str, source: &str, name: &str) -> bool {
    if file.ends_with(".py") {
        let n_times = source.matches(name).count();
        return source.contains(&format!("\ndef {name}(")) && n_times > 1;
    }
    let Some(at) = source.find(&format!("fn {name}(")) else {
        return false;
    };
    let before = source[..at].rsplit("\n\n").next().unwrap_or_default();
    let has_attribute = before.contains("#[test]") || before.contains("#[tokio::test");
    has_attribute || source.lines().any(|line| line.trim() == format!("{name},"))
}

#[test]
fn a_function_is_no_test_because_of_its_name() {
    let source = "contract! {\n    listed,\n}\nasync fn listed(w: &World) {}\n\nfn helper() {}\n\n#[test]\nfn tried() {}\n";
    for (name, is) in [("listed", true), ("tried", true), ("helper", false), ("missing", false)] {
        assert_eq!(is_test("a.rs", source, name), is, "{name}");
    }
    let script = "def attack():\n    pass\n\ndef left_out():\n    pass\n\nALL = [attack]\n";
    let script = format!("\n{script}");
    assert!(is_test("a.py", &script, "attack") && !is_test("a.py", &script, "left_out"));
}

/// Sources of the product, without its tests, by their path.
fn product() -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a file of the tree") {
            let path = entry.expect("a file of the tree").path();
            let name = path.file_name().expect("a file of the tree").to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" && name != "testing" {
                walk(&path, found);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "fuzz.rs" {
                found.push(path);
            }
        }
    }
    let mut files = Vec::new();
    for part in ["engine", "platforms", "rupor", "store"] {
        walk(&root().join("crates").join(part).join("src"), &mut files);
    }
    files.sort();
    let product = |text: &str| text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
    let relative =
        |path: &Path| path.strip_prefix(root()).expect("a file of the tree").to_string_lossy().into_owned();
    files
        .iter()
        .map(|path| (relative(path), product(&std::fs::read_to_string(path).expect("a file of the tree"))))
        .collect()
}

/// Every name in quotes that follows one of these words.
fn names_after(text: &str, word: &str) -> Vec<String> {
    let after = text.split(word).skip(1).map(str::trim_start);
    after.filter_map(|rest| rest.strip_prefix('"')?.split('"').next().map(str::to_owned)).collect()
}

#[test]
fn every_loop_stands_on_the_page_and_panics_in_the_script() {
    let page = read("docs/security.md");
    let section = page.split("## A panic in any loop").nth(1).unwrap().split("\n## ").next().unwrap();
    let script = read("tests/attack/isolation.py");
    let mut loops = Vec::new();
    for (_, text) in product() {
        for word in ["kept_up(", "keep(", "add(&mut loops,", "or_panic("] {
            loops.extend(names_after(&text, word));
        }
    }
    assert!(loops.len() >= 20, "{loops:?}");
    for name in loops {
        assert!(section.contains(&format!("`{name}`")), "{name} is not on the page");
        assert!(script.contains(&name), "{name} is not in tests/attack/isolation.py");
    }
}

#[test]
fn every_task_that_is_started_stands_on_the_page() {
    let page = read("docs/security.md");
    let rows = page.split("| What a panic there ends |").nth(1).unwrap().split("\n\n").next().unwrap();
    let starts = |text: &str| ["spawn(", "spawn_blocking("].iter().any(|word| text.contains(word));
    let mut found = 0;
    for (path, text) in product().iter().filter(|(_, text)| starts(text)) {
        found += 1;
        assert!(
            rows.contains(&format!("`{path}`")),
            "{path} starts tasks and is not on the page: {}",
            text.len()
        );
    }
    assert_eq!(found, rows.matches(".rs`").count(), "the page names files that start nothing");
}

#[test]
fn every_attack_of_the_script_stands_on_the_page() {
    let page = read("docs/security.md");
    for file in ["tests/attack/attacks.py", "tests/attack/limits.py"] {
        let script = read(file);
        let list = script.split("\nSHORT = [").nth(1).or(script.split("\nALL = [").nth(1)).expect("the list");
        let list = list.split(']').next().unwrap_or_default();
        for name in list.split(',').map(str::trim) {
            assert!(page.contains(&format!("`{name}`")), "{name} of {file} is not on the page");
        }
    }
}

#[test]
fn every_word_list_has_its_provenance_in_the_notice() {
    let notice = read("NOTICE");
    let folders = [
        "crates/domain/src/content/lexicon/data",
        "crates/domain/src/content/facts/rules",
        "crates/domain/testdata",
    ];
    assert!(notice.contains("crates/domain/src/content/evidence/weights/"));
    for folder in folders {
        for file in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = format!("{folder}/{}", file.unwrap().file_name().to_string_lossy());
            assert!(
                notice.contains(&path),
                "{path} is not in NOTICE: where is it from, under which licence?"
            );
        }
    }
}

fn metadata(more: &[&str]) -> Value {
    let manifest = root().join("Cargo.toml");
    let asked = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .args(more)
        .output()
        .expect("cargo runs");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    serde_json::from_slice(&asked.stdout).expect("metadata is JSON")
}

/// Whether a licence can be met with these alone: every part of an AND, one part of an OR.
fn is_allowed(licence: &str, allowed: &[&str]) -> bool {
    let licence = licence.replace('/', " OR ");
    licence.split(" AND ").all(|part| {
        let part = part.trim_matches(|c| c == '(' || c == ')');
        part.split(" OR ").any(|one| allowed.contains(&one.trim_matches(|c| c == '(' || c == ')').trim()))
    })
}

#[test]
fn every_dependency_has_a_licence_we_may_use_and_comes_from_the_registry() {
    let deny = read("deny.toml");
    let list =
        deny.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).expect("the list of licences");
    let allowed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let packages = metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let packages = packages["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or("none"));
        let is_excepted = deny.contains(&format!("{{ allow = [\"{licence}\"], crate = {name} }}"));
        assert!(is_allowed(licence, &allowed) || is_excepted, "{name}: {licence}");
        let source = package["source"].as_str().unwrap_or("registry+ours");
        assert!(source.starts_with("registry+"), "{name} comes from {source}");
    }
    assert!(!is_allowed("GPL-3.0", &allowed) && !is_allowed("MIT AND GPL-3.0", &allowed));
}

/// Versions from which a known hole is closed (reliability S62 and its neighbours).
const FLOORS: [(&str, [u64; 3]); 11] = [
    ("tokio-postgres", [0, 7, 18]),
    ("postgres-protocol", [0, 6, 12]),
    ("rustls-webpki", [0, 103, 13]),
    ("idna", [1, 0, 0]),
    ("hickory-proto", [0, 26, 1]),
    ("ammonia", [4, 1, 3]),
    ("quick-xml", [0, 41, 0]),
    ("tracing-subscriber", [0, 3, 20]),
    ("time", [0, 3, 47]),
    ("h2", [0, 4, 16]),
    ("reqwest", [0, 13, 3]),
];

/// Code that comes at run time has the rights of the engine; a second client is a second way out.
const NEVER: [&str; 9] =
    ["libloading", "wasmtime", "mlua", "rhai", "deno_core", "pyo3", "ureq", "isahc", "openssl"];

#[test]
fn the_lock_file_holds_nothing_that_is_known_to_be_broken() {
    let lock = read("Cargo.lock");
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| package.split(&format!("\n{name} = \"")).nth(1)?.split('"').next();
        let (name, version) = (field("name").unwrap_or_default(), field("version").unwrap_or_default());
        assert!(!NEVER.contains(&name), "{name} is in the tree");
        if let Some((_, floor)) = FLOORS.iter().find(|(known, _)| *known == name) {
            let numbers: Vec<u64> =
                version.split(['.', '-', '+']).filter_map(|part| part.parse().ok()).collect();
            assert!(numbers.as_slice() >= floor.as_slice(), "{name} {version} is below {floor:?}");
        }
    }
}

#[test]
fn no_crate_of_ours_has_unsafe_code_and_no_build_leaves_the_lock_file() {
    assert!(read("Cargo.toml").contains("unsafe_code = \"forbid\""));
    for package in metadata(&["--no-deps"])["packages"].as_array().unwrap() {
        let manifest = std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", package["name"]);
    }
    for line in
        read("test").lines().filter(|line| line.contains("cargo clippy") || line.contains("cargo test "))
    {
        assert!(line.contains("--locked") || line.starts_with('#'), "{line}");
    }
}

#[test]
fn the_service_leaves_no_core_dump_and_gets_no_new_rights() {
    let unit = read("docs/operating.md");
    for line in ["LimitCORE=0", "NoNewPrivileges=true", "ProtectSystem=strict", "UMask=0077"] {
        assert!(unit.contains(&format!("\n{line}\n")), "the unit of docs/operating.md lacks {line}");
    }
}
