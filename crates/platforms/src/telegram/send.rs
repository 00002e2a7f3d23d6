//! Sending to Telegram: one part, one request, one outcome.

use domain::message::MediaKind;
use domain::outcome::{Failure, Outcome, Scope, Sent};
use serde_json::{Map, Value, json};

use super::errors::{blames_file, classify};
use super::wire::{self, Call};
use super::{NAME, Telegram};
use crate::incoming::Callback;
use crate::media::{Supply, is_lost, left_out, supply};
use crate::part::{Fitted, MediaPart, Part, Target, TextPart};
use crate::platform::{Account, Fare, Network, Report, Sending, misfit};
use crate::secret::SecretUrl;
use crate::transport::{Exchange, Method, Payload, Request, Trouble, TroubleKind};
use crate::verdict::{Purpose, Verdict, permanent};

impl Telegram {
    pub(super) async fn send_part(
        &self,
        network: &Network,
        account: &Account,
        sending: Sending<'_>,
    ) -> Report {
        match sending.part {
            Part::Text(part) => {
                let call = wire::text(part);
                finish(network, account, sending, Purpose::Send, call, &part.target, &[]).await
            }
            Part::Media(part) => send_media(network, account, sending, part).await,
            Part::Edit(part) => match part.id.parse() {
                Ok(id) => {
                    let call = wire::edit(part, id);
                    let report =
                        finish(network, account, sending, Purpose::Edit, call, &part.target, &[]).await;
                    report.about(Some(&part.id))
                }
                Err(_) => {
                    Report::failed(account, misfit(NAME, "the id of the message to edit is not a number"))
                }
            },
            Part::Delete(part) => {
                let ids: Result<Vec<i64>, _> = part.ids.iter().map(|id| id.parse()).collect();
                match ids {
                    Ok(ids) => {
                        let call = wire::delete(part, &ids);
                        let report =
                            finish(network, account, sending, Purpose::Delete, call, &part.target, &[]).await;
                        report.about(part.ids.first())
                    }
                    Err(_) => {
                        Report::failed(account, misfit(NAME, "an id of a message to delete is not a number"))
                    }
                }
            }
            Part::Pin(part) => {
                let named = sending.earlier.get(part.of_part).and_then(|ids| ids.first());
                match named.and_then(|id| id.parse().ok()) {
                    Some(id) => {
                        let call = wire::pin(part, id);
                        let report =
                            finish(network, account, sending, Purpose::Pin, call, &part.target, &[]).await;
                        report.about(named)
                    }
                    None => Report::failed(account, misfit(NAME, "the message to pin has no known id")),
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
        let mut fields = Map::new();
        fields.insert("callback_query_id".into(), json!(callback.id));
        if let Some(text) = text {
            fields.insert("text".into(), json!(text));
        }
        let call = Call::json("answerCallbackQuery", fields);
        let deadline = crate::platform::Deadlines::default().request;
        let exchange = request(network, account, call, deadline).await;
        match classify(Purpose::Read, &exchange) {
            Verdict::Failed(failure) => Outcome::Failed(account.redact(failure)),
            _ => Outcome::Sent(Sent { provider_message_id: None, raw: Value::Null }),
        }
    }
}

async fn send_media(network: &Network, account: &Account, sending: Sending<'_>, part: &MediaPart) -> Report {
    let mut notes = Vec::new();
    let mut supplies = Vec::with_capacity(part.items.len());
    let mut kept = MediaPart { items: Vec::new(), ..part.clone() };
    let mut indices = Vec::new();
    let mut by_kept_id = false;
    for (n, item) in part.items.iter().enumerate() {
        match supply(sending.media, item).await {
            Ok(supply) => {
                by_kept_id |= matches!(supply, Supply::Handle(_));
                supplies.push(supply);
                kept.items.push(item.clone());
                indices.push(n);
            }
            Err(failure) if is_lost(&failure) => notes.push(left_out(item, &failure)),
            Err(failure) => return Report::failed(account, failure),
        }
    }
    let call = match (kept.items.is_empty(), &part.caption) {
        (false, _) => wire::media(&kept, supplies),
        (true, Some(caption)) => wire::text(&words_alone(part, caption)),
        (true, None) => {
            let failure = permanent(Scope::Delivery, "media_missing", "none of the media can be had");
            return Report { notes, ..Report::failed(account, failure) };
        }
    };
    let kinds: Vec<MediaKind> = kept.items.iter().map(|item| item.send_as).collect();
    let mut report = finish(network, account, sending, Purpose::Send, call, &part.target, &kinds).await;
    // Handles are told by the index in the part as it was given.
    report.handles.iter_mut().for_each(|(n, _)| *n = indices[*n]);
    report.notes.extend(notes);
    report.blame_handles(by_kept_id, blames_file)
}

/// A caption whose media are all lost still fits a message: captions are shorter.
fn words_alone(part: &MediaPart, caption: &Fitted) -> TextPart {
    TextPart {
        target: part.target.clone(),
        text: caption.clone(),
        buttons: part.buttons.clone(),
        options: part.options.clone(),
    }
}

async fn finish(
    network: &Network,
    account: &Account,
    sending: Sending<'_>,
    purpose: Purpose,
    call: Call,
    target: &Target,
    kinds: &[MediaKind],
) -> Report {
    if let Err(failure) = sending.budget.pay(Fare::Visible).await {
        return Report::failed(account, failure);
    }
    let is_paid = account.paid_broadcast && purpose == Purpose::Send && sending.budget.may_cost();
    let call = if is_paid { call.paid() } else { call };
    let deadline = match call.payload {
        Payload::Multipart(_) => sending.deadlines.upload,
        _ => sending.deadlines.request,
    };
    let verdict = classify(purpose, &request(network, account, call, deadline).await);
    let (handles, other_chat) = match &verdict {
        Verdict::Done(result) => (wire::handles(result, kinds), wire::is_other_chat(target, result)),
        _ => (Vec::new(), false),
    };
    let report = Report { handles, ..Report::of(account, verdict, wire::message_ids) };
    if other_chat { report.note("telegram answered for another chat than the one asked for") } else { report }
}

/// One call. The token is in the path, so the address is a secret from here on.
pub(super) async fn request(
    network: &Network,
    account: &Account,
    call: Call,
    deadline: std::time::Duration,
) -> Exchange {
    let address = format!("{}/bot{}/{}", account.base(), account.token.expose(), call.method);
    let Ok(url) = url::Url::parse(&address) else {
        return Err(Trouble::not_sent(
            TroubleKind::Request,
            "the address of the API (api_base) cannot be used",
        ));
    };
    let url = SecretUrl::new(url, format!("telegram {}", call.method));
    let request = Request::new(Method::Post, url, deadline).payload(call.payload);
    network.transport.send(&account.route, request).await
}

/// A read-only call: its result, or why there is none.
pub(super) async fn ask(
    network: &Network,
    account: &Account,
    method: &'static str,
    fields: Value,
    deadline: std::time::Duration,
) -> Result<Value, Failure> {
    let call = Call { method, payload: Payload::Json(fields) };
    match classify(Purpose::Read, &request(network, account, call, deadline).await) {
        Verdict::Done(result) => Ok(result),
        Verdict::Failed(failure) => Err(account.redact(failure)),
        // `for_purpose` turns this into a failure for everything that is only read.
        Verdict::DoneBlind => Err(crate::verdict::shapeless(&Value::Null)),
    }
}
