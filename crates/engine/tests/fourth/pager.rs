//! A platform that nobody has: pagers, which take short words over HTTP. All that is known of it stands in this file.

use domain::chat::ChatKind;
use domain::delivery::AmbiguityPolicy;
use domain::message::Message;
use domain::outcome::{Category, Failure, Outcome, Scope, Sent};
use domain::time::Span;
use futures_util::future::BoxFuture;
use platforms::facts::Facts;
use platforms::part::{
    Action, ChannelSettings, Fitted, Part, RenderError, Rendered, SendOptions, Target, TextPart,
};
use platforms::platform::{
    Account, Fare, Identity, Network, Platform, Probe, Question, Reconciled, Report, Sending,
};
use platforms::render::buttons::Rules;
use platforms::secret::SecretUrl;
use platforms::transport::{Method, Payload, Request, Route};
use serde_json::json;

const NAME: &str = "pager";

static FACTS: Facts = Facts {
    name: NAME,
    title: "Pager",
    api_base: "https://pager.example",
    usual_kind: "bot",
    account_rates: &[("", 50.0)],
    chat_rates: &[(None, 20.0)],
    ambiguity: AmbiguityPolicy::Hold,
    buttons: Rules {
        platform: NAME,
        buttons_max: 0,
        rows_max: 0,
        row_max: 0,
        link_row_max: 0,
        text_max: 0,
        callback_bytes_max: 0,
        schemes: &[],
    },
    causes: &[],
    quick_start: None,
    quick_read: None,
};

#[derive(Debug)]
pub(crate) struct Pager;

impl Platform for Pager {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn accepts_token(&self, token: &str) -> bool {
        token.starts_with("pager-")
    }

    fn chat_kind(&self, _target: &str) -> ChatKind {
        ChatKind::Private
    }

    fn render(
        &self,
        _action: &Action<'_>,
        message: &Message,
        settings: &ChannelSettings,
    ) -> Result<Rendered, RenderError> {
        let number = settings.target.parse().map_err(|_| RenderError::BadTarget {
            platform: NAME,
            target: settings.target.clone(),
            expected: "the number of a pager",
        })?;
        let part = TextPart {
            target: Target::Chat(number),
            text: Fitted::plain(message.text.as_str()),
            buttons: Vec::new(),
            options: SendOptions::default(),
        };
        Ok(Rendered { parts: vec![Part::Text(part)], notes: Vec::new() })
    }

    fn handle_lasts(&self) -> Option<Span> {
        None
    }

    fn send<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        sending: Sending<'a>,
    ) -> BoxFuture<'a, Report> {
        Box::pin(async move {
            let outcome = match beep(network, account, sending).await {
                Ok(id) => Outcome::Sent(Sent { provider_message_id: Some(id), raw: serde_json::Value::Null }),
                Err(failure) => Outcome::Failed(failure),
            };
            let ids = match &outcome {
                Outcome::Sent(sent) => sent.provider_message_id.iter().cloned().collect(),
                Outcome::Failed(_) => Vec::new(),
            };
            Report { outcome, ids, handles: Vec::new(), notes: Vec::new(), stale_handle: false }
        })
    }

    fn reconcile<'a>(&'a self, _: &'a Network, _: &'a Account, _: Question<'a>) -> BoxFuture<'a, Reconciled> {
        Box::pin(async { Reconciled::CannotKnow })
    }

    fn probe<'a>(
        &'a self,
        _: &'a Network,
        _: &'a Account,
        _: Option<&'a ChannelSettings>,
    ) -> BoxFuture<'a, Probe> {
        let identity = Identity { id: "1".into(), name: "Pager".into(), username: None };
        let probe =
            Probe { identity: Ok(identity), channel: None, connection: "plain http", limits: "50 a second" };
        Box::pin(async { probe })
    }
}

/// One request; the answer is the number of the beep.
async fn beep(network: &Network, account: &Account, sending: Sending<'_>) -> Result<String, Failure> {
    let broken = |code: &str, why: &str| Failure::new(Category::Permanent, Scope::Delivery, code, why);
    let Part::Text(part) = sending.part else { return Err(broken("words", "a pager takes words alone")) };
    let Target::Chat(number) = part.target else { return Err(broken("target", "a pager has a number")) };
    let url = format!("{}/beep/{number}", account.base());
    let url = url.parse().map_err(|_| broken("url", "the address of the pagers is wrong"))?;
    let words = Payload::Json(json!({"text": part.text.as_str(), "key": sending.key}));
    let request = Request::new(Method::Post, SecretUrl::new(url, NAME), sending.deadlines.request);
    sending.budget.pay(Fare::Visible).await?;
    let answer = network.transport.send(&Route::new(None, Vec::new()), request.payload(words)).await;
    match answer {
        Ok(answer) if answer.is_success() => Ok(String::from_utf8_lossy(answer.bytes()).into_owned()),
        Ok(answer) => Err(broken(&answer.status.to_string(), "the pager refused")),
        Err(_) => Err(Failure::new(Category::Transient, Scope::Delivery, "reset", "no answer").unknown()),
    }
}
