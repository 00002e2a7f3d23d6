//! Sending to MAX: one part becomes one visible request, with uploads before it where it has media.

use std::time::Duration;

use domain::message::MediaKind;
use domain::outcome::{Certainty, Failure, Outcome, Scope, Sent};
use serde_json::{Value, json};
use url::Url;

use super::errors::{blames_attachment, classify};
use super::wire::{self, Call};
use super::{Max, NAME};
use crate::incoming::Callback;
use crate::media::{File, MediaHandle, Supply, file_of, is_lost, left_out, supply};
use crate::part::{MediaItem, Part, Target};
use crate::platform::{Account, Deadlines, Fare, Network, Report, Sending, misfit};
use crate::secret::SecretUrl;
use crate::transport::{
    Answer, Exchange, Field, Method, Payload, Request, Trouble, TroubleKind, secret_header,
};
use crate::verdict::{Purpose, Verdict, from_trouble, permanent, raw, shapeless, transient};

impl Max {
    pub(super) async fn send_part(
        &self,
        network: &Network,
        account: &Account,
        sending: Sending<'_>,
    ) -> Report {
        let out = Out { network, account, sending };
        match sending.part {
            Part::Text(part) => {
                let call =
                    wire::publish(&part.target, Some(&part.text), Vec::new(), &part.buttons, &part.options);
                out.finish(Purpose::Send, call).await
            }
            Part::Media(part) => match out.attach(&part.items).await {
                Err(report) => report,
                Ok(attached) if attached.entries.is_empty() && part.caption.is_none() => {
                    attached.nothing(account)
                }
                Ok(mut attached) => {
                    let text = part.caption.as_ref();
                    let entries = std::mem::take(&mut attached.entries);
                    let call = wire::publish(&part.target, text, entries, &part.buttons, &part.options);
                    attached.onto(out.finish(Purpose::Send, call).await)
                }
            },
            Part::Edit(part) if part.buttons.is_empty() => {
                let call = wire::edit(&part.id, &part.text, None, &part.buttons);
                out.finish(Purpose::Edit, call).await.about(Some(&part.id))
            }
            Part::Edit(part) => match out.attach(&part.media).await {
                Err(report) => report,
                Ok(mut attached) => {
                    let entries = std::mem::take(&mut attached.entries);
                    let call = wire::edit(&part.id, &part.text, Some(entries), &part.buttons);
                    let report = out.finish(Purpose::Edit, call).await.about(Some(&part.id));
                    attached.onto(report)
                }
            },
            Part::Delete(part) => match part.ids.as_slice() {
                [id] => out.finish(Purpose::Delete, wire::delete(id)).await.about(Some(id)),
                _ => Report::failed(account, misfit(NAME, "one message is deleted at a time")),
            },
            Part::Pin(part) => {
                let id = sending.earlier.get(part.of_part).and_then(|ids| ids.first());
                match (id, &part.target) {
                    (Some(id), Target::Chat(chat)) => {
                        let call = wire::pin(*chat, id, part.options.silent);
                        out.finish(Purpose::Pin, call).await.about(Some(id))
                    }
                    _ => Report::failed(account, misfit(NAME, "the message to pin has no known id or chat")),
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
        let call = Call::new(Method::Post, "/answers", "max POST /answers")
            .query("callback_id", &callback.id)
            .body(json!({ "notification": text.unwrap_or_default() }));
        match ask_for(Purpose::Read, network, account, call, Deadlines::default().request).await {
            Ok(_) => Outcome::Sent(Sent { provider_message_id: None, raw: Value::Null }),
            Err(failure) => Outcome::Failed(failure),
        }
    }
}

/// Attachments ready to be sent, and the handles that are new.
#[derive(Debug, Default)]
struct Attached {
    entries: Vec<Value>,
    handles: Vec<(usize, MediaHandle)>,
    notes: Vec<String>,
    /// Why the last of those left out was.
    lost: Option<Failure>,
    /// Something is attached by a token that was kept from earlier.
    by_kept_token: bool,
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
        report.blame_handles(self.by_kept_token, blames_attachment)
    }
}

struct Out<'a> {
    network: &'a Network,
    account: &'a Account,
    sending: Sending<'a>,
}

impl Out<'_> {
    async fn finish(&self, purpose: Purpose, call: Call) -> Report {
        if let Err(failure) = self.sending.budget.pay(Fare::Visible).await {
            return Report::failed(self.account, failure);
        }
        let exchange = request(self.network, self.account, &call, self.sending.deadlines.request).await;
        Report::of(self.account, classify(purpose, &exchange), wire::created)
    }

