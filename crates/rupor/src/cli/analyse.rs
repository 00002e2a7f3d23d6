//! `rupor analyse`: what a post says, from a file of posts or from words on the command line.
//! Reads and prints only; the rules live in `domain::content`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, bail};
use clap::Args;
use domain::content::evidence::Explained;
use domain::content::{
    self, Analysis, CaseDecision, Casework, Evidence, Facts, Home, Post, RelatedCase, TextRef,
};
use domain::shown;
use serde::{Deserialize, Serialize};

/// Show what is recognised in posts, and from which words
#[derive(Debug, Args)]
pub(super) struct Analyse {
    /// Posts, one JSON object a line (`owner_id`, `post_id`, `date`, `text`, `copy_history`, `photos`)
    #[arg(value_name = "FILE.jsonl", required_unless_present = "text", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Home city and UTC offset of the groups, by owner id
    #[arg(long, value_name = "groups.json")]
    groups: Option<PathBuf>,
    /// Analyse these words instead of a file
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// The day the words were written, as Unix seconds; relative days need it
    #[arg(long, value_name = "SECONDS", requires = "text", default_value_t = 0)]
    date: i64,
    /// Print JSON also for `--text`
    #[arg(long)]
    json: bool,
}

/// What an operator says about a group.
#[derive(Debug, Deserialize)]
struct GroupInfo {
    #[serde(default)]
    city: Option<String>,
    #[serde(default)]
    utc_offset: f64,
}

/// The fixed output line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    owner_id: i64,
    post_id: i64,
    kind: &'a str,
    animal: &'a str,
    sex: &'a str,
    phones: Vec<&'a str>,
    city: Option<&'a str>,
    home_city: Option<&'a str>,
    place: Option<&'a str>,
    pet_name: Option<String>,
    when: Option<String>,
    case: Option<&'a str>,
    evidence: Why<'a>,
}

/// The words behind the fields of a line, in the order of the alphabet.
#[derive(Debug, Serialize)]
struct Why<'a> {
    animal: &'a [Evidence],
    case: Option<&'a [String]>,
    city: &'a [Evidence],
    kind: &'a [Evidence],
    pet_name: Vec<&'a Evidence>,
    phones: Vec<&'a Evidence>,
    place: &'a [Evidence],
    related: Option<&'a [RelatedCase]>,
    sex: &'a [Evidence],
    when: &'a [Evidence],
}

pub(super) fn run(command: &Analyse) -> anyhow::Result<()> {
    match (&command.text, &command.file) {
        (Some(text), _) => {
            let mut out = io::BufWriter::new(anstream::stdout());
            one_text(command, text, &mut out)?;
            out.flush().context("writing the result")
        }
        // JSON has no colours that a terminal would have to be asked about.
        (None, Some(file)) => {
            whole_file(command, file, &mut io::BufWriter::with_capacity(WRITTEN_AT_ONCE, io::stdout().lock()))
        }
        (None, None) => bail!("nothing to analyse: name a file or give --text"),
    }
}

/// Bytes that are written together.
const WRITTEN_AT_ONCE: usize = 1 << 16;

fn one_text(command: &Analyse, text: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let post = Post { text: text.to_owned(), date: command.date, ..Post::default() };
    let analysis = content::analyse(&post);
    if command.json {
        let facts = serde_json::to_string(&analysis.facts).context("writing the facts")?;
        return Ok(writeln!(out, "{}", shown::page(&facts))?);
    }
    show(&analysis, &content::explained(&post), command.date != 0, out)
}

fn whole_file(command: &Analyse, file: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let groups = match &command.groups {
        Some(path) => read_groups(path)?,
        None => HashMap::new(),
    };
    let reader = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let (mut posts, bad) = read_posts(BufReader::new(reader), file)?;
    // A stable sort: posts of the same second keep the order of the file.
    posts.sort_by_key(|post| post.date);
    for post in &mut posts {
        post.home = groups.get(&post.owner_id).cloned().unwrap_or_default();
    }
    let mut book = content::cases::CaseBook::default();
    analyse_all(&posts, |post, analysis| {
        let decision = book.assign(post, &analysis.facts, &analysis.cleaned);
        write_line(post, &analysis, decision.as_ref(), out)
    })?;
    out.flush().context("writing the result")?;
    if bad > 0 {
        bail!("{}: {bad} of {} lines could not be read; the rest is done", file.display(), posts.len() + bad);
    }
    Ok(())
}

