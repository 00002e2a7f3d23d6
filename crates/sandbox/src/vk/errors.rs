//! Refusals as VK words them: a number, a fixed text, and often a detail after a colon.
//! They travel inside HTTP 200. The texts are those of the platform sheet and the published schema.

use serde_json::{Map, Value, json};

use crate::reply::Response;

/// The fixed text of each error number.
const TEXTS: &[(i64, &str)] = &[
    (1, "Unknown error occurred"),
    (2, "Application is disabled. Enable your application or use test mode"),
    (3, "Unknown method passed"),
    (4, "Incorrect signature"),
    (5, "User authorization failed"),
    (6, "Too many requests per second"),
    (7, "Permission to perform this action is denied"),
    (8, "Invalid request"),
    (9, "Flood control"),
    (10, "Internal server error"),
    (11, "In test mode application should be disabled or user should be authorized"),
    (12, "Unable to compile code"),
    (13, "Runtime error occurred during code invocation"),
    (14, "Captcha needed"),
    (15, "Access denied"),
    (16, "HTTP authorization failed"),
    (17, "Validation required"),
    (18, "User was deleted or banned"),
    (19, "Content blocked"),
    (20, "Permission to perform this action is denied for non-standalone applications"),
    (21, "Permission to perform this action is allowed only for standalone and OpenAPI applications"),
    (22, "Upload error"),
    (23, "This method was disabled"),
    (24, "Confirmation required"),
    (25, "Token confirmation required"),
    (27, "Group authorization failed"),
    (28, "Application authorization failed"),
    (29, "Rate limit reached"),
    (30, "This profile is private"),
    (32, "Need wait"),
    (33, "Not implemented yet"),
    (34, "Client version deprecated"),
    (35, "Client update needed"),
    (36, "Method execution was interrupted due to timeout"),
    (37, "User was banned"),
    (38, "Unknown application"),
    (39, "Unknown user"),
    (40, "Unknown group"),
    (41, "Additional signup required"),
    (42, "IP is not allowed"),
    (43, "This section is temporary unavailable"),
    (100, "One of the parameters specified was missing or invalid"),
    (101, "Invalid application API ID"),
    (103, "Out of limits"),
    (104, "Not found"),
    (105, "Couldn't save file"),
    (113, "Invalid user id"),
    (114, "Invalid album id"),
    (118, "Invalid server"),
    (119, "Invalid title"),
    (121, "Invalid hash"),
    (122, "Invalid photos"),
    (125, "Invalid group id"),
    (129, "Invalid photo"),
    (150, "Invalid timestamp"),
    (200, "Access denied"),
    (201, "Access denied"),
    (203, "Access to group denied"),
    (204, "Access denied"),
    (210, "Access to wall's post denied"),
    (211, "Access to wall's comment denied"),
    (212, "Access to post comments denied"),
    (213, "Access to status replies denied"),
    (214, "Access to adding post denied"),
    (219, "Advertisement post was recently added"),
    (220, "Too many recipients"),
    (222, "Hyperlinks are forbidden"),
    (223, "Too many replies"),
    (224, "Too many ads posts"),
    (225, "Donut is disabled"),
    (300, "This album is full"),
    (302, "Albums number limit is reached"),
    (703, "You need to enable 2FA for this action"),
    (704, "User needs to enable 2FA for this action"),
    (900, "Can't send messages for users from blacklist"),
    (901, "Can't send messages for users without permission"),
    (902, "Can't send messages to this user due to their privacy settings"),
    (907, "Value of ts or pts is too old"),
    (908, "Value of ts or pts is too new"),
    (909, "Can't edit this message, because it's too old"),
    (910, "Can't sent this message, because it's too big"),
    (911, "Keyboard format is invalid"),
    (912, "This is a chat bot feature, change this status in settings"),
    (913, "Too many forwarded messages"),
    (914, "Message is too long"),
    (917, "You don't have access to this chat"),
    (919, "You can't see invite link for this chat"),
    (920, "Can't edit this kind of message"),
    (921, "Can't forward these messages"),
    (922, "You left this chat"),
    (924, "Can't delete this message for everybody"),
    (925, "You are not admin of this chat"),
    (927, "Chat does not exist"),
    (931, "You can't change invite link for this chat"),
    (932, "Your community can't interact with this peer"),
    (935, "User not found in chat"),
    (936, "Contact not found"),
    (939, "Message request already sent"),
    (940, "Too many posts in messages"),
    (942, "Cannot pin one-time story"),
    (943, "Cannot use this intent"),
    (944, "Limits overflow for this intent"),
    (945, "Chat was disabled"),
    (946, "Chat not supported"),
    (947, "Can't add user to chat, because user has no access to group"),
    (949, "Can't edit pinned message yet"),
    (950, "Can't send message, reply timed out"),
    (962, "You can't access donut chat without subscription"),
    (969, "Message cannot be forwarded"),
    (970, "Cannot pin an expiring message"),
    (985, "Cannot write to notifications only groups"),
    (987, "Need message request"),
    (988, "Pending message request"),
    (990, "Drop device cache"),
    (1009, "Unknown reaction passed"),
    (1010, "This reaction has been disabled"),
    (1011, "Reactions limit for this message has been reached"),
    (1012, "Writing is disabled for this chat"),
    (1105, "Too many auth attempts, try again later"),
    (1117, "Access token has expired"),
    (1150, "Invalid document id"),
    (1151, "Access to document deleting is denied"),
    (1152, "Invalid document title"),
    (1153, "Access to document is denied"),
    (1154, "Access to document restoring is denied"),
    (1155, "Document was deleted too long ago"),
    (1260, "Invalid screen name"),
    (2000, "Servers number limit is reached"),
    (3102, "Specified link is incorrect (can't find source)"),
    (3300, "Recaptcha needed"),
    (3301, "Phone validation needed"),
    (3302, "Password validation needed"),
    (3303, "Otp app validation needed"),
    (3304, "Email confirmation needed"),
    (3305, "Assert votes"),
    (3609, "Token extension required"),
    (3610, "User is deactivated"),
    (3611, "Service is deactivated for user"),
    (9999, "Not supported http method"),
    (13000, "Content upload denied"),
];

