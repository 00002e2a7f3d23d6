//! How MAX says no: a status with `{"code","message"}`, or status 200 with `{"success":false,"message"}`.
//! The wordings are those of the sheet; where nobody has captured one, the text is ours and the code is the sheet's.

use serde_json::{Value, json};

use crate::reply::Response;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
    /// Seconds of a `Retry-After` header.
    pub retry_after: Option<String>,
}

/// The status of `success:false`, which has no code.
const UNSUCCESSFUL: &str = "";

impl ApiError {
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, message: message.into(), retry_after: None }
    }

    /// The request is malformed.
    pub fn payload(message: impl Into<String>) -> ApiError {
        ApiError::new(400, "proto.payload", message)
    }

    /// The body is not what the schema says.
    pub fn body() -> ApiError {
        ApiError::payload("Can't deserialize body")
    }

    pub fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(404, "not.found", message)
    }

    pub fn chat_not_found(id: &str) -> ApiError {
        ApiError::new(404, "chat.not.found", format!("Chat {id} not found"))
    }

    /// No access to the chat as a whole.
    pub fn chat_denied(message: impl Into<String>) -> ApiError {
        ApiError::new(403, "chat.denied", message)
    }

    /// The user stopped the bot.
    pub fn suspended() -> ApiError {
        ApiError::chat_denied("error.dialog.suspended")
    }

    /// A right is missing for this one operation.
    pub fn access_denied(message: impl Into<String>) -> ApiError {
        ApiError::new(403, "access.denied", message)
    }

    pub fn not_ready(kind: &str) -> ApiError {
        let message = format!("Key: errors.process.attachment.{kind}.not.processed");
        ApiError::new(400, "attachment.not.ready", message)
    }

    pub fn flood(retry_after: Option<String>) -> ApiError {
        ApiError { retry_after, ..ApiError::new(429, "too.many.requests", "Too many requests") }
    }

    /// Status 200 and `success:false`.
    pub fn unsuccessful(message: impl Into<String>) -> ApiError {
        ApiError::new(200, UNSUCCESSFUL, message)
    }

    /// What `PUT /messages` and `POST /answers` make of an error that `POST /messages` answers with a status:
    /// uploads that are not ready are told with `success:false` there.
    #[must_use]
    pub fn on_edit(self) -> ApiError {
        if self.code == "attachment.not.ready" { ApiError::unsuccessful(self.message) } else { self }
    }

    pub fn response(&self) -> Response {
        let body: Value = if self.code == UNSUCCESSFUL {
            json!({ "success": false, "message": self.message })
        } else {
            json!({ "code": self.code, "message": self.message })
        };
        let response = Response::json(self.status, &body);
        match &self.retry_after {
            Some(seconds) => response.with_header("retry-after", seconds.clone()),
            None => response,
        }
    }
}