/// Posts that one thread reads before it hands them on.
const POSTS_AT_ONCE: usize = 64;
/// Threads that read posts; more than this only wait for the one that tells cases apart.
const READERS_MAX: usize = 8;

/// Reads posts on every core and hands them on in their order: a reading depends on its post alone, a case on all before.
fn analyse_all(
    posts: &[Post],
    mut then: impl FnMut(&Post, Analysis) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let readers = thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
    thread::scope(|scope| {
        let begin = |reader: usize| -> Receiver<Vec<Analysis>> {
            let (send, receive) = sync_channel(2);
            scope.spawn(move || {
                for few in posts.chunks(POSTS_AT_ONCE).skip(reader).step_by(readers) {
                    if send.send(few.iter().map(content::analyse).collect()).is_err() {
                        return;
                    }
                }
            });
            receive
        };
        let reading: Vec<Receiver<Vec<Analysis>>> = (0..readers).map(begin).collect();
        for (number, few) in posts.chunks(POSTS_AT_ONCE).enumerate() {
            let analyses = reading[number % readers].recv().context("reading posts broke off")?;
            few.iter().zip(analyses).try_for_each(|(post, analysis)| then(post, analysis))?;
        }
        Ok(())
    })
}

/// Reads every line that is a post; the others are named on standard error with their number.
#[expect(clippy::print_stderr, reason = "bad lines are reported where a person will look for them")]
fn read_posts(mut reader: impl BufRead, file: &Path) -> anyhow::Result<(Vec<Post>, usize)> {
    let mut posts = Vec::new();
    let mut bad = 0;
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        if read.with_context(|| format!("reading {} at line {number}", file.display()))? == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<Post>(&line) {
            Ok(post) => posts.push(post),
            Err(error) => {
                bad += 1;
                let problem = error.to_string();
                eprintln!("rupor: {} line {number}: not a post: {}", file.display(), shown::line(&problem));
            }
        }
    }
    Ok((posts, bad))
}

fn read_groups(path: &Path) -> anyhow::Result<HashMap<i64, Home>> {
    let text = std::fs::read(path).with_context(|| format!("cannot open {}", path.display()))?;
    let groups: HashMap<String, GroupInfo> = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a list of groups", path.display()))?;
    let mut homes = HashMap::with_capacity(groups.len());
    for (owner, group) in groups {
        let owner: i64 = owner
            .parse()
            .with_context(|| format!("{}: group id {owner:?} is not a number", path.display()))?;
        if !(-14.0..=14.0).contains(&group.utc_offset) {
            bail!(
                "{}: group {owner}: utc_offset {} is not between -14 and 14 hours",
                path.display(),
                group.utc_offset
            );
        }
        let utc_offset_minutes = (group.utc_offset * 60.0).round() as i32;
        homes.insert(owner, Home { city: group.city, utc_offset_minutes });
    }
    Ok(homes)
}

fn write_line(
    post: &Post,
    analysis: &Analysis,
    decision: Option<&CaseDecision>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let facts = content::fill_from_case(&analysis.facts, decision);
    let names: Vec<&str> = facts.pet_names.iter().map(|name| name.value.as_str()).collect();
    let line = Line {
        owner_id: post.owner_id,
        post_id: post.post_id,
        kind: facts.kind.value.name(),
        animal: facts.animal.value.name(),
        sex: facts.sex.value.name(),
        phones: facts.phone_numbers().collect(),
        city: facts.city.as_ref().map(|city| city.value.as_str()),
        home_city: facts.home_city.as_deref(),
        place: facts.place.as_ref().map(|place| place.value.as_str()),
        pet_name: (!names.is_empty()).then(|| names.join(", ")),
        when: facts.when.as_ref().map(|when| when.value.to_string()),
        case: decision.map(|decision| decision.case.as_str()),
        evidence: evidence(&facts, decision),
    };
    let line = serde_json::to_string(&line).context("writing a line")?;
    writeln!(out, "{}", shown::page(&line)).context("writing a line")
}

