//! Inserts of many rows: a statement costs as much to start as a row to write.

use std::fmt::Write;

use rusqlite::types::{ToSqlOutput, ValueRef};

use super::Tx;
use crate::error::Result;

/// Rows of one statement; what is left over goes one by one.
const ROWS: usize = 16;

/// An INSERT whose first columns are the same in every row of a batch.
pub(super) struct Insert {
    one: String,
    many: String,
}

impl Insert {
    /// `target` is the table with its columns: first those that all rows share, then each row's own.
    pub(super) fn new(target: &str, shared: usize, own: usize) -> Insert {
        let of = |rows: usize| {
            let mut sql = format!("INSERT INTO {target} VALUES ");
            for row in 0..rows {
                let own = shared + row * own..shared + (row + 1) * own;
                for (n, parameter) in (0..shared).chain(own).enumerate() {
                    let before = if n > 0 {
                        ", "
                    } else if row > 0 {
                        "), ("
                    } else {
                        "("
                    };
                    // Writing to a string cannot fail.
                    let _ = write!(sql, "{before}?{}", parameter + 1);
                }
            }
            sql.push(')');
            sql
        };
        Insert { one: of(1), many: of(ROWS) }
    }
}

impl Tx<'_> {
    pub(super) fn insert_rows<'r, T, const SHARED: usize, const OWN: usize>(
        &self,
        insert: &Insert,
        shared: [ValueRef<'r>; SHARED],
        rows: &'r [T],
        own: impl Fn(&'r T) -> [ValueRef<'r>; OWN],
    ) -> Result<()> {
        let (many, rest) = rows.as_chunks::<ROWS>();
        let blocks = many.iter().map(|block| (&insert.many, &block[..]));
        for (sql, rows) in blocks.chain(rest.chunks(1).map(|row| (&insert.one, row))) {
            self.with(sql, |statement| {
                let values = shared.into_iter().chain(rows.iter().flat_map(&own));
                for (n, value) in values.enumerate() {
                    statement.raw_bind_parameter(n + 1, ToSqlOutput::Borrowed(value))?;
                }
                statement.raw_execute()
            })?;
        }
        Ok(())
    }
}
