//! The Bot API's refusals: a code, a text that clients match on, and sometimes parameters.

use serde_json::{Value, json};

use super::ordered::Ordered;
use crate::reply::Response;

/// A refused call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiError {
    pub code: u16,
    pub description: String,
    pub parameters: Value,
}

impl ApiError {
    pub(super) fn new(code: u16, description: impl Into<String>) -> ApiError {
        ApiError { code, description: description.into(), parameters: Value::Null }
    }

    /// 400: the message gets the server's prefix, and loses its capital unless it is a constant.
    pub(super) fn bad(message: impl AsRef<str>) -> ApiError {
        ApiError::new(400, format!("Bad Request: {}", lowered(message.as_ref())))
    }

    pub(super) fn forbidden(message: &str) -> ApiError {
        ApiError::new(403, format!("Forbidden: {message}"))
    }

    /// 429 with whatever waiting time is to be told, or without any.
    pub(super) fn flood(retry_after: &Value) -> ApiError {
        if retry_after.is_null() {
            return ApiError::new(429, "Too Many Requests");
        }
        let shown = retry_after.as_str().map_or_else(|| retry_after.to_string(), str::to_owned);
        let mut error = ApiError::new(429, format!("Too Many Requests: retry after {shown}"));
        error.parameters = json!({ "retry_after": retry_after });
        error
    }

    pub(super) fn migrated(chat_id: i64) -> ApiError {
        let mut error = ApiError::bad("group chat was upgraded to a supergroup chat");
        error.parameters = json!({ "migrate_to_chat_id": chat_id });
        error
    }

    pub(super) fn response(&self) -> Response {
        let mut body = json!({ "ok": false, "error_code": self.code, "description": self.description });
        if !self.parameters.is_null() {
            body["parameters"] = self.parameters.clone();
        }
        let response = Response::json(self.code, &Ordered(&body));
        match &self.parameters["retry_after"] {
            Value::Null => response,
            Value::String(text) => response.with_header("retry-after", text.clone()),
            number => response.with_header("retry-after", number.to_string()),
        }
    }
}

/// The first letter becomes small unless the second is a capital or an underscore: constants stay as they are.
fn lowered(message: &str) -> String {
    let mut letters = message.chars();
    let (first, second) = (letters.next(), letters.next());
    match (first, second) {
        (Some(first), Some(second)) if !second.is_uppercase() && second != '_' => {
            let rest = &message[first.len_utf8()..];
            format!("{}{rest}", first.to_lowercase())
        }
        _ => message.to_owned(),
    }
}
