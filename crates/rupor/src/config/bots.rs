//! `[bots.NAME]`: who a bot hears through, and its rules, read and checked before anything is changed.

use std::path::Path;

use domain::dialogue::{Fault, Rules};
use toml::Spanned;

use super::meaning::Reader;
use super::written::{Named, WrittenBot};
use super::{Account, Bot, Channel, Problem};
use crate::bot;

impl Reader<'_> {
    pub(super) fn bots(
        &mut self,
        written: Named<WrittenBot>,
        accounts: &[Account],
        channels: &[Channel],
    ) -> Vec<Bot> {
        let mut bots: Vec<Bot> = Vec::new();
        for (name, bot) in written {
            let at = name.span().start;
            let Some(bot) = self.bot(name, bot, accounts, channels) else {
                continue;
            };
            let shared =
                bot.accounts.iter().find(|account| bots.iter().any(|b| b.accounts.contains(account)));
            if let Some(account) = shared {
                self.problem(
                    at,
                    format!("account {account} has a bot already; one account listens to one bot"),
                );
            }
            bots.push(bot);
        }
        bots
    }

    fn bot(
        &mut self,
        name: Spanned<String>,
        written: WrittenBot,
        accounts: &[Account],
        channels: &[Channel],
    ) -> Option<Bot> {
        let found: Vec<String> = written
            .accounts
            .iter()
            .filter_map(|account| self.find_account(account, accounts).map(|account| account.name.clone()))
            .collect();
        if written.accounts.is_empty() {
            let text = format!("bot {} hears nobody; name its accounts: accounts = [\"…\"]", name.get_ref());
            self.problem(name.span().start, text);
        }
        let path = self.folder.join(written.rules.get_ref());
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                let text = format!("rules {}: {error}; give the path of a rules file", path.display());
                self.problem(written.rules.span().start, text);
                return None;
            }
        };
        let rules = self.rehearsed(&path, &text)?;
        let operators = rules.operators.map(|operators| operators.channel);
        if let Some(wanted) = &operators
            && !channels.iter().any(|channel| channel.name == *wanted)
        {
            let known: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
            let text = format!(
                "{}: operators.channel is {wanted:?}, and there is no such channel; known are {}",
                path.display(),
                known.join(", ")
            );
            self.problem(written.rules.span().start, text);
        }
        let receive = written.receive.unwrap_or(store::Receive::Poll);
        Some(Bot { name: name.into_inner(), accounts: found, receive, rules: text, operators })
    }

    /// Rules that are sound, and whose transcripts go as they are written: nothing else may answer people.
    fn rehearsed(&mut self, path: &Path, text: &str) -> Option<Rules> {
        let (rules, mut faults) = bot::check(text);
        faults.retain(Fault::is_error);
        let problem = |path: &Path, fault: Fault| Problem {
            place: format!("{}:{}", path.display(), fault.line),
            text: fault.text,
        };
        let sound = faults.is_empty();
        self.problems.extend(faults.into_iter().map(|fault| problem(path, fault)));
        let rules = rules.filter(|_| sound)?;
        for transcript in bot::transcripts(path).unwrap_or_default() {
            match bot::rehearse(&rules, &transcript) {
                Ok(rehearsal) => {
                    let faults = rehearsal.played.faults.into_iter();
                    self.problems.extend(faults.map(|fault| problem(&transcript, fault)));
                }
                Err(error) => {
                    let place = transcript.display().to_string();
                    self.problems.push(Problem { place, text: format!("{error:#}") });
                }
            }
        }
        Some(rules)
    }
}
