//! A platform that nobody has: pagers, which take short words over HTTP. All that is known of it stands in this file.

use std::time::Duration;

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
use platforms::walls::{Page, Place, RawPost, Wall, WallReader};
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

    fn walls(&self) -> Option<&dyn WallReader> {
        Some(self)
    }
}

/// A pager has a wall too: what was called out on its number, for anybody to read.
impl WallReader for Pager {
    fn wall(&self, address: &str) -> Option<Wall> {
        address.parse().ok().map(Wall::Owner)
    }

    fn page_max(&self) -> u32 {
        100
    }

    fn page<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        wall: &'a Wall,
        place: Place,
    ) -> BoxFuture<'a, Result<Page, Failure>> {
        Box::pin(async move {
            let Wall::Owner(number) = wall else { return Err(refused("wall", "a pager has a number")) };
            let url = format!("{}/wall/{number}", account.base());
            let url = url.parse().map_err(|_| refused("url", "the address of the pagers is wrong"))?;
            let request = Request::new(Method::Get, SecretUrl::new(url, NAME), place.deadline);
            let answer = network.transport.send(&Route::new(None, Vec::new()), request).await;
            let answer = answer.map_err(|_| refused("reset", "no answer"))?;
            let posts: Vec<RawPost> =
                serde_json::from_slice(answer.bytes()).map_err(|_| refused("body", "this is no wall"))?;
            Ok(Page { total: posts.len() as i64, posts, ..Page::default() })
        })
    }

    fn posts<'a>(
        &'a self,
        _: &'a Network,
        _: &'a Account,
        _: &'a [(i64, i64)],
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<RawPost>, Failure>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn post_page(&self, owner_id: i64, post_id: i64) -> String {
        format!("https://pager.example/{owner_id}/{post_id}")
    }

    fn photo_page(&self, id: &str) -> String {
        format!("https://pager.example/photo/{id}")
    }

    fn post_named(&self, _text: &str) -> Option<(i64, i64)> {
        None
    }

    fn remedy(&self, _code: &str) -> Option<&'static str> {
        None
    }

    fn is_closed(&self, _code: &str) -> bool {
        false
    }
}

fn refused(code: &str, why: &str) -> Failure {
    Failure::new(Category::Permanent, Scope::Delivery, code, why)
}

/// One request; the answer is the number of the beep.
async fn beep(network: &Network, account: &Account, sending: Sending<'_>) -> Result<String, Failure> {
    let Part::Text(part) = sending.part else { return Err(refused("words", "a pager takes words alone")) };
    let Target::Chat(number) = part.target else { return Err(refused("target", "a pager has a number")) };
    let url = format!("{}/beep/{number}", account.base());
    let url = url.parse().map_err(|_| refused("url", "the address of the pagers is wrong"))?;
    let words = Payload::Json(json!({"text": part.text.as_str(), "key": sending.key}));
    let request = Request::new(Method::Post, SecretUrl::new(url, NAME), sending.deadlines.request);
    sending.budget.pay(Fare::Visible).await?;
    let answer = network.transport.send(&Route::new(None, Vec::new()), request.payload(words)).await;
    match answer {
        Ok(answer) if answer.is_success() => Ok(String::from_utf8_lossy(answer.bytes()).into_owned()),
        Ok(answer) => Err(refused(&answer.status.to_string(), "the pager refused")),
        Err(_) => Err(Failure::new(Category::Transient, Scope::Delivery, "reset", "no answer").unknown()),
    }
}
