//! Who may know whom: edges between crates and modules, and where a platform's name may stand.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{files, none};

/// What each crate may use of ours.
const CRATES: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("store", &["domain"]),
    ("platforms", &["domain"]),
    ("engine", &["domain", "store", "platforms"]),
    ("sandbox", &[]),
    ("rupor", &["domain", "store", "platforms", "engine", "sandbox"]),
    ("proving", &["domain", "store", "platforms", "engine", "sandbox"]),
];

#[test]
fn a_crate_uses_only_what_stands_below_it() {
    let mut broken = Vec::new();
    for (name, below) in CRATES {
        for file in files(&format!("crates/{name}/src"), &[".rs"]).iter().filter(|file| !file.is_test()) {
            for (at, line) in file.code() {
                let used = CRATES.iter().map(|(other, _)| other).filter(|other| *other != name);
                for other in used.filter(|other| !below.contains(other)) {
                    let path = format!("{other}::");
                    let begins =
                        line.trim_start().strip_prefix("use ").is_some_and(|rest| rest.starts_with(&path));
                    if begins {
                        broken.push(format!("{}:{at}: {name} knows nothing of {other}", file.path));
                    }
                }
            }
        }
    }
    none("the borders of ARCHITECTURE.md", &broken);
}

/// Modules of a crate's root that each module names, by `crate::` or by as many `super::` as lead there.
fn edges(krate: &str) -> BTreeMap<String, BTreeSet<String>> {
    let source = format!("crates/{krate}/src/");
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files(&source, &[".rs"]).iter().filter(|file| !file.is_test()) {
        let inner = file.path.strip_prefix(&source).expect("below the sources").trim_end_matches(".rs");
        let place: Vec<&str> = inner.split('/').filter(|part| *part != "mod").collect();
        let code: String = file.code().map(|(_, line)| format!("{line}\n")).collect();
        let roots = ["crate::".to_owned(), "super::".repeat(place.len())];
        let named = roots.iter().flat_map(|root| code.split(root.as_str()).skip(1)).flat_map(first_names);
        let others = named.filter(|name| *name != place[0]).map(str::to_owned);
        edges.entry(place[0].to_owned()).or_default().extend(others);
    }
    edges
}

/// What a path goes on with: one name, or those of a list in braces.
fn first_names(rest: &str) -> Vec<&str> {
    let is_module = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begin = |text: &str| text.len() - text.trim_start_matches(is_module).len();
    let Some(list) = rest.strip_prefix('{') else { return vec![&rest[..begin(rest)]] };
    let (mut names, mut depth, mut at) = (Vec::new(), 0, 0);
    for (place, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(&list[at..place]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(&list[at..place]);
                at = place + 1;
            }
            _ => {}
        }
    }
    names
        .into_iter()
        .map(str::trim)
        .map(|name| &name[..begin(name)])
        .filter(|name| !name.is_empty())
        .collect()
}

/// Whether `to` can be reached from `from`.
fn reaches(edges: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in edges.get(module).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

#[test]
fn modules_do_not_go_round_in_circles() {
    let mut circles = Vec::new();
    for krate in ["engine", "rupor"] {
        let edges = edges(krate);
        let rounds = edges.keys().filter(|module| reaches(&edges, module, module));
        circles.extend(
            rounds
                .map(|module| format!("{krate}::{module} comes back to itself through {:?}", edges[module])),
        );
    }
    none("a module that depends on itself cannot be read alone", &circles);
}

#[test]
fn loops_meet_only_in_the_store() {
    const LOOPS: &[&str] = &["dispatch", "monitor", "sources", "campaigns", "bot", "callbacks", "vitals"];
    let edges = edges("engine");
    let mut broken = Vec::new();
    for one in LOOPS {
        let others = edges.get(*one).into_iter().flatten().filter(|other| LOOPS.contains(&other.as_str()));
        broken.extend(others.map(|other| format!("{one} imports {other}")));
    }
    // What a post becomes is used by sources and by the push API; it is no loop, and knows none.
    let known = edges.get("ingest").into_iter().flatten();
    let known = known.filter(|other| LOOPS.contains(&other.as_str()));
    broken.extend(known.map(|other| format!("ingest imports {other}")));
    none("a loop calls another", &broken);
}

/// Where a platform's name may stand besides its own crate: what shows it, and what rehearses it.
const NAMES_ALLOWED: &[&str] = &[
    // The vocabulary of posts: people write about messengers and link to them.
    "crates/domain/src/content/",
    // The invented city of the demonstration.
    "crates/rupor/src/demo/",
    // Measurements and simulations need some platform.
    "crates/proving/src/",
    "crates/rupor/src/fuzz.rs",
    // Examples that a person reads in the help.
    "crates/rupor/src/cli/init.rs",
    "crates/rupor/src/cli/sandbox.rs",
    "crates/rupor/src/cli/why.rs",
    // What a post says: the accounts that it names.
    "crates/rupor/src/cli/analyse.rs",
    // What platforms say in English, in Russian: they know nothing of the catalogue.
    "crates/rupor/src/language/catalogue/heard.txt",
    // The largest number that a slot of the bot takes is called `max` too.
    "crates/domain/src/dialogue/file/parts.rs",
];

/// Whether a line names a platform: by a word of its own, or by one of its addresses.
fn names_a_platform(line: &str) -> bool {
    const WORDS: &[&str] = &["telegram", "Telegram", "TELEGRAM", "vk", "Vk", "VK"];
    const PIECES: &[&str] = &["\"max\"", "`max`", "MAX\"", "t.me/", "vk.com", "vk.ru", "max.ru", "::Max"];
    let mut words = line.split(|c: char| !c.is_alphanumeric());
    words.any(|word| WORDS.contains(&word)) || PIECES.iter().any(|piece| line.contains(piece))
}

#[test]
fn a_platforms_name_stands_only_in_its_own_folder() {
    let mut broken = Vec::new();
    for krate in ["domain", "store", "engine", "rupor", "proving"] {
        let endings = [".rs", ".sql", ".js", ".css", ".html", ".txt"];
        for file in files(&format!("crates/{krate}/src"), &endings).iter().filter(|file| !file.is_test()) {
            // What the commands say is kept to be compared; who says it is looked at here.
            if file.path.contains("/golden/")
                || NAMES_ALLOWED.iter().any(|allowed| file.path.starts_with(allowed))
            {
                continue;
            }
            let named = file.code().filter(|(_, line)| !line.trim_start().starts_with("--"));
            let named = named.filter(|(_, line)| names_a_platform(line));
            broken.extend(named.map(|(at, line)| format!("{}:{at}: {}", file.path, line.trim())));
        }
    }
    none("ask the platform (platforms::facts) instead of naming it", &broken);
}
