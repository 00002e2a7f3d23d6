//! The Callback API: servers of a community, their confirmation, and delivery with retries.
//! Each server has one task that confirms it first and then sends events in order;
//! what is not answered with `ok` is tried again beside the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::core::{Core, SharedCore};
use crate::faults::Kind;
use crate::hooks::HookAnswer;

use super::events::{Event, Settings};
use super::state::State;

/// The servers of one community.
#[derive(Debug, Default)]
pub struct Servers {
    pub list: Vec<Arc<Server>>,
    last_id: i64,
    /// The code chosen by a registration; otherwise one is made up.
    pub code: Option<String>,
}

/// One server.
#[derive(Debug)]
pub struct Server {
    pub id: i64,
    pub group: i64,
    pub creator_id: i64,
    pub face: Mutex<Facade>,
    queue: mpsc::UnboundedSender<Job>,
}

/// What can be changed about a server.
#[derive(Clone, Debug)]
pub struct Facade {
    pub title: String,
    pub url: String,
    pub secret: String,
    /// unconfigured, wait, ok or failed; `REMOVED` once the server has asked to be forgotten.
    pub status: &'static str,
    pub settings: Settings,
}

#[derive(Debug)]
enum Job {
    Confirm,
    Event(Value),
}

/// The status of a server that answered `remove`.
const REMOVED: &str = "removed";
/// Servers of one community.
pub(super) const SERVERS_MAX: usize = 10;
/// After so many tries in vain the server counts as failed.
const TRIES_MAX: u32 = 8;
/// A server may ask for at most this much patience.
const RETRY_AFTER_S_MAX: u64 = 3 * 3600;
/// Confirmation is asked again a few times: the server may just be starting.
const CONFIRMATIONS_MAX: u32 = 5;

impl Servers {
    pub fn add(&mut self, core: &SharedCore, group: i64, creator_id: i64, facade: Facade) -> i64 {
        self.last_id += 1;
        let (queue, jobs) = mpsc::unbounded_channel();
        let server =
            Arc::new(Server { id: self.last_id, group, creator_id, face: Mutex::new(facade), queue });
        self.list.push(Arc::clone(&server));
        let code = self.code(core, group);
        core.tasks.spawn(work(Arc::clone(core), Arc::downgrade(&server), jobs, code));
        server.ask(Job::Confirm);
        self.last_id
    }

    pub fn find(&self, id: i64) -> Option<&Arc<Server>> {
        self.list.iter().find(|server| server.id == id)
    }

    pub fn remove(&mut self, id: i64) -> bool {
        let before = self.list.len();
        self.list.retain(|server| server.id != id);
        self.list.len() < before
    }

    /// What a server must answer to be confirmed.
    pub fn code(&self, core: &SharedCore, group: i64) -> String {
        let made_up = || format!("{:08x}", core.number_of(&format!("confirmation {group}")) & 0xffff_ffff);
        self.code.clone().unwrap_or_else(made_up)
    }

    /// Forgets servers that asked for it.
    pub fn sweep(&mut self) {
        self.list.retain(|server| server.face().status != REMOVED);
    }

    /// Hands an event to every server that wants it.
    pub fn deliver(&mut self, event: &Event) {
        self.sweep();
        for server in &self.list {
            let face = server.face();
            if !face.settings.wants(&event.kind) {
                continue;
            }
            let mut body = event.worded(&face.settings);
            if event.fault == Some(Kind::WrongSecret) {
                body["secret"] = format!("wrong-{}", face.secret).into();
            } else if !face.secret.is_empty() {
                body["secret"] = face.secret.as_str().into();
            }
            drop(face);
            for _ in 0..event.copies() {
                server.ask(Job::Event(body.clone()));
            }
        }
    }

    /// After a reset: what failed may work again.
    pub fn forget_events(&mut self) {
        for server in &self.list {
            if server.face().status == "failed" {
                server.ask(Job::Confirm);
            }
        }
    }
}

impl Server {
    pub fn face(&self) -> MutexGuard<'_, Facade> {
        self.face.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for confirmation again, after a change.
    pub fn reconfirm(&self) {
        self.ask(Job::Confirm);
    }

    fn ask(&self, job: Job) {
        // The task is gone only when the sandbox stops.
        drop(self.queue.send(job));
    }
}

