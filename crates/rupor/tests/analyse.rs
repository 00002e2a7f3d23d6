//! `rupor analyse` as a person runs it: exit codes, order, and what happens to bad lines.

use std::io::Write;
use std::process::{Command, Output};

use serde_json::Value;

fn rupor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rupor")).args(arguments).output().expect("rupor runs")
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a scratch file");
    file.write_all(content).expect("written");
    file
}

#[test]
fn posts_come_out_in_order_of_date_with_the_fixed_fields() {
    let file = file(
        "{\"owner_id\":-1,\"post_id\":2,\"date\":200,\"text\":\"Нашёлся, дома! Всем спасибо\"}\n\
         {\"owner_id\":-1,\"post_id\":1,\"date\":100,\"text\":\"Пропал кот, г. Пермь, 8 943 120 45 67\",\"photos\":null}\n"
            .as_bytes(),
    );
    let output = rupor(&["analyse", file.path().to_str().expect("a path")]);
    assert!(output.status.success());
    let lines = lines(&output);
    assert_eq!(lines[0]["post_id"], 1);
    assert_eq!(lines[0]["kind"], "lost");
    assert_eq!(lines[0]["city"], "Пермь");
    assert_eq!(lines[0]["phones"][0], "+79431204567");
    assert_eq!(lines[1]["kind"], "reunited");
    let fields = ["animal", "sex", "place", "pet_name", "when", "case", "evidence", "home_city", "owner_id"];
    assert!(fields.iter().all(|field| lines[0].get(field).is_some()));
    assert_eq!(lines[0]["evidence"]["kind"][0]["words"], "Пропал");
}

#[test]
fn bad_lines_are_named_and_the_rest_goes_on() {
    let file = file(
        b"{\"owner_id\":-1,\"post_id\":1,\"date\":1,\"text\":\"a\"}\nnot json\n\n{\"owner_id\":\"x\",\"post_id\":1,\"date\":1}\n\xff\xfe\n{\"owner_id\":-1,\"post_id\":2,\"date\":2}\n",
    );
    let output = rupor(&["analyse", file.path().to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(lines(&output).len(), 2);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    for number in ["line 2:", "line 4:", "line 5:"] {
        assert!(errors.contains(number), "{errors}");
    }
    assert!(errors.contains("3 of 5 lines could not be read"), "{errors}");
}

#[test]
fn the_home_city_comes_from_the_groups_and_stays_apart() {
    let posts = file(b"{\"owner_id\":-7,\"post_id\":1,\"date\":1,\"text\":\"\xd0\x9f\xd1\x80\xd0\xbe\xd0\xbf\xd0\xb0\xd0\xbb \xd0\xba\xd0\xbe\xd1\x82\"}\n");
    let groups = file("{\"-7\": {\"name\": \"x\", \"city\": \"Пермь\", \"utc_offset\": 5}}".as_bytes());
    let output = rupor(&[
        "analyse",
        posts.path().to_str().expect("a path"),
        "--groups",
        groups.path().to_str().expect("a path"),
    ]);
    let line = &lines(&output)[0];
    assert_eq!((&line["city"], &line["home_city"]), (&Value::Null, &Value::from("Пермь")));
}

#[test]
fn words_on_the_command_line_are_shown_with_their_evidence() {
    let output = rupor(&["analyse", "--text", "Пропала собака, кличка Найда"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("Найда") && text.contains("names.nickname") && text.contains("«собака»"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colour codes outside a terminal: {text:?}");
    let json = rupor(&["analyse", "--text", "Пропала собака", "--json"]);
    assert_eq!(lines(&json)[0]["animal"]["value"], "dog");
}

#[test]
fn wrong_usage_and_missing_files_have_their_exit_codes() {
    assert_eq!(rupor(&["analyse"]).status.code(), Some(2));
    assert_eq!(rupor(&["analyse", "--text", "x", "file.jsonl"]).status.code(), Some(2));
    let missing = rupor(&["analyse", "/nowhere/posts.jsonl"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot open /nowhere/posts.jsonl"));
}
