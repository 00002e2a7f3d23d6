//! Sending to VK: one part becomes one visible request, with uploads before it where it has media.

use std::time::Duration;

use domain::outcome::{Failure, Outcome, Sent};
use serde_json::{Value, json};

use super::errors::{blames_attachment, classify, is_wrong_token_kind, refused_item};
use super::facts::API_VERSION;
use super::upload::{Place, upload};
use super::wire::{self, Call, Content};
use super::{NAME, Vk};
use crate::incoming::Callback;
use crate::media::{MediaHandle, is_lost, left_out};
use crate::part::{Fitted, Keyboard, MediaItem, Part, SendOptions, Target};
use crate::platform::{Account, Deadlines, Fare, Network, Report, Sending, misfit};
use crate::secret::SecretUrl;
use crate::transport::{Exchange, Method, Payload, Request, Trouble, TroubleKind, secret_header};
use crate::verdict::{Purpose, Verdict, shapeless};

impl Vk {
    pub(super) async fn send_part(
        &self,
        network: &Network,
        account: &Account,
        sending: Sending<'_>,
    ) -> Report {
        let out = Out { network, account, sending };
        match sending.part {
            Part::Text(part) => {
                out.publish(&part.target, Some(&part.text), &part.buttons, &part.options, Attached::default())
                    .await
            }
            Part::Media(part) => match out.attach(&part.target, &part.items).await {
                Err(report) => report,
                Ok(attached) if attached.names.is_empty() && part.caption.is_none() => {
                    attached.nothing(account)
                }
                Ok(attached) => {
                    out.publish(&part.target, part.caption.as_ref(), &part.buttons, &part.options, attached)
                        .await
                }
            },
            Part::Edit(part) => match out.attach(&part.target, &part.media).await {
                Err(report) => report,
                Ok(attached) => {
                    let call = wire::edit(part, &attached.names);
                    attached.onto(out.finish(Purpose::Edit, call).await.about(Some(&part.id)))
                }
            },
            Part::Delete(part) => {
                out.finish(Purpose::Delete, wire::delete(part)).await.about(part.ids.first())
            }
            Part::Pin(part) => {
                let id = sending.earlier.get(part.of_part).and_then(|ids| ids.first());
                match (id, &part.target) {
                    (Some(id), Target::Wall(owner)) => {
                        let call = Call::new("wall.pin").with("owner_id", owner).with("post_id", id);
                        out.finish(Purpose::Pin, call).await.about(Some(id))
                    }
                    _ => Report::failed(account, misfit(NAME, "the post to pin has no known id")),
                }
            }
        }
    }

    pub(super) async fn answer(
        &self,
        network: &Network,
        account: &Account,
        callback: &Callback,
        text: Option<&str>,
    ) -> Outcome {
        let mut call = Call::new("messages.sendMessageEventAnswer")
            .with("event_id", &callback.id)
            .with("user_id", &callback.from)
            .with("peer_id", &callback.chat);
        if let Some(text) = text {
            call = call.with("event_data", json!({ "type": "show_snackbar", "text": text }));
        }
        match ask(network, account, call, Deadlines::default().request).await {
            Ok(_) => Outcome::Sent(Sent { provider_message_id: None, raw: Value::Null }),
            Err(failure) => Outcome::Failed(failure),
        }
    }
}

/// What was uploaded or known already, ready to be attached.
#[derive(Debug, Default)]
struct Attached {
    names: Vec<String>,
    handles: Vec<(usize, MediaHandle)>,
    notes: Vec<String>,
    /// Why the last of those left out was.
    lost: Option<Failure>,
    /// Something is attached by a name that was kept from earlier.
    by_kept_name: bool,
}

impl Attached {
    /// Nothing is left to send: the reason of the last one is the reason of all.
    fn nothing(mut self, account: &Account) -> Report {
        let reason = self.lost.take().unwrap_or_else(|| misfit(NAME, "none of the media can be uploaded"));
        self.onto(Report::failed(account, reason))
    }

    fn onto(self, mut report: Report) -> Report {
        report.handles = self.handles;
        report.notes.extend(self.notes);
        report.blame_handles(self.by_kept_name, blames_attachment)
    }
}

