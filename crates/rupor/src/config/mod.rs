//! Configuration as people write it: `rupor.toml`, or a few variables of the environment.
//!
//! Both become one `Config`, a meant value with everything filled in: effective rates, presets, secrets.
//! `plan` compares it with the rows and makes them equal; nothing else of the product reads a file or a variable
//! for what is configured. Read `written` (the file as it stands), `meaning` (what it means), `environment`, `plan`.

pub(crate) mod alerts;
mod bots;
pub(crate) mod environment;
mod meaning;
pub(crate) mod plan;
pub(crate) mod quiet;
mod written;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use meaning::DEFAULT_WORKSPACE;

/// Where variables come from; tests hand in their own.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process.
pub(crate) fn process_variables(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Everything that should be rows, by workspace. Workspaces that are not named here are left alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Config {
    pub workspaces: Vec<Workspace>,
    /// What is meant otherwise than it is written, in words.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A rate above what the platform allows is not used as it is written.
fn capped(what: &str, setting: Option<f64>, limit: Option<f64>, whose: &str) -> Option<String> {
    let (setting, limit) = (setting?, limit?);
    let used = domain::limits::effective_rate(Some(setting), Some(limit))?;
    let show = |rate| show_rate(Some(rate));
    (setting > limit).then(|| {
        format!(
            "{what} is {}, but the platform allows {whose} {}; {} is used",
            show(setting),
            show(limit),
            show(used)
        )
    })
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Workspace {
    pub name: String,
    pub accounts: Vec<Account>,
    pub channels: Vec<Channel>,
    pub sources: Vec<Source>,
    pub endpoints: Vec<Endpoint>,
    #[serde(default)]
    pub bots: Vec<Bot>,
    /// The configuration does not name it any more: what it configured is stopped, and keeps its queue.
    #[serde(default)]
    pub gone: bool,
}

impl Workspace {
    fn empty(name: &str) -> Workspace {
        Workspace {
            name: name.to_owned(),
            accounts: Vec::new(),
            channels: Vec::new(),
            sources: Vec::new(),
            endpoints: Vec::new(),
            bots: Vec::new(),
            gone: false,
        }
    }
}

impl Config {
    /// Workspaces that are there and not named here are stopped by this configuration too.
    pub(crate) fn stops(&mut self, known: &[String]) {
        for name in known {
            if !self.workspaces.iter().any(|workspace| workspace.name == *name) {
                self.workspaces.push(Workspace { gone: true, ..Workspace::empty(name) });
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub name: String,
    pub platform: String,
    pub token: Secret,
    #[serde(serialize_with = "store::AccountSettings::serialize_whole")]
    pub settings: store::AccountSettings,
    /// `None`: as an operator left it.
    pub paused: Option<bool>,
    /// What its tier allows.
    #[serde(default)]
    pub limit: Option<store::PlatformLimit>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Channel {
    pub name: String,
    pub account: String,
    pub target: String,
    pub settings: store::ChannelSettings,
    /// `None`: as an operator left it.
    pub enabled: Option<bool>,
    pub paused: Option<bool>,
    /// The name it had before.
    pub was: Option<String>,
}

/// A source as `pull_sources` keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub name: String,
    /// `vk` or `feed`.
    pub kind: String,
    /// VK: the id or screen name of a wall. Feeds: their address.
    pub address: String,
    pub account: Option<String>,
    pub enabled: bool,
    /// `ingest::SourceSettings` as JSON.
    pub settings: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    pub name: String,
    pub kind: String,
    pub secret: Secret,
    pub enabled: bool,
    pub settings: Value,
}

/// A bot: who it hears through, and its rules as they stand in their file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bot {
    pub name: String,
    pub accounts: Vec<String>,
    pub receive: store::Receive,
    pub rules: String,
    /// The channel where people answer, as the rules name it.
    pub operators: Option<String>,
    /// Its own services by name, and the account that has the address of each and signs.
    #[serde(default)]
    pub services: BTreeMap<String, String>,
}

/// A token on its way into the store. It crosses nothing but the private socket of the running node,
/// and prints nothing.
#[derive(Clone)]
pub(crate) struct Secret(SecretString);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Secret {
        Secret(SecretString::from(text.into()))
    }

    pub(crate) fn reveal(&self) -> &SecretString {
        &self.0
    }
}

impl From<SecretString> for Secret {
    fn from(secret: SecretString) -> Secret {
        Secret(secret)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret([secret])")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        platforms::secret::same_secret(self.0.expose_secret().as_bytes(), other.0.expose_secret().as_bytes())
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.expose_secret())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::new)
    }
}

/// Whether the built-in limits of the platforms count (`RUPOR_PLATFORM_LIMITS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlatformLimits {
    On,
    /// For rehearsals.
    Off,
}

/// Everything that is wrong with a configuration, each with its place and its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// `rupor.toml:12`, or the name of a variable.
    pub place: String,
    pub text: String,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {}", problem.place, problem.text)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Reads a file and what it refers to.
pub(crate) fn from_file(path: &Path, variables: Variables<'_>) -> Result<Config, ConfigError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let text = format!("cannot be read: {error}; give the path of a configuration file");
        ConfigError { problems: vec![Problem { place: shown.clone(), text }] }
    })?;
    meaning::parse(&text, &shown, path.parent().unwrap_or(Path::new("")), variables)
}

/// Reads a text that is no file; what it refers to are variables alone.
#[cfg(test)]
pub(crate) fn from_text(text: &str, shown: &str, variables: Variables<'_>) -> Result<Config, ConfigError> {
    meaning::parse(text, shown, Path::new(""), variables)
}

/// The quick start: workspace `default` with the preset pets, from variables alone.
pub(crate) fn from_env(variables: Variables<'_>) -> Result<Config, ConfigError> {
    environment::config(variables)
}

/// `1/s`, `20/min`, or `-` for as fast as it goes.
pub(crate) fn show_rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate >= 1.0 => format!("{}/s", (rate * 100.0).round() / 100.0),
        Some(rate) => format!("{}/min", (rate * 6_000.0).round() / 100.0),
    }
}
