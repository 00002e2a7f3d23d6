//! The platforms as one node sees them: they accept or not, answer or not, ask for waits, break down, and remember
//! keys if they are of that kind. Everything is written down as the platform saw it.

use std::sync::Arc;
use std::time::Duration;

use domain::outcome::{CODE_NOT_READY, Category, Failure, Outcome, Scope, Sent};
use futures_util::future::BoxFuture;
use platforms::part::{Part, TextPart};
use platforms::platform::{Question, Reconciled, Report, Sending};
use store::Claim;

use super::log::{Act, Answer, Request, RequestKind, SendLog, Whole};
use super::node::Run;
use super::saboteur::Saboteur;
use super::world::{World, lock};
use engine::dispatch::Address;
use engine::dispatch::ports::Outlet;

#[derive(Debug)]
pub(super) struct SimOutlet {
    pub run: Arc<Run>,
}

/// What the platform does with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Accept,
    AcceptAndLoseAnswer,
    LoseRequest,
    ErrorAccepted,
    ErrorNotAccepted,
    RefuseConnection,
    /// Nothing comes back before the deadline.
    Hang {
        accepted: bool,
    },
    Flood {
        of: Scope,
        wait: Duration,
    },
    Permanent(Scope),
    /// The person blocked us.
    Blocked,
    NotReady,
}

/// When the node dies on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    None,
    Before,
    During { accepted: bool },
    After,
}

impl SimOutlet {
    fn world(&self) -> &World {
        &self.run.world
    }

    async fn exchange(&self, address: &Address, claim: &Claim, sending: Sending<'_>) -> Report {
        let (run, world) = (&*self.run, self.world());
        let left_at = world.at();
        run.alive().await;
        let death = self.death();
        if death == Death::Before {
            run.crash("node: died before a request left").await;
        }
        if world.strikes(world.options.node.pause) {
            run.pause();
            run.alive().await;
        }
        let delayed = world.at() > left_at;
        let index = self.received(address, claim, &sending, delayed);
        let behaviour = self.behaviour(address, claim, &sending);
        let leg = world.up_to(world.options.platform.latency_max) / 2;
        let deadline = deadline(&sending);
        tokio::time::sleep(leg.min(deadline / 4)).await;
        if run.is_dead() && world.below(2) == 0 {
            // It died of something else, and the bytes never left.
            std::future::pending::<()>().await;
        }
        if let Death::During { accepted } = death {
            if accepted {
                self.accept(index, address, &sending);
            }
            run.crash(match accepted {
                true => "node: died while a request was out, accepted",
                false => "node: died while a request was out, not accepted",
            })
            .await;
        }
        let report = self.answer(index, address, &sending, behaviour);
        let back = match behaviour {
            Behaviour::Hang { .. } => deadline - leg.min(deadline / 4),
            _ => leg.min(deadline / 4),
        };
        tokio::time::sleep(back).await;
        self.over(index);
        if death == Death::After {
            run.crash("node: died after the answer").await;
        }
        if world.strikes(world.options.node.pause / 2) {
            run.pause();
        }
        run.alive().await;
        self.heard(index, &report);
        report
    }

    fn death(&self) -> Death {
        let world = self.world();
        if !world.strikes(world.options.node.crash_at_request) {
            return Death::None;
        }
        match world.below(4) {
            0 => Death::Before,
            1 => Death::During { accepted: true },
            2 => Death::During { accepted: false },
            _ => Death::After,
        }
    }

