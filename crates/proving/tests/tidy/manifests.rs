//! Dependencies: each is used, and each says why it is there.

use crate::tree::{files, none, root};

/// Names under `[dependencies]` and `[dev-dependencies]` of one manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]");
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

#[test]
fn every_dependency_is_used() {
    let mut idle = Vec::new();
    for krate in ["domain", "store", "platforms", "engine", "sandbox", "rupor", "proving"] {
        let manifest =
            std::fs::read_to_string(root().join(format!("crates/{krate}/Cargo.toml"))).expect("a manifest");
        let mut sources = files(&format!("crates/{krate}"), &[".rs"]);
        if krate == "rupor" {
            // The entries that are fuzzed stand beside the crates and are compiled into its tests.
            sources.extend(files("fuzz/entries", &[".rs"]));
        }
        let code: String = sources.into_iter().map(|file| file.text).collect();
        for name in dependencies(&manifest) {
            let path = name.replace('-', "_");
            if !code.contains(&format!("{path}::")) && !code.contains(&format!("use {path};")) {
                idle.push(format!("{krate}: {name}"));
            }
        }
    }
    none("a dependency that nothing uses", &idle);
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
    let idle: Vec<String> = dependencies(&top).into_iter().filter(nobodys).collect();
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
