//! Every `rupor` listing of both READMEs is run, and every command of the Russian pages, against a sandbox: what a
//! newcomer types works as it stands.
//!
//! Blocks are run in order: exports hold for what follows, `sandbox` and `run` stay up. Afterwards the commands inside
//! the text are run beside the node. What is left out is building it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const ENGLISH: &str = include_str!("../../../README.md");
const RUSSIAN: &str = include_str!("../../../README.ru.md");
/// The pages that the Russian one leads to.
const FURTHER: &str = concat!(
    include_str!("../../../docs/ru/first-channel.md"),
    include_str!("../../../docs/ru/daily.md"),
    include_str!("../../../docs/ru/alerts.md")
);
const PATIENCE: Duration = Duration::from_secs(300);

/// The post that stands on the wall.
const ON_WALL: &str = "https://vk.com/wall-123456_1";

/// What a reader puts in the place of an example, here.
const MEANT: [(&str, &str); 17] = [
    ("source test ИМЯ", "source test walls/-123456"),
    ("case show НОМЕР", "case show 1"),
    ("ПОСТ…", "41"),
    ("ДРУГОЙ", "15"),
    ("ИМЯ", "telegram"),
    ("НОМЕР", "12"),
    ("dog.jpg", "cat.jpg"),
    ("lost_pets_city", "-234567"),
    ("https://vk.com/wall-123_45", ON_WALL),
    ("delivery show 17", "delivery show 1"),
    ("NAME", "telegram"),
    ("\"…\"", "\"проба\""),
    ("TG_TOKEN=…", "TG_TOKEN=1001:practice"),
    ("VK_TOKEN=…", "VK_TOKEN=practice-vk"),
    ("VK_OUT_TOKEN=…", "VK_OUT_TOKEN=practice-vk-out"),
    ("MAX_TOKEN=…", "MAX_TOKEN=practice-max"),
    ("rupor demo", "rupor demo --once"),
];

/// Commands that end with 1 here, and with which words.
const REFUSED: [(&str, &str); 4] = [
    ("rupor message approve 12", "message 12"),
    ("rupor alert test", "nobody is told"),
    ("rupor case split 12 41", "message 41"),
    ("rupor case merge 12 15", "case 12"),
];

/// Commands that are only looked up: they are named without what they ask for.
const LOOKED_UP: [&str; 7] = [
    "rupor apply",
    "rupor why",
    "rupor init",
    "rupor campaign status",
    "rupor campaign resume",
    "rupor bot replay",
    "rupor bot activate",
];

struct Stage {
    folder: tempfile::TempDir,
    path: String,
    sandbox: u16,
    board: u16,
    exports: String,
    children: Vec<Child>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Stage {
    fn new() -> Stage {
        let binary = Path::new(env!("CARGO_BIN_EXE_rupor"));
        let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let folder = tempfile::tempdir().unwrap();
        let (sandbox, board) = (free_port(), free_port());
        Stage { folder, path, sandbox, board, exports: String::new(), children: Vec::new() }
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        let api = |name: &str| format!("http://127.0.0.1:{}/{name}", self.sandbox);
        command
            .args(["-ec", &format!("{}{script}", self.exports)])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("LC_ALL", "C.UTF-8")
            .envs([
                ("RUPOR_TELEGRAM_API", api("telegram")),
                ("RUPOR_VK_API", api("vk")),
                ("RUPOR_MAX_API", api("max")),
            ])
            .env("RUPOR_POLL_INTERVAL", "1s");
        command
    }

    /// The line as it is meant on this machine.
    fn here(&self, line: &str) -> String {
        let line = line
            .replace(":7900", &format!(":{}", self.sandbox))
            .replace(":7878", &format!(":{}", self.board));
        MEANT.iter().fold(line, |line, (from, to)| line.replace(from, to))
    }

    fn line(&mut self, line: &str) {
        let here = self.here(line);
        if here.starts_with("export ") {
            self.exports.push_str(&format!("{here}\n"));
        } else if here.starts_with("rupor sandbox") || here.starts_with("rupor run") {
            let child =
                self.shell(&format!("exec {here}")).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            self.children.push(child.unwrap());
            let port = if here.starts_with("rupor run") { self.board } else { self.sandbox };
            until("it answers", || answers(port));
            if port == self.sandbox {
                self.furnish();
            }
        } else {
            self.check(&here);
        }
    }

    /// A post on the wall that the pages read, and the photo of a cat.
    fn furnish(&self) {
        let lost = r#"[{"id": 1, "text": "Пропала собака Буся, рыжая. Пермь. Тел. 8 900 000-11-22"}]"#;
        self.ask(&format!("POST /_/walls/-123456 HTTP/1.1\r\nContent-Length: {}", lost.len()), lost);
        let picture = self.ask("GET /_/pictures/cat.jpg HTTP/1.1", "");
        std::fs::write(self.folder.path().join("cat.jpg"), picture).unwrap();
    }

    fn check(&self, here: &str) {
        let output = self.shell(here).output().unwrap();
        let told = told(&output);
        match REFUSED.iter().find(|(command, _)| *command == here) {
            Some((_, words)) => {
                assert!(output.status.code() == Some(1) && told.contains(words), "{here}: {told}");
            }
            None => assert!(output.status.success(), "{here}: {told}"),
        }
    }

    fn ledger(&self) -> String {
        String::from_utf8_lossy(&self.ask("GET /_/ledger HTTP/1.1", "")).into_owned()
    }

    /// What the sandbox answers.
    fn ask(&self, head: &str, body: &str) -> Vec<u8> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.sandbox)).unwrap();
        let headers = "Host: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close";
        write!(stream, "{head}\r\n{headers}\r\n\r\n{body}").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        answer.split_off(end + 4)
    }
}

