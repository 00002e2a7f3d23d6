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
            Some(text) => opened(&text, listing, ws).ok_or_else(|| {
                ApiError::field(
                    "cursor",
                    "is not one that this listing gave in this workspace; begin without it",
                )
            })?,
        };
        Ok(Asked { fields, limit, after, listing, ws })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
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
