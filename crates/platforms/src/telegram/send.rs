//! Sending to Telegram: one part, one request, one outcome.

use domain::message::MediaKind;
use domain::outcome::{Failure, Outcome, Sent};
use serde_json::{Map, Value, json};

use super::errors::classify;
use super::wire::{self, Call};
use super::{NAME, Telegram};
use crate::incoming::Callback;
use crate::media::supply;
use crate::part::{MediaPart, Part, Target};
use crate::platform::{Account, Network, Report, Sending, misfit};
use crate::secret::SecretUrl;
use crate::transport::{Exchange, Method, Payload, Request, Trouble, TroubleKind};
use crate::verdict::{Purpose, Verdict};

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
    let mut supplies = Vec::with_capacity(part.items.len());
    for item in &part.items {
        match supply(sending.media, item).await {
            Ok(supply) => supplies.push(supply),
            Err(failure) => return Report::failed(account, failure),
        }
    }
    let kinds: Vec<MediaKind> = part.items.iter().map(|item| item.send_as).collect();
    let call = wire::media(part, supplies);
    finish(network, account, sending, Purpose::Send, call, &part.target, &kinds).await
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
        return Err(Trouble::not_sent(TroubleKind::Request, "the API base makes no address"));
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