/// A node has its port before it has its database, so a connection alone says little.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let asked = write!(stream, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    asked.is_ok() && stream.read(&mut [0; 1]).is_ok_and(|n| n == 1)
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[expect(clippy::disallowed_methods, reason = "a test that waits for processes has nothing else to do")]
fn until(what: &str, check: impl Fn() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The lines of every block that are typed: commands of ours and what they need.
fn typed(page: &str) -> Vec<String> {
    let blocks = page.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(|block| block.lines().skip(1));
    let ours = lines.filter(|line| line.starts_with("rupor ") || line.starts_with("export "));
    ours.map(|line| line.split("   #").next().unwrap_or_default().trim_end().to_owned()).collect()
}

/// The commands inside the text, each once.
fn named(page: &str) -> Vec<String> {
    let text: String = page.split("```").step_by(2).collect();
    let mut found: Vec<String> = Vec::new();
    for code in text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("rupor ")) {
        if !found.iter().any(|known| known == code) {
            found.push(code.to_owned());
        }
    }
    found
}

fn walk_through(page: &str, further: &str) {
    let mut stage = Stage::new();
    let lines = typed(page);
    assert!(lines.len() >= 5 && named(page).len() >= 8, "the page has lost its listings");
    if !lines.iter().any(|line| line.starts_with("rupor sandbox")) {
        stage.line("rupor sandbox --listen 127.0.0.1:7900 --any-token");
    }
    if !lines.iter().any(|line| line.starts_with("rupor init")) {
        stage.line("rupor init --read -123456 --to telegram=-1001234567890");
    }
    for line in &lines {
        stage.line(line);
    }
    until("the first post is out", || stage.ledger().contains("Пропала собака Буся"));
    until("the wall is read", || {
        stage.shell(&format!("rupor why {ON_WALL}")).output().unwrap().status.success()
    });
    for command in named(page).into_iter().chain(named(further)) {
        let here = stage.here(&command);
        let bare = LOOKED_UP.contains(&command.as_str());
        match () {
            // Named as a thing that can be started; it stands in the way of what is running here.
            () if here.starts_with("rupor sandbox") || here.starts_with("rupor run") => {}
            () if bare => stage.check(&format!("{command} --help")),
            () if here.starts_with("rupor apply") => stage.check(&format!("{here} --dry-run")),
            () => stage.check(&here),
        }
    }
}

#[test]
fn every_listing_of_the_english_readme_works() {
    walk_through(ENGLISH, "");
}

#[test]
fn every_listing_of_the_russian_readme_works() {
    walk_through(RUSSIAN, FURTHER);
}
