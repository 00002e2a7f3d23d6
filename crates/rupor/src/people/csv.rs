//! Records of a CSV file: quotes, the usual delimiters, a byte order mark. Bytes in, fields out; no file is held.

use std::io::{BufRead, Read};

/// Bytes of one record; more is a file with a quote that nobody closed.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// What spreadsheets put between fields, the most usual first.
const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];

/// The delimiter that a header line uses.
pub(crate) fn delimiter(header: &[u8]) -> u8 {
    let count = |delimiter: u8| header.iter().filter(|byte| **byte == delimiter).count();
    let most = DELIMITERS.into_iter().rev().max_by_key(|delimiter| count(*delimiter));
    most.unwrap_or(b',')
}

/// The next record as it stands in the file, line breaks inside quotes included; empty at the end.
pub(crate) fn record(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    bytes.clear();
    let mut quoted = false;
    loop {
        let before = bytes.len();
        let room = (RECORD_BYTES_MAX + 1).saturating_sub(before) as u64;
        from.by_ref().take(room).read_until(b'\n', bytes)?;
        let line = &bytes[before..];
        if line.is_empty() {
            return Ok(());
        }
        if line.iter().filter(|byte| **byte == b'"').count() % 2 == 1 {
            quoted = !quoted;
        }
        if bytes.len() > RECORD_BYTES_MAX {
            return Ok(());
        }
        if !quoted {
            return Ok(());
        }
    }
}

/// The fields of a record.
pub(crate) fn fields(record: &str, delimiter: u8) -> Result<Vec<String>, String> {
    let record = record.strip_suffix('\n').unwrap_or(record);
    let record = record.strip_suffix('\r').unwrap_or(record);
    let delimiter = char::from(delimiter);
    let mut found = Vec::new();
    let mut field = String::new();
    let mut chars = record.chars().peekable();
    let (mut quoted, mut was_quoted) = (false, false);
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() && !was_quoted => (quoted, was_quoted) = (true, true),
            c if c == delimiter && !quoted => {
                found.push(std::mem::take(&mut field));
                was_quoted = false;
            }
            c => field.push(c),
        }
    }
    if quoted {
        return Err("a quote is opened and never closed".to_owned());
    }
    found.push(field);
    Ok(found)
}

/// A record that every reader of CSV takes, without its line end.
pub(crate) fn written(fields: &[&str]) -> String {
    let quoted = |field: &&str| match field.contains(['"', ',', ';', '\t', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => (*field).to_owned(),
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for said in [["а", "", "1"], ["два, \"три\"", "строка\nи ещё", ";\t"]] {
            assert_eq!(fields(&written(&said), b',').unwrap(), said);
        }
    }

    #[test]
    fn records_and_fields_are_read_as_spreadsheets_write_them() {
        let file = "a;b\r\n1;\"два; \"\"три\"\"\"\r\n\"строка\nи ещё\";4\nпоследняя";
        let mut from = std::io::Cursor::new(file);
        let mut all = Vec::new();
        let mut bytes = Vec::new();
        loop {
            record(&mut from, &mut bytes).unwrap();
            if bytes.is_empty() {
                break;
            }
            all.push(fields(std::str::from_utf8(&bytes).unwrap(), b';').unwrap());
        }
        assert_eq!(
            all,
            [vec!["a", "b"], vec!["1", "два; \"три\""], vec!["строка\nи ещё", "4"], vec!["последняя"]]
        );
        assert!(fields("\"open", b',').is_err());
    }

    #[test]
    fn the_delimiter_is_seen_in_the_header() {
        assert_eq!(delimiter(b"address,name"), b',');
        assert_eq!(delimiter(b"address;name;city"), b';');
        assert_eq!(delimiter(b"address\tname"), b'\t');
        assert_eq!(delimiter(b"address"), b',');
    }
}
