//! A folder, a sandbox and commands, for all who travel.

use std::collections::BTreeMap;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Name, Options, Sandbox};
use serde_json::Value;

pub(crate) const TOKEN: &str = "7700:AAF-canary_0123456789abcdef";
/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder of somebody's own, and a sandbox in place of the platforms.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) sandbox: Sandbox,
    /// The variables of this person, beside those of the sandbox.
    pub(crate) variables: BTreeMap<&'static str, String>,
}

impl Place {
    pub(crate) async fn new() -> Place {
        let sandbox = Sandbox::start(Options { any_token: true, ..Options::default() }).await.unwrap();
        Place { folder: tempfile::tempdir().unwrap(), sandbox, variables: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.insert(name, value.to_owned());
    }

    pub(crate) fn write(&self, file: &str) {
        std::fs::write(self.folder.path().join("rupor.toml"), file).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("RUPOR_TELEGRAM_API", self.sandbox.base(Name::Telegram));
        command.env("RUPOR_VK_API", self.sandbox.base(Name::Vk));
        command.env("RUPOR_PLATFORM_LIMITS", "off").env("RUPOR_POLL_INTERVAL", "300ms");
        command.envs(&self.variables);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command on a thread of its own, so that the sandbox goes on answering.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    pub(crate) async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat()).await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{arguments:?}: {text}"))
    }

    pub(crate) async fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn node(&self, arguments: &[&str]) -> Node {
        let log = std::fs::File::create(self.folder.path().join("node.log")).unwrap();
        let mut command = self.command(&[&["run"], arguments].concat());
        Node(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("node.log")).unwrap_or_default()
    }

    /// What readers were told, in order: chat and text.
    pub(crate) fn told(&self) -> Vec<(String, String)> {
        let mut rows = self.sandbox.core().ledger.rows(Name::Telegram);
        rows.retain(|row| row.accepted && row.method.starts_with("send"));
        let chat = |row: &sandbox::ledger::Row| row.chat.to_string().trim_matches('"').to_owned();
        rows.iter().map(|row| (chat(row), row.text.clone().unwrap_or_default())).collect()
    }

    pub(crate) async fn until(&self, what: &str, mut is: impl AsyncFnMut(&Place) -> bool) {
        let started = Instant::now();
        while !is(self).await {
            assert!(started.elapsed() < PATIENCE, "{what}: never; told {:?}\n{}", self.told(), self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn until_told(&self, n: usize) {
        self.until(&format!("{n} posts"), async |place| place.told().len() >= n).await;
    }
}

/// A node that ends with the test.
pub(crate) struct Node(Child);

impl Node {
    pub(crate) fn terminate(mut self) {
        Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(self.0.wait().unwrap().success(), "an orderly stop ends with 0");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
