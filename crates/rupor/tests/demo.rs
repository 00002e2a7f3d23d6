//! `rupor demo --once` as a process: 0 when readers saw what they should, 1 when not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

fn once() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
    command.args(["demo", "--once"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn the_demo_once_ends_well() {
    let output = once().output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("right: readers saw each case once"), "{text}");
    assert_eq!(text.matches("a copy: held back in 4 channels").count(), 4, "{text}");
    assert_eq!(text.matches(": what was said about it is changed").count(), 1, "{text}");
    let sums =
        "right: 360 people, each with one end: 352 got it once, 5 had blocked the bot, 3 wanted silence";
    assert!(text.contains(sums), "{text}");
    assert!(text.contains("the platform answers 429 to volunteers"), "{text}");
    let rested = text.lines().find(|line| line.starts_with("volunteers")).unwrap_or_default();
    assert!(!rested.ends_with(" 0"), "the bot that was told to slow down did not rest: {text}");
    assert!(text.contains("human: Ольга, здравствуйте!"), "{text}");
    assert!(text.contains("right: the customer was answered by the rules"), "{text}");
}

#[test]
fn a_message_that_nobody_expects_makes_the_demo_fail() {
    let mut child = once().spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("sandbox listens on http://").unwrap();
    // Before the first act has ended: the play waits for its walls to be read.
    plant(address);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest}");
    assert!(rest.contains("unexpected telegram: said \"Лишнее\""), "{rest}");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("did not go as it should: 2 differences"), "{words}");
}

fn plant(address: &str) {
    let body = r#"{"chat_id":-1009750000001,"text":"Лишнее"}"#;
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!(
        "POST /telegram/bot1:planted/sendMessage HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
