//! `rupor init`: a few questions, and a first rupor.toml.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use domain::content::Kind;
use platforms::facts::{QuickRead, QuickStart};
use platforms::registry;

use super::operator::say as tell;
use crate::language::{Phrase, chosen, say};

/// Write a first rupor.toml: which walls are read, and where posts go
///
/// Asks at a terminal what the options do not say. Tokens are never asked for: the file names the variables they are in.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    rupor init\n  \
    rupor init --read -123456,lost_pets --to telegram=@lost_pets --kinds lost,found")]
pub(super) struct Init {
    /// The file to write
    #[arg(value_name = "FILE", default_value = "rupor.toml")]
    file: PathBuf,
    /// Walls to read: ids, names or addresses, with commas
    #[arg(long, value_name = "WALLS", allow_hyphen_values = true)]
    read: Option<String>,
    /// A chat or wall to write to, as PLATFORM=TARGET; may be given several times
    #[arg(long, value_name = "PLATFORM=TARGET")]
    to: Vec<String>,
    /// Kinds of posts to publish, with commas, or all [default: lost]
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
}

/// What the file is made of.
#[derive(Debug, Default)]
struct Answers {
    walls: Vec<(&'static str, &'static QuickRead, Vec<String>)>,
    outs: Vec<(&'static str, &'static QuickStart, String)>,
    kinds: String,
}

pub(super) fn run(args: &Init) -> anyhow::Result<()> {
    if args.file.exists() && !args.force {
        bail!("{} is there already; --force writes over it, or name another file", args.file.display());
    }
    let answers = answers(args)?;
    let text = file_text(&answers);
    std::fs::write(&args.file, &text).with_context(|| format!("cannot write {}", args.file.display()))?;
    let name = args.file.display().to_string();
    let mut tokens: Vec<String> = answers.walls.iter().map(|(_, read, _)| read.token.to_owned()).collect();
    tokens.extend(answers.outs.iter().map(|(_, start, _)| format!("{}_TOKEN", start.prefix)));
    tokens.dedup();
    let steps = [
        say!("init.wrote", file = &name),
        Phrase::from(format!(
            "  $ export {}",
            tokens.iter().map(|name| format!("{name}=…")).collect::<Vec<_>>().join(" ")
        )),
        Phrase::from(format!("  $ rupor check {name}")),
        Phrase::from(format!("  $ rupor run --config {name} --listen 127.0.0.1:7878")),
    ];
    tell(&Phrase::list(steps, "\n").in_language(chosen()))
}

fn answers(args: &Init) -> anyhow::Result<Answers> {
    let asks = std::io::stdin().is_terminal() && args.read.is_none() && args.to.is_empty();
    let mut found =
        Answers { kinds: args.kinds.clone().unwrap_or_else(|| "lost".to_owned()), ..Answers::default() };
    for platform in registry::PLATFORMS {
        if let Some(read) = &platform.facts().quick_read {
            let written = match &args.read {
                Some(walls) => walls.clone(),
                None if asks => ask(&say!("init.ask_walls", platform = platform.facts().title))?,
                None => String::new(),
            };
            let walls = walls(*platform, &written)?;
            if !walls.is_empty() {
                found.walls.push((platform.name(), read, walls));
            }
        }
    }
    for platform in registry::PLATFORMS {
        let Some(start) = &platform.facts().quick_start else { continue };
        let given =
            args.to.iter().filter_map(|to| to.split_once('=')).find(|(name, _)| *name == platform.name());
        let written = match given {
            Some((_, target)) => target.to_owned(),
            None if asks => {
                let question =
                    say!("init.ask_target", platform = platform.facts().title, form = start.target_form);
                ask(&question)?
            }
            None => String::new(),
        };
        if !written.trim().is_empty() {
            found.outs.push((platform.name(), start, platform.plain_target(&written)));
        }
    }
    let known: Vec<&str> = found.outs.iter().map(|(name, ..)| *name).collect();
    if let Some(unknown) =
        args.to.iter().find(|to| !to.split_once('=').is_some_and(|(name, _)| known.contains(&name)))
    {
        let names: Vec<&str> = registry::PLATFORMS
            .iter()
            .filter(|platform| platform.facts().quick_start.is_some())
            .map(|platform| platform.name())
            .collect();
        bail!("--to {unknown} is not PLATFORM=TARGET; platforms are {}", names.join(", "));
    }
    if asks && args.kinds.is_none() {
        let kinds = ask(&say!("init.ask_kinds"))?;
        found.kinds = if kinds.is_empty() { found.kinds } else { kinds };
    }
    check_kinds(&found.kinds)?;
    if found.outs.is_empty() {
        bail!("{}", say!("init.nowhere").in_language(chosen()));
    }
    Ok(found)
}

