//! `rupor bot` on a rules file: what a shop owner types, sees and gets as an exit code.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn shop() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shop/shop.toml")).to_owned()
}

pub(crate) fn rupor(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
    // Whoever runs the tests may have a database of their own in the environment.
    for name in ["RUPOR_DB", "DATABASE_URL", "RUPOR_KEY_FILE"] {
        command.env_remove(name);
    }
    let token = "shop-token-of-the-documentation-0123456789";
    // The example secret of the standard itself.
    command.env("SHOP_TOKEN", token).env("ORDERS_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    command.args(args).current_dir(folder).output().expect("rupor starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[track_caller]
fn check(args: &[&str], folder: &Path, code: i32, says: &[&str]) -> String {
    let output = rupor(args, folder);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    for words in says {
        assert!(text.contains(words), "{args:?}: no «{words}» in\n{text}");
    }
    text
}

#[test]
fn the_shop_of_the_examples_is_sound_and_all_its_dialogues_go_as_written() {
    let folder = shop().parent().expect("a folder").to_owned();
    check(&["bot", "lint", "shop.toml"], &folder, 0, &["no mistakes"]);
    let all = check(&["bot", "test", "shop.toml", "--coverage"], &folder, 0, &["ok   ", "return.dialogue"]);
    assert!(!all.contains("never answered") && !all.contains("never stood in"), "{all}");
}

#[test]
fn mistakes_are_told_with_file_and_line_and_exit_code_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = std::fs::read_to_string(shop()).expect("the shop");
    let typo = source.replacen("goto = \"return_order\"", "gotto = \"return_order\"", 1);
    std::fs::write(folder.path().join("typo.toml"), typo).expect("written");
    check(&["bot", "lint", "typo.toml"], folder.path(), 1, &["typo.toml:", "did you mean `goto`?"]);
    check(&["bot", "lint", "missing.toml"], folder.path(), 1, &["cannot read missing.toml"]);
    check(&["bot", "lint"], folder.path(), 2, &["Usage"]);
    let titles: Vec<String> = (0..40).map(|n| format!("\"Тема {n}\"")).collect();
    let wide = format!("[states.start]\nsay = \"Темы\"\nbuttons = [{}]", titles.join(", "));
    std::fs::write(folder.path().join("wide.toml"), wide).expect("written");
    check(
        &["bot", "lint", "wide.toml"],
        folder.path(),
        0,
        &["wide.toml:1: warning: state start", "VK cannot show", "take some out", "no mistakes"],
    );
}

#[test]
fn a_dialogue_that_goes_otherwise_fails_and_blessing_writes_it_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = "[[rules]]\nname = \"hi\"\non = { words = \"привет\" }\nreply = \"Здравствуйте!\"\n";
    std::fs::write(folder.path().join("bot.toml"), rules).expect("written");
    check(&["bot", "test", "bot.toml"], folder.path(), 1, &["no *.dialogue beside bot.toml"]);
    std::fs::write(folder.path().join("hi.dialogue"), "> привет\n‹ Добрый день!\n").expect("written");
    check(
        &["bot", "test", "bot.toml"],
        folder.path(),
        1,
        &[
            "hi.dialogue:2: error: expected «Добрый день!», but the bot said «Здравствуйте!»",
            "1 of 1 transcripts failed",
        ],
    );
    check(&["bot", "test", "bot.toml", "hi.dialogue", "--bless"], folder.path(), 0, &["ok   hi.dialogue"]);
    let blessed = std::fs::read_to_string(folder.path().join("hi.dialogue")).expect("the transcript");
    assert_eq!(blessed, "> привет\n‹ Здравствуйте!\n");
}

#[test]
fn explain_shows_every_candidate_and_graph_draws_the_states() {
    let folder = shop().parent().expect("a folder").to_owned();
    let explained = ["bot", "explain", "shop.toml", "доставка, оплата и возврат размера"];
    check(
        &explained,
        &folder,
        0,
        &["global    return (line", "priority 1", "→ rule by return; then in the state return_order"],
    );
    let json =
        check(&["bot", "explain", "shop.toml", "12", "--state", "return_order", "--json"], &folder, 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((json["verdict"].as_str(), json["to"].as_str()), (Some("invalid"), Some("return_order")));
    check(&["bot", "explain", "shop.toml", "а", "--state", "x"], &folder, 1, &["no state is called `x`"]);
    check(&["bot", "graph", "shop.toml"], &folder, 0, &["stateDiagram-v2", "state \"return_order\""]);
    check(&["bot", "graph", "shop.toml", "--dot"], &folder, 0, &["digraph bot {", "label=\"return\""]);
}

#[test]
fn a_chat_in_the_terminal_answers_presses_and_waits() {
    let mut chat = Command::new(env!("CARGO_BIN_EXE_rupor"))
        .args(["bot", "chat"])
        .arg(shop())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rupor starts");
    let lines = "/start\n[Возврат]\n@ +31m\n[Нет такой]\nдоставка\n";
    chat.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("written");
    let text = out(&chat.wait_with_output().expect("it ends"));
    for words in
        ["[Доставка] [Оплата]", "Оформим возврат.", "no button is called [Нет такой]", "rule delivery"]
    {
        assert!(text.contains(words), "no «{words}» in\n{text}");
    }
}
