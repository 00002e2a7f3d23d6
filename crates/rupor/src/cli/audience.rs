//! `rupor audience`: people from files, names for them, and who must not be written to.

mod suppressions;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use domain::audience::Filter;
use domain::shown::line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Account, NewRecipient, Person};

use super::operator::{Hand, OperatorArgs, block_on};
use crate::operate::Verb;
use crate::operate::audiences::{
    AudienceOrder, count as counted, find_audience, known_audience, told_person, walk,
};
use crate::operate::status::table;
use crate::operate::verb::{find_account, find_workspace};
use crate::people::{self, Columns, List};

/// People of one step: one transaction of the store, and one line over the socket.
const STEP_ROWS: usize = 5_000;
const STEP_BYTES: usize = 1 << 20;

/// Import people, name those who are meant together, say who must not be written to
#[derive(Debug, Args)]
pub(super) struct AudienceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take people in from a .csv or .jsonl file
    Import(Import),
    /// Give a name to the people on whom a filter fits
    New(New),
    /// List audiences
    List(OperatorArgs),
    /// Show one audience and its first people
    Show(Show),
    /// Count the people of an audience, and how many of them may be written to
    Count(Named),
    /// Never write to somebody unasked again, or to everybody of a list, whatever is imported later
    Suppress(suppressions::Suppress),
    /// Let somebody be written to again
    Unsuppress(suppressions::Unsuppress),
    /// List who must not be written to: where, why, by whom, since when
    Suppressed(suppressions::Suppressed),
}

/// The column `address` is the person's user id on the platform, `time_zone` an IANA name, every other column something
/// that texts can use as {{ r.COLUMN }}. Lines that cannot be used go to a file beside it, each with the reason. Run it
/// again after a break: it goes on where it stopped.
#[derive(Debug, Args)]
struct Import {
    /// The file: CSV with a first line of names (comma, semicolon or tab), or one JSON object a line
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The bot these people use
    #[arg(long, value_name = "NAME")]
    account: String,
    /// Which column is what, such as address=tg_id,name=first,time_zone=zone; chat=COLUMN where a dialogue has its own id
    #[arg(long, value_name = "OURS=COLUMN,…", value_parser = Columns::parse, default_value = "")]
    map: Columns,
    /// Name of the audience [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct New {
    /// A name to know them by
    name: String,
    /// Conditions that all have to hold, such as city:Пермь,vip:*, or JSON with all, any and exclude
    #[arg(long, value_name = "FILTER")]
    filter: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Named {
    /// Name of the audience
    name: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    named: Named,
    /// How many people are shown
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

pub(super) fn run(args: &AudienceArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::Import(import) => take_in(import).await,
            Command::New(new) => create(new).await,
            Command::List(operator) => list(operator).await,
            Command::Show(show) => look_at(show).await,
            Command::Count(named) => count(named).await,
            Command::Suppress(suppress) => suppressions::add(suppress).await,
            Command::Unsuppress(unsuppress) => suppressions::lift(unsuppress).await,
            Command::Suppressed(suppressed) => suppressions::list(suppressed).await,
        }
    })
}

/// How far a file has come; kept with the audience, so that a second run goes on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Progress {
    /// Tells the file from another one of the same name.
    file: String,
    account: String,
    offset: u64,
    done: bool,
    rows: u64,
    imported: u64,
    updated: u64,
    rejected: u64,
    /// Of the side file: what a run that was killed wrote after its last step is written again.
    rejects_bytes: u64,
}

impl Progress {
    fn taken_in(&self) -> u64 {
        self.rows - self.rejected
    }
}

/// A list of people of an account, at its first line.
fn open(
    path: &Path,
    account: &Account,
    columns: Columns,
    source: String,
) -> anyhow::Result<List<BufReader<std::fs::File>>> {
    let shown = path.display();
    let is_csv = match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv" | "tsv" | "txt") => true,
        Some("jsonl" | "ndjson") => false,
        Some("xlsx" | "xls" | "ods") => bail!(
            "{shown}: a spreadsheet cannot be read; save it as \"CSV UTF-8\" and import that: a list ends in .csv or .jsonl"
        ),
        _ => bail!("{shown}: a list ends in .csv or .jsonl; from a spreadsheet save it as \"CSV UTF-8\""),
    };
    let opened = std::fs::File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let whose = people::Whose { columns, ..people::Whose::of(account, source) };
    List::open(BufReader::new(opened), is_csv, whose).with_context(|| shown.to_string())
}

