//! Dependencies: each is used, and each says why it is there.

use crate::tree::{files, none, root};

/// Names under the tables of one manifest whose heads end so: `dependencies]` are all of them.
fn dependencies(manifest: &str, head: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.ends_with(head);
        } else if inside && !line.trim_start().starts_with('#') {
            let name: String =
                line.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
            if !name.is_empty() {
                found.push(name);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Those of one table of a crate's manifest that a piece of code does not name.
fn idle(krate: &str, head: &str, code: &str) -> Vec<String> {
    let manifest =
        std::fs::read_to_string(root().join(format!("crates/{krate}/Cargo.toml"))).expect("a manifest");
    let is_named = |name: &String| {
        let path = name.replace('-', "_");
        code.contains(&format!("{path}::")) || code.contains(&format!("use {path};"))
    };
    let names = dependencies(&manifest, head).into_iter().filter(|name| !is_named(name));
    names.map(|name| format!("{krate}: {name}")).collect()
}

/// Modules that a file names for tests alone.
fn test_modules(text: &str) -> impl Iterator<Item = String> {
    let behind = text.split("#[cfg(test)]\n").skip(1);
    behind.filter_map(|rest| {
        let line = rest.lines().next()?.trim_start();
        Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    })
}

const CRATES: [&str; 7] = ["domain", "store", "platforms", "engine", "sandbox", "rupor", "proving"];

#[test]
fn every_dependency_is_used() {
    let mut broken = Vec::new();
    for krate in CRATES {
        let mut sources = files(&format!("crates/{krate}"), &[".rs"]);
        if krate == "rupor" {
            // The entries that are fuzzed stand beside the crates and are compiled into its tests.
            sources.extend(files("fuzz/entries", &[".rs"]));
        }
        let code: String = sources.into_iter().map(|file| file.text).collect();
        broken.extend(idle(krate, "dependencies]", &code));
    }
    none("a dependency that nothing uses", &broken);
}

#[test]
fn what_only_tests_use_is_no_dependency_of_the_product() {
    let mut broken = Vec::new();
    for krate in CRATES {
        let sources = files(&format!("crates/{krate}/src"), &[".rs"]);
        let for_tests: Vec<String> = sources.iter().flat_map(|file| test_modules(&file.text)).collect();
        let product = sources.iter().filter(|file| {
            let mut parts = file.path.trim_end_matches(".rs").split('/');
            !file.is_test() && !parts.any(|part| for_tests.iter().any(|module| module == part))
        });
        let code: String =
            product.flat_map(|file| file.code().map(|(_, line)| format!("{line}\n"))).collect();
        broken.extend(idle(krate, "[dependencies]", &code));
    }
    none("a dependency that belongs under [dev-dependencies]", &broken);
}

#[test]
fn every_dependency_of_the_workspace_belongs_to_a_crate() {
    let top = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let crates: String = files("crates", &["Cargo.toml"]).into_iter().map(|file| file.text).collect();
    let nobodys = |name: &String| {
        !crates.lines().any(|line| {
            line.starts_with(&format!("{name}.workspace"))
                || line.starts_with(&format!("{name} = {{ workspace"))
        })
    };
    let idle: Vec<String> = dependencies(&top, "dependencies]").into_iter().filter(nobodys).collect();
    none("a dependency that no crate asks for", &idle);
}

#[test]
fn every_dependency_of_the_workspace_earns_a_sentence() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let mut silent = Vec::new();
    let mut inside = false;
    let mut before = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        }
        let is_entry = inside && line.contains('=') && !line.starts_with('#');
        if is_entry && !line.contains("path = ") && !(before.starts_with("# ") && before.ends_with('.')) {
            silent.push(line.to_owned());
        }
        before = line;
    }
    none("say in one sentence above it why it is here and not written by hand", &silent);
}
