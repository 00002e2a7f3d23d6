//! Pages of a listing: how many, and from where on. A cursor belongs to its workspace and its listing.

use std::collections::BTreeMap;

use domain::ids::WorkspaceId;
use serde_json::{Value, json};

use super::ApiError;

/// Rows of a page, unless the caller says otherwise, and at most.
const LIMIT: usize = 50;
const LIMIT_MAX: usize = 500;

/// What stands after the question mark, read strictly.
#[derive(Debug)]
pub(super) struct Asked {
    fields: BTreeMap<String, String>,
    pub limit: usize,
    pub after: i64,
    listing: &'static str,
    ws: WorkspaceId,
}

impl Asked {
    /// `known`: the fields of this listing beside `limit` and `cursor`.
    pub(super) fn read(
        query: Option<&str>,
        listing: &'static str,
        ws: WorkspaceId,
        known: &[&str],
    ) -> Result<Asked, ApiError> {
        let mut fields = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) && name != "limit" && name != "cursor" {
                let all = [known, &["limit", "cursor"]].concat().join(", ");
                let shown: String = name.chars().take(50).collect();
                return Err(ApiError::field(&shown, format!("there is no such field here; known are {all}")));
            }
            if fields.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(ApiError::field(&name, "it stands twice"));
            }
        }
        let limit = match fields.remove("limit") {
            None => LIMIT,
            Some(text) => text.parse().ok().filter(|n| (1..=LIMIT_MAX).contains(n)).ok_or_else(|| {
                ApiError::field("limit", format!("must be a whole number from 1 to {LIMIT_MAX}"))
            })?,
        };
        let after = match fields.remove("cursor") {
            None => 0,
            Some(text) => opened(&text, listing, ws).ok_or_else(foreign_cursor)?,
        };
        Ok(Asked { fields, limit, after, listing, ws })
    }

    /// The same of a listing that begins with its newest: older than which one.
    pub(super) fn before(&self) -> Option<i64> {
        Some(self.after).filter(|id| *id > 0)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// The same for a listing whose rows are known by text: also after which one.
    pub(super) fn by_name(
        query: Option<&str>,
        listing: &'static str,
        ws: WorkspaceId,
    ) -> Result<(Asked, String), ApiError> {
        let pairs = || url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let cursors: Vec<String> =
            pairs().filter(|(name, _)| name == "cursor").map(|(_, value)| value.into_owned()).collect();
        let rest: String = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs().filter(|(name, _)| name != "cursor"))
            .finish();
        let asked = Asked::read(Some(&rest), listing, ws, &[])?;
        let after = match &cursors[..] {
            [] => String::new(),
            [one] => opened_by_name(one, listing, ws).ok_or_else(foreign_cursor)?,
            _ => return Err(ApiError::field("cursor", "it stands twice")),
        };
        Ok((asked, after))
    }

    pub(super) fn answer_by_name(&self, rows: Vec<Value>, last: Option<&str>) -> Value {
        let more = rows.len() == self.limit;
        self.answer_up_to(rows, last.filter(|_| more))
    }

    /// A page of rows that were looked for up to this one; `None`: there are no others.
    pub(super) fn answer_up_to(&self, rows: Vec<Value>, last: Option<&str>) -> Value {
        let next = last.map(|last| cursor_by_name(self.listing, self.ws, last));
        json!({"items": rows, "next_cursor": next})
    }

    /// A page as it is answered; `last` is the id of its last row.
    pub(super) fn answer(&self, rows: Vec<Value>, last: Option<i64>) -> Value {
        let more = rows.len() == self.limit;
        let next = last.filter(|_| more).map(|last| cursor(self.listing, self.ws, last));
        json!({"items": rows, "next_cursor": next})
    }
}

fn cursor(listing: &str, ws: WorkspaceId, id: i64) -> String {
    let sealed = blake3::hash(format!("{listing}/{ws}/{id}").as_bytes()).to_hex();
    format!("{id:x}-{}", &sealed[..12])
}

fn opened(text: &str, listing: &str, ws: WorkspaceId) -> Option<i64> {
    let id = i64::from_str_radix(text.split_once('-')?.0, 16).ok()?;
    (cursor(listing, ws, id) == text).then_some(id)
}

fn foreign_cursor() -> ApiError {
    ApiError::field("cursor", "is not one that this listing gave in this workspace; begin without it")
}

fn cursor_by_name(listing: &str, ws: WorkspaceId, name: &str) -> String {
    let sealed = blake3::hash(format!("{listing}/{ws}/{name}").as_bytes()).to_hex();
    let name: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{}", &sealed[..12])
}

fn opened_by_name(text: &str, listing: &str, ws: WorkspaceId) -> Option<String> {
    let (hex, _) = text.split_once('-')?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
    let name = String::from_utf8(bytes?).ok()?;
    (cursor_by_name(listing, ws, &name) == text).then_some(name)
}