fn evidence<'a>(facts: &'a Facts, decision: Option<&'a CaseDecision>) -> Why<'a> {
    let phones = facts.phones.iter().flat_map(|phone| &phone.evidence);
    let names = facts.pet_names.iter().flat_map(|name| &name.evidence);
    Why {
        animal: &facts.animal.evidence,
        case: decision.map(|decision| decision.reasons.as_slice()),
        city: facts.city.as_ref().map_or(&[], |fact| &fact.evidence),
        kind: &facts.kind.evidence,
        pet_name: names.collect(),
        phones: phones.collect(),
        place: facts.place.as_ref().map_or(&[], |fact| &fact.evidence),
        related: decision.map(|decision| decision.related.as_slice()).filter(|related| !related.is_empty()),
        sex: &facts.sex.evidence,
        when: facts.when.as_ref().map_or(&[], |fact| &fact.evidence),
    }
}

const NAME: Style = Style::new().bold();
const VALUE: Style = AnsiColor::Green.on_default().bold();
const WORDS: Style = AnsiColor::Yellow.on_default();
const RULE: Style = Style::new().dimmed();

/// Facts for people: a line each, with the words they came from and the rule that read them.
fn show(analysis: &Analysis, reasons: &[Explained], dated: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let facts = &analysis.facts;
    let mut row = |name: &str, value: &str, evidence: &[Evidence]| -> io::Result<()> {
        write!(out, "{NAME}{name:<10}{NAME:#} {VALUE}{}{VALUE:#}", shown::line(value))?;
        for item in evidence {
            let from = if matches!(item.span.text, TextRef::Copy(_)) { " (repost)" } else { "" };
            let words = one_line(&item.words);
            let words = shown::line(&words);
            write!(out, "  {WORDS}«{words}»{WORDS:#}{from} {RULE}{}{RULE:#}", item.rule)?;
        }
        writeln!(out)
    };
    row("kind", facts.kind.value.name(), &facts.kind.evidence)?;
    row("animal", facts.animal.value.name(), &facts.animal.evidence)?;
    row("sex", facts.sex.value.name(), &facts.sex.evidence)?;
    for phone in &facts.phones {
        row("phone", &phone.value.0, &phone.evidence)?;
    }
    for (name, list) in [("contact", &facts.contact_names), ("pet name", &facts.pet_names)] {
        for fact in list {
            row(name, &fact.value, &fact.evidence)?;
        }
    }
    let texts = [("breed", &facts.breed), ("city", &facts.city), ("place", &facts.place)];
    for (name, fact) in texts {
        if let Some(fact) = fact {
            row(name, &fact.value, &fact.evidence)?;
        }
    }
    if let Some(age) = &facts.age {
        row("age", &format!("{}–{} months", age.value.from_months, age.value.to_months), &age.evidence)?;
    }
    if let Some(when) = facts.when.as_ref().filter(|_| dated) {
        row("when", &when.value.to_string(), &when.evidence)?;
    } else if let Some(when) = &facts.when {
        row("when", "needs --date", &when.evidence)?;
    }
    for colour in &facts.colours {
        row("colour", &format!("{:?}", colour.value).to_lowercase(), &colour.evidence)?;
    }
    for account in &facts.vk_accounts {
        row("account", &format!("{:?}", account.value), &account.evidence)?;
    }
    if let Some(reward) = &facts.reward {
        let sum = reward.value.map_or_else(|| "promised".to_owned(), |sum| format!("{sum} roubles"));
        row("reward", &sum, &reward.evidence)?;
    }
    for flag in &facts.flags {
        let name = serde_json::to_value(flag.value).context("naming a flag")?;
        row("flag", name.as_str().unwrap_or_default(), &flag.evidence)?;
    }
    let print = content::fingerprint::fingerprint(facts, &analysis.cleaned, false);
    row("print", print.as_deref().unwrap_or("none"), &[])?;
    for reason in reasons {
        let title = format!("why {}", reason.question.name());
        row(&title, &format!("{}, {}", reason.answer, reason), &[])?;
    }
    Ok(())
}

fn one_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a volunteer sees of a post that looks wrongly read, word for word.
    #[test]
    fn the_whole_of_what_is_shown_of_a_text() {
        let text = "Кто потерял собаку? Прибилась к нам на Садовой 5, рыжая, в ошейнике, зовём Рыжик. \
                    Пропала, видно, давно. 8 975 000-00-11";
        let command = Analyse {
            file: None,
            groups: None,
            text: Some(text.to_owned()),
            date: 1_763_190_000,
            json: false,
        };
        let mut out = Vec::new();
        one_text(&command, text, &mut out).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let plain = anstream::adapter::strip_str(&shown).to_string();
        expect_test::expect_file!["golden/analyse.txt"].assert_eq(&plain);
    }
}
