//! Who exists: accounts (tokens) and chats.
//! Without `--any-token` only what was registered exists; with it everything is made up on first use.
//! What the fields mean is the platforms' business.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::faults::{known_fields, optional_text, required_text};
use crate::platform::Name;
use crate::reply::Refusal;

/// The fields every account may have in `POST /_/accounts`.
pub const ACCOUNT_FIELDS: &[&str] = &["platform", "token", "id", "kind", "name", "username"];

/// The fields every chat may have in `POST /_/chats`.
pub const CHAT_FIELDS: &[&str] = &["platform", "id", "type", "title", "username"];

/// A token and whom it stands for.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    pub platform: Name,
    #[serde(serialize_with = "crate::guard::serialize_masked")]
    pub token: String,
    /// Bot id, community id or user id.
    pub id: String,
    /// VK: user, community, service. Telegram and MAX: bot.
    pub kind: String,
    pub name: String,
    pub username: String,
    /// The platform's own fields.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Account {
    /// A boolean field of the platform's own.
    pub fn flag(&self, field: &str) -> bool {
        self.fields.get(field).and_then(Value::as_bool).unwrap_or(false)
    }
}

/// A place where messages appear.
#[derive(Clone, Debug, Serialize)]
pub struct Chat {
    pub platform: Name,
    /// The canonical id as text.
    pub id: String,
    /// private, group, supergroup, channel, dialog, chat, wall: the platform's own word.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub username: String,
    /// The platform's own fields.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Chat {
    pub fn field(&self, name: &str) -> &Value {
        self.fields.get(name).unwrap_or(&Value::Null)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.field(name).as_bool().unwrap_or(false)
    }
}

/// The registered and the made-up.
#[derive(Debug)]
pub struct Registry {
    any_token: bool,
    accounts: RwLock<HashMap<(Name, String), Arc<Account>>>,
    chats: RwLock<Chats>,
}

#[derive(Debug, Default)]
struct Chats {
    by_id: HashMap<(Name, String), Arc<Chat>>,
    /// Lower-case user names without the at sign.
    by_name: HashMap<(Name, String), String>,
}

/// More accounts than this are refused; made-up ones are forgotten instead.
const ACCOUNTS_MAX: usize = 100_000;
/// More registered chats than this are refused; made-up ones are not kept here beyond it.
const CHATS_MAX: usize = 1_000_000;

impl Registry {
    pub fn new(any_token: bool) -> Registry {
        Registry { any_token, accounts: RwLock::default(), chats: RwLock::default() }
    }

    pub fn any_token(&self) -> bool {
        self.any_token
    }