async fn take_in(args: &Import) -> anyhow::Result<()> {
    let shown = args.path.display();
    let look = args.operator.look().await?;
    let workspace = args.operator.workspace(&look.store).await?;
    let (ws, account) = find_account(&look.store, &workspace, &args.account).await?;
    let stem = || args.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = args.name.clone().or_else(stem).with_context(|| format!("{shown}: give a --name"))?;
    let (file, size) = fingerprint(&args.path)?;
    let known = find_audience(&look.store, ws, &name).await?;
    let before: Option<Progress> = known.and_then(|audience| serde_json::from_value(audience.import).ok());
    drop(look);
    let goes_on = |before: &Progress| before.file == file && before.account == account.name && !before.done;
    let mut progress = match before.filter(goes_on) {
        // What became of the people of its last step was told to nobody: they are known now.
        Some(before) => Progress { updated: before.rows - before.rejected - before.imported, ..before },
        None => Progress { file, account: account.name.clone(), ..Progress::default() },
    };
    let mut list = open(&args.path, &account, args.map.clone(), format!("import:{name}"))?;
    list.skip_to(progress.offset)?;
    let hand = args.operator.hand().await?;
    let mut rejects = Rejects::beside(&args.path, progress.rejects_bytes);
    let bar = bar(size);
    let goes = Goes { hand: &hand, workspace: &workspace, name: &name };
    while step(&mut list, &goes, &mut progress, &mut rejects).await? {
        bar.set_position(progress.offset);
        bar.set_message(format!("{} people", progress.imported + progress.updated));
    }
    bar.finish_and_clear();
    let rejects_file = (progress.rejected > 0).then(|| rejects.path.display().to_string());
    let done = json!({
        "rows": progress.rows,
        "imported": progress.imported,
        "updated": progress.updated,
        "rejected": progress.rejected,
        "rejects_file": rejects_file,
        "reasons": rejects.reasons,
        "audience": if progress.taken_in() > 0 { Some(&name) } else { None },
    });
    if progress.taken_in() == 0 {
        if args.operator.json {
            args.operator.print(&done, String::new)?;
        }
        let why = match &rejects_file {
            None => "there is nobody in it".to_owned(),
            Some(file) => {
                format!(
                    "none of its {} lines can be used{}\nall of them: {file}",
                    progress.rows,
                    rejects.told()
                )
            }
        };
        bail!("{shown}: {why}");
    }
    args.operator.print(&done, || {
        let mut text = format!(
            "audience {}: {} new, {} known before, {} rejected",
            line(&name),
            progress.imported,
            progress.updated,
            progress.rejected
        );
        if let Some(file) = &rejects_file {
            text += &rejects.told();
            text += &format!("\nwhat was rejected, and why: {file}");
        }
        text
    })
}

/// Where people go.
struct Goes<'a> {
    hand: &'a Hand,
    workspace: &'a str,
    name: &'a str,
}

/// Some lines of the file, which are all of it that is held.
struct Gathered {
    people: Vec<NewRecipient>,
    /// How far the file has come with them.
    next: Progress,
}

fn gather<R: BufRead>(
    list: &mut List<R>,
    progress: &Progress,
    rejects: &mut Rejects,
) -> anyhow::Result<Gathered> {
    let (mut people, mut bytes): (Vec<NewRecipient>, usize) = (Vec::new(), 0);
    let mut next = Progress { done: true, ..progress.clone() };
    while let Some(row) = list.next_row()? {
        (next.rows, next.offset) = (next.rows + 1, row.end);
        bytes += row.raw.len() * 2 + 200;
        match row.person {
            Ok(person) => people.push(person),
            Err(why) => {
                next.rejected += 1;
                rejects.keep(next.rows, &why, &row.raw)?;
            }
        }
        if people.len() >= STEP_ROWS || bytes >= STEP_BYTES {
            next.done = false;
            break;
        }
    }
    next.rejects_bytes = rejects.bytes;
    Ok(Gathered { people, next })
}

/// Takes some lines of the file in; false at the end.
async fn step<R: BufRead>(
    list: &mut List<R>,
    goes: &Goes<'_>,
    progress: &mut Progress,
    rejects: &mut Rejects,
) -> anyhow::Result<bool> {
    let Gathered { people, mut next } = gather(list, progress, rejects)?;
    let is_over = next.done;
    // Before there is somebody there is no audience.
    if next.taken_in() == 0 {
        *progress = next;
        return Ok(!is_over);
    }
    // What became of these people is known only afterwards; the counts of the last step are told again with the next.
    let order = AudienceOrder::Import {
        name: goes.name.to_owned(),
        account: next.account.clone(),
        people,
        import: Some(json!(next)),
    };
    let verb = Verb::Audience { workspace: goes.workspace.to_owned(), order };
    let answer = goes.hand.perform(verb).await.with_context(|| {
        format!("stopped after {} lines; run it again to go on: nobody is taken in twice", progress.rows)
    })?;
    next.imported += answer["imported"].as_u64().unwrap_or(0);
    next.updated += answer["updated"].as_u64().unwrap_or(0);
    *progress = next;
    Ok(!is_over)
}

/// Lines that could not be used, beside the file.
struct Rejects {
    path: PathBuf,
    file: Option<std::fs::File>,
    /// Written of this file so far.
    bytes: u64,
    /// How often each reason was found.
    reasons: BTreeMap<String, u64>,
}

/// Reasons that are told at the terminal; all of them are in the file.
const REASONS_TOLD: usize = 3;

