//! What a platform gives back for a request: bytes for the client and a line for the ledger.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// An HTTP answer, small enough to keep whole.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

impl Response {
    /// JSON with the given status.
    pub fn json(status: u16, value: &impl Serialize) -> Response {
        // Our own values always serialise: keys are strings and no writer can fail.
        let body = serde_json::to_vec(value).unwrap_or_default();
        Response { status, content_type: "application/json", headers: Vec::new(), body: body.into() }
    }

    /// Plain text with the given status.
    pub fn text(status: u16, text: impl Into<String>) -> Response {
        let body = Bytes::from(text.into());
        Response { status, content_type: "text/plain; charset=utf-8", headers: Vec::new(), body }
    }

    /// Bytes of a file.
    pub fn file(content_type: &'static str, body: Bytes) -> Response {
        Response { status: 200, content_type, headers: Vec::new(), body }
    }

    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }
}

/// What became of a request: the part of a ledger row that only the platform knows.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    /// Did it take effect.
    pub accepted: bool,
    /// The message or messages that a reader sees because of it: a number, a string, or an array.
    pub visible_id: Value,
    /// The text or caption that was asked for; `None` keeps what `Target` said.
    pub text: Option<String>,
    /// One object per photo, video or file.
    pub media: Vec<Value>,
}

impl Effect {
    /// The request was refused.
    pub fn refused() -> Effect {
        Effect::default()
    }

    /// The request took effect and nothing became visible.
    pub fn done() -> Effect {
        Effect { accepted: true, ..Effect::default() }
    }

    /// The request made `visible_id` visible.
    pub fn visible(visible_id: impl Into<Value>) -> Effect {
        Effect { accepted: true, visible_id: visible_id.into(), ..Effect::default() }
    }
}

/// Answer and effect together.
#[derive(Clone, Debug)]
pub struct Reply {
    pub response: Response,
    pub effect: Effect,
}

impl Reply {
    pub fn refused(response: Response) -> Reply {
        Reply { response, effect: Effect::refused() }
    }

    pub fn done(response: Response) -> Reply {
        Reply { response, effect: Effect::done() }
    }
}

/// A control call or a registration that cannot be obeyed: says why, and what would have been understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub message: String,
    pub known: Vec<String>,
}

impl Refusal {
    pub fn bad(message: impl Into<String>) -> Refusal {
        Refusal { status: 400, message: message.into(), known: Vec::new() }
    }

    pub fn not_found(message: impl Into<String>) -> Refusal {
        Refusal { status: 404, message: message.into(), known: Vec::new() }
    }

    #[must_use]
    pub fn knowing<S: AsRef<str>>(mut self, known: impl IntoIterator<Item = S>) -> Refusal {
        self.known = known.into_iter().map(|name| name.as_ref().to_owned()).collect();
        self
    }

    pub fn response(&self) -> Response {
        let mut body = serde_json::json!({ "error": self.message });
        if !self.known.is_empty() {
            body["known"] = serde_json::json!(self.known);
        }
        Response::json(self.status, &body)
    }
}
