//! `[bots.NAME]`: who a bot hears through, and its rules, read and checked before anything is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use domain::dialogue::{Fault, Rules};
use engine::addresses;
use store::AccountSettings;
use toml::Spanned;

use super::meaning::Reader;
use super::written::{Named, WrittenBot, WrittenService};
use super::{Account, Bot, Channel, Problem};
use crate::bot;

impl Reader<'_> {
    pub(super) fn bots(
        &mut self,
        written: Named<WrittenBot>,
        accounts: &mut Vec<Account>,
        channels: &[Channel],
    ) -> Vec<Bot> {
        let mut bots: Vec<Bot> = Vec::new();
        let mut places = Vec::new();
        for (name, mut bot) in written {
            let at = name.span().start;
            let services: Vec<(String, Account)> = std::mem::take(&mut bot.services)
                .into_iter()
                .filter_map(|(service, written)| self.service(name.get_ref(), service, written))
                .collect();
            let Some(mut bot) = self.bot(name, bot, accounts, channels) else {
                continue;
            };
            self.note_services(&bot, &services);
            for (service, account) in services {
                bot.services.insert(service, account.name.clone());
                accounts.push(account);
            }
            let shared =
                bot.accounts.iter().find(|account| bots.iter().any(|b| b.accounts.contains(account)));
            if let Some(account) = shared {
                self.problem(
                    at,
                    format!("account {account} has a bot already; one account listens to one bot"),
                );
            }
            bots.push(bot);
            places.push(at);
        }
        for (bot, at) in bots.iter().zip(places) {
            let desk = channels.iter().find(|channel| Some(&channel.name) == bot.operators.as_ref());
            let is_heard = |desk: &&Channel| bots.iter().any(|other| other.accounts.contains(&desk.account));
            if let Some(desk) = desk.filter(|desk| !is_heard(desk)) {
                let text = format!(
                    "operators answer for bot {} in channel {}, and no bot hears its account {}: their answers would reach \
                     nobody; add {:?} to the accounts of the bot, or name a channel of an account that it hears",
                    bot.name, desk.name, desk.account, desk.account
                );
                self.problem(at, text);
            }
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
        let platforms: Vec<&str> = accounts
            .iter()
            .filter(|account| found.contains(&account.name))
            .map(|account| account.platform.as_str())
            .collect();
        let rules = self.rehearsed(&path, &text, &platforms)?;
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
        let services = BTreeMap::new();
        Some(Bot { name: name.into_inner(), accounts: found, receive, rules: text, operators, services })
    }

    /// A service is an account like any other: its secret is sealed, and its address too.
    fn service(
        &mut self,
        bot: &str,
        name: Spanned<String>,
        written: WrittenService,
    ) -> Option<(String, Account)> {
        let token = self.secret(&written.secret);
        let url = written.url.get_ref().trim();
        if !platforms::webhook::is_callable(url) {
            let text = format!(
                "service {} has no address that can be called; write https://host/path, or http on 127.0.0.1",
                name.get_ref()
            );
            self.problem(written.url.span().start, text);
            return None;
        }
        if self.is_missing(&token) {
            return None;
        }
        let account = Account {
            name: format!("{bot}/{}", name.get_ref()),
            platform: platforms::webhook::NAME.to_owned(),
            token,
            settings: AccountSettings { api_base: Some(url.into()), ..AccountSettings::default() },
            paused: None,
            limit: None,
        };
        if addresses::account(&account.as_row(), account.token.reveal(), &Default::default()).is_err() {
            let text = "the secret of a service is whsec_ and base64; draw one with `echo whsec_$(openssl rand -base64 32)`";
            self.problem(written.secret.span().start, text);
            return None;
        }
        Some((name.into_inner(), account))
    }

    /// What rules ask and nobody has told where it is, and the other way round.
    fn note_services(&mut self, bot: &Bot, services: &[(String, Account)]) {
        let Ok(rules) = Rules::read(&bot.rules) else {
            return;
        };
        let asked: BTreeSet<&str> = rules.services().collect();
        for name in asked.iter().filter(|name| !services.iter().any(|(known, _)| known == *name)) {
            self.notes.push(format!(
                "bot {} asks the service {name}, which has no address: its rules hear {name}.failed; \
                 write [bots.{}.services.{name}] with url and secret",
                bot.name, bot.name
            ));
        }
        for (name, _) in services.iter().filter(|(name, _)| !asked.contains(name.as_str())) {
            self.notes.push(format!("bot {} has a service {name} that no rule calls", bot.name));
        }
    }

    /// Rules that are sound, and whose transcripts go as they are written: nothing else may answer people.
    fn rehearsed(&mut self, path: &Path, text: &str, platforms: &[&str]) -> Option<Rules> {
        let (rules, mut faults) = bot::check(text);
        faults.retain(Fault::is_error);
        faults.extend(rules.iter().flat_map(|rules| bot::too_large(rules, |name| platforms.contains(&name))));
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
