//! Rules files of the bot on their way in: read, linted, asked of every platform, rehearsed with the transcripts that
//! stand beside them. What `rupor bot` shows and what `rupor apply` insists on is the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use domain::dialogue::lint::{keyboards, lint};
use domain::dialogue::transcript::{Played, Transcript, play, read};
use domain::dialogue::{Fault, Rules};
use platforms::registry;
use platforms::render::buttons;

/// The ending of transcripts.
const ENDING: &str = "dialogue";

/// The text of a rules file, with an error that names it.
pub(crate) fn source(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Everything that is wrong or suspicious with a rules file; the rules themselves if they can be read at all.
pub(crate) fn check(source: &str) -> (Option<Rules>, Vec<Fault>) {
    match Rules::read(source) {
        Ok(rules) => {
            let mut faults = lint(&rules);
            // Not every bot is on every platform: `rupor apply` knows which, and insists on those.
            let told = too_large(&rules, |_| true);
            faults.extend(told.into_iter().map(|fault| Fault::warning(fault.line, fault.text)));
            faults.sort();
            (Some(rules), faults)
        }
        Err(faults) => (None, faults),
    }
}

/// Rules that are fit to answer people; the error lists what is not, with lines.
pub(crate) fn sound(path: &Path) -> anyhow::Result<Rules> {
    let (rules, faults) = check(&source(path)?);
    let errors: Vec<String> =
        faults.iter().filter(|fault| fault.is_error()).map(|fault| at(path, fault)).collect();
    match rules {
        Some(rules) if errors.is_empty() => Ok(rules),
        _ => bail!("{}", errors.join("\n")),
    }
}

/// A fault as compilers write it, so that editors jump to it.
pub(crate) fn at(path: &Path, fault: &Fault) -> String {
    let weight = if fault.is_error() { "error" } else { "warning" };
    format!("{}:{}: {weight}: {}", path.display(), fault.line, fault.text)
}

/// Keyboards that one of these platforms would refuse.
pub(crate) fn too_large(rules: &Rules, is_meant: impl Fn(&str) -> bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for keyboard in keyboards(rules) {
        // Only where people are heard can a bot show anything.
        let hearing = registry::all().filter(|platform| platform.receiver().is_some());
        for platform in hearing.filter(|platform| is_meant(platform.name())) {
            let facts = platform.facts();
            if let Err(refused) = buttons::rows(&keyboard.rows, &facts.buttons) {
                let (place, title) = (&keyboard.place, facts.title);
                let text = format!("{place}: {title} cannot show these buttons: {refused}; take some out");
                faults.push(Fault::error(keyboard.line, text));
            }
        }
    }
    faults
}

/// Transcripts beside a rules file, by name.
pub(crate) fn transcripts(rules: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = rules.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// One transcript that was played.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    pub path: PathBuf,
    /// `None`: the file could not be read as a transcript.
    pub transcript: Option<Transcript>,
    pub played: Played,
}

pub(crate) fn rehearse(rules: &Rules, path: &Path) -> anyhow::Result<Rehearsal> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let path = path.to_owned();
    Ok(match read(&text) {
        Ok(transcript) => {
            let played = play(rules, &transcript);
            Rehearsal { path, transcript: Some(transcript), played }
        }
        Err(faults) => Rehearsal { path, transcript: None, played: Played { faults, ..Played::default() } },
    })
}

/// Rules and states that no transcript came by.
pub(crate) fn untouched(rules: &Rules, rehearsals: &[Rehearsal]) -> (Vec<String>, Vec<String>) {
    let gather = |of: fn(&Played) -> &BTreeSet<String>| -> BTreeSet<&String> {
        rehearsals.iter().flat_map(|rehearsal| of(&rehearsal.played)).collect()
    };
    let (answered, visited) = (gather(|played| &played.rules), gather(|played| &played.states));
    let silent = rules.rules.iter().map(|rule| &rule.name).filter(|name| !answered.contains(name));
    let empty = rules.states.keys().filter(|name| !visited.contains(name));
    (silent.cloned().collect(), empty.cloned().collect())
}
