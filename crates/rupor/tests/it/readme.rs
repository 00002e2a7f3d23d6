//! The first command of the README does what it says.

use std::process::Command;

use serde_json::Value;

#[test]
fn cargo_run_knows_which_binary_is_meant() {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let asked = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path", workspace])
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let metadata: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let meant: Vec<&Value> =
        packages.iter().map(|package| &package["default_run"]).filter(|run| !run.is_null()).collect();
    assert_eq!(meant, ["rupor"], "`cargo run` in the root of the workspace");
}