    /// Makes every item attachable. A failure keeps the handles so far: nothing is uploaded twice.
    async fn attach(&self, items: &[MediaItem]) -> Result<Attached, Report> {
        let mut attached = Attached::default();
        for (n, item) in items.iter().enumerate() {
            match self.entry(item).await {
                Ok((entry, handle, is_kept)) => {
                    attached.entries.push(entry);
                    attached.by_kept_token |= is_kept;
                    attached.handles.extend(handle.map(|handle| (n, handle)));
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

    /// The attachment, its handle if it is new, and whether it is a kept one. MAX fetches pictures itself, and nothing
    /// else.
    async fn entry(&self, item: &MediaItem) -> Result<(Value, Option<MediaHandle>, bool), Failure> {
        let kind = item.send_as;
        let file = match supply(self.sending.media, item).await? {
            Supply::Handle(handle) => return Ok((wire::by_token(kind, &handle.value), None, true)),
            Supply::Url(url) if wire::type_of(kind) == "image" => {
                return Ok((wire::by_url(&url), None, false));
            }
            Supply::Url(_) => file_of(self.network, self.sending.media, item).await?,
            Supply::File(file) => file,
        };
        let token = self.upload(kind, file).await?;
        let handle = MediaHandle::new(NAME, kind, token);
        Ok((wire::by_token(kind, &handle.value), Some(handle), false))
    }

    async fn upload(&self, kind: MediaKind, file: File) -> Result<String, Failure> {
        let call =
            Call::new(Method::Post, "/uploads", "max POST /uploads").query("type", wire::type_of(kind));
        self.sending.budget.pay(Fare::Upload).await?;
        let deadline = self.sending.deadlines.request;
        let session = ask_for(Purpose::Upload, self.network, self.account, call, deadline).await?;
        let odd = || {
            let failure = shapeless(&session);
            self.account.redact(Failure { certainty: Certainty::NotSent, ..failure })
        };
        let url = session["url"].as_str().and_then(|address| Url::parse(address).ok()).ok_or_else(odd)?;
        let answer = self.put(url, file).await?;
        // The video host answers in XML, the others in JSON.
        let stored = serde_json::from_slice::<Value>(answer.bytes()).ok();
        wire::upload_token(kind, &session, stored.as_ref()).ok_or_else(|| {
            let message = "max: the upload gave no token";
            self.account.redact(transient(Scope::Delivery, "upload_failed", message).with_raw(raw(&answer)))
        })
    }

    /// Puts the bytes where MAX said. The address is foreign and holds a session: judged, and never printed.
    async fn put(&self, url: Url, file: File) -> Result<Answer, Failure> {
        let part = Field::File { filename: file.filename, mime: file.mime, bytes: file.bytes };
        let request =
            Request::new(Method::Post, SecretUrl::new(url, "max upload"), self.sending.deadlines.upload)
                .payload(Payload::Multipart(vec![("data".to_owned(), part)]));
        let answer = match self.network.egress.send(&self.account.route, request).await {
            Ok(answer) => answer,
            Err(trouble) => {
                let failure = from_trouble(&trouble, Scope::Delivery);
                return Err(Failure { certainty: Certainty::NotSent, ..failure });
            }
        };
        if answer.is_success() {
            return Ok(answer);
        }
        let message = format!("max: upload answered with status {}", answer.status);
        let failure = match answer.status {
            429 | 500..=599 => transient(Scope::Delivery, "upload_failed", message),
            _ => permanent(Scope::Delivery, "upload.error", message),
        };
        Err(self.account.redact(failure.with_raw(raw(&answer))))
    }
}

/// One call. The token is in a header, so that no address holds it.
pub(super) async fn request(
    network: &Network,
    account: &Account,
    call: &Call,
    deadline: Duration,
) -> Exchange {
    let Ok(mut url) = Url::parse(&format!("{}{}", account.base(), call.path)) else {
        return Err(Trouble::not_sent(
            TroubleKind::Request,
            "the address of the API (api_base) cannot be used",
        ));
    };
    if !call.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&call.query);
    }
    let payload = call.body.clone().map_or(Payload::Empty, Payload::Json);
    let request = Request::new(call.method, SecretUrl::new(url, call.label), deadline)
        .header(secret_header("authorization", "", &account.token))
        .payload(payload);
    network.transport.send(&account.route, request).await
}

/// A call without visible effect: its result, or why there is none.
pub(super) async fn ask_for(
    purpose: Purpose,
    network: &Network,
    account: &Account,
    call: Call,
    deadline: Duration,
) -> Result<Value, Failure> {
    match classify(purpose, &request(network, account, &call, deadline).await) {
        Verdict::Done(result) => Ok(result),
        Verdict::Failed(failure) => Err(account.redact(failure)),
        Verdict::DoneBlind => Err(shapeless(&Value::Null)),
    }
}
