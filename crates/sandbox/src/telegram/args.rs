//! The arguments of a call, wherever they were written: query string, form, multipart or JSON body.
//! Reading is as lenient as the server's: numbers are clamped, booleans never fail, a broken JSON body is no body.

use serde_json::Value;

use super::errors::ApiError;
use crate::request::{Body, Request, Upload};

/// The arguments and files of one call. The first value of a name counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Args {
    values: Vec<(String, Value)>,
    pub files: Vec<Upload>,
    /// The reason to refuse the call before looking at it.
    pub oversized: Option<&'static str>,
}

/// All parameters that are not files, together.
const PARAMETERS_BYTES_MAX: usize = 1 << 20;
const FILES_MAX: usize = 50;

impl Args {
    pub(super) fn read(request: &Request) -> Args {
        let parameters = request.parameters();
        let n_bytes: usize = parameters.texts.iter().map(|(key, value)| key.len() + value.len()).sum();
        let mut args = Args { files: parameters.files, ..Args::default() };
        args.values.extend(parameters.texts.into_iter().map(|(key, value)| (key, Value::String(value))));
        if request.head.content_type() == "application/json" {
            let body = request.bytes();
            args.oversized = (body.len() > PARAMETERS_BYTES_MAX).then_some(TOO_MANY_PARAMETERS);
            if let Ok(Value::Object(object)) = serde_json::from_slice(&body) {
                args.values.extend(object);
            }
        }
        if matches!(request.body, Body::TooLarge) {
            args.oversized = Some("Request Entity Too Large");
        } else if n_bytes > PARAMETERS_BYTES_MAX {
            args.oversized = Some(TOO_MANY_PARAMETERS);
        } else if args.files.len() > FILES_MAX {
            args.oversized = Some("Request Entity Too Large: too many files attached");
        }
        args
    }

    /// The arguments of a call that came as an answer to a webhook.
    pub(super) fn of_object(object: serde_json::Map<String, Value>) -> Args {
        Args { values: object.into_iter().collect(), ..Args::default() }
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.values
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    /// Text, or the JSON of anything else; absent is empty.
    pub(super) fn text(&self, name: &str) -> String {
        match self.value(name) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// `true`, `yes` and `1` are true, everything else is false.
    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name).trim().to_ascii_lowercase().as_str(), "true" | "yes" | "1")
    }

    /// A number within bounds; text that is no number counts as zero.
    pub(super) fn clamped(&self, name: &str, default: i64, low: i64, high: i64) -> i64 {
        if !self.has(name) {
            return default;
        }
        self.integer(name).clamp(low, high)
    }

    /// The leading digits of the argument, or zero.
    pub(super) fn integer(&self, name: &str) -> i64 {
        leading_integer(&self.text(name))
    }

    /// An object or array, written as such or as a string.
    pub(super) fn json(&self, name: &str) -> Option<Result<Value, ()>> {
        match self.value(name)? {
            Value::String(text) if text.trim().is_empty() => None,
            Value::String(text) => Some(serde_json::from_str(text).map_err(drop)),
            other => Some(Ok(other.clone())),
        }
    }

    /// An array of entities next to a text; what is no JSON at all is ignored, as the server does.
    pub(super) fn entities(&self, name: &str) -> Option<Value> {
        self.json(name)?.ok()
    }

    /// The part of that name, which holds an uploaded file.
    pub(super) fn file(&self, field: &str) -> Option<&Upload> {
        self.files.iter().find(|upload| upload.field == field)
    }

    /// A required identifier of a message.
    pub(super) fn message_id(&self, name: &str) -> Result<i64, ApiError> {
        if !self.has(name) {
            return Err(ApiError::bad("message identifier is not specified"));
        }
        Ok(self.integer(name))
    }
}

const TOO_MANY_PARAMETERS: &str = "Request Entity Too Large: too many parameters";

pub(super) fn leading_integer(text: &str) -> i64 {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let n_digits = digits.bytes().take_while(u8::is_ascii_digit).count();
    let sign = text.len() - digits.len();
    text[..sign + n_digits].parse().unwrap_or(0)
}
