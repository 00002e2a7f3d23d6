//! Every listing of docs/bot.md and of its Russian sister is true: its rules are added to the example, its commands are run, their output compared.

use std::path::Path;

use crate::bot::rupor;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bot.md"));
const RUSSIAN: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ru/bot.md"));

#[test]
fn every_listing_of_the_page_about_the_bot_does_what_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(follow(PAGE, folder.path()) >= 14);
    // The table of the service stands in a file of its own here; a shop writes it into the one it has.
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("the listing");
    let whole = format!("{}\n{}", read("rupor.toml"), read("services.toml"));
    std::fs::write(folder.path().join("rupor.toml"), whole).expect("written");
    run("$ rupor apply rupor.toml --yes\n", folder.path());
    let listed = rupor(&["bot", "status"], folder.path());
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("https://orders.example.org/rupor"), "{listed}");
}

#[test]
fn every_listing_of_the_russian_page_about_the_bot_does_what_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(follow(RUSSIAN, folder.path()) >= 11);
}

/// Does what a page says in a copy of the example; how many commands were run.
fn follow(page: &str, folder: &Path) -> usize {
    let shop = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shop"));
    for entry in std::fs::read_dir(shop).expect("the example") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, folder.join(path.file_name().expect("a name"))).expect("copied");
    }
    let mut commands = 0;
    for listing in page.split("\n```").skip(1).step_by(2) {
        let (kind, body) = listing.split_once('\n').expect("a listing");
        match kind.split_once(' ').unwrap_or((kind, "")) {
            ("toml", "") => append(&folder.join("shop.toml"), body),
            ("dialogue" | "toml", name) => std::fs::write(folder.join(name), body).expect("written"),
            ("console", _) => commands += run(body, folder),
            ("json", "") => drop(serde_json::from_str::<serde_json::Value>(body).expect("JSON")),
            other => panic!("nobody runs listings of the kind {other:?}"),
        }
    }
    commands
}

fn append(file: &Path, rules: &str) {
    let before = std::fs::read_to_string(file).expect("the rules");
    std::fs::write(file, format!("{before}\n{rules}\n")).expect("written");
}

/// Runs the commands of a listing; every line below one must be in its output, in this order.
fn run(listing: &str, folder: &Path) -> usize {
    let mut commands = 0;
    for block in listing.split("$ rupor ").skip(1) {
        let mut lines = block.lines();
        let command = lines.next().expect("a command");
        let output = rupor(&words(command).iter().map(String::as_str).collect::<Vec<_>>(), folder);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command}: {}{text}", String::from_utf8_lossy(&output.stderr));
        let mut said = text.lines();
        for line in lines.filter(|line| !line.trim().is_empty() && *line != "…") {
            assert!(said.any(|other| other.trim() == line.trim()), "{command}: no «{line}» in\n{text}");
        }
        commands += 1;
    }
    commands
}

/// A command line as a shell cuts it, as far as this page needs it.
fn words(command: &str) -> Vec<String> {
    let pieces = command.split('"').enumerate();
    pieces
        .flat_map(|(n, piece)| match n % 2 {
            1 => vec![piece.to_owned()],
            _ => piece.split_whitespace().map(str::to_owned).collect(),
        })
        .collect()
}