/// A server that a registration names, replacing the one it named before.
pub(super) fn register(
    core: &SharedCore,
    state: &mut State,
    group: i64,
    url: &str,
    secret: &str,
    code: Option<&str>,
) {
    let servers = &mut state.group(group).servers;
    servers.list.retain(|server| server.face().title != "registered");
    servers.code = code.map(str::to_owned);
    let facade = Facade {
        title: "registered".to_owned(),
        url: url.to_owned(),
        secret: secret.to_owned(),
        status: "unconfigured",
        settings: Settings::default(),
    };
    servers.add(core, group, 0, facade);
}

/// Works until the server is removed or the sandbox stops.
async fn work(
    core: Arc<Core>,
    server: std::sync::Weak<Server>,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    code: String,
) {
    while let Some(job) = jobs.recv().await {
        let Some(server) = server.upgrade() else { return };
        match job {
            Job::Confirm => confirm(&core, &server, &code).await,
            Job::Event(body) => {
                if server.face().status != "ok" {
                    continue;
                }
                if let Verdict::Again(wait) = attempt(&core, &server, &body, 0).await {
                    let (core_too, server) = (Arc::clone(&core), Arc::clone(&server));
                    core.tasks.spawn(async move { retry(&core_too, &server, &body, wait).await });
                }
            }
        }
    }
}

async fn confirm(core: &Arc<Core>, server: &Server, code: &str) {
    server.face().status = "wait";
    for round in 0..CONFIRMATIONS_MAX {
        let Facade { url, secret, .. } = server.face().clone();
        let mut body = json!({ "type": "confirmation", "group_id": server.group });
        if !secret.is_empty() {
            body["secret"] = secret.into();
        }
        let answer = core.hooks.post(&url, &[], Bytes::from(body.to_string())).await;
        if answer.is_ok_and(|answer| answer.is_success() && said(&answer) == code) {
            server.face().status = "ok";
            return;
        }
        tokio::time::sleep(Duration::from_millis(250 << round)).await;
    }
    server.face().status = "failed";
}

fn said(answer: &HookAnswer) -> &str {
    std::str::from_utf8(&answer.body).unwrap_or_default().trim()
}

enum Verdict {
    Done,
    Again(Option<Duration>),
}

async fn attempt(core: &Arc<Core>, server: &Server, body: &Value, counter: u32) -> Verdict {
    let url = server.face().url.clone();
    let counted = counter.to_string();
    let headers: &[(&str, &str)] = if counter == 0 { &[] } else { &[("x-retry-counter", &counted)] };
    match core.hooks.post(&url, headers, Bytes::from(body.to_string())).await {
        Ok(answer) if answer.status == 200 && said(&answer).eq_ignore_ascii_case("ok") => Verdict::Done,
        Ok(answer) if answer.status == 200 && said(&answer) == "remove" => {
            server.face().status = REMOVED;
            Verdict::Done
        }
        Ok(answer) if matches!(answer.status, 410 | 429 | 503) => {
            let wait_s = answer.retry_after_s.or_else(|| {
                let at_s = http_date(answer.retry_after.as_deref()?)?;
                Some(u64::try_from(at_s - core.clock.now_s()).unwrap_or(0))
            });
            Verdict::Again(wait_s.map(|wait_s| Duration::from_secs(wait_s.min(RETRY_AFTER_S_MAX))))
        }
        _ => Verdict::Again(None),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` in seconds since the epoch.
fn http_date(text: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = text.split_once(", ")?.1.split(' ');
    let day: i64 = parts.next()?.parse().ok()?;
    let month = MONTHS.find(parts.next()?)? as i64 / 3 + 1;
    let year: i64 = parts.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = parts.next()?.split(':').map(|part| part.parse::<i64>().ok());
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    // Years that begin in March keep the leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

/// Tries again until it works or the server counts as failed.
async fn retry(core: &Arc<Core>, server: &Server, body: &Value, mut wait: Option<Duration>) {
    for counter in 1..TRIES_MAX {
        tokio::time::sleep(wait.unwrap_or(Duration::from_millis(500 << counter))).await;
        match attempt(core, server, body, counter).await {
            Verdict::Done => return,
            Verdict::Again(next) => wait = next,
        }
    }
    server.face().status = "failed";
}

#[cfg(test)]
mod tests {
    use super::http_date;

    #[test]
    fn dates_of_headers_are_read() {
        for (text, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("tomorrow", None),
            ("Sun, 06 Foo 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08", None),
        ] {
            assert_eq!(http_date(text), expected, "{text}");
        }
    }
}