fn walls(platform: &dyn platforms::platform::Platform, written: &str) -> anyhow::Result<Vec<String>> {
    let Some(reader) = platform.walls() else { return Ok(Vec::new()) };
    let walls = written.split(',').map(str::trim).filter(|wall| !wall.is_empty());
    walls
        .map(|wall| match reader.wall(wall) {
            Some(_) => Ok(wall.trim_end_matches('/').rsplit('/').next().unwrap_or(wall).to_owned()),
            None => bail!("{wall:?} is no wall; write ids, names or addresses, such as -123456,lostpets"),
        })
        .collect()
}

fn check_kinds(kinds: &str) -> anyhow::Result<()> {
    let known = Kind::ALL.map(Kind::name);
    let wrong = kinds.split(',').map(str::trim).find(|kind| *kind != "all" && !known.contains(kind));
    match wrong {
        Some(kind) => bail!("{kind:?} is no kind of post; write all, or some of {}", known.join(", ")),
        None => Ok(()),
    }
}

/// One question at the terminal.
fn ask(question: &Phrase) -> anyhow::Result<String> {
    let mut out = std::io::stdout().lock();
    write!(out, "{} ", question.in_language(chosen()))?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}

fn file_text(answers: &Answers) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let head = say!("init.head").in_language(chosen());
    let mut text = format!("# {head}\n");
    if answers.kinds == "all" {
        text += "preset = \"mirror\"\n";
    }
    for (platform, read, walls) in &answers.walls {
        let walls: Vec<String> = walls.iter().map(|wall| quoted(wall)).collect();
        text += &format!(
            "\n[accounts.reader]\nplatform = {}\nkind = {}\ntoken = {{ env = {} }}\n\n[sources.walls]\nkind = {}\n\
             account = \"reader\"\ngroups = [{}]\n",
            quoted(platform),
            quoted(read.kind),
            quoted(read.token),
            quoted(platform),
            walls.join(", ")
        );
    }
    for (platform, start, target) in &answers.outs {
        text += &format!(
            "\n[accounts.{0}]\nplatform = {1}\ntoken = {{ env = {2} }}\n\n[channels.{0}]\naccount = {3}\ntarget = {4}\n",
            start.name,
            quoted(platform),
            quoted(&format!("{}_TOKEN", start.prefix)),
            quoted(start.name),
            quoted(target)
        );
        if !matches!(answers.kinds.as_str(), "all" | "lost") {
            let kinds: Vec<String> =
                answers.kinds.split(',').map(|kind| quoted(&format!("kind:{}", kind.trim()))).collect();
            text += &format!("route = {{ any = [{}] }}\n", kinds.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(read: &str, to: &[&str], kinds: Option<&str>) -> Init {
        Init {
            file: "rupor.toml".into(),
            read: Some(read.to_owned()),
            to: to.iter().map(|to| (*to).to_owned()).collect(),
            kinds: kinds.map(str::to_owned),
            force: false,
        }
    }

    #[test]
    fn the_file_is_short_and_means_what_was_asked_for() {
        let asked = args(
            "-123456,https://vk.com/lost_pets",
            &["telegram=https://t.me/lost_city"],
            Some("lost,found"),
        );
        let text = file_text(&answers(&asked).unwrap());
        assert!(text.lines().count() <= 20, "{text}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rupor.toml");
        std::fs::write(&file, &text).unwrap();
        let tokens = |name: &str| match name {
            "VK_TOKEN" => Some("vk1.a.canary".to_owned()),
            "TG_TOKEN" => Some("7700:AAF-canary_0123456789abcdef".to_owned()),
            _ => None,
        };
        let config = crate::config::from_file(&file, &tokens).unwrap();
        let workspace = &config.workspaces[0];
        assert_eq!(workspace.sources.len(), 2);
        assert_eq!(workspace.channels[0].target, "@lost_city");
        assert!(workspace.channels[0].settings.route.as_deref().unwrap().contains("kind:found"));
    }

    #[test]
    fn mistakes_are_named() {
        let said = |args: &Init| answers(args).unwrap_err().to_string();
        assert!(said(&args("", &["telegramm=@x"], None)).contains("platforms are"));
        assert!(said(&args("a b", &["telegram=@lost_city"], None)).contains("no wall"));
        assert!(said(&args("", &["telegram=@lost_city"], Some("dogs"))).contains("no kind of post"));
        assert!(said(&args("", &[], None)).contains("nowhere to write"));
    }
}