    fn behaviour(&self, address: &Address, claim: &Claim, sending: &Sending<'_>) -> Behaviour {
        let world = self.world();
        let trouble = &world.options.platform;
        if self.is_out(address) {
            return match world.below(4) {
                0 => Behaviour::RefuseConnection,
                1 => Behaviour::ErrorNotAccepted,
                2 => Behaviour::LoseRequest,
                _ => Behaviour::Hang { accepted: false },
            };
        }
        if claim.destination.recipient().is_some() && self.blocks(sending) {
            return Behaviour::Blocked;
        }
        let carries_media = matches!(sending.part, Part::Media(_));
        let even = || world.below(2) == 0;
        if world.strikes(trouble.lost_answer) {
            Behaviour::AcceptAndLoseAnswer
        } else if world.strikes(trouble.lost_request) {
            Behaviour::LoseRequest
        } else if world.strikes(trouble.server_error) {
            if even() { Behaviour::ErrorAccepted } else { Behaviour::ErrorNotAccepted }
        } else if world.strikes(trouble.refused_connection) {
            Behaviour::RefuseConnection
        } else if world.strikes(trouble.hang) {
            Behaviour::Hang { accepted: even() }
        } else if world.strikes(trouble.flood) {
            let of = if world.below(4) == 0 { Scope::Platform } else { Scope::Channel };
            Behaviour::Flood { of, wait: world.between(Duration::from_secs(1), trouble.flood_max) }
        } else if world.strikes(trouble.permanent_delivery) {
            Behaviour::Permanent(Scope::Delivery)
        } else if world.strikes(trouble.permanent_channel) {
            Behaviour::Permanent(Scope::Channel)
        } else if world.strikes(trouble.permanent_account) {
            Behaviour::Permanent(Scope::Platform)
        } else if carries_media && world.strikes(trouble.not_ready) {
            Behaviour::NotReady
        } else {
            Behaviour::Accept
        }
    }

    /// Who blocks us once does so until they come back.
    fn blocks(&self, sending: &Sending<'_>) -> bool {
        let world = self.world();
        let Said { target, .. } = said(sending.part);
        if world.strikes(world.options.platform.blocked) {
            lock(&world.blocked).insert(target.clone());
        }
        lock(&world.blocked).contains(&target)
    }

    fn is_out(&self, address: &Address) -> bool {
        let world = self.world();
        let now = world.elapsed();
        let hit = |(account, from, length): &(usize, Duration, Duration)| {
            let affected = world.accounts.get(*account % world.accounts.len());
            affected.is_some_and(|(_, id)| *id == address.account_id) && now >= *from && now < *from + *length
        };
        !world.is_calm() && world.options.platform.outages.iter().any(hit)
    }

    fn received(&self, address: &Address, claim: &Claim, sending: &Sending<'_>, delayed: bool) -> usize {
        let world = self.world();
        let part = sending.key.rsplit_once('.').and_then(|(_, part)| part.parse().ok()).unwrap_or(usize::MAX);
        let Said { target, act, text } = said(sending.part);
        let send = SendLog {
            delivery: claim.delivery_id.0,
            part,
            attempt: claim.counters.attempt,
            key: sending.key.to_owned(),
            target,
            act,
            text,
            accepted_at: None,
            visible: Vec::new(),
            repeated: false,
            answer: None,
            answered_at: None,
        };
        world.trace(format_args!(
            "{} sends {} attempt {}",
            self.run.name, sending.key, claim.counters.attempt
        ));
        self.log(RequestKind::Send, address, delayed, Some(send))
    }

    fn log(&self, kind: RequestKind, address: &Address, delayed: bool, send: Option<SendLog>) -> usize {
        let world = self.world();
        let request = Request {
            at: world.at(),
            ledger_at: world.ledger_at(),
            kind,
            run: self.run.name.clone(),
            account: address.account_id.0,
            over_at: None,
            delayed,
            send,
        };
        if kind != RequestKind::Send {
            world.trace(format_args!("{} asks account {}: {kind:?}", self.run.name, address.account_id.0));
        }
        let mut logs = world.logs();
        logs.platform.push(request);
        logs.platform.len() - 1
    }

