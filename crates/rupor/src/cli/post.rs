//! `rupor post`: one post from the command line, with its files.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use domain::content::Kind;
use domain::content::picture::PICTURE_BYTES_MAX;
use domain::message::is_web_address;
use domain::shown::line;
use serde_json::Value;

use super::operator::{OperatorArgs, block_on};
use crate::operate::Verb;
use engine::ingest::{PICTURES_MAX, TEXT_MAX};

/// Post something yourself: to the channels you name, or to those whose routes want it
#[derive(Debug, Args)]
pub(super) struct Post {
    /// What to say; `-` reads it from standard input
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// A line above the text
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// A picture, video or PDF; may be given several times
    #[arg(long = "photo", value_name = "FILE")]
    photos: Vec<PathBuf>,
    /// A channel by name; may be given several times [default: the routes decide]
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// What it is, instead of what its words sound like
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<Kind>,
    /// Where it can be read
    #[arg(long, value_name = "ADDRESS")]
    url: Option<String>,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Post) -> anyhow::Result<()> {
    block_on(async {
        let text = text(args)?;
        let photos = args.photos.iter().map(|path| photo(path)).collect::<anyhow::Result<Vec<_>>>()?;
        if photos.len() > PICTURES_MAX {
            bail!("{} photos, at most {PICTURES_MAX} in one post", photos.len());
        }
        if text.trim().is_empty() && args.title.is_none() && photos.is_empty() {
            bail!("nothing to post: give a text, --title or --photo FILE");
        }
        if args.url.as_ref().is_some_and(|url| !is_web_address(url)) {
            bail!("--url must be an http or https address");
        }
        let look = args.operator.look().await?;
        let verb = Verb::Post {
            workspace: args.operator.workspace(&look.store).await?,
            title: args.title.clone(),
            text,
            photos,
            channels: args.channels.clone(),
            kind: args.kind,
            url: args.url.clone(),
            key: uuid::Uuid::new_v4().simple().to_string(),
        };
        drop(look.store);
        let done = args.operator.perform(verb).await?;
        args.operator.print(&done, || summary(&done, look.node))
    })
}

fn text(args: &Post) -> anyhow::Result<String> {
    let text = match args.text.as_deref() {
        Some("-") => {
            let mut text = String::new();
            // A character has at most four bytes.
            let mut input = std::io::stdin().lock().take(4 * TEXT_MAX as u64 + 1);
            input.read_to_string(&mut text).context("reading the text from standard input")?;
            text
        }
        text => text.unwrap_or_default().to_owned(),
    };
    match text.chars().count() {
        n if n > TEXT_MAX => bail!("the text has {n} characters or more, at most {TEXT_MAX}; shorten it"),
        _ => Ok(text),
    }
}

/// The full name of a file that can be read, because the node may stand in another folder.
fn photo(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    let full = path.canonicalize().with_context(|| format!("--photo {shown}: cannot be opened"))?;
    let about = std::fs::metadata(&full).with_context(|| format!("--photo {shown}: cannot be opened"))?;
    if !about.is_file() {
        bail!("--photo {shown}: not a file");
    }
    if about.len() > PICTURE_BYTES_MAX as u64 {
        bail!("--photo {shown}: {} bytes, at most {PICTURE_BYTES_MAX}; send a smaller file", about.len());
    }
    Ok(full)
}

fn kind(text: &str) -> Result<Kind, String> {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| format!("known are {}", names.join(", ")))
}

fn summary(done: &Value, node: Option<bool>) -> String {
    let mut lines =
        vec![format!("post {} ({})", done["message_id"], done["kind"].as_str().unwrap_or_default())];
    for delivery in done["deliveries"].as_array().into_iter().flatten() {
        let channel = delivery["channel"].as_str().unwrap_or("removed channel");
        let status = match delivery["status"].as_str().unwrap_or_default() {
            "deduped" => "not sent: the same was said there lately",
            status => status,
        };
        lines.push(format!("  {}: {status} (delivery {})", line(channel), delivery["delivery_id"]));
    }
    if let Some(why) = done["skipped"].as_str() {
        lines.push(format!("  kept and not published: {}", line(why)));
        lines.push("  name a channel with --channel, or say what it is with --kind".to_owned());
    }
    if node == Some(false) && done["enqueued"].as_i64() > Some(0) {
        lines.push("no node is running: it is sent when one is started with `rupor run`".to_owned());
    }
    lines.join("\n")
}
