//! The ledger: one row for every request, in the order of arrival, with what became of it.
//! A row is opened when the head of a request is known and closed before its answer leaves,
//! so a client that has an answer always finds the row finished.
//! The oldest rows fall out at the limit.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::platform::{Name, Target};
use crate::reply::Effect;

/// One request.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Milliseconds since the epoch.
    pub at: i64,
    /// The token as it was sent; masked wherever the row is shown.
    #[serde(serialize_with = "crate::guard::serialize_masked_if_any")]
    pub account: Option<String>,
    pub method: String,
    /// A number where the platform's id is one, else a string.
    pub chat: Value,
    /// Did the request take effect.
    pub accepted: bool,
    /// Id of the message that a reader sees because of it; an array for an album.
    pub visible_id: Value,
    pub text: Option<String>,
    pub media: Vec<Value>,
    /// The kind of the fault that was played on it.
    pub fault: Option<&'static str>,
}

/// Where an open row stands.
#[derive(Clone, Copy, Debug)]
pub struct RowId {
    platform: Name,
    number: u64,
}

/// The rows of the three platforms.
#[derive(Debug)]
pub struct Ledger {
    books: [Mutex<Book>; 3],
    rows_max: usize,
}

#[derive(Debug, Default)]
struct Book {
    rows: VecDeque<Row>,
    /// Rows that have fallen out; the number of the first row still here.
    dropped: u64,
}

impl Ledger {
    pub fn new(rows_max: usize) -> Ledger {
        Ledger { books: Default::default(), rows_max: rows_max.max(1) }
    }

    /// Writes a row for a request that has just arrived: not accepted until `close` says so.
    pub fn open(&self, platform: Name, target: &Target, at: i64) -> RowId {
        let mut book = self.book(platform);
        if book.rows.len() >= self.rows_max {
            book.rows.pop_front();
            book.dropped += 1;
        }
        let number = book.dropped + book.rows.len() as u64;
        book.rows.push_back(Row::new(target, at));
        RowId { platform, number }
    }

    /// Writes down what became of it.
    pub fn close(&self, id: RowId, target: Target, effect: Effect, fault: Option<&'static str>) {
        let mut book = self.book(id.platform);
        let Some(index) = id.number.checked_sub(book.dropped) else { return };
        let Some(row) = book.rows.get_mut(index as usize) else { return };
        row.account = target.account;
        row.method = target.method;
        row.chat = target.chat;
        row.text = effect.text.or(target.text);
        row.accepted = effect.accepted;
        row.visible_id = effect.visible_id;
        row.media = effect.media;
        row.fault = fault;
    }

    /// A copy of all rows of one platform.
    pub fn rows(&self, platform: Name) -> Vec<Row> {
        self.book(platform).rows.iter().cloned().collect()
    }

    /// Rows received since the start or the last reset, the fallen ones included.
    pub fn received(&self, platform: Name) -> u64 {
        let book = self.book(platform);
        book.dropped + book.rows.len() as u64
    }

    /// Rows still here.
    pub fn kept(&self, platform: Name) -> usize {
        self.book(platform).rows.len()
    }

    pub fn clear(&self) {
        for platform in Name::ALL {
            let mut book = self.book(platform);
            // Numbers go on, so that a request still in flight cannot close somebody else's row.
            book.dropped += book.rows.len() as u64;
            book.rows.clear();
        }
    }

    fn book(&self, platform: Name) -> MutexGuard<'_, Book> {
        self.books[platform as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    fn new(target: &Target, at: i64) -> Row {
        Row {
            at,
            account: target.account.clone(),
            method: target.method.clone(),
            chat: target.chat.clone(),
            accepted: false,
            visible_id: Value::Null,
            text: target.text.clone(),
            media: Vec::new(),
            fault: None,
        }
    }
}