    /// It takes effect: a reader sees it, once per key where keys are honoured.
    fn accept(&self, index: usize, address: &Address, sending: &Sending<'_>) -> Vec<String> {
        let world = self.world();
        let at = world.at();
        let mut logs = world.logs();
        let new = matches!(sending.part, Part::Text(_) | Part::Media(_));
        let keyed = address.platform.name() == "vk" && new;
        let earlier = logs.platform.iter().filter_map(|request| request.send.as_ref()).find_map(|send| {
            (keyed && send.key == sending.key && send.accepted_at.is_some()).then(|| send.visible.clone())
        });
        let repeated = earlier.is_some();
        let forgotten =
            world.saboteur == Some(Saboteur::DeleteForgotten) && matches!(sending.part, Part::Delete(_));
        let ids = earlier.unwrap_or_else(|| ids_of(world, address, sending.part));
        if let Some(send) = logs.platform.get_mut(index).and_then(|request| request.send.as_mut()) {
            if forgotten {
                send.act = Act::Pin;
            }
            send.accepted_at = Some(at);
            send.visible.clone_from(&ids);
            send.repeated = repeated;
        }
        drop(logs);
        if repeated {
            world.sometimes("platform: a repeated key showed the earlier post");
        }
        world.trace(format_args!("accepted {} as {ids:?}", sending.key));
        ids
    }

    fn answer(&self, index: usize, address: &Address, sending: &Sending<'_>, behaviour: Behaviour) -> Report {
        let transient = |scope, code| Failure::new(Category::Transient, scope, code, "simulated");
        let count = |what| self.world().sometimes(what);
        let accept = || self.accept(index, address, sending);
        match behaviour {
            Behaviour::Accept => sent(accept()),
            Behaviour::AcceptAndLoseAnswer => {
                count("platform: accepted, answer lost");
                accept();
                failed(transient(Scope::Delivery, "reset").unknown())
            }
            Behaviour::LoseRequest => {
                count("platform: request lost");
                failed(transient(Scope::Delivery, "reset").unknown())
            }
            Behaviour::ErrorAccepted => {
                count("platform: server error, accepted");
                accept();
                failed(transient(Scope::Platform, "502").unknown())
            }
            Behaviour::ErrorNotAccepted => {
                count("platform: server error, not accepted");
                failed(transient(Scope::Platform, "502").unknown())
            }
            Behaviour::RefuseConnection => {
                count("platform: connection refused");
                failed(transient(Scope::Platform, "refused"))
            }
            Behaviour::Hang { accepted } => {
                count("platform: hung until the deadline");
                if accepted {
                    accept();
                }
                failed(transient(Scope::Delivery, "timeout").unknown())
            }
            Behaviour::Flood { of, wait } => {
                count("platform: flood");
                if wait > self.world().options.lease {
                    count("platform: flood longer than the lease");
                }
                failed(transient(of, "429").retry_after(wait.as_millis() as i64))
            }
            Behaviour::Permanent(scope) => {
                count(match scope {
                    Scope::Delivery => "platform: refused a delivery for good",
                    Scope::Channel => "platform: refused a channel for good",
                    Scope::Platform => "platform: refused an account for good",
                });
                failed(Failure::new(Category::Permanent, scope, "403", "simulated"))
            }
            Behaviour::Blocked => {
                count("people: somebody blocked us");
                let gone = Failure::new(Category::Permanent, Scope::Channel, "blocked", "simulated");
                failed(Failure { recipient_gone: true, ..gone })
            }
            Behaviour::NotReady => {
                count("platform: attachment not ready");
                failed(transient(Scope::Delivery, CODE_NOT_READY))
            }
        }
    }

    fn over(&self, index: usize) {
        let at = self.world().at();
        if let Some(request) = self.world().logs().platform.get_mut(index) {
            request.over_at = Some(at);
        }
    }