/// A refusal of one method call.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub code: i64,
    pub subcode: Option<i64>,
    /// What follows the fixed text after a colon; empty if nothing does.
    pub detail: String,
    /// Fields that only some errors have: the captcha, an address to visit.
    pub extra: Map<String, Value>,
}

impl ApiError {
    /// An error without detail.
    pub fn plain(code: i64) -> ApiError {
        ApiError { code, subcode: None, detail: String::new(), extra: Map::new() }
    }

    pub fn new(code: i64, detail: impl Into<String>) -> ApiError {
        ApiError { detail: detail.into(), ..ApiError::plain(code) }
    }

    /// Error 100: a parameter is missing or wrong.
    pub fn parameter(detail: impl Into<String>) -> ApiError {
        ApiError::new(100, detail)
    }

    /// The token lacks the right this method needs.
    pub fn scope() -> ApiError {
        let detail = "no access to call this method. It cannot be called with current scopes.";
        ApiError { subcode: Some(1133), ..ApiError::new(15, detail) }
    }

    pub fn message(&self) -> String {
        let text =
            TEXTS.iter().find(|(code, _)| *code == self.code).map_or("Unknown error", |(_, text)| text);
        if self.detail.is_empty() { text.to_owned() } else { format!("{text}: {}", self.detail) }
    }

    /// The whole answer. The token is never repeated in it.
    pub fn response(&self, method: &str, parameters: &[(String, String)]) -> Response {
        let pair = |key: &str, value: &str| json!({ "key": key, "value": value });
        let mut echoed = vec![pair("oauth", "1"), pair("method", method)];
        let open = parameters.iter().filter(|(key, _)| key != "access_token");
        echoed.extend(open.map(|(key, value)| pair(key, value)));
        let mut error = Map::new();
        error.insert("error_code".into(), self.code.into());
        if let Some(subcode) = self.subcode {
            error.insert("error_subcode".into(), subcode.into());
        }
        error.insert("error_msg".into(), self.message().into());
        error.extend(self.extra.clone());
        error.insert("request_params".into(), echoed.into());
        Response::json(200, &json!({ "error": error }))
    }
}
