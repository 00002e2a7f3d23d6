//! Who calls: a person, a community, an application, or, with `--any-token`, everybody at once.
//! What each kind may call stands in `methods`; which rights it was given stands here.

use std::sync::Arc;

use serde_json::Value;

use crate::core::Core;
use crate::limits::Window;
use crate::registry::Account;
use crate::reply::Refusal;

use super::errors::ApiError;

/// The kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    User,
    Community,
    Service,
    /// Not a thing of VK: may do whatever any of the others may.
    Full,
}

const KINDS: &[(&str, Kind)] =
    &[("user", Kind::User), ("community", Kind::Community), ("service", Kind::Service), ("full", Kind::Full)];

/// Rights of a token, with their bits in `groups.getTokenPermissions`.
pub(super) const RIGHTS: &[(&str, i64)] = &[
    ("stories", 1),
    ("photos", 4),
    ("video", 16),
    ("app_widget", 64),
    ("messages", 4096),
    ("wall", 8192),
    ("docs", 131_072),
    ("manage", 262_144),
    ("groups", 1 << 18),
];

/// What `POST /_/accounts` understands beyond the common fields.
pub(super) const ACCOUNT_FIELDS: &[&str] =
    &["rights", "groups", "rate", "callback_url", "callback_secret", "callback_code"];

/// Marks an account whose community is not known yet.
const UNBOUND: &str = "unbound";

/// A caller whose token is known.
#[derive(Clone, Debug)]
pub struct Caller {
    pub kind: Kind,
    pub account: Arc<Account>,
    /// The person behind the token; zero if there is none.
    pub user: i64,
    /// The community behind the token, as a positive number; zero if there is none.
    pub group: i64,
}

impl Caller {
    pub fn new(account: Arc<Account>) -> Caller {
        let kind = KINDS.iter().find(|(name, _)| *name == account.kind).map_or(Kind::Full, |(_, kind)| *kind);
        let id: i64 = account.id.parse().unwrap_or_default();
        let (user, group) = match kind {
            Kind::User => (id, 0),
            Kind::Community => (0, id),
            Kind::Service => (0, 0),
            Kind::Full => (id, id),
        };
        Caller { kind, account, user, group }
    }

    pub fn has_right(&self, right: &str) -> bool {
        match self.account.fields.get("rights").and_then(Value::as_array) {
            None => true,
            Some(rights) => rights.iter().any(|own| {
                // What a community key calls "manage" is "groups" for a person.
                own == right || (self.kind == Kind::User && right == "manage" && own == "groups")
            }),
        }
    }

    /// A community key whose community nobody has named: it belongs to the first one it names itself.
    pub fn is_unbound(&self) -> bool {
        self.account.flag(UNBOUND)
    }

    /// May speak and decide for a community.
    pub fn manages(&self, group: i64) -> bool {
        match self.kind {
            Kind::Full => true,
            Kind::Service => false,
            Kind::Community => self.group == group || self.is_unbound(),
            Kind::User => match self.account.fields.get("groups").and_then(Value::as_array) {
                None => true,
                Some(groups) => groups.iter().any(|own| own.as_i64().map(i64::abs) == Some(group)),
            },
        }
    }

    pub fn require_manager(&self, group: i64) -> Result<(), ApiError> {
        if self.manages(group) {
            return Ok(());
        }
        Err(ApiError::new(15, "you should be admin of the group"))
    }

    /// The id that appears as the author of what is sent: negative for communities.
    pub fn self_id(&self) -> i64 {
        if self.kind == Kind::User { self.user } else { -self.group }
    }

    /// Calls per second: 3 for people and applications, 20 for communities.
    pub fn window(&self) -> Window {
        let usual = if self.kind == Kind::Community { 20 } else { 3 };
        let rate = self.account.fields.get("rate").and_then(Value::as_u64);
        let most = rate.and_then(|rate| usize::try_from(rate).ok()).unwrap_or(usual);
        Window::new(format!("vk:{}", self.account.token), most, 1000)
    }
}

/// Checks a registration and fills in what it leaves out.
pub(super) fn complete(core: &Core, mut account: Account) -> Result<Account, Refusal> {
    account.kind = match account.kind.as_str() {
        "" => "full",
        "group" => "community",
        "app" | "application" => "service",
        "personal" => "user",
        other => other,
    }
    .to_owned();
    if !KINDS.iter().any(|(name, _)| *name == account.kind) {
        let message = format!("unknown kind {:?} of VK account", account.kind);
        return Err(Refusal::bad(message).knowing(KINDS.iter().map(|(name, _)| *name)));
    }
    check_fields(&account)?;
    if account.kind == "community" && account.id.is_empty() {
        account.fields.insert(UNBOUND.to_owned(), true.into());
    }
    account.id = completed_id(core, &account)?;
    Ok(account)
}

fn completed_id(core: &Core, account: &Account) -> Result<String, Refusal> {
    if account.id.is_empty() {
        let number = core.number_of(&account.token);
        let id = match account.kind.as_str() {
            "user" => 210_000_000 + number % 700_000_000,
            "service" => 51_000_000 + number % 1_000_000,
            _ => 220_000_000 + number % 9_000_000,
        };
        return Ok(id.to_string());
    }
    let digits = account.id.trim_start_matches("club").trim_start_matches("public").trim_start_matches("id");
    match digits.parse::<i64>() {
        Ok(id) if id != 0 => Ok(id.abs().to_string()),
        _ => Err(Refusal::bad(format!("a VK id is a number, not {:?}", account.id))),
    }
}

fn check_fields(account: &Account) -> Result<(), Refusal> {
    for (field, value) in &account.fields {
        let fits = match field.as_str() {
            "rights" => value.as_array().is_some_and(|rights| rights.iter().all(is_right)),
            "groups" => value.as_array().is_some_and(|groups| groups.iter().all(Value::is_i64)),
            "rate" => value.as_u64().is_some_and(|rate| rate > 0),
            "callback_url" => value.as_str().is_some_and(|url| url.starts_with("http")),
            _ => value.is_string(),
        };
        if !fits {
            let names = RIGHTS.iter().map(|(name, _)| *name);
            let refusal = Refusal::bad(format!("field {field:?} cannot be {value}"));
            return Err(if field == "rights" { refusal.knowing(names) } else { refusal });
        }
    }
    Ok(())
}

fn is_right(value: &Value) -> bool {
    RIGHTS.iter().any(|(name, _)| value == name)
}