    fn heard(&self, index: usize, report: &Report) {
        let world = self.world();
        let at = world.at();
        let answer = match &report.outcome {
            Outcome::Sent(_) => Answer::Sent,
            Outcome::Failed(failure) if failure.recipient_gone => Answer::Gone,
            Outcome::Failed(failure) if failure.category == Category::Permanent => Answer::Permanent,
            Outcome::Failed(failure) if failure.certainty == domain::outcome::Certainty::Unknown => {
                Answer::Unknown
            }
            Outcome::Failed(failure) => match failure.retry_after_ms {
                Some(ms) => Answer::Flood {
                    retry_after_us: ms * 1_000,
                    of: if failure.scope == Scope::Channel { Whole::Chat } else { Whole::Account },
                },
                None => Answer::NotSent,
            },
        };
        world.trace(format_args!("{} hears of request {index}: {answer:?}", self.run.name));
        if let Some(send) = world.logs().platform.get_mut(index).and_then(|request| request.send.as_mut()) {
            send.answer = Some(answer);
            send.answered_at = Some(at);
        }
    }

    /// The saboteurs that send something else than they were given.
    fn sabotaged_part(&self, part: &Part) -> Option<Part> {
        match (self.world().saboteur, part) {
            (Some(Saboteur::EditIsPost), Part::Edit(edit)) => Some(Part::Text(TextPart {
                target: edit.target.clone(),
                text: edit.text.clone(),
                buttons: edit.buttons.clone(),
                options: edit.options.clone(),
            })),
            _ => None,
        }
    }

    async fn sabotage(
        &self,
        mut report: Report,
        address: &Address,
        claim: &Claim,
        sending: Sending<'_>,
    ) -> Report {
        let Outcome::Failed(failure) = &mut report.outcome else {
            return report;
        };
        let unknown = failure.certainty == domain::outcome::Certainty::Unknown;
        match self.world().saboteur {
            Some(Saboteur::TimeoutIsNotSent) => {
                failure.certainty = domain::outcome::Certainty::NotSent;
                report
            }
            Some(Saboteur::TimeoutIsSent) if unknown => sent(Vec::new()),
            Some(Saboteur::SecondRetryLayer) if unknown => self.exchange(address, claim, sending).await,
            Some(Saboteur::GoneRetried) if failure.recipient_gone => {
                *failure = Failure::new(Category::Transient, Scope::Delivery, "blocked", "simulated");
                report
            }
            Some(Saboteur::ChatFloodStopsAccount) if failure.is_flood() => {
                failure.scope = Scope::Platform;
                report
            }
            Some(Saboteur::RetryAfterIgnored) if failure.retry_after_ms.is_some() => {
                failure.retry_after_ms = Some(0);
                report
            }
            _ => report,
        }
    }
}

