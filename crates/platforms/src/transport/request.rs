//! A request before it leaves: method, address, payload and limits. Nothing of it can be printed but its label.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::multipart::{Form, Part};
use reqwest::{Client, RequestBuilder};
use serde_json::Value;

use super::{ANSWER_BYTES_MAX, Trouble, TroubleKind};
use crate::secret::SecretUrl;

/// The verbs that the platforms use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// What goes in the body.
#[derive(Clone, Default)]
pub enum Payload {
    #[default]
    Empty,
    Json(Value),
    Form(Vec<(String, String)>),
    Multipart(Vec<(String, Field)>),
}

/// One part of a multipart body.
#[derive(Clone)]
pub enum Field {
    Text(String),
    File { filename: String, mime: String, bytes: Bytes },
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Payload::Empty => "Empty",
            Payload::Json(_) => "Json(…)",
            Payload::Form(_) => "Form(…)",
            Payload::Multipart(_) => "Multipart(…)",
        })
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::Text(_) => "Text(…)",
            Field::File { .. } => "File(…)",
        })
    }
}

/// One request. The deadline and the size of the answer are always bounded.
#[derive(Clone)]
pub struct Request {
    pub(super) method: Method,
    pub(super) url: SecretUrl,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) payload: Payload,
    pub(super) deadline: Duration,
    pub(super) answer_bytes_max: usize,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Request {
    pub fn new(method: Method, url: SecretUrl, deadline: Duration) -> Request {
        Request {
            method,
            url,
            headers: Vec::new(),
            payload: Payload::Empty,
            deadline,
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }

    #[must_use]
    pub fn payload(mut self, payload: Payload) -> Request {
        self.payload = payload;
        self
    }

    #[must_use]
    pub(crate) fn header(mut self, header: Option<(HeaderName, HeaderValue)>) -> Request {
        self.headers.extend(header);
        self
    }

    #[must_use]
    pub fn answer_bytes_max(mut self, bytes: usize) -> Request {
        self.answer_bytes_max = bytes;
        self
    }

    /// Where it goes; only for judging.
    pub(crate) fn target(&self) -> &url::Url {
        self.url.expose()
    }

    pub(super) fn into_outgoing(self, client: &Client) -> Result<reqwest::Request, Trouble> {
        let method = match self.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Patch => reqwest::Method::PATCH,
            Method::Delete => reqwest::Method::DELETE,
        };
        let mut builder = client.request(method, self.url.expose().clone());
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        with_payload(builder, self.payload)
            .and_then(RequestBuilder::build)
            .map_err(|_| Trouble::not_sent(TroubleKind::Request, "the request could not be built"))
    }
}

fn with_payload(builder: RequestBuilder, payload: Payload) -> reqwest::Result<RequestBuilder> {
    Ok(match payload {
        Payload::Empty => builder,
        Payload::Json(value) => builder.json(&value),
        Payload::Form(fields) => builder.form(&fields),
        Payload::Multipart(fields) => {
            let mut form = Form::new();
            for (name, field) in fields {
                form = form.part(name, part(field)?);
            }
            builder.multipart(form)
        }
    })
}

fn part(field: Field) -> reqwest::Result<Part> {
    match field {
        Field::Text(text) => Ok(Part::text(text)),
        Field::File { filename, mime, bytes } => {
            let length = bytes.len() as u64;
            Part::stream_with_length(bytes, length).file_name(filename).mime_str(&mime)
        }
    }
}
