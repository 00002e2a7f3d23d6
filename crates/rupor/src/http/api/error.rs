//! What a caller hears when something is wrong, as RFC 9457: a stable code, a sentence, and the field where it is one. What went wrong inside is for the log,
//! found there by the id that both carry.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after_s: Option<u64>,
    allow: Option<&'static str>,
    ask: Option<&'static str>,
    /// The field that is wrong.
    field: Option<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        let message = message.into();
        ApiError { status, code, message, retry_after_s: None, allow: None, ask: None, field: None }
    }

    pub(crate) fn unauthorized(message: &str) -> ApiError {
        let error = ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
        ApiError { ask: Some("Bearer realm=\"rupor\""), ..error }
    }

    /// With the words on which a browser asks its user.
    pub(crate) fn asking_browsers(self) -> ApiError {
        ApiError { ask: Some("Basic realm=\"rupor\", charset=\"UTF-8\""), ..self }
    }

    /// Without a token only this machine may look, and somebody passed this request on.
    pub(crate) fn token_needed() -> ApiError {
        let message = "this request came through a proxy or from another machine, and the node has no token; \
                       start it with RUPOR_HTTP_TOKEN (`openssl rand -hex 32`)";
        ApiError::new(StatusCode::FORBIDDEN, "token_needed", message)
    }

    pub(crate) fn from_elsewhere() -> ApiError {
        let message = "a page of another site asked; open the board in a tab of its own";
        ApiError::new(StatusCode::FORBIDDEN, "foreign_origin", message)
    }

    pub(crate) fn takes_too_long() -> ApiError {
        let message = "this takes too long; nothing was acknowledged, the same call may be made again";
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "takes_too_long", message);
        ApiError { retry_after_s: Some(5), ..error }
    }

    /// The handler panicked; whether it had done its work, nobody knows.
    pub(crate) fn broke() -> ApiError {
        let message = "a fault of rupor, please report it; whether this was done is not known, look before you repeat it";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "broke", message)
    }

    pub(crate) fn not_found() -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here; see /v1/openapi.json")
    }

    pub(crate) fn foreign_host() -> ApiError {
        let message =
            "this node answers to localhost only; a proxy in front names its host in RUPOR_HTTP_HOSTS";
        ApiError::new(StatusCode::MISDIRECTED_REQUEST, "foreign_host", message)
    }

    pub(crate) fn method(allowed: &'static str) -> ApiError {
        let message = format!("only {allowed} is answered here");
        let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        ApiError { allow: Some(allowed), ..error }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    /// One field is wrong; nothing was done.
    pub(crate) fn field(name: &str, message: impl Into<String>) -> ApiError {
        let name: String = name.chars().take(50).collect();
        let message = format!("{name}: {}", message.into());
        let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_field", message);
        ApiError { field: Some(name), ..error }
    }

    pub(crate) fn in_field(self, name: &str) -> ApiError {
        ApiError { message: format!("{name}: {}", self.message), field: Some(name.to_owned()), ..self }
    }

    /// What the path names is not here, as with everything that a path names.
    pub(crate) fn in_path(self) -> ApiError {
        ApiError { status: StatusCode::NOT_FOUND, code: "not_found", ..self }
    }

    /// The words name the field already.
    pub(crate) fn about_field(self, name: String) -> ApiError {
        ApiError { field: Some(name), ..self }
    }

    #[cfg(test)]
    pub(crate) fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// A field that is read apart stands in the list of the known ones too.
    pub(crate) fn also_known(mut self, field: &str) -> ApiError {
        if self.message.contains("unknown field") && self.message.contains("expected one of") {
            self.message += &format!(", `{field}`");
        }
        self
    }

    /// What was asked for is not here.
    pub(crate) fn absent(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Well formed, and still not to be done.
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    pub(crate) fn media_type(message: &str) -> ApiError {
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(crate) fn too_large(bytes_max: usize) -> ApiError {
        let message = format!("more than {bytes_max} bytes; split the batch");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// One thing is too large, and there is no batch to split.
    pub(crate) fn for_one(self, bytes_max: usize) -> ApiError {
        match self.status {
            StatusCode::PAYLOAD_TOO_LARGE => {
                ApiError { message: format!("more than {bytes_max} bytes; send smaller photos"), ..self }
            }
            _ => self,
        }
    }

    pub(crate) fn too_often(wait_s: u64) -> ApiError {
        let message = format!("too many calls; come back in {wait_s} s");
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
        ApiError { retry_after_s: Some(wait_s), ..error }
    }

    /// Too much waits already; nothing was taken.
    pub(crate) fn full(wait_s: u64) -> ApiError {
        let message = "too many messages wait to be answered; nothing was taken, send it again later";
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "full", message);
        ApiError { retry_after_s: Some(wait_s), ..error }
    }

    /// The bodies of other calls fill the room that there is; nothing was taken.
    pub(crate) fn crowded() -> ApiError {
        let message = "other large calls are being worked on; nothing was taken, make the same call again";
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "full", message);
        ApiError { retry_after_s: Some(1), ..error }
    }

    pub(crate) fn too_slow() -> ApiError {
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body did not come in time")
    }

    /// Nothing was acknowledged; the same call may be made again.
    pub(crate) fn inside(error: &anyhow::Error) -> ApiError {
        let id = uuid::Uuid::new_v4().simple().to_string();
        tracing::error!(request = id, error = format!("{error:#}"), "a post could not be taken in");
        let message = format!("nothing was taken in; try again later (request {id})");
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        ApiError { retry_after_s: Some(5), ..error }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // RFC 9457, and the shape that callers of the first days know.
        let mut problem = json!({
            "type": format!("urn:rupor:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.message,
            "error": {"code": self.code, "message": self.message},
        });
        if let Some(field) = &self.field {
            problem["field"] = json!(field);
        }
        let mut answer = (self.status, axum::Json(problem)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after_s {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allow) = self.allow {
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(ask) = self.ask {
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(ask));
        }
        answer
    }
}