impl Outlet for SimOutlet {
    fn send<'a>(
        &'a self,
        address: &'a Address,
        claim: &'a Claim,
        sending: Sending<'a>,
    ) -> BoxFuture<'a, Report> {
        Box::pin(async move {
            let other = self.sabotaged_part(sending.part);
            let sending = Sending { part: other.as_ref().unwrap_or(sending.part), ..sending };
            let report = self.exchange(address, claim, sending).await;
            self.sabotage(report, address, claim, sending).await
        })
    }

    /// By words and time, as MAX can; Telegram cannot, VK has the key.
    fn reconcile<'a>(&'a self, address: &'a Address, question: Question<'a>) -> BoxFuture<'a, Reconciled> {
        Box::pin(async move {
            let (run, world) = (&*self.run, self.world());
            let left_at = world.at();
            run.alive().await;
            let index = self.log(RequestKind::Reconcile, address, world.at() > left_at, None);
            tokio::time::sleep(world.up_to(world.options.platform.latency_max)).await;
            self.over(index);
            run.alive().await;
            if self.is_out(address) {
                let failure = Failure::new(Category::Transient, Scope::Platform, "refused", "simulated");
                return Reconciled::Failed(failure);
            }
            let Said { target, act, text } = said(question.part);
            // What changes nothing new can be repeated without anybody seeing it.
            if address.platform.name() == "telegram" || !matches!(act, Act::Say { .. }) {
                return Reconciled::CannotKnow;
            }
            // A bot reads its own chats: one person has one with each bot.
            let own = |request: &&super::log::Request| request.account == address.account_id.0;
            let found = world
                .logs()
                .platform
                .iter()
                .rev()
                .filter(own)
                .filter_map(|request| request.send.as_ref())
                .find_map(|send| {
                    let same = send.accepted_at.is_some()
                        && matches!(send.act, Act::Say { .. })
                        && (&send.target, &send.text) == (&target, &text);
                    let free = !send.visible.iter().any(|id| question.taken.contains(id));
                    (same && free).then(|| send.visible.clone())
                });
            world.trace(format_args!("{} looks for {}: {found:?}", run.name, question.key));
            match found {
                Some(ids) => {
                    world.sometimes("platform: reconcile found the post");
                    Reconciled::Visible(ids)
                }
                None => {
                    world.sometimes("platform: reconcile found nothing");
                    Reconciled::Absent
                }
            }
        })
    }

    fn probe<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let (run, world) = (&*self.run, self.world());
            let left_at = world.at();
            run.alive().await;
            let index = self.log(RequestKind::Probe, address, world.at() > left_at, None);
            tokio::time::sleep(world.up_to(world.options.platform.latency_max)).await;
            self.over(index);
            run.alive().await;
            if self.is_out(address) {
                world.sometimes("platform: outage seen by a probe");
                return Err(Failure::new(Category::Transient, Scope::Platform, "refused", "simulated"));
            }
            Ok(())
        })
    }
}

fn deadline(sending: &Sending<'_>) -> Duration {
    match sending.part {
        Part::Media(_) => sending.deadlines.upload,
        _ => sending.deadlines.request,
    }
}

/// Where a part goes, what it does there, and which words a reader would see.
struct Said {
    target: String,
    act: Act,
    text: String,
}

fn said(part: &Part) -> Said {
    let (target, act, text) = match part {
        Part::Text(text) => {
            (&text.target, Act::Say { reply_to: text.options.reply_to.clone() }, Some(&text.text))
        }
        Part::Media(media) => {
            (&media.target, Act::Say { reply_to: media.options.reply_to.clone() }, media.caption.as_ref())
        }
        Part::Edit(edit) => (&edit.target, Act::Change(edit.id.clone()), Some(&edit.text)),
        Part::Delete(delete) => (&delete.target, Act::Remove(delete.ids.clone()), None),
        Part::Pin(pin) => (&pin.target, Act::Pin, None),
    };
    let text = text.map(|text| text.as_str().to_owned()).unwrap_or_default();
    Said { target: target.to_string(), act, text }
}

/// What the platform answers with: new ids (an album on Telegram has one for each of its media), or those it changed.
fn ids_of(world: &World, address: &Address, part: &Part) -> Vec<String> {
    let n = match part {
        Part::Media(media) if address.platform.name() == "telegram" => media.items.len(),
        Part::Text(_) | Part::Media(_) => 1,
        Part::Edit(edit) => return vec![edit.id.clone()],
        Part::Delete(delete) => return delete.ids.first().cloned().into_iter().collect(),
        Part::Pin(_) => 1,
    };
    (0..n).map(|_| world.fresh().to_string()).collect()
}

fn sent(ids: Vec<String>) -> Report {
    let outcome =
        Outcome::Sent(Sent { provider_message_id: ids.first().cloned(), raw: serde_json::Value::Null });
    Report { outcome, ids, handles: Vec::new(), notes: Vec::new(), stale_handle: false }
}

fn failed(failure: Failure) -> Report {
    Report {
        outcome: Outcome::Failed(failure),
        ids: Vec::new(),
        handles: Vec::new(),
        notes: Vec::new(),
        stale_handle: false,
    }
}
