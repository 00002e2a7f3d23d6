//! `rupor sandbox` as a process: what it prints, how it ends, and its exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running sandbox that ends with the test.
struct Running {
    child: Child,
    address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn rupor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
    command.arg("sandbox").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn started(arguments: &[&str]) -> Running {
    let mut child = rupor(arguments).spawn().expect("starts");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let address =
        line.trim().strip_prefix("sandbox listens on http://").expect("the address comes first").to_owned();
    Running { child, address }
}

fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("connects");
    write!(socket, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("writes");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("reads");
    answer
}

#[test]
fn the_sandbox_says_where_it_listens_and_serves_page_and_platforms() {
    let running = started(&["--listen", "127.0.0.1:0", "--any-token"]);
    assert!(get(&running.address, "/").contains("<title>Rupor sandbox</title>"));
    assert!(get(&running.address, "/telegram/bot1:x/getMe").contains("\"is_bot\":true"));
}

#[test]
fn a_sandbox_that_others_could_reach_does_not_start_by_accident() {
    let refused = rupor(&["--listen", "0.0.0.0:0"]).output().expect("runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("add --expose if that is meant"), "{said}");
}

#[test]
fn without_any_token_a_stranger_is_unauthorized() {
    let running = started(&["--listen", "127.0.0.1:0"]);
    assert!(get(&running.address, "/telegram/bot1:x/getMe").starts_with("HTTP/1.1 401"));
}

#[test]
fn an_address_in_use_is_said_with_the_remedy() {
    let running = started(&["--listen", "127.0.0.1:0"]);
    let second = rupor(&["--listen", &running.address]).output().expect("runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1));
    assert!(said.contains("is in use") && said.contains("--listen"), "{said}");
}

#[test]
fn wrong_usage_exits_with_two() {
    for arguments in
        [&["--limits", "sometimes"][..], &["--listen", "nowhere"], &["--ledger-max", "0"], &["--seeed", "1"]]
    {
        let ended = rupor(arguments).output().expect("runs");
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn an_interrupt_ends_it_with_zero() {
    let mut running = started(&["--listen", "127.0.0.1:0"]);
    let id = running.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    assert_eq!(running.child.wait().expect("ends").code(), Some(0));
}
