//! The whole surface of the API as one table: which method and path is which endpoint.
//! The left column is also the method's name in the ledger and in faults.

use crate::request::percent_decoded;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Me,
    EditMe,
    Commands,
    Chats,
    Chat,
    ChatByLink,
    EditChat,
    DeleteChat,
    Action,
    Pinned,
    Pin,
    Unpin,
    Membership,
    Leave,
    Members,
    AddMembers,
    RemoveMember,
    Admins,
    AddAdmins,
    RemoveAdmin,
    Send,
    Edit,
    Delete,
    List,
    Message,
    Comments,
    Comment,
    SendComment,
    EditComment,
    DeleteComment,
    Video,
    Uploads,
    /// The upload host: it is not part of the API and needs no token.
    Upload,
    Answer,
    Subscriptions,
    Subscribe,
    Unsubscribe,
    Updates,
    NotAllowed,
    Unknown,
}

const ROUTES: &[(&str, Endpoint)] = &[
    ("GET /me", Endpoint::Me),
    ("PATCH /me", Endpoint::EditMe),
    ("PATCH /me/commands", Endpoint::Commands),
    ("GET /chats", Endpoint::Chats),
    ("GET /chats/{chatId}", Endpoint::Chat),
    ("GET /chats/{link}", Endpoint::ChatByLink),
    ("PATCH /chats/{chatId}", Endpoint::EditChat),
    ("DELETE /chats/{chatId}", Endpoint::DeleteChat),
    ("POST /chats/{chatId}/actions", Endpoint::Action),
    ("GET /chats/{chatId}/pin", Endpoint::Pinned),
    ("PUT /chats/{chatId}/pin", Endpoint::Pin),
    ("DELETE /chats/{chatId}/pin", Endpoint::Unpin),
    ("GET /chats/{chatId}/members/me", Endpoint::Membership),
    ("DELETE /chats/{chatId}/members/me", Endpoint::Leave),
    ("GET /chats/{chatId}/members/admins", Endpoint::Admins),
    ("POST /chats/{chatId}/members/admins", Endpoint::AddAdmins),
    ("DELETE /chats/{chatId}/members/admins/{userId}", Endpoint::RemoveAdmin),
    ("GET /chats/{chatId}/members", Endpoint::Members),
    ("POST /chats/{chatId}/members", Endpoint::AddMembers),
    ("DELETE /chats/{chatId}/members", Endpoint::RemoveMember),
    ("POST /messages", Endpoint::Send),
    ("PUT /messages", Endpoint::Edit),
    ("DELETE /messages", Endpoint::Delete),
    ("GET /messages", Endpoint::List),
    ("GET /messages/{messageId}", Endpoint::Message),
    ("GET /messages/{messageId}/comments", Endpoint::Comments),
    ("POST /messages/{messageId}/comments", Endpoint::SendComment),
    ("PUT /messages/{messageId}/comments", Endpoint::EditComment),
    ("DELETE /messages/{messageId}/comments", Endpoint::DeleteComment),
    ("GET /messages/{messageId}/comments/{commentId}", Endpoint::Comment),
    ("GET /videos/{videoToken}", Endpoint::Video),
    ("POST /uploads", Endpoint::Uploads),
    ("POST /upload/{key}", Endpoint::Upload),
    ("PUT /upload/{key}", Endpoint::Upload),
    ("POST /answers", Endpoint::Answer),
    ("GET /subscriptions", Endpoint::Subscriptions),
    ("POST /subscriptions", Endpoint::Subscribe),
    ("DELETE /subscriptions", Endpoint::Unsubscribe),
    ("GET /updates", Endpoint::Updates),
];

/// The only paths for which the schema lists 405; elsewhere a wrong method is not found.
const NOT_ALLOWED: &[&str] = &["updates", "answers"];

/// An endpoint with the values of its path.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub endpoint: Endpoint,
    /// As in the table: `PUT /chats/{chatId}/pin`.
    pub name: String,
    values: Vec<(&'static str, String)>,
}

impl Route {
    /// Finds the endpoint of a request.
    pub(super) fn of(method: &str, path: &str) -> Route {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        for (name, endpoint) in ROUTES {
            let Some((own_method, pattern)) = name.split_once(' ') else { continue };
            if own_method == method
                && let Some(values) = matched(pattern, &segments)
            {
                return Route { endpoint: *endpoint, name: (*name).to_owned(), values };
            }
        }
        let endpoint = match segments.as_slice() {
            [only] if NOT_ALLOWED.contains(only) => Endpoint::NotAllowed,
            _ => Endpoint::Unknown,
        };
        Route { endpoint, name: format!("{method} {path}"), values: Vec::new() }
    }

    /// A value of the path; empty if the pattern has no such name.
    pub(super) fn text(&self, name: &str) -> &str {
        self.values.iter().find(|(own, _)| *own == name).map_or("", |(_, value)| value)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name).parse().ok()
    }
}

fn matched(pattern: &'static str, segments: &[&str]) -> Option<Vec<(&'static str, String)>> {
    let mut values = Vec::new();
    let mut own = pattern.trim_start_matches('/').split('/');
    for segment in segments {
        let own = own.next()?;
        match own.strip_prefix('{').and_then(|own| own.strip_suffix('}')) {
            None if own == *segment => {}
            None => return None,
            Some(name) => {
                let value = percent_decoded(segment).into_owned();
                if !fits(name, &value) {
                    return None;
                }
                values.push((name, value));
            }
        }
    }
    own.next().is_none().then_some(values)
}

/// The patterns of the schema.
fn fits(name: &str, value: &str) -> bool {
    let words = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match name {
        "chatId" | "userId" => value.parse::<i64>().is_ok(),
        "link" => {
            let plain = value.strip_prefix('@').unwrap_or(value);
            plain.starts_with(|c: char| c.is_ascii_alphabetic()) && words(plain)
        }
        "messageId" | "commentId" => {
            let plain = value.strip_prefix("mid.").unwrap_or(value);
            !plain.is_empty() && words(plain)
        }
        _ => !value.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_their_endpoints() {
        let check = |method: &str, path: &str, endpoint: Endpoint| {
            assert_eq!(Route::of(method, path).endpoint, endpoint, "{method} {path}");
        };
        check("GET", "/me", Endpoint::Me);
        check("GET", "/chats/-7", Endpoint::Chat);
        check("GET", "/chats/%40pets", Endpoint::ChatByLink);
        check("GET", "/chats/pets", Endpoint::ChatByLink);
        check("DELETE", "/chats/-7/members/", Endpoint::RemoveMember);
        check("DELETE", "/chats/-7/members/me", Endpoint::Leave);
        check("GET", "/messages/mid.00ff", Endpoint::Message);
        check("GET", "/messages/mid.00ff/comments/mid.1", Endpoint::Comment);
        check("POST", "/updates", Endpoint::NotAllowed);
        check("GET", "/answers", Endpoint::NotAllowed);
        check("POST", "/me/commands", Endpoint::Unknown);
        check("GET", "/chats/seven/pin", Endpoint::Unknown);
        check("GET", "/messages/{messageId}/comments", Endpoint::Unknown);
        check("GET", "/", Endpoint::Unknown);
        check("GET", "//", Endpoint::Unknown);
    }

    #[test]
    fn a_route_is_named_by_its_pattern() {
        let route = Route::of("DELETE", "/chats/-7/members/admins/12");
        assert_eq!(route.name, "DELETE /chats/{chatId}/members/admins/{userId}");
        assert_eq!((route.number("chatId"), route.number("userId")), (Some(-7), Some(12)));
        assert_eq!(route.text("messageId"), "");
    }
}