struct Out<'a> {
    network: &'a Network,
    account: &'a Account,
    sending: Sending<'a>,
}

impl Out<'_> {
    async fn publish(
        &self,
        target: &Target,
        text: Option<&Fitted>,
        buttons: &Keyboard,
        options: &SendOptions,
        attached: Attached,
    ) -> Report {
        let content = Content {
            text: text.map(Fitted::as_str).unwrap_or_default(),
            attachments: &attached.names,
            buttons,
            options,
            key: self.sending.key,
        };
        let call = wire::publish(target, &content);
        attached.onto(self.finish(Purpose::Send, call).await)
    }

    async fn finish(&self, purpose: Purpose, call: Call) -> Report {
        if let Err(failure) = self.sending.budget.pay(Fare::Visible).await {
            return Report::failed(self.account, failure);
        }
        let exchange = request(self.network, self.account, &call, self.sending.deadlines.request).await;
        let verdict = match classify(purpose, &exchange) {
            Verdict::Done(response) => {
                refused_item(&response).map_or(Verdict::Done(response), Verdict::Failed)
            }
            other => other,
        };
        Report::of(self.account, verdict, |response| wire::created(&call, response))
    }

    /// Makes every item attachable. What this kind of token cannot upload is left out with a note.
    async fn attach(&self, target: &Target, items: &[MediaItem]) -> Result<Attached, Report> {
        let place = Place::of(target);
        let mut attached = Attached::default();
        for (n, item) in items.iter().enumerate() {
            if let Some(name) = self.known(&place, item).await {
                attached.names.push(name);
                attached.by_kept_name = true;
                continue;
            }
            match upload(self.network, self.account, &self.sending, &place, item).await {
                Ok(name) => {
                    let handle = MediaHandle::new(NAME, item.send_as, place.handle(&name));
                    attached.handles.push((n, handle));
                    attached.names.push(name);
                }
                Err(failure) if is_wrong_token_kind(&failure) => {
                    let note = format!("{} left out: this kind of VK token cannot upload it", item.send_as);
                    attached.notes.push(note);
                }
                Err(failure) if is_lost(&failure) => {
                    attached.notes.push(left_out(item, &failure));
                    attached.lost = Some(failure);
                }
                Err(failure) => return Err(attached.onto(Report::failed(self.account, failure))),
            }
        }
        Ok(attached)
    }

    async fn known(&self, place: &Place, item: &MediaItem) -> Option<String> {
        let handle = self.sending.media.handle(item).await?;
        place.attachment(&handle.value).map(str::to_owned)
    }
}

/// One call. The token is in a header, so that no address holds it.
pub(super) async fn request(
    network: &Network,
    account: &Account,
    call: &Call,
    deadline: Duration,
) -> Exchange {
    let Ok(url) = url::Url::parse(&format!("{}/method/{}", account.base(), call.method)) else {
        return Err(Trouble::not_sent(
            TroubleKind::Request,
            "the address of the API (api_base) cannot be used",
        ));
    };
    let mut fields = call.fields.clone();
    fields.push(("v".to_owned(), API_VERSION.to_owned()));
    let request = Request::new(Method::Post, SecretUrl::new(url, format!("vk {}", call.method)), deadline)
        .header(secret_header("authorization", "Bearer ", &account.token))
        .payload(Payload::Form(fields));
    network.transport.send(&account.route, request).await
}

/// A call without visible effect: its response, or why there is none.
pub(super) async fn ask_for(
    purpose: Purpose,
    network: &Network,
    account: &Account,
    call: Call,
    deadline: Duration,
) -> Result<Value, Failure> {
    match classify(purpose, &request(network, account, &call, deadline).await) {
        Verdict::Done(response) => Ok(response),
        Verdict::Failed(failure) => Err(account.redact(failure)),
        Verdict::DoneBlind => Err(shapeless(&Value::Null)),
    }
}

pub(super) async fn ask(
    network: &Network,
    account: &Account,
    call: Call,
    deadline: Duration,
) -> Result<Value, Failure> {
    ask_for(Purpose::Read, network, account, call, deadline).await
}