    /// The account of a token. With `any_token` an unknown one is made by `invent`, which may still decline.
    pub fn account(
        &self,
        platform: Name,
        token: &str,
        invent: impl FnOnce(Account) -> Result<Account, Refusal>,
    ) -> Option<Arc<Account>> {
        let key = (platform, token.to_owned());
        if let Some(account) = self.accounts.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(Arc::clone(account));
        }
        if !self.any_token {
            return None;
        }
        let account = invent(Account::blank(platform, token)).ok()?;
        self.add_account(account).ok()
    }

    /// Registers an account, replacing one with the same token.
    pub fn add_account(&self, account: Account) -> Result<Arc<Account>, Refusal> {
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        if accounts.len() >= ACCOUNTS_MAX {
            return Err(Refusal::bad(format!(
                "there are {ACCOUNTS_MAX} accounts already; reset or restart the sandbox"
            )));
        }
        let account = Arc::new(account);
        accounts.insert((account.platform, account.token.clone()), Arc::clone(&account));
        Ok(account)
    }

    /// All accounts of a platform, by id, then token.
    pub fn accounts(&self, platform: Name) -> Vec<Arc<Account>> {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<_> =
            accounts.values().filter(|account| account.platform == platform).cloned().collect();
        found.sort_by(|a, b| (&a.id, &a.token).cmp(&(&b.id, &b.token)));
        found
    }

    /// Accounts that a control call names by token or id; all of the platform without a name.
    pub fn named_accounts(&self, platform: Name, name: Option<&str>) -> Vec<Arc<Account>> {
        let mut found = self.accounts(platform);
        found.retain(|account| name.is_none_or(|name| account.token == name || account.id == name));
        found
    }

    pub fn chat(&self, platform: Name, id: &str) -> Option<Arc<Chat>> {
        let chats = self.chats.read().unwrap_or_else(PoisonError::into_inner);
        chats.by_id.get(&(platform, id.to_owned())).cloned()
    }

    /// A chat by its user name, with or without the at sign, in any case.
    pub fn chat_by_username(&self, platform: Name, username: &str) -> Option<Arc<Chat>> {
        let chats = self.chats.read().unwrap_or_else(PoisonError::into_inner);
        let id = chats.by_name.get(&(platform, plain_name(username)))?;
        chats.by_id.get(&(platform, id.clone())).cloned()
    }

    /// Registers a chat, replacing one with the same id.
    pub fn add_chat(&self, chat: Chat) -> Result<Arc<Chat>, Refusal> {
        let mut chats = self.chats.write().unwrap_or_else(PoisonError::into_inner);
        if chats.by_id.len() >= CHATS_MAX {
            return Err(Refusal::bad(format!(
                "there are {CHATS_MAX} chats already; reset or restart the sandbox"
            )));
        }
        let chat = Arc::new(chat);
        if !chat.username.is_empty() {
            chats.by_name.insert((chat.platform, plain_name(&chat.username)), chat.id.clone());
        }
        chats.by_id.insert((chat.platform, chat.id.clone()), Arc::clone(&chat));
        Ok(chat)
    }

    /// All chats of a platform, by id.
    pub fn chats(&self, platform: Name) -> Vec<Arc<Chat>> {
        let chats = self.chats.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<_> =
            chats.by_id.values().filter(|chat| chat.platform == platform).cloned().collect();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found
    }
}

fn plain_name(username: &str) -> String {
    username.trim_start_matches('@').to_lowercase()
}

impl Account {
    /// An account of which only the token is known.
    pub fn blank(platform: Name, token: &str) -> Account {
        Account {
            platform,
            token: token.to_owned(),
            id: String::new(),
            kind: String::new(),
            name: String::new(),
            username: String::new(),
            fields: Map::new(),
        }
    }

    /// Reads a control call; `extra` are the fields the platform adds.
    pub fn parse(body: &Map<String, Value>, extra: &[&str]) -> Result<Account, Refusal> {
        known_fields(body, &[ACCOUNT_FIELDS, extra].concat())?;
        let mut account =
            Account::blank(Name::parse(&required_text(body, "platform")?)?, &required_text(body, "token")?);
        if account.token.is_empty() {
            return Err(Refusal::bad("field \"token\" must not be empty"));
        }
        account.id = optional_text(body, "id")?.unwrap_or_default();
        account.kind = optional_text(body, "kind")?.unwrap_or_default();
        account.name = optional_text(body, "name")?.unwrap_or_default();
        account.username =
            optional_text(body, "username")?.unwrap_or_default().trim_start_matches('@').to_owned();
        account.fields = platform_fields(body, extra);
        Ok(account)
    }
}

impl Chat {
    /// A chat of which only id and type are known.
    pub fn blank(platform: Name, id: &str, kind: &str) -> Chat {
        Chat {
            platform,
            id: id.to_owned(),
            kind: kind.to_owned(),
            title: String::new(),
            username: String::new(),
            fields: Map::new(),
        }
    }

    /// Reads a control call; `extra` are the fields the platform adds.
    pub fn parse(body: &Map<String, Value>, extra: &[&str]) -> Result<Chat, Refusal> {
        known_fields(body, &[CHAT_FIELDS, extra].concat())?;
        let platform = Name::parse(&required_text(body, "platform")?)?;
        let kind = optional_text(body, "type")?.unwrap_or_default();
        let mut chat = Chat::blank(platform, &required_text(body, "id")?, &kind);
        chat.title = optional_text(body, "title")?.unwrap_or_default();
        chat.username =
            optional_text(body, "username")?.unwrap_or_default().trim_start_matches('@').to_owned();
        chat.fields = platform_fields(body, extra);
        Ok(chat)
    }
}

fn platform_fields(body: &Map<String, Value>, extra: &[&str]) -> Map<String, Value> {
    body.iter()
        .filter(|(key, _)| extra.contains(&key.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}