/// A reason without what it was found in.
fn reason(why: &str) -> &str {
    match why.strip_prefix('"') {
        Some(rest) => {
            let mut is_escaped = false;
            let end = rest.find(|c| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            end.map_or(why, |end| rest[end + 1..].trim_start())
        }
        None => why.split_once(": ").map_or(why, |(reason, _)| reason),
    }
}

impl Rejects {
    /// Of a list whose side file has this many bytes already.
    fn beside(list: &Path, bytes: u64) -> Rejects {
        let mut path = list.as_os_str().to_owned();
        path.push(".rejected");
        Rejects { path: PathBuf::from(path), file: None, bytes, reasons: BTreeMap::new() }
    }

    /// The commonest reasons, a line each.
    fn told(&self) -> String {
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        reasons.iter().take(REASONS_TOLD).map(|(reason, n)| format!("\n  {n} × {reason}")).collect()
    }

    fn keep(&mut self, row: u64, why: &str, raw: &[u8]) -> anyhow::Result<()> {
        *self.reasons.entry(reason(why).to_owned()).or_default() += 1;
        let named = || format!("cannot write {}", self.path.display());
        if self.file.is_none() {
            let options =
                std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&self.path);
            let mut file = options.with_context(named)?;
            // Nothing of another run stays behind, and what somebody took away is not made up.
            self.bytes = self.bytes.min(file.metadata().with_context(named)?.len());
            file.set_len(self.bytes).with_context(named)?;
            file.seek(SeekFrom::End(0)).with_context(named)?;
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let told = format!("row {row}: {why}: {}\n", String::from_utf8_lossy(raw).trim_end());
        file.write_all(told.as_bytes()).with_context(named)?;
        self.bytes += told.len() as u64;
        Ok(())
    }
}

/// Its size and the beginning of it: enough to tell whether it is the file of the run before.
fn fingerprint(path: &Path) -> anyhow::Result<(String, u64)> {
    use std::io::Read;
    let named = || format!("cannot open {}", path.display());
    let file = std::fs::File::open(path).with_context(named)?;
    let about = file.metadata().with_context(named)?;
    if !about.is_file() {
        bail!("{} is not a file", path.display());
    }
    let mut head = Vec::new();
    file.take(64 * 1024).read_to_end(&mut head).with_context(named)?;
    Ok((format!("{}.{}", about.len(), blake3::hash(&head).to_hex()), about.len()))
}

fn bar(bytes: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    let style = ProgressStyle::with_template("{bar:30} {percent}% · {msg} · {eta} left");
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

async fn create(new: &New) -> anyhow::Result<()> {
    let filter = Filter::parse(&new.filter).map_err(|why| anyhow::anyhow!("--filter: {why}"))?;
    let workspace = new.operator.workspace(&new.operator.look().await?.store).await?;
    let order = AudienceOrder::New { name: new.name.clone(), filter };
    let done = new.operator.perform(Verb::Audience { workspace, order }).await?;
    new.operator.print(&done, || format!("audience {} is made", line(&new.name)))
}

async fn list(operator: &OperatorArgs) -> anyhow::Result<()> {
    let look = operator.look().await?;
    let ws = find_workspace(&look.store, &operator.workspace(&look.store).await?).await?;
    let known = look.store.audiences(ws).await?;
    let rows = known
        .iter()
        .map(|audience| {
            let what = audience.filter.as_ref().map_or("imported".to_owned(), Value::to_string);
            let people = if audience.filter.is_some() { "-".to_owned() } else { audience.people.to_string() };
            vec![audience.name.clone(), what, people]
        })
        .collect();
    operator.print(&known, || table(&["audience", "who", "people"], rows))
}

async fn look_at(show: &Show) -> anyhow::Result<()> {
    let Named { name, operator } = &show.named;
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let (audience, accounts) = (known_audience(&store, ws, name).await?, store.accounts(ws).await?);
    let mut found = Vec::new();
    walk(&store, &audience, ws, Person::default(), |one, suppressed| {
        found.push(told_person(one, suppressed, &accounts));
        found.len() < show.limit
    })
    .await?;
    found.truncate(show.limit);
    operator.print(&found, || {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let rows = found.iter().map(|one| {
            let status = if one["suppressed"] == true { "suppressed".into() } else { text(&one["status"]) };
            vec![text(&one["address"]), text(&one["account"]), status, one["attributes"].to_string()]
        });
        table(&["address", "account", "status", "known of them"], rows.collect())
    })
}

async fn count(named: &Named) -> anyhow::Result<()> {
    let store = named.operator.look().await?.store;
    let ws = find_workspace(&store, &named.operator.workspace(&store).await?).await?;
    let value = counted(&store, &known_audience(&store, ws, &named.name).await?, ws).await?;
    let told = || format!("{} people, {} of them may be written to", value["people"], value["reachable"]);
    named.operator.print(&value, told)
}

#[cfg(test)]
#[path = "audience_tests.rs"]
mod tests;
